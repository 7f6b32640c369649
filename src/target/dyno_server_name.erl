%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_server_name).
-moduledoc false.
%% Names of processes; those of modules are made by dyno_agent_name.

-export([pid/1, kind/1]).

-doc "A process as its own node writes it.".
-spec pid(pid()) -> binary().
pid(Pid) ->
    iolist_to_binary(re:replace(pid_to_list(Pid), "^<[0-9]+", "<0")).

-doc "What names of one kind have in common, with N for the numbers that tell them apart.".
-spec kind(binary()) -> binary().
kind(Name) ->
    iolist_to_binary(re:replace(Name, "[0-9]+", "N", [global, unicode])).
