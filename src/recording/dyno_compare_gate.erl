%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_compare_gate).
-moduledoc """
Conditions on which a comparison fails: `slower > 5%`, `faster > 5%`, `reductions > 0.1%`. Pure.

`slower` and `faster` speak of times (and of throughput): they hold where the estimate is beyond the
share *and* the verdict says so, which needs the whole interval above the comparison's threshold.
`reductions` speaks of the reductions for each call, which are exact: they hold where they are more
by more than the share.
""".

-compile(warn_missing_spec_all).

-export([parse/1, failing/2, verdict/3, format_error/1]).

-export_type([t/0, reason/0]).

-doc "A condition.".
-opaque t() :: #{subject := slower | faster | reductions, share := float(), text := binary()}.

-doc "What is wrong, and where: characters from 0.".
-type reason() :: {
    Text :: binary(),
    Position :: non_neg_integer(),
    subject_expected | operator_expected | share_expected | not_utf8
}.

-doc "Reads a condition.".
-spec parse(unicode:chardata()) -> {ok, t()} | {error, reason()}.
parse(Chars) ->
    case unicode:characters_to_binary(Chars) of
        Text when is_binary(Text) -> subject(Text, past_spaces(Text, 0));
        _ -> {error, {~"", 0, not_utf8}}
    end.

-spec subject(binary(), non_neg_integer()) -> {ok, t()} | {error, reason()}.
subject(Text, At) ->
    Pattern = ~"^(slower|faster|reductions)(?![\\w.])",
    case re:run(string:slice(Text, At), Pattern, [unicode, {capture, [1], binary}]) of
        {match, [Word]} ->
            [Subject] = [S || S <- [slower, faster, reductions], atom_to_binary(S) =:= Word],
            operator(Text, past_spaces(Text, At + string:length(Word)), Subject);
        nomatch ->
            {error, {Text, At, subject_expected}}
    end.

-spec operator(binary(), non_neg_integer(), atom()) -> {ok, t()} | {error, reason()}.
operator(Text, At, Subject) ->
    case string:slice(Text, At, 2) of
        ~">=" -> {error, {Text, At, operator_expected}};
        <<">", _/binary>> -> share(Text, past_spaces(Text, At + 1), Subject);
        _ -> {error, {Text, At, operator_expected}}
    end.

-spec share(binary(), non_neg_integer(), atom()) -> {ok, t()} | {error, reason()}.
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
                text => iolist_to_binary([atom_to_binary(Subject), " > ", Number, "%"])
            }};
        nomatch ->
            {error, {Text, At, share_expected}}
    end.

-spec past_spaces(binary(), non_neg_integer()) -> non_neg_integer().
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

-spec holds(t(), dyno_compare:change()) -> boolean().
holds(#{subject := reductions, share := Share}, #{kind := reductions, old := Old, new := New}) ->
    New > Old * (1 + Share);
holds(#{subject := Subject, share := Share}, #{
    kind := time, verdict := Verdict, old := Old, new := New
}) ->
    %% Twice as slow is by 100 %, for times and for throughput, in either direction.
    Verdict =:= Subject andalso max(Old, New) > min(Old, New) * (1 + Share);
holds(_, _) ->
    false.

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
        name => Name,
        metric => atom_to_binary(Subject),
        operator => ~">",
        limit => Share,
        unit => ~"ratio",
        run => undefined,
        value => Value,
        result => Result,
        text => dyno_recording_schema:text(Text)
    }.

-spec relevant(atom(), [dyno_compare:change()]) -> [dyno_compare:change()].
relevant(reductions, Changes) -> [C || #{kind := reductions} = C <- Changes];
relevant(_, Changes) -> [C || #{kind := time} = C <- Changes].

-spec passed(atom(), [dyno_compare:change()]) -> unicode:chardata().
passed(Subject, Changes) ->
    case length([x || #{verdict := undecided} <- relevant(Subject, Changes)]) of
        0 -> "no figure is beyond it";
        N -> ["no figure is beyond it; ", integer_to_binary(N), " are not decided"]
    end.

-spec by(dyno_compare:change()) -> number().
by(#{old := Old, new := New}) when min(Old, New) > 0 -> max(Old, New) / min(Old, New) - 1;
by(#{old := Old, new := New}) -> abs(New - Old).

-spec sentence(dyno_compare:change()) -> unicode:chardata().
sentence(#{item := Item, figure := Figure, unit := Unit, old := Old, new := New} = Change) ->
    [
        Item, ": ", Figure, " was ", dyno_unit:format(Old, Unit), " and is ",
        dyno_unit:format(New, Unit), ", a difference of ", dyno_unit:format(by(Change), ~"ratio")
    ].

-spec others([dyno_compare:change()]) -> unicode:chardata().
others([]) -> "";
others(More) -> ["; and ", integer_to_binary(length(More)), " more"].

-doc "One sentence with the place, and a caret under it.".
-spec format_error(reason()) -> binary().
format_error({_, _, not_utf8}) ->
    ~"--fail-if is not UTF-8 text; write it as slower > 5%";
format_error({Text, Position, Problem}) ->
    dyno_recording_schema:text([
        "--fail-if \"", Text, "\", column ", integer_to_list(Position + 1), ": ", wording(Problem),
        "\n  ", Text, "\n  ", lists:duplicate(Position, $\s), "^"
    ]).

-spec wording(subject_expected | operator_expected | share_expected) -> string().
wording(subject_expected) -> "slower, faster or reductions is expected, such as slower > 5%";
wording(operator_expected) -> "> is expected, such as slower > 5%";
wording(share_expected) -> "a share in percent is expected, such as 5%".
