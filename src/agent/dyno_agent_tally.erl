%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_tally).
-moduledoc false.
%% The sums of what the counters read, by function and by group of processes. Pure. It grows with
%% the functions and the groups, never with the processes: those whose group is not known yet are
%% set aside until the next time.

-export([new/0, add/4, settle/2, functions/2, callers/2]).
-export_type([tally/0, reading/0, group_of/0]).

-doc "What the runtime knows of one function.".
-type reading() :: #{
    calls := non_neg_integer(),
    words := non_neg_integer(),
    time := [{pid(), Calls :: non_neg_integer(), Seconds :: integer(), Us :: integer()}]
}.

-doc "Finds a process's group; `none` where nobody asks for groups.".
-type group_of() :: fun((pid()) -> {ok, term()} | unknown) | none.

-type sums() :: #{
    calls := non_neg_integer(),
    words := non_neg_integer(),
    own_time_ns := non_neg_integer(),
    %% How many times were cut to whole microseconds.
    cut := non_neg_integer(),
    groups := #{term() => {Calls :: non_neg_integer(), Ns :: non_neg_integer()}},
    aside := [{pid(), Calls :: non_neg_integer(), Ns :: non_neg_integer()}]
}.

-opaque tally() :: #{mfa() => sums()}.

-spec new() -> tally().
new() -> #{}.

-doc "Adds a reading of a function.".
-spec add(mfa(), reading(), group_of(), tally()) -> tally().
add(_MFA, #{calls := 0, words := 0}, _GroupOf, Tally) ->
    Tally;
add(MFA, #{calls := Calls, words := Words, time := Time}, GroupOf, Tally) ->
    Sums = maps:get(MFA, Tally, zero()),
    Entries = [{P, C, S * 1_000_000_000 + Us * 1000} || {P, C, S, Us} <- Time, C > 0],
    Grouped = lists:foldl(fun(E, Acc) -> group(E, GroupOf, Acc) end, Sums, Entries),
    Tally#{
        MFA => Grouped#{
            calls := map_get(calls, Sums) + Calls,
            words := map_get(words, Sums) + Words,
            own_time_ns := map_get(own_time_ns, Sums) + lists:sum([Ns || {_, _, Ns} <- Entries]),
            cut := map_get(cut, Sums) + length(Entries)
        }
    }.

zero() ->
    #{calls => 0, words => 0, own_time_ns => 0, cut => 0, groups => #{}, aside => []}.

group(_Entry, none, Sums) ->
    Sums;
group({Pid, Calls, Ns} = Entry, GroupOf, #{groups := Groups, aside := Aside} = Sums) ->
    case GroupOf(Pid) of
        {ok, Group} ->
            Add = fun({C, T}) -> {C + Calls, T + Ns} end,
            Sums#{groups := maps:update_with(Group, Add, {Calls, Ns}, Groups)};
        unknown ->
            Sums#{aside := [Entry | Aside]}
    end.

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
                    [{missing_ns, Cut * 1000} || HasTime] ++
                    [{words, Words} || HasWords]
            )
        )
     || MFA := #{calls := Calls, words := Words, own_time_ns := Ns, cut := Cut} <- Tally
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
