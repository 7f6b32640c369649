%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_report_table).
-moduledoc """
Aligns rows in columns that fit the width, which `dyno_cli_terminal` finds.

A column of numbers is as wide as its widest cell. If the table is too wide, flexible columns shrink
first, the widest first, as long as names stay readable; then optional columns are left out, the
last first; then flexible columns shrink further. A sentence is not cut: it takes several lines.
""".

-export([lines/3]).

-export_type([column/0, cell/0, layout/0]).

-type column() :: #{
    title := binary(),
    align := left | right,
    %% flexible: shortened; sentence: broken into lines; optional: left out. Default: fixed.
    fit => fixed | flexible | sentence | optional
}.

-doc "A cell's text, styled text, or a bar with a share of the longest.".
-type cell() :: binary() | {dyno_report_style:style(), binary()} | {bar, Share :: number()}.

-type layout() :: #{
    width := pos_integer(),
    indent := non_neg_integer(),
    colour := dyno_report_style:colour(),
    charset := dyno_report_text:charset()
}.

-define(GAP, 2).
%% Shorter names are useless.
-define(NARROWEST, 16).
%% At this width a name is worth more than another column.
-define(READABLE, 28).
-define(BAR, 20).

-doc "The lines within the layout's width, titles first; optional columns without values go.".
-spec lines([column()], [[cell()]], layout()) -> [iodata()].
lines(Columns, Rows, Layout) ->
    Titles = [{header, Title} || #{title := Title} <- Columns],
    Cells = [Titles | [[styled(Cell, Layout) || Cell <- Row] || Row <- Rows]],
    Table = [
        Entry
     || {Column, [_ | Body]} = Entry <- lists:zip(Columns, transpose(Cells)),
        not is(optional, Column) orelse lists:any(fun says_something/1, Body)
    ],
    Fitting = fit([{Column, List, widest(List)} || {Column, List} <- Table], Layout),
    [
        line(Line, Layout)
     || Row <- transpose([aligned(Column, Layout) || Column <- Fitting]),
        Line <- transpose(even(Row))
    ].

says_something({_, Text}) ->
    Text =/= ~"" andalso Text =/= ~"-".

fit(Table, #{width := Width, indent := Indent} = Layout) ->
    Space = Width - Indent - ?GAP * (length(Table) - 1),
    Optional = [Entry || {Column, _, _} = Entry <- Table, is(optional, Column)],
    case {narrowed(Table, Space, ?READABLE), Optional} of
        {{fits, Narrowed}, _} ->
            Narrowed;
        {_, [_ | _]} ->
            fit(lists:delete(lists:last(Optional), Table), Layout);
        {_, []} ->
            {_, Narrowed} = narrowed(Table, Space, ?NARROWEST),
            Narrowed
    end.

%% Shrinks the widest flexible column, one terminal column at a time.
narrowed(Table, Space, Least) ->
    Flexible = [
        {Wide, Index}
     || {Index, {Column, _, Wide}} <- lists:enumerate(Table),
        is(flexible, Column) orelse is(sentence, Column),
        Wide > Least
    ],
    case lists:sum([Wide || {_, _, Wide} <- Table]) =< Space of
        true ->
            {fits, Table};
        false when Flexible =:= [] ->
            {too_wide, Table};
        false ->
            {Wide, Widest} = lists:max(Flexible),
            {Before, [{Column, Cells, Wide} | After]} = lists:split(Widest - 1, Table),
            narrowed(Before ++ [{Column, Cells, Wide - 1} | After], Space, Least)
    end.

is(Fit, Column) ->
    maps:get(fit, Column, fixed) =:= Fit.

aligned({#{align := Alignment} = Column, List, Wide}, #{charset := Charset}) ->
    [
        [
            {Style, dyno_report_text:pad(Short, Alignment, Wide)}
         || Line <- broken(Text, Wide, is(sentence, Column)),
            Short <- [dyno_report_text:shorten(Line, Wide, Charset)]
        ]
     || {Style, Text} <- List
    ].

broken(Text, Wide, IsSentence) ->
    case IsSentence andalso dyno_report_text:wrap(Text, Wide) of
        [_ | _] = Lines -> Lines;
        _ -> [Text]
    end.

%% Cells of as many lines as the longest one.
even(Row) ->
    Most = lists:max([length(Lines) || Lines <- Row]),
    [
        Lines ++
            lists:duplicate(Most - length(Lines), {plain, dyno_report_text:pad(~"", left, Wide)})
     || [{_, First} | _] = Lines <- Row, Wide <- [dyno_report_text:width(First)]
    ].

%% Nothing is painted or padded behind the last visible cell.
line(Cells, #{indent := Indent, colour := Colour}) ->
    Gap = lists:duplicate(?GAP, $\s),
    Painted = [painted(Colour, Style, Text) || {Style, Text} <- Cells],
    [
        lists:duplicate(Indent, $\s),
        string:trim(dyno_report_text:encode(lists:join(Gap, Painted)), trailing, " ")
    ].

%% Only the text is painted, not its padding: an underlined title ends with its last letter.
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

widest(List) ->
    lists:max([dyno_report_text:width(Text) || {_, Text} <- List]).

styled({bar, Share}, #{charset := Charset}) -> {dim, bar(Share, Charset)};
styled({Style, Text}, _Layout) -> {Style, dyno_text:clean(Text)};
styled(Text, _Layout) -> {plain, dyno_text:clean(Text)}.

%% In eighths of a column with Unicode.
bar(Share, unicode) when Share > 0 ->
    Eighths = max(1, min(8 * ?BAR, round(Share * 8 * ?BAR))),
    Full = binary:copy(~"█", Eighths div 8),
    case Eighths rem 8 of
        0 -> Full;
        Rest -> <<Full/binary, (16#2590 - Rest)/utf8>>
    end;
bar(Share, ascii) when Share > 0 ->
    binary:copy(~"#", min(?BAR, round(Share * ?BAR)));
bar(_Share, _Charset) ->
    ~"".

transpose([]) -> [];
transpose([[] | _]) -> [];
transpose(Rows) -> [[hd(Row) || Row <- Rows] | transpose([tl(Row) || Row <- Rows])].
