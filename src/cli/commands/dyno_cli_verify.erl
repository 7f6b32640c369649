%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_cli_verify).
-moduledoc "`dyno verify`: checks processes of running nodes against a specification.".

-behaviour(dyno_cli_command).

-export([command/0, run/1]).

%% Violations in full.
-define(MOST_SHOWN, 100).

-spec command() -> dyno_cli_command:t().
command() ->
    #{
        operands => [
            dyno_cli_command:operand(
                "SPEC",
                "a file of properties, or a monitor's module: a .erl, a .beam or its name"
            ),
            dyno_cli_command:operand(
                "[NODE]",
                "a running Erlang node, such as shop@host; none with --replay",
                #{nargs => 'maybe', required => false}
            ),
            dyno_cli_nodes:processes(monitored, "which processes", "those of the properties")
        ],
        options => [
            {"", [
                {"--for TIME", "how long to check: 30s, 10min (default: until Ctrl-C)", duration,
                    for_ms},
                {"--record FILE", "writes the needed events to a file in the node, for --replay",
                    text},
                {"--replay FILE",
                    "reads events of --record, OTP's trace port, or text, instead of nodes", text},
                {"--instrumentation NAME",
                    "how events reach the monitors: partition (default), centralised, inline, or "
                    "a module of dyno_agent_verifier", atom},
                {"--limit N",
                    "the most waiting events in a node; beyond, whole processes are given up "
                    "(default: 1000000)", {whole, 1000, infinity}},
                {"--limit-memory SIZE", "the most memory for waiting events (default: 512MiB)",
                    size},
                {"--limit-rate N", "the most events a second (default: none)",
                    {whole, 1, infinity}},
                dyno_cli_option:code_paths()
            ]},
            {"Reports", dyno_cli_measurement:options()},
            dyno_cli_nodes:options()
        ],
        common => "--for --record --replay --limit --output --pa --cookie",
        examples =>
            """
            dyno verify worker.dyno shop@host
                checks a node until Ctrl-C
            dyno verify once.erl shop@host --for 30s -o once.html
                runs a monitor of yours for half a minute, and writes a page
            dyno verify worker.dyno shop@host app:shop
                checks an application's processes instead of those of the properties
            dyno verify worker.dyno --replay events.log
                checks the events of a file
            dyno verify worker.dyno a@host b@host --for 1min --limit 100000
                checks two nodes, with at most 100,000 waiting events in each
            """
    }.

-spec run(dyno_cli_command:values()) -> dyno_cli_command:result().
run(#{node := _, replay := _}) ->
    dyno_cli_command:contradiction("--replay reads events from a file; give no NODE");
run(#{spec := Spec, replay := File} = Values) ->
    job(filename:basename(Spec), Values, fun(Show) ->
        dyno_verify_replay:run([Spec], File, #{show => Show})
    end);
run(#{spec := Spec, node := First} = Values) ->
    case dyno_cli_nodes:read([First | maps:get(process, Values, [])], monitored) of
        {ok, Nodes, Filters} ->
            Own = maps:with([for_ms, instrumentation, record], Values),
            Given = Own#{processes => Filters},
            Options = maps:merge(Given, dyno_cli_nodes:connection(Values)),
            job(First, Values, fun(Show) ->
                dyno_verify:run([Spec], Nodes, Options#{limits => limits(Values), show => Show})
            end);
        Error ->
            Error
    end;
run(_Values) ->
    dyno_cli_command:contradiction("say which NODE, or --replay FILE").

job(Keep, Values, Run) ->
    Job = #{
        keep => Keep,
        measure => fun(#{progress := Report}) ->
            Ended = Run(fun(Event) ->
                case is_shown(Event) of
                    true -> Report(progress(Event));
                    false -> ok
                end
            end),
            lists:foreach(fun(Text) -> Report(#{phase => finding, text => Text}) end, more(Ended)),
            Ended
        end
    },
    dyno_cli_measurement:run(Job, Values).

%% The first violation of each step of a property, and each fault, once.
is_shown({verdict, Report}) ->
    is_new({dyno_verify_text:property(Report), dyno_verify_text:step(Report)});
is_shown({fault, Node, Text}) ->
    is_new({fault, Node, Text});
is_shown(_Event) ->
    true.

is_new(Of) ->
    Shown =
        case get(?MODULE) of
            undefined -> #{};
            Known -> Known
        end,
    IsNew = not is_map_key(Of, Shown) andalso map_size(Shown) < ?MOST_SHOWN,
    _ = [put(?MODULE, Shown#{Of => []}) || IsNew],
    IsNew.

%% The recording has the first ones of all.
more({ok, Document}) ->
    Rows = fun(Table) ->
        lists:append([dyno_recording:rows(Run, Table) || Run <- dyno_recording:runs(Document)])
    end,
    Shown = lists:usort([
        {Property, maps:get(~"step", Row, null)}
     || #{~"property" := Property} = Row <- Rows(~"violations")
    ]),
    Told = lists:sublist(Shown, ?MOST_SHOWN),
    Broken = #{
        Property => lists:sum([N || #{~"violations" := N} <- Of])
     || Property := Of <- maps:groups_from_list(
            fun(#{~"property" := Property}) -> Property end, Rows(~"properties")
        )
    },
    [
        dyno_recording_part:text("~ts: and ~b more like ~ts", [
            Property, More, map_get(length(Of) =:= 1, #{true => ~"it", false => ~"these"})
        ])
     || Property := Of <- maps:groups_from_list(fun({Property, _}) -> Property end, Told),
        More <- [maps:get(Property, Broken, 0) - length(Of)],
        More > 0
    ];
more(_Error) ->
    [].

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
        text => dyno_recording_part:text("~b processes, ~b events, ~b violations", [
            Sum(opened) - Again, Sum(events), Broken
        ])
    }.
