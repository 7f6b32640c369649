%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_elixir).
-moduledoc "Loads Elixir, if installed, and compiles its files; dyno itself needs no Elixir.".

-export([start/0, folders/0, compile/1, format_error/1]).
-export_type([reason/0]).

-type reason() ::
    no_elixir
    | {old_elixir, binary()}
    | {does_not_compile, [unicode:chardata(), ...]}.

%% Elixir's applications, as they need each other.
-define(APPLICATIONS, [elixir, logger, eex]).
-define(ASK, "IO.write(:code.lib_dir(:elixir))").
-define(ASK_TIMEOUT_MS, 30_000).

-doc "Puts Elixir on the code path, and starts it.".
-spec start() -> ok | {error, reason()}.
start() ->
    maybe
        ok ?= on_the_path(),
        ok = started(io:setopts(whereis(user), [binary])),
        %% Without it only the first warning of a file is known.
        case erlang:function_exported('Elixir.Code', with_diagnostics, 2) of
            true ->
                ok;
            false ->
                {ok, Version} = application:get_key(elixir, vsn),
                {error, {old_elixir, unicode:characters_to_binary(Version)}}
        end
    end.

%% Elixir sets this option of standard input and output at its start, which fails if these belong to
%% another VM, as with `peer`: a process answers in their place.
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

-doc "The folders of Elixir's own applications; none if not found.".
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

%% Beside its program; otherwise the program, perhaps a version manager's shim, is asked.
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
            %% The emulator may print a warning first, for example about its locale.
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

-doc "Compiles and loads an Elixir file after `start/0`; returns its modules in order.".
-spec compile(file:filename()) -> {ok, [{module(), binary()}]} | {error, reason()}.
compile(Path) ->
    File = unicode:characters_to_binary(Path),
    {Result, Diagnostics} = call('Elixir.Code', with_diagnostics, [
        [{log, false}],
        fun() ->
            try
                {ok, call('Elixir.Code', compile_file, [File])}
            catch
                _:#{'__exception__' := true} = Exception ->
                    {error, call('Elixir.Exception', message, [Exception])};
                Class:Reason ->
                    {error, io_lib:format("~ts: ~0tp", [Class, Reason])}
            end
        end
    ]),
    case Result of
        {ok, Modules} -> {ok, Modules};
        {error, Message} -> {error, {does_not_compile, mistakes(Diagnostics, Message, Path)}}
    end.

%% For modules that exist after the start of Elixir.
call(Module, Function, Arguments) ->
    apply(Module, Function, Arguments).

%% With diagnostics, the exception has no details.
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
    "Elixir is not installed here, or its program elixir is not on the PATH, but needed for .ex "
    "and .exs files";
format_error({old_elixir, Version}) ->
    ["Elixir ", Version, " is too old for dyno; 1.15 or later is needed for .ex and .exs files"];
format_error({does_not_compile, [First | _]}) ->
    ["does not compile: ", First].
