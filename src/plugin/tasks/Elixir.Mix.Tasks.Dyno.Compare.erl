%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

%% Written by make format.

-module('Elixir.Mix.Tasks.Dyno.Compare').
-moduledoc "mix dyno.compare: compare two recordings: slower or faster. Its options are those of dyno compare; mix dyno.compare --help lists them, with examples.".
-shortdoc(<<"dyno: compare two recordings: slower or faster">>).

-export([run/1, '__info__'/1]).

-doc "Called by Mix.".
-spec run([binary()]) -> ok.
run(Arguments) -> dyno_mix:run("compare", Arguments).

-doc false.
-spec '__info__'(atom()) -> term().
'__info__'(Kind) -> dyno_mix:info(?MODULE, Kind).
