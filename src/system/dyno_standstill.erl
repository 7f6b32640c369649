%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_standstill).
-moduledoc false.
%% Detects that this emulator stopped: suspended (SIGSTOP, Ctrl-Z, a paused container), or without a
%% processor for seconds. Meanwhile it gave no load and took no samples.

-export([start_link/0, stop/1]).

-define(TICK_MS, 200).
%% Other processes of this emulator never delay one of the highest priority this long.
-define(LONG_MS, 2000).

-spec start_link() -> pid().
start_link() ->
    spawn_link(fun() ->
        _ = process_flag(priority, max),
        proc_lib:set_label(?MODULE),
        watch(now_ms(), 0)
    end).

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

-doc "The total time of stops. Pauses below two seconds do not count.".
-spec stop(pid()) -> StoodMs :: non_neg_integer().
stop(Pid) ->
    Ref = make_ref(),
    Pid ! {stop, self(), Ref},
    receive
        {Ref, StoodMs} -> StoodMs
    end.
