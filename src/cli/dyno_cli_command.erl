%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_cli_command).
-moduledoc """
What a command of dyno is: its arguments, its examples, and what it does.

The exit statuses are the same for all commands:

| status | meaning |
| --- | --- |
| 0 | done |
| 1 | the measured system failed: a threshold, a regression, a violation |
| 2 | usage: an argument or a file named by one is not what dyno takes |
| 3 | dyno or the target could not do it |
| 130 | interrupted; what was measured until then is kept |
""".

-export([exit_statuses/0, refused/1, option/3, repeated/3]).

-export_type([exit_status/0, example/0, group/0]).

-doc "How a command ended.".
-type exit_status() :: 0 | 1 | 2 | 3 | 130.

-doc "A command line, and what it is good for.".
-type example() :: {Line :: binary(), Meaning :: binary()}.

-doc "A heading of the help, and the names of the options below it.".
-type group() :: {Title :: string(), [atom()]}.

-doc """
The command's arguments. An argument's `help` is `{Usage, [Text]}`: `Usage` as it stands in the
help's left column (`"--sizes N,N..."`), `Text` one or two sentences.
""".
-callback spec() -> argparse:command().

-doc "Command lines for the help.".
-callback examples() -> [example()].

-doc "Where there are many options: which belong together. The others come first.".
-callback groups() -> [group()].

-optional_callbacks([groups/0]).

-doc "Does it. What argparse found is given; values are still text.".
-callback run(argparse:arg_map()) -> exit_status().

-doc """
Says on standard error what was refused, and gives the exit status: the caller's mistake, but for a
disk that is full.
""".
-spec refused({error, unicode:chardata()} | {error, module(), term()}) -> 2 | 3.
refused({error, Sentence}) ->
    dyno_cli_terminal:complain(Sentence),
    2;
refused({error, Module, Reason}) ->
    dyno_cli_terminal:complain(Module:format_error(Reason)),
    case Reason of
        {output, {write, _Path, Full}} when Full =:= enospc; Full =:= edquot -> 3;
        _ -> 2
    end.

-doc "An option with a value, for `c:spec/0`; `--NAME` at the command line.".
-spec option(Name :: atom(), Usage :: string(), Text :: string()) -> argparse:argument().
option(Name, Usage, Text) ->
    #{
        name => Name,
        long => "-" ++ atom_to_list(Name),
        type => binary,
        required => false,
        help => {Usage, [Text]}
    }.

-doc "One that may be given more than once.".
-spec repeated(Name :: atom(), Usage :: string(), Text :: string()) -> argparse:argument().
repeated(Name, Usage, Text) ->
    (option(Name, Usage, Text))#{action => append}.

-doc "Each exit status and what it means, for the help.".
-spec exit_statuses() -> [{exit_status(), binary()}].
exit_statuses() ->
    [
        {0, ~"done"},
        {1,
            <<"the measured system failed; a condition of --fail-if holds; a threshold or an "
                "invariant does not hold or was not evaluated">>},
        {2, ~"an argument, or a file it names, is not what dyno takes"},
        {3, ~"dyno or the target could not do it"},
        {130, ~"interrupted; what was measured until then is kept"}
    ].
