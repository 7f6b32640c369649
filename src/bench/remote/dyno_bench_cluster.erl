%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_cluster).
-moduledoc """
Monitors nodes, and runs a code in all of them at once. Each interval gives the throughput and the
VM state of every node, and the sum. The nodes need no dyno, and nothing stays there
(`m:dyno_bench_remote`).

```erlang
1> {ok, Cluster} = dyno_bench_cluster:start_link(#{
       nodes => ['a@host', 'b@host'],
       code => {pg, get_members, [group]},
       handler => fun(Sample) -> io:format("~p~n", [maps:get(per_second, Sample)]) end
   }).
2> ok = dyno_bench_cluster:set_concurrency(Cluster, 'b@host', 4).
3> [Newest | _] = dyno_bench_cluster:history(Cluster).
4> ok = dyno_bench_cluster:stop(Cluster).
```

Without a code the nodes are only monitored. After the loss of a node the others continue, and each
sample says so. A code that fails in one node ends the cluster, which exits with the reason.

## Cost
One process in each node that reads some 22 values per interval. This node keeps the newest 3600
samples.
""".

-behaviour(gen_server).

-export([start_link/1, stop/1, history/1, history/2, set_concurrency/3, format_error/1, fault/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2, terminate/2]).
-export_type([options/0, sample/0, node_sample/0, reason/0]).

-type options() :: #{
    nodes := [node(), ...],
    code => dyno_bench_code:code(),
    %% Workers in each node. Default: 1.
    concurrency => non_neg_integer(),
    %% Default: 1000.
    interval_ms => pos_integer(),
    %% Cookie of the nodes. Default: this node's.
    cookie => atom(),
    %% Limit of init and other parts of the code. Default: 30000.
    timeout_ms => pos_integer(),
    %% Limit of the cluster. Default: an hour.
    limit_ms => pos_integer(),
    %% Samples to keep. Default: 3600.
    kept => pos_integer(),
    %% Called with each sample, in the cluster's process.
    handler => fun((sample()) -> term())
}.

-type sample() :: #{
    %% End of the interval: system time in milliseconds.
    time_ms := integer(),
    nodes := [node_sample(), ...],
    %% Sum of all nodes.
    per_second := float()
}.

-type node_sample() :: #{
    node := node(),
    %% `late`: no report in this interval; `lost`: no further reports.
    status := here | late | lost,
    per_second := float(),
    concurrency := non_neg_integer(),
    %% See dyno_agent_vm:describe/0. Empty without a report.
    values := dyno_agent_vm:values()
}.

-type reason() ::
    {in_node, node(), dyno_error:error()}
    | {no_node, node()}
    | {died, term()}.

-type member() :: #{
    status := here | lost,
    %% Known once it has started; needed to change its job.
    pid := pid() | undefined,
    %% Since the last sample, newest first.
    reports := [dyno_bench_member:report()],
    atom() => term()
}.

-type state() :: #{
    options := options(),
    members := #{node() => member()},
    %% Newest first.
    history := [sample()],
    due_ms := integer()
}.

-define(CALL_MS, 60_000).
-define(MAX_NODES, 100).

-doc "Starts a linked cluster; returns when all nodes work.".
-spec start_link(options()) -> dyno_error:result(pid()).
start_link(Options) ->
    Merged = maps:merge(
        #{
            concurrency => 1,
            interval_ms => 1000,
            timeout_ms => 30_000,
            kept => 3600,
            handler => fun(_) -> ok end
        },
        Options
    ),
    maybe
        ok ?= checked(Merged),
        case gen_server:start_link(?MODULE, Merged, []) of
            {ok, Pid} -> {ok, Pid};
            {error, {shutdown, Error}} -> {error, Error};
            {error, Reason} -> {error, {?MODULE, {died, Reason}}}
        end
    end.

checked(Options) ->
    IsFrom = fun(Least) -> fun(N) -> is_integer(N) andalso N >= Least end end,
    Checks = [
        {nodes, fun are_nodes/1, ~"a list of 1 to 100 nodes, each once,"},
        {concurrency, IsFrom(0), ~"an integer from 0"},
        {interval_ms, IsFrom(10), ~"an integer from 10"},
        {kept, IsFrom(1), ~"a positive integer"}
    ],
    maybe
        ok ?= dyno_option:check(Checks, [code, cookie, timeout_ms, limit_ms, handler], Options),
        readable(Options)
    end.

are_nodes(Nodes) ->
    is_list(Nodes) andalso Nodes =/= [] andalso length(Nodes) =< ?MAX_NODES andalso
        lists:all(fun is_atom/1, Nodes) andalso length(lists:usort(Nodes)) =:= length(Nodes).

%% The text is the same for all nodes: check it once, here.
readable(#{code := Code}) ->
    maybe
        {ok, _} ?= dyno_bench_code:read(Code),
        ok
    end;
readable(_Options) ->
    ok.

-doc "Ends the cluster and leaves the nodes.".
-spec stop(pid()) -> ok.
stop(Cluster) ->
    try
        gen_server:stop(Cluster, normal, ?CALL_MS)
    catch
        exit:_ -> ok
    end.

-doc "The samples kept, newest first.".
-spec history(pid()) -> [sample()].
history(Cluster) ->
    gen_server:call(Cluster, history, ?CALL_MS).

-doc "The samples that ended between two system times in milliseconds, both included.".
-spec history(pid(), {FromMs :: integer(), ToMs :: integer()}) -> [sample()].
history(Cluster, {FromMs, ToMs}) ->
    [Sample || #{time_ms := Ms} = Sample <- history(Cluster), Ms >= FromMs, Ms =< ToMs].

-doc "Sets the number of workers in a node.".
-spec set_concurrency(pid(), node(), non_neg_integer()) -> dyno_error:result().
set_concurrency(Cluster, Node, Count) ->
    gen_server:call(Cluster, {set_concurrency, Node, Count}, ?CALL_MS).

-spec init(options()) -> {ok, state()} | {stop, {shutdown, dyno_error:error()}}.
init(#{nodes := Nodes, interval_ms := IntervalMs} = Options) ->
    _ = process_flag(trap_exit, true),
    proc_lib:set_label(?MODULE),
    %% This node must be connected before another node is told to compile here.
    case dyno_target:all(Nodes, fun(Node) -> attached(Node, Options) end) of
        {ok, Targets} ->
            Members = #{Node => Target || #{node := Node} = Target <- Targets},
            State = #{options => Options, members => Members, history => [], due_ms => 0},
            case started(State) of
                {ok, Started} ->
                    %% So that each interval has one of the nodes' own reports.
                    DueMs = erlang:monotonic_time(millisecond) + IntervalMs div 2,
                    {ok, next_tick(Started#{due_ms := DueMs})};
                {error, Reason} ->
                    detached(State),
                    {stop, {shutdown, Reason}}
            end;
        {error, Reason} ->
            {stop, {shutdown, Reason}}
    end.

attached(Node, Options) ->
    maybe
        {ok, Target} ?= dyno_bench_remote:attach(Node, [], maps:with([cookie, limit_ms], Options)),
        {ok, Target#{status => here, pid => undefined, reports => []}}
    end.

%% So that the nodes begin at about the same time.
started(#{options := Options, members := Members} = State) ->
    Order = (maps:with([code, concurrency, interval_ms, timeout_ms], Options))#{compiler => node()},
    Call = {dyno_bench_member, run, [Order, self()]},
    Agents = [Agent || #{agent := Agent} <- maps:values(Members)],
    lists:foreach(fun(A) -> gen_server:cast(dyno_agent:guard(A), {run, Call}) end, Agents),
    ready(maps:keys(Members), State).

ready([], State) ->
    {ok, State};
ready([Node | Rest], #{members := Members, options := #{timeout_ms := TimeoutMs}} = State) ->
    #{Node := #{ref := Ref, monitor := Monitor} = Member} = Members,
    receive
        {dyno_bench_member, Node, {started, Pid}} ->
            ready(Rest, State#{members := Members#{Node := Member#{pid := Pid}}});
        {dyno_bench_remote_guard, Ref, {error, Reason}} ->
            {error, {?MODULE, {in_node, Node, Reason}}};
        {'DOWN', Monitor, process, _, _} ->
            {error, {dyno_bench_remote, {node_lost, Node}}}
    after 2 * TimeoutMs + ?CALL_MS ->
        Endless = dyno_bench_failure:error(~"the code", run, {timeout, TimeoutMs}),
        {error, {?MODULE, {in_node, Node, Endless}}}
    end.

next_tick(#{due_ms := DueMs, options := #{interval_ms := IntervalMs}} = State) ->
    Next = DueMs + IntervalMs,
    _ = erlang:start_timer(Next, self(), tick, [{abs, true}]),
    State#{due_ms := Next}.

-spec handle_call(term(), gen_server:from(), state()) -> {reply, term(), state()}.
handle_call(history, _From, #{history := History} = State) ->
    {reply, History, State};
handle_call({set_concurrency, Node, Count}, _From, #{members := Members} = State) ->
    Answer =
        case Members of
            #{Node := #{status := here, pid := Pid}} ->
                maybe
                    {error, Error} ?= dyno_bench_member:set_concurrency(Pid, Count),
                    {error, {?MODULE, {in_node, Node, Error}}}
                end;
            #{} ->
                {error, {?MODULE, {no_node, Node}}}
        end,
    {reply, Answer, State}.

-spec handle_cast(term(), state()) -> {noreply, state()}.
handle_cast(_Request, State) ->
    {noreply, State}.

-spec handle_info(term(), state()) -> {noreply, state()} | {stop, term(), state()}.
handle_info({timeout, _, tick}, State) ->
    {noreply, next_tick(sampled(State))};
handle_info({dyno_bench_member, Node, {report, Report}}, #{members := Members} = State) ->
    #{Node := #{reports := Reports} = Member} = Members,
    {noreply, State#{members := Members#{Node := Member#{reports := [Report | Reports]}}}};
handle_info({dyno_bench_remote_guard, Ref, {error, Reason}}, #{members := Members} = State) ->
    [Node] = [Node || Node := #{ref := Of} <- Members, Of =:= Ref],
    {stop, {shutdown, {?MODULE, {in_node, Node, Reason}}}, State};
handle_info(Message, #{members := Members} = State) ->
    case dyno_target:event(Message, maps:values(Members)) of
        {gave_up, #{node := Node}, Reason} ->
            {stop, {shutdown, {dyno_bench_remote, {gave_up, Node, Reason}}}, State};
        {lost, #{node := Lost} = Member, _} ->
            Changed = State#{members := Members#{Lost := Member#{status := lost}}},
            case [here || Node := #{status := here} <- Members, Node =/= Lost] of
                %% The last sample says so, too.
                [] -> {stop, {shutdown, {dyno_bench_remote, {node_lost, Lost}}}, sampled(Changed)};
                [_ | _] -> {noreply, Changed}
            end;
        %% Includes the exit of a port that started the port mapper. gen_server handles the parent's
        %% end.
        _ ->
            {noreply, State}
    end.

-spec terminate(term(), state()) -> ok.
terminate(_Reason, State) ->
    detached(State).

detached(#{members := Members}) ->
    _ = dyno_target:leave([Member || #{status := here} = Member <- maps:values(Members)]),
    ok.

sampled(#{members := Members, history := History, options := Options} = State) ->
    #{nodes := Nodes, kept := Kept, handler := Handler} = Options,
    Samples = [node_sample(Node, map_get(Node, Members)) || Node <- Nodes],
    Sample = #{
        time_ms => erlang:system_time(millisecond),
        nodes => Samples,
        per_second => lists:sum([0.0 | [P || #{per_second := P} <- Samples]])
    },
    _ = Handler(Sample),
    State#{
        history := lists:sublist([Sample | History], Kept),
        members := #{Node => Member#{reports := []} || Node := Member <- Members}
    }.

node_sample(Node, #{status := lost}) ->
    nothing(Node, lost);
node_sample(Node, #{reports := []}) ->
    nothing(Node, late);
%% There may be several reports if this node was delayed.
node_sample(Node, #{reports := [#{concurrency := Concurrency, values := Values} | _] = Reports}) ->
    Iterations = lists:sum([N || #{iterations := N} <- Reports]),
    Ns = lists:sum([D || #{duration_ns := D} <- Reports]),
    #{
        node => Node,
        status => here,
        per_second => Iterations * 1.0e9 / Ns,
        concurrency => Concurrency,
        values => Values
    }.

nothing(Node, Status) ->
    #{node => Node, status => Status, per_second => 0.0, concurrency => 0, values => #{}}.

-spec format_error(reason()) -> unicode:chardata().
format_error({no_node, Node}) ->
    io_lib:format("~ts is not one of the cluster's nodes, or was lost", [Node]);
format_error({in_node, Node, Error}) ->
    [atom_to_list(Node), ": ", dyno_error:format(Error)];
format_error({died, Reason}) ->
    io_lib:format("the process that collects the nodes' samples died: ~0tP", [Reason, 12]).

-spec fault(reason()) -> dyno_error:fault().
fault({in_node, _, Error}) -> dyno_error:fault(Error);
fault({no_node, _}) -> caller;
fault({died, _}) -> dyno.
