%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_load).
-moduledoc """
Dyno's own load generator: prepares pools of workers, starts them together, reads their results at
an interval, and ends them. A pool has the workers of one node. m:dyno_load_source lists the events.

dyno_load_core makes all decisions; this process executes them.
""".

-behaviour(dyno_load_source).
-behaviour(gen_statem).

-export([start_link/1, format_error/1, fault/1]).
-export([init/1, callback_mode/0, handle_event/4, terminate/3]).
-export_type([options/0, reason/0]).

-type options() :: #{
    load := dyno_load_spec:load(),
    operations => dyno_load_spec:operations() | undefined,
    feeds => [dyno_feed:feed()],
    seed => integer(),
    load_nodes => [dyno_load_nodes:spec()],
    _ => _
}.

-type reason() ::
    {worker_died, module(), term()}
    | {not_ready, module(), Ready :: non_neg_integer(), pos_integer(), TimeoutMs :: pos_integer()}
    | {node_lost | no_node_left, node()}
    | {pool_failed, node(), term()}.

-type data() :: #{
    options := options(),
    core := dyno_load_core:t(),
    pools := [pid()],
    started_nodes := [dyno_load_nodes:started()]
}.

-spec start_link(options()) -> {ok, pid()}.
start_link(Options) ->
    {ok, _} = gen_statem:start_link(?MODULE, Options, []).

-spec callback_mode() -> handle_event_function.
callback_mode() -> handle_event_function.

-spec init(options()) ->
    {ok, dyno_load_core:phase(), data(), [gen_statem:action()]}.
init(Options0) ->
    process_flag(trap_exit, true),
    proc_lib:set_label(?MODULE),
    Defaults = #{operations => undefined, feeds => [], seed => 1, load_nodes => []},
    Options = maps:merge(Defaults, Options0),
    Data = #{
        options => Options,
        core => dyno_load_core:new(Options),
        pools => [],
        started_nodes => []
    },
    {ok, preparing, Data, [{next_event, internal, start}]}.

-spec handle_event(gen_statem:event_type(), term(), dyno_load_core:phase(), data()) ->
    gen_statem:event_handler_result(dyno_load_core:phase(), data()).
handle_event(internal, start, _Phase, Data) ->
    {Event, Started} = start(Data),
    happened(Event, Started);
handle_event(cast, Request, _Phase, Data) ->
    happened(Request, Data);
handle_event({call, From}, result, _Phase, Data) ->
    happened({result, From}, Data);
handle_event({timeout, Timer}, _, _Phase, Data) ->
    happened({timeout, Timer}, Data);
handle_event(info, {dyno_load_pool, Pool, Event}, _Phase, Data) ->
    happened({pool, Pool, Event}, Data);
handle_event(info, {'DOWN', _, process, Pool, Reason}, _Phase, Data) ->
    happened({down, Pool, Reason}, Data);
handle_event(info, _Other, _Phase, _Data) ->
    keep_state_and_data.

-spec terminate(term(), dyno_load_core:phase(), data()) -> ok.
terminate(_Reason, _Phase, #{pools := Pools, started_nodes := Started}) ->
    %% A remote pool ends with this process; the local pool is linked.
    lists:foreach(fun(Pool) -> exit(Pool, shutdown) end, Pools),
    dyno_load_nodes:stop(Started).

%% Load nodes and pools

start(#{options := #{load_nodes := []}} = Data) ->
    start_pools([node()], Data);
start(#{options := #{load_nodes := Specs, module := Module}} = Data) ->
    case dyno_load_nodes:start(Specs, Module) of
        {ok, Started} ->
            Nodes = [Node || #{node := Node} <- Started],
            start_pools(Nodes, Data#{started_nodes := Started});
        {error, Reason} ->
            {{failed, {dyno_load_nodes, Reason}}, Data}
    end.

start_pools(Nodes, #{options := #{module := Module, load := Load} = Options} = Data) ->
    PoolOptions = (maps:with([module, run_state, feeds, seed], Options))#{
        owner => self(),
        callbacks => Module:module_info(exports),
        workers => dyno_load_spec:workers(Load),
        nodes => length(Nodes)
    },
    start_pools(lists:enumerate(0, Nodes), PoolOptions, [], Data).

start_pools([], _PoolOptions, Started, Data) ->
    {{started, Started}, Data};
start_pools([{Index, Node} | Nodes], PoolOptions, Started, #{pools := Pools} = Data) ->
    case dyno_load_pool:start_on(Node, PoolOptions#{index => Index}) of
        {ok, Pid} ->
            _ = monitor(process, Pid),
            {OffsetNs, UncertainNs} = dyno_load_nodes:clock(Node),
            Pool = #{
                node => Node,
                place => place(Node),
                offset_ns => OffsetNs,
                uncertain_ns => UncertainNs
            },
            start_pools(
                Nodes, PoolOptions, [{Pid, Pool} | Started], Data#{pools := [Pid | Pools]}
            );
        {error, Error} ->
            {{failed, Error}, Data}
    end.

place(Node) when Node =:= node() -> local;
place(_Node) -> remote.

%% Effects of the core

happened(Event, #{core := Core, options := #{sink := Sink}} = Data) ->
    {Next, Effects} = dyno_load_core:event(Event, dyno_load_recorder:time_ns(), Core),
    Actions = lists:flatmap(fun(Effect) -> effect(Effect, Sink) end, Effects),
    case lists:member(stop, Effects) of
        true -> {stop, normal, Data#{core := Next}};
        false -> {next_state, dyno_load_core:phase(Next), Data#{core := Next}, Actions}
    end.

effect({tell, Event}, Sink) ->
    Sink ! {dyno_load, self(), Event},
    [];
effect({round, Pool, Number, Round}, _Sink) ->
    ok = dyno_load_pool:begin_round(Pool, Number, Round),
    [];
effect({snapshot, Pool, Ref}, _Sink) ->
    ok = dyno_load_pool:snapshot(Pool, Ref),
    [];
effect({close, Pool}, _Sink) ->
    ok = dyno_load_pool:close(Pool),
    [];
effect({reply, From, Result}, _Sink) ->
    [{reply, From, Result}];
effect({timer, Timer, AtNs}, _Sink) ->
    AtMs = erlang:convert_time_unit(AtNs, nanosecond, millisecond),
    [{{timeout, Timer}, AtMs, none, [{abs, true}]}];
effect(stop, _Sink) ->
    [].

-spec format_error(reason()) -> unicode:chardata().
format_error({worker_died, Module, Reason}) ->
    io_lib:format(
        "a worker of ~ts died: ~0tP; something its callbacks are linked to ended",
        [Module, Reason, 12]
    );
format_error({not_ready, Module, Ready, Count, TimeoutMs}) ->
    dyno_recording_part:text(
        "~ts:init_worker/2 had returned in ~b of ~b workers after ~ts; "
        "raise timeout_ms in suite/0 if it needs longer",
        [Module, Ready, Count, dyno_unit:format(TimeoutMs, ~"ms")]
    );
format_error({node_lost, Node}) ->
    io_lib:format("load node ~ts went down before the measured part", [Node]);
format_error({no_node_left, Node}) ->
    io_lib:format("load node ~ts went down, and no other is left to go on with", [Node]);
format_error({pool_failed, Node, Reason}) ->
    io_lib:format("the generator failed in load node ~ts: ~0tP", [Node, Reason, 12]).

-spec fault(reason()) -> dyno_error:fault().
fault({worker_died, _, _}) -> code;
fault({not_ready, _, _, _, _}) -> code;
fault(_Lost) -> dyno.
