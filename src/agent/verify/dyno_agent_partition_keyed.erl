%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_partition_keyed).
-moduledoc false.
%% Monitors with a key: a state for each key, fed by several processes. Their events arrive in any
%% order, so each waits for one some milliseconds newer, and is sorted by time. A later event is
%% handled at once, and leaves a gap: earlier conclusions may be wrong, and the property is
%% `unsure`. Pure.

-export([new/2, partial/1, event/5, settle/1, timeouts/2, gap/1]).
-export_type([t/0]).

-record(instance, {
    state :: term(),
    process :: dyno_agent_event:process(),
    events = [] :: [tuple()]
}).

-record(keyed, {
    reorder_ns :: non_neg_integer(),
    keep :: non_neg_integer(),
    %% By time and number of arrival.
    waiting = gb_trees:empty() :: gb_trees:tree(),
    arrived = 0 :: non_neg_integer(),
    newest = -(1 bsl 62) :: integer(),
    given = -(1 bsl 62) :: integer(),
    instances = #{} :: #{{module(), term()} => #instance{} | decided},
    trace = complete :: dyno_agent_monitor:trace_state(),
    %% Monitors whose instances or events were lost.
    unsure = #{} :: #{module() => []},
    %% Events of a process are lost for good: no more verdicts.
    cut = false :: boolean()
}).

-opaque t() :: #keyed{}.

-define(MOST, 100_000).

-spec new(non_neg_integer(), non_neg_integer()) -> t().
new(ReorderNs, Keep) ->
    #keyed{reorder_ns = ReorderNs, keep = Keep}.

-spec partial(t()) -> t().
partial(#keyed{trace = Trace} = Keyed) -> Keyed#keyed{trace = worse(Trace, #{partial => true})}.

-spec event(
    [module()], dyno_agent_event:process(), dyno_agent_event:event(), integer(), t()
) -> {t(), [dyno_agent_partition:effect()]}.
event([], _Process, _Event, _TimeNs, Keyed) ->
    {Keyed, []};
event(Modules, _Process, _Event, _TimeNs, #keyed{cut = true} = Keyed) ->
    unsure(Modules, cut, Keyed);
event(Modules, Process, Event, TimeNs, #keyed{given = Given} = Keyed) when TimeNs < Given ->
    {Unsure, Effects} = unsure(Modules ++ known(Keyed), late, Keyed),
    {New, More} = give(
        {Modules, Process, Event, TimeNs}, Unsure#keyed{trace = gap, instances = #{}}
    ),
    {New, Effects ++ More};
event(Modules, Process, Event, TimeNs, Keyed) ->
    #keyed{waiting = Waiting, arrived = Arrived, newest = Newest, reorder_ns = Ns} = Keyed,
    Now = max(Newest, TimeNs),
    Added = Keyed#keyed{
        waiting = gb_trees:insert({TimeNs, Arrived}, {Modules, Process, Event, TimeNs}, Waiting),
        arrived = Arrived + 1,
        newest = Now,
        trace = worse(Keyed#keyed.trace, Process)
    },
    release(Now - Ns, Added, []).

%% Once for each.
unsure(Modules, Why, #keyed{unsure = Before} = Keyed) ->
    New = [Module || Module <- lists:uniq(Modules), not is_map_key(Module, Before)],
    Now = maps:merge(Before, maps:from_keys(New, [])),
    {Keyed#keyed{unsure = Now}, [{unsure, Module, Why} || Module <- New]}.

known(#keyed{instances = Instances, waiting = Waiting}) ->
    [Module || {Module, _} <- maps:keys(Instances)] ++
        lists:append([Modules || {Modules, _, _, _} <- gb_trees:values(Waiting)]).

worse(complete, #{partial := true}) -> partial;
worse(Trace, _Process) -> Trace.

release(UpTo, #keyed{waiting = Waiting} = Keyed, Effects) ->
    case gb_trees:is_empty(Waiting) orelse gb_trees:take_smallest(Waiting) of
        {{TimeNs, _}, Item, Rest} when TimeNs =< UpTo ->
            {New, More} = give(Item, Keyed#keyed{waiting = Rest, given = TimeNs}),
            release(UpTo, New, Effects ++ More);
        _ ->
            {Keyed, Effects}
    end.

-spec settle(t()) -> {t(), [dyno_agent_partition:effect()]}.
settle(#keyed{newest = Newest} = Keyed) ->
    release(Newest, Keyed, []).

give({Modules, Process, Event, TimeNs}, Keyed) ->
    lists:foldl(
        fun(Module, {Now, Effects}) ->
            case dyno_agent_monitor:key(Module, Event, Process) of
                {ok, Key} ->
                    {New, More} = step({Module, Key}, Process, Event, TimeNs, Now),
                    {New, Effects ++ More};
                none ->
                    {Now, Effects};
                {crashed, Why} ->
                    {Now, Effects ++ [{crashed, Module, Process, Why}]}
            end
        end,
        {Keyed, []},
        Modules
    ).

step({Module, _} = Id, #{pid := Pid} = Process, Event, TimeNs, Keyed) ->
    case instance(Id, Process, Keyed) of
        decided ->
            {Keyed, []};
        full ->
            unsure([Module], full, Keyed#keyed{trace = gap});
        {crashed, _} = Crashed ->
            outcome(Crashed, Id, #instance{process = Process}, TimeNs, Keyed);
        #instance{events = Events, state = State} = Instance ->
            Seen = Instance#instance{
                events = lists:sublist([{TimeNs, Pid, Event} | Events], Keyed#keyed.keep),
                process = Process
            },
            Outcome = dyno_agent_monitor:step(Module, Pid, Event, TimeNs, State),
            outcome(Outcome, Id, Seen, TimeNs, Keyed)
    end.

instance({Module, _} = Id, Process, #keyed{instances = Instances, trace = Trace}) ->
    case Instances of
        #{Id := Instance} ->
            Instance;
        #{} when map_size(Instances) >= ?MOST ->
            full;
        #{} ->
            case dyno_agent_monitor:init(Module, Process#{partial => Trace =/= complete}) of
                {next, State} -> #instance{state = State, process = Process};
                Crashed -> Crashed
            end
    end.

with(Id, Instance, #keyed{instances = Instances} = Keyed) ->
    Keyed#keyed{instances = Instances#{Id => Instance}}.

outcome(Outcome, {Module, Key} = Id, Instance, TimeNs, #keyed{trace = Trace} = Keyed) ->
    #instance{events = Events, process = Process} = Instance,
    {Goes, Told} = dyno_agent_monitor:decided(Outcome, Module, Process, TimeNs, Events, Trace),
    Next =
        case Goes of
            {on, State} -> Instance#instance{state = State};
            off -> decided
        end,
    {with(Id, Next, Keyed), [of_key(Key, Effect) || Effect <- Told]}.

of_key(Key, {verdict, Report}) -> {verdict, Report#{key => Key}};
of_key(_Key, Crashed) -> Crashed.

-doc "Handles older events, then reports the deadlines at this time.".
-spec timeouts(integer(), t()) -> {t(), [dyno_agent_partition:effect()]}.
timeouts(TimeNs, Keyed) ->
    {Released, Effects} = release(TimeNs, Keyed, []),
    maps:fold(
        fun
            (_Id, decided, Acc) ->
                Acc;
            ({Module, _} = Id, #instance{state = State} = Instance, {Now, Before}) ->
                case due(Module, State, TimeNs) of
                    none ->
                        {Now, Before};
                    Outcome ->
                        {New, More} = outcome(Outcome, Id, Instance, TimeNs, Now),
                        {New, Before ++ More}
                end
        end,
        {Released, Effects},
        Released#keyed.instances
    ).

due(Module, State, TimeNs) ->
    case
        erlang:function_exported(Module, deadline, 1) andalso
            dyno_agent_monitor:deadline(Module, State)
    of
        {crashed, _} = Crashed ->
            Crashed;
        Deadline when is_integer(Deadline), Deadline =< TimeNs ->
            dyno_agent_monitor:timeout(Module, TimeNs, State);
        _ ->
            none
    end.

-spec gap(t()) -> {t(), [dyno_agent_partition:effect()]}.
gap(Keyed) ->
    {Unsure, Effects} = unsure(known(Keyed), cut, Keyed),
    {
        Unsure#keyed{trace = gap, cut = true, instances = #{}, waiting = gb_trees:empty()},
        Effects
    }.
