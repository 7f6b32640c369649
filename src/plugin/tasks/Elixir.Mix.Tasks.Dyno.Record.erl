%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

%% Written by make format.

-module('Elixir.Mix.Tasks.Dyno.Record').
-moduledoc "mix dyno.record: record running nodes with every instrument, without a load. Its options are those of dyno record; mix dyno.record --help lists them, with examples.".
-shortdoc(<<"dyno: record running nodes with every instrument, without a load">>).

-export([run/1, '__info__'/1]).

-doc "Called by Mix.".
-spec run([binary()]) -> ok.
run(Arguments) -> dyno_mix:run("record", Arguments).

-doc false.
-spec '__info__'(atom()) -> term().
'__info__'(Kind) -> dyno_mix:info(?MODULE, Kind).
