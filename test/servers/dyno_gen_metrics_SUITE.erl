%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_gen_metrics_SUITE).
-moduledoc "Clusters and pipelines of GenMetrics, where the answers are known.".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

suite() ->
    [{timetrap, {minutes, 1}}].

all() ->
    [
        a_cluster,
        a_pipeline,
        wrong_clusters_are_explained,
        a_cluster_of_elixir
    ].

init_per_suite(Config) ->
    ok = dyno_target_node:ensure_distribution(#{}),
    Config.

end_per_suite(_Config) ->
    ok.

-define(SERVER,
    "\n"
    "-module(dyno_shop_gm).\n"
    "-behaviour(gen_server).\n"
    "-export([start/1, init/1, handle_call/3, handle_cast/2, handle_info/2]).\n"
    "\n"
    "start(Name) -> {ok, Pid} = gen_server:start({local, Name}, dyno_shop_gm, [], []), Pid.\n"
    "\n"
    "init([]) -> {ok, 0}.\n"
    "\n"
    "handle_call(sleep, _, S) -> timer:sleep(20), {reply, ok, S};\n"
    "handle_call(quick, _, S) -> {reply, ok, S}.\n"
    "\n"
    "handle_cast(_, S) -> {noreply, S}.\n"
    "\n"
    "handle_info(_, S) -> {noreply, S}.\n"
).

with_node(Work) ->
    {_, Node} = Peer = dyno_peers:start(),
    try
        _ = dyno_peers:load(Node, ?SERVER),
        Pid = erpc:call(Node, dyno_shop_gm, start, [orders]),
        Work(Node, Pid)
    after
        dyno_peers:stop(Peer)
    end.

cluster(Node, Opts) ->
    #{name => ~"demo", servers => [dyno_shop_gm], node => Node, opts => Opts}.

a_cluster(_Config) ->
    with_node(fun(Node, Pid) ->
        {ok, Monitor} = dyno_gen_metrics:monitor_cluster(
            cluster(Node, [{window_interval, 300}, {statistics, true}])
        ),
        ok = measured(Monitor, Pid),
        [ok = gen_server:call(Pid, Request) || Request <- [quick, quick, sleep, sleep, sleep]],
        [ok = gen_server:cast(Pid, x) || _ <- lists:seq(1, 7)],
        Pid ! x,
        #{calls := 5, casts := 7, infos := 1, ms := Ms, total := Us, max := MaxUs} =
            until(Monitor, 13),
        ?assert(Ms >= 58.5 andalso Ms < 30_000, Ms),
        ?assert(abs(Ms * 1000 - Us) < 1, {Ms, Us}),
        ?assert(MaxUs >= 19_500, MaxUs),
        ok = dyno_gen_metrics:stop(Monitor),
        ?assertEqual({error, ended}, dyno_gen_metrics:next(Monitor))
    end).

%% A stand-in for GenStage's messages and state, in a module of its name.
-define(GEN_STAGE,
    "\n"
    "-module('Elixir.GenStage').\n"
    "-behaviour(gen_server).\n"
    "-export([start/2, init/1, handle_call/3, handle_cast/2, handle_info/2]).\n"
    "\n"
    "start(Type, Module) -> gen_server:start('Elixir.GenStage', {Type, Module}, []).\n"
    "\n"
    "init({Type, Module}) ->\n"
    "    {ok, #{'__struct__' => 'Elixir.GenStage', mod => Module, type => Type,\n"
    "        buffer => {queue, 0, wheel}}}.\n"
    "\n"
    "handle_call({asks, Producer}, _From, State) ->\n"
    "    Producer ! {'$gen_producer', {self(), make_ref()}, {ask, 1000}},\n"
    "    {reply, ok, State};\n"
    "handle_call(_, _From, State) -> {reply, ok, State}.\n"
    "\n"
    "handle_cast(_, State) -> {noreply, State}.\n"
    "\n"
    "handle_info({'$gen_producer', {To, Ref}, {ask, Demand}}, State) ->\n"
    "    timer:sleep(10),\n"
    "    To ! {'$gen_consumer', {self(), Ref}, lists:seq(1, Demand - 100)},\n"
    "    {noreply, State};\n"
    "handle_info({'$gen_consumer', _From, _Events}, State) ->\n"
    "    timer:sleep(2),\n"
    "    {noreply, State}.\n"
).

a_pipeline(_Config) ->
    with_node(fun(Node, _) ->
        _ = dyno_peers:load(Node, ?GEN_STAGE),
        [Producer, Consumer] = [
            begin
                Stage = dyno_peers:load(
                    Node,
                    lists:append([
                        "-module('", Module, "').\n-export([", Callback, "]).\n", Function
                    ])
                ),
                {ok, Pid} = erpc:call(Node, 'Elixir.GenStage', start, [Type, Stage]),
                Pid
            end
         || {Type, Module, Callback, Function} <- [
                {producer, "Elixir.Data.Producer", "handle_demand/2",
                    "handle_demand(_, S) -> S.\n"},
                {consumer, "Elixir.Data.Consumer", "handle_events/3",
                    "handle_events(_, _, S) -> S.\n"}
            ]
        ],
        {ok, Monitor} = pipeline(Node),
        ok = until_stages(Monitor, [Producer, Consumer]),
        [
            begin
                ok = gen_server:call(Consumer, {asks, Producer}),
                ok = gen_server:call(Producer, wait),
                ok = gen_server:call(Consumer, wait)
            end
         || _ <- lists:seq(1, 5)
        ],
        Total = until_events(Monitor, 'Elixir.Data.Consumer', 4500),
        ?assertMatch(
            #{
                'Elixir.Data.Producer' := #{demand := 5000, events := 4500, callbacks := 5},
                'Elixir.Data.Consumer' := #{demand := 4500, events := 0, callbacks := 5}
            },
            Total
        ),
        #{'Elixir.Data.Producer' := #{time_on_callbacks := Ms}} = Total,
        ?assert(Ms >= 50, Ms),
        ok = dyno_gen_metrics:stop(Monitor)
    end).

pipeline(Node) ->
    dyno_gen_metrics:monitor_pipeline(#{
        name => ~"demo",
        producer => ['Elixir.Data.Producer'],
        consumer => ['Elixir.Data.Consumer'],
        node => Node,
        opts => [{window_interval, 300}, {synchronous, false}]
    }).

%% A stage tells its module at its first callback.
until_stages(Monitor, Pids) ->
    [ok = gen_server:call(Pid, wait) || Pid <- Pids],
    {ok, #{pipeline := ~"demo", summary := Summary}} = dyno_gen_metrics:next(Monitor),
    case length(Summary) of
        2 -> ok;
        _ -> until_stages(Monitor, Pids)
    end.

until_events(Monitor, Stage, Count) ->
    until_events(Monitor, Stage, Count, #{}).

until_events(Monitor, Stage, Count, Sofar) ->
    {ok, #{summary := Summary}} = dyno_gen_metrics:next(Monitor),
    Total = lists:foldl(
        fun(#{name := Name} = Of, All) ->
            Numbers = maps:without([name, pid], Of),
            Add = fun(_, A, B) -> A + B end,
            All#{Name => maps:merge_with(Add, maps:get(Name, All, #{}), Numbers)}
        end,
        Sofar,
        Summary
    ),
    case Total of
        #{Stage := #{demand := Demand}} when Demand >= Count -> Total;
        #{} -> until_events(Monitor, Stage, Count, Total)
    end.

wrong_clusters_are_explained(_Config) ->
    Said = fun(Result) ->
        {error, Error} = Result,
        unicode:characters_to_list(dyno_error:format(Error))
    end,
    Cluster = fun(Spec) -> Said(dyno_gen_metrics:monitor_cluster(Spec)) end,
    Opts = fun(Opts) -> Cluster(cluster(node(), Opts)) end,
    ?assertMatch("a cluster is a map with the key name", Cluster(nonsense)),
    ?assertMatch("the cluster has no servers" ++ _, Cluster(#{name => ~"x", servers => []})),
    ?assertMatch(
        "the pipeline has no stages" ++ _, Said(dyno_gen_metrics:monitor_pipeline(#{name => ~"x"}))
    ),
    ?assertMatch(
        "there is no option server; did you mean servers?", Cluster(#{name => ~"x", server => [a]})
    ),
    ?assertMatch("window_interval is \"x\"" ++ _, Opts([{window_interval, "x"}])),
    ?assertMatch("window_interval is -1" ++ _, Opts([{window_interval, -1}])),
    ?assertMatch("sample_rate is -1" ++ _, Opts([{sample_rate, -1}])),
    ?assertMatch("statistics is nosuch" ++ _, Opts([{statistics, nosuch}])),
    ?assertMatch("the sink \"x\" has an unknown scheme" ++ _, Opts([{statistics, "x"}])),
    ?assertMatch("there is no option bogus" ++ _, Opts([{bogus, 1}])),
    ?assertMatch(
        "no module no_such_module_gm is loaded in " ++ _,
        Cluster(#{name => ~"x", servers => [no_such_module_gm]})
    ).

a_cluster_of_elixir(_Config) ->
    case dyno_elixir:start() of
        {error, _} ->
            {skip, "Elixir is not installed"};
        ok ->
            Code =
                "defmodule Shop.Gm do\n"
                "  use GenServer\n"
                "  def init(s), do: {:ok, s}\n"
                "  def handle_call(:quick, _, s), do: {:reply, :ok, s}\n"
                "end\n"
                "{:ok, pid} = GenServer.start(Shop.Gm, 1)\n"
                "{:ok, monitor} = :dyno_gen_metrics.monitor_cluster(%{name: \"demo\",\n"
                "  servers: [Shop.Gm], opts: [window_interval: 300, statistics: true]})\n"
                "{pid, monitor}\n",
            {{Pid, Monitor}, _} = 'Elixir.Code':eval_string(unicode:characters_to_binary(Code)),
            ok = measured(Monitor, Pid),
            [ok = gen_server:call(Pid, quick) || _ <- lists:seq(1, 10)],
            #{calls := 10, names := ['Elixir.Shop.Gm']} = until(Monitor, 10),
            ok = dyno_gen_metrics:stop(Monitor),
            gen_server:stop(Pid)
    end.

%% The first window is of the time in which the instrument comes into the processes.
measured(Monitor, Pid) ->
    {ok, #{cluster := _}} = dyno_gen_metrics:next(Monitor),
    {ok, #{summary := [#{pid := Pid}]}} = dyno_gen_metrics:next(Monitor),
    dyno_leftovers:until(fun() ->
        {status, Pid, _, [_, _, _, Debug, _]} = sys:get_status(Pid),
        Debug =/= []
    end).

%% Adds up until so many callbacks were told of.
until(Monitor, Count) ->
    until(Monitor, Count, #{
        calls => 0, casts => 0, infos => 0, ms => 0, total => 0, max => 0, names => []
    }).

until(Monitor, Count, #{calls := A, casts := B, infos := C} = Sofar) when A + B + C < Count ->
    {ok, #{summary := [Summary], stats := Stats, duration := Duration}} =
        dyno_gen_metrics:next(Monitor),
    true = Duration > 0,
    #{calls := Calls, casts := Casts, infos := Infos, time_on_calls := Ms} = Summary,
    #{ms := Before, total := Total, max := Max, names := Names} = Sofar,
    Of = [Of || #{calls := #{callbacks := N, total := _, max := _} = Of} <- Stats, N > 0],
    until(Monitor, Count, #{
        calls => A + Calls,
        casts => B + Casts,
        infos => C + Infos,
        ms => Before + Ms,
        total => Total + lists:sum([Us || #{total := Us} <- Of]),
        max => lists:max([Max | [Us || #{max := Us} <- Of]]),
        names => lists:usort([map_get(name, Summary) | Names])
    });
until(_Monitor, _Count, Sofar) ->
    Sofar.
