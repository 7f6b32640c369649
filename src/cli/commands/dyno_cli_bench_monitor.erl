%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_cli_bench_monitor).
-moduledoc false.
%% Prints a line about this VM each second on standard error: erlperf's `-v`.

-export([start_link/0, heading/1, line/2]).

-define(INTERVAL_MS, 1000).
%% Repeats the heading for scrolling terminals.
-define(PAGE, 30).

%% Title, width, value, formatting.
-define(COLUMNS, [
    {"Sched", 8, ~"vm.scheduler_utilisation.normal", share},
    {"DCPU", 8, ~"vm.scheduler_utilisation.dirty_cpu", share},
    {"DIO", 8, ~"vm.scheduler_utilisation.dirty_io", share},
    {"Procs", 9, ~"vm.processes", count},
    {"Ports", 9, ~"vm.ports", count},
    {"ETS", 8, ~"vm.ets_tables", count},
    {"Mem Total", 11, ~"vm.memory.total", bytes},
    {"Mem Proc", 11, ~"vm.memory.processes", bytes},
    {"Mem Bin", 11, ~"vm.memory.binary", bytes},
    {"Mem ETS", 11, ~"vm.memory.ets", bytes}
]).

-doc "Starts to print until killed or until the caller ends.".
-spec start_link() -> pid().
start_link() ->
    spawn_link(fun() ->
        proc_lib:set_label(?MODULE),
        ok = dyno_agent_vm:enable(),
        loop(0, dyno_agent_vm:read(), erlang:monotonic_time(millisecond) + ?INTERVAL_MS)
    end).

%% Absolute times: the lines do not drift.
loop(Printed, Before, DueMs) ->
    receive
    after max(0, DueMs - erlang:monotonic_time(millisecond)) -> ok
    end,
    Now = dyno_agent_vm:read(),
    case Printed rem ?PAGE of
        0 -> dyno_cli_terminal:note(heading(string:pad("YYYY-MM-DDTHH:MM:SS-oo:oo", 25)));
        _ -> ok
    end,
    Time = calendar:system_time_to_rfc3339(erlang:system_time(second)),
    dyno_cli_terminal:note(line(Time, dyno_agent_vm:difference(Before, Now))),
    loop(Printed + 1, Now, DueMs + ?INTERVAL_MS).

-spec heading(unicode:chardata()) -> unicode:chardata().
heading(First) ->
    [First | [string:pad(Title, Width, leading) || {Title, Width, _, _} <- ?COLUMNS]].

-spec line(unicode:chardata(), dyno_agent_vm:values()) -> unicode:chardata().
line(Time, Values) ->
    [
        string:pad(Time, 25)
        | [
            string:pad(cell(maps:get(Name, Values, none), Kind), Width, leading)
         || {_, Width, Name, Kind} <- ?COLUMNS
        ]
    ].

cell(none, _) -> "-";
cell(Value, share) -> io_lib:format("~.2f", [Value * 100.0]);
cell(Value, count) -> io_lib:format("~b", [round(Value)]);
cell(Value, bytes) -> dyno_unit:format(Value, ~"B").
