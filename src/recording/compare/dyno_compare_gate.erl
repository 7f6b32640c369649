%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_compare_gate).
-moduledoc """
Conditions on which a comparison fails: `slower > 5%`, `words > 0.1%`, `worse > 5%`. Pure.

`slower` and `faster` speak of times (and of throughput): they hold where the estimate is beyond the
share *and* the verdict says so, which needs the whole interval above the comparison's threshold.
`reductions`, `words` and the other metrics (`m:dyno_bench_metric`) speak of that metric for each
call: they hold where it is more by more than the share, and, for those that are not exact, where
the verdict says so. `worse` speaks of the metric that decided in the recording. A name with a dot
is that of any metric of a run (`latency.p99.9`), or of a table's column that says which values are
better (`processes.memory_max`): it holds where one of them is worse.
""".

-export([parse/1, of_metric/2, is_exact/1, names/1]).
-export([failing/2, verdict/3, format_error/1]).

-export_type([t/0, reason/0]).

-doc "A condition.".
-opaque t() :: #{subject := subject(), share := float(), text := binary()}.

%% Of times; of the recording's deciding metric; one of a benchmark's; or the name of any.
-type subject() ::
    slower
    | faster
    | worse
    | reductions
    | words
    | messages
    | whole
    | gc
    | memory
    | cpu
    | wall
    | binary().

-doc "What is wrong, and where: characters from 0.".
-type reason() :: {
    Text :: binary(),
    Position :: non_neg_integer(),
    subject_expected | operator_expected | share_expected | not_utf8
}.

-define(SUBJECTS, [
    slower, faster, worse, reductions, words, messages, whole, gc, memory, cpu, wall
]).

-doc "Reads a condition.".
-spec parse(unicode:chardata()) -> {ok, t()} | {error, reason()}.
parse(Chars) ->
    case unicode:characters_to_binary(Chars) of
        Text when is_binary(Text) -> subject(Text, past_spaces(Text, 0));
        _ -> {error, {~"", 0, not_utf8}}
    end.

subject(Text, At) ->
    {match, [Word]} = re:run(string:slice(Text, At), "^[\\w.]*", [unicode, {capture, [0], binary}]),
    After = past_spaces(Text, At + string:length(Word)),
    case {[S || S <- ?SUBJECTS, atom_to_binary(S) =:= Word], binary:match(Word, ~".")} of
        {[Subject], _} -> operator(Text, After, Subject);
        {[], {_, _}} -> operator(Text, After, Word);
        {[], nomatch} -> {error, {Text, At, subject_expected}}
    end.

operator(Text, At, Subject) ->
    case string:slice(Text, At, 2) of
        ~">=" -> {error, {Text, At, operator_expected}};
        <<">", _/binary>> -> share(Text, past_spaces(Text, At + 1), Subject);
        _ -> {error, {Text, At, operator_expected}}
    end.

share(Text, At, Subject) ->
    Pattern = ~"^([0-9]{1,6}(?:\\.[0-9]{1,6})?)\\s*%\\s*$",
    case re:run(string:slice(Text, At), Pattern, [{capture, [1], binary}]) of
        {match, [Number]} ->
            {Percent, _} = string:to_float(
                case binary:match(Number, ~".") of
                    nomatch -> <<Number/binary, ".0">>;
                    _ -> Number
                end
            ),
            {ok, #{
                subject => Subject,
                share => Percent / 100,
                text => iolist_to_binary([name(Subject), " > ", Number, "%"])
            }};
        nomatch ->
            {error, {Text, At, share_expected}}
    end.

past_spaces(Text, At) ->
    case string:slice(Text, At, 1) of
        ~" " -> past_spaces(Text, At + 1);
        _ -> At
    end.

-doc "The changes on which the condition holds, the greatest first.".
-spec failing(t(), [dyno_compare:change()]) -> [dyno_compare:change()].
failing(Condition, Changes) ->
    Distance = fun(#{ratio := undefined}) -> infinity;
        (#{ratio := Ratio}) -> abs(math:log(max(Ratio, 1.0e-300)))
    end,
    lists:sort(
        fun(A, B) -> Distance(A) >= Distance(B) end,
        [Change || Change <- Changes, holds(Condition, Change)]
    ).

holds(#{subject := Subject, share := Share}, #{
    kind := time, verdict := Verdict, old := Old, new := New
}) when Subject =:= slower; Subject =:= faster ->
    %% Twice as slow is by 100 %, for times and for throughput, in either direction.
    Verdict =:= Subject andalso max(Old, New) > min(Old, New) * (1 + Share);
holds(#{subject := Subject, share := Share}, Change) ->
    #{metric := Metric, old := Old, new := New} = Change,
    {Good, Bad} =
        case Change of
            #{better := higher} -> {New, Old};
            #{} -> {Old, New}
        end,
    Metric =:= name(Subject) andalso Bad > Good * (1 + Share) andalso is_judged(Change).

%% Exact metrics have no chance to take into account.
is_judged(#{kind := exact}) -> true;
is_judged(#{verdict := Verdict}) -> Verdict =/= same andalso Verdict =/= undecided.

name(Subject) when is_atom(Subject) -> atom_to_binary(Subject);
name(Subject) -> Subject.

-doc "The names in conditions that speak of what is only compared if a condition names it.".
-spec names([t()]) -> dyno_compare_metrics:names().
names(Conditions) -> [Subject || #{subject := Subject} <- Conditions, is_binary(Subject)].

-doc "`worse` as a condition on the metric that decided in a recording.".
-spec of_metric(t(), Metric :: binary()) -> t().
of_metric(#{subject := worse} = Condition, ~"time") -> Condition#{subject := slower};
of_metric(#{subject := worse} = Condition, Metric) ->
    case [S || S <- ?SUBJECTS, atom_to_binary(S) =:= Metric] of
        [Subject] -> Condition#{subject := Subject};
        [] -> Condition#{subject := slower}
    end;
of_metric(Condition, _Metric) -> Condition.

-doc "Whether a condition speaks of metrics that do not depend on the machine.".
-spec is_exact(t()) -> boolean().
is_exact(#{subject := Subject}) -> Subject =:= reductions orelse Subject =:= words.

-doc "The condition as a verdict of a recording; `Failing` is what it fails on.".
-spec verdict(t(), [dyno_compare:change()], Failing :: [dyno_compare:change()]) ->
    #{atom() => term()}.
verdict(#{subject := Subject, share := Share, text := Name}, Changes, Failing) ->
    {Value, Result, Text} =
        case {Failing, relevant(Subject, Changes)} of
            {[Worst | More], _} -> {by(Worst), fail, [sentence(Worst), others(More)]};
            {[], []} -> {undefined, unknown, ["there is nothing to compare in the recordings"]};
            {[], _} -> {undefined, pass, [passed(Subject, Changes)]}
        end,
    #{
        kind => change,
        name => Name,
        subject => name(Subject),
        result => Result,
        text => dyno_recording_check:text(Text),
        threshold => #{
            metric => name(Subject),
            operator => ~"<=",
            limit => Share,
            unit => ~"ratio",
            value => Value
        }
    }.

relevant(Subject, Changes) when Subject =:= slower; Subject =:= faster ->
    [C || #{kind := time} = C <- Changes];
relevant(Subject, Changes) ->
    [C || #{metric := Metric} = C <- Changes, Metric =:= name(Subject)].

passed(Subject, Changes) ->
    case length([x || #{verdict := undecided} <- relevant(Subject, Changes)]) of
        0 -> "nothing is beyond it";
        N -> ["nothing is beyond it; ", integer_to_binary(N), " are not decided"]
    end.

by(#{old := Old, new := New}) when min(Old, New) > 0 -> max(Old, New) / min(Old, New) - 1;
by(#{old := Old, new := New}) -> abs(New - Old).

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
    ~"--fail-if is not UTF-8 text; write it as slower > 5%";
format_error({Text, Position, Problem}) ->
    dyno_recording_check:text([
        "--fail-if \"", Text, "\", column ", integer_to_list(Position + 1), ": ", wording(Problem),
        "\n  ", Text, "\n  ", lists:duplicate(Position, $\s), "^"
    ]).

wording(subject_expected) ->
    [
        lists:join(", ", [atom_to_list(S) || S <- lists:droplast(?SUBJECTS)]),
        " or ", atom_to_list(lists:last(?SUBJECTS)),
        ", or the name of a metric with a dot is expected, such as slower > 5%"
    ];
wording(operator_expected) -> "> is expected, such as slower > 5%";
wording(share_expected) -> "a share in percent is expected, such as 5%".
