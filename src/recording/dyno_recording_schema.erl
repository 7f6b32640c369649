%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_recording_schema).
-moduledoc false.
%% The shape of a recording as data, and the one function that walks a value along it.
%% doc/recording.md says what the fields mean; this module says what they may hold. A walk fills in
%% the defaults of optional fields, leaves unknown fields alone, and stops at the first value that
%% is wrong, with the path to it. Limits between fields (a row as long as the columns, and the like)
%% are checks named in the schema.

-export([check/2, path/1, describe/1, text/1, fields/0]).

-export_type([json/0, object/0, type_name/0, path/0, reason/0]).

-type json() :: null | boolean() | number() | binary() | [json()] | object().
-type object() :: #{binary() => json()}.

-type type_name() ::
    document
    | environment
    | run
    | node
    | metric
    | histogram
    | series
    | table
    | sort
    | column
    | verdict
    | note
    | parameters
    | git.

-doc "Field names and list indexes (from 0), from the outside in.".
-type path() :: [binary() | non_neg_integer()].

-type reason() :: {shape, path(), Expected :: binary(), Found :: json() | missing}.

-type type() ::
    type_name()
    | string
    | boolean
    | integer
    | natural
    | positive
    | number
    | any_object
    | labels
    | bucket
    | row
    | unit
    | {list, type()}
    | {nullable, type()}
    | {one_of, [binary() | integer()]}
    | {either, type(), type()}.

-type field() ::
    {required, binary(), type()}
    | {default, binary(), type(), json()}
    | {optional, binary(), type()}.

-type check() :: unique_ids | same_length | ascending_buckets | rows_fit_columns.

-define(OBJECTS, [
    document,
    parameters,
    environment,
    git,
    run,
    node,
    metric,
    histogram,
    series,
    table,
    sort,
    column,
    verdict,
    note
]).

-doc "Checks a value against a type; the result has the defaults of absent optional fields.".
-spec check(type_name(), term()) -> {ok, json()} | {error, reason()}.
check(Name, Value) ->
    try
        {ok, walk(Name, Value, [])}
    catch
        throw:{shape, Path, Expected, Found} ->
            {error, {shape, lists:reverse(Path), Expected, Found}}
    end.

-doc "A path as people write it: `runs[2].histograms[0].buckets`.".
-spec path(path()) -> binary().
path([]) ->
    ~"the document";
path(Path) ->
    Text = iolist_to_binary([
        case Step of
            _ when is_integer(Step) -> ["[", integer_to_binary(Step), "]"];
            _ -> [".", Step]
        end
     || Step <- Path
    ]),
    case Text of
        <<".", Rest/binary>> -> Rest;
        _ -> Text
    end.

-doc "What a value is, in a few words.".
-spec describe(term()) -> binary().
describe(missing) -> ~"it is missing";
describe(null) -> ~"this is null";
describe(Value) when is_boolean(Value) -> ~"this is a boolean";
describe(Value) when is_integer(Value) -> short("this is the integer ", Value);
describe(Value) when is_float(Value) -> short("this is the number ", Value);
describe(Value) when is_binary(Value), byte_size(Value) =< 30 -> quoted(Value);
describe(Value) when is_binary(Value) -> ~"this is a string";
describe([]) -> ~"this is an empty list";
describe(Value) when is_list(Value) -> ~"this is a list";
describe(Value) when is_map(Value) -> ~"this is an object";
describe(_) -> ~"this is no JSON value".

-doc "Text for people as one binary.".
-spec text(unicode:chardata()) -> binary().
text(Chars) ->
    case unicode:characters_to_binary(Chars) of
        Text when is_binary(Text) -> Text;
        _ -> iolist_to_binary(io_lib:format("~w", [Chars]))
    end.

-doc "All field names, in the order in which a recording is written.".
-spec fields() -> [binary()].
fields() ->
    Early = [~"format", ~"version", ~"id", ~"size", ~"repetition"],
    Late = [~"rows", ~"buckets", ~"runs", ~"tables", ~"verdicts", ~"warnings", ~"error"],
    All = [element(2, Field) || Type <- ?OBJECTS, Field <- fields(Type)],
    lists:uniq(Early ++ [Name || Name <- All, not lists:member(Name, Late)] ++ Late).

%% The schema

-spec fields(type_name()) -> [field()].
fields(document) ->
    [
        {required, ~"format", {one_of, [~"dyno-recording"]}},
        {required, ~"version", {one_of, [1]}},
        {required, ~"status", {one_of, [~"partial", ~"complete", ~"failed", ~"interrupted"]}},
        {required, ~"command", string},
        {required, ~"name", string},
        {default, ~"parameters", parameters, #{}},
        {default, ~"environment", environment, #{}},
        {required, ~"started_at", string},
        {default, ~"duration_ns", {nullable, natural}, null},
        {required, ~"runs", {list, run}},
        {default, ~"tables", {list, table}, []},
        {default, ~"verdicts", {list, verdict}, []},
        {default, ~"warnings", {list, note}, []},
        {default, ~"error", {nullable, note}, null},
        {optional, ~"recordings", any_object}
    ];
fields(parameters) ->
    [
        {optional, ~"suite", {nullable, string}},
        {optional, ~"sizes", {nullable, {list, natural}}},
        {optional, ~"size_label", {nullable, string}},
        {optional, ~"duration_ms", {nullable, number}},
        {optional, ~"warmup_ms", {nullable, number}},
        {optional, ~"interval_ms", {nullable, number}},
        {optional, ~"patterns", {nullable, {list, string}}},
        {optional, ~"thresholds", {nullable, {list, string}}},
        {optional, ~"load", {nullable, any_object}}
    ];
fields(environment) ->
    [
        {default, ~"dyno_version", {nullable, string}, null},
        {default, ~"otp", {nullable, string}, null},
        {default, ~"erts", {nullable, string}, null},
        {default, ~"jit", {nullable, boolean}, null},
        {default, ~"emulator_flags", {nullable, {list, string}}, null},
        {default, ~"schedulers_online", {nullable, natural}, null},
        {default, ~"schedulers", {nullable, natural}, null},
        {default, ~"dirty_cpu_schedulers", {nullable, natural}, null},
        {default, ~"dirty_io_schedulers", {nullable, natural}, null},
        {default, ~"os", {nullable, string}, null},
        {default, ~"kernel", {nullable, string}, null},
        {default, ~"cpu_model", {nullable, string}, null},
        {default, ~"cores", {nullable, natural}, null},
        {default, ~"memory_bytes", {nullable, natural}, null},
        {default, ~"hostname", {nullable, string}, null},
        {default, ~"git", {nullable, git}, null},
        {default, ~"time", {nullable, string}, null}
    ];
fields(git) ->
    [{required, ~"revision", string}, {required, ~"dirty", boolean}];
fields(run) ->
    [
        {required, ~"id", string},
        {required, ~"size", natural},
        {default, ~"repetition", positive, 1},
        {required, ~"status", {one_of, [~"complete", ~"failed", ~"interrupted", ~"partial"]}},
        {default, ~"started_at", {nullable, string}, null},
        {default, ~"duration_ns", {nullable, natural}, null},
        {default, ~"nodes", {list, node}, []},
        {default, ~"metrics", {list, metric}, []},
        {default, ~"histograms", {list, histogram}, []},
        {default, ~"series", {list, series}, []},
        {default, ~"tables", {list, table}, []},
        {default, ~"warnings", {list, note}, []},
        {default, ~"error", {nullable, note}, null}
    ];
fields(node) ->
    [
        {required, ~"name", string},
        {default, ~"otp", {nullable, string}, null},
        {default, ~"erts", {nullable, string}, null},
        {default, ~"schedulers_online", {nullable, natural}, null},
        {default, ~"os_pid", {nullable, {either, string, natural}}, null},
        {optional, ~"clock_offset_ns", {nullable, number}},
        {optional, ~"clock_error_ns", {nullable, number}},
        {optional, ~"joined_ms", {nullable, number}},
        {optional, ~"left_ms", {nullable, number}}
    ];
fields(metric) ->
    [
        {required, ~"name", string},
        {required, ~"value", {nullable, number}},
        {optional, ~"low", {nullable, number}},
        {optional, ~"high", {nullable, number}},
        {required, ~"unit", unit},
        {default, ~"count", {nullable, natural}, null},
        {default, ~"group", {nullable, string}, null},
        {default, ~"title", {nullable, string}, null}
    ];
fields(histogram) ->
    [
        {required, ~"name", string},
        {required, ~"unit", unit},
        {default, ~"title", {nullable, string}, null},
        {default, ~"group", {nullable, string}, null},
        {default, ~"labels", labels, #{}},
        {required, ~"count", natural},
        {default, ~"sum", {nullable, number}, null},
        {default, ~"min", {nullable, number}, null},
        {default, ~"max", {nullable, number}, null},
        {default, ~"scheme", {nullable, string}, null},
        {required, ~"buckets", {list, bucket}}
    ];
fields(series) ->
    [
        {required, ~"name", string},
        {required, ~"unit", unit},
        {default, ~"title", {nullable, string}, null},
        {default, ~"group", {nullable, string}, null},
        {default, ~"node", {nullable, string}, null},
        {default, ~"labels", labels, #{}},
        {required, ~"times_ms", {list, number}},
        {required, ~"values", {list, {nullable, number}}}
    ];
fields(table) ->
    [
        {required, ~"name", string},
        {default, ~"title", {nullable, string}, null},
        {default, ~"node", {nullable, string}, null},
        {default, ~"labels", labels, #{}},
        {default, ~"derived", boolean, false},
        {default, ~"sort", {nullable, sort}, null},
        {required, ~"columns", {list, column}},
        {required, ~"rows", {list, row}},
        {default, ~"truncated", natural, 0}
    ];
fields(sort) ->
    [
        {required, ~"column", string},
        {required, ~"order", {one_of, [~"ascending", ~"descending"]}}
    ];
fields(column) ->
    [
        {required, ~"name", string},
        {required, ~"type", {one_of, [~"string", ~"integer", ~"number"]}},
        {default, ~"unit", {nullable, unit}, null},
        {default, ~"title", {nullable, string}, null},
        {default, ~"help", {nullable, string}, null},
        {default, ~"role", {nullable, string}, null},
        {default, ~"of", {nullable, string}, null},
        {default, ~"better", {nullable, {one_of, [~"lower", ~"higher"]}}, null}
    ];
fields(verdict) ->
    [
        {required, ~"name", string},
        {required, ~"metric", string},
        {required, ~"operator",
            {one_of, [~"<", ~"<=", ~">", ~">=", ~"==", ~"/=", ~"=:=", ~"=/="]}},
        {required, ~"limit", {nullable, number}},
        {required, ~"unit", unit},
        {optional, ~"kind", {nullable, string}},
        {optional, ~"node", {nullable, string}},
        {default, ~"run", {nullable, string}, null},
        {default, ~"value", {nullable, number}, null},
        {required, ~"result", {one_of, [~"pass", ~"fail", ~"unknown"]}},
        {required, ~"text", string}
    ];
fields(note) ->
    [{required, ~"code", string}, {required, ~"text", string}].

-spec checks(type_name()) -> [check()].
checks(document) -> [unique_ids];
checks(histogram) -> [ascending_buckets];
checks(series) -> [same_length];
checks(table) -> [rows_fit_columns];
checks(_) -> [].

%% The walk. Paths are reversed on the way down.

-spec walk(type(), term(), path()) -> json().
walk(string, Value, Path) when is_binary(Value) ->
    case unicode:characters_to_binary(Value) of
        Value -> Value;
        _ -> throw({shape, Path, ~"a string in UTF-8", Value})
    end;
walk(boolean, Value, _) when is_boolean(Value) -> Value;
walk(integer, Value, _) when is_integer(Value) -> Value;
walk(natural, Value, _) when is_integer(Value), Value >= 0 -> Value;
walk(positive, Value, _) when is_integer(Value), Value > 0 -> Value;
walk(number, Value, _) when is_number(Value) -> Value;
walk(any_object, Value, Path) when is_map(Value) -> any_json(Value, Path);
walk(labels, Value, Path) when is_map(Value) ->
    maps:map(
        fun(Key, Label) -> walk({either, string, number}, Label, [Key | Path]) end,
        any_json(Value, Path)
    );
walk(bucket, [Low, High, Count] = Value, _) when
    is_number(Low), is_number(High), is_integer(Count), Low < High, Count >= 0
->
    Value;
walk(row, Value, _) when is_list(Value) -> Value;
walk(unit, Value, Path) ->
    walk({one_of, dyno_unit:units()}, Value, Path);
walk({nullable, _}, null, _) -> null;
walk({nullable, Type}, Value, Path) ->
    try
        walk(Type, Value, Path)
    catch
        throw:{shape, Path, Expected, Value} when not is_map(Value) ->
            throw({shape, Path, <<Expected/binary, " or null">>, Value})
    end;
walk({list, Type}, Values, Path) when is_list(Values) ->
    is_proper(Values) orelse expected({list, Type}, Values, Path),
    [walk(Type, Value, [Index | Path]) || {Index, Value} <- lists:enumerate(0, Values)];
walk({one_of, Accepted} = Type, Value, Path) ->
    case lists:any(fun(A) -> A =:= Value end, Accepted) of
        true -> Value;
        false -> expected(Type, Value, Path)
    end;
walk({either, One, Other}, Value, Path) ->
    try
        walk(One, Value, Path)
    catch
        throw:{shape, Path, _, _} -> walk(Other, Value, Path)
    end;
walk(Type, Value, Path) when is_map(Value), is_atom(Type) ->
    case lists:member(Type, ?OBJECTS) of
        true -> object(Type, Value, Path);
        false -> expected(Type, Value, Path)
    end;
walk(Type, Value, Path) ->
    expected(Type, Value, Path).

-spec object(type_name(), map(), path()) -> object().
object(Type, Value, Path) ->
    Object = lists:foldl(fun(Field, Acc) -> field(Field, Acc, Path) end, Value, fields(Type)),
    lists:foreach(fun(Check) -> require(Check, Object, Path) end, checks(Type)),
    Object.

-spec field(field(), map(), path()) -> map().
field({required, Name, Type}, Object, Path) ->
    case Object of
        #{Name := Value} -> Object#{Name := walk(Type, Value, [Name | Path])};
        #{} -> expected(Type, missing, [Name | Path])
    end;
field({default, Name, Type, Default}, Object, Path) ->
    Object#{Name => walk(Type, maps:get(Name, Object, Default), [Name | Path])};
field({optional, Name, Type}, Object, Path) ->
    case Object of
        #{Name := Value} -> Object#{Name := walk(Type, Value, [Name | Path])};
        #{} -> Object
    end.

-spec require(check(), object(), path()) -> ok.
require(unique_ids, #{~"runs" := Runs}, Path) ->
    _ = lists:foldl(
        fun({Index, #{~"id" := Id}}, Seen) ->
            lists:member(Id, Seen) andalso
                throw({shape, [~"id", Index, ~"runs" | Path], ~"an id no other run has", Id}),
            [Id | Seen]
        end,
        [],
        lists:enumerate(0, Runs)
    ),
    ok;
require(same_length, #{~"times_ms" := Times, ~"values" := Values}, Path) ->
    case length(Times) =:= length(Values) of
        true ->
            ok;
        false ->
            Expected = counted("a list as long as times_ms (", length(Times), ")"),
            throw({shape, [~"values" | Path], Expected, Values})
    end;
require(ascending_buckets, #{~"buckets" := Buckets}, Path) ->
    _ = lists:foldl(
        fun({Index, [Low, High, _] = Bucket}, Before) ->
            Before =/= none andalso Low < Before andalso
                throw(
                    {shape, [Index, ~"buckets" | Path],
                        ~"a bucket that starts at the end of the one before or later", Bucket}
                ),
            High
        end,
        none,
        lists:enumerate(0, Buckets)
    ),
    ok;
require(rows_fit_columns, #{~"columns" := Columns, ~"rows" := Rows}, Path) ->
    Types = [Type || #{~"type" := Type} <- Columns],
    Width = length(Types),
    lists:foreach(
        fun({Index, Row}) ->
            At = [Index, ~"rows" | Path],
            is_proper(Row) andalso length(Row) =:= Width orelse
                throw(
                    {shape, At, counted("a list of as many cells as columns (", Width, ")"), Row}
                ),
            lists:foreach(
                fun({Column, Type, Cell}) -> walk(cell(Type), Cell, [Column | At]) end,
                lists:zip3(lists:seq(0, Width - 1), Types, Row)
            )
        end,
        lists:enumerate(0, Rows)
    ).

-spec cell(binary()) -> {nullable, string | integer | number}.
cell(~"string") -> {nullable, string};
cell(~"integer") -> {nullable, integer};
cell(~"number") -> {nullable, number}.

-spec any_json(term(), path()) -> json().
any_json(Value, Path) when is_map(Value) ->
    maps:map(
        fun
            (Key, V) when is_binary(Key) -> any_json(V, [Key | Path]);
            (Key, _) -> throw({shape, Path, ~"an object with strings as keys", Key})
        end,
        Value
    );
any_json(Value, Path) when is_list(Value) ->
    is_proper(Value) orelse throw({shape, Path, ~"a JSON value", Value}),
    [any_json(V, [Index | Path]) || {Index, V} <- lists:enumerate(0, Value)];
any_json(Value, Path) when is_binary(Value) -> walk(string, Value, Path);
any_json(Value, _) when is_number(Value); is_boolean(Value); Value =:= null -> Value;
any_json(Value, Path) ->
    throw({shape, Path, ~"a JSON value", Value}).

-spec is_proper(term()) -> boolean().
is_proper(List) ->
    is_list(List) andalso
        try length(List) of
            _ -> true
        catch
            error:badarg -> false
        end.

-spec expected(type(), term(), path()) -> no_return().
expected(Type, Value, Path) ->
    throw({shape, Path, iolist_to_binary(wording(Type)), Value}).

-spec wording(type()) -> iodata().
wording(string) -> "a string";
wording(boolean) -> "true or false";
wording(integer) -> "an integer";
wording(natural) -> "an integer not below 0";
wording(positive) -> "an integer above 0";
wording(number) -> "a number";
wording(any_object) -> "an object";
wording(labels) -> "an object of strings and numbers";
wording(bucket) -> "[low, high, count] with low < high";
wording(row) -> "a list of cells";
wording(unit) -> wording({one_of, dyno_unit:units()});
wording(note) -> "an object with code and text";
wording(git) -> "an object with revision and dirty";
wording({nullable, Type}) -> [wording(Type), " or null"];
wording({list, bucket}) -> "a list of [low, high, count]";
wording({list, natural}) -> "a list of integers not below 0";
wording({list, string}) -> "a list of strings";
wording({list, number}) -> "a list of numbers";
wording({list, {nullable, number}}) -> "a list of numbers and nulls";
wording({list, row}) -> "a list of rows";
wording({list, note}) -> "a list of objects with code and text";
wording({list, Type}) -> ["a list of objects (", atom_to_binary(Type), ")"];
wording({one_of, [Only]}) -> json:encode(Only);
wording({one_of, Accepted}) -> ["one of ", lists:join(", ", [json:encode(A) || A <- Accepted])];
wording({either, One, Other}) -> [wording(One), " or ", wording(Other)];
wording(Type) -> ["an object (", atom_to_binary(Type), ")"].

-spec counted(string(), non_neg_integer(), string()) -> binary().
counted(Before, Count, After) ->
    iolist_to_binary([Before, integer_to_binary(Count), After]).

-spec short(string(), number()) -> binary().
short(Text, Value) ->
    iolist_to_binary([Text, string:slice(json:encode(Value), 0, 30)]).

-spec quoted(binary()) -> binary().
quoted(Value) ->
    case unicode:characters_to_binary(Value) of
        Value -> iolist_to_binary(["this is the string ", json:encode(Value)]);
        _ -> ~"this is a string that is not UTF-8"
    end.
