%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_result).
-moduledoc false.
%% Makes a recording of a comparison's result: the tables `codes` and `comparisons`, the times over
%% the rounds, and what makes the numbers less believable. Pure.

-export([document/3, document/4]).

-define(LEVEL, 0.95).
%% That of times, where none is given.
-define(THRESHOLD, 0.03).
%% A machine that other programs have so much of the time is a busy one.
-define(BUSY, 0.1).

-doc "What tells a run from the others: its case, its input.".
-type run_labels() :: #{binary() => binary()}.

-doc "The recording of one result.".
-spec document(#{atom() => term()}, dyno_bench_engine:result(), Environment :: term()) ->
    dyno_recording:document().
document(Parameters, Result, Environment) ->
    document(undefined, Parameters, [{#{}, undefined, Result}], Environment).

-doc "The recording of one result or several; `Parameters` as in doc/recording.md.".
-spec document(
    Name :: binary() | undefined,
    Parameters :: #{atom() => term()},
    [{run_labels(), Size :: pos_integer() | undefined, dyno_bench_engine:result()}, ...],
    Environment :: term()
) -> dyno_recording:document().
document(Given, Parameters, [{_, _, #{arms := Arms}} | _] = Results, Environment) ->
    Name =
        case Given of
            undefined -> name(Arms);
            _ -> Given
        end,
    Document0 = dyno_recording:new(bench, Name, Parameters, Environment),
    Document1 = lists:foldl(
        fun(Result, Document) -> dyno_recording:add_run(Document, run(Result)) end,
        Document0,
        Results
    ),
    DurationMs = lists:sum([Ms || {_, _, #{duration_ms := Ms}} <- Results]),
    Document2 = dyno_recording:put(Document1, duration_ns, DurationMs * 1_000_000),
    Document3 = dyno_recording:add_warnings(Document2, all_warnings(Results)),
    dyno_recording:put(Document3, status, complete).

%% What holds for all runs is said once, without a run's id.
all_warnings(Results) ->
    Each = [
        {dyno_recording_run:id(Run, 1), warnings(labels(Arms), Arms, R)}
     || {Run, _, #{arms := Arms} = R} <- Results
    ],
    [{_, First} | _] = Each,
    Common = [W || W <- First, lists:all(fun({_, Ws}) -> lists:member(W, Ws) end, Each)],
    Own = [{Id, Warning} || {Id, Ws} <- Each, Warning <- Ws -- Common],
    Common ++ [{Code, text("~ts: ~ts", [Id, Text])} || {Id, {Code, Text}} <- Own].

name([#{label := Label}]) -> short(Label);
name(Arms) -> <<(integer_to_binary(length(Arms)))/binary, " codes">>.

short(Label) -> string:slice(Label, 0, 60).

run({RunLabels, Size, #{arms := Arms, rounds := Rounds, loop_ns := LoopNs} = Result}) ->
    #{duration_ms := DurationMs} = Result,
    Labels = labels(Arms),
    #{
        labels => RunLabels,
        size => Size,
        status => complete,
        duration_ns => DurationMs * 1_000_000,
        metrics => [
            metric(~"bench.rounds", ~"Rounds", Rounds, ~"count"),
            metric(~"bench.loop", ~"The empty loop, an iteration", LoopNs, ~"ns/call")
            | [
                metric(~"bench.waiting", ~"Time that other programs took", W, ~"ratio")
             || W <- [waiting(Arms)], is_number(W)
            ] ++
                [
                    metric(~"bench.vms", ~"VMs that each code was measured in", Vms, ~"count")
                 || #{vms := Vms} <- [Result]
                ]
        ],
        series => [
            #{
                name => ~"bench.time",
                title => <<"Time per call: ", Label/binary>>,
                unit => ~"ns/call",
                group => ~"bench",
                node => undefined,
                labels => #{code => Label},
                times_ms => rounds_ms(Arms),
                values => Times
            }
         || {Label, #{times_ns := Times}} <- lists:zip(Labels, Arms)
        ] ++ waits(Labels, Arms) ++ durations(Labels, Arms) ++ values(Labels, Result),
        tables =>
            [codes(Labels, Arms, Result), comparisons(Labels, Result)] ++
                dyno_bench_extras_result:tables(lists:zip(Labels, Arms))
    }.

%% When each round ended, in the time that was spent on the codes.
rounds_ms(Arms) ->
    Lasted = lists:foldl(
        fun(Arm, Sums) ->
            Epochs = epochs_ns(Arm),
            lists:zipwith(fun(A, B) -> A + B end, Epochs, Sums)
        end,
        [0 || _ <- map_get(times_ns, hd(Arms))],
        Arms
    ),
    [Ns div 1_000_000 || Ns <- cumulated(Lasted)].

epochs_ns(#{durations_ns := Durations}) ->
    [round(D) || D <- Durations];
epochs_ns(#{times_ns := Times, iterations := N}) when is_integer(N) ->
    [round(T * N) || T <- Times];
epochs_ns(#{times_ns := Times}) ->
    [round(T) || T <- Times].

cumulated(Parts) ->
    {Sums, _} = lists:mapfoldl(fun(Part, Sum) -> {Sum + Part, Sum + Part} end, 0, Parts),
    Sums.

%% What decided, where that is not the time.
values(Labels, #{arms := [#{values := _} | _] = Arms, metric := Metric}) when Metric =/= time ->
    [
        #{
            name => ~"bench.value",
            title => <<(dyno_bench_metric:title(Metric))/binary, ": ", Label/binary>>,
            unit => dyno_bench_metric:unit(Metric),
            group => ~"bench",
            node => undefined,
            labels => #{code => Label, metric => atom_to_binary(Metric)},
            times_ms => lists:sublist(
                rounds_ms(Arms) ++ lists:seq(1, length(Values)), length(Values)
            ),
            values => [dyno_bench_metric:least(Value) || Value <- Values]
        }
     || {Label, #{values := Values}} <- lists:zip(Labels, Arms)
    ];
values(_Labels, _Result) ->
    [].

%% Which rounds were disturbed.
waits(Labels, Arms) ->
    [
        #{
            name => ~"bench.waiting",
            title => <<"Time that other programs took: ", Label/binary>>,
            unit => ~"ratio",
            group => ~"bench",
            node => undefined,
            labels => #{code => Label},
            times_ms => rounds_ms(Arms),
            values => Waits
        }
     || {Label, #{times_ns := Times, waits := Waits}} <- lists:zip(Labels, Arms),
        length(Waits) =:= length(Times),
        lists:all(fun is_number/1, Waits)
    ].

%% How long each sample really was, where samples are of a time.
durations(Labels, Arms) ->
    [
        #{
            name => ~"bench.sample",
            title => <<"Duration of the samples: ", Label/binary>>,
            unit => ~"ns",
            group => ~"bench",
            node => undefined,
            labels => #{code => Label},
            times_ms => [Ns div 1_000_000 || Ns <- cumulated([round(D) || D <- Durations])],
            values => Durations
        }
     || {Label, #{durations_ns := Durations}} <- lists:zip(Labels, Arms)
    ].

%% The same code twice is told apart.
labels(Arms) ->
    All = [Label || #{label := Label} <- Arms],
    [
        case [L || L <- All, L =:= Label] of
            [_] -> Label;
            _ -> <<Label/binary, " #", (integer_to_binary(N))/binary>>
        end
     || {N, Label} <- lists:enumerate(All)
    ].

metric(Name, Title, Value, Unit) ->
    #{name => Name, title => Title, value => Value, unit => Unit, count => 1, group => ~"bench"}.

waiting(Arms) ->
    case [W || #{waiting := W} <- Arms, is_number(W)] of
        [] -> undefined;
        Known -> lists:sum(Known) / length(Known)
    end.

%% The fastest first.
codes(Labels, Arms, Result) ->
    Numbered = lists:zip3(lists:seq(1, length(Arms)), Labels, Arms),
    Metric = maps:get(metric, Result, time),
    Before = fun({_, _, A}, {_, _, B}) -> key(Metric, A) =< key(Metric, B) end,
    Sorted = lists:sort(Before, Numbered),
    [{Fastest, _, _} | _] = Sorted,
    dyno_recording_table:new(
        ~"codes",
        ~"Codes",
        [
            {~"code", ~"Code", string, undefined},
            {~"time_per_call", ~"Time per call", number, ~"ns/call"},
            {~"low", ~"Low", number, ~"ns/call"},
            {~"high", ~"High", number, ~"ns/call"},
            {~"calls_per_second", ~"Calls per second", number, ~"1/s"},
            {~"ratio", ~"Times the fastest", number, ~"1"},
            {~"ratio_low", ~"Ratio, low", number, ~"1"},
            {~"ratio_high", ~"Ratio, high", number, ~"1"},
            {~"verdict", ~"Verdict", string, undefined},
            {~"reductions_per_call", ~"Reductions per call", number, ~"1"},
            {~"words_per_call", ~"Words per call", number, ~"words/call"},
            {~"inexact", ~"Not exact", string, undefined},
            {~"collections_per_call", ~"Collections per call", number, ~"1"},
            {~"waiting", ~"Others' time", number, ~"ratio"},
            {~"iterations", ~"Iterations an epoch", integer, ~"count"},
            {~"form", ~"Called", string, undefined}
            | [{N, T, number, U} || {N, T, U, _} <- further(Metric, hd(Arms))]
        ],
        [
            code_row(Label, Arm, against(Fastest, Number, Result)) ++
                [Value || {_, _, _, Value} <- further(Metric, Arm)]
         || {Number, Label, Arm} <- Sorted
        ]
    ).

%% What there is only where it was asked for.
further(Metric, Arm) ->
    [
        {~"value", dyno_bench_metric:title(Metric), dyno_bench_metric:unit(Metric),
            dyno_bench_metric:least(decisive(Metric, Arm))}
     || Metric =/= time
    ] ++ dyno_bench_extras_result:columns(Arm).

%% By what decides, and then by the time.
key(Metric, Arm) -> {decisive(Metric, Arm), time(Arm)}.

decisive(time, Arm) -> time(Arm);
decisive(_Metric, #{values := Values}) -> dyno_stats:median(Values).

time(#{times_ns := Times}) -> dyno_stats:median(Times).

code_row(Label, #{times_ns := Times} = Arm, {Ratio, Low, High, Verdict}) ->
    {TimeLow, TimeHigh} =
        case dyno_stats_interval:median(Times, ?LEVEL) of
            {ok, {L, H, _}} -> {L, H};
            {error, too_few} -> {undefined, undefined}
        end,
    #{
        garbage_collections := Collections,
        waiting := Waiting,
        iterations := Iterations,
        form := Form
    } = Arm,
    {Reductions, Words, Inexact} = exact(Arm),
    Time = time(Arm),
    [
        Label, Time, TimeLow, TimeHigh, 1.0e9 / Time, Ratio, Low, High, Verdict, Reductions,
        Words, Inexact, Collections, Waiting, Iterations, atom_to_binary(Form)
    ].

exact(#{exact := #{reductions := Reductions, words := Words} = Exact}) ->
    {Reductions, Words, inexact(Exact)};
exact(#{reductions := Reductions}) ->
    {Reductions, undefined, ~"reductions"}.

%% Which of the exact figures differed from run to run.
inexact(#{words_agree := Words, reductions_agree := Reductions}) ->
    case [Name || {false, Name} <- [{Reductions, ~"reductions"}, {Words, ~"words"}]] of
        [] -> undefined;
        Names -> iolist_to_binary(lists:join(~", ", Names))
    end.

%% The ratio of a code's time to the fastest's, from their pair.
against(Same, Same, Result) ->
    case maps:get(metric, Result, time) of
        time -> {1.0, undefined, undefined, ~"fastest"};
        Metric -> {1.0, undefined, undefined, least(dyno_bench_metric:is_time(Metric))}
    end;
against(Fastest, Number, #{pairs := Pairs} = Result) ->
    {Ratio, Low, High, Verdict} = paired(Fastest, Number, Pairs),
    Word = worded(given(Verdict, Low, Result), maps:get(metric, Result, time)),
    {known(Ratio), known(Low), known(High), Word}.

%% So few samples were asked for that nothing could be decided, whatever they are: no verdict.
given(~"undecided", undefined, #{fixed := true}) -> undefined;
given(Verdict, _Low, _Result) -> Verdict.

least(true) -> ~"fastest";
least(false) -> ~"least".

%% More than none is by no factor.
known(Ratio) when is_number(Ratio), Ratio > 1.0e6 -> undefined;
known(Ratio) when is_number(Ratio), Ratio < 1.0e-6 -> undefined;
known(Ratio) -> Ratio.

%% Only times are slower.
worded(Verdict, Metric) ->
    case {dyno_bench_metric:is_time(Metric), Verdict} of
        {false, ~"slower"} -> ~"more";
        {false, ~"faster"} -> ~"less";
        {_, _} -> Verdict
    end.

paired(Fastest, Number, Pairs) ->
    Wanted = lists:sort([Fastest, Number]),
    case [P || #{a := A, b := B} = P <- Pairs, lists:sort([A, B]) =:= Wanted] of
        [#{a := Fastest, ratio := R, low := L, high := H, verdict := V}] ->
            {R, L, H, atom_to_binary(V)};
        [#{b := Fastest, ratio := R, low := L, high := H, verdict := V}] ->
            {inverse(R), inverse(H), inverse(L), opposite(V)}
    end.

inverse(undefined) -> undefined;
inverse(Value) -> 1 / Value.

opposite(slower) -> ~"faster";
opposite(faster) -> ~"slower";
opposite(Other) -> atom_to_binary(Other).

comparisons(Labels, #{pairs := Pairs} = Result) ->
    Metric = maps:get(metric, Result, time),
    dyno_recording_table:new(
        ~"comparisons",
        ~"Comparisons",
        [
            {~"a", ~"Code", string, undefined},
            {~"b", ~"Compared with", string, undefined},
            {~"ratio", ratio_title(Metric), number, ~"1"},
            {~"low", ~"Low", number, ~"1"},
            {~"high", ~"High", number, ~"1"},
            {~"verdict", ~"Verdict", string, undefined}
        ],
        [
            [
                lists:nth(B, Labels), lists:nth(A, Labels), known(R), known(L), known(H),
                worded(given(atom_to_binary(V), L, Result), Metric)
            ]
         || #{a := A, b := B, ratio := R, low := L, high := H, verdict := V} <- Pairs
        ]
    ).

ratio_title(time) -> ~"Ratio of the times";
ratio_title(Metric) -> <<"Ratio: ", (string:lowercase(dyno_bench_metric:title(Metric)))/binary>>.

warnings(Labels, Arms, Result) ->
    lists:append([
        constants(Labels, Arms),
        compiler(Labels, Arms),
        forms(Arms),
        busy(Arms),
        clock(Arms),
        undecided(Result, length(Arms)),
        dyno_bench_extras_result:warnings(lists:zip(Labels, Arms))
    ]).

constants(Labels, Arms) ->
    [
        {~"constant",
            text("~ts: the compiler works the result out; an empty loop was measured. Take the "
                "values from init_runner", [short(Label)])}
     || {Label, #{constant := true}} <- lists:zip(Labels, Arms)
    ].

compiler(Labels, Arms) ->
    [
        {~"compiler", text("~ts: ~ts", [short(Label), Warning])}
     || {Label, #{warnings := Warnings}} <- lists:zip(Labels, Arms), Warning <- Warnings
    ].

%% Differences of the harness: a fun costs some nanoseconds more than code inline.
forms(Arms) ->
    case lists:usort([Form || #{form := Form} <- Arms]) of
        [_, _ | _] ->
            [
                {~"forms",
                    <<"the codes are called in different ways (inline, call, apply), which differ "
                        "by up to 8 ns; give all in the same form">>}
            ];
        _ ->
            []
    end.

busy(Arms) ->
    case waiting(Arms) of
        W when is_number(W), W > ?BUSY ->
            [
                {~"busy",
                    text("other programs had the processor for ~ts of the time; it is taken out of "
                        "the figures, what it did to the caches is not", [
                        dyno_unit:format(W, ~"ratio")
                    ])}
            ];
        _ ->
            []
    end.

clock(Arms) ->
    case [x || #{waiting := undefined} <- Arms] of
        [] ->
            [];
        _ ->
            case dyno_clock:missing() of
                none -> [];
                {missing, Text} -> [{~"clock", unicode:characters_to_binary(Text)}]
            end
    end.

undecided(#{decided := true}, _Arms) -> [];
undecided(#{pairs := Pairs, vms := Vms}, _Arms) ->
    N = length([x || #{verdict := undecided} <- Pairs]),
    [
        {~"undecided",
            text("~b of ~b comparisons are not decided with ~b VMs for each code; give it more "
                "(--vms, --time)", [N, length(Pairs), Vms])}
    ];
undecided(#{pairs := Pairs, fixed := true, rounds := Rounds}, Arms) ->
    Least = dyno_bench_rounds:least(Arms, ?LEVEL),
    Instead = "or leave -d, -s, -l and -r out, and it ends when it is decided",
    case Rounds < Least of
        true ->
            [
                {~"undecided",
                    text("~b samples are too few to tell a difference from chance; at least ~b are "
                        "needed (-s ~b), ~ts", [Rounds, Least, Least, Instead])}
            ];
        false ->
            N = length([x || #{verdict := undecided} <- Pairs]),
            Enough = enough(Rounds, Pairs),
            [{~"undecided", text("~b of ~b comparisons are not decided; about ~b samples may do "
                "(-s ~b), ~ts", [N, length(Pairs), Enough, Enough, Instead])}]
    end;
undecided(#{pairs := Pairs}, _Arms) ->
    N = length([x || #{verdict := undecided} <- Pairs]),
    [
        {~"undecided",
            text("~b of ~b comparisons are not decided yet; give it more time (--time)", [
                N, length(Pairs)
            ])}
    ].

enough(Rounds, Pairs) ->
    More = [
        dyno_bench_rounds:more(Pair, ?THRESHOLD)
     || #{verdict := undecided} = Pair <- Pairs
    ],
    ceil(Rounds * lists:max([Factor || Factor <- More, is_number(Factor)] ++ [1.5])).

text(Format, Arguments) ->
    unicode:characters_to_binary(io_lib:format(Format, Arguments)).
