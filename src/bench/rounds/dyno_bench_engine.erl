%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_engine).
-moduledoc false.
%% Measures codes against each other on this node: loads their loops, starts a worker for each and
%% each unit of concurrency, finds how many iterations an epoch needs, and runs rounds until every
%% pair is decided or the time is over. dyno_bench_rounds decides; this only measures.
%%
%% Never two codes at the same time. The estimate is the wall time less the time for which the
%% thread waited for a processor: what other programs took is not the code's.

-export([run/2, format_error/1]).
%% One code that somebody else decides about: see dyno_bench_vm_server
-export([serve/3, iterations/1, epochs/2, result/1, loop_ns/1, arm/3]).
-export_type([options/0, extent/0, check/0, result/0, arm/0, stand/0, reason/0]).

-type options() :: #{
    concurrency := pos_integer(),
    %% The time for the rounds. More where the codes are slow: at least six rounds.
    budget_ms := pos_integer(),
    threshold := float(),
    level := float(),
    %% The longest that one epoch may take.
    timeout_ms := pos_integer(),
    seed => integer(),
    check => check(),
    %% What decides; time.
    metric => dyno_bench_metric:name(),
    %% Also what the codes make other processes do; also which functions take the time.
    extras => [whole | profile],
    %% Instead of what the experiment finds itself.
    extent => extent(),
    %% Each code in VMs of its own; others see to that.
    isolated => dyno_bench_isolated:settings(),
    %% In the names of its modules.
    run => pos_integer(),
    compiler => dyno_bench_code:compiler()
}.

-type extent() :: #{
    iterations := pos_integer(),
    samples := pos_integer(),
    %% Samples that are thrown away before.
    warmup := non_neg_integer()
}.

-doc "Judges what one call of each code returned, before anything is measured.".
-type check() :: fun(([{Label :: binary(), Result :: term()}]) ->
    ok | {error, unicode:chardata()}).

-type arm() :: #{
    label := binary(),
    form := inline | call | apply,
    constant := boolean(),
    warnings := [binary()],
    iterations := pos_integer(),
    %% Nanoseconds an iteration, by round.
    times_ns := [float()],
    %% Of a call, the loop's own subtracted.
    exact => dyno_bench_exact:exact(),
    whole => dyno_bench_side_effects:whole() | overrun,
    profile => dyno_bench_profile:profile(),
    %% By round or run, of what decides where that is not the time.
    values => [float()],
    %% With those of the loop and the collections.
    reductions := float(),
    garbage_collections := float(),
    %% The share of the wall time for which other programs had the processor.
    waiting := float() | undefined,
    %% The same by round.
    waits => [float() | undefined]
}.

-type result() :: #{
    arms := [arm()],
    pairs := [dyno_bench_rounds:pair()],
    rounds := non_neg_integer(),
    decided := boolean(),
    metric => dyno_bench_metric:name(),
    %% Of the empty loop, an iteration; it is in every figure.
    loop_ns := float() | undefined,
    duration_ms => non_neg_integer(),
    %% How many VMs each code was measured in, where it had its own.
    vms => pos_integer(),
    %% Of samples: whether they came to agree as --cv asks.
    agreed => boolean(),
    %% Whether the number of rounds was given.
    fixed => boolean()
}.

-doc "A code that is ready to run, with its workers.".
-opaque stand() :: #{
    workers := [pid()], arms := #{non_neg_integer() => map()}, options := options()
}.

-type reason() ::
    {code, pos_integer(), dyno_bench_code:reason()}
    | {failed, Label :: binary(), Stage :: init | init_runner | run,
        dyno_bench_worker:failure() | dyno_sandbox:failure()}
    | {endless, Label :: binary(), TimeoutMs :: pos_integer()}
    %% A function that the code names and that is not there.
    | {unknown, Label :: binary(), mfa() | binary()}
    | {check, unicode:chardata()}
    %% The NIF that reads it is missing.
    | {no_metric, dyno_bench_metric:name(), Label :: binary()}
    %% Its messages are too large to be traced.
    | {overrun, Label :: binary()}
    | {too_many_jobs, pos_integer()}
    | interrupted.

%% No interval at 95 % is possible with fewer rounds.
-define(MIN_ROUNDS, 6).

-doc "Measures codes; all are loaded and taken away again.".
-spec run([dyno_bench_code:code(), ...], options()) -> {ok, result()} | {error, reason()}.
run(Codes, Options) ->
    StartMs = erlang:monotonic_time(millisecond),
    case loaded(Codes, Options, fun whole/1) of
        {ok, Result} ->
            {ok, Result#{duration_ms => erlang:monotonic_time(millisecond) - StartMs}};
        {error, _} = Error ->
            Error
    end.

-doc """
Makes a code ready, and calls a function with it, which may call `iterations/1`, `epochs/2`,
`loop_ns/1` and `arm/3`; then takes the code away again. An error ends the function.
""".
-spec serve(dyno_bench_code:code(), options(), fun((stand()) -> Value)) ->
    {ok, Value} | {error, reason()}.
serve(Code, Options, Serve) ->
    loaded([Code], Options, Serve).

loaded(Codes, Options, Serve) ->
    case load(Codes, 1, [], maps:with([compiler, timeout_ms, run], Options)) of
        {ok, Loaded} ->
            try measure(Loaded, Options, Serve) of
                Value -> {ok, Value}
            catch
                throw:{?MODULE, Reason} -> {error, Reason}
            after
                lists:foreach(fun unload/1, Loaded)
            end;
        {error, _} = Error ->
            Error
    end.

%% A fixed set of names: see dyno_bench_slots.
load([], _Number, Loaded, _How) ->
    {ok, lists:reverse(Loaded)};
load([Code | Rest], Number, Loaded, How) ->
    Module = dyno_bench_slots:module(arm, Number, How),
    maybe
        {ok, Parsed} ?= dyno_bench_code:read(Code),
        {ok, #{binary := Binary} = Compiled} ?= dyno_bench_code:compile(Module, Parsed, How),
        ok = dyno_code:load(Module, atom_to_list(Module), Binary),
        load(Rest, Number + 1, [Compiled | Loaded], How)
    else
        {error, Reason} ->
            lists:foreach(fun unload/1, Loaded),
            {error, of_code(Number, Reason)}
    end.

of_code(_Number, interrupted) -> interrupted;
of_code(Number, Reason) -> {code, Number, Reason}.

unload(#{module := Module}) ->
    dyno_code:unload(Module).

-spec fail(reason()) -> no_return().
fail(Reason) ->
    throw({?MODULE, Reason}).

measure(Loaded, Options, Serve) ->
    Trapping = process_flag(trap_exit, true),
    try
        with_workers(Loaded, Options, Serve)
    after
        process_flag(trap_exit, Trapping)
    end.

with_workers(Loaded, #{concurrency := Concurrency} = Options, Serve) ->
    {#{module := LoopModule} = Loop, LoopBinary} = loop(Options),
    ok = dyno_code:load(LoopModule, atom_to_list(LoopModule), LoopBinary),
    Schedulers = erlang:system_info(schedulers_online),
    Workers = [
        dyno_bench_worker:start_link((N - 1) rem Schedulers + 1)
     || N <- lists:seq(1, Concurrency)
    ],
    Sandbox = dyno_sandbox:start(#{}),
    try
        Arms = maps:from_list(
            [{0, #{compiled => Loop, init => undefined}}] ++
                [
                    {Number, #{compiled => C, init => initialised(Sandbox, C, Options)}}
                 || {Number, C} <- lists:enumerate(Loaded)
                ]
        ),
        served(Workers, Arms, Options, Serve)
    after
        lists:foreach(fun dyno_sandbox:kill/1, Workers),
        lists:foreach(fun(Compiled) -> finish(Sandbox, Compiled, Options) end, Loaded),
        dyno_sandbox:stop(Sandbox),
        unload(Loop)
    end.

served(Workers, Arms, Options, Serve) ->
    maps:foreach(fun(Number, Arm) -> prepare(Workers, Number, Arm, Options) end, Arms),
    check(Workers, maps:remove(0, Arms), Options),
    Serve(#{workers => Workers, arms => Arms, options => Options}).

whole(#{workers := Workers, arms := Arms, options := Options} = Stand) ->
    LoopNs = loop_ns(Stand),
    Codes = maps:remove(0, Arms),
    Iterations = calibrate(Workers, Codes, Options),
    Result = exact(Workers, Arms, rounds(Workers, Codes, Iterations, LoopNs, Options), Options),
    Wanted = dyno_bench_extras:extras(Options, map_size(Codes)),
    dyno_bench_extras:decided(extras(Workers, Codes, Result, Wanted, Options), Options).

-doc "How many iterations an epoch of the only code needs.".
-spec iterations(stand()) -> pos_integer().
iterations(#{workers := Workers, arms := #{1 := Arm}, options := Options}) ->
    #{1 := N} = calibrate(Workers, #{1 => Arm}, Options),
    N.

-doc """
So many iterations of the only code, in each of its workers; the time of one, and the metric that
decides, where that is one of epochs.
""".
-spec epochs(stand(), pos_integer()) ->
    {TimeNs :: float(), Value :: float(), [dyno_bench_worker:epoch(), ...]}.
epochs(#{workers := Workers, arms := #{1 := Arm}, options := Options}, N) ->
    Epochs = epochs(Workers, {1, Arm}, N, Options),
    {float(time_ns(Epochs)), float(value(maps:get(metric, Options, time), Arm, Epochs)), Epochs}.

-doc "What a call of the only code returns.".
-spec result(stand()) -> term().
result(#{workers := [Worker | _], arms := #{1 := Arm}, options := Options}) ->
    result(Worker, {1, Arm}, Options).

-doc "What the empty loop takes, an iteration of one worker.".
-spec loop_ns(stand()) -> float() | undefined.
loop_ns(#{workers := Workers, arms := Arms, options := Options}) ->
    loop_ns(Workers, Arms, Options).

-doc "The figures of the only code, with what is wanted besides.".
-spec arm(
    stand(),
    {Iterations :: pos_integer(), [dyno_bench_worker:epoch(), ...]},
    [exact | whole | profile]
) ->
    arm().
arm(#{workers := Workers, arms := #{1 := Arm} = Arms, options := Options}, {N, Epochs}, Wanted) ->
    Alone = #{arms => [of_rounds(Arm, N, [Epochs])]},
    Exact =
        case lists:member(exact, Wanted) of
            true -> exact(Workers, Arms, Alone, Options);
            false -> Alone
        end,
    Extras = dyno_bench_extras:extras(Options#{extras => Wanted -- [exact], metric => time}, 1),
    #{arms := [Whole]} = extras(Workers, #{1 => Arm}, Exact, Extras, Options),
    Whole#{times_ns := []}.

%% The empty loop is a code like the others.
loop(Options) ->
    {ok, Parsed} = dyno_bench_code:read("ok."),
    How = maps:with([compiler], Options),
    Module = dyno_bench_slots:module(arm, loop, Options),
    {ok, #{binary := Binary} = Loop} = dyno_bench_code:compile(Module, Parsed, How),
    {Loop, Binary}.

%% The sandbox keeps the value as well, for `done`.
initialised(Sandbox, #{module := Module, constants := Constants, label := Label}, Options) ->
    Init = fun() ->
        Value = Module:init(Constants),
        _ = put({?MODULE, Module}, {initialised, Value}),
        Value
    end,
    case dyno_sandbox:call(Sandbox, Init, map_get(timeout_ms, Options)) of
        {ok, Value} -> Value;
        {error, Failure} -> fail(failure(Label, init, Failure, Options))
    end.

prepare(Workers, Number, #{compiled := #{label := Label} = Compiled, init := Init}, Options) ->
    lists:foreach(
        fun(Pid) ->
            case dyno_bench_worker:prepare(Pid, {Number, Compiled, Init}, deadline(Options)) of
                ok -> ok;
                {error, Reason} -> fail(failure(Label, init_runner, Reason, Options))
            end
        end,
        Workers
    ).

check([Worker | _], Arms, #{check := Check} = Options) ->
    Results = [
        {Label, result(Worker, Arm, Options)}
     || {_, #{compiled := #{label := Label}}} = Arm <- lists:sort(maps:to_list(Arms))
    ],
    case Check(Results) of
        ok -> ok;
        {error, Text} -> fail({check, Text})
    end;
check(_Workers, _Arms, _Options) ->
    ok.

result(Worker, {Number, #{compiled := #{label := Label}}}, Options) ->
    case dyno_bench_worker:result(Worker, Number, deadline(Options)) of
        {ok, Result} -> Result;
        {error, Reason} -> fail(failure(Label, run, Reason, Options))
    end.

deadline(#{timeout_ms := TimeoutMs}) ->
    erlang:monotonic_time(millisecond) + TimeoutMs.

failure(_Label, _Stage, interrupted, _Options) ->
    interrupted;
failure(Label, run, timeout, #{timeout_ms := TimeoutMs}) ->
    {endless, Label, TimeoutMs};
failure(Label, Stage, timeout, #{timeout_ms := TimeoutMs}) ->
    {failed, Label, Stage, {timeout, TimeoutMs}};
failure(Label, Stage, Failure, _Options) ->
    dyno_bench_undefined:failed(Label, Stage, Failure).

%% The measuring is done; what its tear-down does is the code's affair.
finish(Sandbox, #{module := Module, constants := Constants}, #{timeout_ms := TimeoutMs}) ->
    Done = fun() ->
        case get({?MODULE, Module}) of
            {initialised, Init} -> Module:done(Constants, Init);
            undefined -> ok
        end
    end,
    _ = dyno_sandbox:call(Sandbox, Done, TimeoutMs),
    ok.

loop_ns(Workers, #{0 := Loop}, Options) ->
    N = 2_000_000,
    dyno_stats:median([time_ns(epochs(Workers, {0, Loop}, N, Options)) || _ <- lists:seq(1, 5)]).

epochs(Workers, {Number, #{compiled := #{label := Label}}}, N, Options) ->
    receive
        dyno_interrupt -> fail(interrupted)
    after 0 -> ok
    end,
    case dyno_bench_worker:epoch(Workers, {Number, N}, deadline(Options)) of
        {ok, Epochs} -> Epochs;
        {error, Reason} -> fail(failure(Label, run, Reason, Options))
    end.

%% Nanoseconds an iteration of one worker, less the waiting.
time_ns(Epochs) ->
    dyno_stats:mean([dyno_bench_calibration:net_ns(E) / map_get(iterations, E) || E <- Epochs]).

%% As many iterations for all as the fastest needs for an epoch; a slow code would take too long
%% with them, and gets fewer: at that length it makes no difference.
calibrate(_Workers, Arms, #{extent := #{iterations := Iterations}}) ->
    maps:map(fun(_, _) -> Iterations end, Arms);
calibrate(Workers, Arms, Options) ->
    Epochs = fun(Numbered) -> fun(N) -> epochs(Workers, Numbered, N, Options) end end,
    Found = #{
        Number => dyno_bench_calibration:iterations(Epochs({Number, Arm}))
     || Number := Arm <- Arms
    },
    Most = lists:max(maps:values(Found)),
    #{
        Number => min(Most, 20 * N)
     || Number := N <- Found
    }.

rounds(Workers, Arms, Iterations, LoopNs, #{budget_ms := BudgetMs} = Options) ->
    Rounds = dyno_bench_rounds:new(
        (maps:with([threshold, level, seed], Options))#{arms => map_size(Arms)}
    ),
    EndMs = erlang:monotonic_time(millisecond) + BudgetMs,
    Round = fun(Order) ->
        #{
            Number => epochs(
                Workers, {Number, map_get(Number, Arms)}, map_get(Number, Iterations), Options
            )
         || Number <- Order
        }
    end,
    End =
        case Options of
            #{extent := #{samples := Samples, warmup := Warmup}} ->
                _ = [Round(maps:keys(Arms)) || _ <- lists:seq(1, Warmup)],
                {rounds, Samples};
            #{} ->
                {ms, EndMs}
        end,
    Metric = maps:get(metric, Options, time),
    Value = fun(Number, E) -> value(Metric, map_get(Number, Arms), E) end,
    {Last, Measured} = repeat(Rounds, [], {Round, Value}, ending(Metric, End)),
    Pairs =
        case End of
            {rounds, _} -> dyno_bench_rounds:fixed_pairs(Last);
            {ms, _} -> dyno_bench_rounds:pairs(Last)
        end,
    #{
        metric => Metric,
        arms => [
            (of_rounds(Arm, map_get(Number, Iterations), [map_get(Number, R) || R <- Measured]))#{
                values => dyno_bench_rounds:values(Number, Last)
            }
         || {Number, Arm} <- lists:sort(maps:to_list(Arms))
        ],
        pairs => Pairs,
        fixed => is_map_key(extent, Options),
        rounds => dyno_bench_rounds:rounds(Last),
        decided => [] =:= [x || #{verdict := undecided} <- Pairs],
        loop_ns => LoopNs
    }.

%% Where the rounds decide nothing, they only say the times.
ending(Metric, {ms, _} = End) ->
    case dyno_bench_metric:kind(Metric) of
        rounds -> End;
        _ -> {rounds, 2 * ?MIN_ROUNDS}
    end;
ending(_Metric, End) ->
    End.

%% What is compared in a round.
value(Metric, #{compiled := #{label := Label}}, Epochs) when
    Metric =:= wall; Metric =:= cpu; Metric =:= gc; Metric =:= memory
->
    case dyno_bench_metric:value(Metric, Epochs) of
        unknown -> fail({no_metric, Metric, Label});
        Value -> Value
    end;
value(_Time, _Arm, Epochs) ->
    time_ns(Epochs).

repeat(Rounds, Measured, {MeasureRound, Value} = How, End) ->
    case is_over(Rounds, End) of
        true ->
            {Rounds, lists:reverse(Measured)};
        false ->
            {Order, Next} = dyno_bench_rounds:order(Rounds),
            Round = MeasureRound(Order),
            Values = #{N => Value(N, E) || N := E <- Round},
            repeat(dyno_bench_rounds:add(Values, Next), [Round | Measured], How, End)
    end.

is_over(Rounds, {rounds, Wanted}) ->
    dyno_bench_rounds:rounds(Rounds) >= Wanted;
is_over(Rounds, {ms, EndMs}) ->
    Over = erlang:monotonic_time(millisecond) >= EndMs,
    %% One code alone has nothing to be decided: it gets the whole time.
    Decided = dyno_bench_rounds:pairs(Rounds) =/= [] andalso dyno_bench_rounds:is_decided(Rounds),
    dyno_bench_rounds:rounds(Rounds) >= ?MIN_ROUNDS andalso (Over orelse Decided).

of_rounds(#{compiled := Compiled}, Iterations, Rounds) ->
    Epochs = lists:append(Rounds),
    Total = lists:sum([map_get(iterations, E) || E <- Epochs]),
    Per = fun(Key) -> lists:sum([map_get(Key, E) || E <- Epochs]) / Total end,
    (maps:with([label, form, constant, warnings], Compiled))#{
        iterations => Iterations,
        times_ns => [time_ns(Round) || Round <- Rounds],
        reductions => Per(reductions),
        garbage_collections => Per(garbage_collections),
        waiting => waiting(Epochs),
        waits => [waiting(Round) || Round <- Rounds]
    }.

%% After the rounds, in one worker: neither disturbs the other.
exact(_Workers, _AllArms, Result, #{extent := _}) ->
    %% Who says how many iterations there are means all of them.
    Result;
exact([Worker | _], AllArms, #{arms := Measured} = Result, Options) ->
    Loop = fun(Number) ->
        #{compiled := #{label := Label, module := Module}} = map_get(Number, AllArms),
        Iterate = fun(N) ->
            case dyno_bench_worker:reductions(Worker, {Number, N}, deadline(Options)) of
                {ok, Reductions} -> Reductions;
                {error, Reason} -> fail(failure(Label, run, Reason, Options))
            end
        end,
        {Module, Iterate}
    end,
    Runs = dyno_bench_metric:runs(length(Measured), map_get(level, Options)),
    Result#{
        arms := [
            Arm#{
                exact => dyno_bench_exact:measure(
                    Worker, Iterations, Loop(Number), Loop(0), Runs
                )
            }
         || {Number, #{iterations := Iterations} = Arm} <- lists:enumerate(Measured)
        ]
    }.

%% In one worker as well, and one code after the other: each has its own sessions.
extras([Worker | Others], Arms, #{arms := Measured} = Result, Wanted, Options) ->
    Subject = fun(Number, Iterations) ->
        #{
            worker => Worker,
            drivers => Others,
            iterations => Iterations,
            iterate => fun(N) -> epochs([Worker], {Number, map_get(Number, Arms)}, N, Options) end
        }
    end,
    Result#{
        arms := [
            possible(dyno_bench_extras:measure(Wanted, Subject(Number, Iterations), Arm), Options)
         || {Number, #{iterations := Iterations} = Arm} <- lists:enumerate(Measured)
        ]
    }.

possible(#{whole := overrun, label := Label} = Arm, Options) ->
    case dyno_bench_metric:kind(maps:get(metric, Options, time)) of
        whole -> fail({overrun, Label});
        _ -> Arm
    end;
possible(Arm, _Options) ->
    Arm.

waiting(Epochs) ->
    case [{Wait, Wall} || #{wait_ns := Wait, wall_ns := Wall} <- Epochs, is_integer(Wait)] of
        [] -> undefined;
        Known -> lists:sum([W || {W, _} <- Known]) / max(1, lists:sum([W || {_, W} <- Known]))
    end.

-doc "One sentence for a reason.".
-spec format_error(reason()) -> unicode:chardata().
format_error({code, Number, Reason}) ->
    io_lib:format("code ~b: ~ts", [Number, dyno_bench_code:format_error(Reason)]);
format_error({failed, Label, Stage, {raised, error, undef, [{M, F, A, _} | _]}}) ->
    io_lib:format("~ts: ~ts raised error:undef: there is no ~tw:~tw/~b", [
        Label, stage(Stage), M, F, if is_list(A) -> length(A); true -> A end
    ]);
format_error({failed, Label, Stage, {raised, Class, Reason, _Stack}}) ->
    io_lib:format("~ts: ~ts raised ~ts:~0tP", [Label, stage(Stage), Class, Reason, 12]);
format_error({failed, Label, Stage, {timeout, TimeoutMs}}) ->
    io_lib:format("~ts: ~ts had not ended after ~b ms", [Label, stage(Stage), TimeoutMs]);
format_error({unknown, Label, Function}) ->
    io_lib:format("~ts: ~ts", [Label, dyno_bench_undefined:sentence(Function)]);
format_error({failed, Label, Stage, {died, Reason}}) ->
    io_lib:format("~ts: its process died in ~ts: ~0tP", [Label, stage(Stage), Reason, 12]);
format_error({endless, Label, TimeoutMs}) ->
    io_lib:format("~ts: had not ended after ~b ms", [Label, TimeoutMs]);
format_error({no_metric, Metric, Label}) ->
    io_lib:format("~ts: ~ts cannot be measured here: ~ts", [
        Label, Metric, dyno_bench_metric:missing()
    ]);
format_error({overrun, Label}) ->
    io_lib:format("~ts: its messages are too large to be traced; use smaller ones", [Label]);
format_error({check, Text}) ->
    Text;
format_error({too_many_jobs, _} = Reason) ->
    dyno_bench_job:format_error(Reason);
format_error(interrupted) ->
    "interrupted".

stage(run) -> "the code";
stage(init) -> "init";
stage(init_runner) -> "init_runner".
