%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_call_times).
-moduledoc false.
%% Puts together what stacks, windows and counts say of functions. Pure.
%%
%% Each tells the truth where the others don't. A stack shows where a process is that computes for
%% long, and of one that runs for microseconds only where it waits next. A window times the calls
%% that begin and end in it, and takes a loop of tiny calls for much more than it is. So the stacks
%% say of each group of processes whether it computes, and the times of its functions are
%%
%%   of a group that computes    its share of the samples, times the processor time of the node
%%   of any other                its own times in the windows, times the part that these are of all
%%
%% That part is the windows' share of the calls of the functions that were counted as well, or, where
%% these are few, of the node's reductions: while a window measures, the node does less, so the share
%% of the time would be too small.

-export([combine/1]).
-export_type([input/0, function_result/0]).

-type kind() :: dyno_agent_processes:group().

-type input() :: #{
    duration_ns := pos_integer(),
    %% What all schedulers worked in that time, and had a processor for.
    worked_ns := pos_integer(),
    %% Of the node in that time (dyno_agent_call_windows:reductions/0).
    reductions := non_neg_integer(),
    %% Calls of the functions that were counted all the time.
    exact := #{mfa() => non_neg_integer()},
    %% Functions that windows did not time, or no longer.
    left_out := #{mfa() => []},
    windows := #{
        count := non_neg_integer(),
        ns := non_neg_integer(),
        reductions := non_neg_integer(),
        %% By group; what measuring added is taken out.
        callers := [{mfa(), kind(), Calls :: non_neg_integer(), Ns :: non_neg_integer()}],
        %% What is uncertain in a function's time, and how its times differ from window to window
        %% (the standard error of their sum, by that sum).
        uncertain_ns := #{mfa() => non_neg_integer()},
        errors := dyno_agent_window_spread:errors(),
        %% By what to multiply their times.
        typical := #{mfa() => float()}
    },
    stacks :=
        none | #{cpu_ns := non_neg_integer(), stacks := [{kind(), [term()], number()}], _ => _},
    measured := fun((mfa()) -> boolean())
}.

-type function_result() :: #{
    mfa := mfa(),
    counted := exact | estimated | no,
    calls => non_neg_integer(),
    calls_low => non_neg_integer(),
    calls_high => non_neg_integer(),
    own_time_ns => non_neg_integer(),
    own_time_low_ns => non_neg_integer(),
    own_time_high_ns => non_neg_integer(),
    time_from => stacks | windows | both
}.

%% With fewer samples nothing is said of a group.
-define(LEAST_SAMPLES, 8).
%% A group computes if not more than so much of its samples show it where it waits.
-define(MOST_BURST, 0.1).
%% The normal distribution's 97.5 %.
-define(WIDTH, 1.96).
%% Calls of a group that computes may be so many times as many, or as few: what measuring adds to
%% them is known by three tenths, and may be more than they take.
-define(ROUGH, 2).
%% One window does not tell how the next would differ: its times and calls are known by as much as
%% they are themselves, and more, so that it is said that calls are not known.
-define(UNKNOWN, 1.0).
-define(MOST_OFF, 10).
%% No sample: there may be as many (the 95 % limit of a Poisson distribution).
-define(NONE_SEEN, 3.0).

-doc """
The functions, and who called them: rows as in the windows, of the whole time.
""".
-spec combine(input()) ->
    {[function_result()], [{mfa(), kind(), Calls :: non_neg_integer(), Ns :: non_neg_integer()}]}.
combine(#{windows := #{callers := Seen, typical := Typical} = Windows} = Given) ->
    Rows = [
        {MFA, Kind, Calls, Ns * maps:get(MFA, Typical, 1.0)}
     || {MFA, Kind, Calls, Ns} <- Seen
    ],
    Input = Given#{windows := Windows#{callers := Rows}},
    Computing = computing(Input),
    {OfComputing, OfOthers} = lists:partition(
        fun({_, Kind, _, _}) -> is_map_key(Kind, Computing) end, Rows
    ),
    Scale = scale(OfOthers, OfComputing, Input),
    OfTimes = min(Scale, most(OfOthers, Computing, Input)),
    Timed = [
        #{mfa => MFA, kind => Kind, calls => C * Scale, windows_ns => Ns * OfTimes}
     || {MFA, Kind, C, Ns} <- OfOthers
    ],
    Sampled = sampled(Computing, OfComputing),
    All = Timed ++ Sampled,
    {
        [function(MFA, Of, Input) || MFA := Of <- by_function(All, Input)],
        [
            {MFA, Kind, round(maps:get(calls, Part, 0)), round(ns(Part))}
         || #{mfa := MFA, kind := Kind} = Part <- All
        ]
    }.

ns(#{windows_ns := Ns}) -> Ns;
ns(#{stacks_ns := Ns}) -> Ns.

%% The groups that compute: for what time a sample stands, how many of them tell where, and the
%% samples of each measured function.
computing(#{stacks := none}) ->
    #{};
computing(#{stacks := #{cpu_ns := CpuNs, stacks := Stacks}, measured := IsMeasured}) ->
    Groups = lists:foldl(
        fun({Kind, Path, Weight}, Acc) ->
            add_stack(Kind, innermost(Path, IsMeasured), Weight, Acc)
        end,
        #{},
        Stacks
    ),
    All = lists:sum([Running || #{running := Running} <- maps:values(Groups)]),
    #{
        %% What does not tell where is taken to be where the others are.
        Kind => Group#{sample_ns => CpuNs / All * Running / (Running - Burst)}
     || Kind := #{running := Running, burst := Burst, count := Count} = Group <- Groups,
        Count >= ?LEAST_SAMPLES,
        Burst =< ?MOST_BURST * Running
    }.

add_stack(Kind, Where, Weight, Groups) ->
    #{running := Running, burst := Burst, functions := Functions, count := Count} =
        Group = maps:get(Kind, Groups, #{running => 0, burst => 0, functions => #{}, count => 0}),
    Next = Group#{running := Running + Weight, count := Count + max(1, Weight)},
    Groups#{
        Kind =>
            case Where of
                burst ->
                    Next#{burst := Burst + Weight};
                elsewhere ->
                    Next;
                MFA ->
                    Next#{functions := Functions#{MFA => maps:get(MFA, Functions, 0) + Weight}}
            end
    }.

innermost(Path, IsMeasured) ->
    case lists:reverse(Path) of
        [Unseen | _] when Unseen =:= burst; Unseen =:= unseen -> burst;
        Inner -> first([MFA || {_, _, _} = MFA <- Inner], IsMeasured)
    end.

first([], _IsMeasured) ->
    elsewhere;
first([MFA | Outer], IsMeasured) ->
    case IsMeasured(MFA) of
        true -> MFA;
        false -> first(Outer, IsMeasured)
    end.

%% By what to multiply what the windows have seen. Functions that groups which compute have called
%% as well say nothing of the others.
scale(OfOthers, OfComputing, #{exact := Exact, reductions := All, windows := Windows}) ->
    Both = #{MFA => [] || {MFA, _, _, _} <- OfComputing},
    {Counted, Seen} = maps:fold(
        fun(MFA, InWindows, {Sum, Of}) -> {Sum + map_get(MFA, Exact), Of + InWindows} end,
        {0, 0},
        maps:without(maps:keys(Both), maps:with(maps:keys(Exact), calls(OfOthers)))
    ),
    case {Seen >= dyno_agent_window_spread:least_counted(), Windows} of
        {true, _} -> Counted / Seen;
        {false, #{reductions := Some}} when Some > 0 -> All / Some;
        {false, _} -> 0.0
    end.

%% Functions cannot have taken more than there was.
most(OfOthers, Computing, #{worked_ns := WorkedNs}) ->
    OfComputing = lists:sum([
        lists:sum(maps:values(Functions)) * SampleNs
     || #{functions := Functions, sample_ns := SampleNs} <- maps:values(Computing)
    ]),
    max(0.0, WorkedNs - OfComputing) / max(1, lists:sum([Ns || {_, _, _, Ns} <- OfOthers])).

calls(Rows) ->
    lists:foldl(
        fun({MFA, _, C, _}, Acc) -> Acc#{MFA => maps:get(MFA, Acc, 0) + C} end, #{}, Rows
    ).

%% How often such a group has called follows from how long it has worked in the windows, without
%% what measuring has added: a loop does much less in a window than in as long a time between two.
sampled(Computing, Rows) ->
    InWindows = #{{Kind, MFA} => C || {MFA, Kind, C, _} <- Rows},
    Worked = lists:foldl(
        fun({_, Kind, _, Ns}, Acc) -> Acc#{Kind => maps:get(Kind, Acc, 0) + Ns} end, #{}, Rows
    ),
    lists:append([
        begin
            Samples = lists:sum(maps:values(Functions)),
            Factor = Samples * SampleNs / max(1, maps:get(Kind, Worked, 0)),
            Called = #{MFA => 0 || {MFA, K, _, _} <- Rows, K =:= Kind},
            [
                #{
                    mfa => MFA,
                    kind => Kind,
                    samples => Of,
                    sample_ns => SampleNs,
                    stacks_ns => Of * SampleNs,
                    calls => maps:get({Kind, MFA}, InWindows, 0) * Factor
                }
             || MFA := Of <- maps:merge(Called, Functions)
            ]
        end
     || Kind := #{functions := Functions, sample_ns := SampleNs} <- Computing
    ]).

by_function(Parts, #{exact := Exact}) ->
    Counted = #{MFA => [] || MFA := Calls <- Exact, Calls > 0},
    lists:foldl(
        fun(#{mfa := MFA} = Part, Acc) -> Acc#{MFA => [Part | maps:get(MFA, Acc, [])]} end,
        Counted,
        Parts
    ).

function(MFA, Parts, Input) ->
    maps:merge(time(MFA, Parts, Input), called(MFA, Parts, Input)).

called(MFA, _Parts, #{exact := Exact}) when is_map_key(MFA, Exact) ->
    #{mfa => MFA, calls => map_get(MFA, Exact), counted => exact};
called(MFA, _Parts, #{left_out := LeftOut}) when is_map_key(MFA, LeftOut) ->
    #{mfa => MFA, counted => no};
called(MFA, Parts, Input) ->
    Calls = lists:sum([C || #{calls := C} <- Parts]),
    case error_of(1, MFA, Calls, Input) of
        Error when Calls == 0; Error > ?MOST_OFF ->
            #{mfa => MFA, counted => no};
        Error ->
            Off = Calls * Error,
            OfComputing = lists:sum([C || #{calls := C, samples := _} <- Parts]),
            #{
                mfa => MFA,
                counted => estimated,
                calls => round(Calls),
                calls_low => floor(max(0, Calls - OfComputing * (1 - 1 / ?ROUGH) - Off)),
                calls_high => ceil(Calls + OfComputing * (?ROUGH - 1) + Off)
            }
    end.

%% Of what windows say, with the 95 % of one window or of several.
error_of(Of, MFA, Calls, #{windows := #{count := Count, ns := Ns} = Windows} = Input) ->
    #{duration_ns := DurationNs} = Input,
    %% Windows that fill the time have seen all.
    Unseen = math:sqrt(max(0.0, 1 - Ns / DurationNs)),
    Poisson = 1 / math:sqrt(max(1, Calls * Ns / DurationNs)),
    Unseen * width(Count) * max(Poisson, element(Of, errors_of(MFA, Windows))).

errors_of(_MFA, #{count := 1}) -> {?UNKNOWN, ?UNKNOWN, 0.0};
errors_of(MFA, #{errors := Errors}) -> maps:get(MFA, Errors, {0.0, 0.0, 0.0}).

%% Of Student's distribution.
width(Count) when Count =< 2 -> 12.7;
width(3) -> 4.3;
width(4) -> 3.2;
width(5) -> 2.8;
width(Count) -> ?WIDTH + 2.6 / (Count - 2).

time(_MFA, [], _Input) ->
    #{};
time(MFA, Parts, Input) ->
    InWindows = [Part || #{windows_ns := _} = Part <- Parts],
    InStacks = [Part || #{stacks_ns := _} = Part <- Parts],
    #{windows := Windows, duration_ns := DurationNs} = Input,
    #{ns := WindowsNs, uncertain_ns := Uncertain} = Windows,
    WNs = lists:sum([Ns || #{windows_ns := Ns} <- InWindows]),
    SNs = lists:sum([Ns || #{stacks_ns := Ns} <- InStacks]),
    Calls = lists:sum([C || #{calls := C} <- InWindows]),
    OfCalls = error_of(1, MFA, Calls, Input),
    OfOne = error_of(2, MFA, Calls, Input),
    Spread = WNs * math:sqrt(OfCalls * OfCalls + OfOne * OfOne),
    %% What measuring adds, what the runtime cuts off, and what other programs take, is uncertain in
    %% the same way each time.
    Alike = WNs * element(3, errors_of(MFA, Windows)),
    All = lists:sum([Ns || {F, _, _, Ns} <- map_get(callers, Windows), F =:= MFA]),
    Part = WNs * WindowsNs / DurationNs / max(1, All),
    Cut = maps:get(MFA, Uncertain, 0) * min(1.0, Part) * DurationNs / max(1, WindowsNs),
    Poisson = lists:sum([
        case N of
            0 -> math:pow(?NONE_SEEN * One, 2);
            _ -> math:pow(?WIDTH * One * math:sqrt(N), 2)
        end
     || #{samples := N, sample_ns := One} <- InStacks
    ]),
    Off = math:sqrt(Spread * Spread + Poisson) + Cut + Alike,
    #{
        own_time_ns => round(WNs + SNs),
        own_time_low_ns => floor(max(0, WNs + SNs - Off)),
        own_time_high_ns => ceil(WNs + SNs + Off),
        time_from => from(InWindows, SNs, WNs)
    }.

from([], _, _) -> stacks;
from(_, SNs, WNs) when SNs > 0, WNs > 0 -> both;
from(_, SNs, _) when SNs > 0 -> stacks;
from(_, _, _) -> windows.
