%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_load_arrivals_file).
-moduledoc false.
%% Reads a recorded arrival curve from a file: one number a line, or the first column of a CSV file.
%% A first line without a number is the heading; empty lines and lines beginning with `#` are
%% skipped.

-export([read/1, format_error/1]).
-export_type([reason/0]).

-type reason() ::
    {unreadable, file:name_all(), file:posix() | badarg | terminated | system_limit}
    | {no_number, file:name_all(), Line :: pos_integer(), binary()}
    | {empty, file:name_all()}
    | {too_many, file:name_all(), Most :: pos_integer()}.

%% Eight bytes each in every load node.
-define(MOST, 10_000_000).

-spec read(file:name_all()) -> {ok, [number(), ...]} | {error, reason()}.
read(File) ->
    case file:read_file(File) of
        {ok, Text} ->
            Lines = lists:enumerate(binary:split(Text, [~"\r\n", ~"\n"], [global])),
            Cells = [
                {Nth, Cell, number(Cell)}
             || {Nth, Line} <- Lines,
                [First | _] <- [binary:split(Line, [~",", ~";", ~"\t"])],
                Cell <- [string:trim(First, both, " \"")],
                Cell =/= <<>>,
                binary:first(Cell) =/= $#
            ],
            numbers(File, Cells);
        {error, Reason} ->
            {error, {unreadable, File, Reason}}
    end.

%% Only the first line may be a heading.
numbers(File, [{_, _, error} | Cells]) -> checked(File, Cells);
numbers(File, Cells) -> checked(File, Cells).

checked(File, []) ->
    {error, {empty, File}};
checked(File, Cells) ->
    case lists:keyfind(error, 3, Cells) of
        {Nth, Cell, error} -> {error, {no_number, File, Nth, Cell}};
        false when length(Cells) > ?MOST -> {error, {too_many, File, ?MOST}};
        false -> {ok, [Number || {_, _, Number} <- Cells]}
    end.

number(Cell) ->
    case {string:to_float(Cell), string:to_integer(Cell)} of
        {{Float, <<>>}, _} when is_float(Float) -> Float;
        {_, {Integer, <<>>}} when is_integer(Integer) -> Integer;
        _ -> error
    end.

-spec format_error(reason()) -> unicode:chardata().
format_error({unreadable, File, Reason}) ->
    io_lib:format("the arrivals' file ~ts cannot be read: ~ts", [File, file:format_error(Reason)]);
format_error({no_number, File, Line, Cell}) ->
    io_lib:format(
        "~ts:~b: \"~ts\" is no number; a line of arrivals begins with one number, a time in "
        "milliseconds or a count",
        [File, Line, Cell]
    );
format_error({empty, File}) ->
    io_lib:format("~ts has no arrivals: one number a line is expected", [File]);
format_error({too_many, File, Most}) ->
    io_lib:format(
        "~ts has more than ~b arrivals; give counts per interval instead of times", [File, Most]
    ).
