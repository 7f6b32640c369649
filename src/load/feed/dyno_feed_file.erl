%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_feed_file).
-moduledoc false.
%% A file of items, one a line: text, or CSV with a heading. It is read into memory.
%%
%% A quoted CSV cell may hold separators and doubled quotes, but no end of line.

-export([items/2, format_error/1]).
-export_type([reason/0]).

-type reason() ::
    {unreadable, file:name_all(), file:posix() | badarg | terminated | system_limit}
    | {empty, file:name_all()}
    | {large, file:name_all()}.

-define(MOST_BYTES, 1024 * 1024 * 1024).

-spec items(lines | csv, file:name_all()) -> {ok, [term(), ...]} | {error, reason()}.
items(Kind, File) ->
    case filelib:file_size(File) =< ?MOST_BYTES andalso file:read_file(File) of
        false -> {error, {large, File}};
        {ok, Text} -> parsed(Kind, File, lines(Text));
        {error, Reason} -> {error, {unreadable, File, Reason}}
    end.

lines(Text) ->
    [
        Clean
     || Line <- binary:split(Text, ~"\n", [global]), Clean <- [clean(Line)], Clean =/= <<>>
    ].

parsed(lines, _File, [_ | _] = Lines) ->
    {ok, Lines};
parsed(csv, _File, [Heading, _ | _] = Lines) ->
    Names = cells(Heading),
    {ok, [item(Names, cells(Line)) || Line <- tl(Lines)]};
parsed(_Kind, File, _Lines) ->
    {error, {empty, File}}.

item(Names, Cells) -> maps:from_list(lists:zip(Names, Cells, {pad, {~"", ~""}})).

clean(Line) -> string:trim(Line, trailing, "\r").

cells(Line) -> cells(Line, []).

cells(<<$", Rest/binary>>, Cells) ->
    quoted(Rest, <<>>, Cells);
cells(Line, Cells) ->
    case binary:split(Line, ~",") of
        [Cell, Rest] -> cells(Rest, [Cell | Cells]);
        [Cell] -> lists:reverse(Cells, [Cell])
    end.

quoted(<<$", $", Rest/binary>>, Cell, Cells) -> quoted(Rest, <<Cell/binary, $">>, Cells);
quoted(<<$", $,, Rest/binary>>, Cell, Cells) -> cells(Rest, [Cell | Cells]);
quoted(<<$", _/binary>>, Cell, Cells) -> lists:reverse(Cells, [Cell]);
quoted(<<Char, Rest/binary>>, Cell, Cells) -> quoted(Rest, <<Cell/binary, Char>>, Cells);
quoted(<<>>, Cell, Cells) -> lists:reverse(Cells, [Cell]).

-spec format_error(reason()) -> unicode:chardata().
format_error({unreadable, File, Reason}) ->
    io_lib:format("~ts cannot be read: ~ts", [File, file:format_error(Reason)]);
format_error({empty, File}) ->
    io_lib:format("~ts has no items: a line each is expected, of CSV after a heading", [File]);
format_error({large, File}) ->
    io_lib:format("~ts has more than 1 GiB, and items are kept in memory; give fewer", [File]).
