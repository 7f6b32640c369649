%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_report_console_clocks).
-moduledoc """
The console report's section about the targets' clocks: a line for each node whose clock says
something, which is more than what it may be off by, and than a millisecond.
""".

-export([section/2]).

-import(dyno_report_document, [get/2, get/3, measured/2, name/2]).

-type object() :: dyno_report_document:object().

%% Times of samples are whole milliseconds.
-define(LEAST_NS, 1_000_000).

-doc "The section's lines; none where all clocks agree.".
-spec section(dyno_report:document(), dyno_report:options()) -> [iodata()].
section(Document, #{colour := Colour, width := Width, top := Top}) ->
    Said = [
        {name(~"name", Node), Parts}
     || Run <- get(~"runs", Document, []),
        Node <- get(~"nodes", Run, []),
        Parts <- [ahead(Node) ++ fast(Node, get(~"duration_ns", Run))],
        Parts =/= []
    ],
    %% Of a node that was there in several runs the last one's.
    Nodes = lists:uniq([Name || {Name, _} <- Said]),
    Last = maps:from_list(Said),
    case [<<Name/binary, ": ", (joined(map_get(Name, Last)))/binary>> || Name <- Nodes] of
        [] ->
            [];
        Texts ->
            [
                dyno_report_style:paint(Colour, title, ~"Clocks of the targets, against dyno's")
                | [
                    ["  ", Line]
                 || Text <- lists:sublist(Texts, Top),
                    Line <- dyno_report_text:wrap(Text, max(20, Width - 2))
                ]
            ]
    end.

-spec joined([binary()]) -> binary().
joined(Parts) ->
    iolist_to_binary(lists:join("; ", Parts)).

-spec ahead(object()) -> [binary()].
ahead(#{~"clock_offset_ns" := Ns, ~"clock_error_ns" := Error}) when
    is_number(Ns), is_number(Error), abs(Ns) > Error, abs(Ns) >= ?LEAST_NS
->
    [
        iolist_to_binary([
            measured(abs(Ns), ~"ns"), direction(Ns, " ahead", " behind"),
            " (+/- ", measured(Error, ~"ns"), ")"
        ])
    ];
ahead(_Node) ->
    [].

-spec fast(object(), json:decode_value()) -> [binary()].
fast(#{~"clock_drift_ppm" := Ppm, ~"clock_drift_error_ppm" := Error}, DurationNs) when
    is_number(Ppm), is_number(Error), is_number(DurationNs), abs(Ppm) > Error,
    abs(Ppm) * DurationNs >= ?LEAST_NS * 1.0e6
->
    [
        iolist_to_binary([
            direction(Ppm, "fast", "slow"), " by ", millionths(abs(Ppm)), " ppm (+/- ",
            millionths(Error), " ppm): corrected by ",
            measured(abs(Ppm) * DurationNs / 1.0e6, ~"ns")
        ])
    ];
fast(_Node, _DurationNs) ->
    [].

-spec direction(number(), string(), string()) -> string().
direction(Value, More, _Less) when Value > 0 -> More;
direction(_Value, _More, Less) -> Less.

-spec millionths(number()) -> binary().
millionths(Ppm) when Ppm >= 100 -> integer_to_binary(round(Ppm));
millionths(Ppm) -> float_to_binary(float(Ppm), [{decimals, 1}]).
