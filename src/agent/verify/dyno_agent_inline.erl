%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_inline).
-moduledoc """
What woven code calls (`m:dyno_inline`): the monitors run in the process that they monitor, before
it does what they are told of.

Until dyno_agent_inline_verify starts them a call costs a look-up. Where `stop` is configured, a
process that is about to break a property exits with `{dyno_verify, Report}` instead, before the
message is sent.

Unlike under tracing, `receive` is a message that a clause took, not one that arrived.
""".

-export([send/2, send/3, received/1, spawned/3, run/2, enter/4]).
-export([start/1, stop/0]).

-doc "What runs in each process: the partitions, yet without any, and where its effects go.".
-type config() :: #{
    partitions := dyno_agent_partition:t(), verdicts := dyno_agent_verdicts:t(), stop := boolean()
}.

-define(KEY, ?MODULE).

-doc "Monitors run from now on, in processes that start from now on.".
-spec start(config()) -> ok.
start(Config) -> persistent_term:put(?KEY, Config).

-doc "They run no more.".
-spec stop() -> ok.
stop() ->
    _ = persistent_term:erase(?KEY),
    ok.

-doc "In place of `To ! Message` and erlang:send/2.".
-spec send(term(), term()) -> term().
send(To, Message) ->
    ok = event({send, Message, To}),
    erlang:send(To, Message).

-doc "In place of erlang:send/3.".
-spec send(term(), term(), list()) -> ok | nosuspend | noconnect.
send(To, Message, Options) ->
    ok = event({send, Message, To}),
    erlang:send(To, Message, Options).

-doc "A clause of a receive was taken.".
-spec received(term()) -> ok.
received(Message) -> event({'receive', Message}).

-doc "In place of a function that spawns: its module, its name, its arguments.".
-spec spawned(erlang | proc_lib, atom(), [term()]) -> term().
spawned(Module, Function, Arguments) ->
    {MFA, Woven} = woven(Arguments),
    Result = apply(Module, Function, Woven),
    case {child(Result), MFA} of
        {none, _} -> ok;
        {_, none} -> ok;
        {Child, _} -> ok = event({spawn, Child, MFA})
    end,
    Result.

woven([Fun | Rest]) when is_function(Fun, 0) ->
    run_by({erlang, apply, [Fun, []]}, Rest);
woven([M, F, A | Rest]) when is_atom(M), is_atom(F), is_list(A) ->
    run_by({M, F, A}, Rest);
%% In another node, which may have no such code.
woven(Arguments) ->
    {none, Arguments}.

run_by(MFA, Rest) ->
    {MFA, [?MODULE, run, [self(), MFA] | Rest]}.

child(Pid) when is_pid(Pid) -> Pid;
child({Pid, _}) when is_pid(Pid) -> Pid;
child({ok, Pid}) when is_pid(Pid) -> Pid;
child(_Other) -> none.

-doc false.
-spec run(pid(), mfa() | {module(), atom(), [term()]}) -> term().
run(Parent, {M, F, A} = MFA) ->
    ok = event({spawned, Parent, MFA}),
    try apply(M, F, A) of
        Result ->
            ok = event({exit, normal}),
            Result
    catch
        exit:{dyno_verify, _} = Reason:Stack ->
            erlang:raise(exit, Reason, Stack);
        Class:Reason:Stack ->
            ok = event({exit, reason(Class, Reason, Stack)}),
            erlang:raise(Class, Reason, Stack)
    end.

reason(exit, Reason, _Stack) -> Reason;
reason(error, Reason, Stack) -> {Reason, Stack};
reason(throw, Value, Stack) -> {{nocatch, Value}, Stack}.

-doc "In place of a callback of gen_server or gen_statem: module, name, arguments, what it was.".
-spec enter(module(), atom(), [term()], fun((...) -> Result)) -> Result.
enter(Module, init, [Arguments], Callback) ->
    Parent = hd([P || P <- get('$ancestors'), is_pid(P)] ++ [self()]),
    ok = event({spawned, Parent, {Module, init, [Arguments]}}),
    Callback(Arguments);
enter(_Module, handle_call, [Request, From, _State] = Arguments, Callback) ->
    taken({call, From}, Request, Arguments, Callback);
enter(_Module, handle_cast, [Request, _State] = Arguments, Callback) ->
    taken(cast, Request, Arguments, Callback);
enter(_Module, handle_info, [Message, _State] = Arguments, Callback) ->
    taken(info, Message, Arguments, Callback);
enter(_Module, terminate, [Reason | _] = Arguments, Callback) ->
    Result = apply(Callback, Arguments),
    ok = event({exit, Reason}),
    Result;
enter(_Module, handle_event, [Type, Content, _State, _Data] = Arguments, Callback) ->
    taken(Type, Content, Arguments, Callback);
%% The function of a state, or another one.
enter(_Module, _Function, [Type, Content, _Data] = Arguments, Callback) ->
    taken(Type, Content, Arguments, Callback).

%% An event of gen_statem that was postponed is taken again.
taken(Type, Content, Arguments, Callback) ->
    ok =
        case Type of
            {call, From} -> event({'receive', {'$gen_call', From, Content}});
            cast -> event({'receive', {'$gen_cast', Content}});
            info -> event({'receive', Content});
            _ -> ok
        end,
    Result = apply(Callback, Arguments),
    _ = [
        event({send, {Tag, Reply}, Pid})
     || {reply, {Pid, Tag}, Reply} <- lists:flatten([actions(Result, Type)])
    ],
    Result.

actions({reply, Reply, _State}, {call, From}) -> {reply, From, Reply};
actions({reply, Reply, _State, _Action}, {call, From}) -> {reply, From, Reply};
actions({stop, _Reason, Reply, _State}, {call, From}) -> {reply, From, Reply};
actions({next_state, _State, _Data, Actions}, _Type) -> Actions;
actions({keep_state, _Data, Actions}, _Type) -> Actions;
actions({keep_state_and_data, Actions}, _Type) -> Actions;
actions({repeat_state, _Data, Actions}, _Type) -> Actions;
actions({repeat_state_and_data, Actions}, _Type) -> Actions;
actions({stop_and_reply, _Reason, Replies}, _Type) -> Replies;
actions({stop_and_reply, _Reason, Replies, _Data}, _Type) -> Replies;
actions(_Result, _Type) -> [].

event(Event) ->
    case persistent_term:get(?KEY, none) of
        none -> ok;
        Config -> event(Event, Config)
    end.

%% A process has partitions from `spawned` on, while monitors want it.
event(Event, #{verdicts := Verdicts, partitions := None} = Config) ->
    case {get(?KEY), Event} of
        {undefined, {spawned, _, _}} -> event(Event, None, Config);
        {undefined, _} -> ok;
        {Partitions, _} ->
            ok = dyno_agent_verdicts:event(1, Verdicts),
            event(Event, Partitions, Config)
    end.

event(Event, Partitions, #{verdicts := Verdicts, stop := Stop}) ->
    TimeNs = erlang:monotonic_time(nanosecond),
    {Next, Effects} = dyno_agent_partition:event(self(), Event, TimeNs, Partitions),
    _ =
        case dyno_agent_partition:is_open(self(), Next) of
            true -> put(?KEY, Next);
            false -> erase(?KEY)
        end,
    ok = dyno_agent_verdicts:effects(Effects, 1, Verdicts),
    case [Report || {verdict, #{verdict := no} = Report} <- Effects] of
        [Report | _] when Stop -> exit({dyno_verify, Report});
        _ -> ok
    end.
