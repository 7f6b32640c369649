%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_project).
-moduledoc "Where the project's own files are, and which of its tests are for one release only.".

-export([root/0, data/2]).

-doc "The project's folder, from the place of this source.".
root() ->
    root(folder(?MODULE)).

-doc """
A file of a suite's data folder. Common Test's own `data_dir` is wrong where rebar3 runs all suites
at once: it puts their beam files into one folder, but leaves the data where it is.
""".
data(Suite, Name) ->
    filename:join([folder(Suite), atom_to_list(Suite) ++ "_data", Name]).

folder(Module) ->
    filename:dirname(proplists:get_value(source, Module:module_info(compile))).

root(Folder) ->
    case filelib:is_regular(filename:join(Folder, "CHANGELOG.md")) of
        true -> Folder;
        false when Folder =/= "/" -> root(filename:dirname(Folder))
    end.
