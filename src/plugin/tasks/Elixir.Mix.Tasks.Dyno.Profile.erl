%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

%% Written by make format.

-module('Elixir.Mix.Tasks.Dyno.Profile').
-moduledoc "mix dyno.profile: find the functions that take a node's time or memory. Its options are those of dyno profile; mix dyno.profile --help lists them, with examples.".
-shortdoc(<<"dyno: find the functions that take a node's time or memory">>).

-export([run/1, '__info__'/1]).

-doc "Called by Mix.".
-spec run([binary()]) -> ok.
run(Arguments) -> dyno_mix:run("profile", Arguments).

-doc false.
-spec '__info__'(atom()) -> term().
'__info__'(Kind) -> dyno_mix:info(?MODULE, Kind).
