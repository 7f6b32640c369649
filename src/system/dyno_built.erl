%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_built).
-moduledoc false.
%% Finds built code: of profiles of rebar3 or Mix (_build/default, ...), or in ebin folders.

-export([folders/2]).

-include_lib("kernel/include/file.hrl").

-doc "The profile whose beam files weigh most by their times, and its folders, or `none`.".
-spec folders(file:filename(), fun(([Seconds :: integer()]) -> integer())) ->
    {file:filename() | none, [file:filename()]}.
folders(Root, Weight) ->
    Weights = [
        {-Weight([modified(Beam) || Beam <- beams(filename:join(Root, Profile))]), Profile}
     || Profile <- filelib:wildcard("_build/*", Root), filelib:is_dir(filename:join(Root, Profile))
    ],
    Heaviest =
        case lists:sort(Weights) of
            [{Least, Profile} | _] when Least < 0 -> Profile;
            _ -> none
        end,
    Patterns =
        [
            filename:join([Heaviest, Part, "*", Kind])
         || Heaviest =/= none,
            Part <- ["checkouts", "lib"],
            %% Elixir's protocols with all implementations: before the others.
            Kind <- ["consolidated", "ebin"]
        ] ++ ["ebin", "apps/*/ebin", "deps/*/ebin", "lib/*/ebin"],
    {Heaviest,
        lists:uniq([
            filename:absname(filename:join(Root, Path))
         || Pattern <- Patterns,
            Path <- filelib:wildcard(Pattern, Root),
            filelib:wildcard("*.beam", filename:join(Root, Path)) =/= []
        ])}.

beams(Profile) ->
    filelib:wildcard(filename:join([Profile, "*", "*", "ebin", "*.beam"])).

%% In seconds since 1970; 0 if unknown.
modified(File) ->
    case file:read_file_info(File, [raw, {time, posix}]) of
        {ok, #file_info{mtime = Seconds}} when is_integer(Seconds) -> Seconds;
        _ -> 0
    end.
