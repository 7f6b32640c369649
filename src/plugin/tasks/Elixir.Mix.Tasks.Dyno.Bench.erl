%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

%% Written by make format.

-module('Elixir.Mix.Tasks.Dyno.Bench').
-moduledoc "mix dyno.bench: compare codes: which is faster, by how much, and how sure. Its options are those of dyno bench; mix dyno.bench --help lists them, with examples.".
-shortdoc(<<"dyno: compare codes: which is faster, by how much, and how sure">>).

-export([run/1, '__info__'/1]).

-doc "Called by Mix.".
-spec run([binary()]) -> ok.
run(Arguments) -> dyno_mix:run("bench", Arguments).

-doc false.
-spec '__info__'(atom()) -> term().
'__info__'(Kind) -> dyno_mix:info(?MODULE, Kind).
