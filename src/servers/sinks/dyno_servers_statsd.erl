%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_servers_statsd).
-moduledoc false.
%% Sends points as lines of StatsD or DogStatsD to a UDP port or a Unix socket.
%%
%% A distribution is sent as representative values with the protocols' sample rate; their counts add
%% up exactly.
%%
%% StatsD's server applies the rate to counts, but not to means and percentiles. The server gets at
%% most fifty values, each for the same number of values or for one more.
%%
%% Datadog's agent applies the rate everywhere. It gets nine values for the lowest 90 %, nine for
%% 90 % of the rest, down to single values and the largest: about 60 of a million.

-behaviour(dyno_servers_sink).

-export([open/1, write/2, close/1, format_error/1]).
%% The lines, for tests
-export([lines/2, datagrams/1, samples/2, rate/1]).

%% Datagrams before a pause: a receiver's socket takes about 100, and lost ones are not reported.
-define(BURST, 16).
-define(PAUSE_MS, 1).
%% A Unix socket takes ten and reports when full. The most pauses for a receiver in a window.
-define(MOST_PAUSES, 1_000).
%% The payload of an Ethernet frame.
-define(MOST_BYTES, 1_432).
-define(PARTS, 10).
-define(EQUAL_PARTS, 50).
-define(RATE_DIGITS, 13).

-type state() :: #{
    socket := gen_udp:socket(),
    to := connected | {local, binary()},
    form := form()
}.
-type form() :: #{
    protocol := statsd | dogstatsd,
    prefix := binary(),
    tags => [{binary(), binary()}],
    atom() => term()
}.
-type reason() :: {socket, inet:posix()} | {send, inet:posix()} | too_long.

-spec open(dyno_servers_sink:config()) ->
    {ok, binary(), state()} | {error, dyno_error:error()}.
open(#{protocol := Protocol, path := Path} = Form) ->
    case gen_udp:open(0, [local, binary, {active, false}]) of
        {ok, Socket} ->
            {ok, <<(atom_to_binary(Protocol))/binary, "+unix:", Path/binary>>, #{
                socket => Socket, to => {local, Path}, form => Form
            }};
        {error, Reason} ->
            {error, {?MODULE, {socket, Reason}}}
    end;
open(#{protocol := Protocol, host := Host, port := Port} = Form) ->
    maybe
        {ok, Family, Address} ?= dyno_servers_sinks:resolve(Host),
        {ok, Socket} ?= gen_udp:open(0, [Family, binary, {active, false}]),
        %% A connected socket reports a missing receiver.
        ok ?= gen_udp:connect(Socket, Address, Port),
        Where = unicode:characters_to_binary(io_lib:format("~ts://~ts:~b", [Protocol, Host, Port])),
        {ok, Where, #{socket => Socket, to => connected, form => Form}}
    else
        {error, {_, _} = Error} -> {error, Error};
        {error, Reason} -> {error, {?MODULE, {socket, Reason}}}
    end.

-spec write([dyno_servers_window:sum()], state()) -> {dyno_servers_sink:written(), state()}.
write(Sums, #{form := Form} = State) ->
    Lines = lines(Sums, Form),
    {TooLong, Datagrams} = datagrams(Lines),
    Why =
        case TooLong of
            0 -> none;
            _ -> {?MODULE, too_long}
        end,
    {send(lists:enumerate(Datagrams), ?MOST_PAUSES, {TooLong, Why}, State), State}.

send([], _Pauses, Written, _State) ->
    Written;
send([{Nth, Datagram} | Rest] = Datagrams, Pauses, {Failed, _} = Written, State) ->
    case send(Datagram, State) of
        ok ->
            _ = [timer:sleep(?PAUSE_MS) || Nth rem ?BURST =:= 0],
            send(Rest, Pauses, Written, State);
        {error, eagain} when Pauses > 0 ->
            timer:sleep(?PAUSE_MS),
            send(Datagrams, Pauses - 1, Written, State);
        {error, Why} ->
            send(Rest, Pauses, {Failed + 1, {?MODULE, {send, Why}}}, State)
    end.

send(Datagram, #{socket := Socket, to := connected}) -> gen_udp:send(Socket, Datagram);
send(Datagram, #{socket := Socket, to := Local}) -> gen_udp:send(Socket, Local, Datagram).

-spec close(state()) -> ok.
close(#{socket := Socket}) ->
    gen_udp:close(Socket).

-spec format_error(reason()) -> unicode:chardata().
format_error({socket, Reason}) ->
    io_lib:format("no socket could be opened: ~ts", [inet:format_error(Reason)]);
format_error({send, Reason}) ->
    io_lib:format("a datagram could not be sent: ~ts", [inet:format_error(Reason)]);
format_error(too_long) ->
    "a line would be longer than a datagram; its tags or its prefix are too long".

%% Lines

-spec lines([dyno_servers_window:sum()], form()) -> [binary()].
lines(Sums, Form) ->
    [
        Line
     || Sum <- Sums,
        Labels <- [labels(dyno_servers_metrics:labels(Sum), Form)],
        {Metric, Label, Value} <- dyno_servers_metrics:points(Sum),
        Line <- point(Metric, {Labels, Label}, Value, Form)
    ].

%% Datadog's agent computes the maximum of a distribution itself.
point(#{id := ~"callback.duration.max"}, _Labels, _Value, #{protocol := dogstatsd}) ->
    [];
point(#{type := counter}, _Labels, Zero, _Form) when Zero == 0 ->
    [];
point(
    #{id := Id, type := histogram, unit := Unit}, Labels, Snapshot, #{protocol := Protocol} = Form
) ->
    {Name, Tags} = named(Id, Labels, Form),
    [
        iolist_to_binary([Name, Packed, type(Protocol), weighted(Weight), Tags])
     || {Weight, Values} <- samples(Protocol, Snapshot),
        Packed <- packed(Protocol, [number(Value, Unit) || Value <- Values])
    ];
point(#{id := Id, type := Type, unit := Unit}, Labels, Value, Form) ->
    {Name, Tags} = named(Id, Labels, Form),
    [iolist_to_binary([Name, number(Value, Unit), type(Type), Tags])].

type(counter) -> ~"|c";
type(gauge) -> ~"|g";
type(statsd) -> ~"|ms";
type(dogstatsd) -> ~"|d".

weighted(1) -> [];
weighted(Weight) -> [~"|@", rate(Weight)].

%% At most ten values: a line fits a datagram.
packed(statsd, Values) -> Values;
packed(dogstatsd, Values) -> [lists:join(~":", Values)].

%% The common part of a sum's lines. StatsD: the beginning of the name, with labels at fixed places
%% for patterns of names. DogStatsD: the tags.
labels(Labels, #{protocol := statsd, prefix := Prefix}) ->
    Server = [part(maps:get(Key, Labels, ~"all")) || Key <- [node, module, name]],
    iolist_to_binary(lists:join(~".", [prefix(Prefix) | Server]));
labels(Labels, #{protocol := dogstatsd, tags := Own}) ->
    Tags = [tag(Pair) || Pair <- Own ++ dyno_servers_metrics:ordered(Labels)],
    iolist_to_binary(lists:join(~",", Tags)).

named(<<"callback.", Metric/binary>>, {Server, {callback, Callback}}, #{protocol := statsd}) ->
    {[Server, ~".", part(Callback), ~".", Metric, ~":"], []};
named(Id, {Server, Label}, #{protocol := statsd}) ->
    {[Server, ~".", Id, [[~".", Direction] || {direction, Direction} <- [Label]], ~":"], []};
named(Id, {Tags, Label}, #{protocol := dogstatsd, prefix := Prefix}) ->
    All = [Tags || Tags =/= ~""] ++ [tag(Label) || Label =/= none],
    {[prefix(Prefix), ~".", Id, ~":"], [[~"|#", lists:join(~",", All)] || All =/= []]}.

prefix(Prefix) -> re:replace(Prefix, "[^a-zA-Z0-9.-]", "_", [global, unicode]).

%% A dot divides names; no alias of Elixir has a hyphen.
part(Text) -> prefix(binary:replace(Text, ~".", ~"-", [global])).

tag({Key, Value}) when is_atom(Key) -> [atom_to_binary(Key), ~":", clean(Value)];
tag({Key, Value}) -> [clean(Key), ~":", clean(Value)].

clean(Text) -> re:replace(Text, "[\\x00-\\x20:|@#,]", "_", [global]).

%% Times in milliseconds; a nanosecond is the sixth decimal.
number(Ns, ns) -> decimal(Ns / 1.0e6);
number(Value, _) when is_integer(Value) -> integer_to_binary(Value);
number(Value, _) -> decimal(Value).

decimal(Value) ->
    float_to_binary(float(Value), [{decimals, 6}, compact]).

-doc """
A sample rate of 1 for `Weight`, in digits only for StatsD's server, and never above 1 / `Weight`,
since Datadog's agent truncates 1 / rate to an integer.
""".
-spec rate(pos_integer()) -> binary().
rate(1) ->
    ~"1";
rate(Weight) ->
    Rate = rate(1 / Weight, Weight),
    case trunc(1 / binary_to_float(Rate)) of
        Weight -> Rate;
        _ -> rate((1 - 1.0e-11) / Weight, Weight)
    end.

rate(Rate, Weight) ->
    Digits = ?RATE_DIGITS + trunc(math:log10(Weight)),
    float_to_binary(Rate, [{decimals, Digits}, compact]).

-doc "Representative values, at most ten for each `Weight`; weights add up to the count.".
-spec samples(statsd | dogstatsd, dyno_histogram:snapshot()) ->
    [{Weight :: pos_integer(), [number(), ...]}].
samples(_Protocol, #{count := 1, min := Min}) ->
    [{1, [Min]}];
samples(Protocol, #{count := Count, min := Min, max := Max} = Snapshot) ->
    Buckets = [
        {min(Max, max(Min, (Low + High - 1) div 2)), N}
     || {Low, High, N} <- dyno_histogram:to_recording(Snapshot)
    ],
    Runs = first_is(Min, lists:reverse(first_is(Max, lists:reverse(Buckets)))),
    case Protocol of
        statsd -> equal(min(Count, ?EQUAL_PARTS), Count, Runs);
        dogstatsd -> finer(Count, Runs)
    end.

%% The least and the greatest value are exact.
first_is(Value, [{Value, _} | _] = Runs) -> Runs;
first_is(Value, [{_, 1} | Runs]) -> [{Value, 1} | Runs];
first_is(Value, [{Middle, N} | Runs]) -> [{Value, 1}, {Middle, N - 1} | Runs].

%% If parts are unequal, the later values stand for one more each.
equal(Parts, Count, Runs) ->
    Weight = Count div Parts,
    More = Count rem Parts,
    {Means, Rest} = means(Parts - More, Weight, Runs),
    {Last, []} = means(More, Weight + 1, Rest),
    [{Weight, Means} | [{Weight + 1, Last} || More > 0]].

finer(Count, Runs) when Count =< ?PARTS ->
    [{1, [Value || {Value, N} <- Runs, _ <- lists:seq(1, N)]}];
finer(Count, Runs) ->
    Weight = Count div ?PARTS,
    {Means, Rest} = means(?PARTS - 1, Weight, Runs),
    [{Weight, Means} | finer(Count - (?PARTS - 1) * Weight, Rest)].

means(Parts, Weight, Runs) ->
    Mean = fun(_, Rest) ->
        {Sum, Left} = take(Weight, Rest, 0),
        {Sum / Weight, Left}
    end,
    lists:mapfoldl(Mean, Runs, lists:seq(1, Parts)).

take(0, Runs, Sum) -> {Sum, Runs};
take(Wanted, [{Value, N} | Runs], Sum) when N =< Wanted -> take(Wanted - N, Runs, Sum + N * Value);
take(Wanted, [{Value, N} | Runs], Sum) -> {Sum + Wanted * Value, [{Value, N - Wanted} | Runs]}.

-doc "Packs lines into datagrams; returns the number of lines too long for one.".
-spec datagrams([binary()]) -> {TooLong :: non_neg_integer(), [iodata()]}.
datagrams(Lines) ->
    {Short, Long} = lists:partition(fun(Line) -> byte_size(Line) =< ?MOST_BYTES end, Lines),
    {length(Long), packed(Short)}.

packed([]) ->
    [];
packed([Line | Lines]) ->
    {Packed, Rest} = fill(Lines, [Line], byte_size(Line)),
    [lists:reverse(Packed) | packed(Rest)].

fill([Line | Lines], Packed, Size) when Size + 1 + byte_size(Line) =< ?MOST_BYTES ->
    fill(Lines, [Line, ~"\n" | Packed], Size + 1 + byte_size(Line));
fill(Rest, Packed, _Size) ->
    {Packed, Rest}.
