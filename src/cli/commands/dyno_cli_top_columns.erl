%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_cli_top_columns).
-moduledoc false.
%% The views of `dyno top` and their columns, as data. Pure.

-export([views/0, first_sort/1, can_group/1, sorts/2, sorts_by/3, columns/3, cells/3]).
-export([value/2, number/1, signed/2]).
-export_type([column/0]).

-type column() :: {Title :: binary(), Key :: atom(), kind(), flexible | optional | fixed}.

-type kind() ::
    text
    | status
    | pid
    %% Red above 1,000.
    | queue
    | {unit, dyno_unit:unit()}
    %% A difference, with its sign.
    | {change, dyno_unit:unit()}
    %% Of the interval: a rate.
    | {in_interval, dyno_unit:unit()}
    | {change_in_interval, dyno_unit:unit()}.

-define(NARROW, 72).
%% A column has another name in some views.
-define(SORTS, [
    {$r, [reductions]}, {$u, [queue, waiting]}, {$w, [growth]}, {$m, [memory, bytes, held]}
]).

-spec views() -> [{char(), dyno_agent_top:view(), binary(), binary()}].
views() ->
    [
        {$1, processes, ~"processes", ~"processes"},
        {$2, applications, ~"apps", ~"applications"},
        {$3, supervisors, ~"supervisors", ~"supervisors"},
        {$4, ets, ~"ETS", ~"ETS tables"},
        {$5, mnesia, ~"Mnesia", ~"Mnesia tables"},
        {$6, ports, ~"ports", ~"ports and sockets"},
        {$7, memory, ~"memory", ~"allocators"},
        {$8, nodes, ~"nodes", ~"connected nodes"}
    ].

-doc "The column that a view is sorted by at first.".
-spec first_sort(dyno_agent_top:view()) -> atom().
first_sort(supervisors) -> started;
first_sort(View) when View =:= ets; View =:= mnesia -> bytes;
first_sort(View) when View =:= ports; View =:= nodes -> output;
first_sort(memory) -> held;
first_sort(_) -> reductions.

-doc "Whether items of the same kind can be one row.".
-spec can_group(dyno_agent_top:view()) -> boolean().
can_group(View) -> lists:member(View, [processes, ets, ports]).

-doc "The columns to sort by, from left to right.".
-spec sorts(dyno_agent_top:view(), Grouped :: boolean()) -> [atom(), ...].
sorts(View, Grouped) ->
    [Key || {_, Key, Kind, _} <- all(View, Grouped), is_number_kind(Kind)].

-doc "The columns that a key, or a value of `--sort`, means in a view.".
-spec sorts_by(char() | atom(), dyno_agent_top:view(), Grouped :: boolean()) -> [atom()].
sorts_by(By, View, Grouped) ->
    Names = lists:append([Of || {Key, Of} <- ?SORTS, Key =:= By orelse lists:member(By, Of)]),
    [Key || Key <- sorts(View, Grouped), lists:member(Key, Names)].

is_number_kind(Kind) -> Kind =:= queue orelse is_tuple(Kind).

-doc "The columns of a view for a width.".
-spec columns(dyno_agent_top:view(), Grouped :: boolean(), Width :: pos_integer()) -> [column()].
columns(View, Grouped, Width) when Width < ?NARROW ->
    lists:sublist(all(View, Grouped), 3);
columns(View, Grouped, _Width) ->
    all(View, Grouped).

all(processes, false) ->
    [{~"process", name, text, flexible}] ++ work() ++
        [
            {~"", status, status, fixed},
            {~"is in", at, text, flexible},
            {~"waits for", waits_for, text, optional},
            {~"pid", pid, pid, optional}
        ];
all(processes, true) ->
    [
        {~"processes started with", group, text, flexible},
        {~"number", count, {unit, ~"count"}, fixed}
    ] ++ work();
all(applications, _) ->
    [
        {~"application", group, text, flexible}, {~"processes", count, {unit, ~"count"}, fixed}
    ] ++ work();
all(supervisors, _) ->
    [
        {~"supervisor", name, text, flexible},
        {~"started/s", started, {in_interval, ~"count"}, fixed},
        {~"ended/s", ended, {in_interval, ~"count"}, fixed},
        {~"children", children, {unit, ~"count"}, fixed},
        {~"queue", queue, queue, fixed},
        {~"memory", memory, {unit, ~"B"}, fixed},
        {~"application", application, text, flexible}
    ];
all(ets, false) ->
    [{~"table", name, text, flexible}] ++ objects() ++
        [{~"type", kind, text, optional}, {~"owner", owner, text, flexible}];
all(ets, true) ->
    [{~"tables named", name, text, flexible}, {~"number", count, {unit, ~"count"}, fixed}] ++
        objects();
all(mnesia, _) ->
    [{~"table", name, text, flexible}] ++ objects() ++
        [{~"stored in", storage, text, fixed}, {~"copies", copies, {unit, ~"count"}, fixed}];
all(ports, false) ->
    [{~"port or socket", name, text, flexible}] ++ bytes() ++
        [{~"other end", at, text, optional}, {~"owner", owner, text, flexible}];
all(ports, true) ->
    [{~"ports and sockets", name, text, flexible}, {~"number", count, {unit, ~"count"}, fixed}] ++
        bytes();
all(memory, _) ->
    [
        {~"memory for", group, text, flexible},
        {~"allocated", held, {unit, ~"B"}, fixed},
        {~"+/s", growth, {change, ~"B"}, fixed},
        {~"used", used, {unit, ~"B"}, fixed},
        {~"unused", unused, {unit, ~"B"}, fixed},
        {~"in use", utilisation, {unit, ~"ratio"}, fixed},
        {~"allocator", name, text, optional}
    ];
all(nodes, _) ->
    [{~"connected node", name, text, flexible}] ++ bytes() ++ [{~"", group, text, fixed}].

work() ->
    [
        {~"reds/s", reductions, {in_interval, ~"count"}, fixed},
        {~"queue", queue, queue, fixed},
        {~"+/s", growth, {change_in_interval, ~"count"}, fixed},
        {~"memory", memory, {unit, ~"B"}, fixed}
    ].

objects() ->
    [
        {~"objects", objects, {unit, ~"count"}, fixed},
        {~"+/s", growth, {change, ~"count"}, fixed},
        {~"memory", bytes, {unit, ~"B"}, fixed}
    ].

bytes() ->
    [
        {~"in", input, {unit, ~"B/s"}, fixed},
        {~"out", output, {unit, ~"B/s"}, fixed},
        {~"waits", waiting, {unit, ~"B"}, fixed}
    ].

-doc "The cells of a row; `-` if a value is not known.".
-spec cells([column()], #{atom() => term()}, IntervalNs :: pos_integer()) ->
    [dyno_report_table:cell()].
cells(Columns, Row, Ns) ->
    [cell(Kind, maps:get(Key, Row, unknown), Ns) || {_, Key, Kind, _} <- Columns].

cell(text, unknown, _Ns) -> ~"";
cell(text, Text, _Ns) -> Text;
cell(_Kind, unknown, _Ns) -> ~"-";
cell(status, Status, _Ns) -> status(Status);
cell(pid, Pid, _Ns) -> pid(Pid);
cell(queue, N, _Ns) when N > 1000 -> {bad, number(N)};
cell(queue, N, _Ns) -> number(N);
cell({unit, Unit}, N, _Ns) -> value(N, Unit);
cell({change, Unit}, N, _Ns) -> signed(N, Unit);
cell({in_interval, Unit}, N, Ns) -> value(N * 1.0e9 / Ns, Unit);
cell({change_in_interval, Unit}, N, Ns) -> signed(N * 1.0e9 / Ns, Unit).

%% Waiting is usual: no text.
status(waiting) -> ~"";
status(running) -> ~"runs";
status(runnable) -> ~"ready";
status(garbage_collecting) -> ~"collects";
status(suspended) -> {bad, ~"suspended"};
status(Other) -> atom_to_binary(Other).

%% In the node's own form.
pid(Pid) ->
    [_, Rest] = string:split(pid_to_list(Pid), "."),
    iolist_to_binary(["<0.", Rest]).

-doc "A number with its unit; `-` if it is not known.".
-spec value(number() | unknown, dyno_unit:unit()) -> binary().
value(unknown, _Unit) -> ~"-";
value(Number, ~"ratio") -> dyno_unit:format(round(Number * 1000) / 1000, ~"ratio");
value(Number, Unit) -> dyno_unit:format(Number, Unit).

-spec number(non_neg_integer()) -> binary().
number(Count) -> value(Count, ~"count").

-spec signed(number(), dyno_unit:unit()) -> binary().
signed(Change, _Unit) when Change == 0 -> ~"0";
signed(Change, Unit) when Change < 0 -> <<"-", (value(-Change, Unit))/binary>>;
signed(Change, Unit) -> <<"+", (value(Change, Unit))/binary>>.
