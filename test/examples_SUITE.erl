%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(examples_SUITE).
-moduledoc """
What the documents show is what there is: every example runs, every threshold and pattern of the
documents is read, the commands are the program's, the map of modules is whole, links lead
somewhere.
""".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

suite() -> [{timetrap, {minutes, 5}}].

all() ->
    [
        examples_run,
        ranch_is_verified,
        rabbitmq_runs,
        rabbitmq_is_missed,
        thresholds_are_read,
        patterns_are_read,
        options_are_all_there,
        commands_are_the_programs,
        folders_are_in_the_map,
        links_lead_somewhere
    ].

%% A real broker takes half a minute.
slow() -> [rabbitmq_runs].

%% Whether thresholds hold is the machine's affair; that they can be evaluated is the example's.
examples_run(_Config) ->
    Examples = filelib:wildcard(filename:join([dyno_project:root(), "examples", "*_demo.erl"])),
    ?assertMatch([_, _ | _], Examples),
    ok = dyno_target_node:ensure_distribution(#{}),
    %% On a busy machine half a second may pass without a call that is seen.
    Runs = fun(Example) -> dyno_tries:hold(3, fun() -> example_runs(Example) end) end,
    dyno_parallel:each(Runs, Examples -- [example("rabbitmq_demo.erl")], 3).

example(Name) ->
    filename:join([dyno_project:root(), "examples", Name]).

%% A real broker, where it is to be had: scripts/test brings it.
rabbitmq_runs(_Config) ->
    Example = example("rabbitmq_demo.erl"),
    case broker(Example) of
        {ok, _} -> example_runs(Example);
        {error, Why} -> {skip, Why}
    end.

broker(Example) ->
    {ok, Module, Binary} = compile:file(Example, [binary]),
    {module, Module} = code:load_binary(Module, Example, Binary),
    try
        Module:server()
    after
        code:delete(Module),
        code:purge(Module)
    end.

rabbitmq_is_missed(_Config) ->
    Before = os:getenv("DYNO_RABBITMQ"),
    true = os:putenv("DYNO_RABBITMQ", "/nowhere"),
    try
        {ok, Recording} = dyno_test:run(example("rabbitmq_demo.erl"), #{}),
        #{~"status" := ~"failed", ~"error" := #{~"text" := Text}} = Recording,
        ?assertMatch({_, _}, binary:match(Text, ~"there is no RabbitMQ in /nowhere/"), Text),
        ?assertMatch({_, _}, binary:match(Text, ~"make rabbitmq"), Text)
    after
        case Before of
            false -> os:unsetenv("DYNO_RABBITMQ");
            _ -> os:putenv("DYNO_RABBITMQ", Before)
        end
    end.

example_runs(Example) ->
    %% Growth is promised of some.
    {ok, Text} = file:read_file(Example),
    Sizes = [1 | [2 || binary:match(Text, ~"growth") =/= nomatch]],
    Options = #{
        sizes => Sizes, duration_ms => 300, warmup_ms => 100, interval_ms => 100, control => false
    },
    {ok, Recording} = dyno_test:run(Example, Options),
    #{~"status" := Status, ~"runs" := Runs, ~"verdicts" := Verdicts} = Recording,
    ?assertEqual({Example, ~"complete"}, {Example, Status}),
    ?assertEqual(length(Sizes), length(Runs), Example),
    [
        begin
            {ok, #{~"value" := Done}} = dyno_recording:metric(Run, ~"operations.count"),
            ?assert(Done > 0, Example),
            ?assertEqual([], dyno_recording:tables(Run, ~"errors"), Example),
            %% One of each target.
            [_ | _] = Tables = dyno_recording:tables(Run, ~"functions"),
            [?assertNotEqual([], Rows, Example) || #{~"rows" := Rows} <- Tables]
        end
     || Run <- Runs
    ],
    ?assertEqual([], [V || #{~"result" := ~"unknown"} = V <- Verdicts], Example).

%% Of Ranch's connections, the ones on which the planted fault shows are told, and no others.
ranch_is_verified(_Config) ->
    case code:which(ranch) of
        non_existing -> {skip, "Ranch is not to be had"};
        _ -> ranch_verified()
    end.

ranch_verified() ->
    {ok, Text} = file:read_file(example("verify/ranch_echo.dyno")),
    {ok, Compiled} = dyno_specification:compile(Text),
    {ok, Protocol, Object} = compile:file(example("verify/ranch_echo.erl"), [binary]),
    {ok, Node} = dyno_peer:start(#{name => "ranch"}),
    try
        Loaded = [{Protocol, Object} | [{Module, Beam} || {Module, Beam, _} <- Compiled]],
        [
            {module, Module} = erpc:call(Node, code, load_binary, [Module, "", Beam])
         || {Module, Beam} <- Loaded
        ],
        Port = erpc:call(Node, Protocol, start, []),
        Modules = dyno_code:closure([
            dyno_agent_guard, dyno_agent_verifier, dyno_agent_verify, dyno_agent_property
        ]),
        {ok, Agent} = dyno_agent:attach(Node, #{modules => Modules}),
        {ok, _} = dyno_agent:start(Agent, dyno_agent_verifier, #{
            instrumentation => dyno_agent_verify,
            monitors => [Module || {Module, _, _} <- Compiled],
            sink => self()
        }),
        [ok = echoed(Port, ["one\n", "two\n"]) || _ <- lists:seq(1, 10)],
        ok = echoed(Port, ["one\n", "twice\n", "two\n"]),
        ok = echoed(Port, ["lost\n", "two\n"]),
        ?assertEqual(
            [
                ~"call gen_tcp:send(Socket, Line) within 1 s",
                ~"nothing more or receive {tcp_closed, _} or receive {tcp, Socket, Line}"
            ],
            lists:sort(broken(2))
        ),
        _ = dyno_agent:detach(Agent)
    after
        dyno_peer:stop(Node)
    end.

%% Sends each line when the one before has come back; the planted fault loses one, or repeats it.
echoed(Port, Lines) ->
    {ok, Socket} = gen_tcp:connect({127, 0, 0, 1}, Port, [binary, {packet, line}, {active, false}]),
    lists:foreach(
        fun(Line) ->
            ok = gen_tcp:send(Socket, Line),
            case Line of
                "lost\n" -> ok;
                _ -> {ok, _} = gen_tcp:recv(Socket, 0, 5000)
            end
        end,
        Lines
    ),
    gen_tcp:close(Socket).

broken(0) ->
    receive
        {dyno_verify, _, {verdict, #{verdict := no} = Report}} -> ct:fail(Report)
    after 500 -> []
    end;
broken(Left) ->
    receive
        {dyno_verify, _, {verdict, #{verdict := no, trace := complete} = Report}} ->
            #{explanation := #{step := Step}} = Report,
            [Step | broken(Left - 1)];
        {dyno_verify, _, {verdict, #{verdict := yes}}} ->
            broken(Left);
        {dyno_verify, _, Other} ->
            ct:fail(Other)
    after 10_000 -> ct:fail({verdicts_missing, Left})
    end.

thresholds_are_read(_Config) ->
    Rows = lists:append([
        items("doc/thresholds.md", <<"\n## ", Section/binary>>)
     || Section <- [~"The load", ~"The target", ~"Functions, processes", ~"Findings"]
    ]),
    ?assert(length(Rows) > 30, Rows),
    Readme = lists:append([
        binary:split(Block, ~"\n", [global, trim_all])
     || <<"latency.p99 ", _/binary>> = Block <- dyno_documents:blocks("README.md", ~"")
    ]),
    ?assert(length(Readme) > 3, Readme),
    Known = dyno_suites:with_known(#{}, fun(Of) -> Of end),
    [
        begin
            {ok, Threshold} = dyno_threshold:parse(Text),
            ?assertEqual(ok, dyno_threshold:check(Threshold, Known))
        end
     || %% A function of the target is an invariant.
        Text <- Rows ++ Readme,
        string:prefix(Text, "erlang:") =:= nomatch
    ].

patterns_are_read(_Config) ->
    Cells = items("doc/suites.md", ~"\n## Patterns\n"),
    ?assert(length(Cells) > 4, Cells),
    [
        ?assertMatch({ok, _}, dyno_agent_patterns:parse(term(Cell)), Cell)
     || <<"\"", _/binary>> = Cell <- Cells
    ].

options_are_all_there(_Config) ->
    {ok, Options} = dyno_suite:options(#{sizes => [1]}),
    Documented = lists:sort([
        binary_to_existing_atom(Key)
     || Key <- items("doc/suites.md", ~"\n## Options\n")
    ]),
    ?assertEqual(lists:sort(maps:keys(Options)), Documented),
    Callbacks = [
        Name
     || <<Name/binary>> <- [
            hd(binary:split(Cell, ~"("))
         || Cell <- items("doc/suites.md", ~"\n## Callbacks\n")
        ]
    ],
    Mandatory = dyno_suite:missing(lists),
    All = dyno_suite:behaviour_info(callbacks),
    ?assertEqual([], Mandatory -- All),
    ?assertEqual(
        lists:usort([atom_to_binary(Name) || {Name, _} <- All]), lists:usort(Callbacks)
    ).

%% A command that is planned must not look as if it were there.
commands_are_the_programs(_Config) ->
    Documented = [
        lists:nth(2, binary:split(Cell, ~" ", [global]))
     || Cell <- first_cells("README.md", ~"| command |")
    ],
    Modules = filelib:wildcard(filename:join([dyno_project:root(), "src", "cli", "**", "*.erl"])),
    Commands = [
        list_to_binary(Name)
     || File <- Modules,
        "dyno_cli_" ++ Name <- [filename:basename(File, ".erl")],
        lists:member(
            dyno_cli_command, behaviours(list_to_existing_atom(filename:basename(File, ".erl")))
        )
    ],
    ?assertEqual(lists:sort(Commands), lists:sort(Documented)).

folders_are_in_the_map(_Config) ->
    Map = dyno_documents:read("doc/architecture.md"),
    Root = filename:join(dyno_project:root(), "src"),
    Sources = filelib:wildcard(filename:join(Root, "*/**/*.erl")),
    Folders = lists:usort([
        list_to_binary(filename:dirname(string:prefix(Source, Root ++ "/")))
     || Source <- Sources
    ]),
    ?assertNotEqual([], Folders),
    ?assertEqual([], [
        F
     || F <- Folders, binary:match(Map, <<"`", F/binary, "/`">>) =:= nomatch
    ]).

links_lead_somewhere(_Config) ->
    Files =
        ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"] ++
            [
                "doc/" ++ filename:basename(F)
             || F <- filelib:wildcard(filename:join([dyno_project:root(), "doc", "*.md"]))
            ],
    Dead = [
        {File, Link}
     || File <- Files,
        Link <- links(dyno_documents:read(File)),
        not is_there(File, Link)
    ],
    ?assertEqual([], Dead).

links(Text) ->
    case re:run(Text, "\\]\\(([^)\\s]+)\\)", [global, {capture, all_but_first, list}]) of
        {match, Found} -> [Link || [Link] <- Found, not lists:prefix("https:", Link)];
        nomatch -> []
    end.

is_there(File, Link) ->
    [Path | _] = string:split(Link, "#"),
    filelib:is_file(filename:join([dyno_project:root(), filename:dirname(File), Path])).

behaviours(Module) ->
    lists:append([B || {behaviour, B} <- Module:module_info(attributes)]).

%% The code that begins each item of the section's lists.
items(File, Section) ->
    [_, Rest] = binary:split(dyno_documents:read(File), Section),
    Lines = binary:split(hd(binary:split(Rest, ~"\n## ")), ~"\n", [global]),
    [code(Item) || <<"* `", Item/binary>> <- Lines].

%% The code in the first column of the tables whose head begins so.
first_cells(File, Head) ->
    Lines = binary:split(dyno_documents:read(File), ~"\n", [global]),
    cells(Lines, Head, outside).

cells([], _Head, _Where) ->
    [];
cells([Line | Lines], Head, Where) ->
    Begins = string:prefix(Line, Head) =/= nomatch,
    case {Begins, Where, Line} of
        {true, _, _} -> cells(Lines, Head, inside);
        {false, inside, <<"| `", Rest/binary>>} -> [code(Rest) | cells(Lines, Head, inside)];
        {false, inside, <<"| -", _/binary>>} -> cells(Lines, Head, inside);
        _ -> cells(Lines, Head, outside)
    end.

code(Text) ->
    hd(binary:split(Text, ~"`")).

term(Text) ->
    {ok, Tokens, _} = erl_scan:string(binary_to_list(Text) ++ "."),
    {ok, Term} = erl_parse:parse_term(Tokens),
    Term.
