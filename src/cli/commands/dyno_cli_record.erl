%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_cli_record).
-moduledoc "`dyno record`: records running nodes with every instrument, without a load or a suite.".

-behaviour(dyno_cli_command).

-export([command/0, run/1]).

-define(REPORTS, [output, format, quiet, verbose, full, baseline, fail_if, watch]).

-spec command() -> dyno_cli_command:t().
command() ->
    #{
        operands => [
            dyno_cli_command:operand(
                "NODE", "a running Erlang node: shop@host, or shop on this machine"
            ),
            dyno_cli_nodes:processes(servers, "measures these servers", "all")
        ],
        options => [
            {"", [
                {"--for TIME", "how long to record: 30s, 10min (default: 30s, or until Ctrl-C)",
                    duration, duration_ms},
                {"--watch", "prints a line each second: load, memory and processes of each node"}
            ]},
            {"Measurements",
                dyno_cli_test:measurements(
                    "measures these functions: my_mod, my_mod:f/1, my_* or app:my_app (default: "
                    "all applications, or else modules, outside OTP and Elixir); repeatable"
                ) ++
                    [
                        {"--repeat N", "makes N recordings, one after the other (default: 1)",
                            {whole, 1, 10_000}}
                    ]},
            {"Limits; the exit status is 1 if one does not hold",
                dyno_cli_test:requirements(
                    "a limit, such as \"vm.memory.total.max < 500 MB\"; repeatable",
                    "shows the changes since an earlier recording (.json), made in the same way, "
                    "with --repeat",
                    "with --baseline: fails if the condition holds: memory > 5%, "
                    "vm.run_queue.normal.mean > 20% (default: none)"
                )},
            {"Reports", dyno_cli_measurement:options_of_tests()},
            dyno_cli_nodes:options()
        ],
        common => "--for --pattern --profile --watch --repeat --threshold --output --cookie",
        examples =>
            """
            dyno record shop@host
                records a node for half a minute
            dyno record shop@host --for 10s --pattern app:shop -o shop.html
                measures the functions of one application, and writes a page
            dyno record shop --watch --for 5min
                records a node of this machine, with a line each second
            dyno record a@host b@host app:shop --for 1min
                records two nodes at once, with the callbacks of an application's servers
            dyno record shop@host --threshold "vm.memory.total.max < 500 MB"
                exits with status 1 if the node had more memory
            dyno record shop@host --repeat 5 --for 10s -o before.json
                keeps five recordings for dyno compare
            """
    }.

-spec run(dyno_cli_command:values()) -> dyno_cli_command:result().
run(#{node := First} = Values) ->
    case dyno_cli_nodes:read([First | maps:get(process, Values, [])], servers) of
        {ok, Nodes, Filters} ->
            Options = maps:without([node, process | ?REPORTS], Values),
            Only = #{servers => Filters || Filters =/= []},
            Connected = maps:merge(maps:merge(Options, Only), dyno_cli_nodes:connection(Values)),
            Job = #{
                keep => First,
                writer => measurement,
                gate => record,
                measure => fun(#{progress := Report} = Context) ->
                    Watch = [
                        {watch, fun(Node, Sample) -> Report(line(Node, Sample)) end}
                     || is_map_key(watch, Values)
                    ],
                    Given = maps:merge(Connected, maps:from_list(Watch)),
                    with_findings(dyno_record:run(Nodes, maps:merge(Given, Context)), Context)
                end
            },
            dyno_cli_measurement:run(Job, Values);
        Error ->
            Error
    end.

%% The measurement wrote the recording without findings.
with_findings({ok, Document}, #{recording := Path}) ->
    Found = dyno_doctor:with_findings(Document),
    _ = [dyno_recording_file:write(Path, Found) || Path =/= none, Found =/= Document],
    {ok, Found};
with_findings(Error, _Context) ->
    Error.

%% A line of --watch.
line(Node, Sample) ->
    Shown = [
        [Title, $\s, dyno_unit:format(Value, Unit)]
     || {Name, Title, Unit} <- watched(), #{Name := Value} <- [Sample]
    ],
    {_, {H, M, S}} = calendar:local_time(),
    Time = io_lib:format("~2..0b:~2..0b:~2..0b", [H, M, S]),
    #{phase => finding, text => lists:join("  ", [Time, atom_to_binary(Node) | Shown])}.

watched() ->
    [
        {~"vm.scheduler_utilisation.normal", ~"busy", ~"ratio"},
        {~"vm.run_queue.normal", ~"run queue", ~"count"},
        {~"vm.memory.total", ~"memory", ~"B"},
        {~"vm.processes", ~"processes", ~"count"},
        {~"vm.reductions", ~"reductions", ~"1/s"},
        {~"os.vm.rss", ~"RSS", ~"B"}
    ].
