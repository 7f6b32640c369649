%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_report_document).
-moduledoc """
Reads from a recording what a report shows; what is absent and what is `null` are the same here.
""".

-export([get/2, get/3, text/3, name/2, measured/2, judged/1, compared/1, verdicts/1]).
-export([metric/2, values/3, nodes/1, tables/2, table/3, rows/1]).

-export_type([object/0, row/0, judged/0]).

-doc "A JSON object of a recording.".
-type object() :: #{binary() => json:decode_value()}.

-doc "A table's row as an object: the value by the column's name.".
-type row() :: object().

-doc "What was demanded, how that ended, and why.".
-type judged() :: {unicode:chardata(), pass | fail | error, unicode:chardata()}.

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
        ~"" -> compared(Verdict);
        Text -> Text
    end.

-doc "What was compared with a verdict's limit, with its unit; of other verdicts nothing.".
-spec compared(object()) -> binary().
compared(Verdict) ->
    Threshold = get(~"threshold", Verdict, #{}),
    measured(get(~"value", Threshold), get(~"unit", Threshold, ~"1")).

-doc """
What a recording decides, for CI systems: first that it was completed, then each of its verdicts.
One without a value is an error.
""".
-spec verdicts(object()) -> [judged(), ...].
verdicts(Document) ->
    Verdicts = get(~"verdicts", Document, []),
    Named = [{name(~"name", V), get(~"run", V)} || V <- Verdicts],
    [
        completed(Document)
        | [
            {[name(~"name", Verdict), run(Run, Node)], outcome(get(~"result", Verdict)),
                judged(Verdict)}
         || Verdict <- Verdicts,
            Run <- [get(~"run", Verdict)],
            %% Only where it tells two apart: CI systems know a test by its name, and nodes that are
            %% started for a run have another one each time.
            Node <- [
                case length([Same || Same <- Named, Same =:= {name(~"name", Verdict), Run}]) of
                    1 -> null;
                    _ -> get(~"node", Verdict)
                end
            ]
        ]
    ].

-spec completed(object()) -> judged().
completed(Document) ->
    case get(~"status", Document) of
        ~"complete" -> {"completed", pass, ""};
        _ -> {"completed", error, incomplete(Document)}
    end.

-spec incomplete(object()) -> unicode:chardata().
incomplete(Document) ->
    Status = name(~"status", Document),
    case get(~"error", Document) of
        #{~"text" := Text} when is_binary(Text) -> [Status, ": ", Text];
        _ -> ["the recording is ", Status, ", not complete"]
    end.

-spec run(json:decode_value(), json:decode_value()) -> unicode:chardata().
run(Id, Node) when is_binary(Id), is_binary(Node) -> [" (run ", Id, ", ", Node, ")"];
run(Id, _) when is_binary(Id) -> [" (run ", Id, ")"];
run(_, _) -> "".

-spec outcome(json:decode_value()) -> pass | fail | error.
outcome(~"pass") -> pass;
outcome(~"fail") -> fail;
outcome(_) -> error.

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

-doc "The roles of a run's target nodes, in order; those of its series where it lists none.".
-spec nodes(object()) -> [binary() | null].
nodes(Run) ->
    case [get(~"role", Node) || Node <- get(~"nodes", Run, [])] of
        [] -> lists:uniq([get(~"node", Series) || Series <- get(~"series", Run, [])]);
        Roles -> Roles
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
