%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_truth_bench_SUITE).
-moduledoc "What dyno bench and dyno trace say of programs whose answer is known.".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

suite() ->
    [{timetrap, {minutes, 3}}].

slow() -> [in_vms_of_their_own].

all() ->
    [
        clocks,
        waits,
        trends,
        levels,
        work_that_changes,
        kept_by_others,
        workers_begin_together,
        terms,
        {group, traps},
        in_vms_of_their_own,
        busy,
        {group, endings},
        {group, traced}
    ].

groups() ->
    [
        {traps, [parallel], [
            folded, first_call, first_call_loads, early_calls, keeps, drifts, well
        ]},
        {endings, [parallel], [all_fail, set_up_fails, elixir]},
        {traced, [], [records, arguments, alternatives, counts, big_arguments]}
    ].

init_per_suite(Config) ->
    Folder = filename:join(proplists:get_value(priv_dir, Config), "traps"),
    File = filename:join(Folder, "dyno_traps.erl"),
    ok = filelib:ensure_dir(File),
    ok = file:write_file(File, traps()),
    {ok, dyno_traps} = compile:file(File, [{outdir, Folder}]),
    Other = filename:join(Folder, "dyno_traps_other.erl"),
    ok = file:write_file(Other, "-module(dyno_traps_other).\n-export([ok/0]).\nok() -> ok.\n"),
    {ok, dyno_traps_other} = compile:file(Other, [{outdir, Folder}]),
    [{traps, Folder} | Config].

end_per_suite(_Config) ->
    ok.

traps() ->
    ~"""
    -module(dyno_traps).
    -export([folded/0, wrapped/0, real/0, sorted/0, memo/0, loads/0, insert/0, append/0]).
    -export([fills/0]).
    -export([leave_process/0, leave_atom/0]).
    folded() -> [1, 2, 3, 4, 5, 6, 7, 8, 9] -- [9, 8, 7, 6, 5, 4, 3, 2, 1].
    wrapped() -> folded().
    real() -> id([1, 2, 3, 4, 5, 6, 7, 8, 9]) -- id([9, 8, 7, 6, 5, 4, 3, 2, 1]).
    -compile({no_inline, [id/1]}).
    id(X) -> X.
    sorted() -> lists:sort(id([3, 1, 2])).
    loads() ->
        case persistent_term:get(loads, none) of
            none -> dyno_traps_other:ok(), timer:sleep(300), persistent_term:put(loads, ok);
            ok -> ok
        end.
    memo() ->
        case persistent_term:get(?MODULE, none) of
            none -> persistent_term:put(?MODULE, lists:sum(lists:seq(1, 100_000)));
            Sum -> Sum
        end.
    fills() ->
        case get(fills) of
            500 -> ok;
            undefined -> put(fills, 1);
            N -> put(fills, N + 1), lists:sum(lists:seq(1, 10_000))
        end.
    insert() -> ets:insert(table(), {erlang:unique_integer()}).
    table() ->
        case ets:whereis(?MODULE) of
            undefined -> ets:new(?MODULE, [named_table, public, ordered_set]);
            Table -> Table
        end.
    leave_process() -> spawn(fun() -> receive stop -> ok end end).
    leave_atom() -> binary_to_atom(<<"left", (erlang:unique_integer([positive])):64>>, latin1).
    append() ->
        List = case get(?MODULE) of undefined -> []; Of -> Of end,
        put(?MODULE, List ++ [x]),
        ok.
    """.

bench(Name, Codes, Config) ->
    Json = filename:join(proplists:get_value(priv_dir, Config), Name ++ ".json"),
    Arguments = Codes ++ ["--pa", proplists:get_value(traps, Config), "-o", Json],
    {0, Text} = dyno_command:run(["bench", "--for", "600ms" | Arguments]),
    {ok, Recording} = dyno_recording_file:read(Json),
    [Run] = dyno_recording:runs(Recording),
    {re:replace(Text, "\\s+", " ", [global, {return, binary}]), Run}.

verdicts(Run) ->
    #{
        Code => Verdict
     || #{~"code" := Code, ~"verdict" := Verdict} <- dyno_recording:rows(Run, ~"codes")
    }.

has(Text, Part) ->
    ?assertMatch({_, _}, binary:match(Text, Part), Text).

lacks(Text, Part) ->
    ?assertEqual(nomatch, binary:match(Text, Part), Text).

%% The clocks at an edge are not read at once: another program's time slice between them is waiting,
%% and no time of the epoch.
clocks(_Config) ->
    Epoch = #{wall_ns => 2_000_000, wait_ns => 0, cpu_ns => 2_010_000},
    Is = fun dyno_bench_calibration:is_believable/1,
    ?assert(Is(Epoch)),
    ?assert(Is(Epoch#{wall_ns := 6_000_000, wait_ns := 4_000_000})),
    ?assert(Is(Epoch#{wait_ns := undefined})),
    ?assert(Is(#{wall_ns => 40, wait_ns => 0, cpu_ns => 18_000})),
    %% It slept for most of the time.
    ?assert(Is(#{wall_ns => 9_000_000, wait_ns => 3_000_000, cpu_ns => 20_000})),
    ?assertNot(Is(Epoch#{wait_ns := 4_000_000})),
    ?assertNot(Is(Epoch#{wait_ns := 1_999_999})),
    ?assertNot(Is(Epoch#{wait_ns := 300_000})),
    ?assertNot(Is(Epoch#{wait_ns := 2_000_000, cpu_ns := undefined})).

%% A thread that waits for a processor while its code waits for another thread or program loses
%% nothing by that, or not all: a program that the code calls may have had the processor.
waits(_Config) ->
    Net = fun dyno_bench_calibration:net_ns/1,
    Computes = #{wall_ns => 10_000_000, wait_ns => 4_000_000, cpu_ns => 6_010_000},
    ?assertEqual(6_000_000, Net(Computes)),
    ?assertEqual(6_000_000, Net(Computes#{cpu_ns := undefined})),
    ?assertEqual(10_000_000, Net(Computes#{wait_ns := undefined})),
    Waits = Computes#{cpu_ns := 5_000_000},
    ?assertEqual(10_000_000, Net(Waits)),
    ?assert(dyno_bench_calibration:is_believable(Waits)),
    %% No bound of a first call.
    ?assertEqual(6_000_000, dyno_bench_calibration:least_ns(Waits)),
    ?assertMatch({computes, _}, dyno_bench_calibration:idle([Computes])),
    ?assertEqual({waits, 0.5}, dyno_bench_calibration:idle([Waits, Waits#{cpu_ns := 1_000_000}])),
    ?assertEqual(unknown, dyno_bench_calibration:idle([Computes#{cpu_ns := undefined}])),
    Code = #{times_ns => [20.0], constant => false},
    Idle = fun(Waiting) -> Code#{idle => 0.5, waiting => Waiting} end,
    ?assertEqual(#{1 => [{waits, 0.5, 0.2}]}, doubts([Idle(0.2), Code])),
    ?assertEqual(#{}, doubts([Idle(0.01), Code])).

%% Who begins alone finds each lock free.
workers_begin_together(_Config) ->
    case erlang:system_info(schedulers_online) of
        1 -> {skip, "one scheduler"};
        _ -> begin_together()
    end.

begin_together() ->
    {ok, #{module := Module} = Code} = dyno_bench_code:load(dyno_truth_together, "ok.", #{}),
    Trap = process_flag(trap_exit, true),
    [_, Late] = Workers = [dyno_bench_worker:start_link(N) || N <- [1, 2]],
    {ok, _} = dyno_bench_worker:prepare(Workers, {1, Code, undefined}, 10_000),
    Self = self(),
    _ = spawn_link(fun() ->
        true = erlang:suspend_process(Late),
        Self ! suspended,
        timer:sleep(100),
        Self ! {resumed, erlang:monotonic_time(nanosecond)},
        true = erlang:resume_process(Late)
    end),
    receive
        suspended -> ok
    end,
    Run = #{number => 1, iterations => 1, heap => default, place => 1},
    {ok, [_, _] = Epochs} = dyno_bench_worker:epoch(Workers, Run, 10_000),
    receive
        {resumed, ResumedNs} ->
            ?assertEqual([], [End || #{end_ns := End} <- Epochs, End < ResumedNs])
    end,
    lists:foreach(fun dyno_sandbox:kill/1, Workers),
    ok = dyno_code:unload(Module),
    process_flag(trap_exit, Trap).

trend(Values) -> dyno_stats_trend:of_values(Values, 1.3).

doubts(Candidates) -> dyno_bench_doubts:doubts(#{candidates => Candidates}).

trends(_Config) ->
    ?assertMatch({up, 1.5, 5.75}, trend([1, 2, 3, 4, 5, 5.5, 6])),
    ?assertMatch({down, _, _}, trend([6, 5, 4, 3, 2, 1])),
    ?assertMatch({none, _, _}, trend([1.0, 1.01, 1.02, 1.03, 1.04, 1.05])),
    ?assertMatch({none, _, _}, trend([5, 1, 4, 2, 6, 3])),
    ?assertMatch({none, _, _}, trend([1, 2, 3])),
    %% A machine that gets slower for both.
    Code = fun(Times) -> #{times_ns => Times, constant => false} end,
    Slower = [10.0, 11.0, 13.0, 15.0, 17.0, 20.0, 24.0],
    Twice = [2 * Time || Time <- Slower],
    ?assertEqual(#{}, doubts([Code(Slower), Code(Twice)])),
    Steady = [20.0, 20.1, 19.9, 20.0, 20.2, 20.1, 20.0],
    %% Within each VM.
    OfVms = fun(Rounds) -> (Code([20.0, 20.1, 19.9]))#{rounds_ns => Rounds} end,
    ?assertMatch(
        #{1 := [{drifts, _, _}]}, doubts([OfVms(Slower), OfVms(Steady)])
    ),
    ?assertMatch(
        #{1 := [{drifts, _, _}]}, doubts([Code(Slower), Code(Steady)])
    ).

%% Rounds of one kind in turn; what changes from round to round does so by chance.
levels(_Config) ->
    Levels = fun(Values) -> dyno_stats_trend:levels(Values, 1.3) end,
    Turn = lists:append([lists:duplicate(5, N) || N <- [60.0, 340.0, 60.0, 340.0]]),
    ?assertEqual({60.0, 340.0, true}, Levels(Turn)),
    ?assertEqual({60.0, 340.0, false}, Levels([60.0, 340.0, 340.0, 60.0, 60.0, 340.0, 60.0])),
    ?assertEqual(none, Levels([60.0, 340.0])),
    ?assertEqual(none, Levels([60.0, 61.0, 60.0, 61.0, 60.0, 61.0])),
    %% Work without reductions, against a code that is as fast at all times.
    Code = fun(Times) -> #{times_ns => Times, constant => false} end,
    Steady = Code(lists:duplicate(20, 60.0)),
    ?assertEqual(#{1 => [{phases, 60.0, 340.0}]}, doubts([Code(Turn), Steady])),
    %% A machine that is slow at times.
    ?assertEqual(#{}, doubts([Code(Turn), Code(Turn)])),
    ?assertEqual(#{}, doubts([Code(Turn)])).

work_that_changes(_Config) ->
    Code = fun(Work) ->
        #{times_ns => [20.0], constant => false, iterations => 100, work => Work}
    end,
    Turn = [{R, 0.3} || R <- lists:append([lists:duplicate(5, N) || N <- [20.0, 132.0, 20.0]])],
    Changes = #{1 => [{changes, 20.0, 132.0}]},
    ?assertEqual(Changes, doubts([Code(Turn)])),
    %% Also if it takes no part in a verdict about times: words and reductions change, too.
    ?assertEqual(
        Changes, dyno_bench_doubts:doubts(#{candidates => [Code(Turn)], metric => words})
    ),
    %% Random work, and collections.
    Mixed = [{R, 0.3} || R <- [20.0, 132.0, 132.0, 20.0, 20.0, 132.0, 20.0]],
    ?assertEqual(#{}, doubts([Code(Mixed)])),
    %% Two calls that wait.
    ?assertEqual(#{}, doubts([(Code(Turn))#{iterations := 2}])),
    %% Exact counts of a few calls that are unlike the rounds'.
    Same = [{R, 0.0} || R <- [76.0, 76.1, 76.2, 76.0, 76.1, 76.0]],
    Counted = fun(R) -> (Code(Same))#{deterministic => #{reductions => R}} end,
    ?assertEqual(#{1 => [{changes, 20.0, 76.2}]}, doubts([Counted(20.0)])),
    ?assertEqual(#{1 => [{changes, 76.0, 132.0}]}, doubts([Counted(132.0)])),
    ?assertEqual(#{}, doubts([Counted(74.0)])),
    Collects = fun(R) -> (Counted(R))#{work := [{Of, 1.0} || {Of, _} <- Same]} end,
    ?assertEqual(#{1 => [{changes, 20.0, 76.2}]}, doubts([Collects(20.0)])),
    ?assertEqual(#{}, doubts([Collects(40.0)])),
    %% A cache that fills until the third round.
    Fills = (Code([{R, 0.0} || R <- [12.0e3, 12.0e3, 12.0e3, 2.0, 2.0, 2.0]]))#{
        times_ns := [55.0e3, 52.0e3, 55.0e3, 32.0, 14.0, 9.0],
        early => #{calls => 60, ns => 51.0e3, reductions => 12.1e3}
    },
    ?assertEqual(#{1 => [{early, 60, 51.0e3, 11.5}]}, doubts([Fills])),
    %% A machine that gets slower for a single code, and a code whose work grows.
    Slower = [10.0, 11.0, 13.0, 15.0, 17.0, 20.0, 24.0],
    Alone = (Code([{76.0, 0.0} || _ <- Slower]))#{times_ns := Slower},
    ?assertEqual(#{}, doubts([Alone])),
    ?assertMatch(#{1 := [{drifts, _, _}]}, doubts([Alone#{work := [{R, 0.2} || R <- Slower]}])).

folded(Config) ->
    {Text, Run} = bench(
        "folded",
        [
            "dyno_traps:folded().",
            "{dyno_traps, wrapped, []}",
            "dyno_traps:real().",
            "dyno_traps:sorted()."
        ],
        Config
    ),
    #{
        ~"dyno_traps:folded()." := ~"unknown",
        ~"{dyno_traps,wrapped,[]}" := ~"unknown",
        %% The others are still compared; a busy machine may leave it undecided.
        ~"dyno_traps:real()." := Real,
        ~"dyno_traps:sorted()." := Sorted
    } = verdicts(Run),
    ?assertNot(lists:member(~"unknown", [Real, Sorted]), Text),
    has(Text, ~"the compiler has worked out the result of dyno_traps:folded/0"),
    lacks(Text, ~"times as long as dyno_traps:folded()").

first_call(Config) ->
    {Text, Run} = bench("first", ["dyno_traps:memo().", "dyno_traps:real()."], Config),
    #{~"dyno_traps:memo()." := ~"unknown", ~"dyno_traps:real()." := ~"fastest"} = verdicts(Run),
    has(Text, ~"dyno_traps:memo().: the first call took "),
    has(Text, ~"so there is no verdict"),
    lacks(Text, ~"times as long as").

%% A cache that fills.
early_calls(Config) ->
    {Text, Run} = bench("early", ["dyno_traps:fills().", "dyno_traps:real()."], Config),
    #{~"dyno_traps:fills()." := ~"unknown", ~"dyno_traps:real()." := ~"fastest"} = verdicts(Run),
    has(Text, ~"dyno_traps:fills().: the first "),
    lacks(Text, ~"times as long as").

%% To load a module takes far less than this call.
first_call_loads(Config) ->
    {Text, Run} = bench("loads", ["dyno_traps:loads().", "dyno_traps:real()."], Config),
    #{~"dyno_traps:loads()." := ~"unknown"} = verdicts(Run),
    has(Text, ~"dyno_traps:loads().: the first call took ").

%% On a busy machine other processes of the node keep some in each run, with one call as well.
kept_by_others(_Config) ->
    Kept = fun(Each) ->
        dyno_bench_kept:measure(fun(N) -> #{heap => 0, node => 20_800 + Each * N} end, 1000)
    end,
    ?assertEqual(0.0, Kept(0)),
    ?assertEqual(99.9, Kept(100)).

keeps(Config) ->
    Leaves = ["dyno_traps:insert().", "dyno_traps:leave_process().", "dyno_traps:leave_atom()."],
    {Text, Run} = bench("keeps", Leaves ++ ["dyno_traps:real()."], Config),
    Verdicts = verdicts(Run),
    [
        begin
            ?assertMatch(#{Code := ~"unknown"}, Verdicts, Text),
            has(Text, <<Code/binary, ": each call leaves ">>)
        end
     || Code <- lists:map(fun list_to_binary/1, Leaves)
    ],
    %% lists:seq(1, 10) took 3 us beside a code that fills the mailbox.
    has(Text, ~"so the times of all codes, in the same VM, depend on how long it is measured"),
    lacks(Text, ~"times as long as").

drifts(Config) ->
    {Text, Run} = bench("drifts", ["dyno_traps:append().", "dyno_traps:real()."], Config),
    #{~"dyno_traps:append()." := ~"unknown"} = verdicts(Run),
    has(Text, ~"dyno_traps:append().: "),
    has(Text, ~"depend on how long it is measured"),
    %% In the same process, whose heap is large now.
    lacks(Text, ~"dyno_traps:real().: each call leaves"),
    lacks(Text, ~"times as long as").

%% Each VM begins anew, so what one VM shows counts.
in_vms_of_their_own(Config) ->
    Traps = ["dyno_traps:memo().", "dyno_traps:insert()."],
    {Text, Run} = bench("vms", ["dyno_traps:real().", "-i", "--vms", "8" | Traps], Config),
    Verdicts = verdicts(Run),
    [
        ?assertMatch(#{Code := ~"unknown"}, Verdicts)
     || Trap <- Traps, Code <- [list_to_binary(Trap)]
    ],
    #{~"dyno_traps:real()." := ~"fastest"} = Verdicts,
    has(Text, ~"dyno_traps:memo().: the first call took "),
    has(Text, ~"dyno_traps:insert().: each call leaves "),
    lacks(Text, ~"of all codes"),
    lacks(Text, ~"times as long as").

%% What only does something for the first time, as each code does, is nothing to be told.
well(Config) ->
    {Text, Run} = bench("well", ["rand:uniform().", "lists:seq(1, 200)."], Config),
    #{~"rand:uniform()." := ~"fastest", ~"lists:seq(1, 200)." := Verdict} = verdicts(Run),
    %% A busy machine may leave it undecided.
    ?assert(lists:member(Verdict, [~"slower", ~"undecided"]), Text),
    lacks(Text, ~"no verdict").

busy(Config) ->
    {Text, Run} = beside_others(fun() ->
        bench("busy", ["dyno_traps:sorted().", "dyno_traps:real()."], Config)
    end),
    Verdict = map_get(~"dyno_traps:real().", verdicts(Run)),
    ?assert(lists:member(Verdict, [~"slower", ~"undecided"]), Text),
    Times = lists:append([Of || #{~"name" := ~"bench.time", ~"values" := Of} <- series(Run)]),
    ?assertEqual([], [Ns || Ns <- Times, Ns < 1.0]),
    lacks(Text, ~"no verdict").

%% Two programs take the processors.
beside_others(Fun) ->
    Spinning = dyno_truth:spin(),
    try
        Fun()
    after
        dyno_truth:calm(Spinning)
    end.

series(#{~"series" := Series}) -> Series.

%% What stands in a trace is what was there.
terms(_Config) ->
    Records = #{{order, 2} => [id, items]},
    Text = fun(Term) -> unicode:characters_to_binary(dyno_trace_term:text(Term, Records)) end,
    [
        ?assertEqual(Expected, Text(Term))
     || {Term, Expected} <- [
            {[1597, 1598], ~"[1597,1598]"},
            {[8, 9, 10], ~"[8,9,10]"},
            {[200, 201], ~"[200,201]"},
            {"shop", ~"\"shop\""},
            {"café au lait", unicode:characters_to_binary("\"café au lait\"")},
            {{order, 7, ["a"]}, ~"#order{id = 7,items = [\"a\"]}"},
            {{order, 7}, ~"{order,7}"},
            {#{'__struct__' => 'Elixir.Shop.Order', id => 7}, ~"%Shop.Order{id: 7}"},
            {#{b => [], a => {}}, ~"#{a => {},b => []}"},
            {[1 | {'$dyno', ~"..."}], ~"[1|...]"},
            {
                #{{'$dyno', ~"..."} => {'$dyno', ~"..."}, a => {'$dyno', ~"<0.1.0>"}},
                ~"#{a => <0.1.0>,...}"
            }
        ]
    ].

init_per_group(traced, Config) ->
    Folder = filename:join(proplists:get_value(priv_dir, Config), "traced"),
    File = filename:join(Folder, "dyno_traced.erl"),
    ok = filelib:ensure_dir(File),
    ok = file:write_file(
        File,
        ~"""
    -module(dyno_traced).
    -export([start/0, order/2, hot/1, big/2]).
    -record(order, {id, items :: list()}).
    start() ->
        spawn(fun() -> orders(1) end),
        spawn(fun() -> hot(1) end),
        spawn(fun() -> bigs(lists:seq(1, 500_000), 1) end).
    orders(N) ->
        ?MODULE:order(N, #order{id = N, items = [1597, 1598]}),
        timer:sleep(2),
        orders(N + 1).
    order(_, Order) -> Order.
    hot(N) -> erlang:phash2(N), ?MODULE:hot(N + 1).
    bigs(List, N) -> ?MODULE:big(N, List), timer:sleep(1), bigs(List, N + 1).
    big(N, _) -> N.
    """
    ),
    {ok, dyno_traced} = compile:file(File, [debug_info, {outdir, Folder}]),
    {_, Node} = Peer = dyno_peers:start(["-pa", Folder]),
    _ = erpc:call(Node, dyno_traced, start, []),
    [{peer, Peer}, {node, Node} | Config];
init_per_group(_Group, Config) ->
    Config.

end_per_group(traced, Config) ->
    dyno_peers:stop(proplists:get_value(peer, Config));
end_per_group(_Group, _Config) ->
    ok.

trace(Arguments, Config) ->
    dyno_command:run(
        [
            "trace",
            atom_to_list(proplists:get_value(node, Config)),
            "--cookie",
            atom_to_list(erlang:get_cookie())
            | Arguments
        ]
    ).

records(Config) ->
    {0, Text} = trace(["dyno_traced:order/2", "--count", "1"], Config),
    has(Text, ~",items = [1597,1598]})"),
    has(Text, ~"#order{id = ").

arguments(Config) ->
    {2, Text} = trace(["dyno_traced:order/2", "--args", "7"], Config),
    has(Text, ~"dyno_traced:order/2 has no argument 7: --args takes 1 to 2"),
    {2, Any} = trace(["dyno_traced:order", "--args", "3"], Config),
    has(Any, ~"dyno_traced:order has no argument 3: --args takes 1 to 2").

alternatives(Config) ->
    Pattern = "dyno_traced:order(A, _) when A rem 2 == 0 ; A == 7 -> return",
    {0, Text} = trace([Pattern, "--count", "3"], Config),
    {match, Found} = re:run(Text, "order\\((\\d+), ", [global, {capture, all_but_first, binary}]),
    ?assertMatch([_, _, _], Found),
    ?assertEqual([], [N || [N] <- Found, binary_to_integer(N) rem 2 =:= 1]).

%% What was dropped is none of those that were shown.
counts(Config) ->
    {Status, Text} = trace(
        [
            "dyno_traced:hot/1",
            "--count",
            "1000000",
            "--limit-rate",
            "10000000",
            "--for",
            "1s"
        ],
        Config
    ),
    {match, Lines} = re:run(Text, "dyno_traced:hot\\(", [global]),
    {match, [Told]} = re:run(
        Text, "([0-9]+) (?:in 1 s|shown in)", [{capture, all_but_first, binary}]
    ),
    ?assertEqual(length(Lines), binary_to_integer(Told), {Status, string:slice(Text, 0, 500)}).

%% Arguments of 8 MB, which the runtime copies for each call.
big_arguments(Config) ->
    Node = proplists:get_value(node, Config),
    Bytes = fun() -> erpc:call(Node, erlang, memory, [total]) end,
    Before = Bytes(),
    {Status, Text} = beside_others(fun() ->
        trace(["dyno_traced:big/2", "--count", "20", "--for", "3s"], Config)
    end),
    has(Text, ~"dyno_traced:big("),
    %% All are shown, or it says what to leave out.
    _ = Status =:= 0 orelse has(Text, ~"leave the arguments out with --arity"),
    ?assert(Bytes() - Before < 64_000_000).

suite(Name, Callbacks, Config) ->
    File = filename:join(proplists:get_value(priv_dir, Config), Name ++ ".erl"),
    ok = file:write_file(File, [
        "-module(",
        Name,
        ").\n-behaviour(dyno_suite).\n"
        "-export([suite/0, init_run/2, operation/1]).\n"
        "suite() -> #{sizes => [1], duration_ms => 200, warmup_ms => 0}.\n",
        Callbacks
    ]),
    Json = filename:join(proplists:get_value(priv_dir, Config), Name ++ ".json"),
    dyno_command:run(["test", File, "--threshold", "errors.rate < 1%", "-o", Json]).

%% The measured system has failed, not dyno.
all_fail(Config) ->
    {Status, Text} = suite(
        "dyno_all_fail",
        "init_run(_, _) -> {ok, [], s}. operation(S) -> timer:sleep(2), {error, no_stock, S}.",
        Config
    ),
    ?assertEqual(1, Status, Text),
    has(Text, ~"no_stock"),
    has(Text, ~"FAILED: 1 of 1 threshold did not hold"),
    lacks(Text, ~"COULD NOT FINISH"),
    lacks(Text, ~"UNKNOWN").

set_up_fails(Config) ->
    {Status, Text} = suite(
        "dyno_no_set_up",
        "init_run(_, _) -> {error, no_database}. operation(S) -> {ok, S}.",
        Config
    ),
    ?assertEqual(3, Status, Text),
    has(Text, ~"init_run/2 returned {error,no_database}"),
    ?assertMatch([_], binary:matches(Text, ~"errors.rate < 1%"), Text).

elixir(_Config) ->
    {error, First} = 'Elixir.Dyno':bench([{time, 1}]),
    has(First, ~"the code comes first: Dyno.bench(fn -> ... end, budget_ms: 1000)"),
    Slips = [{time, ~"budget_ms"}, {vus, ~"concurrency"}, {duration, ~"budget_ms"}],
    [
        begin
            {error, Text} = 'Elixir.Dyno':bench(fun() -> ok end, [{Written, 1}]),
            has(Text, <<"did you mean ", Meant/binary, "?">>)
        end
     || {Written, Meant} <- Slips
    ],
    %% One folder, as a text or as characters.
    [
        ?assert(
            dyno_code:with_paths(Path, fun() -> lists:member("/tmp", code:get_path()) end)
        )
     || Path <- [~"/tmp", "/tmp", ["/tmp"], [~"/tmp"]]
    ].
