%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_compare).
-moduledoc """
Compares two recordings of the same command: slower, faster, more or less. Pure.

Each run of a test is one value (`m:dyno_compare_repetitions`). Each round of a benchmark is one
value. The ratio of two recordings' medians gets its interval from an interval of each median by
order statistics, each at the square root of the level, so that both together hold at least the
level. This interval is wide and assumes nothing about the noise.

Two runs of the VM differ by up to some percent with the same code, and the rounds of one run do not
show this (Kalibera and Jones, "Rigorous Benchmarking in Reasonable Time", 2013). So only
differences of times wholly above 3 % count. Reductions and words for each call do not depend on the
machine: their limit is 0.1 %.

Items in only one of the recordings come first (`m:dyno_compare_presence`).
""".

-import(dyno_compare_repetitions, [in_words/3, ratio/2]).

-export([compare/3, changes/2, comparable/3, format_error/1]).
-export([table/1, warnings/2]).

-export_type([change/0, verdict/0, options/0, reason/0, difference/0]).

-type options() :: #{
    %% Smaller relative differences do not count: 0.03, also the minimum for times.
    threshold => float(),
    %% The reaction to recordings made under different conditions; default refuse.
    incomparable => refuse | warn,
    %% `exact`: only metrics that do not depend on the machine, which may differ; default all.
    metrics => all | exact,
    %% `paired`: the first runs of both sides were measured at one time, and so on; default apart.
    runs => apart | paired,
    %% Further metrics and columns to compare; default none.
    names => dyno_compare_metrics:names()
}.

-type difference() :: {Field :: binary(), dyno_recording:json(), dyno_recording:json()}.

-type reason() ::
    {commands, Old :: binary(), New :: binary()}
    | {not_complete, old | new, Status :: binary()}
    | {environments, [difference(), ...]}
    | nothing_in_common.

-doc """
* `kind`: the kind of metric: `time` counts for `slower` and `faster`; `presence`: in one recording
  only.
* `of_each`: the unit compared, rounds or runs.
* `old`, `new`: `undefined` if absent or possibly left out.
* `ratio`: new by old; `undefined` if the old value is 0.
* `low`, `high`: its interval, if there are enough rounds or repetitions.
* `verdict`: of the new against the old.
""".
-type change() :: #{
    item := binary(),
    metric := binary(),
    unit := binary(),
    better := lower | higher,
    kind := time | other_time | exact | amount | presence,
    of_each := round | run,
    old := number() | undefined,
    new := number() | undefined,
    ratio := float() | undefined,
    low := float() | undefined,
    high := float() | undefined,
    %% The runs of the side that has fewer.
    runs => pos_integer(),
    %% The code's work changes with the calls before it, or response times within runs.
    drifts => true,
    %% The shares of the processors that other programs took, if they differ much.
    others => {Old :: float(), New :: float()},
    verdict := verdict()
}.

-doc "One run a side gives no verdict; new and gone items need none.".
-type verdict() :: slower | faster | more | less | same | undecided | one_run | new | gone.

-define(LEVEL, (dyno_stats_interval:level())).
%% Words and reductions depend on these.
-define(DECISIVE_OF_EXACT, [~"otp", ~"jit"]).
%% Fields of the environment that change a time's meaning.
-define(DECISIVE, [
    ~"cpu_model", ~"cores", ~"otp", ~"jit", ~"schedulers_online", ~"os"
]).
%% Fields that change the meaning of a test's metrics.
-define(DECISIVE_OF_TESTS, [
    ~"level",
    ~"budget",
    ~"patterns",
    ~"distribution",
    ~"duration_ms",
    ~"warmup_ms",
    ~"interval_ms",
    ~"without"
]).

-doc "The comparison as a recording of the command `compare`.".
-spec compare(Old, New, options()) -> {ok, dyno_recording:document()} | {error, reason()} when
    Old :: dyno_recording:document(), New :: dyno_recording:document().
compare(Old, New, Options) ->
    maybe
        {ok, Warnings} ?= permitted(comparable(Old, New, all), Options),
        {ok, Changes} ?= common(changes({Old, New}, Options)),
        Document0 = dyno_recording:new(
            compare, name(Old, New), parameters(Old, New, Options), map_get(~"environment", New)
        ),
        Document1 = dyno_recording:add_tables(Document0, [table(Changes)]),
        Document2 = dyno_recording:add_warnings(Document1, warnings(Changes, Warnings)),
        Document3 = dyno_recording:put(Document2, status, complete),
        %% Unchanged: the page draws both in the same charts.
        {ok, Document3#{~"recordings" => #{~"old" => Old, ~"new" => New}}}
    end.

permitted(ok, _) -> {ok, []};
permitted({error, {environments, Differences}}, #{incomparable := warn}) -> {ok, Differences};
permitted({error, _} = Error, _) -> Error.

common([]) -> {error, nothing_in_common};
common(Changes) -> {ok, Changes}.

name(#{~"name" := Name}, #{~"name" := Name}) ->
    Name;
name(#{~"name" := Old}, #{~"name" := New}) when is_binary(Old), is_binary(New) ->
    <<Old/binary, " and ", New/binary>>.

parameters(Old, New, Options) ->
    #{
        threshold => maps:get(threshold, Options, dyno_stats_verdict:threshold()),
        level => ?LEVEL,
        old => #{K => maps:get(K, Old, null) || K <- [~"name", ~"command", ~"started_at"]},
        new => #{K => maps:get(K, New, null) || K <- [~"name", ~"command", ~"started_at"]}
    }.

-doc "Whether they may be compared: the same command, under conditions that the metrics need.".
-spec comparable(Old, New, all | exact) -> ok | {error, reason()} when
    Old :: dyno_recording:document(), New :: dyno_recording:document().
comparable(#{~"command" := Old}, #{~"command" := New}, _Metrics) when
    Old =/= New; Old =:= ~"compare"
->
    {error, {commands, Old, New}};
comparable(#{~"status" := Status}, _, _Metrics) when Status =/= ~"complete" ->
    {error, {not_complete, old, Status}};
comparable(_, #{~"status" := Status}, _Metrics) when Status =/= ~"complete" ->
    {error, {not_complete, new, Status}};
comparable(#{~"environment" := There} = Old, #{~"environment" := Here} = New, Metrics) ->
    case differences(decisive(Metrics), There, Here) ++ load(Old, New) of
        [] -> ok;
        Differences -> {error, {environments, Differences}}
    end.

decisive(all) -> ?DECISIVE;
decisive(exact) -> ?DECISIVE_OF_EXACT.

differences(Keys, Old, New) ->
    dyno_environment:differences(maps:with(Keys, Old), maps:with(Keys, New)).

%% The load: number of processes, length of arrivals; for a test also the measuring options. Values
%% that an older dyno did not record do not count as different.
load(#{~"command" := Command, ~"parameters" := Old}, #{~"parameters" := New}) ->
    Known = [
        Key
     || Command =:= ~"test" orelse Command =:= ~"record",
        Key <- ?DECISIVE_OF_TESTS,
        is_map_key(Key, Old),
        is_map_key(Key, New)
    ],
    differences([~"concurrency", ~"load" | Known], Old, New).

-doc "The changes of all common codes or sizes; before them the items of one recording only.".
-spec changes({Old, New}, options()) -> [change()] when
    Old :: dyno_recording:document(), New :: dyno_recording:document().
changes({Old, New}, Options) ->
    Threshold = maps:get(threshold, Options, dyno_stats_verdict:threshold()),
    Pairs = [
        Pair
     || Pair <- pairs(Old, New, maps:get(names, Options, [])),
        maps:get(metrics, Options, all) =:= all orelse is_exact(Pair)
    ],
    {OfRounds, OfRuns} = lists:partition(fun({#{of_each := Of}, _}) -> Of =:= round end, Pairs),
    Changes =
        [change(A, B, Threshold) || {A, B} <- OfRounds] ++
            dyno_compare_repetitions:changes(
                OfRuns,
                max(Threshold, dyno_stats_verdict:threshold()),
                maps:get(runs, Options, apart)
            ),
    [Presence || Changes =/= [], Presence <- dyno_compare_presence:changes(Old, New)] ++ Changes.

pairs(Old, New, Names) ->
    News =
        #{
            {Item, Name} => Of
         || #{item := Item, metric := Name} = Of <- dyno_compare_metrics:metrics(New, Names)
        },
    [
        {Of, map_get({Item, Name}, News)}
     || #{item := Item, metric := Name} = Of <- dyno_compare_metrics:metrics(Old, Names),
        is_map_key({Item, Name}, News)
    ].

is_exact({#{kind := Old}, #{kind := New}}) -> Old =:= exact andalso New =:= exact.

change(#{drifts := true} = Metric, #{values := News}, _Threshold) ->
    #{values := Olds} = Metric,
    Values = {Old, New} = {dyno_stats:median(Olds), dyno_stats:median(News)},
    Unknown = {ratio(Old, New), undefined, undefined},
    dyno_compare_metrics:change(Metric, Values, Unknown, undecided);
change(Metric, #{drifts := true} = New, Threshold) ->
    change(Metric#{drifts => true}, New, Threshold);
change(#{values := Olds, kind := Kind, better := Better} = Metric, #{values := News}, Threshold) ->
    Old = dyno_stats:median(Olds),
    New = dyno_stats:median(News),
    {Low, High} = Interval = interval(Kind, Olds, News),
    Counts = {length(Olds), length(News)},
    Verdict = verdict(Kind, Better, {Old, New}, Counts, Interval, Threshold),
    dyno_compare_metrics:change(Metric, {Old, New}, {ratio(Old, New), Low, High}, Verdict).

interval(exact, _, _) ->
    {undefined, undefined};
interval(_, Olds, News) ->
    Level = math:sqrt(?LEVEL),
    case {dyno_stats_interval:median(Olds, Level), dyno_stats_interval:median(News, Level)} of
        {{ok, {OldLow, OldHigh, _}}, {ok, {NewLow, NewHigh, _}}} when OldLow > 0, NewLow > 0 ->
            {NewLow / OldHigh, NewHigh / OldLow};
        _ ->
            {undefined, undefined}
    end.

%% By exact metrics; by an interval; or by single values if nothing else exists, like varying words
%% of a call. Too few rounds for an interval decide nothing.
verdict(Kind, _, {Old, New}, _, _, _) when Old == 0, New > 0, Kind =/= time -> more;
verdict(_, _, {Old, New}, _, _, _) when Old == New, Old == 0 -> same;
verdict(exact, Better, Values, _, _, _) ->
    in_words(dyno_stats_verdict:ratio(point(Values), dyno_stats_verdict:exact()), exact, Better);
verdict(_, _, {Old, New}, _, _, _) when Old =< 0; New =< 0 -> zero(Old, New);
verdict(Kind, Better, _, _, {Low, _} = Interval, Threshold) when Low =/= undefined ->
    in_words(
        dyno_stats_verdict:ratio(Interval, max(Threshold, dyno_stats_verdict:threshold())),
        Kind,
        Better
    );
verdict(Kind, Better, Values, {1, 1}, _, Threshold) ->
    in_words(
        dyno_stats_verdict:ratio(point(Values), max(Threshold, dyno_stats_verdict:threshold())),
        Kind,
        Better
    );
verdict(_, _, _, _, _, _) ->
    undecided.

zero(Old, New) when New > Old -> more;
zero(Old, New) when New < Old -> less;
zero(_, _) -> undecided.

point({Old, New}) when Old > 0, New > 0 -> {New / Old, New / Old};
%% From something to nothing: less than any threshold.
point({_, _}) -> {1.0e-9, 1.0e-9}.

-doc "The changes as a recording's table `changes`.".
-spec table([change()]) -> dyno_recording_table:table().
table(Changes) ->
    dyno_recording_table:make(
        #{
            name => ~"changes",
            title => title(lists:usort([Of || #{of_each := Of} <- Changes])),
            derived => true,
            columns => [
                {~"item", ~"Of", string, key, item},
                {~"metric", ~"Metric", string, key, metric},
                {~"old", ~"Old", number, old},
                {~"new", ~"New", number, new},
                {~"unit", ~"Unit", string, unit},
                {~"ratio", ~"Ratio", number, ratio},
                {~"low", ~"Low", number, {low, ~"ratio"}, low},
                {~"high", ~"High", number, {high, ~"ratio"}, high},
                {~"verdict", ~"Verdict", string, verdict}
            ]
        },
        Changes
    ).

title([round]) -> ~"Comparison of the rounds' medians";
title([run]) -> ~"Comparison of the runs' means";
title(_Both) -> ~"Comparison of the rounds' medians and the runs' means".

-doc "Reasons to doubt a comparison.".
-spec warnings([change()], [difference()]) -> [{binary(), binary()}].
warnings(Changes, Differences) ->
    Others = [Of || #{others := Of} <- Changes],
    Rounds = [C || #{of_each := round, kind := Kind} = C <- Changes, Kind =/= presence],
    ByValue = [
        x
     || #{kind := amount, low := undefined, verdict := V} <- Rounds,
        V =/= undecided,
        V =/= same
    ],
    [
        {Code, dyno_recording_check:text(Text)}
     || {Code, [_ | _], Text} <- [
            {~"environments", Differences, ["compared by force: ", listed(Differences)]},
            {
                ~"two_runs",
                [x || #{kind := time} <- Rounds],
                "two runs of the VM differ also where the code does not, by up to some percent, "
                "which the rounds of one run do not show; so only what is wholly above 3 % counts, "
                "and a ratio of 1.05 may not repeat"
            },
            {
                ~"single",
                ByValue,
                "a value without an interval rests on one value in each recording: its "
                "verdict is by that value alone"
            },
            {
                ~"drifts",
                [x || #{drifts := true} <- Rounds],
                "the time of a code depends on how long it is measured, as its work changes from "
                "call to call: it has no verdict"
            },
            {
                ~"course",
                [x || #{drifts := true, of_each := run} <- Changes],
                "response times changed within runs: intervals include that change, as the ratio "
                "depends on how long the runs lasted"
            },
            {
                ~"others",
                lists:sublist(Others, 1),
                others(Others)
            },
            {
                ~"one_run",
                [x || #{verdict := one_run} <- Changes],
                "one run of a size says nothing about chance: where a recording has no more, the "
                "values stand side by side without a verdict; measure both with --repeat 5"
            }
        ]
    ].

others([]) ->
    "";
others([{Old, New} | _]) ->
    io_lib:format(
        "other programs took at least ~ts of the processors in the old recording, and ~ts in the "
        "new, so times may have no verdict; measure both on the same quiet machine",
        [dyno_unit:format(Share, ~"ratio") || Share <- [Old, New]]
    ).

-spec format_error(reason()) -> unicode:chardata().
format_error({commands, Same, Same}) ->
    io_lib:format(
        "recordings of dyno ~ts cannot be compared; give two of a measurement, such as dyno "
        "bench or dyno test",
        [Same]
    );
format_error({commands, Old, New}) ->
    io_lib:format(
        "the old recording is of dyno ~ts, the new one of dyno ~ts; give two of the same "
        "command",
        [Old, New]
    );
format_error({not_complete, Which, Status}) ->
    [
        "the ", atom_to_binary(Which), " recording is ", Status, ", not complete; measure it again"
    ];
format_error({environments, Differences}) ->
    [
        "the recordings were made under other conditions: ",
        listed(Differences),
        "; measure both in the same place"
    ];
format_error(nothing_in_common) ->
    "the recordings have no code, size or metric in common; give the codes the same --label".

listed(Differences) ->
    lists:join(", ", [
        [Field, " was ", shown(Old), " and is ", shown(New)]
     || {Field, Old, New} <- Differences
    ]).

shown(Text) when is_binary(Text) -> Text;
shown(null) -> "not known";
shown(Value) -> json:encode(Value).
