%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(bench_phases).
-moduledoc """
A program in five phases, of which the shares of the time are known: what runs in the measured node
of `known_shares`. Each turn reads the clock between the phases. `bench_ring` has these phases, too.
""".

%% Called in the measured node
-export([start/0, shares/1, measured/1, stop/1]).
%% Of what was measured
-export([phase/1, in_percent/1]).
%% What is measured
-export([turn/0, loop/1, digest/2, tiny/2, sort/1, build/1]).

-export_type([phase/0]).

-type phase() :: loop | digest | tiny | sort | build.

-define(TURNS, 3_000_000).

-doc "Starts a process that makes turns, one after the other.".
-spec start() -> pid().
start() ->
    spawn(fun() -> turns(begun()) end).

-spec stop(pid()) -> ok.
stop(Pid) ->
    exit(Pid, kill),
    ok.

-doc "The shares of the phases since the last call, by the clock.".
-spec shares(pid()) -> #{phase() => float()}.
shares(Pid) ->
    {Times, _, _} = measured(Pid),
    Sum = lists:sum(maps:values(Times)),
    #{Phase => Time / max(1, Sum) || Phase := Time <- Times}.

-doc """
Since the last call: what the phases have taken, natively, how many turns there were, and what
processor time the node took for a turn, in milliseconds.
""".
-spec measured(pid()) -> {#{phase() => integer()}, pos_integer(), float()}.
measured(Pid) ->
    Ref = make_ref(),
    Pid ! {ask, self(), Ref},
    receive
        {Ref, {Times, Turns, RuntimeMs}} -> {Times, Turns, RuntimeMs / max(1, Turns)}
    end.

-doc "The share that each phase has of all that is in a phase, in percent.".
-spec in_percent([[{phase() | none, number()}]]) -> #{phase() => float()}.
in_percent(Lists) ->
    InPhases = [Of || {Phase, _} = Of <- lists:append(Lists), Phase =/= none],
    All = lists:sum([Value || {_, Value} <- InPhases]),
    maps:map(
        fun(_, Values) -> 100 * lists:sum(Values) / max(1, All) end,
        maps:groups_from_list(
            fun({Phase, _}) -> Phase end, fun({_, Value}) -> Value end, InPhases
        )
    ).

begun() ->
    {#{}, 0, runtime_ms()}.

turns({Times, Turns, BeganMs}) ->
    receive
        {ask, From, Ref} ->
            From ! {Ref, {Times, Turns, runtime_ms() - BeganMs}},
            turns(begun())
    after 0 ->
        Sums = maps:merge_with(fun(_, A, B) -> A + B end, Times, turn()),
        turns({Sums, Turns + 1, BeganMs})
    end.

runtime_ms() ->
    {Ms, _} = erlang:statistics(runtime),
    Ms.

-doc "One turn: what each phase has taken, natively.".
-spec turn() -> #{phase() => integer()}.
turn() ->
    Data = binary:copy(~"x", 2000),
    List = [erlang:phash2(N) || N <- lists:seq(1, 5500)],
    #{
        loop => took(fun() -> loop(?TURNS) end),
        digest => took(fun() -> digest(150, Data) end),
        tiny => took(fun() -> tiny(20_000, 0) end),
        sort => took(fun() -> sort(List) end),
        build => took(fun() -> build(20_000) end)
    }.

took(Phase) ->
    Start = erlang:monotonic_time(),
    _ = Phase(),
    erlang:monotonic_time() - Start.

-doc "The phase that a stack is in, or a function of it.".
-spec phase([term()]) -> phase() | none.
phase(Stack) ->
    case [Of || {?MODULE, F, _} <- Stack, Of <- phase_of(atom_to_list(F))] of
        [Phase | _] -> Phase;
        [] -> none
    end.

phase_of("-sort/1-" ++ _) -> [sort];
phase_of(Name) when Name =:= "one"; Name =:= "two"; Name =:= "three" -> [tiny];
phase_of(Name) -> [Of || Of <- [loop, digest, tiny, sort, build], atom_to_list(Of) =:= Name].

-spec loop(non_neg_integer()) -> ok.
loop(0) -> ok;
loop(N) -> loop(N - 1).

-spec digest(non_neg_integer(), binary()) -> ok.
digest(0, _Data) ->
    ok;
digest(N, Data) ->
    _ = crypto:hash(sha256, Data),
    digest(N - 1, Data).

-spec tiny(non_neg_integer(), integer()) -> integer().
tiny(0, Sum) -> Sum;
tiny(N, Sum) -> tiny(N - 1, one(two(Sum))).

-compile({no_inline, [one/1, two/1]}).
one(N) -> three(N) + 1.
two(N) -> three(N) - 1.
-compile({no_inline, [three/1]}).
three(N) -> N bxor 1.

-spec sort([integer()]) -> [integer()].
sort([]) ->
    [];
sort([Pivot | Rest]) ->
    sort([X || X <- Rest, X < Pivot]) ++ [Pivot | sort([X || X <- Rest, X >= Pivot])].

-spec build(non_neg_integer()) -> [integer()].
build(0) -> [];
build(N) -> [erlang:phash2({N, N * N}) | build(N - 1)].
