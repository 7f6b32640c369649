%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_priv).
-moduledoc false.
%% Reads files of `priv/`, also from the archive of the program `dyno` (escript_incl_priv).

-export([read/1, names/1, format_error/1, fault/1]).
-export_type([reason/0]).

-type reason() :: {missing, file:filename()}.

-spec read(file:filename()) -> {ok, binary()} | {error, {?MODULE, reason()}}.
read(Name) ->
    File = filename:join(folder(), Name),
    %% The loader also reads files in archives, unlike `file`.
    case erl_prim_loader:get_file(File) of
        {ok, Content, _} -> {ok, Content};
        error -> {error, {?MODULE, {missing, File}}}
    end.

-spec names(file:filename()) -> [file:filename()].
names(Name) ->
    case erl_prim_loader:list_dir(filename:join(folder(), Name)) of
        {ok, Names} -> lists:sort(Names);
        error -> []
    end.

%% Beside this module's code: the code server may have another folder for the application.
folder() ->
    Own =
        case code:which(?MODULE) of
            File when is_list(File) ->
                filename:join(filename:dirname(filename:dirname(File)), "priv");
            _ ->
                "priv"
        end,
    case {erl_prim_loader:list_dir(Own), code:priv_dir(dyno)} of
        {error, Folder} when is_list(Folder) -> Folder;
        _ -> Own
    end.

-spec format_error(reason()) -> unicode:chardata().
format_error({missing, File}) ->
    ["a part of dyno is missing: ", File, " is not there; install dyno again"].

-spec fault(reason()) -> dyno_error:fault().
fault({missing, _}) -> dyno.
