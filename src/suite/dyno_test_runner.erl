%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_test_runner).
-moduledoc false.
%% One run of a test, in the test's process, which receives the messages of agents and load:
%%
%%   set up -> load -> attach -> [half without instruments -> attach]
%%          -> custom agents -> load and measure (dyno_test_run) -> detach
%%          -> [half without instruments] -> tear down
%%
%% The tear-down always runs. dyno_test_run decides the steps under load; this module executes them.

-export([run/3]).
-export_type([context/0, event/0]).

-type context() :: #{
    form := module(),
    callbacks := dyno_test_callbacks:t(),
    options := dyno_suite:options(),
    module := module(),
    override := dyno_load_spec:override(),
    connection := #{cookie => atom(), name => atom(), idle => dyno_agent:idle(), keep => boolean()},
    custom := dyno_test_custom:loaded(),
    %% Gets a run's events, to save and show them.
    tell := fun((event()) -> ok)
}.

-type event() ::
    {phase, atom()}
    | {load, dyno_suite:load()}
    | {interval, dyno_load_source:interval() | unknown, ElapsedMs :: integer()}
    %% Of a target's virtual machine and system.
    | {sample, node(), #{binary() => number()}}
    | {partial, dyno_test_run:recorded()}.

-type job() :: #{
    context := context(),
    which := dyno_test_plan:run(),
    nodes := [node()],
    run_state := term(),
    load := {Source :: module(), dyno_suite:load()},
    attach := dyno_targets:options(),
    %% Before the run without instruments.
    visits => [dyno_target_visit:t()]
}.

-type ended() :: {dyno_test_run:outcome(), dyno_test_run:t() | none}.

-spec run(dyno_test_plan:run(), SuiteState :: term(), context()) ->
    {dyno_test_run:outcome(), dyno_test_run:recorded() | none}.
run({Size, _} = Which, SuiteState, #{form := Form, callbacks := Callbacks} = Context) ->
    tell({phase, set_up}, Context),
    case Form:init_run(Callbacks, Size, SuiteState) of
        {ok, {Targets, RunState}} ->
            {Outcome, Run} = set_up(Which, Targets, RunState, Context),
            tear_down(Outcome, Run, RunState, Context);
        {error, Error} ->
            tear_down(dyno_test_run:failure(~"callback", Error), none, undefined, Context)
    end.

tear_down(Outcome, Run, RunState, #{form := Form, callbacks := Callbacks} = Context) ->
    tell({phase, tear_down}, Context),
    {Info, Recorded} =
        case Run of
            none -> {none, none};
            _ -> {dyno_test_run:run_info(Run), dyno_test_run:recorded(Outcome, Run)}
        end,
    case Form:end_run(Callbacks, RunState, Info) of
        {error, Error} when Outcome =:= complete ->
            {dyno_test_run:failure(~"callback", Error), Recorded};
        %% The first failure counts.
        _ ->
            {Outcome, Recorded}
    end.

-spec set_up(dyno_test_plan:run(), [dyno_suite:target()], term(), context()) -> ended().
set_up({Size, _} = Which, Targets, RunState, Context) ->
    #{form := Form, callbacks := Callbacks, options := Options, override := Override} = Context,
    #{connection := Connection, custom := Custom} = Context,
    tell({phase, attach}, Context),
    Instruments = maps:with(
        [patterns, level, budget, profile, distribution, servers, without, interval_ms], Options
    ),
    case Form:load(Callbacks, Size, RunState, {map_get(load, Options), Override}) of
        {ok, {_, Load} = Sourced} ->
            tell({load, Load}, Context),
            attach_first(#{
                context => Context,
                which => Which,
                nodes => [Node || {Node, _} <- Targets],
                run_state => RunState,
                load => Sourced,
                attach => maps:merge(cpu(Instruments), Connection#{
                    custom => dyno_test_custom:modules(Custom),
                    instruments => dyno_test_known:instruments(Options, Custom),
                    patterns_of => own_patterns(Targets)
                })
            });
        {error, Error} ->
            {dyno_test_run:failure(~"callback", Error), none}
    end.

%% The processor is sampled on request, and in nodes that dyno has started.
cpu(#{profile := cpu} = Options) -> Options#{cpu => dyno_target_cpu:option(required)};
cpu(Options) -> Options#{own_cpu => true}.

own_patterns(Targets) ->
    #{Node => Patterns || {Node, Patterns} <- Targets, Patterns =/= default}.

%% Before any load: patterns may be wrong, nodes missing.
attach_first(#{context := #{options := Options}, load := {_, Load}} = Job) ->
    case attach(Job) of
        {ok, {Targets, Warnings}} ->
            case dyno_test_baseline_run:is_wanted(Options, Load, dyno_targets:traces(Targets)) of
                true ->
                    with_baseline(Job#{visits => dyno_target:leave(Targets)});
                false ->
                    with_targets(Targets, result(Warnings, Job), Job)
            end;
        {error, Outcome} ->
            {Outcome, none}
    end.

with_baseline(#{context := Context} = Job) ->
    maybe
        {ok, First} ?= baseline(first, Job),
        tell({phase, attach}, Context),
        {ok, {Targets, Warnings}} ?= attach(Job),
        Result = dyno_test_result:add({baseline, First}, result(Warnings, Job)),
        {Outcome, Run} = with_targets(Targets, Result, Job),
        second_half(Outcome, Run, Job)
    else
        {error, Stopped} -> {Stopped, none}
    end.

%% The run is complete: a failed half only costs the comparison.
second_half(complete, Run, Job) ->
    case baseline(second, Job) of
        {ok, Half} -> {complete, dyno_test_run:baseline(Half, Run)};
        {error, interrupted} -> {interrupted, Run};
        {error, _} -> {complete, Run}
    end;
second_half(Outcome, Run, _Job) ->
    {Outcome, Run}.

baseline(Which, #{context := Context} = Job) ->
    tell({phase, baseline}, Context),
    maybe
        {error, Error} ?= dyno_test_baseline_run:half(Which, load_options(Job)),
        {error, dyno_test_run:failure(~"load", Error)}
    end.

-spec attach(job()) ->
    {ok, {[dyno_targets:target()], [{binary(), binary()}]}} | {error, dyno_test_run:outcome()}.
attach(#{nodes := Nodes, attach := Options, context := #{form := Form}} = Job) ->
    #{unmatched := Unmatched} = Form:form(),
    maybe
        {error, Reason} ?= attach(Nodes, Options, Unmatched, []),
        {error, not_attached(Reason, Job)}
    end.

attach(Nodes, #{patterns := Patterns} = Options, Unmatched, Warnings) ->
    case dyno_targets:attach(Nodes, Options) of
        {ok, Targets} ->
            {ok, {Targets, Warnings ++ dyno_targets:warnings(Targets)}};
        {error, {dyno_targets, {unmatched, _, Absent}} = Error} when Unmatched =:= leave_out ->
            Text = dyno_recording_part:text("~ts", [dyno_error:format(Error)]),
            case Patterns -- [Pattern || {Pattern, _} <- Absent] of
                [] ->
                    {error, Error};
                Rest ->
                    Fewer = Options#{patterns := Rest},
                    attach(Nodes, Fewer, Unmatched, [{~"unmatched", Text} | Warnings])
            end;
        {error, _} = Error ->
            Error
    end.

not_attached({dyno_targets, _} = Error, _Job) ->
    {misuse, Error};
not_attached(Error, #{context := #{module := Module, form := Form}}) ->
    case Form:form() of
        #{set_up := SetUp} ->
            Text = dyno_recording_part:text("a target of ~ts:~ts: ~ts", [
                Module, SetUp, dyno_error:format(Error)
            ]),
            {failed, ~"target", Text};
        #{} ->
            %% The author of the node's name gets the advice.
            {misuse, Error}
    end.

load_options(#{load := {_, Load}, run_state := RunState, context := Context, which := {Size, _}}) ->
    #{options := Options, module := Module, callbacks := Callbacks} = Context,
    #{duration_ms := DurationMs, interval_ms := IntervalMs} = Options,
    Keys = [duration_ms, warmup_ms, timeout_ms, operations, feeds, seed, load_nodes],
    (maps:with(Keys, Options))#{
        interval_ms => dyno_test_baseline_run:interval_ms(IntervalMs, DurationMs),
        sink => self(),
        module => Module,
        callbacks => Callbacks,
        run_state => RunState,
        load => Load,
        size => Size
    }.

result(Warnings, #{which := {Size, Repetition} = Which, load := {_, Load}, context := Context}) ->
    About = #{
        id => dyno_test_plan:id(Which),
        size => Size,
        repetition => Repetition,
        started_at => dyno_environment:now_utc()
    },
    lists:foldl(
        fun(Warning, Result) -> dyno_test_result:add({warning, Warning}, Result) end,
        dyno_test_result:new(with_size(About, Context), map_get(model, Load)),
        Warnings
    ).

%% A recording of running nodes has no sizes.
with_size(About, #{form := Form}) ->
    case Form:form() of
        #{command := record} -> maps:remove(size, About);
        #{} -> About
    end.

%% The load

-spec with_targets([dyno_targets:target()], dyno_test_result:t(), job()) -> ended().
with_targets(Targets, Result, #{which := {Size, _} = Which, context := Context} = Job) ->
    tell({phase, warm_up}, Context),
    #{module := Module} = Context,
    New = #{
        module => Module,
        place => with_size(#{run => dyno_test_plan:id(Which), size => Size}, Context),
        targets => Targets,
        custom => dyno_test_custom:none(),
        result => Result,
        now_ms => now_ms()
    },
    {Outcome, Run} =
        case dyno_test_custom:start(Targets, Size, Context) of
            {ok, {With, Custom}} ->
                with_load(dyno_test_run:new(New#{targets := With, custom := Custom}), With, Job);
            {error, Error} ->
                {dyno_test_run:failure(~"custom_agent", Error), dyno_test_run:new(New)}
        end,
    Visits = dyno_target:leave(dyno_test_run:targets(Run)),
    {Outcome, dyno_test_run:visits(maps:get(visits, Job, []) ++ Visits, Run)}.

with_load(Run, Targets, #{context := Context, load := {Source, _}, run_state := State} = Job) ->
    #{module := Module} = Context,
    Standstill = dyno_standstill:start_link(),
    {ok, Load} = Source:start_link(load_options(Job)),
    Nodes = [Node || #{node := Node} <- Targets],
    Joins = dyno_test_joins:start(Module, State, Nodes),
    %% Not in the measured part, in which a node may be silent for long.
    Silence = dyno_target_silence:watch(Nodes, 0),
    Shell = #{job => Job, load => Load, joins => Joins, silence => Silence},
    {Outcome, Last} = loop(Run, Shell),
    ok = dyno_target_silence:stop(Silence),
    StoodMs = dyno_standstill:stop(Standstill),
    ok = dyno_test_joins:stop(Joins),
    ok = dyno_load_source:stop(Load),
    ok = flush(),
    {whole(Outcome, StoodMs, Last, Job), Last}.

%% A complete run may still lack a part.
whole(complete, _StoodMs, Run, #{load := {_, #{model := none}}, context := Context}) ->
    #{form := Form, options := #{duration_ms := AskedMs}} = Context,
    case {Form:form(), dyno_test_run:ended(AskedMs, Run)} of
        {#{command := record}, #{status := Status, error := #{code := Code, text := Text}}} ->
            {Status, Code, Text};
        {_, _} ->
            complete
    end;
whole(complete, StoodMs, _Run, #{context := #{options := #{load_nodes := []}}}) when StoodMs > 0 ->
    {failed, ~"standstill",
        dyno_recording_part:text(
            "dyno stood still for ~ts and gave no load; nothing may suspend it during a test",
            [dyno_unit:format(StoodMs, ~"ms")]
        )};
whole(Outcome, _StoodMs, _Run, _Job) ->
    Outcome.

%% Last messages of stopped instruments.
flush() ->
    receive
        {dyno_sample, _, _, _, _} -> flush();
        {dyno_probe, _, _, _} -> flush()
    after 0 -> ok
    end.

loop(Run, #{load := Load, joins := Joins} = Shell) ->
    Event =
        receive
            {dyno_load, Load, Of} ->
                {load, Of};
            {'EXIT', Load, Reason} when Reason =/= normal -> {load_died, Reason};
            {dyno_joins, Joins, Of} ->
                Of;
            {dyno_sample, Sampler, TimeMs, Values, CostUs} ->
                {sample, Sampler, TimeMs, Values, CostUs};
            {dyno_probe, Pid, AtNs, Of} ->
                {custom, Pid, AtNs, Of};
            {dyno_agent, Ref, {gave_up, Reason}} ->
                {gave_up, Ref, Reason};
            {dyno_agent, Ref, {without, Instruments, Reason}} ->
                {without, Ref, Instruments, Reason};
            {'DOWN', Monitor, process, _, Reason} ->
                {down, Monitor, Reason};
            dyno_interrupt ->
                interrupt
        end,
    case carry_out([{event, Event}], Run, Shell) of
        {go_on, Next} -> loop(Next, Shell);
        {stop, Outcome, Last} -> {Outcome, Last}
    end.

%% An effect's events come before the next effect.
carry_out([], Run, _Shell) ->
    {go_on, Run};
carry_out([{effect, {stop, Outcome}} | _], Run, _Shell) ->
    {stop, Outcome, Run};
carry_out([{effect, Effect} | Rest], Run, Shell) ->
    carry_out([{event, Event} || Event <- effect(Effect, Shell)] ++ Rest, Run, Shell);
carry_out([{event, Event} | Rest], Run, Shell) ->
    {Next, Effects} = dyno_test_run:event(Event, now_ms(), Run),
    carry_out([{effect, Effect} || Effect <- Effects] ++ Rest, Next, Shell).

-spec effect(dyno_test_run:effect(), #{load := pid(), job := job(), _ => _}) ->
    [dyno_test_run:event()].
effect({tell, Event}, #{job := #{context := Context}}) ->
    tell(Event, Context),
    [];
effect({save, Recorded}, #{job := #{context := Context}}) ->
    tell({partial, Recorded}, Context),
    [];
effect({restart, Targets}, _Shell) ->
    [{restarted, dyno_targets:restart(Targets)}];
effect({align, ZeroNs, Targets}, _Shell) ->
    [{aligned, dyno_targets:aligned(Targets, ZeroNs)}];
effect({attach, {Node, Patterns}, ZeroNs, Custom}, #{job := Job, silence := Silence}) ->
    ok = dyno_target_silence:add(Silence, Node),
    #{attach := Options, which := {Size, _}, context := Context} = Job,
    Own = own_patterns([{Node, Patterns}]),
    case dyno_targets:attach([Node], Options#{patterns_of => Own}) of
        {ok, Attached} ->
            {Targets, Joined} = dyno_test_custom:joined(Attached, Size, Context, Custom),
            AtMs = now_ms(),
            [{attached, AtMs, begun(ZeroNs, Targets), Joined}];
        {error, Error} ->
            [{not_attached, dyno_error:format(Error)}]
    end;
effect({detach, Target}, _Shell) ->
    _ = dyno_target:leave([Target]),
    [];
effect({last_look, Targets}, _Shell) ->
    ok = dyno_targets:last_look(Targets),
    [];
effect({peek, Targets}, _Shell) ->
    [{peeked, dyno_targets:peek(Targets)}];
effect({read, Targets}, #{silence := Silence}) ->
    ok = dyno_target_silence:ends_in(Silence, 0),
    Readings = dyno_targets:read(Targets),
    %% The last samples were sent before the instruments answered.
    samples() ++ [{read, Readings}];
effect({process, Custom}, #{job := #{context := #{callbacks := Callbacks}}}) ->
    [{processed, dyno_test_custom:process(Custom, Callbacks)}];
effect(measure, #{load := Load, job := Job, silence := Silence}) ->
    #{context := #{options := Options}, load := {_, Spec}} = Job,
    ok = dyno_load_source:measure(Load),
    {_, LoadMs} = dyno_test_plan:load_ms(Options, Spec),
    ok = dyno_target_silence:ends_in(Silence, LoadMs),
    [];
effect(close, #{load := Load}) ->
    ok = dyno_load_source:close(Load),
    [];
effect(load_result, #{load := Load}) ->
    [{load_result, dyno_load_source:result(Load)}].

%% Before the begin, the node begins with the others. If it is lost again, the next message reports
%% so.
begun(undefined, Attached) ->
    Attached;
begun(ZeroNs, Attached) ->
    _ = dyno_targets:restart(Attached),
    dyno_targets:aligned(Attached, ZeroNs).

samples() ->
    receive
        {dyno_sample, Sampler, TimeMs, Values, CostUs} ->
            [{sample, Sampler, TimeMs, Values, CostUs} | samples()];
        {dyno_probe, Pid, AtNs, Of} ->
            [{custom, Pid, AtNs, Of} | samples()]
    after 0 -> []
    end.

now_ms() ->
    erlang:monotonic_time(millisecond).

tell(Event, #{tell := Tell}) ->
    Tell(Event).
