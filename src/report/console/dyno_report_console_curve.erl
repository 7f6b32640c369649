%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_report_console_curve).
-moduledoc """
The console report's section about a search for the best concurrency: the curve as a table with
bars, and in words where it ends to rise.
""".

-export([sections/2]).

-import(dyno_report_document, [get/2, get/3, measured/2]).

-type object() :: dyno_report_document:object().
-type options() :: dyno_report:options().

-define(BAR, 12).
-define(CLEAR, 1.2).

-doc "The sections' lines; none where there was no such search.".
-spec sections(dyno_report:document(), dyno_report:options()) -> [[iodata()]].
sections(Document, Options) ->
    lists:append([
        [curve(Rows, Options), words(Rows, Document, Options)]
     || Run <- get(~"runs", Document, []),
        is_map(Run),
        Table <- dyno_report_document:tables(~"concurrencies", Run),
        Rows <- [dyno_report_document:rows(Table)]
    ]).

-spec curve([object()], options()) -> [iodata()].
curve(Rows, Options) ->
    Highest = lists:max([0 | [T || #{~"throughput" := T} <- Rows, is_number(T)]]),
    Columns = [
        #{title => ~"workers", align => right},
        #{title => ~"throughput", align => right},
        #{title => ~"95 % interval", align => right, fit => optional},
        #{title => ~"time per call", align => right},
        #{title => ~"", align => left, fit => optional},
        #{title => ~"verdict", align => left}
    ],
    Cells = [
        [
            dyno_report_document:name(~"concurrency", Row),
            measured(get(~"throughput", Row), ~"1/s"),
            interval(Row),
            measured(get(~"time_per_call", Row), ~"ns"),
            bar(get(~"throughput", Row), Highest, Options),
            verdict(Row)
        ]
     || Row <- Rows
    ],
    dyno_report_console_runs:section(~"Concurrency", Columns, Cells, length(Cells), Options).

-spec interval(object()) -> binary().
interval(Row) ->
    case {get(~"low", Row), get(~"high", Row)} of
        {Low, High} when is_number(Low), is_number(High) ->
            <<(measured(Low, ~"1/s"))/binary, " .. ", (measured(High, ~"1/s"))/binary>>;
        _ ->
            ~""
    end.

-spec bar(json:decode_value(), number(), options()) -> binary().
bar(Value, Highest, Options) when is_number(Value), Highest > 0 ->
    Mark =
        case Options of
            #{charset := ascii} -> ~"#";
            _ -> ~"■"
        end,
    binary:copy(Mark, round(?BAR * Value / Highest));
bar(_, _, _) ->
    ~"".

-spec verdict(object()) -> dyno_report_table:cell().
verdict(Row) ->
    Against = dyno_report_document:name(~"against", Row),
    case get(~"verdict", Row) of
        ~"best" -> {good, ~"best"};
        ~"gain" -> <<"more than with ", Against/binary>>;
        ~"same" -> <<"no more than with ", Against/binary>>;
        ~"loss" -> <<"less than with ", Against/binary>>;
        _ -> ~""
    end.

-spec words([object()], object(), options()) -> [iodata()].
words(Rows, Document, #{width := Width}) ->
    case [Row || #{~"verdict" := ~"best"} = Row <- Rows] of
        [Best | _] -> dyno_report_text:wrap(sentence(Best, Rows, Document), Width);
        [] -> []
    end.

-spec sentence(object(), [object()], object()) -> binary().
sentence(Best, Rows, Document) ->
    Workers = get(~"concurrency", Best),
    More = [C || #{~"concurrency" := C} <- Rows, is_integer(C), C > Workers],
    Settings = get(~"settings", get(~"parameters", Document, #{}), #{}),
    Rate = measured(get(~"throughput", Best), ~"1/s"),
    Text =
        case {More, get(~"max", Settings)} of
            {[], Max} when is_integer(Max), Max > Workers ->
                ["The throughput is highest with ", workers(Workers), ": ", Rate, "."];
            {[], _} ->
                ["The throughput is highest with ", workers(Workers),
                    ", the most that were tried: ", Rate,
                    ". It may rise further; give a higher --max."];
            _ ->
                ["It saturates at ", workers(Workers), ": ", Rate, ". With ", listed(More),
                    " it was not shown to be higher.", doubt(Rows, Workers)]
        end,
    iolist_to_binary(Text).

%% A gain of so much would have been missed.
-spec doubt([object()], json:decode_value()) -> binary().
doubt(Rows, Workers) ->
    Possible = [
        High
     || #{~"concurrency" := C, ~"ratio_high" := High} <- Rows, C > Workers, is_number(High)
    ],
    case lists:max([0 | Possible]) > ?CLEAR of
        true ->
            ~" The intervals are wide: longer samples (-d) or more of them (-s) would tell more.";
        false -> ~""
    end.

-spec workers(json:decode_value()) -> binary().
workers(1) -> ~"1 worker";
workers(N) when is_integer(N) -> <<(integer_to_binary(N))/binary, " workers">>;
workers(_) -> ~"-".

-spec listed([integer()]) -> iolist().
listed(Numbers) when length(Numbers) > 6 ->
    [integer_to_binary(hd(Numbers)), " to ", integer_to_binary(lists:last(Numbers))];
listed(Numbers) ->
    lists:join(", ", [integer_to_binary(N) || N <- Numbers]).
