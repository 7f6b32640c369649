%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_feed_SUITE).
-moduledoc """
Feeds: which items come in which order, from lists, ranges, funs and files, and the Zipf
distribution against its definition.
""".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

suite() ->
    [{timetrap, {minutes, 5}}].

all() ->
    [
        orders,
        a_generator,
        nodes_share_a_feed,
        random_is_seeded,
        lines_and_csv,
        zipf_is_zipf,
        files_for_other_machines,
        mistakes,
        outside_of_a_worker
    ].

%% Takes in a process of its own, as a worker does.
taken(Spec, Count) ->
    taken(Spec, Count, #{}).

taken(Spec, Count, Place) ->
    {ok, Feeds} = dyno_feed:read(#{f => Spec}),
    {ok, Context} = dyno_feed:open(
        Feeds, maps:merge(#{index => 0, nodes => 1, workers => 1, seed => 1}, Place)
    ),
    in_worker(Context, Count).

in_worker(Context, Count) ->
    Self = self(),
    {Pid, Monitor} = spawn_monitor(fun() ->
        ok = dyno_feed:enter(1, Context),
        Self ! {self(), take(Count)}
    end),
    receive
        {Pid, Items} ->
            demonitor(Monitor, [flush]),
            Items;
        {'DOWN', Monitor, process, Pid, Reason} ->
            error(Reason)
    end.

take(0) ->
    [];
take(Count) ->
    try dyno_feed:next(f) of
        Item -> [Item | take(Count - 1)]
    catch
        throw:{dyno_feed, ended, f} -> [ended]
    end.

orders(_Config) ->
    ?assertEqual([a, b, a, b, a], taken([a, b], 5)),
    ?assertEqual([a, b, ended], taken(#{from => [a, b], order => sequence}, 5)),
    ?assertEqual([7, 8, 9, 7], taken({range, 7, 9}, 4)),
    Random = taken(#{from => [a, b], order => random}, 200),
    ?assertEqual([a, b], lists:usort(Random)),
    ?assertNotEqual(Random, taken([a, b], 200)),
    Uniform = taken({uniform, 5, 7}, 300),
    ?assertEqual([5, 6, 7], lists:usort(Uniform)).

a_generator(_Config) ->
    ?assertEqual([1, 4, 9], taken(fun(N) -> N * N end, 3)).

%% Each node has every second item: together they take each once.
nodes_share_a_feed(_Config) ->
    Spec = #{from => lists:seq(1, 9), order => sequence},
    ?assertEqual([1, 3, 5, 7, 9, ended], taken(Spec, 9, #{nodes => 2, index => 0})),
    ?assertEqual([2, 4, 6, 8, ended], taken(Spec, 9, #{nodes => 2, index => 1})).

random_is_seeded(_Config) ->
    Spec = {zipf, 1000, 1.2},
    One = taken(Spec, 50, #{seed => 3}),
    ?assertEqual(One, taken(Spec, 50, #{seed => 3})),
    ?assertNotEqual(One, taken(Spec, 50, #{seed => 4})).

file(Config, Name, Text) ->
    File = filename:join(proplists:get_value(priv_dir, Config), Name),
    ok = file:write_file(File, Text),
    File.

lines_and_csv(Config) ->
    Lines = file(Config, "lines.txt", "one\r\ntwo words\n\nthree"),
    ?assertEqual([~"one", ~"two words", ~"three", ~"one"], taken({lines, Lines}, 4)),
    Csv = file(
        Config, "users.csv", "name,\"full city\",n\nAda,\"New \"\"York\"\", NY\",3\nJoe,Oslo\n"
    ),
    ?assertEqual(
        [
            #{~"name" => ~"Ada", ~"full city" => ~"New \"York\", NY", ~"n" => ~"3"},
            #{~"name" => ~"Joe", ~"full city" => ~"Oslo", ~"n" => ~""}
        ],
        taken({csv, Csv}, 2)
    ).

%% Each frequency against its probability; seeds are fixed, four standard deviations are allowed.
zipf_is_zipf(_Config) ->
    [
        begin
            Draws = 100_000,
            Zipf = dyno_feed_zipf:new(Count, Exponent),
            {Counts, _} = draw(Draws, Zipf, rand:seed_s(exsss, 11), #{}),
            Whole = lists:sum([math:pow(K, -Exponent) || K <- lists:seq(1, Count)]),
            [
                begin
                    P = math:pow(K, -Exponent) / Whole,
                    Expected = Draws * P,
                    Found = maps:get(K, Counts, 0),
                    ?assert(
                        abs(Found - Expected) =< 4 * math:sqrt(Draws * P * (1 - P)) + 1,
                        {Count, Exponent, K, Found, Expected}
                    )
                end
             || K <- lists:seq(1, min(Count, 40)) ++ [Count]
            ],
            ?assert(lists:max(maps:keys(Counts)) =< Count)
        end
     || {Count, Exponent} <- [{1, 1}, {2, 1}, {10, 1}, {100, 1.1}, {100, 0.5}, {1000, 2}, {50, 3.5}]
    ].

draw(0, _Zipf, Random, Counts) ->
    {Counts, Random};
draw(Left, Zipf, Random, Counts) ->
    {K, Next} = dyno_feed_zipf:sample(Zipf, Random),
    draw(Left - 1, Zipf, Next, Counts#{K => maps:get(K, Counts, 0) + 1}).

files_for_other_machines(Config) ->
    File = file(Config, "few.txt", "one\ntwo\n"),
    {ok, Feeds} = dyno_feed:read(#{a => {lines, File}, b => [1], c => {csv, "/none.csv"}}),
    ?assertMatch(
        [#{source := [~"one", ~"two"]}, #{source := [1]}, #{source := {csv, "/none.csv"}}],
        dyno_feed:portable(Feeds)
    ).

mistakes(Config) ->
    [
        begin
            {error, Reason} = dyno_feed:read(Spec),
            says(dyno_feed:format_error(Reason), Parts)
        end
     || {Spec, Parts} <- [
            {[], [~"feeds", ~"a map"]},
            {#{"users" => [1]}, [~"feeds"]},
            {#{users => []}, [~"feed users", ~"{csv, File}"]},
            {#{users => {csv, 5}}, [~"feed users"]},
            {#{users => {range, 3, 1}}, [~"feed users"]},
            {#{users => #{from => [1], order => backwards}}, [~"cycle | sequence | random"]},
            {#{users => #{from => [1], shared => true}}, [~"share =>"]},
            {#{users => #{from => fun(N) -> N end, order => random}}, [~"feed users"]}
        ]
    ],
    Place = #{index => 0, nodes => 1, workers => 1, seed => 1},
    [
        begin
            {ok, Feeds} = dyno_feed:read(#{users => Source}),
            {error, Reason} = dyno_feed:open(Feeds, Place),
            says(dyno_feed:format_error(Reason), [~"feed users" | Parts])
        end
     || {Source, Parts} <- [
            {{csv, "/none.csv"}, [~"/none.csv", ~"cannot be read"]},
            {{lines, file(Config, "empty.txt", "\n\n")}, [~"has no items"]},
            {{csv, file(Config, "heading.csv", "a,b\n")}, [~"has no items", ~"heading"]},
            {{lines, of_size(Config, 1024 * 1024 * 1024 + 1)}, [~"more than 1 GiB"]}
        ]
    ].

%% A file with a hole takes no room.
of_size(Config, Bytes) ->
    File = file(Config, "huge.txt", ""),
    {ok, Device} = file:open(File, [read, write, raw]),
    {ok, Bytes} = file:position(Device, Bytes),
    ok = file:truncate(Device),
    ok = file:close(Device),
    File.

says(Chars, Parts) ->
    Text = unicode:characters_to_binary(Chars),
    [?assertNotEqual(nomatch, binary:match(Text, Part), Text) || Part <- Parts].

outside_of_a_worker(_Config) ->
    ?assertError(not_a_worker, dyno_feed:next(users)),
    ?assertError({{no_such_feed, f}, _}, begin
        {ok, Context} = dyno_feed:open([], #{index => 0, nodes => 1, workers => 1, seed => 1}),
        in_worker(Context, 1)
    end).
