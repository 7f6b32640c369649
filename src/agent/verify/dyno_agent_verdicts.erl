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

-export([new/3, effects/3, count/2, fault/2, cut/2, event/2, events/2, lost/2, tick/1, read/1]).
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

-define(OF_SHARD, [events, opened, complete, partial, gap, cut]).
-define(OF_MONITOR, [processes, yes, no, inconclusive, crashed]).
-define(EACH, 8).
%% Verdicts in a second that are told.
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
    lists:foreach(
        fun(Effect) ->
            ok = counted(Effect, Shard, Verdicts),
            told(Effect, Verdicts)
        end,
        Effects
    ).

-doc "Counts what the partitions of a single shard gave.".
-spec count([dyno_agent_partition:effect()], t()) -> ok.
count(Effects, Verdicts) ->
    lists:foreach(fun(Effect) -> counted(Effect, 1, Verdicts) end, Effects).

counted({opened, _Process, Modules}, Shard, Verdicts) ->
    ok = add(Shard, opened, Verdicts),
    lists:foreach(fun(Module) -> add_of(Module, processes, Verdicts) end, Modules);
counted({closed, Trace, _}, Shard, Verdicts) ->
    add(Shard, Trace, Verdicts);
counted({verdict, #{verdict := Verdict, monitor := Module}}, _Shard, Verdicts) ->
    add_of(Module, Verdict, Verdicts);
counted({crashed, Module, _, _}, _Shard, Verdicts) ->
    add_of(Module, crashed, Verdicts);
counted(_Other, _Shard, _Verdicts) ->
    ok.

told({verdict, #{verdict := no}} = Verdict, Verdicts) ->
    Slot = slot(Verdicts),
    case get(Slot, told, Verdicts) < ?MOST_TOLD of
        true ->
            ok = add(Slot, told, Verdicts),
            tell(Verdict, Verdicts);
        false ->
            add(Slot, untold, Verdicts)
    end;
told({crashed, Module, _, _} = Crashed, #{monitors := Monitors} = Verdicts) ->
    case get(map_get(Module, Monitors), crashed, Verdicts) =< ?CRASHES of
        true -> tell(Crashed, Verdicts);
        false -> ok
    end;
told(_Other, _Verdicts) ->
    ok.

tell(What, #{receiver := Receiver}) ->
    Receiver ! {?MODULE, What},
    ok.

-doc "Something happened to dyno's own processes.".
-spec fault(unicode:chardata(), t()) -> ok.
fault(Text, Verdicts) -> tell({fault, Text}, Verdicts).

-doc "A process that monitors wanted was cut off before it had a partition.".
-spec cut(pos_integer(), t()) -> ok.
cut(Shard, Verdicts) -> add(Shard, cut, Verdicts).

-doc "A shard is done with an event.".
-spec event(pos_integer(), t()) -> ok.
event(Shard, Verdicts) -> add(Shard, events, Verdicts).

-doc "How many events a shard is done with.".
-spec events(pos_integer(), t()) -> non_neg_integer().
events(Shard, Verdicts) -> get(Shard, events, Verdicts).

%% How many partitions of a shard are open.
open(Shard, Verdicts) ->
    get(Shard, opened, Verdicts) -
        lists:sum([get(Shard, Trace, Verdicts) || Trace <- [complete, partial, gap]]).

-doc "A shard is gone: its open partitions have a gap. How many these are.".
-spec lost(pos_integer(), t()) -> non_neg_integer().
lost(Shard, #{counters := Counters} = Verdicts) ->
    Open = open(Shard, Verdicts),
    ok = counters:add(Counters, at(Shard, gap), Open),
    Open.

add(Slot, What, #{counters := Counters}) -> counters:add(Counters, at(Slot, What), 1).

get(Slot, What, #{counters := Counters}) -> counters:get(Counters, at(Slot, What)).

add_of(Module, What, #{monitors := Monitors} = Verdicts) ->
    add(map_get(Module, Monitors), What, Verdicts).

%% Of all.
slot(#{shards := Shards, monitors := Monitors}) -> Shards + map_size(Monitors) + 1.

-doc "Another second begins.".
-spec tick(t()) -> ok.
tick(#{counters := Counters} = Verdicts) ->
    counters:put(Counters, at(slot(Verdicts), told), 0).

at(Slot, What) -> (Slot - 1) * ?EACH + place(What).

place(events) -> 1;
place(opened) -> 2;
place(complete) -> 3;
place(partial) -> 4;
place(gap) -> 5;
place(cut) -> 6;
place(processes) -> 1;
place(yes) -> 2;
place(no) -> 3;
place(inconclusive) -> 4;
place(crashed) -> 5;
place(told) -> 1;
place(untold) -> 2.

-doc "What was counted.".
-spec read(t()) -> summary().
read(#{shards := Shards, monitors := Monitors} = Verdicts) ->
    All = lists:seq(1, Shards),
    Sums = #{
        What => lists:sum([get(Shard, What, Verdicts) || Shard <- All])
     || What <- ?OF_SHARD
    },
    Sums#{
        open => lists:sum([open(Shard, Verdicts) || Shard <- All]),
        untold => get(slot(Verdicts), untold, Verdicts),
        monitors => #{
            Module => #{What => get(Slot, What, Verdicts) || What <- ?OF_MONITOR}
         || Module := Slot <- Monitors
        }
    }.
