%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_call_times).
-moduledoc false.
%% Combines counts, timed calls and samples of functions. For the caller's side only; pure but for
%% the code that dyno_agent_tail_calls asks the node for.
%%
%%   all calls are timed               own time of each function from its calls
%%   samples tell where time goes      own and total time from samples, by processor time
%%   all but a few are timed           own time from calls; of the few it is their callers'
%%   none of these                     own time from the samples that tell: at least so much
%%
%% Samples tell if no more than a tenth show a process that ran shortly before and waits again.

-export([result/1, without_waiting/2, each_call/2, combine/1]).
-export_type([input/0, result/0, function_result/0]).

-type row() :: dyno_agent_calls:row().

-type result() :: #{
    functions := [#{mfa := mfa(), atom() => term()}],
    callers := [row()],
    measured_functions := non_neg_integer(),
    reloaded := [module()],
    %% The number of modules that are not measured: their breakpoints took too long.
    unset := non_neg_integer(),
    %% The share of the time without timing, because of reading.
    off_by := float(),
    timed := float(),
    %% The least overhead in the time of a call.
    least_overhead_ns := float() | undefined,
    %% The node's processor time meanwhile, if each call is timed.
    processor_ns => non_neg_integer(),
    budget => #{
        share := float(),
        %% The cost of counting and timing, as a share of the schedulers' work.
        spent := float(),
        %% Called too often: their time is in that of their callers.
        left_out := [mfa()]
    }
}.

-type input() :: #{
    %% Of functions counted all the time.
    calls := #{mfa() => non_neg_integer()},
    %% Of the others, with a 95 % interval.
    estimates := #{mfa() => {number(), Low :: number(), High :: number()} | unknown},
    timed :=
        none
        | #{
            functions := [#{mfa := mfa(), calls := pos_integer(), atom() => term()}],
            callers := [row()]
        },
    sampled := none | dyno_agent_call_samples:sums()
}.

-doc "The result of a function. Words are of 8 bytes.".
-type function_result() :: #{
    mfa := mfa(),
    %% The call count's kind, and an estimate's 95 % interval; `at_least`: reloaded.
    counted => exact | estimated | at_least | no,
    calls => non_neg_integer(),
    calls_low => non_neg_integer(),
    calls_high => non_neg_integer(),
    %% If each call is timed: the runtime's time without the time of other programs and of
    %% measuring; its possible error, and the mean time that measuring added to each call.
    raw_time_ns => non_neg_integer(),
    own_time_ns => non_neg_integer(),
    uncertain_ns => non_neg_integer(),
    overhead_ns => float(),
    words => non_neg_integer(),
    %% With a budget, 95 % intervals.
    own_time_low_ns => non_neg_integer(),
    own_time_high_ns => non_neg_integer(),
    total_time_ns => non_neg_integer(),
    total_time_low_ns => non_neg_integer(),
    total_time_high_ns => non_neg_integer(),
    own_samples => number(),
    time_from => samples | calls
}.

%% The share of samples that do not show a process's place.
-define(TELLS, 0.1).
-define(LEAST_SAMPLES, 30).
%% The normal distribution's 97.5 %.
-define(WIDTH, 1.96).

-spec result(dyno_agent_calls:reading()) -> result().
result(#{counted := Counted, rows := Raw, threads := Times, reloaded := Reloaded} = Read) ->
    #{overhead := Overhead, made := Sample} = Read,
    Made = dyno_agent_call_overhead:per_call(map_get(functions, Raw), Sample),
    Rows = without_waiting(Times, dyno_agent_call_overhead:corrected(Raw, Made, Overhead)),
    #{functions := Functions, callers := Callers} =
        case Read of
            #{samples := Samples} -> within_budget(Counted, Rows, Samples);
            #{} -> each_call(Counted, Rows)
        end,
    (maps:without([counted, rows, threads, samples, overhead, made], Read))#{
        functions => [at_least(F, Reloaded) || F <- Functions],
        callers => Callers
    }.

at_least(#{mfa := {M, _, _}} = F, Reloaded) ->
    case lists:member(M, Reloaded) of
        true -> F#{counted => at_least};
        false -> F
    end.

within_budget(Counted, Rows, #{estimates := Estimates, is_timed := IsTimed} = Samples) ->
    {Functions, Callers} = combine(#{
        calls => Counted,
        estimates => Estimates,
        timed =>
            case IsTimed of
                true -> Rows;
                false -> none
            end,
        sampled => sums(Samples)
    }),
    #{functions => Functions, callers => Callers}.

sums(#{stacks := none}) ->
    none;
sums(#{stacks := Read, called := Called} = Samples) ->
    #{stacks := Stacks} = Sampled = dyno_agent_stack_result:result(Read),
    #{patterns := Patterns, node := Node} = Samples,
    IsMeasured = fun(MFA) -> dyno_agent_patterns:matches(MFA, Patterns) end,
    What = #{measured => IsMeasured, called => Called, node => Node},
    Whole = dyno_agent_tail_calls:inserted(Stacks, What),
    dyno_agent_call_samples:sums(Sampled#{stacks := Whole}, IsMeasured).

-doc """
The runtime times calls by the clock, which continues while a scheduler is ready to run and another
program has the processor. The interrupted functions are unknown: all are reduced by the same share,
which is their uncertainty.
""".
-spec without_waiting(#{normal => dyno_agent_threads:times(), atom() => term()}, Rows) -> Rows when
    Rows :: #{functions := [#{mfa := mfa(), atom() => term()}], callers := [row()]}.
without_waiting(#{normal := #{worked_ns := WorkedNs, ready_ns := ReadyNs}}, Rows) when
    ReadyNs > 0, WorkedNs > 0
->
    Share = min(1.0, ReadyNs / WorkedNs),
    #{functions := Functions, callers := Callers} = Rows,
    Had = fun(Ns) -> round(Ns * (1 - Share)) end,
    Rows#{
        functions := [
            case F of
                #{own_time_ns := Ns, raw_time_ns := RawNs, uncertain_ns := OffNs} ->
                    F#{
                        own_time_ns := Had(Ns),
                        raw_time_ns := Had(RawNs),
                        uncertain_ns := OffNs + round(Share * Had(Ns))
                    };
                #{} ->
                    F
            end
         || F <- Functions
        ],
        callers := [{MFA, Group, Calls, Had(Ns)} || {MFA, Group, Calls, Ns} <- Callers]
    };
without_waiting(_Times, Rows) ->
    Rows.

-spec each_call(#{mfa() => non_neg_integer()}, Rows) -> Rows when
    Rows :: #{functions := [#{mfa := mfa(), atom() => term()}], callers := [row()]}.
each_call(Counted, #{functions := Functions} = Rows) ->
    Seen = #{MFA => [] || #{mfa := MFA} <- Functions},
    Rows#{
        functions := [scaled(F, Counted) || F <- Functions] ++
            [
                #{mfa => MFA, calls => N}
             || MFA := N <- Counted, N > 0, not is_map_key(MFA, Seen)
            ]
    }.

scaled(#{mfa := MFA, calls := Calls} = F, Counted) ->
    case Counted of
        #{MFA := All} when All > Calls, Calls > 0 ->
            Scale = fun(_, Value) -> round(Value * All / Calls) end,
            Keys = [own_time_ns, raw_time_ns, uncertain_ns, words],
            (maps:merge(F, maps:map(Scale, maps:with(Keys, F))))#{calls := All};
        #{} ->
            F
    end.

-spec combine(input()) -> {[function_result()], [row()]}.
combine(#{calls := Calls, estimates := Estimates, timed := Timed, sampled := Sums}) ->
    Sampled = sampled(Sums),
    From =
        case {Timed, Sampled} of
            {#{}, _} when map_size(Estimates) =:= 0 -> calls;
            {_, #{tells := true}} -> samples;
            {#{}, _} -> calls;
            {none, _} -> samples
        end,
    {OwnTime, Rows} =
        case From of
            calls -> {of_calls(Timed, Calls), map_get(callers, Timed)};
            samples -> {of_samples(Sampled), rows(Sampled)}
        end,
    Called = #{MFA => #{} || MFA := N <- Calls, N > 0},
    Times = maps:merge(maps:merge(Called, maps:map(fun(_, _) -> #{} end, Estimates)), OwnTime),
    {
        [
            maps:merge(called(MFA, Calls, Estimates), unmet(Time, From, Sampled))
         || MFA := Time <- Times
        ],
        Rows
    }.

called(MFA, Calls, Estimates) ->
    case {Calls, Estimates} of
        {#{MFA := N}, _} ->
            #{mfa => MFA, counted => exact, calls => N};
        {_, #{MFA := {N, Low, High}}} ->
            #{
                mfa => MFA,
                counted => estimated,
                calls => round(N),
                calls_low => floor(Low),
                calls_high => ceil(High)
            };
        _ ->
            #{mfa => MFA, counted => no}
    end.

%% From calls

%% Calls outside of the timing window took as long as the others.
of_calls(#{functions := Functions}, Calls) ->
    #{
        MFA => of_call(Function, max(1.0, maps:get(MFA, Calls, Timed) / Timed))
     || #{mfa := MFA, calls := Timed} = Function <- Functions, Timed > 0
    }.

of_call(#{own_time_ns := Ns, uncertain_ns := OffNs, calls := Timed}, Scale) ->
    Own = Ns * Scale,
    Missing = ?WIDTH * Own * math:sqrt((1 - 1 / Scale) / Timed),
    Off = OffNs * Scale + Missing,
    #{
        own_time_ns => round(Own),
        own_time_low_ns => floor(max(0, Own - Off)),
        own_time_high_ns => ceil(Own + Off),
        time_from => calls
    }.

%% From samples

sampled(none) ->
    #{all => 0, untold => 0, cpu_ns => 0, tells => false, own => #{}, total => #{}, rows => #{}};
sampled(#{all := All, untold := Untold} = Sums) ->
    Sums#{tells => All >= ?LEAST_SAMPLES andalso Untold =< ?TELLS * All}.

of_samples(#{own := Own, total := Total} = Sampled) ->
    #{
        MFA => maps:merge(
            own(maps:get(MFA, Own, 0), Sampled),
            interval(total_time_ns, map_get(MFA, Total), Sampled)
        )
     || MFA := _ <- Total
    }.

%% A called function without a sample.
unmet(Time, samples, #{all := All} = Sampled) when map_size(Time) =:= 0, All >= ?LEAST_SAMPLES ->
    own(0, Sampled);
unmet(Time, _From, _Sampled) ->
    Time.

own(Weight, Sampled) -> (interval(own_time_ns, Weight, Sampled))#{own_samples => Weight}.

%% Wilson's interval; unless samples without a place are few, all may be of any function.
interval(Key, Weight, #{all := All, untold := Untold, cpu_ns := CpuNs, tells := Tells}) ->
    {Known, MoreNs} =
        case Tells of
            true -> {All - Untold, 0};
            false -> {All, CpuNs * Untold / All}
        end,
    Share = min(1.0, Weight / Known),
    {AtLeast, AtMost} = dyno_stats_interval:share(Share, Known),
    {Low, High} = bounds(Key),
    #{
        Key => round(CpuNs * Share),
        Low => floor(CpuNs * min(Share, AtLeast)),
        High => ceil(CpuNs * max(Share, AtMost) + MoreNs),
        time_from => samples
    }.

bounds(own_time_ns) -> {own_time_low_ns, own_time_high_ns};
bounds(total_time_ns) -> {total_time_low_ns, total_time_high_ns}.

rows(#{rows := Rows, all := All, cpu_ns := CpuNs}) ->
    [{MFA, Kind, undefined, round(CpuNs * Weight / All)} || {MFA, Kind} := Weight <- Rows].
