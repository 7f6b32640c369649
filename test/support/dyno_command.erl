%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_command).
-moduledoc "Runs dyno's command line in an Erlang of its own.".

-export([run/1, run/2, open/2, program/1, flags/0, output/1, values/2]).
-export([start/1, ask/3, stop/1, serve/0, with_server/1, without_server/1, asked/2, bench/2]).

-doc "The exit status, and what was printed on both outputs.".
-spec run([string()]) -> {Status :: non_neg_integer(), Output :: binary()}.
run(Arguments) ->
    run(Arguments, []).

-doc "The same with environment variables.".
-spec run([string()], [{string(), string()}]) -> {Status :: non_neg_integer(), Output :: binary()}.
run(Arguments, Environment) ->
    output(open(Arguments, Environment)).

-doc "The same that is not waited for: a port with `exit_status` and `binary`.".
-spec open([string()], [{string(), string()}]) -> port().
open(Arguments, Environment) ->
    {Erl, All} = program(Arguments),
    open_port({spawn_executable, Erl}, [
        {args, All},
        {env, Environment},
        exit_status,
        stderr_to_stdout,
        binary
    ]).

-doc "What runs a command line in an Erlang of its own.".
-spec program([string()]) -> {file:filename(), [string()]}.
program(Arguments) ->
    Ebin = filename:join(code:lib_dir(dyno), "ebin"),
    {
        filename:join([code:root_dir(), "bin", "erl"]),
        flags() ++
            ["-noshell", "-pa", Ebin] ++
            ["-eval", "dyno_cli:main(init:get_plain_arguments()).", "-extra" | Arguments]
    }.

-doc "The emulator flags of the program.".
-spec flags() -> [string()].
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

-doc "What a command makes of the texts of its options, by their names.".
-spec values(string(), #{atom() => binary() | [binary()] | true}) ->
    {ok, dyno_cli_command:values()} | {error, dyno_error:error()}.
values(Name, Texts) ->
    {ok, Module} = dyno_commands:module(Name),
    dyno_cli_option:read(dyno_cli_command:rows(Module:command()), Texts).

-doc """
Starts an Erlang in which `ask/3` runs one command line after the other, as `dyno_cli:main/1` would
in an Erlang of its own. Its outputs are files in this folder. It lives until `stop/1`.
""".
-spec start(#{
    folder := file:filename(),
    environment := [{string(), string() | false}],
    %% Where the module of a command is that is not in the list of commands.
    paths => [file:filename()]
}) -> pid().
start(Options) ->
    Caller = self(),
    Ref = make_ref(),
    Pid = spawn(fun() ->
        Port = open(Options),
        Caller ! Ref,
        own(Port, Options)
    end),
    receive
        Ref -> Pid
    end.

open(#{folder := Folder, environment := Environment} = Options) ->
    Paths =
        [filename:join(code:lib_dir(dyno), "ebin"), filename:dirname(code:which(?MODULE))] ++
            maps:get(paths, Options, []),
    Erl = filename:join([code:root_dir(), "bin", "erl"]),
    open_port({spawn_executable, "/bin/sh"}, [
        {args,
            ["-c", "exec \"$0\" \"$@\" </dev/null >served.out 2>served.err", Erl] ++ flags() ++
                ["-noshell", "-pa" | Paths] ++ ["-eval", "dyno_command:serve()."]},
        {cd, Folder},
        {env, Environment},
        {packet, 4},
        nouse_stdio,
        binary
    ]).

own(Port, #{folder := Folder} = Options) ->
    receive
        {ask, Caller, Ref, Request} ->
            Before = [size_of(Folder, Name) || Name <- ["served.out", "served.err"]],
            true = port_command(Port, term_to_binary(Request)),
            receive
                {Port, {data, Status}} ->
                    [Out, Error] = [
                        since(Folder, Name, Size)
                     || {Name, Size} <- lists:zip(["served.out", "served.err"], Before)
                    ],
                    Caller ! {Ref, {binary_to_term(Status), Out, Error}}
            end,
            own(Port, Options);
        stop ->
            port_close(Port)
    end.

size_of(Folder, Name) ->
    filelib:file_size(filename:join(Folder, Name)).

since(Folder, Name, Size) ->
    {ok, <<_:Size/binary, New/binary>>} = file:read_file(filename:join(Folder, Name)),
    New.

-doc "Runs a command line in a folder: its exit status, standard output and standard error.".
-spec ask(pid(), file:filename(), [string()] | {module(), [binary()]}) ->
    {0..255, binary(), binary()}.
ask(Server, Folder, Arguments) ->
    Ref = monitor(process, Server),
    Server ! {ask, self(), Ref, {Folder, Arguments}},
    receive
        {Ref, Result} ->
            true = demonitor(Ref, [flush]),
            Result;
        {'DOWN', Ref, process, Server, Reason} ->
            error({no_server, Reason})
    end.

-doc "Ends it.".
-spec stop(pid()) -> ok.
stop(Server) ->
    Server ! stop,
    ok.

-doc "An Erlang for a suite's configuration, whatever locale the tests run in; see `asked/2`.".
with_server(Config) ->
    Folder = proplists:get_value(priv_dir, Config),
    [{server, start(#{folder => Folder, environment => [{"LC_ALL", "C.UTF-8"}]})} | Config].

-doc "Ends it.".
without_server(Config) ->
    stop(proplists:get_value(server, Config)).

-doc "Runs a command line there: its exit status and all that it has printed.".
asked(Config, Arguments) ->
    [Server, Folder] = [proplists:get_value(Key, Config) || Key <- [server, priv_dir]],
    {Status, Out, Error} = ask(Server, Folder, Arguments),
    {Status, <<Out/binary, Error/binary>>}.

-doc "Runs `dyno bench` there: its exit status, standard output and standard error.".
bench(Config, Arguments) ->
    [Server, Folder] = [proplists:get_value(Key, Config) || Key <- [server, priv_dir]],
    ask(Server, Folder, ["bench" | Arguments]).

-doc false.
serve() ->
    ok = dyno_cli_terminal:prepare(),
    ok = dyno_cli_interrupt:install(),
    serve(open_port({fd, 3, 4}, [binary, {packet, 4}, eof])).

serve(Port) ->
    receive
        {Port, {data, Request}} ->
            {Folder, Arguments} = binary_to_term(Request),
            ok = file:set_cwd(Folder),
            true = port_command(Port, term_to_binary(status(Arguments))),
            serve(Port);
        {Port, eof} ->
            halt(0, [{flush, false}])
    end.

%% A command that is not in the list of commands is given as its module.
status({Module, Arguments}) ->
    Command = Module:command(),
    {ok, Given, _, _} = argparse:parse(
        [unicode:characters_to_list(Argument) || Argument <- Arguments],
        #{arguments => dyno_cli_command:arguments(Command)},
        #{progname => dyno}
    ),
    case dyno_cli_option:read(dyno_cli_command:rows(Command), Given) of
        {ok, Values} -> Module:run(Values);
        {error, _} = Error -> dyno_cli_command:refused(Error)
    end;
status(Arguments) ->
    dyno_cli:run(Arguments).
