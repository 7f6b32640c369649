%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_verify_replay).
-moduledoc """
Runs monitors on recorded events, by the pure core of live monitoring (`dyno_agent_partition`).

Only the order of each process's own events counts: any interleaving of processes in the file gives
the same verdicts. So only a process's own events end its deadlines; others are decided at the end
of the file. Monitors over several processes get all events in order of time.
""".

-export([run/3, file/3]).
-export_type([result/0]).

-type result() :: #{
    verdicts := [dyno_agent_monitor:report()],
    crashes := [{module(), dyno_agent_event:process(), Reason :: term()}],
    counts := dyno_agent_verdicts:summary(),
    %% Processes still running at the file's end with undecided monitors.
    open := [pid()]
}.

%% Longer than any recording: monitors over several processes wait until its end.
-define(ALL_NS, 1 bsl 61).
-define(MOST_REPORTS, 1000).
-define(MOST_CRASHES, 10).

-doc "Replays a recording of these specifications' properties; `show` gets each violation.".
-spec run([binary(), ...], binary(), dyno_verify:options()) ->
    dyno_error:result(dyno_recording:document()).
run(Specs, File, Options) ->
    Started = erlang:monotonic_time(nanosecond),
    maybe
        {ok, Objects} ?= dyno_verify_monitors:read(Specs),
        Monitors = [Module || {Module, _, _} <- Objects],
        Show = maps:get(show, Options, fun(_) -> ok end),
        Warnings = dyno_verify_monitors:warnings(Objects),
        lists:foreach(fun(Text) -> ok = Show({warning, Text}) end, Warnings),
        _ = [ok = dyno_code:load(Module, Path, Beam) || {Module, Beam, Path} <- Objects],
        Replayed = file(File, Monitors, maps:with([events], Options)),
        Names = #{M => map_get(property, dyno_agent_monitor:needs(M)) || M <- Monitors},
        ok = dyno_code:unload(Monitors),
        {ok, #{verdicts := Verdicts, crashes := Crashes, counts := Counts}} ?= Replayed,
        Broken = [Report || #{verdict := no} = Report <- Verdicts],
        lists:foreach(fun(Report) -> ok = Show({verdict, Report}) end, Broken),
        %% In place of a node.
        Node = binary_to_atom(filename:basename(File)),
        DurationNs = erlang:monotonic_time(nanosecond) - Started,
        Summary = #{
            node => Node,
            duration_ns => DurationNs,
            faults => [],
            properties => Names,
            verdicts => Counts#{untold := max(0, length(Broken) - ?MOST_REPORTS)}
        },
        Ended = #{
            ending => #{status => complete}, duration_ns => DurationNs, lost => #{}, warnings => []
        },
        Parts = dyno_verify_recording:parts(Ended, #{
            specs => Specs,
            nodes => [Node],
            options => Options#{instrumentation => replay},
            warnings => Warnings,
            monitors => Monitors,
            summaries => #{Node => Summary},
            reports => reports(Node, lists:sublist(Broken, ?MOST_REPORTS)),
            faults => [
                {Node, dyno_verify_text:crash(Crash)}
             || Crash <- lists:sublist(Crashes, ?MOST_CRASHES)
            ]
        }),
        {ok,
            dyno_observed:document(Ended, Parts#{
                nodes => [Node],
                environment => dyno_environment:collect(),
                facts => [#{name => atom_to_binary(Node)}],
                visits => []
            })}
    end.

%% The last one first, in time since the first.
reports(_Node, []) ->
    [];
reports(Node, Broken) ->
    First = lists:min([Time || #{time_ns := Time} <- Broken]),
    lists:reverse([{Time - First, R#{node := Node}} || #{time_ns := Time} = R <- Broken]).

-doc "Runs these monitors on a file of `m:dyno_verify_log`. Loads their modules in this node.".
-spec file(file:name_all(), [module()], dyno_agent_partition:options()) ->
    {ok, result()} | {error, {dyno_verify_log, dyno_verify_log:reason()}}.
file(File, Monitors, Options) ->
    Core = dyno_agent_partition:new(Monitors, Options#{reorder_ns => ?ALL_NS}),
    Replay = #{core => Core, effects => [], newest => -?ALL_NS, events => 0},
    maybe
        {ok, Read} ?= dyno_verify_log:fold(File, fun item/2, Replay),
        {ok, finish(Read, Monitors)}
    end.

item({process, Process, Time}, #{core := Core} = Replay) ->
    done(dyno_agent_partition:attach(Process, Core), Time, Replay);
item({gap, Time}, #{core := Core} = Replay) ->
    done(dyno_agent_partition:gap_all(Time, Core), Time, Replay);
item({time, Time}, #{core := Core} = Replay) ->
    done({Core, []}, Time, Replay);
item({Pid, Event, Time}, #{core := Core, events := Events} = Replay) ->
    Done = done(dyno_agent_partition:event(Pid, Event, Time, Core), Time, Replay),
    Done#{events := Events + 1}.

done({Core, New}, Time, #{effects := Effects, newest := Newest} = Replay) ->
    Replay#{core := Core, effects := lists:reverse(New, Effects), newest := max(Time, Newest)}.

finish(#{core := Core, effects := Effects, newest := Newest, events := Events}, Monitors) ->
    {Settled, More} = dyno_agent_partition:settle(Core),
    {Ended, Last} = dyno_agent_partition:timeouts(Newest, Settled),
    All = lists:reverse(Effects, More ++ Last),
    Verdicts = dyno_agent_verdicts:new(Monitors, self()),
    ok = dyno_agent_verdicts:count(All, Verdicts),
    Counts = dyno_agent_verdicts:read(Verdicts),
    ok = dyno_agent_verdicts:delete(Verdicts),
    #{
        verdicts => [Report || {verdict, Report} <- All],
        crashes => [{Module, Process, Why} || {crashed, Module, Process, Why} <- All],
        counts => Counts#{events := Events},
        open => lists:sort(dyno_agent_partition:pids(Ended))
    }.
