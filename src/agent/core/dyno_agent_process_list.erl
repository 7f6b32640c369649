%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_process_list).
-moduledoc false.
%% Iterates over the node's processes. With a million, `processes/0` blocks a scheduler for 16 ms,
%% and its list of 16 MB takes as long at each collection. OTP 28 has an iterator instead; on 27 the
%% list is made.

-export([first/0, next/2, fold/2, some/1, heap_words/0]).
-export_type([t/0]).

%% The runtime's iterator, or on 27 the rest of the list.
-type t() :: term().

-define(PART, 1000).

-spec first() -> t().
first() ->
    case has_iterator() of
        true -> erlang:processes_iterator();
        false -> processes()
    end.

-doc """
The next processes, at most `Most`, and the place after them; `none` at the end.

## Cost
50 ns a process.
""".
-spec next(pos_integer(), t()) -> {[pid()], t() | none}.
next(Most, Pids) when is_list(Pids) ->
    try
        lists:split(Most, Pids)
    catch
        error:badarg -> {Pids, none}
    end;
next(Most, Iterator) ->
    next(Most, erlang:processes_next(Iterator), []).

next(_Left, none, Found) ->
    {lists:reverse(Found), none};
next(1, {Pid, Iterator}, Found) ->
    {lists:reverse(Found, [Pid]), Iterator};
next(Left, {Pid, Iterator}, Found) ->
    next(Left - 1, erlang:processes_next(Iterator), [Pid | Found]).

-spec fold(fun((pid(), Acc) -> Acc), Acc) -> Acc.
fold(Fun, Acc) -> fold(Fun, Acc, first()).

fold(_Fun, Acc, none) ->
    Acc;
fold(Fun, Acc, Place) ->
    {Pids, Next} = next(?PART, Place),
    fold(Fun, lists:foldl(Fun, Acc, Pids), Next).

-doc "All processes up to `Most`; otherwise a sample spread evenly over them.".
-spec some(pos_integer()) -> [pid()].
some(Most) ->
    Every = 1 + (erlang:system_info(process_count) - 1) div Most,
    {_, Some} = fold(
        fun
            (Pid, {0, Found}) -> {Every - 1, [Pid | Found]};
            (_Pid, {Skip, Found}) -> {Skip - 1, Found}
        end,
        {rand:uniform(Every) - 1, []}
    ),
    Some.

-doc "A heap size that avoids collections of the list while a process iterates.".
-spec heap_words() -> non_neg_integer().
heap_words() ->
    case has_iterator() of
        true -> 0;
        false -> 4 * erlang:system_info(process_count) + 10_000
    end.

has_iterator() -> erlang:function_exported(erlang, processes_iterator, 0).
