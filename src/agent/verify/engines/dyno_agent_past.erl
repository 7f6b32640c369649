%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_past).
-moduledoc false.
%% Runs a formula of past-time temporal logic, which must hold at every event. The state is one
%% value for each subformula, from the event and the previous values. Values from before monitoring
%% may be `unknown`: a false formula breaks, an unknown one is a doubt.

-behaviour(dyno_agent_property).

-export([start/2, unknown/3, doubts/3, step/4, expire/3, deadline/2, finish/2, explain/2]).
-export_type([code/0]).

-type index() :: pos_integer().

-doc "Subformulas come before their parents; the last is the whole.".
-type code() :: {Text :: binary(), [subformula()]}.

-type subformula() ::
    boolean()
    | {event, Match :: index()}
    | {'not' | previously | historically, index()}
    | {'and' | 'or' | implies | since, index(), index()}
    | {once, index(), Within :: integer() | infinity}.

-spec start(code(), dyno_agent_property:time()) -> dyno_agent_property:instance().
start(_Code, _Time) ->
    first.

-spec unknown(code(), [], dyno_agent_property:time()) -> [dyno_agent_property:instance(), ...].
unknown(_Code, _Reachable, Time) -> [{unknown, Time}].

-spec doubts(code(), dyno_agent_property:key(), dyno_agent_property:instance()) -> false.
doubts(_Code, _Key, _World) -> false.

-spec step(code(), dyno_agent_property:match(), dyno_agent_property:time(), State) ->
    State | {doubt, State}
when
    State :: dyno_agent_property:instance().
step({_Text, Subformulas}, Match, Time, Before) ->
    Now = lists:foldl(
        fun(Subformula, Values) ->
            [value(Subformula, Values, before(Before, length(Values)), Match, Time) | Values]
        end,
        [],
        Subformulas
    ),
    case truth(hd(Now)) of
        false -> {false, [{1, []}]};
        unknown -> {doubt, {held, lists:reverse(Now)}};
        true -> {held, lists:reverse(Now)}
    end.

before(first, _Place) -> first;
before({unknown, Time}, _Place) -> {{unknown, Time}, unknown};
before({held, Values}, Place) -> {lists:nth(Place + 1, Values), Values}.

%% Current values are in reverse order.
value(Truth, _, _, _, _) when is_boolean(Truth) -> Truth;
value({event, Pattern}, _, _, Match, _) ->
    Match(Pattern, []) =/= nomatch;
value({'not', A}, Now, _, _, _) ->
    is_not(at(A, Now));
value({'and', A, B}, Now, _, _, _) ->
    both(at(A, Now), at(B, Now));
value({'or', A, B}, Now, _, _, _) ->
    either(at(A, Now), at(B, Now));
value({implies, A, B}, Now, _, _, _) ->
    either(is_not(at(A, Now)), at(B, Now));
value({previously, _}, _, first, _, _) ->
    false;
value({previously, _}, _, {_, unknown}, _, _) ->
    unknown;
value({previously, A}, _, {_, Before}, _, _) ->
    truth(lists:nth(A, Before));
value({historically, A}, Now, first, _, _) ->
    at(A, Now);
value({historically, A}, Now, {Was, _}, _, _) ->
    both(truth(Was), at(A, Now));
value({since, _, B}, Now, first, _, _) ->
    at(B, Now);
value({since, A, B}, Now, {Was, _}, _, _) ->
    either(at(B, Now), both(truth(Was), at(A, Now)));
value({once, A, infinity}, Now, first, _, _) ->
    at(A, Now);
value({once, A, infinity}, Now, {Was, _}, _, _) ->
    either(truth(Was), at(A, Now));
value({once, A, Within}, Now, Before, _, Time) ->
    case at(A, Now) of
        true -> {true, Time};
        %% Unknown until now, so this may be the last time.
        unknown -> {unknown, Time};
        false -> since(Before, Within, Time)
    end.

since({{Unknown, Since}, _}, Within, Time) when Unknown =:= unknown, Time - Since =< Within ->
    {unknown, Since};
since({{unknown, _}, _}, _Within, _Time) ->
    {false, never};
since({{_, Last}, _}, Within, Time) when is_integer(Last) -> {Time - Last =< Within, Last};
since(_Before, _Within, _Time) ->
    {false, never}.

is_not(unknown) -> unknown;
is_not(Truth) -> not Truth.

both(false, _) -> false;
both(_, false) -> false;
both(true, true) -> true;
both(_, _) -> unknown.

either(A, B) -> is_not(both(is_not(A), is_not(B))).

at(Place, Now) -> truth(lists:nth(length(Now) - Place + 1, Now)).

truth({Truth, _Last}) -> Truth;
truth(Truth) -> Truth.

-spec expire(code(), dyno_agent_property:time(), dyno_agent_property:instance()) ->
    dyno_agent_property:instance().
expire(_Code, _Time, State) -> State.

-spec deadline(code(), dyno_agent_property:instance()) -> infinity.
deadline(_Code, _State) -> infinity.

-spec finish(code(), dyno_agent_property:instance()) -> {true, dyno_agent_property:reasons()}.
finish(_Code, _State) -> {true, [{1, []}]}.

-spec explain(code(), dyno_agent_property:reasons()) -> {binary(), #{}}.
explain({Text, _}, _Reasons) -> {Text, #{}}.
