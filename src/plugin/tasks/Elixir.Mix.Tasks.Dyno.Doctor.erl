%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

%% Written by make format.

-module('Elixir.Mix.Tasks.Dyno.Doctor').
-moduledoc "mix dyno.doctor: find faults of a running node, with advice. Its options are those of dyno doctor; mix dyno.doctor --help lists them, with examples.".
-shortdoc(<<"dyno: find faults of a running node, with advice">>).

-export([run/1, '__info__'/1]).

-doc "Called by Mix.".
-spec run([binary()]) -> ok.
run(Arguments) -> dyno_mix:run("doctor", Arguments).

-doc false.
-spec '__info__'(atom()) -> term().
'__info__'(Kind) -> dyno_mix:info(?MODULE, Kind).
