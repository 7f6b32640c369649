%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_mode).
-moduledoc """
The modes of measuring codes: rounds until it is decided which code is faster (`compare`, the
default); samples of a time, as in erlperf, or of a number of iterations; or a search for the
concurrency with the highest throughput (`squeeze`).

No mode measures two codes at the same time. Deterministic metrics and side effects are measured
after samples; a squeeze has only its throughput.
""".

-export([check/2, check_options/2, run/3, document/4, format_error/1]).
-export_type([mode/0, checked/0, settings/0, reason/0]).

-type mode() ::
    compare
    | {continuous, #{
        %% Time of a sample. Default: 1000.
        sample_ms => pos_integer(),
        %% Samples to keep. Default: 3.
        samples => pos_integer(),
        %% Samples to discard first. Default: 0.
        warmup => non_neg_integer(),
        %% Until the newest samples' coefficient of variation is below this.
        cv => float()
    }}
    | {timed, #{
        %% Iterations of a sample in each worker.
        iterations := pos_integer(),
        samples => pos_integer(),
        warmup => non_neg_integer()
    }}
    | {squeeze, #{
        %% Time of a sample. Default: 100.
        sample_ms => pos_integer(),
        %% Samples of each concurrency. Default: 8; at least 7, because fewer give no interval. Up
        %% to four times as many if undecided: see dyno_bench_concurrency_search.
        samples => pos_integer(),
        %% Samples of the first concurrency to discard. Default: 0.
        warmup => non_neg_integer(),
        %% The first and last concurrency, and the step. Defaults: 1, 10000, 1.
        min => pos_integer(),
        max => pos_integer(),
        step => pos_integer(),
        %% Ends after this number of concurrencies in a row without a gain. Default: 3.
        threshold => pos_integer()
    }}.

-doc "A mode with all settings present and valid.".
-type checked() :: compare | {continuous | timed | squeeze, settings()}.

-type settings() :: #{atom() => number()}.

-type reason() ::
    {mode, term()}
    | {one_code, pos_integer()}
    | {min_above_max, pos_integer(), pos_integer()}
    | cv_needs_samples.

-define(MAX_CONCURRENCY, 10_000).

-doc "Checks a mode, and fills in its defaults.".
-spec check(mode(), Codes :: pos_integer()) -> dyno_error:result(checked()).
check(compare, _Codes) ->
    {ok, compare};
check({squeeze, _}, Codes) when Codes > 1 ->
    {error, {?MODULE, {one_code, Codes}}};
check({Name, Settings}, _Codes) when is_map(Settings) ->
    maybe
        [_ | _] = Fields ?= fields(Name),
        {ok, Whole} ?= dyno_option:read(Fields, Settings),
        consistent(Name, Whole)
    else
        [] -> {error, {?MODULE, {mode, {Name, Settings}}}};
        {error, _} = Error -> Error
    end;
check(Other, _Codes) ->
    {error, {?MODULE, {mode, Other}}}.

-doc "Checks that other options fit the mode.".
-spec check_options(term(), #{metric => term(), extras => term(), _ => _}) -> dyno_error:result().
check_options({squeeze, _}, #{metric := Metric}) when Metric =/= time ->
    Accepted = ~"time, because the mode looks for the highest throughput,",
    dyno_option:error(metric, Metric, Accepted);
check_options({squeeze, _}, #{extras := [_ | _] = Extras}) ->
    Accepted = ~"nothing, because the mode looks for the highest throughput,",
    dyno_option:error(extras, Extras, Accepted);
check_options({_, _}, #{metric := Metric, isolated := _}) when
    Metric =:= wall; Metric =:= cpu; Metric =:= gc; Metric =:= memory
->
    Accepted = ~"time, reductions, words, messages or whole, because samples in VMs are of time,",
    dyno_option:error(metric, Metric, Accepted);
check_options(_Mode, _Options) ->
    ok.

fields(continuous) ->
    Cv = {cv, optional, fun(Cv) -> is_number(Cv) andalso Cv > 0 end, "a number above 0"},
    [Cv, positive(sample_ms, 1000) | sampled(3)];
fields(timed) ->
    [positive(iterations, mandatory) | sampled(3)];
fields(squeeze) ->
    IsConcurrency = fun(N) -> is_integer(N) andalso N >= 1 andalso N =< ?MAX_CONCURRENCY end,
    [
        {Key, Default, IsConcurrency, "an integer from 1 to 10000"}
     || {Key, Default} <- [{min, 1}, {max, ?MAX_CONCURRENCY}, {step, 1}]
    ] ++ [positive(sample_ms, 100), positive(threshold, 3) | sampled(8)];
fields(_Other) ->
    [].

sampled(Samples) ->
    IsCount = fun(N) -> is_integer(N) andalso N >= 0 end,
    [positive(samples, Samples), {warmup, 0, IsCount, "an integer from 0"}].

positive(Key, Default) ->
    {Key, Default, fun(N) -> is_integer(N) andalso N >= 1 end, "a positive integer"}.

consistent(squeeze, #{min := Min, max := Max}) when Min > Max ->
    {error, {?MODULE, {min_above_max, Min, Max}}};
consistent(continuous, #{cv := _, samples := 1}) ->
    {error, {?MODULE, cv_needs_samples}};
consistent(Name, Settings) ->
    {ok, {Name, Settings}}.

%% Whether options ask for metrics that samples lack. A short comparison measures these afterwards.
needs_extras({Name, _}, #{extras := [_ | _]}) ->
    Name =/= squeeze;
needs_extras({Name, _}, #{metric := Metric}) when Name =/= squeeze ->
    dyno_bench_metric:kind(Metric) =/= rounds;
needs_extras(_Mode, _Options) ->
    false.

measure_extras(Codes, #{isolated := Settings} = Options) ->
    %% One VM per code suffices if nothing is decided.
    case dyno_bench_metric:kind(maps:get(metric, Options, time)) of
        rounds -> only(compare, Codes, Options#{isolated := Settings#{vms => 1}});
        _ -> only(compare, Codes, Options)
    end;
measure_extras(Codes, Options) ->
    only(compare, Codes, Options#{budget_ms := 1, limit_ms := 1}).

%% If the extras are interrupted, the samples are kept, unless the extras decide.
with_extras(Sampled, {ok, #{status := complete} = Extras}, _Options) ->
    {ok, joined(Sampled, Extras)};
with_extras(_Sampled, {error, Error}, _Options) when Error =/= {dyno_error, interrupted} ->
    {error, Error};
with_extras(Sampled, _Interrupted, Options) ->
    case dyno_bench_metric:kind(maps:get(metric, Options, time)) of
        rounds -> {ok, Sampled#{status := interrupted}};
        _ -> {error, {dyno_error, interrupted}}
    end.

%% A deciding metric other than the time is deterministic and has its own intervals.
joined(#{duration_ms := Ms, candidates := Sampled} = Result, #{duration_ms := MoreMs} = Other) ->
    #{candidates := Measured, metric := Metric} = Other,
    Keys = [deterministic, side_effects] ++ [values || Metric =/= time],
    Joined = Result#{
        duration_ms := Ms + MoreMs,
        candidates := [
            maps:merge(Candidate, maps:with(Keys, More))
         || {Candidate, More} <- lists:zip(Sampled, Measured)
        ]
    },
    case Metric of
        time -> Joined;
        _ -> maps:merge(Joined, maps:with([metric, pairs], Other))
    end.

-doc "Measures in a mode.".
-spec run(checked(), [dyno_bench_code:code(), ...], dyno_bench_engine:options()) ->
    dyno_error:result(dyno_bench_engine:result() | dyno_bench_concurrency:result()).
run(Mode, Codes, Options) ->
    case needs_extras(Mode, Options) of
        true ->
            maybe
                {ok, Sampled} ?= only(Mode, Codes, maps:without([metric, extras], Options)),
                Extras =
                    case Sampled of
                        #{status := complete} -> measure_extras(Codes, Options);
                        #{status := interrupted} -> {error, {dyno_error, interrupted}}
                    end,
                with_extras(Sampled, Extras, Options)
            end;
        false ->
            only(Mode, Codes, Options)
    end.

only(compare, Codes, #{isolated := _} = Options) ->
    maybe
        {ok, {_Size, Result}} ?= dyno_bench_isolated:run(#{id => ~"1", codes => Codes}, 1, Options),
        {ok, Result}
    end;
only({squeeze, _} = Mode, [Code], #{isolated := _} = Options) ->
    dyno_bench_isolated:run_one(Mode, Code, Options);
only({_, #{samples := Count}} = Mode, Codes, #{isolated := _} = Options) ->
    dyno_bench_isolated:samples(Mode, Codes, Count, Options);
only(compare, Codes, Options) ->
    dyno_bench_engine:run(Codes, Options);
only({squeeze, Settings}, [Code], Options) ->
    dyno_bench_concurrency:run(Code, Settings, Options);
only({_, Fixed}, Codes, Options) ->
    dyno_bench_engine:run(Codes, Options#{fixed => Fixed}).

-doc "The recording of a measurement in a mode.".
-spec document(
    checked(),
    #{atom() => term()},
    dyno_bench_engine:result() | dyno_bench_concurrency:result(),
    Environment :: term()
) -> dyno_recording:document().
document({squeeze, Settings}, Parameters, Result, Environment) ->
    dyno_bench_curve:document(with_mode({squeeze, Settings}, Parameters), Result, Environment);
document(Mode, Parameters, Result, Environment) ->
    Document = dyno_bench_result:document(
        undefined, with_mode(Mode, Parameters), [#{result => Result}], Environment
    ),
    dyno_recording:add_warnings(Document, [
        dyno_finding:note(
            dyno_bench_findings:doubt(
                cv,
                ~"the samples still differ more than --cv allows",
                ~"Measure on a quiet machine, or allow more (--cv)."
            )
        )
     || #{agreed := false} <- [Result]
    ]).

with_mode(compare, Parameters) ->
    Parameters#{mode => compare};
with_mode({Mode, Settings}, #{heap := Heap} = Parameters) ->
    maps:merge(maps:remove(budget_ms, Parameters), #{
        mode => Mode, settings => Settings, heap => dyno_bench_heap:of_samples(Heap)
    }).

-spec format_error(reason()) -> unicode:chardata().
format_error({mode, Mode}) ->
    io_lib:format(
        "~0tP is no mode; compare, and continuous, timed and squeeze with a map of settings, are",
        [Mode, 10]
    );
format_error({one_code, Codes}) ->
    io_lib:format("squeeze takes one code, not ~b; run dyno once for each", [Codes]);
format_error({min_above_max, Min, Max}) ->
    io_lib:format("min is ~b, which is above max, ~b; give a min of at most max", [Min, Max]);
format_error(cv_needs_samples) ->
    "cv needs at least 2 samples; one alone does not vary".
