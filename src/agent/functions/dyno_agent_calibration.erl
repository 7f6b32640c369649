%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_calibration).
-moduledoc false.
%% Measures on the node how much call_time adds to a function's time: an empty function is called
%% many times under the same trace setting.
%%
%% The overhead depends on the number of calling processes: the runtime keeps statistics for each,
%% and many do not fit the cache. So the overhead is measured with 1, 64 and 1,024 processes; in
%% between, it grows with the logarithm. Other work on the machine only adds to it, so the quickest
%% rounds count, and never more is subtracted than was added.

-export([open/1, rounds/2, close/1, overhead_ns/2]).
%% Called from outside its own clause, so that the calls are calls.
-export([leaf/0, loop/1]).
-export_type([overhead/0, caller/0]).

-doc "The reported time of a call of an empty function, and its uncertainty.".
-type overhead() :: #{
    %% Ascending.
    overheads_ns := [{Processes :: pos_integer(), Ns :: float()}],
    uncertain_ns := float(),
    %% The time that a call adds to its caller, as a share of the overhead of the call itself.
    caller_side := float()
}.

-opaque caller() :: {trace:session(), [{pid(), reference()}], measures()}.

-type measures() :: [call_time | call_count | call_memory].

-define(LEAF, {?MODULE, leaf, 0}).
-define(LOOP, {?MODULE, loop, 1}).
-define(LOOPS, 15).
-define(ALONE, #{rounds => 40, calls => 1000}).
-define(MORE, [{64, #{rounds => 8, calls => 60}}, {1024, #{rounds => 5, calls => 20}}]).
%% The runtime cuts times to microseconds.
-define(CUT_NS, 500).
%% If a NIF makes breakpoints slow, only LEAST_ROUNDS rounds are made after LONG_MS.
-define(LONG_MS, 250).
-define(LEAST_ROUNDS, 3).
%% The quantile of the rounds: of 40 the tenth, of few the first or second.
-define(QUICK, 0.25).
%% Of the overhead. In a tight loop the processor overlaps calls; in other code the same work took
%% up to 0.3 more or less (bench/calibrated_time).
-define(UNCERTAIN, 0.3).

-doc "Measures the overhead, 30 ms; returns also a process for `rounds/2` and a caller's rounds.".
-spec open(measures()) -> {overhead(), caller(), [float()]}.
open(Measures) ->
    #{rounds := Rounds, calls := Calls} = ?ALONE,
    EndMs = ends_ms(),
    Caller = start(1, Calls, Measures),
    Alone = rounds(Rounds, Caller),
    Measured = [
        {1, Alone}
        | [{P, measure(P, Plan, Measures)} || {P, Plan} <- ?MORE, not is_over(EndMs)]
    ],
    Quick = quantile(?QUICK, Alone),
    Overhead = #{
        overheads_ns => ascending(0.0, [{P, quantile(?QUICK, Ns)} || {P, Ns} <- Measured]),
        uncertain_ns => max(Quick * ?UNCERTAIN, quantile(0.5, Alone) - Quick),
        caller_side => caller_side(Calls, Caller)
    },
    {Overhead, Caller, Alone}.

%% The additional time per call of a loop whose callee is measured too, as a share of the callee's
%% overhead in the same round: the machine changes its speed.
caller_side(Calls, {Session, _Callers, Measures} = Caller) ->
    _ = trace:function(Session, ?LOOP, true, Measures),
    With = repeated(?LOOPS, fun() -> {loop_ns(Calls, Caller), per_call_ns(Caller)} end),
    _ = trace:function(Session, ?LEAF, false, Measures),
    Without = quantile(?QUICK, repeated(?LOOPS, fun() -> loop_ns(Calls, Caller) end)),
    _ = trace:function(Session, ?LOOP, false, Measures),
    _ = trace:function(Session, ?LEAF, true, Measures),
    max(0.0, quantile(0.5, [(Loop - Without) / Inside || {Loop, Inside} <- With])).

loop_ns(Calls, {Session, _Callers, Measures} = Caller) ->
    _ = trace:function(Session, ?LOOP, restart, Measures),
    ok = call(Caller),
    {call_time, [{_, 1, S, Us}]} = trace:info(Session, ?LOOP, call_time),
    (S * 1_000_000_000 + Us * 1000 + ?CUT_NS) / Calls.

%% More processes cannot make a call cheaper.
ascending(_Before, []) -> [];
ascending(Before, [{P, Ns} | Rest]) -> [{P, max(Before, Ns)} | ascending(max(Before, Ns), Rest)].

-spec overhead_ns(Processes :: number(), overhead()) -> float().
overhead_ns(Processes, #{overheads_ns := Overheads}) -> between(Processes, Overheads).

between(Processes, [{P, Ns} | _]) when Processes =< P -> Ns;
between(_Processes, [{_P, Ns}]) ->
    Ns;
between(Processes, [{P1, Ns1}, {P2, Ns2} | _]) when Processes < P2 ->
    Ns1 + (Ns2 - Ns1) * math:log(Processes / P1) / math:log(P2 / P1);
between(Processes, [_ | Rest]) ->
    between(Processes, Rest).

quantile(Q, Values) ->
    lists:nth(1 + floor(Q * (length(Values) - 1)), lists:sort(Values)).

measure(Count, #{rounds := Rounds, calls := Calls}, Measures) ->
    Callers = start(Count, Calls, Measures),
    try
        rounds(Rounds, Callers)
    after
        close(Callers)
    end.

start(Count, Calls, Measures) ->
    Self = self(),
    Session = trace:session_create(dyno_calibration, Self, []),
    _ = trace:function(Session, ?LEAF, true, Measures),
    %% A process cannot trace itself; setting the flag of an existing process takes 100 us.
    _ = trace:process(Session, new, true, [call, arity]),
    Callers = [
        spawn_opt(fun() -> caller(Self, Calls) end, [link, monitor, {priority, high}])
     || _ <- lists:seq(1, Count)
    ],
    _ = trace:process(Session, new, false, [call, arity]),
    {Session, Callers, Measures}.

-spec rounds(pos_integer(), caller()) -> [float(), ...].
rounds(Count, Callers) ->
    repeated(Count, fun() -> round_ns(Callers) end).

repeated(Count, Measure) -> repeated(Count, Measure, ends_ms(), 0).

repeated(Count, _Measure, _EndMs, Count) ->
    [];
repeated(Count, Measure, EndMs, Done) ->
    case Done >= ?LEAST_ROUNDS andalso is_over(EndMs) of
        true -> [];
        false -> [Measure() | repeated(Count, Measure, EndMs, Done + 1)]
    end.

ends_ms() -> erlang:monotonic_time(millisecond) + ?LONG_MS.

is_over(EndMs) -> erlang:monotonic_time(millisecond) > EndMs.

-spec close(caller()) -> ok.
close({Session, Callers, _Measures}) ->
    true = trace:session_destroy(Session),
    _ = [demonitor(Ref, [flush]) || {_, Ref} <- Callers],
    lists:foreach(fun({Pid, _}) -> dyno_agent_process:kill(Pid) end, Callers).

caller(Owner, Calls) ->
    receive
        {Owner, round} ->
            ok = ?MODULE:loop(Calls),
            Owner ! {probed, self()},
            caller(Owner, Calls)
    end.

call({_Session, Callers, _Measures}) ->
    lists:foreach(fun({Pid, _}) -> Pid ! {self(), round} end, Callers),
    lists:foreach(
        fun({Pid, Ref}) ->
            receive
                {probed, Pid} -> ok;
                {'DOWN', Ref, process, Pid, Reason} -> exit({calibration, Reason})
            end
        end,
        Callers
    ).

round_ns(Caller) ->
    ok = call(Caller),
    per_call_ns(Caller).

per_call_ns({Session, _Callers, Measures}) ->
    {call_time, Statistics} = trace:info(Session, ?LEAF, call_time),
    _ = trace:function(Session, ?LEAF, restart, Measures),
    Ns = [S * 1_000_000_000 + Us * 1000 + ?CUT_NS || {_, _, S, Us} <- Statistics],
    lists:sum(Ns) / max(1, lists:sum([Calls || {_, Calls, _, _} <- Statistics])).

repeat(0) ->
    ok;
repeat(N) ->
    _ = ?MODULE:leaf(),
    repeat(N - 1).

%% The last call is no tail call.
-spec loop(non_neg_integer()) -> ok.
loop(Calls) ->
    ok = repeat(Calls),
    ok.

-spec leaf() -> ok.
leaf() -> ok.
