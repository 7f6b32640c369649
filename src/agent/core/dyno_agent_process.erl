%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_process).
-moduledoc false.
%% Kind, work and memory of a target's process. Most `process_info/2` items send a signal that wakes
%% the process: each doc gives the number of signals.

-export([who/1, sample_first/2, find_name/1, holds/3]).
%% dyno's own
-export([start_link/2, start/2, init_it/3, ask/2, unlimited/0, others/0]).
-export([newest/0, started_by_others/0, number/1]).
-export([within/4, are_breakpoints_slow/1, each_beside/3, ending_with/1, kill/1, together_ms/1]).
-export([waking/0]).
%% All of the node
-export([select/1, count/1, is_proc_lib/1]).

%% The item `memory` takes time in proportion to the queue; memory of longer queues is estimated.
-define(LONG_QUEUE, 10_000).
%% Without native code that runs for long, a breakpoint takes a shorter time, on a busy machine too.
-define(SHORT_MS, 200).
%% Native code of half a second lets a breakpoint take 1 to 3 s.
-define(SLOW_MS, 1000).
-define(BETWEEN_MS, 50).
-define(NUMBER_BITS, 28).
-define(BESIDE, 200).
-define(WAKING_NS, 4000).
-define(WAKING_SCHEDULER_NS, 350_000).

-doc "Data for `dyno_agent_kind`, and reductions. One signal.".
-spec who(pid()) -> {[{term(), term()}], Reductions :: non_neg_integer()} | gone.
who(Pid) ->
    Items = [reductions, registered_name, label, initial_call, {dictionary, '$initial_call'}],
    case process_info(Pid, Items) of
        undefined -> gone;
        [{reductions, Reductions} | Info] -> {Info, Reductions}
    end.

-doc "Counts a process in its group; and as ended, or as alive with its reductions. One signal.".
-spec sample_first({pid(), Id}, {Counts, Ended, Alive}) -> {Counts, Ended, Alive} when
    Id :: pos_integer(),
    Counts :: #{Id => {pos_integer(), non_neg_integer()}},
    Ended :: [pid()],
    Alive :: [{pid(), Id, Reductions :: non_neg_integer()}].
sample_first({Pid, Id}, {Counts, Ended, Alive}) ->
    {All, Sampled} = maps:get(Id, Counts, {0, 0}),
    case process_info(Pid, reductions) of
        undefined ->
            {Counts#{Id => {All + 1, Sampled}}, [Pid | Ended], Alive};
        {reductions, Reductions} ->
            {Counts#{Id => {All + 1, Sampled + 1}}, Ended, [{Pid, Id, Reductions} | Alive]}
    end.

-doc "The kind of a process with a name or label. One signal.".
-spec find_name({pid(), Id}) -> {true, {pid(), Id, dyno_agent_kind:kind()}} | false when
    Id :: pos_integer().
find_name({Pid, Id}) ->
    maybe
        [_, _] = Info ?= process_info(Pid, [registered_name, label]),
        {ok, Kind} ?= dyno_agent_kind:named(Info),
        {true, {Pid, Id, Kind}}
    else
        _ -> false
    end.

-doc """
Memory; `Before` if the process has ended. Two signals: the second for reductions, which are those
before the first signal if the process has worked since.
""".
-spec holds(pid(), {Reductions, Queue :: non_neg_integer()}, Bytes) -> {Reductions, Bytes} when
    Reductions :: non_neg_integer(), Bytes :: non_neg_integer().
holds(Pid, {Reductions, Queue}, Before) ->
    Item =
        case Queue < ?LONG_QUEUE of
            true -> memory;
            false -> total_heap_size
        end,
    Now =
        case process_info(Pid, Item) of
            {memory, Bytes} -> Bytes;
            {_, Words} -> Words * erlang:system_info(wordsize);
            undefined -> Before
        end,
    {after_answer(Pid, Reductions), Now}.

%% The answer takes one reduction. After more, memory may have changed.
after_answer(Pid, Before) ->
    case process_info(Pid, reductions) of
        {reductions, Now} when Now =< Before + 1 -> Now;
        _ -> Before
    end.

-doc """
Starts an instrument's process with high priority: on a node of 1,000 processes that compute, one of
normal priority waits tens of milliseconds with each question and change of code.
""".
-spec start_link(module(), map()) -> gen_server:start_ret().
start_link(Module, Config) ->
    gen_server:start_link(Module, Config, [{spawn_opt, [{priority, high}]}]).

-doc "The same without waiting: the caller gets `{started, Pid, Answer}`, or an exit signal.".
-spec start(module(), map()) -> pid().
start(Module, Config) ->
    Options = [link, {priority, high}],
    Pid = proc_lib:spawn_opt(?MODULE, init_it, [self(), Module, Config], Options),
    true = is_pid(Pid),
    Pid.

-spec init_it(pid(), module(), map()) -> term().
init_it(Starter, Module, Config) ->
    %% As if gen_server had started it.
    _ = put('$initial_call', {Module, init, 1}),
    case Module:init(Config) of
        {ok, State} ->
            Starter ! {started, self(), {ok, self()}},
            gen_server:enter_loop(Module, [], State);
        {ok, State, Action} ->
            Starter ! {started, self(), {ok, self()}},
            gen_server:enter_loop(Module, [], State, Action);
        {stop, Reason} ->
            Starter ! {started, self(), {error, Reason}};
        Other ->
            Starter ! {started, self(), Other}
    end.

-doc "Sends `{What, self(), Ref}` to a process, and waits for `{Ref, Answer}`.".
-spec ask(pid(), term()) -> term().
ask(Pid, What) ->
    Ref = monitor(process, Pid),
    Pid ! {What, self(), Ref},
    receive
        {Ref, Answer} ->
            true = demonitor(Ref, [flush]),
            Answer;
        {'DOWN', Ref, process, Pid, Reason} ->
            exit({dyno_agent, Reason})
    end.

-doc "Removes the caller's heap limit, even if the target runs with +hmax.".
-spec unlimited() -> ok.
unlimited() ->
    _ = process_flag(max_heap_size, 0),
    ok.

-spec others() -> [pid()].
others() ->
    {parent, Guard} = process_info(self(), parent),
    case process_info(Guard, links) of
        {links, Links} -> [Guard | [P || P <- Links, is_pid(P), node(P) =:= node()]] -- [self()];
        undefined -> []
    end.

-doc """
The node's processes for which a function is true, without the caller.

## Cost
50 to 70 ns a process, and the function's time.
""".
-spec select(fun((pid()) -> boolean())) -> [pid()].
select(Is) ->
    chosen(Is, fun(Pid, Chosen) -> [Pid | Chosen] end, []).

-doc "The number of processes for which it is true. The function may change them.".
-spec count(fun((pid()) -> boolean())) -> non_neg_integer().
count(Is) ->
    chosen(Is, fun(_Pid, Count) -> Count + 1 end, 0).

chosen(Is, Add, None) ->
    beside(fun() ->
        dyno_agent_process_list:fold(
            fun(Pid, Acc) ->
                case Pid =/= self() andalso Is(Pid) of
                    true -> Add(Pid, Acc);
                    false -> Acc
                end
            end,
            None
        )
    end).

beside(Fun) ->
    Words = dyno_agent_process_list:heap_words(),
    %% On a saturated node a lower priority waits for all others.
    Priority = process_info(self(), priority),
    Options = [monitor, Priority, {min_heap_size, Words}, {max_heap_size, 0}],
    ok = starts(1),
    {_, Ref} = spawn_opt(ending_with(Fun), Options),
    receive
        {'DOWN', Ref, process, _, {value, Result}} -> Result
    end.

-spec kill(pid()) -> ok.
kill(Pid) ->
    Ref = monitor(process, Pid),
    true = unlink(Pid),
    true = exit(Pid, kill),
    receive
        {'DOWN', Ref, process, Pid, _} -> ok
    end,
    receive
        {'EXIT', Pid, _} -> ok
    after 0 -> ok
    end.

-doc "For a process that ends with the function's result: its reason is `{value, Result}`.".
-spec ending_with(fun(() -> term())) -> fun(() -> no_return()).
%% Not by exit/1, whose calls are counted.
ending_with(Fun) -> fun() -> erlang:raise(exit, {value, Fun()}, []) end.

-doc """
Folds items until a limit; returns the items left. The limit is four times as long if each takes a
short time, as on a busy machine: setting a breakpoint waits for each scheduler.
""".
-spec within(pos_integer(), fun((Item, State) -> State), State, [Item]) -> {State, Left :: [Item]}.
within(Ms, Fun, State, Items) ->
    Began = erlang:monotonic_time(millisecond),
    IsTime = fun(Done) ->
        TookMs = erlang:monotonic_time(millisecond) - Began,
        TookMs < Ms orelse (TookMs < 4 * Ms andalso TookMs < ?SHORT_MS * Done)
    end,
    while(IsTime, 0, Fun, State, Items).

while(_IsTime, _Done, _Fun, State, []) ->
    {State, []};
while(IsTime, Done, Fun, State, [Item | Rest] = Items) ->
    case IsTime(Done) of
        true -> while(IsTime, Done + 1, Fun, Fun(Item, State), Rest);
        false -> {State, Items}
    end.

-doc "Whether a breakpoint takes a second: asked at some instants, as native code may just end.".
-spec are_breakpoints_slow(Tries :: non_neg_integer()) -> boolean().
are_breakpoints_slow(0) ->
    false;
are_breakpoints_slow(Tries) ->
    Began = erlang:monotonic_time(millisecond),
    {Pid, Ref} = spawn_monitor(fun() ->
        Session = trace:session_create(?MODULE, self(), []),
        trace:function(Session, {?MODULE, are_breakpoints_slow, 1}, true, [call_count])
    end),
    receive
        {'DOWN', Ref, process, Pid, _} ->
            TookMs = erlang:monotonic_time(millisecond) - Began,
            timer:sleep(?BETWEEN_MS),
            TookMs >= ?SLOW_MS orelse are_breakpoints_slow(Tries - 1)
    after ?SLOW_MS ->
        true = demonitor(Ref, [flush]),
        exit(Pid, kill)
    end.

-doc "The pause to the next multiple of an interval: timers together wake a scheduler once.".
-spec together_ms(pos_integer()) -> pos_integer().
together_ms(Ms) -> Ms - erlang:system_time(millisecond) rem Ms.

-doc "What the runtime spent on waking the caller by a timer (native; with the default +sbwt).".
-spec waking() -> non_neg_integer().
waking() ->
    Ns =
        %% Running and ready, with this process.
        case erlang:statistics(total_active_tasks) =< erlang:system_info(schedulers_online) of
            true -> ?WAKING_SCHEDULER_NS;
            false -> ?WAKING_NS
        end,
    erlang:convert_time_unit(Ns, nanosecond, native).

-doc """
Asks each process by a function with a state, in some hundred concurrent processes, so that no
process waits for all others. The caller gets `{Tag, Pid, Answer}` for each answer.
""".
-spec each_beside([pid()], term(), {fun((pid(), State) -> {Answer :: term(), State}), State}) -> ok.
each_beside(Pids, Tag, {Ask, State}) ->
    Owner = self(),
    Asked = fun(Some) ->
        lists:foldl(
            fun(Pid, Before) ->
                {Answer, Next} = Ask(Pid, Before),
                Owner ! {Tag, Pid, Answer},
                Next
            end,
            State,
            Some
        )
    end,
    Priority = process_info(self(), priority),
    Shares = maps:groups_from_list(
        fun({N, _}) -> N rem ?BESIDE end, fun({_, Pid}) -> Pid end, lists:enumerate(Pids)
    ),
    ok = starts(map_size(Shares)),
    maps:foreach(fun(_, Some) -> spawn_opt(fun() -> Asked(Some) end, [Priority]) end, Shares).

-doc "Whether proc_lib started it. No signal: 0.2 us, instead of 1.8 for dictionary and label.".
-spec is_proc_lib(pid()) -> boolean().
is_proc_lib(Pid) ->
    case process_info(Pid, initial_call) of
        {initial_call, {proc_lib, init_p, _}} -> true;
        _ -> false
    end.

-doc "Starts a process that ends at once, and returns its number, which repeats after a million.".
-spec newest() -> {pid(), Number :: non_neg_integer()}.
newest() ->
    %% Runs none of our code, which is removed soon after the end.
    Newest = spawn_opt(erlang, yield, [], [{priority, high}]),
    ok = starts(1),
    {Newest, number(Newest)}.

starts(Count) ->
    _ = put(?MODULE, Count + own(get(?MODULE))),
    ok.

own(undefined) -> 0;
own(Count) -> Count.

-doc "A number that grows by 1 with each process that no instrument starts. Signals instruments.".
-spec started_by_others() -> number().
started_by_others() ->
    {_, Number} = newest(),
    Own = [
        own(Count)
     || Pid <- [self() | others()],
        {_, Count} <- [process_info(Pid, {dictionary, ?MODULE})]
    ],
    Number - lists:sum(Own).

%% From the printed form `<0.Number.Serial>`; the serial continues the number.
-spec number(pid()) -> non_neg_integer().
number(Pid) ->
    "<0." ++ Text = pid_to_list(Pid),
    {Number, "." ++ Rest} = string:to_integer(Text),
    {Serial, ">"} = string:to_integer(Rest),
    Serial bsl ?NUMBER_BITS bor Number.
