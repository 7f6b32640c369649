%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

%% Written by make format.

-module('Elixir.Mix.Tasks.Dyno.Record').
-moduledoc "mix dyno.record: record running nodes with every instrument, without a load. Its options are those of dyno record; mix dyno.record --help lists them, with examples.".
-shortdoc(<<"dyno: record running nodes with every instrument, without a load">>).

-define(COMMAND, "record").
-include("dyno_mix_task.hrl").
