%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_first_calls).
-moduledoc false.
%% The trace session that tells of each process's first matching call. The calling process gets
%% `{trace_ts, Pid, call, {M, F, Arity}, Time}`, Time native and monotonic.

-export([open/1, watch/2, set/3, close/1]).
-export_type([t/0]).

-opaque t() :: {trace:session(), [dyno_agent_patterns:pattern()]}.

%% The call switches the process's `call` flag off in this session: it is the last one that is told.
-define(HEARD, [{'_', [], [{trace, [call], []}]}]).
-define(QUIET, [{'_', [], [{message, false}, {trace, [call], []}]}]).

-doc "Watches the functions of all modules that are loaded.".
-spec open([dyno_agent_patterns:pattern()]) -> t().
open(Given) ->
    Session = trace:session_create(dyno_discovery, self(), []),
    _ = trace:process(Session, all, true, [call, arity, monotonic_timestamp]),
    Calls = {Session, dyno_agent_patterns:resolve(Given)},
    lists:foreach(fun(Module) -> watch(Module, Calls) end, erlang:loaded()),
    Calls.

-doc "A module has come: its functions are watched, as far as they match.".
-spec watch(module(), t()) -> ok.
watch(Module, {Session, Patterns}) ->
    each(dyno_agent_patterns:specs(Module, Patterns), ?HEARD, Session).

-doc "Whether these first calls are told of. Each change is one of the code: some 150 us.".
-spec set(heard | quiet, [mfa()], t()) -> ok.
set(heard, Calls, {Session, _}) -> each(Calls, ?HEARD, Session);
set(quiet, Calls, {Session, _}) -> each(Calls, ?QUIET, Session).

each(Functions, Specification, Session) ->
    lists:foreach(
        fun(F) -> _ = trace:function(Session, F, Specification, [local]) end, Functions
    ).

-doc "Nothing is watched any more.".
-spec close(t()) -> ok.
close({Session, _}) ->
    _ = trace:session_destroy(Session),
    ok.
