%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_self_calls).
-moduledoc false.
%% The calls that dyno's own processes make of measured functions, where the runtime does not say
%% whose calls it counted (`call_count`), so that they can be taken out. In a trace session of its
%% own they are counted by process (`call_memory`), for these processes only.
%%
%% A second session's breakpoint costs every process's calls 10 ns. So only functions of Erlang's
%% base have it, which are all that dyno's processes call besides their own.
%%
%% The session's tracer is a process that does nothing: one that traced could not be counted itself.

-export([open/2, set/2, count/2, restart/1, pause/1, calls/1, close/1]).
-export([flag/3]).
-export_type([own/0]).

-opaque own() ::
    none
    | #{
        session := trace:session(),
        tracer := pid(),
        patterns := [dyno_agent_patterns:pattern()],
        base := #{module() => []},
        set := #{module() => [mfa()]}
    }.

-define(MEASURE, [call_memory]).

-doc "Counts nothing yet, and never if `none` is wanted.".
-spec open([dyno_agent_patterns:pattern()], Wanted :: boolean()) -> own().
open(_Patterns, false) ->
    none;
open(Patterns, true) ->
    Tracer = spawn_link(fun idle/0),
    #{
        session => trace:session_create(?MODULE, Tracer, []),
        tracer => Tracer,
        patterns => Patterns,
        base => maps:from_keys(dyno_agent_patterns:base(), []),
        set => #{}
    }.

idle() ->
    proc_lib:set_label(?MODULE),
    receive
        stop -> ok
    end.

-doc "Sets the breakpoints in a module, where dyno's processes may call it.".
-spec set(module(), own()) -> own().
set(Module, #{base := Base, session := Session, patterns := Patterns, set := Set} = Own) when
    is_map_key(Module, Base)
->
    Specs = dyno_agent_patterns:specs(Module, Patterns),
    lists:foreach(fun(F) -> trace:function(Session, F, true, ?MEASURE) end, Specs),
    Own#{set := Set#{Module => dyno_agent_patterns:functions(Module, Patterns)}};
set(_Module, Own) ->
    Own.

-doc "Counts the calls of these processes, which are dyno's.".
-spec count(own(), [pid()]) -> ok.
count(none, _Pids) -> ok;
count(#{session := Session}, Pids) -> flag(Session, Pids, on).

-doc "Has the calls of processes traced in a session, or not; one that has ended is left alone.".
-spec flag(trace:session(), [pid()], on | off) -> ok.
flag(Session, Pids, How) ->
    lists:foreach(
        fun(Pid) ->
            try
                _ = trace:process(Session, Pid, How =:= on, [call]),
                ok
            catch
                error:badarg -> ok
            end
        end,
        Pids
    ).

-doc "Counts from now on, from zero.".
-spec restart(own()) -> ok.
restart(Own) -> all(restart, Own).

-doc "Stops counting.".
-spec pause(own()) -> ok.
pause(Own) -> all(pause, Own).

all(_What, none) ->
    ok;
all(What, #{session := Session}) ->
    _ = trace:function(Session, {'_', '_', '_'}, What, ?MEASURE),
    ok.

-doc "How often dyno's processes have called which functions since the restart.".
-spec calls(own()) -> #{mfa() => pos_integer()}.
calls(none) ->
    #{};
calls(#{session := Session, set := Set}) ->
    #{
        MFA => Calls
     || _Module := Functions <- Set,
        MFA <- Functions,
        {call_memory, [_ | _] = Each} <- [trace:info(Session, MFA, call_memory)],
        Calls <- [lists:sum([N || {_, N, _} <- Each])],
        Calls > 0
    }.

-doc "Ends the session, and with it its breakpoints.".
-spec close(own()) -> ok.
close(none) ->
    ok;
close(#{session := Session, tracer := Tracer}) ->
    _ = trace:session_destroy(Session),
    unlink(Tracer),
    exit(Tracer, kill),
    ok.
