%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_cli_otp).
-moduledoc """
`--otp PATH`: the Erlang/OTP that measures.

The shell that starts the program reads the option (src/cli/launcher.sh), so that OTP already runs;
this module only removes the option. Several are for `dyno bench`, which compares them like `--erl`.
""".

-export([taken/1]).

%% Set by the shell.
-define(VARIABLE, "DYNO_OTP").

-doc "The arguments without `--otp`.".
-spec taken([string()]) -> {ok, [string()]} | {error, unicode:chardata()}.
taken(Arguments) ->
    {Before, After} = lists:splitwith(fun(Argument) -> Argument =/= "--" end, Arguments),
    case {paths(Before), os:getenv(?VARIABLE)} of
        {{[], _}, _} ->
            {ok, Arguments};
        {{incomplete, _}, _} ->
            {error, "--otp needs a value: the program erl, or its folder"};
        {{[_], Rest}, Started} when Started =/= false ->
            {ok, Rest ++ After};
        {{[_], _}, false} ->
            {error,
                "--otp is for the program dyno; here, start the build tool with that Erlang/OTP"};
        {{Several, ["bench" | Rest]}, _} ->
            {ok, ["bench" | lists:append([["--erl", Path] || Path <- Several])] ++ Rest ++ After};
        {_, _} ->
            {error, "--otp may be given once; only dyno bench compares several"}
    end.

paths(["--otp", Path | Arguments]) ->
    path(Path, paths(Arguments));
paths(["--otp"]) ->
    {incomplete, []};
paths(["--otp=" ++ Path | Arguments]) ->
    path(Path, paths(Arguments));
paths([Argument | Arguments]) ->
    {Paths, Rest} = paths(Arguments),
    {Paths, [Argument | Rest]};
paths([]) ->
    {[], []}.

path(_Path, {incomplete, Rest}) -> {incomplete, Rest};
path(Path, {Paths, Rest}) -> {[Path | Paths], Rest}.
