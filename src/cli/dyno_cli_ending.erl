%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_cli_ending).
-moduledoc false.
%% Marks the end of dyno's emulator for its starter. Measured code may end the emulator with
%% `halt()` or `init:stop()`, and status 0 would look like success. If the starter asks by an
%% environment variable, dyno adds a number to its statuses; any other status is not dyno's.
%%
%% The starters are src/plugin/ and src/cli/launcher.sh, which has the same numbers.

%% For the starter
-export([variable/0, status/1]).
%% For dyno
-export([marker/0, not_stopping/0, halt/1, at_once/0, cut_off/0]).

-define(VARIABLE, "DYNO_MARKED").
%% No signal's status, and none of sysexits.h.
-define(MARK, 208).
-define(INTERRUPTED, 130).
-define(LARGEST, 3).
-define(KILL_MS, 300).

-spec variable() -> {string(), string()}.
variable() ->
    {?VARIABLE, "1"}.

-doc "dyno's status from the emulator's. If dyno did not end, reports so with status 3.".
-spec status(non_neg_integer()) -> 0..255.
status(Status) when is_integer(Status), Status >= ?MARK, Status =< ?MARK + ?LARGEST ->
    Status - ?MARK;
status(?INTERRUPTED) ->
    ?INTERRUPTED;
status(Status) ->
    io:format(standard_error, "dyno: its Erlang VM ~ts (status ~b)~n", [what(Status), Status]),
    3.

what(Status) when Status > 128 ->
    "was killed";
what(_Status) ->
    "ended before dyno was done: perhaps the measured code calls halt() or init:stop()".

-doc "From dyno's to the emulator's status. Called first: hides the variable from programs.".
-spec marker() -> fun((0..255) -> 0..255).
marker() ->
    Asked = os:getenv(?VARIABLE),
    true = os:unsetenv(?VARIABLE),
    case Asked of
        false -> fun(Status) -> Status end;
        _ -> fun marked/1
    end.

marked(Status) when Status =< ?LARGEST -> ?MARK + Status;
marked(Status) -> Status.

-doc "Waits for the emulator's end if it is stopping: results from then on are unreliable.".
-spec not_stopping() -> ok.
not_stopping() ->
    %% A stopping `init` may not answer any more.
    case init:get_status() of
        {stopping, _} ->
            receive
            after infinity -> ok
            end;
        _ ->
            ok
    end.

-doc """
Ends the VM after all output. Flushing data for a suspended node would never end, even with a cut
connection; then waits only for printed text, which `m:dyno_cli_terminal` does.
""".
-spec halt(0..255) -> no_return().
halt(Status) ->
    Waiting = [
        Port
     || {_Node, Port} <- erlang:system_info(dist_ctrl),
        is_port(Port),
        {queue_size, Bytes} <- [erlang:port_info(Port, queue_size)],
        Bytes > 0
    ],
    erlang:halt(Status, [{flush, Waiting =:= []}]).

-doc "Ends the VM with an interrupt's status, and all programs that it started.".
-spec at_once() -> no_return().
at_once() ->
    _ = spawn(fun at_latest/0),
    Programs = [
        OsPid
     || P <- erlang:ports(),
        {os_pid, N} = OsPid <- [erlang:port_info(P, os_pid)],
        is_integer(N)
    ],
    lists:foreach(fun(OsPid) -> dyno_program:signal("KILL", OsPid) end, Programs),
    erlang:halt(?INTERRUPTED, [{flush, false}]).

-spec at_latest() -> no_return().
at_latest() ->
    timer:sleep(?KILL_MS),
    erlang:halt(?INTERRUPTED, [{flush, false}]).

-doc "Cuts the connections to all other nodes, and prevents new ones.".
-spec cut_off() -> ok.
cut_off() ->
    %% Without distribution there is no net_kernel.
    _ = is_alive() andalso net_kernel:allow([node()]),
    lists:foreach(fun erlang:disconnect_node/1, nodes(connected)),
    lists:foreach(fun(Owner) -> exit(Owner, kill) end, being_made()).

%% Processes that open connections, 7 s for a suspended node, by net_kernel's table of records.
being_made() ->
    case ets:whereis(sys_dist) of
        undefined ->
            [];
        Table ->
            [
                element(5, Connection)
             || Connection <- ets:tab2list(Table),
                tuple_size(Connection) > 5,
                element(4, Connection) =:= pending,
                is_pid(element(5, Connection))
            ]
    end.
