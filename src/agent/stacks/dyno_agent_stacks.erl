%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_stacks).
-moduledoc """
Samples the stacks of running processes at random instants, to find the functions that take the
time.

At each instant the processes that run or are ready are asked for their stacks. There are no
breakpoints and no flags, so calls keep their speed. The measured cost of an instant sets their
distance: at least 3 ms, and as much as takes 1.5 % of one scheduler for a profile, 1 % beside other
instruments. At some instants waiting processes are asked too, for the calls in which they wait.

## Meaning of a sample
A running process answers at the end of its time slice. So a process that computes for long is seen
where it computes. Native code that does not yield makes the answer late, or the instant itself:
what ran then is unknown (dyno_agent_stack_late). A process that runs for microseconds and waits
again is always seen in the following `receive`: the place where it ran is unknown. Such a sample
is a `burst`, recognized by its innermost frame, function and line, being one in which processes
wait. Groups of computing processes have hardly any.

For a process in a dirty scheduler another process answers, at once. The process may wait there for
the system, so thread clocks give the processor time of the sample (dyno_agent_stack_result).

## Samples of the processor
With the library of `m:dyno_agent_cpu`, that library sees the running processes, and instants are
for the waiting ones.
""".

-behaviour(dyno_agent_instrument).
-behaviour(gen_server).

-export([about/0]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).
-export_type([config/0, cpu/0, group/0, reading/0, stack/0]).

-type config() :: #{
    %% Whether the stacks of waiting processes are a profile, too; default: test.
    purpose => test | profile,
    %% The share of one scheduler for instants.
    share => float(),
    processes => pid(),
    %% The processes; default: all.
    select => [dyno_agent_process_filter:selector()],
    %% Sample the processor, if possible or in any case.
    cpu => cpu()
}.

-doc "The processor sampler's library, and whether the sampler must work.".
-type cpu() :: #{library := binary() | none, use := required | preferred}.

-doc "As named by the discovery (`dyno_agent_processes`), even without a discovery.".
-type group() :: dyno_agent_processes:group().

-doc """
The functions from outermost to innermost, without repetitions; `deep`: frames further out than the
runtime shows. `burst`: the process ran shortly and waited in the last function, or was ready and
had not run on from there; `unseen`: the process ended before its answer; `late`: it answered late.
""".
-type stack() :: [dyno_agent_cpu_frames:frame() | burst | unseen | late].

-doc """
The reading, of which `dyno_agent_stack_result` makes the result. Weight 1 stands for `duration_ns
/ instants`; ready processes count as well, together for at most one a scheduler.
""".
-type reading() :: #{
    instants := non_neg_integer(),
    %% Those that came too late to see what ran.
    late := non_neg_integer(),
    duration_ns := non_neg_integer(),
    cost_ns := non_neg_integer(),
    samples := dyno_agent_stack_samples:reading(),
    waits := dyno_agent_stack_waits:reading(),
    %% The scheduler threads' times meanwhile.
    times := #{dyno_agent_threads:kind() => dyno_agent_threads:times()},
    %% Running processes over all instants, each at most the schedulers; and instants with any.
    ran := {number(), non_neg_integer()},
    purpose := test | profile,
    %% Processes started, without the agent's.
    started := non_neg_integer(),
    %% Processes of priority max that worked: nothing looks while they have all schedulers.
    before_all := [binary()],
    cpu := none | dyno_agent_cpu:counted() | {refused, dyno_agent_cpu:reason()}
}.

-type state() :: #{
    cpu := none | pid() | {refused, dyno_agent_cpu:reason()},
    census := dyno_agent_stack_census:t(),
    kinds := dyno_agent_stack_kinds:t(),
    queued := [pid()],
    %% Processes of priority max, with their reductions when they were met.
    before_all := #{pid() => non_neg_integer()},
    waits := dyno_agent_stack_waits:t(),
    %% The answers of waiting processes at the last instant, with their reductions then.
    still := #{pid() => {Reductions :: term(), {number(), number()}, term()}},
    threads := dyno_agent_threads:t(),
    purpose := test | profile,
    share := float(),
    %% Instants for each one that asks waiting processes, too.
    waiting_every := pos_integer(),
    samples := dyno_agent_stack_samples:t(),
    instants := non_neg_integer(),
    late := {Instants :: non_neg_integer(), dyno_agent_stack_late:t()},
    %% Native: when the next instant is due.
    due := integer(),
    started := non_neg_integer(),
    %% Native: the total cost, the average of an instant, and that of a question.
    cost := non_neg_integer(),
    each := float(),
    question := non_neg_integer(),
    %% Native: what asking waiting processes took last.
    asking := non_neg_integer(),
    since := integer(),
    %% Beside the processor's sampler: last instant, context switches, and idle milliseconds.
    idle := {AtMs :: integer(), Switches :: non_neg_integer(), ForMs :: non_neg_integer()},
    before := dyno_agent_threads:reading(),
    ran := {number(), non_neg_integer()},
    timer := reference()
}.

%% The average time between two instants, and their share of one scheduler.
-define(LEAST_MS, 3).
-define(MOST_MS, 2000).
-define(SHARE, 0.015).
-define(SHARES_OF_WAITS, #{test => 0.001, profile => 0.0003}).
%% While a node is idle, instants for waiting processes are as far apart as it has been idle, up to
%% this mean: each wakes sleeping schedulers. Idle is a node with few context switches, without
%% dyno's own. Samples of the processor end that time at once. A node under test is not left alone:
%% a stall of its server is such a time.
-define(MOST_IDLE_MS, 10_000).
-define(FEW_SWITCHES_A_SECOND, 100).
-define(OWN_SWITCHES, 200).
-define(LIST_EVERY, 200).
-define(LIST_EVERY_FOR_WAITS, 10_000).
-define(ASKED, 32).
-define(WAITING_EVERY, 20).
%% The cost of an instant averages about this number.
-define(MEAN_OF, 10).
-define(MUCH_LONGER, 3).
-define(FIRST_NS, 30_000).
%% Reductions a millisecond: about a hundredth of a scheduler.
-define(MUCH_WORK, 500).
%% Only so much of a wake-up counts for the distance of instants; the stated cost is the whole.
-define(PLANNED_WAKING_NS, 60_000).

-spec about() -> dyno_agent_instrument:about().
about() ->
    #{names => [stacks], needs => [dyno_agent_processes], parts => dyno_agent_stack_parts}.

-spec init(config()) -> {ok, state()} | {error, {dyno_agent_cpu, dyno_agent_cpu:reason()}}.
init(Config) ->
    Table = table(Config),
    maybe
        {ok, Cpu} ?= cpu(Table, Config),
        {ok, started(Table, Cpu, Config)}
    end.

table(#{processes := Processes}) -> dyno_agent_processes:table(Processes);
table(_Config) -> none.

cpu(Table, #{cpu := Cpu} = Config) ->
    dyno_agent_cpu:start_link(Cpu, kinds(Table, Config));
cpu(_Table, _Config) ->
    {ok, none}.

kinds(Table, Config) ->
    Choice = dyno_agent_process_filter:new(maps:get(select, Config, [])),
    dyno_agent_stack_kinds:new(Table, Choice).

started(Table, Cpu, Config) ->
    proc_lib:set_label(?MODULE),
    ok = dyno_agent_process:unlimited(),
    _ = erlang:system_flag(scheduler_wall_time, true),
    ok = dyno_agent_stack_depth:raise(),
    Purpose = maps:get(purpose, Config, test),
    %% Instants for waiting processes only take less, and each of them asks.
    {Seeds, ListEvery, Share, WaitingEvery} =
        case is_pid(Cpu) of
            true -> {queued, ?LIST_EVERY_FOR_WAITS, map_get(Purpose, ?SHARES_OF_WAITS), 1};
            false -> {busy_and_queued, ?LIST_EVERY, maps:get(share, Config, ?SHARE), ?WAITING_EVERY}
        end,
    _ = dyno_agent_stack_seeds:start_link(Seeds),
    State = #{
        cpu => Cpu,
        purpose => Purpose,
        share => Share,
        waiting_every => WaitingEvery,
        kinds => kinds(Table, Config),
        census => dyno_agent_stack_census:new(ListEvery),
        samples => dyno_agent_stack_samples:new(),
        each => float(native(?FIRST_NS) + planned_waking()),
        question => question(),
        asking => 0,
        queued => [],
        threads => dyno_agent_threads:find(),
        due => 0,
        timer => make_ref()
    },
    scheduled(restarted(State)).

restarted(#{samples := Samples, threads := Threads, cpu := Cpu, kinds := Kinds} = State) ->
    _ = [ok = dyno_agent_cpu:restart(Cpu) || is_pid(Cpu)],
    State#{
        kinds := dyno_agent_stack_kinds:restart(Kinds),
        waits => dyno_agent_stack_waits:new(),
        still => #{},
        samples := dyno_agent_stack_samples:restart(Samples),
        instants => 0,
        before_all => #{},
        late => {0, dyno_agent_stack_late:new(Threads)},
        started => dyno_agent_process:started_by_others(),
        cost => 0,
        since => erlang:monotonic_time(),
        idle => {erlang:monotonic_time(millisecond), 0, 0},
        before => dyno_agent_threads:read(Threads),
        ran => {0, 0}
    }.

question() ->
    {parent, Parent} = process_info(self(), parent),
    lists:min([asked_in(Parent) || _ <- lists:seq(1, 20)]).

asked_in(Pid) ->
    Start = erlang:monotonic_time(),
    _ = process_info(Pid, current_stacktrace),
    erlang:monotonic_time() - Start.

-spec handle_call(restart | read, gen_server:from(), state()) -> {reply, ok | reading(), state()}.
handle_call(restart, _From, State) ->
    {reply, ok, restarted(State)};
handle_call(read, _From, #{threads := Threads, samples := Samples, cpu := Cpu} = State) ->
    {reply,
        (maps:with([instants, ran, purpose], State))#{
            started => max(0, dyno_agent_process:started_by_others() - map_get(started, State)),
            late => element(1, map_get(late, State)),
            duration_ns => nanoseconds(erlang:monotonic_time() - map_get(since, State)),
            cost_ns => nanoseconds(map_get(cost, State)),
            before_all => before_all(State),
            samples => dyno_agent_stack_samples:read(Samples),
            waits => dyno_agent_stack_waits:read(map_get(waits, State)),
            times => dyno_agent_threads:between(
                map_get(before, State), dyno_agent_threads:read(Threads)
            ),
            cpu =>
                case Cpu of
                    _ when is_pid(Cpu) -> dyno_agent_cpu:read(Cpu);
                    _ -> Cpu
                end
        },
        State}.

-spec handle_cast(term(), state()) -> {noreply, state()}.
handle_cast(_Request, State) ->
    {noreply, State}.

-spec handle_info(term(), state()) -> {noreply, state()}.
handle_info({timeout, Timer, instant}, #{timer := Timer} = State) ->
    {noreply, scheduled(rested(instant(idle(State))))};
handle_info({dyno_agent_cpu, busy}, #{idle := {At, Switches, ForMs}} = State) when ForMs > 0 ->
    #{timer := Timer} = State,
    _ = erlang:cancel_timer(Timer),
    {noreply, scheduled(State#{idle := {At, Switches, 0}})};
handle_info({seeds, Busy, Queued, Cost}, #{census := Census, cost := Before} = State) ->
    {noreply, State#{
        census := dyno_agent_stack_census:seeded(Busy, Census),
        queued := Queued,
        before_all := maps:merge(
            #{
                Pid => Reductions
             || Pid <- Busy,
                {priority, max} <- [process_info(Pid, priority)],
                {reductions, Reductions} <- [process_info(Pid, reductions)]
            },
            map_get(before_all, State)
        ),
        cost := Before + Cost
    }};
handle_info(_Other, State) ->
    {noreply, State}.

before_all(#{before_all := Met, since := Since}) ->
    Ms = max(1, nanoseconds(erlang:monotonic_time() - Since) div 1_000_000),
    [
        case process_info(Pid, registered_name) of
            {registered_name, Name} -> atom_to_binary(Name);
            _ -> list_to_binary(pid_to_list(Pid))
        end
     || Pid := Before <- maps:iterator(Met, ordered),
        {reductions, Now} <- [process_info(Pid, reductions)],
        Now - Before > ?MUCH_WORK * Ms
    ].

%% At random, so that periodic events are not always met, or never.
scheduled(#{each := Each, idle := {_, _, IdleMs}, share := Share} = State) ->
    %% If only few instants ask waiting processes, their cost is beside that share.
    Asking = lists:sum([Last || #{waiting_every := 1, asking := Last} <- [State]]),
    Cost = nanoseconds(round(Each) + Asking),
    PlannedMs = min(?MOST_MS, max(?LEAST_MS, ceil(Cost / Share / 1.0e6))),
    Ms = max(PlannedMs, min(?MOST_IDLE_MS, IdleMs)),
    In = rand:uniform(2 * Ms - 1),
    Due = erlang:monotonic_time() + erlang:convert_time_unit(In, millisecond, native),
    State#{due := Due, timer := erlang:start_timer(In, self(), instant)}.

idle(#{cpu := Cpu, purpose := profile, idle := {Before, SwitchesBefore, ForMs}} = State) when
    is_pid(Cpu)
->
    Now = erlang:monotonic_time(millisecond),
    {Switches, _} = erlang:statistics(context_switches),
    Few = ?OWN_SWITCHES + ?FEW_SWITCHES_A_SECOND * (Now - Before) div 1000,
    case Switches - SwitchesBefore < Few of
        true -> State#{idle := {Before, SwitchesBefore, ForMs + Now - Before}};
        false -> State#{idle := {Before, SwitchesBefore, 0}}
    end;
idle(State) ->
    State.

%% The questions of an instant are hundreds of context switches.
rested(#{idle := {_, _, ForMs}} = State) ->
    {Switches, _} = erlang:statistics(context_switches),
    State#{idle := {erlang:monotonic_time(millisecond), Switches, ForMs}}.

%% An instant. Waiting for an answer is no cost, and not timed.

instant(#{instants := N, due := Due, late := {Count, Late}} = State) ->
    DelayNs = nanoseconds(erlang:monotonic_time() - Due),
    case dyno_agent_stack_late:limit(DelayNs, 0, Late) of
        {LimitNs, _, Next} when DelayNs < LimitNs ->
            in_time(State#{late := {Count, Next}});
        {_, ReadyNs, Next} when ReadyNs < DelayNs ->
            State#{instants := N + 1, late := {Count + 1, Next}};
        {_, _, Next} ->
            %% What waits does so for longer than that.
            waiting(false, State#{instants := N + 1, late := {Count + 1, Next}})
    end.

in_time(#{instants := N, late := {Count, Late}} = State) ->
    %% Before the census, which starts a process. Between more frequent instants schedulers spin on.
    IsIdle = is_pid(map_get(cpu, State)) andalso erlang:statistics(total_active_tasks) =:= 1,
    Begin = erlang:monotonic_time(),
    {Ready, Next} = census(State),
    Asking = erlang:monotonic_time(),
    Listing = dyno_agent_stack_census:list_cost(Next),
    Counted = State#{instants := N + 1, census := Next},
    %% The question whether it runs waits for a process as well.
    TookNs = nanoseconds(Asking - Begin - Listing),
    case dyno_agent_stack_late:limit(TookNs, erlang:system_info(schedulers_online), Late) of
        {LimitNs, _, Known} when TookNs < LimitNs ->
            asked(IsIdle, chosen(Ready, State), Asking - Begin, Counted#{late := {Count, Known}});
        {_, _, Known} ->
            Counted#{late := {Count + 1, Known}}
    end.

asked(IsIdle, Running, ListedIn, State) ->
    Begin = erlang:monotonic_time(),
    Ran = ran_by_now(Running, State),
    Asking = erlang:monotonic_time(),
    {Answers, Known} = answers(Running, State),
    Answered = erlang:monotonic_time(),
    Seen = lists:foldl(fun ran/2, Known#{ran := Ran}, Answers),
    End = erlang:monotonic_time(),
    Listing = dyno_agent_stack_census:list_cost(map_get(census, Seen)),
    Took = ListedIn + Asking - Begin - Listing + End - Answered,
    waiting(IsIdle, spent(Took, length(Running), Listing, Seen)).

census(#{census := Census, cpu := Cpu}) when is_pid(Cpu) ->
    {[], dyno_agent_stack_census:listed(Census)};
census(#{census := Census}) ->
    dyno_agent_stack_census:instant(Census).

%% At most the number of schedulers: other processes are only ready.
ran_by_now(Running, #{ran := {Sum, Any}}) ->
    case lists:sum([Weight || {_, Weight} <- Running]) of
        0 ->
            {Sum, Any};
        Weight ->
            Waits = lists:last(erlang:statistics(active_tasks_all)),
            {Sum + min(Weight, erlang:system_info(schedulers_online) + Waits), Any + 1}
    end.

answers(Running, #{late := {Count, Late}} = State) ->
    Queue = erlang:statistics(total_run_queue_lengths),
    Answers = [answer(Of, State) || Of <- Running],
    Slowest = lists:max([0 | [Ns || {_, Ns} <- Answers]]),
    {LimitNs, _, Next} = dyno_agent_stack_late:limit(Slowest, Queue, Late),
    {dyno_agent_stack_late:weigh(Answers, LimitNs), State#{late := {Count, Next}}}.

answer({Pid, Weight}, State) ->
    Begin = erlang:monotonic_time(),
    %% In this order: a process that ran in between has made reductions.
    Reductions = process_info(Pid, reductions),
    Before = {process_info(Pid, status), Reductions},
    Where = dyno_agent_stack_question:where(ask(Pid, State), Pid, Before),
    {{Pid, Weight, Where}, nanoseconds(erlang:monotonic_time() - Begin)}.

%% If one takes much longer, the operating system interrupted it.
spent(Took, Questions, Listing, #{each := Each, cost := Before, question := Question} = State) ->
    Cost = min(Took, round(?MUCH_LONGER * Each)) + Questions * Question,
    State#{
        cost := Before + Cost + dyno_agent_process:waking() + Listing,
        each := Each + (Cost + planned_waking() - Each) / ?MEAN_OF
    }.

planned_waking() -> min(native(?PLANNED_WAKING_NS), dyno_agent_process:waking()).

chosen(Ready, #{kinds := Kinds}) ->
    Others = [Found || {Pid, _} = Found <- Ready, not dyno_agent_stack_kinds:is_own(Pid, Kinds)],
    case length(Others) of
        Count when Count =< ?ASKED ->
            Others;
        Count ->
            Shuffled = lists:sort([{rand:uniform(), Found} || Found <- Others]),
            [
                {Pid, Weight * Count / ?ASKED}
             || {_, {Pid, Weight}} <- lists:sublist(Shuffled, ?ASKED)
            ]
    end.

waiting(IsIdle, #{instants := N, waiting_every := Every} = State) ->
    case N rem Every =:= 1 rem Every of
        true -> waiting_now(IsIdle, State);
        false -> State
    end.

waiting_now(IsIdle, #{census := Census, cost := Before, question := Question} = State) ->
    #{queued := Queued, waits := Waits} = State,
    Begin = erlang:monotonic_time(),
    {Asked, Count} = dyno_agent_stack_waits:choose(Queued, Census),
    Found = [
        {Pid, Kind, ask_waiting(Pid, State)}
     || {Pid, Kind} <- Asked,
        {status, Status} <- [process_info(Pid, status)],
        Status =:= waiting orelse Status =:= suspended
    ],
    Asking = 3 * length([new || {_, _, {new, _}} <- Found]) * Question,
    Took =
        case IsIdle of
            %% The schedulers of both processes spin while one waits for the other, and after that.
            true -> 2 * (erlang:monotonic_time() - Begin) + dyno_agent_process:waking();
            false -> Asking
        end,
    Counted = State#{
        waits := dyno_agent_stack_waits:asked(Asked, Count, Waits),
        still := #{Pid => Answer || {Pid, _, {_, Answer}} <- Found},
        asking := Asking,
        cost := Before + Took
    },
    lists:foldl(
        fun({Pid, Kind, {_, {_, Held, Answer}}}, Acc) -> waits({Pid, Kind, Held, Answer}, Acc) end,
        Counted,
        Found
    ).

%% A process that did not run since the last answer is not asked again: each question wakes it.
ask_waiting(Pid, #{still := Still} = State) ->
    Reductions = process_info(Pid, reductions),
    case Still of
        #{Pid := {Reductions, _, {waits, _, _}} = Known} ->
            {known, Known};
        #{} ->
            {Answer, Held} = answer_of_waiting(Pid, State),
            {new, {process_info(Pid, reductions), Held, Answer}}
    end.

%% Bursts are found by the places where processes wait, so these must be certain.
answer_of_waiting(Pid, #{cpu := Cpu} = State) when is_pid(Cpu) ->
    dyno_agent_stack_question:ask_waiting(Pid, items(Pid, State));
answer_of_waiting(Pid, State) ->
    {ask(Pid, State), dyno_agent_stack_question:held(Pid)}.

%% The stack, whether the process waits at its end, and the process's kind.
ask(Pid, State) -> dyno_agent_stack_question:ask(Pid, items(Pid, State)).

items(Pid, #{kinds := Kinds}) ->
    case dyno_agent_stack_kinds:is_known(Pid, Kinds) of
        true -> [];
        false -> dyno_agent_stack_kinds:who()
    end.

ran({Pid, Weight, gone}, State) ->
    add({Pid, [], unseen}, Weight, normal, State);
ran({Pid, Weight, {ran, Ran, Frames, Who}}, State) ->
    add({Pid, Who, Frames}, Weight, Ran, State);
ran({Pid, Weight, {suspended, Frames, Who}}, State) ->
    ran({Pid, Weight, {ran, normal, Frames, Who}}, State);
ran({Pid, Weight, {waits, Frames, Who}}, State) ->
    learned(Frames, ran({Pid, Weight, {ran, normal, Frames, Who}}, State)).

waits({Pid, Kind, Held, {waits, Frames, Who}}, State) ->
    learned(Frames, waits({Pid, Kind, Held, receives, Frames, Who}, State));
waits({Pid, Kind, Held, {suspended, Frames, Who}}, State) ->
    waits({Pid, Kind, Held, suspended, Frames, Who}, State);
waits({Pid, Kind, Held, How, Frames, Who}, State) ->
    case group(Pid, Who, Frames, State) of
        {Left, Next} when Left =:= own; Left =:= elsewhere ->
            Next;
        {Group, #{waits := Waits} = Next} ->
            Path = dyno_agent_stack_samples:path(Frames),
            Next#{
                waits := dyno_agent_stack_waits:add(
                    Kind, {How, Group}, Path, Held, Waits
                )
            }
    end;
waits(_RanMeanwhile, State) ->
    State.

add({Pid, Who, Frames}, Weight, Ran, State) ->
    case group(Pid, Who, Frames, State) of
        {own, Next} ->
            Next;
        {Group, #{samples := Samples} = Next} ->
            Next#{samples := dyno_agent_stack_samples:add(Ran, Group, Frames, Weight, Samples)}
    end.

learned(Frames, #{samples := Samples} = State) ->
    State#{samples := dyno_agent_stack_samples:learn(Frames, Samples)}.

group(Pid, Who, Frames, #{kinds := Kinds} = State) ->
    {Group, Next} = dyno_agent_stack_kinds:group(Pid, Who, Frames, Kinds),
    {Group, State#{kinds := Next}}.

native(Ns) -> erlang:convert_time_unit(Ns, nanosecond, native).

nanoseconds(Native) -> erlang:convert_time_unit(Native, native, nanosecond).
