%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

%% Written by make format.

-module('Elixir.Mix.Tasks.Dyno.Leave').
-moduledoc "mix dyno.leave: remove the modules that dyno left in a large or busy node. Its options are those of dyno leave; mix dyno.leave --help lists them, with examples.".
-shortdoc(<<"dyno: remove the modules that dyno left in a large or busy node">>).

-export([run/1, '__info__'/1]).

-doc "Called by Mix.".
-spec run([binary()]) -> ok.
run(Arguments) -> dyno_mix:run("leave", Arguments).

-doc false.
-spec '__info__'(atom()) -> term().
'__info__'(Kind) -> dyno_mix:info(?MODULE, Kind).
