%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_calls).
-moduledoc """
Counts calls, own time and allocated words of functions, in trace sessions of its own.

Modules that are loaded later are measured from their first call. Before a module is loaded again
its statistics are read and kept, because the runtime throws them away with the old code. Calls
within the few milliseconds around a reload may be missing or count twice.

The runtime keeps times for each function and process, also of processes that have ended: on a node
that starts thousands of processes a second they would grow without end. So the statistics are read
and reset whenever so many new processes were discovered, and only sums are kept.

```
signs of loading, restart, read
  v
this process --event--> dyno_agent_call_counts, pure: modules, sums (dyno_agent_call_sums)
  |          <-effects-
  +- dyno_agent_call_sessions: the breakpoints, a double buffer
  +- dyno_agent_overhead: what measuring adds to a call; goes on measuring it
  +- dyno_agent_call_sample: how many measured calls a function makes
  +- dyno_agent_processes: says when to read and reset, and which groups processes are of
```

At the level `budget` another process does all this in its own way (dyno_agent_budget).

## Cost
In the target, for each call of a measured function: 13 ns for `call_count`, 74 ns for
`call_time`, 37 ns for `call_memory` (OTP 29 with the JIT; doc/architecture.md).
""".

-behaviour(dyno_agent_instrument).
-behaviour(gen_server).

-export([about/0, config/1]).
-export([start_link/1, restart/1, read/1, peek/1, loads/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2, terminate/2]).
-export_type([config/0, measure/0, result/0, function_result/0]).

-type measure() :: dyno_agent_call_sessions:measure().

-type config() :: #{
    patterns := [dyno_agent_patterns:pattern()],
    measures := [measure()],
    %% Knows the processes' groups, and is told about modules that come.
    processes => pid(),
    %% Whose calls are counted: all by default.
    select => [dyno_agent_process_choice:selector()]
}.

-doc """
A function's statistics since the last `restart/1`. Words are of 8 bytes. Times at the level
`budget` have no `raw_time_ns`, and calls only where something is known of them.
""".
-type function_result() :: #{
    mfa := mfa(),
    calls => non_neg_integer(),
    %% At the level `budget`, with 95 % intervals of what is not exact.
    counted => exact | estimated | no,
    calls_low => non_neg_integer(),
    calls_high => non_neg_integer(),
    own_time_low_ns => non_neg_integer(),
    own_time_high_ns => non_neg_integer(),
    time_from => stacks | windows | both,
    %% As the runtime has it, and without what measuring has added to it.
    raw_time_ns => non_neg_integer(),
    own_time_ns => non_neg_integer(),
    %% What the own time may be off by: the runtime cuts each process's time to microseconds.
    uncertain_ns => non_neg_integer(),
    %% What measuring has added to each call, in the mean.
    overhead_ns => float(),
    words => non_neg_integer()
}.

-type result() :: #{
    functions := [function_result()],
    callers := [{mfa(), Group :: term(), Calls :: non_neg_integer(), Ns :: non_neg_integer()}],
    measured_functions := non_neg_integer(),
    %% Modules that were loaded again while they were measured.
    reloaded := [module()],
    %% Of these, the ones that were replaced before their statistics could be read.
    lost := [module()],
    %% Reading while it is counted makes the counts inexact by about this share at most.
    off_by := float(),
    %% What measuring adds to the time of each call, at least.
    least_overhead_ns := float() | undefined,
    %% What the node had of the processors meanwhile, where each call is timed.
    processor_ns => non_neg_integer(),
    budget => #{
        share := float(),
        %% What windows and breakpoints took of the time that the schedulers worked.
        spent := float(),
        windows := non_neg_integer(),
        windows_ns := non_neg_integer(),
        %% Called so often, and so short, that their time is in that of their callers.
        left_out := [mfa()]
    }
}.

-type state() :: #{
    counts := dyno_agent_call_counts:t(),
    sessions := dyno_agent_call_sessions:t(),
    measures := [measure()],
    processes := pid() | none,
    table := dyno_agent_process_table:t() | none,
    since := integer(),
    processor_since := integer(),
    %% Of processes and functions, in the reading under way.
    rows := non_neg_integer(),
    overhead := dyno_agent_overhead:t(),
    %% How many measured calls functions make: who asks, and the answer once it is there.
    sampler := dyno_agent_call_sample:sampler(),
    sample := dyno_agent_call_sample:sample()
}.

%% Calls and returns are traced one by one until there are so many.
-define(CALLS_IN_SAMPLE, 20_000).
%% The runtime takes some 50 bytes for each: 250 MB.
-define(MOST_ROWS, 5_000_000).
-define(ROW_BYTES, 50).
%% Where nobody discovers processes, nobody knows how many are new: the statistics are read and
%% reset so often, and less often where they had few rows. Few rows are read while nothing counts.
-define(ALONE_MS, 5000).
-define(ALONE_MOST_MS, 60_000).
-define(FEW_ROWS, 20_000).

-spec about() -> dyno_agent_instrument:about().
about() ->
    #{
        names => [functions],
        needs => [dyno_agent_processes, dyno_agent_stacks],
        parts => dyno_agent_call_parts,
        traces => true
    }.

%% The share of the target's processor time.
-define(BUDGET, 0.05).

-spec config(dyno_agent_instrument:options()) -> config() | dyno_agent_budget:config() | off.
config(#{patterns := []}) -> off;
config(#{level := off}) -> off;
config(#{level := budget, patterns := Patterns} = Options) ->
    Budget = maps:get(budget, Options, ?BUDGET),
    Stacks = #{stacks => Pid || #{dyno_agent_stacks := Pid} <- [Options]},
    (with_processes(Options, Stacks))#{patterns => Patterns, budget => Budget};
config(#{patterns := Patterns, level := Level} = Options) ->
    with_processes(Options, #{
        patterns => Patterns,
        measures => measures(Level),
        select => maps:get(processes, Options, [])
    }).

with_processes(#{dyno_agent_processes := Processes}, Config) -> Config#{processes => Processes};
with_processes(_Options, Config) -> Config.

measures(discovery) -> [];
measures(count) -> [call_count];
measures(time) -> [call_time];
measures(memory) -> [call_memory];
measures(all) -> [call_time, call_memory].

-doc "Starts counting. Fails with `{unmatched, Patterns}` where a pattern means nothing here.".
-spec start_link(config() | dyno_agent_budget:config()) -> gen_server:start_ret().
start_link(#{budget := _} = Config) ->
    dyno_agent_budget:start_link(Config);
start_link(Config) ->
    gen_server:start_link(?MODULE, Config, []).

-doc "Sets all statistics to zero.".
-spec restart(pid()) -> ok.
restart(Pid) ->
    gen_server:call(Pid, restart, infinity).

-doc """
Stops counting and gives the statistics; with a `processes`, also by group of processes.

## Cost
Half a microsecond a function, and 0.2 microseconds for each process that called it.
""".
-spec read(pid()) -> result().
read(Pid) ->
    gen_server:call(Pid, read, infinity).

-doc """
Gives the statistics until now, and goes on counting: all modules are read and reset.
""".
-spec peek(pid()) -> result().
peek(Pid) ->
    gen_server:call(Pid, peek, infinity).

-doc "How many loadings of modules, of any, have ended since the start.".
-spec loads(pid()) -> non_neg_integer().
loads(Pid) ->
    gen_server:call(Pid, loads, infinity).

-spec init(config()) -> {ok, state()} | {error, term()}.
init(#{patterns := Patterns, measures := Measures} = Config) ->
    process_flag(trap_exit, true),
    %% Idle but for the moments before a module is replaced, and then it must come first.
    process_flag(priority, high),
    proc_lib:set_label(?MODULE),
    ok = dyno_agent_process:unlimited(),
    case dyno_agent_patterns:unmatched(Patterns) of
        [] -> {ok, begun(dyno_agent_patterns:resolve(Patterns), Measures, Config)};
        Unmatched -> {error, {unmatched, Unmatched}}
    end.

begun(Patterns, Measures, Config) ->
    Processes = maps:get(processes, Config, none),
    Overhead = dyno_agent_overhead:open(Measures),
    Modules = dyno_agent_call_counts:measured(Patterns),
    %% Its breakpoints come before those that count.
    Specs = [F || M <- Modules, F <- dyno_agent_patterns:specs(M, Patterns)],
    Others = dyno_agent_process:others(),
    Sampler = dyno_agent_call_sample:open(Specs, [], Measures, Others, ?CALLS_IN_SAMPLE),
    {Sessions, Counts} = lists:foldl(
        fun measure/2,
        {dyno_agent_call_sessions:open(Patterns, Measures), dyno_agent_call_counts:new(Patterns)},
        Modules
    ),
    #{
        counts => Counts,
        sessions => dyno_agent_call_sessions:flag_processes(maps:get(select, Config, []), Sessions),
        measures => Measures,
        processes => Processes,
        table => subscribed(Processes, Measures),
        since => dyno_agent_call_sessions:work(),
        processor_since => dyno_agent_os:processor_ns(),
        rows => 0,
        overhead => Overhead,
        sampler => Sampler,
        sample => #{}
    }.

measure(Module, {Before, Counts}) ->
    case dyno_agent_call_sessions:set(Module, Before) of
        {0, Sessions} ->
            {Sessions, Counts};
        {_, Sessions} ->
            {Next, []} = dyno_agent_call_counts:event({measured, Module}, Counts),
            {Sessions, Next}
    end.

subscribed(Processes, Measures) ->
    case {Processes, Measures -- [call_count]} of
        {none, []} ->
            none;
        {none, _} ->
            _ = erlang:send_after(?ALONE_MS, self(), {alone, ?ALONE_MS}),
            none;
        {_, []} ->
            dyno_agent_processes:subscribe(Processes, sums);
        {_, _} ->
            dyno_agent_processes:subscribe(Processes, by_process)
    end.

-spec handle_call(Request, gen_server:from(), state()) -> {reply, Reply, state()} when
    Request :: restart | read | peek | loads,
    Reply :: ok | result() | non_neg_integer().
handle_call(loads, _From, #{counts := Counts} = State) ->
    {reply, dyno_agent_call_counts:loads(Counts), State};
handle_call(restart, _From, State) ->
    {reply, ok, restarted(tell_discovered(callers(State)))};
handle_call(peek, _From, State) ->
    Read = read_and_reset(State),
    {reply, result(Read), tell_discovered(Read)};
handle_call(read, _From, State) ->
    #{overhead := Overhead} = Read = event({read, lookup(State)}, pause(State)),
    Resolved = event(
        {resolve, lookup(Read)}, Read#{overhead := dyno_agent_overhead:at_end(Overhead)}
    ),
    Result = result(Resolved),
    %% What is counted is in the sums now: a second reading must not count it twice.
    {reply, Result, pause(restart_sessions(tell_discovered(without_self(Resolved))))}.

restarted(#{sessions := Before, overhead := Overhead, sampler := Sampler} = State) ->
    Sample = dyno_agent_call_sample:sample(Sampler),
    Others = dyno_agent_process:others() ++ dyno_agent_overhead:processes(Overhead),
    Without = dyno_agent_call_sessions:leave_out(Others, Before),
    #{sessions := Sessions} =
        Next = event(restarted, restart_sessions(State#{sessions := Without})),
    Next#{
        sessions := dyno_agent_call_sessions:forget_gaps(Sessions),
        overhead := dyno_agent_overhead:restart(Overhead),
        sample := Sample,
        since := dyno_agent_call_sessions:work(),
        processor_since := dyno_agent_os:processor_ns()
    }.

restart_sessions(#{sessions := Sessions} = State) ->
    State#{sessions := dyno_agent_call_sessions:restart(Sessions)}.

pause(#{sessions := Sessions} = State) ->
    State#{sessions := dyno_agent_call_sessions:pause(Sessions)}.

-spec handle_cast(term(), state()) -> {noreply, state()}.
handle_cast(_Request, State) ->
    {noreply, State}.

-spec handle_info(term(), state()) -> {noreply, state()} | {stop, term(), state()}.
handle_info({trace, _Pid, call, {erlang, prepare_loading, 2}, Module}, State) ->
    {noreply, tell_discovered(event({loading, Module, prepared}, State))};
handle_info({trace, _Pid, call, {code, _, _}, Module}, State) ->
    {noreply, tell_discovered(event({loading, Module, announced}, State))};
handle_info({trace, _Pid, return_from, {erlang, finish_loading, 1}, _Result}, State) ->
    {noreply, event(load_ended, State)};
handle_info({find_callers, Processes}, #{processes := Processes} = State) ->
    Next = tell_discovered(callers(State)),
    ok = dyno_agent_processes:was_read(Processes),
    {noreply, Next};
handle_info({read_and_reset, Processes}, #{processes := Processes} = State) ->
    %% Thousands of processes are new. Those that were discovered go first: with the end of the
    %% reading those that have ended are deleted.
    Next = tell_discovered(read_and_reset(State#{rows := ?FEW_ROWS})),
    ok = dyno_agent_processes:was_read(Processes),
    {noreply, Next};
handle_info({alone, AfterMs}, State) ->
    #{rows := Rows} = Next = read_and_reset(State),
    NextMs =
        case Rows < ?FEW_ROWS of
            true -> min(?ALONE_MOST_MS, 2 * AfterMs);
            false -> ?ALONE_MS
        end,
    _ = erlang:send_after(NextMs, self(), {alone, NextMs}),
    {noreply, Next};
handle_info({'EXIT', _Parent, Reason}, State) ->
    {stop, Reason, State};
handle_info(_Other, State) ->
    {noreply, State}.

read_and_reset(#{overhead := Overhead} = Before) ->
    State = Before#{overhead := dyno_agent_overhead:update(Overhead)},
    Read = event({read_and_reset, lookup(State)}, State),
    event({resolve, lookup(Read)}, event({replaced, announced_meanwhile()}, Read)).

%% The statistics of a module that was replaced between the pause and its reading are gone with its
%% old code. The messages about its loading are still in the mailbox then.
announced_meanwhile() ->
    {messages, Messages} = process_info(self(), messages),
    [Module || {trace, _, call, _, Module} <- Messages].

event(Event, #{counts := Counts} = State) ->
    {Next, Effects} = dyno_agent_call_counts:event(Event, Counts),
    lists:foldl(fun effect/2, State#{counts := Next}, Effects).

effect({read_replaced, Module, Sign, Before}, #{sessions := Sessions0} = State) ->
    EndedBefore = load_has_ended(),
    Paused = dyno_agent_call_sessions:pause(Module, Sessions0),
    Session = dyno_agent_call_sessions:counting(Sessions0),
    Read = read_module(Module, Session, 1.0, lookup(State), State),
    Sessions1 = dyno_agent_call_sessions:resume(Module, Paused, Sessions0),
    Ended = {EndedBefore, load_has_ended()},
    Sessions =
        case Ended of
            {false, false} -> Sessions1;
            _ -> dyno_agent_call_sessions:missed(Module, Sessions0, Sessions1)
        end,
    event({was_read, Module, Sign, Ended, Before}, Read#{sessions := Sessions});
effect({missed, Module}, #{sessions := Sessions} = State) ->
    State#{sessions := dyno_agent_call_sessions:missed(Module, Sessions, Sessions)};
effect({narrow, Module, Is}, #{sessions := Sessions, processes := Processes} = State) ->
    Narrowed = dyno_agent_call_sessions:narrow(Module, Is, Sessions),
    case Processes of
        none -> ok;
        _ -> dyno_agent_processes:loaded(Processes, Module)
    end,
    State#{sessions := Narrowed};
effect({read_and_reset, Modules}, #{sessions := Before, rows := Rows} = State) when
    Rows < ?FEW_ROWS
->
    Read = read_modules(Modules, fun dyno_agent_call_sessions:counting/1, State#{
        sessions := dyno_agent_call_sessions:pause(Before), rows := 0
    }),
    #{sessions := Paused} = Read,
    Read#{sessions := dyno_agent_call_sessions:resume(Paused)};
effect({read_and_reset, Modules}, #{sessions := Before} = State) ->
    Sessions = dyno_agent_call_sessions:switch(Modules, Before),
    Read = read_modules(Modules, fun dyno_agent_call_sessions:idle/1, State#{
        sessions := Sessions, rows := 0
    }),
    %% Many rows were on the heap, one function's after the other's.
    true = garbage_collect(),
    Read;
effect({read, Modules}, State) ->
    read_modules(Modules, fun dyno_agent_call_sessions:counting/1, State).

read_modules(Modules, Which, #{sessions := Sessions} = State) ->
    Session = Which(Sessions),
    Factor = dyno_agent_call_sessions:gap_factor(Sessions),
    Context = with_known_groups(lookup(State), State),
    lists:foldl(
        fun(Module, Acc) -> read_module(Module, Session, Factor, Context, Acc) end, State, Modules
    ).

read_module(Module, Session, Factor, Context, #{sessions := Sessions} = State) ->
    add(dyno_agent_call_sessions:functions(Module, Sessions), Session, Factor, Context, State).

load_has_ended() ->
    receive
        {trace, _, return_from, {erlang, finish_loading, 1}, _} = Message ->
            self() ! Message,
            true
    after 0 -> false
    end.

%% One function after the other: the rows of all at once would be a large heap. Throttled functions
%% come first: then the groups of their callers are known when these turn up in other functions.
add(Functions, Session, GapFactor, #{throttled := Throttled} = Context, State) ->
    #{overhead := Overhead, sessions := Sessions} = State,
    {First, Others} = lists:partition(fun(MFA) -> is_map_key(MFA, Throttled) end, Functions),
    With = #{
        least_ns => dyno_agent_overhead:least_ns(Overhead),
        call_ns => dyno_agent_overhead:first_ns(Overhead),
        gap_factor => GapFactor
    },
    lists:foldl(
        fun(MFA, #{counts := Counts, rows := Rows} = Acc) ->
            #{time := Time, memory := Memory} =
                Reading = dyno_agent_call_sessions:reading(Session, MFA, Sessions),
            Acc#{
                counts := dyno_agent_call_counts:add(MFA, Reading, {Context, With}, Counts),
                rows := few(Rows + length(Time) + length(Memory))
            }
        end,
        State,
        First ++ Others
    ).

%% Processes start faster than they can be read: it would only become more.
few(Rows) when Rows < ?MOST_ROWS -> Rows;
few(Rows) -> exit({shutdown, {limit_bytes, ?MOST_ROWS * ?ROW_BYTES, Rows * ?ROW_BYTES}}).

%% The processes

lookup(#{table := none}) ->
    #{group_of => none, throttled => #{}};
lookup(#{table := Table}) ->
    #{
        group_of => fun(Pid) -> dyno_agent_process_table:group_of(Pid, Table) end,
        throttled => dyno_agent_process_table:throttled(Table)
    }.

%% Thousands of processes have called dozens of functions each: to find the group of each of these
%% rows in a table that another process writes to takes several times as long.
with_known_groups(Context, #{table := none}) ->
    Context;
with_known_groups(Context, #{table := Table}) ->
    Groups = dyno_agent_process_table:groups(Table),
    Context#{
        group_of := fun(Pid) ->
            case Groups of
                #{Pid := Group} -> {ok, Group};
                #{} -> unknown
            end
        end
    }.

%% Of throttled functions, without a reading.
callers(#{sessions := Sessions} = State) ->
    #{throttled := Throttled} = Context = lookup(State),
    lists:foldl(
        fun(MFA, Acc) ->
            Pids = dyno_agent_call_sessions:callers(MFA, Sessions),
            event({callers, MFA, Pids, Context}, Acc)
        end,
        State,
        maps:keys(Throttled)
    ).

tell_discovered(#{processes := Processes, counts := Counts} = State) ->
    case dyno_agent_call_counts:take_discovered(Counts) of
        {[], _} ->
            State;
        {Discovered, Next} ->
            ok = dyno_agent_processes:callers(Processes, Discovered),
            State#{counts := Next}
    end.

%% The result

without_self(#{counts := Counts, sessions := Sessions} = State) ->
    SelfCalls = dyno_agent_call_sessions:self_calls(Sessions),
    State#{counts := dyno_agent_call_counts:without(SelfCalls, Counts)}.

result(#{measures := Measures, table := Table, overhead := Overhead, sample := Sample} = State) ->
    #{counts := Counts, sessions := Sessions} = without_self(State),
    #{functions := Functions} = Result = dyno_agent_call_counts:result(Measures, Counts),
    Made = dyno_agent_call_sample:per_call(Functions, Sample),
    Corrected = dyno_agent_overhead:corrected(Result, Made, Overhead),
    Corrected#{
        callers := [
            {MFA, dyno_agent_process_table:group(Id, Table), Calls, Ns}
         || {MFA, Id, Calls, Ns} <- map_get(callers, Corrected)
        ],
        measured_functions => lists:sum([
            length(dyno_agent_call_sessions:functions(Module, Sessions))
         || Module <- dyno_agent_call_counts:modules(Counts)
        ]),
        off_by => off_by(State),
        least_overhead_ns => dyno_agent_overhead:least_ns(Overhead),
        processor_ns => dyno_agent_os:processor_ns() - map_get(processor_since, State)
    }.

%% Too few by the calls of the gaps, or too many by those that were added for them.
off_by(#{sessions := Sessions, counts := Counts, since := Since}) ->
    Work = dyno_agent_call_sessions:work() - Since,
    Lost = min(1.0, dyno_agent_call_sessions:gap(Sessions) / max(1, Work)),
    max(Lost, dyno_agent_call_counts:estimated(Counts)).

-spec terminate(term(), state()) -> ok.
terminate(_Reason, #{overhead := Overhead, sessions := Sessions, sampler := Sampler}) ->
    ok = dyno_agent_overhead:close(Overhead),
    ok = dyno_agent_call_sessions:close(Sessions),
    dyno_agent_call_sample:close(Sampler).
