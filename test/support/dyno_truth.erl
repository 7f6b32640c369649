%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_truth).
-moduledoc "What suites of known answers share: nodes, programs beside them, and what is told.".

-include_lib("stdlib/include/assert.hrl").

-export([spin/0, calm/1, beside/2, alone/1, in_node/2, servers/3, rows/2, row/3, next/1, near/3]).

-doc "Takes both processors by other programs, until `calm/1` or the end of this emulator.".
spin() ->
    Spinner = {spawn_executable, "/bin/sh"},
    Arguments = ["-c", "(while :; do :; done) & read x; kill $!"],
    spawn(fun() ->
        Ports = [open_port(Spinner, [{args, Arguments}]) || _ <- [1, 2]],
        receive
            calm -> lists:foreach(fun port_close/1, Ports)
        end
    end).

calm(Spinning) -> Spinning ! calm.

-doc "Does so for a group of this name, until `alone/1`.".
beside(beside_others, Config) -> [{spinning, spin()} | Config];
beside(_Group, Config) -> Config.

alone(Config) -> [calm(Spinning) || {spinning, Spinning} <- Config].

-doc "A node with a module, in which nothing is logged.".
in_node(Source, Run) ->
    {_, Node} = Peer = dyno_peers:start(),
    try
        _ = dyno_peers:load(Node, Source),
        ok = erpc:call(Node, logger, set_primary_config, [level, none]),
        Run(Node)
    after
        dyno_peers:stop(Peer)
    end.

-doc "What dyno servers measures and prints, in one line, and the system time of which that is.".
servers(Node, Selectors, Options) ->
    {Show, Self} = {maps:get(show, Options, fun(_) -> ok end), self()},
    {ok, Document} = dyno_servers_run:run([Node], Options#{
        servers => Selectors,
        show => fun(Event) ->
            _ = [Self ! {span, From, From + Ns} || {window, W} <- [Event], {From, Ns} <- [span(W)]],
            Show(Event)
        end
    }),
    {ok, Text} = dyno_report:render(console, Document, #{width => 100}),
    Flat = re:replace(unicode:characters_to_binary(Text), "\\s+", " ", [global, {return, binary}]),
    {Froms, Untils} = lists:unzip(spans()),
    {Document, Flat, {lists:min(Froms), lists:max(Untils)}}.

span(#{start_ns := From, duration_ns := Ns}) -> {From, Ns}.

spans() ->
    receive
        {span, From, Until} -> [{From, Until} | spans()]
    after 0 -> []
    end.

-doc "Of a recording of one run.".
rows(Table, Document) ->
    [Run] = dyno_recording:runs(Document),
    dyno_recording:rows(Run, Table).

row(Table, Name, Document) ->
    [Row] = [R || #{~"server" := Is} = R <- rows(Table, Document), Is =:= Name],
    Row.

-doc "The next window of a monitor of servers.".
next(Monitor) ->
    receive
        {dyno_servers, Monitor, #{servers := _} = Window, _} ->
            ok = dyno_servers:ready(Monitor),
            Window
    end.

near(True, Told, Share) ->
    ?assert(abs(Told - True) =< Share * True, {told, Told, true, True}).
