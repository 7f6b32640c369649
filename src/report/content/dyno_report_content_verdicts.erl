%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_report_content_verdicts).
-moduledoc false.
%% The demands and their outcomes: a table for each kind of verdict, and a summary.

-export([sections/1, conclusion/1]).

-import(dyno_report_document, [get/2, get/3, measured/2, name/2, text/3, threshold/1]).

-type section() :: dyno_report_section:section().

-spec sections(dyno_report:document()) -> [section()].
sections(Document) ->
    Verdicts = get(~"verdicts", Document, []),
    lists:append([
        section(Kind, [Verdict || Verdict <- Verdicts, kind(Verdict) =:= Kind], Document)
     || Kind <- lists:uniq([kind(Verdict) || Verdict <- Verdicts])
    ]).

%% Verdicts of findings are called checks.
kind(Verdict) ->
    case text(~"kind", Verdict, ~"threshold") of
        ~"finding" -> ~"check";
        Kind -> Kind
    end.

section(Kind, Verdicts, Document) ->
    Columns = [
        {Title, Look, fun(Row) -> map_get(Key, Row) end}
     || {Key, Title, Look} <- [
            {result, ~"result", word},
            {name, Kind, name},
            {measured, ~"measured", optional},
            {run, dyno_report_document:run_title(Document), optional},
            {text, ~"", sentence}
        ]
    ],
    Rows = lists:append([rows(Of) || Of <- by_name(Verdicts)]),
    %% Without a value, or with a subject that the table does not name, they need their text.
    Reasons = [
        <<(name(~"name", V))/binary, ": ", (text(~"text", V, ~"not evaluated"))/binary>>
     || #{~"result" := Result} = V <- Verdicts,
        threshold(V) =/= #{},
        %% Without a run the error above says all; a comparison has none.
        Kind =:= ~"change" orelse dyno_recording:runs(Document) =/= [],
        Result =:= ~"unknown" orelse (Result =:= ~"fail" andalso Kind =:= ~"change")
    ],
    dyno_report_section:table(title(Kind), Columns, Rows) ++
        dyno_report_section:text(none, Reasons).

%% A change passes if it did not happen.
title(~"change") -> ~"Unwanted changes";
title(Kind) -> string:titlecase(several(Kind)).

several(~"") ->
    ~"";
several(Noun) ->
    case binary:last(Noun) of
        $y -> <<(binary:part(Noun, 0, byte_size(Noun) - 1))/binary, "ies">>;
        _ -> <<Noun/binary, "s">>
    end.

by_name(Verdicts) ->
    [
        [Verdict || Verdict <- Verdicts, get(~"name", Verdict) =:= Name]
     || Name <- lists:uniq([get(~"name", Verdict) || Verdict <- Verdicts])
    ].

%% A demand that holds in every run has one row: the run closest to the limit.
rows(Verdicts) ->
    case length(Verdicts) > 1 andalso worst(Verdicts) =:= ~"pass" of
        true -> [closest(Verdicts)];
        false -> lists:map(fun row/1, Verdicts)
    end.

closest([First | _] = Verdicts) ->
    Count = integer_to_binary(length(Verdicts)),
    Distances = [
        {abs(Limit - Value), Verdict}
     || #{~"threshold" := #{~"limit" := Limit, ~"value" := Value}} = Verdict <- Verdicts,
        is_number(Value)
    ],
    case lists:keysort(1, Distances) of
        [{_, Closest} | _] ->
            #{run := Run} = Row = row(Closest),
            Row#{run := <<"worst of ", Count/binary, ", at ", Run/binary>>};
        [] ->
            (row(First))#{measured := ~"", run := <<"all ", Count/binary>>, text := ~""}
    end.

row(Verdict) ->
    Threshold = threshold(Verdict),
    Text =
        case map_size(Threshold) of
            0 -> text(~"text", Verdict, ~"");
            _ -> ~""
        end,
    #{
        result => dyno_report_section:word(get(~"result", Verdict, ~"unknown")),
        name => name(~"name", Verdict),
        measured => <<
            (bound(get(~"bound", Threshold)))/binary,
            (measured(get(~"value", Threshold), text(~"unit", Threshold, ~"1")))/binary
        >>,
        run => text(~"run", Verdict, ~"all"),
        text => Text
    }.

bound(~"at_least") -> ~"> ";
bound(~"at_most") -> ~"< ";
bound(_) -> ~"".

-doc "The outcome: a styled word, and a sentence.".
-spec conclusion(dyno_report:document()) -> {dyno_report_style:style(), binary(), binary()}.
conclusion(Document) ->
    Verdicts = get(~"verdicts", Document, []),
    Results = [worst(Of) || Of <- by_name(Verdicts)],
    Failed = length([fail || ~"fail" <- Results]),
    Unknown = length([Result || Result <- Results, Result =/= ~"fail", Result =/= ~"pass"]),
    case get(~"status", Document) of
        ~"failed" ->
            Error = get(~"error", Document, #{}),
            {bad, ~"COULD NOT FINISH",
                iolist_to_binary([
                    text(~"text", Error, ~"the recording does not say why"),
                    [["; ", plural(Failed, noun(Verdicts)), " had failed by then"] || Failed > 0]
                ])};
        ~"interrupted" ->
            {doubtful, ~"INTERRUPTED",
                iolist_to_binary([
                    case dyno_recording:runs(Document) ++ get(~"tables", Document, []) of
                        [] -> "before there was anything to keep";
                        _ -> "the measurement until then is kept"
                    end,
                    [["; ", plural(Failed, noun(Verdicts)), " had failed by then"] || Failed > 0]
                ])};
        ~"partial" ->
            Written = ~"still being written, or dyno died before its end",
            {doubtful, ~"PARTIAL",
                iolist_to_binary([
                    text(~"text", get(~"error", Document, #{}), Written),
                    [["; ", plural(Failed, noun(Verdicts)), " had failed by then"] || Failed > 0]
                ])};
        _ ->
            ending(length(Results), Failed, Unknown, noun(Verdicts))
    end.

worst(Verdicts) ->
    Results = [text(~"result", Verdict, ~"unknown") || Verdict <- Verdicts],
    case lists:usort(Results) of
        [~"pass"] -> ~"pass";
        Others -> hd([~"fail" || lists:member(~"fail", Others)] ++ [~"unknown"])
    end.

noun(Verdicts) ->
    case lists:usort([kind(Verdict) || Verdict <- Verdicts]) of
        [Kind] -> Kind;
        _ -> ~"demand"
    end.

ending(0, _, _, _) ->
    {good, ~"DONE", ~"no thresholds were set"};
ending(_, 0, 0, ~"change") ->
    {good, ~"PASSED", ~"nothing changed that must not"};
ending(1, 0, 0, Noun) ->
    {good, ~"PASSED", <<"the ", Noun/binary, " holds">>};
ending(All, 0, 0, Noun) ->
    {good, ~"PASSED", <<"all ", (plural(All, Noun))/binary, " hold">>};
%% An unseen property is no violation.
ending(All, 0, Unknown, ~"property") ->
    Text = "~b of ~ts could not be decided; none was broken",
    {doubtful, ~"UNDECIDED", dyno_recording_part:text(Text, [Unknown, plural(All, ~"property")])};
ending(All, Failed, Unknown, ~"change") when Failed > 0 ->
    Others = [[", and ", integer_to_binary(Unknown), " could not be evaluated"] || Unknown > 0],
    Of = plural(All, ~"unwanted change"),
    {bad, ~"FAILED", dyno_recording_part:text("~b of ~ts happened~ts", [Failed, Of, Others])};
ending(All, Failed, Unknown, Noun) ->
    Of = [" of ", plural(All, Noun)],
    Text =
        case {integer_to_binary(Failed), integer_to_binary(Unknown)} of
            {~"0", U} -> [U, Of, " could not be evaluated, so the test does not pass"];
            {F, ~"0"} -> [F, Of, " did not hold"];
            {F, U} -> [F, Of, " did not hold, and ", U, " could not be evaluated"]
        end,
    {bad, ~"FAILED", iolist_to_binary(Text)}.

plural(1, Noun) -> <<"1 ", Noun/binary>>;
plural(N, Noun) -> <<(integer_to_binary(N))/binary, " ", (several(Noun))/binary>>.
