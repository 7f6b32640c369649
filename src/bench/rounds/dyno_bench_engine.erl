%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_engine).
-moduledoc false.
%% Measures codes against each other on this node: calibrates epochs, runs rounds until every pair
%% is decided or the time is over (dyno_bench_rounds), then measures deterministic costs and extras.
%%
%% Codes never run at the same time. A code's time is the wall time without the time for which its
%% thread waited for a processor, or all of it if the code itself waits.

-export([run/2, checks/0, longest_ms/1, format_error/1, fault/1]).
%% One code, measured by dyno_bench_vm_server for another VM
-export([iterations/1, epochs/2, loop_ns/1, candidate/3]).
-export_type([options/0, check/0, result/0, timing/0, candidate/0, reason/0]).

-type options() :: #{
    concurrency := pos_integer(),
    %% See dyno_bench_plan.
    budget_ms := pos_integer(),
    limit_ms := number() | infinity,
    threshold := float(),
    level := float(),
    timeout_ms := pos_integer(),
    check => check(),
    %% A fixed number of rounds.
    fixed => dyno_bench_mode:settings(),
    %% Number in the names of the run's modules.
    run => pos_integer(),
    %% Number of the first code, for errors. Default: 1.
    number => pos_integer(),
    compiler => dyno_bench_code:compiler(),
    _ => _
}.

-doc "Checks the results of one call of each code before anything is measured.".
-type check() :: fun(([{Label :: binary(), Result :: term()}]) -> ok | {error, unicode:chardata()}).

-type candidate() :: #{
    label := binary(),
    form := inline | call | apply,
    constant := boolean(),
    %% The only function that the code calls, if the compiler has computed its result.
    folded => binary(),
    warnings := [binary()],
    iterations := pos_integer(),
    %% A lower bound of the first call's time; bytes that each call leaves behind; if known.
    first_ns => pos_integer(),
    kept => float(),
    early => early(),
    %% Nanoseconds per iteration, by round or by VM. With VMs, also by round: the median of the VMs.
    times_ns := [float()],
    rounds_ns => [float()],
    durations_ns => [non_neg_integer()],
    single_calls => dyno_bench_single_calls:single_calls(),
    %% Without the loop's own cost.
    deterministic => dyno_bench_deterministic:deterministic(),
    side_effects => dyno_bench_side_effects:t() | overrun,
    %% The deciding metric, if not the time.
    values => [float()],
    %% Including those of collections.
    reductions := float(),
    garbage_collections := float(),
    %% Share of the wall time in which other programs had the processor.
    waiting := float() | undefined,
    waits => [float() | undefined],
    %% Share of the time in which the thread had nothing to do, if the code waits.
    idle => float(),
    %% Reductions and collections of each epoch per iteration, in order.
    work => [{Reductions :: float(), Collections :: float()}]
}.

-doc "The calls before the rounds.".
-type early() :: #{calls := pos_integer(), ns := float(), reductions := float()}.

-type result() :: #{
    candidates := [candidate()],
    pairs := [dyno_bench_comparison:pair()],
    rounds := non_neg_integer(),
    concurrency => pos_integer(),
    metric => dyno_bench_metric:name(),
    heap => dyno_bench_heap:heap(),
    %% Results with the least heap and with a large heap.
    heaps => dyno_bench_heap:ends(),
    %% Time per iteration of the empty loop; included in every time.
    loop_ns := float() | undefined,
    duration_ms => non_neg_integer(),
    vms => pos_integer(),
    %% Whether the samples agreed as --cv asks.
    agreed => boolean(),
    fixed => boolean(),
    status => complete | interrupted,
    %% If dyno chose the number of rounds.
    timing => timing()
}.

-type timing() :: #{
    least := pos_integer(), budget_ms := pos_integer(), elapsed_ms := non_neg_integer()
}.

-type reason() ::
    {check, unicode:chardata()}
    %% The NIF for the metric is missing.
    | {no_metric, dyno_bench_metric:name(), Label :: binary()}
    %% The code's messages are too large to trace.
    | {overrun, Label :: binary()}
    %% The clocks disagreed in this number of epochs in a row.
    | {clocks, Label :: binary(), Epochs :: pos_integer()}.

-define(MOST_HEAP, 100_000_000).
-define(LOOP_ITERATIONS, 2_000_000).
-define(LOOP_EPOCHS, 5).
%% Share of the measuring time for each check of memory left behind.
-define(KEPT_SHARE, 0.02).
%% For rounds that decide nothing and only measure times.
-define(DECIDING_NOTHING, 12).
%% Slower calls need only one run for words and reductions, after a first one.
-define(SLOW_MS, 50).
-define(FEWEST_RUNS, 2).
-define(LONGER_THAN_PLANNED, 3).
%% A machine can be too noisy for any --cv: limit as a multiple of the requested samples.
-define(MOST_DISAGREEING, 10).
%% The longest time for loading a module, also on a busy machine.
-define(LOADING_NS, 20_000_000).

-spec checks() -> [dyno_option:check()].
checks() ->
    IsPositive = fun(N) -> is_integer(N) andalso N >= 1 end,
    Metrics = dyno_bench_metric:names(),
    [
        {concurrency, fun(N) -> IsPositive(N) andalso N =< 10_000 end,
            ~"an integer from 1 to 10000"},
        {budget_ms, IsPositive, ~"a positive integer"},
        {threshold, fun(T) -> is_float(T) andalso T > 0 andalso T < 1 end,
            ~"a number between 0 and 1"},
        {metric, fun(Metric) -> lists:member(Metric, Metrics) end,
            iolist_to_binary(lists:join(~", ", [atom_to_binary(Metric) || Metric <- Metrics]))},
        {extras, fun(E) -> is_list(E) andalso E -- [side_effects] =:= [] end,
            ~"[side_effects] (dyno:profile([], #{eval => Code}) is for functions)"},
        {heap, fun(H) -> H =:= default orelse (IsPositive(H) andalso H =< ?MOST_HEAP) end,
            ~"default, or a number of words from 1 to 100000000"},
        {timeout_ms, IsPositive, ~"a positive integer"}
    ].

-spec run([dyno_bench_code:code(), ...], options()) -> dyno_error:result(result()).
run(Codes, Options) ->
    StartMs = erlang:monotonic_time(millisecond),
    maybe
        {ok, Result} ?= dyno_bench_prepared:with(Codes, Options, fun compare/1),
        {ok, Result#{duration_ms => erlang:monotonic_time(millisecond) - StartMs}}
    end.

compare(Prepared) ->
    LoopNs = loop_ns(Prepared),
    BeforeMs = erlang:monotonic_time(millisecond),
    {Calibrated, First} = calibrate(Prepared),
    Rounds = rounds(Calibrated, since(BeforeMs, Prepared), Prepared),
    Timed = (with_first(First, Rounds))#{loop_ns => LoopNs},
    Kind = dyno_bench_metric:kind(map_get(metric, Timed)),
    case Timed of
        #{status := complete} ->
            try
                after_rounds(Timed, Prepared)
            catch
                %% A metric that does not come from rounds was not measured yet.
                throw:{_, {dyno_error, interrupted}} when Kind =:= rounds ->
                    Timed#{status := interrupted}
            end;
        #{status := interrupted} ->
            Timed
    end.

with_first(First, #{candidates := Candidates} = Result) ->
    Result#{
        candidates := [
            maps:merge(Candidate, maps:get(Number, First, #{}))
         || {Number, Candidate} <- lists:enumerate(Candidates)
        ]
    }.

after_rounds(#{candidates := Candidates} = Result, Prepared) ->
    Options = dyno_bench_prepared:options(Prepared),
    Count = length(Candidates),
    Extras = dyno_bench_extras:extras(Options, Count),
    Called = [single_calls(N, Of, Prepared) || {N, Of} <- lists:enumerate(Candidates)],
    Counted = [deterministic(N, Count, Of, Prepared) || {N, Of} <- lists:enumerate(Called)],
    Kept = [kept(N, Of, Prepared) || {N, Of} <- lists:enumerate(Counted)],
    Complete = [extras(Extras, N, Of, Prepared) || {N, Of} <- lists:enumerate(Kept)],
    dyno_bench_extras:decided(heaps(Result#{candidates := Complete}, Prepared), Options).

-doc "The iterations and time of an epoch of the only code, and what is known of its first calls.".
-spec iterations(dyno_bench_prepared:t()) ->
    {dyno_bench_calibration:calibrated(), #{first_ns => pos_integer(), early => early()}}.
iterations(Prepared) ->
    {#{1 := Calibrated}, #{1 := First}} = calibrate(Prepared),
    {Calibrated, First}.

-spec epochs(pos_integer(), dyno_bench_prepared:t()) ->
    {{TimeNs :: float(), Value :: float()}, [dyno_bench_worker:epoch(), ...]}.
epochs(Iterations, Prepared) ->
    Epochs = dyno_bench_prepared:epochs(1, Iterations, Prepared),
    {{float(time_ns(Epochs)), float(value(1, Epochs, Prepared))}, Epochs}.

-spec loop_ns(dyno_bench_prepared:t()) -> float() | undefined.
loop_ns(Prepared) ->
    Alone = dyno_bench_prepared:one_worker(Prepared),
    dyno_stats:median([
        time_ns(dyno_bench_prepared:epochs(0, ?LOOP_ITERATIONS, Alone))
     || _ <- lists:seq(1, ?LOOP_EPOCHS)
    ]).

-spec candidate(
    {Iterations :: pos_integer(), [dyno_bench_worker:epoch(), ...]},
    [deterministic | side_effects],
    dyno_bench_prepared:t()
) -> candidate().
candidate({Iterations, Epochs}, Extras, Prepared) ->
    Measured = measured(1, Iterations, [Epochs], Prepared),
    Candidate =
        case lists:member(deterministic, Extras) of
            true -> kept(1, deterministic(1, 1, Measured, Prepared), Prepared);
            false -> Measured
        end,
    Options = (dyno_bench_prepared:options(Prepared))#{extras => Extras, metric => time},
    Others = dyno_bench_extras:extras(Options, 1),
    (extras(Others, 1, Candidate, Prepared))#{times_ns := []}.

%% Nanoseconds per iteration of one worker, without waiting. If workers share a scheduler, one may
%% end before another begins, and waiting is not known: then the time of all workers together
%% counts. With thousands of workers that includes their starts and ends; if each ran within its
%% turn, the sum of their times is used instead.
time_ns(Epochs) ->
    Sum = fun(Of) -> lists:sum([Of(Epoch) || Epoch <- Epochs]) end,
    Iterations = Sum(fun(#{iterations := N}) -> N end),
    case share_schedulers(Epochs) of
        true ->
            BeginNs = lists:min([End - Wall || #{end_ns := End, wall_ns := Wall} <- Epochs]),
            EndNs = lists:max([End || #{end_ns := End} <- Epochs]),
            SumNs = Sum(fun(#{wall_ns := Wall}) -> Wall end),
            OwnNs = max(1, min(EndNs - BeginNs, SumNs / erlang:system_info(schedulers_online))),
            length(Epochs) * OwnNs / Iterations;
        false ->
            Sum(fun dyno_bench_calibration:net_ns/1) / Iterations
    end.

%% Also of epochs in which the code happened not to wait.
wall_ns(Epochs) ->
    time_ns([Epoch#{wait_ns := 0} || Epoch <- Epochs]).

share_schedulers(Epochs) ->
    length(Epochs) > erlang:system_info(schedulers_online).

calibrate(Prepared) ->
    Numbers = dyno_bench_prepared:numbers(Prepared),
    case dyno_bench_prepared:options(Prepared) of
        #{fixed := #{iterations := Iterations}} ->
            {maps:from_keys(Numbers, {Iterations, 1}), #{}};
        #{fixed := #{sample_ms := Ms}} ->
            {maps:from_keys(Numbers, {{ms, Ms}, 1}), #{}};
        Options ->
            _ = [Progress(#{round => 0}) || #{progress := Progress} <- [Options]],
            Each = #{Number => calibrate(Number, Options, Prepared) || Number <- Numbers},
            {
                dyno_bench_calibration:balance(
                    #{Number => Calibrated || Number := {Calibrated, _} <- Each},
                    length(dyno_bench_prepared:workers(Prepared))
                ),
                #{Number => First || Number := {_, First} <- Each}
            }
    end.

calibrate(Number, Options, Prepared) ->
    Heap = dyno_bench_heap:typical(Options),
    Modules = length(code:all_loaded()),
    {Epochs, First} = dyno_bench_calibration:first(fun(1) ->
        dyno_bench_prepared:epochs_once(Number, 1, Heap, Prepared)
    end),
    FirstNs = lists:min([dyno_bench_calibration:least_ns(Epoch) || Epoch <- Epochs]),
    %% Unknown if loading modules may explain it, or if a check has already called the code.
    LoadingNs = ?LOADING_NS * max(0, length(code:all_loaded()) - Modules),
    IsKnown = 2 * LoadingNs =< FirstNs andalso not is_map_key(check, Options),
    Early = counters:new(3, []),
    Count = fun(#{iterations := N, wall_ns := Ns, reductions := Reductions}) ->
        _ = [counters:add(Early, I, Of) || {I, Of} <- lists:enumerate([N, Ns, Reductions])]
    end,
    lists:foreach(Count, Epochs),
    More = fun(N) ->
        Of = dyno_bench_prepared:epochs(Number, N, Heap, Prepared),
        lists:foreach(Count, Of),
        Of
    end,
    Calibrated = dyno_bench_calibration:iterations(More, First),
    [Calls, Ns, Reductions] = [counters:get(Early, I) || I <- [1, 2, 3]],
    Known = #{early => #{calls => Calls, ns => Ns / Calls, reductions => Reductions / Calls}},
    {Calibrated, maps:merge(Known, #{first_ns => FirstNs || IsKnown})}.

%% The start of the measuring time. Calibrating thousands of workers counts as measuring.
since(BeforeMs, Prepared) ->
    case share_schedulers(dyno_bench_prepared:workers(Prepared)) of
        true -> BeforeMs;
        false -> erlang:monotonic_time(millisecond)
    end.

rounds(Calibrated, StartMs, Prepared) ->
    Options = dyno_bench_prepared:options(Prepared),
    Numbers = dyno_bench_prepared:numbers(Prepared),
    Metric = maps:get(metric, Options, time),
    Amounts = #{N => Of || N := {Of, _} <- Calibrated},
    RoundMs = lists:sum([Ns || _ := {_, Ns} <- Calibrated]) / 1.0e6,
    {Ending, Least} = ending(RoundMs, length(Numbers), StartMs, Options),
    Heap = dyno_bench_heap:sequence(Options),
    Measure = fun(Number, Round) ->
        Amount = map_get(Number, Amounts),
        Epochs = dyno_bench_prepared:epochs(Number, Amount, Heap(Round), Prepared),
        {value(Number, Epochs, Prepared), Epochs}
    end,
    _ = [
        Measure(Number, Round)
     || #{fixed := #{warmup := Warmup}} <- [Options],
        Round <- lists:seq(1, Warmup),
        Number <- Numbers
    ],
    {All, Ended} = dyno_bench_rounds:measure(
        Measure, Ending, dyno_bench_rounds:new(length(Numbers), Options)
    ),
    _ = [dyno_bench_rounds:completed(Ended) || All =:= []],
    {Rounds, Last} = agreeing(Ending, All, Ended),
    Result = #{
        metric => Metric,
        heap => dyno_bench_heap:of_options(Options),
        concurrency => map_get(concurrency, Options),
        candidates => [
            (measured(N, map_get(N, Amounts), [map_get(N, R) || R <- Rounds], Prepared))#{
                values => dyno_bench_rounds:values(N, Last)
            }
         || N <- Numbers
        ],
        pairs =>
            case Ending of
                {decided_until_ms, _, _, _} -> dyno_bench_rounds:pairs(Last);
                _ -> dyno_bench_rounds:fixed_pairs(Last)
            end,
        fixed => is_map_key(fixed, Options),
        rounds => length(Rounds),
        status => dyno_bench_rounds:status(Last)
    },
    ElapsedMs = erlang:monotonic_time(millisecond) - StartMs,
    case Options of
        #{fixed := #{cv := Cv}} ->
            Result#{agreed => dyno_bench_rounds:agree(Cv, Last)};
        #{fixed := _} ->
            Result;
        #{budget_ms := BudgetMs} ->
            Timing = #{least => Least, budget_ms => BudgetMs, elapsed_ms => ElapsedMs},
            Result#{timing => Timing}
    end.

agreeing({agreed, Count, _Cv, _Most}, Rounds, State) ->
    {
        lists:nthtail(max(0, length(Rounds) - Count), Rounds),
        dyno_bench_rounds:newest(Count, State)
    };
agreeing(_Ending, Rounds, State) ->
    {Rounds, State}.

ending(_RoundMs, _Codes, _StartMs, #{fixed := #{samples := Samples, cv := Cv}}) ->
    {{agreed, Samples, Cv, (1 + ?MOST_DISAGREEING) * Samples}, Samples};
ending(_RoundMs, _Codes, _StartMs, #{fixed := #{samples := Samples}}) ->
    {{rounds, Samples}, Samples};
ending(RoundMs, Codes, StartMs, #{budget_ms := BudgetMs, level := Level} = Options) ->
    Plan =
        case dyno_bench_metric:kind(maps:get(metric, Options, time)) of
            rounds -> dyno_bench_plan:plan({Codes, Level}, {RoundMs, BudgetMs});
            _ -> {fixed, max(1, min(?DECIDING_NOTHING, trunc(BudgetMs / RoundMs)))}
        end,
    case Plan of
        {until_decided, BudgetMs, Least} ->
            LatestMs = StartMs + longest_ms(BudgetMs),
            {{decided_until_ms, StartMs + BudgetMs, Least, LatestMs}, Least};
        {fixed, Rounds} ->
            Limited = Options#{limit_ms := limit_ms(Rounds * RoundMs, Options)},
            IsOver = fun(Count) ->
                ElapsedMs = erlang:monotonic_time(millisecond) - StartMs,
                dyno_bench_plan:is_over({Count, ElapsedMs}, Rounds, Limited)
            end,
            Least = dyno_bench_comparison:least_rounds(Codes, Level),
            {{rounds, Rounds, IsOver}, min(Rounds, Least)}
    end.

-doc "The longest time of a measurement with a requested time.".
-spec longest_ms(number()) -> number().
longest_ms(BudgetMs) -> 5 * BudgetMs.

%% Bounds rounds that take longer and longer if the user set no limit.
limit_ms(PlannedMs, #{limit_ms := infinity, budget_ms := BudgetMs}) ->
    max(longest_ms(BudgetMs), ?LONGER_THAN_PLANNED * PlannedMs);
limit_ms(_PlannedMs, #{limit_ms := LimitMs}) ->
    LimitMs.

value(Number, Epochs, Prepared) ->
    Metric = maps:get(metric, dyno_bench_prepared:options(Prepared), time),
    IsOfEpochs = lists:member(Metric, [wall, cpu, gc, memory]),
    case IsOfEpochs andalso dyno_bench_metric:value(Metric, Epochs) of
        false ->
            time_ns(Epochs);
        undefined ->
            #{label := Label} = dyno_bench_prepared:description(Number, Prepared),
            dyno_error:fail({?MODULE, {no_metric, Metric, Label}});
        Value ->
            Value
    end.

measured(Number, {ms, _}, Rounds, Prepared) ->
    Epochs = lists:append(Rounds),
    Mean = round(lists:sum([N || #{iterations := N} <- Epochs]) / length(Epochs)),
    (measured(Number, Mean, Rounds, Prepared))#{
        durations_ns => [lists:max([Wall || #{wall_ns := Wall} <- Of]) || Of <- Rounds]
    };
measured(Number, Iterations, Rounds, Prepared) ->
    Epochs = lists:append(Rounds),
    Total = lists:sum([map_get(iterations, E) || E <- Epochs]),
    {Idle, TimeNs} =
        case dyno_bench_calibration:idle([E || Of <- Rounds, not share_schedulers(Of), E <- Of]) of
            {waits, Share} -> {#{idle => Share}, fun wall_ns/1};
            _ -> {#{}, fun time_ns/1}
        end,
    Description = maps:merge(dyno_bench_prepared:description(Number, Prepared), Idle),
    Description#{
        iterations => Iterations,
        times_ns => [TimeNs(Round) || Round <- Rounds],
        %% The first call may load modules.
        reductions => dyno_stats:median([R / N || #{reductions := R, iterations := N} <- Epochs]),
        garbage_collections => lists:sum([map_get(garbage_collections, E) || E <- Epochs]) / Total,
        waiting => waiting(Rounds),
        waits => [waiting([Round]) || Round <- Rounds],
        work => [
            {R / N, G / N}
         || #{reductions := R, garbage_collections := G, iterations := N} <- Epochs
        ]
    }.

waiting(Rounds) ->
    Waits = [
        {Wait, Wall}
     || Epochs <- Rounds,
        not share_schedulers(Epochs),
        #{wait_ns := Wait, wall_ns := Wall} <- Epochs,
        is_integer(Wait)
    ],
    case lists:unzip(Waits) of
        {[], []} -> undefined;
        {Waited, Walls} -> lists:sum(Waited) / max(1, lists:sum(Walls))
    end.

single_calls(Number, #{times_ns := TimesNs, iterations := N} = Candidate, Prepared) ->
    IsWorth = dyno_bench_single_calls:is_worth(dyno_stats:median(TimesNs)),
    case dyno_bench_prepared:options(Prepared) of
        #{fixed := _} ->
            Candidate;
        _ when N =:= 1 -> Candidate#{single_calls => dyno_bench_single_calls:of_times(TimesNs)};
        _ when IsWorth ->
            Candidate#{single_calls => dyno_bench_prepared:single_calls(Number, Prepared)};
        _ ->
            Candidate
    end.

%% After the rounds: collections are counted for all processes of the node.
heaps(#{rounds := Rounds, timing := #{least := Least}} = Result, _Prepared) when Rounds < Least ->
    Result;
heaps(#{heap := drawn, metric := time, candidates := Candidates} = Result, Prepared) ->
    Options = dyno_bench_prepared:options(Prepared),
    Iterations = [N || #{iterations := N} <- Candidates],
    RoundNs = lists:sum([
        dyno_stats:median(TimesNs) * N
     || #{times_ns := TimesNs, iterations := N} <- Candidates
    ]),
    Epoch = fun(Number, Heap) ->
        N = lists:nth(Number, Iterations),
        {Before, _, _} = statistics(garbage_collection),
        Epochs = dyno_bench_prepared:epochs_once(Number, N, Heap, Prepared),
        {After, _, _} = statistics(garbage_collection),
        %% Without the collection of each worker before its epoch.
        Own = max(0, After - Before - length(Epochs)),
        Timed =
            case dyno_bench_prepared:is_believable(Epochs) of
                true -> Epochs;
                false -> dyno_bench_prepared:epochs(Number, N, Heap, Prepared)
            end,
        #{time_ns => time_ns(Timed), collections => Own / N / length(Epochs)}
    end,
    Allocates = [x || #{deterministic := #{words := Words}} <- Candidates, Words > 0] =/= [],
    case
        Allocates andalso
            dyno_bench_heap:measure(length(Candidates), RoundNs, Epoch, Options)
    of
        #{} = Ends -> Result#{heaps => Ends};
        _ -> Result
    end;
heaps(Result, _Prepared) ->
    Result.

%% After the rounds, in one worker, so that neither disturbs the other.
deterministic(Number, Candidates, #{iterations := Iterations} = Candidate, Prepared) ->
    case runs(Candidates, Candidate, dyno_bench_prepared:options(Prepared)) of
        0 ->
            Candidate;
        Runs ->
            [Worker | _] = dyno_bench_prepared:workers(Prepared),
            [Loop, Empty] = [dyno_bench_prepared:loop(N, Prepared) || N <- [Number, 0]],
            Counted = dyno_bench_deterministic:measure(Worker, Iterations, Loop, Empty, Runs),
            Candidate#{deterministic => Counted}
    end.

%% None if iterations are fixed. If these runs decide nothing, slow codes get fewer, or none.
runs(_Candidates, _Candidate, #{fixed := _}) ->
    0;
runs(Candidates, #{times_ns := Times}, #{level := Level, budget_ms := BudgetMs} = Options) ->
    CallMs = dyno_stats:median(Times) / 1.0e6,
    case dyno_bench_metric:kind(maps:get(metric, Options, time)) of
        rounds when ?FEWEST_RUNS * CallMs > BudgetMs -> 0;
        rounds when CallMs > ?SLOW_MS -> 1;
        _ -> dyno_bench_metric:runs(Candidates, Level)
    end.

kept(Number, #{times_ns := TimesNs, iterations := N} = Candidate, Prepared) ->
    case dyno_bench_prepared:options(Prepared) of
        #{fixed := _} ->
            Candidate;
        #{budget_ms := BudgetMs} ->
            Affordable = trunc(?KEPT_SHARE * BudgetMs * 1.0e6 / dyno_stats:median(TimesNs)),
            case min(N, Affordable) of
                0 ->
                    Candidate;
                Calls ->
                    Run = fun(Of) -> dyno_bench_prepared:kept(Number, Of, Prepared) end,
                    Candidate#{kept => dyno_bench_kept:measure(Run, Calls)}
            end
    end.

%% In one worker, one code after the other: each has its own sessions.
extras(Extras, Number, #{label := Label, iterations := Iterations} = Candidate, Prepared) ->
    [Worker | Others] = dyno_bench_prepared:workers(Prepared),
    Alone = dyno_bench_prepared:one_worker(Prepared),
    Options = dyno_bench_prepared:options(Prepared),
    Heap = maps:get(heap, Options, default),
    Subject = #{
        worker => Worker,
        drivers => Others,
        iterations => Iterations,
        iterate => fun(N) -> dyno_bench_prepared:epochs_once(Number, N, Heap, Alone) end
    },
    Metric = maps:get(metric, Options, time),
    case {dyno_bench_extras:measure(Extras, Subject, Candidate), dyno_bench_metric:kind(Metric)} of
        {#{side_effects := overrun}, side_effects} ->
            dyno_error:fail({?MODULE, {overrun, Label}});
        {Complete, _} ->
            Complete
    end.

-spec format_error(reason()) -> unicode:chardata().
format_error({no_metric, Metric, Label}) ->
    io_lib:format("~ts: ~ts cannot be measured here: ~ts", [
        Label, Metric, dyno_bench_metric:missing()
    ]);
format_error({clocks, Label, Epochs}) ->
    io_lib:format(
        "~ts: its time is not known: in ~b epochs in a row other programs had the processor for "
        "longer than the epoch took; measure again when the machine is less busy",
        [Label, Epochs]
    );
format_error({overrun, Label}) ->
    io_lib:format("~ts: its messages are too large to be traced; use smaller ones", [Label]);
format_error({check, Text}) ->
    Text.

-spec fault(reason()) -> dyno_error:fault().
fault({check, _}) -> code;
fault(_) -> dyno.
