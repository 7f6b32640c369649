%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_reports_SUITE).
-moduledoc "The runtime's reports end without harm to the node, however their owner ends.".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

suite() -> [{timetrap, {minutes, 1}}].

all() -> [killed_owners_do_not_crash_the_node].

-define(WORKERS, 6).
-define(ROUNDS, 100).

%% If a report comes as the session goes with its last holder, OTP 29.1.1 crashes: without a second
%% holder the node ended within a second. On a busy machine there are fewer rounds.
killed_owners_do_not_crash_the_node(_Config) ->
    Paths = [filename:dirname(code:which(M)) || M <- [dyno_agent_reports, ?MODULE]],
    {ok, Peer, Node} = peer:start_link(#{connection => standard_io, args => ["-pa" | Paths]}),
    EndMs = erlang:monotonic_time(millisecond) + 5000,
    Owners = peer:call(Peer, ?MODULE, kill_owners, [5000], 30_000),
    ct:pal("~b owners on ~ts, ~b ms left", [
        Owners, Node, EndMs - erlang:monotonic_time(millisecond)
    ]),
    ?assert(Owners > ?WORKERS),
    ok = peer:call(Peer, ?MODULE, none_left, []),
    peer:stop(Peer).

kill_owners(WithinMs) ->
    EndMs = erlang:monotonic_time(millisecond) + WithinMs,
    Collecting = spawn_link(fun() -> collect(lists:seq(1, 200_000)) end),
    Workers = [
        spawn_monitor(fun() -> exit({killed, kill_owners(?ROUNDS, EndMs, 0)}) end)
     || _ <- lists:seq(1, ?WORKERS)
    ],
    Killed = [
        receive
            {'DOWN', Ref, process, Pid, {killed, N}} -> N
        end
     || {Pid, Ref} <- Workers
    ],
    true = unlink(Collecting),
    true = exit(Collecting, kill),
    lists:sum(Killed).

collect(List) ->
    true = erlang:garbage_collect(),
    collect([hd(List) | tl(List)]).

kill_owners(0, _EndMs, Killed) ->
    Killed;
kill_owners(Left, EndMs, Killed) ->
    case erlang:monotonic_time(millisecond) > EndMs of
        true ->
            Killed;
        false ->
            Self = self(),
            {Owner, Ref} = spawn_monitor(fun() ->
                _ = dyno_agent_reports:open(1),
                Self ! {opened, self()},
                receive
                    never -> ok
                end
            end),
            receive
                {opened, Owner} -> exit(Owner, kill)
            end,
            receive
                {'DOWN', Ref, process, Owner, _} -> ok
            end,
            ok = few_sessions(8),
            kill_owners(Left - 1, EndMs, Killed + 1)
    end.

none_left() -> few_sessions(0).

%% Otherwise the sessions to remove become so many that the runtime hardly does anything else.
few_sessions(Most) ->
    Sessions = trace:session_info(all),
    case length([Name || {Name, _} <- Sessions, Name =:= dyno_agent_reports]) > Most of
        true ->
            timer:sleep(1),
            few_sessions(Most);
        false ->
            ok
    end.
