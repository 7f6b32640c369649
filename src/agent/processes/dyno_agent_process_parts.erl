%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_process_parts).
-moduledoc false.
%% What becomes of the processes' results in a recording: a table of the groups, and how many there
%% were of all. On the caller's side; pure.

-export([table/0, metric/0]).

-doc "The table of the groups that a node has; of several nodes, those of one kind together.".
-spec table() -> dyno_agent_instrument:table().
table() ->
    Lifetime = #{
        help =>
            <<"From a process's first call of a measured function until its end was noticed: at "
                "most so long.">>
    },
    #{
        name => ~"processes",
        title => ~"Processes",
        items => fun(#{groups := Groups}) -> busiest_first(Groups) end,
        total => fun total/1,
        columns => [
            {~"group", ~"Group", string, #{role => key}, fun(#{group := Kind}) ->
                element(1, dyno_agent_kind:print(Kind))
            end},
            {~"kind", ~"Grouped by", string, #{role => key}, fun(#{group := Kind}) ->
                element(2, dyno_agent_kind:print(Kind))
            end},
            {~"discovered", ~"Discovered", count, field(discovered)},
            {~"alive", ~"Alive", count, #{help => ~"At the end of the run."}, field(alive)},
            {~"ended", ~"Ended", count, fun(#{discovered := N, alive := Alive}) -> N - Alive end},
            {~"lifetime_p50", ~"Lifetime, p50", ns, Lifetime, lifetime(0.5)},
            {~"lifetime_p90", ~"Lifetime, p90", ns, Lifetime, lifetime(0.9)},
            {~"lifetimes", ~"Lifetimes", count,
                #{help => ~"The processes of which the end was waited for: a sample of all."}, fun(
                    #{lives := Lives}
                ) -> dyno_agent_lifetimes:count(Lives) end},
            {~"sampled", ~"Sampled", count,
                #{help => ~"Lived until a sample; of the others memory and the like is not known."},
                field(sampled)},
            {~"memory", ~"Memory", bytes, #{better => lower}, seen(memory_bytes)},
            {~"memory_max", ~"Memory, max", bytes, #{better => lower}, seen(memory_max_bytes)},
            {~"reductions", ~"Reductions", count, #{better => lower}, seen(reductions)},
            {~"message_queue_max", ~"Longest queue", count, #{better => lower},
                seen(message_queue_max)},
            {~"garbage_collections", ~"Collections", count,
                #{help => ~"Garbage collections, at least: those that the samples show."},
                seen(collections)}
        ]
    }.

-doc "How many processes of all kinds there were.".
-spec metric() -> dyno_agent_instrument:metric().
metric() ->
    #{
        name => ~"processes.discovered",
        title => ~"Processes that called a measured function",
        unit => ~"count",
        group => ~"processes",
        value => fun(Results) -> {lists:sum([N || #{discovered := N} <- Results]), 1} end
    }.

field(Key) -> fun(#{Key := Value}) -> Value end.

%% Every process has memory: a group without any lived too shortly to be sampled.
seen(Key) ->
    fun
        (#{memory_max_bytes := 0}) -> undefined;
        (#{Key := Value}) -> Value
    end.

lifetime(Q) -> fun(#{lives := Lives}) -> dyno_agent_lifetimes:quantile_ns(Q, Lives) end.

busiest_first(Groups) ->
    lists:sort(fun(#{reductions := A}, #{reductions := B}) -> A >= B end, Groups).

total(Results) ->
    case [Groups || #{groups := [_ | _] = Groups} <- Results] of
        [_, _ | _] = Several -> busiest_first(summed(lists:append(Several)));
        _ -> none
    end.

summed(Groups) ->
    maps:values(
        lists:foldl(
            fun(#{group := Kind} = Group, Acc) ->
                Add = fun(Sum) -> maps:merge_with(fun sum/3, Sum, Group) end,
                maps:update_with(Kind, Add, Group, Acc)
            end,
            #{},
            Groups
        )
    ).

sum(group, Kind, _) -> Kind;
sum(message_queue_max, A, B) -> max(A, B);
sum(lives, A, B) -> dyno_agent_lifetimes:merge(A, B);
sum(_Key, A, B) -> A + B.
