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
%% The tear-down always runs. dyno_test_run decides the steps under load; this module executes them,
%% as a consumer of dyno_observer.

-behaviour(dyno_observer).

-export([run/3]).
-export([handle/3]).
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
    | {waiting, {Operations :: pos_integer(), TimeoutMs :: pos_integer()}}
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

-type shell() :: #{
    job := job(),
    load := pid() | none,
    joins := pid() | none,
    standstill := pid(),
    run := dyno_test_run:t(),
    outcome := dyno_test_run:outcome() | undecided,
    %% At the end.
    stood_ms => non_neg_integer()
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
        {ok, Half} -> {complete, dyno_test_run:told({baseline, Half}, Run)};
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

result(Warnings, #{which := {Size, Repetition} = Which, load := {_, Load}} = Job) ->
    About = #{
        id => dyno_test_plan:id(Which),
        size => Size,
        repetition => Repetition,
        started_at => dyno_environment:now_utc()
    },
    lists:foldl(
        fun(Warning, Result) -> dyno_test_result:add({warning, Warning}, Result) end,
        dyno_test_result:new(with_size(About, Job), map_get(model, Load)),
        Warnings
    ).

%% A recording of running nodes has no sizes.
with_size(About, Job) ->
    case records(Job) of
        true -> maps:remove(size, About);
        false -> About
    end.

%% The load

-spec with_targets([dyno_targets:target()], dyno_test_result:t(), job()) -> ended().
with_targets(Targets, Result, #{which := {Size, _} = Which, context := Context} = Job) ->
    tell({phase, warm_up}, Context),
    #{module := Module} = Context,
    New = #{
        module => Module,
        place => with_size(#{run => dyno_test_plan:id(Which), size => Size}, Job),
        targets => Targets,
        custom => dyno_test_custom:none(),
        result => Result,
        now_ms => now_ms()
    },
    Visits = maps:get(visits, Job, []),
    case dyno_test_custom:start(Targets, Size, Context) of
        {ok, {With, Custom}} ->
            Run = dyno_test_run:new(New#{targets := With, custom := Custom}),
            with_load(Run, With, Visits, Job);
        {error, Error} ->
            Run = dyno_test_run:new(New),
            {
                dyno_test_run:failure(~"custom_agent", Error),
                dyno_test_run:visits(Visits ++ dyno_target:leave(Targets), Run)
            }
    end.

with_load(Run, Targets, Visits, #{context := Context, load := {Source, Load}} = Job) ->
    #{module := Module, options := Options, callbacks := Callbacks} = Context,
    Nodes = [Node || #{node := Node} <- Targets],
    {_, LoadMs} = dyno_test_plan:load_ms(Options, Load),
    Standstill = dyno_standstill:start_link(),
    #{interval_ms := IntervalMs} = LoadOptions = load_options(Job),
    ByLoad =
        case Source of
            none -> #{tick_ms => IntervalMs};
            _ -> #{ends => by_consumer}
        end,
    Plan = ByLoad#{
        nodes => Nodes,
        targets => Targets,
        for_ms => LoadMs,
        begins => later,
        instruments => many
    },
    #{ended := Ended, visits := More, consumer := #{run := Last} = Shell} =
        dyno_observer:observe(?MODULE, Plan, #{
            job => Job,
            load => source(Source, LoadOptions),
            joins => dyno_test_joins:start(Module, map_get(run_state, Job), Nodes),
            standstill => Standstill,
            run => Run,
            outcome => undecided
        }),
    Whole = dyno_test_run:visits(Visits ++ More, dyno_test_run:process(Last, Callbacks)),
    {outcome(Ended, Shell#{run := Whole}), Whole}.

%% Without a load the observer keeps the time; instruments need a warm-up too.
source(none, #{warmup_ms := WarmupMs}) ->
    _ = erlang:send_after(WarmupMs, self(), {dyno_load, none, warm}),
    none;
source(Source, Options) ->
    {ok, Pid} = Source:start_link(Options),
    Pid.

-spec outcome(dyno_observation:ended(), shell()) -> dyno_test_run:outcome().
outcome(#{ending := #{status := complete}} = Ended, #{outcome := undecided} = Shell) ->
    outcome(Ended, Shell#{outcome := complete});
outcome(#{ending := Ending}, #{outcome := undecided}) ->
    of_nodes(Ending);
outcome(Ended, #{outcome := complete, run := Run} = Shell) ->
    case dyno_test_run:judge(Run) of
        complete -> whole(Ended, Shell);
        Failed -> Failed
    end;
outcome(_Ended, #{outcome := Failed}) ->
    Failed.

of_nodes(#{status := Status, error := #{code := Code, text := Text}}) -> {Status, Code, Text};
of_nodes(#{status := Status}) -> Status.

%% A complete run may still lack a part. With a load the suite knows which nodes it needs.
whole(#{ending := Ending, lost := Lost}, #{stood_ms := StoodMs, job := Job}) ->
    #{load := {_, #{model := Model}}, context := #{options := #{load_nodes := LoadNodes}}} = Job,
    Unobserved = [Node || Node := {unobserved, _} <- Lost],
    case records(Job) orelse Unobserved =/= [] of
        true ->
            of_nodes(Ending);
        false when StoodMs > 0, Model =/= none, LoadNodes =:= [] ->
            Format =
                "dyno stood still for ~ts and gave no load; nothing may suspend it during a test",
            Text = dyno_recording_part:text(Format, [dyno_unit:format(StoodMs, ~"ms")]),
            {failed, ~"standstill", Text};
        false ->
            complete
    end.

records(#{context := #{form := Form}}) ->
    case Form:form() of
        #{command := record} -> true;
        #{} -> false
    end.

%% The observation

-doc false.
-spec handle(term(), [dyno_target:t()], shell()) ->
    {[dyno_observation:event() | {attached, dyno_target:t()} | begins], shell()}.
handle(finish, Targets, #{load := Load, joins := Joins, standstill := Standstill} = Shell) ->
    Ends = [{load, {ending, erlang:monotonic_time(nanosecond)}} || Load =:= none],
    {Events, Read} = happened(Ends ++ [finish], Targets, Shell),
    StoodMs = dyno_standstill:stop(Standstill),
    ok = dyno_test_joins:stop(Joins),
    _ = Load =/= none andalso dyno_load_source:stop(Load),
    {Events, Read#{stood_ms => StoodMs}};
handle(What, Targets, Shell) ->
    happened(events(What, Shell), Targets, Shell).

-spec events(term(), shell()) -> [dyno_test_run:event()].
events({leave, #{node := Node}, {_How, Ns}, Why}, _Shell) ->
    [{left, Node, Ns, Why}];
events({without, #{node := Node}, Instruments, Reason}, _Shell) ->
    [{without, Node, Instruments, Reason}];
events({tick, PassedMs}, #{load := none}) when PassedMs > 0 ->
    [{load, {interval, unknown}}];
events({message, {dyno_load, Load, Of}}, #{load := Load}) ->
    [{load, Of}];
events({message, {'EXIT', Load, Reason}}, #{load := Load}) when Reason =/= normal ->
    [{load, {failed, {dyno_test_baseline_run, {load_died, Reason}}}}];
events({message, {dyno_joins, Joins, Of}}, #{joins := Joins}) ->
    [Of];
events({message, {dyno_sample, Sampler, TimeMs, Values, CostUs}}, _Shell) ->
    [{sample, Sampler, TimeMs, Values, CostUs}];
events({message, {dyno_probe, Pid, AtNs, Of}}, _Shell) ->
    [{custom, Pid, AtNs, Of}];
events(_What, _Shell) ->
    [].

happened(Events, Targets, Shell) ->
    carry_out([{event, Event} || Event <- Events], Targets, Shell, []).

%% An effect's events come before the next effect. The last argument is for the observer.
carry_out([], _Targets, Shell, Told) ->
    {lists:reverse(Told), Shell};
carry_out([{told, Event} | Rest], Targets, Shell, Told) ->
    carry_out(Rest, Targets, Shell, [Event | Told]);
carry_out([{effect, {stop, Outcome}} | _], _Targets, Shell, Told) ->
    Status =
        case Outcome of
            complete -> time;
            interrupted -> interrupted;
            _ -> failed
        end,
    {lists:reverse(Told, [Status]), Shell#{outcome := Outcome}};
carry_out([{effect, Effect} | Rest], Targets, Shell, Told) ->
    carry_out(effect(Effect, Targets, Shell) ++ Rest, Targets, Shell, Told);
carry_out([{event, Event} | Rest], Targets, #{run := Run} = Shell, Told) ->
    {Next, Effects} = dyno_test_run:event(Event, now_ms(), Run),
    More = [{effect, Effect} || Effect <- Effects],
    carry_out(More ++ Rest, Targets, Shell#{run := Next}, Told).

-spec effect(dyno_test_run:effect(), [dyno_targets:target()], shell()) ->
    [{event, dyno_test_run:event()} | {told, term()}].
effect(begins, _Targets, _Shell) ->
    [{told, begins}];
effect({seen, Node, InRunMs}, _Targets, _Shell) ->
    [{told, {seen, Node, 1_000_000 * max(0, InRunMs)}}];
effect({tell, Event}, _Targets, #{job := #{context := Context}}) ->
    tell(Event, Context),
    [];
effect({save, Recorded}, _Targets, #{job := #{context := Context}}) ->
    tell({partial, Recorded}, Context),
    [];
effect(restart, Targets, _Shell) ->
    [{event, {restarted, dyno_targets:restart(Targets)}}];
effect({align, ZeroNs}, Targets, _Shell) ->
    [{event, {aligned, dyno_targets:aligned(Targets, ZeroNs)}}];
effect({attach, {Node, Patterns}, ZeroNs, Custom}, _Targets, #{job := Job}) ->
    #{attach := Options, which := {Size, _}, context := Context} = Job,
    Own = own_patterns([{Node, Patterns}]),
    case dyno_targets:attach([Node], Options#{patterns_of => Own}) of
        {ok, Attached} ->
            {Joined, Probes} = dyno_test_custom:joined(Attached, Size, Context, Custom),
            Event = {attached, now_ms(), begun(ZeroNs, Joined), Probes},
            [{event, Event} | [{told, {attached, Target}} || Target <- Joined]];
        {error, Error} ->
            [{event, {not_attached, dyno_error:format(Error)}}]
    end;
effect(last_look, Targets, _Shell) ->
    ok = dyno_targets:last_look(Targets),
    [];
%% The loss of a single target ends the run.
effect(peek, [_, _ | _] = Targets, _Shell) ->
    [{event, {peeked, dyno_targets:peek(Targets)}}];
effect(peek, _Targets, _Shell) ->
    [];
effect(read, Targets, _Shell) ->
    {Lost, Read} = dyno_targets:results(Targets),
    [{event, {read, Read}} | [{told, Event} || Event <- Lost]];
effect(measure, _Targets, #{load := none}) ->
    [{event, {load, started}}];
effect(measure, _Targets, #{load := Load}) ->
    ok = dyno_load_source:measure(Load),
    [];
effect(close, _Targets, #{load := Load}) ->
    ok = dyno_load_source:close(Load),
    [];
effect(load_result, _Targets, #{load := none}) ->
    [];
effect(load_result, _Targets, #{load := Load}) ->
    [{event, {load_result, dyno_load_source:result(Load)}}].

%% Before the begin, the node begins with the others; the next message reports another loss.
begun(undefined, Attached) ->
    Attached;
begun(ZeroNs, Attached) ->
    _ = dyno_targets:restart(Attached),
    dyno_targets:aligned(Attached, ZeroNs).

now_ms() ->
    erlang:monotonic_time(millisecond).

tell(Event, #{tell := Tell}) ->
    Tell(Event).
