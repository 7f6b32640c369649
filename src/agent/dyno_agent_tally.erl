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
    Sums = maps:get(MFA, Tally, zero()),
    Entries = [entry(T, Instrument) || {_, C, _, _} = T <- Time, C > 0],
    Grouped = lists:foldl(fun(E, Acc) -> group(E, GroupOf, Acc) end, Sums, Entries),
    Missed = maps:get(missed, Instrument, 1.0),
    Add = fun(Key, More) -> map_get(Key, Sums) + round(More * Missed) end,
    Tally#{
        MFA => Grouped#{
            calls := Add(calls, Calls),
            words := Add(words, Words),
            own_time_ns := Add(own_time_ns, lists:sum([N || {_, _, N, _} <- Entries])),
            uncertain_ns := Add(uncertain_ns, lists:sum([U || {_, _, _, U} <- Entries]))
        }
    }.

%% {Pid, Calls, Ns, UncertainNs}
entry({Pid, Calls, 0, 0}, #{self_charge_ns := Charge}) ->
    Least =
        case Charge of
            undefined -> ?LEAST_NS;
            _ -> min(max(?LEAST_NS, Calls * Charge), ?CUT_NS * 0.9)
        end,
    Mean = (?CUT_NS - Least) / math:log(?CUT_NS / Least),
    {Pid, Calls, round(Mean), round(max(?CUT_NS - Mean, Mean - Least))};
entry({Pid, Calls, S, Us}, _Instrument) ->
    {Pid, Calls, S * 1_000_000_000 + Us * ?CUT_NS + ?CUT_NS div 2, 0}.

zero() ->
    #{calls => 0, words => 0, own_time_ns => 0, uncertain_ns => 0, groups => #{}, aside => []}.

group(_Entry, none, Sums) ->
    Sums;
group({Pid, Calls, Ns, _Uncertain} = Entry, GroupOf, #{groups := Groups, aside := Aside} = Sums) ->
    case GroupOf(Pid) of
        {ok, Group} ->
            Add = fun({C, T}) -> {C + Calls, T + Ns} end,
            Sums#{groups := maps:update_with(Group, Add, {Calls, Ns}, Groups)};
        unknown ->
            Sums#{aside := [Entry | Aside]}
    end.

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
                lists:foldl(
                    fun(E, Acc) -> group(E, GroupOf, Acc) end, Sums#{aside := []}, Aside
                )
        end,
        Tally
    ).

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
     || MFA := #{calls := Calls, words := Words, own_time_ns := Ns, uncertain_ns := Uncertain} <- Tally
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
