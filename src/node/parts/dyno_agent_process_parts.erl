%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_process_parts).
-moduledoc false.
%% Groups of processes in a recording. Pure, for the caller's side only.

-export([tables/0, metrics/0, warnings/2, quantile_ns/3]).

%% If the processes started are more than this multiple of those found, some may be missing.
-define(MANY_MORE, 2).

-spec tables() -> [dyno_agent_instrument:table()].
tables() ->
    Counted =
        <<
            "estimated: so many start that most send no message; counted are the calls that they "
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
    Collections = ~"Garbage collections, at least: those that the samples show.",
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
                {~"message_queue_max", ~"Longest queue", count, lower, seen(message_queue_max)},
                {~"garbage_collections", ~"Collections", count, Collections, seen(collections)}
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

-spec warnings(Role :: binary(), dyno_agent_processes:results()) ->
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
                "processes that call only functions that are called too often are missing",
                [{Discovered, ~"count"}, {Started, ~"count"}, Role],
                ~"If they matter, measure with --level time, which has them."
            }
         || Discovers =:= in_part,
            #{started := Started} <- [Results],
            Started > ?MANY_MORE * Discovered
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

-doc """
The quantile of lifetimes, with this number of processes still alive: unknown if a live process may
be the quantile.
""".
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
