%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_workload_worker).
-moduledoc """
A worker of `dyno workload`: what it does is what a monitor of a benchmark sees. It answers each
request of the master, and ends when the master says so after the last one.
""".

-export([start/2]).
-export_type([request/0]).

-doc "The worker, which request of it this is, and how many there will be.".
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
