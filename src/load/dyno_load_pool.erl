%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_load_pool).
-moduledoc false.
%% The workers of one node: this one, or a load node. A crew prepares its workers, lets them go
%% through the rounds that its owner asks for, and tells what they measured. It ends with its owner.
%%
%% The owner receives `{dyno_crew, Crew, Event}` where the event is
%%
%% * `ready`: all workers are prepared;
%% * `done`: all workers have gone through the round;
%% * `{snapshot, Ref, snapshot()}`: the answer to `snapshot/2`;
%% * `closed`: all workers have ended;
%% * `{failed, Reason}`, `{not_ended, Reason}`, `{feed_ended, Name}`, `{not_grown, Reason}`: from a
%%   worker.

-behaviour(gen_server).

-export([start_link/1, start/1, start_on/2, ready/1, begin_round/2, snapshot/2, close/1]).
-export([init/1, handle_continue/2, handle_call/3, handle_cast/2, handle_info/2, terminate/2]).
-export_type([options/0, round/0, snapshot/0]).

-type options() :: #{
    owner := pid(),
    module := module(),
    run_state := term(),
    callbacks := [{atom(), arity()}],
    feeds := [dyno_feed:feed()],
    seed := integer(),
    %% Workers over all nodes at the beginning; of these, node I of N has I + 1, I + 1 + N, ...
    workers := pos_integer(),
    index := non_neg_integer(),
    nodes := pos_integer()
}.

-doc "Parts with their times on this node's clock.".
-type round() :: [{dyno_load_part:t(), Start :: integer(), Finish :: integer()}].

-type snapshot() :: #{
    %% Of each part, by kind of operation.
    parts := [#{atom() => dyno_load_recorder:snapshot()}],
    errors := [{binary(), pos_integer()}],
    %% How many arrivals with random gaps there were in each part, where it is known.
    drawn := [non_neg_integer() | undefined],
    workers := pos_integer(),
    %% Workers whose last operation has not ended.
    under_way := non_neg_integer(),
    %% Processes that waited for a scheduler, per scheduler, on average.
    waiting := float()
}.

-type phase() :: preparing | idle | working | closing.

-type state() :: #{
    options := options(),
    phase := phase(),
    context => dyno_feed:context(),
    job => map(),
    workers := #{pid() => []},
    %% Not ready yet.
    pending := #{pid() => []},
    %% Not through the round yet.
    under_way := #{pid() => []},
    next_id := pos_integer(),
    works := [dyno_load_worker:work()],
    most := pos_integer(),
    growing := boolean(),
    looks := non_neg_integer(),
    queued := non_neg_integer()
}.

-define(LOOK_MS, 50).
%% So much more at a time where all are busy.
-define(GROW_LEAST, 8).
-define(GROW_SHARE, 4).

-doc "Starts a crew on this node, linked to the caller.".
-spec start_link(options()) -> gen_server:start_ret().
start_link(Options) ->
    gen_server:start_link(?MODULE, Options, []).

-doc "Starts a crew that is linked to nobody: for a call from another node.".
-spec start(options()) -> gen_server:start_ret().
start(Options) ->
    gen_server:start(?MODULE, Options, []).

-doc "How many workers are prepared.".
-spec ready(pid()) -> non_neg_integer().
ready(Crew) ->
    try
        gen_server:call(Crew, ready, 1000)
    catch
        exit:_ -> 0
    end.

-doc "Lets the workers go through a round.".
-spec begin_round(pid(), round()) -> ok.
begin_round(Crew, Round) ->
    gen_server:cast(Crew, {round, Round}).

-doc "Starts one in a node, this one or another; the files of feeds go with it to another machine.".
-spec start_on(node(), options()) ->
    {ok, pid()} | {error, dyno_error:error()}.
start_on(Node, Options) ->
    try
        case Node =:= node() of
            true -> start_link(Options);
            false -> erpc:call(Node, ?MODULE, start, [with_data(Node, Options)])
        end
    of
        {ok, Pid} -> {ok, Pid};
        {error, {dyno_feed, Reason}} -> {error, {dyno_feed, Reason}}
    catch
        error:{erpc, _} -> {error, {dyno_load, {node_lost, Node}}}
    end.

%% Another machine has not this one's files.
with_data(Node, #{feeds := Feeds} = Options) ->
    case host(Node) =:= host(node()) of
        true -> Options;
        false -> Options#{feeds := dyno_feed:portable(Feeds)}
    end.

host(Node) -> lists:last(string:split(atom_to_list(Node), "@")).

-doc "Asks for the figures of the round so far.".
-spec snapshot(pid(), reference()) -> ok.
snapshot(Crew, Ref) ->
    gen_server:cast(Crew, {snapshot, Ref}).

-doc "Has the workers end.".
-spec close(pid()) -> ok.
close(Crew) ->
    gen_server:cast(Crew, close).

-spec init(options()) -> {ok, state(), {continue, prepare}} | {stop, term()}.
init(#{owner := Owner, feeds := Feeds} = Options) ->
    process_flag(trap_exit, true),
    proc_lib:set_label(?MODULE),
    _ = monitor(process, Owner),
    #{index := Index, nodes := Nodes} = Options,
    Place = maps:with([index, nodes, workers, seed], Options),
    case dyno_feed:open(Feeds, Place) of
        {ok, Context} ->
            _ = erlang:send_after(?LOOK_MS, self(), look),
            {ok,
                #{
                    options => Options,
                    phase => preparing,
                    context => Context,
                    workers => #{},
                    pending => #{},
                    under_way => #{},
                    next_id => Index + 1,
                    works => [],
                    most => 1,
                    growing => Nodes > 0,
                    looks => 0,
                    queued => 0
                },
                {continue, prepare}};
        {error, Reason} ->
            {stop, {dyno_feed, Reason}}
    end.

-spec handle_continue(prepare, state()) -> {noreply, state()}.
handle_continue(prepare, #{options := Options, context := Context} = State) ->
    Job = #{
        owner => self(),
        module => map_get(module, Options),
        run_state => map_get(run_state, Options),
        callbacks => map_get(callbacks, Options),
        feeds => Context
    },
    #{workers := All, index := Index, nodes := Nodes} = Options,
    Own = max(0, (All - Index + Nodes - 1) div Nodes),
    Started = hire(Own, State#{job => Job, most := max(1, Own)}),
    _ = [notify(ready, Started) || Own =:= 0],
    {noreply, Started}.

hire(0, State) ->
    State;
hire(Count, #{job := Job, next_id := Id, options := #{nodes := Nodes}} = State) ->
    #{workers := Workers, pending := Pending} = State,
    Pid = dyno_load_worker:start_link(Job#{id => Id}),
    hire(Count - 1, State#{
        next_id := Id + Nodes, workers := Workers#{Pid => []}, pending := Pending#{Pid => []}
    }).

-spec handle_call(ready, gen_server:from(), state()) -> {reply, non_neg_integer(), state()}.
handle_call(ready, _From, #{phase := closing, workers := Workers, under_way := UnderWay} = State) ->
    %% Those that are in end_worker/1, not in an operation.
    {reply, map_size(maps:without(maps:keys(UnderWay), Workers)), State};
handle_call(ready, _From, #{workers := Workers, pending := Pending} = State) ->
    {reply, map_size(Workers) - map_size(Pending), State}.

-spec handle_cast(term(), state()) -> {noreply, state()} | {stop, normal, state()}.
handle_cast({round, Round}, #{workers := Workers} = State) ->
    ok = free(State),
    Works = [work(Part, Start, Finish, State) || {Part, Start, Finish} <- Round],
    maps:foreach(fun(Pid, _) -> Pid ! {start, Works} end, Workers),
    Begun = State#{
        phase := working, works := Works, under_way := Workers, looks := 0, queued := 0,
        growing := true
    },
    {noreply, through(Begun)};
handle_cast({snapshot, Ref}, State) ->
    notify({snapshot, Ref, snapshot_of(State)}, State),
    {noreply, State};
handle_cast(close, #{workers := Workers} = State) ->
    maps:foreach(fun(Pid, _) -> Pid ! close end, Workers),
    {noreply, closed(State#{phase := closing})}.

-spec handle_info(term(), state()) -> {noreply, state()} | {stop, term(), state()}.
handle_info({dyno_worker, Pid, Event}, State) ->
    {noreply, worker(Event, Pid, State)};
handle_info(look, #{looks := Looks, queued := Queued} = State) ->
    _ = erlang:send_after(?LOOK_MS, self(), look),
    %% Without the dirty ones.
    Now = erlang:statistics(total_run_queue_lengths),
    {noreply, State#{looks := Looks + 1, queued := Queued + Now}};
handle_info({'EXIT', Pid, Reason}, #{workers := Workers} = State) when is_map_key(Pid, Workers) ->
    #{under_way := UnderWay, pending := Pending, phase := Phase} = State,
    Next = State#{
        workers := maps:remove(Pid, Workers), pending := maps:remove(Pid, Pending)
    },
    case Reason of
        normal when Phase =:= closing ->
            {noreply, closed(Next#{under_way := maps:remove(Pid, UnderWay)})};
        normal ->
            %% Its preparation failed: it has said why.
            {noreply, through(Next#{under_way := maps:remove(Pid, UnderWay)})};
        _ ->
            notify({failed, {worker_died, Reason}}, Next),
            {noreply, Next}
    end;
handle_info({'EXIT', _Other, normal}, State) ->
    {noreply, State};
handle_info({'EXIT', _Other, Reason}, State) ->
    {stop, Reason, State};
handle_info({'DOWN', _, process, Owner, _}, #{options := #{owner := Owner}} = State) ->
    {stop, normal, State};
handle_info(_Other, State) ->
    {noreply, State}.

worker(ready, Pid, #{phase := preparing, pending := Pending} = State) ->
    case maps:remove(Pid, Pending) of
        None when map_size(None) =:= 0 ->
            notify(ready, State),
            State#{pending := None, phase := idle};
        Rest ->
            State#{pending := Rest}
    end;
worker(ready, Pid, #{phase := working, pending := Pending, under_way := UnderWay} = State) ->
    #{works := Works} = State,
    _ = [atomics:add(Free, 1, 1) || #{free := Free} <- Works],
    Pid ! {start, Works},
    State#{pending := maps:remove(Pid, Pending), under_way := UnderWay#{Pid => []}};
worker(ready, Pid, #{pending := Pending} = State) ->
    %% Too late for this round: it is there for the next one.
    _ = [Pid ! close || map_get(phase, State) =:= closing],
    State#{pending := maps:remove(Pid, Pending)};
worker(done, Pid, #{under_way := UnderWay} = State) ->
    through(State#{under_way := maps:remove(Pid, UnderWay)});
worker(none_free, _Pid, State) ->
    grow(State);
worker({failed, Reason}, Pid, #{phase := working, pending := Pending} = State) when
    is_map_key(Pid, Pending)
->
    %% The target takes no more connections: the load goes on with those that there are.
    notify({not_grown, Reason}, State),
    State#{growing := false};
worker(Event, _Pid, State) ->
    notify(Event, State),
    State.

grow(#{phase := working, growing := true, pending := Pending} = State) when
    map_size(Pending) =:= 0
->
    #{workers := Workers, works := Works, most := Most, options := #{nodes := Nodes}} = State,
    Now = map_size(Workers),
    Time = dyno_load_recorder:time_ns(),
    Limit = lists:max([
        0
        | [
            (Max + Nodes - 1) div Nodes
         || #{free := _, workers := Max, finish := Finish} <- Works, Time < Finish
        ]
    ]),
    case min(Limit - Now, max(?GROW_LEAST, Now div ?GROW_SHARE)) of
        More when More > 0 -> hire(More, State#{most := max(Most, Now + More)});
        _ -> State
    end;
grow(State) ->
    State.

through(#{phase := working, under_way := UnderWay} = State) when map_size(UnderWay) =:= 0 ->
    notify(done, State),
    State#{phase := idle};
through(State) ->
    State.

closed(#{workers := Workers} = State) when map_size(Workers) =:= 0 ->
    notify(closed, State),
    State;
closed(State) ->
    State.

notify(Event, #{options := #{owner := Owner}}) ->
    Owner ! {dyno_crew, self(), Event},
    ok.

%% What the workers need of a part.
work(Part, Start, Finish, #{options := Options, workers := There}) ->
    #{model := Model, operations := Operations, seed := Seed, max_workers := Max} = Part,
    #{index := Index, nodes := Nodes} = Options,
    Kinds = kinds(Operations),
    Work = #{
        model => Model,
        workers => Max,
        kinds => Kinds,
        meters => #{Kind => dyno_load_recorder:new(Model, Finish) || {_, Kind} <- Kinds},
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
                times => dyno_load_arrival_times:start_link(Schedule, Numbers)
            },
            case Max > Workers of
                true ->
                    Free = atomics:new(1, []),
                    ok = atomics:put(Free, 1, map_size(There)),
                    Open#{free => Free};
                false ->
                    Open
            end;
        #{think := Think} ->
            limited(Part, Index, Nodes, Work#{think => Think})
    end.

limited(#{iterations := {each, N}}, _Index, _Nodes, Work) ->
    Work#{left => {each, N}};
limited(#{iterations := {all, N}}, Index, Nodes, Work) ->
    Left = atomics:new(1, []),
    ok = atomics:put(Left, 1, (N - Index + Nodes - 1) div Nodes),
    Work#{left => {all, Left}};
limited(_Part, _Index, _Nodes, Work) ->
    Work.

kinds(undefined) ->
    [{1.0, undefined}];
kinds(Operations) ->
    Sum = lists:sum(maps:values(Operations)),
    {Kinds, _} = lists:mapfoldl(
        fun({Kind, Weight}, Before) -> {{Before + Weight / Sum, Kind}, Before + Weight / Sum} end,
        0.0,
        lists:sort(maps:to_list(Operations))
    ),
    Kinds.

snapshot_of(#{works := Works, most := Most, under_way := UnderWay} = State) ->
    #{looks := Looks, queued := Queued} = State,
    #{
        parts => [
            maps:map(fun(_, Meter) -> dyno_load_recorder:snapshot(Meter) end, Meters)
         || #{meters := Meters} <- Works
        ],
        errors => lists:foldl(
            fun dyno_load_recorder:merge_errors/2,
            [],
            [
                dyno_load_recorder:errors(Meter)
             || #{meters := Meters} <- Works, Meter <- maps:values(Meters)
            ]
        ),
        drawn => [drawn(Work) || Work <- Works],
        workers => Most,
        under_way => map_size(UnderWay),
        waiting => Queued / max(1, Looks) / erlang:system_info(schedulers_online)
    }.

drawn(#{times := Times}) -> dyno_load_arrival_times:total(Times);
drawn(_Work) -> undefined.

free(#{works := Works}) ->
    lists:foreach(
        fun(#{meters := Meters} = Work) ->
            maps:foreach(fun(_, Meter) -> dyno_load_recorder:delete(Meter) end, Meters),
            _ = [dyno_load_arrival_times:stop(Times) || #{times := Times} <- [Work]],
            ok
        end,
        Works
    ).

-spec terminate(term(), state()) -> ok.
terminate(_Reason, #{workers := Workers}) ->
    maps:foreach(fun(Pid, _) -> exit(Pid, kill) end, Workers).
