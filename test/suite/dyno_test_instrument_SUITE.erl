%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_test_instrument_SUITE).
-moduledoc """
An instrument of one's own, the one of doc/instruments.md: with no other file touched it is in the
recording, on console and page, in CSV, and in a threshold; and nothing of it stays in the target.
""".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

suite() ->
    [{timetrap, {minutes, 2}}].

all() ->
    [
        is_everywhere,
        is_switched_off,
        is_given_by_the_suite,
        is_none,
        fails,
        stacks_are_recorded,
        profiles
    ].

init_per_suite(Config) ->
    dyno_suites:with_target(Config).

end_per_suite(Config) ->
    dyno_suites:without_target(Config).

init_per_testcase(Case, Config) ->
    Node = proplists:get_value(node, Config),
    Before = dyno_suites:snapshot(Node),
    %% A shop with seven orders in its queue.
    Shop = dyno_peers:eval(
        Node,
        "Shop = spawn(fun() -> receive close -> ok end end), register(shop, Shop),"
        "[shop ! order || _ <- lists:seq(1, 7)], Shop."
    ),
    [{shop, Shop}, {before, Before} | dyno_suites:prepare(Case, Config)].

end_per_testcase(_Case, Config) ->
    Shop = proplists:get_value(shop, Config),
    Monitor = monitor(process, Shop),
    Shop ! close,
    receive
        {'DOWN', Monitor, process, Shop, _} -> ok
    end,
    dyno_suites:if_passed(Config, fun() ->
        dyno_suites:clean(Config, proplists:get_value(before, Config)),
        Node = proplists:get_value(node, Config),
        [
            ?assertEqual(false, erpc:call(Node, erlang, module_loaded, [Module]))
         || Module <- [queue_length, dyno_agent_readings]
        ]
    end).

instrument() -> filename:join([dyno_project:root(), "examples", "queue_length.erl"]).

run(Config, SuiteOptions, Options) ->
    Node = proplists:get_value(node, Config),
    Short = #{
        sizes => [1], duration_ms => 300, warmup_ms => 0, interval_ms => 100, control => false
    },
    Source = dyno_suites:write(Config, waiting, maps:merge(Short, SuiteOptions), [
        dyno_suites:on_target(Node), dyno_suites:one_call(pause, 2)
    ]),
    dyno_test:run(Source, Options).

is_everywhere(Config) ->
    dyno_tries:hold(3, fun() -> is_everywhere_once(Config) end).

is_everywhere_once(Config) ->
    Node = proplists:get_value(node, Config),
    {ok, Document} = run(Config, #{}, #{
        instruments => [instrument()],
        thresholds => ["queue.longest >= 7", "queue.longest < 7"]
    }),
    {ok, _} = dyno_recording:validate(Document),
    [Run] = dyno_recording:runs(Document),
    %% The recording
    [#{~"columns" := Columns, ~"rows" := Rows}] = dyno_recording:tables(Run, ~"queues"),
    ?assertMatch([#{~"name" := ~"process"}, #{~"name" := ~"longest"}], Columns),
    ?assertEqual([[~"shop", 7]], Rows),
    [#{~"values" := Lengths, ~"times_ms" := Times}] = dyno_recording:series(Run, ~"queue.length"),
    ?assertEqual([7], lists:usort(Lengths)),
    ?assert(length(Times) > 10, Times),
    ?assertMatch([#{~"value" := 7}], metrics(Run, ~"queue.longest")),
    %% Thresholds
    ?assertMatch(
        [#{~"result" := ~"pass"}, #{~"result" := ~"fail"}], maps:get(~"verdicts", Document)
    ),
    %% Outputs
    Shown = fun(Format) ->
        {ok, Report} = dyno_report:render(Format, Document, #{}),
        iolist_to_binary(Report)
    end,
    [
        ?assertNotEqual(nomatch, binary:match(Shown(Format), Part), {Format, Part})
     || {Format, Part} <- [
            {csv, ~"queue.longest"},
            {html, ~"Messages that wait for the shop"},
            {html, ~"Longest queue"},
            {console, ~"queue.longest"},
            {md, ~"queue.longest"}
        ]
    ],
    %% It is sent with what it calls of dyno's, to the target where that is.
    ?assertEqual(Node, node(proplists:get_value(shop, Config))).

metrics(Run, Name) ->
    [Metric || #{~"name" := Of} = Metric <- maps:get(~"metrics", Run), Of =:= Name].

is_switched_off(Config) ->
    {ok, Document} = run(Config, #{}, #{
        instruments => [instrument()], without => [queue_length]
    }),
    [Run] = dyno_recording:runs(Document),
    ?assertEqual([], dyno_recording:tables(Run, ~"queues")),
    ?assertEqual([], metrics(Run, ~"queue.longest")).

is_given_by_the_suite(Config) ->
    {ok, Document} = run(Config, #{instruments => [list_to_binary(instrument())]}, #{}),
    [Run] = dyno_recording:runs(Document),
    ?assertMatch([_], dyno_recording:tables(Run, ~"queues")).

is_none(Config) ->
    {error, Error} = run(Config, #{}, #{instruments => [lists]}),
    ?assertEqual(2, dyno_error:exit_status(Error)),
    Text = unicode:characters_to_binary(dyno_error:format(Error)),
    ?assertMatch({_, _}, binary:match(Text, ~"lists is not an instrument: it lacks about/0")),
    {error, Missing} = run(Config, #{}, #{instruments => ["nowhere.erl"]}),
    ?assertMatch(
        {_, _},
        binary:match(
            unicode:characters_to_binary(dyno_error:format(Missing)), ~"instrument nowhere.erl"
        )
    ).

%% Its code fails in the target or in this node: the run has all but its results, and says so.
fails(Config) ->
    Head =
        "-compile([export_all, nowarn_export_all]).\nabout() -> #{names => [fails]}.\n"
        "config(_) -> #{}.\ninit(_) -> {ok, 1}.\nhandle_call(restart, _, S) -> {reply, ok, S};\n",
    Read = "handle_call(read, _, S) -> {reply, S, S}.\n",
    Metric = fun(Value) ->
        [Read, "metrics() -> [#{name => <<\"f\">>, title => <<\"F\">>, unit => <<\"count\">>,\n"
        "group => <<\"f\">>, value => fun(_) -> ", Value, " end}].\n"]
    end,
    [
        begin
            File = filename:join(proplists:get_value(work, Config), "fails.erl"),
            ok = file:write_file(File, ["-module(fails).\n", Head, Code]),
            {ok, Document} = run(Config, #{}, #{instruments => [File]}),
            {ok, _} = dyno_recording:validate(Document),
            ?assertMatch(#{~"status" := ~"complete"}, Document),
            [#{~"warnings" := Warnings, ~"metrics" := [_ | _]}] = dyno_recording:runs(Document),
            [Text] = [T || #{~"code" := ~"instrument", ~"text" := T} <- Warnings],
            [?assertMatch({_, _}, binary:match(Text, Part), Text) || Part <- [~"of fails", Why]]
        end
     || {Code, Why} <- [
            {Metric("{1.0e300, 1}"), ~"1.0e300"},
            {Metric("error(oops)"), ~"failed: oops"},
            {[Read, "result(_) -> error(oops).\n"], ~"failed: oops"},
            {"handle_call(read, _, _) -> error(oops).\n", ~"failed: {oops"},
            {"handle_call(read, _, S) -> {noreply, S}.\n", ~"not answered after 5 s"}
        ]
    ].

%% dyno's own sampler of stacks: the profile and the calls in which processes wait.
stacks_are_recorded(Config) ->
    dyno_tries:hold(3, fun() -> stacks_are_recorded_once(Config) end).

busy(Node) ->
    _ = dyno_peers:load(Node, """
    -module(busy).
    -export([turn/1]).
    turn(N) -> turn(N + 1).

    """),
    erpc:call(Node, erlang, spawn, [busy, turn, [1]]).

stacks_are_recorded_once(Config) ->
    Node = proplists:get_value(node, Config),
    Busy = busy(Node),
    Waits = erpc:call(Node, erlang, spawn, [
        gen_server,
        call,
        [
            proplists:get_value(shop, Config), order, infinity
        ]
    ]),
    try
        {ok, Document} = run(Config, #{duration_ms => 2000}, #{}),
        {ok, _} = dyno_recording:validate(Document),
        [#{~"profiles" := [Profile]} = Run] = dyno_recording:runs(Document),
        #{~"name" := ~"stacks", ~"frames" := Frames, ~"samples" := Samples} = Profile,
        #{~"values" := [#{~"name" := ~"time", ~"unit" := ~"ns"}]} = Profile,
        All = lists:sum([Ns || #{~"values" := [Ns]} <- Samples]),
        [Turns] = [
            Ns
         || #{~"stack" := Stack, ~"values" := [Ns], ~"labels" := Labels} <- Samples,
            lists:last([lists:nth(N + 1, Frames) || N <- Stack]) =:= ~"busy:turn/1",
            Labels =:= #{~"processes" => ~"busy:turn/1"}
        ],
        ?assert(Turns > 0.5 * All, {Turns, All}),
        %% Of two seconds of one scheduler, which may have to share its processor.
        ?assert(Turns > 0.15e9, Turns),
        ?assert(Turns < 3.0e9, Turns),
        ?assertMatch([#{~"value" := Share}] when Share < 0.1, metrics(Run, ~"instrument.stacks")),
        [#{~"rows" := Waiting}] = dyno_recording:tables(Run, ~"waiting"),
        ?assertMatch(
            [[~"gen:do_call/4", null, ~"gen_server:call/3", Mean, _, _]] when Mean > 0.2,
            [Row || [~"gen:do_call/4" | _] = Row <- Waiting]
        ),
        %% What people read
        Shown = fun(Format) ->
            {ok, Report} = dyno_report:render(Format, Document, #{}),
            iolist_to_binary(Report)
        end,
        ?assertMatch(
            {match, _}, re:run(Shown(console), ~"Processor time[^\n]*\n.*\n +busy:turn/1 ")
        ),
        ?assertMatch({match, _}, re:run(Shown(folded), ~"busy:turn/1;busy:turn/1 [0-9]+\n")),
        {ok, Without} = run(Config, #{}, #{without => [stacks]}),
        [#{~"profiles" := []} = Other] = dyno_recording:runs(Without),
        ?assertEqual([], dyno_recording:tables(Other, ~"waiting"))
    after
        [exit(Pid, kill) || Pid <- [Busy, Waits]]
    end.

%% A profile of a test, also where nothing else is measured: stacks of what waits, too, as flame
%% graphs of the page; or the schedulers.
profiles(Config) ->
    Shop = proplists:get_value(shop, Config),
    Node = proplists:get_value(node, Config),
    Busy = busy(Node),
    Waits = erpc:call(Node, erlang, spawn, [gen_server, call, [Shop, order, infinity]]),
    Profiles = fun(Document) ->
        [#{~"profiles" := Profiles} = Run] = dyno_recording:runs(Document),
        {[Name || #{~"name" := Name} <- Profiles], Run}
    end,
    try
        {ok, Off} = run(Config, #{duration_ms => 500, level => off}, #{}),
        ?assertMatch({[], _}, Profiles(Off)),
        {ok, Sampled} = run(Config, #{duration_ms => 500, level => off}, #{profile => sample}),
        {ok, _} = dyno_recording:validate(Sampled),
        ?assertMatch({[~"stacks", ~"waiting_stacks"], _}, Profiles(Sampled)),
        {ok, Page} = dyno_report:render(html, Sampled, #{}),
        ?assertMatch({_, _}, binary:match(iolist_to_binary(Page), ~"waiting_stacks")),
        ?assertMatch(#{~"profile" := ~"sample"}, maps:get(~"parameters", Sampled)),
        {ok, Scheduled} = run(Config, #{duration_ms => 500, profile => schedulers}, #{}),
        {[~"stacks"], Run} = Profiles(Scheduled),
        ?assertMatch([_], dyno_recording:tables(Run, ~"runnable")),
        {error, Error} = run(Config, #{}, #{profile => time}),
        ?assertEqual(2, dyno_error:exit_status(Error))
    after
        [exit(Pid, kill) || Pid <- [Busy, Waits]]
    end.
