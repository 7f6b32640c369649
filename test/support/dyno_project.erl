%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_project).
-moduledoc "Where the project's own files are, for tests that read or run them.".

-export([root/0]).

-doc "The project's folder, from the place of this source.".
root() ->
    root(filename:dirname(proplists:get_value(source, ?MODULE:module_info(compile)))).

root(Folder) ->
    case filelib:is_regular(filename:join(Folder, "rebar.config.script")) of
        true -> Folder;
        false when Folder =/= "/" -> root(filename:dirname(Folder))
    end.
