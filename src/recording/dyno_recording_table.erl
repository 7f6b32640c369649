%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_recording_table).
-moduledoc """
Makes a recording's table from items and a description of its columns.

```erlang
Spec = #{
    name => ~"queues",
    title => ~"Message queues",
    sort => {~"longest", descending},
    columns => [
        {~"process", ~"Process", string, fun(#{name := Name}) -> Name end},
        {~"longest", ~"Longest", count, #{better => lower}, fun(#{longest := N}) -> N end}
    ]
},
dyno_recording_table:make(Spec, Queues, #{node => Node}).
```
A description is plain data: its author need not call this module.
""".

-export([make/2, make/3, columns/1]).

-export_type([spec/0, column/0, kind/0, properties/0, options/0, table/0]).

-doc """
The description of a table.

Its name is for programs, its title for people. `sort`: the column that orders rows. `labels`:
distinguish tables with the same name. `derived`: computed from other parts of the recording.
""".
-type spec() :: #{
    name := binary(),
    title := binary(),
    columns := [column()],
    sort => {Column :: binary(), ascending | descending},
    labels => #{atom() | binary() => binary() | number()},
    derived => true
}.

-type column() ::
    {Name :: binary(), Title :: binary(), kind(), cell()}
    | {Name :: binary(), Title :: binary(), kind(), properties(), cell()}.

-type cell() :: fun((Item :: term()) -> binary() | number() | undefined).

-doc "`count`, `bytes` and `ns` are integers, `ratio` is a number; with the unit of that name.".
-type kind() ::
    string | integer | number | count | bytes | ns | ratio | {integer | number, dyno_unit:unit()}.

-doc """
More properties of a column.

`role`: `key` if the column identifies rows, `value` if measured, `low` or `high` if a bound of the
value in the column `of`, otherwise `note`. By default, the first column of a table without keys is
its key if it has strings; numbers are values and the rest are notes. `better`: which values are.
`optional`: left out if no item has a value.
""".
-type properties() :: #{
    help => binary(),
    optional => true,
    role => key | value | low | high | note,
    'of' => binary(),
    better => lower | higher
}.

-type options() :: #{
    %% The table's node; without, no node or all together.
    node => node() | binary() | undefined,
    %% Keep the first rows; count the others.
    most => non_neg_integer()
}.

-type table() :: #{atom() => term()}.

%% More rows than a person reads, fewer than make the page slow.
-define(MAX_ROWS, 5000).
%% As in dyno_recording_check.
-define(LARGEST, 1.0e100).

-doc "The table of some items, without a node.".
-spec make(spec(), [Item :: term()]) -> table().
make(Spec, Items) ->
    make(Spec, Items, #{}).

-doc "A table with a row for each item, in their order or the description's.".
-spec make(spec(), [Item :: term()], options()) -> table().
make(#{name := Name, title := Title, columns := Described} = Spec, Items, Options) ->
    Columns = [
        Column
     || Column <- with_roles([column(Column) || Column <- Described]), is_wanted(Column, Items)
    ],
    Rows = sorted(Spec, Columns, [[known(Cell(Item)) || {_, Cell} <- Columns] || Item <- Items]),
    Most = maps:get(most, Options, ?MAX_ROWS),
    #{
        name => Name,
        title => Title,
        node => maps:get(node, Options, undefined),
        labels => maps:get(labels, Spec, #{}),
        derived => maps:get(derived, Spec, false),
        sort => sort(Spec),
        columns => [maps:remove(optional, Column) || {Column, _} <- Columns],
        rows => lists:sublist(Rows, Most),
        truncated => max(0, length(Rows) - Most)
    }.

%% A mean of the largest numbers that a recording may hold can be larger by a rounding.
known(Value) when is_number(Value), Value > ?LARGEST orelse Value < -?LARGEST -> undefined;
known(Value) -> Value.

-doc "All possible columns of a description, with types, units and roles.".
-spec columns(#{columns := [column()], _ => _}) -> [#{atom() => term()}].
columns(#{columns := Described}) ->
    [Column || {Column, _} <- with_roles([column(Column) || Column <- Described])].

column({Name, Title, Kind, Cell}) ->
    column({Name, Title, Kind, #{}, Cell});
column({Name, Title, Kind, Properties, Cell}) ->
    {Type, Unit} = type(Kind),
    {Properties#{name => Name, title => Title, type => Type, unit => Unit}, Cell}.

type(count) -> {integer, ~"count"};
type(bytes) -> {integer, ~"B"};
type(ns) -> {integer, ~"ns"};
type(ratio) -> {number, ~"ratio"};
type({Type, Unit}) -> {Type, Unit};
type(Type) -> {Type, undefined}.

with_roles([{#{type := string} = First, Cell} | Rest] = Columns) when
    not is_map_key(role, First)
->
    case [key || {#{role := key}, _} <- Rest] of
        [] -> [{First#{role => key}, Cell} | [with_role(Column) || Column <- Rest]];
        _ -> [with_role(Column) || Column <- Columns]
    end;
with_roles(Columns) ->
    [with_role(Column) || Column <- Columns].

with_role({#{role := _}, _} = Column) -> Column;
with_role({#{type := string} = Column, Cell}) -> {Column#{role => note}, Cell};
with_role({Column, Cell}) -> {Column#{role => value}, Cell}.

is_wanted({#{optional := true}, Cell}, Items) ->
    lists:any(fun(Item) -> Cell(Item) =/= undefined end, Items);
is_wanted(_Column, _Items) ->
    true.

sort(#{sort := {Column, Order}}) -> #{column => Column, order => Order};
sort(#{}) -> undefined.

%% Rows without a value come last in either order; equal rows keep their order.
sorted(#{sort := {Name, Order}}, Columns, Rows) ->
    [Index] = [I || {I, {#{name := Of}, _}} <- lists:enumerate(Columns), Of =:= Name],
    {Without, With} = lists:partition(fun(Row) -> lists:nth(Index, Row) =:= undefined end, Rows),
    lists:sort(
        fun(A, B) -> in_order(Order, lists:nth(Index, A), lists:nth(Index, B)) end, With
    ) ++ Without;
sorted(#{}, _Columns, Rows) ->
    Rows.

in_order(ascending, A, B) -> A =< B;
in_order(descending, A, B) -> A >= B.
