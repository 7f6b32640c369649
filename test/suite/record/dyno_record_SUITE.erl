%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_record_SUITE).
-moduledoc "Nodes that run, recorded without a load; suites whose load is none.".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

suite() -> [{timetrap, {minutes, 3}}].

each_release() -> [records, code_that_is_purged].

slow() -> [code_that_is_purged].

all() ->
    [
        records,
        own_applications,
        own_modules,
        interrupted,
        one_of_two_nodes_is_lost,
        nothing_called,
        unknown_option,
        cannot_be_reached,
        suite_without_load,
        code_that_is_purged
    ].

%% The shop of the examples runs in a node without dyno.
init_per_suite(Config0) ->
    Config = dyno_suites:with_temporary(Config0),
    ok = dyno_target_node:ensure_distribution(#{}),
    {Peer, Node} = dyno_peers:start(["-setcookie", atom_to_list(erlang:get_cookie())]),
    Source = filename:join([dyno_project:root(), "examples", "shop_servers.erl"]),
    {ok, Module, Binary} = compile:file(Source, [binary]),
    {module, Module} = erpc:call(Node, code, load_binary, [Module, Source, Binary]),
    Owner = spawn(Node, fun_of(Module)),
    [{peer, Peer}, {node, Node}, {owner, Owner} | Config].

%% Its servers are linked to who starts them.
fun_of(Module) ->
    {ok, Tokens, _} = erl_scan:string(
        "fun() -> " ++ atom_to_list(Module) ++ ":start(), receive after infinity -> ok end end."
    ),
    {ok, Expressions} = erl_parse:parse_exprs(Tokens),
    {value, Fun, _} = erl_eval:exprs(Expressions, []),
    Fun.

end_per_suite(Config) ->
    dyno_peers:stop({proplists:get_value(peer, Config), none}),
    dyno_suites:without_temporary(Config).

init_per_testcase(Case, Config) ->
    Node = proplists:get_value(node, Config),
    [{before, dyno_leftovers:snapshot(Node)} | dyno_suites:prepare(Case, Config)].

end_per_testcase(_Case, Config) ->
    dyno_leftovers:check(proplists:get_value(node, Config), proplists:get_value(before, Config)).

record(Config, Options) ->
    dyno_record:run(
        [proplists:get_value(node, Config)],
        maps:merge(#{duration_ms => 800, warmup_ms => 100, interval_ms => 100}, Options)
    ).

records(Config) ->
    Self = self(),
    {ok, Document} = record(Config, #{
        patterns => ["shop_servers"],
        code_paths => [],
        timeout_ms => 20_000,
        level => count,
        thresholds => ["vm.memory.total.max < 10 GB", "vm.processes.min > 100000"],
        watch => fun(Node, Values) -> Self ! {watched, Node, Values} end
    }),
    Node = proplists:get_value(node, Config),
    #{~"command" := ~"record", ~"status" := ~"complete", ~"parameters" := Parameters} = Document,
    ?assertEqual([atom_to_binary(Node)], map_get(~"nodes", Parameters)),
    ?assertNot(is_map_key(~"sizes", Parameters)),
    [#{~"size" := null, ~"labels" := Labels} = Run] = dyno_recording:runs(Document),
    ?assertEqual(#{}, Labels),
    Servers = [Name || #{~"server" := Name} <- dyno_recording:rows(Run, ~"servers")],
    ?assertEqual([~"mail", ~"orders", ~"stock"], lists:sort(Servers)),
    Functions = [Name || #{~"function" := Name} <- dyno_recording:rows(Run, ~"functions")],
    ?assert(lists:member(~"shop_servers:handle_call/3", Functions), Functions),
    ?assertMatch([_ | _], dyno_recording:series(Run, ~"vm.memory.total")),
    %% Tables of a load, a growth or a run without instruments make no sense.
    ?assertEqual([], [N || #{~"name" := N} <- map_get(~"tables", Document)]),
    ?assertMatch(
        [#{~"result" := ~"pass"}, #{~"result" := ~"fail"}], map_get(~"verdicts", Document)
    ),
    receive
        {watched, Node, #{~"vm.memory.total" := _}} -> ok
    after 0 -> ct:fail(not_watched)
    end.

%% What is neither of OTP nor of Elixir is measured where nothing is named.
own_applications(Config) ->
    Node = proplists:get_value(node, Config),
    Application =
        {application, shop, [
            {vsn, "1"},
            {modules, [shop_servers]},
            {registered, []},
            {applications, [kernel, stdlib]}
        ]},
    ok = erpc:call(Node, application, load, [Application]),
    ok = erpc:call(Node, application, start, [shop]),
    {ok, #{~"parameters" := #{~"patterns" := Patterns}}} = record(Config, #{duration_ms => 200}),
    ok = erpc:call(Node, application, stop, [shop]),
    ok = erpc:call(Node, application, unload, [shop]),
    ?assertEqual([~"app:shop"], Patterns).

%% A shell or a script has no application: then modules of that kind are, and their processes.
own_modules(Config) ->
    {ok, #{~"parameters" := #{~"patterns" := Patterns}} = Document} = record(Config, #{}),
    ?assertEqual([~"shop_servers"], Patterns),
    [Run] = dyno_recording:runs(Document),
    Processes = dyno_recording:rows(Run, ~"processes"),
    ?assertMatch([_ | _], [R || #{~"group" := ~"orders"} = R <- Processes]).

interrupted(Config) ->
    Self = self(),
    Pid = spawn_link(fun() ->
        Self !
            {recorded,
                record(Config, #{
                    duration_ms => 600_000,
                    patterns => ["shop_servers"],
                    watch => fun(_, _) -> Self ! sampled end
                })}
    end),
    receive
        sampled -> ok = dyno_test:interrupt(Pid)
    end,
    receive
        {recorded, {ok, Document}} ->
            #{~"status" := ~"interrupted"} = Document,
            [Run] = dyno_recording:runs(Document),
            ?assertMatch([_ | _], dyno_recording:rows(Run, ~"servers"))
    end.

one_of_two_nodes_is_lost(Config) ->
    {Peer, Lost} = dyno_peers:start(["-setcookie", atom_to_list(erlang:get_cookie())]),
    Killer = spawn(fun() ->
        receive
            seen -> dyno_peers:stop({Peer, none})
        end
    end),
    {ok, Document} = dyno_record:run([proplists:get_value(node, Config), Lost], #{
        duration_ms => 3000,
        warmup_ms => 100,
        interval_ms => 100,
        patterns => [],
        watch => fun(Node, _Values) -> _ = [Killer ! seen || Node =:= Lost] end
    }),
    #{~"status" := ~"partial", ~"error" := #{~"text" := Text}} = Document,
    ?assertMatch(<<"node ", _/binary>>, Text),
    ?assertNotEqual(nomatch, string:find(Text, " was lost: ")).

nothing_called(Config) ->
    {ok, Document} = record(Config, #{duration_ms => 200, patterns => ["lists:droplast/1"]}),
    #{~"status" := ~"complete"} = Document,
    [#{~"warnings" := [#{~"code" := Code, ~"text" := Text} | Others]}] =
        dyno_recording:runs(Document),
    ?assertEqual(~"not_called", Code),
    %% Once.
    ?assertEqual([], [Same || #{~"code" := ~"nothing_called"} = Same <- Others]),
    ?assertMatch(<<"no measured function was called", _/binary>>, Text).

%% With a mistyped one it would take half a minute.
unknown_option(Config) ->
    {error, Error} = record(Config, #{durration_ms => 200}),
    ?assertMatch({dyno_option, {unknown, durration_ms, _}}, Error).

%% No file is begun for it.
cannot_be_reached(Config) ->
    File = filename:join(proplists:get_value(work, Config), "no.json"),
    [_, Host] = string:split(atom_to_list(node()), "@"),
    Nobody = list_to_atom("dyno-nobody@" ++ Host),
    ?assertMatch(
        {error, {dyno_target_node, {node_down, Nobody, _}}},
        dyno_record:run([Nobody], #{recording => File})
    ),
    ?assertNot(filelib:is_file(File)),
    {error, Unmatched} = record(Config, #{patterns => ["shop_server"]}),
    ?assertEqual(2, dyno_error:exit_status(Unmatched)).

%% It needs no operation; one with a load does.
suite_without_load(Config) ->
    Node = proplists:get_value(node, Config),
    Callbacks = io_lib:format("init_run(_, S) -> {ok, [~0tp], S}.~n", [Node]),
    Options = #{
        sizes => [1, 2],
        load => none,
        duration_ms => 200,
        warmup_ms => 0,
        interval_ms => 100,
        patterns => ["shop_servers"],
        level => count
    },
    Source = dyno_suites:write(Config, idle_perf, Options, Callbacks),
    {ok, Document} = dyno_test:run(Source, #{}),
    ?assertMatch(#{~"command" := ~"test", ~"status" := ~"complete"}, Document),
    ?assertMatch([#{~"size" := 1}, #{~"size" := 2}], dyno_recording:runs(Document)),
    {error, NoLoad} = dyno_test:run(Source, #{load => #{rate_per_s => 10}}),
    contains(NoLoad, "load => none"),
    Loaded = dyno_suites:write(Config, loaded_perf, maps:remove(load, Options), Callbacks),
    {error, NoOperation} = dyno_test:run(Loaded, #{}),
    contains(NoOperation, "it lacks operation/1"),
    ?assertEqual(2, dyno_error:exit_status(NoOperation)).

contains(Error, Part) ->
    Text = unicode:characters_to_list(dyno_error:format(Error)),
    ?assertMatch([_ | _], string:find(Text, Part), Text).

-define(PURGER, """
-module(purger).

-export([start/1, call/2, again/2]).

start(Objects) ->
    Names = [Name || {Name, _} <- Objects],
    [code:load_binary(Name, "again", Binary) || {Name, Binary} <- Objects],
    spawn(purger, again, [Objects, Objects]),
    [spawn(purger, call, [Names, Names]) || _ <- [1, 2, 3]] =/= [].

call([], Names) -> erlang:yield(), call(Names, Names);
call([Name | Rest], Names) -> Name:f(3000), call(Rest, Names).

again([], Objects) -> again(Objects, Objects);
again([{Name, Binary} | Rest], Objects) ->
    timer:sleep(1),
    code:soft_purge(Name),
    code:load_binary(Name, "again", Binary),
    code:soft_purge(Name),
    again(Rest, Objects).

""").

%% Code is loaded anew and the old one purged while others call it. Where the runtime went on to
%% remember a function after it had returned, OTP 27 crashed within seconds.
code_that_is_purged(_Config) ->
    {Peer, Node} = dyno_peers:start(),
    purger = dyno_peers:load(Node, ?PURGER),
    %% Of many sizes, so that one does not come to lie where another was.
    Objects = [called(N, Size) || Size <- [1, 30, 7, 60], N <- lists:seq(1, 20)],
    true = erpc:call(Node, purger, start, [Objects]),
    {ok, #{~"status" := ~"complete"} = Document} =
        dyno_record:run([Node], #{patterns => ["again_*"], duration_ms => 6000}),
    #{~"warnings" := Warnings} = hd(dyno_recording:runs(Document)),
    ?assert(lists:member(~"reloaded", [Code || #{~"code" := Code} <- Warnings])),
    dyno_peers:stop({Peer, Node}).

called(N, Size) ->
    Name = list_to_atom("again_" ++ integer_to_list(N)),
    Source = lists:concat(
        [
            "-module(",
            Name,
            ").\n\n-export([f/1]).\n\n"
            "f(N) -> g(N) + length(lists:seq(1, N)).\n\ng(0) -> 0;\n"
            | [lists:concat(["g(-", I, ") -> ", I, ";\n"]) || I <- lists:seq(1, N * Size)]
        ] ++ ["g(N) -> 1 + g(N - 1).\n\n"]
    ),
    {ok, Name, Binary} = compile:forms(dyno_peers:forms(lists:flatten(Source))),
    {Name, Binary}.
