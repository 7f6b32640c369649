%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_target_processes).
-moduledoc """
Which processes are profiled or traced: read from a text, and checked in the node before anything is
measured there.

| text | processes |
| --- | --- |
| `everything` | all but dyno's own; the default |
| `new` | those that are started from now on |
| `orders` | the process of that name, else those that the module runs, else those of the application |
| `name:orders`, `module:orders`, `app:shop` | only one of the three |
| `sup:shop_sup` | a supervisor and those below it |
| `gen_server`, `gen_statem`, `gen_event`, `supervisor` | of a behaviour |
| `label:TERM` | with a label (`proc_lib:set_label/1`) |
| `<0.123.0>` | one process |
""".

-export([parse/1, print/1, check/2, format_error/1]).
-export_type([text/0, reason/0]).

-type text() :: new | dyno_server_selector:text().

-type reason() ::
    {not_understood, binary()}
    | {nothing, node(), binary(), none | {ok, binary()}}.

-define(TIMEOUT_MS, 10_000).

-doc "Reads a target.".
-spec parse(binary()) -> {ok, text()} | {error, dyno_error:error()}.
parse(~"new") -> {ok, new};
parse(~"everything") -> {ok, all};
parse(Text) ->
    case dyno_server_selector:parse(Text) of
        {ok, {busiest, _}} -> not_understood(Text);
        {ok, Selector} -> {ok, Selector};
        {error, _} -> not_understood(Text)
    end.

not_understood(Text) -> {error, {?MODULE, {not_understood, Text}}}.

-doc "A target as a text.".
-spec print(text()) -> binary().
print(new) -> ~"new";
print(all) -> ~"everything";
print(Text) -> dyno_server_selector:print(Text).

-doc """
The selectors for the agents in these nodes; none for everything. Each must mean something in one of
the nodes, which are connected.
""".
-spec check([text()], [node(), ...]) ->
    {ok, [dyno_agent_process_choice:selector()]} | {error, dyno_error:error()}.
check(Texts, Nodes) ->
    case lists:member(all, Texts) of
        true -> {ok, []};
        false -> all_of(Texts, Nodes)
    end.

all_of(Texts, Nodes) ->
    try dyno_error:each(fun(Text) -> resolved(Text, Nodes) end, Texts) of
        {ok, Selectors} -> {ok, lists:uniq(lists:append(Selectors))};
        Error -> Error
    catch
        error:{erpc, _} -> {error, {dyno_agent, {node_down, hd(Nodes)}}}
    end.

resolved(new, _Nodes) ->
    {ok, [new]};
resolved({name, Name}, Nodes) ->
    Found = [Selector || Node <- Nodes, Selector <- named(Name, Node)],
    case lists:sort(fun(A, B) -> order(A) =< order(B) end, Found) of
        [First | _] -> {ok, [First]};
        [] -> nothing(Name, hd(Nodes))
    end;
resolved({module, Module}, Nodes) ->
    case lists:any(fun(Node) -> call(Node, erlang, module_loaded, [Module]) end, Nodes) of
        true -> {ok, [{module, Module}]};
        false -> nothing(dyno_agent_name:module(Module), hd(Nodes))
    end;
resolved(Text, Nodes) ->
    maybe
        {ok, ByNode} ?= dyno_server_selector:check([Text], Nodes),
        {ok, lists:append(maps:values(ByNode))}
    end.

%% What a name means in a node: a process before a module before an application.
named(Name, Node) ->
    {module, Module} = element(2, dyno_server_selector:parse(<<"module:", Name/binary>>)),
    Atom = binary_to_atom(Name),
    [{registered, Atom} || is_pid(call(Node, erlang, whereis, [Atom]))] ++
        [{module, Module} || call(Node, erlang, module_loaded, [Module])] ++
        [{application, Atom} || lists:member(Atom, applications(Node))].

order({registered, _}) -> 1;
order({module, _}) -> 2;
order({application, _}) -> 3.

applications(Node) -> [Of || {Of, _, _} <- call(Node, application, which_applications, [])].

nothing(Name, Node) ->
    Known =
        [M || {M, _} <- call(Node, code, all_loaded, [])] ++
            call(Node, erlang, registered, []) ++ applications(Node),
    Nearest = dyno_similar:nearest(Name, [dyno_agent_name:module(Of) || Of <- Known]),
    {error, {?MODULE, {nothing, Node, Name, Nearest}}}.

call(Node, Module, Function, Arguments) ->
    erpc:call(Node, Module, Function, Arguments, ?TIMEOUT_MS).

-spec format_error(reason()) -> unicode:chardata().
format_error({not_understood, Text}) ->
    [
        "\"", Text, "\" names no processes; everything, new, <0.1.0>, a "
        "registered name, a module, app:NAME, sup:NAME, label:TERM, gen_server, gen_statem, "
        "gen_event or supervisor does"
    ];
format_error({nothing, Node, Name, Nearest}) ->
    io_lib:format("no process, loaded module or application of ~ts is called ~ts~ts", [
        Node,
        Name,
        case Nearest of
            {ok, Other} -> ["; did you mean ", Other, "?"];
            none -> ""
        end
    ]).
