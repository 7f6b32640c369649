%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_process_choice).
-moduledoc """
Which processes are meant, be they servers or not: by their name, module, application and so on, as
dyno_agent_server_choice has it, or all that are started from now on.
""".

-export([new/1, is_chosen/2, is_everything/1]).
-export_type([t/0, selector/0]).

-type selector() :: new | dyno_agent_servers:selector().

-opaque t() ::
    everything | #{selectors := [dyno_agent_servers:selector()], before := #{pid() => true} | none}.

-doc "The processes that one of the selectors means; all where there is none.".
-spec new([selector()]) -> t().
new([]) ->
    everything;
new(Selectors) ->
    Before =
        case lists:member(new, Selectors) of
            true -> maps:from_keys(processes(), true);
            false -> none
        end,
    #{selectors => lists:delete(new, Selectors), before => Before}.

-doc "Whether all are meant.".
-spec is_everything(t()) -> boolean().
is_everything(Choice) -> Choice =:= everything.

-doc """
Whether a process is meant; not where it has ended.

## Cost
A signal, which the process answers at the end of its time slice.
""".
-spec is_chosen(pid(), t()) -> boolean().
is_chosen(_Pid, everything) ->
    true;
is_chosen(Pid, #{before := #{} = Before}) when not is_map_key(Pid, Before) ->
    true;
is_chosen(_Pid, #{selectors := []}) ->
    false;
is_chosen(Pid, #{selectors := Selectors}) ->
    case dyno_agent_server_choice:describe(Pid, #{}) of
        {gone, _} -> false;
        {none, _} -> is_other(Pid, Selectors);
        {Server, _} -> dyno_agent_server_choice:is_chosen(Server, Selectors)
    end.

%% What is no server has the same properties, but for the behaviour.
is_other(Pid, Selectors) ->
    Items = [
        registered_name, label, initial_call, current_stacktrace,
        {dictionary, '$initial_call'}, {dictionary, '$ancestors'}
    ],
    case process_info(Pid, Items) of
        undefined ->
            false;
        [{_, Name}, {_, Label}, {_, Call}, {_, Stack}, {_, Initial}, {_, Ancestors}] ->
            Process = #{
                pid => Pid,
                kind => module,
                name => ~"",
                registered => registered(Name),
                label => Label,
                module => module(Initial, Call, Stack),
                behaviour => none,
                application => application(Pid),
                ancestors => [Of || is_list(Ancestors), Of <- Ancestors],
                system => false
            },
            dyno_agent_server_choice:is_chosen(Process, Selectors)
    end.

registered([]) -> undefined;
registered(Name) -> Name.

%% A process that runs a fun is of the outermost function that its stack shows.
module({Module, _, _}, _Call, _Stack) -> Module;
module(_None, {erlang, apply, 2}, [_ | _] = Stack) -> element(1, lists:last(Stack));
module(_None, {Module, _, _}, _Stack) -> Module.

application(Pid) ->
    case application:get_application(Pid) of
        {ok, Name} -> Name;
        undefined -> undefined
    end.
