%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

%% Written by make format.

-module('Elixir.Mix.Tasks.Dyno.Bench').
-moduledoc "mix dyno.bench: compare codes: which is faster, by how much, and how sure. Its options are those of dyno bench; mix dyno.bench --help lists them, with examples.".
-shortdoc(<<"dyno: compare codes: which is faster, by how much, and how sure">>).

-define(COMMAND, "bench").
-include("dyno_mix_task.hrl").
