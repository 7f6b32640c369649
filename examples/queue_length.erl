%% An instrument: how many messages wait for the process `shop` (doc/instruments.md).
%%   dyno test examples/orders_performerl.erl --instrument examples/queue_length.erl
-module(queue_length).
-behaviour(dyno_agent_instrument).
-export([about/0, config/1, start_link/1, restart/1, read/1, tables/0, metrics/0, series/0]).

about() -> #{names => [queue_length]}.

config(#{interval_ms := IntervalMs}) -> #{process => shop, interval_ms => IntervalMs div 10}.

%% In the target.
start_link(#{process := Name, interval_ms := IntervalMs}) ->
    dyno_agent_readings:start_link(IntervalMs, fun() -> waiting(whereis(Name)) end).

restart(Pid) -> dyno_agent_readings:restart(Pid).

read(Pid) -> dyno_agent_readings:read(Pid).

waiting(undefined) ->
    undefined;
waiting(Pid) ->
    case process_info(Pid, message_queue_len) of
        {_, Length} -> Length;
        undefined -> undefined
    end.

%% In dyno's node: what becomes of the readings.
tables() ->
    Columns = [
        {~"process", ~"Process", string, fun(_Lengths) -> ~"shop" end},
        {~"longest", ~"Longest queue", count, #{better => lower}, fun lists:max/1}
    ],
    [
        #{
            name => ~"queues",
            title => ~"Queues",
            columns => Columns,
            items => fun(R) -> [lengths(R)] end
        }
    ].

metrics() ->
    Longest = fun(Results) -> {lists:max(lists:flatmap(fun lengths/1, Results)), 1} end,
    [(about_it(~"queue.longest", ~"Longest queue"))#{value => Longest}].

series() ->
    [(about_it(~"queue.length", ~"Messages that wait for the shop"))#{points => fun(R) -> R end}].

about_it(Name, Title) -> #{name => Name, title => Title, unit => ~"count", group => ~"queues"}.

lengths(Readings) -> [0 | [Length || {_TimeMs, Length} <- Readings, is_integer(Length)]].
