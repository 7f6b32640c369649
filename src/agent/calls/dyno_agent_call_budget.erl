%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_call_budget).
-moduledoc false.
%% What to count, to time and to discover processes by, so that it takes a share of the processor
%% time at most. Pure: dyno_agent_calls looks how often functions were called, and does what follows.
%%
%% Of the budget a third is for stacks (dyno_agent_stacks). Another third is for breakpoints: the
%% functions that are called least have them, as many as fit. The last third is for timing: each call
%% is timed if that fits, and none otherwise. A few functions that are called far more than all others
%% may be missing; their time is in that of their callers.
%%
%% What is not counted any more is estimated by what still is: by the ratio of their calls when both
%% were counted for the last time.

-export([new/2, looked/2, restart/1]).
-export([uncounted/1, undiscovered/1, first_calls/1, is_timed/1, estimates/2, spent/1]).
-export_type([t/0, look/0]).

-opaque t() :: #{
    %% Of the processor, for breakpoints and for timing each.
    share := float(),
    may_time := boolean(),
    %% How often functions are called, a second; of those that are left out, as it was then.
    rates := #{mfa() => float()},
    %% Its calls at the last look, and those of all then.
    uncounted := #{mfa() => {non_neg_integer(), #{mfa() => non_neg_integer()}}},
    undiscovered := #{mfa() => []},
    %% Timed since the restart, or not any more.
    timed := no | open | closed,
    busy_ns := number(),
    %% What all that takes, of a second of one scheduler.
    cost_ns := number()
}.

-doc """
What was seen since the last look. `calls`: of the functions that are counted. `busy_ns`: how much of a
second all schedulers work. `births`: processes that were started. `discoverers`: functions by which
groups of processes are named.
""".
-type look() :: #{
    ns := pos_integer(),
    calls := #{mfa() => non_neg_integer()},
    busy_ns := number(),
    births := non_neg_integer(),
    discoverers := [mfa()]
}.

-define(PARTS, 3).
%% What a breakpoint costs each call: in a loop of nothing else 6 ns; met a few times in a request its
%% data and code are not at hand (Cowboy: a tenth of a microsecond).
-define(BREAKPOINT_NS, 120).
%% To time a call, its own time and that of its caller together; twice what it takes in a loop.
-define(TIMING_NS, 300).
%% To read a row and to reset it, of a process that has called a function and ended.
-define(ROW_NS, 500).
%% A process that is discovered sends a message, which wakes another one.
-define(MESSAGE_NS, 20_000).
%% A node that hardly works is taken for one that works so much of a second.
-define(LEAST_BUSY_NS, 200_000_000).
%% Timing goes on while it costs no more than so many times what it may.
-define(SLACK, 2).
%% So many functions may be left out of timing, or one in so many of those that are called.
-define(FEW, 3).
-define(ONE_OF, 10).
%% By fewer calls nothing is estimated; and what estimates may be off by besides.
-define(LEAST_CALLS, 100).
-define(MODEL_ERROR, 0.01).

-doc "Nothing is known; `Budget` is a share of the processor time.".
-spec new(float(), MayTime :: boolean()) -> t().
new(Budget, MayTime) ->
    #{
        share => Budget / ?PARTS,
        may_time => MayTime,
        rates => #{},
        uncounted => #{},
        undiscovered => #{},
        timed => no,
        busy_ns => ?LEAST_BUSY_NS,
        cost_ns => 0
    }.

-doc "What was closed may be timed again.".
-spec restart(t()) -> t().
restart(#{timed := closed} = Plan) -> Plan#{timed := no};
restart(Plan) -> Plan.

-doc "Learns from a look, and decides.".
-spec looked(look(), t()) -> t().
looked(#{ns := Ns, calls := Calls, busy_ns := BusyNs} = Look, #{rates := Before} = Plan) ->
    Rates = maps:merge(Before, #{MFA => C * 1.0e9 / Ns || MFA := C <- Calls}),
    Seen = Plan#{rates := Rates, busy_ns := max(?LEAST_BUSY_NS, BusyNs)},
    timing(Look, discovery(Look, counting(Look, Seen))).

%% Nanoseconds a second.
may_cost(#{share := Share, busy_ns := BusyNs}) -> Share * BusyNs.

counting(#{calls := Calls}, #{uncounted := Uncounted, rates := Rates} = Plan) ->
    Counted = maps:without(maps:keys(Uncounted), Rates),
    Left = too_many(ascending(Counted), may_cost(Plan) / ?BREAKPOINT_NS),
    New = #{MFA => {maps:get(MFA, Calls, 0), Calls} || MFA <- Left},
    Plan#{uncounted := maps:merge(Uncounted, New)}.

ascending(Rates) -> lists:sort([{Rate, MFA} || MFA := Rate <- Rates]).

too_many([{Rate, _} | Rest], Left) when Rate =< Left -> too_many(Rest, Left - Rate);
too_many(Others, _Left) -> [MFA || {_, MFA} <- Others].

%% By which groups are named stays, unless it is too much by itself.
discovery(#{discoverers := Named}, #{rates := Rates, undiscovered := Before} = Plan) ->
    Most = may_cost(Plan) / 2 / ?BREAKPOINT_NS,
    Stays = [MFA || MFA <- Named, maps:get(MFA, Rates, 0) =< Most],
    Rest = Most - lists:sum([maps:get(MFA, Rates, 0) || MFA <- Stays]),
    Left = too_many(ascending(maps:without(Stays ++ maps:keys(Before), Rates)), Rest),
    Plan#{undiscovered := maps:merge(Before, maps:from_keys(Left, []))}.

timing(Look, #{timed := Timed, may_time := MayTime, uncounted := Uncounted} = Plan) ->
    #{rates := Rates} = Plan,
    #{ns := Ns, births := Births} = Look,
    Called = maps:filter(fun(MFA, Rate) -> Rate > 0 orelse is_map_key(MFA, Uncounted) end, Rates),
    Rate = lists:sum(maps:values(maps:without(maps:keys(Uncounted), Called))),
    Rows = min(Rate, Births * 1.0e9 / Ns * map_size(Called)),
    CostNs = Rate * ?TIMING_NS + Rows * ?ROW_NS,
    IsFew = map_size(Uncounted) =< max(?FEW, map_size(Called) div ?ONE_OF),
    MayNs = may_cost(Plan),
    Next =
        case Timed of
            no when MayTime, IsFew, Rate > 0, CostNs =< MayNs -> open;
            open when not IsFew; CostNs > ?SLACK * MayNs -> closed;
            _ -> Timed
        end,
    Breakpoints = ?BREAKPOINT_NS * (Rate + discovering(Plan)),
    Plan#{timed := Next, cost_ns := Breakpoints + lists:sum([CostNs || Next =:= open])}.

discovering(#{rates := Rates, undiscovered := Undiscovered}) ->
    lists:sum(maps:values(maps:without(maps:keys(Undiscovered), Rates))).

-doc "Functions that are called too often to be counted.".
-spec uncounted(t()) -> [mfa()].
uncounted(#{uncounted := Uncounted}) -> maps:keys(Uncounted).

-doc "Functions that are called too often to discover processes by them.".
-spec undiscovered(t()) -> [mfa()].
undiscovered(#{undiscovered := Undiscovered}) -> maps:keys(Undiscovered).

-doc "How many processes a second may be discovered by messages.".
-spec first_calls(t()) -> pos_integer().
first_calls(Plan) -> max(1, round(may_cost(Plan) / 2 / ?MESSAGE_NS)).

-doc "Whether the calls of all functions that are counted are timed.".
-spec is_timed(t()) -> boolean().
is_timed(#{timed := Timed}) -> Timed =:= open.

-doc """
How often functions that are not counted were called, by how often all that are counted were:
estimates with their 95 % intervals.
""".
-spec estimates(Counted :: #{mfa() => non_neg_integer()}, t()) ->
    #{mfa() => {Calls :: number(), Low :: number(), High :: number()} | unknown}.
estimates(Counted, #{uncounted := Uncounted}) ->
    Sum = fun(Calls) -> lists:sum(maps:values(Calls)) end,
    Now = Sum(Counted),
    #{
        MFA =>
            case Sum(maps:with(maps:keys(Counted), All)) of
                Then when Then >= ?LEAST_CALLS, Now >= ?LEAST_CALLS ->
                    Calls = Of * Now / Then,
                    Error = math:sqrt(1 / max(1, Of) + 1 / Then + 1 / Now),
                    Off = min(1.0, 1.96 * Error + ?MODEL_ERROR),
                    {Calls, Calls * (1 - Off), Calls * (1 + Off)};
                _ ->
                    unknown
            end
     || MFA := {Of, All} <- Uncounted
    }.

-doc "What all that takes, as a share of what the schedulers work.".
-spec spent(t()) -> float().
spent(#{cost_ns := CostNs, busy_ns := BusyNs}) -> CostNs / BusyNs.
