%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_target_cpu).
-moduledoc false.
%% The option `cpu` of dyno_targets: that the processor of targets is sampled (dyno_agent_cpu), by a
%% library that travels to them as bytes.

-export([option/1, of_node/2, format_error/1]).
-export_type([reason/0]).

-type reason() :: {refused, node(), dyno_agent_cpu:reason()}.

-define(LIBRARY, "cpu/dyno_cpu_nif-x86_64-linux-gnu.so").

-doc "The option, for all targets, or for those that dyno has started itself.".
-spec option(required | preferred) -> dyno_agent_stacks:cpu().
option(Use) ->
    Library =
        case dyno_priv:read(?LIBRARY) of
            {ok, Bytes} -> Bytes;
            {error, _} -> none
        end,
    #{library => Library, use => Use}.

-doc """
The options of a node: without native code if nobody asked for that and dyno has not started the node.
""".
-spec of_node(node(), dyno_targets:options()) -> dyno_targets:options().
of_node(_Node, #{cpu := _} = Options) -> Options;
of_node(Node, #{own_cpu := true} = Options) ->
    case dyno_peer:is_started(Node) of
        true -> Options#{cpu => option(preferred)};
        false -> Options
    end;
of_node(_Node, Options) -> Options.

-doc "One sentence for a reason.".
-spec format_error(reason()) -> unicode:chardata().
format_error({refused, Node, Reason}) ->
    io_lib:format("the processor of ~ts cannot be sampled: ~ts; without --kind cpu or --profile cpu "
        "dyno asks its processes for their stacks", [Node, dyno_agent_cpu:format_error(Reason)]).
