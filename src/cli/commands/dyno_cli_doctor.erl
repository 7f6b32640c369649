%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_cli_doctor).
-moduledoc "`dyno doctor`: finds problems of running nodes, with advice.".

-behaviour(dyno_cli_command).

-export([command/0, run/1]).

-spec command() -> dyno_cli_command:t().
command() ->
    #{
        operands => [
            dyno_cli_command:operand(
                "[NODE]",
                "a running Erlang node, such as shop@host; none with --from",
                #{nargs => 'maybe', required => false}
            ),
            dyno_cli_command:operand(
                "[NODES...]", "more nodes", #{nargs => list, required => false, default => []}
            )
        ],
        options => [
            {"", [
                {"--for TIME", "how long to look, at least 5s (default: 10s)", duration, for_ms},
                {"--from RECORDING", "repeats the findings of an earlier recording", text}
            ]},
            {"Reports", dyno_cli_job:options()},
            dyno_cli_nodes:options()
        ],
        examples => [
            {~"dyno doctor shop@host", ~"lists faults, the worst first, with advice"},
            {
                ~"dyno doctor shop@host --for 30s -o doctor.json",
                ~"looks longer, and keeps the recording"
            },
            {~"dyno doctor --from doctor.json", ~"repeats the findings of that file"},
            {
                ~"dyno doctor shop@host --format junit",
                ~"a health check: exit status 1 with a critical finding"
            }
        ]
    }.

-doc "Looks, and reports.".
-spec run(dyno_cli_command:values()) -> dyno_error:exit_status().
run(#{from := Path, node := _}) ->
    dyno_cli_command:refused(
        dyno_cli_command:contradiction(["give a NODE, or --from ", Path, ", not both"])
    );
run(#{from := Path} = Values) ->
    Measure = fun(_) ->
        maybe
            {ok, Document} ?=
                dyno_error:tagged(dyno_recording_file, dyno_recording_file:read(Path)),
            {ok, dyno_doctor:again(Document)}
        end
    end,
    dyno_cli_job:run(#{measure => Measure}, Values);
run(#{node := First} = Values) ->
    case dyno_cli_nodes:names([First | maps:get(nodes, Values, [])]) of
        {ok, Nodes} ->
            Options = maps:merge(maps:with([for_ms], Values), dyno_cli_nodes:connection(Values)),
            Job = #{
                keep => First,
                measure => fun(#{progress := Report}) ->
                    Show = fun(Ms) -> Report(progress(Ms, First, Options)) end,
                    dyno_doctor:run(Nodes, Options#{show => Show})
                end
            },
            dyno_cli_job:run(Job, Values);
        Error ->
            dyno_cli_command:refused(Error)
    end;
run(_Values) ->
    dyno_cli_command:refused(
        dyno_cli_command:contradiction(
            "say which node: a NODE such as shop@host, or --from RECORDING"
        )
    ).

progress(PassedMs, Name, Options) ->
    #{
        phase => measuring,
        run => ~"doctor",
        text => ["looking at ", Name],
        elapsed_ms => PassedMs,
        remaining_ms => max(0, maps:get(for_ms, Options, 10_000) - PassedMs)
    }.
