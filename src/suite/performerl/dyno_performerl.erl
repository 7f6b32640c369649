%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_performerl).
-moduledoc """
Runs suites written for PerformERL (Cazzola, Cesarini, Tansini 2022) as they are.

Such a suite has the ten callbacks of the behaviour `performerl_load_generator`: `get_test_name/0`,
`get_test_sizes/0`, `get_load_duration/0`, `get_trace_patterns/0`, `test_setup/0`, `setup_run/1`,
`start_load/2`, `stop_load/1`, `teardown_run/1`, `test_teardown/1`. This module knows what each
returns and brings it to the form that `dyno_test` works with; `dyno_performerl_load` times
`start_load` and `stop_load`.
""".

-export([callbacks/0, is_suite/1, missing/1, connection/1]).
-export([suite/1, init_suite/1, init_run/2, end_run/1, end_suite/2]).
-export_type([run/0]).

-doc "What is known of a run for its tear-down.".
-type run() :: #{nodes := [node()], info => term()}.

-type callbacks() :: dyno_test_callbacks:callbacks().

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
%% A module with so many of them is meant to be such a suite.
-define(SOME, 3).
%% PerformERL limits nothing; what takes longer than this has hung.
-define(TIMEOUT_MS, 300_000).
-define(NODE, 'performerl@127.0.0.1').
-define(COOKIE, performerl).
-define(STOP_MS, 5000).

-doc "The callbacks of `performerl_load_generator`, all of them mandatory.".
-spec callbacks() -> [{atom(), arity()}].
callbacks() -> ?CALLBACKS.

-doc "Whether a module is meant to be such a suite: it declares the behaviour, or looks so.".
-spec is_suite(module()) -> boolean().
is_suite(Module) ->
    Behaviours = lists:append([
        B || {Key, B} <- Module:module_info(attributes), Key =:= behaviour orelse Key =:= behavior
    ]),
    lists:member(performerl_load_generator, Behaviours) orelse
        length(?CALLBACKS) - length(missing(Module)) >= ?SOME.

-doc "The callbacks that a module lacks.".
-spec missing(module()) -> [{atom(), arity()}].
missing(Module) ->
    ?CALLBACKS -- Module:module_info(exports).

-doc """
Gives this node the name and the cookie that such suites expect, where it has no name yet: they
start nodes with `erlang:get_cookie()` or with the cookie `performerl`. It is a visible node, as
PerformERL's is, because suites wait for their nodes to come up in `nodes()`.
""".
-spec connection(#{name => atom(), cookie => atom()}) -> ok | {error, dyno_target_node:reason()}.
connection(Options) ->
    Name = with_host(maps:get(name, Options, ?NODE)),
    WasAlive = is_alive(),
    ok = programs_on_path(),
    case dyno_target_node:ensure_distribution(#{target => Name, name => Name, hidden => false}) of
        ok when WasAlive -> set_cookie(Options);
        ok -> set_cookie(maps:merge(#{cookie => ?COOKIE}, Options));
        {error, {name_form, _, _}} when WasAlive -> set_cookie(Options);
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

%% `os:cmd("erl -detached ...")` must find the Erlang that runs here, installed or not.
programs_on_path() ->
    case os:find_executable("erl") of
        false ->
            Bin = filename:join(code:root_dir(), "bin"),
            true = os:putenv("PATH", Bin ++ ":" ++ os:getenv("PATH", "")),
            ok;
        _ ->
            ok
    end.

%% The callbacks, in the form of dyno_test_callbacks

-doc "The test's description, from four callbacks.".
-spec suite(callbacks()) ->
    {{ok, dyno_suite:config()} | {error, dyno_test_callbacks:reason()}, callbacks()}.
suite(Callbacks) ->
    described(
        [
            {get_test_name, fun name/1, "a string"},
            {get_test_sizes, fun sizes/1, "{Label, [Size]} with sizes of 0 or more"},
            {get_load_duration, fun duration/1, "a positive integer of milliseconds"},
            {get_trace_patterns, fun patterns/1, "a list of {Module, Function, Arity}"}
        ],
        #{warmup_ms => 0, load => performerl, timeout_ms => ?TIMEOUT_MS},
        Callbacks
    ).

described([], Config, Callbacks) ->
    {{ok, Config}, Callbacks};
described([{Function, Read, Expected} | Rest], Config, Callbacks) ->
    case dyno_test_callbacks:call(Callbacks, Function, []) of
        {{ok, Value}, Next} ->
            case Read(Value) of
                {ok, Part} ->
                    described(Rest, maps:merge(Config, Part), Next);
                error ->
                    dyno_test_callbacks:bad_return(Next, Function, 0, Value, Expected)
            end;
        Failed ->
            Failed
    end.

name(Name) when is_list(Name), Name =/= []; is_binary(Name), Name =/= <<>> ->
    case text(Name) of
        Text when is_binary(Text) -> {ok, #{name => Text}};
        error -> error
    end;
name(Name) when is_atom(Name) -> {ok, #{name => atom_to_binary(Name)}};
name(_Other) -> error.

sizes({Label, Sizes}) when length(Sizes) > 0 ->
    case {label(Label), lists:all(fun(S) -> is_integer(S) andalso S >= 0 end, Sizes)} of
        {Text, true} when is_binary(Text) -> {ok, #{size_label => Text, sizes => Sizes}};
        _ -> error
    end;
sizes(_Other) ->
    error.

label(Label) when is_atom(Label) ->
    binary:replace(atom_to_binary(Label), ~"_", ~" ", [global]);
label(Label) when is_list(Label), Label =/= []; is_binary(Label), Label =/= <<>> ->
    text(Label);
label(_Other) ->
    error.

text(Chars) ->
    try unicode:characters_to_binary(Chars) of
        Text when is_binary(Text) -> Text;
        _ -> error
    catch
        error:badarg -> error
    end.

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
-spec init_suite(callbacks()) ->
    {{ok, term()} | {error, dyno_test_callbacks:reason()}, callbacks()}.
init_suite(Callbacks) ->
    %% Such suites ran in rebar3, which has these for its own use: they just call httpc.
    _ = [application:ensure_all_started(Application) || Application <- [ssl, inets]],
    case dyno_test_callbacks:call(Callbacks, test_setup, []) of
        {{ok, {ok, Info}}, Next} -> {{ok, Info}, Next};
        {{ok, Other}, Next} ->
            dyno_test_callbacks:bad_return(Next, test_setup, 0, Other, "{ok, TestInfo}");
        Failed -> Failed
    end.

-doc "`setup_run/1`, which starts the nodes.".
-spec init_run(callbacks(), non_neg_integer()) ->
    {{ok, {[node()], run()}} | {error, dyno_test_callbacks:reason()}, callbacks()}.
init_run(Callbacks0, Size) ->
    Callbacks = dyno_test_callbacks:keep_run(Callbacks0, undefined),
    Expected = "{run_started, [Node]}",
    case dyno_test_callbacks:call(Callbacks, setup_run, [Size]) of
        {{ok, {run_started, [_ | _] = Given} = Value}, Next} ->
            case lists:all(fun is_atom/1, Given) of
                true ->
                    Nodes = lists:uniq(Given),
                    Run = #{nodes => Nodes},
                    %% Not as a hidden node, as dyno would: start_load may look into nodes().
                    lists:foreach(fun net_kernel:connect_node/1, Nodes -- [node()]),
                    {{ok, {Nodes, Run}}, dyno_test_callbacks:keep_run(Next, Run)};
                false ->
                    dyno_test_callbacks:bad_return(Next, setup_run, 1, Value, Expected)
            end;
        {{ok, Other}, Next} ->
            dyno_test_callbacks:bad_return(Next, setup_run, 1, Other, Expected);
        Failed ->
            Failed
    end.

-doc """
`teardown_run/1`, with what the load gave for it, or `undefined` where it gave nothing. Where that
fails the nodes are stopped outright, as PerformERL does: they were started for this run.
""".
-spec end_run(callbacks()) ->
    {{ok, term()} | {error, dyno_test_callbacks:reason()}, callbacks()}.
end_run(Callbacks) ->
    Run = dyno_test_callbacks:kept_run(Callbacks),
    Info =
        case Run of
            #{info := Given} -> Given;
            _ -> undefined
        end,
    case dyno_test_callbacks:tear_down(Callbacks, teardown_run, Info) of
        {{ok, run_ended}, _} = Ended ->
            Ended;
        {{ok, Other}, Next} ->
            dyno_test_callbacks:bad_return(Next, teardown_run, 1, Other, "run_ended");
        Failed ->
            _ = [stop_node(Node) || #{nodes := Nodes} <- [Run], Node <- Nodes, Node =/= node()],
            Failed
    end.

stop_node(Node) ->
    try
        erpc:call(Node, init, stop, [], ?STOP_MS)
    catch
        %% It is gone already.
        error:{erpc, _} -> ok
    end.

-doc "`test_teardown/1`.".
-spec end_suite(callbacks(), term()) ->
    {{ok, term()} | {error, dyno_test_callbacks:reason()}, callbacks()}.
end_suite(Callbacks, Info) ->
    case dyno_test_callbacks:tear_down(Callbacks, test_teardown, Info) of
        {{ok, ok}, _} = Ended -> Ended;
        {{ok, Other}, Next} ->
            dyno_test_callbacks:bad_return(Next, test_teardown, 1, Other, "ok");
        Failed -> Failed
    end.
