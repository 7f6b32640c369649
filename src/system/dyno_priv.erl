%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_priv).
-moduledoc false.
%% Reads what stands in `priv/`, also in the archive of the program `dyno` (rebar.config,
%% escript_incl_priv, says what is packed).

-export([read/1, names/1, format_error/1, fault/1]).
-export_type([reason/0]).

-type reason() :: {missing, file:filename()}.

-doc "A file's bytes; its name begins below `priv/`.".
-spec read(file:filename()) -> {ok, binary()} | {error, {?MODULE, reason()}}.
read(Name) ->
    File = filename:join(folder(), Name),
    %% The loader reads files inside archives too, which `file` does not.
    case erl_prim_loader:get_file(File) of
        {ok, Content, _} -> {ok, Content};
        error -> {error, {?MODULE, {missing, File}}}
    end.

-doc "The names of the files in a folder below `priv/`.".
-spec names(file:filename()) -> [file:filename()].
names(Name) ->
    case erl_prim_loader:list_dir(filename:join(folder(), Name)) of
        {ok, Names} -> lists:sort(Names);
        error -> []
    end.

%% The code server knows an application by its folder's name; where that differs, the place of
%% this module's own code tells.
folder() ->
    case code:priv_dir(dyno) of
        {error, bad_name} ->
            filename:join(filename:dirname(filename:dirname(code:which(?MODULE))), "priv");
        Folder ->
            Folder
    end.

-spec format_error(reason()) -> unicode:chardata().
format_error({missing, File}) ->
    ["a part of dyno is missing: ", File, " is not there; install dyno again"].

-spec fault(reason()) -> dyno_error:fault().
fault({missing, _}) -> dyno.
