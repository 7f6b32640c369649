%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_compare_gate).
-moduledoc """
Conditions on which a comparison fails: `slower > 5%`, `words > 0.1%`, `worse > 5%`. Pure.
doc/comparing.md says when each of them holds.

A gate that could not be evaluated does not open: where the condition does not hold, but the
estimate of something is beyond the share and is not decided, or nothing is known of its chance, the
verdict is `unknown`.
""".

-export([parse/1, check/2, of_metric/2, is_exact/1, names/1]).
-export([failing/2, verdict/3, format_error/1]).

-export_type([t/0, reason/0]).

-doc "A condition.".
-opaque t() :: #{
    %% One of ?SUBJECTS, or the name of any metric, which has a dot.
    subject := binary(),
    share := float(),
    text := binary()
}.

-doc "What is wrong, and where: characters from 0.".
-type reason() :: {
    Text :: binary(),
    Position :: non_neg_integer(),
    subject_expected
    | operator_expected
    | share_expected
    | not_utf8
    | {percentile_in_brackets, Written :: binary()}
    | {unknown_name, binary(), Closest :: [binary()]}
}.

-define(SUBJECTS, [
    ~"slower", ~"faster", ~"worse", ~"reductions", ~"words", ~"messages", ~"whole", ~"gc",
    ~"memory", ~"cpu", ~"wall"
]).

-doc "Reads a condition.".
-spec parse(unicode:chardata()) -> {ok, t()} | {error, reason()}.
parse(Chars) ->
    case unicode:characters_to_binary(Chars) of
        Text when is_binary(Text) -> parsed(Text);
        _ -> {error, {~"", 0, not_utf8}}
    end.

parsed(Text) ->
    Pattern = "^ *([\\w.]*)(?:\\(([0-9.]+)\\))? *(>(?!=))? *(.*)$",
    {match, [{WordAt, _} = Word, Percent, Operator, {ShareAt, _} = Share]} = re:run(
        Text, Pattern, [unicode, dotall, {capture, all_but_first, index}]
    ),
    Wrong = fun(Byte, Problem) ->
        {error, {Text, string:length(binary:part(Text, 0, Byte)), Problem}}
    end,
    Written = binary:replace(binary:part(Text, Share), ~" ", ~"", [global]),
    Subject = binary:part(Text, Word),
    IsKnown = lists:member(Subject, ?SUBJECTS),
    case {is_name(Subject), Percent, Operator, dyno_unit:parse(Written)} of
        {true, {At, Length}, _, _} when At >= 0 ->
            Plain = <<Subject/binary, (binary:part(Text, At, Length))/binary>>,
            Wrong(WordAt, {percentile_in_brackets, Plain});
        {false, {At, _}, _, _} when not IsKnown; At >= 0 ->
            Wrong(WordAt, subject_expected);
        {_, _, {-1, 0}, _} ->
            Wrong(ShareAt, operator_expected);
        {_, _, _, {ok, {Of, ~"ratio"}}} when Of >= 0 ->
            Condition = <<Subject/binary, " > ", Written/binary>>,
            {ok, #{subject => Subject, share => float(Of), text => Condition}};
        _ ->
            Wrong(ShareAt, share_expected)
    end.

is_name(Subject) -> binary:match(Subject, ~".") =/= nomatch.

-doc "Whether one of these recordings has what the condition names.".
-spec check(t(), [dyno_recording:document(), ...]) -> ok | {error, reason()}.
check(#{subject := Name, text := Text}, [Document | _] = Documents) ->
    Named = [
        x
     || is_name(Name),
        Of <- Documents,
        #{metric := N} <- dyno_compare_metrics:metrics(Of, [Name]),
        N =:= Name
    ],
    case is_name(Name) andalso Named =:= [] of
        true -> {error, {Text, 0, {unknown_name, Name, dyno_compare_metrics:nearest(Name, Document)}}};
        false -> ok
    end.

-doc "The changes on which the condition holds, the greatest first.".
-spec failing(t(), [dyno_compare:change()]) -> [dyno_compare:change()].
failing(#{subject := Subject} = Condition, Changes) ->
    greatest_first([
        Change
     || Change <- relevant(Subject, Changes), is_beyond(Condition, Change), is_judged(Change)
    ]).

greatest_first(Changes) ->
    Distance = fun(#{ratio := undefined}) -> infinity;
        (#{ratio := Ratio}) -> abs(math:log(max(Ratio, 1.0e-300)))
    end,
    lists:sort(fun(A, B) -> Distance(A) >= Distance(B) end, Changes).

%% In the direction that the condition is about. Twice as slow is by 100 %, for times and for
%% throughput, in either direction.
is_beyond(#{subject := Subject, share := Share}, #{better := Better} = Change) ->
    #{old := Old, new := New} = Change,
    case (Subject =:= ~"faster") =:= (Better =:= higher) of
        true -> New > Old * (1 + Share);
        false -> Old > New * (1 + Share)
    end.

%% Exact metrics have no chance to take into account.
is_judged(#{kind := exact}) -> true;
is_judged(#{verdict := Verdict}) -> not lists:member(Verdict, [same, undecided, one_run]).

%% What keeps a gate shut on which nothing fails.
is_open(_Condition, #{verdict := one_run}) ->
    true;
is_open(_Condition, #{verdict := undecided, low := undefined, of_each := round}) ->
    true;
is_open(Condition, #{verdict := undecided} = Change) ->
    is_beyond(Condition, Change);
is_open(_Condition, _Change) ->
    false.

-doc "The names in conditions that speak of what is only compared if a condition names it.".
-spec names([t()]) -> dyno_compare_metrics:names().
names(Conditions) -> [Subject || #{subject := Subject} <- Conditions, is_name(Subject)].

-doc "`worse` as a condition on the metric that decided in a recording.".
-spec of_metric(t(), Metric :: binary()) -> t().
of_metric(#{subject := ~"worse"} = Condition, Metric) ->
    Condition#{subject := hd([S || S <- ?SUBJECTS, S =:= Metric] ++ [~"slower"])};
of_metric(Condition, _Metric) ->
    Condition.

-doc "Whether a condition speaks of metrics that do not depend on the machine.".
-spec is_exact(t()) -> boolean().
is_exact(#{subject := Subject}) -> lists:member(Subject, [~"reductions", ~"words"]).

-doc "The condition as a verdict of a recording; `Failing` is what it fails on.".
-spec verdict(t(), [dyno_compare:change()], Failing :: [dyno_compare:change()]) ->
    #{atom() => term()}.
verdict(#{subject := Subject, share := Share, text := Name} = Condition, Changes, Failing) ->
    Relevant = relevant(Subject, Changes),
    Open = greatest_first([Change || Change <- Relevant, is_open(Condition, Change)]),
    {Value, Result, Text} =
        case {Failing, Open, Relevant} of
            {[Worst | More], _, _} -> {by(Worst), fail, [sentence(Worst), others(More)]};
            {[], [Worst | More], _} -> {undefined, unknown, [doubt(Worst), others(More)]};
            {[], [], []} -> {undefined, unknown, ["there is nothing to compare in the recordings"]};
            {[], [], _} -> {undefined, pass, [passed(Relevant)]}
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

passed(Relevant) ->
    case length([x || #{verdict := undecided} <- Relevant]) of
        0 -> "nothing is beyond it";
        1 -> "nothing is beyond it; 1 is not decided";
        N -> ["nothing is beyond it; ", integer_to_binary(N), " are not decided"]
    end.

by(#{old := Old, new := New}) when min(Old, New) > 0 -> max(Old, New) / min(Old, New) - 1;
by(#{old := Old, new := New}) -> abs(New - Old).

%% Why nobody can tell, and what to do.
doubt(#{item := Item, metric := Metric, verdict := one_run}) ->
    [
        "not enough data for ", Metric, " of ", Item, ": a verdict needs two runs of a size or "
        "more in both recordings; measure both with --repeat 5"
    ];
doubt(#{low := undefined, of_each := round} = Change) ->
    [sentence(Change), ", in too few rounds for a verdict; measure longer (--time)"];
doubt(#{low := undefined} = Change) ->
    [sentence(Change), ", which is not decided; measure both with more repetitions (--repeat)"];
doubt(#{low := Low, ratio := Ratio, of_each := Of} = Change) ->
    More =
        case Of of
            round -> "measure longer (--time)";
            run -> "measure both with more repetitions (--repeat)"
        end,
    [
        sentence(Change), ", which is not decided: chance alone makes up to ",
        share(Ratio / Low), " here; ", More, ", or allow more"
    ].

share(Factor) when Factor >= 3 -> [dyno_unit:format(Factor, ~"1"), " times"];
share(Factor) -> dyno_unit:format(Factor - 1, ~"ratio").

sentence(#{item := Item, metric := Metric, unit := Unit, old := Old, new := New} = Change) ->
    [
        Item, ": ", Metric, " was ", dyno_unit:format(Old, Unit), " and is ",
        dyno_unit:format(New, Unit), ", a difference of ", dyno_unit:format(by(Change), ~"ratio")
    ].

others([]) -> "";
others(More) -> ["; and ", integer_to_binary(length(More)), " more"].

-doc "One sentence with the place, and a caret under it.".
-spec format_error(reason()) -> binary().
format_error({_, _, not_utf8}) ->
    ~"the condition is not UTF-8 text; write it as slower > 5%";
format_error({Text, Position, Problem}) ->
    dyno_recording_check:text([
        "the condition \"", Text, "\", column ", integer_to_list(Position + 1), ": ",
        wording(Problem), meant(Problem, string:lexemes(Text, " >(")), "\n  ", Text, "\n  ", lists:duplicate(Position, $\s), "^"
    ]).

meant(subject_expected, [Word | _]) ->
    case dyno_similar:nearest(Word, ?SUBJECTS) of
        {ok, Subject} -> ["; did you mean ", Subject, "?"];
        none -> ""
    end;
meant(_Problem, _Words) ->
    "".

wording(subject_expected) ->
    [
        lists:join(", ", lists:droplast(?SUBJECTS)), " or ", lists:last(?SUBJECTS),
        ", or the name of a metric with a dot is expected, such as slower > 5%"
    ];
wording({percentile_in_brackets, Written}) ->
    ["a percentile is written without brackets: ", Written];
wording({unknown_name, Name, Closest}) ->
    ["there is no ", Name, " in the recording", dyno_similar:closest_are(Closest)];
wording(operator_expected) -> "> is expected, such as slower > 5%";
wording(share_expected) -> "a share in percent is expected, such as 5%".
