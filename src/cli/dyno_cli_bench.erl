%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_cli_bench).
-moduledoc """
`dyno bench`: measures codes and says which is faster, by how much, and how sure that is.
""".

-behaviour(dyno_cli_command).

-compile(warn_missing_spec_all).

-export([spec/0, examples/0, run/1]).

%% Which part of a code an option gives: to the n-th code the n-th time, or to all.
-define(PARTS, [init, init_runner, done, label]).
-define(PARTS_OF_ALL, [init_all, init_runner_all, done_all]).

-type measured() :: {codes, [dyno_bench_code:code()]} | {file, binary()}.

-doc "Its arguments.".
-spec spec() -> argparse:command().
spec() ->
    #{
        help => "measure codes: which is faster, by how much, and how sure is that",
        arguments => [
            #{
                name => code,
                type => binary,
                nargs => nonempty_list,
                action => extend,
                help =>
                    {"CODE...", [
                        "expressions that end with a full stop, a function, or "
                        "{Module, Function, [Argument]}; or one FILE.erl with benchmarks/0"
                    ]}
            },
            option(time, "--time TIME", "the longest to measure, such as 5s; 1s a code"),
            part(init, "its value goes to init_runner and done; the n-th one is the n-th code's"),
            part(init_runner, "once in each process; its value is the code's argument"),
            part(done, "after the last measurement"),
            part(label, "the name of the code in the report"),
            repeated(
                input,
                "--input NAME=CODE",
                "what functions of arity 1 are called with; may be given more than once"
            ),
            for_all(init),
            for_all(init_runner),
            for_all(done),
            option(
                format,
                "--format FORMAT",
                "what standard output gets: " ++ dyno_report:format_names() ++
                    "; console where it is not given"
            ),
            (repeated(
                output,
                "-o, --output FILE",
                "also write FILE; its ending says the format: " ++ dyno_report:file_endings()
            ))#{short => $o},
            %% One dash, as the emulator and erlperf have it.
            (repeated(pa, "-pa FOLDER", "a folder for the code path; may be given more than once"))#{
                long => "pa"
            }
            | dyno_cli_bench_mode:arguments() ++ dyno_cli_baseline:arguments()
        ]
    }.

-spec option(atom(), string(), string()) -> argparse:argument().
option(Name, Usage, Text) ->
    plain(Name, atom_to_list(Name), Usage, Text).

-spec plain(atom(), string(), string(), string()) -> argparse:argument().
plain(Name, Long, Usage, Text) ->
    #{name => Name, long => "-" ++ Long, type => binary, required => false, help => {Usage, [Text]}}.

-spec repeated(atom(), string(), string()) -> argparse:argument().
repeated(Name, Usage, Text) ->
    (option(Name, Usage, Text))#{action => append}.

-spec part(atom(), string()) -> argparse:argument().
part(Name, Text) ->
    repeated(Name, "--" ++ atom_to_list(Name) ++ " CODE", Text).

-spec for_all(atom()) -> argparse:argument().
for_all(Name) ->
    Long = atom_to_list(Name) ++ "_all",
    plain(all_of(Name), Long, "--" ++ Long ++ " CODE", "for the codes that have none of their own").

-spec all_of(atom()) -> atom().
all_of(init) -> init_all;
all_of(init_runner) -> init_runner_all;
all_of(done) -> done_all;
all_of(label) -> label_all.

-doc "Its uses.".
-spec examples() -> [dyno_cli_command:example()].
examples() ->
    [
        {~"dyno bench 'rand:uniform().' 'crypto:strong_rand_bytes(2).'", ~"compares two codes"},
        {~"dyno bench 'r(L) -> lists:sort(L).' --init_runner 'lists:seq(1, 100).'",
            ~"gives a code an argument that is made once"},
        {~"dyno bench 'r(N) -> lists:seq(1, N).' --input 10=10 --input 1000=1000",
            ~"calls a code with several inputs, and says how it grows"},
        {~"dyno bench examples/sorting_bench.erl", ~"runs the comparisons of a file"},
        {~"dyno bench 'ets:insert(t, {1, 2}).' --init 'ets:new(t, [named_table, public]).' -c 2",
            ~"runs a code in two processes at once"},
        {~"dyno bench 'rand:uniform().' -q", ~"finds how many processes give the most"},
        {~"dyno bench 'rand:uniform().' -d 100 -s 20 -r extended", ~"erlperf's samples and columns"}
    ].

-doc "Measures, and shows.".
-spec run(argparse:arg_map()) -> dyno_cli_command:exit_status().
run(#{code := Texts} = Values) ->
    maybe
        {ok, Measured} ?= measured(Values),
        {ok, #{options := Mode, report := Columns}} ?=
            dyno_cli_bench_mode:parse(Values, length(Texts)),
        {ok, Options} ?= options(Mode, Values),
        {ok, Format} ?= tagged(dyno_cli_value, format(Values)),
        {ok, Outputs} ?= tagged(dyno_cli_value, dyno_cli_value:outputs(maps:get(output, Values, []))),
        {ok, Baseline} ?= dyno_cli_baseline:parse(Values),
        ok = dyno_cli_interrupt:subscribe(),
        Shown =
            case Columns of
                none -> {format, Format};
                _ -> {columns, Columns}
            end,
        Measure = fun() -> monitored(Values, fun() -> execute(Measured, Options) end) end,
        case Measure() of
            {ok, Document} ->
                Show = fun(Judged) -> show(Judged, Shown, Outputs) end,
                dyno_cli_baseline:judge(Baseline, Document, Measure, Show);
            {error, Status} ->
                Status
        end
    else
        {error, Module, Reason} ->
            dyno_cli_terminal:complain(Module:format_error(Reason)),
            2;
        {error, Sentence} ->
            dyno_cli_terminal:complain(Sentence),
            2
    end.

%% No code ends like a file's name: it would be a call of erl without arguments.
-spec measured(argparse:arg_map()) -> {ok, measured()} | {error, unicode:chardata()}.
measured(#{code := Texts} = Values) ->
    case {[T || T <- Texts, filename:extension(T) =:= ~".erl"], Texts} of
        {[], _} ->
            case codes(Texts, Values) of
                {ok, Codes} -> {ok, {codes, Codes}};
                {error, _} = Error -> Error
            end;
        {[File], [File]} ->
            Given = [atom_to_list(Name) || Name <- [input | ?PARTS] ++ ?PARTS_OF_ALL, is_map_key(Name, Values)],
            case Given of
                [] -> {ok, {file, File}};
                [Name | _] -> {error, ["--", Name, " can't be given with a file, which has its own"]}
            end;
        {[File | _], _} ->
            {error, ["a file of benchmarks is measured alone; give ", File, " without other codes"]}
    end.

-spec tagged(module(), {ok, Value} | {error, Reason}) -> {ok, Value} | {error, module(), Reason}.
tagged(_Module, {ok, Value}) -> {ok, Value};
tagged(Module, {error, Reason}) -> {error, Module, Reason}.

-spec format(argparse:arg_map()) ->
    {ok, dyno_report:format()} | {error, dyno_cli_value:reason()}.
format(#{format := Text}) -> dyno_cli_value:choice(~"--format", Text, dyno_report:formats());
format(_) -> {ok, console}.

-spec options(dyno_bench:options(), argparse:arg_map()) ->
    {ok, dyno_bench:options()} | {error, unicode:chardata()} | {error, module(), term()}.
options(Mode, Values) ->
    Paths = [unicode:characters_to_list(P) || P <- maps:get(pa, Values, [])],
    maybe
        ok ?= folders(Paths),
        {ok, Budget} ?= budget(Values),
        {ok, Inputs} ?= inputs(maps:get(input, Values, []), []),
        {ok, maps:merge(Budget, Mode#{code_paths => Paths, inputs => Inputs})}
    end.

%% A folder that is not there would show as a function that is not.
-spec folders([string()]) -> ok | {error, unicode:chardata()}.
folders(Paths) ->
    case [Path || Path <- Paths, not filelib:is_dir(Path)] of
        [] -> ok;
        [Path | _] -> {error, ["-pa is \"", Path, "\", which is no folder; give one that is there"]}
    end.

-spec inputs([binary()], [dyno_bench_inputs:input()]) ->
    {ok, [dyno_bench_inputs:input()]} | {error, unicode:chardata()}.
inputs([], Inputs) ->
    {ok, lists:reverse(Inputs)};
inputs([Text | Rest], Inputs) ->
    case binary:split(Text, ~"=") of
        [Name, Code] when Name =/= <<>>, Code =/= <<>> ->
            inputs(Rest, [{string:trim(Name), callable(input, ended(Code))} | Inputs]);
        _ ->
            {error, ["--input is \"", Text, "\"; NAME=CODE is accepted, such as n=100"]}
    end.

%% An input is an expression: whether its full stop is there can't mean anything.
-spec ended(binary()) -> binary().
ended(Code) ->
    Trimmed = string:trim(Code),
    case binary:last(<<$., Trimmed/binary>>) of
        $. -> Trimmed;
        _ -> <<Trimmed/binary, ".">>
    end.

-spec budget(argparse:arg_map()) -> {ok, dyno_bench:options()} | {error, module(), term()}.
budget(#{time := Text}) ->
    case dyno_cli_value:duration_ms(~"--time", Text) of
        {ok, Ms} -> {ok, #{budget_ms => Ms}};
        {error, Reason} -> {error, dyno_cli_value, Reason}
    end;
budget(_) ->
    {ok, #{}}.

-spec codes([binary()], argparse:arg_map()) ->
    {ok, [dyno_bench_code:code()]} | {error, unicode:chardata()}.
codes(Texts, Values) ->
    Given = [{Name, maps:get(Name, Values, [])} || Name <- ?PARTS],
    case [{Name, length(Parts)} || {Name, Parts} <- Given, length(Parts) > length(Texts)] of
        [{Name, N} | _] ->
            {error,
                io_lib:format("--~ts is given ~b times, but there are only ~b codes", [
                    Name, N, length(Texts)
                ])};
        [] ->
            {ok, [code(Text, N, Given, Values) || {N, Text} <- lists:enumerate(Texts)]}
    end.

-spec code(binary(), pos_integer(), [{atom(), [binary()]}], argparse:arg_map()) ->
    dyno_bench_code:code().
code(Text, N, Given, Values) ->
    Own = [
        {Name, callable(Name, lists:nth(N, Parts))}
     || {Name, Parts} <- Given, length(Parts) >= N
    ],
    All = [
        {Name, callable(Name, map_get(all_of(Name), Values))}
     || Name <- ?PARTS, is_map_key(all_of(Name), Values)
    ],
    maps:merge(maps:from_list(All), maps:from_list([{runner, callable(runner, Text)} | Own])).

%% {Module, Function, Arguments} and a list of those are terms; everything else is source.
-spec callable(atom(), binary()) -> dyno_bench_code:callable().
callable(label, Text) ->
    Text;
callable(_Name, Text) ->
    Trimmed = string:trim(Text),
    case Trimmed of
        <<First, _/binary>> when First =:= ${; First =:= $[ ->
            case string:slice(Trimmed, string:length(Trimmed) - 1) of
                ~"." -> Text;
                _ -> term(Trimmed)
            end;
        _ ->
            Text
    end.

-spec term(binary()) -> dyno_bench_code:callable().
term(Text) ->
    maybe
        {ok, Tokens, _} ?= erl_scan:string(unicode:characters_to_list(Text) ++ "."),
        {ok, Term} ?= erl_parse:parse_term(Tokens),
        Term
    else
        _ -> Text
    end.

-spec monitored(argparse:arg_map(), fun(() -> Result)) -> Result.
monitored(#{verbose := true}, Execute) ->
    Monitor = dyno_cli_monitor:start_link(),
    try
        Execute()
    after
        dyno_cli_monitor:stop(Monitor)
    end;
monitored(_Values, Execute) ->
    Execute().

-spec execute(measured(), dyno_bench:options()) ->
    {ok, dyno_recording:document()} | {error, dyno_cli_command:exit_status()}.
execute(Measured, Options) ->
    Self = self(),
    {Runner, Monitor} = spawn_monitor(fun() ->
        %% What a code prints must not get into a report on standard output.
        group_leader(whereis(standard_error), self()),
        Self ! {finished, self(), measure(Measured, Options)}
    end),
    case await(Runner, Monitor) of
        {ok, Document} ->
            {ok, Document};
        {error, Reason} = Error ->
            dyno_cli_terminal:complain(dyno_bench:format_error(Reason)),
            {error, dyno_bench:exit_status(Error)}
    end.

-spec measure(measured(), dyno_bench:options()) ->
    {ok, dyno_recording:document()} | {error, dyno_bench:reason()}.
measure({codes, Codes}, Options) -> dyno_bench:run(Codes, Options);
measure({file, File}, Options) -> dyno_bench:run_file(File, Options).

-spec show(
    dyno_recording:document(),
    {format, dyno_report:format()} | {columns, dyno_report_columns:kind()},
    [dyno_cli_value:output()]
) -> dyno_cli_command:exit_status().
show(Document, {format, Format}, Outputs) ->
    dyno_cli_output:deliver(Document, Format, Outputs);
show(Document, {columns, Kind}, Outputs) ->
    Status = dyno_cli_output:deliver(Document, none, Outputs),
    {ok, Table} = dyno_report_columns:format(Kind, Document, dyno_cli_terminal:look()),
    dyno_cli_terminal:print(Table),
    %% The table has no place for them.
    lists:foreach(
        fun(#{~"text" := Text}) -> dyno_cli_terminal:note(["dyno: warning: ", Text]) end,
        dyno_report_document:get(~"warnings", Document, [])
    ),
    Status.

-spec await(pid(), reference()) ->
    {ok, dyno_recording:document()} | {error, dyno_bench:reason()}.
await(Runner, Monitor) ->
    receive
        dyno_interrupt ->
            ok = dyno_bench:interrupt(Runner),
            await(Runner, Monitor);
        {finished, Runner, Result} ->
            true = erlang:demonitor(Monitor, [flush]),
            Result;
        {'DOWN', Monitor, process, Runner, Reason} ->
            {error, {crashed, Reason}}
    end.
