%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_report_content_tables).
-moduledoc """
Shows any table of a recording as a section, by the titles and roles of its columns.

Keys come first, then values followed by the interval between `low` and `high`, then notes. Numbers
without a unit have their row's, if the table has a column `unit`. `m:dyno_report_content_views`
gives clearer columns and titles for some tables.
""".

-export([sections/3, named/3, rows/2]).

-import(dyno_report_document, [get/2, get/3, measured/2, name/2, title/1]).

-type object() :: dyno_report_document:object().
-type section() :: dyno_report_section:section().
-type options() :: dyno_report:options().

-define(ALARMING, [~"errors", ~"dropped", ~"violations", ~"lost_at", ~"exceptions", ~"crashes"]).
-define(WIDE, 0.5).
-define(JUDGING, [~"result", ~"verdict", ~"state"]).

-doc "The tables of a part, in the order of the views.".
-spec sections(dyno_report:document(), dyno_report_content_views:part(), options()) -> [section()].
sections(Document, Part, Options) ->
    Found = found(Document),
    shown_by(views(Part, Found), Found, Document, Options).

-doc "The tables with these names, in this order.".
-spec named([binary()], dyno_report:document(), options()) -> [section()].
named(Names, Document, Options) ->
    Views = [
        View
     || Part <- dyno_report_content_views:parts(), View <- dyno_report_content_views:views(Part)
    ],
    Wanted = [{Name, View} || Name <- Names, {N, View} <- Views, N =:= Name],
    shown_by(Wanted, found(Document), Document, Options).

found(Document) ->
    [{none, Table} || Table <- get(~"tables", Document, [])] ++
        [
            {Run, Table}
         || Run <- dyno_recording:runs(Document), Table <- get(~"tables", Run, [])
        ].

shown_by(Views, Found, Document, Options) ->
    lists:append([
        shown(View, [Of || {_, #{~"name" := N}} = Of <- Found, N =:= Name], Document, Options)
     || {Name, View} <- Views
    ]).

-doc "The rows of all tables of that name, of a document and its runs.".
-spec rows(binary(), dyno_report:document()) -> [object()].
rows(Name, Document) ->
    Holders = [Document | dyno_recording:runs(Document)],
    lists:append([dyno_recording:rows(Holder, Name) || Holder <- Holders]).

%% Tables without a view join the others.
views(other, Found) ->
    Parts = dyno_report_content_views:parts(),
    Known = [Name || Part <- Parts, {Name, _} <- dyno_report_content_views:views(Part)],
    Unknown = lists:uniq([Name || {_, #{~"name" := Name}} <- Found]) -- Known,
    dyno_report_content_views:views(other) ++ [{Name, #{}} || Name <- Unknown];
views(Part, _Found) ->
    dyno_report_content_views:views(Part).

%% Tables

shown(_View, [], _Document, _Options) ->
    [];
shown(#{hidden := true}, _Found, _Document, _Options) ->
    [];
shown(View, Found, Document, Options) ->
    {OfDocument, OfRuns} = lists:partition(fun({Run, _}) -> Run =:= none end, Found),
    lists:append([section(View, [Of], ~"", Options) || Of <- OfDocument]) ++
        of_runs(which(View, OfRuns), View, OfRuns, Document, Options).

which(#{runs := Which}, _Found) ->
    Which;
which(_View, Found) ->
    case [Run || {#{~"size" := Size} = Run, _} <- Found, is_number(Size)] of
        [] -> each;
        _ -> largest
    end.

of_runs(_Which, _View, [], _Document, _Options) ->
    [];
of_runs(all, View, Found, Document, Options) ->
    section(View, Found, ~"", Options#{run_title => dyno_report_document:run_title(Document)});
of_runs(largest, View, Found, Document, Options) ->
    Having = [Of || {_, #{~"rows" := [_ | _]}} = Of <- Found],
    Sizes = lists:keysort(1, [{get(~"size", Run, 0), get(~"id", Run)} || {Run, _} <- Having]),
    Largest = [Of || {Run, _} = Of <- Having, get(~"id", Run) =:= element(2, lists:last(Sizes))],
    of_runs(each, View, Largest, Document, Options);
of_runs(each, View, Found, Document, Options) ->
    lists:append([
        section(View, [Of], place(Run, Document), Options#{many => many(Run, Found)})
     || {Run, _} = Of <- Found
    ]).

%% A single run needs no name for tables of all runs.
place(Run, Document) ->
    case {get(~"size", Run), dyno_recording:runs(Document)} of
        {null, [_]} -> ~"";
        _ -> <<" at ", (dyno_report_document:place(Run, Document))/binary>>
    end.

%% Only with several nodes does the node tell tables apart.
many(Run, Found) ->
    case [Table || {Of, Table} <- Found, get(~"id", Of) =:= get(~"id", Run)] of
        [_] -> one;
        _ -> several
    end.

%% One section

section(#{off_by := [_ | _] = Names} = View, [{_, Table} | _] = Found, Place, Options) ->
    Columns = get(~"columns", Table),
    Bounded = [Name || Name <- Names, bounds(#{~"name" => Name}, Columns) =/= none],
    section(View#{off_by := hd(Bounded ++ Names)}, Found, Place, Options);
section(#{each := Column} = View, [{_, Table} = Of], Place, Options) ->
    case lists:uniq([name(Column, Row) || Row <- dyno_recording:rows(Table)]) of
        [~"-" | _] ->
            section(maps:remove(each, View), [Of], Place, Options);
        Values ->
            Only = fun(Value) -> fun(Row) -> name(Column, Row) =:= Value end end,
            lists:append([
                section(
                    (maps:remove(each, View))#{only => Only(Value)},
                    [Of],
                    <<": ", Value/binary, Place/binary>>,
                    Options
                )
             || Value <- Values
            ])
    end;
section(View, [{_, Table} | _] = Found, Place, #{top := Top} = Options) ->
    Only = maps:get(only, View, fun(_Row) -> true end),
    Rows = [
        {Run, Row}
     || {Run, T} <- Found, Row <- dyno_recording:rows(T), Only(Row)
    ],
    First =
        case View of
            #{rows := all} -> Rows;
            #{} -> lists:sublist(ranked(View, Table, Rows), Top)
        end,
    Columns =
        [{T, number, fun({Run, _}) -> name(~"id", Run) end} || #{run_title := T} <- [Options]] ++
            [
                {T, Look, fun({_, Row}) -> Show(Row) end}
             || {T, Look, Show} <- columns(View, Table)
            ],
    Truncated = lists:sum([get(~"truncated", T, 0) || {_, T} <- Found]),
    Labels = [[", ", Label] || Label <- dyno_report_stacks:labels(Table)],
    Title = [maps:get(title, View, title(Table)), Labels, node(Table, Options), Place],
    dyno_report_section:table(iolist_to_binary(Title), Columns, First, length(Rows) + Truncated).

%% Imprecise values have no rank: they come last, by their upper bound.
ranked(#{off_by := Name} = View, #{~"columns" := Columns}, Rows) ->
    case bounds(#{~"name" => Name}, Columns) of
        none ->
            Rows;
        Bounds ->
            IsWide = is_wide(Name, Columns, View),
            {Wide, Known} = lists:partition(fun({_, Row}) -> IsWide(Row) end, Rows),
            Most = fun({_, A}, {_, B}) -> element(2, Bounds(A)) >= element(2, Bounds(B)) end,
            Known ++ lists:sort(Most, Wide)
    end;
ranked(_View, _Table, Rows) ->
    Rows.

is_wide(Name, Columns, #{off_by := Named}) when Named =/= none ->
    Has = fun(Of) -> bounds(#{~"name" => Of}, Columns) =/= none end,
    Of =
        case Name of
            ~"share" -> hd([Name || Has(Name)] ++ [Named]);
            _ -> Name
        end,
    Bounds = bounds(#{~"name" => Of}, Columns),
    fun(Row) ->
        case Bounds =/= none andalso {get(Of, Row), Bounds(Row)} of
            {Value, {From, To}} when is_number(Value), is_number(From), is_number(To) ->
                To - From > ?WIDE * Value;
            _ ->
                false
        end
    end;
is_wide(_Name, _Columns, _View) ->
    fun(_Row) -> false end.

node(Table, #{many := several}) ->
    [[" of ", name(~"node", Table)] || get(~"node", Table) =/= null];
node(_Table, _Options) ->
    [].

%% Columns

columns(View, Table) ->
    Columns = get(~"columns", Table),
    Chosen =
        case View of
            #{columns := Names} -> chosen(Names, Columns);
            #{} -> [{Column, small(Column), plain} || Column <- by_role(Columns)]
        end,
    Values = [Name || {#{~"name" := Name, ~"role" := ~"value"}, _, _} <- Chosen],
    %% The first two values stay at any width.
    Fixed = lists:sublist(Values, 2),
    Notes =
        case View of
            #{columns := _} -> note;
            #{} -> name
        end,
    lists:append([
        column(Column, Title, Look, {Fixed, Notes, Columns, Table, View})
     || {Column, Title, Look} <- Chosen
    ]).

chosen(Names, Columns) ->
    [
        {Column, Title, Look}
     || {Name, Titled, Look} <- [wanted(Name) || Name <- string:split(Names, "; ", all)],
        #{~"name" := Is} = Column <- Columns,
        Is =:= Name,
        Title <- [hd([Titled || Titled =/= same] ++ [small(Column)])]
    ].

wanted(Column) ->
    [Name | Titled] = string:split(Column, ":"),
    Title = [string:split(string:trim(Of), " ###") || Of <- Titled],
    {
        list_to_binary(Name),
        hd([list_to_binary(Of) || [Of | _] <- Title] ++ [same]),
        hd([bar || [_, _] <- Title] ++ [plain])
    }.

by_role(Columns) ->
    [
        Column
     || Role <- [~"key", ~"value", ~"note", null],
        #{~"role" := Of, ~"name" := Name} = Column <- Columns,
        Of =:= Role,
        Name =/= ~"unit"
    ].

%% Column titles are in lower case within a text; abbreviations stay.
small(Column) ->
    case title(Column) of
        <<First, Second, Rest/binary>> when First >= $A, First =< $Z, Second >= $a, Second =< $z ->
            <<(First + 32), Second, Rest/binary>>;
        Title ->
            Title
    end.

column(#{~"role" := ~"value"} = Column, Title, Look, {Fixed, _, Columns, Table, View}) ->
    Stays =
        case lists:member(get(~"name", Column), Fixed) of
            true -> number;
            false -> optional
        end,
    Bounds = bounds(Column, Columns),
    IsWide = is_wide(get(~"name", Column), Columns, View),
    [{Title, Stays, shown(Column, Bounds, IsWide)}] ++
        interval(Column, Bounds, IsWide, View) ++
        [{~"", note, bar(Column, IsWide, Table)} || Look =:= bar];
column(#{~"role" := ~"note", ~"name" := Name} = Column, Title, _Look, {_, Notes, _, _, _}) ->
    Stays =
        case lists:member(Name, ?JUDGING) of
            true -> word;
            false -> Notes
        end,
    [{Title, Stays, fun(Row) -> cell(Column, Row) end}];
column(#{~"type" := Type} = Column, Title, _, _) when Type =:= ~"integer"; Type =:= ~"number" ->
    [{Title, number, fun(Row) -> cell(Column, Row) end}];
column(Column, Title, _Look, _) ->
    [{Title, name, fun(Row) -> cell(Column, Row) end}].

bounds(#{~"name" := Name}, Columns) ->
    Bounds =
        #{
            Role => Bound
         || #{~"role" := Role, ~"of" := Of, ~"name" := Bound} <- Columns, Of =:= Name
        },
    Bound = fun(Role) -> maps:get(Role, Bounds, none) end,
    case map_size(Bounds) of
        0 -> none;
        _ -> fun(Row) -> {get(Bound(~"low"), Row), get(Bound(~"high"), Row)} end
    end.

%% For a rarely met or unknown value the interval's other end is known; a lower bound has none.
shown(Column, none, _IsWide) ->
    fun(Row) -> cell(Column, Row) end;
shown(#{~"name" := Name} = Column, Bounds, IsWide) ->
    fun(Row) ->
        case {get(Name, Row), Bounds(Row)} of
            {Value, {From, null}} when is_number(From), Value =/= null orelse From > 0 ->
                <<"> ", (number(From, Column, Row))/binary>>;
            {null, Ends} ->
                most(Column, Ends, Row);
            {_, Ends} ->
                case IsWide(Row) orelse is_binary(get(~"note", Row)) of
                    true -> most(Column, Ends, Row);
                    false -> cell(Column, Row)
                end
        end
    end.

most(#{~"unit" := ~"ratio"}, {From, To}, _Row) when is_number(From), is_number(To) ->
    dyno_report_document:imprecise(From, To, fun(Share) -> measured(Share, ~"ratio") end);
most(Column, {_, To}, Row) when is_number(To), To > 0 -> <<"< ", (number(To, Column, Row))/binary>>;
most(Column, _Bounds, Row) ->
    cell(Column, Row).

interval(_Column, none, _IsWide, _View) ->
    [];
interval(#{~"name" := Name} = Column, Bounds, IsWide, #{off_by := Name}) ->
    Off = fun(Row) ->
        case {get(Name, Row), IsWide(Row) orelse is_binary(get(~"note", Row)), Bounds(Row)} of
            {Value, false, {From, To}} when is_number(From), is_number(To), To > From ->
                <<"+/- ", (off_by(Value, Column, (To - From) / 2))/binary>>;
            _ ->
                ~""
        end
    end,
    [{~"", optional, Off}];
interval(_Column, _Bounds, _IsWide, #{off_by := _}) ->
    [];
interval(Column, Bounds, _IsWide, _View) ->
    Show = fun(Row) ->
        case Bounds(Row) of
            {From, To} when is_number(From), is_number(To) ->
                iolist_to_binary([number(From, Column, Row), " .. ", number(To, Column, Row)]);
            _ ->
                ~""
        end
    end,
    [{~"interval", optional, Show}].

%% A share's error in points, another value's as a fraction.
off_by(_Value, #{~"unit" := ~"ratio"}, Off) ->
    float_to_binary(ceil(1000 * Off) / 10, [{decimals, 1}]);
off_by(Value, _Column, Off) ->
    <<(integer_to_binary(ceil(100 * Off / Value)))/binary, " %">>.

bar(#{~"name" := Name, ~"unit" := Unit}, IsWide, Table) ->
    Rows = dyno_recording:rows(Table),
    Longest =
        case Unit of
            ~"ratio" -> 1;
            _ -> lists:max([0 | [Value || #{Name := Value} <- Rows, is_number(Value)]])
        end,
    fun(Row) ->
        case not IsWide(Row) andalso get(Name, Row) of
            Value when is_number(Value), Longest > 0 -> {bar, Value / Longest};
            _ -> ~""
        end
    end.

%% Cells

%% A partial table names in `counted` how each row was counted.
cell(#{~"name" := ~"calls"}, #{~"counted" := ~"not counted"}) ->
    ~"not counted";
cell(#{~"name" := Name} = Column, #{~"counted" := ~"estimated"} = Row) when
    Name =:= ~"calls" orelse Name =:= ~"discovered" orelse Name =:= ~"alive" orelse
        Name =:= ~"ended",
    is_number(map_get(Name, Row))
->
    <<"~", (number(map_get(Name, Row), Column, Row))/binary>>;
cell(#{~"name" := ~"calls"} = Column, #{~"counted" := ~"at least", ~"calls" := Calls} = Row) when
    is_number(Calls)
->
    <<">= ", (number(Calls, Column, Row))/binary>>;
cell(#{~"name" := Name, ~"role" := Role} = Column, Row) ->
    case get(Name, Row) of
        Text when is_binary(Text) ->
            text(Name, Text);
        Value when is_number(Value), Value > 0 ->
            Shown = number(Value, Column, Row),
            case lists:member(Name, ?ALARMING) of
                true -> {bad, Shown};
                false -> Shown
            end;
        Value when is_number(Value) ->
            number(Value, Column, Row);
        null when Role =:= ~"value" ->
            ~"-";
        null ->
            ~"";
        Other ->
            dyno_text:clean(iolist_to_binary(json:encode(Other)))
    end.

text(Name, Text) ->
    case lists:member(Name, ?JUDGING) of
        true -> dyno_report_section:word(Text);
        false -> dyno_text:clean(Text)
    end.

number(Value, #{~"name" := ~"ratio"}, _Row) ->
    dyno_report_document:factor(Value);
number(Value, #{~"name" := ~"exponent"}, _Row) ->
    float_to_binary(float(Value), [{decimals, 2}]);
number(Value, Column, Row) ->
    measured(Value, shown_unit(dyno_report_document:unit(Column, Row))).

%% The column's title says that the time is of a call.
shown_unit(~"ns/call") -> ~"ns";
shown_unit(~"words/call") -> ~"1";
shown_unit(Unit) when is_binary(Unit) -> Unit;
shown_unit(_) -> ~"1".
