%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_cli_completion).
-moduledoc false.
%% `dyno completion SHELL`: a script for bash, zsh or fish, made from the data of the help. Pure.

-export([script/1, shells/0]).

-spec shells() -> [string(), ...].
shells() ->
    ["bash", "zsh", "fish"].

-spec script(string()) -> {ok, iolist()} | error.
script("bash") -> {ok, bash()};
script("zsh") -> {ok, zsh()};
script("fish") -> {ok, fish()};
script(_) -> error.

commands() ->
    [
        {Name, Help, [option(Row) || Row <- dyno_cli_command:rows(Module:command())]}
     || {Name, Module, Help} <- dyno_commands:all()
    ] ++
        [
            {"completion", "print a shell's completion: bash, zsh or fish", []},
            {"help", "say more about a command", []},
            {"man", "print the man page", []},
            {"version", "print the version", []}
        ].

option(Row) ->
    #{long := Long, help := {Usage, [Help]}} = Argument = dyno_cli_option:argument(Row),
    #{
        flags => [[$-, Short] || #{short := Short} <- [Argument]] ++ ["-" ++ Long],
        help => Help,
        %% The placeholder tells the kind of value; a flag has none.
        value => value(Usage, Row)
    }.

value(Usage, Row) ->
    Placeholder = lists:last(string:lexemes(Usage, " ")),
    case lists:sublist(tuple_to_list(Row), 3, 1) of
        _ when hd(Placeholder) =:= $- -> none;
        [{one_of, Words}] -> {words, Words};
        [{list, {one_of, Words}}] -> {words, Words};
        _ -> {any, Placeholder}
    end.

words(Words) ->
    lists:join(" ", [atom_to_list(Word) || Word <- Words]).

names() ->
    lists:join(" ", [Name || {Name, _, _} <- commands()]).

operands("help") -> names();
operands("completion") -> lists:join(" ", shells());
operands("new") -> "suite benchmark";
operands(_) -> "".

bash() ->
    [
        "# dyno's completion for bash: eval \"$(dyno completion bash)\"\n"
        "_dyno() {\n"
        "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}"
        " command=${COMP_WORDS[1]} words=\n"
        "    COMPREPLY=()\n"
        "    if [ \"$COMP_CWORD\" = 1 ]; then\n"
        "        COMPREPLY=($(compgen -W '",
        names(),
        " --help --version' -- \"$cur\"))\n"
        "        return\n"
        "    fi\n"
        "    case $command:$prev in\n",
        [
            [
                "        ",
                lists:join("|", [[Name, ":", Flag] || Flag <- Flags]),
                ") COMPREPLY=($(compgen -W '",
                words(Words),
                "' -- \"$cur\")); return ;;\n"
            ]
         || {Name, _, Options} <- commands(), #{flags := Flags, value := {words, Words}} <- Options
        ],
        "    esac\n"
        "    case $command:$cur in\n",
        [
            [
                "        ",
                Name,
                ":-*) words='",
                lists:join(" ", [Flag || #{flags := Flags} <- Options, Flag <- Flags]),
                " --help --help-all' ;;\n"
            ]
         || {Name, _, [_ | _] = Options} <- commands()
        ],
        [
            ["        ", Name, ":*) words='", operands(Name), "' ;;\n"]
         || {Name, _, _} <- commands(), operands(Name) =/= ""
        ],
        "    esac\n"
        "    [ -z \"$words\" ] || COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
        "}\n"
        "complete -o default -F _dyno dyno\n"
    ].

zsh() ->
    [
        "#compdef dyno\n"
        "# dyno's completion for zsh: a file _dyno in a folder of $fpath.\n"
        "_dyno() {\n"
        "    if (( CURRENT == 2 )); then\n"
        "        local -a commands=(\n",
        [["            ", quoted([Name, ":", Help]), "\n"] || {Name, Help, _} <- commands()],
        "        )\n"
        "        _describe command commands\n"
        "        return\n"
        "    fi\n"
        "    case $words[2] in\n",
        [
            [
                "        ",
                Name,
                ")\n            shift words; (( CURRENT-- ))\n"
                "            _arguments -s",
                [[" \\\n                ", zsh_option(Option)] || Option <- Options],
                " \\\n                ",
                zsh_operands(operands(Name)),
                " ;;\n"
            ]
         || {Name, _, Options} <- commands()
        ],
        "    esac\n"
        "}\n"
        "if [ \"$funcstack[1]\" = _dyno ]; then _dyno \"$@\"; else compdef _dyno dyno; fi\n"
    ].

%% `*`: an option may be repeated.
zsh_option(#{flags := Flags, help := Help, value := Value}) ->
    Text = ["[", zsh_text(Help), "]"],
    Argument =
        case Value of
            none -> "";
            {words, Words} -> [":value:(", words(Words), ")"];
            {any, Placeholder} -> [":", zsh_text(Placeholder), ":_files"]
        end,
    lists:join(" ", [quoted(["*", Flag, Text, Argument]) || Flag <- Flags]).

zsh_operands("") -> "'*:file:_files'";
zsh_operands(Words) -> quoted(["*:word:(", Words, ")"]).

zsh_text(Text) ->
    re:replace(Text, "([\\[\\]:\\\\])", "\\\\\\1", [global, unicode]).

fish() ->
    [
        "# dyno's completion for fish: dyno completion fish | source\n",
        [
            [
                "complete -c dyno -n __fish_use_subcommand -f -a ",
                Name,
                " -d ",
                quoted(Help),
                "\n",
                [
                    [fish_at(Name), " -f -a ", quoted(operands(Name)), "\n"]
                 || operands(Name) =/= ""
                ],
                [[fish_at(Name), fish_option(Option), "\n"] || Option <- Options]
            ]
         || {Name, Help, Options} <- commands()
        ]
    ].

fish_at(Name) ->
    ["complete -c dyno -n '__fish_seen_subcommand_from ", Name, "'"].

fish_option(#{flags := Flags, help := Help, value := Value}) ->
    Argument =
        case Value of
            none -> "";
            {words, Words} -> [" -x -a ", quoted(words(Words))];
            {any, _} -> " -r"
        end,
    [[fish_flag(Flag) || Flag <- Flags], " -d ", quoted(Help), Argument].

fish_flag("--" ++ Long) -> [" -l ", Long];
fish_flag([$-, Short]) -> [" -s ", Short];
%% One dash and a word, as in the emulator.
fish_flag("-" ++ Old) -> [" -o ", Old].

quoted(Text) ->
    ["'", string:replace(lists:flatten(io_lib:format("~ts", [Text])), "'", "'\"'\"'", all), "'"].
