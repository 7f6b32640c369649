%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_report_html_benches).
-moduledoc false.

%% Recordings of real benchmarks, short ones: what they find is left open, the page must show it;
%% and one of a command that the page does not know.

-export([documents/0]).

-define(SEQ, "r(N) -> lists:seq(1, N).").
-define(SORT, "r(N) -> lists:sort(lists:seq(N, 1, -1)).").

-doc """
By name: two codes compared, over inputs, a search for the best concurrency, one profiled; that
comparison compared with another of the same, and two tests compared.
""".
-spec documents() -> #{binary() => dyno_report:document()}.
documents() ->
    {ok, Pair} = dyno_bench:run(["lists:seq(1, 10).", "lists:seq(1, 500)."], #{budget_ms => 300}),
    {ok, Inputs} = dyno_bench:run([?SEQ, ?SORT], #{
        inputs => [{"10", "10."}, {"100", "100."}, {"1000", "1000."}], budget_ms => 150
    }),
    {ok, Squeeze} = dyno_bench:run(["timer:sleep(1)."], #{
        mode => {squeeze, #{max => 4, sample_ms => 5}}
    }),
    {ok, Again} = dyno_bench:run(["lists:seq(1, 10).", "lists:seq(1, 500)."], #{budget_ms => 300}),
    {ok, Compared} = dyno_compare:compare(Pair, Again, #{incomparable => warn}),
    {ok, Tests} = dyno_compare:compare(
        dyno_report_html_data:document(), slower(dyno_report_html_data:document()), #{
            incomparable => warn
        }
    ),
    {ok, Profiled} = dyno_bench:run(["lists:sort(lists:seq(500, 1, -1))."], #{
        budget_ms => 100, extras => [profile]
    }),
    #{
        ~"profiled" => Profiled,
        ~"pair" => Pair,
        ~"inputs" => Inputs,
        ~"squeeze" => Squeeze,
        ~"weather" => dyno_report_weather:document(),
        ~"compared" => Compared,
        ~"tests" => Tests
    }.

%% The same test where all response times are doubled, on another release.
slower(#{~"runs" := Runs, ~"environment" := Environment} = Document) ->
    Document#{
        ~"environment" := Environment#{~"otp" := ~"27.3"},
        ~"runs" := [
            Run#{~"metrics" := [twice(Metric) || Metric <- Metrics]}
         || #{~"metrics" := Metrics} = Run <- Runs
        ]
    }.

twice(#{~"name" := <<"latency.", _/binary>>, ~"value" := Value} = Metric) ->
    Metric#{~"value" := 2 * Value};
twice(Metric) ->
    Metric.
