%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_command).
-moduledoc "Runs dyno's command line in an Erlang of its own.".

-export([run/1, run/2, output/1]).

-doc "The exit status, and what was printed on both outputs.".
-spec run([string()]) -> {Status :: non_neg_integer(), Output :: binary()}.
run(Arguments) ->
    run(Arguments, []).

-doc "The same with environment variables.".
-spec run([string()], [{string(), string()}]) -> {Status :: non_neg_integer(), Output :: binary()}.
run(Arguments, Environment) ->
    Erl = filename:join([code:root_dir(), "bin", "erl"]),
    Ebin = filename:join(code:lib_dir(dyno), "ebin"),
    Port = open_port({spawn_executable, Erl}, [
        {args,
            flags() ++
                ["-noshell", "-pa", Ebin] ++
                ["-eval", "dyno_cli:main(init:get_plain_arguments()).", "-extra" | Arguments]},
        {env, Environment},
        exit_status,
        stderr_to_stdout,
        binary
    ]),
    output(Port).

%% The program's.
flags() ->
    {ok, Config} = file:consult(filename:join(dyno_project:root(), "rebar.config")),
    {escript_emu_args, Text} = lists:keyfind(escript_emu_args, 1, Config),
    ["%%!" | Flags] = string:lexemes(string:trim(Text), " "),
    lists:takewhile(fun(Flag) -> Flag =/= "-escript" end, Flags).

-doc "Waits for a program's end; a port with `exit_status` and `binary`.".
-spec output(port()) -> {Status :: non_neg_integer(), Output :: binary()}.
output(Port) ->
    output(Port, <<>>).

output(Port, Output) ->
    receive
        {Port, {data, More}} -> output(Port, <<Output/binary, More/binary>>);
        {Port, {exit_status, Status}} -> {Status, Output}
    end.
