%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module('Elixir.Mix.Tasks.Dyno.Bench').
-moduledoc """
Measures codes, or runs all of the project's benchmarks: `perf/*_bench` and `test/*_bench`.

    mix dyno.bench "lists:seq(1, 9)." "lists:seq(9, 1, -1)."

The options are those of `dyno bench`: `mix dyno.bench --help` lists them, with examples.
""".
-shortdoc(<<"Measures code with dyno">>).

-export([run/1, '__info__'/1]).

-doc "Called by Mix.".
-spec run([binary()]) -> ok.
run(Arguments) -> dyno_mix:run("bench", Arguments).

-doc false.
-spec '__info__'(atom()) -> term().
'__info__'(Kind) -> dyno_mix:info(?MODULE, Kind).
