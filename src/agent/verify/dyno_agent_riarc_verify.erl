%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_riarc_verify).
-moduledoc """
Runs monitors on the processes of a node as RIARC does: a tracer for each process that has monitors,
and for those below it that have none; one for all the rest. It is here to be compared with
dyno_agent_verify, which has the same verdicts, costs less, and is bounded.

```
session 1 --> collector 1 --> root, T(P), ...      each tracer: dyno_agent_riarc, monitors
session 2 --> collector 2 --> T(Q), T(R), ...
```

All processes of the node are traced, because whoever is spawned is traced by who traces its parent.
Processes are chosen by what they run: names and labels are not known when they are spawned, and
what runs already has no tracer of its own. Monitors with keys or deadlines need the partitions of
dyno_agent_verify. What waits is not bounded.
""".

-behaviour(dyno_agent_verifier).
-behaviour(gen_server).

-export([start_link/1, peek/1, finish/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2, terminate/2]).

-type state() :: #{
    config := dyno_agent_verifier:config(),
    verdicts := dyno_agent_verdicts:t(),
    table := ets:table(),
    collectors := [pid()],
    sessions := [dyno_agent_event_session:t()],
    faults := [unicode:chardata()],
    started := integer()
}.

-define(TICK_MS, 1000).
-define(QUIET_MS, 20).
-define(DRAIN_MS, 20_000).

-spec start_link(dyno_agent_verifier:config()) -> gen_server:start_ret().
start_link(Config) ->
    gen_server:start_link(?MODULE, Config, []).

-spec peek(pid()) -> dyno_agent_verifier:summary().
peek(Pid) -> gen_server:call(Pid, peek, infinity).

-spec finish(pid()) -> dyno_agent_verifier:summary().
finish(Pid) -> gen_server:call(Pid, finish, infinity).

-doc false.
-spec init(dyno_agent_verifier:config()) -> {ok, state()}.
init(#{monitors := Monitors} = Config) ->
    process_flag(trap_exit, true),
    proc_lib:set_label(?MODULE),
    ok = dyno_agent_process:unlimited(),
    Number = maps:get(shards, Config, erlang:system_info(schedulers_online)),
    Needs = [dyno_agent_monitor:needs(Monitor) || Monitor <- Monitors],
    Choice = dyno_agent_event_choice:new([
        {Monitor, maps:get(select, Config, Select)}
     || {Monitor, #{select := Select}} <- lists:zip(Monitors, Needs)
    ]),
    Verdicts = dyno_agent_verdicts:new(Number, Monitors, self()),
    Table = ets:new(?MODULE, [public, {read_concurrency, true}]),
    Collectors = [dyno_agent_riarc_session:start_link() || _ <- lists:seq(1, Number)],
    Sessions = [dyno_agent_event_session:open(Pid, Needs, Choice) || Pid <- Collectors],
    Existing = existing(hd(Sessions), [self() | Collectors], []),
    Root = dyno_agent_riarc_tracer:start_root(Existing, #{
        table => Table,
        homes => list_to_tuple(Collectors),
        owner => self(),
        choice => Choice,
        monitors => Monitors,
        options => maps:with([events], Config),
        verdicts => Verdicts
    }),
    Roots = #{Pid => {root, Root} || Pid <- Existing},
    lists:foreach(
        fun({Pid, Session, Tracers}) -> dyno_agent_riarc_session:traces(Pid, Session, Tracers) end,
        lists:zip3(Collectors, Sessions, [Roots | [#{} || _ <- tl(Collectors)]])
    ),
    _ = erlang:send_after(?TICK_MS, self(), tick),
    {ok, #{
        config => Config,
        verdicts => Verdicts,
        table => Table,
        collectors => Collectors,
        sessions => Sessions,
        faults => unsupported(Needs, Choice),
        started => erlang:monotonic_time(nanosecond)
    }}.

%% Whoever is not traced was started by a process that was not, yet: it is the root's. The others
%% are seen, since their parents were traced.
existing(Session, Not, Found) ->
    New = [Pid || Pid <- processes() -- Not, not dyno_agent_event_session:is_traced(Pid, Session)],
    case [Pid || Pid <- New, dyno_agent_event_session:follow_tree(Pid, Session)] of
        [] -> Found;
        Traced -> existing(Session, Not, Traced ++ Found)
    end.

unsupported(Needs, Choice) ->
    [~"riarc has no monitors with keys; use partition" || lists:any(fun has_key/1, Needs)] ++
        [
            ~"riarc chooses no processes by name or label; use partition"
         || dyno_agent_event_choice:is_late(Choice)
        ].

has_key(#{key := Key}) -> Key.

-doc false.
-spec handle_call(peek | finish, gen_server:from(), state()) -> {reply, term(), state()}.
handle_call(peek, _From, State) ->
    {reply, summary(State), State};
handle_call(finish, _From, #{sessions := Sessions} = State) ->
    lists:foreach(fun dyno_agent_event_session:close/1, Sessions),
    Until = erlang:monotonic_time(millisecond) + ?DRAIN_MS,
    Drained =
        case Sessions =:= [] orelse drained(none, Until, State) of
            true -> State;
            false -> fault(~"not all events were done when time was over", State)
        end,
    ok = flush(Drained),
    Finished = Drained#{sessions := []},
    {reply, summary(Finished), Finished}.

%% Nothing waits, and nothing was done since the last look.
drained(Before, Until, #{verdicts := Verdicts, collectors := Collectors, table := Table} = State) ->
    Tracers = tracers(Table),
    All = Collectors ++ Tracers,
    Waiting = lists:sum([N || Pid <- All, {_, N} <- [process_info(Pid, message_queue_len)]]),
    %% The operating system may have taken the processor in the middle of the last message.
    Busy = [Pid || Pid <- All, {_, Is} <- [process_info(Pid, status)], Is =/= waiting],
    #{events := Events} = dyno_agent_verdicts:read(Verdicts),
    Now = {Events, length(Tracers), Waiting + length(Busy)},
    case Now of
        {_, _, 0} when Now =:= Before ->
            true;
        _ ->
            timer:sleep(?QUIET_MS),
            erlang:monotonic_time(millisecond) < Until andalso drained(Now, Until, State)
    end.

tracers(Table) ->
    ets:select(Table, [{{'_', '$1', '_', '_'}, [], ['$1']}]).

flush(State) ->
    receive
        {dyno_agent_verdicts, What} ->
            ok = send(What, State),
            flush(State)
    after 0 -> ok
    end.

summary(#{verdicts := Verdicts, faults := Faults, started := Started, table := Table}) ->
    Count = fun(What) -> ets:lookup_element(Table, {count, What}, 2, 0) end,
    #{
        node => node(),
        duration_ns => erlang:monotonic_time(nanosecond) - Started,
        faults => lists:reverse(Faults),
        verdicts => dyno_agent_verdicts:read(Verdicts),
        more => [
            {~"tracers", Count(tracers)},
            {~"taken_over", Count(taken_over)},
            {~"taken_over_between_sessions", Count(marked)},
            {~"invariants_broken", Count(broken)}
        ]
    }.

-doc false.
-spec handle_cast(term(), state()) -> {noreply, state()}.
handle_cast(_Message, State) ->
    {noreply, State}.

-doc false.
-spec handle_info(term(), state()) -> {noreply, state()} | {stop, term(), state()}.
handle_info(tick, #{verdicts := Verdicts} = State) ->
    _ = erlang:send_after(?TICK_MS, self(), tick),
    ok = dyno_agent_verdicts:tick(Verdicts),
    {noreply, State};
handle_info({dyno_agent_verdicts, What}, State) ->
    ok = send(What, State),
    {noreply, State};
handle_info({'EXIT', _Pid, normal}, State) ->
    {noreply, State};
handle_info({'EXIT', Pid, Reason}, #{collectors := Collectors} = State) ->
    case lists:member(Pid, Collectors) of
        true -> {stop, {shutdown, {collector, Reason}}, State};
        false -> {noreply, fault(~"a tracer was killed: its processes are not monitored", State)}
    end;
handle_info(_Other, State) ->
    {noreply, State}.

fault(Text, #{faults := Faults} = State) ->
    ok = send({fault, Text}, State),
    State#{faults := [Text | Faults]}.

send(What, #{config := #{sink := Sink}}) ->
    _ = erlang:send(Sink, {dyno_verify, node(), What}, [noconnect]),
    ok.

%% Links alone do not end them where this process ends as it should.
-doc false.
-spec terminate(term(), state()) -> ok.
terminate(_Reason, #{collectors := Collectors, table := Table}) ->
    lists:foreach(fun(Pid) -> exit(Pid, kill) end, Collectors ++ tracers(Table)).
