%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_cli_help).
-moduledoc """
The help texts, made from the data that parses the arguments.

`dyno COMMAND --help` fits two screens: of a command with `common` options these, and a few
examples. `--help-all` has all.
""".

-export([overview/1, command/2, full/2]).
-export([common_options/0, environment/0, described/1]).

-type entry() :: {binary(), binary()}.

%% The largest width of the left column; a longer entry has its text on the next line.
-define(LEFT, 26).
%% Help must fit the narrowest terminals and be easy to copy.
-define(WIDTH, 80).
%% Of a command with `common` options.
-define(EXAMPLES, 4).
%% Short texts of options that many commands have, for longer ones.
-define(BRIEF, #{
    "--output" =>
        ~"writes FILE, in the format of its ending, such as .html, .json or .csv; repeatable",
    "--cookie" => ~"the nodes' cookie; better, set DYNO_COOKIE",
    "--pa" => ~"a folder for the code path, beside this project's; repeatable"
}).

-doc "The text of `dyno --help`.".
-spec overview(dyno_report:options()) -> iolist().
overview(Look) ->
    Entries = [{list_to_binary(Name), to_binary(Help)} || {Name, _, Help} <- dyno_commands:all()],
    Others = [
        {~"completion SHELL", ~"print the completion for bash, zsh or fish"},
        {~"man", ~"print the man page"}
    ],
    output([
        [["dyno ", dyno_version:version(), ": a dynamometer for the BEAM"], ""],
        [[title("Usage", Look), ": dyno COMMAND ARGUMENTS..."], ""],
        titled("Commands", Entries ++ Others, Look),
        titled("Options", common_options(), Look),
        titled("Exit status", exit_entries(), Look),
        titled("Environment", environment(), Look),
        ["dyno COMMAND --help explains a command, with examples."]
    ]).

-doc "The text of `dyno COMMAND --help`.".
-spec command({string(), module(), Help :: string()}, dyno_report:options()) -> iolist().
command({Name, Module, _} = Command, Look) ->
    case Module:command() of
        #{common := Common} = Data ->
            Examples = dyno_cli_command:examples(Data),
            Rows = dyno_cli_command:rows(Data),
            More = [", and more examples" || length(Examples) > ?EXAMPLES],
            All = io_lib:format("all ~b options~ts", [length(Rows), More]),
            output([
                opening(Command, Data, Look),
                titled(
                    "Options",
                    [row(Long, Rows) || Long <- string:lexemes(Common, " ")] ++
                        [{~"--help-all", to_binary(All)}],
                    Look
                ),
                examples(lists:sublist(Examples, ?EXAMPLES), Look),
                paragraph(["Exit status: " | lists:join("; ", short(exit_entries(Name)))], Look)
            ]);
        #{} ->
            full(Command, Look)
    end.

row(Long, Rows) ->
    [Found] = [Row || Row <- Rows, dyno_cli_option:long(Row) =:= Long],
    {Usage, Text} = entry(dyno_cli_option:argument(Found)),
    case ?BRIEF of
        #{Long := Brief} when byte_size(Brief) < byte_size(Text) -> {Usage, Brief};
        #{} -> {Usage, Text}
    end.

%% The part before the first comma or semicolon.
short(Entries) ->
    [[Status, $\s, hd(binary:split(Text, [~";", ~","]))] || {Status, Text} <- Entries].

-doc "The text of `dyno COMMAND --help-all`.".
-spec full({string(), module(), Help :: string()}, dyno_report:options()) -> iolist().
full({Name, Module, _} = Command, Look) ->
    #{options := Titled, examples := Examples} = Data = described(Module:command()),
    Common = {~"-h, --help", ~"this text"},
    First = lists:append([Entries || {"", Entries} <- Titled]) ++ [Common],
    Grouped = [Group || {[_ | _], _} = Group <- Titled],
    Column = column([Entry || {_, Entries} <- [{"", First} | Grouped], Entry <- Entries]),
    output([
        opening(Command, Data, Look),
        titled("Options", First, Column, Look),
        lists:append([titled(Title, Entries, Column, Look) || {Title, Entries} <- Grouped]),
        examples(Examples, Look),
        lists:droplast(titled("Exit status", exit_entries(Name), Look))
    ]).

opening({Name, _, Help}, #{operands := Given}, Look) ->
    Operands = [operand(Operand) || Operand <- Given],
    Usage = lists:join(" ", ["dyno", Name] ++ [O || {O, _} <- Operands] ++ ["[OPTIONS]"]),
    [
        ["dyno ", Name, ": ", Help],
        "",
        [title("Usage", Look), ": ", Usage],
        ""
        | lists:append([titled("Arguments", Operands, Look) || Operands =/= []])
    ].

operand({_, _} = Entry) -> Entry;
operand(Argument) -> entry(Argument).

examples(Examples, Look) ->
    [title("Examples", Look)] ++
        lists:append([["  " ++ [Line], "      " ++ [Text]] || {Line, Text} <- Examples]) ++ [""].

paragraph(Text, #{width := Width}) ->
    dyno_report_text:wrap(to_binary(Text), min(Width, ?WIDTH)).

titled(Title, Entries, Look) ->
    titled(Title, Entries, column(Entries), Look).

titled(Title, Entries, Column, #{width := Width} = Look) ->
    Lines = [lines(Entry, Column, min(Width, ?WIDTH)) || Entry <- Entries],
    [title(Title, Look) | lists:append(Lines)] ++ [""].

exit_entries() ->
    [{integer_to_binary(S), Text} || {S, Text} <- dyno_cli_exit_status:meanings()].

%% This command measures nothing.
exit_entries("new") -> [Entry || {S, _} = Entry <- exit_entries(), S =/= ~"1", S =/= ~"130"];
exit_entries(_Name) -> exit_entries().

-doc "The options of all commands.".
-spec common_options() -> [entry(), ...].
common_options() ->
    [
        {~"-h, --help", ~"this text, or a command's common options; --help-all: all of them"},
        {~"-V, --version", ~"the version of dyno and of Erlang/OTP, like dyno version"},
        {~"--color=WHEN", ~"always, never or auto: colours if the terminal has them"},
        {~"--otp PATH", <<
            "the Erlang/OTP that measures, its erl or its folder (default: the erl on the PATH "
            "if 27 or later); dyno bench compares several"
        >>}
    ].

-doc "The environment variables.".
-spec environment() -> [entry(), ...].
environment() ->
    [
        {~"NO_COLOR", ~"set to anything: no colours"},
        {~"FORCE_COLOR", ~"set to anything: colours also without a terminal"},
        {~"DYNO_DEBUG", ~"set to 1: shows errors of dyno in full, with log events"}
    ].

-doc "A command's arguments, in words.".
-spec described(dyno_cli_command:t()) ->
    #{operands := [entry()], options := [{string(), [entry()]}], examples := [term()]}.
described(#{operands := Operands, options := Groups} = Command) ->
    Command#{
        examples := dyno_cli_command:examples(Command),
        operands := [entry(Operand) || Operand <- Operands],
        options := [
            {Title, [entry(dyno_cli_option:argument(Row)) || Row <- Rows]}
         || {Title, Rows} <- Groups
        ]
    }.

entry(#{help := {Usage, [Text]}}) ->
    {to_binary(Usage), to_binary(Text)}.

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
    [[Line, $\n] || Lines <- Blocks, Line <- Lines].

to_binary(Text) ->
    dyno_report_text:encode(Text).
