%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_call_sessions).
-moduledoc false.
%% The breakpoints that count calls, in two trace sessions. To read statistics and reset them, all
%% is paused by one change of the code and counts again by another. What is between the two is lost,
%% and made good for (`gap_factor/1`). Where many processes called, reading takes long: then the
%% other session counts meanwhile, a double buffer (`switch/2`).
%%
%%                                   pause        read         restart
%%   one session      ===counting====|............................|=========counting============
%%
%%   first session    ===counting====|..........read.............|........(paused)..............
%%   second session   ....(paused)......|==================counting=============================
%%                                   <-->
%%                                    gap
%%
%% A paused breakpoint goes on to give time to the function that a process was in when all was
%% paused, until it is read: so everything is paused at once, and never module by module, which
%% takes seconds on a busy machine.
%%
%% How long a gap is, is measured in reductions of the target's processes: the clock goes on while
%% the machine runs something else, or this process waits and the target works on.
%%
%% A function never counts in both: there the runtime notices its return in one session only. In the
%% other the process seems to stay in it for ever, and all that it does outside of counted functions
%% is added to its time (OTP 27 to 29; doc/architecture.md). So the second session's breakpoints are
%% set, and paused, before any process is flagged in it. It costs each call 10 ns, and each process
%% that starts 0.7 us, from then on: it is made ready when it is first needed.
%%
%% The first session also sends its owner a message at each sign of a module being loaded: `{trace,
%% _, call, {M, F, A}, Module}` before, `{trace, _, return_from, {erlang, finish_loading, 1}, _}`
%% after. These are local breakpoints: a global one is lost when the same session pauses everything.
%%
%% Mere counts are not by process: with them goes a session that counts the calls of dyno's own
%% processes (dyno_agent_self_calls), and does what these two do.

-export([open/2, flag_processes/2, leave_out/2, close/1]).
-export([set/2, narrow/3, functions/2]).
-export([restart/1, pause/1, resume/1, switch/2, pause/2, resume/3]).
-export([work/0, gap/1, gap_factor/1, missed/3, forget_gaps/1]).
-export([counting/1, idle/1, reading/3, callers/2, self_calls/1]).
-export_type([t/0, measure/0]).

-type measure() :: call_count | call_time | call_memory.

-opaque t() :: #{
    self_calls := dyno_agent_self_calls:own(),
    sessions := {trace:session(), trace:session()},
    patterns := [dyno_agent_patterns:pattern()],
    measures := [measure()],
    %% The number of sessions that processes are flagged in, and which processes.
    flagged := 0 | 1 | 2,
    select := [dyno_agent_process_choice:selector()],
    %% But these.
    left_out := [pid()],
    %% Which session counts.
    current := 1 | 2,
    %% Since when (`work/0`), and since when modules that were read by themselves do.
    since := number(),
    since_of := #{module() => number()},
    %% Where all stands still: since when, at the latest, and in the mean.
    paused := {Latest :: number(), Mean :: number()} | no,
    %% What was done in the last gap in the mean, and what makes good for the one before.
    last_gap := number(),
    gap_factor := float(),
    %% What was done in all gaps together at most, and besides in those of a module.
    gaps := number(),
    gaps_of := #{module() => number()}
}.

%% After a moment of counting the gap's share says nothing.
-define(MOST_GAP_FACTOR, 2).
%% The runtime adds a process's reductions when it is scheduled out: after so many at most.
-define(SLICE, 4000).
%% Nearly all calls return in that time.
-define(RETURN_MS, 100).
-define(ALL, {'_', '_', '_'}).
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
-spec open([dyno_agent_patterns:pattern()], [measure()]) -> t().
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
            _ = trace:function(First, {M, F, A}, ByModule, [local])
        end,
        ?BEFORE_LOADING
    ),
    AtReturn = [{'_', [], [{message, false}, {return_trace}]}],
    _ = trace:function(First, {erlang, finish_loading, 1}, AtReturn, [local]),
    #{
        self_calls => dyno_agent_self_calls:open(Patterns, Measures),
        sessions => {First, Second},
        patterns => Patterns,
        measures => Measures,
        flagged => 0,
        select => [],
        left_out => [],
        current => 1,
        since => work(),
        since_of => #{},
        paused => no,
        last_gap => 0,
        gap_factor => 1.0,
        gaps => 0,
        gaps_of => #{}
    }.

-doc """
Has processes counted: those that are selected and what they start, or all, where no selector says
less.
""".
-spec flag_processes([dyno_agent_process_choice:selector()], t()) -> t().
flag_processes([], #{sessions := {First, _}} = Sessions) ->
    _ = dyno_agent_flags:all(First, true, [call, arity]),
    Sessions#{flagged := 1};
flag_processes(Selectors, #{sessions := {First, _}} = Sessions) ->
    Choice = dyno_agent_process_choice:new(Selectors),
    ok = flag_new(First, Selectors),
    ok = flag_some(First, fun(Pid) -> dyno_agent_process_choice:is_chosen(Pid, Choice) end),
    Sessions#{flagged := 1, select := Selectors}.

flag_new(Session, Selectors) ->
    _ = [trace:process(Session, new, true, [call, arity]) || new <- Selectors],
    ok.

flag_some(Session, IsChosen) ->
    lists:foreach(
        fun(Pid) ->
            try
                trace:process(Session, Pid, true, [call, arity, set_on_spawn])
            catch
                %% It has ended.
                error:badarg -> 0
            end
        end,
        [Pid || Pid <- processes(), Pid =/= self(), IsChosen(Pid)]
    ).

flag_other(#{select := []}, _First, Second) ->
    _ = dyno_agent_flags:all(Second, true, [call, arity]),
    ok;
flag_other(#{select := Selectors}, First, Second) ->
    ok = flag_new(Second, Selectors),
    flag_some(Second, fun(Pid) ->
        case trace:info(First, Pid, flags) of
            {flags, [_ | _]} -> true;
            _ -> false
        end
    end).

-doc """
Names dyno's other processes: their times and words are not counted, and neither are those of the
calling one. Mere counts have theirs in them, and `self_calls/1` tells how many they are.
""".
-spec leave_out([pid()], t()) -> t().
leave_out(Pids, #{sessions := {First, Second}, flagged := Flagged} = Sessions) ->
    #{self_calls := SelfCalls} = Sessions,
    ok = dyno_agent_self_calls:count(SelfCalls, [self() | Pids]),
    Flagging = lists:sublist([First, Second], Flagged),
    lists:foreach(fun(S) -> dyno_agent_self_calls:flag(S, Pids, off) end, Flagging),
    Sessions#{left_out := [self() | Pids]}.

-doc """
Destroys both sessions, and with them every breakpoint.

The breakpoints go first, and calls under way get a moment to return: what a process is in when its
session ends the runtime remembers for ever, and follows also when that code is gone
(doc/architecture.md, "Traps of the runtime").
""".
-spec close(t()) -> ok.
close(#{sessions := {First, Second}, measures := Measures, self_calls := SelfCalls}) ->
    ok = dyno_agent_self_calls:close(SelfCalls),
    case Measures -- [call_count] of
        [] ->
            ok;
        _ ->
            Off = fun(S) -> [trace:function(S, F, false, Measures) || F <- [on_load, ?ALL]] end,
            ok = lists:foreach(Off, [First, Second]),
            timer:sleep(?RETURN_MS)
    end,
    lists:foreach(fun trace:session_destroy/1, [First, Second]).

-doc "Sets the breakpoints that the patterns ask for in a module; how many.".
-spec set(module(), t()) -> {non_neg_integer(), t()}.
set(_Module, #{measures := []} = Sessions) ->
    {0, Sessions};
set(Module, Sessions) ->
    case each(Module, counting(Sessions), true, Sessions) of
        0 -> {0, Sessions};
        N -> {N, set_for_self(Module, Sessions)}
    end.

set_for_self(Module, #{self_calls := SelfCalls} = Sessions) ->
    Sessions#{self_calls := dyno_agent_self_calls:set(Module, SelfCalls)}.

%% Does one thing to all functions of a module that are meant.
each(Module, Session, Action, #{patterns := Patterns, measures := Measures}) ->
    Specs = dyno_agent_patterns:specs(Module, Patterns),
    lists:sum([trace:function(Session, F, Action, Measures) || F <- Specs]).

%% Does one thing to all breakpoints that a session has.
all(_Session, _Action, #{measures := []}) ->
    ok;
all(Session, Action, #{measures := Measures}) ->
    _ = trace:function(Session, ?ALL, Action, Measures),
    ok.

-doc """
A module has come, and `on_load` has set breakpoints in all of its functions. Takes those away that
the patterns do not ask for, which are all if the module is not measured. One that came while the
sessions changed has none yet.
""".
-spec narrow(module(), measured | unmeasured, t()) -> t().
narrow(_Module, _Is, #{measures := []} = Sessions) ->
    Sessions;
narrow(Module, unmeasured, #{measures := Measures} = Sessions) ->
    _ = trace:function(counting(Sessions), {Module, '_', '_'}, false, Measures),
    Sessions;
narrow(Module, measured, #{measures := Measures} = Sessions) ->
    Session = counting(Sessions),
    All = dyno_agent_patterns:functions(Module, [{Module, '_', '_'}]),
    Others = All -- functions(Module, Sessions),
    lists:foreach(fun(F) -> trace:function(Session, F, false, Measures) end, Others),
    _ = [each(Module, Session, true, Sessions) || not has_breakpoints(Session, Module, Sessions)],
    set_for_self(Module, Sessions).

has_breakpoints(Session, Module, #{measures := [Measure | _]} = Sessions) ->
    [] =/= [
        Function
     || Function <- lists:sublist(functions(Module, Sessions), 1),
        {_, Set} <- [trace:info(Session, Function, Measure)],
        Set =/= false
    ].

-doc "The functions of a module that the patterns mean.".
-spec functions(module(), t()) -> [mfa()].
functions(Module, #{patterns := Patterns}) -> dyno_agent_patterns:functions(Module, Patterns).

-doc "Sets all statistics to zero and lets everything count, also what was paused.".
-spec restart(t()) -> t().
restart(#{self_calls := SelfCalls} = Sessions) ->
    counts(Sessions#{self_calls := dyno_agent_self_calls:restart(SelfCalls)}).

-doc "Lets everything that was paused count on from zero.".
-spec resume(t()) -> t().
resume(#{self_calls := SelfCalls} = Sessions) ->
    counts(Sessions#{self_calls := dyno_agent_self_calls:keep(SelfCalls)}).

counts(Sessions) ->
    Before = work(),
    ok = all(counting(Sessions), restart, Sessions),
    counts_since(Before, Sessions).

%% Each change takes effect somewhere in its call: the gap takes the time from the one call's begin
%% to the other's end at most, and half of both calls less in the mean.
counts_since(_Before, #{paused := no} = Sessions) ->
    Sessions#{since := work(), since_of := #{}, last_gap := 0};
counts_since(Before, #{paused := {Latest, Mean}, gaps := Gaps} = Sessions) ->
    Now = work(),
    Sessions#{
        paused := no,
        since := Now,
        since_of := #{},
        last_gap := max(0, (Before + Now) / 2 - Mean),
        gaps := Gaps + gap(Latest, Now)
    }.

gap(From, To) -> max(0, To - From) + ?SLICE * erlang:system_info(schedulers_online).

-doc "Stops all counting.".
-spec pause(t()) -> t().
pause(#{since := Since, last_gap := Gap, self_calls := SelfCalls} = Sessions) ->
    Before = work(),
    ok = all(counting(Sessions), pause, Sessions),
    ok = dyno_agent_self_calls:pause(SelfCalls),
    Mean = (Before + work()) / 2,
    Factor = min(?MOST_GAP_FACTOR, 1 + Gap / max(1, Mean - Since)),
    Sessions#{paused := {Before, Mean}, gap_factor := float(Factor)}.

-doc "Stops a module's counting; what was done until then (`work/0`).".
-spec pause(module(), t()) -> number().
pause(Module, Sessions) ->
    Before = work(),
    _ = each(Module, counting(Sessions), pause, Sessions),
    Before.

-doc "Lets a module that was paused then count on from zero.".
-spec resume(module(), Paused :: number(), t()) -> t().
resume(Module, Paused, #{since_of := Since, gaps_of := Gaps} = Sessions) ->
    _ = each(Module, counting(Sessions), restart, Sessions),
    Now = work(),
    Sessions#{
        since_of := Since#{Module => Now},
        gaps_of := Gaps#{Module => maps:get(Module, Gaps, 0) + gap(Paused, Now)}
    }.

-doc """
Lets everything go on counting from zero in the other session; `idle/1` is to be read then. With
the modules that are measured, for those that have come since it counted last.
""".
-spec switch([module()], t()) -> t().
switch(Modules, #{current := Current, measures := Measures} = Sessions) ->
    #{self_calls := SelfCalls} = Paused = pause(ready(Modules, Sessions)),
    Next = Paused#{current := 3 - Current, self_calls := dyno_agent_self_calls:keep(SelfCalls)},
    To = counting(Next),
    _ = [trace:function(counting(Paused), on_load, false, Measures) || Measures =/= []],
    Missing = [M || M <- Modules, Measures =/= [], not has_breakpoints(To, M, Next)],
    Before = work(),
    ok = all(To, restart, Next),
    _ = [trace:function(To, on_load, true, Measures) || Measures =/= []],
    lists:foreach(fun(M) -> each(M, To, true, Next) end, Missing),
    counts_since(Before, Next).

%% No process is flagged yet in the second session: what is set there counts nothing.
ready(Modules, #{flagged := 1, sessions := {First, Second}, left_out := Pids} = Sessions) ->
    _ = [each(M, Second, true, Sessions) || M <- Modules],
    ok = all(Second, pause, Sessions),
    ok = flag_other(Sessions, First, Second),
    ok = dyno_agent_self_calls:flag(Second, Pids, off),
    Sessions#{flagged := 2};
ready(_Modules, Sessions) ->
    Sessions.

-doc "What the target's processes have done, in reductions: all but this one.".
-spec work() -> number().
work() ->
    {All, _} = erlang:statistics(reductions),
    {reductions, Own} = process_info(self(), reductions),
    All - Own.

-doc """
By how much statistics that were just paused are to be multiplied, so that they are right in the
mean in spite of the calls that were lost before: the share of the work that the gap before had.
""".
-spec gap_factor(t()) -> float().
gap_factor(#{gap_factor := Factor}) -> Factor.

-doc """
A module was replaced: what it has counted since it was read or set to zero is lost, as `Before` has
it.
""".
-spec missed(module(), Before :: t(), t()) -> t().
missed(Module, #{since := Since, since_of := SinceOf}, #{since_of := Of} = Sessions) ->
    Now = work(),
    #{gaps_of := Gaps} = Sessions,
    Lost = max(0, Now - maps:get(Module, SinceOf, Since)),
    Sessions#{
        since_of := Of#{Module => Now},
        gaps_of := Gaps#{Module => maps:get(Module, Gaps, 0) + Lost}
    }.

-doc "What was done in all gaps together (`work/0`), of the module that had most of it.".
-spec gap(t()) -> number().
gap(#{gaps := Gaps, gaps_of := Of}) -> Gaps + lists:max([0 | maps:values(Of)]).

-spec forget_gaps(t()) -> t().
forget_gaps(Sessions) -> Sessions#{last_gap := 0, gaps := 0, gaps_of := #{}}.

-doc "The session that counts.".
-spec counting(t()) -> trace:session().
counting(#{sessions := Sessions, current := Current}) -> element(Current, Sessions).

-doc "The session that counted before the last switch.".
-spec idle(t()) -> trace:session().
idle(#{sessions := Sessions, current := Current}) -> element(3 - Current, Sessions).

-doc "A function's statistics in a session where it is paused; calls without those of its rows.".
-spec reading(trace:session(), mfa(), t()) -> dyno_agent_call_sums:reading().
reading(Session, MFA, #{measures := Measures, left_out := LeftOut}) ->
    Time = without(LeftOut, info(Session, MFA, call_time, Measures)),
    Memory = without(LeftOut, info(Session, MFA, call_memory, Measures)),
    Count =
        case info(Session, MFA, call_count, Measures) of
            Calls when is_integer(Calls) -> Calls;
            [] -> 0
        end,
    #{
        calls => max(Count, sum(2, Memory, 0)),
        words => sum(3, Memory, 0),
        time => Time,
        memory => Memory
    }.

%% The runtime goes on to give time to what a process was in when it was left out: the agent's,
%% while it reads.
without(LeftOut, [_ | _] = Rows) ->
    [Row || Row <- Rows, not lists:member(element(1, Row), LeftOut)];
without(_LeftOut, None) ->
    None.

sum(_Position, [], Sum) -> Sum;
sum(Position, [Row | Rest], Sum) -> sum(Position, Rest, Sum + element(Position, Row)).

-doc "Which processes have called a function in the session that its module counts in.".
-spec callers(mfa(), t()) -> [pid()].
callers(MFA, #{measures := Measures} = Sessions) ->
    Session = counting(Sessions),
    [Measure | _] = Measures -- [call_count],
    [element(1, Row) || Row <- info(Session, MFA, Measure, Measures), element(2, Row) > 0].

info(Session, MFA, Item, Measures) ->
    case lists:member(Item, Measures) andalso trace:info(Session, MFA, Item) of
        {Item, Value} when is_list(Value); is_integer(Value) -> Value;
        %% Not measured, or not any more: deleted, or just replaced.
        _ -> []
    end.

-doc "Calls by dyno's own processes that are among the counted ones.".
-spec self_calls(t()) -> #{mfa() => pos_integer()}.
self_calls(#{self_calls := SelfCalls}) -> dyno_agent_self_calls:calls(SelfCalls).
