%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_text).
-moduledoc """
Makes foreign text safe to show: characters that control a terminal, change a line's direction or
are invisible become Erlang escapes, such as `\x{1B}`; in JSON `\u202E`.
""".

-export([clean/1, lines/1, json/1, counted/1]).

%% Not a part of a larger number, no arity and no size.
-define(COUNT_OF_1,
    "(?<![0-9.,#/])(?<!size )1 (process(?=es)|call|callback|check|event|function|handler|link|look"
    "|message|module|monitor|node|operation|probe|round|row|sample|scheduler|server|time|value"
    "|violation|window|worker)(?:es|s)( of \\S+)?"
).

-doc """
The text on one line; bytes outside UTF-8 become `?`.

```erlang
1> dyno_text:clean(<<"shop\e[2J\nx">>).
<<"shop\\x{1B}[2J x">>
```
""".
-spec clean(binary()) -> binary().
clean(Text) ->
    case is_plain(Text, $\s) of
        true -> Text;
        false -> escaped(Text, $\s, fun(_Space) -> ~" " end, <<>>)
    end.

-doc "The same for several lines: line feeds and tabs stay.".
-spec lines(unicode:chardata()) -> binary().
lines(Text) ->
    Binary = binary(Text),
    case is_plain(Binary, $\n) of
        true -> Binary;
        false -> escaped(Binary, $\s, fun(Space) -> <<Space>> end, <<>>)
    end.

-doc "Safe JSON with the same meaning.".
-spec json(json:encode_value()) -> iodata().
json(Value) ->
    json:encode(Value, fun encoder/2).

encoder(Text, _Encoder) when is_binary(Text) ->
    Json = iolist_to_binary(json:encode_binary(Text)),
    case is_plain(Json, $\s) of
        true -> Json;
        false -> in_json(Json, $\s, <<>>)
    end;
encoder(Value, Encoder) ->
    json:encode_value(Value, Encoder).

-doc """
A sentence in which a count of 1 has its noun, and the verb after it, in the singular.

```erlang
1> dyno_text:counted(<<"1 processes wait, 21 messages are lost in 1 rounds">>).
<<"1 process waits, 21 messages are lost in 1 round">>
```
""".
-spec counted(binary()) -> binary().
counted(Text) ->
    Verbs = [{" are", " is"}, {" were", " was"}, {" have", " has"}, {" wait", " waits"}, {"", ""}],
    case binary:match(Text, ~"1 ") of
        nomatch ->
            Text;
        _ ->
            lists:foldl(
                fun({Many, One}, Of) ->
                    Pattern = [?COUNT_OF_1, Many, "\\b"],
                    iolist_to_binary(re:replace(Of, Pattern, ["1 \\1\\2", One], [global]))
                end,
                Text,
                Verbs
            )
    end.

is_plain(<<Char, Rest/binary>>, Also) when Char >= $\s, Char < 16#7F; Char =:= Also ->
    is_plain(Rest, Also);
is_plain(Rest, _Also) ->
    Rest =:= <<>>.

%% Lists may hold UTF-8 bytes, too, as arguments do without a locale.
binary(Text) ->
    case unicode:characters_to_binary(Text) of
        <<_/binary>> = Whole -> Whole;
        {_, Good, Rest} -> <<Good/binary, (bytes(Rest))/binary>>
    end.

bytes(Rest) ->
    try
        iolist_to_binary(Rest)
    catch
        error:badarg -> ~"?"
    end.

escaped(<<Char/utf8, Rest/binary>>, Before, Space, Text) ->
    Shown =
        case misleads(Char, Before) of
            _ when Char =:= $\n; Char =:= $\t -> Space(Char);
            true -> <<"\\x{", (integer_to_binary(Char, 16))/binary, "}">>;
            false -> <<Char/utf8>>
        end,
    escaped(Rest, Char, Space, <<Text/binary, Shown/binary>>);
escaped(<<_NoCharacter, Rest/binary>>, _Before, Space, Text) ->
    escaped(Rest, $?, Space, <<Text/binary, "?">>);
escaped(<<>>, _Before, _Space, Text) ->
    Text.

in_json(<<Char/utf8, Rest/binary>>, Before, Text) ->
    Shown =
        case misleads(Char, Before) of
            true -> <<<<"\\u", (hex(Unit))/binary>> || <<Unit:16>> <= <<Char/utf16>>>>;
            false -> <<Char/utf8>>
        end,
    in_json(Rest, Char, <<Text/binary, Shown/binary>>);
in_json(<<>>, _Before, Text) ->
    Text.

hex(Unit) -> binary:encode_hex(<<Unit:16>>).

%% Control characters, line ends, changes of direction, and zero-width characters. Some scripts and
%% emoji need the two joiners; after ASCII they only deceive.
misleads(Char, _) when Char < $\s; Char >= 16#7F, Char < 16#A0 -> true;
misleads(Char, _) when Char < 16#AD -> false;
misleads(Char, _) when Char =:= 16#AD; Char =:= 16#61C; Char =:= 16#180E; Char =:= 16#200B -> true;
misleads(Char, Before) when Char =:= 16#200C; Char =:= 16#200D -> Before < 16#80;
misleads(Char, _) when Char =:= 16#200E; Char =:= 16#200F -> true;
misleads(Char, _) when Char >= 16#2028, Char =< 16#202E -> true;
misleads(Char, _) when Char >= 16#2060, Char =< 16#206F -> true;
misleads(Char, _) when Char =:= 16#FEFF; Char >= 16#FFF9, Char =< 16#FFFB -> true;
misleads(Char, _) -> Char >= 16#E0000 andalso Char =< 16#E0FFF.
