%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_feed_file).
-moduledoc false.
%% A file of items, one a line: text, or CSV with a heading. A small file is read into memory. For a
%% large file only the offset of every 64th line is kept, and a few readers fetch blocks on demand:
%% 12 MB of memory for 100 million lines.
%%
%% A quoted CSV cell may hold separators and doubled quotes, but no end of line.

-export([open/2, open/3, items/2, item/2, format_error/1]).
-export_type([t/0, reason/0]).

-opaque t() :: #{readers := tuple(), parse := parse()}.

-type parse() :: lines | {csv, [binary()]}.

-type reason() ::
    {unreadable, file:name_all(), file:posix() | badarg | terminated | system_limit}
    | {empty, file:name_all()}.

-define(IN_MEMORY_BYTES, 32 * 1024 * 1024).
-define(BLOCK, 64).
-define(CHUNK, 1024 * 1024).
-define(READERS, 4).
-define(TIMEOUT_MS, 10_000).

-doc "Opens a file: a small file gives its items, a large file the argument of `item/2`.".
-spec open(lines | csv, file:name_all()) ->
    {ok, {items, [term()]} | {file, pos_integer(), t()}} | {error, reason()}.
open(Kind, File) ->
    open(Kind, File, ?IN_MEMORY_BYTES).

-doc "Opens a file, with the largest size of a small file.".
-spec open(lines | csv, file:name_all(), non_neg_integer()) ->
    {ok, {items, [term()]} | {file, pos_integer(), t()}} | {error, reason()}.
open(Kind, File, MostBytes) ->
    case filelib:file_size(File) of
        Size when Size > MostBytes -> indexed(Kind, File);
        _ -> read_all(Kind, File)
    end.

-spec items(lines | csv, file:name_all()) -> {ok, [term()]} | {error, reason() | large}.
items(Kind, File) ->
    case filelib:file_size(File) =< ?IN_MEMORY_BYTES andalso read_all(Kind, File) of
        false -> {error, large};
        {ok, {items, Items}} -> {ok, Items};
        {error, _} = Error -> Error
    end.

read_all(Kind, File) ->
    case file:read_file(File) of
        {ok, Text} ->
            Lines = [
                Clean
             || Line <- binary:split(Text, ~"\n", [global]), Clean <- [clean(Line)], Clean =/= <<>>
            ],
            case {Kind, Lines} of
                {lines, [_ | _]} ->
                    {ok, {items, Lines}};
                {csv, [Heading, _ | _]} ->
                    Names = cells(Heading),
                    {ok, {items, [parsed(Line, {csv, Names}) || Line <- tl(Lines)]}};
                _ ->
                    {error, {empty, File}}
            end;
        {error, Reason} ->
            {error, {unreadable, File, Reason}}
    end.

clean(Line) -> string:trim(Line, trailing, "\r").

indexed(Kind, File) ->
    case file:open(File, [read, raw, binary]) of
        {ok, Device} ->
            {Count, Places} = index(Device, 0, 0, <<>>, true),
            Heading = file:pread(Device, 0, ?CHUNK),
            ok = file:close(Device),
            with_heading(Kind, File, Count, Places, Heading);
        {error, Reason} ->
            {error, {unreadable, File, Reason}}
    end.

with_heading(lines, File, Count, Places, _Heading) when Count > 0 ->
    {ok, {file, Count, readers(File, lines, 0, Places)}};
with_heading(csv, File, Count, Places, {ok, Text}) when Count > 1 ->
    [First | _] = binary:split(Text, ~"\n"),
    {ok, {file, Count - 1, readers(File, {csv, cells(clean(First))}, 1, Places)}};
with_heading(_Kind, File, _Count, _Places, _Heading) ->
    {error, {empty, File}}.

%% The number of lines, and the offset of every 64th.
index(Device, Offset, Count, Places, AtBegin) ->
    case file:read(Device, ?CHUNK) of
        {ok, Chunk} ->
            Begun =
                case AtBegin of
                    true -> begin_line(Offset, Count, Places);
                    false -> {Count, Places}
                end,
            Ends = [Offset + At + 1 || {At, 1} <- binary:matches(Chunk, ~"\n")],
            Next = Offset + byte_size(Chunk),
            %% A line begins after each end of line, except at the chunk's end: that line begins if
            %% more follows.
            {Counted, Placed} = lists:foldl(
                fun
                    (End, Acc) when End =:= Next -> Acc;
                    (End, {C, P}) -> begin_line(End, C, P)
                end,
                Begun,
                Ends
            ),
            index(Device, Next, Counted, Placed, binary:last(Chunk) =:= $\n);
        eof ->
            {Count, <<Places/binary, Offset:64>>}
    end.

begin_line(Offset, Count, Places) when Count rem ?BLOCK =:= 0 ->
    {Count + 1, <<Places/binary, Offset:64>>};
begin_line(_Offset, Count, Places) ->
    {Count + 1, Places}.

%% Only the process that opened a raw file may read it.
readers(File, Parse, Skip, Places) ->
    Readers = [
        spawn_link(fun() ->
            {ok, Device} = file:open(File, [read, raw, binary]),
            reader(Device, Places, Skip, none, {})
        end)
     || _ <- lists:seq(1, ?READERS)
    ],
    #{readers => list_to_tuple(Readers), parse => Parse}.

reader(Device, Places, Skip, Block, Lines) ->
    receive
        {item, From, Alias, Nth} ->
            Line = Nth + Skip,
            Read =
                case Line div ?BLOCK of
                    Block -> Lines;
                    Other -> block(Device, Places, Other)
                end,
            From ! {Alias, element(Line rem ?BLOCK + 1, Read)},
            reader(Device, Places, Skip, Line div ?BLOCK, Read)
    end.

block(Device, Places, Block) ->
    <<_:Block/binary-unit:64, From:64, Upto:64, _/binary>> = Places,
    {ok, Text} = file:pread(Device, From, Upto - From),
    list_to_tuple([clean(Line) || Line <- binary:split(Text, ~"\n", [global])]).

-doc "An item by its number from 0. One reader fetches all items of a block.".
-spec item(non_neg_integer(), t()) -> term().
item(Nth, #{readers := Readers, parse := Parse}) ->
    Reader = element((Nth div ?BLOCK) rem tuple_size(Readers) + 1, Readers),
    Alias = monitor(process, Reader, [{alias, reply_demonitor}]),
    Reader ! {item, Alias, Alias, Nth},
    receive
        {Alias, Line} -> parsed(binary:copy(Line), Parse);
        {'DOWN', Alias, process, Reader, Reason} -> error({feed_reader, Reason})
    after ?TIMEOUT_MS ->
        demonitor(Alias, [flush]),
        error({feed_reader, timeout})
    end.

parsed(Line, lines) -> Line;
parsed(Line, {csv, Names}) -> maps:from_list(lists:zip(Names, cells(Line), {pad, {~"", ~""}})).

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
    io_lib:format("~ts has no items: a line each is expected, of CSV after a heading", [File]).
