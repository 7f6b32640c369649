%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_instants_SUITE).
-moduledoc "When instruments look: at an interval on average, and in step with nothing.".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

all() -> [pauses].

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
