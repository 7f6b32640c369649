%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_cli_top_draw).
-moduledoc "Draws `dyno top`: the node, the worst findings, the views, and a table. Pure.".

-export([screen/3, target/4]).

-import(dyno_cli_top_columns, [value/2, number/1, signed/2]).

%% From observer_cli: beyond this share of a limit the node is near its end.
-define(NEAR, 0.85).
-define(MOST_FINDINGS, 3).
-define(SPARK, 20).
%% Narrower screens have no room for sparklines.
-define(WIDE, 110).

%% With targets by column, if a line has several.
-type line() :: {
    dyno_cli_top_keys:target()
    | [{From :: pos_integer(), To :: pos_integer(), dyno_cli_top_keys:target()}],
    iodata()
}.

-doc "The lines of a screen with a number of rows, none wider than the layout.".
-spec screen(dyno_cli_top_view:view(), dyno_report_table:layout(), Rows :: pos_integer()) ->
    [iodata()].
screen(View, Layout, Rows) -> [Line || {_, Line} <- lines(View, Layout, Rows)].

-doc "What is drawn at a column and a row, which count from 1.".
-spec target(
    {pos_integer(), pos_integer()},
    dyno_cli_top_view:view(),
    dyno_report_table:layout(),
    pos_integer()
) ->
    dyno_cli_top_keys:target().
target({Column, Row}, View, Layout, Rows) ->
    case lists:sublist(lines(View, Layout, Rows), Row, 1) of
        [{Targets, _}] when is_list(Targets) ->
            hd([Of || {From, To, Of} <- Targets, Column >= From, Column =< To] ++ [none]);
        [{Target, _}] ->
            Target;
        [] ->
            none
    end.

-spec lines(dyno_cli_top_view:view(), dyno_report_table:layout(), pos_integer()) -> [line()].
lines(#{helping := true, input := Input}, Layout, Rows) ->
    cut(help(Input), Layout, Rows);
lines(#{node := Node, readings := Readings, detail := Detail} = View, Layout, Rows) ->
    Body =
        case Readings of
            #{Node := #{} = Reading} ->
                Head = head(Reading, View, Layout),
                Found = findings(View, Layout),
                Room = max(0, Rows - length(Head) - 1),
                case Detail of
                    none -> Head ++ Found ++ table(Reading, View, Layout, Room - length(Found));
                    #{from := From} -> Head ++ scrolled(From, Room, detail(Detail))
                end;
            #{Node := {lost, Why}} ->
                Text = dyno_recording_part:text("~ts: ~ts", [Node, dyno_report_text:encode(Why)]),
                dyno_report_text:wrap(Text, map_get(width, Layout));
            #{} ->
                [[atom_to_binary(Node), ": the first reading comes"]]
        end,
    cut(filled(Body, Rows - 1), Layout, Rows - 1) ++ cut([foot(View, Layout)], Layout, 1).

%% The lines that fit; the last one says how many do not.
scrolled(From, Room, Lines) ->
    First = min(From, max(0, length(Lines) - Room)),
    case length(Lines) - First - Room of
        More when More > 0, Room > 1 ->
            lists:sublist(Lines, First + 1, Room - 1) ++
                [io_lib:format("~b more lines: down, Page Down", [More + 1])];
        _ ->
            lists:nthtail(First, Lines)
    end.

filled(Lines, Rows) -> Lines ++ lists:duplicate(max(0, Rows - length(Lines)), ~"").

%% Escapes lines of text; drawn lines are already escaped.
cut(Lines, #{width := Width, charset := Charset}, Rows) ->
    [cut_line(Line, Width, Charset) || Line <- lists:sublist(Lines, max(1, Rows))].

cut_line({drawn, Target, Line}, _Width, _Charset) ->
    {Target, Line};
cut_line(Line, Width, Charset) ->
    Clean = dyno_text:clean(dyno_report_text:encode(Line)),
    {none, dyno_report_text:shorten(Clean, Width, Charset)}.

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
            atom_to_binary(Node),
            "  OTP ",
            Release,
            "  up ",
            up(UpMs),
            "  ",
            clock(TimeMs),
            [["  node ", position(Node, Nodes), " (n)"] || length(Nodes) > 1]
        ]
        | [
            fitting(Title, Parts, Layout)
         || {Title, Parts} <- [
                {"schedulers", [
                    [
                        Of(~"vm.scheduler_utilisation.normal", ~"ratio"),
                        " of ",
                        number(Schedulers),
                        Sparks(1)
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
    Lines =
        case dyno_report_text:wrap(Text, Width - 12) of
            [First, Second, _ | _] ->
                [First, dyno_report_text:shorten(<<Second/binary, " ...">>, Width - 12, ascii)];
            Few ->
                Few
        end,
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
throttled(_) ->
    "".

change([{_, _, Now}, {_, _, Before} | _], #{interval_ns := Ns}) ->
    case round((Now - Before) * 1.0e9 / Ns) of
        0 -> "";
        Change -> [$\s, signed(Change, ~"B/s")]
    end;
change(_, _) ->
    "".

limit(Name, {Count, Limit}) when Count > ?NEAR * Limit ->
    io_lib:format("~ts ~ts of ~ts: NEAR THE LIMIT", [Name, number(Count), number(Limit)]);
limit(Name, {Count, Limit}) ->
    io_lib:format("~ts ~ts of ~ts", [Name, number(Count), number(Limit)]).

spark(_Past, #{charset := ascii}) ->
    "";
spark(_Past, #{width := Width}) when Width < ?WIDE -> "";
spark(Past, #{width := Width}) ->
    Shown = lists:reverse(lists:sublist(Past, min(60, ?SPARK + (Width - ?WIDE) div 3))),
    Most = lists:max([1.0e-9 | Shown]),
    [$\s, [16#2581 + min(7, trunc(8 * max(0, N) / Most)) || N <- Shown]].

%% The table

table(#{view := Read}, #{shown := Shown} = View, Layout, _Room) when Read =/= Shown ->
    [views(View, Layout), ~"", ~"the first reading of this view comes"];
table(#{interval_ns := Ns, notes := Notes} = Reading, View, Layout, Room) ->
    #{shown := Shown, grouped := Grouped, row := Selected} = View,
    Items = dyno_cli_top_view:items(Reading, View),
    Columns = dyno_cli_top_columns:columns(Shown, Grouped, map_get(width, Layout)),
    %% Keeps the selected row visible.
    Fit = max(1, Room - 2 - length(Notes)),
    First = max(0, min(Selected, length(Items) - 1) - Fit + 1),
    Visible = lists:sublist(Items, First + 1, Fit),
    #{sort := Sort} = dyno_cli_top_view:ask(View),
    Title = fun
        (Name, Key) when Key =:= Sort -> <<Name/binary, "*">>;
        (Name, _Key) -> Name
    end,
    [Titles | Lines] = dyno_report_table:lines(
        [
            #{title => Title(Name, Key), align => align(Kind), fit => Of}
         || {Name, Key, Kind, Of} <- Columns
        ],
        [dyno_cli_top_columns:cells(Columns, Item, Ns) || Item <- Visible],
        Layout#{width := map_get(width, Layout) - 2}
    ),
    Row = max(0, min(Selected, length(Items) - 1)),
    [views(View, Layout) | Notes] ++
        case Items of
            [] -> [~"", nothing(View)];
            _ -> [{drawn, heads(Titles, Columns), ["  ", Titles]}]
        end ++
        [
            {drawn, {row, N}, [maps:get(N, #{Row => "> "}, "  "), Line]}
         || {N, Line} <- lists:enumerate(First, Lines)
        ].

align(Kind) when is_tuple(Kind); Kind =:= queue -> right;
align(_) -> left.

nothing(#{filter := Filter}) when Filter =/= ~"" ->
    ["nothing has \"", Filter, "\" in its name; / changes it"];
nothing(#{shown := mnesia}) ->
    ~"Mnesia does not run in this node.";
nothing(#{shown := nodes}) ->
    ~"No other node is connected.";
nothing(_) ->
    ~"There is nothing to show.".

%% A click on a title sorts by its column.
heads(Titles, Columns) ->
    Plain = re:replace(Titles, "\e\\[[0-9;]*m", "", [global, unicode, {return, binary}]),
    {Places, _} = lists:mapfoldl(
        fun({Name, Key, Kind, _}, From) ->
            case binary:match(Plain, Name, [{scope, {From, byte_size(Plain) - From}}]) of
                {At, Length} ->
                    Target =
                        case align(Kind) of
                            right -> {sort, Key};
                            left -> none
                        end,
                    {{At + 3, At + 3 + Length, Target}, At + Length};
                nomatch ->
                    {{0, 0, none}, From}
            end
        end,
        0,
        [Column || {Name, _, _, _} = Column <- Columns, Name =/= ~""]
    ),
    Places.

%% The line of all views; the shown one is marked.
views(#{shown := Shown}, #{width := Width, colour := Colour}) ->
    All = [
        {V, unicode:characters_to_list([Key, $\s, Title, [$* || V =:= Shown]])}
     || {Key, V, Title, _} <- dyno_cli_top_columns:views()
    ],
    %% A narrow screen has room for the shown one only.
    Texts =
        case lists:sum([length(Text) + 2 || {_, Text} <- All]) - 2 =< Width of
            true -> All;
            false -> [Entry || {V, _} = Entry <- All, V =:= Shown]
        end,
    {Targets, _} = lists:mapfoldl(
        fun({V, Text}, At) -> {{At, At + length(Text), {view, V}}, At + length(Text) + 2} end,
        1,
        Texts
    ),
    Painted = [
        dyno_report_style:paint(Colour, maps:get(V, #{Shown => title}, dim), Text)
     || {V, Text} <- Texts
    ],
    {drawn, Targets, lists:join("  ", Painted)}.

foot(#{typing := Typed}, _Layout) when Typed =/= none ->
    ["filter: ", Typed, "_   Enter sets it, Ctrl-U erases it, Esc keeps the old one"];
foot(#{filter := Filter, frozen := Frozen, input := Input} = View, Layout) ->
    #{width := Width, charset := Charset} = Layout,
    Rest = [
        cost(View),
        case Input of
            lines -> "  h Enter: help  q Enter: quit";
            raw -> "  h help  q quit"
        end
    ],
    Froze = ["FROZEN  " || Frozen],
    Room = max(8, Width - dyno_report_text:width([Froze, Rest]) - 7),
    [
        Froze,
        [["only ", dyno_report_text:shorten(Filter, Room, Charset), "  "] || Filter =/= ~""],
        Rest
    ].

cost(#{node := Node, readings := Readings, looks := Looks}) ->
    case Readings of
        #{Node := #{} = Reading} ->
            #{view := Of, share := Share, count := Count, processes := Processes} = Reading,
            [
                number(Processes),
                " processes",
                [[", ", number(Count), $\s, title(Of)] || Of =/= processes, Count > 1],
                [[", ", value(Share, ~"ratio"), " read"] || Share < 1, Count > 0],
                "; cost ",
                %% That of the looks is not known yet.
                ["> " || not is_map_key(Node, Looks), dyno_top:is_examined(Processes)],
                value(dyno_top:cost(Reading, maps:get(Node, Looks, 0.0)), ~"ratio"),
                " of a scheduler"
            ];
        #{} ->
            ""
    end.

title(View) ->
    {_, _, _, Items} = lists:keyfind(View, 2, dyno_cli_top_columns:views()),
    Items.

help(Input) ->
    [
        ~"dyno top",
        ~"",
        ~"1 to 8, Tab  shows another view of the node, as in the line above the table",
        ~"s            sorts by the next column, * marks it; r u w m sort by reductions,",
        ~"             queue, growth, memory",
        ~"g            one row for all processes started with the same function, for all",
        ~"             tables of a name, or for all ports of a kind",
        ~"/            only items with a text in their name; app:ssl: processes of ssl;",
        ~"             an empty text: all items",
        ~"up, down     select a row; Enter opens it: a process, the owner of a table or",
        ~"             port, the processes of a group or application",
        ~"S            asks the open process for its state; Enter reads it again, the",
        ~"             arrows scroll, Esc closes it",
        ~"f            freezes the screen, and goes on",
        ~"n            the next node",
        ~"q            quits",
        ~"",
        ~"reds/s is work; 4,000 reductions are about a millisecond at most.",
        ~"A red queue has more than 1,000 messages; the memory of its process is not read.",
        ~"- is a value that is not known, such as a rate in the first reading."
    ] ++
        [
            ~"Click on a view, on a column's title, on a row; click again to open the row."
         || Input =:= raw
        ] ++ [~"Any key closes this."].

%% A process

detail(#{answered := false}) ->
    [
        ~"",
        ~"The process did not answer in a second: it runs native code, or the node is saturated.",
        ~"Esc closes this."
    ];
detail(#{ended := true}) ->
    [~"", ~"The process has ended. Esc closes this."];
detail(#{name := Name, group := Group, stack := Stack, at_ms := AtMs} = Detail) ->
    Of = fun(Key) -> map_get(Key, Detail) end,
    [
        ~"",
        [Name, "  started with ", Group, "  by ", Of(parent)],
        io_lib:format("~ts, priority ~ts, ~ts messages wait, heap ~ts", [
            Of(status), Of(priority), number(Of(message_queue_len)), value(Of(heap_bytes), ~"B")
        ]),
        listed(Of(link_count), "link", Of(links)),
        listed(Of(monitor_count), "monitor", Of(monitors)),
        dictionary(Of(dictionary)),
        ~""
    ] ++ state(maps:get(state, Detail, none)) ++
        [
            ["Stack at ", clock(AtMs), ", the innermost first (Enter reads again, Esc closes)"]
            | [["  ", Frame] || Frame <- Stack]
        ].

state(none) -> [~"state: S asks the process for it (sys:get_state/2)"];
state({error, Why}) -> [["state: ", Why]];
state({ok, Lines}) -> [~"State" | [["  ", Line] || Line <- Lines]] ++ [~""].

dictionary(unknown) -> ~"dictionary: not read, the process is large or has a long queue";
dictionary(Pairs) -> listed(length(Pairs), "dictionary key", Pairs).

listed(0, What, _) ->
    ["no ", What, "s"];
listed(1, What, [Of | _]) ->
    ["1 ", What, ": ", Of];
listed(Count, What, Of) ->
    [number(Count), " ", What, "s: ", lists:join(", ", lists:sublist(Of, 8))].

%% Words

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
