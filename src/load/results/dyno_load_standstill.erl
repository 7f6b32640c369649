%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_load_standstill).
-moduledoc """
Finds standstills of a closed load, and estimates their effect on an open load. Pure.

While a target stands still, each worker of a closed load waits for one operation and begins no
other: a stall of a second is one slow operation a worker ("coordinated omission", G. Tene).
Arrivals at a rate meet the standstill with the probability of its share of the time, and wait for
the rest of the stall.
""".

-export([gaps/2, open_quantile/3, of_part/1]).

-type slow() :: {BeginNs :: integer(), EndNs :: integer()}.

%% Shorter gaps, and gaps as long as usual operations, are not reported.
-define(LONG_NS, 200_000_000).
-define(FAR, 20).

-doc "The lengths of times in which all workers were in slow operations.".
-spec gaps([slow()], Workers :: pos_integer()) -> [pos_integer()].
gaps(Slow, Workers) ->
    %% An end comes before a begin at the same time.
    Events = lists:sort(
        lists:append([[{Begin, 1}, {End, -1}] || {Begin, End} <- Slow])
    ),
    {_, _, Gaps} = lists:foldl(
        fun({At, Step}, {Count, Since, Found}) ->
            case Count of
                Workers when At > Since -> {Count + Step, At, [At - Since | Found]};
                _ -> {Count + Step, At, Found}
            end
        end,
        {0, 0, []},
        Events
    ),
    lists:reverse(Gaps).

-doc "The quantile of waits at a constant rate with these gaps; `none` if few arrivals meet one.".
-spec open_quantile(float(), Gaps :: [pos_integer()], LengthNs :: pos_integer()) ->
    {ok, float()} | none.
open_quantile(Q, Gaps, LengthNs) ->
    Share = fun(Wait) -> lists:sum([max(0, Gap - Wait) || Gap <- Gaps]) / LengthNs end,
    case Share(0) > 1 - Q of
        true -> {ok, bisected(Share, 1 - Q, 0.0, float(lists:max(Gaps)), 50)};
        false -> none
    end.

bisected(_Share, _Of, Low, _High, 0) ->
    Low;
bisected(Share, Of, Low, High, Left) ->
    Middle = (Low + High) / 2,
    case Share(Middle) > Of of
        true -> bisected(Share, Of, Middle, High, Left - 1);
        false -> bisected(Share, Of, Low, Middle, Left - 1)
    end.

-doc "A closed part's longest standstill, the number of standstills, and the p99 of an open load.".
-spec of_part(dyno_load_result:part()) ->
    {ok, LongestNs :: pos_integer(), Times :: pos_integer(), {ok, float()} | none} | none.
of_part(#{model := closed, workers := Workers, duration_ns := LengthNs, total := Total}) when
    Workers > 0
->
    #{slow := Slow, response := Response} = Total,
    P50 =
        case dyno_histogram:quantile(Response, 0.5) of
            undefined -> 0;
            Value -> Value
        end,
    %% If there were too many slow operations, not all are known.
    case [Gap || is_list(Slow), Gap <- gaps(Slow, Workers), Gap >= max(?LONG_NS, ?FAR * P50)] of
        [] -> none;
        Gaps -> {ok, lists:max(Gaps), length(Gaps), open_quantile(0.99, Gaps, LengthNs)}
    end;
of_part(_Open) ->
    none.
