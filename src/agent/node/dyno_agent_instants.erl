%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_instants).
-moduledoc false.
%% Random intervals between samples: equal ones may hit a periodic event always, or never.

-export([next_ms/1, cancel/1]).

-doc "A pause between half and one and a half of the mean, uniformly distributed.".
-spec next_ms(pos_integer()) -> pos_integer().
next_ms(MeanMs) ->
    MeanMs - MeanMs div 2 + rand:uniform(2 * (MeanMs div 2) + 1) - 1.

-spec cancel(reference() | none) -> none.
cancel(none) ->
    none;
cancel(Timer) ->
    _ = erlang:cancel_timer(Timer),
    none.
