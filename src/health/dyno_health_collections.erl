%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_health_collections).
-moduledoc false.
%% Long collections, and those again and again: by hibernation, by calls, by a process's garbage.

-export([checks/0, hibernating/1]).

-import(dyno_health_look, [
    finding/4, warning_if/1, text/2, show/2, count/1, bytes/1, is_one_of/2, mean/2
]).
-import(dyno_health_look, [growth/2, lasting/1, span/1, name/1, place_of/1, has_long_queue/1]).
-import(dyno_health_look, [place/1, long/2, has_reports/1]).
-import(dyno_finding_limits, [value/1]).

%% Of a process that hibernates without a rest.
-define(WORKS_PER_S, 20_000).
%% Of a node that does little but hibernate.
-define(EACH_REDUCTIONS, 5000).
-define(ENOUGH_SAMPLES, 8).

-spec checks() -> [dyno_health:row()].
checks() ->
    [
        {long_gc, ~"long collections", 2, fun long_gcs/1},
        {hibernation, ~"hibernation", 3, fun hibernations/1},
        {collecting, ~"collections of one heap", 3, fun collecting/1}
    ].

long_gcs(Looks) ->
    case has_reports(Looks) of
        false ->
            {unknown, ~"before OTP 28 the runtime does not report it to dyno alone"};
        true ->
            IsTaken = dyno_health_schedulers:is_taken(Looks),
            [
                long_gc(Of, IsTaken)
             || {_, Ms, _, _} = Of <- long(~"long_gc", Looks), Ms >= value(long_gc)
            ]
    end.

long_gc({Times, Ms, Group, Processes}, IsTaken) ->
    Who =
        case Processes of
            [One] -> One;
            _ -> text("a process of ~ts", [Group])
        end,
    finding(warning_if(Ms >= 500 andalso not IsTaken), {long_gc, long_gc, 65}, {Group, Ms}, #{
        text => text("~ts stands still for up to ~ts while its heap is collected, ~ts", [
            Who, show(Ms, ~"ms"), often(Times)
        ]),
        evidence => [~"Its scheduler lacked a processor at times: else it takes less." || IsTaken],
        advice =>
            "Now: nothing. Later: keep large state in ETS, or share it among processes. Large "
            "messages count, too.",
        look_closer => ~"dyno profile NODE --kind memory"
    }).

often(1) -> ~"once";
often(N) -> text("~b times", [N]).

%% Each hibernation is a collection of the whole heap. Many processes may do a few each.
hibernations(Looks) ->
    Busy = mean([~"values", ~"vm.scheduler_utilisation.normal"], Looks),
    Reductions = mean([~"values", ~"vm.reductions"], Looks),
    case growth(fun(L) -> maps:get(~"hibernates", L, unknown) end, Looks) of
        {_, _, PerS, _} when Busy > 0.5, Reductions < ?EACH_REDUCTIONS * PerS ->
            [hibernate(PerS, Looks) || PerS > value(hibernates_per_s)];
        _ ->
            hibernating_alone(Looks)
    end.

hibernate(PerS, Looks) ->
    Groups = [{N, G} || #{~"hibernators" := Of} <- Looks, #{~"group" := G, ~"times" := N} <- Of],
    {_, Group} = lists:max([{0, ~"any function"} | Groups]),
    hibernation(hibernates_per_s, Group, PerS, #{
        text => text("processes hibernate ~ts times a second, such as of ~ts", [count(PerS), Group])
    }).

hibernation(Limit, Subject, Value, Fields) ->
    finding(warning, {hibernation, Limit, 57}, {Subject, Value}, Fields#{
        why => ~"Each time its whole heap is collected and made small, and grows again.",
        advice =>
            "Now: nothing. Later: hibernate only after some seconds without a message (the option "
            "hibernate_after of gen_server and gen_statem).",
        look_closer => ~"dyno profile NODE --kind memory"
    }).

%% A hibernating process has no stack.
hibernating_alone(Looks) ->
    Found = [
        {R / span(Looks), Asked}
     || {_, Asked, R} <- lasting(Looks),
        R / span(Looks) > ?WORKS_PER_S,
        hibernating(Asked) > 0.3
    ],
    PerS = lists:sum([R || {R, _} <- Found]),
    case {Found, mean([~"values", ~"vm.reductions"], Looks)} of
        {[{_, Asked} | _], All} when is_number(All), PerS > 0.2 * All ->
            Stacks = [S || #{~"stacks" := Of} <- Asked, #{~"stack" := [_ | _] = S} <- Of],
            [
                hibernation(none, name(Asked), PerS, #{
                    text => text("~ts hibernates again and again, without a rest", [name(Asked)]),
                    evidence => text("~b of the busiest processes do~ts.", [
                        length(Found),
                        [[", and stand in ", place(S)] || S <- lists:sublist(Stacks, 1)]
                    ])
                })
            ];
        _ ->
            []
    end.

%% A process calls for collections of a large heap. Garbage of a dirty scheduler shows in no sample.
called_collections(Looks) ->
    Of = [C || #{~"collectors" := All} <- Looks, C <- All],
    Times = lists:sum([N || #{~"times" := N} <- Of]),
    case growth(fun(L) -> maps:get(~"collects", L, unknown) end, Looks) of
        {_, _, PerS, _} when Of =/= [] ->
            Most = [{N * Bytes, C} || #{~"times" := N, ~"bytes" := Bytes} = C <- Of],
            {_, #{~"name" := Name, ~"caller" := Caller, ~"bytes" := Bytes}} = lists:max(Most),
            Share = lists:sum([N || #{~"name" := Is, ~"times" := N} <- Of, Is =:= Name]) / Times,
            [
                finding(warning, {collecting, collected_per_s, 67}, {Name, Share * PerS * Bytes}, #{
                    text => text(
                        "~ts collects its heap of ~ts about ~ts times a second: ~ts calls "
                        "erlang:garbage_collect",
                        [Name, bytes(Bytes), count(Share * PerS), Caller]
                    ),
                    advice =>
                        "Now: nothing. Later: remove that call: the runtime collects when it has "
                        "to. For much garbage at once, do the work in a process that ends.",
                    look_closer => ~"dyno trace NODE \"erlang:garbage_collect -> caller\""
                })
             || Share * PerS * Bytes > value(collected_per_s)
            ];
        _ ->
            []
    end.

%% The process collects in many samples, or calls for collections.
collecting(Looks) ->
    Called = called_collections(Looks),
    Called ++ [F || Called =:= [], F <- seen_collecting(Looks)].

seen_collecting(Looks) ->
    [
        finding(warning, {collecting, collecting, 59}, {name(Asked), Share}, #{
            text => text("~ts collects garbage in ~b % of its samples", [
                name(Asked), round(100 * Share)
            ]),
            evidence => text("Its heap has ~ts. It stands in ~ts.", [
                bytes(lists:max([0 | [B || #{~"heap_bytes" := B} <- Asked]])), place_of(Asked)
            ]),
            advice =>
                "Now: nothing. Later: if its code calls erlang:garbage_collect or has a low "
                "fullsweep_after, remove that; else make fewer large terms, or keep what lives "
                "long in ETS.",
            look_closer => text("dyno profile NODE \"~ts\" --kind memory", [Pid])
        })
     || {Pid, Asked, _} <- lasting(Looks),
        not has_long_queue(Asked),
        All <- [lists:sum([N || #{~"looks" := N} <- Asked])],
        All >= ?ENOUGH_SAMPLES,
        Collected <- [lists:sum([N || #{~"collecting" := N} <- Asked]) + calls_for(Asked)],
        Share <- [min(1.0, Collected / All)],
        Share > value(collecting)
    ].

calls_for(Asked) ->
    lists:sum([
        N
     || #{~"stacks" := Stacks} <- Asked,
        #{~"stack" := [Top | _], ~"count" := N} <- Stacks,
        is_one_of(Top, [~"erlang:garbage_collect/", ~"erts_internal:garbage_co"])
    ]).

-doc "The share of samples without a stack, or from OTP 28 on in a function of that name.".
-spec hibernating([dyno_recording:object()]) -> float().
hibernating(Asked) ->
    All = [{Stack, N} || #{~"stacks" := Of} <- Asked, #{~"stack" := Stack, ~"count" := N} <- Of],
    Hibernates = fun
        ([]) -> true;
        ([Top | _]) -> binary:match(Top, ~"hibernate") =/= nomatch
    end,
    lists:sum([N || {Stack, N} <- All, Hibernates(Stack)]) /
        max(1, lists:sum([N || #{~"looks" := N} <- Asked])).
