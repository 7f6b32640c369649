%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

%% Written by make format.

-module('Elixir.Mix.Tasks.Dyno.Test').
-moduledoc "mix dyno.test: run a performance test of a system at growing sizes. Its options are those of dyno test; mix dyno.test --help lists them, with examples.".
-shortdoc(<<"dyno: run a performance test of a system at growing sizes">>).

-export([run/1, '__info__'/1]).

-doc "Called by Mix.".
-spec run([binary()]) -> ok.
run(Arguments) -> dyno_mix:run("test", Arguments).

-doc false.
-spec '__info__'(atom()) -> term().
'__info__'(Kind) -> dyno_mix:info(?MODULE, Kind).
