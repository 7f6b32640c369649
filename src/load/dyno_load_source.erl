%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_load_source).
-moduledoc """
What a load comes from: dyno's own generator (`m:dyno_load`), or a suite that gives its load itself,
as those of PerformERL do. Who runs a test drives all of them in the same way, and need not know
which one it has.

A source is a process, linked to its caller, that gives one load. Its sink receives
`{dyno_load, Source, event()}` in this order:

```
   warm            the warm-up is over and nothing is under way. The sink sets its instruments to
    |              zero and calls measure/1: what they count is then what the measured part did
   started         the measured part begins now
    |
   {interval, _}   again and again, while it lasts
    |
   {ending, At}    it ends in a moment, or has just ended
    |
   finished        it is over; its connections are still open. The sink reads its instruments and
    |              calls close/1
   ended           everything is closed
```

`failed` may come instead of any of them, and is the last event then. `run_info`, `warning` and
`metrics` may come at any time before the last one.

A module with this behaviour starts the process, a `gen_server` or a `gen_statem`, which takes the
casts `measure` and `close` and the call `result` (a `dyno_load_result:t()`, or `none`); where it
may fail it words its reasons, and may tell whose fault they are (see dyno_error).
""".

-export([measure/1, close/1, result/1, stop/1]).
-export_type([options/0, event/0, interval/0]).

-doc "Starts the process, linked to the caller.".
-callback start_link(options()) -> {ok, pid()}.

-doc "What every source starts with; each may need more than that.".
-type options() :: #{
    %% The process that receives the events.
    sink := pid(),
    %% The suite's, with what its callbacks go on with.
    module := module(),
    run_state := term(),
    load := #{model := atom(), _ => _},
    duration_ms := pos_integer(),
    warmup_ms := non_neg_integer(),
    interval_ms := pos_integer(),
    %% How long what comes before and after the operations may take.
    timeout_ms := pos_integer(),
    _ => _
}.

-type event() ::
    warm
    | started
    %% What the operations of an interval did; unknown where nobody counts them.
    | {interval, interval() | unknown}
    %% By this node's monotonic clock. A source that does not know it says only that it is finished.
    | {ending, AtNs :: integer()}
    | {finished, DurationNs :: pos_integer()}
    | {ended, dyno_load_result:t() | none}
    | {failed, dyno_error:error()}
    %% What the suite's tear-down needs to know of the load.
    | {run_info, term()}
    | {warning, {Code :: binary(), Text :: binary()}}
    %% Numbers that only this source knows, as parts of a recording.
    | {metrics, [#{atom() => term()}]}.

-type interval() :: #{
    %% Its end.
    time_ms := non_neg_integer(),
    throughput_per_s := float(),
    errors_per_s := float(),
    %% Of open loads.
    offered_per_s := float() | null,
    p50_ns := number() | null,
    p99_ns := number() | null,
    max_ns := number() | null
}.

-doc "Begins the measured part; the answer to `warm`.".
-spec measure(pid()) -> ok.
measure(Source) ->
    gen_server:cast(Source, measure).

-doc "Closes what is still open; the answer to `finished`.".
-spec close(pid()) -> ok.
close(Source) ->
    gen_server:cast(Source, close).

-doc "The result until now, for a load that does not come to its end; `none` where there is none.".
-spec result(pid()) -> dyno_load_result:t() | none.
result(Source) ->
    try
        gen_server:call(Source, result)
    catch
        exit:_ -> none
    end.

-doc "Ends a source at once, with what it has started. Nothing of it comes any more.".
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
