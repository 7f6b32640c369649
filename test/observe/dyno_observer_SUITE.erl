%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_observer_SUITE).
-moduledoc """
All capabilities that observe running nodes end alike: one of two nodes is killed in the middle, the
only one is, or the observation is interrupted. What was measured is kept.
""".

-include_lib("common_test/include/ct.hrl").
-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

suite() ->
    [{timetrap, {minutes, 3}}].

slow() -> [{group, one_of_two_killed}, {group, interrupted}].

all() ->
    [
        {group, killed},
        {group, one_of_two_killed},
        {group, interrupted},
        a_stopped_node_is_lost,
        nobody_waits,
        a_crash_is_told
    ].

groups() ->
    Commands = [servers, profile, record, verify, doctor, trace],
    [{Group, [parallel], Commands} || Group <- [killed, one_of_two_killed, interrupted]].

init_per_group(Group, Config) ->
    ok = dyno_target_node:ensure_distribution(#{}),
    [{how, Group} | Config].

end_per_group(_, _Config) ->
    ok.

servers(Config) ->
    cut_short(Config, fun(Nodes, Measured) ->
        dyno_servers_run:run(Nodes, #{
            for_ms => 5000,
            interval_ms => 200,
            thresholds => thresholds(["servers.processes < 1000000", "servers.processes < 0"]),
            show => fun(_) -> Measured() end
        })
    end).

%% A sample comes each second.
profile(Config) ->
    cut_short(Config, fun(Nodes, Measured) ->
        dyno_profile:run(Nodes, #{
            for_ms => 5000,
            thresholds => thresholds(["vm.processes < 1000000", "vm.processes < 1"]),
            show => fun(PassedMs) ->
                PassedMs >= 2000 andalso Measured(),
                ok
            end
        })
    end).

record(Config) ->
    cut_short(Config, fun(Nodes, Measured) ->
        dyno_record:run(Nodes, #{
            duration_ms => 5000,
            interval_ms => 200,
            patterns => ["lists:droplast/1"],
            thresholds => ["vm.processes < 1000000", "vm.processes < 1"],
            watch => fun(_, _) -> Measured() end
        })
    end).

verify(Config) ->
    File = filename:join(?config(priv_dir, Config), "never.dyno"),
    ok = file:write_file(
        File,
        ~"""
    property "nothing is sent"
    of registered logger
    never receive stop then send _.
    """
    ),
    cut_short(Config, fun(Nodes, Measured) ->
        dyno_verify:run([unicode:characters_to_binary(File)], Nodes, #{
            for_ms => 5000,
            show => fun(What) ->
                element(1, What) =:= counted andalso Measured(),
                ok
            end
        })
    end).

doctor(Config) ->
    cut_short(Config, fun(Nodes, Measured) ->
        dyno_doctor:run(Nodes, #{
            for_ms => 5000,
            show => fun(PassedMs) ->
                PassedMs >= 2000 andalso Measured(),
                ok
            end
        })
    end).

%% Has no recording: items, and why each node ended.
trace(Config) ->
    How = ?config(how, Config),
    Peers = [{_, First} | Others] = peers(How),
    Self = self(),
    {ok, Tokens, _} = erl_scan:string("(fun F() -> lists:seq(1, 3), timer:sleep(20), F() end)()."),
    {ok, Calls} = erl_parse:parse_exprs(Tokens),
    [spawn(Node, erl_eval, exprs, [Calls, []]) || {_, Node} <- Peers],
    {ok, Trace} = dyno_trace:start([Node || {_, Node} <- Peers], ["lists:seq/2"], #{
        for_ms => 5000, count => 100_000, show => fun(Item) -> Self ! {item, Item} end
    }),
    receive
        {item, #{event := call}} -> ok
    end,
    {ok, Ended} =
        case How of
            interrupted ->
                dyno_trace:stop(Trace);
            _ ->
                ok = kill(First),
                dyno_trace:await(Trace)
        end,
    Ends = #{interrupted => stopped, killed => failed, one_of_two_killed => failed},
    Why =
        #{
            binary_to_atom(Node) => Limit
         || #{node := Node, reason := #{limit := Limit}, observed_ms := Ms, asked_ms := 5000} <-
                Ended,
            Ms > 0
        },
    ?assertEqual(
        maps:from_list(
            [{Node, for_ms} || {_, Node} <- Others] ++
                [{First, map_get(How, Ends)}]
        ),
        Why
    ),
    lists:foreach(fun dyno_peers:stop/1, Peers).

thresholds(Texts) ->
    [Threshold || Text <- Texts, {ok, Threshold} <- [dyno_threshold:parse(Text)]].

%% It happens as soon as something was measured.
cut_short(Config, Measure) ->
    How = ?config(how, Config),
    [{_, First} | _] = Peers = peers(How),
    Self = self(),
    {Pid, Ref} = spawn_monitor(fun() ->
        Measured = fun() ->
            Self ! measured,
            ok
        end,
        exit({recorded, Measure([Node || {_, Node} <- Peers], Measured)})
    end),
    receive
        measured when How =:= interrupted -> Pid ! dyno_interrupt;
        measured -> kill(First);
        {'DOWN', Ref, process, Pid, Early} -> error(Early)
    end,
    {recorded, {ok, Document}} =
        receive
            {'DOWN', Ref, process, Pid, Result} -> Result
        end,
    alike(How, First, Document),
    %% Nothing of dyno's is left in a node that goes on.
    [ok = gone(Node) || {_, Node} <- Peers, How =:= interrupted orelse Node =/= First],
    lists:foreach(fun dyno_peers:stop/1, Peers).

peers(one_of_two_killed) -> [dyno_peers:start(), dyno_peers:start()];
peers(_How) -> [dyno_peers:start()].

is_ours(Name) -> lists:prefix("dyno_agent", atom_to_list(Name)).

alike(interrupted, _Node, #{~"runs" := [Run]} = Document) ->
    ?assertMatch(#{~"status" := ~"interrupted", ~"error" := null}, Document),
    ?assertMatch(#{~"status" := ~"interrupted", ~"duration_ns" := Ns} when Ns > 0, Run),
    kept(Run);
alike(How, Killed, #{~"runs" := [Run], ~"error" := #{~"text" := Text}} = Document) ->
    #{~"verdicts" := All} = Document,
    Status =
        case How of
            killed -> ~"failed";
            one_of_two_killed -> ~"partial"
        end,
    ?assertMatch(#{~"status" := Status}, Document),
    ?assertMatch({_, _}, binary:match(Text, atom_to_binary(Killed))),
    ?assertMatch(match, re:run(Text, "[0-9] m?s", [{capture, none}]), Text),
    %% It might hold, or it is broken whatever the rest had shown.
    ?assertEqual([], [pass || #{~"result" := ~"pass"} <- All], All),
    Verdicts = [Result || #{~"result" := Result, ~"kind" := Kind} <- All, Kind =/= ~"finding"],
    [?assertMatch([_ | _], [unknown || ~"unknown" <- Verdicts]) || Verdicts =/= []],
    ?assertEqual(max(0, length(Verdicts) - 1), length([fail || ~"fail" <- Verdicts]), All),
    Console = iolist_to_binary(element(2, dyno_report:render(console, Document, #{}))),
    ?assertMatch({_, _}, binary:match(Console, Text), Console),
    kept(Run).

kept(#{~"series" := Series, ~"tables" := Tables, ~"events" := #{~"items" := Items}}) ->
    ?assertNotEqual({[], [], []}, {Series, Tables, Items}).

kill(Node) ->
    OsPid = erpc:call(Node, os, getpid, []),
    [] = os:cmd("kill -KILL " ++ OsPid),
    ok.

%% Its connection stays: it is noticed when the node is read.
a_stopped_node_is_lost(_Config) ->
    [{_, First}, _] = Peers = [dyno_peers:start(), dyno_peers:start()],
    OsPid = erpc:call(First, os, getpid, []),
    {ok, #{~"status" := Status, ~"error" := #{~"text" := Text}}} =
        dyno_record:run([Node || {_, Node} <- Peers], #{
            duration_ms => 1500,
            interval_ms => 200,
            patterns => ["lists:droplast/1"],
            watch => fun(_, _) ->
                [] = os:cmd("kill -STOP " ++ OsPid),
                ok
            end
        }),
    [] = os:cmd("kill -CONT " ++ OsPid),
    ?assert(lists:member(Status, [~"partial", ~"failed"])),
    ?assertMatch({_, _}, binary:match(Text, atom_to_binary(First))),
    lists:foreach(fun dyno_peers:stop/1, Peers).

%% Who asked is killed: the agent leaves.
nobody_waits(_Config) ->
    {_, Node} = Peer = dyno_peers:start(),
    Self = self(),
    Pid = spawn(fun() ->
        dyno_profile:run([Node], #{
            for_ms => 60_000,
            show => fun(_) ->
                Self ! begun,
                ok
            end
        })
    end),
    receive
        begun -> exit(Pid, kill)
    end,
    gone(Node),
    dyno_peers:stop(Peer).

gone(Node) ->
    case [N || N <- erpc:call(Node, erlang, registered, []), is_ours(N)] of
        [] ->
            ok;
        [_ | _] ->
            timer:sleep(50),
            gone(Node)
    end.

a_crash_is_told(_Config) ->
    {_, Node} = Peer = dyno_peers:start(),
    {Pid, Ref} = spawn_monitor(fun() ->
        dyno_profile:run([Node], #{show => fun(_) -> error(a_mistake) end})
    end),
    receive
        {'DOWN', Ref, process, Pid, {a_mistake, [_ | _]}} -> ok
    end,
    gone(Node),
    dyno_peers:stop(Peer).
