%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_result).
-moduledoc false.
%% Makes a recording of a comparison: the tables `codes` and `comparisons`, the times over the
%% rounds, and warnings about unreliable numbers. Pure.

-export([document/4, ended/4]).
-export_type([run/0]).

-type run() :: #{
    labels => #{binary() => binary()},
    size => pos_integer() | undefined,
    result := dyno_bench_engine:result()
}.

-define(LEVEL, (dyno_stats_interval:level())).
%% A larger ratio means that one value is 0.
-define(LARGEST_RATIO, 1.0e6).

-doc "doc/recording.md describes `Parameters`.".
-spec document(
    Name :: binary() | undefined, #{atom() => term()}, [run(), ...], Environment :: term()
) -> dyno_recording:document().
document(Name, Parameters, [#{result := #{candidates := First}} | _] = Runs, Environment) ->
    Document = dyno_recording:new(bench, name(Name, First), Parameters, Environment),
    ended(
        Document,
        [run(Run) || Run <- Runs],
        lists:sum([Ms || #{result := #{duration_ms := Ms}} <- Runs]) * 1_000_000,
        all_findings([
            {id(Run), dyno_bench_findings:findings(labelled(Result), Result)}
         || #{result := Result} = Run <- Runs
        ])
    ).

-doc "Interrupted if one of the runs was.".
-spec ended(
    dyno_recording:document(),
    [#{status := complete | interrupted, atom() => term()}],
    DurationNs :: non_neg_integer(),
    [dyno_finding:t()]
) -> dyno_recording:document().
ended(Document, Runs, DurationNs, Findings) ->
    WithRuns = lists:foldl(fun(Run, D) -> dyno_recording:add_run(D, Run) end, Document, Runs),
    Timed = dyno_recording:put(WithRuns, duration_ns, DurationNs),
    Status = lists:max([Status || #{status := Status} <- Runs]),
    Notes = [dyno_finding:note(Finding) || Finding <- Findings],
    dyno_recording:put(dyno_recording:add_warnings(Timed, Notes), status, Status).

name(undefined, [#{label := Label}]) -> string:slice(Label, 0, 60);
name(undefined, Candidates) -> text("~b codes", [length(Candidates)]);
name(Name, _Candidates) -> Name.

id(Run) -> dyno_recording_run:id(maps:get(labels, Run, #{}), 1).

%% Findings of all runs appear once, without a run's id.
all_findings([{_, First} | _] = Each) ->
    Common = [F || F <- First, lists:all(fun({_, Of}) -> lists:member(F, Of) end, Each)],
    Own = [{Id, Finding} || {Id, Of} <- Each, Finding <- Of -- Common],
    Common ++ [F#{text := text("~ts: ~ts", [Id, Text])} || {Id, #{text := Text} = F} <- Own].

run(#{result := #{status := Status, duration_ms := DurationMs} = Result} = Run) ->
    Labelled = labelled(Result),
    {Labels, _} = lists:unzip(Labelled),
    #{
        labels => maps:get(labels, Run, #{}),
        size => maps:get(size, Run, undefined),
        status => Status,
        duration_ns => DurationMs * 1_000_000,
        metrics => metrics(Result),
        series => series(Labelled, maps:get(metric, Result, time)),
        tables =>
            [codes(Labelled, Result), comparisons(Labels, Result)] ++
            dyno_bench_heap_result:tables(Labels, Result) ++
            dyno_bench_extras_result:tables(Labelled)
    }.

labelled(#{candidates := Candidates}) ->
    All = [Label || #{label := Label} <- Candidates],
    [
        case [L || L <- All, L =:= Label] of
            [_] -> {Label, Candidate};
            _ -> {<<Label/binary, " #", (integer_to_binary(N))/binary>>, Candidate}
        end
     || {N, #{label := Label} = Candidate} <- lists:enumerate(Candidates)
    ].

metrics(#{candidates := Candidates, rounds := Rounds, loop_ns := LoopNs} = Result) ->
    [
        dyno_recording_part:metric(Name, Title, Value, Unit, 1, ~"bench")
     || {Name, Title, Value, Unit} <- [
            {~"bench.rounds", ~"Rounds", Rounds, ~"count"},
            {~"bench.loop", ~"The empty loop, an iteration", LoopNs, ~"ns/call"},
            {
                ~"bench.waiting",
                ~"Time that other programs took",
                dyno_bench_findings:waiting(Candidates),
                ~"ratio"
            },
            {
                ~"bench.vms",
                ~"VMs that each code was measured in",
                maps:get(vms, Result, undefined),
                ~"count"
            }
        ],
        Name =:= ~"bench.loop" orelse is_number(Value)
    ].

%% Series: times, disturbed rounds, lengths of timed samples, the deciding metric if not time.
series(Labelled, Metric) ->
    EndsMs = ends_ms([Candidate || {_, Candidate} <- Labelled]),
    Times = [
        series(~"bench.time", ~"Time per call", ~"ns/call", Label, EndsMs, Of)
     || {Label, #{times_ns := Of}} <- Labelled
    ],
    Waits = [
        series(~"bench.waiting", ~"Time that other programs took", ~"ratio", Label, EndsMs, Of)
     || {Label, #{times_ns := TimesNs, waits := Of}} <- Labelled,
        length(Of) =:= length(TimesNs),
        lists:all(fun is_number/1, Of)
    ],
    Durations = [
        series(~"bench.sample", ~"Duration of the samples", ~"ns", Label, sums_ms(Of), Of)
     || {Label, #{durations_ns := Of}} <- Labelled
    ],
    Times ++ Waits ++ Durations ++ values(Labelled, Metric, EndsMs).

series(Name, Title, Unit, Label, TimesMs, Values) ->
    Titled = <<Title/binary, ": ", Label/binary>>,
    Series = dyno_recording_part:series(Name, Unit, ~"bench", Titled, undefined, TimesMs, Values),
    Series#{labels := #{code => Label}}.

values(_Labelled, time, _EndsMs) ->
    [];
values(Labelled, Metric, EndsMs) ->
    Title = dyno_bench_metric:title(Metric),
    Unit = dyno_bench_metric:unit(Metric),
    [
        (series(~"bench.value", Title, Unit, Label, TimesMs, Shown))#{
            labels := #{code => Label, metric => atom_to_binary(Metric)}
        }
     || {Label, #{values := Values}} <- Labelled,
        Shown <- [[dyno_bench_metric:least(Value) || Value <- Values]],
        TimesMs <- [lists:sublist(EndsMs ++ lists:seq(1, length(Values)), length(Values))]
    ].

%% In the time spent on the codes.
ends_ms([First | _] = Candidates) ->
    sums_ms(
        lists:foldl(
            fun(Candidate, Sums) ->
                lists:zipwith(fun(A, B) -> A + B end, epochs_ns(Candidate), Sums)
            end,
            [0 || _ <- map_get(times_ns, First)],
            Candidates
        )
    ).

epochs_ns(#{durations_ns := DurationsNs}) -> DurationsNs;
epochs_ns(#{times_ns := TimesNs, iterations := N}) -> [Ns * N || Ns <- TimesNs].

sums_ms(PartsNs) ->
    {SumsMs, _} = lists:mapfoldl(
        fun(PartNs, SumNs) -> {round(SumNs + PartNs) div 1_000_000, SumNs + PartNs} end, 0, PartsNs
    ),
    SumsMs.

%% Fastest first, by the deciding metric, then time; the reference has no doubt about its time.
codes(Labelled, Result) ->
    Metric = maps:get(metric, Result, time),
    Doubts = dyno_bench_doubts:doubts(Result),
    Ranked = lists:sort([
        {{decisive(Metric, Candidate), time(Candidate)}, Number, Label, Candidate}
     || {Number, {Label, Candidate}} <- lists:enumerate(Labelled)
    ]),
    [{_, _, _, First} | _] = Ranked,
    Fastest = hd(
        [N || {_, N, _, _} <- Ranked, not is_map_key(N, Doubts)] ++ [N || {_, N, _, _} <- Ranked]
    ),
    Rows = [
        #{label => Label, candidate => Candidate, pair => against(Fastest, Number, Result)}
     || {_, Number, Label, Candidate} <- Ranked
    ],
    dyno_recording_table:make(
        #{name => ~"codes", title => ~"Codes", columns => columns(Metric, First, Result)}, Rows
    ).

columns(Metric, First, Result) ->
    Concurrency = maps:get(concurrency, Result, 1),
    Of = fun(Fun) -> fun(#{candidate := Candidate}) -> Fun(Candidate) end end,
    Time = {number, ~"ns/call"},
    Factor = {number, ~"1"},
    Rate = Of(fun(C) -> Concurrency * 1.0e9 / time(C) end),
    Low = Of(fun(C) -> element(1, interval(C)) end),
    High = Of(fun(C) -> element(2, interval(C)) end),
    Words = {number, ~"words/call"},
    Collections = [candidate, garbage_collections],
    [
        {~"code", ~"Code", string, label},
        {~"time_per_call", ~"Time per call", Time, lower, Of(fun time/1)},
        {~"low", ~"Low", Time, {low, ~"time_per_call"}, Low},
        {~"high", ~"High", Time, {high, ~"time_per_call"}, High},
        {~"calls_per_second", per_second(Concurrency), {number, ~"1/s"}, higher, Rate},
        {~"ratio", ~"Times the fastest", Factor, lower, [pair, ratio]},
        {~"ratio_low", ~"Ratio, low", Factor, {low, ~"ratio"}, [pair, low]},
        {~"ratio_high", ~"Ratio, high", Factor, {high, ~"ratio"}, [pair, high]},
        {~"verdict", ~"Verdict", string, [pair, verdict]},
        {~"reductions_per_call", ~"Reductions per call", Factor, lower, Of(fun reductions/1)},
        {~"words_per_call", ~"Words per call", Words, lower, Of(fun words/1)},
        {~"inexact", ~"Not deterministic", string, Of(fun varying/1)},
        {~"collections_per_call", ~"Collections per call", Factor, lower, Collections},
        {~"waiting", ~"Others' time", ratio, [candidate, waiting]},
        {~"iterations", ~"Iterations an epoch", {number, ~"count"}, note, [candidate, iterations]},
        {~"form", ~"Called", string, [candidate, form]}
    ] ++
        [
            {
                ~"value",
                dyno_bench_metric:title(Metric),
                {number, dyno_bench_metric:unit(Metric)},
                lower,
                Of(fun(C) -> dyno_bench_metric:least(decisive(Metric, C)) end)
            }
         || Metric =/= time
        ] ++
        [
            {Name, Title, Factor, lower, Of(Cell)}
         || {Name, Title, Cell} <- dyno_bench_extras_result:columns(First)
        ].

%% The time is that of one process.
per_second(1) -> ~"Calls per second";
per_second(Concurrency) -> text("Calls per second, all ~b processes", [Concurrency]).

decisive(time, Candidate) -> time(Candidate);
decisive(_Metric, #{values := Values}) -> dyno_stats:median(Values).

time(#{times_ns := Times}) -> dyno_stats:median(Times).

interval(#{times_ns := Times}) ->
    case dyno_stats_interval:median(Times, ?LEVEL) of
        {ok, {Low, High, _}} -> {Low, High};
        {error, too_few} -> {undefined, undefined}
    end.

reductions(#{deterministic := #{reductions := Reductions}}) -> Reductions;
reductions(#{reductions := Reductions}) -> Reductions.

words(#{deterministic := #{words := Words}}) -> Words;
words(_Candidate) -> undefined.

varying(#{deterministic := #{words_agree := Words, reductions_agree := Reductions}} = Candidate) ->
    IsSame = dyno_bench_doubts:changes(Candidate) =:= [],
    Agree = [{Reductions andalso IsSame, ~"reductions"}, {Words andalso IsSame, ~"words"}],
    case [Name || {false, Name} <- Agree] of
        [] -> undefined;
        Names -> iolist_to_binary(lists:join(~", ", Names))
    end;
varying(_Candidate) ->
    ~"reductions".

against(Same, Same, Result) ->
    Verdict =
        case {is_time(Result), dyno_bench_doubts:doubts(Result)} of
            {true, #{Same := _}} -> undefined;
            {true, _} -> fastest;
            {false, _} -> least
        end,
    #{ratio => 1.0, low => undefined, high => undefined, verdict => Verdict};
against(Fastest, Number, #{pairs := Pairs} = Result) ->
    [Pair] = [
        Of
     || #{a := A, b := B} = Of <- Pairs ++ [swapped(Pair) || Pair <- Pairs],
        A =:= Fastest,
        B =:= Number
    ],
    shown(Pair, Result).

swapped(#{a := A, b := B, ratio := Ratio, low := Low, high := High, verdict := Verdict}) ->
    #{
        a => B,
        b => A,
        ratio => inverse(Ratio),
        low => inverse(High),
        high => inverse(Low),
        verdict => opposite(Verdict)
    }.

inverse(undefined) -> undefined;
inverse(Value) -> 1 / Value.

opposite(slower) -> faster;
opposite(faster) -> slower;
opposite(Other) -> Other.

is_time(Result) -> dyno_bench_metric:is_time(maps:get(metric, Result, time)).

shown(#{a := A, b := B} = Pair, Result) ->
    case dyno_bench_doubts:doubts(Result) of
        Doubts when is_map_key(A, Doubts); is_map_key(B, Doubts) ->
            #{ratio => undefined, low => undefined, high => undefined, verdict => unknown};
        _ ->
            judged(Pair, Result)
    end.

judged(#{ratio := Ratio, low := Low, high := High, verdict := Verdict}, Result) ->
    IsTime = is_time(Result),
    #{
        ratio => finite(Ratio),
        low => finite(Low),
        high => finite(High),
        verdict =>
            case {Verdict, Result} of
                %% With too few samples requested to decide anything, there is no verdict.
                {undecided, #{fixed := true}} when Low =:= undefined -> undefined;
                %% Only times are slower or faster.
                {slower, _} when not IsTime -> more;
                {faster, _} when not IsTime -> less;
                {_, _} -> Verdict
            end
    }.

%% A ratio to 0 is no factor.
finite(Ratio) when is_number(Ratio), Ratio > ?LARGEST_RATIO; Ratio < 1 / ?LARGEST_RATIO ->
    undefined;
finite(Ratio) ->
    Ratio.

comparisons(Labels, #{pairs := Pairs} = Result) ->
    Title =
        case maps:get(metric, Result, time) of
            time -> ~"Ratio of the times";
            Metric -> text("Ratio: ~ts", [string:lowercase(dyno_bench_metric:title(Metric))])
        end,
    Code = fun(Key) -> fun({Pair, _}) -> lists:nth(map_get(Key, Pair), Labels) end end,
    Factor = {number, ~"1"},
    Spec = #{
        name => ~"comparisons",
        title => ~"Comparisons",
        columns => [
            {~"a", ~"Code", string, key, Code(b)},
            {~"b", ~"Compared with", string, key, Code(a)},
            {~"ratio", Title, Factor, lower, [2, ratio]},
            {~"low", ~"Low", Factor, {low, ~"ratio"}, [2, low]},
            {~"high", ~"High", Factor, {high, ~"ratio"}, [2, high]},
            {~"verdict", ~"Verdict", string, [2, verdict]}
        ]
    },
    dyno_recording_table:make(Spec, [{Pair, shown(Pair, Result)} || Pair <- Pairs]).

text(Format, Arguments) ->
    dyno_recording_part:text(Format, Arguments).
