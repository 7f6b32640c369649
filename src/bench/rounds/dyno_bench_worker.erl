%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_worker).
-moduledoc false.
%% The process in which all codes of a comparison run in turn. Two processes have heaps of different
%% sizes in different places, and identical codes then differ by some per cent for as long as both
%% live. The worker stays on one scheduler, because it reads the thread's clocks. It collects
%% garbage before an epoch, so that each epoch pays only for its own.

-export([start_link/1, prepare/3, epoch/3, run_on/2, call/4, reductions/1, failure/1]).
-export_type([epoch/0, run/0, heap/0]).

-doc "The least heap size, in words.".
-type heap() :: default | pos_integer().

-doc "An epoch with one of the loop's copies: a number of iterations, or a time.".
-type run() :: #{
    number => non_neg_integer(),
    iterations => non_neg_integer(),
    ms => pos_integer() | infinity,
    counter => counters:counters_ref(),
    meet => {counters:counters_ref(), All :: pos_integer()},
    heap := heap(),
    place := pos_integer()
}.

-type epoch() :: #{
    iterations := non_neg_integer(),
    wall_ns := non_neg_integer(),
    %% End by the monotonic clock.
    end_ns := integer(),
    %% Time for which the thread was ready but another program ran; undefined if not known.
    wait_ns := non_neg_integer() | undefined,
    cpu_ns := non_neg_integer() | undefined,
    %% Without the loop's own.
    reductions := non_neg_integer(),
    garbage_collections := non_neg_integer(),
    %% Bytes at the end.
    memory := non_neg_integer()
}.

-type result(Value) :: {ok, Value} | {error, dyno_bench_failure:failure()}.

-type candidate() :: #{
    module := module(),
    constants := #{atom() => term()},
    places := pos_integer(),
    start := term(),
    overhead := non_neg_integer(),
    %% To measure by time: the last result, the next batch's iterations, an iteration's time.
    batch := {Last :: term(), pos_integer(), Ns :: number()}
}.

%% 8 MB; see dyno_bench_deterministic.
-define(UNCOLLECTED_WORDS, 1_000_000).
%% Reading the clock and counting take 2 us.
-define(BATCH_NS, 1_000_000).
-define(MOST_IN_BATCH, 1_000_000_000).
-define(CROWD, 20).
-define(UNKNOWN_NS, 1.0e15).

-doc "The caller must trap exits.".
-spec start_link(pos_integer()) -> pid().
start_link(Scheduler) ->
    Parent = self(),
    Serve = fun() ->
        proc_lib:set_label(?MODULE),
        serve(Parent, #{})
    end,
    %% `scheduler` is an undocumented option, which dialyzer does not know.
    apply(erlang, spawn_opt, [Serve, [link, {scheduler, Scheduler}]]).

-doc "`Number` names the code from then on.".
-spec prepare(
    [pid()],
    {Number :: non_neg_integer(), dyno_bench_code:compiled(), Init :: term()},
    TimeoutMs :: pos_integer()
) -> result([prepared]).
prepare(Workers, {Number, Compiled, Init}, TimeoutMs) ->
    Code = maps:with([module, constants, places], Compiled),
    request(Workers, {prepare, Number, Code, Init}, TimeoutMs).

-spec serve(pid(), #{non_neg_integer() => candidate()}) -> no_return().
serve(Parent, Candidates) ->
    receive
        {Parent, Ref, {prepare, Number, Code, Init}} ->
            #{module := Module, constants := Constants} = Code,
            try Module:init_runner(Constants, Init) of
                Start ->
                    Parent ! {Ref, self(), {ok, prepared}},
                    serve(Parent, Candidates#{Number => counted(Start, Code)})
            catch
                Class:Reason:Stack ->
                    Parent ! {Ref, self(), {error, {raised, Class, Reason, Stack}}},
                    serve(Parent, Candidates)
            end;
        {Parent, Ref, {run, #{number := Number} = Run}} ->
            {Result, Next} = run(Run, map_get(Number, Candidates)),
            Parent ! {Ref, self(), Result},
            serve(Parent, Candidates#{Number := Next});
        {Parent, Ref, {call, Function, Number, N}} ->
            #{module := Module, constants := Constants, start := Start} =
                map_get(Number, Candidates),
            Parent ! {Ref, self(), Function(fun() -> Module:loop(N, Constants, Start) end)},
            serve(Parent, Candidates)
    end.

-doc "With a heap that needs no collection.".
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

%% Who begins before the others would measure a lock that nobody else wants.
meet(Met, All) ->
    ok = counters:add(Met, 1, 1),
    until_met(Met, All).

until_met(Met, All) ->
    case counters:get(Met, 1) of
        All ->
            ok;
        _ ->
            true = erlang:yield(),
            until_met(Met, All)
    end.

counted(Start, Code) ->
    New = Code#{start => Start, overhead => 0, batch => {Start, 1, ?UNKNOWN_NS}},
    {{ok, #{reductions := Overhead}}, _} = run(
        #{iterations => 0, heap => default, place => 1}, New
    ),
    New#{overhead := Overhead}.

run(#{heap := Heap} = Run, Candidate) ->
    _ = process_flag(min_heap_size, words(Heap)),
    %% Another code may have changed it.
    _ = process_flag(priority, normal),
    true = garbage_collect(),
    _ = [meet(Met, All) || #{meet := {Met, All}} <- [Run]],
    Collections0 = collections(),
    {reductions, Reductions0} = process_info(self(), reductions),
    Edge0 = dyno_clock:thread(),
    try iterated(Run, Candidate) of
        {Counted, Next} ->
            %% First, because reading the thread's clocks takes 9 us that are not the code's.
            EndNs = erlang:monotonic_time(nanosecond),
            Edge1 = (dyno_clock:thread())#{wall_ns := EndNs},
            {reductions, Reductions1} = process_info(self(), reductions),
            Collections1 = collections(),
            {memory, Memory} = process_info(self(), memory),
            Around = #{
                reductions => Reductions1 - Reductions0 - map_get(overhead, Candidate),
                garbage_collections => grown(Collections0, Collections1)
            },
            Epoch = (dyno_clock:difference(Edge0, Edge1))#{end_ns => EndNs, memory => Memory},
            {{ok, maps:merge(Epoch, own(maps:merge(Around, Counted)))}, Next}
    catch
        Class:Reason:Stack -> {{error, {raised, Class, Reason, Stack}}, Candidate}
    end.

%% The loop takes a reduction per iteration.
own(#{iterations := N, reductions := Reductions} = Counted) ->
    Counted#{reductions := max(0, Reductions - N)}.

iterated(#{iterations := N, place := Place}, Candidate) ->
    #{module := Module, constants := Constants, start := Start} = Candidate,
    _Last = Module:loop(N, Constants, Start, Place),
    {#{iterations => N}, Candidate};
iterated(Run, #{batch := {Last, _, _}} = Candidate) ->
    {_, Overhead} = batch(0, Last, 1, Candidate),
    Counting = Run#{overhead => Overhead},
    Ready = together(Counting, Candidate),
    BeginNs = erlang:monotonic_time(nanosecond),
    {Counted, Next} = counted_until(ending(BeginNs, Run), BeginNs, Counting, Ready),
    case Run of
        #{all_begun := _} ->
            WallNs = erlang:monotonic_time(nanosecond) - BeginNs,
            {Counted#{wall_ns => WallNs, wait_ns => undefined}, Next};
        #{} ->
            {Counted, Next}
    end.

ending(_BeginNs, #{ms := infinity}) -> infinity;
ending(BeginNs, #{ms := Ms}) -> BeginNs + Ms * 1_000_000.

%% A crowd takes long to start: early workers run uncounted until all have begun.
together(#{all_begun := {Begun, All}} = Run, Candidate) ->
    ok = counters:add(Begun, 1, 1),
    crowded(Begun, All, Run, Candidate);
together(_Run, Candidate) ->
    Candidate.

crowded(Begun, All, Run, Candidate) ->
    case counters:get(Begun, 1) of
        All ->
            Candidate;
        _ ->
            NowNs = erlang:monotonic_time(nanosecond),
            {_, Next} = counted_until(NowNs, NowNs, Run, Candidate),
            crowded(Begun, All, Run, Next)
    end.

counted_until(UntilNs, NowNs, Run, Candidate) ->
    None = #{iterations => 0, reductions => 0, garbage_collections => 0},
    batches(Run#{until_ns => UntilNs}, {NowNs, collections()}, None, Candidate).

%% Runs batches of about a millisecond until the time is over. The last result goes on into the next
%% batch and the next epoch: a state lives as long as its worker. Each batch uses another copy of
%% the loop.
batches(Run, {BeforeNs, Collections0}, Counted, Candidate) ->
    #{until_ns := UntilNs, place := Place, overhead := Overhead} = Run,
    #{batch := {Last, N, Ns}, places := Places} = Candidate,
    #{iterations := Sum, reductions := Reductions, garbage_collections := Collections} = Counted,
    {Next, Taken} = batch(N, Last, Place, Candidate),
    _ = [counters:add(Counter, 1, N) || #{counter := Counter} <- [Run]],
    Collections1 = collections(),
    NowNs = erlang:monotonic_time(nanosecond),
    %% Others may have had the processor for most of the batch, or the code has become slow.
    OneNs = min(10 * Ns, max(1, NowNs - BeforeNs) / N),
    NextN = max(1, min(trunc(?BATCH_NS / OneNs), min(10 * N, ?MOST_IN_BATCH))),
    NewCandidate = Candidate#{batch := {Next, NextN, OneNs}},
    NewCounted = #{
        iterations => Sum + N,
        reductions => Reductions + max(0, Taken - Overhead),
        garbage_collections => Collections + grown(Collections0, Collections1)
    },
    case NowNs < UntilNs of
        true ->
            Onwards = Run#{place := Place rem Places + 1},
            batches(Onwards, {NowNs, Collections1}, NewCounted, NewCandidate);
        false ->
            {NewCounted, NewCandidate}
    end.

batch(N, Last, Place, #{module := Module, constants := Constants, start := Start}) ->
    {reductions, Before} = process_info(self(), reductions),
    Next = Module:resume(N, Constants, Start, Last, Place),
    {reductions, After} = process_info(self(), reductions),
    {Next, After - Before}.

words(default) ->
    {min_heap_size, Words} = erlang:system_info(min_heap_size),
    Words;
words(Words) ->
    Words.

%% Minor collections of this process. The runtime counts these from the last full one on.
collections() ->
    {garbage_collection, Info} = process_info(self(), garbage_collection),
    proplists:get_value(minor_gcs, Info).

%% Full collections may have reset the count.
grown(Old, New) when New >= Old -> New - Old;
grown(_Old, New) -> New.

-doc "An epoch measured by time ends with the call that is running then.".
-spec epoch([pid()], run(), TimeoutMs :: pos_integer()) -> result([epoch()]).
epoch(Workers, #{ms := Ms} = Run, TimeoutMs) ->
    All = length(Workers),
    Together =
        #{
            all_begun => {counters:new(1, []), All}
         || All > ?CROWD * erlang:system_info(schedulers_online)
        },
    request(Workers, {run, maps:merge(Run, Together)}, TimeoutMs, Ms);
epoch(Workers, Run, TimeoutMs) ->
    All = length(Workers),
    Meet =
        #{
            meet => {counters:new(1, []), All}
         || All =< erlang:system_info(schedulers_online)
        },
    request(Workers, {run, maps:merge(Run, Meet)}, TimeoutMs).

-doc "`{Ref, Pid, {error, Failure}}` reports a failure.".
-spec run_on([pid()], run()) -> reference().
run_on(Workers, Run) ->
    ordered(Workers, {run, Run#{ms => infinity}}).

-doc "The function gets one that makes N iterations of a code.".
-spec call(
    pid(),
    {Number :: non_neg_integer(), N :: pos_integer()},
    fun((fun(() -> term())) -> result(Value)),
    TimeoutMs :: pos_integer()
) -> result(Value).
call(Pid, {Number, N}, Function, TimeoutMs) ->
    maybe
        {ok, [Result]} ?= request([Pid], {call, Function, Number, N}, TimeoutMs),
        {ok, Result}
    end.

request(Workers, Request, TimeoutMs) ->
    request(Workers, Request, TimeoutMs, 0).

request(Workers, Request, TimeoutMs, Ms) ->
    EndMs = erlang:monotonic_time(millisecond) + Ms + TimeoutMs,
    Ref = ordered(Workers, Request),
    case collect(maps:from_keys(Workers, running), Ref, EndMs, []) of
        {late, Late} -> {error, {late, Late, length(Workers), TimeoutMs}};
        Collected -> Collected
    end.

ordered(Workers, Request) ->
    Ref = make_ref(),
    lists:foreach(fun(Pid) -> Pid ! {self(), Ref, Request} end, Workers),
    Ref.

%% In the order of their ends: waiting for thousands of workers in turn takes longer than they run.
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
    after max(0, EndMs - erlang:monotonic_time(millisecond)) -> {late, map_size(Pending)}
    end.

-spec failure(term()) -> dyno_sandbox:failure().
failure({Reason, [{_, _, _, _} | _] = Stack}) -> {raised, error, Reason, Stack};
failure({{nocatch, Reason}, Stack}) -> {raised, throw, Reason, Stack};
failure(Reason) -> {died, Reason}.
