%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_cli_test_load_SUITE).
-moduledoc "The load on the command line: what it means, and what is said of every mistake.".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

suite() ->
    [{timetrap, {minutes, 5}}].

all() ->
    [
        meanings,
        load_nodes,
        mistakes,
        contradictions,
        put_in_the_suites_place,
        replaces_the_suites_load
    ].

options(Texts) ->
    case dyno_command:values("test", Texts) of
        {ok, Values} -> dyno_cli_test_load:load(Values);
        {error, _} = Error -> Error
    end.

load(Values) ->
    {ok, #{load := Load}} = options(Values),
    Load.

meanings(_Config) ->
    ?assertEqual({ok, #{}}, options(#{})),
    [
        ?assertEqual(Load, load(Values), Values)
     || {Values, Load} <- [
            {#{load => ~"open"}, #{model => open}},
            {#{rate => ~"500"}, #{rate_per_s => 500}},
            {#{rate => ~"0.5/s"}, #{rate_per_s => 0.5}},
            {#{rate => ~"1k..2k/s"}, #{rate_per_s => {ramp, 1000, 2000}}},
            {#{workers => ~"2k"}, #{workers => 2000}},
            {#{rate => ~"0..100"}, #{rate_per_s => {ramp, 0, 100}}},
            {#{rate => ~"100, 200,400"}, #{rate_per_s => {steps, [100, 200, 400]}}},
            {#{rate => ~"10", arrivals => ~"poisson"}, #{rate_per_s => 10, arrivals => poisson}},
            {#{workers => ~"7", think => ~"20ms"}, #{workers => 7, think_time_ms => 20}},
            {#{think => ~"10ms..1s"}, #{think_time_ms => {uniform, 10, 1000}}},
            {#{iterations => ~"9"}, #{iterations => 9}},
            {#{search => [~"latency.p99 < 5 ms"]}, #{objective => [~"latency.p99 < 5 ms"]}}
        ]
    ].

load_nodes(_Config) ->
    ?assertEqual(
        {ok, #{load_nodes => [{peer, 2}, {ssh, "me@far"}, 'load@near']}},
        options(#{load_nodes => ~"2, ssh:me@far,load@near"})
    ).

says({error, Error}, Parts) ->
    Text = unicode:characters_to_binary(dyno_error:format(Error)),
    [?assertNotEqual(nomatch, binary:match(Text, Part), Text) || Part <- Parts].

mistakes(_Config) ->
    [
        says(options(#{Name => Text}), [Option, Text, Accepted])
     || {Name, Option, Text, Accepted} <- [
            {load, ~"--load ", ~"half", ~"closed or open"},
            {rate, ~"--rate ", ~"fast", ~"10..1000"},
            {rate, ~"--rate ", ~"0", ~"above 0"},
            {rate, ~"--rate ", ~"-5", ~"above 0"},
            {rate, ~"--rate ", ~"0..0", ~"above 0"},
            {rate, ~"--rate ", ~"1,,2", ~"100,200,400"},
            {workers, ~"--workers ", ~"0", ~"from 1 up"},
            {iterations, ~"--iterations ", ~"many", ~"from 1 up"},
            {think, ~"--think ", ~"5", ~"20ms"},
            {think, ~"--think ", ~"2s..1s", ~"10ms..30ms"},
            {arrivals, ~"--arrivals ", ~"random", ~"poisson"},
            {arrivals, ~"--arrivals ", ~"counts:x:y", ~"counts:1s"},
            {load_nodes, ~"--load-nodes ", ~"far", ~"NAME@HOST"},
            {load_nodes, ~"--load-nodes ", ~"0", ~"1 to 100"}
        ]
    ],
    says(options(#{arrivals => ~"times:/none"}), [~"--arrivals", ~"/none", ~"cannot be read"]).

contradictions(Config) ->
    File = filename:join(proplists:get_value(priv_dir, Config), "times"),
    ok = file:write_file(File, "1\n2\n"),
    Times = unicode:characters_to_binary(["times:", File]),
    [
        says(options(Values), [~"contradict", First, Second])
     || {Values, First, Second} <- [
            {#{load => ~"closed", rate => ~"5"}, ~"--load closed", ~"--rate"},
            {#{load => ~"closed", search => [~"a"]}, ~"--load closed", ~"--search"},
            {#{load => ~"open", think => ~"5ms"}, ~"--load open", ~"--think"},
            {#{rate => ~"5", search => [~"a"]}, ~"--search", ~"--rate"},
            {#{rate => ~"5", iterations => ~"5"}, ~"--rate", ~"--iterations"},
            {#{rate => ~"5", arrivals => Times}, ~"--rate", ~"--arrivals"}
        ]
    ].

override(Suites, Values, Size) ->
    {ok, Load} = dyno_load_spec:read(Suites, Size),
    dyno_load_spec:override(Load, load(Values), Size).

put_in_the_suites_place(_Config) ->
    Phases = #{model => phases, phases => [#{model => closed, workers => 1}]},
    ?assertEqual(
        {ok, #{model => open, rate_per_s => 9, workers => 100, max_workers => 10_000}},
        override(Phases, #{rate => ~"9"}, 3)
    ),
    %% Its kinds of operations stay.
    Open = #{model => open, rate_per_s => 5, operations => #{a => 1}},
    ?assertMatch(
        {ok, #{model := closed, workers := 3, operations := #{a := 1}}},
        override(Open, #{load => ~"closed"}, 3)
    ),
    ?assertMatch({ok, #{workers := 8, rate_per_s := 5}}, override(Open, #{workers => ~"8"}, 3)),
    ?assertMatch(
        {ok, #{model := search, from_per_s := _}},
        override(closed, #{search => [~"latency.p99 < 5 ms"]}, 3)
    ),
    ?assertMatch(
        {ok, #{model := closed, workers := 3, iterations := 4}},
        override(closed, #{iterations => ~"4"}, 3)
    ),
    {error, Reason} = override(Phases, #{workers => ~"5"}, 3),
    ?assertNotEqual(
        nomatch,
        binary:match(
            unicode:characters_to_binary(dyno_load_spec:format_error(Reason)),
            ~"there is no option workers"
        )
    ).

%% Also what the suite's load/2 says.
replaces_the_suites_load(Config0) ->
    Config = dyno_suites:prepare(?FUNCTION_NAME, Config0),
    Source = dyno_suites:write(
        Config,
        its_own,
        #{sizes => [1], duration_ms => 20_000, warmup_ms => 0},
        "load(_, _) -> #{model => open, rate_per_s => 1}.\n"
        "operation(S) -> {ok, S}.\n"
    ),
    {ok, #{~"status" := ~"complete"} = Document} = dyno_test:run(Source, #{
        load => load(#{load => ~"closed", workers => ~"3", iterations => ~"30"})
    }),
    os:unsetenv("TMPDIR"),
    [Run] = dyno_recording:runs(Document),
    ?assertEqual(30, dyno_suites:value(Run, ~"operations.count")),
    ?assertEqual(3, dyno_suites:value(Run, ~"workers.max")).
