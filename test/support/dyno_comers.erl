%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_comers).
-moduledoc "Processes that call a function, and stay until they are told to stop.".

-export([start/3, f/0, g/0, other/2, labelled/3]).

-doc "Starts one; it tells its owner that it has called `f` or `g`.".
-spec start(pid(), f | g, plain | other | {label, term()}) -> pid().
start(Owner, Function, other) -> spawn(?MODULE, other, [Owner, Function]);
start(Owner, Function, {label, Label}) -> spawn(?MODULE, labelled, [Owner, Function, Label]);
start(Owner, Function, _) -> spawn(fun() -> called(Owner, Function) end).

f() -> ok.

g() -> ok.

other(Owner, Function) -> called(Owner, Function).

labelled(Owner, Function, Label) ->
    proc_lib:set_label(Label),
    called(Owner, Function).

%% It gets a label if somebody asks for that.
called(Owner, Function) ->
    ok = ?MODULE:Function(),
    Owner ! {self(), called},
    stays().

stays() ->
    receive
        stop ->
            ok;
        {name, From} ->
            proc_lib:set_label(late),
            From ! {self(), named},
            stays()
    end.
