%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_isolated).
-moduledoc """
Measures each code in VMs of its own, again and again in fresh ones.

Two VMs that run the same code differ, by some per cent, for as long as they live: where their
memory lies, which processor they came to. However often one measures in one pair of them, that
stays in the ratio: of identical codes 47 % were called different in our trials. So what counts as
one measurement is a *group* of fresh VMs, one for each code: they are started together, measured in
rounds in turn, in random order, and ended; each code's value is the median of its rounds. The
interval of a ratio is that of the groups' ratios, by order statistics (dyno_stats_interval).

Without a number of groups it looks after 8, 16 and 32 of them, as long as the time is not over, and
ends when every pair is decided; the three looks share the error (Bonferroni), and so do the pairs.

A code can run in several *variants*: other emulator flags, another Erlang, other code paths, such
as two revisions of a project. Each code in each variant is an arm of the comparison.
""".

-export(
    [
        check/1,
        cross/2,
        arms/2,
        run/3,
        samples/4,
        alone/3,
        parameters/1,
        explains/1,
        format_error/1
    ]
).
-export_type([settings/0, variant/0, reason/0]).

-type variant() :: #{
    %% Added to the code's label; must be there where there are several variants.
    label => string() | binary(),
    erl => file:filename(),
    flags => [string()],
    code_paths => [file:filename()]
}.

-type settings() :: #{
    %% How many VMs each code is measured in; 8, and up to 32 where it is not decided yet.
    vms => pos_integer(),
    variants => [variant(), ...],
    %% Code paths of all.
    code_paths => [file:filename()],
    %% Of a benchmark file, which the VMs have to load.
    modules => [{module(), file:filename(), binary()}],
    %% Called with the number of the group that begins, and how many there are to be at least.
    progress => fun((pos_integer(), pos_integer()) -> term())
}.

-type reason() ::
    dyno_bench_vm:reason()
    | dyno_bench_vm_server:reason()
    | dyno_bench_engine:reason()
    | {squeezed_variants, pos_integer()}
    | {setting, atom(), term(), Accepted :: binary()}.

%% A code and where it runs.
-type arm() :: #{code := dyno_bench_code:code(), variant := variant(), number := pos_integer()}.

-define(GROUPS, [8, 16, 32]).
%% Fewer give no interval.
-define(LEAST, 6).
-define(ROUNDS, 15).
-define(LEAST_ROUNDS, 3).
%% For the rounds of one group, where calls are long.
-define(GROUP_MS, 1000).
-define(MARGIN_MS, 30_000).
-define(MAX_ARMS, 20).

-doc "Says what is wrong with settings.".
-spec check(settings()) -> ok | {error, reason()}.
check(Settings) ->
    Vms = maps:get(vms, Settings, 8),
    Variants = maps:get(variants, Settings, [#{}]),
    Labels = [maps:get(label, V, ~"") || V <- Variants],
    if
        not is_integer(Vms); Vms < 1; Vms > 1000 ->
            {error, {setting, vms, Vms, ~"an integer from 1 to 1000"}};
        Variants =:= [] ->
            {error, {setting, variants, [], ~"a list of at least one"}};
        true ->
            case length(lists:usort(Labels)) of
                N when N =:= length(Labels) -> ok;
                _ -> {error, {setting, variants, Labels, ~"a label of its own for each"}}
            end
    end.

-doc "Each of these variants in each of those.".
-spec cross([variant(), ...], [variant(), ...]) -> [variant(), ...].
cross(These, Those) ->
    [
        maps:merge_with(fun joined/3, A, B)
     || A <- These, B <- Those
    ].

-spec joined(label | erl | flags | code_paths, term(), term()) -> term().
joined(label, A, B) -> unicode:characters_to_binary([A, ", ", B]);
joined(erl, _A, B) -> B;
joined(_Lists, A, B) -> A ++ B.

-doc "Each code in each variant.".
-spec arms([dyno_bench_code:code()], settings()) -> [arm()].
arms(Codes, Settings) ->
    Variants = maps:get(variants, Settings, [#{}]),
    [
        #{code => labelled(Code, Variant), variant => Variant, number => Number}
     || {Number, Code} <- lists:enumerate(Codes), Variant <- Variants
    ].

-spec labelled(dyno_bench_code:code(), variant()) -> dyno_bench_code:code().
labelled(Code, #{label := Label}) ->
    Map =
        case Code of
            #{} -> Code;
            _ -> #{runner => Code}
        end,
    Own = dyno_bench_code:label(Map),
    Map#{label => iolist_to_binary([Own, " ", unicode:characters_to_binary(["[", Label, "]"])])};
labelled(Code, _Variant) ->
    Code.

-doc "Compares the codes of a measurement; gives the size of its input as well.".
-spec run(dyno_bench_inputs:measurement(), pos_integer(), dyno_bench_engine:options()) ->
    {ok, {pos_integer() | undefined, dyno_bench_engine:result()}} | {error, reason()}.
run(#{codes := Codes} = Measurement, Number, #{isolated := Settings} = Options) ->
    Arms = arms(Codes, Settings),
    StartMs = erlang:monotonic_time(millisecond),
    State = #{
        measurement => Measurement,
        number => Number,
        options => Options,
        settings => Settings,
        arms => Arms,
        end_ms => StartMs + map_get(budget_ms, Options)
    },
    trapping(fun() ->
        case length(Arms) > ?MAX_ARMS of
            true -> fail({setting, variants, length(Arms), ~"at most 20 codes times variants"});
            false -> ok
        end,
        {Size, Result} = groups(State, looks(State)),
        {Size, Result#{duration_ms => erlang:monotonic_time(millisecond) - StartMs}}
    end).

%% Exits of VMs come as messages; whatever happens they are ended.
-spec trapping(fun(() -> Value)) -> {ok, Value} | {error, reason()}.
trapping(Fun) ->
    Before = process_flag(trap_exit, true),
    try
        {ok, Fun()}
    catch
        throw:{?MODULE, Reason} -> {error, Reason}
    after
        process_flag(trap_exit, Before)
    end.

-spec fail(reason()) -> no_return().
fail(Reason) ->
    throw({?MODULE, Reason}).

-spec ok({ok, Value} | {error, reason()}) -> Value.
ok({ok, Value}) -> Value;
ok({error, Reason}) -> fail(Reason).

%% After how many groups to look.
-spec looks(map()) -> [pos_integer(), ...].
looks(#{settings := #{vms := Vms}}) ->
    [Vms];
looks(#{arms := Arms, options := #{level := Level}} = State) ->
    case {dyno_bench_metric:kind(metric(State)), Arms} of
        {rounds, [_]} -> [hd(?GROUPS)];
        {rounds, _} -> ?GROUPS;
        %% As many as the intervals of all pairs need: where figures are exact, more say the same.
        {_, _} -> [max(?LEAST, dyno_bench_metric:runs(length(Arms), Level))]
    end.

-spec groups(map(), [pos_integer(), ...]) -> {pos_integer() | undefined, map()}.
groups(State, Looks) ->
    groups(
        State, {Looks, length(Looks)}, #{iterations => none, loop_ns => none, size => undefined}, []
    ).

-spec groups(map(), {[pos_integer()], pos_integer()}, map(), [map()]) -> {term(), map()}.
groups(State, {[Next | Later], Looks}, Known, Groups) ->
    Count = length(Groups),
    #{end_ms := EndMs} = State,
    Over = Count >= ?LEAST andalso erlang:monotonic_time(millisecond) >= EndMs andalso
        not is_map_key(vms, map_get(settings, State)),
    if
        Over ->
            result(State, Looks, Known, Groups);
        Count < Next ->
            progress(State, Count + 1, Next),
            {Group, NewKnown} = group(State, Known),
            groups(State, {[Next | Later], Looks}, NewKnown, [Group | Groups]);
        true ->
            {_, #{decided := Decided}} = Result = result(State, Looks, Known, Groups),
            case {Decided, Later} of
                {false, [_ | _]} -> groups(State, {Later, Looks}, Known, Groups);
                _ -> Result
            end
    end.

-spec result(map(), pos_integer(), map(), [dyno_bench_groups:group(), ...]) ->
    {pos_integer() | undefined, dyno_bench_engine:result()}.
result(#{arms := Arms, options := Options}, Looks, #{loop_ns := LoopNs, size := Size}, Groups) ->
    Result = dyno_bench_groups:result(length(Arms), Looks, Options, lists:reverse(Groups)),
    {Size, Result#{loop_ns => LoopNs}}.

-spec progress(map(), pos_integer(), pos_integer()) -> term().
progress(#{settings := #{progress := Fun}}, Number, Of) -> Fun(Number, Of);
progress(_State, _Number, _Of) -> ok.

%% One fresh VM for each arm.
-spec group(map(), map()) -> {map(), map()}.
group(#{arms := Arms, settings := Settings} = State, Known) ->
    StartMs = erlang:monotonic_time(millisecond),
    Vms = ok(dyno_bench_vm:start([spec(Arm, Settings) || Arm <- Arms])),
    try
        Numbered = lists:zip(lists:seq(1, length(Arms)), Vms),
        Ready = [start(Vm, lists:nth(N, Arms), State) || {N, Vm} <- Numbered],
        agree(Known, Numbered, State),
        Iterations = iterations(Known, Numbered, State),
        {Times, Values} = rounds(Numbered, Iterations, State),
        Wanted = wanted(Known, State),
        Figures = [asked(Vm, {finish, [Wanted]}, N, State) || {N, Vm} <- Numbered],
        DurationMs = erlang:monotonic_time(millisecond) - StartMs,
        {
            #{
                times => Times,
                values => decisive(Values, lists:enumerate(Figures), State),
                figures => Figures,
                duration_ms => DurationMs
            },
            #{
                iterations => Iterations,
                loop_ns => dyno_stats:median([Ns || #{loop_ns := Ns} <- Ready]),
                size => map_get(size, hd(Ready))
            }
        }
    after
        dyno_bench_vm:stop(Vms)
    end.

-spec spec(arm(), settings()) -> dyno_bench_vm:spec().
spec(#{variant := Variant}, Settings) ->
    Common = maps:get(code_paths, Settings, []),
    Own = maps:get(code_paths, Variant, []),
    (maps:with([erl, flags], Variant))#{code_paths => Own ++ Common}.

-spec start(dyno_bench_vm:vm(), arm(), map()) -> dyno_bench_vm_server:ready().
start(Vm, #{code := Code, number := Number}, State) ->
    #{measurement := Measurement, number := Of, options := Options, settings := Settings} = State,
    Order = #{
        measurement => (maps:remove(agree, Measurement))#{codes := [Code]},
        number => Of,
        modules => maps:get(modules, Settings, []),
        options => (maps:remove(isolated, Options))
    },
    #{timeout_ms := TimeoutMs} = Options,
    case dyno_bench_vm:call(Vm, dyno_bench_vm_server, start, [Order], 2 * TimeoutMs + ?MARGIN_MS) of
        {ok, {ok, Ready}} -> Ready;
        {ok, {error, Reason}} -> fail(of_code(Number, Reason));
        {error, Reason} -> fail(Reason)
    end.

%% In its VM each code is the first, and the only run.
-spec of_code(pos_integer(), dyno_bench_vm_server:reason()) -> reason().
of_code(Number, {code, 1, Reason}) -> {code, Number, Reason};
of_code(Number, {in_run, _, Reason}) -> of_code(Number, Reason);
of_code(_Number, Reason) -> Reason.

-spec asked(dyno_bench_vm:vm(), {atom(), [term()]}, pos_integer(), map()) -> term().
asked(Vm, {Function, Arguments}, Arm, #{options := #{timeout_ms := TimeoutMs}, arms := Arms}) ->
    receive
        dyno_interrupt -> fail(interrupted)
    after 0 -> ok
    end,
    #{number := Number} = lists:nth(Arm, Arms),
    %% The stand gives up before.
    case dyno_bench_vm:call(
        Vm, dyno_bench_vm_server, Function, Arguments, 3 * TimeoutMs + ?MARGIN_MS
    ) of
        {ok, {ok, Answer}} -> Answer;
        {ok, {error, Reason}} -> fail(of_code(Number, Reason));
        {error, Reason} -> fail(Reason)
    end.

%% All must give the same: asked once.
-spec agree(map(), [{pos_integer(), dyno_bench_vm:vm()}], map()) -> ok.
agree(#{iterations := none}, Numbered, #{measurement := #{agree := Agree}, arms := Arms} = State) ->
    Results = [
        {
            dyno_bench_code:label(as_map(map_get(code, lists:nth(N, Arms)))),
            asked(Vm, {result, []}, N, State)
        }
     || {N, Vm} <- Numbered
    ],
    case Agree(Results) of
        ok -> ok;
        {error, Text} -> fail({check, Text})
    end;
agree(_Known, _Numbered, _State) ->
    ok.

-spec as_map(dyno_bench_code:code()) -> map().
as_map(#{} = Code) -> Code;
as_map(Code) -> #{runner => Code}.

%% The same for all arms, and in all groups; fewer for one that is much slower.
-spec iterations(map(), [{pos_integer(), dyno_bench_vm:vm()}], map()) ->
    #{pos_integer() => pos_integer()}.
iterations(#{iterations := none}, Numbered, State) ->
    Found = #{N => asked(Vm, {iterations, []}, N, State) || {N, Vm} <- Numbered},
    Most = lists:max(maps:values(Found)),
    #{Arm => min(Most, 20 * N) || Arm := N <- Found};
iterations(#{iterations := Iterations}, _Numbered, _State) ->
    Iterations.

-spec metric(map()) -> dyno_bench_metric:name().
metric(#{options := Options}) -> maps:get(metric, Options, time).

%% Where they do not decide, the exact figures are those of the first VMs.
-spec wanted(map(), map()) -> [exact | whole | profile].
wanted(Known, #{options := Options} = State) ->
    First =
        case Known of
            #{iterations := none} -> [exact | maps:get(extras, Options, [])];
            _ -> []
        end,
    Always =
        case metric(State) of
            messages -> [whole];
            whole -> [exact, whole];
            Metric -> [exact || dyno_bench_metric:kind(Metric) =:= exact]
        end,
    lists:uniq(First ++ Always).

%% What decides, of each arm in one group.
-spec decisive(#{pos_integer() => float()}, [{pos_integer(), map()}], map()) ->
    #{pos_integer() => float()}.
decisive(Values, Figures, State) ->
    Metric = metric(State),
    case dyno_bench_metric:kind(Metric) of
        rounds ->
            Values;
        _ ->
            #{
                N => dyno_bench_metric:at_least(
                    dyno_stats:median(dyno_bench_extras:values(Metric, Arm))
                )
             || {N, Arm} <- Figures
            }
    end.

%% The medians of each arm: of the time, and of what decides.
-spec rounds([{pos_integer(), dyno_bench_vm:vm()}], #{pos_integer() => pos_integer()}, map()) ->
    {#{pos_integer() => float()}, #{pos_integer() => float()}}.
rounds(Numbered, Iterations, #{options := Options} = State) ->
    Vms = maps:from_list(Numbered),
    Epoch = fun(N) ->
        asked(map_get(N, Vms), {epoch, [map_get(N, Iterations)]}, N, State)
    end,
    %% The first of a fresh VM is not like the others.
    StartMs = erlang:monotonic_time(millisecond),
    _ = [Epoch(N) || {N, _} <- Numbered],
    RoundMs = max(1, erlang:monotonic_time(millisecond) - StartMs),
    Count =
        case dyno_bench_metric:kind(metric(State)) of
            rounds -> max(?LEAST_ROUNDS, min(?ROUNDS, ?GROUP_MS div RoundMs));
            _ -> ?LEAST_ROUNDS
        end,
    Planner = dyno_bench_rounds:new(#{
        arms => length(Numbered),
        threshold => map_get(threshold, Options),
        level => map_get(level, Options)
    }),
    {Rounds, _} = lists:mapfoldl(
        fun(_, Before) ->
            {Order, After} = dyno_bench_rounds:order(Before),
            Round = #{N => Epoch(N) || N <- Order},
            {Round, dyno_bench_rounds:add(#{N => Value || N := {_, Value} <- Round}, After)}
        end,
        Planner,
        lists:seq(1, Count)
    ),
    Median = fun(Which) ->
        #{
            N => dyno_stats:median([element(Which, map_get(N, R)) || R <- Rounds])
         || {N, _} <- Numbered
        }
    end,
    {Median(1), Median(2)}.

-doc """
Samples in one of erlperf's modes: each in a fresh VM, which has measured `Warmup` samples before.
""".
-spec samples(
    {continuous | timed, map()},
    [dyno_bench_code:code()],
    pos_integer(),
    dyno_bench_engine:options()
) -> {ok, dyno_bench_engine:result()} | {error, reason()}.
samples({Mode, Settings}, Codes, Count, #{isolated := Isolated} = Options) ->
    Arms = arms(Codes, Isolated),
    StartMs = erlang:monotonic_time(millisecond),
    One = {Mode, (maps:remove(cv, Settings))#{samples := 1}},
    trapping(fun() ->
        Planner = dyno_bench_rounds:new(
            (maps:with([threshold, level, seed], Options))#{arms => length(Arms)}
        ),
        {Rounds, Last} = lists:mapfoldl(
            fun(Number, Before) ->
                progress(#{settings => Isolated}, Number, Count),
                {Order, After} = dyno_bench_rounds:order(Before),
                Round = sampled(Order, Arms, One, Options),
                Times = #{N => T || N := #{arms := [#{times_ns := [T]}]} <- Round},
                {Round, dyno_bench_rounds:add(Times, After)}
            end,
            Planner,
            lists:seq(1, Count)
        ),
        #{
            arms => [
                in_one([hd(map_get(arms, map_get(N, R))) || R <- Rounds])
             || N <- lists:seq(1, length(Arms))
            ],
            pairs => dyno_bench_rounds:pairs(Last),
            rounds => Count,
            fixed => true,
            vms => Count,
            decided => dyno_bench_rounds:is_decided(Last),
            loop_ns => dyno_stats:median([Ns || R <- Rounds, #{loop_ns := Ns} <- maps:values(R)]),
            duration_ms => erlang:monotonic_time(millisecond) - StartMs
        }
    end).

-spec sampled([pos_integer()], [arm()], dyno_bench_mode:checked(), map()) ->
    #{pos_integer() => map()}.
sampled(Order, Arms, Mode, #{isolated := Settings} = Options) ->
    Vms = ok(dyno_bench_vm:start([spec(Arm, Settings) || Arm <- Arms])),
    try
        #{N => in_vm(lists:nth(N, Vms), lists:nth(N, Arms), Mode, Options) || N <- Order}
    after
        dyno_bench_vm:stop(Vms)
    end.

-spec in_vm(dyno_bench_vm:vm(), arm(), dyno_bench_mode:checked(), map()) -> map().
in_vm(Vm, #{code := Code, number := Number}, Mode, Options) ->
    receive
        dyno_interrupt -> fail(interrupted)
    after 0 -> ok
    end,
    Arguments = [Mode, Code, maps:remove(isolated, Options)],
    case dyno_bench_vm:call(Vm, dyno_bench_vm_server, run, Arguments, infinity) of
        {ok, {ok, Result}} -> Result;
        {ok, {error, Reason}} -> fail(of_code(Number, Reason));
        {error, Reason} -> fail(Reason)
    end.

-spec in_one([map(), ...]) -> map().
in_one([First | _] = Arms) ->
    Mean = fun(Key) -> dyno_stats:mean([map_get(Key, Arm) || Arm <- Arms]) end,
    Joined = First#{
        times_ns := [T || #{times_ns := [T]} <- Arms],
        reductions := Mean(reductions),
        garbage_collections := Mean(garbage_collections)
    },
    case First of
        #{durations_ns := _} -> Joined#{durations_ns := [D || #{durations_ns := [D]} <- Arms]};
        #{} -> Joined
    end.

-doc "Runs a mode for one code in one VM: a squeeze.".
-spec alone(dyno_bench_mode:checked(), dyno_bench_code:code(), dyno_bench_engine:options()) ->
    {ok, map()} | {error, reason()}.
alone(Mode, Code, #{isolated := Settings} = Options) ->
    trapping(fun() ->
        case arms([Code], Settings) of
            [Arm] -> map_get(1, sampled([1], [Arm], Mode, Options));
            Arms -> fail({squeezed_variants, length(Arms)})
        end
    end).

-doc "What a recording says of the settings.".
-spec parameters(settings()) -> #{atom() => term()}.
parameters(Settings) ->
    Text = fun(Chars) -> unicode:characters_to_binary(Chars) end,
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

-doc "Whether a reason is one that only codes in VMs of their own give.".
-spec explains(term()) -> boolean().
explains(no_compiler) ->
    true;
explains(Reason) when is_tuple(Reason) ->
    Kinds = [setting, squeezed_variants, stand_died, no_erl, does_not_boot, otp_too_old, vm_died],
    lists:member(element(1, Reason), Kinds);
explains(_Reason) ->
    false.

-doc "One sentence for a reason that others do not have.".
-spec format_error(reason()) -> unicode:chardata().
format_error({setting, Key, Value, Accepted}) ->
    io_lib:format("~ts: ~0tP; ~ts is accepted", [Key, Value, 12, Accepted]);
format_error({squeezed_variants, Count}) ->
    io_lib:format(
        "one code in one Erlang is squeezed at a time, not in ~b revisions, Erlangs or sets of "
        "flags; run it once for each",
        [Count]
    );
format_error({stand_died, Reason}) ->
    io_lib:format("the process that measures in a VM of its own died: ~0tP", [Reason, 12]);
format_error(no_compiler) ->
    "the Erlang that a code is to run in has no compiler; install its development packages";
format_error(Reason) ->
    dyno_bench_vm:format_error(Reason).
