%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_cli_new_text).
-moduledoc """
The files that `dyno new` writes. Pure.
""".

-export([kinds/0, text/4, module_name/2]).
-export_type([language/0, project/0]).

-type language() :: erlang | elixir.

-doc "The application of the project that a file is for, and some of its functions.".
-type project() :: none | {App :: binary(), Functions :: [binary()]}.

-doc "Each kind, what it is, and the command that runs it.".
-spec kinds() -> [{Kind :: binary(), Text :: binary(), Command :: binary()}, ...].
kinds() ->
    [
        {~"suite", ~"a performance test at growing sizes, for dyno test", ~"test"},
        {~"benchmark", ~"a comparison of codes that is kept, for dyno bench", ~"bench"}
    ].

-doc "The module in a file of that name.".
-spec module_name(language(), string()) -> string().
module_name(erlang, Name) -> Name;
module_name(elixir, Name) -> "Elixir." ++ camel(Name).

camel(Name) ->
    lists:append([string:titlecase(Word) || Word <- string:lexemes(Name, "_")]).

-doc "The file; a suite in a project begins with its application.".
-spec text(Kind :: binary(), language(), Name :: string(), project()) -> binary().
text(Kind, Language, Name, Project) ->
    Module =
        case Language of
            erlang -> Name;
            elixir -> camel(Name)
        end,
    Marks = [{~"@NAME@", list_to_binary(Name)}, {~"@MODULE@", list_to_binary(Module)}],
    lists:foldl(
        fun({Mark, By}, Text) -> binary:replace(Text, Mark, By, [global]) end,
        <<(template(Kind, Language, Project))/binary, $\n>>,
        Marks ++ of_project(Project)
    ).

of_project(none) -> [];
of_project({App, []}) -> [{~"@APP@", App}, {~"@SUCH_AS@", ~""}];
of_project({App, Functions}) ->
    SuchAs = iolist_to_binary([", such as ", lists:join(" or ", Functions)]),
    [{~"@APP@", App}, {~"@SUCH_AS@", SuchAs}].

template(~"suite", erlang, none) -> erlang_suite();
template(~"suite", elixir, none) -> elixir_suite();
template(~"suite", erlang, _Project) -> erlang_suite_of_project();
template(~"suite", elixir, _Project) -> elixir_suite_of_project();
template(~"benchmark", erlang, _Project) -> erlang_benchmark();
template(~"benchmark", elixir, _Project) -> elixir_benchmark().

erlang_suite_of_project() ->
    ~"""
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
    """.

elixir_suite_of_project() ->
    ~"""
    # A performance test of @APP@. Run it, and open the report in a browser:
    #
    #     mix dyno.test @NAME@ -o @NAME@.html
    #
    # It runs as it stands, but asks @APP@ for nothing yet: change operation/1.
    defmodule @MODULE@ do
      use :dyno_suite,
        name: "@NAME@",
        # A run for each size. A size counts what you want to see grow: here, clients.
        sizes: [1, 4, 16],
        size_label: "clients",
        # Loaded but not measured, then measured.
        warmup_ms: 500,
        duration_ms: 3000,
        # The functions to measure: "Shop.Cart", "Shop.*", "Shop.Cart.add/2" or "app:shop".
        patterns: ["app:@APP@"],
        # Where one does not hold the exit status is 1, for scripts and CI.
        thresholds: ["latency.p99 < 200 ms", "errors.rate == 0 %"]

      # Before each run: @APP@ in a node of its own, which needs no dyno.
      # A node that runs already: {:ok, [:"@APP@@db1"], :"@APP@@db1"}.
      def init_run(_clients, _suite_state) do
        {:ok, node} = :dyno_peer.start(%{name: "@APP@", applications: [:@APP@]})
        # The nodes to look into, and what init_worker/2 and end_run/1 are given.
        {:ok, [node], node}
      end

      # Each client, in a process of its own: open its connection here. This one is a process in the
      # node that makes its calls. Clients are as many as the size; load/2 can say otherwise, also
      # how many operations a second.
      def init_worker(_id, node), do: :dyno_client.start(node)

      # One operation, timed: what a client does again and again. Put a call of your own in the
      # place of this one@SUCH_AS@.
      # To a server it is a request: GenServer.call({MyServer, node}, request).
      def operation(client) do
        _ = :dyno_client.call(client, :application, :get_all_env, [:@APP@])
        {:ok, client}
      end

      # After each run, also where something failed: :undefined where init_run/2 did.
      def end_run(:undefined), do: :ok
      def end_run(node), do: :dyno_peer.stop(node)
    end
    """.

erlang_suite() ->
    ~"""
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
    """.

elixir_suite() ->
    ~"""
    # A performance test. Run it, and open the report in a browser:
    #
    #     mix dyno.test @NAME@ -o @NAME@.html      in a project that has dyno as a dependency
    #     dyno test @NAME@.exs -o @NAME@.html      anywhere
    #
    # As it stands it asks how OTP's logger, writing to a file, bears 1, 4 and 16 clients. Put your
    # own system in its place, from top to bottom.
    defmodule @MODULE@ do
      use :dyno_suite,
        name: "@NAME@",
        # A run for each size. A size counts what you want to see grow: here, clients.
        sizes: [1, 4, 16],
        size_label: "clients",
        # Loaded but not measured, then measured.
        warmup_ms: 500,
        duration_ms: 3000,
        # The functions to measure: "Shop.Cart", "Shop.*", "Shop.Cart.add/2" or "app:shop".
        patterns: ["logger", "logger_*"],
        # Where one does not hold the exit status is 1, for scripts and CI.
        thresholds: ["latency.p99 < 200 ms", "errors.rate == 0 %"]

      # Before each run: the system under test, in a node of its own, which needs no dyno.
      # Your application: :dyno_peer.start(%{name: "shop", applications: [:shop]}).
      # A node that runs already: {:ok, [:shop@db1], :shop@db1}.
      def init_run(_clients, _suite_state) do
        {:ok, node} = :dyno_peer.start(%{name: "@NAME@"})
        :ok = :erpc.call(node, :logger, :remove_handler, [:default])
        handler = %{config: %{file: log_file(node)}}
        :ok = :erpc.call(node, :logger, :add_handler, [:to_file, :logger_std_h, handler])
        # The nodes to look into, and what init_worker/2 and end_run/1 are given.
        {:ok, [node], node}
      end

      # Each client, in a process of its own: open its connection here. This one is a process in the
      # node that makes its calls. Clients are as many as the size; load/2 can say otherwise, also
      # how many operations a second.
      def init_worker(id, node) do
        {:ok, client} = :dyno_client.start(node)
        {:ok, {client, id}}
      end

      # One operation, timed: what a client does again and again.
      def operation({client, id} = state) do
        :ok = :dyno_client.call(client, :logger, :error, [~c"client ~b says hello", [id]])
        {:ok, state}
      end

      # After each run, also where something failed: :undefined where init_run/2 did.
      def end_run(:undefined), do: :ok

      def end_run(node) do
        :ok = :dyno_peer.stop(node)
        File.rm(log_file(node))
      end

      defp log_file(node) do
        Path.absname("#{node}.log") |> String.to_charlist()
      end
    end
    """.

erlang_benchmark() ->
    ~"""
    %% Comparisons that are kept. Run them:
    %%
    %%     rebar3 dyno bench @NAME@   in a project that has dyno as a plugin
    %%     dyno bench @NAME@.erl      anywhere
    %%
    %% As it stands it asks which way to find a number in a collection is faster, and how each way
    %% grows with the collection.
    -module(@MODULE@).
    -behaviour(dyno_bench_file).
    -export([benchmarks/0]).

    benchmarks() ->
        [
            #{
                name => "find",
                %% Each code is measured with each of these.
                inputs => [10, 100, 1000],
                %% What the codes take, made once for each input; not measured.
                setup => fun(N) -> {N, lists:seq(1, N), maps:from_keys(lists:seq(1, N), true)} end,
                %% What is compared. Put your own functions here: fun my_module:f/1.
                codes => [
                    {"list", fun({N, List, _}) -> lists:member(N, List) end},
                    {"map", fun({N, _, Map}) -> is_map_key(N, Map) end}
                ],
                %% Nothing is measured where they do not return the same.
                check => same
            }
        ].
    """.

elixir_benchmark() ->
    ~"""
    # Comparisons that are kept. Run them:
    #
    #     mix dyno.bench @NAME@      in a project that has dyno as a dependency
    #     dyno bench @NAME@.exs      anywhere
    #
    # As it stands it asks which way to find a number in a collection is faster, and how each way
    # grows with the collection.
    defmodule @MODULE@ do
      @behaviour :dyno_bench_file

      def benchmarks do
        [
          %{
            name: "find",
            # Each code is measured with each of these.
            inputs: [10, 100, 1000],
            # What the codes take, made once for each input; not measured.
            setup: fn n -> {n, Enum.to_list(1..n), MapSet.new(1..n)} end,
            # What is compared. Put your own functions here: &Shop.price/1.
            codes: [
              {"list", fn {n, list, _} -> n in list end},
              {"set", fn {n, _, set} -> n in set end}
            ],
            # Nothing is measured where they do not return the same.
            check: :same
          }
        ]
      end
    end
    """.
