%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_servers_target).
-moduledoc false.
%% A measured node: its agent, attached once for all sessions (dyno_servers), which share its
%% windows. At whole multiples of the interval it reads a window and sends it to each session. A
%% lost node is attached again as soon as possible. The process ends with its last session.
%%
%% A session gets {dyno_servers_target, Node, EndMs, Message}: {window, Window}, {lost, Error},
%% {alive, []} or {back, []}; and, at the level each, {dyno_servers_target, each, Call}.

-behaviour(gen_server).

-export([join/3, change/3, leave/1, all/0, format_error/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2, terminate/2]).
-export_type([reason/0]).

-type reason() :: {different, node(), interval_ms | level, Theirs :: term()}.

-type state() :: #{
    node := node(),
    options := dyno_servers:options(),
    target := dyno_target:t() | lost,
    %% Probes whether a lost node is back: a suspended node does not answer for seconds.
    reconnects := {pid(), reference()} | none,
    sessions := #{pid() => {reference(), [dyno_agent_process_filter:selector()]}}
}.

-define(INSTRUMENT, dyno_agent_servers).
-define(PREFIX, "dyno_servers_target:").
%% Attaching takes a while on a busy node.
-define(JOIN_MS, 240_000).

-doc "The calling process gets the windows of these servers until it ends.".
-spec join(node(), [dyno_agent_process_filter:selector()], dyno_servers:options()) ->
    dyno_error:result(pid()).
join(Node, Selectors, Options) ->
    Name = list_to_atom(?PREFIX ++ atom_to_list(Node)),
    case gen_server:start({local, Name}, ?MODULE, {Node, Selectors, Options, self()}, []) of
        {ok, Pid} ->
            {ok, Pid};
        {error, {already_started, Pid}} ->
            try
                gen_server:call(Pid, {join, Selectors, Options}, ?JOIN_MS)
            catch
                %% The last session has just ended.
                exit:{Gone, _} when Gone =:= normal; Gone =:= noproc ->
                    join(Node, Selectors, Options)
            end;
        {error, {?MODULE, refused, Error}} ->
            {error, Error}
    end.

-spec change(pid(), add | remove, [dyno_agent_process_filter:selector()]) -> ok.
change(Pid, How, Selectors) -> gen_server:call(Pid, {How, Selectors}, ?JOIN_MS).

-doc "The calling session is about to end: agents that only it used leave their nodes.".
-spec leave([pid()]) -> [dyno_target_visit:t()].
leave(Pids) ->
    Requests = [gen_server:send_request(Pid, leave) || Pid <- Pids],
    Answers = [gen_server:receive_response(Id, infinity) || Id <- Requests],
    lists:append([Visits || {reply, {left, Visits}} <- Answers]).

-spec all() -> [pid()].
all() ->
    lists:usort(
        lists:append([
            gen_server:call(Name, sessions, ?JOIN_MS)
         || Name <- registered(), lists:prefix(?PREFIX, atom_to_list(Name))
        ])
    ).

-spec init({node(), [dyno_agent_process_filter:selector()], dyno_servers:options(), pid()}) ->
    {ok, state()} | {stop, {?MODULE, refused, dyno_error:error()}}.
init({Node, Selectors, Options, Session}) ->
    process_flag(trap_exit, true),
    proc_lib:set_label({?MODULE, Node}),
    State = joined(Session, Selectors, #{
        node => Node,
        options => Options,
        target => lost,
        reconnects => none,
        sessions => #{}
    }),
    case attached(State) of
        {ok, Attached} ->
            ok = next_tick(Options),
            {ok, Attached};
        {error, Error} ->
            {stop, {?MODULE, refused, Error}}
    end.

attached(#{node := Node, options := Options} = State) ->
    Modules = dyno_code:closure([dyno_agent_guard, ?INSTRUMENT]),
    Connection = maps:with([cookie, name], Options),
    Config = maps:with([level, each], Options),
    Servers = Config#{servers => selectors(State), sink => self()},
    maybe
        {ok, Target} ?=
            dyno_target:hold(Node, Connection#{modules => Modules}, fun(#{agent := Agent} = Bare) ->
                maybe
                    {ok, Pid} ?= dyno_agent:start(Agent, ?INSTRUMENT, Servers),
                    {ok, Bare#{instrument => Pid}}
                end
            end),
        {ok, State#{target := Target}}
    end.

selectors(#{sessions := Sessions}) ->
    lists:uniq(lists:append([Of || {_, Of} <- maps:values(Sessions)])).

joined(Session, Selectors, #{sessions := Sessions} = State) ->
    State#{sessions := Sessions#{Session => {monitor(process, Session), Selectors}}}.

-spec handle_call(term(), gen_server:from(), state()) ->
    {reply, term(), state()} | {stop, normal, {left, [dyno_target_visit:t()]}, state()}.
handle_call({join, Selectors, Asked}, {Session, _}, #{node := Node, options := Options} = State) ->
    Differing = [
        Key
     || Key <- [interval_ms, level], map_get(Key, Asked) =/= map_get(Key, Options)
    ],
    case Differing of
        [] ->
            {reply, {ok, self()}, changed(State, joined(Session, Selectors, State))};
        [Key | _] ->
            {reply, {error, {?MODULE, {different, Node, Key, map_get(Key, Options)}}}, State}
    end;
handle_call(sessions, _From, #{sessions := Sessions} = State) ->
    {reply, maps:keys(Sessions), State};
handle_call(leave, {Session, _}, State) ->
    case without(Session, State) of
        {stop, normal, Last} ->
            {stop, normal, {left, left(Last)}, Last#{target := lost}};
        {noreply, Others} ->
            {reply, {left, []}, Others}
    end;
handle_call({How, Selectors}, {Session, _}, #{sessions := Sessions} = State) ->
    #{Session := {Ref, Before}} = Sessions,
    Selected =
        case How of
            add -> lists:uniq(Before ++ Selectors);
            remove -> Before -- Selectors
        end,
    {reply, ok, changed(State, State#{sessions := Sessions#{Session := {Ref, Selected}}})}.

changed(Before, #{target := #{instrument := Pid}} = After) ->
    tell(Pid, add, selectors(After) -- selectors(Before)),
    tell(Pid, remove, selectors(Before) -- selectors(After)),
    After;
changed(_Before, After) ->
    After.

tell(_Pid, _How, []) ->
    ok;
tell(Pid, How, Selectors) ->
    try
        ?INSTRUMENT:change(Pid, How, Selectors)
    catch
        exit:_ -> ok
    end.

-spec handle_cast(term(), state()) -> {noreply, state()}.
handle_cast(_Message, State) ->
    {noreply, State}.

-spec handle_info(term(), state()) -> {noreply, state()} | {stop, normal, state()}.
handle_info({tick, EndMs}, #{options := Options} = State) ->
    New = read(EndMs, State),
    ok = next_tick(Options),
    {noreply, New};
handle_info({read, EndMs}, #{sessions := Sessions} = State) when map_size(Sessions) =:= 1 ->
    {noreply, read(EndMs, State)};
handle_info({'DOWN', Ref, process, Pid, Why}, #{reconnects := {Pid, Ref}} = State) ->
    {noreply, reconnected(Why, State#{reconnects := none})};
handle_info({dyno_servers, each, Call}, #{sessions := Sessions} = State) ->
    lists:foreach(fun(Pid) -> Pid ! {?MODULE, each, Call} end, maps:keys(Sessions)),
    {noreply, State};
handle_info(Message, #{target := Target, node := Node} = State) ->
    case {dyno_target:event(Message, [Target || Target =/= lost]), Message} of
        {none, {'DOWN', _, process, Pid, _}} -> without(Pid, State);
        {none, _} -> {noreply, State};
        {{lost, _, _}, _} -> {noreply, lost({dyno_agent, {node_down, Node}}, State)};
        {{gave_up, _, Why}, _} -> {noreply, lost({dyno_agent, {failed, Node, Why}}, State)};
        {{without, _, _, Why}, _} -> {noreply, lost({dyno_agent, {failed, Node, Why}}, State)}
    end.

without(Pid, #{sessions := Sessions} = State) ->
    case Sessions of
        #{Pid := _} when map_size(Sessions) =:= 1 ->
            {stop, normal, State};
        #{Pid := {Ref, _}} ->
            true = demonitor(Ref, [flush]),
            {noreply, changed(State, State#{sessions := maps:remove(Pid, Sessions)})};
        #{} ->
            {noreply, State}
    end.

%% At whole multiples of the interval, also if the clock is set anew.
next_tick(#{interval_ms := IntervalMs}) ->
    NowMs = erlang:system_time(millisecond),
    EndMs = (NowMs div IntervalMs + 1) * IntervalMs,
    _ = erlang:send_after(EndMs - NowMs, self(), {tick, EndMs}),
    ok.

read(EndMs, #{target := #{instrument := Pid}, node := Node} = State) ->
    try
        true = dyno_target_silence:is_connected(Node),
        tell_sessions(EndMs, ?INSTRUMENT:next(Pid), State)
    catch
        %% A message follows: the node is lost.
        error:{badmatch, false} -> tell_all(EndMs, {alive, []}, State);
        exit:_ -> tell_all(EndMs, {alive, []}, State)
    end;
read(EndMs, #{reconnects := {_, _}} = State) ->
    tell_all(EndMs, {alive, []}, State);
read(EndMs, #{node := Node, options := Options} = State) ->
    Connection = maps:with([cookie, name], Options),
    tell_all(EndMs, {alive, []}, State#{reconnects := spawn_monitor(connect(Node, Connection))}).

-spec connect(node(), #{cookie => atom(), name => atom()}) -> fun(() -> no_return()).
connect(Node, Connection) ->
    fun() -> exit({connect, dyno_target_node:connect(Node, Connection)}) end.

reconnected({connect, ok}, State) ->
    case attached(State) of
        {ok, Attached} -> tell_all(erlang:system_time(millisecond), {back, []}, Attached);
        Error -> reconnected({connect, Error}, State)
    end;
reconnected({connect, {error, Error}}, State) ->
    tell_all(erlang:system_time(millisecond), {lost, Error}, State);
reconnected(_Crashed, State) ->
    State.

tell_sessions(EndMs, #{servers := Servers} = Window, #{sessions := Sessions} = State) ->
    maps:foreach(
        fun(Session, {_, Selectors}) ->
            Of = [Server || Server <- Servers, dyno_process_filter:is_of(Server, Selectors)],
            send([Session], EndMs, {window, Window#{servers := Of}}, State)
        end,
        Sessions
    ),
    State.

tell_all(EndMs, Message, #{sessions := Sessions} = State) ->
    send(maps:keys(Sessions), EndMs, Message, State),
    State.

send(Pids, EndMs, Message, #{node := Node}) ->
    lists:foreach(fun(Pid) -> Pid ! {?MODULE, Node, EndMs, Message} end, Pids).

lost(Error, State) ->
    _ = left(State),
    tell_all(erlang:system_time(millisecond), {lost, Error}, State#{target := lost}).

left(#{target := Target}) -> dyno_target:leave([Target || Target =/= lost]).

-spec terminate(term(), state()) -> ok.
terminate(_Reason, State) ->
    _ = left(State),
    ok.

-spec format_error(reason()) -> unicode:chardata().
format_error({different, Node, interval_ms, Ms}) ->
    io_lib:format(
        "another dyno servers measures ~ts every ~ts; take the same interval, or end it",
        [Node, dyno_unit:format(Ms, ~"ms")]
    );
format_error({different, Node, level, Level}) ->
    io_lib:format(
        "another dyno servers measures ~ts with the detail ~ts; take the same one, or end it",
        [Node, Level]
    ).
