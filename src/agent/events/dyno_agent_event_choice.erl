%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_event_choice).
-moduledoc """
Which monitors a process has, by what it runs, and by its name and label.

`of_process/2` is pure and takes a few lookups, however many monitors there are: each new process of
the node is asked about.
""".

-export([new/2, of_process/2, of_selector/2, is_late/1, wants_new/1, labels/1, functions/1]).
-export([describe/1]).
-export_type([t/0]).

-opaque t() :: #{dyno_agent_monitor:selector() => [module(), ...]}.

-doc """
The choice of monitors: their own, or that of the configuration. The modules of applications are
those of this node.
""".
-spec new([module()], #{select => [dyno_agent_monitor:selector()], atom() => term()}) -> t().
new(Monitors, Config) ->
    maps:groups_from_list(
        fun({Selector, _}) -> Selector end,
        fun({_, Monitor}) -> Monitor end,
        lists:uniq([
            {Resolved, Monitor}
         || Monitor <- Monitors,
            #{select := Own} <- [dyno_agent_monitor:needs(Monitor)],
            Selector <- maps:get(select, Config, Own),
            Resolved <- resolved(Selector)
        ])
    ).

resolved({application, App}) ->
    _ = application:load(App),
    case application:get_key(App, modules) of
        {ok, Modules} -> [{module, Module} || Module <- Modules];
        undefined -> []
    end;
resolved(Selector) ->
    [Selector].

-doc "The monitors of a process.".
-spec of_process(dyno_agent_event:process(), t()) -> [module()].
of_process(#{pid := Pid, initial_call := {M, F, A}} = Process, Choice) ->
    Keys = [
        {function, M, F, A},
        {function, M, F, '_'},
        {module, M},
        {pid, Pid}
        | [{registered, Name} || #{name := Name} <- [Process]] ++
            [{label, Label} || #{label := Label} <- [Process]]
    ],
    case [Monitors || Key <- Keys, #{Key := Monitors} <- [Choice]] of
        [] -> [];
        [Monitors] -> Monitors;
        Several -> lists:uniq(lists:append(Several))
    end.

-doc "The monitors of whatever has a name or a label.".
-spec of_selector(dyno_agent_monitor:selector(), t()) -> [module()].
of_selector(Selector, Choice) -> maps:get(Selector, Choice, []).

-doc "Whether a process may be chosen after its start, by a name or label that it takes.".
-spec is_late(t()) -> boolean().
is_late(Choice) -> has([registered, label], Choice).

-doc "Whether a label may choose a process.".
-spec labels(t()) -> boolean().
labels(Choice) -> has([label], Choice).

-doc "Whether what it runs may choose a process.".
-spec functions(t()) -> boolean().
functions(Choice) -> has([function, module], Choice).

-doc "Whether a process that is yet to come may be chosen.".
-spec wants_new(t()) -> boolean().
wants_new(Choice) -> has([function, module, registered, label], Choice).

has(Kinds, Choice) ->
    lists:any(fun(Selector) -> lists:member(element(1, Selector), Kinds) end, maps:keys(Choice)).

-doc """
What is known of a process that runs already; `gone` where it has ended. The runtime doesn't say
which fun a process was spawned with: without proc_lib it is `{erlang, apply, 2}`.

## Cost
One signal, which wakes the process.
""".
-spec describe(pid()) -> dyno_agent_event:process() | gone.
describe(Pid) ->
    Items = [initial_call, {dictionary, '$initial_call'}, registered_name, label, parent],
    case process_info(Pid, Items) of
        undefined ->
            gone;
        [{_, Call}, {_, Initial}, {_, Name}, {_, Label}, {_, Parent}] ->
            {Behaviour, MFA} = initial(Initial, Call),
            maps:from_list(
                [
                    {pid, Pid},
                    {initial_call, MFA},
                    {partial, true},
                    {since_ns, erlang:monotonic_time(nanosecond)}
                ] ++
                    [{behaviour, Behaviour} || Behaviour =/= none] ++
                    [{name, Name} || is_atom(Name)] ++
                    [{label, Label} || Label =/= undefined] ++
                    [{parent, Parent} || is_pid(Parent)]
            )
    end.

%% A supervisor's is {supervisor, Module, 1}.
initial({supervisor, Module, 1}, _Call) -> {supervisor, {Module, init, 1}};
initial({M, F, A}, _Call) when is_atom(M), is_atom(F) -> {none, fun_or_function({M, F, A})};
initial(_None, Call) -> {none, Call}.

fun_or_function({M, F, A}) ->
    dyno_agent_event:mfa(dyno_agent_event:written_in(M, F, lists:duplicate(A, '_'))).
