%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_call_sums).
-moduledoc false.
%% The sums of what the counters read, by function and by group of processes. Pure. It grows with
%% the functions and the groups, never with the processes: those whose group is not known yet are
%% set aside until the next time.
%%
%% The runtime gives each process's time in a function in whole microseconds, cut off. Where short
%% processes call a function once, all would be 0 and the sum as well. So a time of N > 0 us counts
%% as N + 0.5, which is right in the mean. Of a time of 0 is known that it lies between what
%% measuring charges to its calls and 1 us; it counts as the mean of the log-uniform distribution
%% between them. What either may be off by is kept.

-export([new/0, add/3, without/2, settle/2, functions/2, callers/2]).
-export_type([tally/0, reading/0, group_of/0, instrument/0]).

-doc "What the runtime knows of one function.".
-type reading() :: #{
    calls := non_neg_integer(),
    words := non_neg_integer(),
    time := [{pid(), Calls :: non_neg_integer(), Seconds :: integer(), Us :: integer()}]
}.

-doc "Finds a process's group; `none` where nobody asks for groups.".
-type group_of() :: fun((pid()) -> {ok, term()} | unknown) | none.

-type instrument() :: #{
    group_of := group_of(),
    %% What one call of an empty function is reported to take.
    self_charge_ns := number() | undefined,
    %% The same of a function that so many processes call.
    charge_ns => fun((Callers :: number()) -> number()),
    %% The sums are multiplied by it: there were calls that were not counted. Groups are left as
    %% they were: to a process that called once nothing can be added.
    missed => float()
}.

-type sums() :: #{
    calls := non_neg_integer(),
    words := non_neg_integer(),
    own_time_ns := non_neg_integer(),
    %% What the own time may be off by.
    uncertain_ns := non_neg_integer(),
    %% What measuring has charged, as `charge_ns` has it.
    charged_ns := float(),
    groups := #{term() => {Calls :: non_neg_integer(), Ns :: non_neg_integer()}},
    aside := [entry()]
}.

-type entry() :: {pid(), Calls :: pos_integer(), Ns :: non_neg_integer()}.

-opaque tally() :: #{mfa() => sums()}.

%% What the runtime cuts times to.
-define(CUT_NS, 1000).
%% No measured call takes less.
-define(LEAST_NS, 20).
%% Of longer ones what is cut is at most a twentieth.
-define(SHORT_US, 10).

%% What a reading's rows come to.
-type weight() :: #{
    calls := non_neg_integer(),
    %% Of each row's calls.
    squares := non_neg_integer(),
    ns := non_neg_integer(),
    uncertain_ns := non_neg_integer()
}.

-spec new() -> tally().
new() -> #{}.

-doc "Adds readings of functions.".
-spec add([{mfa(), reading()}], instrument(), tally()) -> tally().
add(Readings, Instrument, Tally) ->
    lists:foldl(fun(R, Acc) -> add_one(R, Instrument, Acc) end, Tally, Readings).

add_one({MFA, #{calls := Counted, words := Words, time := Time}}, Instrument, Tally) ->
    #{group_of := GroupOf, self_charge_ns := Charge} = Instrument,
    #{calls := ByProcess} = Weight = weigh(Time, least(0, Charge), 0, 0, 0, 0, {0, 0, 0}),
    case max(Counted, ByProcess) of
        0 when Words =:= 0 ->
            Tally;
        Calls ->
            #{groups := Groups0, aside := Aside0} = Sums = maps:get(MFA, Tally, zero()),
            {Groups, Aside} = group_all(Time, GroupOf, least(0, Charge), none, Groups0, Aside0),
            Added = added(Weight#{calls := Calls, words => Words}, Instrument, Sums),
            Tally#{MFA => Added#{groups := Groups, aside := Aside}}
    end.

added(#{calls := Calls, words := Words, ns := Ns} = Weight, Instrument, Sums) ->
    Missed = maps:get(missed, Instrument, 1.0),
    Add = fun(Key, More) -> map_get(Key, Sums) + round(More * Missed) end,
    Sums#{
        calls := Add(calls, Calls),
        words := Add(words, Words),
        own_time_ns := Add(own_time_ns, Ns),
        uncertain_ns := Add(uncertain_ns, map_get(uncertain_ns, Weight)),
        charged_ns := map_get(charged_ns, Sums) + Missed * charged_ns(Weight, Instrument)
    }.

%% By how many processes call: each counts as much as it calls (the inverse of Simpson's index). One
%% that calls a million times and a thousand that call once are one.
charged_ns(#{calls := Calls, squares := Squares}, #{charge_ns := ChargeNs}) when Squares > 0 ->
    Calls * ChargeNs(Calls * Calls / Squares);
charged_ns(_Weight, _Instrument) ->
    0.0.

%% A harvest has a row for each function that each of thousands of processes has called: nothing is
%% made for a row here.
-spec weigh(Rows, Zero, Ns, Uncertain, Calls, Squares, Short) -> weight() when
    Rows :: [{pid(), non_neg_integer(), non_neg_integer(), non_neg_integer()}],
    Zero :: {integer(), integer(), integer(), number() | undefined},
    Ns :: non_neg_integer(),
    Uncertain :: non_neg_integer(),
    Calls :: non_neg_integer(),
    Squares :: non_neg_integer(),
    Short :: {non_neg_integer(), non_neg_integer(), non_neg_integer()}.
weigh([{_, 0, _, _} | Rest], Zero, Ns, Uncertain, Calls, Squares, Short) ->
    weigh(Rest, Zero, Ns, Uncertain, Calls, Squares, Short);
weigh([{_, C, 0, 0} | Rest], {C, Mean, Off, _} = Zero, Ns, Uncertain, Calls, Squares, Short) ->
    weigh(Rest, Zero, Ns + Mean, Uncertain + Off, Calls + C, Squares + C * C, Short);
weigh([{_, C, 0, 0} | _] = Rows, {_, _, _, Charge}, Ns, Uncertain, Calls, Squares, Short) ->
    weigh(Rows, least(C, Charge), Ns, Uncertain, Calls, Squares, Short);
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
group_all(_Rows, none, _Zero, none, Groups, Aside) ->
    {Groups, Aside};
group_all([{_, 0, _, _} | Rest], GroupOf, Zero, Run, Groups, Aside) ->
    group_all(Rest, GroupOf, Zero, Run, Groups, Aside);
group_all([{Pid, C, 0, 0} | Rest], GroupOf, {C, Mean, _, _} = Zero, Run, Groups, Aside) ->
    group_one(Pid, C, Mean, Rest, GroupOf, Zero, Run, Groups, Aside);
group_all([{_, C, 0, 0} | _] = Rows, GroupOf, {_, _, _, Charge}, Run, Groups, Aside) ->
    group_all(Rows, GroupOf, least(C, Charge), Run, Groups, Aside);
group_all([{Pid, C, S, Us} | Rest], GroupOf, Zero, Run, Groups, Aside) ->
    Took = S * 1_000_000_000 + middle_ns(Us),
    group_one(Pid, C, Took, Rest, GroupOf, Zero, Run, Groups, Aside);
group_all([], _GroupOf, _Zero, Run, Groups, Aside) ->
    {put_down(Run, Groups), Aside}.

group_one(Pid, Calls, Ns, Rest, GroupOf, Zero, Run, Groups, Aside) ->
    case GroupOf(Pid) of
        {ok, Group} ->
            case Run of
                {Group, C, T} ->
                    group_all(Rest, GroupOf, Zero, {Group, C + Calls, T + Ns}, Groups, Aside);
                _ ->
                    Next = put_down(Run, Groups),
                    group_all(Rest, GroupOf, Zero, {Group, Calls, Ns}, Next, Aside)
            end;
        unknown ->
            group_all(Rest, GroupOf, Zero, Run, Groups, [{Pid, Calls, Ns} | Aside])
    end.

put_down(none, Groups) ->
    Groups;
put_down({Group, Calls, Ns}, Groups) ->
    case Groups of
        #{Group := {C, T}} -> Groups#{Group := {C + Calls, T + Ns}};
        #{} -> Groups#{Group => {Calls, Ns}}
    end.

%% A time of 0 of so many calls, and what it may be off by.
least(Calls, Charge) ->
    Least =
        case Charge of
            undefined -> ?LEAST_NS;
            _ -> min(max(?LEAST_NS, Calls * Charge), ?CUT_NS * 0.9)
        end,
    Mean = (?CUT_NS - Least) / math:log(?CUT_NS / Least),
    {Calls, round(Mean), round(max(?CUT_NS - Mean, Mean - Least)), Charge}.

zero() ->
    #{
        calls => 0,
        words => 0,
        own_time_ns => 0,
        uncertain_ns => 0,
        charged_ns => 0.0,
        groups => #{},
        aside => []
    }.

-doc "Takes calls out that are not the target's; a function that nobody else called is not there.".
-spec without(#{mfa() => pos_integer()}, tally()) -> tally().
without(Own, Tally) ->
    maps:filtermap(
        fun(MFA, #{calls := Calls} = Sums) ->
            case Own of
                #{MFA := Ours} when Ours >= Calls -> false;
                #{MFA := Ours} -> {true, Sums#{calls := Calls - Ours}};
                #{} -> true
            end
        end,
        Tally
    ).

-doc "Puts what was set aside into its groups, as far as they are known by now.".
-spec settle(group_of(), tally()) -> tally().
settle(GroupOf, Tally) ->
    maps:map(
        fun
            (_MFA, #{aside := []} = Sums) ->
                Sums;
            (_MFA, #{aside := Aside} = Sums) ->
                {Groups, Left} = lists:foldl(
                    fun(E, Acc) -> group(E, GroupOf, Acc) end, {map_get(groups, Sums), []}, Aside
                ),
                Sums#{groups := Groups, aside := Left}
        end,
        Tally
    ).

group({Pid, Calls, Ns} = Entry, GroupOf, {Groups, Aside}) ->
    case GroupOf(Pid) of
        {ok, Group} -> {put_down({Group, Calls, Ns}, Groups), Aside};
        unknown -> {Groups, [Entry | Aside]}
    end.

-doc "The figures by function.".
-spec functions([atom()], tally()) -> [#{atom() => term()}].
functions(Measures, Tally) ->
    HasTime = lists:member(call_time, Measures),
    HasWords = lists:member(call_memory, Measures),
    [
        maps:merge(
            #{mfa => MFA, calls => Calls},
            maps:from_list(
                [{own_time_ns, Ns} || HasTime] ++
                    [{uncertain_ns, Uncertain} || HasTime] ++
                    [{charged_ns, Charged} || HasTime] ++
                    [{words, Words} || HasWords]
            )
        )
     || MFA := #{
            calls := Calls,
            words := Words,
            own_time_ns := Ns,
            uncertain_ns := Uncertain,
            charged_ns := Charged
        } <- Tally
    ].

-doc "Who called what: the heaviest rows. What no group was found for is `other`.".
-spec callers(pos_integer(), tally()) ->
    [{mfa(), Group :: term(), Calls :: non_neg_integer(), Ns :: non_neg_integer()}].
callers(MaxRows, Tally) ->
    Rows = [
        {MFA, Group, Calls, Ns}
     || MFA := Sums <- settle(fun(_Pid) -> {ok, other} end, Tally),
        Group := {Calls, Ns} <- map_get(groups, Sums)
    ],
    lists:sublist(lists:reverse(lists:keysort(4, Rows)), MaxRows).
