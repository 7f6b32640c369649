%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_verdicts).
-moduledoc """
What becomes of the effects of partitions: they are counted, where the count outlives the process
that counts, and what a user wants to know at once is sent on.

`no` is sent, a hundred a second at most, and the first crashes of each monitor; the others are
counted. The receiver gets
`{dyno_agent_verdicts, {verdict, Report}}` and
`{dyno_agent_verdicts, {crashed, Module, Process, Why}}`.
""".

-export([new/3, effects/3, cut/2, event/2, events/2, lost/2, tick/1, read/1]).
-export_type([t/0, summary/0]).

-opaque t() :: #{
    counters := counters:counters_ref(),
    shards := pos_integer(),
    monitors := #{module() => pos_integer()},
    receiver := pid()
}.

-doc "`open` partitions are whole so far; `cut` are those of the gaps that never were opened.".
-type summary() :: #{
    events := non_neg_integer(),
    opened := non_neg_integer(),
    complete := non_neg_integer(),
    partial := non_neg_integer(),
    gap := non_neg_integer(),
    cut := non_neg_integer(),
    open := non_neg_integer(),
    %% Verdicts that were only counted.
    untold := non_neg_integer(),
    monitors := #{
        module() => #{
            processes := non_neg_integer(),
            yes := non_neg_integer(),
            no := non_neg_integer(),
            inconclusive := non_neg_integer(),
            crashed := non_neg_integer()
        }
    }
}.

%% Of a shard, and of a monitor.
-define(EVENTS, 1).
-define(OPENED, 2).
-define(COMPLETE, 3).
-define(PARTIAL, 4).
-define(GAP, 5).
-define(CUT, 6).
-define(PROCESSES, 1).
-define(YES, 2).
-define(NO, 3).
-define(INCONCLUSIVE, 4).
-define(CRASHED, 5).
-define(EACH, 8).
%% Of all: verdicts told in this second, and those that were not.
-define(TOLD, 1).
-define(UNTOLD, 2).
-define(MOST_TOLD, 100).
%% Crashes of a monitor that are told.
-define(CRASHES, 3).

-doc "Nothing counted, of so many shards.".
-spec new(pos_integer(), [module()], pid()) -> t().
new(Shards, Modules, Receiver) ->
    #{
        counters => counters:new(?EACH * (Shards + length(Modules) + 1), [atomics]),
        shards => Shards,
        monitors => maps:from_list([{M, Shards + N} || {N, M} <- lists:enumerate(Modules)]),
        receiver => Receiver
    }.

-doc "Counts and tells what a shard's partitions gave; the rest is for the session.".
-spec effects([dyno_agent_partition:effect()], pos_integer(), t()) -> ok.
effects(Effects, Shard, Verdicts) ->
    lists:foreach(fun(Effect) -> effect(Effect, Shard, Verdicts) end, Effects).

effect({opened, _Process, Modules}, Shard, Verdicts) ->
    _ = add(Shard, ?OPENED, Verdicts),
    lists:foreach(fun(M) -> add_of(M, ?PROCESSES, Verdicts) end, Modules);
effect({closed, complete, _}, Shard, Verdicts) ->
    add(Shard, ?COMPLETE, Verdicts);
effect({closed, partial, _}, Shard, Verdicts) ->
    add(Shard, ?PARTIAL, Verdicts);
effect({closed, gap, _}, Shard, Verdicts) ->
    add(Shard, ?GAP, Verdicts);
effect({verdict, #{verdict := yes, monitor := M}}, _Shard, Verdicts) ->
    add_of(M, ?YES, Verdicts);
effect({verdict, #{verdict := inconclusive, monitor := M}}, _Shard, Verdicts) ->
    add_of(M, ?INCONCLUSIVE, Verdicts);
effect({verdict, #{monitor := M}} = Verdict, _Shard, Verdicts) ->
    ok = add_of(M, ?NO, Verdicts),
    Slot = slot(Verdicts),
    case get(Slot, ?TOLD, Verdicts) < ?MOST_TOLD of
        true ->
            ok = add(Slot, ?TOLD, Verdicts),
            tell(Verdict, Verdicts);
        false ->
            add(Slot, ?UNTOLD, Verdicts)
    end;
effect({crashed, M, _, _} = Crashed, _Shard, Verdicts) ->
    ok = add_of(M, ?CRASHED, Verdicts),
    case get_of(M, ?CRASHED, Verdicts) =< ?CRASHES of
        true -> tell(Crashed, Verdicts);
        false -> ok
    end;
effect(_Other, _Shard, _Verdicts) ->
    ok.

tell(What, #{receiver := Receiver}) ->
    Receiver ! {?MODULE, What},
    ok.

-doc "A process that monitors wanted was cut off before it had a partition.".
-spec cut(pos_integer(), t()) -> ok.
cut(Shard, Verdicts) -> add(Shard, ?CUT, Verdicts).

-doc "A shard is done with an event.".
-spec event(pos_integer(), t()) -> ok.
event(Shard, Verdicts) -> add(Shard, ?EVENTS, Verdicts).

-doc "How many events a shard is done with.".
-spec events(pos_integer(), t()) -> non_neg_integer().
events(Shard, Verdicts) -> get(Shard, ?EVENTS, Verdicts).

%% How many partitions of a shard are open.
open(Shard, Verdicts) ->
    get(Shard, ?OPENED, Verdicts) - get(Shard, ?COMPLETE, Verdicts) -
        get(Shard, ?PARTIAL, Verdicts) - get(Shard, ?GAP, Verdicts).

-doc "A shard is gone: its open partitions have a gap. How many these are.".
-spec lost(pos_integer(), t()) -> non_neg_integer().
lost(Shard, #{counters := Counters} = Verdicts) ->
    Open = open(Shard, Verdicts),
    ok = counters:add(Counters, at(Shard, ?GAP), Open),
    Open.

add(Shard, N, #{counters := Counters}) -> counters:add(Counters, at(Shard, N), 1).

get(Shard, N, #{counters := Counters}) -> counters:get(Counters, at(Shard, N)).

add_of(Module, N, #{monitors := Monitors} = Verdicts) ->
    add(map_get(Module, Monitors), N, Verdicts).

get_of(Module, N, #{monitors := Monitors} = Verdicts) ->
    get(map_get(Module, Monitors), N, Verdicts).

slot(#{shards := Shards, monitors := Monitors}) -> Shards + map_size(Monitors) + 1.

-doc "Another second begins.".
-spec tick(t()) -> ok.
tick(#{counters := Counters} = Verdicts) ->
    counters:put(Counters, at(slot(Verdicts), ?TOLD), 0).

at(Slot, N) -> (Slot - 1) * ?EACH + N.

-doc "What was counted.".
-spec read(t()) -> summary().
read(#{shards := Shards, monitors := Monitors} = Verdicts) ->
    Sum = fun(N) -> lists:sum([get(Shard, N, Verdicts) || Shard <- lists:seq(1, Shards)]) end,
    #{
        events => Sum(?EVENTS),
        opened => Sum(?OPENED),
        complete => Sum(?COMPLETE),
        partial => Sum(?PARTIAL),
        gap => Sum(?GAP),
        cut => Sum(?CUT),
        open => lists:sum([open(Shard, Verdicts) || Shard <- lists:seq(1, Shards)]),
        untold => get(slot(Verdicts), ?UNTOLD, Verdicts),
        monitors => #{
            Module => #{
                processes => get_of(Module, ?PROCESSES, Verdicts),
                yes => get_of(Module, ?YES, Verdicts),
                no => get_of(Module, ?NO, Verdicts),
                inconclusive => get_of(Module, ?INCONCLUSIVE, Verdicts),
                crashed => get_of(Module, ?CRASHED, Verdicts)
            }
         || Module := _ <- Monitors
        }
    }.
