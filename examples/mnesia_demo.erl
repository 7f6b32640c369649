%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(mnesia_demo).
-moduledoc """
Shows what Mnesia's transactions cost, against dirty operations, the more clients there are.

Each operation moves an amount between two of 1,000 accounts, in a node of its own. What is kept is
the sum of all accounts with transactions, and nothing with dirty operations:

    DYNO_MNESIA=transaction dyno test examples/mnesia_demo.erl -o transaction.json
    DYNO_MNESIA=async_dirty dyno test examples/mnesia_demo.erl -o dirty.json
    dyno compare transaction.json dirty.json

A transaction passes through mnesia_tm and mnesia_locker, one process each: the report shows how
their queues grow with the clients.
""".

-behaviour(dyno_suite).

-export([suite/0, init_run/2, init_worker/2, operation/1, end_run/1]).
%% Run in the target node.
-export([create/0, move/3]).

-record(account, {number, balance}).

-define(ACCOUNTS, 1000).
-define(BALANCE, 1000).

suite() ->
    #{
        name => "mnesia",
        sizes => [1, 4, 16, 64],
        size_label => "clients",
        duration_ms => 3000,
        patterns => ["app:mnesia", "mnesia_demo"],
        thresholds => ["errors.rate == 0 %", "latency.p99 < 500 ms"]
    }.

access() ->
    case os:getenv("DYNO_MNESIA", "transaction") of
        "transaction" -> transaction;
        "async_dirty" -> async_dirty;
        Other -> error({set, "DYNO_MNESIA", to, [transaction, async_dirty], not_to, Other})
    end.

init_run(_Clients, _SuiteState) ->
    {ok, Node} = dyno_peer:start(#{name => "mnesia", applications => [mnesia]}),
    ok = erpc:call(Node, ?MODULE, create, []),
    {ok, [Node], Node}.

init_worker(_Id, Node) ->
    {ok, Client} = dyno_client:start(Node),
    {ok, {Client, access()}}.

operation({Client, Access} = Worker) ->
    From = rand:uniform(?ACCOUNTS),
    To = From rem ?ACCOUNTS + 1,
    ok = dyno_client:call(Client, ?MODULE, move, [Access, From, To]),
    {ok, Worker}.

end_run(undefined) -> ok;
end_run(Node) -> dyno_peer:stop(Node).

%% In the target

create() ->
    {atomic, ok} = mnesia:create_table(account, [
        {attributes, record_info(fields, account)}, {ram_copies, [node()]}
    ]),
    lists:foreach(
        fun(N) -> ok = mnesia:dirty_write(#account{number = N, balance = ?BALANCE}) end,
        lists:seq(1, ?ACCOUNTS)
    ).

move(Access, From, To) ->
    mnesia:activity(Access, fun() ->
        add(From, -1),
        add(To, 1)
    end).

add(Number, Amount) ->
    [#account{balance = Balance} = Account] = mnesia:read(account, Number, write),
    mnesia:write(Account#account{balance = Balance + Amount}).
