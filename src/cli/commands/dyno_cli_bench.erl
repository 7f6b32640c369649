%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_cli_bench).
-moduledoc """
`dyno bench`: measures codes and says which is faster, by how much, and how sure that is.
""".

-behaviour(dyno_cli_command).

-import(dyno_cli_command, [option/3, repeated/3]).

-export([spec/0, groups/0, examples/0, run/1]).

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
                        "each an Erlang expression, a fun of arity 0, 1 or 2, or {Module, "
                        "Function, [Argument]}; or a file of calls (FILE.calls); or one FILE.erl "
                        "with benchmarks/0"
                    ]}
            },
            option(
                time,
                "--time TIME",
                "the longest to measure: 500ms, 5s, 1min; it ends when the question is answered "
                "(default: 1s for each code, with -i 30s)"
            ),
            option(
                timeout,
                "--timeout TIME",
                "the longest that one part of a code may take (default: 30s, with --loop 5min)"
            ),
            part(
                init,
                "runs once before; its value goes to init_runner and done. Of these four options "
                "the n-th one given is the n-th code's"
            ),
            part(init_runner, "runs once in each process; its value is the code's argument"),
            part(done, "runs once after the last measurement"),
            (part(label, "the name of the code in the report"))#{
                help => {"--label NAME", ["the name of the code in the report"]}
            },
            repeated(
                input,
                "--input NAME=CODE",
                "what functions of arity 1 are called with; more than once to compare by input"
            ),
            #{
                name => elixir,
                long => "-elixir",
                type => boolean,
                required => false,
                help =>
                    {"--elixir", [
                        "all code is Elixir: an expression, or fn x -> ... end; needs Elixir here"
                    ]}
            },
            for_all(init),
            for_all(init_runner),
            for_all(done),
            %% One dash, as the emulator and erlperf have it.
            (repeated(
                pa, "-pa FOLDER", "a folder for the code path; may be given more than once"
            ))#{long => "pa"}
            | dyno_cli_output:arguments(" (default: console)", "may be given more than once") ++
                dyno_cli_bench_mode:arguments() ++ dyno_cli_bench_where:arguments() ++
                dyno_cli_bench_baseline:arguments()
        ]
    }.

-spec part(atom(), string()) -> argparse:argument().
part(Name, Text) ->
    repeated(Name, "--" ++ atom_to_list(Name) ++ " CODE", Text).

-spec for_all(atom()) -> argparse:argument().
for_all(Name) ->
    OfAll = all_of(Name),
    option(
        OfAll,
        "--" ++ atom_to_list(OfAll) ++ " CODE",
        "as --" ++ atom_to_list(Name) ++ ", for all codes that have none of their own"
    ).

-spec all_of(atom()) -> atom().
all_of(init) -> init_all;
all_of(init_runner) -> init_runner_all;
all_of(done) -> done_all;
all_of(label) -> label_all.

-doc "Its options by what they are about.".
-spec groups() -> [dyno_cli_command:group()].
groups() ->
    [
        {"What runs around a code", ?PARTS ++ ?PARTS_OF_ALL},
        {"What is measured, and what decides", [concurrency, threshold, metric, whole, profile]},
        {"Reports and gates", [output, format, verbose, baseline, fail_if]},
        {"Where codes run", dyno_cli_bench_where:names()},
        {"erlperf's samples, columns and squeeze", dyno_cli_bench_mode:names()}
    ].

-doc "Its uses.".
-spec examples() -> [dyno_cli_command:example()].
examples() ->
    [
        {~"dyno bench 'rand:uniform()' 'crypto:strong_rand_bytes(2)'", ~"compares two codes"},
        {~"dyno bench 'r(L) -> lists:sort(L)' --init_runner 'lists:seq(1, 100)'",
            ~"gives a code an argument that is made once"},
        {~"dyno bench 'r(N) -> lists:seq(1, N)' --input 10=10 --input 1000=1000",
            ~"calls a code with several inputs, and says how it grows"},
        {~"dyno bench 'lists:seq(1, 9)' --metric words -o main.json",
            ~"counts the words it allocates, exactly, and keeps the recording"},
        {~"dyno bench 'lists:seq(1, 9)' --baseline main.json --fail-if 'words > 0.1%'",
            ~"fails where it allocates more than it did, on any machine"},
        {~"dyno bench 'gen_server:call(kernel_sup, which_children)' --whole",
            ~"shows what other processes do for the code"},
        {~"dyno bench 'lists:sort([3, 1, 2])' --profile",
            ~"shows which functions take the time"},
        {~"dyno bench --elixir 'Enum.sort([3, 1, 2])' ':lists.sort([3, 1, 2])'",
            ~"compares Elixir source"},
        {~"dyno bench examples/sorting_bench.erl", ~"runs the comparisons of a file"},
        {~"dyno bench 'ets:lookup(t, 1)' --init 'ets:new(t, [named_table, public])' -c 2",
            ~"runs a code in two processes at once"},
        {~"dyno bench 'shop:total()' --rev v1.2..main",
            ~"builds two revisions of the project and compares them"},
        {~"dyno bench 'shop:total()' --rev main --metric words --fail-if 'worse > 0.1%'",
            ~"fails a build where the working tree's code allocates more than main's"},
        {~"dyno bench 'lists:seq(1, 100)' --erl-flags '' --erl-flags '+JPperf true'",
            ~"compares emulator flags, each in VMs of its own"},
        {~"dyno bench 'pg:which_groups()' --node a@host --node b@host --time 1min",
            ~"runs a code in two nodes at once, with a line each second"},
        {~"dyno bench 'rand:uniform()' -q", ~"finds how many processes give the most"},
        {~"dyno bench 'rand:uniform()' -d 100 -s 20 -r extended", ~"erlperf's samples and columns"}
    ].

-doc "Measures, and shows.".
-spec run(argparse:arg_map()) -> dyno_cli_command:exit_status().
run(Values) ->
    case dyno_cli_bench_where:cluster(Values) of
        {ok, none} ->
            measure_and_show(Values);
        {ok, Nodes} ->
            watch(Nodes, Values);
        {error, _} = Error ->
            dyno_cli_command:refused(Error)
    end.

%% One code, in several nodes.
-spec watch(map(), argparse:arg_map()) -> dyno_cli_command:exit_status().
watch(Nodes, #{code := Texts} = Values) ->
    maybe
        {one, {ok, {codes, [Code]}}} ?= {one, measured(Values)},
        Unshown = maps:without([report], Values),
        {ok, #{options := Mode}} ?= dyno_cli_bench_mode:parse(Unshown, length(Texts)),
        {ok, Budget} ?= duration(time, duration_ms, Values),
        {ok, Format} ?= dyno_cli_value:tagged(dyno_cli_value, format(Values)),
        {ok, Outputs} ?= outputs(Values),
        ok = dyno_cli_interrupt:subscribe(),
        Settings = maps:merge(
            #{concurrency => 1, duration_ms => 10_000},
            maps:merge(Nodes, maps:merge(Budget, maps:with([concurrency], Mode)))
        ),
        dyno_cli_bench_cluster:run(Settings#{code => Code}, fun(Document) ->
            show(Document, {format, Format}, Outputs)
        end)
    else
        {one, {ok, _}} ->
            Sentence = "nodes are watched with one code; give one, and no file",
            dyno_cli_command:refused({error, Sentence});
        {one, Error} ->
            dyno_cli_command:refused(Error);
        Error ->
            dyno_cli_command:refused(Error)
    end.

-spec measure_and_show(argparse:arg_map()) -> dyno_cli_command:exit_status().
measure_and_show(#{code := Texts} = Values) ->
    maybe
        {ok, Measured} ?= measured(Values),
        {ok, #{options := Mode, report := Columns}} ?=
            dyno_cli_bench_mode:parse(Values, length(Texts)),
        {ok, Options} ?= options(Mode, Values),
        {ok, Format} ?= dyno_cli_value:tagged(dyno_cli_value, format(Values)),
        {ok, Outputs} ?= outputs(Values),
        ok ?= stacks([Format | [Of || {Of, _} <- Outputs]], Values),
        {ok, Baseline} ?= dyno_cli_bench_baseline:parse(Values),
        ok = dyno_cli_interrupt:subscribe(),
        Shown =
            case Columns of
                none -> {format, Format};
                _ -> {columns, Columns}
            end,
        ok = verbose(Values, Measured, Options),
        Measure = fun() -> monitored(Values, fun() -> execute(Measured, Options) end) end,
        case Measure() of
            {ok, Document} ->
                Show = fun(Judged) -> show(Judged, Shown, Outputs) end,
                dyno_cli_bench_baseline:judge(Baseline, Document, Measure, Show);
            {error, Status} ->
                Status
        end
    else
        Error -> dyno_cli_command:refused(Error)
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
            Given = [
                atom_to_list(Name)
             || Name <- [input, elixir | ?PARTS] ++ ?PARTS_OF_ALL, is_map_key(Name, Values)
            ],
            case Given of
                [] -> {ok, {file, File}};
                [Name | _] ->
                    {error, ["--", Name, " can't be given with a file, which has its own"]}
            end;
        {[File | _], _} ->
            {error, ["a file of benchmarks is measured alone; give ", File, " without other codes"]}
    end.

-spec outputs(argparse:arg_map()) ->
    {ok, [dyno_cli_value:output()]} | {error, module(), dyno_cli_value:reason()}.
outputs(Values) ->
    Files = maps:get(output, Values, []),
    dyno_cli_value:tagged(dyno_cli_value, dyno_cli_value:outputs(Files)).

-spec format(argparse:arg_map()) ->
    {ok, dyno_report:format()} | {error, dyno_cli_value:reason()}.
format(#{format := Text}) -> dyno_cli_value:choice(~"--format", Text, dyno_report:formats());
format(_) -> {ok, console}.

%% Rather than after the measurement.
-spec stacks([dyno_report:format()], argparse:arg_map()) -> ok | {error, unicode:chardata()}.
stacks(Formats, Values) ->
    case lists:member(folded, Formats) andalso not is_map_key(profile, Values) of
        true -> {error, "folded stacks come from --profile, which is not given"};
        false -> ok
    end.

-spec options(dyno_bench:options(), argparse:arg_map()) ->
    {ok, dyno_bench:options()} | {error, unicode:chardata()} | {error, module(), term()}.
options(Mode, Values) ->
    Paths = [unicode:characters_to_list(P) || P <- maps:get(pa, Values, [])],
    maybe
        ok ?= folders(Paths),
        {ok, Budget} ?= duration(time, budget_ms, Values),
        {ok, Timeout} ?= duration(timeout, timeout_ms, Values),
        {ok, Inputs} ?= inputs(maps:get(input, Values, []), language(Values), []),
        {ok, Where} ?= dyno_cli_bench_where:parse(Values),
        Given = lists:foldl(fun maps:merge/2, Mode, [Timeout, Budget, Where]),
        {ok, Given#{code_paths => Paths, inputs => Inputs}}
    end.

%% A folder that is not there would show as a function that is not.
-spec folders([string()]) -> ok | {error, unicode:chardata()}.
folders(Paths) ->
    case [Path || Path <- Paths, not filelib:is_dir(Path)] of
        [] -> ok;
        [Path | _] -> {error, ["-pa is \"", Path, "\", which is no folder; give one that is there"]}
    end.

-spec inputs([binary()], erlang | elixir, [dyno_bench_inputs:input()]) ->
    {ok, [dyno_bench_inputs:input()]} | {error, unicode:chardata()}.
inputs([], _Language, Inputs) ->
    {ok, lists:reverse(Inputs)};
inputs([Text | Rest], Language, Inputs) ->
    case binary:split(Text, ~"=") of
        [Name, Code] when Name =/= <<>>, Code =/= <<>> ->
            inputs(Rest, Language, [{string:trim(Name), callable(input, Code, Language)} | Inputs]);
        _ ->
            {error, ["--input is \"", Text, "\"; NAME=CODE is accepted, such as n=100"]}
    end.

-spec duration(atom(), atom(), argparse:arg_map()) ->
    {ok, dyno_bench:options()} | {error, module(), term()}.
duration(Option, Key, Values) ->
    case Values of
        #{Option := Text} ->
            case dyno_cli_value:duration_ms(<<"--", (atom_to_binary(Option))/binary>>, Text) of
                {ok, Ms} -> {ok, #{Key => Ms}};
                {error, Reason} -> {error, dyno_cli_value, Reason}
            end;
        #{} ->
            {ok, #{}}
    end.

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
        [] when is_map_key(label, Values), length(map_get(label, Values)) < length(Texts) ->
            {error,
                io_lib:format("--label is given ~b times for ~b codes; name all of them, or none", [
                    length(map_get(label, Values)), length(Texts)
                ])};
        [] ->
            recorded([code(Text, N, Given, Values) || {N, Text} <- lists:enumerate(Texts)], [])
    end.

%% What is no code, but a file's name, is one of recorded calls.
-spec recorded([dyno_bench_code:code()], [dyno_bench_code:code()]) ->
    {ok, [dyno_bench_code:code()]} | {error, unicode:chardata()}.
recorded([], Codes) ->
    {ok, lists:reverse(Codes)};
recorded([#{runner := Text} = Code | Rest], Codes) ->
    case is_binary(Text) andalso not is_source(Text) andalso filelib:is_regular(Text) of
        true ->
            case dyno_bench_calls:read(Text) of
                {ok, Calls} ->
                    Label = #{label => unicode:characters_to_binary(filename:basename(Text))},
                    recorded(Rest, [maps:merge(Label, Code#{runner := Calls}) | Codes]);
                {error, Error} ->
                    {error, dyno_error:format(Error)}
            end;
        false ->
            case is_binary(Text) andalso is_file_name(Text) of
                true ->
                    {error, [
                        "there is no file \"", dyno_report_text:clean(Text),
                        "\"; give one of recorded calls, or Erlang source"
                    ]};
                false ->
                    recorded(Rest, [Code | Codes])
            end
    end.

%% Erlang has no code like it.
-spec is_file_name(binary()) -> boolean().
is_file_name(Text) ->
    Pattern = ~"^([\\w./~+-]*\\w\\.[a-z]\\w*|(/|\\./|\\.\\./|~/)[\\w./+-]+)$",
    re:run(string:trim(Text), Pattern, [unicode, {capture, none}]) =:= match.

-spec is_source(binary()) -> boolean().
is_source(Text) ->
    case string:trim(Text) of
        <<>> -> true;
        Trimmed -> binary:last(Trimmed) =:= $.
    end.

-spec code(binary(), pos_integer(), [{atom(), [binary()]}], argparse:arg_map()) ->
    dyno_bench_code:code().
code(Text, N, Given, Values) ->
    Language = language(Values),
    Own = [
        {Name, callable(Name, lists:nth(N, Parts), Language)}
     || {Name, Parts} <- Given, length(Parts) >= N
    ],
    All = [
        {Name, callable(Name, map_get(all_of(Name), Values), Language)}
     || Name <- ?PARTS, is_map_key(all_of(Name), Values)
    ],
    Parts = [{runner, callable(runner, Text, Language)} | Own],
    maps:merge(maps:from_list(All), maps:from_list(Parts)).

%% {Module, Function, Arguments} and a list of those are terms; everything else is source.
-spec callable(atom(), binary(), erlang | elixir) -> dyno_bench_code:callable().
callable(label, Text, _Language) ->
    Text;
callable(_Name, Text, elixir) ->
    {elixir, Text};
callable(input, Text, erlang) ->
    %% A value: no input is called.
    Text;
callable(Name, Text, erlang) ->
    Trimmed = string:trim(Text),
    case Trimmed of
        <<First, _/binary>> when First =:= ${; First =:= $[ -> calls(Name, Text, term(Trimmed));
        _ -> Text
    end.

%% A tuple that is no call is one that was meant to be, where nothing but a call makes sense.
-spec calls(atom(), binary(), {ok, term()} | none) -> dyno_bench_code:callable().
calls(_Name, _Text, {ok, {M, F, A} = Call}) when is_atom(M), is_atom(F), is_list(A) ->
    Call;
calls(_Name, Text, {ok, [_ | _] = Terms}) ->
    case lists:all(fun(Term) -> is_tuple(Term) andalso tuple_size(Term) =:= 3 end, Terms) of
        true -> Terms;
        false -> Text
    end;
calls(runner, _Text, {ok, Tuple}) when is_tuple(Tuple) ->
    Tuple;
calls(_Name, Text, _) ->
    Text.

-spec language(argparse:arg_map()) -> erlang | elixir.
language(#{elixir := true}) -> elixir;
language(_) -> erlang.

%% With a full stop it is an expression.
-spec term(binary()) -> {ok, term()} | none.
term(Text) ->
    maybe
        {ok, Tokens, _} ?= erl_scan:string(unicode:characters_to_list(Text)),
        false ?= lists:keymember(dot, 1, Tokens),
        {ok, Term} ?= erl_parse:parse_term(Tokens ++ [{dot, 1}]),
        {ok, Term}
    else
        _ -> none
    end.

-spec verbose(argparse:arg_map(), measured(), dyno_bench:options()) -> ok.
verbose(#{verbose := true}, {codes, Codes}, Options) ->
    lists:foreach(fun dyno_cli_terminal:note/1, dyno_cli_bench_source:lines(Codes, Options));
verbose(_Values, _Measured, _Options) ->
    ok.

-spec monitored(argparse:arg_map(), fun(() -> Result)) -> Result.
monitored(#{verbose := true} = Values, Execute) when
    %% In those cases nothing runs in this VM.
    not is_map_key(node, Values),
    not is_map_key(isolated, Values),
    not is_map_key(vms, Values),
    not is_map_key(rev, Values)
->
    Monitor = dyno_cli_bench_monitor:start_link(),
    try
        Execute()
    after
        dyno_cli_bench_monitor:stop(Monitor)
    end;
monitored(_Values, Execute) ->
    Execute().

-spec execute(measured(), dyno_bench:options()) ->
    {ok, dyno_recording:document()} | {error, dyno_cli_command:exit_status()}.
execute(Measured, Options) ->
    Self = self(),
    {Runner, Monitor} = spawn_monitor(fun() ->
        %% What a code prints must not get into a report on standard output.
        _ = [group_leader(Pid, self()) || Pid <- [whereis(standard_error)], is_pid(Pid)],
        Self ! {finished, self(), measure(Measured, reporting(Self, Options))}
    end),
    {Result, Shown} = await(Runner, Monitor, dyno_cli_progress:new(progress_mode())),
    _ = dyno_cli_progress:clear(Shown),
    case Result of
        {ok, Document} ->
            {ok, Document};
        {error, Error} ->
            dyno_cli_terminal:complain(dyno_error:format(Error)),
            {error, dyno_error:exit_status(Error)}
    end.

-spec measure(measured(), dyno_bench:options()) ->
    {ok, dyno_recording:document()} | {error, dyno_error:error()}.
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
    Delivered = dyno_cli_output:deliver(Document, none, Outputs),
    {ok, Table} = dyno_report_columns:format(Kind, Document, dyno_cli_terminal:look()),
    Printed = dyno_cli_terminal:print(Table),
    %% The table has no place for them.
    lists:foreach(
        fun(#{~"text" := Text}) -> dyno_cli_terminal:note(["dyno: warning: ", Text]) end,
        dyno_report_document:get(~"warnings", Document, [])
    ),
    max(Delivered, Printed).

%% What takes long tells how far it is.
-spec reporting(pid(), dyno_bench:options()) -> dyno_bench:options().
reporting(Cli, #{isolated := Isolated} = Options) ->
    Group = fun(Number, Of) ->
        Cli !
            {progress, #{
                phase => measuring,
                text => ~"in fresh VMs",
                run => integer_to_binary(Number),
                runs_done => Number - 1,
                runs_total => Of
            }}
    end,
    Build = fun(Revision) ->
        Cli ! {progress, #{phase => building, text => [~"building ", Revision], run => Revision}}
    end,
    With = Options#{isolated := Isolated#{progress => Group}},
    case With of
        #{revisions := Revisions} -> With#{revisions := Revisions#{progress => Build}};
        #{} -> With
    end;
reporting(_Cli, Options) ->
    Options.

-spec progress_mode() -> dyno_cli_progress:mode().
progress_mode() ->
    case dyno_cli_terminal:is_terminal(standard_error) of
        true -> redrawn;
        false -> warnings
    end.

-spec await(pid(), reference(), dyno_cli_progress:t()) ->
    {{ok, dyno_recording:document()} | {error, dyno_error:error()}, dyno_cli_progress:t()}.
await(Runner, Monitor, Progress) ->
    receive
        dyno_interrupt ->
            ok = dyno_bench:interrupt(Runner),
            await(Runner, Monitor, Progress);
        {progress, Event} ->
            await(Runner, Monitor, dyno_cli_progress:show(Event, Progress));
        {finished, Runner, Result} ->
            true = erlang:demonitor(Monitor, [flush]),
            {Result, Progress};
        {'DOWN', Monitor, process, Runner, Reason} ->
            {{error, {dyno_bench, {crashed, Reason}}}, Progress}
    end.
