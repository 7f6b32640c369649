%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_suite_source).
-moduledoc false.
%% Loads a suite's module into this node, from a source file, a beam file or the code path.
%%
%% A source file is compiled into a temporary folder on the code path, so that nodes started by the
%% suite find the module too. `forget/1` undoes everything.

-export([load/1, load_module/1, forget/1, format_error/1, fault/1]).
-export_type([source/0, loaded/0, form/0, reason/0]).

-doc "A file's path (`.erl`, `.beam`, `.ex`, `.exs`) or a module's name.".
-type source() ::
    module()
    | string()
    | binary()
    %% A test without a suite: the substitute module for the callbacks, and its argument.
    | {form(), Given :: term()}.

-type loaded() :: #{
    module := module(),
    %% On the code path because of the suite.
    path := file:filename() | undefined,
    %% Made for the suite.
    folder := file:filename() | undefined,
    %% Other modules of the file.
    others => [module()],
    form => form(),
    %% For calls of PerformERL's suites.
    helpers => installed | there
}.

-doc "The module for the callbacks of such a suite (see dyno_test_callbacks).".
-type form() :: dyno_suite_callbacks | dyno_performerl | dyno_record.

-type reason() ::
    {no_such_file, file:filename()}
    | {unreadable, file:filename(), file:posix()}
    | {not_a_suite_file, file:filename()}
    | {does_not_compile, file:filename(), [binary()]}
    | {no_such_module, module()}
    | {bad_beam, file:filename(), term()}
    | {taken_name, module()}
    | {missing_callbacks, suite | agents | instruments, source(), Behaviour :: module(), [
        {atom(), arity()}
    ]}
    | {dyno_temporary, dyno_temporary:reason()}
    | {dyno_file, dyno_file:reason()}
    | {elixir, file:filename(), dyno_elixir:reason()}
    | {no_module, file:filename()}
    | {several_suites, file:filename(), [module(), ...]}
    | no_compiler.

-spec load(source()) -> {ok, loaded()} | {error, reason()}.
load({Form, _Given}) ->
    {ok, #{module => Form, form => Form, path => undefined, folder => undefined}};
load(Source) ->
    maybe
        {ok, #{module := Module} = Loaded} ?= load_module(Source),
        case form(Module) of
            {ok, dyno_performerl} ->
                {ok, Loaded#{form => dyno_performerl, helpers => dyno_performerl_lib:install()}};
            {ok, Form} ->
                {ok, Loaded#{form => Form}};
            {missing, Behaviour, Missing} ->
                forget(Loaded),
                {error, {missing_callbacks, suite, Source, Behaviour, Missing}}
        end
    end.

%% A module with callbacks of both is a dyno suite.
form(Module) ->
    Missing = dyno_suite:missing(Module),
    %% Only the suite knows whether operations are required (dyno_suite_callbacks).
    case {Missing -- [{operation, 1}], dyno_performerl:is_suite(Module)} of
        {[], _} ->
            {ok, dyno_suite_callbacks};
        {_, false} ->
            {missing, dyno_suite, Missing};
        {_, true} ->
            case dyno_performerl:missing(Module) of
                [] -> {ok, dyno_performerl};
                Others -> {missing, performerl_load_generator, Others}
            end
    end.

-doc "Loads a module for a suite; `forget/1` undoes it.".
-spec load_module(source()) -> {ok, loaded()} | {error, reason()}.
load_module(Module) when is_atom(Module) ->
    case code:ensure_loaded(Module) of
        {module, Module} -> {ok, #{module => Module, path => undefined, folder => undefined}};
        {error, _} -> {error, {no_such_module, Module}}
    end;
load_module(Path0) ->
    Path = unicode:characters_to_list(Path0),
    case {filename:extension(Path), file:read_file_info(Path)} of
        {".erl", {ok, _}} -> compile(Path);
        {".beam", {ok, _}} -> load_beam(Path);
        {".ex", {ok, _}} -> compile_elixir(Path);
        {".exs", {ok, _}} -> compile_elixir(Path);
        {"", {error, enoent}} -> load_named(Path);
        {_, {error, enoent}} -> {error, {no_such_file, Path}};
        {_, {error, Posix}} -> {error, {unreadable, Path, Posix}};
        {_, {ok, _}} -> {error, {not_a_suite_file, Path}}
    end.

%% A module's name, as typed.
load_named(Name) ->
    case lists:member($/, Name) of
        true -> {error, {no_such_file, Name}};
        false -> load_module(list_to_atom(elixir_name(Name)))
    end.

%% The usual spelling is Shop.Perf.
elixir_name("Elixir." ++ _ = Name) -> Name;
elixir_name([C | _] = Name) when C >= $A, C =< $Z -> "Elixir." ++ Name;
elixir_name(Name) -> Name.

compile(Path) ->
    %% The compiler's path may lack dyno.
    maybe
        {ok, Module, Binary} ?= dyno_code:compile_file(Path, [nowarn_undefined_behaviour]),
        ok ?= name_is_free(Module),
        install(Module, [{Module, Binary}])
    else
        {error, {does_not_compile, Texts}} -> {error, {does_not_compile, Path, Texts}};
        {error, _} = Error -> Error
    end.

compile_elixir(Path) ->
    maybe
        ok ?= elixir(Path, dyno_elixir:start()),
        {ok, Compiled} ?= elixir(Path, dyno_elixir:compile(Path)),
        {ok, Suite} ?= suite_of(Path, [Module || {Module, _} <- Compiled]),
        {ok, Loaded} ?= install(Suite, Compiled),
        {ok, Loaded#{others => [Module || {Module, _} <- Compiled, Module =/= Suite]}}
    end.

elixir(Path, {error, Reason}) -> {error, {elixir, Path, Reason}};
elixir(_Path, Good) -> Good.

%% The module with a suite's callbacks; otherwise the first, for its missing ones.
suite_of(Path, Modules) ->
    case {[M || M <- Modules, erlang:function_exported(M, suite, 0)], Modules} of
        {[Suite], _} -> {ok, Suite};
        {[_ | _] = Suites, _} -> {error, {several_suites, Path, Suites}};
        {[], [First | _]} -> {ok, First};
        {[], []} -> {error, {no_module, Path}}
    end.

%% With the modules compiled together.
install(Module, Compiled) ->
    maybe
        {ok, Folder} ?= dyno_error:tagged(dyno_temporary, dyno_temporary:make()),
        Loaded = #{module => Module, path => Folder, folder => Folder},
        case dyno_code:write(Folder, [{M, Binary, M} || {M, Binary} <- Compiled]) of
            ok ->
                load_from(Module, filename:join(Folder, atom_to_list(Module) ++ ".beam"), Loaded);
            {error, Reason} ->
                ok = dyno_temporary:remove(Folder),
                {error, {dyno_file, Reason}}
        end
    end.

%% This very file, even if a module of that name is loaded or first on the code path.
load_from(Module, File, #{path := Folder} = Loaded) ->
    true = code:add_patha(Folder),
    _ = code:purge(Module),
    case code:load_abs(filename:rootname(File)) of
        {module, Module} ->
            {ok, Loaded};
        {error, Reason} ->
            remove_folders(Loaded),
            {error, {bad_beam, File, Reason}}
    end.

%% Loading would replace a module in use by dyno or the suite.
name_is_free(Module) ->
    case code:which(Module) of
        non_existing ->
            ok;
        Path when is_list(Path) ->
            Own = filename:dirname(code:which(?MODULE)) =:= filename:dirname(Path),
            case Own orelse lists:prefix(code:lib_dir(), Path) of
                true -> {error, {taken_name, Module}};
                false -> ok
            end;
        _Preloaded ->
            {error, {taken_name, Module}}
    end.

load_beam(Path) ->
    case beam_lib:info(Path) of
        {error, beam_lib, Reason} ->
            {error, {bad_beam, Path, Reason}};
        Info ->
            Module = proplists:get_value(module, Info),
            Folder = filename:dirname(filename:absname(Path)),
            Loaded = #{module => Module, path => Folder, folder => undefined},
            load_from(Module, filename:absname(Path), Loaded)
    end.

-spec forget(loaded()) -> ok.
forget(#{helpers := Helpers} = Loaded) ->
    ok = dyno_performerl_lib:remove(Helpers),
    forget(maps:remove(helpers, Loaded));
forget(#{path := undefined}) ->
    ok;
forget(#{module := Module} = Loaded) ->
    ok = dyno_code:unload([Module | maps:get(others, Loaded, [])]),
    remove_folders(Loaded).

remove_folders(#{path := Path, folder := Folder}) ->
    _ = code:del_path(Path),
    _ = [dyno_temporary:remove(Folder) || Folder =/= undefined],
    ok.

-spec format_error(reason()) -> unicode:chardata().
format_error({no_such_file, Path}) ->
    case re:run(Path, "^[^/.@]+@[^/@]+$", [{capture, none}]) of
        match ->
            io_lib:format(
                "~ts looks like a node; a test needs a suite, and dyno record ~ts shows what a "
                "running node does",
                [Path, Path]
            );
        nomatch ->
            io_lib:format(
                "there is no file ~ts; give a suite's .erl, .exs or .beam file or its module",
                [Path]
            )
    end;
format_error({unreadable, Path, Posix}) ->
    io_lib:format("~ts cannot be read: ~ts", [Path, file:format_error(Posix)]);
format_error({elixir, Path, Reason}) ->
    [Path, ": ", dyno_elixir:format_error(Reason)];
format_error({several_suites, Path, Suites}) ->
    Names = lists:join(", ", [atom_to_list(Suite) || Suite <- Suites]),
    [Path, " holds several suites (", Names, "); give each a file of its own"];
format_error({does_not_compile, _Path, [First | Rest]}) ->
    More = [io_lib:format(" (and ~b more)", [length(Rest)]) || Rest =/= []],
    io_lib:format("the suite does not compile: ~ts~ts", [First, More]);
format_error({does_not_compile, Path, []}) ->
    io_lib:format("the suite ~ts does not compile", [Path]);
format_error({bad_beam, Path, Reason}) ->
    io_lib:format("~ts cannot be loaded: ~0tP", [Path, Reason, 10]);
format_error({missing_callbacks, Kind, Source, Behaviour, Missing}) ->
    Words = #{suite => "a suite", agents => "a custom agent", instruments => "an instrument"},
    Names = lists:join(", ", [io_lib:format("~ts/~b", [F, A]) || {F, A} <- Missing]),
    Format = "~ts is not ~ts: it lacks ~ts, which ~ts asks for",
    io_lib:format(Format, [Source, map_get(Kind, Words), Names, Behaviour]);
format_error({Module, _} = Error) when Module =:= dyno_temporary; Module =:= dyno_file ->
    dyno_error:format(Error);
format_error(no_compiler) ->
    "this Erlang has no compiler; give the suite as a .beam file";
format_error({Kind, Name}) ->
    io_lib:format(sentence(Kind), [Name]).

sentence(not_a_suite_file) ->
    "~ts is not a suite; a .erl, .ex, .exs or .beam file or a module's name is accepted";
sentence(no_module) ->
    "~ts is not a suite: it has no module";
sentence(no_such_module) ->
    "there is neither a file nor a module ~ts; give a suite's file, or its code path with --pa";
sentence(taken_name) ->
    "the suite's module ~ts has the name of one of dyno's or of Erlang/OTP's; give it another name".

-doc "The responsible side. Without Elixir the file may be good.".
-spec fault(reason()) -> dyno_error:fault().
fault({elixir, _, no_elixir}) ->
    dyno;
fault({elixir, _, {old_elixir, _}}) ->
    dyno;
fault({Module, _} = Error) when Module =:= dyno_temporary; Module =:= dyno_file ->
    dyno_error:fault(Error);
fault(_) ->
    caller.
