%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

%% Written by make format.

-module('Elixir.Mix.Tasks.Dyno.Verify').
-moduledoc "mix dyno.verify: check properties of the processes of a running node. Its options are those of dyno verify; mix dyno.verify --help lists them, with examples.".
-shortdoc(<<"dyno: check properties of the processes of a running node">>).

-define(COMMAND, "verify").
-include("dyno_mix_task.hrl").
