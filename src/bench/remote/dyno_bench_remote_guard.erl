%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_remote_guard).
-moduledoc false.
%% Measures in a remote node for a caller on another node, in place of the agent's guard
%% (dyno_agent_guard). A measurement must not simply be killed: when interrupted, it removes its own
%% workers, jobs and trace session. Only processes that do not end by themselves are killed. After
%% the guard's end, the cleaner removes the modules.
%%
%%   guard          monitors the caller, the time, the memory
%%     measurer     runs the caller's function, interrupted or killed when the guard ends
%%     members      report each second (dyno_bench_member)

-behaviour(gen_server).

-export([start/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

-type state() :: #{
    caller := pid(),
    ref := reference(),
    limit_ms := pos_integer(),
    limit_bytes := pos_integer(),
    measurers := #{pid() => reference()},
    %% Other jobs in this node.
    jobs := [atom()]
}.

-define(CHECK_MS, 1000).
%% To end after an interrupt, and after workers were killed: less than the cleaner waits.
-define(POLITE_MS, 5000).
-define(FORCED_MS, 5000).

-doc "Not linked: the caller is on another node.".
-spec start(dyno_agent_guard:options()) -> gen_server:start_ret().
start(Options) ->
    gen_server:start(?MODULE, Options, []).

-spec init(dyno_agent_guard:options()) -> {ok, state()}.
init(#{caller := Caller, limit_ms := LimitMs} = Options) ->
    _ = process_flag(trap_exit, true),
    proc_lib:set_label(?MODULE),
    _ = monitor(process, Caller),
    _ = erlang:send_after(LimitMs, self(), limit_ms),
    _ = erlang:send_after(?CHECK_MS, self(), check),
    {ok, Options#{measurers => #{}, jobs => jobs()}}.

-spec handle_call(stop, gen_server:from(), state()) -> {stop, normal, ok, state()}.
handle_call(stop, _From, State) ->
    {stop, normal, ok, wound_down(State)}.

-spec handle_cast({run, {module(), atom(), [term()]}}, state()) -> {noreply, state()}.
handle_cast({run, {Module, Function, Arguments}}, State) ->
    #{caller := Caller, ref := Ref, measurers := Measurers} = State,
    {Pid, Monitor} = spawn_monitor(fun() ->
        proc_lib:set_label(dyno_agent_measurer),
        Caller ! {?MODULE, Ref, apply(Module, Function, Arguments)}
    end),
    {noreply, State#{measurers := Measurers#{Pid => Monitor}}}.

-spec handle_info(term(), state()) -> {noreply, state()} | {stop, normal, state()}.
handle_info({'DOWN', _, process, Caller, _}, #{caller := Caller} = State) ->
    {stop, normal, wound_down(State)};
handle_info({'DOWN', _, process, Pid, Reason}, #{measurers := Measurers} = State) ->
    Others = State#{measurers := maps:remove(Pid, Measurers)},
    case Reason of
        normal -> {noreply, Others};
        _ -> give_up({measurer_died, Reason}, Others)
    end;
handle_info(dyno_interrupt, #{measurers := Measurers} = State) ->
    _ = [Pid ! dyno_interrupt || Pid := _ <- Measurers],
    {noreply, State};
handle_info(limit_ms, #{limit_ms := LimitMs} = State) ->
    give_up({limit_ms, LimitMs}, State);
handle_info(check, #{limit_bytes := LimitBytes} = State) ->
    case bytes(State) of
        Bytes when Bytes > LimitBytes ->
            give_up({limit_bytes, LimitBytes, round(Bytes)}, State);
        _ ->
            _ = erlang:send_after(?CHECK_MS, self(), check),
            {noreply, State}
    end;
handle_info(_Other, State) ->
    {noreply, State}.

give_up(Reason, #{caller := Caller, ref := Ref} = State) ->
    Caller ! {dyno_agent, Ref, {gave_up, Reason}},
    {stop, normal, wound_down(State)}.

%% No process may still run dyno's code when the cleaner removes it.
wound_down(#{measurers := Measurers, jobs := Jobs} = State) ->
    _ = [Pid ! dyno_interrupt || Pid := _ <- Measurers],
    Busy = ended(Measurers, ?POLITE_MS),
    Workers = lists:append([workers(Pid) || Pid := _ <- Busy]),
    _ = [exit(Pid, kill) || Pid <- Workers],
    Stuck = ended(Busy, ?FORCED_MS),
    _ = [exit(Pid, kill) || Pid := _ <- Stuck],
    _ = ended(Stuck, infinity),
    without_jobs(Jobs, ?FORCED_MS div 10),
    State#{measurers := #{}}.

ended(Measurers, Ms) ->
    BeginMs = erlang:monotonic_time(millisecond),
    Left = fun
        () when Ms =:= infinity -> infinity;
        () -> max(0, BeginMs + Ms - erlang:monotonic_time(millisecond))
    end,
    maps:filter(
        fun(Pid, Monitor) ->
            receive
                {'DOWN', Monitor, process, Pid, _} -> false
            after Left() -> true
            end
        end,
        Measurers
    ).

workers(Pid) ->
    case process_info(Pid, links) of
        {links, Links} -> [Linked || Linked <- Links, is_pid(Linked), Linked =/= self()];
        undefined -> []
    end.

%% A slot's allocator unloads a job's modules shortly after the job's end.
without_jobs(Before, Tries) ->
    case jobs() -- Before of
        [_ | _] when Tries > 0 ->
            receive
            after 10 -> without_jobs(Before, Tries - 1)
            end;
        _ ->
            ok
    end.

jobs() ->
    [Name || Name <- registered(), lists:prefix("dyno_bench_run_", atom_to_list(Name))].

bytes(#{measurers := Measurers}) ->
    lists:sum([
        Bytes
     || Measurer := _ <- Measurers,
        Pid <- [Measurer | workers(Measurer)],
        {memory, Bytes} <- [process_info(Pid, memory)]
    ]).
