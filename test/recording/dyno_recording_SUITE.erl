%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_recording_SUITE).
-moduledoc false.

-compile([export_all, nowarn_export_all]).

-include_lib("stdlib/include/assert.hrl").
-include("../support/dyno_proper.hrl").

suite() -> [{timetrap, {minutes, 5}}].

slow() -> [finds_every_mutation].

all() ->
    [
        builds,
        refuses_a_run_twice,
        converts_terms,
        refuses_terms,
        refuses_wrong_parts,
        says_what_is_wrong_where,
        refuses_what_is_no_recording,
        ignores_unknown_fields,
        fills_in_defaults,
        gives_columns_roles,
        generated_are_valid,
        finds_every_mutation,
        finds_every_missing_field
    ].

builds(_) ->
    New = dyno_recording:new(test, ~"echo", #{sizes => [10]}, #{otp => ~"29.1", jit => true}),
    ?assertMatch(#{~"status" := ~"partial", ~"command" := ~"test", ~"runs" := []}, New),
    {ok, New} = dyno_recording:validate(New),
    Run = #{
        id => ~"10",
        size => 10,
        status => complete,
        metrics => [#{name => 'latency.p99', value => 12.5, unit => ns}],
        tables => [
            #{
                name => functions,
                columns => [#{name => function, type => string, help => {text, ["a ", "list"]}}],
                rows => [[~"m:f/1"], [undefined]]
            }
        ]
    },
    One = dyno_recording:add_run(New, Run),
    Two = dyno_recording:add_tables(One, [#{name => growth, columns => [], rows => []}]),
    Three = dyno_recording:add_warnings(Two, [{noisy, ~"the machine was busy"}]),
    Four = dyno_recording:put(Three, status, complete),
    Whole = dyno_recording:put(Four, duration_ns, 5_000),
    {ok, Whole} = dyno_recording:validate(Whole),
    [Recorded] = dyno_recording:runs(Whole),
    {ok, Recorded} = dyno_recording:run(Whole, ~"10"),
    error = dyno_recording:run(Whole, ~"11"),
    {ok, #{~"value" := 12.5, ~"title" := null}} = dyno_recording:metric(Recorded, ~"latency.p99"),
    error = dyno_recording:metric(Recorded, ~"latency.p98"),
    error = dyno_recording:histogram(Recorded, ~"latency"),
    [] = dyno_recording:series(Recorded, ~"vm.processes"),
    {ok, #{~"rows" := [[~"m:f/1"], [null]], ~"columns" := [#{~"help" := ~"a list"}]}} =
        dyno_recording:table(Recorded, ~"functions"),
    {ok, #{}} = dyno_recording:table(Whole, ~"growth"),
    #{~"warnings" := [#{~"code" := ~"noisy"}], ~"duration_ns" := 5_000} = Whole.

refuses_a_run_twice(_) ->
    First = dyno_recording:add_run(dyno_recording:new(test, ~"echo", #{}, #{}), run(~"1")),
    Second = dyno_recording:add_run(First, run(~"2")),
    ?assertMatch([#{~"id" := ~"1"}, #{~"id" := ~"2"}], dyno_recording:runs(Second)),
    ?assertError({invalid_recording, _}, dyno_recording:add_run(Second, run(~"1"))).

run(Id) ->
    #{id => Id, size => 1, status => complete}.

converts_terms(_) ->
    ?assertEqual(
        #{
            ~"a" => [1, 2.5, ~"x", true, null, null],
            ~"b" => #{~"c" => ~"node@host"},
            ~"text" => <<"\x{b5}s"/utf8>>,
            ~"characters" => "abc",
            ~"large" => 1 bsl 200
        },
        dyno_recording:document(#{
            a => [1, 2.5, x, true, undefined, null],
            ~"b" => #{c => node@host},
            text => {text, [16#b5, $s]},
            characters => "abc",
            large => 1 bsl 200
        })
    ).

refuses_terms(_) ->
    Terms = [
        self(), make_ref(), {1, 2}, fun() -> ok end, <<255>>, <<1:3>>, [1 | 2], {text, [-1]}
    ],
    [
        ?assertError(
            {invalid_recording, {not_json_term, [~"a", 1], _}},
            dyno_recording:document(#{a => [0, Term]})
        )
     || Term <- Terms
    ],
    ?assertError(
        {invalid_recording, {not_json_term, [], 1}}, dyno_recording:document(#{1 => 2})
    ),
    Text = dyno_recording:format_error({not_json_term, [~"a", 1], {1, 2}}),
    ?assertEqual(~"a[1]: a term with a JSON form is expected, this is {1,2}", Text).

refuses_wrong_parts(_) ->
    New = dyno_recording:new(test, ~"echo", #{}, #{}),
    ?assertError(
        {invalid_recording, {shape, [~"status"], _, missing}},
        dyno_recording:add_run(New, maps:remove(status, run(~"1")))
    ),
    ?assertError({invalid_recording, _}, dyno_recording:put(New, status, finished)),
    ?assertError({invalid_recording, _}, dyno_recording:add_verdicts(New, [#{name => x}])).

says_what_is_wrong_where(_) ->
    Histogram = #{name => latency, unit => ns, count => 1, buckets => [[1, 2, 1]]},
    Table = #{name => t, columns => [#{name => a, type => integer}], rows => [[1], [2]]},
    Series = #{name => s, unit => ~"B", times_ms => [0, 1], values => [1, 2]},
    New = dyno_recording:new(test, ~"echo", #{}, #{}),
    Run = (run(~"1"))#{histograms => [Histogram], tables => [Table], series => [Series]},
    Document = dyno_recording:add_run(New, Run),
    Expected = [
        {
            [~"runs", 0, ~"histograms", 0, ~"buckets"],
            ~"text",
            "runs[0].histograms[0].buckets: a list of [low, high, count] is expected, "
            "this is the string \"text\""
        },
        {
            [~"runs", 0, ~"histograms", 0, ~"buckets"],
            [[5, 6, 1], [4, 5, 1]],
            "runs[0].histograms[0].buckets[1]: a bucket that starts at the end of the one before "
            "or later is expected, this is a list"
        },
        {
            [~"runs", 0, ~"tables", 0, ~"rows", 1],
            [1, 2],
            "runs[0].tables[0].rows[1]: a list of as many cells as columns, of 1, is expected, "
            "this is a list"
        },
        {
            [~"runs", 0, ~"tables", 0, ~"rows", 1, 0],
            1.5,
            "runs[0].tables[0].rows[1][0]: an integer or null is expected, "
            "this is the number 1.5"
        },
        {
            [~"runs", 0, ~"series", 0, ~"values"],
            [1],
            "runs[0].series[0].values: a list as long as times_ms, of 2, is expected, "
            "this is a list"
        },
        {
            [~"status"],
            ~"done",
            "status: one of \"partial\", \"complete\", \"failed\", \"interrupted\" is expected, "
            "this is the string \"done\""
        },
        {[~"runs"], null, "runs: a list of objects (run) is expected, this is null"}
    ],
    [
        begin
            {error, Reason} = dyno_recording:validate(replace(Path, Value, Document)),
            ?assertEqual(list_to_binary(Text), dyno_recording:format_error(Reason))
        end
     || {Path, Value, Text} <- Expected
    ],
    {error, Missing} = dyno_recording:validate(maps:remove(~"name", Document)),
    ?assertEqual(
        ~"name: a string is expected, it is missing", dyno_recording:format_error(Missing)
    ).

refuses_what_is_no_recording(_) ->
    [
        ?assertEqual({error, not_a_recording}, dyno_recording:validate(Value))
     || Value <- [#{}, [], 1, null, #{~"format" => ~"other", ~"version" => 1}]
    ],
    Document = dyno_recording:new(test, ~"echo", #{}, #{}),
    ?assertEqual(
        {error, {other_version, 1}}, dyno_recording:validate(Document#{~"version" := 1})
    ),
    ?assertEqual(
        <<
            "the recording has version 1 of the format, this dyno reads version 2: make it anew "
            "with this dyno"
        >>,
        dyno_recording:format_error({other_version, 1})
    ),
    ?assertEqual(
        {error, {other_version, 3}}, dyno_recording:validate(Document#{~"version" := 3})
    ),
    ?assertEqual(
        <<
            "the recording has version 3 of the format, this dyno reads version 2: use the dyno "
            "that wrote it, or a later one"
        >>,
        dyno_recording:format_error({other_version, 3})
    ),
    [
        ?assertMatch(
            {error, {shape, [~"version"], _, Version}},
            dyno_recording:validate(Document#{~"version" := Version})
        )
     || Version <- [0, -1, ~"1", 1.0, null]
    ].

ignores_unknown_fields(_) ->
    Document = dyno_recording:add_run(
        dyno_recording:new(test, ~"echo", #{}, #{}), (run(~"1"))#{later => #{a => [1]}}
    ),
    More = Document#{~"colour" => ~"red"},
    ?assertEqual({ok, More}, dyno_recording:validate(More)).

fills_in_defaults(_) ->
    Small = #{
        ~"format" => ~"dyno-recording",
        ~"version" => 2,
        ~"status" => ~"partial",
        ~"command" => ~"test",
        ~"name" => ~"echo",
        ~"started_at" => ~"2026-11-21T08:00:00Z",
        ~"runs" => []
    },
    {ok, Document} = dyno_recording:validate(Small),
    ?assertMatch(
        #{
            ~"duration_ns" := null,
            ~"tables" := [],
            ~"error" := null,
            ~"environment" := #{~"otp" := null}
        },
        Document
    ).

%% Another program need not know what a role is; reports find rows by their keys.
gives_columns_roles(_) ->
    Column = fun
        ({Type, null}) -> #{~"name" => ~"c", ~"type" => Type};
        ({Type, Role}) -> #{~"name" => ~"c", ~"type" => Type, ~"role" => Role}
    end,
    Document = dyno_recording:new(test, ~"echo", #{}, #{}),
    [
        begin
            Columns = [Column(Described) || {Described, _} <- Each],
            Table = #{~"name" => ~"t", ~"columns" => Columns, ~"rows" => []},
            {ok, #{~"tables" := [#{~"columns" := Roles}]}} =
                dyno_recording:validate(Document#{~"tables" => [Table]}),
            ?assertEqual([Role || {_, Role} <- Each], [Role || #{~"role" := Role} <- Roles])
        end
     || Each <- [
            [{{~"string", null}, ~"key"}, {{~"string", null}, ~"note"}],
            [{{~"string", null}, ~"key"}, {{~"number", null}, ~"value"}],
            [{{~"integer", null}, ~"value"}, {{~"string", null}, ~"note"}],
            [{{~"string", null}, ~"note"}, {{~"integer", ~"key"}, ~"key"}],
            [{{~"number", ~"low"}, ~"low"}, {{~"duration", null}, ~"value"}],
            []
        ]
    ].

generated_are_valid(_) ->
    Property = ?FORALL(
        Document,
        dyno_recording_gen:document(),
        {ok, Document} =:= dyno_recording:validate(Document)
    ),
    dyno_property:holds(Property, 100).

%% A list with an object nobody knows fits nowhere but where all does; that place is named.
finds_every_mutation(_) ->
    Property = ?FORALL(
        Document,
        dyno_recording_gen:document(),
        ?FORALL(
            Path,
            proper_types:elements(paths(Document)),
            begin
                Result = dyno_recording:validate(replace(Path, [#{~"wrong" => []}], Document)),
                ?WHENFAIL(ct:pal("~p~n~p", [Path, Result]), names(Result, Path, Document))
            end
        )
    ),
    dyno_property:holds(Property, 300).

names({error, not_a_recording}, [~"format"], _) ->
    true;
names({error, {shape, Found, _, _}}, Path, _) ->
    lists:prefix(Found, Path) orelse lists:prefix(Path, Found);
names({ok, _}, Path, Document) ->
    is_free(lists:reverse(Path), Document);
names(_, _, _) ->
    false.

%% The data of an event, and cells of columns of an unknown type.
is_free([~"data" | _], _) ->
    true;
is_free([Column, _, ~"rows" | Table], Document) ->
    lists:nth(Column + 1, types(Table, Document)) =:= ~"something else";
is_free([_, ~"rows" | Table], Document) ->
    %% As a row, the list has one cell.
    types(Table, Document) =:= [~"something else"];
is_free(_, _) ->
    false.

types(Table, Document) ->
    #{~"columns" := Columns} = at(lists:reverse(Table), Document),
    [Type || #{~"type" := Type} <- Columns].

at(Path, Document) ->
    lists:foldl(
        fun
            (Key, Value) when is_map(Value) -> map_get(Key, Value);
            (Index, Value) -> lists:nth(Index + 1, Value)
        end,
        Document,
        Path
    ).

-define(REQUIRED, #{
    document => [~"format", ~"version", ~"status", ~"command", ~"name", ~"started_at", ~"runs"],
    runs => [~"id", ~"status"],
    nodes => [~"name", ~"role"],
    metrics => [~"name", ~"value", ~"unit"],
    histograms => [~"name", ~"unit", ~"count", ~"buckets"],
    series => [~"name", ~"unit", ~"times_ms", ~"values"],
    tables => [~"name", ~"columns", ~"rows"],
    columns => [~"name", ~"type"],
    sort => [~"column", ~"order"],
    items => [~"time_ms", ~"kind", ~"text"],
    profiles => [~"name", ~"values", ~"frames", ~"samples"],
    values => [~"name", ~"unit"],
    samples => [~"stack", ~"values"],
    verdicts => [~"kind", ~"name", ~"result", ~"text"],
    threshold => [~"metric", ~"operator", ~"limit", ~"unit"],
    warnings => [~"code", ~"text"],
    error => [~"code", ~"text"],
    git => [~"revision", ~"dirty"]
}).

finds_every_missing_field(_) ->
    Property = ?FORALL(
        Document,
        dyno_recording_gen:document(),
        ?FORALL(
            Path,
            proper_types:elements([P || P <- paths(Document), is_binary(lists:last(P))]),
            begin
                Result = dyno_recording:validate(remove(Path, Document)),
                Required = lists:member(lists:last(Path), maps:get(holder(Path), ?REQUIRED, [])),
                ?WHENFAIL(
                    ct:pal("~p~n~p", [Path, Result]),
                    case Result of
                        {ok, _} -> not Required;
                        {error, not_a_recording} -> Path =:= [~"format"];
                        {error, {shape, At, _, missing}} -> Required andalso At =:= Path;
                        _ -> false
                    end
                )
            end
        )
    ),
    dyno_property:holds(Property, 300).

holder(Path) ->
    case [Step || Step <- lists:droplast(Path), is_binary(Step)] of
        [] -> document;
        Steps -> binary_to_atom(lists:last(Steps))
    end.

%% Everywhere but the inside of what is free, and of cells.
paths(Document) ->
    paths(Document, []).

paths(Value, Path) when is_map(Value) ->
    lists:append([
        [lists:reverse([Key | Path]) | inside(Key, V, Path)]
     || {Key, V} <- maps:to_list(Value)
    ]);
paths(Values, Path) when is_list(Values) ->
    lists:append([
        [lists:reverse([Index | Path]) | paths(V, [Index | Path])]
     || {Index, V} <- lists:enumerate(0, Values)
    ]);
paths(_, _) ->
    [].

inside(~"load", _, _) -> [];
inside(~"labels", _, _) -> [];
inside(~"data", _, _) -> [];
inside(~"evidence", _, _) -> [];
inside(~"rows" = Key, Rows, Path) -> paths([[null || _ <- Row] || Row <- Rows], [Key | Path]);
inside(Key, Value, Path) -> paths(Value, [Key | Path]).

replace([], New, _) ->
    New;
replace([Key | Path], New, Value) when is_map(Value) ->
    Value#{Key := replace(Path, New, maps:get(Key, Value))};
replace([Index | Path], New, Value) ->
    {Before, [Old | After]} = lists:split(Index, Value),
    Before ++ [replace(Path, New, Old) | After].

remove([Key], Value) ->
    maps:remove(Key, Value);
remove([Key | Path], Value) when is_map(Value) ->
    Value#{Key := remove(Path, maps:get(Key, Value))};
remove([Index | Path], Value) ->
    {Before, [Old | After]} = lists:split(Index, Value),
    Before ++ [remove(Path, Old) | After].
