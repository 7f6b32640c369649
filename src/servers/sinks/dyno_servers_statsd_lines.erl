%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_servers_statsd_lines).
-moduledoc false.
%% Points as lines of StatsD and of DogStatsD, and lines as datagrams. Pure.
%%
%% A distribution is sent as values that stand for others, by the protocols' sample rate, whose
%% counts add up exactly.
%%
%% StatsD's server takes the rate into account where it counts, but not in means and percentiles: it
%% gets fifty values at most that stand for equally many, or for one more.
%%
%% Datadog's agent does in all: it gets nine tenths as nine values, of the tenth above them nine
%% tenths again, and so on, until single values are left; the largest is sent as it is, and a
%% distribution of a million values takes about 60.

-export([lines/2, datagrams/1, samples/2, rate/1]).
-export_type([form/0]).

-type form() :: #{
    kind := statsd | dogstatsd,
    prefix := binary(),
    tags => [{binary(), binary()}],
    atom() => term()
}.

%% What an Ethernet frame holds without being divided.
-define(MOST_BYTES, 1_432).
-define(PARTS, 10).
-define(EQUAL_PARTS, 50).
-define(RATE_DIGITS, 12).

-doc "The lines of a window.".
-spec lines([dyno_servers_sink:sum()], form()) -> [binary()].
lines(Sums, Form) ->
    Metrics = #{Id => Metric || #{id := Id} = Metric <- dyno_servers_metrics:metrics()},
    [
        Line
     || Sum <- Sums,
        {Id, Labels, Value} <- dyno_servers_metrics:points(Sum),
        Line <- point(map_get(Id, Metrics), Labels, Value, Form)
    ].

%% Datadog's agent knows the longest of a distribution itself.
point(#{id := ~"callback.duration.max"}, _Labels, _Value, #{kind := dogstatsd}) ->
    [];
point(#{kind := counter}, _Labels, Zero, _Form) when Zero == 0 ->
    [];
point(#{kind := counter, unit := Unit} = Metric, Labels, Value, Form) ->
    [line(name(Metric, Labels, Form), [number(Value, Unit)], ~"c", 1, tags(Labels, Form))];
point(#{kind := gauge, unit := Unit} = Metric, Labels, Value, Form) ->
    [line(name(Metric, Labels, Form), [number(Value, Unit)], ~"g", 1, tags(Labels, Form))];
point(#{unit := Unit} = Metric, Labels, Snapshot, #{kind := Kind} = Form) ->
    Name = name(Metric, Labels, Form),
    Tags = tags(Labels, Form),
    lists:append([
        distribution(Form, Name, [number(Value, Unit) || Value <- Values], Weight, Tags)
     || {Weight, Values} <- samples(Kind, Snapshot)
    ]).

%% At most ten values, so that a line fits a datagram.
distribution(#{kind := dogstatsd}, Name, Values, Weight, Tags) ->
    [line(Name, lists:join(~":", Values), ~"d", Weight, Tags)];
distribution(#{kind := statsd}, Name, Values, Weight, Tags) ->
    [line(Name, Value, ~"ms", Weight, Tags) || Value <- Values].

line(Name, Values, Type, 1, Tags) ->
    iolist_to_binary([Name, ~":", Values, ~"|", Type, Tags]);
line(Name, Values, Type, Weight, Tags) ->
    iolist_to_binary([Name, ~":", Values, ~"|", Type, ~"|@", rate(Weight), Tags]).

%% Labels are parts of the name, each at its own place, for patterns of names.
name(#{id := Id}, Labels, #{kind := statsd, prefix := Prefix}) ->
    Server = [part(maps:get(Key, Labels, ~"all")) || Key <- [node, module, name]],
    Of =
        case {Id, Labels} of
            {<<"callback.", Rest/binary>>, #{callback := Callback}} -> [part(Callback), Rest];
            {_, #{direction := Direction}} -> [Id, Direction];
            _ -> [Id]
        end,
    lists:join(~".", [prefix(Prefix) | Server ++ Of]);
name(#{id := Id}, _Labels, #{kind := dogstatsd, prefix := Prefix}) ->
    [prefix(Prefix), ~".", Id].

prefix(Prefix) ->
    <<<<(prefix_character(C))>> || <<C/utf8>> <= Prefix>>.

prefix_character($.) -> $.;
prefix_character(C) -> part_character(C).

part(Text) ->
    <<<<(part_character(C))>> || <<C/utf8>> <= Text>>.

%% A dot divides names; no alias of Elixir has a hyphen.
part_character($.) -> $-;
part_character(C) when C >= $a, C =< $z; C >= $A, C =< $Z; C >= $0, C =< $9 -> C;
part_character($-) -> $-;
part_character(_) -> $_.

tags(_Labels, #{kind := statsd}) ->
    [];
tags(Labels, #{kind := dogstatsd, tags := Own}) ->
    Given = [
        {atom_to_binary(Key), map_get(Key, Labels)}
     || Key <- dyno_servers_metrics:label_order(), is_map_key(Key, Labels)
    ],
    case [[tag(Key), ~":", tag(Value)] || {Key, Value} <- Own ++ Given] of
        [] -> [];
        Tags -> [~"|#", lists:join(~",", Tags)]
    end.

tag(Text) ->
    <<<<(tag_character(C))>> || <<C>> <= Text>>.

tag_character(C) when C =< $\s; C =:= $:; C =:= $|; C =:= $@; C =:= $#; C =:= $, -> $_;
tag_character(C) -> C.

%% Times in milliseconds; a nanosecond is their sixth decimal.
number(Ns, ns) -> decimal(Ns / 1.0e6);
number(Value, _) when is_integer(Value) -> integer_to_binary(Value);
number(Value, _) -> decimal(Value).

decimal(Value) ->
    float_to_binary(float(Value), [{decimals, 6}, compact]).

-doc """
How a sample rate is written of which 1 stands for `Weight`: in digits only, as StatsD's server
reads it, and never above 1 / `Weight`, since Datadog's agent cuts 1 / rate to a whole number.
""".
-spec rate(pos_integer()) -> binary().
rate(1) ->
    ~"1";
rate(Weight) ->
    Digits = ?RATE_DIGITS + length(integer_to_list(Weight)),
    One = binary_to_integer(<<"1", (binary:copy(~"0", Digits))/binary>>),
    Rate = decimals(One div Weight, Digits),
    case trunc(1 / binary_to_float(Rate)) of
        Weight -> Rate;
        _ -> decimals((One - 1) div Weight, Digits)
    end.

decimals(Number, Digits) ->
    Text = string:pad(integer_to_list(Number), Digits, leading, $0),
    iolist_to_binary(["0.", string:trim(lists:flatten(Text), trailing, "0")]).

-doc """
Values that stand for all of a snapshot: each for `Weight` of them. The weights of all together are
the snapshot's count, and none of them has more than ten values.
""".
-spec samples(statsd | dogstatsd, dyno_histogram:snapshot()) ->
    [{Weight :: pos_integer(), [number(), ...]}].
samples(_Kind, #{count := 1, min := Min}) ->
    [{1, [Min]}];
samples(Kind, #{count := Count, min := Min, max := Max} = Snapshot) ->
    Buckets = [
        {min(Max, max(Min, (Low + High - 1) div 2)), N}
     || {Low, High, N} <- dyno_histogram:to_recording(Snapshot)
    ],
    Runs = first_is(Min, lists:reverse(first_is(Max, lists:reverse(Buckets)))),
    case Kind of
        statsd -> equal(min(Count, ?EQUAL_PARTS), Count, Runs);
        dogstatsd -> finer(Count, Runs)
    end.

%% The least and the greatest value are known exactly.
first_is(Value, [{Value, _} | _] = Runs) -> Runs;
first_is(Value, [{_, 1} | Runs]) -> [{Value, 1} | Runs];
first_is(Value, [{Middle, N} | Runs]) -> [{Value, 1}, {Middle, N - 1} | Runs].

equal(0, 0, []) ->
    [];
equal(Parts, Count, Runs) ->
    Weight = Count div Parts,
    {[Mean], Rest} = means(1, Weight, Runs),
    [{Weight, [Mean]} | equal(Parts - 1, Count - Weight, Rest)].

finer(Count, Runs) when Count =< ?PARTS ->
    [{1, [Value || {Value, N} <- Runs, _ <- lists:seq(1, N)]}];
finer(Count, Runs) ->
    Weight = Count div ?PARTS,
    {Means, Rest} = means(?PARTS - 1, Weight, Runs),
    [{Weight, Means} | finer(Count - (?PARTS - 1) * Weight, Rest)].

means(0, _Weight, Runs) ->
    {[], Runs};
means(Parts, Weight, Runs) ->
    {Sum, Rest} = take(Weight, Runs, 0),
    {Means, Left} = means(Parts - 1, Weight, Rest),
    {[Sum / Weight | Means], Left}.

take(0, Runs, Sum) -> {Sum, Runs};
take(Wanted, [{Value, N} | Runs], Sum) when N =< Wanted -> take(Wanted - N, Runs, Sum + N * Value);
take(Wanted, [{Value, N} | Runs], Sum) -> {Sum + Wanted * Value, [{Value, N - Wanted} | Runs]}.

-doc "As many lines in a datagram as fit, and how many lines are longer than one.".
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
