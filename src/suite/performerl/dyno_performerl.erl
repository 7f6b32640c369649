%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_performerl).
-moduledoc """
Runs suites written for PerformERL (Cazzola, Cesarini, Tansini 2022) unchanged.

These suites have the ten callbacks of the behaviour `performerl_load_generator`: `get_test_name/0`,
`get_test_sizes/0`, `get_load_duration/0`, `get_trace_patterns/0`, `test_setup/0`, `setup_run/1`,
`start_load/2`, `stop_load/1`, `teardown_run/1`, `test_teardown/1`. This module converts their
results for `dyno_test`; `dyno_performerl_load` calls `start_load` and `stop_load`.
""".

-behaviour(dyno_test_callbacks).

-export([is_suite/1, missing/1, connection/1]).
-export([form/0, warnings/1, suite/1, init_suite/1, init_run/3, load/4, end_run/3, end_suite/2]).
-export([format_error/1]).

-import(dyno_test_callbacks, [call/3, tear_down/3, read/4]).

-type callbacks() :: dyno_test_callbacks:t().
-type result(Value) :: dyno_test_callbacks:result(Value).
-type run() :: #{nodes := [node()]}.

-define(CALLBACKS, [
    {get_test_name, 0},
    {get_test_sizes, 0},
    {get_load_duration, 0},
    {get_trace_patterns, 0},
    {test_setup, 0},
    {setup_run, 1},
    {start_load, 2},
    {stop_load, 1},
    {teardown_run, 1},
    {test_teardown, 1}
]).
%% A module with this number of callbacks is meant as such a suite.
-define(SOME, 3).
%% PerformERL has no limits; a longer call hangs.
-define(TIMEOUT_MS, 300_000).
-define(NODE, 'performerl@127.0.0.1').
-define(COOKIE, performerl).
-define(STOP_MS, 5000).

-doc "Whether a module is meant as such a suite: it has the behaviour, or some callbacks.".
-spec is_suite(module()) -> boolean().
is_suite(Module) ->
    Behaviours = lists:append([
        B
     || {Key, B} <- Module:module_info(attributes), Key =:= behaviour orelse Key =:= behavior
    ]),
    lists:member(performerl_load_generator, Behaviours) orelse
        length(?CALLBACKS) - length(missing(Module)) >= ?SOME.

-doc "A module's missing callbacks.".
-spec missing(module()) -> [{atom(), arity()}].
missing(Module) ->
    ?CALLBACKS -- Module:module_info(exports).

-doc """
Gives an unnamed node the name and cookie (`performerl`) that these suites expect. It is visible,
because suites wait for their nodes in `nodes()`.
""".
-spec connection(dyno_target_node:options()) -> dyno_error:result().
connection(Options) ->
    Name = with_host(maps:get(name, Options, ?NODE)),
    WasAlive = is_alive(),
    ok = programs_on_path(),
    case
        dyno_target_node:ensure_distribution(#{targets => [Name], name => Name, hidden => false})
    of
        ok when WasAlive -> set_cookie(Options);
        ok -> set_cookie(maps:merge(#{cookie => ?COOKIE}, Options));
        {error, {dyno_target_node, {name_form, _, _}}} when WasAlive -> set_cookie(Options);
        {error, _} = Error -> Error
    end.

with_host(Name) ->
    case string:find(atom_to_list(Name), "@") of
        nomatch -> list_to_atom(atom_to_list(Name) ++ "@127.0.0.1");
        _ -> Name
    end.

set_cookie(#{cookie := Cookie}) ->
    true = erlang:set_cookie(Cookie),
    ok;
set_cookie(_Options) ->
    ok.

%% `os:cmd("erl -detached ...")` must find this Erlang, installed or not.
programs_on_path() ->
    case os:find_executable("erl") of
        false ->
            Bin = filename:join(code:root_dir(), "bin"),
            true = os:putenv("PATH", Bin ++ ":" ++ os:getenv("PATH", "")),
            ok;
        _ ->
            ok
    end.

%% The callbacks

-doc "PerformERL ignores patterns without a match, so these suites may name absent functions.".
-spec form() -> dyno_test_callbacks:form().
form() ->
    #{
        command => test,
        set_up => "setup_run/1",
        invariants => get_invariants,
        unmatched => leave_out
    }.

-spec warnings(module()) -> [].
warnings(_Module) -> [].

-doc "The test's description, from four callbacks.".
-spec suite(callbacks()) -> result(dyno_suite:config()).
suite(Callbacks) ->
    described(
        [
            {get_test_name, fun name/1, "a string"},
            {get_test_sizes, fun sizes/1, "{Label, [Size]} with sizes of 0 or more"},
            {get_load_duration, fun duration/1, "a positive integer of milliseconds"},
            {get_trace_patterns, fun patterns/1, "a list of {Module, Function, Arity}"}
        ],
        #{warmup_ms => 0, load => performerl, level => time, timeout_ms => ?TIMEOUT_MS},
        Callbacks
    ).

described([], Config, _Callbacks) ->
    {ok, Config};
described([{Function, Read, Expected} | Rest], Config, Callbacks) ->
    Result = call(Callbacks, Function, []),
    maybe
        {ok, Part} ?= read(Result, {Callbacks, Function, 0}, Read, Expected),
        described(Rest, maps:merge(Config, Part), Callbacks)
    end.

name(Name) ->
    maybe
        {ok, Text} ?= dyno_option:name(Name),
        {ok, #{name => Text}}
    end.

sizes({Label, Sizes}) when length(Sizes) > 0 ->
    case {label(Label), lists:all(fun(S) -> is_integer(S) andalso S >= 0 end, Sizes)} of
        {{ok, Text}, true} -> {ok, #{size_label => Text, sizes => Sizes}};
        _ -> error
    end;
sizes(_Other) ->
    error.

label(Label) when is_atom(Label) ->
    {ok, binary:replace(atom_to_binary(Label), ~"_", ~" ", [global])};
label(Label) ->
    dyno_option:text(Label).

duration(Ms) when is_integer(Ms), Ms > 0 -> {ok, #{duration_ms => Ms}};
duration(_Other) -> error.

patterns(Patterns) when length(Patterns) >= 0 ->
    case lists:all(fun(P) -> dyno_agent_patterns:validate(P) =:= ok end, Patterns) of
        true -> {ok, #{patterns => lists:usort(Patterns)}};
        false -> error
    end;
patterns(_Other) ->
    error.

-doc "`test_setup/0`.".
-spec init_suite(callbacks()) -> result(term()).
init_suite(Callbacks) ->
    %% These suites ran in rebar3, which starts these applications: suites just call httpc.
    _ = [application:ensure_all_started(Application) || Application <- [ssl, inets]],
    Info = fun
        ({ok, Info}) -> {ok, Info};
        (_Other) -> error
    end,
    read(call(Callbacks, test_setup, []), {Callbacks, test_setup, 0}, Info, "{ok, TestInfo}").

-doc "`setup_run/1`, which starts the nodes.".
-spec init_run(callbacks(), non_neg_integer(), term()) -> result({[dyno_suite:target()], run()}).
init_run(Callbacks, Size, _SuiteState) ->
    Result = call(Callbacks, setup_run, [Size]),
    maybe
        {ok, Nodes} ?=
            read(Result, {Callbacks, setup_run, 1}, fun started/1, "{run_started, [Node]}"),
        %% Not as a hidden node, as in dyno: start_load may read nodes().
        lists:foreach(fun net_kernel:connect_node/1, Nodes -- [node()]),
        {ok, {[{Node, default} || Node <- Nodes], #{nodes => Nodes}}}
    end.

started({run_started, [_ | _] = Names}) ->
    case lists:all(fun is_atom/1, Names) of
        true -> {ok, lists:uniq(Names)};
        false -> error
    end;
started(_Other) ->
    error.

-doc "The suite gives its load itself: command-line options do not apply.".
-spec load(callbacks(), non_neg_integer(), run(), {performerl, dyno_load_spec:override()}) ->
    result({module(), dyno_suite:load()}).
load(_Callbacks, _Size, _Run, {performerl, Override}) when map_size(Override) =:= 0 ->
    {ok, {dyno_performerl_load, #{model => performerl}}};
load(_Callbacks, _Size, _Run, _Wanted) ->
    {error, {?MODULE, gives_load_itself}}.

-doc "`teardown_run/1` with its load's data; if it fails, the run's nodes are stopped.".
-spec end_run(callbacks(), run() | undefined, dyno_test_callbacks:info()) -> result(term()).
end_run(Callbacks, Run, Info) ->
    RunInfo =
        case Info of
            {info, Value} -> Value;
            none -> undefined
        end,
    Result = tear_down(Callbacks, teardown_run, RunInfo),
    _ = [
        stop_node(Node)
     || {error, _} <- [Result], #{nodes := Nodes} <- [Run], Node <- Nodes, Node =/= node()
    ],
    read(Result, {Callbacks, teardown_run, 1}, only(run_ended), "run_ended").

only(Value) ->
    fun
        (Is) when Is =:= Value -> {ok, Value};
        (_Other) -> error
    end.

stop_node(Node) ->
    try
        erpc:call(Node, init, stop, [], ?STOP_MS)
    catch
        %% Already gone.
        error:{erpc, _} -> ok
    end.

-doc "`test_teardown/1`.".
-spec end_suite(callbacks(), term()) -> result(term()).
end_suite(Callbacks, Info) ->
    read(tear_down(Callbacks, test_teardown, Info), {Callbacks, test_teardown, 1}, only(ok), "ok").

-spec format_error(gives_load_itself) -> unicode:chardata().
format_error(gives_load_itself) ->
    "a suite of PerformERL gives its load itself; leave --load, --rate and the like out".
