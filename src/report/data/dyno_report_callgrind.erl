%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_report_callgrind).
-moduledoc """
Stacks for KCachegrind and callgrind_annotate: each function's own cost and that of its calls, whose
number is not known: each line of calls has the count 1.
""".

-behaviour(dyno_report).

-export([format/2]).

-spec format(dyno_report:document(), dyno_report:options()) -> dyno_error:result(iodata()).
format(Document, _Options) ->
    maybe
        {ok, Profiles} ?= dyno_report_stacks:profiles(Document),
        {ok, dyno_report_text:encode(file(Profiles))}
    end.

file(Profiles) ->
    Events = lists:uniq([Name || #{values := Values} <- Profiles, {Name, _} <- Values]),
    {Own, Calls} = lists:foldl(
        fun(Profile, Acc) -> add_all(Profile, Events, Acc) end, {#{}, #{}}, Profiles
    ),
    ByCaller = maps:groups_from_list(
        fun({{Caller, _}, _}) -> Caller end,
        fun({{_, Callee}, Costs}) -> {Callee, Costs} end,
        maps:to_list(Calls)
    ),
    None = [0 || _ <- Events],
    [
        "# callgrind format\nversion: 1\ncreator: dyno\n",
        ["events: ", lists:join(" ", [word(Name) || Name <- Events]), "\n"],
        [
            function(Function, maps:get(Function, Own, None), maps:get(Function, ByCaller, []))
         || Function <- lists:usort(maps:keys(Own) ++ maps:keys(ByCaller))
        ]
    ].

function(Function, Costs, Calls) ->
    [
        ["\n", named("fl=", "fn=", Function), "0 ", line(Costs), "\n"],
        [
            [named("cfi=", "cfn=", Callee), "calls=1 0\n0 ", line(Of), "\n"]
         || {Callee, Of} <- Calls
        ]
    ].

%% Readers show the file before the function, so the module takes the file's place.
named(File, Function, Name) ->
    {Module, Called} = split(Name),
    [File, Module, "\n", Function, Called, "\n"].

split(Name) ->
    Erlang = "^('[^']*'|[a-z][\\w@]*):(.+)$",
    Elixir = "^((?:[A-Z]\\w*\\.)*[A-Z]\\w*)\\.(.+)$",
    Found = [
        Parts
     || Pattern <- [Erlang, Elixir],
        {match, Parts} <- [
            re:run(Name, Pattern, [unicode, {capture, all_but_first, binary}])
        ]
    ],
    case Found of
        [[Module, Called] | _] -> {Module, Called};
        %% Not a function, like a garbage collection.
        [] -> {~"???", Name}
    end.

line(Costs) -> lists:join(" ", [integer_to_list(Cost) || Cost <- Costs]).

add_all(#{values := Of, samples := Samples}, Events, Sums) ->
    lists:foldl(
        fun({_, Stack, Values}, {Own, Calls}) ->
            ByName = #{Name => Value || {{Name, _}, Value} <- lists:zip(Of, Values)},
            Costs = [round(maps:get(Event, ByName, 0)) || Event <- Events],
            Pairs = lists:uniq(lists:zip(lists:droplast(Stack), tl(Stack))),
            {
                plus(lists:last(Stack), Costs, Own),
                lists:foldl(fun(Pair, Acc) -> plus(Pair, Costs, Acc) end, Calls, Pairs)
            }
        end,
        Sums,
        Samples
    ).

plus(Key, Costs, Sums) ->
    Add = fun(Before) -> lists:zipwith(fun erlang:'+'/2, Before, Costs) end,
    maps:update_with(Key, Add, Costs, Sums).

word(Name) -> binary:replace(Name, ~" ", ~"_", [global]).
