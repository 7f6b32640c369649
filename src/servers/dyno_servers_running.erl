%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_servers_running).
-moduledoc false.
%% Callbacks that run when a window ends. An agent counts a callback when it has ended, with all of
%% its time, so a server that is blocked for ten windows would be idle in nine and busy ten times
%% over in the last. Here each window gets what ran in it. Pure.

-export([new/0, window/2]).
-export_type([t/0]).

-doc "For how long the callbacks that ran at the end of the last window had run by then.".
-opaque t() :: #{pid() => pos_integer()}.

-doc "Before the first window.".
-spec new() -> t().
new() -> #{}.

-doc """
The window as an agent sends it, each server with `running_ns`, to be added to its wall time.
""".
-spec window(map(), t()) -> {map(), t()}.
window(#{servers := Servers, duration_ns := DurationNs} = Window, Before) ->
    Now = #{
        Pid => Ns
     || #{pid := Pid, state := alive, running := #{ns := Ns}} <- Servers, Ns > 0
    },
    Of = fun(#{pid := Pid} = Server) ->
        %% What the first window does not know began before it.
        Ran = min(maps:get(Pid, Now, 0), DurationNs + maps:get(Pid, Before, 0)),
        Server#{running_ns => Ran - maps:get(Pid, Before, 0)}
    end,
    {Window#{servers := [Of(Server) || Server <- Servers]}, Now}.
