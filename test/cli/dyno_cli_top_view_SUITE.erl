%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_cli_top_view_SUITE).
-moduledoc "The screen of `dyno top`: what is on it in each state and size, and what keys do.".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

newest_release_only() -> all().

all() ->
    [
        shows_what_matters,
        keys_sort,
        groups_and_opens,
        filters,
        freezes,
        selects_and_opens,
        keys_that_end,
        shows_the_worst_findings,
        lost_nodes,
        several_nodes,
        hostile_names,
        keys_are_decoded,
        is_json,
        shows_views,
        sorts_views,
        opens_rows_of_views,
        mouse
    ].

layout(Width) -> #{width => Width, indent => 0, colour => off, charset => unicode}.

row(Name, Reductions, Queue) ->
    #{
        pid => self(),
        name => Name,
        group => <<Name/binary, ":init/1">>,
        reductions => Reductions,
        queue => Queue,
        growth => 4,
        memory => 5000,
        status => waiting,
        at => ~"gen_server:loop/5",
        waits_for => ~"stock"
    }.

reading(Rows) ->
    #{
        interval_ns => 2_000_000_000,
        values => #{
            ~"vm.scheduler_utilisation.normal" => 0.42,
            ~"vm.run_queue.normal" => 3,
            ~"vm.memory.total" => 812_000_000,
            ~"os.cpu.idle" => 0.25,
            ~"os.cpu.iowait" => 0.05
        },
        threads => #{
            dirty_io => #{worked_ns => 1_000_000_000, cpu_ns => 1000, ready_ns => 0}
        },
        limits => #{
            processes => {100, 1000}, ports => {990, 1000}, atoms => {5, 1000}, ets => {1, 1000}
        },
        facts => #{
            release => ~"29", schedulers => 2, up_ms => 3_723_000, time_ms => 1_764_000_000_000
        },
        processes => length(Rows),
        view => processes,
        count => length(Rows),
        share => 1.0,
        notes => [],
        rows => Rows,
        groups => [
            #{
                group => ~"conn:init/1",
                count => 100_000,
                reductions => 7,
                queue => 0,
                growth => 0,
                memory => 9
            }
        ],
        took_us => 2000
    }.

view(Rows) ->
    dyno_cli_top_view:with_reading(a@b, reading(Rows), dyno_cli_top_view:new(#{nodes => [a@b]})).

lines(View, Width, Height) ->
    [
        dyno_report_text:encode(Line)
     || Line <- dyno_cli_top_draw:screen(View, layout(Width), Height)
    ].

text(View) -> iolist_to_binary(lists:join($\n, lines(View, 160, 40))).

keys(Keys, View) ->
    lists:foldl(fun(Key, {_, V}) -> dyno_cli_top_keys:with_key(Key, V) end, {draw, View}, Keys).

has(Part, View) -> ?assertMatch({_, _}, binary:match(text(View), Part), text(View)).

lacks(Part, View) -> ?assertEqual(nomatch, binary:match(text(View), Part), text(View)).

shows_what_matters(_Config) ->
    View = view([row(~"orders", 4000, 2500)]),
    [
        has(Part, View)
     || Part <- [
            ~"42 % of 2",
            ~"run queue 3",
            ~"up 1:02:03",
            ~"CPU 70 %",
            ~"2000",
            ~"waits for",
            ~"stock",
            ~"(waits)",
            ~"cost > 0.1 % of a scheduler",
            ~"ports 990 of 1000: NEAR THE LIMIT"
        ]
    ],
    %% The one near its limit comes first.
    {Near, _} = binary:match(text(View), ~"ports 990"),
    {Other, _} = binary:match(text(View), ~"processes 100"),
    ?assert(Near < Other),
    has(~"2.1 % of a scheduler", dyno_cli_top_view:with_findings(a@b, {[], 0.02}, View)),
    lacks(~"cost >", dyno_cli_top_view:with_findings(a@b, {[], 0.02}, View)),
    %% Not known is not nothing.
    Unknown = (row(~"new", 1, 1))#{reductions := unknown, growth := unknown, memory := unknown},
    has(~"      -      1    -       -", view([Unknown])),
    has(~"RSS -", View).

keys_sort(_Config) ->
    [
        begin
            {ask, View} = dyno_cli_top_keys:with_key(Key, view([])),
            ?assertMatch(#{sort := Sort}, dyno_cli_top_view:ask(View))
        end
     || {Key, Sort} <- [{$r, reductions}, {$u, queue}, {$w, growth}, {$m, memory}]
    ].

groups_and_opens(_Config) ->
    {draw, Grouped} = keys([$g], view([row(~"orders", 1, 1)])),
    has(~"100 k", Grouped),
    lacks(~"orders", Grouped),
    ?assertEqual(none, dyno_cli_top_view:selected(Grouped)),
    {ask, Opened} = keys([enter], Grouped),
    ?assertMatch(#{filter := ~"conn:init/1"}, dyno_cli_top_view:ask(Opened)),
    has(~"orders", Opened).

filters(_Config) ->
    {draw, Typing} = keys([$/, $o, $q, backspace, $r], view([row(~"orders", 1, 1)])),
    has(~"filter: or_", Typing),
    ?assertMatch(#{filter := ~""}, dyno_cli_top_view:ask(Typing)),
    {ask, Set} = keys([enter], Typing),
    ?assertMatch(#{filter := ~"or"}, dyno_cli_top_view:ask(Set)),
    has(~"only or", Set),
    {draw, Left} = keys([$/, $x, escape], Set),
    ?assertMatch(#{filter := ~"or"}, dyno_cli_top_view:ask(Left)),
    {draw, #{typing := ~"y"}} = keys([$/, $x, 21, $y], Set),
    %% A long one leaves room for the rest of the line.
    {ask, Long} = keys([$/ | lists:duplicate(70, $o)] ++ [enter], view([row(~"orders", 1, 1)])),
    ?assertMatch({_, _}, binary:match(lists:last(lines(Long, 80, 24)), ~"1 processes; cost")),
    {ask, Nothing} = keys([$/, $z, enter], view([])),
    has(~"nothing has \"z\"", Nothing).

freezes(_Config) ->
    {draw, Frozen} = keys([$f], view([row(~"orders", 1, 1)])),
    Later = dyno_cli_top_view:with_reading(a@b, reading([row(~"other", 1, 1)]), Frozen),
    has(~"FROZEN", Later),
    has(~"orders", Later),
    {draw, On} = keys([$f], Later),
    has(~"other", dyno_cli_top_view:with_reading(a@b, reading([row(~"other", 1, 1)]), On)).

selects_and_opens(_Config) ->
    Rows = [row(<<"server", (integer_to_binary(N))/binary>>, N, N) || N <- lists:seq(1, 60)],
    {detail, View} = keys(lists:duplicate(40, down) ++ [enter], view(Rows)),
    ?assertEqual({a@b, self()}, dyno_cli_top_view:selected(View)),
    %% The selected row is in sight.
    ?assertMatch([_], [L || <<"> server41 ", _/binary>> = L <- lines(View, 80, 24)]),
    Detail = #{
        at_ms => 1_700_000_000_000,
        answered => true,
        ended => false,
        name => ~"server41",
        group => ~"g:init/1",
        stack => [~"shop:price/2 (shop.erl:12)"],
        status => waiting,
        message_queue_len => 7,
        heap_bytes => 800,
        priority => normal,
        parent => ~"shop_sup",
        link_count => 1,
        links => [~"shop_sup"],
        monitors => [],
        monitor_count => 0,
        dictionary => [~"cart: 7"]
    },
    has(~"1 dictionary key: cart: 7", dyno_cli_top_view:with_detail(Detail, View)),
    Large = Detail#{dictionary := unknown},
    has(~"dictionary: not read", dyno_cli_top_view:with_detail(Large, View)),
    has(~"shop.erl:12", dyno_cli_top_view:with_detail(Detail, View)),
    has(~"did not answer", dyno_cli_top_view:with_detail(#{answered => false}, View)),
    has(~"has ended", dyno_cli_top_view:with_detail(#{answered => true, ended => true}, View)),
    {state, Open} = keys([$S], dyno_cli_top_view:with_detail(Detail, View)),
    has(~"S asks the process", Open),
    has(~"{state,7}", dyno_cli_top_view:with_detail(Detail#{state => {ok, [~"{state,7}"]}}, View)),
    has(
        ~"state: not asked",
        dyno_cli_top_view:with_detail(Detail#{state => {error, ~"not asked"}}, View)
    ),
    {draw, _} = keys([$S], View),
    {draw, Closed} = keys([escape], dyno_cli_top_view:with_detail(Detail, View)),
    lacks(~"shop.erl:12", Closed),
    %% Enter reads the open process again, whatever the selected row is by now.
    {detail, _} = keys([enter], dyno_cli_top_view:with_detail(Detail, View)),
    %% A deep stack says how much of it is not shown.
    Stack = [<<"shop:deep/", (integer_to_binary(N))/binary>> || N <- lists:seq(1, 30)],
    Deep = dyno_cli_top_view:with_detail(Detail#{stack := Stack}, View),
    Shown = fun(V) -> iolist_to_binary(lists:join($\n, lines(V, 80, 24))) end,
    ?assertMatch({_, _}, binary:match(Shown(Deep), ~" more lines")),
    {draw, Last} = keys(lists:duplicate(9, page_down), Deep),
    ?assertMatch({_, _}, binary:match(Shown(Last), ~"shop:deep/30")),
    ?assertEqual(nomatch, binary:match(Shown(Last), ~" more lines")),
    ?assertEqual(24, length(lines(Last, 80, 24))).

%% Ctrl-C ends it also while a filter is typed; a key in the help does nothing behind it.
keys_that_end(_Config) ->
    View = view([row(~"orders", 1, 1)]),
    {quit, _} = keys([$/, $a, 3], View),
    {draw, #{typing := ~"q"}} = keys([$/, $q], View),
    {draw, Closed} = keys([$h, enter], View),
    ?assertEqual(View, Closed),
    {quit, _} = keys([$h, $q], View).

shows_the_worst_findings(_Config) ->
    View = view([row(~"orders", 1, 1)]),
    lacks(~"nothing found", View),
    has(~"nothing found by ", dyno_cli_top_view:with_findings(a@b, {[], 0.0}, View)),
    Finding = fun(N) ->
        dyno_finding:new(some_check, none, #{
            severity => critical,
            text => <<"fault ", (integer_to_binary(N))/binary>>,
            advice => ~"x"
        })
    end,
    Found = dyno_cli_top_view:with_findings(a@b, {[Finding(N) || N <- lists:seq(1, 5)], 0.0}, View),
    has(~"critical    fault 1", Found),
    has(~"fault 3", Found),
    lacks(~"fault 4", Found),
    ?assertEqual(24, length(lines(Found, 80, 24))),
    %% One that is cut off says so.
    Long = (Finding(1))#{text := iolist_to_binary(lists:duplicate(40, "long words "))},
    Cut = dyno_cli_top_view:with_findings(a@b, {[Long], 0.0}, View),
    ?assertMatch({_, _}, binary:match(iolist_to_binary(lines(Cut, 80, 24)), ~"long words ...")).

lost_nodes(_Config) ->
    Lost = dyno_cli_top_view:with_reading(a@b, {lost, "a@b is not running"}, view([])),
    has(~"a@b: a@b is not running", Lost),
    %% A long sentence is read to its end.
    Long = ["a@b ", lists:duplicate(12, "does not answer "), "at all"],
    Shown = lines(dyno_cli_top_view:with_reading(a@b, {lost, Long}, view([])), 80, 24),
    ?assertMatch({_, _}, binary:match(iolist_to_binary(Shown), ~"at all")),
    ?assertMatch([<<"a@b a@b is not running">>], dyno_cli_top_view:plain(Lost)),
    ?assertMatch(#{~"nodes" := [#{~"error" := _}]}, dyno_cli_top_view:json(Lost)).

several_nodes(_Config) ->
    New = dyno_cli_top_view:new(#{nodes => [a@b, c@d]}),
    View = dyno_cli_top_view:with_reading(a@b, reading([row(~"orders", 1, 1)]), New),
    has(~"node 1 of 2", View),
    {draw, Next} = keys([$n], View),
    has(~"c@d: the first reading comes", Next),
    {draw, Again} = keys([$n], Next),
    has(~"orders", Again).

%% A process is named by whoever wrote the system.
hostile_names(_Config) ->
    lacks(~"\e", view([row(~"a\e[2Jb", 1, 1)])).

keys_are_decoded(_Config) ->
    ?assertEqual(
        [$g, up, down, page_down, enter, backspace], dyno_cli_top_input:decode("g\e[A\eOB\e[6~\r\d")
    ),
    %% Escape, then a key; a sequence that is not known.
    ?assertEqual([escape, $n], dyno_cli_top_input:decode("\en")),
    ?assertEqual([escape], dyno_cli_top_input:decode("\e")),
    ?assertEqual([$q], dyno_cli_top_input:decode("\e[15~q")),
    %% A slow connection may divide a sequence.
    ?assertEqual({"q", "\e[<0;5;1"}, dyno_cli_top_input:whole("q\e[<0;5;1")),
    ?assertEqual({"\e[<0;5;1Mé", ""}, dyno_cli_top_input:whole("\e[<0;5;1Mé")),
    ?assertEqual({"q\e", ""}, dyno_cli_top_input:whole("q\e")),
    ?assertEqual([$/, $a, $b, enter], dyno_cli_top_input:line("/ab")),
    ?assertEqual([$g], dyno_cli_top_input:line("g")).

is_json(_Config) ->
    Row = (row(~"orders", 4000, 25))#{memory := unknown},
    #{~"nodes" := [#{~"top" := [Shown]}]} =
        json:decode(iolist_to_binary(json:encode(dyno_cli_top_view:json(view([Row]))))),
    ?assertMatch(#{~"name" := ~"orders", ~"memory" := null, ~"queue" := 25}, Shown),
    [Line] = dyno_cli_top_view:plain(view([Row])),
    ?assertMatch({_, _}, binary:match(Line, ~"utilisation=42% run_queue=3 memory=812MB rss=- ")),
    %% The longest queue may be of a process that is not shown, or not read yet.
    Longest = fun(Of) ->
        Reading = maps:merge(reading([Row]), Of),
        [Text] = dyno_cli_top_view:plain(
            dyno_cli_top_view:with_reading(a@b, Reading, view([]))
        ),
        {match, [Told]} = re:run(Text, "longest_queue=(.*)", [{capture, all_but_first, binary}]),
        Told
    end,
    ?assertEqual(~"900 top=orders", Longest(#{longest_queue => {exact, 900}})),
    Part = #{longest_queue => {at_least, 0}, share => 0.1},
    ?assertEqual(~"- top=orders read=10%", Longest(Part)),
    ?assertEqual(
        ~">=900 top=orders read=10%", Longest(Part#{longest_queue := {at_least, 900}})
    ).

%% Other views

-define(VIEWS, [processes, applications, supervisors, ets, mnesia, ports, memory, nodes]).

item(ets) ->
    #{
        name => ~"sessions",
        group => ~"sessions",
        objects => 1200,
        growth => 75.0,
        bytes => 812_000,
        pid => self(),
        owner => ~"session_sup",
        kind => ~"set, public"
    };
item(ports) ->
    #{
        name => ~"tcp accepted at 8080",
        group => ~"tcp accepted at 8080",
        input => 1.0e6,
        output => unknown,
        waiting => 0,
        at => ~"10.0.0.7:50111",
        owner => ~"conn",
        pid => self()
    };
item(memory) ->
    #{
        name => ~"eheap_alloc",
        group => ~"process heaps",
        held => 1.0e9,
        used => 4.0e7,
        unused => 9.6e8,
        utilisation => 0.04,
        growth => -2.0e6
    };
item(applications) ->
    (item(processes))#{group => ~"ssl", name => ~"ssl", count => 12};
item(supervisors) ->
    (row(~"shop_sup", 1, 1))#{started => 40, ended => 40, children => 3, application => ~"shop"};
item(mnesia) ->
    (item(ets))#{storage => ~"memory and disk", copies => 2};
item(nodes) ->
    #{name => ~"c@d", group => ~"hidden", input => 5.0, output => 6.0, waiting => 100};
item(processes) ->
    row(~"orders", 4000, 25).

shown(View, Items) ->
    {_, Asked} = keys(
        [
            case View of
                processes -> $1;
                _ -> key(View)
            end
        ],
        view([])
    ),
    Reading = (reading(Items))#{view := View, groups := [], notes := [~"a note"]},
    dyno_cli_top_view:with_reading(a@b, Reading, Asked).

key(View) ->
    {Key, View, _, _} = lists:keyfind(View, 2, dyno_cli_top_columns:views()),
    Key.

shows_views(_Config) ->
    ?assertEqual(?VIEWS, [View || {_, View, _, _} <- dyno_cli_top_columns:views()]),
    [
        begin
            Screen = shown(View, [item(View)]),
            ?assertMatch(#{view := View}, dyno_cli_top_view:ask(Screen)),
            [
                begin
                    {_, V} = keys(Keys, Screen),
                    Lines = lines(V, Width, Height),
                    ?assertEqual(Height, length(Lines)),
                    [?assert(dyno_report_text:width(Line) =< Width, Line) || Line <- Lines]
                end
             || {Width, Height} <- [{80, 24}, {200, 60}, {40, 10}], Keys <- [[], [$g], [$/]]
            ],
            has(maps:get(name, item(View)), Screen),
            has(~"a note", Screen),
            #{~"nodes" := [#{~"top" := [_], ~"view" := _}]} =
                json:decode(iolist_to_binary(json:encode(dyno_cli_top_view:json(Screen)))),
            [_] = dyno_cli_top_view:plain(Screen)
        end
     || View <- ?VIEWS
    ],
    has(~"+75", shown(ets, [item(ets)])),
    has(~"-2 MB", shown(memory, [item(memory)])),
    %% Not known is not nothing.
    has(~"1 MB/s     -    0 B", shown(ports, [item(ports)])),
    has(~"Mnesia does not run", shown(mnesia, [])),
    %% All views stand in a line of 80 columns.
    ?assertMatch([_], [
        L
     || <<"1 processes", _/binary>> = L <- lines(shown(ets, []), 80, 24),
        binary:match(L, ~"8 nodes") =/= nomatch
    ]),
    %% The reading of another view is not shown under the titles of this one.
    {ask, Early} = keys([$4], view([row(~"orders", 1, 1)])),
    lacks(~"orders", Early),
    has(~"first reading of this view", Early).

sorts_views(_Config) ->
    Screen = shown(ets, [item(ets)]),
    ?assertMatch(#{sort := bytes}, dyno_cli_top_view:ask(Screen)),
    {ask, Growth} = keys([$w], Screen),
    ?assertMatch(#{sort := growth}, dyno_cli_top_view:ask(Growth)),
    %% The next column, and round.
    {ask, Bytes} = keys([$s], Growth),
    ?assertMatch(#{sort := bytes}, dyno_cli_top_view:ask(Bytes)),
    {ask, First} = keys([$s], Bytes),
    ?assertMatch(#{sort := objects}, dyno_cli_top_view:ask(First)),
    %% Each view keeps its own.
    {ask, Back} = keys([$1, $4], First),
    ?assertMatch(#{view := ets, sort := objects}, dyno_cli_top_view:ask(Back)),
    {ask, Next} = keys([tab], Back),
    ?assertMatch(#{view := mnesia}, dyno_cli_top_view:ask(Next)),
    {ask, Last} = keys([back_tab], view([])),
    ?assertMatch(#{view := nodes}, dyno_cli_top_view:ask(Last)),
    %% A command's sort key is called otherwise here.
    New = dyno_cli_top_view:new(#{nodes => [a@b], view => ets, sort => memory}),
    ?assertMatch(#{view := ets, sort := bytes}, dyno_cli_top_view:ask(New)),
    {draw, Ungrouped} = keys([$g], shown(memory, [item(memory)])),
    has(~"eheap_alloc", Ungrouped).

opens_rows_of_views(_Config) ->
    {detail, Table} = keys([enter], shown(ets, [item(ets)])),
    ?assertEqual({a@b, self()}, dyno_cli_top_view:selected(Table)),
    {ask, Application} = keys([enter], shown(applications, [item(applications)])),
    ?assertMatch(#{view := processes, filter := ~"app:ssl"}, dyno_cli_top_view:ask(Application)),
    {draw, _} = keys([enter], shown(memory, [item(memory)])).

%% Each place does what it shows.
mouse(_Config) ->
    View = view([row(<<"server", (integer_to_binary(N))/binary>>, N, N) || N <- lists:seq(1, 60)]),
    Click = fun(Text, V) ->
        [{Y, Line} | _] = [
            {Y, Line}
         || {Y, Line} <- lists:reverse(lists:enumerate(lines(V, 80, 24))),
            binary:match(Line, Text) =/= nomatch
        ],
        {X, _} = binary:match(Line, Text),
        dyno_cli_top_keys:with_click(dyno_cli_top_draw:target({X + 1, Y}, V, layout(80), 24), V)
    end,
    {ask, Queue} = Click(~"queue", View),
    ?assertMatch(#{sort := queue}, dyno_cli_top_view:ask(Queue)),
    {ask, Memory} = Click(~"memory  ", View),
    ?assertMatch(#{sort := memory}, dyno_cli_top_view:ask(Memory)),
    {ask, Ports} = Click(~"6 ports", View),
    ?assertMatch(#{view := ports}, dyno_cli_top_view:ask(Ports)),
    {draw, Third} = Click(~"server3 ", View),
    ?assertMatch([_], [L || <<"> server3 ", _/binary>> = L <- lines(Third, 80, 24)]),
    {detail, _} = Click(~"server3 ", Third),
    %% In a table that was scrolled, too.
    {draw, Down} = keys(lists:duplicate(50, down), View),
    {draw, Seen} = Click(~"server45 ", Down),
    ?assertEqual(44, maps:get(row, Seen)),
    {draw, View} = Click(~"schedulers", View),
    ?assertEqual(none, dyno_cli_top_draw:target({1, 300}, View, layout(80), 24)),
    ?assertEqual(
        [{click, {12, 3}}, {wheel, up}, {wheel, down}, $q],
        dyno_cli_top_input:decode("\e[<0;12;3M\e[<0;12;3m\e[<64;1;1M\e[<65;1;1M\e[<2;1;1Mq")
    ).
