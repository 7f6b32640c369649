%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_standstill).
-moduledoc false.
%% Notices that this emulator stood still: it was suspended (SIGSTOP, Ctrl-Z, a container that is
%% paused), or got no processor for seconds. Meanwhile it gave no load and took no samples.

-export([start_link/0, stop/1]).

-define(TICK_MS, 200).
%% A process of the highest priority is not kept waiting for so long by others of this emulator.
-define(LONG_MS, 2000).

-doc "Watches from now on.".
-spec start_link() -> pid().
start_link() ->
    spawn_opt(
        fun() ->
            proc_lib:set_label(?MODULE),
            watch(now_ms(), 0)
        end,
        [link, {priority, max}]
    ).

watch(LastMs, TotalMs) ->
    Asked =
        receive
            {stop, From, Ref} -> {From, Ref}
        after ?TICK_MS -> none
        end,
    NowMs = now_ms(),
    Total =
        case NowMs - LastMs of
            GapMs when GapMs >= ?LONG_MS -> TotalMs + GapMs;
            _ -> TotalMs
        end,
    case Asked of
        none ->
            watch(NowMs, Total);
        {Caller, Of} ->
            Caller ! {Of, Total},
            ok
    end.

now_ms() ->
    erlang:monotonic_time(millisecond).

-doc "For how long it stood still, in all. Pauses of less than two seconds do not count.".
-spec stop(pid()) -> StoodMs :: non_neg_integer().
stop(Pid) ->
    Ref = make_ref(),
    Pid ! {stop, self(), Ref},
    receive
        {Ref, StoodMs} -> StoodMs
    end.
