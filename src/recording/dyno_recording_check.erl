%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_recording_check).
-moduledoc false.
%% Checks a value against the format (dyno_recording_schema) in one walk: adds defaults of absent
%% fields and the roles of columns, keeps unknown fields, and stops at the first wrong value, with
%% its path. Large lists are checked as a whole first, and walked with a path only if wrong.

-export([check/2, path/1, describe/1, text/1, fields/0, is_measurable/1]).

-export_type([json/0, object/0, path/0, reason/0]).

%% Larger numbers were not measured, and would overflow floats in formats and comparisons.
-define(LARGEST, 1.0e100).

-type json() :: null | boolean() | number() | binary() | [json()] | object().
-type object() :: #{binary() => json()}.

-doc "Field names and list indexes (from 0), from the outside in.".
-type path() :: [binary() | non_neg_integer()].

-type reason() :: {shape, path(), Expected :: binary(), Found :: json() | missing}.

-spec check(dyno_recording_schema:object_name(), term()) -> {ok, json()} | {error, reason()}.
check(Name, Value) ->
    try
        {ok, walk(Name, Value, [])}
    catch
        throw:{shape, Path, Expected, Found} ->
            {error, {shape, lists:reverse(Path), Expected, Found}}
    end.

-doc "A path as text: `runs[2].histograms[0].buckets`.".
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

-spec describe(term()) -> binary().
describe(missing) ->
    ~"it is missing";
describe(Value) when is_list(Value), Value =/= [] -> ~"this is a list";
describe(Value) when is_map(Value) -> ~"this is an object";
describe(Value) ->
    try iolist_to_binary(json:encode(Value)) of
        Text when is_binary(Value), byte_size(Text) > 32 -> ~"this is a string";
        Text -> <<"this is ", (kind(Value))/binary, (string:slice(Text, 0, 30))/binary>>
    catch
        error:_ when is_binary(Value) -> ~"this is a string that is not UTF-8";
        error:_ -> ~"this is no JSON value"
    end.

kind(Value) when is_integer(Value) -> ~"the integer ";
kind(Value) when is_float(Value) -> ~"the number ";
kind(Value) when is_binary(Value) -> ~"the string ";
kind(_Value) -> ~"".

-spec text(unicode:chardata()) -> binary().
text(Chars) ->
    case unicode:characters_to_binary(Chars) of
        Text when is_binary(Text) -> Text;
        _ -> iolist_to_binary(io_lib:format("~w", [Chars]))
    end.

-spec fields() -> [binary()].
fields() ->
    Early = [~"format", ~"version", ~"id", ~"labels", ~"size", ~"repetition"],
    Late = [
        ~"rows",
        ~"buckets",
        ~"frames",
        ~"samples",
        ~"runs",
        ~"tables",
        ~"verdicts",
        ~"warnings",
        ~"error"
    ],
    All = [
        Name
     || Object <- dyno_recording_schema:objects(),
        {Name, _, _, _} <- dyno_recording_schema:fields(Object)
    ],
    lists:uniq(Early ++ [Name || Name <- All, not lists:member(Name, Late)] ++ Late).

%% The walk. Paths are reversed on the way down.

walk({list, Type}, Values, Path) when is_list(Values) ->
    is_proper(Values) orelse expected({list, Type}, Values, Path),
    case are_all(Type, Values) of
        true -> Values;
        false -> walk_list(Type, Values, 0, Path)
    end;
walk({nullable, _}, null, _) ->
    null;
walk({nullable, Type}, Value, Path) ->
    try
        walk(Type, Value, Path)
    catch
        throw:{shape, Path, Expected, Value} when not is_map(Value) ->
            throw({shape, Path, <<Expected/binary, " or null">>, Value})
    end;
walk({either, One, Other}, Value, Path) ->
    try
        walk(One, Value, Path)
    catch
        throw:{shape, Path, _, _} -> walk(Other, Value, Path)
    end;
walk(any_object, Value, Path) when is_map(Value) ->
    walk(json, Value, Path);
walk(labels, Value, Path) when is_map(Value) ->
    maps:map(
        fun(Key, Label) -> walk({either, string, number}, Label, [Key | Path]) end,
        walk(json, Value, Path)
    );
walk(json, Value, Path) when is_map(Value) ->
    maps:map(
        fun
            (Key, V) when is_binary(Key) -> walk(json, V, [Key | Path]);
            (Key, _) -> throw({shape, Path, ~"an object with strings as keys", Key})
        end,
        Value
    );
walk(json, Value, Path) when is_list(Value) ->
    walk({list, json}, Value, Path);
walk(Type, Value, Path) ->
    case {is_object(Type), is_map(Value)} of
        {true, true} ->
            object(Type, Value, Path);
        {true, false} ->
            expected(Type, Value, Path);
        {false, _} ->
            is(Type, Value) orelse unfit(Type, Value, Path),
            Value
    end.

walk_list(_Type, [], _, _) ->
    [];
walk_list(Type, [Value | Rest], Index, Path) ->
    [walk(Type, Value, [Index | Path]) | walk_list(Type, Rest, Index + 1, Path)].

is_object(Type) ->
    is_atom(Type) andalso dyno_recording_schema:fields(Type) =/= [].

is(string, Value) ->
    is_binary(Value) andalso is_utf8(Value);
is(boolean, Value) ->
    is_boolean(Value);
is(integer, Value) ->
    is_integer(Value) andalso is_measurable(Value);
is(natural, Value) ->
    is(integer, Value) andalso Value >= 0;
is(positive, Value) ->
    is(integer, Value) andalso Value > 0;
is(number, Value) ->
    is_measurable(Value);
is(unit, Value) ->
    is(string, Value);
is({open, _}, Value) ->
    is(string, Value);
is({one_of, Accepted}, Value) ->
    lists:any(fun(A) -> A =:= Value end, Accepted);
is({nullable, Type}, Value) ->
    Value =:= null orelse is(Type, Value);
is(row, Value) ->
    is_list(Value);
is(json, Value) ->
    is_measurable(Value) orelse is_boolean(Value) orelse is({nullable, string}, Value);
is(bucket, [Low, High, Count]) when Low < High ->
    is_measurable(Low) andalso is_measurable(High) andalso is(natural, Count);
is(_, _) ->
    false.

-doc "Whether a recording may hold it as a number.".
-spec is_measurable(term()) -> boolean().
is_measurable(Value) -> is_number(Value) andalso Value =< ?LARGEST andalso Value >= -?LARGEST.

are_all(Type, Values) ->
    not is_object(Type) andalso lists:all(fun(Value) -> is(Type, Value) end, Values).

is_utf8(Text) ->
    unicode:characters_to_binary(Text) =:= Text.

-spec unfit(term(), term(), path()) -> no_return().
unfit(Type, Value, Path) when is_binary(Value) ->
    case is_utf8(Value) of
        true -> expected(Type, Value, Path);
        false -> throw({shape, Path, ~"a string in UTF-8", Value})
    end;
unfit(_Type, Value, Path) when is_number(Value), Value > ?LARGEST orelse Value < -?LARGEST ->
    throw({shape, Path, ~"a number from -1.0e100 to 1.0e100", Value});
unfit(Type, Value, Path) ->
    expected(Type, Value, Path).

-spec object(dyno_recording_schema:object_name(), map(), path()) -> object().
object(Type, Value, Path) ->
    Object = lists:foldl(
        fun(Field, Acc) -> field(Field, Acc, Path) end, Value, dyno_recording_schema:fields(Type)
    ),
    lists:foreach(
        fun(Check) -> require(Check, Object, Path) end, dyno_recording_schema:checks(Type)
    ),
    completed(Type, Object).

%% Reports find rows by keys: another program's table without roles must have a key.
completed(table, #{~"columns" := Columns} = Table) ->
    IsKey = lists:any(fun(#{~"role" := Role}) -> Role =:= ~"key" end, Columns),
    Table#{~"columns" := [C#{~"role" := role(C)} || C <- with_key(Columns, IsKey)]};
completed(_Type, Object) ->
    Object.

with_key([#{~"type" := ~"string", ~"role" := null} = First | Rest], false) ->
    [First#{~"role" := ~"key"} | Rest];
with_key(Columns, _IsKey) ->
    Columns.

role(#{~"role" := null, ~"type" := ~"string"}) -> ~"note";
role(#{~"role" := null}) -> ~"value";
role(#{~"role" := Role}) -> Role.

field({Name, Type, Presence, _}, Object, Path) ->
    case {Object, Presence} of
        {#{Name := Value}, _} -> Object#{Name := walk(Type, Value, [Name | Path])};
        {_, required} -> expected(Type, missing, [Name | Path]);
        {_, optional} -> Object;
        {_, {default, Default}} -> Object#{Name => walk(Type, Default, [Name | Path])}
    end.

-spec require(dyno_recording_schema:check(), object(), path()) -> ok.
require(unique_ids, #{~"runs" := Runs}, Path) ->
    unique(~"id", Runs, [~"runs" | Path], ~"an id no other run has");
require(unique_roles, #{~"nodes" := Nodes}, Path) ->
    unique(~"role", Nodes, [~"nodes" | Path], ~"a role no other node of the run has");
require(same_length, #{~"times_ms" := Times, ~"values" := Values}, Path) ->
    as_long_as("a list as long as times_ms", Times, Values, [~"values" | Path]);
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
    Types = [{nullable, cell(Type)} || #{~"type" := Type} <- Columns],
    lists:all(fun(Row) -> fits(Types, Row) end, Rows) orelse
        lists:foreach(
            fun({Index, Row}) -> walk_row(Types, Row, [Index, ~"rows" | Path]) end,
            lists:enumerate(0, Rows)
        ),
    ok;
require(samples_fit, #{~"values" := Values, ~"frames" := Frames} = Profile, Path) ->
    #{~"samples" := Samples} = Profile,
    Count = length(Frames),
    lists:foreach(
        fun({Index, #{~"stack" := Stack, ~"values" := Of}}) ->
            At = [Index, ~"samples" | Path],
            as_long_as("a list as long as the profile's values", Values, Of, [~"values" | At]),
            lists:all(fun(Frame) -> Frame < Count end, Stack) orelse
                throw(
                    {shape, [~"stack" | At],
                        counted("a list of numbers below that of the frames, ", Count), Stack}
                )
        end,
        lists:enumerate(0, Samples)
    ).

unique(Key, Items, Path, Expected) ->
    _ = lists:foldl(
        fun({Index, #{Key := Value}}, Seen) ->
            is_map_key(Value, Seen) andalso throw({shape, [Key, Index | Path], Expected, Value}),
            Seen#{Value => true}
        end,
        #{},
        lists:enumerate(0, Items)
    ),
    ok.

as_long_as(Expected, Model, Values, Path) ->
    case length(Values) =:= length(Model) of
        true -> ok;
        false -> throw({shape, Path, counted([Expected, ", of "], length(Model)), Values})
    end.

%% Columns of unknown types accept any value.
cell(~"string") -> string;
cell(~"integer") -> integer;
cell(~"number") -> number;
cell(_) -> json.

fits([Type | Types], [Cell | Row]) -> is(Type, Cell) andalso fits(Types, Row);
fits([], []) -> true;
fits(_, _) -> false.

%% Finds the cell. Cells of unknown types can be objects.
walk_row(Types, Row, Path) ->
    is_proper(Row) andalso length(Row) =:= length(Types) orelse
        throw(
            {shape, Path, counted("a list of as many cells as columns, of ", length(Types)), Row}
        ),
    lists:foreach(
        fun({Column, {Type, Cell}}) -> walk(Type, Cell, [Column | Path]) end,
        lists:enumerate(0, lists:zip(Types, Row))
    ).

is_proper(List) when length(List) >= 0 -> true;
is_proper(_) -> false.

-spec expected(dyno_recording_schema:type(), term(), path()) -> no_return().
expected(Type, Value, Path) ->
    throw({shape, Path, iolist_to_binary(wording(Type)), Value}).

wording(string) -> "a string";
wording(boolean) -> "true or false";
wording(integer) -> "an integer";
wording(natural) -> "an integer not below 0";
wording(positive) -> "an integer above 0";
wording(number) -> "a number";
wording(json) -> "a JSON value";
wording(any_object) -> "an object";
wording(labels) -> "an object of strings and numbers";
wording(bucket) -> "[low, high, count] with low < high";
wording(row) -> "a list of cells";
wording(unit) -> "a unit";
wording(note) -> "an object with code and text";
wording(git) -> "an object with revision and dirty";
wording({open, _}) -> "a string";
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

counted(Before, Count) ->
    iolist_to_binary([Before, integer_to_binary(Count), ","]).
