%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_doubts).
-moduledoc false.
%% Finds codes whose time is not that of their work, so that comparing them says nothing: the
%% compiler has done the work, only the first calls do it, the work changes, the time depends on the
%% length of the measurement, or on other programs. Pure.

-export([doubts/1, changes/1]).
-export_type([doubt/0]).

-type doubt() ::
    folded
    | {first, FirstNs :: number(), LaterNs :: number()}
    | {early, Calls :: pos_integer(), EarlyNs :: number(), LaterNs :: number()}
    | {keeps, Bytes :: float()}
    | {changes, Few :: float(), Many :: float()}
    | {phases, ShortNs :: number(), LongNs :: number()}
    | {drifts, EarlyNs :: number(), LateNs :: number()}
    | {waits, Idle :: float(), Others :: float()}.

%% A first call longer by this is unlike the others: seeding or growing a heap takes less.
-define(UNLIKE_NS, 100_000).
%% The same in reductions, of all early calls together.
-define(UNLIKE_REDUCTIONS, 20_000).
%% Early calls take this many times the reductions; collections alone take less than twice.
-define(EARLY, 3).
%% With fewer collections per call, their reductions matter little.
-define(CALM, 0.05).
-define(FEWEST, 3).
-define(CHANGED, 1.1).
%% Reductions an epoch: its begin, end and waits take some. And a call: one of none has collections.
-define(MUCH, 1000).
-define(A_CALL, 1).

-doc "By number, if any. If times do not decide, only changing work is doubtful.".
-spec doubts(dyno_bench_engine:result()) ->
    #{dyno_bench_comparison:candidate() => [doubt(), ...]}.
doubts(#{candidates := Candidates} = Result) ->
    case dyno_bench_metric:is_time(maps:get(metric, Result, time)) of
        true ->
            of_times(Candidates);
        false ->
            #{
                Number => Doubts
             || {Number, Candidate} <- lists:enumerate(Candidates),
                [_ | _] = Doubts <- [changes(Candidate)]
            }
    end.

of_times(Candidates) ->
    IsFolded = fun
        (#{folded := _}) -> true;
        (#{constant := IsConstant}) -> IsConstant
    end,
    %% If all are folded, they are compared as they are.
    OneSided = not lists:all(IsFolded, Candidates),
    Numbered = lists:enumerate(Candidates),
    #{
        Number => Doubts
     || {Number, Candidate} <- Numbered,
        [_ | _] = Doubts <- [
            [folded || OneSided, IsFolded(Candidate)] ++ first(Candidate) ++ keeps(Candidate) ++
                over_time(Candidate, [Other || {N, Other} <- Numbered, N =/= Number]) ++
                waits(Candidate)
        ]
    }.

first(#{first_ns := FirstNs, times_ns := TimesNs} = Candidate) ->
    LaterNs = dyno_stats:median(TimesNs),
    case FirstNs >= dyno_finding_limits:value(first_call) * LaterNs of
        true when FirstNs - LaterNs >= ?UNLIKE_NS -> [{first, FirstNs, LaterNs}];
        _ -> early(Candidate)
    end;
first(Candidate) ->
    early(Candidate).

%% What the first calls make may last into the rounds.
early(#{early := Early, work := [_ | _]} = Candidate) ->
    #{calls := Calls, ns := EarlyNs, reductions := Reductions} = Early,
    Later = last(work(Candidate, infinity)),
    LaterNs = last(in_order(Candidate)),
    [
        {early, Calls, EarlyNs, LaterNs}
     || Reductions > ?EARLY * Later,
        Reductions - Later > max(?A_CALL, ?UNLIKE_REDUCTIONS / Calls),
        EarlyNs > ?EARLY * LaterNs
    ];
early(_Candidate) ->
    [].

last(Values) -> dyno_stats:median(lists:nthtail(2 * length(Values) div 3, Values)).

keeps(#{kept := Bytes}) when Bytes > 0 -> [{keeps, Bytes}];
keeps(_Candidate) -> [].

%% If its own thread waits little for a processor, the others that it waits for do so, too.
waits(#{idle := Idle, waiting := Waiting}) when is_number(Waiting) ->
    [{waits, Idle, Waiting} || Waiting > dyno_stats_verdict:threshold()];
waits(_Candidate) ->
    [].

over_time(Candidate, Others) ->
    hd([Found || [_ | _] = Found <- [drifts(Candidate, Others), changes(Candidate)]] ++
        [phases(Candidate, Others)]).

%% A machine that slows down affects all codes: so the ratio to another code drifts as well, or
%% without others the work, which the machine does not change.
drifts(Candidate, Others) ->
    Limit = dyno_finding_limits:value(drift),
    {Direction, EarlyNs, LateNs} = dyno_stats_trend:of_values(in_order(Candidate), Limit),
    Alike =
        case Others of
            [] -> [dyno_stats_trend:of_values(work(Candidate, infinity), ?CHANGED)];
            _ -> [dyno_stats_trend:of_values(Of, Limit) || Of <- ratios(Candidate, Others)]
        end,
    [
        {drifts, EarlyNs, LateNs}
     || Direction =/= none, lists:keymember(Direction, 1, Alike) orelse Alike =:= []
    ].

ratios(Candidate, Others) ->
    TimesNs = in_order(Candidate),
    [
        lists:zipwith(fun(A, B) -> A / B end, TimesNs, Of)
     || Other <- Others, Of <- [in_order(Other)], length(Of) =:= length(TimesNs)
    ].

-doc "Whether calls take more reductions at some times than at others.".
-spec changes(dyno_bench_engine:candidate()) -> [doubt()].
changes(#{work := [_ | _], iterations := N} = Candidate) ->
    IsMuch = fun(Few, Many) -> Many - Few >= max(?A_CALL, ?MUCH / N) end,
    Reductions = work(Candidate, infinity),
    %% The cost of collections depends on when they come.
    Limit =
        case work(Candidate, ?CALM) of
            Reductions -> dyno_finding_limits:value(drift);
            _ -> ?EARLY
        end,
    Trend = dyno_stats_trend:of_values(Reductions, Limit),
    case dyno_stats_trend:levels(Reductions, Limit) of
        {Few, Many, IsInTurn} when IsInTurn orelse element(1, Trend) =/= none ->
            [{changes, Few, Many} || IsMuch(Few, Many)];
        _ ->
            [Of || {changes, Few, Many} = Of <- counted(Candidate), IsMuch(Few, Many)]
    end;
changes(_Candidate) ->
    [].

%% A few calls were counted exactly. Collections, which only rounds have, do not explain that all
%% rounds take much more, all calm ones more, or all rounds less.
counted(#{deterministic := #{reductions := Counted}} = Candidate) ->
    Limit = dyno_finding_limits:value(drift),
    All = work(Candidate, infinity),
    {Least, Factor} =
        case work(Candidate, ?CALM) of
            Calm when length(Calm) >= ?FEWEST -> {lists:min(Calm), Limit};
            _ -> {lists:min(All), ?EARLY}
        end,
    Most = lists:max(All),
    [
        {changes, min(Counted, Least), max(Counted, Most)}
     || Factor * Counted < Least orelse Counted > Limit * Most
    ];
counted(_Candidate) ->
    [].

%% The same for work without reductions.
phases(Candidate, Others) ->
    Limit = dyno_finding_limits:value(drift),
    Levels = [dyno_stats_trend:levels(Of, Limit) || Of <- ratios(Candidate, Others)],
    case dyno_stats_trend:levels(in_order(Candidate), Limit) of
        {ShortNs, LongNs, true} -> [{phases, ShortNs, LongNs} || {_, _, true} <- Levels];
        _ -> []
    end.

%% Reductions a call, of epochs with at most this many collections a call.
work(#{work := Work}, Most) ->
    [Reductions || {Reductions, Collections} <- Work, Collections =< Most];
work(_Candidate, _Most) ->
    [].

%% For VMs, the rounds within one: each VM begins anew.
in_order(#{rounds_ns := RoundsNs}) -> RoundsNs;
in_order(#{times_ns := TimesNs}) -> TimesNs.
