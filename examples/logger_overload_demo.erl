%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(logger_overload_demo).
-moduledoc """
Does a logger recover from a burst? After the talk "Profiling and debugging Erlang systems".

Six workers log 100 lines of 1 KB a second each to an event manager that has three handlers, so it
writes 1,800 lines a second without effort. Then a burst comes. An operation is one burst: it ends
when the manager has caught up, and fails if it has not within six seconds. The load is the same
before and after the burst, so what decides is how long a write takes while many messages wait.

    WRITER=raw dyno test examples/logger_overload_demo.erl
    WRITER=disk_log dyno test examples/logger_overload_demo.erl

`raw` writes to a file; it recovers from 100,000 messages in some seconds. `disk_log` waits for each
reply in a receive that looks at all messages of the manager (`disk_log:monitor_request/2`): with
100,000 messages a write takes a thousand times as long, and the manager never catches up.
`middleman` gives the same disk_log a process of its own, with an empty mailbox: it recovers.
""".

-behaviour(dyno_suite).
-behaviour(gen_event).

-export([suite/0, init_run/2, load/2, init_worker/2, operation/1, end_run/1]).
%% In the target
-export([start/1, burst/1, worker/0, middleman/1, write/2]).
-export([init/1, handle_event/2, handle_call/2, terminate/2]).

-define(LEVELS, [debug, warning, error]).
-define(PATIENCE_MS, 6000).

suite() ->
    #{
        name => "logger_overload_" ++ writer(),
        sizes => [1000, 10_000, 100_000],
        size_label => "messages in the burst",
        duration_ms => 2 * ?PATIENCE_MS,
        warmup_ms => 0,
        control => false,
        patterns => ["logger_overload_demo:write/2"],
        servers => ["log_events"],
        thresholds => ["errors.rate == 0 %"]
    }.

writer() -> os:getenv("WRITER", "raw").

init_run(Burst, _SuiteState) ->
    {ok, Node} = dyno_peer:start(#{name => "logger"}),
    ok = erpc:call(Node, ?MODULE, start, [list_to_existing_atom(writer())]),
    {ok, [Node], {Node, Burst}}.

load(_Burst, _Run) ->
    #{model => closed, workers => 1, iterations => 1}.

init_worker(_Id, Run) -> {ok, Run}.

operation({Node, Burst} = Run) ->
    case erpc:call(Node, ?MODULE, burst, [Burst]) of
        recovered -> {ok, Run};
        {still_waiting, _Messages} -> {error, does_not_recover, Run}
    end.

end_run(undefined) -> ok;
end_run({Node, _Burst}) -> dyno_peer:stop(Node).

%% The target

start(Writer) ->
    {ok, Manager} = gen_event:start({local, log_events}),
    [ok = gen_event:add_handler(Manager, {?MODULE, Level}, {Writer, Level}) || Level <- ?LEVELS],
    [spawn(?MODULE, worker, []) || _ <- lists:seq(1, 6)],
    ok.

worker() ->
    ok = gen_event:notify(log_events, {log, line()}),
    timer:sleep(10),
    worker().

line() -> binary:copy(~"x", 1024).

burst(Messages) ->
    Line = line(),
    [gen_event:notify(log_events, {log, Line}) || _ <- lists:seq(1, Messages)],
    caught_up(erlang:monotonic_time(millisecond) + ?PATIENCE_MS).

caught_up(EndMs) ->
    {message_queue_len, Waiting} = process_info(whereis(log_events), message_queue_len),
    case erlang:monotonic_time(millisecond) > EndMs of
        _ when Waiting < 20 -> recovered;
        true ->
            {still_waiting, Waiting};
        false ->
            timer:sleep(5),
            caught_up(EndMs)
    end.

%% One handler for each level, in the process of the manager.
init({Writer, Level}) ->
    File = filename:join(
        filename:basedir(user_cache, "dyno_logger_overload"), lists:concat([Level, os:getpid()])
    ),
    ok = filelib:ensure_dir(File),
    {ok, {File, open(Writer, File)}}.

open(raw, File) ->
    {ok, Fd} = file:open(File, [write, raw]),
    {raw, Fd};
open(disk_log, File) ->
    {ok, Log} = disk_log:open([{name, File}, {file, File}, {format, external}]),
    {disk_log, Log};
open(middleman, File) ->
    {middleman, spawn_link(?MODULE, middleman, [File])}.

handle_event({log, Line}, {_File, Writer} = State) ->
    ok = write(Writer, Line),
    {ok, State}.

handle_call(_Request, State) -> {ok, ok, State}.

terminate(_Reason, {File, _Writer}) -> file:delete(File).

write({raw, Fd}, Line) ->
    file:write(Fd, Line);
write({disk_log, Log}, Line) ->
    disk_log:blog(Log, Line);
%% The reference is made for this request, so the receive looks only at messages that came later.
write({middleman, Pid}, Line) ->
    Ref = monitor(process, Pid, [{alias, reply_demonitor}]),
    Pid ! {write, Ref, Line},
    receive
        {Ref, Result} -> Result;
        {'DOWN', Ref, process, _, Reason} -> {error, Reason}
    end.

middleman(File) -> serve(open(disk_log, File)).

serve(Log) ->
    receive
        {write, Ref, Line} -> Ref ! {Ref, write(Log, Line)}
    end,
    serve(Log).
