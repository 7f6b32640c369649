%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_servers_watch).
-moduledoc """
Tells the log, and alarm_handler where sasl runs, when a server's queue, load or time per callback
goes over a limit, and when it is well below it again.

The alarm ends below `below`, by default four fifths of the limit, so that a value at the limit does
not ring at each window.

```erlang
dyno_servers:start(Node, #{watches => [#{of => queue, above => 1000}]})
```
""".

-export([new/1, window/2]).
-export_type([watch/0, state/0]).

-doc """
`queue`: messages that wait. `busy`: the share of the time, 0 to 1. `p99` and `delay`: nanoseconds.
""".
-type watch() :: #{
    'of' := queue | busy | p99 | delay,
    above := number(),
    below => number()
}.

-doc "The alarms that are set.".
-opaque state() :: #{watches := [watch()], set := #{alarm() => number()}}.

-type alarm() :: {dyno_servers, queue | busy | p99 | delay, Node :: binary(), Process :: binary()}.

-define(BELOW, 0.8).

-doc "No alarm is set.".
-spec new([watch()]) -> state().
new(Watches) -> #{watches => Watches, set => #{}}.

-doc "Sets and clears alarms by a window.".
-spec window(dyno_servers_window:window(), state()) -> state().
window(_Window, #{watches := []} = State) ->
    State;
window(#{servers := Servers, duration_ns := DurationNs}, #{watches := Watches, set := Set}) ->
    Rows = [dyno_servers_row:row(Sum, DurationNs) || Sum <- Servers],
    Values = #{
        alarm(Of, Row) => {value(Of, Row), Watch, Row}
     || #{'of' := Of} = Watch <- Watches, Row <- Rows
    },
    Over = #{
        Alarm => Value
     || Alarm := {Value, Watch, _} <- Values,
        is_number(Value),
        Value > limit(is_map_key(Alarm, Set), Watch)
    },
    maps:foreach(
        fun(Alarm, _) -> raise(Alarm, map_get(Alarm, Values)) end,
        maps:without(maps:keys(Set), Over)
    ),
    %% Of processes that have ended, too.
    lists:foreach(fun clear/1, maps:keys(maps:without(maps:keys(Over), Set))),
    #{watches => Watches, set => Over}.

alarm(Of, #{node := Node, pid := Pid}) -> {dyno_servers, Of, Node, Pid}.

limit(true, #{above := Above} = Watch) -> maps:get(below, Watch, ?BELOW * Above);
limit(false, #{above := Above}) -> Above.

value(Of, Row) ->
    {Key, _, _} = watched(Of),
    map_get(Key, Row).

raise({_, Of, Node, Pid} = Alarm, {Value, #{above := Above}, #{name := Name}}) ->
    {_, Unit, What} = watched(Of),
    Text = dyno_recording_part:text("~ts of ~ts (~ts) on ~ts is ~ts, above ~ts", [
        What, Name, Pid, Node, dyno_unit:format(Value, Unit), dyno_unit:format(Above, Unit)
    ]),
    logger:warning("~ts", [Text], #{domain => [dyno, servers]}),
    with_alarms(fun() -> alarm_handler:set_alarm({Alarm, Text}) end).

clear({_, Of, Node, Pid} = Alarm) ->
    {_, _, What} = watched(Of),
    logger:notice("~ts of ~ts on ~ts is below its limit again", [What, Pid, Node], #{
        domain => [dyno, servers]
    }),
    with_alarms(fun() -> alarm_handler:clear_alarm(Alarm) end).

%% Its key in a row, its unit, and what people call it.
watched(queue) -> {queue_now, ~"count", ~"the message queue"};
watched(busy) -> {busy, ~"ratio", ~"the load"};
watched(p99) -> {p99, ~"ns", ~"the p99 of the callbacks"};
watched(delay) -> {delay_p99, ~"ns", ~"the p99 of the waiting of messages"}.

with_alarms(Tell) ->
    case whereis(alarm_handler) of
        undefined -> ok;
        _ -> Tell()
    end.
