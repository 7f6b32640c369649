%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_profile).
-moduledoc """
Profiles running nodes for a while, and returns a recording, for `dyno profile`.

```erlang
{ok, Recording} = dyno_profile:run(['shop@host'], #{kind => sample, for_ms => 10_000}).
```

If its process gets `dyno_interrupt` or `stop`, it ends with the results so far. A lost node has its
last read results.
""".

-behaviour(dyno_observer).

-export([run/2, for_ms/1, kind/1]).
-export([attach/2, handle/3, made/2]).
-export_type([options/0, state/0]).

-type options() :: #{
    %% A kind of dyno_profile_kind; sample by default, or cpu for subjects started by dyno.
    kind => atom(),
    %% The processes; all by default.
    targets => [dyno_process_filter:t()],
    %% The checked selectors for the agents.
    processes => [dyno_agent_process_filter:selector()],
    %% For time, count and memory: the functions; all by default.
    patterns => [dyno_agent_patterns:pattern()],
    %% The subject to start instead of nodes: an expression, or a command.
    eval => binary(),
    run => binary(),
    %% Ten seconds by default; for a command until it ends.
    for_ms => pos_integer(),
    %% For calls: within calls of one function, and their number; functions that are not traced.
    inside => mfa() | {module(), atom(), '_'},
    count => pos_integer(),
    not_traced => [dyno_agent_patterns:pattern()],
    thresholds => [dyno_threshold:t()],
    %% Called in the measuring process with the elapsed time.
    show => fun((PassedMs :: non_neg_integer()) -> ok),
    cookie => atom(),
    name => atom(),
    %% Added on the way.
    atom() => term()
}.

-type state() :: #{
    options := options(),
    targets := [dyno_targets:target()],
    samples := [dyno_target_results:sample()],
    %% Of nodes that may be lost before they are read.
    results := #{node() => dyno_targets:results()}
}.

-define(FOR_MS, 10_000).
-define(COMMAND_MS, 3_600_000).
-define(OPTIONS, [
    kind,
    targets,
    patterns,
    eval,
    run,
    for_ms,
    inside,
    count,
    not_traced,
    thresholds,
    show,
    cookie,
    name
]).

-doc """
Profiles; see the module.

## Errors
A node is unreachable or used by another dyno; a target matches nothing; the kind cannot measure the
request.
""".
-spec run([node(), ...], options()) -> dyno_error:result(dyno_recording:document()).
run(Nodes, Options) ->
    maybe
        ok ?= dyno_option:known(?OPTIONS, Options),
        dyno_observer:run(?MODULE, Nodes, Options)
    end.

-doc "The longest duration.".
-spec for_ms(options()) -> pos_integer().
for_ms(#{for_ms := Ms}) -> Ms;
for_ms(#{run := _}) -> ?COMMAND_MS;
for_ms(_Options) -> ?FOR_MS.

-doc false.
-spec attach([node()], options()) ->
    {ok, dyno_observer:plan(), state()} | {error, dyno_error:error()}.
attach([], #{eval := Text} = Options) ->
    started(dyno_profile_subject:eval(Text), Options#{named => Text});
attach([], #{run := Command} = Options) ->
    started(
        dyno_profile_subject:command(Command),
        Options#{named => Command, for_ms => for_ms(Options)}
    );
attach(Nodes, Options) ->
    attached(Nodes, Options).

started({ok, #{node := Node} = Subject}, Options) ->
    maybe
        {error, _} = Error ?= attached([Node], Options#{subject => Subject}),
        ok = dyno_profile_subject:stop(Subject),
        Error
    end;
started(Error, _Options) ->
    Error.

attached(Nodes, Options) ->
    Default = #{default_kind => not is_map_key(kind, Options)},
    maybe
        ok ?= dyno_target_node:connect(Nodes, maps:with([cookie, name], Options)),
        {ok, Processes} ?=
            dyno_process_filter:check(maps:get(targets, Options, []), Nodes, processes),
        Checked = maps:merge(Default, Options#{
            kind => kind(Options), processes => Processes, nodes => Nodes
        }),
        {ok, Instruments} ?= dyno_profile_kind:instruments(Checked),
        ForTargets = (maps:with([cookie, name], Options))#{on => [], processes => Processes},
        {ok, Targets} ?= dyno_targets:attach(Nodes, maps:merge(ForTargets, Instruments)),
        ok = warmed_up(maps:get(warmup_ms, Instruments, 0), Options),
        Plan = #{nodes => Nodes, targets => Targets, for_ms => for_ms(Options)},
        {ok, Plan, #{
            options => Checked,
            targets => Targets,
            samples => [],
            results => #{}
        }}
    end.

%% A command waits until it is measured.
warmed_up(_WarmupMs, #{subject := #{waits := _}}) -> ok;
warmed_up(WarmupMs, _Options) -> timer:sleep(WarmupMs).

-doc "The kind of profile, with the subject's default.".
-spec kind(options()) -> atom().
kind(#{kind := Kind}) -> Kind;
kind(#{eval := _}) -> cpu;
kind(#{run := _}) -> cpu;
kind(_Options) -> hd(dyno_profile_kind:names()).

%% The measurement

-doc false.
-spec handle(term(), [dyno_target:t()], state()) -> {[dyno_observation:event()], state()}.
handle(begun, Targets, #{options := Options} = State) ->
    ok = show(0, State),
    _ = dyno_targets:restart(Targets),
    ok = dyno_profile_subject:go(maps:get(subject, Options, #{})),
    ZeroNs = erlang:monotonic_time(nanosecond),
    {[], State#{targets := dyno_targets:aligned(Targets, ZeroNs)}};
handle({tick, PassedMs}, Targets, #{options := Options, results := Before} = State) ->
    ok = show(PassedMs, State),
    case Options of
        #{run := _} -> {[], State#{results := maps:merge(Before, dyno_targets:peek(Targets))}};
        #{} -> {[], State}
    end;
handle({message, {dyno_sample, Sampler, TimeMs, Values, CostUs}}, _Targets, State) ->
    #{targets := Aligned, samples := Samples} = State,
    [#{node := Node, shift_ms := ShiftMs}] = [T || #{sampler := S} = T <- Aligned, S =:= Sampler],
    InRunMs = TimeMs + ShiftMs,
    {
        [{seen, Node, 1_000_000 * max(0, InRunMs)}],
        State#{samples := [{Node, InRunMs, Values, CostUs} | Samples]}
    };
handle({message, {dyno_profile_subject, started, _, Another}}, _Targets, State) ->
    ok = dyno_profile_subject:go(#{waits => Another}),
    {[], State};
handle({message, {?MODULE, enough}}, _Targets, State) ->
    {[stop], State};
%% A command ends at an unknown time.
handle({leave, #{node := Node}, {lost, _}, _}, _Targets, #{options := #{run := _}} = State) ->
    {[{present, Node, 1}, stop], State};
handle(finish, Targets, #{options := Options, results := Peeked} = State) ->
    {Lost, Read} = dyno_targets:results(Targets),
    Known = maps:merge(Peeked, #{Node => Results || #{node := Node} = Results <- Read}),
    TooShort = {warning, ~"too_short", "the command ended before it could be profiled"},
    IsTooShort = Targets =:= [] andalso Known =:= #{} andalso is_map_key(run, Options),
    {Lost ++ [TooShort || IsTooShort], State#{results := Known}};
handle(_What, _Targets, State) ->
    {[], State}.

show(PassedMs, #{options := #{show := Show}}) -> Show(PassedMs);
show(_PassedMs, _State) -> ok.

-doc false.
-spec made(dyno_observation:ended(), state()) -> dyno_observed:parts().
made(_Ended, #{options := Options} = State) ->
    _ = [dyno_profile_subject:stop(Subject) || #{subject := Subject} <- [Options]],
    dyno_profile_recording:parts(State).
