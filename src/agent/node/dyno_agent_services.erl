%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_services).
-moduledoc """
Reads, for a look, what the node's own services say of themselves: log handlers, applications,
Mnesia, connections to other nodes, and who traces. All but the other nodes' views are read
from tables, without a message to a process.
""".

-include_lib("kernel/include/file.hrl").

-export([read/0, table/1, breakpoints/0, sessions/0]).

-define(MOST_NODES, 20).
-define(ANSWER_MS, 800).
-define(BREAKPOINTS_MS, 2000).
-define(MOST_NAMED, 5).
-define(MOST_LOGS, 50).
-define(MOST_LOCKS, 20).
-define(MOST_ROWS, 10_000).

-doc "All services; unreadable ones are left out.".
-spec read() -> #{atom() => term()}.
read() ->
    #{
        handlers => handlers(),
        bursts => bursts(),
        log_files => log_files(),
        disk_logs => disk_logs(),
        logging => is_logging(),
        overloaded => overloaded(),
        transaction_locks => transaction_locks(),
        applications => applications(),
        starting => starting(),
        connections => connections(),
        views => views(),
        tracing => tracing(),
        emulator => emulator()
    }.

%% The overload protection of a handler keeps its mode where loggers read it.
handlers() ->
    Names = [
        atom_to_list(Module) ++ "_" ++ atom_to_list(Id)
     || #{id := Id, module := Module} <- logger:get_handler_config()
    ],
    [
        #{name => list_to_binary(Name), mode => Mode}
     || Name <- ["logger_proxy" | Names],
        {ok, Atom} <- [existing(Name)],
        Mode <- [persistent_term:get({logger_olp, Atom}, unknown)],
        Mode =/= unknown
    ].

%% Handlers that write at most so many events in a time, and drop the others.
bursts() ->
    [
        #{name => Id, most_per_s => 1000 * Count div Ms}
     || #{id := Id, config := #{burst_limit_enable := true} = Of} <- logger:get_handler_config(),
        #{burst_limit_max_count := Count, burst_limit_window_time := Ms} <- [Of]
    ].

%% Elsewhere, error messages are in no log.
is_logging() ->
    is_pid(whereis(logger)) andalso logger:get_handler_ids() =/= [] andalso
        is_pid(whereis(logger_sup)).

%% The work of handlers that write to regular files, and the files' sizes.
log_files() ->
    dyno_agent_suspect:within(
        fun() ->
            [
                #{
                    name => unicode:characters_to_binary(Path),
                    bytes => Bytes,
                    reductions => Reductions
                }
             || #{id := Id, module := logger_std_h, config := #{file := Path}} <-
                    logger:get_handler_config(),
                {ok, #file_info{type = regular, size = Bytes}} <- [
                    file:read_file_info(Path, [raw])
                ],
                {ok, Name} <- [existing("logger_std_h_" ++ atom_to_list(Id))],
                {reductions, Reductions} <- [process_info(whereis(Name), reductions)]
            ]
        end,
        []
    ).

%% The same of disk logs that can be written, by the record in their dictionary.
disk_logs() ->
    dyno_agent_suspect:within(
        fun() ->
            [
                #{
                    name => unicode:characters_to_binary(File),
                    bytes => lists:sum([
                        Bytes
                     || Path <- [File | parts(element(8, Log), File)],
                        {ok, #file_info{size = Bytes}} <- [file:read_file_info(Path, [raw])]
                    ]),
                    reductions => Reductions
                }
             || {_, Pid} <- lists:sublist(table(disk_log_names), ?MOST_LOGS),
                [{reductions, Reductions}, {_, Log}] <- [
                    process_info(Pid, [reductions, {dictionary, log}])
                ],
                is_record(Log, log, 15),
                element(12, Log) =:= read_write,
                [_ | _] = File <- [element(6, Log)]
            ]
        end,
        []
    ).

parts(halt, _File) ->
    [];
parts(_Several, File) ->
    Prefix = filename:basename(File) ++ ".",
    case prim_file:list_dir(filename:dirname(File)) of
        {ok, Names} ->
            [filename:join(filename:dirname(File), N) || N <- Names, lists:prefix(Prefix, N)];
        {error, _} ->
            []
    end.

existing(Name) ->
    try
        {ok, list_to_existing_atom(Name)}
    catch
        error:badarg -> none
    end.

%% Mnesia's own judgement: its log is dumped more slowly than written, or its queue is long.
overloaded() ->
    try
        [
            Of
         || Of <- [mnesia_tm, mnesia_dump_log],
            [{_, true}] <- [ets:lookup(mnesia_gvar, {overload, Of})]
        ]
    catch
        error:badarg -> []
    end.

%% Some write locks of Mnesia's transactions.
transaction_locks() ->
    try
        ets:select(mnesia_tid_locks, [{{{tid, '$1', '$2'}, '$3', write}, [], ['$$']}], ?MOST_LOCKS)
    of
        {Rows, _} ->
            [
                #{
                    transaction => N,
                    table => dyno_agent_census:text("~0tP", [Table, 10]),
                    name => dyno_agent_census:name(Pid),
                    stack => dyno_agent_suspect:frames(Stack)
                }
             || [N, Pid, {Table, _}] <- Rows, {_, Stack} <- dyno_agent_suspect:functions([Pid])
            ];
        '$end_of_table' ->
            []
    catch
        error:badarg -> []
    end.

%% Applications with a process that are loaded but do not run, and those that run and need them.
applications() ->
    Loaded = [
        App
     || {{loaded, App}, _} <- table(ac_tab), {ok, {_, _}} <- [application:get_key(App, mod)]
    ],
    {Running, Stopped} = lists:partition(
        fun(App) -> ets:member(ac_tab, {application_master, App}) end, Loaded
    ),
    %% The supervisor of another application starts an included one.
    Others = Stopped -- lists:append([key(App, included_applications) || App <- Running]),
    [
        #{
            name => App,
            needed_by => [
                By
             || By <- Running,
                lists:member(App, key(By, applications) -- key(By, optional_applications))
            ]
        }
     || App <- Others
    ].

%% Until its start function returns, its master waits there.
starting() ->
    Masters = #{Pid => App || {{application_master, App}, Pid} <- table(ac_tab)},
    [
        maps:get(Pid, Masters)
     || {Pid, [{application_master, init_loop, _} | _]} <- dyno_agent_suspect:functions(
            maps:keys(Masters)
        )
    ].

key(App, Key) ->
    case application:get_key(App, Key) of
        {ok, Apps} -> Apps;
        undefined -> []
    end.

-doc "The rows of a table, but not of a very large one; none without it.".
-spec table(atom()) -> [tuple()].
%% By a function that is not counted.
table(Name) ->
    try ets:match_object(Name, '$1', ?MOST_ROWS) of
        {Rows, _} -> Rows;
        '$end_of_table' -> []
    catch
        error:badarg -> []
    end.

connections() ->
    [
        #{node => element(2, Connection), state => element(4, Connection)}
     || Connection <- table(sys_dist), tuple_size(Connection) > 4, is_atom(element(4, Connection))
    ].

%% The nodes that each connected node sees; `none` without an answer.
views() ->
    case {nodes(), application:get_env(kernel, connect_all, true)} of
        {[_ | _] = Nodes, true} when length(Nodes) =< ?MOST_NODES ->
            dyno_agent_suspect:within(fun() -> views(Nodes) end, [], 2 * ?ANSWER_MS);
        _ ->
            []
    end.

views(Nodes) ->
    [
        case Answer of
            {ok, Of} -> #{node => Node, sees => Of};
            _ -> #{node => Node, sees => none}
        end
     || {Node, Answer} <- lists:zip(
            Nodes, erpc:multicall(Nodes, erlang, nodes, [], ?ANSWER_MS)
        )
    ].

%% By the functions of old; dyno has sessions of its own.
tracing() ->
    Set = [
        {tracer, element(2, erlang:trace_info(new, tracer))},
        {system_profile, erlang:system_profile()},
        {dbg, whereis(dbg)}
    ],
    [atom_to_binary(What) || {What, Is} <- Set, Is =/= [], Is =/= undefined] ++
        [<<"session ", Name/binary>> || Name <- sessions(), Name =/= ~"dbg"].

%% The type is opaque, but OTP has no other way to a session's name.
-dialyzer({no_opaque, sessions/0}).

-doc "The names of other programs' trace sessions.".
-spec sessions() -> [binary()].
sessions() ->
    [
        Text
     || {Name, _} <- trace:session_info(all),
        Name =/= legacy,
        Name =/= default,
        Text <- [atom_to_binary(Name)],
        string:prefix(Text, ~"dyno_") =:= nomatch
    ].

-doc "Functions with breakpoints of tracers outside of sessions: their number, and some names.".
-spec breakpoints() -> #{count := non_neg_integer(), names := [binary()]}.
breakpoints() ->
    dyno_agent_suspect:within(
        fun() ->
            Found = [
                {M, F, A}
             || M <- dyno_agent_patterns:loaded(),
                {F, A} <- functions(M),
                {all, [_ | _]} <- [erlang:trace_info({M, F, A}, all)]
            ],
            #{
                count => length(Found),
                names => [dyno_agent_name:mfa(F) || F <- lists:sublist(Found, ?MOST_NAMED)]
            }
        end,
        #{count => 0, names => []},
        ?BREAKPOINTS_MS
    ).

%% A module may be unloaded meanwhile.
functions(M) ->
    try
        erlang:get_module_info(M, functions)
    catch
        error:_ -> []
    end.

emulator() ->
    #{
        type => erlang:system_info(emu_type),
        flavor => erlang:system_info(emu_flavor),
        multi_scheduling => erlang:system_info(multi_scheduling),
        all_schedulers => erlang:system_info(schedulers)
    }.
