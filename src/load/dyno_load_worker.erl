%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_load_worker).
-moduledoc false.
%% One worker of a load. Prepares itself, reports so, and goes through the parts of each round (the
%% warm-up, the measured parts, a probe), repeating the suite's operation until each part's end.
%%
%% Closed load: the next operation begins when the last one has ended and the think time is over.
%%
%% Open load: workers share one counter of arrivals, so no process can become the bottleneck. A free
%% worker takes the next number and its due time from the schedule. If the time is ahead, the worker
%% waits; lateness at waking is the generator's schedule lag. If the time has passed, all workers
%% were busy and the arrival was queued: its response time counts from the due time. The last free
%% worker tells its owner, which may add workers. An added worker ends its part early if more than
%% half of all workers are free.

-export([start_link/1, take_part/3, taking_part/1, is_short/1, format_error/1, fault/1]).
-export_type([job/0, work/0, reason/0]).

-type job() :: #{
    owner := pid(),
    module := module(),
    id := pos_integer(),
    run_state := term(),
    callbacks := [{atom(), arity()}],
    feeds := dyno_feed:context(),
    turn => {pos_integer(), non_neg_integer()}
}.

-type work() :: #{
    model := closed | open,
    %% A worker with a greater id has no work in this part.
    workers := pos_integer(),
    recorders := #{atom() => dyno_load_recorder:t()},
    %% With cumulative weights from 0 to 1; the last operation has the rest.
    operations := [{float(), atom()}],
    seed := integer(),
    start := integer(),
    finish := integer(),
    %% Open loads: the last number taken, and the share of each of several nodes.
    claimed => atomics:atomics_ref(),
    stride => {Offset :: non_neg_integer(), Step :: pos_integer()},
    times => dyno_load_schedule_ahead:t(),
    %% If workers may be added: free and participating ones; those with a greater id may rest.
    free => atomics:atomics_ref(),
    least => pos_integer(),
    %% Closed loads only.
    think => dyno_load_spec:think(),
    left => {each, pos_integer()} | {all, atomics:atomics_ref()}
}.

-type reason() ::
    {bad_return, module(), init_worker | operation | {operation, Operation :: atom()}, term()}
    | {raised, mfa(), error | exit | throw, term(), erlang:stacktrace()}
    | {end_worker_timeout, module(), Workers :: pos_integer(), TimeoutMs :: pos_integer()}.

-define(FREE, 1).
-define(TAKE_PART, 2).
%% Timers have a millisecond's resolution: a worker yields for the last part of a wait.
-define(EARLY_NS, 1_500_000).

-doc """
Starts a worker, linked. The worker sends its owner `{dyno_worker, Pid, ready | {failed, Reason}}`,
answers `{start, Round, [work()]}` with `{dyno_worker, Pid, {done, Round}}`, and ends normally on
`close`.
""".
-spec start_link(job()) -> pid().
start_link(Job) ->
    spawn_link(fun() -> prepare(Job) end).

-doc "Counts a worker in or out of the works with something to do.".
-spec take_part(1 | -1, Id :: pos_integer(), [work()]) -> ok.
take_part(More, Id, Works) ->
    lists:foreach(
        fun(Free) ->
            ok = atomics:add(Free, ?TAKE_PART, More),
            ok = atomics:add(Free, ?FREE, More)
        end,
        [Free || #{free := Free, workers := Workers} <- Works, Id =< Workers]
    ).

-doc "The number of workers in a work to which more may be added.".
-spec taking_part(work()) -> non_neg_integer().
taking_part(#{free := Free}) -> atomics:get(Free, ?TAKE_PART).

-doc "Whether this work is under way without a free worker for the next arrival.".
-spec is_short(work()) -> boolean().
is_short(#{free := Free, start := Start, finish := Finish}) ->
    Now = dyno_load_recorder:time_ns(),
    Now >= Start andalso Now < Finish andalso atomics:get(Free, ?FREE) =< 0;
is_short(_Work) ->
    false.

prepare(#{module := Module, id := Id, feeds := Feeds} = Job) ->
    ok = dyno_feed:enter(Id, Feeds),
    try init_worker(Job) of
        {ok, State} ->
            tell(ready, Job),
            serve(Job, State);
        Other ->
            tell({failed, {bad_return, Module, init_worker, Other}}, Job)
    catch
        Class:Reason:Stack ->
            tell({failed, {raised, {Module, init_worker, 2}, Class, Reason, Stack}}, Job)
    end.

tell(Event, #{owner := Owner}) ->
    Owner ! {dyno_worker, self(), Event},
    ok.

init_worker(#{module := Module, id := Id, run_state := RunState, callbacks := Callbacks}) ->
    case lists:member({init_worker, 2}, Callbacks) of
        true -> Module:init_worker(Id, RunState);
        false -> {ok, RunState}
    end.

%% The connection stays open until the last reading of the target.
serve(Job, State) ->
    receive
        {start, Round, Works} ->
            Begun = begun(Round, Job),
            Last = works(Works, Begun, State),
            ok = tidy(Works, Job),
            tell({done, Round}, Job),
            serve(Begun, Last);
        close ->
            end_worker(Job, State)
    end.

%% A returning worker draws new random numbers.
begun(Round, #{turn := {Round, Turn}} = Job) -> Job#{turn := {Round, Turn + 1}};
begun(Round, Job) -> Job#{turn => {Round, 0}}.

%% Otherwise the heap of a worker that may not be needed again stays as its last operation left it.
tidy(Works, #{id := Id}) ->
    case lists:any(fun(Work) -> Id > maps:get(least, Work, Id) end, Works) of
        true -> erlang:garbage_collect();
        false -> true
    end,
    ok.

works([], _Job, State) ->
    State;
works([#{workers := Workers} | Works], #{id := Id} = Job, State) when Id > Workers ->
    works(Works, Job, State);
works([#{start := Start} = Work | Works] = Left, #{id := Id} = Job, State) ->
    wait_until(Start),
    case work(Job, Work, State) of
        {through, Last} ->
            works(Works, Job, Last);
        {rest, Last} ->
            ok = take_part(-1, Id, Left),
            Last
    end.

work(Job, Work, stopped) ->
    case renew(Job, any_recorder(Work), Work) of
        {ok, State} -> work(Job, Work, State);
        stop -> {through, stopped}
    end;
work(#{id := Id, turn := {_, Turn}} = Job, #{seed := Seed} = Work, State) ->
    Random = rand:seed_s(exsss, {Seed, Id, Turn}),
    case Work of
        #{model := open} -> open(Job, Work, State, Random);
        #{left := {each, N}} -> {through, closed(Job, Work, State, Random, N)};
        #{} -> {through, closed(Job, Work, State, Random, infinity)}
    end.

%% Arrival numbers begin at 0, so the count of numbers taken before is this worker's number.
open(Job, #{claimed := Claimed, stride := {Offset, Step}, times := Times} = Work, State, Random) ->
    #{start := Start, finish := Finish} = Work,
    Number = (atomics:add_get(Claimed, 1, 1) - 1) * Step + Offset,
    case dyno_load_schedule_ahead:due(Number, Times) of
        never ->
            {through, State};
        Ns ->
            Due = Start + Ns,
            case dyno_load_recorder:time_ns() of
                _ when Due >= Finish -> {through, State};
                Now when Now >= Finish -> {through, State};
                Now when Now >= Due -> next(Job, Work, State, Random, queued, Due, Now);
                _ ->
                    wait_until(Due),
                    Woken = dyno_load_recorder:time_ns(),
                    next(Job, Work, State, Random, {lag, Woken - Due}, Woken, Woken)
            end
    end.

next(Job, Work, State, Random, How, Intended, Begin) ->
    {Operation, Next} = drawn(Work, Random),
    #{recorders := #{Operation := Recorder}} = Work,
    case How of
        queued -> dyno_load_recorder:queued(Recorder);
        {lag, Ns} -> dyno_load_recorder:schedule_lag(Recorder, Ns)
    end,
    taken(Job, Work),
    Done = one(Job, Work, Operation, Recorder, State, Intended, Begin),
    IsSpare = free_again(Job, Work),
    case Done of
        {ok, Later} when IsSpare -> {rest, Later};
        {ok, Later} -> open(Job, Work, Later, Next);
        {ended, Later} -> {through, Later};
        stop -> {through, stopped}
    end.

%% The next arrival would have to wait.
taken(Job, #{free := Free}) ->
    case atomics:sub_get(Free, ?FREE, 1) of
        Left when Left =< 0 -> tell(none_free, Job);
        _ -> ok
    end;
taken(_Job, _Work) ->
    ok.

free_again(#{id := Id}, #{free := Free, least := Least}) ->
    Now = atomics:add_get(Free, ?FREE, 1),
    Id > Least andalso 2 * Now > atomics:get(Free, ?TAKE_PART);
free_again(_Job, _Work) ->
    false.

closed(_Job, _Work, State, _Random, 0) ->
    State;
closed(Job, #{finish := Finish} = Work, State, Random, Left) ->
    Now = dyno_load_recorder:time_ns(),
    case Now < Finish andalso may_go_on(Work) of
        true -> turn(Job, Work, State, Random, Left, Now);
        false -> State
    end.

may_go_on(#{left := {all, Left}}) -> atomics:sub_get(Left, 1, 1) >= 0;
may_go_on(_Work) -> true.

turn(Job, Work, State, Random, Left, Now) ->
    {Operation, Next} = drawn(Work, Random),
    #{recorders := #{Operation := Recorder}} = Work,
    case one(Job, Work, Operation, Recorder, State, Now, Now) of
        {ok, Later} -> closed(Job, Work, Later, think(Work, Next), less(Left));
        {ended, Later} -> Later;
        stop -> stopped
    end.

less(infinity) -> infinity;
less(N) -> N - 1.

%% No time counts from the end of a rest, so microseconds do not matter.
think(#{think := Think, finish := Finish}, Random) ->
    case thought_ms(Think, Random) of
        {Ms, Next} when Ms > 0 ->
            LeftNs = min(Finish - dyno_load_recorder:time_ns(), round(Ms * 1_000_000)),
            receive
            after max(0, LeftNs + 999_999) div 1_000_000 -> Next
            end;
        {_, Next} ->
            Next
    end.

thought_ms(Ms, Random) when is_number(Ms) ->
    {Ms, Random};
thought_ms({uniform, Low, High}, Random) ->
    {Uniform, Next} = rand:uniform_s(Random),
    {Low + (High - Low) * Uniform, Next};
thought_ms({exponential, Mean}, Random) ->
    {Uniform, Next} = rand:uniform_s(Random),
    {-Mean * math:log(1.0 - Uniform), Next}.

drawn(#{operations := [{_, Operation}]}, Random) ->
    {Operation, Random};
drawn(#{operations := Operations}, Random) ->
    {Uniform, Next} = rand:uniform_s(Random),
    {weighted(Operations, Uniform), Next}.

weighted([{_, Operation}], _Uniform) -> Operation;
weighted([{Upto, Operation} | _], Uniform) when Uniform < Upto -> Operation;
weighted([_ | Operations], Uniform) -> weighted(Operations, Uniform).

%% The operation's time is from just before its call to just after.
one(#{module := Module} = Job, Work, Operation, Recorder, State, Intended, Begin) ->
    ok = dyno_load_recorder:started(Recorder),
    try operation(Module, Operation, State) of
        {ok, Next} ->
            End = dyno_load_recorder:time_ns(),
            ok = dyno_load_recorder:success(Recorder, Intended, Begin, End),
            {ok, Next};
        {error, Reason, Next} ->
            ok = dyno_load_recorder:failure(Recorder, Reason, []),
            {ok, Next};
        Other ->
            tell({failed, {bad_return, Module, called(Operation), Other}}, Job),
            stop
    catch
        throw:{dyno_feed, ended, Feed} ->
            ok = dyno_load_recorder:withdrawn(Recorder),
            tell({feed_ended, Feed}, Job),
            {ended, State};
        Class:Reason:Stack ->
            ok = dyno_load_recorder:failure(Recorder, {Class, Reason}, Stack),
            renew(Job, Recorder, Work)
    end.

operation(Module, undefined, State) -> Module:operation(State);
operation(Module, Operation, State) -> Module:operation(Operation, State).

called(undefined) -> operation;
called(Operation) -> {operation, Operation}.

any_recorder(#{recorders := Recorders}) ->
    [Recorder | _] = maps:values(Recorders),
    Recorder.

%% After an exception the state may be half changed, a connection half read.
renew(Job, Recorder, Work) ->
    try init_worker(Job) of
        {ok, State} -> {ok, State};
        Other -> renew_later(Other, [], Job, Recorder, Work)
    catch
        Class:Reason:Stack -> renew_later({Class, Reason}, Stack, Job, Recorder, Work)
    end.

%% Avoids a million connections a second to a lost target.
renew_later(Reason, Stack, Job, Recorder, #{finish := Finish} = Work) ->
    Now = dyno_load_recorder:time_ns(),
    ok = dyno_load_recorder:not_prepared(Recorder, Reason, Stack),
    wait_until(Now + 100_000_000),
    case dyno_load_recorder:time_ns() >= Finish of
        true -> stop;
        false -> renew(Job, Recorder, Work)
    end.

end_worker(_Job, stopped) ->
    ok;
end_worker(#{module := Module, callbacks := Callbacks} = Job, State) ->
    case lists:member({end_worker, 1}, Callbacks) of
        true ->
            try
                _ = Module:end_worker(State),
                ok
            catch
                %% The connection may be lost, but the run is over.
                Class:Reason:Stack ->
                    tell({not_ended, {raised, {Module, end_worker, 1}, Class, Reason, Stack}}, Job)
            end;
        false ->
            ok
    end.

wait_until(Due) ->
    case Due - dyno_load_recorder:time_ns() of
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

-spec format_error(reason()) -> unicode:chardata().
format_error({bad_return, Module, init_worker, {error, _} = Value}) ->
    io_lib:format("~ts:init_worker/2 returned ~0tP", [Module, Value, 12]);
format_error({bad_return, Module, init_worker, Value}) ->
    io_lib:format(
        "~ts:init_worker/2 returned ~0tP; {ok, WorkerState} is expected", [Module, Value, 12]
    );
format_error({bad_return, Module, Operation, Value}) ->
    Call =
        case Operation of
            operation -> "operation/1";
            {operation, Name} -> io_lib:format("operation/2 of ~ts", [Name])
        end,
    io_lib:format(
        "~ts:~ts returned ~0tP; {ok, WorkerState} or {error, Reason, WorkerState} is expected",
        [Module, Call, Value, 12]
    );
format_error({raised, MFA, Class, Reason, Stack}) ->
    dyno_sandbox:format_error({MFA, {raised, Class, Reason, Stack}});
format_error({end_worker_timeout, Module, Workers, TimeoutMs}) ->
    dyno_recording_part:text(
        "~ts:end_worker/1 had not returned in ~b workers after ~ts; they were killed",
        [Module, Workers, dyno_unit:format(TimeoutMs, ~"ms")]
    ).

-spec fault(reason()) -> dyno_error:fault().
fault({bad_return, _, init_worker, {error, _}}) -> dyno;
fault({bad_return, _, _, _}) -> caller;
fault(_Reason) -> code.
