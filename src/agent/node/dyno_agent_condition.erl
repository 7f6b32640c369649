%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_condition).
-moduledoc """
Reads the node and its machine for a look: VM, operating system, threads, limits, allocators,
tables, names, supervisors, global's locks, Mnesia's counters. Unreadable values are left out.

Helpers with a time limit read `/proc`, because dirty I/O schedulers may be stuck, and allocators,
because each answer waits for all schedulers.
""".

-export([read/1, between/2, supervised/1, held/1, full_links/1, allocator/1]).
-export_type([reading/0]).

-type reading() :: #{atom() => term()}.

-define(MOST_TABLES, 40).
-define(MOST_NAMES, 2000).
-define(FILES_MS, 2000).
-define(BINARY_BYTES, 20_000_000).
-define(HEAP_BYTES, 100_000_000).
-define(MOST_HOLDERS, 200).
-define(MOST_READ, 5).
-define(MOST_SUPERVISORS, 100).
-define(NEWEST, 3).
-define(MOST_PORTS, 2000).
-define(MOST_LEFT, 3).
-define(FAST_PORTS, 20).
-define(PORT_TRIES, 10).
-define(SUPERVISOR_WORDS, 100_000).

-doc "The part of a look from two readings; without an earlier one there are no differences.".
-spec between(reading() | none, reading()) -> #{atom() => term()}.
between(none, Now) ->
    between(maps:without([os, threads, machine, transactions], Now), Now);
between(Before, Now) ->
    #{
        interval_ms => interval(Before, Now),
        values => values(Before, Now),
        threads => threads(Before, Now),
        machine => difference(machine, Before, Now),
        machine_now => maps:get(machine, Now),
        stuck_files => maps:get(stuck_files, Now, []),
        accept_queues => maps:get(accept_queues, Now, []),
        left_open => left_open(Before, Now),
        transactions => difference(transactions, Before, Now),
        code_server => code_server(Before, Now),
        spawned => spawned(Before, Now),
        fixed_blocks => made(Before, Now),
        programs => programs(Before, Now),
        counts => counts(maps:get(reports, Now)),
        allocators => maps:get(segments, Now, []) ++
            lists:append([Of || {allocator, _} := Of <- Now]),
        tables => maps:get(tables, Now),
        names => replaced(Before, Now),
        children => children(Before, Now),
        locks => locks(),
        newest_atoms => newest_atoms()
    }.

-doc "Reads all values; the threads are of `dyno_agent_threads`.".
-spec read(dyno_agent_threads:t()) -> reading().
read(Threads) ->
    Ask = [
        fun() -> #{os => dyno_agent_os:read()} end,
        fun() -> #{threads => dyno_agent_threads:read(Threads)} end,
        fun() -> #{machine => dyno_agent_os_health:read()} end,
        fun dyno_agent_os_health:sockets/0,
        fun() -> #{stuck_files => dyno_agent_threads:stuck_files(Threads)} end
        | [fun() -> dyno_agent_census:answered(Of) end || Of <- allocators()]
    ],
    Files = lists:foldr(
        fun maps:merge/2, #{}, [#{machine => #{}} | dyno_agent_suspect:beside(Ask, #{}, ?FILES_MS)]
    ),
    #{machine := Machine} = Files,
    Delay = [Ns || #{threads := Read} <- [Files], Ns <- dyno_agent_threads:delay_ns(Read)],
    Files#{
        machine := maps:merge(Machine, #{~"delay_ns" => Ns || Ns <- Delay}),
        time_ms => erlang:monotonic_time(millisecond),
        newest => element(2, dyno_agent_process:newest()),
        port => newest_port(),
        vm => dyno_agent_vm:read(),
        gc => erlang:statistics(garbage_collection),
        tables => tables(),
        transactions => maps:from_list(dyno_agent_services:table(mnesia_stats)),
        code_server => reductions(code_server),
        names => names()
    }.

%% Those that are still there, by the port of the service, which most have on the same side.
left_open(Before, Now) ->
    [A, B] = [maps:get(half_closed, Of, []) || Of <- [Before, Now]],
    Ports = lists:append([Of || {Inode, Of} <- B, lists:keymember(Inode, 1, A)]),
    Groups = maps:groups_from_list(fun(Port) -> Port end, Ports),
    Most = lists:reverse(lists:sort([{length(Of), Port} || Port := Of <- Groups])),
    [#{port => Port, waiting => N} || {N, Port} <- lists:sublist(Most, ?MOST_LEFT)].

interval(#{time_ms := A}, #{time_ms := B}) -> B - A.

values(#{vm := Vm0, gc := {_, Words0, _}} = Before, #{vm := Vm1, gc := {_, Words1, _}} = Now) ->
    Os =
        case {Before, Now} of
            {#{os := Os0}, #{os := Os1}} -> dyno_agent_os:difference(Os0, Os1);
            _ -> #{}
        end,
    Bytes = (Words1 - Words0) * erlang:system_info(wordsize),
    Reclaimed = [1000 * Bytes / Ms || Ms <- [interval(Before, Now)], Ms > 0],
    Vm = maps:merge(dyno_agent_vm:difference(Vm0, Vm1), #{~"reclaimed" => N || N <- Reclaimed}),
    maps:merge(Os, Vm).

threads(#{threads := A}, #{threads := B}) -> dyno_agent_threads:between(A, B);
threads(_, _) -> #{}.

difference(Key, Before, Now) ->
    A = maps:get(Key, Before, #{}),
    #{
        Name => V - V0
     || Name := V <- maps:get(Key, Now),
        V0 <- [maps:get(Name, A, none)],
        is_number(V0)
    }.

counts(Reports) ->
    #{
        processes => [erlang:system_info(process_count), erlang:system_info(process_limit)],
        ports => [erlang:system_info(port_count), erlang:system_info(port_limit)],
        atoms => [erlang:system_info(atom_count), erlang:system_info(atom_limit)],
        tables => [erlang:system_info(ets_count), erlang:system_info(ets_limit)],
        modules => length(dyno_agent_patterns:loaded()),
        schedulers => erlang:system_info(schedulers_online),
        dirty_cpu => erlang:system_info(dirty_cpu_schedulers_online),
        dirty_io => erlang:system_info(dirty_io_schedulers),
        processors =>
            case erlang:system_info(logical_processors_available) of
                N when is_integer(N) -> N;
                unknown -> null
            end,
        reports => Reports
    }.

%% How many blocks of fixed size were made: timers, monitors, links, processes.
fixed_blocks([_ | _] = Instances) ->
    lists:sum([
        1_000_000_000 * Giga + N
     || {instance, _, Of} <- Instances, {calls, Calls} <- Of, {fix_alloc, Giga, N} <- Calls
    ]);
fixed_blocks(false) ->
    0.

made(#{fixed_blocks := A}, #{fixed_blocks := B}) -> B - A;
made(_, _) -> 0.

allocators() ->
    [
        fun() -> #{fixed_blocks => fixed_blocks(erlang:system_info({allocator, fix_alloc}))} end,
        fun() -> #{segments => segment_cache(erlang:system_info({allocator, erts_mmap}))} end
        | [
            fun() -> #{{allocator, Name} => allocator(Name)} end
         || Name <- erlang:system_info(alloc_util_allocators)
        ]
    ].

%% Freed segments that the runtime keeps. The first question makes atoms, so it comes early.
segment_cache([_ | _] = Maps) ->
    InUse = lists:sum([
        Bytes
     || {instance, _, Of} <- erlang:system_info({allocator_sizes, mseg_alloc}),
        {segments_size, Bytes, _, _} <- Of
    ]),
    [
        #{name => segment_cache, held_bytes => Mapped - InUse, used_bytes => 0}
     || {default_mmap, Of} <- Maps,
        {os, [{sizes, [{used, Mapped}]}]} <- Of,
        Mapped > InUse
    ];
segment_cache(_) ->
    [].

-doc "What an allocator holds and what of it is used, if it holds memory.".
-spec allocator(atom()) ->
    [#{name := atom(), held_bytes := pos_integer(), used_bytes := non_neg_integer()}].
allocator(Name) ->
    [
        #{name => Name, held_bytes => Held, used_bytes => Used}
     || Instances <- [erlang:system_info({allocator_sizes, Name})],
        is_list(Instances),
        {Held, Used} <- [sizes(Instances)],
        Held > 0
    ].

sizes(Instances) ->
    Kinds = [
        Values
     || {instance, _, Of} <- Instances,
        {Kind, Values} <- Of,
        lists:member(Kind, [mbcs, mbcs_pool, sbcs])
    ],
    {
        lists:sum([Size || Values <- Kinds, {carriers_size, Size} <- simple(Values)]),
        lists:sum([
            Size
         || Values <- Kinds,
            {blocks, Blocks} <- Values,
            {_, Of} <- Blocks,
            {size, Size} <- simple(Of)
        ])
    }.

%% The current value; the others are maxima.
simple(Values) -> [{element(1, V), element(2, V)} || V <- Values, is_integer(element(2, V))].

tables() ->
    Word = erlang:system_info(wordsize),
    All = [
        #{
            name => dyno_agent_name:module(Name),
            tables => N,
            objects => Objects,
            bytes => Word * Words
        }
     || Name := {N, Objects, Words} <- dyno_agent_resources:sums()
    ],
    Sorted = lists:sort(fun(#{bytes := A}, #{bytes := B}) -> A >= B end, All),
    [maps:merge(Table, fixed(Table)) || Table <- lists:sublist(Sorted, ?MOST_TABLES)].

%% Who iterates over a named table: meanwhile deleted rows keep their memory.
fixed(#{name := Text}) ->
    try ets:info(binary_to_existing_atom(Text), safe_fixed_monotonic_time) of
        {_, [{Pid, _} | _]} -> #{fixed_by => dyno_agent_census:name(Pid)};
        _ -> #{}
    catch
        error:badarg -> #{}
    end.

%% Names with another process: it was restarted.
names() ->
    case registered() of
        Names when length(Names) =< ?MOST_NAMES ->
            #{
                Name => Pid
             || Name <- Names -- dyno_agent_census:places(),
                Pid <- [whereis(Name)],
                is_pid(Pid)
            };
        _ ->
            #{}
    end.

replaced(#{names := Before}, #{names := Now}) ->
    [
        dyno_agent_name:module(Name)
     || Name := Pid <- Before, maps:get(Name, Now, Pid) =/= Pid
    ].

-doc "The children of each small supervisor.".
-spec supervised(dyno_agent_census:seen()) -> #{pid() => [pid() | port()]}.
supervised(Seen) ->
    Pids = lists:sublist(dyno_agent_census:of_group(~"supervisor:", Seen), ?MOST_SUPERVISORS),
    maps:from_list(
        dyno_agent_suspect:each(
            fun(Pid) ->
                [
                    {Pid, lists:delete(Parent, Links)}
                 || [{_, Words}, {_, Links}, {_, Parent}] <- [
                        process_info(Pid, [total_heap_size, links, parent])
                    ],
                    Words < ?SUPERVISOR_WORDS
                ]
            end,
            Pids
        )
    ).

children(#{children := Before}, #{children := Now}) ->
    [
        #{
            supervisor => dyno_agent_census:name(Pid),
            children => length(Links),
            replaced => length(New),
            newest => dyno_agent_suspect:each(
                fun(Child) ->
                    [dyno_agent_census:group(Child) || is_process_alive(Child)]
                end,
                [P || P <- New, is_pid(P)]
            )
        }
     || Pid := Links <- Now,
        {ok, Old} <- [maps:find(Pid, Before)],
        New <- [Links -- Old],
        New =/= [],
        length(Links) =:= length(Old)
    ].

locks() ->
    [
        #{
            resource => dyno_agent_census:text("~0tP", [Resource, 10]),
            holders => [
                %% A new one each time that the lock is taken.
                (holder(Pid))#{hold => list_to_binary(ref_to_list(Ref))}
             || {Pid, Ref} <- Holders, is_reference(Ref)
            ]
        }
     || {Resource, _Id, Holders} <- dyno_agent_services:table(global_locks)
    ].

holder(Pid) ->
    Standing = dyno_agent_suspect:functions([Pid || node(Pid) =:= node()]),
    #{
        pid => dyno_agent_census:pid(Pid),
        name => dyno_agent_census:name(Pid),
        stack => dyno_agent_suspect:frames(lists:append([Stack || {_, Stack} <- Standing]))
    }.

-doc "Nodes to which a sender would be suspended, if a process is suspended.".
-spec full_links(Suspended :: non_neg_integer()) -> [binary()].
full_links(0) ->
    [];
full_links(_Suspended) ->
    [
        atom_to_binary(Node)
     || Node <- nodes(connected),
        nosuspend =:= erlang:send({?MODULE, Node}, [], [nosuspend, noconnect])
    ].

-doc "Holders of heaps and binaries, among some processes and the largest tables.".
-spec held(dyno_agent_census:census()) -> #{atom() => term()}.
held(#{named := Named, waiting := Waiting, waiting_count := Count}) ->
    [{_, Binary}, {_, Heaps}] = erlang:memory([binary, processes]),
    case Binary > ?BINARY_BYTES orelse Heaps > ?HEAP_BYTES of
        true ->
            Largest = lists:reverse(
                lists:sort([
                    {N, T}
                 || T <- ets:all(), N <- [ets:info(T, size)], is_integer(N), N > 0
                ])
            ),
            #{
                waiting => Count,
                groups => dyno_agent_suspect:holders(
                    dyno_agent_census:spread(Waiting, ?MOST_HOLDERS)
                ),
                named => dyno_agent_suspect:holders(lists:sublist(Named, ?MOST_HOLDERS)),
                tables => dyno_agent_suspect:kept([
                    T
                 || {_, T} <- lists:sublist(Largest, ?MOST_READ)
                ])
            };
        false ->
            #{}
    end.

reductions(Name) ->
    case process_info(whereis(Name), reductions) of
        {_, N} -> N;
        undefined -> 0
    end.

%% The number of an atom in the table, as the runtime packs it in terms of its own.
newest_atoms() ->
    Count = erlang:system_info(atom_count),
    try
        [
            dyno_agent_name:module(binary_to_term(<<131, $K, N:24>>))
         || N <- lists:seq(Count - ?NEWEST, Count - 1)
        ]
    catch
        error:badarg -> []
    end.

code_server(#{code_server := A}, #{code_server := B}) -> max(0, B - A).

%% How many ports were made, and the programs of those that still are, if these are most.
programs(#{port := A}, #{port := B}) when is_integer(A), is_integer(B), B - A >= ?FAST_PORTS ->
    #{ports => B - A, names => programs_after(A, ?PORT_TRIES)};
programs(_Before, _Now) ->
    #{ports => 0, names => []}.

programs_after(Last, Tries) ->
    case Tries > 0 andalso erlang:system_info(port_count) =< ?MOST_PORTS of
        true -> programs_of(Last, Tries);
        false -> []
    end.

programs_of(Last, Tries) ->
    Seen = [
        {Pid, unicode:characters_to_binary(Name)}
     || Port <- erlang:ports(),
        port_number(Port) > Last,
        {os_pid, Pid} <- [erlang:port_info(Port, os_pid)],
        {name, Name} <- [erlang:port_info(Port, name)]
    ],
    case [Name || {Pid, Name} <- Seen, Pid =/= undefined] of
        [_ | _] = Names when 2 * length(Names) >= length(Seen) ->
            lists:sublist(Names, ?NEWEST);
        _ ->
            ok = dyno_agent_census:pause(1),
            programs_after(Last, Tries - 1)
    end.

%% That of a port made now, by a driver that starts no program: others may have ended.
newest_port() ->
    try open_port({spawn_driver, "ram_file_drv"}, []) of
        Port ->
            true = port_close(Port),
            port_number(Port)
    catch
        %% The table of ports is full.
        error:_ -> unknown
    end.

port_number(Port) ->
    [_, Number] = string:lexemes(erlang:port_to_list(Port), ".>"),
    list_to_integer(Number).

%% The numbers of processes that live are skipped.
spawned(#{newest := A}, #{newest := B}) ->
    Used = erlang:system_info(process_count) / erlang:system_info(process_limit),
    round(max(0, B - A) * (1 - Used)).
