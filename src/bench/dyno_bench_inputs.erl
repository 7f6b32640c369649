%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_inputs).
-moduledoc false.
%% Several comparisons that make one recording: the same codes with each input, and the cases of a
%% benchmark file. They are measured one after the other; each is a run.
%%
%% An input is evaluated once, before the comparison, so that all codes get the very same value.

-export([plan/2, plan_any/2, measure/2, document/3]).
%% In a VM that has one of the codes: see dyno_bench_vm_server
-export([serve/4]).
-export([format_error/1]).
-export_type([input/0, measurement/0, outcome/0, reason/0]).

-doc "Its name, and what gives its value.".
-type input() :: {Name :: string() | binary() | integer() | atom(), dyno_bench_code:callable()}.

-type measurement() :: #{
    %% The run's, unique.
    id := binary(),
    group => binary(),
    input => binary(),
    codes := [dyno_bench_code:code()],
    %% Gives what all codes take.
    value => fun((where(), evaluate()) -> {ok, term()} | {error, reason()}),
    %% Runs before the codes, with the input's value, and gives what they take instead.
    setup => fun((term()) -> term()),
    teardown => fun((term()) -> term()),
    check => fun((Taken :: term()) -> dyno_bench_engine:check()),
    %% Judges the results of all codes, also where each is in a VM of its own.
    agree => dyno_bench_engine:check(),
    options => #{concurrency => pos_integer(), threshold => float()}
}.

%% In the process that owns what a measurement makes, with its time limit.
-type evaluate() :: fun((fun(() -> term())) -> {ok, term()} | {error, dyno_sandbox:failure()}).

%% The input's module, and how it is compiled.
-type where() :: {module(), dyno_bench_code:compiling()}.

-type outcome() :: #{
    measurement := measurement(),
    %% The input's value, where it is a size.
    size := pos_integer() | undefined,
    result := dyno_bench_engine:result()
}.

-type reason() ::
    {bad_input, term()}
    | {input_twice, binary()}
    | {input, binary(), dyno_bench_code:reason()}
    | {input_raised, binary(), error | exit | throw, term()}
    | {input_endless, binary(), TimeoutMs :: pos_integer()}
    | {takes_no_input, Number :: pos_integer()}
    | {own_init, Number :: pos_integer()}
    | {raised, setup | teardown, Run :: binary(), error | exit | throw, term(), erlang:stacktrace()}
    | {late, setup | teardown, Run :: binary(), TimeoutMs :: pos_integer()}
    | {in_case, binary(), reason()}
    | {in_run, binary(), dyno_bench_engine:reason()}
    | dyno_bench_engine:reason().

-doc "The comparisons of codes with each of the inputs; one without any.".
-spec plan([dyno_bench_code:code()], [input()]) -> {ok, [measurement()]} | {error, reason()}.
plan(Codes, []) ->
    plan_any(Codes, []);
plan(Codes, Inputs) ->
    case take_input(Codes, 1) of
        ok -> plan_any(Codes, Inputs);
        {error, _} = Error -> Error
    end.

-doc "The same, for codes that need not take anything.".
-spec plan_any([dyno_bench_code:code()], [input()]) -> {ok, [measurement()]} | {error, reason()}.
plan_any(Codes, []) ->
    {ok, [#{id => ~"1", codes => Codes}]};
plan_any(Codes, Inputs) ->
    maybe
        {ok, Named} ?= named(Inputs, []),
        {ok, [
            #{id => Name, input => Name, codes => Codes, value => fun(Where, Evaluate) ->
                value(Where, Name, Callable, Evaluate)
            end}
         || {Name, Callable} <- Named
        ]}
    end.

named([], Named) ->
    {ok, lists:reverse(Named)};
named([Input | Rest], Named) ->
    case name(Input) of
        {ok, Name, Callable} ->
            case lists:keymember(Name, 1, Named) of
                true -> {error, {input_twice, Name}};
                false -> named(Rest, [{Name, Callable} | Named])
            end;
        error ->
            {error, {bad_input, Input}}
    end.

name({Name, Callable}) when is_integer(Name) -> {ok, integer_to_binary(Name), Callable};
name({Name, Callable}) when is_atom(Name) -> {ok, atom_to_binary(Name), Callable};
name({[_ | _] = Name, Callable}) ->
    case io_lib:char_list(Name) of
        true -> {ok, unicode:characters_to_binary(Name), Callable};
        false -> error
    end;
name({<<_, _/binary>> = Name, Callable}) -> {ok, Name, Callable};
name(_) -> error.

%% A code that takes nothing would give the same figure for each input.
take_input([], _Number) ->
    ok;
take_input([#{init := _} | _], Number) ->
    {error, {own_init, Number}};
take_input([Code | Rest], Number) ->
    WithInput = given(Code, undefined),
    case dyno_bench_code:read(WithInput) of
        {ok, Parsed} ->
            case dyno_bench_code:takes_argument(Parsed) of
                true -> take_input(Rest, Number + 1);
                false -> {error, {takes_no_input, Number}}
            end;
        {error, Reason} ->
            {error, {code, Number, Reason}}
    end.

%% The value is what init gives; without an init_runner of its own, the code takes it as it is.
given(Code, Value) when is_map(Code) ->
    maps:merge(#{init_runner => fun(Given) -> Given end}, Code#{init => fun() -> Value end});
given(Callable, Value) ->
    given(#{runner => Callable}, Value).

value(_Where, _Name, Value, _Evaluate) when is_integer(Value) ->
    {ok, Value};
value({Module, How}, Name, Callable, Evaluate) ->
    maybe
        {ok, Parsed} ?= dyno_bench_code:read(Callable),
        {ok, #{binary := Binary, constants := Constants}} ?=
            dyno_bench_code:compile(Module, Parsed, How),
        ok = dyno_code:load(Module, atom_to_list(Module), Binary),
        {evaluated, {ok, Value}} ?=
            {evaluated, Evaluate(fun() -> Module:loop(1, Constants, undefined) end)},
        {ok, Value}
    else
        {evaluated, {error, Failure}} -> {error, input_failed(Name, Failure)};
        {error, interrupted} -> {error, interrupted};
        {error, Reason} -> {error, {input, Name, Reason}}
    end.

input_failed(_Name, interrupted) -> interrupted;
input_failed(Name, {timeout, TimeoutMs}) -> {input_endless, Name, TimeoutMs};
input_failed(Name, {died, Reason}) -> {input_raised, Name, exit, Reason};
input_failed(Name, {raised, Class, Reason, _} = Failure) ->
    case dyno_bench_undefined:find(Failure) of
        {ok, Function} -> {unknown, <<"the input ", Name/binary>>, Function};
        none -> {input_raised, Name, Class, Reason}
    end.

-doc "Measures one after the other. The time is shared out equally.".
-spec measure([measurement(), ...], dyno_bench_engine:options()) ->
    {ok, [outcome()]} | {error, reason()}.
measure(Measurements, #{budget_ms := BudgetMs} = Options) ->
    Each = Options#{budget_ms := max(1, BudgetMs div length(Measurements))},
    measure(lists:enumerate(Measurements), Each, []).

measure([], _Options, Outcomes) ->
    {ok, lists:reverse(Outcomes)};
measure([{Number, Measurement} | Rest], Options, Outcomes) ->
    case one(Measurement, Number, Options) of
        {ok, Outcome} -> measure(Rest, Options, [Outcome | Outcomes]);
        {error, _} = Error -> Error
    end.

one(Measurement, Number, #{isolated := _} = Options) ->
    case dyno_bench_isolated:run(Measurement, Number, own(Measurement, Options)) of
        {ok, {Size, Result}} -> {ok, #{measurement => Measurement, size => Size, result => Result}};
        {error, Reason} -> {error, in_run(Measurement, Reason)}
    end;
one(Measurement, Number, Options) ->
    Run = fun(Codes, Own, _Size) -> dyno_bench_engine:run(Codes, Own) end,
    evaluated(Measurement, Number, {Options, Run}).

-doc """
Does what comes before and after the rounds of a measurement with one code, and in between calls a
function with its stand and the size of its input.
""".
-spec serve(measurement(), pos_integer(), dyno_bench_engine:options(),
    fun((dyno_bench_engine:stand(), Size :: pos_integer() | undefined) -> term())) ->
    ok | {error, reason()}.
serve(Measurement, Number, Options, Serve) ->
    Run = fun([Code], Own, Size) ->
        dyno_bench_engine:serve(Code, Own, fun(Stand) -> Serve(Stand, Size) end)
    end,
    case evaluated(Measurement, Number, {Options, Run}) of
        {ok, _} -> ok;
        {error, _} = Error -> Error
    end.

%% The sandbox owns what set-up makes, for as long as the codes are measured.
evaluated(Measurement, Number, {#{timeout_ms := TimeoutMs} = Options, _} = How) ->
    Sandbox = dyno_sandbox:start(#{}),
    Evaluate = fun(Fun) -> dyno_sandbox:call(Sandbox, Fun, TimeoutMs) end,
    try
        case Measurement of
            #{value := Value} ->
                case Value(
                    {
                        %% A value may hold funs of the module, so each input has its own.
                        dyno_bench_slots:module(input, Number, Options),
                        maps:with([compiler, timeout_ms], Options)
                    },
                    Evaluate
                ) of
                    {ok, Given} -> set_up(Measurement, Given, Evaluate, How);
                    {error, _} = Error -> Error
                end;
            #{} ->
                set_up(Measurement, undefined, Evaluate, How)
        end
    after
        dyno_sandbox:stop(Sandbox)
    end.

set_up(#{setup := Setup} = Measurement, Value, Evaluate, How) ->
    case attempt(setup, Measurement, Evaluate, fun() -> Setup(Value) end) of
        {ok, Made} ->
            Result = compare(Measurement, {given, Made}, Value, How),
            Teardown = maps:get(teardown, Measurement, fun(_) -> ok end),
            case {Result, attempt(teardown, Measurement, Evaluate, fun() -> Teardown(Made) end)} of
                {{ok, _}, {error, _} = Error} -> Error;
                {_, _} -> Result
            end;
        {error, _} = Error ->
            Error
    end;
set_up(#{value := _} = Measurement, Value, _Evaluate, How) ->
    compare(Measurement, {given, Value}, Value, How);
set_up(Measurement, Value, _Evaluate, How) ->
    compare(Measurement, nothing, Value, How).

attempt(Stage, #{id := Id}, Evaluate, Fun) ->
    case Evaluate(Fun) of
        {ok, Value} -> {ok, Value};
        {error, interrupted} -> {error, interrupted};
        {error, {timeout, TimeoutMs}} -> {error, {late, Stage, Id, TimeoutMs}};
        {error, {died, Reason}} -> {error, {raised, Stage, Id, exit, Reason, []}};
        {error, {raised, Class, Reason, Stack}} ->
            {error, {raised, Stage, Id, Class, Reason, Stack}}
    end.

compare(#{codes := Codes} = Measurement, Given, Value, {Options, Run}) ->
    All =
        case Given of
            {given, Made} -> [given(Code, Made) || Code <- Codes];
            nothing -> Codes
        end,
    Own = own(Measurement, Options),
    Checked =
        case {Measurement, Given} of
            {#{check := Check}, {given, Taken}} -> Own#{check => Check(Taken)};
            {#{check := Check}, nothing} -> Own#{check => Check(undefined)};
            {#{}, _} -> Own
        end,
    Size = input_size(Value),
    case Run(All, Checked, Size) of
        {ok, Result} -> {ok, #{measurement => Measurement, size => Size, result => Result}};
        {error, Reason} -> {error, in_run(Measurement, Reason)}
    end.

own(Measurement, Options) ->
    maps:merge(Options, maps:get(options, Measurement, #{})).

in_run(_Measurement, interrupted) ->
    interrupted;
in_run(#{id := Id} = Measurement, Reason) when
    is_map_key(input, Measurement); is_map_key(group, Measurement)
->
    {in_run, Id, Reason};
in_run(_Measurement, Reason) ->
    Reason.

input_size(N) when is_integer(N), N > 0 -> N;
input_size(_) -> undefined.

-doc "The recording of all.".
-spec document({Name :: binary() | undefined, Parameters :: #{atom() => term()}}, [outcome(), ...],
    Environment :: term()) -> dyno_recording:document().
document({Name, Parameters}, Outcomes, Environment) ->
    Sizes = sizes(Outcomes),
    Document = dyno_bench_result:document(
        Name,
        Parameters,
        [{labels(M), Size, Result} || {#{measurement := M, result := Result}, Size} <- Sizes],
        Environment
    ),
    dyno_recording:add_tables(Document, dyno_bench_inputs_growth:tables(growing(Sizes), Document)).

labels(Measurement) ->
    #{
        Label => map_get(Key, Measurement)
     || {Key, Label} <- [{group, ~"case"}, {input, ~"input"}], is_map_key(Key, Measurement)
    }.

%% The size of a run is its input's, where all inputs of its group have one: by their names, or else
%% by their values.
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

%% By group, the runs that have a real size.
growing(Sizes) ->
    Groups = maps:groups_from_list(fun({Outcome, _}) -> group(Outcome) end, Sizes),
    lists:sort([
        {Group, [{map_get(id, map_get(measurement, O)), Size} || {O, Size} <- Members]}
     || Group := [{First, _}, _ | _] = Members <- Groups,
        size_in([O || {O, _} <- Members], First) =/= undefined
    ]).

-doc "One sentence for a reason.".
-spec format_error(reason()) -> unicode:chardata().
format_error({bad_input, Input}) ->
    io_lib:format("the input ~0tP is not {Name, Code}", [Input, 12]);
format_error({input_twice, Name}) ->
    io_lib:format("two inputs have the name ~ts; give each its own", [Name]);
format_error({input, Name, Reason}) ->
    io_lib:format("the input ~ts: ~ts", [Name, dyno_bench_code:format_error(Reason)]);
format_error({input_raised, Name, Class, Reason}) ->
    io_lib:format("the input ~ts raised ~ts:~0tP", [Name, Class, Reason, 12]);
format_error({input_endless, Name, TimeoutMs}) ->
    io_lib:format("the input ~ts had not ended after ~b ms", [Name, TimeoutMs]);
format_error({late, Stage, Run, TimeoutMs}) ->
    io_lib:format("~ts: ~ts had not ended after ~b ms", [Run, Stage, TimeoutMs]);
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
format_error({raised, Stage, Run, Class, Reason, _Stack}) ->
    io_lib:format("~ts: ~ts raised ~ts:~0tP", [Run, Stage, Class, Reason, 12]);
format_error({in_case, Case, Reason}) ->
    [Case, ": ", format_error(Reason)];
format_error({in_run, Id, Reason}) ->
    ["with ", Id, ": ", format_error(Reason)];
format_error(Reason) ->
    case dyno_bench_isolated:explains(Reason) of
        true -> dyno_bench_isolated:format_error(Reason);
        false -> dyno_bench_engine:format_error(Reason)
    end.
