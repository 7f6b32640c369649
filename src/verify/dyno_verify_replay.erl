%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_verify_replay).
-moduledoc """
Runs monitors on recorded events, by the pure core that runs them live (`m:dyno_agent_partition`).

Only the order of each process's own events counts: whichever way those of several processes are
mixed in the file, the verdicts are the same. Therefore no deadline is told by another process's
clock: one that no event of its own process shows to be over is told at the end of the file.
Monitors over several processes get all events in the order of their times.
""".

-export([run/3, file/3, start/2, item/2, finish/1]).
-export_type([t/0, result/0]).

-doc "Verdicts in the order in which they were reached, and what was counted.".
-type result() :: #{
    verdicts := [dyno_agent_monitor:report()],
    crashes := [{module(), dyno_agent_event:process(), Reason :: term()}],
    counts := dyno_agent_partition:counts(),
    monitors := #{module() => counted()},
    %% Processes that had not ended when the file did, and whose monitors had not all decided.
    open := [pid()],
    events := non_neg_integer()
}.

-doc "Of a monitor: its processes, and how it ended with them.".
-type counted() :: #{
    processes := non_neg_integer(),
    yes := non_neg_integer(),
    no := non_neg_integer(),
    inconclusive := non_neg_integer(),
    crashed := non_neg_integer()
}.

-opaque t() :: #{
    monitors := [module()],
    core := dyno_agent_partition:t(),
    effects := [dyno_agent_partition:effect()],
    newest := integer(),
    events := non_neg_integer()
}.

%% Longer than any recording: monitors over several processes wait until its end.
-define(ALL_NS, 1 bsl 61).
-define(MOST_REPORTS, 1000).
-define(MOST_CRASHES, 10).

-doc """
What `dyno verify --replay` does: a recording of what the properties of these specifications say of
a file. `show` of the options is told each violation.
""".
-spec run([binary(), ...], binary(), dyno_verify:options()) ->
    {ok, dyno_recording:document()} | {error, dyno_error:error()}.
run(Specs, File, Options) ->
    Started = erlang:monotonic_time(nanosecond),
    maybe
        {ok, Objects} ?= dyno_verify_monitors:read(Specs),
        Monitors = [Module || {Module, _, _} <- Objects],
        _ = [ok = dyno_code:load(Module, Path, Beam) || {Module, Beam, Path} <- Objects],
        Replayed = file(File, Monitors, maps:with([events], Options)),
        Names = #{M => Name || M <- Monitors, #{property := Name} <- [M:needs()]},
        ok = dyno_code:unload(Monitors),
        {ok, Result} ?= Replayed,
        Broken = [Report || #{verdict := no} = Report <- map_get(verdicts, Result)],
        Show = maps:get(show, Options, fun(_) -> ok end),
        lists:foreach(fun(Report) -> ok = Show({verdict, Report}) end, Broken),
        %% Where a node stands otherwise.
        Node = binary_to_atom(filename:basename(File)),
        Ending = #{
            status => complete,
            duration_ns => erlang:monotonic_time(nanosecond) - Started,
            facts => [#{name => Node}],
            summaries => [{summary(Node, Names, Started, Result), seen}],
            reports => reports(Node, lists:sublist(Broken, ?MOST_REPORTS)),
            faults => [
                {Node, dyno_verify_text:crash(Crash)}
             || Crash <- lists:sublist(map_get(crashes, Result), ?MOST_CRASHES)
            ],
            monitors => Monitors
        },
        {ok,
            dyno_verify_recording:document(
                Specs,
                [Node],
                Options#{instrumentation => replay},
                dyno_environment:collect(),
                Ending
            )}
    end.

%% The last one first, by the time since the first one.
reports(_Node, []) ->
    [];
reports(Node, Broken) ->
    First = lists:min([Time || #{time_ns := Time} <- Broken]),
    lists:reverse([{Time - First, R#{node := Node}} || #{time_ns := Time} = R <- Broken]).

summary(Node, Names, Started, Result) ->
    #{counts := Counts, events := Events, open := Open, monitors := Monitors} = Result,
    #{
        node => Node,
        duration_ns => erlang:monotonic_time(nanosecond) - Started,
        faults => [],
        properties => Names,
        verdicts => (maps:with([opened, complete, partial, gap], Counts))#{
            events => Events,
            cut => 0,
            open => length(Open),
            untold => max(0, map_get(no, Counts) - ?MOST_REPORTS),
            monitors => Monitors
        }
    }.

-doc """
Runs these monitors on a file that `m:dyno_verify_log` reads. Their modules are loaded in this node.
""".
-spec file(file:name_all(), [module()], dyno_agent_partition:options()) ->
    {ok, result()} | {error, {dyno_verify_log, dyno_verify_log:reason()}}.
file(File, Monitors, Options) ->
    maybe
        {ok, Replay} ?= dyno_verify_log:fold(File, fun item/2, start(Monitors, Options)),
        {ok, finish(Replay)}
    end.

-doc "No event yet.".
-spec start([module()], dyno_agent_partition:options()) -> t().
start(Monitors, Options) ->
    Core = dyno_agent_partition:new(Monitors, Options#{reorder_ns => ?ALL_NS}),
    #{monitors => Monitors, core => Core, effects => [], newest => -?ALL_NS, events => 0}.

-doc "The next one of a file.".
-spec item(dyno_verify_log:item(), t()) -> t().
item({process, Process, Time}, #{core := Core} = Replay) ->
    done(dyno_agent_partition:attach(Process, Time, Core), Time, Replay);
item({gap, Time}, #{core := Core} = Replay) ->
    done(dyno_agent_partition:gap_all(Time, Core), Time, Replay);
item({Pid, Event, Time}, #{core := Core, events := Events} = Replay) ->
    Done = done(dyno_agent_partition:event(Pid, Event, Time, Core), Time, Replay),
    Done#{events := Events + 1}.

done({Core, New}, Time, #{effects := Effects, newest := Newest} = Replay) ->
    Replay#{core := Core, effects := lists:reverse(New, Effects), newest := max(Time, Newest)}.

-doc "The file is at its end.".
-spec finish(t()) -> result().
finish(#{core := Core, effects := Effects, newest := Newest} = Replay) ->
    #{monitors := Monitors, events := Events} = Replay,
    {Settled, More} = dyno_agent_partition:settle(Core),
    {Ended, Last} = dyno_agent_partition:timeouts(Newest, Settled),
    All = lists:reverse(Effects, More ++ Last),
    #{
        verdicts => [Report || {verdict, Report} <- All],
        crashes => [{Module, Process, Why} || {crashed, Module, Process, Why} <- All],
        counts => dyno_agent_partition:count(All, dyno_agent_partition:counts()),
        monitors => lists:foldl(fun counted/2, #{M => none() || M <- Monitors}, All),
        open => lists:sort(dyno_agent_partition:pids(Ended)),
        events => Events
    }.

none() -> #{processes => 0, yes => 0, no => 0, inconclusive => 0, crashed => 0}.

counted({opened, _, Modules}, Counts) ->
    lists:foldl(fun(Module, Acc) -> more(Module, processes, Acc) end, Counts, Modules);
counted({verdict, #{monitor := Module, verdict := Verdict}}, Counts) ->
    more(Module, Verdict, Counts);
counted({crashed, Module, _, _}, Counts) ->
    more(Module, crashed, Counts);
counted(_Effect, Counts) ->
    Counts.

more(Module, Key, Counts) ->
    #{Module := #{Key := N} = Of} = Counts,
    Counts#{Module := Of#{Key := N + 1}}.
