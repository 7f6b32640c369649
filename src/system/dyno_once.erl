%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_once).
-moduledoc false.
%% Values made once in this emulator, and kept in a persistent term: of concurrent processes one
%% makes it, and the others wait; persistent_term:put_new/2 would make it twice.

-export([value/2, made/1, forget/1]).

-doc "The value of a key; the function makes it, unless it exists. Errors are not kept.".
-spec value(Key :: term(), fun(() -> {ok, Value} | {error, Error})) ->
    {ok, Value} | {error, Error}.
value(Key, Make) ->
    maybe
        none ?= made(Key),
        global:trans({{?MODULE, Key}, self()}, fun() -> first(Key, Make) end, [node()])
    end.

first(Key, Make) ->
    maybe
        none ?= made(Key),
        {ok, Value} ?= Make(),
        ok = persistent_term:put({?MODULE, Key}, Value),
        {ok, Value}
    end.

-spec made(Key :: term()) -> {ok, Value :: term()} | none.
made(Key) ->
    case persistent_term:get({?MODULE, Key}, none) of
        none -> none;
        Value -> {ok, Value}
    end.

-doc "The next caller makes a new value.".
-spec forget(Key :: term()) -> ok.
forget(Key) ->
    _ = persistent_term:erase({?MODULE, Key}),
    ok.
