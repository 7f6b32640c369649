%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_tally).
-moduledoc false.
%% The sums of what the counters read, by function and by group of processes. Pure. It grows with
%% the functions and the groups, never with the processes: those whose group is not known yet are
%% set aside until the next time.
%%
%% The runtime gives each process's time in a function in whole microseconds, cut off. Where short
%% processes call a function once, all would be 0 and the sum as well. So a time of N > 0 us counts
%% as N + 0.5, which is right in the mean. Of a time of 0 is known that it lies between what
%% measuring charges to its calls and 1 us; it counts as the mean of the log-uniform distribution
%% between them, and what it may be off by is kept.

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
    groups := #{term() => {Calls :: non_neg_integer(), Ns :: non_neg_integer()}},
    aside := [entry()]
}.

-type entry() :: {
    pid(), Calls :: pos_integer(), Ns :: non_neg_integer(), UncertainNs :: non_neg_integer()
}.

-opaque tally() :: #{mfa() => sums()}.

%% What the runtime cuts times to.
-define(CUT_NS, 1000).
%% No measured call takes less.
-define(LEAST_NS, 20).

-spec new() -> tally().
new() -> #{}.

-doc "Adds readings of functions.".
-spec add([{mfa(), reading()}], instrument(), tally()) -> tally().
add(Readings, Instrument, Tally) ->
    lists:foldl(fun(R, Acc) -> add_one(R, Instrument, Acc) end, Tally, Readings).

add_one({_MFA, #{calls := 0, words := 0}}, _Instrument, Tally) ->
    Tally;
add_one({MFA, Reading}, #{group_of := GroupOf} = Instrument, Tally) ->
    #{calls := Calls, words := Words, time := Time} = Reading,
    #{groups := Groups0, aside := Aside0} = Sums = maps:get(MFA, Tally, zero()),
    Zero = least(0, maps:get(self_charge_ns, Instrument)),
    {Ns, Uncertain, Groups, Aside} = rows(Time, GroupOf, Zero, {0, 0}, none, {Groups0, Aside0}),
    Missed = maps:get(missed, Instrument, 1.0),
    Add = fun(Key, More) -> map_get(Key, Sums) + round(More * Missed) end,
    Tally#{
        MFA => #{
            calls => Add(calls, Calls),
            words => Add(words, Words),
            own_time_ns => Add(own_time_ns, Ns),
            uncertain_ns => Add(uncertain_ns, Uncertain),
            groups => Groups,
            aside => Aside
        }
    }.

%% In one pass: a harvest has a row for each function that each of thousands of processes has
%% called. `Run` are sums of the group that the last rows belonged to, which the next one mostly
%% does as well.
rows([{_Pid, 0, _, _} | Rest], GroupOf, Zero, Sums, Run, Acc) ->
    rows(Rest, GroupOf, Zero, Sums, Run, Acc);
rows([{Pid, Calls, 0, 0} | Rest], GroupOf, {Calls, Ns, Off, _} = Zero, Sums, Run, Acc) ->
    row({Pid, Calls, Ns, Off}, Rest, GroupOf, Zero, Sums, Run, Acc);
rows([{_, Calls, 0, 0} | _] = Rows, GroupOf, {_, _, _, Charge}, Sums, Run, Acc) ->
    rows(Rows, GroupOf, least(Calls, Charge), Sums, Run, Acc);
rows([{Pid, Calls, S, Us} | Rest], GroupOf, Zero, Sums, Run, Acc) ->
    Ns = S * 1_000_000_000 + Us * ?CUT_NS + ?CUT_NS div 2,
    row({Pid, Calls, Ns, 0}, Rest, GroupOf, Zero, Sums, Run, Acc);
rows([], _GroupOf, _Zero, {Ns, Uncertain}, Run, Acc) ->
    {Groups, Aside} = put_down(Run, Acc),
    {Ns, Uncertain, Groups, Aside}.

row({_, _, N, U}, Rest, none, Zero, {Ns, Uncertain}, Run, Acc) ->
    rows(Rest, none, Zero, {Ns + N, Uncertain + U}, Run, Acc);
row({Pid, Calls, N, U} = Entry, Rest, GroupOf, Zero, {Ns, Uncertain}, Run, Acc) ->
    Sums = {Ns + N, Uncertain + U},
    case GroupOf(Pid) of
        {ok, Group} ->
            case Run of
                {Group, C, T} ->
                    rows(Rest, GroupOf, Zero, Sums, {Group, C + Calls, T + N}, Acc);
                _ ->
                    rows(Rest, GroupOf, Zero, Sums, {Group, Calls, N}, put_down(Run, Acc))
            end;
        unknown ->
            {Groups, Aside} = Acc,
            rows(Rest, GroupOf, Zero, Sums, Run, {Groups, [Entry | Aside]})
    end.

put_down(none, Acc) ->
    Acc;
put_down({Group, Calls, Ns}, {Groups, Aside}) ->
    case Groups of
        #{Group := {C, T}} -> {Groups#{Group := {C + Calls, T + Ns}}, Aside};
        #{} -> {Groups#{Group => {Calls, Ns}}, Aside}
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
    #{calls => 0, words => 0, own_time_ns => 0, uncertain_ns => 0, groups => #{}, aside => []}.

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

group({Pid, Calls, Ns, _Uncertain} = Entry, GroupOf, {Groups, Aside} = Acc) ->
    case GroupOf(Pid) of
        {ok, Group} -> put_down({Group, Calls, Ns}, Acc);
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
                    [{words, Words} || HasWords]
            )
        )
     || MFA := #{
            calls := Calls, words := Words, own_time_ns := Ns, uncertain_ns := Uncertain
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
