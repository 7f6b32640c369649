%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_profile_sample).
-moduledoc false.
%% The kind `sample`: stacks of running processes, at random instants (dyno_agent_stacks).

-behaviour(dyno_profile_kind).

-export([instruments/1]).

-spec instruments(dyno_profile:options()) -> {ok, dyno_profile_kind:instruments()}.
instruments(_Options) -> {ok, #{on => [stacks, vm, os]}}.
