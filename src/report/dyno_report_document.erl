%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_report_document).
-moduledoc "Reads fields of a recording for reports; absent and `null` are the same here.".

%% Fields
-export([get/2, get/3, text/3, name/2, title/1, measured/2, imprecise/3, factor/1]).
%% Verdicts
-export([threshold/1, verdicts/1]).
%% Runs
-export([run_title/1, place/2, places/2, metric/2, metric_value/2, values/3, nodes/1]).
%% Tables
-export([unit/2]).

-export_type([object/0, row/0, judged/0]).

-type object() :: #{binary() => json:decode_value()}.

-type row() :: object().

-define(ALL, 0.995).

-type judged() :: {unicode:chardata(), pass | fail | error, unicode:chardata()}.

-doc "A field, or `null`.".
-spec get(binary(), object()) -> json:decode_value() | null.
get(Key, Object) ->
    maps:get(Key, Object, null).

-doc "A field, or the default if absent or `null`.".
-spec get(binary(), object(), Default) -> json:decode_value() | Default.
get(Key, Object, Default) ->
    case Object of
        #{Key := null} -> Default;
        #{Key := Value} -> Value;
        #{} -> Default
    end.

-doc "A field as one line of safe text.".
-spec text(binary(), object(), binary()) -> binary().
text(Key, Object, Default) ->
    case get(Key, Object) of
        Text when is_binary(Text) -> dyno_text:clean(Text);
        Number when is_integer(Number) -> integer_to_binary(Number);
        _ -> Default
    end.

-doc "A name as safe text; `-` if absent.".
-spec name(binary(), object()) -> binary().
name(Key, Object) ->
    text(Key, Object, ~"-").

-doc "A number with its unit, readable; `-` if unknown.".
-spec measured(json:decode_value() | null, binary()) -> binary().
measured(Value, Unit) when is_number(Value) ->
    dyno_text:clean(dyno_unit:format(Value, Unit));
measured(_, _Unit) ->
    ~"-".

-doc "A share of this interval by its only telling end: `-` for none to all.".
-spec imprecise(number(), number(), fun((number()) -> binary())) -> binary().
imprecise(_Low, High, Show) when High < ?ALL -> <<"< ", (Show(High))/binary>>;
imprecise(Low, _High, Show) when Low > 1 - ?ALL -> <<"> ", (Show(Low))/binary>>;
imprecise(_Low, _High, _Show) -> ~"-".

-doc "A factor with its significant digits; empty if unknown.".
-spec factor(json:decode_value()) -> binary().
factor(Value) when is_number(Value), abs(Value) >= 100 -> decimals(Value, 0);
factor(Value) when is_number(Value), abs(Value) >= 10 -> decimals(Value, 1);
factor(Value) when is_number(Value), abs(Value) < 2 -> decimals(Value, 3);
factor(Value) when is_number(Value) -> decimals(Value, 2);
factor(_) -> ~"".

decimals(Value, Decimals) when abs(Value) < 1.0e15 ->
    float_to_binary(float(Value), [{decimals, Decimals}]);
decimals(Value, _Decimals) ->
    measured(Value, ~"1").

-doc "The limit and measured value of a verdict; empty if the verdict has none.".
-spec threshold(object()) -> object().
threshold(Verdict) ->
    get(~"threshold", Verdict, #{}).

-doc "A recording's decisions for CI: completed, then the verdicts; without a value an error.".
-spec verdicts(object()) -> [judged(), ...].
verdicts(Document) ->
    Verdicts = get(~"verdicts", Document, []),
    Named = [{name(~"name", V), get(~"run", V)} || V <- Verdicts],
    [
        completed(Document)
        | [
            {
                [name(~"name", Verdict), run(Run, Node)],
                outcome(get(~"result", Verdict)),
                text(~"text", Verdict, ~"")
            }
         || Verdict <- Verdicts,
            Run <- [get(~"run", Verdict)],
            %% Only to tell two nodes apart: CI systems know a test by its name.
            Node <- [
                case length([Same || Same <- Named, Same =:= {name(~"name", Verdict), Run}]) of
                    1 -> null;
                    _ -> get(~"node", Verdict)
                end
            ]
        ]
    ].

completed(Document) ->
    case get(~"status", Document) of
        ~"complete" -> {"completed", pass, ""};
        _ -> {"completed", error, incomplete(Document)}
    end.

incomplete(Document) ->
    Status = name(~"status", Document),
    case get(~"error", Document) of
        #{~"text" := Text} when is_binary(Text) -> [Status, ": ", Text];
        _ -> ["the recording is ", Status, ", not complete"]
    end.

run(Id, Node) when is_binary(Id), is_binary(Node) -> [" (run ", Id, ", ", Node, ")"];
run(Id, _) when is_binary(Id) -> [" (run ", Id, ")"];
run(_, _) -> "".

outcome(~"pass") -> pass;
outcome(~"fail") -> fail;
outcome(_) -> error.

size_label(Document) ->
    text(~"size_label", get(~"parameters", Document, #{}), ~"size").

-doc "The title of a column that names runs.".
-spec run_title(object()) -> binary().
run_title(Document) ->
    case [Size || #{~"size" := Size} <- dyno_recording:runs(Document), is_number(Size)] of
        [] -> ~"run";
        _ -> size_label(Document)
    end.

-doc "A run in a heading: `16 clients`, `size 16`, or its id if there is no size.".
-spec place(object(), object()) -> binary().
place(Run, Document) ->
    Id = name(~"id", Run),
    case get(~"size", Run) of
        null -> Id;
        _ -> dyno_recording_run:place(size_label(Document), Id)
    end.

-doc "A run in a list; empty if it is the only run.".
-spec places(object(), object()) -> [binary()].
places(Run, Document) ->
    [place(Run, Document) || [_, _ | _] <- [dyno_recording:runs(Document)]].

-doc "A part's title or name.".
-spec title(object()) -> binary().
title(Part) ->
    text(~"title", Part, name(~"name", Part)).

-doc "A run's metric, or `null`.".
-spec metric(binary(), object()) -> object() | null.
metric(Name, Run) ->
    case dyno_recording:metric(Run, Name) of
        {ok, Metric} -> Metric;
        error -> null
    end.

-doc "The value of a run's metric, or `null`.".
-spec metric_value(binary(), object()) -> number() | null.
metric_value(Name, Run) ->
    case metric(Name, Run) of
        #{~"value" := Value} when is_number(Value) -> Value;
        _ -> null
    end.

-doc "The values of a series of a run and node in the measured part, without `null`s.".
-spec values(binary(), binary() | null, object()) -> [number()].
values(Name, Node, Run) ->
    [
        Value
     || #{~"node" := Of, ~"times_ms" := Times, ~"values" := Values} <-
            dyno_recording:series(Run, Name),
        Of =:= Node,
        {Time, Value} <- lists:zip(Times, Values),
        is_number(Value),
        Time >= 0
    ].

-doc "A run's nodes, in order; of its series if the run lists none.".
-spec nodes(object()) -> [binary() | null].
nodes(Run) ->
    case [get(~"role", Node, get(~"name", Node)) || Node <- get(~"nodes", Run, [])] of
        [] -> lists:uniq([get(~"node", Series) || Series <- get(~"series", Run, [])]);
        Roles -> Roles
    end.

-doc "The unit of a value: from the column, or the row's column `unit`.".
-spec unit(Column :: object(), row()) -> binary() | null.
unit(#{~"unit" := null, ~"role" := Role}, Row) when Role =/= ~"key", Role =/= ~"note" ->
    get(~"unit", Row);
unit(#{~"unit" := Unit}, _Row) ->
    Unit.
