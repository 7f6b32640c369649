%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_test_progress).
-moduledoc """
How far a test is, and how long it will still take, by its plan.

How long a run takes follows from its load: a recorded curve has its own length, and a search,
or a load of a fixed number of operations, may be over earlier. Set-up, runs without instruments and
reading count by the clock: where a run took longer than its load lets expect, the next ones are
taken to do so, too. The share that is done never shrinks.
""".

-export([new/2]).

-export_type([progress/0, event/0]).

-type progress() :: #{
    phase := atom(),
    run := binary() | undefined,
    runs_done := non_neg_integer(),
    runs_total := non_neg_integer(),
    elapsed_ms := non_neg_integer(),
    %% Undefined before the first load.
    remaining_ms := non_neg_integer() | undefined,
    %% The test may be over earlier.
    at_most := boolean(),
    throughput := float() | undefined,
    %% The phase, in words.
    text := binary()
}.

-type event() ::
    {phase, atom()}
    | {load, dyno_suite:load()}
    | {interval, dyno_load_source:interval() | unknown, ElapsedMs :: integer()}.

-define(EXACT, 1).
-define(AT_MOST, 2).
-define(UNKNOWN, 0).
-define(SEARCHES, 1).
-define(BEGAN, 4).
-define(LONGEST, 5).
-define(SHARE_DONE, 6).
-define(WHOLE, 1_000_000).

-doc "What to call with each event, the number of runs that are done, and the run's id.".
-spec new(dyno_suite:options(), #{progress => fun((progress()) -> ok), _ => _}) ->
    fun((event(), non_neg_integer(), binary() | undefined) -> ok).
new(SuiteOptions, Options) ->
    #{sizes := Sizes, repeat := Repeat} = SuiteOptions,
    Report = maps:get(progress, Options, fun(_) -> ok end),
    Start = erlang:monotonic_time(millisecond),
    Total = length(Sizes) * Repeat,
    %% Of the last load: the length of its run, which bound that is, and whether it is a search.
    %% When the run began, the longest that there was, and the share that was done.
    Length = atomics:new(6, []),
    first(SuiteOptions, Options, Length),
    fun
        ({load, Load}, _Done, _Run) ->
            keep(dyno_test_plan:run_ms(SuiteOptions, Load), Load, Length);
        (Event, Done, Run) ->
            {Phase, Throughput} =
                case Event of
                    {interval, unknown, _} -> {measure, undefined};
                    {interval, #{throughput_per_s := PerS}, _} -> {measure, PerS};
                    {phase, Next} -> {Next, undefined}
                end,
            ElapsedMs = erlang:monotonic_time(millisecond) - Start,
            ok = began(Phase, ElapsedMs, Length),
            Left = fun(RunMs) -> left(Phase, Total - Done, ElapsedMs, RunMs, Length) end,
            Report((remaining(Left, Length))#{
                phase => Phase,
                run => Run,
                runs_done => Done,
                runs_total => Total,
                elapsed_ms => ElapsedMs,
                throughput => Throughput,
                text => in_words(Phase, atomics:get(Length, 3))
            }),
            ok
    end.

%% A run ends where the next one begins.
began(set_up, ElapsedMs, Length) ->
    LastMs = ElapsedMs - atomics:exchange(Length, ?BEGAN, ElapsedMs),
    case atomics:get(Length, ?SHARE_DONE) of
        0 -> ok;
        _ -> atomics:put(Length, ?LONGEST, max(LastMs, atomics:get(Length, ?LONGEST)))
    end;
began(_Phase, _ElapsedMs, _Length) ->
    ok.

left(Phase, Runs, _ElapsedMs, _RunMs, _Length) when Phase =:= end_suite; Runs =< 0 ->
    0;
left(init_suite, Runs, _ElapsedMs, RunMs, _Length) ->
    Runs * RunMs;
left(Phase, Runs, ElapsedMs, PlannedMs, Length) ->
    RunMs = max(PlannedMs, atomics:get(Length, ?LONGEST)),
    InRunMs = ElapsedMs - atomics:get(Length, ?BEGAN),
    OfThisMs =
        case Phase of
            tear_down -> 0;
            _ -> max(0, RunMs - InRunMs)
        end,
    LeftMs = (Runs - 1) * RunMs + OfThisMs,
    Share = ElapsedMs * ?WHOLE div max(1, ElapsedMs + LeftMs),
    case atomics:get(Length, ?SHARE_DONE) of
        %% What was shown as done stays done.
        Before when Before > max(1, Share) ->
            ElapsedMs * (?WHOLE - Before) div Before;
        _ ->
            ok = atomics:put(Length, ?SHARE_DONE, max(1, Share)),
            LeftMs
    end.

%% Before the first load has come: the suite's own, where it has one.
first(#{load := Load} = SuiteOptions, Options, Length) ->
    case {Load, Options} of
        {_, #{load := #{objective := _}}} -> ok;
        {#{model := search}, _} -> ok;
        _ ->
            First = #{model => case Load of none -> none; _ -> closed end},
            keep(dyno_test_plan:run_ms(SuiteOptions, First), First, Length)
    end.

keep({Bound, RunMs}, #{model := Model}, Length) ->
    ok = atomics:put(Length, 1, RunMs),
    ok = atomics:put(Length, 2, case Bound of exactly -> ?EXACT; at_most -> ?AT_MOST end),
    atomics:put(Length, 3, case Model of search -> ?SEARCHES; _ -> 0 end).

remaining(Left, Length) ->
    case atomics:get(Length, 2) of
        ?UNKNOWN -> #{remaining_ms => undefined, at_most => false};
        Bound -> #{remaining_ms => Left(atomics:get(Length, 1)), at_most => Bound =:= ?AT_MOST}
    end.

in_words(init_suite, _) -> ~"setting up the suite";
in_words(set_up, _) -> ~"setting up";
in_words(attach, _) -> ~"attaching to the targets";
in_words(baseline, _) -> ~"run without instruments";
in_words(warm_up, _) -> ~"warming up";
in_words(measure, ?SEARCHES) -> ~"searching for the highest rate";
in_words(measure, _) -> ~"measuring";
in_words(finish, _) -> ~"reading the instruments";
in_words(tear_down, _) -> ~"taking down";
in_words(end_suite, _) -> ~"taking down the suite".
