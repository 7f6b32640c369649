%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_recorder).
-moduledoc false.
%% A monitor that decides nothing and records events for `dyno verify --record`. A dyno_stream of
%% this module's name writes the file in the node: dyno_verify_target starts it, and ends it after
%% the last event, which tells whether the file is complete.

-export([header/0, frame/1, init/1, event/3, ended/1]).

-opaque state() :: pid().
-export_type([state/0]).

-spec header() -> binary().
header() -> ~"dyno events 1\n".

-spec frame(term()) -> [binary(), ...].
frame(Term) ->
    Binary = term_to_binary(Term),
    [<<(byte_size(Binary)):32>>, Binary].

-spec init(dyno_agent_event:process()) -> state().
init(#{pid := Pid, partial := true} = Process) ->
    ok = write({process, Process, maps:get(since_ns, Process, erlang:monotonic_time(nanosecond))}),
    Pid;
init(#{pid := Pid}) ->
    Pid.

-spec event(dyno_agent_event:event(), integer(), state()) -> {next, state()}.
event(Event, TimeNs, Pid) ->
    ok = write({Pid, Event, TimeNs}),
    {next, Pid}.

-doc "Records the last deadline check, and whether processes were cut off: these lack an end.".
-spec ended(whole | cut_off) -> ok.
ended(Whole) ->
    TimeNs = erlang:monotonic_time(nanosecond) - dyno_agent_property:grace_ns(),
    _ = [written({gap, TimeNs}) || Whole =:= cut_off],
    _ = written({time, TimeNs}),
    ok.

write(Term) ->
    case written(Term) of
        ok -> ok;
        {error, Reason} -> error({cannot_record, Reason})
    end.

%% Like dyno_stream:write/2, which is above the agent.
written(Term) ->
    gen_server:call(?MODULE, {write, iolist_to_binary(frame(Term))}, infinity).
