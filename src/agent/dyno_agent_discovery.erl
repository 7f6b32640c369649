%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_discovery).
-moduledoc """
Finds the processes that call the measured functions, groups them and follows what they take.

In a trace session of its own the first matching call of a process sends one message and switches
the process's `call` flag off in that session: afterwards a call costs it
no more than any breakpoint does, 2 to 6 ns, however many processes there are (doc/measurements.md).

A group is a registered name, a process label, an initial call, or, where the process was already
gone, the call that revealed it. At each interval the memory, reductions and message queue of the
processes that are alive are read; of those that died the last known figures are kept.
""".

-behaviour(gen_server).

-export([start_link/1, restart/1, read/1, table/1, group_of/2, harvester/2]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2, terminate/2]).
-export_type([config/0, group/0, group_figures/0, figures/0]).

-type config() :: #{
    patterns := [dyno_agent_patterns:pattern()],
    %% How often the processes are looked at.
    interval_ms := pos_integer(),
    %% Discovery ends when so many are known; the figures then say so.
    max_processes => pos_integer()
}.

-doc "What a group of processes has in common.".
-type group() ::
    {registered, atom()}
    | {label, term()}
    | {initial_call, mfa()}
    | {first_call, mfa()}
    | other.

-type group_figures() :: #{
    group := group(),
    discovered := pos_integer(),
    alive := non_neg_integer(),
    memory_bytes := non_neg_integer(),
    %% The largest sum over the group's processes at one look.
    memory_max_bytes := non_neg_integer(),
    %% Since the restart or, for a later process, since it was discovered.
    reductions := non_neg_integer(),
    message_queue_max := non_neg_integer()
}.

-type figures() :: #{
    groups := [group_figures()],
    discovered := non_neg_integer(),
    %% The limit was reached: later processes are not known.
    truncated := boolean()
}.

-type state() :: #{
    session := trace:session() | undefined,
    patterns := [dyno_agent_patterns:pattern()],
    interval_ms := pos_integer(),
    max_processes := pos_integer(),
    %% {Pid, Group}: stays when the process dies, until its calls have been harvested.
    table := ets:table(),
    discovered := non_neg_integer(),
    harvester := pid() | undefined,
    %% Discovered since the last harvest began; the dead since then, and before.
    new := non_neg_integer(),
    dead := [pid()],
    harvesting := idle | {reference(), [pid()]},
    harvested_ms := integer(),
    %% {Pid, Group, ReductionsAtFirst, ReductionsNow, Memory, unseen | new | settled}: the living.
    %% Many a process names itself only after its first calls: at the first look it is asked again.
    living := ets:table(),
    groups := #{group() => aggregate()},
    %% A look that is under way: where it stands, and the memory found so far by group.
    look := idle | {term() | '$start', #{group() => non_neg_integer()}},
    waiting := [gen_server:from()],
    truncated := boolean(),
    %% The one group of the processes that a call has revealed, and how often; or they are various.
    learned := #{mfa() => {group(), pos_integer()} | various}
}.

-type aggregate() :: #{
    discovered := non_neg_integer(),
    dead_reductions := non_neg_integer(),
    memory_bytes := non_neg_integer(),
    memory_max_bytes := non_neg_integer(),
    message_queue_max := non_neg_integer()
}.

-define(MAX_PROCESSES, 100_000_000).
%% The runtime's figures take about 50 bytes for each function and process: 40,000 processes of
%% Cowboy's, with 30 functions each, some 60 MB.
%% Each harvest makes the counts a little inexact: not more than one in two seconds, unless it must
%% be.
-define(HARVEST_AFTER, 10_000).
-define(HARVEST_AT_ONCE_AFTER, 40_000).
-define(HARVEST_EVERY_MS, 2000).
%% More names than that are no groups: what comes later is put together.
-define(MAX_GROUPS, 2000).
%% So many processes are looked at before the mailbox has its turn.
-define(BATCH, 500).
-define(SURE_AFTER, 200).
%% The `memory` item costs time in proportion to the queue; a longer queue is estimated.
-define(LONG_QUEUE, 10_000).

-doc "Starts discovering.".
-spec start_link(config()) -> gen_server:start_ret().
start_link(Config) ->
    gen_server:start_link(?MODULE, Config, []).

-doc "Counts from now on. Of the processes that are known, those that are alive stay.".
-spec restart(pid()) -> ok.
restart(Pid) ->
    gen_server:call(Pid, restart, infinity).

-doc "Takes a last look and gives the figures.".
-spec read(pid()) -> figures().
read(Pid) ->
    gen_server:call(Pid, read, infinity).

-doc "The table that `group_of/2` reads.".
-spec table(pid()) -> ets:table().
table(Pid) ->
    gen_server:call(Pid, table, infinity).

-doc "The group of a process; unknown where it was not discovered, or not yet.".
-spec group_of(ets:table(), pid()) -> {ok, group()} | unknown.
group_of(Table, Pid) ->
    case ets:lookup_element(Table, Pid, 2, unknown) of
        unknown -> unknown;
        Group -> {ok, Group}
    end.

-doc """
Names the process that is asked, with `{harvest, Discovery, Ref}`, to take in what the processes
have called whenever thousands of new ones were found; it answers with `{harvested, Ref}`.
""".
-spec harvester(pid(), pid()) -> ok.
harvester(Pid, Harvester) ->
    gen_server:cast(Pid, {harvester, Harvester}).

-spec init(config()) -> {ok, state()}.
init(#{patterns := Given, interval_ms := IntervalMs} = Config) ->
    process_flag(trap_exit, true),
    %% A storm of processes must not make the heap's collections long.
    process_flag(message_queue_data, off_heap),
    proc_lib:set_label(?MODULE),
    Session = trace:session_create(dyno_discovery, self(), []),
    Patterns = dyno_agent_patterns:resolve(Given),
    _ = trace:process(Session, all, true, [call, arity]),
    %% Those that end with us need no finding.
    _ = [trace:process(Session, P, false, [call]) || P <- ours()],
    State = #{
        session => Session,
        patterns => Patterns,
        interval_ms => IntervalMs,
        max_processes => maps:get(max_processes, Config, ?MAX_PROCESSES),
        table => ets:new(?MODULE, [protected, {read_concurrency, true}]),
        discovered => 0,
        harvester => undefined,
        new => 0,
        dead => [],
        harvesting => idle,
        harvested_ms => erlang:monotonic_time(millisecond),
        living => ets:new(?MODULE, [private]),
        groups => #{},
        look => idle,
        waiting => [],
        truncated => false,
        learned => #{}
    },
    lists:foreach(
        fun(Module) -> watch(Module, State) end,
        [M || M <- erlang:loaded(), dyno_agent_patterns:matches_module(M, Patterns)]
    ),
    _ = erlang:send_after(IntervalMs, self(), look),
    {ok, State}.

ours() ->
    {links, Links} = process_info(self(), links),
    [P || P <- Links, is_pid(P), node(P) =:= node()].

%% The recipe of the moduledoc.
watch(Module, #{session := Session, patterns := Patterns}) when Session =/= undefined ->
    Once = [{'_', [], [{trace, [call], []}]}],
    Matched =
        case dyno_agent_patterns:functions(Module, Patterns) of
            all -> [{Module, '_', '_'}];
            Some -> Some
        end,
    lists:foreach(fun(F) -> _ = trace:function(Session, F, Once, [local]) end, Matched);
watch(_Module, _State) ->
    ok.

-spec handle_call(restart | read | table, gen_server:from(), state()) ->
    {reply, ok | ets:table(), state()} | {noreply, state()}.
handle_call(table, _From, #{table := Table} = State) ->
    {reply, Table, State};
handle_call(restart, _From, #{living := Living} = State) ->
    #{dead := Dead} = State,
    Ended = ets:foldl(
        fun({Pid, _, _, _, _, _}, Acc) -> set_base(Pid, Living) ++ Acc end,
        [],
        Living
    ),
    Alive = ets:foldl(
        fun({_, Group, _, _, _, _}, Acc) ->
            maps:update_with(Group, fun(N) -> N + 1 end, 1, Acc)
        end,
        #{},
        Living
    ),
    {reply, ok, State#{
        groups := #{G => (new_aggregate())#{discovered := N} || G := N <- Alive},
        discovered := ets:info(Living, size),
        dead := Ended ++ Dead
    }};
handle_call(read, From, #{waiting := Waiting} = State) ->
    %% What was sent before this call is already handled: the last look covers all of it.
    {noreply, begin_look(State#{waiting := [From | Waiting], look := idle})}.

set_base(Pid, Living) ->
    case process_info(Pid, reductions) of
        {reductions, Reductions} ->
            ets:update_element(Living, Pid, [{3, Reductions}, {4, Reductions}]),
            [];
        undefined ->
            %% Dead since the last look; nothing of it belongs to what is counted from now on.
            ets:delete(Living, Pid),
            [Pid]
    end.

-spec handle_cast(term(), state()) -> {noreply, state()}.
handle_cast({harvester, Pid}, State) ->
    {noreply, State#{harvester := Pid}};
handle_cast(_Request, State) ->
    {noreply, State}.

-spec handle_info(term(), state()) -> {noreply, state()} | {stop, term(), state()}.
handle_info({trace, Pid, call, MFA}, State) ->
    {noreply, discover(Pid, MFA, State)};
handle_info({loaded, Module}, #{patterns := Patterns} = State) ->
    _ = [watch(Module, State) || dyno_agent_patterns:matches_module(Module, Patterns)],
    {noreply, State};
handle_info(look, #{interval_ms := IntervalMs, look := idle} = State) ->
    _ = erlang:send_after(IntervalMs, self(), look),
    {noreply, begin_look(State)};
handle_info(look, #{interval_ms := IntervalMs} = State) ->
    %% The last look is still under way: so many processes take longer than an interval.
    _ = erlang:send_after(IntervalMs, self(), look),
    {noreply, State};
handle_info({harvested, Ref}, #{harvesting := {Ref, Dead}, table := Table} = State) ->
    %% All their calls are in the sums.
    lists:foreach(fun(Pid) -> ets:delete(Table, Pid) end, Dead),
    {noreply, State#{harvesting := idle}};
handle_info(go_on, State) ->
    {noreply, go_on(State)};
handle_info({'EXIT', _Parent, Reason}, State) ->
    {stop, Reason, State};
handle_info(_Other, State) ->
    {noreply, State}.

discover(_Pid, _MFA, #{discovered := Count, max_processes := Max} = State) when Count >= Max ->
    stop_discovering(State);
discover(Pid, MFA, State) ->
    ask_to_harvest(discover_new(Pid, MFA, State)).

ask_to_harvest(#{new := New, harvester := Pid, harvesting := idle} = State) when
    New >= ?HARVEST_AFTER, is_pid(Pid)
->
    NowMs = erlang:monotonic_time(millisecond),
    case State of
        #{harvested_ms := Last} when
            New < ?HARVEST_AT_ONCE_AFTER, NowMs - Last < ?HARVEST_EVERY_MS
        ->
            State;
        #{dead := Dead} ->
            Ref = make_ref(),
            Pid ! {harvest, self(), Ref},
            State#{new := 0, dead := [], harvesting := {Ref, Dead}, harvested_ms := NowMs}
    end;
ask_to_harvest(State) ->
    State.

stop_discovering(#{session := undefined} = State) ->
    State;
stop_discovering(#{session := Session} = State) ->
    _ = trace:session_destroy(Session),
    State#{session := undefined, truncated := true}.

discover_new(Pid, MFA, #{table := Table, living := Living} = State) ->
    {Group, Reductions, Wiser} = classify(Pid, MFA, State),
    case ets:insert_new(Table, {Pid, Group}) of
        true ->
            _ =
                case Reductions of
                    undefined -> ok;
                    unknown -> ets:insert(Living, {Pid, Group, 0, 0, 0, unseen});
                    _ -> ets:insert(Living, {Pid, Group, Reductions, Reductions, 0, new})
                end,
            #{discovered := Count, new := New, dead := Dead} = Wiser,
            Counted = Wiser#{
                discovered := Count + 1,
                new := New + 1,
                dead := [Pid || Reductions =:= undefined] ++ Dead
            },
            update_group(Group, fun(A) -> count(1, A) end, Counted);
        false ->
            State
    end.

update_group(Group, Update, #{groups := Groups} = State) ->
    Aggregate = maps:get(Group, Groups, new_aggregate()),
    State#{groups := Groups#{Group => Update(Aggregate)}}.

new_aggregate() ->
    #{
        discovered => 0,
        dead_reductions => 0,
        memory_bytes => 0,
        memory_max_bytes => 0,
        message_queue_max => 0
    }.

%% Asking a process who it is takes microseconds. Where many that were revealed by the same call have
%% turned out to be of one kind, the next ones are taken to be so as well; those that live until the
%% next look are asked then.
classify(Pid, MFA, #{learned := Learned} = State) ->
    case Learned of
        #{MFA := {Group, Times}} when Times >= ?SURE_AFTER -> {Group, unknown, State};
        #{} -> ask(Pid, MFA, State)
    end.

ask(Pid, MFA, #{learned := Learned} = State) ->
    Items = [registered_name, label, initial_call, reductions, {dictionary, '$initial_call'}],
    case {process_info(Pid, Items), Learned} of
        {undefined, #{MFA := {Group, _}}} ->
            {Group, undefined, State};
        {undefined, _} ->
            {known({first_call, MFA}, State), undefined, State};
        {Info, _} ->
            Group = known(group(Info, MFA), State),
            Reductions = proplists:get_value(reductions, Info),
            {Group, Reductions, State#{learned := learn(MFA, Group, Learned)}}
    end.

%% Names and labels are a process's own.
learn(MFA, {Kind, _} = Group, Learned) when Kind =:= initial_call; Kind =:= first_call ->
    case Learned of
        #{MFA := {Group, Times}} -> Learned#{MFA := {Group, Times + 1}};
        #{MFA := _} -> Learned#{MFA := various};
        #{} when map_size(Learned) < ?MAX_GROUPS -> Learned#{MFA => {Group, 1}};
        #{} -> Learned
    end;
learn(MFA, _Group, Learned) ->
    Learned#{MFA => various}.

%% Too many groups are none: what comes later is put together.
known(Group, #{groups := Groups}) ->
    case is_map_key(Group, Groups) orelse map_size(Groups) < ?MAX_GROUPS of
        true -> Group;
        false -> other
    end.

group(Info, MFA) ->
    Name = proplists:get_value(registered_name, Info),
    Label = proplists:get_value(label, Info),
    ProcLib = proplists:get_value({dictionary, '$initial_call'}, Info),
    case proplists:get_value(initial_call, Info) of
        _ when is_atom(Name), Name =/= [] -> {registered, Name};
        _ when Label =/= undefined -> {label, label_shape(Label)};
        _ when is_tuple(ProcLib), tuple_size(ProcLib) =:= 3 -> {initial_call, ProcLib};
        %% What every spawned fun has in common says nothing.
        {erlang, apply, 2} -> {first_call, MFA};
        InitialCall -> {initial_call, InitialCall}
    end.

%% {connection, 17} and {connection, 18} are of one kind.
label_shape(Label) when is_atom(Label) -> Label;
label_shape(Label) when is_tuple(Label) ->
    list_to_tuple([label_shape(Part) || Part <- tuple_to_list(Label)]);
label_shape(Label) when is_list(Label); is_binary(Label) ->
    try
        re:replace(Label, "[0-9]+", "_", [global, unicode, {return, binary}])
    catch
        error:badarg -> '_'
    end;
label_shape(_Label) -> '_'.

begin_look(State) ->
    go_on(State#{look := {'$start', #{}}}).

go_on(#{look := idle} = State) ->
    State;
go_on(#{look := {Position, Memory}, living := Living} = State) ->
    Next =
        case Position of
            '$start' -> ets:match_object(Living, '_', ?BATCH);
            _ -> ets:match_object(Position)
        end,
    case Next of
        '$end_of_table' ->
            end_look(State#{look := idle}, Memory);
        {Processes, Continuation} ->
            {Seen, Sums} = lists:foldl(fun look_at/2, {State, Memory}, Processes),
            self() ! go_on,
            Seen#{look := {Continuation, Sums}}
    end.

look_at({Pid, Group, _, _, Memory, unseen}, {#{living := Living} = State, Sums}) ->
    case process_info(Pid, reductions) of
        {reductions, Reductions} ->
            ets:update_element(Living, Pid, [{3, Reductions}, {4, Reductions}]),
            look_at({Pid, Group, Reductions, Reductions, Memory, new}, {State, Sums});
        undefined ->
            look_at({Pid, Group, 0, 0, Memory, settled}, {State, Sums})
    end;
look_at({Pid, Group, First, Last, Memory, new}, {State, Sums}) ->
    {Settled, Next} = settle(Pid, Group, State),
    look_at({Pid, Settled, First, Last, Memory, settled}, {Next, Sums});
look_at({Pid, Group, First, Last, _Memory, settled}, {#{living := Living} = State, Sums}) ->
    Items = [reductions, message_queue_len, total_heap_size],
    case process_info(Pid, Items) of
        undefined ->
            ets:delete(Living, Pid),
            #{dead := Dead} = State,
            Add = fun(#{dead_reductions := R} = A) -> A#{dead_reductions := R + Last - First} end,
            {update_group(Group, Add, State#{dead := [Pid | Dead]}), Sums};
        [{reductions, Reductions}, {message_queue_len, Queue}, {total_heap_size, Words}] ->
            Bytes = memory_bytes(Pid, Queue, Words),
            ets:update_element(Living, Pid, [{4, Reductions}, {5, Bytes}]),
            Longest = fun(#{message_queue_max := Q} = A) -> A#{message_queue_max := max(Q, Queue)} end,
            {
                update_group(Group, Longest, State),
                maps:update_with(Group, fun(Sum) -> Sum + Bytes end, Bytes, Sums)
            }
    end.

%% Moves a process that has a name or a label by now to its group. What it called until then and was
%% harvested stays where it was.
settle(Pid, {Kind, _} = Group, #{living := Living} = State) when
    Kind =:= initial_call; Kind =:= first_call
->
    true = ets:update_element(Living, Pid, {6, settled}),
    Named =
        case process_info(Pid, [registered_name, label]) of
            undefined -> Group;
            Info -> group(Info ++ [{initial_call, none}], none)
        end,
    case Named of
        {K, _} when K =:= registered; K =:= label -> move(Pid, Group, known(Named, State), State);
        _ -> {Group, State}
    end;
settle(Pid, Group, #{living := Living} = State) ->
    true = ets:update_element(Living, Pid, {6, settled}),
    {Group, State}.

move(Pid, From, To, #{table := Table, living := Living, groups := Groups} = State) ->
    true = ets:update_element(Living, Pid, {2, To}),
    true = ets:insert(Table, {Pid, To}),
    Left =
        case Groups of
            #{From := #{discovered := 1}} -> State#{groups := maps:remove(From, Groups)};
            #{From := _} -> update_group(From, fun(A) -> count(-1, A) end, State)
        end,
    {To, update_group(To, fun(A) -> count(1, A) end, Left)}.

count(More, #{discovered := N} = Aggregate) ->
    Aggregate#{discovered := N + More}.

memory_bytes(Pid, Queue, HeapWords) when Queue < ?LONG_QUEUE ->
    case process_info(Pid, memory) of
        {memory, Bytes} -> Bytes;
        undefined -> HeapWords * erlang:system_info(wordsize)
    end;
memory_bytes(_Pid, _Queue, HeapWords) ->
    HeapWords * erlang:system_info(wordsize).

end_look(#{groups := Groups, waiting := Waiting} = State, Memory) ->
    Update = fun(Group, #{memory_max_bytes := Max} = Aggregate) ->
        Bytes = maps:get(Group, Memory, 0),
        Aggregate#{memory_bytes := Bytes, memory_max_bytes := max(Max, Bytes)}
    end,
    Next = State#{groups := maps:map(Update, Groups), waiting := []},
    Figures = [report(Next) || Waiting =/= []],
    lists:foreach(fun(From) -> gen_server:reply(From, hd(Figures)) end, Waiting),
    Next.

report(#{groups := Groups, living := Living, discovered := Discovered, truncated := Truncated}) ->
    Alive = ets:foldl(
        fun({_, Group, First, Last, _, _}, Acc) ->
            maps:update_with(
                Group, fun({N, R}) -> {N + 1, R + Last - First} end, {1, Last - First}, Acc
            )
        end,
        #{},
        Living
    ),
    #{
        groups => [group_figures(G, A, maps:get(G, Alive, {0, 0})) || G := A <- Groups],
        discovered => Discovered,
        truncated => Truncated
    }.

group_figures(Group, Aggregate, {Alive, Reductions}) ->
    #{
        group => Group,
        discovered => map_get(discovered, Aggregate),
        alive => Alive,
        memory_bytes => map_get(memory_bytes, Aggregate),
        memory_max_bytes => map_get(memory_max_bytes, Aggregate),
        reductions => map_get(dead_reductions, Aggregate) + Reductions,
        message_queue_max => map_get(message_queue_max, Aggregate)
    }.

-spec terminate(term(), state()) -> ok.
terminate(_Reason, #{session := undefined}) ->
    ok;
terminate(_Reason, #{session := Session}) ->
    _ = trace:session_destroy(Session),
    ok.
