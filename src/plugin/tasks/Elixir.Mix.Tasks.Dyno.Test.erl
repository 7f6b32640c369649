%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

%% Written by make format.

-module('Elixir.Mix.Tasks.Dyno.Test').
-moduledoc "mix dyno.test: run a performance test of a system at growing sizes. Its options are those of dyno test; mix dyno.test --help lists them, with examples.".
-shortdoc(<<"dyno: run a performance test of a system at growing sizes">>).

-define(COMMAND, "test").
-include("dyno_mix_task.hrl").
