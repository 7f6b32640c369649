%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_call_plan).
-moduledoc false.
%% What to measure of the calls within a budget: which functions the next window times and when it
%% comes, and which functions are called too often to be counted or to discover processes. It
%% learns from the windows (dyno_agent_call_windows). Pure.
%%
%% * A window may take as much of the processor as a third of the budget allows until the next one.
%% * A function that is called so often, and does so little, that its time would mostly be what
%%   measuring adds is left out of the windows: its time is in its callers' then.
%% * Breakpoints that stay, of counting and of discovery, share another third: the functions that
%%   are called least have them, as many as fit.

-export([new/1, next/2, took/2, looked/2, wait_ms/2]).
-export([left_out/1, uncounted/1, undiscovered/1, first_calls/1, active/1]).
-export([cost_ns/1, least_busy_ns/0, breakpoints_share/1]).
-export_type([t/0, took/0, look/0]).

-opaque t() :: #{
    %% Of the processor, for windows and for breakpoints each.
    share := float(),
    functions := #{mfa() => seen()},
    %% The modules that were seen called.
    active := #{module() => []},
    left_out := #{mfa() => []},
    uncounted := #{mfa() => []},
    undiscovered := #{mfa() => []},
    windows := non_neg_integer(),
    ms := pos_integer(),
    %% How often the functions that are counted were called, a nanosecond.
    rates := #{mfa() => float()},
    %% Of some processes in the last window, which functions they called.
    processes := [[mfa()]],
    %% What the last window has taken, and how many nanoseconds a second all schedulers work.
    cost_ns := number(),
    busy_ns := number()
}.

%% Calls in windows of so many nanoseconds, and their time without what measuring has added.
-type seen() :: {Calls :: non_neg_integer(), WindowsNs :: pos_integer(), OwnNs :: number()}.

-doc """
What a window has shown. `processes`: for some processes, the functions that each has called.
`call_ns`: what measuring adds to a call, and to its caller.
""".
-type took() :: #{
    ns := pos_integer(),
    flagging_ns := number(),
    changes := non_neg_integer(),
    calls := #{mfa() => {Calls :: pos_integer(), RawNs :: non_neg_integer()}},
    processes := [[mfa()]],
    call_ns := number(),
    busy_ns := number()
}.

-doc """
What was seen from time to time. `rates`: how often functions that are counted were called lately, a
nanosecond: in a window a loop makes fewer turns. `discoverers`: functions by which groups of
processes are named.
""".
-type look() :: #{
    rates := #{mfa() => float()},
    discoverers := [mfa()],
    busy_ns := number()
}.

%% Parts of a budget: stacks, windows, breakpoints. What reading windows computes is not reckoned:
%% with it, and a fourth part for what nobody reckons, Cowboy had one window in five seconds in place
%% of six, and its calls were told to be 48 times as many.
-define(PARTS, 3).
-define(FIRST_MS, 10).
-define(IDLE_WINDOW_MS, 20).
-define(SHORTEST_MS, 2).
-define(LONGEST_MS, 100).
%% So many calls, one after the other, of where most time goes fit into a window. More say less: if
%% in each process one of them was interrupted by the operating system, nobody knows what the others
%% took (dyno_agent_window_spread). Many short windows also differ less than few long ones.
-define(CALLS, 30).
%% All modules at first, for one window may meet no call of a module that is called often; and again
%% in every so many windows. Modules of which functions are left out are taken as a whole less often:
%% each call of these costs something from when the module is set until they are left out again.
-define(ALL_FIRST, 4).
-define(ALL_EVERY, 8).
-define(WHOLE_EVERY, 32).
%% So many changes more are taken for not stopping at what is hot.
-define(MORE_CHANGES, 10).
%% To change the code takes so much of the processor each time.
-define(CHANGE_NS, 150_000).
%% What a breakpoint costs each call: of the discovery, and of counting. In a loop of nothing else
%% it is 6 ns; where it is met a few times in a request, its data and code are not at hand (Cowboy:
%% a tenth of a microsecond).
-define(DISCOVERY_NS, 120).
-define(COUNT_NS, 120).
%% One function is counted that is called often, so many times a second if there is one: with its
%% calls those that are not counted are compared.
-define(OFTEN, 1000).
%% A process that is discovered sends a message, which wakes another one.
-define(MESSAGE_NS, 20_000).
%% The same of what timing a call adds, by what it adds in a loop.
-define(COLD, 2).
%% A function is left out if its calls take less than so many times what measuring adds to them, and
%% that is more than so much of the time of all.
-define(TINY, 3).
-define(HOT, 0.05).
-define(ENOUGH_CALLS, 50).
%% A node that hardly works has windows as often as one that works so much of a second.
-define(LEAST_BUSY_NS, 200_000_000).
-define(SOONEST_MS, 50).
-define(LATEST_MS, 10_000).
-define(IDLE_MS, 500).

-doc "Nothing is known; `Budget` is a share of the processor time.".
-spec new(float()) -> t().
new(Budget) ->
    #{
        share => Budget / ?PARTS,
        functions => #{},
        active => #{},
        left_out => #{},
        uncounted => #{},
        undiscovered => #{},
        windows => 0,
        ms => ?FIRST_MS,
        rates => #{},
        processes => [],
        cost_ns => 0,
        busy_ns => ?LEAST_BUSY_NS
    }.

-doc """
What of these modules the next window times: whole modules, and of others single functions; which
functions not; and how long it is.
""".
-spec next([module()], t()) -> #{
    modules := [module()], functions := [mfa()], without := [mfa()], ms := pos_integer()
}.
next(Modules, #{active := Active, left_out := LeftOut, windows := Windows, ms := Ms} = Plan) ->
    #{functions := Functions} = Plan,
    IsEach = fun(Every) -> Windows < ?ALL_FIRST orelse Windows rem Every =:= 0 end,
    IsAll = IsEach(?ALL_EVERY),
    Chosen = [M || M <- Modules, IsAll orelse is_map_key(M, Active)],
    %% What is left out costs its calls also while the others are set, and the change of one takes
    %% as long as that of a module.
    Singly =
        case IsEach(?WHOLE_EVERY) of
            true -> #{};
            false -> few(LeftOut, Plan)
        end,
    %% What is called most is set last, for until the window begins each call of it costs something.
    Calls = maps:groups_from_list(
        fun({{M, _, _}, _}) -> M end, fun({_, {C, _, _}}) -> C end, maps:to_list(Functions)
    ),
    Whole = [
        M
     || {_, M} <- lists:sort([{lists:sum(maps:get(M, Calls, [])), M} || M <- Chosen]),
        not is_map_key(M, Singly)
    ],
    #{
        modules => Whole,
        functions => lists:append([map_get(M, Singly) || M <- Chosen, is_map_key(M, Singly)]),
        without => [F || {M, _, _} = F := _ <- LeftOut, lists:member(M, Whole)],
        ms => Ms
    }.

%% The other functions that were seen called, of modules of which some are left out.
few(LeftOut, #{functions := Functions}) ->
    Called = maps:groups_from_list(
        fun({M, _, _}) -> M end, maps:keys(maps:without(maps:keys(LeftOut), Functions))
    ),
    #{
        M => Of
     || M := Left <- maps:groups_from_list(fun({M, _, _}) -> M end, maps:keys(LeftOut)),
        Of <- [maps:get(M, Called, [])],
        length(Of) =< length(Left) + ?MORE_CHANGES
    }.

-doc "Learns from a window.".
-spec took(took(), t()) -> t().
took(#{calls := Calls, processes := Processes} = Took, Plan) ->
    #{active := Active, windows := Windows} = Plan,
    Seen = seen(Took, Plan#{
        processes := Processes,
        active := maps:merge(Active, #{M => [] || {M, _, _} := _ <- Calls}),
        windows := Windows + min(1, map_size(Calls))
    }),
    pace(Took, hot(Took, Seen)).

-doc "Learns how often functions are called by and by, and decides which breakpoints stay.".
-spec looked(look(), t()) -> t().
looked(#{rates := Rates, busy_ns := BusyNs, discoverers := First}, #{rates := Before} = Plan) ->
    Next = Plan#{rates := maps:merge(Before, Rates), busy_ns := max(?LEAST_BUSY_NS, BusyNs)},
    (breakpoints(First, Next))#{busy_ns := BusyNs}.

seen(#{ns := Ns, calls := Calls, call_ns := CallNs}, #{functions := Functions} = Plan) ->
    Old = maps:map(fun(_, {C, WindowsNs, OwnNs}) -> {C, WindowsNs + Ns, OwnNs} end, Functions),
    Plan#{
        functions := maps:fold(
            fun(MFA, {C, RawNs}, Acc) ->
                {C0, WindowsNs, OwnNs} = maps:get(MFA, Acc, {0, Ns, 0}),
                Acc#{MFA => {C0 + C, WindowsNs, OwnNs + max(0, RawNs - C * CallNs / 2)}}
            end,
            Old,
            Calls
        )
    }.

%% Half of what measuring adds to a call lies in its own time.
hot(#{calls := Calls, call_ns := CallNs}, #{functions := Functions, left_out := Left} = Plan) ->
    AllNs = lists:sum([RawNs || {_, RawNs} <- maps:values(Calls)]),
    Hot = #{
        MFA => []
     || MFA := {C, _} <- Calls,
        C >= ?ENOUGH_CALLS,
        C * CallNs > ?HOT * AllNs,
        {All, _, OwnNs} <- [map_get(MFA, Functions)],
        OwnNs < ?TINY * CallNs * All
    },
    Plan#{left_out := maps:merge(Left, Hot)}.

pace(Took, #{ms := Ms} = Plan) ->
    #{ns := Ns, flagging_ns := FlaggingNs, changes := Changes, busy_ns := BusyNs} = Took,
    #{calls := Calls, call_ns := CallNs} = Took,
    FixedNs = FlaggingNs + Changes * ?CHANGE_NS,
    %% Not more than was worked in the window.
    CallsNs = min(
        lists:sum([C || {C, _} <- maps:values(Calls)]) * CallNs * ?COLD, Ns * BusyNs / 1.0e9
    ),
    Plan#{
        ms :=
            case map_size(Calls) of
                0 -> max(Ms, ?IDLE_WINDOW_MS);
                _ -> window_ms(maps:values(Calls), Ns / 1_000_000 * FixedNs / max(1, CallsNs))
            end,
        cost_ns := FixedNs + CallsNs,
        busy_ns := BusyNs
    }.

%% At most as long as its calls take as much as what goes before and after it (`BalancedMs`).
window_ms(Calls, BalancedMs) ->
    AllNs = lists:sum([RawNs || {_, RawNs} <- Calls]),
    %% Of a nanosecond taken at random, how long its call took.
    CallMs = lists:sum([RawNs * RawNs / C || {C, RawNs} <- Calls]) / max(1, AllNs) / 1_000_000,
    round(max(?SHORTEST_MS, lists:min([?LONGEST_MS, BalancedMs, ?CALLS * CallMs]))).

%% What is called least keeps its breakpoints. Of each process that was seen, one function that it
%% calls does, or it would not be discovered.
breakpoints(First, #{functions := Functions, processes := Processes} = Plan) ->
    #{rates := Rates, share := Share, busy_ns := BusyNs} = Plan,
    #{uncounted := Uncounted, undiscovered := Undiscovered} = Plan,
    ByRate = lists:sort([{Rate, MFA} || MFA := Rate <- rates(Functions, Rates)]),
    %% Calls a nanosecond that may be stopped at.
    Limit = fun(CostNs) -> Share / 2 * BusyNs / 1_000_000_000 / CostNs end,
    %% But for those that are too many by themselves.
    Few = #{MFA => Rate || {Rate, MFA} <- ByRate, Rate =< Limit(?DISCOVERY_NS)},
    Named = maps:with(First, Few),
    Needed = needed(Processes, Few, Named),
    {NotCounted, Counted} = lists:partition(
        fun({_, MFA}) -> is_map_key(MFA, Uncounted) end,
        [Found || {Rate, _} = Found <- ByRate, Rate =< Limit(?COUNT_NS)]
    ),
    Often = most_called(NotCounted, Counted),
    Plan#{
        uncounted := maps:without(
            maps:keys(Often),
            maps:merge(Uncounted, too_many(ByRate, Limit(?COUNT_NS), Often))
        ),
        undiscovered := maps:without(
            maps:keys(Needed),
            maps:merge(Undiscovered, too_many(ByRate, Limit(?DISCOVERY_NS), Needed))
        )
    }.

%% The one that is counted stays while it will do. Where the node had less to do all may have been
%% too many.
most_called(NotCounted, Counted) ->
    IsOften = fun({Rate, _}) -> Rate * 1_000_000_000 >= ?OFTEN end,
    case {lists:filter(IsOften, Counted), lists:filter(IsOften, NotCounted)} of
        {[], []} -> #{};
        {[], [_ | _] = Others} -> #{element(2, lists:last(Others)) => []};
        {[_ | _] = Often, _} -> #{element(2, lists:last(Often)) => []}
    end.

%% As counts have them, over the time in which the node worked so much; else as windows have them. A
%% window may be full of a load that has just begun, after a second without: by its rates all would
%% be too many, and none would be left to be counted.
rates(Functions, Rates) ->
    maps:merge(#{MFA => C / Ns || MFA := {C, Ns, _} <- Functions}, Rates).

needed([], _Rates, Needed) ->
    Needed;
needed([Called | Rest], Rates, Needed) ->
    case lists:any(fun(MFA) -> is_map_key(MFA, Needed) end, Called) of
        true ->
            needed(Rest, Rates, Needed);
        false ->
            case lists:sort([{Rate, MFA} || MFA <- Called, #{MFA := Rate} <- [Rates]]) of
                [{_, Least} | _] -> needed(Rest, Rates, Needed#{Least => []});
                [] -> needed(Rest, Rates, Needed)
            end
    end.

too_many([], _Left, _Needed) ->
    #{};
too_many([{_, MFA} | Rest], Left, Needed) when is_map_key(MFA, Needed) ->
    too_many(Rest, Left, Needed);
too_many([{Rate, _} | Rest], Left, Needed) when Rate =< Left ->
    too_many(Rest, Left - Rate, Needed);
too_many(Hottest, _Left, Needed) ->
    #{MFA => [] || {_, MFA} <- Hottest, not is_map_key(MFA, Needed)}.

-doc "How long to wait for the next window; `Random` is between 0 and 1.".
-spec wait_ms(float(), t()) -> pos_integer().
wait_ms(Random, #{cost_ns := CostNs, busy_ns := BusyNs, share := Share, active := Active}) ->
    Ms = 1000 * CostNs / (Share * max(?LEAST_BUSY_NS, BusyNs)),
    Latest =
        case map_size(Active) of
            0 -> ?IDLE_MS;
            _ -> ?LATEST_MS
        end,
    round(max(?SOONEST_MS, min(Latest, Ms)) * (0.5 + Random)).

-doc "How many processes a second may be discovered by messages.".
-spec first_calls(t()) -> pos_integer().
first_calls(#{share := Share, busy_ns := BusyNs}) ->
    max(1, round(Share / 2 * BusyNs / ?MESSAGE_NS)).

-doc "The modules that were seen called, and of these the functions that windows leave out.".
-spec active(t()) -> {[module()], Without :: [mfa()]}.
active(#{active := Active, left_out := Left}) -> {maps:keys(Active), maps:keys(Left)}.

-doc "What the last window has taken of the processor.".
-spec cost_ns(t()) -> number().
cost_ns(#{cost_ns := CostNs}) -> CostNs.

-doc "A node counts as one that works so much of a second, at least.".
-spec least_busy_ns() -> pos_integer().
least_busy_ns() -> ?LEAST_BUSY_NS.

-doc "What the breakpoints that stay take, as a share of one scheduler.".
-spec breakpoints_share(t()) -> float().
breakpoints_share(#{functions := Functions, rates := Rates} = Plan) ->
    #{uncounted := Uncounted, undiscovered := Undiscovered} = Plan,
    Rate = fun(Without) ->
        lists:sum(maps:values(maps:without(maps:keys(Without), rates(Functions, Rates))))
    end,
    ?COUNT_NS * Rate(Uncounted) + ?DISCOVERY_NS * Rate(Undiscovered) + 0.0.

-doc "Functions that windows leave out.".
-spec left_out(t()) -> #{mfa() => []}.
left_out(#{left_out := Left}) -> Left.

-doc "Functions that are called too often to be counted.".
-spec uncounted(t()) -> #{mfa() => []}.
uncounted(#{uncounted := Uncounted}) -> Uncounted.

-doc "Functions that are called too often to discover processes by them.".
-spec undiscovered(t()) -> #{mfa() => []}.
undiscovered(#{undiscovered := Undiscovered}) -> Undiscovered.
