%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_suite_caller).
-moduledoc false.
%% The process in which a suite's callbacks run. It lives as long as the test, so that what a
%% set-up links to lives as long; it is killed when a callback takes too long, and with it go the
%% nodes that it started. What callbacks print goes to standard error.

-export([start/0, borrow/1, revive/1, stop/1, call/4, format_error/1]).
-export_type([caller/0, reason/0]).

-opaque caller() :: #{pid := pid(), monitor := reference()}.

-type reason() ::
    {raised, mfa(), error | exit | throw, term(), erlang:stacktrace()}
    | {timeout, mfa(), TimeoutMs :: pos_integer()}
    | {ended, mfa(), term()}
    | interrupted.

-doc "Starts it, linked to the caller, which must trap exits.".
-spec start() -> caller().
start() ->
    Parent = self(),
    {Pid, Monitor} = spawn_opt(
        fun() ->
            true = group_leader(whereis(standard_error), self()),
            proc_lib:set_label(?MODULE),
            loop(Parent)
        end,
        [link, monitor]
    ),
    #{pid => Pid, monitor => Monitor}.

-doc "The same process, to be called by the process that asks for it.".
-spec borrow(caller()) -> caller().
borrow(#{pid := Pid}) ->
    #{pid => Pid, monitor => monitor(process, Pid)}.

-doc "The same, or a new one where something it is linked to has ended it.".
-spec revive(caller()) -> caller().
revive(#{pid := Pid, monitor := Monitor} = Caller) ->
    case is_process_alive(Pid) of
        true ->
            Caller;
        false ->
            demonitor(Monitor, [flush]),
            start()
    end.

%% Other messages are the suite's: a later callback may receive them.
loop(Parent) ->
    receive
        {?MODULE, Asker, Ref, Module, Function, Arguments} ->
            Asker ! {Ref, apply_callback(Module, Function, Arguments)},
            loop(Parent);
        {Parent, stop} ->
            ok
    end.

apply_callback(Module, Function, Arguments) ->
    try
        {ok, apply(Module, Function, Arguments)}
    catch
        Class:Reason:Stack ->
            MFA = {Module, Function, length(Arguments)},
            {error, {raised, MFA, Class, Reason, Stack}}
    end.

-doc """
Calls a function there. After a time-out or an interrupt the process is dead and must be started
anew.
""".
-spec call(caller(), {module(), atom(), [term()]}, pos_integer(), Interrupt :: term()) ->
    {ok, term()} | {error, reason()}.
call(#{pid := Pid, monitor := Monitor}, {Module, Function, Arguments}, TimeoutMs, Interrupt) ->
    MFA = {Module, Function, length(Arguments)},
    Ref = make_ref(),
    Pid ! {?MODULE, self(), Ref, Module, Function, Arguments},
    receive
        {Ref, Answer} ->
            Answer;
        {'DOWN', Monitor, process, Pid, Reason} ->
            {error, {ended, MFA, Reason}};
        Interrupt ->
            kill(Pid, Monitor),
            {error, interrupted}
    after TimeoutMs ->
        kill(Pid, Monitor),
        {error, {timeout, MFA, TimeoutMs}}
    end.

kill(Pid, Monitor) ->
    exit(Pid, kill),
    receive
        {'DOWN', Monitor, process, Pid, _} -> ok
    end.

-doc "Ends it, and what is linked to it.".
-spec stop(caller()) -> ok.
stop(#{pid := Pid, monitor := Monitor}) ->
    %% Not `normal`: linked nodes must go, too.
    exit(Pid, shutdown),
    receive
        {'DOWN', Monitor, process, Pid, _} -> ok
    after 5000 ->
        exit(Pid, kill),
        ok
    end.

-doc "One sentence for a reason.".
-spec format_error(reason()) -> unicode:chardata().
format_error({raised, {M, F, A}, error, {badmatch, {error, Reason}}, Stack}) ->
    %% `{ok, Node} = dyno_peer:start(...)` is what a suite is told to write.
    io_lib:format("~ts:~ts/~b failed~ts: ~ts", [M, F, A, place(M, Stack), explain(Reason)]);
format_error({raised, {M, F, A}, error, undef, [{Module, Function, Args, _} | _] = Stack}) ->
    Arity =
        case Args of
            _ when is_list(Args) -> length(Args);
            _ -> Args
        end,
    io_lib:format("~ts:~ts/~b called ~ts:~ts/~b~ts, which ~ts", [
        M, F, A, Module, Function, Arity, place(M, Stack), lacking(Module)
    ]);
format_error({raised, {M, F, A}, Class, Reason, Stack}) ->
    io_lib:format("~ts:~ts/~b raised ~ts:~0tP~ts", [M, F, A, Class, Reason, 15, place(M, Stack)]);
format_error({timeout, {M, F, A}, TimeoutMs}) ->
    io_lib:format(
        "~ts:~ts/~b had not returned after ~b ms; raise timeout_ms in suite/0, or give --timeout, "
        "if it needs longer",
        [M, F, A, TimeoutMs]
    );
format_error({ended, {M, F, A}, Reason}) ->
    io_lib:format(
        "the process of the suite ended in ~ts:~ts/~b: ~0tP; something it is linked to died",
        [M, F, A, Reason, 15]
    );
format_error(interrupted) ->
    "interrupted".

%% A suite that explains itself is taken at its word.
explain([C | _] = Text) when is_integer(C) ->
    Text;
explain(Text) when is_binary(Text) ->
    Text;
explain(Reason) ->
    try
        dyno_peer:format_error(Reason)
    catch
        error:function_clause -> io_lib:format("~0tP", [Reason, 15])
    end.

lacking(Module) ->
    case code:which(Module) of
        non_existing ->
            io_lib:format(
                "is not there: no module ~ts is on the code path; give its folder with --pa",
                [Module]
            );
        _ ->
            "that module does not have"
    end.

place(Module, Stack) ->
    Lines = [
        {File, Line}
     || {M, _, _, Info} <- Stack,
        M =:= Module,
        {file, File} <- Info,
        {line, Line} <- Info
    ],
    case Lines of
        [{File, Line} | _] -> io_lib:format(" at ~ts:~b", [File, Line]);
        [] -> ""
    end.
