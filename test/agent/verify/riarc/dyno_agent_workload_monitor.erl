%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_workload_monitor).
-moduledoc """
Checks the trace of each `dyno workload` worker: complete from `spawned` to `exit`, and in order.
Requests are numbered, so that a single missing or misplaced event is seen:

    spawned, receive 1, send 1, ..., receive N, send N, receive the end, exit
""".

-behaviour(dyno_agent_monitor).

-export([needs/0, init/1, event/3]).

-define(PROPERTY, ~"the trace of a worker is complete and in order").

-doc false.
-spec needs() -> dyno_agent_monitor:needs().
needs() ->
    #{
        select => [{function, dyno_workload_worker, start, 2}],
        events => [send, 'receive', exit]
    }.

-doc false.
-spec init(dyno_agent_monitor:process()) -> term().
init(_Process) -> spawned.

-doc false.
-spec event(dyno_agent_event:event(), integer(), term()) -> dyno_agent_monitor:decision().
event({spawned, _, _}, _, spawned) -> {next, {'receive', 1}};
%% Requests arrive before earlier ones are answered: counted separately.
event(Event, _, {'receive', 1}) -> expect(Event, 1, 1, unknown);
event(Event, _, {Received, Sent, Requests}) -> expect(Event, Received, Sent, Requests);
event(Event, _, State) -> broken(Event, State).

expect({'receive', {_, {chunk, {_, N, Requests}}}}, N, Sent, _) when N =< Requests ->
    {next, {N + 1, Sent, Requests}};
expect({send, {_, {ack, {_, N, Requests}}}, _}, Received, N, Requests) when
    N < Received, N < Requests
->
    {next, {Received, N + 1, Requests}};
expect({send, {_, {'end', {_, N, N}}}, _}, Received, N, N) when Received =:= N + 1 ->
    {next, {Received, N + 1, N}};
expect({'receive', {_, {term, {_, N, N}}}}, Received, Sent, N) when
    Received =:= N + 1, Sent =:= N + 1
->
    {next, {ended, Sent, N}};
expect({exit, normal}, ended, _Sent, Requests) ->
    {yes, #{property => ?PROPERTY, step => ~"exit", bindings => #{'N' => Requests}}, ended};
expect(Event, Received, Sent, Requests) ->
    broken(Event, {Received, Sent, Requests}).

broken(Event, State) ->
    {no,
        #{
            property => ?PROPERTY,
            step => atom_to_binary(element(1, Event)),
            bindings => #{'Event' => Event, 'Expected' => State}
        },
        State}.
