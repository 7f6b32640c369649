%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_report_table).
-moduledoc """
Lays rows out as aligned columns that fit the width at hand.

A column of numbers is as wide as its widest cell. Where the whole is too wide, the one flexible
column gives way first (its cells are shortened in the middle) as long as its names can be read,
then optional columns are left out, the last first, and then the flexible one gives way further.
""".

-export([lines/3]).

-export_type([column/0, cell/0, layout/0]).

-doc "One column.".
-type column() :: #{
    title := binary(),
    align := left | right,
    %% flexible: may be shortened; optional: may be left out; default is fixed.
    fit => fixed | flexible | optional
}.

-doc "A cell's text, with its style where it is not plain.".
-type cell() :: binary() | {dyno_report_style:style(), binary()}.

-doc "The space there is.".
-type layout() :: #{
    width := pos_integer(),
    indent := non_neg_integer(),
    colour := dyno_report_style:colour(),
    charset := dyno_report_text:charset()
}.

%% A column with its title's and rows' cells, and the width it is given.
-type entry() :: {column(), [cell()], non_neg_integer()}.

-define(GAP, 2).
%% Below this many columns a shortened name says nothing any more.
-define(NARROWEST, 16).
%% From here on a name is worth more than another column.
-define(READABLE, 28).

-doc """
The table's lines, the titles first; no line is longer than the layout's width. An optional column
without any text is left out.
""".
-spec lines([column()], [[cell()]], layout()) -> [iodata()].
lines(Columns, Rows, Layout) ->
    Titles = [{header, Title} || #{title := Title} <- Columns],
    Cells = [Titles | Rows],
    Table = [
        Entry
     || {Column, [_ | Body]} = Entry <- lists:zip(Columns, transpose(Cells)),
        not is(optional, Column) orelse lists:any(fun(Cell) -> Cell =/= ~"" end, Body)
    ],
    Fitting = fit([{Column, List, widest(List)} || {Column, List} <- Table], Layout),
    [line(Row, Layout) || Row <- transpose([aligned(Column, Layout) || Column <- Fitting])].

-spec fit([entry()], layout()) -> [entry()].
fit(Table, #{width := Width, indent := Indent} = Layout) ->
    Space = Width - Indent - ?GAP * (length(Table) - 1),
    Excess = lists:sum([Wide || {_, _, Wide} <- Table]) - Space,
    case Excess =< 0 of
        true -> Table;
        false -> give_way(Table, Excess, Layout)
    end.

-spec give_way([entry()], pos_integer(), layout()) -> [entry()].
give_way(Table, Excess, Layout) ->
    Flexible = [Wide || {Column, _, Wide} <- Table, is(flexible, Column)],
    Optional = [Index || {Index, {Column, _, _}} <- lists:enumerate(Table), is(optional, Column)],
    case {Flexible, Optional} of
        {[Wide], _} when Wide - Excess >= ?READABLE; Optional =:= [], Wide - Excess >= ?NARROWEST ->
            [narrowed(Entry, Excess) || Entry <- Table];
        {_, [_ | _]} ->
            Last = lists:last(Optional),
            fit([Entry || {Index, Entry} <- lists:enumerate(Table), Index =/= Last], Layout);
        {[Wide], []} ->
            [narrowed(Entry, Wide - min(Wide, ?NARROWEST)) || Entry <- Table];
        {_, []} ->
            Table
    end.

-spec narrowed(entry(), non_neg_integer()) -> entry().
narrowed({Column, List, Wide} = Entry, Excess) ->
    case is(flexible, Column) of
        true -> {Column, List, Wide - Excess};
        false -> Entry
    end.

-spec is(flexible | optional, column()) -> boolean().
is(Fit, Column) ->
    maps:get(fit, Column, fixed) =:= Fit.

-spec aligned(entry(), layout()) -> [{dyno_report_style:style(), unicode:chardata()}].
aligned({#{align := Alignment}, List, Wide}, #{charset := Charset}) ->
    [
        {Style, dyno_report_text:pad(Short, Alignment, Wide)}
     || {Style, Text} <- lists:map(fun styled/1, List),
        Short <- [dyno_report_text:shorten(Text, Wide, Charset)]
    ].

%% Nothing is painted or padded behind the last visible cell.
-spec line([{dyno_report_style:style(), unicode:chardata()}], layout()) -> iolist().
line(Cells, #{indent := Indent, colour := Colour}) ->
    Gap = lists:duplicate(?GAP, $\s),
    Painted = [painted(Colour, Style, Text) || {Style, Text} <- Cells],
    [
        lists:duplicate(Indent, $\s),
        string:trim(dyno_report_text:encode(lists:join(Gap, Painted)), trailing, " ")
    ].

%% Only the text is painted, not its padding: an underlined title ends with its last letter.
-spec painted(dyno_report_style:colour(), dyno_report_style:style(), unicode:chardata()) ->
    iodata().
painted(Colour, Style, Padded) ->
    Text = dyno_report_text:encode(Padded),
    Trimmed = string:trim(Text, both, " "),
    case Trimmed of
        ~"" ->
            Text;
        _ ->
            [Before, After] = binary:split(Text, Trimmed),
            [Before, dyno_report_style:paint(Colour, Style, Trimmed), After]
    end.

-spec widest([cell()]) -> non_neg_integer().
widest(List) ->
    lists:max([dyno_report_text:width(Text) || {_, Text} <- lists:map(fun styled/1, List)]).

-spec styled(cell()) -> {dyno_report_style:style(), binary()}.
styled({Style, Text}) -> {Style, Text};
styled(Text) -> {plain, Text}.

-spec transpose([[Value]]) -> [[Value]].
transpose([[] | _]) -> [];
transpose(Rows) -> [[hd(Row) || Row <- Rows] | transpose([tl(Row) || Row <- Rows])].
