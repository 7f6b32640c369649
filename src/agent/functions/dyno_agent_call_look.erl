%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_call_look).
-moduledoc false.
%% A reading of all counts, and of what the budget is decided by; the difference between two is what
%% dyno_agent_call_budget decides on.

-export([now/1, without/2, size/1, since/3]).
-export_type([t/0]).

-type calls() :: #{mfa() => non_neg_integer()}.

%% Nanoseconds. `newest`: the number of the next process.
-opaque t() :: #{
    at := integer(),
    counts := calls(),
    worked := integer(),
    newest := non_neg_integer()
}.

-spec now(calls()) -> t().
now(Counts) ->
    {_, Newest} = dyno_agent_process:newest(),
    #{
        at => erlang:monotonic_time(nanosecond),
        counts => Counts,
        worked => worked(),
        newest => Newest
    }.

-doc "Without the counts of functions whose module is about to be loaded again.".
-spec without([mfa()], t()) -> t().
without(Functions, #{counts := Counts} = Look) -> Look#{counts := maps:without(Functions, Counts)}.

-doc "The number of counted functions.".
-spec size(t()) -> non_neg_integer().
size(#{counts := Counts}) -> map_size(Counts).

-doc "The difference of two readings.".
-spec since(t(), Before :: t(), Discoverers :: [mfa()]) -> dyno_agent_call_budget:look().
since(Look, Before, Discoverers) ->
    #{at := Now, counts := Counts, worked := Worked, newest := Newest} = Look,
    #{at := Then, counts := Earlier, worked := WorkedBefore, newest := NewestBefore} = Before,
    Ns = max(1, Now - Then),
    #{
        ns => Ns,
        calls => #{MFA => max(0, N - maps:get(MFA, Earlier, 0)) || MFA := N <- Counts},
        busy_ns => (Worked - WorkedBefore) * 1.0e9 / Ns,
        births => max(0, Newest - NewestBefore),
        discoverers => Discoverers
    }.

worked() ->
    Normal = erlang:system_info(schedulers),
    Native = lists:sum([
        Active
     || {Id, Active, _} <- erlang:statistics(scheduler_wall_time), Id =< Normal
    ]),
    erlang:convert_time_unit(Native, native, nanosecond).
