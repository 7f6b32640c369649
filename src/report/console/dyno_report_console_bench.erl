%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_report_console_bench).
-moduledoc """
The console report's sections about a benchmark: the codes, the fastest first, and what that means
in words.
""".

-export([sections/2]).

-import(dyno_report_document, [get/2, get/3, measured/2]).

-type object() :: dyno_report_document:object().
-type options() :: dyno_report:options().

-doc "The sections' lines; none where the recording is no benchmark's.".
-spec sections(dyno_report:document(), dyno_report:options()) -> [[iodata()]].
sections(Document, Options) ->
    Metric = dyno_report_document:text(
        ~"metric", get(~"parameters", Document, #{}), ~"time"
    ),
    Tables = [
        {dyno_report_document:name(~"id", Run), dyno_report_document:rows(Table), Run}
     || Run <- get(~"runs", Document, []),
        is_map(Run),
        Table <- dyno_report_document:tables(~"codes", Run)
    ],
    case Tables of
        [] ->
            dyno_report_console_curve:sections(Document, Options) ++
                dyno_report_console_cluster:sections(Document, Options);
        [{_, Rows, Run}] ->
            [codes({~"Codes", Metric}, Rows, Options), words({Rows, Metric}, Document, Options)] ++
                dyno_report_console_extras:sections(Run, Options) ++
                dyno_report_console_curve:sections(Document, Options);
        _ ->
            lists:append([
                [
                    codes({<<"Codes: ", Id/binary>>, Metric}, Rows, Options),
                    words({Rows, Metric}, Document, Options)
                    | dyno_report_console_extras:sections(Run, Options)
                ]
             || {Id, Rows, Run} <- Tables
            ]) ++ dyno_report_console_inputs:sections(Document, decisive(Metric), Options)
    end.

-spec decisive(binary()) -> {binary(), binary(), fun((object()) -> binary())}.
decisive(~"time") ->
    {~"time", ~"fastest", fun(Row) -> time(get(~"time_per_call", Row)) end};
decisive(Metric) ->
    {title(Metric), ~"least", fun(Row) -> value(Metric, get(~"value", Row)) end}.

%% What decides stands next to the code, and only once.
-spec codes({Title :: binary(), Metric :: binary()}, [object()], options()) -> [iodata()].
codes({Title, Metric}, Rows, Options) ->
    Shown = [Column || {Name, _, _} = Column <- columns(Metric, Rows), Name =/= Metric],
    Columns = [#{title => ~"code", align => left, fit => flexible} | [C || {_, C, _} <- Shown]],
    Cells = [
        [dyno_report_document:name(~"code", Row) | [Show(Row) || {_, _, Show} <- Shown]]
     || Row <- Rows
    ],
    dyno_report_console_runs:section(Title, Columns, Cells, length(Cells), Options).

-spec columns(binary(), [object()]) ->
    [{binary() | none, dyno_report_table:column(), fun((object()) -> dyno_report_table:cell())}].
columns(Metric, Rows) ->
    Right = fun(Title) -> #{title => Title, align => right} end,
    Optional = fun(Title) -> #{title => Title, align => right, fit => optional} end,
    Plain = fun(Name) -> fun(Row) -> measured(get(Name, Row), ~"1") end end,
    Decisive = [
        {none, Right(title(Metric)), fun(Row) -> value(Metric, get(~"value", Row)) end}
     || Metric =/= ~"time"
    ],
    Time = [
        {none, Right(~"time"), fun(Row) -> time(get(~"time_per_call", Row)) end},
        {none, Optional(~"95 % interval"), fun(Row) ->
            interval(fun time/1, get(~"low", Row), get(~"high", Row))
        end}
    ],
    Rate = [
        {none, Right(~"per second"), fun(Row) ->
            measured(get(~"calls_per_second", Row), ~"1/s")
        end}
    ],
    Ratio = [
        {none, Right(~"times"), fun(Row) -> factor(get(~"ratio", Row)) end},
        {none, Right(~"interval"), fun(Row) ->
            interval(fun factor/1, get(~"ratio_low", Row), get(~"ratio_high", Row))
        end},
        {none, #{title => ~"verdict", align => left}, fun(Row) -> verdict(get(~"verdict", Row)) end}
    ],
    Exact = [
        {~"reductions", Optional(~"reductions"), Plain(~"reductions_per_call")},
        {~"words", Optional(~"words"), Plain(~"words_per_call")}
    ],
    Whole = [
        {Of, Optional(Title), Plain(Name)}
     || {Of, Title, Name} <- [
            {~"whole", ~"of all processes", ~"whole_reductions_per_call"},
            {~"messages", ~"messages", ~"messages_per_call"},
            {~"spawned", ~"spawned", ~"spawned_per_call"}
        ],
        lists:any(fun(Row) -> is_number(get(Name, Row)) end, Rows)
    ],
    case Decisive of
        [] -> Time ++ Rate ++ Ratio ++ Exact ++ Whole;
        _ -> Decisive ++ Ratio ++ Time ++ Exact ++ Whole
    end.

-spec title(binary()) -> binary().
title(~"wall") -> ~"wall-clock time";
title(~"cpu") -> ~"CPU time";
title(~"gc") -> ~"collections";
title(~"whole") -> ~"all reductions";
title(Metric) -> Metric.

-spec value(binary(), json:decode_value()) -> binary().
value(Metric, Value) when Metric =:= ~"wall"; Metric =:= ~"cpu" -> time(Value);
value(~"memory", Value) -> measured(Value, ~"B");
value(_, Value) -> measured(Value, ~"1").

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
verdict(~"more") -> {bad, ~"more"};
verdict(~"least") -> ~"";
verdict(~"undecided") -> {doubtful, ~"not decided"};
verdict(~"fastest") -> ~"";
verdict(Verdict) when is_binary(Verdict) -> dyno_report_text:clean(Verdict);
verdict(_) -> ~"".

-spec words({[object()], Metric :: binary()}, object(), options()) -> [iodata()].
words({[_], _Metric}, _Document, _Options) ->
    [];
words({Rows, Metric}, Document, #{width := Width}) ->
    [Fastest | Others] = [Row || Row <- Rows],
    Name = dyno_report_document:name(~"code", Fastest),
    Threshold = get(~"threshold", get(~"parameters", Document, #{})),
    lists:append([
        dyno_report_text:wrap(sentence(Row, {Name, Metric}, Threshold), Width)
     || Row <- Others
    ]).

-spec sentence(object(), {binary(), Metric :: binary()}, json:decode_value()) -> binary().
sentence(Row, {Fastest, Metric}, Threshold) ->
    Code = dyno_report_document:name(~"code", Row),
    Interval = interval(fun factor/1, get(~"ratio_low", Row), get(~"ratio_high", Row)),
    Text =
        case get(~"verdict", Row) of
            Verdict when Verdict =:= ~"slower"; Verdict =:= ~"more" ->
                [Code, much(Metric, get(~"ratio", Row)), Fastest, shown(Interval), "."];
            ~"same" ->
                ["No difference ", in_metric(Metric), "that matters (",
                    measured(Threshold, ~"ratio"), ") between ", Code, " and ", Fastest,
                    shown(Interval), "."];
            _ when Interval =:= ~"" ->
                ["Too few samples to say whether ", Code, " and ", Fastest, " differ."];
            _ ->
                ["It is not decided yet whether ", Code, " and ", Fastest, " differ (", Interval,
                    ")."]
        end,
    iolist_to_binary(Text).

-spec shown(binary()) -> iolist().
shown(~"") -> "";
shown(Interval) -> [" (", Interval, ")"].

-spec in_metric(binary()) -> iolist().
in_metric(~"time") -> "";
in_metric(Metric) -> ["of ", title(Metric), " "].

-spec much(binary(), json:decode_value()) -> iolist().
much(Metric, Ratio) when is_number(Ratio) ->
    [" ", verb(Metric), " ", factor(Ratio), " times as ", quantity(Metric), " as "];
much(Metric, _FromNone) ->
    [" ", verb(Metric), " ", title(Metric), ", unlike "].

-spec verb(binary()) -> string().
verb(~"words") -> "allocates";
verb(~"gc") -> "makes";
verb(~"messages") -> "sends";
verb(~"whole") -> "causes";
verb(_) -> "takes".

-spec quantity(binary()) -> iolist().
quantity(~"time") -> "long";
quantity(Metric) when Metric =:= ~"wall"; Metric =:= ~"cpu"; Metric =:= ~"memory" ->
    ["much ", title(Metric)];
quantity(~"whole") ->
    "many reductions in all";
quantity(Metric) ->
    ["many ", title(Metric)].
