%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_report_content_load).
-moduledoc "Rows for a test's runs: the load, virtual machine, machine, cost, and clocks.".

-export([load/1, failures/1, machines/1, costs/1]).

-import(dyno_report_document, [
    get/2, get/3, measured/2, metric/2, metric_value/2, name/2, values/3
]).

-type section() :: dyno_report_section:section().

%% Samples have whole milliseconds: less shows nothing.
-define(LEAST_NS, 1_000_000).
-define(MOST_REASONS, 3).

-doc "The load at each size, and the highest rates that searches found.".
-spec load(dyno_report:document()) -> [section()].
load(Document) ->
    Runs = dyno_recording:runs(Document),
    table(title(Runs), load_columns(), having(~"errors.count", Runs), Document) ++
        table(
            ~"Load, given by the suite itself",
            suite_load_columns(),
            having(~"load.start_time", Runs),
            Document
        ) ++
        table(
            ~"Highest rate at which the objective holds",
            search_columns(),
            having(~"load.search.rate", Runs),
            Document
        ).

%% A search's metrics are those of some of its probes.
title(Runs) ->
    case [Rate || #{~"value" := Rate} <- [metric(~"load.search.rate", Run) || Run <- Runs]] of
        [] ->
            ~"Load";
        Rates ->
            case lists:member(0, Rates) of
                false -> ~"Load, probes at the rate found";
                true -> ~"Load, probes at the rate found, or the last ones"
            end
    end.

having(Name, Runs) ->
    [Run || lists:any(fun(Of) -> metric(Name, Of) =/= null end, Runs), Run <- Runs].

table(Title, Columns, Runs, Document) ->
    %% Repetitions are told apart by the run's id; a size that ran once is its number.
    Of = [
        {dyno_report_document:run_title(Document), number, fun(Run) -> name(~"id", Run) end}
     || several(Document)
    ],
    dyno_report_section:table(Title, Of ++ Columns, Runs).

several(Document) ->
    case dyno_recording:runs(Document) of
        [#{~"size" := Size}] -> is_number(Size);
        Runs -> length(Runs) > 1
    end.

of_metric(Name, Unit) ->
    fun(Run) -> measured(metric_value(Name, Run), Unit) end.

load_columns() ->
    [
        {~"offered", optional, of_metric(~"load.offered", ~"1/s")},
        {~"throughput", number, of_metric(~"throughput", ~"1/s")},
        {~"p50", number, of_metric(~"latency.p50", ~"ns")},
        {~"p90", optional, of_metric(~"latency.p90", ~"ns")},
        {~"p99", number, of_metric(~"latency.p99", ~"ns")},
        {~"p99.9", optional, of_metric(~"latency.p99.9", ~"ns")},
        {~"max", optional, of_metric(~"latency.max", ~"ns")},
        {~"service p99", optional, fun(Run) ->
            %% Of a closed load, the same as response times.
            case metric(~"load.offered", Run) of
                null -> ~"";
                _ -> measured(metric_value(~"service.p99", Run), ~"ns")
            end
        end},
        {~"errors", number, fun errors/1},
        {~"dropped", optional, fun(Run) -> alarming(metric_value(~"load.dropped", Run)) end},
        {~"", sentence, fun status/1}
    ].

errors(Run) ->
    case {alarming(metric_value(~"errors.count", Run)), metric_value(~"errors.rate", Run)} of
        {{bad, Count}, Rate} when is_number(Rate) ->
            {bad, <<Count/binary, " (", (measured(Rate, ~"ratio"))/binary, ")">>};
        {Cell, _} ->
            Cell
    end.

alarming(Count) ->
    case is_above_0(Count) of
        true -> {bad, measured(Count, ~"count")};
        false -> measured(Count, ~"count")
    end.

%% A complete run with a kept load needs no word.
status(#{~"status" := ~"complete"} = Run) ->
    %% All arrivals began: the load was kept, and response times hold the generator's delay.
    Generator =
        case is_above_0(metric_value(~"load.dropped", Run)) of
            true -> ~"generator limited";
            false -> ~"generator late"
        end,
    Limits = [{~"load.generator_limited", Generator}, {~"load.saturated", ~"saturated"}],
    hd([{bad, Word} || {Name, Word} <- Limits, is_above_0(metric_value(Name, Run))] ++ [~""]);
status(#{~"status" := ~"failed"}) ->
    {bad, ~"failed"};
status(Run) ->
    {doubtful, dyno_report_document:text(~"status", Run, ~"")}.

is_above_0(Value) -> is_number(Value) andalso Value > 0.

suite_load_columns() ->
    [
        {~"measured for", number, fun(Run) -> measured(get(~"duration_ns", Run), ~"ns") end},
        {~"start_load took", number, of_metric(~"load.start_time", ~"ns")},
        {~"stop_load took", number, of_metric(~"load.stop_time", ~"ns")},
        {~"", sentence, fun status/1}
    ].

search_columns() ->
    [
        {~"highest rate", number, of_metric(~"load.search.rate", ~"1/s")},
        {~"interval", number, fun(Run) ->
            case metric(~"load.search.rate", Run) of
                #{~"low" := Low, ~"high" := High} when is_number(Low), is_number(High) ->
                    [From, To] = [measured(Rate, ~"1/s") || Rate <- [Low, High]],
                    <<From/binary, " .. ", To/binary>>;
                #{~"low" := Low, ~"high" := null} when is_number(Low) ->
                    <<(measured(Low, ~"1/s"))/binary, " or more">>;
                _ ->
                    ~"-"
            end
        end},
        {~"held there", number, fun held/1},
        {~"probes", number, fun(Run) ->
            Counts = [
                get(Key, Row, 0)
             || Row <- dyno_recording:rows(Run, ~"probes"), Key <- [~"held", ~"failed"]
            ],
            measured(lists:sum(Counts), ~"count")
        end},
        {~"why not more", sentence, fun why/1}
    ].

held(Run) ->
    Found = metric_value(~"load.search.rate", Run),
    Rows = dyno_recording:rows(Run, ~"probes"),
    case [Row || #{~"rate" := Rate} = Row <- Rows, Rate =:= Found] of
        [#{~"held" := Held, ~"failed" := Failed}] ->
            <<
                (measured(Held, ~"count"))/binary,
                " of ",
                (measured(Held + Failed, ~"count"))/binary
            >>;
        [] ->
            ~"-"
    end.

why(Run) ->
    Found = metric_value(~"load.search.rate", Run),
    Said = [
        dyno_report_document:text(~"text", Warning, ~"")
     || #{~"code" := ~"search"} = Warning <- get(~"warnings", Run, [])
    ],
    %% The lowest failed rate has the reason.
    Failed = [
        dyno_report_document:text(~"reason", Row, ~"")
     || #{~"rate" := Rate, ~"failed" := N} = Row <- dyno_recording:rows(Run, ~"probes"),
        N > 0,
        Rate > Found
    ],
    hd(Said ++ Failed ++ [~"no higher rate was tried"]).

-doc "A stack trace of each of the most frequent reasons of failed operations.".
-spec failures(dyno_report:document()) -> [section()].
failures(Document) ->
    Rows = dyno_report_content_tables:rows(~"errors", Document),
    Reasons = lists:uniq(
        fun(#{~"reason" := Reason}) -> Reason end,
        [Row || #{~"stack" := Stack} = Row <- Rows, is_binary(Stack)]
    ),
    dyno_report_section:text(~"Stacks of failed operations", [
        dyno_text:clean(
            iolist_to_binary([
                Reason, " in ", lists:join(", called from ", string:split(Stack, "\n", all))
            ])
        )
     || #{~"reason" := Reason, ~"stack" := Stack} <- lists:sublist(Reasons, ?MOST_REASONS)
    ]).

-doc "One section for each target, to keep few columns.".
-spec machines(dyno_report:document()) -> [section()].
machines(Document) ->
    Runs = dyno_recording:runs(Document),
    Nodes = lists:uniq(lists:append([dyno_report_document:nodes(Run) || Run <- Runs])),
    lists:append([
        table(
            machine_title(Node, Nodes),
            machine_columns(Node),
            [Run || Run <- Runs, sampled(Node, Run)],
            Document
        )
     || Node <- Nodes
    ]).

machine_title(_Node, [_]) -> ~"Virtual machine and machine";
machine_title(null, _Nodes) -> ~"Machine";
machine_title(Node, _Nodes) -> <<"Virtual machine of ", (dyno_text:clean(Node))/binary>>.

sampled(Node, Run) ->
    [] =/=
        [
            Series
         || #{~"group" := Group} = Series <- get(~"series", Run, []),
            Group =:= ~"vm" orelse Group =:= ~"os",
            get(~"node", Series) =:= Node
        ].

machine_columns(Node) ->
    Of = fun(Summary, Name, Unit) ->
        fun(Run) -> measured(Summary(values(Name, Node, Run)), Unit) end
    end,
    [
        {~"utilisation", number, Of(fun mean/1, ~"vm.scheduler_utilisation.normal", ~"ratio")},
        {~"run queue", number, Of(fun highest/1, ~"vm.run_queue.normal", ~"count")},
        {~"memory", number, Of(fun highest/1, ~"vm.memory.total", ~"B")},
        {~"RSS", optional, Of(fun highest/1, ~"os.vm.rss", ~"B")},
        {~"processes", optional, Of(fun highest/1, ~"vm.processes", ~"count")},
        {~"CPU of machine", optional, fun(Run) ->
            Parts = [values(Name, Node, Run) || Name <- [~"os.cpu.user", ~"os.cpu.system"]],
            [User, System] = Parts,
            measured(mean(lists:zipwith(fun erlang:'+'/2, User, System, trim)), ~"ratio")
        end},
        {~"I/O wait", optional, Of(fun mean/1, ~"os.cpu.iowait", ~"ratio")},
        {~"steal", optional, Of(fun mean/1, ~"os.cpu.steal", ~"ratio")}
    ].

mean([]) -> null;
mean(Values) -> dyno_stats:mean(Values).

highest([]) -> null;
highest(Values) -> lists:max(Values).

-doc "The cost of measuring against runs without, and the targets' clocks.".
-spec costs(dyno_report:document()) -> [section()].
costs(Document) ->
    Runs = dyno_recording:runs(Document),
    Having = fun(Names) ->
        [R || R <- Runs, lists:any(fun(Name) -> metric(Name, R) =/= null end, Names)]
    end,
    Compared = Having(ratios()),
    Title =
        case Compared of
            [] -> ~"Cost of measuring";
            _ -> ~"Cost of measuring, against runs without it"
        end,
    table(Title, cost_columns(), Having([~"instrument.spent" | ratios()]), Document) ++
        dyno_report_section:text(none, [
            ~"A longer --for tells more."
         || lists:any(fun is_open/1, [metric(Name, Run) || Run <- Compared, Name <- ratios()])
        ]) ++
        clocks(Runs).

ratios() -> [~"instrument.response_ratio", ~"instrument.throughput_ratio"].

is_open(#{~"value" := Value}) -> Value =:= null;
is_open(null) -> false.

cost_columns() ->
    [
        {Title, optional, fun(Run) -> times(metric(Name, Run)) end}
     || {Title, Name} <- lists:zip([~"response time", ~"throughput"], ratios())
    ] ++
        [
            {~"to measure calls, reckoned", optional, of_metric(~"instrument.spent", ~"ratio")},
            {~"calls were timed for", optional, of_metric(~"instrument.timed", ~"ratio")},
            {~"to sample stacks", optional, of_metric(~"instrument.stacks", ~"ratio")},
            {~"operations without it", optional, of_metric(~"uninstrumented.operations", ~"count")},
            {~"per call", optional, fun(Run) ->
                %% With a budget, only some calls are timed.
                case metric(~"instrument.spent", Run) of
                    null -> measured(metric_value(~"instrument.overhead", Run), ~"ns");
                    _ -> ~""
                end
            end}
        ].

times(#{~"value" := null, ~"low" := Low}) when is_number(Low) ->
    ~"too noisy to tell";
times(#{~"value" := null}) ->
    ~"too few operations to tell";
times(#{~"value" := Value, ~"low" := Low, ~"high" := High}) when is_number(Low), is_number(High) ->
    Factors = [float(Factor) || Factor <- [Value, Low, High]],
    iolist_to_binary(io_lib:format("x~.2f (x~.2f to x~.2f)", Factors));
times(#{~"value" := Value}) ->
    iolist_to_binary(io_lib:format("x~.2f", [float(Value)]));
times(null) ->
    ~"-".

%% A line for each clock that is off by more than its error and a millisecond, in its last run.
clocks(Runs) ->
    Off = [
        {get(~"role", Node, name(~"name", Node)), Ns, Error}
     || Run <- Runs,
        #{~"clock_offset_ns" := Ns, ~"clock_error_ns" := Error} = Node <- get(~"nodes", Run, []),
        is_number(Ns),
        is_number(Error),
        abs(Ns) > Error,
        abs(Ns) >= ?LEAST_NS
    ],
    Last = maps:from_list([{Role, Of} || {Role, _, _} = Of <- Off]),
    dyno_report_section:text(~"Clocks of the targets, against dyno's", [
        dyno_recording_part:text("~ts: ~ts~ts (+/- ~ts)", [
            dyno_text:clean(Role), measured(abs(Ns), ~"ns"), ahead(Ns), measured(Error, ~"ns")
        ])
     || {Role, Ns, Error} <- lists:sort(maps:values(Last))
    ]).

ahead(Ns) when Ns > 0 -> " ahead";
ahead(_Ns) -> " behind".
