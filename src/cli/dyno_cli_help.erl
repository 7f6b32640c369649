%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_cli_help).
-moduledoc """
The help texts, made from the same data that the arguments are parsed with.
""".

-export([overview/1, command/2]).
-export([common_options/0, exit_statuses/0, environment/0, entry/1]).

%% The left column is at most this wide; a longer entry has its text on the next line.
-define(LEFT, 26).
%% Help is read in the narrowest of terminals, and copied.
-define(WIDTH, 80).

-doc "What `dyno --help` says.".
-spec overview(dyno_report:options()) -> iolist().
overview(Look) ->
    Entries = [{list_to_binary(Name), to_binary(Help)} || {Name, _, Help} <- dyno_commands:all()],
    Others = [
        {~"completion SHELL", ~"print the completion for bash, zsh or fish"},
        {~"man", ~"print the man page"}
    ],
    output([
        {line, ["dyno ", dyno_version:version(), ": a dynamometer for the BEAM"]},
        blank,
        {line, [title("Usage", Look), ": dyno COMMAND ARGUMENTS..."]},
        blank,
        {line, title("Commands", Look)},
        {lines, entries(Entries ++ Others, Look)},
        blank,
        {line, title("Options", Look)},
        {lines, entries(common_options(), Look)},
        blank,
        {lines, titled("Exit status", exit_entries(), Look)},
        blank,
        {lines, titled("Environment", environment(), Look)},
        blank,
        {line, "dyno COMMAND --help says more about a command, with examples."}
    ]).

-doc "What `dyno COMMAND --help` says.".
-spec command({string(), module(), Help :: string()}, dyno_report:options()) -> iolist().
command({Name, Module, Help}, Look) ->
    #{operands := Operands, options := Groups, examples := Examples} = Module:command(),
    Usage = lists:join(" ", ["dyno", Name] ++ [usage(O) || O <- Operands] ++ ["[OPTIONS]"]),
    Common = {~"-h, --help", ~"this text"},
    Titled = [
        {Title, [entry(dyno_cli_option:argument(Row)) || Row <- Rows]}
     || {Title, Rows} <- Groups
    ],
    First = lists:append([Entries || {"", Entries} <- Titled]) ++ [Common],
    Grouped = [Group || {[_ | _], _} = Group <- Titled],
    Column = column([Entry || {_, Entries} <- [{"", First} | Grouped], Entry <- Entries]),
    output([
        {line, ["dyno ", Name, ": ", Help]},
        blank,
        {line, [title("Usage", Look), ": ", Usage]},
        blank,
        {line, title("Arguments", Look)},
        {lines, entries([entry(Operand) || Operand <- Operands], Look)},
        blank,
        {line, title("Options", Look)},
        {lines, entries(First, Column, Look)},
        blank,
        {lines,
            lists:append([
                [title(Title, Look)] ++ entries(Entries, Column, Look) ++ [""]
             || {Title, Entries} <- Grouped
            ])},
        {line, title("Examples", Look)},
        {lines, lists:append([["  " ++ [Line], "      " ++ [Text]] || {Line, Text} <- Examples])},
        blank,
        {lines, titled("Exit status", exit_entries(Name), Look)}
    ]).

titled(Title, Entries, Look) ->
    [title(Title, Look) | entries(Entries, Look)].

exit_entries() ->
    [{integer_to_binary(S), Text} || {S, Text} <- exit_statuses()].

%% Nothing is measured by it.
exit_entries("new") -> [Entry || {S, _} = Entry <- exit_entries(), S =/= ~"1", S =/= ~"130"];
exit_entries(_Name) -> exit_entries().

-doc "The options that are no command's.".
-spec common_options() -> [{binary(), binary()}, ...].
common_options() ->
    [
        {~"-h, --help", ~"this text; after a command, that command's"},
        {~"-V, --version", ~"the version of dyno and of Erlang/OTP; dyno version says it, too"},
        {~"--color=WHEN", ~"always, never or auto: colours where a terminal can show them"}
    ].

-doc "What the exit statuses mean.".
-spec exit_statuses() -> [{0..255, binary()}, ...].
exit_statuses() ->
    [
        {0, ~"done"},
        {1,
            <<"the measured system failed; a condition of --fail-if holds; a threshold or an "
                "invariant does not hold or was not evaluated">>},
        {2, ~"an argument, or a file it names, is not what dyno takes"},
        {3, ~"dyno or the target could not do it"},
        {130, ~"interrupted; what was measured until then is kept"}
    ].

-doc "The variables that are read.".
-spec environment() -> [{binary(), binary()}, ...].
environment() ->
    [
        {~"NO_COLOR", ~"set to anything: no colours"},
        {~"FORCE_COLOR", ~"set to anything: colours also where there is no terminal"},
        {~"DYNO_DEBUG", ~"set to 1: an error of dyno's own is shown in full, with log events"}
    ].

-doc "How an argument is written, and what it is for.".
-spec entry(argparse:argument()) -> {binary(), binary()}.
entry(#{help := {Usage, [Text]}}) ->
    {to_binary(Usage), to_binary(Text)}.

usage(Argument) ->
    {Usage, _} = entry(Argument),
    Usage.

entries(Entries, Look) ->
    entries(Entries, column(Entries), Look).

entries(Entries, Column, #{width := Width}) ->
    lists:append([lines(Entry, Column, min(Width, ?WIDTH)) || Entry <- Entries]).

column(Entries) ->
    min(lists:max([byte_size(Left) || {Left, _} <- Entries]), ?LEFT) + 4.

lines({Left, Text}, Column, Width) ->
    Indent = lists:duplicate(Column, $\s),
    [First | Rest] = Wrapped = dyno_report_text:wrap(Text, max(20, Width - Column)),
    case byte_size(Left) + 4 =< Column of
        true ->
            Head = dyno_report_text:pad(["  ", Left], left, Column),
            [[Head, First] | [[Indent, Line] || Line <- Rest]];
        false ->
            [["  ", Left] | [[Indent, Line] || Line <- Wrapped]]
    end.

title(Text, #{colour := Colour}) ->
    dyno_report_style:paint(Colour, title, Text).

output(Blocks) ->
    [[Line, $\n] || Block <- Blocks, Line <- lines(Block)].

lines(blank) -> [""];
lines({line, Line}) -> [Line];
lines({lines, Lines}) -> Lines.

to_binary(Text) ->
    dyno_report_text:encode(Text).
