%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_cli_top).
-moduledoc "`dyno top`: shows running nodes and their processes live, in a terminal.".

-behaviour(dyno_cli_command).

-export([command/0, run/1]).

-define(SORTS, [reductions, queue, growth, memory]).
-define(VIEWS, [processes, applications, supervisors, ets, mnesia, ports, memory, nodes]).
-define(INTERVAL_MS, 2000).

-spec command() -> dyno_cli_command:t().
command() ->
    #{
        operands => [
            dyno_cli_command:operand(
                "NODE...", "running Erlang nodes, such as shop@host", #{nargs => nonempty_list}
            )
        ],
        options => [
            {"", [
                {"--interval TIME", "the time of a reading (default: 2s)",
                    {custom, fun interval/1, "a duration from 200ms up, such as 2s"}, interval_ms},
                {"-n, --count N", "ends after N readings (default: never)", {whole, 1, infinity}},
                {"--sort KEY",
                    "sorts by reductions, queue, growth (of the queue) or memory (default: "
                    "reductions)", {one_of, ?SORTS}},
                {"--view VIEW",
                    "begins with processes, applications, supervisors, ets, mnesia, ports, memory "
                    "(allocators) or nodes (default: processes)", {one_of, ?VIEWS}},
                {"--group GROUP",
                    "a row for each process, or for each first function (default: process)",
                    {one_of, [process, function]}},
                {"--filter TEXT",
                    "only items with TEXT in their name or group; app:NAME: an application's "
                    "processes"},
                {"--format FORMAT", "json: a line for each reading, on standard output",
                    {one_of, [json]}}
            ]},
            dyno_cli_nodes:options()
        ],
        examples =>
            """
            dyno top shop@host
                shows the node; h lists the keys
            dyno top a@host b@host --sort queue
                shows the longest queues of two nodes; n changes the node
            dyno top shop@host -n 1 --view ets --format json
                prints one reading of two seconds as data, with the ETS tables
            """
    }.

interval(Text) ->
    case dyno_cli_option:value(duration, Text) of
        {ok, Ms} when Ms >= 200 -> {ok, Ms};
        _ -> error
    end.

-spec run(dyno_cli_command:values()) -> dyno_cli_command:result().
run(#{node := Texts} = Values) ->
    maybe
        {ok, Nodes} ?= dyno_cli_nodes:names(Texts),
        ok = dyno_cli_interrupt:subscribe(),
        {ok, Looking} ?= dyno_top:open(Nodes, dyno_cli_nodes:connection(Values)),
        View = dyno_cli_top_view:new((maps:with([sort, view], Values))#{
            nodes => Nodes,
            grouped => maps:get(group, Values, process) =:= function,
            filter => dyno_report_text:encode(maps:get(filter, Values, ~""))
        }),
        {Status, Last} = dyno_cli_top_screen:run(View, Looking, #{
            interval_ms => maps:get(interval_ms, Values, ?INTERVAL_MS),
            count => maps:get(count, Values, infinity),
            format => maps:get(format, Values, none)
        }),
        _ = [dyno_cli_terminal:note(["dyno: ", Text]) || Text <- dyno_top:close(Last)],
        ok = dyno_cli_interrupt:measured(),
        dyno_cli_terminal:status(Status)
    end.
