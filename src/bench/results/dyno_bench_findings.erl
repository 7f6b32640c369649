%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_findings).
-moduledoc false.
%% Findings about a comparison: doubts about its numbers, reasons for its length, and advice. Pure.

-export([findings/2, described/2, waiting/1, doubt/3]).

-import(dyno_recording_part, [text/2]).

-define(LEVEL, (dyno_stats_interval:level())).
-define(CHANGING, ~"Look for state that changes from call to call.").

-spec findings([{binary(), dyno_bench_engine:candidate()}], dyno_bench_engine:result()) ->
    [dyno_finding:t()].
findings(Labelled, #{candidates := Candidates} = Result) ->
    lists:append([
        [F || {Label, Candidate} <- Labelled, F <- described(short(Label), Candidate)],
        doubtful(Labelled, Result),
        forms(Candidates),
        busy(Candidates),
        clock(Candidates),
        ending(Result, length(Candidates)),
        dyno_bench_heap_result:findings([short(Label) || {Label, _} <- Labelled], Result),
        dyno_bench_extras_result:findings(Labelled)
    ]).

short(Label) -> string:slice(Label, 0, 60).

-spec doubt(Check :: atom(), Text :: binary(), Advice :: binary()) -> dyno_finding:t().
doubt(Check, Text, Advice) ->
    dyno_finding:new(Check, none, #{severity => doubt, text => Text, advice => Advice}).

beyond(Check, Limit, Value, Text, Advice) ->
    dyno_finding:new(Check, Limit, #{
        severity => doubt, value => Value, text => Text, advice => Advice
    }).

-spec described(binary(), #{constant := boolean(), warnings := [binary()], _ => _}) ->
    [dyno_finding:t()].
described(Label, #{constant := IsConstant, warnings := Warnings} = Description) ->
    [
        doubt(
            constant,
            text(
                "~ts: the compiler has worked out the result of ~ts; the time is that of a call", [
                    Label, Function
                ]
            ),
            <<"Use values that the compiler does not know, for example from --init_runner.">>
        )
     || #{folded := Function} <- [Description]
    ] ++
        [
            doubt(
                constant,
                text("~ts: the compiler leaves nothing to do; an empty loop was measured", [Label]),
                ~"Use values that --init_runner gives."
            )
         || IsConstant
        ] ++ [doubt(compiler, text("~ts: ~ts", [Label, one_line(W)]), ~"") || W <- Warnings].

one_line(Text) -> lists:join(" ", string:lexemes(Text, " \n")).

doubtful(Labelled, #{candidates := Candidates} = Result) ->
    Doubts = dyno_bench_doubts:doubts(Result),
    Verdict = ["; so there is no verdict" || length(Candidates) > 1],
    [
        (of_doubt(whose(Doubt, Result), short(Label), Verdict))#{subject := Label}
     || {Number, {Label, _}} <- lists:enumerate(Labelled),
        Doubt <- maps:get(Number, Doubts, []),
        %% Told already.
        Doubt =/= folded
    ].

whose({keeps, Bytes}, #{candidates := [_, _ | _]} = Result) when not is_map_key(vms, Result) ->
    {keeps, Bytes, "the times of all codes, in the same VM, depend"};
whose({keeps, Bytes}, _Result) ->
    {keeps, Bytes, "the time depends"};
whose(Doubt, _Result) ->
    Doubt.

of_doubt({first, FirstNs, LaterNs}, Label, Verdict) ->
    Text = text(
        "~ts: the first call took ~ts, the later ones take ~ts: the time is that of a call that "
        "finds what the first one made~ts",
        [Label, time(FirstNs), time(LaterNs), Verdict]
    ),
    beyond(first_call, first_call, FirstNs / LaterNs, Text, <<
        "Measure the code that makes the value, or have each call make a new one."
    >>);
of_doubt({early, Calls, EarlyNs, LaterNs}, Label, Verdict) ->
    Text = text(
        "~ts: the first ~b calls took ~ts on average, the later ones take ~ts: the time is that of "
        "a call that finds what the first ones made~ts",
        [Label, Calls, time(EarlyNs), time(LaterNs), Verdict]
    ),
    doubt(early_calls, Text, ~"Measure the code that makes it, or have each call make it anew.");
of_doubt({changes, Few, Many}, Label, Verdict) ->
    Text = text(
        "~ts: calls take ~ts reductions at some times and ~ts at others, so the costs depend on "
        "when and how long they are measured~ts",
        [Label, dyno_unit:format(Few, ~"1"), dyno_unit:format(Many, ~"1"), Verdict]
    ),
    doubt(changes, Text, ?CHANGING);
of_doubt({phases, ShortNs, LongNs}, Label, Verdict) ->
    Text = text(
        "~ts: a call took ~ts in some rounds and ~ts in others, for several rounds in turn, so the "
        "time depends on when and how long it is measured~ts",
        [Label, time(ShortNs), time(LongNs), Verdict]
    ),
    doubt(phases, Text, ?CHANGING);
of_doubt({waits, Idle, Others}, Label, Verdict) ->
    Text = text(
        "~ts: the code waits for ~ts of its time, for another process or program, a lock, a file "
        "or a dirty scheduler. Its thread waited for a processor for ~ts of the time, and how "
        "much longer the code takes for other programs is not known~ts",
        [Label, dyno_unit:format(Idle, ~"ratio"), dyno_unit:format(Others, ~"ratio"), Verdict]
    ),
    doubt(busy, Text, ~"Measure on a quiet machine.");
of_doubt({keeps, Bytes, Whose}, Label, Verdict) ->
    Text = text("~ts: each call leaves ~ts behind, so ~ts on how long it is measured~ts", [
        Label, dyno_unit:format(Bytes, ~"B"), Whose, Verdict
    ]),
    doubt(keeps, Text, ~"Have each call remove its additions.");
of_doubt({drifts, EarlyNs, LateNs}, Label, Verdict) ->
    Text = text(
        "~ts: a call took ~ts in the first rounds and ~ts in the last ones, so the time depends on "
        "how long it is measured~ts",
        [Label, time(EarlyNs), time(LateNs), Verdict]
    ),
    Drift = max(EarlyNs, LateNs) / max(1.0e-9, min(EarlyNs, LateNs)),
    beyond(drifts, drift, Drift, Text, ?CHANGING).

time(Ns) -> dyno_unit:format(Ns, ~"ns").

forms(Candidates) ->
    Forms = lists:usort([Form || #{form := Form} <- Candidates]),
    [
        doubt(
            forms,
            <<
                "the codes are called in different ways (inline, call, apply), which differ by up "
                "to 8 ns"
            >>,
            ~"Give all in the same form."
        )
     || length(Forms) > 1
    ].

busy(Candidates) ->
    [
        beyond(
            busy,
            others_busy,
            Share,
            text(
                "other programs had the processor for ~ts of the time; that is taken out of the "
                "times, what it did to the caches is not",
                [dyno_unit:format(Share, ~"ratio")]
            ),
            ~"Measure on a quiet machine, or for longer (--for)."
        )
     || Share <- [waiting([C || C <- Candidates, not is_map_key(idle, C)])],
        is_number(Share),
        Share > dyno_finding_limits:value(others_busy)
    ].

-spec waiting([dyno_bench_engine:candidate()]) -> float() | undefined.
waiting(Candidates) ->
    case [W || #{waiting := W} <- Candidates, is_number(W)] of
        [] -> undefined;
        Shares -> dyno_stats:mean(Shares)
    end.

clock(Candidates) ->
    case [x || #{waiting := undefined} <- Candidates] =/= [] andalso dyno_clock:missing() of
        {missing, Text} -> [doubt(clock, unicode:characters_to_binary(Text), ~"")];
        _ -> []
    end.

ending(#{status := interrupted} = Result, _Candidates) ->
    Text = text("interrupted: this is what ~ts gave", [counted(Result)]),
    [doubt(interrupted, Text, ~"")];
ending(#{rounds := Rounds, timing := #{least := Least} = Timing} = Result, Candidates) when
    Rounds < Least
->
    #{budget_ms := BudgetMs, elapsed_ms := ElapsedMs} = Timing,
    Text = text("the time for measuring, ~ts, was over after ~ts; ~ts needs ~b", [
        duration(BudgetMs), counted(Result), outcome(Candidates), Least
    ]),
    Needed = duration(Least * ElapsedMs / Rounds),
    [doubt(time, Text, text("Measure longer: ~b take about ~ts (--for).", [Least, Needed]))];
ending(Result, Candidates) ->
    longer(Result, Candidates) ++ undecided(Result, Candidates).

longer(#{timing := Timing, rounds := Rounds} = Result, Candidates) ->
    #{budget_ms := BudgetMs, elapsed_ms := ElapsedMs} = Timing,
    Text = text(
        "it took ~ts, more than ~ts, the time for measuring: ~ts needs ~ts, and one takes ~ts",
        [
            duration(ElapsedMs),
            duration(BudgetMs),
            outcome(Candidates),
            counted(Result),
            duration(ElapsedMs / Rounds)
        ]
    ),
    [
        (doubt(time, Text, ~""))#{severity := note}
     || ElapsedMs > dyno_finding_limits:value(over_time) * BudgetMs
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

undecided(#{pairs := Pairs} = Result, Candidates) ->
    Doubts = dyno_bench_doubts:doubts(Result),
    Undecided = [
        Pair
     || #{verdict := undecided, a := A, b := B} = Pair <- Pairs,
        not is_map_key(A, Doubts),
        not is_map_key(B, Doubts)
    ],
    [
        doubt(
            undecided,
            text("~b of ~b comparisons are not decided", [length(Undecided), length(Pairs)]),
            more(Undecided, Result, Candidates)
        )
     || Undecided =/= []
    ].

more(Undecided, #{fixed := true, rounds := Rounds} = Result, Candidates) when
    not is_map_key(vms, Result)
->
    Instead = "or leave -d, -s, -l and -r out, and dyno ends when the verdict is clear",
    case dyno_bench_comparison:least_rounds(Candidates, ?LEVEL) of
        Least when Rounds < Least ->
            text(
                "Take at least ~b samples (-s ~b): ~b cannot tell a difference from chance; ~ts.", [
                    Least, Least, Rounds, Instead
                ]
            );
        _ ->
            Threshold = dyno_stats_verdict:threshold(),
            Factors = [dyno_bench_comparison:more_rounds(Pair, Threshold) || Pair <- Undecided],
            Enough = ceil(Rounds * lists:max([1.5 | [F || F <- Factors, is_number(F)]])),
            text("Take more samples, about ~b may do (-s ~b), ~ts.", [Enough, Enough, Instead])
    end;
more(_Undecided, #{vms := Vms}, _Candidates) ->
    text("Take more than ~b VMs for each code, or more time (--vms, --for).", [Vms]);
more(_Undecided, _Result, _Candidates) ->
    ~"Measure longer (--for).".
