%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_durations_SUITE).
-moduledoc "What is kept of single calls, however many messages come. Whole runs: dyno_test_SUITE.".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

all() ->
    [the_first_reason_stays].

%% A function is given up at its hundredth call without a return; ten thousand more are on their
%% way, and their returns.
the_first_reason_stays(_Config) ->
    MFA = {queue, daeh, 1},
    {ok, Pid} = dyno_agent_instrument:start_link(dyno_agent_durations, #{patterns => [MFA]}),
    ok = dyno_agent_instrument:restart(Pid),
    [Pid ! {trace_ts, self(), call, MFA, N} || N <- lists:seq(1, 20_000)],
    [Pid ! {trace_ts, self(), return_from, MFA, [], 30_000 + N} || N <- lists:seq(1, 20_000)],
    ?assertMatch(
        [#{mfa := MFA, state := never_returns, count := 0}], dyno_agent_instrument:read(Pid)
    ),
    unlink(Pid),
    ok = gen_server:stop(Pid).
