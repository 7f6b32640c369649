%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_profile_subject).
-moduledoc false.
%% Starts the subject of a profile: an expression, evaluated repeatedly in its own node, or a
%% command, whose emulator becomes a node.
%%
%% A command is started with `ERL_AFLAGS`, by which each of its emulators connects to this node and
%% waits for permission. The first one is profiled; the others continue at once.

-export([eval/1, command/1, go/1, stop/1, format_error/1]).
-export_type([t/0, reason/0]).

-type t() :: #{
    node := node(),
    %% For a command: the waiting process, and the started program.
    waits => pid(),
    program => {os_pid, non_neg_integer()} | undefined,
    %% For an expression.
    process => pid()
}.

-type reason() ::
    {syntax, Column :: pos_integer() | unknown, unicode:chardata()}
    | {raised, binary(), term()}
    | {no_emulator, binary(), Status :: non_neg_integer() | timeout}.

-define(MODULE_OF_CODE, eval).
%% An exception comes at once, if at all.
-define(TRIED_MS, 300).
-define(STARTED_MS, 60_000).

-doc "Evaluates an expression repeatedly; the node ends with the calling process.".
-spec eval(binary()) -> dyno_error:result(t()).
eval(Text) ->
    maybe
        {ok, Expressions} ?= parsed(Text),
        {ok, Binary} ?= compiled(Expressions),
        {ok, Node} ?= dyno_peer:start(#{name => "eval"}),
        {module, _} = erpc:call(Node, code, load_binary, [?MODULE_OF_CODE, "eval", Binary]),
        %% Exceptions are reported here, not there.
        ok = erpc:call(Node, logger, set_primary_config, [level, none]),
        {Pid, Monitor} = spawn_monitor(Node, ?MODULE_OF_CODE, loop, []),
        receive
            {'DOWN', Monitor, process, Pid, Reason} ->
                ok = dyno_peer:stop(Node),
                {error, {?MODULE, {raised, Text, Reason}}}
        after ?TRIED_MS ->
            true = demonitor(Monitor, [flush]),
            {ok, #{node => Node, process => Pid}}
        end
    end.

parsed(Text) ->
    Code = string:trim(string:trim(unicode:characters_to_list(Text)), trailing, "."),
    case erl_scan:string(Code ++ " .", {1, 1}) of
        {ok, Tokens, _} ->
            End = erl_scan:location(lists:last(Tokens)),
            case erl_parse:parse_exprs(Tokens) of
                {ok, Expressions} -> {ok, Expressions};
                {error, Error} -> syntax(dyno_syntax:error(Tokens, End, Error))
            end;
        {error, {At, Module, Why}, _} ->
            syntax({At, Module:format_error(Why)})
    end.

syntax({At, Why}) ->
    Column =
        case At of
            {_, Of} -> Of;
            _ -> unknown
        end,
    {error, {?MODULE, {syntax, Column, Why}}}.

compiled(Expressions) ->
    Call = fun(Name) -> {call, 1, {atom, 1, Name}, []} end,
    Function = fun(Name, Body) -> {function, 1, Name, 0, [{clause, 1, [], [], Body}]} end,
    Forms = [
        {attribute, 1, module, ?MODULE_OF_CODE},
        {attribute, 1, export, [{loop, 0}, {run, 0}]},
        Function(loop, [Call(run), Call(loop)]),
        Function(run, Expressions)
    ],
    Compiled = [erl_parse:new_anno(Form) || Form <- Forms],
    case compile:forms(Compiled, [return_errors, nowarn_unused_vars]) of
        {ok, _, Binary} -> {ok, Binary};
        {error, [{_, [{At, Module, Why} | _]} | _], _} -> syntax({At, Module:format_error(Why)})
    end.

-doc "Starts a command, and waits for its first emulator, which waits for `go/1`.".
-spec command(binary()) -> dyno_error:result(t()).
command(Command) ->
    maybe
        %% Its emulators use this name.
        ok ?= dyno_target_node:ensure_distribution(#{targets => ['run@localhost']}),
        {ok, Environment} ?= dyno_error:attempt(fun environment/0),
        true = named(),
        %% Its output goes to standard error: standard output is for the report.
        Port = open_port({spawn_executable, "/bin/sh"}, [
            {args, ["-c", <<"(", Command/binary, ") </dev/null >&2">>]},
            {env, Environment},
            nouse_stdio,
            exit_status
        ]),
        Program = erlang:port_info(Port, os_pid),
        receive
            {?MODULE, started, Node, Pid} ->
                {ok, #{node => Node, waits => Pid, program => Program}};
            {Port, {exit_status, Status}} ->
                {error, {?MODULE, {no_emulator, Command, Status}}};
            dyno_interrupt ->
                ok = dyno_program:signal("TERM", Program),
                {error, {dyno_error, interrupted}}
        after ?STARTED_MS ->
            ok = dyno_program:signal("TERM", Program),
            {error, {?MODULE, {no_emulator, Command, timeout}}}
        end
    end.

%% The emulators send to the process of that name.
named() ->
    case whereis(?MODULE) of
        undefined -> register(?MODULE, self());
        Pid -> Pid =:= self()
    end.

environment() ->
    [{"ERL_AFLAGS", flags()} | dyno_cookie:environment()].

%% No spaces and no single quotes: the emulator's launcher splits the text. An emulator without an
%% answer (this node is gone) continues. All users can read the text: the cookie is in a file.
flags() ->
    {Domain, At} =
        case {net_kernel:longnames(), string:split(atom_to_list(node()), "@")} of
            {true, [_, Host]} -> {"longnames", ["++\"@", Host, "\""]};
            _ -> {"shortnames", ""}
        end,
    lists:flatten([
        "-eval 'case(net_kernel:start(list_to_atom(\"dyno_run_\"++os:getpid()",
        At,
        "),#{name_domain=>",
        Domain,
        ",hidden=>true,dist_listen=>false}))of{ok,_}->",
        "case(file:read_file(",
        io_lib:format("~w", [dyno_cookie:file()]),
        "))of{ok,Cookie}->erlang:set_cookie(binary_to_atom(Cookie,latin1));_->(ok)end,{",
        atom_to_list(?MODULE),
        ",list_to_atom(\"",
        atom_to_list(node()),
        "\")}!{",
        atom_to_list(?MODULE),
        ",started,node(),self()},receive(go)->(ok)after(15000)->(ok)end;_->(ok)end.' ",
        os:getenv("ERL_AFLAGS", "")
    ]).

-doc "Lets a command and its other emulators continue.".
-spec go(#{waits => pid(), _ => _}) -> ok.
go(#{waits := Pid}) ->
    Pid ! go,
    ok;
go(_Subject) ->
    ok.

-spec stop(t()) -> ok.
stop(#{process := _, node := Node}) ->
    dyno_peer:stop(Node);
stop(#{program := Program}) ->
    dyno_program:signal("TERM", Program).

-spec format_error(reason()) -> unicode:chardata().
format_error({syntax, unknown, Text}) ->
    io_lib:format("the expression of --eval is no Erlang: ~ts", [Text]);
format_error({syntax, Column, Text}) ->
    io_lib:format("the expression of --eval is no Erlang, at column ~b: ~ts", [Column, Text]);
format_error({raised, Text, Reason}) ->
    io_lib:format("~ts raises ~0tP; give --eval what can be evaluated over and over", [
        Text, without_stack(Reason), 10
    ]);
format_error({no_emulator, Command, timeout}) ->
    io_lib:format(
        "~ts has started no Erlang emulator within a minute; --run profiles only those", [Command]
    );
format_error({no_emulator, Command, Status}) ->
    io_lib:format(
        "~ts has ended with status ~b and started no Erlang emulator that dyno was told of; --run "
        "profiles only those of OTP 27 or later",
        [Command, Status]
    ).

without_stack({Reason, [_ | _]}) -> Reason;
without_stack(Reason) -> Reason.
