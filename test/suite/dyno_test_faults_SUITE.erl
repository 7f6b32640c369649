%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_test_faults_SUITE).
-moduledoc """
Tests that go wrong, of real nodes: each must end in good order, say in one sentence what happened,
keep what it has measured, and leave nothing in the target and in the temporary folder.
""".

-include_lib("stdlib/include/assert.hrl").

-import(dyno_suites, [says/2]).

-compile([export_all, nowarn_export_all]).

suite() ->
    [{timetrap, {minutes, 5}}].

%% The agent under attack, and who leads it.
each_release() ->
    [
        caller_killed,
        target_killed,
        target_traces_itself,
        target_reloads_a_module,
        interrupt
    ].

all() ->
    [
        {group, callers},
        {group, targets},
        {group, callbacks},
        {group, disks},
        {group, interrupts}
    ].

groups() ->
    [
        {callers, [], [caller_killed, vm_killed]},
        {targets, [], [
            target_killed,
            target_traces_itself,
            target_reloads_a_module,
            target_too_old
        ]},
        {callbacks, [], [
            callback_raises,
            callback_process_dies,
            callback_is_misspelt,
            suite_never_returns,
            node_is_not_there,
            pattern_matches_nothing
        ]},
        {disks, [], [
            folder_not_writable,
            folder_goes,
            disk_fills
        ]},
        {interrupts, [], [interrupt, interrupt_a_set_up, interrupt_twice]}
    ].

slow() -> [target_too_old].

init_per_suite(Config) ->
    dyno_suites:with_target(Config).

end_per_suite(Config) ->
    dyno_suites:without_target(Config).

init_per_testcase(Case, Config) ->
    Before = dyno_suites:snapshot(proplists:get_value(node, Config)),
    [{before, Before} | dyno_suites:prepare(Case, Config)].

end_per_testcase(_Case, Config) ->
    ok = dyno_disk:unmount(filename:join(proplists:get_value(work, Config), "disk")),
    dyno_suites:if_passed(Config, fun() -> clean(Config) end).

clean(Config) ->
    dyno_suites:clean(Config, proplists:get_value(before, Config)).

node_of(Config) -> proplists:get_value(node, Config).

in_work(Config, File) -> filename:join(proplists:get_value(work, Config), File).

short(Options) ->
    maps:merge(
        #{
            sizes => [1],
            duration_ms => 300,
            warmup_ms => 0,
            interval_ms => 100,
            patterns => ["target_work"],
            control => false
        },
        Options
    ).

%% Longer than any test: it must be ended.
long(Options) ->
    short(Options#{duration_ms => 600_000}).

%% Callbacks that mark their turn, on a target; each operation takes a few milliseconds.
ordinary(Node) ->
    [
        dyno_suites:on_target(Node),
        "init_suite() -> mark(init_suite), {ok, suite_state}.\n"
        "end_suite(State) -> mark({end_suite, State}).\n",
        dyno_suites:one_call(pause, 5)
    ].

%% A test in a process of its own.
start(Source, Options) ->
    spawn_monitor(fun() -> exit({result, dyno_test:run(Source, Options)}) end).

result({Pid, Monitor}) ->
    receive
        {'DOWN', Monitor, process, Pid, {result, Result}} -> Result;
        {'DOWN', Monitor, process, Pid, Reason} -> error(Reason)
    end.

%% Until the counters and the rest are at work, and operations were made.
await_work(Node) ->
    dyno_suites:await(fun() ->
        lists:keymember(session, 1, dyno_leftovers:in(Node)) andalso
            erpc:call(Node, trace, session_info, [{target_work, pause, 1}]) =/= []
    end).

%% The progress says when it measures.
await_measuring(Config, Source, Options) ->
    Self = self(),
    Ref = make_ref(),
    Started = start(Source, Options#{
        progress => fun
            (#{phase := measure, run := Run, throughput := T}) when is_float(T) ->
                Self ! {Ref, Run},
                ok;
            (_) ->
                ok
        end
    }),
    {Pid, Monitor} = Started,
    receive
        {Ref, Run} -> {Run, Started};
        {'DOWN', Monitor, process, Pid, Reason} -> ct:fail({not_measured, Reason, Config})
    end.

text(Reason) ->
    unicode:characters_to_binary(dyno_error:format(Reason)).

%% One sentence that has all the parts.
failed(Document, Parts) ->
    ?assertMatch(#{~"status" := ~"failed"}, Document),
    {ok, _} = dyno_recording:validate(Document),
    says(dyno_suites:error_text(Document), Parts).

kill(OsPid) ->
    _ = os:cmd("kill -KILL " ++ OsPid),
    ok.

%% Callers

caller_killed(Config) ->
    Node = node_of(Config),
    Source = dyno_suites:write(Config, caller_killed, long(#{}), ordinary(Node)),
    {_, {Caller, Monitor}} = await_measuring(Config, Source, #{}),
    await_work(Node),
    exit(Caller, kill),
    receive
        {'DOWN', Monitor, process, Caller, killed} -> ok
    end,
    dyno_suites:await_mark(Config, {end_suite, suite_state}),
    dyno_suites:await(fun() -> code:is_loaded(caller_killed) =:= false end),
    ?assertEqual(
        [init_suite, {init_run, 1}, {end_run, Node}, {end_suite, suite_state}],
        dyno_suites:marks(Config)
    ).

%% With everything in it, so that nobody takes anything down.
vm_killed(Config) ->
    Node = node_of(Config),
    Source = dyno_suites:write(Config, vm_killed, long(#{}), ordinary(Node)),
    File = in_work(Config, "kept.json"),
    {ok, Peer, _} = peer:start(#{
        connection => standard_io, args => ["-pa" | [P || P <- code:get_path(), filelib:is_dir(P)]]
    }),
    OsPid = peer:call(Peer, os, getpid, []),
    true = peer:call(Peer, os, putenv, ["TMPDIR", proplists:get_value(tmp, Config)]),
    Options = #{recording => File, cookie => erlang:get_cookie()},
    Running = spawn(fun() -> peer:call(Peer, dyno_test, run, [Source, Options], infinity) end),
    await_work(Node),
    ok = kill(OsPid),
    exit(Running, kill),
    ok = dyno_leftovers:check(Node, proplists:get_value(before, Config)),
    {ok, #{~"status" := ~"partial"}} = dyno_recording_file:read(File),
    %% The next one finds the target free, and clears the temporary folder.
    {ok, #{~"status" := ~"complete"}} = dyno_test:run(Source, #{duration_ms => 200}).

called(Run, Function) ->
    [R || #{~"function" := F} = R <- dyno_suites:table(Run, ~"functions", any), F =:= Function].

%% Targets

victim() ->
    {_, Node} = Peer = dyno_peers:start(),
    target_work = dyno_suites:target(Node),
    Peer.

kill_node(Node) ->
    kill(erpc:call(Node, os, getpid, [])).

target_killed(Config) ->
    {_, Node} = Peer = victim(),
    Source = dyno_suites:write(
        Config, target_killed, long(#{sizes => [1, 2]}), [
            "init_worker(_, Node) -> {ok, {Node, 1}}.\n"
            "operation({Node, N}) -> erpc:call(Node, target_work, pause, [5]),\n"
            "    N =:= 20 andalso mark(twenty), {ok, {Node, N + 1}}.\n"
            | lists:droplast(ordinary(Node))
        ]
    ),
    Running = start(Source, #{recording => in_work(Config, "kept.json")}),
    await_work(Node),
    dyno_suites:await_mark(Config, twenty),
    kill_node(Node),
    {ok, Document} = result(Running),
    {ok, Document} = dyno_recording_file:read(in_work(Config, "kept.json")),
    failed(Document, [atom_to_binary(Node), ~" was lost: "]),
    [#{~"status" := ~"failed", ~"size" := 1} = Run] = dyno_recording:runs(Document),
    ?assert(dyno_suites:value(Run, ~"operations.count") > 0),
    ?assertMatch({ok, #{~"count" := N}} when N > 0, dyno_recording:histogram(Run, ~"latency")),
    ?assertEqual(
        [init_suite, {init_run, 1}, twenty, {end_run, Node}, {end_suite, suite_state}],
        dyno_suites:marks(Config)
    ),
    dyno_peers:stop(Peer).

%% dbg with messages and call_time of the legacy session, on the functions and processes of the
%% test, from before it begins until after it has ended.
target_traces_itself(Config) ->
    Node = node_of(Config),
    Source = dyno_suites:write(Config, traced, short(#{duration_ms => 400, level => all}), [
        dyno_suites:on_target(Node), dyno_suites:one_call(leaves, 5)
    ]),
    ok = dyno_peers:eval(
        Node,
        "Seen = counters:new(1, []), persistent_term:put(seen, Seen),"
        "{ok, _} = dbg:tracer(process, {fun"
        "  ({trace, _, call, {target_work, leaf, _}}, A) -> counters:add(Seen, 1, 1), A;"
        "  (_, A) -> A end, []}),"
        "{ok, _} = dbg:p(all, [call]),"
        "{ok, _} = dbg:tpl(target_work, leaf, 1, []),"
        "Self = self(),"
        "Holder = spawn(fun() -> erlang:trace(all, true, [call]),"
        "  [1 = erlang:trace_pattern({target_work, F, 1}, true, [call_time])"
        "    || F <- [leaf, leaves]],"
        "  Self ! traces, receive stop -> ok end end),"
        "persistent_term:put(holder, Holder), receive traces -> ok end."
    ),
    {ok, #{~"status" := ~"complete"} = Document} = dyno_test:run(Source, #{}),
    [Run] = dyno_recording:runs(Document),
    Operations = dyno_suites:value(Run, ~"operations.count"),
    ct:pal("~b operations", [Operations]),
    Leaf = Operations * 5,
    Leaves = Operations * 6,
    ?assertMatch([#{~"calls" := Leaf}], called(Run, ~"target_work:leaf/1")),
    ?assertMatch([#{~"calls" := Leaves}], called(Run, ~"target_work:leaves/1")),
    %% Messages of a process that has ended may be on their way.
    dyno_suites:await(fun() ->
        dyno_peers:eval(Node, "counters:get(persistent_term:get(seen), 1).") >= Leaf
    end),
    ?assertEqual(
        {Leaf, Leaf, Leaves},
        dyno_peers:eval(
            Node,
            "Calls = fun(F) -> {call_time, Each} = erlang:trace_info({target_work, F, 1},"
            "  call_time), lists:sum([C || {_, C, _, _} <- Each]) end,"
            "Counted = {counters:get(persistent_term:get(seen), 1), Calls(leaf), Calls(leaves)},"
            "dbg:stop(), erlang:trace_pattern({target_work, '_', '_'}, false, [local, call_time]),"
            "exit(persistent_term:get(holder), kill),"
            "[persistent_term:erase(K) || K <- [seen, holder]], Counted."
        )
    ).

target_reloads_a_module(Config) ->
    Node = node_of(Config),
    {target_work, Binary} = dyno_suites:compiled(),
    ok = file:write_file(in_work(Config, "target_work.beam"), Binary),
    Source = dyno_suites:write(Config, reloading, short(#{duration_ms => 500, level => time}), [
        dyno_suites:on_target(Node),
        "init_worker(_, Node) -> {ok, {Node, 1}}.\n"
        "operation({Node, N}) when N rem 20 =:= 0, N =< 60 ->\n"
        "    erpc:call(Node, code, purge, [target_work]),\n",
        io_lib:format("    {ok, Binary} = file:read_file(~0tp),~n", [
            in_work(Config, "target_work.beam")
        ]),
        "    {module, _} = erpc:call(Node, code, load_binary, [target_work, \"again\", Binary]),\n"
        "    mark({reload, N}), five(Node), {ok, {Node, N + 1}};\n"
        "operation({Node, N}) -> five(Node), {ok, {Node, N + 1}}.\n"
        "five(Node) -> ok = erpc:call(Node, target_work, leaves, [5]).\n"
    ]),
    {ok, #{~"status" := ~"complete"} = Document} = dyno_test:run(Source, #{}),
    [Run] = dyno_recording:runs(Document),
    ?assertEqual(0, dyno_suites:value(Run, ~"errors.count")),
    Reloads = length([N || {reload, N} <- dyno_suites:marks(Config)]),
    ?assert(Reloads >= 1),
    Operations = dyno_suites:value(Run, ~"operations.count"),
    [#{~"calls" := Calls}] = called(Run, ~"target_work:leaf/1"),
    Warnings = #{C => T || #{~"code" := C, ~"text" := T} <- maps:get(~"warnings", Run)},
    ct:pal("~b operations, ~b reloads, ~b calls, ~tp", [Operations, Reloads, Calls, Warnings]),
    ?assert(is_map_key(~"reloaded", Warnings)),
    %% What the old code counted may be missing: at least so many.
    ?assert(Calls =< 5 * Operations, {Calls, Operations}),
    ?assertMatch([#{~"counted" := ~"at least"}], called(Run, ~"target_work:leaf/1")),
    _ = erpc:call(Node, code, purge, [target_work]).

%% The floor is 27: a node of 25 is refused and left alone.
target_too_old(Config) ->
    Otp = filename:join([dyno_project:root(), "scripts", "otp"]),
    Answer = string:trim(os:cmd(Otp ++ " path 25 2>/dev/null")),
    case string:split(Answer, ":") of
        [[$/ | _] = Folder, _] -> refuses_old(Config, filename:join(Folder, "erl"));
        %% The machine's own may be it.
        _ -> system_too_old(Config)
    end.

system_too_old(Config) ->
    case os:cmd("erl -noshell -eval 'io:put_chars(erlang:system_info(otp_release)), halt().'") of
        "25" -> refuses_old(Config, os:find_executable("erl"));
        _ -> {skip, "scripts/otp cannot bring OTP 25 on this machine"}
    end.

refuses_old(Config, Erl) ->
    {ok, Peer, Node} = peer:start(#{
        name => peer:random_name(),
        connection => standard_io,
        exec => Erl,
        args => ["-setcookie", atom_to_list(erlang:get_cookie())]
    }),
    "25" = erpc:call(Node, erlang, system_info, [otp_release]),
    Loaded = lists:sort(erpc:call(Node, code, all_loaded, [])),
    Source = dyno_suites:write(Config, too_old, short(#{}), ordinary(Node)),
    {ok, Document} = dyno_test:run(Source, #{}),
    failed(Document, [atom_to_binary(Node), ~"OTP 25", ~"27"]),
    ?assert(lists:member({end_run, Node}, dyno_suites:marks(Config))),
    ?assertEqual(Loaded, lists:sort(erpc:call(Node, code, all_loaded, []))),
    ?assertEqual(undefined, erpc:call(Node, erlang, whereis, [dyno_agent])),
    peer:stop(Peer).

%% Callbacks

%% What a callback is called with, and what the test then is: refused, failed, or complete with a
%% warning.
callbacks() ->
    [
        {suite, "", refused, []},
        {init_suite, "", failed, [end_suite]},
        {init_run, "_, _", failed, [end_run, end_suite]},
        {load, "_, _", failed, [end_run, end_suite]},
        {invariants, "_, _", failed, [end_run, end_suite]},
        {init_worker, "_, _", failed, [end_run, end_suite]},
        {operation, "_", failed, [end_run, end_suite]},
        {end_worker, "_", warned, [end_run, end_suite]},
        {end_run, "_", failed, [end_suite]},
        {end_suite, "_", failed, [end_run]}
    ].

%% An ordinary suite but for one callback; a target would only take time.
with_callback(Config, Name, Callback, Text, Options) ->
    Others = [
        {init_suite, "init_suite() -> {ok, none}.\n"},
        {init_run, "init_run(_, _) -> {ok, [], none}.\n"},
        {operation, "operation(S) -> receive after 1 -> {ok, S} end.\n"},
        {end_run, "end_run(_) -> mark(end_run).\n"},
        {end_suite, "end_suite(_) -> mark(end_suite).\n"}
    ],
    SuiteOptions =
        case Callback of
            suite -> none;
            _ -> short(maps:merge(#{duration_ms => 250}, Options))
        end,
    _ = file:delete(in_work(Config, "marks")),
    dyno_suites:write(Config, Name, SuiteOptions, [Text | [T || {C, T} <- Others, C =/= Callback]]).

callback_raises(Config) ->
    [
        begin
            Text = io_lib:format("~s(~s) -> ~s(oops).~n", [Callback, Arguments, Class]),
            Name = list_to_atom(lists:concat([Callback, "_", Class, "s"])),
            Source = with_callback(Config, Name, Callback, Text, #{}),
            raised(Config, {Callback, Class}, Expected, dyno_test:run(Source, #{})),
            ?assertEqual({Name, TearDown}, {Name, dyno_suites:marks(Config)}),
            clean(Config)
        end
     || {Callback, Arguments, Expected, TearDown} <- callbacks(),
        Class <- classes(Callback)
    ].

%% Of a worker; dyno_test_callbacks_SUITE has those of the suite's process.
classes(operation) -> [throw, exit, error];
classes(_Callback) -> [error].

raised(_Config, {Callback, _Class}, refused, {error, Reason}) ->
    says(text(Reason), [atom_to_binary(Callback), ~"oops"]),
    ?assertEqual(2, dyno_error:exit_status(Reason));
%% That no operation succeeds is a failure of what is measured.
raised(_Config, {operation, _Class}, failed, {ok, Document}) ->
    #{~"status" := ~"complete", ~"verdicts" := [#{~"result" := ~"fail", ~"text" := Text}]} =
        Document,
    says(Text, [~"100 % of the operations failed"]),
    [#{~"warnings" := Warnings}] = dyno_recording:runs(Document),
    [Why] = [Of || #{~"code" := ~"failing", ~"text" := Of} <- Warnings],
    says(Why, [~"100 % of the operations failed", ~"oops"]);
raised(_Config, {Callback, Class}, failed, {ok, Document}) ->
    failed(Document, [
        <<":", (atom_to_binary(Callback))/binary, "/">>, atom_to_binary(Class), ~"oops", ~".erl:"
    ]);
raised(_Config, {Callback, _Class}, warned, {ok, Document}) ->
    ?assertMatch(#{~"status" := ~"complete"}, Document),
    [Run] = dyno_recording:runs(Document),
    [Text] = [T || #{~"code" := ~"end_worker", ~"text" := T} <- maps:get(~"warnings", Run)],
    says(Text, [<<":", (atom_to_binary(Callback))/binary, "/1">>, ~"oops"]).

%% Something that a set-up is linked to dies: at once, and during the load.
callback_process_dies(Config) ->
    Node = node_of(Config),
    [
        begin
            Text = io_lib:format("init_run(_, _) -> ~s, {ok, [~0tp], ~0tp}.~n", [Does, Node, Node]),
            Source = with_callback(Config, Name, init_run, Text, #{duration_ms => 300}),
            {ok, Document} = dyno_test:run(Source, #{}),
            case Expected of
                failed -> failed(Document, [~"init_run/2", ~"linked"]);
                complete -> ?assertMatch(#{~"status" := ~"complete"}, Document)
            end,
            ?assertEqual({Name, [end_run, end_suite]}, {Name, dyno_suites:marks(Config)}),
            clean(Config)
        end
     || {Name, Does, Expected} <- [
            {dies_at_once,
                "spawn_link(fun() -> exit(broken) end), receive after infinity -> ok end", failed},
            {dies_later, "spawn_link(fun() -> receive after 100 -> exit(broken) end end)", complete}
        ]
    ].

%% Functions with nearly the name of a callback.
callback_is_misspelt(Config) ->
    Text = "init_workers(_, State) -> {ok, State}.\nend_run() -> ok.\nunload(_, _) -> ok.\n",
    Source = with_callback(Config, misspelt, end_run, Text, #{}),
    {ok, Document} = dyno_test:run(Source, #{}),
    Texts = [
        T
     || #{~"code" := ~"misspelt_callback", ~"text" := T} <- maps:get(~"warnings", Document)
    ],
    ?assertEqual(
        [
            ~"misspelt:end_run/0 is not called: the callback is end_run/1",
            ~"misspelt:init_workers/2 is not called: the callback is init_worker/2"
        ],
        lists:sort(Texts)
    ).

suite_never_returns(Config) ->
    Source = with_callback(Config, no_suite, suite, "suite() -> timer:sleep(infinity).\n", #{}),
    {error, Reason} = dyno_test:run(Source, #{timeout_ms => 300}),
    says(text(Reason), [~"no_suite:suite/0", ~"300 ms", ~"--timeout"]),
    ?assertEqual(2, dyno_error:exit_status(Reason)).

node_is_not_there(Config) ->
    Text = "init_run(_, _) -> {ok, ['nobody@no.such.host'], 0}.\n",
    Source = with_callback(Config, nowhere, init_run, Text, #{}),
    {ok, Document} = dyno_test:run(Source, #{}),
    failed(Document, [~"nobody@no.such.host", ~"nowhere:init_run/2"]),
    ?assertEqual([end_run, end_suite], dyno_suites:marks(Config)).

%% Named, with the nearest there is; and the recording that was begun says the same.
pattern_matches_nothing(Config) ->
    File = in_work(Config, "kept.json"),
    [
        begin
            _ = file:delete(in_work(Config, "marks")),
            Source = dyno_suites:write(
                Config, unmatched, short(#{patterns => [Pattern]}), ordinary(node_of(Config))
            ),
            {error, Reason} = dyno_test:run(Source, #{recording => File}),
            says(text(Reason), [Pattern, <<"did you mean ", Nearest/binary>>]),
            ?assertEqual(2, dyno_error:exit_status(Reason)),
            {ok, Document} = dyno_recording_file:read(File),
            failed(Document, [Pattern]),
            ?assertMatch([_, _, {end_run, _}, {end_suite, _}], dyno_suites:marks(Config)),
            clean(Config)
        end
     || {Pattern, Nearest} <- [
            {~"target_wrok", ~"target_work"},
            {~"target_work:paus/1", ~"pause/1"}
        ]
    ].

%% Disks

measures_nothing(Config, File, Parts) ->
    Source = dyno_suites:write(Config, kept_nowhere, short(#{}), ordinary(node_of(Config))),
    {error, Reason} = dyno_test:run(Source, #{recording => File}),
    says(text(Reason), Parts),
    ?assertEqual(3, dyno_error:exit_status(Reason)),
    ?assertEqual([], dyno_suites:marks(Config)).

folder_not_writable(Config) ->
    ok = file:write_file(in_work(Config, "file"), ""),
    measures_nothing(Config, in_work(Config, "file/kept.json"), [~"file"]),
    measures_nothing(Config, in_work(Config, "no/such/kept.json"), [~"no/such", ~"create the folder"]),
    measures_nothing(Config, in_work(Config, "tmp"), [~"tmp", ~"not a regular file"]).

%% What was measured is returned, and that it is not kept is said.
measures_what_is_not_kept(Config, File, MidWay, Parts) ->
    Source = dyno_suites:write(
        Config, kept_later, short(#{sizes => [1, 2], duration_ms => 500}), ordinary(node_of(Config))
    ),
    {~"1", Running} = await_measuring(Config, Source, #{recording => File}),
    ok = MidWay(),
    {ok, Document} = result(Running),
    failed(Document, Parts),
    ?assertMatch(#{~"error" := #{~"code" := ~"recording"}}, Document),
    ?assertMatch(
        [#{~"status" := ~"complete"}, #{~"status" := ~"complete"}], dyno_recording:runs(Document)
    ),
    Node = node_of(Config),
    ?assertEqual(
        [init_suite, {init_run, 1}, {end_run, Node}, {init_run, 2}, {end_run, Node}] ++
            [{end_suite, suite_state}],
        dyno_suites:marks(Config)
    ).

folder_goes(Config) ->
    Folder = in_work(Config, "folder"),
    ok = filelib:ensure_path(Folder),
    File = filename:join(Folder, "kept.json"),
    measures_what_is_not_kept(Config, File, fun() -> file:del_dir_r(Folder) end, [~"kept.json"]).

disk(Config) ->
    Folder = in_work(Config, "disk"),
    case dyno_disk:mount(Folder, 256) of
        ok -> {ok, Folder};
        Skip -> Skip
    end.

disk_fills(Config) ->
    case disk(Config) of
        {ok, Folder} ->
            File = filename:join(Folder, "kept.json"),
            Fill = fun() -> dyno_disk:fill(Folder) end,
            measures_what_is_not_kept(Config, File, Fill, [~"disk is full"]),
            {ok, #{~"status" := ~"partial"}} = dyno_recording_file:read(File),
            {ok, Files} = file:list_dir(Folder),
            ?assertEqual(["ballast", "kept.json"], lists:sort(Files));
        Skip ->
            Skip
    end.

%% Interrupts

%% The first size ends by itself, the second never.
first_of_two(Config, Name) ->
    Node = node_of(Config),
    dyno_suites:write(Config, Name, short(#{sizes => [1, 2]}), ordinary(Node)).

check_interrupted(Config, Document) ->
    Node = node_of(Config),
    ?assertMatch(#{~"status" := ~"interrupted", ~"error" := null}, Document),
    {ok, _} = dyno_recording:validate(Document),
    [First, Second] = dyno_recording:runs(Document),
    ?assertMatch(#{~"status" := ~"complete", ~"size" := 1}, First),
    ?assertMatch(#{~"status" := ~"interrupted", ~"size" := 2}, Second),
    ?assertMatch({ok, _}, dyno_recording:metric(First, ~"latency.p50")),
    ?assertMatch([_ | _], called(First, ~"target_work:pause/1")),
    ?assertEqual(
        [init_suite, {init_run, 1}, {end_run, Node}, {init_run, 2}, {end_run, Node}] ++
            [{end_suite, suite_state}],
        dyno_suites:marks(Config)
    ),
    Second.

%% Waits for the second size's measured part.
interrupt(Config) ->
    Source = first_of_two(Config, interrupted),
    File = in_work(Config, "kept.json"),
    Self = self(),
    Running =
        {Pid, _} = start(Source, #{
            recording => File,
            duration_ms => 1000,
            progress => fun
                (#{phase := measure, run := ~"2", throughput := T}) when is_float(T) ->
                    Self ! second,
                    ok;
                (_) ->
                    ok
            end
        }),
    receive
        second -> dyno_test:interrupt(Pid)
    end,
    {ok, Document} = result(Running),
    Second = check_interrupted(Config, Document),
    ?assert(dyno_suites:value(Second, ~"operations.count") > 0),
    ?assertMatch([_ | _], called(Second, ~"target_work:pause/1")),
    ?assertEqual({ok, Document}, dyno_recording_file:read(File)).

interrupt_a_set_up(Config) ->
    Text = "init_run(_, _) -> mark(begun), receive after infinity -> ok end.\n",
    Source = with_callback(Config, endless, init_run, Text, #{}),
    Running = {Pid, _} = start(Source, #{}),
    dyno_suites:await_mark(Config, begun),
    dyno_test:interrupt(Pid),
    {ok, #{~"status" := ~"interrupted"}} = result(Running),
    ?assertEqual([begun, end_run, end_suite], dyno_suites:marks(Config)).

%% The second one does not cut the tear-down short.
interrupt_twice(Config) ->
    Text = "end_run(_) -> mark(begun), receive after 300 -> mark(end_run) end.\n",
    Source = with_callback(Config, twice, end_run, Text, #{duration_ms => 600_000}),
    {_, {Pid, _} = Running} = await_measuring(Config, Source, #{}),
    dyno_test:interrupt(Pid),
    dyno_suites:await_mark(Config, begun),
    dyno_test:interrupt(Pid),
    {ok, #{~"status" := ~"interrupted"}} = result(Running),
    ?assertEqual([begun, end_run, end_suite], dyno_suites:marks(Config)).
