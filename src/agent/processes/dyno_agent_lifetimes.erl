%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_lifetimes).
-moduledoc false.
%% How long processes live, by a sample of them: of each group one process that was just discovered
%% is monitored now and then, so that the cost has a limit however many come and go, and every other
%% process costs one comparison. A life is taken to begin with the call that discovered the process
%% and to end when its end is noticed: it was at most so long. A process that had ended before it
%% could be monitored counts with the time that it took to notice that.
%%
%% A distribution is kept in buckets of a quarter of a doubling: as many as there are orders of
%% magnitude, not as there are processes. Pure.

%% The sample
-export([new/0, refill/1, choose/3, monitored/5, alive/1, ended/4, forget/1]).
%% A distribution
-export([none/0, add/2, merge/2, count/1, quantile_ns/3]).
-export_type([sample/0, lives/0]).

-type id() :: dyno_agent_process_table:id().

-opaque sample() :: #{
    monitored := #{reference() => {id(), Since :: integer(), SeenAfter :: integer()}},
    %% By group: not before that.
    next := #{id() => integer()},
    %% So many more until the next refill.
    left := non_neg_integer()
}.

-doc "How many lives were in each bucket.".
-type lives() :: #{integer() => pos_integer()}.

%% Of a group one in so many milliseconds.
-define(EVERY_MS, 5).
%% At a time, of all groups, and as many between two refills.
-define(MOST, 2000).
%% Buckets in a doubling.
-define(PARTS, 4).

-doc "No process is monitored yet.".
-spec new() -> sample().
new() ->
    #{monitored => #{}, next => #{}, left => ?MOST}.

-doc "Lets more processes be monitored; once in an interval.".
-spec refill(sample()) -> sample().
refill(#{monitored := Monitored} = Sample) ->
    Sample#{left := max(0, ?MOST - map_size(Monitored))}.

-doc "Whether to monitor a process of a group, of which the first call was at `Time` (native).".
-spec choose(dyno_agent_process_table:id(), Time :: integer(), sample()) ->
    {yes, sample()} | no.
choose(Id, Time, #{next := Next}) when Time < map_get(Id, Next) ->
    no;
choose(_Id, _Time, #{left := 0}) ->
    no;
choose(Id, Time, #{next := Next, left := Left} = Sample) ->
    Again = Time + erlang:convert_time_unit(?EVERY_MS, millisecond, native),
    {yes, Sample#{next := Next#{Id => Again}, left := Left - 1}}.

-doc "The process of a group that was chosen is monitored, at a time (native).".
-spec monitored(reference(), id(), Since :: integer(), Now :: integer(), sample()) -> sample().
monitored(Ref, Id, Since, Now, #{monitored := Monitored} = Sample) ->
    Sample#{monitored := Monitored#{Ref => {Id, Since, Now - Since}}}.

-doc "How many of each group are still monitored: they live.".
-spec alive(sample()) -> #{id() => pos_integer()}.
alive(#{monitored := Monitored}) ->
    maps:map(
        fun(_Id, Of) -> length(Of) end,
        maps:groups_from_list(fun({Id, _, _}) -> Id end, maps:values(Monitored))
    ).

-doc "Adds a `'DOWN'` message with its reason; returns for how long that process has lived.".
-spec ended(reference(), term(), Now :: integer(), sample()) ->
    {ok, Ns :: non_neg_integer(), sample()} | unknown.
ended(Ref, Reason, Now, #{monitored := Monitored} = Sample) ->
    case maps:take(Ref, Monitored) of
        {{_, _, SeenAfter}, Rest} when Reason =:= noproc ->
            {ok, ns(SeenAfter), Sample#{monitored := Rest}};
        {{_, Since, _}, Rest} ->
            {ok, ns(Now - Since), Sample#{monitored := Rest}};
        error ->
            unknown
    end.

ns(Native) -> max(0, erlang:convert_time_unit(Native, native, nanosecond)).

-doc "Monitors no process any more: these monitors are to be taken away.".
-spec forget(sample()) -> {[reference()], sample()}.
forget(#{monitored := Monitored}) ->
    {maps:keys(Monitored), new()}.

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
    maps:fold(fun(_Bucket, N, Sum) when is_integer(N), is_integer(Sum) -> Sum + N end, 0, Lives).

-doc """
So much of them lasted no longer: the middle of a bucket, at most 9 % off. So many others live on;
where it is one of these nobody knows.
""".
-spec quantile_ns(float(), lives(), Alive :: non_neg_integer()) -> pos_integer() | undefined.
quantile_ns(Q, Lives, Alive) ->
    Ended = count(Lives),
    case max(1, ceil(Q * (Ended + Alive))) of
        Rank when Rank > Ended -> undefined;
        Rank -> round(math:pow(2, (at(Rank, lists:sort(maps:to_list(Lives))) + 0.5) / ?PARTS))
    end.

at(Rank, [{Bucket, Count} | _]) when Rank =< Count -> Bucket;
at(Rank, [{_, Count} | Rest]) -> at(Rank - Count, Rest).
