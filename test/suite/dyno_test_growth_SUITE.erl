%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_test_growth_SUITE).
-moduledoc "Growth over the runs of a document: which rows there are, and which come first.".

-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0]).
-export([what_matters_comes_first/1, two_sizes/1, one_size/1, called_more_often/1]).

suite() -> [{timetrap, {minutes, 5}}].

all() -> [what_matters_comes_first, two_sizes, one_size, called_more_often].

%% `big` grows in proportion and takes the time; `steep` grows faster but takes next to nothing;
%% `flat` takes most and does not grow.
what_matters_comes_first(_Config) ->
    [Table] = dyno_test_growth:tables(document([1, 2, 4, 8, 16, 32])),
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
    [Table] = dyno_test_growth:tables(document([1, 10])),
    ?assertMatch([[_, ~"throughput" | _] | _], map_get(rows, Table)).

one_size(_Config) ->
    ?assertEqual([], dyno_test_growth:tables(document([5]))).

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
            [F, N, 100.0 * N, 0, 100.0, maps:get(F, Shares)]
         || F := N <- maps:merge(Calls, Late)
        ]
    end,
    [Table] = dyno_test_growth:tables(document([1, 2, 4, 8, 16, 32], Rows)),
    Operation = [Row || [_, Name | _] = Row <- map_get(rows, Table),
        string:find(Name, ~" calls/op") =/= nomatch],
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

document(Sizes) ->
    document(Sizes, fun rows/1).

document(Sizes, Rows) ->
    Empty = dyno_recording:new(test, ~"growth", #{}, #{}),
    lists:foldl(
        fun(Size, Acc) -> dyno_recording:add_run(Acc, run(Size, Rows(Size))) end, Empty, Sizes
    ).

rows(Size) ->
    [
        [~"m:flat/0", 100, 1.0e6, 0, 1.0e4, 0.749],
        [~"m:big/0", 100, 1.0e3 * Size, 0, 10.0 * Size, 0.25],
        [~"m:steep/0", 100, 1.0e1 * Size * Size, 0, 0.1 * Size * Size, 0.001]
    ].

run(Size, Rows) ->
    Columns = [
        #{name => Name, title => Name, type => Type}
     || {Name, Type} <- [
            {~"function", string},
            {~"calls", integer},
            {~"own_time", number},
            {~"own_time_uncertainty", number},
            {~"time_per_call", number},
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
        tables => [#{name => ~"functions", columns => Columns, rows => Rows}]
    }.
