%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_event_watchdog).
-moduledoc false.
%% Traces within limits: owns a session, and watches its tracer (`dyno_agent_event_tracer`).
%%
%% With priority max, the watchdog checks the tracer's queue each 2 ms. At a limit, or when the
%% `owner`, its node or the tracer ends, it destroys the session with all breakpoints at once.
%%
%% session -> tracer (consumer's events) -> ...
%%    ^         ^ queue, memory
%%    +-- this process -- monitors the owner
%%
%% Processes of dyno, of kernel and of the runtime are traced only if named.
%%
%% Cost: 500 checks a second of a few microseconds each while tracing.

-behaviour(gen_server).

-export([start_link/1, change/3, stop/1, flags_of_new/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2, terminate/2]).
-export_type([config/0, plan/0, limits/0]).

-doc "What to trace. Every message has the monotonic time in native units.".
-type plan() :: #{
    %% Empty: all but the vital ones. `none`: a function's meta trace sets its callers' flags.
    processes := [dyno_agent_process_filter:selector()] | none,
    %% Flags of processes, such as `call`.
    flags := [atom()],
    functions := [dyno_agent_event_tracer:breakpoint()],
    %% Match specifications of messages.
    send => dyno_agent_event_tracer:match_spec(),
    'receive' => dyno_agent_event_tracer:match_spec()
}.

-type limits() :: #{
    for_ms => pos_integer() | infinity,
    %% Trace messages a second.
    rate => pos_integer() | infinity,
    %% Trace messages that wait for the tracer, and its memory.
    queue => pos_integer(),
    bytes => pos_integer()
}.

-type config() :: #{
    %% The process that tracing is for.
    owner := pid(),
    consumer := dyno_agent_event_tracer:consumer(),
    plan := plan(),
    limits => limits()
}.

-type state() :: #{
    owner := pid(),
    session := trace:session() | none,
    tracer := pid(),
    limits := limits(),
    stopped := atomics:atomics_ref(),
    looks := non_neg_integer()
}.

-define(LOOK_MS, 2).
%% With an empty queue, memory is checked once in this number of checks: the tracer must answer.
-define(MEMORY_LOOKS, 10).

-doc "Starts to trace. `{error, no_process}` if no process matches.".
-spec start_link(config()) -> gen_server:start_ret().
start_link(Config) ->
    gen_server:start_link(?MODULE, Config, [{spawn_opt, [{priority, max}]}]).

-doc "Traces other functions; the consumer's `info/2` gets the term.".
-spec change(pid(), [dyno_agent_event_tracer:breakpoint()], term()) -> ok.
change(Pid, Functions, Told) ->
    gen_server:call(Pid, {change, Functions, Told}).

-spec stop(pid()) -> ok.
stop(Pid) ->
    gen_server:call(Pid, stop).

-spec init(config()) -> {ok, state()} | {error, no_process}.
init(#{owner := Owner, consumer := Consumer, plan := #{processes := Selectors} = Plan} = Config) ->
    process_flag(trap_exit, true),
    proc_lib:set_label(?MODULE),
    ok = dyno_agent_process:unlimited(),
    Defaults = #{for_ms => infinity, rate => infinity, queue => 2000, bytes => 67_108_864},
    #{for_ms := ForMs, rate := Rate} =
        Limits = maps:merge(Defaults, maps:get(limits, Config, #{})),
    Stopped = atomics:new(1, []),
    Tracer = dyno_agent_event_tracer:spawn_link(#{
        consumer => Consumer, rate => Rate, watchdog => self(), stopped => Stopped
    }),
    Session = trace:session_create(?MODULE, Tracer, []),
    case processes(Session, Plan) of
        0 ->
            true = trace:session_destroy(Session),
            {error, no_process};
        _ ->
            _ = monitor(process, Owner),
            ok = dyno_agent_event_tracer:go(Tracer, {Session, map_get(functions, Plan)}),
            _ = erlang:send_after(?LOOK_MS, self(), look),
            ok = patterns(Session, Plan),
            _ = Selectors =/= none andalso dyno_agent_flags:audible(Session, flags_of_new(Plan)),
            %% On a busy node the breakpoints may have taken longer than this time.
            _ = is_integer(ForMs) andalso erlang:send_after(ForMs, self(), for_ms),
            {ok, #{
                owner => Owner,
                session => Session,
                tracer => Tracer,
                limits => Limits,
                stopped => Stopped,
                looks => 0
            }}
    end.

%% Silent until all processes are chosen and breakpoints set; meanwhile the queue is not checked.
processes(Session, #{processes := Selectors, flags := More}) ->
    Flags = [silent, monotonic_timestamp | More],
    _ = trace:send(Session, false, []),
    _ = trace:recv(Session, false, []),
    case Selectors of
        none ->
            1;
        [] ->
            N = dyno_agent_flags:all(Session, true, Flags),
            lists:foreach(fun(Pid) -> follow(Session, Pid, false, [all]) end, vital()),
            N;
        _ ->
            chosen(Session, Flags, Selectors)
    end.

-doc "The flags of processes that begin later; none if they are not traced.".
-spec flags_of_new(#{processes := none | [dyno_agent_process_filter:selector()], _ => _}) ->
    [atom()].
flags_of_new(#{processes := Selectors, flags := Flags}) ->
    case Selectors =:= [] orelse Selectors =/= none andalso lists:member(new, Selectors) of
        true -> [monotonic_timestamp | Flags];
        false -> []
    end.

chosen(Session, Flags, Selectors) ->
    Filter = dyno_agent_process_filter:new(Selectors),
    New = [1 + trace:process(Session, new, true, Flags) || new <- Selectors],
    %% Later children belong to the application or supervisor, too.
    Also = [set_on_spawn || lists:any(fun has_children/1, Selectors)],
    Running = [
        follow(Session, Pid, true, Also ++ Flags)
     || Pid <- dyno_agent_process_filter:running(Filter)
    ],
    lists:sum(New ++ Running).

has_children({Kind, _}) -> Kind =/= pid andalso Kind =/= registered;
has_children(_All) -> false.

%% 0 if the process has ended or is the tracer itself.
follow(Session, Pid, How, Flags) ->
    try
        trace:process(Session, Pid, How, Flags)
    catch
        error:badarg -> 0
    end.

%% The leader of the runtime's is init; of kernel's, its application master; of the agent's, ours.
vital() ->
    Leaders = [
        element(2, process_info(whereis(Name), group_leader))
     || Name <- [init, kernel_sup]
    ],
    Named = [whereis(application_controller), self()],
    Own = group_leader(),
    dyno_agent_process:select(fun(Pid) ->
        case process_info(Pid, group_leader) of
            {group_leader, Leader} ->
                lists:member(Leader, Leaders) orelse lists:member(Pid, Named) orelse
                    (Leader =:= Own andalso is_own(Pid));
            undefined ->
                false
        end
    end).

is_own(Pid) ->
    case process_info(Pid, [label, registered_name]) of
        [{_, Label}, {_, Name}] ->
            lists:any(fun(Of) -> dyno_agent_kind:is_own({label, Of}) end, [Label, Name]);
        undefined ->
            false
    end.

patterns(Session, #{functions := Functions} = Plan) ->
    _ = [trace:send(Session, Spec, []) || #{send := Spec} <- [Plan]],
    _ = [trace:recv(Session, Spec, []) || #{'receive' := Spec} <- [Plan]],
    lists:foreach(
        fun({MFA, Spec, Flags}) -> trace:function(Session, MFA, Spec, Flags) end, Functions
    ).

-spec handle_call(term(), gen_server:from(), state()) ->
    {reply, term(), state()} | {noreply, state()}.
handle_call(stop, _From, State) ->
    {reply, ok, stop_for(stopped, State)};
handle_call({change, _Functions, _Told}, _From, #{session := none} = State) ->
    {reply, ok, State};
handle_call({change, Functions, Told}, From, #{tracer := Tracer} = State) ->
    ok = dyno_agent_event_tracer:change(Tracer, {Functions, Told}, From),
    {noreply, State}.

-spec handle_cast(term(), state()) -> {noreply, state()}.
handle_cast(_Message, State) ->
    {noreply, State}.

-spec handle_info(term(), state()) -> {noreply, state()} | {stop, term(), state()}.
handle_info(look, #{session := none} = State) ->
    {noreply, State};
handle_info(look, #{tracer := Tracer, limits := #{queue := Most}, looks := Looks} = State) ->
    _ = erlang:send_after(?LOOK_MS, self(), look),
    case process_info(Tracer, message_queue_len) of
        {_, Waiting} when Waiting > Most -> {noreply, crossed({queue, Most}, State)};
        %% Waiting messages may have arguments of megabytes.
        {_, Waiting} when Waiting > 0; Looks rem ?MEMORY_LOOKS =:= 0 ->
            {noreply, memory(State#{looks := Looks + 1})};
        _ ->
            {noreply, State#{looks := Looks + 1}}
    end;
handle_info(for_ms, #{limits := #{for_ms := Ms}} = State) ->
    {noreply, stop_for({for_ms, Ms}, State)};
handle_info({dyno_agent_event_tracer, Tracer, stopped}, #{tracer := Tracer} = State) ->
    {noreply, State#{session := none}};
handle_info({'DOWN', _, process, Owner, _}, #{owner := Owner} = State) ->
    {noreply, stop_for(owner, State)};
handle_info({'EXIT', Tracer, normal}, #{tracer := Tracer} = State) ->
    {noreply, destroyed(State)};
handle_info({'EXIT', Tracer, Reason}, #{tracer := Tracer} = State) ->
    {stop, {shutdown, {tracer, Reason}}, destroyed(State)};
handle_info({'EXIT', _Guard, Reason}, State) ->
    {stop, {shutdown, Reason}, State};
handle_info(_Other, State) ->
    {noreply, State}.

memory(#{tracer := Tracer, limits := #{bytes := Most}} = State) ->
    case process_info(Tracer, memory) of
        {memory, Bytes} when Bytes > Most -> crossed({bytes, Most}, State);
        _ -> State
    end.

%% The backlog is not worth its time.
crossed(Reason, #{stopped := Stopped} = State) ->
    ok = atomics:put(Stopped, 1, 1),
    stop_for(Reason, State).

stop_for(_Reason, #{session := none} = State) ->
    State;
stop_for(Reason, #{session := Session, tracer := Tracer} = State) ->
    At = dyno_agent_event_tracer:destroy(Session),
    ok = dyno_agent_event_tracer:stop(Tracer, Reason, At),
    State#{session := none}.

destroyed(#{session := Session} = State) ->
    _ = dyno_agent_event_tracer:destroy(Session),
    State#{session := none}.

-spec terminate(term(), state()) -> state().
terminate(_Reason, State) -> destroyed(State).
