%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_cli_bench_cluster).
-moduledoc "`dyno bench CODE --node A --node B`: runs a code in several nodes at once.".

-export([run/1]).
-export_type([settings/0]).

-type settings() :: #{
    nodes := [node(), ...],
    code := dyno_bench_code:code(),
    concurrency := pos_integer(),
    duration_ms := pos_integer(),
    cookie => atom()
}.

-define(INTERVAL_MS, 1000).
%% Repeats the heading for scrolling terminals.
-define(PAGE, 30).
-define(NODE_WIDTH, 24).

-doc "Runs; an interrupt ends it early and keeps the results so far.".
-spec run(settings()) -> dyno_error:result(dyno_recording:document()).
run(#{nodes := Nodes, code := Code, duration_ms := DurationMs} = Settings) ->
    Self = self(),
    Options = (maps:with([nodes, code, concurrency, cookie], Settings))#{
        interval_ms => ?INTERVAL_MS,
        limit_ms => DurationMs + 600_000,
        kept => DurationMs div ?INTERVAL_MS + 2,
        handler => fun(Sample) -> Self ! {?MODULE, Sample} end
    },
    _ = process_flag(trap_exit, true),
    maybe
        {ok, Cluster} ?= dyno_bench_cluster:start_link(Options),
        %% An interval's sample comes half an interval after its end.
        EndMs = erlang:monotonic_time(millisecond) + DurationMs + ?INTERVAL_MS * 3 div 4,
        {Ended, Samples} = collect(Cluster, EndMs, []),
        ok = dyno_bench_cluster:stop(Cluster),
        ended(Ended, Samples, parameters(Nodes, Code, Settings))
    end.

parameters(Nodes, Code, #{concurrency := Concurrency}) ->
    #{
        codes => [dyno_bench_code:label(Code)],
        mode => cluster,
        nodes => [atom_to_binary(Node) || Node <- Nodes],
        concurrency => Concurrency,
        interval_ms => ?INTERVAL_MS
    }.

collect(Cluster, EndMs, Samples) ->
    receive
        {?MODULE, Sample} ->
            Heading = [heading() || length(Samples) rem ?PAGE =:= 0],
            lists:foreach(fun dyno_cli_terminal:note/1, Heading ++ lines(Sample)),
            collect(Cluster, EndMs, [Sample | Samples]);
        dyno_interrupt ->
            {interrupted, Samples};
        {'EXIT', Cluster, Reason} ->
            {{failed, Reason}, Samples}
    after max(0, EndMs - erlang:monotonic_time(millisecond)) ->
        {complete, Samples}
    end.

ended({failed, {shutdown, {dyno_bench_remote, {node_lost, _}}}}, [_ | _] = Samples, Parameters) ->
    ended(complete, Samples, Parameters);
ended({failed, {shutdown, {_Module, _Reason} = Error}}, _Samples, _Parameters) ->
    {error, Error};
ended({failed, Reason}, _Samples, _Parameters) ->
    {error, {dyno_bench_cluster, {died, Reason}}};
ended(Status, Samples, Parameters) ->
    Environment = dyno_environment:collect(),
    Oldest = lists:reverse(Samples),
    {ok, dyno_bench_cluster_result:document(Status, Parameters, Oldest, Environment)}.

heading() ->
    Own = columns("YYYY-MM-DDTHH:MM:SS-oo:oo", "Node", "Workers", "Per second"),
    dyno_cli_bench_monitor:heading(Own).

lines(#{time_ms := Ms, nodes := Nodes, per_second := PerSecond}) ->
    Time = calendar:system_time_to_rfc3339(Ms div 1000),
    Workers = lists:sum([C || #{concurrency := C} <- Nodes]),
    [line(Time, Node) || Node <- Nodes] ++
        [
            string:trim(columns(Time, "total", integer_to_list(Workers), rate(PerSecond)), trailing)
         || [_, _ | _] <- [Nodes]
        ].

line(Time, #{node := Node, status := here} = Sample) ->
    #{concurrency := Workers, per_second := PerSecond, values := Values} = Sample,
    Columns = columns(Time, atom_to_list(Node), integer_to_list(Workers), rate(PerSecond)),
    dyno_cli_bench_monitor:line(Columns, Values);
line(Time, #{node := Node, status := Status}) ->
    columns(Time, atom_to_list(Node), "-", atom_to_list(Status)).

columns(Time, Node, Workers, Rate) ->
    [
        string:pad(Time, 25),
        " ",
        string:pad(Node, ?NODE_WIDTH),
        string:pad(Workers, 9, leading),
        string:pad(Rate, 12, leading)
    ].

rate(PerSecond) ->
    dyno_unit:format(PerSecond, ~"1/s").
