%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_version).
-moduledoc false.
%% dyno's own version, for everything that names it.

-export([version/0]).

-doc "dyno's version, as in its application file.".
-spec version() -> binary().
version() ->
    _ = application:load(dyno),
    case application:get_key(dyno, vsn) of
        {ok, Vsn} -> list_to_binary(Vsn);
        undefined -> ~"unknown"
    end.
