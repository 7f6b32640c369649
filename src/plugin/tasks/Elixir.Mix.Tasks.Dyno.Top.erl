%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

%% Written by make format.

-module('Elixir.Mix.Tasks.Dyno.Top').
-moduledoc "mix dyno.top: show running nodes and their processes live, like htop. Its options are those of dyno top; mix dyno.top --help lists them, with examples.".
-shortdoc(<<"dyno: show running nodes and their processes live, like htop">>).

-export([run/1, '__info__'/1]).

-doc "Called by Mix.".
-spec run([binary()]) -> ok.
run(Arguments) -> dyno_mix:run("top", Arguments).

-doc false.
-spec '__info__'(atom()) -> term().
'__info__'(Kind) -> dyno_mix:info(?MODULE, Kind).
