%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_plugin_launch).
-moduledoc """
Runs dyno in an emulator of its own, from within a build tool's (rebar3, Mix).

Not in the build tool's own emulator: that one has other flags, which would be measured, holds the
tool's modules and its plugins, and could not be stopped in good order. The new one has the flags of
the program `dyno`, the project's code paths, and the terminal: what it prints is not touched.
""".

-export([run/1, paths/1, call/3]).
-export_type([job/0]).

-doc "What to run, and for which project.".
-type job() :: #{
    %% As at the command line.
    arguments := [string()],
    %% The project's code, and dyno's.
    paths := [file:filename()],
    %% For dyno_cli_project.
    settings := #{atom() => term()},
    %% A file for erl's -config, for this node and for the targets that a suite starts.
    config := file:filename() | undefined
}.

%% As in rebar.config (escript_emu_args), which says what each is for.
-define(FLAGS, [
    "+fnu", "+Bi", "+sbwt", "none", "+sbwtdcpu", "none", "+sbwtdio", "none", "+pc", "unicode",
    "+W", "w", "-nocookie", "-epmd_module", "dyno_epmd"
]).

-doc "Calls the build tool, whose modules are there in its own emulator only.".
-spec call(module(), atom(), [term()]) -> term().
call(Module, Function, Arguments) ->
    apply(Module, Function, Arguments).

-doc """
Runs it, and returns its exit status.

Ctrl-C is passed on to it (`m:dyno_plugin_interrupt`), so that it takes down the test in good order,
keeps what was measured, and ends with 130. Where this emulator ends first, the other one sees its
pipe closed, and takes that as an interrupt as well.
""".
-spec run(job()) -> 0..255.
run(Job) ->
    Erl = filename:join([code:root_dir(), "bin", "erl"]),
    Port = open_port({spawn_executable, Erl}, [
        {args, arguments(Job)},
        %% Not in its arguments, which everybody can read: a build file may name a cookie.
        {env, [
            {"DYNO_PROJECT", binary_to_list(base64:encode(term_to_binary(map_get(settings, Job))))},
            dyno_cli_ending:variable(),
            dyno_cli_interrupt:starter()
        ]},
        %% Its standard streams are ours; the pipe takes two others.
        nouse_stdio,
        exit_status,
        binary
    ]),
    Before = dyno_plugin_interrupt:pass_on(),
    try
        wait(Port)
    after
        dyno_plugin_interrupt:as_before(Before)
    end.

wait(Port) ->
    receive
        {Port, {exit_status, Status}} ->
            dyno_cli_ending:status(Status);
        {Port, {data, _}} ->
            wait(Port);
        dyno_interrupt ->
            Port ! {self(), {command, ~"interrupt\n"}},
            wait(Port)
    end.

arguments(#{arguments := Arguments, paths := Paths, config := Config}) ->
    lists:append([
        ?FLAGS,
        ["-noshell", "-boot", "no_dot_erlang"],
        ["-pa" | Paths],
        lists:append([["-config", filename:rootname(File, ".config")] || File <- [Config],
            File =/= undefined]),
        ["-s", "dyno_cli_project", "main", "-extra" | Arguments]
    ]).

-doc "These folders where they are there, and this emulator's own ones, each once; dyno's among them.".
-spec paths([file:filename()]) -> [file:filename(), ...].
paths(First) ->
    Folders = [filename:absname(Folder) || Folder <- First, filelib:is_dir(Folder)],
    Own = filename:dirname(code:which(?MODULE)),
    lists:uniq(Folders ++ dyno_code:own_paths() ++ [Own]).
