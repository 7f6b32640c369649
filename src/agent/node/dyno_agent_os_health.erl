%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_os_health).
-moduledoc false.
%% Machine statistics beyond dyno_agent_os: pressure, swapping, free pages by size, descriptors, the
%% container's periods, TCP errors. Reads some ten files of /proc in 1 ms, in dirty I/O schedulers.

-export([read/0, parse/1, sockets/0, in_state/2]).
-export_type([reading/0]).

-import(dyno_agent_os, [lines/1, fields/1, number/1]).

-type reading() :: #{Name :: binary() => number()}.

-define(FILES_MS, 3000).
-define(LISTENING_BYTES, 65_536).
-define(MOST_LINKS, 5000).
-spec read() -> reading().
read() ->
    Ask = [
        fun() -> [{Key, Text} || {ok, Text} <- [file:read_file(Path, [raw])]] end
     || {Key, Path, _} <- files()
    ],
    Texts = maps:from_list(lists:append(dyno_agent_suspect:beside(Ask, [], ?FILES_MS))),
    Descriptors =
        %% Not by the file server, which runs late on a busy node.
        case prim_file:list_dir("/proc/self/fd") of
            %% Without the descriptor that reads the folder.
            {ok, Names} -> #{~"fds" => max(0, length(Names) - 1)};
            {error, _} -> #{}
        end,
    maps:merge(parse(Texts), Descriptors).

-doc """
Ports of this node with connections that no process has accepted yet, and how many; connections that
only the other side has closed, with their ports on both sides.
""".
-spec sockets() ->
    #{
        accept_queues => [#{port := non_neg_integer(), waiting := pos_integer()}],
        half_closed => [{Inode :: binary(), Ports :: [non_neg_integer()]}]
    }.
sockets() ->
    Texts = [Text || File <- ["/proc/net/tcp", "/proc/net/tcp6"], Text <- first_of(File)],
    Listening = [S || Text <- Texts, {_, _, N, _} = S <- in_state(~"0A", Text), N > 0],
    Closed = [S || Text <- Texts, S <- in_state(~"08", Text)],
    Own =
        case Listening ++ Closed of
            [] -> #{};
            [_ | _] -> #{Link => [] || Link <- own_sockets()}
        end,
    IsOwn = fun(Inode) -> is_map_key(<<"socket:[", Inode/binary, "]">>, Own) end,
    #{
        accept_queues => [
            #{port => Port, waiting => N}
         || {Port, _, N, Inode} <- Listening, IsOwn(Inode)
        ],
        half_closed => [
            {Inode, [Local, Remote]}
         || {Local, Remote, _, Inode} <- Closed, IsOwn(Inode)
        ]
    }.

%% The kernel tells listening sockets first.
first_of(Path) ->
    case prim_file:open(Path, [read, raw, binary]) of
        {ok, File} ->
            Read = prim_file:read(File, ?LISTENING_BYTES),
            _ = prim_file:close(File),
            [Text || {ok, Text} <- [Read]];
        {error, _} ->
            []
    end.

-doc "The sockets in a state: local and remote port, bytes or connections that wait, and inode.".
-spec in_state(binary(), binary()) ->
    [{integer(), integer(), Waiting :: non_neg_integer(), Inode :: binary()}].
in_state(State, Text) ->
    Last = fun(Field) -> binary_to_integer(lists:last(binary:split(Field, ~":")), 16) end,
    [
        {Last(Local), Last(Remote), Last(Queues), Inode}
     || Line <- lines(Text),
        [_, Local, Remote, Is, Queues, _, _, _, _, Inode | _] <- [fields(Line)],
        Is =:= State
    ].

own_sockets() ->
    case prim_file:list_dir("/proc/self/fd") of
        {ok, Names} ->
            [
                unicode:characters_to_binary(Link)
             || Name <- lists:sublist(Names, ?MOST_LINKS),
                {ok, Link} <- [prim_file:read_link("/proc/self/fd/" ++ Name)]
            ];
        {error, _} ->
            []
    end.

-spec parse(#{atom() => binary()}) -> reading().
parse(Texts) ->
    maps:from_list(
        lists:append([Values(Text) || {Key, _, Values} <- files(), #{Key := Text} <- [Texts]])
    ).

files() ->
    [
        {pressure_memory, "/proc/pressure/memory", pressure(~"memory")},
        {pressure_io, "/proc/pressure/io", pressure(~"io")},
        {vmstat, "/proc/vmstat", words([~"pswpin"])},
        {buddy, "/proc/buddyinfo", fun large_pages/1},
        {limits, "/proc/self/limits", fun most_descriptors/1},
        {netstat, "/proc/net/netstat", fun(Text) ->
            pairs(lines(Text), [~"ListenOverflows"])
        end},
        {snmp, "/proc/net/snmp", fun(Text) ->
            %% UDP-Lite has lines of the same names.
            Lines = [Line || Line <- lines(Text), string:prefix(Line, ~"UdpLite:") =:= nomatch],
            pairs(Lines, [~"RetransSegs", ~"OutSegs", ~"RcvbufErrors"])
        end},
        {meminfo, "/proc/meminfo", fun(Text) ->
            [{Name, 1024 * KiB} || {Name, KiB} <- (words([~"MemFree:"]))(Text)]
        end},
        {cmdline, "/proc/self/cmdline", fun busy_wait/1}
    ].

%% Free blocks of 64 KiB and more, in all zones.
large_pages(Text) ->
    Counts = [
        Count
     || Line <- lines(Text),
        {Order, Word} <- lists:enumerate(0, lists:nthtail(4, fields(Line))),
        Order >= 4,
        Count <- number(Word)
    ],
    [{~"large_pages", lists:sum(Counts)}].

most_descriptors(Text) ->
    [
        {~"fds_limit", N}
     || <<"Max open files", Rest/binary>> <- lines(Text),
        [Soft | _] <- [fields(Rest)],
        N <- number(Soft)
    ].

%% How long schedulers wait actively, if the flag +sbwt is given; medium is the default.
busy_wait(Text) ->
    Levels = [~"none", ~"very_short", ~"short", ~"medium", ~"long", ~"very_long"],
    Words = binary:split(Text, ~"\0", [global]),
    case lists:dropwhile(fun(Word) -> Word =/= ~"-sbwt" end, Words) of
        [_, Word | _] -> [{~"busy_wait", N} || {N, Of} <- lists:enumerate(0, Levels), Of =:= Word];
        _ -> []
    end.

%% "some avg10=0.00 avg60=0.00 avg300=0.00 total=12": microseconds.
pressure(Of) ->
    fun(Text) ->
        [
            {<<"pressure_", Of/binary, "_", Kind/binary>>, N}
         || Line <- lines(Text),
            [Kind | Fields] <- [fields(Line)],
            <<"total=", Total/binary>> <- Fields,
            N <- number(Total)
        ]
    end.

words(Names) ->
    fun(Text) ->
        [
            {string:trim(Name, trailing, ":"), N}
         || Line <- lines(Text),
            [Name, Word | _] <- [fields(Line)],
            lists:member(Name, Names),
            N <- number(Word)
        ]
    end.

%% For each protocol a line of names, then one of values.
pairs([Heads, Values | Rest], Names) ->
    {H, V} = {fields(Heads), fields(Values)},
    Found =
        case length(H) =:= length(V) of
            true ->
                [{N, X} || {N, W} <- lists:zip(H, V), lists:member(N, Names), X <- number(W)];
            false ->
                []
        end,
    Found ++ pairs(Rest, Names);
pairs(_, _Names) ->
    [].
