%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_instants).
-moduledoc false.
%% When to look next. At equal intervals something that happens at an interval of its own would be
%% met always at the same moment, or never: a server that stands still for a moment every two
%% seconds would show empty queues to who looks every second.

-export([next_ms/1, cancel/1]).

-doc "A pause of the length on average, evenly drawn from its half to one and a half.".
-spec next_ms(pos_integer()) -> pos_integer().
next_ms(MeanMs) ->
    MeanMs - MeanMs div 2 + rand:uniform(2 * (MeanMs div 2) + 1) - 1.

-doc "No look is due any more.".
-spec cancel(reference() | none) -> none.
cancel(none) ->
    none;
cancel(Timer) ->
    _ = erlang:cancel_timer(Timer),
    none.
