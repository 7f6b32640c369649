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
    | {interval, dyno_load_source:interval() | unknown, ElapsedMs :: integer()}
    | {partial, recorded()}.

-doc "A run of the recording, and its verdicts.".
-type recorded() :: {Run :: #{atom() => term()}, Verdicts :: [#{atom() => term()}]}.

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
    {outcome(), recorded() | undefined, dyno_test_callbacks:callbacks()}.
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
                    {{misuse, {bad_suite, Module, Reason}}, undefined, Next}
            end;
        {{error, Reason}, Next} ->
            {callback_failed(Reason), undefined, Next}
    end.

%% What the command line says goes before what the suite says.
overridden(#{model := performerl} = Load, _Size, #{override := Override}) ->
    case map_size(Override) of
        0 -> {ok, Load};
        _ -> {error, gives_load_itself}
    end;
overridden(Load, Size, #{override := Override}) ->
    case dyno_load_spec:override(Load, Override, Size) of
        {ok, Overridden} -> {ok, Overridden};
        {error, Reason} -> {error, {load, Reason}}
    end.

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
                    maybe
                        {ok, Targets, Warnings} ?= attach(Nodes, Wanted#{patterns := Fewer}, Load),
                        {ok, Targets, [{~"unmatched", Text} | Warnings]}
                    end
            end;
        {ok, Targets} ->
            {ok, Targets, []};
        {error, _} = Error ->
            Error
    end;
attach(Nodes, Wanted, _Load) ->
    case dyno_targets:attach(Nodes, Wanted) of
        {ok, Targets} -> {ok, Targets, []};
        {error, _} = Error -> Error
    end.

with_agents(#{load := Load} = Job, Attach, #{options := Options} = Context) ->
    %% Before anything is loaded: patterns may be wrong, nodes not there.
    case Attach() of
        {ok, Targets, Warnings} ->
            case dyno_test_baseline_run:wanted(Options, Load, dyno_targets:traces(Targets)) of
                true ->
                    ok = dyno_targets:detach(Targets),
                    with_control(Job, Attach, Context);
                false ->
                    {Outcome, State} = with_load(Job, {Targets, Warnings}, [], Context),
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
        {ok, Targets, Warnings} ?= Attach(),
        {Outcome, State} = with_load(Job, {Targets, Warnings}, [First], Context),
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
    load_failed(Reason);
stopped({load_died, Reason}) ->
    failed(~"load", io_lib:format("the load generator died: ~0tP", [Reason, 12])).

%% The run is measured by now: a control that fails only costs its interval.
second_half(complete, #{result := Result} = State, Job, Context) ->
    case control(second, Job, Context) of
        {ok, Half} ->
            ended(complete, State#{result := dyno_test_result:baseline(Half, Result)});
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

with_load(#{which := Which, load := Load} = Job, {Targets, Warnings}, Halves, Context) ->
    {Size, Repetition} = Which,
    Empty = dyno_test_result:new(#{
        id => dyno_test_plan:id(Which),
        size => Size,
        repetition => Repetition,
        started_at => dyno_environment:now_utc()
    }),
    tell({phase, warm_up}, Context),
    State = #{
        context => Context,
        load_pid => undefined,
        phase => warm_up,
        targets => Targets,
        guests => dyno_target_custom:none(),
        callbacks => map_get(callbacks, Job),
        run_info => none,
        wanted => map_get(wanted, Job),
        members => none,
        gone => dyno_test_joins:none_gone(),
        started_ms => erlang:monotonic_time(millisecond),
        saved_ms => erlang:monotonic_time(millisecond),
        which => Which,
        load => Load,
        all => Targets,
        result => lists:foldl(
            fun dyno_test_result:baseline/2, dyno_test_result:warnings(Warnings, Empty), Halves
        )
    },
    case start_guests(Size, Targets, Job, Context) of
        {ok, Guests} ->
            {ok, Pid} = start_load(Job, load_options(Job, Context)),
            Members = members(Targets, Job, Context),
            {Outcome, Final} = watch(State#{
                guests := Guests, load_pid := Pid, members := Members
            }),
            ok = dyno_test_joins:stop(Members),
            ok = dyno_load_source:stop(Pid),
            flush(),
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

start_load(#{which := {Size, _}, load := Load, callbacks := Callbacks}, Options) ->
    dyno_load_source:start_link(
        source(Load), Options#{sandbox => dyno_test_callbacks:sandbox(Callbacks), size => Size}
    ).

source(#{model := performerl}) -> dyno_performerl_load;
source(_Load) -> dyno_load.

%% What the instruments still sent before they were stopped.
flush() ->
    receive
        {dyno_sample, _, _, _, _} -> flush();
        {dyno_guest, _, _, _} -> flush()
    after 0 -> ok
    end.

recorded({misuse, _}, State) -> run_of(failed, State);
recorded(Outcome, State) -> run_of(Outcome, State).

run_of(Status, #{result := Result, guests := Guests, which := Which, all := All}) ->
    {Size, _} = Which,
    Place = #{run => dyno_test_plan:id(Which), size => Size},
    With = dyno_target_custom:add(Guests, Place, dyno_test_result:targets(All, Result)),
    dyno_test_result:run(Status, With).

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
            ok = dyno_load_source:measure(Load);
        gone ->
            %% That it went down is the next message.
            ok
    end,
    watch(State);
load_event(started, #{context := Context, targets := Targets0} = State) ->
    tell({phase, measure}, Context),
    #{guests := Guests} = State,
    StartedMs = erlang:monotonic_time(millisecond),
    Targets = dyno_targets:aligned(Targets0, StartedMs * 1_000_000),
    watch(State#{
        phase := measure,
        targets := Targets,
        guests := dyno_target_custom:aligned(Targets, StartedMs * 1_000_000, Guests),
        started_ms := StartedMs,
        all := Targets
    });
load_event({interval, Interval}, #{result := Result} = State) ->
    Next = State#{result := dyno_test_result:interval(Interval, Result)},
    tell({interval, Interval, elapsed_ms(State)}, map_get(context, State)),
    watch(save(dyno_test_joins:peek(Next)));
load_event({run_info, Info}, State) ->
    watch(State#{run_info := {info, Info}});
load_event({metrics, Metrics}, #{result := Result} = State) ->
    watch(State#{result := dyno_test_result:metrics(Metrics, Result)});
load_event({warning, Warning}, #{result := Result} = State) ->
    watch(State#{result := dyno_test_result:warning(Warning, Result)});
load_event({finished, DurationNs}, #{context := Context} = State) ->
    tell({phase, finish}, Context),
    Read = read(DurationNs, State),
    ok = dyno_load_source:close(map_get(load_pid, State)),
    watch(Read#{phase := finish});
load_event({ended, Ended}, #{result := Result} = State) ->
    Final = State#{result := dyno_test_result:load(Ended, Result)},
    {judge(Final), Final};
load_event({failed, Error}, State) ->
    {load_failed(Error), stop_reading(State)}.

load_failed(Error) ->
    case dyno_error:fault(Error) of
        caller -> {misuse, {load, Error}};
        _ -> failed(~"load", dyno_error:format(Error))
    end.

%% A run in which nothing succeeded has measured nothing; a custom agent that ended, or gave no
%% results, was not there for what the run is to show.
judge(#{guests := Guests, result := Result, context := #{module := Module}}) ->
    case {dyno_test_result:problem(Module, Result), dyno_target_custom:problem(Guests)} of
        {none, none} -> complete;
        {none, Text} -> failed(~"custom_agent", Text);
        {{Code, Text}, _} -> failed(Code, Text)
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

%% Those of the warm-up are none of the run's.
sample(_Sampler, _Sample, #{phase := warm_up} = State) ->
    State;
sample(Sampler, {TimeMs, Values, CostUs}, #{result := Result, targets := Targets} = State) ->
    case dyno_targets:of_sampler(Sampler, Targets) of
        {ok, #{node := Node, shift_ms := ShiftMs}} ->
            Sample = {Node, TimeMs + ShiftMs, Values, CostUs},
            State#{result := dyno_test_result:sample(Sample, Result)};
        error ->
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
read(DurationNs, #{targets := Targets, guests := Guests, result := Result} = State) ->
    Ended = dyno_target_custom:finish(Guests),
    Figures = dyno_targets:read(Targets) ++ dyno_test_joins:gone(State),
    Processed = dyno_target_custom:process(Ended, map_get(callbacks, State)),
    %% The last samples were sent before the figures were answered.
    last_samples(State#{
        guests := Processed,
        result := dyno_test_result:read(Figures, DurationNs, Result)
    }).

last_samples(State) ->
    receive
        {dyno_sample, Sampler, TimeMs, Figures, CostUs} ->
            last_samples(sample(Sampler, {TimeMs, Figures, CostUs}, State))
    after 0 -> State
    end.

%% Something ended the run early: what can be had is taken.
stop_reading(#{phase := measure, load_pid := Load} = State) ->
    #{result := Result} = Read = read(elapsed_ms(State) * 1_000_000, State),
    Read#{result := dyno_test_result:load(dyno_load_source:result(Load), Result)};
stop_reading(State) ->
    State.

save(#{saved_ms := SavedMs, context := Context, result := Result} = State) ->
    case erlang:monotonic_time(millisecond) of
        Now when Now - SavedMs >= ?SAVE_MS ->
            Until = dyno_test_result:duration_ns(elapsed_ms(State) * 1_000_000, Result),
            tell({partial, run_of(partial, State#{result := Until})}, Context),
            State#{saved_ms := Now};
        _ ->
            State
    end.

tell(Event, #{watch := Watch}) ->
    Watch(Event).
