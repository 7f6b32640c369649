%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_cli_results_SUITE).
-moduledoc "Where recordings go that nobody names a file for, and what changed since the last one there.".

-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_testcase/2, end_per_testcase/2]).
-export([where_they_go/1, since_last/1, of_another/1, old_ones/1]).

all() -> [where_they_go, since_last, of_another, old_ones].

init_per_testcase(Case, Config) ->
    Folder = filename:join(proplists:get_value(priv_dir, Config), atom_to_list(Case)),
    ok = filelib:ensure_path(Folder),
    {ok, Before} = file:get_cwd(),
    ok = file:set_cwd(Folder),
    [{before, Before} | Config].

end_per_testcase(_Case, Config) ->
    ok = file:set_cwd(proplists:get_value(before, Config)).

where_they_go(_Config) ->
    <<"dyno-results/my_suite-", _:8/binary, "T", _:6/binary, ".json">> =
        dyno_cli_results:new_path(~"my suite"),
    ?assertEqual({ok, ~"*\n"}, file:read_file("dyno-results/.gitignore")),
    ok = file:write_file("mix.exs", ""),
    ?assertMatch(<<"_build/dyno/shop-", _/binary>>, dyno_cli_results:new_path(~"shop")).

%% A difference that the repetitions tell is in a table; where there is none, there is no table.
since_last(_Config) ->
    ?assertEqual([], changes(recorded(1, 100.0))),
    ?assertEqual([], changes(recorded(2, 100.0))),
    [Change] = changes(recorded(3, 200.0)),
    #{~"metric" := ~"throughput", ~"verdict" := ~"faster", ~"ratio" := Ratio} = Change,
    ?assert(abs(Ratio - 2) < 0.05),
    #{~"low" := Low, ~"high" := High} = Change,
    ?assert(Low < Ratio andalso Ratio < High).

%% Of a suite of another name, or made otherwise, nothing is said.
of_another(_Config) ->
    _ = recorded(1, 100.0),
    ?assertEqual([], changes(recorded(2, 200.0, #{name => ~"other"}))),
    ?assertEqual([], changes(recorded(3, 200.0, #{parameters => #{duration_ms => 7}}))),
    ?assertMatch([_], changes(recorded(4, 200.0))).

old_ones(_Config) ->
    [_ = recorded(N, 100.0) || N <- lists:seq(1, 23)],
    Left = lists:sort(filelib:wildcard("dyno-results/suite-*.json")),
    ?assertEqual(20, length(Left)),
    ?assertEqual(path(23), unicode:characters_to_binary(lists:last(Left))).

path(N) ->
    iolist_to_binary(io_lib:format("dyno-results/suite-20260101T0000~2..0b.json", [N])).

recorded(N, PerSecond) -> recorded(N, PerSecond, #{}).

recorded(N, PerSecond, More) ->
    ok = filelib:ensure_dir(path(N)),
    New = dyno_recording:new(
        test, maps:get(name, More, ~"suite"), maps:get(parameters, More, #{duration_ms => 5}),
        dyno_environment:collect()
    ),
    Runs = [run(Repetition, PerSecond) || Repetition <- [1, 2, 3, 4, 5]],
    Document = dyno_recording:put(
        lists:foldl(fun(Run, Acc) -> dyno_recording:add_run(Acc, Run) end, New, Runs),
        status, complete
    ),
    ok = dyno_recording_file:write(path(N), Document),
    dyno_cli_results:since_last(path(N), Document).

run(Repetition, PerSecond) ->
    #{
        labels => #{size => 1}, size => 1, repetition => Repetition, status => complete,
        metrics => [
            #{
                name => ~"throughput", title => ~"Throughput", unit => ~"1/s", group => ~"load",
                value => PerSecond * (1 + Repetition / 1000), count => 1
            }
        ]
    }.

changes(Document) -> dyno_recording:rows(Document, ~"since_last").
