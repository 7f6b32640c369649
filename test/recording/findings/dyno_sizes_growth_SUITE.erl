%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_sizes_growth_SUITE).
-moduledoc "Growth over the runs of a document: which rows there are, and which come first.".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

suite() -> [{timetrap, {minutes, 5}}].

all() ->
    [
        what_matters_comes_first,
        two_sizes,
        one_size,
        called_more_often,
        uncertain_times,
        estimated_calls
    ].

%% `big` grows in proportion and takes the time; `steep` grows faster but takes next to nothing;
%% `flat` takes most and does not grow.
what_matters_comes_first(_Config) ->
    [Table] = dyno_sizes_growth:tables(document([1, 2, 4, 8, 16, 32])),
    ?assertEqual(
        [~"m:big/0", ~"throughput", ~"m:flat/0", ~"m:steep/0"],
        [Name || [_Kind, Name | _] <- map_get(rows, Table)]
    ),
    Shares = #{lists:nth(2, Row) => lists:nth(11, Row) || Row <- map_get(rows, Table)},
    ?assertMatch(#{~"throughput" := undefined, ~"m:big/0" := 0.25}, Shares),
    Names = [Name || #{name := Name} <- map_get(columns, Table)],
    [?assertEqual(length(Names), length(Row)) || Row <- map_get(rows, Table)].

%% No interval, so nothing surely grows.
two_sizes(_Config) ->
    [Table] = dyno_sizes_growth:tables(document([1, 10])),
    ?assertMatch([[_, ~"throughput" | _] | _], map_get(rows, Table)).

one_size(_Config) ->
    ?assertEqual([], dyno_sizes_growth:tables(document([5]))).

%% For each of 10 operations `often` is called as often as the size says, `late` only from
%% size 4 on, `flat` once; none of them takes longer.
called_more_often(_Config) ->
    Rows = fun(Size) ->
        Calls = #{~"m:often/0" => 10 * Size, ~"m:flat/0" => 10, ~"m:rare/0" => 10 * Size},
        Shares = #{
            ~"m:often/0" => 0.5, ~"m:flat/0" => 0.3, ~"m:rare/0" => 0.0005, ~"m:late/0" => 0.2
        },
        Late = #{~"m:late/0" => 10 * Size || Size >= 4},
        [
            timed(F, N, 100.0 * N, maps:get(F, Shares))
         || F := N <- maps:merge(Calls, Late)
        ]
    end,
    [Table] = dyno_sizes_growth:tables(document([1, 2, 4, 8, 16, 32], Rows)),
    Operation = [
        Row
     || [_, Name | _] = Row <- map_get(rows, Table),
        string:find(Name, ~" calls/op") =/= nomatch
    ],
    ?assertMatch(
        [
            [~"function", ~"m:late/0 calls/op", ~"count", _ | _],
            [_, ~"m:often/0 calls/op" | _]
        ],
        lists:sort(Operation)
    ),
    [Often] = [Row || [_, ~"m:often/0 calls/op" | _] = Row <- Operation],
    [_, _, _, Exponent, _, _, 6, 1.0, 32.0 | _] = Often,
    ?assert(abs(Exponent - 1.0) < 0.01).

%% `linear` grows with the size, and so does what is known of it: an exponent holds what the times
%% may be off by, and none is made of times that are mostly guessed, or of what measuring took.
uncertain_times(_Config) ->
    Exponent = fun(Off, Grows) ->
        Rows = fun(Size) ->
            [timed(~"m:linear/0", {100, 100, 100}, 1.0e3 * math:pow(Size, Grows), Off, 1.0)]
        end,
        [Table] = dyno_sizes_growth:tables(document([1, 2, 4, 8, 16, 32], Rows)),
        [
            {round(100 * E) / 100, round(100 * L) / 100, round(100 * H) / 100}
         || [~"function", _, ~"ns/call", E, L, H | _] <- map_get(rows, Table)
        ]
    end,
    ?assertEqual([{1.0, 1.0, 1.0}], Exponent(0, 1)),
    ?assertEqual([{1.0, 0.82, 1.18}], Exponent(0.3, 1)),
    %% A fifth more at the largest size than at the smallest may be chance.
    ?assertEqual([{0.05, 0.05, 0.05}], Exponent(0, 0.05)),
    ?assertEqual([{0.05, -0.13, 0.23}], Exponent(0.3, 0.05)),
    ?assertEqual([], Exponent(0.6, 1)),
    ?assertEqual([], Exponent(1.0, 1)).

%% Calls that are estimated have an interval; those that are not counted are unknown, and not none.
estimated_calls(_Config) ->
    Grows = fun(Calls) ->
        Rows = fun(Size) ->
            case Calls(Size) of
                null -> [[~"m:f/0", null, null, null, 1.0e6, 0, 1.0e6, null, null, null, 1.0]];
                Of -> [timed(~"m:f/0", Of, 1.0e6, 0, 1.0)]
            end
        end,
        [Table] = dyno_sizes_growth:tables(document([1, 2, 4, 8, 16, 32], Rows)),
        [round(10 * E) / 10 || [_, ~"m:f/0 calls/op", _, E | _] <- map_get(rows, Table)]
    end,
    ?assertEqual([1.0], Grows(fun(Size) -> {100 * Size, 100 * Size, 100 * Size} end)),
    ?assertEqual([1.0], Grows(fun(Size) -> {100 * Size, 80 * Size, 120 * Size} end)),
    ?assertEqual([], Grows(fun(Size) -> {100 + Size, 80, 140} end)),
    Seldom = fun
        (1) -> null;
        (Size) -> {100 * Size, 100 * Size, 100 * Size}
    end,
    ?assertEqual([1.0], Grows(Seldom)),
    %% Then there is their time for an operation, of 10.
    Rows = fun(Size) ->
        Own = 100 * Size * Size,
        [[~"m:hot/0", null, null, null, Own, Own * 0.9, Own * 1.2, null, null, null, 1.0]]
    end,
    [#{rows := Hot}] = dyno_sizes_growth:tables(document([1, 2, 4, 8, 16, 32], Rows)),
    [[_, _, ~"ns", 2.0, Low, High, 6, 10.0, 10240.0 | _]] =
        [Row || [_, ~"m:hot/0 time/op" | _] = Row <- Hot],
    ?assert(Low < 1.95 andalso High > 2.05),
    ?assertEqual([], Grows(fun(_) -> null end)).

document(Sizes) ->
    document(Sizes, fun rows/1).

document(Sizes, Rows) ->
    Empty = dyno_recording:new(test, ~"growth", #{}, #{}),
    lists:foldl(
        fun(Size, Acc) -> dyno_recording:add_run(Acc, run(Size, Rows(Size))) end, Empty, Sizes
    ).

rows(Size) ->
    [
        timed(~"m:flat/0", 100, 1.0e6, 0.749),
        timed(~"m:big/0", 100, 1.0e3 * Size, 0.25),
        timed(~"m:steep/0", 100, 1.0e1 * Size * Size, 0.001)
    ].

timed(Function, Calls, Own, Share) ->
    timed(Function, {Calls, Calls, Calls}, Own, 0, Share).

%% `Off` is the share that its time may be off by.
timed(Function, {Calls, Least, Most}, Own, Off, Share) ->
    Each = Own / Calls,
    Bounds = fun(Value) -> [Value, Value * (1 - Off), Value * (1 + Off)] end,
    [Function, Calls, Least, Most] ++ Bounds(Own) ++ Bounds(Each) ++ [Share].

run(Size, Rows) ->
    Columns = [
        #{name => Name, title => Name, type => Type}
     || {Name, Type} <- [
            {~"function", string},
            {~"calls", integer},
            {~"calls_low", integer},
            {~"calls_high", integer},
            {~"own_time", number},
            {~"own_time_low", number},
            {~"own_time_high", number},
            {~"time_per_call", number},
            {~"time_per_call_low", number},
            {~"time_per_call_high", number},
            {~"share", number}
        ]
    ],
    #{
        id => integer_to_binary(Size),
        size => Size,
        status => complete,
        metrics => [
            #{name => ~"throughput", value => 1000, unit => ~"1/s"},
            #{name => ~"operations.count", value => 10, unit => ~"count"}
        ],
        tables => [
            #{
                name => ~"functions",
                columns => [#{name => ~"counted", title => ~"Counted", type => string} | Columns],
                rows => [[counted(Row) | Row] || Row <- Rows]
            }
        ]
    }.

counted([_, null | _]) -> ~"not counted";
counted([_, _, N, N | _]) -> ~"exact";
counted(_) -> ~"estimated".
