%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_project).
-moduledoc false.
%% Finds from a project's files its build tool, fetched dependencies and beam files.

-include_lib("kernel/include/file.hrl").

-export([builder/1, fetched/2, code_paths/2]).

-spec builder(file:filename()) -> {ok, {string(), [string()]}} | {error, no_build}.
builder(Folder) ->
    Has = fun(Name) -> filelib:is_regular(filename:join(Folder, Name)) end,
    case [N || N <- ["rebar.config", "mix.exs", "Makefile", "makefile", "GNUmakefile"], Has(N)] of
        ["rebar.config" | _] -> {ok, {"rebar3", ["compile"]}};
        ["mix.exs" | _] -> {ok, {"mix", ["compile"]}};
        [_ | _] -> {ok, {"make", []}};
        [] -> erlc(Folder, filelib:wildcard("src/*.erl", Folder))
    end.

%% Behaviours and parse transforms are not compiled first; a project that needs that uses --build.
erlc(_Folder, []) ->
    {error, no_build};
erlc(Folder, Sources) ->
    ok = filelib:ensure_path(filename:join(Folder, "ebin")),
    {ok, {"erlc", ["-o", "ebin", "-I", "include", "-I", "src" | Sources]}}.

-doc """
Copies fetched dependencies into another tree of the project. If that tree needs other versions, its
build tool fetches these. The project's own modules are not copied: their dates would prevent
compiling.
""".
-spec fetched(file:filename(), file:filename()) -> ok.
fetched(From, To) ->
    Rebar = [
        Relative
     || Relative <- filelib:wildcard("_build/default/{lib,plugins}/*", From),
        is_dependency(filename:join(From, Relative))
    ],
    Others = [D || D <- ["deps", "_checkouts"], filelib:is_dir(filename:join(From, D))],
    lists:foreach(
        fun(Relative) ->
            Target = filename:join(To, Relative),
            case filelib:is_file(Target) of
                true -> ok;
                false -> copied(filename:join(From, Relative), Target)
            end
        end,
        Rebar ++ Others
    ).

%% rebar3 links the sources of the project's own applications.
is_dependency(Path) ->
    is_folder(Path) andalso is_folder(filename:join(Path, "src")).

is_folder(Path) ->
    case file:read_link_info(Path) of
        {ok, #file_info{type = directory}} -> true;
        _LinkOrNone -> false
    end.

copied(From, To) ->
    ok = filelib:ensure_dir(To),
    case os:find_executable("cp") of
        false ->
            ok;
        Cp ->
            %% The build makes up for a failed copy, or fails with a report.
            _ = dyno_program:run(
                Cp, ["-a", From, To], #{folder => ".", timeout_ms => 300_000}
            ),
            ok
    end.

-spec code_paths(file:filename(), integer()) -> [file:filename()].
code_paths(Folder, Since) ->
    HowManyAreNew = fun(Times) -> length([Time || Time <- Times, Time >= Since]) end,
    {_Profile, Folders} = dyno_built:folders(Folder, HowManyAreNew),
    Folders.
