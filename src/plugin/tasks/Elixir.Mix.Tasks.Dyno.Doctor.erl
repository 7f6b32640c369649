%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

%% Written by make format.

-module('Elixir.Mix.Tasks.Dyno.Doctor').
-moduledoc "mix dyno.doctor: say what is wrong with a running node, and what to do. Its options are those of dyno doctor; mix dyno.doctor --help lists them, with examples.".
-shortdoc(<<"dyno: say what is wrong with a running node, and what to do">>).

-export([run/1, '__info__'/1]).

-doc "Called by Mix.".
-spec run([binary()]) -> ok.
run(Arguments) -> dyno_mix:run("doctor", Arguments).

-doc false.
-spec '__info__'(atom()) -> term().
'__info__'(Kind) -> dyno_mix:info(?MODULE, Kind).
