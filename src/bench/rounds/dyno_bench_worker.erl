%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_worker).
-moduledoc false.
%% The process in which all codes of a comparison run in turn. One process for all, because two have
%% heaps of other sizes in other places, and identical codes then differ by some per cent for as
%% long as they live. It stays on one scheduler, because the clocks that tell what else the machine
%% did are the thread's. Before an epoch it collects its garbage: an epoch pays for its own only.

-export([start_link/1, prepare/3, epoch/3, call/4, reductions/1, collections/0, grown/2]).
-export_type([epoch/0, run/0, heap/0]).

-doc "The least size of the heap in words; by default the runtime's own.".
-type heap() :: default | pos_integer().

-doc "An epoch of a code, with the copy of its loop in one of its places.".
-type run() :: #{
    number => non_neg_integer(),
    iterations := non_neg_integer(),
    heap := heap(),
    place := pos_integer()
}.

-doc "What N iterations took.".
-type epoch() :: #{
    iterations := non_neg_integer(),
    wall_ns := non_neg_integer(),
    %% When it ended, by the monotonic clock.
    end_ns := integer(),
    %% For which the thread could have run, but another program did; undefined where not known.
    wait_ns := non_neg_integer() | undefined,
    cpu_ns := non_neg_integer() | undefined,
    %% Without the loop's.
    reductions := non_neg_integer(),
    garbage_collections := non_neg_integer(),
    %% Of the process at the end, in bytes.
    memory := non_neg_integer()
}.

-type result(Value) :: {ok, Value} | {error, dyno_sandbox:failure()}.

%% 8 MB; see dyno_bench_deterministic.
-define(UNCOLLECTED_WORDS, 1_000_000).

-doc "Starts a worker on a scheduler, linked; the caller must trap exits.".
-spec start_link(pos_integer()) -> pid().
start_link(Scheduler) ->
    Parent = self(),
    Serve = fun() ->
        proc_lib:set_label(?MODULE),
        serve(Parent, #{})
    end,
    %% `scheduler` is an option that the documentation, and so dialyzer, does not know.
    apply(erlang, spawn_opt, [Serve, [link, {scheduler, Scheduler}]]).

-doc "Has a worker run a code's `init_runner`; `Number` names the code from then on.".
-spec prepare(
    pid(),
    {Number :: non_neg_integer(), dyno_bench_code:compiled(), Init :: term()},
    TimeoutMs :: pos_integer()
) -> result(prepared).
prepare(Pid, {Number, #{module := Module, constants := Constants}, Init}, TimeoutMs) ->
    one(Pid, {prepare, Number, Module, Constants, Init}, TimeoutMs).

serve(Parent, Candidates) ->
    receive
        {Parent, Ref, {prepare, Number, Module, Constants, Init}} ->
            try Module:init_runner(Constants, Init) of
                Start ->
                    Parent ! {Ref, self(), {ok, prepared}},
                    serve(Parent, Candidates#{Number => counted({Module, Constants, Start, 0})})
            catch
                Class:Reason:Stack ->
                    Parent ! {Ref, self(), {error, {raised, Class, Reason, Stack}}},
                    serve(Parent, Candidates)
            end;
        {Parent, Ref, {run, #{number := Number} = Run}} ->
            Parent ! {Ref, self(), run(Run, map_get(Number, Candidates))},
            serve(Parent, Candidates);
        {Parent, Ref, {call, Function, Number, N}} ->
            {Module, Constants, Start, _} = map_get(Number, Candidates),
            Parent ! {Ref, self(), Function(fun() -> Module:loop(N, Constants, Start) end)},
            serve(Parent, Candidates)
    end.

-doc "What a function takes with room for all that it allocates; then the heap is as it was.".
-spec reductions(fun(() -> term())) -> result(non_neg_integer()).
reductions(Fun) ->
    Usual = process_flag(min_heap_size, ?UNCOLLECTED_WORDS),
    true = garbage_collect(),
    {reductions, Before} = process_info(self(), reductions),
    Result = dyno_sandbox:attempt(Fun),
    {reductions, After} = process_info(self(), reductions),
    _ = process_flag(min_heap_size, Usual),
    true = garbage_collect(),
    maybe
        {ok, _} ?= Result,
        {ok, After - Before}
    end.

%% With the reductions of what is done around an epoch: those of one without iterations.
counted({Module, Constants, Start, 0} = Candidate) ->
    Nothing = #{iterations => 0, heap => default, place => 1},
    {ok, #{reductions := Overhead}} = run(Nothing, Candidate),
    {Module, Constants, Start, Overhead}.

run(#{iterations := N, heap := Heap, place := Place}, {Module, Constants, Start, Overhead}) ->
    _ = process_flag(min_heap_size, words(Heap)),
    true = garbage_collect(),
    Collections0 = collections(),
    {reductions, Reductions0} = process_info(self(), reductions),
    Edge0 = dyno_clock:thread(),
    try Module:loop(N, Constants, Start, Place) of
        _Last ->
            %% First of all: to read the thread's clocks takes 9 us, which are not the code's.
            EndNs = erlang:monotonic_time(nanosecond),
            Edge1 = (dyno_clock:thread())#{wall_ns := EndNs},
            {reductions, Reductions1} = process_info(self(), reductions),
            Collections1 = collections(),
            {memory, Memory} = process_info(self(), memory),
            {ok, (dyno_clock:difference(Edge0, Edge1))#{
                iterations => N,
                end_ns => EndNs,
                reductions => max(0, Reductions1 - Reductions0 - Overhead - N),
                garbage_collections => grown(Collections0, Collections1),
                memory => Memory
            }}
    catch
        Class:Reason:Stack -> {error, {raised, Class, Reason, Stack}}
    end.

words(default) ->
    {min_heap_size, Words} = erlang:system_info(min_heap_size),
    Words;
words(Words) ->
    Words.

-doc "The minor collections of this process; they are counted from the last full one on.".
-spec collections() -> non_neg_integer().
collections() ->
    {garbage_collection, Info} = process_info(self(), garbage_collection),
    proplists:get_value(minor_gcs, Info).

-doc "How many there were at least between two such numbers.".
-spec grown(non_neg_integer(), non_neg_integer()) -> non_neg_integer().
grown(Old, New) when New >= Old -> New - Old;
grown(_Old, New) -> New.

-doc "Runs an epoch of a code in each worker at the same time.".
-spec epoch([pid()], run(), TimeoutMs :: pos_integer()) -> result([epoch()]).
epoch(Workers, Run, TimeoutMs) ->
    request(Workers, {run, Run}, TimeoutMs).

-doc "What a function gives in a worker that gets one which makes N iterations of a code.".
-spec call(
    pid(),
    {Number :: non_neg_integer(), N :: pos_integer()},
    fun((fun(() -> term())) -> result(Value)),
    TimeoutMs :: pos_integer()
) -> result(Value).
call(Pid, {Number, N}, Function, TimeoutMs) ->
    one(Pid, {call, Function, Number, N}, TimeoutMs).

one(Pid, Request, TimeoutMs) ->
    maybe
        {ok, [Result]} ?= request([Pid], Request, TimeoutMs),
        {ok, Result}
    end.

request(Workers, Request, TimeoutMs) ->
    Ref = make_ref(),
    EndMs = erlang:monotonic_time(millisecond) + TimeoutMs,
    lists:foreach(fun(Pid) -> Pid ! {self(), Ref, Request} end, Workers),
    case collect(maps:from_keys(Workers, running), Ref, EndMs, []) of
        timeout -> {error, {timeout, TimeoutMs}};
        Collected -> Collected
    end.

%% In the order in which they end: to look for each of thousands in turn takes longer than they do.
collect(Pending, _Ref, _EndMs, Results) when map_size(Pending) =:= 0 ->
    {ok, Results};
collect(Pending, Ref, EndMs, Results) ->
    receive
        {Ref, Pid, {ok, Result}} ->
            collect(maps:remove(Pid, Pending), Ref, EndMs, [Result | Results]);
        {Ref, _Pid, {error, _} = Error} ->
            Error;
        {'EXIT', Pid, Reason} when is_map_key(Pid, Pending) ->
            {error, failure(Reason)};
        dyno_interrupt ->
            {error, interrupted}
    after max(0, EndMs - erlang:monotonic_time(millisecond)) -> timeout
    end.

failure({Reason, [{_, _, _, _} | _] = Stack}) -> {raised, error, Reason, Stack};
failure({{nocatch, Reason}, Stack}) -> {raised, throw, Reason, Stack};
failure(Reason) -> {died, Reason}.
