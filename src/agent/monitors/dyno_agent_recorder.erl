%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_recorder).
-moduledoc false.
%% A monitor that decides nothing, and writes down what others are to decide on later: what
%% `dyno verify --record` adds to them. It writes in the node, in the process that runs it, of which
%% there must be one; the file is whole when that process has ended. dyno_verify_log reads it.

-export([header/0, frame/1, init/2, event/4]).

-opaque state() :: {first, dyno_agent_event:process()} | pid().
-export_type([state/0]).

-define(DELAY_BYTES, 1 bsl 18).
-define(DELAY_MS, 200).

-doc "What a file begins with.".
-spec header() -> binary().
header() -> ~"dyno events 1\n".

-doc "A term in a file.".
-spec frame(term()) -> [binary(), ...].
frame(Term) ->
    Binary = term_to_binary(Term),
    [<<(byte_size(Binary)):32>>, Binary].

-spec init(file:filename_all(), dyno_agent_event:process()) -> state().
init(_File, Process) -> {first, Process}.

-spec event(file:filename_all(), dyno_agent_event:event(), integer(), state()) -> {next, state()}.
event(File, Event, TimeNs, {first, #{pid := Pid} = Process}) ->
    case Event of
        {spawned, _, _} -> ok;
        _ -> ok = file:write(file(File), frame({process, Process, TimeNs}))
    end,
    event(File, Event, TimeNs, Pid);
event(File, Event, TimeNs, Pid) ->
    ok = file:write(file(File), frame({Pid, Event, TimeNs})),
    {next, Pid}.

%% Open for as long as this process lives.
file(File) ->
    case get({?MODULE, File}) of
        undefined ->
            case file:open(File, [write, raw, {delayed_write, ?DELAY_BYTES, ?DELAY_MS}]) of
                {ok, Fd} ->
                    ok = file:write(Fd, header()),
                    undefined = put({?MODULE, File}, Fd),
                    Fd;
                {error, Why} ->
                    error({cannot_record, File, Why})
            end;
        Fd ->
            Fd
    end.
