%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_recording_table).
-moduledoc "Tables as a recording has them: what is measured, before it is written.".

-export([new/4, new/5, column/4, growth_columns/0]).
-export_type([table/0, column/0, type/0, options/0]).

-type table() :: #{atom() => term()}.
-type column() :: #{atom() => term()}.
-type type() :: string | integer | number.

-type options() :: #{
    %% The node that it is of; without it, of none or of all.
    node => node() | undefined,
    %% How many rows are kept, the first ones; of the others their number.
    most => non_neg_integer()
}.

-doc "A table of all rows, of no node.".
-spec new(binary(), binary(), [Column], [[term()]]) -> table() when
    Column :: column() | {binary(), binary(), type(), binary() | undefined}.
new(Name, Title, Columns, Rows) ->
    new(Name, Title, Columns, Rows, #{}).

-doc """
A table. Its name is for programs, its title for people; a row has a value for each column, of the
column's type and unit, or `undefined`.
""".
-spec new(binary(), binary(), [Column], [[term()]], options()) -> table() when
    Column :: column() | {binary(), binary(), type(), binary() | undefined}.
new(Name, Title, Columns, Rows, Options) ->
    Count = length(Rows),
    Most = maps:get(most, Options, Count),
    #{
        name => Name,
        title => Title,
        node => maps:get(node, Options, undefined),
        columns => [as_column(C) || C <- Columns],
        rows => lists:sublist(Rows, Most),
        truncated => max(0, Count - Most)
    }.

as_column({Name, Title, Type, Unit}) -> column(Name, Title, Type, Unit);
as_column(Column) -> Column.

-doc "A column; `#{help => Text}` may be added to it.".
-spec column(binary(), binary(), type(), binary() | undefined) -> column().
column(Name, Title, Type, Unit) ->
    #{name => Name, title => Title, type => Type, unit => Unit}.

-doc "What the tables `growth` of tests and of benchmarks have in common.".
-spec growth_columns() -> [column()].
growth_columns() ->
    [
        column(Name, Title, Type, undefined)
     || {Name, Title, Type} <- [
            {~"kind", ~"Kind", string},
            {~"name", ~"Name", string},
            {~"unit", ~"Unit", string},
            {~"exponent", ~"Exponent", number},
            {~"low", ~"Low", number},
            {~"high", ~"High", number},
            {~"points", ~"Points", integer},
            {~"smallest", ~"At the smallest size", number},
            {~"largest", ~"At the largest size", number},
            {~"text", ~"In words", string}
        ]
    ].
