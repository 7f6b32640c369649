%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_workload_master).
-moduledoc """
The master of a synthetic system: starts workers when they are due, and sends their requests.

Works in turns, like BenchCRV's: takes a worker from the queue and sends it requests as long as a
random number is at most Pr(send); then takes answers from the mailbox as long as one is at most
Pr(recv). Response times are measured for a random sample of requests.
""".

-export([start_link/2]).
-export_type([options/0]).

-type options() :: #{
    %% From dyno_workload:draw/1.
    plan := [{non_neg_integer(), pos_integer()}],
    send := float(),
    recv := float(),
    seed := integer(),
    worker := module(),
    %% The share of requests with a measured response time.
    sampled := float(),
    responses := dyno_histogram:t(),
    %% Live workers, answered requests.
    counters := counters:counters_ref()
}.

%% A worker with requests left: its process, its number, the next request, all requests.
-type worker() :: {pid(), pos_integer(), pos_integer(), pos_integer()}.

-record(state, {
    plan :: [{integer(), pos_integer()}],
    next = 1 :: pos_integer(),
    work = queue:new() :: queue:queue(worker()),
    alive = 0 :: non_neg_integer(),
    sent = #{} :: #{{pos_integer(), pos_integer()} => integer()},
    random :: rand:state(),
    options :: options()
}).

-doc "Starts; sends `{workload_done, Master}` to the process when all workers have ended.".
-spec start_link(pid(), options()) -> pid().
start_link(Owner, #{plan := Plan, seed := Seed} = Options) ->
    spawn_link(fun() ->
        proc_lib:set_label(?MODULE),
        Start = erlang:monotonic_time(nanosecond),
        ok = run(#state{
            plan = [{Start + After, Requests} || {After, Requests} <- Plan],
            random = rand:seed_s(exsss, Seed),
            options = Options
        }),
        Owner ! {workload_done, self()}
    end).

run(#state{plan = [], alive = 0}) ->
    ok;
run(State) ->
    Started = start_due(State),
    run(take_answers(give_requests(Started))).

start_due(#state{plan = []} = State) ->
    State;
start_due(#state{plan = Plan} = State) ->
    start_due(Plan, erlang:monotonic_time(nanosecond), State).

start_due([{Due, Requests} | Plan], Now, State) when Due =< Now ->
    #state{next = Next, work = Work, alive = Alive, options = Options} = State,
    #{worker := Module, counters := Counters} = Options,
    Pid = spawn(Module, start, [self(), Next]),
    ok = counters:add(Counters, 1, 1),
    start_due(Plan, Now, State#state{
        next = Next + 1, work = queue:in({Pid, Next, 1, Requests}, Work), alive = Alive + 1
    });
start_due(Plan, _Now, State) ->
    State#state{plan = Plan}.

give_requests(#state{work = Work} = State) ->
    case queue:out(Work) of
        {empty, _} -> State;
        {{value, Worker}, Rest} -> give_requests(Worker, State#state{work = Rest})
    end.

give_requests({Pid, Id, Number, Requests}, State) ->
    #state{random = Random, options = #{send := Send, sampled := Sampled}} = State,
    Request = {Id, Number, Requests},
    {Sample, Random1} = rand:uniform_s(Random),
    Noted = noted(Sample =< Sampled, Request, State),
    Pid ! {self(), {chunk, Request}},
    {Again, Random2} = rand:uniform_s(Random1),
    Drawn = Noted#state{random = Random2},
    if
        Number =:= Requests -> Drawn;
        Again =< Send -> give_requests({Pid, Id, Number + 1, Requests}, Drawn);
        true -> Drawn#state{work = queue:in({Pid, Id, Number + 1, Requests}, Drawn#state.work)}
    end.

noted(true, {Id, Number, _}, #state{sent = Sent} = State) ->
    State#state{sent = Sent#{{Id, Number} => erlang:monotonic_time(nanosecond)}};
noted(false, _Request, State) ->
    State.

take_answers(#state{random = Random, options = #{recv := Recv}} = State) ->
    receive
        {Pid, {Kind, Request}} ->
            {Again, Next} = rand:uniform_s(Random),
            Taken = answered(Kind, Pid, Request, State#state{random = Next}),
            case Again =< Recv of
                true -> take_answers(Taken);
                false -> Taken
            end
    after wait_ms(State) ->
        State
    end.

answered(Kind, Pid, {Id, Number, _} = Request, State) ->
    #state{sent = Sent, alive = Alive, options = Options} = State,
    #{responses := Responses, counters := Counters} = Options,
    ok = counters:add(Counters, 2, 1),
    Left =
        case maps:take({Id, Number}, Sent) of
            {At, Rest} ->
                ok = dyno_histogram:record(Responses, erlang:monotonic_time(nanosecond) - At),
                Rest;
            error ->
                Sent
        end,
    case Kind of
        'end' ->
            Pid ! {self(), {term, Request}},
            ok = counters:sub(Counters, 1, 1),
            State#state{sent = Left, alive = Alive - 1};
        ack ->
            State#state{sent = Left}
    end.

wait_ms(#state{alive = 0, plan = []}) ->
    0;
wait_ms(#state{work = Work, plan = Plan}) ->
    case {queue:is_empty(Work), Plan} of
        {false, _} ->
            0;
        {true, []} ->
            infinity;
        {true, [{Due, _} | _]} ->
            max(0, (Due - erlang:monotonic_time(nanosecond) + 999_999) div 1_000_000)
    end.
