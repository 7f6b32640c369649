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
        {~"process", ~"Process", string, name},
        {~"longest", ~"Longest", count, [lower, ~"Messages that waited."], longest},
        {~"share", ~"Share", ratio, fun(#{longest := N, all := All}) -> N / All end}
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

-doc """
The value of an item: by a function, under a key of a map, or at a position of a tuple; a list leads
through several. Only an optional column's key may be missing. An atom is text in a column of
strings, and no value elsewhere; `undefined` is none anywhere.
""".
-type cell() ::
    fun((Item :: term()) -> binary() | number() | atom())
    | atom()
    | pos_integer()
    | [atom() | pos_integer(), ...].

-doc "`count`, `bytes` and `ns` are integers, `ratio` is a number; with the unit of that name.".
-type kind() ::
    string | integer | number | count | bytes | ns | ratio | {integer | number, dyno_unit:unit()}.

-doc """
More properties of a column, as a map or by their values: `lower` is `#{better => lower}`, `key` is
`#{role => key}`, `{low, ~"time"}` a lower bound of the column `time`, and a text is the help.

`role`: `key` if the column identifies rows, `value` if measured, `low` or `high` if a bound of the
value in the column `of`, otherwise `note`. By default, the first column of a table without keys is
its key if it has strings; numbers are values and the rest are notes. `better`: which values are.
`optional`: left out if no item has a value.
""".
-type properties() ::
    #{
        help => binary(),
        optional => true,
        role => key | value | low | high | note,
        'of' => binary(),
        better => lower | higher
    }
    | key
    | value
    | note
    | {low | high, Of :: binary()}
    | lower
    | higher
    | optional
    | binary()
    | [properties()].

-type options() :: #{
    %% The table's node; without, no node or all together.
    node => node() | binary() | undefined,
    %% Keep the first rows; count the others.
    most => non_neg_integer()
}.

-type table() :: #{atom() => term()}.

%% More rows than a person reads, fewer than make the page slow.
-define(MAX_ROWS, 5000).

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
    Rows = sorted(Spec, Columns, [[value(Column, Item) || Column <- Columns] || Item <- Items]),
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

value({#{type := Type} = Column, Cell}, Item) ->
    case {found(Cell, Column, Item), Type} of
        {undefined, _} -> undefined;
        {Value, string} when is_atom(Value) -> atom_to_binary(Value);
        {Value, _} when is_atom(Value) -> undefined;
        {Value, integer} when is_float(Value) -> measurable(round(Value));
        {Value, _} when is_number(Value) -> measurable(Value);
        {Value, _} -> Value
    end.

%% A mean of the largest numbers that a recording may hold can be larger by a rounding.
measurable(Value) ->
    case dyno_recording_check:is_measurable(Value) of
        true -> Value;
        false -> undefined
    end.

found(Cell, _Column, Item) when is_function(Cell) -> Cell(Item);
found(Path, Column, Item) when is_list(Path) ->
    lists:foldl(fun(Step, Of) -> found(Step, Column, Of) end, Item, Path);
found(Position, _Column, Item) when is_integer(Position) -> element(Position, Item);
found(Key, #{optional := true}, Item) ->
    maps:get(Key, Item, undefined);
found(Key, _Column, Item) ->
    map_get(Key, Item).

-doc "All possible columns of a description, with types, units and roles.".
-spec columns(#{columns := [column()], _ => _}) -> [#{atom() => term()}].
columns(#{columns := Described}) ->
    [Column || {Column, _} <- with_roles([column(Column) || Column <- Described])].

column({Name, Title, Kind, Cell}) ->
    column({Name, Title, Kind, #{}, Cell});
column({Name, Title, Kind, Properties, Cell}) ->
    {Type, Unit} = type(Kind),
    {(properties(Properties))#{name => Name, title => Title, type => Type, unit => Unit}, Cell}.

properties(#{} = Properties) ->
    Properties;
properties(Several) when is_list(Several) ->
    lists:foldl(fun(Of, All) -> maps:merge(All, properties(Of)) end, #{}, Several);
properties({Bound, Of}) ->
    #{role => Bound, 'of' => Of};
properties(Help) when is_binary(Help) -> #{help => Help};
properties(optional) ->
    #{optional => true};
properties(Better) when Better =:= lower; Better =:= higher -> #{better => Better};
properties(Role) ->
    #{role => Role}.

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

is_wanted({#{optional := true}, _} = Column, Items) ->
    lists:any(fun(Item) -> value(Column, Item) =/= undefined end, Items);
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
