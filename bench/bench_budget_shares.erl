%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(bench_budget_shares).
-moduledoc false.
%% Whether the level `budget` gives Cowboy's functions the shares that the level `time` gives them.

-behaviour(bench_program).

-export([describe/0, argument/1, measure/2]).

-define(GOAL, 4.0).
-define(CONNECTIONS, 16).
-define(WARMUP_MS, 1000).
%% As `dyno test` has it by default.
-define(INTERVAL_MS, 1000).

describe() ->
    """
    By how many points the shares of functions in Cowboy's time, as the level budget tells them, are
    off from those of the level time, which times each call and takes out what that adds. One node
    serves 16 connections; dyno measures it by turns at the one level and the other, attached anew
    each time. The result is the largest difference of any function, of the medians of the turns.
    How far two turns of the level time are apart is said beside it: the machine's other work falls
    on whoever calls the system, and so do the differences.

    Where there is no Cowboy, OTP's httpd serves. Takes no argument.
    """.

argument(none) -> {ok, none};
argument(Other) -> {error, ["there is no argument ", Other]}.

measure(none, Effort) ->
    {Turns, Ms} = effort(Effort),
    {ok, [Node], State} = http_demo:init_run(?CONNECTIONS, undefined),
    Clients = [client(Id, State) || Id <- lists:seq(1, ?CONNECTIONS)],
    #{patterns := Given} = http_demo:suite(),
    {ok, #{patterns := Patterns}} = dyno_suite:options(#{sizes => [1], patterns => Given}),
    _ = requests(Clients, ?WARMUP_MS),
    Measured = [
        {Level, shares(Level, Node, Patterns, Clients, Ms)}
     || Turn <- lists:seq(1, Turns), Level <- order(Turn)
    ],
    lists:foreach(fun(Client) -> Client ! stop end, Clients),
    ok = http_demo:end_run(State),
    Of = fun(Level) -> [Shares || {L, Shares} <- Measured, L =:= Level] end,
    {[First | Others] = Timed, Budgeted} = {Of(time), Of(budget)},
    {Off, Function} = largest(medians(Timed), medians(Budgeted)),
    bench_program:say("turns     ~b of ~b s at each level", [Turns, Ms div 1000]),
    bench_program:say("largest   ~ts: ~ts % of the time at time, ~ts % at budget", [
        dyno_agent_kind:mfa(Function),
        bench_program:number(maps:get(Function, medians(Timed), 0.0)),
        bench_program:number(maps:get(Function, medians(Budgeted), 0.0))
    ]),
    _ = [
        bench_program:say("noise     a turn at time, and the next: ~ts points", [
            bench_program:number(element(1, largest(First, Next)))
        ])
     || [Next | _] <- [Others]
    ],
    #{name => budget_shares, value => Off, unit => "points", interval => none, goal => ?GOAL}.

effort(full) -> {5, 8000};
effort(quick) -> {1, 1000}.

order(Turn) when Turn rem 2 =:= 0 -> [budget, time];
order(_Turn) -> [time, budget].

shares(Level, Node, Patterns, Clients, Ms) ->
    {ok, Targets} = dyno_targets:attach([Node], #{
        patterns => Patterns, level => Level, interval_ms => ?INTERVAL_MS, without => []
    }),
    _ = requests(Clients, ?WARMUP_MS),
    ok = dyno_targets:restart(Targets),
    _ = requests(Clients, Ms),
    [#{results := #{dyno_agent_calls := #{functions := Functions}}}] = dyno_targets:read(Targets),
    ok = dyno_targets:detach(Targets),
    Times = #{MFA => Ns || #{mfa := MFA, own_time_ns := Ns} <- Functions},
    All = lists:sum(maps:values(Times)),
    #{MFA => 100 * Ns / max(1, All) || MFA := Ns <- Times}.

medians(Turns) ->
    Functions = lists:usort(lists:append([maps:keys(Shares) || Shares <- Turns])),
    #{F => dyno_stats:median([maps:get(F, Shares, 0.0) || Shares <- Turns]) || F <- Functions}.

largest(A, B) ->
    lists:max([
        {abs(maps:get(F, A, 0.0) - maps:get(F, B, 0.0)), F}
     || F <- maps:keys(maps:merge(A, B))
    ]).

client(Id, State) ->
    Owner = self(),
    spawn_link(fun() ->
        {ok, Socket} = http_demo:init_worker(Id, State),
        serve(Owner, Socket)
    end).

serve(Owner, Socket) ->
    receive
        {until, End} ->
            Next = repeat(End, Socket),
            Owner ! {self(), done},
            serve(Owner, Next);
        stop ->
            http_demo:end_worker(Socket)
    end.

repeat(End, Socket) ->
    case erlang:monotonic_time(millisecond) < End of
        true ->
            {ok, Next} = http_demo:operation(Socket),
            repeat(End, Next);
        false ->
            Socket
    end.

requests(Clients, Ms) ->
    End = erlang:monotonic_time(millisecond) + Ms,
    lists:foreach(fun(Client) -> Client ! {until, End} end, Clients),
    [receive {Client, done} -> ok end || Client <- Clients].
