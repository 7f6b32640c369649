%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_stack_parts).
-moduledoc false.
%% Sampled stacks in a recording. Pure, for the caller's side only.

-export([config/1, result/1, profiles/0, tables/0, metrics/0, warnings/2]).

-type result() :: dyno_agent_stack_result:result().

%% The rarest stacks are merged into one.
-define(MOST_STACKS, 1500).
-define(MOST_WAITING, 200).
%% If schedulers work for less than this share of the time, timers may decide when functions run;
%% in a test its load decides.
-define(MOSTLY_IDLE, 0.5).
-define(MUCH, 0.05).
%% The share of processor time seen if all processes are met.
-define(MOSTLY, 0.7).
%% Instants without a running process.
-define(ENOUGH, 100).
%% Samples that say nothing: a handful may be dyno's own short processes.
-define(FEW, 30).

%% Late answers that may be chance.
-define(LATE, 3).
-define(SEE_WITH_CPU, <<
    "See it with --profile cpu (dyno profile: --kind cpu), by native code that is loaded into "
    "the node."
>>).

%% The share of one scheduler for instants, and that of a budget; the rest pays for lists.
-define(SHARE_OF_TEST, 0.01).
-define(SHARE_OF_BUDGET, 0.2).

-spec config(dyno_agent_instrument:options()) -> dyno_agent_stacks:config() | off.
config(Options) ->
    Cpu = maps:with([cpu], Options),
    Groups = maps:merge(Cpu, #{processes => P || #{dyno_agent_processes := P} <- [Options]}),
    case Options of
        #{processes := Selectors} -> Cpu#{purpose => profile, select => Selectors};
        #{profile := sample} -> Groups#{purpose => profile};
        #{profile := cpu} -> Groups#{purpose => profile};
        #{level := off} -> off;
        #{level := budget, budget := Budget} -> Groups#{share => Budget * ?SHARE_OF_BUDGET};
        #{} -> Groups#{share => ?SHARE_OF_TEST}
    end.

-spec result(dyno_agent_stacks:reading()) -> result().
result(Reading) -> dyno_agent_stack_result:result(Reading).

-spec profiles() -> [dyno_agent_instrument:profile()].
profiles() ->
    [
        #{
            name => ~"stacks",
            title => ~"Processor time",
            values => [#{name => ~"time", unit => ~"ns"}],
            observed => fun observed/1,
            stacks => fun stacks/1
        },
        #{
            name => ~"waiting_stacks",
            title => ~"Waiting processes",
            values => [
                #{name => ~"waiting", unit => ~"ns"},
                #{name => ~"messages", unit => ~"count"},
                #{name => ~"memory", unit => ~"B"}
            ],
            stacks => fun waiting_stacks/1
        }
    ].

%% Samples of one instant are of the same moment.
observed(#{cpu := #{samples := Count, scheduler := Scheduler}, seen := {Share, _}}) ->
    #{observations => Count, seen => Share, scheduler => Scheduler};
observed(#{seen := {Share, Instants}, late := Late} = Result) when is_float(Share); Late > 0 ->
    %% An unknown share, `none`, is more than each number.
    #{observations => Instants, seen => min(Share, seen(Result) * told(Result))};
observed(#{seen := {none, Instants}}) ->
    #{observations => Instants}.

%% For processes their waiting time, for messages and memory the mean.
waiting_stacks(#{purpose := test}) ->
    [];
waiting_stacks(#{waiting := Stacks, duration_ns := DurationNs}) ->
    {Most, _} = most(?MOST_STACKS, 4, Stacks),
    [
        {printed(Stack), [round(Mean * DurationNs), round(Messages), round(Bytes)], #{
            processes => group(Group)
        }}
     || {_, Group, Stack, {Mean, Messages, Bytes, _}} <- Most
    ].

%% The share of the seen processor time of which a stack tells the function. In floats 1 - 0.9 - 0.1
%% is not 0.
told(#{stacks := Stacks, other := Other}) ->
    All = max(1.0e-9, Other + weight(Stacks)),
    Weight = weight([
        Of
     || {_, Stack, _} = Of <- Stacks, lists:member(lists:last(Stack), [unseen, burst, late])
    ]),
    max(0, round(1.0e6 * (1 - Weight / All))) / 1.0e6.

stacks(#{stacks := Stacks, cpu_ns := CpuNs, other := Other, elsewhere := Elsewhere} = Result) ->
    All = max(1.0e-9, Other + Elsewhere + weight(Stacks)),
    SeenNs = CpuNs * seen(Result),
    Ns = fun(Weight) -> round(Weight / All * SeenNs) end,
    {Most, Rest} = most(?MOST_STACKS, 3, merged([outside_of_waits(Of) || Of <- Stacks])),
    [
        {printed(Stack), [Ns(Weight)], #{processes => group(Group)}}
     || {Group, Stack, Weight} <- Most
    ] ++ [{[~"(other stacks)"], [Ns(More)], #{}} || More <- [Other + weight(Rest)], More > 0] ++
        [{[unmet(Result)], [UnseenNs], #{}} || UnseenNs <- [round(CpuNs - SeenNs)], UnseenNs > 0].

%% The share of processor time in which processes were seen: 1, unless clearly less. Schedulers also
%% work between processes, for ports and timers. An instant that came late saw nothing.
seen(#{late := Late, instants := Instants, cpu := none} = Result) when Late > 0 ->
    min(1 - Late / Instants, seen(Result#{late := 0}));
seen(#{seen := {Share, Instants}}) when is_float(Share), Instants > 0 ->
    case Share * (1 + 2 / math:sqrt(Instants)) < ?MOSTLY of
        true -> Share;
        false -> 1.0
    end;
seen(#{seen := {Share, 0}, instants := Instants}) when is_float(Share), Instants > ?ENOUGH -> 0.0;
seen(_Result) ->
    1.0.

%% A process that ran shortly before it waits in an OTP function ran in that function's caller.
outside_of_waits({Group, Stack, Weight} = Of) ->
    case lists:reverse(Stack) of
        [burst | Inner] ->
            case lists:dropwhile(fun is_of_base/1, Inner) of
                [] -> Of;
                Own -> {Group, lists:reverse([burst | Own]), Weight}
            end;
        _ ->
            Of
    end.

is_of_base({M, _, _}) -> lists:member(M, dyno_agent_patterns:base());
is_of_base(_Word) -> true.

weight(Stacks) -> lists:sum([Weight || {_, _, Weight} <- Stacks]).

most(Most, Position, Items) ->
    lists:split(min(Most, length(Items)), lists:reverse(lists:keysort(Position, Items))).

%% A stack cut at its outer end joins the heaviest whole stack with its first function.
merged(Stacks) ->
    {Cut, Whole} = lists:partition(fun({_, Stack, _}) -> hd(Stack) =:= deep end, Stacks),
    {ByWeight, _} = most(length(Whole), 3, Whole),
    Found = [{Group, rooted(Group, Stack, ByWeight), Weight} || {Group, Stack, Weight} <- Cut],
    dyno_agent_stack_result:summed(Whole ++ Found).

rooted(Group, [deep, First | Inner] = Stack, ByWeight) ->
    Roots = [
        Outer
     || {Of, Path, _} <- ByWeight,
        Of =:= Group,
        {Outer, [Same | _]} <- [lists:splitwith(fun(Frame) -> Frame =/= First end, Path)],
        Same =:= First
    ],
    case Roots of
        [Outer | _] -> Outer ++ [First | Inner];
        [] -> Stack
    end.

printed(Stack) -> [frame(Frame) || Frame <- Stack].

frame({_, _, _} = MFA) -> dyno_agent_name:mfa(MFA);
frame(deep) -> ~"(further out than the runtime shows)";
frame({library, Name}) -> Name;
frame(scheduler) -> ~"(scheduler)";
frame(nameless) -> ~"(code without a name)";
%% Of a process whose stack shows its place of waiting.
frame(burst) -> ~"(ready to run, or ran shortly, from here)";
frame(unseen) -> ~"(ended before it could be asked)";
frame(late) -> ~"(not seen: it answered late)".

%% Work of processes that were not met.
unmet(#{late := Late, cpu := none}) when Late > 0 -> ~"(not seen: dyno had no turn meanwhile)";
unmet(_Result) -> ~"(not seen: of processes that were not met)".

group(Group) -> element(1, dyno_agent_kind:print(Group)).

-spec tables() -> [dyno_agent_instrument:table()].
tables() ->
    Count = {number, ~"count"},
    Nearest = ~"The nearest function that is not of OTP's base.",
    Mean = ~"At one instant, in the mean; estimated from some processes.",
    [
        #{
            name => ~"waiting",
            title => ~"Stacks of waiting processes",
            items => fun waiting/1,
            columns => [
                {~"call", ~"Waits in", string, key, fun({{_, Call, _}, _}) ->
                    dyno_agent_name:mfa(Call)
                end},
                {~"caller", ~"Called by", string, [key, Nearest], fun({{_, _, Caller}, _}) ->
                    called_by(Caller)
                end},
                {~"processes", ~"Processes", string, key, fun({{Group, _, _}, _}) ->
                    group(Group)
                end},
                {~"waiting", ~"Processes waiting", Count, Mean, [2, 1]},
                {~"waiting_low", ~"Processes waiting, from", Count, {low, ~"waiting"}, [2, 2]},
                {~"waiting_high", ~"Processes waiting, to", Count, {high, ~"waiting"}, [2, 3]}
            ]
        }
    ].

called_by(none) -> undefined;
called_by(suspended) -> ~"(suspended)";
called_by(system_call) -> ~"(a system call)";
called_by({suspended, Caller}) -> <<(dyno_agent_name:mfa(Caller))/binary, " (suspended)">>;
called_by(Caller) -> dyno_agent_name:mfa(Caller).

waiting(#{waiting := []}) ->
    none;
waiting(#{waiting := Stacks}) ->
    Base = maps:from_keys(dyno_agent_patterns:base(), true),
    Calls = maps:groups_from_list(
        fun({How, Group, Stack, _}) -> {Group, lists:last(Stack), caller(Stack, How, Base)} end,
        fun({_, _, _, {Mean, _, _, Bounds}}) -> {Mean, Bounds} end,
        Stacks
    ),
    {Most, _} = most(?MOST_WAITING, 2, [{Key, together(Of)} || Key := Of <- Calls]),
    Most.

%% The bounds of several stacks add up to the widest.
together(Means) ->
    Sum = lists:sum([Mean || {Mean, _} <- Means]),
    case [x || {_, {_, _}} <- Means] of
        [] ->
            {Sum, undefined, undefined};
        _ ->
            Bounds = [
                case Of of
                    {_, {_, _} = Known} -> Known;
                    {Mean, none} -> {Mean, Mean}
                end
             || Of <- Means
            ],
            {Lows, Highs} = lists:unzip(Bounds),
            {Sum, lists:sum(Lows), lists:sum(Highs)}
    end.

%% A wait in a call not made for waiting is of interest with any caller.
caller(Stack, How, Base) ->
    [_Call | Outer] = lists:reverse(Stack),
    case [MFA || {M, _, _} = MFA <- Outer, not is_map_key(M, Base)] of
        [Nearest | _] when How =:= suspended -> {suspended, Nearest};
        [Nearest | _] -> Nearest;
        [] when How =:= receives -> none;
        [] -> How
    end.

-spec metrics() -> [dyno_agent_instrument:metric()].
metrics() ->
    [
        #{
            name => ~"instrument.stacks",
            title => ~"Time of one scheduler for sampling stacks",
            unit => ~"ratio",
            group => ~"instrument",
            value => fun(Results) ->
                Shares = [
                    CostNs / max(1, DurationNs)
                 || #{cost_ns := CostNs, duration_ns := DurationNs} <- Results
                ],
                {lists:max(Shares), lists:sum([N || #{instants := N} <- Results])}
            end
        },
        #{
            name => ~"stacks.seen",
            title => ~"Processor time in which the sampled processes were seen to run",
            unit => ~"ratio",
            group => ~"instrument",
            value => fun(Results) ->
                case [Seen || #{seen := {Share, _} = Seen} <- Results, is_float(Share)] of
                    [] -> none;
                    Known -> lists:min(Known)
                end
            end
        }
    ].

-spec warnings(Role :: binary(), result()) -> [dyno_agent_instrument:warning()].
warnings(Role, #{stacks := Stacks, other := Other} = Result) ->
    All = max(1.0e-9, Other + weight(Stacks)),
    none(Role, Result) ++ late_or_unseen(Role, All, Result) ++ refused(Role, Result) ++
        [
            {
                ~"before_all",
                "~ts of ~ts works at priority max, and dyno looks only when it waits: its "
                "functions take more than is shown, and the others less; no interval holds",
                [dyno_recording_part:text("~ts", [lists:join(", ", Names)]), Role],
                ?SEE_WITH_CPU
            }
         || #{before_all := [_ | _] = Names} <- [Result]
        ] ++
        [
            {
                ~"ticks",
                "the processor of ~ts was sampled at the kernel's ticks, mostly every 4 ms: shares "
                "of functions that a timer wakes and that end sooner may be far too low or too "
                "high, beyond their intervals",
                [Role],
                ~"If there are such functions, time them (--kind time)."
            }
         || #{cpu := #{}, purpose := profile} <- [Result],
            map_get(worked_ns, Result) < ?MOSTLY_IDLE * map_get(duration_ns, Result)
        ] ++
        [
            {
                ~"many_stacks",
                "~ts of the processor time of ~ts is in more different stacks than are kept: it is "
                "in no function",
                [{Other / All, ~"ratio"}, Role]
            }
         || Other > ?MUCH * All
        ] ++
        [
            {
                ~"no_clocks",
                "how long the threads of ~ts had a processor is not known (Linux says so, if a "
                "file can be read there): file operations are left out of its processor time, and "
                "time in other system calls counts as processor time",
                [Role]
            }
         || #{clocks := unknown} <- [Result]
        ].

%% Of a short measurement of many processes, or on a busy machine.
none(_Role, #{late := Late, cpu := none}) when Late > 0 ->
    [];
none(Role, #{stacks := [], worked_ns := WorkedNs, duration_ns := DurationNs}) when
    WorkedNs > ?MUCH * DurationNs
->
    [
        {
            ~"none_ran",
            "no process of ~ts was met while it ran: it is not known what its schedulers did in "
            "~ts",
            [Role, {WorkedNs, ~"ns"}],
            ~"Measure longer (--for)."
        }
    ];
none(_Role, _Result) ->
    [].

late_or_unseen(Role, All, #{late := Late, stacks := Stacks, cpu := none} = Result) ->
    Answers = weight([Of || {_, [late], _} = Of <- Stacks]),
    case 1 - seen(Result) * (1 - Answers / All) of
        Share when Share > ?MUCH, Late + Answers >= ?LATE -> [late(Role, Share, Result)];
        _ -> unseen(Role, All, Result)
    end;
late_or_unseen(Role, All, Result) ->
    unseen(Role, All, Result).

late(Role, Share, #{late := Late, instants := Instants}) ->
    {
        ~"late_stacks",
        "what took ~ts of the processor time of ~ts is not known: native functions that do not "
        "yield, long collections, or other programs kept its schedulers meanwhile (~ts of ~ts "
        "looks came late)",
        [{Share, ~"ratio"}, Role, {Late, ~"count"}, {Instants, ~"count"}],
        ?SEE_WITH_CPU
    }.

%% Time of processes that were not met, had ended or continued; if more than chance.
unseen(Role, All, #{stacks := Stacks, started := Started, cpu := Cpu} = Result) ->
    Ended = weight([Of || {_, Stack, _} = Of <- Stacks, lists:last(Stack) =:= unseen]) / All,
    #{observations := Count} = observed(Result),
    Told = told(Result),
    Seen = seen(Result),
    Share = Seen * Told,
    {_, AtMost} = dyno_stats_interval:share(Told, max(1, Count)),
    Highest = Seen * AtMost,
    {AtLeast, _} = dyno_stats_interval:share(Ended, max(1, Count)),
    if
        Count < ?FEW ->
            [];
        Highest < ?MOSTLY, Cpu =:= none ->
            [
                {
                    ~"bursts",
                    "the stacks show what ~ts of the processor time of ~ts went to; the rest went "
                    "to processes that ran too shortly to be asked",
                    [{Share, ~"ratio"}, Role],
                    ?SEE_WITH_CPU
                }
            ];
        AtLeast > ?MUCH ->
            [
                {
                    ~"short_processes",
                    "~ts of the processor time of ~ts went to processes that ended before they "
                    "could be asked for their stacks (~ts were started): no stack shows their "
                    "work; the functions' own times do, if they are measured",
                    [{Ended, ~"ratio"}, Role, {Started, ~"count"}]
                }
            ];
        true ->
            []
    end.

refused(Role, #{cpu := {refused, Reason}}) ->
    [
        {
            ~"cpu_refused",
            "the processor of ~ts could not be sampled, so that its stacks are those that "
            "processes told: ~ts",
            [Role, dyno_target_cpu:text(Reason)]
        }
    ];
refused(_Role, _Result) ->
    [].
