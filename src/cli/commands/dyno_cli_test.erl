%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_cli_test).
-moduledoc """
`dyno test`: runs a suite, shows and keeps what was measured, and says whether it passed.
""".

-behaviour(dyno_cli_command).

-export([command/0, run/1, measurements/1, requirements/2]).

-define(LEVELS, [budget, off, count, discovery, time, memory, all]).
-define(REPORTS, [output, format, quiet, verbose, full, baseline, fail_if]).

-spec command() -> dyno_cli_command:t().
command() ->
    #{
        operands => [
            dyno_cli_command:operand(
                "SUITE", "a suite's file (.erl, .exs or .beam), or the name of a suite's module"
            )
        ],
        options => [
            {"", runs()},
            {"The load, in place of the suite's", dyno_cli_test_load:options()},
            {"What is measured inside the targets",
                measurements(#{
                    patterns =>
                        "functions of the targets: my_mod, my_mod:f/1, my_* or app:my_app "
                        "(default: the suite's); may be given more than once",
                    servers =>
                        "server processes whose callbacks are measured: a callback module, a "
                        "registered name, app:NAME, sup:NAME, gen_statem, all and others (dyno "
                        "servers --help; default: the suite's, or none); may be given more than "
                        "once"
                }) ++ of_suites()},
            {"What must hold: exit status 1 where it does not",
                requirements(
                    "an earlier recording (.json), made at the same place: it must not be slower "
                    "now; both tests need --repeat",
                    "with --baseline, what must not be: slower > 5%, memory > 5%, latency.p99.9 > "
                    "20% (default: slower > 10%)"
                )},
            {"Reports", dyno_cli_job:options_of_tests()},
            {"Code and nodes",
                [dyno_cli_option:code_paths() | dyno_cli_nodes:rows()]}
        ],
        examples => examples()
    }.

runs() ->
    [
        {"--sizes N,N,...",
            "the sizes to run at, one after the other (default: the suite's)",
            {list, {whole, 1, infinity}}},
        {"--duration TIME",
            "how long each size is measured: 500ms, 10s, 2min (default: the suite's, or 5s)",
            duration, duration_ms},
        {"--warmup TIME",
            "how long it is loaded before that, unmeasured; 0 for not at all (default: the "
            "suite's, or 500ms)",
            duration_or_zero, warmup_ms},
        {"--repeat N",
            "how often each size is run, in random order (default: the suite's, or once)",
            {whole, 1, 10_000}},
        {"--seed N",
            "makes the random choices of an earlier test again, of its order and its load; the "
            "recording has its seed (default: drawn anew)",
            {whole, 1, infinity}},
        {"--timeout TIME",
            "the longest that a callback of the suite may take (default: the suite's, or 1min)",
            duration, timeout_ms}
    ].

-doc "What can be measured in a node, with the help on the patterns and the servers.".
-spec measurements(#{patterns := string(), servers := string()}) -> [dyno_cli_option:row()].
measurements(#{patterns := Patterns, servers := Servers}) ->
    [
        {"--pattern PATTERN", Patterns, {many, string}, patterns},
        {"--level LEVEL",
            "what of them: budget (calls, own time, at a limited cost), off, count (calls), "
            "discovery (who calls them), time (each call timed), memory (calls, words) or all "
            "(default: the suite's, or budget)",
            {one_of, ?LEVELS}},
        {"--budget SHARE",
            "the share of the target's processor time that measuring functions may take at the "
            "level budget (default: the suite's, or 5%)",
            share},
        {"--profile KIND",
            "also a profile, with a flame graph on the page: sample, where the time goes and where "
            "processes wait; cpu, the same by samples of the processor, with a library that is loaded "
            "into the node; schedulers, how many processes are ready to run (calls, own time and "
            "words of each function: --level)",
            {one_of, dyno_suite:profiles()}},
        {"--distribution PATTERN",
            "functions of which single calls are timed, a sample of them (default: the "
            "suite's, or none); may be given more than once",
            {many, string}},
        {"--servers PROCESS", Servers, {many, string}, servers},
        {"--interval TIME",
            "time from one sample of the VM, the system and the processes to the next (default: "
            "the suite's, or 1s)",
            duration, interval_ms},
        {"--without LIST",
            "what is switched off, with commas between: functions, processes, stacks, servers, "
            "vm, os, ets, ports (default: the suite's, or nothing)",
            {list, atom}},
        {"--instrument FILE",
            "an instrument to run in the targets besides dyno's; may be given more than once",
            {many, string}, instruments}
    ].

of_suites() ->
    [
        {"--control",
            "also run each size shortly without measuring, to say what measuring costs "
            "(default: where calls are traced and the load is steady)"},
        {"--no-control", "no such runs", {flag, false}, control},
        {"--agent FILE",
            "a custom agent to run in the targets, besides the suite's; may be given more than "
            "once",
            {many, string}, agents},
        {"-C, --custom_agents FILE,...", "custom agents, as PerformERL has it",
            {list, string}, agents}
    ].

-doc "What may be demanded, with the help on `--baseline` and `--fail-if`.".
-spec requirements(Baseline :: string(), FailIf :: string()) -> [dyno_cli_option:row()].
requirements(Baseline, FailIf) ->
    [
        {"--threshold EXPRESSION",
            "a metric's limit, such as \"latency.p99 < 20 ms\", in place of the suite's; may "
            "be given more than once",
            {many, string}, thresholds},
        {"--invariant CHECK",
            "what holds in the targets at every moment, besides the suite's, such as "
            "\"memory: erlang:memory(total) =< 500000000\"; may be given more than once",
            {many, string}, invariants}
        | dyno_cli_baseline:options(Baseline, FailIf)
    ].

examples() ->
    [
        {~"dyno new suite shop_perf", ~"writes shop_perf.erl, a suite to start from"},
        {~"dyno test shop_perf.erl", ~"runs it as it is"},
        {~"dyno test shop_perf.erl --sizes 1,10 --duration 2s -o shop.html",
            ~"runs it shortly, and makes a report to open in a browser"},
        {~"dyno test shop_perf.erl --threshold \"latency.p99 < 20 ms\"",
            ~"exits with status 1 where the 99th percentile is 20 ms or more"},
        {~"dyno test shop_perf.erl --rate 500 --duration 10s --load-nodes 1",
            ~"offers 500 operations a second, from a node of its own"},
        {~"dyno test shop_perf.erl --sizes 16 --search \"latency.p99 < 5 ms\"",
            ~"finds the highest rate at which that holds, at size 16"},
        {~"dyno test shop_perf.erl --repeat 5 -o before.json",
            ~"runs each size five times, in random order, and keeps the recording"},
        {~"dyno test shop_perf.erl --repeat 5 --baseline before.json",
            ~"exits with status 1 where it is slower than it was"},
        {~"dyno test shop_perf.erl --distribution logger_formatter:format/2",
            ~"also shows how long single calls of that function take"},
        {~"dyno test shop_perf.erl --without os,ports --no-control",
            ~"measures less of the system, and not what measuring costs"},
        {~"dyno test shop_perf.erl --invariant \"mem: erlang:memory(total) < 900000000\"",
            ~"exits with status 1 where that did not hold, if only for a moment"},
        {~"dyno test my_suite --pa _build/default/lib/my_app/ebin",
            ~"runs a suite that is compiled already"},
        {~"dyno test load_gen.erl -C agent.erl",
            ~"runs a suite that was written for PerformERL, with its custom agent"}
    ].

-doc "Runs the test.".
-spec run(dyno_cli_command:values()) -> dyno_error:exit_status().
run(#{suite := Suite} = Values) ->
    case dyno_cli_test_load:load(maps:without([suite | ?REPORTS], Values)) of
        {ok, Options} ->
            Job = #{
                keep => filename:basename(filename:rootname(Suite)),
                writer => measurement,
                gate => test,
                measure => fun(Context) ->
                    Connected = maps:merge(Options, dyno_cli_nodes:connection(Values)),
                    Merged = maps:merge(Connected, Context),
                    dyno_test:run(unicode:characters_to_list(Suite), Merged)
                end
            },
            dyno_cli_job:run(Job, Values);
        Error ->
            dyno_cli_command:refused(Error)
    end.
