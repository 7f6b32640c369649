%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_elixir).
-moduledoc """
Elixir, where it is installed: brings it into this node, and compiles a file of it.

dyno itself needs no Elixir, neither to be built nor to run.
""".

-export([start/0, folders/0, compile/1, format_error/1]).
-export_type([reason/0]).

-type reason() ::
    no_elixir
    | {old_elixir, binary()}
    | {does_not_compile, [unicode:chardata(), ...]}.

%% What elixir's own applications need of each other.
-define(APPLICATIONS, [elixir, logger, eex]).
-define(ASK, "IO.write(:code.lib_dir(:elixir))").
-define(ASK_TIMEOUT_MS, 30_000).

-doc "Has Elixir in this node: on the code path, and started.".
-spec start() -> ok | {error, reason()}.
start() ->
    maybe
        ok ?= on_the_path(),
        ok = started(io:setopts(whereis(user), [binary])),
        %% Without it the first warning of a file would be all that is known of its mistakes.
        case erlang:function_exported('Elixir.Code', with_diagnostics, 2) of
            true ->
                ok;
            false ->
                {ok, Version} = application:get_key(elixir, vsn),
                {error, {old_elixir, unicode:characters_to_binary(Version)}}
        end
    end.

%% Elixir sets this option of standard input and output when it starts. Where these belong to
%% another VM, as with `peer`, they have none, and it would not start: there somebody says that it
%% is done.
started(ok) ->
    {ok, _} = application:ensure_all_started(elixir),
    ok;
started({error, _}) ->
    Controller = whereis(application_controller),
    {group_leader, Device} = process_info(Controller, group_leader),
    true = group_leader(spawn(fun() -> without_options(Device) end), Controller),
    try
        started(ok)
    after
        group_leader(Device, Controller)
    end.

without_options(Device) ->
    receive
        {io_request, From, Ref, {setopts, _}} -> From ! {io_reply, Ref, ok};
        {io_request, _, _, _} = Request -> Device ! Request;
        _ -> ok
    end,
    without_options(Device).

-doc "Where the modules of Elixir's own applications are; none where it is not found.".
-spec folders() -> [file:filename()].
folders() ->
    case on_the_path() of
        ok ->
            [
                filename:absname(Folder)
             || Name <- ?APPLICATIONS,
                Library <- [code:lib_dir(Name)],
                is_list(Library),
                Folder <- [filename:join(Library, "ebin")]
            ];
        {error, no_elixir} ->
            []
    end.

on_the_path() ->
    case code:ensure_loaded('Elixir.Code') of
        {module, _} -> ok;
        {error, _} -> find()
    end.

%% Beside its program; else the program is asked, which may be a version manager's shim.
find() ->
    case os:find_executable("elixir") of
        false ->
            {error, no_elixir};
        Program ->
            Home = unicode:characters_to_list(filename:dirname(filename:dirname(real(Program)))),
            Library = filename:join(Home, "lib"),
            case filelib:is_regular(filename:join(Library, "elixir/ebin/elixir.beam")) of
                true -> add(Library);
                false -> ask_and_add(Program)
            end
    end.

real(Path) ->
    case file:read_link(Path) of
        {ok, Target} -> real(filename:absname(Target, filename:dirname(Path)));
        {error, _} -> Path
    end.

ask_and_add(Program) ->
    case dyno_program:output(Program, ["-e", ?ASK], ?ASK_TIMEOUT_MS) of
        {ok, Output} ->
            %% Before it there may be a warning, of the emulator's about its locale for one.
            Folder = lists:last(string:split(string:trim(Output), "\n", all)),
            add(filename:dirname(unicode:characters_to_list(Folder)));
        none ->
            {error, no_elixir}
    end.

add(Library) ->
    ok = code:add_pathsz([filename:join([Library, A, "ebin"]) || A <- ?APPLICATIONS]),
    case code:ensure_loaded('Elixir.Code') of
        {module, _} -> ok;
        {error, _} -> {error, no_elixir}
    end.

-doc """
Compiles and loads a file of Elixir; `start/0` must have been called. Gives each module and its
object code, in the order in which they stand in the file.
""".
-spec compile(file:filename()) -> {ok, [{module(), binary()}]} | {error, reason()}.
compile(Path) ->
    File = unicode:characters_to_binary(Path),
    {Result, Diagnostics} = call('Elixir.Code', with_diagnostics, [[{log, false}], fun() ->
        try
            {ok, call('Elixir.Code', compile_file, [File])}
        catch
            _:#{'__exception__' := true} = Exception ->
                {error, call('Elixir.Exception', message, [Exception])};
            Class:Reason ->
                {error, io_lib:format("~ts: ~0tp", [Class, Reason])}
        end
    end]),
    case Result of
        {ok, Modules} -> {ok, Modules};
        {error, Message} -> {error, {does_not_compile, mistakes(Diagnostics, Message, Path)}}
    end.

%% Modules that are there once Elixir is started.
call(Module, Function, Arguments) ->
    apply(Module, Function, Arguments).

%% Where there are diagnostics, the exception says only that there are.
mistakes(Diagnostics, Message, Path) ->
    Errors = [
        [Path, ":", line(Position), ": ", first_line(Text)]
     || #{severity := error, position := Position, message := Text} <- Diagnostics
    ],
    case Errors of
        [] -> [first_line(unicode:characters_to_binary(Message))];
        _ -> Errors
    end.

line(Line) when is_integer(Line) -> integer_to_list(Line);
line(Position) -> integer_to_list(element(1, Position)).

first_line(Text) ->
    hd(binary:split(string:trim(Text), ~"\n")).

-spec format_error(reason()) -> unicode:chardata().
format_error(no_elixir) ->
    "Elixir is not installed here, or its program elixir is not on the PATH; it is needed for .ex "
    "and .exs files";
format_error({old_elixir, Version}) ->
    ["Elixir ", Version, " is too old for dyno; 1.15 or later is needed for .ex and .exs files"];
format_error({does_not_compile, [First | _]}) ->
    ["it does not compile: ", First].
