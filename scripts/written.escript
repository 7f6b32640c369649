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
        {?OPTIONS, unicode:characters_to_binary(markdown())}
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

%% doc/options.md

markdown() ->
    {Texts, _} = lists:mapfoldl(fun markdown_command/2, #{}, commands()),
    [
        "# Commands and their options\n\n"
        "Made from the program by `make format`; in a terminal, `dyno COMMAND --help-all` and "
        "`man dyno`.\nAn option of several commands is described with the first.\n",
        Texts,
        "\n## Before or after a command\n",
        entries(dyno_cli_help:common_options()),
        "\n## Exit status\n",
        entries([{integer_to_list(S), Text} || {S, Text} <- dyno_cli_exit_status:meanings()]),
        "\n## Environment\n",
        entries(dyno_cli_help:environment())
    ].

%% An option with the same meaning in several commands is described once, with the first. The help
%% has examples.
markdown_command({Name, Help, #{operands := Operands, options := Groups}}, Known) ->
    All = lists:append([Options || {_Title, Options} <- Groups]),
    Others = [
        {map_get(Option, Known), Usage}
     || {Usage, _} = Option <- All, is_map_key(Option, Known)
    ],
    Text = [
        "\n## dyno ",
        Name,
        "\n\n",
        sentence(Help),
        "\n",
        [entries(Operands) || Operands =/= []],
        [
            [["\n", heading(Title), ":\n"], entries(New)]
         || {Title, Options} <- Groups,
            [_ | _] = New <- [[Option || Option <- Options, not is_map_key(Option, Known)]]
        ],
        [["\nAlso ", lists:join("; ", also(Others)), ".\n"] || Others =/= []]
    ],
    {Text, maps:merge(maps:from_keys(All, Name), Known)}.

also(Others) ->
    [
        [
            lists:join(", ", [["`", name(Usage), "`"] || {At, Usage} <- Others, At =:= Command]),
            " ([",
            Command,
            "](#dyno-",
            Command,
            "))"
        ]
     || Command <- lists:uniq([At || {At, _} <- Others])
    ].

heading("") -> "Options";
heading(Title) -> Title.

%% "-o, --output FILE" -> "--output".
name(Usage) ->
    {match, [Name]} = re:run(Usage, "--[^ ]+", [{capture, first, binary}]),
    Name.

entries(Entries) ->
    ["\n" | [["* `", Left, "`: ", linked(Right), "\n"] || {Left, Right} <- Entries]].

%% doc/servers.md explains the forms of processes.
linked(Text) ->
    Link = "[PROCESS](servers.md#which-servers)",
    lists:foldl(
        fun(Things, T) -> string:replace(T, dyno_process_filter:forms(Things), Link) end,
        Text,
        [servers, processes]
    ).

commands() ->
    [
        {Name, Help, dyno_cli_help:described(Module:command())}
     || {Name, Module, Help} <- dyno_commands:all()
    ].

%% Help texts have no capitals and full stops.
sentence(Text) ->
    [string:titlecase(unicode:characters_to_list(Text)), "."].
