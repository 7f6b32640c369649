%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

%% Written by make format.

-module('Elixir.Mix.Tasks.Dyno.Doctor').
-moduledoc "mix dyno.doctor: find faults of a running node, with advice. Its options are those of dyno doctor; mix dyno.doctor --help lists them, with examples.".
-shortdoc(<<"dyno: find faults of a running node, with advice">>).

-define(COMMAND, "doctor").
-include("dyno_mix_task.hrl").
