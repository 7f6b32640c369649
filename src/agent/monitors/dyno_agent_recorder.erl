%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_recorder).
-moduledoc false.
%% A monitor that decides nothing, and writes down what others are to decide on later: what
%% `dyno verify --record` adds to them. The file is written in the node, by a process of a fixed
%% name: dyno opens the file before the first event, and closes it after the last one, which tells
%% whether all is kept. dyno_verify_log reads it.

-export([header/0, frame/1, open/2, close/0, init/1, event/3]).

-opaque state() :: {first, dyno_agent_event:process()} | pid().
-export_type([state/0]).

-doc "What a file begins with.".
-spec header() -> binary().
header() -> ~"dyno events 1\n".

-doc "A term in a file.".
-spec frame(term()) -> [binary(), ...].
frame(Term) ->
    Binary = term_to_binary(Term),
    [<<(byte_size(Binary)):32>>, Binary].

-doc "Opens the file; without `close/0` it is closed when this process ends.".
-spec open(file:filename_all(), pid()) -> ok | {error, dyno_file:reason()}.
open(File, Owner) ->
    maybe
        {ok, _} ?= dyno_stream:open(File, #{owner => Owner, name => ?MODULE}),
        dyno_stream:write(?MODULE, header())
    end.

-doc "Closes the file; an error tells what of it is not kept.".
-spec close() -> ok | {error, dyno_file:reason()}.
close() -> dyno_stream:close(?MODULE).

-spec init(dyno_agent_event:process()) -> state().
init(Process) -> {first, Process}.

-spec event(dyno_agent_event:event(), integer(), state()) -> {next, state()}.
event(Event, TimeNs, {first, #{pid := Pid} = Process}) ->
    case Event of
        {spawned, _, _} -> ok;
        _ -> write({process, Process, TimeNs})
    end,
    event(Event, TimeNs, Pid);
event(Event, TimeNs, Pid) ->
    write({Pid, Event, TimeNs}),
    {next, Pid}.

write(Term) ->
    case dyno_stream:write(?MODULE, frame(Term)) of
        ok -> ok;
        {error, Reason} -> error({cannot_record, Reason})
    end.
