%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

%% The shortest test there is.
-module(unread_perf).
-behaviour(dyno_suite).

-export([suite/0, operation/1]).

suite() -> #{sizes => [1], duration_ms => 200, warmup_ms => 0, control => false}.

operation(State) -> {ok, State}.
