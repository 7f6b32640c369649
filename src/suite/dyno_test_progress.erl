%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_test_progress).
-moduledoc """
Estimates a test's progress and remaining time from its plan.

A recorded curve has its own length, and a search or a load of a fixed number of operations may end
early. Set-up, runs without instruments and reading count by the clock: if a run took longer than
its load, the next ones are expected to as well. The share done never shrinks.
""".

-export([new/2]).

-export_type([progress/0, event/0]).

-type progress() ::
    #{phase := warning, text := binary()}
    | #{
        phase := atom(),
        run := binary() | undefined,
        runs_done := non_neg_integer(),
        runs_total := non_neg_integer(),
        elapsed_ms := non_neg_integer(),
        %% Undefined before the first load.
        remaining_ms := non_neg_integer() | undefined,
        %% The test may end earlier.
        at_most := boolean(),
        throughput := float() | undefined,
        %% The phase, in words.
        text := binary()
    }.

-type event() ::
    {phase, atom()}
    | {load, dyno_suite:load()}
    | {waiting, {Operations :: pos_integer(), TimeoutMs :: pos_integer()}}
    | {interval, dyno_load_source:interval() | unknown, ElapsedMs :: integer()}.

-doc "A function for each event, the number of completed runs, and the run's id; one process.".
-spec new(dyno_suite:options(), #{progress => fun((progress()) -> ok), _ => _}) ->
    fun((event(), non_neg_integer(), binary() | undefined) -> ok).
new(#{sizes := Sizes, repeat := Repeat} = SuiteOptions, Options) ->
    Report = maps:get(progress, Options, fun(_) -> ok end),
    Start = erlang:monotonic_time(millisecond),
    Total = length(Sizes) * Repeat,
    _ = put(?MODULE, first(SuiteOptions, Options)),
    fun
        ({load, Load}, _Done, _Run) ->
            _ = put(?MODULE, planned(SuiteOptions, Load, get(?MODULE))),
            ok;
        ({waiting, {N, TimeoutMs}}, _Done, _Run) ->
            Report(#{phase => warning, text => waiting(N, TimeoutMs)});
        (Event, Done, Run) ->
            {Phase, Throughput} =
                case Event of
                    {interval, unknown, _} -> {measure, undefined};
                    {interval, #{throughput_per_s := PerS}, _} -> {measure, PerS};
                    {phase, Next} -> {Next, undefined}
                end,
            ElapsedMs = erlang:monotonic_time(millisecond) - Start,
            Begun = #{bound := Bound, model := Model} = began(Phase, ElapsedMs, get(?MODULE)),
            {LeftMs, Left} = left(Phase, Total - Done, ElapsedMs, Begun),
            _ = put(?MODULE, Left),
            Report(#{
                phase => Phase,
                run => Run,
                runs_done => Done,
                runs_total => Total,
                elapsed_ms => ElapsedMs,
                remaining_ms => LeftMs,
                at_most => Bound =:= at_most,
                throughput => Throughput,
                text => in_words(Phase, Model)
            }),
            ok
    end.

%% Before the first load is known: the suite's own, if any.
first(#{load := Load} = SuiteOptions, Options) ->
    %% Of the last load: the kind of its bound, and its run's length. The run's begin, the longest
    %% run, and the share done.
    New = #{
        bound => unknown, run_ms => 0, model => none, began_ms => 0, longest_ms => 0, share => 0
    },
    case {Load, Options} of
        {_, #{load := #{objective := _}}} -> New;
        {#{model := search}, _} -> New;
        {none, _} -> planned(SuiteOptions, #{model => none}, New);
        _ -> planned(SuiteOptions, #{model => closed}, New)
    end.

planned(SuiteOptions, #{model := Model} = Load, State) ->
    {Bound, RunMs} = dyno_test_plan:run_ms(SuiteOptions, Load),
    State#{bound := Bound, run_ms := RunMs, model := Model}.

%% A run ends when the next one begins.
began(set_up, ElapsedMs, #{share := 0} = State) ->
    State#{began_ms := ElapsedMs};
began(set_up, ElapsedMs, #{began_ms := BeganMs, longest_ms := LongestMs} = State) ->
    State#{began_ms := ElapsedMs, longest_ms := max(LongestMs, ElapsedMs - BeganMs)};
began(_Phase, _ElapsedMs, State) ->
    State.

left(_Phase, _Runs, _ElapsedMs, #{bound := unknown} = State) ->
    {undefined, State};
left(Phase, Runs, _ElapsedMs, State) when Phase =:= end_suite; Runs =< 0 ->
    {0, State};
left(init_suite, Runs, _ElapsedMs, #{run_ms := RunMs} = State) ->
    {Runs * RunMs, State};
left(Phase, Runs, ElapsedMs, #{began_ms := BeganMs, share := Before} = State) ->
    RunMs = max(map_get(run_ms, State), map_get(longest_ms, State)),
    OfThisMs =
        case Phase of
            tear_down -> 0;
            _ -> max(0, RunMs - (ElapsedMs - BeganMs))
        end,
    LeftMs = (Runs - 1) * RunMs + OfThisMs,
    case max(1.0e-6, ElapsedMs / max(1, ElapsedMs + LeftMs)) of
        %% The shown share must not shrink.
        Share when Before > Share -> {round(ElapsedMs * (1 - Before) / Before), State};
        Share -> {LeftMs, State#{share := Share}}
    end.

waiting(N, TimeoutMs) ->
    dyno_recording_part:text(
        "~b operation~ts did not end with the load; dyno waits for at most ~ts (timeout_ms)",
        [N, [$s || N > 1], dyno_unit:format(TimeoutMs * 1_000_000, ~"ns")]
    ).

in_words(init_suite, _) -> ~"setting up the suite";
in_words(set_up, _) -> ~"setting up";
in_words(attach, _) -> ~"attaching to the targets";
in_words(baseline, _) -> ~"run without instruments";
in_words(warm_up, _) -> ~"warming up";
in_words(measure, search) -> ~"searching for the highest rate";
in_words(measure, _) -> ~"measuring";
in_words(finish, _) -> ~"reading the instruments";
in_words(tear_down, _) -> ~"taking down";
in_words(end_suite, _) -> ~"taking down the suite".
