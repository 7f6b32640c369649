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
    | {arrivals_file, dyno_load_arrivals:reason()}.

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
    case maps:keys(Load) -- [model | [Key || {Key, _, _, _} <- fields(Model)]] of
        [] -> fields(fields(Model), Load, Load);
        [Key | _] -> {error, {unknown_load_key, Model, Key, [K || {K, _, _, _} <- fields(Model)]}}
    end;
read(Other, _Size) ->
    {error, {bad_load, Other}}.

%% {Key, whether it must be there, what reads it, what is accepted}
fields(closed) ->
    [
        {workers, mandatory, fun workers_of/1, "a whole number from 1 up"},
        {think_time_ms, optional, fun think/1,
            "a number of milliseconds, {uniform, Low, High} or {exponential, Mean}"},
        {iterations, optional, fun iterations/1,
            "a whole number from 1 up, for all workers together, or {each, N}"}
        | common()
    ];
fields(open) ->
    [
        {rate_per_s, optional, fun rate/1,
            "a number above 0, {ramp, From, To}, {steps, [Rate, ...]} or "
            "{spike, #{base => R, peak => R, at_ms => T, for_ms => T}}"},
        {arrivals, optional, fun arrivals/1,
            "even, poisson, {counts, IntervalMs, Counts} or {times_ms, Times}, where the last is "
            "a list or a file's name"},
        {workers, optional, fun workers_of/1, "a whole number from 1 up"},
        {max_workers, optional, fun workers_of/1, "a whole number, at least workers"}
        | common()
    ];
fields(phases) ->
    [
        {phases, mandatory, fun phases/1, "a list of closed and open loads"},
        {operations, optional, fun operations_of/1, "a map from kinds to weights above 0"}
    ];
fields(search) ->
    [
        {objective, mandatory, fun objective/1,
            "a text such as \"latency.p99 < 50 ms\", or a list"},
        {from_per_s, optional, fun positive_number/1, "a number above 0"},
        {to_per_s, optional, fun positive_number/1, "a number above 0"},
        {probe_ms, optional, fun duration/1, "a whole number of milliseconds, 50 or more"},
        {confidence, optional, fun confidence/1, "a number from 0.6 to 0.999"},
        {precision, optional, fun precision/1, "a number from 0.01 to 1"},
        {limit_ms, optional, fun duration/1, "a whole number of milliseconds, 50 or more"},
        {arrivals, optional, fun pacing/1, "even or poisson"},
        {workers, optional, fun workers_of/1, "a whole number from 1 up"},
        {max_workers, optional, fun workers_of/1, "a whole number, at least workers"},
        {operations, optional, fun operations_of/1, "a map from kinds to weights above 0"}
    ].

common() ->
    [
        {operations, optional, fun operations_of/1, "a map from kinds to weights above 0"},
        {duration_ms, optional, fun duration/1, "a whole number of milliseconds, 50 or more"},
        {name, optional, fun name/1, "text"}
    ].

fields([], _Given, Load) ->
    whole(Load);
fields([{Key, Presence, Read, Accepted} | Fields], #{model := Model} = Given, Load) ->
    case {Given, Presence} of
        {#{Key := Value}, _} ->
            case Read(Value) of
                {ok, Good} -> fields(Fields, Given, Load#{Key := Good});
                {error, Reason} -> {error, Reason};
                error -> {error, {bad_load_key, Model, Key, Value, Accepted}}
            end;
        {_, mandatory} ->
            {error, {missing_load_key, Model, Key, Accepted}};
        {_, optional} ->
            fields(Fields, Given, Load)
    end.

%% What several keys must be together.
whole(#{model := open, rate_per_s := _, arrivals := Arrivals}) when is_tuple(Arrivals) ->
    {error, {both_load_keys, rate_per_s, arrivals}};
whole(#{model := open} = Load) when not is_map_key(rate_per_s, Load) ->
    case Load of
        #{arrivals := Arrivals} when is_tuple(Arrivals) -> pool(Load);
        #{} -> {error, {missing_load_key, open, rate_per_s, "a number above 0"}}
    end;
whole(#{model := search} = Load) ->
    pool(maps:merge(
        #{
            from_per_s => 10,
            to_per_s => 1_000_000,
            probe_ms => 1000,
            confidence => 0.9,
            precision => 0.1,
            limit_ms => 120_000
        },
        Load
    ));
whole(#{model := open} = Load) ->
    pool(Load);
whole(Load) ->
    {ok, Load}.

%% Who says how many workers there are, and not how many more, means just these.
pool(#{workers := Workers, max_workers := Most} = Load) when Most < Workers ->
    #{model := Model} = Load,
    {error, {bad_load_key, Model, max_workers, Most, "a whole number, at least workers"}};
pool(#{workers := _} = Load) ->
    {ok, Load};
pool(#{max_workers := Most} = Load) ->
    {ok, Load#{workers => min(?OPEN_WORKERS, Most)}};
pool(Load) ->
    {ok, Load#{workers => ?OPEN_WORKERS, max_workers => ?OPEN_MAX_WORKERS}}.

workers_of(N) when is_integer(N), N > 0, N =< ?MOST_WORKERS -> {ok, N};
workers_of(_) -> error.

think(Ms) when is_number(Ms), Ms >= 0 -> {ok, Ms};
think({uniform, Low, High}) when is_number(Low), is_number(High), 0 =< Low, Low =< High ->
    {ok, {uniform, Low, High}};
think({exponential, Mean}) when is_number(Mean), Mean > 0 ->
    {ok, {exponential, Mean}};
think(_) ->
    error.

iterations(N) when is_integer(N), N > 0 -> {ok, N};
iterations({each, N}) when is_integer(N), N > 0 -> {ok, {each, N}};
iterations(_) -> error.

rate(Rate) when is_number(Rate), Rate > 0 ->
    {ok, Rate};
rate({ramp, From, To} = Ramp) when
    is_number(From), is_number(To), From >= 0, To >= 0, From + To > 0
->
    {ok, Ramp};
rate({steps, [_ | _] = Rates} = Steps) ->
    case lists:all(fun(R) -> is_number(R) andalso R >= 0 end, Rates) andalso lists:sum(Rates) > 0 of
        true -> {ok, Steps};
        false -> error
    end;
rate({spike, #{base := Base, peak := Peak, at_ms := At, for_ms := For} = Spike}) when
    is_number(Base), is_number(Peak), Base >= 0, Peak > 0, is_integer(At), is_integer(For),
    At >= 0, For > 0, map_size(Spike) =:= 4
->
    {ok, {spike, Spike}};
rate(_) ->
    error.

pacing(even) -> {ok, even};
pacing(poisson) -> {ok, poisson};
pacing(_) -> error.

arrivals({counts, IntervalMs, Source}) when is_integer(IntervalMs), IntervalMs > 0 ->
    case listed(Source) of
        {ok, Counts} ->
            case lists:all(fun(N) -> is_integer(N) andalso N >= 0 end, Counts) of
                true when Counts =/= [] -> {ok, {counts, IntervalMs, Counts}};
                _ -> error
            end;
        Other ->
            Other
    end;
arrivals({times_ms, Source}) ->
    case listed(Source) of
        {ok, Times} ->
            case lists:all(fun(T) -> is_number(T) end, Times) of
                true when Times =/= [] -> {ok, {times_ms, Times}};
                _ -> error
            end;
        Other ->
            Other
    end;
arrivals(Other) ->
    pacing(Other).

listed([First | _] = List) when is_number(First), length(List) > 0 ->
    %% A file's name as a string is a list of numbers as well: it has a letter or a dot in it, and
    %% no file is opened for a list that is no text.
    case io_lib:printable_unicode_list(List) andalso filelib:is_regular(List) of
        true -> from_file(List);
        false -> {ok, List}
    end;
listed(File) when is_binary(File) ->
    from_file(File);
listed(_) ->
    error.

from_file(File) ->
    case dyno_load_arrivals:read(File) of
        {ok, Numbers} -> {ok, Numbers};
        {error, Reason} -> {error, {arrivals_file, Reason}}
    end.

phases([_ | _] = Phases) ->
    phases(Phases, 1, []);
phases(_) ->
    error.

phases([], _Nth, Read) ->
    {ok, lists:reverse(Read)};
phases([#{model := Model} = Phase | Phases], Nth, Read) when Model =:= closed; Model =:= open ->
    case read(Phase, 1) of
        {ok, Load} -> phases(Phases, Nth + 1, [Load | Read]);
        {error, Reason} -> {error, {in_phase, Nth, Reason}}
    end;
phases([Other | _], Nth, _Read) ->
    {error, {in_phase, Nth, {bad_load, Other}}};
phases(_Improper, _Nth, _Read) ->
    error.

operations_of(Operations) when is_map(Operations), map_size(Operations) > 0 ->
    Good = fun({Kind, Weight}) -> is_atom(Kind) andalso is_number(Weight) andalso Weight > 0 end,
    case lists:all(Good, maps:to_list(Operations)) of
        true -> {ok, Operations};
        false -> error
    end;
operations_of(_) ->
    error.

-doc "Checks the operation kinds of a suite.".
-spec operations(term()) -> {ok, operations()} | error.
operations(Term) -> operations_of(Term).

duration(Ms) when is_integer(Ms), Ms >= 50 -> {ok, Ms};
duration(_) -> error.

name(Atom) when is_atom(Atom) -> {ok, atom_to_binary(Atom)};
name(Text) -> some_text(Text).

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

positive_number(N) when is_number(N), N > 0 -> {ok, N};
positive_number(_) -> error.

confidence(C) when is_number(C), C >= 0.6, C =< 0.999 -> {ok, C};
confidence(_) -> error.

precision(P) when is_number(P), P >= 0.01, P =< 1 -> {ok, P};
precision(_) -> error.

objective([Char | _] = Text) when is_integer(Char) ->
    objective([Text]);
objective(Text) when is_binary(Text) ->
    objective([Text]);
objective([_ | _] = Texts) ->
    Read = [
        case name(Text) of
            {ok, Binary} when not is_atom(Text) -> of_load(Binary);
            _ -> error
        end
     || Text <- Texts
    ],
    case [R || R <- Read, R =:= error orelse element(1, R) =:= error] of
        [] -> {ok, [Threshold || {ok, Threshold} <- Read]};
        [error | _] -> error;
        [{error, {metric, Text}} | _] -> {error, {search_metric, Text}};
        [{error, Reason} | _] -> {error, {search_objective, Reason}}
    end;
objective(_) ->
    error.

%% A probe knows of the load only, and not of a size or a node.
of_load(Text) ->
    Known = [
        ~"latency.", ~"service.", ~"throughput", ~"errors.", ~"operations.", ~"load.", ~"operation."
    ],
    case dyno_threshold:parse(Text) of
        {ok, Threshold} ->
            Metric = hd(binary:split(string:trim(Text), [~" ", ~"<", ~">", ~"="])),
            Of = [K || K <- Known, string:prefix(Metric, K) =/= nomatch],
            Other = re:run(Text, ~"\\s(of|at)\\s") =/= nomatch,
            case Of of
                [_ | _] when not Other -> {ok, Threshold};
                _ -> {error, {metric, Text}}
            end;
        {error, _} = Error ->
            Error
    end.

-doc "Puts what the command line says in the place of what the suite says.".
-spec override(load(), override(), pos_integer()) -> {ok, load()} | {error, reason()}.
override(Load, Override, _Size) when map_size(Override) =:= 0 ->
    {ok, Load};
override(Load, Override, Size) ->
    #{model := Now} = Load,
    Model = maps:get(model, Override, implied(Override, Now)),
    Known = [Key || {Key, _, _, _} <- fields(Model)],
    %% Of the suite's load, what the other model knows as well stays.
    Kept =
        case Model of
            Now -> Load;
            _ -> maps:without([name, duration_ms, workers, max_workers], maps:with(Known, Load))
        end,
    Based =
        case Model of
            closed -> maps:merge(#{workers => Size}, Kept);
            open when not is_map_key(arrivals, Kept) -> maps:merge(#{rate_per_s => Size}, Kept);
            _ -> Kept
        end,
    Given = maps:without([model], Override),
    Merged = maps:merge(without_replaced(Given, texts(Based)), Given),
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
without_replaced(_Given, Load) ->
    Load.

%% As it was written, to be read again.
texts(#{objective := Thresholds} = Load) ->
    Load#{objective := [dyno_threshold:format(T) || T <- Thresholds]};
texts(Load) ->
    Load.

-doc "A load as a recording's parameters have it.".
-spec describe(closed | open | load()) -> #{atom() => term()}.
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
text(Text) when is_binary(Text); is_list(Text) -> dyno_recording_schema:text(Text);
text(Threshold) -> dyno_threshold:format(Threshold).

-doc "The most workers that a load has ready from the beginning.".
-spec workers(load()) -> pos_integer().
workers(#{model := phases, phases := Phases}) ->
    lists:max([Workers || #{workers := Workers} <- Phases]);
workers(#{workers := Workers}) ->
    Workers.

-doc "One sentence for a reason.".
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
format_error({arrivals_file, Reason}) ->
    dyno_load_arrivals:format_error(Reason).

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
