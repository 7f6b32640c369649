%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_load_pool).
-moduledoc false.
%% The workers of one node: prepares them, runs the rounds that its owner requests, adds workers if
%% an open load needs more, and reports results. A pool ends with its owner, which receives
%% `{dyno_load_pool, Pool, event()}`.
%%
%% Added workers rest when they are not needed. Thousands of workers taking turns, each with the
%% heap of its last operation, would slow the load long after one moment of overload.

-behaviour(gen_server).

-export([start_on/2, begin_round/3, snapshot/2, close/1]).
-export([init/1, handle_continue/2, handle_call/3, handle_cast/2, handle_info/2, terminate/2]).
-export_type([options/0, event/0, round/0, snapshot/0]).

-type options() :: #{
    owner := pid(),
    module := module(),
    run_state := term(),
    callbacks := [{atom(), arity()}],
    feeds := [dyno_feed:feed()],
    seed := integer(),
    %% Initial workers over all nodes; node I of N has the workers I + 1, I + 1 + N, ...
    workers := pos_integer(),
    index := non_neg_integer(),
    nodes := pos_integer()
}.

-type event() ::
    %% All workers are prepared; have completed a round; have ended.
    ready
    | {done, Number :: pos_integer()}
    | closed
    | {snapshot, Ref :: term(), snapshot()}
    | {failed, dyno_load_worker:reason() | {worker_died, term()}}
    | {not_ended, dyno_load_worker:reason()}
    | {feed_ended, atom()}
    | {not_grown, dyno_load_worker:reason()}.

-type round() :: [{dyno_load_part:t(), Start :: integer(), Finish :: integer()}].

-type snapshot() :: #{
    %% Of each part, by operation.
    parts := [#{atom() => dyno_load_recorder:snapshot()}],
    errors := [dyno_load_recorder:failed()],
    %% The number of arrivals with random gaps in each part, if known.
    arrivals := [non_neg_integer() | undefined],
    %% The largest number of workers in the round at a time.
    workers := pos_integer(),
    %% Workers that are prepared; in their last operation; in end_worker/1.
    ready := non_neg_integer(),
    under_way := non_neg_integer(),
    ending := non_neg_integer(),
    %% Mean number of processes waiting for a scheduler, per scheduler.
    run_queue := float(),
    %% The busy share of the dyno machine's processors, by any program.
    busy => float(),
    %% The node's processor time in the round, on dyno's machine.
    cpu_ms => non_neg_integer()
}.

-type phase() :: preparing | idle | working | closing.

-type state() :: #{
    options := options(),
    phase := phase(),
    job := map(),
    workers := #{pid() => Id :: pos_integer()},
    %% Workers not ready yet; not through the round yet; neither.
    pending := #{pid() => []},
    under_way := #{pid() => []},
    resting := #{pid() => []},
    next_id := pos_integer(),
    round := non_neg_integer(),
    works := [dyno_load_worker:work()],
    most_workers := pos_integer(),
    growth := allowed | failed,
    %% At the round's begin, in dyno's node.
    cpu => dyno_agent_os:raw(),
    cpu_ms := non_neg_integer(),
    %% Samples of the run queues' length, and their sum.
    samples := non_neg_integer(),
    run_queue_sum := non_neg_integer()
}.

-define(SAMPLE_MS, 50).
%% The least number of workers added at a time.
-define(GROW_LEAST, 8).
-define(GROW_SHARE, 4).

-doc "Starts a round. Rounds are numbered because the previous round may not be over.".
-spec begin_round(pid(), pos_integer(), round()) -> ok.
begin_round(Pool, Number, Round) ->
    gen_server:cast(Pool, {round, Number, Round}).

-doc "Starts a linked pool here or in another node; copies feeds' files to another machine.".
-spec start_on(node(), options()) -> dyno_error:result(pid()).
start_on(Node, Options) ->
    try
        case Node =:= node() of
            true -> gen_server:start_link(?MODULE, Options, []);
            false -> erpc:call(Node, gen_server, start, [?MODULE, with_data(Node, Options), []])
        end
    of
        {ok, Pid} -> {ok, Pid};
        {error, {dyno_feed, _}} = Error -> Error
    catch
        error:{erpc, _} -> {error, {dyno_load, {node_lost, Node}}}
    end.

with_data(Node, #{feeds := Feeds} = Options) ->
    case host(Node) =:= host(node()) of
        true -> Options;
        false -> Options#{feeds := dyno_feed:portable(Feeds)}
    end.

host(Node) -> lists:last(string:split(atom_to_list(Node), "@")).

-spec snapshot(pid(), term()) -> ok.
snapshot(Pool, Ref) ->
    gen_server:cast(Pool, {snapshot, Ref}).

-spec close(pid()) -> ok.
close(Pool) ->
    gen_server:cast(Pool, close).

-spec init(options()) -> {ok, state(), {continue, prepare}} | {stop, term()}.
init(#{owner := Owner, feeds := Feeds} = Options) ->
    process_flag(trap_exit, true),
    proc_lib:set_label(?MODULE),
    _ = monitor(process, Owner),
    #{index := Index} = Options,
    Place = maps:with([index, nodes, workers, seed], Options),
    case dyno_feed:open(Feeds, Place) of
        {ok, Context} ->
            _ = erlang:send_after(?SAMPLE_MS, self(), sample),
            Job = maps:with([module, run_state, callbacks], Options),
            {ok,
                #{
                    options => Options,
                    phase => preparing,
                    job => Job#{owner => self(), feeds => Context},
                    workers => #{},
                    pending => #{},
                    under_way => #{},
                    resting => #{},
                    next_id => Index + 1,
                    round => 0,
                    works => [],
                    most_workers => 1,
                    growth => allowed,
                    cpu_ms => cpu_ms(),
                    samples => 0,
                    run_queue_sum => 0
                },
                {continue, prepare}};
        {error, Reason} ->
            {stop, {dyno_feed, Reason}}
    end.

-spec handle_continue(prepare, state()) -> {noreply, state()}.
handle_continue(prepare, #{options := Options} = State) ->
    #{workers := All, index := Index, nodes := Nodes} = Options,
    Own = max(0, (All - Index + Nodes - 1) div Nodes),
    {noreply, all_through(start_workers(Own, State))}.

start_workers(0, State) ->
    State;
start_workers(Count, #{job := Job, next_id := Id, options := #{nodes := Nodes}} = State) ->
    #{workers := Workers, pending := Pending} = State,
    Pid = dyno_load_worker:start_link(Job#{id => Id}),
    start_workers(Count - 1, State#{
        next_id := Id + Nodes, workers := Workers#{Pid => Id}, pending := Pending#{Pid => []}
    }).

-spec handle_call(term(), gen_server:from(), state()) -> {noreply, state()}.
handle_call(_Request, _From, State) ->
    {noreply, State}.

-spec handle_cast(term(), state()) -> {noreply, state()}.
handle_cast({round, Number, Round}, #{workers := Workers} = State) ->
    ok = free(State),
    #{under_way := UnderWay, pending := Pending, options := #{nodes := Nodes}} = State,
    Least = lists:max([Nodes | [Count || {#{workers := Count}, _, _} <- Round]]),
    Begins = fun({Pid, Id}) -> Id =< Least orelse is_map_key(Pid, UnderWay) end,
    Ready = maps:to_list(maps:without(maps:keys(Pending), Workers)),
    {Begin, Rest} = lists:partition(Begins, Ready),
    Works = [work(Part, Start, Finish, Least, State) || {Part, Start, Finish} <- Round],
    lists:foreach(fun({_, Id}) -> dyno_load_worker:take_part(1, Id, Works) end, Begin),
    lists:foreach(fun({Pid, _}) -> Pid ! {start, Number, Works} end, Begin),
    Begun = (with_cpu(Round, State))#{
        phase := working,
        round := Number,
        works := Works,
        under_way := #{Pid => [] || {Pid, _} <- Begin},
        resting := #{Pid => [] || {Pid, _} <- Rest},
        most_workers := max(1, length(Begin)),
        cpu_ms := cpu_ms(),
        samples := 0,
        run_queue_sum := 0,
        growth := allowed
    },
    {noreply, all_through(Begun)};
handle_cast({snapshot, Ref}, State) ->
    notify({snapshot, Ref, snapshot_of(State)}, State),
    {noreply, State};
handle_cast(close, #{workers := Workers} = State) ->
    maps:foreach(fun(Pid, _) -> Pid ! close end, Workers),
    {noreply, all_through(State#{phase := closing})}.

-spec handle_info(term(), state()) -> {noreply, state()} | {stop, term(), state()}.
handle_info({dyno_worker, Pid, Event}, State) ->
    {noreply, worker(Event, Pid, State)};
handle_info(sample, #{samples := Samples, run_queue_sum := Sum} = State) ->
    _ = erlang:send_after(?SAMPLE_MS, self(), sample),
    %% Without dirty schedulers.
    Now = erlang:statistics(total_run_queue_lengths),
    {noreply, State#{samples := Samples + 1, run_queue_sum := Sum + Now}};
handle_info({'EXIT', Pid, Reason}, #{workers := Workers} = State) when is_map_key(Pid, Workers) ->
    #{under_way := UnderWay, pending := Pending, resting := Resting} = State,
    Next = State#{
        workers := maps:remove(Pid, Workers),
        pending := maps:remove(Pid, Pending),
        resting := maps:remove(Pid, Resting)
    },
    case Reason of
        normal ->
            %% The worker was closed, or its preparation failed, which the owner knows.
            {noreply, all_through(Next#{under_way := maps:remove(Pid, UnderWay)})};
        _ ->
            notify({failed, {worker_died, Reason}}, Next),
            {noreply, Next}
    end;
handle_info({'EXIT', _Other, normal}, State) ->
    {noreply, State};
handle_info({'EXIT', _Other, Reason}, State) ->
    {stop, Reason, State};
handle_info({'DOWN', _, process, Owner, _}, #{options := #{owner := Owner}} = State) ->
    %% Not `normal`: file readers and drawers of random times must end too.
    {stop, shutdown, State};
handle_info(_Other, State) ->
    {noreply, State}.

worker(ready, Pid, #{pending := Pending} = State) ->
    ready(Pid, State#{pending := maps:remove(Pid, Pending)});
worker({done, Number}, Pid, #{round := Number} = State) ->
    #{under_way := UnderWay, resting := Resting} = State,
    all_through(State#{under_way := maps:remove(Pid, UnderWay), resting := Resting#{Pid => []}});
worker({done, _Earlier}, _Pid, State) ->
    State;
worker(none_free, _Pid, State) ->
    grow(State);
worker({failed, Reason}, Pid, #{phase := working, pending := Pending} = State) when
    is_map_key(Pid, Pending)
->
    %% The target accepts no more connections: the load continues with the existing ones.
    notify({not_grown, Reason}, State),
    State#{growth := failed};
worker(Event, _Pid, State) ->
    notify(Event, State),
    State.

ready(Pid, #{phase := working} = State) ->
    join(Pid, State);
ready(Pid, #{phase := closing} = State) ->
    Pid ! close,
    State;
ready(Pid, #{resting := Resting} = State) ->
    all_through(State#{resting := Resting#{Pid => []}}).

join(Pid, #{under_way := UnderWay, works := Works, round := Number} = State) ->
    #{resting := Resting, most_workers := Most, workers := Workers} = State,
    ok = dyno_load_worker:take_part(1, map_get(Pid, Workers), Works),
    Pid ! {start, Number, Works},
    Now = UnderWay#{Pid => []},
    State#{
        under_way := Now,
        resting := maps:remove(Pid, Resting),
        most_workers := max(Most, map_size(Now))
    }.

grow(#{phase := working, works := Works, options := Options} = State) ->
    #{index := Index, nodes := Nodes} = Options,
    case lists:filter(fun dyno_load_worker:is_short/1, Works) of
        [#{workers := Most} = Short | _] ->
            Count = dyno_load_worker:taking_part(Short),
            Limit = (Most - Index + Nodes - 1) div Nodes,
            More = min(Limit - Count, max(?GROW_LEAST, Count div ?GROW_SHARE)),
            added(More, Most, State);
        [] ->
            State
    end;
grow(State) ->
    State.

%% Resting workers come first, at once. Workers beyond the largest number would have nothing to do.
added(More, Most, #{resting := Resting, workers := Workers} = State) when More > 0 ->
    case [Pid || Pid := _ <- Resting, map_get(Pid, Workers) =< Most] of
        [] -> prepare_more(More, Most, State);
        Usable -> lists:foldl(fun join/2, State, lists:sublist(Usable, More))
    end;
added(_None, _Most, State) ->
    State.

prepare_more(Count, Most, #{growth := allowed, pending := Pending} = State) when
    map_size(Pending) =:= 0
->
    #{next_id := Id, options := #{nodes := Nodes}} = State,
    start_workers(max(0, min(Count, (Most - Id + Nodes) div Nodes)), State);
prepare_more(_Count, _Most, State) ->
    State.

all_through(#{phase := preparing, pending := Pending} = State) when map_size(Pending) =:= 0 ->
    notify(ready, State),
    State#{phase := idle};
all_through(#{phase := working, under_way := UnderWay} = State) when map_size(UnderWay) =:= 0 ->
    notify({done, map_get(round, State)}, State),
    State#{phase := idle};
all_through(#{phase := closing, workers := Workers} = State) when map_size(Workers) =:= 0 ->
    notify(closed, State),
    State;
all_through(State) ->
    State.

notify(Event, #{options := #{owner := Owner}}) ->
    Owner ! {dyno_load_pool, self(), Event},
    ok.

work(Part, Start, Finish, Least, #{options := Options}) ->
    #{model := Model, operations := Operations, seed := Seed, max_workers := Max} = Part,
    #{index := Index, nodes := Nodes} = Options,
    Weighted = weighted(Operations),
    Work = #{
        model => Model,
        workers => Max,
        operations => Weighted,
        recorders =>
            #{
                Operation => dyno_load_recorder:new(Model, Start, Finish)
             || {_, Operation} <- Weighted
            },
        seed => Seed,
        start => Start,
        finish => Finish
    },
    case Part of
        #{model := open, schedule := Schedule, workers := Workers} ->
            Claimed = atomics:new(1, []),
            Numbers = fun() -> atomics:get(Claimed, 1) * Nodes + Index end,
            Open = Work#{
                claimed => Claimed,
                stride => {Index, Nodes},
                times => dyno_load_schedule_ahead:start_link(Schedule, Numbers)
            },
            case Max > Workers of
                true ->
                    Open#{free => atomics:new(2, []), least => Least};
                false ->
                    Open
            end;
        #{think := Think, iterations := {each, _} = Each} ->
            Work#{think => Think, left => Each};
        #{think := Think, iterations := {all, N}} ->
            Left = atomics:new(1, []),
            ok = atomics:put(Left, 1, (N - Index + Nodes - 1) div Nodes),
            Work#{think => Think, left => {all, Left}};
        #{think := Think} ->
            Work#{think => Think}
    end.

weighted(undefined) ->
    [{1.0, undefined}];
weighted(Operations) ->
    Sum = lists:sum(maps:values(Operations)),
    {Weighted, _} = lists:mapfoldl(
        fun({Operation, Weight}, Before) ->
            Upto = Before + Weight / Sum,
            {{Upto, Operation}, Upto}
        end,
        0.0,
        lists:sort(maps:to_list(Operations))
    ),
    Weighted.

snapshot_of(#{works := Works, workers := Workers, under_way := UnderWay} = State) ->
    #{pending := Pending, samples := Samples, run_queue_sum := Sum} = State,
    Errors = [dyno_load_recorder:errors(R) || #{recorders := Of} <- Works, _ := R <- Of],
    (maps:merge(busy(State), own_cpu(State)))#{
        parts => [
            maps:map(fun(_, Recorder) -> dyno_load_recorder:snapshot(Recorder) end, Of)
         || #{recorders := Of} <- Works
        ],
        errors => dyno_load_recorder:merge_errors(Errors),
        arrivals => [arrivals(Work) || Work <- Works],
        workers => map_get(most_workers, State),
        ready => map_size(Workers) - map_size(Pending),
        under_way => map_size(UnderWay),
        ending => ending(State),
        run_queue => Sum / max(1, Samples) / erlang:system_info(schedulers_online)
    }.

%% Only for probes: reading takes too long for each interval. Load nodes lack this module.
with_cpu([{#{'of' := search}, _, _}], #{options := #{owner := Owner}} = State) when
    node(Owner) =:= node()
->
    State#{cpu => dyno_agent_os:read()};
with_cpu(_Round, State) ->
    maps:remove(cpu, State).

busy(#{cpu := Before}) ->
    case dyno_agent_os:difference(Before, dyno_agent_os:read()) of
        #{~"os.cpu.user" := User, ~"os.cpu.system" := System} -> #{busy => User + System};
        #{} -> #{}
    end;
busy(_State) ->
    #{}.

own_cpu(#{cpu_ms := Before, options := #{owner := Owner}}) ->
    #{cpu_ms => cpu_ms() - Before || host(node()) =:= host(node(Owner))}.

cpu_ms() -> element(1, erlang:statistics(runtime)).

ending(#{phase := closing, workers := Workers, under_way := UnderWay}) ->
    map_size(maps:without(maps:keys(UnderWay), Workers));
ending(_State) ->
    0.

arrivals(#{times := Times}) -> dyno_load_schedule_ahead:total(Times);
arrivals(_Work) -> undefined.

%% A worker in an operation of the last round records its end: its recorder stays.
free(#{under_way := UnderWay}) when map_size(UnderWay) > 0 ->
    ok;
free(#{works := Works}) ->
    lists:foreach(
        fun(#{recorders := Recorders} = Work) ->
            lists:foreach(fun dyno_load_recorder:delete/1, maps:values(Recorders)),
            case Work of
                #{times := Times} -> dyno_load_schedule_ahead:stop(Times);
                #{} -> ok
            end
        end,
        Works
    ).

-spec terminate(term(), state()) -> ok.
terminate(_Reason, #{workers := Workers}) ->
    maps:foreach(fun(Pid, _) -> exit(Pid, kill) end, Workers).
