%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_event_session).
-moduledoc false.
%% A trace session for events of processes: only of those that monitors need, filtered first.
%%
%% `new/1` traces processes that start later, each from its first event. `ignore/2` stops events of
%% an unwanted process, which costs two or three messages. No process is ever suspended. Nothing
%% relies on `trace:delivered/2`, which is no barrier for a running process.

-export([open/3, close/1, new/1, names/1, follow/2, ignore/2, is_traced/2]).
-export_type([t/0]).

-opaque t() :: #{
    handle := trace:session(),
    %% For processes with monitors, and for processes that may be chosen later.
    flags := [atom()],
    late := [atom()]
}.

-spec open(pid(), [dyno_agent_monitor:needs()], dyno_agent_process_filter:table(module())) -> t().
open(Tracer, Needs, Choice) ->
    Session = trace:session_create(?MODULE, Tracer, []),
    Filters = lists:append([Events || #{events := Events} <- Needs]),
    Labels = dyno_agent_process_filter:has([label], Choice),
    Calls =
        functions(Filters) ++ [{{proc_lib, set_label, 1}, []} || Labels] ++
            [
                {dyno_agent_event:task_starts(), []}
             || dyno_agent_process_filter:has([function, module], Choice),
                erlang:module_loaded('Elixir.Kernel')
            ],
    lists:foreach(fun({MFA, Spec}) -> calls(Session, MFA, Spec) end, Calls),
    ok = messages(Session, send, Filters),
    ok = messages(Session, 'receive', Filters),
    #{
        handle => Session,
        flags =>
            [procs, monotonic_timestamp] ++
            [Kind || Kind <- [send, 'receive'], lists:any(fun(F) -> is_of(Kind, F) end, Filters)] ++
            [call || Calls =/= []],
        late =>
            case dyno_agent_process_filter:has([registered, label], Choice) of
                true -> [procs, monotonic_timestamp] ++ [call || Labels];
                false -> []
            end
    }.

is_of(Kind, {Kind, _Heads}) -> true;
is_of(Kind, Filter) -> Filter =:= Kind.

%% All messages, if one monitor needs all.
messages(Session, Kind, Filters) ->
    Heads = [Heads || {Of, Heads} <- Filters, Of =:= Kind],
    Spec = [{Arguments, Guards, []} || {Arguments, Guards} <- lists:append(Heads)],
    _ =
        case lists:member(Kind, Filters) orelse Heads =:= [] orelse Kind of
            true -> 0;
            send -> trace:send(Session, Spec, []);
            'receive' -> trace:recv(Session, Spec, [])
        end,
    ok.

%% A function has one match specification for all monitors.
functions(Filters) ->
    Wanted = maps:groups_from_list(
        fun({MFA, _}) -> MFA end,
        fun({_, What}) -> What end,
        [{{M, F, A}, Heads} || {call, M, F, A, Heads} <- Filters] ++
            [{{M, F, A}, return} || {return, M, F, A} <- Filters]
    ),
    [{MFA, function(lists:usort(All))} || MFA := All <- Wanted].

function(All) ->
    case [What || What <- [return, undefined], lists:member(What, All)] of
        [return | _] -> [{'_', [], [{exception_trace}]}];
        [undefined] -> [];
        [] -> [{Arguments, Guards, []} || {Arguments, Guards} <- All]
    end.

calls(Session, {Module, _, _} = MFA, Spec) ->
    _ = code:ensure_loaded(Module),
    _ = trace:function(Session, MFA, Spec, [local]),
    ok.

-doc "Ends the session; the last traced events may still be on their way.".
-spec close(t() | none) -> ok.
close(none) ->
    ok;
close(#{handle := Session}) ->
    _ = trace:session_destroy(Session),
    ok.

-spec new(t()) -> ok.
new(#{flags := Flags} = Session) ->
    _ = switch(new, true, Flags, Session),
    ok.

-doc "Traces names and labels that running processes take, if these may choose a process.".
-spec names(t()) -> ok.
names(#{late := []}) ->
    ok;
names(#{late := Flags} = Session) ->
    _ = switch(existing, true, Flags, Session),
    ok.

-doc "Traces all needed events of a process; false if the process has ended.".
-spec follow(pid() | existing, t()) -> boolean().
follow(Pid, #{flags := Flags} = Session) ->
    switch(Pid, true, Flags, Session).

%% False if the process has ended or the session is closed.
switch(Who, How, Flags, #{handle := Session}) ->
    try flag(Who, How, Flags, Session) of
        _ -> true
    catch
        error:badarg -> false
    end.

flag(existing, How, Flags, Session) -> dyno_agent_flags:existing(Session, How, Flags);
flag(Who, How, Flags, Session) -> trace:process(Session, Who, How, Flags).

-doc "Stops the events of a process, except new names and labels.".
-spec ignore(pid() | existing, t()) -> ok.
ignore(Pid, #{late := Late} = Session) ->
    Off =
        case Late of
            [] -> [all];
            _ -> [send, 'receive', call] -- Late
        end,
    _ = switch(Pid, false, Off, Session),
    ok.

-spec is_traced(pid(), t()) -> boolean().
is_traced(Pid, #{handle := Session}) ->
    try trace:info(Session, Pid, flags) of
        {flags, [_ | _]} -> true;
        _ -> false
    catch
        error:badarg -> false
    end.
