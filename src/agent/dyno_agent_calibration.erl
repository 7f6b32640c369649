%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_calibration).
-moduledoc false.
%% Measures, in the target, what call_time charges to a function for its own work: a function that
%% does nothing is called many times under the same trace setting as the real ones.


-export([self_charge_ns/1]).
%% Called from outside its own clause, so that the calls are calls.
-export([leaf/0]).

-define(CALLS, 20_000).
-define(ROUNDS, 5).

-doc """
What one call of an empty function is reported to cost, in nanoseconds: the median of five rounds.

Runs in the calling process, about 10 ms, in a trace session of its own.
""".
-spec self_charge_ns([call_time | call_count | call_memory]) -> float() | undefined.
self_charge_ns(Measures) ->
    case lists:member(call_time, Measures) of
        true -> measure(Measures);
        false -> undefined
    end.

measure(Measures) ->
    Self = self(),
    %% A process can't be traced by itself.
    {Pid, Ref} = spawn_monitor(fun() ->
        receive
            {Self, rounds} -> lists:foreach(fun(_) -> round_ns(Self) end, lists:seq(1, ?ROUNDS))
        end
    end),
    Session = trace:session_create(dyno_calibration, Self, []),
    try
        _ = trace:function(Session, {?MODULE, leaf, 0}, true, Measures),
        _ = trace:process(Session, Pid, true, [call, arity]),
        Pid ! {Self, rounds},
        collect(Session, Pid, Ref, [])
    after
        trace:session_destroy(Session)
    end.

round_ns(Owner) ->
    repeat(?CALLS),
    Owner ! {self(), round},
    receive
        {Owner, next} -> ok
    end.

collect(Session, Pid, Ref, Rounds) ->
    receive
        {Pid, round} ->
            {call_time, Figures} = trace:info(Session, {?MODULE, leaf, 0}, call_time),
            Ns = lists:sum([S * 1_000_000_000 + Us * 1000 || {_, _, S, Us} <- Figures]) / ?CALLS,
            _ = trace:function(Session, {?MODULE, leaf, 0}, restart, [call_time]),
            Pid ! {self(), next},
            collect(Session, Pid, Ref, [Ns | Rounds]);
        {'DOWN', Ref, process, Pid, normal} ->
            lists:nth(?ROUNDS div 2 + 1, lists:sort(Rounds))
    end.

repeat(0) ->
    ok;
repeat(N) ->
    _ = ?MODULE:leaf(),
    repeat(N - 1).

-doc false.
-spec leaf() -> ok.
leaf() -> ok.
