%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_health_senders).
-moduledoc false.
%% Processes that wait in a send: for a port, a link to another node, or a socket.

-export([checks/0, is_suspended/2, is_sending/1]).

-import(dyno_health_look, [finding/4, text/2, count/1, bytes/1, suspects/1, name/1, progresses/1]).
-import(dyno_health_look, [stands/1, place_of/1, place/1, is_one_of/2, last/1]).
-import(dyno_health_waits, [edges/1, names/1]).

-define(SENDING, [
    ~"prim_inet:send", ~"gen_tcp:send/", ~"gen_tcp_socket:send/", ~"socket:send"
]).

-spec checks() -> [dyno_health:row()].
checks() ->
    [
        {suspended, ~"suspended senders", 2, fun suspended/1},
        {full_socket, ~"sockets that are not read", 2, fun sockets/1}
    ].

-doc "Whether a process is suspended in most looks, by a port or a link or without progress.".
-spec is_suspended([dyno_recording:object()], [dyno_health_look:look()]) -> boolean().
is_suspended(Asked, Looks) ->
    Times = length([S || #{~"status" := ~"suspended"} = S <- Asked]),
    Ports = lists:append([P || #{~"ports" := P} <- Asked]),
    Times >= 2 andalso Times * 2 >= length(Looks) andalso
        %% Some functions (persistent_term:put/2) suspend their caller for a moment.
        (Ports =/= [] orelse full_links(Looks) =/= [] orelse
            not lists:any(fun(S) -> progresses(S) =:= true end, Asked)).

-doc "Whether a process stands in a send in half the samples.".
-spec is_sending([dyno_recording:object()]) -> boolean().
is_sending(Asked) ->
    case stands(Asked) of
        {[Top | _], Share, _} -> is_one_of(Top, ?SENDING) andalso Share >= 0.5;
        _ -> false
    end.

%% Those of which no port and no link is full have one finding.
suspended(Looks) ->
    Links = full_links(Looks),
    Found = [
        {Asked, lists:append([P || #{~"ports" := P} <- Asked])}
     || {_, Asked} <- suspects(Looks),
        #{~"last" := true, ~"queue" := _} <- [lists:last(Asked)],
        is_suspended(Asked, Looks)
    ],
    {Known, Others} = lists:partition(fun({_, Of}) -> Of =/= [] orelse Links =/= [] end, Found),
    All = maps:get(~"suspended", last(Looks), 0),
    [suspended_at(Asked, Of, Links, All) || {Asked, Of} <- Known ++ lists:sublist(Others, 1)].

full_links(Looks) -> lists:uniq(lists:append([Of || #{~"full_links" := Of} <- Looks])).

suspended_at(Asked, Ports, Links, All) ->
    Name = name(Asked),
    #{~"queue" := Queue} = lists:last(Asked),
    Times = length([S || #{~"status" := ~"suspended"} = S <- Asked]),
    {What, Advice} =
        case lists:reverse(Ports) of
            [#{~"name" := Port, ~"peer" := Peer, ~"queue_bytes" := Bytes} | _] ->
                Of =
                    case Peer of
                        ~"" -> text("the program \"~ts\"", [Port]);
                        _ -> text("the connection to ~ts", [Peer])
                    end,
                {
                    text("~ts does not read: ~ts wait to be written", [Of, bytes(Bytes)]),
                    "Now: see whether the other side still reads; to end it closes the port, and "
                    "loses the waiting messages. Later: write to it from a process of its own, or "
                    "with nosuspend, and drop above a limit."
                };
            [] when Links =/= [] ->
                {
                    text(
                        "the link to ~ts is full: that node or the network takes less than is sent",
                        [lists:join(" and ", Links)]
                    ),
                    "Now: see whether that node is stopped or overloaded (dyno doctor on it), and "
                    "the network between; erlang:disconnect_node/1 is the last step: its calls "
                    "fail, and global and Mnesia see a lost node. Later: +zdbbl lets more wait "
                    "before senders are suspended."
                };
            [] ->
                {
                    "a port or a link to another node is full, or a process called "
                    "erlang:suspend_process/1",
                    "Now: dyno doctor on each connected node: one may read slowly. A debugger "
                    "suspends processes, too. Later: a larger +zdbbl lets more wait."
                }
        end,
    finding(critical, {suspended, suspended, 150}, {Name, Times}, #{
        text => text("~ts is suspended: ~ts", [Name, What]),
        evidence => [
            text("Suspended in ~b of ~b looks, in ~ts; ~ts messages wait for it.", [
                Times, length(Asked), place_of(Asked), count(Queue)
            ])
            | [
                text(" At the last look ~ts processes were suspended.", [count(All)])
             || All > 1
            ]
        ],
        advice => Advice,
        look_closer => ~"dyno record NODE"
    }).

%% A process in a send for half the looks.
sockets(Looks) ->
    [
        socket_at(Asked, Stack, Share, N, {Full, callers(Pid, Looks)})
     || {Pid, Asked} <- suspects(Looks),
        length(Asked) >= 2,
        #{~"last" := true, ~"queue" := _} <- [lists:last(Asked)],
        is_sending(Asked),
        {Stack, Share, N} <- [stands(Asked)],
        Full <- [lists:append([Ports || #{~"ports" := Ports} <- Asked])]
    ].

callers(Pid, Looks) ->
    [maps:get(From, names(Looks), From) || {From, To} <- edges(last(Looks)), To =:= Pid].

socket_at(Asked, Stack, Share, N, {Full, Callers}) ->
    Name = name(Asked),
    #{~"queue" := Queue} = lists:last(Asked),
    Peer =
        case lists:reverse(Full) of
            [#{~"peer" := P, ~"queue_bytes" := B} | _] when P =/= ~"" ->
                text("~ts (~ts are not taken)", [P, bytes(B)]);
            [#{~"peer" := P} | _] when P =/= ~"" ->
                P;
            _ ->
                ~"a socket that is not known here"
        end,
    finding(critical, {full_socket, suspended, 150}, {Name, Queue}, #{
        text => text("~ts waits in a send to ~ts: most likely that side does not read", [
            Name, Peer
        ]),
        evidence => [
            text("In ~b of ~b stack samples it stood in ~ts; ~ts messages wait for it.", [
                round(Share * N), N, place(Stack), count(Queue)
            ])
            | [
                text(" ~ts waits in a call to it.", [Caller])
             || Caller <- lists:sublist(Callers, 1)
            ]
        ],
        advice =>
            "Now: if it does not go on, close this connection only (as root: ss -K dst ADDRESS "
            "dport = PORT). Later: set the options send_timeout and send_timeout_close, or give "
            "each socket a process of its own; drop messages that a slow client does not take.",
        look_closer => ~"dyno record NODE"
    }).
