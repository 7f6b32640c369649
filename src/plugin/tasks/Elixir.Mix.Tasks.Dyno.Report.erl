%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

%% Written by make format.

-module('Elixir.Mix.Tasks.Dyno.Report').
-moduledoc "mix dyno.report: show a recording as text, HTML, CSV, Markdown and more. Its options are those of dyno report; mix dyno.report --help lists them, with examples.".
-shortdoc(<<"dyno: show a recording as text, HTML, CSV, Markdown and more">>).

-define(COMMAND, "report").
-include("dyno_mix_task.hrl").
