%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_lifetimes).
-moduledoc false.
%% How long processes live, by a sample of them: of each group one process that was just discovered
%% is monitored now and then, so that the cost has a limit however many come and go, and every other
%% process costs one comparison. A life is taken to begin with the call that discovered the process
%% and to end when its end is noticed: it was at most so long. A process that had ended before it
%% could be monitored counts with the time that it took to notice that. Pure.

-export([new/0, is_wanted/3, monitored/5, alive/1, ended/4, forget/1]).
-export_type([sample/0]).

-type id() :: dyno_agent_process_table:id().

-opaque sample() :: #{
    monitored := #{reference() => {id(), Since :: integer(), SeenAfter :: integer()}},
    %% By group: not before that.
    next := #{id() => integer()}
}.

%% Of a group one in so many milliseconds.
-define(EVERY_MS, 5).
%% At a time, of all groups.
-define(MOST, 2000).

-doc "No process is monitored yet.".
-spec new() -> sample().
new() -> #{monitored => #{}, next => #{}}.

-doc "Whether to monitor a process of a group, of which the first call was at `Time` (native).".
-spec is_wanted(id(), Time :: integer(), sample()) -> boolean().
is_wanted(Id, Time, #{next := Next, monitored := Monitored}) ->
    map_size(Monitored) < ?MOST andalso Time >= maps:get(Id, Next, Time).

-doc "The process of a group is monitored, at a time (native).".
-spec monitored(reference(), id(), Since :: integer(), Now :: integer(), sample()) -> sample().
monitored(Ref, Id, Since, Now, #{monitored := Monitored, next := Next} = Sample) ->
    Again = Since + erlang:convert_time_unit(?EVERY_MS, millisecond, native),
    Sample#{
        monitored := Monitored#{Ref => {Id, Since, Now - Since}}, next := Next#{Id => Again}
    }.

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
