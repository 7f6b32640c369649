%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_target_cleaner).
-moduledoc false.
%% The process that arrives first in a target and leaves last. It holds the name `dyno_agent`, so
%% that two callers never attach at once, monitors the caller from before the first module is sent,
%% and removes the modules when the guard has ended. A process cannot remove code that it runs, so
%% the cleaner is an expression evaluated by the target's own erl_eval.
%%
%% To purge a module the runtime asks every process whether it runs the module: 2 to 5 us of
%% processor a question (OTP 27 and 29). So modules are removed only if the questions are few and
%% the processes answer at once; otherwise they stay as unused code for the next dyno. They stay too
%% while a process of the system is in an inlined monitor (dyno_agent_inline): the purge would kill
%% the process.

-export([start/4, modules/2, load/2, guard/2, idle/1, release/2, remove/2, cpu_ms/1]).
-export([most_questions/0]).
-export_type([cleaner/0, left/0, cpu_ms/0]).

-type cleaner() :: #{pid := pid(), ref := reference()}.

-doc "The fate of the modules, and the node's processor time meanwhile, including its own work.".
-type left() :: #{
    modules := [module()],
    cpu_ms := cpu_ms(),
    %% Whether a process runs them.
    inside := boolean()
}.

-doc "Processor time in steps of 10 ms, from /proc: the runtime's counters are shared.".
-type cpu_ms() :: non_neg_integer() | unknown.

-define(NAME, dyno_agent).
%% The name of a cleaner that observes while another may measure.
-define(BESIDE, dyno_agent_beside).
-define(PATIENCE_MS, 30_000).
%% The limit for the processes' answers to one question; other programs use the processors too.
-define(ANSWER_MS, 300).
-define(REMOVAL_MS, 10_000).
-define(TURNS, 6).
-define(TRIED, 2).
-define(TURNS_MS, 10_000).
%% The limit for the runtime's visit to all processes after a trace session: 1.6 us each.
-define(SWEEP_MS, 1_500).
-define(SWEEP_LOOKS, 5).
%% Fewer processes take no more than the clock shows.
-define(SWEEP_FROM, 10_000).
%% Names of leaving cleaners, for which the next one waits.
-define(LEAVING, dyno_agent_leaving).
-define(BESIDE_LEAVING, dyno_agent_beside_leaving).

%% What erl_eval calls.
-define(EVALUATOR, [erl_eval, erl_internal, erl_anno, otp_internal, ordsets, sets]).

%% Bindings: Inline, Name, Other, Leaving, Caller, Ref, PatienceMs, Most, AnswerMs, RemovalMs,
%% Turns, TurnsMs, Tried, SweepMs, SweepLooks, SweepFrom.
-define(SOURCE, """
try register(Name, self()) of
    true ->
        CallerRef = monitor(process, Caller),
        NowMs = fun() -> erlang:monotonic_time(millisecond) end,
        CpuMs = fun() ->
            case file:read_file("/proc/self/stat", [raw]) of
                {ok, Stat} ->
                    Fields = string:split(lists:last(string:split(Stat, ") ", all)), " ", all),
                    lists:sum([binary_to_integer(lists:nth(N, Fields)) * 10 || N <- [12, 13]]);
                {error, _} ->
                    unknown
            end
        end,
        Spent = fun(unknown) -> unknown; (Before) -> CpuMs() - Before end,
        Answered = fun Answered(0, _Asked, _EndMs) ->
                true;
            Answered(N, Asked, EndMs) ->
                receive
                    {check_process_code, Asked, _} -> Answered(N - 1, Asked, EndMs)
                after max(0, EndMs - NowMs()) ->
                    false
                end
        end,
        %% Whether the runtime has visited all processes, as it does some time after the end of a
        %% trace session. It may begin late: it is over if it was seen to wait several times.
        Swept = fun
            Swept(_Sweepers, 0, _EndMs) ->
                true;
            Swept(Sweepers, Looks, EndMs) ->
                receive after 20 -> ok end,
                case [P || P <- Sweepers, process_info(P, status) =/= {status, waiting}] of
                    [] -> Swept(Sweepers, Looks - 1, EndMs);
                    _ -> NowMs() < EndMs andalso Swept(Sweepers, SweepLooks, EndMs)
                end
        end,
        Sweepers = [
            Pid
         || N <- lists:seq(1, 30),
            Pid <- [list_to_pid("<0." ++ integer_to_list(N) ++ ".0>")],
            {_, {erts_trace_cleaner, _, _}} <- [process_info(Pid, initial_call)]
        ],
        %% How many a process waits for at each turn, a millisecond each; other programs prolong.
        Waiting = fun() ->
            erlang:statistics(total_run_queue_lengths) / erlang:system_info(schedulers_online)
        end,
        %% The other place may use the same modules.
        IsFree = fun() -> Other =:= none orelse whereis(Other) =:= undefined end,
        IsCheap = fun(Modules) ->
            case IsFree() andalso length(Modules) * erlang:system_info(process_count) =< Most of
                true ->
                    Asked = make_ref(),
                    Pids = processes(),
                    EndMs = NowMs() + AnswerMs,
                    lists:foreach(
                        fun(Pid) ->
                            erlang:check_process_code(Pid, hd(Modules), [{async, Asked}])
                        end,
                        Pids),
                    Answered(length(Pids), Asked, EndMs) andalso
                        Waiting() * Turns * length(Modules) =< TurnsMs;
                false ->
                    false
            end
        end,
        RemoveAll = fun Remove([], _EndMs) ->
                [];
            Remove([Module | Rest] = Modules, EndMs) ->
                case NowMs() < EndMs of
                    true ->
                        _ = erlang:check_old_code(Module) andalso code:purge(Module),
                        _ = code:delete(Module),
                        _ = code:purge(Module),
                        Remove(Rest, EndMs);
                    false ->
                        Modules
                end
        end,
        %% The first ones tell whether there is time for all.
        Remove = fun(Modules, EndMs) ->
            {First, Rest} = lists:split(min(Tried, length(Modules)), Modules),
            Began = NowMs(),
            Left = RemoveAll(First, EndMs),
            EachMs = (NowMs() - Began) / Tried,
            %% The atom infinity is more than any number.
            case Left =:= [] andalso NowMs() + EachMs * length(Rest) < EndMs of
                true -> RemoveAll(Rest, EndMs);
                false -> Left ++ Rest
            end
        end,
        %% One that was killed in there is still counted.
        IsInside = fun() ->
            case persistent_term:get(Inline, none) of
                #{inside := Inside} ->
                    Text = atom_to_binary(Inline),
                    counters:get(Inside, 1) > 0 andalso
                        [] =/= [
                            Pid
                         || Pid <- processes(),
                            {_, Stack} <- [process_info(Pid, backtrace)],
                            binary:match(Stack, Text) =/= nomatch
                        ];
                none ->
                    false
            end
        end,
        %% The next one waits below, so that the other name is free.
        Rename = fun() -> unregister(Name) andalso register(Leaving, self()) end,
        Depart = fun(Modules, IsWorthIt, EndMs) ->
            Began = CpuMs(),
            IsSwept =
                erlang:system_info(process_count) < SweepFrom orelse
                    Swept(Sweepers, SweepLooks, NowMs() + SweepMs),
            Inside = IsInside(),
            Left = case Modules =:= [] orelse (not Inside andalso IsWorthIt(Modules)) of
                true ->
                    process_flag(priority, normal),
                    Remove(Modules, EndMs);
                false -> Modules
            end,
            Cost = case IsSwept of true -> Spent(Began); false -> unknown end,
            #{modules => Left, cpu_ms => Cost, inside => Inside}
        end,
        Leave = fun(Modules) -> Depart(Modules, IsCheap, NowMs() + RemovalMs) end,
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
        %% The guard has ended by itself, and the caller will come to know.
        Gone = fun Gone(Left) ->
            receive
                {Ref, release} -> Caller ! {Ref, Left};
                {Ref, cpu, From} -> From ! {Ref, CpuMs()}, Gone(Left);
                {Ref, _} -> Caller ! {Ref, gone}, Gone(Left);
                {'DOWN', CallerRef, process, Caller, _} -> gone
            end
        end,
        Loop = fun Loop(Guard, Modules, AtEnd) ->
            receive
                {Ref, {modules, New}} ->
                    Caller ! {Ref, done},
                    Loop(Guard, New, AtEnd);
                {Ref, {load, Objects}} ->
                    Caller ! {Ref, code:atomic_load(Objects)},
                    Loop(Guard, Modules, AtEnd);
                {Ref, guard, Pid} ->
                    Loop({Pid, monitor(process, Pid)}, Modules, leave);
                {Ref, cpu, From} ->
                    From ! {Ref, CpuMs()},
                    Loop(Guard, Modules, AtEnd);
                {Ref, idle} ->
                    Caller ! {Ref, done},
                    Loop(Guard, Modules, idle);
                {Ref, release} ->
                    Rename(),
                    Ended(Guard),
                    Caller ! {Ref, Leave(Modules)};
                {Ref, remove} ->
                    Caller ! {Ref, Depart(Modules, fun(_) -> true end, infinity)};
                {'DOWN', CallerRef, process, Caller, _} ->
                    Rename(),
                    Ended(Guard),
                    Leave(Modules);
                {'DOWN', GuardRef, process, Pid, _} when
                    Guard =:= {Pid, GuardRef}, AtEnd =:= idle
                ->
                    Loop(none, Modules, idle);
                {'DOWN', GuardRef, process, Pid, _} when Guard =:= {Pid, GuardRef} ->
                    Rename(),
                    Left = Leave(Modules),
                    unregister(Leaving),
                    Gone(Left)
            end
        end,
        Former = monitor(process, Leaving),
        receive
            {'DOWN', Former, process, _, _} ->
                Caller ! {Ref, done},
                Loop(none, [], leave);
            {'DOWN', CallerRef, process, Caller, _} ->
                gone
        end
catch
    error:badarg ->
        Caller ! {Ref, taken}
end.
""").

-doc "Takes a place in the target, a registered name: one dyno may measure, and one observe.".
-spec start(node(), pid(), measuring | beside, timeout()) ->
    {ok, cleaner()} | {error, taken | term()}.
start(Node, Caller, Place, TimeoutMs) ->
    {Name, Leaving, Other} =
        case Place of
            measuring -> {?NAME, ?LEAVING, ?BESIDE};
            beside -> {?BESIDE, ?BESIDE_LEAVING, ?NAME}
        end,
    Ref = make_ref(),
    {ok, Tokens, _} = erl_scan:string(?SOURCE),
    {ok, Expressions} = erl_parse:parse_exprs(Tokens),
    Bindings = #{
        'Inline' => dyno_agent_inline,
        'Name' => Name,
        'Other' => Other,
        'Leaving' => Leaving,
        'Caller' => Caller,
        'Ref' => Ref,
        'PatienceMs' => ?PATIENCE_MS,
        'Most' => most_questions(),
        'AnswerMs' => ?ANSWER_MS,
        'RemovalMs' => ?REMOVAL_MS,
        'Turns' => ?TURNS,
        'TurnsMs' => ?TURNS_MS,
        'Tried' => ?TRIED,
        'SweepMs' => ?SWEEP_MS,
        'SweepLooks' => ?SWEEP_LOOKS,
        'SweepFrom' => ?SWEEP_FROM
    },
    %% All at once: beside long native calls each load takes seconds.
    ok = erpc:cast(Node, code, ensure_modules_loaded, [?EVALUATOR]),
    Pid = spawn_opt(Node, erl_eval, exprs, [Expressions, Bindings], [{priority, high}]),
    Cleaner = #{pid => Pid, ref => Ref},
    case answer(Cleaner, TimeoutMs) of
        {ok, done} -> {ok, Cleaner};
        {ok, taken} -> {error, taken};
        {error, _} = Error -> Error
    end.

-doc "Processes times modules to purge at leaving: 0.3 to 0.8 s of processor.".
-spec most_questions() -> pos_integer().
most_questions() -> 150_000.

-spec cpu_ms(cleaner()) -> cpu_ms().
cpu_ms(#{pid := Pid, ref := Ref} = Cleaner) ->
    Pid ! {Ref, cpu, self()},
    case answer(Cleaner, ?PATIENCE_MS) of
        {ok, Ms} -> Ms;
        {error, _} -> unknown
    end.

-spec modules(cleaner(), [module()]) -> ok | {error, term()}.
modules(Cleaner, Modules) ->
    done(ask(Cleaner, {modules, Modules}, ?PATIENCE_MS)).

-doc """
Loads all modules or none, since old code of one may not be purged yet. The cleaner loads them: if
the caller is killed meanwhile, they are removed after loading, not before.
""".
-spec load(cleaner(), [dyno_code:packed()]) -> ok | {error, term()}.
load(Cleaner, Objects) ->
    case ask(Cleaner, {load, Objects}, ?PATIENCE_MS) of
        {ok, ok} -> ok;
        {ok, {error, _} = Error} -> Error;
        Other -> done(Other)
    end.

-spec guard(cleaner(), pid()) -> ok.
guard(#{pid := Pid, ref := Ref}, Guard) ->
    Pid ! {Ref, guard, Guard},
    ok.

-doc "Keeps modules and cleaner for another guard, until `release/2` or the caller's end.".
-spec idle(cleaner()) -> ok | {error, term()}.
idle(Cleaner) ->
    done(ask(Cleaner, idle, ?PATIENCE_MS)).

-doc """
Leaves all these nodes at the same time: each when its guard has ended, removing the modules if
cheap. A late cleaner continues without the caller.
""".
-spec release([cleaner()], WithinMs :: pos_integer()) -> [{ok, left()} | {error, term()}].
release(Cleaners, WithinMs) ->
    EndMs = erlang:monotonic_time(millisecond) + WithinMs,
    _ = [Pid ! {Ref, release} || #{pid := Pid, ref := Ref} <- Cleaners],
    [answer(Cleaner, max(0, EndMs - erlang:monotonic_time(millisecond))) || Cleaner <- Cleaners].

-doc "Removes the modules at any cost except killing a process.".
-spec remove(cleaner(), timeout()) -> {ok, left()} | {error, term()}.
remove(Cleaner, TimeoutMs) ->
    ask(Cleaner, remove, TimeoutMs).

done({ok, done}) -> ok;
done({ok, gone}) -> {error, gone};
done({error, _} = Error) -> Error.

ask(#{pid := Pid, ref := Ref} = Cleaner, Request, TimeoutMs) ->
    Pid ! {Ref, Request},
    answer(Cleaner, TimeoutMs).

answer(#{pid := Pid, ref := Ref}, TimeoutMs) ->
    Monitor = monitor(process, Pid),
    Answer =
        receive
            {Ref, Reply} -> {ok, Reply};
            {'DOWN', Monitor, process, Pid, Reason} -> {error, Reason}
        after TimeoutMs -> {error, timeout}
        end,
    demonitor(Monitor, [flush]),
    Answer.
