%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(bench_low).
-moduledoc """
A server that answers 50 short requests a second: the part of `known_shares low`. It reads the clock
around its two functions, and dyno measures them at the default level.

Both functions end within one time slice (4,000 reductions): the clock goes on while a scheduler
takes a process out and in again. With nine slices in 0.12 ms that was 6 % of the clock's time, and 12 %
with breakpoints; times of calls are without it, and samples call it `(scheduler)`.
""".

-export([measure/1]).
%% Called in the measured node
-export([start/0, times/1, serve/1, f/1, g/1]).

-define(GOAL_POINTS, 3).
-define(GOAL_PER_CALL, 0.1).
-define(EVERY_MS, 20).

-compile({inline, [mixed/1]}).

-doc "By how many points the share of a function is off, at most; and its time per call.".
-spec measure(bench_program:effort()) -> bench_program:result().
measure(Effort) ->
    {ok, Node} = dyno_peer:start(#{name => "bench"}),
    Server = erpc:call(Node, ?MODULE, start, []),
    {ok, Targets} = dyno_targets:attach([Node], #{
        patterns => [{?MODULE, F, 1} || F <- [serve, f, g]],
        level => budget,
        budget => 0.05,
        own_cpu => true,
        interval_ms => 1000,
        without => []
    }),
    ok = requests(Server, 100),
    ok = dyno_targets:restart(Targets),
    _ = erpc:call(Node, ?MODULE, times, [Server]),
    ok = requests(Server, map_get(Effort, #{full => 500, quick => 50})),
    Truth = erpc:call(Node, ?MODULE, times, [Server]),
    [#{results := #{dyno_agent_calls := #{functions := Functions}}}] = dyno_targets:read(Targets),
    ok = bench_program:detach(Targets),
    ok = dyno_peer:stop(Node),
    Told = #{F => Told || #{mfa := {_, F, _}} = Told <- Functions},
    Sum = fun(Of) -> lists:sum([map_get(F, Of) || F <- [f, g]]) end,
    Own = maps:map(fun(_, #{own_time_ns := Ns}) -> Ns end, Told),
    Off = [
        begin
            #{F := {Calls, TrueNs}} = Truth,
            #{F := #{calls := Counted, own_time_ns := Ns, time_from := From}} = Told,
            Share = 100 * TrueNs / Sum(maps:map(fun(_, {_, T}) -> T end, Truth)),
            ToldShare = 100 * Ns / Sum(Own),
            PerCall = (Ns / Counted) / (TrueNs / Calls) - 1,
            bench_program:say(
                "~ts/1       ~.1f % by the clock, ~.1f told; ~.1f us per call, ~.1f told by ~ts: "
                "~.1f % off, at most 10: ~ts",
                [
                    F,
                    Share,
                    ToldShare,
                    TrueNs / Calls / 1000,
                    Ns / Counted / 1000,
                    atom_to_binary(From),
                    100 * PerCall,
                    bench_program:goal(abs(PerCall), none, {goal, ?GOAL_PER_CALL})
                ]
            ),
            abs(Share - ToldShare)
        end
     || F <- [f, g]
    ],
    #{
        name => "known_shares_low",
        value => lists:max(Off),
        unit => "points",
        goal => ?GOAL_POINTS
    }.

requests(_Server, 0) ->
    ok;
requests(Server, Left) ->
    Ref = make_ref(),
    Server ! {self(), Ref},
    receive
        Ref -> ok
    end,
    timer:sleep(?EVERY_MS),
    requests(Server, Left - 1).

-doc false.
start() -> spawn(?MODULE, serve, [#{f => {0, 0}, g => {0, 0}}]).

-doc "The calls and nanoseconds of each function since the last call.".
times(Server) ->
    Ref = make_ref(),
    Server ! {times, self(), Ref},
    receive
        {Ref, Times} -> Times
    end.

-doc false.
serve(#{f := {Fs, FNs}, g := {Gs, GNs}} = Times) ->
    receive
        {times, From, Ref} ->
            From ! {Ref, Times},
            serve(#{f => {0, 0}, g => {0, 0}});
        {From, Ref} ->
            Start = erlang:monotonic_time(nanosecond),
            _ = f(1500),
            Middle = erlang:monotonic_time(nanosecond),
            _ = g(1000),
            End = erlang:monotonic_time(nanosecond),
            From ! Ref,
            serve(#{f => {Fs + 1, FNs + Middle - Start}, g => {Gs + 1, GNs + End - Middle}})
    end.

-doc false.
f(N) -> {turns(N, N), f}.

-doc false.
g(N) -> {turns(N, N), g}.

%% Much work for a reduction.
turns(0, X) -> X;
turns(N, X) -> turns(N - 1, mixed(mixed(mixed(mixed(mixed(X)))))).

mixed(A) ->
    B = (A * 16807 + 12345) band 16#7fffffff,
    C = (B * 48271 + 54321) band 16#7fffffff,
    D = (C * 16807 + 12345) band 16#7fffffff,
    (D * 48271 + 54321) band 16#7fffffff.
