%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_cli_servers).
-moduledoc "`dyno servers`: shows every server process of running nodes, live and as a recording.".

-behaviour(dyno_cli_command).

-export([command/0, run/1]).

-define(DETAILS, [auto, rate, time, distribution]).
%% Of single callbacks.
-define(EACH_MS, 60_000).
-define(EACH_PER_SECOND, 10).

-spec command() -> dyno_cli_command:t().
command() ->
    #{
        operands => [
            dyno_cli_command:operand(
                "NODE", "a running Erlang node: shop@host, or shop on this machine"
            ),
            dyno_cli_nodes:processes(servers, "which servers", "all")
        ],
        options => [
            {"", measuring()},
            {"Display", [
                {"--sort KEY",
                    "sorts by busy, rate, p99, max, queue, delay, cpu, words, exceptions or name "
                    "(default: busy)", {one_of, dyno_servers_row:keys()}},
                {"--filter TEXT",
                    "only servers with TEXT in their name, module, application or supervisor"},
                {"--group GROUP",
                    "a row for each process, name, module, supervisor, application, behaviour, "
                    "node or cluster (default: process)", {one_of, dyno_servers_window:groups()}}
            ]},
            {"Sinks", [
                {"--sink URL",
                    "sends the figures of each interval to statsd://HOST:PORT, "
                    "dogstatsd://HOST:PORT, statsd+unix:/PATH, prometheus://127.0.0.1:9464, "
                    "otlp+http://HOST:4318 or telemetry; repeatable",
                    {many, {custom, fun dyno_servers_sink:parse/1, "a sink's URL"}}, sinks}
            ]},
            {"Alarms", [
                {"--alarm EXPRESSION",
                    "reports a server beyond a limit: \"queue > 1000\", \"p99 > 20 ms\", or of one "
                    "\"servers orders queue > 1000\"; repeatable",
                    {many, {custom, fun dyno_servers_watch:read/1, "an alarm"}}, watches}
            ]},
            {"Limits; the exit status is 1 if one does not hold", [
                {"--threshold EXPRESSION",
                    "a limit on the whole time, such as \"servers orders p99 < 20 ms\"; repeatable",
                    {many, {custom, fun threshold/1, "a threshold"}}, thresholds}
            ]},
            {"Reports", dyno_cli_measurement:options()},
            dyno_cli_nodes:options()
        ],
        common =>
            "--for --sort --filter --group --each --sink --alarm --threshold --output "
            "--cookie",
        examples => examples()
    }.

measuring() ->
    [
        {"--for TIME", "how long to measure: 30s (default: until Ctrl-C)", duration, for_ms},
        {"--interval TIME", "the time of one reading (default: 1s)",
            {custom, fun interval/1, "a duration from 100ms up, such as 1s"}, interval_ms},
        {"--detail DETAIL",
            "rate (counts only), time (calls, processor time and words), distribution (each "
            "callback's wall time, its messages, queue and waiting), or auto, the most that the "
            "node can afford (default: auto)", {one_of, ?DETAILS}, level},
        {"--each N",
            "prints N callbacks with their messages, 10 a second or a tenth of N, for a minute at "
            "most", {whole, 1, infinity}}
    ].

interval(Text) ->
    case dyno_cli_option:value(duration, Text) of
        {ok, Ms} when Ms >= 100 -> {ok, Ms};
        _ -> error
    end.

threshold(Text) -> dyno_threshold:read(Text, dyno_servers_recording:known()).

examples() ->
    """
    dyno servers shop@host
        shows all servers of a node until Ctrl-C
    dyno servers shop@host orders --for 30s -o orders.html
        measures one server, or those of one module, and writes a page
    dyno servers shop@host sup:shop_sup --sort queue --filter cache
        shows a supervisor's servers named like cache, the longest queue first
    dyno servers a@host b@host app:shop --group module
        adds up the servers of an application in two nodes by module
    dyno servers shop@host orders --each 20
        shows the next 20 messages of a server
    dyno servers shop@host --sink dogstatsd://localhost:8125
        sends the figures of each second to Datadog's agent
    dyno servers shop@host --for 1min --threshold "servers orders queue_max < 100"
        exits with status 1 if more messages waited
    dyno servers shop@host --alarm "queue > 1000"
        reports servers with more messages, and their recovery
    """.

-spec run(dyno_cli_command:values()) -> dyno_cli_command:result().
run(#{node := First} = Values) ->
    maybe
        {ok, Nodes, Filters} ?=
            dyno_cli_nodes:read([First | maps:get(process, Values, [])], servers),
        Keys = [for_ms, interval_ms, level, group, sinks, watches, thresholds],
        Measured = each((maps:with(Keys, Values))#{servers => servers(Filters)}, Values),
        Options = maps:merge(Measured, dyno_cli_nodes:connection(Values)),
        Screen = dyno_cli_servers_screen:start_link(Values),
        Job = #{
            keep => First,
            measure => fun(Context) -> measure(Nodes, Options, Screen, Context) end
        },
        Status = dyno_cli_measurement:run(Job, Values),
        ok = dyno_cli_servers_screen:stop(Screen),
        Status
    end.

each(Options, #{each := Count}) ->
    ForMs = maps:get(for_ms, Options, ?EACH_MS),
    PerSecond = max(?EACH_PER_SECOND, Count div 10),
    Options#{
        level => each,
        for_ms => ForMs,
        %% Some run before the screen starts.
        each => #{
            count => Count + PerSecond,
            per_second => PerSecond,
            seconds => ForMs div 1000 + 1
        }
    };
each(Options, _Values) ->
    Options.

measure(Nodes, Options, Screen, #{progress := Report}) ->
    ok = dyno_cli_servers_screen:quits(Screen, self()),
    Show = fun(Event) ->
        case dyno_cli_servers_screen:has_progress(Screen) of
            true -> lists:foreach(Report, progress(Event));
            false -> ok
        end,
        dyno_cli_servers_screen:show(Screen, Event)
    end,
    Result = dyno_servers_run:run(Nodes, Options#{show => Show}),
    ok = dyno_cli_servers_screen:clear(Screen, Result),
    Result.

progress({window, #{servers := Servers}}) ->
    Number = length(Servers),
    Plural = [$s || Number =/= 1],
    Text = io_lib:format("measuring ~b server~ts", [Number, Plural]),
    [#{phase => measuring, run => ~"servers", text => Text}];
progress({lost, Node, Error}) ->
    [#{phase => warning, text => [atom_to_binary(Node), ": ", dyno_error:format(Error)]}];
progress({back, Node}) ->
    [#{phase => warning, text => [atom_to_binary(Node), " is back"]}];
progress({alarm, _, _}) ->
    [].

servers([]) -> [all];
servers(Filters) -> Filters.
