%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

%% Written by make format.

-module('Elixir.Mix.Tasks.Dyno.Trace').
-moduledoc "mix dyno.trace: show calls and messages of a running node as they happen. Its options are those of dyno trace; mix dyno.trace --help lists them, with examples.".
-shortdoc(<<"dyno: show calls and messages of a running node as they happen">>).

-export([run/1, '__info__'/1]).

-doc "Called by Mix.".
-spec run([binary()]) -> ok.
run(Arguments) -> dyno_mix:run("trace", Arguments).

-doc false.
-spec '__info__'(atom()) -> term().
'__info__'(Kind) -> dyno_mix:info(?MODULE, Kind).
