%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_plugin_launch).
-moduledoc """
Runs dyno in its own emulator, from a build tool's (rebar3, Mix).

The build tool's emulator has other flags, which would affect measurements, and no orderly end. The
new emulator has the flags of the program `dyno`, the project's code paths, and direct use of the
terminal.
""".

-export([run/1, paths/1, call/3]).
-export_type([job/0]).

-type job() :: #{
    arguments := [string()],
    %% The project's code, and dyno's.
    paths := [file:filename()],
    %% For dyno_cli_project.
    settings := #{atom() => term()},
    %% A file for erl's -config, for this node and the targets that a suite starts.
    config := file:filename() | undefined
}.

%% As in rebar.config (escript_emu_args), which has the reasons.
-define(FLAGS, [
    "+fnu",
    "+Bi",
    "+sbwt",
    "none",
    "+sbwtdcpu",
    "none",
    "+sbwtdio",
    "none",
    "+pc",
    "unicode",
    "+W",
    "w",
    "-nocookie",
    "-epmd_module",
    "dyno_epmd"
]).

-doc "Calls the build tool, whose modules exist only in its own emulator.".
-spec call(module(), atom(), [term()]) -> term().
call(Module, Function, Arguments) ->
    apply(Module, Function, Arguments).

-doc """
Runs dyno, and returns its exit status.

Ctrl-C is passed on (`m:dyno_plugin_interrupt`), so that dyno ends the test, keeps the results, and
exits with 130. If this emulator ends first, its pipe closes, which is an interrupt too.
""".
-spec run(job()) -> 0..255.
run(Job) ->
    Erl = filename:join([code:root_dir(), "bin", "erl"]),
    Port = open_port({spawn_executable, Erl}, [
        {args, arguments(Job)},
        %% Not as arguments, which all users can read: a build file may name a cookie.
        {env, [
            {"DYNO_PROJECT", binary_to_list(base64:encode(term_to_binary(map_get(settings, Job))))},
            dyno_cli_ending:variable(),
            dyno_cli_interrupt:starter()
        ]},
        %% dyno shares these standard streams; the pipe uses two others.
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
        lists:append([
            ["-config", filename:rootname(File, ".config")]
         || File <- [Config],
            File =/= undefined
        ]),
        ["-s", "dyno_cli_project", "main", "-extra" | Arguments]
    ]).

-doc "The existing folders and this emulator's own paths, without duplicates; includes dyno's.".
-spec paths([file:filename()]) -> [file:filename(), ...].
paths(First) ->
    Folders = [filename:absname(Folder) || Folder <- First, filelib:is_dir(Folder)],
    Own = filename:dirname(code:which(?MODULE)),
    lists:uniq(Folders ++ dyno_code:own_paths() ++ [Own]).
