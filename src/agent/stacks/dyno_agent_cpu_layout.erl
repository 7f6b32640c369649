%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_cpu_layout).
-moduledoc false.
%% Finds the emulator's data for the sampler of processor time. Each place is identified by its
%% contents, not by version, in several states of a process and on a dirty scheduler; only a single
%% remaining candidate is accepted. Pure but for `supported/0`.
%%
%% * The thread's data: the thread-specific value with the process's address at a place, the running
%%   process (`Current`).
%% * `Stop`: the word of the process that points to the innermost return address into Erlang code.
%% * `Heap` and `Hend`: two words, the heap's size apart, with `Stop` between, the stack's size
%%   before `Hend`.
%% * `Next`: the first word that is an address in Erlang code, but not that of a function's name; -1
%%   if there is none. Others are of the next process in memory.

-export([supported/0, supported/3, find/2]).
-export_type([reason/0, seen/0]).

-type reason() ::
    {not_supported, emulator | system | machine | libc}
    | no_reading
    | not_the_process
    | no_alternate_stack
    | {not_found | several, running_process | stack}.

-type seen() :: {
    dyno_agent_cpu_nif:snapshot(), HeapWords :: pos_integer(), StackWords :: non_neg_integer()
}.

-define(WORD, 8).
%% The call of the snapshot, and the space that a debug emulator keeps free at the end.
-define(LESS, 8).
-define(MORE, 256).
-define(TAG, 16#3f).
-define(ATOM, 16#0b).
%% Space of processor registers and handler on the alternate stack.
-define(STACK_BYTES, 8192).

-doc "Whether the sampler supports this emulator and system; probes nothing.".
-spec supported() -> ok | {error, reason()}.
supported() ->
    supported(erlang:system_info(emu_flavor), os:type(), erlang:system_info(system_architecture)).

-spec supported(atom(), {atom(), atom()}, string()) -> ok | {error, reason()}.
supported(Flavour, System, Machine) ->
    case {Flavour, System, hd(string:lexemes(Machine, "-"))} of
        {jit, {unix, linux}, "x86_64"} ->
            case string:find(Machine, "musl") of
                nomatch -> ok;
                _ -> {error, {not_supported, libc}}
            end;
        {jit, {unix, linux}, _} ->
            {error, {not_supported, machine}};
        {jit, _, _} ->
            {error, {not_supported, system}};
        {_, _, _} ->
            {error, {not_supported, emulator}}
    end.

-doc "Finds the layout by snapshots of a process, each with its address, and by the code's ranges.".
-spec find([{seen(), Dirty :: dyno_agent_cpu_nif:snapshot()}, ...], [dyno_agent_cpu_nif:range()]) ->
    {ok, dyno_agent_cpu_nif:layout()} | {error, reason()}.
find(All, Code) ->
    Snapshots = [Snapshot || {{Snapshot, _, _}, _} <- All],
    maybe
        true ?= lists:all(fun({_, _, Words, _, _, _}) -> Words =/= <<>> end, Snapshots) orelse
            {error, no_reading},
        true ?= lists:all(fun({_, IsCaller, _, _, _, _}) -> IsCaller =:= 1 end, Snapshots) orelse
            {error, not_the_process},
        true ?= lists:all(fun has_stack/1, Snapshots) orelse {error, no_alternate_stack},
        {ok, {Key, Current}} ?= only(running_process, [places(Seen) || Seen <- All]),
        {ok, {Heap, Stop, Hend}} ?= only(stack, [stacks(Seen, Code) || {Seen, _} <- All]),
        {ok, {Key, Current, Heap, Stop, Hend, next([nexts(Seen, Code) || {Seen, _} <- All])}}
    end.

has_stack({_, _, _, _, Bytes, _}) -> Bytes >= ?STACK_BYTES.

next(Places) -> hd(ordsets:intersection(Places) ++ [-1]).

only(What, Places) ->
    case ordsets:intersection(Places) of
        [Found] -> {ok, Found};
        [] -> {error, {not_found, What}};
        [_ | _] -> {error, {several, What}}
    end.

places({{{Process, _, _, _, _, Keys}, _, _}, {_, _, _, _, _, Dirty}}) ->
    ordsets:intersection(with(Process, Keys), with(Process, Dirty)).

with(Process, Keys) ->
    lists:usort([
        {Key, Place}
     || {Key, Words} <- Keys, {Place, Word} <- words(Words), Word =:= Process
    ]).

words(Words) ->
    lists:zip(lists:seq(0, byte_size(Words) - ?WORD, ?WORD), [Word || <<Word:64/native>> <= Words]).

stacks({{_, _, Words, Targets, _, _}, HeapWords, StackWords}, Code) ->
    Of = words(Words),
    Stops = [
        {Stop, At}
     || {{Stop, At}, {_, Target}} <- lists:zip(Of, words(Targets)), is_return(Target, Code)
    ],
    lists:usort([
        {Heap, Stop, Hend}
     || {Stop, At} <- Stops,
        {Hend, End} <- Of,
        (End - At) rem ?WORD =:= 0,
        (End - At) div ?WORD >= StackWords - ?LESS,
        (End - At) div ?WORD =< StackWords + ?MORE,
        {Heap, Begin} <- Of,
        Begin < At,
        End - Begin =:= HeapWords * ?WORD
    ]).

nexts({{_, _, Words, Targets, _, _}, _, _}, Code) ->
    [
        Place
     || {{Place, Word}, {_, Target}} <- lists:zip(words(Words), words(Targets)),
        is_in(Word, Code),
        Target band ?TAG =/= ?ATOM
    ].

is_return(Target, Code) -> Target band 3 =:= 0 andalso is_in(Target, Code).

is_in(Address, Code) ->
    lists:any(fun({Low, High}) -> Address >= Low andalso Address < High end, Code).
