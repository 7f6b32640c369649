%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_report_console_clocks).
-moduledoc """
The console report's section about the targets' clocks: a line for each node whose clock is
ahead or behind by more than what that may be off by, and by a millisecond at least.
""".

-export([section/2]).

-import(dyno_report_document, [get/3, measured/2, name/2]).

-type object() :: dyno_report_document:object().

%% Times of samples are whole milliseconds.
-define(LEAST_NS, 1_000_000).

-doc "The section's lines; none where all clocks agree.".
-spec section(dyno_report:document(), dyno_report:options()) -> [iodata()].
section(Document, #{colour := Colour, width := Width, top := Top}) ->
    Ahead = [
        {name(~"name", Node), Text}
     || Run <- get(~"runs", Document, []),
        Node <- get(~"nodes", Run, []),
        Text <- ahead(Node)
    ],
    %% Of a node that was there in several runs the last one's.
    Last = maps:from_list(Ahead),
    Lines = [
        ["  ", Line]
     || Name <- lists:sublist(lists:uniq([Name || {Name, _} <- Ahead]), Top),
        Line <- dyno_report_text:wrap(
            <<Name/binary, ": ", (map_get(Name, Last))/binary>>, max(20, Width - 2)
        )
    ],
    case Lines of
        [] ->
            [];
        _ ->
            Title = ~"Clocks of the targets, against dyno's",
            [dyno_report_style:paint(Colour, title, Title) | Lines]
    end.

-spec ahead(object()) -> [binary()].
ahead(#{~"clock_offset_ns" := Ns, ~"clock_error_ns" := Error}) when
    is_number(Ns), is_number(Error), abs(Ns) > Error, abs(Ns) >= ?LEAST_NS
->
    [
        iolist_to_binary([
            measured(abs(Ns), ~"ns"), direction(Ns), " (+/- ", measured(Error, ~"ns"), ")"
        ])
    ];
ahead(_Node) ->
    [].

-spec direction(number()) -> string().
direction(Ns) when Ns > 0 -> " ahead";
direction(_Ns) -> " behind".
