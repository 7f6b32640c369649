%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_health_changes).
-moduledoc false.
%% Which findings are new and which are gone, for `dyno doctor --watch`. Pure. A finding at a limit
%% must not come and go each time: a critical one is told at once, a warning if found twice in
%% succession, and both are gone if missed twice in succession. Notes are not told.

-export([new/0, changes/3, without/2]).
-export_type([t/0, change/0]).

-type key() :: {Node :: term(), Check :: atom(), Subject :: binary()}.

-opaque t() :: #{
    key() => #{
        finding := dyno_finding:t(),
        found := non_neg_integer(),
        missed := non_neg_integer(),
        since_ms := integer(),
        told := boolean()
    }
}.

-type change() ::
    {found, Node :: term(), dyno_finding:t()}
    | {gone, Node :: term(), dyno_finding:t(), AfterMs :: non_neg_integer()}
    | {lost, Node :: term(), Why :: unicode:chardata()}
    | {back, Node :: term()}.

-define(FOUND, 2).
-define(MISSED, 2).

-spec new() -> t().
new() -> #{}.

-doc "A lost node has no findings; when it is back, they are new.".
-spec without(Node :: term(), t()) -> t().
without(Node, Known) -> maps:filter(fun({Of, _, _}, _) -> Of =/= Node end, Known).

-doc "The changes by the findings of a new window of these nodes; other nodes keep theirs.".
-spec changes(AtMs :: integer(), #{Node :: term() => [dyno_finding:t()]}, t()) -> {[change()], t()}.
changes(AtMs, ByNode, Known) ->
    Found =
        #{
            {Node, Check, Subject} => F
         || Node := Findings <- ByNode,
            #{severity := Severity, check := Check, subject := Subject} = F <- Findings,
            Severity =:= critical orelse Severity =:= warning
        },
    Old = [
        one(Key, Of, Found, AtMs)
     || {{Node, _, _} = Key, Of} <- maps:to_list(Known), is_map_key(Node, ByNode)
    ],
    New = [
        told(Key, #{finding => F, found => 1, missed => 0, since_ms => AtMs, told => false})
     || Key := F <- Found, not is_map_key(Key, Known)
    ],
    {
        in_order([Change || {Change, _} <- Old ++ New, Change =/= none]),
        maps:merge(
            lists:foldl(fun without/2, Known, maps:keys(ByNode)),
            maps:from_list([Kept || {_, Kept} <- Old ++ New, Kept =/= none])
        )
    }.

one(Key, #{found := N, missed := Missed} = Of, Found, AtMs) ->
    case Found of
        #{Key := Finding} -> told(Key, Of#{finding := Finding, found := N + 1, missed := 0});
        #{} when Missed + 1 >= ?MISSED -> {gone(Key, Of, AtMs), none};
        #{} -> {none, {Key, Of#{found := 0, missed := Missed + 1}}}
    end.

told(
    {Node, _, _} = Key, #{told := false, found := N, finding := #{severity := Severity} = F} = Of
) when
    Severity =:= critical; N >= ?FOUND
->
    {{found, Node, F}, {Key, Of#{told := true}}};
told(Key, Of) ->
    {none, {Key, Of}}.

gone({Node, _, _}, #{told := true, finding := F, since_ms := SinceMs}, AtMs) ->
    {gone, Node, F, AtMs - SinceMs};
gone(_Key, _Of, _AtMs) ->
    none.

%% What is gone first, then what was found, the worst first.
in_order(Changes) ->
    {Found, Gone} = lists:partition(fun(Change) -> element(1, Change) =:= found end, Changes),
    Gone ++
        [Change || {Change, _} <- dyno_finding:ranked_with([{C, F} || {found, _, F} = C <- Found])].
