%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_path_parts).
-moduledoc false.
%% Records a tree of calls: profiles, functions, callers, warnings. Pure; on the caller's side.

-export([profiles/0, tables/0, metrics/0, warnings/2]).

-type result() :: dyno_agent_path_profile:result().

%% The smallest other paths are merged.
-define(MOST_PATHS, 4000).
-define(MOST_CALLERS, 1000).
%% A function's time is reliable if tracing took less than this share.
-define(MUCH, 0.2).
%% In costs of tracing a call.
-define(SHORT, 0.35).
%% The share of time at which functions are worth a warning.
-define(WORTH, 0.05).

-spec profiles() -> [dyno_agent_instrument:profile()].
profiles() ->
    [
        #{
            name => ~"call_paths",
            title => ~"Time by calls",
            values => [#{name => ~"time", unit => ~"ns"}, #{name => ~"calls", unit => ~"count"}],
            stacks => fun(Result) -> stacks(fun(#{left := L, calls := C}) -> [L, C] end, Result) end
        },
        #{
            name => ~"off_paths",
            title => ~"Off the schedulers, waiting or ready",
            values => [#{name => ~"off", unit => ~"ns"}],
            stacks => fun(Result) -> stacks(fun(#{off := Off}) -> [Off] end, Result) end
        }
    ].

stacks(Values, Result) ->
    Paths = [
        {Of, printed(Path), #{processes => element(1, dyno_agent_kind:print(Group))}}
     || {Group, [_ | _] = Path, Sums} <- paths(Result),
        [Value | _] = Of <- [Values(Sums)],
        Value > 0 orelse lists:sum(Of) > 0
    ],
    Sorted = lists:reverse(lists:keysort(1, Paths)),
    {Most, Rest} = lists:split(min(?MOST_PATHS, length(Sorted)), Sorted),
    [{Stack, Of, Labels} || {Of, Stack, Labels} <- Most] ++
        case [Of || {Of, _, _} <- Rest] of
            [] -> [];
            [First | More] -> [{[~"(other paths)"], lists:foldl(fun plus/2, First, More), #{}}]
        end.

plus(Values, Sums) -> lists:zipwith(fun erlang:'+'/2, Values, Sums).

%% The own time without tracing; much too short calls count nothing, as the rest is noise.
paths(#{nodes := Nodes} = Result) ->
    Short = much_too_short(Result),
    [
        {Group, Path, Sums#{left => left(Path, Sums, Short)}}
     || {Group, Path, Sums} <- dyno_agent_path_tree:paths(Nodes)
    ].

left(Path, #{own := Own, taken := Taken}, Short) ->
    case Path =/= [] andalso is_map_key(lists:last(Path), Short) of
        true -> 0;
        false -> max(0, Own - Taken)
    end.

%% Not functions that were just too short, and removed late.
much_too_short(#{hidden := []}) ->
    #{};
much_too_short(#{hidden := Hidden, nodes := Nodes, call_ns := {CallNs, _}}) ->
    Sums = lists:foldl(
        fun({_, _, Name, #{calls := Calls, own := Own, taken := Taken}}, Acc) ->
            case Acc of
                #{Name := {N, Left}} -> Acc#{Name := {N + Calls, Left + Own - Taken}};
                #{} -> Acc
            end
        end,
        #{MFA => {0, 0} || {MFA, _} <- Hidden},
        Nodes
    ),
    #{MFA => true || MFA := {Calls, Left} <- Sums, Left < ?SHORT * CallNs * Calls}.

printed(Path) -> [dyno_agent_name:mfa(MFA) || MFA <- Path].

-spec tables() -> [dyno_agent_instrument:table()].
tables() ->
    Own = ~"On a scheduler, without the time that tracing took.",
    Off = ~"Waiting for messages, or ready to run, with callees.",
    Bias = ~"Taken out. If it is much, trust samples more.",
    Until = ~"From then on its time is its callers'.",
    [
        #{
            name => ~"call_times",
            title => ~"Calls: functions",
            sort => {~"own_time", descending},
            items => fun functions/1,
            columns => [
                name(~"function", ~"Function", fun({MFA, _}) -> MFA end),
                {~"calls", ~"Calls", count, [2, calls]},
                {~"own_time", ~"Own time", ns, [lower, Own], [2, left]},
                {~"total_time", ~"With callees", ns, lower, [2, total]},
                {~"off_time", ~"Off the schedulers", ns, [lower, Off], [2, total_off]},
                {~"bias", ~"Of its time tracing took", ratio, [note, Bias], fun({_, Sums}) ->
                    bias(Sums)
                end}
            ]
        },
        #{
            name => ~"callers",
            title => ~"Callers and callees",
            sort => {~"total_time", descending},
            items => fun callers/1,
            columns => [
                name(~"caller", ~"Caller", fun({{Caller, _}, _}) -> Caller end),
                name(~"function", ~"Calls", fun({{_, MFA}, _}) -> MFA end),
                {~"calls", ~"How often", count, [2, calls]},
                {~"total_time", ~"Time with callees", ns, lower, [2, total]}
            ]
        },
        #{
            name => ~"short_calls",
            title => ~"Not followed: calls too short to be timed",
            sort => {~"calls", descending},
            items => fun hidden/1,
            columns => [
                name(~"function", ~"Function", fun({MFA, _}) -> MFA end),
                {~"calls", ~"Calls until then", count, [note, Until], 2}
            ]
        }
    ].

name(Column, Title, MFA) ->
    {Column, Title, string, key, fun(Item) -> dyno_agent_name:mfa(MFA(Item)) end}.

hidden(#{hidden := []}) -> none;
hidden(#{hidden := Hidden}) -> Hidden.

functions(Result) ->
    sums([{Path, Sums} || {_, [_ | _] = Path, Sums} <- paths(Result)]).

callers(Result) ->
    Edges = sums([
        {lists:zip(lists:droplast(Path), tl(Path)), Sums}
     || {_, [_, _ | _] = Path, Sums} <- paths(Result)
    ]),
    lists:sublist(
        lists:sort(fun({_, #{total := A}}, {_, #{total := B}}) -> A >= B end, Edges), ?MOST_CALLERS
    ).

%% A path's values are its last key's own, and each key on it gets the total once.
sums(Paths) -> maps:to_list(lists:foldl(fun add_path/2, #{}, Paths)).

add_path({Keys, #{left := Left, off := Off} = Sums}, Acc) ->
    lists:foldl(
        fun(Key, Of) -> add(Key, #{total => Left, total_off => Off}, Of) end,
        add(lists:last(Keys), Sums, Acc),
        lists:uniq(Keys)
    ).

add(Key, Sums, Acc) ->
    None = #{calls => 0, own => 0, taken => 0, off => 0, left => 0, total => 0, total_off => 0},
    Before = maps:get(Key, Acc, None),
    Acc#{Key => maps:merge_with(fun(_, A, B) -> A + B end, Before, Sums)}.

bias(#{own := Own, left := Left}) when Own > 0 -> max(0, Own - Left) / Own;
bias(_Sums) -> undefined.

-spec metrics() -> [dyno_agent_instrument:metric()].
metrics() ->
    [
        #{
            name => ~"instrument.traced_call",
            title => ~"Time for tracing a call and its return, of calls right after one another",
            unit => ~"ns",
            group => ~"instrument",
            value => fun(Results) ->
                {
                    lists:max([Near || #{call_ns := {Near, _}} <- Results]),
                    lists:sum([Events || #{events := Events} <- Results])
                }
            end
        }
    ].

-define(FEWER, <<
    "Choose fewer processes, or name modules that are called most often with --without."
>>).

-spec warnings(Role :: binary(), result()) -> [dyno_agent_instrument:warning()].
warnings(Role, #{reason := Reason, full := Full, extents := Extents} = Result) ->
    ended(Role, Reason) ++
        [
            {~"no_extent", "~ts has not entered and left the function of --inside", [Role]}
         || Extents =:= 0, Reason =:= stopped
        ] ++
        silence(Role, Result) ++
        [
            {
                ~"many_paths",
                "~ts made ~ts calls on more different paths than are kept: these are counted in "
                "their callers",
                [Role, {Full, ~"count"}]
            }
         || Full > 0
        ] ++ hidden_warning(Result) ++ biased(functions(Result)).

ended(_Role, Expected) when Expected =:= stopped; Expected =:= running ->
    [];
ended(_Role, {extents, _}) ->
    [];
ended(Role, no_process) ->
    [{~"no_process", "no process of ~ts is of the kind that was asked for", [Role]}];
ended(Role, {queue, Most}) ->
    [
        {
            ~"limit",
            "~ts made calls faster than they can be counted, so tracing ended before its time when "
            "~ts messages waited",
            [Role, {Most, ~"count"}],
            ?FEWER
        }
    ];
ended(Role, {bytes, Most}) ->
    [
        {~"limit", "tracing in ~ts ended before its time: it would have taken more than ~ts", [
            Role, {Most, ~"B"}
        ]}
    ];
ended(Role, Reason) ->
    [{~"limit", "tracing in ~ts ended before its time: ~0tP", [Role, Reason, 10]}].

silence(Role, #{silent_ns := SilentNs, duration_ns := DurationNs}) ->
    [
        {
            ~"silence",
            "for ~ts of the time the calls of ~ts came faster than they can be counted: they are "
            "those of the rest of the time",
            [{SilentNs / DurationNs, ~"ratio"}, Role],
            ?FEWER
        }
     || DurationNs > 0, SilentNs > ?WORTH * DurationNs
    ].

hidden_warning(#{hidden := []}) ->
    [];
hidden_warning(#{hidden := Hidden, call_ns := {Near, _}}) ->
    [
        {
            ~"short_calls",
            "~b functions are not followed, for their calls are too short to be timed while "
            "tracing one takes ~ts: their time is their callers', and what they call stands "
            "under these; the table short_calls names them",
            [length(Hidden), {Near, ~"ns"}]
        }
    ].

biased(Functions) ->
    All = lists:sum([Left || {_, #{left := Left}} <- Functions]),
    Much = [
        Left
     || {_, #{left := Left} = Sums} <- Functions,
        Of <- [bias(Sums)],
        is_float(Of),
        Of > ?MUCH
    ],
    [
        {
            ~"bias",
            "tracing took more than ~ts of the time of ~b functions, which have ~ts of the own "
            "time: the rest of theirs is uncertain; compare with --kind sample",
            [{?MUCH, ~"ratio"}, length(Much), {lists:sum(Much) / All, ~"ratio"}]
        }
     || All > 0, lists:sum(Much) > ?WORTH * All
    ].
