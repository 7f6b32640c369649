%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_report_document).
-moduledoc """
Reads from a recording what a report shows; what is absent and what is `null` are the same here.
""".

-compile(warn_missing_spec_all).

-export([get/2, get/3, text/3, name/2, measured/2, judged/1]).
-export([metric/2, values/3, nodes/1, tables/2, table/3, rows/1]).

-export_type([object/0, row/0]).

-doc "A JSON object of a recording.".
-type object() :: #{binary() => json:decode_value()}.

-doc "A table's row as an object: the value by the column's name.".
-type row() :: object().

-doc "A field, or `null`.".
-spec get(binary(), object()) -> json:decode_value() | null.
get(Key, Object) ->
    maps:get(Key, Object, null).

-doc "A field, or the default where it is absent or `null`.".
-spec get(binary(), object(), Default) -> json:decode_value() | Default.
get(Key, Object, Default) ->
    case Object of
        #{Key := null} -> Default;
        #{Key := Value} -> Value;
        #{} -> Default
    end.

-doc "A field as text safe to show on one line.".
-spec text(binary(), object(), binary()) -> binary().
text(Key, Object, Default) ->
    case get(Key, Object) of
        Text when is_binary(Text) -> dyno_report_text:clean(Text);
        Number when is_integer(Number) -> integer_to_binary(Number);
        _ -> Default
    end.

-doc "A name as text safe to show; `-` where there is none.".
-spec name(binary(), object()) -> binary().
name(Key, Object) ->
    text(Key, Object, ~"-").

-doc "A number with its unit as people read it; `-` where it is not known.".
-spec measured(json:decode_value() | null, binary()) -> binary().
measured(Value, Unit) when is_number(Value) ->
    dyno_report_text:clean(dyno_unit:format(Value, Unit));
measured(_, _Unit) ->
    ~"-".

-doc "What a verdict says, or where it says nothing the value it rests on.".
-spec judged(object()) -> binary().
judged(Verdict) ->
    case text(~"text", Verdict, ~"") of
        ~"" -> measured(get(~"value", Verdict), get(~"unit", Verdict, ~"1"));
        Text -> Text
    end.

-doc "The value of a run's metric, or `null`.".
-spec metric(binary(), object()) -> number() | null.
metric(Name, Run) ->
    case [Metric || #{~"name" := N} = Metric <- get(~"metrics", Run, []), N =:= Name] of
        [#{~"value" := Value} | _] when is_number(Value) -> Value;
        _ -> null
    end.

-doc "What a series of a run and node held in its measured part; without `null`s.".
-spec values(binary(), binary() | null, object()) -> [number()].
values(Name, Node, Run) ->
    lists:append([
        [
            Value
         || {Time, Value} <- lists:zip(get(~"times_ms", S, []), get(~"values", S, []), trim),
            is_number(Value),
            Time >= 0
        ]
     || #{~"name" := N} = S <- get(~"series", Run, []),
        N =:= Name,
        get(~"node", S) =:= Node
    ]).

-doc "The names of a run's target nodes, in order; of its series where it lists none.".
-spec nodes(object()) -> [binary() | null].
nodes(Run) ->
    case [get(~"name", Node) || Node <- get(~"nodes", Run, [])] of
        [] -> lists:uniq([get(~"node", Series) || Series <- get(~"series", Run, [])]);
        Names -> Names
    end.

-doc "The tables of that name of a document or run.".
-spec tables(binary(), object()) -> [object()].
tables(Name, Object) ->
    [Table || #{~"name" := N} = Table <- get(~"tables", Object, []), N =:= Name].

-doc "The tables of that name and node.".
-spec table(binary(), binary() | null, object()) -> [object()].
table(Name, Node, Object) ->
    [Table || Table <- tables(Name, Object), get(~"node", Table) =:= Node].

-doc "A table's rows as objects.".
-spec rows(object()) -> [row()].
rows(Table) ->
    Names = [get(~"name", Column) || Column <- get(~"columns", Table, [])],
    [maps:from_list(lists:zip(Names, Row, trim)) || Row <- get(~"rows", Table, [])].
