%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_guard).
-moduledoc false.
%% The process in the target that starts all the others of the agent, linked to itself. It monitors
%% the caller, and how long the agent has been there and how much memory it takes. When it ends, for
%% whatever reason, all of them end before it, and with them their trace sessions. Only then the
%% cleaner (dyno_target_cleaner), which runs none of our code, removes the modules.

-behaviour(gen_server).

-export([start/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2, terminate/2]).
-export_type([options/0]).

-type options() :: #{
    %% Is told when the agent gives up. Without it there is nobody to measure for.
    caller := pid(),
    %% Marks the messages to the caller.
    ref := reference(),
    %% The longest that the agent may stay.
    limit_ms := pos_integer(),
    %% The most memory that its processes may take together.
    limit_bytes := pos_integer()
}.

-define(CHECK_MS, 1000).
%% What an instrument may take to end in its own order.
-define(SHUTDOWN_MS, 2000).

-doc "Starts the guard, linked to nobody: the caller's process is on another node.".
-spec start(options()) -> gen_server:start_ret().
start(Options) ->
    gen_server:start(?MODULE, Options, []).

-spec init(options()) -> {ok, options()}.
init(#{caller := Caller, limit_ms := LimitMs} = Options) ->
    process_flag(trap_exit, true),
    proc_lib:set_label(?MODULE),
    _ = monitor(process, Caller),
    _ = erlang:send_after(LimitMs, self(), limit_ms),
    _ = erlang:send_after(?CHECK_MS, self(), check),
    {ok, Options}.

-spec handle_call({start, module(), #{}}, gen_server:from(), options()) ->
    {reply, {ok, pid()} | {error, term()}, options()} | {stop, normal, ok, options()}.
handle_call({start, Instrument, Config}, _From, State) ->
    {reply, Instrument:start_link(Config), State};
handle_call(stop, _From, State) ->
    {stop, normal, ok, State}.

-spec handle_cast(term(), options()) -> {noreply, options()}.
handle_cast(_Request, State) ->
    {noreply, State}.

-spec handle_info(term(), options()) -> {noreply, options()} | {stop, term(), options()}.
handle_info({'DOWN', _, process, Caller, _}, #{caller := Caller} = State) ->
    {stop, normal, State};
handle_info({'EXIT', _Pid, normal}, State) ->
    {noreply, State};
handle_info({'EXIT', Pid, Reason}, State) ->
    give_up({instrument_ended, Pid, Reason}, State);
handle_info(limit_ms, #{limit_ms := LimitMs} = State) ->
    give_up({limit_ms, LimitMs}, State);
handle_info(check, #{limit_bytes := LimitBytes} = State) ->
    case bytes() of
        Bytes when Bytes > LimitBytes ->
            give_up({limit_bytes, LimitBytes, Bytes}, State);
        _ ->
            _ = erlang:send_after(?CHECK_MS, self(), check),
            {noreply, State}
    end;
handle_info(_Other, State) ->
    {noreply, State}.

give_up(Reason, #{caller := Caller, ref := Ref} = State) ->
    _ = erlang:send(Caller, {dyno_agent, Ref, {gave_up, Reason}}, [noconnect]),
    {stop, normal, State}.

%% The instruments must be gone before this process is: the cleaner removes their code after it. One
%% that traps exits ends in its own order: dyno_agent_custom takes processes with it that nobody
%% else knows, dyno_agent_calls lets calls return first.
-spec terminate(term(), options()) -> ok.
terminate(_Reason, _State) ->
    Monitored = [{Pid, monitor(process, Pid)} || Pid <- children()],
    lists:foreach(fun({Pid, _}) -> exit(Pid, shutdown) end, Monitored),
    Timer = erlang:start_timer(?SHUTDOWN_MS, self(), shutdown),
    lists:foreach(fun(Child) -> wait(Child, Timer) end, Monitored).

wait({Pid, Ref} = Child, Timer) ->
    receive
        {'DOWN', Ref, process, Pid, _} ->
            ok;
        {timeout, Timer, shutdown} ->
            lists:foreach(fun(Left) -> exit(Left, kill) end, children()),
            wait(Child, Timer)
    end.

children() ->
    {links, Links} = process_info(self(), links),
    [Pid || Pid <- Links, is_pid(Pid)].

bytes() ->
    lists:sum([
        Bytes
     || Pid <- [self() | children()],
        {memory, Bytes} <- [process_info(Pid, memory)]
    ]).
