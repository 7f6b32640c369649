%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(bench_gate_suite).
%% A shop whose one process answers all clients, in a node of its own, and may sort a list for each
%% of them: what `bench_gates` compares with itself.

-behaviour(dyno_suite).

%% For the program
-export([sorted/1]).
%% The suite
-export([suite/0, init_run/2, init_worker/2, operation/1, end_run/1]).
%% The shop
-export([init/1, handle_call/3, handle_cast/2]).

-define(SORTED, "DYNO_BENCH_GATE_SORTED").
-define(ARTICLES, 200).

-doc "From now on each answer sorts a list of so many.".
-spec sorted(non_neg_integer()) -> true.
sorted(Length) ->
    os:putenv(?SORTED, integer_to_list(Length)).

suite() ->
    #{
        name => "gates",
        sizes => [2],
        size_label => "clients",
        warmup_ms => 200,
        interval_ms => 100,
        control => false,
        level => time,
        patterns => ["bench_gate_suite", "lists:sort/1"]
    }.

init_run(_Clients, _SuiteState) ->
    {ok, Node} = dyno_peer:start(#{name => "shop"}),
    Length = list_to_integer(os:getenv(?SORTED, "0")),
    {ok, _} = erpc:call(Node, gen_server, start, [{local, shop}, ?MODULE, Length, []]),
    {ok, [Node], Node}.

init_worker(Id, Node) ->
    {ok, {Node, Id}}.

operation({Node, Key}) ->
    Key = gen_server:call({shop, Node}, {get, Key}),
    {ok, {Node, Key rem ?ARTICLES + 1}}.

end_run(undefined) -> ok;
end_run(Node) -> dyno_peer:stop(Node).

init(Length) ->
    Articles = #{Key => Key || Key <- lists:seq(1, ?ARTICLES)},
    {ok, {Articles, [erlang:phash2(N) || N <- lists:seq(1, Length)]}}.

handle_call({get, Key}, _From, {Articles, List} = State) ->
    _ = List =/= [] andalso lists:sort(List),
    {reply, map_get(Key, Articles), State}.

handle_cast(_Request, State) -> {noreply, State}.
