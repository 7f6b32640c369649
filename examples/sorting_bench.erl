%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

%% Compares ways to sort, and to find, with inputs of several sizes:
%%
%%     dyno bench examples/sorting_bench.erl
-module(sorting_bench).
-behaviour(dyno_bench_file).
-export([benchmarks/0]).

benchmarks() ->
    [
        #{
            name => "sort",
            inputs => [10, 100, 1000],
            setup => fun(N) -> [erlang:phash2(I) || I <- lists:seq(1, N)] end,
            codes => [
                {"lists:sort", fun lists:sort/1},
                {"insertion", fun insertion/1},
                {"gb_sets", fun(L) -> gb_sets:to_list(gb_sets:from_list(L)) end}
            ],
            check => fun(List, Sorted) -> Sorted =:= lists:sort(List) end
        },
        #{
            name => "find",
            setup => fun table/0,
            teardown => fun ets:delete/1,
            codes => #{
                "lookup" => fun(T) -> hd(ets:lookup(T, 500)) end,
                "match" => fun(T) -> hd(ets:match_object(T, {500, '_'})) end
            },
            check => same
        }
    ].

insertion(List) ->
    lists:foldl(fun insert/2, [], List).

insert(X, [Y | Rest]) when X > Y -> [Y | insert(X, Rest)];
insert(X, Sorted) -> [X | Sorted].

table() ->
    Table = ets:new(numbers, [public]),
    true = ets:insert(Table, [{N, N * N} || N <- lists:seq(1, 1000)]),
    Table.
