%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_load_recorder).
-moduledoc """
Records the times and errors of all workers of a load, without sending a message.

Histograms of response times, service times and schedule lag (lateness of the generator itself);
errors by reason, each with one stack trace. In open loads response counts from the intended start,
service from the real start.

## Cost
One operation: two clock reads and two or three counters, well below a microsecond.
""".

-export([new/3, time_ns/0, success/4, failure/3, schedule_lag/2, queued/1, started/1]).
-export([withdrawn/1, not_prepared/3, is_of_operation/1]).
-export([snapshot/1, errors/1, delete/1]).
-export([empty/0, merge/2, merge_errors/1, per_s/2, is_growing/2, endless/1]).
-export_type([t/0, snapshot/0, failed/0]).

-opaque t() :: #{
    %% Operations that end later have their time recorded, but do not count in the throughput.
    until := integer(),
    %% Arrivals of an open load until then are early arrivals.
    half := integer() | undefined,
    start := integer(),
    %% Closed loads only.
    slow := ets:table() | undefined,
    response := dyno_histogram:t(),
    service := dyno_histogram:t() | undefined,
    schedule_lag := dyno_histogram:t() | undefined,
    counts := counters:counters_ref(),
    errors := ets:table()
}.

-type snapshot() :: #{
    response := dyno_histogram:snapshot(),
    service := dyno_histogram:snapshot() | undefined,
    schedule_lag := dyno_histogram:snapshot() | undefined,
    %% In the measured part.
    successes := non_neg_integer(),
    %% Successes that ended before the part was over.
    in_time := non_neg_integer(),
    failures := non_neg_integer(),
    %% Failed init_worker/2 after failed operations: no operations, but times without any.
    not_prepared := non_neg_integer(),
    started := non_neg_integer(),
    %% Arrivals that the generator itself began more than a millisecond late.
    lagged := non_neg_integer(),
    %% Arrivals due while every worker was busy.
    queued := non_neg_integer(),
    %% Open loads: successes that arrived in the first half, and their response times' sum.
    early := non_neg_integer(),
    early_ns := non_neg_integer(),
    %% Closed loads: slow successes, in time from the part's begin; or too many to keep.
    slow := [{BeginNs :: integer(), EndNs :: integer()}] | too_many
}.

-doc "A reason, the number of failures, and the stack of one of them, a call a line.".
-type failed() :: {Reason :: binary(), Count :: pos_integer(), Stack :: binary() | undefined}.

-define(COUNTS, [
    successes, failures, started, in_time, lagged, queued, early, early_ns, not_prepared
]).
-define(SUCCESSES, 1).
-define(FAILURES, 2).
-define(STARTED, 3).
-define(IN_TIME, 4).
-define(LAGGED, 5).
-define(QUEUED, 6).
-define(EARLY, 7).
-define(EARLY_NS, 8).
-define(NOT_PREPARED, 9).
-define(OF_PREPARATION, "init_worker/2: ").
%% Longer operations may show a target that stood still.
-define(SLOW_NS, 100_000_000).
-define(MOST_SLOW, 2000).
%% The factor beyond which operations under way at the end show a growing queue rather than chance.
-define(MUCH_MORE, 1.5).
-define(FEW_MORE, 2).
%% The share of the final queue that a quarter of the operations meet.
-define(MET, 0.5).
%% Longer response times leave too little of the part.
-define(MOST_OF_PART, 0.75).
-define(LAG_NS, 1_000_000).
%% Further kinds of errors are counted as one.
-define(MAX_REASONS, 100).
-define(OTHER, ~"(other reasons)").
-define(MOST_FRAMES, 8).

-doc "An empty recorder for a part of a load between two times.".
-spec new(closed | open, Start :: integer(), Until :: integer()) -> t().
new(Model, Start, Until) ->
    #{
        until => Until,
        half =>
            case Model of
                open -> Start + (Until - Start) div 2;
                closed -> undefined
            end,
        start => Start,
        slow =>
            case Model of
                open -> undefined;
                closed -> ets:new(?MODULE, [public, duplicate_bag, {write_concurrency, true}])
            end,
        response => dyno_histogram:new(),
        service => only_open(Model),
        schedule_lag => only_open(Model),
        counts => counters:new(length(?COUNTS), [write_concurrency]),
        errors => ets:new(?MODULE, [public, {write_concurrency, true}])
    }.

only_open(open) -> dyno_histogram:new();
only_open(closed) -> undefined.

-doc "The clock of all times here, in nanoseconds.".
-spec time_ns() -> integer().
time_ns() ->
    erlang:monotonic_time(nanosecond).

-doc "Counts an operation about to start.".
-spec started(t()) -> ok.
started(#{counts := Counts}) ->
    counters:add(Counts, ?STARTED, 1).

-doc "Withdraws a start: the operation had no more data.".
-spec withdrawn(t()) -> ok.
withdrawn(#{counts := Counts}) ->
    counters:sub(Counts, ?STARTED, 1).

-doc "Records a success. `Intended` is the planned start, `Start` the actual one.".
-spec success(t(), integer(), integer(), integer()) -> ok.
success(#{until := Until, counts := Counts} = Recorder, Intended, Start, End) ->
    #{response := Response, service := Service} = Recorder,
    counters:add(Counts, ?SUCCESSES, 1),
    case End =< Until of
        true -> counters:add(Counts, ?IN_TIME, 1);
        false -> ok
    end,
    ok = early(Intended, End, Recorder),
    ok = slow(Start, End, Recorder),
    ok = dyno_histogram:record(Response, max(0, End - Intended)),
    record(Service, End - Start).

early(Intended, End, #{half := Half, counts := Counts}) when is_integer(Half), Intended < Half ->
    counters:add(Counts, ?EARLY, 1),
    counters:add(Counts, ?EARLY_NS, max(0, End - Intended));
early(_Intended, _End, _Recorder) ->
    ok.

%% One more than the limit shows that there were more.
slow(Begin, End, #{slow := Slow, start := Start}) when
    Slow =/= undefined, End - Begin >= ?SLOW_NS
->
    _ =
        ets:info(Slow, size) =< ?MOST_SLOW andalso
            ets:insert(Slow, {Begin - Start, End - Start}),
    ok;
slow(_Begin, _End, _Recorder) ->
    ok.

record(undefined, _Ns) -> ok;
record(Histogram, Ns) -> dyno_histogram:record(Histogram, max(0, Ns)).

-doc "Records a failure without its time: a fast error must not flatter.".
-spec failure(t(), term(), erlang:stacktrace()) -> ok.
failure(#{counts := Counts} = Recorder, Reason, Stack) ->
    counters:add(Counts, ?FAILURES, 1),
    failed("", Reason, Stack, Recorder).

-doc "Records that a worker was not prepared again.".
-spec not_prepared(t(), term(), erlang:stacktrace()) -> ok.
not_prepared(#{counts := Counts} = Recorder, Reason, Stack) ->
    counters:add(Counts, ?NOT_PREPARED, 1),
    failed(?OF_PREPARATION, Reason, Stack, Recorder).

-doc "Whether the error is one of an operation.".
-spec is_of_operation(failed()) -> boolean().
is_of_operation({Reason, _, _}) -> string:prefix(Reason, ?OF_PREPARATION) =:= nomatch.

failed(Of, Reason, Stack, #{errors := Errors}) ->
    Text = unicode:characters_to_binary([Of, io_lib:format("~0tP", [Reason, 10])]),
    Known = ets:member(Errors, Text) orelse ets:info(Errors, size) < ?MAX_REASONS,
    Key =
        case Known of
            true -> Text;
            false -> ?OTHER
        end,
    %% Only the first failure of a reason pays for its stack.
    _ =
        case ets:member(Errors, Key) of
            true -> ets:update_counter(Errors, Key, 1);
            false -> ets:update_counter(Errors, Key, 1, {Key, 0, printed(Stack)})
        end,
    ok.

printed(Stack) ->
    Own = lists:takewhile(fun({Module, _, _, _}) -> Module =/= dyno_load_worker end, Stack),
    case lists:sublist(Own, ?MOST_FRAMES) of
        [] -> undefined;
        Frames -> unicode:characters_to_binary(lists:join($\n, lists:map(fun frame/1, Frames)))
    end.

frame({Module, Function, Arity, Info}) ->
    Place =
        case {proplists:get_value(file, Info), proplists:get_value(line, Info)} of
            {File, Line} when is_list(File), is_integer(Line) ->
                io_lib:format(" (~ts:~b)", [filename:basename(File), Line]);
            _ ->
                ""
        end,
    [dyno_agent_name:mfa({Module, Function, Arity}), Place].

-doc "Records how late the generator woke a free worker.".
-spec schedule_lag(t(), integer()) -> ok.
schedule_lag(#{schedule_lag := Lag, counts := Counts}, Ns) ->
    case Ns > ?LAG_NS of
        true -> counters:add(Counts, ?LAGGED, 1);
        false -> ok
    end,
    record(Lag, Ns).

-doc "Counts an arrival due while all workers were busy.".
-spec queued(t()) -> ok.
queued(#{counts := Counts}) ->
    counters:add(Counts, ?QUEUED, 1).

-doc "All results so far, without the errors' reasons.".
-spec snapshot(t()) -> snapshot().
snapshot(#{response := Response, service := Service, schedule_lag := Lag, counts := Counts} = Of) ->
    Counted = #{Key => counters:get(Counts, N) || {N, Key} <- lists:enumerate(?COUNTS)},
    Counted#{
        response => dyno_histogram:snapshot(Response),
        service => optional(Service),
        schedule_lag => optional(Lag),
        slow => slow_ones(Of)
    }.

slow_ones(#{slow := undefined}) -> [];
slow_ones(#{slow := Slow}) -> kept(ets:tab2list(Slow)).

kept(Slow) when length(Slow) > ?MOST_SLOW -> too_many;
kept(Slow) -> Slow.

optional(undefined) -> undefined;
optional(Histogram) -> dyno_histogram:snapshot(Histogram).

-doc "The errors by reason, the most frequent first.".
-spec errors(t()) -> [failed()].
errors(#{errors := Errors}) ->
    lists:reverse(lists:keysort(2, ets:tab2list(Errors))).

-doc "Deletes the tables.".
-spec delete(t()) -> ok.
delete(#{errors := Errors, slow := Slow}) ->
    _ = Slow =:= undefined orelse ets:delete(Slow),
    true = ets:delete(Errors),
    ok.

-doc "The snapshot of an empty recorder.".
-spec empty() -> snapshot().
empty() ->
    (maps:from_keys(?COUNTS, 0))#{
        response => dyno_histogram:empty(),
        service => undefined,
        schedule_lag => undefined,
        slow => []
    }.

-doc "The sum of two snapshots. Nothing is lost.".
-spec merge(snapshot(), snapshot()) -> snapshot().
merge(A, B) ->
    maps:merge_with(fun merge_values/3, A, B).

merge_values(slow, A, B) when A =:= too_many; B =:= too_many -> too_many;
merge_values(slow, A, B) -> kept(A ++ B);
merge_values(_Key, undefined, Of) -> Of;
merge_values(_Key, Of, undefined) -> Of;
merge_values(_Key, A, B) when is_integer(A) -> A + B;
merge_values(_Key, A, B) -> dyno_histogram:merge(A, B).

-doc "Operations that began and never ended.".
-spec endless(snapshot()) -> number().
endless(#{started := Started, successes := Ok, failures := Failed}) ->
    max(0, Started - Ok - Failed).

-doc """
Successes a second of a part of this length. In an open load each success counts by its arrival:
nothing was under way at the part's begin, and late ends make up for this. Late ends do not count if
a queue grew: if more operations are under way at the end than arrivals and early response times
explain.
""".
-spec per_s(snapshot(), Ns :: number()) -> float().
per_s(#{in_time := InTime} = Snapshot, Ns) ->
    #{successes := Ok, failures := Failed, started := Started, early := Early} = Snapshot,
    ResponseNs = map_get(early_ns, Snapshot) / max(1, Early),
    HasAll = Started =< Ok + Failed,
    case Early > 0 andalso not is_growing(Snapshot, Ns) of
        true when HasAll -> Ok * 1.0e9 / max(1, Ns);
        %% An operation that never ended is no success; the time in which some could end is known.
        true when ResponseNs < ?MOST_OF_PART * Ns -> InTime * 1.0e9 / (Ns - ResponseNs);
        _ -> InTime * 1.0e9 / max(1, Ns)
    end.

-doc "Whether at the end more was under way than early response times explain.".
-spec is_growing(snapshot(), Ns :: number()) -> boolean().
is_growing(#{early := 0}, _Ns) ->
    false;
is_growing(#{in_time := InTime, early := Early, early_ns := EarlyNs} = Snapshot, Ns) ->
    #{failures := Failed, started := Started} = Snapshot,
    PerNs = Started / max(1, Ns),
    UnderWay = max(0, Started - Failed - InTime),
    %% A steadily growing queue meets most operations; one of a late standstill almost none.
    Met = dyno_histogram:quantile(map_get(response, Snapshot), 0.75) * PerNs,
    (UnderWay > ?MUCH_MORE * PerNs * EarlyNs / Early + ?FEW_MORE andalso
        Met > ?MET * UnderWay) orelse
        is_growing_fast(Snapshot, Ns).

%% Early arrivals wait longer than the part lasts, too, and later ones longer still.
is_growing_fast(#{early := Early, early_ns := EarlyNs, response := Response}, Ns) ->
    #{count := Count, sum := SumNs} = Response,
    EarlyNs > ?MET * Ns * Early andalso Count > Early andalso
        (SumNs - EarlyNs) / (Count - Early) > ?MUCH_MORE * EarlyNs / Early.

-doc "Merges several lists of errors, the most frequent first.".
-spec merge_errors([[failed()]]) -> [failed()].
merge_errors(Lists) ->
    Sums = lists:foldl(
        fun({Reason, Count, Stack}, Acc) ->
            {Before, First} = maps:get(Reason, Acc, {0, undefined}),
            Acc#{Reason => {Before + Count, first(First, Stack)}}
        end,
        #{},
        lists:append(Lists)
    ),
    lists:reverse(lists:keysort(2, [{Reason, N, Stack} || Reason := {N, Stack} <- Sums])).

first(undefined, Stack) -> Stack;
first(Stack, _) -> Stack.
