%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(bench_profilers).
-moduledoc "OTP's profilers, started in the measured node, for comparison.".

-export([start/2, stop/1]).

-type profiler() :: eprof | fprof | tprof | call_time.

-doc """
Profiles these processes, or all but the profiler's own; `call_time` is what the runtime itself
takes: its breakpoints in the functions that match, for all processes, and nobody reads them.
""".
-spec start(profiler(), all | [pid()] | [dyno_agent_patterns:pattern()]) -> ok.
start(call_time, Given) ->
    Self = self(),
    Holder = spawn(fun() -> hold(Self, dyno_agent_patterns:resolve(Given)) end),
    true = register(?MODULE, Holder),
    receive
        {Holder, measuring} -> ok
    end;
start(eprof, Processes) ->
    Server = unlinked(eprof:start()),
    profiling = eprof:start_profiling(chosen(Processes, Server)),
    ok;
start(tprof, Processes) ->
    _ = unlinked(tprof:start(#{type => call_time})),
    _ = tprof:set_pattern('_', '_', '_'),
    _ = [tprof:enable_trace(P) || P <- lists:flatten([Processes])],
    ok;
start(fprof, Processes) ->
    Server = unlinked(fprof:start()),
    ok = fprof:trace([start, {file, trace_file()}, {procs, chosen(Processes, Server)}]).

%% The session ends with its owner.
hold(Starter, Patterns) ->
    Session = trace:session_create(?MODULE, self(), []),
    _ = trace:process(Session, all, true, [call, arity]),
    Functions = [
        F
     || M <- dyno_agent_patterns:loaded(), F <- dyno_agent_patterns:specs(M, Patterns)
    ],
    lists:foreach(fun(F) -> _ = trace:function(Session, F, true, [call_time]) end, Functions),
    Starter ! {self(), measuring},
    receive
        {stop, From} ->
            true = trace:session_destroy(Session),
            From ! {self(), stopped}
    end.

%% The servers are linked to whoever starts them: here the process of a remote call.
unlinked({ok, Server}) ->
    unlink(Server),
    Server.

chosen(all, Server) -> processes() -- [self(), Server];
chosen(Processes, _Server) -> Processes.

-doc "Ends the profiling. What it found is not asked for; how many bytes it wrote.".
-spec stop(profiler()) -> non_neg_integer().
stop(call_time) ->
    Holder = whereis(?MODULE),
    Holder ! {stop, self()},
    receive
        {Holder, stopped} -> 0
    end;
stop(eprof) ->
    _ = eprof:stop_profiling(),
    stopped = eprof:stop(),
    0;
stop(tprof) ->
    ok = tprof:stop(),
    0;
stop(fprof) ->
    ok = fprof:trace(stop),
    _ = fprof:stop(),
    Bytes = filelib:file_size(trace_file()),
    ok = file:delete(trace_file()),
    Bytes.

trace_file() ->
    filename:join(filename:basedir(user_cache, "dyno"), "fprof-" ++ os:getpid() ++ ".trace").
