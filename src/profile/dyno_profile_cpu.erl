%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_profile_cpu).
-moduledoc false.
%% The kind `cpu`: samples of the processor (dyno_agent_cpu), by default for nodes that dyno has
%% started; if this is impossible, samples of processes' stacks.

-behaviour(dyno_profile_kind).

-export([instruments/1]).

%% Each sample of the VM wakes an idle scheduler; these cost more than the processor's.
-define(INTERVAL_MS, 2000).

-spec instruments(dyno_profile:options()) -> {ok, dyno_profile_kind:instruments()}.
instruments(#{default_kind := true}) -> {ok, with_cpu(preferred)};
instruments(_Options) -> {ok, (with_cpu(required))#{interval_ms => ?INTERVAL_MS}}.

with_cpu(Use) -> #{on => [stacks, vm, os], cpu => dyno_target_cpu:option(Use)}.
