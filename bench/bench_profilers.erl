%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(bench_profilers).
-moduledoc "OTP's profilers, started in the measured node, for comparison.".

-export([start/1, stop/1]).

-doc "Profiles all processes but the profiler's own.".
-spec start(eprof | fprof) -> ok.
start(eprof) ->
    {ok, Server} = start_unlinked(fun eprof:start/0, eprof),
    profiling = eprof:start_profiling(others([Server])),
    ok;
start(fprof) ->
    {ok, Server} = start_unlinked(fun fprof:start/0, fprof_server),
    File = trace_file(),
    ok = fprof:trace([start, {file, File}, {procs, others([Server])}]),
    ok.

%% The servers are linked to whoever starts them: here the process of a remote call.
start_unlinked(Start, _Name) ->
    {ok, Server} = Start(),
    unlink(Server),
    {ok, Server}.

others(Servers) ->
    processes() -- [self() | Servers].

-doc "Ends the profiling. What it found is not asked for.".
-spec stop(eprof | fprof) -> ok.
stop(eprof) ->
    _ = eprof:stop_profiling(),
    stopped = eprof:stop(),
    ok;
stop(fprof) ->
    ok = fprof:trace(stop),
    _ = fprof:stop(),
    file:delete(trace_file()).

trace_file() ->
    filename:join(filename:basedir(user_cache, "dyno"), "fprof-" ++ os:getpid() ++ ".trace").
