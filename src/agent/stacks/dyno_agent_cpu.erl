%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_cpu).
-moduledoc """
Samples scheduler threads by their processor time: shows the functions that use it, also in
processes that live for 0.1 ms, in BIFs and NIFs, and in dirty schedulers.

At the kernel's ticks a computing thread is interrupted, and its process's stack copied
(`m:dyno_agent_cpu_nif`); idle threads are not. This process fetches the samples, looks up names,
and builds a tree.

The sampler refuses rather than guesses: it probes the emulator's layout
(`m:dyno_agent_cpu_layout`), and must first sample a known function correctly
(`m:dyno_agent_cpu_trial`).

## Cost
5 to 10 us of processor a sample, and the look at it: 0.5 to 2 % of one scheduler; 100 ms at the
start. A system call of foreign code that does not restart after a signal may return EINTR.
""".

-behaviour(gen_server).

-export([start_link/2, restart/1, read/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2, terminate/2]).
-export_type([config/0, counted/0, reason/0]).

-type config() :: #{
    %% The NIF library's bytes; `none` if dyno was built without.
    library := binary() | none,
    kinds := dyno_agent_stack_kinds:t(),
    guard := pid()
}.

-type reason() ::
    no_library
    | {not_loaded, binary()}
    | signal_in_use
    | no_threads
    | {no_timers, non_neg_integer()}
    | {no_maps, file:posix()}
    | dyno_agent_cpu_trial:reason().

-doc "Samples since the last restart. Weights are in intervals of `interval_ns`.".
-type counted() :: #{
    stacks := [{dyno_agent_stacks:group(), dyno_agent_cpu_frames:stack(), pos_integer()}],
    %% The number of samples, and the weights outside of stacks: dyno's processes, processes that
    %% are not selected, schedulers without a process, stacks beyond the limit, and lost samples.
    samples := non_neg_integer(),
    %% The sum of their squared weights.
    squares := non_neg_integer(),
    own := non_neg_integer(),
    elsewhere := non_neg_integer(),
    scheduler := non_neg_integer(),
    other := non_neg_integer(),
    lost := non_neg_integer(),
    interval_ns := pos_integer(),
    %% The emulator's processor time.
    process_ns := non_neg_integer(),
    %% Of sampling: interrupts, and what this process takes, with the schedulers that it wakes.
    cost_ns := non_neg_integer()
}.

-type state() :: #{
    session := dyno_agent_cpu_nif:session(),
    frames := dyno_agent_cpu_frames:t(),
    kinds := dyno_agent_stack_kinds:t(),
    interval_ns := pos_integer(),
    %% How many times in a row too few samples waited to be fetched.
    put_off := non_neg_integer(),
    %% Hears `{dyno_agent_cpu, busy}` while there are more samples.
    owner := pid(),
    %% Native: of this process since the last restart.
    cost := non_neg_integer(),
    tree := dyno_agent_stack_tree:t(),
    counts := #{atom() => non_neg_integer()},
    squares := non_neg_integer(),
    since := {ProcessNs :: non_neg_integer(), Lost :: non_neg_integer()}
}.

%% The kernel takes samples at its ticks, on most systems each 4 ms, of a thread that has used the
%% interval by then: a short one misses few ticks of threads that compute now and then. With ticks
%% of 1 ms these are 500 to 800 samples a second and thread. And the limit for all threads.
-define(INTERVAL_NS, 1_250_000).
-define(MOST_A_SECOND, 4000).
%% A ring holds 1.2 seconds of samples or more: fetching wakes a dirty scheduler.
-define(EVERY_MS, 1000).
-define(FEW, 20).
-define(FEW_EVERY_MS, 1200).
-define(MOST_PUT_OFF, 24).
-define(AT_ONCE, 2000).
-define(NODES, 20_000).
%% Of an interrupt: 5 to 10 us.
-define(SAMPLE_NS, 7000).
-define(DEADLINE_MS, 86_400_000).

-doc "Samples for the calling process; only if required, an unknown emulator is an error.".
-spec start_link(dyno_agent_stacks:cpu(), dyno_agent_stack_kinds:t()) ->
    {ok, pid() | {refused, reason()}} | {error, {?MODULE, reason()}}.
start_link(#{library := Library, use := Use}, Kinds) ->
    {parent, Guard} = process_info(self(), parent),
    Own = [self() | dyno_agent_process:others()],
    Config = #{
        library => Library,
        kinds => dyno_agent_stack_kinds:with_own(Own, Kinds),
        guard => Guard
    },
    case gen_server:start_link(?MODULE, Config, []) of
        {ok, Pid} -> {ok, Pid};
        {error, {?MODULE, Reason}} -> refused(Use, Reason);
        {error, Crash} -> refused(Use, {trial_failed, Crash})
    end.

refused(preferred, Reason) -> {ok, {refused, Reason}};
refused(required, Reason) -> {error, {?MODULE, Reason}}.

-doc "Counts from now on.".
-spec restart(pid()) -> ok.
restart(Pid) -> gen_server:call(Pid, restart, infinity).

-doc "Samples since the last restart.".
-spec read(pid()) -> counted().
read(Pid) -> gen_server:call(Pid, read, infinity).

-spec init(config()) -> {ok, state()} | {error, {?MODULE, reason()}}.
init(#{library := Library, kinds := Kinds, guard := Guard}) ->
    {parent, Owner} = process_info(self(), parent),
    %% High priority: a computing process must not delay the fetch.
    process_flag(priority, high),
    process_flag(trap_exit, true),
    proc_lib:set_label(?MODULE),
    ok = dyno_agent_process:unlimited(),
    %% Linked like the instruments, so that the code stays until the session has ended.
    true = link(Guard),
    maybe
        ok ?= dyno_agent_cpu_layout:supported(),
        ok ?= loaded(Library),
        {ok, Code} ?= code(),
        {ok, Layout} ?= dyno_agent_cpu_trial:layout(Code),
        {ok, Session, IntervalNs} ?= session(Layout, Code),
        {ok, Frames} ?= tried(Session),
        {ok,
            take_after(
                ?EVERY_MS,
                restarted(#{
                    session => Session,
                    frames => Frames,
                    kinds => dyno_agent_stack_kinds:with_own([self()], Kinds),
                    interval_ns => IntervalNs,
                    put_off => 0,
                    owner => Owner
                })
            )}
    else
        {error, Reason} ->
            true = unlink(Guard),
            {error, {?MODULE, Reason}}
    end.

loaded(none) -> {error, no_library};
loaded(Library) -> dyno_agent_cpu_nif:load(Library).

code() ->
    case dyno_agent_cpu_maps:read() of
        {ok, #{code := Code}} -> {ok, Code};
        {error, Reason} -> {error, {no_maps, Reason}}
    end.

session(Layout, Code) ->
    Schedulers = erlang:system_info(schedulers_online),
    IntervalNs = max(?INTERVAL_NS, Schedulers * 1_000_000_000 div ?MOST_A_SECOND),
    maybe
        [_ | _] = Threads ?=
            [
                case Number > erlang:system_info(schedulers) of
                    true -> -Tid;
                    false -> Tid
                end
             || Number := Tid <- dyno_agent_threads:numbers()
            ],
        {ok, Session, Timers} ?=
            dyno_agent_cpu_nif:start(Layout, Code, Threads, IntervalNs, ?DEADLINE_MS),
        case Timers =:= length(Threads) of
            true ->
                {ok, Session, IntervalNs};
            false ->
                _ = dyno_agent_cpu_nif:stop(Session),
                {error, {no_timers, Timers}}
        end
    else
        [] -> {error, no_threads};
        {error, _} = Error -> Error
    end.

tried(Session) ->
    maybe
        {error, _} = Error ?= dyno_agent_cpu_trial:test(Session, dyno_agent_cpu_frames:new()),
        _ = dyno_agent_cpu_nif:stop(Session),
        Error
    end.

restarted(#{session := Session} = State) ->
    _ = dyno_agent_cpu_nif:drain(Session, 1_000_000),
    State#{
        tree => dyno_agent_stack_tree:new(?NODES),
        cost => 0,
        squares => 0,
        counts => #{samples => 0, own => 0, elsewhere => 0, scheduler => 0},
        since => spent(Session)
    }.

spent(Session) ->
    {ProcessNs, Threads} = dyno_agent_cpu_nif:clocks(Session),
    {ProcessNs, lists:sum([Lost || {_, Lost} <- Threads])}.

-spec handle_call(restart | read, gen_server:from(), state()) -> {reply, ok | counted(), state()}.
handle_call(restart, _From, State) ->
    {reply, ok, restarted(State)};
handle_call(read, _From, State) ->
    #{tree := Tree, counts := Counts, since := {Ns, Lost}, session := Session, cost := Cost} =
        Taken = taken(State),
    {NowNs, NowLost} = spent(Session),
    {reply,
        Counts#{
            stacks => [
                {Group, Stack, Weight}
             || {[Group | Stack], Weight} <- dyno_agent_stack_tree:paths(Tree)
            ],
            squares => map_get(squares, Taken),
            other => dyno_agent_stack_tree:other(Tree),
            lost => NowLost - Lost,
            interval_ns => map_get(interval_ns, Taken),
            process_ns => NowNs - Ns,
            cost_ns =>
                erlang:convert_time_unit(Cost, native, nanosecond) +
                ?SAMPLE_NS * lists:sum(maps:values(Counts))
        },
        Taken}.

-spec handle_cast(term(), state()) -> {noreply, state()}.
handle_cast(_Request, State) -> {noreply, State}.

-spec handle_info(term(), state()) -> {noreply, state()} | {stop, term(), state()}.
handle_info(take, #{cost := Cost} = State) ->
    Waking = dyno_agent_process:waking(),
    Begin = erlang:monotonic_time(),
    {Ms, Next} = take(State),
    Took = erlang:monotonic_time() - Begin,
    {noreply, take_after(Ms, Next#{cost := Cost + Waking + Took})};
handle_info({'EXIT', _Pid, Reason}, State) when Reason =/= normal ->
    {stop, shutdown, State};
handle_info(_Other, State) ->
    {noreply, State}.

-spec terminate(term(), state()) -> ok.
terminate(_Reason, #{session := Session}) ->
    _ = dyno_agent_cpu_nif:stop(Session),
    ok.

take(#{session := Session, put_off := PutOff, owner := Owner} = State) ->
    case dyno_agent_cpu_nif:waiting(Session) =< ?FEW of
        true when PutOff < ?MOST_PUT_OFF -> {?FEW_EVERY_MS, State#{put_off := PutOff + 1}};
        true ->
            {?FEW_EVERY_MS, taken(State)};
        false ->
            Owner ! {?MODULE, busy},
            {?EVERY_MS, taken(State)}
    end.

taken(#{session := Session, frames := Frames} = State) ->
    Samples = dyno_agent_cpu_nif:drain(Session, ?AT_ONCE),
    {Decoded, Next} = dyno_agent_cpu_frames:decode(Session, Samples, Frames),
    Added = lists:foldl(fun add/2, State#{frames := Next, put_off := 0}, Decoded),
    case length(Samples) of
        ?AT_ONCE -> taken(Added);
        _ -> Added
    end.

take_after(Ms, State) ->
    _ = erlang:send_after(dyno_agent_process:together_ms(Ms), self(), take),
    State.

add({none, Stack, Weight}, State) ->
    counted(scheduler, Stack, Weight, State);
add({Pid, Stack, Weight}, #{kinds := Kinds} = State) ->
    {Group, Next} = dyno_agent_stack_kinds:group(Pid, Stack, Kinds),
    counted(Group, Stack, Weight, State#{kinds := Next}).

counted(Group, _Stack, Weight, #{counts := Counts} = State) when
    Group =:= own; Group =:= elsewhere; Group =:= scheduler
->
    #{Group := Before} = Counts,
    State#{counts := Counts#{Group := Before + Weight}};
counted(Group, Stack, Weight, #{counts := #{samples := N} = Counts, tree := Tree} = State) ->
    State#{
        squares := map_get(squares, State) + Weight * Weight,
        counts := Counts#{samples := N + 1},
        tree := dyno_agent_stack_tree:add([Group | Stack], Weight, Tree)
    }.
