%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_first_call_estimate).
-moduledoc false.
%% How many processes throttled functions discover while their first calls send no message. Pure.
%%
%%   messages   ______________|#####|________________________|#####|______
%%   counts                   c1    c2                       c1    c2
%%
%% The calls of such a function are counted all the time. In a window, while messages come, it is
%% seen how many of its calls are first calls: often all. The same share of the calls between two
%% windows is taken to be. Messages and counts are compared by the times of the messages, because a
%% change of the code takes effect some milliseconds before or after it is asked for.

-export([new/0, opened/4, first_call/3, closing/3, closed/1, settled/2, only/2, is_open/1]).
-export_type([t/0, counts/0]).

-type id() :: dyno_agent_process_table:id().

-opaque t() :: #{mfa() => #{
    id := id(),
    %% Its calls when the last window ended.
    last := non_neg_integer(),
    %% The window: the calls and the time (native) at its begin and its end, and its first calls.
    from := {non_neg_integer(), integer()} | none,
    to := {non_neg_integer(), integer()} | none,
    seen := non_neg_integer(),
    %% In all windows, the latest ones more: first calls, of all calls.
    first := number(),
    calls := number()
}}.

-doc "The calls of functions so far; of those that are counted.".
-type counts() :: #{mfa() => non_neg_integer()}.

%% As many calls in windows are forgotten by half.
-define(REMEMBER, 5000).

-spec new() -> t().
new() -> #{}.

-doc "A window began at a time (native) for the throttled functions, if it has not yet for them.".
-spec opened(counts(), integer(), #{mfa() => id()}, t()) -> t().
opened(Counts, Time, Throttled, Estimate) ->
    #{
        MFA => opened_one(Calls, Time, Id, maps:get(MFA, Estimate, new))
     || MFA := Id <- Throttled, #{MFA := Calls} <- [Counts]
    }.

opened_one(Calls, Time, Id, new) ->
    Window = #{from => {Calls, Time}, to => none, seen => 0},
    Window#{id => Id, last => Calls, first => 0, calls => 0};
opened_one(Calls, Time, _Id, #{from := none} = Function) ->
    Function#{from := {Calls, Time}, to := none, seen := 0};
opened_one(_Calls, _Time, _Id, Function) ->
    Function.

-doc "A throttled function was a process's first one at a time; `no` if that is not in a window.".
-spec first_call(mfa(), integer(), t()) -> {yes, t()} | no.
first_call(MFA, Time, Estimate) ->
    case Estimate of
        #{MFA := #{from := {_, From}, to := To, seen := Seen} = Function} when
            Time >= From, To =:= none orelse Time =< element(2, To)
        ->
            {yes, Estimate#{MFA := Function#{seen := Seen + 1}}};
        #{} ->
            no
    end.

-doc "The window ends at a time; messages of calls before it may still come.".
-spec closing(counts(), integer(), t()) -> t().
closing(Counts, Time, Estimate) ->
    %% What was loaded again has no count.
    #{
        MFA => Function#{to := {Calls, Time}}
     || MFA := Function <- Estimate, #{MFA := Calls} <- [Counts]
    }.

-doc "All messages of the window have come: how many were discovered without one before it.".
-spec closed(t()) -> {#{id() => non_neg_integer()}, t()}.
closed(Estimate) ->
    sums(maps:map(fun(_MFA, Function) -> closed_one(Function) end, Estimate)).

closed_one(#{from := {From, _}, to := {To, _}, seen := Seen, last := Last} = Function) ->
    #{first := First, calls := Calls} = Function,
    Weight = min(1, ?REMEMBER / max(1, Calls)),
    Learned = Function#{first := Weight * First + Seen, calls := Weight * Calls + To - From},
    {silent(From - Last, Learned), Learned#{from := none, to := none, last := To}};
closed_one(Function) ->
    {0, Function}.

%% Not more than calls: a message more or less falls into a short window.
silent(_Between, #{calls := 0}) -> 0;
silent(Between, #{first := First, calls := Calls}) -> round(Between * min(1, First / Calls)).

-doc "How many were discovered without a message until now.".
-spec settled(counts(), t()) -> {#{id() => non_neg_integer()}, t()}.
settled(Counts, Estimate) ->
    Settle = fun(MFA, #{from := Window, last := Last} = Function) ->
        Now =
            case Window of
                {From, _} -> From;
                none -> maps:get(MFA, Counts, Last)
            end,
        {silent(Now - Last, Function), Function#{last := Now}}
    end,
    sums(maps:map(Settle, Estimate)).

sums(Estimated) ->
    ByGroup = maps:groups_from_list(
        fun({Id, _}) -> Id end,
        fun({_, Silent}) -> Silent end,
        [{Id, Silent} || _ := {Silent, #{id := Id}} <- Estimated]
    ),
    {
        #{Id => lists:sum(Silents) || Id := Silents <- ByGroup},
        maps:map(fun(_, {_, Function}) -> Function end, Estimated)
    }.

-doc """
Without functions that are throttled no more: each of their first calls sends a message again.
""".
-spec only(#{mfa() => id()}, t()) -> t().
only(Throttled, Estimate) -> maps:with(maps:keys(Throttled), Estimate).

-doc "Whether a window has begun for a function and does not end yet.".
-spec is_open(t()) -> boolean().
is_open(Estimate) ->
    [] =/= [MFA || MFA := #{from := {_, _}, to := none} <- Estimate].
