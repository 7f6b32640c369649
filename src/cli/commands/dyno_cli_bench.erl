%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_cli_bench).
-moduledoc "`dyno bench`: which code is faster, by how much, and how certain that is.".

-behaviour(dyno_cli_command).

-import(dyno_cli_command, [contradiction/1]).

-export([command/0, run/1]).

%% Options that affect only a result's confidence or destination.
-define(NOT_MEASURED, [
    budget_ms, timeout_ms, output, format, baseline, fail_if, threshold, verbose, quiet
]).

-spec command() -> dyno_cli_command:t().
command() ->
    #{
        operands => [
            dyno_cli_command:operand(
                "CODE...",
                "Erlang expressions, funs of arity 0, 1 or 2, {Module, Function, [Argument]}; or a "
                "file of calls (.calls) or benchmarks (.erl, .exs)",
                #{nargs => nonempty_list, action => extend}
            )
        ],
        options => [
            {"", [
                {"--for TIME",
                    "how long to measure; less if the answer is clear, up to five times for a "
                    "verdict (default: 1s for each code, with -i 30s)", duration, budget_ms},
                {"--timeout TIME",
                    "the limit for one part of a code, or for a build of --rev (default: 30s, with "
                    "--loop 5min, a build 30min)", duration, timeout_ms},
                dyno_cli_bench_code:input(),
                {"--elixir", "all code is Elixir; needs Elixir here (default in a project of Mix)",
                    {flag, elixir}, language},
                {"--erlang", "all code is Erlang (default elsewhere)", {flag, erlang}, language},
                %% One dash, as in the emulator and erlperf.
                dyno_cli_option:code_paths()
            ]},
            {"Set-up of codes", dyno_cli_bench_code:options()},
            {"Metrics and verdicts", dyno_cli_bench_mode:decisions()},
            {"Reports and gates",
                dyno_cli_output:options(" (default: console)", dyno_cli_measurement:kept()) ++
                    [
                        %% erlperf's -q is --squeeze.
                        {"--quiet", "only the requested report"},
                        {"-v, --verbose",
                            "more on standard error: compiled loops, each second a line about "
                            "the VM"}
                        | dyno_cli_baseline:options(
                            "compares with an earlier recording (.json) from the same machine",
                            "with --baseline or --rev: exits with 1 if the condition holds: "
                            "slower > 5%, faster > 5%, words > 0.1%, worse > 5%"
                        )
                    ]},
            {"VMs, revisions and nodes", dyno_cli_bench_where:options()},
            {"erlperf's options", dyno_cli_bench_erlperf:options()}
        ],
        common =>
            "--for --input --init_runner --concurrency --metric --tolerance --isolated --rev "
            "--node --output --baseline --fail-if",
        examples => examples()
    }.

examples() ->
    """
    dyno bench 'rand:uniform()' 'crypto:strong_rand_bytes(2)'
        compares two codes
    dyno bench 'r(L) -> lists:sort(L)' --init_runner 'lists:seq(1, 100)'
        gives a code an argument
    dyno bench 'r(N) -> lists:seq(1, N)' --input 10=10 --input 1000=1000
        calls a code with several inputs, and shows its growth
    dyno bench 'lists:seq(1, 9)' --metric words -o main.json
        counts the allocated words exactly, and keeps the recording
    dyno bench 'lists:seq(1, 9)' --baseline main.json --fail-if 'words > 0.1%'
        fails if the code allocates more than before, on any machine
    dyno bench 'gen_server:call(kernel_sup, which_children)' --whole
        shows the work of other processes for the code
    dyno bench --elixir 'Enum.sort([3, 1, 2])' ':lists.sort([3, 1, 2])'
        compares Elixir source
    dyno bench examples/sorting_bench.erl
        runs the comparisons of a file
    dyno bench 'ets:lookup(t, 1)' --init 'ets:new(t, [named_table, public])' -c 2
        runs a code in two processes at once
    dyno bench 'shop:total()' --rev v1.2..main
        builds two revisions of the project and compares them
    dyno bench 'shop:total()' --rev main --metric words --fail-if 'worse > 0.1%'
        fails a build if the working tree allocates more than main
    dyno bench 'lists:seq(1, 100)' --erl-flags '' --erl-flags '+hms 10000'
        compares emulator flags, each in VMs of its own
    dyno bench 'global:registered_names()' --node a@host --node b@host --for 1min
        runs a code in two nodes at once, with a line each second
    dyno bench 'rand:uniform()' -q
        finds the number of processes with the highest throughput
    dyno bench 'rand:uniform()' -d 100 -s 20 -r extended
        erlperf's samples and columns
    """.

-spec run(dyno_cli_command:values()) -> dyno_cli_command:result().
run(Values) ->
    maybe
        {ok, Nodes} ?= dyno_cli_bench_where:cluster(Values),
        {ok, Measured} ?= dyno_cli_bench_code:read(Values),
        {ok, Measure} ?= measurement(Nodes, Measured, Values),
        Job = #{gate => bench, measure => Measure},
        dyno_cli_measurement:run(maps:merge(Job, shown_or_kept(Measured, Values)), Values)
    end.

measurement(none, Measured, #{code := Texts} = Values) ->
    maybe
        {ok, Mode} ?= dyno_cli_bench_mode:mode(Values, length(Texts)),
        {ok, Place} ?= dyno_cli_bench_where:place(Values),
        Plain = maps:with([budget_ms, timeout_ms], Values),
        Options = (maps:merge(maps:merge(Mode, Plain), Place))#{
            code_paths => maps:get(code_paths, Values, []),
            inputs => dyno_cli_bench_code:inputs(Values)
        },
        ok = show_loops(Values, Measured, Options),
        {ok, fun(Context) ->
            monitored(Values, fun() -> measure(Measured, reporting(Context, Options)) end)
        end}
    end;
measurement(Nodes, {codes, [Code]}, #{code := Texts} = Values) ->
    maybe
        {ok, Mode} ?= dyno_cli_bench_mode:mode(maps:remove(budget_ms, Values), length(Texts)),
        Settings = Nodes#{
            code => Code,
            concurrency => maps:get(concurrency, Mode, 1),
            duration_ms => maps:get(budget_ms, Values, 10_000)
        },
        {ok, fun(_Context) -> dyno_cli_bench_cluster:run(Settings) end}
    end;
measurement(_Nodes, _Measured, _Values) ->
    contradiction("several nodes run one code at once; give one code, and no file").

measure({codes, Codes}, Options) -> dyno_bench:run(Codes, Options);
measure({file, File}, Options) -> dyno_bench:run_file(File, Options).

reporting(#{progress := Report}, #{isolated := Isolated} = Options) ->
    Group = fun(Number, Of) ->
        Report(#{
            phase => measuring,
            text => ~"in fresh VMs",
            run => integer_to_binary(Number),
            runs_done => Number - 1,
            runs_total => Of
        })
    end,
    Build = fun(Revision) ->
        Report(#{phase => building, text => [~"building ", Revision], run => Revision})
    end,
    maps:merge(
        Options#{isolated := Isolated#{progress => Group}},
        #{revisions => Revisions#{progress => Build} || #{revisions := Revisions} <- [Options]}
    );
reporting(#{progress := Report}, Options) ->
    Options#{progress => fun(Round) -> Report(progress(Round)) end}.

%% The known number of rounds; otherwise the longest remaining time.
progress(#{round := 0}) ->
    #{phase => calibrating, text => ~"first calls, to see how long they take"};
progress(#{round := Round, rounds := Rounds}) ->
    #{
        phase => measuring,
        text => io_lib:format("round ~b of ~b", [Round, Rounds]),
        run => ~"rounds"
    };
progress(#{round := Round, remaining_ms := RemainingMs}) ->
    #{
        phase => measuring,
        text => io_lib:format("round ~b", [Round]),
        run => ~"rounds",
        remaining_ms => RemainingMs,
        at_most => true
    }.

%% erlperf's columns have no warnings, and nothing is kept. Options tell benchmarks apart.
shown_or_kept(_Measured, #{report := Report}) ->
    #{
        print => fun(Document) ->
            {ok, Table} = dyno_report_erlperf:format(Report, Document, dyno_cli_terminal:look()),
            dyno_cli_terminal:print(Table)
        end
    };
shown_or_kept(Measured, Values) ->
    Name =
        case Measured of
            {file, File} -> filename:basename(filename:rootname(File));
            {codes, _} -> ~"bench"
        end,
    #{keep => {Name, maps:without(?NOT_MEASURED, Values)}}.

%% As in erlperf: each code's compiled loop, and the options. Measuring reports unreadable codes.
show_loops(#{verbose := true}, {codes, Codes}, Options) ->
    Loops = [
        io_lib:format(
            ">>>>>>>>>>>>>>> ~ts\n~ts\n<<<<<<<<<<<<<<<",
            [dyno_bench_code:label(Code), string:trim(dyno_bench_code:source(Parsed))]
        )
     || Code <- Codes, {ok, Parsed} <- [dyno_bench_code:read(Code)]
    ],
    Shown = [
        option(Option)
     || {_, Value} = Option <- lists:sort(maps:to_list(maps:without([inputs, cookie], Options))),
        Value =/= []
    ],
    Line = [["dyno: ", lists:join(", ", Shown)] || Shown =/= []],
    lists:foreach(fun dyno_cli_terminal:note/1, Loops ++ Line);
show_loops(_Values, _Measured, _Options) ->
    ok.

option({mode, {Mode, Settings}}) ->
    ["mode ", atom_to_list(Mode) | [[", ", option(Setting)] || Setting <- maps:to_list(Settings)]];
option({Name, Value}) ->
    io_lib:format("~ts ~0tP", [Name, Value, 20]).

monitored(Values, Measure) ->
    %% In these cases nothing runs in this VM.
    case maps:keys(maps:with([verbose, node, isolated, vms, rev], Values)) of
        [verbose] ->
            Monitor = dyno_cli_bench_monitor:start_link(),
            try
                Measure()
            after
                dyno_sandbox:kill(Monitor)
            end;
        _ ->
            Measure()
    end.
