%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_first_calls).
-moduledoc false.
%% The trace session that discovers processes. Its owner gets `{trace_ts, Pid, call, {M, F, Arity},
%% Time}` for each process's first call of a matching function. Time is native and monotonic.

-export([open/1, change/2, close/1]).
-export_type([t/0, change/0]).

-opaque t() :: {trace:session(), [dyno_agent_patterns:pattern()]}.

-doc """
Each changes code, some 150 us a function.
* `add`: first calls of a loaded module's functions send messages.
* `subscribe`: first calls of these functions send messages again.
* `throttle`: they send none.
* `leave_out`: their calls have no effect.
* `stop`: no function sends messages from now on.
""".
-type change() ::
    {add, module()}
    | {subscribe | throttle | leave_out, [mfa()]}
    | stop.

%% A call clears the process's `call` flag in this session, so it is the last one traced.
-define(SUBSCRIBED, [{'_', [], [{trace, [call], []}]}]).
%% As in dyno_agent_calls.
-define(SET_MS, 3000).
-define(THROTTLED, [{'_', [], [{message, false}, {trace, [call], []}]}]).

-doc "Also returns the modules that could not be added in time.".
-spec open([dyno_agent_patterns:pattern()]) -> {t(), Left :: [module()]}.
open(Patterns) ->
    Session = trace:session_create(dyno_first_calls, self(), []),
    _ = dyno_agent_flags:all(Session, true, [call, arity, monotonic_timestamp]),
    {_, Resolved} = Calls = {Session, dyno_agent_patterns:resolve(Patterns)},
    Add = fun(M, ok) -> change({add, M}, Calls) end,
    Modules = dyno_agent_patterns:measured(Resolved),
    {ok, Left} = dyno_agent_process:within(?SET_MS, Add, ok, Modules),
    {Calls, Left}.

-spec change(change(), t()) -> ok.
change({add, Module}, {Session, Patterns}) ->
    set(dyno_agent_patterns:specs(Module, Patterns), ?SUBSCRIBED, Session);
change({subscribe, Functions}, {Session, _}) ->
    set(Functions, ?SUBSCRIBED, Session);
change({throttle, Functions}, {Session, _}) ->
    set(Functions, ?THROTTLED, Session);
change({leave_out, Functions}, {Session, _}) ->
    set(Functions, false, Session);
change(stop, {Session, _}) ->
    _ = dyno_agent_flags:all(Session, false, [all]),
    set([{'_', '_', '_'}], false, Session).

set(Functions, Specification, Session) ->
    _ = [trace:function(Session, F, Specification, [local]) || F <- Functions],
    ok.

-spec close(t()) -> ok.
close({Session, _}) ->
    _ = trace:session_destroy(Session),
    ok.
