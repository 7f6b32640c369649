%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_custom).
-moduledoc """
The instrument that runs foreign code in the target: a suite's custom agents, invariants and
metrics.

A second process, the probe, runs the code; this process, the host, waits for it, and kills it after
too much time or memory. The code has one of two forms:

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

-export([about/0, config/1, last_look/1, peek/1]).
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

-type state() :: #{
    config := config(),
    probe := {pid(), reference()} | none,
    %% The result of PerformERL's `start/1`.
    agent := {pid(), reference()} | none,
    phase := open | sampling | looked | ended
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

-doc "Takes the last sample, just before the end of the load.".
-spec last_look(pid()) -> ok.
last_look(Pid) ->
    Pid ! last_look,
    ok.

-doc "Everything was sent already.".
-spec peek(pid()) -> ok.
peek(_Pid) -> ok.

-doc "Calls `init` or `start`. The error is the code's.".
-spec init(config()) -> {ok, state()} | {error, {?MODULE, binary() | {ignored, binary()}}}.
init(Config) ->
    process_flag(trap_exit, true),
    proc_lib:set_label(?MODULE),
    ok = dyno_agent_process:unlimited(),
    case opened(#{config => Config, probe => none, agent => none, phase => open}) of
        {ok, State} -> {ok, State};
        {ignored, _} = Ignored -> {error, {?MODULE, Ignored}};
        {error, Text} -> {error, {?MODULE, Text}}
    end.

-spec handle_call(restart | read, gen_server:from(), state()) -> {reply, ok, state()}.
handle_call(restart, _From, #{phase := open, config := #{form := sampler}} = State) ->
    self() ! sample,
    {reply, ok, State#{phase := sampling}};
handle_call(read, _From, #{phase := Phase, config := #{form := sampler}} = State) when
    Phase =:= open; Phase =:= sampling
->
    {reply, ok, finished(sampled(State))};
handle_call(read, _From, State) ->
    {reply, ok, finished(State)};
handle_call(_Request, _From, State) ->
    {reply, ok, State}.

-spec handle_cast(term(), state()) -> {noreply, state()}.
handle_cast(_Request, State) ->
    {noreply, State}.

-spec handle_info(term(), state()) -> {noreply, state()}.
handle_info(sample, #{phase := sampling} = State) ->
    {noreply, scheduled(sampled(State))};
handle_info(last_look, #{phase := sampling} = State) ->
    {noreply, looked(sampled(State))};
handle_info({'DOWN', Monitor, process, _, Reason}, #{probe := {_, Monitor}} = State) ->
    {Answer, Without} = gone(sample, Reason, State),
    {noreply, taken(Answer, Without)};
handle_info({'DOWN', Monitor, process, _, Reason}, #{agent := {_, Monitor}} = State) ->
    Text = text("its process ended: ~0tP", [Reason, 12]),
    {noreply, tell({ended, Text}, State#{agent := none})};
handle_info(_Other, State) ->
    {noreply, State}.

%% Nothing of the code may remain when the modules are removed.
-spec terminate(term(), state()) -> ok.
terminate(_Reason, State) ->
    _ = killed(State),
    ok.

opened(State) ->
    case ask(open, with_probe(State)) of
        {opened, Opened} ->
            {ok, Opened};
        {{opened, Pid}, Opened} ->
            {ok, Opened#{agent := {Pid, monitor(process, Pid)}}};
        {{Why, Text}, Failed} ->
            _ = killed(Failed),
            {Why, Text}
    end.

%% The load may have ended meanwhile.
sampled(State) ->
    {Answer, Asked} = ask(sample, State),
    Taken = taken(Answer, Asked),
    receive
        last_look -> looked(Taken)
    after 0 -> Taken
    end.

taken({sample, _} = Sample, State) ->
    tell(Sample, State);
taken({error, Text}, #{probe := none, config := #{again := true}} = State) ->
    case opened(tell({failed, Text}, State)) of
        {ok, Again} -> Again;
        {_, Why} -> ended(tell({ended, Why}, State))
    end;
taken({error, Text}, #{probe := none} = State) ->
    ended(tell({ended, Text}, State));
taken({error, Text}, State) ->
    tell({failed, Text}, State).

scheduled(#{phase := sampling, config := #{interval_ms := IntervalMs}} = State) ->
    _ = erlang:send_after(dyno_agent_instants:next_ms(IntervalMs), self(), sample),
    State;
scheduled(State) ->
    State.

looked(#{phase := sampling} = State) -> State#{phase := looked};
looked(State) -> State.

finished(#{phase := ended} = State) ->
    State;
finished(State) ->
    case ask(finish, State) of
        {none, Asked} -> ended(Asked);
        {{error, Text}, Asked} -> ended(tell({no_results, Text}, Asked));
        {Results, Asked} -> ended(tell(Results, Asked))
    end.

ended(State) ->
    (killed(State))#{phase := ended}.

tell(Event, #{config := #{sink := Sink}} = State) ->
    AtNs = erlang:monotonic_time(nanosecond),
    _ = erlang:send(Sink, {dyno_probe, self(), AtNs, Event}, [noconnect]),
    State.

%% Has the probe run a command. Meanwhile this process waits; the guard may end it.
ask(Command, #{probe := {Probe, Monitor}, config := #{limit_ms := LimitMs}} = State) ->
    Ref = make_ref(),
    Probe ! {?MODULE, Ref, Command},
    receive
        {Ref, Answer} ->
            {Answer, State};
        {'DOWN', Monitor, process, _, Reason} ->
            gone(Command, Reason, State);
        {'EXIT', _, Reason} ->
            _ = killed(State),
            exit(Reason)
    after LimitMs ->
        Text = text("~ts had not returned after ~b ms", [where(Command, Probe, State), LimitMs]),
        {{error, Text}, killed(State)}
    end.

%% Out of memory, or killed.
gone(Command, Reason, #{config := Config} = State) ->
    Text = text("~ts was ended: ~0tP (it may take ~b MiB)", [
        function(Command, Config), Reason, 10, ?MAX_WORDS * 8 div 1_048_576
    ]),
    {{error, Text}, State#{probe := none}}.

%% The probe

with_probe(#{config := Config} = State) ->
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
    State#{probe := Probe}.

killed(#{probe := Probe, agent := Agent} = State) ->
    lists:foreach(
        fun({Pid, Monitor}) ->
            exit(Pid, kill),
            receive
                {'DOWN', Monitor, process, Pid, _} -> ok
            end
        end,
        [Of || {_, _} = Of <- [Agent, Probe]]
    ),
    State#{probe := none, agent := none}.

%% Other messages are the code's.
probe(Host, Monitor, Config, Before) ->
    receive
        {?MODULE, Ref, Command} ->
            {Answer, After} =
                try
                    run(Command, Config, Before)
                catch
                    Class:Reason:Stack ->
                        {raised(Command, Config, {Class, Reason, Stack}), Before}
                end,
            Host ! {Ref, Answer},
            probe(Host, Monitor, Config, After);
        {'DOWN', Monitor, process, Host, _} ->
            ok
    end.

run(open, #{form := sampler, module := Module, config := Argument} = Config, _Before) ->
    case Module:init(Argument) of
        {ok, State} -> {opened, State};
        Other -> {refused(open, Other, Config), undefined}
    end;
run(open, #{module := Module, config := Argument} = Config, _Before) ->
    case Module:start(Argument) of
        {ok, Pid} when is_pid(Pid) -> {{opened, Pid}, undefined};
        Other -> {refused(open, Other, Config), undefined}
    end;
run(sample, #{module := Module} = Config, Before) ->
    case Module:sample(Before) of
        {ok, Values, After} ->
            {limited(sample, Values, ?MAX_SAMPLE_BYTES, function(sample, Config)), After};
        Other ->
            {refused(sample, Other, Config), Before}
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
run(finish, #{module := Module} = Config, _Before) ->
    case Module:get_results_and_stop() of
        {ok, Results} -> {results(Module, Results), undefined};
        Other -> {refused(finish, Other, Config), undefined}
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
    {error, text("~ts raised ~tw:~0tP~ts", [function(Command, Config), Class, Reason, 12, Where])}.

refused(open, ignore, Config) ->
    {ignored, text("~ts returned ignore", [function(open, Config)])};
refused(open, {error, _} = Value, Config) ->
    {error, text("~ts returned ~0tP", [function(open, Config), Value, 12])};
refused(Command, Value, #{form := Form} = Config) ->
    {_, _, Expected} = callback(Form, Command),
    Format = "~ts returned ~0tP; ~ts is expected",
    {error, text(Format, [function(Command, Config), Value, 12, Expected])}.

where(Command, Probe, #{config := Config}) ->
    case process_info(Probe, {dictionary, ?AT}) of
        {{dictionary, ?AT}, At} when is_binary(At) -> At;
        _ -> function(Command, Config)
    end.

function(Command, #{module := Module, form := Form}) ->
    {Name, Arity, _} = callback(Form, Command),
    dyno_agent_name:mfa({Module, Name, Arity}).

callback(sampler, open) -> {init, 1, "{ok, State}, ignore or {error, Reason}"};
callback(sampler, sample) -> {sample, 1, "{ok, #{Name => Number}, State}"};
callback(sampler, finish) -> {results, 1, "a term"};
callback(performerl, finish) -> {get_results_and_stop, 0, "{ok, Results}"};
callback(performerl, _Command) -> {start, 1, "{ok, Pid}, ignore or {error, Reason}"}.

text(Format, Arguments) ->
    <<_/binary>> = unicode:characters_to_binary(io_lib:format(Format, Arguments)).
