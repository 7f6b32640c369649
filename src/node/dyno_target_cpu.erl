%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_target_cpu).
-moduledoc false.
%% The option `cpu` of dyno_targets: sampling the targets' processors (dyno_agent_cpu), with a
%% library sent as bytes.

-export([option/1, of_node/2, format_error/1]).
-export_type([reason/0]).

-type reason() :: {refused, node(), dyno_agent_cpu:reason()}.

-define(LIBRARY, "cpu/dyno_cpu_nif-x86_64-linux-gnu.so").

-doc "The option, for all targets, or for targets that dyno has started.".
-spec option(required | preferred) -> dyno_agent_stacks:cpu().
option(Use) ->
    Library =
        case dyno_priv:read(?LIBRARY) of
            {ok, Bytes} -> Bytes;
            {error, _} -> none
        end,
    #{library => Library, use => Use}.

-doc "Excludes native code if it was not requested and dyno has not started the node.".
-spec of_node(node(), dyno_targets:options()) -> dyno_targets:options().
of_node(_Node, #{cpu := _} = Options) ->
    Options;
of_node(Node, #{own_cpu := true} = Options) ->
    case dyno_peer:is_started(Node) of
        true -> Options#{cpu => option(preferred)};
        false -> Options
    end;
of_node(_Node, Options) ->
    Options.

-spec format_error(reason()) -> unicode:chardata().
format_error({refused, Node, Reason}) ->
    io_lib:format(
        "the processor of ~ts cannot be sampled: ~ts; without --kind cpu or --profile "
        "cpu dyno asks its processes for their stacks",
        [Node, dyno_agent_cpu:format_error(Reason)]
    ).
