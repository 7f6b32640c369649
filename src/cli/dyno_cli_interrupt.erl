%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_cli_interrupt).
-moduledoc """
Turns Ctrl-C into a message for an orderly end, and guarantees that dyno ends within 5 seconds, in
any state of the target.

The emulator cannot handle SIGINT; the shell that started it (src/cli/launcher.sh) sends SIGUSR2
instead. SIGTERM and SIGHUP have the same effect, and so does the end of the starter, which holds a
pipe open. The first interrupt goes to the command that called `subscribe/0`. A second interrupt, or
an interrupt without a subscriber, ends the VM at once with status 130.

A suspended target answers nothing. So after three seconds all connections are cut: calls into
targets fail, the measurement ends with the results so far, and agents remove themselves. If the
measurement has not ended (`measured/0`) by 4.5 seconds, the VM ends.
""".

-behaviour(gen_event).

-export([install/0, starter/0, subscribe/0, measured/0, unread/0]).
-export([init/1, handle_event/2, handle_call/2]).

%% One Ctrl-C can arrive as two signals: `timeout` and others signal a whole process group, the
%% forwarding shell and the emulator. A signal this soon after the first is the same.
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

-doc "Starts to handle the signals and to watch the starter.".
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

-doc "The environment variable of a starter that holds a pipe to descriptor 3.".
-spec starter() -> {string(), string()}.
starter() ->
    {?STARTER, "3"}.

%% A starter with the terminal sends a byte for each Ctrl-C. The pipe ends with the starter.
watch(Port) ->
    receive
        {Port, {data, _}} ->
            ok = gen_event:notify(erl_signal_server, sigterm),
            watch(Port);
        {Port, eof} ->
            gen_event:notify(erl_signal_server, sigterm)
    end.

%% As a bit set: nohup ignores SIGHUP (1), which must stay ignored.
ignored_signals() ->
    maybe
        {ok, Status} ?= file:read_file("/proc/self/status"),
        {match, [Mask]} ?= re:run(Status, "SigIgn:\\s*([0-9a-f]+)", [{capture, [1], binary}]),
        binary_to_integer(Mask, 16)
    else
        _ -> 0
    end.

-doc "Sends the calling process `dyno_interrupt` at the first interrupt.".
-spec subscribe() -> ok.
subscribe() ->
    gen_event:call(erl_signal_server, ?MODULE, {subscribe, self()}).

-doc "Reports the end of the measurement; showing the result may take longer.".
-spec measured() -> ok.
measured() ->
    gen_event:call(erl_signal_server, ?MODULE, measured).

-doc "Reports that standard output has no reader: the subscriber gets `dyno_interrupt`.".
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
    %% The cursor may be in the progress line.
    dyno_cli_terminal:write_error("\n"),
    dyno_cli_ending:at_once(),
    State.

-spec ending() -> no_return().
ending() ->
    timer:sleep(?CUT_OFF_MS),
    _ = spawn(fun dyno_cli_ending:cut_off/0),
    timer:sleep(?END_MS),
    dyno_cli_terminal:note(
        "dyno: the measurement did not end in time; only a recording keeps its figures"
    ),
    dyno_cli_ending:at_once().
