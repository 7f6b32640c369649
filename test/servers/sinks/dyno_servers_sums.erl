%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_servers_sums).
-moduledoc "Sums as sinks get them, for tests.".

-export([server/0, server/1, stage/0, callback/2, snapshot/1, many/1]).

-doc "A gen_server with two callbacks: 1,000 calls of 1 us to 1 ms, and 3 infos without times.".
-spec server() -> map().
server() ->
    #{
        labels => #{
            node => ~"shop@10.0.0.1",
            application => ~"shop",
            module => ~"Shop.Orders",
            name => ~"orders",
            behaviour => ~"gen_server",
            %% What sinks must not take.
            pid => ~"<0.123.0>",
            supervisor => ~"shop_sup"
        },
        start_ns => 1_790_000_000_000_000_000,
        duration_ns => 10_000_000_000,
        processes => 2,
        crashes => 1,
        busy => 0.05005,
        queue_now => 7,
        queue_max => 250,
        delay => snapshot([1_500_000, 1_900_000_000]),
        callbacks => [
            (callback(~"handle_call", [N * 1000 || N <- lists:seq(1, 1000)]))#{
                exceptions := 2, cpu_ns := 123_456_789, words := 4_321
            },
            (callback(~"handle_info", []))#{count := 3, stops := 1}
        ],
        stage => none
    }.

-doc "The same with other labels.".
-spec server(#{atom() => binary()}) -> map().
server(Labels) ->
    #{labels := Usual} = Server = server(),
    Server#{labels := maps:merge(Usual, Labels)}.

-doc "A stage of GenStage.".
-spec stage() -> map().
stage() ->
    (server(#{module => ~"Shop.Feed", name => ~"feed", behaviour => ~"gen_stage"}))#{
        callbacks := [callback(~"handle_demand", [5_000_000])],
        delay := none,
        busy := undefined,
        stage := #{
            kind => producer,
            demand_asked => undefined,
            demand_received => 500,
            events_in => 0,
            events_out => 480,
            discarded => 3,
            outstanding => 20,
            buffered => 0,
            batches => snapshot(lists:duplicate(48, 10)),
            demand_to_event => none,
            subscriptions => []
        }
    }.

-doc "A callback that took these nanoseconds.".
-spec callback(binary(), [non_neg_integer()]) -> map().
callback(Name, Values) ->
    #{
        name => Name,
        count => length(Values),
        exceptions => 0,
        stops => 0,
        wall => snapshot(Values),
        cpu_ns => undefined,
        words => undefined
    }.

-doc "Of values.".
-spec snapshot([non_neg_integer()]) -> dyno_histogram:snapshot() | none.
snapshot([]) ->
    none;
snapshot(Values) ->
    Histogram = dyno_histogram:new(),
    ok = lists:foreach(fun(Value) -> dyno_histogram:record(Histogram, Value) end, Values),
    dyno_histogram:snapshot(Histogram).

-doc "So many servers.".
-spec many(pos_integer()) -> [map()].
many(Count) ->
    [server(#{name => <<"worker ", (integer_to_binary(N))/binary>>}) || N <- lists:seq(1, Count)].
