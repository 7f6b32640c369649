%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_threshold_problem).
-moduledoc false.
%% The words for what is wrong in a threshold, and for what is accepted instead.

-export([wording/1, units/1]).

-doc "What is wrong, and what is accepted.".
-spec wording(term()) -> unicode:chardata().
wording(metric_expected) ->
    "the name of a metric is expected, such as latency.p99, errors.rate, throughput or "
    "memory.total, or of a table, a row and a field, such as process my_server memory";
wording({word_expected, of_node}) ->
    "the name of a node is expected after \"of\"";
wording({word_expected, at_size}) ->
    "a size is expected after \"at\"";
wording({over_all_runs, Table}) ->
    [
        "a row of ", Table, " without a field is over all runs and nodes: a field is expected ",
        "here, or an operator, one of < <= > >= =="
    ];
wording(size_expected) ->
    "a size is expected, a whole number such as 100";
wording(operator_expected) ->
    "an operator is expected, one of < <= > >= ==";
wording(number_expected) ->
    "a number is expected, with its unit, such as 20 ms or 0.1 %";
wording(number_out_of_range) ->
    "the number is too large or too long; choose a larger unit";
wording({unknown_unit, Unit}) ->
    ["there is no unit ", Unit, "; accepted are ", listed(dyno_unit:accepted())];
wording(open_quote) ->
    "the quote that opens here is not closed".

-doc "The units accepted for a kind, in words.".
-spec units(dyno_unit:kind()) -> unicode:chardata().
units(Kind) ->
    Names = dyno_threshold_metric:accepted(Kind),
    case [Name || Name <- Names, Name =/= none] of
        Names -> ["one of ", listed(Names)];
        Others -> ["no unit, or one of ", listed(Others)]
    end.

-spec listed([binary()]) -> unicode:chardata().
listed(Names) ->
    lists:join(", ", Names).
