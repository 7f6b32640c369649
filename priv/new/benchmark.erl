%% Comparisons that are kept. Run them:
%%
%%     rebar3 dyno bench @NAME@   in a project that has dyno as a plugin
%%     dyno bench @NAME@.erl      anywhere
%%
%% As it stands it asks which way to find a number in a collection is faster, and how each way
%% grows with the collection.
-module(@MODULE@).
-behaviour(dyno_bench_file).
-export([benchmarks/0]).

benchmarks() ->
    [
        #{
            name => "find",
            %% Each code is measured with each of these.
            inputs => [10, 100, 1000],
            %% What the codes take, made once for each input; not measured.
            setup => fun(N) -> {N, lists:seq(1, N), maps:from_keys(lists:seq(1, N), true)} end,
            %% What is compared. Put your own functions here: fun my_module:f/1.
            codes => [
                {"list", fun({N, List, _}) -> lists:member(N, List) end},
                {"map", fun({N, _, Map}) -> is_map_key(N, Map) end}
            ],
            %% Nothing is measured where they do not return the same.
            check => same
        }
    ].
