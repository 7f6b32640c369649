%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_verify_monitors).
-moduledoc false.
%% Monitors by name, as code to send: a specification, or a module's source, beam or name.

-export([read/1, needs/1, warnings/1, runtime/1, format_error/1]).
-export_type([reason/0]).

%% A property's semantics is one of these, called by name in dyno_agent_property.
-define(ENGINES, [dyno_agent_formula, dyno_agent_past, dyno_agent_rate]).

-type reason() ::
    {not_found, binary()}
    | {wrong, file:filename_all(), unicode:chardata()}
    | {no_monitor, binary(), atom(), arity()}
    | {not_loaded, unicode:chardata()}
    | {same_name, module()}.

-spec read([binary(), ...]) -> dyno_error:result([dyno_code:object(), ...]).
read(Specs) ->
    maybe
        {ok, Read} ?= dyno_error:each(fun(Spec) -> one(Spec, filename:extension(Spec)) end, Specs),
        Objects = lists:append(Read),
        Names = [Module || {Module, _, _} <- Objects],
        case Names -- lists:uniq(Names) of
            [] -> {ok, Objects};
            [Module | _] -> {error, {?MODULE, {same_name, Module}}}
        end
    else
        {error, Reason} -> {error, {?MODULE, Reason}}
    end.

one(Path, ~".erl") ->
    %% A target may run the oldest supported release.
    case dyno_code:compile_file(text(Path), [r27]) of
        {ok, Module, Binary} -> checked(Path, {Module, Binary, text(Path)});
        {error, {does_not_compile, [Text | _]}} -> {error, {wrong, Path, Text}};
        {error, no_compiler} -> {error, {wrong, Path, ~"this Erlang has no compiler"}}
    end;
one(Path, ~".beam") ->
    maybe
        {ok, Binary} ?= file:read_file(Path),
        {ok, {Module, _}} ?= beam_lib:md5(Binary),
        Object = {Module, Binary, text(Path)},
        {ok, _} ?= checked(Path, Object),
        %% Code of a later release may not load here.
        {loads, ok, _} ?= {loads, loaded(Object, fun() -> ok end), Object},
        {ok, [Object]}
    else
        {loads, {error, _}, Bad} -> {error, {not_loaded, dyno_code:not_loaded(Bad)}};
        {error, {no_monitor, _, _, _}} = Error -> Error;
        {error, enoent} -> {error, {not_found, Path}};
        {error, Posix} when is_atom(Posix) -> {error, {wrong, Path, file:format_error(Posix)}};
        {error, beam_lib, _} -> {error, {wrong, Path, ~"it is no compiled module"}}
    end;
one(Spec, _Extension) ->
    case file:read_file(Spec) of
        {ok, Text} -> specification(Spec, Text);
        {error, _} -> module(Spec)
    end.

specification(Path, Text) ->
    case dyno_specification:compile(Text) of
        {ok, Compiled} -> {ok, [{Module, Beam, text(Path)} || {Module, Beam, _Needs} <- Compiled]};
        {error, Reason} -> {error, {wrong, Path, dyno_specification:format_error(Reason)}}
    end.

%% The code server accepts no binary.
text(Path) -> unicode:characters_to_list(Path).

%% A name without an atom is no loaded module, but may be a file's.
module(Name) ->
    try dyno_code:objects([binary_to_atom(Name)]) of
        [Object] -> checked(Name, Object);
        [] -> {error, {not_found, Name}}
    catch
        error:_ -> {error, {not_found, Name}}
    end.

checked(Name, {Module, Binary, _} = Object) ->
    {ok, {Module, [{exports, Exports}]}} = beam_lib:chunks(Binary, [exports]),
    case [{needs, 0}, {init, 1}, {event, 3}] -- Exports of
        [] -> {ok, [Object]};
        [{F, A} | _] -> {error, {no_monitor, Name, F, A}}
    end.

-spec needs(dyno_code:object()) -> dyno_agent_monitor:needs().
needs({Module, _, _} = Object) ->
    loaded(Object, fun() -> dyno_agent_monitor:needs(Module) end).

%% One at a time: another verification of this node may have a monitor of the same name.
loaded({Module, Binary, File}, Use) ->
    global:trans(
        {{?MODULE, Module}, self()},
        fun() ->
            maybe
                ok ?= dyno_code:load(Module, File, Binary),
                Used = Use(),
                ok = dyno_code:unload([Module]),
                Used
            end
        end,
        [node()]
    ).

-spec warnings([dyno_code:object()]) -> [unicode:chardata()].
warnings(Objects) ->
    lists:append([map_get(warnings, needs(Object)) || Object <- Objects]).

-spec runtime([dyno_code:object()]) -> [module()].
runtime(Objects) ->
    Calls = lists:usort([
        Called
     || {Module, Binary, _} <- Objects,
        {ok, {_, [{imports, Imports}]}} <- [beam_lib:chunks(Binary, [imports])],
        {Called, _, _} <- Imports,
        Called =/= Module,
        lists:prefix("dyno_agent_", atom_to_list(Called))
    ]),
    IsProperty = fun(Module) ->
        Module =:= dyno_agent_property orelse Module =:= dyno_agent_key_events
    end,
    case lists:any(IsProperty, Calls) of
        true -> lists:usort(?ENGINES ++ Calls);
        false -> Calls
    end.

-spec format_error(reason()) -> unicode:chardata().
format_error({not_found, Name}) ->
    io_lib:format(
        "~ts is neither a file nor a module of a monitor; name a specification, or a module as "
        ".erl, .beam or by its name",
        [Name]
    );
format_error({wrong, Path, Text}) ->
    io_lib:format("~ts: ~ts", [Path, Text]);
format_error({no_monitor, Name, F, A}) ->
    io_lib:format("~ts is no monitor: it exports no ~ts/~b (dyno_agent_monitor)", [Name, F, A]);
format_error({not_loaded, Sentence}) ->
    Sentence;
format_error({same_name, Module}) ->
    io_lib:format("there are two monitors of the name ~ts", [Module]).
