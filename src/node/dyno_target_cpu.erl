%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_target_cpu).
-moduledoc false.
%% The option `cpu`: samples the targets' processors (dyno_agent_cpu), by a library sent as bytes.

-export([option/1, of_node/2, fault/1, format_error/1, text/1]).
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

%% The request is right, the node cannot do it.
-spec fault(reason()) -> dyno_error:fault().
fault(_Reason) -> dyno.

-spec format_error(reason()) -> unicode:chardata().
format_error({refused, Node, Reason}) ->
    io_lib:format(
        "the processor of ~ts cannot be sampled: ~ts; without --kind cpu or --profile "
        "cpu dyno asks its processes for their stacks",
        [Node, text(Reason)]
    ).

-doc "One sentence for a reason.".
-spec text(dyno_agent_cpu:reason()) -> unicode:chardata().
text(no_library) ->
    "this dyno was built without the sampler's library; run make with a C compiler";
text({not_loaded, Text}) ->
    ["the library of the sampler cannot be loaded: ", Text];
text(signal_in_use) ->
    "the signal SIGPROF is used there by something else";
text(no_threads) ->
    "the schedulers' threads cannot be found in /proc";
text({no_timers, Count}) ->
    io_lib:format(
        "the system gave timers for ~b of the schedulers' threads only; raise the limit of pending "
        "signals (ulimit -i)",
        [Count]
    );
text({no_maps, Reason}) ->
    ["the emulator's memory cannot be looked up in /proc: ", file:format_error(Reason)];
text({not_seen, Which, Right, All, Wrong}) ->
    io_lib:format(
        "sampling a known function in a ~ts scheduler gave ~b samples, of which ~b were right; a "
        "wrong one: ~0tp",
        [Which, All, Right, Wrong]
    );
text({trial_failed, Reason}) ->
    io_lib:format("trying the sampler failed: ~0tP", [Reason, 10]);
text({not_supported, What}) ->
    Text =
        case What of
            emulator -> "an emulator without the JIT compiler";
            system -> "a system other than Linux";
            machine -> "a processor other than x86-64";
            libc -> "musl"
        end,
    ["sampling processor time is not supported on ", Text, ", which is untried"];
text(no_reading) ->
    "the system does not let the emulator read its own memory (process_vm_readv)";
text(not_the_process) ->
    "this emulator's process is not where the sampler expects it";
text(no_alternate_stack) ->
    "this emulator's schedulers have no stack of their own for signals";
text({How, What}) ->
    Name =
        case What of
            running_process -> "the process that a scheduler runs";
            stack -> "a process's stack"
        end,
    Found =
        case How of
            not_found -> " was not found in this emulator's memory";
            several -> " was found at several places in this emulator's memory"
        end,
    [Name, Found].
