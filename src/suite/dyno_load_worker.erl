%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_load_worker).
-moduledoc false.
%% One worker of a load. Prepares itself, says so, and for each part of the load (the warm-up, the
%% measured one) waits for its start and repeats the suite's operation until its end.
%%
%% Closed load: the next operation begins when the last one has ended.
%%
%% Open load: workers share one counter of arrivals. A free worker takes the next number; arrival K
%% is due at Start + K * Period. If that lies ahead, it waits for it: then the operation starts when
%% the worker wakes, and how late that was is the generator's fault and recorded as its lateness. If
%% it lies behind, all workers were busy at that time: the response time counts from when it was
%% due. No process deals out the work, so none can become the bottleneck.

-export([start_link/1]).
-export_type([job/0]).

-type job() :: #{
    owner := pid(),
    module := module(),
    id := pos_integer(),
    run_state := term(),
    %% Which optional callbacks there are.
    callbacks := [{atom(), arity()}]
}.

-type work() :: #{
    meter := dyno_load_meter:meter(),
    start := integer(),
    finish := integer(),
    arrivals => atomics:atomics_ref(),
    rate_per_s => number()
}.

%% Timers have a millisecond's resolution: the last part of a wait is spent yielding.
-define(EARLY_NS, 1_500_000).

-doc """
Starts a worker, linked. It sends its owner `{dyno_worker, Pid, ready | {failed, Reason}}`, answers
`{start, work()}` with `{dyno_worker, Pid, done}` at its end, and ends normally when told `close`.
""".
-spec start_link(job()) -> pid().
start_link(Job) ->
    spawn_link(fun() -> prepare(Job) end).

prepare(#{owner := Owner} = Job) ->
    try init_worker(Job) of
        {ok, State} ->
            Owner ! {dyno_worker, self(), ready},
            serve(Job, State);
        Other ->
            Owner ! {dyno_worker, self(), {failed, {bad_return, init_worker, Other}}}
    catch
        Class:Reason:Stack ->
            Owner ! {dyno_worker, self(), {failed, {raised, init_worker, Class, Reason, Stack}}}
    end.

init_worker(#{module := Module, id := Id, run_state := RunState, callbacks := Callbacks}) ->
    case lists:member({init_worker, 2}, Callbacks) of
        true -> Module:init_worker(Id, RunState);
        false -> {ok, RunState}
    end.

%% The connection stays open until the target was looked at for the last time.
serve(#{owner := Owner} = Job, State) ->
    receive
        {start, #{start := Start} = Work} ->
            wait_until(Start),
            Last = work(Job, Work, State),
            Owner ! {dyno_worker, self(), done},
            serve(Job, Last);
        close ->
            end_worker(Job, State)
    end.

-spec work(job(), work(), term()) -> term().
work(Job, Work, stopped) ->
    case renew(Job, Work) of
        {ok, State} -> repeat(Job, Work, State);
        stop -> stopped
    end;
work(Job, Work, State) ->
    repeat(Job, Work, State).

repeat(Job, #{arrivals := Arrivals, rate_per_s := Rate, start := Start} = Work, State) ->
    Number = atomics:add_get(Arrivals, 1, 1) - 1,
    Due = Start + round(Number * 1_000_000_000 / Rate),
    #{finish := Finish, meter := Meter} = Work,
    case dyno_load_meter:time_ns() of
        _ when Due >= Finish ->
            State;
        Now when Now >= Finish ->
            State;
        Now when Now >= Due ->
            next(Job, Work, State, Due, Now);
        _ ->
            wait_until(Due),
            Woken = dyno_load_meter:time_ns(),
            dyno_load_meter:late(Meter, Woken - Due),
            next(Job, Work, State, Woken, Woken)
    end;
repeat(Job, #{finish := Finish} = Work, State) ->
    case dyno_load_meter:time_ns() of
        Now when Now >= Finish -> State;
        Now -> next(Job, Work, State, Now, Now)
    end.

next(Job, Work, State, Intended, Start) ->
    case one(Job, Work, State, Intended, Start) of
        {ok, Next} -> repeat(Job, Work, Next);
        stop -> stopped
    end.

%% The operation's time is from just before its call to just after.
one(#{module := Module} = Job, #{meter := Meter} = Work, State, Intended, Start) ->
    ok = dyno_load_meter:started(Meter),
    try Module:operation(State) of
        {ok, Next} ->
            ok = dyno_load_meter:success(Meter, Intended, Start, dyno_load_meter:time_ns()),
            {ok, Next};
        {error, Reason, Next} ->
            ok = dyno_load_meter:failure(Meter, Reason),
            {ok, Next};
        Other ->
            #{owner := Owner} = Job,
            Owner ! {dyno_worker, self(), {failed, {bad_return, operation, Other}}},
            stop
    catch
        Class:Reason ->
            ok = dyno_load_meter:failure(Meter, {Class, Reason}),
            renew(Job, Work)
    end.

%% After an exception the state may be half changed, a connection half read.
renew(Job, #{finish := Finish} = Work) ->
    try
        {ok, _State} = init_worker(Job)
    catch
        Class:Reason ->
            #{meter := Meter} = Work,
            Now = dyno_load_meter:time_ns(),
            ok = dyno_load_meter:failure(Meter, {init_worker, Class, Reason}),
            %% A target that is gone is not to be asked a million times a second.
            wait_until(Now + 100_000_000),
            case dyno_load_meter:time_ns() >= Finish of
                true -> stop;
                false -> renew(Job, Work)
            end
    end.

end_worker(_Job, stopped) ->
    ok;
end_worker(#{owner := Owner, module := Module, callbacks := Callbacks}, State) ->
    case lists:member({end_worker, 1}, Callbacks) of
        true ->
            try
                _ = Module:end_worker(State),
                ok
            catch
                %% Its connection may be gone; the run is over all the same.
                Class:Reason:Stack ->
                    Owner ! {dyno_worker, self(), {not_ended, {raised, end_worker, Class, Reason, Stack}}},
                    ok
            end;
        false ->
            ok
    end.

wait_until(Due) ->
    case Due - dyno_load_meter:time_ns() of
        Left when Left > ?EARLY_NS ->
            receive
            after (Left - ?EARLY_NS) div 1_000_000 + 1 -> wait_until(Due)
            end;
        Left when Left > 0 ->
            erlang:yield(),
            wait_until(Due);
        _ ->
            ok
    end.
