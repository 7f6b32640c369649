%% A performance test of @APP@. Run it, and open the report in a browser:
%%
%%     rebar3 dyno test @NAME@ -o @NAME@.html
%%
%% It runs as it stands, but asks @APP@ for nothing yet: change operation/1.
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
        patterns => ["app:@APP@"],
        %% Where one does not hold the exit status is 1, for scripts and CI.
        thresholds => ["latency.p99 < 200 ms", "errors.rate == 0 %"]
    }.

%% Before each run: @APP@ in a node of its own, which needs no dyno.
%% A node that runs already: {ok, ['@APP@@db1'], '@APP@@db1'}.
init_run(_Clients, _SuiteState) ->
    {ok, Node} = dyno_peer:start(#{name => "@APP@", applications => [@APP@]}),
    %% The nodes to look into, and what init_worker/2 and end_run/1 are given.
    {ok, [Node], Node}.

%% Each client, in a process of its own: open its connection here. This one is a process in the
%% node that makes its calls. Clients are as many as the size; load/2 can say otherwise, also how
%% many operations a second.
init_worker(_Id, Node) ->
    dyno_client:start(Node).

%% One operation, timed: what a client does again and again. Put a call of your own in the
%% place of this one@SUCH_AS@.
%% To a server it is a request: gen_server:call({my_server, Node}, Request).
operation(Client) ->
    _ = dyno_client:call(Client, application, get_all_env, [@APP@]),
    {ok, Client}.

%% After each run, also where something failed: undefined where init_run/2 did.
end_run(undefined) ->
    ok;
end_run(Node) ->
    dyno_peer:stop(Node).
