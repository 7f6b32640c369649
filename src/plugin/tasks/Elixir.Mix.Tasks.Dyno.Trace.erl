%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

%% Written by make format.

-module('Elixir.Mix.Tasks.Dyno.Trace').
-moduledoc "mix dyno.trace: show calls and messages of a running node as they happen. Its options are those of dyno trace; mix dyno.trace --help lists them, with examples.".
-shortdoc(<<"dyno: show calls and messages of a running node as they happen">>).

-define(COMMAND, "trace").
-include("dyno_mix_task.hrl").
