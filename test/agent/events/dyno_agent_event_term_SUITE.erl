%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_event_term_SUITE).
-moduledoc "Small copies of terms, and calls that find their returns: pure, against what must hold.".

-include_lib("stdlib/include/assert.hrl").
-include("../../support/dyno_proper.hrl").

-compile([export_all, nowarn_export_all]).

all() -> [small_terms_are_whole, copies_are_small, what_is_cut, returns_find_their_calls].

small_terms_are_whole(_Config) ->
    [
        ?assertEqual(Term, dyno_agent_event_term:bounded(Term, #{depth => 10, size => 100}))
     || Term <- [
            a,
            1,
            1.5,
            "text",
            ~"bytes",
            [],
            {},
            #{},
            {a, [1 | b]},
            #{k => {v, [#{}]}},
            <<1:3>>,
            -(1 bsl 70)
        ]
    ].

%% However large a term is; and a copy's copy is the same.
copies_are_small(_Config) ->
    dyno_property:holds(
        ?FORALL(
            {Term, Depth, Size},
            {proper_types:term(), proper_types:range(1, 6), proper_types:range(1, 30)},
            begin
                Limits = #{depth => Depth, size => Size},
                Copy = dyno_agent_event_term:bounded([Term, lists:duplicate(1000, Term)], Limits),
                erts_debug:flat_size(Copy) =< 60 * (Size + 10)
            end
        ),
        200
    ).

what_is_cut(_Config) ->
    Limits = #{depth => 3, size => 4},
    Cut = {'$dyno', ~"..."},
    Bounded = fun(Term) -> dyno_agent_event_term:bounded(Term, Limits) end,
    ?assertEqual([1, 2, 3 | Cut], Bounded(lists:seq(1, 100))),
    ?assertEqual("abc...", Bounded("abcdefg")),
    ?assertEqual([[[Cut]]], Bounded([[[[x]]]])),
    ?assertEqual({'$dyno', list_to_binary(pid_to_list(self()))}, Bounded(self())),
    ?assertMatch({'$dyno', <<"#Fun<", _/binary>>}, Bounded(fun() -> Limits end)),
    ?assertEqual(<<(binary:copy(~"x", 256))/binary, "...">>, Bounded(binary:copy(~"x", 1000))),
    ?assertEqual(Cut, Bounded(1 bsl 5000)),
    ?assertEqual(3, map_size(Bounded(#{N => N || N <- lists:seq(1, 50)}))).

%% Random programs: calls, returns, exceptions that leave several calls at once.
returns_find_their_calls(_Config) ->
    dyno_property:holds(
        ?FORALL(
            Steps,
            proper_types:list(
                proper_types:oneof([
                    {call, proper_types:range(1, 3), proper_types:range(1, 3)},
                    {return, proper_types:range(1, 3)},
                    {leave, proper_types:range(1, 3)}
                ])
            ),
            followed(lists:enumerate(Steps), #{}, dyno_agent_event_calls:new())
        ),
        300
    ).

%% The naive reference is a stack of each process.
followed([], Stacks, Open) ->
    dyno_agent_event_calls:size(Open) =:= lists:sum([length(S) || S <- maps:values(Stacks)]);
followed([{Id, {call, P, F}} | Steps], Stacks, Open) ->
    New = dyno_agent_event_calls:call(P, {m, F, 0}, Id, {tag, Id}, Open),
    followed(Steps, Stacks#{P => [{F, Id} | maps:get(P, Stacks, [])]}, New);
followed([{_, {return, P}} | Steps], Stacks, Open) ->
    ended(P, 1, Steps, Stacks, Open);
followed([{_, {leave, P}} | Steps], Stacks, Open) ->
    ended(P, 2, Steps, Stacks, Open).

%% Of two calls that are left at once only the outer one is seen to end.
ended(P, Depth, Steps, Stacks, Open) ->
    Stack = maps:get(P, Stacks, []),
    case length(Stack) >= Depth of
        true ->
            {F, _} = lists:nth(Depth, Stack),
            %% The innermost of that name is what the runtime means.
            {Before, [{F, Id} | Rest]} = lists:splitwith(fun({Of, _}) -> Of =/= F end, Stack),
            true = length(Before) < Depth,
            {{Id, {tag, Id}}, New} = dyno_agent_event_calls:return(P, {m, F, 0}, Open),
            followed(Steps, Stacks#{P => Rest}, New);
        false ->
            ?assertEqual(none, dyno_agent_event_calls:return(P, {m, none, 0}, Open)),
            followed(Steps, Stacks, Open)
    end.
