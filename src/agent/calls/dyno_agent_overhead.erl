%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_overhead).
-moduledoc false.
%% What measuring adds to the times of functions. The overhead of a call is measured when counting
%% begins, by how many processes call (dyno_agent_calibration). Then the machine becomes faster or
%% slower: its clock rate, its neighbours, its caches. So an empty function goes on being called, a
%% thousand times twice a second and a few times at both ends of what is measured, and all overheads
%% are multiplied by the factor by which its own has changed.
%%
%% A process of its own does this: to read the times stops all schedulers for a moment, which takes
%% milliseconds on a busy machine, and the counting process must be ready when a module is replaced.

-export([open/1, close/1, restart/1, update/1, processes/1]).
-export([first_ns/1, least_ns/1, factor/1, corrected/3]).
-export_type([t/0]).

-opaque t() ::
    none
    | #{
        overhead := dyno_agent_calibration:overhead(),
        prober := pid(),
        %% The overhead of a call when counting began.
        first_ns := float(),
        %% Overheads that were measured since the restart, the newest first.
        since_ns := [float()]
    }.

-define(EVERY_MS, 500).
%% At both ends.
-define(ROUNDS, 5).
%% Half an hour's.
-define(MOST, 3600).
%% Of what its callees add to a function's time: how many it has called is estimated by a sample.
-define(CALLER_SIDE_UNCERTAIN, 0.3).

-doc """
Measures the overhead, where times are measured: 30 ms. What goes on measuring it is linked to the
calling process.
""".
-spec open([dyno_agent_call_sessions:measure()]) -> t().
open(Measures) ->
    case lists:member(call_time, Measures) of
        true ->
            Prober = spawn_link(fun() -> probe(Measures) end),
            {Overhead, First} = dyno_agent_process:ask(Prober, first),
            #{overhead => Overhead, prober => Prober, first_ns => First, since_ns => []};
        false ->
            none
    end.

-doc "Calls no more.".
-spec close(t()) -> ok.
close(none) ->
    ok;
close(#{prober := Prober}) ->
    unlink(Prober),
    dyno_agent_process:ask(Prober, close).

-doc "Overheads count from now on.".
-spec restart(t()) -> t().
restart(Overhead) -> since(restart, Overhead).

-doc "With what was measured until now, and a few times more: half a millisecond.".
-spec update(t()) -> t().
update(Overhead) -> since(update, Overhead).

since(_What, none) ->
    none;
since(What, #{prober := Prober} = Overhead) ->
    Overhead#{since_ns := dyno_agent_process:ask(Prober, What)}.

-doc "The processes that measure.".
-spec processes(t()) -> [pid()].
processes(none) -> [];
processes(#{prober := Prober}) -> [Prober].

-spec probe([dyno_agent_call_sessions:measure()]) -> ok.
probe(Measures) ->
    proc_lib:set_label(?MODULE),
    %% Hundreds of rounds of some microseconds each, which would wait for a turn each.
    process_flag(priority, high),
    ok = dyno_agent_process:unlimited(),
    {Overhead, Caller, Rounds} = dyno_agent_calibration:open(Measures),
    _ = later(),
    serve({Overhead, median(Rounds)}, Caller, []).

serve(First, Caller, Since) ->
    receive
        {close, From, Ref} ->
            ok = dyno_agent_calibration:close(Caller),
            From ! {Ref, ok},
            ok;
        {first, From, Ref} ->
            From ! {Ref, First},
            serve(First, Caller, Since);
        {What, From, Ref} ->
            Next = answer(What, Caller, Since),
            From ! {Ref, Next},
            serve(First, Caller, Next);
        probe ->
            _ = later(),
            serve(First, Caller, more(1, Caller, Since))
    end.

later() -> erlang:send_after(?EVERY_MS, self(), probe).

answer(restart, Caller, _Since) -> more(?ROUNDS, Caller, []);
answer(update, Caller, Since) -> more(?ROUNDS, Caller, Since).

more(Rounds, Caller, Since) ->
    lists:sublist(dyno_agent_calibration:rounds(Rounds, Caller) ++ Since, ?MOST).

-doc "By what factor the overhead is larger since the restart than when counting began.".
-spec factor(t()) -> float().
factor(#{since_ns := [_ | _] = Since, first_ns := First}) -> median(Since) / First;
factor(_) -> 1.0.

median(List) -> lists:nth((length(List) + 1) div 2, lists:sort(List)).

-doc """
The overhead of a call when counting began, of a function that so many processes call: what
`dyno_agent_call_sums` sums up for `corrected/3`.
""".
-spec first_ns(t()) -> fun((Callers :: number()) -> number()).
first_ns(none) -> fun(_Callers) -> 0.0 end;
first_ns(#{overhead := Overhead}) -> fun(N) -> dyno_agent_calibration:overhead_ns(N, Overhead) end.

-doc "The least overhead of a call; `undefined` where no times are measured.".
-spec least_ns(t()) -> float() | undefined.
least_ns(none) -> undefined;
least_ns(#{overhead := Overhead} = All) ->
    dyno_agent_calibration:overhead_ns(1, Overhead) * factor(All).

-doc """
Takes out of all times what measuring has added to them: for each call what was summed up, and what
lies in the function's time of the measured calls that it has made (dyno_agent_call_sample). The raw
times are kept (`raw_time_ns`), and what the overhead may be off by is added to the uncertainty.
""".
-spec corrected(Result, Made :: #{mfa() => number()}, t()) -> Result when
    Result :: #{
        functions := [#{mfa := mfa(), atom() => term()}],
        callers := [{mfa(), Group :: term(), Calls :: integer(), Ns :: integer()}],
        atom() => term()
    }.
corrected(Result, _Made, none) ->
    Result;
corrected(#{functions := Raw, callers := Callers} = Result, Made, Overhead) ->
    Functions = [corrected_function(Function, Made, Overhead) || Function <- Raw],
    PerCall = #{MFA => Ns || #{mfa := MFA, overhead_ns := Ns} <- Functions},
    Result#{
        functions := Functions,
        callers := [
            {MFA, Group, Calls, own_ns(RawNs, Calls, maps:get(MFA, PerCall, 0))}
         || {MFA, Group, Calls, RawNs} <- Callers
        ]
    }.

corrected_function(#{mfa := MFA, calls := Calls, own_time_ns := RawNs} = Function, Made, All) ->
    #{total_overhead_ns := TotalNs, uncertain_ns := UncertainNs} = Function,
    #{overhead := #{caller_side := CallerSide, uncertain_ns := MoreNs}} = All,
    CalleeNs = factor(All) * TotalNs / max(1, Calls),
    CallerNs = CalleeNs * CallerSide * maps:get(MFA, Made, 0),
    OffNs = factor(All) * MoreNs + CallerNs * ?CALLER_SIDE_UNCERTAIN,
    (maps:remove(total_overhead_ns, Function))#{
        overhead_ns => CalleeNs + CallerNs,
        own_time_ns := own_ns(RawNs, Calls, CalleeNs + CallerNs),
        raw_time_ns => RawNs,
        uncertain_ns := UncertainNs + round(Calls * OffNs)
    }.

own_ns(RawNs, Calls, OverheadNs) -> max(0, RawNs - round(Calls * OverheadNs)).
