%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_duration_parts).
-moduledoc false.
%% Durations of single calls in a recording. Pure, for the caller's side only.

-export([tables/0, histograms/0]).

-spec tables() -> [dyno_agent_instrument:table()].
tables() ->
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
            columns => lists:flatten([
                {~"function", ~"Function", string, fun(#{mfa := MFA}) ->
                    dyno_agent_name:mfa(MFA)
                end},
                {~"sampled", ~"Sampled", count, Sampled, count},
                time(~"mean", ~"Mean", fun(#{count := Count, sum_ns := Sum}) ->
                    Sum / max(1, Count)
                end),
                [
                    time(Name, Name, quantile(Q))
                 || {Name, Q} <- [{~"p50", 0.5}, {~"p90", 0.9}, {~"p99", 0.99}]
                ],
                time(~"max", ~"Max", fun(#{max_ns := Max}) -> Max end),
                {~"state", ~"State", string, State, state}
            ])
        }
    ].

%% The overhead is subtracted. Less than that is within its error: at most twice the overhead.
time(Name, Title, Value) ->
    Ns = {number, ~"ns"},
    [
        {Name, Title, Ns, lower, fun
            (#{count := 0}) -> undefined;
            (#{overhead_ns := OverheadNs} = Of) -> at_least(OverheadNs, Value(Of))
        end},
        {<<Name/binary, "_high">>, ~"At most", Ns, [optional, {high, Name}], fun
            (#{count := 0}) ->
                undefined;
            (#{overhead_ns := OverheadNs} = Of) ->
                case at_least(OverheadNs, Value(Of)) of
                    undefined -> 2 * OverheadNs;
                    _ -> undefined
                end
        end}
    ].

at_least(Least, Ns) when is_number(Ns), Ns >= Least -> Ns;
at_least(_Least, _Ns) -> undefined.

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
