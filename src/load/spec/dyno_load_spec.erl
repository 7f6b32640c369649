%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_load_spec).
-moduledoc """
Reads what a suite says of its load: checks every key and fills in what is left out.
""".

-export([read/2, override/3, operations/1, workers/1, describe/1]).
-export([some_text/1, suggestion/2, format_error/1]).
-export_type([load/0, think/0, operations/0, override/0, reason/0]).

-doc "Operation kinds, and how often each is made in relation to the others.".
-type operations() :: #{Kind :: atom() => Weight :: number()}.

-doc """
How long a worker of a closed load waits between its operations, in milliseconds: always the same,
evenly distributed, or exponentially with a mean.
""".
-type think() :: number() | {uniform, number(), number()} | {exponential, number()}.

-doc "A load as the generator takes it; doc/suites.md says what the keys mean.".
-type load() :: #{model := closed | open | phases | search, atom() => term()}.

-doc "What the command line puts in the place of the suite's.".
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
    | {bad_load_key, Model :: atom(), Key :: atom(), Value :: term(), Accepted :: string()}
    | {unknown_load_key, Model :: atom(), Key :: term(), Known :: [atom()]}
    | {missing_load_key, Model :: atom(), Key :: atom(), Accepted :: string()}
    | {both_load_keys, Key :: atom(), Other :: atom()}
    | {in_phase, pos_integer(), reason()}
    | {search_objective, dyno_threshold:reason()}
    | {search_metric, binary()}
    | {arrivals_file, dyno_load_arrivals_file:reason()}
    | no_load.

%% Where a suite says nothing: that many connections, and more while a target stands still.
-define(OPEN_WORKERS, 100).
-define(OPEN_MAX_WORKERS, 10_000).
-define(MOST_WORKERS, 1_000_000).

-doc "Reads what a suite gives: a model, which then goes by the size, or a whole load.".
-spec read(term(), pos_integer()) -> {ok, load()} | {error, reason()}.
read(closed, Size) ->
    {ok, #{model => closed, workers => Size}};
read(open, Size) ->
    read(#{model => open, rate_per_s => Size}, Size);
read(#{model := Model} = Load, _Size) when
    Model =:= closed; Model =:= open; Model =:= phases; Model =:= search
->
    Keys = keys(Model),
    case maps:keys(Load) -- [model | Keys] of
        [] -> read_keys(Keys, Load);
        [Key | _] -> {error, {unknown_load_key, Model, Key, Keys}}
    end;
read(Other, _Size) ->
    {error, {bad_load, Other}}.

%% All that a load may have.
keys(closed) ->
    [workers, think_time_ms, iterations, operations, duration_ms, name];
keys(open) ->
    [rate_per_s, arrivals, workers, max_workers, operations, duration_ms, name];
keys(phases) ->
    [phases, operations];
keys(search) ->
    [objective, from_per_s, to_per_s, probe_ms, confidence, precision, limit_ms, arrivals] ++
        [workers, max_workers, operations].

read_keys([], #{model := open, rate_per_s := _, arrivals := Arrivals}) when is_tuple(Arrivals) ->
    {error, {both_load_keys, rate_per_s, arrivals}};
read_keys([], #{model := open, arrivals := Arrivals} = Load) when is_tuple(Arrivals) ->
    with_pool(Load);
read_keys([], #{model := open} = Load) when not is_map_key(rate_per_s, Load) ->
    {error, {missing_load_key, open, rate_per_s, "a number above 0"}};
read_keys([], #{model := open} = Load) ->
    with_pool(Load);
read_keys([], #{model := search} = Load) ->
    Defaults = #{
        from_per_s => 10,
        to_per_s => 1_000_000,
        probe_ms => 1000,
        confidence => 0.9,
        precision => 0.1,
        limit_ms => 120_000
    },
    with_pool(maps:merge(Defaults, Load));
read_keys([], Load) ->
    {ok, Load};
read_keys([Key | Keys], #{model := Model} = Load) ->
    case Load of
        #{Key := Term} ->
            case value(Key, Model, Term) of
                {ok, Value} -> read_keys(Keys, Load#{Key := Value});
                true -> read_keys(Keys, Load);
                {error, Reason} -> {error, Reason};
                _ -> {error, {bad_load_key, Model, Key, Term, accepted(Key, Model)}}
            end;
        #{} when Key =:= workers, Model =:= closed; Key =:= phases; Key =:= objective ->
            {error, {missing_load_key, Model, Key, accepted(Key, Model)}};
        #{} ->
            read_keys(Keys, Load)
    end.

%% Who says how many workers there are, and not how many more, means just these.
with_pool(#{model := Model, workers := Workers, max_workers := Most}) when Most < Workers ->
    {error, {bad_load_key, Model, max_workers, Most, accepted(max_workers, Model)}};
with_pool(#{workers := _} = Load) ->
    {ok, Load};
with_pool(#{max_workers := Most} = Load) ->
    {ok, Load#{workers => min(?OPEN_WORKERS, Most)}};
with_pool(Load) ->
    {ok, Load#{workers => ?OPEN_WORKERS, max_workers => ?OPEN_MAX_WORKERS}}.

accepted(workers, _) ->
    "a whole number from 1 up";
accepted(max_workers, _) ->
    "a whole number, at least workers";
accepted(think_time_ms, _) ->
    "a number of milliseconds, {uniform, Low, High} or {exponential, Mean}";
accepted(iterations, _) ->
    "a whole number from 1 up, for all workers together, or {each, N}";
accepted(operations, _) ->
    "a map from kinds to weights above 0";
accepted(name, _) ->
    "text";
accepted(rate_per_s, _) ->
    "a number above 0, {ramp, From, To}, {steps, [Rate, ...]} or "
    "{spike, #{base => R, peak => R, at_ms => T, for_ms => T}}";
accepted(arrivals, open) ->
    "even, poisson, {counts, IntervalMs, Counts} or {times_ms, Times}, where the last is "
    "a list or a file's name";
accepted(arrivals, search) ->
    "even or poisson";
accepted(phases, _) ->
    "a list of closed and open loads";
accepted(objective, _) ->
    "a text such as \"latency.p99 < 50 ms\", or a list";
accepted(confidence, _) ->
    "a number from 0.6 to 0.999";
accepted(precision, _) ->
    "a number from 0.01 to 1";
accepted(Rate, _) when Rate =:= from_per_s; Rate =:= to_per_s ->
    "a number above 0";
accepted(Ms, _) when Ms =:= duration_ms; Ms =:= probe_ms; Ms =:= limit_ms ->
    "a whole number of milliseconds, 50 or more".

%% True where a term may stay as it is, or what is made of it.
value(Key, _Model, N) when Key =:= workers; Key =:= max_workers ->
    is_integer(N) andalso N > 0 andalso N =< ?MOST_WORKERS;
value(Key, _Model, Ms) when Key =:= duration_ms; Key =:= probe_ms; Key =:= limit_ms ->
    is_integer(Ms) andalso Ms >= 50;
value(Key, _Model, Rate) when Key =:= from_per_s; Key =:= to_per_s ->
    is_number(Rate) andalso Rate > 0;
value(confidence, _Model, C) ->
    is_number(C) andalso C >= 0.6 andalso C =< 0.999;
value(precision, _Model, P) ->
    is_number(P) andalso P >= 0.01 andalso P =< 1;
value(think_time_ms, _Model, Think) ->
    is_think(Think);
value(iterations, _Model, {each, N}) ->
    is_integer(N) andalso N > 0;
value(iterations, _Model, N) ->
    is_integer(N) andalso N > 0;
value(operations, _Model, Operations) ->
    operations(Operations);
value(name, _Model, Atom) when is_atom(Atom) ->
    {ok, atom_to_binary(Atom)};
value(name, _Model, Text) ->
    some_text(Text);
value(rate_per_s, _Model, Rate) ->
    is_rate(Rate);
value(arrivals, _Model, Pacing) when Pacing =:= even; Pacing =:= poisson ->
    true;
value(arrivals, open, {counts, IntervalMs, Source}) when is_integer(IntervalMs), IntervalMs > 0 ->
    maybe
        {ok, Counts} ?= numbers(Source, fun(N) -> is_integer(N) andalso N >= 0 end),
        {ok, {counts, IntervalMs, Counts}}
    end;
value(arrivals, open, {times_ms, Source}) ->
    maybe
        {ok, Times} ?= numbers(Source, fun is_number/1),
        {ok, {times_ms, Times}}
    end;
value(arrivals, _Model, _Other) ->
    false;
value(phases, _Model, [_ | _] = Phases) when length(Phases) > 0 ->
    dyno_error:each(fun phase/1, lists:enumerate(Phases));
value(phases, _Model, _Other) ->
    false;
value(objective, _Model, [Char | _] = Text) when is_integer(Char) ->
    objectives([Text], []);
value(objective, _Model, Text) when is_binary(Text) ->
    objectives([Text], []);
value(objective, _Model, [_ | _] = Texts) ->
    objectives(Texts, []);
value(objective, _Model, _Other) ->
    false.

is_think({uniform, Low, High}) ->
    is_number(Low) andalso is_number(High) andalso 0 =< Low andalso Low =< High;
is_think({exponential, Mean}) ->
    is_number(Mean) andalso Mean > 0;
is_think(Ms) ->
    is_number(Ms) andalso Ms >= 0.

is_rate({ramp, From, To}) ->
    lists:all(fun is_part_of_rate/1, [From, To]) andalso From + To > 0;
is_rate({steps, [_ | _] = Rates}) when length(Rates) > 0 ->
    lists:all(fun is_part_of_rate/1, Rates) andalso lists:sum(Rates) > 0;
is_rate({spike, #{base := Base, peak := Peak, at_ms := At, for_ms := For} = Spike}) ->
    map_size(Spike) =:= 4 andalso
        lists:all(fun is_part_of_rate/1, [Base, Peak]) andalso Peak > 0 andalso
        is_integer(At) andalso At >= 0 andalso is_integer(For) andalso For > 0;
is_rate(Rate) ->
    is_number(Rate) andalso Rate > 0.

is_part_of_rate(Rate) -> is_number(Rate) andalso Rate >= 0.

numbers(Source, Is) ->
    maybe
        {ok, Numbers} ?= numbers(Source),
        true ?= lists:all(Is, Numbers),
        {ok, Numbers}
    end.

numbers([First | _] = List) when is_number(First), length(List) > 0 ->
    %% A file's name as a string is a list of numbers as well: it has a letter or a dot in it, and
    %% no file is opened for a list that is no text.
    case io_lib:printable_unicode_list(List) andalso filelib:is_regular(List) of
        true -> from_file(List);
        false -> {ok, List}
    end;
numbers(File) when is_binary(File) ->
    from_file(File);
numbers(_Other) ->
    false.

from_file(File) ->
    case dyno_load_arrivals_file:read(File) of
        {ok, Numbers} -> {ok, Numbers};
        {error, Reason} -> {error, {arrivals_file, Reason}}
    end.

phase({Nth, #{model := Model} = Phase}) when Model =:= closed; Model =:= open ->
    case read(Phase, 1) of
        {ok, Load} -> {ok, Load};
        {error, Reason} -> {error, {in_phase, Nth, Reason}}
    end;
phase({Nth, Other}) ->
    {error, {in_phase, Nth, {bad_load, Other}}}.

objectives([], Read) ->
    {ok, lists:reverse(Read)};
objectives([Text | Texts], Read) ->
    maybe
        {ok, Binary} ?= some_text(Text),
        {ok, Threshold} ?= objective(Binary),
        objectives(Texts, [Threshold | Read])
    end;
objectives(_Improper, _Read) ->
    false.

%% A probe knows of the load only, and not of a size or a node.
objective(Text) ->
    maybe
        {ok, Threshold} ?= dyno_threshold:parse(Text),
        ok ?= dyno_threshold:check(Threshold, dyno_load_metrics:known_of_probe()),
        nomatch ?= re:run(Text, ~"\\s(of|at)\\s", [{capture, none}]),
        {ok, Threshold}
    else
        match -> {error, {search_metric, Text}};
        {error, {_, _, {unknown_metric, _, _}}} -> {error, {search_metric, Text}};
        {error, {_, _, {unknown_table, _, _}}} -> {error, {search_metric, Text}};
        {error, Reason} -> {error, {search_objective, Reason}}
    end.

-doc "Checks the operation kinds of a suite.".
-spec operations(term()) -> {ok, operations()} | error.
operations(Operations) when is_map(Operations), map_size(Operations) > 0 ->
    IsKind = fun({Kind, Weight}) -> is_atom(Kind) andalso is_number(Weight) andalso Weight > 0 end,
    case lists:all(IsKind, maps:to_list(Operations)) of
        true -> {ok, Operations};
        false -> error
    end;
operations(_Other) ->
    error.

-doc "A text that is not empty, whatever form it has.".
-spec some_text(term()) -> {ok, binary()} | error.
some_text(Text) when is_binary(Text); is_list(Text) ->
    try unicode:characters_to_binary(Text) of
        Binary when is_binary(Binary), Binary =/= <<>> -> {ok, Binary};
        _ -> error
    catch
        error:badarg -> error
    end;
some_text(_) ->
    error.

-doc "Puts what the command line says in the place of what the suite says.".
-spec override(load(), override(), pos_integer()) -> {ok, load()} | {error, reason()}.
override(Load, Override, _Size) when map_size(Override) =:= 0 ->
    {ok, Load};
override(Load, Override, Size) ->
    #{model := Now} = Load,
    Model = maps:get(model, Override, implied(Override, Now)),
    %% Of the suite's load, what the other model knows as well stays.
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
    Own = maps:without([model], Override),
    Merged = maps:merge(without_replaced(Own, texts(Based)), Own),
    read(Merged#{model => Model}, Size).

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

%% As it was written, to be read again.
texts(#{objective := Thresholds} = Load) ->
    Load#{objective := [dyno_threshold:format(T) || T <- Thresholds]};
texts(Load) ->
    Load.

-doc "A load as a recording's parameters have it.".
-spec describe(closed | open | none | load()) -> #{atom() => term()}.
describe(Model) when is_atom(Model) ->
    #{model => Model};
describe(Load) ->
    maps:map(
        fun
            (phases, Phases) -> [describe(Phase) || Phase <- Phases];
            (objective, [First | _] = Several) when not is_integer(First) ->
                [text(T) || T <- Several];
            (objective, Text) -> text(Text);
            (operations, Operations) -> Operations;
            (_Key, Value) when is_number(Value); is_atom(Value); is_binary(Value) -> Value;
            (_Key, Value) -> unicode:characters_to_binary(io_lib:format("~0tP", [Value, 20]))
        end,
        Load
    ).

%% As it was written, or read already.
text(Text) when is_binary(Text); is_list(Text) -> dyno_recording_check:text(Text);
text(Threshold) -> dyno_threshold:format(Threshold).

-doc "The most workers that a load has ready from the beginning.".
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
format_error({bad_load_key, Model, Key, Value, Accepted}) ->
    io_lib:format(
        "~ts of the ~ts load is ~0tP; ~ts is accepted", [Key, Model, Value, 12, Accepted]
    );
format_error({unknown_load_key, Model, Key, Known}) ->
    Names = lists:join(", ", [atom_to_list(K) || K <- Known]),
    io_lib:format("~0tp is not a key of ~ts load~ts; accepted are ~ts", [
        Key, article(Model), suggestion(Key, Known), Names
    ]);
format_error({missing_load_key, Model, Key, Accepted}) ->
    io_lib:format("~ts load must give ~ts: ~ts", [article(Model), Key, Accepted]);
format_error({both_load_keys, Key, Other}) ->
    io_lib:format(
        "a load gives ~ts, or a recorded curve as ~ts, not both", [Key, Other]
    );
format_error({in_phase, Nth, Reason}) ->
    io_lib:format("phase ~b: ~ts", [Nth, format_error(Reason)]);
format_error({search_objective, Reason}) ->
    ["the search's objective: ", dyno_threshold:format_error(Reason)];
format_error({search_metric, Text}) ->
    io_lib:format(
        "the search's objective \"~ts\" is not about the load; accepted are latency.*, service.*, "
        "throughput, errors.*, load.* and operation.KIND.*, as in \"latency.p99 < 50 ms\"",
        [Text]
    );
format_error(no_load) ->
    "the suite gives no load (load => none), so there is none to change";
format_error({arrivals_file, Reason}) ->
    dyno_load_arrivals_file:format_error(Reason).

article(open) -> "an open";
article(Model) -> "a " ++ atom_to_list(Model).

-doc "What was probably meant by a key that is not known.".
-spec suggestion(term(), [atom()]) -> unicode:chardata().
suggestion(Key, Known) when is_atom(Key) ->
    Text = atom_to_list(Key),
    Names = [atom_to_list(K) || K <- Known],
    case {[N || N <- Names, lists:prefix(Text, N)], dyno_similar:nearest(Text, Names)} of
        {[Name], _} -> [" (did you mean ", Name, "?)"];
        {_, {ok, Name}} -> [" (did you mean ", Name, "?)"];
        {_, none} -> ""
    end;
suggestion(_Key, _Known) ->
    "".
