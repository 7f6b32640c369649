%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_server_choice).
-moduledoc false.
%% Which processes are servers, what they are, and which of them are meant. What the runtime tells
%% of a process is asked for once, when it is new; the rest is pure.

-export([describe/2, ended/2, births/1, is_chosen/2, is_surely/2, is_unknown_stage/1]).
-export_type([server/0, applications/0]).

-doc "What a process is, as far as it is known without asking it.".
-type server() :: #{
    pid := pid(),
    name := binary(),
    kind := registered | label | module,
    registered := atom(),
    label := term(),
    module := module(),
    behaviour := dyno_agent_servers:behaviour() | none,
    application := atom(),
    ancestors := [atom() | pid()],
    %% Whether it is of kernel, stdlib or dyno.
    system := boolean(),
    %% Where its messages wait.
    queue => mailbox | own
}.

-define(SYSTEM, [kernel, stdlib]).
-define(LABEL_CHARACTERS, 80).
%% The callback module of a stage until the stage has told its own.
-define(GEN_STAGE, 'Elixir.GenStage').

-doc """
What was found out in one scan: the application of a group leader, and of modules whether they are
of OTP's base. Each takes a search.
""".
-type applications() :: #{pid() => atom(), module() => boolean()}.

-doc "What a process is; `none` where it is no server.".
-spec describe(pid(), applications()) -> {server() | none | gone, applications()}.
describe(Pid, Applications) ->
    Items = [
        registered_name, label, group_leader, current_stacktrace,
        {dictionary, '$initial_call'}, {dictionary, '$ancestors'}
    ],
    case process_info(Pid, Items) of
        undefined ->
            {gone, Applications};
        [_, _, {group_leader, Leader} | _] = Info ->
            Application =
                case Applications of
                    #{Leader := Known} -> Known;
                    #{} -> application(Pid)
                end,
            with_system(server(Pid, Info, Application), Applications#{Leader => Application})
    end.

-doc "What a server of a module was that has ended before it could be asked.".
-spec ended(pid(), {gen_server | gen_statem, module()}) -> server().
ended(Pid, {Behaviour, Module}) ->
    Application =
        case application:get_application(Module) of
            {ok, Name} -> Name;
            undefined -> undefined
        end,
    #{
        pid => Pid,
        name => dyno_agent_name:module(Module),
        kind => module,
        registered => undefined,
        label => undefined,
        module => Module,
        behaviour =>
            case Module of
                ?GEN_STAGE -> gen_stage;
                _ -> Behaviour
            end,
        application => Application,
        ancestors => [],
        system => lists:member(Application, ?SYSTEM) orelse is_own(Module, undefined),
        queue => queue(Module)
    }.

-doc """
What begins and may be meant, by the arguments of `init_it/6` of its behaviour: heads of match
specifications. None where only the process itself tells.
""".
-spec births([dyno_agent_servers:selector()]) -> [{gen_server | gen_statem, Head :: [term()]}].
births(Selectors) ->
    lists:usort([
        {Behaviour, Head}
     || Selector <- Selectors,
        {Behaviours, Head} <- births_of(Selector),
        Behaviour <- Behaviours
    ]).

births_of(all) -> [{[gen_server, gen_statem], ['_', '_', '_', '_', '_', '_']}];
births_of({behaviour, gen_server}) -> [{[gen_server], ['_', '_', '_', '_', '_', '_']}];
births_of({behaviour, gen_statem}) -> [{[gen_statem], ['_', '_', '_', '_', '_', '_']}];
births_of({module, Of}) -> [{[gen_server, gen_statem], ['_', '_', '_', Of, '_', '_']}];
births_of({registered, Name}) ->
    [{[gen_server, gen_statem], ['_', '_', {local, Name}, '_', '_', '_']}];
births_of(_Other) -> [].

application(Pid) ->
    case application:get_application(Pid) of
        {ok, Name} -> Name;
        undefined -> undefined
    end.

%% The first processes of the node are of no application, but their modules are. Of event managers
%% all have the same, which tells nothing.
with_system(#{module := gen_event} = Server, Applications) ->
    {Server, Applications};
with_system(#{application := undefined, module := Module, system := Own} = Server, Applications) ->
    Is =
        case Applications of
            #{Module := Known} -> Known;
            #{} -> is_system(application:get_application(Module))
        end,
    {Server#{system := Own orelse Is}, Applications#{Module => Is}};
with_system(Server, Applications) ->
    {Server, Applications}.

is_system({ok, Application}) -> lists:member(Application, ?SYSTEM);
is_system(undefined) -> false.

server(Pid, Info, Application) ->
    [{_, Name}, {_, Label}, _, {_, Stack}, {_, Initial}, {_, Ancestors}] = Info,
    case behaviour(Initial, Stack) of
        none ->
            none;
        {Behaviour, Module} ->
            Registered =
                case Name of
                    [] -> undefined;
                    _ -> Name
                end,
            {Kind, Printed} = name(Registered, Label, Module),
            #{
                pid => Pid,
                name => Printed,
                kind => Kind,
                registered => Registered,
                label => Label,
                module => Module,
                behaviour => Behaviour,
                application => Application,
                ancestors => [Of || is_list(Ancestors), Of <- Ancestors],
                system => lists:member(Application, ?SYSTEM) orelse is_own(Module, Label),
                queue => queue(Module)
            }
    end.

%% RabbitMQ's gen_server2 takes all messages out of the mailbox before it serves one.
queue(Module) ->
    Attributes =
        case exports(Module, module_info, 1) of
            true -> Module:module_info(attributes);
            false -> []
        end,
    case [gen_server2 || {behaviour, Of} <- Attributes, lists:member(gen_server2, Of)] of
        [] -> mailbox;
        [_ | _] -> own
    end.

%% proc_lib keeps the callback module's init, and of a supervisor and of gen_event itself that.
behaviour({supervisor, Module, _}, _Stack) -> {supervisor, Module};
behaviour({gen_event, init_it, _}, _Stack) -> {gen_event, gen_event};
behaviour({?GEN_STAGE, init, 1}, _Stack) -> {gen_stage, ?GEN_STAGE};
behaviour({Module, init, 1}, Stack) -> of_module(Module, by_stack(Stack));
behaviour({Module, _, _}, Stack) -> in_loop(Module, by_stack(Stack));
behaviour(_Undefined, _Stack) -> none.

%% Seen in the loop of a behaviour, or not, since it is busy: then what the module exports counts.
of_module(Module, none) ->
    Served = [{handle_call, 3}, {handle_cast, 2}, {handle_info, 2}],
    case {exports(Module, callback_mode, 0), [F || {F, A} <- Served, exports(Module, F, A)]} of
        {true, _} -> {gen_statem, Module};
        {false, [_ | _]} -> {gen_server, Module};
        {false, []} -> none
    end;
of_module(Module, Behaviour) ->
    {Behaviour, Module}.

%% A process that entered the loop by itself.
in_loop(_Module, none) -> none;
in_loop(Module, Behaviour) -> {Behaviour, Module}.

by_stack(Stack) ->
    Behaviours = [gen_server, gen_statem, gen_event],
    case [Module || {Module, _, _, _} <- Stack, lists:member(Module, Behaviours)] of
        [] -> none;
        Modules -> lists:last(Modules)
    end.

exports(Module, Function, Arity) ->
    erlang:function_exported(Module, Function, Arity).

name(undefined, undefined, Module) -> {module, dyno_agent_name:module(Module)};
name(undefined, Label, _Module) when is_binary(Label) -> {label, text("~ts", [Label])};
name(undefined, Label, _Module) -> {label, text("~0tp", [Label])};
name(Registered, _Label, _Module) -> {registered, dyno_agent_name:module(Registered)}.

text(Format, Arguments) ->
    Text = io_lib:format(Format, Arguments, [{chars_limit, ?LABEL_CHARACTERS}]),
    case unicode:characters_to_binary(Text) of
        <<Printed/binary>> -> Printed;
        %% Bytes that are no characters.
        _ -> iolist_to_binary(io_lib:format("~0p", [Arguments]))
    end.

is_own(Module, Label) ->
    Names = [atom_to_list(Name) || Name <- [Module, Label], is_atom(Name)],
    lists:any(fun(Name) -> lists:prefix("dyno_", Name) end, Names).

-doc "Whether it is a stage whose module is not known yet.".
-spec is_unknown_stage(server()) -> boolean().
is_unknown_stage(#{module := Module}) -> Module =:= ?GEN_STAGE.

-doc "Whether one of the selectors means it, whatever module it turns out to have.".
-spec is_surely(server(), [dyno_agent_servers:selector()]) -> boolean().
is_surely(#{module := ?GEN_STAGE} = Server, Selectors) ->
    is_chosen(Server, [S || S <- Selectors, S =:= all orelse element(1, S) =/= module]);
is_surely(_Server, _Selectors) ->
    true.

-doc "Whether one of the selectors means it, or, of a stage whose module is not known, may do.".
-spec is_chosen(server(), [dyno_agent_servers:selector()]) -> boolean().
is_chosen(Server, Selectors) ->
    lists:any(fun(Selector) -> is_meant(Selector, Server) end, Selectors).

is_meant(all, #{system := System}) -> not System;
is_meant({busiest, _}, _Server) -> false;
is_meant({module, Module}, #{module := ?GEN_STAGE}) ->
    exports(Module, handle_events, 3) orelse exports(Module, handle_demand, 2);
is_meant({module, Module}, #{module := Of}) ->
    Module =:= Of;
is_meant({behaviour, Behaviour}, #{behaviour := Of, system := System}) ->
    Behaviour =:= Of andalso not System;
is_meant({application, Name}, #{application := Of}) -> Name =:= Of;
is_meant({registered, Name}, #{registered := Of}) -> Name =:= Of;
is_meant({label, Label}, #{label := Of}) -> Label =:= Of;
is_meant({pid, Pid}, #{pid := Of}) -> Pid =:= Of;
is_meant({supervisor, Supervisor}, #{pid := Pid, ancestors := Ancestors}) ->
    Names = [Supervisor | other_name(Supervisor)],
    lists:any(fun(Name) -> Name =:= Pid orelse lists:member(Name, Ancestors) end, Names).

%% Ancestors are named where they are registered.
other_name(Name) when is_atom(Name) ->
    [Pid || Pid <- [whereis(Name)], is_pid(Pid)];
other_name(Pid) when node(Pid) =:= node() ->
    case process_info(Pid, registered_name) of
        {registered_name, Name} -> [Name];
        _ -> []
    end;
other_name(_Remote) ->
    [].
