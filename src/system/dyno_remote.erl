%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_remote).
-moduledoc false.
%% Calls another node by a process of high priority, for short functions. The process of
%% `erpc:call/5` waits for its turn: half a second on a node with 1,000 computing processes.

-export([call/4, call/5, each/2]).

-define(TIMEOUT_MS, 30_000).

-doc "As `erpc:call/5`, with the same errors, within 30 seconds.".
-spec call(node(), module(), atom(), [term()]) -> term().
call(Node, M, F, A) -> call(Node, M, F, A, ?TIMEOUT_MS).

-doc "As `erpc:call/5`, with the same errors.".
-spec call(node(), module(), atom(), [term()], timeout()) -> term().
call(Node, M, F, A, TimeoutMs) ->
    Ref = make_ref(),
    %% Started as by erpc: the other node runs erpc's protocol.
    Options = [monitor, {priority, high}, {reply, error_only}],
    Id = spawn_request(Node, erpc, execute_call, [Ref, M, F, A], Options),
    receive
        {spawn_reply, Id, error, Reason} -> error({erpc, Reason});
        {'DOWN', Id, process, _, {Ref, return, Value}} -> Value;
        {'DOWN', Id, process, _, {Ref, throw, Value}} -> throw(Value);
        {'DOWN', Id, process, _, {Ref, exit, Reason}} -> exit({exception, Reason});
        {'DOWN', Id, process, _, {Ref, error, Reason, Stack}} -> error({exception, Reason, Stack});
        {'DOWN', Id, process, _, noconnection} -> error({erpc, noconnection});
        {'DOWN', Id, process, _, Reason} -> exit({signal, Reason})
    after TimeoutMs ->
        true = spawn_request_abandon(Id) orelse demonitor(Id, [flush]),
        error({erpc, timeout})
    end.

-doc "Several calls in one.".
-spec each(node(), [mfa_call()]) -> [term()].
each(Node, Calls) ->
    {Ms, Fs, As} = lists:unzip3(Calls),
    call(Node, lists, zipwith3, [fun erlang:apply/3, Ms, Fs, As]).

-type mfa_call() :: {module(), atom(), [term()]}.
