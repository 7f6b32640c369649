%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_cli_code).
-moduledoc """
The code path of a command that runs code: `--pa`, and the build of the rebar3 or Mix project around
the current folder. The plugins give their own paths.

Of several built profiles (`_build/default`, `_build/test`, `_build/dev`) the last built is taken,
because it has the latest changes.
""".

-export([with/2, written/1, project/1]).

-include_lib("kernel/include/file.hrl").

-doc "Runs the function with these paths on the code path.".
-spec with(dyno_cli_command:values(), fun(() -> Result)) -> Result.
with(Values, Run) ->
    dyno_code:with_paths(maps:get(code_paths, Values, []), fun() ->
        %% Each revision of --rev and --against has its own code; a plugin has given the paths.
        IsGiven =
            is_map_key(rev, Values) orelse is_map_key(against, Values) orelse
                dyno_cli_terminal:called_as() =/= "dyno ",
        {ok, Current} = file:get_cwd(),
        case not IsGiven andalso project(Current) of
            {ok, Root} -> behind(Root, Values, Run);
            _ -> Run()
        end
    end).

%% Existing entries of the code path come first.
behind(Root, Values, Run) ->
    Latest = fun(Times) -> lists:max([0 | Times]) end,
    {Profile, Folders} = dyno_built:folders(Root, Latest),
    _ = [
        dyno_cli_terminal:note(["dyno: the code is that of ", Profile, ", built last, in ", Root])
     || Profile =/= none, is_map_key(verbose, Values)
    ],
    Added = Folders -- code:get_path(),
    ok = code:add_pathsz([Folder || Folder <- Added, not is_own(Folder)]),
    _ = filelib:is_regular(filename:join(Root, "mix.exs")) andalso dyno_elixir:folders(),
    try
        Run()
    after
        code:del_paths(Added)
    end.

%% Of a project that depends on dyno.
is_own(Folder) ->
    filename:basename(filename:dirname(Folder)) =:= "dyno".

-doc """
The nearest folder upwards with a build file and a build. Code of the folder will run: it must have
the same owner as this folder, not another user with write access above.
""".
-spec project(file:filename()) -> {ok, file:filename()} | none.
project(Folder) ->
    project(Folder, owner(Folder)).

project(Folder, Owner) ->
    HasFile = lists:any(
        fun(Name) -> owner(filename:join(Folder, Name)) =:= Owner end, ["rebar.config", "mix.exs"]
    ),
    case {HasFile andalso owner(filename:join(Folder, "_build")), filename:dirname(Folder)} of
        {Owner, _} -> {ok, Folder};
        {_, Folder} -> none;
        {_, Above} -> project(Above, Owner)
    end.

owner(Path) ->
    case file:read_link_info(Path) of
        {ok, #file_info{uid = Uid}} -> Uid;
        {error, _} -> none
    end.

-doc "Accepts `-pa` as `--pa`, after the command and before `--`.".
-spec written([string()]) -> [string()].
written(Arguments) ->
    {Options, Rest} = lists:splitwith(fun(Argument) -> Argument =/= "--" end, Arguments),
    [long(Option) || Option <- Options] ++ Rest.

long("-pa") -> "--pa";
long("-pa=" ++ Folder) -> "--pa=" ++ Folder;
long(Other) -> Other.
