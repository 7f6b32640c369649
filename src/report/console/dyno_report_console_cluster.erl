%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_report_console_cluster).
-moduledoc """
The console report's section about a code that ran in several nodes at once: what each did, and all.
""".

-export([sections/2]).

-import(dyno_report_document, [get/2, get/3, measured/2]).

-doc "The section's lines; none where the recording has no such run.".
-spec sections(dyno_report:document(), dyno_report:options()) -> [[iodata()]].
sections(Document, Options) ->
    [
        section(dyno_report_document:rows(Table), Options)
     || Run <- get(~"runs", Document, []),
        is_map(Run),
        Table <- dyno_report_document:tables(~"cluster", Run)
    ].

-spec section([dyno_report_document:object()], dyno_report:options()) -> [iodata()].
section(Rows, Options) ->
    Columns = [
        #{title => ~"node", align => left, fit => flexible},
        #{title => ~"workers", align => right},
        #{title => ~"throughput", align => right},
        #{title => ~"lowest .. highest", align => right},
        #{title => ~"samples", align => right}
    ],
    Cells = [
        [
            dyno_report_document:name(~"node", Row),
            measured(get(~"workers", Row), ~"count"),
            measured(get(~"throughput", Row), ~"1/s"),
            range(get(~"lowest", Row), get(~"highest", Row)),
            measured(get(~"samples", Row), ~"count")
        ]
     || Row <- Rows
    ],
    dyno_report_console_runs:section(~"Nodes", Columns, Cells, length(Cells), Options).

-spec range(json:decode_value(), json:decode_value()) -> binary().
range(Low, High) when is_number(Low), is_number(High) ->
    <<(measured(Low, ~"1/s"))/binary, " .. ", (measured(High, ~"1/s"))/binary>>;
range(_Low, _High) ->
    ~"".
