%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_process_filter).
-moduledoc """
The processes that a command selects: read from text, and checked in the nodes before a measurement.
`dyno_agent_process_filter` is its counterpart in a node.

| text | processes |
| --- | --- |
| `all` | all; of servers those that are neither of dyno nor of kernel and stdlib |
| `new` | those that are started from now on |
| `orders`, `Shop.Orders` | the process of that name and those that the module runs, else those of the application |
| `name:orders`, `module:orders`, `app:shop` | only one of the three |
| `sup:shop_sup` | a supervisor and those below it |
| `gen_server`, `gen_statem`, `gen_event`, `supervisor`, `gen_stage` | of a behaviour |
| `label:TERM` | with a label (`proc_lib:set_label/1`) |
| `<0.123.0>` | one process |
| `busiest:20` | of servers the 20 that are called most |
""".

-export([parse/2, forms/1, format/1, check/3, is_of/2, format_error/1]).
-export_type([t/0, things/0, reason/0]).

-type selector() :: dyno_agent_process_filter:selector().

-doc "A parsed filter: a bare name may be that of a module, a process or an application.".
-type t() :: selector() | {name, binary()} | {process, string()}.

-doc "`monitored` must be known when a process starts.".
-type things() :: servers | processes | monitored.

-type reason() ::
    {not_understood, binary(), things()}
    | {no_callbacks, node(), binary()}
    | {unknown, any | module | process | application, node(), binary(), none | {ok, binary()}}.

-define(BEHAVIOURS, [~"gen_server", ~"gen_statem", ~"gen_event", ~"supervisor", ~"gen_stage"]).
%% A module with one of these is the callback module of some process.
-define(CALLBACKS, [
    {handle_call, 3},
    {handle_cast, 2},
    {handle_info, 2},
    {handle_event, 4},
    {callback_mode, 0},
    {handle_event, 2},
    {handle_demand, 2},
    {handle_events, 3},
    {handle_continue, 2}
]).
-define(SUPERVISORS, [supervisor, 'Elixir.Supervisor', supervisor_bridge]).
-define(MOST_CHARACTERS, 255).
-define(TIMEOUT_MS, 10_000).

-doc "Reads a filter.".
-spec parse(binary(), things()) -> dyno_error:result(t()).
parse(Text, Things) ->
    Filter = parts(string:trim(Text)),
    case Filter =/= error andalso not lists:member(form(Filter), forms_not(Things)) of
        true -> {ok, Filter};
        false -> {error, {?MODULE, {not_understood, Text, Things}}}
    end.

form({Form, _}) -> Form;
form(Word) -> Word.

forms_not(servers) -> [];
forms_not(processes) -> [busiest];
forms_not(monitored) -> [busiest, all, new, supervisor, behaviour].

-doc "The forms of filters, for help and errors.".
-spec forms(things()) -> string().
forms(Things) ->
    Forms = [
        {process, "<0.1.0>"},
        {name, "a registered name, a module"},
        {application, "app:NAME"},
        {label, "label:TERM"},
        {supervisor, "sup:NAME"},
        {behaviour, "gen_server, gen_statem, gen_event, supervisor, gen_stage"},
        {busiest, "busiest:20"},
        {all, "all"},
        {new, "new (from now on)"}
    ],
    lists:append(lists:join(", ", [F || {K, F} <- Forms, not lists:member(K, forms_not(Things))])).

parts(~"all") ->
    all;
parts(~"everything") ->
    all;
parts(~"new") ->
    new;
parts(<<"<", _/binary>> = Pid) ->
    process(Pid);
parts(<<"label:", Label/binary>>) when Label =/= ~"" -> label(Label);
parts(Text) ->
    case {lists:member(Text, ?BEHAVIOURS), binary:split(Text, ~":")} of
        {true, _} -> {behaviour, binary_to_atom(Text)};
        {false, Parts} -> named(Parts, string:length(Text) =< ?MOST_CHARACTERS)
    end.

named([Prefix, Name], true) when Name =/= ~"" -> prefixed(Prefix, Name);
named([Name], true) when Name =/= ~"" -> {name, Name};
named(_Parts, _Short) -> error.

prefixed(~"busiest", Number) ->
    case string:to_integer(Number) of
        {N, <<>>} when N > 0 -> {busiest, N};
        _ -> error
    end;
prefixed(~"module", Name) ->
    {module, module(Name)};
prefixed(~"name", Name) ->
    {registered, binary_to_atom(Name)};
prefixed(~"app", Name) ->
    {application, binary_to_atom(Name)};
prefixed(~"sup", Name) ->
    {supervisor, module(Name)};
%% Elixir's atoms begin with a colon, and a name may contain one.
prefixed(_Prefix, _Name) ->
    error.

process(Text) ->
    case re:run(Text, "^<[0-9]+\\.[0-9]+\\.[0-9]+>$", [{capture, none}]) of
        match -> {process, binary_to_list(Text)};
        nomatch -> error
    end.

module(Name) -> dyno_agent_patterns:module(Name).

label(Text) ->
    maybe
        {ok, Tokens, _} ?= erl_scan:string(unicode:characters_to_list(Text) ++ "."),
        {ok, Term} ?= erl_parse:parse_term(Tokens),
        {label, Term}
    else
        %% Text that is no term stays text.
        _ -> {label, Text}
    end.

-doc "A filter as text.".
-spec format(t() | binary()) -> binary().
format(Text) when is_binary(Text) -> Text;
format(Word) when Word =:= all; Word =:= new -> atom_to_binary(Word);
format({name, Name}) -> Name;
format({process, Pid}) -> list_to_binary(Pid);
format({busiest, N}) -> <<"busiest:", (integer_to_binary(N))/binary>>;
format({behaviour, Behaviour}) -> atom_to_binary(Behaviour);
format({pid, Pid}) -> list_to_binary(pid_to_list(Pid));
format({Form, Name}) when is_atom(Name) -> with_prefix(Form, dyno_agent_name:module(Name));
format({Form, Term}) -> with_prefix(Form, dyno_recording_part:text("~0tp", [Term])).

with_prefix(registered, Name) -> <<"name:", Name/binary>>;
with_prefix(application, Name) -> <<"app:", Name/binary>>;
with_prefix(supervisor, Name) -> <<"sup:", Name/binary>>;
with_prefix(Form, Name) -> <<(atom_to_binary(Form))/binary, $:, Name/binary>>.

-doc "Filters for agents of these nodes; of processes `[]` for all. Each must match in a node.".
-spec check([t() | binary()], [node(), ...], things()) -> dyno_error:result([selector()]).
check(Filters, Nodes, Things) ->
    try dyno_error:each(fun(Filter) -> checked(Filter, Nodes, Things) end, Filters) of
        {ok, Found} ->
            Selectors = lists:uniq(lists:append(Found)),
            case Things =:= processes andalso lists:member(all, Selectors) of
                true -> {ok, []};
                false -> {ok, Selectors}
            end;
        Error ->
            Error
    catch
        error:{erpc, _} -> {error, {dyno_agent, {node_down, hd(Nodes)}}}
    end.

checked(Text, Nodes, Things) when is_binary(Text) ->
    maybe
        {ok, Filter} ?= parse(Text, Things),
        checked(Filter, Nodes, Things)
    end;
checked(Filter, Nodes, Things) ->
    InNodes = [resolved(Filter, Node, Things) || Node <- Nodes],
    case {[Selectors || {ok, Selectors} <- InNodes], InNodes} of
        {[], [{error, Reason} | _]} -> {error, {?MODULE, Reason}};
        {Found, _} -> {ok, lists:append(Found)}
    end.

resolved({name, Name}, Node, Things) ->
    Module = module(Name),
    Application = binary_to_atom(Name),
    IsModule = is_module(Module, Node, Things),
    Found = registered(Name, Node) ++ [{module, Module} || IsModule =:= yes],
    Started = [{application, Application} || lists:member(Application, applications(Node))],
    case {Found, Started, IsModule} of
        {[_ | _], _, _} ->
            {ok, Found};
        {[], [_], _} ->
            {ok, Started};
        {[], [], no} ->
            {error, {no_callbacks, Node, Name}};
        {[], [], not_loaded} ->
            unknown(any, Name, modules(Node) ++ processes(Node) ++ applications(Node), Node)
    end;
resolved({module, Module}, Node, Things) ->
    Name = dyno_agent_name:module(Module),
    case is_module(Module, Node, Things) of
        yes -> {ok, [{module, Module}]};
        no -> {error, {no_callbacks, Node, Name}};
        not_loaded -> unknown(module, Name, modules(Node), Node)
    end;
resolved({registered, Name}, Node, _Things) ->
    %% The process may start later, but a mistyped name would wait forever.
    case registered(atom_to_binary(Name), Node) of
        [] -> no_process(Name, Node);
        Registered -> {ok, Registered}
    end;
resolved({supervisor, Name} = Selector, Node, _Things) when is_atom(Name) ->
    case process(Name, Node) of
        undefined -> no_process(Name, Node);
        _ -> {ok, [Selector]}
    end;
resolved({application, Name} = Selector, Node, _Things) ->
    Names = applications(Node),
    case lists:member(Name, Names) of
        true -> {ok, [Selector]};
        false -> unknown(application, atom_to_binary(Name), Names, Node)
    end;
resolved({process, Text}, Node, _Things) ->
    %% The node reads the pid in its own notation.
    try
        Pid = call(Node, erlang, list_to_pid, [Text]),
        true = node(Pid) =:= Node andalso call(Node, erlang, is_process_alive, [Pid]),
        {ok, [{pid, Pid}]}
    catch
        error:Reason when element(1, Reason) =/= erpc ->
            {error, {unknown, process, Node, list_to_binary(Text), none}}
    end;
resolved(Word, _Node, _Things) when Word =:= all; Word =:= new ->
    {ok, [Word]};
resolved({Form, _} = Selector, _Node, _Things) when
    Form =:= busiest; Form =:= behaviour; Form =:= label; Form =:= pid; Form =:= supervisor
->
    {ok, [Selector]};
resolved(Other, _Node, Things) ->
    {error, {not_understood, dyno_recording_part:text("~0tp", [Other]), Things}}.

is_module(Module, Node, Things) ->
    %% Asking for its exports would load the module.
    try
        case {call(Node, erlang, module_loaded, [Module]), Things} of
            {true, servers} -> has_callbacks(call(Node, erlang, get_module_info, [Module]));
            {true, _} -> yes;
            {false, _} -> not_loaded
        end
    catch
        %% It was unloaded meanwhile.
        error:{exception, badarg, _} -> not_loaded
    end.

has_callbacks(Info) ->
    Served = [F || {exports, Of} <- Info, F <- Of, lists:member(F, ?CALLBACKS)],
    Named = [
        Behaviour
     || {attributes, Of} <- Info,
        {Key, Behaviours} <- Of,
        Key =:= behaviour orelse Key =:= behavior,
        Behaviour <- Behaviours,
        lists:member(Behaviour, ?SUPERVISORS)
    ],
    case Served ++ Named of
        [] -> no;
        _ -> yes
    end.

%% Elixir processes have registered names of modules, which need not exist.
registered(Name, Node) ->
    Atoms = lists:usort([binary_to_atom(Name), module(Name)]),
    [{registered, Atom} || Atom <- Atoms, process(Atom, Node) =/= undefined].

process(Name, Node) -> call(Node, erlang, whereis, [Name]).

processes(Node) -> call(Node, erlang, registered, []).

modules(Node) -> [Module || {Module, _} <- call(Node, code, all_loaded, [])].

applications(Node) -> [Of || {Of, _, _} <- call(Node, application, which_applications, [])].

no_process(Name, Node) ->
    unknown(process, dyno_agent_name:module(Name), processes(Node), Node).

unknown(Thing, Name, Known, Node) ->
    Names = [dyno_agent_name:module(Of) || Of <- Known],
    {error, {unknown, Thing, Node, Name, dyno_similar:nearest(Name, Names)}}.

call(Node, Module, Function, Arguments) ->
    erpc:call(Node, Module, Function, Arguments, ?TIMEOUT_MS).

-doc "Whether a server matches, or only its agent knows: of a supervisor, label, new, busiest.".
-spec is_of(Server :: map(), [selector()]) -> boolean().
is_of(Server, Selectors) ->
    lists:any(fun(Selector) -> selects(Selector, Server) end, Selectors).

selects({Key, Value}, #{pid := _} = Server) when
    Key =:= module; Key =:= behaviour; Key =:= application; Key =:= pid
->
    map_get(Key, Server) =:= Value;
selects({registered, Name}, #{kind := Kind, name := Printed}) ->
    Kind =:= registered andalso Printed =:= dyno_agent_name:module(Name);
selects(_Selector, _Server) ->
    true.

-spec format_error(reason()) -> unicode:chardata().
format_error({not_understood, Text, Things}) ->
    ["\"", Text, "\" names none of the ", things(Things), "; these do: ", forms(Things)];
format_error({no_callbacks, Node, Name}) ->
    io_lib:format(
        "module ~ts of ~ts has no callbacks of a server: handle_call/3 and the like; name the "
        "callback module, or the process",
        [Name, Node]
    );
format_error({unknown, Thing, Node, Name, Nearest}) ->
    Format =
        case Thing of
            any ->
                "no process, loaded module or application ~ts is in ~ts, and one more node is "
                "written NAME@HOST~ts";
            module ->
                "no module ~ts is loaded in ~ts~ts";
            process ->
                "no process ~ts runs in ~ts~ts";
            application ->
                "application ~ts is not started in ~ts~ts"
        end,
    io_lib:format(Format, [Name, Node, dyno_similar:meant(Nearest)]).

things(servers) -> "servers";
things(_Processes) -> "processes".
