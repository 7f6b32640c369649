%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_cli_command).
-moduledoc """
A command of dyno: data that describes its arguments, and a function that runs it.

Help, parsing and error messages all use this data. `m:dyno_commands` lists the commands;
`m:dyno_cli_measurement` has most of a measuring command's work.

The exit statuses are the same for all commands:

| status | meaning |
| --- | --- |
| 0 | done |
| 1 | the measured system failed: a threshold, a regression, a violation |
| 2 | usage: an argument or a file named by one is not what dyno takes |
| 3 | dyno or the target could not do it |
| 130 | interrupted, or nobody reads standard output any more; what was measured is kept |
""".

-export([refused/1, contradiction/1, operand/2, operand/3, arguments/1, rows/1, examples/1]).
-export([format_error/1]).
-export_type([t/0, values/0, result/0]).

-type t() :: #{
    operands := [argparse:argument()],
    %% By headings of the help; those under "" come first.
    options := [{Title :: string(), [dyno_cli_option:row()]}],
    %% The long names of those that `--help` has, with spaces; `--help-all` has all. Without this
    %% key both do.
    common => string(),
    %% Each with its meaning on the next line, indented.
    examples := string()
}.

-doc "The given values, converted, by option keys.".
-type values() :: #{atom() => term()}.

-doc "The command's data.".
-callback command() -> t().

-doc "Runs the command.".
-callback run(values()) -> result().

-doc "The exit status, or why the command cannot run.".
-type result() :: dyno_error:exit_status() | {error, dyno_error:error()}.

-doc "Prints why the command cannot run on standard error, and returns the exit status.".
-spec refused({error, dyno_error:error()}) -> dyno_error:exit_status().
refused({error, Error}) ->
    dyno_cli_terminal:complain(dyno_error:format(Error)),
    dyno_error:exit_status(Error).

-doc "The error of contradictory arguments, in a sentence.".
-spec contradiction(unicode:chardata()) -> {error, dyno_error:error()}.
contradiction(Sentence) ->
    {error, {?MODULE, {contradiction, Sentence}}}.

-doc "A required argument without a name.".
-spec operand(Usage :: string(), Text :: string()) -> argparse:argument().
operand(Usage, Text) ->
    operand(Usage, Text, #{}).

-doc "A required argument, with more properties of argparse.".
-spec operand(Usage :: string(), Text :: string(), map()) -> argparse:argument().
operand(Usage, Text, More) ->
    Name = list_to_atom(string:trim(string:lowercase(Usage), both, "[].")),
    maps:merge(#{name => Name, type => binary, help => {Usage, [Text]}}, More).

-doc "All arguments of a command, for argparse.".
-spec arguments(t()) -> [argparse:argument()].
arguments(#{operands := Operands} = Command) ->
    Operands ++ [dyno_cli_option:argument(Row) || Row <- rows(Command)].

-doc "All options of a command.".
-spec rows(t()) -> [dyno_cli_option:row()].
rows(#{options := Groups}) ->
    lists:append([Rows || {_, Rows} <- Groups]).

-doc "The examples and their meanings.".
-spec examples(t()) -> [{Line :: binary(), Meaning :: binary()}].
examples(#{examples := Text}) ->
    Lines = string:split(unicode:characters_to_binary(Text), "\n", all),
    {Given, Meant} = lists:partition(fun(Line) -> hd(binary_to_list(Line)) =/= $\s end, Lines),
    lists:zip(Given, [string:trim(Meaning) || Meaning <- Meant]).

-spec format_error({contradiction, unicode:chardata()}) -> unicode:chardata().
format_error({contradiction, Sentence}) ->
    Sentence.
