%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_documents).
-moduledoc "What the documents show: their code, and the command lines in it.".

-export([
    all/0,
    printed/0,
    read/1,
    shell_lines/1,
    blocks/1, blocks/2,
    commands/1, commands/2,
    spans/1,
    words/1
]).

-doc "README.md and everything in doc/.".
all() ->
    ["README.md" | lists:sort(filelib:wildcard("doc/*.md", dyno_project:root()))].

-doc "Those that a new user comes to first, whose lines run as they are printed.".
printed() ->
    ["README.md"] ++
        [
            "doc/" ++ Name ++ ".md"
         || Name <- ["start", "examples", "record", "servers", "profile", "trace", "verify"]
        ].

read(File) ->
    {ok, Text} = file:read_file(filename:join(dyno_project:root(), File)),
    Text.

-doc "The code blocks of a document.".
blocks(File) ->
    [Block || {_, Block} <- fenced(lines(read(File)))].

-doc "Those in a language.".
blocks(File, Language) ->
    [Block || {Of, Block} <- fenced(lines(read(File))), Of =:= Language].

lines(Text) ->
    binary:split(Text, ~"\n", [global, trim]).

fenced([]) ->
    [];
fenced([<<"```", Language/binary>> | Lines]) ->
    {Block, [_ | Rest]} = lists:splitwith(fun(Line) -> Line =/= ~"```" end, Lines),
    [{Language, iolist_to_binary(lists:join($\n, Block))} | fenced(Rest)];
fenced([_ | Lines]) ->
    fenced(Lines).

-doc """
The command lines in a document's blocks, from the program's name on: `dyno`, `rebar3 dyno`, `mix
dyno.`. What a shell does with them (`| less`, `>file`, comments) is cut off.
""".
commands("doc/options.md") ->
    %% The examples of --help, which this document leaves out.
    [
        Command
     || {_, Module, _} <- dyno_commands:all(),
        {Line, _} <- dyno_cli_command:examples(Module:command()),
        {ok, Command} <- [command(unicode:characters_to_binary(Line))]
    ];
commands(File) ->
    [
        Command
     || Block <- blocks(File), Line <- lines(whole(Block)), {ok, Command} <- [command(Line)]
    ].

-doc """
What a document has its reader type in a shell, whole: behind `$ ` in a block with output, else each
line of a block that has a command. `unknown`: such a block has a line that is none.
""".
shell_lines(File) ->
    lists:append([typed(lines(whole(Block))) || Block <- blocks(File, ~"")]).

typed([<<"$ ", _/binary>> | _] = Lines) ->
    [{command, Line} || <<"$ ", Line/binary>> <- Lines];
typed(Lines) ->
    Pattern =
        "^([A-Z_]+=\\S+ )*(\\./dyno|dyno|make|rebar3|mix|erlc?|iex|git|eval|npm|pip|docker)( |$)",
    {Commands, Others} = lists:partition(
        fun(Line) -> re:run(Line, Pattern, [{capture, none}]) =:= match end, Lines
    ),
    case Commands of
        [] -> [];
        _ -> [{command, Line} || Line <- Commands] ++ [{unknown, Line} || Line <- Others]
    end.

%% A line that ends with a backslash goes on in the next.
whole(Block) ->
    re:replace(Block, "\\s*\\\\\n\\s*", " ", [global, {return, binary}]).

-doc "The same of its sentences and tables, where mostly a part of a command line stands.".
spans(File) ->
    Outside = re:replace(read(File), "```.*?```", "", [global, dotall, {return, binary}]),
    case re:run(Outside, "`([^`\n]+)`", [global, {capture, all_but_first, binary}]) of
        {match, Found} -> [Command || [Span] <- Found, {ok, Command} <- [command(Span)]];
        nomatch -> []
    end.

-doc "Those that begin so.".
commands(File, Begin) ->
    [Command || Command <- commands(File), string:prefix(Command, Begin) =/= nomatch].

command(Line) ->
    Pattern =
        "^\\s*(?:- run: |- |\\$ |[A-Z_]+=\\S+ )*(?:\\./)?((?:dyno|rebar3 dyno|mix dyno)[ .]"
        "(?:'[^']*'|\"[^\"]*\"|[^'\"])*?)(?:\\s*(?:$|\\s{2,}.*$|\\s#.*$|\\s[|>;].*$))",
    case re:run(Line, Pattern, [unicode, {capture, all_but_first, binary}]) of
        {match, [Command]} -> {ok, Command};
        nomatch -> none
    end.

-doc "As a shell takes a line apart: spaces, and quotes of both kinds.".
words(Line) ->
    words(unicode:characters_to_list(Line), [], [], none).

words([], [], Words, _) ->
    lists:reverse(Words);
words([], Word, Words, _) ->
    lists:reverse([lists:reverse(Word) | Words]);
words([Quote, Quote | Rest], [], Words, none) when Quote =:= $'; Quote =:= $" ->
    words(Rest, [], ["" | Words], none);
words([Quote | Rest], Word, Words, none) when Quote =:= $'; Quote =:= $" ->
    words(Rest, Word, Words, Quote);
words([$\\, $" | Rest], Word, Words, $") ->
    words(Rest, [$" | Word], Words, $");
words([Quote | Rest], Word, Words, Quote) ->
    words(Rest, Word, Words, none);
words([$\s | Rest], [], Words, none) ->
    words(Rest, [], Words, none);
words([$\s | Rest], Word, Words, none) ->
    words(Rest, [], [lists:reverse(Word) | Words], none);
words([Char | Rest], Word, Words, Where) ->
    words(Rest, [Char | Word], Words, Where).
