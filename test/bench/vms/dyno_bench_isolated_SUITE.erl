%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_isolated_SUITE).
-moduledoc "Codes in VMs of their own: real ones, which are started and ended here.".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

suite() ->
    [{timetrap, {minutes, 5}}].

%% The others are about options, files and reports.
each_release() -> [flags_and_installations].

all() ->
    [
        each_has_fresh_vms,
        the_slower_one_is_slower,
        words_decide,
        other_metrics_decide,
        extras_come_from_the_first_vms,
        flags_and_installations,
        code_paths_come_along,
        samples,
        inputs,
        a_file_whose_codes_differ,
        errors,
        ends_when_interrupted,
        ends_with_its_caller,
        crossed_variants,
        the_groups_are_the_unit,
        options
    ].

slow() -> [words_decide, other_metrics_decide, the_slower_one_is_slower].

init_per_testcase(Case, Config) when Case =:= inputs; Case =:= a_file_whose_codes_differ ->
    dyno_peers:needs_own_funs(Config);
init_per_testcase(_Case, Config) ->
    Config.

end_per_testcase(_Case, _Config) ->
    ok.

run(Codes, Isolated) ->
    dyno_bench:run(Codes, #{isolated => Isolated}).

%% A folder in which each VM leaves a file with its process id as name.
marked(Config, Case) ->
    Folder = filename:join([proplists:get_value(priv_dir, Config), Case]),
    ok = filelib:ensure_path(Folder),
    {
        Folder,
        lists:flatten(io_lib:format("file:write_file(~tp ++ os:getpid(), \"\").", [Folder ++ "/"]))
    }.

pids(Folder) ->
    {ok, Names} = file:list_dir(Folder),
    Names.

each_has_fresh_vms(Config) ->
    {Folder, Mark} = marked(Config, "fresh"),
    Code = #{runner => "lists:seq(1, 10).", init => Mark},
    {ok, Document} = run([Code, Code], #{vms => 2}),
    Pids = pids(Folder),
    ?assertEqual(4, length(Pids)),
    ?assertNot(lists:member(os:getpid(), Pids)),
    gone(Pids),
    [Run] = dyno_recording:runs(Document),
    ?assertMatch(
        [2], [V || #{~"name" := ~"bench.vms", ~"value" := V} <- map_get(~"metrics", Run)]
    ),
    %% Two give no interval.
    {ok, #{~"rows" := [[_, _, _, null, null, ~"undecided"]]}} =
        dyno_recording:table(Run, ~"comparisons").

gone(Pids) ->
    gone(Pids, 200).

gone(Pids, Tries) ->
    case [P || P <- Pids, is_running(P)] of
        [] ->
            ok;
        Left when Tries =:= 0 ->
            ct:fail({still_running, Left});
        _ ->
            receive
            after 50 -> gone(Pids, Tries - 1)
            end
    end.

%% A zombie has ended.
is_running(Pid) ->
    case file:read_file(filename:join(["/proc", Pid, "stat"])) of
        {ok, Text} -> binary:match(Text, ~") Z ") =:= nomatch;
        {error, _} -> false
    end.

%% Six VMs give an interval at 95 %.
the_slower_one_is_slower(_Config) ->
    {ok, Document} = run(["lists:seq(1, 10).", "lists:seq(1, 200)."], #{vms => 6}),
    [Run] = dyno_recording:runs(Document),
    {ok, #{~"rows" := [[~"lists:seq(1, 200).", _, Ratio, Low, High, ~"slower"]]}} =
        dyno_recording:table(Run, ~"comparisons"),
    ?assert(Low > 2),
    ?assert(Low =< Ratio andalso Ratio =< High),
    %% Each value of a series is a VM's.
    [Times, _] = dyno_recording:series(Run, ~"bench.time"),
    ?assertEqual(6, length(map_get(~"values", Times))),
    ?assertMatch({ok, _}, dyno_recording:validate(Document)).

%% Six VMs give an interval.
words_decide(_Config) ->
    Codes = ["lists:seq(1, 1000)", "lists:seq(1, 1001)"],
    {ok, Words} = dyno_bench:run(Codes, #{
        isolated => #{vms => 6}, metric => words, threshold => 0.0005
    }),
    [Run] = dyno_recording:runs(Words),
    ?assertMatch(
        {ok, #{~"rows" := [[~"lists:seq(1, 1001)", _, 1.001, 1.001, 1.001, ~"more"]]}},
        dyno_recording:table(Run, ~"comparisons")
    ),
    [#{~"values" := [2000.0, 2000.0, 2000.0, 2000.0, 2000.0, 2000.0]}, _] =
        dyno_recording:series(Run, ~"bench.value"),
    ?assertMatch({ok, _}, dyno_recording:validate(Words)).

other_metrics_decide(_Config) ->
    {ok, Wall} = dyno_bench:run(["lists:seq(1, 10)", "lists:seq(1, 300)"], #{
        isolated => #{vms => 6}, metric => wall
    }),
    [OfWall] = dyno_recording:runs(Wall),
    ?assertMatch(
        {ok, #{~"rows" := [[_, _, _, _, _, ~"slower"]]}},
        dyno_recording:table(OfWall, ~"comparisons")
    ).

%% What only some metrics need is measured in each VM, all other extras in one.
extras_come_from_the_first_vms(_Config) ->
    Code = "gen_server:call(kernel_sup, which_children)",
    {ok, Document} = dyno_bench:run([Code], #{
        isolated => #{vms => 2}, metric => messages, extras => [side_effects]
    }),
    ?assertMatch({ok, _}, dyno_recording:validate(Document)),
    [Run] = dyno_recording:runs(Document),
    [#{~"values" := [2.0, 2.0]}] = dyno_recording:series(Run, ~"bench.value"),
    {ok, Whole} = dyno_recording:table(Run, ~"side_effects"),
    ?assertMatch(
        [_ | _], [x || #{~"process" := ~"kernel_sup"} <- dyno_recording:rows(Whole)]
    ).

flags_and_installations(Config) ->
    Folder = proplists:get_value(priv_dir, Config),
    File = filename:join(Folder, "schedulers"),
    Code = #{
        runner => "ok.",
        init => lists:flatten(
            io_lib:format(
                "file:write_file(~tp, integer_to_list(erlang:system_info(schedulers)) ++ \" \", "
                "[append]).",
                [File]
            )
        )
    },
    Variants = [
        #{label => ~"one", flags => ["+S", "1:1"]},
        #{label => ~"three", flags => ["+S", "3:3"], erl => code:root_dir()}
    ],
    {ok, Document} = run([Code], #{vms => 1, variants => Variants}),
    {ok, Text} = file:read_file(File),
    ?assertEqual([~"1", ~"3"], lists:sort(binary:split(Text, ~" ", [global, trim]))),
    [Run] = dyno_recording:runs(Document),
    {ok, #{~"rows" := Rows}} = dyno_recording:table(Run, ~"codes"),
    ?assertEqual([~"ok. [one]", ~"ok. [three]"], lists:sort([hd(Row) || Row <- Rows])).

code_paths_come_along(Config) ->
    Folder = filename:join(proplists:get_value(priv_dir, Config), "paths"),
    ok = filelib:ensure_path(Folder),
    ok = dyno_peers:save(Folder, "-module(isolated_code). -export([f/0]). f() -> lists:seq(1, 9)."),
    {ok, _} = dyno_bench:run(
        ["isolated_code:f()."], #{isolated => #{vms => 1}, code_paths => [Folder]}
    ),
    {error, {_, {undefined, _, ~"there is no module isolated_code"}}} =
        run(["isolated_code:f()."], #{vms => 1}).

%% erlperf's modes: each sample in a VM of its own.
samples(Config) ->
    {Folder, Mark} = marked(Config, "samples"),
    Code = #{runner => "lists:seq(1, 10).", init => Mark},
    [
        begin
            {ok, Document} = dyno_bench:run([Code], #{isolated => #{}, mode => Mode}),
            [Run] = dyno_recording:runs(Document),
            [Series] = dyno_recording:series(Run, ~"bench.time"),
            ?assertEqual(2, length(map_get(~"values", Series)))
        end
     || Mode <- [
            {
                continuous, #{samples => 2, sample_ms => 5}
            },
            {timed, #{samples => 2, iterations => 100}}
        ]
    ],
    ?assertEqual(4, length(pids(Folder))),
    {ok, Squeezed} = dyno_bench:run([Code], #{
        isolated => #{}, mode => {squeeze, #{sample_ms => 5, max => 2}}
    }),
    ?assertEqual(5, length(pids(Folder))),
    [Curve] = dyno_recording:runs(Squeezed),
    {ok, _} = dyno_recording:table(Curve, ~"concurrencies").

inputs(_Config) ->
    {ok, Document} = dyno_bench:run(["r(N) -> lists:seq(1, N)."], #{
        isolated => #{vms => 1}, inputs => [{"10", "10."}, {"1000", "1000."}]
    }),
    ?assertMatch(
        [#{~"id" := ~"10", ~"size" := 10}, #{~"size" := 1000}], dyno_recording:runs(Document)
    ).

a_file_whose_codes_differ(Config) ->
    File = filename:join(proplists:get_value(priv_dir, Config), "isolated_bench.erl"),
    Text = fun(Second) ->
        [
            "-module(isolated_bench).\n-export([benchmarks/0]).\n"
            "benchmarks() -> [#{name => a, codes => [{x, fun() -> helped() end}, {y, fun() -> ",
            Second,
            " end}], check => same}].\nhelped() -> 1.\n"
        ]
    end,
    ok = file:write_file(File, Text("2 - 1")),
    {ok, _} = dyno_bench:run_file(File, #{isolated => #{vms => 1}}),
    ok = file:write_file(File, Text("2")),
    {error, Reason} = dyno_bench:run_file(File, #{isolated => #{vms => 1}}),
    ?assertMatch(
        {match, _}, re:run(dyno_error:format(Reason), "x and y do not give the same: 1 and 2")
    ),
    ?assertEqual(1, dyno_error:exit_status(Reason)).

errors(_Config) ->
    lists:foreach(
        fun({Codes, Isolated, Status, Expected}) ->
            {error, Reason} = run(Codes, Isolated),
            Sentence = unicode:characters_to_binary(dyno_error:format(Reason)),
            ?assertMatch({match, _}, re:run(Sentence, Expected), Sentence),
            ?assertEqual(Status, dyno_error:exit_status(Reason), Sentence)
        end,
        [
            {["ok.", "ok(."], #{vms => 1}, 2, "^code 2: line 1, column 4"},
            {["error(boom)."], #{vms => 1}, 1, "the code raised error:boom"},
            {["halt()."], #{vms => 1}, 1, "the VM of a code has ended .* the code calls halt"},
            {
                ["ok."],
                #{vms => 1, variants => [#{flags => ["+Zzz"]}]},
                2,
                "a VM with the flags \\+Zzz does not start: .*-Zzz"
            },
            {["ok."], #{variants => [#{erl => "/nowhere"}]}, 2, "there is no erl at /nowhere"},
            {["ok."], #{vms => 0}, 2, "vms is 0; an integer from 1 to 1000 is accepted"},
            {["ok."], #{variants => [#{}, #{}]}, 2, "a label of its own for each"}
        ]
    ),
    [
        begin
            {error, Of} = dyno_bench:run(["ok"], More#{mode => {squeeze, #{max => 2}}}),
            ?assertMatch({match, _}, re:run(dyno_error:format(Of), "not in 2 revisions")),
            ?assertEqual(2, dyno_error:exit_status(Of))
        end
     || More <- [
            #{isolated => #{variants => [#{}, #{label => ~"b"}]}},
            #{revisions => #{revisions => [{revision, ~"a"}, working_tree]}}
        ]
    ],
    {error, Reason} = dyno_bench:run(["ok."], #{isolated => #{}, node => 'a@b'}),
    ?assertMatch(
        {match, _}, re:run(dyno_error:format(Reason), "no VM of its own in another node")
    ).

ends_when_interrupted(Config) ->
    {Folder, Mark} = marked(Config, "interrupted"),
    Code = #{runner => "timer:sleep(1).", init => Mark},
    {Pid, Ref} = spawn_monitor(fun() -> exit({result, run([Code], #{vms => 1000})}) end),
    [Marked | _] = first(Folder),
    dyno_bench:interrupt(Pid),
    receive
        {'DOWN', Ref, process, Pid, {result, Result}} ->
            ?assertEqual({error, {dyno_error, interrupted}}, Result)
    end,
    gone([Marked | pids(Folder)]).

ends_with_its_caller(Config) ->
    {Folder, Mark} = marked(Config, "killed"),
    Code = #{runner => "receive never -> ok end.", init => Mark},
    Caller = spawn(fun() -> run([Code, Code], #{vms => 1000}) end),
    [_ | _] = first(Folder),
    exit(Caller, kill),
    gone(pids(Folder)).

first(Folder) ->
    case pids(Folder) of
        [] ->
            receive
            after 20 -> first(Folder)
            end;
        Pids ->
            Pids
    end.

crossed_variants(_Config) ->
    Cross = dyno_bench_isolated:cross(
        [#{erl => "a", label => ~"a"}, #{erl => "b", label => ~"b"}],
        [#{flags => ["+S", "1"], label => ~"one"}, #{flags => [], label => ~"none"}]
    ),
    ?assertEqual([~"a, one", ~"a, none", ~"b, one", ~"b, none"], [L || #{label := L} <- Cross]),
    ?assertEqual(ok, dyno_bench_isolated:check(#{variants => Cross})).

%% VMs that differ by 5 %, on a seeded clock: identical codes are called different in at most 5 % of
%% the trials, over all three looks together; a code that is 15 % slower is found in at least 90 %.
the_groups_are_the_unit(_Config) ->
    Trials = 1000,
    False = [V || V <- simulated(Trials, 1.0, 1), V =/= undecided],
    ?assert(length(False) =< 0.05 * Trials, length(False)),
    Found = [V || V <- simulated(Trials, 1.15, 2), V =:= slower],
    ?assert(length(Found) >= 0.9 * Trials, length(Found)).

simulated(Trials, Factor, Seed) ->
    _ = rand:seed(exsss, Seed),
    [trial(Factor, [8, 16, 32], []) || _ <- lists:seq(1, Trials)].

trial(Factor, [Look | Later], Groups) ->
    Own = fun(Ns) -> Ns * math:exp(0.05 * rand:normal()) end,
    New = [{Own(100.0), Own(100.0 * Factor)} || _ <- lists:seq(length(Groups) + 1, Look)],
    All = New ++ Groups,
    {Ones, Twos} = lists:unzip(All),
    [#{verdict := Verdict}] = dyno_bench_comparison:pairs([Ones, Twos], #{
        level => 0.95, threshold => 1.0e-9, looks => 3
    }),
    case {Verdict, Later} of
        {undecided, [_ | _]} -> trial(Factor, Later, All);
        _ -> Verdict
    end.

%% What the command line means.
options(_Config) ->
    Parse = fun(Texts) ->
        case dyno_command:values("bench", Texts) of
            {ok, Values} -> dyno_cli_bench_where:place(Values);
            {error, _} = Error -> Error
        end
    end,
    ?assertEqual({ok, #{}}, Parse(#{})),
    ?assertEqual({ok, #{isolated => #{variants => [#{}]}}}, Parse(#{isolated => true})),
    ?assertEqual({ok, #{isolated => #{vms => 12, variants => [#{}]}}}, Parse(#{vms => ~"12"})),
    {ok, #{isolated := #{variants := [One, Two]}}} =
        Parse(#{erl_flags => [~"", ~"+S 1 -eval 'a b'"]}),
    ?assertEqual(#{flags => [], label => ~"no flags"}, One),
    ?assertMatch(#{flags := ["+S", "1", "-eval", "a b"]}, Two),
    {ok, #{isolated := #{variants := [#{erl := "/a"}]}}} = Parse(#{erl => [~"/a"]}),
    {ok, #{revisions := #{revisions := [{revision, ~"a"}, working_tree], build := ~"make"}}} =
        Parse(#{rev => [~"a"], build => ~"make"}),
    %% A name without a host is of this machine.
    {ok, #{node := _}} = Parse(#{node => [~"a"]}),
    {ok, #{node := 'a@b', cookie := c}} = Parse(#{node => [~"a@b"], cookie => ~"c"}),
    %% Whoever has DYNO_COOKIE set need not have a node to measure in.
    ?assertEqual({ok, #{}}, Parse(#{cookie => ~"c"})),
    [
        begin
            {error, Reason} = Parse(Values),
            Text = unicode:characters_to_binary(dyno_error:format(Reason)),
            ?assertMatch(nomatch, binary:match(Text, ~"\n")),
            ?assert(byte_size(Text) > 20)
        end
     || Values <- [
            #{vms => ~"0"},
            #{vms => ~"x"},
            #{vms => ~"1001"},
            #{erl_flags => [~"a 'b"]},
            #{erl_flags => [~"", ~""]},
            #{erl => [~"/a", ~"/a"]},
            #{build => ~"make"},
            #{rev => [~"a...b"]},
            #{rev => [~""]},
            #{rev => [~"-x"]},
            #{node => [~"@b"]},
            #{node => [~"a@b"], isolated => true}
        ]
    ].
