%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_call_sums).
-moduledoc false.
%% Accumulates what was read of the call statistics, by function and by group of processes. Pure. It
%% grows with the functions and the groups, never with the processes: calls of a process that was
%% not discovered yet are unresolved until the next reading.
%%
%% The runtime cuts each process's time in a function to whole microseconds. Where short-lived
%% processes call a function once, all would be 0 and the sum as well. So a time of N > 0 us counts
%% as N + 0.5, which is right in the mean. A time of 0 lies between what measuring adds to its calls
%% and 1 us; it counts as the mean of the log-uniform distribution between them. What either may be
%% off by is kept.

-export([new/0, add/3, resolve/2, settle/1, functions/2, callers/2]).
-export_type([t/0, reading/0, group_of/0, overhead/0]).

-doc "What the runtime knows of one function.".
-type reading() :: #{
    calls := non_neg_integer(),
    words := non_neg_integer(),
    time := [{pid(), Calls :: non_neg_integer(), Seconds :: integer(), Us :: integer()}],
    memory => [{pid(), Calls :: non_neg_integer(), Words :: non_neg_integer()}]
}.

-doc "Finds a process's group; `none` where groups are not needed.".
-type group_of() :: fun((pid()) -> {ok, term()} | unknown) | none.

-doc "What measuring adds to calls.".
-type overhead() :: #{
    group_of => group_of(),
    %% What one call of an empty function is reported to take.
    least_ns := number() | undefined,
    %% The same of a function that so many processes call.
    call_ns => fun((Callers :: number()) -> number())
}.

-type sums() :: #{
    calls := non_neg_integer(),
    words := non_neg_integer(),
    own_time_ns := non_neg_integer(),
    %% What the own time may be off by.
    uncertain_ns := non_neg_integer(),
    %% What measuring has added, as `call_ns` has it.
    total_overhead_ns := float(),
    groups := #{term() => {Calls :: non_neg_integer(), Ns :: non_neg_integer()}},
    unresolved := [entry()]
}.

-type entry() :: {pid(), Calls :: pos_integer(), Ns :: non_neg_integer()}.

-opaque t() :: #{mfa() => sums()}.

%% What the runtime cuts times to.
-define(CUT_NS, 1000).
%% No measured call takes less.
-define(LEAST_NS, 20).
%% Of longer ones what is cut is at most a twentieth.
-define(SHORT_US, 10).

-spec new() -> t().
new() -> #{}.

-doc "Adds readings of functions.".
-spec add([{mfa(), reading()}], overhead(), t()) -> t().
add(Readings, Overhead, All) ->
    lists:foldl(fun(R, Acc) -> add_one(R, Overhead, Acc) end, All, Readings).

add_one({MFA, #{calls := Counted, words := Words, time := Time}}, Overhead, All) ->
    #{group_of := GroupOf, least_ns := LeastNs} = Overhead,
    #{calls := ByProcess} = Weight = weigh(Time, least(0, LeastNs), 0, 0, 0, 0, {0, 0, 0}),
    case max(Counted, ByProcess) of
        0 when Words =:= 0 ->
            All;
        Calls ->
            #{groups := Groups0, unresolved := Unresolved0} = Sums = maps:get(MFA, All, zero()),
            Zero = least(0, LeastNs),
            {Groups, Unresolved} = group_all(Time, GroupOf, Zero, none, Groups0, Unresolved0),
            Added = added(Weight#{calls := Calls, words => Words}, Overhead, Sums),
            All#{MFA => Added#{groups := Groups, unresolved := Unresolved}}
    end.

added(#{calls := Calls, words := Words, ns := Ns} = Weight, Overhead, Sums) ->
    Add = fun(Key, More) -> map_get(Key, Sums) + More end,
    Sums#{
        calls := Add(calls, Calls),
        words := Add(words, Words),
        own_time_ns := Add(own_time_ns, Ns),
        uncertain_ns := Add(uncertain_ns, map_get(uncertain_ns, Weight)),
        total_overhead_ns := Add(total_overhead_ns, total_overhead_ns(Weight, Overhead))
    }.

%% By how many processes call: each counts as much as it calls (the inverse of Simpson's index). One
%% that calls a million times and a thousand that call once are one.
total_overhead_ns(#{calls := Calls, squares := Squares}, #{call_ns := CallNs}) when Squares > 0 ->
    Calls * CallNs(Calls * Calls / Squares);
total_overhead_ns(_Weight, _Overhead) ->
    0.0.

%% A reading has a row for each function that each of thousands of processes has called: nothing is
%% made for a row here. The squares are those of each row's calls.
weigh([{_, 0, _, _} | Rest], Zero, Ns, Uncertain, Calls, Squares, Short) ->
    weigh(Rest, Zero, Ns, Uncertain, Calls, Squares, Short);
weigh([{_, C, 0, 0} | Rest], {C, Mean, Off, _} = Zero, Ns, Uncertain, Calls, Squares, Short) ->
    weigh(Rest, Zero, Ns + Mean, Uncertain + Off, Calls + C, Squares + C * C, Short);
weigh([{_, C, 0, 0} | _] = Rows, {_, _, _, LeastNs}, Ns, Uncertain, Calls, Squares, Short) ->
    weigh(Rows, least(C, LeastNs), Ns, Uncertain, Calls, Squares, Short);
weigh([{_, C, 0, Us} | Rest], Zero, Ns, Uncertain, Calls, Squares, {N, Sum, OfSquares}) when
    Us < ?SHORT_US
->
    Short = {N + 1, Sum + Us, OfSquares + Us * Us},
    weigh(Rest, Zero, Ns + middle_ns(Us), Uncertain, Calls + C, Squares + C * C, Short);
weigh([{_, C, S, Us} | Rest], Zero, Ns, Uncertain, Calls, Squares, Short) ->
    Took = S * 1_000_000_000 + middle_ns(Us),
    weigh(Rest, Zero, Ns + Took, Uncertain, Calls + C, Squares + C * C, Short);
weigh([], _Zero, Ns, Uncertain, Calls, Squares, Short) ->
    Off = Uncertain + short_uncertain_ns(Short),
    #{ns => Ns, uncertain_ns => Off, calls => Calls, squares => Squares}.

middle_ns(Us) -> Us * ?CUT_NS + ?CUT_NS div 2.

%% Of times that are all alike N + 0.5 may be wrong in the same way. Those that lie close around a
%% whole number are cut to two, N and N - 1, a share P of them to N: that is off by |P - 1/2|, and
%% their variance, P (1 - P), tells it. Of times that differ by more the errors cancel: those of a
%% normal distribution, sigma in the unit of the cut, but for exp(-2 pi^2 sigma^2) / pi.
short_uncertain_ns({0, _Sum, _Squares}) ->
    0;
short_uncertain_ns({N, Sum, Squares}) ->
    Variance = Squares / N - (Sum / N) * (Sum / N),
    %% The cut itself adds a twelfth.
    Spread = math:exp(-2 * math:pi() * math:pi() * max(0.0, Variance - 1 / 12)) / math:pi(),
    round(N * ?CUT_NS * max(math:sqrt(max(0.0, 1 / 4 - Variance)), Spread)).

%% `Run` are sums of the group that the last rows belonged to, which the next one mostly does as
%% well.
group_all(_Rows, none, _Zero, none, Groups, Unresolved) ->
    {Groups, Unresolved};
group_all([{_, 0, _, _} | Rest], GroupOf, Zero, Run, Groups, Unresolved) ->
    group_all(Rest, GroupOf, Zero, Run, Groups, Unresolved);
group_all([{Pid, C, 0, 0} | Rest], GroupOf, {C, Mean, _, _} = Zero, Run, Groups, Unresolved) ->
    group_one(Pid, C, Mean, Rest, GroupOf, Zero, Run, Groups, Unresolved);
group_all([{_, C, 0, 0} | _] = Rows, GroupOf, {_, _, _, LeastNs}, Run, Groups, Unresolved) ->
    group_all(Rows, GroupOf, least(C, LeastNs), Run, Groups, Unresolved);
group_all([{Pid, C, S, Us} | Rest], GroupOf, Zero, Run, Groups, Unresolved) ->
    Took = S * 1_000_000_000 + middle_ns(Us),
    group_one(Pid, C, Took, Rest, GroupOf, Zero, Run, Groups, Unresolved);
group_all([], _GroupOf, _Zero, Run, Groups, Unresolved) ->
    {add_to_group(Run, Groups), Unresolved}.

group_one(Pid, Calls, Ns, Rest, GroupOf, Zero, Run, Groups, Unresolved) ->
    case GroupOf(Pid) of
        {ok, Group} ->
            case Run of
                {Group, C, T} ->
                    group_all(Rest, GroupOf, Zero, {Group, C + Calls, T + Ns}, Groups, Unresolved);
                _ ->
                    Next = add_to_group(Run, Groups),
                    group_all(Rest, GroupOf, Zero, {Group, Calls, Ns}, Next, Unresolved)
            end;
        unknown ->
            group_all(Rest, GroupOf, Zero, Run, Groups, [{Pid, Calls, Ns} | Unresolved])
    end.

add_to_group(none, Groups) ->
    Groups;
add_to_group({Group, Calls, Ns}, Groups) ->
    case Groups of
        #{Group := {C, T}} -> Groups#{Group := {C + Calls, T + Ns}};
        #{} -> Groups#{Group => {Calls, Ns}}
    end.

%% A time of 0 of so many calls, and what it may be off by.
least(Calls, LeastNs) ->
    Least =
        case LeastNs of
            undefined -> ?LEAST_NS;
            _ -> min(max(?LEAST_NS, Calls * LeastNs), ?CUT_NS * 0.9)
        end,
    Mean = (?CUT_NS - Least) / math:log(?CUT_NS / Least),
    {Calls, round(Mean), round(max(?CUT_NS - Mean, Mean - Least)), LeastNs}.

zero() ->
    #{
        calls => 0,
        words => 0,
        own_time_ns => 0,
        uncertain_ns => 0,
        total_overhead_ns => 0.0,
        groups => #{},
        unresolved => []
    }.

-doc "Adds unresolved calls to their groups, where these have been found since.".
-spec resolve(group_of(), t()) -> t().
resolve(GroupOf, All) ->
    maps:map(
        fun
            (_MFA, #{unresolved := []} = Sums) ->
                Sums;
            (_MFA, #{unresolved := Unresolved} = Sums) ->
                {Groups, Left} = lists:foldl(
                    fun(Entry, Acc) -> group(Entry, GroupOf, Acc) end,
                    {map_get(groups, Sums), []},
                    Unresolved
                ),
                Sums#{groups := Groups, unresolved := Left}
        end,
        All
    ).

-doc "Calls that are unresolved are those of the group `other`.".
-spec settle(t()) -> t().
settle(All) -> resolve(fun(_Pid) -> {ok, other} end, All).

group({Pid, Calls, Ns} = Entry, GroupOf, {Groups, Unresolved}) ->
    case GroupOf(Pid) of
        {ok, Group} -> {add_to_group({Group, Calls, Ns}, Groups), Unresolved};
        unknown -> {Groups, [Entry | Unresolved]}
    end.

-doc "The statistics by function.".
-spec functions([atom()], t()) -> [#{atom() => term()}].
functions(Measures, All) ->
    Keys = #{call_time => [own_time_ns, uncertain_ns, total_overhead_ns], call_memory => [words]},
    Measured = [calls | lists:append([maps:get(Measure, Keys, []) || Measure <- Measures])],
    [(maps:with(Measured, Sums))#{mfa => MFA} || MFA := Sums <- All].

-doc "Who called what: the heaviest rows. Calls without a group are those of `other`.".
-spec callers(pos_integer(), t()) ->
    [{mfa(), Group :: term(), Calls :: non_neg_integer(), Ns :: non_neg_integer()}].
callers(MaxRows, All) ->
    Rows = [
        {MFA, Group, Calls, Ns}
     || MFA := Sums <- settle(All),
        Group := {Calls, Ns} <- map_get(groups, Sums)
    ],
    lists:sublist(lists:reverse(lists:keysort(4, Rows)), MaxRows).
