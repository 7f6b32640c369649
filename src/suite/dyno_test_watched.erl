%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_test_watched).
-moduledoc """
Says what one process of a kind holds and does, from those of the kind that were followed from their
first call of a measured function to their end. Pure.

* **Memory**: of all the time that processes of the kind live, the mean of what one of them holds
  then. A process that lives twice as long counts twice: so the mean number that is alive, times
  this, is what they hold together.
* **Reductions**: the mean, over the processes, of what one of them has done from its spawn until
  its end. Each process counts once, however long it lives.

The intervals are of 95 % (`m:dyno_stats_jackknife`, over the times of birth). To the upper end of
that of the reductions 4,000 are added: so many a process can do in its last turn, and a process
that ends is not asked any more. The intervals have in them what being watched takes, too: 200
bytes, and a few reductions for each look; and that in the time in which no answer came a process
may have held nothing, or twice as much. What cannot be told from that is not told: `state` says
why.
""".

-export([figures/1, merge/2]).

-export_type([figures/0, state/0]).

-type figures() :: #{
    %% Processes that were followed.
    watched := non_neg_integer(),
    state := state(),
    memory := interval() | undefined,
    %% Without a value where its interval is wider than the value itself.
    reductions := {number() | undefined, number(), number()} | undefined
}.

-type interval() :: {number(), Low :: number(), High :: number()}.

-doc """
* `too_few`: fewer than 20 were followed, or they came in fewer than 5 parts of the time.
* `too_short`: too much of their lives is over before, or passes without, an answer.
* `too_long`: more than a tenth had not ended by the end of the run, or within 10 seconds.
* `none`: none was chosen.
""".
-type state() :: measured | too_few | too_short | too_long | none.

-define(LEVEL, 0.95).
-define(FEWEST, 20).
-define(FEWEST_SLOTS, 5).
%% Of the time that they live, so much must have been seen; of the processes, so many may not be.
-define(SEEN, 0.8).
-define(UNSEEN, 0.1).
-define(UNENDED, 0.1).
%% What the runtime lets a process do before it gives another one its turn.
-define(LAST_RUN, 4000).
%% What dyno's two monitors take in a process, and to answer one look.
-define(WATCHED_BYTES, 200).
-define(LOOK_REDUCTIONS, 5).
%% A speed is measured over one turn, by somebody who has to wait for his own: it may be off by
%% half.
-define(SPEED_ERROR, 0.5).
%% Reductions in a nanosecond, of the shortest loop.
-define(FASTEST, 1.0).

-doc "Those of two nodes.".
-spec merge(dyno_agent_watch:figures(), dyno_agent_watch:figures()) -> dyno_agent_watch:figures().
merge(#{slots := As, pending := A}, #{slots := Bs, pending := B}) ->
    #{slots => As ++ Bs, pending => A + B}.

-doc "What is known, or why it is not.".
-spec figures(dyno_agent_watch:figures()) -> figures().
figures(#{slots := Slots, pending := Pending}) ->
    Watched = sum(processes, Slots),
    State = state(Watched, Pending, Slots),
    Known = #{watched => Watched, state => State, memory => undefined, reductions => undefined},
    case State of
        measured -> Known#{memory := memory(Slots), reductions := reductions(Slots)};
        _ -> Known
    end.

-spec state(number(), number(), [dyno_agent_watch:slot()]) -> state().
state(0, 0, _Slots) ->
    none;
state(Watched, Pending, Slots) ->
    Weight = sum(weight, Slots) + Pending,
    Ended = Weight - Pending - sum(outlived, Slots),
    Verdicts = [
        {too_long, Ended < (1 - ?UNENDED) * Weight},
        {too_few, Watched < ?FEWEST orelse length(Slots) < ?FEWEST_SLOTS},
        {too_short, sum(unseen, Slots) > ?UNSEEN * Ended},
        {too_short, sum(seen_ns, Slots) * (1 - ?SEEN) < sum(missed_ns, Slots) * ?SEEN}
    ],
    case [Verdict || {Verdict, true} <- Verdicts] of
        [First | _] -> First;
        [] -> measured
    end.

-spec memory([dyno_agent_watch:slot()]) -> interval() | undefined.
memory(Slots) ->
    Groups = [[Bytes, Seen] || #{bytes_ns := Bytes, seen_ns := Seen} <- Slots, Seen > 0],
    case interval(Groups, fun([Bytes, Ns]) -> Bytes / Ns end) of
        {Value, Low, High} ->
            Missed = missed(Slots),
            {Value, max(0, Low * (1 - Missed) - ?WATCHED_BYTES), High * (1 + Missed)};
        undefined ->
            undefined
    end.

%% The part of the time that no answer came in: it may have held nothing, or twice the mean.
-spec missed([dyno_agent_watch:slot()]) -> float().
missed(Slots) ->
    MissedNs = sum(missed_ns, Slots),
    MissedNs / max(1, MissedNs + sum(seen_ns, Slots)).

-spec reductions([dyno_agent_watch:slot()]) ->
    {number() | undefined, number(), number()} | undefined.
reductions(Slots) ->
    case interval([columns(S) || #{weight := W, outlived := O} = S <- Slots, W > O], fun done/1) of
        {Value, Low, High} ->
            Lowest = max(0, Low - at_least(Slots)),
            Highest = High + ?LAST_RUN + at_most(Slots),
            case Highest - Lowest =< Value of
                true -> {Value, Lowest, Highest};
                false -> {undefined, Lowest, Highest}
            end;
        undefined ->
            undefined
    end.

-spec columns(dyno_agent_watch:slot()) -> [number()].
columns(#{reductions := Exact, tail := Tail, weight := Weight, outlived := Outlived} = Slot) ->
    #{lost_ns := Lost, worked := Worked, worked_ns := WorkedNs} = Slot,
    [Exact, Tail, Weight - Outlived, Lost, Worked, WorkedNs].

-spec done([number()]) -> float().
done([Exact, Tail, Processes, Lost, Worked, WorkedNs]) ->
    (Exact + in_last_span(Tail, Lost, Worked, WorkedNs)) / Processes.

%% Where only the first of two answers came, the speed is that of the others.
-spec in_last_span(number(), number(), number(), number()) -> number().
in_last_span(Tail, Lost, Worked, WorkedNs) when WorkedNs > 0 -> Tail + Lost * Worked / WorkedNs;
in_last_span(Tail, _Lost, _Worked, _WorkedNs) -> Tail.

%% Less than the estimate, at the least: without what our questions cost, and half of what was not
%% read.
-spec at_least([dyno_agent_watch:slot()]) -> float().
at_least(Slots) ->
    ?LOOK_REDUCTIONS * sum(looks, Slots) / sum(processes, Slots) +
        ?SPEED_ERROR * last(Slots) / sum(weight, Slots).

-spec last([dyno_agent_watch:slot()]) -> number().
last(Slots) ->
    Sum = fun(Key) -> sum(Key, Slots) end,
    in_last_span(Sum(tail), Sum(lost_ns), Sum(worked), Sum(worked_ns)).

%% More than the estimate, at the most. A process that was seen in the queue, or where we came too
%% late, may have done more. And what seldom happens may have happened in none of the looks: with a
%% chance of 95 % it takes less than three times what one of them stands for.
-spec at_most([dyno_agent_watch:slot()]) -> float().
at_most(Slots) ->
    Sum = fun(Key) -> sum(Key, Slots) end,
    {WorkedNs, Lost} = {Sum(worked_ns), Sum(lost_ns)},
    Speed =
        case WorkedNs > 0 of
            true -> Sum(worked_most) / WorkedNs;
            false -> ?FASTEST
        end,
    %% Twice as often at work as where we came in time.
    AtWork = Sum(last_worked_ns),
    Busy = min(1, 2 * AtWork / max(1, AtWork + Sum(last_idle_ns))),
    Unknown = Lost + Busy * Sum(perhaps_ns) + 3 * Sum(last_ns) / Sum(processes),
    Most = (1 + ?SPEED_ERROR) * Sum(tail_most) + Speed * Unknown,
    max(0, Most - last(Slots)) / Sum(weight).

-spec interval([[number()]], fun(([number()]) -> number())) -> interval() | undefined.
interval(Groups, Figure) ->
    case dyno_stats_jackknife:interval(Groups, Figure, ?LEVEL) of
        {ok, {Value, Low, High}} -> {Value, max(0, Low), High};
        {error, too_few} -> undefined
    end.

-spec sum(atom(), [dyno_agent_watch:slot()]) -> number().
sum(Key, Slots) ->
    lists:sum([map_get(Key, Slot) || Slot <- Slots]).
