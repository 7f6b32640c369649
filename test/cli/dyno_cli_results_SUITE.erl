%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_cli_results_SUITE).
-moduledoc "Where recordings go that nobody names a file for, and what changed since the last ones.".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

all() ->
    [
        where_they_go,
        since_last,
        of_another,
        old_ones,
        of_many,
        earlier_ones_tell,
        after_a_change,
        benchmarks
    ].

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
    ?assert(Low < Ratio andalso Ratio < High),
    [#{~"title" := <<"Since the last one, of 2", _/binary>>}] = tables(recorded(4, 400.0)).

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

%% What is typed has many names; of all together the last hundred are kept, with the new one, which
%% is not written here.
of_many(_Config) ->
    [Number, Other] = [
        binary:part(dyno_cli_results:new_path({~"bench", #{code => [Code]}}), 19, 8)
     || Code <- [~"a", ~"b"]
    ],
    ?assertNotEqual(Number, Other),
    Path = fun(What, N) ->
        Time = io_lib:format("20260101T~6..0b", [N]),
        iolist_to_binary(["dyno-results/bench-", What, "-", Time, ".json"])
    end,
    Of = fun(N) -> Path(lists:nth(N rem 2 + 1, [Number, Other]), N) end,
    [ok = file:write_file(Of(N), "") || N <- lists:seq(1, 119)],
    _ = dyno_cli_results:since_last(Path(Number, 120), document(100.0, #{})),
    Left = filelib:wildcard("dyno-results/bench-????????-*.json"),
    ?assertEqual(lists:sort([binary_to_list(Of(N)) || N <- lists:seq(21, 119)]), lists:sort(Left)).

%% One run each: the earlier recordings say how far values are apart where nothing changed. They
%% differ by 20 % here, so 30 % more is nothing, and three times as much is.
earlier_ones_tell(_Config) ->
    Rates = [100.0, 120.0, 110.0, 90.0, 105.0, 130.0],
    [?assertEqual([], changes(single(N, Rate)), N) || {N, Rate} <- lists:enumerate(Rates)],
    Document = single(7, 300.0),
    [#{~"verdict" := ~"faster", ~"old" := Old, ~"low" := Low, ~"ratio" := Ratio}] =
        changes(Document),
    ?assert(Old > 100 andalso Old < 115, Old),
    ?assert(Low > 1.03 andalso Low < Ratio),
    [#{~"title" := <<"Since the last 6, up to that of ", _/binary>>}] = tables(Document).

%% What was before a change says nothing of what comes after it.
after_a_change(_Config) ->
    Rates = [100.0, 103.0, 98.0, 101.0],
    [single(N, Rate) || {N, Rate} <- lists:enumerate(Rates)],
    ?assertMatch([_], changes(single(5, 200.0))),
    [
        ?assertEqual([], changes(single(N, Rate)), N)
     || {N, Rate} <- [{6, 203.0}, {7, 198.0}, {8, 201.0}]
    ],
    ?assertMatch([#{~"verdict" := ~"slower"}], changes(single(9, 100.0))).

%% The rounds of one process do not say how far two processes are apart: that these differ by more
%% than the rounds allow is not claimed. Words do not depend on chance.
benchmarks(_Config) ->
    Last = [bench(N, Ns, 6) || {N, Ns} <- [{1, 100.0}, {2, 130.0}, {3, 105.0}, {4, 140.0}]],
    [?assertEqual([], changes(Of)) || Of <- Last],
    ?assertMatch([#{~"metric" := ~"words", ~"verdict" := ~"more"}], changes(bench(5, 100.0, 8))).

bench(N, Ns, Words) ->
    New = dyno_recording:new(
        bench, ~"f()", #{codes => [~"f()"], mode => compare}, dyno_environment:collect()
    ),
    Rounds = lists:seq(1, 20),
    Series = dyno_recording_part:series(
        ~"bench.time",
        ~"ns/call",
        ~"bench",
        ~"Time",
        undefined,
        Rounds,
        [Ns + R / 100 || R <- Rounds]
    ),
    Codes = dyno_recording_table:make(
        #{
            name => ~"codes",
            title => ~"Codes",
            columns => [
                {~"code", ~"Code", string, #{role => key}, fun(_) -> ~"f()" end},
                {~"words_per_call", ~"Words", number, fun(_) -> Words end}
            ]
        },
        [row]
    ),
    Run = #{
        labels => #{},
        size => undefined,
        status => complete,
        tables => [Codes],
        series => [Series#{labels := #{code => ~"f()"}}]
    },
    kept(
        iolist_to_binary(["dyno-results/bench-0123abcd-20260101T00000", $0 + N, ".json"]),
        dyno_recording:put(dyno_recording:add_run(New, Run), status, complete)
    ).

single(N, PerSecond) -> recorded(N, PerSecond, #{repeat => 1}).

path(N) ->
    iolist_to_binary(io_lib:format("dyno-results/suite-20260101T0000~2..0b.json", [N])).

recorded(N, PerSecond) -> recorded(N, PerSecond, #{}).

recorded(N, PerSecond, More) ->
    kept(path(N), document(PerSecond, More)).

kept(Path, Document) ->
    ok = filelib:ensure_dir(Path),
    Judged = dyno_cli_results:since_last(Path, Document),
    ok = dyno_recording_file:write(Path, Judged),
    Judged.

document(PerSecond, More) ->
    New = dyno_recording:new(
        test,
        maps:get(name, More, ~"suite"),
        maps:get(parameters, More, #{duration_ms => 5}),
        dyno_environment:collect()
    ),
    Runs = [run(Repetition, PerSecond) || Repetition <- lists:seq(1, maps:get(repeat, More, 5))],
    dyno_recording:put(
        lists:foldl(fun(Run, Acc) -> dyno_recording:add_run(Acc, Run) end, New, Runs),
        status,
        complete
    ).

run(Repetition, PerSecond) ->
    #{
        labels => #{size => 1},
        size => 1,
        repetition => Repetition,
        status => complete,
        metrics => [
            #{
                name => ~"throughput",
                title => ~"Throughput",
                unit => ~"1/s",
                group => ~"load",
                value => PerSecond * (1 + Repetition / 1000),
                count => 1
            }
        ]
    }.

changes(Document) -> dyno_recording:rows(Document, ~"since_last").

tables(Document) -> dyno_recording:tables(Document, ~"since_last").
