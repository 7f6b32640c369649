%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_profile_schedulers).
-moduledoc false.
%% The kind `schedulers`: processes ready to run over time, and the schedulers' activity.

-behaviour(dyno_profile_kind).

-export([instruments/1]).

-spec instruments(dyno_profile:options()) -> {ok, dyno_profile_kind:instruments()}.
instruments(_Options) ->
    {ok, #{on => [vm, os, schedulers], instruments => [dyno_agent_schedulers]}}.
