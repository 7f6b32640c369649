%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_lifetimes).
-moduledoc false.
%% Lifetimes of processes, by a sample: now and then one just discovered process of a group is
%% monitored. So the cost is bounded; each other process costs one comparison. A life begins with
%% the discovering call and ends when its end is noticed: an upper bound. A process that ended
%% before the monitor counts with the time until this was noticed. Pure.

-export([new/0, is_wanted/3, monitored/5, alive/1, ended/4, forget/1]).
-export_type([sample/0]).

-type id() :: dyno_agent_process_table:id().

-opaque sample() :: #{
    monitored := #{reference() => {id(), Since :: integer(), SeenAfter :: integer()}},
    %% By group: the earliest time of the next monitor.
    next := #{id() => integer()}
}.

%% One of a group in this time.
-define(EVERY_MS, 5).
-define(MOST, 2000).

-spec new() -> sample().
new() -> #{monitored => #{}, next => #{}}.

-doc "Whether to monitor a process of a group whose first call was at `Time` (native).".
-spec is_wanted(id(), Time :: integer(), sample()) -> boolean().
is_wanted(Id, Time, #{next := Next, monitored := Monitored}) ->
    map_size(Monitored) < ?MOST andalso Time >= maps:get(Id, Next, Time).

-spec monitored(reference(), id(), Since :: integer(), Now :: integer(), sample()) -> sample().
monitored(Ref, Id, Since, Now, #{monitored := Monitored, next := Next} = Sample) ->
    Again = Since + erlang:convert_time_unit(?EVERY_MS, millisecond, native),
    Sample#{monitored := Monitored#{Ref => {Id, Since, Now - Since}}, next := Next#{Id => Again}}.

-spec alive(sample()) -> #{id() => pos_integer()}.
alive(#{monitored := Monitored}) ->
    maps:map(
        fun(_Id, Of) -> length(Of) end,
        maps:groups_from_list(fun({Id, _, _}) -> Id end, maps:values(Monitored))
    ).

-doc "Takes a `'DOWN'` message with its reason; returns the process's lifetime.".
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

-spec forget(sample()) -> {[reference()], sample()}.
forget(#{monitored := Monitored}) ->
    {maps:keys(Monitored), new()}.
