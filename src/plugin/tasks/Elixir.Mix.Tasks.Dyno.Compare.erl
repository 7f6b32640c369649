%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

%% Written by make format.

-module('Elixir.Mix.Tasks.Dyno.Compare').
-moduledoc "mix dyno.compare: compare two recordings: slower or faster. Its options are those of dyno compare; mix dyno.compare --help lists them, with examples.".
-shortdoc(<<"dyno: compare two recordings: slower or faster">>).

-define(COMMAND, "compare").
-include("dyno_mix_task.hrl").
