%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_suspect).
-moduledoc """
Expensive questions about few processes: current function, whom a process waits for and who waits
for it, full ports, binaries.

A helper process with a time limit asks: a process in a long native call cannot answer. No mailbox
is copied.
""".

-export([stacks/1, functions/1, frames/1, places/1, detail/1, calls/1]).
-export([inspections/1, scans/1, holders/1, kept/1]).
-export([within/2, within/3]).
-export_type([stack/0]).

-type stack() :: [binary()].

-define(TIMEOUT_MS, 1000).
-define(DEPTH, 12).
-define(MOST_PLACES, 30).
-define(MOST_PORTS, 200).
-define(MOST_CALLS, 200).
-define(INSPECTED_MS, 400).
-define(SOME, 100).
-define(RELATION_BYTES, 500_000).
-define(ROWS, 10).
-define(MOST_INSPECTIONS, 20).
-define(MANY_ROWS, 1000).
-define(SCANS, [
    {ets, Function, Arity}
 || {Function, Arities} <- [
        {match, [2, 3]},
        {match_object, [2, 3]},
        {match_delete, [2]},
        {select, [2, 3]},
        {select_count, [2]},
        {select_delete, [2]},
        {tab2list, [1]}
    ],
    Arity <- Arities
]).

-doc "A function's result, from a helper process; the default if it takes too long.".
-spec within(fun(() -> Value), Value) -> Value.
within(Ask, Otherwise) -> within(Ask, Otherwise, ?TIMEOUT_MS).

-doc "The same, with a time limit in milliseconds.".
-spec within(fun(() -> Value), Value, pos_integer()) -> Value.
within(Ask, Otherwise, TimeoutMs) ->
    %% With the caller's priority: a saturated node must still be observed.
    {_, Priority} = process_info(self(), priority),
    {Pid, Ref} = spawn_opt(dyno_agent_process:ending_with(Ask), [monitor, {priority, Priority}]),
    receive
        {'DOWN', Ref, process, Pid, {value, Value}} -> Value;
        {'DOWN', Ref, process, Pid, _} -> Otherwise
    after TimeoutMs ->
        true = demonitor(Ref, [flush]),
        true = exit(Pid, kill),
        Otherwise
    end.

-doc "Current stacks, innermost function first.".
-spec stacks([pid()]) -> [{pid(), stack()}].
stacks(Pids) -> [{Pid, frames(Stack)} || {Pid, Stack} <- functions(Pids)].

-doc "Current stacks as functions: printing takes longer than asking.".
-spec functions([pid()]) -> [{pid(), [mfa()]}].
functions(Pids) ->
    within(fun() -> asked_functions(Pids) end, []).

asked_functions(Pids) ->
    [
        {Pid, [function(Frame) || Frame <- lists:sublist(Stack, ?DEPTH)]}
     || Pid <- Pids, {_, Stack} <- [process_info(Pid, current_stacktrace)]
    ].

function({M, F, A, _}) when is_integer(A) -> {M, F, A};
function({M, F, A, _}) -> {M, F, length(A)}.

-doc "A stack in print.".
-spec frames([mfa()]) -> stack().
frames(Stack) -> [dyno_agent_name:mfa(Function) || Function <- Stack].

-doc "Stacks of waiting processes, each with the number of processes and an example.".
-spec places([pid()]) -> [#{stack := stack(), count := pos_integer(), pid := binary()}].
places(Pids) ->
    Groups = maps:groups_from_list(
        fun({_, Stack}) -> Stack end, fun({Pid, _}) -> Pid end, functions(Pids)
    ),
    All = [
        #{stack => Stack, count => length(Of), pid => dyno_agent_census:pid(hd(Of))}
     || Stack := Of <- Groups
    ],
    Most = lists:sort(fun(#{count := A}, #{count := B}) -> A >= B end, All),
    [
        Place#{stack := frames(Stack)}
     || #{stack := Stack} = Place <- lists:sublist(Most, ?MOST_PLACES)
    ].

-doc "Calls among these processes: caller and monitored server; also the servers' own calls.".
-spec calls([pid()]) -> [#{from | to := binary(), from_name | to_name := binary()}].
calls(Pids) ->
    within(
        fun() ->
            Callers = [Pid || Pid <- Pids, is_calling(Pid)],
            First = edges(lists:sublist(Callers, ?MOST_CALLS)),
            Waited = lists:uniq([To || {_, To} <- First]) -- Pids,
            Next = edges([P || P <- Waited, is_pid(P), is_calling(P)]),
            [
                #{
                    from => dyno_agent_census:pid(From),
                    to => dyno_agent_census:pid(To),
                    from_name => dyno_agent_census:name(From),
                    to_name => dyno_agent_census:name(To)
                }
             || {From, To} <- First ++ Next
            ]
        end,
        []
    ).

is_calling(Pid) ->
    case process_info(Pid, current_function) of
        {current_function, {gen, do_call, 4}} -> true;
        {current_function, {io, wait_io_mon_reply, 2}} -> true;
        {current_function, {io, execute_request, _}} -> true;
        _ -> false
    end.

%% A process with many monitors is a registry: its monitors do not show a call.
edges(Pids) ->
    [
        {Pid, To}
     || Pid <- Pids,
        {monitors, Monitors} <- [process_info(Pid, monitors)],
        length(Monitors) =< 3,
        {process, Item} <- [hd([M || {process, _} = M <- lists:reverse(Monitors)] ++ [none])],
        To <- [whom(Item)],
        is_pid(To),
        node(To) =:= node()
    ].

whom({Name, Node}) when Node =:= node() -> whereis(Name);
whom(Pid) -> Pid.

-doc "All details of a process.".
-spec detail(pid()) -> map().
detail(Pid) ->
    Base = #{pid => dyno_agent_census:pid(Pid), name => ~"", group => ~"", answered => false},
    within(
        fun() ->
            Items = [message_queue_len, status, priority, total_heap_size, links],
            case process_info(Pid, Items) of
                undefined ->
                    Base#{ended => true};
                [{_, Queue}, {_, Status}, {_, Priority}, {_, Words}, {_, Links}] ->
                    (maps:merge(Base, relations(Pid, Queue, Words)))#{
                        answered => true,
                        name => dyno_agent_census:name(Pid),
                        group => dyno_agent_census:group(Pid),
                        queue => Queue,
                        status => Status,
                        priority => Priority,
                        links => length(Links),
                        heap_bytes => Words * erlang:system_info(wordsize),
                        ports => ports([Port || Port <- Links, is_port(Port)])
                    }
            end
        end,
        Base
    ).

-doc """
The keys of itself that each process reads by `process_info/2`, and how often a second: some keys
take time in proportion to the queue. Calls are traced for 0.4 s, for 20 processes at most.
""".
-spec inspections([pid()]) -> #{pid() => #{item := binary(), per_s := number()}}.
inspections([]) ->
    #{};
inspections(Pids) ->
    within(fun() -> inspected(Pids) end, #{}).

inspected(Pids) ->
    Inspects = fun
        (Pid, {erlang, process_info, [Of, Item]}) when Of =:= Pid -> [{Pid, Item}];
        (_, _) -> []
    end,
    {Seen, Ms} = called([{erlang, process_info, 2}], Pids, Inspects),
    Groups = maps:groups_from_list(fun({P, _}) -> P end, fun({_, I}) -> I end, Seen),
    #{
        Pid => #{item => text("~0tP", [hd(Items), 6]), per_s => 1000 * length(Items) / Ms}
     || Pid := Items <- Groups
    }.

%% What these processes' calls of these functions give, and the time that it took.
called(Functions, Pids, Of) ->
    Session = trace:session_create(?MODULE, self(), []),
    try
        _ = [trace:function(Session, F, true, [local]) || F <- Functions],
        _ = [trace:process(Session, Pid, true, [call]) || Pid <- Pids, is_process_alive(Pid)],
        Start = erlang:monotonic_time(millisecond),
        Seen = called(Start + ?INSPECTED_MS, ?MOST_INSPECTIONS, Of, []),
        {Seen, max(1, erlang:monotonic_time(millisecond) - Start)}
    after
        trace:session_destroy(Session)
    end.

called(_EndsMs, 0, _Of, Seen) ->
    Seen;
called(EndsMs, Left, Of, Seen) ->
    receive
        {trace, Pid, call, Call} -> called(EndsMs, Left - 1, Of, Of(Pid, Call) ++ Seen);
        {trace, _, _, _} -> called(EndsMs, Left, Of, Seen)
    after max(0, EndsMs - erlang:monotonic_time(millisecond)) ->
        Seen
    end.

-doc """
The functions with which each process reads whole ETS tables: table, rows, and how often a second.
Calls are traced as those of `inspections/1`.
""".
-spec scans([pid()]) ->
    #{
        pid() => #{
            function := binary(), table := binary(), rows := pos_integer(), per_s := number()
        }
    }.
scans([]) ->
    #{};
scans(Pids) ->
    within(fun() -> scanned(Pids) end, #{}).

scanned(Pids) ->
    {Seen, Ms} = called(?SCANS, Pids, fun(Pid, {ets, Function, [Table | More]}) ->
        [
            {Pid, {Rows, Function, 1 + length(More), ets:info(Table, name)}}
         || is_whole(Function, Table, More),
            Rows <- [ets:info(Table, size)],
            is_integer(Rows),
            Rows > ?MANY_ROWS
        ]
    end),
    Groups = maps:groups_from_list(fun({P, _}) -> P end, fun({_, S}) -> S end, Seen),
    #{
        Pid => #{
            function => dyno_agent_name:mfa({ets, Function, Arity}),
            table => dyno_agent_name:module(Name),
            rows => lists:max([Rows || {Rows, _, _, _} <- Of]),
            per_s => 1000 * length(Of) / Ms
        }
     || Pid := [{_, Function, Arity, Name} | _] = Of <- Groups
    }.

%% A bound key, or the bound first part of an ordered key, spares reading the table.
is_whole(tab2list, _Table, _) ->
    true;
is_whole(Function, Table, [Pattern | _]) ->
    Heads =
        case Function of
            _ when Function =:= match; Function =:= match_object; Function =:= match_delete ->
                [Pattern];
            _ when is_list(Pattern) ->
                [Head || {Head, _, _} <- Pattern];
            _ ->
                []
        end,
    lists:any(fun(Head) -> is_unbound(key(Head, ets:info(Table, keypos))) end, Heads).

key(Head, Place) when is_tuple(Head), is_integer(Place), tuple_size(Head) >= Place ->
    element(Place, Head);
key(_Head, _Place) ->
    '_'.

is_unbound(Key) when is_atom(Key) ->
    case atom_to_list(Key) of
        "_" ->
            true;
        [$$ | Digits] ->
            Digits =/= [] andalso lists:all(fun(C) -> C >= $0 andalso C =< $9 end, Digits);
        _ ->
            false
    end;
is_unbound(Key) when is_tuple(Key), tuple_size(Key) > 0 ->
    is_unbound(element(1, Key));
is_unbound(_Key) ->
    false.

text(Format, Arguments) -> unicode:characters_to_binary(io_lib:format(Format, Arguments)).

%% With a queue: the callers, since a call monitors its server. Otherwise: the process's monitors,
%% if its memory is more than its heap (with a queue, memory includes the messages).
relations(Pid, Queue, _Words) when Queue > ?SOME ->
    case process_info(Pid, monitored_by) of
        {_, Pids} -> #{monitored_by => length([P || P <- Pids, is_pid(P)])};
        undefined -> #{}
    end;
relations(Pid, _Queue, Words) ->
    case process_info(Pid, memory) of
        {_, Bytes} ->
            case Bytes - Words * erlang:system_info(wordsize) > ?RELATION_BYTES of
                true -> monitors(process_info(Pid, monitors));
                false -> #{}
            end;
        undefined ->
            #{}
    end.

monitors({_, Monitors}) ->
    #{monitors => length(Monitors), monitored => length(lists:uniq(Monitors))};
monitors(undefined) ->
    #{}.

-doc """
Size of the binaries that each group of these processes refers to, as collections count them.
""".
-spec holders([pid()]) ->
    [#{group := binary(), processes := pos_integer(), bytes := non_neg_integer()}].
holders(Pids) ->
    within(
        fun() ->
            Each = [
                {dyno_agent_census:group(Pid), Words * erlang:system_info(wordsize)}
             || Pid <- Pids,
                {_, Info} <- [process_info(Pid, garbage_collection_info)],
                Words <- [
                    proplists:get_value(bin_vheap_size, Info, 0) +
                        proplists:get_value(bin_old_vheap_size, Info, 0)
                ]
            ],
            Groups = maps:groups_from_list(fun({G, _}) -> G end, fun({_, B}) -> B end, Each),
            [
                #{group => Group, processes => length(Of), bytes => lists:sum(Of)}
             || Group := Of <- Groups
            ]
        end,
        []
    ).

-doc """
In ten rows of each readable table: the size of the binaries, and of those that they are parts of.
""".
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

ports(Ports) ->
    [
        #{
            port => dyno_agent_census:pid(Port),
            name => unicode:characters_to_binary(Name),
            queue_bytes => Queue,
            output_bytes => Output,
            peer => peer(Port)
        }
     || Port <- lists:sublist(Ports, ?MOST_PORTS),
        {queue_size, Queue} <- [erlang:port_info(Port, queue_size)],
        Queue > 0,
        {name, Name} <- [erlang:port_info(Port, name)],
        {output, Output} <- [erlang:port_info(Port, output)]
    ].

peer(Port) ->
    try inet:peername(Port) of
        {ok, {Address, Number}} when is_tuple(Address) ->
            iolist_to_binary([inet:ntoa(Address), $:, integer_to_binary(Number)]);
        _ ->
            ~""
    catch
        _:_ -> ~""
    end.
