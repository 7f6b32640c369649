%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_call_look).
-moduledoc false.
%% A reading of all counts, and of what the budget is decided by; the difference between two is what
%% dyno_agent_call_budget decides on.

-export([zero/0, now/3, again/3, counted/1, without/2, size/1, is_recounting/1, since/3]).
-export_type([t/0]).

-type calls() :: #{mfa() => non_neg_integer()}.

%% Nanoseconds. `recounts`: of functions that are counted for a moment only; `newest`: the number of
%% the next process.
-opaque t() :: #{
    at := integer(),
    counts := calls(),
    recounts := calls(),
    worked := integer(),
    newest := non_neg_integer()
}.

-doc "A reading when all counts are zero.".
-spec zero() -> t().
zero() ->
    {_, Newest} = dyno_agent_process:newest(),
    #{
        at => erlang:monotonic_time(nanosecond),
        counts => #{},
        recounts => #{},
        worked => worked(),
        newest => Newest
    }.

-doc "A reading of these modules' functions, and of those that are counted for a moment.".
-spec now([module()], [mfa()], dyno_agent_call_sessions:t()) -> t().
now(Modules, Again, Sessions) ->
    Zero = zero(),
    Zero#{
        counts := dyno_agent_call_sessions:counts(Modules, Sessions),
        recounts := dyno_agent_call_sessions:recounts(Again, Sessions)
    }.

-doc """
Begins to count these functions for a moment. Their breakpoints take a moment each; the reading is
that when all are set.
""".
-spec again([module()], [mfa()], dyno_agent_call_sessions:t()) -> t().
again(Modules, Again, Sessions) ->
    ok = dyno_agent_call_sessions:recount(Again, true, Sessions),
    now(Modules, Again, Sessions).

-doc "Without the functions that were counted for a moment until now.".
-spec counted(t()) -> t().
counted(Look) -> Look#{recounts := #{}}.

-doc "Without the counts of functions whose module is about to be loaded again.".
-spec without([mfa()], t()) -> t().
without(Functions, #{counts := Counts} = Look) -> Look#{counts := maps:without(Functions, Counts)}.

-doc "The number of counted functions.".
-spec size(t()) -> non_neg_integer().
size(#{counts := Counts}) -> map_size(Counts).

-doc "Whether functions are counted for a moment from this reading on.".
-spec is_recounting(t()) -> boolean().
is_recounting(#{recounts := Recounts}) -> map_size(Recounts) > 0.

-doc "The difference of two readings.".
-spec since(t(), Before :: t(), Discoverers :: [mfa()]) -> dyno_agent_call_budget:look().
since(Look, Before, Discoverers) ->
    #{at := Now, counts := Counts, recounts := Recounts, worked := Worked, newest := Newest} = Look,
    #{at := Then, worked := WorkedBefore, newest := NewestBefore} = Before,
    Ns = max(1, Now - Then),
    #{
        ns => Ns,
        calls => more(Counts, map_get(counts, Before)),
        recounted => more(Recounts, map_get(recounts, Before)),
        busy_ns => (Worked - WorkedBefore) * 1.0e9 / Ns,
        births => max(0, Newest - NewestBefore),
        discoverers => Discoverers
    }.

more(Counts, Before) -> #{MFA => max(0, N - maps:get(MFA, Before, 0)) || MFA := N <- Counts}.

worked() ->
    Normal = erlang:system_info(schedulers),
    Native = lists:sum([
        Active
     || {Id, Active, _} <- erlang:statistics(scheduler_wall_time), Id =< Normal
    ]),
    erlang:convert_time_unit(Native, native, nanosecond).
