%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_rate).
-moduledoc false.
%% Counts events in a time: `at most 100 ... within 1 s` breaks at the first event too many, `at
%% least 1 ... within 10 s` at the end of the time, also right after the process's start. The state
%% is the times of the last such events.

-behaviour(dyno_agent_property).

-export([start/2, unknown/3, doubts/3, step/4, expire/3, deadline/2, finish/2, explain/2]).
-export_type([code/0]).

-type code() ::
    {at_most | at_least, pos_integer(), Match :: pos_integer(), Within :: integer(), binary()}.

-spec start(code(), dyno_agent_property:time()) -> dyno_agent_property:instance().
start({at_most, _, _, _, _}, _Time) -> {0, queue:new()};
start({at_least, Count, _, _, _}, Time) -> {Count, queue:from_list(lists:duplicate(Count, Time))}.

%% Events before monitoring do not count.
-spec unknown(code(), [], dyno_agent_property:time()) -> [dyno_agent_property:instance(), ...].
unknown(Code, _Reachable, Time) -> [start(Code, Time)].

-spec doubts(code(), dyno_agent_property:key(), dyno_agent_property:instance()) -> false.
doubts(_Code, _Key, _World) -> false.

-spec step(code(), dyno_agent_property:match(), dyno_agent_property:time(), State) -> State when
    State :: dyno_agent_property:instance().
step({Kind, Limit, Pattern, Within, _Text}, Match, Time, State) ->
    case {Match(Pattern, []), Kind} of
        {nomatch, _} ->
            State;
        {_, at_least} ->
            {Count, Times} = State,
            {Count, queue:in(Time, queue:drop(Times))};
        {_, at_most} ->
            case recent(State, Time - Within) of
                {Limit, _} -> {false, [{1, []}]};
                {Count, Times} -> {Count + 1, queue:in(Time, Times)}
            end
    end.

recent({Count, Times} = State, After) ->
    case queue:peek(Times) of
        {value, Time} when Time =< After -> recent({Count - 1, queue:drop(Times)}, After);
        _ -> State
    end.

-spec expire(code(), dyno_agent_property:time(), dyno_agent_property:instance()) ->
    dyno_agent_property:instance().
expire(Code, Time, State) ->
    case deadline(Code, State) of
        Deadline when Deadline < Time -> {false, [{1, []}]};
        _ -> State
    end.

-spec deadline(code(), dyno_agent_property:instance()) -> dyno_agent_property:time() | infinity.
deadline({at_most, _, _, _, _}, _State) ->
    infinity;
deadline({at_least, _, _, Within, _}, {_, Times}) when is_integer(Within) ->
    case queue:get(Times) of
        First when is_integer(First) -> First + Within
    end.

-spec finish(code(), dyno_agent_property:instance()) -> {true, dyno_agent_property:reasons()}.
finish(_Code, _State) -> {true, [{1, []}]}.

-spec explain(code(), dyno_agent_property:reasons()) -> {binary(), #{}}.
explain({_, _, _, _, Text}, _Reasons) -> {Text, #{}}.
