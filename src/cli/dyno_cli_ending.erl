%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_cli_ending).
-moduledoc false.
%% How dyno's emulator tells whoever started it that dyno has come to its end. A code that is
%% measured may end the emulator, with `halt()` or `init:stop()`, and with status 0: to a build that
%% would look like success. So where the starter asks for it by a variable of the environment, dyno
%% adds a number to its statuses that such a code won't give; every other status is not dyno's.
%%
%% The starters are those of src/plugin/ and the shell in front of the escript
%% (src/cli/launcher.sh), which has the same numbers.

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

-doc "What asks dyno to mark its endings.".
-spec variable() -> {string(), string()}.
variable() ->
    {?VARIABLE, "1"}.

-doc "dyno's status, by the emulator's. Where dyno did not end, it says so, and the status is 3.".
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

-doc """
What makes the emulator's status of dyno's. It is called before anything else: the variable is not
for the programs that dyno starts.
""".
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

-doc """
Returns where nobody has told this emulator to stop. Else it ends while this waits: what went wrong
by then, or seemed to go well, went so because of that.
""".
-spec not_stopping() -> ok.
not_stopping() ->
    %% Once it stops, `init` may not answer any more.
    case init:get_status() of
        {stopping, _} ->
            receive
            after infinity -> ok
            end;
        _ ->
            ok
    end.

-doc """
Ends the VM when all output is written. To flush data for a node that takes none, as one that is
suspended, would never end, even if its connection is cut; then only what is printed has been waited
for, which `m:dyno_cli_terminal` does.
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

-doc "Ends the VM with the status of an interrupt, and all programs that the VM has started.".
-spec at_once() -> no_return().
at_once() ->
    _ = spawn(fun() ->
        timer:sleep(?KILL_MS),
        erlang:halt(?INTERRUPTED, [{flush, false}])
    end),
    Programs = [OsPid || P <- erlang:ports(), {os_pid, N} = OsPid <- [erlang:port_info(P, os_pid)],
        is_integer(N)],
    lists:foreach(fun(OsPid) -> dyno_program:signal("KILL", OsPid) end, Programs),
    erlang:halt(?INTERRUPTED, [{flush, false}]).

-doc "Cuts the connections to all other nodes, and lets no new one be made.".
-spec cut_off() -> ok.
cut_off() ->
    %% There is no net_kernel to ask if this is no node.
    _ = is_alive() andalso net_kernel:allow([node()]),
    lists:foreach(fun erlang:disconnect_node/1, nodes(connected)),
    lists:foreach(fun(Owner) -> exit(Owner, kill) end, being_made()).

%% The processes that are making a connection, which takes 7 s if the other node is suspended.
%% net_kernel has no function that ends them; it keeps them in a table of records.
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
