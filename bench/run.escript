#!/usr/bin/env escript
%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors
%%! +sbwt none +sbwtdcpu none +sbwtdio none -kernel logger_level error

%% Runs a program of this folder: bench_program.erl says how.
main(Arguments) ->
    Folder = filename:dirname(filename:absname(escript:script_name())),
    {ok, Module, Code} =
        compile:file(filename:join(Folder, "bench_program"), [binary, report]),
    {module, Module} = code:load_binary(Module, "bench_program.beam", Code),
    Module:main(Folder, Arguments).
