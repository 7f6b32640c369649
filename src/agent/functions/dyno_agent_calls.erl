%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_calls).
-moduledoc false.
%% Counts calls of functions, and measures their time or allocated words, in a trace session of its
%% own.
%%
%% Calls are counted all the time. Times and words come from a window: the levels `time`, `memory`
%% and `all` keep it open; the level `budget` opens it if timing each call fits the budget, and
%% takes own times from samples otherwise. Modules loaded later are measured from their first call
%% on. If a module is loaded again, its earlier counts may be incomplete: a lower bound.
%%
%% The runtime keeps times by function and process, also of ended ones. So after a number of started
%% processes the rows are read and reset; calls are counted and not timed meanwhile.
%%
%% This process looks twice a second.
%%
%% Cost: On the node, per call of a measured function: 13 ns for `call_count`, 74 ns for
%% `call_time`, 37 ns for `call_memory` (OTP 29 with the JIT; doc/architecture.md). The reading
%% takes 1 us a function, and 0.2 us for each process that called it.

-behaviour(dyno_agent_instrument).
-behaviour(gen_server).

-export([about/0, peek/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2, terminate/2]).
-export_type([config/0, measure/0, reading/0, row/0]).

-type measure() :: dyno_agent_call_sessions:measure().

-type config() :: #{
    patterns := [dyno_agent_patterns:pattern()],
    %% Measured all the time; or within a budget, with times if `may_time`.
    measures => [measure()],
    budget => float(),
    may_time => boolean(),
    %% Knows the processes' groups; samples the running processes.
    processes => pid(),
    stacks => pid(),
    %% Default: all processes.
    select => [dyno_agent_process_filter:selector()]
}.

-type row() ::
    {mfa(), Group :: term(), Calls :: non_neg_integer() | undefined, Ns :: non_neg_integer()}.

-doc "The reading of a node, of which `dyno_agent_call_times` makes the result.".
-type reading() :: #{
    %% Without dyno's calls.
    counted := #{mfa() => non_neg_integer()},
    %% The window's rows; the overhead in them, and how many measured calls functions made; the
    %% threads' times meanwhile.
    rows := #{functions := [#{mfa := mfa(), atom() => term()}], callers := [row()]},
    overhead := dyno_agent_overhead:reading(),
    made := dyno_agent_call_sample:sample(),
    threads := #{atom() => dyno_agent_threads:times()},
    samples => #{
        estimates := #{mfa() => {number(), Low :: number(), High :: number()} | unknown},
        is_timed := boolean(),
        %% Of the samples' stacks; the functions called, and those measured.
        stacks := none | dyno_agent_stacks:reading(),
        called := [mfa()],
        patterns := [dyno_agent_patterns:pattern()],
        node := node()
    },
    atom() => term()
}.

-type state() :: #{
    config := config(),
    patterns := [dyno_agent_patterns:pattern()],
    measures := [measure()],
    sessions := dyno_agent_call_sessions:t(),
    table := dyno_agent_process_table:t() | none,
    plan := dyno_agent_call_budget:t() | none,
    %% All loaded modules, and the measured ones.
    loaded := [module()],
    modules := [module()],
    %% The number of those that are not measured: their breakpoints took too long.
    unset := non_neg_integer(),
    %% The last one: all counts, and by what else the budget is decided.
    look := #{
        at := Ns :: integer(),
        counts := #{mfa() => non_neg_integer()},
        worked := Ns :: integer(),
        newest := non_neg_integer()
    },
    kept := #{mfa() => non_neg_integer()},
    reloaded := [module()],
    sums := dyno_agent_call_sums:t(),
    %% The next process's number at the last reading of rows.
    read_at := non_neg_integer(),
    %% The start of all, and of the open window; how long it was open before, and paused.
    since := integer(),
    open_since := integer(),
    open_ns := non_neg_integer(),
    gaps_ns := non_neg_integer(),
    processor_since := integer(),
    threads := dyno_agent_threads:t(),
    clocks := dyno_agent_threads:reading(),
    overhead := dyno_agent_overhead:t(),
    sampler := dyno_agent_call_sample:sampler(),
    sample := dyno_agent_call_sample:sample()
}.

%% The limit for setting breakpoints: then others are left out.
-define(SET_MS, 3000).
-define(CALLS_IN_SAMPLE, 20_000).
-define(FIRST_LOOK_MS, 100).
-define(LOOK_MS, 500).
-define(RECOUNT_MS, 200).
%% The runtime takes 50 bytes a process and function: for 10,000 processes of Cowboy with 30
%% functions each, 15 MB. MOST_ROWS are 250 MB.
-define(MOST_STARTED, 10_000).
-define(MOST_ROWS, 5_000_000).
-define(ROW_BYTES, 50).
-define(CALLER_ROWS, 5000).
-define(KNOWN_MS, 200).
%% Processes a second that messages may discover, unless a budget says less.
-define(FIRST_CALLS, 1000).

-spec about() -> dyno_agent_instrument:about().
about() ->
    #{
        names => [functions],
        needs => [dyno_agent_processes, dyno_agent_stacks],
        parts => dyno_agent_call_parts,
        traces => true
    }.

-spec peek(pid()) -> reading().
peek(Pid) ->
    gen_server:call(Pid, peek, infinity).

-spec init(config()) -> {ok, state()} | {error, term()}.
init(#{patterns := Patterns} = Config) ->
    process_flag(trap_exit, true),
    proc_lib:set_label(?MODULE),
    ok = dyno_agent_process:unlimited(),
    case dyno_agent_patterns:unmatched(Patterns) of
        [] -> {ok, begun(dyno_agent_patterns:resolve(Patterns), Config)};
        Unmatched -> {error, {unmatched, Unmatched}}
    end.

begun(Patterns, Config) ->
    Measures = maps:get(measures, Config, []),
    Loaded = dyno_agent_patterns:loaded(),
    Modules = measured(Patterns, Config),
    Overhead = dyno_agent_overhead:open([call_count | Measures]),
    %% These breakpoints must come before those that count.
    Specs = [F || M <- Modules, F <- dyno_agent_patterns:specs(M, Patterns)],
    Others = dyno_agent_process:others(),
    Sampler = dyno_agent_call_sample:open(Specs, Measures, Others, ?CALLS_IN_SAMPLE),
    Closed = sessions(Patterns, Config),
    Select = maps:get(select, Config, []),
    Open =
        case Config of
            #{budget := _} -> Closed;
            #{} -> dyno_agent_call_sessions:open_window([], Select, Closed)
        end,
    {Sessions, Unset} = dyno_agent_process:within(
        ?SET_MS, fun dyno_agent_call_sessions:set/2, Open, Modules
    ),
    _ = erlang:system_flag(scheduler_wall_time, true),
    _ = [dyno_agent_processes:limit(P, ?FIRST_CALLS) || #{processes := P} <- [Config]],
    %% The breakpoints took a moment each.
    ok = dyno_agent_call_sessions:restart(Sessions),
    _ = erlang:send_after(?FIRST_LOOK_MS, self(), look),
    zero(#{
        config => Config,
        patterns => Patterns,
        measures => Measures,
        sessions => Sessions,
        table =>
            case Config of
                #{processes := Processes} -> dyno_agent_processes:table(Processes);
                #{} -> none
            end,
        plan =>
            case Config of
                #{budget := Budget} ->
                    dyno_agent_call_budget:new(
                        Budget,
                        Unset =:= [] andalso maps:get(may_time, Config, true),
                        ?RECOUNT_MS
                    );
                #{} ->
                    none
            end,
        loaded => Loaded,
        modules => Modules,
        unset => length(Unset),
        threads => dyno_agent_threads:find(),
        overhead => Overhead,
        sampler => Sampler,
        sample => #{}
    }).

%% Nothing at the level `discovery`.
measured(_Patterns, #{measures := []}) -> [];
measured(Patterns, _Config) -> dyno_agent_patterns:measured(Patterns).

%% If rows are always kept for all processes, counts are not needed.
sessions(Patterns, #{budget := _} = Config) ->
    Rows = [call_time || maps:get(may_time, Config, true)],
    dyno_agent_call_sessions:open(Patterns, #{counts => true, own => true}, Rows);
sessions(Patterns, Config) ->
    Measures = maps:get(measures, Config, []),
    Rows = Measures -- [call_count],
    Counts = #{
        counts => Measures =/= [] andalso maps:get(select, Config, []) =:= [],
        own => Rows =:= []
    },
    dyno_agent_call_sessions:open(Patterns, Counts, Rows).

zero(State) ->
    Now = erlang:monotonic_time(nanosecond),
    {_, Newest} = dyno_agent_process:newest(),
    State#{
        look => look(#{}),
        kept => #{},
        reloaded => [],
        sums => dyno_agent_call_sums:new(),
        read_at => Newest,
        since => Now,
        open_since => Now,
        open_ns => 0,
        gaps_ns => 0,
        processor_since => dyno_agent_os:processor_ns(),
        clocks => dyno_agent_threads:read(map_get(threads, State))
    }.

-spec handle_call(restart | read | peek, gen_server:from(), state()) ->
    {reply, ok | reading(), state()}.
handle_call(restart, _From, State) ->
    {reply, ok, restarted(State)};
handle_call(peek, _From, State) ->
    Read = read_and_reset(came(State)),
    {reply, reading(Read), Read};
handle_call(read, _From, Before) ->
    #{sessions := Sessions} = State = came(Before),
    ok = dyno_agent_call_sessions:stop(Sessions),
    Read = read_rows(before_rows(State)),
    Reading = reading(Read),
    %% The rows are in the sums now: a second reading must not add them again.
    ok = dyno_agent_call_sessions:resume(Sessions),
    ok = dyno_agent_call_sessions:pause(Sessions),
    {reply, Reading, Read}.

restarted(#{sessions := Before, overhead := Overhead, sampler := Sampler} = State) ->
    Sample = dyno_agent_call_sample:sample(Sampler),
    Others = dyno_agent_process:others() ++ dyno_agent_overhead:processes(Overhead),
    Sessions = dyno_agent_call_sessions:leave_out(Others, Before),
    ok = dyno_agent_call_sessions:restart(Sessions),
    #{plan := Plan} = State,
    zero(State#{
        sessions := Sessions,
        overhead := dyno_agent_overhead:restart(Overhead),
        sample := Sample,
        plan := dyno_agent_call_budget:restart(Plan)
    }).

-spec handle_cast(term(), state()) -> {noreply, state()}.
handle_cast(_Request, State) ->
    {noreply, State}.

-spec handle_info(term(), state()) -> {noreply, state()} | {stop, term(), state()}.
handle_info(look, State) ->
    Looked = looked(State),
    _ = erlang:send_after(next_look_ms(Looked), self(), look),
    {noreply, Looked};
handle_info({trace_ts, _, call, {erlang, prepare_loading, _}, Module, _}, State) ->
    #{modules := Modules} = State,
    case lists:member(Module, Modules) of
        true -> {noreply, reloads(Module, State)};
        false -> {noreply, State}
    end;
handle_info({'EXIT', _Parent, Reason}, State) ->
    {stop, Reason, State};
handle_info(_Other, State) ->
    {noreply, State}.

%% A look

%% Asking for a function's count takes 1 us.
next_look_ms(#{look := #{counts := Counts}, plan := Plan}) ->
    case dyno_agent_call_budget:recounted(Plan) of
        [] -> max(?LOOK_MS, map_size(Counts));
        _ -> ?RECOUNT_MS
    end.

looked(Before) ->
    #{sessions := Sessions, modules := Modules, look := Last, plan := Plan} = State = came(Before),
    Look = look(dyno_agent_call_sessions:counts(Modules, Sessions)),
    Again = dyno_agent_call_budget:recounted(Plan),
    ok = dyno_agent_call_sessions:recount(Again, false, Sessions),
    {_, Newest} = dyno_agent_process:newest(),
    Seen = State#{look := Look},
    Read =
        case Newest - map_get(read_at, Seen) of
            Started when Started >= ?MOST_STARTED; Started < 0 -> read_and_reset(Seen);
            _ -> Seen
        end,
    case Plan of
        none ->
            Read;
        _ ->
            Discoverers = dyno_agent_call_rows:discoverers(map_get(table, State)),
            Since = (since(Look, Last))#{discoverers => Discoverers},
            planned(Plan, dyno_agent_call_budget:looked(Since, Plan), Read)
    end.

look(Counts) ->
    Normal = erlang:system_info(schedulers),
    Worked = [W || {Id, W, _} <- erlang:statistics(scheduler_wall_time), Id =< Normal],
    {_, Newest} = dyno_agent_process:newest(),
    #{
        at => erlang:monotonic_time(nanosecond),
        counts => Counts,
        worked => erlang:convert_time_unit(lists:sum(Worked), native, nanosecond),
        newest => Newest
    }.

since(Look, Before) ->
    #{at := Now, counts := Counts, worked := Worked, newest := Newest} = Look,
    #{at := Then, counts := Earlier, worked := WorkedBefore, newest := NewestBefore} = Before,
    Ns = max(1, Now - Then),
    #{
        ns => Ns,
        calls => #{MFA => max(0, N - maps:get(MFA, Earlier, 0)) || MFA := N <- Counts},
        busy_ns => (Worked - WorkedBefore) * 1.0e9 / Ns,
        births => max(0, Newest - NewestBefore)
    }.

planned(Before, Plan, #{sessions := Sessions, config := Config, modules := Modules} = State) ->
    Left = dyno_agent_call_budget:uncounted(Plan),
    Counted = dyno_agent_call_sessions:without(Left, Sessions),
    Next = recounting(State#{plan := Plan, sessions := Counted}),
    _ = [tell(Processes, Before, Plan) || #{processes := Processes} <- [Config]],
    case {dyno_agent_call_sessions:is_open(Sessions), dyno_agent_call_budget:is_timed(Plan)} of
        {false, true} -> opened(Modules, Next);
        {true, false} -> closed(Next);
        _ -> Next
    end.

%% Breakpoints take a moment each: the reading is that when all are set.
recounting(#{plan := Plan, sessions := Sessions, modules := Modules} = State) ->
    case dyno_agent_call_budget:recounted(Plan) of
        [] ->
            State;
        Again ->
            ok = dyno_agent_call_sessions:recount(Again, true, Sessions),
            State#{look := look(dyno_agent_call_sessions:counts(Modules, Sessions))}
    end.

tell(Processes, Before, Plan) ->
    case dyno_agent_call_budget:undiscovered(Plan) -- dyno_agent_call_budget:undiscovered(Before) of
        [] -> ok;
        New -> dyno_agent_processes:leave_out(Processes, New)
    end,
    dyno_agent_processes:limit(Processes, dyno_agent_call_budget:first_calls(Plan)).

opened(Modules, #{sessions := Before, overhead := Overhead} = State) ->
    Known =
        case Overhead of
            none -> dyno_agent_overhead:open([call_time, call_count]);
            _ -> Overhead
        end,
    Others = dyno_agent_process:others() ++ dyno_agent_overhead:processes(Known),
    Sessions = dyno_agent_call_sessions:open_window(
        Modules, [], dyno_agent_call_sessions:leave_out(Others, Before)
    ),
    State#{
        sessions := Sessions,
        overhead := Known,
        open_since := erlang:monotonic_time(nanosecond)
    }.

closed(State) ->
    #{sessions := Sessions} = Read = read_and_reset(State),
    Read#{sessions := dyno_agent_call_sessions:close_window(Sessions)}.

came(#{loaded := Before, modules := Modules, patterns := Patterns, config := Config} = State) ->
    Loaded = dyno_agent_patterns:loaded(),
    Measured = measured(Patterns, Config),
    New = ordsets:subtract(ordsets:from_list(Loaded), ordsets:from_list(Before)),
    Come = [M || M <- Measured, not lists:member(M, Modules)],
    #{sessions := Sessions} = State,
    Narrowed = lists:foldl(fun dyno_agent_call_sessions:narrow/2, Sessions, New),
    _ = [dyno_agent_processes:loaded(P, M) || #{processes := P} <- [Config], M <- Come],
    State#{sessions := Narrowed, loaded := Loaded, modules := Modules ++ Come}.

%% The module is loaded again soon: take the old code's counts; a failed load counts from zero.
reloads(Module, #{sessions := Sessions, kept := Kept, reloaded := Reloaded} = State) ->
    Counts = counts([Module], State),
    ok = dyno_agent_call_sessions:restart_counts(Module, Sessions),
    #{loaded := Loaded, modules := Modules, look := #{counts := Last} = Look} = State,
    State#{
        kept := maps:merge_with(fun(_, A, B) -> A + B end, Kept, Counts),
        reloaded := lists:umerge([Module], Reloaded),
        %% Like a new module at the next look.
        loaded := lists:delete(Module, Loaded),
        modules := lists:delete(Module, Modules),
        look := Look#{counts := maps:without(maps:keys(Counts), Last)}
    }.

%% Rows

%% Pauses all, reads, and resumes from zero.
read_and_reset(#{sessions := Sessions} = State) ->
    Ready = before_rows(State),
    Began = erlang:monotonic_time(nanosecond),
    ok = dyno_agent_call_sessions:pause(Sessions),
    #{gaps_ns := GapsNs} = Read = read_rows(Ready),
    ok = dyno_agent_call_sessions:resume(Sessions),
    Now = erlang:monotonic_time(nanosecond),
    {_, Newest} = dyno_agent_process:newest(),
    Gap = [Now - Began || dyno_agent_call_sessions:is_open(Sessions)],
    Read#{gaps_ns := GapsNs + lists:sum(Gap), open_since := Now, read_at := Newest}.

read_rows(#{sessions := Sessions, modules := Modules, overhead := Overhead} = State) ->
    case dyno_agent_call_sessions:is_open(Sessions) of
        false ->
            State;
        true ->
            #{sums := Sums, table := Table, open_since := Since, open_ns := OpenNs} = State,
            With = #{
                least_ns => dyno_agent_overhead:least_ns(Overhead),
                call_ns => dyno_agent_overhead:first_ns(Overhead)
            },
            {Added, Rows} = dyno_agent_call_rows:read(Modules, Sessions, Table, With, Sums),
            ok = few(Rows),
            State#{
                sums := Added,
                open_ns := OpenNs + erlang:monotonic_time(nanosecond) - Since
            }
    end.

%% The table then knows the callers; in a storm of processes their messages wait.
before_rows(#{config := Config, overhead := Overhead} = State) ->
    _ =
        try
            [gen_server:call(Pid, table, ?KNOWN_MS) || #{processes := Pid} <- [Config]]
        catch
            exit:_ -> []
        end,
    State#{overhead := dyno_agent_overhead:update(Overhead)}.

%% Processes start faster than their rows can be read.
few(Rows) when Rows < ?MOST_ROWS -> ok;
few(Rows) -> exit({shutdown, {limit_bytes, ?MOST_ROWS * ?ROW_BYTES, Rows * ?ROW_BYTES}}).

%% The reading

reading(#{overhead := Overhead, reloaded := Reloaded, threads := Threads} = State) ->
    #{sessions := Sessions, modules := Modules, since := Since, clocks := Clocks} = State,
    #{open_ns := OpenNs, gaps_ns := GapsNs, processor_since := ProcessorSince} = State,
    Ns = max(1, erlang:monotonic_time(nanosecond) - Since),
    Counted = counted(State),
    (budget(Counted, State))#{
        counted => Counted,
        rows => rows(State),
        overhead => dyno_agent_overhead:read(Overhead),
        made => map_get(sample, State),
        threads => dyno_agent_threads:between(Clocks, dyno_agent_threads:read(Threads)),
        measured_functions => lists:sum([
            length(dyno_agent_call_sessions:functions(M, Sessions))
         || M <- Modules
        ]),
        reloaded => Reloaded,
        unset => map_get(unset, State),
        off_by => GapsNs / Ns,
        timed => min(1.0, OpenNs / Ns),
        least_overhead_ns => dyno_agent_overhead:least_ns(Overhead),
        processor_ns => dyno_agent_os:processor_ns() - ProcessorSince
    }.

budget(_Counted, #{plan := none}) ->
    #{};
budget(Counted, #{plan := Plan, patterns := Patterns, config := #{budget := Share} = Config}) ->
    Estimates = dyno_agent_call_budget:estimates(Counted, Plan),
    #{
        samples => #{
            estimates => Estimates,
            is_timed => dyno_agent_call_budget:is_timed(Plan),
            stacks =>
                case Config of
                    #{stacks := Stacks} -> dyno_agent_instrument:read(Stacks);
                    #{} -> none
                end,
            called => [MFA || MFA := N <- Counted, N > 0] ++ maps:keys(Estimates),
            patterns => Patterns,
            node => node()
        },
        budget => #{
            share => Share,
            spent => dyno_agent_call_budget:spent(Plan),
            left_out => dyno_agent_call_budget:uncounted(Plan)
        }
    }.

counted(#{sessions := Sessions, modules := Modules, kept := Kept} = State) ->
    Own = dyno_agent_call_sessions:self_calls(Sessions),
    Counts = counts(Modules, State),
    maps:map(
        fun(MFA, N) -> max(0, N - maps:get(MFA, Own, 0)) end,
        maps:merge_with(fun(_, A, B) -> A + B end, Kept, Counts)
    ).

%% Not of functions that are counted again for a moment.
counts(Modules, #{sessions := Sessions, plan := Plan}) ->
    Again = dyno_agent_call_budget:recounted(Plan),
    maps:without(Again, dyno_agent_call_sessions:counts(Modules, Sessions)).

rows(#{sums := Sums, table := Table, measures := Measures, plan := Plan}) ->
    #{
        functions => dyno_agent_call_sums:functions([call_time || Plan =/= none] ++ Measures, Sums),
        callers => [
            {MFA, dyno_agent_process_table:group(Id, Table), Calls, Ns}
         || Table =/= none,
            {MFA, Id, Calls, Ns} <- dyno_agent_call_sums:callers(?CALLER_ROWS, Sums)
        ]
    }.

-spec terminate(term(), state()) -> ok.
terminate(_Reason, #{overhead := Overhead, sessions := Sessions, sampler := Sampler}) ->
    ok = dyno_agent_overhead:close(Overhead),
    ok = dyno_agent_call_sessions:close(Sessions),
    dyno_agent_call_sample:close(Sampler).
