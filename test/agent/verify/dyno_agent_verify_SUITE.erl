%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_verify_SUITE).
-moduledoc "Monitors in a real node: traces are complete and in order, faults are told, nothing is left.".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

%% Workers get 1..N from their parent, and send each on to a sink.
-define(SYSTEM, """
-module(known_workers).
-export([run/3, worker/1, idle/0, parent/4, floods/2, flood/2, server/1, most/1, waited/1]).
-export([init/1, handle_call/3, handle_cast/2]).
%% Workers a batch at a time, so that many live at once; returns when all have ended.
run(Workers, Requests, Parents) ->
    Sink = spawn(fun Sink() -> receive _ -> Sink() end end),
    Refs = [
        element(2, spawn_monitor(known_workers, parent, [Workers div Parents, Requests, 500, Sink]))
     || _ <- lists:seq(1, Parents)
    ],
    [receive {'DOWN', Ref, process, _, normal} -> ok end || Ref <- Refs],
    exit(Sink, kill),
    ok.
parent(0, _Requests, _Batch, _Sink) -> ok;
parent(Left, Requests, Batch, Sink) ->
    N = min(Left, Batch),
    Pids = [spawn_monitor(known_workers, worker, [Sink]) || _ <- lists:seq(1, N)],
    [Pid ! {self(), Request, Requests} || Request <- lists:seq(1, Requests), {Pid, _} <- Pids],
    [receive {'DOWN', Ref, process, _, normal} -> ok end || {_, Ref} <- Pids],
    parent(Left - N, Requests, Batch, Sink).
worker(Sink) ->
    receive
        {_, Last, Last} -> Sink ! Last, ok;
        {_, N, _} -> Sink ! N, worker(Sink)
    end.
idle() -> receive stop -> ok; _ -> idle() end.
flood(Pid, 0) -> Pid ! stop, ok;
flood(Pid, N) -> Pid ! {message, N, lists:seq(1, 20)}, flood(Pid, N - 1).
floods(Processes, N) ->
    Refs = [
        begin
            {Pid, Ref} = spawn_monitor(known_workers, idle, []),
            spawn(known_workers, flood, [Pid, N]),
            Ref
        end
     || _ <- lists:seq(1, Processes)
    ],
    [receive {'DOWN', Ref, process, _, normal} -> ok end || Ref <- Refs],
    ok.
most(Pids) -> spawn_opt(fun() -> most(Pids, 0) end, [{priority, max}]).
most(Pids, Most) ->
    receive
        {most, From} -> From ! {most, Most}
    after 2 ->
        most(Pids, max(Most, lists:sum([N ||
            Pid <- Pids, {_, N} <- [process_info(Pid, message_queue_len)]])))
    end.
waited(Pid) -> Pid ! {most, self()}, receive {most, Most} -> Most end.
server(Name) -> gen_server:start({local, Name}, known_workers, [Name], []).
init([Name]) -> {ok, Name}.
handle_call(stop, _From, Name) -> {stop, normal, ok, Name};
handle_call(_, _From, Name) -> {reply, Name, Name}.
handle_cast(_, Name) -> {noreply, Name}.

""").

%% The trace of a worker is init, 1..N received and sent in turn, exit. Anything else is `no`; a
%% whole one is `yes`.
-define(NUMBERED, """
-module(known_numbered).
-export([needs/0, init/1, event/3]).
needs() -> #{select => [{function, known_workers, worker, 1}], events => [send, 'receive']}.
init(#{partial := Partial}) -> case Partial of true -> partial; false -> new end.
event({spawned, Parent, {known_workers, worker, [_]}}, _, new) when is_pid(Parent) ->
    {next, {took, 0, none, 0}};
event({'receive', {_, N, Total}}, _, {took, Got, _, Sent}) when N =:= Got + 1 ->
    {next, {took, N, Total, Sent}};
event({send, N, _}, _, {took, Got, Total, Sent}) when N =:= Sent + 1, N =< Got ->
    {next, {took, Got, Total, N}};
event({exit, normal}, _, {took, Total, Total, Total} = State) -> {yes, #{step => ~"exit"}, State};
event(Event, _, State) ->
    {no, #{step => ~"out of order", bindings => #{'Event' => Event, 'State' => State}}, State}.

""").

%% It takes 10 us an event.
-define(SLOW, """
-module(known_slow).
-export([needs/0, init/1, event/3, ended/1]).
needs() -> #{select => [{function, known_workers, idle, 0}], events => ['receive']}.
init(_) -> 0.
event({'receive', {message, N, _}}, _, _) ->
    spin(erlang:monotonic_time(microsecond) + 10),
    {next, N};
event(_, _, N) -> {next, N}.
ended(1) -> {yes, #{step => ~"the last one"}};
ended(N) -> {no, #{step => ~"not the last one", bindings => #{'N' => N}}}.
spin(Until) ->
    case erlang:monotonic_time(microsecond) < Until of
        true -> spin(Until);
        false -> ok
    end.

""").

-define(COUNTING, """
-module(known_counting).
-export([needs/0, init/1, event/3, ended/1]).
needs() -> #{select => [{module, known_workers}], events => ['receive', send, exit]}.
init(_) -> 0.
event(_, _, N) -> {next, N + 1}.
ended(N) -> {yes, #{step => ~"end", bindings => #{'N' => N}}}.

""").

-define(BAD, """
-module(known_bad).
-export([needs/0, init/1, event/3, forever/0]).
needs() -> #{select => [{function, known_workers, worker, 1}], events => ['receive']}.
init(_) -> none.
event({'receive', {_, 3, _}}, _, _) -> error(third);
event({'receive', {_, 77, _}}, _, _) -> forever();
event(_, _, State) -> {next, State}.
forever() -> forever(), ok.

""").

suite() ->
    [{timetrap, {minutes, 3}}].

newest_release_only() -> [more_than_may_wait, a_monitor_that_never_returns, processes_are_chosen].

all() ->
    [
        each_trace_is_whole,
        a_violation_is_told,
        processes_are_chosen,
        calls_are_filtered_for_each,
        a_running_process_is_partial,
        a_monitor_that_crashes,
        a_monitor_that_never_returns,
        never_at_the_end,
        the_tracer_is_killed,
        more_than_may_wait,
        more_memory_than_may_wait,
        the_system_is_killed,
        the_caller_is_killed
    ].

slow() ->
    [more_memory_than_may_wait].

init_per_suite(Config) ->
    ok = dyno_target_node:ensure_distribution(#{}),
    Config.

end_per_suite(_Config) ->
    ok.

each_trace_is_whole(_Config) ->
    Workers = 10_000,
    verifying([?NUMBERED], #{}, fun(Node, Pid) ->
        ok = erpc:call(Node, known_workers, run, [Workers, 10, 4]),
        Summary = dyno_agent_verifier:finish(Pid),
        ct:log("~tp", [Summary]),
        #{verdicts := #{monitors := #{known_numbered := Of}} = Verdicts} = Summary,
        ?assertMatch(#{processes := Workers, yes := Workers, no := 0, crashed := 0}, Of),
        ?assertMatch(
            #{opened := Workers, complete := Workers, gap := 0, partial := 0, cut := 0}, Verdicts
        )
    end).

a_violation_is_told(_Config) ->
    verifying([?NUMBERED], #{}, fun(Node, Pid) ->
        Worker = erpc:call(Node, erlang, spawn, [known_workers, worker, [self()]]),
        Worker ! {self(), 1, 10},
        Worker ! {self(), 3, 10},
        Worker ! {self(), 10, 10},
        receive
            {dyno_verify, Node, {verdict, Report}} ->
                ct:log("~tp", [Report]),
                #{
                    verdict := no,
                    trace := complete,
                    monitor := known_numbered,
                    process := #{pid := Worker, initial_call := {known_workers, worker, 1}},
                    explanation := #{step := ~"out of order"},
                    events := [
                        {_, {spawned, _, {known_workers, worker, [_]}}},
                        {T1, {'receive', {_, 1, 10}}}
                        | _
                    ] = Events
                } = Report,
                {T2, {'receive', {_, 3, 10}}} = lists:last(Events),
                ?assert(T2 >= T1)
        end,
        #{verdicts := #{opened := 1}} = dyno_agent_verifier:finish(Pid)
    end).

%% By the function that a process runs, seen through proc_lib, gen and funs; by name, label, pid.
processes_are_chosen(_Config) ->
    in_node([?COUNTING], fun(Node) ->
        Started = fun(Select, Start) ->
            {Agent, Pid} = attach(Node, [known_counting], #{select => [Select]}),
            Start(),
            #{verdicts := #{opened := Opened}} = dyno_agent_verifier:finish(Pid),
            _ = dyno_agent:detach(Agent),
            Opened
        end,
        Eval = fun(Text) -> fun() -> dyno_peers:eval(Node, Text) end end,
        Ends = "receive {'DOWN', R, process, _, _} -> ok end.",
        Spawned = "{_, R} = spawn_monitor(known_workers, flood, [self(), 0]), " ++ Ends,
        Server =
            "{ok, P} = known_workers:server(known), R = monitor(process, P), "
            "gen_server:call(P, stop), " ++ Ends,
        Labelled =
            "{_, R} = spawn_monitor(fun() -> proc_lib:set_label({job, 7}), self() ! a end), " ++
                Ends,
        Proc =
            "R = monitor(process, proc_lib:spawn(known_workers, flood, [self(), 0])), " ++ Ends,
        Fun =
            "{_, R} = spawn_monitor(fun known_workers:idle/0), element(2, "
            "lists:keyfind(monitors, 1, [{monitors, whereis(init)}])), "
            "exit(element(2, lists:last(element(2, process_info(self(), monitors)))), kill), " ++
                Ends,
        ?assertEqual(1, Started({function, known_workers, flood, 2}, Eval(Spawned))),
        ?assertEqual(0, Started({function, known_workers, flood, 3}, Eval(Spawned))),
        ?assertEqual(1, Started({function, known_workers, flood, '_'}, Eval(Proc))),
        ?assertEqual(1, Started({module, known_workers}, Eval(Server))),
        ?assertEqual(1, Started({function, known_workers, init, 1}, Eval(Server))),
        ?assertEqual(1, Started({registered, known}, Eval(Server))),
        ?assertEqual(0, Started({registered, unknown}, Eval(Server))),
        ?assertEqual(1, Started({label, {job, 7}}, Eval(Labelled))),
        ?assertEqual(0, Started({label, {job, 8}}, Eval(Labelled))),
        ?assertEqual(1, Started({module, known_workers}, Eval(Fun))),
        Init = erpc:call(Node, erlang, whereis, [init]),
        ?assertEqual(1, Started({pid, Init}, fun() -> ok end)),
        ?assert(Started({application, kernel}, fun() -> ok end) > 10)
    end).

%% Two monitors want calls of one function, with other arguments, and a third one its returns.
calls_are_filtered_for_each(_Config) ->
    Sources = [
        calls(
            "known_" ++ N,
            "{call, known_workers, flood, 2, {['_', " ++ N ++ "], []}}",
            "{call, {known_workers, flood, [_, " ++ N ++ "]}}"
        )
     || N <- ["0", "1"]
    ],
    lists:foreach(
        fun(More) ->
            verifying(Sources ++ More, #{}, fun(Node, Pid) ->
                dyno_peers:eval(
                    Node,
                    "{_, R} = spawn_monitor(known_workers, flood, [self(), 2]), "
                    "receive {'DOWN', R, process, _, _} -> ok end."
                ),
                #{verdicts := #{monitors := Monitors}} = dyno_agent_verifier:finish(Pid),
                ?assertEqual([1 || _ <- Sources ++ More], [Yes || _ := #{yes := Yes} <- Monitors])
            end)
        end,
        [[], [calls("known_returns", "{return, known_workers, flood, 2}", "{return, _, _}")]]
    ).

calls(Name, Filter, Event) ->
    lists:flatten(
        io_lib:format(
            "-module(~s).\n"
            "-export([needs/0, init/1, event/3]).\n"
            "needs() -> #{select => [{function, known_workers, flood, 2}], events => [~s]}.\n"
            "init(_) -> none.\n"
            "event(~s, _, S) -> {yes, #{step => ~~\"it\"}, S};\n"
            "event(_, _, S) -> {next, S}.\n\n",
            [Name, Filter, Event]
        )
    ).

a_running_process_is_partial(_Config) ->
    in_node([?COUNTING], fun(Node) ->
        {ok, Server} = erpc:call(Node, known_workers, server, [known]),
        {Agent, Pid} = attach(Node, [known_counting], #{}),
        [known = gen_server:call(Server, N) || N <- lists:seq(1, 10)],
        #{verdicts := #{partial := 0, opened := 1, open := 1}} = dyno_agent_verifier:peek(Pid),
        ok = gen_server:call(Server, stop),
        ok = dyno_leftovers:until(fun() ->
            #{verdicts := #{partial := N}} = dyno_agent_verifier:peek(Pid),
            N =:= 1
        end),
        #{verdicts := #{complete := 0, partial := 1, open := 0}} = dyno_agent_verifier:finish(Pid),
        _ = dyno_agent:detach(Agent)
    end).

a_monitor_that_crashes(_Config) ->
    verifying([?BAD, ?NUMBERED], #{}, fun(Node, Pid) ->
        ok = erpc:call(Node, known_workers, run, [1000, 10, 2]),
        #{verdicts := #{monitors := Monitors, complete := 1000}} = dyno_agent_verifier:finish(Pid),
        #{known_bad := #{crashed := 1000}, known_numbered := #{yes := 1000, crashed := 0}} =
            Monitors,
        Crashes = received(Node, crashed, 0),
        ?assert(Crashes >= 1 andalso Crashes =< 10)
    end).

received(Node, Kind, N) ->
    receive
        {dyno_verify, Node, What} when element(1, What) =:= Kind -> received(Node, Kind, N + 1)
    after 0 -> N
    end.

%% The end was waited for 20 seconds.
never_at_the_end(_Config) ->
    verifying([?BAD], #{}, fun(Node, Pid) ->
        Worker = erpc:call(Node, erlang, spawn, [known_workers, worker, [self()]]),
        Worker ! {self(), 77, 100},
        receive
            77 -> ok
        end,
        {Us, Summary} = timer:tc(fun() -> dyno_agent_verifier:finish(Pid) end),
        ?assert(Us < 10_000_000, Us),
        #{verdicts := #{gap := 1}, faults := [Fault]} = Summary,
        ?assertMatch({_, _}, binary:match(iolist_to_binary(Fault), ~"does not return: known_bad"))
    end).

%% It is stopped, and the other monitor goes on.
a_monitor_that_never_returns(_Config) ->
    verifying([?BAD, ?NUMBERED], #{}, fun(Node, Pid) ->
        Worker = erpc:call(Node, erlang, spawn, [known_workers, worker, [self()]]),
        Worker ! {self(), 77, 100},
        Stop = fun Again() ->
            Worker ! {self(), 78, 100},
            receive
                {dyno_verify, Node, {fault, Text}} ->
                    iolist_to_binary(Text)
            after 100 -> Again()
            end
        end,
        ?assertMatch({_, _}, binary:match(Stop(), ~"known_bad")),
        ok = dyno_leftovers:until(fun() ->
            #{faults := Faults} = dyno_agent_verifier:peek(Pid),
            length(Faults) =:= 2
        end),
        ok = erpc:call(Node, known_workers, run, [1000, 10, 2]),
        #{verdicts := Verdicts} = dyno_agent_verifier:finish(Pid),
        ct:log("~tp", [Verdicts]),
        #{monitors := #{known_numbered := #{yes := 1000}}, gap := 1} = Verdicts
    end).

%% Who lives has a gap, and goes on as partial; whoever comes later is whole.
the_tracer_is_killed(_Config) ->
    verifying([?COUNTING], #{}, fun(Node, Pid) ->
        Idle = [
            erpc:call(Node, erlang, spawn, [known_workers, idle, []])
         || _ <- lists:seq(1, 20)
        ],
        ok = dyno_leftovers:until(fun() ->
            #{verdicts := #{opened := N}} = dyno_agent_verifier:peek(Pid),
            N =:= 20
        end),
        exit(tracer(Node), kill),
        receive
            {dyno_verify, Node, {fault, _}} -> ok
        end,
        %% It answers when it has all of them again.
        #{verdicts := #{gap := Gap, opened := Again}} = dyno_agent_verifier:peek(Pid),
        ?assert(Gap >= 1),
        ?assertEqual(20 + Gap, Again),
        ok = erpc:call(Node, known_workers, run, [1000, 10, 2]),
        [P ! stop || P <- Idle],
        ok = dyno_leftovers:until(fun() ->
            #{verdicts := #{partial := N}} = dyno_agent_verifier:peek(Pid),
            N =:= Gap
        end),
        #{verdicts := Verdicts} = dyno_agent_verifier:finish(Pid),
        ct:log("~tp", [Verdicts]),
        %% With the two parents.
        ?assert(map_get(complete, Verdicts) >= 1002),
        ?assertMatch(#{gap := Gap, partial := Gap}, Verdicts)
    end).

tracer(Node) ->
    [Tracer] = [
        Pid
     || Pid <- erpc:call(Node, erlang, processes, []),
        dyno_agent_verify_tracer <- [erpc:call(Node, proc_lib, get_label, [Pid])]
    ],
    Tracer.

%% Processes are cut off as a whole; what is told of the others is right.
more_than_may_wait(_Config) ->
    verifying([?NUMBERED], #{limits => #{queue => 3000}}, fun(Node, Pid) ->
        ok = erpc:call(Node, known_workers, run, [20_000, 10, 4]),
        #{verdicts := Verdicts} = dyno_agent_verifier:finish(Pid),
        ct:log("~tp", [Verdicts]),
        #{complete := Complete, gap := Gap, cut := Cut, monitors := Monitors} = Verdicts,
        #{known_numbered := #{yes := Yes, no := No, inconclusive := Unknown}} = Monitors,
        ?assertEqual(20_000, Complete + Gap + Cut),
        ?assertEqual(0, No),
        ?assertEqual(Complete, Yes),
        ?assertEqual(Gap, Unknown),
        ?assert(Gap + Cut > 0)
    end).

%% 500 MB would wait, and 16 MB may: one of these events takes 488 bytes where it waits.
more_memory_than_may_wait(_Config) ->
    Bytes = 16_000_000,
    verifying([?SLOW], #{limits => #{bytes => Bytes}}, fun(Node, Pid) ->
        Most = erpc:call(Node, known_workers, most, [[tracer(Node)]]),
        ok = erpc:call(Node, known_workers, floods, [200, 5000]),
        Summary = dyno_agent_verifier:finish(Pid),
        Waited = erpc:call(Node, known_workers, waited, [Most]),
        ct:log("~b waited at most; ~tp", [Waited, Summary]),
        #{faults := [], verdicts := Verdicts} = Summary,
        #{complete := Complete, gap := Gap, cut := Cut, monitors := Monitors} = Verdicts,
        ?assertEqual(200, Complete + Gap + Cut),
        ?assert(Gap + Cut > 0),
        ?assertMatch(#{known_slow := #{yes := Complete, no := 0, inconclusive := Gap}}, Monitors),
        ?assert(Waited * 488 < 2 * Bytes)
    end).

the_system_is_killed(_Config) ->
    verifying([?COUNTING], #{}, fun(Node, Pid) ->
        Idle = erpc:call(Node, erlang, spawn, [known_workers, idle, []]),
        exit(Idle, kill),
        ok = dyno_leftovers:until(fun() ->
            #{verdicts := #{complete := N}} = dyno_agent_verifier:peek(Pid),
            N =:= 1
        end)
    end).

the_caller_is_killed(_Config) ->
    in_node([?COUNTING], fun(Node) ->
        Self = self(),
        {Caller, Ref} = spawn_monitor(fun() ->
            _ = attach(Node, [known_counting], #{}),
            Self ! attached,
            receive
            after infinity -> ok
            end
        end),
        receive
            attached -> ok
        end,
        Worker = erpc:call(Node, erlang, spawn, [known_workers, idle, []]),
        exit(Caller, kill),
        receive
            {'DOWN', Ref, process, Caller, killed} -> ok
        end,
        ok = dyno_leftovers:until(fun() -> dyno_leftovers:in(Node) =:= [] end),
        Worker ! stop
    end).

verifying(Sources, Config, Test) ->
    in_node(Sources, fun(Node) ->
        {Agent, Pid} = attach(Node, monitors(Sources), Config),
        Test(Node, Pid),
        _ = dyno_agent:detach(Agent)
    end).

monitors(Sources) ->
    [Module || Source <- Sources, {attribute, _, module, Module} <- dyno_peers:forms(Source)].

in_node(Sources, Test) -> dyno_leftovers:in_node([?SYSTEM | Sources], Test).

attach(Node, Monitors, Config) ->
    Modules = dyno_code:closure([dyno_agent_guard, dyno_agent_verifier, dyno_agent_verify]),
    {ok, Agent} = dyno_agent:attach(Node, #{modules => Modules}),
    {ok, Pid} = dyno_agent:start(Agent, dyno_agent_verifier, Config#{
        instrumentation => dyno_agent_verify, monitors => Monitors, sink => self()
    }),
    {Agent, Pid}.
