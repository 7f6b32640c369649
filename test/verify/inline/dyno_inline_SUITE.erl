%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

%% Woven modules, in a node of their own: all that is to be seen is seen, and a process is stopped
%% before it breaks a property.
-module(dyno_inline_SUITE).

-behaviour(dyno_agent_monitor).

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

-define(PROGRAM, """
-module(woven_program).
-behaviour(gen_server).
-compile({parse_transform, dyno_inline}).
-export([run/2, child/1, init/1, handle_call/3, handle_cast/2, handle_info/2]).
run(forms, To) ->
    To ! plain,
    erlang:send(To, remote),
    erlang:send(To, third, [noconnect]),
    _ = [To ! {list, N} || N <- [1, 2], N > 1],
    _ = #{N => To ! {map, N} || N <- [1]},
    maybe
        ok ?= ok,
        To ! in_maybe
    end,
    F = fun(X) -> To ! {in_fun, X} end,
    F(1),
    self() ! {second, 2}, self() ! {first, 1},
    receive {first, N1} when N1 > 0 -> ok end,
    receive {second, _} = Two -> To ! Two after 1000 -> no end,
    receive never -> no after 1 -> ok end,
    C1 = spawn(woven_program, child, [1]),
    C2 = spawn_link(fun() -> child(2) end),
    {C3, _} = erlang:spawn_monitor(woven_program, child, [3]),
    {C4, _} = spawn_opt(fun() -> child(4) end, [monitor]),
    C5 = proc_lib:spawn(woven_program, child, [5]),
    To ! {children, [C1, C2, C3, C4, C5]},
    exit(finished);
run(requests, To) ->
    Own = spawn_request(woven_program, run, [asked, To], [{reply_tag, own}]),
    By = spawn_request(fun() -> To ! asked_by_fun end),
    No = spawn_request(woven_program, run, [asked, To], [{reply, no}, link]),
    receive {own, Own, ok, _} -> ok end,
    receive {spawn_reply, By, ok, _} -> ok end,
    receive {_, No, _, _} -> To ! replied after 100 -> ok end;
run(asked, To) ->
    To ! asked;
run(bad, To) ->
    To ! good,
    try To ! forbidden catch throw:_ -> ok end,
    To ! later.
child(N) -> N.
init([]) -> {ok, 0}.
handle_call(Request, _From, N) -> {reply, {Request, N}, N + 1}.
handle_cast(_, N) -> {noreply, N}.
handle_info(_, N) -> {noreply, N}.

""").

-define(STATE_MACHINE, """
-module(woven_machine).
-behaviour(gen_statem).
-compile({parse_transform, dyno_inline}).
-export([init/1, callback_mode/0, open/3, closed/3, terminate/3]).
callback_mode() -> state_functions.
init([]) -> {ok, closed, 0}.
closed({call, From}, push, N) -> {next_state, open, N + 1, [{reply, From, pushed}]};
closed(cast, _, _) -> {keep_state_and_data, postpone}.
open({call, From}, push, N) -> {next_state, closed, N, {reply, From, {closed, N}}};
open(cast, hello, _) -> keep_state_and_data;
open(info, stop, _) -> stop.
terminate(_, _, _) -> ok.

""").

-define(ELIXIR,
    ~"""
defmodule WovenServer do
  use GenServer
  @compile {:parse_transform, :dyno_inline}
  def init(to), do: {:ok, to}
  def handle_call(question, _from, to) do
    send(to, :asked)
    {:reply, question, to}
  end
end
"""
).

suite() ->
    [{timetrap, {minutes, 1}}].

all() ->
    [
        each_trace_is_sound,
        all_forms_are_woven,
        requested_processes_are_found,
        a_server_is_woven,
        a_state_machine_is_woven,
        an_elixir_server_is_woven,
        a_process_is_stopped_before,
        unmonitored_code_does_the_same
    ].

each_trace_is_sound(_Config) ->
    #{verdicts := Verdicts} = in_node(workload, []),
    #{monitors := #{dyno_agent_workload_monitor := Monitor}, complete := 500} = Verdicts,
    ?assertMatch(#{processes := 500, yes := 500, no := 0, crashed := 0}, Monitor).

all_forms_are_woven(_Config) ->
    {Events, Got} = in_node(forms, [#{run => forms}]),
    [{children, Children} | _] = [Message || {children, _} = Message <- Got],
    Sent = [Message || {send, Message, _} <- Events],
    ?assertEqual(
        [
            plain,
            remote,
            third,
            {list, 2},
            {map, 1},
            in_maybe,
            {in_fun, 1},
            {second, 2},
            {first, 1},
            {second, 2},
            {children, Children}
        ],
        Sent
    ),
    %% In the order in which clauses took them.
    ?assertEqual(
        [{first, 1}, {second, 2}, timeout], [Message || {'receive', Message} <- Events]
    ),
    ?assertEqual(Children, [Child || {spawn, Child, _} <- Events]),
    ?assertMatch({spawned, _, {woven_program, run, [forms, _]}}, hd(Events)),
    ?assert(lists:member({exit, finished}, Events)).

%% By their function, in woven code; the program gets the replies that it wants.
requested_processes_are_found(_Config) ->
    {Events, Got} = in_node(forms, [#{run => requests}]),
    [_, _, _] = [Child || {spawn, Child, _} <- Events],
    ?assertEqual(
        [asked, asked, requests], lists:sort([What || {spawned, _, {_, run, [What, _]}} <- Events])
    ),
    %% The function in run/2 has a name of its own, and is asked for, too.
    ?assertEqual([asked, asked], [asked || {send, asked, _} <- Events]),
    ?assertEqual([asked, asked, asked_by_fun], lists:sort([Of || Of <- Got, is_atom(Of)])).

a_server_is_woven(_Config) ->
    {Events, _} = in_node(forms, [#{run => server}]),
    ?assertMatch(
        [
            {spawned, _, {woven_program, init, [[]]}},
            {'receive', {'$gen_call', _, question}},
            {send, {_, {question, 0}}, _},
            {'receive', {'$gen_cast', hello}},
            {'receive', info}
            | _
        ],
        Events
    ).

a_state_machine_is_woven(_Config) ->
    {Events, _} = in_node(forms, [#{run => machine}]),
    ?assertMatch(
        [
            {spawned, _, {woven_machine, init, [[]]}},
            %% Postponed.
            {'receive', {'$gen_cast', hello}},
            {'receive', {'$gen_call', _, push}},
            {send, {_, pushed}, _},
            {'receive', {'$gen_cast', hello}},
            {'receive', {'$gen_call', _, push}},
            {send, {_, {closed, 1}}, _},
            {'receive', {'$gen_call', _, push}},
            {send, {_, pushed}, _},
            {'receive', stop},
            {exit, normal}
        ],
        Events
    ).

an_elixir_server_is_woven(_Config) ->
    case dyno_elixir:folders() of
        [_ | _] ->
            {Events, _} = in_node(elixir, []),
            ?assertMatch(
                [
                    {spawned, _, {'Elixir.WovenServer', init, [_]}},
                    {'receive', {'$gen_call', _, question}},
                    {send, asked, _},
                    {send, {_, question}, _}
                ],
                Events
            );
        [] ->
            {skip, "there is no Elixir"}
    end.

a_process_is_stopped_before(_Config) ->
    {Events, Got} = in_node(forms, [#{run => bad, stop => true}]),
    ?assertEqual({send, forbidden, self}, setelement(3, lists:last(Events), self)),
    ?assertMatch([good, {'DOWN', _, _, _, {dyno_verify, #{verdict := no}}}], Got),
    {_, Told} = in_node(forms, [#{run => bad}]),
    ?assertMatch([good, forbidden, later, {'DOWN', _, _, _, normal}], Told).

unmonitored_code_does_the_same(_Config) ->
    {[], Got} = in_node(forms, [#{run => bad, monitored => false}]),
    ?assertMatch([good, forbidden, later, {'DOWN', _, _, _, normal}], Got).

in_node(Function, Arguments) ->
    {ok, Peer, _} = peer:start_link(#{
        connection => standard_io, args => lists:append([["-pa", P] || P <- code:get_path()])
    }),
    Result = peer:call(Peer, ?MODULE, Function, Arguments, 30_000),
    ok = peer:stop(Peer),
    Result.

%% In the node

workload() ->
    lists:foreach(
        fun(Module) ->
            Source = proplists:get_value(source, Module:module_info(compile)),
            {ok, Module, Beam} = compile:file(Source, [binary, {parse_transform, dyno_inline}]),
            true = code:delete(Module),
            _ = code:purge(Module),
            {module, Module} = code:load_binary(Module, Source, Beam)
        end,
        [dyno_workload_master, dyno_workload_worker]
    ),
    {ok, Pid} = monitored(dyno_agent_workload_monitor, #{}),
    #{status := complete} = dyno_workload:once(#{workers => 500, requests => 20, time_ms => 200}),
    timer:sleep(100),
    dyno_agent_verifier:finish(Pid).

monitored(Monitor, Config) ->
    dyno_agent_verifier:start_link(Config#{
        instrumentation => dyno_agent_inline_verify, monitors => [Monitor], sink => self()
    }).

elixir() ->
    ok = dyno_elixir:start(),
    _ = 'Elixir.Code':compile_string(?ELIXIR),
    register(collecting, self()),
    {ok, _} = monitored(?MODULE, #{}),
    {ok, Server} = gen_server:start('Elixir.WovenServer', self(), []),
    question = gen_server:call(Server, question),
    collected([], []).

forms(#{run := What} = Options) ->
    lists:foreach(
        fun(Source) ->
            {ok, Tokens, _} = erl_scan:string(Source),
            {ok, Module, Beam} = compile:forms(forms(Tokens, []), [return_errors]),
            {module, Module} = code:load_binary(Module, "", Beam)
        end,
        [?PROGRAM, ?STATE_MACHINE]
    ),
    register(collecting, self()),
    case Options of
        #{monitored := false} ->
            ok;
        #{} ->
            {ok, _} = monitored(?MODULE, maps:with([stop], Options))
    end,
    case What of
        server ->
            {ok, Server} = gen_server:start(woven_program, [], []),
            {question, 0} = gen_server:call(Server, question),
            ok = gen_server:cast(Server, hello),
            Server ! info,
            _ = gen_server:call(Server, last);
        machine ->
            {ok, Machine} = gen_statem:start(woven_machine, [], []),
            ok = gen_statem:cast(Machine, hello),
            pushed = gen_statem:call(Machine, push),
            {closed, 1} = gen_statem:call(Machine, push),
            pushed = gen_statem:call(Machine, push),
            Machine ! stop;
        _ ->
            %% As woven code starts it.
            {_, Ref} = spawn_monitor(woven_program, '-dyno_run-', [
                self(), {woven_program, run, [What, self()]}
            ]),
            receive
                {'DOWN', Ref, _, _, _} = Down -> self() ! Down
            end
    end,
    collected([], []).

forms([], []) ->
    [];
forms([{dot, _} = Dot | Rest], Form) ->
    {ok, Parsed} = erl_parse:parse_form(lists:reverse([Dot | Form])),
    [Parsed | forms(Rest, [])];
forms([Token | Rest], Form) ->
    forms(Rest, [Token | Form]).

collected(Events, Got) ->
    receive
        {an_event, Event} -> collected([Event | Events], Got);
        {dyno_verify, _, _} -> collected(Events, Got);
        Other -> collected(Events, [Other | Got])
    after 200 -> {lists:reverse(Events), lists:reverse(Got)}
    end.

%% The monitor

needs() ->
    #{
        select => [
            {function, woven_program, run, 2}
            | [{function, M, init, 1} || M <- [woven_program, woven_machine, 'Elixir.WovenServer']]
        ],
        events => [send, 'receive', spawn, exit]
    }.

init(_Process) -> state.

event(Event, _TimeNs, State) ->
    collecting ! {an_event, Event},
    case Event of
        {send, forbidden, _} -> {no, #{step => ~"forbidden"}, State};
        _ -> {next, State}
    end.
