%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_warnings).
-moduledoc false.
%% What makes the numbers of a comparison less believable, and why it took as long as it did, in
%% words. Pure.

-export([warnings/2, described/2, waiting/1]).

-define(LEVEL, (dyno_stats_interval:level())).
%% That of times, by default.
-define(THRESHOLD, 0.03).
%% A machine that other programs have so much of the time is a busy one.
-define(BUSY, 0.1).
%% What is longer than the time for measuring by less is not worth a word.
-define(LONGER, 1.5).

-doc "The warnings of a result, whose candidates have these labels.".
-spec warnings([{binary(), dyno_bench_engine:candidate()}], dyno_bench_engine:result()) ->
    [{binary(), binary()}].
warnings(Labelled, #{candidates := Candidates} = Result) ->
    lists:append([
        [Warning || {Label, Candidate} <- Labelled, Warning <- described(short(Label), Candidate)],
        doubtful(Labelled, Result),
        forms(Candidates),
        busy(Candidates),
        clock(Candidates),
        ending(Result, length(Candidates)),
        dyno_bench_heap_result:warnings([short(Label) || {Label, _} <- Labelled], Result),
        dyno_bench_extras_result:warnings(Labelled)
    ]).

short(Label) -> string:slice(Label, 0, 60).

-doc "The warnings that come from what is known of a code before it runs.".
-spec described(binary(), #{constant := boolean(), warnings := [binary()], _ => _}) ->
    [{binary(), binary()}].
described(Label, #{constant := IsConstant, warnings := Warnings} = Description) ->
    [
        {~"constant",
            text("~ts: the compiler has worked out the result of ~ts; the time is that of a call. "
                "Give it values that the compiler does not know, for example by --init_runner", [
                    Label, Function
                ])}
     || #{folded := Function} <- [Description]
    ] ++ [
        {~"constant",
            text("~ts: the compiler leaves nothing of it to do; an empty loop was measured. Have "
                "it use values that --init_runner gives", [Label])}
     || IsConstant
    ] ++ [{~"compiler", text("~ts: ~ts", [Label, Warning])} || Warning <- Warnings].

%% Codes whose time is not that of their work.
doubtful(Labelled, #{candidates := Candidates} = Result) ->
    Doubts =
        case dyno_bench_metric:is_time(maps:get(metric, Result, time)) of
            true -> dyno_bench_doubts:doubts(Candidates);
            false -> #{}
        end,
    Verdict = [" So there is no verdict." || length(Candidates) > 1],
    [
        {Code, text("~ts: ~ts~ts", [short(Label), Text, Verdict])}
     || {Number, {Label, _}} <- lists:enumerate(Labelled),
        Doubt <- maps:get(Number, Doubts, []),
        {Code, Text} <- [doubt(Doubt)]
    ].

doubt(folded) ->
    {~"folded", "the compiler has done its work beforehand."};
doubt({first, FirstNs, LaterNs}) ->
    {~"first_call",
        text("the first call took ~ts, the later ones take ~ts: the code keeps something that the "
            "first call makes, and the time is that of a call that finds it.", [
                time(FirstNs), time(LaterNs)
            ])};
doubt({keeps, Bytes}) ->
    {~"keeps",
        text("each call leaves ~ts behind, so later calls work with more than earlier ones, and "
            "the time depends on how long it is measured. Have each call remove what it adds.", [
                dyno_unit:format(Bytes, ~"B")
            ])};
doubt({drifts, EarlyNs, LateNs}) ->
    {~"drifts",
        text("a call took ~ts in the first rounds and ~ts in the last ones, so the time depends on "
            "how long it is measured. Look for state that changes from call to call.", [
                time(EarlyNs), time(LateNs)
            ])}.

time(Ns) -> dyno_unit:format(Ns, ~"ns").

%% Differences of the harness: a fun costs some nanoseconds more than code inline.
forms(Candidates) ->
    Forms = lists:usort([Form || #{form := Form} <- Candidates]),
    [
        {~"forms",
            <<"the codes are called in different ways (inline, call, apply), which differ by up to "
                "8 ns; give all in the same form">>}
     || length(Forms) > 1
    ].

busy(Candidates) ->
    [
        {~"busy",
            text("other programs had the processor for ~ts of the time; it is taken out of the "
                "times, what it did to the caches is not", [dyno_unit:format(Share, ~"ratio")])}
     || Share <- [waiting(Candidates)], is_number(Share), Share > ?BUSY
    ].

-doc "The share of the time that other programs took.".
-spec waiting([dyno_bench_engine:candidate()]) -> float() | undefined.
waiting(Candidates) ->
    case [W || #{waiting := W} <- Candidates, is_number(W)] of
        [] -> undefined;
        Shares -> dyno_stats:mean(Shares)
    end.

clock(Candidates) ->
    case [x || #{waiting := undefined} <- Candidates] =/= [] andalso dyno_clock:missing() of
        {missing, Text} -> [{~"clock", unicode:characters_to_binary(Text)}];
        _ -> []
    end.

%% Why it ended before all was decided, or later than it was to.
ending(#{status := interrupted} = Result, _Candidates) ->
    [{~"interrupted", text("it was interrupted; this is what ~ts gave", [counted(Result)])}];
ending(#{rounds := Rounds, timing := #{least := Least} = Timing} = Result, Candidates) when
    Rounds < Least
->
    #{budget_ms := BudgetMs, elapsed_ms := ElapsedMs} = Timing,
    [
        {~"time",
            text("the time for measuring, ~ts, was over after ~ts; ~ts needs ~b, which take about "
                "~ts: give it more (--time)", [
                    duration(BudgetMs), counted(Result), outcome(Candidates), Least,
                    duration(Least * ElapsedMs / Rounds)
                ])}
    ];
ending(Result, Candidates) ->
    longer(Result, Candidates) ++ undecided(Result, Candidates).

longer(#{timing := Timing, rounds := Rounds} = Result, Candidates) ->
    #{budget_ms := BudgetMs, elapsed_ms := ElapsedMs} = Timing,
    [
        {~"time",
            text("it took ~ts, more than ~ts, the time for measuring: ~ts needs ~ts, and one takes "
                "~ts", [
                    duration(ElapsedMs), duration(BudgetMs), outcome(Candidates), counted(Result),
                    duration(ElapsedMs / Rounds)
                ])}
     || ElapsedMs > ?LONGER * BudgetMs
    ];
longer(_Result, _Candidates) ->
    [].

outcome(1) -> ~"an interval";
outcome(_) -> ~"a verdict".

counted(#{vms := 1}) -> ~"1 VM";
counted(#{vms := Vms}) -> text("~b VMs for each code", [Vms]);
counted(#{rounds := 1}) -> ~"1 round";
counted(#{rounds := Rounds}) -> text("~b rounds", [Rounds]).

duration(Ms) -> dyno_unit:format(Ms * 1.0e6, ~"ns").

undecided(#{pairs := Pairs, candidates := Measured} = Result, Candidates) ->
    Doubts = dyno_bench_doubts:doubts(Measured),
    Undecided = [
        Pair
     || #{verdict := undecided, a := A, b := B} = Pair <- Pairs,
        not is_map_key(A, Doubts),
        not is_map_key(B, Doubts)
    ],
    Text = text("~b of ~b comparisons are not decided", [length(Undecided), length(Pairs)]),
    [
        {~"undecided", undecided_text(Text, Undecided, Result, Candidates)}
     || Undecided =/= []
    ].

undecided_text(Text, Undecided, #{fixed := true, rounds := Rounds} = Result, Candidates) when
    not is_map_key(vms, Result)
->
    Instead = "or leave -d, -s, -l and -r out, and it ends when it is decided",
    case dyno_bench_comparison:least_rounds(Candidates, ?LEVEL) of
        Least when Rounds < Least ->
            text("~b samples are too few to tell a difference from chance; at least ~b are needed "
                "(-s ~b), ~ts", [Rounds, Least, Least, Instead]);
        _ ->
            Factors = [dyno_bench_comparison:more_rounds(Pair, ?THRESHOLD) || Pair <- Undecided],
            Enough = ceil(Rounds * lists:max([1.5 | [F || F <- Factors, is_number(F)]])),
            text("~ts; about ~b samples may do (-s ~b), ~ts", [Text, Enough, Enough, Instead])
    end;
undecided_text(Text, _Undecided, #{vms := Vms}, _Candidates) ->
    text("~ts with ~b VMs for each code; give it more (--vms, --time)", [Text, Vms]);
undecided_text(Text, _Undecided, _Result, _Candidates) ->
    <<Text/binary, " yet; give it more time (--time)">>.

text(Format, Arguments) ->
    dyno_recording_part:text(Format, Arguments).
