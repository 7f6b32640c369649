#!/usr/bin/env escript
%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors
%%
%% Writes the files that follow from modules: doc/options.md, from the commands' options, and the tasks
%% of Mix, from dyno_commands.
%%
%%   escript scripts/written.escript write|check EBIN
%%
%% `check` writes nothing, and ends with status 1 if a file is not what would be written. EBIN is
%% the folder with dyno's compiled modules.

-mode(compile).

-define(OPTIONS, "doc/options.md").

main([Mode, Ebin]) when Mode =:= "write"; Mode =:= "check" ->
    true = code:add_patha(Ebin),
    Files = [
        {?OPTIONS, unicode:characters_to_binary(dyno_cli_reference:markdown())}
        | [task(Name, Help) || {Name, _, Help} <- dyno_commands:all()]
    ],
    lists:foreach(fun({Path, Text}) -> file(Mode, Path, Text) end, Files);
main(_) ->
    io:put_chars(standard_error, "written: write or check, and the folder of modules\n"),
    halt(2).

file("write", Path, Text) ->
    ok = file:write_file(Path, Text);
file("check", Path, Text) ->
    case file:read_file(Path) of
        {ok, Text} ->
            ok;
        _ ->
            io:put_chars(standard_error, [Path, " is not what make format writes\n"]),
            halt(1)
    end.

%% Mix finds a task by the name of its module. In Erlang, so that dyno needs no Elixir to be built.
task(Name, Help) ->
    Module = "Elixir.Mix.Tasks.Dyno." ++ string:titlecase(Name),
    Text = [
        "%% SPDX-License-Identifier: Apache-2.0\n%% Copyright 2026 The dyno authors\n\n"
        "%% Written by make format.\n\n"
        "-module('", Module, "').\n"
        "-moduledoc \"mix dyno.", Name, ": ", Help, ". Its options are those of dyno ", Name,
        "; mix dyno.", Name, " --help lists them, with examples.\".\n"
        "-shortdoc(<<\"dyno: ", Help, "\">>).\n\n"
        "-define(COMMAND, \"", Name, "\").\n"
        "-include(\"dyno_mix_task.hrl\").\n"
    ],
    {filename:join("src/plugin/tasks", Module ++ ".erl"), unicode:characters_to_binary(Text)}.
