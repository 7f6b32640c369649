%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_recording_file_SUITE).
-moduledoc false.

-compile([export_all, nowarn_export_all]).

-include_lib("stdlib/include/assert.hrl").
-include("../support/dyno_proper.hrl").

suite() -> [{timetrap, {minutes, 5}}].

all() ->
    [
        reads_what_it_wrote,
        one_line_a_thing,
        explains_missing_and_unreadable,
        explains_what_is_not_json,
        explains_what_is_no_recording,
        finds_every_cut,
        refuses_to_write_what_it_would_not_read,
        readers_see_whole_files,
        a_missing_folder_is_a_mistake,
        who_may_read_it
    ].

init_per_testcase(Case, Config) ->
    [{folder, folder(Case, Config)} | Config].

end_per_testcase(_, _) ->
    ok.

folder(Case, Config) ->
    Folder = filename:join(proplists:get_value(priv_dir, Config), atom_to_list(Case)),
    ok = filelib:ensure_path(Folder),
    Folder.

path(Config) ->
    path(Config, "r.json").

path(Config, Name) ->
    filename:join(proplists:get_value(folder, Config), Name).

small() ->
    dyno_recording:new(test, ~"echo", #{sizes => [1]}, #{}).

reads_what_it_wrote(Config) ->
    Path = path(Config),
    Property = ?FORALL(
        Document,
        dyno_recording_gen:document(),
        begin
            ok = dyno_recording_file:write(Path, Document),
            {ok, Document} =:= dyno_recording_file:read(Path)
        end
    ),
    dyno_property:holds(Property, 100),
    ?assertEqual({ok, ["r.json"]}, file:list_dir(filename:dirname(Path))).

one_line_a_thing(Config) ->
    Run = #{
        id => ~"1",
        size => 1,
        status => complete,
        metrics => [#{name => throughput, value => 1.5, unit => ~"1/s"}],
        histograms => [
            #{name => latency, unit => ns, count => 3, buckets => [[1, 2, 1], [4, 6, 2]]}
        ],
        tables => [
            #{name => errors, columns => [#{name => reason, type => string}], rows => [[~"a"]]}
        ]
    },
    ok = dyno_recording_file:write(path(Config), dyno_recording:add_run(small(), Run)),
    {ok, Text} = file:read_file(path(Config)),
    Lines = [string:trim(Line, both, " ,") || Line <- binary:split(Text, ~"\n", [global])],
    [
        ?assertEqual({Line, true}, {Line, lists:member(Line, Lines)})
     || Line <- [~"[4, 6, 2]", ~"[\"a\"]", ~"\"format\": \"dyno-recording\"", ~"\"id\": \"1\""]
    ],
    ?assertMatch([_], [L || L <- Lines, string:find(L, ~"\"name\": \"throughput\"") =/= nomatch]).

explains_missing_and_unreadable(Config) ->
    Missing = path(Config, "missing.json"),
    {error, {read, Missing, enoent} = Reason} = dyno_recording_file:read(Missing),
    ?assertMatch({match, _}, re:run(dyno_recording_file:format_error(Reason), "no such file")),
    Folder = proplists:get_value(folder, Config),
    {error, {read, Folder, eisdir} = Other} = dyno_recording_file:read(Folder),
    ?assertMatch({match, _}, re:run(dyno_recording_file:format_error(Other), "this is a folder")).

explains_what_is_not_json(Config) ->
    Path = path(Config),
    Expected = [
        {~"", {unexpected_end, 0}, "the file is empty"},
        {~"{\"a\": [1, 2", {unexpected_end, 11}, "ends too early, at byte 11"},
        {~"{\"a\": x}", {unexpected, 6, ~"x}"}, "not JSON at byte 6, at \"x}\""},
        {~"{} {}", {unexpected, 3, ~"{}"}, "not JSON at byte 3"},
        {<<"{\"a\": \"", 255, "\"}">>, {not_utf8, 7}, "not UTF-8 at byte 7"},
        {<<"{\"\x{b5}\": 1e400}"/utf8>>, {too_large, 7, ~"1e400"},
            "the number at byte 7, 1e400, is"}
    ],
    [
        begin
            ok = file:write_file(Path, Text),
            {error, {json, Path, Reason} = Error} = dyno_recording_file:read(Path),
            ?assertEqual({Text, Found}, {Text, Reason}),
            Sentence = dyno_recording_file:format_error(Error),
            ?assertNotEqual(nomatch, string:find(Sentence, Words)),
            ?assertNotEqual(nomatch, string:find(Sentence, Path))
        end
     || {Text, Found, Words} <- Expected
    ].

explains_what_is_no_recording(Config) ->
    Path = path(Config),
    ok = file:write_file(Path, ~"{\"format\": \"other\"}"),
    {error, {content, Path, not_a_recording}} = dyno_recording_file:read(Path),
    ok = file:write_file(Path, json:encode((small())#{~"version" := 3})),
    {error, {content, Path, {other_version, 3}}} = dyno_recording_file:read(Path),
    ok = file:write_file(Path, json:encode((small())#{~"runs" := ~"none"})),
    {error, Error} = dyno_recording_file:read(Path),
    Expected = "runs: a list of objects (run) is expected, this is the string \"none\"",
    ?assertEqual(
        unicode:characters_to_binary([Path, ": ", Expected]),
        unicode:characters_to_binary(dyno_recording_file:format_error(Error))
    ).

%% Only the final newline may be missing.
finds_every_cut(Config) ->
    Path = path(Config),
    ok = dyno_recording_file:write(Path, small()),
    {ok, Text} = file:read_file(Path),
    [
        begin
            ok = file:write_file(Path, binary:part(Text, 0, Length)),
            ?assertMatch(
                {error, {json, Path, {unexpected_end, Length}}}, dyno_recording_file:read(Path)
            )
        end
     || Length <- lists:seq(0, byte_size(Text) - 2)
    ].

refuses_to_write_what_it_would_not_read(Config) ->
    Path = path(Config),
    ok = dyno_recording_file:write(Path, small()),
    Broken = maps:remove(~"status", small()),
    {error, {content, Path, {shape, [~"status"], _, missing}}} =
        dyno_recording_file:write(Path, Broken),
    ?assertEqual({ok, small_as_of(Path)}, dyno_recording_file:read(Path)).

small_as_of(Path) ->
    {ok, #{~"started_at" := At}} = dyno_recording_file:read(Path),
    (small())#{~"started_at" := At}.

%% Large enough that a plain write would be seen half done.
large(Name) ->
    Points = lists:seq(1, 20_000),
    Series = #{name => load, unit => ~"B", times_ms => Points, values => Points},
    Run = #{id => ~"1", size => 1, status => complete, series => [Series]},
    dyno_recording:put(dyno_recording:add_run(small(), Run), name, Name).

readers_see_whole_files(Config) ->
    Path = path(Config),
    ok = dyno_recording_file:write(Path, large(~"0")),
    Self = self(),
    spawn_link(fun() ->
        [
            ok = dyno_recording_file:write(Path, large(integer_to_binary(N)))
         || N <- lists:seq(1, 10)
        ],
        Self ! written
    end),
    ?assert(read_until_written(Path, 0) > 0),
    {ok, #{~"name" := ~"10"}} = dyno_recording_file:read(Path).

read_until_written(Path, Reads) ->
    receive
        written -> Reads
    after 0 ->
        {ok, #{~"runs" := [_]}} = dyno_recording_file:read(Path),
        read_until_written(Path, Reads + 1)
    end.

%% Also for root, who could create it.
a_missing_folder_is_a_mistake(Config) ->
    [
        begin
            Path = path(Config, Name),
            {error, {write, Path, enoent} = Reason} = dyno_file:writable(Path),
            Sentence = dyno_recording_file:format_error(Reason),
            ?assertNotEqual(nomatch, string:find(Sentence, "there is no folder")),
            ?assertNotEqual(nomatch, string:find(Sentence, "create the folder")),
            ?assertNot(filelib:is_dir(filename:dirname(Path)))
        end
     || Name <- ["new/r.json", "a/b/r.json"]
    ].

%% Arguments of calls, messages and reasons of crashes are this user's; so is what compares them.
who_may_read_it(_Config) ->
    Of = fun(Command) -> #{~"command" => Command} end,
    Compared = fun(Command) ->
        #{
            ~"command" => ~"compare",
            ~"recordings" => #{~"old" => Of(Command), ~"new" => Of(Command)}
        }
    end,
    [
        ?assertEqual(
            {Command, [Access, Access]},
            {Command, [
                dyno_recording_file:access(Document)
             || Document <- [Of(Command), Compared(Command)]
            ]}
        )
     || {Command, Access} <- [
            {~"verify", private},
            {~"servers", private},
            {~"doctor", private},
            {~"record", private},
            {~"test", shared},
            {~"bench", shared}
        ]
    ].
