%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

%% Totals, and their text format, read back by a strict parser over HTTP. Prometheus' own
%% parsers read them in dyno_servers_receivers_SUITE.
-module(dyno_servers_prometheus_SUITE).

-include_lib("stdlib/include/assert.hrl").
-include("../../support/dyno_proper.hrl").

-import(dyno_servers_sums, [server/0, server/1, stage/0, callback/2, snapshot/1, many/1]).

-compile([export_all, nowarn_export_all]).

suite() ->
    [{timetrap, {minutes, 1}}].

all() ->
    [
        text_format,
        counters_and_histograms_only_grow,
        gauges_are_of_the_last_window,
        servers_are_forgotten,
        too_many_servers_are_left_out,
        buckets_hold_what_is_below_their_bound,
        labels_are_escaped,
        over_http,
        bad_requests_are_answered,
        slow_readers_hold_up_nothing,
        a_port_in_use_is_refused
    ].

-define(CALL, #{
    ~"node" => ~"shop@10.0.0.1",
    ~"application" => ~"shop",
    ~"module" => ~"Shop.Orders",
    ~"name" => ~"orders",
    ~"behaviour" => ~"gen_server",
    ~"callback" => ~"handle_call"
}).

text_format(_Config) ->
    Families = parse(formatted([server(), stage()])),
    families(Families),
    ?assertMatch(#{~"otp_callbacks_total" := {~"counter", _}}, Families),
    ?assertEqual(1000, value(~"otp_callbacks_total", ?CALL, Families)).

families(Families) ->
    Orders = maps:remove(~"callback", ?CALL),
    Feed = Orders#{
        ~"module" := ~"Shop.Feed", ~"name" := ~"feed", ~"behaviour" := ~"gen_stage"
    },
    [
        ?assertEqual({Name, Labels, Expected}, {Name, Labels, value(Name, Labels, Families)})
     || {Name, Labels, Expected} <- [
            {~"otp_callbacks_total", ?CALL, 1000},
            {~"otp_callback_exceptions_total", ?CALL, 2},
            {~"otp_callback_stops_total", ?CALL, 0},
            {~"otp_callback_cpu_seconds_total", ?CALL, 0.123456789},
            {~"otp_callback_allocated_words_total", ?CALL, 4321},
            {~"otp_callback_duration_seconds_count", ?CALL, 1000},
            {~"otp_callback_duration_seconds_sum", ?CALL, 0.5005},
            {~"otp_callback_duration_max_seconds", ?CALL, 0.001},
            {~"otp_process_crashes_total", Orders, 1},
            {~"otp_processes", Orders, 2},
            {~"otp_process_busy_ratio", Orders, 0.05005},
            {~"otp_process_message_queue_length", Orders, 7},
            {~"otp_process_message_queue_length_max", Orders, 250},
            {~"otp_message_queue_delay_seconds_count", Orders, 2},
            {~"otp_message_queue_delay_seconds_bucket", Orders#{~"le" => ~"1.0"}, 1},
            {~"otp_message_queue_delay_seconds_bucket", Orders#{~"le" => ~"2.0"}, 2},
            {~"gen_stage_events_total", Feed#{~"direction" => ~"out"}, 480},
            {~"gen_stage_demand_total", Feed#{~"direction" => ~"in"}, 500},
            {~"gen_stage_discarded_events_total", Feed, 3},
            {~"gen_stage_buffered_events", Feed, 0},
            {~"gen_stage_outstanding_demand", Feed, 20},
            {~"gen_stage_batch_events_bucket", Feed#{~"le" => ~"5.0"}, 0},
            {~"gen_stage_batch_events_bucket", Feed#{~"le" => ~"10.0"}, 48},
            {~"gen_stage_batch_events_sum", Feed, 480}
        ]
    ],
    %% What is not known is not there; a process is no label.
    ?assertEqual([], [
        S
     || {_, Samples} <- maps:values(Families), {_, #{~"pid" := _}, _} = S <- Samples
    ]),
    ?assertEqual(none, value(~"otp_process_busy_ratio", Feed, Families)),
    ?assertEqual(none, value(~"gen_stage_demand_total", Feed#{~"direction" => ~"out"}, Families)),
    ?assertEqual(
        none,
        value(
            ~"otp_callback_duration_seconds_count",
            maps:put(~"callback", ~"handle_info", ?CALL),
            Families
        )
    ).

counters_and_histograms_only_grow(_Config) ->
    Totals = totals([server() || _ <- lists:seq(1, 3)]),
    Families = parse(format(0, Totals)),
    ?assertEqual(3000, value(~"otp_callbacks_total", ?CALL, Families)),
    ?assertEqual(3000, value(~"otp_callback_duration_seconds_count", ?CALL, Families)),
    ?assert(abs(value(~"otp_callback_duration_seconds_sum", ?CALL, Families) - 1.5015) < 1.0e-12),
    %% Gauges do not add up.
    Orders = maps:remove(~"callback", ?CALL),
    ?assertEqual(7, value(~"otp_process_message_queue_length", Orders, Families)),
    %% What one window lacks stays.
    {_, Later} = dyno_servers_sink_totals:add(
        [(server())#{callbacks := []}], 1, Totals
    ),
    ?assertEqual(3000, value(~"otp_callbacks_total", ?CALL, parse(format(2, Later)))).

gauges_are_of_the_last_window(_Config) ->
    %% Windows of ten seconds, so gauges last for thirty.
    Totals = totals([server()]),
    Orders = maps:remove(~"callback", ?CALL),
    At = fun(Ms, Name, Labels) -> value(Name, Labels, parse(format(Ms, Totals))) end,
    ?assertEqual(7, At(30_000, ~"otp_process_message_queue_length", Orders)),
    ?assertEqual(none, At(30_001, ~"otp_process_message_queue_length", Orders)),
    ?assertEqual(none, At(30_001, ~"otp_callback_duration_max_seconds", ?CALL)),
    ?assertEqual(1000, At(30_001, ~"otp_callbacks_total", ?CALL)).

servers_are_forgotten(_Config) ->
    Totals = totals([server()]),
    ?assertMatch([_], dyno_servers_sink_totals:servers(300_000, Totals)),
    ?assertEqual([], dyno_servers_sink_totals:servers(300_001, Totals)),
    {_, Later} = dyno_servers_sink_totals:add([stage()], 300_001, Totals),
    ?assertMatch([#{labels := #{name := ~"feed"}}], dyno_servers_sink_totals:servers(0, Later)),
    %% A server that comes back begins anew, with a later beginning.
    Back = (server())#{start_ns := 1_800_000_000_000_000_000},
    {_, Again} = dyno_servers_sink_totals:add([Back], 400_000, Later),
    ?assertMatch(
        [#{since_ns := 1_800_000_000_000_000_000}],
        [
            S
         || #{labels := #{name := ~"orders"}} = S <- dyno_servers_sink_totals:servers(
                400_000, Again
            )
        ]
    ),
    ?assertEqual(
        1000, value(~"otp_callbacks_total", ?CALL, parse(format(400_000, Again)))
    ).

too_many_servers_are_left_out(_Config) ->
    Many = many(1_003),
    {{3, {Module, Reason}}, Totals} = dyno_servers_sink_totals:add(
        Many, 0, dyno_servers_sink_totals:new()
    ),
    ?assertEqual(
        "more than 1000 servers, or 1000 points of one server, would be kept",
        lists:flatten(Module:format_error(Reason))
    ),
    ?assertEqual(1_000, length(dyno_servers_sink_totals:servers(0, Totals))),
    %% Those that are kept go on, and make room when they are gone.
    ?assertMatch(
        {{0, none}, _}, dyno_servers_sink_totals:add(lists:sublist(Many, 1_000), 1, Totals)
    ),
    ?assertMatch(
        {{0, none}, _}, dyno_servers_sink_totals:add(lists:nthtail(500, Many), 300_001, Totals)
    ),
    States = [
        callback(<<"state ", (integer_to_binary(N))/binary>>, [1])
     || N <- lists:seq(1, 2_000)
    ],
    {{Left, _}, Kept} = dyno_servers_sink_totals:add(
        [(server())#{callbacks := States}], 0, dyno_servers_sink_totals:new()
    ),
    [#{points := Points}] = dyno_servers_sink_totals:servers(0, Kept),
    ?assertEqual(1_000, length(Points)),
    ?assertEqual(2_000 * 5 + 6, 1_000 + Left).

%% Against counting the values, but for those within 0.4 % of a bound.
buckets_hold_what_is_below_their_bound(_Config) ->
    Property = ?FORALL(
        Values,
        proper_types:non_empty(
            proper_types:list(
                proper_types:oneof([
                    proper_types:integer(0, 3_000),
                    proper_types:integer(0, 20_000_000_000),
                    proper_types:elements([999, 1_000, 1_001, 10_000_000_000, 1 bsl 43])
                ])
            )
        ),
        begin
            Counts = dyno_servers_metrics:counts(snapshot(Values), ns),
            Bounds = [Bound || {Bound, _} <- dyno_servers_metrics:bounds(ns)],
            {Cumulative, Count} = lists:mapfoldl(
                fun(N, Sofar) -> {Sofar + N, Sofar + N} end, 0, Counts
            ),
            Below = fun(Limit) -> length([V || V <- Values, V =< Limit]) end,
            Count =:= length(Values) andalso
                length(Counts) =:= length(Bounds) + 1 andalso
                lists:all(
                    fun({Bound, N}) ->
                        N >= Below(Bound * 0.996) andalso N =< Below(Bound * 1.004)
                    end,
                    lists:zip(Bounds, lists:droplast(Cumulative))
                )
        end
    ),
    dyno_property:holds(Property, 300).

labels_are_escaped(_Config) ->
    Odd = ~"a\\b\"c\nd{e=\"f\",g}é",
    Sums = [server(#{name => Odd, module => <<"bad", 255>>})],
    Families = parse(formatted(Sums)),
    {_, [{_, Labels, 2}]} = map_get(~"otp_processes", Families),
    ?assertMatch(#{~"name" := Odd}, Labels).

over_http(_Config) ->
    {Sink, Port} = start(),
    ?assertEqual(
        iolist_to_binary(io_lib:format("http://127.0.0.1:~b/metrics", [Port])),
        dyno_servers_sink:address(Sink)
    ),
    %% Nothing yet is no error.
    ?assertMatch({200, _, ~""}, get(Port, "/metrics", [])),
    ok = dyno_servers_sink:send(Sink, [server()]),
    ok = dyno_servers_sink:send(Sink, [server(), stage()]),
    Text = until(fun() ->
        {200, Headers, Body} = get(Port, "/metrics?x=y", []),
        ?assertEqual("text/plain; version=0.0.4; charset=utf-8", header("content-type", Headers)),
        2000 =:= value(~"otp_callbacks_total", ?CALL, parse(Body)) andalso Body
    end),
    families_twice(parse(Text)),
    %% Any request has the same format.
    {200, Headers, Text} = get(Port, "/metrics", [{"Accept", "application/openmetrics-text"}]),
    ?assertEqual(integer_to_list(byte_size(Text)), header("content-length", Headers)),
    ok = dyno_servers_sink:stop(Sink),
    ?assertMatch({error, _}, gen_tcp:connect({127, 0, 0, 1}, Port, [])).

families_twice(Families) ->
    ?assertEqual(2000, value(~"otp_callback_duration_seconds_count", ?CALL, Families)).

bad_requests_are_answered(_Config) ->
    {Sink, Port} = start(),
    Status = fun(Request) ->
        {ok, Socket} = gen_tcp:connect({127, 0, 0, 1}, Port, [binary, {active, false}]),
        ok = gen_tcp:send(Socket, Request),
        Answer = all_of(Socket, ~""),
        ok = gen_tcp:close(Socket),
        case Answer of
            <<"HTTP/1.", _, " ", Code:3/binary, _/binary>> ->
                {Code, hd(lists:reverse(binary:split(Answer, ~"\r\n\r\n")))};
            _ ->
                Answer
        end
    end,
    Asked = fun(Line) -> Status([Line, "\r\nHost: x\r\nConnection: close\r\n\r\n"]) end,
    ?assertMatch({~"404", ~"The metrics are at /metrics.\n"}, Asked("GET / HTTP/1.1")),
    ?assertMatch({~"405", _}, Asked("POST /metrics HTTP/1.1\r\nContent-Length: 0")),
    %% OTP 27 says nothing to whoever sends no more.
    case Status("nonsense\r\n\r\n") of
        {~"408", _} -> ok;
        ~"" -> ok
    end,
    ?assertMatch({~"200", ~""}, Asked("HEAD /metrics HTTP/1.1")),
    ?assertMatch({~"200", _}, Status("GET /metrics HTTP/1.0\r\n\r\n")),
    %% Whoever goes away in the middle takes nobody's place.
    [
        begin
            {ok, Socket} = gen_tcp:connect({127, 0, 0, 1}, Port, []),
            ok = gen_tcp:send(Socket, "GET /metr"),
            ok = gen_tcp:close(Socket)
        end
     || _ <- lists:seq(1, 20)
    ],
    ?assertMatch({200, _, _}, get(Port, "/metrics", [])),
    ok = dyno_servers_sink:stop(Sink).

slow_readers_hold_up_nothing(_Config) ->
    {Sink, Port} = start(),
    %% Each silent after its first bytes.
    Slow = [
        begin
            {ok, Socket} = gen_tcp:connect({127, 0, 0, 1}, Port, [binary, {active, false}]),
            ok = gen_tcp:send(Socket, "GET /metrics HTTP/1.1\r\n"),
            Socket
        end
     || _ <- lists:seq(1, 20)
    ],
    [ok = dyno_servers_sink:send(Sink, [server()]) || _ <- lists:seq(1, 8)],
    ?assertMatch({200, _, <<"# HELP", _/binary>>}, get(Port, "/metrics", [])),
    %% They are cut off after some seconds.
    lists:foreach(
        fun(Socket) ->
            case all_of(Socket, ~"") of
                <<"HTTP/1.1 408 ", _/binary>> -> ok;
                ~"" -> ok
            end
        end,
        Slow
    ),
    ?assertEqual(#{failed => 0, dropped => 0, last => none}, dyno_servers_sink:failures(Sink)),
    ok = dyno_servers_sink:stop(Sink).

a_port_in_use_is_refused(_Config) ->
    {Sink, Port} = start(),
    Url = lists:flatten(io_lib:format("prometheus://127.0.0.1:~b", [Port])),
    {ok, Config} = dyno_servers_sink:parse(Url),
    {error, Error} = dyno_servers_sink:start_link(Config),
    ?assertEqual(
        lists:flatten(
            io_lib:format(
                "another program listens at 127.0.0.1:~b already; give another port", [Port]
            )
        ),
        lists:flatten(io_lib:format("~ts", [dyno_error:format(Error)]))
    ),
    ok = dyno_servers_sink:stop(Sink),
    {ok, Other} = dyno_servers_sink:start_link(Config),
    ok = dyno_servers_sink:stop(Other).

start() ->
    {ok, Config} = dyno_servers_sink:parse("prometheus://127.0.0.1:0"),
    {ok, Sink} = dyno_servers_sink:start_link(Config),
    #{port := Port} = uri_string:parse(dyno_servers_sink:address(Sink)),
    {Sink, Port}.

totals(Sums) ->
    lists:foldl(
        fun(Sum, Totals) ->
            {{0, none}, Added} = dyno_servers_sink_totals:add([Sum], 0, Totals),
            Added
        end,
        dyno_servers_sink_totals:new(),
        Sums
    ).

formatted(Sums) ->
    format(0, totals(Sums)).

format(NowMs, Totals) ->
    iolist_to_binary(
        dyno_servers_prometheus:format(dyno_servers_sink_totals:servers(NowMs, Totals))
    ).

get(Port, Path, Headers) ->
    {ok, _} = application:ensure_all_started(inets),
    Url = lists:flatten(io_lib:format("http://127.0.0.1:~b~s", [Port, Path])),
    {ok, {{_, Status, _}, Answered, Body}} = httpc:request(
        get, {Url, Headers}, [], [{body_format, binary}]
    ),
    {Status, Answered, Body}.

header(Name, Headers) ->
    proplists:get_value(Name, Headers).

all_of(Socket, Sofar) ->
    case gen_tcp:recv(Socket, 0, 20_000) of
        {ok, More} -> all_of(Socket, <<Sofar/binary, More/binary>>);
        {error, closed} -> Sofar
    end.

until(Fun) ->
    case Fun() of
        false ->
            receive
            after 5 -> until(Fun)
            end;
        Value ->
            Value
    end.

value(Name, Labels, Families) ->
    Values = [
        V
     || {_, Samples} <- maps:values(Families), {N, L, V} <- Samples, N =:= Name, L =:= Labels
    ],
    case Values of
        [] -> none;
        [Value] -> Value
    end.

%% A strict parser: #{Family => {Type, [{Name, Labels, Value}]}}.

parse(~"") ->
    #{};
parse(Text) ->
    ?assertEqual(nomatch, binary:match(Text, ~"\r")),
    $\n = binary:last(Text),
    Parsed = families(lists:droplast(binary:split(Text, ~"\n", [global])), #{}),
    maps:foreach(fun check/2, Parsed),
    Parsed.

families([], Families) ->
    Families;
families([<<"# HELP ", Help/binary>>, <<"# TYPE ", Type/binary>> | Lines], Families) ->
    [Name, Words] = binary:split(Help, ~" "),
    [Name, Kind] = binary:split(Type, ~" "),
    true = Words =/= ~"",
    false = is_map_key(Name, Families),
    true = lists:member(Kind, [~"counter", ~"gauge", ~"histogram"]),
    {Of, Rest} = lists:splitwith(fun(Line) -> binary:first(Line) =/= $# end, Lines),
    Samples = [sample(Line) || Line <- Of],
    [_ | _] = Samples,
    Accepted =
        case Kind of
            ~"histogram" -> [<<Name/binary, S/binary>> || S <- [~"_bucket", ~"_sum", ~"_count"]];
            _ -> [Name]
        end,
    [true = lists:member(N, Accepted) || {N, _, _} <- Samples],
    %% No sample twice.
    ?assertEqual(length(Samples), length(lists:usort([{N, L} || {N, L, _} <- Samples]))),
    families(Rest, Families#{Name => {Kind, Samples}}).

sample(Line) ->
    {match, [Name, Labels, Value]} = re:run(
        Line,
        "^([a-zA-Z_][a-zA-Z0-9_]*)(?:\\{((?:[a-z_]+=\"(?:[^\"\\\\\n]|\\\\[\\\\\"n])*\",?)+)\\})? "
        "([0-9]+|[0-9]+\\.[0-9]+(?:e-?[0-9]+)?)$",
        [unicode, {capture, all_but_first, binary}, dollar_endonly]
    ),
    {Name, labels(Labels), number(Value)}.

labels(Text) ->
    Pairs =
        case
            re:run(Text, "([a-z_]+)=\"((?:[^\"\\\\]|\\\\.)*)\"", [
                unicode, global, {capture, all_but_first, binary}
            ])
        of
            {match, Found} -> Found;
            nomatch -> []
        end,
    Labels = #{Key => unescaped(Value) || [Key, Value] <- Pairs},
    true = map_size(Labels) =:= length(Pairs),
    Labels.

unescaped(<<"\\\\", Rest/binary>>) -> <<"\\", (unescaped(Rest))/binary>>;
unescaped(<<"\\\"", Rest/binary>>) -> <<"\"", (unescaped(Rest))/binary>>;
unescaped(<<"\\n", Rest/binary>>) -> <<"\n", (unescaped(Rest))/binary>>;
unescaped(<<C, Rest/binary>>) when C =/= $\\ -> <<C, (unescaped(Rest))/binary>>;
unescaped(<<>>) -> <<>>.

number(Text) ->
    case binary:match(Text, ~".") of
        nomatch -> binary_to_integer(Text);
        _ -> binary_to_float(Text)
    end.

%% The buckets of a histogram ascend, end at +Inf, and the last is its count.
check(Name, {~"histogram", Samples}) ->
    Buckets = maps:groups_from_list(
        fun({_, Labels, _}) -> maps:remove(~"le", Labels) end,
        fun({_, #{~"le" := Le}, Value}) -> {Le, Value} end,
        [S || {N, _, _} = S <- Samples, N =:= <<Name/binary, "_bucket">>]
    ),
    Counts = #{L => V || {N, L, V} <- Samples, N =:= <<Name/binary, "_count">>},
    ?assertEqual(maps:keys(Counts), maps:keys(Buckets)),
    maps:foreach(
        fun(Labels, Of) ->
            {Bounds, Values} = lists:unzip(Of),
            ?assertEqual(lists:sort(Values), Values),
            ?assertEqual({~"+Inf", map_get(Labels, Counts)}, lists:last(Of)),
            Numbers = [bound(B) || B <- lists:droplast(Bounds)],
            ?assertEqual(lists:usort(Numbers), Numbers)
        end,
        Buckets
    );
check(_Name, _) ->
    ok.

bound(Text) ->
    binary_to_float(binary:replace(Text, ~"e", ~".0e")).
