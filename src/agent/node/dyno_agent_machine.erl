%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_machine).
-moduledoc false.
%% Machine statistics beyond dyno_agent_os: pressure, swapping, free pages by size, descriptors, the
%% container's periods, TCP errors. Reads some ten files of /proc in 1 ms, in dirty I/O schedulers.

-export([read/0, parse/1]).
-export_type([reading/0]).

-type reading() :: #{Name :: binary() => number()}.

-define(FILES_MS, 3000).
-define(FILES, [
    {pressure_cpu, "/proc/pressure/cpu"},
    {pressure_memory, "/proc/pressure/memory"},
    {pressure_io, "/proc/pressure/io"},
    {vmstat, "/proc/vmstat"},
    {buddy, "/proc/buddyinfo"},
    {limits, "/proc/self/limits"},
    {netstat, "/proc/net/netstat"},
    {snmp, "/proc/net/snmp"},
    {meminfo, "/proc/meminfo"},
    {io, "/proc/self/io"},
    {cmdline, "/proc/self/cmdline"},
    {cpu_max, "/sys/fs/cgroup/cpu.max"},
    {cpu_stat, "/sys/fs/cgroup/cpu.stat"}
]).

-spec read() -> reading().
read() ->
    Ask = [
        fun() -> [{Key, Text} || {ok, Text} <- [file:read_file(Path, [raw])]] end
     || {Key, Path} <- ?FILES
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

-spec parse(#{atom() => binary()}) -> reading().
parse(Texts) ->
    maps:from_list(
        lists:append([of_file(Key, Text) || Key := Text <- Texts])
    ).

of_file(pressure_cpu, Text) ->
    pressure(~"cpu", Text);
of_file(pressure_memory, Text) ->
    pressure(~"memory", Text);
of_file(pressure_io, Text) ->
    pressure(~"io", Text);
of_file(vmstat, Text) ->
    words(Text, [~"pswpin", ~"pswpout", ~"pgmajfault"], 1);
of_file(meminfo, Text) ->
    [
        {Name, 1024 * KiB}
     || {Name, KiB} <- words(Text, [~"MemTotal:", ~"MemFree:", ~"SwapFree:", ~"SwapTotal:"], 1)
    ];
of_file(buddy, Text) ->
    %% Free blocks of 64 KiB and more, in all zones.
    [
        {
            ~"large_pages",
            lists:sum([
                Count
             || Line <- lines(Text),
                {Order, Word} <- lists:enumerate(0, lists:nthtail(4, fields(Line))),
                Order >= 4,
                Count <- number(Word)
            ])
        }
    ];
of_file(limits, Text) ->
    [
        {~"fds_limit", N}
     || Line <- lines(Text),
        <<"Max open files", Rest/binary>> <- [Line],
        [Soft | _] <- [fields(Rest)],
        N <- number(Soft)
    ];
of_file(netstat, Text) ->
    paired(Text, [~"ListenOverflows", ~"ListenDrops", ~"TCPTimeouts", ~"TCPAbortOnMemory"]);
of_file(snmp, Text) ->
    %% UDP-Lite has lines of the same names.
    Lines = [Line || Line <- lines(Text), string:prefix(Line, ~"UdpLite:") =:= nomatch],
    pairs(Lines, [~"RetransSegs", ~"OutSegs", ~"RcvbufErrors"]);
of_file(io, Text) ->
    words(Text, [~"rchar:", ~"wchar:"], 1);
%% How long schedulers wait actively, if the flag +sbwt is given; medium is the default.
of_file(cmdline, Text) ->
    Levels = lists:zip(
        [~"none", ~"very_short", ~"short", ~"medium", ~"long", ~"very_long"], lists:seq(0, 5)
    ),
    Words = binary:split(Text, ~"\0", [global]),
    case lists:dropwhile(fun(Word) -> Word =/= ~"-sbwt" end, Words) of
        [_, Word | _] -> [{~"busy_wait", Level} || {Of, Level} <- Levels, Of =:= Word];
        _ -> []
    end;
of_file(cpu_max, Text) ->
    case fields(Text) of
        [Quota, Period | _] ->
            [{~"cpu_quota", Q / P} || Q <- number(Quota), P <- number(Period), P > 0];
        _ ->
            []
    end;
of_file(cpu_stat, Text) ->
    words(Text, [~"nr_periods", ~"nr_throttled", ~"throttled_usec"], 1).

%% "some avg10=0.00 avg60=0.00 avg300=0.00 total=12": microseconds.
pressure(Of, Text) ->
    [
        {<<"pressure_", Of/binary, "_", Kind/binary>>, N}
     || Line <- lines(Text),
        [Kind | Fields] <- [fields(Line)],
        <<"total=", Total/binary>> <- Fields,
        N <- number(Total)
    ].

words(Text, Names, Index) ->
    [
        {string:trim(Name, trailing, ":"), N}
     || Line <- lines(Text),
        [Name | Fields] <- [fields(Line)],
        lists:member(Name, Names),
        length(Fields) >= Index,
        N <- number(lists:nth(Index, Fields))
    ].

%% For each protocol a line of names, then one of values.
paired(Text, Names) -> pairs(lines(Text), Names).

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

lines(Text) -> binary:split(Text, ~"\n", [global, trim_all]).

fields(Line) -> binary:split(Line, [~" ", ~"\t", ~"\n"], [global, trim_all]).

number(Word) ->
    case string:to_integer(Word) of
        {N, ~""} when is_integer(N) -> [N];
        _ -> []
    end.
