%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_counted).
-moduledoc "What `m:dyno_agent_calls` has counted, as dyno_targets reads it.".

-export([read/1, peek/1]).

read(Pid) -> dyno_agent_call_parts:result(dyno_agent_instrument:read(Pid)).

peek(Pid) -> dyno_agent_call_parts:result(dyno_agent_calls:peek(Pid)).
