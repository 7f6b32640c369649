%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_report_findings).
-moduledoc false.
%% The findings of a recording in every report: problems first; doubts and notes come last.

-export([shown/1, first/2, others/2, sentence/1, json/1]).
-export_type([shown/0]).

-import(dyno_report_document, [get/3, name/2, place/2]).

-type shown() :: #{
    severity := dyno_finding:severity(),
    text := binary(),
    lines := [{Label :: binary(), binary()}]
}.

-define(FEW, 5).
-define(FEW_OTHERS, 3).

-doc "All findings, the worst first; equal findings of several runs are merged.".
-spec shown(dyno_report:document()) -> [shown()].
shown(Document) ->
    Told = of_document(Document) ++ of_runs(dyno_recording:runs(Document), Document),
    Ranked = dyno_finding:ranked_with(Told),
    %% A certain finding is no longer a doubt.
    Sure = [Check || {_, #{severity := critical, check := Check}} <- Ranked],
    [
        in_words(Place, Finding)
     || {Place, #{severity := Severity, check := Check} = Finding} <- Ranked,
        Severity =/= doubt orelse not lists:member(Check, Sure)
    ].

of_document(Document) ->
    [{~"", Finding} || {_, Finding} <- dyno_finding:read(Document)].

%% Without sizes only nodes tell runs apart.
of_runs([#{~"size" := null} = Run], _Document) ->
    Several = length(get(~"nodes", Run, [])) > 1,
    [
        {iolist_to_binary([[Node, ": "] || Several, is_binary(Node)]), Finding}
     || {Node, Finding} <- dyno_finding:read(Run)
    ];
of_runs(Runs, Document) ->
    All = [
        {{Check, Subject, Node}, Run, Finding}
     || Run <- Runs,
        {Node, #{check := Check, subject := Subject} = Finding} <- dyno_finding:read(Run)
    ],
    [
        {
            <<"at ", (place(Last, Document))/binary, (and_at(lists:droplast(Of)))/binary, ": ">>,
            Finding
        }
     || Key <- lists:uniq([Key || {Key, _, _} <- All]),
        Same <- [[{Run, Finding} || {K, Run, Finding} <- All, K =:= Key]],
        Of <- [lists:uniq([Run || {Run, _} <- Same])],
        %% With the text of the last.
        {Last, Finding} <- [lists:last(Same)]
    ].

and_at([]) ->
    ~"";
and_at(Runs) ->
    iolist_to_binary([
        " (and much the same at ", lists:join(", ", [name(~"id", Run) || Run <- Runs]), ")"
    ]).

in_words(Place, #{severity := Severity, text := Text} = Finding) ->
    #{evidence := Evidence, why := Why, advice := Advice, look_closer := Command} = Finding,
    Lines = [{~"", Evidence}, {limit(Finding), Why}, {~"Do", Advice}, {~"Look closer", Command}],
    #{
        severity => Severity,
        text => <<Place/binary, Text/binary>>,
        lines => [Line || {_, Words} = Line <- Lines, Words =/= ~""]
    }.

%% If once is too often, the number adds nothing.
limit(#{limit := Limit, unit := ~"1"}) when is_number(Limit), Limit > 1 ->
    <<"Limit ", (dyno_unit:format(Limit, ~"1"))/binary, " times">>;
limit(#{limit := Limit, unit := Unit}) when is_number(Limit), Limit =/= 1 ->
    <<"Limit ", (dyno_unit:format(Limit, Unit))/binary>>;
limit(_Finding) ->
    ~"Why".

-spec first(dyno_report:document(), dyno_report:options()) -> [dyno_report_section:section()].
first(Document, Options) ->
    case of_severities([critical, warning], Document) of
        [] -> none(Document);
        Findings -> section(~"Findings", Findings, ?FEW, Options)
    end.

-spec others(dyno_report:document(), dyno_report:options()) -> [dyno_report_section:section()].
others(Document, Options) ->
    section(~"Doubts and notes", of_severities([doubt, note], Document), ?FEW_OTHERS, Options).

of_severities(Severities, Document) ->
    [F || #{severity := Severity} = F <- shown(Document), lists:member(Severity, Severities)].

section(Title, Findings, _Few, #{full := true}) ->
    dyno_report_section:findings(Title, Findings, length(Findings));
section(Title, Findings, Few, _Answer) ->
    Brief = brief(lists:sublist(Findings, Few), []),
    dyno_report_section:findings(Title, Brief, length(Findings)).

%% All of what is critical; of others the advice, once.
brief([#{severity := critical} = Finding | Rest], Said) ->
    [Finding | brief(Rest, Said)];
brief([#{lines := Lines} = Finding | Rest], Said) ->
    Do = [Line || {Of, _} = Line <- Lines, Of =:= ~"Do" orelse Of =:= ~"Look closer"] -- Said,
    [Finding#{lines := Do} | brief(Rest, Do ++ Said)];
brief([], _Said) ->
    [].

none(Document) ->
    Text = ~"None: responses take hardly longer with the size, and nothing is at its limit.",
    Looked = [
        Name
     || Name <- [~"findings", ~"saturation"], _ <- dyno_recording:tables(Document, Name)
    ],
    case dyno_sizes:runs(Document) of
        [_, _ | _] when Looked =/= [] -> dyno_report_section:text(~"Findings", [Text]);
        _ -> []
    end.

-doc "A finding in one line, with advice.".
-spec sentence(shown()) -> binary().
sentence(#{text := Text, lines := Lines}) ->
    iolist_to_binary([stopped(Text), [[" ", Advice] || {~"Do", Advice} <- Lines]]).

stopped(Text) ->
    case binary:last(<<".", Text/binary>>) of
        $. -> Text;
        _ -> <<Text/binary, ".">>
    end.

-doc "The findings for the page.".
-spec json(dyno_report:document()) -> json:encode_value().
json(Document) ->
    [
        F#{lines := [[Label, Text] || {Label, Text} <- Lines]}
     || #{lines := Lines} = F <- shown(Document)
    ].
