%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_load_spec).
-moduledoc false.
%% Reads a suite's load: checks every key and adds defaults.

-export([read/2, override/3, is_operations/1, workers/1, describe/1]).
-export([format_error/1]).
-export_type([load/0, think/0, operations/0, override/0, reason/0]).

-type operations() :: #{Kind :: atom() => Weight :: number()}.

-doc "The pause of a closed load's worker, in ms: constant, uniform, or exponential with a mean.".
-type think() :: number() | {uniform, number(), number()} | {exponential, number()}.

-doc "A checked load; doc/suites.md describes the keys.".
-type load() :: #{model := closed | open | phases | search, atom() => term()}.

-type override() :: #{
    model => closed | open | search,
    rate_per_s => term(),
    workers => pos_integer(),
    objective => [string() | binary()],
    iterations => pos_integer(),
    think_time_ms => think(),
    arrivals => term()
}.

-type reason() ::
    {bad_load, term()}
    | {in_load, Model :: atom(), dyno_error:error()}
    | rate_and_arrivals
    | {in_phase, pos_integer(), reason()}
    | {search_objective, dyno_threshold:reason()}
    | {search_metric, binary()}
    | {arrivals_file, dyno_load_arrivals_file:reason()}
    | no_load.

%% The default connections; more are opened if the target stands still.
-define(OPEN_WORKERS, 100).
-define(OPEN_MAX_WORKERS, 10_000).
-define(MOST_WORKERS, 1_000_000).

-doc "Reads a suite's load: a model, which then scales with the size, or a whole load.".
-spec read(term(), pos_integer()) -> {ok, load()} | {error, reason()}.
read(closed, Size) ->
    read(#{model => closed, workers => Size}, Size);
read(open, Size) ->
    read(#{model => open, rate_per_s => Size}, Size);
read(#{model := Model} = Load, _Size) when
    Model =:= closed; Model =:= open; Model =:= phases; Model =:= search
->
    maybe
        {ok, Read} ?= dyno_option:read(fields(Load), maps:remove(model, Load)),
        {ok, _} ?= with_pool(Read#{model => Model})
    else
        {error, {?MODULE, Reason}} -> {error, Reason};
        {error, Error} -> {error, {in_load, Model, Error}}
    end;
read(Other, _Size) ->
    {error, {bad_load, Other}}.

keys(closed) ->
    [workers, think_time_ms, iterations, operations, duration_ms, name];
keys(open) ->
    [rate_per_s, arrivals, workers, max_workers, operations, duration_ms, name];
keys(phases) ->
    [phases, operations];
keys(search) ->
    [objective, from_per_s, to_per_s, probe_ms, confidence, precision, limit_ms, arrivals] ++
        [workers, max_workers, operations].

fields(#{model := Model} = Load) ->
    [
        {Key, default(Key, Load), Read, Accepted}
     || Key <- keys(Model), {Read, Accepted} <- [key(Key, Model)]
    ].

default(workers, #{model := closed}) -> mandatory;
default(rate_per_s, #{arrivals := Curve}) when is_tuple(Curve) -> optional;
default(Key, _) when Key =:= rate_per_s; Key =:= phases; Key =:= objective -> mandatory;
default(Key, #{model := search}) -> maps:get(Key, search_defaults(), optional);
default(_Key, _) -> optional.

key(workers, _) ->
    {fun is_workers/1, "a whole number from 1 to 1000000"};
key(max_workers, _) ->
    {fun is_workers/1, "a whole number, at least workers and at most 1000000"};
key(think_time_ms, _) ->
    {fun is_think/1, "a number of milliseconds, {uniform, Low, High} or {exponential, Mean}"};
key(iterations, _) ->
    {fun is_iterations/1, "a whole number from 1 up, for all workers together, or {each, N}"};
key(operations, _) ->
    {fun is_operations/1, "a map from operations to weights above 0"};
key(name, _) ->
    {fun dyno_option:name/1, "text"};
key(rate_per_s, _) ->
    {
        fun is_rate/1,
        "a number above 0, {ramp, From, To}, {steps, [Rate, ...]} or "
        "{spike, #{base => R, peak => R, at_ms => T, for_ms => T}}"
    };
key(arrivals, open) ->
    {
        fun arrivals/1,
        "even, poisson, {counts, IntervalMs, Counts} or {times_ms, Times}, where the last is "
        "a list or a file's name"
    };
key(arrivals, search) ->
    {fun is_pacing/1, "even or poisson"};
key(phases, _) ->
    {fun phases/1, "a list of closed and open loads"};
key(objective, _) ->
    {fun objectives/1, "a text such as \"latency.p99 < 50 ms\", or a list"};
key(confidence, _) ->
    {fun(C) -> is_number(C) andalso C >= 0.6 andalso C =< 0.999 end, "a number from 0.6 to 0.999"};
key(precision, _) ->
    {fun(P) -> is_number(P) andalso P >= 0.01 andalso P =< 1 end, "a number from 0.01 to 1"};
key(Rate, _) when Rate =:= from_per_s; Rate =:= to_per_s ->
    {fun(R) -> is_number(R) andalso R > 0 end, "a number above 0"};
key(Ms, _) when Ms =:= duration_ms; Ms =:= probe_ms; Ms =:= limit_ms ->
    {fun(N) -> is_integer(N) andalso N >= 50 end, "a whole number of milliseconds, 50 or more"}.

search_defaults() ->
    #{
        from_per_s => 10,
        to_per_s => 1_000_000,
        probe_ms => 1000,
        confidence => 0.9,
        precision => 0.1,
        limit_ms => 120_000
    }.

with_pool(#{model := Model} = Load) when Model =:= closed; Model =:= phases -> {ok, Load};
with_pool(#{arrivals := Curve, rate_per_s := _}) when is_tuple(Curve) ->
    {error, {?MODULE, rate_and_arrivals}};
with_pool(#{model := Model, workers := Workers, max_workers := Most}) when Most < Workers ->
    dyno_option:error(max_workers, Most, element(2, key(max_workers, Model)));
with_pool(#{workers := _} = Load) ->
    {ok, Load};
with_pool(#{max_workers := Most} = Load) ->
    {ok, Load#{workers => min(?OPEN_WORKERS, Most)}};
with_pool(Load) ->
    {ok, Load#{workers => ?OPEN_WORKERS, max_workers => ?OPEN_MAX_WORKERS}}.

is_workers(N) -> is_integer(N) andalso N > 0 andalso N =< ?MOST_WORKERS.

is_iterations({each, N}) -> is_integer(N) andalso N > 0;
is_iterations(N) -> is_integer(N) andalso N > 0.

is_pacing(Pacing) -> Pacing =:= even orelse Pacing =:= poisson.

arrivals({counts, IntervalMs, Source}) when is_integer(IntervalMs), IntervalMs > 0 ->
    maybe
        {ok, Counts} ?= numbers(Source, fun(N) -> is_integer(N) andalso N >= 0 end),
        {ok, {counts, IntervalMs, Counts}}
    end;
arrivals({times_ms, Source}) ->
    maybe
        {ok, Times} ?= numbers(Source, fun is_number/1),
        {ok, {times_ms, Times}}
    end;
arrivals(Other) ->
    is_pacing(Other).

is_think({uniform, Low, High}) ->
    is_number(Low) andalso is_number(High) andalso 0 =< Low andalso Low =< High;
is_think({exponential, Mean}) ->
    is_number(Mean) andalso Mean > 0;
is_think(Ms) ->
    is_number(Ms) andalso Ms >= 0.

is_rate({ramp, From, To}) ->
    is_part_of_rate(From) andalso is_part_of_rate(To) andalso From + To > 0;
is_rate({steps, Rates}) when length(Rates) > 0 ->
    lists:all(fun is_part_of_rate/1, Rates) andalso lists:sum(Rates) > 0;
is_rate({spike, #{base := Base, peak := Peak, at_ms := At, for_ms := For} = Spike}) ->
    map_size(Spike) =:= 4 andalso is_part_of_rate(Base) andalso is_part_of_rate(Peak) andalso
        Peak > 0 andalso is_integer(At) andalso At >= 0 andalso is_integer(For) andalso For > 0;
is_rate(Rate) ->
    is_number(Rate) andalso Rate > 0.

is_part_of_rate(Rate) -> is_number(Rate) andalso Rate >= 0.

numbers(Source, Is) ->
    maybe
        {ok, Numbers} ?= numbers(Source),
        true ?= lists:all(Is, Numbers),
        {ok, Numbers}
    end.

%% A file name is a list of numbers too, with a letter or a dot. A list that is no text opens none.
numbers([First | _] = List) when is_number(First), length(List) > 0 ->
    case io_lib:printable_unicode_list(List) andalso filelib:is_regular(List) of
        true -> numbers(unicode:characters_to_binary(List));
        false -> {ok, List}
    end;
numbers(File) when is_binary(File) ->
    case dyno_load_arrivals_file:read(File) of
        {ok, Numbers} -> {ok, Numbers};
        {error, Reason} -> {error, {?MODULE, {arrivals_file, Reason}}}
    end;
numbers(_Other) ->
    false.

phases(Phases) when length(Phases) > 0 -> dyno_error:each(fun phase/1, lists:enumerate(Phases));
phases(_Other) -> false.

phase({Nth, #{model := Model} = Phase}) when Model =:= closed; Model =:= open ->
    case read(Phase, 1) of
        {ok, Load} -> {ok, Load};
        {error, Reason} -> {error, {?MODULE, {in_phase, Nth, Reason}}}
    end;
phase({Nth, Other}) ->
    {error, {?MODULE, {in_phase, Nth, {bad_load, Other}}}}.

objectives([Char | _] = Text) when is_integer(Char) -> objectives([Text]);
objectives(Text) when is_binary(Text) -> objectives([Text]);
objectives(Texts) when length(Texts) > 0 ->
    maybe
        {ok, Read} ?= dyno_error:each(fun dyno_option:text/1, Texts),
        dyno_error:each(fun objective/1, Read)
    end;
objectives(_Other) ->
    false.

objective(Text) ->
    maybe
        {ok, Threshold} ?= dyno_threshold:parse(Text),
        ok ?= dyno_threshold:check(Threshold, dyno_load_metrics:known_of_probe()),
        nomatch ?= re:run(Text, ~"\\s(of|at)\\s", [{capture, none}]),
        {ok, Threshold}
    else
        match -> {error, {?MODULE, {search_metric, Text}}};
        {error, {_, _, {unknown_metric, _, _}}} -> {error, {?MODULE, {search_metric, Text}}};
        {error, {_, _, {unknown_table, _, _}}} -> {error, {?MODULE, {search_metric, Text}}};
        {error, Reason} -> {error, {?MODULE, {search_objective, Reason}}}
    end.

-spec is_operations(term()) -> boolean().
is_operations(Operations) when is_map(Operations), map_size(Operations) > 0 ->
    IsKind = fun({Kind, Weight}) -> is_atom(Kind) andalso is_number(Weight) andalso Weight > 0 end,
    lists:all(IsKind, maps:to_list(Operations));
is_operations(_Other) ->
    false.

-doc "Replaces the suite's values by the command line's.".
-spec override(load(), override(), pos_integer()) -> {ok, load()} | {error, reason()}.
override(Load, Override, _Size) when map_size(Override) =:= 0 ->
    {ok, Load};
override(#{model := Now} = Load, Override, Size) ->
    Model = maps:get(model, Override, implied(Override, Now)),
    Kept =
        case Model of
            Now -> Load;
            _ -> maps:with(keys(Model) -- [name, duration_ms, workers, max_workers], Load)
        end,
    Based =
        case Model of
            closed -> maps:merge(#{workers => Size}, Kept);
            open when not is_map_key(arrivals, Kept) -> maps:merge(#{rate_per_s => Size}, Kept);
            _ -> Kept
        end,
    read(maps:merge(without_replaced(Override, texts(Based)), Override#{model => Model}), Size).

implied(#{objective := _}, _) -> search;
implied(#{rate_per_s := _}, _) -> open;
implied(#{arrivals := Arrivals}, _) when is_tuple(Arrivals) -> open;
implied(#{think_time_ms := _}, _) -> closed;
implied(#{iterations := _}, _) -> closed;
implied(_, Now) -> Now.

without_replaced(#{rate_per_s := _}, #{arrivals := Arrivals} = Load) when is_tuple(Arrivals) ->
    maps:remove(arrivals, Load);
without_replaced(#{arrivals := Arrivals}, Load) when is_tuple(Arrivals) ->
    maps:remove(rate_per_s, Load);
without_replaced(#{workers := _}, Load) ->
    maps:remove(max_workers, Load);
without_replaced(_Override, Load) ->
    Load.

%% As text, to be read again.
texts(#{objective := Thresholds} = Load) ->
    Load#{objective := [dyno_threshold:format(T) || T <- Thresholds]};
texts(Load) ->
    Load.

-doc "A load as a recording's parameters.".
-spec describe(closed | open | none | load()) -> #{atom() => term()}.
describe(Model) when is_atom(Model) ->
    #{model => Model};
describe(Load) ->
    maps:map(
        fun
            (phases, Phases) ->
                [describe(Phase) || Phase <- Phases];
            (objective, [First | _] = Several) when not is_integer(First) ->
                [text(T) || T <- Several];
            (objective, Text) ->
                text(Text);
            (operations, Operations) ->
                Operations;
            (_Key, Value) when is_number(Value); is_atom(Value); is_binary(Value) -> Value;
            (_Key, Value) ->
                unicode:characters_to_binary(io_lib:format("~0tP", [Value, 20]))
        end,
        Load
    ).

%% As text, or already read.
text(Text) when is_binary(Text); is_list(Text) -> dyno_recording_check:text(Text);
text(Threshold) -> dyno_threshold:format(Threshold).

-doc "The largest number of initial workers of a load.".
-spec workers(load()) -> pos_integer().
workers(#{model := phases, phases := Phases}) ->
    lists:max([Workers || #{workers := Workers} <- Phases]);
workers(#{workers := Workers}) ->
    Workers.

-spec format_error(reason()) -> unicode:chardata().
format_error({bad_load, Load}) ->
    io_lib:format(
        "~0tP is not a load; accepted are closed, open, #{model => closed, workers => N}, "
        "#{model => open, rate_per_s => R}, #{model => phases, phases => [Load, ...]} and "
        "#{model => search, objective => \"latency.p99 < 50 ms\"}",
        [Load, 12]
    );
format_error({in_load, Model, Error}) ->
    ["in the ", atom_to_list(Model), " load ", dyno_error:format(Error)];
format_error(rate_and_arrivals) ->
    "a load gives rate_per_s, or a recorded curve as arrivals, not both";
format_error({in_phase, Nth, Reason}) ->
    io_lib:format("phase ~b: ~ts", [Nth, format_error(Reason)]);
format_error({search_objective, Reason}) ->
    ["the search's objective: ", dyno_threshold:format_error(Reason)];
format_error({search_metric, Text}) ->
    io_lib:format(
        "the search's objective \"~ts\" is not about the load; accepted are latency.*, service.*, "
        "throughput, errors.*, load.* and operation.NAME.*, as in \"latency.p99 < 50 ms\"",
        [Text]
    );
format_error(no_load) ->
    "the suite gives no load (load => none), so there is none to change";
format_error({arrivals_file, Reason}) ->
    dyno_load_arrivals_file:format_error(Reason).
