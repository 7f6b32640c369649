%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_recording_lines_SUITE).
-moduledoc false.
%% Recordings in files of lines, which are appended to.

-compile([export_all, nowarn_export_all]).

-include_lib("stdlib/include/assert.hrl").
-include("../support/dyno_proper.hrl").

suite() -> [{timetrap, {minutes, 1}}].

all() -> [{group, all}].

groups() ->
    [
        {all, [parallel], [
            reads_what_it_wrote,
            only_appends,
            another_recording_replaces_it,
            every_cut_can_be_read,
            says_where_a_line_is_wrong
        ]}
    ].

init_per_testcase(Case, Config) ->
    Folder = proplists:get_value(priv_dir, Config),
    Path = filename:join(Folder, [atom_to_list(?MODULE), $_, atom_to_list(Case), ".jsonl"]),
    _ = file:delete(Path),
    [{path, Path} | Config].

%% Whatever the recording; without the runs that are under way.
reads_what_it_wrote(Config) ->
    Path = proplists:get_value(path, Config),
    Property = ?FORALL(Document, dyno_recording_gen:document(), begin
        _ = file:delete(Path),
        ok = dyno_recording_file:write(Path, Document),
        {ok, ended(Document)} =:= dyno_recording_file:read(Path)
    end),
    dyno_property:holds(Property, 100).

ended(#{~"runs" := Runs} = Document) ->
    Document#{~"runs" := [Run || #{~"status" := Status} = Run <- Runs, Status =/= ~"partial"]}.

%% What is in the file stays as it is, byte for byte; a run under way is not in it.
only_appends(Config) ->
    Path = proplists:get_value(path, Config),
    Final = lists:foldl(
        fun(Next, Before) ->
            ok = dyno_recording_file:write(Path, Next),
            {ok, After} = file:read_file(Path),
            ?assert(byte_size(After) > byte_size(Before)),
            ?assertEqual(Before, binary:part(After, 0, byte_size(Before))),
            ?assertEqual({ok, ended(Next)}, dyno_recording_file:read(Path)),
            After
        end,
        <<>>,
        stages()
    ),
    %% The same once more adds nothing.
    ok = dyno_recording_file:write(Path, lists:last(stages())),
    ?assertEqual({ok, Final}, file:read_file(Path)),
    [First, Last] = [~"100", ~"10"],
    {ok, #{~"runs" := [#{~"id" := Last}, #{~"id" := First}], ~"status" := ~"complete"}} =
        dyno_recording_file:read(Path).

%% As a test writes them: begun, a run, a second one under way, its end, and all of it sorted.
stages() ->
    New = dyno_recording:new(test, ~"echo", #{}, #{time => ~"2026-11-22T08:00:00Z"}),
    One = dyno_recording:add_verdicts(dyno_recording:add_run(New, run(100, complete)), [
        #{kind => invariant, name => i, result => pass, run => ~"100", text => t}
    ]),
    Two = dyno_recording:add_run(One, run(10, complete)),
    [First, Second] = dyno_recording:runs(Two),
    Sorted = dyno_recording:put(Two, runs, [Second, First]),
    Warned = dyno_recording:add_warnings(Sorted, [{noisy, ~"the machine was busy"}]),
    Tables = dyno_recording:add_tables(Warned, [#{name => growth, columns => [], rows => []}]),
    [New, One, Two, dyno_recording:put(Tables, status, complete)].

run(Size, Status) ->
    Times = lists:seq(1, 1000),
    #{
        labels => #{size => Size},
        size => Size,
        status => Status,
        nodes => [#{name => ~"a@h"}],
        metrics => [#{name => ~"throughput", value => Size * 2, unit => ~"1/s"}],
        series => [
            #{name => N, node => ~"a@h", unit => ~"1/s", times_ms => Times, values => Times}
         || N <- [~"load.throughput", ~"vm.memory.total"]
        ],
        events => #{
            dropped => 1, items => [#{time_ms => T, kind => k, text => t} || T <- [1, 2, 3]]
        },
        tables => [#{name => errors, columns => [#{name => n, type => integer}], rows => [[1]]}]
    }.

another_recording_replaces_it(Config) ->
    Path = proplists:get_value(path, Config),
    ok = dyno_recording_file:write(Path, lists:last(stages())),
    Other = dyno_recording:new(test, ~"other", #{}, #{}),
    ok = dyno_recording_file:write(Path, Other),
    ?assertEqual({ok, Other}, dyno_recording_file:read(Path)).

%% A writer that dies leaves the beginning of a line; the next one begins anew.
every_cut_can_be_read(Config) ->
    Path = proplists:get_value(path, Config),
    Last = lists:last(stages()),
    ok = dyno_recording_file:write(Path, Last),
    {ok, Whole} = file:read_file(Path),
    [{End, 1} | _] = Ends = binary:matches(Whole, ~"\n"),
    Places = lists:usort(
        [At || {E, 1} <- Ends, At <- [E, E + 1, E + 2]] ++
            lists:seq(End + 1, byte_size(Whole), 997) ++ [byte_size(Whole)]
    ),
    [
        begin
            ok = file:write_file(Path, binary:part(Whole, 0, min(At, byte_size(Whole)))),
            {ok, #{~"name" := ~"echo", ~"status" := Status}} = dyno_recording_file:read(Path),
            ?assertEqual(At >= byte_size(Whole), Status =:= ~"complete"),
            ok = dyno_recording_file:write(Path, Last),
            ?assertEqual({ok, Last}, dyno_recording_file:read(Path))
        end
     || At <- Places, At > End
    ].

says_where_a_line_is_wrong(Config) ->
    Path = proplists:get_value(path, Config),
    First = iolist_to_binary(dyno_recording_lines:first(hd(stages()))),
    ok = file:write_file(Path, [First, "{\"run\": ?}\n"]),
    At = byte_size(First) + 8,
    {error, {json, Path, {unexpected, At, Found}} = Reason} = dyno_recording_file:read(Path),
    ?assertEqual(~"?}", Found),
    ?assertNotEqual(nomatch, string:find(dyno_recording_file:format_error(Reason), "not JSON at")),
    ok = file:write_file(Path, [First, "{\"later\": 1}\n{\"part\": \"x\", \"run\": \"?\"}\n"]),
    ?assertMatch({ok, #{~"status" := ~"partial", ~"runs" := []}}, dyno_recording_file:read(Path)),
    ok = file:write_file(Path, [First, "{\"end\": {\"runs\": 5}}\n"]),
    ?assertMatch({ok, #{~"runs" := []}}, dyno_recording_file:read(Path)),
    %% Of another writer: a run that says nothing of its parts.
    ok = file:write_file(Path, [First, "{\"run\": {\"id\": \"1\", \"status\": \"complete\"}}\n"]),
    ?assertMatch({ok, #{~"runs" := [#{~"id" := ~"1"}]}}, dyno_recording_file:read(Path)).

wait_for_runs(Path, Least) ->
    case dyno_recording_file:read(Path) of
        {ok, #{~"runs" := Runs}} when length(Runs) >= Least -> ok;
        _ -> wait_for_runs(Path, Least)
    end.
