%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_overhead).
-moduledoc false.
%% The overhead of measuring in the times of functions. The overhead is measured when counting
%% begins, by number of calling processes (dyno_agent_calibration). Later the machine becomes faster
%% or slower: clock rate, neighbours, caches. So an empty function is called on, a thousand times
%% twice a second and a few times at both ends of the measurement, and all overheads are scaled by
%% the change of its own.
%%
%% This needs a process of its own: reading the times stops all schedulers, for milliseconds on a
%% busy machine, and the counting process must be ready when a module is replaced.

-export([open/1, close/1, restart/1, update/1, processes/1]).
-export([first_ns/1, least_ns/1, read/1]).
-export_type([t/0, reading/0]).

-opaque t() ::
    none
    | #{
        overhead := dyno_agent_calibration:overhead(),
        prober := pid(),
        first_ns := float(),
        %% Overheads measured since the restart, the newest first.
        since_ns := [float()]
    }.

-doc """
`factor`: the change of the overhead since counting began. `caller_side`: the time that a call adds
to its caller, as a share of the overhead; `uncertain_ns`: of a call.
""".
-type reading() ::
    none | #{factor := float(), caller_side := float(), uncertain_ns := float()}.

-define(EVERY_MS, 500).
-define(ROUNDS, 5).
%% Half an hour's.
-define(MOST, 3600).

-doc "Measures the overhead in 30 ms, if times are measured, by a process linked to the caller.".
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

-spec close(t()) -> ok.
close(none) ->
    ok;
close(#{prober := Prober}) ->
    unlink(Prober),
    dyno_agent_process:ask(Prober, close).

-spec restart(t()) -> t().
restart(Overhead) -> since(restart, Overhead).

-spec update(t()) -> t().
update(Overhead) -> since(update, Overhead).

since(_What, none) ->
    none;
since(What, #{prober := Prober} = Overhead) ->
    Overhead#{since_ns := dyno_agent_process:ask(Prober, What)}.

-spec processes(t()) -> [pid()].
processes(none) -> [];
processes(#{prober := Prober}) -> [Prober].

-spec probe([dyno_agent_call_sessions:measure()]) -> ok.
probe(Measures) ->
    proc_lib:set_label(?MODULE),
    %% High priority: hundreds of rounds of some microseconds would each wait for a turn.
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

-spec read(t()) -> reading().
read(none) ->
    none;
read(#{overhead := Overhead} = All) ->
    (maps:with([caller_side, uncertain_ns], Overhead))#{factor => factor(All)}.

factor(#{since_ns := [_ | _] = Since, first_ns := First}) -> median(Since) / First;
factor(_) -> 1.0.

median(List) -> lists:nth((length(List) + 1) div 2, lists:sort(List)).

-doc "The overhead of a call when counting began, by number of callers, to sum up overheads.".
-spec first_ns(t()) -> fun((Callers :: number()) -> number()).
first_ns(none) -> fun(_Callers) -> 0.0 end;
first_ns(#{overhead := Overhead}) -> fun(N) -> dyno_agent_calibration:overhead_ns(N, Overhead) end.

-doc "The least overhead of a call; `undefined` if no times are measured.".
-spec least_ns(t()) -> float() | undefined.
least_ns(none) ->
    undefined;
least_ns(#{overhead := Overhead} = All) ->
    dyno_agent_calibration:overhead_ns(1, Overhead) * factor(All).
