%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_suspect).
-moduledoc """
Expensive questions about few processes: current function, whom a process waits for and who waits
for it, full ports, binaries.

Helper processes with a time limit ask: a process in a long native call cannot answer. On a
saturated node each answer takes a turn of a scheduler, so several helpers ask at the same time. No
mailbox is copied.
""".

-export([functions/1, frames/1, places/1, details/1, calls/1, waited/1]).
-export([holders/1, kept/1]).
-export([within/2, within/3, beside/3, each/2]).
-export_type([stack/0]).

-type stack() :: [binary()].

-define(TIMEOUT_MS, 1000).
-define(LATE_MS, 300).
-define(ALL_MS, 20).
-define(PER_MS, 3).
-define(HELPERS, 24).
-define(DEPTH, 12).
-define(MOST_PLACES, 30).
-define(MOST_PORTS, 200).
-define(MOST_CALLS, 200).
-define(SOME, 100).
-define(RELATION_BYTES, 500_000).
-define(ROWS, 10).
%% More than a link or monitor takes.
-define(RELATION, 200).
-define(LARGE_STACK, 1_000_000).

-doc "A function's result, from a helper process; the default if it takes too long.".
-spec within(fun(() -> Value), Value) -> Value.
within(Ask, Otherwise) -> within(Ask, Otherwise, ?TIMEOUT_MS).

-doc "The same, with a time limit in milliseconds.".
-spec within(fun(() -> Value), Value, pos_integer()) -> Value.
within(Ask, Otherwise, TimeoutMs) -> hd(beside([Ask], Otherwise, TimeoutMs)).

-doc "The functions' results, each from a helper process, within one time limit for all.".
-spec beside([fun(() -> Value)], Value, pos_integer()) -> [Value].
beside(Asks, Otherwise, TimeoutMs) ->
    %% With the caller's priority: a saturated node must still be observed.
    {_, Priority} = process_info(self(), priority),
    Options = [monitor, {priority, Priority}],
    Timed = fun(Ask) ->
        dyno_agent_process:ending_with(fun() -> dyno_agent_census:timed(Ask) end)
    end,
    StartUs = erlang:monotonic_time(microsecond),
    EndMs = StartUs div 1000 + TimeoutMs,
    Helpers = [spawn_opt(Timed(Ask), Options) || Ask <- Asks],
    Answers = dyno_agent_census:waited(fun() ->
        [answer(Helper, {Otherwise, 0}, EndMs) || Helper <- Helpers]
    end),
    %% Most helpers wait for answers, and for a scheduler.
    AtOnce = min(length(Asks), erlang:system_info(schedulers_online)),
    MostUs = AtOnce * (erlang:monotonic_time(microsecond) - StartUs),
    ok = dyno_agent_census:took(min(MostUs, lists:sum([Us || {_, Us} <- Answers]))),
    [Value || {Value, _} <- Answers].

answer({Pid, Ref}, Otherwise, EndMs) ->
    receive
        {'DOWN', Ref, process, Pid, {value, Value}} -> Value;
        {'DOWN', Ref, process, Pid, _} -> Otherwise
    after max(0, EndMs - erlang:monotonic_time(millisecond)) ->
        true = demonitor(Ref, [flush]),
        true = exit(Pid, kill),
        Otherwise
    end.

-doc """
All answers of these processes, unordered, by one helper; by several if each answer takes a turn of
a scheduler, or one does not come. A process that does not answer in time is left out; it delays
only its helper's share, which is then asked one by one.
""".
-spec each(fun((pid()) -> [Answer]), [pid()]) -> [Answer].
each(_Ask, []) ->
    [];
each(Ask, Pids) ->
    Helped = fun() -> {ok, answers(Ask, Pids)} end,
    case
        not dyno_agent_census:is_full() andalso
            within(Helped, late, ?ALL_MS + length(Pids) div ?PER_MS)
    of
        {ok, Answers} -> Answers;
        _ -> by_shares(Ask, Pids)
    end.

by_shares(Ask, Pids) ->
    Shares = maps:values(
        maps:groups_from_list(
            fun({N, _}) -> N rem ?HELPERS end, fun({_, Pid}) -> Pid end, lists:enumerate(Pids)
        )
    ),
    Of = fun(Share) -> fun() -> answers(Ask, Share) end end,
    Answers = lists:zip(Shares, beside([Of(Share) || Share <- Shares], late, ?TIMEOUT_MS)),
    Late = lists:append([Share || {[_, _ | _] = Share, late} <- Answers]),
    lists:append(
        [Some || {_, Some} <- Answers, Some =/= late] ++
            beside([Of([Pid]) || Pid <- Late], [], ?LATE_MS)
    ).

answers(Ask, Pids) -> dyno_agent_census:answered(fun() -> lists:flatmap(Ask, Pids) end).

-doc "Current stacks, the innermost function first. To print them takes longer.".
-spec functions([pid()]) -> [{pid(), [mfa()]}].
functions(Pids) ->
    each(
        fun(Pid) ->
            [
                {Pid, [function(Frame) || Frame <- lists:sublist(Stack, ?DEPTH)]}
             || {_, Stack} <- [process_info(Pid, current_stacktrace)]
            ]
        end,
        Pids
    ).

function({M, F, A, _}) when is_integer(A) -> {M, F, A};
function({M, F, A, _}) -> {M, F, length(A)}.

-doc "A stack in print.".
-spec frames([mfa()]) -> stack().
frames(Stack) -> [dyno_agent_name:mfa(Function) || Function <- Stack].

-doc "These stacks, each with its number of processes.".
-spec places([{pid(), [mfa()]}]) -> [#{stack := stack(), count := pos_integer()}].
places(Standing) ->
    Groups = maps:groups_from_list(fun({_, Stack}) -> Stack end, Standing),
    Most = lists:reverse(lists:sort([{length(Of), Stack} || Stack := Of <- Groups])),
    [
        #{stack => frames(Stack), count => Count}
     || {Count, Stack} <- lists:sublist(Most, ?MOST_PLACES)
    ].

-doc "For whom processes with these stacks wait, without the waiting ones.".
-spec waited([{pid(), [mfa()]}]) -> [pid()].
waited(Standing) ->
    Edges = edges(lists:sublist(callers(Standing), ?MOST_CALLS)),
    lists:uniq([To || {_, To} <- Edges, is_here(To)]) -- [Pid || {Pid, _} <- Standing].

-doc "Calls by processes with these stacks: caller, monitored server, and each one's function.".
-spec calls([{pid(), [mfa()]}]) ->
    [#{from | to | in | to_in := binary(), from_name | to_name := binary()}].
calls(Standing) ->
    First = edges(lists:sublist(callers(Standing), ?MOST_CALLS)),
    Waited = lists:uniq([To || {_, To} <- First, is_here(To)]) -- [Pid || {Pid, _} <- Standing],
    Servers = functions(Waited),
    Edges = First ++ edges(callers(Servers)),
    Tops = #{Pid => dyno_agent_name:mfa(Top) || {Pid, [Top | _]} <- Standing ++ Servers},
    Pids = lists:uniq([Pid || {From, To} <- Edges, Pid <- [From, To], is_here(Pid)]),
    Names = maps:from_list(each(fun(Pid) -> [{Pid, dyno_agent_census:name(Pid)}] end, Pids)),
    [
        #{
            from => dyno_agent_census:pid(From),
            to => printed(To),
            from_name => maps:get(From, Names, printed(From)),
            to_name => maps:get(To, Names, printed(To)),
            in => map_get(From, Tops),
            to_in => maps:get(To, Tops, ~"")
        }
     || {From, To} <- Edges
    ] ++ ending(Standing).

%% Supervisors that wait for the end of many children.
ending(Standing) ->
    [
        #{
            from => dyno_agent_census:pid(Pid),
            from_name => dyno_agent_census:name(Pid),
            in => dyno_agent_name:mfa(Top),
            to => <<"children of ", (dyno_agent_census:pid(Pid))/binary>>,
            to_name => ~"its children",
            to_in => ~""
        }
     || {Pid, [{supervisor, wait_dynamic_children, _} = Top | _]} <- Standing
    ].

is_here(Pid) -> is_pid(Pid) andalso node(Pid) =:= node().

printed({Name, Node}) -> dyno_agent_census:text("~ts at ~ts", [Name, Node]);
printed(Pid) when node(Pid) =:= node() -> dyno_agent_census:pid(Pid);
printed(Pid) -> dyno_agent_census:text("~ts at ~ts", [dyno_agent_census:pid(Pid), node(Pid)]).

callers(Standing) -> [Pid || {Pid, [Top | _]} <- Standing, is_calling(Top)].

is_calling({gen, do_call, 4}) -> true;
is_calling({io, wait_io_mon_reply, 2}) -> true;
is_calling({io, execute_request, _}) -> true;
%% For the initialisation of a process that it starts.
is_calling({proc_lib, sync_start, _}) -> true;
is_calling({proc_lib, sync_start_link, _}) -> true;
is_calling({file_io_server, do_start, _}) -> true;
%% For the end of a child.
is_calling({supervisor, shutdown, _}) -> true;
is_calling(_) -> false.

%% A process with many monitors is a registry: its monitors do not show a call.
edges(Pids) ->
    each(
        fun(Pid) ->
            [
                {Pid, To}
             || {monitors, Monitors} <- [process_info(Pid, monitors)],
                length(Monitors) =< 3,
                [{process, Item} | _] <- [[M || {process, _} = M <- lists:reverse(Monitors)]],
                To <- [whom(Item)],
                To =/= undefined
            ]
        end,
        Pids
    ).

whom({Name, Node}) when Node =:= node() -> whereis(Name);
whom(Other) -> Other.

-doc "All details of each process; `answered` is false of one that does not answer.".
-spec details([pid()]) -> [{pid(), map()}].
details(Pids) ->
    Known = maps:from_list(each(fun(Pid) -> [{Pid, detail(Pid)}] end, Pids)),
    Bare = #{name => ~"", group => ~"", answered => false},
    [
        {Pid, (maps:get(Pid, Known, Bare))#{pid => dyno_agent_census:pid(Pid)}}
     || Pid <- Pids
    ].

detail(Pid) ->
    Keys = [message_queue_len, status, priority, total_heap_size, links, garbage_collection],
    case process_info(Pid, Keys ++ [stack_size, current_function, parent]) of
        undefined ->
            #{name => ~"", group => ~"", answered => false, ended => true};
        [
            {_, Queue},
            {_, Status},
            {_, Priority},
            {_, Words},
            {_, Links},
            {_, Collected},
            {_, Stack},
            {_, Function},
            {_, Parent}
        ] ->
            Word = erlang:system_info(wordsize),
            Stacks = #{stack_bytes => B || B <- [Stack * Word], B > ?LARGE_STACK},
            (maps:merge(Stacks, relations(Pid, Queue, length(Links))))#{
                answered => true,
                name => dyno_agent_census:name(Pid),
                group => dyno_agent_census:group(Pid),
                queue => Queue,
                status => Status,
                priority => Priority,
                links => length(Links),
                heap_bytes => Words * Word,
                minor_gcs => proplists:get_value(minor_gcs, Collected, 0),
                parent => parent(Parent),
                ports => lists:uniq(ports(Links) ++ sockets(Pid, Function))
            }
    end.

parent(Pid) when is_pid(Pid) -> dyno_agent_census:name(Pid);
parent(undefined) -> ~"".

by_first(Pairs) ->
    maps:groups_from_list(fun({First, _}) -> First end, fun({_, Second}) -> Second end, Pairs).

%% With a queue: the callers, since a call monitors its server; dyno monitors servers, too.
%% Otherwise: monitors and dictionary, if its memory is more than its heap (with a queue, memory
%% includes the messages).
relations(Pid, Queue, _Links) when Queue > ?SOME ->
    case process_info(Pid, monitored_by) of
        {_, By} ->
            {Some, Others} = lists:split(min(?SOME, length(By)), [P || P <- By, is_pid(P)]),
            #{monitored_by => length([P || P <- Some, not is_own(P)]) + length(Others)};
        undefined ->
            #{}
    end;
relations(Pid, Queue, Links) ->
    maybe
        %% At the same instant: a collection moves megabytes.
        [{_, Bytes}, {_, Words}] ?= process_info(Pid, [memory, total_heap_size]),
        More = Bytes - Words * erlang:system_info(wordsize),
        true ?= More > ?RELATION_BYTES,
        [{_, Monitors}, {_, By}] ?= process_info(Pid, [monitors, monitored_by]),
        Related = Links + length(Monitors) + length(By),
        maps:merge(
            #{monitors => length(Monitors), monitored => length(lists:uniq(Monitors))},
            %% The rest is the dictionary's table, a word or two for each key, or messages.
            case (More - ?RELATION * Related) div erlang:system_info(wordsize) of
                Keys when Queue =:= 0, Keys > 0 -> #{dictionary => Keys};
                _ -> #{}
            end
        )
    else
        _ -> #{}
    end.

is_own(Pid) ->
    node(Pid) =:= node() andalso dyno_agent_census:is_own(dyno_agent_census:group(Pid)).

-doc "The sizes of each group's binaries, of its heaps, and of these after their collections.".
-spec holders([pid()]) ->
    [
        #{
            group := binary(),
            processes := pos_integer(),
            bytes | heap_bytes | survived_bytes := non_neg_integer()
        }
    ].
holders(Pids) ->
    Keys = [
        [bin_vheap_size, bin_old_vheap_size],
        [heap_block_size, old_heap_block_size, mbuf_size],
        [recent_size, old_heap_size]
    ],
    Word = erlang:system_info(wordsize),
    Groups = by_first(
        each(
            fun(Pid) ->
                [
                    {
                        dyno_agent_census:group(Pid),
                        list_to_tuple([
                            Word * lists:sum([N || K <- Of, {Key, N} <- Info, Key =:= K])
                         || Of <- Keys
                        ])
                    }
                 || {_, Info} <- [process_info(Pid, garbage_collection_info)]
                ]
            end,
            Pids
        )
    ),
    [
        #{
            group => Group,
            processes => length(Of),
            bytes => lists:sum(Bytes),
            heap_bytes => lists:sum(Heaps),
            survived_bytes => lists:sum(Survived)
        }
     || Group := Of <- Groups, {Bytes, Heaps, Survived} <- [lists:unzip3(Of)]
    ].

-doc "Of ten rows of each readable table: the size of its binaries, and of what they are parts of.".
-spec kept([ets:table()]) ->
    [#{name := binary(), own_bytes := non_neg_integer(), kept_bytes := non_neg_integer()}].
kept(Tables) ->
    within(
        fun() ->
            [
                #{
                    name => dyno_agent_name:module(ets:info(Table, name)),
                    own_bytes => lists:sum([byte_size(B) || B <- Binaries]),
                    kept_bytes => lists:sum([binary:referenced_byte_size(B) || B <- Binaries])
                }
             || Table <- Tables,
                Binaries <- [lists:append([binaries(Row) || Row <- rows(Table)])],
                Binaries =/= []
            ]
        end,
        []
    ).

rows(Table) ->
    try ets:match_object(Table, '$1', ?ROWS) of
        {Rows, _} -> Rows;
        '$end_of_table' -> []
    catch
        %% Private, or deleted.
        error:_ -> []
    end.

binaries(Binary) when is_binary(Binary) -> [Binary];
binaries([Head | Tail]) -> binaries(Head) ++ binaries(Tail);
binaries(Tuple) when is_tuple(Tuple) -> binaries(tuple_to_list(Tuple));
binaries(Map) when is_map(Map), map_size(Map) < 100 -> binaries(maps:values(Map));
binaries(_) -> [].

ports(Links) ->
    [
        #{
            name => unicode:characters_to_binary(Name),
            queue_bytes => Queue,
            peer => address(fun() -> inet:peername(Port) end)
        }
     || Port <- lists:sublist([P || P <- Links, is_port(P)], ?MOST_PORTS),
        {queue_size, Queue} <- [erlang:port_info(Port, queue_size)],
        Queue > 0,
        {name, Name} <- [erlang:port_info(Port, name)]
    ].

%% The reference of a socket is opaque, and is all that a process that waits for it shows.
-dialyzer({no_opaque, sockets/2}).

%% A socket that is no port monitors who waits for it; who waits for another's port monitors that.
sockets(Pid, {socket, _, _}) ->
    [
        #{name => ~"socket", peer => address(fun() -> socket:peername({'$socket', Ref}) end)}
     || {_, By} <- [process_info(Pid, monitored_by)], Ref <- By, is_reference(Ref)
    ];
sockets(Pid, {prim_inet, send, _}) ->
    ports([Port || {_, Monitors} <- [process_info(Pid, monitors)], {port, Port} <- Monitors]);
sockets(_Pid, _Function) ->
    [].

address(Peer) ->
    try Peer() of
        {ok, {Address, Number}} when is_tuple(Address) -> address(Address, Number);
        {ok, #{addr := Address, port := Number}} -> address(Address, Number);
        _ -> ~""
    catch
        _:_ -> ~""
    end.

address(Address, Number) ->
    iolist_to_binary([inet:ntoa(Address), $:, integer_to_binary(Number)]).
