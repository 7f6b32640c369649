%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_experiment).
-moduledoc false.
%% Measures codes against each other on this node: loads their loops, starts a worker for each and
%% each unit of concurrency, finds how many iterations an epoch needs, and runs rounds until every
%% pair is decided or the time is over. dyno_bench_rounds decides; this only measures.
%%
%% Never two codes at the same time. The estimate is the wall time less the time for which the
%% thread waited for a processor: what other programs took is not the code's.

-export([run/2, format_error/1]).
-export_type([options/0, extent/0, check/0, result/0, arm/0, reason/0]).

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
    %% Instead of what the experiment finds itself.
    extent => extent()
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
    exact => dyno_bench_memory:exact(),
    %% With those of the loop and the collections.
    reductions := float(),
    garbage_collections := float(),
    %% The share of the wall time for which other programs had the processor.
    waiting := float() | undefined
}.

-type result() :: #{
    arms := [arm()],
    pairs := [dyno_bench_rounds:pair()],
    rounds := non_neg_integer(),
    decided := boolean(),
    %% Of the empty loop, an iteration; it is in every figure.
    loop_ns := float(),
    duration_ms := non_neg_integer(),
    %% Of samples: whether they came to agree as --cv asks.
    agreed => boolean()
}.

-type reason() ::
    {code, pos_integer(), dyno_bench_code:reason()}
    | {failed, Label :: binary(), Stage :: init | init_runner | run,
        dyno_bench_worker:failure()}
    | {endless, Label :: binary(), TimeoutMs :: pos_integer()}
    | {check, unicode:chardata()}
    | {too_many_jobs, pos_integer()}
    | interrupted.

%% An epoch must be long against reading the clocks at its edges, which takes 20 us.
-define(EPOCH_NS, 2_000_000).
-define(MAX_ITERATIONS, 1_000_000_000).
%% No interval at 95 % is possible with fewer rounds.
-define(MIN_ROUNDS, 6).

-doc "Measures codes; all are loaded and taken away again.".
-spec run([dyno_bench_code:code(), ...], options()) -> {ok, result()} | {error, reason()}.
run(Codes, Options) ->
    StartMs = erlang:monotonic_time(millisecond),
    case load(Codes, 1, []) of
        {ok, Loaded} ->
            try measure(Loaded, Options) of
                Result -> {ok, Result#{duration_ms => erlang:monotonic_time(millisecond) - StartMs}}
            catch
                throw:{?MODULE, Reason} -> {error, Reason}
            after
                lists:foreach(fun unload/1, Loaded)
            end;
        {error, _} = Error ->
            Error
    end.

%% A fixed set of names: a node that runs thousands of comparisons gets no more atoms by them.
load([], _Number, Loaded) ->
    {ok, lists:reverse(Loaded)};
load([Code | Rest], Number, Loaded) ->
    Module = list_to_atom("dyno_bench_arm_" ++ integer_to_list(Number)),
    maybe
        {ok, Parsed} ?= dyno_bench_code:read(Code),
        {ok, #{binary := Binary} = Compiled} ?= dyno_bench_code:compile(Module, Parsed),
        _ = code:purge(Module),
        {module, Module} = code:load_binary(Module, atom_to_list(Module), Binary),
        load(Rest, Number + 1, [Compiled | Loaded])
    else
        {error, Reason} ->
            lists:foreach(fun unload/1, Loaded),
            {error, {code, Number, Reason}}
    end.

unload(#{module := Module}) ->
    _ = code:purge(Module),
    _ = code:delete(Module),
    _ = code:purge(Module),
    ok.

-spec fail(reason()) -> no_return().
fail(Reason) ->
    throw({?MODULE, Reason}).

measure(Loaded, Options) ->
    Trapping = process_flag(trap_exit, true),
    try
        with_workers(Loaded, Options)
    after
        process_flag(trap_exit, Trapping)
    end.

with_workers(Loaded, #{concurrency := Concurrency} = Options) ->
    {Loop, LoopBinary} = loop(),
    {module, _} = code:load_binary(map_get(module, Loop), "dyno_bench_arm_loop", LoopBinary),
    Schedulers = erlang:system_info(schedulers_online),
    Workers = [
        dyno_bench_worker:start_link((N - 1) rem Schedulers + 1)
     || N <- lists:seq(1, Concurrency)
    ],
    Arms = maps:from_list(
        [{0, #{compiled => Loop, init => undefined}}] ++
            [
                {Number, #{compiled => Compiled, init => initialised(Compiled)}}
             || {Number, Compiled} <- lists:enumerate(Loaded)
            ]
    ),
    try
        maps:foreach(fun(Number, Arm) -> prepare(Workers, Number, Arm, Options) end, Arms),
        check(Workers, maps:remove(0, Arms), Options),
        LoopNs = loop_ns(Workers, Arms, Options),
        Codes = maps:remove(0, Arms),
        Iterations = calibrate(Workers, Codes, Options),
        exact(Workers, Arms, rounds(Workers, Codes, Iterations, LoopNs, Options), Options)
    after
        lists:foreach(fun stop/1, Workers),
        maps:foreach(fun(_, Arm) -> finish(Arm) end, Arms),
        unload(Loop)
    end.

%% The empty loop is a code like the others.
loop() ->
    {ok, Parsed} = dyno_bench_code:read("ok."),
    {ok, #{binary := Binary} = Loop} = dyno_bench_code:compile(dyno_bench_arm_loop, Parsed),
    _ = code:purge(dyno_bench_arm_loop),
    {Loop, Binary}.

initialised(#{module := Module, constants := Constants, label := Label}) ->
    try
        Module:init(Constants)
    catch
        Class:Reason:Stack -> fail({failed, Label, init, {raised, Class, Reason, Stack}})
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
        case dyno_bench_worker:result(Worker, Number, deadline(Options)) of
            {ok, Result} -> {Label, Result};
            {error, Reason} -> fail(failure(Label, run, Reason, Options))
        end
     || {Number, #{compiled := #{label := Label}}} <- lists:sort(maps:to_list(Arms))
    ],
    case Check(Results) of
        ok -> ok;
        {error, Text} -> fail({check, Text})
    end;
check(_Workers, _Arms, _Options) ->
    ok.

deadline(#{timeout_ms := TimeoutMs}) ->
    erlang:monotonic_time(millisecond) + TimeoutMs.

failure(Label, _Stage, timeout, #{timeout_ms := TimeoutMs}) -> {endless, Label, TimeoutMs};
failure(Label, Stage, Failure, _Options) -> {failed, Label, Stage, Failure}.

stop(Pid) ->
    unlink(Pid),
    Monitor = monitor(process, Pid),
    exit(Pid, kill),
    receive
        {'DOWN', Monitor, process, Pid, _} -> ok
    end,
    receive
        {'EXIT', Pid, _} -> ok
    after 0 -> ok
    end.

finish(#{compiled := #{module := Module, constants := Constants}, init := Init}) ->
    try
        _ = Module:done(Constants, Init),
        ok
    catch
        %% The measuring is done; what its tear-down does is the code's affair.
        _:_ -> ok
    end.

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
    dyno_stats:mean([net_ns(E) / map_get(iterations, E) || E <- Epochs]).

net_ns(#{wall_ns := Wall, wait_ns := Wait}) when is_integer(Wait) -> max(1, Wall - Wait);
net_ns(#{wall_ns := Wall}) -> max(1, Wall).

%% As many iterations for all as the fastest needs for an epoch; a slow code would take too long
%% with them, and gets fewer: at that length it makes no difference.
calibrate(_Workers, Arms, #{extent := #{iterations := Iterations}}) ->
    maps:map(fun(_, _) -> Iterations end, Arms);
calibrate(Workers, Arms, Options) ->
    Found = #{Number => enough({Workers, {Number, Arm}}, 1, Options) || Number := Arm <- Arms},
    Most = lists:max(maps:values(Found)),
    #{
        Number => min(Most, 20 * N)
     || Number := N <- Found
    }.

%% Grows until an epoch is long enough, twice in a row: the first may have been disturbed.
enough({Workers, Arm} = What, N, Options) ->
    case total_ns(epochs(Workers, Arm, N, Options)) of
        Ns when Ns >= ?EPOCH_NS ->
            case total_ns(epochs(Workers, Arm, N, Options)) of
                Again when Again >= ?EPOCH_NS -> N;
                Again -> grow(What, N, Again, Options)
            end;
        Ns ->
            grow(What, N, Ns, Options)
    end.

total_ns(Epochs) ->
    lists:min([net_ns(E) || E <- Epochs]).

grow(_What, N, _Ns, _Options) when N >= ?MAX_ITERATIONS ->
    N;
grow(What, N, Ns, Options) ->
    Wanted = ceil(N * ?EPOCH_NS * 1.2 / max(1, Ns)),
    enough(What, min(?MAX_ITERATIONS, max(N + 1, min(Wanted, N * 100))), Options).

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
    {Last, Epochs} = repeat(Rounds, maps:map(fun(_, _) -> [] end, Arms), Round, End),
    #{
        arms => [
            arm(Arm, map_get(Number, Iterations), dyno_bench_rounds:values(Number, Last),
                map_get(Number, Epochs))
         || {Number, Arm} <- lists:sort(maps:to_list(Arms))
        ],
        pairs => dyno_bench_rounds:pairs(Last),
        rounds => dyno_bench_rounds:rounds(Last),
        decided => dyno_bench_rounds:is_decided(Last),
        loop_ns => LoopNs
    }.

repeat(Rounds, Epochs, MeasureRound, End) ->
    case is_over(Rounds, map_size(Epochs), End) of
        true ->
            {Rounds, Epochs};
        false ->
            {Order, Next} = dyno_bench_rounds:order(Rounds),
            Round = MeasureRound(Order),
            repeat(
                dyno_bench_rounds:add(#{N => time_ns(E) || N := E <- Round}, Next),
                #{N => map_get(N, Round) ++ Old || N := Old <- Epochs},
                MeasureRound,
                End
            )
    end.

is_over(Rounds, _Arms, {rounds, Wanted}) ->
    dyno_bench_rounds:rounds(Rounds) >= Wanted;
is_over(Rounds, Arms, {ms, EndMs}) ->
    Over = erlang:monotonic_time(millisecond) >= EndMs,
    %% One code alone has nothing to be decided: it gets the whole time.
    Decided = Arms > 1 andalso dyno_bench_rounds:is_decided(Rounds),
    dyno_bench_rounds:rounds(Rounds) >= ?MIN_ROUNDS andalso (Over orelse Decided).

arm(#{compiled := Compiled}, Iterations, Times, Epochs) ->
    Total = lists:sum([map_get(iterations, E) || E <- Epochs]),
    Per = fun(Key) -> lists:sum([map_get(Key, E) || E <- Epochs]) / Total end,
    (maps:with([label, form, constant, warnings], Compiled))#{
        iterations => Iterations,
        times_ns => Times,
        reductions => Per(reductions),
        garbage_collections => Per(garbage_collections),
        waiting => waiting(Epochs)
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
    Result#{
        arms := [
            Arm#{exact => dyno_bench_memory:measure(Worker, Iterations, Loop(Number), Loop(0))}
         || {Number, #{iterations := Iterations} = Arm} <- lists:enumerate(Measured)
        ]
    }.

waiting(Epochs) ->
    case [{Wait, Wall} || #{wait_ns := Wait, wall_ns := Wall} <- Epochs, is_integer(Wait)] of
        [] -> undefined;
        Known -> lists:sum([W || {W, _} <- Known]) / max(1, lists:sum([W || {_, W} <- Known]))
    end.

-doc "One sentence for a reason.".
-spec format_error(reason()) -> unicode:chardata().
format_error({code, Number, Reason}) ->
    io_lib:format("code ~b: ~ts", [Number, dyno_bench_code:format_error(Reason)]);
format_error({failed, Label, Stage, {raised, Class, Reason, _Stack}}) ->
    io_lib:format("~ts: ~ts raised ~ts:~0tP", [Label, stage(Stage), Class, Reason, 12]);
format_error({failed, Label, Stage, {died, Reason}}) ->
    io_lib:format("~ts: its process died in ~ts: ~0tP", [Label, stage(Stage), Reason, 12]);
format_error({endless, Label, TimeoutMs}) ->
    io_lib:format("~ts: had not ended after ~b ms", [Label, TimeoutMs]);
format_error({check, Text}) ->
    Text;
format_error({too_many_jobs, _} = Reason) ->
    dyno_bench_job:format_error(Reason);
format_error(interrupted) ->
    "interrupted".

stage(run) -> "the code";
stage(init) -> "init";
stage(init_runner) -> "init_runner".
