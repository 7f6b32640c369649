%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_profile).
-moduledoc false.
%% Which functions take the time in a code: two views, because each errs in its own way.
%%
%% `call_time` on all functions, in a session of its own, on the worker and what it spawns: it
%% counts calls exactly, and its own times hold the instrument's work for each call. That is
%% calibrated and taken off; yet what is called often and does little still shows as too much.
%%
%% Samples of the worker's stack, without a trace: they cost nothing that counts, but land where a
%% process may be interrupted. They are what a flame graph is drawn of.

-export([measure/1]).
-export_type([profile/0]).

-type profile() :: #{
    functions := [
        #{
            function := binary(),
            %% For a call of the code.
            calls := float(),
            own_ns := float(),
            share := float()
        }
    ],
    %% From the outermost to the innermost.
    stacks := [{[binary(), ...], Samples :: pos_integer()}],
    samples := non_neg_integer()
}.

%% Untraced; a call-heavy code takes seven times as long with the trace.
-define(TRACED_NS, 20_000_000).
-define(SAMPLED_MS, 1000).
-define(SAMPLE_MS, 1).
-define(DEPTH, 64).

-doc "Measures; `Ns` is what an epoch of the subject's iterations takes.".
-spec measure({dyno_bench_side_effects:subject(), Ns :: pos_integer()}) -> profile().
measure({#{worker := Worker, iterations := Epoch, iterate := Iterate}, Ns}) ->
    N = max(1, Epoch * ?TRACED_NS div max(?TRACED_NS div 20, Ns)),
    Functions = traced(Worker, N, Iterate),
    Stacks = sampled(Worker, Epoch, Iterate),
    #{
        functions => Functions,
        stacks => Stacks,
        samples => lists:sum([Count || {_, Count} <- Stacks])
    }.

%% With call_time

traced(Worker, N, Iterate) ->
    %% What the trace itself takes for a call.
    ChargeNs = dyno_agent_calibration:overhead_ns(
        1, dyno_agent_calibration:overhead([call_time])
    ),
    Session = trace:session_create(?MODULE, self(), []),
    try
        _ = trace:function(Session, {'_', '_', '_'}, true, [call_time]),
        1 = trace:process(Session, Worker, true, [call, set_on_spawn]),
        %% What the worker itself does for an epoch is none of the code's.
        _ = Iterate(0),
        Own = maps:from_list(paused(Session)),
        _ = trace:function(Session, {'_', '_', '_'}, restart, [call_time]),
        _ = Iterate(N),
        shares([without(Of, Own, ChargeNs) || Of <- paused(Session)], N)
    after
        %% Modules of ours are unloaded soon: no breakpoint may be on its way out then.
        _ = trace:function(Session, {'_', '_', '_'}, false, [call_time]),
        trace:session_destroy(Session)
    end.

%% To read while it counts takes 200 times as long.
paused(Session) ->
    _ = trace:function(Session, {'_', '_', '_'}, pause, [call_time]),
    [
        {{M, F, A}, {lists:sum([Count || {_, Count, _, _} <- Of]), ns(Of)}}
     || {M, _} <- code:all_loaded(),
        is_shown(M),
        {F, A} <- functions(M),
        {call_time, [_ | _] = Of} <- [trace:info(Session, {M, F, A}, call_time)]
    ].

ns(Of) -> lists:sum([S * 1_000_000_000 + Us * 1000 || {_, _, S, Us} <- Of]).

without({MFA, {Calls, Ns}}, Own, ChargeNs) ->
    {OwnCalls, OwnNs} = maps:get(MFA, Own, {0, 0}),
    {name(MFA), Calls - OwnCalls, max(0.0, max(0, Ns - OwnNs) - (Calls - OwnCalls) * ChargeNs)}.

%% Gone since the list was made, or without the information.
functions(M) ->
    try
        M:module_info(functions)
    catch
        error:undef -> []
    end.

%% What runs the code is no part of it.
is_shown(dyno_clock) -> false;
is_shown(M) -> is_code(M) orelse not lists:prefix("dyno_bench_", atom_to_list(M)).

is_code(M) -> lists:prefix("dyno_bench_loop_", atom_to_list(M)).

shares(Read, N) ->
    Named = maps:groups_from_list(
        fun({Name, _, _}) -> Name end, [Of || {_, Calls, _} = Of <- Read, Calls > 0]
    ),
    Sums = [
        {Name, lists:sum([C || {_, C, _} <- Of]), lists:sum([Ns || {_, _, Ns} <- Of])}
     || Name := Of <- Named
    ],
    Total = max(1.0, lists:sum([Ns || {_, _, Ns} <- Sums])),
    [
        #{function => Name, calls => Calls / N, own_ns => Ns / N, share => Ns / Total}
     || {Name, Calls, Ns} <- lists:reverse(lists:keysort(3, Sums))
    ].

%% The loop with the code inline, and the code's own funs.
name({M, F, A}) ->
    case {is_code(M), atom_to_list(F)} of
        {false, _} -> dyno_agent_name:mfa({M, F, A});
        {true, "-" ++ _} -> ~"(a fun of the code)";
        {true, _} -> ~"(the code itself)"
    end.

%% With samples

sampled(Worker, Epoch, Iterate) ->
    Usual = erlang:system_flag(backtrace_depth, ?DEPTH),
    {Sampler, Ref} = spawn_monitor(fun() -> sample(Worker, #{}) end),
    try
        repeat(Iterate, Epoch, erlang:monotonic_time(millisecond) + ?SAMPLED_MS),
        Sampler ! stop,
        receive
            {'DOWN', Ref, process, Sampler, {stacks, Stacks}} ->
                lists:reverse(lists:keysort(2, maps:to_list(Stacks)));
            %% Killed, by a small +hmax.
            {'DOWN', Ref, process, Sampler, _} ->
                []
        end
    after
        _ = demonitor(Ref, [flush]),
        exit(Sampler, kill),
        erlang:system_flag(backtrace_depth, Usual)
    end.

repeat(Iterate, Epoch, EndMs) ->
    _ = Iterate(Epoch),
    case erlang:monotonic_time(millisecond) < EndMs of
        true -> repeat(Iterate, Epoch, EndMs);
        false -> ok
    end.

sample(Worker, Stacks) ->
    receive
        stop -> exit({stacks, Stacks})
    after ?SAMPLE_MS ->
        maybe
            {current_stacktrace, Frames} ?= process_info(Worker, current_stacktrace),
            [_ | _] = Stack ?= stack(Frames),
            sample(Worker, Stacks#{Stack => maps:get(Stack, Stacks, 0) + 1})
        else
            _ -> sample(Worker, Stacks)
        end
    end.

%% From the code's own frame inwards; none where the worker does something else. A fun of the code
%% that a library calls has a frame of the code further out.
stack(Frames) ->
    Inner = lists:dropwhile(fun({M, _, _, _}) -> not is_code(M) end, lists:reverse(Frames)),
    [name({M, F, A}) || {M, F, A, _} <- Inner].
