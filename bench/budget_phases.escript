#!/usr/bin/env escript
%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors
%%! +sbwt none +sbwtdcpu none +sbwtdio none -kernel logger_level error

%% What it measures is in bench_budget_phases.erl; how to run it, in bench_program.erl.
main(Arguments) ->
    Folder = filename:dirname(filename:absname(escript:script_name())),
    {ok, Module, Code} =
        compile:file(filename:join(Folder, "bench_program"), [binary, report]),
    {module, Module} = code:load_binary(Module, "bench_program.beam", Code),
    Module:main(Folder, ["budget_phases" | Arguments]).
