%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_verify_line).
-moduledoc false.
%% Reads a line of a text file of events: `recv(<0.11.0>, {request, 1}) delayed by 200`. Terms are
%% read directly: tokens and forms would take a hundred times the text's memory, and create atoms
%% (dyno_verify_name). Funs and ports stay text, as printed.

-export([parse/1]).

-spec parse(binary()) -> {Kind :: binary(), [term()], DelayMs :: non_neg_integer()} | none | error.
parse(Line) ->
    try
        line(Line)
    catch
        error:_ -> error
    end.

line(Line) ->
    case space(Line) of
        <<>> ->
            none;
        Text ->
            {Kind, Rest} = word(Text),
            <<"(", Inside/binary>> = space(Rest),
            {Terms, Behind} = terms(space(Inside), $)),
            {Kind, Terms, delay(space(Behind))}
    end.

delay(<<"delayed", Rest/binary>>) ->
    <<"by", Text/binary>> = space(Rest),
    {Ms, Behind} = digits(space(Text)),
    <<>> = dot(space(Behind)),
    binary_to_integer(Ms);
delay(Text) ->
    <<>> = dot(Text),
    0.

dot(<<".", Rest/binary>>) -> space(Rest);
dot(Text) -> Text.

%% Skips spaces and comments.
space(<<Space, Rest/binary>>) when Space =< $\s -> space(Rest);
space(<<"%", _/binary>>) -> <<>>;
space(Text) -> Text.

terms(<<End, Rest/binary>>, End) ->
    {[], Rest};
terms(Text, End) ->
    {Terms, Rest} = terms(Text, End, []),
    {lists:reverse(Terms), Rest}.

terms(Text, End, Before) ->
    {Term, Behind} = term(Text),
    case space(Behind) of
        <<",", Rest/binary>> -> terms(space(Rest), End, [Term | Before]);
        <<End, Rest/binary>> -> {[Term | Before], Rest}
    end.

term(<<"{", Rest/binary>>) ->
    {Elements, Behind} = terms(space(Rest), $}),
    {list_to_tuple(Elements), Behind};
term(<<"[", Rest/binary>>) ->
    list(space(Rest), []);
term(<<"#{", Rest/binary>>) ->
    pairs(space(Rest), #{});
term(<<"#", Rest/binary>>) ->
    printed(Rest);
term(<<"<<", Rest/binary>>) ->
    segments(space(Rest), <<>>);
term(<<"<", Rest/binary>>) ->
    {[Node, Id, Serial], Behind} = numbers(Rest, []),
    {pid(Node, Id, Serial), Behind};
term(<<"\"", Rest/binary>>) ->
    {Text, Behind} = quoted(Rest, $", []),
    more_string(lists:reverse(Text), space(Behind));
term(<<"'", Rest/binary>>) ->
    {Name, Behind} = quoted(Rest, $', []),
    {dyno_verify_name:atom(unicode:characters_to_binary(lists:reverse(Name))), Behind};
term(<<"$\\", Rest/binary>>) ->
    escaped(Rest);
term(<<"$", Char/utf8, Rest/binary>>) ->
    {Char, Rest};
term(<<"-", Rest/binary>>) ->
    {Number, Behind} = number(space(Rest)),
    {-Number, Behind};
term(<<Digit, _/binary>> = Text) when Digit >= $0, Digit =< $9 ->
    number(Text);
term(Text) ->
    {Name, Rest} = word(Text),
    {dyno_verify_name:atom(Name), Rest}.

list(<<"]", Rest/binary>>, Before) ->
    {lists:reverse(Before), Rest};
list(Text, Before) ->
    {Element, Behind} = term(Text),
    case space(Behind) of
        <<",", Rest/binary>> ->
            list(space(Rest), [Element | Before]);
        <<"|", Rest/binary>> ->
            {Tail, Last} = term(space(Rest)),
            <<"]", Next/binary>> = space(Last),
            {lists:reverse([Element | Before], Tail), Next};
        <<"]", Rest/binary>> ->
            {lists:reverse([Element | Before]), Rest}
    end.

pairs(<<"}", Rest/binary>>, Map) ->
    {Map, Rest};
pairs(Text, Map) ->
    {Key, Behind} = term(Text),
    <<"=>", Of/binary>> = space(Behind),
    {Value, Last} = term(space(Of)),
    case space(Last) of
        <<",", Rest/binary>> -> pairs(space(Rest), Map#{Key => Value});
        <<"}", Rest/binary>> -> {Map#{Key => Value}, Rest}
    end.

%% As the shell prints them: <<"text">>, <<"text"/utf8>>, <<1,2,3:4>>.
segments(<<">>", Rest/binary>>, Bits) ->
    {Bits, Rest};
segments(Text, Bits) ->
    {Value, Behind} = term(Text),
    {Segment, Last} = segment(Value, space(Behind)),
    Now = <<Bits/bitstring, Segment/bitstring>>,
    case space(Last) of
        <<",", Rest/binary>> -> segments(space(Rest), Now);
        <<">>", Rest/binary>> -> {Now, Rest}
    end.

segment(Text, <<"/utf8", Rest/binary>>) when is_list(Text) ->
    <<_/binary>> = Binary = unicode:characters_to_binary(Text),
    {Binary, Rest};
segment(Text, Rest) when is_list(Text) ->
    {list_to_binary(Text), Rest};
segment(Number, <<":", Text/binary>>) ->
    {Size, Rest} = digits(Text),
    Bits = binary_to_integer(Size),
    true = Bits =< 8,
    {<<Number:Bits>>, Rest};
segment(Number, Rest) ->
    {<<Number>>, Rest}.

more_string(Text, <<"\"", Rest/binary>>) ->
    {More, Behind} = quoted(Rest, $", []),
    more_string(Text ++ lists:reverse(More), space(Behind));
more_string(Text, Rest) ->
    {Text, Rest}.

%% Reversed, up to the quote.
quoted(<<Quote, Rest/binary>>, Quote, Text) ->
    {Text, Rest};
quoted(<<"\\", Rest/binary>>, Quote, Text) ->
    {Char, Behind} = escaped(Rest),
    quoted(Behind, Quote, [Char | Text]);
quoted(<<Char/utf8, Rest/binary>>, Quote, Text) ->
    quoted(Rest, Quote, [Char | Text]).

escaped(<<"x{", Rest/binary>>) ->
    [Digits, Behind] = binary:split(Rest, ~"}"),
    {character(binary_to_integer(Digits, 16)), Behind};
escaped(<<"x", Digits:2/binary, Rest/binary>>) ->
    {binary_to_integer(Digits, 16), Rest};
escaped(<<"^", Char, Rest/binary>>) ->
    {Char band 31, Rest};
escaped(<<A, B, C, Rest/binary>>) when A >= $0, A =< $3, B >= $0, B =< $7, C >= $0, C =< $7 ->
    {(A - $0) * 64 + (B - $0) * 8 + C - $0, Rest};
escaped(<<Char/utf8, Rest/binary>>) ->
    Escapes = #{
        $n => $\n,
        $r => $\r,
        $t => $\t,
        $v => $\v,
        $b => $\b,
        $f => $\f,
        $e => $\e,
        $s => $\s,
        $d => $\d,
        $0 => 0
    },
    {maps:get(Char, Escapes, Char), Rest}.

character(Char) when Char =< 16#10FFFF -> Char.

number(Text) ->
    {Whole, Rest} = digits(Text),
    case Rest of
        <<"#", Based/binary>> ->
            {Digits, Behind} = letters(Based, 0),
            {binary_to_integer(Digits, binary_to_integer(Whole)), Behind};
        <<".", Digit, _/binary>> when Digit >= $0, Digit =< $9 ->
            fraction(Text);
        _ ->
            {binary_to_integer(Whole), Rest}
    end.

fraction(Text) ->
    {match, [{0, Size}]} = re:run(Text, ~"^[0-9]+\\.[0-9]+([eE][-+]?[0-9]+)?", [{capture, first}]),
    <<Float:Size/binary, Rest/binary>> = Text,
    {binary_to_float(Float), Rest}.

%% Limited: reading a number takes time quadratic in its digits.
digits(Text) ->
    {Digits, Rest} = digits(Text, 0),
    true = Digits =/= <<>> andalso byte_size(Digits) =< 10_000,
    {Digits, Rest}.

digits(Text, Size) ->
    case Text of
        <<_:Size/binary, Digit, _/binary>> when Digit >= $0, Digit =< $9 -> digits(Text, Size + 1);
        <<Digits:Size/binary, Rest/binary>> -> {Digits, Rest}
    end.

numbers(Text, Before) ->
    {Digits, Rest} = digits(Text),
    Numbers = [binary_to_integer(Digits) | Before],
    case Rest of
        <<".", More/binary>> -> numbers(More, Numbers);
        <<">", Behind/binary>> -> {lists:reverse(Numbers), Behind}
    end.

pid(0, Id, Serial) ->
    list_to_pid("<0." ++ integer_to_list(Id) ++ "." ++ integer_to_list(Serial) ++ ">");
pid(Number, Id, Serial) when Id < 1 bsl 32, Serial < 1 bsl 32 ->
    %% Of another node, known only by its number: 88 is NEW_PID_EXT.
    Node = dyno_verify_name:node(<<"node", (integer_to_binary(Number))/binary, "@log">>),
    <<131, Name/binary>> = term_to_binary(Node),
    binary_to_term(<<131, 88, Name/binary, Id:32, Serial:32, 1:32>>).

printed(<<"Ref<0.", _/binary>> = Text) ->
    {Ref, Rest} = angled(Text),
    {list_to_ref(binary_to_list(<<"#", Ref/binary>>)), Rest};
printed(Text) ->
    {Printed, Rest} = angled(Text),
    {{'$dyno', <<"#", Printed/binary>>}, Rest}.

angled(Text) ->
    {match, [{0, Size}]} = re:run(Text, ~"^(Ref|Fun|Port)<[^>]*>", [{capture, first}]),
    <<Printed:Size/binary, Rest/binary>> = Text,
    {Printed, Rest}.

word(<<First/utf8, _/binary>> = Text) when First >= $a, First =< $z; First >= 16#DF ->
    letters(Text, 0).

letters(Text, Size) ->
    case Text of
        <<_:Size/binary, C, _/binary>> when C >= $a, C =< $z; C >= $A, C =< $Z; C >= $0, C =< $9 ->
            letters(Text, Size + 1);
        <<_:Size/binary, C, _/binary>> when C =:= $_; C =:= $@; C >= 16#80 ->
            letters(Text, Size + 1);
        <<Letters:Size/binary, Rest/binary>> ->
            {Letters, Rest}
    end.
