%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_verdicts).
-moduledoc false.
%% Counts effects of partitions, beyond the life of the counting process, and reports urgent ones:
%% at most a hundred `no` a second, and the first crashes of each monitor. The receiver gets
%% `{dyno_agent_verdicts, {verdict, Report}}` and `{dyno_agent_verdicts, {crashed, Module, Process,
%% Why}}`.

-export([new/2, delete/1, effects/2, count/2, fault/2, cut/2, event/1, events/1, lost/1]).
-export([forget/1, tick/1, read/1]).
-export_type([t/0, summary/0]).

-opaque t() :: #{
    counters := counters:counters_ref(),
    %% `{Pid, first | again}` with a partition or cut off, `{{Pid, Monitor}}` if broken.
    known := ets:table(),
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

-define(SUMS, [events, opened, complete, partial, gap, cut, untold, missed]).
-define(AGAIN, [{opened, again}, {partial, again_partial}, {gap, again_gap}]).
-define(OF_MONITOR, [processes, seen, yes, no, broken, inconclusive, cut, past, crashed]).
%% The counters of all together, and of each monitor.
-define(ALL, 12).
-define(EACH, 10).
%% The most known processes, including ended ones. Beyond, a returning process counts again.
-define(MOST_KNOWN, 500_000).
-define(MANY_KNOWN, 50_000).
-define(MOST_TOLD, 100).
-define(CRASHES, 3).

-doc "Empty counts; lives as long as the caller.".
-spec new([module()], pid()) -> t().
new(Modules, Receiver) ->
    #{
        counters => counters:new(?ALL + ?EACH * length(Modules), [atomics]),
        known => ets:new(?MODULE, [public, {write_concurrency, true}]),
        monitors => maps:from_list([{M, N} || {N, M} <- lists:enumerate(0, Modules)]),
        receiver => Receiver
    }.

-spec delete(t()) -> ok.
delete(#{known := Known}) ->
    true = ets:delete(Known),
    ok.

-doc "Counts and reports.".
-spec effects([dyno_agent_partition:effect()], t()) -> ok.
effects(Effects, Verdicts) ->
    lists:foreach(
        fun(Effect) ->
            ok = counted(Effect, Verdicts),
            told(Effect, Verdicts)
        end,
        Effects
    ).

-spec count([dyno_agent_partition:effect()], t()) -> ok.
count(Effects, Verdicts) ->
    lists:foreach(fun(Effect) -> counted(Effect, Verdicts) end, Effects).

counted({opened, #{pid := Pid}, Modules}, Verdicts) ->
    ok = add(opened, Verdicts),
    case opened(Pid, Verdicts) of
        first ->
            lists:foreach(
                fun(Module) ->
                    ok = add_of(Module, processes, Verdicts),
                    add_of(Module, undecided, Verdicts)
                end,
                Modules
            );
        again ->
            add(again, Verdicts)
    end;
counted({wanted, Module}, Verdicts) ->
    ok = add_of(Module, processes, Verdicts),
    add_of(Module, undecided, Verdicts);
counted({closed, Trace, Pid}, Verdicts) ->
    ok = add(Trace, Verdicts),
    case {life(Pid, Verdicts), Trace} of
        {first, _} -> ok;
        {again, gap} -> add(again_gap, Verdicts);
        {again, _} -> add(again_partial, Verdicts)
    end;
counted({ended, Pid}, #{known := Known}) ->
    _ = while_there(fun() -> ets:delete(Known, Pid) end),
    ok;
counted({seen, Module}, Verdicts) ->
    add_of(Module, seen, Verdicts);
counted({decided, Module, Pid, How}, Verdicts) ->
    case {is_first(Pid, Verdicts), How} of
        {IsFirst, broken} ->
            ok = add_of(Module, undecided, -number(IsFirst), Verdicts),
            add_of(Module, broken, number(is_new({Pid, Module}, Verdicts)), Verdicts);
        {true, cut} ->
            ok = add_of(Module, undecided, -1, Verdicts),
            add_of(Module, cut, Verdicts);
        {true, _} ->
            add_of(Module, undecided, -1, Verdicts);
        {false, _} ->
            ok
    end;
%% Its own cut-off processes already show this.
counted({unsure, Module, Why}, Verdicts) ->
    IsSaid = Why =:= cut andalso get_of(Module, cut, Verdicts) > 0,
    add_of(Module, inconclusive, number(not IsSaid), Verdicts);
%% A reopened partition may be cut off again: still one process.
counted({verdict, #{verdict := inconclusive, trace := gap} = Report}, Verdicts) ->
    #{monitor := Module, process := #{pid := Pid}} = Report,
    add_of(Module, inconclusive, number(is_first(Pid, Verdicts)), Verdicts);
counted({verdict, #{verdict := no, monitor := Module} = Report}, Verdicts) ->
    add_of(Module, no, faults(Report), Verdicts);
counted({verdict, #{explanation := #{because := past}} = Report}, Verdicts) ->
    #{monitor := Module, process := #{pid := Pid}} = Report,
    Count = number(is_first(Pid, Verdicts)),
    ok = add_of(Module, past, Count, Verdicts),
    add_of(Module, inconclusive, Count, Verdicts);
counted({verdict, #{verdict := Verdict, monitor := Module}}, Verdicts) ->
    add_of(Module, Verdict, Verdicts);
counted({crashed, Module, _, _}, Verdicts) ->
    add_of(Module, crashed, Verdicts);
counted(_Other, _Verdicts) ->
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
    add(untold, faults(Report), Verdicts);
told({verdict, #{verdict := no}} = Verdict, Verdicts) ->
    case get(told, Verdicts) < ?MOST_TOLD of
        true ->
            ok = add(told, Verdicts),
            tell(Verdict, Verdicts);
        false ->
            add(untold, Verdicts)
    end;
told({crashed, Module, _, _} = Crashed, Verdicts) ->
    case get_of(Module, crashed, Verdicts) =< ?CRASHES of
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
-spec cut([module(), ...], t()) -> ok.
cut(Modules, Verdicts) ->
    ok = add(cut, Verdicts),
    lists:foreach(
        fun(Module) ->
            [ok, ok] = [add_of(Module, What, Verdicts) || What <- [processes, cut]]
        end,
        Modules
    ).

-spec event(t()) -> ok.
event(Verdicts) -> add(events, Verdicts).

-spec events(t()) -> non_neg_integer().
events(Verdicts) -> get(events, Verdicts).

open(Verdicts) ->
    get(opened, Verdicts) -
        lists:sum([get(Trace, Verdicts) || Trace <- [complete, partial, gap]]).

%% Of returning processes.
open_again(Verdicts) ->
    get(again, Verdicts) - get(again_partial, Verdicts) - get(again_gap, Verdicts).

-doc "The tracer is lost: open partitions get an undecided gap. Returns their number.".
-spec lost(t()) -> non_neg_integer().
lost(#{monitors := Monitors} = Verdicts) ->
    Open = open(Verdicts),
    ok = add(missed, Verdicts),
    ok = add(again_gap, open_again(Verdicts), Verdicts),
    ok = add(gap, Open, Verdicts),
    lists:foreach(
        fun(Module) ->
            Undecided = get_of(Module, undecided, Verdicts),
            ok = add_of(Module, undecided, -Undecided, Verdicts),
            ok = add_of(Module, inconclusive, Undecided, Verdicts),
            ok = add_of(Module, cut, Undecided, Verdicts)
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

add(What, Verdicts) -> add(What, 1, Verdicts).

add(What, N, #{counters := Counters}) -> counters:add(Counters, place(What), N).

get(What, #{counters := Counters}) -> counters:get(Counters, place(What)).

add_of(Module, What, Verdicts) -> add_of(Module, What, 1, Verdicts).

add_of(Module, What, N, #{counters := Counters} = Verdicts) ->
    counters:add(Counters, place_of(Module, What, Verdicts), N).

get_of(Module, What, #{counters := Counters} = Verdicts) ->
    counters:get(Counters, place_of(Module, What, Verdicts)).

-spec tick(t()) -> ok.
tick(#{counters := Counters, known := Known} = Verdicts) ->
    _ = ets:info(Known, size) > ?MANY_KNOWN andalso forget(Verdicts),
    counters:put(Counters, place(told), 0).

place(events) -> 1;
place(opened) -> 2;
place(complete) -> 3;
place(partial) -> 4;
place(gap) -> 5;
place(cut) -> 6;
place(again) -> 7;
place(again_partial) -> 8;
place(again_gap) -> 9;
place(told) -> 10;
place(untold) -> 11;
place(missed) -> ?ALL.

place_of(Module, What, #{monitors := Monitors}) ->
    ?ALL + map_get(Module, Monitors) * ?EACH + place_of(What).

place_of(processes) -> 1;
place_of(yes) -> 2;
place_of(no) -> 3;
place_of(inconclusive) -> 4;
place_of(crashed) -> 5;
place_of(cut) -> 6;
place_of(seen) -> 7;
place_of(broken) -> 8;
place_of(undecided) -> 9;
place_of(past) -> ?EACH.

-spec read(t()) -> summary().
read(#{monitors := Monitors} = Verdicts) ->
    Sums = #{What => get(What, Verdicts) || What <- ?SUMS},
    Again = #{Is => get(What, Verdicts) || {Is, What} <- ?AGAIN},
    Sums#{
        open => open(Verdicts),
        again => Again#{open => open_again(Verdicts)},
        monitors => #{Module => of_monitor(Module, Verdicts) || Module := _ <- Monitors}
    }.

%% A property that is unsure across its processes is so for some that are counted already.
of_monitor(Module, Verdicts) ->
    Sums = #{What => get_of(Module, What, Verdicts) || What <- ?OF_MONITOR},
    #{processes := Processes, inconclusive := Inconclusive} = Sums,
    Sums#{inconclusive := min(Processes, Inconclusive)}.
