%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_code_SUITE).

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

all() ->
    [
        loads_and_unloads,
        compiles_files,
        paths_for_a_while,
        closure_of_calls,
        sends_what_a_node_lacks,
        asks_while_another_leaves,
        words_failures
    ].

loads_and_unloads(_Config) ->
    ok = dyno_code:load(coded, "coded.erl", object(1)),
    Running = spawn(fun() -> coded:wait() end),
    Monitor = monitor(process, Running),
    ?assertEqual(1, coded:version()),
    ok = dyno_code:load(coded, "coded.erl", object(2)),
    ?assertEqual(2, coded:version()),
    ok = dyno_code:unload([coded]),
    ?assertNot(erlang:module_loaded(coded)),
    receive
        {'DOWN', Monitor, process, Running, Reason} -> ?assertEqual(killed, Reason)
    end,
    ?assertMatch({error, _}, dyno_code:load(coded, "coded.erl", ~"no code")).

compiles_files(Config) ->
    Folder = proplists:get_value(priv_dir, Config),
    Good = filename:join(Folder, "good.erl"),
    ok = file:write_file(Good, "-module(good).\n"),
    ?assertMatch({ok, good, <<"FOR1", _/binary>>}, dyno_code:compile_file(Good, [])),
    Bad = filename:join(Folder, "bad.erl"),
    ok = file:write_file(Bad, "-module(bad).\na() -> B.\nc( -> 1.\n"),
    {error, {does_not_compile, [First | _]}} = dyno_code:compile_file(Bad, []),
    ?assertEqual(
        unicode:characters_to_binary([Bad, ":3:4: syntax error before: '->'"]), First
    ),
    Missing = filename:join(Folder, "missing.erl"),
    {error, {does_not_compile, [NoFile]}} = dyno_code:compile_file(Missing, []),
    ?assertEqual(unicode:characters_to_binary([Missing, ": no such file or directory"]), NoFile).

paths_for_a_while(Config) ->
    Folder = filename:absname(proplists:get_value(priv_dir, Config)),
    Before = code:get_path(),
    ok = dyno_code:with_paths([unicode:characters_to_binary(Folder)], fun() ->
        ?assertEqual(Folder, hd(code:get_path())),
        ?assert(lists:member(Folder, dyno_code:own_paths())),
        %% What is there already stays when the inner one ends.
        ok = dyno_code:with_paths([Folder], fun() -> ok end),
        ?assertEqual(Folder, hd(code:get_path())),
        ok
    end),
    ?assertError(oops, dyno_code:with_paths([Folder], fun() -> error(oops) end)),
    ?assertEqual(Before, code:get_path()),
    Root = code:lib_dir(stdlib),
    ?assertNot(lists:member(filename:join(Root, "ebin"), dyno_code:own_paths())).

closure_of_calls(_Config) ->
    ?assertEqual([dyno_similar], dyno_code:closure([dyno_similar])),
    Closure = dyno_code:closure([dyno_load_pool]),
    ?assertEqual(lists:usort(Closure), Closure),
    ?assert(lists:member(dyno_load_pool, Closure)),
    ?assert(lists:member(dyno_load_worker, Closure)),
    ?assertNot(lists:member(dyno_cli, Closure)),
    %% Named only, as a callback module.
    ?assert(lists:member(dyno_agent_path_events, dyno_code:closure([dyno_agent_path_profile]))).

sends_what_a_node_lacks(_Config) ->
    {_, Node} = Peer = dyno_peers:start(),
    Modules = [dyno_similar, dyno_error],
    {ok, Missing} = dyno_code:missing(Node, Modules),
    ?assertEqual(Modules, [M || {M, _, _} <- Missing]),
    ?assertEqual({ok, []}, dyno_code:loaded(Node, Modules)),
    ok = dyno_code:send(Node, Missing),
    ?assertEqual({ok, Modules}, dyno_code:loaded(Node, Modules)),
    ?assertEqual({ok, []}, dyno_code:missing(Node, Modules)),
    ?assertEqual({ok, []}, dyno_code:missing(node(), Modules)),
    ?assertEqual({ok, [lists]}, dyno_code:available(Node, [no_such_module, lists])),
    %% Another version of that name is missing, too.
    ok = dyno_code:send(Node, [{dyno_error, object(dyno_error, 1), "dyno_error.erl"}]),
    {ok, [{dyno_error, _, _}]} = dyno_code:missing(Node, Modules),
    ?assertMatch(
        {error, {failed, Node, {_, coded}}}, dyno_code:send(Node, [{coded, ~"no", "coded.erl"}])
    ),
    ok = dyno_peers:stop(Peer),
    ?assertEqual({error, {node_down, Node}}, dyno_code:missing(Node, Modules)).

%% Another dyno unloads the modules between two questions.
asks_while_another_leaves(_Config) ->
    {_, Node} = Peer = dyno_peers:start(),
    {dyno_error, Binary, File} = code:get_object_code(dyno_error),
    Leaves = """
    -module(leaves).
    -export([again/2]).
    again(File, Binary) ->
        {module, _} = code:load_binary(dyno_error, File, Binary),
        _ = code:purge(dyno_error),
        _ = code:delete(dyno_error),
        _ = code:purge(dyno_error),
        again(File, Binary).

    """,
    leaves = dyno_peers:load(Node, Leaves),
    _ = erpc:call(Node, erlang, spawn, [leaves, again, [File, Binary]]),
    _ = [{ok, _} = dyno_code:missing(Node, [dyno_error, dyno_text]) || _ <- lists:seq(1, 300)],
    dyno_peers:stop(Peer).

words_failures(_Config) ->
    [
        ?assertEqual(Expected, unicode:characters_to_binary(dyno_code:format_error(Reason)))
     || {Reason, Expected} <- [
            {{node_down, 'a@b'}, ~"the connection to a@b was lost while modules were sent there"},
            {{failed, 'a@b', {badfile, coded}}, ~"a@b did not take the module coded: badfile"},
            {
                {failed, 'a@b', {exit, {timeout, 1}}},
                ~"a@b did not take dyno's modules: {exit,{timeout,1}}"
            }
        ]
    ].

object(Version) ->
    object(coded, Version).

object(Name, Version) ->
    Text = io_lib:format(
        "-module(~ts). -export([version/0, wait/0]). version() -> ~b. "
        "wait() -> receive after infinity -> ok end. ",
        [Name, Version]
    ),
    {ok, Name, Binary} = compile:forms(dyno_peers:forms(lists:flatten(Text))),
    Binary.
