%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_budget).
-moduledoc false.
%% Measures calls and times of functions within a budget: what dyno_agent_calls does at the level
%% `budget`, whose requests this process answers.
%%
%%   dyno_agent_call_plan, pure: what the next window times, and when it comes; what is counted
%%     |            ^
%%     v            | what was seen
%%   this process --+-- dyno_agent_call_windows: times all calls for some milliseconds
%%     |                dyno_agent_budget_counter: counts, all the time, what is called seldom
%%     |                dyno_agent_overhead, dyno_agent_call_sample: what measuring adds
%%     |                dyno_agent_processes: groups; is told by which functions not to discover
%%     |                dyno_agent_stacks: samples of who computes
%%     v                dyno_agent_window_spread, pure: how far windows differ
%%   dyno_agent_call_times, pure: the result

-behaviour(gen_server).

-export([start_link/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2, terminate/2]).
-export_type([config/0]).

-type config() :: #{
    patterns := [dyno_agent_patterns:pattern()],
    budget := float(),
    processes => pid(),
    stacks => pid()
}.

-type state() :: #{
    config := config(),
    patterns := [dyno_agent_patterns:pattern()],
    table := dyno_agent_process_table:t() | none,
    plan := dyno_agent_call_plan:t(),
    session := dyno_agent_call_windows:t(),
    counter := dyno_agent_budget_counter:t(),
    overhead := dyno_agent_overhead:t(),
    samplers := [dyno_agent_call_sample:sampler()],
    %% The sample so far, and whether one is being taken.
    sample := dyno_agent_call_sample:sample(),
    sampling := boolean(),
    sums := dyno_agent_call_sums:t(),
    spread := dyno_agent_window_spread:t(),
    cost_ns := number(),
    since := integer(),
    %% dyno_agent_call_windows:reductions/0 then.
    reductions := integer(),
    %% When, and how much, had been worked at the last window.
    worked := {integer(), work()},
    %% What the counted functions had counted then.
    counted := #{mfa() => non_neg_integer()},
    worked_since := work(),
    loads := non_neg_integer(),
    timer := reference()
}.

%% What the normal schedulers have worked, and what the processor has worked for the node, but for
%% the kernel: less where the machine does other things meanwhile; both in nanoseconds. A function
%% that calls the kernel is the one that others interrupt: with the kernel's time Cowboy's sending was
%% told to take 43.3 % of its time where perf says 36.0, without it 32.0 where perf said 34.2.
-type work() :: {Schedulers :: integer(), Processor :: integer()}.

%% From so many on their garbage is collected at once: 70 kB.
-define(MANY_ROWS, 1000).
-define(FIRST_AFTER_MS, 100).
-define(LOOK_MS, 500).
%% Calls in a sample are enough, and so many samples. A message of a call or of a return costs some
%% microseconds.
-define(ENOUGH, 2000).
-define(MOST_SAMPLERS, 6).
%% Of so many processes it is looked at which functions they have called.
-define(PROCESSES, 300).
-define(CALLER_ROWS, 5000).

-spec start_link(config()) -> gen_server:start_ret().
start_link(Config) ->
    gen_server:start_link(?MODULE, Config, []).

-spec init(config()) -> {ok, state()} | {error, term()}.
init(#{patterns := Patterns} = Config) ->
    process_flag(trap_exit, true),
    %% A window must end in time.
    process_flag(priority, high),
    proc_lib:set_label(?MODULE),
    ok = dyno_agent_process:unlimited(),
    case dyno_agent_patterns:unmatched(Patterns) of
        [] -> {ok, begun(dyno_agent_patterns:resolve(Patterns), Config)};
        Unmatched -> {error, {unmatched, Unmatched}}
    end.

begun(Patterns, #{budget := Budget} = Config) ->
    _ = erlang:send_after(?LOOK_MS, self(), look),
    _ = erlang:system_flag(scheduler_wall_time, true),
    Overhead = dyno_agent_overhead:open([call_time]),
    State = #{
        config => Config,
        patterns => Patterns,
        table =>
            case Config of
                #{processes := Processes} -> dyno_agent_processes:subscribe(Processes, windows);
                #{} -> none
            end,
        plan => dyno_agent_call_plan:new(Budget),
        session => dyno_agent_call_windows:open(),
        counter => dyno_agent_budget_counter:open(
            Patterns, dyno_agent_call_counts:measured(Patterns)
        ),
        overhead => Overhead,
        samplers => [],
        sample => #{},
        sampling => false,
        loads => 0,
        timer => make_ref()
    },
    scheduled(?FIRST_AFTER_MS, zero(State)).

zero(State) ->
    State#{
        sums => dyno_agent_call_sums:new(),
        spread => dyno_agent_window_spread:new(),
        cost_ns => 0,
        since => erlang:monotonic_time(nanosecond),
        reductions => dyno_agent_call_windows:reductions(),
        worked => {erlang:monotonic_time(nanosecond), work()},
        counted => #{},
        worked_since => work()
    }.

measured_functions(#{patterns := Patterns}) ->
    [
        F
     || M <- dyno_agent_call_counts:measured(Patterns),
        F <- dyno_agent_patterns:functions(M, Patterns)
    ].

work() ->
    Normal = erlang:system_info(schedulers),
    Native = lists:sum([
        Active
     || {Id, Active, _} <- erlang:statistics(scheduler_wall_time), Id =< Normal
    ]),
    {RuntimeMs, _} = erlang:statistics(runtime),
    {erlang:convert_time_unit(Native, native, nanosecond), RuntimeMs * 1_000_000}.

worked({Schedulers0, Processor0}, {Schedulers, Processor}) ->
    min(Schedulers - Schedulers0, Processor - Processor0).

scheduled(Ms, State) ->
    State#{timer := erlang:start_timer(Ms, self(), window)}.

-spec handle_call(restart | read | peek | loads, gen_server:from(), state()) ->
    {reply, term(), state()}.
handle_call(loads, _From, #{loads := Loads} = State) ->
    {reply, Loads, State};
handle_call(restart, _From, #{counter := Counter, overhead := Overhead, timer := Timer} = State) ->
    _ = erlang:cancel_timer(Timer),
    Ready = sampled(State),
    Next = Ready#{
        counter := dyno_agent_budget_counter:restart(Counter),
        overhead := dyno_agent_overhead:restart(Overhead)
    },
    {reply, ok, scheduled(rand:uniform(?FIRST_AFTER_MS), zero(Next))};
handle_call(peek, _From, State) ->
    {reply, result(State), State};
handle_call(read, _From, #{counter := Counter, overhead := Overhead, timer := Timer} = State) ->
    _ = erlang:cancel_timer(Timer),
    ok = dyno_agent_budget_counter:pause(Counter),
    Read = State#{overhead := dyno_agent_overhead:at_end(Overhead)},
    {reply, result(Read), Read}.

-spec handle_cast(term(), state()) -> {noreply, state()}.
handle_cast(_Request, State) ->
    {noreply, State}.

-spec handle_info(term(), state()) -> {noreply, state()} | {stop, term(), state()}.
handle_info({timeout, Timer, window}, #{timer := Timer} = State) ->
    #{plan := Plan} = Next = window(sampled(came(State))),
    {noreply, scheduled(dyno_agent_call_plan:wait_ms(rand:uniform(), Plan), sample(Next))};
handle_info(look, State) ->
    %% To ask for the count of a function takes a microsecond.
    _ = erlang:send_after(max(?LOOK_MS, length(measured_functions(State))), self(), look),
    {noreply, looked(State)};
handle_info({'EXIT', _Parent, Reason}, State) ->
    {stop, Reason, State};
handle_info(_Other, State) ->
    {noreply, State}.

%% Modules that have come, or were loaded again, since the last window.
came(#{counter := Counter, patterns := Patterns, config := Config, loads := Loads} = State) ->
    case dyno_agent_budget_counter:came(dyno_agent_call_counts:measured(Patterns), Counter) of
        {[], Counter} ->
            State;
        {Came, Next} ->
            _ = [dyno_agent_processes:loaded(P, M) || #{processes := P} <- [Config], M <- Came],
            State#{counter := Next, loads := Loads + length(Came)}
    end.

%% The sample of how many measured calls functions make. It must not be taken while calls are timed
%% (dyno_agent_call_sample): so between two windows, until there is enough of it.

sample(#{plan := Plan, sample := Sample, samplers := Samplers, patterns := Patterns} = State) ->
    {Modules, Hot} = dyno_agent_call_plan:active(Plan),
    case
        Modules =/= [] andalso length(Samplers) < ?MOST_SAMPLERS andalso
            lists:sum([C || {C, _} <- maps:values(Sample)]) < ?ENOUGH
    of
        true ->
            Specs = [F || M <- Modules, F <- dyno_agent_patterns:specs(M, Patterns)],
            Others = dyno_agent_process:others(),
            New = dyno_agent_call_sample:open(Specs, Hot, [call_time], Others, 2 * ?ENOUGH),
            State#{samplers := [New | Samplers], sampling := true};
        false ->
            State
    end.

sampled(#{sampling := true, samplers := [Sampler | _], sample := Before} = State) ->
    More = dyno_agent_call_sample:sample(Sampler),
    Add = fun(_, {A, B}, {C, D}) -> {A + C, B + D} end,
    State#{sampling := false, sample := maps:merge_with(Add, Before, More)};
sampled(State) ->
    State.

%% A window

window(#{plan := Plan, patterns := Patterns, session := Session, overhead := Before} = State) ->
    #{modules := Modules, functions := Singly} =
        Next = dyno_agent_call_plan:next(dyno_agent_call_counts:measured(Patterns), Plan),
    Whole = [F || M <- Modules, F <- dyno_agent_patterns:specs(M, Patterns)],
    Asked = (maps:with([without, ms], Next))#{specs => Whole ++ Singly},
    Functions = fun(M) -> dyno_agent_patterns:functions(M, Patterns) end,
    Overhead = dyno_agent_overhead:update(Before),
    Own = maps:from_keys(
        dyno_agent_process:others() ++ dyno_agent_overhead:processes(Overhead), []
    ),
    {Schedulers, Processor} = work(),
    case dyno_agent_call_windows:take(Asked, Functions, Own, Session) of
        none ->
            State;
        Window ->
            {SchedulersNow, ProcessorNow} = work(),
            Worked = {SchedulersNow - Schedulers, ProcessorNow - Processor},
            Learned = learned(Window, added(Window, Worked, State#{overhead := Overhead})),
            collected(Window, Learned)
    end.

%% The rows of thousands of processes would stay on the heap as garbage for minutes, and others
%% come.
collected(#{readings := Readings}, State) ->
    Rows = lists:sum([length(Time) || {_, #{time := Time}} <- Readings]),
    _ = [garbage_collect() || Rows > ?MANY_ROWS],
    State.

added(#{readings := Readings} = Window, Worked, #{overhead := Overhead, sums := Sums} = State) ->
    #{ns := Ns, reductions := Reductions} = Window,
    #{spread := Spread, counter := Counter} = State,
    GroupOf = group_of(Readings, State),
    With = #{
        group_of => GroupOf,
        least_ns => dyno_agent_overhead:least_ns(Overhead),
        call_ns => dyno_agent_overhead:first_ns(Overhead)
    },
    %% Whose group the last window did not find, is not found any more.
    Known = dyno_agent_call_sums:resolve(
        fun(_) -> {ok, other} end, dyno_agent_call_sums:resolve(GroupOf, Sums)
    ),
    LeastNs = dyno_agent_overhead:least_ns(Overhead),
    State#{
        sums := dyno_agent_call_sums:add(Readings, With, Known),
        spread := dyno_agent_window_spread:add(
            #{
                ns => Ns,
                reductions => Reductions,
                worked => Worked,
                counted => lists:sum([
                    element(1, total(Reading))
                 || {MFA, Reading} <- Readings, dyno_agent_budget_counter:is_counted(MFA, Counter)
                ]),
                rows => #{
                    MFA => [
                        {Calls, max(0.0, S * 1_000_000 + Us + 0.5 - Calls * LeastNs / 1000)}
                     || {_, Calls, S, Us} <- Time
                    ]
                 || {MFA, #{time := Time}} <- Readings
                }
            },
            Spread
        )
    }.

total(#{time := Rows}) ->
    lists:foldl(
        fun({_, C, S, Us}, {Calls, Ns}) ->
            {Calls + C, Ns + S * 1_000_000_000 + Us * 1000 + 500}
        end,
        {0, 0},
        Rows
    ).

group_of(_Readings, #{table := none}) ->
    none;
group_of(Readings, #{table := Table}) ->
    Groups = dyno_agent_process_table:groups(Table),
    %% Throttled functions do not tell whom they discover: their callers in this window are known.
    Throttled = dyno_agent_process_table:throttled(Table),
    Found = #{
        Pid => Id
     || {MFA, #{time := Rows}} <- Readings,
        #{MFA := Id} <- [Throttled],
        {Pid, _, _, _} <- Rows
    },
    All = maps:merge(Found, Groups),
    fun(Pid) ->
        case All of
            #{Pid := Group} -> {ok, Group};
            #{} -> unknown
        end
    end.

learned(Window, #{plan := Plan, overhead := Overhead, worked := {Since, Worked}} = State) ->
    #{readings := Readings, ns := Ns, flagging_ns := FlaggingNs, changes := Changes} = Window,
    {Now, {All, _} = Work} = {erlang:monotonic_time(nanosecond), work()},
    BusyNs = worked(Worked, Work),
    Next = dyno_agent_call_plan:took(
        #{
            ns => Ns,
            %% As much of it as was the node's.
            flagging_ns => FlaggingNs * min(1.0, BusyNs / max(1, All - element(1, Worked))),
            changes => Changes,
            calls => #{MFA => total(Reading) || {MFA, Reading} <- Readings},
            processes => called_by_process(Readings),
            %% In its own time and, as much again, in that of its caller.
            call_ns => 2 * dyno_agent_overhead:least_ns(Overhead),
            busy_ns => BusyNs / max(1, Now - Since) * 1.0e9
        },
        Plan
    ),
    #{cost_ns := CostNs, sample := Sample} = State,
    looked(State#{
        plan := Next,
        cost_ns := CostNs + dyno_agent_call_plan:cost_ns(Next),
        %% Calls of what is left out from now on are in it: it is taken anew.
        sample :=
            case {dyno_agent_call_plan:left_out(Plan), dyno_agent_call_plan:left_out(Next)} of
                {Same, Same} -> Sample;
                _ -> #{}
            end
    }).

%% How often is called what is counted; which breakpoints may stay.
looked(#{plan := Plan, counter := Counter, config := Config, counted := Before} = State) ->
    #{worked := {Since, Worked}} = State,
    {Now, Work} = {erlang:monotonic_time(nanosecond), work()},
    Counted = dyno_agent_budget_counter:calls(measured_functions(State), Counter),
    Next = dyno_agent_call_plan:looked(
        #{
            rates => #{
                MFA => (Calls - Then) / max(1, Now - Since)
             || MFA := Calls <- Counted, Then <- [maps:get(MFA, Before, 0)], Calls > Then
            },
            discoverers => discoverers(State),
            busy_ns => worked(Worked, Work) / max(1, Now - Since) * 1.0e9
        },
        Plan
    ),
    _ = [tell(Processes, Plan, Next) || #{processes := Processes} <- [Config]],
    State#{
        plan := Next,
        worked := {Now, Work},
        counted := Counted,
        counter := dyno_agent_budget_counter:without(dyno_agent_call_plan:uncounted(Next), Counter)
    }.

tell(Processes, Before, Plan) ->
    New = maps:without(
        maps:keys(dyno_agent_call_plan:undiscovered(Before)),
        dyno_agent_call_plan:undiscovered(Plan)
    ),
    _ = [dyno_agent_processes:leave_out(Processes, maps:keys(New)) || map_size(New) > 0],
    dyno_agent_processes:limit(Processes, dyno_agent_call_plan:first_calls(Plan)).

%% A group of processes without a name is called by the function that they call first.
discoverers(#{table := none}) -> [];
discoverers(#{table := Table}) -> [F || {first_call, F} <- dyno_agent_process_table:kinds(Table)].

called_by_process(Readings) ->
    ByPid = lists:foldl(
        fun({MFA, #{time := Rows}}, Acc) ->
            lists:foldl(
                fun({Pid, _, _, _}, Pids) ->
                    case Pids of
                        #{Pid := Called} -> Pids#{Pid := [MFA | Called]};
                        #{} when map_size(Pids) < ?PROCESSES -> Pids#{Pid => [MFA]};
                        #{} -> Pids
                    end
                end,
                Acc,
                Rows
            )
        end,
        #{},
        Readings
    ),
    maps:values(ByPid).

%% The result

result(#{sums := Unresolved, overhead := Overhead, sample := Sample, table := Table} = State) ->
    #{spread := Spread, since := Since, patterns := Patterns} = State,
    Count = dyno_agent_window_spread:windows(Spread),
    WindowsNs = dyno_agent_window_spread:ns(Spread),
    #{plan := Plan, counter := Counter, config := #{budget := Budget} = Config} = State,
    DurationNs = max(1, erlang:monotonic_time(nanosecond) - Since),
    Sums =
        case Table of
            none -> Unresolved;
            _ -> dyno_agent_call_sums:resolve(group_of([], State), Unresolved)
        end,
    Functions = dyno_agent_call_sums:functions([call_time], Sums),
    Made = dyno_agent_call_sample:per_call(Functions, Sample),
    #{functions := Timed, callers := Callers} = dyno_agent_overhead:corrected(
        #{functions => Functions, callers => rows(Functions, Sums, Table)}, Made, Overhead
    ),
    Name = fun
        (none) -> other;
        (Id) -> dyno_agent_process_table:group(Id, Table)
    end,
    {Result, Rows} = dyno_agent_call_times:combine(#{
        duration_ns => DurationNs,
        worked_ns => max(1, worked(map_get(worked_since, State), work())),
        reductions => dyno_agent_call_windows:reductions() - map_get(reductions, State),
        exact => dyno_agent_budget_counter:calls(Counter),
        left_out => dyno_agent_call_plan:left_out(Plan),
        windows => #{
            count => Count,
            ns => WindowsNs,
            reductions => dyno_agent_window_spread:reductions(Spread),
            callers => [{MFA, Name(Id), Calls, Ns} || {MFA, Id, Calls, Ns} <- Callers],
            uncertain_ns => #{MFA => Ns || #{mfa := MFA, uncertain_ns := Ns} <- Timed},
            errors => dyno_agent_window_spread:errors(Spread),
            typical => dyno_agent_window_spread:typical(Spread)
        },
        stacks => stacks(Config),
        measured => fun(MFA) -> dyno_agent_patterns:matches(MFA, Patterns) end
    }),
    #{
        functions => Result,
        callers =>
            case Table of
                none -> [];
                _ -> lists:sublist(lists:reverse(lists:keysort(4, Rows)), ?CALLER_ROWS)
            end,
        measured_functions => length(measured_functions(State)),
        reloaded => dyno_agent_budget_counter:reloaded(Counter),
        lost => [],
        off_by => 0.0,
        least_overhead_ns => dyno_agent_overhead:least_ns(Overhead),
        budget => #{
            share => Budget,
            spent => spent(State),
            windows => Count,
            windows_ns => WindowsNs,
            left_out => maps:keys(dyno_agent_call_plan:left_out(Plan))
        }
    }.

rows(Functions, _Sums, none) ->
    [{MFA, none, Calls, Ns} || #{mfa := MFA, calls := Calls, own_time_ns := Ns} <- Functions];
rows(_Functions, Sums, _Table) ->
    dyno_agent_call_sums:callers(1_000_000, Sums).

stacks(#{stacks := Stacks}) -> dyno_agent_stacks:read(Stacks);
stacks(#{}) -> none.

%% Of what the schedulers have worked.
spent(#{cost_ns := CostNs, worked_since := Since, plan := Plan, since := Start}) ->
    Ns = erlang:monotonic_time(nanosecond) - Start,
    Breakpoints = dyno_agent_call_plan:breakpoints_share(Plan) * Ns,
    Least = dyno_agent_call_plan:least_busy_ns() * Ns div 1_000_000_000,
    (CostNs + Breakpoints) / lists:max([1, Least, worked(Since, work())]).

-spec terminate(term(), state()) -> ok.
terminate(_Reason, #{overhead := Overhead, session := Session, samplers := Samplers} = State) ->
    ok = dyno_agent_overhead:close(Overhead),
    ok = dyno_agent_budget_counter:close(map_get(counter, State)),
    ok = dyno_agent_call_windows:close(Session),
    lists:foreach(fun dyno_agent_call_sample:close/1, Samplers).
