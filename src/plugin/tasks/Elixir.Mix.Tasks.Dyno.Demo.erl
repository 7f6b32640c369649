%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

%% Written by make format.

-module('Elixir.Mix.Tasks.Dyno.Demo').
-moduledoc "mix dyno.demo: start a small shop to try the other commands with. Its options are those of dyno demo; mix dyno.demo --help lists them, with examples.".
-shortdoc(<<"dyno: start a small shop to try the other commands with">>).

-define(COMMAND, "demo").
-include("dyno_mix_task.hrl").
