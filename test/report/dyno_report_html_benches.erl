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
comparison compared with another of the same, and tests compared: with a slower one, with one run of
each size, and too noisy for a verdict.
""".
-spec documents() -> #{binary() => dyno_report:document()}.
documents() ->
    {ok, Pair} = dyno_bench:run(["lists:seq(1, 10).", "lists:seq(1, 500)."], #{budget_ms => 1000}),
    {ok, Inputs} = dyno_bench:run([?SEQ, ?SORT], #{
        inputs => [{"10", "10."}, {"100", "100."}, {"1000", "1000."}], budget_ms => 150
    }),
    {ok, Squeeze} = dyno_bench:run(["timer:sleep(1)."], #{
        mode => {squeeze, #{max => 4, sample_ms => 5}}
    }),
    {ok, Again} = dyno_bench:run(["lists:seq(1, 10).", "lists:seq(1, 500)."], #{budget_ms => 1000}),
    {ok, Compared} = dyno_compare:compare(Pair, Again, #{incomparable => warn}),
    Test = dyno_report_html_data:document(),
    Thrice = dyno_repetitions:thrice(Test),
    {ok, Tests} = dyno_compare:compare(Thrice, slower(Thrice), #{incomparable => warn}),
    {ok, Once} = dyno_compare:compare(Test, Test, #{}),
    {ok, Noisy} = dyno_compare:compare(Thrice, noisy(Thrice), #{}),
    #{
        ~"profiled" => profiled(),
        ~"profiles" => profiles(),
        ~"pair" => Pair,
        ~"inputs" => Inputs,
        ~"squeeze" => Squeeze,
        ~"weather" => dyno_report_weather:document(),
        ~"compared" => Compared,
        ~"tests" => Tests,
        ~"once" => Once,
        ~"noisy" => Noisy
    }.

%% Two recordings of profiles, compared.
profiles() ->
    {ok, Both} = dyno_compare:compare(profile(~"old:code/0", 30), profile(~"new:code/0", 60), #{}),
    Both.

profiled() ->
    Stacks = [
        {[~"shop:sell/1", ~"lists:sort/1"], 60}, {[~"shop:sell/1"], 30}, {[~"shop:list/0"], 10}
    ],
    of_profile(
        dyno_recording_part:profile(
            #{
                name => ~"stacks",
                title => ~"Sampled stacks",
                values => [#{name => ~"samples", unit => ~"count"}]
            },
            [{Stack, [Count], #{}} || {Stack, Count} <- Stacks]
        )
    ).

profile(Function, Value) ->
    of_profile(#{
        name => ~"stacks",
        title => ~"Processor time",
        values => [#{name => ~"time", unit => ~"ns"}],
        frames => [~"both:run/0", Function],
        samples => [
            #{stack => [0, 1], values => [Value], labels => #{processes => ~"web"}},
            #{stack => [0], values => [100 - Value], labels => #{processes => ~"db"}}
        ]
    }).

of_profile(Profile) ->
    New = dyno_recording:new(profile, ~"shop@host", #{}, #{}),
    dyno_recording:add_run(dyno_recording:put(New, status, complete), #{
        id => ~"1",
        labels => #{},
        status => complete,
        metrics => [
            #{
                name => ~"vm.run_queue",
                title => ~"Run queue",
                unit => ~"count",
                group => ~"vm",
                value => 1
            }
        ],
        profiles => [Profile]
    }).

%% The same test where all response times are doubled, on another release.
slower(#{~"runs" := Runs, ~"environment" := Environment} = Document) ->
    Document#{
        ~"environment" := Environment#{~"otp" := ~"27.3"},
        ~"runs" := [times(2, Run) || Run <- Runs]
    }.

%% Twice as slow in the mean, and as well by chance; a function that was not there before.
noisy(#{~"runs" := Runs} = Document) ->
    Document#{
        ~"runs" := [
            times(math:pow(8, N - 1.5), with_sort(Run))
         || #{~"repetition" := N} = Run <- Runs
        ]
    }.

with_sort(#{~"tables" := Tables} = Run) ->
    Run#{~"tables" := [with_row(Table) || Table <- Tables]}.

with_row(#{~"name" := ~"functions", ~"columns" := Columns, ~"rows" := Rows} = Table) ->
    Cell = fun
        (#{~"name" := ~"function"}) -> ~"lists:sort/1";
        (#{~"name" := ~"share"}) -> 0.72;
        (#{~"type" := ~"string"}) -> null;
        (_) -> 1
    end,
    Table#{~"rows" := [lists:map(Cell, Columns) | Rows]};
with_row(Table) ->
    Table.

times(Factor, #{~"metrics" := Metrics} = Run) ->
    Run#{~"metrics" := [scaled(Factor, Metric) || Metric <- Metrics]}.

scaled(Factor, #{~"name" := <<"latency.", _/binary>>, ~"value" := Value} = Metric) ->
    Metric#{~"value" := Factor * Value};
scaled(_Factor, Metric) ->
    Metric.
