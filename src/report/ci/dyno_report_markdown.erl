%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_report_markdown).
-moduledoc """
The recording as Markdown for a pull request: thresholds first, then the codes, the comparison or
the key figures, and what makes the numbers less believable.

Names are escaped, so that they neither format nor mention anybody nor link.
""".

-behaviour(dyno_report).

-export([format/2, format_error/1]).

-import(dyno_report_document, [get/2, get/3, measured/2, name/2]).

-type object() :: dyno_report_document:object().

-doc "The text in UTF-8.".
-spec format(dyno_report:document(), dyno_report:options()) -> {ok, iodata()}.
format(Document, _Options) ->
    Blocks = [
        heading(Document),
        failure(Document),
        thresholds(Document),
        changes(Document),
        codes(Document),
        concurrencies(Document),
        watched(Document),
        figures(Document),
        custom(Document),
        agents(Document),
        warnings(Document)
    ],
    {ok, dyno_report_text:encode(lists:join("\n", [Block || Block <- Blocks, Block =/= []]))}.

-doc "Never called: every document can be shown as Markdown.".
-spec format_error(term()) -> unicode:chardata().
format_error(Reason) ->
    io_lib:format("the recording cannot be shown as Markdown: ~tp", [Reason]).

-spec heading(object()) -> unicode:chardata().
heading(Document) ->
    Environment = get(~"environment", Document, #{}),
    Facts = [
        Text
     || Text <- [
            prefixed("OTP ", ~"otp", Environment),
            prefixed("", ~"cpu_model", Environment),
            prefixed("", ~"started_at", Document)
        ],
        Text =/= ""
    ],
    [
        ["### ", escape(name(~"name", Document)), ": ", escape(name(~"status", Document)), "\n"],
        [["\n", lists:join(", ", Facts), "\n"] || Facts =/= []]
    ].

-spec prefixed(string(), binary(), object()) -> unicode:chardata().
prefixed(Prefix, Key, Object) ->
    case get(Key, Object) of
        Text when is_binary(Text) -> [Prefix, escape(Text)];
        _ -> ""
    end.

-spec failure(object()) -> unicode:chardata().
failure(Document) ->
    case get(~"error", Document) of
        #{~"text" := Text} when is_binary(Text) -> ["**", escape(Text), "**\n"];
        _ -> []
    end.

-spec thresholds(object()) -> unicode:chardata().
thresholds(Document) ->
    Verdicts = get(~"verdicts", Document, []),
    Title =
        case lists:any(fun dyno_report_console_custom:is_invariant/1, Verdicts) of
            true -> "Thresholds and invariants";
            false -> "Thresholds"
        end,
    table(
        Title,
        [{"result", left}, {"threshold", left}, {"measured", left}],
        [
            [
                result(get(~"result", Verdict)),
                name(~"name", Verdict),
                dyno_report_document:judged(Verdict)
            ]
         || Verdict <- Verdicts
        ]
    ).

-spec result(json:decode_value()) -> binary().
result(~"pass") -> ~"pass";
result(~"fail") -> ~"FAIL";
result(_) -> ~"unknown".

-spec changes(object()) -> unicode:chardata().
changes(Document) ->
    Rows = rows(~"changes", [Document]),
    table(
        "Comparison",
        [
            {"item", left}, {"figure", left}, {"old", right}, {"new", right}, {"ratio", right},
            {"interval", right}, {"verdict", left}
        ],
        [
            [
                name(~"item", Row),
                name(~"figure", Row),
                measured(get(~"old", Row), unit(Row)),
                measured(get(~"new", Row), unit(Row)),
                ratio(get(~"ratio", Row)),
                interval(get(~"low", Row), get(~"high", Row)),
                name(~"verdict", Row)
            ]
         || Row <- Rows
        ]
    ).

-spec unit(object()) -> binary().
unit(Row) ->
    case get(~"unit", Row) of
        Unit when is_binary(Unit) -> Unit;
        _ -> ~"1"
    end.

-spec codes(object()) -> unicode:chardata().
codes(Document) ->
    Metric = get(~"metric", get(~"parameters", Document, #{}), ~"time"),
    Runs = get(~"runs", Document, []),
    %% Which input, or case, where there are several.
    Several = [{"run", left} || [_, _ | _] <- [Runs]],
    table(
        "Codes",
        Several ++ [
            {"code", left}, {"time per call", right}, {times_what(Metric), right},
            {"interval", right}, {"verdict", left}, {"reductions", right}, {"words", right}
            | decisive(Metric)
        ],
        [
            [name(~"id", Run) || _ <- Several] ++ [
                name(~"code", Row),
                measured(get(~"time_per_call", Row), ~"ns"),
                ratio(get(~"ratio", Row)),
                interval(get(~"ratio_low", Row), get(~"ratio_high", Row)),
                name(~"verdict", Row),
                measured(get(~"reductions_per_call", Row), ~"1"),
                measured(get(~"words_per_call", Row), ~"1")
                | [measured(get(~"value", Row), ~"1") || _ <- decisive(Metric)]
            ]
         || Run <- Runs, Row <- rows(~"codes", [Run])
        ]
    ).

%% A squeeze's.
-spec concurrencies(object()) -> unicode:chardata().
concurrencies(Document) ->
    table(
        "Concurrency",
        [
            {"workers", right}, {"throughput", right}, {"interval", right},
            {"time per call", right}, {"verdict", left}
        ],
        [
            [
                measured(get(~"concurrency", Row), ~"count"),
                measured(get(~"throughput", Row), ~"1/s"),
                range(get(~"low", Row), get(~"high", Row)),
                measured(get(~"time_per_call", Row), ~"ns"),
                curve_verdict(Row)
            ]
         || Row <- rows(~"concurrencies", get(~"runs", Document, []))
        ]
    ).

-spec curve_verdict(object()) -> binary().
curve_verdict(Row) ->
    case {get(~"verdict", Row), get(~"against", Row)} of
        {~"best", _} -> ~"best";
        {~"same", Than} when is_integer(Than) ->
            <<"no more than with ", (integer_to_binary(Than))/binary>>;
        {Verdict, _} -> text(Verdict)
    end.

%% Of a code that ran in several nodes at once.
-spec watched(object()) -> unicode:chardata().
watched(Document) ->
    table(
        "Nodes",
        [
            {"node", left}, {"workers", right}, {"throughput", right}, {"lowest to highest", right},
            {"samples", right}
        ],
        [
            [
                name(~"node", Row),
                measured(get(~"workers", Row), ~"count"),
                measured(get(~"throughput", Row), ~"1/s"),
                range(get(~"lowest", Row), get(~"highest", Row)),
                measured(get(~"samples", Row), ~"count")
            ]
         || Row <- rows(~"cluster", get(~"runs", Document, []))
        ]
    ).

-spec range(json:decode_value(), json:decode_value()) -> binary().
range(Low, High) when is_number(Low), is_number(High) ->
    <<(measured(Low, ~"1/s"))/binary, " to ", (measured(High, ~"1/s"))/binary>>;
range(_, _) ->
    ~"-".

%% In its column, where it has none of its own.
-spec decisive(binary()) -> [{string(), left | right}].
decisive(Metric) when Metric =:= ~"time"; Metric =:= ~"reductions"; Metric =:= ~"words" -> [];
decisive(Metric) -> [{binary_to_list(Metric), right}].

-spec times_what(binary()) -> string().
times_what(~"time") -> "times the fastest";
times_what(Metric) -> "times the least (" ++ binary_to_list(Metric) ++ ")".

-spec rows(binary(), [object()]) -> [object()].
rows(Name, Holders) ->
    [
        Row
     || Holder <- Holders,
        Table <- dyno_report_document:tables(Name, Holder),
        Row <- dyno_report_document:rows(Table)
    ].

%% A test's; a benchmark has its codes instead.
-spec figures(object()) -> unicode:chardata().
figures(#{~"command" := ~"bench"}) ->
    [];
figures(Document) ->
    Shown = [~"throughput", ~"latency.p50", ~"latency.p99", ~"errors.rate", ~"memory.total.max"],
    table(
        "Key figures",
        [{"run", left} | [{Name, right} || Name <- Shown]],
        [
            [name(~"id", Run) | [metric(Name, Run) || Name <- Shown]]
         || Run <- get(~"runs", Document, [])
        ]
    ).

-spec custom(object()) -> unicode:chardata().
custom(Document) ->
    table(
        "Metrics of the suite",
        [{"metric", left}, {"node", left}, {"run", left}, {"mean", right}, {"highest", right}],
        [
            [
                Name,
                text(Node),
                name(~"id", Run),
                measured(lists:sum(Values) / length(Values), Unit),
                measured(lists:max(Values), Unit)
            ]
         || {Name, Node, Run, Unit, Values} <-
                dyno_report_console_custom:metrics(get(~"runs", Document, []))
        ]
    ).

-spec agents(object()) -> unicode:chardata().
agents(Document) ->
    table(
        "Results of custom agents",
        [{"run", left}, {"node", left}, {"agent", left}, {"item", left}, {"value", left}],
        [
            [
                name(~"id", Run),
                text(get(~"node", Table)),
                name(~"agent", Row),
                name(~"item", Row),
                dyno_report_console_custom:value(Row)
            ]
         || Run <- get(~"runs", Document, []),
            Table <- dyno_report_document:tables(~"agents", Run),
            Row <- dyno_report_document:rows(Table)
        ]
    ).

-spec text(json:decode_value()) -> binary().
text(Text) when is_binary(Text) -> Text;
text(_) -> ~"".

-spec metric(binary(), object()) -> binary().
metric(Name, Run) ->
    case [Metric || #{~"name" := Of} = Metric <- get(~"metrics", Run, []), Of =:= Name] of
        [Metric | _] -> measured(get(~"value", Metric), get(~"unit", Metric, ~"1"));
        [] -> ~"-"
    end.

-spec ratio(json:decode_value()) -> binary().
ratio(Value) when is_number(Value) -> float_to_binary(float(Value), [{decimals, 3}]);
ratio(_) -> ~"-".

-spec interval(json:decode_value(), json:decode_value()) -> binary().
interval(Low, High) when is_number(Low), is_number(High) ->
    <<(ratio(Low))/binary, " to ", (ratio(High))/binary>>;
interval(_, _) ->
    ~"-".

-spec warnings(object()) -> unicode:chardata().
warnings(Document) ->
    Holders = [Document | get(~"runs", Document, [])],
    case lists:append([get(~"warnings", Of, []) || Of <- Holders]) of
        [] -> [];
        Notes -> ["Warnings\n\n", [["- ", escape(name(~"text", Note)), "\n"] || Note <- Notes]]
    end.

-spec table(string(), [{unicode:chardata(), left | right}], [[binary()]]) -> unicode:chardata().
table(_Title, _Columns, []) ->
    [];
table(Title, Columns, Rows) ->
    [
        ["**", Title, "**\n\n"],
        line([Name || {Name, _} <- Columns]),
        line([rule(Alignment) || {_, Alignment} <- Columns]),
        [line([escape(Cell) || Cell <- Row]) || Row <- Rows]
    ].

-spec line([unicode:chardata()]) -> unicode:chardata().
line(Cells) ->
    ["| ", lists:join(" | ", Cells), " |\n"].

-spec rule(left | right) -> string().
rule(left) -> ":--";
rule(right) -> "--:".

%% `@` and `#` as entities: behind a backslash they would still mention a person or an issue.
-spec escape(binary()) -> unicode:chardata().
escape(Text) ->
    Characters = [escaped(C) || C <- unicode:characters_to_list(dyno_report_text:clean(Text))],
    %% What looks like an address would become a link.
    string:replace(unicode:characters_to_binary(Characters), "://", "&#58;//", all).

-spec escaped(char()) -> unicode:chardata() | char().
escaped($<) -> "&lt;";
escaped($>) -> "&gt;";
escaped($&) -> "&amp;";
escaped($@) -> "&#64;";
escaped($#) -> "&#35;";
escaped(Char) when
    Char =:= $\\; Char =:= $`; Char =:= $*; Char =:= $_; Char =:= ${; Char =:= $}; Char =:= $[;
    Char =:= $]; Char =:= $|; Char =:= $~; Char =:= $$
->
    [$\\, Char];
escaped(Char) ->
    Char.
