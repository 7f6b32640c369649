%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(bench_ring).
-moduledoc """
A program of which the shares of the time are known: processes in a ring. The one whose turn it is
goes through phases, reading its clock between them, and passes the turn on; each third turn it
waits for a while first. So one process runs at a time, and a third of the time none. Beside the
ring there are others that do nothing.

The phases: a tight loop, a BIF, tiny calls, sorting, building a list, functions that call one
another, exceptions that are caught far from where they are raised. A turn takes about a
millisecond, or so many times as long.
""".

%% Called in the measured node
-export([start/3, stop/1, shares/1, phase/1, is_waiting/1]).
%% What is measured
-export([member/2, idle/0, turn/2]).
-export([run_loop/1, run_digest/1, run_tiny/1, run_sort/2, run_build/2, run_even/1, run_raise/1]).
-export_type([ring/0, setup/0]).

-compile({no_inline, [even/1, odd/1, deep/1, raised/1, wait/2]}).

-opaque ring() :: #{first := pid(), counters := counters:counters_ref()}.

-define(PHASES, [loop, digest, tiny, sort, build, even, raise]).
-define(WAITING, 8).
-define(TURNS, 9).

-doc "Where a turn goes to, what counts the times, and how many times as long it is.".
-type setup() :: {Next :: pid(), counters:counters_ref(), Times :: pos_integer()}.

-doc "Starts a ring of so many processes, and so many that are idle.".
-spec start(pos_integer(), non_neg_integer(), Times :: pos_integer()) -> ring().
start(Processes, Idle, Times) ->
    Counters = counters:new(?TURNS, []),
    Self = self(),
    First = spawn(fun() -> begun(Self, {Processes, Idle, Times}, Counters) end),
    receive
        {First, ready} -> #{first => First, counters => Counters}
    end.

begun(Starter, {Processes, Idle, Times}, Counters) ->
    _ = [spawn_link(?MODULE, idle, []) || _ <- lists:seq(1, Idle)],
    Last = lists:foldl(
        fun(N, Next) -> spawn_link(?MODULE, member, [{Next, Counters, Times}, N]) end,
        self(),
        lists:seq(2, Processes)
    ),
    Starter ! {self(), ready},
    self() ! turn,
    member({Last, Counters, Times}, 1).

-spec stop(ring()) -> ok.
stop(#{first := First}) ->
    true = exit(First, kill),
    ok.

-doc """
The shares of the phases in the running time since the last call, in percent, the share of the
waiting in the whole time, and the turns.
""".
-spec shares(ring()) -> {#{atom() => float()}, Waiting :: float(), Turns :: non_neg_integer()}.
shares(#{counters := Counters}) ->
    [Turns, Waiting | Phases] = lists:reverse([
        begin
            Value = counters:get(Counters, N),
            ok = counters:sub(Counters, N, Value),
            Value
        end
     || N <- lists:seq(1, ?TURNS)
    ]),
    Sum = max(1, lists:sum(Phases)),
    {
        maps:from_list([
            {Phase, 100 * Value / Sum}
         || {Phase, Value} <- lists:zip(?PHASES, lists:reverse(Phases))
        ]),
        100 * Waiting / (Sum + Waiting),
        Turns
    }.

-doc "Whether a stack is where the program waits in a turn.".
-spec is_waiting([binary()]) -> boolean().
is_waiting(Stack) -> lists:member(~"bench_ring:wait/2", Stack).

-doc "The phase that a stack is in.".
-spec phase([binary()]) -> atom().
phase(Stack) ->
    case [Phase || Frame <- Stack, {Phase, Names} <- functions(), is_one(Frame, Names)] of
        [Phase | _] -> Phase;
        [] -> none
    end.

%% What calls the last function of a phase may be gone from a stack.
functions() ->
    [
        {loop, ["run_loop/1", "loop/1"]},
        {digest, ["run_digest/1", "digest/2"]},
        {tiny, ["run_tiny/1", "tiny/2"]},
        {sort, ["run_sort/2", "sorts/2", "sort/1"]},
        {build, ["run_build/2", "builds/2", "build/1"]},
        {even, ["run_even/1", "evens/1", "even/1", "odd/1"]},
        {raise, ["run_raise/1", "raises/1", "deep/1"]}
    ].

is_one(<<"bench_ring:", Name/binary>>, Names) -> lists:member(binary_to_list(Name), Names);
is_one(<<"bench_phases:", Name/binary>>, Names) -> lists:member(binary_to_list(Name), Names);
is_one(_Frame, _Names) -> false.

-spec idle() -> no_return().
idle() ->
    receive
        never -> idle()
    end.

-spec member(setup(), non_neg_integer()) -> no_return().
member({Next, _, _} = Setup, N) ->
    receive
        turn -> ok
    end,
    ok = turn(Setup, N),
    Next ! turn,
    member(Setup, N + 1).

-doc "One turn.".
-spec turn(setup(), non_neg_integer()) -> ok.
turn({_, Counters, By}, N) ->
    Start = erlang:monotonic_time(),
    ok = run_loop(By * 300_000),
    Loop = erlang:monotonic_time(),
    ok = run_digest(By * 30),
    Digest = erlang:monotonic_time(),
    ok = run_tiny(By * 4000),
    Tiny = erlang:monotonic_time(),
    ok = run_sort(By, 100),
    Sort = erlang:monotonic_time(),
    ok = run_build(By, 1000),
    Build = erlang:monotonic_time(),
    ok = run_even(By * 80),
    Even = erlang:monotonic_time(),
    ok = run_raise(By * 150),
    Raise = erlang:monotonic_time(),
    ok = wait(N rem 3, By),
    Times = [Start, Loop, Digest, Tiny, Sort, Build, Even, Raise, erlang:monotonic_time()],
    ok = counted(1, Times, Counters),
    counters:add(Counters, ?TURNS, 1).

counted(N, [From, To | Times], Counters) ->
    ok = counters:add(Counters, N, To - From),
    counted(N + 1, [To | Times], Counters);
counted(_N, [_], _Counters) ->
    ok.

%% A millisecond or two.
wait(0, By) ->
    receive
        never -> ok
    after By -> ok
    end;
wait(_, _By) ->
    ok.

run_loop(N) ->
    ok = bench_phases:loop(N),
    ok.

run_digest(N) ->
    Data = binary:copy(~"x", 2000),
    ok = bench_phases:digest(N, Data),
    ok.

run_tiny(N) ->
    _ = bench_phases:tiny(N, 0),
    ok.

run_sort(Times, N) ->
    ok = sorts(Times, N),
    ok.

sorts(0, _N) ->
    ok;
sorts(Times, N) ->
    _ = bench_phases:sort([erlang:phash2(I) || I <- lists:seq(1, N)]),
    sorts(Times - 1, N).

run_build(Times, N) ->
    ok = builds(Times, N),
    ok.

builds(0, _N) ->
    ok;
builds(Times, N) ->
    _ = bench_phases:build(N),
    builds(Times - 1, N).

run_even(N) ->
    ok = evens(N),
    ok.

evens(0) ->
    ok;
evens(N) ->
    40 = even(40),
    evens(N - 1).

%% Not the last thing that they do.
even(0) -> 0;
even(N) -> 1 + odd(N - 1).

odd(0) -> 0;
odd(N) -> 1 + even(N - 1).

run_raise(N) ->
    ok = raises(N),
    ok.

raises(0) ->
    ok;
raises(N) ->
    ok =
        try deep(10) of
            _ -> error
        catch
            throw:far -> ok
        end,
    raises(N - 1).

deep(0) -> raised(far);
deep(N) -> 1 + deep(N - 1).

raised(What) -> throw(What).
