%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_charge).
-moduledoc false.
%% What measuring has charged to the calls of each function. What a call is charged is measured when
%% the counters start, by how many processes call (dyno_agent_calibration). Then the machine becomes
%% faster or slower: its clock rate, its neighbours, its caches. So an empty function goes on being
%% called, a thousand times twice a second and a few times at both ends of what is measured, and all
%% charges are taken by the factor that its charge has changed by.
%%
%% The calling process gets `probe`, for `probe/1`, and `{probed, Pid}`, for `probed/1`.

-export([open/1, close/1, restart/1, probe/1, probed/1, settled/1]).
-export([first_ns/1, least_ns/1, uncertain_ns/1, factor/1, functions/2]).
-export_type([t/0]).

-opaque t() ::
    none
    | #{
        charge := dyno_agent_calibration:charge(),
        caller := dyno_agent_calibration:caller(),
        %% What a call was charged when the charge was measured.
        first_ns := float(),
        %% Since the restart, the newest first.
        since_ns := [float()]
    }.

-define(EVERY_MS, 500).
%% At both ends.
-define(ROUNDS, 5).
%% Half an hour's.
-define(MOST, 3600).

-doc "Measures the charge, where times are measured: 30 ms.".
-spec open([call_time | call_count | call_memory]) -> t().
open(Measures) ->
    case dyno_agent_calibration:open(Measures) of
        none ->
            none;
        {Charge, Caller, Rounds} ->
            later(#{
                charge => Charge,
                caller => Caller,
                first_ns => median(Rounds),
                since_ns => []
            })
    end.

-doc "Calls no more.".
-spec close(t()) -> ok.
close(none) -> ok;
close(#{caller := Caller}) -> dyno_agent_calibration:close(Caller).

-doc "Charges count from now on.".
-spec restart(t()) -> t().
restart(none) -> none;
restart(Charge) -> settled(Charge#{since_ns := []}).

-doc "Calls the empty function again a few times, and waits for it: half a millisecond.".
-spec settled(t()) -> t().
settled(none) ->
    none;
settled(#{caller := Caller, since_ns := Since} = Charge) ->
    Charge#{since_ns := called(dyno_agent_calibration:rounds(?ROUNDS, Caller)) ++ Since}.

-doc "Has the empty function called; does not wait for it.".
-spec probe(t()) -> t().
probe(none) ->
    none;
probe(#{caller := Caller} = Charge) ->
    ok = dyno_agent_calibration:ask(Caller),
    later(Charge).

later(Charge) ->
    _ = erlang:send_after(?EVERY_MS, self(), probe),
    Charge.

-doc "It was called.".
-spec probed(t()) -> t().
probed(#{caller := Caller, since_ns := Since} = Charge) ->
    Probed = called([dyno_agent_calibration:answer(Caller)]),
    Charge#{since_ns := lists:sublist(Probed ++ Since, ?MOST)}.

%% One who was asked twice has answered both with the first.
called(Rounds) -> [Ns || Ns <- Rounds, Ns > 0].

-doc "By what factor a call is charged more since the restart than when the charge was measured.".
-spec factor(t()) -> float().
factor(#{since_ns := [_ | _] = Since, first_ns := First}) -> median(Since) / First;
factor(_) -> 1.0.

median(List) -> lists:nth((length(List) + 1) div 2, lists:sort(List)).

-doc """
What a call was charged when the charge was measured, of a function that so many processes call: what
`dyno_agent_tally` sums up for `functions/2`.
""".
-spec first_ns(t()) -> fun((Callers :: number()) -> number()).
first_ns(none) -> fun(_Callers) -> 0.0 end;
first_ns(#{charge := Charge}) -> fun(N) -> dyno_agent_calibration:charge_ns(N, Charge) end.

-doc "The least that a call is charged; `undefined` where no times are measured.".
-spec least_ns(t()) -> float() | undefined.
least_ns(none) -> undefined;
least_ns(#{charge := Charge} = All) -> dyno_agent_calibration:charge_ns(1, Charge) * factor(All).

-doc "What more it may be.".
-spec uncertain_ns(t()) -> float() | undefined.
uncertain_ns(none) -> undefined;
uncertain_ns(#{charge := #{uncertain_ns := Ns}} = All) -> Ns * factor(All).

-doc "Functions' figures with what a call was charged, in the mean, for what was summed up.".
-spec functions([#{mfa := mfa(), atom() => term()}], t()) -> [#{mfa := mfa(), atom() => term()}].
functions(Functions, none) ->
    Functions;
functions(Functions, All) ->
    Factor = factor(All),
    [
        (maps:remove(charged_ns, F))#{charge_ns => Factor * Ns / max(1, Calls)}
     || #{calls := Calls, charged_ns := Ns} = F <- Functions
    ].
