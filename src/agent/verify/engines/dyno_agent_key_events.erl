%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_key_events).
-moduledoc false.
%% Runs properties with keys in place of dyno_agent_property, and keeps the last events of each key
%% with an instance, so that a verdict shows only events that led to it. Events without a key are
%% kept as those of `all`.

-export([event/5, ended/2, deadline/1, timeout/3, of_report/3]).
-export_type([state/0]).

-type stamped() ::
    {TimeNs :: integer(), dyno_agent_event:event()}
    | {TimeNs :: integer(), pid(), dyno_agent_event:event()}.

%% Newest first.
-opaque state() :: {dyno_agent_property:state(), #{dyno_agent_property:key() | all => [stamped()]}}.

-define(KEPT, 10).
%% The most kept keys whose instance ended at a deadline.
-define(SPARE, 20).

-spec event(module(), dyno_agent_event:event(), integer(), pid() | none, State) -> Outcome when
    State :: dyno_agent_property:state() | state(), Outcome :: term().
event(Module, Event, Time, Pid, {State, #{} = Events}) ->
    Stamped =
        case Pid of
            none -> {Time, Event};
            _ -> {Time, Pid, Event}
        end,
    Keys = keys(Module, Event),
    Noted = lists:foldl(
        fun(Key, Before) ->
            Before#{Key => lists:sublist([Stamped | maps:get(Key, Before, [])], ?KEPT)}
        end,
        Events,
        Keys
    ),
    Outcome = dyno_agent_property:event(Module, Event, Time, State),
    told(Module, Outcome, Noted, Keys);
event(Module, Event, Time, Pid, New) ->
    event(Module, Event, Time, Pid, {New, #{}}).

keys(Module, Event) ->
    [
        case Named of
            {key, Key} -> Key;
            all -> all
        end
     || Named <- Module:named(Event)
    ].

told(_Module, {next, State}, Events, Keys) ->
    {next, {State, kept(Keys, State, Events)}};
told(Module, {report, Verdict, Explanation, State}, Events, Keys) ->
    {report, Verdict, explained(Module, Explanation, Events), {State, kept(Keys, State, Events)}};
told(Module, {Verdict, Explanation, State}, Events, Keys) ->
    {Verdict, explained(Module, Explanation, Events), {State, kept(Keys, State, Events)}}.

kept(Keys, State, Events) ->
    Open = dyno_agent_property:instances(State),
    Left = maps:without([Key || Key <- Keys, Key =/= all, not is_map_key(Key, Open)], Events),
    case map_size(Left) > 2 * map_size(Open) + ?SPARE of
        true -> maps:with([all | maps:keys(Open)], Left);
        false -> Left
    end.

explained(Module, #{bindings := Bindings} = Explanation, Events) ->
    #{keys := Names} = Module:program(),
    Key = [maps:get(Name, Bindings, none) || Name <- Names],
    Own = maps:get(Key, Events, []) ++ maps:get(all, Events, []),
    Explanation#{key_events => {Key, Own}};
explained(_Module, Explanation, _Events) ->
    Explanation.

-spec ended(module(), dyno_agent_property:state() | state()) ->
    {dyno_agent_monitor:verdict(), dyno_agent_monitor:explanation()} | none.
ended(Module, {State, #{} = Events}) ->
    case dyno_agent_property:ended(Module, State) of
        {Verdict, Explanation} -> {Verdict, explained(Module, Explanation, Events)};
        none -> none
    end;
ended(Module, New) ->
    dyno_agent_property:ended(Module, New).

-spec deadline(dyno_agent_property:state() | state()) -> integer() | infinity.
deadline({State, #{}}) -> dyno_agent_property:deadline(State);
deadline(New) -> dyno_agent_property:deadline(New).

-spec timeout(module(), integer(), dyno_agent_property:state() | state()) -> term().
timeout(Module, Time, {State, #{} = Events}) ->
    told(Module, dyno_agent_property:timeout(Module, Time, State), Events, []);
timeout(Module, Time, New) ->
    dyno_agent_property:timeout(Module, Time, New).

-doc "The key's kept events and those among the last ones, perhaps older than it; newest first.".
-spec of_report(module(), dyno_agent_monitor:explanation(), [stamped()]) ->
    {dyno_agent_monitor:explanation(), [stamped()]}.
of_report(Module, #{key_events := {Key, Own}} = Explanation, Last) ->
    Recent = [Stamped || Stamped <- Last, is_of(Key, Module, Stamped)],
    Of = lists:reverse(lists:usort(Own ++ Recent)),
    {maps:remove(key_events, Explanation), lists:sublist(Of, length(Last))};
of_report(_Module, Explanation, Last) ->
    {Explanation, Last}.

%% The end of the process concerns all keys.
is_of(Key, Module, Stamped) ->
    Event = element(tuple_size(Stamped), Stamped),
    element(1, Event) =:= exit orelse
        lists:any(fun(Of) -> Of =:= Key orelse Of =:= all end, keys(Module, Event)).
