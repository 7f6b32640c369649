%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_health_dump_SUITE).
-moduledoc "Crash dumps of real nodes: what `dyno doctor --dump` says, also of a dump that was cut off.".

-include_lib("common_test/include/ct.hrl").
-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

suite() -> [{timetrap, {minutes, 2}}].

each_release() -> [says_why_it_ended].

slow() -> [memory_is_bounded].

all() -> [says_why_it_ended, a_dump_that_was_cut_off, no_dump, memory_is_bounded].

%% A node with a long queue ends; its last words and the queue are named.
says_why_it_ended(Config) ->
    Dump = dump(Config, "dyno_test: the disk is on fire"),
    {ok, #{~"runs" := [Run], ~"verdicts" := [Verdict]}} = dyno_doctor:of_dump(Dump),
    Findings = [F || {_, F} <- dyno_finding:read(Run)],
    ?assertMatch(#{~"result" := ~"fail"}, Verdict),
    [#{check := ended, severity := critical, text := Why} | Others] = Findings,
    ?assertMatch({_, _}, binary:match(Why, ~"the disk is on fire")),
    [#{text := Queue}] = [F || #{check := queue} = F <- Others],
    ?assertMatch({_, _}, binary:match(Queue, ~"5000 messages waited for orders")),
    ?assertMatch({_, _}, binary:match(Queue, ~"sick:keep/1")),
    %% Had all been a thousand times as large.
    {ok, #{largest := [Largest | _], tables := Tables} = Reading} =
        dyno_health_dump_file:read(Dump),
    Large = dyno_health_dump:judged(Reading#{
        largest := [Largest#{bytes := 1000 * map_get(bytes, Largest)}],
        tables := maps:map(fun(_, {N, Rows, Bytes}) -> {N, Rows, 1000 * Bytes} end, Tables)
    }),
    [#{text := Table}] = [F || #{check := table_grows, subject := ~"sessions"} = F <- Large],
    ?assertMatch({_, _}, binary:match(Table, ~"sessions had 14 k rows")),
    [#{subject := ~"index"}] = [F || #{check := big_heap} = F <- Large].

a_dump_that_was_cut_off(Config) ->
    Dump = dump(Config, "ended"),
    {ok, All} = file:read_file(Dump),
    %% Within the sections of processes.
    {At, _} = binary:match(All, ~"=proc:"),
    Cut = filename:join(?config(priv_dir, Config), "cut.dump"),
    ok = file:write_file(Cut, binary:part(All, 0, At + 3000)),
    {ok, Findings} = dyno_health_dump:findings(Cut),
    ?assertMatch([_], [F || #{check := cut_off, severity := doubt} = F <- Findings]).

no_dump(Config) ->
    File = filename:join(?config(priv_dir, Config), "no.dump"),
    ok = file:write_file(File, ~"hello\n"),
    {error, Error} = dyno_doctor:of_dump(File),
    ?assertMatch([_, _], string:split(dyno_error:format(Error), "no crash dump")),
    ?assertEqual(caller, dyno_error:fault(Error)),
    ?assertMatch(
        {error, {dyno_health_dump, {unreadable, _, enoent}}}, dyno_doctor:of_dump("/none")
    ).

%% One line of 64 MB, as of a large binary, and many processes.
memory_is_bounded(Config) ->
    File = filename:join(?config(priv_dir, Config), "large.dump"),
    Processes = [
        io_lib:format(
            "=proc:<0.~b.0>~nState: Waiting~nSpawned as: shop:init/1~n"
            "Message queue length: ~b~nLink list: [~s]~nMemory: ~b~n",
            [N, N rem 7, lists:duplicate(100, "<0.1.0>, "), 1000 + N]
        )
     || N <- lists:seq(1, 20_000)
    ],
    ok = file:write_file(File, [
        "=erl_crash_dump:0.5\nnow\nSlogan: x\nSystem version: [64-bit]\n",
        Processes,
        "=binary:7F0\n",
        binary:copy(~"4000000:QUJD", 6_000_000),
        "\n=end\n"
    ]),
    {{ok, Reading}, Bytes} = most_memory(fun() -> dyno_health_dump_file:read(File) end),
    ?assertMatch(#{is_whole := true, processes := 20_000}, Reading),
    #{groups := #{~"shop:init/1" := {20_000, _, Sum}}, largest := [#{pid := Largest} | _]} =
        Reading,
    ?assertEqual({~"<0.20000.0>", 20_000 * 1000 + 20_000 * 20_001 div 2}, {Largest, Sum}),
    ?assert(Bytes < 30_000_000, Bytes).

%% The heap of a process that may have no more than 30 MB, with its binaries.
most_memory(Fun) ->
    Limit = #{
        size => 30_000_000 div erlang:system_info(wordsize),
        kill => true,
        error_logger => false,
        include_shared_binaries => true
    },
    {_, Ref} = spawn_opt(
        fun() ->
            Result = Fun(),
            exit({Result, element(2, process_info(self(), memory))})
        end,
        [monitor, {max_heap_size, Limit}]
    ),
    receive
        {'DOWN', Ref, process, _, Result} -> Result
    end.

dump(Config, Slogan) ->
    File = filename:join(?config(priv_dir, Config), "erl_crash.dump"),
    _ = file:delete(File),
    {Peer, Node} = dyno_peers:start(["-env", "ERL_CRASH_DUMP", File]),
    try
        sick = dyno_peers:load(
            Node,
            "-module(sick). -export([start/1, keep/1, table/0]). "
            "start(To) -> spawn(sick, table, []), register(index, spawn(sick, keep, [lists:seq(1, "
            "200000)])), "
            "  P = spawn(sick, keep, [[]]), register(orders, P), "
            "  _ = [P ! {order, I} || I <- lists:seq(1, 5000)], timer:sleep(To). "
            "table() -> ets:new(sessions, [named_table, public]), _ = [ets:insert(sessions, {I, "
            "I}) || I <- lists:seq(1, 14000)], keep([]). "
            "keep(L) -> receive stop -> L end. "
        ),
        ok = erpc:call(Node, sick, start, [1500]),
        %% The connection is closed before the dump is written.
        Ref = monitor(process, Peer),
        ok = erpc:cast(Node, erlang, halt, [Slogan]),
        receive
            {'DOWN', Ref, process, Peer, _} -> ok
        end,
        File
    after
        dyno_peers:stop({Peer, Node})
    end.
