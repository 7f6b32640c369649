%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_documents_SUITE).
-moduledoc """
The command lines of `dyno bench` that README.md, doc/bench.md and --help show are run as they
stand; where output is pasted below them it must still look like what is printed: the same tables
with the same columns, and sentences that the program says. Every command line of every document is
one that this program takes, with each option and its value.
""".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

suite() -> [{timetrap, {minutes, 5}}].

all() ->
    [
        transcripts,
        commands,
        examples_of_help,
        changes_are_seen,
        command_lines_are_taken,
        sentences_name_options_of_their_command
    ].

%% Two emulators run all command lines.
init_per_suite(Config) ->
    Folders = [filename:join(proplists:get_value(priv_dir, Config), N) || N <- ["one", "two"]],
    Servers = [
        begin
            ok = filelib:ensure_path(Folder),
            dyno_command:start(#{folder => Folder, environment => [{"LC_ALL", "C.UTF-8"}]})
        end
     || Folder <- Folders
    ],
    [{servers, Servers} | Config].

end_per_suite(Config) ->
    lists:foreach(fun dyno_command:stop/1, proplists:get_value(servers, Config)).

%% These need a project, a node, another Erlang, files that are not there, or the user's patience.
-define(ELSEWHERE, [
    "shop", "--node", "--rev", "--otp", " -i", "--baseline", "...", ".calls", "VM", "--watch"
]).
%% Shown only where the terminal is wide enough.
-define(OPTIONAL, [
    ~"95 % interval", ~"reductions", ~"words", ~"runs for, traced", ~"memory", ~"messages"
]).

transcripts(Config) ->
    Shown = [
        {File, Command, Output}
     || File <- ["README.md", "doc/bench.md"],
        Block <- dyno_documents:blocks(File),
        {Command, Output} <- transcript(Block),
        is_here(Command)
    ],
    ?assert(length(Shown) >= 4, Shown),
    [_ | _] = [x || {"README.md", _, _} <- Shown],
    [
        begin
            {Status, Real} = run(Command, {"100ms", hd(servers(Config)), []}),
            ?assertEqual(0, Status, Real),
            ?assertEqual([], missing(Output, Real), {File, Command, Real}),
            ?assertEqual([], [S || S <- sentences(Output), not is_known(S)], {File, Command})
        end
     || {File, Command, Output} <- Shown
    ].

commands(Config) ->
    Commands = [
        Line
     || File <- ["doc/bench.md", "README.md"],
        Block <- dyno_documents:blocks(File),
        Line <- binary:split(Block, ~"\n", [global, trim]),
        string:prefix(Line, "dyno bench ") =/= nomatch,
        is_here(Line)
    ],
    ?assert(length(Commands) >= 5, Commands),
    runs(Commands, Config).

examples_of_help(Config) ->
    Examples = dyno_cli_command:examples(dyno_cli_bench:command()),
    Commands = [Command || {Command, _} <- Examples, is_here(Command)],
    ?assert(length(Commands) >= 5, Commands),
    runs(Commands, Config).

%% What the comparison of shapes is for: a column or a table that is not there any more.
changes_are_seen(_Config) ->
    Real = ~"Codes\n  code  time  per second  verdict\n  a.    1 ns  2 /s  slower\n",
    ?assertEqual([], missing(~"Codes\n  code  time  verdict\n  b.  3 ns  same\n", Real)),
    ?assertEqual([], missing(~"Codes\n  code  time  words  verdict\n", Real)),
    ?assertMatch([_], missing(~"Codes\n  code  times  verdict\n", Real)),
    ?assertMatch([_], missing(~"Codes\n  code  verdict  time\n", Real)),
    ?assertMatch([_], missing(~"Concurrency\n  workers  throughput\n", Real)),
    ?assert(is_known(~"b. takes 1.242 times as long as a. (1.155 .. 1.362).")),
    ?assertNot(is_known(~"b. is 24 % slower than a.")).

runs(Commands, Config) ->
    Elixir = dyno_elixir:start() =:= ok,
    Here = [C || C <- Commands, Elixir orelse string:find(C, "--elixir") =:= nomatch],
    Halves = lists:enumerate(0, Here),
    dyno_parallel:each(
        fun({Half, Server}) ->
            [
                begin
                    {Status, Text} = run(Command, {"50ms", Server, Config}),
                    ?assertEqual(0, Status, {Command, Text})
                end
             || {N, Command} <- Halves, N rem 2 =:= Half
            ]
        end,
        lists:enumerate(0, servers(Config)),
        2
    ).

servers(Config) ->
    proplists:get_value(servers, Config).

is_here(Command) ->
    lists:all(fun(Part) -> string:find(Command, Part) =:= nomatch end, ?ELSEWHERE).

%% In the project's folder, and without leaving a file there; not longer than need be.
run(Command, {Time, Server, Config}) ->
    [_Dyno | Words] = dyno_documents:words(Command),
    Given = [in(Word, Config) || Word <- Words],
    Samples = ["-d", "-s", "-l", "-r", "-w", "--cv", "--for"],
    Shorter =
        case {lists:member("-q", Given), [W || W <- Given, lists:member(W, Samples)]} of
            {true, _} -> without_duration(Given) ++ ["-d", "10", "--max", "3"];
            {false, []} -> Given ++ ["--for", Time];
            {false, _} -> Given
        end,
    {Status, Out, Error} = dyno_command:ask(Server, dyno_project:root(), Shorter),
    {Status, <<Out/binary, Error/binary>>}.

without_duration(["-d", _Ms | Words]) -> without_duration(Words);
without_duration([Word | Words]) -> [Word | without_duration(Words)];
without_duration([]) -> [].

in(Word, Config) ->
    case {filename:extension(Word), Config} of
        {".erl", _} ->
            filename:join(dyno_project:root(), Word);
        {Ending, [_ | _]} when Ending =:= ".json"; Ending =:= ".html" ->
            filename:join(proplists:get_value(priv_dir, Config), filename:basename(Word));
        _ ->
            Word
    end.

transcript(Block) ->
    case binary:split(Block, ~"\n") of
        [<<"$ ./dyno bench", _/binary>> = Line, Output] ->
            [
                {binary:part(Line, 2, byte_size(Line) - 2), Output}
            ];
        [<<"$ dyno bench", _/binary>> = Line, Output] ->
            [
                {binary:part(Line, 2, byte_size(Line) - 2), Output}
            ];
        _ ->
            []
    end.

%% Headings of the pasted tables that the real ones do not have.
missing(Pasted, Real) ->
    Heads = headings(Real),
    [
        {Title, Columns}
     || {Title, Columns} <- headings(Pasted),
        not lists:any(
            fun({T, All}) -> T =:= Title andalso is_within(Columns -- ?OPTIONAL, All) end, Heads
        )
    ].

%% A title at the margin, and below it columns with two spaces or more between them.
headings(Text) ->
    Lines = binary:split(Text, ~"\n", [global]),
    [
        {Title, re:split(string:trim(Head), "\\s{2,}")}
     || {<<First, _/binary>> = Title, <<"  ", Head/binary>>} <- pairs(Lines),
        First =/= $\s,
        Title =/= ~"Warnings",
        re:run(Head, "\\S\\s{2,}\\S", [{capture, none}]) =:= match
    ].

pairs([A, B | Rest]) -> [{A, B} | pairs([B | Rest])];
pairs(_) -> [].

is_within([], _) -> true;
is_within(_, []) -> false;
is_within([Same | Rest], [Same | All]) -> is_within(Rest, All);
is_within(Columns, [_ | All]) -> is_within(Columns, All).

%% A sentence may go over two lines.
sentences(Text) ->
    Paragraphs = re:split(Text, "\n\n"),
    [
        Sentence
     || Paragraph <- Paragraphs,
        Sentence <- [
            string:trim(re:replace(Paragraph, "\\s*\n\\s*", " ", [global, {return, binary}]))
        ],
        re:run(Sentence, "^\\S.*\\.$", [{capture, none}]) =:= match,
        re:run(Paragraph, "\n  ", [{capture, none}]) =:= nomatch,
        string:find(Sentence, "...") =:= nomatch
    ].

is_known(Sentence) ->
    Known = [
        "^\\S.* takes [0-9.]+ times as long as .+ \\([0-9.]+ \\.\\. [0-9.]+\\)\\.$",
        "^\\S.* allocates [0-9.]+ times as many words as .+ \\([0-9.]+ \\.\\. [0-9.]+\\)\\.$",
        "^It saturates at [0-9]+ workers?: [0-9.]+ .?/s\\. .*not shown to be higher\\.( .*)?$",
        "^[0-9]+ workers? gives? [0-9.]+ .?/s for sure; [0-9]+ give more, not surely: ",
        "^No difference that matters \\([0-9.]+ %\\) between "
    ],
    lists:any(fun(Pattern) -> re:run(Sentence, Pattern, [{capture, none}]) =:= match end, Known).

%% What takes a system, a broker or an hour is not run here; but it is read, with the values of its
%% options.
command_lines_are_taken(_Config) ->
    Lines = [
        {File, Line}
     || File <- dyno_documents:all(), Line <- lists:uniq(dyno_documents:commands(File))
    ],
    ?assert(length(Lines) > 100, length(Lines)),
    [
        ?assert(lists:keymember(File, 1, Lines), File)
     || File <- [
            "README.md", "doc/ci.md", "doc/install.md", "doc/options.md", "doc/start.md"
        ]
    ],
    ?assertEqual([], [
        {File, Line, Why}
     || {File, Line} <- Lines, {error, Why} <- [taken(Line, fun read/3)]
    ]),
    Spans = [
        {File, Span}
     || File <- dyno_documents:all(), Span <- lists:uniq(dyno_documents:spans(File))
    ],
    ?assert(length(Spans) > 50, length(Spans)),
    ?assertEqual([], [
        {File, Span, Why}
     || {File, Span} <- Spans, {error, Why} <- [taken(Span, fun named/3)]
    ]).

taken(Line, Check) ->
    case split(dyno_documents:words(Line)) of
        %% What stands for a command, and what is no command but as good as one.
        {_, [[C | _] | _]} when C >= $A, C =< $Z; C =:= $-; C =:= $. -> ok;
        {_, [First | _]} when First =:= "help"; First =:= "version"; First =:= "man" -> ok;
        {_, []} ->
            ok;
        {_, ["completion" | Shell]} ->
            known(Shell =:= [] orelse dyno_cli_completion:script(hd(Shell)) =/= error);
        {In, [Name | Words]} ->
            case dyno_commands:module(Name) of
                {ok, Module} -> Check(In, Module, Words);
                error -> known(false)
            end
    end.

known(true) -> ok;
known(false) -> {error, unknown}.

split(["dyno" | Words]) ->
    {ok, Without} = dyno_cli_otp:taken(Words),
    {program, Without};
split(["rebar3", "dyno" | Words]) ->
    {project, Words};
split(["mix", "dyno." ++ Name | Words]) ->
    {project, [Name | Words]};
split(["mix", "dyno"]) ->
    {project, []}.

%% Each option is one of the command's.
named(_In, Module, Words) ->
    Arguments = dyno_cli_command:arguments(Module:command()),
    Names =
        ["--help", "--help-all"] ++ ["-" ++ Long || #{long := Long} <- Arguments] ++
            [[$-, Short] || #{short := Short} <- Arguments],
    Given = [hd(string:split(Word, "=")) || [$-, C | _] = Word <- Words, C >= $A orelse C =:= $-],
    known(Given -- Names =:= []).

%% The whole line is, but for what a shell or a reader puts in.
read(In, Module, Words) ->
    Command = Module:command(),
    %% A project finds its suites.
    Arguments = [
        case In of
            project -> A#{required => false};
            program -> A
        end
     || A <- dyno_cli_command:arguments(Command)
    ],
    Known = [Word || Word <- Words, not lists:member(Word, ["--help", "--help-all"])],
    maybe
        false ?= length(Known) < length(Words) orelse lists:any(fun is_placeholder/1, Words),
        {ok, Given, _, _} ?= argparse:parse(Known, #{arguments => Arguments}, #{progname => dyno}),
        %% Without files and folders that would have to be there.
        Here = maps:without([output, pa, arrivals], Given),
        {ok, _} ?= dyno_cli_option:read(dyno_cli_command:rows(Command), Here),
        ok
    else
        true -> ok;
        {error, {Own, Reason}} when is_atom(Own) -> {error, dyno:format_error({Own, Reason})};
        {error, Error} -> {error, Error}
    end.

%% COMMAND, FILE..., $(hostname)
is_placeholder(Word) ->
    Pattern = "^\\[?[A-Z]{2,}[A-Z=,]*(\\.\\.\\.)?\\]?$|\\.\\.\\.$|\\$\\(",
    re:run(Word, Pattern, [{capture, none}]) =:= match.

%% A sentence of a command that names an option must not name a former one.
sentences_name_options_of_their_command(_Config) ->
    [_ | Sections] = re:split(dyno_documents:read("doc/options.md"), "^## dyno ", [multiline]),
    Options =
        #{
            binary_to_list(Command) => named_options(Section)
         || Section <- Sections, [Command | _] <- [binary:split(Section, ~"\n")]
        },
    Named = [
        {Command, File, Option}
     || Command <- ["trace", "verify", "servers", "profile"],
        File <- filelib:wildcard(
            filename:join([dyno_project:root(), "src", Command, "**", "*.erl"])
        ),
        {ok, Code} <- [file:read_file(File)],
        Option <- named_options(re:replace(Code, "^ *%.*", "", [multiline, global]))
    ],
    ?assert(length(Named) > 5, Named),
    ?assertEqual([], [
        Each
     || {Command, _, Option} = Each <- Named,
        not lists:member(Option, map_get(Command, Options))
    ]).

named_options(Text) ->
    case re:run(Text, "--[a-z][a-z-]+", [global, {capture, first, binary}]) of
        {match, Found} -> lists:usort(lists:append(Found));
        nomatch -> []
    end.
