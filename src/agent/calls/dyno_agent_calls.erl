%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_calls).
-moduledoc """
Counts calls, own time and allocated words of functions, in trace sessions of its own.

Modules that are loaded later are measured from their first call. Before a module is loaded again
its figures are read and kept, because the runtime throws them away with the old code. Calls within
the few milliseconds around a reload may be missing or count twice.

The runtime keeps times for each function and process, also of processes that have died: on a node
that starts thousands of processes a second that would grow without end. The figures are therefore
harvested whenever so many new processes were discovered, and only sums are kept.

## Cost
In the target, for each call of a measured function: 13 ns for `call_count`, 74 ns for
`call_time`, 37 ns for `call_memory` (OTP 29 with the JIT; doc/architecture.md).
""".

-behaviour(dyno_agent_instrument).
-behaviour(gen_server).

-export([about/0, config/1, tables/0, metrics/0, warnings/2]).
-export([start_link/1, restart/1, read/1, peek/1, loads/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2, terminate/2]).
-export_type([config/0, measure/0, figures/0, function_figures/0]).

-type measure() :: dyno_agent_call_sessions:measure().

-type config() :: #{
    patterns := [dyno_agent_patterns:pattern()],
    measures := [measure()],
    %% Knows the processes' groups, and is told about modules that come.
    discovery => pid()
}.

-doc "A function's figures since the last `restart/1`. Words are of 8 bytes.".
-type function_figures() :: #{
    mfa := mfa(),
    calls := non_neg_integer(),
    own_time_ns => non_neg_integer(),
    %% What the own time may be off by: the runtime cuts each process's time to microseconds.
    uncertain_ns => non_neg_integer(),
    %% What measuring has added to each call, in the mean.
    charge_ns => float(),
    words => non_neg_integer()
}.

-type figures() :: #{
    functions := [function_figures()],
    callers := [{mfa(), Group :: term(), Calls :: non_neg_integer(), Ns :: non_neg_integer()}],
    measured_functions := non_neg_integer(),
    %% Modules that were loaded again while they were measured.
    reloaded := [module()],
    %% Of these, the ones that were replaced before their figures could be read.
    lost := [module()],
    %% Harvests make the counts inexact by about this share at most.
    off_by := float(),
    %% What measuring adds to the time of each call, at least, and what more it may be.
    self_charge_ns := float() | undefined,
    charge_uncertain_ns := float() | undefined
}.

-type state() :: #{
    banks := dyno_agent_call_sessions:banks(),
    %% What of mere counts is dyno's own.
    own := dyno_agent_self_calls:own(),
    patterns := [dyno_agent_patterns:pattern()],
    measures := [measure()],
    discovery := pid() | undefined,
    %% Of the discovery, with the processes and their groups, and what is in it, while much of it is
    %% needed.
    table := dyno_agent_process_table:t() | none,
    known := #{pid() => dyno_agent_process_table:id()} | none,
    %% The callers of throttled functions that were read and not told yet.
    discovered := #{pid() => dyno_agent_process_table:id()},
    %% Functions that were seen called, by module.
    active := #{module() => #{mfa() => []}},
    harvests := non_neg_integer(),
    since := integer(),
    %% Modules that are measured now, and whether there was a good reading since they were loaded.
    modules := #{module() => good | none},
    %% Modules whose loading was seen to begin, and how many ends of loadings to wait for.
    loading := #{module() => pos_integer()},
    loads := non_neg_integer(),
    kept := dyno_agent_call_sums:tally(),
    reloaded := [module()],
    lost := [module()],
    charge := dyno_agent_overhead:t(),
    %% How many measured calls functions make: who asks, and the answer once it is there.
    sampler := dyno_agent_call_sample:sampler(),
    outgoing := dyno_agent_call_sample:sample()
}.

%% Two modules may be prepared at the same time and finished in the other order.
-define(ENDS_TO_WAIT_FOR, 3).
%% Modules that did not work before are looked at only in every so many harvests.
-define(LOOK_AT_ALL, 10).
%% How many rows of who called what are sent: the heaviest.
-define(CALLER_ROWS, 5000).

-spec about() -> dyno_agent_instrument:about().
about() -> #{names => [functions], needs => [dyno_agent_processes], traces => true}.

-spec config(dyno_agent_instrument:options()) -> config() | off.
config(#{patterns := []}) -> off;
config(#{level := off}) -> off;
config(#{patterns := Patterns, level := Level} = Options) ->
    Config = #{patterns => Patterns, measures => measures(Level)},
    case Options of
        #{dyno_agent_processes := Discovery} -> Config#{discovery => Discovery};
        #{} -> Config
    end.

measures(discovery) -> [];
measures(count) -> [call_count];
measures(time) -> [call_time];
measures(memory) -> [call_memory];
measures(all) -> [call_time, call_memory].

-spec tables() -> [dyno_agent_instrument:table()].
tables() -> dyno_agent_call_parts:tables().

-spec metrics() -> [dyno_agent_instrument:metric()].
metrics() -> dyno_agent_call_parts:metrics().

-spec warnings(node(), figures()) -> [dyno_agent_instrument:warning()].
warnings(Node, Result) -> dyno_agent_call_parts:warnings(Node, Result).

-doc "Starts counting. Fails with `{unmatched, Patterns}` where a pattern means nothing here.".
-spec start_link(config()) -> gen_server:start_ret().
start_link(Config) ->
    gen_server:start_link(?MODULE, Config, []).

-doc "Sets all figures to zero.".
-spec restart(pid()) -> ok.
restart(Pid) ->
    gen_server:call(Pid, restart, infinity).

-doc """
Stops counting and gives the figures; with a discovery, also by group of processes.

## Cost
Half a microsecond a function, and 0.2 microseconds for each process that called it.
""".
-spec read(pid()) -> figures().
read(Pid) ->
    gen_server:call(Pid, read, infinity).

-doc """
Gives the figures until now, and goes on counting: each module's figures are taken in, as when
processes are harvested.
""".
-spec peek(pid()) -> figures().
peek(Pid) ->
    gen_server:call(Pid, peek, infinity).

-doc "How many loadings of modules, of any, have ended since the start.".
-spec loads(pid()) -> non_neg_integer().
loads(Pid) ->
    gen_server:call(Pid, loads, infinity).

-spec init(config()) -> {ok, state()} | {error, term()}.
init(#{patterns := Given, measures := Measures} = Config) ->
    process_flag(trap_exit, true),
    %% Idle but for the moments before a module is replaced, and then it must come first.
    process_flag(priority, high),
    proc_lib:set_label(?MODULE),
    case dyno_agent_patterns:unmatched(Given) of
        [] ->
            Charge = dyno_agent_overhead:open(Measures),
            Patterns = dyno_agent_patterns:resolve(Given),
            %% Before the breakpoints that count.
            Functions = [F || M <- wanted(Patterns), F <- dyno_agent_patterns:specs(M, Patterns)],
            Sampler = dyno_agent_call_sample:open(Functions, Measures, own()),
            Discovery = maps:get(discovery, Config, undefined),
            State = #{
                banks => dyno_agent_call_sessions:open(Patterns, Measures),
                own => dyno_agent_self_calls:open(Patterns, Measures),
                patterns => Patterns,
                measures => Measures,
                discovery => Discovery,
                table => table(Discovery, Measures),
                known => none,
                discovered => #{},
                active => #{},
                harvests => 0,
                since => erlang:monotonic_time(),
                modules => #{},
                loading => #{},
                loads => 0,
                kept => dyno_agent_call_sums:new(),
                reloaded => [],
                lost => [],
                charge => Charge,
                sampler => Sampler,
                outgoing => #{}
            },
            {ok, arm(State)};
        Unmatched ->
            {error, {unmatched, Unmatched}}
    end.

table(undefined, _Measures) ->
    none;
table(Discovery, Measures) ->
    case lists:member(call_time, Measures) of
        true -> dyno_agent_processes:subscribe(Discovery, by_process);
        false -> dyno_agent_processes:subscribe(Discovery, sums)
    end.

throttled(#{table := none}) -> #{};
throttled(#{table := Table}) -> dyno_agent_process_table:throttled(Table).

arm(#{banks := Banks, patterns := Patterns} = State) ->
    Armed = lists:foldl(fun set/2, State, wanted(Patterns)),
    Armed#{banks := dyno_agent_call_sessions:flag_processes(Banks)}.

wanted(Patterns) -> [M || M <- erlang:loaded(), is_wanted(M, Patterns)].

is_wanted(Module, Patterns) ->
    is_measurable(Module) andalso dyno_agent_patterns:matches_module(Module, Patterns).

%% Our own modules are never measured, and neither is the tracing itself.
is_measurable(Module) ->
    not lists:prefix("dyno_agent", atom_to_list(Module)) andalso
        not lists:member(Module, [trace, erts_internal, erl_tracer]).

set(Module, #{banks := Banks, modules := Modules, own := Own} = State) ->
    case dyno_agent_call_sessions:set(Module, Banks) of
        0 ->
            State;
        _ ->
            State#{modules := Modules#{Module => none}, own := dyno_agent_self_calls:set(Module, Own)}
    end.

-spec handle_call(Request, gen_server:from(), state()) -> {reply, Reply, state()} when
    Request :: restart | read | peek | loads,
    Reply :: ok | figures() | non_neg_integer().
handle_call(peek, _From, State) ->
    Settled = settle(harvest(State#{harvests := 0})),
    {reply, report(Settled), tell_discovered(Settled)};
handle_call(loads, _From, #{loads := Loads} = State) ->
    {reply, Loads, State};
handle_call(restart, _From, Before) ->
    #{banks := Old, own := OldOwn, charge := Charge, sampler := Sampler} = State =
        tell_discovered(callers(Before)),
    Outgoing = dyno_agent_call_sample:sample(Sampler),
    Others = own() ++ dyno_agent_overhead:processes(Charge),
    ok = dyno_agent_self_calls:watch([self() | Others], OldOwn),
    #{banks := Banks, own := Own} =
        restart_all(State#{banks := dyno_agent_call_sessions:leave_out(Others, Old)}),
    {_, Fresh} = dyno_agent_call_sessions:between_ns(Banks),
    {reply, ok, State#{
        banks := Fresh,
        own := Own,
        kept := dyno_agent_call_sums:new(),
        charge := dyno_agent_overhead:restart(Charge),
        outgoing := Outgoing,
        since := erlang:monotonic_time(),
        reloaded := [],
        lost := []
    }};
handle_call(read, _From, #{modules := Modules} = State) ->
    pause_all(State),
    Read = lists:foldl(fun read_paused/2, with_known(State), throttled_first(Modules, State)),
    Settled = settle(
        Read#{known := none, charge := dyno_agent_overhead:settled(map_get(charge, Read))}
    ),
    Figures = report(Settled),
    %% What is counted is in the sums now: a second reading must not count it twice.
    Restarted = restart_all(tell_discovered(Settled#{kept := without_own(Settled)})),
    pause_all(Restarted),
    {reply, Figures, Restarted}.

%% So that the callers of throttled functions are known when they turn up in other modules.
throttled_first(Modules, State) ->
    First = lists:usort([M || {M, _, _} := _ <- throttled(State), is_map_key(M, Modules)]),
    First ++ maps:keys(maps:without(First, Modules)).

%% Of throttled functions, without a reading.
callers(#{banks := Banks, table := Table} = State) ->
    maps:fold(
        fun(MFA, Id, #{discovered := Discovered} = Acc) ->
            Callers = dyno_agent_call_sessions:callers(MFA, Banks),
            New = [P || P <- Callers, dyno_agent_process_table:group_of(P, Table) =:= unknown],
            Acc#{discovered := maps:merge(maps:from_keys(New, Id), Discovered)}
        end,
        State,
        throttled(State)
    ).

settle(#{kept := Kept} = State) ->
    State#{kept := dyno_agent_call_sums:settle(group_of_all(State), Kept)}.

%% Thousands of processes have called dozens of functions each: to look each of these rows up in a
%% table that another process writes to takes several times as long.
with_known(#{table := none} = State) ->
    State;
with_known(#{table := Table} = State) ->
    State#{known := dyno_agent_process_table:known(Table)}.

%% The discovery's table has not got those that were just read.
group_of_all(#{table := none}) ->
    none;
group_of_all(#{known := Known, discovered := Discovered}) when is_map(Known) ->
    fun(Pid) ->
        case Known of
            #{Pid := Id} -> {ok, Id};
            #{} -> discovered_as(Pid, Discovered)
        end
    end;
group_of_all(#{table := Table, discovered := Discovered}) ->
    fun(Pid) ->
        case dyno_agent_process_table:group_of(Pid, Table) of
            {ok, _} = Known -> Known;
            unknown -> discovered_as(Pid, Discovered)
        end
    end.

discovered_as(Pid, Discovered) ->
    case Discovered of
        #{Pid := Id} -> {ok, Id};
        #{} -> unknown
    end.

tell_discovered(#{discovered := Discovered} = State) when Discovered =:= #{} ->
    State;
tell_discovered(#{discovered := Discovered, discovery := Discovery} = State) ->
    ok = dyno_agent_processes:callers(Discovery, maps:to_list(Discovered)),
    State#{discovered := #{}}.

%% The guard, and what it has started by now, but for this process.
own() ->
    {parent, Guard} = process_info(self(), parent),
    case process_info(Guard, links) of
        {links, Links} -> [Guard | [P || P <- Links, is_pid(P), node(P) =:= node()]] -- [self()];
        undefined -> []
    end.

restart_all(#{modules := Modules, banks := Banks, own := Own} = State) ->
    {Restarted, OwnRestarted} = lists:foldl(
        fun(M, {B, O}) -> {dyno_agent_call_sessions:restart(M, B), dyno_agent_self_calls:restart(M, O)} end,
        {Banks, Own},
        maps:keys(Modules)
    ),
    State#{banks := Restarted, own := OwnRestarted}.

pause_all(#{modules := Modules, banks := Banks, own := Own}) ->
    lists:foreach(
        fun(M) ->
            ok = dyno_agent_call_sessions:pause(M, Banks),
            dyno_agent_self_calls:pause(M, Own)
        end,
        maps:keys(Modules)
    ).

read_paused(Module, #{banks := Banks} = State) ->
    Session = dyno_agent_call_sessions:counting(Module, Banks),
    add(Session, 1.0, dyno_agent_call_sessions:functions(Module, Banks), Module, State).

-spec handle_cast(term(), state()) -> {noreply, state()}.
handle_cast(_Request, State) ->
    {noreply, State}.

-spec handle_info(term(), state()) -> {noreply, state()} | {stop, term(), state()}.
handle_info({trace, _Pid, call, {erlang, prepare_loading, 2}, Module}, State) ->
    {noreply, tell_discovered(before_load(Module, State))};
handle_info({trace, _Pid, call, {code, _, _}, Module}, State) ->
    {_, Next} = keep(Module, State),
    {noreply, tell_discovered(Next)};
handle_info({trace, _Pid, return_from, {erlang, finish_loading, 1}, _Result}, State) ->
    {noreply, after_load(State)};
handle_info({read_and_reset, Discovery}, #{discovery := Discovery} = State) ->
    Next = tell_discovered(settle(harvest(State))),
    ok = dyno_agent_processes:was_read(Discovery),
    {noreply, Next};
handle_info({'EXIT', _Parent, Reason}, State) ->
    {stop, Reason, State};
handle_info(_Other, State) ->
    {noreply, State}.

%% The old code still runs here, as a rule: the loader has only begun to read the new one, which
%% takes it milliseconds. Its figures are taken and set to zero; if the load fails they go on.
before_load(Module, #{loading := Loading} = State0) ->
    case keep(Module, State0#{loading := Loading#{Module => ?ENDS_TO_WAIT_FOR}}) of
        {not_measured, State} ->
            State;
        {in_time, State} ->
            State#{reloaded := lists:usort([Module | map_get(reloaded, State)])};
        {late, State} ->
            State#{
                reloaded := lists:usort([Module | map_get(reloaded, State)]),
                lost := lists:usort([Module | map_get(lost, State)])
            }
    end.

%% New code counts in the first session. So where the load ended before the swap, the one that is
%% read holds all its calls so far, and the other goes on from there. Where it ended between, what
%% was read may be of either code: it is not added. Where none was good since the last load, calls
%% of the old code may be missing.
keep(Module, #{modules := Modules} = State) when not is_map_key(Module, Modules) ->
    {not_measured, State};
keep(Module, #{modules := Modules, kept := Kept, banks := Banks, own := Own} = State) ->
    EndedBefore = load_has_ended(),
    Before = State#{
        banks := dyno_agent_call_sessions:loaded(Module, Banks), own := dyno_agent_self_calls:keep(Module, Own)
    },
    Taken = take(Module, fun(_, _) -> 1.0 end, Before),
    Next = Taken#{banks := dyno_agent_call_sessions:loaded(Module, map_get(banks, Taken))},
    case {EndedBefore, load_has_ended(), map_get(Module, Modules)} of
        {false, false, _} -> {in_time, Next#{modules := Modules#{Module := good}}};
        {true, _, good} -> {in_time, Next};
        {true, _, none} -> {late, Next};
        {false, true, _} -> {late, Next#{kept := Kept}}
    end.

load_has_ended() ->
    receive
        {trace, _, return_from, {erlang, finish_loading, 1}, _} = Message ->
            self() ! Message,
            true
    after 0 -> false
    end.

%% The births are told before the harvest's end is, with which the discovery forgets the dead.
harvest(#{harvests := Number, modules := Modules, charge := Charge} = State0) ->
    State = settle(State0#{
        harvests := Number + 1, charge := dyno_agent_overhead:known(Charge)
    }),
    {Which, Of} =
        case Number rem ?LOOK_AT_ALL of
            0 -> {all, Modules};
            _ -> {active, with_throttled(State)}
        end,
    ByModule = [
        {M, functions(Which, M, State)} || M <- throttled_first(Of, State)
    ],
    %% One after the other, and only then they are read: that takes long, and where a function counts
    %% in one session and who it calls in the other, their time is charged to both.
    Swap = fun({M, _}, Banks) -> dyno_agent_call_sessions:swap(M, Banks) end,
    Swapped = lists:foldl(Swap, map_get(banks, State), ByModule),
    Missed = fun dyno_agent_call_sessions:missed/2,
    Taken = lists:foldl(
        fun({M, Functions}, Acc) -> take_rested(M, Functions, Missed, Acc) end,
        with_known(State#{banks := Swapped}),
        ByModule
    ),
    replaced_meanwhile(Taken#{known := none}).

functions(all, Module, #{banks := Banks}) -> dyno_agent_call_sessions:functions(Module, Banks);
functions(active, Module, State) -> maps:keys(map_get(Module, with_throttled(State))).

%% The functions that were seen called; throttled ones have been, by others than their callers.
with_throttled(#{active := Active, modules := Modules} = State) ->
    maps:fold(
        fun
            ({M, _, _} = MFA, _, Acc) when is_map_key(M, Modules) ->
                Acc#{M => (maps:get(M, Acc, #{}))#{MFA => []}};
            (_, _, Acc) ->
                Acc
        end,
        Active,
        throttled(State)
    ).

%% Adds a module's figures to the sums while it goes on counting in the other session. Harvests come
%% with thousands of processes, whose calls go on in the gap: that is made good for.
take(Module, Missed, #{banks := Banks} = State) ->
    Swapped = State#{banks := dyno_agent_call_sessions:swap(Module, Banks)},
    take_rested(Module, functions(all, Module, State), Missed, Swapped).

take_rested(Module, Functions, Missed, #{banks := Banks} = State) ->
    Session = dyno_agent_call_sessions:rested(Module, Banks),
    Taken = add(Session, Missed(Module, Banks), Functions, Module, State),
    ok = dyno_agent_call_sessions:clear(Module, Banks),
    Taken.

%% The figures of a module that was replaced between its swap and its reading went with its old code.
%% What is said of its loading comes after the harvest that asks this.
replaced_meanwhile(#{modules := Modules, lost := Lost} = State) ->
    {messages, Messages} = process_info(self(), messages),
    Replaced = [M || {trace, _, call, _, M} <- Messages, is_map_key(M, Modules)],
    State#{lost := lists:usort(Replaced ++ Lost)}.

%% One function after the other: the rows of all at once would be a large heap. Throttled functions
%% come first, so that their callers are known when they turn up in other functions.
add(Session, Missed, Functions, Module, #{charge := Charge} = State) ->
    Throttled = throttled(State),
    {First, Others} = lists:partition(fun(MFA) -> is_map_key(MFA, Throttled) end, Functions),
    Instrument = #{
        self_charge_ns => dyno_agent_overhead:least_ns(Charge),
        charge_ns => dyno_agent_overhead:first_ns(Charge),
        missed => Missed
    },
    lists:foldl(
        fun(MFA, Acc) -> add_one(Session, Instrument, Module, MFA, Acc) end, State, First ++ Others
    ).

add_one(Session, Instrument, Module, MFA, #{banks := Banks, active := Active} = State) ->
    case dyno_agent_call_sessions:reading(Session, MFA, Banks) of
        #{calls := 0, time := []} ->
            State;
        Reading ->
            #{kept := Kept} = Discovered = discovered(MFA, Reading, State),
            One = [{MFA, Reading}],
            GroupOf = group_of_all(Discovered),
            Called = maps:get(Module, Active, #{}),
            Discovered#{
                kept := dyno_agent_call_sums:add(One, Instrument#{group_of => GroupOf}, Kept),
                active := Active#{Module => Called#{MFA => []}}
            }
    end.

discovered(MFA, #{time := Time}, #{discovered := Discovered} = State) ->
    case throttled(State) of
        #{MFA := Id} ->
            GroupOf = group_of_all(State),
            Unknown = [Pid || {Pid, Calls, _, _} <- Time, Calls > 0, GroupOf(Pid) =:= unknown],
            State#{discovered := maps:merge(maps:from_keys(Unknown, Id), Discovered)};
        #{} ->
            State
    end.

%% on_load measures every function of every module that comes: take away what was not asked for.
after_load(#{loading := Loading, loads := Loads} = State0) ->
    maps:fold(
        fun(Module, Ends, State) -> finish(Module, Ends, State) end,
        State0#{loading := #{}, loads := Loads + 1},
        Loading
    ).

finish(Module, Ends, #{patterns := Patterns, discovery := Discovery, banks := Banks} = State) ->
    Wanted =
        case is_wanted(Module, Patterns) of
            true -> wanted;
            false -> unwanted
        end,
    ok = dyno_agent_call_sessions:narrow(Module, Wanted, Banks),
    _ = [dyno_agent_processes:loaded(Discovery, Module) || is_pid(Discovery)],
    Next =
        case Wanted of
            wanted ->
                State#{
                    modules := (map_get(modules, State))#{Module => none},
                    own := dyno_agent_self_calls:set(Module, map_get(own, State)),
                    banks := dyno_agent_call_sessions:loaded(Module, Banks)
                };
            unwanted -> State
        end,
    case Ends of
        1 -> Next;
        _ -> Next#{loading := (map_get(loading, Next))#{Module => Ends - 1}}
    end.

without_own(#{kept := Kept, own := Own}) ->
    dyno_agent_call_sums:without(dyno_agent_self_calls:calls(Own), Kept).

report(#{measures := Measures, table := Table, charge := Charge} = State) ->
    Kept = without_own(State),
    Functions = dyno_agent_call_sums:functions(Measures, Kept),
    Callers =
        case Table of
            none ->
                [];
            _ ->
                [
                    {MFA, dyno_agent_process_table:group(Id, Table), Calls, Ns}
                 || {MFA, Id, Calls, Ns} <- dyno_agent_call_sums:callers(?CALLER_ROWS, Kept)
                ]
        end,
    #{
        functions => dyno_agent_overhead:functions(
            Functions, dyno_agent_call_sample:per_call(Functions, map_get(outgoing, State)), Charge
        ),
        callers => Callers,
        measured_functions => measured(State),
        reloaded => map_get(reloaded, State),
        lost => map_get(lost, State),
        off_by => off_by(State),
        self_charge_ns => dyno_agent_overhead:least_ns(Charge),
        charge_uncertain_ns => dyno_agent_overhead:uncertain_ns(Charge)
    }.

off_by(#{banks := Banks, since := Since}) ->
    {BetweenNs, _} = dyno_agent_call_sessions:between_ns(Banks),
    Ns = erlang:convert_time_unit(erlang:monotonic_time() - Since, native, nanosecond),
    BetweenNs / max(1, Ns).

measured(#{modules := Modules, banks := Banks}) ->
    lists:sum([length(dyno_agent_call_sessions:functions(M, Banks)) || M := _ <- Modules]).

-spec terminate(term(), state()) -> ok.
terminate(_Reason, #{banks := Banks, own := Own} = State) ->
    ok = dyno_agent_overhead:close(map_get(charge, State)),
    ok = dyno_agent_self_calls:close(Own),
    ok = dyno_agent_call_sessions:close(Banks),
    dyno_agent_call_sample:close(map_get(sampler, State)).
