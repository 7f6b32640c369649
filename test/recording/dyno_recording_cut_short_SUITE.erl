%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_recording_cut_short_SUITE).
-moduledoc "Runs that are cut short at the command line, and the rule by which they are.".

-include_lib("common_test/include/ct.hrl").
-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

suite() ->
    [{timetrap, {minutes, 2}}].

all() ->
    [
        test_killed,
        dyno_suspended,
        endings,
        what_only_grows
    ].

%% At the command line, where the exit status is seen. The suite marks that its load works.
test_killed(Config) ->
    {Status, Output} = tested(Config, "erlang:halt(1, [{flush, false}])", fun(_, _) -> ok end),
    ?assertEqual(3, Status, Output),
    ?assertMatch({_, _}, binary:match(Output, ~" was lost: ")),
    ?assertMatch({_, _}, binary:match(Output, ~"UNKNOWN")).

dyno_suspended(Config) ->
    {Status, Output} = tested(Config, "ok", fun(OsPid, Marked) ->
        Marked(),
        dyno_escript:kill("STOP", OsPid),
        %% The length of the pause is what is tested.
        timer:sleep(2600),
        dyno_escript:kill("CONT", OsPid)
    end),
    ?assertEqual(3, Status, Output),
    ?assertMatch({_, _}, binary:match(Output, ~"dyno stood still for ")),
    ?assertMatch({_, _}, binary:match(Output, ~"UNKNOWN")).

%% Runs a suite whose hundredth operation marks that it works, and does this in the target.
tested(Config, InTarget, Meanwhile) ->
    Folder = ?config(priv_dir, Config),
    Name = atom_to_list(?config(case_name, Config)),
    Mark = filename:join(Folder, Name ++ ".mark"),
    Suite = filename:join(Folder, Name ++ "_perf.erl"),
    ok = file:write_file(Suite, [
        "-module(",
        Name,
        "_perf).\n"
        "-export([suite/0, init_run/2, init_worker/2, operation/1]).\n"
        "suite() -> #{sizes => [1], duration_ms => 3000, warmup_ms => 0, control => false,\n"
        "    thresholds => [\"latency.p99 < 10 min\"]}.\n"
        "init_run(_, _) -> {ok, Node} = dyno_peer:start(#{}), {ok, [Node], Node}.\n"
        "init_worker(_, Node) -> {ok, {Node, 0}}.\n"
        "operation({Node, 100}) ->\n"
        "    ok = file:write_file(\"",
        Mark,
        "\", \"x\"),\n"
        "    erpc:cast(Node, fun() -> ",
        InTarget,
        " end),\n"
        "    {ok, {Node, 101}};\n"
        "operation({Node, N}) -> timer:sleep(5), {ok, {Node, N + 1}}.\n"
    ]),
    Erl = filename:join([code:root_dir(), "bin", "erl"]),
    Port = open_port({spawn_executable, Erl}, [
        {args, [
            "-noshell",
            "-pa",
            filename:dirname(code:which(dyno)),
            "-eval",
            "dyno_cli:main(init:get_plain_arguments()).",
            "-extra",
            "test",
            Suite,
            "-q",
            "--format",
            "console"
        ]},
        {cd, Folder},
        exit_status,
        stderr_to_stdout,
        binary
    ]),
    {os_pid, OsPid} = erlang:port_info(Port, os_pid),
    Meanwhile(OsPid, fun() -> marked(Mark) end),
    dyno_command:output(Port).

marked(Mark) ->
    case filelib:is_file(Mark) of
        true ->
            ok;
        false ->
            timer:sleep(20),
            marked(Mark)
    end.

init_per_testcase(Case, Config) -> [{case_name, Case} | Config].

end_per_testcase(_Case, _Config) -> ok.

%% The rule itself

endings(_Config) ->
    Second = 1_000_000_000,
    Ended = fun(Status, Asked, Nodes) ->
        maps:get(status, dyno_recording_cut_short:ended(Status, Asked, Nodes))
    end,
    complete = Ended(complete, 12_000, [{a, present, 12 * Second}]),
    complete = Ended(complete, 12_000, [{a, present, 10 * Second}]),
    failed = Ended(complete, 12_000, [{a, lost, 4 * Second}]),
    partial = Ended(complete, 12_000, [{a, lost, 4 * Second}, {b, present, 12 * Second}]),
    partial = Ended(complete, 12_000, [{a, unobserved, 4 * Second}, {b, present, 12 * Second}]),
    partial = Ended(complete, 40_000, [{a, present, 3 * Second}]),
    failed = Ended(complete, 40_000, [{a, present, 0}]),
    failed = Ended(failed, 40_000, []),
    complete = Ended(complete, undefined, [{a, present, Second}]),
    interrupted = Ended(interrupted, 12_000, [{a, lost, 4 * Second}]),
    #{error := #{text := Text}} =
        dyno_recording_cut_short:ended(complete, 12_000, [{a, lost, 4 * Second}]),
    ~"node a was lost: 4 s of 12 s were observed" = Text,
    true = dyno_recording_cut_short:is_whole(~"interrupted", undefined),
    false = dyno_recording_cut_short:is_whole(~"interrupted", 12_000).

%% What is beyond a limit already, and cannot come back, is decided in a part of a run, too.
what_only_grows(_Config) ->
    New = dyno_recording:new(servers, ~"a", #{duration_ms => 12_000}, #{}),
    Metric = fun(Name, Unit) ->
        #{name => Name, title => Name, unit => Unit, value => 10, count => 1, group => ~"x"}
    end,
    Run = #{
        status => partial,
        duration_ns => 4_000_000_000,
        metrics => [
            Metric(~"errors", ~"count"), Metric(~"rate", ~"1/s"), Metric(~"time.max", ~"ms")
        ]
    },
    Document = dyno_recording:put(dyno_recording:add_run(New, Run), status, partial),
    Results = [
        {Text, Result}
     || Text <- [
            "errors < 5",
            "errors < 20",
            "errors > 5",
            "errors > 20",
            "errors == 10",
            "rate < 5/s",
            "rate < 20/s",
            "rate > 5/s",
            "time.max < 5 ms",
            "time.max < 20 ms"
        ],
        {ok, Threshold} <- [dyno_threshold:parse(Text)],
        #{~"result" := Result} <- dyno_threshold:evaluate(Threshold, Document)
    ],
    ?assertEqual(
        [
            {"errors < 5", ~"fail"},
            {"errors < 20", ~"unknown"},
            {"errors > 5", ~"pass"},
            {"errors > 20", ~"unknown"},
            {"errors == 10", ~"unknown"},
            {"rate < 5/s", ~"unknown"},
            {"rate < 20/s", ~"unknown"},
            {"rate > 5/s", ~"unknown"},
            {"time.max < 5 ms", ~"fail"},
            {"time.max < 20 ms", ~"unknown"}
        ],
        Results
    ).
