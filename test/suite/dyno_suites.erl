%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_suites).
-moduledoc """
Suites written for a test, the work they put on a target, and what they left: marks of the
callbacks that ran, temporary folders, traces of dyno in the target.
""".

-include_lib("stdlib/include/assert.hrl").

-export([prepare/2, write/4, compile/2, marks/1, await_mark/2, target/1, compiled/0]).
-export([on_target/1, one_call/2, await/1]).
-export([with_target/1, without_target/1, with_temporary/1, without_temporary/1]).
-export([snapshot/1, clean/2, if_passed/2, one_of/2]).
-export([value/2, error_text/1, table/3, role/2]).
-export([with_known/2, all_is_known/1, says/2]).

-doc """
A folder of its own for a case, also for temporary files; `clean/2` says whether those are gone.
""".
prepare(Case, Config) ->
    Work = filename:join([proplists:get_value(priv_dir, Config), "work", atom_to_list(Case)]),
    Temporary = filename:join(Work, "tmp"),
    ok = filelib:ensure_path(Temporary),
    true = os:putenv("TMPDIR", Temporary),
    [{work, Work}, {tmp, Temporary} | Config].

-doc """
Writes a suite's source file. `Options` is what `suite/0` returns, or `none` where `Callbacks`,
text, has a suite/0 of its own. `mark(Term)` in a callback leaves a mark.
""".
write(Config, Name, Options, Callbacks) ->
    Path = filename:join(proplists:get_value(work, Config), atom_to_list(Name) ++ ".erl"),
    Suite =
        case Options of
            none -> "";
            _ -> io_lib:format("suite() -> ~w.~n", [Options])
        end,
    Mark = io_lib:format(
        "mark(What) ->~n"
        "    ok = file:write_file(~0tp, io_lib:format(\"~~0tp.~~n\", [What]), [append]).~n",
        [marks_file(Config)]
    ),
    Head = "-module(~w).~n-behaviour(dyno_suite).~n-compile([export_all, nowarn_export_all]).~n",
    ok = file:write_file(Path, [io_lib:format(Head, [Name]), Suite, Mark, Callbacks]),
    Path.

-doc "Compiles a suite's source file, into its folder.".
compile(Config, Path) ->
    Folder = proplists:get_value(work, Config),
    {ok, _} = compile:file(Path, [debug_info, {outdir, Folder}, nowarn_undefined_behaviour]),
    filename:rootname(Path) ++ ".beam".

-doc "Calls a function with what a test of these options may measure, for dyno_threshold:check/2.".
with_known(Options, Fun) ->
    {ok, Read} = dyno_suite:options(Options#{name => "known", sizes => [1]}),
    {ok, Custom} = dyno_test_custom:load(Read, ?MODULE),
    try
        Fun(dyno_test_known:known(Read, Custom))
    after
        dyno_test_custom:forget(Custom)
    end.

-doc "Checks that thresholds may name all that a recording has, but what is a suite's own.".
all_is_known(#{~"runs" := Runs, ~"tables" := Summaries}) ->
    Known = with_known(#{}, fun(Of) -> Of end),
    Names = [
        Name
     || #{~"metrics" := Metrics, ~"series" := Series} <- Runs,
        #{~"name" := Name, ~"group" := Group} <- Metrics ++ Series,
        Group =/= ~"custom"
    ],
    Cells = [
        [Table, " row ", Field]
     || #{~"tables" := Tables} <- Runs,
        #{~"name" := Table, ~"columns" := Columns} <- Tables,
        Table =/= ~"custom_agents",
        #{~"name" := Field, ~"type" := Type} <- Columns,
        Type =/= ~"string"
    ],
    All =
        Names ++ Cells ++
            %% Findings are counted by severity.
            [[Table, " row"] || #{~"name" := Table} <- Summaries, Table =/= ~"findings"],
    [
        begin
            {ok, Threshold} = dyno_threshold:parse([Text, " > 0"]),
            ?assertEqual(ok, dyno_threshold:check(Threshold, Known))
        end
     || Text <- lists:uniq(All)
    ].

marks_file(Config) ->
    filename:join(proplists:get_value(work, Config), "marks").

-doc "The marks until now, the first one first.".
marks(Config) ->
    case file:consult(marks_file(Config)) of
        {ok, Marks} -> Marks;
        {error, _} -> []
    end.

-doc "Waits for a mark; no event tells of a file that grows.".
await_mark(Config, Mark) ->
    await(fun() -> lists:member(Mark, marks(Config)) end).

-doc "Waits until something holds; the case's timetrap ends it.".
await(Condition) ->
    case Condition() of
        true ->
            ok;
        false ->
            receive
            after 20 -> await(Condition)
            end
    end.

-doc "A suite's set-up: starts a target with the work in it. `without_target/1` is its end.".
with_target(Config) ->
    {_, Node} = Peer = dyno_peers:start(),
    target_work = target(Node),
    [{peer, Peer}, {node, Node} | with_temporary(Config)].

-doc "Stops the target, and puts back the temporary folder that `prepare/2` has changed.".
without_target(Config) ->
    dyno_peers:stop(proplists:get_value(peer, Config)),
    without_temporary(Config).

-doc "A suite's set-up: remembers the temporary folder. `without_temporary/1` is its end.".
with_temporary(Config) ->
    [{temporary, os:getenv("TMPDIR")} | Config].

-doc "Puts back the temporary folder that `prepare/2` has changed.".
without_temporary(Config) ->
    case proplists:get_value(temporary, Config) of
        false -> os:unsetenv("TMPDIR");
        Folder -> os:putenv("TMPDIR", Folder)
    end,
    Config.

-doc "Puts the work in a node: functions whose calls and times a test can predict.".
target(Node) ->
    dyno_peers:load(Node, work()).

-doc "The work, compiled.".
compiled() ->
    {ok, Module, Binary} = compile:forms(dyno_peers:forms(work()), [debug_info]),
    {Module, Binary}.

work() ->
    "-module(target_work). "
    "-export([leaf/1, leaves/1, linear/1, quadratic/1, pause/1, warm/0, spin/1, crowd/1]). "
    "leaf(X) -> X. "
    "leaves(0) -> ok; leaves(N) -> target_work:leaf(N), leaves(N - 1). "
    "linear(N) -> run(N * 2000). "
    "quadratic(N) -> run(N * N * 250). "
    "run(0) -> ok; run(N) -> run(N - 1). "
    "warm() -> ok. "
    "spin(Us) -> spin_until(erlang:monotonic_time(microsecond) + Us). "
    "spin_until(T) -> case erlang:monotonic_time(microsecond) >= T of true -> ok; "
    "  false -> spin_until(T) end. "
    "pause(Ms) -> receive after Ms -> ok end. "
    %% A hundred processes at a time, that each call leaf/1 three times.
    "crowd(0) -> ok; "
    "crowd(N) -> [spawn_monitor(target_work, leaves, [3]) || _ <- lists:seq(1, 100)], "
    "  ended(100), crowd(N - 1). "
    "ended(0) -> ok; ended(N) -> receive {'DOWN', _, _, _, _} -> ended(N - 1) end.".

-doc "The text of an init_run/2 that gives this node as target, and marks both ends.".
on_target(Node) ->
    io_lib:format(
        "init_run(Size, _) -> mark({init_run, Size}), {ok, [~0tp], ~0tp}.~n"
        "end_run(State) -> mark({end_run, State}).~n",
        [Node, Node]
    ).

-doc "The text of an operation/1 that makes one call in the target, where that is the state.".
one_call(Function, Argument) ->
    io_lib:format(
        "operation(Node) -> _ = erpc:call(Node, target_work, ~w, [~w]), {ok, Node}.~n",
        [Function, Argument]
    ).

-doc "The state of a target before a test.".
snapshot(Node) ->
    dyno_leftovers:snapshot(Node).

-doc "Fails where something of dyno is left in the target or in the temporary folder.".
clean(Config, Before) ->
    #{node := Node} = Before,
    ok = dyno_leftovers:check(Node, Before),
    %% A breakpoint that outlived its session.
    Functions = erpc:call(Node, target_work, module_info, [functions]),
    ?assertEqual(
        [],
        [
            {F, A, Found}
         || {F, A} <- Functions,
            Found <- erpc:call(Node, trace, session_info, [{target_work, F, A}])
        ]
    ),
    ?assertEqual({ok, []}, file:list_dir(proplists:get_value(tmp, Config))).

-doc "Every case is also a test of what is left: for the end of one; a check that fails, fails it.".
if_passed(Config, Check) ->
    case proplists:get_value(tc_status, Config) of
        ok ->
            try
                Check()
            catch
                Class:Reason -> {fail, {Class, Reason}}
            end;
        _ ->
            ok
    end.

-doc "For what a busy machine may spoil: one try of so many must be as it should.".
one_of(0, _Run) ->
    ct:fail(none_as_it_should_be);
one_of(Tries, Run) ->
    case Run() of
        true -> ok;
        false -> one_of(Tries - 1, Run)
    end.

-doc "A metric of a run.".
value(Run, Name) ->
    case dyno_recording:metric(Run, Name) of
        {ok, #{~"value" := Value}} -> Value;
        error -> error({no_metric, Name, [N || #{~"name" := N} <- maps:get(~"metrics", Run)]})
    end.

-doc "The text of what ended a test.".
error_text(#{~"error" := #{~"text" := Text}}) -> Text.

-doc "The rows of a table as maps, from all nodes or one.".
table(Run, Name, Node) ->
    [
        maps:from_list(lists:zip([N || #{~"name" := N} <- Columns], Row))
     || #{~"columns" := Columns, ~"rows" := Rows, ~"node" := Of} <-
            dyno_recording:tables(Run, Name),
        Node =:= any orelse Of =:= role(Run, Node),
        Row <- Rows
    ].

-doc "The role of a node in a run.".
role(#{~"nodes" := Nodes}, Node) ->
    [Role] = [R || #{~"name" := Name, ~"role" := R} <- Nodes, Name =:= atom_to_binary(Node)],
    Role.

-doc "Fails unless a text has one line with all of these parts.".
says(Chars, Parts) ->
    Text = unicode:characters_to_binary(Chars),
    ?assertEqual(nomatch, binary:match(Text, ~"\n"), Text),
    [?assertNotEqual(nomatch, binary:match(Text, Part), {Text, Part}) || Part <- Parts],
    ok.
