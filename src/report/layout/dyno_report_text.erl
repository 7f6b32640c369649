%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_report_text).
-moduledoc "Measures and cuts text in terminal columns: characters may be wide or combining.".

-export([encode/1, width/1, pad/3, shorten/3, wrap/2, wrap_parts/3]).

-export_type([charset/0]).

-type charset() :: unicode | ascii.

-doc "The text as UTF-8; invalid text is cut off and replaced by `?`.".
-spec encode(unicode:chardata()) -> binary().
encode(Text) ->
    case unicode:characters_to_binary(Text) of
        Binary when is_binary(Binary) -> Binary;
        {_, Good, _} -> <<Good/binary, "?">>
    end.

-doc "The text's columns: wide East Asian characters and emoji take two.".
-spec width(unicode:chardata()) -> non_neg_integer().
width(Text) ->
    width_of(string:to_graphemes(Text), 0).

-doc "Pads the text with spaces on the other side up to a width.".
-spec pad(unicode:chardata(), left | right, non_neg_integer()) -> unicode:chardata().
pad(Text, Alignment, Width) ->
    Spaces = lists:duplicate(max(0, Width - width(Text)), $\s),
    case Alignment of
        left -> [Text, Spaces];
        right -> [Spaces, Text]
    end.

-doc """
Shortens the text to a width, in the middle: a name's ends identify it best.

```erlang
1> dyno_report_text:shorten(~"cowboy_http:parse_header/3", 15, ascii).
<<"cowboy...ader/3">>
```
""".
-spec shorten(binary(), pos_integer(), charset()) -> binary().
shorten(Text, Width, Charset) when is_binary(Text) ->
    case width(Text) =< Width of
        true ->
            Text;
        false ->
            Mark = ellipsis(Charset, Width),
            Rest = Width - width(Mark),
            Graphemes = string:to_graphemes(Text),
            Head = take(Graphemes, Rest div 2),
            Tail = lists:reverse(take(lists:reverse(Graphemes), Rest - width(Head))),
            encode([Head, Mark, Tail])
    end.

-doc "Breaks the text at spaces into lines of a width.".
-spec wrap(binary(), pos_integer()) -> [binary()].
wrap(Text, Width) ->
    wrap_parts([Word || Word <- binary:split(Text, ~" ", [global]), Word =/= ~""], ~"", Width).

-doc "Joins the parts with a separator and a space, in lines broken only between parts.".
-spec wrap_parts([binary()], binary(), pos_integer()) -> [binary()].
wrap_parts([], _Separator, _Width) ->
    [];
wrap_parts([Part], _Separator, _Width) ->
    [Part];
wrap_parts([First, Second | Parts], Separator, Width) ->
    Longer = <<First/binary, Separator/binary, " ", Second/binary>>,
    case width(Longer) + width(Separator) =< Width of
        true ->
            wrap_parts([Longer | Parts], Separator, Width);
        false ->
            Line = <<First/binary, Separator/binary>>,
            [Line | wrap_parts([Second | Parts], Separator, Width)]
    end.

width_of([], Width) -> Width;
width_of([Grapheme | Rest], Width) -> width_of(Rest, Width + grapheme_width(Grapheme)).

take([Grapheme | Graphemes], Width) ->
    case grapheme_width(Grapheme) of
        Wide when Wide =< Width -> [Grapheme | take(Graphemes, Width - Wide)];
        _ -> []
    end;
take([], _Width) ->
    [].

ellipsis(_Charset, Width) when Width < 5 -> ~"";
ellipsis(unicode, _Width) -> ~"…";
ellipsis(ascii, _Width) -> ~"...".

grapheme_width([First | _]) -> char_width(First);
grapheme_width(Char) -> char_width(Char).

%% Unicode Standard Annex 11, the ranges of wide and full-width characters.
char_width(Char) when Char < 16#1100 -> 1;
char_width(Char) when Char =< 16#115F -> 2;
char_width(Char) when Char >= 16#2E80, Char =< 16#A4CF, Char =/= 16#303F -> 2;
char_width(Char) when Char >= 16#AC00, Char =< 16#D7A3 -> 2;
char_width(Char) when Char >= 16#F900, Char =< 16#FAFF -> 2;
char_width(Char) when Char >= 16#FE30, Char =< 16#FE6F -> 2;
char_width(Char) when Char >= 16#FF00, Char =< 16#FF60 -> 2;
char_width(Char) when Char >= 16#FFE0, Char =< 16#FFE6 -> 2;
char_width(Char) when Char >= 16#1F300, Char =< 16#1FAFF -> 2;
char_width(Char) when Char >= 16#20000, Char =< 16#3FFFD -> 2;
char_width(_) -> 1.
