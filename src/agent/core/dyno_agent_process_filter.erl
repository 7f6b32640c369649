%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_process_filter).
-moduledoc false.
%% Selects processes of this node: by name, module, application and so on, or by their start from
%% now on. `dyno_process_filter` parses its text form.

-export([new/1, none/0, add/2, remove/2, is_chosen/2, running/1]).
%% Of servers
-export([describe/2, ended/2, named/2, print_name/1]).
-export([busiest/1, births/1, is_surely/2, is_unknown_stage/1]).
%% Several filters at once
-export([table/1, of_process/2, of_selector/2, has/2]).
-export_type([t/0, selector/0, process/0, behaviour/0, applications/0, table/1]).

-type behaviour() :: gen_server | gen_statem | gen_event | supervisor | gen_stage.

-doc """
For servers, `all` and `{behaviour, _}` exclude those of kernel, stdlib and dyno; `{busiest, N}` are
the servers with the most work in the last window.
""".
-type selector() ::
    all
    | new
    | {busiest, pos_integer()}
    | {module, module()}
    | {behaviour, behaviour()}
    | {application, atom()}
    | {supervisor, atom() | pid()}
    | {registered, atom()}
    | {label, term()}
    | {pid, pid()}.

-opaque t() ::
    everything
    %% The processes from before `new`.
    | #{selectors := [selector()], before := #{pid() => true} | none}.

-doc "A described process; the optional keys are of servers.".
-type process() :: #{
    pid := pid(),
    registered := atom(),
    label := term(),
    module := module(),
    behaviour := behaviour() | none,
    application := atom(),
    ancestors := [atom() | pid()],
    %% Whether the process is of kernel, stdlib or dyno.
    system := boolean(),
    name => binary(),
    %% `named`: by `global` or a `via` module.
    kind => registered | named | label | module,
    %% The place of waiting messages.
    queue => mailbox | own
}.

-doc "What one scan searched for: a leader's application, and whether a module is of OTP's base.".
-type applications() :: #{pid() => atom(), module() => boolean()}.

-define(SYSTEM, [kernel, stdlib]).
-define(LABEL_CHARACTERS, 80).
%% The callback module of a stage until the stage has sent its own.
-define(GEN_STAGE, 'Elixir.GenStage').

-spec new([selector()]) -> t().
new([]) -> everything;
new(Selectors) -> add(Selectors, none()).

-spec none() -> t().
none() -> #{selectors => [], before => none}.

-spec add([selector()], t()) -> t().
add(More, #{selectors := Selectors, before := Before} = Filter) ->
    Filter#{
        selectors := lists:uniq(Selectors ++ More),
        before :=
            case Before =:= none andalso lists:member(new, More) of
                true -> maps:from_keys(processes(), true);
                false -> Before
            end
    }.

-spec remove([selector()], t()) -> t().
remove(Less, #{selectors := Selectors} = Filter) -> Filter#{selectors := Selectors -- Less}.

-doc """
Whether a process matches; false if it has ended. A described process is not asked again; a stage
with an unknown module may match.

## Cost
None for a pid or a name; 0.2 us and a search for an application. Others send a signal, which the
process answers at the end of its time slice.
""".
-spec is_chosen(pid() | process(), t()) -> boolean().
is_chosen(_Process, everything) ->
    true;
is_chosen(Pid, #{selectors := Selectors, before := Before} = Filter) when is_pid(Pid) ->
    case is_one(Selectors, Pid, Before, false) of
        unknown -> is_described(describe(Pid, #{}), Filter);
        Known -> Known
    end;
is_chosen(#{pid := Pid} = Process, #{selectors := Selectors, before := Before}) ->
    lists:any(
        fun
            (new) -> not is_map_key(Pid, Before);
            (Selector) -> is_meant(Selector, Process)
        end,
        Selectors
    ).

%% As far as it is known without asking. It makes no garbage: there may be a million processes.
is_one([], _Pid, _Before, Else) ->
    Else;
is_one([new | Rest], Pid, Before, Else) ->
    not is_map_key(Pid, Before) orelse is_one(Rest, Pid, Before, Else);
is_one([{pid, Of} | Rest], Pid, Before, Else) ->
    Of =:= Pid orelse is_one(Rest, Pid, Before, Else);
is_one([{registered, Name} | Rest], Pid, Before, Else) ->
    whereis(Name) =:= Pid orelse is_one(Rest, Pid, Before, Else);
is_one([{application, Name} | Rest], Pid, Before, Else) ->
    application(Pid) =:= Name orelse is_one(Rest, Pid, Before, Else);
is_one([_Dear | Rest], Pid, Before, _Else) ->
    is_one(Rest, Pid, Before, unknown).

is_described({gone, _}, _Filter) -> false;
is_described({Process, _}, Filter) -> is_chosen(Process, Filter).

-spec running(t()) -> [pid()].
running(Filter) -> dyno_agent_process:select(fun(Pid) -> is_chosen(Pid, Filter) end) -- [self()].

-doc "Describes a process. One signal.".
-spec describe(pid(), applications()) -> {process() | gone, applications()}.
describe(Pid, Applications) ->
    Items = [
        registered_name,
        label,
        group_leader,
        initial_call,
        current_stacktrace,
        {dictionary, '$initial_call'},
        {dictionary, '$ancestors'}
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
            with_system(process(Pid, Info, Application), Applications#{Leader => Application})
    end.

-doc "Describes a server that ended before it could be asked, from its module and registered name.".
-spec ended(pid(), {gen_server | gen_statem, module(), Registered :: atom()}) -> process().
ended(Pid, {Behaviour, Module, Registered}) ->
    served(#{
        pid => Pid,
        registered => Registered,
        label => undefined,
        module => Module,
        behaviour =>
            case Module of
                ?GEN_STAGE -> gen_stage;
                _ -> Behaviour
            end,
        application => application(Module),
        ancestors => [],
        system => false
    }).

application(PidOrModule) ->
    case application:get_application(PidOrModule) of
        {ok, Name} -> Name;
        undefined -> undefined
    end.

%% The first processes have no application, but their modules have; event managers have one module.
with_system(#{behaviour := none} = Process, Applications) ->
    {Process, Applications};
with_system(#{module := gen_event} = Server, Applications) ->
    {Server, Applications};
with_system(#{application := undefined, module := Module, system := Own} = Server, Applications) ->
    Is =
        case Applications of
            #{Module := Known} -> Known;
            #{} -> lists:member(application(Module), ?SYSTEM)
        end,
    {Server#{system := Own orelse Is}, Applications#{Module => Is}};
with_system(Server, Applications) ->
    {Server, Applications}.

process(Pid, Info, Application) ->
    [{_, Name}, {_, Label}, _, {_, Call}, {_, Stack}, {_, Initial}, {_, Ancestors}] = Info,
    {Behaviour, Module} =
        case behaviour(Initial, Stack) of
            none -> {none, runs(Initial, Call, Stack)};
            Serves -> Serves
        end,
    served(#{
        pid => Pid,
        registered =>
            case Name of
                [] -> undefined;
                _ -> Name
            end,
        label => Label,
        module => Module,
        behaviour => Behaviour,
        application => Application,
        ancestors => [Of || is_list(Ancestors), Of <- Ancestors],
        system => false
    }).

%% A process that runs a fun counts by the outermost function of its stack.
runs({Module, _, _}, _Call, _Stack) -> Module;
runs(_None, {erlang, apply, 2}, [_ | _] = Stack) -> element(1, lists:last(Stack));
runs(_None, {Module, _, _}, _Stack) -> Module.

served(#{behaviour := none} = Process) ->
    Process;
served(#{registered := Name, label := Label, module := Module, application := Of} = Process) ->
    {Kind, Printed} = name(Name, Label, Module),
    by_global(Process#{
        name => Printed,
        kind => Kind,
        system := lists:member(Of, ?SYSTEM) orelse is_own(Module, Label),
        queue => queue(Module)
    }).

%% A table of global's, and none of its functions, knows the name of a process at once.
by_global(#{kind := module, pid := Pid} = Process) ->
    try ets:lookup(global_pid_names, Pid) of
        [{Pid, Name} | _] -> named(print_name(Name), Process);
        _ -> Process
    catch
        error:badarg -> Process
    end;
by_global(Process) ->
    Process.

-doc "The server with the name by which `global` or a `via` module knows it.".
-spec named(binary(), process()) -> process().
named(Name, #{kind := module} = Process) -> Process#{name := Name, kind := named};
named(_Name, Process) -> Process.

-spec print_name(term()) -> binary().
print_name(Name) when is_binary(Name) -> text("~ts", [Name]);
print_name(Name) when is_atom(Name) -> dyno_agent_name:module(Name);
print_name(Name) -> dyno_agent_name:in_elixir(text("~0tp", [Name])).

%% RabbitMQ's gen_server2 empties the mailbox before it serves a message.
queue(Module) ->
    Attributes =
        try
            erlang:get_module_info(Module, attributes)
        catch
            %% Not loaded, or not any more.
            error:badarg -> []
        end,
    case [gen_server2 || {behaviour, Of} <- Attributes, lists:member(gen_server2, Of)] of
        [] -> mailbox;
        [_ | _] -> own
    end.

%% proc_lib keeps the init of the callback module; for supervisors and gen_event, their own.
behaviour({supervisor, Module, _}, _Stack) -> {supervisor, Module};
behaviour({gen_event, init_it, _}, _Stack) -> {gen_event, gen_event};
behaviour({?GEN_STAGE, init, 1}, _Stack) -> {gen_stage, ?GEN_STAGE};
behaviour({Module, init, 1}, Stack) -> of_module(Module, by_stack(Stack));
behaviour({Module, _, _}, Stack) -> in_loop(Module, by_stack(Stack));
behaviour(_Undefined, _Stack) -> none.

%% By the behaviour's loop on the stack; a busy server by its module's exports.
of_module(Module, none) ->
    Served = [{handle_call, 3}, {handle_cast, 2}, {handle_info, 2}],
    case {exports(Module, callback_mode, 0), [F || {F, A} <- Served, exports(Module, F, A)]} of
        {true, _} -> {gen_statem, Module};
        {false, [_ | _]} -> {gen_server, Module};
        {false, []} -> none
    end;
of_module(Module, Behaviour) ->
    {Behaviour, Module}.

%% The process entered the loop itself.
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
name(undefined, Label, _Module) -> {label, print_name(Label)};
name(Registered, _Label, _Module) -> {registered, dyno_agent_name:module(Registered)}.

text(Format, Arguments) ->
    Text = io_lib:format(Format, Arguments, [{chars_limit, ?LABEL_CHARACTERS}]),
    case unicode:characters_to_binary(Text) of
        <<Printed/binary>> -> Printed;
        %% Bytes that are no text.
        _ -> iolist_to_binary(io_lib:format("~0p", [Arguments]))
    end.

is_own(Module, Label) ->
    Names = [atom_to_list(Name) || Name <- [Module, Label], is_atom(Name)],
    lists:any(fun(Name) -> lists:prefix("dyno_", Name) end, Names).

is_meant(all, #{system := System}) ->
    not System;
is_meant({busiest, _}, _Process) ->
    false;
is_meant({module, Module}, #{module := ?GEN_STAGE}) ->
    exports(Module, handle_events, 3) orelse exports(Module, handle_demand, 2);
is_meant({module, Module}, #{module := Of}) ->
    Module =:= Of;
is_meant({behaviour, Behaviour}, #{behaviour := Of, system := System}) ->
    Behaviour =:= Of andalso not System;
is_meant({application, Name}, #{application := Of}) ->
    Name =:= Of;
is_meant({registered, Name}, #{registered := Of}) ->
    Name =:= Of;
is_meant({label, Label}, #{label := Of}) ->
    Label =:= Of;
is_meant({pid, Pid}, #{pid := Of}) ->
    Pid =:= Of;
is_meant({supervisor, Supervisor}, #{pid := Pid, ancestors := Ancestors}) ->
    Names = [Supervisor | other_name(Supervisor)],
    lists:any(fun(Name) -> Name =:= Pid orelse lists:member(Name, Ancestors) end, Names).

%% Registered ancestors are names.
other_name(Name) when is_atom(Name) ->
    [Pid || Pid <- [whereis(Name)], is_pid(Pid)];
other_name(Pid) when node(Pid) =:= node() ->
    case process_info(Pid, registered_name) of
        {registered_name, Name} -> [Name];
        _ -> []
    end;
other_name(_Remote) ->
    [].

%% Servers

-spec busiest(t()) -> non_neg_integer().
busiest(#{selectors := Selectors}) -> lists:max([0 | [N || {busiest, N} <- Selectors]]).

-doc "Match heads for `init_it/6` of starting servers that may match; none if only these can tell.".
-spec births(t()) -> [{gen_server | gen_statem, Head :: [term()]}].
births(#{selectors := Selectors}) ->
    lists:usort([
        {Behaviour, Head}
     || Selector <- Selectors,
        {Behaviours, Head} <- births_of(Selector),
        Behaviour <- Behaviours
    ]).

births_of({behaviour, gen_server}) ->
    [{[gen_server], ['_', '_', '_', '_', '_', '_']}];
births_of({behaviour, gen_statem}) ->
    [{[gen_statem], ['_', '_', '_', '_', '_', '_']}];
births_of({module, Of}) ->
    [{[gen_server, gen_statem], ['_', '_', '_', Of, '_', '_']}];
births_of({registered, Name}) ->
    [{[gen_server, gen_statem], ['_', '_', {local, Name}, '_', '_', '_']}];
births_of(Any) when Any =:= all; Any =:= new ->
    [{[gen_server, gen_statem], ['_', '_', '_', '_', '_', '_']}];
births_of(_Other) ->
    [].

-spec is_unknown_stage(process()) -> boolean().
is_unknown_stage(#{module := Module}) -> Module =:= ?GEN_STAGE.

-doc "Whether a matching server matches with any module.".
-spec is_surely(process(), t()) -> boolean().
is_surely(#{module := ?GEN_STAGE} = Server, #{selectors := Selectors} = Filter) ->
    is_chosen(Server, Filter#{selectors := [S || S <- Selectors, not is_module(S)]});
is_surely(_Server, _Filter) ->
    true.

is_module({Kind, _}) -> Kind =:= module;
is_module(_Any) -> false.

%% Several filters at once

-opaque table(For) :: #{dyno_agent_monitor:selector() => [For, ...]}.

-doc "Indexes many filters, so that a new process needs only a few lookups.".
-spec table([{dyno_agent_monitor:selector(), For}]) -> table(For).
table(Selectors) ->
    maps:groups_from_list(
        fun({Selector, _}) -> Selector end, fun({_, For}) -> For end, lists:uniq(Selectors)
    ).

-spec of_process(dyno_agent_event:process(), table(For)) -> [For].
of_process(#{pid := Pid, initial_call := {M, F, A}} = Process, Table) ->
    Keys = [
        {function, M, F, A},
        {function, M, F, '_'},
        {module, M},
        {pid, Pid}
        | [{registered, Name} || #{name := Name} <- [Process]] ++
            [{label, Label} || #{label := Label} <- [Process]]
    ],
    case [For || Key <- Keys, #{Key := For} <- [Table]] of
        [] -> [];
        [For] -> For;
        Several -> lists:uniq(lists:append(Several))
    end.

-spec of_selector(dyno_agent_monitor:selector(), table(For)) -> [For].
of_selector(Selector, Table) -> maps:get(Selector, Table, []).

-spec has([function | module | registered | label | pid, ...], table(term())) -> boolean().
has(Kinds, Table) ->
    lists:any(fun(Selector) -> lists:member(element(1, Selector), Kinds) end, maps:keys(Table)).
