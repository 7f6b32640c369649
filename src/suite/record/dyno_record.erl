%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_record).
-moduledoc """
Records what nodes do that run, without a load and without a suite: what `dyno record` does.

```erlang
{ok, Recording} = dyno_record:run(['shop@host'], #{
    duration_ms => 30_000, patterns => ["app:shop"]
}).
```

It is a test of one run whose load is `none` (`m:dyno_load_none`): this module stands in for the
suite, and names the nodes. All instruments run that a test has, and the servers'.
""".

-behaviour(dyno_test_callbacks).

-export([run/2]).
-export([form/0, warnings/1, connection/1, suite/1, init_suite/1, init_run/3, load/4]).
-export([end_run/3, end_suite/2]).
-export_type([options/0]).

-doc """
Those of a test but `sizes`, `seed`, `control`, `agents` and what is of its load. By default
`patterns` are the functions of all applications that are neither of OTP nor of Elixir, or where
there is none, of such modules; `servers` are all.
""".
-type options() :: dyno_test:options().

-type callbacks() :: dyno_test_callbacks:t().

-define(DURATION_MS, 30_000).
-define(OPTIONS, [
    duration_ms, warmup_ms, interval_ms, patterns, servers, thresholds, level, budget, profile,
    distribution, without, repeat, invariants, instruments, timeout_ms, code_paths, cookie, name,
    recording, progress, watch
]).
%% Not in a folder of OTP's, but of those who made the language.
-define(ELIXIR, [elixir, eex, ex_unit, iex, logger, mix, hex]).

-doc """
Records for a while. The process may be interrupted (`dyno_test:interrupt/1`); what was measured is
kept.

## Errors
A node cannot be reached, or an option is wrong: nothing was measured.
""".
-spec run([node(), ...], options()) ->
    {ok, dyno_recording:document()} | {error, dyno_error:error()}.
run(Nodes, Options) ->
    maybe
        ok ?= dyno_option:known(?OPTIONS, Options),
        ok ?= dyno_target_node:connect(Nodes, maps:with([cookie, name], Options)),
        %% Looks at the node's health, in which dyno_doctor finds what is wrong.
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

%% Where no application runs, as in a shell or a script: modules from elsewhere than the release's
%% or Elixir's folders.
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
            %% Such as those of the agent, which was sent.
            Path =/= [],
            not lists:prefix("dyno_", atom_to_list(Module)),
            not lists:any(fun(Root) -> lists:prefix(Root, Path) end, Roots)
        ]
    catch
        error:{erpc, _} -> []
    end.

%% A release has those of OTP beside its own: this machine's OTP says which they are.
applications(Node) ->
    try
        Running = dyno_remote:call(Node, application, which_applications, []),
        {ok, Folders} = file:list_dir(code:lib_dir()),
        Otp = [list_to_atom(hd(string:split(Folder, "-"))) || Folder <- Folders],
        Others = [Name || {Name, _, _} <- Running, not lists:member(Name, ?ELIXIR ++ Otp)],
        Modules = dyno_remote:each(Node, [{application, get_key, [N, modules]} || N <- Others]),
        [Name || {Name, Of} <- lists:zip(Others, Modules), Of =/= {ok, []}]
    catch
        %% The one who attaches to it says what is wrong.
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

-spec load(callbacks(), pos_integer(), undefined, term()) -> {ok, {module(), dyno_suite:load()}}.
load(_Callbacks, _Size, _State, _Options) ->
    {ok, {dyno_load_none, #{model => none}}}.

-spec end_run(callbacks(), undefined, dyno_test_callbacks:info()) -> {ok, ok}.
end_run(_Callbacks, _State, _Info) -> {ok, ok}.

-spec end_suite(callbacks(), undefined) -> {ok, ok}.
end_suite(_Callbacks, _State) -> {ok, ok}.
