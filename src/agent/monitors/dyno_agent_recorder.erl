%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_recorder).
-moduledoc false.
%% A monitor that decides nothing, and writes down what others are to decide on later: what
%% `dyno verify --record` adds to them. The file is written in the node, by a process of this module's
%% name: dyno_verify_target starts it (a dyno_stream) before the first event, and ends it after the
%% last one, which tells whether all is kept. dyno_verify_log reads the file.

-export([header/0, frame/1, init/1, event/3, ended/1]).

-opaque state() :: pid().
-export_type([state/0]).

%% Deadlines are told so much later (dyno_agent_event_shard).
-define(GRACE_NS, 20_000_000).

-doc "What a file begins with.".
-spec header() -> binary().
header() -> ~"dyno events 1\n".

-doc "A term in a file.".
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

-doc """
Until when deadlines were looked at, and whether processes were cut off: then those that have not
ended in the file show nothing. Whether it is kept the end of the file says.
""".
-spec ended(whole | cut_off) -> ok.
ended(Whole) ->
    TimeNs = erlang:monotonic_time(nanosecond) - ?GRACE_NS,
    _ = [written({gap, TimeNs}) || Whole =:= cut_off],
    _ = written({time, TimeNs}),
    ok.

write(Term) ->
    case written(Term) of
        ok -> ok;
        {error, Reason} -> error({cannot_record, Reason})
    end.

%% As dyno_stream:write/2, which is above the agent.
written(Term) ->
    gen_server:call(?MODULE, {write, iolist_to_binary(frame(Term))}, infinity).
