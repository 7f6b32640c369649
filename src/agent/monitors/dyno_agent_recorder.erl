%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_recorder).
-moduledoc false.
%% A monitor that decides nothing, and writes down what others are to decide on later: what
%% `dyno verify --record` adds to them. The file is written in the node, by a process of this module's
%% name: dyno_verify_target starts it (a dyno_stream) before the first event, and ends it after the
%% last one, which tells whether all is kept. dyno_verify_log reads the file.

-export([header/0, frame/1, init/1, event/3]).

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

%% As dyno_stream:write/2, which is above the agent.
write(Term) ->
    case gen_server:call(?MODULE, {write, iolist_to_binary(frame(Term))}, infinity) of
        ok -> ok;
        {error, Reason} -> error({cannot_record, Reason})
    end.
