%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_load_standstill).
-moduledoc """
Times in which nothing ended in a closed load, and what an open load would have seen of them. Pure.

While a target stands still each worker of a closed load waits for one operation, and begins no
other: a stall of a second is one slow operation of each worker, however many users would have come
in that second ("coordinated omission", G. Tene). Operations that arrive at a rate find the target
standing still for the share of the time that it does, and wait for the rest of the stall.
""".

-export([gaps/2, open_quantile/3, of_part/1]).

-type slow() :: {BeginNs :: integer(), EndNs :: integer()}.

%% Shorter ones, and such as the operations take anyway, are not worth a sentence.
-define(LONG_NS, 200_000_000).
-define(FAR, 20).

-doc "How long all workers at once were in operations that took long, each time.".
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

-doc """
The quantile of the waits of what arrives at a rate within a time with these gaps; `none` if the
share that meets a gap is smaller than what is asked.
""".
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

-doc """
Of a closed part that stood still: the longest time in which nothing ended, how often, and the p99
that an open load would have seen.
""".
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
    %% If there were too many slow ones not all of them are known.
    case [Gap || is_list(Slow), Gap <- gaps(Slow, Workers), Gap >= max(?LONG_NS, ?FAR * P50)] of
        [] -> none;
        Gaps -> {ok, lists:max(Gaps), length(Gaps), open_quantile(0.99, Gaps, LengthNs)}
    end;
of_part(_Open) ->
    none.
