%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module('Elixir.Mix.Tasks.Dyno.Compare').
-moduledoc """
Says what changed between two recordings, and whether that matters.

    mix dyno.compare old.json new.json

The options are those of `dyno compare`: `mix dyno.compare --help` lists them, with examples.
""".
-shortdoc(<<"Compares two recordings of dyno">>).

-export([run/1, '__info__'/1]).

-doc "Called by Mix.".
-spec run([binary()]) -> ok.
run(Arguments) -> dyno_mix:run("compare", Arguments).

-doc false.
-spec '__info__'(atom()) -> term().
'__info__'(Kind) -> dyno_mix:info(?MODULE, Kind).
