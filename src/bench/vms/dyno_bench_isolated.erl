%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_isolated).
-moduledoc """
Measures each code in fresh VMs of its own; doc/bench.md says why. One measurement is a *group* of
VMs, one for each code, measured in rounds in turn. A code's value is the median of its rounds.

A code can run in several *variants*: other emulator flags, another Erlang or other code paths, such
as two revisions of a project. Each code in each variant is a candidate of the comparison.
""".

-export([check/1, cross/2, run/3, samples/4, run_one/3, progress/3, parameters/1]).
-export([format_error/1]).
-export_type([settings/0, variant/0, candidate/0, reason/0]).

-type variant() :: #{
    %% Added to the code's label; required if there are several variants.
    label => string() | binary(),
    erl => file:filename(),
    flags => [string()],
    code_paths => [file:filename()],
    %% Of a revision: the project's.
    folder => file:filename()
}.

-type settings() :: #{
    %% VMs per code. Default: 8, and up to 32 while pairs are undecided.
    vms => pos_integer(),
    variants => [variant(), ...],
    %% Code paths of all variants.
    code_paths => [file:filename()],
    %% Modules of a benchmark file, loaded in the VMs.
    modules => [{module(), file:filename(), binary()}],
    %% Called with the number of the group that begins and the least number of groups.
    progress => fun((pos_integer(), pos_integer()) -> term())
}.

-type reason() :: {squeezed_variants, pos_integer()}.

-doc "A code in a variant. The number is the code's.".
-type candidate() :: #{
    code := dyno_bench_code:code(), variant := variant(), number := pos_integer()
}.

-define(MAX_CANDIDATES, 20).

-doc "Checks settings.".
-spec check(settings()) -> dyno_error:result().
check(Settings) ->
    IsCount = fun(Vms) -> is_integer(Vms) andalso Vms >= 1 andalso Vms =< 1000 end,
    Labels = [maps:get(label, V, ~"") || V <- maps:get(variants, Settings, [])],
    AllDiffer = fun(_) -> length(lists:usort(Labels)) =:= length(Labels) end,
    Checks = [
        {vms, IsCount, ~"an integer from 1 to 1000"},
        {variants, fun(Variants) -> Variants =/= [] end, ~"a list of at least one"},
        {variants, AllDiffer, ~"a label of its own for each"}
    ],
    dyno_option:check(Checks, [code_paths, modules, progress], Settings).

-doc "Combines each of the first variants with each of the second.".
-spec cross([variant(), ...], [variant(), ...]) -> [variant(), ...].
cross(These, Those) ->
    [maps:merge_with(fun joined/3, A, B) || A <- These, B <- Those].

joined(label, A, B) -> unicode:characters_to_binary([A, ", ", B]);
joined(erl, _A, B) -> B;
joined(_Lists, A, B) -> A ++ B.

candidates(Codes, Settings) ->
    [
        #{code => labelled(Code, Variant), variant => Variant, number => Number}
     || {Number, Code} <- lists:enumerate(Codes), Variant <- maps:get(variants, Settings, [#{}])
    ].

labelled(Code, #{label := Label}) ->
    Own = dyno_bench_code:label(Code),
    (dyno_bench_code:as_map(Code))#{
        label => unicode:characters_to_binary([Own, " [", Label, "]"])
    };
labelled(Code, _Variant) ->
    Code.

-doc "Compares the codes of a measurement. Also returns the size of its input.".
-spec run(dyno_bench_inputs:measurement(), pos_integer(), dyno_bench_engine:options()) ->
    dyno_error:result({pos_integer() | undefined, dyno_bench_engine:result()}).
run(#{codes := Codes} = Measurement, Number, #{isolated := Settings} = Options) ->
    StartMs = erlang:monotonic_time(millisecond),
    case candidates(Codes, Settings) of
        Candidates when length(Candidates) > ?MAX_CANDIDATES ->
            dyno_option:error(variants, length(Candidates), ~"at most 20 with all codes");
        Candidates ->
            Context = #{
                measurement => Measurement,
                number => Number,
                options => Options,
                candidates => Candidates,
                start_ms => StartMs
            },
            dyno_error:attempt(fun() ->
                {Size, Result} = dyno_bench_groups:measure(Context),
                {Size, Result#{duration_ms => erlang:monotonic_time(millisecond) - StartMs}}
            end)
    end.

-doc "Takes samples in one of erlperf's modes, each in a fresh VM after the warm-up.".
-spec samples(
    {continuous | timed, map()},
    [dyno_bench_code:code()],
    pos_integer(),
    dyno_bench_engine:options()
) -> {ok, dyno_bench_engine:result()} | {error, dyno_error:error()}.
samples({Mode, Settings}, Codes, Count, #{isolated := Isolated} = Options) ->
    Candidates = candidates(Codes, Isolated),
    StartMs = erlang:monotonic_time(millisecond),
    One = {Mode, (maps:remove(cv, Settings))#{samples := 1}},
    Measure = fun(Number, _Round) ->
        Result = in_vm(lists:nth(Number, Candidates), One, Options),
        #{candidates := [#{times_ns := [TimeNs]} = Candidate], loop_ns := LoopNs} = Result,
        {TimeNs, {Candidate, LoopNs}}
    end,
    Progress = fun(#{round := Number}) -> progress(Number, Count, Isolated) end,
    dyno_error:attempt(fun() ->
        New = dyno_bench_rounds:new(length(Candidates), Options#{progress => Progress}),
        {Rounds, Last} = dyno_bench_rounds:measure(Measure, {rounds, Count}, New),
        _ = [dyno_bench_rounds:completed(Last) || Rounds =:= []],
        #{
            candidates => [
                joined([element(1, map_get(N, Round)) || Round <- Rounds])
             || N <- lists:seq(1, length(Candidates))
            ],
            pairs => dyno_bench_rounds:fixed_pairs(Last),
            heap => maps:get(heap, Options, runtime),
            concurrency => map_get(concurrency, Options),
            rounds => length(Rounds),
            fixed => true,
            vms => length(Rounds),
            status => dyno_bench_rounds:status(Last),
            loop_ns => dyno_stats:median([Ns || Round <- Rounds, _ := {_, Ns} <- Round]),
            duration_ms => erlang:monotonic_time(millisecond) - StartMs
        }
    end).

-doc "Reports that VM group `Number` of `Count` begins.".
-spec progress(pos_integer(), pos_integer(), settings()) -> term().
progress(Number, Count, #{progress := Fun}) -> Fun(Number, Count);
progress(_Number, _Count, _Settings) -> ok.

in_vm(#{code := Code, number := Number} = Candidate, Mode, #{isolated := Settings} = Options) ->
    Own = (maps:without([isolated, progress], Options))#{number => Number},
    dyno_bench_vm:with([Candidate], Settings, fun([Vm]) ->
        dyno_bench_vm:call(Vm, {dyno_bench_mode, run, [Mode, [Code], Own]}, infinity)
    end).

joined([First | _] = Samples) ->
    Mean = fun(Key) -> dyno_stats:mean([map_get(Key, Sample) || Sample <- Samples]) end,
    Joined = First#{
        times_ns := [T || #{times_ns := [T]} <- Samples],
        reductions := Mean(reductions),
        garbage_collections := Mean(garbage_collections)
    },
    case First of
        #{durations_ns := _} -> Joined#{durations_ns := [D || #{durations_ns := [D]} <- Samples]};
        #{} -> Joined
    end.

-doc "Runs a mode for one code in one VM: a squeeze.".
-spec run_one(dyno_bench_mode:checked(), dyno_bench_code:code(), dyno_bench_engine:options()) ->
    dyno_error:result(map()).
run_one(Mode, Code, #{isolated := Settings} = Options) ->
    case candidates([Code], Settings) of
        [Candidate] -> dyno_error:attempt(fun() -> in_vm(Candidate, Mode, Options) end);
        Candidates -> {error, {?MODULE, {squeezed_variants, length(Candidates)}}}
    end.

-doc "Returns the settings for a recording.".
-spec parameters(settings()) -> #{atom() => term()}.
parameters(Settings) ->
    Text = fun unicode:characters_to_binary/1,
    #{
        vms => maps:get(vms, Settings, undefined),
        variants => [
            #{
                label => Text(maps:get(label, Variant, "")),
                erl => [Text(Erl) || #{erl := Erl} <- [Variant]],
                flags => [Text(Flag) || Flag <- maps:get(flags, Variant, [])]
            }
         || Variant <- maps:get(variants, Settings, [#{}])
        ]
    }.

-spec format_error(reason()) -> unicode:chardata().
format_error({squeezed_variants, Count}) ->
    io_lib:format(
        "one code in one Erlang is squeezed at a time, not in ~b revisions, Erlangs or sets of "
        "flags; run dyno once for each",
        [Count]
    ).
