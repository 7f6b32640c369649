%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_SUITE).
-moduledoc "Comparisons of real codes, measured.".

-include_lib("stdlib/include/assert.hrl").

-import(dyno_truth, [rows/2]).

-compile([export_all, nowarn_export_all]).

suite() ->
    [{timetrap, {minutes, 5}}].

each_release() ->
    [
        measures_reductions,
        several_workers,
        codes_that_fail,
        ends_with_its_caller
    ].

slow() -> [as_many_as_there_are_names].

all() ->
    [
        the_slower_one_is_slower,
        identical_codes_are_not_different,
        one_code_alone,
        measures_reductions,
        several_workers,
        codes_that_fail,
        leaves_nothing_behind,
        runs_at_the_same_time,
        as_many_as_there_are_names,
        the_recording_is_valid,
        ends_when_interrupted,
        keeps_what_was_measured,
        slow_codes_get_a_verdict,
        the_time_is_a_limit,
        single_calls,
        ends_with_its_caller
    ].

run(Codes) ->
    run(Codes, #{}).

run(Codes, Options) ->
    dyno_bench:run(Codes, Options).

row(Code, Document) ->
    [Row] = [R || #{~"code" := C} = R <- rows(~"codes", Document), C =:= Code],
    Row.

the_slower_one_is_slower(_Config) ->
    %% It ends when it is decided, which takes longer on a busy machine.
    {ok, Document} = run(["lists:seq(1, 10).", "lists:seq(1, 100)."], #{budget_ms => 30_000}),
    ?assertMatch(
        [
            #{~"code" := ~"lists:seq(1, 10).", ~"verdict" := ~"fastest", ~"ratio" := 1.0},
            #{~"code" := ~"lists:seq(1, 100).", ~"verdict" := ~"slower"}
        ],
        rows(~"codes", Document)
    ),
    #{~"ratio" := Ratio, ~"ratio_low" := Low, ~"ratio_high" := High} =
        row(~"lists:seq(1, 100).", Document),
    %% It ends as soon as that is sure.
    ?assert(Low > 1),
    ?assert(Low =< Ratio),
    ?assert(Ratio =< High).

%% Once in twenty it may be, and oftener on a noisy machine; nearly always is a defect.
identical_codes_are_not_different(_Config) ->
    not_different(2, 4).

%% Until so many comparisons found no difference; so many that found one are too many.
not_different(0, _) ->
    ok;
not_different(_, 0) ->
    ct:fail("identical codes are found to be different");
not_different(Left, TooMany) ->
    {ok, Document} = run(["lists:seq(1, 50).", "lists:seq(1, 50)."]),
    [#{~"verdict" := Verdict}] = rows(~"comparisons", Document),
    ?assertMatch(
        [~"lists:seq(1, 50). #1", ~"lists:seq(1, 50). #2"],
        lists:sort([C || #{~"code" := C} <- rows(~"codes", Document)])
    ),
    ct:pal("~ts", [Verdict]),
    case lists:member(Verdict, [~"slower", ~"faster"]) of
        true -> not_different(Left, TooMany - 1);
        false -> not_different(Left - 1, TooMany)
    end.

one_code_alone(_Config) ->
    {ok, Document} = run(["timer:sleep(2)."], #{budget_ms => 200}),
    #{~"time_per_call" := Ns, ~"low" := Low} = row(~"timer:sleep(2).", Document),
    %% The empty loop's time is taken off, which on a busy machine is more than nothing.
    ?assert(Ns > 1.9e6, Ns),
    %% On a busy machine the time may be over before there are rounds enough for an interval.
    ?assert(Low =:= null orelse Low =< Ns, {Low, Ns}),
    ?assertEqual([], rows(~"comparisons", Document)).

measures_reductions(_Config) ->
    {ok, Document} = run(["lists:seq(1, 10).", "ok."], #{budget_ms => 100}),
    #{~"reductions_per_call" := Of10} = row(~"lists:seq(1, 10).", Document),
    #{~"reductions_per_call" := OfOk} = row(~"ok.", Document),
    ?assert(Of10 > OfOk),
    ?assert(abs(OfOk) < 0.01).

several_workers(_Config) ->
    Self = self(),
    Code = #{runner => fun(X) -> X end, init_runner => fun() -> Self ! {worker, self()} end},
    {ok, _} = run([Code], #{concurrency => 3, budget_ms => 50}),
    Workers = receive_all([]),
    ?assertEqual(3, length(lists:usort(Workers))).

receive_all(Pids) ->
    receive
        {worker, Pid} -> receive_all([Pid | Pids])
    after 0 -> Pids
    end.

codes_that_fail(_Config) ->
    Late = #{
        runner =>
            "r(C) -> counters:add(C, 1, 1), case counters:get(C, 1) of 100000 -> "
            "error(late); _ -> ok end.",
        init_runner => "counters:new(1, [])."
    },
    Cases = [
        {"error(boom).", "the code raised error:boom"},
        {"throw(ball).", "the code raised throw:ball"},
        {"exit(normal).", "the code raised exit:normal"},
        {"exit(shutdown).", "the code raised exit:shutdown"},
        {"exit(self(), kill), receive after 1000 -> ok end.", "died"},
        {"gen_server:call(foo, bar).", "noproc"},
        {Late, "late"},
        {#{runner => "ok.", init => "error(early)."}, "init raised error:early"},
        {#{runner => "ok.", init_runner => "error(early)."}, "init_runner raised error:early"}
    ],
    lists:foreach(
        fun({Code, Expected}) ->
            {error, Reason} = run(["ok.", Code]),
            Text = unicode:characters_to_list(dyno_error:format(Reason)),
            ?assertMatch({match, _}, re:run(Text, Expected), {Code, Text}),
            ?assertEqual(1, dyno_error:exit_status(Reason))
        end,
        Cases
    ).

%% Not an atom, a module or a process more after several comparisons.
leaves_nothing_behind(_Config) ->
    Run = fun() ->
        {ok, _} = run(["X = 1, X + 1.", "r() -> ok."], #{budget_ms => 1}),
        {error, _} = run(["ok.", "error(boom)."], #{budget_ms => 1})
    end,
    Run(),
    %% A run may need a module that the first did not.
    {ok, Modules} = application:get_key(dyno, modules),
    ok = code:ensure_modules_loaded(Modules),
    Count = fun() ->
        {erlang:system_info(atom_count), length(dyno_agent_patterns:loaded()), length(processes())}
    end,
    Before = Count(),
    Loaded = loops(),
    _ = [Run() || _ <- lists:seq(1, 4)],
    ok = settled(Before, Count, 100),
    ?assertEqual(Loaded, loops()).

loops() ->
    [M || M <- dyno_agent_patterns:loaded(), lists:prefix("dyno_bench_loop", atom_to_list(M))].

%% The processes end a moment later, others' come and go.
%% In the external format an atom is its number in the table.
atoms(From, To) -> [binary_to_term(<<131, 75, N:24>>) || N <- lists:seq(From, To - 1)].

settled(Before, Count, Tries) ->
    case Count() of
        {Atoms, Modules, Processes} when
            {Atoms, Modules} =:= {element(1, Before), element(2, Before)},
            Processes =< element(3, Before)
        ->
            ok;
        After when Tries =:= 0 ->
            ct:fail({Before, After, atoms(element(1, Before), element(1, After))});
        _ ->
            receive
            after 20 -> settled(Before, Count, Tries - 1)
            end
    end.

%% The second begins and ends while the first has its code and an input's fun in use.
runs_at_the_same_time(_Config) ->
    {First, Ref, Worker} = waiting(
        "r(F) -> F(1).", #{inputs => [{"f", "fun(X) -> {first, X} end"}]}
    ),
    {ok, _} = run(["r(F) -> F(2)."], #{budget_ms => 1, inputs => [{"f", "fun(X) -> X end"}]}),
    ?assert(is_process_alive(Worker)),
    Worker ! go,
    receive
        {'DOWN', Ref, process, First, {result, Result}} -> ?assertMatch({ok, _}, Result)
    end.

as_many_as_there_are_names(_Config) ->
    Waiting = [waiting("ok", #{}) || _ <- lists:seq(1, 64)],
    {error, Reason} = run(["ok"], #{budget_ms => 1}),
    ?assertMatch(
        {match, _}, re:run(dyno_error:format(Reason), "64 measurements and jobs run in this")
    ),
    ?assertEqual(3, dyno_error:exit_status(Reason)),
    [Pid ! go || {_, _, Pid} <- Waiting],
    [
        receive
            {'DOWN', Ref, process, Runner, {result, Result}} -> ?assertMatch({ok, _}, Result)
        end
     || {Runner, Ref, _} <- Waiting
    ],
    {ok, _} = run(["ok"], #{budget_ms => 1}).

%% A run whose worker has its code, and waits for a message.
waiting(Code, Options) ->
    Self = self(),
    InitRunner = fun(Init) ->
        Self ! {waiting, self()},
        receive
            go -> Init
        end
    end,
    Whole = #{runner => Code, init_runner => InitRunner},
    With =
        case Options of
            #{inputs := _} -> Whole;
            #{} -> Whole#{init => "none"}
        end,
    {Pid, Ref} = spawn_monitor(fun() ->
        exit({result, run([With], Options#{budget_ms => 1})})
    end),
    receive
        {waiting, Worker} -> {Pid, Ref, Worker}
    end.

the_recording_is_valid(Config) ->
    {ok, Document} = run(["ok.", "self()."], #{budget_ms => 50}),
    ?assertMatch({ok, _}, dyno_recording:validate(Document)),
    File = filename:join(proplists:get_value(priv_dir, Config), "bench.json"),
    ok = dyno_recording_file:write(File, Document),
    ?assertEqual({ok, Document}, dyno_recording_file:read(File)),
    #{~"command" := ~"bench", ~"status" := ~"complete"} = Document,
    #{~"warnings" := Warnings} = Document,
    ?assert(lists:member(~"constant", [C || #{~"code" := C} <- Warnings])).

ends_when_interrupted(_Config) ->
    {Pid, Ref} = spawn_monitor(fun() ->
        exit({result, run(["timer:sleep(1).", "timer:sleep(2)."], #{budget_ms => 60_000})})
    end),
    dyno_bench:interrupt(Pid),
    receive
        {'DOWN', Ref, process, Pid, {result, Result}} ->
            ?assertEqual({error, {dyno_error, interrupted}}, Result)
    end.

%% Two rounds are enough to be shown, in every way to measure.
keeps_what_was_measured(_Config) ->
    [
        begin
            Self = self(),
            Progress = fun(#{round := Round}) -> Round > 2 andalso (Self ! interrupt) end,
            {Pid, Ref} = spawn_monitor(fun() ->
                exit({result, run(Codes, Options#{progress => Progress})})
            end),
            receive
                interrupt -> dyno_bench:interrupt(Pid)
            end,
            {ok, Document} =
                receive
                    {'DOWN', Ref, process, Pid, {result, Result}} -> Result
                end,
            #{~"status" := Status, ~"warnings" := Warnings} = Document,
            ?assertEqual(~"interrupted", Status),
            ?assertMatch(
                [<<"interrupted: this is what ", _:8, " rounds gave">>],
                [Text || #{~"code" := ~"interrupted", ~"text" := Text} <- Warnings]
            ),
            ?assertEqual(length(Codes), length(rows(~"codes", Document))),
            flush(interrupt)
        end
     || {Codes, Options} <- [
            {["timer:sleep(90).", "timer:sleep(110)."], #{}},
            {["r(X) -> timer:sleep(X)."], #{inputs => [{a, 210}, {b, 210}], budget_ms => 60_000}},
            {["timer:sleep(1)."], #{mode => {continuous, #{sample_ms => 210, samples => 100}}}},
            {["timer:sleep(1)."], #{mode => {timed, #{iterations => 200, samples => 100}}}}
        ]
    ].

flush(Message) ->
    receive
        Message -> flush(Message)
    after 0 -> ok
    end.

%% Six rounds, whose number is fixed beforehand, and not those of a sequence, which would need 11.
slow_codes_get_a_verdict(_Config) ->
    dyno_tries:hold(3, fun slow_codes_get_a_verdict_once/0).

slow_codes_get_a_verdict_once() ->
    {ok, Document} = run(["timer:sleep(60).", "timer:sleep(120)."], #{budget_ms => 500}),
    ok = slower_unless_busy(Document),
    ?assertMatch([<<"it took ", _/binary>>], warnings(~"time", Document)),
    {ok, Apart} = run(["timer:sleep(10).", "timer:sleep(60)."], #{}),
    ok = slower_unless_busy(Apart),
    ?assertMatch([_, #{~"iterations" := 1}], rows(~"codes", Apart)).

%% Beside other programs a sleep takes longer, and how much longer is not known.
slower_unless_busy(Document) ->
    [First, Second] = [Verdict || #{~"verdict" := Verdict} <- rows(~"codes", Document)],
    {Firsts, Seconds} =
        case warnings(~"busy", Document) of
            [] -> {[~"fastest"], [~"slower"]};
            _ -> {[~"fastest", null], [~"slower", ~"unknown", ~"undecided"]}
        end,
    ?assert(lists:member(First, Firsts), {First, Second}),
    ?assert(lists:member(Second, Seconds), {First, Second}),
    ok.

%% Five times as long for a verdict, and no longer: one round, and a word on it.
the_time_is_a_limit(_Config) ->
    {ok, Document} = run(["timer:sleep(100).", "timer:sleep(110)."], #{budget_ms => 50}),
    ?assertMatch(
        [<<"the time for measuring, 50 ms, was over after 1 round; a verdict needs 6", _/binary>>],
        warnings(~"time", Document)
    ),
    ?assertEqual([], warnings(~"undecided", Document)).

%% One call in fifty is far longer: the times of rounds hardly show it, those of calls do.
single_calls(_Config) ->
    dyno_tries:hold(3, fun single_calls_once/0).

single_calls_once() ->
    Code = #{
        runner =>
            "r(C) -> counters:add(C, 1, 1), "
            "case counters:get(C, 1) rem 50 of 0 -> timer:sleep(20); _ -> lists:seq(1, 1000) end.",
        init_runner => "counters:new(1, [])."
    },
    {ok, Document} = run([Code, "ok."], #{budget_ms => 300}),
    [#{~"calls" := Calls, ~"min" := Min, ~"median" := Median, ~"p99" := P99, ~"max" := Max} = Row] =
        rows(~"single_calls", Document),
    #{~"deviation" := Deviation} = Row,
    ?assert(Calls > 50, Row),
    ?assert(Min > 100 andalso Min =< Median andalso Median < 5_000_000, Row),
    ?assert(P99 > 15_000_000 andalso P99 =< Max, Row),
    ?assert(Deviation > 1, Row),
    ?assertEqual(
        #{
            calls => 2,
            min_ns => 10,
            median_ns => 10,
            p99_ns => 30,
            max_ns => 30,
            deviation => 0.5
        },
        dyno_bench_single_calls:of_times([10, 30.0])
    ).

warnings(Code, #{~"warnings" := Warnings}) ->
    [Text || #{~"code" := C, ~"text" := Text} <- Warnings, C =:= Code].

ends_with_its_caller(_Config) ->
    Self = self(),
    Code = #{runner => "timer:sleep(1).", init_runner => fun() -> Self ! {worker, self()} end},
    Caller = spawn(fun() -> run([Code], #{budget_ms => 60_000}) end),
    Worker =
        receive
            {worker, Pid} -> Pid
        end,
    Ref = monitor(process, Worker),
    exit(Caller, kill),
    receive
        {'DOWN', Ref, process, Worker, _} -> ok
    end.
