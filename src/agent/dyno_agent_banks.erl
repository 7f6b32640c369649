%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_banks).
-moduledoc false.
%% The breakpoints that count, in two trace sessions. A module counts in one of them at a time; the
%% other rests, paused. Taking the figures of a module is to let the other session go on counting
%% and to read the one that rests then, however long that takes: while a session is read its
%% figures stand still, and with one session those calls would be missing (16 % were, on Cowboy at
%% 15,000 processes a second).
%%
%% The first session also sends its owner a message at each sign of a module being loaded:
%% `{trace, _, call, {M, F, A}, Module}` before, `{trace, _, return_from, {erlang, finish_loading,
%% 1}, _}` after.

-export([open/2, flag_processes/1, close/1]).
-export([set/2, narrow/3, functions/2]).
-export([restart/2, pause/2, swap/2, between_ns/1, rested/2, counting/2, reading/3]).
-export_type([banks/0, measure/0]).

-type measure() :: call_count | call_time | call_memory.

-opaque banks() :: #{
    sessions := {trace:session(), trace:session()},
    patterns := [dyno_agent_patterns:pattern()],
    measures := [measure()],
    %% Which session a module counts in; the first where it is not said.
    current := #{module() => 1 | 2},
    swaps := non_neg_integer(),
    %% For how long each module was in between the two, native.
    between := #{module() => non_neg_integer()}
}.

%% The loader replaces a small module within 100 us of prepare_loading: the calls that lead to it
%% are an earlier warning.
-define(BEFORE_LOADING, [
    {erlang, prepare_loading, 2},
    {code, load_file, 1},
    {code, load_binary, 3},
    {code, purge, 1},
    {code, soft_purge, 1}
]).

-doc "Both sessions, the calling process's; every module that comes is counted from its first call.".
-spec open([dyno_agent_patterns:pattern()], [measure()]) -> banks().
open(Patterns, Measures) ->
    First = trace:session_create(dyno_counters_1, self(), []),
    Second = trace:session_create(dyno_counters_2, self(), []),
    _ = [trace:function(S, on_load, true, Measures) || S <- [First, Second], Measures =/= []],
    %% The match specification picks the module out of the arguments; the arity flag keeps the
    %% code itself from being copied.
    lists:foreach(
        fun({M, F, A}) ->
            Arguments = ['$1' | lists:duplicate(A - 1, '_')],
            ByModule = [{Arguments, [{is_atom, '$1'}], [{message, '$1'}]}],
            _ = trace:function(First, {M, F, A}, ByModule, [])
        end,
        ?BEFORE_LOADING
    ),
    AtReturn = [{'_', [], [{message, false}, {return_trace}]}],
    _ = trace:function(First, {erlang, finish_loading, 1}, AtReturn, []),
    #{sessions => {First, Second}, patterns => Patterns, measures => Measures, current => #{}, swaps => 0, between => #{}}.

-doc "Has all processes counted, those to come as well.".
-spec flag_processes(banks()) -> ok.
flag_processes(Banks) ->
    lists:foreach(fun(S) -> trace:process(S, all, true, [call, arity]) end, sessions(Banks)).

sessions(#{sessions := Sessions}) -> tuple_to_list(Sessions).

-doc "Destroys both sessions, and with them every breakpoint.".
-spec close(banks()) -> ok.
close(Banks) ->
    lists:foreach(fun trace:session_destroy/1, sessions(Banks)).

-doc "Sets the breakpoints that the patterns ask for in a module; how many.".
-spec set(module(), banks()) -> non_neg_integer().
set(_Module, #{measures := []}) ->
    0;
set(Module, #{sessions := {First, Second}} = Banks) ->
    Count = each(Module, First, true, Banks),
    _ = each(Module, Second, true, Banks),
    _ = each(Module, Second, pause, Banks),
    Count.

%% Does one thing to all functions of a module that are meant.
each(Module, Session, Action, #{patterns := Patterns, measures := Measures}) ->
    case dyno_agent_patterns:functions(Module, Patterns) of
        all -> trace:function(Session, {Module, '_', '_'}, Action, Measures);
        Some -> each_of(Some, Session, Action, Measures)
    end.

each_of([], _Session, _Action, _Measures) ->
    0;
each_of([Function | Rest], Session, Action, Measures) ->
    trace:function(Session, Function, Action, Measures) +
        each_of(Rest, Session, Action, Measures).

-doc """
Takes the breakpoints away that `on_load` has set beyond the patterns in a module that has come:
all of them where the module is not wanted.
""".
-spec narrow(module(), wanted | unwanted, banks()) -> ok.
narrow(_Module, _Wanted, #{measures := []}) ->
    ok;
narrow(Module, unwanted, #{measures := Measures} = Banks) ->
    lists:foreach(
        fun(S) -> trace:function(S, {Module, '_', '_'}, false, Measures) end,
        sessions(Banks)
    );
narrow(Module, wanted, #{patterns := Patterns, measures := Measures} = Banks) ->
    case dyno_agent_patterns:functions(Module, Patterns) of
        all ->
            ok;
        Some ->
            Others = all_functions(Module) -- Some,
            lists:foreach(
                fun({S, F}) -> trace:function(S, F, false, Measures) end,
                [{S, F} || S <- sessions(Banks), F <- Others]
            )
    end.

-doc "The functions of a module that the patterns mean.".
-spec functions(module(), banks()) -> [mfa()].
functions(Module, #{patterns := Patterns}) ->
    case dyno_agent_patterns:functions(Module, Patterns) of
        all -> all_functions(Module);
        Some -> Some
    end.

%% A module can be deleted while it is measured.
all_functions(Module) ->
    try
        [{Module, F, A} || {F, A} <- erlang:get_module_info(Module, functions)]
    catch
        error:badarg -> []
    end.

-doc "Sets a module's figures to zero and lets it count.".
-spec restart(module(), banks()) -> ok.
restart(Module, Banks) ->
    _ = each(Module, counting(Module, Banks), restart, Banks),
    ok.

-doc "Stops a module's counting.".
-spec pause(module(), banks()) -> ok.
pause(Module, Banks) ->
    _ = each(Module, counting(Module, Banks), pause, Banks),
    ok.

-doc """
Lets a module go on counting from zero in the other session; `rested/2` is to be read then.

Stopping the one and starting the other are two changes of the code, some 100 us from one another,
more on a busy machine. In every other swap the calls in between are lost, and in the others they
count twice: in the mean the counts are right.
""".
-spec swap(module(), banks()) -> banks().
swap(Module, #{current := Current, swaps := Swaps, between := Between} = Banks) ->
    Next = Banks#{
        current := Current#{Module => 3 - maps:get(Module, Current, 1)}, swaps := Swaps + 1
    },
    {First, Second} =
        case Swaps rem 2 of
            0 -> {fun() -> pause(Module, Banks) end, fun() -> restart(Module, Next) end};
            1 -> {fun() -> restart(Module, Next) end, fun() -> pause(Module, Banks) end}
        end,
    %% Each takes effect somewhere in its call: between the two lies both calls' time at most.
    Start = erlang:monotonic_time(),
    First(),
    Second(),
    Took = erlang:monotonic_time() - Start,
    Next#{between := maps:update_with(Module, fun(Sum) -> Sum + Took end, Took, Between)}.

-doc "The longest that a module was between the sessions since the last call; begins anew.".
-spec between_ns(banks()) -> {non_neg_integer(), banks()}.
between_ns(#{between := Between} = Banks) ->
    Longest = lists:max([0 | maps:values(Between)]),
    {erlang:convert_time_unit(Longest, native, nanosecond), Banks#{between := #{}}}.

-doc "The session that a module counts in.".
-spec counting(module(), banks()) -> trace:session().
counting(Module, #{sessions := Sessions, current := Current}) ->
    element(maps:get(Module, Current, 1), Sessions).

-doc "The session that a module counted in before the last swap.".
-spec rested(module(), banks()) -> trace:session().
rested(Module, #{sessions := Sessions, current := Current}) ->
    element(3 - maps:get(Module, Current, 1), Sessions).

-doc "A function's figures in a session where it is paused.".
-spec reading(trace:session(), mfa(), banks()) -> dyno_agent_tally:reading().
reading(Session, MFA, #{measures := Measures}) ->
    Time = info(Session, MFA, call_time, Measures),
    Memory = info(Session, MFA, call_memory, Measures),
    Counts = [
        case info(Session, MFA, call_count, Measures) of
            Count when is_integer(Count) -> Count;
            [] -> 0
        end,
        lists:sum([Calls || {_, Calls, _, _} <- Time]),
        lists:sum([Calls || {_, Calls, _} <- Memory])
    ],
    #{calls => lists:max(Counts), words => lists:sum([W || {_, _, W} <- Memory]), time => Time}.

info(Session, MFA, Item, Measures) ->
    case lists:member(Item, Measures) of
        true ->
            case trace:info(Session, MFA, Item) of
                {Item, Value} when is_list(Value); is_integer(Value) -> Value;
                %% Not measured any more: deleted, or just replaced.
                _ -> []
            end;
        false ->
            []
    end.
