%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_top).
-moduledoc """
Readings for `dyno top`: the whole node, and the view that is shown, since the previous reading.
Views of processes (the most active, their groups, applications, supervisors) are read here, others
in `m:dyno_agent_top_views`.

It sends no message to a process (only `state/2` does) and copies no mailbox. A process with more
than 1,000 messages is not asked for its memory, which takes time in proportion to the queue. Above
15,000 processes each reading covers another part and the previous rows; groups are estimates from
it.

## Cost
2 us for each process read, 15,000 at most; 5 us more for each new one; 1 ms besides. Sorted by
memory 3 us more.
""".

-behaviour(gen_server).

-export([start_link/1, take/3, detail/2, state/2]).
-export([init/1, handle_call/3, handle_cast/2]).
-export_type([ask/0, reading/0, row/0, group/0, view/0]).

-import(dyno_agent_top_views, [ranked/3]).

-type view() :: processes | applications | supervisors | dyno_agent_top_views:view().

-doc "The view, sort column, most rows, and a text that rows contain, of processes `app:NAME`.".
-type ask() :: #{view := view(), sort := atom(), most := pos_integer(), filter := binary()}.

-type reading() :: #{
    interval_ns := pos_integer(),
    %% The values of dyno_agent_vm and dyno_agent_os.
    values := #{binary() => number()},
    %% Processor time of the scheduler threads.
    threads := #{dyno_agent_threads:kind() => dyno_agent_threads:times()},
    limits := #{processes | ports | atoms | ets => {non_neg_integer(), pos_integer()}},
    facts := #{atom() => term()},
    processes := non_neg_integer(),
    view := view(),
    %% The number of the view's items, and the share that was read.
    count := non_neg_integer(),
    share := float(),
    rows := [row()] | [group()] | [dyno_agent_top_views:row()],
    groups := [group()] | [dyno_agent_top_views:row()],
    %% Of processes; a lower bound until all were read.
    longest_queue => {exact | at_least, non_neg_integer()},
    notes := [binary()],
    %% Scheduler time of this reading.
    took_us := non_neg_integer()
}.

-type row() :: #{
    pid := pid(),
    name := binary(),
    group := binary(),
    %% In the interval; unknown if not read before.
    reductions := non_neg_integer() | unknown,
    queue := non_neg_integer(),
    growth := integer() | unknown,
    memory := non_neg_integer() | unknown,
    status := atom(),
    %% The innermost function outside OTP's machinery, and the process waited for.
    at := binary(),
    waits_for := binary()
}.

-type group() :: #{
    group := binary(),
    count := non_neg_integer(),
    reductions := non_neg_integer(),
    queue := non_neg_integer(),
    growth := integer(),
    memory := non_neg_integer() | unknown
}.

-type known() :: non_neg_integer() | unknown.

%% The processes at the last reading.
-type seen() :: #{
    of_pid := #{
        pid() =>
            {Group :: binary(), non_neg_integer(), Queue :: non_neg_integer(), Memory :: known()}
    },
    %% In a large node: processes new in the last reading, those to read, and those of its rows.
    fresh := [pid()],
    later := dyno_agent_process_list:t() | none,
    kept := [pid()],
    %% Whether all processes were read once.
    all := boolean(),
    %% Whose memory is asked next.
    turn := non_neg_integer(),
    %% Of supervisors, while they are shown.
    children := #{pid() => [pid() | port()]}
}.

-type state() :: #{
    vm := dyno_agent_vm:raw(),
    os := dyno_agent_os:raw(),
    threads := dyno_agent_threads:t(),
    clocks := dyno_agent_threads:reading(),
    at_ns := integer(),
    shown := {view(), seen() | dyno_agent_top_views:seen()} | none
}.

%% New processes are dear: a node with some more is read as a whole.
-define(WHOLE, 15_000).
-define(PART, 10_000).
-define(MOST_KEPT, 200).
-define(MOST_GROUPS, 100).
-define(LONG_QUEUE, 1000).
-define(TIMEOUT_MS, 5000).
-define(MOST_SUPERVISORS, 200).
-define(SUPERVISOR_WORDS, 100_000).
-define(TURNS, 16).

-doc "Starts the process, linked; the first reading covers the time from now on.".
-spec start_link(#{}) -> gen_server:start_ret().
start_link(Config) -> gen_server:start_link(?MODULE, Config, []).

-doc "Takes a reading; `timeout` if the node is saturated or stopped.".
-spec take(pid(), ask(), timeout()) -> {ok, reading()} | {error, timeout | gone}.
take(Pid, Ask, TimeoutMs) -> asked(Pid, {take, Ask}, TimeoutMs).

-doc "Details of one process: stack, links, monitors, memory.".
-spec detail(pid(), pid()) -> {ok, #{atom() => term()}} | {error, timeout | gone}.
detail(Pid, Of) -> asked(Pid, {detail, Of}, ?TIMEOUT_MS).

-doc "The state of a server, in print, if `m:dyno_agent_top_process` asks it.".
-spec state(pid(), pid()) -> {ok, dyno_agent_top_process:state()} | {error, timeout | gone}.
state(Pid, Of) -> asked(Pid, {state, Of}, ?TIMEOUT_MS).

asked(Pid, Request, TimeoutMs) ->
    try
        {ok, gen_server:call(Pid, Request, TimeoutMs)}
    catch
        exit:{timeout, _} -> {error, timeout};
        exit:_ -> {error, gone}
    end.

-spec init(#{}) -> {ok, state()}.
init(#{}) ->
    proc_lib:set_label(?MODULE),
    ok = dyno_agent_process:unlimited(),
    ok = dyno_agent_vm:enable(),
    Threads = dyno_agent_threads:find(),
    {ok, #{
        vm => dyno_agent_vm:read(),
        os => dyno_agent_os:read(),
        threads => Threads,
        clocks => dyno_agent_threads:read(Threads),
        at_ns => erlang:monotonic_time(nanosecond),
        shown => none
    }}.

-spec handle_call({take, ask()} | {detail | state, pid()}, gen_server:from(), state()) ->
    {reply, reading() | #{atom() => term()} | dyno_agent_top_process:state(), state()}.
handle_call({take, Ask}, _From, State) ->
    {{Reading, Next}, TookUs} = dyno_agent_census:timed(fun() -> reading(Ask, State) end),
    {reply, Reading#{took_us => TookUs}, Next};
handle_call({detail, Of}, _From, State) ->
    Detail = fun() -> dyno_agent_top_process:detail(Of) end,
    {reply, dyno_agent_suspect:within(Detail, #{answered => false}), State};
handle_call({state, Of}, _From, State) ->
    Ask = fun() -> dyno_agent_top_process:state(Of) end,
    {reply, dyno_agent_suspect:within(Ask, {error, ~"it does not answer"}), State}.

-spec handle_cast(term(), state()) -> {noreply, state()}.
handle_cast(_Request, State) -> {noreply, State}.

reading(Ask, #{threads := Threads, clocks := Clocks0, at_ns := At0} = State) ->
    #{vm := Vm0, os := Os0} = State,
    {Vm, Os, Clocks} = {
        dyno_agent_vm:read(), dyno_agent_os:read(), dyno_agent_threads:read(Threads)
    },
    At = erlang:monotonic_time(nanosecond),
    {Content, Next} = content(Ask, State),
    Reading = Content#{
        view => map_get(view, Ask),
        processes => erlang:system_info(process_count),
        interval_ns => max(1, At - At0),
        values => maps:merge(
            dyno_agent_vm:difference(Vm0, Vm), dyno_agent_os:difference(Os0, Os)
        ),
        threads => dyno_agent_threads:between(Clocks0, Clocks),
        limits => #{
            processes => limit(process_count, process_limit),
            ports => limit(port_count, port_limit),
            atoms => limit(atom_count, atom_limit),
            ets => limit(ets_count, ets_limit)
        },
        facts => #{
            release => list_to_binary(erlang:system_info(otp_release)),
            schedulers => erlang:system_info(schedulers_online),
            dirty_cpu => erlang:system_info(dirty_cpu_schedulers_online),
            dirty_io => erlang:system_info(dirty_io_schedulers),
            up_ms => up_ms(),
            time_ms => erlang:system_time(millisecond)
        }
    },
    {Reading, Next#{vm := Vm, os := Os, clocks := Clocks, at_ns := At}}.

limit(Count, Limit) -> {erlang:system_info(Count), erlang:system_info(Limit)}.

up_ms() ->
    Native = erlang:monotonic_time() - erlang:system_info(start_time),
    erlang:convert_time_unit(Native, native, millisecond).

%% Only the shown view is read; it forgets the others.
content(#{view := View} = Ask, #{shown := Before} = State) ->
    Of =
        case lists:member(View, [applications, supervisors]) of
            true -> processes;
            false -> View
        end,
    {Content, Next} =
        case {Of, Before} of
            {processes, {processes, Seen}} ->
                processes(Ask, Seen);
            {processes, _} ->
                None = #{of_pid => #{}, fresh => [], later => none, kept => [], all => false},
                processes(Ask, None#{turn => 0, children => #{}});
            {_, {Of, Seen}} ->
                dyno_agent_top_views:read(View, Ask, Seen);
            {_, _} ->
                dyno_agent_top_views:read(View, Ask, dyno_agent_top_views:new())
        end,
    {Content, State#{shown := {Of, Next}}}.

%% The processes

processes(#{sort := Sort, filter := Filter} = Ask, #{of_pid := OfPid, kept := Kept} = Seen) ->
    {Pids, Fresh, Later, Count} = part(Seen),
    Own = [self() | dyno_agent_census:holders()],
    Read = read(lists:uniq(Kept ++ Pids) -- Own, measured(Ask, Seen), OfPid),
    Like = like(Filter, Read),
    Share = min(1.0, length(Pids) / max(1, Count)),
    All = Later =:= none orelse map_get(all, Seen),
    {Content, Children} = shown(Ask, Like, Share, Seen),
    {
        Content#{
            count => maps:get(count, Content, Count),
            share => Share,
            longest_queue => {
                if
                    All -> exact;
                    true -> at_least
                end,
                lists:max([0 | [Queue || #{queue := Queue} <- Read]])
            },
            notes => []
        },
        #{
            all => All,
            of_pid =>
                #{
                    Pid => {Group, Reductions, Queue, map_get(memory, Row)}
                 || Row <- Read,
                    #{pid := Pid, group := Group, total := Reductions, queue := Queue} <- [Row]
                },
            fresh => Fresh,
            later => Later,
            turn => (map_get(turn, Seen) + 1) rem ?TURNS,
            children => Children,
            %% In a large node the busiest are read again, whatever is shown.
            kept => [
                P
             || Fresh =/= [],
                Key <- [Sort, reductions, queue],
                #{pid := P} <- ranked(Key, 50, Read)
            ]
        }
    }.

shown(#{view := processes, sort := Sort, most := Most}, Rows, Share, _Seen) ->
    Standing = ranked(Sort, min(Most, ?MOST_KEPT), Rows),
    {#{rows => located(Standing), groups => groups(Sort, Share, Rows)}, #{}};
shown(#{view := applications, sort := Sort}, Rows, Share, _Seen) ->
    Masters = masters(),
    Groups = groups(Sort, Share, [Row#{group := application(Row, Masters)} || Row <- Rows]),
    Named = [Group#{name => Name} || #{group := Name} = Group <- Groups],
    {#{rows => Named, groups => [], count => length(Named)}, #{}};
shown(#{view := supervisors, sort := Sort, most := Most}, Rows, _Share, #{children := Before}) ->
    Masters = masters(),
    All = [
        {Row#{children => length(Links)}, Links}
     || #{pid := Pid, group := <<"supervisor:", _/binary>>} = Row <- Rows,
        [{_, Words}, {_, Links}] <- [process_info(Pid, [total_heap_size, links])],
        Words < ?SUPERVISOR_WORDS
    ],
    Read = lists:sublist(All, ?MOST_SUPERVISORS),
    Supervisors = ranked(Sort, Most, [
        maps:merge(
            Row#{application => application(Row, Masters)},
            replaced(Links, maps:get(Pid, Before, unknown))
        )
     || {#{pid := Pid} = Row, Links} <- Read
    ]),
    {
        #{
            rows => [maps:remove(total, Row#{name => title(Row)}) || Row <- Supervisors],
            groups => [],
            count => length(All)
        },
        #{Pid => Links || {#{pid := Pid}, Links} <- Read}
    }.

replaced(_Links, unknown) ->
    #{started => unknown, ended => unknown};
replaced(Links, Before) ->
    #{started => length(Links -- Before), ended => length(Before -- Links)}.

%% From the application controller's table: the group leader of an application's processes.
masters() ->
    #{Pid => Name || {{application_master, Name}, Pid} <- dyno_agent_services:table(ac_tab)}.

application(#{pid := Pid}, Masters) ->
    case process_info(Pid, group_leader) of
        {group_leader, Leader} -> atom_to_binary(maps:get(Leader, Masters, none));
        undefined -> ~"none"
    end.

like(~"", Rows) ->
    Rows;
like(<<"app:", Application/binary>>, Rows) ->
    Masters = masters(),
    [Row || Row <- Rows, application(Row, Masters) =:= Application];
like(Filter, Rows) ->
    [Row || Row <- Rows, is_like(Filter, Row)].

%% In a large node half of a reading repeats the previous processes, for differences.
part(#{later := Later, fresh := Fresh}) ->
    case erlang:system_info(process_count) of
        Count when Count =< ?WHOLE ->
            {All, _} = dyno_agent_process_list:next(2 * ?WHOLE, dyno_agent_process_list:first()),
            {All, [], none, length(All)};
        Count ->
            {New, Next} = dyno_agent_process_list:next(?PART div 2, continued(Later)),
            {lists:uniq(Fresh ++ New), New, Next, Count}
    end.

continued(none) -> dyno_agent_process_list:first();
continued(Later) -> Later.

%% Without dyno's own processes, whose work is in the last line of `dyno top`.
read(Pids, Measured, Seen) ->
    [
        Row
     || Pid <- Pids,
        #{group := Group} = Row <- one(Pid, Measured, maps:get(Pid, Seen, new)),
        not dyno_agent_census:is_own(Group)
    ].

%% Memory is the dear question: unless sorted by it, of a sixteenth of the processes, and of rows.
measured(#{sort := memory}, _Seen) -> fun(_Pid) -> true end;
measured(_Ask, #{turn := Turn}) -> fun(Pid) -> erlang:phash2(Pid, ?TURNS) =:= Turn end.

one(Pid, Measured, Before) ->
    case process_info(Pid, [message_queue_len, reductions, status]) of
        undefined ->
            [];
        [{_, Queue}, {_, Reductions}, {_, Status}] ->
            Row = #{pid => Pid, queue => Queue, total => Reductions, status => Status},
            Memory = hd([memory(Pid, Queue) || Measured(Pid)] ++ [unknown]),
            [since(Before, Row#{memory => Memory})]
    end.

memory(_Pid, Queue) when Queue > ?LONG_QUEUE -> unknown;
memory(Pid, _Queue) ->
    case process_info(Pid, memory) of
        {memory, Bytes} -> Bytes;
        undefined -> unknown
    end.

since(new, #{pid := Pid} = Row) ->
    Row#{group => dyno_agent_census:group(Pid), reductions => unknown, growth => unknown};
since({Group, Reductions, Queue, Memory}, #{total := Total, queue := Now} = Row) ->
    Known =
        case Row of
            #{memory := unknown} when Now =< ?LONG_QUEUE -> Memory;
            #{memory := Asked} -> Asked
        end,
    Row#{
        group => Group,
        reductions => Total - Reductions,
        growth => Now - Queue,
        memory := Known
    }.

is_like(Filter, #{group := Group, pid := Pid}) ->
    string:find(Group, Filter) =/= nomatch orelse
        case process_info(Pid, registered_name) of
            {registered_name, Name} -> string:find(atom_to_binary(Name), Filter) =/= nomatch;
            _ -> false
        end.

located(Rows) ->
    Pids = [Pid || #{pid := Pid} <- Rows],
    Stacks = maps:from_list(dyno_agent_suspect:functions(Pids)),
    Calls = maps:from_list([
        {From, Name}
     || #{from := From, to_name := Name} <- dyno_agent_suspect:calls(maps:to_list(Stacks))
    ]),
    [
        maps:remove(total, Row#{
            name => title(Row),
            memory := memory(Pid, Queue),
            at => place(maps:get(Pid, Stacks, [])),
            waits_for => maps:get(dyno_agent_census:pid(Pid), Calls, ~"")
        })
     || #{pid := Pid, queue := Queue} = Row <- Rows
    ].

title(#{pid := Pid, group := Group}) ->
    case process_info(Pid, [registered_name, {dictionary, '$process_label'}]) of
        [{_, Name}, _] when is_atom(Name) -> atom_to_binary(Name);
        [_, {_, Label}] when Label =/= undefined -> dyno_agent_census:text("~0tp", [Label]);
        _ -> Group
    end.

place([]) ->
    ~"";
place([Top | _] = Stack) ->
    dyno_agent_name:mfa(hd([MFA || {M, _, _} = MFA <- Stack, not is_machinery(M)] ++ [Top])).

is_machinery(Module) ->
    lists:member(Module, [gen, gen_server, gen_statem, gen_event, proc_lib, erlang, timer, lists]).

groups(Sort, Share, Rows) ->
    Scale = fun(N) -> round(N / max(1.0e-9, Share)) end,
    Groups = [
        #{
            group => Name,
            count => Scale(length(Of)),
            reductions => Scale(lists:sum(known(reductions, Of))),
            queue => Scale(lists:sum(known(queue, Of))),
            growth => Scale(lists:sum(known(growth, Of))),
            memory => memory_of(known(memory, Of), Scale(length(Of)))
        }
     || Name := Of <- maps:groups_from_list(fun(#{group := Name}) -> Name end, Rows)
    ],
    ranked(Sort, ?MOST_GROUPS, Groups).

known(Key, Rows) -> [N || #{Key := N} <- Rows, is_integer(N)].

%% The known ones stand for all of the group.
memory_of([], _Count) -> unknown;
memory_of(Known, Count) -> round(lists:sum(Known) * Count / length(Known)).
