%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_plugin_interrupt).
-moduledoc """
Lets a build tool pass Ctrl-C on to dyno, instead of showing the emulator's break menu.

No emulator can handle SIGINT, and only a start flag (`+Bd`) disables its menu, too early for a
task. So while dyno runs, `stty` makes Ctrl-C the terminal's key for SIGQUIT, which an emulator can
handle, and restores the terminal afterwards. If the build tool is killed, most shells restore it.

Without a terminal, or if another program has it, nothing changes. SIGTERM is passed on too.
""".

-behaviour(gen_event).

-export([pass_on/0, as_before/1]).
-export([init/1, handle_event/2, handle_call/2]).
-export_type([before/0]).

-opaque before() :: #{
    terminal := none | {Device :: string(), Settings :: string()},
    handler := standard | none
}.

-define(STANDARD, erl_signal_handler).

-doc "Sends the calling process `dyno_interrupt` at each Ctrl-C, until `as_before/1`.".
-spec pass_on() -> before().
pass_on() ->
    Handler =
        case lists:member(?STANDARD, gen_event:which_handlers(erl_signal_server)) of
            true -> standard;
            false -> none
        end,
    ok = gen_event:swap_handler(erl_signal_server, {?STANDARD, []}, {?MODULE, self()}),
    lists:foreach(fun(Signal) -> ok = os:set_signal(Signal, handle) end, [sigquit, sigterm]),
    Terminal =
        case is_foreground() of
            true -> change(terminal());
            false -> none
        end,
    #{terminal => Terminal, handler => Handler}.

-doc "Restores the state before `pass_on/0`.".
-spec as_before(before()) -> ok.
as_before(#{terminal := Terminal, handler := Handler}) ->
    _ = [stty(Device, Settings) || {Device, Settings} <- [Terminal]],
    _ =
        case Handler of
            standard -> gen_event:swap_handler(erl_signal_server, {?MODULE, []}, {?STANDARD, []});
            none -> gen_event:delete_handler(erl_signal_server, ?MODULE, [])
        end,
    ok.

%% The terminal

%% Whether this program's group gets the keys: not in the background.
is_foreground() ->
    Fields =
        case file:read_file("/proc/self/stat") of
            {ok, Stat} ->
                %% The program's name, in parentheses, may have any characters.
                [_, Rest] = string:split(Stat, ~") ", trailing),
                [_State, _Parent, Group, _Session, _Terminal, Foreground | _] =
                    string:lexemes(Rest, " "),
                [Group, Foreground];
            {error, _} ->
                string:lexemes(os:cmd("ps -o pgid= -o tpgid= -p " ++ os:getpid()), " \n")
        end,
    case Fields of
        [Same, Same] -> true;
        _ -> false
    end.

terminal() ->
    case file:read_link("/proc/self/fd/0") of
        {ok, "/dev/" ++ _ = Device} -> Device;
        {ok, _} -> none;
        %% No /proc: not Linux.
        {error, _} -> "/dev/tty"
    end.

change(none) ->
    none;
change(Device) ->
    maybe
        {ok, Settings} ?= stty(Device, "-g"),
        {ok, _} ?= stty(Device, "intr undef quit ^C"),
        {Device, Settings}
    else
        error -> none
    end.

%% Ignores the signal that stops background programs which change a terminal.
stty(Device, Arguments) ->
    Line = "trap '' TTOU; stty " ++ Arguments ++ " <" ++ Device ++ " && echo ok",
    case string:split(os:cmd(Line ++ " 2>&1"), "ok\n", trailing) of
        [Answer, ""] -> {ok, string:trim(Answer)};
        _ -> error
    end.

%% The signals

-doc false.
-spec init({pid(), term()}) -> {ok, pid()}.
init({Pid, _StandardGave}) ->
    {ok, Pid}.

-doc false.
-spec handle_event(atom(), pid()) -> {ok, pid()}.
handle_event(Signal, Pid) when Signal =:= sigquit; Signal =:= sigterm ->
    Pid ! dyno_interrupt,
    {ok, Pid};
handle_event(_Signal, Pid) ->
    {ok, Pid}.

-doc false.
-spec handle_call(term(), pid()) -> {ok, ok, pid()}.
handle_call(_Request, Pid) ->
    {ok, ok, Pid}.
