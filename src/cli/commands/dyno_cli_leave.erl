%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_cli_leave).
-moduledoc "`dyno leave`: removes the modules that dyno left in a large or busy node.".

-behaviour(dyno_cli_command).

-export([command/0, run/1]).

-spec command() -> dyno_cli_command:t().
command() ->
    #{
        operands => [
            dyno_cli_command:operand(
                "NODE...", "running Erlang nodes, such as shop@host", #{nargs => nonempty_list}
            )
        ],
        options => [dyno_cli_nodes:options()],
        examples =>
            """
            dyno leave shop@host
                removes the modules; 1,000,000 processes take 3 minutes of the processor
            """
    }.

-spec run(dyno_cli_command:values()) -> dyno_cli_command:result().
run(#{node := Texts} = Values) ->
    case dyno_cli_nodes:names(Texts) of
        {ok, Nodes} ->
            Connection = dyno_cli_nodes:connection(Values),
            dyno_cli_terminal:note(
                "dyno: removing modules; that takes minutes in a large node, and goes on there if "
                "dyno is ended"
            ),
            lists:max([left(Node, dyno_agent:leave(Node, Connection)) || Node <- Nodes]);
        {error, _} = Error ->
            Error
    end.

left(Node, {ok, #{modules := []}}) ->
    told("~ts had no module of dyno's~n", [Node]);
left(Node, {ok, #{modules := Modules, cpu_ms := CpuMs}}) ->
    Removed = dyno_recording_part:text("~b modules", [length(Modules)]),
    told("~ts: removed ~ts~ts~n", [Node, Removed, took(CpuMs)]);
left(_Node, {error, _} = Error) ->
    dyno_cli_command:refused(Error).

took(unknown) ->
    "";
took(Ms) ->
    ["; the node's processors worked ", dyno_unit:format(Ms, ~"ms"), " meanwhile"].

told(Format, Arguments) ->
    dyno_cli_terminal:print(unicode:characters_to_binary(io_lib:format(Format, Arguments))).
