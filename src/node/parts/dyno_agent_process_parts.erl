%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_process_parts).
-moduledoc false.
%% Groups of processes in a recording. Pure, for the caller's side only.

-export([config/1, result/1, tables/0, metrics/0, warnings/2, quantile_ns/3]).

-type results() :: #{
    groups := [group()],
    discovered := non_neg_integer(),
    discovers := yes | in_part | gave_up,
    started := non_neg_integer(),
    read := to_the_end | in_part
}.

-type group() :: #{
    group := dyno_agent_processes:group(),
    discovered := pos_integer(),
    %% Estimated: these sent no message.
    unseen := non_neg_integer(),
    %% At the end; if not all were followed, estimated from the followed ones.
    alive := non_neg_integer() | unknown,
    %% Processes that lived until sampled: memory, reductions and queue are of these only.
    sampled := non_neg_integer(),
    memory_bytes := non_neg_integer(),
    %% The largest sum over the group's processes in one scan.
    memory_max_bytes := non_neg_integer(),
    %% Since the restart, or since a later discovery.
    reductions := non_neg_integer(),
    message_queue_max := non_neg_integer(),
    %% Of some ended processes, from discovery; and the number of these still alive.
    lives := dyno_agent_event_histogram:t(),
    live_on := non_neg_integer()
}.

%% A share of fewer is unreliable.
-define(LEAST_FOLLOWED, 10).
%% If the processes started are more than this multiple of those found, some may be missing.
-define(MANY_MORE, 2).
%% Each question of another node starts one, too.
-define(BY_DYNO, 1000).

-spec config(dyno_agent_instrument:options()) -> dyno_agent_processes:config() | off.
config(#{patterns := []}) ->
    off;
config(#{level := Level}) when Level =:= off; Level =:= count -> off;
config(#{level := budget, without := Without} = Options) ->
    %% Without functions, no instrument reports functions called too often for discovery.
    case lists:member(functions, Without) of
        true -> off;
        false -> maps:with([patterns, interval_ms], Options)
    end;
config(Options) ->
    maps:with([patterns, interval_ms], Options).

-doc """
The results by group; an estimate is at most what there can have been. Of live processes the table
has number and reductions; those followed from their beginning give the share of the unseen.
""".
-spec result(dyno_agent_processes:reading()) -> results().
result(#{groups := Groups, alive := Alive, followed := Followed, there := There} = Read) ->
    Most = There + map_get(started, Read),
    (maps:without([alive, followed, there], Read))#{
        discovered := min(Most, map_get(discovered, Read)),
        groups := [
            (maps:remove(ended_reductions, Group))#{
                alive => alive(N, LiveOn, Group),
                live_on => LiveOn,
                reductions => Before + Reductions
            }
         || Id := #{discovered := All, ended_reductions := Before} = Group <- at_most(Most, Groups),
            All > 0,
            {N, Reductions} <- [maps:get(Id, Alive, {0, 0})],
            LiveOn <- [maps:get(Id, Followed, 0)]
        ]
    }.

alive(N, _LiveOn, #{unseen := 0}) ->
    N;
alive(N, LiveOn, #{unseen := Unseen, lives := Lives}) ->
    case LiveOn + dyno_agent_event_histogram:count(Lives) of
        Few when Few < ?LEAST_FOLLOWED -> unknown;
        Followed -> N + round(Unseen * LiveOn / Followed)
    end.

at_most(Most, Groups) ->
    Sum = fun(What) -> lists:sum([maps:get(What, Group) || _ := Group <- Groups]) end,
    case {Sum(discovered), Sum(unseen)} of
        {Discovered, Unseen} when Discovered > Most, Unseen > 0 ->
            Part = max(0, Most - (Discovered - Unseen)) / Unseen,
            Fewer = fun(_Id, #{discovered := N, unseen := U} = Group) ->
                Group#{discovered := N - U + round(Part * U), unseen := round(Part * U)}
            end,
            maps:map(Fewer, Groups);
        _ ->
            Groups
    end.

-spec tables() -> [dyno_agent_instrument:table()].
tables() ->
    Counted =
        <<
            "estimated: most end before they send a message; counted are the calls that they "
            "begin with."
        >>,
    Alive =
        <<
            "At the end of the run; estimated from those that were followed, if not all were."
        >>,
    Lifetime =
        <<
            "From a process's first call of a measured function until its end was noticed: at most "
            "so long."
        >>,
    Lifetimes = ~"Processes that were monitored until they ended: a sample of all.",
    Sampled = ~"Alive at a sample; memory and the like are of these only.",
    [
        #{
            name => ~"processes",
            title => ~"Processes",
            items => fun(#{groups := Groups}) -> busiest_first(Groups) end,
            total => fun total/1,
            columns => [
                {~"group", ~"Group", string, key, printed(1)},
                {~"kind", ~"Grouped by", string, key, printed(2)},
                {~"discovered", ~"Discovered", count, discovered},
                {~"counted", ~"Counted", string, [note, optional, Counted], fun
                    (#{unseen := Unseen}) when Unseen > 0 -> estimated;
                    (_) -> undefined
                end},
                {~"alive", ~"Alive", count, Alive, alive},
                {~"ended", ~"Ended", count, fun
                    (#{alive := unknown}) -> undefined;
                    (#{discovered := All, alive := Left}) -> max(0, All - Left)
                end},
                {~"lifetime_p50", ~"Lifetime, p50", ns, Lifetime, lifetime(0.5)},
                {~"lifetime_p90", ~"Lifetime, p90", ns, Lifetime, lifetime(0.9)},
                {~"lifetimes", ~"Lifetimes", count, Lifetimes, fun(#{lives := Lives}) ->
                    dyno_agent_event_histogram:count(Lives)
                end},
                {~"sampled", ~"Sampled", count, Sampled, sampled},
                {~"memory", ~"Memory", bytes, lower, seen(memory_bytes)},
                {~"memory_max", ~"Memory, max", bytes, lower, seen(memory_max_bytes)},
                {~"reductions", ~"Reductions", count, lower, seen(reductions)},
                {~"message_queue_max", ~"Longest queue", count, lower, seen(message_queue_max)}
            ]
        }
    ].

printed(Position) ->
    fun(#{group := Kind}) -> element(Position, dyno_agent_kind:print(Kind)) end.

-spec metrics() -> [dyno_agent_instrument:metric()].
metrics() ->
    [
        #{
            name => ~"processes.discovered",
            title => ~"Processes that called a measured function",
            unit => ~"count",
            group => ~"processes",
            value => fun discovered/1
        }
    ].

%% As the rows of the table: some are estimated, or missing.
discovered(Results) ->
    All = lists:sum([N || #{discovered := N} <- Results]),
    Unseen = lists:sum([N || #{groups := Groups} <- Results, #{unseen := N} <- Groups]),
    case Unseen =:= 0 andalso [x || #{discovers := How} <- Results, How =/= yes] of
        [] -> {All, 1};
        _ -> {All, 1, {at_least, All - Unseen}}
    end.

-spec warnings(Role :: binary(), results()) ->
    [dyno_agent_instrument:warning()].
warnings(Role, #{discovers := Discovers, discovered := Discovered} = Results) ->
    [
        {
            ~"processes_not_read",
            "the processes in ~ts did not answer in time at the end: their figures are older, so "
            "they are lower bounds",
            [Role]
        }
     || #{read := in_part} <- [Results]
    ] ++
        [
            {
                ~"processes_given_up",
                "after ~ts processes no more were discovered in ~ts: too many started, and their "
                "calls are not known",
                [{Discovered, ~"count"}, Role],
                ~"Measure them at --level time."
            }
         || Discovers =:= gave_up
        ] ++
        [
            {
                ~"processes_at_least",
                "the table has ~ts of up to ~ts processes that were started in ~ts, some by dyno: "
                "processes that call only functions that are called too often, or whose "
                "breakpoints took too long, are missing",
                [{Discovered, ~"count"}, {Started, ~"count"}, Role],
                ~"If they matter, measure with --level time, which has them."
            }
         || Discovers =:= in_part,
            #{started := Started} <- [Results],
            Started > ?MANY_MORE * Discovered + ?BY_DYNO
        ].

%% Every process has memory: a group without any was too short-lived to be sampled.
seen(Key) ->
    fun
        (#{memory_max_bytes := 0}) -> undefined;
        (#{Key := Value}) -> Value
    end.

lifetime(Q) ->
    fun(#{lives := Lives} = Group) ->
        quantile_ns(Q, Lives, maps:get(live_on, Group, 0))
    end.

-doc "The quantile of lifetimes, unknown if one of the live processes may be the quantile.".
-spec quantile_ns(float(), dyno_agent_event_histogram:t(), Alive :: non_neg_integer()) ->
    non_neg_integer() | undefined.
quantile_ns(Q, Lives, Alive) ->
    Ended = dyno_agent_event_histogram:count(Lives),
    case max(1, ceil(Q * (Ended + Alive))) of
        Rank when Rank > Ended -> undefined;
        Rank ->
            Read = dyno_agent_event_histogram:read(Lives),
            round(dyno_agent_event_histogram:quantile(Rank / Ended, Read))
    end.

busiest_first(Groups) ->
    lists:sort(fun(#{reductions := A}, #{reductions := B}) -> A >= B end, Groups).

total(Results) ->
    case [Groups || #{groups := [_ | _] = Groups} <- Results] of
        [_, _ | _] = Several -> busiest_first(summed(lists:append(Several)));
        _ -> none
    end.

summed(Groups) ->
    ByKind = maps:groups_from_list(fun(#{group := Kind}) -> Kind end, Groups),
    Add = fun(Group, Sum) -> maps:merge_with(fun sum/3, Sum, Group) end,
    [lists:foldl(Add, First, Others) || _ := [First | Others] <- ByKind].

sum(group, Kind, _) -> Kind;
sum(message_queue_max, A, B) -> max(A, B);
sum(_Key, A, B) when A =:= unknown; B =:= unknown -> unknown;
sum(lives, A, B) -> dyno_agent_event_histogram:merge(A, B);
sum(_Key, A, B) -> A + B.
