%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_threshold).
-moduledoc """
Reads thresholds such as `latency.p99 < 20 ms` and evaluates them over a recording.

```text
NAME [of NODE] [at SIZE] OPERATOR NUMBER [UNIT]
TABLE ROW FIELD [of NODE] [at SIZE] OPERATOR NUMBER [UNIT]
TABLE ROW OPERATOR NUMBER [UNIT]
findings SEVERITY OPERATOR NUMBER
```

doc/thresholds.md lists the names; `m:dyno_threshold_metric` finds their values; `m:dyno_unit` has
the units. A threshold applies
to every run, or with `at SIZE` to the runs of that size; without `of NODE` to the first target.
""".

-export([parse/1, check/2, format/1, evaluate/2, format_error/1]).
-export([read/2, check_all/2, judge/2, judge_findings/1]).
%% For evaluations of data other than a recording
-export([above/2, limit/1, decide/4, refused/2]).

-export_type([t/0, known/0, reason/0, verdict/0]).

-opaque t() :: #{
    target := dyno_threshold_metric:target(),
    node := binary() | undefined,
    size := non_neg_integer() | undefined,
    operator := binary(),
    %% In the base unit of its dimension.
    limit := number(),
    unit := dyno_unit:unit(),
    written := binary()
}.

-type known() :: dyno_threshold_check:known().

-type reason() :: {Text :: binary(), Position :: non_neg_integer(), problem()}.

-type problem() ::
    metric_expected
    | {subject_expected, [binary()]}
    | {word_expected, of_node | at_size}
    | {over_all_runs, Table :: binary()}
    | size_expected
    | operator_expected
    | {operator, binary()}
    | {limit, share}
    | {not_here, of_node | at_size}
    | number_expected
    | number_out_of_range
    | {unknown_unit, binary()}
    | {percentile_in_brackets, Written :: binary()}
    | open_quote
    | dyno_threshold_check:problem()
    | not_utf8.

-type verdict() :: dyno_recording:object().

-define(OPERATORS, [~"<", ~"<=", ~">", ~">=", ~"=="]).

-doc "Reads a threshold.".
-spec parse(unicode:chardata()) -> {ok, t()} | {error, reason()}.
parse(Chars) ->
    case unicode:characters_to_binary(Chars) of
        Text when is_binary(Text) ->
            try
                {ok, threshold(tokens(Text), Text)}
            catch
                throw:{Position, Problem} -> {error, {Text, Position, Problem}}
            end;
        _ ->
            {error, {~"", 0, not_utf8}}
    end.

-doc "Checks before measuring whether it can be decided: the metric, field and dimension exist.".
-spec check(t(), known()) -> ok | {error, reason()}.
check(#{target := Target, limit := Limit, unit := Unit} = Threshold, Known) ->
    case dyno_threshold_check:problem(Target, {Limit, Unit}, Known) of
        none -> ok;
        Problem -> refused(Problem, Threshold)
    end.

-doc "The error of an unusable threshold.".
-spec refused(problem(), t()) -> {error, reason()}.
refused(Problem, Threshold) ->
    {error, {format(Threshold), place_of(Problem, Threshold), Problem}}.

-doc "Reads a threshold and checks it.".
-spec read(unicode:chardata(), known()) -> dyno_error:result(t()).
read(Text, Known) ->
    maybe
        {ok, Threshold} ?= parse(Text),
        ok ?= check(Threshold, Known),
        {ok, Threshold}
    else
        {error, Reason} -> {error, {?MODULE, Reason}}
    end.

-doc "Reads a forbidden condition `SUBJECT > LIMIT`, without a size, and checks it by its subject.".
-spec above(unicode:chardata(), fun((dyno_threshold_metric:target()) -> known())) ->
    {ok, t()} | {error, reason()}.
above(Text, Known) ->
    maybe
        {ok, #{target := Target} = Threshold} ?= parse(Text),
        #{operator := ~">", size := undefined} ?= Threshold,
        ok ?= check(Threshold, Known(Target)),
        {ok, Threshold}
    else
        #{operator := ~">"} = OfSize -> refused({not_here, at_size}, OfSize);
        #{} = Other -> refused({operator, ~">"}, Other);
        {error, {Of, At, operator_expected}} -> {error, {Of, At, {operator, ~">"}}};
        {error, {Of, At, metric_expected}} -> {error, {Of, At, subjects(Known({metric, ~""}))}};
        Error -> Error
    end.

subjects(#{metrics := Metrics}) -> {subject_expected, [Name || #{name := Name} <- Metrics]}.

-doc "Checks several thresholds.".
-spec check_all([t()], known()) -> dyno_error:result().
check_all(Thresholds, Known) ->
    case [Reason || T <- Thresholds, {error, Reason} <- [check(T, Known)]] of
        [] -> ok;
        [Reason | _] -> {error, {?MODULE, Reason}}
    end.

%% In the text of format/1.
place_of(Problem, #{target := Target, operator := Operator} = Threshold) ->
    case {element(1, Problem), Target} of
        {Of, _} when Of =:= wrong_dimension; Of =:= limit ->
            string:length([subject(Threshold), " ", Operator, " "]);
        {operator, _} ->
            string:length([subject(Threshold), " "]);
        {severity_expected, {cell, Table, _, _}} ->
            string:length([Table, " "]);
        {Of, _} when Of =:= field_expected; Of =:= not_here ->
            string:length([target_text(Target), " "]);
        {_, {cell, Table, Row, Field}} when
            is_binary(Field), element(1, Problem) =/= unknown_table
        ->
            string:length([Table, " ", quoted(Row), " "]);
        _ ->
            0
    end.

-doc "The threshold as text; `parse/1` reads it back.".
-spec format(t()) -> binary().
format(#{operator := Operator, written := Written} = Threshold) ->
    iolist_to_binary([subject(Threshold), " ", Operator, " ", Written]).

-doc "The parts of a comparison, for evaluations of other data than a recording.".
-spec limit(t()) ->
    #{
        target := dyno_threshold_metric:target(),
        node := binary() | undefined,
        size := non_neg_integer() | undefined,
        operator := binary(),
        %% In the base unit of its dimension.
        limit := number(),
        unit := dyno_unit:unit()
    }.
limit(Threshold) -> maps:with([target, node, size, operator, limit, unit], Threshold).

-doc "The recording with these thresholds' verdicts.".
-spec judge([t()], dyno_recording:document()) -> dyno_recording:document().
judge(Thresholds, Document) ->
    dyno_recording:add_verdicts(
        Document, lists:append([evaluate(T, Document) || T <- Thresholds])
    ).

-doc "The recording with new verdicts on its findings, which were found after the verdicts.".
-spec judge_findings(dyno_recording:document()) -> dyno_recording:document().
judge_findings(#{~"verdicts" := Verdicts} = Document) ->
    Names = [
        Name
     || #{~"kind" := ~"threshold", ~"name" := <<"findings ", _/binary>> = Name} <- Verdicts
    ],
    Others = [V || #{~"name" := Name} = V <- Verdicts, not lists:member(Name, Names)],
    judge([dyno_error:ok(parse(Name)) || Name <- Names], Document#{~"verdicts" := Others}).

-doc """
Evaluates a threshold over every run of a recording (or the runs of its size), or once over the
tables of all runs.

A missing value, or one of another dimension than the limit, gives `unknown` with the reason. So
does a value of a run that was cut short, unless the rest could not have changed the answer: a count
or a maximum beyond the limit stays beyond. So do response times of a run at whose end they are on
the other side of the limit than in the whole run.
""".
-spec evaluate(t(), dyno_recording:document()) -> [verdict()].
evaluate(#{target := {cell, _, _, undefined} = Target} = Threshold, Document) ->
    Found = dyno_threshold_metric:find(Target, undefined, Document),
    [verdict(Threshold, null, ~"", {Found, missing(Document, Document)})];
evaluate(#{target := Target, node := Node, size := Size} = Threshold, Document) ->
    Runs = dyno_recording:runs(Document),
    case [Run || #{~"size" := Of} = Run <- Runs, Size =:= undefined orelse Size =:= Of] of
        [] ->
            [verdict(Threshold, null, ~"", {{error, no_run(Size, Runs)}, nothing})];
        Chosen ->
            [
                verdict(Threshold, Id, place(Run), {
                    Found, drifted(Threshold, Found, Run, missing(Run, Document))
                })
             || #{~"id" := Id} = Run <- Chosen,
                Found <- [dyno_threshold_metric:find(Target, Node, Run)]
            ]
    end.

%% If the end of a run is on the other side of the limit, its length decides.
drifted(#{target := {metric, Name}} = Threshold, {ok, Value, Unit}, Run, nothing) ->
    #{operator := Operator, limit := Limit} = Threshold,
    Result = fun(Raw) -> result(Operator, based(Raw, Unit), Limit) end,
    case dyno_finding_course:drift(Name, Run) of
        {_, Of, Early, Late} ->
            %% Others are supposed to change by the same factor.
            End =
                case Name of
                    Of -> Late;
                    ~"throughput" -> Value * max(1, Early) / max(1, Late);
                    _ -> Value * max(1, Late) / max(1, Early)
                end,
            [First, Last] = [dyno_unit:format(Ns, ~"ns") || Ns <- [Early, Late]],
            Words = [
                ["whether it stays: ", [[Of, " was "] || Of =/= Name]],
                [First, " in the first third, ", Last, " in the last"]
            ],
            hd([Words || Result(End) =/= Result(Value)] ++ [nothing]);
        none ->
            nothing
    end;
drifted(_Threshold, _Found, _Run, Missing) ->
    Missing.

missing(#{~"status" := Status} = Holder, Document) ->
    AskedMs = dyno_recording_cut_short:asked_ms(Document),
    case {dyno_recording_cut_short:is_whole(Status, AskedMs), Holder} of
        {true, _} ->
            nothing;
        {false, #{~"duration_ns" := Ns}} when is_integer(Ns), Ns < AskedMs * 1_000_000 ->
            ["the run ended after ", dyno_recording_cut_short:seen(Ns, AskedMs)];
        {false, _} ->
            "the run was cut short"
    end.

-doc "The error, with the text, a caret under the place, and the accepted forms.".
-spec format_error(reason()) -> binary().
format_error({_, _, not_utf8}) ->
    ~"the limit is not UTF-8 text; write it as NAME < NUMBER UNIT";
format_error({Text, Position, Problem}) ->
    Caret = [lists:duplicate(Position, $\s), $^],
    dyno_recording_part:text("\"~ts\", column ~b: ~ts~n  ~ts~n  ~ts", [
        Text, Position + 1, dyno_threshold_problem:wording(Problem), Text, Caret
    ]).

%% Reading: words, operators, and positions in characters

%% [{word | operator, Text, Position}]. Quotes protect spaces and operators.
tokens(Text) ->
    End = {the_end, ~"", string:length(string:trim(Text, trailing))},
    Pattern = "[<>=!]+|(?:[^ \\t\\n\\r<>=!'\"]|'[^']*'|\"[^\"]*\")+|['\"]",
    Found =
        case re:run(Text, Pattern, [global, unicode, {capture, first, index}]) of
            {match, Parts} -> Parts;
            nomatch -> []
        end,
    [
        token(binary:part(Text, Part), string:length(binary:part(Text, 0, Start)))
     || [{Start, _} = Part] <- Found
    ] ++ [End].

token(Quote, Position) when Quote =:= ~"'"; Quote =:= ~"\"" ->
    throw({Position, open_quote});
token(<<Char, _/binary>> = Text, Position) ->
    case lists:member(Char, "<>=!") of
        true -> {operator, Text, Position};
        false -> {word, Text, Position}
    end.

threshold(Tokens, Text) ->
    {Target, AfterTarget} = target(Tokens),
    {Node, Size, AfterWhere} = where(AfterTarget, undefined, undefined),
    {Operator, LimitAt} = operator(AfterWhere),
    {Limit, Unit, Written} = limit(Text, LimitAt),
    #{
        target => Target,
        node => Node,
        size => Size,
        operator => Operator,
        limit => Limit,
        unit => Unit,
        written => Written
    }.

target([{word, Word, At} | Rest]) ->
    %% The place is that of the first character that no name has.
    {match, [Name]} = re:run(Word, ~"^([\\p{L}_][\\p{L}\\p{N}_.-]*)?", [
        unicode, {capture, first, binary}
    ]),
    Name =:= Word orelse throw(no_metric(At + string:length(Name), At, Word)),
    case {is_end(Rest), Rest} of
        {true, _} -> {{metric, Word}, Rest};
        {false, [{word, Row, _} | More]} -> cell(Word, unquoted(Row), More, is_end(More))
    end;
target([{_, _, At} | _]) ->
    throw({At, metric_expected}).

%% k6's form of percentiles: p(95), latency.p(95).
no_metric(Place, At, Word) ->
    Pattern = ~"^(?:(.+)\\.)?p\\(([0-9.]+)\\)$",
    case re:run(Word, Pattern, [{capture, all_but_first, binary}]) of
        {match, [~"", Percent]} ->
            {At, {percentile_in_brackets, <<"latency.p", Percent/binary>>}};
        {match, [Of, Percent]} ->
            {At, {percentile_in_brackets, <<Of/binary, ".p", Percent/binary>>}};
        nomatch ->
            {Place, metric_expected}
    end.

cell(Table, Row, [{word, Field, _} | Rest], false) -> {{cell, Table, Row, Field}, Rest};
cell(Table, Row, [{operator, _, _} | _] = Rest, true) -> {{cell, Table, Row, undefined}, Rest};
cell(Table, _, [{word, _, At} | _], true) -> throw({At, {over_all_runs, Table}});
cell(_, _, [{the_end, _, At}], true) -> throw({At, operator_expected}).

%% The subject ends before a place or an operator.
is_end([{word, Word, _} | _]) -> Word =:= ~"of" orelse Word =:= ~"at";
is_end(_) -> true.

where([{word, ~"of", _} | Rest], undefined, Size) ->
    {Node, _, More} = following(of_node, Rest),
    where(More, unquoted(Node), Size);
where([{word, ~"at", _} | Rest], Node, undefined) ->
    {Size, At, More} = following(at_size, Rest),
    re:run(Size, "^[0-9]{1,18}$", [{capture, none}]) =:= match orelse throw({At, size_expected}),
    where(More, Node, binary_to_integer(Size));
where(Tokens, Node, Size) ->
    {Node, Size, Tokens}.

following(_, [{word, Word, At} | Rest]) -> {Word, At, Rest};
following(What, [{_, _, At} | _]) -> throw({At, {word_expected, What}}).

operator([{_, Operator, At} | _]) ->
    lists:member(Operator, ?OPERATORS) orelse throw({At, operator_expected}),
    {Operator, At + byte_size(Operator)}.

limit(Text, At) ->
    Rest = string:slice(Text, At),
    Start = At + string:length(Rest) - string:length(string:trim(Rest, leading)),
    case dyno_unit:parse(Rest) of
        {ok, {Value, Unit}} -> {Value, Unit, dyno_recording_check:text(string:trim(Rest))};
        {error, {number_expected, _}} -> throw({Start, number_expected});
        {error, {number_out_of_range, _}} -> throw({Start, number_out_of_range});
        {error, {unknown_unit, Offset, Name}} -> throw({At + Offset, {unknown_unit, Name}})
    end.

unquoted(Word) ->
    binary:replace(Word, ~"\"", ~"", [global]).

%% Evaluation

verdict(Threshold, RunId, Place, {Found, Missing}) ->
    #{target := Target, operator := Operator, limit := Limit, unit := Unit} = Threshold,
    {Value, Result, Text} = in_part(Missing, Found, Threshold, decide(Threshold, Place, Found)),
    #{~"name" := _} =
        Verdict = dyno_recording:document(#{
            kind => threshold,
            name => format(Threshold),
            subject => target_text(Target),
            run => RunId,
            node => maps:get(node, Threshold),
            result => Result,
            text => {text, Text},
            threshold => #{
                metric => target_text(Target),
                operator => Operator,
                limit => Limit,
                unit => Unit,
                value => Value,
                bound => bound(Found)
            },
            evidence => undefined
        }),
    Verdict.

in_part(Missing, Found, Threshold, {Value, Result, Text} = Decided) ->
    case Missing =:= nothing orelse Result =:= unknown orelse is_final(Threshold, Found, Result) of
        true -> Decided;
        false -> {Value, unknown, [Text, "; not known: ", Missing]}
    end.

%% Whether the result is final for the whole run. Growing values stay above a limit.
is_final(#{operator := Operator, target := Target}, Found, Result) ->
    Above = lists:member({Operator, Result}, [
        {~"<", fail}, {~"<=", fail}, {~">", pass}, {~">=", pass}
    ]),
    Above andalso only_grows(Target, element(3, Found)).

only_grows({metric, Name}, Unit) ->
    Aggregate = filename:extension(Name),
    Aggregate =:= ~".max" orelse
        (Unit =:= ~"count" andalso not lists:member(Aggregate, [~".mean", ~".min", ~".last"]));
only_grows({cell, _, _, Field}, Unit) ->
    Unit =:= ~"count" orelse Field =:= ~"max" orelse Field =:= ~"longest".

decide(Threshold, Place, {error, Why}) ->
    {null, unknown, [subject_without_size(Threshold), " is not known", Place, ": ", Why]};
decide(Threshold, Place, {ok, _, Unit, {Low, High}} = Found) ->
    case bound(Found) of
        at_least -> one_sided(Threshold, Place, {Low, " is at least ", {Low, High}}, Unit);
        at_most -> one_sided(Threshold, Place, {High, " is at most ", {Low, High}}, Unit);
        undefined -> in_interval(Threshold, Place, Found)
    end;
decide(Threshold, Place, {ok, Raw, RawUnit}) ->
    compared(Threshold, Place, {Raw, RawUnit}, " is ").

bound({ok, _, _, {_, unknown}}) -> at_least;
bound({ok, _, _, {unknown, _}}) -> at_most;
bound({ok, unknown, _, _}) -> at_most;
bound(_) -> undefined.

in_interval(Threshold, Place, {ok, Raw, Unit, {Low, High}}) ->
    case decide(Threshold, Place, {ok, Raw, Unit}) of
        {Value, Result, Text} when Result =/= unknown ->
            doubted(Value, Result, Text, interval(Threshold, Low, High, Unit));
        Unknown ->
            Unknown
    end.

compared(Threshold, Place, {Raw, RawUnit}, Is) ->
    #{operator := Operator, limit := Limit, unit := Unit, written := Written} = Threshold,
    {Dimension, Value, Base} = in_base(Raw, RawUnit),
    {ok, Wanted} = dyno_unit:dimension(Unit),
    Subject = subject_without_size(Threshold),
    case dyno_threshold_metric:comparable(Dimension, Wanted, Limit) of
        true ->
            Shown = shown(Value, Base, Limit, 3),
            {Value, result(Operator, Value, Limit), [
                Subject, Is, Shown, Place, ", limit ", Operator, " ", Written
            ]};
        false ->
            {Value, unknown, [
                Subject,
                " is ",
                dyno_unit:format(Value, Base),
                Place,
                ", which cannot be compared with ",
                Written,
                ": the limit needs ",
                dyno_unit:usual(Dimension)
            ]}
    end.

one_sided(Threshold, Place, {Bound, Is, {Low, High}}, Unit) ->
    #{operator := Operator, limit := Limit} = Threshold,
    case compared(Threshold, Place, {Bound, Unit}, Is) of
        {Value, Result, Text} when Result =/= unknown ->
            {Value, decide(Operator, Limit, based(Low, Unit), based(High, Unit)), Text};
        Unknown ->
            Unknown
    end.

based(unknown, _Unit) -> unknown;
based(End, Unit) -> element(2, in_base(End, Unit)).

-doc "Whether a value between two ends meets a limit; an unknown end is an atom.".
-spec decide(Operator :: binary(), Limit :: number(), Low, High) -> pass | fail | unknown when
    Low :: number() | atom(), High :: number() | atom().
%% An atom is greater than any number.
decide(~"==", Limit, Low, High) when is_number(Low), Low > Limit; High < Limit -> fail;
decide(~"==", _Limit, _Low, _High) -> unknown;
decide(<<"<", _/binary>> = Operator, Limit, Low, High) -> by_end(Operator, Limit, Low, High);
decide(Operator, Limit, Low, High) -> by_end(Operator, Limit, High, Low).

by_end(Operator, Limit, Best, Worst) ->
    Holds = fun(End) -> is_number(End) andalso holds(Operator, End, Limit) end,
    case {Holds(Worst), Holds(Best)} of
        {true, _} -> pass;
        {_, false} when is_number(Best) -> fail;
        {_, _} -> unknown
    end.

%% If a limit is within the value's interval, the side of the value is unknown.
interval(#{limit := Limit}, RawLow, RawHigh, Unit) ->
    {_, Low, Base} = in_base(RawLow, Unit),
    {_, High, Base} = in_base(RawHigh, Unit),
    Between = [dyno_unit:format(Low, Base), " to ", dyno_unit:format(High, Base)],
    if
        Limit < Low; Limit > High -> decided;
        High > 2 * Low -> {wide, Between};
        true -> {close, Between}
    end.

doubted(Value, Result, Text, decided) ->
    {Value, Result, Text};
doubted(Value, Result, Text, {close, Between}) ->
    {Value, Result, [Text, "; ", Between, " is possible"]};
doubted(Value, _Result, Text, {wide, Between}) ->
    Format =
        "~ts, but anything from ~ts is possible: measure longer (--for), at the level budget; a "
        "profile, with --kind cpu",
    {Value, unknown, io_lib:format(Format, [Text, Between])}.

in_base(Raw, Unit) ->
    case dyno_unit:to_base(Raw, Unit) of
        {ok, {Value, Base}} -> {dyno_threshold_metric:dimension(Unit), Value, Base};
        error -> {dyno_threshold_metric:dimension(Unit), Raw, Unit}
    end.

%% Rounded, but never to the limit itself: "20 ms, limit < 20 ms" would look like a pass.
shown(Value, Unit, Limit, Digits) ->
    Text = dyno_unit:format(Value, Unit, Digits),
    case dyno_unit:format(Limit, Unit, Digits) of
        Text when Value /= Limit, Digits < 16 -> shown(Value, Unit, Limit, Digits + 1);
        _ -> Text
    end.

result(Operator, Value, Limit) ->
    case holds(Operator, Value, Limit) of
        true -> pass;
        false -> fail
    end.

holds(~"<", Value, Limit) -> Value < Limit;
holds(~"<=", Value, Limit) -> Value =< Limit;
holds(~">", Value, Limit) -> Value > Limit;
holds(~">=", Value, Limit) -> Value >= Limit;
holds(~"==", Value, Limit) -> Value == Limit.

place(#{~"id" := Id, ~"size" := null}) ->
    [" in run ", Id];
place(#{~"id" := Id, ~"size" := Size}) ->
    case integer_to_binary(Size) of
        Id -> [" at size ", Id];
        Other -> [" at size ", Other, " (run ", Id, ")"]
    end.

no_run(_, []) ->
    "the recording holds no run";
no_run(Size, Runs) ->
    Sizes = lists:uniq([integer_to_list(Of) || #{~"size" := Of} <- Runs, is_integer(Of)]),
    io_lib:format(
        "there is no run of size ~b, the sizes are ~ts",
        [Size, lists:join(", ", Sizes)]
    ).

target_text({metric, Name}) -> Name;
target_text({cell, Table, Row, undefined}) -> iolist_to_binary([Table, " ", quoted(Row)]);
target_text({cell, Table, Row, Field}) -> iolist_to_binary([Table, " ", quoted(Row), " ", Field]).

subject(#{size := undefined} = Threshold) ->
    subject_without_size(Threshold);
subject(#{size := Size} = Threshold) ->
    [subject_without_size(Threshold), " at ", integer_to_list(Size)].

subject_without_size(#{target := Target, node := undefined}) ->
    target_text(Target);
subject_without_size(#{target := Target, node := Node}) ->
    [target_text(Target), " of ", quoted(Node)].

quoted(Name) ->
    case re:run(Name, ~"^(?!of$|at$)[^\\s<>=!'\"]+$", [unicode, {capture, none}]) of
        match -> Name;
        nomatch -> [$", Name, $"]
    end.
