%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_code).
-moduledoc false.
%% Loads and unloads modules here and in other nodes; finds called modules; sets code paths.

-export([load/3, unload/1, compile_file/2]).
-export([own_paths/0, with_paths/2, listed/1, write/2, objects/1, closure/1]).
-export([
    loaded/2,
    available/2,
    missing/2,
    sent/1,
    replaced/2,
    packed/1,
    send/2,
    not_loaded/1,
    format_error/1,
    fault/1
]).
-export_type([object/0, packed/0, reason/0]).

-type object() :: {module(), binary(), file:filename_all()}.

-doc "As in `code:atomic_load/1`.".
-type packed() :: {module(), file:filename_all(), binary()}.

-type reason() ::
    {node_down, node()}
    | {failed, node(), term()}
    %% Compiled by a later release than the node's.
    | {failed, node(), {later_release, file:filename_all(), By :: binary(), Release :: string()}}.

%% Marks, in a node's code server, the path of a module that dyno sent.
-define(SENT, "dyno:").

%% This node

-spec load(module(), file:filename_all(), binary()) -> ok | {error, term()}.
load(Module, File, Binary) ->
    _ = code:purge(Module),
    case code:load_binary(Module, File, Binary) of
        {module, Module} -> ok;
        {error, _} = Error -> Error
    end.

-spec unload(module() | [module()]) -> ok.
unload(Modules) when is_list(Modules) ->
    lists:foreach(fun unload/1, Modules);
unload(Module) ->
    try
        _ = code:purge(Module),
        _ = code:delete(Module),
        _ = code:purge(Module),
        ok
    catch
        %% During shutdown the code server ends first.
        error:badarg ->
            undefined = whereis(code_server),
            ok
    end.

-doc "Compiles a file to a binary; an error has one line for each mistake, with its place.".
-spec compile_file(file:filename(), [compile:option()]) ->
    {ok, module(), binary()} | {error, no_compiler | {does_not_compile, [binary()]}}.
compile_file(Path, Options) ->
    More = [binary, return, debug_info, {i, filename:dirname(Path)}],
    maybe
        {module, compile} ?= code:ensure_loaded(compile),
        {ok, Module, Binary, _Warnings} ?= compile:file(Path, More ++ Options),
        {ok, Module, Binary}
    else
        {error, Errors, _} ->
            Texts = [
                unicode:characters_to_binary([place(File, Where), Formatter:format_error(Text)])
             || {File, Details} <- Errors, {Where, Formatter, Text} <- Details
            ],
            {error, {does_not_compile, Texts}};
        {error, _} ->
            {error, no_compiler}
    end.

place(File, {Line, Column}) -> io_lib:format("~ts:~b:~b: ", [File, Line, Column]);
place(File, Line) when is_integer(Line) -> io_lib:format("~ts:~b: ", [File, Line]);
place(File, _None) -> [File, ": "].

-doc "The code path's folders outside of Erlang/OTP and archives.".
-spec own_paths() -> [file:filename()].
own_paths() ->
    Root = code:root_dir(),
    [
        filename:absname(Path)
     || Path <- code:get_path(),
        is_list(Path),
        Path =/= ".",
        not lists:prefix(Root, Path),
        filelib:is_dir(Path)
    ].

-doc "Evaluates with these folders first on the code path, and then removes the new ones.".
-spec with_paths(file:filename_all() | [file:filename_all()], fun(() -> Result)) -> Result.
with_paths(Paths, Fun) ->
    Added =
        [unicode:characters_to_list(filename:absname(P)) || P <- listed(Paths)] --
            code:get_path(),
    ok = code:add_pathsa(Added),
    try
        Fun()
    after
        code:del_paths(Added)
    end.

-doc "A list of folders, also from one folder as a text or characters.".
-spec listed(file:filename_all() | [file:filename_all()]) -> [file:filename_all()].
listed(Path) when is_binary(Path) -> [Path];
listed([Character | _] = Path) when is_integer(Character) -> [Path];
listed(Paths) -> Paths.

-doc "Writes compiled modules to a new folder for a code path.".
-spec write(file:filename_all(), [object()]) -> ok | {error, dyno_file:reason()}.
write(_Folder, []) ->
    ok;
write(Folder, [{Module, Binary, _File} | Rest]) ->
    case dyno_file:create(filename:join(Folder, atom_to_list(Module) ++ ".beam"), Binary) of
        ok -> write(Folder, Rest);
        {error, _} = Error -> Error
    end.

-doc "Modules' compiled code, also from inside an escript, without those that have no file.".
-spec objects([module()]) -> [object()].
objects(Modules) ->
    [Object || Module <- Modules, {_, _, _} = Object <- [code:get_object_code(Module)]].

-doc "These modules and dyno's modules that they call or name, directly or not.".
-spec closure([module()]) -> [module()].
closure(Modules) ->
    closure(Modules, #{}).

%% Each is read once: that takes a millisecond.
closure([], Found) ->
    lists:sort([Module || Module := true <- Found]);
closure([Module | Rest], Found) when is_map_key(Module, Found) ->
    closure(Rest, Found);
closure([Module | Rest], Found) ->
    case objects([Module]) of
        [{Module, Binary, _}] -> closure(called(Binary) ++ Rest, Found#{Module => true});
        [] -> closure(Rest, Found#{Module => false})
    end.

%% The caller of an agent's callback module only names it: a module's name counts as a call.
called(Binary) ->
    {ok, {_, [{imports, Imports}, {atoms, Atoms}]}} = beam_lib:chunks(Binary, [imports, atoms]),
    Called = [M || {M, _, _} <- Imports, lists:prefix("dyno_", atom_to_list(M))],
    Named = [M || {_, M} <- Atoms, lists:prefix("dyno_agent_", atom_to_list(M))],
    lists:usort(Called ++ Named).

%% Another node

-spec loaded(node(), [module()]) -> {ok, [module()]} | {error, reason()}.
loaded(Node, Modules) ->
    remotely(Node, fun() -> loaded_there(Node, Modules) end).

loaded_there(_Node, []) ->
    [];
loaded_there(Node, Modules) ->
    Answers = call(Node, lists, map, [fun erlang:module_loaded/1, Modules]),
    [Module || {Module, true} <- lists:zip(Modules, Answers)].

-doc "The modules that a node has: loaded, or on its code path.".
-spec available(node(), [module()]) -> {ok, [module()]} | {error, reason()}.
available(Node, Modules) ->
    remotely(Node, fun() ->
        Answers = call(Node, lists, map, [fun code:which/1, Modules]),
        [Module || {Module, Where} <- lists:zip(Modules, Answers), Where =/= non_existing]
    end).

-doc "The modules that a node has not loaded, or has in another version.".
-spec missing(node(), [module()]) -> {ok, [object()]} | {error, reason()}.
missing(Node, _Modules) when Node =:= node() ->
    {ok, []};
missing(Node, Modules) ->
    Objects = objects(Modules),
    remotely(Node, fun() ->
        Loaded = loaded_there(Node, [Module || {Module, _, _} <- Objects]),
        Md5s = maps:from_list(lists:zip(Loaded, md5s(Node, Loaded))),
        [
            Object
         || {Module, Binary, _} = Object <- Objects, md5(Binary) =/= maps:get(Module, Md5s, none)
        ]
    end).

%% Another dyno may be removing them.
md5s(_Node, []) ->
    [];
md5s(Node, Modules) ->
    try
        call(Node, lists, zipwith, [fun erlang:get_module_info/2, Modules, [md5 || _ <- Modules]])
    catch
        error:{exception, badarg, _} when length(Modules) > 1 ->
            lists:append([md5s(Node, [Module]) || Module <- Modules]);
        error:{exception, badarg, _} ->
            [none]
    end.

%% Not Module:module_info(md5): this module may be compiled for coverage.
md5(Binary) ->
    {ok, {_, Md5}} = beam_lib:md5(Binary),
    Md5.

-doc "The modules in a node that this or an earlier dyno sent (`m:dyno_agent`).".
-spec sent(node()) -> {ok, [module()]} | {error, reason()}.
sent(Node) ->
    Pattern = [{{'$1', ?SENT ++ '_'}, [], ['$1']}],
    remotely(Node, fun() -> call(Node, ets, select, [code_server, Pattern]) end).

-doc "The modules with current and old code in the node: purging asks each of its processes.".
-spec replaced(node(), [module()]) -> {ok, [module()]} | {error, reason()}.
replaced(Node, Modules) ->
    remotely(Node, fun() ->
        Answers = call(Node, lists, map, [fun erlang:check_old_code/1, Modules]),
        loaded_there(Node, [Module || {Module, true} <- lists:zip(Modules, Answers)])
    end).

-doc "Modules for sending: marked as dyno's, without debugging data.".
-spec packed([object()]) -> [packed()].
packed(Objects) ->
    [{Module, ?SENT ++ File, for_running(Binary)} || {Module, Binary, File} <- Objects].

-spec send(node(), [object()]) -> ok | {error, reason()}.
send(_Node, []) ->
    ok;
%% One by one: if the caller is killed, a large request would still load modules after the cleanup.
send(Node, [Object | Rest]) ->
    [{Module, File, Binary}] = packed([Object]),
    Sent = remotely(Node, fun() ->
        _ = call(Node, code, purge, [Module]),
        call(Node, code, load_binary, [Module, File, Binary])
    end),
    case Sent of
        {ok, {module, Module}} -> send(Node, Rest);
        {ok, {error, badfile}} -> {error, {failed, Node, bad_file(Node, Object)}};
        {ok, {error, Reason}} -> {error, {failed, Node, {Reason, Module}}};
        {error, _} = Error -> Error
    end.

bad_file(Node, {Module, Binary, File}) ->
    maybe
        %% A damaged file has no release.
        {ok, _} ?= beam_lib:chunks(Binary, []),
        {ok, Release} ?=
            remotely(Node, fun() -> call(Node, erlang, system_info, [otp_release]) end),
        {later_release, File, compiled_by(Binary), Release}
    else
        _ -> {badfile, Module}
    end.

%% The file names only the compiler's version.
compiled_by(Binary) ->
    _ = application:load(compiler),
    case {beam_lib:chunks(Binary, [compile_info]), application:get_key(compiler, vsn)} of
        {{ok, {_, [{compile_info, Info}]}}, {ok, Own}} ->
            case proplists:get_value(version, Info, "") of
                Own -> iolist_to_binary(["Erlang/OTP ", erlang:system_info(otp_release)]);
                "" -> ~"a later Erlang/OTP";
                Other -> iolist_to_binary(["version ", Other, " of Erlang's compiler"])
            end;
        _ ->
            ~"a later Erlang/OTP"
    end.

-doc "A sentence about compiled code that this node cannot load.".
-spec not_loaded(object()) -> unicode:chardata().
not_loaded({_, Binary, File}) ->
    Reason = {later_release, File, compiled_by(Binary), erlang:system_info(otp_release)},
    format_error({failed, node(), Reason}).

%% Three quarters of a module's file are for debuggers and documentation.
for_running(Binary) ->
    case beam_lib:all_chunks(Binary) of
        {ok, _, Chunks} ->
            Needed = [Chunk || {Id, _} = Chunk <- Chunks, Id =/= "Dbgi", Id =/= "Docs"],
            {ok, Small} = beam_lib:build_module(Needed),
            Small;
        {error, beam_lib, _} ->
            Binary
    end.

call(Node, Module, Function, Arguments) ->
    dyno_remote:call(Node, Module, Function, Arguments).

remotely(Node, Fun) ->
    try
        {ok, Fun()}
    catch
        error:{erpc, noconnection} -> {error, {node_down, Node}};
        Class:Reason -> {error, {failed, Node, {Class, Reason}}}
    end.

-spec format_error(reason()) -> unicode:chardata().
format_error({node_down, Node}) ->
    io_lib:format("the connection to ~ts was lost while modules were sent there", [Node]);
format_error({failed, Node, {later_release, File, By, Release}}) ->
    io_lib:format(
        "~ts was compiled by ~ts and cannot be loaded in ~ts, which runs Erlang/OTP ~ts; give "
        "its source (.erl), or compile it with OTP ~ts (erlc +r~ts does that with a later one)",
        [File, By, Node, Release, Release, Release]
    );
format_error({failed, Node, {Reason, Module}}) when is_atom(Module) ->
    io_lib:format("~ts did not take the module ~ts: ~0tP", [Node, Module, Reason, 12]);
format_error({failed, Node, Reason}) ->
    io_lib:format("~ts did not take dyno's modules: ~0tP", [Node, Reason, 12]).

-doc "The other node's or the connection's.".
-spec fault(reason()) -> dyno_error:fault().
fault({failed, _, {later_release, _, _, _}}) -> caller;
fault(_Reason) -> dyno.
