%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_truth_kinds_SUITE).
-moduledoc """
Servers that do more than one callback for a message: state machines that postpone, continuations,
supervisors that start children. dyno servers counts each message and each nanosecond once.
""".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

-import(dyno_truth, [rows/2, row/3, near/3]).

-define(SERVER, """
-module(kinds).
-export([chain/1, boss/0, init/1, handle_call/3, handle_cast/2, handle_info/2, handle_continue/2]).
-export([child/0, every/2, every/4, dirty/0, started/2]).
dirty() ->
    {ok, Pid} = gen_server:start({local, dirty}, kinds, dirty, []),
    every(50, fun() -> gen_server:cast(Pid, dirty) end).
chain(EveryMs) ->
    {ok, Pid} = gen_server:start({local, chain}, kinds, chain, []),
    every(EveryMs, fun() -> gen_server:cast(Pid, go) end).
boss() ->
    Self = self(),
    spawn(fun() ->
        started = ets:new(started, [named_table, public, ordered_set]),
        Self ! supervisor:start_link({local, boss}, kinds, boss),
        timer:sleep(infinity)
    end),
    receive {ok, _} -> ok end.
%% The supervisor waits for as long: on a busy machine for longer than the child sleeps.
child() ->
    Begun = erlang:monotonic_time(nanosecond),
    Started = gen_server:start_link(kinds, child, []),
    Now = erlang:monotonic_time(nanosecond),
    ets:insert(started, {Now + erlang:time_offset(nanosecond), Now - Begun}),
    Started.
started(From, Until) -> lists:sum([Ns || {At, Ns} <- ets:tab2list(started), At > From, At =< Until]).
init(State) when State =:= chain; State =:= dirty -> {ok, State};
init(child) -> timer:sleep(30), erlang:send_after(70, self(), die), {ok, child};
init(boss) ->
    {ok, {#{intensity => 1000, period => 1}, [#{id => child, start => {kinds, child, []}}]}}.
handle_call(_, _, State) -> {reply, ok, State}.
handle_cast(dirty, State) -> erts_debug:dirty_io(wait, 45), {noreply, State};
handle_cast(go, State) -> {noreply, State, {continue, first}}.
handle_continue(first, State) -> timer:sleep(4), {noreply, State, {continue, second}};
handle_continue(second, State) -> timer:sleep(4), {noreply, State}.
handle_info(die, _) -> error(die).
every(Ms, Do) -> spawn(fun() -> every(erlang:monotonic_time(millisecond), Ms, 1, Do) end).
every(Begun, Ms, N, Do) ->
    Left = Begun + Ms * N - erlang:monotonic_time(millisecond),
    Left > 0 andalso timer:sleep(Left),
    Do(),
    every(Begun, Ms, N + 1, Do).

""").

%% A registry of its own, as gproc and Elixir's Registry are; and servers that it, or global, knows.
-define(REGISTRY, """
-module(registry).
-export([start/0, register_name/2, unregister_name/1, whereis_name/1, send/2]).
-export([init/1, callback_mode/0, handle_event/4, handle_call/3, handle_cast/2]).
start() ->
    Self = self(),
    spawn(fun() ->
        registry = ets:new(registry, [named_table, public]),
        Names = [{global, {room, 1}}, {via, registry, {'Elixir.My.Rooms', <<"room:2">>}}],
        {ok, Asleep} = gen_server:start({global, asleep}, registry, server, []),
        gen_server:cast(Asleep, sleep),
        Servers = [
            element(2, {ok, _} = gen_server:start(Name, registry, server, []))
         || Name <- [{via, registry, late} | Names]
        ],
        {ok, Machine} = gen_statem:start({via, registry, machine}, registry, machine, []),
        Self ! started,
        every(tl(Servers) ++ [Machine], hd(Servers), 1)
    end),
    receive started -> ok end.
%% The first message for one of them comes when it has been measured for a while.
every(Servers, Late, N) ->
    timer:sleep(10),
    [gen_server:call(Server, go) || Server <- Servers ++ [Late || N > 250]],
    every(Servers, Late, N + 1).
register_name(Name, Pid) ->
    case ets:insert_new(registry, {Name, Pid}) of true -> yes; false -> no end.
unregister_name(Name) -> ets:delete(registry, Name).
whereis_name(Name) -> ets:lookup_element(registry, Name, 2, undefined).
send(Name, Message) -> whereis_name(Name) ! Message.
init(server) -> {ok, none};
init(machine) -> {ok, on, none}.
callback_mode() -> handle_event_function.
handle_event({call, From}, go, on, _) -> {keep_state_and_data, [{reply, From, ok}]}.
handle_call(go, _, State) -> {reply, ok, State}.
handle_cast(sleep, State) -> timer:sleep(infinity), {noreply, State}.

""").

%% Four events at once, each of which takes it 15 ms: the second is postponed once, the last thrice.
-define(STATEM, """
-module(machine).
-export([start/0, callback_mode/0, init/1, idle/3, works/3]).
start() -> gen_statem:start({local, machine}, machine, [], []).
callback_mode() -> state_functions.
init(_) -> {ok, idle, none}.
idle(cast, go, _) -> {next_state, works, none, [{state_timeout, 15, done}]};
idle(internal, rest, _) -> keep_state_and_data.
works(cast, go, _) -> {keep_state_and_data, [postpone]};
works(state_timeout, done, _) -> {next_state, idle, none, [{next_event, internal, rest}]}.

""").

suite() ->
    [{timetrap, {minutes, 2}}].

all() ->
    [an_exception_of_elixir, {group, in_nodes}].

groups() ->
    [
        {in_nodes, [parallel], [
            continuations,
            a_queue_behind_continuations,
            postponed_events,
            started_children,
            dirty_calls,
            names_of_other_registries
        ]}
    ].

init_per_suite(Config) ->
    ok = dyno_target_node:ensure_distribution(#{}),
    Config.

end_per_suite(_Config) ->
    ok.

an_exception_of_elixir(_Config) ->
    Raised = #{
        '__exception__' => true, '__struct__' => 'Elixir.RuntimeError', message => ~"boom"
    },
    One = dyno_agent_server_process:new(#{pid => self()}, 0, {found, 0}),
    #{reason := Reason} = dyno_agent_server_process:ended(crashed, {Raised, []}, none, One),
    ?assertEqual(~"RuntimeError: boom", Reason).

continuations(_Config) ->
    in_node(fun(Node) ->
        _ = erpc:call(Node, kinds, chain, [40]),
        {Row, Text} = measured(~"chain", Node, 3000),
        #{~"rate" := Rate, ~"arrival_rate" := Arrivals, ~"busy" := Busy} = Row,
        near(25, Rate, 0.15),
        near(25, Arrivals, 0.15),
        %% What it could handle, if it were busy all of the time.
        near(Rate / Busy, map_get(~"service_rate", Row), 0.1),
        ?assertEqual(nomatch, string:find(Text, "its queue of"))
    end).

a_queue_behind_continuations(_Config) ->
    in_node(fun(Node) ->
        _ = erpc:call(Node, kinds, chain, [5]),
        {#{~"rate" := Rate}, Text} = measured(~"chain", Node, 4000),
        ?assert(Rate < 130, Rate),
        ?assertNotEqual(nomatch, string:find(Text, "its queue of"), Text)
    end).

postponed_events(_Config) ->
    in_node(fun(Node) ->
        machine = dyno_peers:load(Node, ?STATEM),
        {ok, Machine} = erpc:call(Node, machine, start, []),
        Four = fun() -> [gen_statem:cast(Machine, go) || _ <- [1, 2, 3, 4]] end,
        Sends = spawn_link(fun() -> each(200, Four, []) end),
        {Document, Text, {From, Until}} = dyno_truth:servers(
            Node, [{module, machine}], #{for_ms => 3000}
        ),
        Sends ! {stop, self()},
        Times =
            receive
                {did, At} -> [Time || Time <- At, Time >= From, Time =< Until]
            end,
        %% Five, on a machine that does nothing else.
        PerS = 1.0e9 * length(Times) / (Until - From),
        ct:log("~ts~n~p", [Text, PerS]),
        %% Each is an event and a timeout.
        #{~"rate" := Rate} = row(~"servers", ~"machine", Document),
        near(8 * PerS, Rate, 0.2),
        [Postponed] = [
            Of
         || #{~"callback" := ~"works/cast (postponed)", ~"rate" := Of} <- rows(
                ~"callbacks", Document
            )
        ],
        %% Where timeouts are late, the next ones come before the last of these are done.
        case PerS > 4.5 of
            true -> near(6 * PerS, Postponed, 0.2);
            false -> ?assert(Postponed > 0.8 * 6 * PerS, {Postponed, PerS})
        end
    end).

each(Ms, Do, Times) ->
    receive
        {stop, From} -> From ! {did, Times}
    after Ms ->
        Do(),
        each(Ms, Do, [erlang:system_time(nanosecond) | Times])
    end.

%% It starts a child, which takes 30 ms, ten times a second.
started_children(_Config) ->
    in_node(fun(Node) ->
        ok = erpc:call(Node, kinds, boss, []),
        {Document, Text, {From, Until}} = dyno_truth:servers(Node, [all], #{for_ms => 3000}),
        True = erpc:call(Node, kinds, started, [From, Until]) / (Until - From),
        ct:log("~ts~n~tp", [Text, True]),
        #{~"busy" := Busy} = row(~"servers", ~"boss", Document),
        near(True, Busy, 0.2)
    end).

%% It waits in a dirty scheduler for nine tenths of the time: to the runtime, it runs.
dirty_calls(_Config) ->
    in_node(fun(Node) ->
        _ = erpc:call(Node, kinds, dirty, []),
        {Row, _} = measured(~"dirty", Node, 3000),
        ?assertNot(is_map_key(~"cpu", Row) orelse is_map_key(~"blocked", Row)),
        #{~"cpu_high" := High, ~"blocked_low" := Low, ~"busy" := Busy} = Row,
        ?assert(High > 0.5 andalso Low < Busy, Row)
    end).

names_of_other_registries(_Config) ->
    dyno_truth:in_node(?REGISTRY, fun(Node) ->
        ok = erpc:call(Node, registry, start, []),
        {Document, Text, _} = dyno_truth:servers(Node, [{module, registry}], #{for_ms => 5000}),
        ct:log("~ts", [Text]),
        Names = [Name || #{~"server" := Name} <- rows(~"servers", Document)],
        ?assertEqual(
            [~"asleep", ~"late", ~"machine", ~"{My.Rooms,\"room:2\"}", ~"{room,1}"],
            lists:sort(Names)
        )
    end).

measured(Name, Node, Ms) ->
    {Document, Text, _} = dyno_truth:servers(Node, [all], #{for_ms => Ms}),
    ct:log("~ts", [Text]),
    {row(~"servers", Name, Document), Text}.

in_node(Run) -> dyno_truth:in_node(?SERVER, Run).
