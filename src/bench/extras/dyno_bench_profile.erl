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
    samples := non_neg_integer(),
    %% What was taken off for each call.
    charge_ns := float(),
    iterations := pos_integer()
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
    Charge =
        case dyno_agent_calibration:overhead([call_time]) of
            undefined -> 0.0;
            Calibration -> dyno_agent_calibration:overhead_ns(1, Calibration)
        end,
    Functions = traced(Worker, N, Iterate, Charge),
    Stacks = sampled(Worker, Epoch, Iterate),
    #{
        functions => Functions,
        stacks => Stacks,
        samples => lists:sum([Count || {_, Count} <- Stacks]),
        charge_ns => Charge,
        iterations => N
    }.

%% With call_time

traced(Worker, N, Iterate, Charge) ->
    Session = trace:session_create(?MODULE, self(), []),
    try
        _ = trace:function(Session, {'_', '_', '_'}, true, [call_time]),
        1 = trace:process(Session, Worker, true, [call, set_on_spawn]),
        %% What the worker itself does for an epoch is none of the code's.
        _ = Iterate(0),
        Own = paused(Session),
        _ = trace:function(Session, {'_', '_', '_'}, restart, [call_time]),
        _ = Iterate(N),
        shares(without(Own, paused(Session)), N, Charge)
    after
        %% Modules of ours are unloaded soon: no breakpoint may be on its way out then.
        _ = trace:function(Session, {'_', '_', '_'}, false, [call_time]),
        trace:session_destroy(Session)
    end.

%% To read while it counts takes 200 times as long.
paused(Session) ->
    _ = trace:function(Session, {'_', '_', '_'}, pause, [call_time]),
    read(Session).

without(Own, Read) ->
    OwnByFunction = #{MFA => {Calls, Ns} || {MFA, Calls, Ns} <- Own},
    [
        {MFA, Calls - OwnCalls, max(0, Ns - OwnNs)}
     || {MFA, Calls, Ns} <- Read,
        {OwnCalls, OwnNs} <- [maps:get(MFA, OwnByFunction, {0, 0})],
        Calls > OwnCalls
    ].

read(Session) ->
    [
        {{M, F, A}, Calls, Ns}
     || {M, _} <- code:all_loaded(),
        is_shown(M),
        {F, A} <- functions(M),
        {call_time, [_ | _] = Of} <- [trace:info(Session, {M, F, A}, call_time)],
        Calls <- [lists:sum([Count || {_, Count, _, _} <- Of])],
        Calls > 0,
        Ns <- [lists:sum([S * 1_000_000_000 + Us * 1000 || {_, _, S, Us} <- Of])]
    ].

%% Gone since the list was made, or without the information.
functions(M) ->
    try
        M:module_info(functions)
    catch
        error:undef -> []
    end.

%% What runs the code is no part of it.
is_shown(M) ->
    case atom_to_list(M) of
        "dyno_bench_loop_" ++ _ -> true;
        "dyno_bench_" ++ _ -> false;
        "dyno_clock" -> false;
        _ -> true
    end.

shares(Read, N, Charge) ->
    Net = merged([{name(MFA), Calls, max(0.0, Ns - Calls * Charge)} || {MFA, Calls, Ns} <- Read]),
    Total = max(1.0, lists:sum([Ns || {_, {_, Ns}} <- Net])),
    Sorted = lists:sort(fun({_, {_, A}}, {_, {_, B}}) -> A >= B end, Net),
    [
        #{function => Name, calls => Calls / N, own_ns => Ns / N, share => Ns / Total}
     || {Name, {Calls, Ns}} <- Sorted
    ].

merged(ByName) ->
    maps:to_list(
        lists:foldl(
            fun({Name, Calls, Ns}, Sums) ->
                maps:update_with(
                    Name, fun({C, T}) -> {C + Calls, T + Ns} end, {Calls, Ns}, Sums
                )
            end,
            #{},
            ByName
        )
    ).

%% The loop with the code inline, and the code's own funs.
name({M, F, A}) ->
    case atom_to_list(M) of
        "dyno_bench_loop_" ++ _ -> of_code(F);
        _ -> dyno_agent_name:mfa({M, F, A})
    end.

of_code(F) ->
    case atom_to_list(F) of
        "-" ++ _ -> ~"(a fun of the code)";
        _ -> ~"(the code itself)"
    end.

%% With samples

sampled(Worker, Epoch, Iterate) ->
    Usual = erlang:system_flag(backtrace_depth, ?DEPTH),
    {Sampler, Ref} = spawn_monitor(fun() -> sample(Worker, self(), #{}) end),
    try
        repeat(Iterate, Epoch, erlang:monotonic_time(millisecond) + ?SAMPLED_MS),
        Sampler ! {stop, self()},
        receive
            {Sampler, Stacks} ->
                lists:sort(fun({_, A}, {_, B}) -> A >= B end, maps:to_list(Stacks));
            {'DOWN', Ref, process, Sampler, _} -> []
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

sample(Worker, Self, Stacks) ->
    receive
        {stop, Caller} ->
            Caller ! {Self, Stacks},
            ok
    after ?SAMPLE_MS ->
        case process_info(Worker, current_stacktrace) of
            {current_stacktrace, Frames} ->
                case frames(Frames, []) of
                    {ok, Stack} ->
                        Counted = maps:update_with(Stack, fun(N) -> N + 1 end, 1, Stacks),
                        sample(Worker, Self, Counted);
                    none ->
                        sample(Worker, Self, Stacks)
                end;
            undefined ->
                sample(Worker, Self, Stacks)
        end
    end.

%% From the code's own frame inwards; none where the worker does something else.
frames([], _Inner) ->
    none;
frames([{M, F, A, _} | Outer], Inner) ->
    case atom_to_list(M) of
        "dyno_bench_loop_" ++ _ -> above(Outer, [of_code(F) | Inner]);
        _ -> frames(Outer, [dyno_agent_name:mfa({M, F, A}) | Inner])
    end.

%% A fun of the code that a library calls has a frame of the code further out.
above(Outer, Stack) ->
    case frames(Outer, Stack) of
        {ok, Complete} -> {ok, Complete};
        none -> {ok, Stack}
    end.
