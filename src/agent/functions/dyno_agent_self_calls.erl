%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_self_calls).
-moduledoc false.
%% Counts the calls of measured functions by dyno's own processes, to subtract them from
%% `call_count`, which does not name processes. A trace session of its own counts these processes
%% only (`call_memory`).
%%
%% A second session's breakpoint costs 10 ns a call, so only functions of Erlang's base have one.
%%
%% The session's tracer is an idle process: a tracer cannot be counted itself.

-export([open/2, set/2, count/2, restart/1, pause/1, calls/1, close/1]).
-export([flag/3, flag/4]).
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

-doc "Counts nothing yet; never if not `Wanted`, or if no pattern means a function of the base.".
-spec open([dyno_agent_patterns:pattern()], Wanted :: boolean()) -> own().
open(Patterns, Wanted) ->
    IsMeant = fun(M) -> dyno_agent_patterns:matches_module(M, Patterns) end,
    case [M || Wanted, M <- dyno_agent_patterns:base(), IsMeant(M)] of
        [] -> none;
        Base -> open_session(Patterns, maps:from_keys(Base, []), spawn_link(fun idle/0))
    end.

open_session(Patterns, Base, Tracer) ->
    Session = trace:session_create(?MODULE, Tracer, []),
    #{session => Session, tracer => Tracer, patterns => Patterns, base => Base, set => #{}}.

idle() ->
    proc_lib:set_label(?MODULE),
    receive
        stop -> ok
    end.

-spec set(module(), own()) -> own().
set(Module, #{base := Base, session := Session, patterns := Patterns, set := Set} = Own) when
    is_map_key(Module, Base)
->
    Specs = dyno_agent_patterns:specs(Module, Patterns),
    lists:foreach(fun(F) -> trace:function(Session, F, true, ?MEASURE) end, Specs),
    Own#{set := Set#{Module => dyno_agent_patterns:functions(Module, Patterns)}};
set(_Module, Own) ->
    Own.

-spec count(own(), [pid()]) -> ok.
count(none, _Pids) -> ok;
count(#{session := Session}, Pids) -> flag(Session, Pids, on).

-doc "Sets or clears the call flag of processes; ignores ended ones.".
-spec flag(trace:session(), [pid()], on | off) -> ok.
flag(Session, Pids, How) -> flag(Session, Pids, How, [call]).

-spec flag(trace:session(), [pid()], on | off, [atom()]) -> ok.
flag(Session, Pids, How, Flags) ->
    lists:foreach(
        fun(Pid) ->
            try
                _ = trace:process(Session, Pid, How =:= on, Flags),
                ok
            catch
                error:badarg -> ok
            end
        end,
        Pids
    ).

-spec restart(own()) -> ok.
restart(Own) -> all(restart, Own).

-spec pause(own()) -> ok.
pause(Own) -> all(pause, Own).

all(_What, none) ->
    ok;
all(What, #{session := Session}) ->
    _ = trace:function(Session, {'_', '_', '_'}, What, ?MEASURE),
    ok.

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

-spec close(own()) -> ok.
close(none) ->
    ok;
close(#{session := Session, tracer := Tracer}) ->
    _ = trace:session_destroy(Session),
    dyno_agent_process:kill(Tracer).
