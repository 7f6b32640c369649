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
                "a running Erlang node, such as shop@host; none with --replay, --dump and --code",
                #{nargs => 'maybe', required => false}
            ),
            dyno_cli_command:operand(
                "[NODES...]", "more nodes", #{nargs => list, required => false, default => []}
            )
        ],
        options => [
            {"", [
                {"--for TIME", "how long to look, at least 5s (default: 10s)", duration, for_ms},
                {"--watch",
                    "looks until Ctrl-C, and prints only new findings and those that are gone"},
                {"--replay FILE", "repeats the findings of an earlier recording", text},
                {"--dump FILE", "reads a crash dump (erl_crash.dump) in place of a node", text},
                {"--code EBIN",
                    "reads .beam files or folders in place of a node: which receives search the "
                    "mailbox; more paths may follow", text}
            ]},
            {"Reports", dyno_cli_measurement:options()},
            dyno_cli_nodes:options()
        ],
        common => "--for --watch --replay --dump --code --format --output --cookie",
        examples =>
            """
            dyno doctor shop@host
                lists faults, the worst first, with advice
            dyno doctor shop@host --for 30s -o doctor.json
                looks longer, and keeps the recording
            dyno doctor --replay doctor.json
                repeats the findings of that file
            dyno doctor a@host b@host --watch
                tells what changes on two nodes
            dyno doctor --dump erl_crash.dump
                says why a node ended
            dyno doctor --code _build/default/lib/*/ebin
                names the receives that become slow with a long queue
            dyno doctor shop@host --format junit
                a health check: exit status 1 with a critical finding
            """
    }.

-spec run(dyno_cli_command:values()) -> dyno_cli_command:result().
run(Values) ->
    case [Source || Source <- [replay, dump, code], is_map_key(Source, Values)] of
        [] ->
            of_nodes(Values);
        [code] ->
            #{code := First} = Values,
            More = [P || #{node := P} <- [Values]] ++ maps:get(nodes, Values, []),
            read(fun() -> dyno_doctor:of_code([First | More]) end, Values);
        [Source] when not is_map_key(node, Values), not is_map_key(watch, Values) ->
            Path = map_get(Source, Values),
            read(fun() -> of_file(Source, Path) end, Values);
        _ ->
            dyno_cli_command:contradiction("give one of them: a NODE, --replay, --dump, --code")
    end.

of_file(dump, Path) ->
    dyno_doctor:of_dump(Path);
of_file(replay, Path) ->
    maybe
        {ok, Document} ?= dyno_error:tagged(dyno_recording_file, dyno_recording_file:read(Path)),
        {ok, dyno_doctor:again(Document)}
    end.

read(Read, Values) ->
    dyno_cli_measurement:run(#{measure => fun(_) -> Read() end}, Values).

of_nodes(#{node := First} = Values) ->
    case dyno_cli_nodes:names([First | maps:get(nodes, Values, [])]) of
        {ok, Nodes} ->
            Options = maps:merge(maps:with([for_ms], Values), dyno_cli_nodes:connection(Values)),
            dyno_cli_measurement:run(job(First, Nodes, Options, Values), Values);
        Error ->
            Error
    end;
of_nodes(_Values) ->
    dyno_cli_command:contradiction("say which node: a NODE such as shop@host, or --replay FILE").

%% The changes are the report of --watch.
job(_First, Nodes, Options, #{watch := true}) ->
    #{
        measure => fun(_) -> dyno_doctor:run(Nodes, Options#{watch => fun tell/1}) end,
        print => fun(_) -> 0 end
    };
job(First, Nodes, Options, _Values) ->
    #{
        keep => First,
        measure => fun(#{progress := Report}) ->
            Show = fun(Ms) -> Report(progress(Ms, First, Options)) end,
            dyno_doctor:run(Nodes, Options#{show => Show})
        end
    }.

tell(Changes) ->
    {_, {H, M, S}} = calendar:local_time(),
    Time = io_lib:format("~2..0b:~2..0b:~2..0b ", [H, M, S]),
    lists:foreach(
        fun(Change) -> _ = dyno_cli_terminal:print([Time, told(Change), $\n]) end, Changes
    ).

told({found, Node, #{severity := Severity, text := Text, advice := Advice} = Finding}) ->
    Evidence = [[" ", Of] || #{evidence := Of} <- [Finding], Of =/= ~""],
    [atom_to_binary(Node), " ", atom_to_binary(Severity), ": ", Text, ".", Evidence, " ", Advice];
told({lost, Node, Why}) ->
    [atom_to_binary(Node), " lost: ", Why];
told({back, Node}) ->
    [atom_to_binary(Node), " is back"];
told({gone, Node, #{text := Text}, AfterMs}) ->
    After = dyno_unit:format(AfterMs * 1_000_000, ~"ns", 2),
    [atom_to_binary(Node), " gone after ", After, ": ", Text].

progress(PassedMs, Name, Options) ->
    #{
        phase => measuring,
        run => ~"doctor",
        text => ["looking at ", Name],
        elapsed_ms => PassedMs,
        remaining_ms => max(0, maps:get(for_ms, Options, 10_000) - PassedMs)
    }.
