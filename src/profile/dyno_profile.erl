%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_profile).
-moduledoc """
Profiles running nodes for a while, and gives one recording: what `dyno profile` does.

```erlang
{ok, Recording} = dyno_profile:run(['shop@host'], #{kind => sample, for_ms => 10_000}).
```

It ends in good order, with what was measured until then, when its process gets `dyno_interrupt`, or
`stop`. Of a node that is lost it has what was read last.
""".

-export([run/2, for_ms/1, kind/1]).
-export_type([options/0]).

-type options() :: #{
    %% Of dyno_profile_kind; sample by default, and cpu of what is started for it.
    kind => atom(),
    %% Which processes; all by default.
    targets => [dyno_process_filter:t()],
    %% The same as the agents take them, once they are checked.
    processes => [dyno_agent_process_filter:selector()],
    %% Of the kinds time, count and memory: which functions; all by default.
    patterns => [dyno_agent_patterns:pattern()],
    %% What is started for it, in place of nodes: an expression, or a command.
    eval => binary(),
    run => binary(),
    %% Ten seconds by default; of a command until it ends.
    for_ms => pos_integer(),
    %% Of the kind calls: within calls of one function, so many of them; which functions are not
    %% traced; whether also those are that are too short to be timed.
    inside => mfa() | {module(), atom(), '_'},
    count => pos_integer(),
    not_traced => [dyno_agent_patterns:pattern()],
    short_calls => boolean(),
    thresholds => [dyno_threshold:t()],
    %% Called in the measuring process with the time that has passed.
    show => fun((PassedMs :: non_neg_integer()) -> ok),
    cookie => atom(),
    name => atom(),
    %% Added on the way.
    atom() => term()
}.

-type state() :: #{
    targets := [dyno_targets:target()],
    started := integer(),
    ends_ms := integer(),
    show := fun((non_neg_integer()) -> ok),
    status := complete | interrupted | failed,
    %% None: it ends when it has seen enough, or with its command.
    asked_ms := pos_integer() | undefined,
    %% Whether it ends with the node.
    command := boolean(),
    lost := dyno_recording_observed:lost(),
    samples := [dyno_target_results:sample()],
    %% Of nodes that may be lost before they are read.
    peeked := #{node() => dyno_targets:results()},
    warnings := [{Code :: binary(), Text :: binary()}]
}.

-define(FOR_MS, 10_000).
-define(COMMAND_MS, 3_600_000).
-define(TICK_MS, 1000).
-define(OPTIONS, [
    kind, targets, patterns, eval, run, for_ms, inside, count, not_traced, short_calls, thresholds,
    show, cookie, name
]).

-doc """
Profiles; see the module.

## Errors
A node cannot be reached or is taken by another dyno; a target means nothing there; the kind cannot
measure what was asked for.
""".
-spec run([node(), ...], options()) ->
    {ok, dyno_recording:document()} | {error, dyno_error:error()}.
run(Nodes, Options) ->
    maybe
        ok ?= dyno_option:known(?OPTIONS, Options),
        profile(Nodes, Options)
    end.

profile([], #{eval := Text} = Options) ->
    started(dyno_profile_subject:eval(Text), Options#{named => Text});
profile([], #{run := Command} = Options) ->
    started(
        dyno_profile_subject:command(Command),
        Options#{named => Command, for_ms => for_ms(Options)}
    );
profile(Nodes, Options) ->
    profiled(Nodes, Options).

-doc "How long it lasts at most.".
-spec for_ms(options()) -> pos_integer().
for_ms(#{for_ms := Ms}) -> Ms;
for_ms(#{run := _}) -> ?COMMAND_MS;
for_ms(_Options) -> ?FOR_MS.

started({ok, #{node := Node} = Subject}, Options) ->
    try
        profiled([Node], Options#{subject => Subject})
    after
        dyno_profile_subject:stop(Subject)
    end;
started(Error, _Options) ->
    Error.

profiled(Nodes, Options) ->
    Kind = dyno_profile_kind:module(kind(Options)),
    Default = #{default_kind => not is_map_key(kind, Options)},
    maybe
        Environment = dyno_environment:collect(),
        ok ?= dyno_target_node:connect(Nodes, maps:with([cookie, name], Options)),
        {ok, Processes} ?=
            dyno_process_filter:check(maps:get(targets, Options, []), Nodes, processes),
        Checked = maps:merge(Default, Options#{
            kind => kind(Options), processes => Processes, nodes => Nodes
        }),
        {ok, Instruments} ?= Kind:instruments(Checked),
        {ok, Targets} ?= dyno_targets:attach(Nodes, attach_options(Instruments, Checked)),
        ok = warmed_up(maps:get(warmup_ms, Instruments, 0), Options),
        {Ended, Results} = measured(Targets, Options),
        Visits = dyno_targets:detach(Targets),
        ok = flush(),
        With = Ended#{visits => Visits},
        {ok, dyno_profile_recording:document(Nodes, Checked, Environment, Kind, With, Results)}
    end.

%% A command waits until it is measured.
warmed_up(_WarmupMs, #{subject := #{waits := _}}) -> ok;
warmed_up(WarmupMs, _Options) -> timer:sleep(WarmupMs).

-doc "The kind of profile: of what is started for it the default is another.".
-spec kind(options()) -> atom().
kind(#{kind := Kind}) -> Kind;
kind(#{eval := _}) -> cpu;
kind(#{run := _}) -> cpu;
kind(_Options) -> hd(dyno_profile_kind:names()).

attach_options(Instruments, #{processes := Processes} = Options) ->
    All = dyno_agent_instrument:names(dyno_agent_instrument:all()),
    Defaults = #{level => discovery, patterns => [], instruments => []},
    On = maps:get(on, Instruments, []),
    maps:merge(
        maps:merge(Defaults, maps:without([on, warmup_ms], Instruments)),
        (maps:with([cookie, name], Options))#{
            processes => Processes,
            servers => [],
            without => All -- On,
            interval_ms => ?TICK_MS
        }
    ).

%% The measurement

measured(Targets, Options) ->
    Show = maps:get(show, Options, fun(_) -> ok end),
    ok = Show(0),
    {ok, Timer} = timer:send_interval(?TICK_MS, {?MODULE, tick}),
    All = [Node || #{node := Node} <- Targets],
    Silence = dyno_target_silence:watch(All, 0),
    _ = dyno_targets:restart(Targets),
    Started = erlang:monotonic_time(),
    ok = dyno_profile_subject:go(maps:get(subject, Options, #{})),
    Aligned = dyno_targets:aligned(Targets, erlang:monotonic_time(nanosecond)),
    ok = dyno_target_silence:ends_in(Silence, for_ms(Options)),
    #{targets := Present, samples := Samples, peeked := Peeked} = Ended = loop(#{
        targets => Aligned,
        started => Started,
        ends_ms => erlang:monotonic_time(millisecond) + for_ms(Options),
        show => Show,
        status => complete,
        asked_ms => for_ms(Options),
        command => is_map_key(run, Options),
        lost => #{},
        samples => [],
        peeked => #{},
        warnings => []
    }),
    DurationNs = erlang:convert_time_unit(erlang:monotonic_time() - Started, native, nanosecond),
    Facts = [Of || #{facts := Of} <- Targets],
    Read = [Of || #{results := Results} = Of <- dyno_targets:read(Present), Results =/= #{}],
    Nodes = [Node || #{node := Node} <- Read],
    ok = dyno_target_silence:stop(Silence),
    {ok, cancel} = timer:cancel(Timer),
    Known = Read ++ maps:values(maps:without(Nodes, Peeked)),
    {Ended#{
        targets := Aligned,
        samples := lists:reverse(Samples),
        duration_ns => DurationNs,
        ending => ending(All, DurationNs, unread(Present, Nodes, Ended)),
        facts => Facts
    }, Known}.

%% A node that was there to the end and gave no results has shown nothing.
unread(Present, Read, #{command := false, lost := Lost} = State) ->
    Unread = [Node || #{node := Node} <- Present, not lists:member(Node, Read)],
    State#{lost := maps:merge(#{Node => {lost, seen_ns(Node, State)} || Node <- Unread}, Lost)};
unread(_Present, _Read, State) ->
    State.

ending(Nodes, DurationNs, #{status := Status, asked_ms := AskedMs, lost := Lost}) ->
    Seen = dyno_recording_observed:nodes(Nodes, Lost, DurationNs),
    dyno_recording_observed:ended(Status, AskedMs, Seen).

-spec loop(state()) -> state().
loop(#{targets := [], command := true} = State) ->
    State#{asked_ms := undefined};
loop(#{targets := []} = State) ->
    State#{status := failed};
loop(#{ends_ms := EndsMs} = State) ->
    receive
        {?MODULE, tick} ->
            loop(ticked(State));
        {dyno_sample, Sampler, TimeMs, Values, CostUs} ->
            loop(sampled(Sampler, {TimeMs, Values, CostUs}, State));
        {'DOWN', Monitor, process, _, _} ->
            loop(lost(dyno_targets:find(monitor, Monitor, map_get(targets, State)), State));
        {dyno_agent, Ref, What} ->
            loop(told(dyno_targets:find(ref, Ref, map_get(targets, State)), What, State));
        {dyno_profile_subject, started, _, Another} ->
            ok = dyno_profile_subject:go(#{waits => Another}),
            loop(State);
        {?MODULE, enough} ->
            State#{asked_ms := undefined};
        stop ->
            State#{asked_ms := undefined};
        dyno_interrupt ->
            State#{status := interrupted}
    after max(0, EndsMs - erlang:monotonic_time(millisecond)) ->
        State
    end.

ticked(#{started := Started, show := Show} = State) ->
    Passed = erlang:monotonic_time() - Started,
    ok = Show(erlang:convert_time_unit(Passed, native, millisecond)),
    peeked(State).

%% What ends when it likes is read now and then.
peeked(#{command := true, targets := Targets, peeked := Peeked} = State) ->
    State#{peeked := maps:merge(Peeked, dyno_targets:peek(Targets))};
peeked(State) ->
    State.

sampled(Sampler, {TimeMs, Values, CostUs}, #{targets := Targets, samples := Samples} = State) ->
    case dyno_targets:find(sampler, Sampler, Targets) of
        {ok, #{node := Node, shift_ms := ShiftMs}} ->
            State#{samples := [{Node, TimeMs + ShiftMs, Values, CostUs} | Samples]};
        error ->
            State
    end.

lost({ok, Target}, #{command := true, targets := Targets, peeked := Peeked} = State) ->
    Ended = State#{targets := Targets -- [Target]},
    case map_size(Peeked) of
        0 -> warned(~"too_short", "the command ended before it could be profiled", Ended);
        _ -> Ended
    end;
lost({ok, #{node := Node} = Target}, #{targets := Targets} = State) ->
    unobserved(Node, lost, State#{targets := Targets -- [Target]});
lost(error, State) ->
    State.

unobserved(Node, How, #{lost := Lost} = State) ->
    State#{lost := Lost#{Node => {How, seen_ns(Node, State)}}}.

%% A node may have said nothing for long before it was lost.
seen_ns(Node, #{samples := Samples}) ->
    1_000_000 * lists:max([0 | [TimeMs || {Of, TimeMs, _, _} <- Samples, Of =:= Node]]).

told({ok, #{node := Node} = Target}, {gave_up, Why}, #{targets := Targets} = State) ->
    Text = io_lib:format("the agent gave up: ~0tP", [Why, 10]),
    Without = State#{targets := Targets -- [Target]},
    warned(~"gave_up", Text, unobserved(Node, unobserved, Without));
told({ok, #{node := Node}}, {without, Instruments, Why}, State) ->
    Text = io_lib:format("~ts went on without ~0tp: ~0tP", [Node, Instruments, Why, 10]),
    warned(~"without", Text, unobserved(Node, unobserved, State));
told(_Found, _What, State) ->
    State.

warned(Code, Text, #{warnings := Warnings} = State) ->
    State#{warnings := [{Code, dyno_recording_part:text("~ts", [Text])} | Warnings]}.

flush() ->
    receive
        {dyno_sample, _, _, _, _} -> flush();
        {dyno_agent, _, _} -> flush();
        {?MODULE, _} -> flush()
    after 0 -> ok
    end.
