%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_peers).
-moduledoc "Real nodes without dyno, for tests.".

-export([
    start/0, start/1,
    stop/1,
    with_node/1,
    send/2,
    load/2,
    load_bench/2,
    save/2,
    eval/2,
    hooks/2,
    needs_own_funs/1,
    forms/1
]).

-doc "A fresh node, not linked to the caller, controlled over its standard input.".
start() ->
    start([]).

start(Arguments) ->
    ok = dyno_target_node:ensure_distribution(#{}),
    {ok, Peer, Node} = peer:start(#{
        name => peer:random_name(),
        connection => standard_io,
        args => ["-setcookie", atom_to_list(erlang:get_cookie()) | Arguments]
    }),
    {Peer, Node}.

stop({Peer, _Node}) ->
    try
        peer:stop(Peer)
    catch
        %% The test has killed it.
        exit:_ -> ok
    end.

-doc "Runs a test with a fresh node.".
with_node(Test) ->
    {_, Node} = Peer = start(),
    try
        Test(Node)
    after
        stop(Peer)
    end.

-doc "Compiles a module from source text and loads it in a node.".
load(Node, Source) ->
    {Module, Binary} = once(Source, fun() -> compile:forms(forms(Source), [debug_info]) end),
    {module, Module} = erpc:call(Node, code, load_binary, [Module, "test", Binary]),
    Module.

%% Many cases of a suite load the same.
once(Source, Compile) ->
    Key = {?MODULE, erlang:md5(unicode:characters_to_binary(Source))},
    case persistent_term:get(Key, none) of
        none ->
            {ok, Module, Binary} = Compile(),
            ok = persistent_term:put(Key, {Module, Binary}),
            {Module, Binary};
        Compiled ->
            Compiled
    end.

-doc "Loads a module of this node in another.".
send(Node, Module) ->
    {Module, Binary, File} = code:get_object_code(Module),
    erpc:call(Node, code, load_binary, [Module, File, Binary]).

-doc "Compiles a module of the folder bench and loads it in a node.".
load_bench(Node, Module) ->
    Source = filename:join([dyno_project:root(), "bench", atom_to_list(Module) ++ ".erl"]),
    {Module, Binary} = once(Source, fun() -> compile:file(Source, [binary]) end),
    {module, Module} = erpc:call(Node, code, load_binary, [Module, Source, Binary]),
    Module.

-doc "Compiles a module from source text into a folder.".
save(Folder, Source) ->
    {ok, Module, Binary} = compile:forms(forms(Source), [debug_info]),
    file:write_file(filename:join(Folder, atom_to_list(Module) ++ ".beam"), Binary).

-doc "The forms of a module in source text; whitespace must follow each.".
forms(Source) ->
    {ok, Tokens, _} = erl_scan:string(Source),
    lists:map(
        fun(FormTokens) ->
            {ok, Form} = erl_parse:parse_form(FormTokens),
            Form
        end,
        split(Tokens, [])
    ).

split([], []) -> [];
split([{dot, _} = Dot | Rest], Form) -> [lists:reverse([Dot | Form]) | split(Rest, [])];
split([Token | Rest], Form) -> split(Rest, [Token | Form]).

-doc "Evaluates expressions in a node, in a process of its own.".
eval(Node, Source) ->
    {ok, Tokens, _} = erl_scan:string(Source),
    {ok, Expressions} = erl_parse:parse_exprs(Tokens),
    {value, Value, _} = erpc:call(Node, erl_eval, exprs, [Expressions, #{}]),
    Value.

-doc "What `sys` calls at each event of a process: dyno's hook is one of these.".
hooks(Node, Pid) ->
    {status, Pid, _, [_, _, _, Debug, _]} = erpc:call(Node, sys, get_status, [Pid]),
    Debug.

-doc """
A case whose other nodes call funs of modules that they load from their files: these have none of
what coverage has compiled here.
""".
needs_own_funs(Config) ->
    case code:which(dyno_bench_inputs) of
        cover_compiled -> {skip, "coverage is being measured"};
        _ -> Config
    end.
