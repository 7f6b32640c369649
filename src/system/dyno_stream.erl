%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_stream).
-moduledoc """
Files that grow, an entry at a time: traces, events.

A process holds the file, for several writers, and writes within 200 ms of an entry. Until the first
entry an old file stays: a measurement that fails early leaves nothing. Entries are kept whole or
not at all. After a failed write (the disk is full) no later entry is written, and `close/1` returns
the numbers of written and of all entries. The file is also completed if its opener ends.
""".

-behaviour(gen_server).

-export([open/2, write/2, close/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).
-export_type([stream/0, options/0]).

-type stream() :: pid() | atom().

-type options() :: #{
    %% The file's first entry.
    header => iodata(),
    %% Default: the caller.
    owner => pid(),
    name => atom()
}.

-type state() :: #{
    path := file:filename_all(),
    %% Opened by the first entry.
    file := file:fd() | none,
    owner := reference(),
    %% The end of the last whole entry.
    at := non_neg_integer(),
    %% Entries to be written, newest first.
    waiting := [binary()],
    bytes := non_neg_integer(),
    kept := non_neg_integer(),
    entries := non_neg_integer(),
    fault :=
        none
        | {cut | closed, file:posix() | badarg | terminated | system_limit}
        | {not_open, dyno_file:reason()}
}.

-define(BUFFER_BYTES, 65_536).
-define(DELAY_MS, 200).

-doc "Opens the stream; the first entry replaces an old file.".
-spec open(file:filename_all(), options()) -> {ok, pid()} | {error, dyno_file:reason()}.
open(Path, Options) ->
    Argument = {Path, maps:merge(#{owner => self()}, Options)},
    Started =
        case Options of
            #{name := Name} -> gen_server:start({local, Name}, ?MODULE, Argument, []);
            #{} -> gen_server:start(?MODULE, Argument, [])
        end,
    case Started of
        {ok, Pid} -> {ok, Pid};
        {error, {shutdown, Reason}} -> {error, Reason}
    end.

-doc "Adds an entry; an error means that this or an earlier entry could not be written.".
-spec write(stream(), iodata()) -> ok | {error, dyno_file:reason()}.
write(Stream, Entry) ->
    gen_server:call(Stream, {write, iolist_to_binary(Entry)}, infinity).

-doc "Writes the rest, and closes the file.".
-spec close(stream()) -> ok | {error, dyno_file:reason()}.
close(Stream) ->
    gen_server:call(Stream, close, infinity).

%% The process

-doc false.
-spec init({file:filename_all(), options()}) -> {ok, state()} | {stop, {shutdown, term()}}.
init({Path, #{owner := Owner} = Options}) ->
    case dyno_file:writable(Path) of
        ok ->
            Waiting = [iolist_to_binary(Header) || #{header := Header} <- [Options]],
            {ok, #{
                path => Path,
                file => none,
                owner => monitor(process, Owner),
                at => 0,
                waiting => Waiting,
                bytes => 0,
                kept => 0,
                entries => length(Waiting),
                fault => none
            }};
        {error, Reason} ->
            {stop, {shutdown, Reason}}
    end.

-doc false.
-spec handle_call({write, binary()} | close, gen_server:from(), state()) ->
    {reply, ok | {error, dyno_file:reason()}, state()}
    | {stop, normal, ok | {error, dyno_file:reason()}, state()}.
handle_call({write, Entry}, _From, #{entries := Entries} = State) ->
    Added = added(Entry, open(State#{entries := Entries + 1})),
    {reply, result(Added), Added};
handle_call(close, _From, State) ->
    Closed = closed(State),
    {stop, normal, result(Closed), Closed}.

-doc false.
-spec handle_cast(term(), state()) -> {noreply, state()}.
handle_cast(_Message, State) ->
    {noreply, State}.

-doc false.
-spec handle_info(term(), state()) -> {noreply, state()} | {stop, normal, state()}.
handle_info(flush, State) ->
    {noreply, flushed(State)};
handle_info({'DOWN', Owner, process, _, _}, #{owner := Owner} = State) ->
    {stop, normal, closed(State)};
handle_info(_Message, State) ->
    {noreply, State}.

open(#{file := none, fault := none, path := Path, waiting := Header} = State) ->
    maybe
        {ok, File} ?= dyno_file:open(Path, private),
        {ok, At} = file:position(File, eof),
        _ = [erlang:send_after(?DELAY_MS, self(), flush) || Header =/= []],
        State#{file := File, at := At, bytes := iolist_size(Header)}
    else
        {error, Reason} -> State#{fault := {not_open, Reason}}
    end;
open(State) ->
    State.

added(_Entry, #{fault := {_, _}} = State) ->
    State;
added(Entry, #{waiting := Waiting, bytes := Bytes} = State) ->
    _ = [erlang:send_after(?DELAY_MS, self(), flush) || Waiting =:= []],
    Added = State#{waiting := [Entry | Waiting], bytes := Bytes + byte_size(Entry)},
    case Added of
        #{bytes := Full} when Full >= ?BUFFER_BYTES -> flushed(Added);
        #{} -> Added
    end.

flushed(#{waiting := Waiting, bytes := Bytes, file := File} = State) ->
    #{at := At, kept := Kept} = State,
    Emptied = State#{waiting := [], bytes := 0},
    case file:write(File, lists:reverse(Waiting)) of
        ok -> Emptied#{at := At + Bytes, kept := Kept + length(Waiting)};
        {error, Reason} -> as_many_as_fit(lists:reverse(Waiting), Emptied, Reason)
    end.

%% The file ends with the last whole entry.
as_many_as_fit([Entry | Entries], State, Reason) ->
    #{file := File, at := At, kept := Kept} = State,
    maybe
        {ok, At} ?= file:position(File, At),
        ok ?= file:truncate(File),
        ok ?= file:write(File, Entry),
        as_many_as_fit(Entries, State#{at := At + byte_size(Entry), kept := Kept + 1}, Reason)
    else
        _ ->
            _ = file:position(File, At),
            _ = file:truncate(File),
            State#{fault := {cut, Reason}}
    end;
as_many_as_fit([], State, _Reason) ->
    State.

closed(#{file := none} = State) ->
    State;
closed(State) ->
    #{file := File} = Flushed = flushed(State),
    Synced = file:datasync(File),
    case {file:close(File), Synced, Flushed} of
        {ok, ok, _} -> Flushed;
        {_, _, #{fault := {_, _}}} -> Flushed;
        {{error, Reason}, _, _} -> Flushed#{fault := {closed, Reason}};
        {ok, {error, Reason}, _} -> Flushed#{fault := {closed, Reason}}
    end.

result(#{fault := none}) ->
    ok;
result(#{fault := {cut, Reason}, path := Path, kept := Kept, entries := Entries}) ->
    {error, {cut, Path, Reason, Kept, Entries}};
%% The written part is unknown.
result(#{fault := {closed, Reason}, path := Path}) ->
    {error, {write, Path, Reason}};
result(#{fault := {not_open, Reason}}) ->
    {error, Reason}.
