%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_verify).
-moduledoc """
Watches processes of running nodes for properties, and gives one recording: what `dyno verify` does.

```erlang
{ok, Recording} = dyno_verify:run([~"once.dyno"], ['shop@host'], #{for_ms => 30_000}).
```

Monitors run in each node; their verdicts come together here, in one stream. It ends in good order,
with what was seen until then, when its process gets `dyno_interrupt`, or `stop`.
""".

-export([run/3]).
-export_type([options/0, event/0, ending/0]).

-type options() :: #{
    %% Until it is interrupted where this is left out.
    for_ms => pos_integer(),
    %% partition is the default.
    instrumentation => atom(),
    %% The most that may wait in a node: events, and their memory; the most events a second.
    limits => dyno_agent_event_flow:limits(),
    %% In place of those that the properties name; `[]` for these.
    processes => [dyno_process_filter:t()],
    %% The same as the agents take them, once they are checked.
    select => [dyno_agent_monitor:selector()],
    shards => pos_integer(),
    %% So many of the last events are told with a verdict; 10.
    events => non_neg_integer(),
    %% A file in the node, for the events that the monitors get.
    record => binary(),
    %% Called in the calling process.
    show => fun((event()) -> ok),
    cookie => atom(),
    name => atom()
}.

-doc "What there is to show.".
-type event() ::
    {verdict, dyno_agent_monitor:report()}
    | {crashed, {module(), dyno_agent_event:process(), {atom(), term(), list()}}}
    | {fault, node(), unicode:chardata()}
    %% Of a specification.
    | {warning, unicode:chardata()}
    | {began, [node(), ...]}
    | {counted, [dyno_agent_verifier:summary()]}.

-doc "How it ended, for the recording.".
-type ending() :: #{
    ended := dyno_recording_observed:ending(),
    duration_ns := non_neg_integer(),
    facts := [map()],
    %% What was counted last.
    summaries := #{node() => dyno_agent_verifier:summary()},
    %% Since then.
    lost := dyno_recording_observed:lost(),
    visits => [dyno_target_visit:t()],
    %% The first ones, the last one first.
    reports := [{AtNs :: non_neg_integer(), dyno_agent_monitor:report()}],
    faults := [{node(), unicode:chardata()}],
    %% Of the specifications.
    warnings := [unicode:chardata()],
    monitors := [module()]
}.

-define(TICK_MS, 1000).
-define(MOST_REPORTS, 1000).
-define(OWN, [for_ms, show, processes]).

-doc """
Verifies; `Specs` are files of specifications, or monitors' modules.

## Errors
A specification is wrong, a node cannot be reached or is taken by another dyno.
""".
-spec run([binary(), ...], [node(), ...], options()) ->
    {ok, dyno_recording:document()} | {error, dyno_error:error()}.
run(Specs, Nodes, Options) ->
    maybe
        ok ?= dyno_verify_target:records_apart(Nodes, Options),
        {ok, Objects} ?= dyno_verify_monitors:read(Specs),
        Environment = dyno_environment:collect(),
        Show = maps:get(show, Options, fun(_) -> ok end),
        Warnings = dyno_verify_monitors:warnings(Objects),
        lists:foreach(fun(Text) -> ok = Show({warning, Text}) end, Warnings),
        {Run, How} = recorded(Objects, Options),
        {ok, Selected} ?= selected(Nodes, How),
        {ok, Targets} ?= attach(Nodes, Run, maps:without(?OWN, Selected)),
        {ok, Timer} = timer:send_interval(?TICK_MS, {?MODULE, tick}),
        Started = erlang:monotonic_time(nanosecond),
        ok = Show({began, Nodes}),
        Facts = dyno_target_node:facts_of(Nodes),
        Ends = [erlang:send_after(Ms, self(), {?MODULE, ends}) || #{for_ms := Ms} <- [Options]],
        Silence = dyno_target_silence:watch(Nodes, maps:get(for_ms, Options, infinity)),
        Ended = loop(#{
            targets => Targets,
            started => Started,
            show => Show,
            status => complete,
            asked_ms => maps:get(for_ms, Options, undefined),
            summaries => #{},
            counted => #{},
            lost => #{},
            visits => [],
            reports => [],
            count => 0,
            faults => [],
            unkept => none
        }),
        ok = dyno_target_silence:stop(Silence),
        {ok, cancel} = timer:cancel(Timer),
        lists:foreach(fun erlang:cancel_timer/1, Ends),
        ok = flush(),
        DurationNs = erlang:monotonic_time(nanosecond) - Started,
        Ending = maps:with([reports, faults, summaries, lost, visits], Ended),
        {ok,
            dyno_verify_recording:document(Specs, Nodes, Options, Environment, Ending#{
                ended => observed(Nodes, DurationNs, Ended),
                duration_ns => DurationNs,
                facts => Facts,
                warnings => Warnings,
                monitors => [Module || {Module, _, _} <- Objects]
            })}
    end.

selected(Nodes, #{processes := [_ | _] = Filters} = Options) ->
    maybe
        ok ?= dyno_target_node:connect(Nodes, maps:with([cookie, name], Options)),
        {ok, Selectors} ?= dyno_process_filter:check(Filters, Nodes, monitored),
        {ok, Options#{select => Selectors}}
    end;
selected(_Nodes, Options) ->
    {ok, Options}.

observed(Nodes, DurationNs, #{status := Status, asked_ms := AskedMs, lost := Lost} = Ended) ->
    Seen = dyno_recording_observed:nodes(Nodes, Lost, DurationNs),
    case {dyno_recording_observed:ended(Status, AskedMs, Seen), Ended} of
        {#{error := _} = Short, _} -> Short;
        {Whole, #{unkept := none}} -> Whole;
        {_, #{unkept := Text}} -> #{
            status => failed, error => #{code => ~"not_recorded", text => Text}
        }
    end.

%% One process writes, so one runs the monitors.
recorded(Objects, #{record := File} = Options) ->
    Needs = [dyno_verify_monitors:needs(Object) || Object <- Objects],
    {Objects ++ [dyno_verify_log:recorder(File, Needs)], Options#{shards => 1}};
recorded(Objects, Options) ->
    {Objects, Options}.

attach(Nodes, Objects, Options) ->
    Attach = fun(Node) -> dyno_verify_target:attach(Node, Objects, Options) end,
    Detach = fun(Target) -> _ = dyno_verify_target:detach([Target]) end,
    maybe
        {error, _} = Error ?= dyno_error:each(Attach, Detach, Nodes),
        ok = flush(),
        Error
    end.

loop(#{targets := []} = State) ->
    State#{status := failed};
loop(State) ->
    receive
        {dyno_verify, Node, What} -> loop(told(Node, What, State));
        {?MODULE, tick} -> loop(counted(State));
        {'DOWN', Ref, process, Pid, _} -> loop(lost({monitor, Ref}, down(node(Pid)), State));
        {dyno_agent, Ref, What} -> loop(lost({ref, Ref}, ended(What), State));
        dyno_interrupt -> finish(State#{status := interrupted});
        stop -> finish(State#{asked_ms := undefined});
        {?MODULE, ends} -> finish(State)
    end.

down(Node) -> ["the node ", atom_to_binary(Node), " was lost"].

ended(What) -> io_lib:format("monitoring ended: ~0tP", [element(tuple_size(What), What), 10]).

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
    fault(Node, Text, State);
told(Node, gave_up, #{targets := Targets} = State) ->
    [Target] = [Of || #{node := Where} = Of <- Targets, Where =:= Node],
    Summed = summed(dyno_verify_target:finish(Target), Target, State),
    Text = "monitoring ended, after too many faults; what was counted until then is told",
    lost({node, Node}, Text, Summed).

fault(Node, Text, #{show := Show, faults := Faults} = State) ->
    ok = Show({fault, Node, Text}),
    State#{faults := [{Node, Text} | Faults]}.

counted(#{targets := Targets, show := Show} = State) ->
    #{summaries := Summaries} =
        New = lists:foldl(
            fun(Target, Acc) -> summed(dyno_verify_target:peek(Target), Target, Acc) end,
            State,
            Targets
        ),
    ok = Show({counted, maps:values(Summaries)}),
    New.

%% A node that is gone says so by itself.
summed({ok, Summary}, #{node := Node}, #{summaries := Summaries, counted := Counted} = State) ->
    State#{
        summaries := Summaries#{Node => Summary},
        counted := Counted#{Node => erlang:monotonic_time(nanosecond)}
    };
summed(gone, _Target, State) ->
    State.

%% The target that has this under that key, if it is not lost already.
lost({Key, Value}, Text, #{targets := Targets} = State) ->
    case [Target || #{Key := Of} = Target <- Targets, Of =:= Value] of
        [#{node := Node} = Target] ->
            Left = left([Target], unrecorded(Target, State)),
            How =
                case Key of
                    monitor -> lost;
                    _ -> unobserved
                end,
            fault(Node, Text, gone(Node, How, Left#{targets := Targets -- [Target]}));
        [] ->
            State
    end.

%% What came after the last count is not known.
gone(Node, How, #{lost := Lost, started := Started, counted := Counted} = State) ->
    State#{lost := Lost#{Node => {How, maps:get(Node, Counted, Started) - Started}}}.

finish(#{targets := Targets} = State) ->
    Finished = lists:foldl(
        fun(#{node := Node} = Target, Acc) ->
            Summary = dyno_verify_target:finish(Target),
            Summed = unrecorded(Target, summed(Summary, Target, Acc)),
            case Summary of
                gone -> gone(Node, lost, Summed);
                {ok, _} -> Summed
            end
        end,
        State,
        Targets
    ),
    last(left(Targets, Finished)).

left(Targets, #{visits := Visits} = State) ->
    State#{visits := Visits ++ dyno_verify_target:detach(Targets)}.

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

%% What was sent before the end.
last(State) ->
    receive
        {dyno_verify, _Node, gave_up} -> last(State);
        {dyno_verify, Node, What} -> last(told(Node, What, State))
    after 0 -> State
    end.

flush() ->
    receive
        {dyno_verify, _, _} -> flush();
        {dyno_agent, _, _} -> flush();
        {?MODULE, _} -> flush()
    after 0 -> ok
    end.
