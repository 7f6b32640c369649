%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_report_erlperf).
-moduledoc """
Shows a benchmark in the columns of erlperf 2.

| report | columns |
| --- | --- |
| `basic` | Code, `\|\|` (concurrency), QPS, Time, Rel |
| `extended` | Code, `\|\|`, Samples, Avg, StdDev, Median, P99, Iteration, Rel |
| `full` | the machine, then `extended` |

Rates are iterations a second for any sample duration. For samples with a number of iterations, Avg,
Median and P99 are durations. `Ki`, `Mi`, `Gi` are decimal, as in erlperf.
""".

-export([names/0, format/3]).
-export_type([name/0]).

-import(dyno_report_document, [get/2, get/3]).

-type name() :: basic | extended | full.

-define(DEFAULTS, #{colour => off, width => 100, charset => unicode, indent => 0}).

-doc "The names of the reports.".
-spec names() -> [name(), ...].
names() -> [basic, extended, full].

-doc "The table, in UTF-8.".
-spec format(name(), dyno_report:document(), dyno_report:options()) -> {ok, iodata()}.
format(Report, Document, Options) ->
    Measured = lists:sort(
        fun(A, B) -> time(A) =< time(B) end,
        lists:append([of_run(Run, Document) || Run <- dyno_recording:runs(Document)])
    ),
    Layout = maps:merge(?DEFAULTS, maps:with([colour, width, charset], Options)),
    Table = dyno_report_table:lines(
        columns(Report, Measured), [cells(Report, M, Measured) || M <- Measured], Layout
    ),
    Lines = machine(Report, get(~"environment", Document, #{})) ++ Table,
    {ok, dyno_report_text:encode([[Line, $\n] || Line <- Lines])}.

%% A squeeze has its own table; other codes have nanoseconds a call, and given iterations.
of_run(Run, Document) ->
    Parameters = get(~"parameters", Document, #{}),
    case dyno_recording:rows(Run, ~"concurrencies") of
        [] ->
            [
                #{
                    code => dyno_report_document:name(~"code", Labels),
                    concurrency => get(~"concurrency", Parameters, 1),
                    times => [Value || Value <- Values, is_number(Value)],
                    iterations => get(~"iterations", get(~"settings", Parameters, #{}))
                }
             || #{~"labels" := Labels, ~"values" := Values} <-
                    dyno_recording:series(Run, ~"bench.time")
            ];
        Rows ->
            [
                #{
                    code => code_of(Parameters),
                    concurrency => Workers,
                    times => [
                        Workers * 1.0e9 / Value
                     || #{~"labels" := #{~"concurrency" := Of}, ~"values" := Values} <-
                            get(~"series", Run),
                        Of =:= integer_to_binary(Workers),
                        Value <- Values
                    ],
                    iterations => null
                }
             || #{~"verdict" := ~"best", ~"concurrency" := Workers} <- Rows
            ]
    end.

code_of(Parameters) ->
    case get(~"codes", Parameters, []) of
        [Code | _] when is_binary(Code) -> dyno_text:clean(Code);
        _ -> ~"-"
    end.

columns(basic, Measured) ->
    titles([~"QPS", ~"Time"], Measured);
columns(_Report, Measured) ->
    titles([~"Samples", ~"Avg", ~"StdDev", ~"Median", ~"P99", ~"Iteration"], Measured).

titles(Titles, Measured) ->
    [
        #{title => ~"Code", align => left, fit => flexible}
        | [#{title => Title, align => right} || Title <- [~"||" | Titles ++ relative(Measured)]]
    ].

%% A single code has no comparison.
relative([_, _ | _]) -> [~"Rel"];
relative(_) -> [].

cells(Report, #{code := Code, concurrency := Concurrency} = Measured, [Fastest | _] = All) ->
    Rel = [percent(time(Fastest) / time(Measured), 0) || _ <- relative(All)],
    [Code, integer_to_binary(Concurrency) | results(Report, Measured)] ++ Rel.

results(basic, Measured) ->
    [count(per_second(Measured)), duration(time(Measured))];
results(_Report, #{times := Times, iterations := Iterations} = Measured) when
    is_integer(Iterations)
->
    Samples = [Time * Iterations || Time <- Times],
    spread(Samples, fun duration/1) ++ [duration(time(Measured))];
results(_Report, #{times := Times, concurrency := Concurrency} = Measured) ->
    Samples = [Concurrency * 1.0e9 / Time || Time <- Times],
    spread(Samples, fun count/1) ++ [duration(time(Measured))].

spread(Samples, Show) ->
    [
        integer_to_binary(length(Samples)),
        Show(dyno_stats:mean(Samples)),
        percent(dyno_stats:variation(Samples), 2),
        Show(dyno_stats:median(Samples)),
        Show(dyno_stats:quantile(Samples, 0.99))
    ].

%% From the mean rate: longer calls do not make fewer samples.
time(#{times := Times, iterations := Iterations}) when is_integer(Iterations) ->
    lists:sum(Times) / length(Times);
time(#{times := Times}) ->
    length(Times) / lists:sum([1 / Time || Time <- Times]).

per_second(#{concurrency := Concurrency} = Measured) ->
    Concurrency * 1.0e9 / time(Measured).

percent(undefined, _Decimals) ->
    ~"-";
percent(Share, Decimals) ->
    <<(float_to_binary(Share * 100, [{decimals, Decimals}]))/binary, "%">>.

count(Value) when Value < 10 -> float_to_binary(Value, [{decimals, 2}]);
count(Value) -> scaled(Value, [~"", ~" Ki", ~" Mi", ~" Gi", ~" Ti"], 1000).

duration(Ns) when Ns < 10 -> <<(float_to_binary(Ns, [{decimals, 1}]))/binary, " ns">>;
duration(Ns) -> scaled(Ns, [~" ns", ~" us", ~" ms", ~" s"], 1000).

scaled(Value, [Unit], _Factor) -> <<(integer_to_binary(round(Value)))/binary, Unit/binary>>;
scaled(Value, [Unit | _], _Factor) when Value =< 100_000 -> scaled(Value, [Unit], 1);
scaled(Value, [_ | Units], Factor) -> scaled(Value / Factor, Units, Factor).

machine(full, Environment) ->
    Text = fun(Key) -> dyno_report_document:text(Key, Environment, ~"") end,
    [
        ["OS : ", Text(~"os"), " ", Text(~"kernel")],
        ["CPU: ", Text(~"cpu_model")],
        ["VM : Erlang/OTP ", Text(~"otp"), " [erts-", Text(~"erts"), "]"],
        ""
    ];
machine(_Report, _Environment) ->
    [].
