%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_version).
-moduledoc false.

-export([version/0]).

-spec version() -> binary().
version() ->
    _ = application:load(dyno),
    case application:get_key(dyno, vsn) of
        {ok, Vsn} -> list_to_binary(Vsn);
        undefined -> ~"unknown"
    end.
