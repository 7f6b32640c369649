%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_call_budget).
-moduledoc false.
%% Decides which functions to count, to time and to discover processes by, within a share of the
%% processor time. Pure: dyno_agent_calls observes the call rates and carries the decision out.
%%
%% The budget has three equal parts. One is for stacks (dyno_agent_stacks). One is for breakpoints:
%% the least called functions get them, as many as fit. One is for timing: all calls are timed if
%% that fits, else none. A few functions with far more calls than all others may be left out; their
%% time is in that of their callers.
%%
%% Calls of functions no longer counted are estimated from those counted, by the ratio at first, and
%% at moments now and then, within the breakpoints' part (twice if nothing is timed).

-export([default/0, new/3, looked/2, restart/1]).
-export([uncounted/1, recounted/1, undiscovered/1, first_calls/1]).
-export([is_timed/1, estimates/2, spent/1]).
-export_type([t/0, look/0]).

-opaque t() :: #{
    share := float(),
    may_time := boolean(),
    %% Calls a second; of functions left out, at their last count.
    rates := #{mfa() => float()},
    %% The function's calls at its last count, and all calls then.
    uncounted := #{mfa() => {non_neg_integer(), calls()}},
    %% The same of all looks in which all functions were counted again, since one was left out last.
    recounts := {calls(), calls()},
    recount_ns := pos_integer(),
    %% Counts again until the next look; or the nanoseconds since it did.
    recounting := now | number(),
    undiscovered := #{mfa() => []},
    %% Timed since the restart, or no longer.
    timed := no | open | closed,
    busy_ns := number(),
    cost_ns := number()
}.

-type calls() :: #{mfa() => non_neg_integer()}.

-doc """
An observation since the last one. `calls`: of counted functions, also of `recounted/1`. `busy_ns`:
the schedulers' work in a second. `births`: started processes. `discoverers`: functions
that name groups of processes.
""".
-type look() :: #{
    ns := pos_integer(),
    calls := calls(),
    busy_ns := number(),
    births := non_neg_integer(),
    discoverers := [mfa()]
}.

-define(PARTS, 3).
%% Per call: 6 ns in a tight loop; elsewhere the breakpoint is not in the cache (Cowboy: 0.1 us).
-define(BREAKPOINT_NS, 120).
%% Per timed call, with the caller's time; twice the cost in a tight loop.
-define(TIMING_NS, 300).
%% Per row read and reset, of an ended process.
-define(ROW_NS, 500).
%% A discovered process sends a message, which wakes another one.
-define(MESSAGE_NS, 20_000).
%% The least work a second that is assumed of an idle node.
-define(LEAST_BUSY_NS, 200_000_000).
%% Timing goes on below SLACK times its budget.
-define(SLACK, 2).
%% Functions that may be left out of timing: FEW, or one in ONE_OF called ones.
-define(FEW, 3).
-define(ONE_OF, 10).
%% The fewest calls for an estimate, and an additional error of estimates.
-define(LEAST_CALLS, 100).
-define(MODEL_ERROR, 0.01).

-spec default() -> float().
default() -> 0.05.

-spec new(float(), MayTime :: boolean(), RecountMs :: pos_integer()) -> t().
new(Budget, MayTime, RecountMs) ->
    #{
        recount_ns => RecountMs * 1_000_000,
        share => Budget / ?PARTS,
        may_time => MayTime,
        rates => #{},
        uncounted => #{},
        recounts => {#{}, #{}},
        recounting => 0,
        undiscovered => #{},
        timed => no,
        busy_ns => ?LEAST_BUSY_NS,
        cost_ns => 0
    }.

-spec restart(t() | none) -> t() | none.
restart(#{timed := closed} = Plan) -> Plan#{timed := no};
restart(Plan) -> Plan.

-spec looked(look(), t()) -> t().
looked(#{ns := Ns, calls := All, busy_ns := BusyNs} = Look, #{rates := Before} = Plan) ->
    Rates = maps:merge(Before, #{MFA => C * 1.0e9 / Ns || MFA := C <- All}),
    Seen = Plan#{rates := Rates, busy_ns := max(?LEAST_BUSY_NS, BusyNs)},
    timing(Look, discovery(Look, recounting(Look, counting(Look, Seen)))).

%% Nanoseconds a second.
may_cost(#{share := Share, busy_ns := BusyNs}) -> Share * BusyNs.

counting(#{calls := Calls}, #{uncounted := Uncounted, rates := Rates} = Plan) ->
    Counted = maps:without(maps:keys(Uncounted), Rates),
    Left = too_many(ascending(Counted), may_cost(Plan) / ?BREAKPOINT_NS),
    New = #{MFA => {maps:get(MFA, Calls, 0), Calls} || MFA <- Left},
    case Left of
        [] ->
            Plan;
        _ ->
            Plan#{
                uncounted := maps:merge(last_counts(Plan), New),
                recounts := {#{}, #{}},
                recounting := 0
            }
    end.

last_counts(#{uncounted := Before, recounts := {Again, AllAgain}}) ->
    maps:merge(Before, #{MFA => {Of, AllAgain} || MFA := Of <- Again}).

recounting(#{calls := Both}, #{recounting := now, recounts := {Of, All}} = Plan) ->
    {Again, Calls} = {maps:with(uncounted(Plan), Both), maps:without(uncounted(Plan), Both)},
    Plan#{recounts := {added(Again, Of), added(Calls, All)}, recounting := 0};
recounting(#{ns := Ns}, #{uncounted := Uncounted, rates := Rates, recounting := Since} = Plan) when
    is_number(Since), map_size(Uncounted) > 0
->
    Cost = ?BREAKPOINT_NS * lists:sum(maps:values(maps:with(maps:keys(Uncounted), Rates))),
    Waited = Since + Ns,
    case Waited * recounts_may_cost(Plan) >= map_get(recount_ns, Plan) * Cost of
        true -> Plan#{recounting := now};
        false -> Plan#{recounting := Waited}
    end;
recounting(_Look, Plan) ->
    Plan.

%% What is not needed for timing is free.
recounts_may_cost(#{timed := open} = Plan) -> may_cost(Plan);
recounts_may_cost(Plan) -> 2 * may_cost(Plan).

added(More, Calls) -> maps:merge_with(fun(_MFA, A, B) -> A + B end, More, Calls).

ascending(Rates) -> lists:sort([{Rate, MFA} || MFA := Rate <- Rates]).

too_many([{Rate, _} | Rest], Left) when Rate =< Left -> too_many(Rest, Left - Rate);
too_many(Others, _Left) -> [MFA || {_, MFA} <- Others].

%% A function that names groups stays, unless it exceeds the budget alone.
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
    Decided = Plan#{timed := Next},
    Recounts = lists:sum([recounts_may_cost(Decided) || map_size(Uncounted) > 0]),
    Breakpoints = Recounts + ?BREAKPOINT_NS * (Rate + discovering(Plan)),
    Decided#{cost_ns := Breakpoints + lists:sum([CostNs || Next =:= open])}.

discovering(#{rates := Rates, undiscovered := Undiscovered}) ->
    lists:sum(maps:values(maps:without(maps:keys(Undiscovered), Rates))).

-spec uncounted(t()) -> [mfa()].
uncounted(#{uncounted := Uncounted}) -> maps:keys(Uncounted).

-spec recounted(t() | none) -> [mfa()].
recounted(#{recounting := now} = Plan) -> uncounted(Plan);
recounted(_Plan) -> [].

-spec undiscovered(t()) -> [mfa()].
undiscovered(#{undiscovered := Undiscovered}) -> maps:keys(Undiscovered).

-spec first_calls(t()) -> pos_integer().
first_calls(Plan) -> max(1, round(may_cost(Plan) / 2 / ?MESSAGE_NS)).

-spec is_timed(t()) -> boolean().
is_timed(#{timed := Timed}) -> Timed =:= open.

-doc "Estimated calls of uncounted functions, with 95 % intervals, from all counted calls.".
-spec estimates(Counted :: calls(), t()) ->
    #{mfa() => {Calls :: number(), Low :: number(), High :: number()} | unknown}.
estimates(Counted, Plan) ->
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
     || MFA := {Of, All} <- last_counts(Plan)
    }.

-spec spent(t()) -> float().
spent(#{cost_ns := CostNs, busy_ns := BusyNs}) -> CostNs / BusyNs.
