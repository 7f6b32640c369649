%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_cli_top_view_SUITE).
-moduledoc "The screen of `dyno top`: what is on it in each state and size, and what keys do.".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

newest_release_only() -> all().

all() ->
    [
        fits_each_size, shows_what_matters, keys_sort, groups_and_opens, filters, freezes,
        selects_and_opens, shows_the_worst_findings, lost_nodes, several_nodes, hostile_names, keys_are_decoded, is_json
    ].

layout(Width) -> #{width => Width, indent => 0, colour => off, charset => unicode}.

row(Name, Reductions, Queue) ->
    #{
        pid => self(), name => Name, group => <<Name/binary, ":init/1">>,
        reductions => Reductions, queue => Queue, growth => 4, memory => 5000,
        status => waiting, at => ~"gen_server:loop/5", waits_for => ~"stock"
    }.

reading(Rows) ->
    #{
        interval_ns => 2_000_000_000,
        values => #{
            ~"vm.scheduler_utilisation.normal" => 0.42, ~"vm.run_queue.normal" => 3,
            ~"vm.memory.total" => 812_000_000, ~"os.cpu.idle" => 0.25, ~"os.cpu.iowait" => 0.05
        },
        threads => #{
            dirty_io => #{worked_ns => 1_000_000_000, cpu_ns => 1000, ready_ns => 0}
        },
        limits => #{
            processes => {100, 1000}, ports => {990, 1000}, atoms => {5, 1000}, ets => {1, 1000}
        },
        facts => #{release => ~"29", schedulers => 2, up_ms => 3_723_000, time_ms => 1_764_000_000_000},
        processes => length(Rows),
        share => 1.0,
        rows => Rows,
        groups => [
            #{
                group => ~"conn:init/1", count => 100_000, reductions => 7, queue => 0, growth => 0,
                memory => 9
            }
        ],
        took_us => 2000
    }.

view(Rows) ->
    dyno_cli_top_view:with_reading(a@b, reading(Rows), dyno_cli_top_view:new(#{nodes => [a@b]})).

lines(View, Width, Height) ->
    [dyno_report_text:encode(Line) || Line <- dyno_cli_top_view:screen(View, layout(Width), Height)].

text(View) -> iolist_to_binary(lists:join($\n, lines(View, 160, 40))).

keys(Keys, View) ->
    lists:foldl(fun(Key, {_, V}) -> dyno_cli_top_view:with_key(Key, V) end, {draw, View}, Keys).

has(Part, View) -> ?assertMatch({_, _}, binary:match(text(View), Part), text(View)).

lacks(Part, View) -> ?assertEqual(nomatch, binary:match(text(View), Part), text(View)).

fits_each_size(_Config) ->
    Views = [view([row(<<"server", (integer_to_binary(N))/binary>>, N, N) || N <- lists:seq(1, 60)])],
    [
        begin
            Lines = lines(V, Width, Height),
            ?assertEqual({Width, Height}, {Width, length(Lines)}),
            [?assert(dyno_report_text:width(Line) =< Width, Line) || Line <- Lines]
        end
     || View <- Views,
        Keys <- [[], [$g], [$h], [$/]],
        {_, V} <- [keys(Keys, View)],
        {Width, Height} <- [{80, 24}, {200, 60}, {40, 10}],
        Keys =/= [$h]
    ].

shows_what_matters(_Config) ->
    View = view([row(~"orders", 4000, 2500)]),
    [has(Part, View) || Part <- [
        ~"42 % of 2", ~"run queue 3", ~"up 1:02:03", ~"CPU 70 %", ~"2000", ~"waits for", ~"stock",
        ~"(waits)", ~"looking takes 0.1 % of a scheduler", ~"ports 990 of 1000: NEAR THE LIMIT"
    ]],
    %% The one near its limit comes first.
    {Near, _} = binary:match(text(View), ~"ports 990"),
    {Other, _} = binary:match(text(View), ~"processes 100"),
    ?assert(Near < Other),
    %% Not known is not nothing.
    Unknown = (row(~"new", 1, 1))#{reductions := unknown, growth := unknown, memory := unknown},
    has(~"      -      1    -       -", view([Unknown])),
    has(~"RSS -", View).

keys_sort(_Config) ->
    [
        begin
            {ask, View} = dyno_cli_top_view:with_key(Key, view([])),
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
    {ask, Nothing} = keys([$/, $z, enter], view([])),
    has(~"no process has \"z\"", Nothing).

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
        answered => true, ended => false, name => ~"server41", group => ~"g:init/1",
        stack => [~"shop:price/2 (shop.erl:12)"], status => waiting, message_queue_len => 7,
        heap_bytes => 800, priority => normal, parent => ~"shop_sup", link_count => 1,
        links => [~"shop_sup"], monitors => []
    },
    has(~"shop.erl:12", dyno_cli_top_view:with_detail(Detail, View)),
    has(~"did not answer", dyno_cli_top_view:with_detail(#{answered => false}, View)),
    has(~"has ended", dyno_cli_top_view:with_detail(#{answered => true, ended => true}, View)),
    {draw, Closed} = keys([escape], dyno_cli_top_view:with_detail(Detail, View)),
    lacks(~"shop.erl:12", Closed).

shows_the_worst_findings(_Config) ->
    View = view([row(~"orders", 1, 1)]),
    lacks(~"nothing found", View),
    has(~"nothing found by ", dyno_cli_top_view:with_findings(a@b, [], View)),
    Finding = fun(N) ->
        dyno_finding:new(some_check, none, #{
            severity => critical, text => <<"fault ", (integer_to_binary(N))/binary>>, advice => ~"x"
        })
    end,
    Found = dyno_cli_top_view:with_findings(a@b, [Finding(N) || N <- lists:seq(1, 5)], View),
    has(~"critical    fault 1", Found),
    has(~"fault 3", Found),
    lacks(~"fault 4", Found),
    ?assertEqual(24, length(lines(Found, 80, 24))).

lost_nodes(_Config) ->
    Lost = dyno_cli_top_view:with_reading(a@b, {lost, "a@b is not running"}, view([])),
    has(~"a@b: a@b is not running", Lost),
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
    ?assertEqual([$g, up, down, page_down, enter, backspace], dyno_cli_top_keys:decode("g\e[A\eOB\e[6~\r\d")),
    %% Escape, then a key; a sequence that is not known.
    ?assertEqual([escape, $n], dyno_cli_top_keys:decode("\en")),
    ?assertEqual([escape], dyno_cli_top_keys:decode("\e")),
    ?assertEqual([$q], dyno_cli_top_keys:decode("\e[15~q")),
    ?assertEqual([$/, $a, $b, enter], dyno_cli_top_keys:line("/ab")),
    ?assertEqual([$g], dyno_cli_top_keys:line("g")).

is_json(_Config) ->
    Row = (row(~"orders", 4000, 25))#{memory := unknown},
    #{~"nodes" := [#{~"top" := [Shown]}]} =
        json:decode(iolist_to_binary(json:encode(dyno_cli_top_view:json(view([Row]))))),
    ?assertMatch(#{~"name" := ~"orders", ~"memory" := null, ~"queue" := 25}, Shown),
    [Line] = dyno_cli_top_view:plain(view([Row])),
    ?assertMatch({_, _}, binary:match(Line, ~"utilisation=42% run_queue=3 memory=812MB rss=- ")).
