%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_prepared).
-moduledoc false.
%% Codes that are ready to run: loops are loaded, `init` has run in a sandbox, and `init_runner` in
%% each worker. There is a worker for each unit of concurrency. The empty loop is number 0; codes
%% are numbered from 1.
%%
%% Errors end the function that `with/3` calls.

-export([with/3, with_workers/3, resized/2]).
-export([checked/2, options/1, workers/1, one_worker/1, numbers/1, description/2]).
-export([epochs/3, epochs/4, epochs_once/4, is_believable/1]).
-export([result/2, single_calls/2, kept/3, loop/2]).
-export_type([t/0, description/0, amount/0]).

%% Retries of an epoch whose clocks disagree: one in ten to twenty beside two other programs.
-define(TRIES, 20).

-opaque t() :: #{
    workers := [pid()],
    compiled := #{non_neg_integer() => dyno_bench_code:compiled()},
    %% From number 0 on.
    inits := [term(), ...],
    options := options()
}.

-doc "Fewer options suffice without workers, for callers that start workers themselves.".
-type options() ::
    dyno_bench_engine:options()
    | #{concurrency := 0, timeout_ms := pos_integer(), run => pos_integer(), _ => _}.

-doc "Known before a code runs.".
-type description() :: #{
    label := binary(),
    form := inline | call | apply,
    constant := boolean(),
    folded => binary(),
    warnings := [binary()]
}.

-type amount() :: pos_integer() | {ms, pos_integer()}.

-spec with([dyno_bench_code:code()], options(), fun((t()) -> Value)) -> dyno_error:result(Value).
with(Codes, Options, Use) ->
    maybe
        {ok, Loaded} ?= load(lists:enumerate(maps:get(number, Options, 1), Codes), Options),
        Trapping = process_flag(trap_exit, true),
        try
            dyno_error:attempt(fun() -> with_codes(Loaded, Options, Use) end)
        after
            process_flag(trap_exit, Trapping),
            lists:foreach(fun unload/1, Loaded)
        end
    end.

%% Module names come from a fixed set: see dyno_bench_slots.
load(Codes, Options) ->
    Load = fun({Number, Code}) ->
        Module = dyno_bench_slots:module(loop, Number, Options),
        case dyno_bench_code:load(Module, Code, maps:with([compiler, timeout_ms], Options)) of
            {ok, Compiled} ->
                ok = load_called(Compiled),
                {ok, Compiled};
            {error, Error} ->
                {error, dyno_bench_code:in_code(Number, Error)}
        end
    end,
    dyno_error:each(Load, fun unload/1, Codes).

%% So that the first call need not wait for loading.
load_called(#{module := Module, binary := Binary}) ->
    {ok, {Module, [{imports, Imports}]}} = beam_lib:chunks(Binary, [imports]),
    _ = code:ensure_modules_loaded(lists:usort([Called || {Called, _, _} <- Imports])),
    ok.

unload(#{module := Module}) ->
    dyno_code:unload(Module).

with_codes(Loaded, #{concurrency := Concurrency} = Options, Use) ->
    LoopModule = dyno_bench_slots:module(loop, empty, Options),
    {ok, Loop} = dyno_bench_code:load(LoopModule, "ok.", maps:with([compiler], Options)),
    Sandbox = dyno_sandbox:start(#{}),
    try
        Inits = [undefined | [init(Sandbox, Compiled, Options) || Compiled <- Loaded]],
        Prepared = #{
            workers => [],
            compiled => maps:from_list([{0, Loop} | lists:enumerate(Loaded)]),
            inits => Inits,
            options => Options
        },
        with_workers(Concurrency, Prepared, fun(Ready) ->
            check(Ready),
            Use(Ready)
        end)
    after
        lists:foreach(fun(Compiled) -> done(Sandbox, Compiled, Options) end, Loaded),
        dyno_sandbox:stop(Sandbox),
        unload(Loop)
    end.

%% The sandbox also keeps the value, for `done`.
init(Sandbox, #{module := Module, constants := Constants, label := Label}, Options) ->
    Init = fun() ->
        Value = Module:init(Constants),
        _ = put({?MODULE, Module}, {initialised, Value}),
        Value
    end,
    ok(Label, init, dyno_sandbox:call(Sandbox, Init, map_get(timeout_ms, Options))).

%% Measuring is over: errors of the tear-down are ignored.
done(Sandbox, #{module := Module, constants := Constants}, #{timeout_ms := TimeoutMs}) ->
    Done = fun() ->
        case get({?MODULE, Module}) of
            {initialised, Init} -> Module:done(Constants, Init);
            undefined -> ok
        end
    end,
    dyno_sandbox:call(Sandbox, Done, TimeoutMs).

-doc "Extra workers last only for the call.".
-spec with_workers(non_neg_integer(), t(), fun((t()) -> Value)) -> Value.
with_workers(Count, #{workers := Workers} = Prepared, Use) ->
    Resized = resized(Count, Prepared),
    try
        Use(Resized)
    after
        _ = resized(length(Workers), Resized)
    end.

-spec resized(non_neg_integer(), t()) -> t().
resized(Count, #{workers := Workers} = Prepared) when Count =< length(Workers) ->
    {Kept, Surplus} = lists:split(Count, Workers),
    lists:foreach(fun dyno_sandbox:kill/1, Surplus),
    Prepared#{workers := Kept};
resized(Count, #{workers := Workers, inits := Inits} = Prepared) ->
    Schedulers = erlang:system_info(schedulers_online),
    Added = [
        dyno_bench_worker:start_link((N - 1) rem Schedulers + 1)
     || N <- lists:seq(length(Workers) + 1, Count)
    ],
    try
        _ = [
            init_runners(Number, Init, Added, Prepared)
         || {Number, Init} <- lists:enumerate(0, Inits)
        ],
        Prepared#{workers := Workers ++ Added}
    catch
        throw:Error ->
            lists:foreach(fun dyno_sandbox:kill/1, Added),
            throw(Error)
    end.

init_runners(Number, Init, Workers, #{compiled := Compiled} = Prepared) ->
    #{Number := #{label := Label} = Code} = Compiled,
    Order = {Number, Code, Init},
    ok(Label, init_runner, dyno_bench_worker:prepare(Workers, Order, timeout_ms(Prepared))).

check(#{options := #{check := Check}} = Prepared) ->
    Numbers = numbers(Prepared),
    checked(Check, [{label(Number, Prepared), result(Number, Prepared)} || Number <- Numbers]);
check(_Prepared) ->
    ok.

-spec checked(dyno_bench_engine:check(), [{Label :: binary(), Result :: term()}]) -> ok.
checked(Check, Results) ->
    case Check(Results) of
        ok -> ok;
        {error, Text} -> dyno_error:fail({dyno_bench_engine, {check, Text}})
    end.

timeout_ms(#{options := #{timeout_ms := TimeoutMs}}) -> TimeoutMs.

ok(_Label, _Stage, {ok, Value}) ->
    Value;
ok(Label, Stage, {error, Failure}) ->
    dyno_error:fail(dyno_bench_failure:error(Label, Stage, Failure)).

ran(Number, Result, Prepared) ->
    ok(label(Number, Prepared), run, Result).

-spec options(t()) -> dyno_bench_engine:options().
options(#{options := Options}) -> Options.

-spec workers(t()) -> [pid()].
workers(#{workers := Workers}) -> Workers.

-spec one_worker(t()) -> t().
one_worker(#{workers := [Worker | _]} = Prepared) -> Prepared#{workers := [Worker]}.

-spec numbers(t()) -> [pos_integer(), ...].
numbers(#{compiled := Compiled}) -> lists:seq(1, map_size(Compiled) - 1).

-spec description(pos_integer(), t()) -> description().
description(Number, #{compiled := Compiled}) ->
    maps:with([label, form, constant, folded, warnings], map_get(Number, Compiled)).

-doc "With the heap of the options, or else the runtime's.".
-spec epochs(non_neg_integer(), amount(), t()) -> [dyno_bench_worker:epoch(), ...].
epochs(Number, Amount, #{options := Options} = Prepared) ->
    epochs(Number, Amount, maps:get(heap, Options, default), Prepared).

-doc "Draws the loop's place anew each time.".
-spec epochs(non_neg_integer(), amount(), dyno_bench_worker:heap(), t()) ->
    [dyno_bench_worker:epoch(), ...].
epochs(Number, Amount, Heap, #{workers := Workers} = Prepared) ->
    receive
        dyno_interrupt -> dyno_error:fail({dyno_error, interrupted})
    after 0 -> ok
    end,
    Run =
        case Amount of
            {ms, Ms} -> #{number => Number, ms => Ms, heap => Heap};
            Iterations -> #{number => Number, iterations => Iterations, heap => Heap}
        end,
    believable(?TRIES, Workers, Run, Prepared).

%% Repeats an epoch whose clocks disagree. If workers share schedulers, waiting is not known anyway.
believable(0, _Workers, #{number := Number}, Prepared) ->
    dyno_error:fail({dyno_bench_engine, {clocks, label(Number, Prepared), ?TRIES}});
believable(Left, Workers, #{number := Number} = Run, Prepared) ->
    #{compiled := #{Number := #{places := Places}}} = Prepared,
    Placed = Run#{place => rand:uniform(Places)},
    Epochs = ran(Number, dyno_bench_worker:epoch(Workers, Placed, timeout_ms(Prepared)), Prepared),
    case is_believable(Epochs) of
        true -> Epochs;
        false -> believable(Left - 1, Workers, Run, Prepared)
    end.

-spec is_believable([dyno_bench_worker:epoch(), ...]) -> boolean().
is_believable(Epochs) ->
    length(Epochs) > erlang:system_info(schedulers_online) orelse
        lists:all(fun dyno_bench_calibration:is_believable/1, Epochs).

-doc "Accepts clocks that disagree: for a first call, and for what is counted around one epoch.".
-spec epochs_once(pos_integer(), pos_integer(), dyno_bench_worker:heap(), t()) ->
    [dyno_bench_worker:epoch(), ...].
epochs_once(Number, Iterations, Heap, #{workers := Workers} = Prepared) ->
    Run = #{number => Number, iterations => Iterations, heap => Heap, place => 1},
    ran(Number, dyno_bench_worker:epoch(Workers, Run, timeout_ms(Prepared)), Prepared).

-spec result(pos_integer(), t()) -> term().
result(Number, Prepared) ->
    call(Number, 1, fun dyno_sandbox:attempt/1, Prepared).

-spec single_calls(pos_integer(), t()) -> dyno_bench_single_calls:single_calls().
single_calls(Number, Prepared) ->
    Run = fun(Call) ->
        dyno_sandbox:attempt(fun() -> dyno_bench_single_calls:run(Call) end)
    end,
    call(Number, 1, Run, Prepared).

-spec kept(pos_integer(), pos_integer(), t()) -> dyno_bench_kept:kept().
kept(Number, Iterations, Prepared) ->
    call(Number, Iterations, fun dyno_bench_kept:run/1, Prepared).

-doc "For counting reductions in one worker.".
-spec loop(non_neg_integer(), t()) -> dyno_bench_deterministic:loop().
loop(Number, #{compiled := Compiled} = Prepared) ->
    #{Number := #{module := Module}} = Compiled,
    {Module, fun(N) -> call(Number, N, fun dyno_bench_worker:reductions/1, Prepared) end}.

call(Number, N, Function, #{workers := [Worker | _]} = Prepared) ->
    Result = dyno_bench_worker:call(Worker, {Number, N}, Function, timeout_ms(Prepared)),
    ran(Number, Result, Prepared).

label(Number, #{compiled := Compiled}) ->
    map_get(label, map_get(Number, Compiled)).
