%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(bench_SUITE).
-moduledoc """
Runs the programs in bench/ as their users do, with --quick: they measure, and say what they
measured in the form that others read. What they measured is not judged here. Not on OTP 27.
""".

-behaviour(ct_suite).

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

suite() ->
    [{timetrap, {minutes, 5}}].

slow() -> [wrong_arguments | programs()].

%% The programs measure for minutes together.
only_in_check() -> programs().

programs() ->
    all() -- [every_program_is_tested, wrong_arguments, dyno_is_not_compiled].

all() ->
    [
        discovery_call_cost,
        discovery_storm,
        discovery_memory,
        cowboy_slowdown,
        cowboy_slowdown_of_profilers,
        budget_shares,
        agent_cost,
        load_overhead,
        verify,
        load_rate,
        false_verdicts,
        missed_slowdowns,
        short_function,
        empty_benchmark,
        calibrated_time,
        known_shares,
        cpu_shares,
        profile_truth,
        profile_slowdown,
        beside_erlperf,
        heap_lottery,
        identical_codes,
        modes_agree,
        gates,
        birth_storm,
        servers,
        trace,
        search_spread,
        top,
        visit,
        every_program_is_tested,
        wrong_arguments,
        dyno_is_not_compiled
    ].

%% They measure dyno on the newest release; with an older one beside it they would be run twice.
init_per_suite(Config) ->
    case list_to_integer(erlang:system_info(otp_release)) of
        27 -> {skip, "tried with OTP 29"};
        _ -> Config
    end.

end_per_suite(Config) ->
    Config.

discovery_call_cost(_Config) ->
    measures(["discovery_call_cost"], "discovery_call_cost_64", "ns"),
    measures(["discovery_call_cost", "1000"], "discovery_call_cost_1000", "ns").

discovery_storm(_Config) ->
    measures(["discovery_storm"], "discovery_storm_4000", "s").

discovery_memory(_Config) ->
    measures(["discovery_memory"], "discovery_memory_2000", "words").

cowboy_slowdown(_Config) ->
    Output = measures(["cowboy_slowdown"], server() ++ "_slowdown", "times"),
    %% Two pairs are too few for an interval, and so for any verdict on the goal.
    ?assertEqual(nomatch, re:run(Output, "reached")),
    measures(["cowboy_slowdown", "16x1000"], server() ++ "_slowdown_16x1000", "times").

cowboy_slowdown_of_profilers(_Config) ->
    measures(["cowboy_slowdown", "eprof:1"], server() ++ "_slowdown_eprof_1", "times"),
    measures(["cowboy_slowdown", "fprof:1"], server() ++ "_slowdown_fprof_1", "times").

budget_shares(_Config) ->
    measures(["budget_shares"], "budget_shares", "points").

%% As in the program, Cowboy where this OTP has it.
server() ->
    case code:which(cowboy) of
        non_existing -> "httpd";
        _ -> "cowboy"
    end.

agent_cost(_Config) ->
    Output = measures(["agent_cost"], "agent_cost", "ms"),
    %% What it says besides.
    ?assertMatch({match, _}, re:run(Output, ~"^code +[0-9]+ kB sent", [multiline])),
    ?assertMatch({match, _}, re:run(Output, ~"^memory +processes [0-9]+ kB", [multiline])),
    ?assertMatch({match, _}, re:run(Output, ~"^a sample +[0-9.]+ us", [multiline])).

load_overhead(_Config) ->
    measures(["load_overhead"], "load_overhead", "ns").

verify(_Config) ->
    measures(["verify"], "response_time_under_partition", "times"),
    Charts = measures(["verify", "steady50,100"], "response_time_under_partition", "times"),
    ?assertMatch({match, _}, re:run(Charts, "written .*verify-steady50,100.html")).

load_rate(_Config) ->
    measures(["load_rate"], "load_rate", "1/s").

false_verdicts(_Config) ->
    measures(["false_verdicts", "1"], "false_verdicts_1", "%"),
    measures(["false_verdicts", "isolated:6"], "false_verdicts_isolated_6", "%").

missed_slowdowns(_Config) ->
    Output = measures(["missed_slowdowns"], "missed_slowdowns", "%"),
    %% The slowdown is real.
    ?assertMatch(
        {match, _}, re:run(Output, ~"^counted +1\\.0(19|20) times the reductions", [multiline])
    ).

short_function(_Config) ->
    measures(["short_function"], "short_function", "%").

empty_benchmark(_Config) ->
    measures(["empty_benchmark"], "empty_benchmark", "1/s").

calibrated_time(_Config) ->
    measures(["calibrated_time"], "calibrated_time_error", "times").

known_shares(_Config) ->
    [
        begin
            Output = measures(["known_shares", What], "known_shares_" ++ What, "points"),
            ?assertMatch({match, _}, re:run(Output, ~"^slowed +[0-9.]+ times", [multiline]))
        end
     || What <- ["1", "budget"]
    ].

cpu_shares(_Config) ->
    [
        measures(["cpu_shares", "dirty"], "cpu_shares_dirty", "points")
     || erlang:system_info(emu_flavor) =:= jit
    ].

profile_truth(_Config) ->
    measures(["profile_truth", "calls"], "profile_truth_calls", "%").

profile_slowdown(_Config) ->
    measures(["profile_slowdown"], "profile_slowdown_queue", "times").

heap_lottery(_Config) ->
    measures(["heap_lottery"], "heap_lottery", "%"),
    measures(["heap_lottery", "default"], "heap_lottery", "%").

search_spread(_Config) ->
    measures(["search_spread"], "search_spread", "ratio").

top(_Config) ->
    measures(["top", "100"], "top_100", "%").

visit(_Config) ->
    measures(["visit", "100"], "visit_100", "ms").

identical_codes(_Config) ->
    [
        measures(["identical_codes", Way], "identical_codes_" ++ Way, "%")
     || Way <- ["compare", "concurrent", "continuous", "timed"]
    ],
    measures(["identical_codes", "loop:2"], "identical_codes_compare", "%").

modes_agree(_Config) ->
    measures(["modes_agree"], "modes_agree", "%").

gates(_Config) ->
    Output = measures(["gates", "2"], "gates_2", "%"),
    %% What is slower has the reason at its head.
    ?assertMatch({match, _}, re:run(Output, ~", 1 of 1 name lists:sort/1 first", [multiline])).

birth_storm(_Config) ->
    measures(["birth_storm", "2000"], "birth_storm_2000", "MB").

servers(_Config) ->
    Output = measures(["servers", "bench_cluster_sync"], "servers_call", "times"),
    ?assertMatch({match, _}, re:run(Output, ~"^call +hook +[0-9.]+ times", [multiline])),
    measures(["servers", "idle"], "servers_idle", "ms"),
    measures(["servers", "flood"], "servers_flood", "ms").

trace(_Config) ->
    measures(["trace"], "trace_flood", "messages"),
    measures(["trace", "throughput"], "trace_throughput", "ratio").

%% Without an erlperf it says so; with one that the variable names it measures.
beside_erlperf(_Config) ->
    case os:getenv("ERLPERF", "") of
        "" ->
            {Status, Output} = program(["beside_erlperf", "--quick"], ebin()),
            ?assertEqual(0, Status),
            ?assertMatch({match, _}, re:run(Output, "skipped: there is no erlperf here"));
        _ ->
            measures(["beside_erlperf"], "beside_erlperf", "times")
    end,
    {2, Wrong} = program(["beside_erlperf", "/nowhere"], ebin()),
    ?assertMatch({match, _}, re:run(Wrong, "there is no erlperf at /nowhere")).

every_program_is_tested(_Config) ->
    {2, Output} = program(["nothing"], ebin()),
    [~"", Known] = binary:split(string:trim(Output), ~"the first argument is one of "),
    Programs = [binary_to_atom(Name) || Name <- binary:split(Known, ~", ", [global])],
    ?assertEqual([], Programs -- all()).

wrong_arguments(_Config) ->
    dyno_parallel:each(
        fun({Arguments, Said}) ->
            {Status, Output} = program(Arguments, ebin()),
            ?assertEqual(2, Status),
            ?assertMatch({match, _}, re:run(Output, Said))
        end,
        [
            {["discovery_storm", "none"], "number of processes, 1 or more, not none"},
            {["discovery_storm", "0"], "number of processes, 1 or more, not 0"},
            {["load_overhead", "8"], "there is no argument"},
            {["false_verdicts", "many"], "number of busy loops, 0 or more, not many"},
            {["load_rate", "1", "2"], "more than one argument"},
            {["cowboy_slowdown", "tea:1"], "CONNECTIONSxREQUESTS"},
            {["heap_lottery", "small"], "number of words, or default, 1 or more, not small"},
            {["identical_codes", "loop:none"], "number of trials, 1 or more, not none"},
            {["identical_codes", "always"], "compare, concurrent, continuous, timed or loop:N"},
            {["modes_agree", "0"], "number of words, 1 or more, not 0"},
            {["servers", "shout"], "give call, cast, info.*not shout"},
            {["gates", "1"], "number of repetitions, 2 or more, not 1"},
            {["agent_cost", "--fast"], "there is no option --fast; there is --quick"}
        ],
        3
    ).

%% An ebin folder that lacks dyno is passed over; then only _build is left, which may have it.
dyno_is_not_compiled(Config) ->
    Private = proplists:get_value(priv_dir, Config),
    Copy = filename:join(Private, "bench"),
    ok = file:make_dir(Copy),
    lists:foreach(
        fun(File) ->
            {ok, _} = file:copy(File, filename:join(Copy, filename:basename(File)))
        end,
        filelib:wildcard(filename:join(folder(), "*"))
    ),
    {Status, Output} = escript(Copy, ["agent_cost"], Private),
    ?assertEqual(2, Status),
    ?assertMatch({match, _}, re:run(Output, "dyno is not compiled for OTP")).

%% Runs a program; its last line must be `name value unit`.
measures(Arguments, Name, Unit) ->
    {Status, Output} = program(Arguments ++ ["--quick"], ebin()),
    ct:log("~ts", [Output]),
    ?assertEqual(0, Status),
    ?assertMatch({match, _}, re:run(Output, ~"^machine +.*OTP [0-9]+", [multiline])),
    Last = lists:last(string:split(string:trim(Output, trailing), "\n", all)),
    [Name, Value, Unit] = string:split(unicode:characters_to_list(Last), " ", all),
    ?assertMatch({match, _}, re:run(Value, ~"^-?[0-9]+(\\.[0-9]+)?$")),
    Output.

program(Arguments, Ebin) ->
    escript(folder(), Arguments, Ebin).

escript(Folder, Arguments, Ebin) ->
    Escript = filename:join([code:root_dir(), "bin", "escript"]),
    Port = open_port({spawn_executable, Escript}, [
        {args, [filename:join(Folder, "run.escript") | Arguments]},
        {env, [{"DYNO_EBIN", Ebin}]},
        exit_status,
        stderr_to_stdout,
        binary
    ]),
    dyno_command:output(Port).

ebin() ->
    filename:join(code:lib_dir(dyno), "ebin").

folder() ->
    filename:join(dyno_project:root(), "bench").
