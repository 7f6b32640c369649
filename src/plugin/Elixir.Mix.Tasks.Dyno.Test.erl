%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module('Elixir.Mix.Tasks.Dyno.Test').
-moduledoc """
Runs a performance test, or all of the project's: `perf/*` and `test/*_perf`, as `.exs`, `.ex` or
`.erl`.

    mix dyno.test
    mix dyno.test perf/shop.exs --sizes 1,10 -o shop.html

The options are those of `dyno test`: `mix dyno.test --help` lists them, with examples.
""".
-shortdoc(<<"Runs performance tests with dyno">>).

-export([run/1, '__info__'/1]).

-doc "Called by Mix.".
-spec run([binary()]) -> ok.
run(Arguments) -> dyno_mix:run("test", Arguments).

-doc false.
-spec '__info__'(atom()) -> term().
'__info__'(Kind) -> dyno_mix:info(?MODULE, Kind).
