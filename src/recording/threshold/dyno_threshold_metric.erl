%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_threshold_metric).
-moduledoc """
Finds a threshold's value in a recording.

A name is looked up in this order; the first match counts:
1. a metric of the run with that name,
2. any percentile of a histogram of the run: `latency.p95`, `operation.read.latency.p99.5`,
3. a series with an aggregate at the end: `vm.run_queue.normal.max`, `load.throughput.min`,
4. a series without one: the maximum for sizes, times and counts, the mean for ratios and rates,
5. the run's metric with `.max` added.

Series of the virtual machine and of the system may be shortened: without `vm.`, `os.vm.` or `os.`
at the beginning, and without `.normal` at the end. So `memory.total` is `vm.memory.total`, `cpu` is
`os.vm.cpu`, `cpu.steal` is `os.cpu.steal`, and `run_queue` is `vm.run_queue.normal`.

Aggregates leave out the warm-up (times below 0) and missing values.

`findings critical` is the number of findings of that severity, of all runs and nodes; `findings
all` of any.

Any table can be named, also in the singular. A row is found by the cells of its `key` columns: by
one of them, or by all, separated by spaces.
""".

-export([find/3, value/3, comparable/3, dimension/1]).
-export([lookups/1, names/2, is_table/2, severities/0]).

-export_type([target/0, found/0, bound/0, lookup/0]).

-doc "A metric, series or cell; without a field the first value of a row, such as the exponent.".
-type target() ::
    {metric, Name :: binary()}
    | {cell, Table :: binary(), Row :: binary(), Field :: binary() | undefined}.

-doc "A value with its interval, or why there is none; an unknown end is `unknown`.".
-type found() ::
    {ok, number(), dyno_unit:unit()}
    | {ok, number() | unknown, dyno_unit:unit(), {Low :: bound(), High :: bound()}}
    | {error, unicode:chardata()}.

-type bound() :: number() | unknown.

-type lookup() ::
    {metric, Name :: binary()}
    | {percentile, Histogram :: binary(), Share :: float()}
    | {series, Name :: binary(), mean | min | max | last | undefined}.

-type holder() :: dyno_recording:run() | dyno_recording:document().

-define(AGGREGATES, [{~".mean", mean}, {~".min", min}, {~".max", max}, {~".last", last}]).
%% Optional beginnings of a series' name.
-define(PREFIXES, [~"vm.", ~"os.vm.", ~"os."]).
%% What a load shows, of all of it, an operation or a phase.
-define(OF_LOAD,
    "^(?:(operation|phase)\\.(.+)\\.)?(latency|throughput|operations)(\\.(?!rate).+)?$"
).

-doc """
Whether a value of a dimension can be compared with a limit of another.

A number without a unit fits ratios and rates; a time fits a time for each call; 0 fits everything.
""".
-spec comparable(dyno_unit:dimension(), Wanted :: dyno_unit:dimension(), Limit) -> boolean() when
    Limit :: number().
comparable(Kind, Kind, _) -> true;
comparable(_, number, Limit) when Limit == 0 -> true;
comparable(Kind, Wanted, _) -> lists:member(Wanted, also(Kind)).

also(ratio) -> [number];
also(rate) -> [number];
also(time_per_call) -> [time];
also(words) -> [number];
also(words_per_call) -> [words, number];
also(_) -> [].

-doc "The value of a threshold's subject, in a run or in the tables over all runs.".
-spec find(target(), Node :: binary() | undefined, holder()) -> found().
find({metric, Name}, Node, Run) ->
    case value(Name, Node, Run) of
        none ->
            case is_of_success(Name) andalso value(~"errors.rate", Node, Run) of
                {ok, Rate, _} when Rate == 1 ->
                    {error, "no operation succeeded"};
                {error, _} = None ->
                    None;
                _ ->
                    Names = names(named(~"metrics", Run), named(~"series", Run)),
                    {error, [reason("there is no such metric", Run), closest(Name, Names)]}
            end;
        Found ->
            Found
    end;
find({cell, ~"findings", Severity, undefined}, _Node, Document) ->
    Holders = [Document | maps:get(~"runs", Document, [])],
    case lists:append([dyno_recording:tables(Holder, ~"findings") || Holder <- Holders]) of
        [] ->
            {error, "nothing was looked for"};
        [_ | _] ->
            Found = [S || Holder <- Holders, {_, #{severity := S}} <- dyno_finding:read(Holder)],
            Counted = [S || S <- Found, lists:member(Severity, [~"all", atom_to_binary(S)])],
            {ok, length(Counted), ~"count"}
    end;
find({cell, Table, Row, Field}, Node, Holder) ->
    All = maps:get(~"tables", Holder, []),
    Named = [T || #{~"name" := Name} = T <- All, is_table(Name, Table)],
    Tables = of_node(Named, Node, Holder),
    Rows = [{T, Cells} || #{~"rows" := Rows} = T <- Tables, Cells <- Rows, is_row(T, Cells, Row)],
    case {Rows, Named} of
        {[{T, Cells} | _], _} ->
            cell(T, Cells, Field);
        {[], []} ->
            Names = named(~"tables", Holder),
            {error, [reason(["there is no table ", Table], Holder), closest(Table, Names)]};
        {[], _} ->
            {error, no_row(Table, Row, Tables, Node, Holder)}
    end.

is_of_success(Name) -> binary:match(Name, [~"latency", ~"service"]) =/= nomatch.

no_row(Table, Row, Tables, Node, Holder) ->
    case Table =:= ~"growth" andalso is_measured(Row, Holder) of
        true ->
            "its time per call is known well enough at less than two sizes: measure longer "
            "(--for), give it more (--budget), or name few functions and take --level time";
        false ->
            Keys = [
                Key
             || #{~"rows" := Of} = T <- Tables, Cells <- Of, Key <- keys(T, Cells), is_binary(Key)
            ],
            [
                reason(["there is no such row in the table ", Table], Holder),
                at(Node),
                closest(Row, Keys)
            ]
    end.

%% A function in a run has no exponent if its times are imprecise.
is_measured(Function, Document) ->
    [] =/=
        [
            Cells
         || Run <- maps:get(~"runs", Document, []),
            #{~"rows" := Rows} = Table <- dyno_recording:tables(Run, ~"functions"),
            Cells <- Rows,
            is_row(Table, Cells, Function)
        ].

-doc "The severities of findings, and all of them.".
-spec severities() -> [binary()].
severities() -> [~"critical", ~"warning", ~"doubt", ~"note", ~"all"].

-doc "The value of a metric, percentile or series, or none.".
-spec value(Name :: binary(), Node :: binary() | undefined, dyno_recording:run()) ->
    found() | none.
value(Name, Node, Run) ->
    of_started(Name, first(lookups(Name), Node, Run), Run).

%% Operations that never started would have had the longest response times. If the generator is why,
%% the target may do more than was asked of it, and faster than a late begin shows.
of_started(Name, {ok, Value, Unit} = Found, Run) ->
    case re:run(Name, ?OF_LOAD, [unicode, {capture, all_but_first, binary}]) of
        {match, [_, _, ~"latency", ~".min"]} ->
            Found;
        {match, [Group, Of, What | _]} ->
            case {What, limited(Group, Of, Run)} of
                {~"latency", {true, true}} ->
                    {error, "operations never started, as the generator was the bottleneck"};
                {~"latency", {true, false}} ->
                    {ok, Value, Unit, {Value, unknown}};
                {~"latency", {false, true}} ->
                    {ok, Value, Unit, {least(Value, Run), Value}};
                {~"latency", _} ->
                    Found;
                {_, Limited} ->
                    case Limited =:= {true, true} orelse is_search_limited(Run) of
                        true -> {ok, Value, Unit, {Value, unknown}};
                        false -> Found
                    end
            end;
        nomatch ->
            Found
    end;
of_started(_Name, Found, _Run) ->
    Found.

%% A target that serves in order answers by at most the greatest lateness later, and answers may be
%% read as late as operations begin. More than both is the target's.
least(Value, Run) ->
    case [H || #{~"name" := ~"load.schedule_lag"} = H <- maps:get(~"histograms", Run, [])] of
        [Lag | _] ->
            case Value - 2 * dyno_recording:quantile(Lag, 1.0) of
                Least when Least > 0 -> Least;
                _ -> unknown
            end;
        [] ->
            unknown
    end.

%% A search that the generator ended gives a rate that may be higher.
is_search_limited(Run) ->
    case dyno_recording:metric(Run, ~"load.search.rate") of
        {ok, #{~"low" := Low, ~"high" := null}} -> is_number(Low);
        _ -> false
    end.

%% Whether arrivals never began, and whether the generator was the bottleneck.
limited(~"phase", Phase, Run) ->
    Rows = [
        {State, Dropped}
     || #{~"phase" := Name, ~"state" := State, ~"dropped" := Dropped} <-
            dyno_recording:rows(Run, ~"phases"),
        dyno_recording_part:word(Name) =:= Phase
    ],
    case Rows of
        [{~"saturated", _} | _] -> {true, false};
        [{~"generator limited", Dropped} | _] -> {Dropped > 0, true};
        _ -> {false, false}
    end;
limited(_Group, _Of, Run) ->
    IsAny = fun(Metric) -> above_0(dyno_recording:metric(Run, Metric)) end,
    {IsAny(~"load.saturated"), IsAny(~"load.generator_limited")}.

above_0({ok, #{~"value" := Count}}) -> is_number(Count) andalso Count > 0;
above_0(error) -> false.

%% Names

-doc "The possible places of a name's value, in order.".
-spec lookups(binary()) -> [lookup(), ...].
lookups(Name) ->
    {Plain, Aggregate} = split(Name),
    [{metric, Name}] ++
        percentile(Name) ++
        [{series, N, Aggregate} || N <- full(Plain), N =/= Name] ++
        [{series, N, undefined} || N <- full(Name)] ++
        [{metric, <<Name/binary, ".max">>}].

percentile(Name) ->
    Pattern = ~"^(.+)\\.p([0-9]{1,2})(\\.[0-9]{1,6})?$",
    case re:run(Name, Pattern, [{capture, all_but_first, binary}]) of
        {match, [Of, Whole]} ->
            [{percentile, Of, binary_to_integer(Whole) / 100}];
        {match, [Of, Whole, Rest]} ->
            [{percentile, Of, binary_to_float(<<Whole/binary, Rest/binary>>) / 100}];
        nomatch ->
            []
    end.

full(Name) ->
    [
        <<Prefix/binary, Name/binary, Suffix/binary>>
     || Suffix <- [~"", ~".normal"], Prefix <- [~"" | ?PREFIXES]
    ].

split(Name) ->
    case lists:keyfind(filename:extension(Name), 1, ?AGGREGATES) of
        {Ending, Aggregate} -> {filename:rootname(Name, Ending), Aggregate};
        false -> {Name, undefined}
    end.

-doc "Whether a name means a table: `process` means `processes`.".
-spec is_table(binary(), Written :: binary()) -> boolean().
is_table(Name, Written) ->
    lists:member(Name, [<<Written/binary, Plural/binary>> || Plural <- [~"", ~"s", ~"es"]]).

%% Metrics and series

metric(Name, undefined, Run) ->
    case dyno_recording:metric(Run, Name) of
        %% Only a lower bound is known.
        {ok, #{~"value" := Value, ~"unit" := Unit, ~"low" := Low, ~"high" := null}} when
            is_number(Value), is_number(Low)
        ->
            {ok, Value, Unit, {Low, unknown}};
        {ok, #{~"value" := Value, ~"unit" := Unit} = Metric} ->
            case {string:find(Name, ~"errors."), Metric} of
                %% Operations that never ended may have failed: only the ends are known.
                {<<_/binary>>, #{~"low" := Low, ~"high" := High}} ->
                    {ok, unknown, Unit, {Low, High}};
                {~"errors.rate", #{~"count" := 0}} ->
                    {error, "no operation ended"};
                _ ->
                    number(Value, Unit, why_none(Name, Run))
            end;
        error ->
            none
    end;
metric(_, _, _) ->
    %% Metrics belong to the run, not to a node.
    none.

percentile(Name, Share, undefined, Run) ->
    Histograms = maps:get(~"histograms", Run, []),
    case [H || #{~"name" := Of, ~"labels" := L} = H <- Histograms, Of =:= Name, L =:= #{}] of
        [#{~"unit" := Unit} = Histogram | _] ->
            number(dyno_recording:quantile(Histogram, Share), Unit, why_none(Name, Run));
        [] ->
            none
    end;
percentile(_, _, _, _) ->
    none.

why_none(Name, Run) ->
    Beyond = [
        N
     || #{~"name" := Of, ~"beyond" := N} <- maps:get(~"histograms", Run, []),
        string:prefix(Name, Of) =/= nomatch
    ],
    case Beyond of
        [N | _] -> dyno_recording_part:text("~b operations never ended; they may be slower", [N]);
        [] -> "it was not measured"
    end.

series(Name, Aggregate, Node, Run) ->
    case of_node(dyno_recording:series(Run, Name), Node, Run) of
        [] ->
            none;
        [#{~"times_ms" := Times, ~"values" := Values, ~"unit" := Unit} | _] ->
            case [V || {T, V} <- lists:zip(Times, Values), T >= 0, is_number(V)] of
                [] -> {error, "it was not measured: its series has no values"};
                Measured -> {ok, aggregate(of_unit(Aggregate, Unit), Measured), Unit}
            end
    end.

of_unit(undefined, Unit) ->
    case dyno_unit:dimension(Unit) of
        {ok, Kind} when Kind =:= ratio; Kind =:= rate; Kind =:= byte_rate -> mean;
        _ -> max
    end;
of_unit(Aggregate, _) ->
    Aggregate.

aggregate(mean, Values) -> lists:sum(Values) / length(Values);
aggregate(min, Values) -> lists:min(Values);
aggregate(max, Values) -> lists:max(Values);
aggregate(last, Values) -> lists:last(Values).

of_node(Items, undefined, Holder) ->
    case [Role || #{~"role" := Role} <- maps:get(~"nodes", Holder, [])] of
        [First | _] ->
            {Own, Others} = lists:partition(fun(#{~"node" := Of}) -> Of =:= First end, Items),
            {Common, Rest} = lists:partition(fun(#{~"node" := Of}) -> Of =:= null end, Others),
            Own ++ Common ++ Rest;
        [] ->
            Items
    end;
of_node(Items, Node, Holder) ->
    Roles = [
        Role
     || #{~"role" := Role, ~"name" := Name} <- maps:get(~"nodes", Holder, []),
        lists:member(Node, [Role, Name, hd(binary:split(Name, ~"@"))])
    ],
    [Item || #{~"node" := Of} = Item <- Items, lists:member(Of, [Node | Roles])].

%% Tables

is_row(Table, Cells, Row) ->
    Keys = keys(Table, Cells),
    lists:any(fun(Key) -> same(Key, Row) end, [joined(Keys) | Keys]).

%% Without a key column, the first column is the key.
keys(#{~"columns" := Columns}, Cells) ->
    case [Cell || {#{~"role" := ~"key"}, Cell} <- lists:zip(Columns, Cells)] of
        [] -> lists:sublist(Cells, 1);
        Keys -> Keys
    end.

joined(Keys) ->
    dyno_recording_check:text(
        lists:join(" ", [
            case is_binary(Key) of
                true -> Key;
                false -> json:encode(Key)
            end
         || Key <- Keys
        ])
    ).

%% Quotes of atoms do not distinguish functions: 'a b':f/1 is a b:f/1 in some tables.
same(Key, Row) when is_binary(Key) -> bare(Key) =:= bare(Row);
same(Key, Row) -> iolist_to_binary(json:encode(Key)) =:= Row.

bare(Name) ->
    binary:replace(Name, [~"'", ~"\""], ~"", [global]).

cell(#{~"columns" := Columns}, Cells, Field) ->
    Pairs = lists:zip(Columns, Cells),
    Values = [
        {Name, Unit, Cell}
     || {#{~"name" := Name, ~"unit" := Unit} = Column, Cell} <- Pairs, is_value(Field, Column)
    ],
    case [Value || {Name, _, _} = Value <- Values, Field =:= undefined orelse Field =:= Name] of
        [{Name, Unit, Cell} | _] ->
            bounded(number(Cell, unit(Unit), why_not(Name, Pairs)), unit(Unit), Name, Pairs);
        [] ->
            Names = [Name || {Name, _, _} <- Values],
            {error, [Field, " was not measured for it", closest(Field, Names)]}
    end.

why_not(Name, Pairs) ->
    case [Cell || {#{~"name" := ~"counted"}, Cell} <- Pairs] of
        [~"not counted"] ->
            "its calls were not counted, which would have cost more than the budget (--budget)";
        _ ->
            [Name, " was not measured for it"]
    end.

%% With the row's interval. An exponent's interval describes its law, not the measurement.
bounded(Found, ~"1", _Name, _Pairs) ->
    Found;
bounded(Found, Unit, Name, Pairs) ->
    Bounds =
        #{
            Role => Cell
         || {#{~"role" := Role, ~"of" := Of}, Cell} <- Pairs, Of =:= Name, is_number(Cell)
        },
    Ends = {maps:get(~"low", Bounds, unknown), maps:get(~"high", Bounds, unknown)},
    case Found of
        _ when map_size(Bounds) =:= 0 -> Found;
        {ok, Value, Unit} -> {ok, Value, Unit, Ends};
        {error, _} -> {ok, unknown, Unit, Ends}
    end.

is_value(_, #{~"type" := ~"string"}) -> false;
is_value(undefined, #{~"role" := ~"key"}) -> false;
is_value(_, _) -> true.

unit(null) -> ~"1";
unit(Unit) -> Unit.

number(Value, Unit, _) when is_number(Value) -> {ok, Value, Unit};
number(_, _, Why) -> {error, Why}.

-doc "The dimension of a unit; unknown units compare as numbers.".
-spec dimension(dyno_unit:unit() | undefined) -> dyno_unit:dimension().
dimension(Unit) ->
    case dyno_unit:dimension(Unit) of
        {ok, Kind} -> Kind;
        error -> number
    end.

first([Lookup | Rest], Node, Run) ->
    Found =
        case Lookup of
            {metric, Name} -> metric(Name, Node, Run);
            {percentile, Name, Share} -> percentile(Name, Share, Node, Run);
            {series, Name, Aggregate} -> series(Name, Aggregate, Node, Run)
        end,
    case Found of
        none -> first(Rest, Node, Run);
        _ -> Found
    end;
first([], _Node, _Run) ->
    none.

%% Texts

named(Key, Holder) ->
    [Name || #{~"name" := Name} <- maps:get(Key, Holder, [])].

-doc "The possible names of these metrics and series.".
-spec names([binary()], [binary()]) -> [binary()].
names(Metrics, Series) ->
    Short = [
        Rest
     || Name <- Series,
        Prefix <- ?PREFIXES,
        Rest <- [string:prefix(Name, Prefix)],
        Rest =/= nomatch
    ],
    Metrics ++ Series ++ Short.

closest(Name, Names) ->
    dyno_similar:closest_are(dyno_similar:closest(Name, Names)).

%% An incomplete run may lack values.
reason(_Text, #{~"id" := _, ~"status" := Status}) when Status =/= ~"complete" ->
    ["it was not measured (the run is ", Status, ")"];
reason(Text, _) ->
    Text.

at(undefined) -> "";
at(Node) -> [" at node ", Node].
