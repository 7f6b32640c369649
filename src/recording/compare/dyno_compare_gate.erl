%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_compare_gate).
-moduledoc """
Conditions on which a comparison fails: `slower > 5%`, `words > 0.1%`, `worse > 5%`. Pure.
doc/comparing.md defines each condition.

A gate passes only if the whole interval of each asked metric is within the share; if an interval
reaches beyond, or is missing, the verdict is `unknown`. For tests `slower` and `faster` ask only
metrics that few runs can judge: throughput and the median response time. If whole runs differ too
much, those of their best parts are asked instead, unless whole runs are surely worse. Other
response times fail the gate if judged beyond the share, and otherwise do not count; the verdict
says so.
""".

-export([parse/1, check/2, of_metric/2, is_exact/1, names/1]).
-export([failing/2, verdict/3]).

-export_type([t/0]).

-opaque t() :: #{
    %% One of ?SUBJECTS, or a metric's name, which has a dot.
    subject := binary(),
    share := float(),
    text := binary()
}.

-define(SUBJECTS, [
    ~"slower",
    ~"faster",
    ~"worse",
    ~"reductions",
    ~"words",
    ~"messages",
    ~"whole",
    ~"gc",
    ~"memory",
    ~"cpu",
    ~"wall"
]).

-doc "Reads a condition: an expression like a threshold's, with a share.".
-spec parse(unicode:chardata()) -> {ok, t()} | {error, dyno_threshold:reason()}.
parse(Chars) ->
    maybe
        {ok, Read} ?= dyno_threshold:above(Chars, fun known/1),
        #{target := {metric, Subject}, limit := Share} = Limit = dyno_threshold:limit(Read),
        case Limit of
            #{node := undefined, unit := ~"ratio"} when Share >= 0 ->
                Text = dyno_threshold:format(Read),
                {ok, #{subject => Subject, share => float(Share), text => Text}};
            #{node := undefined} ->
                dyno_threshold:refused({limit, share}, Read);
            #{} ->
                dyno_threshold:refused({not_here, of_node}, Read)
        end
    end.

%% `check/2` looks for the metric in the recordings.
known({metric, Name}) ->
    Names = [Name || is_name(Name)] ++ ?SUBJECTS,
    #{metrics => [#{name => Known, unit => ~"ratio"} || Known <- Names]};
known(_Cell) ->
    #{}.

is_name(Subject) -> binary:match(Subject, ~".") =/= nomatch.

-doc "Whether one of these recordings has the condition's subject.".
-spec check(t(), [dyno_recording:document(), ...]) -> ok | {error, dyno_threshold:reason()}.
check(#{subject := Name, text := Text}, [Document | _] = Documents) ->
    Named = [
        x
     || is_name(Name),
        Of <- Documents,
        #{metric := N} <- dyno_compare_metrics:metrics(Of, [Name]),
        N =:= Name
    ],
    case is_name(Name) andalso Named =:= [] of
        true ->
            {error,
                {Text, 0, {unknown_metric, Name, dyno_compare_metrics:nearest(Name, Document)}}};
        false ->
            ok
    end.

-doc "The changes that meet the condition, the greatest first.".
-spec failing(t(), [dyno_compare:change()]) -> [dyno_compare:change()].
failing(#{subject := Subject} = Condition, Changes) ->
    greatest_first([
        Change
     || Change <- relevant(Subject, Changes), is_beyond(Condition, Change), is_judged(Change)
    ]).

greatest_first(Changes) ->
    Distance = fun
        (#{ratio := undefined}) -> infinity;
        (#{ratio := Ratio}) -> abs(math:log(max(Ratio, 1.0e-300)))
    end,
    lists:sort(fun(A, B) -> Distance(A) >= Distance(B) end, Changes).

%% Twice as slow is 100 %, for times and for throughput, in either direction.
is_beyond(#{share := Share} = Condition, Change) ->
    {From, To, _, _} = forward(Condition, Change),
    To > From * (1 + Share).

%% The values and the interval of their ratio, so that more is worse, or for `faster` better.
forward(#{subject := Subject}, #{old := Old, new := New, low := Low, high := High} = Change) ->
    #{better := Better} = Change,
    case (Subject =:= ~"faster") =:= (Better =:= higher) of
        true -> {Old, New, Low, High};
        false when Low =:= undefined -> {New, Old, Low, High};
        false -> {New, Old, 1 / max(High, 1.0e-300), 1 / max(Low, 1.0e-300)}
    end.

%% Exact metrics are not random.
is_judged(#{kind := exact}) -> true;
is_judged(#{verdict := Verdict}) -> not lists:member(Verdict, [same, undecided, one_run]).

is_open(_Condition, #{kind := exact}) ->
    false;
is_open(_Condition, #{verdict := one_run}) ->
    true;
is_open(Condition, #{low := undefined, verdict := Verdict} = Change) ->
    Verdict =:= undecided orelse (Verdict =/= same andalso is_beyond(Condition, Change));
is_open(#{share := Share} = Condition, Change) ->
    reach(Condition, Change) > 1 + Share.

reach(Condition, Change) -> element(4, forward(Condition, Change)).

-doc "The names in conditions that are compared only on request.".
-spec names([t()]) -> dyno_compare_metrics:names().
names(Conditions) -> [Subject || #{subject := Subject} <- Conditions, is_name(Subject)].

-doc "`worse` as a condition on a recording's deciding metric.".
-spec of_metric(t(), Metric :: binary()) -> t().
of_metric(#{subject := ~"worse"} = Condition, Metric) ->
    Condition#{subject := hd([S || S <- ?SUBJECTS, S =:= Metric] ++ [~"slower"])};
of_metric(Condition, _Metric) ->
    Condition.

-doc "Whether a condition's metrics do not depend on the machine.".
-spec is_exact(t()) -> boolean().
is_exact(#{subject := Subject}) -> lists:member(Subject, [~"reductions", ~"words"]).

-doc "The condition as a recording's verdict; `Failing` has the changes that meet it.".
-spec verdict(t(), [dyno_compare:change()], Failing :: [dyno_compare:change()]) ->
    #{atom() => term()}.
verdict(#{subject := Subject, share := Share, text := Name} = Condition, Changes, Failing) ->
    Relevant = relevant(Subject, Changes),
    Asked = [
        asked(Condition, Change, Relevant)
     || Change <- Relevant, is_asked(Subject, Change)
    ],
    Others = [C || C <- Relevant -- Asked, not dyno_compare_metrics:is_calm(C)],
    Open = furthest_first(Condition, [Change || Change <- Asked, is_open(Condition, Change)]),
    Work = [C || Subject =:= ~"slower", C <- Changes, is_more_work(Condition, C)],
    {Value, Result, Text} =
        case {Failing, Open, Asked} of
            {[Worst | More], _, _} ->
                {by(Worst), fail, [sentence(Worst), others(More), work(fail, Worst, Changes)]};
            {[], [Worst | More], _} ->
                Doubt = [doubt(Condition, Worst), others(More), work(unknown, Worst, Changes)],
                {undefined, unknown, [Doubt, longer(Condition, Open)]};
            {[], [], []} ->
                {undefined, unknown, ["there is nothing to compare in the recordings"]};
            {[], [], _} when Work =/= [] ->
                {undefined, unknown, more_work(hd(Work))};
            {[], [], _} ->
                {undefined, pass, [passed(Condition, Asked), best_only(Asked), not_asked(Others)]}
        end,
    #{
        kind => change,
        name => Name,
        subject => Subject,
        result => Result,
        text => dyno_recording_check:text(Text),
        threshold => #{
            metric => Subject,
            operator => ~"<=",
            limit => Share,
            unit => ~"ratio",
            value => Value
        }
    }.

%% A condition that names a metric asks that metric.
is_asked(Subject, Change) when Subject =:= ~"slower"; Subject =:= ~"faster" ->
    dyno_compare_metrics:is_asked(Change);
is_asked(_Subject, _Change) ->
    true.

%% The whole runs' change, or that of their best parts.
asked(Condition, #{item := Item, metric := Metric} = Whole, Changes) ->
    Calm = dyno_compare_metrics:calm(Metric),
    Parts = [
        C
     || #{item := I, metric := M} = C <- Changes,
        I =:= Item,
        M =:= Calm,
        is_open(Condition, Whole),
        not is_open(Condition, C),
        not is_beyond(Condition, Whole)
    ],
    hd(Parts ++ [Whole]).

%% Changes without an interval come first: nothing is known of them.
furthest_first(Condition, Changes) ->
    Reach = fun
        (#{low := undefined}) -> infinity;
        (Change) -> reach(Condition, Change)
    end,
    [C || {_, C} <- lists:reverse(lists:keysort(1, [{Reach(C), C} || C <- Changes]))].

relevant(Subject, Changes) when Subject =:= ~"slower"; Subject =:= ~"faster" ->
    [C || #{kind := time} = C <- Changes];
relevant(Subject, Changes) ->
    [
        C
     || #{metric := Metric, kind := Kind} = C <- Changes,
        Kind =/= presence,
        Metric =:= Subject orelse
            (Subject =:= ~"memory" andalso Metric =:= dyno_compare_metrics:memory())
    ].

passed(Condition, Asked) ->
    case [Seen || Change <- Asked, {ok, Seen} <- [seen(Condition, Change)]] of
        [] ->
            "nothing is beyond it";
        Seen ->
            io_lib:format(
                "nothing is beyond it in ~ts; a difference of ~ts would have been seen",
                [names_of(Asked), share(lists:max(Seen))]
            )
    end.

%% The smallest factor detected in all but one of twenty cases. The interval reaches from the
%% estimate so far that no difference is excluded; another estimate is at most as far off.
seen(_Condition, #{low := undefined}) ->
    none;
seen(#{share := Share}, #{low := Low, high := High}) ->
    {ok, (1 + max(Share, dyno_stats_verdict:threshold())) * math:sqrt(High / max(Low, 1.0e-300))}.

names_of(Changes) ->
    listed(lists:uniq([Metric || #{metric := Metric} <- Changes])).

listed([Name]) -> Name;
listed(Names) -> [lists:join(", ", lists:droplast(Names)), " and ", lists:last(Names)].

best_only(Asked) ->
    [
        "; whole runs differ too much, so a slowdown that comes and goes may not be seen"
     || lists:any(fun dyno_compare_metrics:is_calm/1, Asked)
    ].

not_asked(Others) ->
    case lists:uniq([Metric || #{metric := Metric, verdict := V} <- Others, is_unsure(V)]) of
        [] ->
            "";
        Names ->
            io_lib:format(
                "; ~ts cannot be told from so few runs and did not count (a condition that "
                "names one asks it)",
                [listed(Names)]
            )
    end.

is_unsure(Verdict) -> Verdict =:= undecided orelse Verdict =:= one_run.

by(#{old := Old, new := New}) when min(Old, New) > 0 -> max(Old, New) / min(Old, New) - 1;
by(#{old := Old, new := New, unit := ~"ratio"}) -> abs(New - Old);
%% No share of nothing.
by(_Change) -> undefined.

doubt(_Condition, #{item := Item, metric := Metric, verdict := one_run}) ->
    io_lib:format(
        "not enough data for ~ts of ~ts: a verdict needs two runs of a size or more in both "
        "recordings; measure both with --repeat 5",
        [Metric, Item]
    );
doubt(_Condition, #{others := {Old, New}} = Change) ->
    Shares = [dyno_unit:format(Share, ~"ratio") || Share <- [Old, New]],
    io_lib:format(
        "~ts, but other programs took at least ~ts of the processors before and ~ts now",
        [sentence(Change) | Shares]
    );
doubt(_Condition, #{drifts := true, of_each := round} = Change) ->
    [sentence(Change), ", but the time of the code depends on how long it is measured"];
doubt(_Condition, #{drifts := true} = Change) ->
    [sentence(Change), ", but response times changed within runs, so it depends on their length"];
doubt(_Condition, #{low := undefined, of_each := round} = Change) ->
    [sentence(Change), ", in too few rounds for a verdict"];
doubt(_Condition, #{low := undefined} = Change) ->
    [sentence(Change), ", which is not decided"];
doubt(Condition, Change) ->
    {ok, Seen} = seen(Condition, Change),
    io_lib:format(
        "~ts, and may be ~ts~ts: only a difference of ~ts could have been seen",
        [sentence(Change), share(reach(Condition, Change)), worse(Condition), share(Seen)]
    ).

longer(_Condition, [#{verdict := one_run} | _]) ->
    "";
longer(_Condition, [#{drifts := true} | _]) ->
    "";
longer(_Condition, [#{others := _} | _]) ->
    "; measure both on the same quiet machine (parts of the system that are no targets count, too)";
longer(_Condition, [#{of_each := round} | _]) ->
    "; measure longer (--for), or allow more";
longer(_Condition, [#{low := undefined} | _]) ->
    "; measure both with more repetitions (--repeat)";
longer(Condition, Open) ->
    "; " ++
        case lists:max([needed(Condition, Change) || #{runs := _} = Change <- Open]) of
            none ->
                "100 repetitions would not decide, as much as the runs vary here; measure longer "
                "runs (--for), or allow more";
            Needed ->
                "measure both with --repeat " ++ integer_to_list(Needed) ++ ", or allow more"
        end.

%% The repetitions that would mostly pass unchanged code, or judge a change as estimated.
needed(#{share := Share} = Condition, #{low := Low, high := High, runs := Runs} = Change) ->
    Threshold = dyno_stats_verdict:threshold(),
    Limit = math:log(1 + max(Share, Threshold)),
    Half = math:log(High / Low) / 2,
    Distance =
        case math:log(reach(Condition, Change)) - Half of
            Estimate when Estimate > Limit -> Estimate - math:log(1 + Threshold);
            _ -> Limit
        end,
    dyno_stats_runs:needed(Runs, Half, Distance / 2).

%% A machine that became faster meanwhile hides slower code, but not its work.
is_more_work(Condition, #{metric := Metric, verdict := Verdict} = Change) ->
    Metric =:= dyno_compare_metrics:work() andalso Verdict =:= more andalso
        is_beyond(Condition, Change).

more_work(#{item := Item, ratio := Ratio}) ->
    io_lib:format(
        "~ts: times are not beyond it, but an operation takes ~ts times the reductions: the "
        "machine may have been faster; measure both at one time (--against REV)",
        [Item, dyno_unit:format(Ratio, ~"1")]
    ).

%% Reductions do not depend on the machine, but leave out waiting and most of native code.
work(Result, #{kind := time, of_each := run, item := Item}, Changes) ->
    Metric = dyno_compare_metrics:work(),
    case [C || #{item := I, metric := M} = C <- Changes, I =:= Item, M =:= Metric] of
        [#{verdict := same}] ->
            [
                "; an operation takes as many reductions as before",
                [
                    ": the machine may be slower, or operations wait or call native code longer"
                 || Result =:= fail
                ]
            ];
        [#{verdict := Verdict, ratio := Ratio}] when Verdict =:= more; Verdict =:= less ->
            ["; an operation takes ", dyno_unit:format(Ratio, ~"1"), " times the reductions"];
        _ ->
            ""
    end;
work(_Result, _Change, _Changes) ->
    "".

worse(#{subject := Subject}) when Subject =:= ~"slower"; Subject =:= ~"faster" ->
    [" ", Subject];
worse(_Condition) ->
    " worse".

share(Factor) when Factor >= 3 -> [dyno_unit:format(Factor, ~"1"), " times"];
share(Factor) -> dyno_unit:format(Factor - 1, ~"ratio").

sentence(#{item := Item, metric := Metric, unit := Unit, old := Old, new := New} = Change) ->
    [
        Item,
        ": ",
        Metric,
        " was ",
        dyno_unit:format(Old, Unit),
        " and is ",
        dyno_unit:format(New, Unit)
        | [
            [", a difference of ", dyno_unit:format(By, ~"ratio")]
         || By <- [by(Change)], By =/= undefined
        ]
    ].

others([]) -> "";
others(More) -> ["; and ", integer_to_binary(length(More)), " more"].
