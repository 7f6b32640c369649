%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_call_sessions).
-moduledoc false.
%% The breakpoints that count calls, in two trace sessions that are a double buffer. A module counts
%% in one of them while the other is idle. To read its statistics and reset them is to switch:
%%
%%                                   switch        read          clear
%%   first session    ===counting====|.............|  |..........|      (no breakpoints)
%%   second session   (no breakpoints)  |===========counting=======================
%%                                   <-->
%%                                    gap
%%
%% While a session is read its statistics stand still. With one session the calls in that time would
%% be missing: 16 % were, on Cowboy at 15,000 processes a second. The gap between stopping the one
%% and starting the other is some 100 us, and what is lost in it is made good for (`gap_factor/2`).
%% How much that is, is measured in reductions of the target's processes: the clock goes on while the
%% machine runs something else, or this process waits and the target works on.
%% What was read is cleared, because even a breakpoint that is paused costs each call 10 ns, and to
%% set it again takes no longer than to wake it. For the same reason processes are flagged in the
%% second session when it is first needed.
%%
%% A function never counts in both: there the runtime notices its return in one session only. In the
%% other the process seems to stay in it for ever, and all that it does outside of counted functions
%% is added to its time (OTP 27 to 29; doc/architecture.md).
%%
%% The first session also sends its owner a message at each sign of a module being loaded: `{trace,
%% _, call, {M, F, A}, Module}` before, `{trace, _, return_from, {erlang, finish_loading, 1}, _}`
%% after.
%%
%% Mere counts are not by process: with them goes a session that counts the calls of dyno's own
%% processes (dyno_agent_self_calls), and does what these two do.

-export([open/2, flag_processes/2, leave_out/2, close/1]).
-export([set/2, narrow/3, replaced/2, loaded/2, functions/2]).
-export([restart/2, pause/2, switch/2, work/0, gap/1, gap_factor/2, missed/3, forget_gaps/1]).
-export([counting/2, idle/2, reading/3, callers/2, clear/2, self_calls/1]).
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
    %% Which session a module counts in; the first where it is not in here.
    current := #{module() => 1 | 2},
    %% Since when a module counts (`work/0`); how much more it would have counted without the last gap.
    since := #{module() => number()},
    gap_factors := #{module() => float()},
    %% What was done in the gaps of each module together, at most.
    gaps := #{module() => number()}
}.

%% After a moment of counting the gap's share says nothing.
-define(MOST_GAP_FACTOR, 2).
%% The runtime adds a process's reductions when it is scheduled out: after so many at most.
-define(SLICE, 4000).
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
            _ = trace:function(First, {M, F, A}, ByModule, [])
        end,
        ?BEFORE_LOADING
    ),
    AtReturn = [{'_', [], [{message, false}, {return_trace}]}],
    _ = trace:function(First, {erlang, finish_loading, 1}, AtReturn, []),
    #{
        self_calls => dyno_agent_self_calls:open(Patterns, Measures),
        sessions => {First, Second},
        patterns => Patterns,
        measures => Measures,
        flagged => 0,
        select => [],
        left_out => [],
        current => #{},
        since => #{},
        gap_factors => #{},
        gaps => #{}
    }.

-doc """
Has processes counted: those that are selected and what they start, or all, where no selector says
less.
""".
-spec flag_processes([dyno_agent_process_choice:selector()], t()) -> t().
flag_processes([], #{sessions := {First, _}} = Sessions) ->
    _ = trace:process(First, all, true, [call, arity]),
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

flag_second(#{flagged := 1, sessions := {First, Second}, left_out := Pids} = Sessions) ->
    ok = flag_other(Sessions, First, Second),
    ok = dyno_agent_self_calls:flag(Second, Pids, off),
    Sessions#{flagged := 2};
flag_second(Sessions) ->
    Sessions.

flag_other(#{select := []}, _First, Second) ->
    _ = trace:process(Second, all, true, [call, arity]),
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
    Sessions#{left_out := Pids}.

-doc """
Destroys both sessions, and with them every breakpoint.

The breakpoints go first, and calls under way get a moment to return: what a process is in when its
session ends the runtime remembers for ever, and follows also when that code is gone
(doc/architecture.md, "Traps of the runtime").
""".
-spec close(t()) -> ok.
close(#{sessions := {First, Second}, measures := Measures, self_calls := SelfCalls}) ->
    ok = dyno_agent_self_calls:close(SelfCalls),
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
-spec set(module(), t()) -> {non_neg_integer(), t()}.
set(_Module, #{measures := []} = Sessions) ->
    {0, Sessions};
set(Module, #{sessions := {First, _}} = Sessions) ->
    case each(Module, First, true, Sessions) of
        0 -> {0, Sessions};
        N -> {N, self_calls(fun dyno_agent_self_calls:set/2, Module, Sessions)}
    end.

self_calls(Do, Module, #{self_calls := SelfCalls} = Sessions) ->
    Sessions#{self_calls := Do(Module, SelfCalls)}.

%% Does one thing to all functions of a module that are meant.
each(Module, Session, Action, #{patterns := Patterns, measures := Measures}) ->
    Specs = dyno_agent_patterns:specs(Module, Patterns),
    lists:sum([trace:function(Session, F, Action, Measures) || F <- Specs]).

-doc """
A module has come, and `on_load` has set breakpoints in all of its functions. Takes those away that
the patterns do not ask for, which are all if the module is not measured, and sees to it that the
others count in one session.
""".
-spec narrow(module(), measured | unmeasured, t()) -> t().
narrow(_Module, _Is, #{measures := []} = Sessions) ->
    Sessions;
narrow(Module, unmeasured, #{sessions := {First, _}, measures := Measures} = Sessions) ->
    _ = trace:function(First, {Module, '_', '_'}, false, Measures),
    Sessions;
narrow(Module, measured, #{sessions := {First, _}, measures := Measures} = Sessions) ->
    All = dyno_agent_patterns:functions(Module, [{Module, '_', '_'}]),
    Others = All -- functions(Module, Sessions),
    lists:foreach(fun(F) -> trace:function(First, F, false, Measures) end, Others),
    loaded(Module, self_calls(fun dyno_agent_self_calls:set/2, Module, Sessions)).

-doc "Takes in what dyno's own processes have called of a module whose code is to be replaced.".
-spec replaced(module(), t()) -> t().
replaced(Module, Sessions) ->
    self_calls(fun dyno_agent_self_calls:keep/2, Module, Sessions).

-doc "Sees to it that a module that may have been loaded anew counts in one session, and in which.".
-spec loaded(module(), t()) -> t().
loaded(Module, #{sessions := {First, Second}, current := Current} = Sessions) ->
    case {maps:get(Module, Current, 1), has_breakpoints(Second, Module, Sessions)} of
        {1, _} ->
            Sessions;
        {2, true} ->
            %% Set since the load, or there was none: new code counts in the first session as well.
            _ = each(Module, First, false, Sessions),
            Sessions;
        {2, false} ->
            %% The load may have ended just before the first session was cleared.
            _ =
                case has_breakpoints(First, Module, Sessions) of
                    true -> 0;
                    false -> each(Module, First, true, Sessions)
                end,
            Sessions#{current := Current#{Module => 1}}
    end.

has_breakpoints(_Session, _Module, #{measures := []}) ->
    false;
has_breakpoints(Session, Module, #{measures := [Measure | _]} = Sessions) ->
    case functions(Module, Sessions) of
        [] ->
            false;
        [Function | _] ->
            case trace:info(Session, Function, Measure) of
                {Measure, Set} -> Set =/= false;
                undefined -> false
            end
    end.

-doc "The functions of a module that the patterns mean.".
-spec functions(module(), t()) -> [mfa()].
functions(Module, #{patterns := Patterns}) -> dyno_agent_patterns:functions(Module, Patterns).

-doc "Sets a module's statistics to zero and lets it count.".
-spec restart(module(), t()) -> t().
restart(Module, #{since := Since} = Sessions) ->
    _ = each(Module, counting(Module, Sessions), restart, Sessions),
    Counting = Sessions#{since := Since#{Module => work()}},
    self_calls(fun dyno_agent_self_calls:restart/2, Module, Counting).

-doc "Stops a module's counting.".
-spec pause(module(), t()) -> ok.
pause(Module, #{self_calls := SelfCalls} = Sessions) ->
    _ = each(Module, counting(Module, Sessions), pause, Sessions),
    dyno_agent_self_calls:pause(Module, SelfCalls).

-doc """
Lets a module go on counting from zero in the other session; `idle/2` is to be read then.

Stopping the one and starting the other are two changes of the code, some 100 us from one another,
more on a busy machine. The calls in between are lost; `gap_factor/2` tells what makes good for
them.
""".
-spec switch(module(), t()) -> t().
switch(Module, Before) ->
    #{current := Current, since := Since, gap_factors := Factors} =
        Sessions = flag_second(Before),
    Next = Sessions#{current := Current#{Module => 3 - maps:get(Module, Current, 1)}},
    #{patterns := Patterns} = Sessions,
    Start = work(),
    Gaps = [
        switch(F, counting(Module, Sessions), counting(Module, Next), Sessions)
     || F <- dyno_agent_patterns:specs(Module, Patterns)
    ],
    %% Each change takes effect somewhere in its call: between the two lies both calls' time at most,
    %% and half of it as a rule.
    Mean = lists:sum(Gaps) / max(1, length(Gaps)) / 2,
    Factor =
        case Since of
            #{Module := Begin} when Start > Begin -> 1 + Mean / (Start - Begin);
            #{} -> 1.0
        end,
    Slices = ?SLICE * erlang:system_info(schedulers_online),
    add_gap(Module, lists:max([0 | Gaps]) + Slices, Next#{
        since := Since#{Module => work()},
        gap_factors := Factors#{Module => min(?MOST_GAP_FACTOR, Factor)}
    }).

switch(Functions, From, To, #{measures := Measures}) ->
    Start = work(),
    _ = trace:function(From, Functions, pause, Measures),
    _ = trace:function(To, Functions, true, Measures),
    max(0, work() - Start).

add_gap(Module, Work, #{gaps := Gaps} = Sessions) ->
    Sessions#{gaps := Gaps#{Module => maps:get(Module, Gaps, 0) + Work}}.

-doc "What the target's processes have done, in reductions: all but this one.".
-spec work() -> number().
work() ->
    {All, _} = erlang:statistics(reductions),
    {reductions, Own} = process_info(self(), reductions),
    All - Own.

-doc """
By how much a module's statistics of its last switch are to be multiplied, so that they are right in
the mean in spite of the calls that were lost: the gap's share of the work.
""".
-spec gap_factor(module(), t()) -> float().
gap_factor(Module, #{gap_factors := Factors}) ->
    maps:get(Module, Factors, 1.0).

-doc """
A module was replaced: what it has counted since its last switch or restart is lost, as `Before` has
it.
""".
-spec missed(module(), Before :: t(), t()) -> t().
missed(Module, #{since := Before}, #{since := Since} = Sessions) ->
    case Before of
        #{Module := Begin} ->
            Now = work(),
            add_gap(Module, max(0, Now - Begin), Sessions#{since := Since#{Module => Now}});
        #{} ->
            Sessions
    end.

-doc "What was done in all gaps together (`work/0`), of the module that had most of it.".
-spec gap(t()) -> number().
gap(#{gaps := Gaps}) -> lists:max([0 | maps:values(Gaps)]).

-spec forget_gaps(t()) -> t().
forget_gaps(Sessions) -> Sessions#{gaps := #{}}.

-doc "The session that a module counts in.".
-spec counting(module(), t()) -> trace:session().
counting(Module, #{sessions := Sessions, current := Current}) ->
    element(maps:get(Module, Current, 1), Sessions).

-doc "The session that a module counted in before the last switch.".
-spec idle(module(), t()) -> trace:session().
idle(Module, #{sessions := Sessions, current := Current}) ->
    element(3 - maps:get(Module, Current, 1), Sessions).

-doc "Takes the breakpoints of a module away that have been read: see `idle/2`.".
-spec clear(module(), t()) -> ok.
clear(_Module, #{measures := []}) ->
    ok;
clear(Module, Sessions) ->
    _ = each(Module, idle(Module, Sessions), false, Sessions),
    ok.

-doc "A function's statistics in a session where it is paused; calls without those of its rows.".
-spec reading(trace:session(), mfa(), t()) -> dyno_agent_call_sums:reading().
reading(Session, MFA, #{measures := Measures}) ->
    Time = info(Session, MFA, call_time, Measures),
    Memory = info(Session, MFA, call_memory, Measures),
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

sum(_Position, [], Sum) -> Sum;
sum(Position, [Row | Rest], Sum) -> sum(Position, Rest, Sum + element(Position, Row)).

-doc "Which processes have called a function in the session that its module counts in.".
-spec callers(mfa(), t()) -> [pid()].
callers({Module, _, _} = MFA, #{measures := Measures} = Sessions) ->
    Session = counting(Module, Sessions),
    [Measure | _] = [M || M <- Measures, M =/= call_count],
    [element(1, Row) || Row <- info(Session, MFA, Measure, Measures), element(2, Row) > 0].

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

-doc "Calls by dyno's own processes that are among the counted ones.".
-spec self_calls(t()) -> #{mfa() => pos_integer()}.
self_calls(#{self_calls := SelfCalls}) -> dyno_agent_self_calls:calls(SelfCalls).
