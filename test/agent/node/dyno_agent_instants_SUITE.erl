%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_instants_SUITE).
-moduledoc "When instruments look: at an interval on average, and in step with nothing.".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

all() -> [pauses, a_server_that_stalls].

pauses(_Config) ->
    Draws = [dyno_agent_instants:next_ms(1000) || _ <- lists:seq(1, 10_000)],
    ?assert(lists:min(Draws) >= 500 andalso lists:max(Draws) =< 1500),
    Mean = lists:sum(Draws) / 10_000,
    ?assert(abs(Mean - 1000) < 20, Mean),
    ?assertEqual([1], lists:usort([dyno_agent_instants:next_ms(1) || _ <- lists:seq(1, 20)])),
    ?assertEqual(
        [5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
        lists:usort([dyno_agent_instants:next_ms(10) || _ <- lists:seq(1, 1000)])
    ).

%% For 100 of each 2,000 ms. Who looks every second sees it in half of all looks or never.
a_server_that_stalls(_Config) ->
    Looks = lists:seq(1, 20_000),
    {Seen, _} = lists:mapfoldl(
        fun(_, AtMs) ->
            {
                length([stalls || AtMs rem 2000 >= 700, AtMs rem 2000 < 800]),
                AtMs + dyno_agent_instants:next_ms(1000)
            }
        end,
        0,
        Looks
    ),
    Share = lists:sum(Seen) / length(Looks),
    ?assert(abs(Share - 0.05) < 0.01, Share).
