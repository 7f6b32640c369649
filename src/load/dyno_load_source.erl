%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_load_source).
-moduledoc """
The behaviour of a load's source: dyno's generator (`m:dyno_load`), or a suite that gives its load
itself, like PerformERL's.

A source is a process, linked to its caller, that gives one load. Its sink receives
`{dyno_load, Source, event()}` in this order:

```
   warm            the warm-up is over and nothing is under way. The sink sets its instruments to
    |              zero and calls measure/1: they then count only the measured part
   started         the measured part begins now
    |
   {interval, _}   repeated during the measured part
    |
   {ending, At}    the part ends in a moment, or has just ended
    |
   finished        the part is over; connections are still open. The sink reads its instruments and
    |              calls close/1
   ended           everything is closed
```

`failed` may replace any of them and is then the last event. `run_info`, `warning` and `metrics` may
come at any time before the last event.

The module starts a `gen_server` or `gen_statem` that takes the casts `measure` and `close` and the
call `result` (a `dyno_load_result:t()`, or `none`). It formats its reasons if the source may fail,
and may say whose fault they are (see dyno_error).
""".

-export([measure/1, close/1, result/1, stop/1]).
-export_type([options/0, event/0, interval/0]).

-doc "Starts the process, linked to the caller.".
-callback start_link(options()) -> {ok, pid()}.

-type options() :: #{
    sink := pid(),
    module := module(),
    run_state := term(),
    load := #{model := atom(), _ => _},
    duration_ms := pos_integer(),
    warmup_ms := non_neg_integer(),
    interval_ms := pos_integer(),
    %% Limit for the steps before and after the operations.
    timeout_ms := pos_integer(),
    _ => _
}.

-type event() ::
    warm
    | started
    %% The results of an interval; `unknown` if nothing counts operations.
    | {interval, interval() | unknown}
    %% By this node's monotonic clock. A source that does not know the time sends only `finished`.
    | {ending, AtNs :: integer()}
    | {finished, DurationNs :: pos_integer()}
    %% Operations that did not end with the load, and for how long they are awaited.
    | {waiting, {pos_integer(), TimeoutMs :: pos_integer()}}
    | {ended, dyno_load_result:t() | none}
    | {failed, dyno_error:error()}
    %% Facts of the load for the suite's tear-down.
    | {run_info, term()}
    | {warning, {Code :: binary(), Text :: binary()}}
    %% Numbers that only this source knows, as parts of a recording.
    | {metrics, [#{atom() => term()}]}.

-type interval() :: #{
    %% The interval's end.
    time_ms := non_neg_integer(),
    throughput_per_s := float(),
    errors_per_s := float(),
    %% Open loads only.
    offered_per_s := float() | null,
    p50_ns := number() | null,
    p99_ns := number() | null,
    max_ns := number() | null
}.

-doc "Begins the measured part, in answer to `warm`.".
-spec measure(pid()) -> ok.
measure(Source) ->
    gen_server:cast(Source, measure).

-doc "Closes the connections, in answer to `finished`.".
-spec close(pid()) -> ok.
close(Source) ->
    gen_server:cast(Source, close).

-doc "The result so far, for a load that ends early, or `none`.".
-spec result(pid()) -> dyno_load_result:t() | none.
result(Source) ->
    try
        gen_server:call(Source, result)
    catch
        exit:_ -> none
    end.

-doc "Ends a source at once, with all that it started. No event follows.".
-spec stop(pid()) -> ok.
stop(Source) ->
    Monitor = monitor(process, Source),
    unlink(Source),
    exit(Source, shutdown),
    receive
        {'DOWN', Monitor, process, Source, _} -> ok
    after 5000 ->
        exit(Source, kill),
        ok
    end,
    flush(Source).

flush(Source) ->
    receive
        {dyno_load, Source, _} -> flush(Source);
        {'EXIT', Source, _} -> flush(Source)
    after 0 -> ok
    end.
