%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_version).
-moduledoc false.

-export([version/0, least_otp/0, is_supported/1]).

-spec version() -> binary().
version() ->
    _ = application:load(dyno),
    case application:get_key(dyno, vsn) of
        {ok, Vsn} -> list_to_binary(Vsn);
        undefined -> ~"unknown"
    end.

-doc "The oldest release of Erlang/OTP that dyno measures: the first with trace sessions.".
-spec least_otp() -> pos_integer().
least_otp() -> 27.

-doc "Whether dyno measures nodes of a release, such as `\"27\"`.".
-spec is_supported(string()) -> boolean().
is_supported(Release) ->
    case string:to_integer(Release) of
        {Number, _} when is_integer(Number) -> Number >= least_otp();
        _ -> false
    end.
