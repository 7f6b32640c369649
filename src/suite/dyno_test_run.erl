%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_test_run).
-moduledoc false.
%% One size's run: set-up, half a control, agents, load, reading, agents out, the other half of the
%% control, tear-down. Runs in the test's process, which the agents and the load send their messages
%% to; tear-down comes whatever happens.

-export([run/3]).
-export_type([context/0, outcome/0]).

-type context() :: #{
    options := dyno_suite:options(),
    module := module(),
    %% What the command line says of the load.
    override := dyno_load_spec:override(),
    connection := #{cookie => atom(), name => atom(), stays => dyno_agent:stays()},
    %% Besides the options'.
    agents := [dyno_target_custom:agent()],
    %% Told about a run as it grows, to be saved and shown.
    watch := fun((event()) -> ok)
}.

-type event() ::
    {phase, atom()}
    | {load, dyno_load_spec:load() | #{model := performerl}}
    | {interval, dyno_load:interval(), ElapsedMs :: integer()}
    | {partial, Run :: #{atom() => term()}}.

-type outcome() ::
    complete
    | interrupted
    | {failed, Code :: binary(), Text :: binary()}
    %% The suite's fault, not the target's.
    | {misuse, dyno_targets:reason() | dyno_test_callbacks:reason()}.

%% How often a run that is under way is saved.
-define(SAVE_MS, 5000).

-doc """
Runs one size once. Gives what came of it, the recording's run where something was measured, and the
callbacks to go on with.
""".
-spec run(dyno_test_plan:run(), {dyno_test_callbacks:callbacks(), SuiteState :: _}, context()) ->
    {outcome(), Run :: #{atom() => term()} | undefined, dyno_test_callbacks:callbacks()}.
run({Size, _} = Which, {Callbacks0, SuiteState}, Context) ->
    tell({phase, set_up}, Context),
    case dyno_test_callbacks:init_run(Callbacks0, Size, SuiteState) of
        {{ok, {Nodes, RunState}}, Callbacks1} ->
            {Outcome, Run, Callbacks2} = with_targets(Which, Nodes, RunState, Callbacks1, Context),
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
callback_failed({bad_callback, _, _} = Reason) -> {misuse, Reason};
callback_failed(Reason) -> failed(~"callback", dyno_test_callbacks:format_error(Reason)).

failed(Code, Text) ->
    {failed, Code, unicode:characters_to_binary(Text)}.

with_targets({Size, _} = Which, Nodes, RunState, Callbacks, #{options := Options} = Context) ->
    #{load := Model} = Options,
    tell({phase, attach}, Context),
    #{connection := Connection, agents := Agents} = Context,
    Inside = maps:with([patterns, level, distribution, without, interval_ms], Options),
    Wanted = maps:merge(Inside, Connection#{
        guests => dyno_target_custom:modules(Agents),
        patterns_of => dyno_test_callbacks:patterns_of(Callbacks)
    }),
    case dyno_test_callbacks:load(Callbacks, Size, RunState, Model) of
        {{ok, Given}, Next} ->
            case overridden(Given, Size, Context) of
                {ok, Load} ->
                    tell({load, Load}, Context),
                    Attach = fun() -> attach(Nodes, Wanted, Load) end,
                    Job = #{
                        which => Which,
                        load => Load,
                        run_state => RunState,
                        callbacks => Next,
                        wanted => Wanted
                    },
                    {Outcome, Run, Info} = with_agents(Job, Attach, Context),
                    {Outcome, Run, dyno_test_callbacks:keep_info(Next, Info)};
                {error, Reason} ->
                    #{module := Module} = Context,
                    {{misuse, {bad_suite, Module, {load, Reason}}}, undefined, Next}
            end;
        {{error, Reason}, Next} ->
            {callback_failed(Reason), undefined, Next}
    end.

%% What the command line says goes before what the suite says.
overridden(#{model := performerl} = Load, _Size, #{override := Override}) ->
    case map_size(Override) of
        0 -> {ok, Load};
        _ -> {error, gives_itself}
    end;
overridden(Load, Size, #{override := Override}) ->
    dyno_load_spec:override(Load, Override, Size).

%% Suites of PerformERL name what may be there, and PerformERL takes no notice of what is not: those
%% patterns are left out, which is said, unless that leaves none.
attach(Nodes, #{patterns := Patterns} = Wanted, #{model := performerl} = Load) ->
    case dyno_targets:attach(Nodes, Wanted) of
        {error, {unmatched, _, Unmatched} = Reason} ->
            case Patterns -- [P || {P, _} <- Unmatched] of
                [] ->
                    {error, Reason};
                Fewer ->
                    Text = unicode:characters_to_binary(dyno_targets:format_error(Reason)),
                    Warning = {~"unmatched", Text},
                    maybe
                        {ok, Targets, Extra} ?= attach(Nodes, Wanted#{patterns := Fewer}, Load),
                        {ok, Targets, dyno_test_extra:warning(Warning, Extra)}
                    end
            end;
        {ok, Targets} ->
            {ok, Targets, dyno_test_extra:new()};
        {error, _} = Error ->
            Error
    end;
attach(Nodes, Wanted, _Load) ->
    case dyno_targets:attach(Nodes, Wanted) of
        {ok, Targets} -> {ok, Targets, dyno_test_extra:new()};
        {error, _} = Error -> Error
    end.

with_agents(#{load := Load} = Job, Attach, #{options := Options} = Context) ->
    %% Before anything is loaded: patterns may be wrong, nodes not there.
    case Attach() of
        {ok, Targets, Extra} ->
            case dyno_test_baseline_run:wanted(Options, Load, dyno_targets:traces(Targets)) of
                true ->
                    ok = dyno_targets:detach(Targets),
                    with_control(Job, Attach, Context);
                false ->
                    {Outcome, State} = with_load(Job, {Targets, Extra}, [], Context),
                    ok = dyno_targets:detach(Targets),
                    ended(Outcome, State)
            end;
        {error, Reason} ->
            {not_attached(Reason, Context), undefined, none}
    end.

with_control(Job, Attach, Context) ->
    maybe
        {ok, First} ?= control(first, Job, Context),
        tell({phase, attach}, Context),
        {ok, Targets, Extra} ?= Attach(),
        {Outcome, State} = with_load(Job, {Targets, Extra}, [First], Context),
        ok = dyno_targets:detach(Targets),
        second_half(Outcome, State, Job, Context)
    else
        {error, Reason} -> {not_attached(Reason, Context), undefined, none};
        {stop, Stopped} -> {stopped(Stopped), undefined, none}
    end.

ended(Outcome, #{run_info := Info} = State) ->
    {Outcome, recorded(Outcome, State), Info}.

not_attached({unmatched, _, _} = Reason, _Context) ->
    {misuse, Reason};
not_attached(Reason, #{module := Module}) ->
    Callback =
        case erlang:function_exported(Module, init_run, 2) of
            true -> "init_run/2";
            false -> "setup_run/1"
        end,
    Text = dyno_targets:format_error(Reason),
    failed(~"target", io_lib:format("a target of ~ts:~ts: ~ts", [Module, Callback, Text])).

control(Which, Job, Context) ->
    Tell = fun(Phase) -> tell({phase, Phase}, Context) end,
    dyno_test_baseline_run:half(Which, load_options(Job, Context), self(), Tell).

stopped(interrupted) ->
    interrupted;
stopped({load, Reason}) ->
    load_failed(Reason, dyno_load:format_error(Reason));
stopped({load_died, Reason}) ->
    failed(~"load", io_lib:format("the load generator died: ~0tP", [Reason, 12])).

%% The run is measured by now: a control that fails only costs its interval.
second_half(complete, State, Job, Context) ->
    #{measured := #{control := Halves} = Measured} = State,
    case control(second, Job, Context) of
        {ok, Half} ->
            ended(complete, State#{measured := Measured#{control := Halves ++ [Half]}});
        {stop, interrupted} ->
            {_, Run, Info} = ended(complete, State),
            {interrupted, Run, Info};
        {stop, _} ->
            ended(complete, State)
    end;
second_half(Outcome, State, _Job, _Context) ->
    ended(Outcome, State).

load_options(#{load := Load, run_state := RunState}, #{options := Options, module := Module}) ->
    #{duration_ms := DurationMs, interval_ms := IntervalMs} = Options,
    Keys = [duration_ms, warmup_ms, timeout_ms, operations, feeds, seed, load_nodes],
    (maps:with(Keys, Options))#{
        interval_ms => dyno_test_baseline_run:interval_ms(IntervalMs, DurationMs),
        sink => self(),
        module => Module,
        run_state => RunState,
        load => Load
    }.

with_load(#{which := Which, load := Load} = Job, {Targets, Extra}, Halves, Context) ->
    {Size, Repetition} = Which,
    #{options := Options} = Context,
    tell({phase, warm_up}, Context),
    State = #{
        context => Context,
        load_pid => undefined,
        phase => warm_up,
        targets => Targets,
        guests => dyno_target_custom:none(),
        callbacks => map_get(callbacks, Job),
        extra => Extra,
        run_info => none,
        wanted => map_get(wanted, Job),
        members => none,
        gone => dyno_test_joins:none_gone(),
        started_ms => erlang:monotonic_time(millisecond),
        saved_ms => erlang:monotonic_time(millisecond),
        measured => #{
            size => Size,
            repetition => Repetition,
            id => dyno_test_plan:id(Which),
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
            control => Halves,
            error => undefined
        }
    },
    case start_guests(Size, Targets, Job, Context) of
        {ok, Guests} ->
            {ok, Pid} = start_load(Job, load_options(Job, Context)),
            Members = members(Targets, Job, Context),
            {Outcome, Final} = watch(State#{
                guests := Guests, load_pid := Pid, members := Members
            }),
            ok = dyno_test_joins:stop(Members),
            ok = dyno_load:stop(Pid),
            flush(Pid),
            {Outcome, Final};
        {error, {callback, Reason}} ->
            {callback_failed(Reason), State};
        {error, Reason} ->
            {failed(~"custom_agent", dyno_target_custom:format_error(Reason)), State}
    end.

start_guests(Size, Targets, #{callbacks := Callbacks}, Context) ->
    dyno_target_custom:start(Targets, Size, (maps:with([agents, options, module], Context))#{
        callbacks => Callbacks
    }).

members(Targets, #{run_state := RunState}, #{module := Module}) ->
    dyno_test_joins:watch(Module, RunState, [Node || #{node := Node} <- Targets]).

start_load(#{load := #{model := performerl}} = Job, Options) ->
    #{which := {Size, _}, run_state := #{nodes := Nodes}, callbacks := Callbacks} = Job,
    dyno_performerl_load:start_link(
        (maps:with([sink, module, duration_ms, interval_ms, timeout_ms], Options))#{
            caller => dyno_test_callbacks:caller(Callbacks), nodes => Nodes, size => Size
        }
    );
start_load(_Job, Options) ->
    dyno_load:start_link(Options).

%% What the load still sent before it was stopped.
flush(Pid) ->
    receive
        {dyno_load, Pid, _} -> flush(Pid);
        {'EXIT', Pid, _} -> flush(Pid);
        {dyno_sample, _, _, _, _} -> flush(Pid);
        {dyno_guest, _, _, _} -> flush(Pid)
    after 0 -> ok
    end.

recorded(Outcome, #{measured := Measured} = State) ->
    Status =
        case Outcome of
            complete -> #{status => complete};
            interrupted -> #{status => interrupted};
            {failed, Code, Text} -> #{status => failed, error => {Code, Text}};
            {misuse, _} -> #{status => failed}
        end,
    run_of(maps:merge(Measured, Status), State).

run_of(#{intervals := Intervals, samples := Samples} = Measured, State) ->
    #{guests := Guests, extra := Extra} = State,
    Run = dyno_test_figures:run(Measured#{
        intervals := lists:reverse(Intervals), samples := lists:reverse(Samples)
    }),
    Place = #{run => map_get(id, Measured), size => map_get(size, Measured)},
    dyno_test_extra:add(dyno_target_custom:extra(Guests, Place, Extra), Run).

watch(#{load_pid := Load, targets := Targets, members := Members} = State) ->
    receive
        {dyno_members, Members, {joined, New}} ->
            watch(dyno_test_joins:joined(New, zero_ns(State), State));
        {dyno_members, Members, {failed, Text}} ->
            watch(dyno_test_joins:warned(~"targets", Text, State));
        {dyno_load, Load, Event} ->
            load_event(Event, State);
        {dyno_sample, Sampler, TimeMs, Figures, CostUs} ->
            watch(sample(Sampler, {TimeMs, Figures, CostUs}, State));
        {dyno_guest, Pid, TimeMs, Event} ->
            #{guests := Guests} = State,
            watch(State#{guests := dyno_target_custom:take(Pid, TimeMs, Event, Guests)});
        {dyno_agent, Ref, {gave_up, Reason}} ->
            case dyno_targets:of_ref(Ref, Targets) of
                {ok, #{node := Node}} ->
                    Text = io_lib:format("the agent in ~ts gave up: ~0tP", [Node, Reason, 12]),
                    {failed(~"agent", Text), stop_reading(State)};
                error ->
                    watch(State)
            end;
        {'DOWN', Monitor, process, _, Reason} ->
            case dyno_targets:of_guard(Monitor, Targets) of
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
    case dyno_targets:restart(Targets) of
        ok ->
            %% Samples of the warm-up count from another start.
            flush_samples(),
            ok = dyno_target_custom:restart(map_get(guests, State)),
            ok = dyno_load:measure(Load);
        gone ->
            %% That it went down is the next message.
            ok
    end,
    watch(State);
load_event(started, #{context := Context, measured := Measured0, targets := Targets0} = State) ->
    tell({phase, measure}, Context),
    #{guests := Guests} = State,
    StartedMs = erlang:monotonic_time(millisecond),
    Targets = dyno_targets:aligned(Targets0, StartedMs * 1_000_000),
    Measured = Measured0#{targets := Targets},
    watch(State#{
        phase := measure,
        targets := Targets,
        guests := dyno_target_custom:aligned(Targets, StartedMs * 1_000_000, Guests),
        started_ms := StartedMs,
        measured := Measured#{samples := []}
    });
load_event({interval, Interval}, #{measured := Measured} = State) ->
    #{intervals := Intervals} = Measured,
    Next = State#{measured := Measured#{intervals := [Interval | Intervals]}},
    tell({interval, Interval, elapsed_ms(State)}, map_get(context, State)),
    watch(save(dyno_test_joins:peek(Next)));
load_event(tick, State) ->
    tell({interval, #{throughput_per_s => undefined}, elapsed_ms(State)}, map_get(context, State)),
    watch(save(dyno_test_joins:peek(State)));
load_event({run_info, Info}, State) ->
    watch(State#{run_info := {info, Info}});
load_event({load_metrics, Metrics}, #{extra := Extra} = State) ->
    watch(State#{extra := dyno_test_extra:metrics(Metrics, Extra)});
load_event({load_warning, Warning}, #{extra := Extra} = State) ->
    watch(State#{extra := dyno_test_extra:warning(Warning, Extra)});
load_event(finished, #{context := #{options := #{duration_ms := DurationMs}}} = State) ->
    load_event({finished, DurationMs}, State);
load_event({finished, DurationMs}, #{context := Context} = State) ->
    tell({phase, finish}, Context),
    Read = read(DurationMs, State),
    ok = dyno_load:close(map_get(load_pid, State)),
    watch(Read#{phase := finish});
load_event({not_ended, Reason}, #{measured := Measured} = State) ->
    #{not_ended := NotEnded} = Measured,
    Text = unicode:characters_to_binary(dyno_load:format_error(Reason)),
    watch(State#{measured := Measured#{not_ended := [Text | NotEnded]}});
load_event({report, #{duration_ns := DurationNs} = Report}, #{measured := Measured} = State) ->
    watch(State#{measured := Measured#{report => Report, duration_ns := DurationNs}});
load_event({ended, Snapshot, Errors, InFlight}, #{measured := Measured} = State) ->
    Final = State#{
        measured := Measured#{snapshot := Snapshot, errors := Errors, in_flight := InFlight}
    },
    {sound(judge(Snapshot, Errors, Final), Final), Final};
load_event({failed, Reason}, #{measured := #{load := #{model := performerl}}} = State) ->
    {performerl_failed(Reason), stop_reading(State)};
load_event({failed, Reason}, State) ->
    Text = dyno_load:format_error(Reason),
    {load_failed(Reason, Text), stop_reading(State)}.

performerl_failed({bad_return, _, _, _} = Reason) -> {misuse, Reason};
performerl_failed(Reason) -> failed(~"callback", dyno_performerl_load:format_error(Reason)).

load_failed({worker, Module, {bad_return, Function, Value}}, _Text) ->
    {Arity, Expected} =
        case Function of
            init_worker -> {2, "{ok, WorkerState}"};
            operation -> {1, "{ok, WorkerState} or {error, Reason, WorkerState}"};
            {operation, _Kind} -> {2, "{ok, WorkerState} or {error, Reason, WorkerState}"}
        end,
    Name =
        case Function of
            {Called, _} -> Called;
            Called -> Called
        end,
    {misuse, {bad_return, {Module, Name, Arity}, Value, Expected}};
load_failed(_Reason, Text) ->
    failed(~"load", Text).

%% An agent that ended, or gave no results, was not there for what the run is to show.
sound(complete, #{guests := Guests}) ->
    case dyno_target_custom:problem(Guests) of
        none -> complete;
        Text -> failed(~"custom_agent", Text)
    end;
sound(Outcome, _State) ->
    Outcome.

%% A run in which nothing succeeded has measured nothing.
judge(undefined, _Errors, #{measured := #{figures := Figures}, context := Context}) ->
    %% Nobody counts the operations of such a suite but the functions that were to be measured.
    case [F || #{functions := #{functions := Functions}} <- Figures, F <- Functions] of
        [] when Figures =/= [] ->
            judge_uncounted(Context, Figures);
        _ ->
            complete
    end;
judge(#{successes := 0, failures := 0}, _Errors, State) ->
    #{measured := #{in_flight := InFlight}, context := #{options := Options} = Context} = State,
    #{duration_ms := DurationMs} = Options,
    failed(
        ~"no_operations",
        io_lib:format(
            "no operation ended within the run: ~ts had not returned after ~ts (calls under way: "
            "~b); give it a longer duration_ms",
            [operation(Context), dyno_unit:format(DurationMs, ~"ms"), InFlight]
        )
    );
judge(#{successes := 0, failures := N}, [{Reason, _} | _], #{context := Context}) ->
    Text = "all ~b operations failed; what ~ts raised or returned most often is ~ts",
    failed(~"no_operations", io_lib:format(Text, [N, operation(Context), Reason]));
judge(_Snapshot, _Errors, _State) ->
    complete.

operation(#{module := Module}) ->
    Arity =
        case erlang:function_exported(Module, operation, 1) of
            true -> 1;
            false -> 2
        end,
    io_lib:format("~ts:operation/~b", [Module, Arity]).

judge_uncounted(#{module := Module}, Figures) ->
    case [N || #{functions := #{measured_functions := N}} <- Figures, N > 0] of
        [] ->
            complete;
        Counts ->
            failed(
                ~"no_operations",
                io_lib:format(
                    "none of the ~b functions of ~ts:get_trace_patterns/0 was called between "
                    "start_load and stop_load: the load missed the targets, or was over before",
                    [lists:sum(Counts), Module]
                )
            )
    end.

lost(Target, noconnection, #{targets := [_, _ | _]} = State) ->
    %% The others are still there: what the load has of it is for the suite to say.
    watch(dyno_test_joins:left(Target, in_run_ms(State), State));
lost(#{node := Node}, noconnection, State) ->
    Text = io_lib:format("node ~ts went down during the run", [Node]),
    {failed(~"target_down", Text), without(Node, State)};
lost(#{node := Node}, Reason, State) ->
    %% A guard that gives up says so first; that message is on its way before this one.
    Text = io_lib:format("the agent in ~ts ended: ~0tP", [Node, Reason, 12]),
    {failed(~"agent", Text), without(Node, State)}.

%% On this node's monotonic clock; undefined before it has begun.
zero_ns(#{phase := measure, started_ms := StartedMs}) -> StartedMs * 1_000_000;
zero_ns(_State) -> undefined.

%% Undefined before it has begun.
in_run_ms(#{phase := measure} = State) -> elapsed_ms(State);
in_run_ms(_State) -> undefined.

without(Node, #{targets := Targets} = State) ->
    stop_reading(State#{targets := [T || #{node := N} = T <- Targets, N =/= Node]}).

sample(Sampler, {TimeMs, Figures, CostUs}, #{measured := Measured, targets := Targets} = State) ->
    case {dyno_targets:of_sampler(Sampler, Targets), Measured} of
        {{ok, #{node := Node, shift_ms := ShiftMs}}, #{samples := Samples}} ->
            Sample = {Node, TimeMs + ShiftMs, Figures, CostUs},
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
read(DurationMs, #{targets := Targets, measured := Measured, guests := Guests} = State) ->
    DurationNs = DurationMs * 1_000_000,
    Ended = dyno_target_custom:finish(Guests),
    Figures = dyno_targets:read(Targets) ++ dyno_test_joins:gone(State),
    Processed = dyno_target_custom:process(Ended, map_get(callbacks, State)),
    %% The last samples were sent before the figures were answered.
    last_samples(State#{
        guests := Processed,
        measured := Measured#{figures := Figures, duration_ns := DurationNs}
    }).

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
        {searched, Snapshot, Errors, Report} ->
            #{measured := Measured} = Read,
            Read#{
                measured := Measured#{snapshot := Snapshot, errors := Errors, report => Report}
            };
        error ->
            Read
    end;
stop_reading(State) ->
    State.

save(#{saved_ms := SavedMs, context := Context, measured := Measured} = State) ->
    case erlang:monotonic_time(millisecond) of
        Now when Now - SavedMs >= ?SAVE_MS ->
            Partial = Measured#{duration_ns := elapsed_ms(State) * 1_000_000},
            tell({partial, run_of(Partial, State)}, Context),
            State#{saved_ms := Now};
        _ ->
            State
    end.

tell(Event, #{watch := Watch}) ->
    Watch(Event).
