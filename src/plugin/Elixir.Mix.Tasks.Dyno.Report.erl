%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module('Elixir.Mix.Tasks.Dyno.Report').
-moduledoc """
Shows a recording as text, HTML, CSV and more.

    mix dyno.report shop.json --format markdown

The options are those of `dyno report`: `mix dyno.report --help` lists them, with examples.
""".
-shortdoc(<<"Shows a recording of dyno">>).

-export([run/1, '__info__'/1]).

-doc "Called by Mix.".
-spec run([binary()]) -> ok.
run(Arguments) -> dyno_mix:run("report", Arguments).

-doc false.
-spec '__info__'(atom()) -> term().
'__info__'(Kind) -> dyno_mix:info(?MODULE, Kind).
