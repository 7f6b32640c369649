%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_cli_interrupt).
-moduledoc """
Turns Ctrl-C into a message, so that a command can stop in good order.

The emulator cannot handle SIGINT; the shell that started it (src/cli/launcher.sh) sends SIGUSR2
instead. SIGTERM means the same. The first interrupt tells the command that called `subscribe/0`;
a second one, or one where no command has called it, ends the VM at once with status 130.
""".

-behaviour(gen_event).

-export([install/0, subscribe/0, unread/0]).
-export([init/1, handle_event/2, handle_call/2]).

%% One Ctrl-C can arrive as two signals: `timeout` and others signal a whole process group, the
%% shell that forwards and the emulator. What comes so soon after the first is the same.
-define(SAME_INTERRUPT_MS, 300).

-type state() :: #{command := pid() | undefined, first_ms := integer() | undefined}.

-doc "Handles the signals from now on.".
-spec install() -> ok.
install() ->
    Old = {erl_signal_handler, []},
    ok = gen_event:swap_handler(erl_signal_server, Old, {?MODULE, []}),
    lists:foreach(fun(Signal) -> ok = os:set_signal(Signal, handle) end, [sigusr2, sigterm]).

-doc "The calling process gets the message `dyno_interrupt` at the first interrupt.".
-spec subscribe() -> ok.
subscribe() ->
    gen_event:call(erl_signal_server, ?MODULE, {subscribe, self()}).

-doc "Nobody reads standard output: the command that subscribed gets `dyno_interrupt`.".
-spec unread() -> ok.
unread() ->
    gen_event:notify(erl_signal_server, unread).

-doc false.
-spec init(term()) -> {ok, state()}.
init(_) ->
    {ok, #{command => undefined, first_ms => undefined}}.

-doc false.
-spec handle_event(atom(), state()) -> {ok, state()}.
handle_event(Signal, State) when Signal =:= sigusr2; Signal =:= sigterm ->
    {ok, interrupted(erlang:monotonic_time(millisecond), State)};
handle_event(unread, #{command := Pid, first_ms := undefined} = State) when is_pid(Pid) ->
    {ok, interrupted(erlang:monotonic_time(millisecond), State)};
handle_event(_Signal, State) ->
    {ok, State}.

-doc false.
-spec handle_call({subscribe, pid()}, state()) -> {ok, ok, state()}.
handle_call({subscribe, Pid}, State) ->
    {ok, ok, State#{command := Pid}}.

interrupted(_NowMs, #{command := undefined}) ->
    erlang:halt(130, [{flush, false}]);
interrupted(NowMs, #{command := Pid, first_ms := undefined} = State) ->
    Pid ! dyno_interrupt,
    State#{first_ms := NowMs};
interrupted(NowMs, #{first_ms := FirstMs} = State) when NowMs - FirstMs < ?SAME_INTERRUPT_MS ->
    State;
interrupted(_NowMs, _State) ->
    %% The cursor may stand in the progress line.
    dyno_cli_terminal:write_error("\n"),
    erlang:halt(130, [{flush, false}]).
