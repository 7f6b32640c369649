%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_group).
-moduledoc false.
%% What is known of the processes of one kind, together: sums and maxima, that stay as small as they
%% are however many processes come and go. Pure.

-export([new/0, count/3, looked_at/3, died/2, memory/2, lived/2, size/1, figures/3]).
-export([table/0, metric/0, warnings/2]).
-export_type([t/0, figures/0]).

-opaque t() :: #{
    discovered := non_neg_integer(),
    looked_at := non_neg_integer(),
    dead_reductions := non_neg_integer(),
    memory_bytes := non_neg_integer(),
    memory_max_bytes := non_neg_integer(),
    message_queue_max := non_neg_integer(),
    collections := non_neg_integer(),
    lives := dyno_agent_lifetimes:lives()
}.

-type figures() :: #{
    group := dyno_agent_kind:kind() | other,
    discovered := pos_integer(),
    %% At the end.
    alive := non_neg_integer(),
    %% Lived until somebody looked: of the others memory, reductions, queue and collections are not
    %% known.
    looked_at := non_neg_integer(),
    memory_bytes := non_neg_integer(),
    %% The largest sum over the group's processes at one look.
    memory_max_bytes := non_neg_integer(),
    %% Since the restart or, for a later process, since it was discovered.
    reductions := non_neg_integer(),
    message_queue_max := non_neg_integer(),
    %% Garbage collections that were seen at the looks: there were not fewer.
    collections := non_neg_integer(),
    %% Of some that have ended, from the call that revealed them.
    lives := dyno_agent_lifetimes:lives()
}.

-doc "A kind without processes.".
-spec new() -> t().
new() ->
    #{
        discovered => 0,
        looked_at => 0,
        dead_reductions => 0,
        memory_bytes => 0,
        memory_max_bytes => 0,
        message_queue_max => 0,
        collections => 0,
        lives => dyno_agent_lifetimes:none()
    }.

-doc "More of them, and so many of these alive when they were looked at.".
-spec count(integer(), integer(), t()) -> t().
count(More, LookedAt, #{discovered := N, looked_at := L} = Group) ->
    Group#{discovered := N + More, looked_at := L + LookedAt}.

-doc "A process was looked at: its queue, and its collections since the last look.".
-spec looked_at(non_neg_integer(), non_neg_integer(), t()) -> t().
looked_at(Queue, Collections, #{message_queue_max := Longest, collections := N} = Group) ->
    Group#{message_queue_max := max(Longest, Queue), collections := N + Collections}.

-doc "One has died since the last look.".
-spec died(non_neg_integer(), t()) -> t().
died(Reductions, #{dead_reductions := Sum} = Group) ->
    Group#{dead_reductions := Sum + Reductions}.

-doc "The memory of all of them at one look.".
-spec memory(non_neg_integer(), t()) -> t().
memory(Bytes, #{memory_max_bytes := Max} = Group) ->
    Group#{memory_bytes := Bytes, memory_max_bytes := max(Max, Bytes)}.

-doc "One that was watched has ended.".
-spec lived(non_neg_integer(), t()) -> t().
lived(Ns, #{lives := Lives} = Group) ->
    Group#{lives := dyno_agent_lifetimes:add(Ns, Lives)}.

-doc "How many were discovered.".
-spec size(t()) -> non_neg_integer().
size(#{discovered := N}) -> N.

-doc "What is reported; with what those that are alive have done.".
-spec figures(
    dyno_agent_kind:kind() | other, {Alive :: non_neg_integer(), Reductions :: non_neg_integer()},
    t()
) -> figures().
figures(Kind, {Alive, Reductions}, #{dead_reductions := Before} = Group) ->
    (maps:remove(dead_reductions, Group))#{
        group => Kind, alive => Alive, reductions => Before + Reductions
    }.

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
            {~"looked_at", ~"Looked at", count,
                #{help => ~"Lived until a look; of the others nothing is in memory and reductions."},
                field(looked_at)},
            {~"memory", ~"Memory", bytes, #{better => lower}, seen(memory_bytes)},
            {~"memory_max", ~"Memory, max", bytes, #{better => lower}, seen(memory_max_bytes)},
            {~"reductions", ~"Reductions", count, #{better => lower}, seen(reductions)},
            {~"message_queue_max", ~"Longest queue", count, #{better => lower},
                seen(message_queue_max)},
            {~"garbage_collections", ~"Collections", count,
                #{help => ~"Garbage collections, at least: those that were seen at the looks."},
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

-spec warnings(node(), #{truncated := boolean(), atom() => term()}) ->
    [dyno_agent_instrument:warning()].
warnings(Node, #{truncated := Truncated}) ->
    Text = "more processes in ~ts than are followed: the later ones are missing",
    [{~"processes_truncated", Text, [Node]} || Truncated].

field(Key) -> fun(#{Key := Value}) -> Value end.

%% Every process has memory: a group without any lived too shortly to be looked at.
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
                maps:update_with(Kind, fun(Sum) -> maps:merge_with(fun sum/3, Sum, Group) end, Group, Acc)
            end,
            #{},
            Groups
        )
    ).

sum(group, Kind, _) -> Kind;
sum(message_queue_max, A, B) -> max(A, B);
sum(lives, A, B) -> dyno_agent_lifetimes:merge(A, B);
sum(_Key, A, B) -> A + B.
