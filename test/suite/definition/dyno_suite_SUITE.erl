%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_suite_SUITE).
-moduledoc "What a suite says, where it comes from, and the nodes that it starts.".

-include_lib("stdlib/include/assert.hrl").

-import(dyno_suites, [says/2]).

-compile([export_all, nowarn_export_all]).

suite() ->
    [{timetrap, {minutes, 5}}].

all() ->
    [
        options_have_defaults,
        options_are_checked,
        options_say_what_is_accepted,
        levels_by_default,
        levels,
        callbacks,
        source_errors,
        source_places,
        source_leaves_nothing,
        source_of_a_taken_name,
        no_temporary_folder,
        peer_starts,
        peer_does_not_boot,
        peer_application_does_not_start,
        peer_ends_with_its_starter
    ].

init_per_suite(Config) ->
    ok = dyno_target_node:ensure_distribution(#{}),
    dyno_suites:with_temporary(Config).

end_per_suite(Config) ->
    dyno_suites:without_temporary(Config).

init_per_testcase(Case, Config) ->
    dyno_suites:prepare(Case, Config).

end_per_testcase(_Case, Config) ->
    case
        {
            proplists:get_value(tc_status, Config), file:list_dir(proplists:get_value(tmp, Config))
        }
    of
        {ok, {ok, [_ | _] = Left}} -> {fail, {left_in_the_temporary_folder, Left}};
        _ -> ok
    end.

%% One sentence that has all the parts.
mentions(Text, Parts) ->
    [?assertNotEqual(nomatch, binary:match(Text, P), {Text, P}) || P <- Parts],
    ok.

%% The config

options_have_defaults(_Config) ->
    {ok, Options} = dyno_suite:options(#{sizes => [1]}),
    ?assertMatch(
        #{
            name := ~"test",
            sizes := [1],
            size_label := ~"size",
            duration_ms := 5000,
            warmup_ms := 500,
            interval_ms := 1000,
            patterns := [],
            thresholds := [],
            level := budget,
            budget := 0.05,
            load := closed,
            timeout_ms := 60_000
        },
        Options
    ),
    %% And each can be set.
    {ok, Set} = dyno_suite:options(#{
        name => "näme",
        sizes => [3, 1, 2],
        size_label => ~"connections",
        duration_ms => 1,
        warmup_ms => 0,
        interval_ms => 10,
        patterns => ["lists:sort/1", ~"app:kernel", {maps, '_', '_'}],
        thresholds => ["latency.p99 < 20 ms"],
        level => all,
        load => open,
        timeout_ms => 1
    }),
    ?assertMatch(
        #{
            name := ~"näme",
            sizes := [3, 1, 2],
            patterns := [{lists, sort, 1}, {application, kernel}, {maps, '_', '_'}],
            thresholds := [_],
            level := all,
            load := open
        },
        Set
    ).

options_are_checked(_Config) ->
    [
        begin
            {error, Reason} = dyno_suite:options(Config),
            says(dyno_suite:format_error(Reason), Parts)
        end
     || {Config, Parts} <- [
            {[{sizes, [1]}], [~"suite/0", ~"map"]},
            {#{}, [~"sizes is missing", ~"a list of positive integers"]},
            {#{sizes => [1], duration => 5}, [~"duration", ~"duration_ms"]}
        ]
    ].

options_say_what_is_accepted(_Config) ->
    [
        begin
            {error, Reason} = dyno_suite:options(maps:merge(#{sizes => [1]}, #{Key => Value})),
            Text = dyno_suite:format_error(Reason),
            says(Text, Parts)
        end
     || {Key, Values, Parts} <- [
            {name, ["", <<>>, <<255>>, 17, a_name, [{}]], [~"name", ~"text is accepted"]},
            {sizes, [[], [0], [-1], [1.5], [1, two], 7, {1, 2}, [1 | 2]], [
                ~"sizes", ~"a list of positive integers"
            ]},
            {size_label, [<<>>, none], [~"size_label", ~"text"]},
            {repeat, [0, 999_999_999_999], [~"repeat", ~"from 1 to 10000"]},
            {duration_ms, [0, -5, 1.5, "5s", infinity, 720_000_001], [
                ~"duration_ms", ~"milliseconds"
            ]},
            {warmup_ms, [-1, 0.5, none], [~"warmup_ms", ~"from 0 to"]},
            {interval_ms, [0, 9, 100.0], [~"interval_ms", ~"from 10 to"]},
            {patterns, [lists, #{}], [~"patterns", ~"a list of patterns"]},
            {patterns, [["lists:sort/x"], [{lists, sort}], [17]], [~"pattern"]},
            {patterns, ["lists:sort/1"], [~"patterns", ~"a list of patterns"]},
            {thresholds, ["latency.p99 < 20 ms", none, [x], [[{}]]], [~"thresholds", ~"a list of"]},
            {level, [deep, "all", 3], [
                ~"level", ~"budget, off, count, discovery, time, memory or all"
            ]},
            {budget, [0, 0.0, 1, 1.0, 5, -0.1, "5%"], [
                ~"budget is", ~"a share above 0 and below 1, such as 0.05, is accepted"
            ]},
            {load, [half_open, #{}], [~"load", ~"closed, open or none"]},
            {timeout_ms, [0, infinity], [~"timeout_ms", ~"from 1 to"]}
        ],
        Value <- Values
    ].

%% By default the times of functions are told within a budget.
levels_by_default(_Config) ->
    Level = fun(Config) ->
        case dyno_suite:options(Config#{sizes => [1]}) of
            {ok, #{level := Of, budget := Budget}} -> {Of, Budget};
            {error, Reason} -> unicode:characters_to_binary(dyno_suite:format_error(Reason))
        end
    end,
    One = "lists:sort/1",
    Refused =
        ~"a budget is of the level budget, and the level is time; leave out one of the two",
    [
        ?assertEqual({Config, Expected}, {Config, Level(Config)})
     || {Config, Expected} <- [
            {#{}, {budget, 0.05}},
            {#{patterns => ["lists"]}, {budget, 0.05}},
            {#{patterns => [One, "lists:sort"]}, {budget, 0.05}},
            {#{patterns => [One, "app:kernel"]}, {budget, 0.05}},
            {#{patterns => [One]}, {budget, 0.05}},
            {#{patterns => [One], level => budget}, {budget, 0.05}},
            {#{patterns => [One], budget => 0.01}, {budget, 0.01}},
            {#{level => budget, budget => 0.01}, {budget, 0.01}},
            {#{level => time}, {time, 0.05}},
            {#{load => performerl, level => time}, {time, 0.05}},
            {#{level => time, budget => 0.01}, Refused}
        ]
    ].

levels(_Config) ->
    Config = fun(Module, Level) ->
        dyno_agent_instrument:config(Module, #{
            patterns => [{m, '_', '_'}], level => Level, interval_ms => 10
        })
    end,
    Levels = [count, discovery, time, memory, all],
    ?assertEqual(
        [[call_count], [], [call_time], [call_memory], [call_time, call_memory]],
        [map_get(measures, Config(dyno_agent_calls, Level)) || Level <- Levels]
    ),
    ?assertEqual(off, Config(dyno_agent_calls, off)),
    ?assertEqual(
        [off, off, found, found, found, found],
        [
            case Config(dyno_agent_processes, Level) of
                off -> off;
                #{} -> found
            end
         || Level <- [off | Levels]
        ]
    ).

callbacks(_Config) ->
    ?assertEqual([{operation, 1}], dyno_suite:missing(?MODULE)),
    ?assertEqual([{operation, 1}, {suite, 0}], lists:sort(dyno_suite:missing(lists))).

%% The source

source_errors(Config) ->
    File = fun(Name, Text) ->
        Path = filename:join(proplists:get_value(work, Config), Name),
        ok = file:write_file(Path, Text),
        Path
    end,
    Folder = filename:join(proplists:get_value(work, Config), "folder.erl"),
    ok = filelib:ensure_path(Folder),
    [
        begin
            {error, Reason} = dyno_suite_source:load(Source),
            says(dyno_suite_source:format_error(Reason), Parts),
            ?assertEqual(2, dyno_error:exit_status({dyno_suite_source, Reason}))
        end
     || {Source, Parts} <- [
            {"no/such/file.erl", [~"no/such/file.erl", ~"there is no file"]},
            {"no_such_file.beam", [~"no_such_file.beam", ~"there is no file"]},
            {"no/such", [~"no/such", ~"there is no file"]},
            {"no_such_module", [~"no_such_module", ~"--pa"]},
            {no_such_module, [~"no_such_module", ~"--pa"]},
            {~"no_such_module", [~"no_such_module", ~"--pa"]},
            {File("notes.txt", "hello"), [~"notes.txt", ~"is not a suite"]},
            {File("broken.beam", "hello"), [~"broken.beam", ~"cannot be loaded"]},
            {File("empty.erl", ""), [~"empty.erl", ~"does not compile"]},
            {File("other.erl", "-module(another).\n"), [~"other.erl", ~"suite/0"]},
            {File("bare.erl", "-module(bare).\n"), [~"bare.erl", ~"suite/0", ~"operation/1"]},
            {lists, [~"lists", ~"suite/0"]},
            {lists:duplicate(300, $a), [~"aaa"]},
            {"", [~"suite"]},
            {Folder, [~"folder.erl"]}
        ]
    ].

%% Line and column, and how many more there are.
source_places(Config) ->
    Source = dyno_suites:write(
        Config, wrong, #{sizes => [1]}, "\noperation(S) ->\n    {ok, S, }.\n"
    ),
    {error, {does_not_compile, _, [_ | _]} = Reason} = dyno_suite_source:load(Source),
    says(dyno_suite_source:format_error(Reason), [~"wrong.erl:9:13: ", ~"syntax error"]),
    Two = dyno_suites:write(
        Config, two_wrong, #{sizes => [1]}, "operation(S) -> {one(S), two(S), T}.\n"
    ),
    {error, More} = dyno_suite_source:load(Two),
    says(dyno_suite_source:format_error(More), [~"two_wrong.erl:", ~"(and 2 more)"]),
    Missing = dyno_suites:write(
        Config, headless, #{sizes => [1]}, "-include(\"no_such.hrl\").\noperation(S) -> {ok, S}.\n"
    ),
    {error, Header} = dyno_suite_source:load(Missing),
    says(dyno_suite_source:format_error(Header), [~"headless.erl:", ~"no_such.hrl"]).

source_leaves_nothing(Config) ->
    Path = code:get_path(),
    Tmp = proplists:get_value(tmp, Config),
    Source = dyno_suites:write(Config, brought, #{sizes => [1]}, "operation(S) -> {ok, S}.\n"),
    %% A user's, which is not to be taken for one of a dyno of that pid.
    Users = filename:join(Tmp, "dyno-4194999-results"),
    ok = file:make_dir(Users),
    {ok, Empty} = dyno_suite_source:load(Source),
    ok = dyno_suite_source:forget(Empty),
    ok = file:del_dir(Users),
    {ok, #{module := brought} = Loaded} = dyno_suite_source:load(Source),
    %% Where the nodes that the suite starts find it.
    ?assertMatch({ok, [_]}, file:list_dir(Tmp)),
    ?assert(lists:prefix(Tmp, code:which(brought))),
    ok = dyno_suite_source:forget(Loaded),
    ?assertEqual(false, code:is_loaded(brought)),
    ?assertEqual(Path, code:get_path()),
    ?assertEqual({ok, []}, file:list_dir(Tmp)),
    %% The new text, not what was loaded before.
    {ok, First} = dyno_suite_source:load(dyno_suites:compile(Config, Source)),
    ?assertMatch(#{sizes := [1]}, brought:suite()),
    Changed = dyno_suites:write(Config, brought, #{sizes => [2]}, "operation(S) -> {ok, S}.\n"),
    {ok, Second} = dyno_suite_source:load(dyno_suites:compile(Config, Changed)),
    ?assertMatch(#{sizes := [2]}, brought:suite()),
    ok = dyno_suite_source:forget(Second),
    ok = dyno_suite_source:forget(First),
    ?assertEqual(Path, code:get_path()).

%% A suite named like a module of OTP would replace it.
source_of_a_taken_name(Config) ->
    Path = code:get_path(),
    lists:foreach(
        fun(Name) ->
            Source = dyno_suites:write(
                Config, Name, #{sizes => [1]}, "operation(S) -> {ok, S}.\n"
            ),
            Object = code:which(Name),
            {error, Reason} = dyno_suite_source:load(Source),
            says(dyno_suite_source:format_error(Reason), [atom_to_binary(Name)]),
            ?assertEqual(Object, code:which(Name)),
            ?assertEqual(Path, code:get_path()),
            ?assertEqual({ok, []}, file:list_dir(proplists:get_value(tmp, Config)))
        end,
        [lists, gen_server, dyno_test, dyno]
    ).

no_temporary_folder(Config) ->
    Source = dyno_suites:write(Config, homeless, #{sizes => [1]}, "operation(S) -> {ok, S}.\n"),
    os:putenv("TMPDIR", "/no/such/folder"),
    {error, Reason} = dyno_suite_source:load(Source),
    says(dyno_suite_source:format_error(Reason), [~"/no/such/folder", ~"TMPDIR"]),
    os:putenv("TMPDIR", proplists:get_value(tmp, Config)).

%% Nodes

peer_starts(Config) ->
    Folder = proplists:get_value(work, Config),
    {ok, Node} = dyno_peer:start(#{
        name => "peer_starts",
        applications => [inets],
        arguments => ["+S", "1"],
        code_paths => [Folder]
    }),
    ?assertMatch("peer_starts" ++ _, atom_to_list(Node)),
    ?assertEqual(1, erpc:call(Node, erlang, system_info, [schedulers])),
    ?assert(lists:keymember(inets, 1, erpc:call(Node, application, which_applications, []))),
    ?assert(lists:member(Folder, erpc:call(Node, code, get_path, []))),
    %% What is on our code path is on its.
    ?assertEqual({module, ?MODULE}, erpc:call(Node, code, ensure_loaded, [?MODULE])),
    ok = dyno_peer:stop(Node),
    gone(Node),
    %% Twice is no mistake.
    ok = dyno_peer:stop(Node).

gone(Node) ->
    dyno_suites:await(fun() -> not net_kernel:hidden_connect_node(Node) end).

peer_does_not_boot(_Config) ->
    [
        begin
            {error, {dyno_peer, Reason}} = dyno_peer:start(Options#{name => "broken"}),
            says(dyno_peer:format_error(Reason), [~"broken", ~"did not boot" | Parts])
        end
     || {Options, Parts} <- [
            {#{arguments => ["+S", "nonsense"]}, [~"+S nonsense"]},
            {#{arguments => ["-boot", "no_such_boot"]}, [~"-boot no_such_boot"]}
        ]
    ],
    %% This process is none the worse.
    ?assertEqual([], flush()).

flush() ->
    receive
        Message -> [Message | flush()]
    after 0 -> []
    end.

peer_application_does_not_start(_Config) ->
    Before = erlang:nodes(hidden),
    {error, {dyno_peer, Reason}} = dyno_peer:start(#{applications => [inets, no_such_application]}),
    says(dyno_peer:format_error(Reason), [~"no_such_application", ~"did not start"]),
    %% The node does not stay behind.
    dyno_suites:await(fun() -> erlang:nodes(hidden) -- Before =:= [] end).

peer_ends_with_its_starter(_Config) ->
    Self = self(),
    Starter = spawn(fun() ->
        Self ! {started, dyno_peer:start(#{})},
        receive
        after infinity -> ok
        end
    end),
    Node =
        receive
            {started, {ok, Started}} -> Started
        end,
    exit(Starter, kill),
    gone(Node).
