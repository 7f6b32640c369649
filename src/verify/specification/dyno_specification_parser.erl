%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_specification_parser).
-moduledoc false.
%% Parses a specification into properties. One function for each rule of the grammar in
%% doc/verify-specifications.md; erl_scan and erl_parse handle tokens, patterns and guards.

-export([parse/1]).
-export_type([property/0, body/0, event/0, step/0, regexp/0, formula/0, past/0, location/0]).

-type location() :: {Line :: pos_integer(), Column :: pos_integer()}.
-type pattern() :: erl_parse:abstract_expr().

-type property() :: #{
    name := binary(),
    location := location(),
    select := [dyno_agent_monitor:selector()],
    keys := [{atom(), location()}],
    across := boolean(),
    strict := boolean(),
    body := body()
}.

-type body() ::
    {follows | never, regexp()}
    | {satisfies, formula()}
    | {always, past(), Text :: binary()}
    | {at_most | at_least, pos_integer(), event(), WithinNs :: integer(), Text :: binary()}.

-type event() :: #{
    kind := atom(),
    location := location(),
    pattern := pattern() | none,
    %% to, ref, as, by
    options := #{atom() => pattern()},
    guard := [[erl_parse:abstract_expr()]]
}.

-type step() :: {step, event(), WithinNs :: integer() | infinity, Text :: binary()}.
-type regexp() ::
    step()
    %% `then eventually`: at any later event.
    | {later, event(), WithinNs :: integer() | infinity, Text :: binary()}
    | {then | 'or', regexp(), regexp()}
    | {star | plus | optional, regexp()}.
-type formula() ::
    boolean()
    | {necessary | possible, step(), formula()}
    | {'and' | 'or', formula(), formula()}
    | {max | min, atom(), formula()}
    | {variable, location(), atom()}.
-type past() ::
    boolean()
    | {event, event()}
    | {'not' | previously | historically, past()}
    | {once, past(), WithinNs :: integer() | infinity}
    | {'and' | 'or' | implies | since, past(), past()}.

%% The first words of events, and their forms in messages.
-define(EVENTS, [
    "send",
    "receive",
    "call",
    "cast",
    "info",
    "reply",
    "timeout",
    "spawn",
    "spawned",
    "exit",
    "return",
    "exception",
    "any"
]).

%% After which processes.
-define(AFTER_NAMES, [each, across, strict, follows, never, satisfies, always, at]).

-spec parse(string()) -> [property(), ...].
parse(Text) ->
    case erl_scan:string(dyno_specification_elixir:marked(Text), {1, 1}, [text]) of
        {ok, [], _} ->
            throw({{1, 1}, no_property});
        {ok, Tokens, End} ->
            Erlang = dyno_specification_elixir:tokens(Tokens),
            properties(Erlang ++ [{'end of file', erl_anno:new(End)}]);
        {error, {Location, Module, Description}, _} ->
            throw({Location, {erlang, lists:flatten(Module:format_error(Description))}})
    end.

properties([{'end of file', _}]) ->
    [];
properties([{atom, Anno, property} | Tokens]) ->
    {Property, Rest} = property(Tokens),
    [Property#{location => erl_anno:location(Anno)} | properties(Rest)];
properties(Tokens) ->
    expected("'property'", Tokens).

property(Tokens) ->
    {Name, Tokens1} = name(Tokens),
    {Select, Tokens2} = listed(fun selector/1, word('of', "'of' and which processes", Tokens1)),
    {{Keys, Across}, Tokens3} = keys(Tokens2),
    {Strict, Tokens4} = strict(Tokens3),
    {Body, Tokens5} = body(Tokens4),
    Property = #{
        name => Name,
        select => Select,
        keys => Keys,
        across => Across,
        strict => Strict,
        body => Body
    },
    {Property, full_stop(Body, Tokens5)}.

name([{string, _, Name} | Rest]) -> {unicode:characters_to_binary(Name), Rest};
name([{atom, _, Name} | Rest]) -> {atom_to_binary(Name), Rest};
name(Tokens) -> expected("the property's name, an atom or a string", Tokens).

listed(One, Tokens) ->
    case One(Tokens) of
        {First, [{',', _} | More]} ->
            {Others, Rest} = listed(One, More),
            {[First | Others], Rest};
        {Last, Rest} ->
            {[Last], Rest}
    end.

selector([{atom, _, M}, {':', _}, {atom, _, F}, {'/', _}, {integer, _, A} | Rest]) ->
    {{function, M, F, A}, Rest};
selector([{atom, _, M}, {':', _} | [{atom, _, _} | _] = Tokens]) ->
    {F, Rest} = given("the function's name", Tokens),
    {{function, M, F, '_'}, Rest};
selector([{atom, _, Word} | [{atom, _, _} | _] = Tokens]) when
    Word =:= module; Word =:= registered; Word =:= application
->
    {Name, Rest} = given("a name", Tokens),
    {{Word, Name}, Rest};
selector([{atom, Anno, label} | Tokens]) ->
    {Pattern, Rest} = pattern(Tokens),
    try
        {{label, erl_parse:normalise(Pattern)}, Rest}
    catch
        error:_ -> throw({erl_anno:location(Anno), label_is_no_value})
    end;
selector(Tokens) ->
    expected(
        "'Module:Function/Arity', 'module NAME', 'registered NAME', 'application NAME' or 'label "
        "TERM'",
        Tokens
    ).

%% A word of the language is no name, unless one that may follow a name comes next.
given(What, [{atom, _, Word} | [Next | _] = Rest] = Tokens) ->
    IsNext =
        case Next of
            {atom, _, Of} -> lists:member(Of, ?AFTER_NAMES);
            _ -> element(1, Next) =:= ','
        end,
    case lists:member(Word, ?AFTER_NAMES) andalso not IsNext of
        true -> expected(What, Tokens);
        false -> {Word, Rest}
    end.

keys([{atom, _, Word} | Tokens]) when Word =:= each; Word =:= across ->
    {Keys, Rest} = listed(fun variable/1, Tokens),
    {{Keys, Word =:= across}, Rest};
keys(Tokens) ->
    {{[], false}, Tokens}.

variable([{var, Anno, Name} | Rest]) when Name =/= '_' ->
    {{Name, erl_anno:location(Anno)}, Rest};
variable(Tokens) ->
    expected("a variable", Tokens).

strict([{atom, _, strict} | Rest]) -> {true, Rest};
strict(Tokens) -> {false, Tokens}.

full_stop(_Body, [{dot, _} | Rest]) ->
    Rest;
full_stop(_Body, [{'.', _} | Rest]) ->
    Rest;
full_stop({Word, _}, Tokens) when Word =:= follows; Word =:= never ->
    expected("'then', '|', '*', '+', '?', 'within' or a full stop", Tokens);
full_stop({satisfies, _}, Tokens) ->
    expected("'and', 'or' or a full stop", Tokens);
full_stop({always, _, _}, Tokens) ->
    expected("'and', 'or', 'implies', 'since' or a full stop", Tokens);
full_stop(_Rate, Tokens) ->
    expected("a full stop", Tokens).

body([{atom, _, Word} | Tokens]) when Word =:= follows; Word =:= never ->
    {Regexp, Rest} = alternatives(Tokens),
    {{Word, Regexp}, Rest};
body([{atom, _, satisfies} | Tokens]) ->
    {Formula, Rest} = formula(Tokens),
    {{satisfies, Formula}, Rest};
body([{atom, _, always} | Tokens]) ->
    {Past, Rest} = past(Tokens),
    {{always, Past, text(Tokens, Rest)}, Rest};
body([{atom, _, at}, {atom, _, Bound}, {integer, _, Count} | Tokens] = All) when
    (Bound =:= most orelse Bound =:= least) andalso (Count > 0 orelse Bound =:= most)
->
    {Event, Tokens1} = event(Tokens, []),
    {Within, Rest} = duration(word(within, "'within' and a time", Tokens1)),
    Word = map_get(Bound, #{most => at_most, least => at_least}),
    {{Word, Count, Event, Within, text(All, Rest)}, Rest};
body([{atom, _, at}, {atom, _, Bound} | Tokens]) when Bound =:= most; Bound =:= least ->
    expected("how often, a whole number", Tokens);
body(Tokens) ->
    expected(
        "what holds: 'follows', 'never', 'satisfies', 'always', 'at most' or 'at least'", Tokens
    ).

%% Regular expressions

alternatives(Tokens) -> joined(fun sequence/1, '|', 'or', Tokens).

sequence(Tokens) ->
    {First, Rest} = repeated(Tokens),
    sequence(First, Rest).

sequence(Left, [{atom, _, then}, {atom, Anno, eventually} | Tokens]) ->
    {Regexp, Rest} = repeated(Tokens),
    sequence({then, Left, later(Regexp, erl_anno:location(Anno))}, Rest);
sequence(Left, [{atom, _, then} | Tokens]) ->
    {Right, Rest} = repeated(Tokens),
    sequence({then, Left, Right}, Rest);
sequence(Regexp, Rest) ->
    {Regexp, Rest}.

%% Its first step may come later.
later({step, Event, Within, Text}, _) -> {later, Event, Within, <<"eventually ", Text/binary>>};
later({then, A, B}, Location) -> {then, later(A, Location), B};
later({'or', A, B}, Location) -> {'or', later(A, Location), later(B, Location)};
later(_Repeated, Location) -> throw({Location, eventually_repeats}).

repeated([{'(', _} | Tokens]) ->
    {Regexp, Rest} = alternatives(Tokens),
    suffixes(Regexp, word(')', "'then', '|' or ')'", Rest));
repeated(Tokens) ->
    {Step, Rest} = step(Tokens, []),
    suffixes(Step, Rest).

suffixes(Regexp, [{'*', _} | Rest]) -> suffixes({star, Regexp}, Rest);
suffixes(Regexp, [{'+', _} | Rest]) -> suffixes({plus, Regexp}, Rest);
suffixes(Regexp, [{'?', _} | Rest]) -> suffixes({optional, Regexp}, Rest);
suffixes(Regexp, Rest) -> {Regexp, Rest}.

%% Formulas with necessities and possibilities

formula(Tokens) -> joined(fun formula_and/1, 'or', 'or', Tokens).

formula_and(Tokens) -> joined(fun modal/1, 'and', 'and', Tokens).

modal([{'[', _} | Tokens]) ->
    {Step, Rest} = step(Tokens, []),
    {Formula, Rest1} = modal(word(']', "'when', 'within' or ']'", Rest)),
    {{necessary, Step, Formula}, Rest1};
modal([{'<', _} | Tokens]) ->
    {Step, Rest} = step(Tokens, ['>']),
    {Formula, Rest1} = modal(word('>', "'when', 'within' or '>'", Rest)),
    {{possible, Step, Formula}, Rest1};
modal([{atom, _, Word}, {var, _, Name}, {Dot, _} | Tokens]) when
    (Word =:= max orelse Word =:= min) andalso (Dot =:= dot orelse Dot =:= '.')
->
    {Formula, Rest} = formula(Tokens),
    {{Word, Name, Formula}, Rest};
modal([{atom, _, Word} | Tokens]) when Word =:= max; Word =:= min ->
    expected("a variable and '.'", Tokens);
modal([{atom, _, Truth} | Rest]) when Truth =:= true; Truth =:= tt -> {true, Rest};
modal([{atom, _, Truth} | Rest]) when Truth =:= false; Truth =:= ff -> {false, Rest};
modal([{var, Anno, Name} | Rest]) ->
    {{variable, erl_anno:location(Anno), Name}, Rest};
modal([{'(', _} | Tokens]) ->
    {Formula, Rest} = formula(Tokens),
    {Formula, word(')', "'and', 'or' or ')'", Rest)};
modal(Tokens) ->
    expected("'[', '<', 'max', 'min', 'true', 'false', a variable or '('", Tokens).

%% Past-time temporal logic

past(Tokens) ->
    case joined(fun past_and/1, 'or', 'or', Tokens) of
        {Past, [{atom, _, implies} | Rest]} ->
            {Then, Rest1} = past(Rest),
            {{implies, Past, Then}, Rest1};
        Done ->
            Done
    end.

past_and(Tokens) -> joined(fun past_since/1, 'and', 'and', Tokens).

past_since(Tokens) -> joined(fun past_unary/1, since, since, Tokens).

past_unary([{'not', _} | Tokens]) ->
    {Past, Rest} = past_unary(Tokens),
    {{'not', Past}, Rest};
past_unary([{atom, _, Word} | Tokens]) when Word =:= previously; Word =:= historically ->
    {Past, Rest} = past_unary(Tokens),
    {{Word, Past}, Rest};
past_unary([{atom, _, once} | Tokens]) ->
    {Past, Rest} = past_unary(Tokens),
    {Within, Rest1} = within(Rest),
    {{once, Past, Within}, Rest1};
past_unary([{atom, _, Truth} | Rest]) when is_boolean(Truth) ->
    {Truth, Rest};
past_unary([{'(', _} | Tokens]) ->
    {Past, Rest} = past(Tokens),
    {Past, word(')', "'and', 'or', 'implies', 'since' or ')'", Rest)};
past_unary(Tokens) ->
    {Event, Rest} = event(Tokens, []),
    {{event, Event}, Rest}.

%% Operators, by their token, that associate to the left.
joined(Operand, Operator, Name, Tokens) ->
    {First, Rest} = Operand(Tokens),
    joined(Operand, Operator, Name, First, Rest).

joined(Operand, Operator, Name, Left, [Token | Rest] = Tokens) ->
    case is_word(Operator, Token) of
        true ->
            {Right, Rest1} = Operand(Rest),
            joined(Operand, Operator, Name, {Name, Left, Right}, Rest1);
        false ->
            {Left, Tokens}
    end.

%% Events

step(Tokens, Stops) ->
    {Event, Rest} = event(Tokens, Stops),
    {Within, Rest1} = within(Rest),
    {{step, Event, Within, text(Tokens, Rest1)}, Rest1}.

within([{atom, _, within} | Tokens]) -> duration(Tokens);
within(Tokens) -> {infinity, Tokens}.

duration([{Category, _, Number}, {atom, Anno, Unit} | Rest]) when
    Category =:= integer; Category =:= float
->
    case dyno_unit:to_base(Number, atom_to_binary(Unit)) of
        {ok, {Ns, ~"ns"}} -> {round(Ns), Rest};
        _ -> expected(dyno_unit:usual(time), [{atom, Anno, Unit}])
    end;
duration(Tokens) ->
    expected("a time such as '50 ms'", Tokens).

event([First | _] = Tokens, Stops) ->
    {Kind, Tokens1} = kind(Tokens),
    {Pattern, Tokens2} = pattern_of(Kind, Tokens1),
    {Options, Tokens3} = options(Tokens2, #{}),
    {Guard, Tokens4} = guard(Tokens3, Stops),
    Event = #{
        kind => Kind,
        location => location(First),
        pattern => Pattern,
        options => Options,
        guard => Guard
    },
    {Event, Tokens4}.

kind([{atom, _, send}, {atom, _, Of} | Rest]) when Of =:= call; Of =:= cast -> {{send, Of}, Rest};
kind([{atom, _, send}, {atom, _, reply} | Rest]) ->
    {reply, Rest};
kind([{'receive', _}, {atom, _, reply} | Rest]) ->
    {{'receive', reply}, Rest};
kind([{'receive', _}, {atom, _, Of} | Rest]) when Of =:= call; Of =:= cast; Of =:= info ->
    {Of, Rest};
kind([{'receive', _} | Rest]) ->
    {'receive', Rest};
kind([{atom, Anno, Word} | Rest]) ->
    case lists:member(atom_to_list(Word), ?EVENTS) of
        true ->
            {Word, Rest};
        false ->
            Nearest = dyno_similar:nearest(atom_to_list(Word), ?EVENTS),
            throw({erl_anno:location(Anno), {unknown_event, Word, Nearest}})
    end;
kind(Tokens) ->
    expected(["an event: ", lists:join(", ", ?EVENTS)], Tokens).

pattern_of(Kind, Tokens) when Kind =:= timeout; Kind =:= any ->
    {none, Tokens};
%% `return m:f/1 Value`: the function, then its result.
pattern_of(Kind, Tokens) when Kind =:= return; Kind =:= exception ->
    {Function, Rest} = pattern(Tokens),
    {Value, Rest1} = pattern(Rest),
    {{tuple, element(2, Function), [Function, Value]}, Rest1};
pattern_of(_Kind, Tokens) ->
    pattern(Tokens).

options([{atom, Anno, Word} | Tokens], Options) when
    Word =:= to; Word =:= ref; Word =:= as; Word =:= by
->
    is_map_key(Word, Options) andalso throw({erl_anno:location(Anno), {twice, Word}}),
    {Pattern, Rest} = pattern(Tokens),
    options(Rest, Options#{Word => Pattern});
options(Tokens, Options) ->
    {Options, Tokens}.

%% A pattern is one term, or terms with `=` or `++` between, or a function `m:f(X)` or `m:f/1`.
pattern(Tokens) ->
    {Taken, Rest} = pattern_tokens(Tokens),
    [Pattern] = parsed(Taken),
    {Pattern, Rest}.

pattern_tokens(Tokens) ->
    {Term, Rest} = term_tokens(Tokens),
    case Rest of
        [{Operator, _} = Token | More] when Operator =:= '='; Operator =:= '++' ->
            {Others, Rest1} = pattern_tokens(More),
            {Term ++ [Token | Others], Rest1};
        _ ->
            {Term, Rest}
    end.

term_tokens([M, {':', _} = Colon, F | Rest]) when
    element(1, M) =:= atom orelse element(1, M) =:= var,
    element(1, F) =:= atom orelse element(1, F) =:= var
->
    case Rest of
        [{'(', _} = Open | More] ->
            {Inside, Rest1} = bracketed(More, [Open]),
            {[M, Colon, F | Inside], Rest1};
        [{'/', _} = Slash, {integer, _, _} = Arity | More] ->
            {[M, Colon, F, Slash, Arity], More};
        _ ->
            expected("'(' and arguments, or '/' and an arity", Rest)
    end;
term_tokens([{'-', _} = Minus, Number | Rest]) when
    element(1, Number) =:= integer; element(1, Number) =:= float
->
    {[Minus, Number], Rest};
term_tokens([{'#', _} = Hash, {'{', _} = Open | Rest]) ->
    {Inside, Rest1} = bracketed(Rest, [Open]),
    {[Hash | Inside], Rest1};
term_tokens([{sigil_prefix, _, _} = A, {string, _, _} = B, {sigil_suffix, _, _} = C | Rest]) ->
    {[A, B, C], Rest};
term_tokens([{Open, _} = Token | Rest]) when
    Open =:= '{'; Open =:= '['; Open =:= '<<'; Open =:= '('
->
    bracketed(Rest, [Token]);
term_tokens([{Category, _, _} = Token | Rest]) when
    Category =:= atom;
    Category =:= var;
    Category =:= integer;
    Category =:= float;
    Category =:= char;
    Category =:= string
->
    {[Token], Rest};
term_tokens(Tokens) ->
    expected("a pattern", Tokens).

%% Up to the bracket that closes the first one.
bracketed(Tokens, [Open | _] = Taken) ->
    bracketed(Tokens, Taken, [closes(element(1, Open))]).

bracketed(Rest, Taken, []) ->
    {lists:reverse(Taken), Rest};
bracketed([{Close, _} = Token | Rest], Taken, [Close | Closes]) ->
    bracketed(Rest, [Token | Taken], Closes);
bracketed([Token | Rest], Taken, Closes) when tuple_size(Token) =:= 2 ->
    case {closes(element(1, Token)), lists:member(element(1, Token), ['}', ']', ')', '>>'])} of
        {none, false} when element(1, Token) =/= dot, element(1, Token) =/= 'end of file' ->
            bracketed(Rest, [Token | Taken], Closes);
        {none, _} ->
            expected(["'", atom_to_list(hd(Closes)), "'"], [Token]);
        {Close, _} ->
            bracketed(Rest, [Token | Taken], [Close | Closes])
    end;
bracketed([Token | Rest], Taken, Closes) ->
    bracketed(Rest, [Token | Taken], Closes).

closes('{') -> '}';
closes('[') -> ']';
closes('(') -> ')';
closes('<<') -> '>>';
closes(_) -> none.

guard([{'when', Anno} | Tokens], Stops) ->
    {Taken, Rest} = guard_tokens(Tokens, Stops, []),
    Taken =:= [] andalso expected("a guard", Tokens),
    Close = [{'->', Anno}, {atom, Anno, true}, {'end', Anno}],
    [{'if', _, [{clause, _, [], Guard, _}]}] = parsed([{'if', Anno}], Taken, Close),
    {Guard, Rest};
guard(Tokens, _Stops) ->
    {[], Tokens}.

guard_tokens([Token | Rest] = Tokens, Stops, Taken) ->
    Symbol = element(1, Token),
    Ends =
        case Token of
            {atom, _, Word} -> lists:member(Word, [then, within, implies, since]);
            _ -> lists:member(Symbol, [']', ')', '|', '?', 'and', 'or', dot, 'end of file' | Stops])
        end,
    case {Ends, tuple_size(Token) =:= 2 andalso closes(Symbol) =/= none} of
        {true, _} ->
            {lists:reverse(Taken), Tokens};
        {false, true} ->
            {Inside, Rest1} = bracketed(Rest, [Token]),
            guard_tokens(Rest1, Stops, lists:reverse(Inside, Taken));
        {false, false} ->
            guard_tokens(Rest, Stops, [Token | Taken])
    end.

parsed(Tokens) -> parsed([], Tokens, []).

%% The last tokens are not of the text: an error there is one at its end.
parsed(First, Tokens, Last) ->
    End = behind(lists:last(Tokens)),
    Added = [setelement(2, Token, End) || Token <- Last ++ [{dot, End}]],
    case erl_parse:parse_exprs(First ++ Tokens ++ Added) of
        {ok, Exprs} ->
            Exprs;
        {error, {Location, Module, Description}} ->
            Error = {plain(Location), Module, Description},
            {Where, Text} = dyno_syntax:error(Tokens, End, Error),
            throw({Where, {erlang, unicode:characters_to_list(Text)}})
    end.

behind(Token) ->
    {Line, Column} = location(Token),
    {Line, Column + length(erl_anno:text(element(2, Token)))}.

plain(Location) ->
    erl_anno:location(erl_anno:from_term(Location)).

%% Small things

word(Word, What, [Token | Rest] = Tokens) ->
    case is_word(Word, Token) of
        true -> Rest;
        false -> expected(What, Tokens)
    end.

is_word(Word, {Word, _}) -> true;
is_word(Word, {atom, _, Word}) -> true;
is_word(_Word, _Token) -> false.

-spec expected(unicode:chardata(), [tuple()]) -> no_return().
expected(What, [Token | _]) ->
    throw({location(Token), {expected, What, found(Token)}}).

location(Token) ->
    erl_anno:location(element(2, Token)).

found({'end of file', _}) -> "the end of the file";
found({dot, _}) -> "a full stop";
found(Token) -> ["'", erl_anno:text(element(2, Token)), "'"].

text(Tokens, Rest) ->
    Taken = lists:sublist(Tokens, length(Tokens) - length(Rest)),
    unicode:characters_to_binary(text(Taken)).

text([A, B | Rest]) ->
    {Line, Column} = location(A),
    End = {Line, Column + string:length(written(A))},
    case location(B) of
        End -> [written(A) | text([B | Rest])];
        _ -> [written(A), " " | text([B | Rest])]
    end;
text([A]) ->
    written(A);
text([]) ->
    [].

%% A full stop after a fixed point's variable includes the following white space.
written({dot, _}) -> ".";
written(Token) -> erl_anno:text(element(2, Token)).
