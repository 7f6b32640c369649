%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_threshold_check).
-moduledoc false.
%% Whether a threshold can certainly not be decided, by names and units known before. Pure.

-export([problem/3]).
-export_type([known/0, described/0, table/0, problem/0]).

-doc """
The possible values of a measurement: metrics, histograms and series with their units, tables of a
run, and tables over all runs (`summaries`), as their makers describe them. In a name `*` stands for
a part known later.

`reserved`: first words of metrics and series of which all names are listed; `all` if no others
exist.
""".
-type known() :: #{
    metrics => [described()],
    histograms => [described()],
    series => [described()],
    tables => [table()],
    summaries => [table()],
    reserved => all | [binary()]
}.

-type described() :: #{name := binary(), unit := binary(), _ => _}.

-type table() :: #{name := binary(), columns := [dyno_recording_table:column()], _ => _}.

-type problem() ::
    {unknown_metric, Name :: binary(), Closest :: [binary()]}
    | {unknown_table, Name :: binary(), Closest :: [binary()]}
    | {unknown_field, Table :: binary(), Field :: binary(), Fields :: [binary()]}
    | {field_expected, Table :: binary(), Fields :: [binary()]}
    | {field_of_summary, Table :: binary()}
    | {severity_expected, [binary()]}
    | {wrong_dimension, dyno_unit:dimension(), Wanted :: dyno_unit:dimension()}.

-spec problem(dyno_threshold_metric:target(), {number(), dyno_unit:unit()}, known()) ->
    none | problem().
problem({metric, Name}, Limit, Known) ->
    case {is_reserved(Name, Known), units(dyno_threshold_metric:lookups(Name), Known)} of
        {false, _} ->
            none;
        {true, []} ->
            Names = dyno_threshold_metric:names(names(metrics, Known), names(series, Known)),
            {unknown_metric, Name, dyno_similar:closest(Name, Names)};
        {true, Units} ->
            compared(Units, Limit)
    end;
problem({cell, ~"findings", Severity, undefined}, Limit, #{summaries := [_ | _]}) ->
    Severities = dyno_threshold_metric:severities(),
    case lists:member(Severity, Severities) of
        true -> compared([~"count"], Limit);
        false -> {severity_expected, Severities}
    end;
problem({cell, Table, _Row, Field}, Limit, Known) ->
    Tables = tables(tables, Table, Known),
    Summaries = tables(summaries, Table, Known),
    case {Field, Tables, Summaries} of
        {_, [], []} ->
            Names = names(tables, Known) ++ names(summaries, Known),
            {unknown_table, Table, dyno_similar:closest(Table, Names)};
        {undefined, _, []} ->
            {field_expected, Table, fields(Tables)};
        {undefined, _, _} ->
            Values = [
                [Unit || #{role := Role, unit := Unit} <- Of, Role =/= key]
             || Of <- Summaries
            ],
            compared([Unit || [Unit | _] <- Values], Limit);
        {_, [], _} ->
            {field_of_summary, Table};
        {_, _, _} ->
            case [Unit || Of <- Tables, #{name := Name, unit := Unit} <- Of, Name =:= Field] of
                [] -> {unknown_field, Table, Field, fields(Tables)};
                Units -> compared(Units, Limit)
            end
    end.

is_reserved(Name, Known) ->
    case maps:get(reserved, Known, all) of
        all -> true;
        Words -> lists:member(hd(binary:split(Name, ~".")), Words)
    end.

%% The units of the first successful lookup.
units([], _Known) ->
    [];
units([Lookup | Rest], Known) ->
    {Key, Name} =
        case Lookup of
            {metric, Of} -> {metrics, Of};
            {percentile, Of, _Share} -> {histograms, Of};
            {series, Of, _Aggregate} -> {series, Of}
        end,
    Described = maps:get(Key, Known, []),
    case [Unit || #{name := Pattern, unit := Unit} <- Described, is_name(Name, Pattern)] of
        [] -> units(Rest, Known);
        Units -> Units
    end.

is_name(Name, Pattern) ->
    case binary:split(Pattern, ~"*") of
        [Pattern] ->
            Name =:= Pattern;
        [First, Last] ->
            byte_size(Name) > byte_size(First) + byte_size(Last) andalso
                binary:longest_common_prefix([Name, First]) =:= byte_size(First) andalso
                binary:longest_common_suffix([Name, Last]) =:= byte_size(Last)
    end.

tables(Key, Written, Known) ->
    [
        [Column || #{type := Type} = Column <- dyno_recording_table:columns(Table), Type =/= string]
     || #{name := Name} = Table <- maps:get(Key, Known, []),
        dyno_threshold_metric:is_table(Name, Written)
    ].

%% Interval ends need no mention.
fields(Tables) ->
    lists:uniq([
        Name
     || Of <- Tables, #{name := Name, role := Role} <- Of, not lists:member(Role, [key, low, high])
    ]).

names(Key, Known) ->
    [Name || #{name := Name} <- maps:get(Key, Known, [])].

%% One fitting unit of a name is enough.
compared(Units, {Limit, LimitUnit}) ->
    {ok, Wanted} = dyno_unit:dimension(LimitUnit),
    Dimensions = [dyno_threshold_metric:dimension(Unit) || Unit <- Units],
    IsComparable = fun(Dimension) -> dyno_threshold_metric:comparable(Dimension, Wanted, Limit) end,
    case lists:any(IsComparable, Dimensions) of
        true -> none;
        false -> {wrong_dimension, hd(Dimensions), Wanted}
    end.
