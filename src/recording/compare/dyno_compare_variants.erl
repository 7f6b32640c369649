%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_compare_variants).
-moduledoc """
Compares variants of the same codes in one recording: two revisions of a project, other emulator
flags, other Erlangs (m:dyno_bench_isolated). The first variant is the old one. Pure.

Variants are measured in pairs, in groups of fresh VMs. The deciding metric has the interval of the
pairs, narrower than that of two recordings, and needs no second measurement.
""".

-export([changes/2]).

-doc "The changes from the first variant to each other, by the code's label.".
-spec changes(dyno_recording:document(), dyno_compare:options()) ->
    {ok, [dyno_compare:change(), ...]} | {error, nothing_in_common}.
changes(Document, Options) ->
    case labels(Document) of
        [First | [_ | _] = Others] ->
            Old = only(First, Document),
            Found = lists:append([
                changed(Old, {First, Other, length(Others)}, Document, Options)
             || Other <- Others
            ]),
            case Found of
                [] -> {error, nothing_in_common};
                _ -> {ok, Found}
            end;
        _ ->
            {error, nothing_in_common}
    end.

labels(#{~"parameters" := #{~"isolated" := #{~"variants" := Variants}}}) ->
    [Label || #{~"label" := Label} <- Variants, is_binary(Label), Label =/= ~""];
labels(_Document) ->
    [].

changed(Old, {First, Other, Count}, Document, Options) ->
    Changes = dyno_compare:changes({Old, only(Other, Document)}, Options),
    Pairs = pairs({First, Other}, Document),
    [with_variant(decided(Change, Pairs), Other, Count) || Change <- Changes].

with_variant(Change, _Other, 1) ->
    Change;
with_variant(#{item := Item} = Change, Other, _) ->
    Change#{item := <<Item/binary, " [", Other/binary, "]">>}.

only(Label, #{~"runs" := Runs} = Document) ->
    Document#{~"runs" := [of_run(Label, Run) || Run <- Runs]}.

of_run(Label, #{~"series" := Series, ~"tables" := Tables} = Run) ->
    Run#{
        ~"series" := [
            S#{~"labels" := Labels#{~"code" := Code}}
         || #{~"labels" := #{~"code" := Of} = Labels} = S <- Series, {ok, Code} <- [base(Of, Label)]
        ],
        ~"tables" := [of_table(Label, Table) || #{~"name" := ~"codes"} = Table <- Tables]
    }.

%% The code's label is the first column.
of_table(Label, #{~"rows" := Rows} = Table) ->
    Table#{~"rows" := [[Code | Row] || [Of | Row] <- Rows, {ok, Code} <- [base(Of, Label)]]}.

base(Code, Label) ->
    Suffix = <<" [", Label/binary, "]">>,
    Length = byte_size(Code) - byte_size(Suffix),
    case Code of
        <<Base:Length/binary, Suffix/binary>> when Length > 0 -> {ok, Base};
        _ -> none
    end.

pairs({First, Other}, #{~"parameters" := Parameters, ~"runs" := Runs}) ->
    Metric = maps:get(~"metric", Parameters, ~"time"),
    maps:from_list([
        {
            {dyno_compare_metrics:code(Base, Run, length(Runs)), Metric},
            #{
                ratio => number(Ratio),
                low => number(Low),
                high => number(High),
                verdict => word(Verdict),
                values => values(Base, {First, Other}, Run)
            }
        }
     || Run <- Runs,
        #{~"rows" := Rows} <- dyno_recording:tables(Run, ~"comparisons"),
        [New, Old, Ratio, Low, High, Verdict] <- Rows,
        {ok, Base} <- [base(New, Other)],
        {ok, Base} =:= base(Old, First)
    ]).

%% The medians of the deciding metric, if other than the time.
values(Base, {First, Other}, Run) ->
    [
        dyno_stats:median([V || V <- Values, is_number(V)])
     || Label <- [First, Other],
        #{~"labels" := #{~"code" := Code}, ~"values" := Values} <-
            dyno_recording:series(Run, ~"bench.value"),
        {ok, Base} =:= base(Code, Label)
    ].

number(Value) when is_number(Value) -> float(Value);
number(_) -> undefined.

%% Too few samples for a verdict.
word(null) -> undecided;
word(Verdict) -> binary_to_existing_atom(Verdict).

decided(#{item := Item, metric := Metric} = Change, Pairs) ->
    case Pairs of
        #{{Item, Metric} := #{values := Values} = Pair} ->
            by_value(Values, maps:merge(Change, maps:remove(values, Pair)));
        #{} ->
            Change
    end.

%% Totals of all processes are never quite equal: use the verdict.
by_value([Old, New], #{metric := Metric} = Change) when
    Metric =:= ~"messages"; Metric =:= ~"whole"
->
    Change#{kind := amount, old := Old, new := New};
by_value([Old, New], Change) ->
    Change#{old := Old, new := New};
by_value(_, Change) ->
    Change.
