%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_inline).
-moduledoc """
What woven code calls (`m:dyno_inline`) while dyno monitors: the monitors run in the process that
they monitor, before it does what they are told of.

Woven code finds this module by a persistent term, and needs nothing of it else. If `stop` is
configured, a process that is about to break a property exits with `{dyno_verify, Report}` instead,
before the message is sent.

Unlike under tracing, `receive` is a message that a clause took, not one that arrived.
""".

-export([event/1]).
-export([start/1, stop/0]).

-doc "What runs in each process: the partitions, yet without any, and where its effects go.".
-type config() :: #{
    partitions := dyno_agent_partition:t(), verdicts := dyno_agent_verdicts:t(), stop := boolean()
}.

-define(KEY, ?MODULE).
%% What woven modules look up.
-define(HOOK, dyno_inline).
%% How long a monitor may take to return when dyno leaves.
-define(LEAVE_MS, 5000).
-define(LOOK_MS, 10).

-doc "Monitors run from now on, in processes that start from now on.".
-spec start(config()) -> ok.
start(Config) ->
    ok = persistent_term:put(?KEY, Config#{id => make_ref(), inside => counters:new(1, [])}),
    persistent_term:put(?HOOK, fun ?MODULE:event/1).

-doc """
They run no more. Returns when no process is in here: the module is removed next, and whoever ran it
would be killed.
""".
-spec stop() -> ok.
stop() ->
    _ = persistent_term:erase(?HOOK),
    case persistent_term:get(?KEY, none) of
        none ->
            ok;
        #{inside := Inside} ->
            ok = left(Inside, ?LEAVE_MS),
            _ = persistent_term:erase(?KEY),
            ok
    end.

%% Twice, for who was about to enter.
left(Inside, LeftMs) ->
    timer:sleep(?LOOK_MS),
    case counters:get(Inside, 1) of
        0 -> timer:sleep(?LOOK_MS);
        _ when LeftMs > 0 -> left(Inside, LeftMs - ?LOOK_MS);
        _ -> ok
    end.

-doc "An event of the calling process.".
-spec event(dyno_agent_event:event()) -> ok.
event(Event) ->
    case persistent_term:get(?KEY, none) of
        none ->
            ok;
        #{inside := Inside} = Config ->
            ok = counters:add(Inside, 1, 1),
            try
                event(Event, Config)
            after
                counters:sub(Inside, 1, 1)
            end
    end.

%% A process has partitions from `spawned` on, while monitors want it, and while this dyno is there.
event(Event, #{verdicts := Verdicts, partitions := None, id := Id} = Config) ->
    case {get(?KEY), Event} of
        {{Id, Partitions}, _} ->
            ok = dyno_agent_verdicts:event(1, Verdicts),
            event(Event, Partitions, Config);
        {_, {spawned, _, _}} ->
            event(Event, None, Config);
        {undefined, _} ->
            ok;
        {_Former, _} ->
            _ = erase(?KEY),
            ok
    end.

event(Event, Partitions, #{verdicts := Verdicts, stop := Stop, id := Id}) ->
    TimeNs = erlang:monotonic_time(nanosecond),
    {Next, Effects} = dyno_agent_partition:event(self(), Event, TimeNs, Partitions),
    _ =
        case dyno_agent_partition:is_open(self(), Next) of
            true -> put(?KEY, {Id, Next});
            false -> erase(?KEY)
        end,
    ok = dyno_agent_verdicts:effects(Effects, 1, Verdicts),
    case [Report || {verdict, #{verdict := no} = Report} <- Effects] of
        [Report | _] when Stop -> exit({dyno_verify, Report});
        _ -> ok
    end.
