%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_option).
-moduledoc false.
%% Options that are given as a map: a list of checks says what is accepted for each key, and the
%% first value that is not accepted is the error.

-export([check/2, error/3, format_error/1]).
-export_type([check/0, reason/0]).

-type check() :: {Key :: atom(), IsAccepted :: fun((term()) -> boolean()), Accepted :: binary()}.

-type reason() :: {Key :: atom(), Value :: term(), Accepted :: binary()}.

-doc "Whether each key that the map has is accepted; keys that it lacks are not looked at.".
-spec check([check()], #{atom() => term()}) -> ok | {error, {?MODULE, reason()}}.
check(Checks, Options) ->
    Refused = [
        {Key, map_get(Key, Options), Accepted}
     || {Key, IsAccepted, Accepted} <- Checks,
        is_map_key(Key, Options),
        not IsAccepted(map_get(Key, Options))
    ],
    case Refused of
        [] -> ok;
        [Reason | _] -> {error, {?MODULE, Reason}}
    end.

-doc "The error of a value that is not accepted, where it depends on more than the value.".
-spec error(atom(), term(), Accepted :: binary()) -> {error, {?MODULE, reason()}}.
error(Key, Value, Accepted) ->
    {error, {?MODULE, {Key, Value, Accepted}}}.

-doc "One sentence for a reason.".
-spec format_error(reason()) -> unicode:chardata().
format_error({Key, Value, Accepted}) ->
    io_lib:format("~ts is ~0tP; ~ts is accepted", [Key, Value, 12, Accepted]).
