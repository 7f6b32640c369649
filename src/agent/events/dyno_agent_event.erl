%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_event).
-moduledoc false.
%% Events of processes as data, made from trace messages.
%%
%% Only events of the same process are ordered: a child's first event can arrive before its parent's
%% `spawn`. The first event of a process that starts under tracing is always `spawned`.
%%
%% `receive` is seen when a message arrives, not when a clause takes it. A message to an ended
%% process still counts as sent. Actions inside drivers and NIFs are not seen.
%%
%% `normal/1` replaces OTP's start function by the process's own: a gen_server of the module `shop`
%% is `{shop, init, [Args]}`, and a fun is the function that contains it.

-export([
    from_trace/1, normal/1, description/2, describe/1, mfa/1, traffic/1, time_ns/1, written_in/3
]).
-export([is_waiting_task/1, task_starts/0]).
-export_type([event/0, mfargs/0, process/0, traffic/0]).

-doc "A function and its arguments; for a fun, the function that contains it, with its arity.".
-type mfargs() :: {module(), atom(), [term()] | arity()}.

-type event() ::
    %% Always the first event of a process that starts under tracing.
    {spawned, Parent :: pid(), mfargs()}
    | {spawn, Child :: pid(), mfargs()}
    | {exit, Reason :: term()}
    | {send, Message :: term(), To :: term()}
    %% `timeout` if a receive timed out.
    | {'receive', Message :: term()}
    | {call, {module(), atom(), Arguments :: [term()]}}
    | {return, mfa(), Value :: term()}
    | {exception, mfa(), {Class :: atom(), Reason :: term()}}
    | {register, Name :: atom()}.

-type process() :: #{
    pid := pid(),
    initial_call := mfa(),
    behaviour => atom(),
    name => atom(),
    label => term(),
    parent => pid(),
    %% The process ran before monitoring began.
    partial := boolean(),
    %% Of a partial process.
    since_ns => integer()
}.

-type traffic() ::
    {call, Request :: term(), From :: term()}
    | {cast, Request :: term()}
    | {reply, Tag :: term(), Reply :: term()}
    | {info, Message :: term()}
    | timeout.

-doc """
The process, event and monotonic time (ns, or 0) of a trace message, or `other`. Spawned functions
stay as the runtime gives them, for `description/2` and `normal/1`.
""".
-spec from_trace(term()) -> {pid(), event(), TimeNs :: integer()} | other.
from_trace({trace_ts, Pid, 'receive', Message, Time}) ->
    {Pid, {'receive', Message}, time_ns(Time)};
from_trace({trace_ts, Pid, send, Message, To, Time}) ->
    {Pid, {send, Message, To}, time_ns(Time)};
from_trace({trace_ts, Pid, Kind, A, Time}) ->
    of_process(Pid, event(Kind, A), Time);
from_trace({trace_ts, Pid, Kind, A, B, Time}) ->
    of_process(Pid, event(Kind, A, B), Time);
from_trace({trace, Pid, Kind, A}) ->
    of_process(Pid, event(Kind, A), 0);
from_trace({trace, Pid, Kind, A, B}) ->
    of_process(Pid, event(Kind, A, B), 0);
from_trace(_Other) ->
    other.

of_process(_Pid, other, _Time) -> other;
of_process(Pid, Event, Time) -> {Pid, Event, time_ns(Time)}.

event('receive', Message) -> {'receive', Message};
event(exit, Reason) -> {exit, Reason};
event(call, {_, _, Args} = MFA) when is_list(Args) -> {call, MFA};
event(register, Name) -> {register, Name};
event(_Kind, _What) -> other.

event(send, Message, To) -> {send, Message, To};
event(send_to_non_existing_process, Message, To) -> {send, Message, To};
event(spawned, Parent, MFArgs) -> {spawned, Parent, MFArgs};
event(spawn, Child, MFArgs) -> {spawn, Child, MFArgs};
event(return_from, MFA, Value) -> {return, MFA, Value};
event(exception_from, MFA, Exception) -> {exception, MFA, Exception};
event(_Kind, _A, _B) -> other.

-spec time_ns(integer() | {integer(), integer()}) -> integer().
time_ns({Time, _Unique}) -> erlang:convert_time_unit(Time, native, nanosecond);
time_ns(Time) -> erlang:convert_time_unit(Time, native, nanosecond).

-spec normal(event()) -> event().
normal({spawned, Parent, MFArgs}) -> {spawned, Parent, mfargs(MFArgs)};
normal({spawn, Child, MFArgs}) -> {spawn, Child, mfargs(MFArgs)};
normal(Event) -> Event.

mfargs(Started) -> element(2, started(Started)).

-spec description(pid(), event()) -> process().
description(Pid, {spawned, Parent, Started}) ->
    {Behaviour, MFArgs, Name} = started(Started),
    Known = #{
        pid => Pid,
        initial_call => mfa(MFArgs),
        parent => Parent,
        partial => false
    },
    with(behaviour, Behaviour, with(name, Name, Known)).

with(_Key, none, Known) -> Known;
with(Key, Value, Known) -> Known#{Key => Value}.

-doc """
Describes a running process; `gone` if the process has ended. The runtime does not keep the fun that
a process was spawned with: without proc_lib the function is `{erlang, apply, 2}`.

## Cost
One signal, which wakes the process.
""".
-spec describe(pid()) -> process() | gone.
describe(Pid) ->
    Items = [initial_call, {dictionary, '$initial_call'}, registered_name, label, parent],
    case process_info(Pid, Items) of
        undefined ->
            gone;
        [{_, Call}, {_, Initial}, {_, Name}, {_, Label}, {_, Parent}] ->
            {Behaviour, MFA} = initial(Initial, Call),
            maps:from_list(
                [
                    {pid, Pid},
                    {initial_call, MFA},
                    {partial, true},
                    {since_ns, erlang:monotonic_time(nanosecond)}
                ] ++
                    [{behaviour, Behaviour} || Behaviour =/= none] ++
                    [{name, Name} || is_atom(Name)] ++
                    [{label, Label} || Label =/= undefined] ++
                    [{parent, Parent} || is_pid(Parent)]
            )
    end.

%% A supervisor's is {supervisor, Module, 1}.
initial({supervisor, Module, 1}, _Call) -> {supervisor, {Module, init, 1}};
initial({M, F, A}, _Call) when is_atom(M), is_atom(F) -> {none, fun_or_function({M, F, A})};
initial(_None, Call) -> {none, Call}.

fun_or_function({M, F, A}) ->
    mfa(written_in(M, F, lists:duplicate(A, '_'))).

-spec is_waiting_task(event()) -> boolean().
is_waiting_task({spawned, _, {proc_lib, init_p, [_, _, M, F, Args]}}) -> is_reply(M, F, Args);
is_waiting_task({spawned, _, {M, F, Args}}) -> is_reply(M, F, Args);
is_waiting_task(_Event) -> false.

is_reply('Elixir.Task.Supervised', reply, Args) -> is_list(Args);
is_reply(_M, _F, _Args) -> false.

-doc "The function that such a task calls then; the last argument is the task's function.".
-spec task_starts() -> {module(), atom(), '_'}.
task_starts() -> {'Elixir.Task.Supervised', invoke_mfa, '_'}.

-spec mfa(mfargs()) -> mfa().
mfa({M, F, Args}) when is_list(Args) -> {M, F, length(Args)};
mfa({M, F, Arity}) -> {M, F, Arity}.

started({proc_lib, init_p, [_Parent, _Ancestors, M, F, Args]}) ->
    started({M, F, Args});
started({proc_lib, init_p, [_Parent, _Ancestors, Fun]}) when is_function(Fun) ->
    {none, of_fun(Fun, []), none};
%% Woven (dyno_inline_stub).
started({_, '-dyno_run-', [_Parent, {_, _, _} = MFA]}) ->
    started(MFA);
started({gen, init_it, [Behaviour, _Starter, _Parent, Mod, Args, _Options]}) ->
    behaving(Behaviour, Mod, Args, none);
started({gen, init_it, [Behaviour, _Starter, _Parent, {local, Name}, Mod, Args, _Options]}) ->
    behaving(Behaviour, Mod, Args, Name);
started({gen, init_it, [Behaviour, _Starter, _Parent, _Name, Mod, Args, _Options]}) ->
    behaving(Behaviour, Mod, Args, none);
started({erts_internal, Init, [{M, F, Args}]}) when
    Init =:= spawn_init; Init =:= dist_spawn_init
->
    started({M, F, Args});
started({erlang, apply, [Fun, Args]}) when is_function(Fun) ->
    {none, of_fun(Fun, Args), none};
started({erlang, apply, [M, F, Args]}) when is_atom(M) ->
    started({M, F, Args});
started({'Elixir.Task.Supervised', _, [_ | _] = Args} = MFArgs) ->
    case lists:last(Args) of
        {M, F, Of} when is_atom(M), is_atom(F), is_list(Of) ->
            {_, Runs, Name} = started({M, F, Of}),
            {task, Runs, Name};
        _ ->
            {none, MFArgs, none}
    end;
started(MFArgs) ->
    {none, MFArgs, none}.

behaving(gen_server, supervisor, {Name, Mod, Args}, Registered) ->
    {supervisor, {Mod, init, [Args]}, supervisor_name(Name, Registered)};
behaving(gen_event, _Mod, _Args, Name) ->
    {gen_event, {gen_event, init, []}, Name};
behaving(Behaviour, Mod, Args, Name) ->
    {Behaviour, {Mod, init, [Args]}, Name}.

supervisor_name({local, Name}, _) -> Name;
supervisor_name(_, Registered) -> Registered.

of_fun(Fun, Args) ->
    {module, Module} = erlang:fun_info(Fun, module),
    {name, Name} = erlang:fun_info(Fun, name),
    case erlang:fun_info(Fun, type) of
        {type, external} -> {Module, Name, Args};
        {type, local} -> written_in(Module, Name, Args)
    end.

-doc "The function that contains a fun, from the fun's name: start/2 for '-start/2-fun-0-'.".
-spec written_in(module(), atom(), [term()]) -> mfargs().
written_in(Module, Name, Args) ->
    maybe
        [$- | Text] ?= atom_to_list(Name),
        [Head, Rest] ?= string:split(Text, "-fun-", trailing),
        [Function, Arity] ?= string:split(outermost(Head), "/", trailing),
        {N, ""} ?= string:to_integer(Arity),
        true ?= Rest =/= [],
        {Module, list_to_atom(Function), N}
    else
        _ -> {Module, Name, Args}
    end.

%% A fun within a fun or a comprehension.
outermost(Head) ->
    [Outer | _] = string:split(Head, "-", leading),
    case lists:member($/, Outer) of
        true -> Outer;
        false -> Head
    end.

-doc "Classifies a message of gen_server, gen_statem or gen_event, or a reply.".
-spec traffic(term()) -> traffic().
traffic(timeout) -> timeout;
traffic({'$gen_call', From, Request}) -> {call, Request, From};
traffic({'$gen_cast', Request}) -> {cast, Request};
traffic({notify, Event}) -> {cast, Event};
traffic({_Pid, From, {sync_notify, Event}}) -> {call, Event, From};
traffic({[alias | Tag], Reply}) when is_reference(Tag) -> {reply, Tag, Reply};
traffic({Tag, Reply}) when is_reference(Tag) -> {reply, Tag, Reply};
traffic(Message) -> {info, Message}.
