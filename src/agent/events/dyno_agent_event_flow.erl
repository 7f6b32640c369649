%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_event_flow).
-moduledoc false.
%% Chooses the processes to cut off, so that waiting events stay within a limit. Pure.
%%
%% A tracer cannot slow traced processes: its backlog waits in its mailbox. From half of the limit
%% on, a share of the processes is cut off, chosen by identifier and so stable under load; at the
%% limit, all are. Their partitions end with a gap; the others stay whole.

-export([new/1, sample/4, fill/3, words/1, is_cut/2, defaults/0]).
-export_type([t/0, limits/0]).

-type limits() :: #{
    %% Waiting events, and their memory.
    queue => pos_integer(),
    bytes => pos_integer(),
    %% Events a second.
    rate => pos_integer() | infinity
}.

-record(flow, {
    limits :: limits(),
    %% The mean size of an event, by samples.
    words = 40.0 :: float(),
    %% Processes cut off, of 1,024.
    cut = 0 :: 0..1024,
    %% Events since this time.
    since :: integer() | undefined,
    events = 0 :: non_neg_integer()
}).

-opaque t() :: #flow{}.

-define(RATE_NS, 100_000_000).
%% The overhead of a message beside its term.
-define(MESSAGE_WORDS, 12).

-spec defaults() -> limits().
defaults() ->
    #{queue => 1_000_000, bytes => 536_870_912, rate => infinity}.

-spec new(limits()) -> t().
new(Limits) ->
    #flow{limits = maps:merge(defaults(), Limits)}.

-doc """
Updates the state with the number of waiting events, one of them, and the events since the last
sample.
""".
-spec sample(Waiting :: non_neg_integer(), term(), pos_integer(), t()) -> t().
sample(Waiting, Event, Came, #flow{limits = Limits, words = Before} = Flow) ->
    Words = 0.9 * Before + 0.1 * (erts_debug:flat_size(Event) + ?MESSAGE_WORDS),
    {Events, Memory} = fill(Waiting, Words, Limits),
    Cut = cut(max(Events, Memory)),
    rated(map_get(rate, Limits), Came, Flow#flow{words = Words, cut = Cut}).

-doc "The filled share of the limits, by number and by memory, for events of this mean size.".
-spec fill(non_neg_integer(), number(), limits()) -> {Events :: float(), Memory :: float()}.
fill(Waiting, Words, #{queue := Queue, bytes := Bytes}) ->
    {Waiting / Queue, Waiting * Words * erlang:system_info(wordsize) / Bytes}.

-spec words(t()) -> pos_integer().
words(#flow{words = Words}) -> ceil(Words).

cut(Fill) -> max(0, min(1024, round((Fill - 0.5) * 2048))).

rated(infinity, _Came, Flow) ->
    Flow;
rated(_Rate, Came, #flow{since = undefined} = Flow) ->
    Flow#flow{since = erlang:monotonic_time(nanosecond), events = Came};
rated(Rate, Came, #flow{since = Since, events = Events, cut = Cut} = Flow) ->
    Now = erlang:monotonic_time(nanosecond),
    All = Events + Came,
    Over = cut(All * 1.0e9 / (Rate * max(Now - Since, ?RATE_NS))),
    case Now - Since > ?RATE_NS of
        true -> Flow#flow{since = Now, events = 0, cut = max(Cut, Over)};
        false -> Flow#flow{events = All, cut = max(Cut, Over)}
    end.

-spec is_cut(pid(), t()) -> boolean().
is_cut(_Pid, #flow{cut = 0}) -> false;
is_cut(Pid, #flow{cut = Cut}) -> (erlang:phash2(Pid) bsr 12) band 1023 < Cut.
