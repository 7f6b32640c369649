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

-export([stacks/1, functions/1, frames/1, places/1, details/1, calls/1]).
-export([inspections/1, tables/1, reloads/0, holders/1, kept/1]).
-export([within/2, within/3, beside/3, each/2]).
-export_type([stack/0]).

-type stack() :: [binary()].

-define(TIMEOUT_MS, 1000).
-define(LATE_MS, 300).
-define(HELPERS, 24).
-define(DEPTH, 12).
-define(MOST_PLACES, 30).
-define(MOST_PORTS, 200).
-define(MOST_CALLS, 200).
-define(TRACED_MS, 400).
-define(MOST_TRACED, 2000).
-define(ENOUGH_CALLS, 12).
-define(SOME, 100).
-define(RELATION_BYTES, 500_000).
-define(ROWS, 10).
-define(MANY_ROWS, 1000).
%% More than a link or monitor takes.
-define(RELATION, 200).
%% Each change of breakpoints waits for all schedulers: all functions at once, but these.
-define(TABLES, [
    {{ets, '_', '_'}, true}
    | [
        {{ets, F, '_'}, false}
     || F <- [lookup, lookup_element, member, first, last, next, prev, do_foldl, do_foldr]
    ]
]).
-define(LOADED, [{{ets, insert, 2}, true}]).
-define(WRITES, [insert, insert_new, delete, update_counter, update_element]).
-define(MATCHES, [match, match_object, match_delete]).
-define(SCANS, [tab2list, select, select_count, select_delete | ?MATCHES]).

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
All answers of these processes, unordered, by a few helpers. A process that does not answer in time
is left out; it delays only its helper's share, which is then asked one by one.
""".
-spec each(fun((pid()) -> [Answer]), [pid()]) -> [Answer].
each(Ask, Pids) ->
    Shares = maps:values(
        maps:groups_from_list(
            fun({N, _}) -> N rem ?HELPERS end, fun({_, Pid}) -> Pid end, lists:enumerate(Pids)
        )
    ),
    Of = fun(Share) -> fun() -> lists:flatmap(Ask, Share) end end,
    Answers = lists:zip(Shares, beside([Of(Share) || Share <- Shares], late, ?TIMEOUT_MS)),
    Late = lists:append([Share || {[_, _ | _] = Share, late} <- Answers]),
    lists:append(
        [Some || {_, Some} <- Answers, Some =/= late] ++
            beside([Of([Pid]) || Pid <- Late], [], ?LATE_MS)
    ).

-doc "Current stacks, innermost function first.".
-spec stacks([pid()]) -> [{pid(), stack()}].
stacks(Pids) -> [{Pid, frames(Stack)} || {Pid, Stack} <- functions(Pids)].

-doc "Current stacks as functions: printing takes longer than asking.".
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

-doc "These stacks, each with its number of processes and an example.".
-spec places([{pid(), [mfa()]}]) -> [#{stack := stack(), count := pos_integer(), pid := binary()}].
places(Standing) ->
    Groups = maps:groups_from_list(
        fun({_, Stack}) -> Stack end, fun({Pid, _}) -> Pid end, Standing
    ),
    Most = lists:reverse(
        lists:sort([{length(Pids), Stack, hd(Pids)} || Stack := Pids <- Groups])
    ),
    [
        #{stack => frames(Stack), count => Count, pid => dyno_agent_census:pid(Pid)}
     || {Count, Stack, Pid} <- lists:sublist(Most, ?MOST_PLACES)
    ].

-doc """
Calls by processes with these stacks: caller and monitored server; also the servers' own. A server
of another node has its node in its name.
""".
-spec calls([{pid(), [mfa()]}]) -> [#{from | to := binary(), from_name | to_name := binary()}].
calls(Standing) ->
    First = edges(lists:sublist(callers(Standing), ?MOST_CALLS)),
    Waited = lists:uniq([To || {_, To} <- First, is_here(To)]) -- [Pid || {Pid, _} <- Standing],
    Edges = First ++ edges(callers(functions(Waited))),
    Pids = lists:uniq([Pid || {From, To} <- Edges, Pid <- [From, To], is_here(Pid)]),
    Names = maps:from_list(each(fun(Pid) -> [{Pid, dyno_agent_census:name(Pid)}] end, Pids)),
    [
        #{
            from => dyno_agent_census:pid(From),
            to => printed(To),
            from_name => maps:get(From, Names, printed(From)),
            to_name => maps:get(To, Names, printed(To))
        }
     || {From, To} <- Edges
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
    case process_info(Pid, [message_queue_len, status, priority, total_heap_size, links]) of
        undefined ->
            #{name => ~"", group => ~"", answered => false, ended => true};
        [{_, Queue}, {_, Status}, {_, Priority}, {_, Words}, {_, Links}] ->
            (relations(Pid, Queue, Words, length(Links)))#{
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
    end.

-doc """
The keys of itself that each process reads by `process_info/2`, and how often a second: some keys
take time in proportion to the queue. Calls are traced for 0.4 s, for 20 processes at most.
""".
-spec inspections([pid()]) -> #{pid() => #{inspects := #{item := binary(), per_s := number()}}}.
inspections([]) ->
    #{};
inspections(Pids) ->
    within(fun() -> inspected(Pids) end, #{}, 2 * ?TIMEOUT_MS).

inspected(Pids) ->
    #{
        Pid => #{
            inspects => #{
                item => dyno_agent_census:text("~0tP", [hd(Items), 6]), per_s => length(Items) / S
            }
        }
     || Pid := {S, Calls} <- called([{{erlang, process_info, 2}, true}], Pids),
        [_ | _] = Items <- [[Item || {_, {_, _, [Of, Item]}} <- Calls, Of =:= Pid]]
    }.

%% The first calls of these functions by each of these processes, with their times in nanoseconds,
%% and the seconds in which they were made.
called(Functions, Pids) ->
    Session = trace:session_create(?MODULE, self(), []),
    try
        _ = [trace:function(Session, F, Is, [local]) || {F, Is} <- Functions],
        Alive = [Pid || Pid <- Pids, is_process_alive(Pid)],
        _ = [trace:process(Session, Pid, true, [call, monotonic_timestamp]) || Pid <- Alive],
        EndsMs = erlang:monotonic_time(millisecond) + ?TRACED_MS,
        dyno_agent_census:waited(fun() ->
            traced(EndsMs, ?MOST_TRACED, #{Pid => [] || Pid <- Alive}, #{})
        end)
    after
        trace:session_destroy(Session)
    end.

%% Those with enough calls need no more; a fast one must not hide the others.
traced(EndsMs, Left, More, Done) when Left =:= 0; map_size(More) =:= 0 ->
    ended(EndsMs, More, Done);
traced(EndsMs, Left, More, Done) ->
    receive
        {trace_ts, Pid, call, Call, Ns} when is_map_key(Pid, More) ->
            case [{Ns, Call} | map_get(Pid, More)] of
                Calls when length(Calls) >= ?ENOUGH_CALLS ->
                    {First, _} = lists:last(Calls),
                    Took = max(1, Ns - First) / 1.0e9,
                    Next = Done#{Pid => {Took, lists:reverse(Calls)}},
                    traced(EndsMs, Left - 1, maps:remove(Pid, More), Next);
                Calls ->
                    traced(EndsMs, Left - 1, More#{Pid := Calls}, Done)
            end;
        {trace_ts, _, _, _, _} ->
            traced(EndsMs, Left - 1, More, Done)
    after max(0, EndsMs - erlang:monotonic_time(millisecond)) ->
        ended(EndsMs, More, Done)
    end.

ended(EndsMs, More, Done) ->
    Ms = ?TRACED_MS - max(0, EndsMs - erlang:monotonic_time(millisecond)),
    maps:merge(
        Done,
        #{
            Pid => {max(1, Ms) / 1000, lists:reverse(Calls)}
         || Pid := [_ | _] = Calls <- More
        }
    ).

-doc """
The use of ETS tables by each process: the functions with which it reads whole tables, and the table
that it writes again and again. Calls are traced as those of `inspections/1`. `late` if the node is
too busy for that.
""".
-spec tables([pid()]) ->
    #{
        pid() => #{
            scans => #{
                function := binary(), table := binary(), rows := pos_integer(), per_s := number()
            },
            %% The median time from one write to the next, and whether they exclude each other.
            writes => #{table := binary(), gap_us := number(), locks := boolean()}
        }
    }
    | late.
tables([]) ->
    #{};
tables(Pids) ->
    within(fun() -> used(Pids) end, late, 3 * ?TIMEOUT_MS).

used(Pids) ->
    #{
        Pid => maps:merge(
            scans([Scan || {_, Call} <- Calls, Scan <- scanned(Call)], S),
            writes([{Ns, Write} || {Ns, Call} <- Calls, Write <- written(Call)])
        )
     || Pid := {S, Calls} <- called(?TABLES, Pids)
    }.

scanned({ets, Fold, [_, _, Table]}) when Fold =:= foldl; Fold =:= foldr ->
    scanned(Fold, 3, Table);
scanned({ets, Function, [Table | More]}) ->
    [
        Scan
     || lists:member(Function, ?SCANS),
        is_whole(Function, Table, More),
        Scan <- scanned(Function, 1 + length(More), Table)
    ];
scanned(_Call) ->
    [].

scanned(Function, Arity, Table) ->
    [
        {Rows, {ets, Function, Arity}, ets:info(Table, name)}
     || Rows <- [ets:info(Table, size)],
        is_integer(Rows),
        Rows > ?MANY_ROWS
    ].

scans([], _S) ->
    #{};
scans([{_, Function, Name} | _] = Of, S) ->
    #{
        scans => #{
            function => dyno_agent_name:mfa(Function),
            table => dyno_agent_name:module(Name),
            rows => lists:max([Rows || {Rows, _, _} <- Of]),
            %% One among many other calls was seen for a moment only.
            per_s =>
                case Of of
                    [_] -> 1 / max(S, ?TRACED_MS / 1000);
                    _ -> length(Of) / S
                end
        }
    }.

%% The table and the key.
written({ets, Function, [Table, What | _]}) ->
    [
        {Table,
            case Function =:= insert orelse Function =:= insert_new of
                true -> key(What, ets:info(Table, keypos));
                false -> What
            end}
     || lists:member(Function, ?WRITES)
    ];
written(_) ->
    [].

%% Without the option write_concurrency, and with it for one key, writes exclude each other.
writes([_, _, _, _ | _] = Of) ->
    {Times, Places} = lists:unzip(Of),
    [{Table, Key} | _] = Places,
    Gaps = lists:sort(lists:zipwith(fun(A, B) -> B - A end, lists:droplast(Times), tl(Times))),
    case ets:info(Table, name) of
        Name when Name =/= undefined ->
            #{
                writes => #{
                    table => dyno_agent_name:module(Name),
                    gap_us => lists:nth((length(Gaps) + 1) div 2, Gaps) / 1000,
                    locks => [T || {T, _} <- Places, T =/= Table] =:= [] andalso
                        (ets:info(Table, write_concurrency) =:= false orelse
                            [K || {_, K} <- Places, K =/= Key] =:= [])
                }
            };
        undefined ->
            #{}
    end;
writes(_Few) ->
    #{}.

-doc """
The modules that the code server loads, each with the number of times seen in 0.4 s at most, and in
a second: each time it writes an entry in its table.
""".
-spec reloads() -> [#{module := binary(), times := pos_integer(), per_s := number()}].
reloads() ->
    within(
        fun() ->
            [
                #{module => dyno_agent_name:module(M), times => length(Of), per_s => length(Of) / S}
             || {S, Calls} <- maps:values(called(?LOADED, [whereis(code_server)])),
                {M, Of} <- maps:to_list(
                    by_first([T || {_, {_, _, [_, {M, _} = T]}} <- Calls, is_atom(M)])
                )
            ]
        end,
        [],
        2 * ?TIMEOUT_MS
    ).

by_first(Pairs) ->
    maps:groups_from_list(fun({First, _}) -> First end, fun({_, Second}) -> Second end, Pairs).

%% A bound key, or the bound first part of an ordered key, spares reading the table.
is_whole(Function, _Table, []) ->
    Function =:= tab2list;
is_whole(Function, Table, [Pattern | _]) ->
    Heads =
        case lists:member(Function, ?MATCHES) of
            true -> [Pattern];
            false -> [Head || is_list(Pattern), {Head, _, _} <- Pattern]
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

%% With a queue: the callers, since a call monitors its server. Otherwise: monitors and dictionary,
%% if its memory is more than its heap (with a queue, memory includes the messages).
relations(Pid, Queue, _Words, _Links) when Queue > ?SOME ->
    case process_info(Pid, monitored_by) of
        {_, Pids} -> #{monitored_by => length([P || P <- Pids, is_pid(P)])};
        undefined -> #{}
    end;
relations(Pid, Queue, Words, Links) ->
    maybe
        {_, Bytes} ?= process_info(Pid, memory),
        More = Bytes - Words * erlang:system_info(wordsize),
        true ?= More > ?RELATION_BYTES,
        [{_, Monitors}, {_, By}] ?= process_info(Pid, [monitors, monitored_by]),
        Related = Links + length(Monitors) + length(By),
        maps:merge(
            #{monitors => length(Monitors), monitored => length(lists:uniq(Monitors))},
            %% The rest is the dictionary's table, of a word for each key and up to as many free
            %% ones, or messages.
            case (More - ?RELATION * Related) div erlang:system_info(wordsize) of
                Keys when Queue =:= 0, Keys > 0 -> #{dictionary => Keys};
                _ -> #{}
            end
        )
    else
        _ -> #{}
    end.

-doc """
Size of the binaries that each group of these processes refers to, as collections count them.
""".
-spec holders([pid()]) ->
    [#{group := binary(), processes := pos_integer(), bytes := non_neg_integer()}].
holders(Pids) ->
    Groups = by_first(
        each(
            fun(Pid) ->
                [
                    {dyno_agent_census:group(Pid), Words * erlang:system_info(wordsize)}
                 || {_, Info} <- [process_info(Pid, garbage_collection_info)],
                    Words <- [
                        proplists:get_value(bin_vheap_size, Info, 0) +
                            proplists:get_value(bin_old_vheap_size, Info, 0)
                    ]
                ]
            end,
            Pids
        )
    ),
    [
        #{group => Group, processes => length(Of), bytes => lists:sum(Of)}
     || Group := Of <- Groups
    ].

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
