%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

%% Written by make format.

-module('Elixir.Mix.Tasks.Dyno.Profile').
-moduledoc "mix dyno.profile: find the functions that take a node's time or memory. Its options are those of dyno profile; mix dyno.profile --help lists them, with examples.".
-shortdoc(<<"dyno: find the functions that take a node's time or memory">>).

-define(COMMAND, "profile").
-include("dyno_mix_task.hrl").
