%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_cli_bench_mode).
-moduledoc """
The options of `dyno bench` that choose how it is measured, which are erlperf's: how they are
written, which of them go together, and the mode they mean.
""".

-export([arguments/0, names/0, parse/2]).
-export_type([parsed/0]).

-doc "The options that `parse/2` reads, and the report that is asked for.".
-type parsed() :: #{
    options := dyno_bench:options(),
    report := dyno_report_columns:kind() | none
}.

-type result(Value) :: {ok, Value} | {error, unicode:chardata()}.

%% Which options belong to which mode.
-define(CONTINUOUS, [duration, cv]).
-define(SQUEEZE, [min, step, max, patience]).
-define(SHARED, [samples, warmup, report]).

%% Fixed iterations may take long: the user has said how many.
-define(TIMED_TIMEOUT_MS, 300_000).

-doc "The options, as argparse wants them.".
-spec arguments() -> [argparse:argument()].
arguments() ->
    [
        value(concurrency, $c, "N", "how many processes run a code at once (default: 1)"),
        value(
            threshold,
            none,
            "SHARE",
            "smaller differences do not matter (default: 3%, of exact figures 0.1%)"
        ),
        value(
            metric,
            none,
            "NAME",
            "what decides: time, wall, cpu, gc, memory, reductions, words, messages or whole "
            "(default: time)"
        ),
        flag(whole, none, "also what the codes make other processes do: servers, spawned ones"),
        flag(profile, none, "also which functions take the time, and the stacks (-o FILE.folded)"),
        value(
            duration,
            $d,
            "MS",
            "takes samples of so many milliseconds, of each code in turn (default: 1000, with -q "
            "100)"
        ),
        value(samples, $s, "N", "how many samples (default: 3, with -q 8)"),
        value(warmup, $w, "N", "how many samples to throw away before (default: 0)"),
        value(loop, $l, "N", "takes samples of so many iterations: 100, 10K, 2M, 1G"),
        value(
            cv,
            none,
            "X",
            "goes on until the samples' standard deviation, divided by their mean, is below X, "
            "such as 0.05"
        ),
        value(report, $r, "basic|extended|full", "shows erlperf's columns"),
        flag(squeeze, $q, "finds the number of processes with the highest throughput"),
        value(min, none, "N", "with -q: the first number of processes (default: 1)"),
        value(step, none, "N", "with -q: how many more each time (default: 1)"),
        value(max, none, "N", "with -q: the last number of processes (default: 10000)"),
        value(
            patience,
            $t,
            "N",
            "with -q: ends after so many numbers of processes without a gain (default: 3)"
        ),
        flag(
            verbose,
            $v,
            "prints the compiled loops, and a line about the VM each second, to standard error"
        )
    ].

-doc "The names of those that choose a mode or erlperf's columns.".
-spec names() -> [atom()].
names() ->
    [loop | ?CONTINUOUS] ++ ?SHARED ++ [squeeze | ?SQUEEZE].

-spec value(atom(), char() | none, string(), string()) -> argparse:argument().
value(Name, Short, Value, Text) ->
    Long = "--" ++ atom_to_list(Name) ++ " " ++ Value,
    Argument = #{
        name => Name, long => "-" ++ atom_to_list(Name), type => binary, required => false
    },
    case Short of
        none -> Argument#{help => {Long, [Text]}};
        _ -> Argument#{short => Short, help => {[$-, Short, $,, $\s | Long], [Text]}}
    end.

-spec flag(atom(), char() | none, string()) -> argparse:argument().
flag(Name, Short, Text) ->
    Long = atom_to_list(Name),
    Argument = #{name => Name, long => "-" ++ Long, type => boolean, required => false},
    case Short of
        none -> Argument#{help => {"--" ++ Long, [Text]}};
        _ -> Argument#{short => Short, help => {[$-, Short, $,, $\s, $-, $- | Long], [Text]}}
    end.

-doc "What the options mean for so many codes; or what is wrong with them, in a sentence.".
-spec parse(argparse:arg_map(), Codes :: pos_integer()) -> result(parsed()).
parse(Given, Codes) ->
    Values = erlperfs(Given),
    maybe
        {ok, Report} ?= report(Values),
        {ok, Name} ?= mode_name(Values),
        ok ?= fits(Name, Values, Codes),
        {ok, Settings} ?= settings(Name, Values),
        {ok, Common} ?= common(Name, Values),
        Options = maps:merge(Common, mode(Name, Settings)),
        case dyno_bench_mode:check(maps:get(mode, Options, compare), Codes) of
            {ok, _} -> {ok, #{options => Options, report => Report}};
            {error, Error} -> {error, dyno_error:format(Error)}
        end
    end.

%% erlperf's --threshold is the patience of -q. A share means nothing there.
-spec erlperfs(argparse:arg_map()) -> argparse:arg_map().
erlperfs(#{squeeze := true, threshold := Text} = Values) when not is_map_key(patience, Values) ->
    maps:remove(threshold, Values#{patience => Text});
erlperfs(Values) ->
    Values.

-spec mode(compare | continuous | timed | squeeze, #{atom() => number()}) -> dyno_bench:options().
mode(compare, _Settings) -> #{};
mode(timed, Settings) -> #{mode => {timed, Settings}, timeout_ms => ?TIMED_TIMEOUT_MS};
mode(Name, Settings) -> #{mode => {Name, Settings}}.

-spec mode_name(argparse:arg_map()) -> result(compare | continuous | timed | squeeze).
mode_name(#{squeeze := true, loop := _}) ->
    {error, "-q and --loop do not go together; -q takes samples of a --duration"};
mode_name(#{squeeze := true}) ->
    {ok, squeeze};
mode_name(#{loop := _}) ->
    {ok, timed};
mode_name(Values) ->
    case maps:size(maps:with(?CONTINUOUS ++ ?SHARED, Values)) of
        0 -> {ok, compare};
        _ -> {ok, continuous}
    end.

-spec fits(atom(), argparse:arg_map(), pos_integer()) -> ok | {error, unicode:chardata()}.
fits(squeeze, _Values, Codes) when Codes > 1 ->
    {error, io_lib:format("-q takes one code, not ~b; run it once for each", [Codes])};
fits(squeeze, #{concurrency := _}, _Codes) ->
    {error, "-q finds the concurrency itself; give --min and --max in place of --concurrency"};
fits(squeeze, #{cv := _}, _Codes) ->
    {error, "-q decides by intervals, so --cv has no meaning; leave one of them out"};
fits(timed, Values, _Codes) when is_map_key(duration, Values); is_map_key(cv, Values) ->
    {error, "--loop takes samples of so many iterations; --duration and --cv do not go with it"};
fits(_Name, #{patience := _} = Values, _Codes) when not is_map_key(squeeze, Values) ->
    {error, "-t is for -q, which is not given; the share of a difference is --threshold 3%"};
fits(squeeze, #{metric := Text}, _Codes) when Text =/= ~"time" ->
    {error, "-q looks for the highest throughput; for --metric leave it out, and give -c N"};
fits(squeeze, Values, _Codes) when is_map_key(whole, Values); is_map_key(profile, Values) ->
    {error,
        "-q looks for the highest throughput; for --whole and --profile leave it out, and give -c "
        "N"};
fits(continuous, #{metric := Text}, _Codes) when
    Text =:= ~"wall"; Text =:= ~"cpu"; Text =:= ~"gc"; Text =:= ~"memory"
->
    {error, [
        "samples of a time (-d, -s, -w, --cv, -r) don't tell --metric ", Text,
        "; leave them out, or take samples of calls (-l N)"
    ]};
fits(_Name, #{report := _} = Values, _Codes) when
    not is_map_key(output, Values),
    is_map_key(metric, Values) orelse is_map_key(whole, Values) orelse is_map_key(profile, Values)
->
    {error, [
        "--report has erlperf's columns, which have none for --metric, --whole and --profile; "
        "leave it out, or add -o FILE"
    ]};
fits(Name, #{time := _}, _Codes) when Name =/= compare ->
    {error, "--time is for a comparison that ends by itself; samples take as long as they say"};
fits(_Name, #{format := _, report := _}, _Codes) ->
    {error, "--report and --format both say what is shown; give one of them"};
fits(Name, Values, _Codes) when Name =/= squeeze ->
    case maps:keys(maps:with(?SQUEEZE, Values)) of
        [] -> ok;
        [Key | _] -> {error, ["--", atom_to_list(Key), " is for -q, which is not given"]}
    end;
fits(squeeze, _Values, _Codes) ->
    ok.

-spec report(argparse:arg_map()) -> result(dyno_report_columns:kind() | none).
report(#{report := Text}) ->
    case [Kind || Kind <- dyno_report_columns:kinds(), atom_to_binary(Kind) =:= Text] of
        [Kind] -> {ok, Kind};
        [] -> {error, wrong("--report", Text, "basic, extended or full")}
    end;
report(_) ->
    {ok, none}.

-spec settings(compare | continuous | timed | squeeze, argparse:arg_map()) ->
    result(#{atom() => number()}).
settings(compare, _Values) ->
    {ok, #{}};
settings(Mode, Values) ->
    Keys = [
        {duration, sample_ms},
        {samples, samples},
        {warmup, warmup},
        {cv, cv},
        {loop, iterations},
        {min, min},
        {max, max},
        {step, step}
    ],
    read([{patience, threshold} || Mode =:= squeeze] ++ Keys, Values, #{}).

-spec read([{atom(), atom()}], argparse:arg_map(), #{atom() => number()}) ->
    result(#{atom() => number()}).
read([], _Values, Settings) ->
    {ok, Settings};
read([{Option, Key} | Rest], Values, Settings) ->
    case Values of
        #{Option := Text} ->
            case number(Option, Text) of
                {ok, Number} -> read(Rest, Values, Settings#{Key => Number});
                {error, Accepted} -> {error, wrong(["--", atom_to_list(Option)], Text, Accepted)}
            end;
        #{} ->
            read(Rest, Values, Settings)
    end.

-spec number(atom(), binary()) -> {ok, number()} | {error, string()}.
number(cv, Text) ->
    case string:to_float(Text) of
        {Float, <<>>} when Float > 0 -> {ok, Float};
        _ -> whole(Text, 1, infinity, "a number above 0, such as 0.05,")
    end;
number(loop, Text) ->
    multiplied(Text);
number(warmup, Text) ->
    whole(Text, 0, infinity, "an integer from 0");
number(Option, Text) when Option =:= min; Option =:= max; Option =:= step ->
    whole(Text, 1, 10_000, "an integer from 1 to 10000");
number(_Option, Text) ->
    whole(Text, 1, infinity, "a positive integer").

-spec whole(binary(), non_neg_integer(), pos_integer() | infinity, string()) ->
    {ok, non_neg_integer()} | {error, string()}.
whole(Text, Least, Most, Accepted) ->
    case string:to_integer(Text) of
        {N, <<>>} when is_integer(N), N >= Least, N =< Most -> {ok, N};
        _ -> {error, Accepted}
    end.

%% erlperf's suffixes, which are decimal.
-spec multiplied(binary()) -> {ok, pos_integer()} | {error, string()}.
multiplied(Text) ->
    Factors = #{~"" => 1, ~"K" => 1000, ~"M" => 1_000_000, ~"G" => 1_000_000_000},
    case string:to_integer(Text) of
        {N, Rest} when is_integer(N), N >= 1, is_map_key(Rest, Factors) ->
            {ok, N * map_get(Rest, Factors)};
        _ ->
            {error, "a positive integer, or one with K, M or G, such as 10M,"}
    end.

-spec wrong(unicode:chardata(), binary(), string()) -> unicode:chardata().
wrong(Option, Text, Accepted) ->
    [Option, " is \"", dyno_report_text:clean(Text), "\"; ", Accepted, " is accepted"].

-spec common(atom(), argparse:arg_map()) -> result(dyno_bench:options()).
common(Mode, Values) ->
    maybe
        {ok, Concurrency} ?= concurrency(Values),
        {ok, Threshold} ?= threshold(Mode, Values),
        {ok, Metric} ?= metric(Values),
        Extras = [
            Extra
         || {Option, Extra} <- [{whole, side_effects}, {profile, profile}],
            is_map_key(Option, Values)
        ],
        Besides = maps:from_list([{extras, Extras} || Extras =/= []]),
        {ok, maps:merge(maps:merge(Concurrency, Threshold), maps:merge(Metric, Besides))}
    end.

-spec metric(argparse:arg_map()) -> result(dyno_bench:options()).
metric(#{metric := Text}) ->
    case dyno_cli_value:choice(~"--metric", Text, dyno_bench_metric:names()) of
        {ok, Name} -> {ok, #{metric => Name}};
        {error, Reason} -> {error, dyno_cli_value:format_error(Reason)}
    end;
metric(_) ->
    {ok, #{}}.

-spec concurrency(argparse:arg_map()) -> result(dyno_bench:options()).
concurrency(#{concurrency := Text}) ->
    case whole(Text, 1, 10_000, "an integer from 1 to 10000") of
        {ok, N} -> {ok, #{concurrency => N}};
        {error, Accepted} -> {error, wrong("--concurrency", Text, Accepted)}
    end;
concurrency(_) ->
    {ok, #{}}.

-spec threshold(atom(), argparse:arg_map()) -> result(dyno_bench:options()).
threshold(Mode, #{threshold := Text}) when Mode =/= squeeze ->
    case dyno_unit:parse(Text) of
        {ok, {Share, Unit}} when
            Share > 0, Share < 1, (Unit =:= ~"ratio" orelse Unit =:= ~"1")
        ->
            {ok, #{threshold => float(Share)}};
        _ ->
            {error, wrong("--threshold", Text, "a share above 0 % and below 100 %, such as 3%,")}
    end;
threshold(_Mode, _Values) ->
    {ok, #{}}.
