%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_verify_SUITE).
-moduledoc "dyno verify: from a specification to a recording, in one node and in two.".

-include_lib("stdlib/include/assert.hrl").
-include_lib("kernel/include/file.hrl").

-import(dyno_truth, [rows/2]).

-compile([export_all, nowarn_export_all]).

%% Answers each request, but every so often with another number.
-define(WORKER, """
-module(worker).
-export([run/2, loop/2]).
run(Workers, Wrong) ->
    lists:foreach(
        fun(N) ->
            {Pid, Ref} = spawn_monitor(worker, loop, [self(), N =< Wrong]),
            lists:foreach(
                fun(R) ->
                    Pid ! {request, R},
                    receive {reply, _} -> ok end
                end,
                [1, 2, 3]),
            Pid ! stop,
            receive {'DOWN', Ref, process, Pid, normal} -> ok end
        end,
        lists:seq(1, Workers)).
loop(Driver, Wrong) ->
    receive
        {request, 2} when Wrong -> Driver ! {reply, 7}, loop(Driver, Wrong);
        {request, N} -> Driver ! {reply, N}, loop(Driver, Wrong);
        stop -> ok
    end.

""").

-define(SPECIFICATION, """
property "each request is answered once"
of module worker
follows (receive {request, N} then send {reply, N})*.
""").

suite() ->
    [{timetrap, {minutes, 2}}].

all() ->
    [
        a_property_that_holds,
        a_property_that_is_broken,
        of_other_processes,
        a_module_of_ones_own,
        two_nodes,
        a_node_is_lost,
        the_rate_is_limited,
        deadlines_of_keys,
        the_command,
        recorded_and_replayed,
        a_recording_that_is_not_kept,
        what_is_wrong_is_said
    ].

init_per_suite(Config) ->
    ok = dyno_target_node:ensure_distribution(#{}),
    dyno_command:with_server(Config).

end_per_suite(Config) -> dyno_command:without_server(Config).

init_per_testcase(_Case, Config) ->
    Path = filename:join(proplists:get_value(priv_dir, Config), "worker.dyno"),
    ok = file:write_file(Path, ?SPECIFICATION),
    [{specification, unicode:characters_to_binary(Path)} | Config].

end_per_testcase(_Case, Config) ->
    dyno_disk:unmount(filename:join(proplists:get_value(priv_dir, Config), "disk")).

a_property_that_holds(Config) ->
    in_node(fun(Node) ->
        Document = verified(Config, [Node], fun() -> work(Node, 100, 0) end),
        ?assertMatch(#{~"status" := ~"complete", ~"warnings" := []}, Document),
        [Verdict] = map_get(~"verdicts", Document),
        ?assertMatch(
            #{
                ~"kind" := ~"property",
                ~"name" := ~"each request is answered once",
                ~"result" := ~"pass",
                ~"text" := ~"held by 100 processes"
            },
            Verdict
        ),
        ?assertMatch(
            [#{~"complete" := 100, ~"partial" := 0, ~"gap" := 0, ~"open" := 0}],
            rows(~"partitions", Document)
        ),
        ?assertMatch(
            [#{~"text" := ~"Traces: 100 complete, from start to end."}],
            rows(~"soundness", Document)
        )
    end).

a_property_that_is_broken(Config) ->
    in_node(fun(Node) ->
        Document = verified(Config, [Node], fun() -> work(Node, 100, 5) end),
        Told = told(0),
        ?assertEqual(5, Told),
        [#{~"result" := ~"fail"}] = map_get(~"verdicts", Document),
        [#{~"processes" := 100, ~"violations" := 5, ~"met" := 95}] = rows(~"properties", Document),
        Rows = rows(~"violations", Document),
        ?assertEqual(5, length(Rows)),
        #{~"bindings" := ~"N = 2", ~"trace" := ~"complete", ~"events" := Events} = hd(Rows),
        ?assertMatch({_, _}, binary:match(Events, ~"receives {request,2}")),
        ?assertMatch({_, _}, binary:match(Events, ~"sends {reply,7} to <0."))
    end).

%% Named by the caller, in place of the property's.
of_other_processes(Config) ->
    in_node(fun(Node) ->
        Verified = fun(Filter) ->
            Work = fun() -> work(Node, 20, 2) end,
            Document = verified(Config, [Node], Work, #{processes => [Filter]}),
            [#{~"result" := Result}] = map_get(~"verdicts", Document),
            [#{~"processes" := Processes}] = rows(~"properties", Document),
            #{~"processes" := Shown} = map_get(~"parameters", Document),
            {Result, Processes, Shown, told(0)}
        end,
        ?assertEqual({~"fail", 20, [~"module:worker"], 2}, Verified({module, worker})),
        ?assertEqual({~"unknown", 1, [~"name:init"], 0}, Verified({registered, init})),
        lists:foreach(
            fun(Text) ->
                {error, {dyno_process_filter, _}} = dyno_process_filter:parse(Text, monitored)
            end,
            [~"all", ~"new", ~"sup:kernel_sup", ~"gen_server", ~"busiest:3"]
        )
    end).

%% A monitor as source.
a_module_of_ones_own(Config) ->
    Path = filename:join(proplists:get_value(priv_dir, Config), "my_monitor.erl"),
    ok = file:write_file(Path, """
    -module(my_monitor).
    -behaviour(dyno_agent_monitor).
    -export([needs/0, init/1, event/3]).
    needs() -> #{property => ~"no seven", select => [{module, worker}], events => [send]}.
    init(_) -> none.
    event({send, {reply, 7}, _}, _, State) -> {no, #{step => ~"seven"}, State};
    event(_, _, State) -> {next, State}.
    """),
    in_node(fun(Node) ->
        Own = [{specification, unicode:characters_to_binary(Path)}],
        Document = verified(Own, [Node], fun() -> work(Node, 10, 2) end),
        ?assertMatch(
            [#{~"name" := ~"no seven", ~"result" := ~"fail"}], map_get(~"verdicts", Document)
        )
    end).

two_nodes(Config) ->
    in_node(fun(A) ->
        in_node(fun(B) ->
            Document = verified(Config, [A, B], fun() ->
                work(A, 20, 1),
                work(B, 30, 2)
            end),
            ?assertEqual(
                lists:sort([{atom_to_binary(A), 20, 1}, {atom_to_binary(B), 30, 2}]),
                lists:sort([
                    {Node, Processes, Broken}
                 || #{
                        ~"node" := Node,
                        ~"processes" := Processes,
                        ~"violations" := Broken
                    } <- rows(~"properties", Document)
                ])
            )
        end)
    end).

%% What is known of it is kept; the other goes on.
a_node_is_lost(Config) ->
    in_node(fun(A) ->
        {_, B} = Peer = started(),
        Document = verified(Config, [A, B], fun() ->
            work(B, 10, 0),
            _ = erpc:call(B, erlang, spawn, [worker, loop, [self(), false]]),
            %% Until it has been counted.
            counted(B, 11),
            dyno_peers:stop(Peer),
            work(A, 10, 0)
        end),
        Gaps =
            #{
                Node => Gap
             || #{~"node" := Node, ~"gap" := Gap} <- rows(~"partitions", Document)
            },
        ?assertEqual(#{atom_to_binary(A) => 0, atom_to_binary(B) => 1}, Gaps),
        Undecided =
            #{
                Node => N
             || #{~"node" := Node, ~"inconclusive" := N} <- rows(~"properties", Document)
            },
        ?assertEqual(Gaps, Undecided),
        [#{~"result" := ~"unknown", ~"text" := Why}] = map_get(~"verdicts", Document),
        ?assertMatch({_, _}, binary:match(Why, ~"and 1 process there was cut off")),
        #{~"error" := #{~"text" := Text}} = Document,
        ?assertMatch({_, _}, binary:match(Text, ~"was lost"))
    end).

%% Processes are left out as a whole, and of the others nothing wrong is said.
the_rate_is_limited(Config) ->
    in_node(fun(Node) ->
        Work = fun() -> work(Node, 1000, 0) end,
        Document = verified(Config, [Node], Work, #{limits => #{rate => 100}}),
        [#{~"gap" := Gap, ~"complete" := Complete}] = rows(~"partitions", Document),
        ?assert(Gap > 0, Complete),
        ?assertMatch([#{~"violations" := 0}], rows(~"properties", Document)),
        ?assertMatch([#{~"code" := ~"verify_gap"}], map_get(~"warnings", Document))
    end).

%% Nothing happens any more in the process that did not answer: a timer tells, each key once.
deadlines_of_keys(Config) ->
    Path = filename:join(proplists:get_value(priv_dir, Config), "keys.dyno"),
    ok = file:write_file(
        Path,
        "property \"told in time\" of module worker "
        "each N follows (receive {ask, N} then send {told, N} within 50 ms)*."
    ),
    Own = [{specification, unicode:characters_to_binary(Path)}],
    in_node(fun(Node) ->
        Document = verified(Own, [Node], fun() ->
            Worker = erpc:call(Node, erlang, spawn, [worker, loop, [self(), false]]),
            ?assertMatch({deadline, #{'N' := 1}}, asked(1, Worker)),
            ?assertMatch({deadline, #{'N' := 2}}, asked(2, Worker)),
            Worker ! stop
        end),
        ?assertMatch([#{~"violations" := 2}], rows(~"properties", Document))
    end).

asked(N, Worker) ->
    Worker ! {ask, N},
    receive
        {shown, {verdict, #{verdict := no, explanation := Explanation}}} ->
            #{because := Because, bindings := Bindings} = Explanation,
            {Because, Bindings}
    after 10_000 -> ct:fail(not_told)
    end.

counted(Node, Processes) ->
    receive
        {shown, {counted, Summaries}} ->
            case [N || #{node := Of, verdicts := #{opened := N}} <- Summaries, Of =:= Node] of
                [Processes] -> ok;
                _ -> counted(Node, Processes)
            end
    end.

%% As a user runs it: the violation is told, and gives the exit status.
the_command(Config) ->
    in_node(fun(Node) ->
        Driver = erpc:call(Node, erlang, spawn, [fun_forever()]),
        ?assert(is_pid(Driver)),
        Recording = filename:join(proplists:get_value(priv_dir, Config), "verify.json"),
        {Status, Output} = dyno_command:run([
            "verify",
            unicode:characters_to_list(specification(Config)),
            atom_to_list(Node),
            "--cookie",
            atom_to_list(erlang:get_cookie()),
            "--for",
            "2s",
            "-o",
            Recording
        ]),
        ct:log("~ts", [Output]),
        ?assertEqual(1, Status),
        lists:foreach(
            fun(Text) -> ?assertMatch({_, _}, binary:match(Output, Text)) end,
            [
                ~"each request is answered once: broken by <0.",
                ~"which runs worker:loop/2",
                ~"bindings  N = 2",
                ~"Traces: "
            ]
        ),
        %% The first one in full, and a count.
        {ok, Document} = dyno_recording_file:read(Recording),
        [Run] = dyno_recording:runs(Document),
        {ok, #{~"value" := Count}} = dyno_recording:metric(Run, ~"verify.violations"),
        ?assert(Count > 1, Count),
        ?assertMatch([_], binary:matches(Output, ~"broken by")),
        More = integer_to_list(round(Count) - 1),
        ?assertMatch([_], binary:matches(Output, iolist_to_binary([": and ", More, " more like it"])))
    end).

%% What was recorded gives the same violations again, without the node.
recorded_and_replayed(Config) ->
    Folder = proplists:get_value(priv_dir, Config),
    [Events, Live, Again] = [filename:join(Folder, N) || N <- ["events.rec", "1.json", "2.json"]],
    Spec = unicode:characters_to_list(specification(Config)),
    in_node(fun(Node) ->
        _ = erpc:call(Node, erlang, spawn, [fun_forever()]),
        {1, Output} = dyno_command:run([
            "verify",
            Spec,
            atom_to_list(Node),
            "--cookie",
            atom_to_list(erlang:get_cookie()),
            "--for",
            "2s",
            "--record",
            Events,
            "-o",
            Live
        ]),
        ct:log("~ts", [Output])
    end),
    {1, Output} = dyno_command:asked(Config, ["verify", Spec, "--replay", Events, "-o", Again]),
    ct:log("~ts", [Output]),
    Broken = fun(Path) ->
        {ok, Document} = dyno_recording_file:read(Path),
        #{~"runs" := [Run], ~"verdicts" := [#{~"result" := ~"fail"} | _]} = Document,
        [#{~"rows" := Rows}] = dyno_recording:tables(Run, ~"violations"),
        ?assertMatch([_ | _], Rows),
        {ok, #{~"value" := Count}} = dyno_recording:metric(Run, ~"verify.violations"),
        {Count, lists:sort([[Property, Process] || [_, Property, Process | _] <- Rows])}
    end,
    ?assertEqual(Broken(Live), Broken(Again)),
    %% All have what processes were sent.
    Compared = filename:rootname(Again) ++ "-compared.json",
    _ = dyno_command:asked(Config, ["compare", Live, Again, "--force", "-o", Compared]),
    [
        begin
            {ok, #file_info{mode = Mode}} = file:read_file_info(Path),
            ?assertEqual({Path, 8#600}, {Path, Mode band 8#777})
        end
     || Path <- [Events, Live, Again, Compared]
    ],
    {2, Same} = dyno_command:asked(Config, ["verify", Spec, "a@b", "c@b", "--record", Events]),
    ?assertMatch({_, _}, binary:match(Same, ~"a@b and c@b are on one machine")),
    {2, Both} = dyno_command:asked(Config, ["verify", Spec, "a@b", "--replay", Events]),
    ?assertMatch({_, _}, binary:match(Both, ~"give no NODE")),
    {2, Neither} = dyno_command:asked(Config, ["verify", Spec]),
    ?assertMatch({_, _}, binary:match(Neither, ~"--replay FILE")),
    {2, Nothing} = dyno_command:asked(Config, ["verify", Spec, "--replay", "/nowhere/x"]),
    ?assertMatch({_, _}, binary:match(Nothing, ~"cannot read /nowhere/x")),
    {2, NoWay} = dyno_command:asked(Config, ["verify", Spec, "a@b", "--instrumentation", "by_magic"]),
    ?assertMatch({_, _}, binary:match(NoWay, ~"there is no instrumentation by_magic")).

%% A fun of the shell's: the node has no code of this suite.
fun_forever() ->
    {ok, Tokens, _} = erl_scan:string(
        "fun F() -> worker:run(20, 1), receive after 100 -> F() end end."
    ),
    {ok, [Form]} = erl_parse:parse_exprs(Tokens),
    {value, Fun, _} = erl_eval:expr(Form, #{}),
    Fun.

what_is_wrong_is_said(Config) ->
    Bad = filename:join(proplists:get_value(priv_dir, Config), "bad.dyno"),
    ok = file:write_file(Bad, "property a of module m never sned _."),
    Said = fun(Spec, Nodes) ->
        {error, Error} = dyno_verify:run([unicode:characters_to_binary(Spec)], Nodes, #{}),
        unicode:characters_to_binary(dyno_error:format(Error))
    end,
    ?assertMatch({_, _}, binary:match(Said(Bad, [node()]), ~"line 1, column ")),
    ?assertMatch({_, _}, binary:match(Said("nothing.dyno", [node()]), ~"nothing.dyno")),
    ?assertMatch({_, _}, binary:match(Said("lists", [node()]), ~"needs/0")),
    ?assertMatch(
        {_, _}, binary:match(Said(specification(Config), ['nobody@127.0.0.1']), ~"nobody@127.0.0.1")
    ).

%% A folder that is missing is told before anything is monitored; a disk that fills, at the end.
a_recording_that_is_not_kept(Config) ->
    Disk = filename:join(proplists:get_value(priv_dir, Config), "disk"),
    in_node(fun(Node) ->
        _ = erpc:call(Node, erlang, spawn, [fun_forever()]),
        Record = fun(File) ->
            dyno_command:run([
                "verify",
                unicode:characters_to_list(specification(Config)),
                atom_to_list(Node),
                "--cookie",
                atom_to_list(erlang:get_cookie()),
                "--for",
                "2s",
                "--record",
                File,
                "-o",
                filename:join(proplists:get_value(priv_dir, Config), "disk.json")
            ])
        end,
        {2, Missing} = Record(filename:join(Disk, "none/events")),
        ?assertMatch({_, _}, binary:match(Missing, ~"there is no folder"), Missing),
        ok = dyno_leftovers:until(fun() -> dyno_leftovers:in(Node) =:= [] end),
        case dyno_disk:mount(Disk, 64) of
            ok ->
                {3, Full} = Record(filename:join(Disk, "events")),
                ?assertMatch({match, _}, re:run(Full, "the disk is full.* [0-9]+ of [0-9]+"), Full),
                ?assertEqual(nomatch, binary:match(Full, ~"PASSED")),
                {ok, Kept} = dyno_verify_log:fold(
                    filename:join(Disk, "events"), fun(_, Count) -> Count + 1 end, 0
                ),
                ?assert(Kept > 100);
            Skip ->
                Skip
        end
    end).

%% Verifies while this runs; the recording is one that can be read.
verified(Config, Nodes, Work) ->
    verified(Config, Nodes, Work, #{}).

verified(Config, Nodes, Work, Options) ->
    Self = self(),
    {Pid, Ref} = spawn_monitor(fun() ->
        exit(
            {result,
                dyno_verify:run([specification(Config)], Nodes, Options#{
                    show => fun(Event) ->
                        Self ! {shown, Event},
                        ok
                    end
                })}
        )
    end),
    %% The first count is there: it has begun.
    receive
        {shown, {counted, _}} -> ok;
        {'DOWN', Ref, process, Pid, Early} -> ct:fail(Early)
    end,
    Work(),
    Pid ! stop,
    receive
        {'DOWN', Ref, process, Pid, Reason} ->
            {result, {ok, Document}} = Reason,
            ct:log("~tp", [Document]),
            {ok, _} = dyno_recording:validate(Document),
            Document
    end.

specification(Config) -> proplists:get_value(specification, Config).

told(N) ->
    receive
        {shown, {verdict, #{verdict := no}}} -> told(N + 1)
    after 0 -> N
    end.

work(Node, Workers, Wrong) ->
    ok = erpc:call(Node, worker, run, [Workers, Wrong]).

started() ->
    {_, Node} = Peer = dyno_peers:start(["+S", "2"]),
    worker = dyno_peers:load(Node, ?WORKER),
    Peer.

in_node(Test) -> dyno_leftovers:in_node([?WORKER], Test).
