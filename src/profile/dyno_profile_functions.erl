%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_profile_functions).
-moduledoc false.
%% The functions of stacks, each with what was spent in it alone and in it with what it calls. Pure.

-export([table/1, spec/0]).

%% The smallest ones are in no row.
-define(MOST, 500).

-doc "The table of a profile's functions by its first value.".
-spec table(map()) -> map().
table(#{frames := Frames, samples := Samples, values := [#{name := Value} | _]} = Profile) ->
    All = lists:sum([V || #{values := [V | _]} <- Samples]),
    Names = list_to_tuple(Frames),
    {Own, Total} = lists:foldl(fun add/2, {#{}, #{}}, Samples),
    Rows = [
        #{
            function => element(Number + 1, Names),
            own => maps:get(Number, Own, 0) / max(1, All),
            total => Of / max(1, All)
        }
     || Number := Of <- Total
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
                fun(#{total := Total}) -> Total end}
        ]
    }.
