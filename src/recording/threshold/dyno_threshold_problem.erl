%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_threshold_problem).
-moduledoc false.
%% The words for what is wrong in a threshold, and for what is accepted instead.

-export([wording/1, units/1]).

-doc "What is wrong, and what is accepted.".
-spec wording(term()) -> unicode:chardata().
wording(metric_expected) ->
    "a metric is expected, such as latency.p99, errors.rate, throughput or memory.total, or "
    "function, process, ets, port or growth with a name";
wording({name_expected, function}) ->
    "a function is expected, such as cowboy_req:reply/4";
wording({name_expected, process}) ->
    "the name of a process group is expected, in double quotes if it has spaces";
wording({name_expected, ets}) ->
    "the name of an ETS table is expected, in double quotes if it has spaces";
wording({name_expected, port}) ->
    "a kind of port is expected, such as tcp_inet, in double quotes if it has spaces";
wording({name_expected, growth}) ->
    "a function (mod:fun/arity) or a metric is expected";
wording(function_expected) ->
    "a function is expected as mod:fun/arity, such as cowboy_req:reply/4";
wording({unknown_figure, Form, ~""}) ->
    ["a figure of the ", atom_to_list(Form), " is expected: ", figures(Form)];
wording({unknown_figure, Form, Figure}) ->
    [article(Form), " has no figure ", Figure, "; it has ", figures(Form)];
wording({word_expected, of_node}) ->
    "the name of a node is expected after \"of\"";
wording({word_expected, at_size}) ->
    "a size is expected after \"at\"";
wording({not_for_growth, unit}) ->
    "growth is an exponent (1 is linear, 2 quadratic): a number without a unit is expected";
wording({not_for_growth, _}) ->
    "growth is over all sizes and nodes: an operator is expected here, one of < <= > >= ==";
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
wording({wrong_kind, Metric, Kind, Given}) ->
    [Metric, " is ", kind(Kind), ", this is ", kind(Given), "; the limit needs ", units(Kind)];
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

-spec figures(dyno_threshold_metric:form()) -> unicode:chardata().
figures(Form) ->
    listed(dyno_threshold_metric:figures(Form)).

-spec article(dyno_threshold_metric:form()) -> string().
article(ets) -> "an ets table";
article(Form) -> "a " ++ atom_to_list(Form).

-spec listed([binary()]) -> unicode:chardata().
listed(Names) ->
    lists:join(", ", Names).

-spec kind(dyno_unit:kind()) -> string().
kind(time) -> "a time";
kind(size) -> "a size in bytes";
kind(words) -> "a size in words";
kind(number) -> "a plain number";
kind(ratio) -> "a ratio";
kind(rate) -> "a rate";
kind(byte_rate) -> "a rate in bytes";
kind(time_per_call) -> "a time per call";
kind(words_per_call) -> "a size per call".
