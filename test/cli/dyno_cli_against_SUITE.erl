%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_cli_against_SUITE).
-moduledoc "A suite with the code of two revisions in turn, compared by pairs of runs.".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

suite() -> [{timetrap, {minutes, 2}}].

slow() -> [the_same].

all() -> [pairs_leave_out_the_drift, contradictions, {group, real}].

groups() -> [{real, [parallel], [slower, the_same, what_does_not_build]}].

init_per_suite(Config) ->
    case os:find_executable("git") of
        false -> {skip, "there is no git"};
        _ -> Config
    end.

end_per_suite(_Config) -> ok.

%% The machine gets slower from pair to pair, by far more than the codes differ.
pairs_leave_out_the_drift(_Config) ->
    Drift = [1.0, 1.5, 2.2],
    Noise = [1.01, 0.99, 1.0],
    Runs = fun(Factor, Noises) ->
        [{Factor * D * N, none} || {D, N} <- lists:zip(Drift, Noises)]
    end,
    {Olds, News} = {Runs(1.0, [1.0, 1.0, 1.0]), Runs(1.3, Noise)},
    {ok, #{ratio := Ratio, low := Low, high := High}} = dyno_stats_runs:paired(Olds, News, 0.9),
    ?assert(abs(Ratio - 1.3) < 0.01, Ratio),
    ?assert(Low > 1.25 andalso High < 1.35, {Low, High}),
    {ok, #{low := Apart}} = dyno_stats_runs:ratio(Olds, News, 0.9),
    ?assert(Apart < 1),
    %% Pairs that agree by chance have the noise of their blocks.
    Noisy = [{Value, 0.01} || {Value, none} <- Olds],
    {ok, #{low := L, high := H}} = dyno_stats_runs:paired(Noisy, Noisy, 0.9),
    ?assert(L < 0.88 andalso H > 1.14, {L, H}),
    ?assertEqual({error, too_few}, dyno_stats_runs:paired([{1, none}], [{1, none}], 0.9)),
    ?assertEqual(
        {error, not_positive}, dyno_stats_runs:paired(Olds, [{0, none} | tl(News)], 0.9)
    ).

contradictions(_Config) ->
    [
        begin
            {Status, Output} = dyno_command:run(["test", "x.erl" | Arguments]),
            ?assertEqual(2, Status, Output),
            ?assertMatch({_, _}, binary:match(Output, Said), Output)
        end
     || {Arguments, Said} <- [
            {["--build", "make"], ~"there is no --against"},
            {["--against", "a", "--baseline", "b.json"], ~"--against and --baseline contradict"},
            {["--against", "a", "--threshold", "errors.rate < 1%"], ~"--against and --threshold"}
        ]
    ].

%% The code of the commit, which a node of its own and dyno's own node run, is four times as fast.
slower(Config) ->
    {Status, Output} = tested(Config, "sleep(4)", ["--against", "HEAD", "--repeat", "2"]),
    ?assertEqual(1, Status, Output),
    has(Output, ~"FAIL"),
    has(Output, ~"slower > 10%"),
    %% Each run had one code everywhere.
    lacks(Output, ~"mixed").

the_same(Config) ->
    {Status, Output} = tested(Config, "sleep(1), ok", [
        "--against", "HEAD", "--repeat", "3", "--fail-if", "slower > 300%"
    ]),
    ?assertEqual(0, Status, Output),
    has(Output, ~"PASS"),
    lacks(Output, ~"mixed").

what_does_not_build(Config) ->
    {Status, Output} = tested(Config, "missing(", ["--against", "HEAD", "--repeat", "2"]),
    ?assertEqual(1, Status, Output),
    has(Output, ~"working tree does not build").

%% In a repository whose last commit sleeps for 1 ms, and whose files have this code.
tested(Config, Code, Arguments) ->
    Name = "against_" ++ integer_to_list(erlang:unique_integer([positive])),
    Folder = filename:join(proplists:get_value(priv_dir, Config), Name),
    Write = fun(File, Text) -> ok = file:write_file(filename:join(Folder, File), Text) end,
    Source = fun(Body) ->
        Write("src/against_shop.erl", [
            "-module(against_shop).\n-export([work/0, version/0]).\n"
            "version() -> erlang:get_module_info(?MODULE, md5).\n"
            "sleep(Ms) -> receive after Ms -> ok end.\n"
            "work() -> ",
            Body,
            ".\n"
        ])
    end,
    ok = filelib:ensure_path(filename:join(Folder, "src")),
    Write("load.erl", suite_of(Name)),
    Source("sleep(1)"),
    [] = os:cmd(
        "cd " ++ Folder ++
            " && git init -q . && git add -A && "
            "git -c user.email=a@b -c user.name=a commit -qm one"
    ),
    Source(Code),
    {Erl, All} = dyno_command:program(["test", "load.erl", "-o", "made.json" | Arguments]),
    Port = open_port({spawn_executable, Erl}, [
        {args, All}, {cd, Folder}, exit_status, stderr_to_stdout, binary
    ]),
    Result = {_, Output} = dyno_command:output(Port),
    ct:log("~ts", [Output]),
    Result.

suite_of(Name) ->
    [
        "-module(load).\n-behaviour(dyno_suite).\n"
        "-export([suite/0, init_run/2, operation/1, end_run/1]).\n"
        "suite() -> #{sizes => [1], duration_ms => 300, warmup_ms => 50, level => off}.\n"
        "init_run(_, _) -> {ok, Node} = dyno_peer:start(#{name => \"",
        Name,
        "\"}),"
        " {ok, [Node], Node}.\n"
        "operation(Node) -> Here = against_shop:version(),\n"
        "    case erpc:call(Node, against_shop, version, []) of\n"
        "        Here -> erpc:call(Node, against_shop, work, []), {ok, Node};\n"
        "        _ -> {error, mixed, Node}\n"
        "    end.\n"
        "end_run(undefined) -> ok;\nend_run(Node) -> dyno_peer:stop(Node).\n"
    ].

has(Output, Part) -> ?assertMatch({_, _}, binary:match(Output, Part), Output).

lacks(Output, Part) -> ?assertEqual(nomatch, binary:match(Output, Part), Output).
