%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

%% Written by make format.

-module('Elixir.Mix.Tasks.Dyno.New').
-moduledoc "mix dyno.new: write a suite or a benchmark to start from. Its options are those of dyno new; mix dyno.new --help lists them, with examples.".
-shortdoc(<<"dyno: write a suite or a benchmark to start from">>).

-define(COMMAND, "new").
-include("dyno_mix_task.hrl").
