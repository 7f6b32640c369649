%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_test_growth_SUITE).
-moduledoc "Growth over the runs of a document: which rows there are, and which come first.".

-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0]).
-export([what_matters_comes_first/1, two_sizes/1, one_size/1]).

suite() -> [{timetrap, {seconds, 30}}].

all() -> [what_matters_comes_first, two_sizes, one_size].

%% `big` grows in proportion and takes the time; `steep` grows faster but takes next to nothing;
%% `flat` takes most and does not grow.
what_matters_comes_first(_Config) ->
    [Table] = dyno_test_growth:tables(document([1, 2, 4, 8, 16, 32])),
    ?assertEqual(
        [~"m:big/0", ~"throughput", ~"m:flat/0", ~"m:steep/0"],
        [Name || [_Kind, Name | _] <- map_get(rows, Table)]
    ),
    Shares = #{lists:nth(2, Row) => lists:last(Row) || Row <- map_get(rows, Table)},
    ?assertMatch(#{~"throughput" := undefined, ~"m:big/0" := 0.25}, Shares),
    Names = [Name || #{name := Name} <- map_get(columns, Table)],
    [?assertEqual(length(Names), length(Row)) || Row <- map_get(rows, Table)].

%% No interval, so nothing surely grows.
two_sizes(_Config) ->
    [Table] = dyno_test_growth:tables(document([1, 10])),
    ?assertMatch([[_, ~"throughput" | _] | _], map_get(rows, Table)).

one_size(_Config) ->
    ?assertEqual([], dyno_test_growth:tables(document([5]))).

document(Sizes) ->
    Empty = dyno_recording:new(test, ~"growth", #{}, #{}),
    lists:foldl(fun(Size, Acc) -> dyno_recording:add_run(Acc, run(Size)) end, Empty, Sizes).

run(Size) ->
    Rows = [
        [~"m:flat/0", 100, 1.0e6, 0, 1.0e4, 0.749],
        [~"m:big/0", 100, 1.0e3 * Size, 0, 10.0 * Size, 0.25],
        [~"m:steep/0", 100, 1.0e1 * Size * Size, 0, 0.1 * Size * Size, 0.001]
    ],
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
        metrics => [#{name => ~"throughput", value => 1000, unit => ~"1/s"}],
        tables => [#{name => ~"functions", columns => Columns, rows => Rows}]
    }.
