%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

%% The lines of StatsD and DogStatsD, read back by a strict parser, and how they go over UDP and
%% Unix sockets. Real servers read them in dyno_servers_receivers_SUITE.
-module(dyno_servers_statsd_SUITE).

-include_lib("stdlib/include/assert.hrl").
-include("../../support/dyno_proper.hrl").

-import(dyno_servers_sums, [server/0, server/1, stage/0, callback/2, snapshot/1, many/1]).

-compile([export_all, nowarn_export_all]).

suite() ->
    [{timetrap, {minutes, 2}}].

all() ->
    [
        statsd_lines,
        dogstatsd_lines,
        a_process_is_no_label,
        reserved_characters_are_replaced,
        few_values_are_sent_as_they_are,
        samples_stand_for_all,
        rates_give_the_weight_back,
        datagrams_are_full_and_never_too_long,
        over_udp,
        over_ipv6,
        over_a_unix_socket,
        many_servers_arrive,
        a_receiver_that_is_stuck,
        nobody_listens,
        what_is_too_long_is_counted,
        unknown_hosts_are_refused
    ].

-define(STATSD, #{protocol => statsd, prefix => ~"otp"}).
-define(DOGSTATSD, #{protocol => dogstatsd, prefix => ~"otp", tags => [{~"env", ~"live"}]}).

statsd_lines(_Config) ->
    Lines = lines([server(), stage()], ?STATSD),
    Orders = ~"otp.shop_10-0-0-1.Shop-Orders.orders.",
    Feed = ~"otp.shop_10-0-0-1.Shop-Feed.feed.",
    Is = fun(Expected, Server, Name) ->
        Full = <<Server/binary, Name/binary>>,
        ?assertEqual({Full, Expected}, {Full, [{T, V, R} || {N, T, V, R, []} <- Lines, N =:= Full]})
    end,
    Is([{~"c", [1000.0], 1.0}], Orders, ~"handle_call.calls"),
    Is([{~"c", [123.456789], 1.0}], Orders, ~"handle_call.cpu"),
    Is([{~"c", [4321.0], 1.0}], Orders, ~"handle_call.allocated"),
    Is([{~"c", [2.0], 1.0}], Orders, ~"handle_call.exceptions"),
    Is([], Orders, ~"handle_call.stops"),
    Is([{~"g", [1.0], 1.0}], Orders, ~"handle_call.duration.max"),
    Is([{~"c", [3.0], 1.0}], Orders, ~"handle_info.calls"),
    Is([{~"c", [1.0], 1.0}], Orders, ~"handle_info.stops"),
    Is([], Orders, ~"handle_info.duration"),
    Is([{~"g", [2.0], 1.0}], Orders, ~"process.count"),
    Is([{~"c", [1.0], 1.0}], Orders, ~"process.crashes"),
    Is([{~"g", [0.05005], 1.0}], Orders, ~"process.busy"),
    Is([{~"g", [7.0], 1.0}], Orders, ~"process.message_queue.length"),
    Is([{~"g", [250.0], 1.0}], Orders, ~"process.message_queue.max"),
    Is(
        [{~"ms", [1.5], 1.0}, {~"ms", [1900.0], 1.0}], Orders, ~"process.message_queue.delay"
    ),
    Is([{~"c", [500.0], 1.0}], Feed, ~"gen_stage.demand.in"),
    Is([], Feed, ~"gen_stage.demand.out"),
    Is([{~"c", [480.0], 1.0}], Feed, ~"gen_stage.events.out"),
    Is([{~"c", [3.0], 1.0}], Feed, ~"gen_stage.discarded"),
    Is([{~"g", [20.0], 1.0}], Feed, ~"gen_stage.outstanding"),
    Is([{~"g", [0.0], 1.0}], Feed, ~"gen_stage.buffered"),
    Is([], Feed, ~"process.busy"),
    %% 1 us to 1 ms, in milliseconds, never cut to whole ones.
    Times = [
        {V, R}
     || {N, ~"ms", [V], R, []} <- Lines, N =:= <<Orders/binary, "handle_call.duration">>
    ],
    ?assertEqual([20], lists:usort([round(1 / R) || {_, R} <- Times])),
    ?assertEqual(50, length(Times)),
    Mean = lists:sum([V || {V, _} <- Times]) / 50,
    ?assert(abs(Mean - 0.5005) < 0.5005 * 0.005, Mean),
    {Median, _} = lists:nth(25, Times),
    ?assert(abs(Median - 0.49) < 0.49 * 0.005, Median).

dogstatsd_lines(_Config) ->
    Lines = lines([server(), stage()], ?DOGSTATSD),
    Tags = [
        {~"env", ~"live"},
        {~"node", ~"shop_10.0.0.1"},
        {~"application", ~"shop"},
        {~"module", ~"Shop.Orders"},
        {~"name", ~"orders"},
        {~"behaviour", ~"gen_server"}
    ],
    Of = fun(Wanted, More) ->
        [{T, V, R} || {N, T, V, R, G} <- Lines, N =:= Wanted, G =:= Tags ++ More]
    end,
    Call = [{~"callback", ~"handle_call"}],
    ?assertEqual([{~"c", [1000.0], 1.0}], Of(~"otp.callback.calls", Call)),
    ?assertEqual([{~"g", [7.0], 1.0}], Of(~"otp.process.message_queue.length", [])),
    ?assertEqual([{~"d", [1.5, 1900.0], 1.0}], Of(~"otp.process.message_queue.delay", [])),
    ?assertEqual(
        [{~"c", [480.0], 1.0}],
        [
            {T, V, R}
         || {~"otp.gen_stage.events", T, V, R, G} <- Lines,
            lists:member({~"direction", ~"out"}, G),
            lists:member({~"behaviour", ~"gen_stage"}, G)
        ]
    ),
    Packed = Of(~"otp.callback.duration", Call),
    ?assertEqual([{9, 100}, {9, 10}, {10, 1}], [{length(V), round(1 / R)} || {~"d", V, R} <- Packed]).

a_process_is_no_label(_Config) ->
    [
        ?assertEqual(
            nomatch,
            binary:match(
                iolist_to_binary(dyno_servers_statsd:lines([server()], Form)),
                [~"0.123.0", ~"0-123-0", ~"shop_sup"]
            )
        )
     || Form <- [?STATSD, ?DOGSTATSD]
    ].

reserved_characters_are_replaced(_Config) ->
    Odd = #{
        node => ~"a@b|c#d:e,f\ng h",
        name => ~"{orders, \"übrig\"}",
        module => <<"caf", 16#C3, 16#A9, 255, "x">>,
        application => binary:copy(~"é", 100)
    },
    Sum = (server(Odd))#{
        callbacks := [callback(~"handler: handle_event", [1])]
    },
    %% The parser accepts no reserved character within a part.
    [{~"otp.a_b_c_d_e_f_g_h.", Rest} | _] = [
        {<<Start:20/binary>>, Rest}
     || {<<Start:20/binary, Rest/binary>>, _, _, _, []} <- lines([Sum], ?STATSD)
    ],
    ?assertMatch(
        {match, _}, re:run(Rest, "^caf[^.]*\\._orders____brig__\\.handler__handle_event\\.")
    ),
    [{_, _, _, _, Tags} | _] = lines([Sum], ?DOGSTATSD),
    ?assertEqual(~"a_b_c_d_e_f_g_h", proplists:get_value(~"node", Tags)),
    ?assertEqual(~"{orders__\"übrig\"}", proplists:get_value(~"name", Tags)),
    ?assertEqual(binary:copy(~"é", 60), proplists:get_value(~"application", Tags)),
    ?assertEqual(~"handler__handle_event", proplists:get_value(~"callback", Tags)),
    %% A label that is not there keeps its place in a name.
    [{Name, _, _, _, []} | _] = lines([Sum#{labels := #{module => ~"m"}}], ?STATSD),
    ?assertEqual(~"otp.all.m.all.handler__handle_event.calls", Name).

few_values_are_sent_as_they_are(_Config) ->
    Samples = fun(Values) ->
        dyno_servers_statsd:samples(dogstatsd, snapshot(Values))
    end,
    ?assertEqual([{1, [7]}], Samples([7])),
    ?assertEqual([{1, [7, 7]}], Samples([7, 7])),
    ?assertEqual([{1, [1, 200, 1_000_001]}], Samples([200, 1_000_001, 1])),
    ?assertEqual([{1, lists:seq(1, 10)}], Samples(lists:seq(1, 10))),
    ?assertEqual(
        [{1, [float(V) || V <- lists:seq(1, 9)]}, {1, [10, 11]}], Samples(lists:seq(1, 11))
    ).

%% The count exactly, the mean and the percentiles nearly, whatever the distribution.
samples_stand_for_all(_Config) ->
    Property = ?FORALL(
        Values,
        proper_types:non_empty(
            proper_types:list(
                proper_types:oneof([
                    proper_types:integer(0, 100),
                    proper_types:integer(1_000, 1_000_000),
                    proper_types:integer(0, 20_000_000_000)
                ])
            )
        ),
        begin
            %% More values than PropEr's lists have.
            Many = lists:append(lists:duplicate(1 + length(Values) * 37, Values)),
            Snapshot = snapshot(Many),
            Samples = dyno_servers_statsd:samples(dogstatsd, Snapshot),
            Equal = dyno_servers_statsd:samples(statsd, Snapshot),
            Count = length(Many),
            Sum = lists:sum([W * V || {W, Vs} <- Samples, V <- Vs]),
            All = lists:sort([{V, W} || {W, Vs} <- Samples, V <- Vs]),
            Sorted = lists:sort(Many),
            Count =:= lists:sum([W * length(Vs) || {W, Vs} <- Samples]) andalso
                Count =:= lists:sum([W * length(Vs) || {W, Vs} <- Equal]) andalso
                lists:sum([length(Vs) || {_, Vs} <- Equal]) =:= min(Count, 50) andalso
                length(Equal) =< 2 andalso
                lists:all(fun({_, Vs}) -> length(Vs) =< 10 end, Samples) andalso
                length(All) =< 10 * (1 + math:log10(Count)) + 10 andalso
                lists:last(Sorted) == element(1, lists:last(All)) andalso
                abs(Sum - lists:sum(Many)) =< 0.005 * lists:sum(Many) + 1 andalso
                %% What is at a rank lies between the values a part of its band away.
                lists:all(fun(Q) -> near(Q, All, Sorted, Count) end, [0.5, 0.9, 0.99, 0.999])
        end
    ),
    dyno_property:holds(Property, 100).

near(Q, Samples, Sorted, Count) ->
    Value = at(ceil(Q * Count), Samples),
    %% A group is at most a ninth of the share above it.
    Reach = (1 - Q) / 0.9 + 1.0e-9,
    Low = lists:nth(max(1, floor((Q - Reach) * Count)), Sorted),
    High = lists:nth(min(Count, ceil((Q + Reach) * Count) + 1), Sorted),
    Value >= Low * 0.99 - 1 andalso Value =< High * 1.01 + 1.

at(Rank, [{Value, Weight} | _]) when Rank =< Weight -> Value;
at(Rank, [{_, Weight} | Rest]) -> at(Rank - Weight, Rest).

%% Datadog's agent cuts 1 / rate to a whole number; StatsD's server reads digits and a point only.
rates_give_the_weight_back(_Config) ->
    Weights = lists:seq(1, 20_000) ++ [round(math:pow(1.37, N)) || N <- lists:seq(30, 80)],
    [
        begin
            Rate = dyno_servers_statsd:rate(Weight),
            ?assertMatch({match, _}, re:run(Rate, "^(1|0\\.[0-9]+)$")),
            Number = number(Rate),
            ?assertEqual({Weight, Weight}, {Weight, trunc(1 / Number)}),
            ?assert(abs(1 / Number - Weight) < 1.0e-9 * Weight, Weight)
        end
     || Weight <- Weights
    ].

datagrams_are_full_and_never_too_long(_Config) ->
    Property = ?FORALL(
        Sizes,
        proper_types:list(proper_types:integer(1, 1_500)),
        begin
            Lines = [binary:copy(~"x", Size) || Size <- Sizes],
            {TooLong, Datagrams} = dyno_servers_statsd:datagrams(Lines),
            Packed = [iolist_to_binary(D) || D <- Datagrams],
            Sent = [byte_size(L) || D <- Packed, L <- binary:split(D, ~"\n", [global])],
            TooLong =:= length([S || S <- Sizes, S > 1_432]) andalso
                Sent =:= [S || S <- Sizes, S =< 1_432] andalso
                lists:all(fun(D) -> byte_size(D) =< 1_432 end, Packed) andalso
                %% No line would have fitted the datagram before.
                lists:all(
                    fun({A, B}) ->
                        byte_size(A) + 1 + byte_size(hd(binary:split(B, ~"\n"))) > 1_432
                    end,
                    pairs(Packed)
                )
        end
    ),
    dyno_property:holds(Property, 300).

pairs([A | [B | _] = Rest]) -> [{A, B} | pairs(Rest)];
pairs(_) -> [].

over_udp(_Config) ->
    {ok, Socket} = gen_udp:open(0, [binary, {active, true}, {ip, {127, 0, 0, 1}}]),
    {ok, Port} = inet:port(Socket),
    Url = io_lib:format("statsd://localhost:~b?prefix=a.b", [Port]),
    {Sink, Received} = sent(Url, [server()], Socket),
    ?assertEqual(iolist_to_binary(io_lib:format("statsd://localhost:~b", [Port])), Sink),
    Expected = dyno_servers_statsd:lines(
        [server()], #{protocol => statsd, prefix => ~"a.b"}
    ),
    ?assertEqual(Expected, Received),
    ?assertMatch(<<"a.b.shop_10", _/binary>>, hd(Received)).

over_ipv6(_Config) ->
    case gen_udp:open(0, [inet6, binary, {active, true}, {ip, {0, 0, 0, 0, 0, 0, 0, 1}}]) of
        {ok, Socket} ->
            {ok, Port} = inet:port(Socket),
            Url = io_lib:format("dogstatsd://[::1]:~b", [Port]),
            {_, Received} = sent(Url, [server()], Socket),
            ?assertEqual(
                dyno_servers_statsd:lines(
                    [server()],
                    #{protocol => dogstatsd, prefix => ~"otp", tags => []}
                ),
                Received
            );
        {error, Reason} ->
            {skip, io_lib:format("this machine has no IPv6: ~p", [Reason])}
    end.

over_a_unix_socket(_Config) ->
    Path = unix_path(),
    {ok, Config} = dyno_servers_sink:parse("dogstatsd+unix:" ++ Path ++ "?tags=env:live"),
    {ok, Sink} = dyno_servers_sink:start_link(Config),
    %% Before the agent is there.
    ok = dyno_servers_sink:send(Sink, [stage()]),
    ?assertMatch(
        #{failed := 2, last := ~"a datagram could not be sent: no such file or directory"},
        failed(Sink)
    ),
    with_unix_socket(Path, true, fun(Socket) ->
        ok = dyno_servers_sink:send(Sink, [server()]),
        ok = dyno_servers_sink:stop(Sink),
        ?assertEqual(
            dyno_servers_statsd:lines([server()], ?DOGSTATSD), received(Socket, [])
        )
    end).

%% A Unix socket holds ten datagrams: the sink waits for the receiver.
many_servers_arrive(_Config) ->
    Path = unix_path(),
    Sums = many(100),
    Expected = dyno_servers_statsd:lines(Sums, ?STATSD),
    {0, Datagrams} = dyno_servers_statsd:datagrams(Expected),
    ?assert(length(Datagrams) > 100),
    with_unix_socket(Path, true, fun(Socket) ->
        {_, Received} = sent("statsd+unix:" ++ Path, Sums, Socket),
        ?assertEqual(length(Expected), length(Received)),
        ?assertEqual(Expected, Received)
    end).

%% But not for ever.
a_receiver_that_is_stuck(_Config) ->
    Path = unix_path(),
    with_unix_socket(Path, false, fun(_Socket) ->
        {ok, Config} = dyno_servers_sink:parse("statsd+unix:" ++ Path),
        {ok, Sink} = dyno_servers_sink:start_link(Config),
        ok = dyno_servers_sink:send(Sink, many(100)),
        ok = dyno_servers_sink:send(Sink, [server()]),
        ?assertMatch(
            #{last := ~"a datagram could not be sent: resource temporarily unavailable"},
            failed(Sink)
        ),
        ok = dyno_servers_sink:stop(Sink)
    end).

%% The system's limit is 107 bytes.
unix_path() ->
    Path = "/tmp/dyno-" ++ os:getpid() ++ ".sock",
    _ = file:delete(Path),
    Path.

with_unix_socket(Path, Active, Fun) ->
    {ok, Socket} = gen_udp:open(0, [local, binary, {active, Active}, {ifaddr, {local, Path}}]),
    try
        Fun(Socket)
    after
        gen_udp:close(Socket),
        file:delete(Path)
    end.

nobody_listens(_Config) ->
    {ok, Socket} = gen_udp:open(0, [{ip, {127, 0, 0, 1}}]),
    {ok, Port} = inet:port(Socket),
    ok = gen_udp:close(Socket),
    {ok, Config} = dyno_servers_sink:parse(io_lib:format("statsd://127.0.0.1:~b", [Port])),
    {ok, Sink} = dyno_servers_sink:start_link(Config),
    [ok = dyno_servers_sink:send(Sink, [server()]) || _ <- lists:seq(1, 8)],
    ?assertMatch(
        #{dropped := 0, last := ~"a datagram could not be sent: connection refused"}, failed(Sink)
    ),
    ok = dyno_servers_sink:stop(Sink).

what_is_too_long_is_counted(_Config) ->
    Tag = lists:duplicate(1_400, $x),
    {ok, Config} = dyno_servers_sink:parse("dogstatsd://127.0.0.1:9?tags=x:" ++ Tag),
    {ok, Sink} = dyno_servers_sink:start_link(Config),
    ok = dyno_servers_sink:send(Sink, [server()]),
    ?assertMatch(#{last := <<"a line would be longer than a datagram", _/binary>>}, failed(Sink)),
    ok = dyno_servers_sink:stop(Sink).

unknown_hosts_are_refused(_Config) ->
    {ok, Config} = dyno_servers_sink:parse("statsd://no-such-host.invalid:8125"),
    {error, Error} = dyno_servers_sink:start_link(Config),
    ?assertEqual(
        "there is no host no-such-host.invalid: non-existing domain",
        lists:flatten(dyno_error:format(Error))
    ).

%% Waits until something failed.
failed(Sink) ->
    case dyno_servers_sink:failures(Sink) of
        #{last := none} ->
            receive
            after 5 -> failed(Sink)
            end;
        Failures ->
            Failures
    end.

sent(Url, Sums, Socket) ->
    {ok, Config} = dyno_servers_sink:parse(Url),
    {ok, Sink} = dyno_servers_sink:start_link(Config),
    ok = dyno_servers_sink:send(Sink, Sums),
    ok = dyno_servers_sink:stop(Sink),
    Received = received(Socket, []),
    ok = gen_udp:close(Socket),
    {dyno_servers_sink:address(Sink), Received}.

%% All was sent before: what has not arrived after a while never will.
received(Socket, Lines) ->
    receive
        {udp, Socket, _, _, Datagram} ->
            ?assert(byte_size(Datagram) =< 1_432),
            received(Socket, [binary:split(Datagram, ~"\n", [global]) | Lines])
    after 500 ->
        lists:append(lists:reverse(Lines))
    end.

%% A strict parser: {Name, Type, Values, Rate, Tags}.

lines(Sums, #{protocol := Protocol} = Form) ->
    [parse(Protocol, Line) || Line <- dyno_servers_statsd:lines(Sums, Form)].

parse(Protocol, Line) ->
    {match, _} = re:run(Line, "^[^\n\r]+$", [dollar_endonly]),
    [Data, Type | More] = binary:split(Line, ~"|", [global]),
    [Name | Values] = binary:split(Data, ~":", [global]),
    {match, _} = re:run(Name, "^[a-zA-Z0-9_-]+(\\.[a-zA-Z0-9_-]+)*$"),
    true = lists:member(Type, types(Protocol)),
    true = Protocol =:= dogstatsd orelse length(Values) =:= 1,
    {Rate, Tags} =
        case More of
            [] ->
                {1.0, []};
            [<<"@", R/binary>>] ->
                {number(R), []};
            [<<"#", T/binary>>] when Protocol =:= dogstatsd -> {1.0, tags(T)};
            [<<"@", R/binary>>, <<"#", T/binary>>] when Protocol =:= dogstatsd ->
                {number(R), tags(T)}
        end,
    true = Rate > 0 andalso Rate =< 1,
    {Name, Type, [number(Value) || Value <- Values], Rate, Tags}.

types(statsd) -> [~"c", ~"g", ~"ms"];
types(dogstatsd) -> [~"c", ~"g", ~"d"].

number(Text) ->
    {match, _} = re:run(Text, "^[0-9]+(\\.[0-9]+)?$"),
    case binary:match(Text, ~".") of
        nomatch -> float(binary_to_integer(Text));
        _ -> binary_to_float(Text)
    end.

tags(Text) ->
    [
        begin
            [Key, Value] = binary:split(Tag, ~":", [global]),
            {match, _} = re:run(Value, "^[^:|@#,\\s]+$", [unicode]),
            {Key, Value}
        end
     || Tag <- binary:split(Text, ~",", [global])
    ].
