%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_threshold_problem).
-moduledoc false.
%% The words for a threshold's problem, and the accepted forms.

-export([wording/1]).

-spec wording(term()) -> unicode:chardata().
wording(metric_expected) ->
    "the name of a metric is expected, such as latency.p99, errors.rate, throughput or "
    "memory.total, or of a table, a row and a field, such as process my_server memory";
wording({subject_expected, Subjects}) ->
    ["a name is expected, such as ", listed(Subjects)];
wording({word_expected, of_node}) ->
    "the name of a node is expected after \"of\"";
wording({word_expected, at_size}) ->
    "a size is expected after \"at\"";
wording({over_all_runs, Table}) ->
    io_lib:format(
        "a row of ~ts without a field is over all runs and nodes: a field is expected here, or "
        "an operator, one of < <= > >= ==",
        [Table]
    );
wording(size_expected) ->
    "a size is expected, a whole number such as 100";
wording(operator_expected) ->
    "an operator is expected, one of < <= > >= ==";
wording({operator, Operator}) ->
    [Operator, " is expected here"];
wording({limit, share}) ->
    "a share in percent is expected, such as 5%";
wording({not_here, of_node}) ->
    "no node can be named here";
wording({not_here, at_size}) ->
    "no size can be named here";
wording(number_expected) ->
    "a number is expected, with its unit, such as 20 ms or 0.1 %";
wording(number_out_of_range) ->
    "the number is too large or too long; choose a larger unit";
wording({unknown_unit, Unit}) ->
    Meant =
        case dyno_similar:nearest(Unit, dyno_unit:accepted()) of
            {ok, Near} -> ["did you mean ", Near, "?"];
            none -> "units are such as ms, MB, k/s or %"
        end,
    ["there is no unit ", Unit, "; ", Meant];
wording({percentile_in_brackets, Written}) ->
    ["a percentile is written without brackets: ", Written];
wording(open_quote) ->
    "the quote that opens here is not closed";
wording({unknown_metric, Name, Closest}) ->
    ["there is no metric ", Name, dyno_similar:closest_are(Closest)];
wording({unknown_table, Name, Closest}) ->
    ["there is no table ", Name, dyno_similar:closest_are(Closest)];
wording({unknown_field, Table, Field, Fields}) ->
    ["the table ", Table, " has no field ", Field, "; it has ", listed(Fields)];
wording({field_expected, Table, Fields}) ->
    ["a field of the table ", Table, " is expected, one of ", listed(Fields)];
wording({field_of_summary, Table}) ->
    io_lib:format(
        "the table ~ts is over all runs, and its rows have one value each: an operator is "
        "expected here, one of < <= > >= ==",
        [Table]
    );
wording({severity_expected, Severities}) ->
    ["a severity of findings is expected, one of ", listed(Severities)];
wording({wrong_dimension, Measured, Wanted}) ->
    io_lib:format(
        "this is ~ts, but ~ts is measured; the limit needs ~ts",
        [dimension(Wanted), dimension(Measured), dyno_unit:usual(Measured)]
    ).

dimension(time) -> "a time";
dimension(size) -> "a size in bytes";
dimension(words) -> "a size in words";
dimension(number) -> "a plain number";
dimension(ratio) -> "a ratio";
dimension(rate) -> "a rate";
dimension(byte_rate) -> "a rate in bytes";
dimension(time_per_call) -> "a time per call";
dimension(words_per_call) -> "a size per call".

-spec listed([binary()]) -> unicode:chardata().
listed(Names) ->
    lists:join(", ", Names).
