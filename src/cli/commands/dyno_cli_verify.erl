%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_cli_verify).
-moduledoc "`dyno verify`: whether the processes of running nodes keep to a specification.".

-behaviour(dyno_cli_command).

-export([command/0, run/1]).

-spec command() -> dyno_cli_command:t().
command() ->
    #{
        operands => [
            dyno_cli_command:operand(
                "SPEC",
                "a file of properties, or a monitor's module: a .erl, a .beam or its name"
            ),
            dyno_cli_command:operand(
                "[NODE]", "a running Erlang node, such as shop@host; none with --replay",
                #{nargs => 'maybe', required => false}
            ),
            dyno_cli_nodes:processes(
                monitored, "which processes", "those that the properties name"
            )
        ],
        options => [
            {"", [
                {"--for TIME", "how long: 30s, 10min (default: until Ctrl-C)", duration, for_ms},
                {"--record FILE",
                    "writes the events that the properties need to a file in the node, for "
                    "--replay",
                    text},
                {"--replay FILE",
                    "events of a file in place of nodes: of --record, of OTP's trace port, or as "
                    "text",
                    text},
                {"--instrumentation NAME",
                    "how events come to the monitors (default: partition)",
                    {one_of, [Name || {Name, _} <- dyno_verify_target:instrumentations()]}},
                {"--limit N",
                    "the most events that wait in a node; beyond it processes are cut off as a "
                    "whole (default: 1000000)",
                    {whole, 1000, infinity}},
                {"--limit-memory SIZE", "the most memory that these may take (default: 512MiB)",
                    size},
                {"--limit-rate N", "the most events a second (default: none)",
                    {whole, 1, infinity}},
                {"--shards N",
                    "processes that run the monitors (default: half of the node's schedulers)",
                    {whole, 1, 1024}},
                {"--must-decide",
                    "has no effect any more: the exit status is 1 if a property is UNKNOWN"},
                {"--events N", "how many of the last events are told (default: 10)",
                    {whole, 0, 1000}},
                dyno_cli_option:code_paths()
            ]},
            {"Reports", dyno_cli_job:options()},
            dyno_cli_nodes:options()
        ],
        examples => [
            {~"dyno verify worker.dyno shop@host", ~"watches a node until Ctrl-C"},
            {~"dyno verify once.erl shop@host --for 30s -o once.html",
                ~"runs a monitor of yours for half a minute, and makes a report"},
            {~"dyno verify worker.dyno shop@host app:shop",
                ~"watches an application's processes in place of those that the properties name"},
            {~"dyno verify worker.dyno --replay events.log",
                ~"checks what a file says that happened"},
            {~"dyno verify worker.dyno a@host b@host --for 1min --limit 100000",
                ~"watches two nodes, in each of which at most 100,000 events wait"}
        ]
    }.

-doc "Watches, and shows.".
-spec run(dyno_cli_command:values()) -> dyno_error:exit_status().
run(#{node := _, replay := _}) ->
    dyno_cli_command:refused(
        dyno_cli_command:contradiction("--replay reads events from a file; give it no NODE")
    );
run(#{spec := Spec, replay := File} = Values) ->
    job(filename:basename(Spec), Values, fun(Show) ->
        dyno_verify_replay:run([Spec], File, (maps:with([events], Values))#{show => Show})
    end);
run(#{spec := Spec, node := First} = Values) ->
    case dyno_cli_nodes:read([First | maps:get(process, Values, [])], monitored) of
        {ok, Nodes, Filters} ->
            Own = maps:with([for_ms, instrumentation, shards, events, record], Values),
            Given = Own#{processes => Filters},
            Options = maps:merge(Given, dyno_cli_nodes:connection(Values)),
            job(First, Values, fun(Show) ->
                dyno_verify:run([Spec], Nodes, Options#{limits => limits(Values), show => Show})
            end);
        Error ->
            dyno_cli_command:refused(Error)
    end;
run(_Values) ->
    dyno_cli_command:refused(
        dyno_cli_command:contradiction("say which NODE, or --replay FILE")
    ).

job(Keep, Values, Run) ->
    Job = #{
        keep => Keep,
        measure => fun(#{progress := Report}) -> Run(fun(Event) -> Report(progress(Event)) end) end
    },
    dyno_cli_job:run(Job, Values).

limits(Values) ->
    Names = #{limit => queue, limit_memory => bytes, limit_rate => rate},
    #{Limit => N || Option := Limit <- Names, #{Option := N} <- [Values]}.

progress({verdict, Report}) ->
    #{phase => finding, text => dyno_verify_text:report(Report)};
progress({crashed, Crash}) ->
    #{phase => warning, text => dyno_verify_text:crash(Crash)};
progress({fault, Node, Text}) ->
    #{phase => warning, text => [atom_to_binary(Node), ": ", Text]};
progress({warning, Text}) ->
    #{phase => warning, text => Text};
progress({began, Nodes}) ->
    Names = lists:join(", ", [atom_to_binary(Node) || Node <- Nodes]),
    #{phase => finding, text => ["dyno: monitoring has begun in ", Names]};
progress({counted, Summaries}) ->
    Verdicts = [Verdicts || #{verdicts := Verdicts} <- Summaries],
    Sum = fun(Key) -> lists:sum([map_get(Key, Of) || Of <- Verdicts]) end,
    Again = lists:sum([N || #{again := #{opened := N}} <- Verdicts]),
    Broken = lists:sum([No || #{monitors := All} <- Verdicts, _ := #{no := No} <- All]),
    #{
        phase => measuring,
        run => ~"verify",
        text => io_lib:format("~b processes, ~b events, ~b violations", [
            Sum(opened) - Again, Sum(events), Broken
        ])
    }.
