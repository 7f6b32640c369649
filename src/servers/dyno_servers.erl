%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_servers).
-moduledoc """
Watches every gen_server, state machine, event manager, supervisor and GenStage stage of running
nodes, without changes of their code.

```erlang
{ok, Session} = dyno_servers:start(['shop@host'], #{servers => [{module, orders}]}),
ok = dyno_servers:subscribe(Session),
receive
    {dyno_servers, Session, Window, _Dropped} ->
        Rows = [
            dyno_servers_row:row(Sum, map_get(duration_ns, Window))
         || Sum <- dyno_servers_window:sums(module, Window)
        ],
        ok = dyno_servers:ready(Session)
end,
ok = dyno_servers:stop(Session).
```

```
dyno_servers           a session: windows of several nodes put together, subscribers, sinks, watches
  dyno_servers_target  a node: its agent, shared by the sessions of this node
    dyno_agent_servers in the node: hooks and counters
```

A subscriber gets one window at a time, the next one after `ready/1`. Windows in between wait in a
short queue; if it is full, the oldest one is dropped and counted.
""".

-behaviour(gen_server).

-export([start/2, stop/1, list/0, about/1, add/2, remove/2]).
-export([subscribe/1, subscribe/2, ready/1, read/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2, terminate/2]).
-export_type([session/0, options/0, lost/0]).

-type session() :: pid().

-type options() :: #{
    %% Default: all.
    servers => [dyno_process_filter:t()],
    %% The length of a window; 1000.
    interval_ms => pos_integer(),
    %% auto, rate, time, distribution or each; auto.
    level => atom(),
    %% For the level each: calls in all, calls a second, seconds.
    each => #{count => pos_integer(), per_second => pos_integer(), seconds => pos_integer()},
    %% Sinks for windows, as `dyno_servers_sink:parse/1` returns them.
    sinks => [dyno_servers_sink:config()],
    %% Alarms for the log.
    watches => [dyno_servers_watch:watch()],
    cookie => atom(),
    name => atom()
}.

-type lost() :: #{node() => dyno_error:error()}.

-type state() :: #{
    %% The session ends with this process.
    owner := pid(),
    options := options(),
    targets := #{node() => pid()},
    lost := lost(),
    pending := #{integer() => #{node() => map() | none}},
    subscribers := #{pid() => subscriber()},
    sinks := [dyno_servers_sink:sink()],
    names := dyno_servers_names:t(),
    watch := dyno_servers_watch:state()
}.

%% Windows for a subscriber that has not taken the last one, oldest first, and the dropped.
-type subscriber() :: #{
    most := pos_integer(),
    ready := boolean(),
    waiting := [dyno_servers_window:window()],
    dropped := non_neg_integer()
}.

%% The longest wait for a late node.
-define(MOST_LATE_MS, 2000).
-define(TIMEOUT_MS, 240_000).

defaults() ->
    #{servers => [all], interval_ms => 1000, level => auto, sinks => [], watches => []}.

-doc """
Watches servers of these nodes, until `stop/1` or the caller's end.

## Cost
In each window: `probe_ns` for each callback, and `cost`, the share of a scheduler.

## Errors
A node cannot be reached or is taken by another dyno, a filter is invalid there, or a sink's port is
in use: `dyno_error` says so in a sentence.
""".
-spec start(node() | [node(), ...], options()) -> dyno_error:result(session()).
start(Node, Options) when is_atom(Node) ->
    start([Node], Options);
start(Nodes, Given) ->
    maybe
        ok ?= dyno_option:known(maps:keys(defaults()) ++ [each, cookie, name], Given),
        ok ?= dyno_option:check(checks(), Given),
        Options = maps:merge(defaults(), Given),
        {ok, Pid} ?= gen_server:start(?MODULE, {lists:uniq(Nodes), Options, self()}, []),
        {ok, Pid}
    else
        {error, {refused, Error}} -> {error, Error};
        Error -> Error
    end.

checks() ->
    IsWhole = fun(N) -> is_integer(N) andalso N > 0 end,
    [
        {interval_ms, fun(N) -> IsWhole(N) andalso N >= 100 end,
            ~"a whole number of milliseconds from 100 up"},
        {level, fun(Level) -> lists:member(Level, [auto, rate, time, distribution, each]) end,
            ~"auto, rate, time, distribution or each"},
        {servers, fun(List) -> is_list(List) andalso List =/= [] end, ~"a list of filters"},
        {watches, fun are_watches/1,
            ~"a list such as [#{'of' => queue, above => 1000}], of queue, busy, p99 or delay"}
    ].

are_watches(List) ->
    is_list(List) andalso lists:all(fun dyno_servers_watch:is_watch/1, List).

-doc "Ends a session; an agent ends with its last session.".
-spec stop(session()) -> ok.
stop(Session) -> gen_server:stop(Session).

-doc "The sessions of this node.".
-spec list() -> [{session(), Nodes :: [node()], Servers :: [binary()]}].
list() ->
    [
        {Session, Nodes, Servers}
     || Session <- dyno_servers_target:all(),
        #{nodes := Nodes, servers := Servers} <- [about(Session)]
    ].

-doc "The nodes and servers of a session, lost nodes, and failures of its sinks.".
-spec about(session()) ->
    #{
        nodes := [node()],
        servers := [binary()],
        lost := lost(),
        sinks := [{Address :: binary(), dyno_servers_sink:failures()}]
    }.
about(Session) -> gen_server:call(Session, about, ?TIMEOUT_MS).

-doc "Selects more servers.".
-spec add(session(), [dyno_process_filter:t()]) -> dyno_error:result().
add(Session, Servers) -> gen_server:call(Session, {add, Servers}, ?TIMEOUT_MS).

-doc "Selects fewer servers.".
-spec remove(session(), [dyno_process_filter:t()]) -> dyno_error:result().
remove(Session, Servers) -> gen_server:call(Session, {remove, Servers}, ?TIMEOUT_MS).

-doc "Like `subscribe/2`, with a queue of ten windows.".
-spec subscribe(session()) -> ok.
subscribe(Session) -> subscribe(Session, 10).

-doc """
The calling process gets `{dyno_servers, Session, Window, Dropped}` for each window, with the number
dropped before it. Events come as `{dyno_servers, Session, Event}` at once: `{lost, Node, Error}`,
`{back, Node}`, `{alarm, set | clear, Text}`; at the session's end `{left, Visits}`
(`t:dyno_target_visit:t/0`); at the level each `{each, Call}`, a map, for each callback within the
limits of `each`.
""".
-spec subscribe(session(), Most :: pos_integer()) -> ok.
subscribe(Session, Most) -> gen_server:call(Session, {subscribe, Most}, ?TIMEOUT_MS).

-doc "Asks for the next window.".
-spec ready(session()) -> ok.
ready(Session) -> gen_server:cast(Session, {ready, self()}).

-doc "Ends a window now; if another session shares the node, the window goes on.".
-spec read(session()) -> ok.
read(Session) -> gen_server:cast(Session, read).

-spec init({[node()], options(), pid()}) -> {ok, state()} | {error, {refused, dyno_error:error()}}.
init({Nodes, #{sinks := Sinks, watches := Watches} = Options, Owner}) ->
    process_flag(trap_exit, true),
    proc_lib:set_label(?MODULE),
    _ = monitor(process, Owner),
    State = #{
        owner => Owner,
        options => Options,
        targets => #{},
        lost => #{},
        pending => #{},
        subscribers => #{},
        sinks => [],
        names => dyno_servers_names:new(),
        watch => dyno_servers_watch:new(Watches)
    },
    maybe
        {ok, Started} ?= dyno_error:each(fun dyno_servers_sink:start_link/1, Sinks),
        ok ?= dyno_target_node:connect(Nodes, maps:with([cookie, name], Options)),
        {ok, Selected} ?= dyno_process_filter:check(map_get(servers, Options), Nodes, servers),
        {ok, Targets} ?= dyno_error:each(fun(Node) -> join(Node, Selected, Options) end, Nodes),
        {ok, State#{targets := maps:from_list(Targets), sinks := Started}}
    else
        {error, Error} -> {error, {refused, Error}}
    end.

join(Node, Selected, Options) ->
    ForTarget = maps:with([interval_ms, level, each, cookie, name], Options),
    maybe
        {ok, Pid} ?= dyno_servers_target:join(Node, Selected, ForTarget),
        _ = monitor(process, Pid),
        {ok, {Node, Pid}}
    end.

-spec handle_call(term(), gen_server:from(), state()) -> {reply, term(), state()}.
handle_call(about, _From, #{options := Options, targets := Targets} = State) ->
    #{lost := Lost, sinks := Sinks} = State,
    About = #{
        nodes => maps:keys(Targets),
        servers => [dyno_process_filter:format(S) || S <- map_get(servers, Options)],
        lost => Lost,
        sinks => [{dyno_servers_sink:address(S), dyno_servers_sink:failures(S)} || S <- Sinks]
    },
    {reply, About, State};
handle_call({add, Servers}, _From, #{options := #{servers := Before}} = State) ->
    change(add, Servers, lists:uniq(Before ++ Servers), State);
handle_call({remove, Servers}, _From, #{options := #{servers := Before}} = State) ->
    change(remove, Servers, Before -- Servers, State);
handle_call({subscribe, Most}, {Pid, _}, #{subscribers := Subscribers} = State) ->
    _ = monitor(process, Pid),
    Subscriber = #{most => Most, ready => true, waiting => [], dropped => 0},
    {reply, ok, State#{subscribers := Subscribers#{Pid => Subscriber}}}.

change(How, Servers, All, #{targets := Targets, options := Options} = State) ->
    case dyno_process_filter:check(Servers, maps:keys(Targets), servers) of
        {ok, Selected} ->
            maps:foreach(
                fun(_, Pid) -> dyno_servers_target:change(Pid, How, Selected) end, Targets
            ),
            {reply, ok, State#{options := Options#{servers := All}}};
        Error ->
            {reply, Error, State}
    end.

-spec handle_cast({ready, pid()} | read, state()) -> {noreply, state()}.
handle_cast(read, #{targets := Targets} = State) ->
    EndMs = erlang:system_time(millisecond),
    lists:foreach(fun(Pid) -> Pid ! {read, EndMs} end, maps:values(Targets)),
    {noreply, State};
handle_cast({ready, Pid}, #{subscribers := Subscribers} = State) ->
    case Subscribers of
        #{Pid := Subscriber} ->
            Given = given(Pid, Subscriber#{ready := true}),
            {noreply, State#{subscribers := Subscribers#{Pid := Given}}};
        #{} ->
            {noreply, State}
    end.

-spec handle_info(term(), state()) -> {noreply, state()} | {stop, normal, state()}.
handle_info({dyno_servers_target, Node, EndMs, {window, Window}}, State) ->
    {noreply, came(Node, EndMs, Window, back(Node, State))};
handle_info({dyno_servers_target, Node, EndMs, {lost, Error}}, State) ->
    {noreply, came(Node, EndMs, none, lost(Node, Error, State))};
handle_info({dyno_servers_target, Node, EndMs, {_, []}}, State) ->
    {noreply, came(Node, EndMs, none, State)};
handle_info({dyno_servers_target, each, Call}, State) ->
    tell({each, Call}, State),
    {noreply, State};
handle_info({late, EndMs}, #{pending := Pending} = State) ->
    case Pending of
        #{EndMs := Came} -> {noreply, deliver(EndMs, Came, State)};
        #{} -> {noreply, State}
    end;
handle_info({'DOWN', _, process, Pid, _}, #{owner := Pid} = State) ->
    {stop, normal, State};
handle_info({'DOWN', _, process, Pid, _}, #{subscribers := Subscribers} = State) ->
    {noreply, State#{subscribers := maps:remove(Pid, Subscribers)}};
handle_info(_Other, State) ->
    {noreply, State}.

%% The first reason stays: a later one is only why it could not be attached to again.
lost(Node, _Error, #{lost := Lost} = State) when is_map_key(Node, Lost) ->
    State;
lost(Node, Error, #{lost := Lost} = State) ->
    tell({lost, Node, Error}, State),
    State#{lost := Lost#{Node => Error}}.

back(Node, #{lost := Lost} = State) when is_map_key(Node, Lost) ->
    tell({back, Node}, State),
    State#{lost := maps:remove(Node, Lost)};
back(_Node, State) ->
    State.

tell(What, #{subscribers := Subscribers}) ->
    lists:foreach(
        fun(Pid) -> Pid ! {dyno_servers, self(), What} end, maps:keys(Subscribers)
    ).

%% A window is complete when each node has sent its part or will not send one.
came(Node, EndMs, Window, #{pending := Pending, targets := Targets, options := Options} = State) ->
    Came = (maps:get(EndMs, Pending, #{}))#{Node => Window},
    Missing = maps:keys(Targets) -- maps:keys(Came),
    case {Missing, map_size(Came)} of
        {[], _} ->
            deliver(EndMs, Came, State);
        {_, 1} ->
            WaitMs = min(map_get(interval_ms, Options) div 2, ?MOST_LATE_MS),
            _ = erlang:send_after(WaitMs, self(), {late, EndMs}),
            State#{pending := Pending#{EndMs => Came}};
        _ ->
            State#{pending := Pending#{EndMs => Came}}
    end.

deliver(EndMs, Came, #{pending := Pending} = State) ->
    Delivered = State#{pending := maps:remove(EndMs, Pending)},
    case [Sent || #{} = Sent <- maps:values(Came)] of
        [] -> Delivered;
        Sent -> published(dyno_servers_window:new(Sent), Delivered)
    end.

published(Window, #{subscribers := Subscribers, watch := Before} = State) ->
    {Events, Watch} = dyno_servers_watch:window(Window, Before),
    lists:foreach(
        fun({Is, _, Text} = Event) ->
            ok = dyno_servers_watch:tell(Event),
            tell({alarm, Is, Text}, State)
        end,
        Events
    ),
    (sent(Window, State))#{
        watch := Watch,
        subscribers := maps:map(
            fun(Pid, #{waiting := Waiting} = Subscriber) ->
                given(Pid, Subscriber#{waiting := Waiting ++ [Window]})
            end,
            Subscribers
        )
    }.

sent(_Window, #{sinks := []} = State) ->
    State;
sent(Window, #{sinks := Sinks, names := Before} = State) ->
    {Sums, Names} = dyno_servers_window:for_sinks(Window, Before),
    lists:foreach(fun(Sink) -> dyno_servers_sink:send(Sink, Sums) end, Sinks),
    State#{names := Names}.

given(Pid, #{ready := true, waiting := [Window | Later], dropped := Dropped} = Subscriber) ->
    Pid ! {dyno_servers, self(), Window, Dropped},
    Subscriber#{ready := false, waiting := Later, dropped := 0};
given(_Pid, #{most := Most, waiting := [_ | Later], dropped := Dropped} = Subscriber) when
    length(Later) >= Most
->
    Subscriber#{waiting := Later, dropped := Dropped + 1};
given(_Pid, Subscriber) ->
    Subscriber.

-spec terminate(term(), state()) -> ok.
terminate(_Reason, #{sinks := Sinks, targets := Targets} = State) ->
    lists:foreach(fun dyno_servers_sink:stop/1, Sinks),
    %% The next session finds the nodes free.
    tell({left, dyno_servers_target:leave(maps:values(Targets))}, State).
