%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_profile_calls).
-moduledoc false.
%% The kind `calls`: every call of chosen processes, or within calls of one function, as a tree
%% (dyno_agent_path_profile).

-behaviour(dyno_profile_kind).

-export([instruments/1, format_error/1, fault/1]).

-type reason() ::
    no_processes | processes_and_inside | count_without_inside | {no_function, binary()}.

-spec instruments(dyno_profile:options()) ->
    {ok, dyno_profile_kind:instruments()} | {error, {?MODULE, reason()}}.
instruments(#{inside := _, processes := [_ | _]}) ->
    {error, {?MODULE, processes_and_inside}};
instruments(#{count := _} = Options) when not is_map_key(inside, Options) ->
    {error, {?MODULE, count_without_inside}};
instruments(#{processes := []} = Options) when
    not is_map_key(inside, Options), not is_map_key(eval, Options), not is_map_key(run, Options)
->
    {error, {?MODULE, no_processes}};
instruments(Options) ->
    {ok, (maps:with([inside, count, not_traced], Options))#{
        on => [vm, os, paths], instruments => [dyno_agent_path_profile]
    }}.

-spec format_error(reason()) -> unicode:chardata().
format_error(no_processes) ->
    "--kind calls traces each call, which is too much for a whole node: name processes after NODE, "
    "or a function with --inside";
format_error(processes_and_inside) ->
    "--inside follows whichever process calls the function; leave TARGET away";
format_error(count_without_inside) ->
    "--count is how many calls of a function are followed; name it with --inside";
format_error({no_function, Text}) ->
    io_lib:format("~ts is not one function: write my_mod:handle_call/3 or my_mod:handle_call", [
        Text
    ]).

-spec fault(reason()) -> dyno_error:fault().
fault(_Reason) -> caller.
