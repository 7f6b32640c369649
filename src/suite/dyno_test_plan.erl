%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_test_plan).
-moduledoc false.
%% The runs of a test, their order and duration. Pure.
%%
%% Repetitions of a size do not run in a row: a drift (a machine that warms up, a database that
%% fills) would look like a difference between sizes. Each repetition runs all sizes once, in its
%% own recorded random order.

-export([runs/1, seed/1, id/1, run_ms/2, load_ms/2, sorted/1]).

-export_type([run/0]).

-type run() :: {Size :: non_neg_integer(), Repetition :: pos_integer()}.

%% A run's time besides its load: booting nodes, attaching and removing agents.
-define(BESIDES_MS, 2000).
-define(SEEDS, 1_000_000_000).

-doc "The seed of the order: the suite's, or a new one.".
-spec seed(dyno_suite:options()) -> non_neg_integer().
seed(#{seed := undefined}) -> rand:uniform(?SEEDS);
seed(#{seed := Seed}) -> Seed.

-doc "The runs in order. Without repetitions it is the suite's.".
-spec runs(dyno_suite:options()) -> [run(), ...].
runs(#{sizes := Sizes, repeat := 1}) ->
    %% The same size twice in a list means two repetitions.
    numbered(Sizes, #{});
runs(#{sizes := Sizes, repeat := Repeat} = Options) ->
    State = rand:seed_s(exsss, seed(Options)),
    {Blocks, _} = lists:mapfoldl(
        fun(_, Acc) -> shuffled(Sizes, Acc) end, State, lists:seq(1, Repeat)
    ),
    numbered(lists:append(Blocks), #{}).

numbered([], _Seen) ->
    [];
numbered([Size | Rest], Seen) ->
    Repetition = maps:get(Size, Seen, 0) + 1,
    [{Size, Repetition} | numbered(Rest, Seen#{Size => Repetition})].

shuffled(Sizes, State0) ->
    {Keyed, State} = lists:mapfoldl(
        fun(Size, Acc0) ->
            {Key, Acc} = rand:uniform_s(Acc0),
            {{Key, Size}, Acc}
        end,
        State0,
        Sizes
    ),
    {[Size || {_, Size} <- lists:sort(Keyed)], State}.

-spec id(run()) -> binary().
id({Size, Repetition}) ->
    dyno_recording_run:id(#{~"size" => Size}, Repetition).

-doc "The approximate time of a run and its halves; some loads may end earlier.".
-spec run_ms(dyno_suite:options(), #{model := atom(), _ => _}) ->
    {exactly | at_most, pos_integer()}.
run_ms(#{warmup_ms := WarmupMs} = Options, Load) ->
    {Bound, LoadMs} = load_ms(Options, Load),
    {Bound, LoadMs + WarmupMs + dyno_test_baseline_run:adds_ms(Options, Load) + ?BESIDES_MS}.

-doc "The approximate length of a run's load.".
-spec load_ms(dyno_suite:options(), #{model := atom(), _ => _}) ->
    {exactly | at_most, pos_integer()}.
load_ms(_Options, #{model := search, limit_ms := LimitMs}) ->
    {at_most, LimitMs};
load_ms(Options, #{model := Model} = Load) when
    Model =:= phases; is_map_key(workers, Load)
->
    Defaults = maps:with([duration_ms, operations], Options),
    Parts = dyno_load_part:parts(Load, Defaults#{seed => 1}),
    LoadMs = lists:sum([Ns || #{duration_ns := Ns} <- Parts]) div 1_000_000,
    case [x || #{iterations := _} <- Parts] of
        [] -> {exactly, LoadMs};
        _ -> {at_most, LoadMs}
    end;
load_ms(#{duration_ms := DurationMs}, _Load) ->
    %% Not read yet, or not dyno's own.
    {exactly, DurationMs}.

-spec sorted([dyno_recording:run()]) -> [dyno_recording:run()].
sorted(Runs) ->
    Key = fun(#{~"size" := Size} = Run) -> {Size, maps:get(~"repetition", Run, 1)} end,
    [Run || {_, Run} <- lists:keysort(1, [{Key(Run), Run} || Run <- Runs])].
