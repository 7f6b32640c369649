%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module('Elixir.Mix.Tasks.Dyno.New').
-moduledoc """
Writes a suite or a benchmark to start from.

    mix dyno.new suite perf/shop --elixir

The options are those of `dyno new`: `mix dyno.new --help` lists them, with examples.
""".
-shortdoc(<<"Writes a suite or a benchmark to start from">>).

-export([run/1, '__info__'/1]).

-doc "Called by Mix.".
-spec run([binary()]) -> ok.
run(Arguments) -> dyno_mix:run("new", Arguments).

-doc false.
-spec '__info__'(atom()) -> term().
'__info__'(Kind) -> dyno_mix:info(?MODULE, Kind).
