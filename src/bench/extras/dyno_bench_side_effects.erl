%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_side_effects).
-moduledoc false.
%% Measures the work that a code causes in other processes: receivers of its messages, directly or
%% through others; processes spawned by any of these; and processes that work for any other reason
%% while the code runs (links, monitors, timers).
%%
%% A short traced run finds these processes. It traces send, procs, running and set_on_spawn in its
%% own session; never garbage_collection, which crashes the emulator in two sessions. Receivers are
%% traced as well until no new receivers appear. A last pass counts messages and running times.
%%
%% Untraced runs measure cost: reductions of all processes before and after, and of the whole node,
%% including processes born and ended in between. An idle time of the same length is subtracted.
%%
%% Not seen: work of ports, of other nodes, and of native code; messages there are counted.

-export([measure/2]).
-export_type([t/0, part/0, subject/0]).

-type subject() :: #{
    worker := pid(),
    %% Other processes of the measurement.
    drivers := [pid()],
    iterations := pos_integer(),
    %% Runs N iterations in the worker.
    iterate := fun((pos_integer()) -> term())
}.

-doc "A process, or all processes spawned alike. Each number is per call.".
-type part() :: #{
    who := binary(),
    kind := server | spawned,
    %% Per call for spawned processes, otherwise the number of processes.
    count := float(),
    %% For ended spawned processes only the sum over all kinds is known.
    reductions := float() | undefined,
    own_ns := float(),
    messages := float(),
    %% Mailbox length afterwards.
    queue := non_neg_integer(),
    memory := non_neg_integer() | undefined,
    memory_growth := float() | undefined
}.

-type t() :: #{
    parts := [part()],
    %% Per call, of all other processes: `parts` and processes that have ended.
    reductions := float(),
    messages := float(),
    spawned := float(),
    collections := float(),
    runs := #{reductions := [float(), ...], messages := [float(), ...]},
    notes := [binary()]
}.

-define(PASSES, 5).
-define(TRACED, 100).
%% Limit of a traced run and of the idle time.
-define(TRACE_MS, 100).
%% Up to this number, all processes are read one by one; above it, only known participants.
-define(ALL, 20_000).
-define(SETTLE_MS, 500).

-doc "Returns `overrun` if the messages are too large to trace.".
-spec measure(subject(), Runs :: pos_integer()) -> t() | overrun.
measure(#{worker := Worker} = Subject, Runs) ->
    {Pid, _} = Tracer = dyno_bench_side_effects_tracer:start(self()),
    Session = trace:session_create(?MODULE, Pid, []),
    Traced =
        try
            traced({Session, Tracer, Subject})
        catch
            throw:overrun -> overrun
        after
            _ = trace:session_destroy(Session),
            dyno_bench_side_effects_tracer:stop(Tracer)
        end,
    case Traced of
        {N, #{seen := Seen} = Counts} ->
            counted(Subject, Runs, {N, Counts, maps:keys(Seen) -- [Worker]});
        overrun ->
            overrun
    end.

traced({Session, _, #{worker := Worker}} = Of) ->
    trace_too(Session, [Worker]),
    {Ns, First} = pass(1, Of),
    %% The iterations that fit the limit; at least one: the first pass may be slow by chance.
    N = max(1, min(?TRACED, ?TRACE_MS * 1_000_000 div max(1, Ns))),
    Members = grown(?PASSES, N, First, [Worker], Of),
    {_, #{seen := Seen} = Counts} = pass(N, Of),
    {N, Counts#{seen := maps:filter(fun(P, S) -> takes_part(P, S, Members) end, Seen)}}.

%% Members, and processes spawned in this pass.
takes_part(_, #{born := _}, _) -> true;
takes_part(_, #{received := N}, _) when N > 0 -> true;
takes_part(Pid, _, Members) -> lists:member(Pid, Members).

grown(Left, N, #{seen := Seen}, Members, {Session, _, _} = Of) ->
    case [P || P <- maps:keys(Seen) -- Members, is_process_alive(P), P =/= self()] of
        [_ | _] = New when Left > 0 ->
            trace_too(Session, New),
            {_, Counts} = pass(N, Of),
            grown(Left - 1, N, Counts, New ++ Members, Of);
        _ ->
            Members
    end.

trace_too(Session, Pids) ->
    Flags = [send, procs, running, set_on_spawn, monotonic_timestamp],
    lists:foreach(
        fun(Pid) ->
            try
                trace:process(Session, Pid, true, Flags)
            catch
                error:badarg -> 0
            end
        end,
        Pids
    ).

pass(N, {Session, Tracer, #{iterate := Iterate}}) ->
    Start = erlang:monotonic_time(nanosecond),
    _ = Iterate(N),
    Ns = erlang:monotonic_time(nanosecond) - Start,
    %% Work after the worker's last message counts as well.
    wait(1),
    {Ns div N, dyno_bench_side_effects_tracer:await(Session, Tracer)}.

wait(Ms) ->
    receive
    after Ms -> ok
    end.

counted(#{worker := Worker, iterate := Iterate, iterations := Epoch} = Subject, Count, Traced) ->
    {TracedN, #{seen := Seen} = Counts, Members} = Traced,
    N = max(TracedN, Epoch),
    Alive = [P || P <- Members, is_process_alive(P)],
    Run = fun() -> difference(fun() -> Iterate(N) end, Alive) end,
    %% The first run includes work that a code does only once.
    #{ns := Ns} = Run(),
    Idle = difference(fun() -> wait(min(?TRACE_MS, Ns div 1_000_000)) end, Alive),
    Memory0 = memory(Alive),
    Runs = [Run() || _ <- lists:seq(1, Count)],
    Memory1 = memory(Alive),
    Left = lists:sum([
        Q
     || P <- Alive, {message_queue_len, Q} <- [process_info(P, message_queue_len)]
    ]),
    Others = [Worker, self() | map_get(drivers, Subject)],
    All = lists:usort(Alive ++ also(Runs, Idle, N, Others)),
    Own = fun(Pid, R) -> (of_pid(Pid, R) - of_pid(Pid, Idle)) / N end,
    Ended = [max(0, ended(R) - ended(Idle)) / N || R <- Runs],
    Sums = [
        lists:sum([Own(P, R) || P <- All]) + OfEnded
     || {R, OfEnded} <- lists:zip(Runs, Ended)
    ],
    Spawned = #{P => S || P := #{born := _} = S <- Seen, P =/= Worker},
    Sent = lists:sum([S || _ := #{sent := S} <- Seen]),
    Servers = [
        server(P, maps:get(P, Seen, #{own_ns => 0, received => 0}), #{
            reductions => dyno_stats:median([Own(P, R) || R <- Runs]),
            memory => {Memory0, Memory1, Count * N},
            traced => TracedN
        })
     || P <- All
    ],
    #{
        parts => alike(Servers) ++ spawned(Spawned, TracedN, dyno_stats:median(Ended)),
        reductions => dyno_stats:median(Sums),
        messages => Sent / TracedN,
        spawned => map_size(Spawned) / TracedN,
        collections =>
            max(0, dyno_stats:median([collections(R) - collections(Idle) || R <- Runs])) / N,
        runs => #{reductions => Sums, messages => lists:duplicate(Count, Sent / TracedN)},
        notes => notes(Left, Counts)
    }.

notes(Left, #{ports := Ports, remote := Remote}) ->
    [~"work was left in mailboxes: its cost is not measured" || Left > 0] ++
        [~"the work of ports to which the code sends is not seen" || Ports > 0] ++
        [~"the work of other nodes to which the code sends is not seen" || Remote > 0].

%% The order of the readings is the same before and after, so their own cost cancels out.
difference(Run, Members) ->
    {Total0, Collections0, Before} = read(pids(Members)),
    Start = erlang:monotonic_time(nanosecond),
    _ = Run(),
    Ns = erlang:monotonic_time(nanosecond) - Start,
    settle(Members, erlang:monotonic_time(millisecond) + ?SETTLE_MS),
    {Total1, Collections1, After} = read(pids(Members)),
    #{
        processes => #{P => R - maps:get(P, Before, 0) || P := R <- After},
        total => Total1 - Total0,
        collections => Collections1 - Collections0,
        ns => Ns
    }.

pids(Members) ->
    case erlang:system_info(process_count) of
        N when N =< ?ALL -> processes();
        _ -> Members
    end.

read(Pids) ->
    {Total, _} = erlang:statistics(exact_reductions),
    {Collections, _, _} = erlang:statistics(garbage_collection),
    Reductions = #{P => R || P <- Pids, {reductions, R} <- [process_info(P, reductions)]},
    {Total, Collections, Reductions}.

settle(Members, DeadlineMs) ->
    Busy = [P || P <- Members, is_busy(process_info(P, [message_queue_len, status]))],
    case Busy =/= [] andalso erlang:monotonic_time(millisecond) < DeadlineMs of
        true ->
            wait(1),
            settle(Members, DeadlineMs);
        false ->
            ok
    end.

is_busy([{message_queue_len, 0}, {status, waiting}]) -> false;
is_busy(undefined) -> false;
is_busy(_) -> true.

of_pid(Pid, #{processes := Of}) -> maps:get(Pid, Of, 0).

collections(#{collections := N}) -> N.

ended(#{total := Total, processes := Of}) -> Total - lists:sum(maps:values(Of)).

%% Processes that got no message but worked in every run, in proportion to the iterations.
also([First | _] = Runs, Idle, N, Others) ->
    [
        P
     || P <- maps:keys(map_get(processes, First)) -- Others,
        lists:all(fun(R) -> of_pid(P, R) - of_pid(P, Idle) >= N / 2 end, Runs)
    ].

memory(Pids) ->
    #{P => Bytes || P <- Pids, {memory, Bytes} <- [process_info(P, memory)]}.

server(Pid, #{own_ns := OwnNs, received := Received}, Of) ->
    #{reductions := Reductions, memory := {Memory0, Memory1, N}, traced := TracedN} = Of,
    Growth =
        case {Memory0, Memory1} of
            {#{Pid := Before}, #{Pid := After}} -> (After - Before) / N;
            _ -> undefined
        end,
    #{
        who => who(Pid),
        kind => server,
        count => 1.0,
        reductions => Reductions,
        own_ns => OwnNs / TracedN,
        messages => Received / TracedN,
        queue => lists:sum([Q || {_, Q} <- [process_info(Pid, message_queue_len)]]),
        memory => maps:get(Pid, Memory1, undefined),
        memory_growth => Growth
    }.

%% One row for a pool, and for processes that a code spawns and leaves. Most work first.
alike(Parts) ->
    Sums = [
        lists:foldl(fun add_part/2, First, Rest)
     || [First | Rest] <- maps:values(maps:groups_from_list(fun(#{who := Who}) -> Who end, Parts))
    ],
    lists:sort(fun(#{reductions := A}, #{reductions := B}) -> A >= B end, Sums).

add_part(Part, Sum) ->
    Numbers = maps:without([who, kind], Sum),
    maps:merge(Sum, #{Key => plus(Value, map_get(Key, Part)) || Key := Value <- Numbers}).

plus(A, B) when is_number(A), is_number(B) -> A + B;
plus(A, undefined) -> A;
plus(undefined, B) -> B.

who(Pid) ->
    case dyno_agent_process:who(Pid) of
        gone ->
            ~"ended";
        {Info, _} ->
            {Name, _} = dyno_agent_kind:print(dyno_agent_kind:of_process(Info, {erlang, apply, 2})),
            Name
    end.

call({_, fun_of_code}) -> ~"a process of the code";
call(MFA) -> dyno_agent_name:mfa(MFA).

%% Their reductions are measured as a sum.
spawned(Spawned, N, Ended) ->
    Kinds = maps:groups_from_list(
        fun(#{born := Born}) -> Born end, [S || _ := #{ended := true} = S <- Spawned]
    ),
    [
        #{
            who => call(Born),
            kind => spawned,
            count => length(Of) / N,
            reductions => maps:get(map_size(Kinds), #{1 => Ended}, undefined),
            own_ns => lists:sum([Ns || #{own_ns := Ns} <- Of]) / N,
            messages => lists:sum([R || #{received := R} <- Of]) / N,
            queue => 0,
            memory => undefined,
            memory_growth => undefined
        }
     || {Born, Of} <- lists:sort(maps:to_list(Kinds))
    ].
