%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_server_name).
-moduledoc false.
%% Names of modules and processes as their language writes them: 'Elixir.Shop.Orders' is Shop.Orders.

-export([module/1, pid/1, quoted/1, text/1, kind/1]).

-doc "A module's name, or that of a process.".
-spec module(atom()) -> binary().
module(Module) -> text(quoted(Module)).

-doc "A process as its own node writes it.".
-spec pid(pid()) -> binary().
pid(Pid) ->
    iolist_to_binary(re:replace(pid_to_list(Pid), "^<[0-9]+", "<0")).

-doc "An atom as Erlang writes it.".
-spec quoted(atom()) -> binary().
quoted(Atom) -> dyno_recording_part:text("~tw", [Atom]).

-doc "A printed name as its language writes it.".
-spec text(binary()) -> binary().
text(<<"'Elixir.", Quoted/binary>>) ->
    string:trim(Quoted, trailing, "'");
text(<<"Elixir.", Name/binary>>) when Name =/= ~"" ->
    Name;
text(Name) ->
    Name.

-doc "What names of one kind have in common, with N for the numbers that tell them apart.".
-spec kind(binary()) -> binary().
kind(Name) ->
    iolist_to_binary(re:replace(Name, "[0-9]+", "N", [global, unicode])).
