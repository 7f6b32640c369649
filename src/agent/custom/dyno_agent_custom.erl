%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_custom).
-moduledoc """
The instrument that runs foreign code in the target: a suite's custom agents, invariants and
metrics.

This process, the host, always answers: a second process, the probe, runs the code, and is killed
after too much time or memory. The code has one of two forms:

* `sampler`: `init(Config)` returns `{ok, State}`, `ignore` or `{error, Reason}`; `sample(State)`
  returns `{ok, Values, State}` at random intervals; `results(State)` and `terminate(State)` are
  optional (`dyno_suite_agent`);
* `performerl`: `start(Config)` returns `{ok, Pid}`, `ignore` or `{error, Reason}`;
  `get_results_and_stop()` returns `{ok, Results}` (PerformERL's `performerl_custom_agent`).

The sink receives `{dyno_probe, Host, AtNs, Event}` at once, so that a lost node loses no sample.
The time is that of the target's monotonic clock. Events: `{sample, Values}`, `{failed, Text}` (a
failed sample), `{ended, Text}`, `{results, Results}`, `{no_results, Text}`.

## Cost
A sample: two messages in the target, one to the sink, and the code itself. At most 128 MiB.
""".

-behaviour(dyno_agent_instrument).
-behaviour(gen_server).

-export([about/0, config/1, start_link/1, last_look/1, peek/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2, terminate/2]).
-export_type([config/0, form/0]).

-type form() :: sampler | performerl.

-type config() :: #{
    sink := pid(),
    module := module(),
    form := form(),
    config := term(),
    interval_ms := pos_integer(),
    %% The longest call of the code.
    limit_ms := pos_integer(),
    %% Whether the code restarts, without state, after a call that took too long.
    again => boolean()
}.

-type command() :: open | sample | finish.

-type state() :: #{
    config := config(),
    probe := {pid(), reference()} | undefined,
    %% The result of PerformERL's `start/1`.
    agent := {pid(), reference()} | undefined,
    command := {command(), reference(), Timer :: reference()} | undefined,
    from := gen_server:from() | undefined,
    phase := open | sampling | looked | finishing | ended | {not_opened, ignore | binary()}
}.

-define(MAX_WORDS, 16_777_216).
-define(MAX_SAMPLE_BYTES, 1_048_576).
-define(MAX_RESULT_BYTES, 16_777_216).
%% The sampler's current call, for the message if it does not return.
-define(AT, dyno_at).

-spec about() -> dyno_agent_instrument:about().
about() -> #{names => [custom], vital => true}.

-doc "Not started for all targets: each probe has a configuration of its own.".
-spec config(dyno_agent_instrument:options()) -> off.
config(_Options) -> off.

-doc """
Calls `init` or `start`.

## Errors
`{dyno_agent_custom, ignore | Text}`, as the code returned.
""".
-spec start_link(config()) -> gen_server:start_ret().
start_link(Config) ->
    gen_server:start_link(?MODULE, Config, []).

-doc "Takes the last sample, just before the end of the load.".
-spec last_look(pid()) -> ok.
last_look(Pid) ->
    gen_server:cast(Pid, last_look).

-doc "Everything was sent already.".
-spec peek(pid()) -> ok.
peek(_Pid) -> ok.

-spec init(config()) -> {ok, state()} | {error, {?MODULE, ignore | binary()}}.
init(Config) ->
    process_flag(trap_exit, true),
    proc_lib:set_label(?MODULE),
    ok = dyno_agent_process:unlimited(),
    #{command := {open, Ref, _}, probe := {_, Monitor}} =
        State = opening(#{
            config => Config,
            probe => undefined,
            agent => undefined,
            command => undefined,
            from => undefined,
            phase => open
        }),
    Message =
        receive
            {Ref, _} = Answer -> Answer;
            {limit, Ref} = Late -> Late;
            {'DOWN', Monitor, process, _, _} = Down -> Down
        end,
    case handle_info(Message, State) of
        {noreply, #{phase := {not_opened, Why}}} -> {error, {?MODULE, Why}};
        {noreply, Opened} -> {ok, Opened}
    end.

-spec handle_call(restart | read, gen_server:from(), state()) ->
    {reply, ok, state()} | {noreply, state()}.
handle_call(restart, _From, #{phase := open, config := #{form := sampler}} = State) ->
    self() ! sample,
    {reply, ok, State#{phase := sampling}};
handle_call(read, From, #{phase := looked} = State) ->
    {noreply, next(State#{phase := finishing, from := From})};
handle_call(read, From, #{phase := Phase} = State) when Phase =:= open; Phase =:= sampling ->
    {noreply, finishing(State#{phase := finishing, from := From})};
handle_call(_Request, _From, State) ->
    {reply, ok, State}.

-spec handle_cast(last_look, state()) -> {noreply, state()}.
handle_cast(last_look, #{phase := sampling, command := undefined} = State) ->
    {noreply, command(sample, State#{phase := looked})};
handle_cast(last_look, #{phase := sampling} = State) ->
    {noreply, State#{phase := looked}};
handle_cast(_Request, State) ->
    {noreply, State}.

-spec handle_info(term(), state()) -> {noreply, state()}.
handle_info(sample, #{phase := sampling, config := #{interval_ms := IntervalMs}} = State) ->
    _ = erlang:send_after(dyno_agent_instants:next_ms(IntervalMs), self(), sample),
    case State of
        %% A sample longer than the interval skips turns.
        #{command := undefined} -> {noreply, command(sample, State)};
        _ -> {noreply, State}
    end;
handle_info({Ref, Answer}, #{command := {Command, Ref, Timer}} = State) ->
    _ = erlang:cancel_timer(Timer),
    {noreply, answered(Command, Answer, State#{command := undefined})};
handle_info({limit, Ref}, #{command := {Command, Ref, _}} = State) ->
    #{probe := {Probe, _}, config := #{limit_ms := LimitMs}} = State,
    Text = text("~ts had not returned after ~b ms", [where(Command, Probe, State), LimitMs]),
    {noreply, failed(Command, Text, kill_both(State#{command := undefined}))};
handle_info({'DOWN', Monitor, process, _, Reason}, #{probe := {_, Monitor}} = State) ->
    %% Out of memory, or killed. The command's timer is void.
    Command =
        case State of
            #{command := {UnderWay, _, _}} -> UnderWay;
            _ -> sample
        end,
    Text = text("~ts was ended: ~0tP (it may take ~b MiB)", [
        function(Command, State), Reason, 10, ?MAX_WORDS * 8 div 1_048_576
    ]),
    {noreply, failed(Command, Text, State#{probe := undefined, command := undefined})};
handle_info({'DOWN', Monitor, process, _, Reason}, #{agent := {_, Monitor}} = State) ->
    case State of
        #{phase := finishing} -> ok;
        _ -> tell({ended, text("its process ended: ~0tP", [Reason, 12])}, State)
    end,
    {noreply, State#{agent := undefined}};
handle_info(_Other, State) ->
    {noreply, State}.

%% Nothing of the code may remain when the modules are removed.
-spec terminate(term(), state()) -> ok.
terminate(_Reason, State) ->
    _ = kill_both(State),
    ok.

answered(open, {opened, Pid}, State) ->
    State#{agent := {Pid, monitor(process, Pid)}};
answered(open, opened, State) ->
    next(State);
answered(open, ignore, State) ->
    (ended(State))#{phase := {not_opened, ignore}};
answered(Command, {error, Text}, State) ->
    failed(Command, Text, State);
answered(sample, Sample, State) ->
    tell(Sample, State),
    next(State);
answered(finish, none, State) ->
    ended(State);
answered(finish, Results, State) ->
    tell(Results, State),
    ended(State).

failed(open, Text, State) ->
    (ended(State))#{phase := {not_opened, Text}};
failed(finish, Text, State) ->
    tell({no_results, Text}, State),
    ended(State);
failed(sample, Text, #{probe := undefined, phase := Phase, config := #{again := true}} = State) when
    Phase =/= finishing
->
    tell({failed, Text}, State),
    opening(State);
failed(sample, Text, #{probe := undefined} = State) ->
    tell({ended, Text}, State),
    ended(State);
failed(sample, Text, State) ->
    tell({failed, Text}, State),
    next(State).

next(#{phase := finishing, command := undefined} = State) -> command(finish, State);
next(State) -> State.

finishing(#{command := undefined, config := #{form := sampler}} = State) ->
    command(sample, State);
finishing(State) ->
    next(State).

ended(#{from := From} = State) ->
    _ = [gen_server:reply(From, ok) || From =/= undefined],
    (kill_both(State))#{phase := ended, from := undefined}.

tell(Event, #{config := #{sink := Sink}}) ->
    AtNs = erlang:monotonic_time(nanosecond),
    _ = erlang:send(Sink, {dyno_probe, self(), AtNs, Event}, [noconnect]),
    ok.

command(Command, #{probe := {Probe, _}, config := #{limit_ms := LimitMs}} = State) ->
    Ref = make_ref(),
    Probe ! {?MODULE, Ref, Command},
    Timer = erlang:send_after(LimitMs, self(), {limit, Ref}),
    State#{command := {Command, Ref, Timer}}.

%% The probe

opening(#{config := Config} = State) ->
    Host = self(),
    Limit = #{size => ?MAX_WORDS, kill => true, error_logger => false},
    Probe = spawn_opt(
        fun() ->
            process_flag(trap_exit, true),
            proc_lib:set_label(dyno_agent_probe),
            probe(Host, monitor(process, Host), Config, undefined)
        end,
        [monitor, {max_heap_size, Limit}]
    ),
    command(open, State#{probe := Probe}).

kill_both(#{probe := Probe, agent := Agent} = State) ->
    lists:foreach(
        fun({Pid, Monitor}) ->
            exit(Pid, kill),
            receive
                {'DOWN', Monitor, process, Pid, _} -> ok
            end
        end,
        [Of || {_, _} = Of <- [Agent, Probe]]
    ),
    State#{probe := undefined, agent := undefined}.

%% Other messages are the code's.
probe(Host, Monitor, Config, Before) ->
    receive
        {?MODULE, Ref, Command} ->
            {Answer, After} =
                try
                    run(Command, Config, Before)
                catch
                    Class:Reason:Stack ->
                        {{error, raised(Command, Config, {Class, Reason, Stack})}, Before}
                end,
            Host ! {Ref, Answer},
            probe(Host, Monitor, Config, After);
        {'DOWN', Monitor, process, Host, _} ->
            ok
    end.

run(open, #{form := sampler, module := Module, config := Argument} = Config, _Before) ->
    case Module:init(Argument) of
        {ok, State} -> {opened, State};
        ignore -> {ignore, undefined};
        Other -> {wrong(open, Config, Other, "{ok, State}, ignore or {error, Reason}"), undefined}
    end;
run(open, #{form := performerl, module := Module, config := Argument} = Config, _Before) ->
    case Module:start(Argument) of
        {ok, Pid} when is_pid(Pid) -> {{opened, Pid}, undefined};
        ignore -> {ignore, undefined};
        Other -> {wrong(open, Config, Other, "{ok, Pid}, ignore or {error, Reason}"), undefined}
    end;
run(sample, #{module := Module} = Config, Before) ->
    case Module:sample(Before) of
        {ok, Values, After} ->
            {limited(sample, Values, ?MAX_SAMPLE_BYTES, text("~tw:sample/1", [Module])), After};
        Other ->
            {wrong(sample, Config, Other, "{ok, #{Name => Number}, State}"), Before}
    end;
run(finish, #{form := sampler, module := Module}, Before) ->
    Results =
        case erlang:function_exported(Module, results, 1) of
            true -> results(Module, Module:results(Before));
            false -> none
        end,
    case erlang:function_exported(Module, terminate, 1) of
        true -> Module:terminate(Before);
        false -> ok
    end,
    {Results, undefined};
run(finish, #{form := performerl, module := Module} = Config, _Before) ->
    case Module:get_results_and_stop() of
        {ok, Results} -> {results(Module, Results), undefined};
        Other -> {wrong(finish, Config, Other, "{ok, Results}"), undefined}
    end.

results(Module, Results) ->
    limited(results, Results, ?MAX_RESULT_BYTES, text("the results of ~tw", [Module])).

limited(Kind, Term, MaxBytes, What) ->
    case erlang:external_size(Term) of
        Bytes when Bytes > MaxBytes ->
            {error, text("~ts: ~b bytes are more than the ~b allowed", [What, Bytes, MaxBytes])};
        _ ->
            {Kind, Term}
    end.

%% Texts

raised(Command, #{module := Module} = Config, {Class, Reason, Stack}) ->
    Where =
        case [{F, A} || {M, F, A, _} <- Stack, M =:= Module, is_integer(A)] of
            [{F, A} | _] -> text(" in ~tw/~b", [F, A]);
            [] -> ~""
        end,
    Function = function(Command, #{config => Config}),
    text("~ts raised ~tw:~0tP~ts", [Function, Class, Reason, 12, Where]).

wrong(Command, Config, Value, Expected) ->
    Hint =
        case {Command, Value} of
            {open, {error, _}} -> "";
            _ -> ["; ", Expected, " is expected"]
        end,
    Function = function(Command, #{config => Config}),
    {error, text("~ts returned ~0tP~ts", [Function, Value, 12, Hint])}.

where(Command, Probe, State) ->
    case process_info(Probe, {dictionary, ?AT}) of
        {{dictionary, ?AT}, At} when is_binary(At) -> At;
        _ -> function(Command, State)
    end.

function(Command, #{config := #{module := Module, form := Form}}) ->
    {Name, Arity} = callback(Form, Command),
    dyno_agent_name:mfa({Module, Name, Arity}).

callback(sampler, open) -> {init, 1};
callback(sampler, sample) -> {sample, 1};
callback(sampler, finish) -> {results, 1};
callback(performerl, finish) -> {get_results_and_stop, 0};
callback(performerl, _Command) -> {start, 1}.

text(Format, Arguments) ->
    <<_/binary>> = unicode:characters_to_binary(io_lib:format(Format, Arguments)).
