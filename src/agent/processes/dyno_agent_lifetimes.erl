%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_lifetimes).
-moduledoc false.
%% How long processes live, by a sample of them: of each kind one that was just discovered is
%% monitored now and then. So the cost has a limit however many come and go, and every other process
%% costs one comparison. A life is taken to begin with the call that revealed the process and to end
%% when its end is noticed: at most what is said. One that was gone before it could be monitored
%% counts with what it took to notice that.
%%
%% A distribution is kept in buckets of a quarter of a doubling: as many as there are orders of
%% magnitude, not as there are processes.

%% The sample
-export([new/0, refill/1, born/4, ended/4, forget/1]).
%% A distribution
-export([none/0, add/2, merge/2, count/1, quantile_ns/2]).
-export_type([sample/0, lives/0]).

-opaque sample() :: #{
    watched := #{reference() => {Since :: integer(), SeenAfter :: integer()}},
    %% By kind: not before that.
    next := #{term() => integer()},
    %% So many more until the next refill.
    left := non_neg_integer()
}.

-doc "How many lives were in each bucket.".
-type lives() :: #{integer() => pos_integer()}.

%% Of a kind one in so many milliseconds.
-define(EVERY_MS, 5).
%% At a time, of all kinds, and as many between two refills.
-define(MOST, 2000).
%% Buckets in a doubling.
-define(PARTS, 4).

-doc "Nobody is watched yet.".
-spec new() -> sample().
new() ->
    #{watched => #{}, next => #{}, left => ?MOST}.

-doc "Lets more be watched; for the calling process to do once in an interval.".
-spec refill(sample()) -> sample().
refill(#{watched := Watched} = Sample) ->
    Sample#{left := max(0, ?MOST - map_size(Watched))}.

-doc """
Perhaps watches a process, of which the first call was at `Time` (native, monotonic): the caller
gets its `'DOWN'` message.
""".
-spec born(pid(), term(), integer(), sample()) -> sample().
born(_Pid, Kind, Time, #{next := Next} = Sample) when Time < map_get(Kind, Next) ->
    Sample;
born(_Pid, _Kind, _Time, #{left := 0} = Sample) ->
    Sample;
born(Pid, Kind, Time, #{watched := Watched, next := Next, left := Left} = Sample) ->
    Ref = monitor(process, Pid),
    SeenAfter = erlang:monotonic_time() - Time,
    Again = Time + erlang:convert_time_unit(?EVERY_MS, millisecond, native),
    Sample#{
        watched := Watched#{Ref => {Time, SeenAfter}},
        next := Next#{Kind => Again},
        left := Left - 1
    }.

-doc "Takes in a `'DOWN'` message with its reason; for how long that process has lived.".
-spec ended(reference(), term(), Now :: integer(), sample()) ->
    {ok, Ns :: non_neg_integer(), sample()} | unknown.
ended(Ref, Reason, Now, #{watched := Watched} = Sample) ->
    case maps:take(Ref, Watched) of
        {{_, SeenAfter}, Rest} when Reason =:= noproc ->
            {ok, ns(SeenAfter), Sample#{watched := Rest}};
        {{Since, _}, Rest} ->
            {ok, ns(Now - Since), Sample#{watched := Rest}};
        error ->
            unknown
    end.

ns(Native) -> max(0, erlang:convert_time_unit(Native, native, nanosecond)).

-doc "Watches nobody any more.".
-spec forget(sample()) -> sample().
forget(#{watched := Watched}) ->
    _ = [demonitor(Ref, [flush]) || Ref := _ <- Watched],
    new().

-doc "No lives.".
-spec none() -> lives().
none() -> #{}.

-doc "Adds one.".
-spec add(non_neg_integer(), lives()) -> lives().
add(Ns, Lives) ->
    maps:update_with(bucket(max(1, Ns)), fun(N) -> N + 1 end, 1, Lives).

bucket(Ns) -> floor(?PARTS * math:log2(Ns)).

-doc "Those of both.".
-spec merge(lives(), lives()) -> lives().
merge(A, B) ->
    maps:merge_with(fun(_, M, N) -> M + N end, A, B).

-doc "How many there are.".
-spec count(lives()) -> non_neg_integer().
count(Lives) ->
    round(lists:sum(maps:values(Lives))).

-doc "So much of them lasted no longer: the middle of a bucket, at most 9 % off.".
-spec quantile_ns(float(), lives()) -> pos_integer() | undefined.
quantile_ns(_Q, Lives) when map_size(Lives) =:= 0 ->
    undefined;
quantile_ns(Q, Lives) ->
    Rank = max(1, ceil(Q * count(Lives))),
    round(math:pow(2, (at(Rank, lists:sort(maps:to_list(Lives))) + 0.5) / ?PARTS)).

at(Rank, [{Bucket, Count} | _]) when Rank =< Count -> Bucket;
at(Rank, [{_, Count} | Rest]) -> at(Rank - Count, Rest).
