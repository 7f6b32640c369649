%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_server_managers).
-moduledoc false.
%% How long event managers are busy. A manager tells sys nothing of a callback's end, so the runtime
%% tells when it takes the manager on a scheduler and off: off in gen_event:fetch_msg, the manager
%% waits for a message; off in any other function, a handler is blocked or waits for a processor.
%%
%% A manager that changes too often for that is left alone from then on: its busy time is unknown.

-export([new/1, follow/2, tick/1, event/2, busy/3]).
-export_type([t/0, busy/0]).

-opaque t() :: #{
    flag := fun((pid(), true | gone) -> ok),
    managers := #{pid() => left_alone | manager()}
}.

-type manager() :: #{
    %% Since when, and when that began; unknown before the first change.
    doing := {waits | works, Since :: integer()} | unknown,
    busy_ns := non_neg_integer(),
    known_ns := non_neg_integer(),
    changes := non_neg_integer()
}.

-doc "The busy time, and the time it is a part of.".
-type busy() :: {BusyNs :: non_neg_integer(), OfNs :: non_neg_integer()}.

%% In a second: these take a manager and the instrument some milliseconds.
-define(MOST_CHANGES, 10_000).

-doc "The function traces when a manager runs, or stops that.".
-spec new(fun((pid(), true | gone) -> ok)) -> t().
new(Flag) -> #{flag => Flag, managers => #{}}.

-doc "Follows these managers, and no others.".
-spec follow([pid()], t()) -> t().
follow(Pids, #{managers := Before, flag := Flag} = Managers) ->
    _ = [ok = Flag(Pid, gone) || Pid := #{} <- maps:without(Pids, Before)],
    New = [Pid || Pid <- Pids, not is_map_key(Pid, Before)],
    _ = [ok = Flag(Pid, true) || Pid <- New],
    Began = #{Pid => began(doing(Pid)) || Pid <- New},
    Managers#{managers := maps:merge(maps:with(Pids, Before), Began)}.

began(Doing) -> #{doing => Doing, busy_ns => 0, known_ns => 0, changes => 0}.

%% A process that waits answers at once; one that runs tells at its next change.
doing(Pid) ->
    maybe
        {status, waiting} ?= process_info(Pid, status),
        {current_function, MFA} ?= process_info(Pid, current_function),
        {off(MFA), now_ns()}
    else
        _ -> unknown
    end.

off({gen_event, Function, _}) when Function =:= fetch_msg; Function =:= wake_hib -> waits;
off({Module, Function, 3}) when
    {Module, Function} =:= {erlang, hibernate}; {Module, Function} =:= {proc_lib, wake_up}
->
    waits;
off(_InHandler) ->
    works.

-doc "A second has passed.".
-spec tick(t()) -> t().
tick(#{managers := All} = Managers) ->
    Ticked = #{Pid => One#{changes := 0} || Pid := #{} = One <- All},
    Managers#{managers := maps:merge(All, Ticked)}.

-spec event({trace_ts, pid(), in | out, mfa() | 0, integer()}, t()) -> t().
event({trace_ts, Pid, How, MFA, At}, #{managers := All, flag := Flag} = Managers) ->
    case All of
        #{Pid := #{changes := ?MOST_CHANGES}} ->
            ok = Flag(Pid, gone),
            Managers#{managers := All#{Pid := left_alone}};
        #{Pid := #{changes := Changes} = One} ->
            Doing =
                case How of
                    in -> works;
                    out -> off(MFA)
                end,
            Managers#{managers := All#{Pid := changed(Doing, At, One#{changes := Changes + 1})}};
        #{} ->
            Managers
    end.

changed(Doing, At, #{doing := unknown} = One) ->
    One#{doing := {Doing, At}};
changed(Doing, At, #{doing := {Was, Since}, busy_ns := Busy, known_ns := Known} = One) ->
    Ns = max(0, At - Since),
    One#{
        %% The window may have begun after that.
        doing := {Doing, max(At, Since)},
        known_ns := Known + Ns,
        busy_ns :=
            case Was of
                works -> Busy + Ns;
                waits -> Busy
            end
    }.

-doc "The busy time of each followed manager until now; `restart` begins a new window.".
-spec busy(restart | go_on, integer(), t()) -> {#{pid() => busy()}, t()}.
busy(How, Now, #{managers := All} = Managers) ->
    Until = #{Pid => until(Now, One) || Pid := #{} = One <- All},
    Busy = #{Pid => {Ns, Of} || Pid := #{busy_ns := Ns, known_ns := Of} <- Until, Of > 0},
    case How of
        go_on ->
            {Busy, Managers};
        restart ->
            Next = #{Pid => began(Doing) || Pid := #{doing := Doing} <- Until},
            {Busy, Managers#{managers := maps:merge(All, Next)}}
    end.

until(_Now, #{doing := unknown} = One) -> One;
until(Now, #{doing := {Doing, _}} = One) -> changed(Doing, Now, One).

now_ns() -> erlang:monotonic_time(nanosecond).
