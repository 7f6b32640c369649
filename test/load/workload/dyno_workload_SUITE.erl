%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_workload_SUITE).

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

suite() ->
    [{timetrap, {minutes, 1}}].

all() ->
    [
        a_seed_gives_the_same_workers,
        steady_is_uniform,
        pulse_is_normal,
        burst_is_log_normal,
        requests_spread_by_2_percent,
        all_requests_are_answered,
        every_choice_of_probabilities_ends,
        an_interrupt_ends_it,
        repetitions_settle,
        the_recording_has_all,
        the_command_runs
    ].

drawn(Options) ->
    dyno_workload:draw(dyno_workload:options(Options)).

seconds(Options) ->
    [Ns / 1.0e9 || {Ns, _} <- drawn(Options)].

a_seed_gives_the_same_workers(_Config) ->
    [
        begin
            Drawn = drawn(#{shape => Shape, seed => 7}),
            ?assertEqual(Drawn, drawn(#{shape => Shape, seed => 7})),
            ?assertNotEqual(Drawn, drawn(#{shape => Shape, seed => 8})),
            ?assertEqual(1000, length(Drawn)),
            ?assertEqual(Drawn, lists:sort(Drawn)),
            ?assert(
                lists:all(
                    fun({Ns, N}) -> Ns >= 0 andalso Ns =< 10_000_000_000 andalso N > 0 end,
                    Drawn
                )
            )
        end
     || Shape <- [steady, pulse, burst]
    ].

%% The Kolmogorov distance of N samples is below 1.95 / sqrt(N) in 999 of 1,000 draws; the seed is
%% always the same.
close_to(Distribution, Sorted) ->
    N = length(Sorted),
    Distance = lists:max([
        abs(I / N - Distribution(Value))
     || {I, Value} <- lists:enumerate(Sorted)
    ]),
    ?assert(Distance < 1.95 / math:sqrt(N), {distance, Distance}).

steady_is_uniform(_Config) ->
    close_to(fun(T) -> T / 10 end, seconds(#{shape => steady, workers => 10_000})).

%% Cut to the loading time, which is 2 standard deviations to each side.
pulse_is_normal(_Config) ->
    Normal = fun(T) -> phi((T - 5) / 2.5) end,
    close_to(cut(Normal, 10), seconds(#{shape => pulse, workers => 10_000})).

%% With m = t/2 = 5 and pi = t = 10: mu = ln(25 / sqrt(125)), sigma = sqrt(ln 5).
burst_is_log_normal(_Config) ->
    LogNormal = fun(T) ->
        phi((math:log(max(T, 1.0e-9)) - math:log(25 / math:sqrt(125))) / math:sqrt(math:log(5)))
    end,
    close_to(cut(LogNormal, 10), seconds(#{shape => burst, workers => 10_000})).

phi(X) -> (1 + math:erf(X / math:sqrt(2))) / 2.

cut(Distribution, Last) ->
    Low = Distribution(0),
    High = Distribution(Last),
    fun(T) -> (Distribution(T) - Low) / (High - Low) end.

requests_spread_by_2_percent(_Config) ->
    Requests = [N || {_, N} <- drawn(#{workers => 10_000, requests => 1000})],
    Mean = lists:sum(Requests) / 10_000,
    Variance = lists:sum([(N - Mean) * (N - Mean) || N <- Requests]) / 10_000,
    ?assert(abs(Mean - 1000) < 1, Mean),
    ?assert(abs(math:sqrt(Variance) - 20) < 1, Variance).

all_requests_are_answered(_Config) ->
    Options = #{shape => burst, workers => 200, requests => 50, time_ms => 300},
    #{status := complete, requests := Requests, workers := 200} =
        Result =
        dyno_workload:once(Options),
    ?assertEqual(lists:sum([N || {_, N} <- drawn(Options)]), Requests),
    #{responses := #{count := Count, min := Min}, samples := Samples} = Result,
    %% 10,000 requests: the response time of each is measured, up to a deviation of 2 %.
    ?assertEqual(Requests, Count),
    ?assert(Min > 0),
    ?assertMatch(#{alive := 0, requests := Requests}, lists:last(Samples)),
    %% Ten of them, where the machine is not busy.
    ?assert(length(Samples) >= 2).

every_choice_of_probabilities_ends(_Config) ->
    Options = #{workers => 20, requests => 20, time_ms => 20},
    Expected = lists:sum([N || {_, N} <- drawn(Options)]),
    [
        ?assertMatch(
            #{status := complete, requests := Expected},
            dyno_workload:once(Options#{send => Send, recv => Recv})
        )
     || Send <- [0, 0.5, 1], Recv <- [0, 0.5, 1]
    ].

an_interrupt_ends_it(_Config) ->
    self() ! dyno_interrupt,
    ?assertMatch(#{status := interrupted}, dyno_workload:once(#{time_ms => 60_000})).

repetitions_settle(_Config) ->
    Of = fun(Means) ->
        [
            #{responses => #{count => 1, sum => Mean, min => Mean, max => Mean, buckets => []}}
         || Mean <- Means
        ]
    end,
    ?assertNot(dyno_workload:settled(Of([100, 100]))),
    ?assert(dyno_workload:settled(Of([100, 101, 99]))),
    %% 0.87, then 0.69: it still changes.
    ?assertNot(dyno_workload:settled(Of([100, 100, 400]))),
    ?assertNot(dyno_workload:settled(Of([100, 400, 100, 400]))),
    ?assert(dyno_workload:settled(Of(lists:append(lists:duplicate(10, [100, 300]))))).

the_recording_has_all(_Config) ->
    Options = #{workers => 50, requests => 10, time_ms => 150, repetitions => 2},
    {ok, Document} = dyno_workload:run(Options),
    {ok, Document} = dyno_recording:validate(Document),
    [#{~"id" := ~"steady"} = Run, #{~"id" := ~"steady#2"}] = dyno_recording:runs(Document),
    ?assertMatch(#{~"status" := ~"complete"}, Document),
    #{~"metrics" := Metrics, ~"series" := Series, ~"histograms" := [_]} = Run,
    ?assertEqual(9, length(Metrics)),
    ?assertEqual(4, length(Series)),
    #{~"tables" := [#{~"name" := ~"workload_repetitions", ~"rows" := [_, _]}]} = Document.

the_command_runs(Config) ->
    Folder = proplists:get_value(priv_dir, Config),
    Server = dyno_command:start(#{folder => Folder, environment => [{"LC_ALL", "C.UTF-8"}]}),
    Ask = fun(Arguments) -> dyno_command:ask(Server, Folder, Arguments) end,
    {0, Output, _} =
        Ask(["workload", "pulse", "--workers", "50", "--for", "100ms", "-o", "w.json"]),
    ?assertNotEqual(nomatch, string:find(Output, "Mean response")),
    {2, _, Wrong} = Ask(["workload", "flat"]),
    ?assertNotEqual(nomatch, string:find(Wrong, "\"flat\" is no shape")),
    {2, _, Send} = Ask(["workload", "--send", "2"]),
    ?assertNotEqual(nomatch, string:find(Send, "in the shell, dyno:workload/1 takes")),
    ok = dyno_command:stop(Server).
