%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_duration_parts).
-moduledoc false.
%% Durations of single calls in a recording. Pure, for the caller's side only.

-export([tables/0, histograms/0]).

-spec tables() -> [dyno_agent_instrument:table()].
tables() ->
    Ns = {number, ~"ns"},
    Sampled = ~"How many calls were traced; not all of them.",
    State =
        <<
            "measured, or why it no longer is: called_too_often, never_returns, reloaded."
        >>,
    [
        #{
            name => ~"durations",
            title => ~"Durations of single calls",
            items => fun
                ([]) -> none;
                (All) -> lists:reverse(lists:sort(fun(A, B) -> sum_ns(A) =< sum_ns(B) end, All))
            end,
            columns => [
                {~"function", ~"Function", string, fun(#{mfa := MFA}) ->
                    dyno_agent_name:mfa(MFA)
                end},
                {~"sampled", ~"Sampled", count, Sampled, count},
                {~"mean", ~"Mean", Ns, lower, fun(#{count := Count, sum_ns := Sum}) ->
                    Sum / max(1, Count)
                end},
                {~"p50", ~"p50", Ns, lower, quantile(0.5)},
                {~"p90", ~"p90", Ns, lower, quantile(0.9)},
                {~"p99", ~"p99", Ns, lower, quantile(0.99)},
                {~"max", ~"Max", Ns, lower, fun
                    (#{count := 0}) -> undefined;
                    (#{max_ns := Max}) -> Max
                end},
                {~"state", ~"State", string, State, state}
            ]
        }
    ].

quantile(Q) -> fun(Durations) -> dyno_agent_event_histogram:quantile(Q, Durations) end.

sum_ns(#{sum_ns := Ns}) -> Ns.

-spec histograms() -> [dyno_agent_instrument:histogram()].
histograms() ->
    [
        #{
            name => ~"function.duration",
            title => ~"Durations of single calls",
            unit => ~"ns",
            group => ~"functions",
            items => fun(All) -> [histogram(F) || #{count := Count} = F <- All, Count > 0] end
        }
    ].

histogram(#{mfa := MFA, sum_ns := Sum, min_ns := Min, max_ns := Max} = Function) ->
    (maps:with([count, buckets], Function))#{
        labels => #{function => dyno_agent_name:mfa(MFA)}, sum => Sum, min => Min, max => Max
    }.
