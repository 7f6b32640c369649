%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_servers_run).
-moduledoc """
Measures servers for a while and gives one recording: what `dyno servers` does.

```erlang
{ok, Recording} = dyno_servers_run:run(['shop@host'], #{for_ms => 30_000}).
```

It ends in good order, with what was measured until then, when its process gets `dyno_interrupt`, or
`stop` from somebody who has seen enough.
""".

-export([run/2]).
-export_type([options/0, event/0]).

-doc "Those of `t:dyno_servers:options/0`, and these.".
-type options() :: #{
    %% Until it is interrupted where this is left out.
    for_ms => pos_integer(),
    %% What the tables are by; process.
    group => dyno_servers_window:group(),
    %% What must hold at the end, as dyno_threshold reads it.
    thresholds => [dyno_threshold:t()],
    %% Called in the measuring process with each window.
    show => fun((event()) -> ok),
    atom() => term()
}.

-doc "What there is to show.".
-type event() ::
    {window, dyno_servers_window:window()}
    | {lost, node(), dyno_error:error()}
    | {back, node()}
    | {alarm, set | clear, Text :: binary()}
    %% At the level each: a callback.
    | {each, #{atom() => term()}}.

-define(OWN, [for_ms, group, thresholds, show]).
%% A node that is too busy to answer keeps nobody waiting.
-define(LAST_MS, 2500).
-define(MOST_ALARMS, 10).

-doc "Measures; see the module.".
-spec run([node(), ...], options()) ->
    {ok, dyno_recording:document()} | {error, dyno_error:error()}.
run(Nodes, Options) ->
    maybe
        %% Before it is measured for an hour.
        Thresholds = maps:get(thresholds, Options, []),
        ok ?= dyno_threshold:check_all(Thresholds, dyno_servers_recording:known()),
        Environment = dyno_environment:collect(),
        {ok, Monitor} ?= dyno_servers:start(Nodes, maps:without(?OWN, Options)),
        ok = dyno_servers:subscribe(Monitor),
        Facts = dyno_target_node:facts_of(Nodes),
        Silence = dyno_target_silence:watch(Nodes, maps:get(for_ms, Options, infinity)),
        #{
            status := Status,
            total := Total,
            dropped := Dropped,
            alarms := Alarms,
            asked_ms := AskedMs
        } = loop(#{
            monitor => Monitor,
            ref => monitor(process, Monitor),
            ends_ms => ends_ms(Options),
            asked_ms => maps:get(for_ms, Options, undefined),
            show => maps:get(show, Options, fun(_) -> ok end),
            status => complete,
            total => dyno_servers_total:new(),
            alarms => [],
            dropped => 0
        }),
        #{lost := Lost} = About = about(Monitor),
        ok = dyno_target_silence:stop(Silence),
        Seen = [seen(Node, Lost, Total) || Node <- Nodes],
        {ok, document(Nodes, Options, Environment, Total, About#{
            ending => dyno_recording_observed:ended(Status, AskedMs, Seen),
            dropped => Dropped,
            alarms => lists:reverse(Alarms),
            facts => Facts,
            group => maps:get(group, Options, process)
        })}
    end.

seen(Node, Lost, Total) ->
    OfNodes = dyno_servers_total:nodes(Total),
    Ns = lists:sum([Ns || #{node := Of, duration_ns := Ns} <- OfNodes, Of =:= Node]),
    case Lost of
        #{Node := _} -> {Node, lost, Ns};
        #{} -> {Node, present, Ns}
    end.

ends_ms(#{for_ms := ForMs}) -> erlang:monotonic_time(millisecond) + ForMs;
ends_ms(_Options) -> infinity.

%% At the end one more window comes, of the time since the last one.
loop(State) ->
    #{monitor := Monitor, ref := Ref, ends_ms := EndsMs, show := Show} = State,
    receive
        {dyno_servers, Monitor, #{servers := _} = Window, Dropped} ->
            ok = Show({window, Window}),
            ok = dyno_servers:ready(Monitor),
            #{total := Total, dropped := Before} = State,
            New = State#{
                total := dyno_servers_total:add(Window, Total), dropped := Before + Dropped
            },
            case State of
                #{last := _} -> New;
                #{} -> loop(New)
            end;
        {dyno_servers, Monitor, Event} ->
            ok = Show(Event),
            loop(with_alarm(Event, State));
        dyno_interrupt when not is_map_key(last, State) ->
            loop(last(State#{status := interrupted}));
        stop when not is_map_key(last, State) ->
            loop(last(State#{asked_ms := undefined}));
        {'DOWN', Ref, process, Monitor, _} ->
            State#{status := failed}
    after left_ms(EndsMs) ->
        case State of
            #{last := _} -> State;
            #{} -> loop(last(State))
        end
    end.

%% The first ones; the live lines show all.
with_alarm({alarm, _, Text}, #{alarms := Before} = State) when length(Before) < ?MOST_ALARMS ->
    AtMs = erlang:system_time(millisecond),
    At = calendar:system_time_to_rfc3339(AtMs, [{unit, millisecond}, {offset, "Z"}]),
    State#{alarms := [dyno_recording_part:text("alarm at ~ts: ~ts", [At, Text]) | Before]};
with_alarm(_Event, State) ->
    State.

last(#{monitor := Monitor} = State) ->
    ok = dyno_servers:read(Monitor),
    State#{last => true, ends_ms := erlang:monotonic_time(millisecond) + ?LAST_MS}.

left_ms(infinity) -> infinity;
left_ms(EndsMs) -> max(0, EndsMs - erlang:monotonic_time(millisecond)).

about(Monitor) ->
    try
        About = maps:with([lost, sinks], dyno_servers:about(Monitor)),
        ok = dyno_servers:stop(Monitor),
        About#{visits => visits(Monitor)}
    catch
        exit:_ -> #{lost => #{}, sinks => [], visits => []}
    end.

visits(Monitor) ->
    receive
        {dyno_servers, Monitor, {left, Visits}} -> Visits
    after 0 -> []
    end.

document(Nodes, Options, Environment, Total, #{ending := Ended, group := Group} = Ending) ->
    Parameters = #{
        nodes => Nodes,
        servers => [dyno_process_filter:format(S) || S <- maps:get(servers, Options, [all])],
        interval_ms => maps:get(interval_ms, Options, 1000),
        duration_ms => maps:get(for_ms, Options, undefined),
        level => maps:get(level, Options, auto),
        group => Group,
        thresholds => [dyno_threshold:format(T) || T <- maps:get(thresholds, Options, [])],
        measured => [
            dyno_servers_recording:level(OfNode) || OfNode <- dyno_servers_total:nodes(Total)
        ]
    },
    [First | Others] = Nodes,
    More = [[" and ", integer_to_binary(length(Others)), " more"] || Others =/= []],
    Name = iolist_to_binary([atom_to_binary(First), More]),
    New = dyno_recording:new(servers, Name, Parameters, Environment),
    #{~"started_at" := StartedAt} = New,
    Status = dyno_recording_observed:of_run(Ended),
    Run = dyno_servers_recording:run(Total, StartedAt, Ending#{status => Status}),
    With = dyno_recording:add_run(New, maps:remove(warnings, Run)),
    Warned = dyno_recording:add_warnings(With, map_get(warnings, Run)),
    Timed = dyno_recording:put(Warned, duration_ns, dyno_servers_total:duration_ns(Total)),
    dyno_threshold:judge(
        maps:get(thresholds, Options, []), dyno_recording_observed:put(Ended, Timed)
    ).
