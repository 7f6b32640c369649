%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_verify).
-moduledoc """
Checks properties of processes in running nodes, and returns a recording, for `dyno verify`.

```erlang
{ok, Recording} = dyno_verify:run([~"once.dyno"], ['shop@host'], #{for_ms => 30_000}).
```

Monitors run in each node; this process collects their verdicts in one stream. If it gets
`dyno_interrupt` or `stop`, it ends with the results so far.
""".

-behaviour(dyno_observer).

-export([run/3]).
-export([attach/2, handle/3, made/2]).
-export_type([options/0, event/0, seen/0]).

-type options() :: #{
    %% Until an interrupt by default.
    for_ms => pos_integer(),
    %% partition is the default.
    instrumentation => atom(),
    %% The limits of events waiting in a node, their memory, and events a second.
    limits => dyno_agent_event_limit:limits(),
    %% Instead of the properties' processes; `[]` for these.
    processes => [dyno_process_filter:t()],
    %% The checked selectors for the agents.
    select => [dyno_agent_monitor:selector()],
    %% The number of last events in a verdict; 10.
    events => non_neg_integer(),
    %% A file in the node, for the events of the monitors.
    record => binary(),
    %% Called in the calling process.
    show => fun((event()) -> ok),
    cookie => atom(),
    name => atom(),
    %% Added on the way.
    atom() => term()
}.

-type event() ::
    {verdict, dyno_agent_monitor:report()}
    | {crashed, {module(), dyno_agent_event:process(), {atom(), term(), list()}}}
    | {fault, node(), unicode:chardata()}
    %% Of a specification.
    | {warning, unicode:chardata()}
    | {began, [node(), ...]}
    | {counted, [dyno_agent_verifier:summary()]}.

-type seen() :: #{
    specs := [binary(), ...],
    nodes := [node(), ...],
    options := options(),
    %% Of the specifications.
    warnings := [unicode:chardata()],
    monitors := [module()],
    %% The last counts.
    summaries := #{node() => dyno_agent_verifier:summary()},
    %% The first ones, the last one first.
    reports := [{AtNs :: non_neg_integer(), dyno_agent_monitor:report()}],
    faults := [{node(), unicode:chardata()}],
    atom() => term()
}.

-define(MOST_REPORTS, 1000).
-define(OWN, [for_ms, show, processes, specs]).

-doc """
Verifies; `Specs` are files of specifications, or monitors' modules.

## Errors
A specification is wrong, a node is unreachable or used by another dyno.
""".
-spec run([binary(), ...], [node(), ...], options()) ->
    dyno_error:result(dyno_recording:document()).
run(Specs, Nodes, Options) ->
    dyno_observer:run(?MODULE, Nodes, Options#{specs => Specs}).

-doc false.
-spec attach([node(), ...], options()) ->
    {ok, dyno_observer:plan(), seen()} | {error, dyno_error:error()}.
attach(Nodes, #{specs := Specs} = Options) ->
    maybe
        ok ?= dyno_verify_target:records_apart(Nodes, Options),
        {ok, Objects} ?= dyno_verify_monitors:read(Specs),
        Show = maps:get(show, Options, fun(_) -> ok end),
        Warnings = dyno_verify_monitors:warnings(Objects),
        lists:foreach(fun(Text) -> ok = Show({warning, Text}) end, Warnings),
        {ok, Selected} ?= selected(Nodes, Options),
        Run = recorded(Objects, Options),
        Hold = fun(Node) -> dyno_verify_target:hold(Node, Run, maps:without(?OWN, Selected)) end,
        {ok, Targets} ?= dyno_target:all(Nodes, Hold),
        Plan = (maps:with([for_ms], Options))#{nodes => Nodes, targets => Targets},
        {ok, Plan, #{
            specs => Specs,
            nodes => Nodes,
            options => Options,
            warnings => Warnings,
            monitors => [Module || {Module, _, _} <- Objects],
            started => erlang:monotonic_time(nanosecond),
            show => Show,
            summaries => #{},
            reports => [],
            count => 0,
            faults => [],
            unkept => none
        }}
    end.

selected(Nodes, #{processes := [_ | _] = Filters} = Options) ->
    maybe
        ok ?= dyno_target_node:connect(Nodes, maps:with([cookie, name], Options)),
        {ok, Selectors} ?= dyno_process_filter:check(Filters, Nodes, monitored),
        {ok, Options#{select => Selectors}}
    end;
selected(_Nodes, Options) ->
    {ok, Options}.

recorded(Objects, #{record := File}) ->
    Needs = [dyno_verify_monitors:needs(Object) || Object <- Objects],
    Objects ++ [dyno_verify_log:recorder(File, Needs)];
recorded(Objects, _Options) ->
    Objects.

-doc false.
-spec handle(term(), [dyno_target:t()], seen()) -> {[dyno_observation:event()], seen()}.
handle(begun, _Targets, #{show := Show, nodes := Nodes} = State) ->
    ok = Show({began, Nodes}),
    {[], State#{started := erlang:monotonic_time(nanosecond)}};
handle({tick, _}, Targets, #{show := Show} = State) ->
    Counted = lists:foldl(
        fun(Target, Acc) -> summed(dyno_verify_target:peek(Target), Target, Acc) end,
        {[], State},
        Targets
    ),
    {_, #{summaries := Summaries}} = Counted,
    ok = Show({counted, maps:values(Summaries)}),
    Counted;
handle({message, {dyno_verify, _Node, gave_up}}, _Targets, #{finished := true} = State) ->
    {[], State};
handle({message, {dyno_verify, Node, gave_up}}, Targets, State) ->
    Why = "too many faults; the counts until then are told",
    [Target] = [Of || #{node := Where} = Of <- Targets, Where =:= Node],
    {Events, Summed} = summed(dyno_verify_target:finish(Target), Target, {[], State}),
    {Events ++ [{gave_up, Node, Why}], Summed};
handle({message, {dyno_verify, Node, What}}, _Targets, State) ->
    {[], told(Node, What, State)};
handle({leave, #{node := Node} = Target, _How, Why}, _Targets, #{show := Show} = State) ->
    ok = Show({fault, Node, Why}),
    {[], unrecorded(Target, State)};
handle(finish, Targets, State) ->
    lists:foldl(fun finished/2, {[], State#{finished => true}}, Targets);
handle(_What, _Targets, State) ->
    {[], State}.

finished(#{node := Node} = Target, Acc) ->
    case dyno_verify_target:finish(Target) of
        gone ->
            {Events, State} = Acc,
            {[{lost, Node} | Events], State};
        Summary ->
            {Events, Summed} = summed(Summary, Target, Acc),
            {Events, unrecorded(Target, Summed)}
    end.

told(_Node, {verdict, Report}, #{started := Started, count := Count, show := Show} = State) ->
    ok = Show({verdict, Report}),
    case Count < ?MOST_REPORTS of
        true ->
            At = erlang:monotonic_time(nanosecond) - Started,
            #{reports := Reports} = State,
            State#{reports := [{At, Report} | Reports], count := Count + 1};
        false ->
            State
    end;
told(Node, {crashed, Module, Process, Why}, #{show := Show, faults := Faults} = State) ->
    Crash = {Module, Process, Why},
    ok = Show({crashed, Crash}),
    State#{faults := [{Node, dyno_verify_text:crash(Crash)} | Faults]};
told(Node, {fault, Text}, State) ->
    fault(Node, Text, State).

fault(Node, Text, #{show := Show, faults := Faults} = State) ->
    ok = Show({fault, Node, Text}),
    State#{faults := [{Node, Text} | Faults]}.

%% The loss of a node is reported separately. Events after the last count are unknown.
summed({ok, Summary}, #{node := Node}, {Events, #{summaries := Summaries} = State}) ->
    #{started := Started} = State,
    AtNs = erlang:monotonic_time(nanosecond) - Started,
    {[{seen, Node, AtNs} | Events], State#{summaries := Summaries#{Node => Summary}}};
summed(gone, _Target, Counted) ->
    Counted.

unrecorded(#{node := Node} = Target, #{summaries := Summaries} = State) ->
    Whole =
        case Summaries of
            #{Node := #{faults := [], verdicts := #{gap := 0, cut := 0}}} -> whole;
            #{} -> cut_off
        end,
    case dyno_verify_target:recorded(Target, Whole) of
        ok ->
            State;
        {error, Error} ->
            Text = dyno_recording_part:text("~ts", [dyno_error:format(Error)]),
            fault(Node, Text, State#{unkept := Text})
    end.

-doc false.
-spec made(dyno_observation:ended(), seen()) -> dyno_observed:parts().
made(Ended, State) ->
    dyno_verify_recording:parts(kept(Ended, State), State).

%% An incomplete file fails an otherwise complete recording.
kept(#{ending := Ending} = Ended, #{unkept := <<Text/binary>>}) when
    not is_map_key(error, Ending)
->
    Ended#{ending := #{status => failed, error => #{code => ~"not_recorded", text => Text}}};
kept(Ended, _State) ->
    Ended.
