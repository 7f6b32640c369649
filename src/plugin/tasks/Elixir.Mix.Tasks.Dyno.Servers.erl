%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

%% Written by make format.

-module('Elixir.Mix.Tasks.Dyno.Servers').
-moduledoc "mix dyno.servers: show the server processes of a running node live. Its options are those of dyno servers; mix dyno.servers --help lists them, with examples.".
-shortdoc(<<"dyno: show the server processes of a running node live">>).

-define(COMMAND, "servers").
-include("dyno_mix_task.hrl").
