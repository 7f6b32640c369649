%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_load).
-moduledoc """
Loads a target: prepares the workers, starts them together, reads the meter at an interval, and
ends them.

The caller receives `{dyno_load, Load, Event}` where the event is

* `warm`: the warm-up is over and the workers stand still. The caller sets its instruments to zero
  and answers with `measure/1`: what they count is then what the measured operations did;
* `started`: the measured part begins now;
* `{interval, interval()}`: one interval's figures;
* `finished`: the measured part is over, and its last operations have ended, or take longer than a
  second. The caller looks at the target, whose connections are still open, and answers with
  `close/1`;
* `{not_ended, reason()}`: a worker's `end_worker/1` failed;
* `{ended, dyno_load_meter:snapshot(), Errors, InFlight}`: all workers have ended, or were killed
  because they did not within the patience;
* `{failed, reason()}`: the load could not be given.
""".

-behaviour(gen_server).

-export([start_link/1, measure/1, figures/1, close/1, stop/1, format_error/1]).
-export([init/1, handle_continue/2, handle_call/3, handle_cast/2, handle_info/2, terminate/2]).
-export_type([options/0, interval/0, reason/0]).

-type options() :: #{
    sink := pid(),
    module := module(),
    run_state := term(),
    load := dyno_suite:load(),
    duration_ms := pos_integer(),
    warmup_ms := non_neg_integer(),
    interval_ms := pos_integer(),
    %% How long the workers' preparation, and their last operations, may take.
    timeout_ms := pos_integer()
}.

-type interval() :: #{
    time_ms := non_neg_integer(),
    throughput_per_s := float(),
    errors_per_s := float(),
    p50_ns := number() | null,
    p99_ns := number() | null,
    max_ns := number() | null
}.

-type reason() ::
    {worker, module(), {bad_return, atom(), term()}}
    | {worker, module(), {raised, atom(), atom(), term(), erlang:stacktrace()}}
    | {worker_died, module(), term()}
    | {not_ready, module(), Ready :: non_neg_integer(), pos_integer(), TimeoutMs :: pos_integer()}.

-type state() :: #{
    options := options(),
    phase := preparing | warming | warm | working | draining | ending | failed,
    workers := #{pid() => []},
    waiting := #{pid() => []},
    %% Workers whose last operation has not ended.
    under_way := #{pid() => []},
    meter => dyno_load_meter:meter(),
    from => integer(),
    finish => integer(),
    last => dyno_load_meter:snapshot(),
    %% Up to when the last interval went.
    at => integer()
}.

-define(AHEAD_NS, 5_000_000).
%% How long the last operations of a part may take before the next thing is done.
-define(GRACE_MS, 1000).

-doc "Starts a load, linked to the caller.".
-spec start_link(options()) -> {ok, pid()}.
start_link(Options) ->
    {ok, _} = gen_server:start_link(?MODULE, Options, []).

-doc "The figures so far, where the load works.".
-spec figures(pid()) -> {ok, dyno_load_meter:snapshot(), [{binary(), pos_integer()}]} | error.
figures(Pid) ->
    try
        gen_server:call(Pid, figures)
    catch
        exit:_ -> error
    end.

-doc "Begins the measured part; the answer to `warm`.".
-spec measure(pid()) -> ok.
measure(Pid) ->
    gen_server:cast(Pid, measure).

-doc "Has the workers end; the answer to `finished`.".
-spec close(pid()) -> ok.
close(Pid) ->
    gen_server:cast(Pid, close).

-doc "Ends a load at once, and its workers. No more events come.".
-spec stop(pid()) -> ok.
stop(Pid) ->
    Monitor = monitor(process, Pid),
    unlink(Pid),
    exit(Pid, shutdown),
    receive
        {'DOWN', Monitor, process, Pid, _} -> ok
    after 5000 ->
        exit(Pid, kill),
        ok
    end.

-spec init(options()) -> {ok, state(), {continue, prepare}}.
init(Options) ->
    process_flag(trap_exit, true),
    proc_lib:set_label(?MODULE),
    State = #{options => Options, phase => preparing, workers => #{}, waiting => #{}, under_way => #{}},
    {ok, State, {continue, prepare}}.

-spec handle_continue(prepare, state()) -> {noreply, state()}.
handle_continue(prepare, #{options := #{load := #{workers := Count}} = Options} = State) ->
    #{module := Module, run_state := RunState, timeout_ms := TimeoutMs} = Options,
    #{present := Callbacks} = dyno_suite:callbacks(Module),
    Job = #{owner => self(), module => Module, run_state => RunState, callbacks => Callbacks},
    Workers = maps:from_keys(
        [dyno_load_worker:start_link(Job#{id => Id}) || Id <- lists:seq(1, Count)], []
    ),
    _ = erlang:send_after(TimeoutMs, self(), not_ready),
    {noreply, State#{workers := Workers, waiting := Workers, under_way := Workers}}.

-spec handle_call(figures, gen_server:from(), state()) ->
    {reply, {ok, dyno_load_meter:snapshot(), [{binary(), pos_integer()}]} | error, state()}.
handle_call(figures, _From, #{meter := Meter} = State) ->
    {reply, {ok, dyno_load_meter:snapshot(Meter), dyno_load_meter:errors(Meter)}, State};
handle_call(figures, _From, State) ->
    {reply, error, State}.

-spec handle_cast(term(), state()) -> {noreply, state()} | {stop, normal, state()}.
handle_cast(close, #{phase := ending, workers := Workers, options := Options} = State) ->
    maps:foreach(fun(Pid, _) -> Pid ! close end, Workers),
    #{timeout_ms := TimeoutMs} = Options,
    _ = erlang:send_after(TimeoutMs, self(), patience),
    ended(State);
handle_cast(measure, #{phase := warm} = State) ->
    {noreply, begin_measuring(State)};
handle_cast(_Request, State) ->
    {noreply, State}.

-spec handle_info(term(), state()) -> {noreply, state()} | {stop, term(), state()}.
handle_info({dyno_worker, Pid, ready}, #{phase := preparing, waiting := Waiting} = State) ->
    case maps:remove(Pid, Waiting) of
        None when map_size(None) =:= 0 -> {noreply, begin_warming(State#{waiting := None})};
        Rest -> {noreply, State#{waiting := Rest}}
    end;
handle_info({dyno_worker, _Pid, {failed, Reason}}, #{phase := Phase} = State) when
    Phase =/= failed
->
    fail({worker, module(State), Reason}, State);
handle_info({dyno_worker, _Pid, {not_ended, Reason}}, State) ->
    notify({not_ended, {worker, module(State), Reason}}, State),
    {noreply, State};
handle_info(not_ready, #{phase := preparing, workers := Workers, waiting := Waiting} = State) ->
    #{options := #{timeout_ms := TimeoutMs}} = State,
    Ready = map_size(Workers) - map_size(Waiting),
    fail({not_ready, module(State), Ready, map_size(Workers), TimeoutMs}, State);
handle_info(interval, #{phase := working} = State) ->
    {noreply, schedule_interval(interval(State))};
handle_info({dyno_worker, Pid, done}, #{under_way := UnderWay} = State) ->
    {noreply, quiet(State#{under_way := maps:remove(Pid, UnderWay)})};
handle_info({grace, Phase}, #{phase := Phase} = State) ->
    {noreply, quiet_enough(State)};
handle_info(finish, #{phase := working} = State) ->
    {noreply, quiet(with_grace(draining, interval(State)))};
handle_info(patience, #{phase := ending} = State) ->
    finish(State);
handle_info({'EXIT', Pid, Reason}, #{workers := Workers} = State) when is_map_key(Pid, Workers) ->
    Next = State#{workers := maps:remove(Pid, Workers)},
    case {Reason, map_get(phase, State)} of
        {_, failed} -> {noreply, Next};
        {normal, ending} -> ended(Next#{under_way := maps:remove(Pid, map_get(under_way, State))});
        %% Preparation failed: the worker has said why.
        {normal, _} -> {noreply, Next};
        {_, _} -> fail({worker_died, module(State), Reason}, Next)
    end;
handle_info({'EXIT', _Parent, Reason}, State) ->
    {stop, Reason, State};
handle_info(_Other, State) ->
    {noreply, State}.

module(#{options := #{module := Module}}) -> Module.

notify(Event, #{options := #{sink := Sink}}) ->
    Sink ! {dyno_load, self(), Event},
    ok.

fail(Reason, State) ->
    notify({failed, Reason}, State),
    {noreply, State#{phase := failed}}.

begin_warming(#{options := #{warmup_ms := 0}} = State) ->
    become_warm(State);
begin_warming(#{options := #{warmup_ms := WarmupMs}} = State) ->
    {Next, _Meter, _From, _Finish} = begin_work(WarmupMs, State),
    with_grace(warming, WarmupMs, Next).

begin_measuring(#{options := #{duration_ms := DurationMs}} = State) ->
    {Next, Meter, From, Finish} = begin_work(DurationMs, State),
    _ = at(Finish, finish),
    notify(started, State),
    schedule_interval(Next#{
        phase := working,
        meter => Meter,
        from => From,
        finish => Finish,
        last => dyno_load_meter:snapshot(Meter)
    }).

begin_work(DurationMs, #{options := #{load := Load}, workers := Workers} = State) ->
    %% A little ahead, so that all workers have the message by then.
    From = dyno_load_meter:time_ns() + ?AHEAD_NS,
    Finish = From + DurationMs * 1_000_000,
    Meter = dyno_load_meter:new(map_get(model, Load), Finish),
    Work0 = #{meter => Meter, start => From, finish => Finish},
    Work =
        case Load of
            #{model := open, rate_per_s := Rate} ->
                Work0#{rate_per_s => Rate, arrivals => atomics:new(1, [])};
            #{model := closed} ->
                Work0
        end,
    maps:foreach(fun(Pid, _) -> Pid ! {start, Work} end, Workers),
    {State#{under_way := Workers}, Meter, From, Finish}.

%% The phase ends when all workers are done, or that long after they should be.
with_grace(Phase, State) ->
    with_grace(Phase, 0, State).

with_grace(Phase, AfterMs, State) ->
    _ = erlang:send_after(AfterMs + ?GRACE_MS, self(), {grace, Phase}),
    State#{phase := Phase}.

quiet(#{phase := Phase, under_way := UnderWay} = State) when
    map_size(UnderWay) =:= 0, (Phase =:= warming orelse Phase =:= draining)
->
    quiet_enough(State);
quiet(State) ->
    State.

quiet_enough(#{phase := warming} = State) ->
    become_warm(State);
quiet_enough(#{phase := draining} = State) ->
    notify(finished, State),
    State#{phase := ending}.

become_warm(State) ->
    notify(warm, State),
    State#{phase := warm}.

at(TimeNs, Message) ->
    TimeMs = erlang:convert_time_unit(TimeNs, nanosecond, millisecond),
    erlang:send_after(TimeMs, self(), Message, [{abs, true}]).

schedule_interval(#{options := #{interval_ms := IntervalMs}, from := From} = State) ->
    Now = dyno_load_meter:time_ns(),
    Interval = IntervalMs * 1_000_000,
    Passed = max(0, Now - From) div Interval,
    _ = at(From + (Passed + 1) * Interval, interval),
    State#{at => max(Now, From)}.

%% The figures since the last interval. One of less than a tenth is not worth its noise.
interval(#{at := At, from := From, last := Last, meter := Meter, options := Options} = State) ->
    Now = dyno_load_meter:time_ns(),
    #{interval_ms := IntervalMs} = Options,
    case (Now - At) * 10 < IntervalMs * 1_000_000 of
        true ->
            State;
        false ->
            Snapshot = dyno_load_meter:snapshot(Meter),
            notify({interval, figures(Now - From, Now - At, Last, Snapshot)}, State),
            State#{last := Snapshot, at := Now}
    end.

figures(TimeNs, LengthNs, Last, Now) ->
    Between = dyno_histogram:subtract(map_get(response, Now), map_get(response, Last)),
    PerSecond = fun(Key) ->
        (map_get(Key, Now) - map_get(Key, Last)) * 1_000_000_000 / LengthNs
    end,
    #{
        time_ms => TimeNs div 1_000_000,
        throughput_per_s => PerSecond(in_time),
        errors_per_s => PerSecond(failures),
        p50_ns => quantile(Between, 0.5),
        p99_ns => quantile(Between, 0.99),
        max_ns => quantile(Between, 1.0)
    }.

quantile(Snapshot, Q) ->
    case dyno_histogram:quantile(Snapshot, Q) of
        undefined -> null;
        Value -> Value
    end.

ended(#{workers := Workers} = State) when map_size(Workers) =:= 0 ->
    finish(State);
ended(State) ->
    {noreply, State}.

finish(#{meter := Meter, under_way := UnderWay} = State) ->
    Snapshot = dyno_load_meter:snapshot(Meter),
    notify({ended, Snapshot, dyno_load_meter:errors(Meter), map_size(UnderWay)}, State),
    {stop, normal, State}.

-spec terminate(term(), state()) -> ok.
terminate(_Reason, #{workers := Workers}) ->
    maps:foreach(fun(Pid, _) -> exit(Pid, kill) end, Workers).

-doc "One sentence for a reason.".
-spec format_error(reason()) -> unicode:chardata().
format_error({worker, Module, {bad_return, init_worker, Value}}) ->
    io_lib:format(
        "~ts:init_worker/2 returned ~0tP; {ok, WorkerState} is expected", [Module, Value, 12]
    );
format_error({worker, Module, {bad_return, operation, Value}}) ->
    io_lib:format(
        "~ts:operation/1 returned ~0tP; {ok, WorkerState} or {error, Reason, WorkerState} "
        "is expected",
        [Module, Value, 12]
    );
format_error({worker, Module, {raised, Function, Class, Reason, Stack}}) ->
    Arity = map_get(Function, #{init_worker => 2, end_worker => 1}),
    dyno_suite_caller:format_error({raised, {Module, Function, Arity}, Class, Reason, Stack});
format_error({worker_died, Module, Reason}) ->
    io_lib:format(
        "a worker of ~ts died: ~0tP; something its callbacks are linked to ended",
        [Module, Reason, 12]
    );
format_error({not_ready, Module, Ready, Count, TimeoutMs}) ->
    io_lib:format(
        "~ts:init_worker/2 had returned in ~b of ~b workers after ~b ms; "
        "raise timeout_ms in suite/0 if it needs longer",
        [Module, Ready, Count, TimeoutMs]
    ).
