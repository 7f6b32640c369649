%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_truth_trace_SUITE).
-moduledoc """
`dyno trace` of calls by processes that begin later; of calls that are too many to see all, that do
not return, and of many values: it says that it knows only a part.
""".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

-define(TRACED, """
-module(traced).
-export([ebb/1, fact/1, flow/1, hot/1, often/0, still/1, turn/1, value/1, values/1]).
hot(N) -> N + 1.
often() -> traced:hot(1), often().
still(Ms) -> timer:sleep(Ms), ok.
turn(0) -> ok;
turn(N) -> timer:sleep(20), turn(N - 1).
ebb(0) -> ok;
ebb(N) -> timer:sleep(20), flow(N - 1).
flow(0) -> ok;
flow(N) -> timer:sleep(20), ebb(N - 1).
value(_) -> ok.
fact(0) -> 1;
fact(N) -> N * traced:fact(N - 1).
values(N) -> [traced:value(V) || V <- lists:seq(1, N)], ok.

""").

suite() ->
    [{timetrap, {minutes, 2}}].

all() ->
    [{group, in_nodes}].

groups() ->
    [
        {in_nodes, [parallel], [
            called_too_often,
            not_returned,
            last_steps,
            not_seen,
            shorter_than_the_overhead,
            many_values,
            returns_beyond_the_count,
            the_time_was_over_at_once
        ]}
    ].

init_per_suite(Config) ->
    ok = dyno_target_node:ensure_distribution(#{}),
    Config.

end_per_suite(_Config) ->
    ok.

%% On a node that is too busy to be asked in that time, nothing is known of the rest.
the_time_was_over_at_once(_Config) ->
    Text = fun(ObservedMs) ->
        unicode:characters_to_binary(
            dyno_trace_text:ending(#{
                event => stopped,
                node => ~"shop@here",
                reason => #{limit => for_ms, value => 2000},
                count => 0,
                observed_ms => ObservedMs,
                asked_ms => 2000
            })
        )
    end,
    ?assertEqual(~"nothing matched in 2 s (--for)", Text(1990)),
    ?assertEqual(~"nothing matched in 5 ms (--for)", Text(5)).

called_too_often(_Config) ->
    Text = traced("traced:hot/1", #{what => latency, for_ms => 1500}, fun(Node) ->
        erpc:cast(Node, traced, often, [])
    end),
    found("traced:hot/1: at least [0-9]+ calls, mean", Text),
    %% Beside other programs the tracer may not keep up.
    found("dyno: (at least [0-9]+ in 1.5 s|stopped at once)", Text).

%% Two return, and two do not.
not_returned(_Config) ->
    Text = traced("traced:still/1", #{what => latency, for_ms => 1500}, fun(Node) ->
        [erpc:cast(Node, traced, still, [Ms]) || Ms <- [1, 1, 60_000, 60_000]]
    end),
    found("traced:still/1: 2 calls, mean", Text),
    found("traced:still/1: 2 calls have not returned, for up to 1.[0-9]+ s", Text),
    found("dyno: 4 in 1.5 s", Text).

%% A call as the last step of the same function ends with the first: 20, 40 and 60 ms were told of calls
%% that the caller had waited for once.
last_steps(_Config) ->
    Text = traced("traced:turn/1", #{what => latency, for_ms => 1500}, fun(Node) ->
        erpc:cast(Node, traced, turn, [10])
    end),
    found("traced:turn/1: 1 calls?, mean [2-9][0-9]{2} ms", Text),
    found("without 10 calls of itself in its last steps", Text),
    %% Also if two functions call each other.
    Both = traced("traced:_", #{what => latency, for_ms => 1500}, fun(Node) ->
        erpc:cast(Node, traced, ebb, [10])
    end),
    found("traced:ebb/1: 1 calls?, mean [2-9][0-9]{2} ms.*; without 5 calls of itself", Both),
    found("traced:flow/1: 1 calls?, mean [1-9][0-9]{2} ms.*; without 4 calls of itself", Both),
    Endless = traced("traced:turn/1", #{what => latency, for_ms => 1500}, fun(Node) ->
        erpc:cast(Node, traced, turn, [-1])
    end),
    found("traced:turn/1: 1 call has not returned, for 1.* s; without [0-9]+ calls", Endless),
    %% Of other calls within themselves each has its time.
    Within = traced("traced:fact/1", #{what => latency, for_ms => 1500}, fun(Node) ->
        erpc:cast(Node, traced, fact, [9])
    end),
    found("traced:fact/1: 10 calls, mean", Within).

%% The return of a call may be among the events that were dropped.
not_seen(_Config) ->
    Call = {trace_ts, self(), call, {traced, still, [1]}, {1, none, []}, erlang:monotonic_time()},
    Told = fun(Dropped) ->
        First = dyno_agent_trace_sums:init(#{sink => self(), what => latency, terms => #{}}),
        {ok, State} = dyno_agent_trace_sums:event(Call, First),
        Ended = #{reason => done, at => erlang:monotonic_time(), dropped => Dropped},
        ok = dyno_agent_trace_sums:stopped(Ended, State),
        receive
            {dyno_trace, _, _, [#{event := latency, open := Open} | _]} -> map_size(Open)
        end
    end,
    ?assertEqual({1, 0}, {Told(0), Told(1)}).

%% Less than the overhead of tracing is within its error: "< 1 ns" was told of calls that took more.
shorter_than_the_overhead(_Config) ->
    Told = fun(Times) ->
        Histogram = lists:foldl(
            fun dyno_agent_event_histogram:record/2, dyno_agent_event_histogram:new(), Times
        ),
        Of = (dyno_agent_event_histogram:read(Histogram))#{overhead_ns => 400, turns => 0},
        Event = #{
            event => latency, of_what => all, sampled => false, functions => #{{m, f, 1} => Of}
        },
        Item = dyno_trace_item:of_event(node(), Event, #{ahead => 0, records => #{}}),
        Self = self(),
        Print = dyno_trace_text:printer(#{nodes => false, tree => false}, fun(Lines) ->
            Self ! {lines, Lines}
        end),
        _ = Print(Item),
        receive
            {lines, Lines} -> unicode:characters_to_binary(lists:join("\n", Lines))
        end
    end,
    Text = Told([0, 0, 100, 5000]),
    found("4 calls, mean 1.27 us, p50 < 1.02 us, p90 5", Text),
    found("<  1.02 us #+ 3\n", Text),
    ?assertEqual(nomatch, string:find(Text, "1 ns")).

many_values(_Config) ->
    Text = traced("traced:value/1", #{what => {argument, 1}, for_ms => 1500}, fun(Node) ->
        erpc:cast(Node, traced, values, [300])
    end),
    found("argument 1: 300 calls, more than 100 values", Text).

%% Those of the calls that are not shown came too, and were taken for those of the calls around them.
returns_beyond_the_count(_Config) ->
    Text = traced("traced:fact/1 -> return", #{count => 2, for_ms => 1500}, fun(Node) ->
        erpc:cast(Node, traced, fact, [4])
    end),
    found("traced:fact\\(3\\) -> 6 ", Text),
    found("traced:fact\\(4\\) -> 24 ", Text).

found(What, Text) ->
    ?assertMatch({match, _}, re:run(Text, What), Text).

%% The lines that are printed.
traced(Pattern, Options, Do) ->
    dyno_truth:in_node(?TRACED, fun(Node) ->
        Self = self(),
        Print = fun(Lines) -> Self ! {lines, Lines} end,
        Show = dyno_trace_text:printer(#{}, Print),
        {ok, Trace} = dyno_trace:start([Node], [Pattern], Options#{show => Show}),
        _ = Do(Node),
        {ok, Ended} = dyno_trace:await(Trace),
        Lines = printed() ++ [["dyno: ", dyno_trace_text:ending(Of), $\n] || Of <- Ended],
        Text = unicode:characters_to_binary(Lines),
        ct:log("~ts", [Text]),
        Text
    end).

printed() ->
    receive
        {lines, Lines} -> [Lines | printed()]
    after 0 -> []
    end.
