%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_cli_test).
-moduledoc "`dyno test`: runs a suite, reports and keeps the results, and judges them.".

-behaviour(dyno_cli_command).

-export([command/0, run/1, measurements/1, requirements/3]).

-define(LEVELS, [budget, off, count, discovery, time, memory, all]).
-define(REPORTS, [output, format, quiet, verbose, full, baseline, fail_if, against, build]).

-spec command() -> dyno_cli_command:t().
command() ->
    #{
        operands => [
            dyno_cli_command:operand(
                "SUITE",
                "a suite's file (.erl, .exs or .beam), or the name of its module; options replace "
                "the suite's own"
            )
        ],
        options => [
            {"", runs()},
            {"The load, instead of the suite's", dyno_cli_test_load:options()},
            {"Measurements in the targets",
                measurements(
                    "measures these functions: my_mod, my_mod:f/1, my_* or app:my_app; repeatable"
                ) ++ of_suites()},
            {"Limits; the exit status is 1 if one does not hold",
                requirements(
                    "a limit, such as \"latency.p99 < 20 ms\", instead of the suite's; repeatable",
                    "an earlier recording (.json) from the same machine, also made with --repeat: "
                    "the test must not be slower now",
                    "with --baseline or --against: fails if the condition holds: slower > 5%, "
                    "memory > 5%, latency.p99.9 > 20% (default: slower > 10%)"
                ) ++ dyno_cli_against:options()},
            {"Reports", dyno_cli_measurement:options_of_tests()},
            {"Code and nodes", [dyno_cli_option:code_paths() | dyno_cli_nodes:rows()]}
        ],
        common =>
            "--sizes --for --rate --search --pattern --profile --repeat --threshold "
            "--baseline --fail-if --output --pa",
        examples => examples()
    }.

runs() ->
    [
        {"--sizes N,N,...", "the sizes, one after the other (default: the suite's)",
            {list, {whole, 1, infinity}}},
        {"--for TIME", "how long to measure each size: 10s, 2min (default: 5s)", duration,
            duration_ms},
        {"--warmup TIME", "load before the measured time; 0 for none (default: 500ms)",
            duration_or_zero, warmup_ms},
        {"--repeat N", "runs each size N times, in random order (default: once)",
            {whole, 1, 10_000}},
        {"--seed N",
            "repeats the random choices of an earlier test; its recording has the seed (default: "
            "random)", {whole, 1, infinity}},
        {"--timeout TIME", "the limit for a callback of the suite (default: 1min)", duration,
            timeout_ms}
    ].

-doc "The measuring options of a node, with the help on patterns.".
-spec measurements(Patterns :: string()) -> [dyno_cli_option:row()].
measurements(Patterns) ->
    [
        {"--pattern PATTERN", Patterns, {many, string}, patterns},
        {"--level LEVEL",
            "budget (calls and own time, at a limited cost), off, count (calls), discovery (the "
            "calling processes), time (each call timed), memory (calls, words) or all (default: "
            "budget)", {one_of, ?LEVELS}},
        {"--budget SHARE",
            "the share of a target's processor time for measuring functions at the level budget "
            "(default: 5%)", share},
        {"--profile PROFILE",
            "adds a profile: sample, cpu or schedulers, the --kind of dyno profile",
            {one_of, dyno_suite:profiles()}},
        {"--distribution PATTERN", "times a sample of single calls of these functions; repeatable",
            {many, string}},
        {"--interval TIME", "the time between samples of VM, system and processes (default: 1s)",
            duration, interval_ms},
        {"--without LIST",
            "switches off, with commas: functions, processes, stacks, servers, vm, os, ets, ports; "
            "of a test also control, the runs without measuring", {list, atom}},
        {"--instrument FILE",
            "also runs this instrument or custom agent in the targets; repeatable", {many, string},
            instruments}
    ].

of_suites() ->
    [
        {"--servers PROCESS",
            "measures these servers: a module, a registered name, app:NAME, sup:NAME, all, and "
            "others of dyno servers; repeatable", {many, string}, servers},
        {"--control",
            "also runs each size shortly without measuring, to show the cost (default: if calls "
            "are traced and the load is steady; never with --without control)"},
        {"--agent FILE", "the same as --instrument; repeatable", {many, string}, agents},
        {"-C, --custom_agents FILE,...", "PerformERL's name of --agent", {list, string}, agents}
    ].

-doc "The options for demands, with these help texts.".
-spec requirements(Threshold :: string(), Baseline :: string(), FailIf :: string()) ->
    [dyno_cli_option:row()].
requirements(Threshold, Baseline, FailIf) ->
    [
        {"--threshold EXPRESSION", Threshold, {many, string}, thresholds},
        {"--invariant CHECK",
            "a condition that must hold in the targets at every moment, such as \"memory: "
            "erlang:memory(total) =< 500 MB\"; repeatable", {many, string}, invariants}
        | dyno_cli_baseline:options(Baseline, FailIf)
    ].

examples() ->
    """
    dyno new suite shop_perf
        writes shop_perf.erl, a suite to start from
    dyno test shop_perf.erl
        runs the suite
    dyno test shop_perf.erl --sizes 1,10 --for 2s -o shop.html
        runs shortly, and writes a page
    dyno test shop_perf.erl --threshold "latency.p99 < 20 ms"
        exits with status 1 if the 99th percentile is 20 ms or more
    dyno test shop_perf.erl --rate 500 --for 10s --load-nodes 1
        offers 500 operations a second, from a separate node
    dyno test shop_perf.erl --sizes 16 --search "latency.p99 < 5 ms"
        finds the highest rate at which the limit holds, at size 16
    dyno test shop_perf.erl --repeat 5 -o before.json
        runs each size five times, in random order, and keeps the recording
    dyno test shop_perf.erl --repeat 5 --baseline before.json
        exits with status 1 if the test became slower
    dyno test shop_perf.erl --against main --repeat 5
        the same with the code of main, run in turn with the code as it is
    dyno test shop_perf.erl --distribution logger_formatter:format/2
        also shows the durations of single calls
    dyno test shop_perf.erl --without os,ports,control
        measures less, and not the cost of measuring
    dyno test shop_perf.erl --invariant "mem: erlang:memory(total) < 900 MB"
        exits with status 1 if the condition failed, even for a moment
    dyno test my_suite --pa _build/default/lib/my_app/ebin
        runs a compiled suite
    dyno test load_gen.erl -C agent.erl
        runs a suite of PerformERL with its custom agent
    """.

%% The runs without measuring are none of a target's instruments.
control(#{without := Without} = Values) ->
    case {lists:member(control, Without), lists:delete(control, Without)} of
        {false, _} -> Values;
        {true, []} -> maps:remove(without, Values#{control => false});
        {true, Others} -> Values#{control => false, without := Others}
    end;
control(Values) ->
    Values.

-spec run(dyno_cli_command:values()) -> dyno_cli_command:result().
run(#{suite := Suite} = Values) ->
    maybe
        {ok, Given} ?=
            dyno_cli_test_load:load(maps:without([suite | ?REPORTS], control(Values))),
        ok ?= dyno_cli_against:check(Values),
        Options = maps:merge(Given, dyno_cli_nodes:connection(Values)),
        Job = #{
            keep => filename:basename(filename:rootname(Suite)),
            gate => test,
            measure => fun(Context) ->
                measure(unicode:characters_to_list(Suite), maps:merge(Options, Context), Values)
            end
        },
        dyno_cli_measurement:run(maps:merge(Job, writer(Values)), Values)
    end.

measure(Suite, Options, #{against := _} = Values) ->
    dyno_cli_against:run(Suite, maps:remove(recording, Options), Values);
measure(Suite, Options, _Values) ->
    dyno_test:run(Suite, Options).

%% Of several tests only their comparison is kept.
writer(#{against := _}) -> #{};
writer(_Values) -> #{writer => measurement}.
