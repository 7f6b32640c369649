%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

%% Written by make format.

-module('Elixir.Mix.Tasks.Dyno.Servers').
-moduledoc "mix dyno.servers: show the server processes of a running node live. Its options are those of dyno servers; mix dyno.servers --help lists them, with examples.".
-shortdoc(<<"dyno: show the server processes of a running node live">>).

-export([run/1, '__info__'/1]).

-doc "Called by Mix.".
-spec run([binary()]) -> ok.
run(Arguments) -> dyno_mix:run("servers", Arguments).

-doc false.
-spec '__info__'(atom()) -> term().
'__info__'(Kind) -> dyno_mix:info(?MODULE, Kind).
