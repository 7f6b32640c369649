%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_inline).
-moduledoc """
The functions that woven code (`m:dyno_inline`) calls, found by a persistent term: monitors run in
the process that they monitor, before each monitored action.

With `stop`, a process that is about to break a property exits with `{dyno_verify, Report}` before
it sends the message. Unlike under tracing, `receive` is a message that a clause took.

A waiting process checks no deadline: it leaves an entry in a table. When the time is over, another
process (`late/1`) asks it for its state and reports the result. The process itself catches up at
its next event:

    {Pid, DeadlineNs, Number}  -- late/1, if the number is still the same -->  {Pid, told, NowNs}
""".

-export([event/1]).
-export([start/1, late/1, stop/0]).

-doc "The initial partitions of each process, without any process, and the receiver of effects.".
-type config() :: #{
    partitions := dyno_agent_partition:t(),
    verdicts := dyno_agent_verdicts:t(),
    stop := boolean(),
    %% Deadlines; public.
    due := ets:table() | none
}.

-define(KEY, ?MODULE).
-define(HOOK, dyno_inline).
-define(LEAVE_MS, 1000).
-define(LOOK_MS, 10).

-doc "Monitors run from now on, in processes that start from now on.".
-spec start(config()) -> ok.
start(Config) ->
    %% Processes still in here from an earlier run.
    Inside =
        case persistent_term:get(?KEY, none) of
            #{inside := Before} -> Before;
            none -> counters:new(1, [])
        end,
    ok = persistent_term:put(?KEY, Config#{id => make_ref(), inside => Inside}),
    persistent_term:put(?HOOK, fun ?MODULE:event/1).

-doc """
Stops the monitors. Returns when no process is in here, or after a second. While a process is in
here, the term says so, and the cleaner (dyno_target_cleaner) removes no module: that would kill the
process.
""".
-spec stop() -> ok.
stop() ->
    _ = persistent_term:erase(?HOOK),
    case persistent_term:get(?KEY, none) of
        #{inside := Inside, partitions := _} ->
            _ =
                case left(Inside, ?LEAVE_MS) of
                    true -> persistent_term:erase(?KEY);
                    false -> persistent_term:put(?KEY, #{inside => Inside})
                end,
            ok;
        _ ->
            ok
    end.

%% Twice, for processes that were about to enter.
left(Inside, LeftMs) ->
    timer:sleep(?LOOK_MS),
    case counters:get(Inside, 1) of
        0 ->
            timer:sleep(?LOOK_MS),
            counters:get(Inside, 1) =:= 0;
        _ ->
            LeftMs > 0 andalso left(Inside, LeftMs - ?LOOK_MS)
    end.

-doc "An event of the calling process.".
-spec event(dyno_agent_event:event()) -> ok.
event(Event) ->
    case persistent_term:get(?KEY, none) of
        #{inside := Inside, partitions := _} = Config ->
            ok = counters:add(Inside, 1, 1),
            try
                event(Event, Config)
            after
                counters:sub(Inside, 1, 1)
            end;
        _ ->
            ok
    end.

%% A process has partitions from `spawned` on, while monitors need it and this dyno runs.
event(Event, #{verdicts := Verdicts, partitions := None, id := Id} = Config) ->
    case {get(?KEY), Event} of
        {{Id, _, Partitions}, _} ->
            ok = dyno_agent_verdicts:event(Verdicts),
            event(Event, caught_up(Partitions, Config), Config);
        {_, {spawned, _, _}} ->
            event(Event, None, Config);
        {undefined, _} ->
            ok;
        {_Former, _} ->
            _ = erase(?KEY),
            ok
    end.

event(Event, Partitions, #{verdicts := Verdicts, stop := Stop, id := Id} = Config) ->
    TimeNs = erlang:monotonic_time(nanosecond),
    {Next, Effects} = dyno_agent_partition:event(self(), Event, TimeNs, Partitions),
    _ =
        case dyno_agent_partition:is_open(self(), Next) of
            true -> keep(Id, Next, Config);
            false -> erase(?KEY)
        end,
    ok = dyno_agent_verdicts:effects(Effects, Verdicts),
    case [Report || {verdict, #{verdict := no} = Report} <- Effects] of
        [Report | _] when Stop -> exit({dyno_verify, Report});
        _ -> ok
    end.

%% The process's state is stored before its entry.
keep(Id, Partitions, #{due := none}) ->
    put(?KEY, {Id, 0, Partitions});
keep(Id, Partitions, #{due := Due}) ->
    Number = erlang:unique_integer(),
    _ = put(?KEY, {Id, Number, Partitions}),
    case dyno_agent_partition:next(Partitions) of
        infinity -> true;
        DeadlineNs -> of_table(fun() -> ets:insert(Due, {self(), DeadlineNs, Number}) end)
    end.

%% Reported deadlines are not reported again.
caught_up(Partitions, #{due := none}) ->
    Partitions;
caught_up(Partitions, #{due := Due}) ->
    case of_table(fun() -> ets:take(Due, self()) end) of
        [{_, told, NowNs}] -> element(1, dyno_agent_partition:timeouts(NowNs, Partitions));
        _ -> Partitions
    end.

%% The table is gone when dyno is about to leave.
of_table(Use) ->
    try
        Use()
    catch
        error:badarg -> gone
    end.

-doc "Reports the processes whose deadlines are over. Waits for each answer.".
-spec late(config()) -> ok.
late(#{due := Due, verdicts := Verdicts}) ->
    NowNs = erlang:monotonic_time(nanosecond) - dyno_agent_property:grace_ns(),
    Late = ets:select(Due, [
        {{'_', '$1', '_'}, [{is_integer, '$1'}, {'=<', '$1', NowNs}], ['$_']}
    ]),
    lists:foreach(fun(Entry) -> late(Entry, NowNs, Due, Verdicts) end, Late).

late({Pid, _, Number} = Entry, NowNs, Due, Verdicts) ->
    case process_info(Pid, {dictionary, ?KEY}) of
        {_, {_, Number, Partitions}} ->
            {_, Effects} = dyno_agent_partition:timeouts(NowNs, Partitions),
            Told = [{Entry, [], [{const, {Pid, told, NowNs}}]}],
            case ets:select_replace(Due, Told) of
                1 -> dyno_agent_verdicts:effects(Effects, Verdicts);
                0 -> ok
            end;
        undefined ->
            true = ets:delete(Due, Pid),
            ok;
        _ ->
            ok
    end.
