%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_profile_functions).
-moduledoc false.
%% The functions of stacks, each with what was spent in it alone and in it with what it calls. Pure.

-export([tables/1, table/1, spec/0]).

%% The smallest ones are in no row.
-define(MOST, 500).

-doc "Of the first profile of each node the table of its functions.".
-spec tables([map()]) -> [map()].
tables([]) ->
    [];
tables([#{name := First} | _] = Profiles) ->
    [
        table(Profile, [
            R
         || #{name := ~"reductions", node := N} = R <- Profiles, N =:= maps:get(node, Profile, none)
        ])
     || #{name := Name} = Profile <- Profiles, Name =:= First
    ].

-doc "The table of a profile's functions by its first value.".
-spec table(map()) -> map().
table(Profile) -> table(Profile, []).

table(#{values := [#{name := Value} | _]} = Profile, Others) ->
    {Own, Total} = shares(Profile),
    Reductions = [element(1, shares(Other)) || Other <- Others],
    Rows = [
        #{
            function => Name,
            own => maps:get(Name, Own, 0.0),
            total => Share,
            reductions => [maps:get(Name, Of, 0.0) || Of <- Reductions]
        }
     || Name := Share <- Total
    ],
    Sorted = lists:sort(fun(A, B) -> weight(A) >= weight(B) end, Rows),
    dyno_recording_table:make(
        (spec())#{title => title(Profile, Value)},
        lists:sublist(Sorted, ?MOST),
        maps:with([node], Profile)
    ).

title(#{title := Title}, _Value) -> <<Title/binary, ": functions">>;
title(_Profile, Value) -> <<"Functions by ", Value/binary>>.

weight(#{own := Own, total := Total}) -> {Own, Total}.

shares(#{frames := Frames, samples := Samples}) ->
    All = max(1, lists:sum([V || #{values := [V | _]} <- Samples])),
    Names = list_to_tuple(Frames),
    {Own, Total} = lists:foldl(fun add/2, {#{}, #{}}, Samples),
    Shares = fun(Sums) -> #{element(N + 1, Names) => Of / All || N := Of <- Sums} end,
    {Shares(Own), Shares(Total)}.

%% A function that is in a stack twice counts once.
add(#{stack := Stack, values := [Value | _]}, {Own, Total}) ->
    {
        sum(lists:last(Stack), Value, Own),
        lists:foldl(fun(Frame, Acc) -> sum(Frame, Value, Acc) end, Total, lists:uniq(Stack))
    }.

sum(Key, Value, Sums) -> Sums#{Key => maps:get(Key, Sums, 0) + Value}.

-doc "The table's columns.".
-spec spec() -> map().
spec() ->
    #{
        name => ~"profile",
        title => ~"Functions",
        sort => {~"own", descending},
        columns => [
            {~"function", ~"Function", string, #{role => key}, fun(#{function := F}) -> F end},
            {~"own", ~"Own", ratio,
                #{role => value, better => lower, help => ~"The share that was spent in it alone."},
                fun(#{own := Own}) -> Own end},
            {~"total", ~"With callees", ratio,
                #{better => lower, help => ~"The share that was spent in it and what it calls."},
                fun(#{total := Total}) -> Total end},
            {~"reductions", ~"Of the reductions", ratio,
                #{
                    optional => true,
                    better => lower,
                    help =>
                        ~"Its own share of all reductions, estimated from stacks (doc/profile.md)."
                },
                fun
                    (#{reductions := [Share]}) -> Share;
                    (#{reductions := []}) -> undefined
                end}
        ]
    }.
