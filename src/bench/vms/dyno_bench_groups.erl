%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_groups).
-moduledoc false.
%% Compares candidates by groups of fresh VMs, one VM per candidate (see dyno_bench_isolated). A
%% group is one round of the comparison. A candidate's value in a group is the median of its epochs;
%% candidates take turns within the group.

-export([measure/1, looks/2]).
-export_type([context/0, group/0]).

-type context() :: #{
    measurement := dyno_bench_inputs:measurement(),
    number := pos_integer(),
    options := dyno_bench_engine:options(),
    candidates := [dyno_bench_isolated:candidate(), ...],
    start_ms := integer()
}.

%% Calibrated in the first group and used by all later groups.
-type calibration() :: #{
    iterations := #{dyno_bench_comparison:candidate() => pos_integer()},
    loop_ns := float() | undefined,
    size := pos_integer() | undefined
}.

-type group() :: #{
    %% In candidate order.
    candidates := [#{epochs_ns := [float(), ...], value := float(), _ => _}, ...],
    duration_ms := non_neg_integer()
}.

%% Numbers of groups after which verdicts are checked, if each number gives every pair an interval.
-define(LOOKS, [8, 16, 32]).
-define(LEAST, 6).
-define(ROUNDS, 15).
-define(LEAST_ROUNDS, 3).
%% Time for the rounds of one group if calls are long.
-define(GROUP_MS, 1000).
-define(MARGIN_MS, 30_000).

-spec measure(context()) -> {Size :: pos_integer() | undefined, dyno_bench_engine:result()}.
measure(#{candidates := Candidates, options := Options} = Context) ->
    Looks = looks(length(Candidates), Options),
    measure(Context, Looks, Looks, none, []).

-spec looks(Candidates :: pos_integer(), dyno_bench_engine:options()) -> [pos_integer(), ...].
looks(_Candidates, #{isolated := #{vms := Vms}}) ->
    [Vms];
looks(Candidates, #{level := Level} = Options) ->
    case {kind(Options), Candidates} of
        {rounds, 1} ->
            [hd(?LOOKS)];
        {rounds, _} ->
            Shared = 1 - (1 - Level) / length(?LOOKS),
            Least = dyno_bench_comparison:least_rounds(Candidates, Shared),
            lists:usort([max(Least, Look) || Look <- ?LOOKS]);
        %% The least that gives every pair an interval: deterministic values do not change.
        {_, _} ->
            [max(?LEAST, dyno_bench_metric:runs(Candidates, Level))]
    end.

kind(Options) ->
    dyno_bench_metric:kind(maps:get(metric, Options, time)).

-spec measure(context(), [pos_integer()], [pos_integer()], calibration() | none, [group()]) ->
    {term(), dyno_bench_engine:result()}.
measure(#{options := Options} = Context, [Next | Later] = Left, Looks, Calibration, Groups) ->
    #{isolated := Settings} = Options,
    Count = length(Groups),
    ElapsedMs = erlang:monotonic_time(millisecond) - map_get(start_ms, Context),
    Measured = fun(Status) ->
        measured(Status, {Looks, ElapsedMs}, Calibration, Groups, Options)
    end,
    case is_over({Count, ElapsedMs}, hd(Looks), Options) of
        false when Count < Next ->
            _ = dyno_bench_isolated:progress(Count + 1, Next, Settings),
            try group(Context, Calibration) of
                {Group, NewCalibration} ->
                    measure(Context, Left, Looks, NewCalibration, [Group | Groups])
            catch
                throw:{_, {dyno_error, interrupted}} when Groups =/= [] -> Measured(interrupted)
            end;
        IsOver ->
            {_, #{pairs := Pairs}} = Complete = Measured(complete),
            IsDecided = dyno_bench_comparison:is_decided(Pairs),
            case Later of
                [_ | _] when not IsOver, not IsDecided ->
                    measure(Context, Later, Looks, Calibration, Groups);
                _ ->
                    Complete
            end
    end.

measured(Status, {[First | _] = Looks, ElapsedMs}, Calibration, Groups, Options) ->
    #{loop_ns := LoopNs, size := Size} = Calibration,
    Result = result(length(Looks), Options, lists:reverse(Groups)),
    Ended = Result#{loop_ns => LoopNs, status => Status},
    case Options of
        #{isolated := #{vms := _}} ->
            {Size, Ended};
        #{budget_ms := BudgetMs} ->
            Timing = #{least => First, budget_ms => BudgetMs, elapsed_ms => ElapsedMs},
            {Size, Ended#{timing => Timing}}
    end.

is_over(_Groups, _First, #{isolated := #{vms := _}}) -> false;
is_over(Groups, First, Options) -> dyno_bench_plan:is_over(Groups, First, Options).

group(#{candidates := Candidates, options := Options} = Context, Calibration) ->
    StartMs = erlang:monotonic_time(millisecond),
    dyno_bench_vm:with(Candidates, map_get(isolated, Options), fun(Vms) ->
        Ready = [prepare(Vm, C, Context) || {Vm, C} <- lists:zip(Vms, Candidates)],
        agree(Calibration, Vms, Context),
        Iterations = iterations(Calibration, Vms, Options),
        Epochs = epochs(Vms, Iterations, Options),
        Extras = extras(Calibration, Options),
        Measured = [request(Vm, {finish, Extras}, Options) || Vm <- Vms],
        Group = #{
            candidates => [with_values(Of, M, Options) || {Of, M} <- lists:zip(Epochs, Measured)],
            duration_ms => erlang:monotonic_time(millisecond) - StartMs
        },
        [#{size := Size} | _] = Ready,
        LoopNs = dyno_stats:median([Ns || #{loop_ns := Ns} <- Ready]),
        {Group, #{iterations => Iterations, loop_ns => LoopNs, size => Size}}
    end).

prepare(Vm, #{code := Code, number := Number}, Context) ->
    #{measurement := Measurement, number := Run, options := Options} = Context,
    #{timeout_ms := TimeoutMs, isolated := Settings} = Options,
    Order = #{
        measurement => (maps:without([agree, input, group], Measurement))#{codes := [Code]},
        number => Run,
        modules => maps:get(modules, Settings, []),
        options => (maps:without([isolated, progress], Options))#{number => Number}
    },
    Start = {dyno_bench_vm_server, start, [Order]},
    dyno_bench_vm:call(Vm, Start, 2 * TimeoutMs + ?MARGIN_MS).

%% The server's own timeout is shorter.
request(Vm, Request, #{timeout_ms := TimeoutMs}) ->
    Call = {dyno_bench_vm_server, request, [Request]},
    dyno_bench_vm:call(Vm, Call, 3 * TimeoutMs + ?MARGIN_MS).

%% Checks once that all codes return the same.
agree(none, Vms, #{measurement := #{agree := Agree}} = Context) ->
    #{candidates := Candidates, options := Options} = Context,
    dyno_bench_prepared:checked(Agree, [
        {dyno_bench_code:label(Code), request(Vm, result, Options)}
     || {Vm, #{code := Code}} <- lists:zip(Vms, Candidates)
    ]);
agree(_Calibration, _Vms, _Context) ->
    ok.

iterations(none, Vms, Options) ->
    Needed = #{N => request(Vm, iterations, Options) || {N, Vm} <- lists:enumerate(Vms)},
    Balanced = dyno_bench_calibration:balance(Needed, map_get(concurrency, Options)),
    #{N => Iterations || N := {Iterations, _} <- Balanced};
iterations(#{iterations := Iterations}, _Vms, _Options) ->
    Iterations.

epochs(Vms, Iterations, Options) ->
    Epoch = fun(N) -> request(lists:nth(N, Vms), {epoch, map_get(N, Iterations)}, Options) end,
    Numbers = lists:seq(1, length(Vms)),
    %% A fresh VM's first epoch differs from later epochs: discard the first round.
    StartMs = erlang:monotonic_time(millisecond),
    _ = [Epoch(N) || N <- Numbers],
    RoundMs = max(1, erlang:monotonic_time(millisecond) - StartMs),
    Count =
        case kind(Options) of
            rounds -> max(?LEAST_ROUNDS, min(?ROUNDS, ?GROUP_MS div RoundMs));
            _ -> ?LEAST_ROUNDS
        end,
    Measure = fun(N, _Round) ->
        {_Ns, Value} = Measured = Epoch(N),
        {Value, Measured}
    end,
    Rounds = dyno_bench_rounds:new(length(Vms), maps:without([seed, progress], Options)),
    {Measured, Last} = dyno_bench_rounds:measure(Measure, {rounds, Count}, Rounds),
    ok = dyno_bench_rounds:completed(Last),
    [[map_get(N, Round) || Round <- Measured] || N <- Numbers].

%% Extras that do not decide are measured in the first group only.
extras(Calibration, Options) ->
    Wanted = [deterministic | maps:get(extras, Options, [])],
    First = [Extra || Extra <- Wanted, Calibration =:= none],
    Deciding =
        case maps:get(metric, Options, time) of
            whole -> [deterministic, side_effects];
            Metric -> [dyno_bench_metric:kind(Metric)] -- [rounds]
        end,
    lists:uniq(First ++ Deciding).

with_values(Epochs, Measured, Options) ->
    {Times, Values} = lists:unzip(Epochs),
    Value =
        case kind(Options) of
            rounds ->
                dyno_stats:median(Values);
            _ ->
                Runs = dyno_bench_extras:values(map_get(metric, Options), Measured),
                dyno_bench_metric:at_least(dyno_stats:median(Runs))
        end,
    Measured#{epochs_ns => Times, value => Value}.

%% With at most `Looks` checks of verdicts. Subtracts the empty loop's time.
result(Looks, Options, [#{candidates := First} | _] = Groups) ->
    Metric = maps:get(metric, Options, time),
    ByCandidate = [
        [lists:nth(N, Candidates) || #{candidates := Candidates} <- Groups]
     || N <- lists:seq(1, length(First))
    ],
    Values = [[Value || #{value := Value} <- Of] || Of <- ByCandidate],
    DurationsNs = [Ms * 1_000_000 div length(First) || #{duration_ms := Ms} <- Groups],
    #{
        metric => Metric,
        heap => maps:get(heap, Options, runtime),
        concurrency => map_get(concurrency, Options),
        candidates => [
            maps:merge(joined(Of, DurationsNs), #{values => Own || Metric =/= time})
         || {Of, Own} <- lists:zip(ByCandidate, Values)
        ],
        pairs => dyno_bench_comparison:pairs(Values, Options#{looks => Looks}),
        rounds => length(Groups),
        vms => length(Groups)
    }.

joined([First | _] = Each, DurationsNs) ->
    EpochsNs = [Of || #{epochs_ns := Of} <- Each],
    Rounds = lists:min([length(Of) || Of <- EpochsNs]),
    Mean = fun(Key) -> dyno_stats:mean([V || #{Key := V} <- Each, is_number(V)]) end,
    (maps:without([epochs_ns, value], First))#{
        deterministic => dyno_bench_deterministic:join([D || #{deterministic := D} <- Each]),
        times_ns := [dyno_stats:median(Of) || Of <- EpochsNs],
        rounds_ns => [
            dyno_stats:median([lists:nth(Round, Of) || Of <- EpochsNs])
         || Round <- lists:seq(1, Rounds)
        ],
        durations_ns => DurationsNs,
        reductions := Mean(reductions),
        garbage_collections := Mean(garbage_collections),
        waiting := Mean(waiting)
    }.
