%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_cli_bench_cluster).
-moduledoc """
`dyno bench CODE --node A --node B`: runs a code in several nodes at once, with a line each second
for each of them and for all, on standard error and in a file where one is asked for.
""".

-export([run/2, heading/0, lines/1]).
-export_type([settings/0]).

-type settings() :: #{
    nodes := [node(), ...],
    code := dyno_bench_code:code(),
    concurrency := pos_integer(),
    duration_ms := pos_integer(),
    cookie => atom(),
    %% A file that the lines are added to.
    log => file:filename_all()
}.

-define(INTERVAL_MS, 1000).
%% The heading is repeated for who scrolls.
-define(PAGE, 30).
-define(NODE_WIDTH, 24).

-doc """
Runs; the recording, or the exit status. An interrupt ends it early: what was measured is kept.
`Show` is called with the recording.
""".
-spec run(settings(), fun((dyno_recording:document()) -> dyno_cli_command:exit_status())) ->
    dyno_cli_command:exit_status().
run(#{nodes := Nodes, code := Code, duration_ms := DurationMs} = Settings, Show) ->
    case log(Settings) of
        {ok, Log} ->
            Self = self(),
            Options = (maps:with([nodes, code, concurrency, cookie], Settings))#{
                interval_ms => ?INTERVAL_MS,
                limit_ms => DurationMs + 600_000,
                kept => DurationMs div ?INTERVAL_MS + 2,
                handler => fun(Sample) -> Self ! {?MODULE, Sample} end
            },
            _ = process_flag(trap_exit, true),
            case dyno_bench_cluster:start_link(Options) of
                {ok, Cluster} ->
                    %% An interval's sample comes half an interval after its end.
                    EndMs =
                        erlang:monotonic_time(millisecond) + DurationMs + ?INTERVAL_MS * 3 div 4,
                    {Ended, Samples} = watched(Cluster, Log, EndMs, []),
                    ok = dyno_bench_cluster:stop(Cluster),
                    _ = [file:close(Log) || Log =/= none],
                    ended(Ended, Samples, parameters(Nodes, Code, Settings), Show);
                {error, Reason} ->
                    complain(Reason)
            end;
        {error, Sentence} ->
            dyno_cli_terminal:complain(Sentence),
            2
    end.

-spec log(settings()) -> {ok, file:io_device() | none} | {error, unicode:chardata()}.
log(#{log := File}) ->
    case file:open(File, [append, raw]) of
        {ok, Device} ->
            {ok, Device};
        {error, Posix} ->
            {error, ["--log: ", File, " can't be written: ", file:format_error(Posix)]}
    end;
log(_Settings) ->
    {ok, none}.

-spec parameters([node()], dyno_bench_code:code(), settings()) -> #{atom() => term()}.
parameters(Nodes, Code, #{concurrency := Concurrency}) ->
    #{
        codes => [dyno_bench_code:label(as_map(Code))],
        mode => cluster,
        nodes => [atom_to_binary(Node) || Node <- Nodes],
        concurrency => Concurrency,
        interval_ms => ?INTERVAL_MS
    }.

-spec as_map(dyno_bench_code:code()) -> map().
as_map(#{} = Code) -> Code;
as_map(Code) -> #{runner => Code}.

-spec watched(pid(), file:io_device() | none, integer(), [dyno_bench_cluster:sample()]) ->
    {complete | interrupted | {failed, term()}, [dyno_bench_cluster:sample()]}.
watched(Cluster, Log, EndMs, Samples) ->
    receive
        {?MODULE, Sample} ->
            Heading = [heading() || length(Samples) rem ?PAGE =:= 0],
            shown(Heading ++ lines(Sample), Log),
            watched(Cluster, Log, EndMs, [Sample | Samples]);
        dyno_interrupt ->
            {interrupted, Samples};
        {'EXIT', Cluster, Reason} ->
            {{failed, Reason}, Samples}
    after max(0, EndMs - erlang:monotonic_time(millisecond)) ->
        {complete, Samples}
    end.

-spec shown([unicode:chardata()], file:io_device() | none) -> ok.
shown(Lines, Log) ->
    lists:foreach(fun dyno_cli_terminal:note/1, Lines),
    case Log of
        none ->
            ok;
        _ ->
            %% A disk that is full does not end the measurement.
            _ = file:write(Log, [[dyno_report_text:encode(Line), $\n] || Line <- Lines]),
            ok
    end.

-spec ended(
    complete | interrupted | {failed, term()}, [dyno_bench_cluster:sample()], map(),
    fun((dyno_recording:document()) -> dyno_cli_command:exit_status())
) -> dyno_cli_command:exit_status().
ended({failed, {shutdown, Reason}}, _Samples, _Parameters, _Show) ->
    complain(Reason);
ended({failed, Reason}, _Samples, _Parameters, _Show) ->
    dyno_cli_terminal:complain(io_lib:format("the watching process died: ~0tP", [Reason, 12])),
    3;
ended(Ended, Samples, Parameters, Show) ->
    Document = dyno_bench_cluster_result:document(
        Parameters, lists:reverse(Samples), dyno_environment:collect()
    ),
    case Ended of
        complete ->
            Show(Document);
        interrupted ->
            _ = Show(dyno_recording:put(Document, status, interrupted)),
            130
    end.

-spec complain(dyno_error:error()) -> dyno_cli_command:exit_status().
complain(Error) ->
    dyno_cli_terminal:complain(dyno_error:format(Error)),
    dyno_error:exit_status(Error).

-doc "The names of the columns.".
-spec heading() -> unicode:chardata().
heading() ->
    dyno_cli_bench_monitor:heading(columns("YYYY-MM-DDTHH:MM:SS-oo:oo", "Node", "Workers", "Per second")).

-doc "A sample: a line for each node, and where there are several, one for all.".
-spec lines(dyno_bench_cluster:sample()) -> [unicode:chardata()].
lines(#{time_ms := Ms, nodes := Nodes, per_second := PerSecond}) ->
    Time = calendar:system_time_to_rfc3339(Ms div 1000),
    Workers = lists:sum([C || #{concurrency := C} <- Nodes]),
    [line(Time, Node) || Node <- Nodes] ++
        [
            string:trim(columns(Time, "total", integer_to_list(Workers), rate(PerSecond)), trailing)
         || [_, _ | _] <- [Nodes]
        ].

-spec line(string(), dyno_bench_cluster:node_sample()) -> unicode:chardata().
line(
    Time,
    #{
        node := Node,
        status := here,
        concurrency := Workers,
        per_second := PerSecond,
        values := Values
    }
) ->
    Columns = columns(Time, atom_to_list(Node), integer_to_list(Workers), rate(PerSecond)),
    dyno_cli_bench_monitor:line(Columns, Values);
line(Time, #{node := Node, status := Status}) ->
    columns(Time, atom_to_list(Node), "-", atom_to_list(Status)).

-spec columns(string(), string(), string(), unicode:chardata()) -> unicode:chardata().
columns(Time, Node, Workers, Rate) ->
    [
        string:pad(Time, 25),
        " ",
        string:pad(Node, ?NODE_WIDTH),
        string:pad(Workers, 9, leading),
        string:pad(Rate, 12, leading)
    ].

-spec rate(float()) -> unicode:chardata().
rate(PerSecond) ->
    dyno_unit:format(PerSecond, ~"1/s").
