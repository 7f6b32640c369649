%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_command).
-moduledoc "Runs dyno's command line in an Erlang of its own.".

-export([run/1]).

-doc "The exit status, and what was printed on both outputs.".
-spec run([string()]) -> {Status :: non_neg_integer(), Output :: binary()}.
run(Arguments) ->
    Erl = filename:join([code:root_dir(), "bin", "erl"]),
    Ebin = filename:join(code:lib_dir(dyno), "ebin"),
    Port = open_port({spawn_executable, Erl}, [
        {args,
            ["-noshell", "-pa", Ebin, "-eval", "dyno_cli:main(init:get_plain_arguments()).", "-extra"] ++
                Arguments},
        exit_status,
        stderr_to_stdout,
        binary
    ]),
    output(Port, <<>>).

output(Port, Output) ->
    receive
        {Port, {data, More}} -> output(Port, <<Output/binary, More/binary>>);
        {Port, {exit_status, Status}} -> {Status, Output}
    end.
