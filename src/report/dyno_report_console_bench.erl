%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_report_console_bench).
-moduledoc """
The console report's sections about a benchmark: the codes, the fastest first, and what that means
in words.
""".

-compile(warn_missing_spec_all).

-export([sections/2]).

-import(dyno_report_document, [get/2, get/3, measured/2]).

-type object() :: dyno_report_document:object().
-type options() :: dyno_report:options().

-doc "The sections' lines; none where the recording is no benchmark's.".
-spec sections(dyno_report:document(), dyno_report:options()) -> [[iodata()]].
sections(Document, Options) ->
    Tables = [
        {dyno_report_document:name(~"id", Run), dyno_report_document:rows(Table)}
     || Run <- get(~"runs", Document, []),
        is_map(Run),
        Table <- dyno_report_document:tables(~"codes", Run)
    ],
    case Tables of
        [] ->
            dyno_report_console_curve:sections(Document, Options);
        [{_, Rows}] ->
            [codes(~"Codes", Rows, Options), words(Rows, Document, Options)] ++
                dyno_report_console_curve:sections(Document, Options);
        _ ->
            lists:append([
                [codes(<<"Codes: ", Id/binary>>, Rows, Options), words(Rows, Document, Options)]
             || {Id, Rows} <- Tables
            ]) ++ dyno_report_console_inputs:sections(Document, Options)
    end.

-spec codes(binary(), [object()], options()) -> [iodata()].
codes(Title, Rows, Options) ->
    Columns = [
        #{title => ~"code", align => left, fit => flexible},
        #{title => ~"time", align => right},
        #{title => ~"95 % interval", align => right, fit => optional},
        #{title => ~"per second", align => right},
        #{title => ~"times", align => right},
        #{title => ~"interval", align => right},
        #{title => ~"verdict", align => left},
        #{title => ~"reductions", align => right, fit => optional},
        #{title => ~"words", align => right, fit => optional}
    ],
    Cells = [
        [
            dyno_report_document:name(~"code", Row),
            time(get(~"time_per_call", Row)),
            interval(fun time/1, get(~"low", Row), get(~"high", Row)),
            measured(get(~"calls_per_second", Row), ~"1/s"),
            factor(get(~"ratio", Row)),
            interval(fun factor/1, get(~"ratio_low", Row), get(~"ratio_high", Row)),
            verdict(get(~"verdict", Row)),
            measured(get(~"reductions_per_call", Row), ~"1"),
            measured(get(~"words_per_call", Row), ~"1")
        ]
     || Row <- Rows
    ],
    dyno_report_console_runs:section(Title, Columns, Cells, length(Cells), Options).

%% A call's time is a time.
-spec time(json:decode_value()) -> binary().
time(Ns) -> measured(Ns, ~"ns").

-spec factor(json:decode_value()) -> binary().
factor(Value) when is_number(Value), Value >= 100 -> decimals(Value, 0);
factor(Value) when is_number(Value), Value >= 10 -> decimals(Value, 1);
factor(Value) when is_number(Value), Value < 2 -> decimals(Value, 3);
factor(Value) when is_number(Value) -> decimals(Value, 2);
factor(_) -> ~"".

-spec decimals(number(), 0..3) -> binary().
decimals(Value, Decimals) ->
    float_to_binary(float(Value), [{decimals, Decimals}]).

-spec interval(fun((json:decode_value()) -> binary()), json:decode_value(), json:decode_value()) ->
    binary().
interval(Show, Low, High) when is_number(Low), is_number(High) ->
    <<(Show(Low))/binary, " .. ", (Show(High))/binary>>;
interval(_Show, _Low, _High) ->
    ~"".

-spec verdict(json:decode_value()) -> dyno_report_table:cell().
verdict(~"slower") -> {bad, ~"slower"};
verdict(~"undecided") -> {doubtful, ~"not decided"};
verdict(~"fastest") -> ~"";
verdict(Verdict) when is_binary(Verdict) -> dyno_report_text:clean(Verdict);
verdict(_) -> ~"".

-spec words([object()], object(), options()) -> [iodata()].
words([_], _Document, _Options) ->
    [];
words(Rows, Document, #{width := Width}) ->
    [Fastest | Others] = [Row || Row <- Rows],
    Name = dyno_report_document:name(~"code", Fastest),
    Threshold = get(~"threshold", get(~"parameters", Document, #{})),
    lists:append([
        dyno_report_text:wrap(sentence(Row, Name, Threshold), Width)
     || Row <- Others
    ]).

-spec sentence(object(), binary(), json:decode_value()) -> binary().
sentence(Row, Fastest, Threshold) ->
    Code = dyno_report_document:name(~"code", Row),
    Interval = interval(fun factor/1, get(~"ratio_low", Row), get(~"ratio_high", Row)),
    Text =
        case get(~"verdict", Row) of
            ~"slower" ->
                [Code, " takes ", factor(get(~"ratio", Row)), " times as long as ", Fastest,
                    " (", Interval, ")."];
            ~"same" ->
                ["No difference that matters (", measured(Threshold, ~"ratio"), ") between ", Code,
                    " and ", Fastest, " (", Interval, ")."];
            _ when Interval =:= ~"" ->
                ["Too few rounds to say whether ", Code, " and ", Fastest, " differ."];
            _ ->
                ["It is not decided yet whether ", Code, " and ", Fastest, " differ (", Interval, ")."]
        end,
    iolist_to_binary(Text).
