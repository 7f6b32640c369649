%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_stress).
-moduledoc """
What makes it hard to look into an emulator: processes that live for a moment, collections of large
heaps, processes that are killed in a dirty scheduler, modules that are loaded and purged,
exceptions with deep stacks, hibernation, trace sessions of others. Run in a node, until it is killed.
""".

-export([start/0, counts/0]).
-export([born/1, derive/0, hibernate/0, awake/0]).

-define(KINDS, [births, collections, dirty, purges, exceptions, hibernations, traces]).

-doc "Starts all kinds; how often each was done is in `counts/0`.".
start() ->
    {ok, _} = application:ensure_all_started(crypto),
    {ok, _} = application:ensure_all_started(compiler),
    Counts = counters:new(length(?KINDS), []),
    ok = persistent_term:put(?MODULE, Counts),
    spawn(fun() ->
        [spawn_link(fun() -> over(Do, Counts, N) end) || {N, Do} <- lists:enumerate(kinds())],
        receive
            stop -> ok
        end
    end).

-doc "By kind.".
counts() ->
    Counts = persistent_term:get(?MODULE),
    [{Kind, counters:get(Counts, N)} || {N, Kind} <- lists:enumerate(?KINDS)].

over(Do, Counts, Number) ->
    ok = counters:add(Counts, Number, Do()),
    over(Do, Counts, Number).

kinds() ->
    [
        fun births/0,
        fun collections/0,
        fun dirty/0,
        fun purges/0,
        fun exceptions/0,
        fun hibernations/0,
        fun traces/0
    ].

births() ->
    _ = [spawn(?MODULE, born, [rand:uniform(300)]) || _ <- lists:seq(1, 20)],
    timer:sleep(1),
    20.

born(N) ->
    List = [{I, integer_to_binary(I)} || I <- lists:seq(1, N)],
    length(lists:sort(fun(A, B) -> A > B end, List)).

collections() ->
    {Pid, Monitor} = spawn_monitor(fun() -> collected(10, []) end),
    receive
        {'DOWN', Monitor, process, Pid, _} -> 10
    end.

collected(0, Kept) ->
    length(Kept);
collected(N, _Kept) ->
    List = lists:seq(1, 100_000),
    true = erlang:garbage_collect(),
    collected(N - 1, List).

%% Killed while the NIF runs.
dirty() ->
    Pid = spawn(fun derive/0),
    timer:sleep(rand:uniform(8)),
    true = exit(Pid, kill),
    1.

derive() ->
    _ = crypto:pbkdf2_hmac(sha256, ~"password", ~"salt", 5000, 32),
    derive().

%% While a process still runs the code.
purges() ->
    Module = dyno_stress_purged,
    Text = lists:concat([
        "f(0) -> ", rand:uniform(1_000_000), "; f(N) -> 1 + f(N - 1)."
    ]),
    {ok, Tokens, _} = erl_scan:string(Text),
    {ok, Function} = erl_parse:parse_form(Tokens),
    {ok, Module, Binary} = compile:forms([
        {attribute, 1, module, Module}, {attribute, 1, export, [{f, 1}]}, Function
    ]),
    {module, Module} = code:load_binary(Module, "stress", Binary),
    _ = spawn(fun() -> Module:f(200_000) end),
    _ = Module:f(1000),
    timer:sleep(1),
    _ = code:purge(Module),
    _ = code:delete(Module),
    _ = code:purge(Module),
    1.

exceptions() ->
    _ = [
        try
            deep(500)
        catch
            error:deep -> ok
        end
     || _ <- lists:seq(1, 20)
    ],
    timer:sleep(1),
    20.

deep(0) -> error(deep);
deep(N) -> 1 + deep(N - 1).

hibernations() ->
    Pid = spawn(fun hibernate/0),
    lists:foreach(
        fun(_) ->
            Pid ! wake,
            erlang:yield()
        end,
        lists:seq(1, 50)
    ),
    true = exit(Pid, kill),
    timer:sleep(1),
    50.

hibernate() ->
    receive
        wake -> proc_lib:hibernate(?MODULE, awake, [])
    end.

awake() -> hibernate().

%% Breakpoints in a function of all and in one that is loaded again.
traces() ->
    Session = trace:session_create(dyno_stress, self(), []),
    _ = trace:function(Session, {lists, sort, '_'}, true, [call_time, call_memory]),
    _ = trace:function(Session, {?MODULE, '_', '_'}, true, [call_count]),
    _ = trace:function(Session, {dyno_stress_purged, '_', '_'}, true, [call_time]),
    %% Not `new`: a debug emulator then aborts (erl_trace.c, new_tracer_ref), also without dyno.
    _ = trace:process(Session, existing, true, [call]),
    timer:sleep(rand:uniform(50)),
    true = trace:session_destroy(Session),
    1.
