%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_report_doctor).
-moduledoc "`dyno doctor` on the console: findings, checks, unknown values, and its cost.".

-export([format/2]).

-define(WIDTH, 100).
%% Of the schedulers.
-define(BUSY, 0.3).

-doc "The text, in lines of the given width.".
-spec format(dyno_recording:document(), dyno_report:options()) -> iolist().
format(#{~"runs" := Runs, ~"name" := Name} = Document, #{width := Given} = Look) ->
    Width = min(?WIDTH, Given),
    Findings = dyno_report_findings:shown(Document),
    Verdicts = [V || #{~"kind" := ~"finding"} = V <- maps:get(~"verdicts", Document, [])],
    Shown = [
        dyno_report_section:lines(Section, Look#{width := Width})
     || Section <- dyno_report_section:findings(none, Findings, length(Findings))
    ],
    [
        [Name, ": ", counted(Findings, Runs, seen(Document)), $\n],
        [["\n", [[Line, $\n] || Line <- Lines]] || Lines <- Shown],
        ["\n", looked_at(Findings, Verdicts, Width)],
        unknown(Runs, Width),
        [
            lines(["Error: ", Text], Width)
         || #{~"text" := Text} <- [maps:get(~"error", Document, null)]
        ],
        cost(Runs, Width)
    ].

%% Without looks.
seen(#{~"parameters" := #{~"dump" := _}}) -> {"nothing is found", ", from a crash dump"};
seen(#{~"parameters" := #{~"code" := _}}) -> {"nothing is found", ", from compiled code"};
seen(_Document) -> {"nothing is known", ", seen from outside"}.

counted(Findings, Runs, {Nothing, From}) ->
    Count = fun(Severity) ->
        length([F || #{severity := S} = F <- Findings, S =:= Severity])
    end,
    Parts = [
        several(N, Word)
     || {Severity, Word} <- [
            {critical, "critical finding"}, {warning, "warning"}, {doubt, "doubt"}, {note, "note"}
        ],
        N <- [Count(Severity)],
        N > 0
    ],
    Looks = length([
        1
     || #{~"events" := #{~"items" := Items}} <- Runs, #{~"kind" := ~"look"} <- Items
    ]),
    Text =
        case Parts of
            [] when Looks < 2 -> Nothing;
            [] -> "nothing found";
            _ -> lists:join(", ", Parts)
        end,
    case Looks of
        0 when Parts =:= [] -> Text;
        0 -> [Text, From];
        _ -> [Text, io_lib:format(" (~b looks in ~ts)", [Looks, span(Runs)])]
    end.

several(1, Word) -> ["1 ", Word];
several(N, Word) -> [integer_to_binary(N), " ", Word, "s"].

span(Runs) ->
    dyno_unit:format(
        lists:max([0 | [Ns || #{~"duration_ns" := Ns} <- Runs, is_number(Ns)]]), ~"ns", 2
    ).

looked_at(Findings, Verdicts, Width) ->
    Known = [Title || #{~"name" := Title, ~"result" := Is} <- Verdicts, Is =/= ~"unknown"],
    Titles = lists:uniq(Known),
    Text =
        case {Findings, Titles} of
            {_, []} ->
                [];
            {[], _} ->
                [
                    "Nothing found in this time; if the trouble comes and goes, use --watch. "
                    "Looked at: ",
                    lists:join(", ", Titles),
                    "."
                ];
            {_, [~"the node from outside"]} ->
                "The inside of the node could not be looked at.";
            {_, [_]} ->
                [];
            _ ->
                [
                    "Of ",
                    integer_to_binary(length(Titles)),
                    " checks no other passed its limit in this time."
                ]
        end,
    lines(Text, Width).

lines(Text, Width) ->
    [[Line, $\n] || Line <- dyno_report_text:wrap(unicode:characters_to_binary(Text), Width)].

%% On a busy node the time of waiting for answers counts, too.
how_surely(Runs) ->
    Busy = [
        Share
     || #{~"events" := #{~"items" := Items}} <- Runs,
        #{~"data" := #{~"values" := #{~"vm.scheduler_utilisation.normal" := Share}}} <- Items,
        is_number(Share)
    ],
    case lists:any(fun(Share) -> Share > ?BUSY end, Busy) of
        true -> ~"at most";
        false -> ~"about"
    end.

unknown(Runs, Width) ->
    Texts = lists:uniq([
        Text
     || #{~"warnings" := Of} <- Runs, #{~"code" := ~"not_known", ~"text" := Text} <- Of
    ]),
    [lines(["Not known: ", lists:join("; ", Texts), "."], Width) || Texts =/= []].

cost(Runs, Width) ->
    Value = fun(Name) ->
        [
            Ns
         || Run <- Runs,
            {ok, #{~"value" := Ns}} <- [dyno_recording:metric(Run, Name)],
            is_number(Ns)
        ]
    end,
    Duration = lists:sum([Ns || #{~"duration_ns" := Ns} <- Runs, is_number(Ns)]),
    Text =
        case {Value(~"instrument.looking"), Value(~"instrument.visit")} of
            {[Looking], Visit} when Duration > 0 ->
                io_lib:format(
                    "Looking took ~ts ~ts, ~ts of one scheduler~ts.",
                    [
                        how_surely(Runs),
                        dyno_unit:format(Looking, ~"ns"),
                        dyno_unit:format(Looking / Duration, ~"ratio"),
                        [[", attaching and leaving ", dyno_unit:format(Ns, ~"ns")] || Ns <- Visit]
                    ]
                );
            _ ->
                ""
        end,
    lines(Text, Width).
