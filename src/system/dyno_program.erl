%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_program).
-moduledoc false.
%% Runs a program to its end, within a time limit. Keeps the whole output after success, the last
%% lines after failure. At the limit, or if the caller is interrupted or killed, the program and all
%% its children are killed: a port's program leads its own process group.

-export([run/3, output/3, last_words/1, signal/2]).

-define(LINES, 15).
-define(WIDTH, 200).

-spec run(file:filename(), [string() | binary()], #{
    folder := file:filename(), timeout_ms := pos_integer()
}) ->
    {ok, binary()}
    | {error, interrupted | {{status, non_neg_integer()} | {timeout, pos_integer()}, [binary()]}}.
run(Program, Arguments, Options) ->
    Caller = self(),
    Ref = make_ref(),
    {Pid, Monitor} = spawn_monitor(fun() ->
        CallerMonitor = monitor(process, Caller),
        Caller ! {Ref, runner(Program, Arguments, Options, CallerMonitor)}
    end),
    receive
        {Ref, Result} ->
            true = demonitor(Monitor, [flush]),
            Result;
        dyno_interrupt ->
            Pid ! stop,
            receive
                {Ref, _} -> true = demonitor(Monitor, [flush]);
                {'DOWN', Monitor, process, Pid, _} -> true
            end,
            {error, interrupted};
        {'DOWN', Monitor, process, Pid, Reason} ->
            {error,
                {{status, 127}, [unicode:characters_to_binary(io_lib:format("~0tP", [Reason, 8]))]}}
    end.

runner(Program, Arguments, #{folder := Folder, timeout_ms := TimeoutMs}, CallerMonitor) ->
    Port = open_port({spawn_executable, "/bin/sh"}, [
        %% Questions get no answer.
        {args, ["-c", "exec \"$0\" \"$@\" </dev/null", Program | Arguments]},
        {cd, Folder},
        {env, environment()},
        binary,
        exit_status,
        stderr_to_stdout,
        hide
    ]),
    EndMs = erlang:monotonic_time(millisecond) + TimeoutMs,
    Running = #{
        port => Port,
        os_pid => erlang:port_info(Port, os_pid),
        end_ms => EndMs,
        timeout_ms => TimeoutMs,
        caller => CallerMonitor
    },
    gathered(Running, []).

%% The environment of a fresh terminal: variables of dyno's emulator, a git hook or a surrounding
%% build would mislead the program, for example two builds into one folder.
environment() ->
    Unset = [
        "ROOTDIR",
        "BINDIR",
        "EMU",
        "PROGNAME",
        "REBAR_BASE_DIR",
        "MIX_BUILD_PATH",
        "MIX_BUILD_ROOT",
        "GIT_DIR",
        "GIT_WORK_TREE",
        "GIT_INDEX_FILE",
        "GIT_PREFIX"
    ],
    [{"GIT_OPTIONAL_LOCKS", "0"}, {"GIT_TERMINAL_PROMPT", "0"} | [{Name, false} || Name <- Unset]].

gathered(#{port := Port, end_ms := EndMs, caller := Caller} = Running, Parts) ->
    receive
        {Port, {data, Part}} ->
            gathered(Running, [Part | Parts]);
        {Port, {exit_status, 0}} ->
            {ok, iolist_to_binary(lists:reverse(Parts))};
        {Port, {exit_status, Status}} ->
            {error, {{status, Status}, last_lines(Parts)}};
        stop ->
            kill(Running),
            {error, interrupted};
        {'DOWN', Caller, process, _, _} ->
            kill(Running),
            {error, interrupted}
    after max(0, EndMs - erlang:monotonic_time(millisecond)) ->
        kill(Running),
        {error, {{timeout, map_get(timeout_ms, Running)}, last_lines(Parts)}}
    end.

kill(#{port := Port, os_pid := Known}) ->
    ok = signal("KILL", Known),
    receive
        {Port, {exit_status, _}} -> ok
    after 5000 -> ok
    end.

-doc "Signals a port's program and its children, by its `os_pid`; `undefined` if it had ended.".
-spec signal(string(), {os_pid, non_neg_integer()} | undefined) -> ok.
signal(_Signal, undefined) ->
    ok;
signal(Signal, {os_pid, OsPid}) ->
    _ = os:cmd("kill -s " ++ Signal ++ " -- -" ++ integer_to_list(OsPid) ++ " 2>/dev/null"),
    ok.

last_lines(Parts) ->
    Text = iolist_to_binary(lists:reverse(Parts)),
    Plain = re:replace(Text, "\e\\[[0-9;]*m", "", [global, {return, binary}]),
    Lines = [
        L
     || L <- binary:split(Plain, [~"\n", ~"\r"], [global]), string:trim(utf8(L)) =/= <<>>
    ],
    [
        string:slice(utf8(Line), 0, ?WIDTH)
     || Line <- lists:nthtail(max(0, length(Lines) - ?LINES), Lines)
    ].

utf8(Line) ->
    case unicode:characters_to_binary(Line) of
        Good when is_binary(Good) -> Good;
        %% Latin-1, or no text.
        _ -> <<<<C/utf8>> || <<C>> <= Line>>
    end.

-doc "The output of a program that exists and succeeds in time.".
-spec output(file:filename(), [string()], pos_integer()) -> {ok, binary()} | none.
output(Name, Arguments, TimeoutMs) ->
    case os:find_executable(Name) of
        false ->
            none;
        Program ->
            case run(Program, Arguments, #{folder => ".", timeout_ms => TimeoutMs}) of
                {ok, Output} ->
                    {ok, Output};
                {error, interrupted} ->
                    %% The interrupt is the caller's.
                    self() ! dyno_interrupt,
                    none;
                {error, _} ->
                    none
            end
    end.

-doc "The end of a sentence about a failed program: its last lines.".
-spec last_words([binary()]) -> unicode:chardata().
last_words([]) -> "; no output";
last_words(Lines) -> ["; its last lines:" | [["\n  ", Line] || Line <- Lines]].
