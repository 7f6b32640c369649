%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_doubts).
-moduledoc false.
%% Finds codes whose time is not that of their work, so that comparing them says nothing: the
%% compiler has done the work, only the first call does it, or the time depends on the length of the
%% measurement. Pure.

-export([doubts/1]).
-export_type([doubt/0]).

-type doubt() ::
    folded
    | {first, FirstNs :: number(), LaterNs :: number()}
    | {keeps, Bytes :: float()}
    | {drifts, EarlyNs :: number(), LateNs :: number()}.

%% A first call longer by this is unlike the others: seeding a random generator or growing a heap
%% takes less.
-define(UNLIKE_NS, 100_000).

-doc "By number. Candidates without doubts have no entry.".
-spec doubts([dyno_bench_engine:candidate()]) ->
    #{dyno_bench_comparison:candidate() => [doubt(), ...]}.
doubts(Candidates) ->
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
                drifts(Candidate, [Other || {N, Other} <- Numbered, N =/= Number])
        ]
    }.

first(#{first_ns := FirstNs, times_ns := TimesNs}) ->
    LaterNs = dyno_stats:median(TimesNs),
    [
        {first, FirstNs, LaterNs}
     || FirstNs - LaterNs >= ?UNLIKE_NS,
        FirstNs >= dyno_finding_limits:value(first_call) * LaterNs
    ];
first(_Candidate) ->
    [].

keeps(#{kept := Bytes}) when Bytes > 0 -> [{keeps, Bytes}];
keeps(_Candidate) -> [].

%% Also relative to the others, because a machine that slows down affects all.
drifts(Candidate, Others) ->
    TimesNs = in_order(Candidate),
    Ratios = [
        lists:zipwith(fun(A, B) -> A / B end, TimesNs, Of)
     || Other <- Others, Of <- [in_order(Other)], length(Of) =:= length(TimesNs)
    ],
    case [trend(Values) || Values <- [TimesNs | Ratios]] of
        [{Direction, EarlyNs, LateNs} | OfRatios] when Direction =/= none ->
            Alike = [x || {Of, _, _} <- OfRatios, Of =:= Direction],
            [{drifts, EarlyNs, LateNs} || OfRatios =:= [] orelse Alike =/= []];
        _ ->
            []
    end.

%% For VMs, the rounds within one: each VM begins anew.
in_order(#{rounds_ns := RoundsNs}) -> RoundsNs;
in_order(#{times_ns := TimesNs}) -> TimesNs.

trend(Values) -> dyno_stats_trend:of_values(Values, dyno_finding_limits:value(drift)).
