%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_servers_queue).
-moduledoc false.
%% What waits for a subscriber that has not taken the last window yet: a few windows, of which the
%% oldest is dropped, and counted, where there are too many. Pure.

-export([new/1, add/2, ready/1]).
-export_type([t/0, given/0]).

-opaque t() :: #{
    most := pos_integer(),
    waiting := queue:queue(dyno_servers_window:window()),
    dropped := non_neg_integer(),
    %% Whether the subscriber takes the next one at once.
    ready := boolean()
}.

-doc "A window for the subscriber, and how many were dropped before it.".
-type given() :: none | {dyno_servers_window:window(), Dropped :: non_neg_integer()}.

-doc "Of a subscriber that takes the first window at once.".
-spec new(pos_integer()) -> t().
new(Most) ->
    #{most => Most, waiting => queue:new(), dropped => 0, ready => true}.

-doc "A window comes.".
-spec add(dyno_servers_window:window(), t()) -> {given(), t()}.
add(Window, #{ready := true, dropped := Dropped} = Queue) ->
    {{Window, Dropped}, Queue#{ready := false, dropped := 0}};
add(Window, #{waiting := Waiting, most := Most, dropped := Dropped} = Queue) ->
    case queue:len(Waiting) < Most of
        true ->
            {none, Queue#{waiting := queue:in(Window, Waiting)}};
        false ->
            Later = queue:in(Window, queue:drop(Waiting)),
            {none, Queue#{waiting := Later, dropped := Dropped + 1}}
    end.

-doc "The subscriber takes one more.".
-spec ready(t()) -> {given(), t()}.
ready(#{waiting := Waiting, dropped := Dropped} = Queue) ->
    case queue:out(Waiting) of
        {{value, Window}, Later} ->
            {{Window, Dropped}, Queue#{waiting := Later, dropped := 0, ready := false}};
        {empty, _} ->
            {none, Queue#{ready := true}}
    end.
