%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_inline_stub).
-moduledoc false.
%% The functions added to an instrumented module: they need nothing of dyno, and leave nothing of
%% dyno on a process's stack. Each event looks up one persistent term, a function while dyno
%% monitors (dyno_agent_inline).

-export([name/1, forms/1]).

%% Whoever has just read the term when dyno leaves finds no function any more.
-define(SOURCE, """
-compile({nowarn_unused_function, [
    {'-dyno_event-', 1}, {'-dyno_send-', 2}, {'-dyno_send-', 3}, {'-dyno_received-', 1},
    {'-dyno_spawned-', 3}, {'-dyno_woven-', 1}, {'-dyno_run_by-', 2}, {'-dyno_child-', 1},
    {'-dyno_reason-', 3}, {'-dyno_enter-', 4}, {'-dyno_taken-', 4}, {'-dyno_actions-', 2},
    {'-dyno_requested-', 2}, {'-dyno_answered-', 4}
]}).
-export(['-dyno_run-'/2]).
'-dyno_event-'(Event) ->
    case persistent_term:get(dyno_inline, none) of
        none ->
            ok;
        Hook ->
            try Hook(Event) of
                _ -> ok
            catch
                error:undef -> ok
            end
    end.
'-dyno_send-'(To, Message) ->
    '-dyno_event-'({send, Message, To}),
    erlang:send(To, Message).
'-dyno_send-'(To, Message, Options) ->
    '-dyno_event-'({send, Message, To}),
    erlang:send(To, Message, Options).
'-dyno_received-'(Message) ->
    '-dyno_event-'({'receive', Message}).
'-dyno_spawned-'(erlang, spawn_request, Arguments) ->
    case '-dyno_woven-'(Arguments) of
        {none, _} -> erlang:apply(erlang, spawn_request, Arguments);
        {MFA, [M, F, A]} -> '-dyno_requested-'(MFA, [M, F, A, []]);
        {MFA, Woven} -> '-dyno_requested-'(MFA, Woven)
    end;
'-dyno_spawned-'(Module, Function, Arguments) ->
    {MFA, Woven} = '-dyno_woven-'(Arguments),
    Result = erlang:apply(Module, Function, Woven),
    case {'-dyno_child-'(Result), MFA} of
        {none, _} -> ok;
        {_, none} -> ok;
        {Child, _} -> '-dyno_event-'({spawn, Child, MFA})
    end,
    Result.
'-dyno_requested-'(MFA, [M, F, A, Options]) when erlang:is_list(Options) ->
    Own = erlang:make_ref(),
    Others = [
        Option
     || Option <- Options,
        not erlang:is_tuple(Option) orelse
            (erlang:element(1, Option) =/= reply andalso erlang:element(1, Option) =/= reply_tag)
    ],
    Request = erlang:spawn_request(M, F, A, [{reply, yes}, {reply_tag, Own} | Others]),
    Tag = proplists:get_value(reply_tag, Options, spawn_reply),
    Wanted = proplists:get_value(reply, Options, yes),
    receive
        {Own, Request, ok, Child} ->
            '-dyno_event-'({spawn, Child, MFA}),
            '-dyno_answered-'(Wanted, success_only, {Tag, Request, ok, Child}, Request);
        {Own, Request, error, Reason} ->
            '-dyno_answered-'(Wanted, error_only, {Tag, Request, error, Reason}, Request)
    end.
'-dyno_answered-'(Wanted, Which, Answer, Request) ->
    case Wanted =:= yes orelse Wanted =:= Which of
        true -> erlang:send(erlang:self(), Answer);
        false -> ok
    end,
    Request.
'-dyno_woven-'([Fun | Rest]) when erlang:is_function(Fun, 0) ->
    '-dyno_run_by-'({erlang, apply, [Fun, []]}, Rest);
'-dyno_woven-'([M, F, A | Rest]) when erlang:is_atom(M), erlang:is_atom(F), erlang:is_list(A) ->
    '-dyno_run_by-'({M, F, A}, Rest);
'-dyno_woven-'(Arguments) ->
    {none, Arguments}.
'-dyno_run_by-'(MFA, Rest) ->
    {MFA, [?MODULE, '-dyno_run-', [erlang:self(), MFA] | Rest]}.
'-dyno_child-'(Pid) when erlang:is_pid(Pid) -> Pid;
'-dyno_child-'({Pid, _}) when erlang:is_pid(Pid) -> Pid;
'-dyno_child-'({ok, Pid}) when erlang:is_pid(Pid) -> Pid;
'-dyno_child-'(_) -> none.
'-dyno_run-'(Parent, {M, F, A} = MFA) ->
    '-dyno_event-'({spawned, Parent, MFA}),
    try erlang:apply(M, F, A) of
        Result ->
            '-dyno_event-'({exit, normal}),
            Result
    catch
        exit:{dyno_verify, _} = Reason:Stack ->
            erlang:raise(exit, Reason, Stack);
        Class:Reason:Stack ->
            '-dyno_event-'({exit, '-dyno_reason-'(Class, Reason, Stack)}),
            erlang:raise(Class, Reason, Stack)
    end.
'-dyno_reason-'(exit, Reason, _) -> Reason;
'-dyno_reason-'(error, Reason, Stack) -> {Reason, Stack};
'-dyno_reason-'(throw, Value, Stack) -> {{nocatch, Value}, Stack}.
'-dyno_enter-'(Module, init, [Arguments], Callback) ->
    Ancestors = case erlang:get('$ancestors') of undefined -> []; List -> List end,
    Parent = erlang:hd([P || P <- Ancestors, erlang:is_pid(P)] ++ [erlang:self()]),
    '-dyno_event-'({spawned, Parent, {Module, init, [Arguments]}}),
    Callback(Arguments);
'-dyno_enter-'(_, handle_call, [Request, From, _] = Arguments, Callback) ->
    '-dyno_taken-'({call, From}, Request, Arguments, Callback);
'-dyno_enter-'(_, handle_cast, [Request, _] = Arguments, Callback) ->
    '-dyno_taken-'(cast, Request, Arguments, Callback);
'-dyno_enter-'(_, handle_info, [Message, _] = Arguments, Callback) ->
    '-dyno_taken-'(info, Message, Arguments, Callback);
'-dyno_enter-'(_, terminate, [Reason | _] = Arguments, Callback) ->
    Result = erlang:apply(Callback, Arguments),
    '-dyno_event-'({exit, Reason}),
    Result;
'-dyno_enter-'(_, handle_event, [Type, Content, _, _] = Arguments, Callback) ->
    '-dyno_taken-'(Type, Content, Arguments, Callback);
'-dyno_enter-'(_, _, [Type, Content, _] = Arguments, Callback) ->
    '-dyno_taken-'(Type, Content, Arguments, Callback).
'-dyno_taken-'(Type, Content, Arguments, Callback) ->
    case Type of
        {call, From} -> '-dyno_event-'({'receive', {'$gen_call', From, Content}});
        cast -> '-dyno_event-'({'receive', {'$gen_cast', Content}});
        info -> '-dyno_event-'({'receive', Content});
        _ -> ok
    end,
    Result = erlang:apply(Callback, Arguments),
    [
        '-dyno_event-'({send, {Tag, Reply}, Pid})
     || {reply, {Pid, Tag}, Reply} <- lists:flatten(['-dyno_actions-'(Result, Type)])
    ],
    Result.
'-dyno_actions-'({reply, Reply, _}, {call, From}) -> {reply, From, Reply};
'-dyno_actions-'({reply, Reply, _, _}, {call, From}) -> {reply, From, Reply};
'-dyno_actions-'({stop, _, Reply, _}, {call, From}) -> {reply, From, Reply};
'-dyno_actions-'({next_state, _, _, Actions}, _) -> Actions;
'-dyno_actions-'({keep_state, _, Actions}, _) -> Actions;
'-dyno_actions-'({keep_state_and_data, Actions}, _) -> Actions;
'-dyno_actions-'({repeat_state, _, Actions}, _) -> Actions;
'-dyno_actions-'({repeat_state_and_data, Actions}, _) -> Actions;
'-dyno_actions-'({stop_and_reply, _, Replies}, _) -> Replies;
'-dyno_actions-'({stop_and_reply, _, Replies, _}, _) -> Replies;
'-dyno_actions-'(_, _) -> [].
""").

-spec name(event | send | received | spawned | run | enter) -> atom().
name(event) -> '-dyno_event-';
name(send) -> '-dyno_send-';
name(received) -> '-dyno_received-';
name(spawned) -> '-dyno_spawned-';
name(run) -> '-dyno_run-';
name(enter) -> '-dyno_enter-'.

-spec forms(module()) -> {[erl_parse:abstract_form()], [erl_parse:abstract_form()]}.
forms(Module) ->
    {ok, Tokens, _} = erl_scan:string(?SOURCE),
    Anno = erl_anno:set_generated(true, erl_anno:new(1)),
    Forms = [
        erl_parse:map_anno(fun(_) -> Anno end, Form)
     || Form <- parsed(named(Tokens, Module), [])
    ],
    lists:partition(fun(Form) -> element(1, Form) =:= attribute end, Forms).

%% There is no preprocessor.
named([{'?', Anno}, {var, _, 'MODULE'} | Rest], Module) ->
    [{atom, Anno, Module} | named(Rest, Module)];
named([Token | Rest], Module) ->
    [Token | named(Rest, Module)];
named([], _Module) ->
    [].

parsed([], []) ->
    [];
parsed([{dot, _} = Dot | Rest], Form) ->
    {ok, Parsed} = erl_parse:parse_form(lists:reverse([Dot | Form])),
    [Parsed | parsed(Rest, [])];
parsed([Token | Rest], Form) ->
    parsed(Rest, [Token | Form]).
