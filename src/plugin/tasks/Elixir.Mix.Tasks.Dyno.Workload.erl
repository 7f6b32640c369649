%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

%% Written by make format.

-module('Elixir.Mix.Tasks.Dyno.Workload').
-moduledoc "mix dyno.workload: run a synthetic system of a master and workers. Its options are those of dyno workload; mix dyno.workload --help lists them, with examples.".
-shortdoc(<<"dyno: run a synthetic system of a master and workers">>).

-define(COMMAND, "workload").
-include("dyno_mix_task.hrl").
