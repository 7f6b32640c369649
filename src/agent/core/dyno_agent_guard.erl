%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_guard).
-moduledoc false.
%% Starts and links the agent's other processes, and watches the caller, the agent's lifetime and
%% its memory. When the guard ends, the others and their trace sessions end first; then the cleaner
%% (dyno_target_cleaner), which runs none of our code, removes the modules.
%%
%% With too much memory in use, the largest instrument ends, with those that need it.

-behaviour(gen_server).

-export([start/1, limit_bytes/0]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2, terminate/2]).
-export_type([options/0]).

-type options() :: #{
    %% Informed when the agent gives up. Without the caller there is no use for measurements.
    caller := pid(),
    %% Marks messages to the caller.
    ref := reference(),
    %% The agent's longest lifetime.
    limit_ms := pos_integer(),
    %% The most memory of all its processes together.
    limit_bytes := pos_integer()
}.

-type state() :: #{
    caller := pid(),
    ref := reference(),
    limit_ms := pos_integer(),
    limit_bytes := pos_integer(),
    instruments := #{pid() => module()},
    %% Each begins in its own process: one that waits keeps no other from beginning.
    starting := #{pid() => {gen_server:from(), module()}}
}.

-define(LIMIT_BYTES, 536_870_912).
%% Each check wakes an idle scheduler, so less often while little memory is in use.
-define(CHECK_MS, 1000).
-define(CALM_CHECK_MS, 3000).
-define(CALM_PARTS, 16).
-define(SHUTDOWN_MS, 2000).

-spec limit_bytes() -> pos_integer().
limit_bytes() -> ?LIMIT_BYTES.

-doc "Starts the guard without a link: the caller's process is on another node.".
-spec start(options()) -> gen_server:start_ret().
start(Options) ->
    %% It does little. In a saturated node each turn at the normal priority comes after a second.
    gen_server:start(?MODULE, Options, [{spawn_opt, [{priority, high}]}]).

-spec init(options()) -> {ok, state()}.
init(#{caller := Caller, limit_ms := LimitMs} = Options) ->
    process_flag(trap_exit, true),
    ok = dyno_agent_process:unlimited(),
    proc_lib:set_label(?MODULE),
    _ = monitor(process, Caller),
    _ = erlang:send_after(LimitMs, self(), limit_ms),
    _ = erlang:send_after(?CHECK_MS, self(), check),
    {ok, Options#{instruments => #{}, starting => #{}}}.

-spec handle_call({start, module(), #{}} | told | stop, gen_server:from(), state()) ->
    {reply, ok | {ok, pid()} | {error, term()}, state()}
    | {noreply, state()}
    | {stop, normal, ok, state()}.
handle_call({start, Instrument, Config}, From, State) ->
    #{instruments := Instruments, starting := Starting} = State,
    case dyno_agent_instrument:start(Instrument, Config) of
        {starting, Pid} -> {noreply, State#{starting := Starting#{Pid => {From, Instrument}}}};
        {ok, Pid} -> {reply, {ok, Pid}, State#{instruments := Instruments#{Pid => Instrument}}};
        Other -> {reply, Other, State}
    end;
handle_call(told, _From, State) ->
    {reply, ok, State};
handle_call(stop, _From, State) ->
    {stop, normal, ok, State}.

-spec handle_cast(term(), state()) -> {noreply, state()}.
handle_cast(_Request, State) ->
    {noreply, State}.

-spec handle_info(term(), state()) -> {noreply, state()} | {stop, term(), state()}.
handle_info({'DOWN', _, process, Caller, _}, #{caller := Caller} = State) ->
    {stop, normal, State};
handle_info({started, Pid, Answer}, State) ->
    {noreply, started(Pid, Answer, State)};
handle_info({'EXIT', Pid, Reason}, #{starting := Starting} = State) when
    is_map_key(Pid, Starting)
->
    {noreply, started(Pid, {error, Reason}, State)};
handle_info({'EXIT', _Pid, normal}, State) ->
    {noreply, State};
handle_info({'EXIT', Pid, Reason}, #{instruments := Instruments} = State) ->
    case Instruments of
        #{Pid := Instrument} -> ended(Pid, Instrument, why(Reason), State);
        %% The instrument was asked to end.
        #{} -> {noreply, State}
    end;
handle_info(limit_ms, #{limit_ms := LimitMs} = State) ->
    give_up({limit_ms, LimitMs}, State);
handle_info(check, #{limit_bytes := Limit} = State) ->
    case bytes() of
        Bytes when Bytes > Limit ->
            without_largest({limit_bytes, Limit, Bytes}, State);
        Bytes when ?CALM_PARTS * Bytes < Limit ->
            _ = erlang:send_after(dyno_agent_process:together_ms(?CALM_CHECK_MS), self(), check),
            {noreply, State};
        _ ->
            _ = erlang:send_after(?CHECK_MS, self(), check),
            {noreply, State}
    end;
handle_info({kill, Pid}, State) ->
    true = exit(Pid, kill),
    {noreply, State};
handle_info(_Other, State) ->
    {noreply, State}.

started(Pid, Answer, #{instruments := Instruments, starting := Before} = State) ->
    {{From, Instrument}, Starting} = maps:take(Pid, Before),
    ok = gen_server:reply(From, Answer),
    Begun = #{Pid => Instrument || {ok, _} <- [Answer]},
    State#{instruments := maps:merge(Instruments, Begun), starting := Starting}.

why({shutdown, Reason}) -> Reason;
why(Reason) -> Reason.

ended(Pid, Instrument, Reason, State) ->
    case about(Instrument) of
        #{vital := true} -> give_up({instrument_ended, Pid, Reason}, State);
        #{} -> without(Instrument, Reason, State)
    end.

%% The module may also be another process of dyno than an instrument.
about(Instrument) ->
    case erlang:function_exported(Instrument, about, 0) of
        true -> dyno_agent_instrument:about(Instrument);
        false -> #{vital => true, needs => []}
    end.

without_largest(Reason, #{instruments := Instruments} = State) ->
    Sizes = [
        {Bytes, Instrument}
     || Pid := Instrument <- Instruments, {memory, Bytes} <- [process_info(Pid, memory)]
    ],
    case lists:reverse(lists:sort(Sizes)) of
        [{_, Largest} | _] ->
            %% After its end.
            _ = erlang:send_after(?SHUTDOWN_MS + ?CHECK_MS, self(), check),
            without(Largest, Reason, State);
        [] ->
            give_up(Reason, State)
    end.

without(Instrument, Reason, #{instruments := Instruments} = State) ->
    Gone =
        #{
            Pid => Module
         || Pid := Module <- Instruments,
            #{needs := Needs} <- [about(Module)],
            lists:member(Instrument, [Module | Needs])
        },
    lists:foreach(
        fun(Pid) ->
            true = exit(Pid, shutdown),
            erlang:send_after(?SHUTDOWN_MS, self(), {kill, Pid})
        end,
        maps:keys(Gone)
    ),
    ok = tell({without, maps:values(Gone), Reason}, State),
    {noreply, State#{instruments := maps:without(maps:keys(Gone), Instruments)}}.

give_up(Reason, State) ->
    ok = tell({gave_up, Reason}, State),
    {stop, normal, State}.

tell(What, #{caller := Caller, ref := Ref}) ->
    _ = erlang:send(Caller, {dyno_agent, Ref, What}, [noconnect]),
    ok.

%% The instruments end first, since the cleaner then removes their code; those that trap exits do
%% so in order: custom agents end hidden processes, dyno_agent_calls lets calls return.
-spec terminate(term(), state()) -> ok.
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
