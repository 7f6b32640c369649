%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

%% Written by make format.

-module('Elixir.Mix.Tasks.Dyno.Leave').
-moduledoc "mix dyno.leave: remove the modules that dyno left in a large or busy node. Its options are those of dyno leave; mix dyno.leave --help lists them, with examples.".
-shortdoc(<<"dyno: remove the modules that dyno left in a large or busy node">>).

-define(COMMAND, "leave").
-include("dyno_mix_task.hrl").
