%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_call_sessions).
-moduledoc false.
%% The breakpoints that count, in two trace sessions. A module counts in one of them at a time.
%% Taking its figures is to let the other session go on counting and to read the one that rests
%% then, however long that takes: while a session is read its figures stand still, and with one
%% session those calls would be missing (16 % were, on Cowboy at 15,000 processes a second). What
%% was read is cleared: even a breakpoint that is paused costs each call 10 ns, and to set it again
%% takes no longer than to wake it. For the same reason processes are flagged in the second session
%% when it is needed.
%%
%% Never both at once: where two sessions count a function, the runtime notices its return in one of
%% them only. In the other the process seems to stay in it for ever, and all that it does outside of
%% counted functions is charged to it (OTP 27 to 29; doc/architecture.md).
%%
%% The first session also sends its owner a message at each sign of a module being loaded:
%% `{trace, _, call, {M, F, A}, Module}` before, `{trace, _, return_from, {erlang, finish_loading,
%% 1}, _}` after.

-export([open/2, flag_processes/1, leave_out/2, close/1]).
-export([set/2, narrow/3, loaded/2, functions/2]).
-export([restart/2, pause/2, swap/2, between_ns/1, missed/2]).
-export([rested/2, counting/2, reading/3, callers/2, clear/2]).
-export_type([banks/0, measure/0]).

-type measure() :: call_count | call_time | call_memory.

-opaque banks() :: #{
    sessions := {trace:session(), trace:session()},
    patterns := [dyno_agent_patterns:pattern()],
    measures := [measure()],
    %% The sessions that processes are flagged in.
    flagged := 0 | 1 | 2,
    %% But these.
    left_out := [pid()],
    %% Which session a module counts in; the first where it is not said.
    current := #{module() => 1 | 2},
    %% Since when a module counts; how much more it would have counted without the last gap.
    since := #{module() => integer()},
    missed := #{module() => float()},
    %% For how long each module was in between the two, native.
    between := #{module() => non_neg_integer()}
}.

%% After a moment of counting the gap's share says nothing.
-define(MOST_MISSED, 1.2).
%% Nearly all calls return in that time.
-define(RETURN_MS, 100).
%% The loader replaces a small module within 100 us of prepare_loading: the calls that lead to it
%% are an earlier warning.
-define(BEFORE_LOADING, [
    {erlang, prepare_loading, 2},
    {code, load_file, 1},
    {code, load_binary, 3},
    {code, purge, 1},
    {code, soft_purge, 1}
]).

-doc "Both sessions, the caller's; every module that comes is counted from its first call.".
-spec open([dyno_agent_patterns:pattern()], [measure()]) -> banks().
open(Patterns, Measures) ->
    First = trace:session_create(dyno_counters_1, self(), []),
    Second = trace:session_create(dyno_counters_2, self(), []),
    _ = [trace:function(First, on_load, true, Measures) || Measures =/= []],
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
    #{
        sessions => {First, Second},
        patterns => Patterns,
        measures => Measures,
        flagged => 0,
        left_out => [],
        current => #{},
        since => #{},
        missed => #{},
        between => #{}
    }.

-doc "Has all processes counted, those to come as well.".
-spec flag_processes(banks()) -> banks().
flag_processes(#{sessions := {First, _}} = Banks) ->
    _ = trace:process(First, all, true, [call, arity]),
    Banks#{flagged := 1}.

flag_second(#{flagged := 1, sessions := {_, Second}, left_out := Pids} = Banks) ->
    _ = trace:process(Second, all, true, [call, arity]),
    ok = dyno_agent_self_calls:flag(Second, Pids, off),
    Banks#{flagged := 2};
flag_second(Banks) ->
    Banks.

-doc """
Processes of which the times and words are not counted: dyno's own. Mere counts of calls are not by
process, and have theirs in them: dyno_agent_self_calls.
""".
-spec leave_out([pid()], banks()) -> banks().
leave_out(Pids, #{sessions := {First, Second}, flagged := Flagged} = Banks) ->
    _ = [dyno_agent_self_calls:flag(First, Pids, off) || Flagged > 0],
    _ = [dyno_agent_self_calls:flag(Second, Pids, off) || Flagged > 1],
    Banks#{left_out := Pids}.

-doc """
Destroys both sessions, and with them every breakpoint.

The breakpoints go first, and calls under way get a moment to return: what a process is in when its
session ends the runtime remembers for ever, and follows also when that code is gone
(doc/architecture.md, "Traps of the runtime").
""".
-spec close(banks()) -> ok.
close(#{sessions := {First, Second}, measures := Measures}) ->
    case [M || M <- Measures, M =/= call_count] of
        [] ->
            ok;
        _ ->
            _ = [trace:function(S, {'_', '_', '_'}, false, Measures) || S <- [First, Second]],
            _ = [trace:function(First, on_load, false, Measures)],
            timer:sleep(?RETURN_MS)
    end,
    lists:foreach(fun trace:session_destroy/1, [First, Second]).

-doc "Sets the breakpoints that the patterns ask for in a module; how many.".
-spec set(module(), banks()) -> non_neg_integer().
set(_Module, #{measures := []}) ->
    0;
set(Module, #{sessions := {First, _}} = Banks) ->
    each(Module, First, true, Banks).

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
narrow(Module, unwanted, #{sessions := {First, _}, measures := Measures}) ->
    _ = trace:function(First, {Module, '_', '_'}, false, Measures),
    ok;
narrow(Module, wanted, #{sessions := {First, _}, measures := Measures, patterns := Patterns}) ->
    case dyno_agent_patterns:functions(Module, Patterns) of
        all ->
            ok;
        Some ->
            Others = all_functions(Module) -- Some,
            lists:foreach(fun(F) -> trace:function(First, F, false, Measures) end, Others)
    end.

-doc "Sees to it that a module that may have been loaded anew counts in one session, and in which.".
-spec loaded(module(), banks()) -> banks().
loaded(Module, #{sessions := {First, Second}, current := Current} = Banks) ->
    case {maps:get(Module, Current, 1), has_breakpoints(Second, Module, Banks)} of
        {1, _} ->
            Banks;
        {2, true} ->
            %% Set since the load, or there was none: new code counts in the first session as well.
            _ = each(Module, First, false, Banks),
            Banks;
        {2, false} ->
            %% The load may have ended just before the first session was cleared.
            _ = [each(Module, First, true, Banks) || not has_breakpoints(First, Module, Banks)],
            Banks#{current := Current#{Module => 1}}
    end.

has_breakpoints(_Session, _Module, #{measures := []}) ->
    false;
has_breakpoints(Session, Module, #{measures := [Measure | _]} = Banks) ->
    case functions(Module, Banks) of
        [] ->
            false;
        [Function | _] ->
            case trace:info(Session, Function, Measure) of
                {Measure, Set} -> Set =/= false;
                undefined -> false
            end
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
-spec restart(module(), banks()) -> banks().
restart(Module, #{since := Since} = Banks) ->
    _ = each(Module, counting(Module, Banks), restart, Banks),
    Banks#{since := Since#{Module => erlang:monotonic_time()}}.

-doc "Stops a module's counting.".
-spec pause(module(), banks()) -> ok.
pause(Module, Banks) ->
    _ = each(Module, counting(Module, Banks), pause, Banks),
    ok.

-doc """
Lets a module go on counting from zero in the other session; `rested/2` is to be read then.

Stopping the one and starting the other are two changes of the code, some 100 us from one another,
more on a busy machine. The calls in between are lost; `missed/2` tells what to make good for them.
""".
-spec swap(module(), banks()) -> banks().
swap(Module, Banks0) ->
    #{current := Current, between := Between} = Banks = flag_second(Banks0),
    #{since := Since, missed := Missed} = Banks,
    Next = Banks#{current := Current#{Module => 3 - maps:get(Module, Current, 1)}},
    %% Each takes effect somewhere in its call: between the two lies both calls' time at most, and
    %% half of it as a rule.
    Start = erlang:monotonic_time(),
    pause(Module, Banks),
    _ = each(Module, counting(Module, Next), true, Next),
    End = erlang:monotonic_time(),
    Factor =
        case Since of
            #{Module := Begin} when Start > Begin -> 1 + (End - Start) / 2 / (Start - Begin);
            #{} -> 1.0
        end,
    Next#{
        between := Between#{Module => maps:get(Module, Between, 0) + End - Start},
        since := Since#{Module => End},
        missed := Missed#{Module => min(?MOST_MISSED, Factor)}
    }.

-doc """
By how much a module's figures of its last swap are to be multiplied, so that they are right in the
mean in spite of the calls that were lost: the gap's share of the time.
""".
-spec missed(module(), banks()) -> float().
missed(Module, #{missed := Missed}) ->
    maps:get(Module, Missed, 1.0).

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

-doc "Takes the breakpoints of a module away that have been read: see `rested/2`.".
-spec clear(module(), banks()) -> ok.
clear(_Module, #{measures := []}) ->
    ok;
clear(Module, Banks) ->
    _ = each(Module, rested(Module, Banks), false, Banks),
    ok.

-doc "A function's figures in a session where it is paused; calls without those of its rows.".
-spec reading(trace:session(), mfa(), banks()) -> dyno_agent_call_sums:reading().
reading(Session, MFA, #{measures := Measures}) ->
    Time = info(Session, MFA, call_time, Measures),
    Memory = info(Session, MFA, call_memory, Measures),
    Count =
        case info(Session, MFA, call_count, Measures) of
            Known when is_integer(Known) -> Known;
            [] -> 0
        end,
    #{calls => max(Count, sum(2, Memory, 0)), words => sum(3, Memory, 0), time => Time}.

sum(_Position, [], Sum) -> Sum;
sum(Position, [Row | Rest], Sum) -> sum(Position, Rest, Sum + element(Position, Row)).

-doc "Which processes have called a function in the session that its module counts in.".
-spec callers(mfa(), banks()) -> [pid()].
callers({Module, _, _} = MFA, #{measures := Measures} = Banks) ->
    Session = counting(Module, Banks),
    [Pid || {Pid, Calls, _, _} <- info(Session, MFA, call_time, Measures), Calls > 0].

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
