%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_recording_part).
-moduledoc false.
%% The pieces that a run in the recording is made of: metrics, series, tables, text.

-export([metric/6, series/7, table/5, column/4, text/2, rows/2]).

%% More rows than a person reads, fewer than make the page slow.
-define(MAX_ROWS, 5000).

-type part() :: #{atom() => term()}.

-spec metric(binary(), binary(), number(), binary(), non_neg_integer(), binary()) -> part().
metric(Name, Title, Value, Unit, Count, Group) ->
    #{name => Name, title => Title, value => Value, unit => Unit, count => Count, group => Group}.

-spec series(binary(), binary(), binary(), binary(), node() | undefined, [number()], [term()]) ->
    part().
series(Name, Unit, Group, Title, Node, Times, Values) ->
    #{
        name => Name,
        unit => Unit,
        group => Group,
        title => Title,
        node => Node,
        labels => #{},
        times_ms => Times,
        values => Values
    }.

-spec table(binary(), binary(), node() | undefined, [part()], [[term()]]) -> part().
table(Name, Title, Node, Columns, Rows) ->
    dyno_recording_table:new(Name, Title, Columns, Rows, #{node => Node, most => ?MAX_ROWS}).

-spec column(binary(), binary(), string | integer | number, binary() | undefined) -> part().
column(Name, Title, Type, Unit) ->
    dyno_recording_table:column(Name, Title, Type, Unit).

-spec text(io:format(), [term()]) -> binary().
text(Format, Arguments) ->
    Text = unicode:characters_to_binary(io_lib:format(Format, Arguments)),
    true = is_binary(Text),
    Text.

-doc "Use `dyno_recording:rows/2`.".
-spec rows(binary(), dyno_recording:run()) -> [dyno_recording:object()].
rows(Name, Run) ->
    dyno_recording:rows(Run, Name).
