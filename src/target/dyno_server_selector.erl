%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_server_selector).
-moduledoc """
Which servers: read from a text, printed, and checked in the node before anything is measured there.

| text | servers |
| --- | --- |
| `all` | each but those of dyno, kernel and stdlib |
| `busiest:20` | the 20 that are called most |
| `orders`, `Shop.Orders` | of a callback module, and the process registered under the name |
| `module:orders`, `name:orders` | only one of the two |
| `app:shop`, `sup:shop_sup` | of an application; below a supervisor |
| `gen_server`, `gen_statem`, `gen_event`, `supervisor`, `gen_stage` | of a behaviour |
| `label:TERM` | with a label (`proc_lib:set_label/1`) |
| `<0.123.0>` | one process |
""".

-export([parse/1, print/1, check/2, is_of/2, format_error/1]).
-export_type([selector/0, text/0, reason/0]).

-type selector() :: dyno_agent_servers:selector().

-doc "What was read: a name alone may be one of a module and one of a process.".
-type text() :: selector() | {name, binary()} | {process, string()} | binary().

-type reason() ::
    {not_understood, binary()}
    | {no_callbacks, node(), binary()}
    | {unknown, module | process | application, node(), binary(), none | {ok, binary()}}.

-define(BEHAVIOURS, [~"gen_server", ~"gen_statem", ~"gen_event", ~"supervisor", ~"gen_stage"]).
%% A module with one of these is the callback module of some process.
-define(CALLBACKS, [
    {handle_call, 3}, {handle_cast, 2}, {handle_info, 2}, {handle_event, 4}, {callback_mode, 0},
    {handle_event, 2}, {handle_demand, 2}, {handle_events, 3}, {handle_continue, 2}
]).
%% And one of these, whose only callback is init/1, as that of many others.
-define(SUPERVISORS, [supervisor, 'Elixir.Supervisor', supervisor_bridge]).
-define(TIMEOUT_MS, 10_000).

-doc "Reads a selector.".
-spec parse(binary()) -> {ok, text()} | {error, dyno_error:error()}.
parse(Text) ->
    case parts(string:trim(Text)) of
        error -> {error, {?MODULE, {not_understood, Text}}};
        Selector -> {ok, Selector}
    end.

parts(~"") -> error;
parts(~"all") -> all;
parts(<<"<", _/binary>> = Pid) -> process(Pid);
parts(Text) ->
    case {lists:member(Text, ?BEHAVIOURS), binary:split(Text, ~":")} of
        {true, _} -> {behaviour, binary_to_atom(Text)};
        {false, [Kind, Name]} when Name =/= ~"" -> of_kind(Kind, Name);
        {false, [Name]} -> {name, Name};
        _ -> error
    end.

of_kind(~"busiest", Number) ->
    case string:to_integer(Number) of
        {N, <<>>} when N > 0 -> {busiest, N};
        _ -> error
    end;
of_kind(~"module", Name) -> {module, module(Name)};
of_kind(~"name", Name) -> {registered, binary_to_atom(Name)};
of_kind(~"app", Name) -> {application, binary_to_atom(Name)};
of_kind(~"sup", Name) -> {supervisor, module(Name)};
of_kind(~"label", Label) -> label(Label);
%% Elixir's atoms begin with a colon, and a name may hold one.
of_kind(_Kind, _Name) -> error.

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
        %% What is no term is the text itself.
        _ -> {label, Text}
    end.

-doc "A selector as a text.".
-spec print(text()) -> binary().
print(all) -> ~"all";
print(Text) when is_binary(Text) -> Text;
print({name, Name}) -> Name;
print({process, Pid}) -> list_to_binary(Pid);
print({busiest, N}) -> <<"busiest:", (integer_to_binary(N))/binary>>;
print({behaviour, Behaviour}) -> atom_to_binary(Behaviour);
print({pid, Pid}) -> list_to_binary(pid_to_list(Pid));
print({Kind, Name}) when is_atom(Name) -> prefixed(Kind, dyno_agent_name:module(Name));
print({Kind, Term}) -> prefixed(Kind, dyno_recording_part:text("~0tp", [Term])).

prefixed(registered, Name) -> <<"name:", Name/binary>>;
prefixed(application, Name) -> <<"app:", Name/binary>>;
prefixed(supervisor, Name) -> <<"sup:", Name/binary>>;
prefixed(Kind, Name) -> <<(atom_to_binary(Kind))/binary, $:, Name/binary>>.

-doc """
The selectors for the agents in these nodes. Each must select something in one of them: a slip would
be waited for in vain.
""".
-spec check([text()], [node(), ...]) ->
    {ok, #{node() => [selector()]}} | {error, dyno_error:error()}.
check(Texts, Nodes) ->
    try
        Found = [[{Node, resolved(Text, Node)} || Node <- Nodes] || Text <- Texts],
        case [Of || Of <- Found, not lists:any(fun({_, {Is, _}}) -> Is =:= ok end, Of)] of
            [] ->
                {ok, #{
                    Node => [S || Of <- Found, {N, {ok, List}} <- Of, N =:= Node, S <- List]
                 || Node <- Nodes
                }};
            [[{_, {error, Reason}} | _] | _] ->
                {error, {?MODULE, Reason}}
        end
    catch
        error:{erpc, _} -> {error, {dyno_agent, {node_down, hd(Nodes)}}}
    end.

resolved(Text, Node) when is_binary(Text) ->
    case parse(Text) of
        {ok, Selector} -> resolved(Selector, Node);
        {error, {?MODULE, Reason}} -> {error, Reason}
    end;
resolved({module, Module}, Node) ->
    case callbacks(Module, Node) of
        yes -> {ok, [{module, Module}]};
        no -> {error, {no_callbacks, Node, dyno_agent_name:module(Module)}};
        not_loaded -> not_loaded(dyno_agent_name:module(Module), Node)
    end;
resolved({name, Name}, Node) ->
    Module = module(Name),
    case {callbacks(Module, Node), registered(Name, Node)} of
        {yes, Registered} -> {ok, [{module, Module} | Registered]};
        {_, [_ | _] = Registered} -> {ok, Registered};
        {no, []} -> {error, {no_callbacks, Node, Name}};
        {not_loaded, []} -> not_loaded(Name, Node)
    end;
resolved({registered, Name}, Node) ->
    %% It may be started later, but a slip would be waited for in vain.
    case registered(atom_to_binary(Name), Node) of
        [] -> no_process(Name, Node);
        Registered -> {ok, Registered}
    end;
resolved({supervisor, Name} = Selector, Node) when is_atom(Name) ->
    case process(Name, Node) of
        undefined -> no_process(Name, Node);
        _ -> {ok, [Selector]}
    end;
resolved({application, Name} = Selector, Node) ->
    Names = [Of || {Of, _, _} <- call(Node, application, which_applications, [])],
    case lists:member(Name, Names) of
        true -> {ok, [Selector]};
        false -> unknown(application, atom_to_binary(Name), Names, Node)
    end;
resolved({process, Text}, Node) ->
    %% Read by the node, as which its shell prints its own.
    try
        Pid = call(Node, erlang, list_to_pid, [Text]),
        true = node(Pid) =:= Node andalso call(Node, erlang, is_process_alive, [Pid]),
        {ok, [{pid, Pid}]}
    catch
        error:Reason when element(1, Reason) =/= erpc ->
            {error, {unknown, process, Node, list_to_binary(Text), none}}
    end;
resolved({pid, Pid}, Node) when node(Pid) =/= Node ->
    {ok, []};
resolved(all, _Node) ->
    {ok, [all]};
resolved({Kind, _} = Selector, _Node) when
    Kind =:= busiest; Kind =:= behaviour; Kind =:= label; Kind =:= pid; Kind =:= supervisor
->
    {ok, [Selector]};
resolved(Other, _Node) ->
    {error, {not_understood, dyno_recording_part:text("~0tp", [Other])}}.

callbacks(Module, Node) ->
    %% Asked for its exports it would be loaded.
    case call(Node, erlang, module_loaded, [Module]) of
        true ->
            Info = call(Node, Module, module_info, []),
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
            end;
        false ->
            not_loaded
    end.

%% Elixir's are registered under names of modules, which need not be modules.
registered(Name, Node) ->
    Atoms = lists:usort([binary_to_atom(Name), module(Name)]),
    [{registered, Atom} || Atom <- Atoms, process(Atom, Node) =/= undefined].

process(Name, Node) -> call(Node, erlang, whereis, [Name]).

not_loaded(Name, Node) ->
    Loaded = [Module || {Module, _} <- call(Node, code, all_loaded, [])],
    unknown(module, Name, Loaded ++ call(Node, erlang, registered, []), Node).

no_process(Name, Node) ->
    unknown(process, dyno_agent_name:module(Name), call(Node, erlang, registered, []), Node).

unknown(What, Name, Known, Node) ->
    Names = [dyno_agent_name:module(Of) || Of <- Known],
    {error, {unknown, What, Node, Name, dyno_similar:nearest(Name, Names)}}.

call(Node, Module, Function, Arguments) ->
    erpc:call(Node, Module, Function, Arguments, ?TIMEOUT_MS).

-doc """
Whether a server that an agent sent is one of those selected. Of supervisors, labels and the busiest
only the agent knows: they select all.
""".
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
format_error({not_understood, Text}) ->
    [
        "\"", Text, "\" selects no server; a module, a registered name, "
        "<0.1.0>, all, busiest:20, app:NAME, sup:NAME, label:TERM, gen_server, gen_statem, "
        "gen_event, supervisor or gen_stage does"
    ];
format_error({no_callbacks, Node, Name}) ->
    io_lib:format(
        "module ~ts of ~ts has no callbacks of a server: handle_call/3 and the like; name the "
        "callback module, or the process",
        [Name, Node]
    );
format_error({unknown, What, Node, Name, Nearest}) ->
    Format =
        case What of
            module -> "no module ~ts is loaded in ~ts, and no process has that name~ts";
            process -> "no process ~ts runs in ~ts~ts";
            application -> "application ~ts is not started in ~ts~ts"
        end,
    io_lib:format(Format, [Name, Node, meant(Nearest)]).

meant({ok, Name}) -> ["; did you mean ", Name, "?"];
meant(none) -> "".
