%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_cli_record).
-moduledoc """
`dyno record`: what nodes do that run, with every instrument, without a load or a suite.
""".

-behaviour(dyno_cli_command).

-export([command/0, run/1]).

-define(REPORTS, [output, format, quiet, verbose, full, baseline, fail_if, watch]).

-spec command() -> dyno_cli_command:t().
command() ->
    #{
        operands => [
            dyno_cli_command:operand(
                "NODE", "a running Erlang node, such as shop@host, or shop for one on this machine"
            ),
            dyno_cli_nodes:processes(
                servers, "of which servers callbacks are measured", "all"
            )
        ],
        options => [
            {"", [
                {"--for TIME", "how long: 30s, 10min (default: 30s; Ctrl-C ends it earlier)",
                    duration,
                    duration_ms},
                {"--watch", "a line each second: how busy each node is, its memory, its processes"}
            ]},
            {"What is measured",
                dyno_cli_test:measurements(#{
                    patterns =>
                        "functions: my_mod, my_mod:f/1, my_* or app:my_app (default: those of all "
                        "applications, or else modules, that are neither of OTP nor of Elixir); "
                        "may be given more than once",
                    servers =>
                        "the same as PROCESS; may be given more than once"
                }) ++
                    [
                        {"--repeat N", "how often, one recording after the other (default: once)",
                            {whole, 1, 10_000}}
                    ]},
            {"What must hold: exit status 1 where it does not",
                dyno_cli_test:requirements(
                    "an earlier recording (.json), made in the same way: what changed is shown; "
                    "both need --repeat",
                    "with --baseline, what must not be: memory > 5%, vm.run_queue.normal.mean > "
                    "20% (default: nothing)"
                )},
            {"Reports", dyno_cli_job:options_of_tests()},
            dyno_cli_nodes:options()
        ],
        examples => [
            {~"dyno record shop@host", ~"looks at all that a node does for half a minute"},
            {~"dyno record shop@host --for 10s --pattern app:shop -o shop.html",
                ~"measures the functions of one application, and makes a report"},
            {~"dyno record shop --watch --for 5min",
                ~"looks at a node of this machine, with a line each second"},
            {~"dyno record a@host b@host app:shop --for 1min",
                ~"records two nodes at the same time, and the callbacks of an application's servers"},
            {~"dyno record shop@host --threshold \"vm.memory.total.max < 500 MB\"",
                ~"exits with status 1 where it had more memory"},
            {~"dyno record shop@host --repeat 5 --for 10s -o before.json",
                ~"keeps five recordings, to compare later ones with (dyno compare)"}
        ]
    }.

-doc "Records, and shows.".
-spec run(dyno_cli_command:values()) -> dyno_error:exit_status().
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
            dyno_cli_job:run(Job, Values);
        Error ->
            dyno_cli_command:refused(Error)
    end.

%% The measurement has written the recording without them.
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
