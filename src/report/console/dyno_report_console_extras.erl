%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_report_console_extras).
-moduledoc """
The console report's sections about what a benchmark measured besides: the processes that the codes
make work, and the functions that take the time.
""".

-export([sections/2]).

-import(dyno_report_document, [get/2, measured/2]).

-type object() :: dyno_report_document:object().
-type options() :: dyno_report:options().

-doc "A table for each code that has the figures.".
-spec sections(object(), options()) -> [[iodata()]].
sections(Run, Options) ->
    by_code(~"whole", Run, fun(Code, Rows) -> whole(Code, Rows, Options) end) ++
        by_code(~"profile", Run, fun(Code, Rows) -> profile(Code, Rows, Options) end).

-spec by_code(binary(), object(), fun((binary(), [object()]) -> [iodata()])) -> [[iodata()]].
by_code(Name, Run, Show) ->
    Rows = lists:append([
        dyno_report_document:rows(Table)
     || Table <- dyno_report_document:tables(Name, Run)
    ]),
    [
        Show(Code, [Row || Row <- Rows, get(~"code", Row) =:= Code])
     || Code <- lists:uniq([get(~"code", Row) || Row <- Rows]), is_binary(Code)
    ].

-spec whole(binary(), [object()], options()) -> [iodata()].
whole(Code, Rows, #{top := Top} = Options) ->
    Columns = [
        #{title => ~"process", align => left, fit => flexible},
        #{title => ~"", align => left},
        #{title => ~"reductions", align => right},
        #{title => ~"messages", align => right},
        #{title => ~"runs for, traced", align => right, fit => optional},
        #{title => ~"memory", align => right, fit => optional}
    ],
    Cells = [
        [
            dyno_report_document:name(~"process", Row),
            how_many(get(~"kind", Row), get(~"count", Row)),
            or_dash(get(~"reductions_per_call", Row), ~"1"),
            or_dash(get(~"messages_per_call", Row), ~"1"),
            or_dash(get(~"own_time_per_call", Row), ~"ns"),
            or_dash(get(~"memory", Row), ~"B")
        ]
     || Row <- lists:sublist(Rows, Top)
    ],
    Title = <<"Other processes' work, for a call of ", (dyno_report_text:clean(Code))/binary>>,
    dyno_report_console_runs:section(Title, Columns, Cells, length(Rows), Options).

-spec how_many(json:decode_value(), json:decode_value()) -> binary().
how_many(~"spawned", Count) -> <<(measured(Count, ~"1"))/binary, " spawned">>;
how_many(_, Count) when is_number(Count), Count > 1 ->
    <<(measured(Count, ~"1"))/binary, " of them">>;
how_many(_, _) -> ~"".

-spec or_dash(json:decode_value(), binary()) -> binary().
or_dash(Value, Unit) when is_number(Value) -> measured(Value, Unit);
or_dash(_, _) -> ~"-".

-spec profile(binary(), [object()], options()) -> [iodata()].
profile(Code, Rows, #{top := Top} = Options) ->
    Columns = [
        #{title => ~"function", align => left, fit => flexible},
        #{title => ~"calls", align => right},
        #{title => ~"own time, traced", align => right},
        #{title => ~"share", align => right},
        #{title => ~"of the samples", align => right}
    ],
    Cells = [
        [
            dyno_report_document:name(~"function", Row),
            measured(get(~"calls_per_call", Row), ~"1"),
            measured(get(~"own_time_per_call", Row), ~"ns"),
            measured(get(~"share", Row), ~"ratio"),
            or_dash(get(~"sampled", Row), ~"ratio")
        ]
     || Row <- lists:sublist(Rows, Top)
    ],
    Title = <<"Functions in a call of ", (dyno_report_text:clean(Code))/binary>>,
    dyno_report_console_runs:section(Title, Columns, Cells, length(Rows), Options).
