%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_report_console_changes).
-moduledoc """
The console report's section about a comparison of two recordings: each figure before and now.
""".

-export([section/2]).

-import(dyno_report_document, [get/2, get/3, measured/2, name/2]).

-doc "The section's lines; none where the document compares nothing.".
-spec section(dyno_report:document(), dyno_report:options()) -> [iodata()].
section(Document, Options) ->
    Columns = [
        #{title => ~"of", align => left, fit => flexible},
        #{title => ~"figure", align => left},
        #{title => ~"old", align => right},
        #{title => ~"new", align => right},
        #{title => ~"ratio", align => right},
        #{title => ~"interval", align => right, fit => optional},
        #{title => ~"verdict", align => left}
    ],
    Cells = [
        [
            name(~"item", Row),
            name(~"figure", Row),
            measured(get(~"old", Row), get(~"unit", Row, ~"1")),
            measured(get(~"new", Row), get(~"unit", Row, ~"1")),
            ratio(get(~"ratio", Row)),
            interval(get(~"low", Row), get(~"high", Row)),
            verdict(name(~"verdict", Row))
        ]
     || Table <- dyno_report_document:tables(~"changes", Document),
        Row <- dyno_report_document:rows(Table)
    ],
    dyno_report_console_runs:section(~"Comparison", Columns, Cells, length(Cells), Options).

-spec ratio(json:decode_value()) -> binary().
ratio(Value) when is_number(Value) -> float_to_binary(float(Value), [{decimals, 3}]);
ratio(_) -> ~"-".

-spec interval(json:decode_value(), json:decode_value()) -> binary().
interval(Low, High) when is_number(Low), is_number(High) ->
    <<(ratio(Low))/binary, " .. ", (ratio(High))/binary>>;
interval(_, _) ->
    ~"".

-spec verdict(binary()) -> dyno_report_table:cell().
verdict(~"slower") -> {bad, ~"slower"};
verdict(~"more") -> {bad, ~"more"};
verdict(~"undecided") -> {doubtful, ~"not decided"};
verdict(Other) -> Other.
