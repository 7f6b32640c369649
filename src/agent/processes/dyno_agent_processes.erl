%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_processes).
-moduledoc """
Finds the processes that call the measured functions, groups them and follows what they take.

In a trace session of its own the first matching call of a process sends one message and switches
the process's `call` flag off in that session: afterwards a call costs it
no more than any breakpoint does, 2 to 6 ns, however many processes there are (doc/measurements.md).

A group is a registered name, a process label, an initial call, or, where the process was already
gone, the call that revealed it. At each interval the memory, reductions, message queue and garbage
collections of the processes that are alive are read; of those that died the last known figures are
kept. Where there are so many that this takes more than a tenth of the time they are looked at less
often. Of those that come and go between two looks it is known how many there were and how long some
of them have lived. dyno's own processes are left out.

Where one call reveals many processes of one kind, and a harvester (`harvester/3`) knows by its own
figures which processes have called it, that call becomes quiet: it switches the flag off without a
message, which would cost a process some 10 us with the waking of who gets it, and the harvester is
asked for the processes four times a second. Each time the call is heard for 20 ms, so that
lifetimes go on being sampled and another kind is noticed.
""".

-behaviour(dyno_agent_instrument).
-behaviour(gen_server).

-export([about/0, config/1, start_link/1, restart/1, read/1, tables/0, metrics/0, warnings/2]).
-export([table/1, names/1, group_of/2, known/1, group/2, harvester/3]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2, terminate/2]).
-export_type([config/0, group/0, id/0, figures/0]).

-type config() :: #{
    patterns := [dyno_agent_patterns:pattern()],
    %% How often the processes are looked at.
    interval_ms := pos_integer(),
    %% Discovery ends when so many are known; the figures then say so.
    max_processes => pos_integer()
}.

-doc "A kind of processes; `other` are those of too many kinds.".
-type group() :: dyno_agent_kind:kind() | other.

-type figures() :: #{
    groups := [dyno_agent_group:figures()],
    discovered := non_neg_integer(),
    %% The limit was reached: later processes are not known.
    truncated := boolean()
}.

-type state() :: #{
    hearing := dyno_agent_hearing:t(),
    interval_ms := pos_integer(),
    max_processes := pos_integer(),
    %% {Pid, Id} of a process that is not looked at: not yet, or it has died and its calls have not
    %% been harvested; {Pid, Id, ReductionsAtFirst, ReductionsNow, Bytes, Collections} of a living
    %% one. A row holds no larger term: that would be copied into each.
    table := ets:table(),
    %% {Id, Group}
    names := ets:table(),
    ids := #{group() => id()},
    discovered := non_neg_integer(),
    %% Discovered since the last look, not asked who they are; and those that were, but so early
    %% that they may have got a name since.
    fresh := [{pid(), id()}],
    unsettled := [pid()],
    harvester := pid() | undefined,
    %% Discovered since the last harvest began; the dead since then, and before.
    new := non_neg_integer(),
    dead := [pid()],
    harvesting := idle | {reference(), [pid()]},
    harvested_ms := integer(),
    groups := #{id() => dyno_agent_group:t()},
    lifetimes := dyno_agent_lifetimes:sample(),
    %% A look that is under way: where it stands, and the memory found so far by group.
    look := idle | {term() | '$start', #{id() => non_neg_integer()}},
    began := integer(),
    %% The next one, where it is not under way.
    timer := reference() | none,
    waiting := [gen_server:from()],
    truncated := boolean()
}.

-doc "The number of a group.".
-type id() :: pos_integer().

-define(MAX_PROCESSES, 100_000_000).
%% The runtime's figures take 50 bytes for each function and process: here some 60 MB.
%% Each harvest makes the counts a little inexact: not more than one in two seconds, unless it must
%% be.
-define(HARVEST_AFTER, 10_000).
-define(HARVEST_AT_ONCE_AFTER, 40_000).
-define(HARVEST_EVERY_MS, 2000).
%% More names than that are no groups: what comes later is put together.
-define(MAX_GROUPS, 2000).
%% So many processes are looked at before the mailbox has its turn, and so many messages are taken
%% at once.
-define(BATCH, 500).
%% After a look at hundreds of thousands it rests for so many times as long: looking must not take
%% more than a tenth of a processor.
-define(REST, 9).
%% The fresh ones are not left for longer than that.
-define(MAX_FRESH, 5000).
-spec about() -> dyno_agent_instrument:about().
about() -> #{names => [processes], traces => true}.

-spec config(dyno_agent_instrument:options()) -> config() | off.
config(#{patterns := []}) -> off;
config(#{level := Level}) when Level =:= off; Level =:= count -> off;
config(Options) -> maps:with([patterns, interval_ms], Options).

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

-doc "The table that `group/2` reads.".
-spec names(pid()) -> ets:table().
names(Pid) ->
    gen_server:call(Pid, names, infinity).

-doc "The number of a process's group; unknown where it was not discovered, or not yet.".
-spec group_of(ets:table(), pid()) -> {ok, pos_integer()} | unknown.
group_of(Table, Pid) ->
    case ets:lookup_element(Table, Pid, 2, unknown) of
        unknown -> unknown;
        Id -> {ok, Id}
    end.

-doc "All that `group_of/2` knows now. Cost: half a microsecond a process.".
-spec known(ets:table()) -> #{pid() => id()}.
known(Table) ->
    Row = {{'$1', '$2'}},
    maps:from_list(
        ets:select(Table, [
            {{'$1', '$2'}, [], [Row]}, {{'$1', '$2', '_', '_', '_', '_'}, [], [Row]}
        ])
    ).

-doc "The group of a number that `group_of/2` has given.".
-spec group(ets:table(), pos_integer() | other) -> group().
group(_Names, other) -> other;
group(Names, Id) -> ets:lookup_element(Names, Id, 2).

-doc """
Names the process that is asked, with `{harvest, Discovery, Ref}`, to take in what the processes
have called whenever thousands of new ones were found; it answers with `{harvested, Ref}`.

One that knows the callers of functions is a `dyno_agent_calls`: it is told with
`dyno_agent_calls:quiet/2` which calls are quiet, and asked with `dyno_agent_calls:callers/2`.
Before it sets figures to zero it sends `{births, [{Pid, Group}]}`, and `restarted` after all were
set to zero, which is to follow `restart/1`. While it does either, no call is quiet.
""".
-spec harvester(pid(), pid(), KnowsCallers :: boolean()) -> ok.
harvester(Pid, Harvester, KnowsCallers) ->
    gen_server:cast(Pid, {harvester, Harvester, KnowsCallers}).

-spec init(config()) -> {ok, state()}.
init(#{patterns := Given, interval_ms := IntervalMs} = Config) ->
    process_flag(trap_exit, true),
    %% A storm of processes must not make the heap's collections long.
    process_flag(message_queue_data, off_heap),
    proc_lib:set_label(?MODULE),
    State = #{
        hearing => dyno_agent_hearing:open(Given),
        interval_ms => IntervalMs,
        max_processes => maps:get(max_processes, Config, ?MAX_PROCESSES),
        table => ets:new(?MODULE, [protected, {read_concurrency, true}]),
        names => ets:new(?MODULE, [protected]),
        ids => #{},
        discovered => 0,
        fresh => [],
        unsettled => [],
        harvester => undefined,
        new => 0,
        dead => [],
        harvesting => idle,
        harvested_ms => erlang:monotonic_time(millisecond),
        groups => #{},
        lifetimes => dyno_agent_lifetimes:new(),
        look => idle,
        began => erlang:monotonic_time(millisecond),
        timer => none,
        waiting => [],
        truncated => false
    },
    {ok, look_later(IntervalMs, State)}.

-spec handle_call(restart | read | table | names, gen_server:from(), state()) ->
    {reply, ok | ets:table(), state()} | {noreply, state()}.
handle_call(table, _From, #{table := Table} = State) ->
    {reply, Table, State};
handle_call(names, _From, #{names := Names} = State) ->
    {reply, Names, State};
handle_call(restart, _From, State) ->
    Zeroing = hearing(fun(H) -> dyno_agent_hearing:zeroing(restart, H) end, State),
    #{table := Table, dead := Dead} = Absorbed = absorb(ask_for_births(Zeroing)),
    Living = ets:select(Table, [{{'$1', '$2', '_', '_', '_', '_'}, [], [{{'$1', '$2'}}]}]),
    {Alive, Ended} = lists:partition(fun({Pid, _}) -> set_base(Pid, Table) end, Living),
    lists:foreach(fun(Row) -> ets:insert(Table, Row) end, Ended),
    Count = fun({_, Id}, Acc) -> maps:update_with(Id, fun(N) -> N + 1 end, 1, Acc) end,
    {reply, ok, Absorbed#{
        groups := #{
            Id => dyno_agent_group:count(N, N, dyno_agent_group:new())
         || Id := N <- lists:foldl(Count, #{}, Alive)
        },
        lifetimes := dyno_agent_lifetimes:forget(map_get(lifetimes, Absorbed)),
        discovered := length(Alive),
        dead := [Pid || {Pid, _} <- Ended] ++ Dead
    }};
handle_call(read, From, #{waiting := Waiting} = State) ->
    %% What was sent before this call is already handled: the last look covers all of it.
    {noreply, begin_look(State#{waiting := [From | Waiting]})}.

%% Whether it lives. Nothing of one that has died since the last look belongs to what is counted
%% from now on.
set_base(Pid, Table) ->
    case dyno_agent_process:work(Pid) of
        {Reductions, Collections} ->
            New = [{3, Reductions}, {4, Reductions}, {5, 0}, {6, Collections}],
            ets:update_element(Table, Pid, New);
        undefined ->
            false
    end.

-spec handle_cast(term(), state()) -> {noreply, state()}.
handle_cast({harvester, Pid, KnowsCallers}, State) ->
    Counters = fun(H) -> dyno_agent_hearing:counters(Pid, KnowsCallers, H) end,
    {noreply, hearing(Counters, State#{harvester := Pid})}.

-spec handle_info(term(), state()) -> {noreply, state()} | {stop, term(), state()}.
handle_info({trace_ts, Pid, call, MFA, Time}, State) ->
    {noreply, ask_to_harvest(more(?BATCH, discover(Pid, MFA, Time, State)))};
handle_info({'DOWN', Ref, process, Pid, Reason}, State) ->
    {noreply, ended(Ref, Pid, Reason, State)};
handle_info({loaded, Module}, State) ->
    {noreply, hearing(fun(H) -> dyno_agent_hearing:loaded(Module, H) end, State)};
handle_info(listen, State) ->
    #{hearing := Hearing} = Listening = hearing(fun dyno_agent_hearing:listen/1, State),
    IsDue = dyno_agent_hearing:is_due(Hearing),
    Asked = hd([ask_for_births(Listening) || IsDue] ++ [Listening]),
    {noreply, ask_to_harvest(hearing(fun(H) -> dyno_agent_hearing:listened(IsDue, H) end, Asked))};
handle_info(quiet, State) ->
    {noreply, hearing(fun dyno_agent_hearing:quiet/1, State)};
handle_info(restarted, State) ->
    {noreply, hearing(fun(H) -> dyno_agent_hearing:zeroed(restart, H) end, State)};
handle_info({births, Rows}, State) ->
    {noreply, ask_to_harvest(born_quietly(Rows, State))};
handle_info(look, #{look := idle} = State) ->
    {noreply, begin_look(State#{timer := none})};
handle_info(look, State) ->
    %% Somebody has asked meanwhile: the look for that serves.
    {noreply, State#{timer := none}};
handle_info({harvested, Ref}, #{harvesting := {Ref, Dead}, table := Table} = State) ->
    %% All their calls are in the sums.
    lists:foreach(fun(Pid) -> ets:delete(Table, Pid) end, Dead),
    Zeroed = hearing(fun(H) -> dyno_agent_hearing:zeroed(harvest, H) end, State),
    {noreply, Zeroed#{harvesting := idle}};
handle_info(go_on, State) ->
    {noreply, go_on(State)};
handle_info({'EXIT', _Parent, Reason}, State) ->
    {stop, Reason, State};
handle_info(_Other, State) ->
    {noreply, State}.

%% Takes what else has come, without the server's turn for each.
more(0, State) ->
    State;
more(Left, State) ->
    receive
        {trace_ts, Pid, call, MFA, Time} -> more(Left - 1, discover(Pid, MFA, Time, State));
        {'DOWN', Ref, process, Pid, Reason} -> more(Left - 1, ended(Ref, Pid, Reason, State))
    after 0 -> State
    end.

%% It may have got a name since it was discovered, and with that another group.
ended(Ref, Pid, Reason, #{lifetimes := Lifetimes, table := Table} = State) ->
    Now = erlang:monotonic_time(),
    case dyno_agent_lifetimes:ended(Ref, Reason, Now, Lifetimes) of
        {ok, Ns, Rest} ->
            Next = State#{lifetimes := Rest},
            case group_of(Table, Pid) of
                {ok, Id} -> update_group(Id, fun(G) -> dyno_agent_group:lived(Ns, G) end, Next);
                unknown -> Next
            end;
        unknown ->
            State
    end.

discover(_Pid, _MFA, _Time, #{discovered := Count, max_processes := Max} = State) when
    Count >= Max
->
    stop_discovering(State);
discover(Pid, MFA, Time, #{hearing := Hearing, table := Table} = State) ->
    %% Asking a process who it is takes microseconds. Where many that were revealed by the same call
    %% have turned out to be of one kind, the next ones are taken to be so as well; those that live
    %% until the next look are asked then. The others cost no more than this.
    case dyno_agent_hearing:kind(MFA, Hearing) of
        {sure, Id} ->
            case enter([{Pid, Id}], State) of
                {[], Next} ->
                    Next;
                {_, Next} ->
                    Heard = fun(H) -> dyno_agent_hearing:heard(MFA, Time, H) end,
                    hearing(Heard, born(Pid, Id, Time, Next))
            end;
        _ ->
            case ets:member(Table, Pid) orelse ask(Pid, MFA, State) of
                true -> State;
                {none, Next} -> Next;
                {Id, Next} -> born(Pid, Id, Time, Next)
            end
    end.

%% Perhaps its end is waited for.
born(Pid, Id, Time, #{lifetimes := Lifetimes} = State) ->
    State#{lifetimes := dyno_agent_lifetimes:born(Pid, Id, Time, Lifetimes)}.

%% Processes whose group is known without asking them; gives those that are new.
enter(Rows, #{table := Table, discovered := Count, new := New, fresh := Fresh} = State) ->
    Unknown = [Row || Row <- Rows, ets:insert_new(Table, Row)],
    N = length(Unknown),
    {Unknown, State#{discovered := Count + N, new := New + N, fresh := Unknown ++ Fresh}}.

hearing(Update, #{hearing := Hearing} = State) ->
    State#{hearing := Update(Hearing)}.

%% Also what a harvest has told of that was before the answers.
ask_for_births(#{hearing := Hearing} = State) ->
    {Rows, Asked} = dyno_agent_hearing:births(Hearing),
    told_of_births(born_quietly(Rows, State#{hearing := Asked})).

told_of_births(State) ->
    receive
        {births, Rows} -> told_of_births(born_quietly(Rows, State))
    after 0 -> State
    end.

born_quietly(Rows, State) ->
    {Found, Entered} = enter(Rows, State),
    case hearing(fun(H) -> dyno_agent_hearing:found(Found, H) end, Entered) of
        #{discovered := Count, max_processes := Max} = Next when Count >= Max ->
            stop_discovering(Next);
        #{fresh := Fresh} = Next when length(Fresh) >= ?MAX_FRESH ->
            absorb(Next);
        Next ->
            Next
    end.

ask_to_harvest(#{new := New, harvester := Pid, harvesting := idle} = State) when
    New >= ?HARVEST_AFTER, is_pid(Pid)
->
    NowMs = erlang:monotonic_time(millisecond),
    case State of
        #{harvested_ms := Last} when
            New < ?HARVEST_AT_ONCE_AFTER, NowMs - Last < ?HARVEST_EVERY_MS
        ->
            absorb_many(State);
        #{} ->
            Zeroing = hearing(fun(H) -> dyno_agent_hearing:zeroing(harvest, H) end, State),
            #{dead := Dead} = Absorbed = absorb(Zeroing),
            Ref = make_ref(),
            Pid ! {harvest, self(), Ref},
            Absorbed#{new := 0, dead := [], harvesting := {Ref, Dead}, harvested_ms := NowMs}
    end;
ask_to_harvest(#{new := New, harvester := undefined, dead := Dead, table := Table} = State) when
    New >= ?HARVEST_AFTER
->
    %% Nobody will ask for their groups.
    lists:foreach(fun(Pid) -> ets:delete(Table, Pid) end, Dead),
    absorb(State#{new := 0, dead := []});
ask_to_harvest(State) ->
    absorb_many(State).

absorb_many(#{fresh := Fresh, new := New} = State) when New rem ?MAX_FRESH < ?BATCH ->
    case length(Fresh) >= ?MAX_FRESH of
        true -> absorb(State);
        false -> State
    end;
absorb_many(State) ->
    State.

stop_discovering(State) ->
    hearing(fun dyno_agent_hearing:close/1, State#{truncated := true}).

%% Sees which of the fresh ones are still alive. Most are not: they are but counted.
absorb(#{fresh := Fresh, unsettled := Unsettled, table := Table, dead := Dead} = State) ->
    {Counts, Died, Alive} = lists:foldl(
        fun dyno_agent_process:look_first/2, {#{}, Dead, []}, Fresh
    ),
    lists:foreach(
        fun({Pid, Id, Reductions}) ->
            %% Such ones are young: all their collections count.
            ets:insert(Table, {Pid, Id, Reductions, Reductions, 0, 0})
        end,
        Alive
    ),
    Counted = maps:fold(
        fun(Id, {N, Seen}, Acc) -> count(Id, N, Seen, Acc) end,
        State#{fresh := [], unsettled := [], dead := Died},
        Counts
    ),
    Settled = lists:foldl(fun settle/2, Counted, Unsettled),
    lists:foldl(fun({Pid, _, _}, Acc) -> settle(Pid, Acc) end, Settled, Alive).

update_group(Id, Update, #{groups := Groups} = State) ->
    Group = maps:get(Id, Groups, dyno_agent_group:new()),
    State#{groups := Groups#{Id => Update(Group)}}.

count(Id, More, LookedAt, State) ->
    update_group(Id, fun(G) -> dyno_agent_group:count(More, LookedAt, G) end, State).

%% Who a process is that a call has revealed; gives its group, `none` where it is one of dyno's own.
ask(Pid, MFA, #{hearing := Hearing, dead := Dead} = State) ->
    case {dyno_agent_process:who(Pid), dyno_agent_hearing:kind(MFA, Hearing)} of
        {undefined, Kind} ->
            {Id, Known} =
                case Kind of
                    {_, Seen} -> {Seen, State};
                    unknown -> id({first_call, MFA}, State)
                end,
            Late = dyno_agent_hearing:too_late(MFA, Id, Hearing),
            {Id, counted({Pid, Id}, 0, Known#{dead := [Pid | Dead], hearing := Late})};
        {{Info, Reductions, Collections}, _} ->
            Group = dyno_agent_kind:of_process(Info, MFA),
            case dyno_agent_kind:is_own(Group) of
                true ->
                    {none, State};
                false ->
                    {Id, #{unsettled := Unsettled} = Known} = id(Group, State),
                    Row = {Pid, Id, Reductions, Reductions, 0, Collections},
                    {Id,
                        counted(Row, 1, Known#{
                            unsettled := [Pid | Unsettled],
                            hearing := dyno_agent_hearing:learn(MFA, Group, Id, Hearing)
                        })}
            end
    end.

counted(Row, LookedAt, #{table := Table, discovered := Count, new := New} = State) ->
    true = ets:insert(Table, Row),
    count(element(2, Row), 1, LookedAt, State#{discovered := Count + 1, new := New + 1}).

%% Too many groups are none: what comes later is put together.
id(Group, #{ids := Ids, names := Names} = State) ->
    case Ids of
        #{Group := Id} ->
            {Id, State};
        #{} when map_size(Ids) >= ?MAX_GROUPS, Group =/= other ->
            id(other, State);
        #{} ->
            Id = map_size(Ids) + 1,
            true = ets:insert(Names, {Id, Group}),
            {Id, State#{ids := Ids#{Group => Id}}}
    end.

%% One that is under way begins anew. Rows come and go meanwhile.
begin_look(#{lifetimes := Lifetimes} = State) ->
    Refilled = State#{lifetimes := dyno_agent_lifetimes:refill(Lifetimes)},
    #{table := Table, look := Look} = Absorbed = absorb(ask_for_births(Refilled)),
    _ = [ets:safe_fixtable(Table, true) || Look =:= idle],
    go_on(Absorbed#{look := {'$start', #{}}, began := erlang:monotonic_time(millisecond)}).

look_later(AfterMs, State) ->
    State#{timer := erlang:send_after(AfterMs, self(), look)}.

go_on(#{look := idle} = State) ->
    State;
go_on(#{look := {Position, Memory}, table := Table} = State) ->
    Next =
        case Position of
            '$start' -> ets:match_object(Table, {'_', '_', '_', '_', '_', '_'}, ?BATCH);
            _ -> ets:match_object(Position)
        end,
    case Next of
        '$end_of_table' ->
            true = ets:safe_fixtable(Table, false),
            end_look(State#{look := idle}, Memory);
        {Processes, Continuation} ->
            {Seen, Sums} = lists:foldl(fun look_at/2, {State, Memory}, Processes),
            self() ! go_on,
            Seen#{look := {Continuation, Sums}}
    end.

look_at({Pid, Id, First, Last, Bytes, Collections}, {#{table := Table} = State, Sums}) ->
    case process_info(Pid, [reductions, message_queue_len]) of
        undefined ->
            true = ets:insert(Table, {Pid, Id}),
            #{dead := Dead} = State,
            Died = fun(G) -> dyno_agent_group:died(Last - First, G) end,
            {update_group(Id, Died, State#{dead := [Pid | Dead]}), Sums};
        [{reductions, Last}, {message_queue_len, 0}] when Bytes > 0 ->
            %% It has not run since: its memory is what it was. To ask for that would wake it.
            {State, add_bytes(Id, Bytes, Sums)};
        [{reductions, Reductions}, {message_queue_len, Queue}] ->
            {Seen, {Now, Minor}} =
                dyno_agent_process:holds(Pid, {Reductions, Queue}, {Bytes, Collections}),
            _ = ets:update_element(Table, Pid, [{4, Seen}, {5, Now}, {6, Minor}]),
            More = dyno_agent_process:collections_since(Collections, Minor),
            Looked = fun(G) -> dyno_agent_group:looked_at(Queue, More, G) end,
            {update_group(Id, Looked, State), add_bytes(Id, Now, Sums)}
    end.

add_bytes(Id, Bytes, Sums) ->
    maps:update_with(Id, fun(Sum) -> Sum + Bytes end, Bytes, Sums).

%% Moves a process that has a name or a label by now to its group. What it called until then and was
%% harvested stays where it was.
settle(Pid, #{table := Table, names := Names} = State) ->
    [Row] = ets:lookup(Table, Pid),
    Id = element(2, Row),
    case {group(Names, Id), process_info(Pid, [registered_name, label])} of
        {{Kind, _}, [_, _] = Info} when Kind =:= initial_call; Kind =:= first_call ->
            case dyno_agent_kind:named(Info) of
                {ok, Named} -> moved(dyno_agent_kind:is_own(Named), Pid, Id, Named, State);
                none -> State
            end;
        _ ->
            State
    end.

moved(true, Pid, From, _Named, #{table := Table, discovered := Count} = State) ->
    %% One of dyno's, found before it had said so.
    true = ets:delete(Table, Pid),
    left(From, State#{discovered := Count - 1});
moved(false, Pid, From, Named, #{table := Table} = State) ->
    {To, Known} = id(Named, State),
    true = ets:update_element(Table, Pid, {2, To}),
    count(To, 1, 1, left(From, Known)).

left(From, #{groups := Groups} = State) ->
    case dyno_agent_group:size(map_get(From, Groups)) of
        1 -> State#{groups := maps:remove(From, Groups)};
        _ -> count(From, -1, -1, State)
    end.

end_look(#{groups := Groups, waiting := Waiting} = State, Memory) ->
    Update = fun(Id, Group) -> dyno_agent_group:memory(maps:get(Id, Memory, 0), Group) end,
    %% So that the groups' numbers add up to all that are known.
    Next = absorb(State#{groups := maps:map(Update, Groups), waiting := []}),
    Figures = [report(Next) || Waiting =/= []],
    lists:foreach(fun(From) -> gen_server:reply(From, hd(Figures)) end, Waiting),
    case Next of
        #{timer := none, interval_ms := IntervalMs, began := Began} ->
            TookMs = erlang:monotonic_time(millisecond) - Began,
            look_later(max(IntervalMs - TookMs, ?REST * TookMs), Next);
        #{} ->
            Next
    end.

report(#{groups := Groups, table := Table, names := Names} = State) ->
    Alive = ets:foldl(
        fun
            ({_, Id, First, Last, _, _}, Acc) ->
                {N, R} = maps:get(Id, Acc, {0, 0}),
                Acc#{Id => {N + 1, R + Last - First}};
            (_, Acc) ->
                Acc
        end,
        #{},
        Table
    ),
    #{
        groups => [
            dyno_agent_group:figures(group(Names, Id), maps:get(Id, Alive, {0, 0}), G)
         || Id := G <- Groups
        ],
        discovered => map_get(discovered, State),
        truncated => map_get(truncated, State)
    }.

-spec terminate(term(), state()) -> ok.
terminate(_Reason, #{hearing := Hearing}) ->
    _ = dyno_agent_hearing:close(Hearing),
    ok.

-spec tables() -> [dyno_agent_instrument:table()].
tables() -> [dyno_agent_group:table()].

-spec metrics() -> [dyno_agent_instrument:metric()].
metrics() -> [dyno_agent_group:metric()].

-spec warnings(node(), figures()) -> [dyno_agent_instrument:warning()].
warnings(Node, Result) -> dyno_agent_group:warnings(Node, Result).
