%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_workload_worker).
-moduledoc "A worker of `dyno workload`: answers the master's requests, and ends after the last.".

-export([start/2]).
-export_type([request/0]).

-doc "The worker, the request's number, and the total.".
-type request() ::
    {Worker :: pos_integer(), Request :: pos_integer(), Requests :: pos_integer()}.

-doc "Runs until the last request is answered and acknowledged.".
-spec start(pid(), Worker :: pos_integer()) -> ok.
start(Master, Worker) ->
    receive
        {Master, {chunk, {Worker, Last, Last} = Request}} ->
            Master ! {self(), {'end', Request}},
            receive
                {Master, {term, Request}} -> ok
            end;
        {Master, {chunk, {Worker, _, _} = Request}} ->
            Master ! {self(), {ack, Request}},
            start(Master, Worker)
    end.
