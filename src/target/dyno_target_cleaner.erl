%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_target_cleaner).
-moduledoc false.
%% The process that comes first to a target and leaves last. It holds the name `dyno_agent`, so that
%% two callers never attach at once. It monitors the caller from before the first module is sent,
%% and removes the modules when the guard has ended. A process can't remove the code that it runs,
%% so this one runs none of ours: it is an expression that the target's own erl_eval evaluates.

-export([start/3, modules/2, guard/2, idle/1, release/2]).
-export_type([cleaner/0]).

-type cleaner() :: #{pid := pid(), ref := reference()}.

-define(NAME, dyno_agent).
%% How long a guard may take to end its instruments before it is killed.
-define(PATIENCE_MS, 30_000).

%% Bindings: Name, Caller, Ref, PatienceMs.
-define(SOURCE, """
try register(Name, self()) of
    true ->
        CallerRef = monitor(process, Caller),
        Remove = fun(Modules) ->
            lists:foreach(
                fun(Module) ->
                    _ = code:purge(Module),
                    _ = code:delete(Module),
                    _ = code:purge(Module)
                end,
                Modules)
        end,
        Ended = fun
            (none) -> ok;
            ({Guard, GuardRef}) ->
                receive
                    {'DOWN', GuardRef, process, Guard, _} -> ok
                after PatienceMs ->
                    exit(Guard, kill),
                    receive {'DOWN', GuardRef, process, Guard, _} -> ok end
                end
        end,
        Loop = fun Loop(Guard, Modules, AtEnd) ->
            receive
                {Ref, {modules, New}} ->
                    Caller ! {Ref, done},
                    Loop(Guard, New, AtEnd);
                {Ref, guard, Pid} ->
                    Loop({Pid, monitor(process, Pid)}, Modules, remove);
                {Ref, idle} ->
                    Caller ! {Ref, done},
                    Loop(Guard, Modules, idle);
                {Ref, release} ->
                    Ended(Guard),
                    Remove(Modules),
                    unregister(Name),
                    Caller ! {Ref, done};
                {'DOWN', CallerRef, process, Caller, _} ->
                    Ended(Guard),
                    Remove(Modules);
                {'DOWN', GuardRef, process, Pid, _} when Guard =:= {Pid, GuardRef} ->
                    case AtEnd of
                        remove -> Remove(Modules);
                        idle -> Loop(none, Modules, idle)
                    end
            end
        end,
        Caller ! {Ref, done},
        Loop(none, [], remove)
catch
    error:badarg ->
        Caller ! {Ref, taken}
end.
""").

-doc "Takes the name in the target; `{error, taken}` where another agent has it.".
-spec start(node(), pid(), timeout()) -> {ok, cleaner()} | {error, taken | term()}.
start(Node, Caller, TimeoutMs) ->
    Ref = make_ref(),
    {ok, Tokens, _} = erl_scan:string(?SOURCE),
    {ok, Expressions} = erl_parse:parse_exprs(Tokens),
    Bindings = #{'Name' => ?NAME, 'Caller' => Caller, 'Ref' => Ref, 'PatienceMs' => ?PATIENCE_MS},
    Cleaner = #{pid => spawn(Node, erl_eval, exprs, [Expressions, Bindings]), ref => Ref},
    case answer(Cleaner, TimeoutMs) of
        ok -> {ok, Cleaner};
        {error, _} = Error -> Error
    end.

-doc "Sets which modules are removed at the end.".
-spec modules(cleaner(), [module()]) -> ok | {error, term()}.
modules(Cleaner, Modules) ->
    ask(Cleaner, {modules, Modules}, ?PATIENCE_MS).

-doc "Sets which process must have ended before that.".
-spec guard(cleaner(), pid()) -> ok.
guard(#{pid := Pid, ref := Ref}, Guard) ->
    Pid ! {Ref, guard, Guard},
    ok.

-doc """
Keeps the modules and itself when the guard ends: until another guard comes, or `release/2`, or the
caller's end.
""".
-spec idle(cleaner()) -> ok | {error, term()}.
idle(Cleaner) ->
    ask(Cleaner, idle, ?PATIENCE_MS).

-doc "Has everything removed; returns when it is.".
-spec release(cleaner(), timeout()) -> ok | {error, term()}.
release(Cleaner, TimeoutMs) ->
    ask(Cleaner, release, TimeoutMs).

ask(#{pid := Pid, ref := Ref} = Cleaner, Request, TimeoutMs) ->
    Pid ! {Ref, Request},
    answer(Cleaner, TimeoutMs).

answer(#{pid := Pid, ref := Ref}, TimeoutMs) ->
    Monitor = monitor(process, Pid),
    Answer =
        receive
            {Ref, done} -> ok;
            {Ref, taken} -> {error, taken};
            {'DOWN', Monitor, process, Pid, Reason} -> {error, Reason}
        after TimeoutMs -> {error, timeout}
        end,
    demonitor(Monitor, [flush]),
    Answer.
