%% A performance test. Run it, and open the report in a browser:
%%
%%     rebar3 dyno test @NAME@ -o @NAME@.html   in a project that has dyno as a plugin
%%     dyno test @NAME@.erl -o @NAME@.html      anywhere
%%
%% As it stands it asks how OTP's logger, writing to a file, bears 1, 4 and 16 clients. Put your
%% own system in its place, from top to bottom.
-module(@MODULE@).
-behaviour(dyno_suite).
-export([suite/0, init_run/2, init_worker/2, operation/1, end_run/1]).

suite() ->
    #{
        name => "@NAME@",
        %% A run for each size. A size counts what you want to see grow: here, clients.
        sizes => [1, 4, 16],
        size_label => "clients",
        %% Loaded but not measured, then measured.
        warmup_ms => 500,
        duration_ms => 3000,
        %% The functions to measure: "my_module", "my_*" or "app:my_app".
        patterns => ["logger", "logger_*"],
        %% Where one does not hold the exit status is 1, for scripts and CI.
        thresholds => ["latency.p99 < 200 ms", "errors.rate == 0 %"]
    }.

%% Before each run: the system under test, in a node of its own, which needs no dyno.
%% Your application: dyno_peer:start(#{name => "shop", applications => [shop]}).
%% A node that runs already: {ok, ['shop@db1'], 'shop@db1'}.
init_run(_Clients, _SuiteState) ->
    {ok, Node} = dyno_peer:start(#{name => "@NAME@"}),
    ok = erpc:call(Node, logger, remove_handler, [default]),
    Handler = #{config => #{file => log_file(Node)}},
    ok = erpc:call(Node, logger, add_handler, [to_file, logger_std_h, Handler]),
    %% The nodes to look into, and what init_worker/2 and end_run/1 are given.
    {ok, [Node], Node}.

%% Each client, in a process of its own: open its connection here. This one is a process in the
%% node that makes its calls. Clients are as many as the size; load/2 can say otherwise, also how
%% many operations a second.
init_worker(Id, Node) ->
    {ok, Client} = dyno_client:start(Node),
    {ok, {Client, Id}}.

%% One operation, timed: what a client does again and again.
operation({Client, Id} = State) ->
    ok = dyno_client:call(Client, logger, error, ["client ~b says hello", [Id]]),
    {ok, State}.

%% After each run, also where something failed: undefined where init_run/2 did.
end_run(undefined) ->
    ok;
end_run(Node) ->
    ok = dyno_peer:stop(Node),
    file:delete(log_file(Node)).

log_file(Node) ->
    filename:absname(atom_to_list(Node) ++ ".log").
