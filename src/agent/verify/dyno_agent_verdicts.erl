%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_verdicts).
-moduledoc false.
%% Counts effects of partitions, beyond the life of the counting process, and reports urgent ones:
%% at most a hundred `no` a second, and the first crashes of each monitor. The receiver gets
%% `{dyno_agent_verdicts, {verdict, Report}}` and `{dyno_agent_verdicts, {crashed, Module, Process,
%% Why}}`.

-export([new/3, delete/1, effects/3, count/2, fault/2, cut/3, event/2, events/2, lost/2]).
-export([forget/1, tick/1, read/1]).
-export_type([t/0, summary/0]).

-opaque t() :: #{
    counters := counters:counters_ref(),
    %% Processes that have or had a partition, or were cut off: `{Pid, first | again}`, and `{{Pid,
    %% Monitor}}` for each broken property.
    known := ets:table(),
    shards := pos_integer(),
    monitors := #{module() => pos_integer()},
    receiver := pid()
}.

-doc """
Partitions: `open` ones are whole so far; `cut` ones were cut off before they were opened. `again`
counts processes whose previous partition had a gap.

A monitor counts each process once. `no` counts events, `broken` processes. `cut` is the cut-off
part of `inconclusive`, `past` the part that depends on events before monitoring.
""".
-type summary() :: #{
    events := non_neg_integer(),
    opened := non_neg_integer(),
    complete := non_neg_integer(),
    partial := non_neg_integer(),
    gap := non_neg_integer(),
    cut := non_neg_integer(),
    open := non_neg_integer(),
    again := #{opened | partial | gap | open => non_neg_integer()},
    %% Verdicts that were only counted.
    untold := non_neg_integer(),
    %% How often processes may have come and gone unseen.
    missed := non_neg_integer(),
    monitors := #{
        module() => #{
            processes := non_neg_integer(),
            %% Processes with an event that the property names, or with a complete trace.
            seen := non_neg_integer(),
            yes := non_neg_integer(),
            no := non_neg_integer(),
            broken := non_neg_integer(),
            inconclusive := non_neg_integer(),
            cut := non_neg_integer(),
            past := non_neg_integer(),
            crashed := non_neg_integer()
        }
    }
}.

-define(OF_SHARD, [events, opened, complete, partial, gap, cut]).
-define(AGAIN, [{opened, again}, {partial, again_partial}, {gap, again_gap}]).
-define(OF_MONITOR, [processes, seen, yes, no, broken, inconclusive, cut, past, crashed]).
-define(EACH, 10).
%% The most known processes, including ended ones. Beyond, a returning process counts again.
-define(MOST_KNOWN, 500_000).
-define(MANY_KNOWN, 50_000).
-define(MOST_TOLD, 100).
-define(CRASHES, 3).

-doc "Empty counts for this number of shards; lives as long as the caller.".
-spec new(pos_integer(), [module()], pid()) -> t().
new(Shards, Modules, Receiver) ->
    #{
        counters => counters:new(?EACH * (Shards + Shards * length(Modules) + 1), [atomics]),
        known => ets:new(?MODULE, [public, {write_concurrency, true}]),
        shards => Shards,
        monitors => maps:from_list([{M, N} || {N, M} <- lists:enumerate(Modules)]),
        receiver => Receiver
    }.

-spec delete(t()) -> ok.
delete(#{known := Known}) ->
    true = ets:delete(Known),
    ok.

-doc "Counts and reports a shard's effects; returns those for the session.".
-spec effects([dyno_agent_partition:effect()], pos_integer(), t()) -> ok.
effects(Effects, Shard, Verdicts) ->
    lists:foreach(
        fun(Effect) ->
            ok = counted(Effect, Shard, Verdicts),
            told(Effect, Verdicts)
        end,
        Effects
    ).

-spec count([dyno_agent_partition:effect()], t()) -> ok.
count(Effects, Verdicts) ->
    lists:foreach(fun(Effect) -> counted(Effect, 1, Verdicts) end, Effects).

counted({opened, #{pid := Pid}, Modules}, Shard, Verdicts) ->
    ok = add(Shard, opened, Verdicts),
    case opened(Pid, Verdicts) of
        first ->
            lists:foreach(
                fun(Module) ->
                    ok = add_of(Module, processes, Shard, Verdicts),
                    add_of(Module, undecided, Shard, Verdicts)
                end,
                Modules
            );
        again ->
            add(Shard, again, Verdicts)
    end;
counted({wanted, Module}, Shard, Verdicts) ->
    ok = add_of(Module, processes, Shard, Verdicts),
    add_of(Module, undecided, Shard, Verdicts);
counted({closed, Trace, Pid}, Shard, Verdicts) ->
    ok = add(Shard, Trace, Verdicts),
    case {life(Pid, Verdicts), Trace} of
        {first, _} -> ok;
        {again, gap} -> add(Shard, again_gap, Verdicts);
        {again, _} -> add(Shard, again_partial, Verdicts)
    end;
counted({ended, Pid}, _Shard, #{known := Known}) ->
    _ = while_there(fun() -> ets:delete(Known, Pid) end),
    ok;
counted({seen, Module}, Shard, Verdicts) ->
    add_of(Module, seen, Shard, Verdicts);
counted({decided, Module, Pid, How}, Shard, Verdicts) ->
    case {is_first(Pid, Verdicts), How} of
        {IsFirst, broken} ->
            ok = add_of(Module, undecided, -number(IsFirst), Shard, Verdicts),
            add_of(Module, broken, number(is_new({Pid, Module}, Verdicts)), Shard, Verdicts);
        {true, cut} ->
            ok = add_of(Module, undecided, -1, Shard, Verdicts),
            add_of(Module, cut, Shard, Verdicts);
        {true, _} ->
            add_of(Module, undecided, -1, Shard, Verdicts);
        {false, _} ->
            ok
    end;
%% Its own cut-off processes already show this.
counted({unsure, Module, Why}, Shard, Verdicts) ->
    IsSaid = Why =:= cut andalso sum_of(Module, cut, Verdicts) > 0,
    add_of(Module, inconclusive, number(not IsSaid), Shard, Verdicts);
%% A reopened partition may be cut off again: still one process.
counted({verdict, #{verdict := inconclusive, trace := gap} = Report}, Shard, Verdicts) ->
    #{monitor := Module, process := #{pid := Pid}} = Report,
    add_of(Module, inconclusive, number(is_first(Pid, Verdicts)), Shard, Verdicts);
counted({verdict, #{verdict := no, monitor := Module} = Report}, Shard, Verdicts) ->
    add_of(Module, no, faults(Report), Shard, Verdicts);
counted({verdict, #{explanation := #{because := past}} = Report}, Shard, Verdicts) ->
    #{monitor := Module, process := #{pid := Pid}} = Report,
    Count = number(is_first(Pid, Verdicts)),
    ok = add_of(Module, past, Count, Shard, Verdicts),
    add_of(Module, inconclusive, Count, Shard, Verdicts);
counted({verdict, #{verdict := Verdict, monitor := Module}}, Shard, Verdicts) ->
    add_of(Module, Verdict, Shard, Verdicts);
counted({crashed, Module, _, _}, Shard, Verdicts) ->
    add_of(Module, crashed, Shard, Verdicts);
counted(_Other, _Shard, _Verdicts) ->
    ok.

%% One event may break a property for several keys.
faults(#{explanation := #{others := Others}}) when is_integer(Others) -> 1 + Others;
faults(_Report) -> 1.

number(true) -> 1;
number(false) -> 0.

%% Woven processes count as long as they exist, the table as long as the verifier.
opened(Pid, #{known := Known}) ->
    try ets:info(Known, size) < ?MOST_KNOWN andalso ets:insert_new(Known, {Pid, first}) of
        true ->
            first;
        false ->
            case ets:update_element(Known, Pid, {2, again}) of
                true -> again;
                false -> first
            end
    catch
        error:badarg -> first
    end.

is_first(Pid, Verdicts) -> life(Pid, Verdicts) =:= first.

life(Pid, #{known := Known}) ->
    while_there(fun() -> ets:lookup_element(Known, Pid, 2, first) end).

is_new(Key, #{known := Known}) ->
    true =:= while_there(fun() -> ets:insert_new(Known, {Key}) end).

while_there(Call) ->
    try
        Call()
    catch
        error:badarg -> first
    end.

%% The first of a key is sent, the others are counted.
told({verdict, #{verdict := no, explanation := #{again := true}} = Report}, Verdicts) ->
    add(slot(Verdicts), untold, faults(Report), Verdicts);
told({verdict, #{verdict := no}} = Verdict, Verdicts) ->
    Slot = slot(Verdicts),
    case get(Slot, told, Verdicts) < ?MOST_TOLD of
        true ->
            ok = add(Slot, told, Verdicts),
            tell(Verdict, Verdicts);
        false ->
            add(Slot, untold, Verdicts)
    end;
told({crashed, Module, _, _} = Crashed, Verdicts) ->
    case sum_of(Module, crashed, Verdicts) =< ?CRASHES of
        true -> tell(Crashed, Verdicts);
        false -> ok
    end;
%% Cut-off processes are reported already.
told({unsure, Module, Why}, Verdicts) when Why =/= cut ->
    #{property := Property} = dyno_agent_monitor:needs(Module),
    fault([Property, unsure(Why)], Verdicts);
told(_Other, _Verdicts) ->
    ok.

unsure(late) -> ": an event came later than it may after those of other processes (20 ms)";
unsure(full) -> ": there are more keys than are looked at (100,000)".

tell(What, #{receiver := Receiver}) ->
    Receiver ! {?MODULE, What},
    ok.

-spec fault(unicode:chardata(), t()) -> ok.
fault(Text, Verdicts) -> tell({fault, Text}, Verdicts).

-doc "A process of these monitors was cut off before it had a partition.".
-spec cut([module(), ...], pos_integer(), t()) -> ok.
cut(Modules, Shard, Verdicts) ->
    ok = add(Shard, cut, Verdicts),
    lists:foreach(
        fun(Module) ->
            [ok, ok] = [add_of(Module, What, Shard, Verdicts) || What <- [processes, cut]]
        end,
        Modules
    ).

-spec event(pos_integer(), t()) -> ok.
event(Shard, Verdicts) -> add(Shard, events, Verdicts).

-spec events(pos_integer(), t()) -> non_neg_integer().
events(Shard, Verdicts) -> get(Shard, events, Verdicts).

%% A shard's open partitions, and those of returning processes.
open(Shard, Verdicts) ->
    get(Shard, opened, Verdicts) -
        lists:sum([get(Shard, Trace, Verdicts) || Trace <- [complete, partial, gap]]).

open_again(Shard, Verdicts) ->
    get(Shard, again, Verdicts) - get(Shard, again_partial, Verdicts) -
        get(Shard, again_gap, Verdicts).

-doc """
A shard is lost: its open partitions get a gap, without decisions of their monitors, and further
processes may be missed. Returns the number of partitions.
""".
-spec lost(pos_integer(), t()) -> non_neg_integer().
lost(Shard, #{monitors := Monitors} = Verdicts) ->
    Open = open(Shard, Verdicts),
    ok = add(slot(Verdicts), missed, Verdicts),
    ok = add(Shard, again_gap, open_again(Shard, Verdicts), Verdicts),
    ok = add(Shard, gap, Open, Verdicts),
    lists:foreach(
        fun(Module) ->
            Undecided = get(slot(Module, Shard, Verdicts), undecided, Verdicts),
            ok = add_of(Module, undecided, -Undecided, Shard, Verdicts),
            ok = add_of(Module, inconclusive, Undecided, Shard, Verdicts),
            ok = add_of(Module, cut, Undecided, Shard, Verdicts)
        end,
        maps:keys(Monitors)
    ),
    Open.

-doc "Drops known processes: ended ones do not return.".
-spec forget(t()) -> ok.
forget(#{known := Known}) ->
    Ended = [
        Pid
     || {Pid} <- ets:select(Known, [{{'$1', '_'}, [], [{{'$1'}}]}]),
        not is_process_alive(Pid)
    ],
    lists:foreach(fun(Pid) -> ets:delete(Known, Pid) end, Ended).

add(Slot, What, Verdicts) -> add(Slot, What, 1, Verdicts).

add(Slot, What, N, #{counters := Counters}) -> counters:add(Counters, at(Slot, What), N).

get(Slot, What, #{counters := Counters}) -> counters:get(Counters, at(Slot, What)).

add_of(Module, What, Shard, Verdicts) -> add_of(Module, What, 1, Shard, Verdicts).

add_of(Module, What, N, Shard, Verdicts) -> add(slot(Module, Shard, Verdicts), What, N, Verdicts).

sum_of(Module, What, #{shards := Shards} = Verdicts) ->
    lists:sum([
        get(slot(Module, Shard, Verdicts), What, Verdicts)
     || Shard <- lists:seq(1, Shards)
    ]).

%% Of a shard and a monitor.
slot(Module, Shard, #{shards := Shards, monitors := Monitors}) ->
    Shards + (Shard - 1) * map_size(Monitors) + map_get(Module, Monitors).

%% Of all shards.
slot(#{shards := Shards, monitors := Monitors}) -> Shards + Shards * map_size(Monitors) + 1.

-spec tick(t()) -> ok.
tick(#{counters := Counters, known := Known} = Verdicts) ->
    _ = ets:info(Known, size) > ?MANY_KNOWN andalso forget(Verdicts),
    counters:put(Counters, at(slot(Verdicts), told), 0).

at(Slot, What) -> (Slot - 1) * ?EACH + place(What).

place(events) -> 1;
place(opened) -> 2;
place(complete) -> 3;
place(partial) -> 4;
place(gap) -> 5;
place(again) -> 7;
place(again_partial) -> 8;
place(again_gap) -> 9;
place(processes) -> 1;
place(yes) -> 2;
place(no) -> 3;
place(inconclusive) -> 4;
place(crashed) -> 5;
%% Of a shard and a monitor.
place(cut) -> 6;
place(seen) -> 7;
place(broken) -> 8;
place(undecided) -> 9;
place(past) -> 10;
place(told) -> 1;
place(untold) -> 2;
place(missed) -> 3.

-spec read(t()) -> summary().
read(#{shards := Shards, monitors := Monitors} = Verdicts) ->
    Sum = fun(Of) -> lists:sum([Of(Shard) || Shard <- lists:seq(1, Shards)]) end,
    Sums = #{What => Sum(fun(Shard) -> get(Shard, What, Verdicts) end) || What <- ?OF_SHARD},
    Again = #{Is => Sum(fun(Shard) -> get(Shard, What, Verdicts) end) || {Is, What} <- ?AGAIN},
    Sums#{
        open => Sum(fun(Shard) -> open(Shard, Verdicts) end),
        again => Again#{open => Sum(fun(Shard) -> open_again(Shard, Verdicts) end)},
        untold => get(slot(Verdicts), untold, Verdicts),
        missed => get(slot(Verdicts), missed, Verdicts),
        monitors => #{Module => of_monitor(Module, Verdicts) || Module := _ <- Monitors}
    }.

%% A property that is unsure across its processes is so for some that are counted already.
of_monitor(Module, Verdicts) ->
    Sums = #{What => sum_of(Module, What, Verdicts) || What <- ?OF_MONITOR},
    #{processes := Processes, inconclusive := Inconclusive} = Sums,
    Sums#{inconclusive := min(Processes, Inconclusive)}.
