%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_census).
-moduledoc """
Reads all processes of a node by cheap keys (queue, reductions, status), and each new process once
by its start function, which is its group.

It sends no message to a process, copies no mailbox, and reads in slices with pauses. Above 50,000
processes groups are of every Nth process, always the same, and of those with a name.

## Cost
0.5 us a process; 4 us more for each new one that `proc_lib` or a fun started, and for each whose
heap may be large: a signal asks it.
""".

-export([new/0, take/2, of_group/2, known_group/2, is_full/0]).
-export([places/0, holders/0, is_own/1]).
-export([group/1, name/1, pid/1, text/2]).
-export([spread/2, pause/1, waited/1, answered/1, timed/1, took/1, woken/1]).
-export_type([census/0, seen/0, group/0]).

%% What is known of each sampled process, and the size of each group at the look before.
-opaque seen() :: #{
    known := #{
        pid() =>
            {Group :: binary(), Reductions :: non_neg_integer(), HeapWords :: non_neg_integer()}
    },
    counts := #{Group :: binary() => pos_integer()}
}.

-type group() :: #{
    group := binary(),
    count := non_neg_integer(),
    %% Since the previous look.
    started := non_neg_integer(),
    ended := non_neg_integer(),
    queue := non_neg_integer(),
    reductions := non_neg_integer(),
    newest := pid() | none
}.

-type process() :: #{
    pid := pid(),
    queue := non_neg_integer(),
    status := atom(),
    heap := non_neg_integer(),
    %% Since the previous look; unknown if new.
    reductions := non_neg_integer() | unknown
}.

-type census() :: #{
    count := non_neg_integer(),
    %% Groups are of each Nth process.
    every := pos_integer(),
    groups := [group()],
    queues := [process()],
    busiest := [process()],
    %% The largest heaps.
    heaviest := [process()],
    suspended := [process()],
    %% Running with almost no reductions: native functions.
    native := [process()],
    suspended_count := non_neg_integer(),
    %% Some of the waiting processes with a name, some of the others, and the number of all others.
    named := [pid()],
    waiting := [pid()],
    waiting_count := non_neg_integer()
}.

-define(SLICE, 500).
%% Of a large node, where most processes are asked for their queue only: less to wake up for.
-define(LARGE_SLICE, 2000).
-define(PAUSE_FACTOR, 3).
-define(MOST_KNOWN, 50_000).
-define(HUGE, 200_000).
-define(MOST_OF_HUGE, 20_000).
-define(MOST, 12).
-define(FEW, 50_000).
-define(MOST_GROUPS, 300).
-define(MOST_WAITING, 1000).
-define(MOST_NAMED, 500).
%% So many may be known that have ended.
-define(STALE, 1000).
%% To wake a process takes the runtime so long, and more with +sbwt or a sleeping scheduler.
-define(WAKING_US, 4).
%% An idle process answers within 1 to 2 us, which the asking process counts as 10 reductions.
-define(ANSWERS_US, 100).
-define(REDUCTIONS_PER_US, 5).
-define(WAKING_SCHEDULER_US, 40).
%% Smaller heaps are not of interest. A large one has a large young part, or was moved to the old
%% part, which takes a reduction for ten words.
-define(HEAVY_WORDS, 500_000).
-define(YOUNG_WORDS, 100_000).
-define(MOVED, 5000).

-doc "The names of dyno's processes that have no start function of dyno.".
-spec places() -> [atom()].
places() ->
    [dyno_agent, dyno_agent_beside, dyno_agent_leaving, dyno_agent_beside_leaving].

-doc "The processes with these names.".
-spec holders() -> [pid()].
holders() -> [Pid || Name <- places(), Pid <- [whereis(Name)], is_pid(Pid)].

-doc "Whether a group is of dyno's processes.".
-spec is_own(binary() | none) -> boolean().
is_own(<<"dyno_agent_", _/binary>>) -> true;
%% Of the runtime; it works when a trace session ends, such as dyno's.
is_own(<<"erts_trace_cleaner:", _/binary>>) -> true;
is_own(_Group) -> false.

-doc "Whether more processes wait for a scheduler than there are schedulers.".
-spec is_full() -> boolean().
is_full() ->
    erlang:statistics(total_run_queue_lengths) > erlang:system_info(schedulers_online).

-doc "No look yet.".
-spec new() -> seen().
new() -> #{known => #{}, counts => #{}}.

-doc "Looks at all processes except these, and dyno's others.".
-spec take([pid()], seen()) -> {census(), seen()}.
take(Pids, #{known := Before, counts := Counts}) ->
    Own = Pids ++ holders(),
    Count = max(1, erlang:system_info(process_count) - length(Own)),
    Every =
        case Count < ?HUGE of
            true -> 1 + Count div ?MOST_KNOWN;
            false -> 1 + Count div ?MOST_OF_HUGE
        end,
    Acc = #{
        known => Before,
        groups => #{},
        idle => #{},
        queues => [],
        busiest => [],
        heaviest => [],
        suspended => [],
        native => [],
        waiting => []
    },
    Names = lists:sublist(registered(), ?MOST_NAMED),
    Named = #{Pid => named || Name <- Names, Pid <- [whereis(Name)], is_pid(Pid)},
    Sample = {Every, Named},
    #{known := Known, groups := Busy, idle := Idle, suspended := Suspended, waiting := Waiting} =
        Taken = slices(dyno_agent_process_list:first(), Own, Sample, Acc),
    {First, Others} = lists:partition(fun(Pid) -> is_map_key(Pid, Named) end, Waiting),
    Groups = maps:fold(fun of_idle/3, Busy, Idle),
    Now = #{Name => N || Name := #{count := N} <- Groups},
    {
        #{
            count => Count,
            every => Every,
            groups => groups(Groups, Counts),
            queues => top(queue, map_get(queues, Taken)),
            busiest => top(reductions, map_get(busiest, Taken)),
            heaviest => top(heap, map_get(heaviest, Taken)),
            suspended => lists:sublist(Suspended, ?MOST),
            native => lists:sublist(map_get(native, Taken), ?MOST),
            suspended_count => length(Suspended),
            named => First,
            waiting => spread(Others, ?MOST_WAITING),
            waiting_count => Every * length(Others)
        },
        #{known => current(Known, lists:sum(maps:values(Now)), Sample), counts => Now}
    }.

%% Without the ended ones, if these are many.
current(Known, Count, Sample) when map_size(Known) > ?STALE + Count + Count div 4 ->
    maps:filter(fun(Pid, _) -> is_process_alive(Pid) andalso is_sampled(Pid, Sample) end, Known);
current(Known, _Count, _Sample) ->
    Known.

slices(none, _Own, _Sample, Acc) ->
    Acc;
slices(Place, Own, Sample, Acc) ->
    Size =
        case Sample of
            {1, _} -> ?SLICE;
            _ -> ?LARGE_SLICE
        end,
    {Slice, Next} = dyno_agent_process_list:next(Size, Place),
    Start = erlang:monotonic_time(microsecond),
    Looked = looked(Slice -- Own, Sample, Acc),
    TookUs = erlang:monotonic_time(microsecond) - Start,
    _ = [pause(1 + min(20_000, ?PAUSE_FACTOR * TookUs) div 1000) || Next =/= none],
    slices(Next, Own, Sample, Looked).

looked(Pids, Sample, #{known := Known} = Acc) ->
    Answers = dyno_agent_suspect:each(fun(Pid) -> one(Pid, Sample) end, Pids),
    {Idle, Others} = lists:partition(fun(Answer) -> is_idle(Answer, Known) end, Answers),
    New = [Pid || {Pid, true, _} <- Others, not is_map_key(Pid, Known)],
    Grown = [Pid || {Pid, _, Of} <- Others, may_be_heavy(Of, maps:get(Pid, Known, none))],
    Starts = maps:from_list(dyno_agent_suspect:each(fun(Pid) -> [{Pid, start(Pid)}] end, New)),
    Heaps = maps:from_list(dyno_agent_suspect:each(fun heap/1, Grown)),
    lists:foldl(
        fun({Pid, IsSampled, Of}, A) ->
            {Is, Before} =
                case Known of
                    #{Pid := {_, _, Words} = Was} -> {Was, Words};
                    #{} -> {none, 0}
                end,
            Heap = maps:get(Pid, Heaps, Before),
            add({Pid, IsSampled, Of, Heap}, Is, maps:get(Pid, Starts, ended), A)
        end,
        with_idle(Idle, Acc),
        Others
    ).

%% Most of a large node: nothing changed since the look before, and nothing is written.
is_idle({Pid, true, {0, Reductions, waiting, Young}}, Known) when Young =< ?YOUNG_WORDS ->
    case Known of
        #{Pid := {_, Reductions, Words}} -> Words =< ?HEAVY_WORDS;
        #{} -> false
    end;
is_idle(_Answer, _Known) ->
    false.

with_idle(Answers, #{known := Known, idle := Before, waiting := Waiting} = Acc) ->
    {Idle, Pids} = lists:foldl(
        fun({Pid, _, _}, {Counts, Waits}) ->
            {Group, _, _} = map_get(Pid, Known),
            {Counts#{Group => maps:get(Group, Counts, 0) + 1}, [Pid | Waits]}
        end,
        {Before, Waiting},
        Answers
    ),
    Acc#{idle := Idle, waiting := Pids}.

of_idle(Name, N, Groups) ->
    #{count := Count} = Group = maps:get(Name, Groups, no_group(Name)),
    Groups#{Name => Group#{count := Count + N}}.

no_group(Name) ->
    #{group => Name, count => 0, started => 0, queue => 0, reductions => 0, newest => none}.

may_be_heavy({_, Reductions, _, Young}, Known) ->
    Before =
        case Known of
            {_, Of, _} -> Of;
            none -> 0
        end,
    Young > ?YOUNG_WORDS orelse Reductions - Before > ?MOVED.

heap(Pid) ->
    case process_info(Pid, total_heap_size) of
        {_, Words} -> [{Pid, Words}];
        undefined -> []
    end.

%% Without sampling only the queue: a third of the time.
one(Pid, Sample) ->
    case is_sampled(Pid, Sample) orelse process_info(Pid, message_queue_len) of
        true -> asked_of(Pid, true);
        {_, Queue} when Queue > 0 -> asked_of(Pid, false);
        _ -> []
    end.

is_sampled(Pid, {Every, Named}) ->
    Every =:= 1 orelse erlang:phash2(Pid, Every) =:= 0 orelse is_map_key(Pid, Named).

asked_of(Pid, IsSampled) ->
    case process_info(Pid, [message_queue_len, reductions, status, heap_size]) of
        undefined ->
            [];
        [{_, Queue}, {_, Reductions}, {_, Status}, {_, Young}] ->
            [{Pid, IsSampled, {Queue, Reductions, Status, Young}}]
    end.

add({Pid, IsSampled, {Queue, Reductions, Status, _}, Words}, Known, Start, Acc) ->
    {Group, Since} =
        case Known of
            {Of, Before, _} -> {Of, Reductions - Before};
            none when IsSampled -> {printed(Start), unknown};
            none -> {none, unknown}
        end,
    Process = #{
        pid => Pid, queue => Queue, status => Status, heap => Words, reductions => Since
    },
    case is_own(Group) of
        true -> Acc;
        false when Group =:= none -> kept(Process, Acc);
        false -> kept(Process, in_group(Group, Known, Process, Reductions, Acc))
    end.

in_group(Name, Known, Process, Reductions, #{known := Now, groups := Groups} = Acc) ->
    #{pid := Pid, queue := Queue, reductions := Since, heap := Words} = Process,
    #{count := Count, queue := Queued} = Before = maps:get(Name, Groups, no_group(Name)),
    #{started := Started, reductions := Worked} = Before,
    Counted = Before#{count := Count + 1, queue := Queued + Queue},
    Group =
        case Known of
            none -> Counted#{started := Started + 1, newest := Pid};
            _ -> Counted#{reductions := Worked + Since}
        end,
    Acc#{known := Now#{Pid => {Name, Reductions, Words}}, groups := Groups#{Name => Group}}.

kept(#{queue := Queue, status := Status, heap := Words, reductions := Since} = Process, Acc) ->
    IsWorking = is_integer(Since) andalso Since > 0,
    Keys =
        [queues || Queue > 0] ++ [busiest || IsWorking] ++ [heaviest || Words > ?HEAVY_WORDS] ++
            [suspended || Status =:= suspended] ++ [waiting || Status =:= waiting] ++
            [native || Status =:= running, is_integer(Since), Since < ?FEW],
    lists:foldl(fun(Key, A) -> kept(Key, Process, A) end, Acc, Keys).

kept(waiting, #{pid := Pid}, #{waiting := Waiting} = Acc) ->
    Acc#{waiting := [Pid | Waiting]};
kept(Key, Process, Acc) ->
    case maps:get(Key, Acc) of
        Kept when length(Kept) >= 8 * ?MOST, Key =/= suspended, Key =/= native ->
            Acc#{Key := [Process | top(by(Key), Kept)]};
        Kept ->
            Acc#{Key := [Process | Kept]}
    end.

by(queues) -> queue;
by(busiest) -> reductions;
by(heaviest) -> heap.

top(Key, Processes) ->
    Sorted = lists:sort(fun(#{Key := A}, #{Key := B}) -> A >= B end, Processes),
    lists:sublist(Sorted, ?MOST).

-doc "At most about twice so many of them, at equal distances.".
-spec spread([Item], pos_integer()) -> [Item].
spread(Items, Most) ->
    case length(Items) of
        Length when Length =< Most -> Items;
        Length -> [Item || {N, Item} <- lists:enumerate(Items), N rem (Length div Most) =:= 0]
    end.

groups(Groups, Before) ->
    All = [
        Group#{ended => max(0, maps:get(Name, Before, 0) + Started - Count)}
     || Name := #{started := Started, count := Count} = Group <- Groups
    ],
    Sorted = lists:sort(fun(#{count := A}, #{count := B}) -> A >= B end, All),
    lists:sublist(Sorted, ?MOST_GROUPS).

-doc "Sleeps, without counting as work.".
-spec pause(pos_integer()) -> ok.
pause(Ms) ->
    %% Without the module timer: the code server may not answer.
    waited(fun() ->
        receive
        after Ms -> ok
        end
    end).

-doc "The function's value; its duration counts as sleep.".
-spec waited(fun(() -> Value)) -> Value.
waited(Fun) ->
    Before = paused_us(),
    Start = erlang:monotonic_time(microsecond),
    Value = Fun(),
    _ = put(paused_us, Before + erlang:monotonic_time(microsecond) - Start),
    ok = took(woken(1)),
    Value.

-doc "Answers of processes. A time for which the reductions are too few was waiting: it is sleep.".
-spec answered(fun(() -> Answers)) -> Answers.
answered(Ask) ->
    {_, Before} = process_info(self(), reductions),
    Start = erlang:monotonic_time(microsecond),
    Answers = Ask(),
    Us = erlang:monotonic_time(microsecond) - Start,
    {_, Now} = process_info(self(), reductions),
    MostUs = ?ANSWERS_US + (Now - Before) div ?REDUCTIONS_PER_US,
    _ = put(paused_us, paused_us() + max(0, Us - MostUs)),
    Answers.

-doc "The function's value, and its duration without sleep; with each waking.".
-spec timed(fun(() -> Value)) -> {Value, WorkedUs :: non_neg_integer()}.
timed(Fun) ->
    Before = paused_us(),
    Start = erlang:monotonic_time(microsecond),
    Value = Fun(),
    AllUs = erlang:monotonic_time(microsecond) - Start,
    {Value, woken(1) + max(0, AllUs - (paused_us() - Before))}.

-doc "Processor time of so many wakings, in microseconds.".
-spec woken(non_neg_integer()) -> non_neg_integer().
woken(Times) when is_integer(Times) ->
    case erlang:statistics(total_active_tasks) =< erlang:system_info(schedulers_online) of
        true -> Times * ?WAKING_SCHEDULER_US;
        false -> Times * ?WAKING_US
    end.

-doc "The work of a helper, as the calling process's own.".
-spec took(non_neg_integer()) -> ok.
took(WorkedUs) ->
    _ = put(paused_us, paused_us() - WorkedUs),
    ok.

%% Less than none, if helpers worked longer than their caller waited.
paused_us() ->
    case get(paused_us) of
        undefined -> 0;
        Us -> Us
    end.

-doc "The group that a process had.".
-spec known_group(pid(), seen()) -> binary().
known_group(Pid, #{known := Known}) ->
    element(1, maps:get(Pid, Known, {~""})).

-doc "The processes whose group starts with this text.".
-spec of_group(binary(), seen()) -> [pid()].
of_group(Prefix, #{known := Known, counts := Counts}) ->
    Names = [Name || Name := _ <- Counts, string:prefix(Name, Prefix) =/= nomatch],
    [
        Pid
     || Names =/= [],
        Pid := {Group, _, _} <- Known,
        lists:member(Group, Names),
        is_process_alive(Pid)
    ].

-doc "The group of a process: its start function by proc_lib or fun.".
-spec group(pid()) -> binary().
group(Pid) -> printed(start(Pid)).

%% The first question takes no signal.
start(Pid) ->
    case process_info(Pid, initial_call) of
        undefined -> ended;
        {_, {erlang, apply, 2}} -> outermost(Pid);
        %% Dyno's own, that run no code of dyno's, say so as proc_lib does.
        {_, {M, F, A}} when M =:= proc_lib; M =:= erl_eval -> told(Pid, {M, F, arity(A)});
        {_, {M, F, A}} -> {M, F, arity(A)}
    end.

told(Pid, Otherwise) ->
    case process_info(Pid, {dictionary, '$initial_call'}) of
        {_, {M, F, A}} when is_atom(M), is_atom(F) -> {M, F, arity(A)};
        undefined -> ended;
        _ -> Otherwise
    end.

%% Only its stack shows the origin of a fun.
outermost(Pid) ->
    case process_info(Pid, current_stacktrace) of
        {_, [_ | _] = Stack} ->
            {M, F, A, _} = lists:last(Stack),
            {M, F, arity(A)};
        _ ->
            {erlang, apply, 2}
    end.

arity(A) when is_integer(A) -> A;
arity(A) when is_list(A) -> length(A);
arity(_) -> 0.

%% Thousands of processes have one start function, and printing takes as long as asking.
printed(ended) ->
    ~"(ended)";
printed(MFA) ->
    case get({?MODULE, MFA}) of
        undefined ->
            Text = dyno_agent_name:mfa(MFA),
            _ = put({?MODULE, MFA}, Text),
            Text;
        Text ->
            Text
    end.

-doc "A process in a sentence: its registered name, label, or pid with group.".
-spec name(pid()) -> binary().
name(Pid) when node(Pid) =/= node() ->
    <<(pid(Pid))/binary, " on ", (atom_to_binary(node(Pid)))/binary>>;
name(Pid) ->
    case process_info(Pid, [registered_name, {dictionary, '$process_label'}]) of
        undefined -> pid(Pid);
        [{_, Name}, _] when is_atom(Name) -> dyno_agent_name:module(Name);
        [_, {_, Label}] when Label =/= undefined -> text("~0tP ~ts", [Label, 8, pid(Pid)]);
        _ -> text("~ts (~ts)", [pid(Pid), group(Pid)])
    end.

-doc "A pid as its own node prints it.".
-spec pid(pid() | port()) -> binary().
pid(Pid) when is_pid(Pid) -> list_to_binary(pid_to_list(Pid));
pid(Port) -> list_to_binary(erlang:port_to_list(Port)).

-doc "A formatted text.".
-spec text(io:format(), [term()]) -> binary().
text(Format, Arguments) ->
    <<_/binary>> = unicode:characters_to_binary(io_lib:format(Format, Arguments)).
