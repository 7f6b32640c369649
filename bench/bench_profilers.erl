%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(bench_profilers).
-moduledoc "OTP's profilers, started in the measured node, for comparison.".

-export([start/2, stop/1]).

-doc """
Profiles all processes but the profiler's own. `call_time` is what the runtime itself takes: its
breakpoints in the functions that match, for all processes, and nobody reads them.
""".
-spec start(eprof | fprof | tprof | call_time, [dyno_agent_patterns:pattern()]) -> ok.
start(call_time, Given) ->
    Self = self(),
    Holder = spawn(fun() -> hold(Self, dyno_agent_patterns:resolve(Given)) end),
    true = register(?MODULE, Holder),
    receive
        {Holder, measuring} -> ok
    end;
start(Profiler, _Patterns) ->
    start(Profiler).

start(eprof) ->
    {ok, Server} = start_unlinked(fun eprof:start/0, eprof),
    profiling = eprof:start_profiling(others([Server])),
    ok;
start(tprof) ->
    {ok, _} = start_unlinked(fun() -> tprof:start(#{type => call_time}) end, tprof),
    _ = tprof:set_pattern('_', '_', '_'),
    _ = tprof:enable_trace(all),
    ok;
start(fprof) ->
    {ok, Server} = start_unlinked(fun fprof:start/0, fprof_server),
    File = trace_file(),
    ok = fprof:trace([start, {file, File}, {procs, others([Server])}]),
    ok.

%% The session ends with its owner.
hold(Starter, Patterns) ->
    Session = trace:session_create(?MODULE, self(), []),
    _ = trace:process(Session, all, true, [call, arity]),
    Functions = [F || M <- erlang:loaded(), F <- dyno_agent_patterns:specs(M, Patterns)],
    lists:foreach(fun(F) -> _ = trace:function(Session, F, true, [call_time]) end, Functions),
    Starter ! {self(), measuring},
    receive
        {stop, From} ->
            true = trace:session_destroy(Session),
            From ! {self(), stopped}
    end.

%% The servers are linked to whoever starts them: here the process of a remote call.
start_unlinked(Start, _Name) ->
    {ok, Server} = Start(),
    unlink(Server),
    {ok, Server}.

others(Servers) ->
    processes() -- [self() | Servers].

-doc "Ends the profiling. What it found is not asked for.".
-spec stop(eprof | fprof | tprof | call_time) -> ok.
stop(call_time) ->
    Holder = whereis(?MODULE),
    Holder ! {stop, self()},
    receive
        {Holder, stopped} -> ok
    end;
stop(eprof) ->
    _ = eprof:stop_profiling(),
    stopped = eprof:stop(),
    ok;
stop(tprof) ->
    ok = tprof:stop();
stop(fprof) ->
    ok = fprof:trace(stop),
    _ = fprof:stop(),
    file:delete(trace_file()).

trace_file() ->
    filename:join(filename:basedir(user_cache, "dyno"), "fprof-" ++ os:getpid() ++ ".trace").
