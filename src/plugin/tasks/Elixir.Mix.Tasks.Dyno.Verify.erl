%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

%% Written by make format.

-module('Elixir.Mix.Tasks.Dyno.Verify').
-moduledoc "mix dyno.verify: check properties of the processes of a running node. Its options are those of dyno verify; mix dyno.verify --help lists them, with examples.".
-shortdoc(<<"dyno: check properties of the processes of a running node">>).

-export([run/1, '__info__'/1]).

-doc "Called by Mix.".
-spec run([binary()]) -> ok.
run(Arguments) -> dyno_mix:run("verify", Arguments).

-doc false.
-spec '__info__'(atom()) -> term().
'__info__'(Kind) -> dyno_mix:info(?MODULE, Kind).
