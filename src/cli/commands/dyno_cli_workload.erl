%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_cli_workload).
-moduledoc "`dyno workload`: runs a synthetic system of a master and its workers.".

-behaviour(dyno_cli_command).

-export([command/0, run/1]).

-spec command() -> dyno_cli_command:t().
command() ->
    #{
        operands => [
            dyno_cli_command:operand(
                "[SHAPE]",
                "how workers start over time: steady (Poisson), pulse (normal) or burst "
                "(log-normal; default: steady)",
                #{nargs => 'maybe', default => ~"steady"}
            )
        ],
        options => [
            {"", [
                {"--workers N", "the number of workers (default: 1000)", {whole, 1, 1_000_000}},
                {"--requests N",
                    "the mean number of requests of a worker, with a standard deviation of 2 % "
                    "(default: 100)", {whole, 1, 100_000_000}},
                {"--for TIME", "the time in which all workers start (default: 10s)", duration,
                    time_ms},
                {"--seed N", "the seed of the random numbers (default: 1)", {whole, 0, infinity}},
                {"--repeat N",
                    "at most N repetitions; from the third on, ends if the coefficient of "
                    "variation of the mean response time is stable (default: 1)", {whole, 1, 1000},
                    repetitions}
            ]},
            {"Reports", dyno_cli_measurement:options()}
        ],
        examples =>
            """
            dyno workload burst --workers 10000
                starts 10,000 workers within 10 seconds, most at the start
            dyno workload steady --workers 250 --requests 10000 --repeat 10 -o before.json
                repeats few workers with many requests, and keeps the recording
            """
    }.

-spec run(dyno_cli_command:values()) -> dyno_cli_command:result().
run(#{shape := Text} = Values) ->
    case [Shape || Shape <- [steady, pulse, burst], atom_to_binary(Shape) =:= Text] of
        [Shape] ->
            Keys = [workers, requests, time_ms, seed, repetitions],
            Options = (maps:with(Keys, Values))#{shape => Shape},
            Measure = fun(#{progress := Report}) ->
                Show = fun(Line) -> Report(#{phase => measuring, run => Text, text => Line}) end,
                dyno_workload:run(Options#{progress => Show})
            end,
            dyno_cli_measurement:run(#{keep => Text, measure => Measure}, Values);
        [] ->
            dyno_cli_command:contradiction([
                "\"",
                dyno_text:clean(Text),
                "\" is no shape; steady, pulse and burst are"
            ])
    end.
