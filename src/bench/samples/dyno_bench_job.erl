%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_job).
-moduledoc """
Runs a code again and again in any number of processes, which can be changed while it runs, and says
how often it has run.

```erlang
1> {ok, Job} = dyno_bench_job:start(#{code => "rand:uniform().", concurrency => 2}).
2> dyno_bench_job:sample(Job).
170411920
3> ok = dyno_bench_job:set_concurrency(Job, 4).
4> ok = dyno_bench_job:stop(Job).
```

A job ends with the process that started it, with the first of its workers that fails, or with
`stop/1`; its code is then taken away. `monitor/1` says that it has ended, and why. There are at
most 64 at a time.

## Cost
The workers count on a board of atomics, each in words of its own, once a millisecond: a thousandth
of their time. Reading the board disturbs nobody.
""".

-behaviour(gen_server).

-export([start/1, start_link/1, stop/1, request_stop/1, monitor/1]).
-export([concurrency/1, set_concurrency/2, pause/1, resume/1]).
-export([sample/1, measure/2, rows/1, description/1, source/1, set_priority/2]).
-export([format_error/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2, terminate/2]).
-export_type([job/0, options/0, description/0, reason/0]).

-type options() :: #{
    code := dyno_bench_code:code(),
    %% Workers; 1.
    concurrency => non_neg_integer(),
    %% Whether the workers begin at once; running.
    state => running | paused,
    %% The most workers it can have; 10000.
    max_concurrency => pos_integer(),
    %% The longest that init, init_runner, and a batch may take that is waited for; 30000.
    timeout_ms => pos_integer(),
    %% The node whose compiler is used, where this one has none; here.
    compiler => dyno_bench_code:compiler()
}.

-doc "A job.".
-opaque job() :: #{
    pid := pid(), board := dyno_bench_job_counters:t(), description := description()
}.

-doc "What is known of a code before it runs; see dyno_bench_code.".
-type description() :: #{
    label := binary(),
    form := inline | call | apply,
    constant := boolean(),
    warnings := [binary()]
}.

-type reason() ::
    dyno_bench_engine:reason()
    | dyno_bench_code:reason()
    | {too_many_jobs, pos_integer()}
    | {option, atom(), term(), Accepted :: binary()}
    | {endless, Label :: binary(), TimeoutMs :: pos_integer()}
    %% The job had ended before it was asked.
    | ended.

-type state() :: #{
    code := dyno_bench_job_worker:code(),
    description := description(),
    owner := reference(),
    ref := reference(),
    timeout_ms := pos_integer(),
    %% By their rows on the board: the first is the last of the list.
    workers := [pid()],
    parsed := dyno_bench_code:parsed(),
    %% A timed measurement, and who waits for it.
    measuring := none | {pid(), gen_server:from()}
}.

-type arguments() :: #{
    parsed := dyno_bench_code:parsed(),
    board := dyno_bench_job_counters:t(),
    owner := pid(),
    code := dyno_bench_code:code(),
    concurrency := non_neg_integer(),
    state := running | paused,
    max_concurrency := pos_integer(),
    timeout_ms := pos_integer(),
    compiler => dyno_bench_code:compiler()
}.

-define(MAX, 10_000).

-doc "Starts a job; returns when all its workers are ready.".
-spec start(options()) -> {ok, job()} | {error, reason()}.
start(Options) ->
    start_as(start, Options).

-doc "The same, linked to the caller: it ends with a job that fails.".
-spec start_link(options()) -> {ok, job()} | {error, reason()}.
start_link(Options) ->
    start_as(start_link, Options).

-spec start_as(start | start_link, options()) -> {ok, job()} | {error, reason()}.
start_as(How, #{code := Code} = Options) ->
    Max = maps:get(max_concurrency, Options, ?MAX),
    Merged = maps:merge(
        #{concurrency => 1, state => running, timeout_ms => 30_000, max_concurrency => Max}, Options
    ),
    maybe
        ok ?= checked(Merged),
        {ok, Parsed} ?= dyno_bench_code:read(Code),
        Board = dyno_bench_job_counters:new(Max),
        {ok, Pid} ?= started(How, Parsed, Board, Merged),
        described(#{pid => Pid, board => Board})
    end.

-spec described(#{pid := pid(), board := dyno_bench_job_counters:t()}) ->
    {ok, job()} | {error, reason()}.
described(Job) ->
    case call(Job, description) of
        {ok, Description} -> {ok, Job#{description => Description}};
        {error, _} = Error -> Error
    end.

-spec checked(options()) -> ok | {error, reason()}.
checked(
    #{concurrency := Concurrency, max_concurrency := Max, timeout_ms := Timeout, state := State}
) ->
    Checks = [
        {max_concurrency, Max, is_integer(Max) andalso Max >= 1, ~"a positive integer"},
        {concurrency, Concurrency, is_count(Concurrency, Max), accepted(Max)},
        {timeout_ms, Timeout, is_integer(Timeout) andalso Timeout >= 1, ~"a positive integer"},
        {state, State, lists:member(State, [running, paused]), ~"running or paused"}
    ],
    case [{option, Name, Value, Text} || {Name, Value, false, Text} <- Checks] of
        [] -> ok;
        [Reason | _] -> {error, Reason}
    end.

-spec is_count(term(), term()) -> boolean().
is_count(Count, Max) ->
    is_integer(Count) andalso is_integer(Max) andalso Count >= 0 andalso Count =< Max.

-spec accepted(term()) -> binary().
accepted(Max) ->
    iolist_to_binary(io_lib:format("an integer from 0 to ~0p", [Max])).

-spec started(start | start_link, dyno_bench_code:parsed(), dyno_bench_job_counters:t(), options()) ->
    {ok, pid()} | {error, reason()}.
started(How, Parsed, Board, #{timeout_ms := TimeoutMs} = Options) ->
    Arguments = Options#{parsed => Parsed, board => Board, owner => self()},
    case gen_server:How(?MODULE, Arguments, [{timeout, 2 * TimeoutMs}]) of
        {ok, Pid} -> {ok, Pid};
        {error, timeout} -> {error, {failed, ~"the job", init, {timeout, 2 * TimeoutMs}}};
        {error, {shutdown, Reason}} -> {error, Reason};
        {error, Reason} -> {error, {failed, ~"the job", init, {died, Reason}}}
    end.

-doc "Ends a job; its `done` is run.".
-spec stop(job()) -> ok.
stop(#{pid := Pid}) ->
    try
        gen_server:stop(Pid)
    catch
        exit:_ -> ok
    end.

-doc "Has a job end, and does not wait for that; see `monitor/1`.".
-spec request_stop(job()) -> ok.
request_stop(#{pid := Pid}) ->
    gen_server:cast(Pid, stop).

-doc """
Monitors a job: its `'DOWN'` message has the reason `{shutdown, Reason}` where the code failed.
""".
-spec monitor(job()) -> reference().
monitor(#{pid := Pid}) ->
    erlang:monitor(process, Pid).

-doc "How many workers a job has.".
-spec concurrency(job()) -> {ok, non_neg_integer()} | {error, reason()}.
concurrency(Job) ->
    call(Job, concurrency).

-doc """
Gives a job so many workers; returns when the new ones work. Those that are too many are killed, and
what they did since their last batch is not counted.
""".
-spec set_concurrency(job(), non_neg_integer()) -> ok | {error, reason()}.
set_concurrency(#{board := Board} = Job, Count) ->
    Max = dyno_bench_job_counters:capacity(Board),
    case is_count(Count, Max) of
        true -> call(Job, {set_concurrency, Count});
        false -> {error, {option, concurrency, Count, accepted(Max)}}
    end.

-doc "Returns when every worker has ended its batch and waits.".
-spec pause(job()) -> ok | {error, reason()}.
pause(Job) ->
    call(Job, pause).

-doc "Returns when every worker works again.".
-spec resume(job()) -> ok | {error, reason()}.
resume(Job) ->
    call(Job, resume).

-doc "The iterations of a job so far, those of workers that it no longer has included.".
-spec sample(job()) -> non_neg_integer().
sample(#{board := Board}) ->
    dyno_bench_job_counters:total(Board).

-doc """
How long so many iterations take, in nanoseconds, in a process of its own with an `init_runner` of
its own; the job's workers go on beside it, if there are any. One measurement at a time: `busy`
otherwise.
""".
-spec measure(job(), Iterations :: pos_integer()) ->
    {ok, Nanoseconds :: non_neg_integer()} | {error, busy | reason()}.
measure(Job, Iterations) when is_integer(Iterations), Iterations >= 1 ->
    call(Job, {measure, Iterations}).

-doc "The loop that a job or a code runs, as source text.".
-spec source(job() | dyno_bench_code:code()) -> {ok, unicode:chardata()} | {error, reason()}.
source(#{pid := _, board := _} = Job) ->
    call(Job, source);
source(Code) ->
    case dyno_bench_code:read(Code) of
        {ok, Parsed} -> {ok, dyno_bench_code:source(Parsed)};
        {error, _} = Error -> Error
    end.

-doc """
Sets the priority of the process that starts and stops a job's workers; gives the one before. `high`
lets it have its turn where there are far more workers than schedulers.
""".
-spec set_priority(job(), low | normal | high) -> {ok, low | normal | high} | {error, reason()}.
set_priority(Job, Level) when Level =:= low; Level =:= normal; Level =:= high ->
    call(Job, {set_priority, Level}).

-doc "What each worker had done at the end of its last batch, and when that was.".
-spec rows(job()) -> {ok, [dyno_bench_job_counters:row()]} | {error, reason()}.
rows(#{board := Board} = Job) ->
    maybe
        {ok, Count} ?= concurrency(Job),
        {ok, dyno_bench_job_counters:rows(Board, Count)}
    end.

-doc "What is known of a job's code.".
-spec description(job()) -> description().
description(#{description := Description}) ->
    Description.

%% It waits no longer than the job does, which gives up at its time.
-spec call(#{pid := pid(), _ => _}, term()) -> term().
call(#{pid := Pid}, Request) ->
    try
        gen_server:call(Pid, Request, infinity)
    catch
        exit:{{shutdown, Reason}, _} when is_tuple(Reason) -> {error, Reason};
        exit:_ -> {error, ended}
    end.

-doc "One sentence for a reason.".
-spec format_error(reason()) -> unicode:chardata().
format_error(ended) ->
    "the job has ended; start another one";
format_error({too_many_jobs, Max}) ->
    io_lib:format("~b jobs run already, which is the most; stop one of them", [Max]);
format_error({option, Key, Value, Accepted}) ->
    io_lib:format("~ts is ~0tp; ~ts is accepted", [Key, Value, Accepted]);
format_error({Tag, _, _, _} = Reason) when Tag =:= failed ->
    dyno_bench_engine:format_error(Reason);
format_error({Tag, _, _} = Reason) when Tag =:= endless; Tag =:= unknown ->
    dyno_bench_engine:format_error(Reason);
format_error(Reason) ->
    dyno_bench_code:format_error(Reason).

%% The job's process: it runs init and done, so that tables that init makes are its own.

-doc false.
%% Not {stop, ...}, which would take a linked caller along.
-spec init(arguments()) -> {ok, state()} | {error, {shutdown, reason()}}.
init(#{parsed := Parsed, board := Board, owner := Owner, timeout_ms := TimeoutMs} = Options) ->
    _ = process_flag(trap_exit, true),
    proc_lib:set_label(?MODULE),
    maybe
        {ok, Module} ?= dyno_bench_slots:lease(),
        {ok, #{binary := Binary, constants := Constants, label := Label} = Compiled} ?=
            dyno_bench_code:compile(Module, Parsed, maps:with([compiler, timeout_ms], Options)),
        ok = dyno_code:load(Module, atom_to_list(Module), Binary),
        {ok, Init} ?= initialised(Module, Constants, Label),
        Code = #{
            module => Module,
            constants => Constants,
            init => Init,
            label => Label,
            board => Board
        },
        State = #{
            code => Code,
            description => maps:with([label, form, constant, warnings], Compiled),
            owner => erlang:monitor(process, Owner),
            ref => make_ref(),
            timeout_ms => TimeoutMs,
            workers => [],
            parsed => Parsed,
            measuring => none
        },
        opened(State, Options)
    else
        {error, Reason} -> {error, {shutdown, Reason}}
    end.

-spec initialised(module(), #{atom() => term()}, binary()) -> {ok, term()} | {error, reason()}.
initialised(Module, Constants, Label) ->
    try
        {ok, Module:init(Constants)}
    catch
        Class:Reason:Stack ->
            {error, dyno_bench_undefined:failed(Label, init, {raised, Class, Reason, Stack})}
    end.

-spec opened(state(), #{concurrency := _, state := running | paused, _ => _}) ->
    {ok, state()} | {error, {shutdown, reason()}}.
opened(#{code := #{board := Board}} = State, #{concurrency := Count, state := Wanted}) ->
    case Wanted of
        running -> dyno_bench_job_counters:open(Board);
        paused -> dyno_bench_job_counters:close(Board)
    end,
    case resized(Count, State) of
        {ok, NewState} ->
            {ok, NewState};
        {error, Reason} ->
            terminate(Reason, State),
            {error, {shutdown, Reason}}
    end.

-doc false.
-spec handle_call(term(), gen_server:from(), state()) ->
    {reply, term(), state()} | {noreply, state()} | {
        stop, {shutdown, reason()}, {error, reason()}, state()
    }.
handle_call(concurrency, _From, #{workers := Workers} = State) ->
    {reply, {ok, length(Workers)}, State};
handle_call(source, _From, #{parsed := Parsed} = State) ->
    {reply, {ok, dyno_bench_code:source(Parsed)}, State};
handle_call({set_priority, Level}, _From, State) ->
    {reply, {ok, process_flag(priority, Level)}, State};
handle_call({measure, Iterations}, From, #{measuring := none, code := Code} = State) ->
    Job = self(),
    Pid = spawn_link(fun() -> Job ! {measured, self(), timed(Code, Iterations)} end),
    {noreply, State#{measuring := {Pid, From}}};
handle_call({measure, _Iterations}, _From, State) ->
    {reply, {error, busy}, State};
handle_call(description, _From, #{description := Description} = State) ->
    {reply, {ok, Description}, State};
handle_call({set_concurrency, Count}, _From, State) ->
    answer(resized(Count, State), State);
handle_call(pause, _From, #{code := #{board := Board}, workers := Workers} = State) ->
    case dyno_bench_job_counters:is_open(Board) of
        true ->
            dyno_bench_job_counters:close(Board),
            answer(collected(Workers, paused, State), State);
        false ->
            {reply, ok, State}
    end;
handle_call(resume, _From, #{code := #{board := Board}, workers := Workers} = State) ->
    case dyno_bench_job_counters:is_open(Board) of
        true ->
            {reply, ok, State};
        false ->
            dyno_bench_job_counters:open(Board),
            answer(begun(Workers, State), State)
    end.

-spec answer({ok, state()} | {error, reason()}, state()) ->
    {reply, ok, state()} | {stop, {shutdown, reason()}, {error, reason()}, state()}.
answer({ok, State}, _Old) -> {reply, ok, State};
answer({error, Reason}, Old) -> {stop, {shutdown, Reason}, {error, Reason}, Old}.

-doc false.
-spec handle_cast(stop, state()) -> {stop, normal, state()}.
handle_cast(stop, State) ->
    {stop, normal, State}.

-spec timed(dyno_bench_job_worker:code(), pos_integer()) ->
    {ok, non_neg_integer()} | {error, reason()}.
timed(#{module := Module, constants := Constants, init := Init, label := Label}, Iterations) ->
    try Module:init_runner(Constants, Init) of
        Start ->
            try
                BeginNs = erlang:monotonic_time(nanosecond),
                _ = Module:loop(Iterations, Constants, Start),
                {ok, erlang:monotonic_time(nanosecond) - BeginNs}
            catch
                Class:Reason:Stack ->
                    {error, dyno_bench_undefined:failed(Label, run, {raised, Class, Reason, Stack})}
            end
    catch
        Class:Reason:Stack ->
            {error, dyno_bench_undefined:failed(Label, init_runner, {raised, Class, Reason, Stack})}
    end.

-doc false.
-spec handle_info(term(), state()) -> {noreply, state()} | {stop, term(), state()}.
handle_info({'DOWN', Owner, process, _, _}, #{owner := Owner} = State) ->
    {stop, {shutdown, owner_ended}, State};
handle_info({'EXIT', Pid, Reason}, #{measuring := {Pid, From}} = State) ->
    gen_server:reply(From, {error, failure(Reason, State)}),
    {noreply, State#{measuring := none}};
handle_info({measured, Pid, Measured}, #{measuring := {Pid, From}} = State) ->
    gen_server:reply(From, Measured),
    {noreply, State#{measuring := none}};
handle_info({'EXIT', Pid, Reason}, #{workers := Workers} = State) ->
    case lists:member(Pid, Workers) of
        true -> {stop, {shutdown, failure(Reason, State)}, State};
        false -> {noreply, State}
    end;
%% What the code under test sends to the process that ran its init.
handle_info(_, State) ->
    {noreply, State}.

-doc false.
-spec terminate(term(), state()) -> ok.
terminate(_Reason, #{workers := Workers, code := Code, measuring := Measuring}) ->
    killed(Workers ++ [Pid || {Pid, _} <- [Measuring]]),
    #{module := Module, constants := Constants, init := Init} = Code,
    try
        _ = Module:done(Constants, Init),
        ok
    catch
        %% What a tear-down does is the code's affair.
        _:_ -> ok
    end.

%% Workers

-spec resized(non_neg_integer(), state()) -> {ok, state()} | {error, reason()}.
resized(Count, #{workers := Workers} = State) when Count =< length(Workers) ->
    {Surplus, Rest} = lists:split(length(Workers) - Count, Workers),
    killed(Surplus),
    {ok, State#{workers := Rest}};
resized(Count, #{workers := Workers, code := #{board := Board} = Code, ref := Ref} = State) ->
    dyno_bench_job_counters:use(Board, Count),
    Added = [
        dyno_bench_job_worker:start_link(Code, Row, Ref)
     || Row <- lists:seq(length(Workers) + 1, Count)
    ],
    NewState = State#{workers := lists:reverse(Added, Workers)},
    maybe
        {ok, _} ?= collected(Added, ready, NewState),
        true ?= dyno_bench_job_counters:is_open(Board),
        begun(Added, NewState)
    else
        false ->
            {ok, NewState};
        {error, _} = Error ->
            killed(Added),
            Error
    end.

-spec begun([pid()], state()) -> {ok, state()} | {error, reason()}.
begun(Workers, #{ref := Ref} = State) ->
    lists:foreach(fun(Pid) -> dyno_bench_job_worker:go(Pid, Ref) end, Workers),
    collected(Workers, started, State).

-spec collected([pid()], ready | started | paused, state()) -> {ok, state()} | {error, reason()}.
collected(Workers, What, #{timeout_ms := TimeoutMs} = State) ->
    collected(Workers, What, erlang:monotonic_time(millisecond) + TimeoutMs, State).

-spec collected([pid()], ready | started | paused, integer(), state()) ->
    {ok, state()} | {error, reason()}.
collected([], _What, _EndMs, State) ->
    {ok, State};
collected(
    [Pid | Rest], What, EndMs, #{ref := Ref, code := Code, timeout_ms := TimeoutMs} = State
) ->
    Left = max(0, EndMs - erlang:monotonic_time(millisecond)),
    receive
        {Ref, Pid, What} -> collected(Rest, What, EndMs, State);
        {'EXIT', Pid, Reason} -> {error, failure(Reason, State)}
    after Left -> {error, {endless, map_get(label, Code), TimeoutMs}}
    end.

-spec failure(term(), state()) -> reason().
failure({shutdown, {failed, Label, Stage, Failure}}, _State) ->
    dyno_bench_undefined:failed(Label, Stage, Failure);
failure(Reason, #{code := #{label := Label}}) ->
    {failed, Label, run, {died, Reason}}.

-spec killed([pid()]) -> ok.
killed(Workers) ->
    Monitors = [{Pid, erlang:monitor(process, Pid)} || Pid <- Workers],
    lists:foreach(
        fun(Pid) ->
            unlink(Pid),
            exit(Pid, kill)
        end,
        Workers
    ),
    lists:foreach(
        fun({Pid, Monitor}) ->
            receive
                {'DOWN', Monitor, process, Pid, _} -> ok
            end,
            receive
                {'EXIT', Pid, _} -> ok
            after 0 -> ok
            end
        end,
        Monitors
    ).
