%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_call_overhead).
-moduledoc false.
%% Takes the overhead of measuring out of the times of functions. Pure, for the caller's side only.
%% The target measures the overhead (dyno_agent_overhead) and samples which functions make measured
%% calls (dyno_agent_call_sample).

-export([corrected/3, per_call/2]).

%% The relative error of the callees' part in a function's time: a sample estimates its calls.
-define(CALLER_SIDE_UNCERTAIN, 0.3).
%% With fewer calls of a function in the sample the ratio is unreliable.
-define(LEAST, 10).

-doc """
Subtracts the overhead of a function's calls and of its own measured calls from all times. Keeps
`raw_time_ns`, and adds the overhead's error to the uncertainty.
""".
-spec corrected(Result, Made :: #{mfa() => number()}, dyno_agent_overhead:reading()) -> Result when
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

corrected_function(#{mfa := MFA, calls := Calls, own_time_ns := RawNs} = F, Made, Overhead) ->
    #{total_overhead_ns := TotalNs, uncertain_ns := UncertainNs} = F,
    #{factor := Factor, caller_side := CallerSide, uncertain_ns := MoreNs} = Overhead,
    CalleeNs = Factor * TotalNs / max(1, Calls),
    CallerNs = CalleeNs * CallerSide * maps:get(MFA, Made, 0),
    OffNs = Factor * MoreNs + CallerNs * ?CALLER_SIDE_UNCERTAIN,
    (maps:remove(total_overhead_ns, F))#{
        overhead_ns => CalleeNs + CallerNs,
        own_time_ns := own_ns(RawNs, Calls, CalleeNs + CallerNs),
        raw_time_ns => RawNs,
        uncertain_ns := UncertainNs + round(Calls * OffNs)
    }.

own_ns(RawNs, Calls, OverheadNs) -> max(0, RawNs - round(Calls * OverheadNs)).

-doc """
The measured calls per call of each function, on average, from the sample and the call counts. If a
function was hardly called in the sample but made calls there, these count for all its calls.
""".
-spec per_call([Function], dyno_agent_call_sample:sample()) ->
    #{mfa() => float()}
when
    Function :: #{mfa := mfa(), calls := non_neg_integer(), atom() => term()}.
per_call(Functions, Sample) ->
    Counts = [maps:get(MFA, Sample, {0, 0}) || #{mfa := MFA} <- Functions],
    Sampled = lists:sum([C || {C, _} <- Counts]),
    All = lists:sum([C || #{calls := C} <- Functions]),
    #{
        MFA =>
            case Calls >= ?LEAST of
                true -> Made / Calls;
                false -> Made * All / max(1, Sampled) / Of
            end
     || #{mfa := MFA, calls := Of} <- Functions,
        {Calls, Made} <- [maps:get(MFA, Sample, {0, 0})],
        Made > 0,
        Of > 0
    }.
