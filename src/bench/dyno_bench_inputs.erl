%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_inputs).
-moduledoc false.
%% Runs several comparisons for one recording, one after the other: the same codes with each input,
%% or the cases of a benchmark file. An input is evaluated once, so that all codes get the same
%% value.

-export([plan/2, plan_any/2, measure/2, document/3]).
%% In a VM with one of the codes: see dyno_bench_vm_server
-export([serve/4]).
-export([in_run/2]).
-export([format_error/1, fault/1]).
-export_type([input/0, measurement/0, outcome/0, reason/0]).

-doc "Its name, and a code that gives its value.".
-type input() :: {Name :: string() | binary() | integer() | atom(), dyno_bench_code:callable()}.

-type measurement() :: #{
    %% Unique id of the run.
    id := binary(),
    group => binary(),
    input => binary(),
    codes := [dyno_bench_code:code()],
    %% The value that all codes take.
    value => {Name :: binary(), dyno_bench_code:callable()},
    %% Runs before the codes with the input's value; the codes take its result.
    setup => fun((term()) -> term()),
    teardown => fun((term()) -> term()),
    check => fun((Taken :: term()) -> dyno_bench_engine:check()),
    %% Checks the results of all codes, even in separate VMs.
    agree => dyno_bench_engine:check(),
    options => #{concurrency => pos_integer(), threshold => float()}
}.

-type outcome() :: #{
    measurement := measurement(),
    %% If the input's value is a size.
    size := pos_integer() | undefined,
    result := dyno_bench_engine:result()
}.

-type reason() ::
    {bad_input, term()}
    | {input_twice, binary()}
    | {input, binary(), dyno_error:error()}
    | {takes_no_input, Number :: pos_integer()}
    | {own_init, Number :: pos_integer()}
    | {in_run, binary(), dyno_error:error()}.

-spec plan([dyno_bench_code:code()], [input()]) -> dyno_error:result([measurement()]).
plan(Codes, []) ->
    plan_any(Codes, []);
plan(Codes, Inputs) ->
    maybe
        {ok, _} ?= dyno_error:each(fun takes_input/1, lists:enumerate(Codes)),
        plan_any(Codes, Inputs)
    end.

-doc "For codes that need not take an input.".
-spec plan_any([dyno_bench_code:code()], [input()]) -> dyno_error:result([measurement()]).
plan_any(Codes, []) ->
    {ok, [#{id => ~"1", codes => Codes}]};
plan_any(Codes, Inputs) ->
    maybe
        {ok, Named} ?= dyno_error:each(fun named/1, Inputs),
        Names = [Name || {Name, _} <- Named],
        [] ?= Names -- lists:usort(Names),
        {ok, [
            #{id => Name, input => Name, codes => Codes, value => {Name, Callable}}
         || {Name, Callable} <- Named
        ]}
    else
        [Twice | _] -> {error, {?MODULE, {input_twice, Twice}}};
        {error, _} = Error -> Error
    end.

named({Name, Callable}) when is_integer(Name) -> {ok, {integer_to_binary(Name), Callable}};
named(Input) ->
    maybe
        {Name, Callable} ?= Input,
        {ok, Text} ?= dyno_option:name(Name),
        {ok, {Text, Callable}}
    else
        _ -> {error, {?MODULE, {bad_input, Input}}}
    end.

%% A code that takes no input would take the same time for each.
takes_input({Number, #{init := _}}) ->
    {error, {?MODULE, {own_init, Number}}};
takes_input({Number, Code}) ->
    maybe
        {ok, Parsed} ?= dyno_bench_code:read(with_value(Code, undefined)),
        true ?= dyno_bench_code:takes_argument(Parsed),
        {ok, Number}
    else
        false -> {error, {?MODULE, {takes_no_input, Number}}};
        {error, Error} -> {error, dyno_bench_code:in_code(Number, Error)}
    end.

%% `init` gives the value. Without its own `init_runner`, the code takes the value unchanged.
with_value(Code, Value) ->
    Map = dyno_bench_code:as_map(Code),
    maps:merge(#{init_runner => fun(Init) -> Init end}, Map#{init => fun() -> Value end}).

value(#{value := {_Name, Value}}, _Module, _Options, _Evaluate) when is_integer(Value) ->
    {ok, Value};
value(#{value := {Name, Callable}}, Module, Options, Evaluate) ->
    How = maps:with([compiler, timeout_ms], Options),
    case dyno_bench_code:load_value(Module, Callable, How) of
        {ok, #{constants := Constants}} ->
            attempt({<<"the input ", Name/binary>>, none}, Evaluate, fun() ->
                Module:loop(1, Constants, undefined)
            end);
        {error, {dyno_error, interrupted}} = Interrupted ->
            Interrupted;
        {error, Error} ->
            {error, {?MODULE, {input, Name, Error}}}
    end;
value(_NoInput, _Module, _Options, _Evaluate) ->
    {ok, undefined}.

attempt({Label, Stage}, Evaluate, Fun) ->
    case Evaluate(Fun) of
        {ok, Value} -> {ok, Value};
        {error, Failure} -> {error, dyno_bench_failure:error(Label, Stage, Failure)}
    end.

-doc "With equal shares of the time.".
-spec measure([measurement(), ...], dyno_bench_engine:options()) -> dyno_error:result([outcome()]).
measure(Measurements, #{budget_ms := BudgetMs, limit_ms := LimitMs} = Options) ->
    Count = length(Measurements),
    Each = Options#{budget_ms := share(BudgetMs, Count), limit_ms := share(LimitMs, Count)},
    measure(lists:enumerate(Measurements), Each, []).

share(infinity, _Count) -> infinity;
share(Ms, Count) -> max(1, Ms div Count).

measure([], _Options, Outcomes) ->
    {ok, lists:reverse(Outcomes)};
measure([{Number, Measurement} | Rest], Options, Outcomes) ->
    case one(Measurement, Number, Options) of
        {ok, #{result := #{status := interrupted}} = Outcome} ->
            measure([], Options, [Outcome | Outcomes]);
        {ok, Outcome} ->
            measure(Rest, Options, [Outcome | Outcomes]);
        {error, {dyno_error, interrupted}} when Outcomes =/= [] ->
            %% Keeps the measurements so far, marked as interrupted.
            [#{result := Result} = Last | Earlier] = Outcomes,
            measure([], Options, [Last#{result := Result#{status => interrupted}} | Earlier]);
        {error, _} = Error ->
            Error
    end.

one(Measurement, Number, #{isolated := _} = Options) ->
    case dyno_bench_isolated:run(Measurement, Number, own(Measurement, Options)) of
        {ok, {Size, Result}} -> {ok, #{measurement => Measurement, size => Size, result => Result}};
        {error, Error} -> {error, in_run(Measurement, Error)}
    end;
one(Measurement, Number, Options) ->
    Run = fun(Codes, Own, _Size) -> dyno_bench_engine:run(Codes, Own) end,
    evaluated(Measurement, Number, {Options, Run}).

-doc "Calls a function between the set-up and the tear-down.".
-spec serve(
    measurement(),
    pos_integer(),
    dyno_bench_engine:options(),
    fun((dyno_bench_prepared:t(), Size :: pos_integer() | undefined) -> term())
) ->
    ok | {error, dyno_error:error()}.
serve(Measurement, Number, Options, Serve) ->
    Run = fun([Code], Own, Size) ->
        dyno_bench_prepared:with([Code], Own, fun(Prepared) -> Serve(Prepared, Size) end)
    end,
    maybe
        {ok, _} ?= evaluated(Measurement, Number, {Options, Run}),
        ok
    end.

%% The sandbox owns the set-up's resources while the codes are measured.
evaluated(Measurement, Number, {#{timeout_ms := TimeoutMs} = Options, _} = How) ->
    Sandbox = dyno_sandbox:start(#{}),
    Evaluate = fun(Fun) -> dyno_sandbox:call(Sandbox, Fun, TimeoutMs) end,
    %% A value may hold funs of the module, so each input has its own module.
    Module = dyno_bench_slots:module(input, Number, Options),
    try
        maybe
            {ok, Value} ?= value(Measurement, Module, Options, Evaluate),
            set_up(Measurement, Value, Evaluate, How)
        end
    after
        dyno_sandbox:stop(Sandbox)
    end.

set_up(#{id := Id, setup := Setup} = Measurement, Value, Evaluate, How) ->
    maybe
        {ok, Made} ?= attempt({Id, setup}, Evaluate, fun() -> Setup(Value) end),
        Result = compare(Measurement, [Made], Value, How),
        Teardown = maps:get(teardown, Measurement, fun(_) -> ok end),
        case {Result, attempt({Id, teardown}, Evaluate, fun() -> Teardown(Made) end)} of
            {{ok, _}, {error, _} = Error} -> Error;
            {_, _} -> Result
        end
    end;
set_up(Measurement, Value, _Evaluate, How) ->
    compare(Measurement, [Value || is_map_key(value, Measurement)], Value, How).

compare(#{codes := Codes} = Measurement, Taken, Value, {Options, Run}) ->
    All = [
        case Taken of
            [Argument] -> with_value(Code, Argument);
            [] -> Code
        end
     || Code <- Codes
    ],
    Checks =
        #{check => Check(lists:last([undefined | Taken])) || #{check := Check} <- [Measurement]},
    Size = input_size(Value),
    case Run(All, maps:merge(own(Measurement, Options), Checks), Size) of
        {ok, Result} -> {ok, #{measurement => Measurement, size => Size, result => Result}};
        {error, Error} -> {error, in_run(Measurement, Error)}
    end.

own(Measurement, Options) ->
    maps:merge(Options, maps:get(options, Measurement, #{})).

-spec in_run(#{id := binary(), _ => _}, dyno_error:error()) -> dyno_error:error().
in_run(_Measurement, {dyno_error, interrupted} = Error) ->
    Error;
in_run(#{id := Id} = Measurement, Error) when
    is_map_key(input, Measurement); is_map_key(group, Measurement)
->
    {?MODULE, {in_run, Id, Error}};
in_run(_Measurement, Error) ->
    Error.

input_size(N) when is_integer(N), N > 0 -> N;
input_size(_) -> undefined.

-spec document(
    {Name :: binary() | undefined, Parameters :: #{atom() => term()}},
    [outcome(), ...],
    Environment :: term()
) -> dyno_recording:document().
document({Name, Parameters}, Outcomes, Environment) ->
    Sized = sizes(Outcomes),
    Runs = [
        #{labels => labels(Measurement), size => Size, result => Result}
     || {#{measurement := Measurement, result := Result}, Size} <- Sized
    ],
    Document = dyno_bench_result:document(Name, Parameters, Runs, Environment),
    Growths = [Of || {Group, Named} <- growing(Sized), Of <- growths(Group, Named, Document)],
    dyno_recording:add_tables(Document, [growth_table(Growths) || Growths =/= []]).

labels(Measurement) ->
    #{
        Label => map_get(Key, Measurement)
     || {Key, Label} <- [{group, ~"case"}, {input, ~"input"}], is_map_key(Key, Measurement)
    }.

%% A run's size, if all inputs of its group have one: from their names, or else from their values.
sizes(Outcomes) ->
    Groups = maps:groups_from_list(fun group/1, Outcomes),
    [{Outcome, size_in(map_get(group(Outcome), Groups), Outcome)} || Outcome <- Outcomes].

group(#{measurement := Measurement}) -> maps:get(group, Measurement, ~"").

size_in(Group, Outcome) ->
    ByName = fun(#{measurement := M}) -> name_size(maps:get(input, M, ~"")) end,
    ByValue = fun(#{size := Size}) -> Size end,
    case [By || By <- [ByName, ByValue], lists:all(fun(O) -> By(O) =/= undefined end, Group)] of
        [By | _] -> By(Outcome);
        [] -> undefined
    end.

name_size(Name) ->
    case string:to_integer(Name) of
        {N, <<>>} when N > 0 -> N;
        _ -> undefined
    end.

%% By group, the runs with a real size.
growing(Sized) ->
    Groups = maps:groups_from_list(fun({Outcome, _}) -> group(Outcome) end, Sized),
    lists:sort([
        {Group, [{map_get(id, map_get(measurement, O)), Size} || {O, Size} <- Members]}
     || Group := [{_, First}, _ | _] = Members <- Groups, First =/= undefined
    ]).

%% How time and words of each code grow with the input's size.
growths(Group, Named, Document) ->
    Codes = [{Size, codes(Id, Document)} || {Id, Size} <- Named],
    [{_, First} | _] = Codes,
    lists:append([
        fitted(Kind, title(Group, Name), Unit, [
            {Size, map_get(Column, Row)}
         || {Size, Rows} <- Codes, #{~"code" := N} = Row <- Rows, N =:= Name
        ])
     || {Kind, Column, Unit} <- [
            {~"code", ~"time_per_call", ~"ns/call"}, {~"words", ~"words_per_call", ~"words/call"}
        ],
        #{~"code" := Name} <- First
    ]).

title(~"", Name) -> Name;
title(Group, Name) -> <<Group/binary, ": ", Name/binary>>.

codes(Id, Document) ->
    {ok, Run} = dyno_recording:run(Document, Id),
    dyno_recording:rows(Run, ~"codes").

%% Without allocations there is no growth.
fitted(Kind, Name, Unit, Points) ->
    dyno_recording_growth:fit(Kind, Name, Unit, [P || {_, Value} = P <- Points, is_number(Value)]).

growth_table(Growths) ->
    Spec = #{
        name => ~"growth",
        title => ~"Growth with the size of the input",
        derived => true,
        columns => dyno_recording_growth:columns()
    },
    dyno_recording_table:make(Spec, Growths).

-spec format_error(reason()) -> unicode:chardata().
format_error({bad_input, Input}) ->
    io_lib:format("the input ~0tP is not {Name, Code}", [Input, 12]);
format_error({input_twice, Name}) ->
    io_lib:format("two inputs have the name ~ts; give each its own", [Name]);
format_error({input, Name, Error}) ->
    io_lib:format("the input ~ts: ~ts", [Name, dyno_error:format(Error)]);
format_error({takes_no_input, Number}) ->
    io_lib:format(
        "code ~b takes no argument, so the inputs make no difference; give a function of arity 1, "
        "such as r(X) -> length(X).",
        [Number]
    );
format_error({own_init, Number}) ->
    io_lib:format("code ~b has an init, but the input is what init would give; leave one out", [
        Number
    ]);
format_error({in_run, Id, Error}) ->
    ["with ", Id, ": ", dyno_error:format(Error)].

-spec fault(reason()) -> dyno_error:fault().
fault({input, _, Error}) -> dyno_error:fault(Error);
fault({in_run, _, Error}) -> dyno_error:fault(Error);
fault(_) -> caller.
