%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_code).
-moduledoc """
Reads a code in any of its forms, and compiles the loop that repeats the code.

| form | example |
| --- | --- |
| expressions | `"rand:uniform()"`; a full stop may follow |
| a function of arity 0, 1 or 2 | `"r(X) -> lists:sort(X)"`, `"fun(X) -> lists:sort(X) end"` |
| module, function, arguments | `{lists, sort, [[3, 1, 2]]}` |
| a list of them | `[{a, f, []}, {b, g, []}]` |
| a fun of arity 0, 1 or 2 | `fun() -> ok end` |
| Elixir source, if installed | `{elixir, ~"Enum.max([3, 1])"}`, `{elixir, ~"fn x -> x end"}` |

A fun typed in a shell, `erl` or `iex`, is compiled as well, even among the values that it uses or
the arguments of a call. If that is impossible, the code is refused: the shell's interpreter would
be measured.

`init` runs once; its value goes to `init_runner` (arity 1) and `done` (arity 1). `init_runner` runs
once in each worker; its value goes to the runner. A runner of arity 1 gets the value each time. A
runner of arity 2 gets the value as its first argument and as the first state; its result is the
next state.

The loop is compiled with the code inline. Each result is passed to the next iteration, so that the
compiler cannot remove the work as unused. If the compiler can compute the result, `constant` says
so.
""".

-export([read/1, read/2, read_value/1, as_map/1, label/1, takes_argument/1]).
-export([compile/3, compiled/3, source/1]).
-export([load/3, load_value/3]).
-export([in_code/2, format_error/1, fault/1]).
-export_type([code/0, callable/0, parsed/0, compiled/0, compiler/0, compiling/0, reason/0]).

-doc "A code to measure.".
-type callable() ::
    string()
    | binary()
    | {elixir, binary()}
    | fun()
    | {module(), atom(), [term()]}
    | [{module(), atom(), [term()]}].

-type code() ::
    callable()
    | #{
        runner := callable(),
        init => callable(),
        init_runner => callable(),
        done => callable(),
        label => string() | binary()
    }.

-type part() ::
    {forms, Arity :: 0..2, erl_parse:abstract_clause()}
    | {function, Arity :: 0..2, fun()}
    | {calls, [{module(), atom(), [term()]}, ...]}.

-doc "A code whose parts are read and fit together.".
-opaque parsed() :: #{
    label := binary(),
    %% Of parts in Erlang source.
    texts := #{part_name() => binary()},
    runner := part(),
    init => part(),
    init_runner => part(),
    done => part()
}.

-doc """
The loop as a module: `init/1`, `init_runner/2`, `loop/4`, `done/2`; see `compile/3`. `constants`
hold values without source text: funs and the arguments of calls. If the module has a function
`constants/1`, `constants` is its argument (dyno_bench_evaluated).
""".
-type compiled() :: #{
    label := binary(),
    module := module(),
    binary := binary(),
    constants := #{atom() => term()} | tuple(),
    %% Copies of the loop: see dyno_bench_forms.
    places := pos_integer(),
    %% The compiler could compute the result: an empty loop is measured.
    constant := boolean(),
    %% The only function that the code calls, if the compiler has computed its result.
    folded => binary(),
    %% Warnings of the compiler, as text.
    warnings := [binary()],
    %% How the loop calls the code.
    form := inline | call | apply
}.

-type reason() ::
    {code, pos_integer(), dyno_error:error()}
    | {arity, part_name(), arity(), Accepted :: binary()}
    | {needs, part_name(), part_name()}
    | {not_code, part_name(), term()}
    | {unknown_part, term()}
    | {no_runner, term()}
    | {compile, Text :: binary(), [binary()]}
    | {too_long, part_name(), Bytes :: pos_integer()}
    | {endless_compilation, Text :: binary(), TimeoutMs :: pos_integer()}
    | {costly_compilation, Text :: binary()}.

-doc "A node without a compiler uses another node. So no trace of Elixir stays there.".
-type compiler() :: here | node().

-type compiling() :: #{compiler => compiler(), timeout_ms => pos_integer(), _ => _}.

-type part_name() :: runner | init | init_runner | done.

-define(PARTS, [runner, init, init_runner, done]).
%% Limit of source text: it is compiled several times, and its atoms stay.
-define(MAX_BYTES, 500_000).
-define(COMPILE_MS, 30_000).

-doc "Reads a code; errors include the place.".
-spec read(code()) -> dyno_error:result(parsed()).
read(Code) ->
    maybe
        {ok, #{runner := Runner} = Parsed} ?= parts(Code),
        check(Parsed#{runner := dyno_bench_source:called(Runner)})
    end.

-doc "The same on the compiler's node.".
-spec read(code(), compiling()) -> dyno_error:result(parsed()).
read(Code, How) -> there(read, [Code], Code, How).

-doc "Reads a code that gives a value. Source of a fun gives the fun.".
-spec read_value(callable()) -> dyno_error:result(parsed()).
read_value(Callable) ->
    maybe
        {ok, Parts} ?= parts(Callable),
        check(Parts)
    end.

there(Function, Arguments, Code, #{compiler := Node} = How) when Node =/= here ->
    TimeoutMs = maps:get(timeout_ms, How, ?COMPILE_MS),
    try
        erpc:call(Node, ?MODULE, Function, Arguments, 2 * TimeoutMs)
    catch
        error:{erpc, Reason} ->
            Why = <<"the compiler's node: ", (atom_to_binary(Reason))/binary>>,
            {error, {?MODULE, {compile, label(Code), [Why]}}}
    end;
there(Function, Arguments, _Code, _How) ->
    apply(?MODULE, Function, Arguments).

parts(#{runner := _} = Code) ->
    Read = fun({Name, Callable}) ->
        maybe
            {ok, Part} ?= part(Name, Callable),
            {ok, {Name, Part}}
        end
    end,
    Callables = [{Name, Callable} || Name <- ?PARTS, #{Name := Callable} <- [Code]],
    maybe
        [] ?= maps:keys(Code) -- [label | ?PARTS],
        {ok, Parts} ?= dyno_error:each(Read, Callables),
        Texts = #{Name => Text || {Name, Of} <- Callables, {ok, Text} <- [text(Of)]},
        {ok, (maps:from_list(Parts))#{label => label(Code), texts => Texts}}
    else
        [Unknown | _] -> {error, {?MODULE, {unknown_part, Unknown}}};
        {error, _} = Error -> Error
    end;
parts(Code) when is_map(Code) ->
    {error, {?MODULE, {no_runner, Code}}};
parts(Callable) ->
    parts(#{runner => Callable}).

%% Text may be a list of characters, but not a list of calls.
text(Text) when is_binary(Text) ->
    {ok, Text};
text([_ | _] = List) ->
    case io_lib:char_list(List) of
        true -> {ok, unicode:characters_to_binary(List)};
        false -> error
    end;
text(_NoText) ->
    error.

-doc "Converts a code to the form with room for more parts.".
-spec as_map(code()) -> #{runner := callable(), _ => _}.
as_map(#{} = Code) -> Code;
as_map(Callable) -> #{runner => Callable}.

-doc "The name of a code in reports.".
-spec label(code()) -> binary().
label(#{label := Label}) ->
    dyno_recording_check:text(Label);
label(#{runner := Runner}) ->
    label(Runner);
label({elixir, Text}) when is_binary(Text) ->
    label(Text);
label(Callable) ->
    maybe
        error ?= text(Callable),
        none ?= dyno_bench_evaluated:text(Callable),
        dyno_recording_check:text(io_lib:format("~0tp", [Callable]))
    else
        {ok, Text} -> dyno_recording_check:text(string:trim(Text))
    end.

part(Name, {elixir, Text}) when is_binary(Text) ->
    text_part(Name, Text, fun(N, T) -> dyno_bench_elixir:part(N, T, ?COMPILE_MS) end);
part(_Name, Fun) when is_function(Fun) ->
    maybe
        ok ?= dyno_bench_evaluated:check(Fun),
        {arity, Arity} = erlang:fun_info(Fun, arity),
        {ok, {function, Arity, Fun}}
    end;
part(Name, Callable) ->
    case text(Callable) of
        {ok, Text} -> text_part(Name, Text, fun dyno_bench_source:read/2);
        error -> calls_part(Name, Callable)
    end.

text_part(Name, Text, _Read) when byte_size(Text) > ?MAX_BYTES ->
    {error, {?MODULE, {too_long, Name, byte_size(Text)}}};
text_part(Name, Text, Read) ->
    Read(Name, Text).

calls_part(Name, Callable) ->
    Calls =
        case is_list(Callable) of
            true -> Callable;
            false -> [Callable]
        end,
    maybe
        true ?= Calls =/= [] andalso lists:all(fun is_call/1, Calls),
        ok ?= dyno_bench_evaluated:check(Calls),
        {ok, {calls, Calls}}
    else
        false -> {error, {?MODULE, {not_code, Name, Callable}}};
        {error, _} = Error -> Error
    end.

is_call({M, F, A}) -> is_atom(M) andalso is_atom(F) andalso is_list(A);
is_call(_) -> false.

%% A part's argument must come from another part.
check(Parsed) ->
    Parts = [
        {Name, arity(Part), Most, Needed}
     || {Name, Most, Needed} <- [
            {runner, {2, ~"0, 1 or 2"}, init_runner},
            {init, {0, ~"0"}, none},
            {init_runner, {1, ~"0 or 1"}, init},
            {done, {1, ~"0 or 1"}, init}
        ],
        #{Name := Part} <- [Parsed]
    ],
    TooMany = [
        {arity, Name, Arity, Accepted}
     || {Name, Arity, {Most, Accepted}, _} <- Parts, Arity > Most
    ],
    Needs = [
        {needs, Name, Needed}
     || {Name, Arity, _, Needed} <- Parts, Arity > 0, not is_map_key(Needed, Parsed)
    ],
    case TooMany ++ Needs of
        [] -> {ok, Parsed};
        [Reason | _] -> {error, {?MODULE, Reason}}
    end.

-doc "Whether the runner takes the value of init_runner.".
-spec takes_argument(parsed()) -> boolean().
takes_argument(#{runner := Runner}) ->
    arity(Runner) > 0.

arity({forms, Arity, _}) -> Arity;
arity({function, Arity, _}) -> Arity;
arity({calls, _}) -> 0.

-doc """
Compiles the loop into a module of the given name:

* `init(Constants) -> Init`
* `init_runner(Constants, Init) -> Start`
* `loop(N, Constants, Start, Place) -> LastResult`: N iterations with the copy of the loop in this
  place; `loop/3` uses the first. `places` is the number of copies
* `resume(N, Constants, Start, Last, Place) -> LastResult`: continues from an earlier result
* `done(Constants, Init) -> term()`

Time is limited, because the compiler needs long for `1 bsl 1000000000`. Another node's compiler
compiles for every release that dyno supports.
""".
-spec compile(module(), parsed(), compiling()) -> dyno_error:result(compiled()).
compile(Module, #{label := Label} = Parsed, How) ->
    More = [r27 || #{compiler := Node} <- [How], Node =/= here],
    TimeoutMs = maps:get(timeout_ms, How, ?COMPILE_MS),
    there(compiled, [Module, Parsed, {More, TimeoutMs}], #{label => Label}, How).

-doc false.
-spec compiled(module(), parsed(), {[compile:option()], TimeoutMs :: pos_integer()}) ->
    dyno_error:result(compiled()).
compiled(Module, #{runner := Runner, label := Label, texts := Texts} = Parsed, {More, TimeoutMs}) ->
    Parts = maps:with(?PARTS, Parsed),
    Gaps = dyno_bench_forms:gaps(Parts),
    Forms = dyno_bench_forms:module(Module, Parts, Gaps),
    Options =
        [binary, return, no_spawn_compiler_process, nowarn_unused_vars, {inline_size, 10_000}] ++
            More,
    Compile = fun() ->
        {compile:forms(Forms, Options), dyno_bench_forms:constant(Module, Runner)}
    end,
    case dyno_sandbox:once(Compile, TimeoutMs) of
        {ok, {{ok, Module, Binary, Warnings}, Constant}} ->
            Folded = #{folded => dyno_agent_name:mfa(MFA) || {called, MFA} <- [Constant]},
            {ok, Folded#{
                label => Label,
                module => Module,
                binary => Binary,
                constants => dyno_bench_forms:constants(Parts),
                places => length(Gaps),
                constant => Constant =:= inline,
                warnings => diagnostics(Warnings),
                form => form(Runner)
            }};
        {ok, {{error, [{"evaluated", _} | _] = Errors, _Warnings}, _}} ->
            {error, {dyno_bench_evaluated, {not_compiled, diagnostics(Errors)}}};
        {ok, {{error, Errors, _Warnings}, _}} ->
            case dyno_bench_source:place(Errors, ?PARTS, Texts) of
                {ok, Error} -> {error, Error};
                none -> {error, {?MODULE, {compile, Label, diagnostics(Errors)}}}
            end;
        {error, {died, _}} ->
            {error, {?MODULE, {costly_compilation, Label}}};
        {error, interrupted} ->
            {error, {dyno_error, interrupted}};
        {error, {timeout, _}} ->
            {error, {?MODULE, {endless_compilation, Label, TimeoutMs}}};
        {error, {raised, Class, Reason, _Stack}} ->
            Text = io_lib:format("the compiler raised ~ts:~0tP", [Class, Reason, 8]),
            {error, {?MODULE, {compile, Label, [unicode:characters_to_binary(Text)]}}}
    end.

-doc "Reads, compiles and loads a code as a module of the given name.".
-spec load(module(), code(), compiling()) -> dyno_error:result(compiled()).
load(Module, Code, How) ->
    loaded(Module, read(Code, How), How).

-doc "The same for a code that gives a value. Source of a fun gives the fun.".
-spec load_value(module(), callable(), compiling()) -> dyno_error:result(compiled()).
load_value(Module, Callable, How) ->
    loaded(Module, there(read_value, [Callable], Callable, How), How).

loaded(Module, Read, How) ->
    maybe
        {ok, Parsed} ?= Read,
        {ok, #{binary := Binary, constants := Constants} = Compiled} ?=
            compile(Module, Parsed, How),
        ok = dyno_code:load(Module, atom_to_list(Module), Binary),
        case erlang:function_exported(Module, constants, 1) of
            true -> {ok, Compiled#{constants := Module:constants(Constants)}};
            false -> {ok, Compiled}
        end
    end.

-doc "Adds the number of the code to an error.".
-spec in_code(pos_integer(), dyno_error:error()) -> dyno_error:error().
in_code(_Number, {dyno_error, interrupted} = Error) -> Error;
in_code(Number, Error) -> {?MODULE, {code, Number, Error}}.

-doc "The compiled loop as source text.".
-spec source(parsed()) -> unicode:chardata().
source(Parsed) ->
    dyno_bench_forms:source(dyno_bench_code, maps:with(?PARTS, Parsed)).

form({forms, _, _}) -> inline;
form({calls, _}) -> call;
form({function, _, _}) -> apply.

diagnostics(Found) ->
    lists:uniq([
        unicode:characters_to_binary([part_of(File), place(Where), Formatter:format_error(Text)])
     || {File, Details} <- Found, {Where, Formatter, Text} <- Details
    ]).

%% The file is the part's name; the code itself needs none.
part_of(File) when File =:= "init"; File =:= "init_runner"; File =:= "done" -> [File, ": "];
part_of(_File) -> "".

place({Line, Column}) -> io_lib:format("~b:~b: ", [Line, Column]);
place(_Where) -> "".

-spec format_error(reason()) -> unicode:chardata().
format_error({code, Number, Error}) ->
    io_lib:format("code ~b: ~ts", [Number, dyno_error:format(Error)]);
format_error({arity, Name, Arity, Accepted}) ->
    Format = "~tsa function of arity ~b; arity ~ts is accepted",
    io_lib:format(Format, [dyno_bench_source:in_part(Name), Arity, Accepted]);
format_error({not_code, Name, Value}) ->
    io_lib:format(
        "~ts~0tP is no code; source text, {Module, Function, [Argument]}, a list of those, or a "
        "fun is accepted",
        [dyno_bench_source:in_part(Name), Value, 10]
    );
format_error({needs, Name, Needed}) ->
    io_lib:format("~ts takes an argument, which ~ts must give; there is none", [Name, Needed]);
format_error({unknown_part, Key}) ->
    io_lib:format("~0tp is no part of a code; runner, init, init_runner, done, label are", [Key]);
format_error({no_runner, Code}) ->
    io_lib:format("~0tP has no runner", [Code, 10]);
format_error({too_long, Name, Bytes}) ->
    io_lib:format(
        "~ts~b bytes of source; at most ~b are accepted: put them into a module (--pa) and call "
        "it",
        [dyno_bench_source:in_part(Name), Bytes, ?MAX_BYTES]
    );
format_error({endless_compilation, Label, TimeoutMs}) ->
    io_lib:format(
        "\"~ts\" was not compiled after ~ts; if it has large values, have init make them; if the "
        "machine is busy, allow more time (--timeout)",
        [short(Label), dyno_unit:format(TimeoutMs, ~"ms")]
    );
format_error({costly_compilation, Label}) ->
    io_lib:format("\"~ts\" takes more than 2 GB to compile; have init make its large values", [
        short(Label)
    ]);
format_error({compile, Label, Texts}) ->
    io_lib:format("\"~ts\" does not compile: ~ts", [short(Label), lists:join("; ", Texts)]).

short(Text) ->
    string:slice(Text, 0, 60).

-spec fault(reason()) -> dyno_error:fault().
fault({code, _, Error}) -> dyno_error:fault(Error);
fault(_) -> caller.
