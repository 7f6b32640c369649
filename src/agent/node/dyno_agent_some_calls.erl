%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_some_calls).
-moduledoc """
Traces a few processes for at most 0.4 s, to see the arguments of their calls: how they look at
themselves, which tables they use, what they set, which modules the code server loads, what
intervals run, which calls fail, what they log. Some functions are counted in all processes.
""".

-export([inspections/1, tables/1, setters/1, reloads/0, intervals/1]).
-export([count/1, counts/1, often/0, failures/1, log_events/1, atom_makers/1, tidy/2]).
-export([scans/1, listings/1, searches/1, long_runs/0]).

-import(dyno_agent_suspect, [within/3]).

-define(TIMEOUT_MS, 1000).
-define(TRACED_MS, 400).
-define(COUNTED_MS, 100).
-define(MOST_TRACED, 2000).
-define(ENOUGH_CALLS, 12).
-define(MANY_INTERVALS, 500).
-define(SOME_INTERVALS, 24).
-define(MANY_ROWS, 1000).
-define(SOME_SET, 4).
-define(LONG_MS, 20).
%% What they set stays until a time, or until a process ends.
-define(SETTERS, [{erlang, send_after, 3}, {erlang, start_timer, 3}, {erlang, monitor, 2}]).
%% Of the code server: a module that it loads, and one that it looks for.
-define(LOADED, [{{ets, insert, 2}, true}, {{erl_prim_loader, is_basename, 1}, true}]).
-define(TIMERS, [{erlang, F, A} || F <- [send_after, start_timer], A <- [3, 4]]).
-define(SEARCHES, [
    {lists, member, 2} | [{lists, F, 3} || F <- [keyfind, keymember, keysearch]]
]).
%% If they are called more often, to see their lists would take long, and most are short.
-define(MOST_SEARCHES, 20_000).
-define(LONG_LIST, 10_000).
-define(LISTS, [{erlang, processes, 0}]).
-define(TERMS, [{persistent_term, put, 2}, {persistent_term, erase, 1}]).
%% Of a child that must be there: permanent, or transient and not ended as it should.
-define(RESTARTS, [{supervisor, add_restart, 1}, {'Elixir.DynamicSupervisor', add_restart, 1}]).
%% A failed call of a server makes two such calls.
-define(EXIT, {erlang, exit, 1}).
-define(LOG, {logger_backend, log_allowed, 3}).
-define(ATOMS, [{erlang, list_to_atom, 1} | [{erlang, binary_to_atom, A} || A <- [1, 2]]]).
-define(COLLECT, [{erlang, garbage_collect, 0}, {erlang, garbage_collect, 1}]).
%% The runtime counts no calls of erlang:hibernate itself.
-define(HIBERNATE, [{proc_lib, hibernate, 3}, {gen_server, loop_hibernate, 4}]).
-define(COUNTED, [
    {exits, [?EXIT]},
    {logged, [?LOG]},
    {collects, ?COLLECT},
    {hibernates, ?HIBERNATE},
    {restarts, ?RESTARTS},
    {scanned, ?SCANS},
    %% To other nodes, and modules.
    {connects, [{erlang, setnode, 3}]},
    {loads, [{erlang, finish_loading, 1}]},
    {listed, ?LISTS},
    {term_changes, ?TERMS}
]).
-define(COUNT_MS, 300).
-define(MOST_TOLD, 300).
-define(SOME_TOLD, 3).
-define(CALLER, [{'_', [], [{message, {caller}}]}]).
-define(WRITES, [insert, insert_new, delete, update_counter, update_element]).
-define(SCANS, [
    {ets, F, A}
 || {A, Of} <- [
        {1, [tab2list]},
        {2, [match, match_object, match_delete, select, select_count, select_delete]},
        {3, [foldl, foldr]}
    ],
    F <- Of
]).
%% The table, the pattern, and who calls.
-define(SCAN, [
    {['$1'], [], [{message, {{'$1', '_', {caller}}}}]},
    {['$1', '$2'], [], [{message, {{'$1', '$2', {caller}}}}]},
    {['_', '_', '$1'], [], [{message, {{'$1', '_', {caller}}}}]}
]).
-define(FEW_PROCESSES, 5000).

-doc "The keys of itself that each process reads by `process_info/2`, and how often a second.".
-spec inspections([pid()]) -> #{pid() => #{inspects := #{item := binary(), per_s := number()}}}.
inspections(Pids) ->
    of_calls([{{erlang, process_info, 2}, true}], Pids, #{}, fun inspected/1).

inspected(Called) ->
    #{
        Pid => #{
            inspects => #{
                item => dyno_agent_census:text("~0tP", [hd(Items), 6]), per_s => length(Items) / S
            }
        }
     || Pid := {S, Calls} <- Called,
        [_ | _] = Items <- [[Item || {_, {_, _, [Of, Item]}} <- Calls, Of =:= Pid]]
    }.

%% What is read from traced calls, unless there is no time for that.
of_calls(_Functions, [], _Otherwise, Read) ->
    Read(#{});
of_calls(Functions, Pids, Otherwise, Read) ->
    within(fun() -> Read(called(Functions, Pids)) end, Otherwise, 2 * ?TIMEOUT_MS).

%% The first calls of these functions by each of these processes, with times, and the seconds.
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

-doc "How each process writes ETS tables; `late` if the node is too busy for that.".
-spec tables([pid()]) ->
    #{
        %% The median time from one write to the next, and whether they exclude each other.
        pid() => #{writes => #{table := binary(), gap_us := number(), locks := boolean()}}
    }
    | late.
tables(Pids) ->
    of_calls([{{ets, F, '_'}, true} || F <- ?WRITES], Pids, late, fun(Called) ->
        #{
            Pid => writes([{Ns, Write} || {Ns, Call} <- Calls, Write <- written(Call)])
         || Pid := {_, Calls} <- Called
        }
    end).

-doc """
Which tables are read whole, by which functions and callers, the most frequent first; with their
share of all calls of such functions. In a small node all processes are traced.
""".
-spec scans([pid()]) ->
    [
        #{
            function | caller | table := binary(),
            rows := pos_integer(),
            share := float()
        }
    ].
scans(Pids) ->
    %% One function calls the other.
    Calls = [
        {F, What}
     || {_, F, {_, _, Caller} = What} <- told(?SCANS, ?SCAN, all_of(Pids)),
        Caller =/= {ets, tab2list, 1}
    ],
    [
        #{
            function => printed(Function),
            caller => printed(Caller),
            table => dyno_agent_name:module(ets:info(Table, name)),
            rows => Rows,
            share => N / length(Calls)
        }
     || {N, {Table, Function, Caller}} <- most([
            {Table, F, Caller}
         || {{_, Name, _} = F, {Table, Pattern, Caller}} <- Calls, is_whole(Name, Table, Pattern)
        ]),
        Rows <- [ets:info(Table, size)],
        is_integer(Rows),
        Rows > ?MANY_ROWS
    ].

%% In a large node only some processes, and those that start meanwhile.
all_of(Pids) ->
    case erlang:system_info(process_count) < ?FEW_PROCESSES of
        true -> [all];
        false -> [new | Pids]
    end.

-doc "The functions that list all processes, the most frequent first.".
-spec listings([pid()]) -> [#{caller := binary(), times := pos_integer()}].
listings(Pids) ->
    [
        #{caller => printed(Caller), times => N}
     || {N, Caller} <- most([C || {_, _, C} <- told(?LISTS, ?CALLER, all_of(Pids))])
    ].

-doc """
The functions that search long lists, with their callers, the elements of all lists of a caller, and
the time in which they were seen.
""".
-spec searches([pid()]) ->
    [#{function | caller := binary(), elements | longest | ms := pos_integer()}].
searches(Pids) ->
    {S, Counts} = within(fun() -> for_a_while(?COUNTED_MS, ?SEARCHES) end, {1, []}, ?TIMEOUT_MS),
    PerS = lists:sum(Counts) / S,
    case PerS > 0 andalso PerS < ?MOST_SEARCHES of
        true -> long_lists(Pids);
        false -> []
    end.

long_lists(Pids) ->
    Spec = [
        {Head, [{'>', {length, '$1'}, ?LONG_LIST}], [{message, {{{length, '$1'}, {caller}}}}]}
     || Head <- [['_', '$1'], ['_', '_', '$1']]
    ],
    Began = erlang:monotonic_time(millisecond),
    Told = told(?SEARCHES, Spec, all_of(Pids)),
    Ms = max(1, erlang:monotonic_time(millisecond) - Began),
    Groups = maps:groups_from_list(
        fun({_, F, {_, Caller}}) -> {F, Caller} end, fun({_, _, {N, _}}) -> N end, Told
    ),
    [
        #{
            function => printed(F),
            caller => printed(Caller),
            elements => lists:sum(Of),
            longest => lists:max(Of),
            ms => Ms
        }
     || {F, Caller} := Of <- Groups
    ].

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

-doc "The function with which each process sets most timers or monitors, and how often a second.".
-spec setters([pid()]) -> #{pid() => #{sets := #{function := binary(), per_s := number()}}}.
setters(Pids) ->
    of_calls([{F, true} || F <- ?SETTERS], Pids, #{}, fun(Called) ->
        #{
            Pid => #{sets => #{function => dyno_agent_name:mfa(Of), per_s => N / S}}
         || Pid := {S, Calls} <- Called,
            Set <- [[{M, F, length(As)} || {_, {M, F, As}} <- Calls]],
            {N, Of} <- [lists:max([{length([F || F <- Set, F =:= Is]), Is} || Is <- Set])],
            N >= ?SOME_SET
        }
    end).

-doc "The processes that ran for 20 ms and more without a pause, and their most milliseconds.".
-spec long_runs() -> #{pid() => pos_integer()}.
long_runs() ->
    within(
        fun() ->
            Session = trace:session_create(?MODULE, self(), []),
            _ = trace:process(Session, existing, true, [running, monotonic_timestamp]),
            EndsMs = erlang:monotonic_time(millisecond) + ?TRACED_MS,
            Runs = dyno_agent_census:waited(fun() -> runs(EndsMs, ?MOST_TRACED, #{}, #{}) end),
            true = trace:session_destroy(Session),
            Runs
        end,
        #{},
        2 * ?TIMEOUT_MS
    ).

runs(_EndsMs, 0, _Since, Runs) ->
    Runs;
runs(EndsMs, Left, Since, Runs) ->
    receive
        {trace_ts, Pid, in, _, Ns} ->
            runs(EndsMs, Left - 1, Since#{Pid => Ns}, Runs);
        {trace_ts, Pid, out, _, Ns} ->
            case (Ns - maps:get(Pid, Since, Ns)) div 1_000_000 of
                Ms when Ms >= ?LONG_MS ->
                    runs(EndsMs, Left - 1, Since, Runs#{Pid => max(Ms, maps:get(Pid, Runs, 0))});
                _ ->
                    runs(EndsMs, Left - 1, Since, Runs)
            end;
        {trace_ts, _, _, _, _} ->
            runs(EndsMs, Left - 1, Since, Runs)
    after max(0, EndsMs - erlang:monotonic_time(millisecond)) -> Runs
    end.

-doc "How often a second any process sets a timer; empty if not known.".
-spec often() -> #{timers => number()}.
often() ->
    within(
        fun() ->
            {S, Counts} = for_a_while(?TRACED_MS, ?TIMERS),
            #{timers => lists:sum(Counts) / S}
        end,
        #{},
        ?TIMEOUT_MS
    ).

for_a_while(ForMs, Functions) ->
    Session = counting(Functions),
    try
        Began = erlang:monotonic_time(millisecond),
        ok = dyno_agent_census:pause(ForMs),
        Counts = counted(Session, Functions),
        {(erlang:monotonic_time(millisecond) - Began) / 1000, Counts}
    after
        trace:session_destroy(Session)
    end.

counting(Functions) ->
    Session = trace:session_create(?MODULE, self(), []),
    _ = [trace:function(Session, F, true, [call_count]) || F <- Functions],
    Session.

counted(Session, Functions) ->
    [
        case trace:info(Session, F, call_count) of
            {call_count, N} when is_integer(N) -> N;
            _ -> 0
        end
     || F <- Functions
    ].

-doc "Counts calls of all processes until the caller ends, but none whose breakpoint takes long.".
-spec count(boolean()) -> trace:session().
count(Breakpoints) ->
    Session = trace:session_create(?MODULE, self(), []),
    Set = fun(F, _) -> trace:function(Session, F, true, [call_count]) end,
    All = lists:append([Functions || Breakpoints, {_, Functions} <- ?COUNTED]),
    _ = dyno_agent_process:within(?COUNT_MS, Set, 0, All),
    Session.

-doc "The counts since then; `null` if not known.".
-spec counts(trace:session()) -> #{atom() => non_neg_integer() | null}.
counts(Session) ->
    #{
        Key =>
            case [N || F <- Functions, {call_count, N} <- [trace:info(Session, F, call_count)]] of
                Counts when length(Counts) < length(Functions) -> null;
                Counts -> sum(Counts)
            end
     || {Key, Functions} <- ?COUNTED
    }.

%% A function that does not exist is not called.
sum(Counts) ->
    case lists:member(false, Counts) of
        true -> null;
        false -> lists:sum([N || N <- Counts, is_integer(N)])
    end.

-doc "The servers of these processes' calls that fail, and why, the most frequent first.".
-spec failures([pid()]) -> [#{server | why := binary(), times := pos_integer()}].
failures(Pids) ->
    Spec = [
        {[{Why, {'_', call, ['$1' | More]}}], [{is_atom, '$2'}], [{message, {{'$1', '$2'}}}]}
     || Why <- ['$2', {'$2', '_'}], More <- [['_'], ['_', '_']]
    ],
    [
        #{server => server(Server), why => atom_to_binary(Why), times => N}
     || {N, {_, {Server, Why}}} <- most([{F, What} || {_, F, What} <- told([?EXIT], Spec, Pids)])
    ].

server(Pid) when is_pid(Pid) -> dyno_agent_census:name(Pid);
server({Name, Node}) when Node =:= node() -> server(Name);
server(Name) -> dyno_agent_census:text("~0tP", [Name, 10]).

-doc "The levels and functions of log events of these processes, the most frequent first.".
-spec log_events([pid()]) -> [#{level | function := binary(), times := pos_integer()}].
log_events(Pids) ->
    Spec = [
        {[#{level => '$1', meta => #{mfa => '$2'}}, '_', '_'], [], [{message, {{'$1', '$2'}}}]},
        {[#{level => '$1'}, '_', '_'], [], [{message, {{'$1', none}}}]}
    ],
    [
        #{level => atom_to_binary(Level), function => printed(Function), times => N}
     || {N, {Level, Function}} <- most([What || {_, _, What} <- told([?LOG], Spec, Pids)])
    ].

printed({M, F, A}) -> dyno_agent_name:mfa({M, F, A});
printed(_) -> ~"".

-doc "The functions that these processes make atoms with, and their callers.".
-spec atom_makers([pid()]) -> [#{function | caller := binary(), times := pos_integer()}].
atom_makers(Pids) ->
    [
        #{function => printed(Function), caller => printed(Caller), times => N}
     || {N, {Function, Caller}} <- most([{F, C} || {_, F, C} <- told(?ATOMS, ?CALLER, Pids)])
    ].

-doc "Which of these processes call for a collection or hibernate, the most frequent first.".
-spec tidy(collects | hibernates, [pid()]) ->
    [
        #{name | group | caller := binary(), times := pos_integer(), bytes := non_neg_integer()}
    ].
tidy(Kind, Pids) ->
    {_, Functions} = lists:keyfind(Kind, 1, ?COUNTED),
    [
        #{
            name => dyno_agent_census:name(Pid),
            group => dyno_agent_census:group(Pid),
            caller => printed(Caller),
            times => N,
            bytes => Words * erlang:system_info(wordsize)
        }
     || {N, {Pid, Caller}} <- most([{Pid, C} || {Pid, _, C} <- told(Functions, ?CALLER, Pids)]),
        {_, Words} <- [process_info(Pid, total_heap_size)]
    ].

most(Items) ->
    Counts = [{length(Ns), Of} || Of := Ns <- counted(Items)],
    lists:sublist(lists:reverse(lists:sort(Counts)), ?SOME_TOLD).

%% A process, its call, and what the match specification says of it, without the arguments.
told(Functions, Spec, Pids) ->
    within(
        fun() ->
            Session = trace:session_create(?MODULE, self(), []),
            _ = [trace:function(Session, F, Spec, [local]) || F <- Functions],
            _ = [traced(Session, Pid) || Pid <- Pids],
            EndsMs = erlang:monotonic_time(millisecond) + ?TRACED_MS,
            Of = dyno_agent_census:waited(fun() -> told(EndsMs, ?MOST_TOLD) end),
            true = trace:session_destroy(Session),
            Of
        end,
        [],
        2 * ?TIMEOUT_MS
    ).

traced(Session, Pid) ->
    try
        trace:process(Session, Pid, true, [call, arity])
    catch
        error:badarg -> 0
    end.

told(_EndsMs, 0) ->
    [];
told(EndsMs, Left) ->
    receive
        {trace, Pid, call, Function, What} -> [{Pid, Function, What} | told(EndsMs, Left - 1)]
    after max(0, EndsMs - erlang:monotonic_time(millisecond)) -> []
    end.

-doc "The modules that the code server loads, or looks for in vain (`is_missing`).".
-spec reloads() ->
    [
        #{
            module := binary(),
            times := pos_integer(),
            per_s := number(),
            is_missing := boolean()
        }
    ].
reloads() ->
    of_calls(?LOADED, [whereis(code_server)], [], fun(Called) ->
        [
            #{
                module => Module,
                times => length(Of),
                per_s => length(Of) / S,
                is_missing => IsMissing
            }
         || {S, Calls} <- maps:values(Called),
            {IsMissing, Modules} <- [
                {false, [
                    dyno_agent_name:module(M)
                 || {_, {ets, _, [_, {M, _}]}} <- Calls, is_atom(M)
                ]},
                {true, [
                    unicode:characters_to_binary(Name)
                 || {_, {erl_prim_loader, _, [Name]}} <- Calls, not is_loaded(Name)
                ]}
            ],
            {Module, Of} <- maps:to_list(counted(Modules))
        ]
    end).

-doc "The functions that many intervals of the module timer run, the most frequent first.".
-spec intervals([pid()]) -> [binary()].
intervals(Loops) when length(Loops) < ?MANY_INTERVALS ->
    [];
intervals(Loops) ->
    Some = lists:sublist(Loops, ?SOME_INTERVALS),
    of_calls([{{erlang, spawn, 3}, true}], Some, [], fun(Called) ->
        Run = [{M, F, length(A)} || _ := {_, Calls} <- Called, {_, {_, _, [M, F, A]}} <- Calls],
        Counts = [{length(Ns), Of} || Of := Ns <- counted(Run)],
        [dyno_agent_name:mfa(Of) || {_, Of} <- lists:reverse(lists:sort(Counts))]
    end).

is_loaded(Name) ->
    try
        erlang:module_loaded(list_to_existing_atom(Name))
    catch
        error:badarg -> false
    end.

counted(Items) -> maps:groups_from_list(fun(Of) -> Of end, Items).

%% A bound key, or the bound first part of an ordered key, spares reading the table.
is_whole(Function, Table, Pattern) ->
    Heads =
        case Function of
            _ when Function =:= match; Function =:= match_object; Function =:= match_delete ->
                [Pattern];
            _ when is_list(Pattern) ->
                [Head || {Head, _, _} <- Pattern];
            _ ->
                ['_']
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
