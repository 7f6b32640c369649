%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_threshold_metric).
-moduledoc """
Finds what a threshold names in a recording, and tells from a name what it measures.

A name is looked up in this order; the first that is there counts:
1. a metric of the run with that name,
2. a series with the aggregate at its end: `vm.run_queue.normal.max`, `load.throughput.min`,
3. a series without one; then the maximum counts for sizes, times and counts, the mean for ratios
   and rates,
4. the run's metric with `.max` added.

A series may go by a short form, with or without an aggregate:

| short form | series |
| --- | --- |
| `memory.total`, `.processes`, `.system`, `.atom`, `.binary`, `.code`, `.ets` | `vm.memory.*` |
| `run_queue`, `run_queue.dirty_cpu`, `run_queue.dirty_io` | `vm.run_queue.normal` and the others |
| `scheduler_utilisation`, and the same | `vm.scheduler_utilisation.normal` and the others |
| `reductions`, `garbage_collections`, `context_switches` | `vm.*` |
| `processes`, `ports`, `atoms`, `ets_tables` | `vm.*` |
| `io.input`, `io.output` | `vm.io.*` |
| `cpu` | `os.vm.cpu`, the target's own share of one core |
| `rss`, `threads` | `os.vm.*` |
| `cpu.user`, `.system`, `.iowait`, `.steal`, `.idle` | `os.cpu.*` |
| `swap.used`, `disk.await`, `network.received`, `network.sent`, `load1` | `os.*` |

Aggregates leave out the warm-up (times below 0) and what could not be measured.
""".

-export([find/3, growth/2]).
-export([kind/1, figure_kind/2, figures/1, comparable/3, accepted/1]).

-export_type([found/0, form/0]).

-doc "What has figures of its own, in a table of the run.".
-type form() :: function | process | ets | port.

-doc "A value with the unit it was recorded in, or why there is none.".
-type found() :: {ok, number(), dyno_unit:unit()} | {error, unicode:chardata()}.

-type aggregate() :: mean | min | max | last.

-define(AGGREGATES, [{~".mean", mean}, {~".min", min}, {~".max", max}, {~".last", last}]).
-define(CLOSEST, 3).

%% name or prefix of what a test records, and its kind; the longest that fits counts
-define(KINDS, [
    {~"latency.", time},
    {~"service.", time},
    {~"throughput", rate},
    {~"operations.count", number},
    {~"errors.count", number},
    {~"errors.rate", ratio},
    {~"load.offered", rate},
    {~"load.throughput", rate},
    {~"load.errors", rate},
    {~"load.achieved", rate},
    {~"load.achieved_share", ratio},
    {~"load.dropped", number},
    {~"load.queued", number},
    {~"load.lagged", number},
    {~"load.saturated", number},
    {~"load.generator_limited", number},
    {~"load.nodes", number},
    {~"load.nodes_lost", number},
    {~"load.search.", rate},
    {~"load.schedule_lag.", time},
    {~"load.latency.", time},
    {~"load.start_time", time},
    {~"load.stop_time", time},
    {~"workers.max", number},
    {~"processes.discovered", number},
    {~"vm.scheduler_utilisation.", ratio},
    {~"vm.run_queue.", number},
    {~"vm.memory.", size},
    {~"vm.reductions", rate},
    {~"vm.garbage_collections", rate},
    {~"vm.context_switches", rate},
    {~"vm.processes", number},
    {~"vm.ports", number},
    {~"vm.atoms", number},
    {~"vm.ets_tables", number},
    {~"vm.io.", byte_rate},
    {~"os.cpu.", ratio},
    {~"os.memory.", size},
    {~"os.swap.", size},
    {~"os.disk.await", time},
    {~"os.network.", byte_rate},
    {~"os.vm.rss", size},
    {~"os.vm.threads", number},
    {~"os.vm.cpu", ratio},
    {~"os.load1", number}
]).

%% short form (whole, or up to a dot) and what stands for it
-define(SHORT, [
    {~"memory.", ~"vm.memory."},
    {~"run_queue.", ~"vm.run_queue."},
    {~"run_queue", ~"vm.run_queue.normal"},
    {~"scheduler_utilisation.", ~"vm.scheduler_utilisation."},
    {~"scheduler_utilisation", ~"vm.scheduler_utilisation.normal"},
    {~"reductions", ~"vm.reductions"},
    {~"garbage_collections", ~"vm.garbage_collections"},
    {~"context_switches", ~"vm.context_switches"},
    {~"processes", ~"vm.processes"},
    {~"ports", ~"vm.ports"},
    {~"atoms", ~"vm.atoms"},
    {~"ets_tables", ~"vm.ets_tables"},
    {~"io.", ~"vm.io."},
    {~"cpu", ~"os.vm.cpu"},
    {~"cpu.", ~"os.cpu."},
    {~"rss", ~"os.vm.rss"},
    {~"threads", ~"os.vm.threads"},
    {~"swap.", ~"os.swap."},
    {~"disk.", ~"os.disk."},
    {~"network.", ~"os.network."},
    {~"load1", ~"os.load1"}
]).

-define(FIGURES, [
    {function, ~"time_per_call", time_per_call},
    {function, ~"calls", number},
    {function, ~"share", ratio},
    {function, ~"own_time", time},
    {function, ~"words", words},
    {function, ~"words_per_call", words_per_call},
    {process, ~"memory", size},
    {process, ~"memory_max", size},
    {process, ~"alive", number},
    {process, ~"discovered", number},
    {process, ~"reductions", number},
    {process, ~"message_queue_max", number},
    {process, ~"garbage_collections", number},
    {process, ~"sampled", number},
    {process, ~"ended", number},
    {process, ~"lifetime_p50", time},
    {process, ~"lifetime_p90", time},
    {process, ~"lifetimes", number},
    {ets, ~"memory", size},
    {ets, ~"memory_max", size},
    {ets, ~"memory_growth", size},
    {ets, ~"objects", number},
    {ets, ~"objects_max", number},
    {ets, ~"tables", number},
    {port, ~"open", number},
    {port, ~"open_max", number},
    {port, ~"input", size},
    {port, ~"output", size},
    {port, ~"queue_max", size}
]).
%% form, table, the column with the name, what one is, what many are
-define(FORMS, [
    {function, ~"functions", ~"function", "function", "functions"},
    {process, ~"processes", ~"group", "process group", "processes"},
    {ets, ~"ets", ~"table", "ETS table", "ETS tables"},
    {port, ~"ports", ~"kind", "kind of port", "ports"}
]).

-doc "What a target measures, where its name tells.".
-spec kind(dyno_threshold:target()) -> {ok, dyno_unit:kind()} | unknown.
kind({growth, _}) ->
    {ok, number};
kind({metric, Name}) ->
    {Plain, _} = split(Name),
    case lists:append([kinds(N) || N <- [Name | full(Plain)]]) of
        [Kind | _] -> {ok, Kind};
        [] -> unknown
    end;
kind({Form, _, Figure}) ->
    {ok, _} = figure_kind(Form, Figure).

-doc "What a column of functions, processes, tables or ports measures.".
-spec figure_kind(form(), binary()) -> {ok, dyno_unit:kind()} | error.
figure_kind(Form, Figure) ->
    case [Kind || {F, Name, Kind} <- ?FIGURES, F =:= Form, Name =:= Figure] of
        [Kind] -> {ok, Kind};
        [] -> error
    end.

-doc "The figures a threshold can name.".
-spec figures(form()) -> [binary()].
figures(Form) ->
    [Name || {F, Name, _} <- ?FIGURES, F =:= Form].

-doc """
Whether a value of a kind can be compared with a limit of another.

A number without a unit serves for ratios and rates; a time for a time per call; 0 for everything.
""".
-spec comparable(dyno_unit:kind(), Given :: dyno_unit:kind(), Limit :: number()) -> boolean().
comparable(Kind, Kind, _) -> true;
comparable(_, number, Limit) when Limit == 0 -> true;
comparable(Kind, Given, _) -> lists:member(Given, also(Kind)).

-doc "The units a limit for a kind may have; `none` for a number without a unit.".
-spec accepted(dyno_unit:kind()) -> [binary() | none].
accepted(Kind) ->
    lists:append([dyno_unit:accepted(K) || K <- [Kind | also(Kind)]]).

-spec also(dyno_unit:kind()) -> [dyno_unit:kind()].
also(ratio) -> [number];
also(rate) -> [number];
also(time_per_call) -> [time];
also(words) -> [number];
also(words_per_call) -> [words, number];
also(_) -> [].

-doc "The value of a metric, series, function or process group in a run.".
-spec find(dyno_threshold:target(), Node :: binary() | undefined, dyno_recording:run()) -> found().
find({metric, Name}, Node, Run) ->
    {Plain, Aggregate} = split(Name),
    Lookups =
        [fun() -> metric(Name, Node, Run) end] ++
            [fun() -> series(N, Aggregate, Node, Run) end || N <- full(Plain), N =/= Name] ++
            [fun() -> series(N, undefined, Node, Run) end || N <- full(Name)] ++
            [fun() -> metric(<<Name/binary, ".max">>, Node, Run) end],
    case first(Lookups) of
        none -> {error, [reason("there is no such metric", Run), closest(Name, names(Run))]};
        Found -> Found
    end;
find({Form, Name, Figure}, Node, Run) ->
    {Form, Table, Key, What, _} = lists:keyfind(Form, 1, ?FORMS),
    Tables = of_node(dyno_recording:tables(Run, Table), Node, Run),
    Rows = [{T, Row} || T <- Tables, Row <- maps:get(~"rows", T), same(cell(T, Key, Row), Name)],
    case {Rows, Tables} of
        {[{T, Row} | _], _} ->
            number(cell(T, Figure, Row), unit(T, Form, Figure), [
                Figure, " was not measured for it"
            ]);
        {[], []} ->
            {error, [reason("the run has no figures of its " ++ plural(Form), Run), at(Node)]};
        {[], _} ->
            Names = [cell(T, Key, Row) || T <- Tables, Row <- maps:get(~"rows", T)],
            {error, [
                reason("there is no such " ++ What, Run), at(Node),
                closest(Name, [N || N <- Names, is_binary(N)])
            ]}
    end.

-doc "The exponent with which a function or metric grows with the size.".
-spec growth(binary(), dyno_recording:document()) -> found().
growth(Name, Document) ->
    Tables = dyno_recording:tables(Document, ~"growth"),
    Rows = [{T, Row} || T <- Tables, Row <- maps:get(~"rows", T)],
    case [{T, Row} || {T, Row} <- Rows, same(cell(T, ~"name", Row), Name)] of
        [{T, Row} | _] ->
            number(cell(T, ~"exponent", Row), ~"1", "there are too few sizes to tell");
        [] when Rows =:= [] ->
            {error, "the recording has no figures of growth, which need several sizes"};
        [] ->
            Names = [N || {T, Row} <- Rows, N <- [cell(T, ~"name", Row)], is_binary(N)],
            {error, ["growth was not computed for it", closest(Name, Names)]}
    end.

%% Names

-spec kinds(binary()) -> [dyno_unit:kind()].
kinds(Name) ->
    case binary:split(Name, ~".", [global]) of
        %% Of a kind of operation, or of a phase, there is what there is of all.
        [Of, _Which | Rest] when Rest =/= [], Of =:= ~"operation" orelse Of =:= ~"phase" ->
            kinds(iolist_to_binary(lists:join(~".", Rest)));
        _ ->
            [Kind || {Prefix, Kind} <- ?KINDS, fits(Prefix, Name)]
    end.

%% A name ending in a dot stands for all below it.
-spec fits(binary(), binary()) -> boolean().
fits(Prefix, Name) ->
    case binary:last(Prefix) of
        $. -> string:prefix(Name, Prefix) =/= nomatch;
        _ -> Prefix =:= Name
    end.

%% The names a series may be recorded under: as it stands, and what the short form stands for.
-spec full(binary()) -> [binary()].
full(Name) ->
    Long = [
        <<Full/binary, (string:slice(Name, string:length(Short)))/binary>>
     || {Short, Full} <- ?SHORT, fits(Short, Name)
    ],
    [Name | Long].

-spec split(binary()) -> {binary(), aggregate() | undefined}.
split(Name) ->
    Parts = [
        {binary:part(Name, 0, byte_size(Name) - byte_size(Suffix)), Aggregate}
     || {Suffix, Aggregate} <- ?AGGREGATES,
        byte_size(Name) > byte_size(Suffix),
        binary:longest_common_suffix([Name, Suffix]) =:= byte_size(Suffix)
    ],
    case Parts of
        [Part] -> Part;
        [] -> {Name, undefined}
    end.

%% Quotes of atoms do not tell functions apart: 'a b':f/1 is a b:f/1 in some tables.
-spec same(dyno_recording:json(), binary()) -> boolean().
same(Cell, Name) when is_binary(Cell) -> bare(Cell) =:= bare(Name);
same(_, _) -> false.

-spec bare(binary()) -> binary().
bare(Name) ->
    binary:replace(Name, [~"'", ~"\""], ~"", [global]).

%% Values

-spec metric(binary(), binary() | undefined, dyno_recording:run()) -> found() | none.
metric(Name, undefined, Run) ->
    case dyno_recording:metric(Run, Name) of
        {ok, #{~"value" := Value, ~"unit" := Unit}} -> number(Value, Unit, "it was not measured");
        error -> none
    end;
metric(_, _, _) ->
    %% Metrics belong to the run, not to a node.
    none.

-spec series(binary(), aggregate() | undefined, binary() | undefined, dyno_recording:run()) ->
    found() | none.
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

-spec of_unit(aggregate() | undefined, dyno_unit:unit()) -> aggregate().
of_unit(undefined, Unit) ->
    case dyno_unit:kind(Unit) of
        {ok, Kind} when Kind =:= ratio; Kind =:= rate; Kind =:= byte_rate -> mean;
        _ -> max
    end;
of_unit(Aggregate, _) ->
    Aggregate.

-spec aggregate(aggregate(), [number(), ...]) -> number().
aggregate(mean, Values) -> lists:sum(Values) / length(Values);
aggregate(min, Values) -> lists:min(Values);
aggregate(max, Values) -> lists:max(Values);
aggregate(last, Values) -> lists:last(Values).

%% Of the node that was asked for; else the first target's first, then those of no node.
-spec of_node([dyno_recording:object()], binary() | undefined, dyno_recording:run()) ->
    [dyno_recording:object()].
of_node(Items, undefined, Run) ->
    case [Role || #{~"role" := Role} <- maps:get(~"nodes", Run, [])] of
        [First | _] ->
            {Own, Others} = lists:partition(fun(Item) -> node_of(Item) =:= First end, Items),
            {Common, Rest} = lists:partition(fun(Item) -> node_of(Item) =:= null end, Others),
            Own ++ Common ++ Rest;
        [] ->
            Items
    end;
of_node(Items, Node, Run) ->
    Roles = [
        Role
     || #{~"role" := Role, ~"name" := Name} <- maps:get(~"nodes", Run, []),
        Of <- [Role, Name, hd(binary:split(Name, ~"@"))],
        Of =:= Node
    ],
    [Item || Item <- Items, lists:member(node_of(Item), [Node | Roles])].

-spec node_of(dyno_recording:object()) -> dyno_recording:json().
node_of(Item) ->
    maps:get(~"node", Item, null).

-spec cell(dyno_recording:object(), binary(), [dyno_recording:json()]) -> dyno_recording:json().
cell(#{~"columns" := Columns}, Name, Row) ->
    case [Cell || {#{~"name" := Of}, Cell} <- lists:zip(Columns, Row), Of =:= Name] of
        [Cell | _] -> Cell;
        [] -> null
    end.

%% The column's own unit; where it has none, that of the figure's kind.
-spec unit(dyno_recording:object(), form(), binary()) -> dyno_unit:unit().
unit(#{~"columns" := Columns}, Form, Figure) ->
    case [Unit || #{~"name" := Of, ~"unit" := Unit} <- Columns, Of =:= Figure, Unit =/= null] of
        [Unit | _] ->
            Unit;
        [] ->
            {ok, Kind} = figure_kind(Form, Figure),
            dyno_unit:base(Kind)
    end.

-spec number(dyno_recording:json(), dyno_unit:unit(), unicode:chardata()) -> found().
number(Value, Unit, _) when is_number(Value) -> {ok, Value, Unit};
number(_, _, Why) -> {error, Why}.

-spec first([fun(() -> found() | none)]) -> found() | none.
first([Lookup | Rest]) ->
    case Lookup() of
        none -> first(Rest);
        Found -> Found
    end;
first([]) ->
    none.

%% Texts

-spec names(dyno_recording:run()) -> [binary()].
names(Run) ->
    Series = [Name || #{~"name" := Name} <- maps:get(~"series", Run, [])],
    Short = [
        <<Form/binary, (string:slice(Name, string:length(Full)))/binary>>
     || Name <- Series, {Form, Full} <- ?SHORT, fits(Full, Name)
    ],
    [Name || #{~"name" := Name} <- maps:get(~"metrics", Run, [])] ++ Series ++ Short.

-spec closest(binary(), [binary()]) -> unicode:chardata().
closest(Name, Names) ->
    case lists:sublist(dyno_similar:ranked(Name, Names), ?CLOSEST) of
        [] -> "";
        Near -> ["; the closest are ", lists:join(", ", Near)]
    end.

-spec reason(string(), dyno_recording:run()) -> unicode:chardata().
reason(Text, #{~"status" := ~"complete"}) -> Text;
reason(Text, #{~"status" := Status}) -> [Text, " (the run is ", Status, ")"].

-spec at(binary() | undefined) -> unicode:chardata().
at(undefined) -> "";
at(Node) -> [" at node ", Node].

-spec plural(form()) -> string().
plural(Form) -> element(5, lists:keyfind(Form, 1, ?FORMS)).
