%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_project).
-moduledoc false.
%% What a project's files say about how it is built, what it has fetched, and where its beam files
%% are.

-include_lib("kernel/include/file.hrl").

-export([builder/1, fetched/2, code_paths/2]).

-doc "The program that builds a project, and its arguments.".
-spec builder(file:filename()) -> {ok, {string(), [string()]}} | {error, no_build}.
builder(Folder) ->
    Has = fun(Name) -> filelib:is_regular(filename:join(Folder, Name)) end,
    case [N || N <- ["rebar.config", "mix.exs", "Makefile", "makefile", "GNUmakefile"], Has(N)] of
        ["rebar.config" | _] -> {ok, {"rebar3", ["compile"]}};
        ["mix.exs" | _] -> {ok, {"mix", ["compile"]}};
        [_ | _] -> {ok, {"make", []}};
        [] -> erlc(Folder, filelib:wildcard("src/*.erl", Folder))
    end.

%% Behaviours and parse transforms first would be nicer; a project that needs it says --build.
erlc(_Folder, []) ->
    {error, no_build};
erlc(Folder, Sources) ->
    ok = filelib:ensure_path(filename:join(Folder, "ebin")),
    {ok, {"erlc", ["-o", "ebin", "-I", "include", "-I", "src" | Sources]}}.

-doc """
Copies the dependencies that a project has fetched into another tree of it. Where that wants other
versions its own tool fetches them. The project's own modules are not copied: their dates would say
that they need not be compiled again.
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
            %% A copy that fails is one that the build makes up for, or complains about.
            _ = dyno_program:run(
                Cp, ["-a", From, To], #{folder => ".", timeout_ms => 300_000}
            ),
            ok
    end.

-doc "The folders of beam files of a project that was built since then.".
-spec code_paths(file:filename(), integer()) -> [file:filename()].
code_paths(Folder, Since) ->
    HowManyAreNew = fun(Times) -> length([Time || Time <- Times, Time >= Since]) end,
    {_Profile, Folders} = dyno_built:folders(Folder, HowManyAreNew),
    Folders.
