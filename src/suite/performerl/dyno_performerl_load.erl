%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_performerl_load).
-moduledoc """
The load of a PerformERL suite: calls `start_load/2`, waits for the load's duration, calls
`stop_load/1`.

Operations are not counted, so intervals are unknown and there is no result.

Both callbacks run in the suite's process, like `setup_run/1`: messages to itself and links stay
valid.
""".

-behaviour(dyno_load_source).
-behaviour(gen_server).

-export([start_link/1, known/0, format_error/1, fault/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2, terminate/2]).
-export_type([options/0, reason/0]).

-import(dyno_recording_part, [text/2]).

-doc "All sources' options; `timeout_ms` is for `stop_load`, and `start_load` beyond its time.".
-type options() :: #{
    callbacks := dyno_test_callbacks:t(),
    run_state := #{nodes := [node()], _ => _},
    size := non_neg_integer(),
    _ => _
}.

-type reason() :: {late_start, module(), TimeoutMs :: pos_integer()}.

-type state() :: #{
    options := options(),
    phase := warm | starting | loading | stopping | read,
    %% The process waiting for a callback, and the load's own process if named.
    asker := {pid(), reference()} | undefined,
    load_process := {pid(), reference()} | undefined,
    %% The begins of the load and its stop, and start_load's time and result.
    from => integer(),
    stop_from => integer(),
    start_ns => non_neg_integer(),
    info => term()
}.

-spec start_link(options()) -> {ok, pid()}.
start_link(Options) ->
    {ok, _} = gen_server:start_link(?MODULE, Options, []).

-spec init(options()) -> {ok, state()}.
init(Options) ->
    process_flag(trap_exit, true),
    proc_lib:set_label(?MODULE),
    State = #{options => Options, phase => warm, asker => undefined, load_process => undefined},
    Text = text(
        "response times, throughput and errors are missing: ~ts gives its load itself and tells "
        "nothing of its operations, as all suites in PerformERL's form",
        [module(State)]
    ),
    notify({warning, {~"no_operations_told", Text}}, State),
    notify(warm, State),
    {ok, State}.

-spec handle_call(result, gen_server:from(), state()) -> {reply, none, state()}.
handle_call(result, _From, State) ->
    {reply, none, State}.

-spec handle_cast(term(), state()) -> {noreply, state()} | {stop, normal, state()}.
handle_cast(measure, #{phase := warm, options := Options} = State) ->
    #{run_state := #{nodes := Nodes}, size := Size} = Options,
    #{duration_ms := DurationMs, timeout_ms := TimeoutMs} = Options,
    notify(started, State),
    Next = tick(State#{from => now_ns()}),
    {noreply, ask(start_load, [Nodes, Size], DurationMs + TimeoutMs, Next#{phase := starting})};
handle_cast(close, #{phase := read} = State) ->
    notify({ended, none}, State),
    {stop, normal, State};
handle_cast(_Request, State) ->
    {noreply, State}.

-spec handle_info(term(), state()) -> {noreply, state()} | {stop, term(), state()}.
handle_info({answer, Asker, Answer}, #{asker := {Asker, Monitor}, phase := Phase} = State) ->
    true = demonitor(Monitor, [flush]),
    answered(Phase, Answer, State#{asker := undefined});
handle_info(tick, #{phase := Phase} = State) when Phase =:= starting; Phase =:= loading ->
    notify({interval, unknown}, State),
    {noreply, tick(State)};
handle_info(over, #{phase := loading} = State) ->
    {noreply, stop_load(State)};
handle_info({'DOWN', Ref, process, Pid, Reason}, #{load_process := {Pid, Ref}} = State) ->
    early(Reason, State),
    {noreply, State#{load_process := undefined}};
handle_info({'DOWN', Ref, process, Pid, Reason}, #{asker := {Pid, Ref}} = State) ->
    {stop, Reason, State};
handle_info({'EXIT', _Pid, Reason}, State) when Reason =/= normal ->
    {stop, Reason, State};
handle_info(_Other, State) ->
    {noreply, State}.

%% A running callback would delay the tear-down: its process is ended.
-spec terminate(term(), state()) -> ok.
terminate(_Reason, #{asker := {Asker, Monitor}}) ->
    Asker ! ?MODULE,
    receive
        {'DOWN', Monitor, process, Asker, _} -> ok
    end;
terminate(_Reason, _State) ->
    ok.

notify(Event, #{options := #{sink := Sink}}) ->
    Sink ! {dyno_load, self(), Event},
    ok.

now_ns() ->
    erlang:monotonic_time(nanosecond).

tick(#{options := #{interval_ms := IntervalMs}} = State) ->
    _ = erlang:send_after(IntervalMs, self(), tick),
    State.

%% In its own process, so that this one can receive other events.
ask(Function, Arguments, TimeoutMs, #{options := #{callbacks := Callbacks}} = State) ->
    Self = self(),
    {Pid, Monitor} = spawn_opt(
        fun() ->
            Answer = dyno_test_callbacks:call(
                Callbacks, Function, Arguments, TimeoutMs, ?MODULE
            ),
            Self ! {answer, self(), Answer}
        end,
        [link, monitor]
    ),
    State#{asker := {Pid, Monitor}}.

answered(starting, {ok, {load_started, Info}}, State) ->
    {noreply, wait(Info, State)};
answered(starting, {ok, {already_started, Pid}}, State) when is_pid(Pid) ->
    %% The load is that process, so its end can be noticed.
    {noreply, wait(Pid, State#{load_process := {Pid, monitor(process, Pid)}})};
answered(starting, {ok, Other}, State) ->
    bad_return(start_load, 2, Other, "{load_started, RunInfo} or {already_started, Pid}", State);
answered(stopping, {ok, {load_stopped, Info}}, State) ->
    notify({run_info, Info}, State),
    {noreply, finished(State)};
answered(stopping, {ok, {error, not_started}}, State) ->
    Text = text(
        "~ts:stop_load/1 returned {error, not_started}: the load had ended before it, or had "
        "never begun",
        [module(State)]
    ),
    notify({warning, {~"not_started", Text}}, State),
    {noreply, finished(State)};
answered(stopping, {ok, Other}, State) ->
    bad_return(stop_load, 1, Other, "{load_stopped, RunInfo} or {error, not_started}", State);
answered(starting, {error, {dyno_sandbox, {{Module, _, _}, {timeout, TimeoutMs}}}}, State) ->
    failed({?MODULE, {late_start, Module, TimeoutMs}}, State);
answered(_Phase, {error, Error}, State) ->
    failed(Error, State).

bad_return(Function, Arity, Value, Expected, #{options := #{callbacks := Callbacks}} = State) ->
    {error, Error} = dyno_test_callbacks:bad_return(Callbacks, Function, Arity, Value, Expected),
    failed(Error, State).

failed(Error, State) ->
    notify({failed, Error}, State),
    {noreply, State#{phase := read}}.

module(#{options := #{module := Module}}) -> Module.

%% The rest of the load's duration, which counts from before start_load.
wait(Info, #{from := From, options := #{duration_ms := DurationMs}} = State) ->
    notify({run_info, Info}, State),
    StartNs = now_ns() - From,
    Next = State#{phase := loading, start_ns => StartNs, info => Info},
    case DurationMs - StartNs div 1_000_000 of
        LeftMs when LeftMs > 0 ->
            _ = erlang:send_after(LeftMs, self(), over),
            Next;
        _ ->
            Text = text(
                "~ts:start_load/2 took ~ts, longer than the ~ts of get_load_duration/0: it was "
                "stopped at once",
                [module(State), ns(StartNs), ns(DurationMs * 1_000_000)]
            ),
            notify({warning, {~"long_start", Text}}, State),
            stop_load(Next)
    end.

stop_load(#{info := Info, options := #{timeout_ms := TimeoutMs}} = State) ->
    ask(stop_load, [Info], TimeoutMs, State#{phase := stopping, stop_from => now_ns()}).

early(Reason, #{phase := loading, from := From} = State) ->
    #{options := #{duration_ms := DurationMs}} = State,
    Text = text(
        "the load's process, which ~ts:start_load/2 returned, ended after ~ts of ~ts: ~0tP",
        [module(State), ns(now_ns() - From), ns(DurationMs * 1_000_000), Reason, 10]
    ),
    notify({warning, {~"early_end", Text}}, State);
early(_Reason, _State) ->
    ok.

finished(#{from := From, start_ns := StartNs, stop_from := StopFrom} = State) ->
    Now = now_ns(),
    notify(
        {metrics, [
            Metric#{value => Ns, count => 1}
         || {Metric, Ns} <- lists:zip(metrics(), [StartNs, Now - StopFrom])
        ]},
        State
    ),
    notify({finished, max(1, Now - From)}, State),
    State#{phase := read}.

metrics() ->
    [
        #{name => Name, title => Title, unit => ~"ns", group => ~"load"}
     || {Name, Title} <- [
            {~"load.start_time", ~"Time that start_load took"},
            {~"load.stop_time", ~"Time that stop_load took"}
        ]
    ].

-doc "Its metrics besides intervals.".
-spec known() -> dyno_threshold:known().
known() -> #{metrics => metrics()}.

ns(Ns) ->
    dyno_unit:format(Ns, ~"ns").

-spec format_error(reason()) -> unicode:chardata().
format_error({late_start, Module, TimeoutMs}) ->
    io_lib:format(
        "~ts:start_load/2 had not returned after ~ts, long after the load's duration was over; "
        "it must return {load_started, RunInfo}, or give --timeout if it needs longer",
        [Module, dyno_unit:format(TimeoutMs, ~"ms")]
    ).

-spec fault(reason()) -> dyno_error:fault().
fault({late_start, _, _}) -> code.
