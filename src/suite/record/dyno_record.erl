%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_record).
-moduledoc """
Records running nodes, without a load and a suite, for `dyno record`.

```erlang
{ok, Recording} = dyno_record:run(['shop@host'], #{
    duration_ms => 30_000, patterns => ["app:shop"]
}).
```

The recording is a test of one run without a load: this module replaces the suite, and names the
nodes. All instruments of a test run, and those of servers.
""".

-behaviour(dyno_test_callbacks).

-export([run/2]).
-export([form/0, warnings/1, connection/1, suite/1, init_suite/1, init_run/3, load/4]).
-export([end_run/3, end_suite/2]).
-export_type([options/0]).

-doc """
The options of a test, except `sizes`, `seed`, `control`, `agents` and those of its load. By default
`patterns` are the functions of all applications outside of OTP and Elixir, or without applications
of all such modules; `servers` are all.
""".
-type options() :: dyno_test:options().

-type callbacks() :: dyno_test_callbacks:t().

-define(DURATION_MS, 30_000).
%% Options of tests without a meaning here.
-define(OF_TESTS, [sizes, seed, control, agents, load, load_nodes]).
%% Not in OTP's folders, but part of the language.
-define(ELIXIR, [elixir, eex, ex_unit, iex, logger, mix, hex]).

-doc """
Records for a while. The process may be interrupted (`dyno_test:interrupt/1`); the results so far
are kept.

## Errors
A node is unreachable, or an option is wrong: nothing was measured.
""".
-spec run([node(), ...], options()) -> dyno_error:result(dyno_recording:document()).
run(Nodes, Options) ->
    maybe
        ok ?= dyno_option:known(dyno_test:keys() -- ?OF_TESTS, Options),
        ok ?= dyno_target_node:connect(Nodes, maps:with([cookie, name], Options)),
        %% Looks at the node's health, in which dyno_doctor finds problems.
        Instruments = maps:get(instruments, Options, []) ++ [dyno_agent_look],
        dyno_test:run({?MODULE, given(Nodes, Options)}, Options#{instruments => Instruments})
    end.

given(Nodes, #{patterns := _}) ->
    #{nodes => Nodes, patterns => []};
given(Nodes, _Options) ->
    Patterns =
        case lists:append([applications(Node) || Node <- Nodes]) of
            [] -> lists:append([loaded(Node) || Node <- Nodes]);
            Applications -> [{application, Name} || Name <- Applications]
        end,
    #{nodes => Nodes, patterns => lists:usort(Patterns)}.

%% Without applications, as in a script: modules outside of the release's and Elixir's folders.
loaded(Node) ->
    try
        [Elixir, Otp, Loaded] = dyno_remote:each(Node, [
            {code, lib_dir, [elixir]}, {code, root_dir, []}, {code, all_loaded, []}
        ]),
        Roots = [Otp | [filename:dirname(Elixir) || is_list(Elixir)]],
        [
            {Module, '_', '_'}
         || {Module, Path} <- Loaded,
            is_list(Path),
            %% For example the agent's modules, which were sent.
            Path =/= [],
            not lists:prefix("dyno_", atom_to_list(Module)),
            not lists:any(fun(Root) -> lists:prefix(Root, Path) end, Roots)
        ]
    catch
        error:{erpc, _} -> []
    end.

%% A release has OTP's applications next to its own: this machine's OTP tells them apart.
applications(Node) ->
    try
        Running = dyno_remote:call(Node, application, which_applications, []),
        {ok, Folders} = file:list_dir(code:lib_dir()),
        Otp = [list_to_atom(hd(string:split(Folder, "-"))) || Folder <- Folders],
        Others = [Name || {Name, _, _} <- Running, not lists:member(Name, ?ELIXIR ++ Otp)],
        Modules = dyno_remote:each(Node, [{application, get_key, [N, modules]} || N <- Others]),
        [Name || {Name, Of} <- lists:zip(Others, Modules), Of =/= {ok, []}]
    catch
        %% Attaching reports the problem.
        error:{erpc, _} -> []
    end.

%% The callbacks

-spec form() -> dyno_test_callbacks:form().
form() ->
    #{command => record, invariants => invariants, unmatched => refuse}.

-spec warnings(module()) -> [].
warnings(_Module) -> [].

-doc "Done before.".
-spec connection(#{atom() => term()}) -> ok.
connection(_Options) -> ok.

-spec suite(callbacks()) -> {ok, dyno_suite:config()}.
suite(Callbacks) ->
    #{nodes := Nodes, patterns := Patterns} = dyno_test_callbacks:given(Callbacks),
    {ok, #{
        name => dyno_observed:name(Nodes),
        sizes => [1],
        load => none,
        control => false,
        duration_ms => ?DURATION_MS,
        patterns => Patterns,
        servers => ["all"]
    }}.

-spec init_suite(callbacks()) -> {ok, undefined}.
init_suite(_Callbacks) -> {ok, undefined}.

-spec init_run(callbacks(), pos_integer(), undefined) ->
    {ok, {[dyno_suite:target()], undefined}}.
init_run(Callbacks, _Size, State) ->
    #{nodes := Nodes} = dyno_test_callbacks:given(Callbacks),
    {ok, {[{Node, default} || Node <- Nodes], State}}.

-spec load(callbacks(), pos_integer(), undefined, term()) -> {ok, {none, dyno_suite:load()}}.
load(_Callbacks, _Size, _State, _Options) ->
    {ok, {none, #{model => none}}}.

-spec end_run(callbacks(), undefined, dyno_test_callbacks:info()) -> {ok, ok}.
end_run(_Callbacks, _State, _Info) -> {ok, ok}.

-spec end_suite(callbacks(), undefined) -> {ok, ok}.
end_suite(_Callbacks, _State) -> {ok, ok}.
