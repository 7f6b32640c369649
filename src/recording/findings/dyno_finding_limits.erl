%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_finding_limits).
-moduledoc "The limits of findings: one table, each with its unit and reason.".

-export([of_name/1, value/1, all/0]).
-export_type([name/0]).

-type name() :: atom().

-doc "The limit, its unit, and its reason; empty for `none`.".
-spec of_name(name() | none) -> {number() | undefined, dyno_unit:unit(), binary()}.
of_name(none) ->
    {undefined, ~"1", ~""};
of_name(Name) ->
    {Name, Limit, Unit, Why} = lists:keyfind(Name, 1, all()),
    {Limit, Unit, Why}.

-doc "The number alone.".
-spec value(name()) -> number().
value(Name) ->
    {Name, Limit, _Unit, _Why} = lists:keyfind(Name, 1, all()),
    Limit.

-doc "All limits.".
-spec all() -> [{name(), number(), dyno_unit:unit(), Why :: binary()}].
all() ->
    [
        {queue, 1000, ~"count", <<
            "Each message waits for all before it, and the queue takes memory until the node "
            "ends."
        >>},
        {queue_drains_s, 60, ~"s", <<
            "A queue that takes longer than callers wait (5 s) does work that no caller wants "
            "any more."
        >>},
        {queue_per_s, 10, ~"count/s",
            ~"At this rate it is long soon, and each message waits for all before it."},
        {growing_queue, 100, ~"count", ~"A shorter one may be a burst that ends by itself."},
        {queue_stuck, 1, ~"count", ~"Messages wait, and the process does nothing."},
        {waiting_callers, 5, ~"count", ~"Callers hang, and their callers too."},
        {stuck_callers, 2, ~"count", ~"Callers hang, and their callers too."},
        {cycle, 1, ~"count", ~"No process of a cycle can go on: it lasts until a call times out."},
        {suspended, 1, ~"count", ~"A suspended process handles no message."},
        {contended_lock, 5, ~"count", ~"Each waits for all others, on all nodes."},
        {global_work, 200_000, ~"count/s",
            ~"Each name and each lock is asked for on all nodes, one after the other."},
        {atom_bytes, 100_000_000, ~"B", ~"Atoms are never freed; only a restart does."},
        {lock_waiters, 1, ~"count",
            ~"All of the cluster that register a name, or take a lock, wait for this one."},
        {log_callers, 3, ~"count", ~"Work waits for logging."},
        {failures_per_s, 10, ~"count/s", ~"Callers do not get what they need, and may try again."},
        {some_events_per_s, 100, ~"count/s", ~"Each is formatted by the process that logs it."},
        {log_events_per_s, 500, ~"count/s",
            ~"Handlers of OTP drop more than that by default, and what matters is hard to find."},
        {code_callers, 3, ~"count",
            ~"One process serves all of them, and searches the file system each time."},
        {disk_log_callers, 10, ~"count", ~"All of them share one process and one disk."},
        {printing_callers, 10, ~"count", ~"One process prints for all, one after the other."},
        {log_file_reductions, 4000, ~"count", ~"What is logged is in no file."},
        {name_service_callers, 3, ~"count", ~"Connecting waits for the resolver."},
        {processes_per_s, 20, ~"count/s",
            ~"At the limit no process can be started: the node is lost."},
        {atoms_per_s, 2, ~"count/s", ~"Atoms are never freed: with a full table the VM ends."},
        {table_full, 0.85, ~"ratio", ~"At the limit no more can be made."},
        {rows_per_s, 30, ~"count/s", ~"A table without an end takes all memory."},
        {kept_bytes_per_s, 100_000, ~"B/s", ~"A table without an end takes all memory."},
        {memory_per_s, 1_000_000, ~"B/s", ~"Memory that only grows ends the node."},
        {held_share, 2, ~"1", ~"The machine lacks what the node holds and does not use."},
        {held_bytes, 200_000_000, ~"B", ~"The machine lacks what the node holds and does not use."},
        {heap_bytes, 100_000_000, ~"B",
            ~"A collection of that heap stops its process for long, and copies all that lives."},
        {idle_heaps, 200_000_000, ~"B", ~"The machine lacks what the node holds and does not use."},
        {binary_bytes, 100_000_000, ~"B",
            ~"Binaries live as long as any process refers to a part."},
        {garbage_bytes_each, 100, ~"B",
            ~"Copying and collecting take the processors and the memory's speed."},
        {garbage_bytes_per_s, 20_000_000, ~"B/s",
            ~"Copying and collecting take the processors and the memory's speed."},
        {object_bytes, 100_000, ~"B", ~"Each lookup copies the whole object."},
        {scheduler_full, 0.95, ~"ratio", ~"Whatever is ready waits for a scheduler."},
        {ready_ms, 10, ~"ms", ~"Each message waits that long before its process runs."},
        {dirty_cpu_full, 0.95, ~"ratio",
            ~"Long native calls, and collections of large heaps, wait for one another."},
        {dirty_io_stuck, 0.45, ~"ratio", <<
            "Each file operation takes a dirty I/O scheduler; with none left no file can be "
            "read, and no connection be made."
        >>},
        {busy_wait, 3, ~"1", ~"A container pays for it, and its neighbours lack it."},
        {processors, 1, ~"1", ~"More schedulers than processors take these from one another."},
        {throttled, 0.01, ~"ratio", ~"Threads without a processor do no work."},
        {steal, 0.05, ~"ratio", ~"Work takes longer, whatever the node does."},
        {processor_taken, 0.2, ~"ratio", ~"Work takes longer, whatever the node does."},
        {stands_still, 0.1, ~"ratio", ~"Timers, answers and heartbeats are late by that."},
        %% Of a busy scheduler: Erlang code makes 2 million and more.
        {native_reductions, 300_000, ~"count/s",
            ~"Other processes of that scheduler wait meanwhile."},
        {long_schedule, 100, ~"ms", ~"Other processes of that scheduler wait meanwhile."},
        {long_gc, 100, ~"ms", ~"The process handles no message meanwhile."},
        {copies_per_s, 5000, ~"count/s", ~"Each replaced or erased term scans all processes."},
        {monitors, 10_000, ~"count",
            ~"Each is memory, and all are ended one by one when the process ends."},
        {same_monitors, 1000, ~"count",
            ~"Each takes memory, and sends a message when that process ends."},
        {grows_per_s, 5, ~"count/s", ~"At the limit no more can be made."},
        {transaction_restarts, 1, ~"ratio",
            ~"Transactions wait for each other's locks, and begin anew."},
        {bottleneck, 5, ~"count",
            ~"One process can use one scheduler at most: all others wait for it."},
        {restarts, 1, ~"count", ~"If it crashes, it does no work and loses its state."},
        {spawns_per_s, 5000, ~"count/s", ~"Starting and ending takes more than the work."},
        {wakes, 100_000, ~"count/s", ~"Each waking takes the schedulers longer than the work."},
        {programs_per_s, 20, ~"count/s",
            ~"Starting a program takes milliseconds, and one process starts all of them."},
        {intervals, 500, ~"count",
            ~"Each interval starts a process each time, which costs more than most tasks."},
        {one_process, 0.85, ~"ratio",
            ~"One process can use one scheduler at most, and others wait for it."},
        {busy_reductions, 1_000_000, ~"count/s", ~"So many take a tenth of a scheduler or more."},
        {heap_per_s, 500_000, ~"B/s", ~"Memory that only grows ends the node."},
        {postponed_per_s, 200_000, ~"B/s", ~"Events that no state takes stay in memory."},
        {many_timers, 500_000, ~"count", ~"Each takes memory, and a message in the end."},
        {timers_per_s, 1000, ~"count/s", ~"Each takes memory, and a message in the end."},
        {timers_set, 20_000, ~"count/s", <<
            "Setting, cancelling and firing timers takes the schedulers, and few reductions are "
            "left for other work."
        >>},
        {collected_per_s, 200_000_000, ~"B/s",
            ~"Such a collection copies all that lives, and the process does no other work."},
        {hibernates_per_s, 1000, ~"count/s",
            ~"Each time the whole heap is collected and made small, and grows again."},
        {collecting, 0.4, ~"ratio", ~"A process that collects its heap does no other work."},
        {dictionary, 50_000, ~"count",
            ~"Each full collection reads all of it; no other process can read or bound it."},
        {writers, 2, ~"count", <<
            "Writes exclude each other: more schedulers or processes make no more of them, and "
            "each takes longer."
        >>},
        {yields, 5000, ~"count/s", <<
            "Writes exclude each other: more schedulers or processes make no more of them, and "
            "each takes longer."
        >>},
        {reloads, 2, ~"count", <<
            "Each time all processes are asked whether they run the module's old code; a purge "
            "ends those that do."
        >>},
        {listed_per_s, 20_000, ~"count/s", <<
            "Who lists processes usually asks each of them, which takes microseconds and wakes it."
        >>},
        {searched_per_s, 20_000_000, ~"count/s",
            ~"A search reads its list from the beginning; a map has the element at once."},
        {left_open, 20, ~"count", ~"Each keeps a descriptor and its process's memory for nothing."},
        {scanned_per_s, 1_000_000, ~"count/s",
            ~"A scan takes longer with each row, a lookup does not."},
        {pressure, 0.1, ~"ratio", ~"Work stands still until the machine has it."},
        {disk_await_ms, 50, ~"ms",
            ~"File operations take that long, each in a dirty I/O scheduler."},
        {retransmits, 0.01, ~"ratio", ~"Each lost segment delays a connection by 200 ms and more."},
        {overflows, 1, ~"count",
            ~"Clients' connections were refused or delayed by a second and more."},
        {accept_queue, 5, ~"count",
            ~"These clients wait, and those that come when it is full fail."},
        {swapped_in, 100, ~"count", ~"A collection touches the whole heap: it waits for the disk."},
        {large_pages, 16, ~"count",
            ~"An allocation of a large block has the kernel move pages first."},
        %% Of a test, over its sizes: means of runs.
        {slower, 1.5, ~"1",
            ~"Users wait, and whatever waits for an answer holds memory meanwhile."},
        {far_tail, 20, ~"1",
            ~"A user who sends several requests meets one of the slow ones almost every time."},
        {linear, 0.8, ~"ratio", ~"More load brings less: something is shared, or used up."},
        {of_offered, 0.95, ~"ratio",
            ~"Requests that are not served in time pile up or are refused."},
        {busy_mean, 0.9, ~"ratio", ~"Load is uneven: at its peaks work waits already."},
        {runnable, 1, ~"1", ~"Each process waits for its turn before it runs."},
        {queue_over_sizes, 3, ~"count", ~"Each message waits for all before it."},
        {wait_share, 0.3, ~"ratio", ~"So much of the response time is waiting for one process."},
        {memory_step, 2, ~"1", ~"The node needs more memory than its load lets expect."},
        {failing, 0.5, ~"ratio", ~"All times are about the few operations that did not fail."},
        %% Of servers, over the measured time.
        {server_full, 0.95, ~"ratio", ~"With any more messages its queue only grows."},
        {server_behind, 1.05, ~"1", ~"Each message waits longer than the one before it."},
        {server_backlog, 5_000_000_000, ~"ns",
            ~"A message that comes now waits for all of these; its sender may have given up."},
        {long_callback, 200_000_000, ~"ns",
            ~"All other messages wait meanwhile, also those of sys."},
        %% Of a benchmark.
        {first_call, 20, ~"1", ~"Later calls find work done that is not part of their time."},
        {drift, 1.3, ~"1", ~"No busy machine slows one code alone by so much: its work changes."},
        {others_busy, 0.1, ~"ratio", ~"Caches and the processor's speed depend on others, too."},
        {over_time, 1.5, ~"1", ~"It takes longer than was asked for."},
        {near_memory_limit, 0.9, ~"ratio", ~"At the limit the kernel ends the node."}
    ].
