%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_load_spec_SUITE).
-moduledoc """
Loads as a suite and the command line give them: what is read, what is refused and in which words,
and the parts that become of it.
""".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

suite() ->
    [{timetrap, {minutes, 1}}].

all() ->
    [
        loads,
        defaults,
        mistakes,
        parts,
        described_loads,
        arrivals_from_files,
        arrivals_with_mistakes,
        arrivals_of_a_load
    ].

read(Load) -> dyno_load_spec:read(Load, 1).

%% What is as it should be stays as it is.
loads(_Config) ->
    ?assertEqual({ok, #{model => closed, workers => 7}}, dyno_load_spec:read(closed, 7)),
    ?assertMatch({ok, #{model := open, rate_per_s := 7}}, dyno_load_spec:read(open, 7)),
    Closed = #{model => closed, workers => 3},
    Open = #{model => open, rate_per_s => 0.5, workers => 3},
    Spike = #{base => 1, peak => 9, at_ms => 0, for_ms => 10},
    [
        ?assertEqual({ok, Load}, read(Load))
     || Load <- [
            Closed,
            Open,
            Closed#{think_time_ms => 5.5, iterations => {each, 3}, duration_ms => 50},
            Closed#{think_time_ms => {uniform, 0, 10}, iterations => 3},
            Closed#{think_time_ms => {exponential, 2}, operations => #{read => 9, write => 0.5}},
            Open#{rate_per_s := {ramp, 0, 10}, arrivals => poisson, max_workers => 3},
            Open#{rate_per_s := {steps, [0, 5]}, arrivals => even},
            Open#{rate_per_s := {spike, Spike}},
            #{model => open, workers => 1, arrivals => {counts, 10, [0, 5]}},
            #{model => open, workers => 1, arrivals => {times_ms, [0, 2.5]}},
            #{model => phases, phases => [Closed, Open]}
        ]
    ],
    ?assertMatch({ok, #{name := ~"night"}}, read(Closed#{name => night})),
    {ok, #{objective := [_, _] = Objective}} =
        read(#{model => search, objective => ["latency.p99 < 5 ms", ~"errors.rate == 0 %"]}),
    ?assertEqual(
        [~"latency.p99 < 5 ms", ~"errors.rate == 0 %"],
        [iolist_to_binary(dyno_threshold:format(T)) || T <- Objective]
    ).

defaults(_Config) ->
    Open = #{model => open, rate_per_s => 1},
    ?assertMatch({ok, #{workers := 100, max_workers := 10_000}}, read(Open)),
    %% Who says how many workers there are, and not how many more, means just these.
    {ok, Fixed} = read(Open#{workers => 5}),
    ?assertNot(is_map_key(max_workers, Fixed)),
    ?assertMatch({ok, #{workers := 20, max_workers := 20}}, read(Open#{max_workers => 20})),
    ?assertMatch(
        {ok, #{from_per_s := 7, to_per_s := 1_000_000, probe_ms := 1000, workers := 100}},
        read(#{model => search, objective => "errors.rate == 0 %", from_per_s => 7})
    ).

mistakes(Config) ->
    Closed = #{model => closed, workers => 1},
    Open = #{model => open, rate_per_s => 1},
    Search = #{model => search, objective => "errors.rate == 0 %"},
    File = list_to_binary(file(Config, "letters", "1\nx\n")),
    [
        begin
            {error, Reason} = read(Load),
            says(dyno_load_spec:format_error(Reason), Parts)
        end
     || {Load, Parts} <- [
            {#{}, [~"is not a load", ~"workers => N"]},
            {{closed, 5}, [~"is not a load", ~"rate_per_s => R"]},
            {undefined, [~"is not a load"]},
            {#{model => closed}, [~"in the closed load workers is missing", ~"from 1 to 1000000"]},
            {#{model => open}, [~"open load rate_per_s is missing", ~"above 0"]},
            {#{model => phases}, [~"phases load phases is missing", ~"a list of"]},
            {#{model => search}, [~"search load objective is missing", ~"latency.p99"]},
            {Closed#{workers => 0}, [~"in the closed load workers is 0", ~"from 1 to 1000000"]},
            {Closed#{workers => 1.5}, [~"workers", ~"1.5"]},
            {Closed#{workers => 2_000_000}, [~"workers"]},
            {Closed#{rate_per_s => 5}, [~"in the closed load there is no option rate_per_s"]},
            {Closed#{think_time_ms => {uniform, 5, 1}}, [~"think_time_ms", ~"{uniform,5,1}"]},
            {Closed#{think_time_ms => -1}, [~"think_time_ms", ~"a number of milliseconds"]},
            {Closed#{iterations => 0}, [~"iterations", ~"{each, N}"]},
            {Closed#{operations => #{}}, [~"operations", ~"operations to weights"]},
            {Closed#{operations => #{a => 0}}, [~"operations"]},
            {Closed#{duration_ms => 49}, [~"duration_ms", ~"50 or more"]},
            {Closed#{name => ""}, [~"closed load name is", ~"text"]},
            {Open#{rate_per_s => 0}, [~"rate_per_s", ~"above 0", ~"ramp"]},
            {Open#{rate_per_s => -1}, [~"rate_per_s"]},
            {Open#{rate_per_s => {ramp, 0, 0}}, [~"rate_per_s", ~"{ramp,0,0}"]},
            {Open#{rate_per_s => {steps, [1 | 2]}}, [~"rate_per_s"]},
            {Open#{rate_per_s => {spike, #{base => 1}}}, [~"rate_per_s", ~"at_ms"]},
            {Open#{workers => 0}, [~"workers"]},
            {Open#{workers => 5, max_workers => 4}, [~"max_workers", ~"at least workers"]},
            {Open#{arrivals => often}, [~"arrivals", ~"poisson"]},
            {Open#{arrivals => {counts, 0, [1]}}, [~"arrivals"]},
            {Open#{arrivals => {counts, 10, []}}, [~"arrivals"]},
            {Open#{arrivals => {counts, 10, [1.5]}}, [~"arrivals"]},
            {Open#{arrivals => {counts, 10, [1]}}, [~"rate_per_s", ~"not both"]},
            {#{model => open, arrivals => {times_ms, [x]}}, [~"arrivals"]},
            {#{model => open, arrivals => {times_ms, ~"/none"}}, [~"/none", ~"cannot be read"]},
            {#{model => open, arrivals => {times_ms, File}}, [~":2:", ~"is no number"]},
            {#{model => phases, phases => []}, [~"phases", ~"a list of"]},
            {#{model => phases, phases => [Closed | x]}, [~"phases"]},
            {#{model => phases, phases => [Closed, Search]}, [~"phase 2:", ~"is not a load"]},
            {#{model => phases, phases => [Open#{workers => 0}]}, [~"phase 1: in the open load"]},
            {Search#{objective => 5}, [~"search load objective is 5"]},
            {Search#{objective => "latency.p99 is good"}, [~"the search's objective: "]},
            {Search#{objective => ["memory.total < 5 MB"]}, [~"not about the load"]},
            {Search#{objective => "latency.p99 at 10 < 5 ms"}, [~"not about the load"]},
            {Search#{arrivals => {counts, 10, [1]}}, [~"arrivals", ~"even or poisson"]},
            {Search#{confidence => 1}, [~"confidence", ~"0.999"]},
            {Search#{precision => 0}, [~"precision", ~"0.01"]},
            {Search#{from_per_s => 0}, [~"from_per_s"]},
            {Search#{probe_ms => 1}, [~"probe_ms"]},
            {Open#{rate => 1}, [~"no option rate; did you mean rate_per_s?"]}
        ]
    ].

says(Chars, Parts) ->
    Text = unicode:characters_to_binary(Chars),
    [?assertNotEqual(nomatch, binary:match(Text, Part), Text) || Part <- Parts].

%% Phases without a length share the test's; a recorded curve has its own.
parts(_Config) ->
    Parts = fun(Load) ->
        {ok, Read} = read(Load),
        dyno_load_part:parts(Read, #{duration_ms => 1000, seed => 5, operations => #{a => 1}})
    end,
    Closed = #{model => closed, workers => 3},
    Own = #{model => open, rate_per_s => 10, duration_ms => 200, name => "own"},
    ?assertMatch(
        [
            #{name := ~"phase 1", duration_ns := 500_000_000, seed := 5, think := 0},
            #{name := ~"own", model := open, duration_ns := 200_000_000, seed := 6}
        ],
        Parts(#{model => phases, phases => [Closed, Own]})
    ),
    [#{iterations := {all, 5}, operations := #{a := 1}}] = Parts(Closed#{iterations => 5}),
    [#{iterations := {each, 5}}] = Parts(Closed#{iterations => {each, 5}}),
    [#{duration_ns := 90_000_000}] = Parts(#{model => open, arrivals => {counts, 30, [1, 2, 3]}}),
    Search = #{model => search, objective => "errors.rate == 0 %", probe_ms => 100},
    [Probe] = Parts(Search),
    {ok, Read} = read(Search),
    ?assertMatch(
        #{rate_per_s := 70, duration_ns := 200_000_000, name := <<"at 70", _/binary>>},
        dyno_load_part:at_rate(70, 200, Probe, Read)
    ).

described_loads(_Config) ->
    ?assertEqual(#{model => closed}, dyno_load_spec:describe(closed)),
    {ok, Search} = read(#{model => search, objective => "latency.p99 < 5 ms"}),
    ?assertMatch(#{objective := [~"latency.p99 < 5 ms"]}, dyno_load_spec:describe(Search)),
    Ramp = #{model => open, rate_per_s => {ramp, 0, 5}},
    {ok, Phases} = read(#{model => phases, phases => [Ramp]}),
    ?assertMatch(
        #{phases := [#{rate_per_s := ~"{ramp,0,5}"}]}, dyno_load_spec:describe(Phases)
    ).

%% Recorded arrivals

file(Config, Name, Text) ->
    File = filename:join(proplists:get_value(priv_dir, Config), Name),
    ok = file:write_file(File, Text),
    File.

arrivals_from_files(Config) ->
    [
        ?assertEqual({ok, Numbers}, dyno_load_arrivals_file:read(file(Config, "arrivals", Text)))
     || {Text, Numbers} <- [
            {"1\n2\n3\n", [1, 2, 3]},
            {"time_ms,path\r\n0,/a\r\n1.5,/b\r\n", [0, 1.5]},
            {"# from monday\n\n10;x\n \"20\";y\n", [10, 20]},
            {"7", [7]}
        ]
    ].

arrivals_with_mistakes(Config) ->
    [
        begin
            {error, Reason} = dyno_load_arrivals_file:read(file(Config, "arrivals", Text)),
            says(dyno_load_arrivals_file:format_error(Reason), Parts)
        end
     || {Text, Parts} <- [
            {"1\n2\nx\n", [~":3:", ~"\"x\" is no number"]},
            {"time\n", [~"has no arrivals"]},
            {"", [~"has no arrivals"]}
        ]
    ],
    {error, Reason} = dyno_load_arrivals_file:read("/none"),
    says(dyno_load_arrivals_file:format_error(Reason), [~"/none", ~"cannot be read"]).

%% By the name of a file, as a text or as a list.
arrivals_of_a_load(Config) ->
    File = file(Config, "counts", "3\n0\n4\n"),
    [
        ?assertMatch(
            {ok, #{arrivals := {counts, 10, [3, 0, 4]}}},
            read(#{model => open, arrivals => {counts, 10, Name}})
        )
     || Name <- [File, list_to_binary(File)]
    ].
