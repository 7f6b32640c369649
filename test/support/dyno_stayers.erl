%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_stayers).
-moduledoc """
Processes that are in a measured function when the agent goes, and whose code goes later: what
doc/architecture.md calls the first trap of the runtime. Runs in a node of its own, which may crash.
""".

-export([survive/0]).
%% Entered anew
-export([loop/0]).

-define(COUNT, 200).
-define(STAY_MS, 50).

-doc "Measures, detaches while calls are under way, unloads the code and traces the processes.".
-spec survive() -> survived.
survive() ->
    stays = load(
        io_lib:format(
            "-module(stays). -export([stay/0]). "
            "stay() -> receive after ~b -> ok end, stayed.",
            [?STAY_MS]
        )
    ),
    Pids = [spawn(fun ?MODULE:loop/0) || _ <- lists:seq(1, ?COUNT)],
    {ok, Agent} = dyno_agent:attach(node(), #{}),
    {ok, _} = dyno_agent:start(Agent, dyno_agent_calls, #{
        patterns => [{stays, '_', '_'}], measures => [call_time]
    }),
    _ = [P ! stay || P <- Pids],
    timer:sleep(?STAY_MS div 5),
    _ = dyno_agent:detach(Agent),
    timer:sleep(4 * ?STAY_MS),
    _ = [purge(load(many(stays, N))) || N <- lists:seq(1, 60)],
    %% Other code takes the place of what went.
    _ = [load(many(list_to_atom("filler_" ++ integer_to_list(N)), N)) || N <- lists:seq(1, 100)],
    Session = trace:session_create(later, self(), []),
    _ = [trace:process(Session, P, true, [call]) || P <- Pids],
    _ = [ok = each_answers(Pids) || _ <- lists:seq(1, 20)],
    true = trace:session_destroy(Session),
    survived.

each_answers(Pids) ->
    _ = [P ! {are_you_there, self()} || P <- Pids],
    _ = [
        receive
            {here, P} -> ok
        end
     || P <- Pids
    ],
    ok.

-doc false.
loop() ->
    receive
        stay ->
            stayed = stays:stay(),
            loop();
        {are_you_there, From} ->
            From ! {here, self()},
            loop()
    end.

load(Source) ->
    {ok, Module, Binary} = compile:forms(dyno_peers:forms(lists:flatten(Source)), []),
    {module, Module} = code:load_binary(Module, "stayers", Binary),
    Module.

%% The first function's size is another each time: what follows lies elsewhere.
many(Module, N) ->
    [
        io_lib:format("-module(~w). -compile([export_all, nowarn_export_all]). ", [Module]),
        ["f(X) -> {", [io_lib:format("X + ~b, ", [I]) || I <- lists:seq(1, N)], "X}. "],
        [io_lib:format("f~b(X) -> {X, ~b, [~b]}. ", [I, N, I]) || I <- lists:seq(1, N)]
    ].

purge(Module) ->
    code:purge(Module).
