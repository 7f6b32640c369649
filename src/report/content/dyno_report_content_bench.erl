%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_report_content_bench).
-moduledoc "A benchmark's codes, the fastest first, codes by inputs, a search's throughput.".

-export([codes/1, concurrency/1]).

-import(dyno_report_document, [factor/1, get/2, get/3, measured/2, name/2]).

-type section() :: dyno_report_section:section().

%% With more codes, only the table shows the verdicts.
-define(MOST_SENTENCES, 3).
%% Numbers with a smaller relative difference are alike.
-define(ALIKE, 0.0005).
%% A larger gain would have been noticed.
-define(CLEAR, 1.2).
%% A smaller gain is not worth more workers: dyno_bench_concurrency_search.
-define(WORTH, 1.05).

-doc "The codes by time, and by inputs.".
-spec codes(dyno_report:document()) -> [section()].
codes(Document) ->
    Parameters = get(~"parameters", Document, #{}),
    Metric = dyno_report_document:text(~"metric", Parameters, ~"time"),
    PerSecond =
        case get(~"concurrency", Parameters, 1) of
            1 -> ~"per second";
            _ -> ~"per second, all"
        end,
    Tables = [
        {name(~"id", Run), Rows}
     || Run <- dyno_recording:runs(Document),
        [_ | _] = Rows <- [dyno_recording:rows(Run, ~"codes")]
    ],
    Codes = lists:append([
        codes(title(Id, Tables), {Metric, PerSecond}, Rows) ++
            dyno_report_section:text(none, words(Rows, Metric, Document))
     || {Id, Rows} <- Tables
    ]),
    Codes ++ inputs(Metric, Document).

title(_Id, [_]) -> ~"Codes";
title(Id, _Tables) -> <<"Codes: ", Id/binary>>.

%% Codes

%% The deciding value stands next to the code, only once.
codes(Title, {Metric, PerSecond}, Rows) ->
    Code = {~"code", name, fun(Row) -> name(~"code", Row) end},
    dyno_report_section:table(Title, [Code | columns(Metric, PerSecond, Rows)], Rows).

columns(Metric, PerSecond, Rows) ->
    Decisive = {called(Metric), number, fun(Row) -> value(Metric, get(~"value", Row)) end},
    Time = [
        {~"time", number, fun(Row) -> measured(get(~"time_per_call", Row), ~"ns") end},
        {~"95 % interval", optional, fun(Row) ->
            interval(fun(Ns) -> measured(Ns, ~"ns") end, get(~"low", Row), get(~"high", Row))
        end}
    ],
    Rate = {PerSecond, number, fun(Row) -> measured(get(~"calls_per_second", Row), ~"1/s") end},
    Ratio = [
        {~"times", number, fun(Row) -> factor(get(~"ratio", Row)) end},
        {~"interval", number, fun between_factors/1},
        {~"verdict", word, fun(Row) -> dyno_report_section:word(get(~"verdict", Row)) end}
    ],
    Others = [
        {Title, Look, fun(Row) -> measured(get(Name, Row), ~"1") end}
     || {Of, Title, Look, Name} <- [
            %% After time, readers first ask for memory.
            {~"words", ~"words", look(~"words_per_call", Rows), ~"words_per_call"},
            {~"reductions", ~"reductions", optional, ~"reductions_per_call"},
            {~"whole", ~"of all processes", optional, ~"whole_reductions_per_call"},
            {~"messages", ~"messages", optional, ~"messages_per_call"},
            {~"spawned", ~"spawned", optional, ~"spawned_per_call"}
        ],
        Of =/= Metric
    ],
    case Metric of
        ~"time" -> Time ++ [Rate] ++ Ratio ++ Others;
        _ -> [Decisive] ++ Ratio ++ Time ++ Others
    end.

%% A column in which codes differ stays on narrow terminals.
look(Name, Rows) ->
    Values = [Value || #{Name := Value} <- Rows, is_number(Value)],
    case Values =/= [] andalso lists:max(Values) - lists:min(Values) > ?ALIKE * lists:max(Values) of
        true -> number;
        false -> optional
    end.

called(~"wall") -> ~"wall-clock time";
called(~"cpu") -> ~"CPU time";
called(~"gc") -> ~"collections";
called(~"whole") -> ~"all reductions";
called(Metric) -> Metric.

value(Metric, Value) when Metric =:= ~"wall"; Metric =:= ~"cpu"; Metric =:= ~"time" ->
    measured(Value, ~"ns");
value(~"memory", Value) ->
    measured(Value, ~"B");
value(_, Value) ->
    measured(Value, ~"1").

between_factors(Row) ->
    interval(
        fun dyno_report_document:factor/1, get(~"ratio_low", Row), get(~"ratio_high", Row)
    ).

interval(Show, Low, High) when is_number(Low), is_number(High) ->
    <<(Show(Low))/binary, " .. ", (Show(High))/binary>>;
interval(_Show, _Low, _High) ->
    ~"".

words([First | _] = Rows, Metric, Document) ->
    %% Not the first if its time does not show its work.
    Fastest = hd([Row || Row <- Rows, get(~"verdict", Row) =:= reference(Metric)] ++ [First]),
    Others = Rows -- [Fastest],
    Threshold = get(~"threshold", get(~"parameters", Document, #{})),
    [
        sentence(Row, {name(~"code", Fastest), Metric}, Threshold)
     || Row <- lists:sublist(Others, ?MOST_SENTENCES)
    ].

reference(Metric) when Metric =:= ~"time"; Metric =:= ~"wall"; Metric =:= ~"cpu" -> ~"fastest";
reference(_Metric) -> ~"least".

sentence(Row, {Fastest, Metric}, Threshold) ->
    Code = name(~"code", Row),
    Interval = between_factors(Row),
    Shown = [[" (", Interval, ")"] || Interval =/= ~""],
    Text =
        case get(~"verdict", Row) of
            Verdict when Verdict =:= ~"slower"; Verdict =:= ~"more" ->
                [Code, " ", much(Metric, get(~"ratio", Row)), Fastest, Shown, "."];
            ~"same" ->
                io_lib:format(
                    "No difference ~tsthat matters (~ts) between ~ts and ~ts~ts.",
                    [
                        [["of ", called(Metric), " "] || Metric =/= ~"time"],
                        measured(Threshold, ~"ratio"),
                        Code,
                        Fastest,
                        Shown
                    ]
                );
            ~"unknown" ->
                io_lib:format(
                    "It is not known whether ~ts and ~ts differ: the doubts say why.",
                    [Code, Fastest]
                );
            _ when Interval =:= ~"" ->
                ["Too few samples to say whether ", Code, " and ", Fastest, " differ."];
            _ ->
                ["It is not decided yet whether ", Code, " and ", Fastest, " differ", Shown, "."]
        end,
    dyno_report_text:encode(Text).

much(Metric, Ratio) when is_number(Ratio) ->
    {Verb, Quantity} = wording(Metric),
    [Verb, " ", factor(Ratio), " times as ", Quantity, " as "];
much(Metric, _FromNone) ->
    {Verb, _} = wording(Metric),
    [Verb, " ", called(Metric), ", unlike "].

wording(~"time") ->
    {"takes", "long"};
wording(~"words") ->
    {"allocates", "many words"};
wording(~"gc") ->
    {"makes", "many collections"};
wording(~"messages") ->
    {"sends", "many messages"};
wording(~"whole") ->
    {"causes", "many reductions in all"};
wording(Metric) when Metric =:= ~"wall"; Metric =:= ~"cpu"; Metric =:= ~"memory" ->
    {"takes", ["much ", called(Metric)]};
wording(Metric) ->
    {"takes", ["many ", called(Metric)]}.

inputs(Metric, Document) ->
    Runs = dyno_recording:runs(Document),
    lists:append([
        matrix(Case, [Run || Run <- Runs, label(~"case", Run) =:= Case], Metric)
     || Case <- lists:uniq([label(~"case", Run) || Run <- Runs])
    ]).

label(Name, Run) ->
    dyno_report_document:text(Name, get(~"labels", Run, #{}), ~"").

matrix(_Case, [_], _Metric) ->
    [];
matrix(Case, Runs, Metric) ->
    Inputs = [
        {label(~"input", Run), dyno_recording:rows(Run, ~"codes")}
     || Run <- Runs
    ],
    [{_, First} | _] = Inputs,
    Columns = [
        {~"code", name, fun(Row) -> name(~"code", Row) end}
        | [
            {Input, number, fun(Row) -> cell(get(~"code", Row), Codes, Metric) end}
         || {Input, Codes} <- Inputs
        ]
    ],
    Least =
        case Metric of
            ~"time" -> ~"fastest";
            _ -> ~"least"
        end,
    What = <<(called(Metric))/binary, " per call, and times the ", Least/binary, ", by input">>,
    Title =
        case Case of
            ~"" -> string:titlecase(What);
            Name -> <<Name/binary, ": ", What/binary>>
        end,
    dyno_report_section:table(Title, Columns, First).

cell(Code, Rows, Metric) ->
    case [Row || #{~"code" := C} = Row <- Rows, C =:= Code] of
        [Row | _] when Metric =:= ~"time" ->
            judged(measured(get(~"time_per_call", Row), ~"ns"), Row);
        [Row | _] ->
            judged(value(Metric, get(~"value", Row)), Row);
        [] ->
            ~"-"
    end.

judged(Value, Row) ->
    case {get(~"verdict", Row), get(~"ratio", Row)} of
        {Worse, Ratio} when is_number(Ratio), (Worse =:= ~"slower" orelse Worse =:= ~"more") ->
            Times = float_to_binary(float(Ratio), [{decimals, 2}]),
            {bad, <<Value/binary, " (", Times/binary, ")">>};
        {~"undecided", _} ->
            {doubtful, <<Value/binary, " (not decided)">>};
        {~"same", _} ->
            <<Value/binary, " (same)">>;
        {_, _} ->
            Value
    end.

-doc "The throughput's limit in a search for the best concurrency, in words.".
-spec concurrency(dyno_report:document()) -> [section()].
concurrency(Document) ->
    Rows = dyno_report_content_tables:rows(~"concurrencies", Document),
    Best = [Row || #{~"verdict" := ~"best"} = Row <- Rows],
    dyno_report_section:text(none, [best(Row, Rows, Document) || Row <- Best]).

%% Another number of workers may give more: the most likely one.
unsure(Rows, Workers) ->
    Possible = [
        {Ratio, Row}
     || #{~"concurrency" := C, ~"verdict" := ~"undecided", ~"ratio" := Ratio} = Row <- Rows,
        C > Workers,
        is_number(Ratio),
        Ratio > ?WORTH
    ],
    element(2, lists:max([{0, none} | Possible])).

best(Best, Rows, Document) ->
    Workers = get(~"concurrency", Best),
    More = [C || #{~"concurrency" := C} <- Rows, is_integer(C), C > Workers],
    Rate = measured(get(~"throughput", Best), ~"1/s"),
    Unsure = unsure(Rows, Workers),
    Status = get(~"status", Document),
    Text =
        case More of
            _ when Unsure =/= none ->
                io_lib:format(
                    "~ts~ts~ts for sure; ~ts give more, not surely: ~ts times as much (~ts). "
                    "Longer samples (-d) or more of them (-s) would tell.",
                    [
                        workers(Workers),
                        give(Workers),
                        Rate,
                        measured(get(~"concurrency", Unsure), ~"count"),
                        factor(get(~"ratio", Unsure)),
                        between_factors(Unsure)
                    ]
                );
            _ when Status =:= ~"interrupted" ->
                io_lib:format(
                    "It was interrupted. Until then the throughput was highest with ~ts: "
                    "~ts.~ts",
                    [workers(Workers), Rate, unjudged(Best, Rows)]
                );
            [] ->
                io_lib:format(
                    "The throughput is highest with ~ts, the most that were tried: ~ts. It may "
                    "rise further; give a higher --max.",
                    [workers(Workers), Rate]
                );
            _ ->
                io_lib:format(
                    "It saturates at ~ts: ~ts. With ~ts it was not shown to be higher.~ts",
                    [workers(Workers), Rate, listed(More), doubt(Rows, Workers)]
                )
        end,
    dyno_report_text:encode([Text, fewer(Rows, Workers, get(~"throughput", Best))]).

unjudged(#{~"concurrency" := Workers, ~"throughput" := Throughput}, Rows) ->
    [
        [" ", measured(C, ~"count"), " gave ", measured(Of, ~"1/s"), ", not compared yet."]
     || #{~"concurrency" := C, ~"throughput" := Of} = Row <- Rows,
        C > Workers,
        get(~"verdict", Row) =:= null,
        is_number(Of),
        Of > Throughput
    ].

fewer(Rows, Workers, Throughput) ->
    Possible = [
        {Of, C}
     || #{~"concurrency" := C, ~"verdict" := ~"undecided", ~"throughput" := Of} <- Rows,
        C < Workers,
        is_number(Of),
        is_number(Throughput),
        Of > Throughput
    ],
    [
        io_lib:format(
            " ~ts may give more, not surely: ~ts; longer samples (-d) or more of them (-s) "
            "would tell.",
            [measured(C, ~"count"), measured(Most, ~"1/s")]
        )
     || [_ | _] <- [Possible], {Most, C} <- [lists:max(Possible)]
    ].

doubt(Rows, Workers) ->
    Possible = [
        High
     || #{~"concurrency" := C, ~"ratio_high" := High} <- Rows, C > Workers, is_number(High)
    ],
    case lists:max([0 | Possible]) > ?CLEAR of
        true ->
            ~" The intervals are wide: longer samples (-d) or more of them (-s) would tell more.";
        false ->
            ~""
    end.

give(1) -> ~" gives ";
give(_) -> ~" give ".

workers(1) -> ~"1 worker";
workers(N) -> <<(measured(N, ~"count"))/binary, " workers">>.

listed(Numbers) when length(Numbers) > 6 ->
    [integer_to_binary(hd(Numbers)), " to ", integer_to_binary(lists:last(Numbers))];
listed(Numbers) ->
    lists:join(", ", [integer_to_binary(N) || N <- Numbers]).
