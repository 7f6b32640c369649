%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_test_run).
-moduledoc false.
%% One size's run: set-up, agents, load, reading, agents out, tear-down. Runs in the test's
%% process, which the agents and the load send their messages to; tear-down comes whatever happens.

-export([run/3]).
-export_type([context/0, outcome/0]).

-type context() :: #{
    options := dyno_suite:options(),
    module := module(),
    connection := #{cookie => atom(), name => atom()},
    %% Told about a run as it grows, to be saved and shown.
    watch := fun((event()) -> ok)
}.

-type event() ::
    {phase, atom()}
    | {interval, dyno_load:interval(), ElapsedMs :: integer()}
    | {partial, Run :: #{atom() => term()}}.

-type outcome() ::
    complete
    | interrupted
    | {failed, Code :: binary(), Text :: binary()}
    %% The suite's fault, not the target's.
    | {misuse, dyno_test_targets:reason() | dyno_test_callbacks:reason()}.

%% How often a run that is under way is saved.
-define(SAVE_MS, 5000).

-doc """
Runs one size. Gives what came of it, the recording's run where something was measured, and the
callbacks to go on with.
""".
-spec run(pos_integer(), {dyno_test_callbacks:callbacks(), SuiteState :: term()}, context()) ->
    {outcome(), Run :: #{atom() => term()} | undefined, dyno_test_callbacks:callbacks()}.
run(Size, {Callbacks0, SuiteState}, Context) ->
    tell({phase, set_up}, Context),
    case dyno_test_callbacks:init_run(Callbacks0, Size, SuiteState) of
        {{ok, {Nodes, RunState}}, Callbacks1} ->
            {Outcome, Run, Callbacks2} = with_targets(Size, Nodes, RunState, Callbacks1, Context),
            tear_down(Outcome, Run, RunState, Callbacks2, Context);
        {{error, Reason}, Callbacks1} ->
            tear_down(callback_failed(Reason), undefined, undefined, Callbacks1, Context)
    end.

tear_down(Outcome, Run, RunState, Callbacks, Context) ->
    tell({phase, tear_down}, Context),
    case {dyno_test_callbacks:end_run(Callbacks, RunState), Outcome} of
        {{{ok, _}, Next}, _} -> {Outcome, Run, Next};
        {{{error, Reason}, Next}, complete} -> {callback_failed(Reason), Run, Next};
        %% The first failure is the one to tell.
        {{{error, _}, Next}, _} -> {Outcome, Run, Next}
    end.

callback_failed(interrupted) -> interrupted;
callback_failed({bad_return, _, _, _} = Reason) -> {misuse, Reason};
callback_failed({bad_suite, _, _} = Reason) -> {misuse, Reason};
callback_failed(Reason) -> failed(~"callback", dyno_test_callbacks:format_error(Reason)).

failed(Code, Text) ->
    {failed, Code, unicode:characters_to_binary(Text)}.

with_targets(Size, Nodes, RunState, Callbacks, #{options := Options} = Context) ->
    #{load := Model} = Options,
    tell({phase, attach}, Context),
    Wanted = maps:merge(
        maps:with([patterns, level, interval_ms], Options), map_get(connection, Context)
    ),
    case dyno_test_callbacks:load(Callbacks, Size, RunState, Model) of
        {{ok, Load}, Next} ->
            case dyno_test_targets:attach(Nodes, Wanted) of
                {ok, Targets} ->
                    {Outcome, Run} = with_load(Size, Load, RunState, Targets, Context),
                    ok = dyno_test_targets:detach(Targets),
                    {Outcome, Run, Next};
                {error, {unmatched, _, _} = Reason} ->
                    {{misuse, Reason}, undefined, Next};
                {error, Reason} ->
                    {failed(~"target", dyno_test_targets:format_error(Reason)), undefined, Next}
            end;
        {{error, Reason}, Next} ->
            {callback_failed(Reason), undefined, Next}
    end.

with_load(Size, Load, RunState, Targets, #{options := Options, module := Module} = Context) ->
    tell({phase, warm_up}, Context),
    LoadOptions = maps:with([duration_ms, warmup_ms, interval_ms, timeout_ms], Options),
    {ok, Pid} = dyno_load:start_link(LoadOptions#{
        sink => self(), module => Module, run_state => RunState, load => Load
    }),
    State = #{
        context => Context,
        load_pid => Pid,
        phase => warm_up,
        targets => Targets,
        started_ms => erlang:monotonic_time(millisecond),
        saved_ms => erlang:monotonic_time(millisecond),
        measured => #{
            size => Size,
            id => integer_to_binary(Size),
            status => partial,
            started_at => dyno_environment:now_utc(),
            duration_ns => 0,
            load => Load,
            interval_ms => map_get(interval_ms, Options),
            targets => Targets,
            intervals => [],
            samples => [],
            snapshot => undefined,
            errors => [],
            in_flight => 0,
            not_ended => [],
            figures => [],
            error => undefined
        }
    },
    {Outcome, Final} = watch(State),
    ok = dyno_load:stop(Pid),
    flush(Pid),
    {Outcome, recorded(Outcome, Final)}.

%% What the load still sent before it was stopped.
flush(Pid) ->
    receive
        {dyno_load, Pid, _} -> flush(Pid);
        {'EXIT', Pid, _} -> flush(Pid);
        {dyno_sample, _, _, _, _} -> flush(Pid)
    after 0 -> ok
    end.

recorded(Outcome, #{measured := Measured}) ->
    Status =
        case Outcome of
            complete -> #{status => complete};
            interrupted -> #{status => interrupted};
            {failed, Code, Text} -> #{status => failed, error => {Code, Text}};
            {misuse, _} -> #{status => failed}
        end,
    run_of(maps:merge(Measured, Status)).

run_of(#{intervals := Intervals, samples := Samples} = Measured) ->
    dyno_test_figures:run(Measured#{
        intervals := lists:reverse(Intervals), samples := lists:reverse(Samples)
    }).

watch(#{load_pid := Load, targets := Targets} = State) ->
    receive
        {dyno_load, Load, Event} ->
            load_event(Event, State);
        {dyno_sample, Sampler, TimeMs, Figures, CostUs} ->
            watch(sample(Sampler, {TimeMs, Figures, CostUs}, State));
        {dyno_agent, Ref, {gave_up, Reason}} ->
            case dyno_test_targets:of_ref(Ref, Targets) of
                {ok, #{node := Node}} ->
                    Text = io_lib:format("the agent in ~ts gave up: ~0tP", [Node, Reason, 12]),
                    {failed(~"agent", Text), stop_reading(State)};
                error ->
                    watch(State)
            end;
        {'DOWN', Monitor, process, _, Reason} ->
            case dyno_test_targets:of_guard(Monitor, Targets) of
                {ok, Target} -> lost(Target, Reason, State);
                error -> watch(State)
            end;
        {'EXIT', Load, Reason} when Reason =/= normal ->
            Text = io_lib:format("the load generator died: ~0tP", [Reason, 12]),
            {failed(~"load", Text), stop_reading(State)};
        dyno_interrupt ->
            {interrupted, stop_reading(State)}
    end.

load_event(warm, #{targets := Targets, load_pid := Load} = State) ->
    case dyno_test_targets:restart(Targets) of
        ok ->
            %% Samples of the warm-up count from another start.
            flush_samples(),
            ok = dyno_load:measure(Load);
        gone ->
            %% That it went down is the next message.
            ok
    end,
    watch(State);
load_event(started, #{context := Context, measured := Measured} = State) ->
    tell({phase, measure}, Context),
    watch(State#{
        phase := measure,
        started_ms := erlang:monotonic_time(millisecond),
        measured := Measured#{samples := []}
    });
load_event({interval, Interval}, #{measured := Measured} = State) ->
    #{intervals := Intervals} = Measured,
    Next = State#{measured := Measured#{intervals := [Interval | Intervals]}},
    tell({interval, Interval, elapsed_ms(State)}, map_get(context, State)),
    watch(save(Next));
load_event(finished, #{context := Context} = State) ->
    tell({phase, finish}, Context),
    #{options := #{duration_ms := DurationMs}} = Context,
    Read = read(DurationMs, State),
    ok = dyno_load:close(map_get(load_pid, State)),
    watch(Read#{phase := finish});
load_event({not_ended, Reason}, #{measured := Measured} = State) ->
    #{not_ended := NotEnded} = Measured,
    Text = unicode:characters_to_binary(dyno_load:format_error(Reason)),
    watch(State#{measured := Measured#{not_ended := [Text | NotEnded]}});
load_event({ended, Snapshot, Errors, InFlight}, #{measured := Measured} = State) ->
    Final = State#{
        measured := Measured#{snapshot := Snapshot, errors := Errors, in_flight := InFlight}
    },
    {judge(Snapshot, Errors), Final};
load_event({failed, Reason}, State) ->
    Text = dyno_load:format_error(Reason),
    {load_failed(Reason, Text), stop_reading(State)}.

load_failed({worker, Module, {bad_return, Function, Value}}, _Text) ->
    {Arity, Expected} =
        case Function of
            init_worker -> {2, "{ok, WorkerState}"};
            operation -> {1, "{ok, WorkerState} or {error, Reason, WorkerState}"}
        end,
    {misuse, {bad_return, {Module, Function, Arity}, Value, Expected}};
load_failed(_Reason, Text) ->
    failed(~"load", Text).

%% A run in which nothing succeeded has measured nothing.
judge(#{successes := 0, failures := 0}, _Errors) ->
    failed(~"no_operations", "no operation ended within the run; give it a longer duration_ms");
judge(#{successes := 0, failures := N}, [{Reason, _} | _]) ->
    failed(~"no_operations", io_lib:format("all ~b operations failed, first: ~ts", [N, Reason]));
judge(_Snapshot, _Errors) ->
    complete.

lost(#{node := Node}, noconnection, State) ->
    Text = io_lib:format("node ~ts went down during the run", [Node]),
    {failed(~"target_down", Text), without(Node, State)};
lost(#{node := Node}, Reason, State) ->
    %% A guard that gives up says so first; that message is on its way before this one.
    Text = io_lib:format("the agent in ~ts ended: ~0tP", [Node, Reason, 12]),
    {failed(~"agent", Text), without(Node, State)}.

without(Node, #{targets := Targets} = State) ->
    stop_reading(State#{targets := [T || #{node := N} = T <- Targets, N =/= Node]}).

sample(Sampler, {TimeMs, Figures, CostUs}, #{measured := Measured, targets := Targets} = State) ->
    case {dyno_test_targets:of_sampler(Sampler, Targets), Measured} of
        {{ok, #{node := Node}}, #{samples := Samples}} ->
            Sample = {Node, TimeMs, Figures, CostUs},
            State#{measured := Measured#{samples := [Sample | Samples]}};
        {error, _} ->
            State
    end.

flush_samples() ->
    receive
        {dyno_sample, _, _, _, _} -> flush_samples()
    after 0 -> ok
    end.

elapsed_ms(#{started_ms := StartedMs}) ->
    erlang:monotonic_time(millisecond) - StartedMs.

%% Reads what is inside; the load has just ended.
read(DurationMs, #{targets := Targets, measured := Measured} = State) ->
    DurationNs = DurationMs * 1_000_000,
    Figures = dyno_test_targets:read(Targets),
    %% The last samples were sent before the figures were answered.
    last_samples(State#{measured := Measured#{figures := Figures, duration_ns := DurationNs}}).

last_samples(State) ->
    receive
        {dyno_sample, Sampler, TimeMs, Figures, CostUs} ->
            last_samples(sample(Sampler, {TimeMs, Figures, CostUs}, State))
    after 0 -> State
    end.

%% Something ended the run early: what can be had is taken.
stop_reading(#{phase := measure, load_pid := Load} = State) ->
    Read = read(elapsed_ms(State), State),
    case dyno_load:figures(Load) of
        {ok, Snapshot, Errors} ->
            #{measured := Measured} = Read,
            Read#{measured := Measured#{snapshot := Snapshot, errors := Errors}};
        error ->
            Read
    end;
stop_reading(State) ->
    State.

save(#{saved_ms := SavedMs, context := Context, measured := Measured} = State) ->
    case erlang:monotonic_time(millisecond) of
        Now when Now - SavedMs >= ?SAVE_MS ->
            Partial = Measured#{duration_ns := elapsed_ms(State) * 1_000_000},
            tell({partial, run_of(Partial)}, Context),
            State#{saved_ms := Now};
        _ ->
            State
    end.

tell(Event, #{watch := Watch}) ->
    Watch(Event).
