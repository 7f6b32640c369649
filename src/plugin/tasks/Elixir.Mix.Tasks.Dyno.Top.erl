%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

%% Written by make format.

-module('Elixir.Mix.Tasks.Dyno.Top').
-moduledoc "mix dyno.top: show running nodes and their processes live, like htop. Its options are those of dyno top; mix dyno.top --help lists them, with examples.".
-shortdoc(<<"dyno: show running nodes and their processes live, like htop">>).

-define(COMMAND, "top").
-include("dyno_mix_task.hrl").
