%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_servers_run).
-moduledoc """
Measures servers for a while and returns one recording: the command `dyno servers`.

```erlang
{ok, Recording} = dyno_servers_run:run(['shop@host'], #{for_ms => 30_000}).
```

The messages `dyno_interrupt` and `stop` to its process end it early, with the measurements until
then.
""".

-behaviour(dyno_observer).

-export([run/2]).
-export([attach/2, handle/3, made/2]).
-export_type([options/0, event/0]).

-doc "The options of `t:dyno_servers:options/0`, and these.".
-type options() :: #{
    %% Default: until interrupted.
    for_ms => pos_integer(),
    %% The grouping of the tables; process.
    group => dyno_servers_window:group(),
    %% Thresholds checked at the end.
    thresholds => [dyno_threshold:t()],
    %% Called in the measuring process with each event.
    show => fun((event()) -> ok),
    atom() => term()
}.

-type event() ::
    {window, dyno_servers_window:window()}
    | {lost, node(), dyno_error:error()}
    | {back, node()}
    | {alarm, set | clear, Text :: binary()}
    | {each, #{atom() => term()}}.

-type state() :: #{session := dyno_servers:session(), atom() => term()}.

-define(OWN, [for_ms, group, thresholds, show]).
%% The longest wait for a busy node at the end.
-define(LAST_MS, 2500).
-define(MOST_ALARMS, 10).

-doc "Measures; see the module.".
-spec run([node(), ...], options()) -> dyno_error:result(dyno_recording:document()).
run(Nodes, Options) -> dyno_observer:run(?MODULE, Nodes, Options).

-doc false.
-spec attach([node(), ...], options()) ->
    {ok, dyno_observer:plan(), state()} | {error, dyno_error:error()}.
attach(Nodes, Options) ->
    maybe
        %% Invalid thresholds fail before an hour of measuring.
        Thresholds = maps:get(thresholds, Options, []),
        ok ?= dyno_threshold:check_all(Thresholds, dyno_servers_recording:known()),
        {ok, Session} ?= dyno_servers:start(Nodes, maps:without(?OWN, Options)),
        ok = dyno_servers:subscribe(Session),
        %% The session attaches again to a lost node after its return.
        Plan = (maps:with([for_ms], Options))#{nodes => Nodes, targets => []},
        {ok, Plan, #{
            nodes => Nodes,
            options => Options,
            session => Session,
            ref => monitor(process, Session),
            show => maps:get(show, Options, fun(_) -> ok end),
            total => dyno_servers_total:new(),
            dropped => 0,
            alarms => [],
            more_alarms => 0
        }}
    end.

-doc false.
-spec handle(term(), [], state()) -> {[dyno_observation:event()], state()}.
handle({message, {dyno_servers, Session, Window, Dropped}}, _, #{session := Session} = State) ->
    {[], windowed(Window, Dropped, State)};
handle({message, {dyno_servers, Session, Event}}, _, #{session := Session} = State) ->
    {[], shown(Event, State)};
handle({message, {'DOWN', Ref, process, _, _}}, _, #{ref := Ref} = State) ->
    {[failed], State};
handle(finish, _, #{session := Session, nodes := Nodes} = State) ->
    #{total := Before} = State,
    Asked = dyno_target_silence:ask([N || N <- Nodes, dyno_target_silence:is_connected(N)]),
    ok = dyno_servers:read(Session),
    #{total := Total} = Last = last(erlang:monotonic_time(millisecond) + ?LAST_MS, State),
    OfNodes = dyno_servers_total:nodes(Total),
    %% A silent node may be found lost only after this wait.
    Silent = #{
        Node => {dyno_agent, {node_down, Node}}
     || Node <- dyno_target_silence:unanswered(Asked),
        not has_come(Node, dyno_servers_total:nodes(Before), OfNodes)
    },
    #{lost := Known} = Left = about(Session),
    #{lost := Lost} = About = Left#{lost := maps:merge(Silent, Known)},
    Events = [
        case Lost of
            #{Node := _} -> {lost, Node, Ns};
            #{} -> {present, Node, Ns}
        end
     || Node <- Nodes,
        Ns <- [lists:sum([Ns || #{node := Of, duration_ns := Ns} <- OfNodes, Of =:= Node])]
    ],
    {Events, maps:merge(Last, About)};
handle(_What, _, State) ->
    {[], State}.

windowed(Window, Dropped, #{session := Session, show := Show} = State) ->
    ok = Show({window, Window}),
    ok = dyno_servers:ready(Session),
    #{total := Total, dropped := Before} = State,
    State#{total := dyno_servers_total:add(Window, Total), dropped := Before + Dropped}.

shown(Event, #{show := Show} = State) ->
    ok = Show(Event),
    with_alarm(Event, State).

has_come(Node, Before, Now) ->
    Of = fun(Nodes) -> [Ns || #{node := N, duration_ns := Ns} <- Nodes, N =:= Node] end,
    Of(Before) =/= Of(Now).

%% One more window comes, of the time since the last one.
last(EndsMs, #{session := Session, ref := Ref} = State) ->
    receive
        {dyno_servers, Session, Window, Dropped} -> windowed(Window, Dropped, State);
        {dyno_servers, Session, Event} -> last(EndsMs, shown(Event, State));
        {'DOWN', Ref, process, Session, _} -> State
    after max(0, EndsMs - erlang:monotonic_time(millisecond)) ->
        State
    end.

%% The first alarms; the live lines show all.
with_alarm({alarm, _, Text}, #{alarms := Before} = State) when length(Before) < ?MOST_ALARMS ->
    AtMs = erlang:system_time(millisecond),
    At = calendar:system_time_to_rfc3339(AtMs, [{unit, millisecond}, {offset, "Z"}]),
    State#{alarms := [dyno_recording_part:text("alarm at ~ts: ~ts", [At, Text]) | Before]};
with_alarm({alarm, _, _}, #{more_alarms := More} = State) ->
    State#{more_alarms := More + 1};
with_alarm(_Event, State) ->
    State.

about(Session) ->
    try
        About = maps:with([lost, sinks], dyno_servers:about(Session)),
        ok = dyno_servers:stop(Session),
        About#{visits => visits(Session)}
    catch
        exit:_ -> #{lost => #{}, sinks => [], visits => []}
    end.

visits(Session) ->
    receive
        {dyno_servers, Session, {left, Visits}} -> Visits
    after 0 -> []
    end.

-doc false.
-spec made(dyno_observation:ended(), state()) -> dyno_observed:parts().
made(Ended, #{nodes := Nodes, options := Options, total := Total, alarms := Alarms} = State) ->
    Group = maps:get(group, Options, process),
    #{more_alarms := More} = State,
    Rest = [dyno_recording_part:text("and ~b more alarms", [More]) || More > 0],
    Shown = State#{alarms := lists:reverse(Alarms) ++ Rest, group => Group},
    Run = dyno_servers_recording:run(Total, Shown),
    #{
        command => servers,
        parameters => #{
            nodes => Nodes,
            servers => [dyno_process_filter:format(S) || S <- maps:get(servers, Options, [all])],
            interval_ms => maps:get(interval_ms, Options, 1000),
            duration_ms => maps:get(for_ms, Options, undefined),
            level => maps:get(level, Options, auto),
            group => Group,
            measured => [
                dyno_servers_recording:level(OfNode)
             || OfNode <- dyno_servers_total:nodes(Total)
            ]
        },
        thresholds => maps:get(thresholds, Options, []),
        ended => Ended#{duration_ns := dyno_servers_total:duration_ns(Total)},
        visits => map_get(visits, State),
        run => maps:remove(warnings, Run),
        warnings => map_get(warnings, Run)
    }.
