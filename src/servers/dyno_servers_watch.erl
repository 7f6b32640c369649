%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_servers_watch).
-moduledoc """
Raises an alarm when a server's queue, load or time per callback exceeds a limit, and clears the
alarm well below the limit. The log, subscribers and, if sasl runs, alarm_handler get the alarm.

The alarm ends below `below`, by default 0.8 of the limit, so that a value at the limit does not
toggle it in each window. An alarm stays while the value is unknown.

```erlang
dyno_servers:start(Node, #{watches => [#{'of' => queue, above => 1000}]})
```

`read/1` takes the syntax of thresholds: `queue > 1000`, `servers orders delay > 20 ms`.
""".

-export([new/1, window/2, tell/1, read/1, is_watch/1]).
-export_type([watch/0, state/0, event/0]).

-doc """
`queue`: waiting messages. `busy`: the share of the time, 0 to 1. `p99` and `delay`: nanoseconds, of
callbacks and of messages before them. Of all servers, or of a name and a node.
""".
-type watch() :: #{
    'of' := queue | busy | p99 | delay,
    above := number(),
    below => number(),
    name => binary(),
    node => binary()
}.

-doc "The set alarms, by limit, with the server's name.".
-opaque state() :: #{
    watches := [watch()], set := #{{alarm(), Above :: number()} => Name :: binary()}
}.

-doc "The process is a registered name or an identifier.".
-type alarm() :: {dyno_servers, queue | busy | p99 | delay, Node :: binary(), Process :: binary()}.

-type event() :: {set | clear, alarm(), Text :: binary()}.

-define(BELOW, 0.8).
-define(WATCHED, #{
    queue => {~"the message queue", count},
    busy => {~"the load", ratio},
    p99 => {~"the time of callbacks", ns},
    delay => {~"the waiting of messages", ns}
}).

-doc "Whether a term is a valid watch.".
-spec is_watch(term()) -> boolean().
is_watch(#{'of' := Of, above := Above} = Watch) ->
    is_map_key(Of, ?WATCHED) andalso is_number(Above) andalso
        is_number(maps:get(below, Watch, Above)) andalso
        lists:all(fun is_binary/1, maps:values(maps:with([name, node], Watch)));
is_watch(_Other) ->
    false.

-doc "Reads a watch written as a threshold.".
-spec read(unicode:chardata()) -> dyno_error:result(watch()).
read(Text) ->
    maybe
        {ok, Threshold} ?= dyno_threshold:above(Text, fun(_) -> known() end),
        #{target := Target, limit := Above, node := Node} = dyno_threshold:limit(Threshold),
        Of =
            case Target of
                {metric, Field} -> #{'of' => binary_to_existing_atom(Field)};
                {cell, _, Name, Field} -> #{'of' => binary_to_existing_atom(Field), name => Name}
            end,
        {ok, maps:merge(Of#{above => Above}, #{node => Node || Node =/= undefined})}
    else
        {error, Reason} -> {error, {dyno_threshold, Reason}}
    end.

known() ->
    Columns = [{atom_to_binary(Of), Title, Unit, Of} || Of := {Title, Unit} <- ?WATCHED],
    Server = {~"server", ~"Server", string, key, server},
    #{
        metrics => [
            #{name => atom_to_binary(Of), unit => atom_to_binary(Unit)}
         || Of := {_, Unit} <- ?WATCHED
        ],
        tables => [#{name => ~"servers", title => ~"Servers", columns => [Server | Columns]}]
    }.

-doc "No alarm is set.".
-spec new([watch()]) -> state().
new(Watches) -> #{watches => Watches, set => #{}}.

-doc "Sets and clears alarms by a window.".
-spec window(dyno_servers_window:window(), state()) -> {[event()], state()}.
window(_Window, #{watches := []} = State) ->
    {[], State};
window(#{duration_ns := DurationNs} = Window, #{watches := Watches} = State) ->
    #{set := Before} = State,
    Values = [
        {{alarm(Of, Sum, Row), map_get(above, Watch)}, value(Of, Sum, Row), Watch, Name}
     || Sum <- dyno_servers_window:sums(process, Window),
        #{name := Name} = Row <- [dyno_servers_row:row(Sum, DurationNs)],
        #{'of' := Of} = Watch <- Watches,
        is_of(Row, Watch)
    ],
    {Events, Set} = lists:foldl(fun by_value/2, {[], Before}, Values),
    %% Ended, or no longer measured.
    Gone = maps:without([Key || {Key, _, _, _} <- Values], Set),
    Ends = [{clear, Alarm, gone(Alarm, Name)} || {Alarm, _} := Name <- Gone],
    {lists:reverse(Events) ++ Ends, State#{set := maps:without(maps:keys(Gone), Set)}}.

%% Of an interval, the lower end sets an alarm and the upper end clears the alarm.
by_value({Key, Value, Watch, Name}, Events) when not is_tuple(Value) ->
    by_value({Key, {Value, Value}, Watch, Name}, Events);
by_value({{Alarm, Above} = Key, {Low, High}, #{'of' := Of} = Watch, Name}, {Events, Set}) ->
    {IsSet, Limit} =
        case Set of
            #{Key := _} -> {true, maps:get(below, Watch, ?BELOW * Above)};
            #{} -> {false, Above}
        end,
    case {IsSet, dyno_threshold:decide(~">", Limit, Low, High)} of
        {false, pass} ->
            Text = text(Alarm, Name, " is ~ts, above ~ts", [shown(Low, Of), shown(Above, Of)]),
            {[{set, Alarm, Text} | Events], Set#{Key => Name}};
        {true, fail} ->
            Text = text(Alarm, Name, " is ~ts, below its limit again", [shown(High, Of)]),
            {[{clear, Alarm, Text} | Events], maps:remove(Key, Set)};
        _ ->
            {Events, Set}
    end.

is_of(Row, Watch) ->
    maps:with([name, node], Watch) =:= maps:with(maps:keys(maps:with([name, node], Watch)), Row).

alarm(Of, #{kind := Kind}, #{node := Node, name := Name}) when
    Kind =:= registered; Kind =:= named
->
    {dyno_servers, Of, Node, Name};
alarm(Of, _Sum, #{node := Node, pid := Pid}) ->
    {dyno_servers, Of, Node, Pid}.

value(queue, _Sum, #{queue_now := Queue}) ->
    Queue;
value(busy, _Sum, #{busy := Busy}) ->
    Busy;
%% A running callback has taken this long already.
value(p99, #{running := #{ns := Ns}}, #{p99 := P99}) when is_number(P99) -> max(P99, Ns);
value(p99, #{running := #{ns := Ns}}, _Row) ->
    Ns;
value(p99, _Sum, #{p99 := P99}) ->
    P99;
%% dyno's own message waits in the same queue.
value(delay, #{asked_ns := AskedNs}, #{waited_p99 := {_, LowNs, _}}) when is_number(AskedNs) ->
    {lists:max([AskedNs | [LowNs || is_number(LowNs)]]), undefined};
value(delay, _Sum, #{waited_p99 := {_, LowNs, HighNs}}) ->
    {LowNs, HighNs}.

gone(Alarm, Name) -> text(Alarm, Name, " was above its limit; it is not measured any more", []).

text({_, Of, Node, Process}, Name, Format, Arguments) ->
    {What, _} = map_get(Of, ?WATCHED),
    Which =
        case Process of
            Name -> Name;
            _ -> [Name, " ", Process]
        end,
    dyno_recording_part:text("~ts of ~ts on ~ts" ++ Format, [What, Which, Node | Arguments]).

shown(Value, Of) ->
    {_, Unit} = map_get(Of, ?WATCHED),
    dyno_unit:format(Value, atom_to_binary(Unit)).

-doc "Reports to the log and alarm_handler.".
-spec tell(event()) -> ok.
tell({set, Alarm, Text}) ->
    %% Without a domain: logger's default handler shows only OTP's domains.
    logger:warning("~ts", [Text]),
    with_alarms(fun() -> alarm_handler:set_alarm({Alarm, Text}) end);
tell({clear, Alarm, Text}) ->
    logger:notice("~ts", [Text]),
    with_alarms(fun() -> alarm_handler:clear_alarm(Alarm) end).

with_alarms(Tell) ->
    case whereis(alarm_handler) of
        undefined -> ok;
        _ -> Tell()
    end.
