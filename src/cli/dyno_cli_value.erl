%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_cli_value).
-moduledoc """
Turns the values of options from text into what they mean.
""".

-export([sizes/1, positive/2, duration_ms/2, choice/3, outputs/1, tagged/2, format_error/1]).

-export_type([reason/0, output/0]).

-doc "A file to write, and its format.".
-type output() :: {dyno_report:format(), file:filename_all()}.

-doc "What is wrong with a value.".
-type reason() ::
    {sizes, binary()}
    | {positive, Option :: binary(), binary()}
    | {duration, Option :: binary(), binary()}
    | {choice, Option :: binary(), binary(), [atom()]}
    | {output, dyno_report:reason()}
    | {load, dyno_cli_test_load:reason()}.

%% Milliseconds in each unit; `ms` before `m` and `s`, which end like it.
-define(UNITS, [{"ms", 1}, {"s", 1000}, {"min", 60_000}, {"m", 60_000}, {"h", 3_600_000}]).

-doc """
Positive whole numbers with commas between them.

```erlang
1> dyno_cli_value:sizes(~"1,10,100").
{ok,[1,10,100]}
```
""".
-spec sizes(binary()) -> {ok, [pos_integer(), ...]} | {error, reason()}.
sizes(Text) ->
    Sizes = [size_of(string:trim(Part)) || Part <- string:split(Text, ",", all)],
    case lists:member(error, Sizes) of
        false -> {ok, [Size || Size <- Sizes, is_integer(Size)]};
        true -> {error, {sizes, Text}}
    end.

-spec size_of(binary()) -> pos_integer() | error.
size_of(Text) ->
    case string:to_integer(Text) of
        {Size, <<>>} when is_integer(Size), Size > 0 -> Size;
        _ -> error
    end.

-doc "A positive whole number.".
-spec positive(Option :: binary(), binary()) -> {ok, pos_integer()} | {error, reason()}.
positive(Option, Text) ->
    case size_of(string:trim(Text)) of
        error -> {error, {positive, Option, Text}};
        Number -> {ok, Number}
    end.

-doc """
A duration with its unit, in milliseconds.

```erlang
1> dyno_cli_value:duration_ms(~"--duration", ~"1.5s").
{ok,1500}
```
""".
-spec duration_ms(Option :: binary(), binary()) -> {ok, pos_integer()} | {error, reason()}.
duration_ms(Option, Text) ->
    {Number, Rest} = number(Text),
    Unit = string:trim(unicode:characters_to_list(Rest)),
    case lists:keyfind(Unit, 1, ?UNITS) of
        {_, Factor} when is_number(Number), round(Number * Factor) > 0 ->
            {ok, round(Number * Factor)};
        _ ->
            {error, {duration, Option, Text}}
    end.

-spec number(binary()) -> {number() | error, unicode:chardata()}.
number(Text) ->
    case string:to_float(Text) of
        {error, _} ->
            case string:to_integer(Text) of
                {error, _} -> {error, Text};
                {Integer, Rest} -> {Integer, Rest}
            end;
        {Float, Rest} ->
            {Float, Rest}
    end.

-doc "One of these words.".
-spec choice(Option :: binary(), binary(), [Word, ...]) -> {ok, Word} | {error, reason()} when
    Word :: atom().
choice(Option, Text, Words) ->
    case [Word || Word <- Words, atom_to_binary(Word) =:= Text] of
        [Word] -> {ok, Word};
        [] -> {error, {choice, Option, Text, Words}}
    end.

-doc "The files of `-o`, each with the format that its name says, and writable now.".
-spec outputs([binary()]) -> {ok, [output()]} | {error, reason()}.
outputs([]) ->
    {ok, []};
outputs([Path | Paths]) ->
    maybe
        {ok, Format} ?= dyno_report:format_of_file(Path),
        ok ?= dyno_file:writable(Path),
        {ok, Outputs} ?= outputs(Paths),
        {ok, [{Format, Path} | Outputs]}
    else
        {error, {output, Reason}} -> {error, {output, Reason}};
        {error, Reason} -> {error, {output, Reason}}
    end.

-doc "A result whose reason says which module words it.".
-spec tagged(module(), {ok, Value} | {error, Reason}) -> {ok, Value} | {error, module(), Reason}.
tagged(_Module, {ok, Value}) -> {ok, Value};
tagged(Module, {error, Reason}) -> {error, Module, Reason}.

-doc "One sentence that says what is accepted.".
-spec format_error(reason()) -> unicode:chardata().
format_error({sizes, Text}) ->
    [
        "--sizes takes whole numbers from 1 up with commas between them, such as 1,10,100, not ",
        quoted(Text)
    ];
format_error({positive, Option, Text}) ->
    [Option, " takes a whole number from 1 up, such as 5, not ", quoted(Text)];
format_error({duration, Option, Text}) ->
    [
        Option,
        " takes a duration above 0 with its unit (ms, s, min or h), such as 10s or 500ms, not ",
        quoted(Text)
    ];
format_error({choice, Option, Text, Words}) ->
    Names = [atom_to_list(Word) || Word <- Words],
    Near =
        case dyno_similar:nearest(unicode:characters_to_list(Text), Names) of
            {ok, Name} -> ["; did you mean ", Name, "?"];
            none -> ""
        end,
    [Option, " takes ", alternatives(Names), ", not ", quoted(Text), Near];
format_error({load, Reason}) ->
    dyno_cli_test_load:format_error(Reason);
format_error({output, Reason}) ->
    ["-o: ", dyno_report:format_error(Reason)].

-spec alternatives([string(), ...]) -> unicode:chardata().
alternatives(Names) ->
    [lists:join(", ", lists:droplast(Names)), " or ", lists:last(Names)].

-spec quoted(binary()) -> unicode:chardata().
quoted(Text) ->
    [$", dyno_report_text:clean(Text), $"].
