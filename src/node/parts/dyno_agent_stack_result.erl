%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_stack_result).
-moduledoc false.
%% The result of sampled stacks (dyno_agent_stacks): the processor time of samples, bursts, and the
%% number of waiting processes. Pure, for the caller's side only.
%%
%% To the runtime a process in a dirty scheduler runs, even while it waits in a system call: nine
%% that open a FIFO use no processor. Thread clocks give the time used by the normal schedulers, by
%% those for long computations and by those for input and output. So samples have three classes.
%%
%% `io`: in a dirty scheduler, in an OTP function known to wait for the system there. `dirty`: in a
%% dirty scheduler, in another function. `normal`: all others.

-export([result/1, summed/1]).
-export_type([result/0, waiting/0]).

-type class() :: normal | dirty | io.

-doc "A function's processor time: its share of the samples, times `cpu_ns`.".
-type result() :: #{
    instants := non_neg_integer(),
    %% Those that came too late to see what ran.
    late := non_neg_integer(),
    duration_ns := non_neg_integer(),
    %% The schedulers' processor time without this instrument, with dirty schedulers.
    cpu_ns := non_neg_integer(),
    %% Of the schedulers, also while other programs have their processors.
    worked_ns := integer(),
    %% Whether the operating system's thread clocks are known.
    clocks := known | unknown,
    %% The share of schedulers' work with processes seen running; and the instants with any.
    seen := {float() | none, non_neg_integer()},
    cost_ns := non_neg_integer(),
    stacks := [{dyno_agent_stacks:group(), dyno_agent_stacks:stack(), number()}],
    %% Samples beyond the limit, and those of unselected processes.
    other := number(),
    elsewhere := number(),
    purpose := test | profile,
    waiting := [waiting()],
    started := non_neg_integer(),
    before_all => [binary()],
    cpu := none | sampled() | {refused, dyno_agent_cpu:reason()}
}.

-doc """
The number of samples of processes, as if all had one weight; and the share of processor time that
schedulers used without a process: looking for work, freeing memory, polling.
""".
-type sampled() :: #{samples := non_neg_integer(), scheduler := float()}.

-doc """
Averages of a stack: waiting processes, messages and bytes; and the bounds of the number of
processes. The bounds are unknown if only time was sampled.
""".
-type waiting() :: {
    dyno_agent_stack_waits:how(),
    dyno_agent_stacks:group(),
    dyno_agent_stacks:stack(),
    {number(), Messages :: number(), Bytes :: number(), {Low :: number(), High :: number()} | none}
}.

%% The dirty scheduler of other functions is unknown: less waiting may be chance.
-define(MUCH, 0.2).
%% The least share of the schedulers' work time with a processor.
-define(UNDISTURBED, 0.8).
-define(MANY_LATE, 0.1).

-spec result(dyno_agent_stacks:reading()) -> result().
result(#{samples := Sampled, times := Times} = Read) ->
    #{running := Running, waits := Waits, other := Other} = Sampled,
    #{instants := Instants, duration_ns := DurationNs, cost_ns := CostNs, cpu := Cpu} = Read,
    Samples = [{class(Ran, lists:last(P)), Of, P, W} || {[{Ran, Of} | P], W} <- Running],
    {Elsewhere, Chosen} = lists:partition(fun({_, Of, _, _}) -> Of =:= elsewhere end, Samples),
    Weights = lists:foldl(
        fun({Class, _, _, W}, Sums) -> Sums#{Class => W + maps:get(Class, Sums, 0)} end,
        #{},
        Samples
    ),
    Classes = weigh(Weights, DurationNs / max(1, Instants), Times),
    #{cpu_ns := CpuNs, factors := Factors, waits := Shares, clocks := Clocks} = Classes,
    Weigh = fun(Class, Weight) -> Weight * maps:get(Class, Factors, 1) end,
    Leaves = maps:from_keys(Waits, true),
    Of = [{Group, stack(P, Leaves), Weigh(Class, W)} || {Class, Group, P, W} <- Chosen],
    Same = [instants, late, duration_ns, cost_ns, purpose, started, before_all],
    with_cpu(Cpu, (maps:with(Same, Read))#{
        cpu_ns => max(0, CpuNs - used_ns(CostNs, Times)),
        clocks => Clocks,
        seen => seen(Read),
        worked_ns => worked_ns(Read),
        stacks => [Stack || {_, _, Weight} = Stack <- summed(Of), Weight > 0],
        other => Other,
        elsewhere => lists:sum([Weigh(Class, W) || {Class, _, _, W} <- Elsewhere]),
        waiting => waiting(map_get(waits, Read)) ++
            [
                {system_call, Group, Stack, {Share * Weight / Instants, 0, 0, none}}
             || Class := Share <- Shares,
                Share > 0,
                {Group, Stack, Weight} <- dirty(Class, Chosen)
            ],
        cpu => none
    }).

%% With samples of the processor, these stacks instead.
with_cpu(#{stacks := Stacks, squares := Squares, other := Other} = Counted, Result) ->
    #{own := Own, elsewhere := Elsewhere, scheduler := Scheduler} = Counted,
    #{interval_ns := IntervalNs, process_ns := ProcessNs, cost_ns := CostNs} = Counted,
    #{cost_ns := InstantsNs} = Result,
    Kept = lists:sum([Weight || {_, _, Weight} <- Stacks]) + Other + Elsewhere,
    SampledNs = (Kept + Own + Scheduler) * IntervalNs,
    %% A sample of several intervals (the thread had lost the processor) is as certain as one.
    Count = round(Kept * Kept / max(1, Squares)),
    Result#{
        cpu_ns := max(0, ProcessNs - (Own + Scheduler) * IntervalNs),
        clocks := known,
        seen := {min(1.0, SampledNs / max(1, ProcessNs)), Count},
        stacks := Stacks,
        other := Other,
        elsewhere := Elsewhere,
        cost_ns := CostNs + InstantsNs,
        cpu := #{
            samples => Count,
            scheduler => min(1.0, Scheduler * IntervalNs / max(1, ProcessNs))
        }
    };
with_cpu(Without, Result) ->
    Result#{cpu := Without}.

worked_ns(#{times := Times, cost_ns := CostNs}) ->
    lists:sum([Ns || _ := #{worked_ns := Ns} <- Times]) - CostNs.

%% The schedulers' work without the instrument's, against the running processes; unknown if others
%% take the processors. If instants are late, most work is done while nobody looks.
seen(#{duration_ns := DurationNs, instants := Instants, times := Times} = Read) ->
    #{ran := {Ran, Any}, late := Late} = Read,
    WorkNs = worked_ns(Read),
    case Times of
        #{normal := #{cpu_ns := CpuNs, worked_ns := WorkedNs}} when
            CpuNs > ?UNDISTURBED * WorkedNs orelse Late > ?MANY_LATE * Instants,
            Instants > 0,
            WorkNs > 0
        ->
            {min(1.0, Ran / Instants * DurationNs / WorkNs), Any};
        #{} ->
            {none, Any}
    end.

%% Stacks

class(dirty, {MFA, _Line}) ->
    case dyno_agent_stack_question:waits_for_the_system(MFA) of
        true -> io;
        false -> dirty
    end;
class(_Ran, _Innermost) ->
    normal.

dirty(Class, Samples) ->
    summed([{Group, stack(Path, #{}), W} || {Of, Group, Path, W} <- Samples, Of =:= Class]).

-doc "The same stacks of the same group as one, with their weight.".
-spec summed([{Group, Stack, number()}]) -> [{Group, Stack, number()}].
summed(Stacks) ->
    Sums = lists:foldl(
        fun({Group, Stack, Weight}, Acc) ->
            maps:update_with({Group, Stack}, fun(Before) -> Before + Weight end, Weight, Acc)
        end,
        #{},
        Stacks
    ),
    [{Group, Stack, Weight} || {Group, Stack} := Weight <- Sums].

%% Without the line, and with the burst if processes wait there.
stack(Path, Waits) ->
    case lists:last(Path) of
        Word when is_atom(Word) -> Path;
        {MFA, _} = Leaf when is_map_key(Leaf, Waits) -> lists:droplast(Path) ++ [MFA, burst];
        {MFA, _} -> lists:droplast(Path) ++ [MFA]
    end.

%% Classes

%% `cpu_ns`: of all samples. `factors`: of weights, so that all samples stand for the same time.
%% `waits`: the share that waited in a call. `clocks`: whether thread clocks are known.
-spec weigh(#{class() => number()}, SampleNs :: number(), #{
    dyno_agent_threads:kind() => dyno_agent_threads:times()
}) ->
    #{
        cpu_ns := non_neg_integer(),
        factors := #{class() => number()},
        waits := #{class() => float()},
        clocks := known | unknown
    }.
weigh(Weights, SampleNs, Times) ->
    #{normal := Normal, dirty_cpu := DirtyCpu, dirty_io := DirtyIo} = Times,
    Weight = fun(Class) -> maps:get(Class, Weights, 0) end,
    %% The part of the input and output schedulers' work done by the known functions.
    Io = min(1.0, Weight(io) * SampleNs / max(1, map_get(worked_ns, DirtyIo))),
    Other = [{DirtyCpu, 1.0}, {DirtyIo, 1.0 - Io}],
    Of =
        case {Weight(dirty) > 0, Weight(io) > 0} of
            {true, _} -> #{normal => [{Normal, 1.0}], dirty => Other, io => [{DirtyIo, Io}]};
            {false, true} -> #{normal => [{Normal, 1.0}, {DirtyCpu, 1.0}], io => [{DirtyIo, 1.0}]};
            {false, false} -> #{normal => [{Normal, 1.0} | Other]}
        end,
    Used =
        #{
            Class => sum(fun(T) -> used(Class, T) end, Parts)
         || Class := Parts <- Of, Weight(Class) > 0
        },
    Each = #{Class => Ns / Weight(Class) || Class := Ns <- Used},
    Base =
        case Each of
            #{normal := Ns} when Ns > 0 -> Ns;
            #{} -> lists:max([1.0e-9 | maps:values(Each)])
        end,
    #{
        cpu_ns => round(lists:sum(maps:values(Used))),
        factors => #{Class => Ns / Base || Class := Ns <- Each},
        waits =>
            #{
                Class => waits(Class, Weight(Class) * SampleNs, Parts)
             || Class := Parts <- Of, Class =/= normal, Weight(Class) > 0
            },
        clocks =>
            case [x || _ := T <- Times, not is_map_key(cpu_ns, T)] of
                [] -> known;
                _ -> unknown
            end
    }.

sum(Value, Parts) -> lists:sum([Share * Value(Times) || {Times, Share} <- Parts]).

%% Without a clock, waits for input and output count as no processor time.
used(_Class, #{cpu_ns := Ns}) -> Ns;
used(io, _Times) -> 0;
used(_Class, #{worked_ns := Ns}) -> Ns.

%% The threads' work time without a processor and not ready for one.
waits(Class, SeenNs, Parts) ->
    Waited = fun(#{worked_ns := Worked} = Times) ->
        Worked - used(Class, Times) - maps:get(ready_ns, Times, 0)
    end,
    case max(0.0, min(1.0, sum(Waited, Parts) / max(1, SeenNs))) of
        Share when Class =:= io; Share > ?MUCH -> Share;
        _ -> 0.0
    end.

%% The processor time of this wall time: less if others take the processors.
used_ns(TookNs, #{normal := #{cpu_ns := CpuNs, worked_ns := WorkedNs}}) when WorkedNs > 0 ->
    round(TookNs * CpuNs / WorkedNs);
used_ns(TookNs, _Times) ->
    TookNs.

%% Waiting processes

waiting(#{paths := Paths} = Waits) ->
    Sums = maps:groups_from_list(
        fun({[{How, Of} | Path], _}) -> {How, Of, stack(Path, #{})} end,
        fun({_, Weights}) -> Weights end,
        Paths
    ),
    [
        {How, group(Of), Stack, mean(Of, sums(All), Waits)}
     || {How, Of, Stack} := All <- Sums
    ].

sums([First | Others]) ->
    lists:foldl(fun(A, B) -> lists:zipwith(fun erlang:'+'/2, A, B) end, First, Others).

group({name, Name}) -> {registered, Name};
group(Group) -> Group.

mean({name, Name}, [Sum, Messages, Bytes, _], #{names := Names}) ->
    #{Name := Asked} = Names,
    {Sum / Asked, Messages / Asked, Bytes / Asked, dyno_stats_interval:share(Sum / Asked, Asked)};
mean(_Group, [Sum, Messages, Bytes, Chosen], Waits) ->
    #{instants := Instants, asked := Asked, of_all := OfAll} = Waits,
    Bounds =
        case Chosen of
            0 ->
                none;
            _ ->
                {Low, High} = dyno_stats_interval:share(Chosen / Asked, Asked),
                {Low * OfAll / Instants, High * OfAll / Instants}
        end,
    {Sum / Instants, Messages / Instants, Bytes / Instants, Bounds}.
