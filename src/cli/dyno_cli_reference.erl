%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_cli_reference).
-moduledoc "All commands and options as a man page (`dyno man`), from the help's data. Pure.".

-export([man/0]).

-doc "The man page, in roff.".
-spec man() -> iolist().
man() ->
    [
        ".TH DYNO 1 \"\" \"dyno ",
        dyno_version:version(),
        "\" \"User Commands\"\n"
        ".SH NAME\ndyno \\- a dynamometer for the BEAM\n"
        ".SH SYNOPSIS\n.B dyno\n.I COMMAND\n[\\fIARGUMENT\\fR]...\n"
        ".SH DESCRIPTION\n"
        "Measures Erlang and Elixir code, and systems under load or as they run.\n"
        ".SH COMMANDS\n",
        [man_command(Command) || Command <- commands()],
        ".SH OPTIONS BEFORE OR AFTER A COMMAND\n",
        [man_entry(Option) || Option <- dyno_cli_help:common_options()],
        ".SH EXIT STATUS\n",
        [man_entry({integer_to_list(S), Text}) || {S, Text} <- dyno_cli_exit_status:meanings()],
        ".SH ENVIRONMENT\n",
        [man_entry(Entry) || Entry <- dyno_cli_help:environment()]
    ].

man_command({Name, Help, #{operands := Operands, options := Groups, examples := Examples}}) ->
    [
        ".SS \"dyno ",
        Name,
        [[" ", roff(Usage)] || {Usage, _} <- Operands],
        " [OPTIONS]\"\n",
        roff(sentence(Help)),
        "\n",
        [man_entry(Operand) || Operand <- Operands],
        [
            [
                [[".PP\n", roff(Title), ":\n"] || Title =/= ""],
                [man_entry(Option) || Option <- Options]
            ]
         || {Title, Options} <- Groups
        ],
        ".PP\nExamples:\n",
        [
            [".PP\n", roff(sentence(Text)), "\n.RS 4\n.nf\n", roff(Line), "\n.fi\n.RE\n"]
         || {Line, Text} <- Examples
        ]
    ].

man_entry({Left, Text}) ->
    [".TP\n\\fB", roff(Left), "\\fR\n", roff(Text), "\n"].

%% A line that begins with a dot or an apostrophe would be a request.
roff(Text) ->
    Escaped = lists:foldl(
        fun({From, To}, T) -> string:replace(T, From, To, all) end,
        unicode:characters_to_list(Text),
        [{"\\", "\\e"}, {"-", "\\-"}, {"'", "\\(aq"}, {"\"", "\\(dq"}]
    ),
    case unicode:characters_to_list(Escaped) of
        [$. | _] = Line -> ["\\&", Line];
        Line -> Line
    end.

commands() ->
    [
        {Name, Help, dyno_cli_help:described(Module:command())}
     || {Name, Module, Help} <- dyno_commands:all()
    ].

%% Help texts have no capitals and full stops.
sentence(Text) ->
    [string:titlecase(unicode:characters_to_list(Text)), "."].
