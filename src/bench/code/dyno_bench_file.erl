%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_file).
-moduledoc """
The behaviour of a benchmark file: comparisons to keep, run with `dyno bench FILE.erl`.

```erlang
-module(reverse_bench).
-behaviour(dyno_bench_file).
-export([benchmarks/0]).

benchmarks() ->
    [
        #{
            name => "reverse",
            inputs => [10, 1000],
            setup => fun(N) -> lists:seq(1, N) end,
            codes => #{
                "lists:reverse" => fun lists:reverse/1,
                "foldl" => fun(L) -> lists:foldl(fun(X, Acc) -> [X | Acc] end, [], L) end
            },
            check => same
        }
    ].
```

In an Elixir file (`.exs`, `.ex`) use `@behaviour :dyno_bench_file` and `def benchmarks`, with maps,
functions and strings of Elixir.

For each case and input, `setup` runs with the input's value; all codes take its result. Without
`setup` the codes take the value itself. `check` gets the result of one call of each code; if a
result is wrong, nothing is measured. Finally `teardown` runs with the result of `setup`, even after
a failure. All of these run in one process that lasts as long as the case, so they can own tables
and link to processes.

Each is a run of the recording, with the identifier `CASE` or `CASE/INPUT`.
""".

-export([read/2, forget/1, locate/2, format_error/1, fault/1]).
-export_type([benchmark/0, file/0, reason/0]).

-type benchmark() :: #{
    name := string() | binary() | atom(),
    %% By label; a list keeps its order.
    codes := #{label() => dyno_bench_code:code()} | [{label(), dyno_bench_code:code()}],
    %% A number alone is its own name.
    inputs => [integer() | dyno_bench_inputs:input()],
    %% Arity 1 with inputs, arity 0 without.
    setup => fun(() -> term()) | fun((Value :: term()) -> term()),
    teardown => fun((term()) -> term()),
    %% `same`: all results are equal. A fun checks each result.
    check => same | fun((Taken :: term(), Result :: term()) -> boolean()),
    concurrency => pos_integer(),
    threshold => float()
}.

-type label() :: string() | binary() | atom().

-doc "The cases of the file.".
-callback benchmarks() -> [benchmark(), ...].

-type file() :: #{
    path := file:filename(),
    name := binary(),
    module := module(),
    modules := [{module(), file:filename(), binary()}],
    line := pos_integer(),
    plan := [dyno_bench_inputs:measurement(), ...]
}.

-type reason() ::
    {no_file, file:filename(), file:posix()}
    | {does_not_compile, file:filename(), [unicode:chardata()]}
    | {elixir, file:filename(), dyno_elixir:reason()}
    | {taken_name, file:filename(), module()}
    | {no_benchmarks, file:filename()}
    | {endless_compilation, file:filename(), TimeoutMs :: pos_integer()}
    | {bad_case, place(), Case :: pos_integer() | binary(), unicode:chardata()}
    | {at, place(), dyno_error:error()}.

-type place() :: {file:filename(), pos_integer()}.

-define(OPTIONS, [concurrency, threshold]).

-doc """
Compiles and loads a file, and plans its cases; `forget/1` unloads the file. The timeout holds for
compiling and for calling benchmarks/0, each. `portable`: every release that dyno supports can load
the result.
""".
-spec read(file:filename_all(), {own | portable, TimeoutMs :: pos_integer()}) ->
    dyno_error:result(file()).
read(Name, {For, TimeoutMs}) ->
    Path = unicode:characters_to_list(Name),
    maybe
        {ok, Modules} ?= compiled(Path, [r27 || For =:= portable], TimeoutMs),
        {ok, Module, Line} ?= benchmarks_of(Path, Modules),
        ok = lists:foreach(fun({M, Binary}) -> ok = dyno_code:load(M, Path, Binary) end, Modules),
        File = #{
            path => Path,
            name => unicode:characters_to_binary(filename:basename(Path)),
            module => Module,
            modules => [{M, Path, Binary} || {M, Binary} <- Modules],
            line => Line
        },
        case planned(File, TimeoutMs) of
            {ok, Plan} ->
                {ok, File#{plan => Plan}};
            {error, _} = Error ->
                ok = forget(File),
                Error
        end
    end.

%% A parse transform or a macro may never end.
compiled(Path, More, TimeoutMs) ->
    Compile = fun() -> modules(filename:extension(Path), Path, More) end,
    maybe
        {file, {ok, _}} ?= {file, file:read_file_info(Path)},
        {sandbox, {ok, Compiled}} ?= {sandbox, dyno_sandbox:once(Compile, TimeoutMs)},
        {ok, _Modules} ?= Compiled
    else
        {file, {error, Posix}} ->
            {error, {?MODULE, {no_file, Path, Posix}}};
        {sandbox, {error, interrupted}} ->
            {error, {dyno_error, interrupted}};
        {sandbox, {error, {timeout, _}}} ->
            {error, {?MODULE, {endless_compilation, Path, TimeoutMs}}};
        {sandbox, {error, _}} ->
            Text = unicode:characters_to_binary([Path, ": takes more than 2 GB to compile"]),
            {error, {?MODULE, {does_not_compile, Path, [Text]}}};
        {error, {?MODULE, _}} = Taken ->
            Taken;
        {error, no_compiler} ->
            {error, {?MODULE, {does_not_compile, Path, []}}};
        {error, {does_not_compile, Texts}} ->
            {error, {?MODULE, {does_not_compile, Path, Texts}}};
        {error, Reason} ->
            {error, {?MODULE, {elixir, Path, Reason}}}
    end.

modules(".erl", Path, More) ->
    maybe
        {ok, Module, Binary} ?= dyno_code:compile_file(Path, [nowarn_undefined_behaviour | More]),
        ok ?= free(Path, Module),
        {ok, [{Module, Binary}]}
    end;
modules(_Elixir, Path, _More) ->
    maybe
        ok ?= dyno_elixir:start(),
        dyno_elixir:compile(Path)
    end.

%% Loading must not replace a module of dyno or Erlang.
free(Path, Module) ->
    case code:is_loaded(Module) =:= false andalso code:which(Module) of
        non_existing -> ok;
        _ -> {error, {?MODULE, {taken_name, Path, Module}}}
    end.

%% The module with benchmarks/0, and its line. An Elixir file may have helper modules.
benchmarks_of(Path, Modules) ->
    Found = [
        {Module, erl_anno:line(Anno)}
     || {Module, Binary} <- Modules,
        {ok, {_, [{debug_info, {debug_info_v1, Backend, Data}}, {exports, Exports}]}} <- [
            beam_lib:chunks(Binary, [debug_info, exports])
        ],
        lists:member({benchmarks, 0}, Exports),
        {ok, Forms} <- [Backend:debug_info(erlang_v1, Module, Data, [])],
        {function, Anno, benchmarks, 0, _} <- Forms
    ],
    case Found of
        [{Module, Line} | _] -> {ok, Module, Line};
        [] -> {error, {?MODULE, {no_benchmarks, Path}}}
    end.

planned(#{module := Module} = File, TimeoutMs) ->
    case dyno_sandbox:once(fun() -> Module:benchmarks() end, TimeoutMs) of
        {ok, [_ | _] = Cases} ->
            cases(Cases, File);
        {ok, Other} ->
            Text = io_lib:format("benchmarks/0 gives ~0tP, not a list of cases", [Other, 8]),
            bad(File, 1, Text);
        {error, Failure} ->
            Error = dyno_bench_failure:error(map_get(name, File), 'benchmarks/0', Failure),
            {error, locate(File, Error)}
    end.

cases(Cases, File) ->
    One = fun({Number, Case}) -> one(Case, Number, File) end,
    maybe
        {ok, Plans} ?= dyno_error:each(One, lists:enumerate(Cases)),
        Plan = lists:append(Plans),
        Ids = [Id || #{id := Id} <- Plan],
        [] ?= Ids -- lists:usort(Ids),
        {ok, Plan}
    else
        [Twice | _] -> bad(File, Twice, "two cases have this name; give each its own");
        {error, _} = Error -> Error
    end.

one(#{name := Name, codes := Codes} = Case, Number, File) ->
    case dyno_option:name(Name) of
        {ok, Group} ->
            maybe
                [] ?= codes_problems(pairs(Codes)),
                ok ?= dyno_option:check(checks(Case), [name, codes], Case),
                measurements(Group, Case, File)
            else
                [Problem | _] -> bad(File, Group, Problem);
                {error, Error} -> bad(File, Group, dyno_error:format(Error))
            end;
        error ->
            bad(File, Number, "its name is no text")
    end;
one(#{name := _}, Number, File) ->
    bad(File, Number, "there are no codes");
one(_Case, Number, File) ->
    bad(File, Number, "this is no map with a name and codes").

checks(Case) ->
    {Arity, Accepted} =
        case Case of
            #{inputs := _} -> {1, ~"a function of arity 1, which takes the input,"};
            #{} -> {0, ~"a function of arity 0, because there are no inputs,"}
        end,
    [
        {inputs, fun(I) -> is_list(I) andalso I =/= [] end, ~"a list of at least one"},
        {setup, fun(F) -> is_function(F, Arity) end, Accepted},
        {teardown, fun(F) -> is_function(F, 1) end, ~"a function of arity 1"},
        {teardown, fun(_) -> is_map_key(setup, Case) end, ~"none without a setup"},
        {check, fun(C) -> C =:= same orelse is_function(C, 2) end,
            ~"same, or a function of arity 2,"}
        | [Check || {Key, _, _} = Check <- dyno_bench_engine:checks(), lists:member(Key, ?OPTIONS)]
    ].

codes_problems([]) ->
    ["codes is no map from labels to codes, and no list of such pairs"];
codes_problems(Pairs) ->
    Count = length(Pairs),
    Most = dyno_bench_slots:most_codes(),
    [io_lib:format("~b codes; at most ~b can be compared", [Count, Most]) || Count > Most] ++
        [
            io_lib:format("the label ~0tp is no text", [L])
         || {L, _} <- Pairs, dyno_option:name(L) =:= error
        ].

pairs(Codes) when is_map(Codes) ->
    lists:sort(maps:to_list(Codes));
pairs(Codes) when is_list(Codes) ->
    case [Pair || {_, _} = Pair <- Codes] of
        Codes -> Codes;
        _ -> []
    end;
pairs(_Codes) ->
    [].

measurements(Group, #{codes := Pairs} = Case, File) ->
    Codes = [labelled(Label, Code) || {Label, Code} <- pairs(Pairs)],
    Inputs = [with_name(Input) || Input <- maps:get(inputs, Case, [])],
    Plan =
        case is_map_key(setup, Case) of
            true -> dyno_bench_inputs:plan_any(Codes, Inputs);
            false -> dyno_bench_inputs:plan(Codes, Inputs)
        end,
    case Plan of
        {ok, Measurements} ->
            {ok, [measurement(Group, M, Case) || M <- Measurements]};
        {error, Error} ->
            InCase = dyno_bench_inputs:in_run(#{id => Group, group => Group}, Error),
            {error, locate(File, InCase)}
    end.

labelled(Label, Code) when is_map(Code) ->
    {ok, Text} = dyno_option:name(Label),
    Code#{label => Text};
labelled(Label, Callable) ->
    labelled(Label, #{runner => Callable}).

with_name(N) when is_integer(N) -> {N, N};
with_name(Input) -> Input.

measurement(Group, Measurement, Case) ->
    Id =
        case Measurement of
            #{input := Input} -> <<Group/binary, "/", Input/binary>>;
            #{} -> Group
        end,
    Hooks =
        #{
            Key => hook(Key, Value)
         || Key := Value <- maps:with([setup, teardown, check], Case)
        },
    Agree = #{agree => fun all_same/1 || #{check := same} <- [Case]},
    maps:merge(
        Measurement#{
            id => Id, group => Group, options => maps:with(?OPTIONS, Case)
        },
        maps:merge(Hooks, Agree)
    ).

hook(setup, Setup) when is_function(Setup, 0) -> fun(_None) -> Setup() end;
hook(check, same) -> fun(_Taken) -> fun all_same/1 end;
hook(check, IsRight) -> fun(Taken) -> fun(Results) -> all_right(IsRight, Taken, Results) end end;
hook(_, Fun) -> Fun.

all_same([{First, Expected} | Others]) ->
    case [{Label, Result} || {Label, Result} <- Others, Result =/= Expected] of
        [] ->
            ok;
        [{Label, Result} | _] ->
            {error,
                io_lib:format("~ts and ~ts do not give the same: ~0tP and ~0tP", [
                    First, Label, Expected, 12, Result, 12
                ])}
    end.

all_right(IsRight, Taken, Results) ->
    case [{Label, Result} || {Label, Result} <- Results, not is_right(IsRight, Taken, Result)] of
        [] ->
            ok;
        [{Label, Result} | _] ->
            {error,
                io_lib:format("~ts gives ~0tP, which does not pass the check", [Label, Result, 12])}
    end.

is_right(IsRight, Taken, Result) ->
    dyno_sandbox:attempt(fun() -> IsRight(Taken, Result) =:= true end) =:= {ok, true}.

bad(File, Case, Text) ->
    {error, {?MODULE, {bad_case, place(File), Case, Text}}}.

place(#{path := Path, line := Line}) -> {Path, Line}.

-doc "Adds the place in the file to an error: the line that raised, else the line of benchmarks/0.".
-spec locate(#{path := _, module := _, line := _, _ => _}, dyno_error:error()) ->
    dyno_error:error().
locate(_File, {dyno_error, interrupted} = Error) ->
    Error;
locate(#{module := Module} = File, Error) ->
    case dyno_bench_failure:place(Module, Error) of
        undefined -> {?MODULE, {at, place(File), Error}};
        Place -> {?MODULE, {at, Place, Error}}
    end.

-doc "Unloads the file's modules.".
-spec forget(#{modules := [{module(), file:filename(), binary()}], _ => _}) -> ok.
forget(#{modules := Modules}) ->
    dyno_code:unload([Module || {Module, _, _} <- Modules]).

-spec format_error(reason()) -> unicode:chardata().
format_error({no_file, Path, Posix}) ->
    io_lib:format("~ts: ~ts", [Path, file:format_error(Posix)]);
format_error({does_not_compile, Path, []}) ->
    io_lib:format("~ts does not compile", [Path]);
format_error({does_not_compile, _Path, [First]}) ->
    First;
format_error({does_not_compile, _Path, [First | More]}) ->
    io_lib:format("~ts (and ~b more)", [First, length(More)]);
format_error({elixir, Path, Reason}) ->
    [Path, ": ", dyno_elixir:format_error(Reason)];
format_error({taken_name, Path, Module}) ->
    io_lib:format("~ts: there is a module ~ts already; give this one another name", [Path, Module]);
format_error({no_benchmarks, Path}) ->
    io_lib:format("~ts does not export benchmarks/0, which dyno_bench_file asks for", [Path]);
format_error({endless_compilation, Path, TimeoutMs}) ->
    io_lib:format(
        "~ts: was not compiled after ~ts; if the machine is busy, allow more time (--timeout)", [
            Path, dyno_unit:format(TimeoutMs, ~"ms")
        ]
    );
format_error({bad_case, Place, Number, Text}) when is_integer(Number) ->
    [at(Place), io_lib:format("case ~b: ~ts", [Number, Text])];
format_error({bad_case, Place, Name, Text}) ->
    [at(Place), io_lib:format("~ts: ~ts", [Name, Text])];
format_error({at, Place, Error}) ->
    [at(Place), dyno_error:format(Error)].

at({Path, Line}) ->
    io_lib:format("~ts:~b: ", [Path, Line]).

-spec fault(reason()) -> dyno_error:fault().
fault({at, _, Error}) -> dyno_error:fault(Error);
fault(_) -> caller.
