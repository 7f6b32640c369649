%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_cli_top_view).
-moduledoc """
The screen of `dyno top` as lines of text, and the effect of keys. Pure.

`with_reading/3` takes a node's latest reading, `with_key/2` a key, and `screen/3` returns the lines
for a terminal of a size, with the selected row.
""".

-export([new/1, with_enter/1, with_reading/3, with_findings/3, with_key/2, with_detail/2]).
-export([screen/3, plain/1, json/1]).
-export([ask/1, selected/1]).
-export_type([view/0, key/0]).

-type key() :: char() | up | down | page_up | page_down | enter | escape | backspace.

-opaque view() :: #{
    nodes := [node()],
    node := node(),
    sort := dyno_agent_top:key(),
    grouped := boolean(),
    filter := binary(),
    %% A filter being typed.
    typing := binary() | none,
    frozen := boolean(),
    helping := boolean(),
    readings := #{node() => dyno_agent_top:reading() | {lost, unicode:chardata()}},
    %% The worst first.
    findings := #{node() => [dyno_finding:t()]},
    %% The latest first.
    history := #{node() => [{Busy :: number(), Queue :: number(), Memory :: number()}]},
    row := non_neg_integer(),
    detail := #{atom() => term()} | none,
    %% Whether a key needs Enter.
    with_enter := boolean()
}.

-define(HISTORY, 60).
-define(SORTS, [{$r, reductions}, {$u, queue}, {$w, growth}, {$m, memory}]).
%% From observer_cli: beyond this share of a limit the node is near its end.
-define(NEAR, 0.85).
-define(MOST_ROWS, 60).
-define(NARROW, 72).
-define(MOST_FINDINGS, 3).

-doc "The first screen of these nodes, with a command's values.".
-spec new(#{nodes := [node(), ...], atom() => term()}) -> view().
new(#{nodes := [First | _] = Nodes} = Values) ->
    #{
        nodes => Nodes,
        node => First,
        sort => maps:get(sort, Values, reductions),
        grouped => maps:get(grouped, Values, false),
        filter => maps:get(filter, Values, ~""),
        typing => none,
        frozen => false,
        helping => false,
        readings => #{},
        findings => #{},
        history => #{},
        row => 0,
        detail => none,
        with_enter => false
    }.

-doc "Keys come as lines.".
-spec with_enter(view()) -> view().
with_enter(View) -> View#{with_enter := true}.

-doc "The request for the next reading.".
-spec ask(view()) -> dyno_agent_top:ask().
ask(#{sort := Sort, filter := Filter}) ->
    #{sort => Sort, filter => Filter, most => ?MOST_ROWS}.

-doc "Adds a reading; a frozen screen ignores it.".
-spec with_reading(node(), dyno_agent_top:reading() | {lost, unicode:chardata()}, view()) -> view().
with_reading(_Node, _Reading, #{frozen := true} = View) ->
    View;
with_reading(Node, Reading, #{readings := Readings, history := History} = View) ->
    View#{
        readings := Readings#{Node => Reading},
        history := History#{Node => remembered(Reading, maps:get(Node, History, []))}
    }.

-doc "Adds a node's findings from `m:dyno_health`.".
-spec with_findings(node(), [dyno_finding:t()], view()) -> view().
with_findings(Node, Found, #{findings := Findings} = View) ->
    View#{findings := Findings#{Node => Found}}.

remembered(#{values := Values}, Before) ->
    Of = fun(Name) -> maps:get(Name, Values, 0) end,
    Now = {
        Of(~"vm.scheduler_utilisation.normal"), Of(~"vm.run_queue.normal"), Of(~"vm.memory.total")
    },
    lists:sublist([Now | Before], ?HISTORY);
remembered({lost, _}, Before) ->
    Before.

-doc "The selected process, and its node.".
-spec selected(view()) -> {node(), pid()} | none.
selected(#{grouped := true}) ->
    none;
selected(#{node := Node, row := Row, readings := Readings}) ->
    case Readings of
        #{Node := #{rows := Rows}} when Row < length(Rows) ->
            {Node, maps:get(pid, lists:nth(Row + 1, Rows))};
        #{} ->
            none
    end.

-doc "Shows a process instead of the table, or the table again.".
-spec with_detail(#{atom() => term()} | none, view()) -> view().
with_detail(Detail, View) -> View#{detail := Detail}.

-doc "Applies a key; `detail` asks for `selected/1`, `ask` for another reading at once.".
-spec with_key(key(), view()) -> {draw | ask | detail | quit, view()}.
with_key(Key, #{typing := Typed} = View) when Typed =/= none ->
    typed(Key, Typed, View);
with_key(Key, View) when Key =:= $q; Key =:= 3 ->
    {quit, View};
with_key(escape, View) ->
    {draw, View#{detail := none, helping := false}};
with_key(Key, #{helping := Helping} = View) when Key =:= $h; Key =:= $? ->
    {draw, View#{helping := not Helping}};
with_key(Key, #{frozen := Frozen} = View) when Key =:= $f; Key =:= $\s ->
    {draw, View#{frozen := not Frozen}};
with_key($g, #{grouped := Grouped} = View) ->
    {draw, View#{grouped := not Grouped, row := 0}};
with_key($/, #{filter := Filter} = View) ->
    {draw, View#{typing := Filter}};
with_key($n, #{nodes := Nodes, node := Node} = View) ->
    [_ | After] = lists:dropwhile(fun(N) -> N =/= Node end, Nodes ++ [hd(Nodes)]),
    {draw, View#{node := hd(After ++ Nodes), row := 0, detail := none}};
with_key(up, #{row := Row} = View) ->
    {draw, View#{row := max(0, Row - 1)}};
with_key(down, #{row := Row} = View) ->
    {draw, View#{row := min(?MOST_ROWS - 1, Row + 1)}};
with_key(page_up, View) ->
    {draw, View#{row := 0}};
with_key(page_down, #{row := Row} = View) ->
    {draw, View#{row := min(?MOST_ROWS - 1, Row + 10)}};
with_key(enter, #{grouped := true, row := Row} = View) ->
    case group_at(Row, View) of
        none -> {draw, View};
        Group -> {ask, View#{grouped := false, filter := Group, row := 0}}
    end;
with_key(enter, View) ->
    {detail, View};
with_key(Key, View) ->
    case lists:keyfind(Key, 1, ?SORTS) of
        {Key, Sort} -> {ask, View#{sort := Sort, row := 0}};
        false -> {draw, View}
    end.

group_at(Row, #{node := Node, readings := Readings}) ->
    case Readings of
        #{Node := #{groups := Groups}} when Row < length(Groups) ->
            maps:get(group, lists:nth(Row + 1, Groups));
        #{} ->
            none
    end.

typed(enter, Typed, View) -> {ask, View#{filter := Typed, typing := none, row := 0}};
typed(escape, _Typed, View) -> {draw, View#{typing := none}};
typed(backspace, ~"", View) -> {draw, View};
typed(backspace, Typed, View) ->
    {draw, View#{typing := string:slice(Typed, 0, string:length(Typed) - 1)}};
typed(Key, Typed, View) when is_integer(Key), Key >= 32 ->
    {draw, View#{typing := <<Typed/binary, Key/utf8>>}};
typed(_Key, _Typed, View) -> {draw, View}.

-doc "The lines of a screen with a number of rows, none wider than the layout.".
-spec screen(view(), dyno_report_table:layout(), Rows :: pos_integer()) -> [iodata()].
screen(#{helping := true}, Layout, Rows) ->
    cut(help(), Layout, Rows);
screen(#{node := Node, readings := Readings, detail := Detail} = View, Layout, Rows) ->
    case Readings of
        #{Node := #{} = Reading} ->
            Head = head(Reading, View, Layout) ++ findings(View, Layout),
            Body =
                case Detail of
                    none -> table(Reading, View, Layout, Rows - length(Head) - 1);
                    _ -> detail(Detail)
                end,
            cut(filled(Head ++ Body, Rows - 1), Layout, Rows - 1) ++ [foot(View, Layout)];
        #{Node := {lost, Why}} ->
            Lost = filled([[atom_to_binary(Node), ": ", Why]], Rows - 1),
            cut(Lost, Layout, Rows - 1) ++ [foot(View, Layout)];
        #{} ->
            cut([[atom_to_binary(Node), ": the first reading comes"]], Layout, Rows)
    end.

filled(Lines, Rows) -> Lines ++ lists:duplicate(max(0, Rows - length(Lines)), ~"").

%% Escapes lines of text; lines of tables are already escaped.
cut(Lines, #{width := Width, charset := Charset}, Rows) ->
    [cut_line(Line, Width, Charset) || Line <- lists:sublist(Lines, max(1, Rows))].

cut_line({drawn, Line}, _Width, _Charset) ->
    Line;
cut_line(Line, Width, Charset) ->
    dyno_report_text:shorten(dyno_text:clean(dyno_report_text:encode(Line)), Width, Charset).

%% The head

head(#{values := Values, limits := Limits} = Reading, View, Layout) ->
    #{facts := Facts, threads := Threads} = Reading,
    #{node := Node, nodes := Nodes, history := History} = View,
    Past = maps:get(Node, History, []),
    Of = fun(Name, Unit) -> value(maps:get(Name, Values, unknown), Unit) end,
    #{release := Release, schedulers := Schedulers, up_ms := UpMs, time_ms := TimeMs} = Facts,
    Sparks = fun(Index) -> spark([element(Index, P) || P <- Past], Layout) end,
    [
        [
            atom_to_binary(Node), "  OTP ", Release, "  up ", up(UpMs), "  ", clock(TimeMs),
            [["  node ", position(Node, Nodes), " (n)"] || length(Nodes) > 1]
        ]
        | [
            fitting(Title, Parts, Layout)
         || {Title, Parts} <- [
                {"schedulers", [
                    [
                        Of(~"vm.scheduler_utilisation.normal", ~"ratio"), " of ",
                        number(Schedulers), Sparks(1)
                    ],
                    ["run queue ", Of(~"vm.run_queue.normal", ~"count"), Sparks(2)],
                    ["dirty CPU ", Of(~"vm.scheduler_utilisation.dirty_cpu", ~"ratio")],
                    io(Threads, Of)
                ]},
                {"memory", [
                    [Of(~"vm.memory.total", ~"B"), change(Past, Reading), Sparks(3)],
                    ["RSS ", Of(~"os.vm.rss", ~"B")],
                    ["processes ", Of(~"vm.memory.processes", ~"B")],
                    ["binaries ", Of(~"vm.memory.binary", ~"B")],
                    ["ETS ", Of(~"vm.memory.ets", ~"B")],
                    ["code ", Of(~"vm.memory.code", ~"B")]
                ]},
                {"limits", limits(Limits)},
                {"machine", [
                    ["CPU ", cpu(Values)],
                    ["VM ", Of(~"os.vm.cpu", ~"ratio"), " of a core"],
                    ["steal ", Of(~"os.cpu.steal", ~"ratio")],
                    ["I/O wait ", Of(~"os.cpu.iowait", ~"ratio")],
                    throttled(Values),
                    ["free ", Of(~"os.memory.available", ~"B")],
                    ["ports in ", Of(~"vm.io.input", ~"B/s")],
                    ["out ", Of(~"vm.io.output", ~"B/s")]
                ]}
            ]
        ]
    ].

%% The parts that fit; the first ones matter most.
fitting(Title, Parts, #{width := Width}) ->
    lists:foldl(
        fun(Part, Line) ->
            Longer = [Line, "  ", Part],
            case dyno_report_text:width(Longer) =< Width of
                _ when Part =:= "" -> Line;
                true -> Longer;
                false -> Line
            end
        end,
        string:pad(Title, 10),
        Parts
    ).

%% Values near their limit come first.
limits(Limits) ->
    All = [{-Used / Limit, limit(Name, Of)} || Name := {Used, Limit} = Of <- Limits],
    [Text || {_, Text} <- lists:keysort(1, All)].

findings(#{node := Node, findings := Findings}, #{width := Width}) ->
    case Findings of
        #{Node := []} ->
            Checks = number(length(dyno_health:checks())),
            [[string:pad("doctor", 10), "  nothing found by ", Checks, " checks"]];
        #{Node := Found} ->
            lists:append([
                told(Severity, Text, Width)
             || #{severity := Severity, text := Text} <- lists:sublist(Found, ?MOST_FINDINGS)
            ]);
        #{} ->
            []
    end.

told(Severity, Text, Width) ->
    Lines = lists:sublist(dyno_report_text:wrap(Text, Width - 12), 2),
    Titles = [atom_to_binary(Severity), ~""],
    [
        [string:pad(Title, 10), "  ", Line]
     || {Title, Line} <- lists:zip(lists:sublist(Titles, length(Lines)), Lines)
    ].

position(Node, Nodes) ->
    {Before, _} = lists:splitwith(fun(N) -> N =/= Node end, Nodes),
    io_lib:format("~b of ~b", [length(Before) + 1, length(Nodes)]).

%% A scheduler waiting in a system call is active without processor time.
io(#{dirty_io := #{worked_ns := Worked, cpu_ns := Cpu}}, Of) when
    Worked > 2 * Cpu, Worked > 50_000_000
->
    ["dirty I/O ", Of(~"vm.scheduler_utilisation.dirty_io", ~"ratio"), " (waits)"];
io(_, Of) ->
    ["dirty I/O ", Of(~"vm.scheduler_utilisation.dirty_io", ~"ratio")].

cpu(#{~"os.cpu.idle" := Idle} = Values) ->
    value(max(0, 1 - Idle - maps:get(~"os.cpu.iowait", Values, 0)), ~"ratio");
cpu(_) ->
    ~"-".

throttled(#{~"os.cgroup.throttled" := Share}) when Share > 0 ->
    ["throttled ", value(Share, ~"ratio")];
throttled(_) -> "".

change([{_, _, Now}, {_, _, Before} | _], #{interval_ns := Ns}) ->
    Rate = round((Now - Before) * 1.0e9 / Ns),
    Sign = if Rate < 0 -> " -"; true -> " +" end,
    [Sign, value(abs(Rate), ~"B/s")];
change(_, _) ->
    "".

limit(Name, {Count, Limit}) when Count > ?NEAR * Limit ->
    io_lib:format("~ts ~ts of ~ts: NEAR THE LIMIT", [Name, number(Count), number(Limit)]);
limit(Name, {Count, Limit}) ->
    io_lib:format("~ts ~ts of ~ts", [Name, number(Count), number(Limit)]).

spark(_Past, #{charset := ascii}) -> "";
spark(_Past, #{width := Width}) when Width < 120 -> "";
spark(Past, _Layout) ->
    Shown = lists:reverse(lists:sublist(Past, 30)),
    Most = lists:max([1.0e-9 | Shown]),
    [$\s, [16#2581 + min(7, trunc(8 * max(0, N) / Most)) || N <- Shown]].

%% The table

table(#{rows := []}, #{grouped := false, filter := Filter}, _Layout, _Room) when Filter =/= ~"" ->
    [~"", ["no process has \"", Filter, "\" in its name or group; / changes it"]];
table(#{interval_ns := Ns} = Reading, View, Layout, Room) ->
    #{grouped := Grouped, row := Selected} = View,
    Items = maps:get(if Grouped -> groups; true -> rows end, Reading),
    Columns = columns(Grouped, Ns, View, map_get(width, Layout)),
    %% Keeps the selected row visible.
    Fit = max(1, Room - 2),
    First = max(0, min(Selected, length(Items) - 1) - Fit + 1),
    Shown = lists:sublist(lists:nthtail(min(First, length(Items)), Items), Fit),
    [Titles | Lines] = dyno_report_table:lines(
        [#{title => Title, align => Align, fit => Of} || {Title, Align, Of, _} <- Columns],
        [[Cell(Item) || {_, _, _, Cell} <- Columns] || Item <- Shown],
        Layout#{width := map_get(width, Layout) - 2}
    ),
    Row = min(Selected, max(0, length(Items) - 1)) - First,
    [~"", {drawn, ["  ", Titles]}] ++
        [
            {drawn, [if N =:= Row -> "> "; true -> "  " end, Line]}
         || {N, Line} <- lists:enumerate(0, Lines)
        ].

columns(Grouped, Ns, #{sort := Sort}, Width) ->
    Title = fun(Name, Key) -> if Key =:= Sort -> <<Name/binary, "*">>; true -> Name end end,
    Number = fun(Name, Key, Unit) ->
        {Title(Name, Key), right, fixed, fun(#{Key := N}) -> value(N, Unit) end}
    end,
    Reductions =
        {Title(~"reds/s", reductions), right, fixed, fun
            (#{reductions := N}) when is_integer(N) -> value(N * 1.0e9 / Ns, ~"count");
            (_) -> ~"-"
        end},
    Queue =
        {Title(~"queue", queue), right, fixed, fun
            (#{queue := N}) when N > 1000 -> {bad, number(N)};
            (#{queue := N}) -> number(N)
        end},
    Growth =
        {Title(~"+/s", growth), right, fixed, fun
            (#{growth := N}) when is_integer(N), N =/= 0 -> signed(N * 1.0e9 / Ns);
            (#{growth := 0}) -> ~"0";
            (_) -> ~"-"
        end},
    Numbers = [Reductions, Queue, Growth, Number(~"memory", memory, ~"B")],
    Text = fun(Name, Key, Of) -> {Name, left, Of, fun(#{Key := Value}) -> Value end} end,
    case Grouped of
        true when Width < ?NARROW ->
            [Text(~"started with", group, flexible), Reductions, Queue];
        true ->
            [
                Text(~"processes started with", group, flexible),
                {~"number", right, fixed, fun(#{count := N}) -> number(N) end}
                | Numbers
            ];
        false when Width < ?NARROW ->
            [Text(~"process", name, flexible), Reductions, Queue];
        false ->
            [Text(~"process", name, flexible) | Numbers] ++
                [
                    {~"", left, fixed, fun(#{status := Status}) -> status(Status) end},
                    Text(~"is in", at, flexible),
                    Text(~"waits for", waits_for, optional),
                    {~"pid", left, optional, fun(#{pid := Pid}) -> pid(Pid) end}
                ]
    end.

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

signed(Rate) when Rate < 0 -> <<"-", (value(-Rate, ~"count"))/binary>>;
signed(Rate) -> <<"+", (value(Rate, ~"count"))/binary>>.

foot(#{typing := Typed}, Layout) when Typed =/= none ->
    hd(cut([["filter: ", Typed, "_   Enter sets it, Esc leaves it"]], Layout, 1));
foot(#{node := Node, readings := Readings, filter := Filter, frozen := Frozen} = View, Layout) ->
    Cost =
        case Readings of
            #{Node := #{took_us := Us, interval_ns := Ns, share := Share, processes := Count}} ->
                [
                    number(Count), " processes",
                    [io_lib:format(", ~ts read", [value(Share, ~"ratio")]) || Share < 1],
                    "; looking takes ", value(Us * 1000 / Ns, ~"ratio"), " of a scheduler"
                ];
            #{} ->
                ""
        end,
    hd(
        cut(
            [
                [
                    ["FROZEN (f)  " || Frozen], [["only ", Filter, "  "] || Filter =/= ~""], Cost,
                    case View of
                        #{with_enter := true} -> "  h Enter: help  q Enter: quit";
                        #{} -> "  h help  q quit"
                    end
                ]
            ],
            Layout,
            1
        )
    ).

help() ->
    [
        ~"dyno top",
        ~"",
        ~"r u w m    sort by reductions, queue, growth of the queue, memory",
        ~"g          one row for all processes that were started with the same function",
        ~"/          only processes with a text in their name or group",
        ~"up, down   select a row; Enter opens it: a process, or the processes of a group",
        ~"Esc        closes it",
        ~"f          freezes the screen, and goes on",
        ~"n          the next node",
        ~"q          quits",
        ~"",
        ~"reds/s is work; 4,000 reductions are about a millisecond at most.",
        ~"A queue in red has more than 1,000 messages; its process is not asked for its memory."
    ].

%% A process

detail(#{answered := false}) ->
    [
        ~"",
        ~"The process did not answer in a second: it runs native code, or the node is saturated.",
        ~"Esc closes this."
    ];
detail(#{ended := true}) ->
    [~"", ~"The process has ended. Esc closes this."];
detail(#{name := Name, group := Group, stack := Stack} = Detail) ->
    #{
        status := Status, message_queue_len := Queue, heap_bytes := Heap, priority := Priority,
        parent := Parent, link_count := LinkCount, links := Links, monitors := Monitors
    } = Detail,
    [
        ~"",
        [Name, "  started with ", Group, "  by ", Parent],
        [
            atom_to_binary(Status), ", priority ", atom_to_binary(Priority), ", ", number(Queue),
            " messages wait, heap ", value(Heap, ~"B")
        ],
        [number(LinkCount), " links: ", lists:join(", ", lists:sublist(Links, 8))],
        [number(length(Monitors)), " monitors: ", lists:join(", ", lists:sublist(Monitors, 8))],
        ~"",
        ~"Stack, the innermost first (Esc closes)"
    ] ++ [["  ", Frame] || Frame <- Stack].

%% For programs

-doc "One line for each node: for a pipe or a log.".
-spec plain(view()) -> [binary()].
plain(#{nodes := Nodes, readings := Readings}) ->
    [line(Node, maps:get(Node, Readings)) || Node <- Nodes, is_map_key(Node, Readings)].

line(Node, {lost, Why}) ->
    dyno_recording_part:text("~ts ~ts", [Node, dyno_text:clean(dyno_report_text:encode(Why))]);
line(Node, #{values := Values, facts := #{time_ms := TimeMs}, rows := Rows, processes := Count}) ->
    Of = fun(Name, Unit) ->
        re:replace(value(maps:get(Name, Values, unknown), Unit), " ", "", [{return, binary}])
    end,
    Longest = lists:max([0 | [Queue || #{queue := Queue} <- Rows]]),
    dyno_recording_part:text(
        "~ts ~ts utilisation=~ts run_queue=~ts memory=~ts rss=~ts processes=~b "
        "longest_queue=~b top=~ts",
        [
            stamp(TimeMs), Node, Of(~"vm.scheduler_utilisation.normal", ~"ratio"),
            Of(~"vm.run_queue.normal", ~"count"), Of(~"vm.memory.total", ~"B"),
            Of(~"os.vm.rss", ~"B"), Count, Longest,
            re:replace(hd([Name || #{name := Name} <- Rows] ++ [~"-"]), " ", "_", [global])
        ]
    ).

-doc "The same as data.".
-spec json(view()) -> #{binary() => term()}.
json(#{nodes := Nodes, readings := Readings}) ->
    #{
        ~"nodes" => [
            dyno_top:as_json(Node, maps:get(Node, Readings))
         || Node <- Nodes, is_map_key(Node, Readings)
        ]
    }.

%% Words

value(unknown, _Unit) -> ~"-";
value(Number, ~"ratio") -> dyno_unit:format(round(Number * 1000) / 1000, ~"ratio");
value(Number, Unit) -> dyno_unit:format(Number, Unit).

number(Count) -> dyno_unit:format(Count, ~"count").

up(Ms) ->
    {Days, {Hours, Minutes, Seconds}} = calendar:seconds_to_daystime(Ms div 1000),
    case {Days, Hours} of
        {0, 0} -> io_lib:format("~b:~2..0b", [Minutes, Seconds]);
        {0, _} -> io_lib:format("~b:~2..0b:~2..0b", [Hours, Minutes, Seconds]);
        _ -> io_lib:format("~b days ~b:~2..0b", [Days, Hours, Minutes])
    end.

clock(TimeMs) ->
    [_, Time] = string:split(stamp(TimeMs - TimeMs rem 1000), "T"),
    [hd(string:split(Time, ".")), "Z"].

stamp(TimeMs) ->
    calendar:system_time_to_rfc3339(TimeMs, [{unit, millisecond}, {offset, "Z"}]).
