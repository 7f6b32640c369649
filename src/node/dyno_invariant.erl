%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_invariant).
-moduledoc false.
%% Invariants: conditions in a target throughout a run, such as `{memory, {erlang, memory, [total]},
%% '=<', 500_000_000}`, or as text `"memory: erlang:memory(total) =< 500 MB"`.
%%
%% The function is called in the target at an interval. One violation fails the test; a never
%% checked invariant has not held. Operators are Erlang's eight comparisons.

-export([read/1, is_call/1, print/1]).
-export([new/1, add/3, table/2, spec/0, verdict/2]).
-export([format_error/1]).
-export_type([t/0, source/0, history/0, reason/0]).

-import(dyno_recording_part, [text/2]).

-type t() :: dyno_agent_polls:invariant().

-type source() ::
    {
        Name :: atom() | string() | binary(),
        {module(), atom(), [term()]},
        Operator :: atom(),
        Value :: term()
    }
    | string()
    | binary().

-opaque history() :: #{
    invariant := t(),
    checks := non_neg_integer(),
    violations := non_neg_integer(),
    failures := non_neg_integer(),
    %% Of the first violation.
    first_ms := number() | undefined,
    text := binary() | undefined,
    number := number() | undefined,
    since_ms := number() | undefined,
    violated_ms := number(),
    longest_ms := number(),
    last_ms := number(),
    why := binary() | undefined
}.

-type reason() ::
    {bad_invariant, term()} | {in_text, Text :: binary(), Column :: pos_integer(), Why :: iodata()}.

-define(OPERATORS, ['==', '/=', '=:=', '=/=', '<', '=<', '>', '>=']).

-spec read(source() | term()) -> {ok, t()} | {error, reason()}.
read({Name, {M, F, A}, Operator, Value} = Source) when is_atom(M), is_atom(F), is_list(A) ->
    maybe
        {ok, Text} ?= dyno_option:name(Name),
        true ?= lists:member(Operator, ?OPERATORS),
        {ok, #{name => Text, call => {M, F, A}, operator => Operator, value => Value}}
    else
        _ -> {error, {bad_invariant, Source}}
    end;
read(Source) when is_list(Source); is_binary(Source) ->
    case dyno_option:text(Source) of
        {ok, Text} ->
            try
                read(parse(Text))
            catch
                throw:{Column, Why} -> {error, {in_text, Text, Column, Why}}
            end;
        error ->
            {error, {bad_invariant, Source}}
    end;
read(Source) ->
    {error, {bad_invariant, Source}}.

%% A name ends with a colon and a space; a module's colon has no space after it.
parse(Text) ->
    {Name, Code} =
        case binary:split(Text, ~": ") of
            [Before, After] -> {string:trim(Before), After};
            [All] -> {string:trim(All), All}
        end,
    End = string:length(string:trim(Text, trailing)) + 1,
    Column = string:length(Text) - string:length(Code) + 1,
    {Left, Operator, Value} = comparison(tokens(in_base_unit(Code, Column), Column, End), End),
    {{M, F, Arguments}, Expected} = {called(Left), term(Value)},
    {Name, {M, F, Arguments}, Operator, Expected}.

tokens(Code, Column, End) ->
    case erl_scan:string(in_erlang(Code), {1, Column}) of
        {ok, Tokens, _} -> Tokens;
        {error, {{_, At}, Module, Why}, _} -> throw({min(At, End), Module:format_error(Why)})
    end.

comparison(Tokens, End) ->
    case erl_parse:parse_exprs(Tokens ++ [{dot, {1, End}}]) of
        {ok, [{op, At, Operator, Left, Value}]} ->
            lists:member(Operator, ?OPERATORS) orelse throw({column(At), comparison_expected()}),
            {Left, Operator, Value};
        {ok, [Call]} ->
            _ = called(Call),
            throw({End, comparison_expected()});
        {ok, [_, Next | _]} ->
            throw({column(element(2, Next)), "one comparison is expected"});
        {error, Error} ->
            {{_, At}, Why} = dyno_syntax:error(Tokens, {1, End}, Error),
            throw({At, Why})
    end.

called({call, _, {remote, _, {atom, _, M}, {atom, _, F}}, Arguments}) ->
    {M, F, [term(Argument) || Argument <- Arguments]};
called(Other) ->
    throw({column(element(2, Other)), "a call is expected, such as erlang:memory(total)"}).

term(Expression) ->
    try
        erl_parse:normalise(Expression)
    catch
        error:_ -> throw({column(element(2, Expression)), "a term is expected, such as 500 or [a]"})
    end.

comparison_expected() ->
    ["a comparison is expected, one of " | operators()].

operators() ->
    lists:join(" ", [atom_to_list(O) || O <- ?OPERATORS]).

column(Anno) -> erl_anno:column(Anno).

%% 500 MB as 500000000.
in_base_unit(Code, Column) ->
    maybe
        {match, [Before, Number]} ?=
            re:run(Code, ~"^(.*[<>=]\\s*)(-?[0-9][0-9.]*\\s*[\\p{L}/%]+)\\s*$", [
                unicode, dotall, {capture, all_but_first, binary}
            ]),
        {{ok, {Value, _Unit}}, _} ?= {dyno_unit:parse(Number), Before},
        text("~ts~w", [Before, Value])
    else
        {{error, {unknown_unit, Offset, Unit}}, Left} ->
            throw({
                Column + string:length(Left) + Offset,
                dyno_threshold_problem:wording({unknown_unit, Unit})
            });
        _ ->
            Code
    end.

-spec is_call(term()) -> boolean().
is_call(Chars) ->
    case dyno_option:text(Chars) of
        {ok, Text} ->
            re:run(Text, ~"^\\s*([a-z][\\w@]*|'[^']+'):([a-z][\\w@]*|'[^']+')\\(", [
                unicode, {capture, none}
            ]) =:= match;
        error ->
            false
    end.

%% Most languages write <= for Erlang's =<.
in_erlang(Code) ->
    re:replace(Code, ~"(?<![=<])<=(?![=<])", ~"=<", [unicode, {return, list}]).

-spec print(t()) -> binary().
print(#{name := Name} = Invariant) ->
    <<Name/binary, ": ", (expression(Invariant))/binary>>.

expression(#{call := {M, F, A}, operator := Operator, value := Value}) ->
    Arguments = lists:join(", ", [io_lib:format("~0tp", [Argument]) || Argument <- A]),
    text("~tw:~tw(~ts) ~ts ~0tP", [M, F, Arguments, Operator, Value, 20]).

-spec new(t()) -> history().
new(Invariant) ->
    #{
        invariant => Invariant,
        checks => 0,
        violations => 0,
        failures => 0,
        first_ms => undefined,
        text => undefined,
        number => undefined,
        since_ms => undefined,
        violated_ms => 0,
        longest_ms => 0,
        last_ms => 0,
        why => undefined
    }.

-doc "Adds a check. A violation lasts until a later check holds, or until the last one.".
-spec add(number(), dyno_agent_polls:checked(), history()) -> history().
add(TimeMs, holds, #{checks := N} = History) ->
    ended(TimeMs, History#{checks := N + 1, last_ms := TimeMs});
add(TimeMs, {violated, Text, Number}, #{checks := N, violations := V} = History0) ->
    History = History0#{checks := N + 1, violations := V + 1, last_ms := TimeMs},
    case History of
        #{first_ms := undefined} ->
            History#{first_ms := TimeMs, since_ms := TimeMs, text := Text, number := Number};
        #{since_ms := undefined} ->
            History#{since_ms := TimeMs};
        #{} ->
            History
    end;
add(TimeMs, {failed, Why}, #{failures := N} = History) ->
    History#{failures := N + 1, why := Why, last_ms := TimeMs}.

ended(_TimeMs, #{since_ms := undefined} = History) ->
    History;
ended(TimeMs, #{since_ms := Since, violated_ms := Violated, longest_ms := Longest} = History) ->
    Lasted = TimeMs - Since,
    History#{
        since_ms := undefined,
        violated_ms := Violated + Lasted,
        longest_ms := max(Longest, Lasted)
    }.

-spec table(node() | undefined, [history()]) -> dyno_recording_table:table().
table(Node, Histories) ->
    dyno_recording_table:make(
        spec(),
        [ended(LastMs, History) || #{last_ms := LastMs} = History <- Histories],
        #{node => Node}
    ).

-spec spec() -> dyno_recording_table:spec().
spec() ->
    Violated = ~"From the check that found it violated to the next one that did not.",
    Columns = [
        {~"invariant", ~"Invariant", string, [invariant, name]},
        {~"expression", ~"Condition", string, fun(#{invariant := I}) -> expression(I) end},
        {~"result", ~"Result", string, fun result/1},
        {~"checks", ~"Checks", count, checks},
        {~"violations", ~"Violations", count, lower, violations},
        {~"first", ~"First violated after", {number, ~"ms"}, note, first_ms},
        {~"violated", ~"Violated for", {number, ~"ms"}, [lower, Violated], lasted(violated_ms)},
        {~"longest", ~"Longest violation", {number, ~"ms"}, lower, lasted(longest_ms)},
        {~"value", ~"Value when first violated", string, text},
        {~"failures", ~"Checks that failed", count, lower, failures},
        {~"why", ~"Why they failed", string, why}
    ],
    #{name => ~"invariants", title => ~"Invariants", columns => Columns}.

lasted(Key) ->
    fun
        (#{violations := 0}) -> undefined;
        (#{Key := Ms}) -> Ms
    end.

result(#{violations := N}) when N > 0 -> fail;
result(#{checks := 0}) -> unknown;
result(#{failures := N}) when N > 0 -> unknown;
result(_History) -> pass.

-spec verdict(
    history(), #{run := binary(), size => non_neg_integer(), node := node() | undefined}
) -> #{atom() => term()}.
verdict(#{invariant := Invariant, number := Number} = History, #{run := Run} = Place) ->
    #{
        kind => invariant,
        name => map_get(name, Invariant),
        subject => expression(Invariant),
        run => Run,
        node => map_get(node, Place),
        result => result(History),
        text => sentence(result(History), History, place(Place)),
        evidence => (maps:with([checks, violations, failures], History))#{
            value => hd([Number || dyno_recording_check:is_measurable(Number)] ++ [undefined])
        }
    }.

place(Place) ->
    [
        [io_lib:format(" at size ~b", [Size]) || #{size := Size} <- [Place]],
        [io_lib:format(" in ~ts", [Node]) || #{node := Node} <- [Place], Node =/= undefined]
    ].

sentence(pass, #{checks := Checks, invariant := #{name := Name}}, Place) ->
    text("~ts held~ts in all ~b checks", [Name, Place, Checks]);
sentence(fail, #{last_ms := LastMs} = History, Place) ->
    #{invariant := #{name := Name} = Invariant, text := Text, first_ms := First} = History,
    #{checks := Checks, violations := Violations} = History,
    For =
        case ended(LastMs, History) of
            #{violated_ms := Ms} when Ms == 0 -> "";
            #{violated_ms := Ms} -> [", for ", ms(Ms), " in all"]
        end,
    Demand =
        case expression(Invariant) of
            Name -> "";
            Expression -> [" where ", Expression, " must hold"]
        end,
    text("~ts was violated~ts: ~ts~ts; first after ~ts, in ~b of ~b checks~ts", [
        Name, Place, Text, Demand, ms(First), Violations, Checks, For
    ]);
sentence(unknown, #{invariant := #{name := Name}, checks := 0, why := Why}, Place) ->
    text("~ts was never checked~ts: ~ts", [Name, Place, because(Why)]);
sentence(unknown, #{checks := Checks, failures := Failures, why := Why} = History, Place) ->
    #{invariant := #{name := Name}} = History,
    text("~ts held~ts in ~b checks, but ~b more failed: ~ts", [
        Name, Place, Checks, Failures, because(Why)
    ]).

because(undefined) -> ~"the run was over before";
because(Why) -> Why.

ms(Ms) -> dyno_unit:format(Ms, ~"ms").

-spec format_error(reason()) -> unicode:chardata().
format_error({in_text, Text, Column, Why}) ->
    io_lib:format("\"~ts\", column ~b: ~ts; ~ts", [Text, Column, Why, accepted()]);
format_error({bad_invariant, Source}) ->
    io_lib:format(
        "~0tP is not an invariant; write {Name, {Module, Function, Arguments}, Operator, Value}; "
        "~ts",
        [Source, 15, accepted()]
    ).

accepted() ->
    [
        "as text it is \"NAME: module:function(ARGUMENTS) OPERATOR VALUE\", with or without the "
        "name and with one of the operators "
        | operators()
    ].
