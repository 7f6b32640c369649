%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_cli_interrupt).
-moduledoc """
Turns Ctrl-C into a message, so that a command can stop in good order, and sees to it that dyno ends
within 5 seconds of it, whatever state the target is in.

The emulator cannot handle SIGINT; the shell that started it (src/cli/launcher.sh) sends SIGUSR2
instead. SIGTERM and SIGHUP mean the same, and so does the end of the starter, which holds a pipe
open. The first interrupt tells the command that called `subscribe/0`; a second one, or one if no
command has called it, ends the VM at once with status 130.

A target that is suspended answers nothing. So three seconds after the first interrupt all
connections are cut: each call into a target fails then, and the measurement ends with what it has.
The agents in the targets notice it, too, and remove themselves. If the measurement has not ended
(`measured/0`) by 4.5 seconds, the VM is ended.
""".

-behaviour(gen_event).

-export([install/0, starter/0, subscribe/0, measured/0, unread/0]).
-export([init/1, handle_event/2, handle_call/2]).

%% One Ctrl-C can arrive as two signals: `timeout` and others signal a whole process group, the
%% shell that forwards and the emulator. What comes so soon after the first is the same.
-define(SAME_INTERRUPT_MS, 300).
-define(CUT_OFF_MS, 3000).
-define(END_MS, 1500).
-define(INTERRUPTS, [sigusr2, sigterm, sighup]).
-define(STARTER, "DYNO_STARTER").

-type state() :: #{
    command := pid() | undefined,
    first_ms := integer() | undefined,
    %% The process that ends dyno if the command does not.
    ending := pid() | none
}.

-doc "Handles the signals, and watches the starter, from now on.".
-spec install() -> ok.
install() ->
    Old = {erl_signal_handler, []},
    ok = gen_event:swap_handler(erl_signal_server, Old, {?MODULE, []}),
    Ignored = ignored_signals(),
    lists:foreach(
        fun(Signal) -> ok = os:set_signal(Signal, handle) end,
        [sigusr2, sigterm | [sighup || Ignored band 1 =:= 0]]
    ),
    Pipe = os:getenv(?STARTER, ""),
    true = os:unsetenv(?STARTER),
    case Pipe of
        "" ->
            ok;
        _ ->
            _ = spawn(fun() -> watch(open_port({fd, 3, 3}, [in, eof, binary])) end),
            ok
    end.

-doc "The variable of the environment by which a starter says that it holds a pipe to descriptor 3.".
-spec starter() -> {string(), string()}.
starter() ->
    {?STARTER, "3"}.

%% A starter that has the terminal sends a byte for each Ctrl-C. The pipe ends when the starter does.
watch(Port) ->
    receive
        {Port, {data, _}} ->
            ok = gen_event:notify(erl_signal_server, sigterm),
            watch(Port);
        {Port, eof} ->
            gen_event:notify(erl_signal_server, sigterm)
    end.

%% As a set of bits: nohup has SIGHUP (1) ignored, and so it stays.
ignored_signals() ->
    maybe
        {ok, Status} ?= file:read_file("/proc/self/status"),
        {match, [Mask]} ?= re:run(Status, "SigIgn:\\s*([0-9a-f]+)", [{capture, [1], binary}]),
        binary_to_integer(Mask, 16)
    else
        _ -> 0
    end.

-doc "The calling process gets the message `dyno_interrupt` at the first interrupt.".
-spec subscribe() -> ok.
subscribe() ->
    gen_event:call(erl_signal_server, ?MODULE, {subscribe, self()}).

-doc "The measurement has ended; showing its result may take its time.".
-spec measured() -> ok.
measured() ->
    gen_event:call(erl_signal_server, ?MODULE, measured).

-doc "Nobody reads standard output: the command that subscribed gets `dyno_interrupt`.".
-spec unread() -> ok.
unread() ->
    gen_event:notify(erl_signal_server, unread).

-doc false.
-spec init(term()) -> {ok, state()}.
init(_) ->
    {ok, #{command => undefined, first_ms => undefined, ending => none}}.

-doc false.
-spec handle_event(atom(), state()) -> {ok, state()}.
handle_event(unread, #{command := Pid, first_ms := undefined} = State) when is_pid(Pid) ->
    {ok, interrupted(erlang:monotonic_time(millisecond), State)};
handle_event(Signal, State) ->
    case lists:member(Signal, ?INTERRUPTS) of
        true -> {ok, interrupted(erlang:monotonic_time(millisecond), State)};
        false -> {ok, State}
    end.

-doc false.
-spec handle_call({subscribe, pid()} | measured, state()) -> {ok, ok, state()}.
handle_call({subscribe, Pid}, State) ->
    {ok, ok, State#{command := Pid, first_ms := undefined}};
handle_call(measured, #{ending := Ending} = State) ->
    [exit(Pid, kill) || Pid <- [Ending], is_pid(Pid)],
    {ok, ok, State#{ending := none}}.

interrupted(_NowMs, #{command := undefined} = State) ->
    dyno_cli_ending:at_once(),
    State;
interrupted(NowMs, #{command := Pid, first_ms := undefined} = State) ->
    Pid ! dyno_interrupt,
    State#{first_ms := NowMs, ending := spawn(fun ending/0)};
interrupted(NowMs, #{first_ms := FirstMs} = State) when NowMs - FirstMs < ?SAME_INTERRUPT_MS ->
    State;
interrupted(_NowMs, State) ->
    %% The cursor may stand in the progress line.
    dyno_cli_terminal:write_error("\n"),
    dyno_cli_ending:at_once(),
    State.

ending() ->
    timer:sleep(?CUT_OFF_MS),
    _ = spawn(fun dyno_cli_ending:cut_off/0),
    timer:sleep(?END_MS),
    dyno_cli_terminal:note(
        "dyno: the measurement did not end in time; only a recording keeps its figures"
    ),
    dyno_cli_ending:at_once().
