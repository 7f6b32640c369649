%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_server_end).
-moduledoc false.
%% How a measured process ended. The exception or stop counts for the callback under way, or for the
%% one that the exception's stack shows, with its time if known.

-export([ended/4, name/3]).
-export_type([how/0]).

-doc "`unknown`: it had ended before the monitor, without a word, as one that is killed.".
-type how() :: ended | crashed | unknown.

-spec ended(Reason, dyno_agent_server_life:ending() | none, One, Shared) -> One when
    Reason :: term(),
    One :: dyno_agent_server_process:t(),
    Shared :: dyno_agent_server_hook:shared().
ended(Reason, Ending, #{counters := Counters, server := Server} = One, Shared) ->
    #{pid := Pid} = Server,
    How = how(Reason, Ending),
    UnderWay = dyno_agent_server_counters:under_way(Counters),
    Last =
        case last(UnderWay, Ending, {How, Reason}, Shared) of
            {Series, Outcome, Taken} -> {named(Pid, Series, Shared), Outcome, Taken};
            {raised, Taken} -> raised(Reason, Server, Taken);
            none -> none
        end,
    dyno_agent_server_process:ended(How, told(Reason, Ending), Last, terminated(Ending, One)).

told(noproc, {{init, _} = Why, _, _}) -> Why;
told(Reason, _Ending) -> Reason.

how(normal, _Ending) -> ended;
how(shutdown, _Ending) -> ended;
how({shutdown, _}, _Ending) -> ended;
%% The process had ended before the monitor: the reason is unknown.
how(noproc, none) -> unknown;
how(noproc, {stop, _, _}) -> ended;
how(noproc, {_Fails, _, _}) -> crashed;
how(_Reason, _Ending) -> crashed.

terminated({_, _, Ns}, #{server := #{module := Module}} = One) when is_integer(Ns) ->
    case erlang:function_exported(Module, terminate, 2) of
        true -> dyno_agent_server_process:observe(~"terminate", returned, Ns, One);
        false -> One
    end;
terminated(_Unknown, One) ->
    One.

%% In the callback that began and did not end: until the call of terminate, or until now.
last({begun, Since, Series}, {How, At, _}, _Reason, #{clock := Clock}) ->
    {Series, outcome(How), max(0, At - Clock - Since)};
%% A reply is sent after terminate.
last({ended, End, Series}, {How, At, _}, _Reason, #{clock := Clock}) when
    How =:= stop orelse How =:= failed, End >= At - Clock
->
    {Series, stop, counted};
last({begun, _Since, _Series}, none, {How, Reason}, _Shared) when
    How =:= unknown; Reason =:= killed
->
    none;
last({begun, Since, Series}, none, {How, _Reason}, #{clock := Clock}) ->
    Outcome = map_get(How, #{crashed => exception, ended => stop}),
    {Series, Outcome, max(0, erlang:monotonic_time(nanosecond) - Clock - Since)};
last(none, _Ending, {crashed, _Reason}, _Shared) ->
    {raised, counted};
last({ended, _, _}, _Ending, {crashed, _Reason}, _Shared) ->
    {raised, unknown};
last(_NoCallback, _Ending, _Reason, _Shared) ->
    none.

outcome(failed) -> stop;
outcome(How) -> How.

raised({_Exception, [_ | _] = Stack}, #{module := Module}, Taken) ->
    Callbacks = [handle_call, handle_cast, handle_info, handle_continue],
    case [F || {M, F, _, _} <- Stack, M =:= Module, lists:member(F, Callbacks)] of
        [] -> none;
        Functions -> {{lists:last(Functions), none}, exception, Taken}
    end;
raised(_Reason, _Server, _Taken) ->
    none.

-spec name(pid(), dyno_agent_server_counters:series(), dyno_agent_server_hook:shared()) -> binary().
name(Pid, Series, Shared) ->
    {Callback, _} = named(Pid, Series, Shared),
    dyno_agent_server_process:callback_name(Callback).

named(Pid, Series, Shared) ->
    maps:get(Series, dyno_agent_server_names:names(Pid, Shared), {'(other)', none}).
