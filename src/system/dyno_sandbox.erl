%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_sandbox).
-moduledoc false.
%% A process for foreign code: a suite's callbacks, a benchmark's set-up, a compiler with a user's
%% macros. Each call has a time limit, because that code may never return; the process may have a
%% memory limit. The code's tables, linked processes and nodes live until `stop/1` or the end of the
%% owner. A call that is too slow or interrupted ends the process.

-export([start/1, call/3, call/4, is_alive/1, stop/1, once/2, attempt/1, kill/1]).
-export([format_error/1, fault/1]).
-export_type([sandbox/0, options/0, failure/0, reason/0]).

-opaque sandbox() :: #{pid := pid(), monitor := reference()}.

-type options() :: #{
    %% When a process linked by the code dies; default: `survive`.
    links => survive | die,
    %% The receiver of printed text; default: the owner's.
    output => pid() | undefined,
    max_bytes => pos_integer()
}.

-type failure() ::
    {raised, error | exit | throw, term(), erlang:stacktrace()}
    | {died, term()}
    | {timeout, TimeoutMs :: timeout()}
    | interrupted.

-type reason() :: {mfa(), failure()}.

%% Beyond this limit the code would use up the machine's memory before its time is over.
-define(ONCE_BYTES, 2_147_483_648).
-define(STOP_MS, 5000).

-doc "Starts the process, linked to the owner, which must trap exits.".
-spec start(options()) -> sandbox().
start(Options) ->
    Owner = self(),
    {Pid, Monitor} = spawn_opt(fun() -> init(Owner, Options) end, [link, monitor]),
    #{pid => Pid, monitor => Monitor}.

init(Owner, Options) ->
    proc_lib:set_label(?MODULE),
    _ = process_flag(trap_exit, maps:get(links, Options, survive) =:= survive),
    _ = [group_leader(Output, self()) || #{output := Output} <- [Options], is_pid(Output)],
    _ = process_flag(max_heap_size, #{
        size => maps:get(max_bytes, Options, 0) div erlang:system_info(wordsize),
        kill => true,
        error_logger => false
    }),
    serve(Owner).

%% Other messages are the code's: a later call may receive them.
serve(Owner) ->
    receive
        {?MODULE, From, Ref, Fun} ->
            From ! {Ref, attempt(Fun)},
            serve(Owner);
        {'EXIT', Owner, Reason} ->
            exit(Reason)
    end.

-spec attempt(fun(() -> Value)) -> {ok, Value} | {error, failure()}.
attempt(Fun) ->
    try
        {ok, Fun()}
    catch
        Class:Reason:Stack -> {error, {raised, Class, Reason, Stack}}
    end.

-doc "As `call/4`, ended by the message `dyno_interrupt`.".
-spec call(sandbox(), fun(() -> Value), timeout()) -> {ok, Value} | {error, failure()}.
call(Sandbox, Fun, TimeoutMs) ->
    call(Sandbox, Fun, TimeoutMs, dyno_interrupt).

-doc "Evaluates in the sandbox, which is killed after the time, or at the message `Interrupt`.".
-spec call(sandbox(), fun(() -> Value), timeout(), Interrupt :: term()) ->
    {ok, Value} | {error, failure()}.
call(#{pid := Pid} = Sandbox, Fun, TimeoutMs, Interrupt) ->
    Ref = monitor(process, Pid),
    Pid ! {?MODULE, self(), Ref, Fun},
    receive
        {Ref, Result} ->
            true = demonitor(Ref, [flush]),
            Result;
        {'DOWN', Ref, process, Pid, Reason} ->
            {error, {died, cause(Sandbox, Reason)}};
        Interrupt ->
            kill_called(Pid, Ref),
            {error, interrupted}
    after TimeoutMs ->
        kill_called(Pid, Ref),
        {error, {timeout, TimeoutMs}}
    end.

%% The sandbox died before the call: the owner has the reason.
cause(#{monitor := Monitor}, noproc) ->
    receive
        {'DOWN', Monitor, process, _, Reason} -> Reason
    after 0 -> noproc
    end;
cause(_Sandbox, Reason) ->
    Reason.

kill_called(Pid, Ref) ->
    exit(Pid, kill),
    receive
        {'DOWN', Ref, process, Pid, _} -> ok
    end.

-spec is_alive(sandbox()) -> boolean().
is_alive(#{pid := Pid}) ->
    is_process_alive(Pid).

-spec stop(sandbox()) -> ok.
stop(#{pid := Pid, monitor := Monitor}) ->
    unlink(Pid),
    true = demonitor(Monitor, [flush]),
    %% The owner may have taken the first monitor's message.
    Ended = monitor(process, Pid),
    %% Not `normal`: linked nodes and servers must end, too.
    exit(Pid, shutdown),
    receive
        {'DOWN', Ended, process, Pid, _} -> ok
    after ?STOP_MS -> exit(Pid, kill)
    end,
    true = demonitor(Ended, [flush]),
    take_exit(Pid).

-doc "Kills a linked process in any state, and takes its exit from the mailbox.".
-spec kill(pid()) -> ok.
kill(Pid) ->
    unlink(Pid),
    kill_called(Pid, monitor(process, Pid)),
    take_exit(Pid).

take_exit(Pid) ->
    receive
        {'EXIT', Pid, _} -> ok
    after 0 -> ok
    end.

-doc "Evaluates in a new process, with a time limit and 2 GB; more ends as `{died, killed}`.".
-spec once(fun(() -> Value), timeout()) -> {ok, Value} | {error, failure()}.
once(Fun, TimeoutMs) ->
    Trapping = process_flag(trap_exit, true),
    Sandbox = start(#{max_bytes => ?ONCE_BYTES}),
    try
        call(Sandbox, Fun, TimeoutMs)
    after
        stop(Sandbox),
        process_flag(trap_exit, Trapping)
    end.

-doc "The author of the code.".
-spec fault(reason()) -> dyno_error:fault().
fault({_MFA, interrupted}) -> interrupted;
fault({_MFA, _Failure}) -> code.

-doc "One sentence for a failure of a function, with its place in the module if known.".
-spec format_error(reason()) -> unicode:chardata().
format_error({MFA, {raised, error, {badmatch, {error, Reason}}, Stack}}) ->
    %% Suites are taught to write `{ok, Node} = dyno_peer:start(...)`.
    [name(MFA), " failed", place(MFA, Stack), ": ", explanation(Reason)];
format_error({MFA, {raised, error, undef, [{Module, Function, Arguments, _} | _] = Stack}}) ->
    Arity =
        case is_list(Arguments) of
            true -> length(Arguments);
            false -> Arguments
        end,
    [
        name(MFA),
        " called ",
        name({Module, Function, Arity}),
        place(MFA, Stack),
        ", which ",
        missing(Module)
    ];
format_error({MFA, {raised, Class, Reason, Stack}}) ->
    [name(MFA), io_lib:format(" raised ~ts:~0tP", [Class, Reason, 15]), place(MFA, Stack)];
format_error({MFA, {timeout, TimeoutMs}}) ->
    [
        name(MFA),
        io_lib:format(
            " had not returned after ~ts; raise timeout_ms in suite/0, or give --timeout, if it "
            "needs longer",
            [dyno_unit:format(TimeoutMs, ~"ms")]
        )
    ];
format_error({MFA, {died, Reason}}) ->
    io_lib:format("the process of ~ts ended: ~0tP; a linked process died", [name(MFA), Reason, 15]);
format_error({_MFA, interrupted}) ->
    "interrupted".

name({M, F, A}) ->
    io_lib:format("~ts:~ts/~b", [M, F, A]).

%% Code's own explanation is used as it is.
explanation([C | _] = Text) when is_integer(C) ->
    Text;
explanation(Text) when is_binary(Text) ->
    Text;
explanation({Module, Reason} = Error) when is_atom(Module) ->
    try
        Module:format_error(Reason)
    catch
        error:_ -> io_lib:format("~0tP", [Error, 15])
    end;
explanation(Reason) ->
    io_lib:format("~0tP", [Reason, 15]).

missing(Module) ->
    case code:which(Module) of
        non_existing ->
            io_lib:format(
                "is not there: no module ~ts is on the code path; give its folder with --pa",
                [Module]
            );
        _ ->
            "that module does not have"
    end.

place({Module, _, _}, Stack) ->
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
