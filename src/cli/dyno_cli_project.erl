%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_cli_project).
-moduledoc """
dyno inside a project: the command line, with suites and benchmarks found by location.

The plugins for rebar3 and Mix start it (`m:dyno_plugin_launch`). `test` without a suite runs all
found suites in sequence, `test NAME` runs the suite of that name; `bench` works the same.
""".

-export([main/0, plan/2]).
-export_type([settings/0]).

-type settings() :: #{
    %% Wildcards relative to the project's folder.
    suites => [string()],
    benchmarks => [string()],
    %% Arguments before the typed ones.
    test => [string()],
    bench => [string()],
    %% The text before a command's name in messages.
    program := string(),
    %% Of source files, if the wildcards are the defaults.
    extensions := [string()]
}.

-doc "Runs `DYNO_PROJECT`'s command with environment and arguments; never returns.".
-spec main() -> no_return().
main() ->
    [_ | _] = Encoded = os:getenv("DYNO_PROJECT"),
    true = os:unsetenv("DYNO_PROJECT"),
    Settings = binary_to_term(base64:decode(Encoded)),
    dyno_cli:main(fun() -> run(init:get_plain_arguments(), Settings) end).

run(Arguments, #{program := Program} = Settings) ->
    ok = dyno_cli_terminal:called_as(Program),
    ok = load_configured(),
    case plan(Arguments, Settings) of
        {ok, Lines} ->
            run_each(Lines, 0);
        {error, Sentence} ->
            dyno_cli_terminal:complain(Sentence),
            2
    end.

%% Loading an application takes its environment from -config, as in the build tool's shell.
load_configured() ->
    Files = [File ++ ".config" || {config, [File]} <- init:get_arguments()],
    Names = [Name || File <- Files, {ok, [Terms]} <- [file:consult(File)], {Name, _} <- Terms],
    lists:foreach(fun(Name) -> _ = application:load(Name) end, Names).

run_each([], Worst) ->
    Worst;
run_each([Line | Lines], Worst) ->
    case dyno_cli:run(Line) of
        130 -> 130;
        Status -> run_each(Lines, max(Status, Worst))
    end.

-doc "The command lines to run.".
-spec plan([string()], settings()) -> {ok, [[string()], ...]} | {error, iodata()}.
plan([Command | Typed] = Arguments, Settings) ->
    case {Command, dyno_cli:wants_help(Typed)} of
        {"test", none} ->
            fill(Command, Typed, Settings, found(suites, Settings));
        {"bench", none} ->
            fill(Command, in_its_language(Typed, Settings), Settings, found(benchmarks, Settings));
        {"new", none} ->
            {ok, [["new" | where_it_is_found(Typed, Settings)]]};
        _ ->
            {ok, [Arguments]}
    end;
plan([], _Settings) ->
    {ok, [[]]}.

%% Code typed in an Elixir project is Elixir.
in_its_language(Typed, #{extensions := [".exs" | _]}) ->
    case [Flag || Flag <- ["--elixir", "--erlang"], lists:member(Flag, Typed)] of
        [] -> ["--elixir" | Typed];
        [_ | _] -> Typed
    end;
in_its_language(Typed, _Settings) ->
    Typed.

where_it_is_found([Kind, [C | _] = Name | Options], #{extensions := Extensions}) when C =/= $- ->
    Placed =
        case {filename:dirname(Name), Kind, lists:suffix("_bench", Name)} of
            {".", "benchmark", false} -> "perf/" ++ Name ++ "_bench";
            {".", _, _} -> "perf/" ++ Name;
            _ -> Name
        end,
    Elixir = ["--elixir" || hd(Extensions) =:= ".exs"] -- Options,
    [Kind, Placed | Elixir ++ Options];
where_it_is_found(Typed, _Settings) ->
    Typed.

fill(Command, Typed, #{program := Program} = Settings, {Files, Wildcards}) ->
    Arguments = maps:get(list_to_atom(Command), Settings, []) ++ Typed,
    case {dyno_cli:operands([Command | Arguments]), Files} of
        {{ok, Operands}, _} ->
            {ok, [[Command | [suite_file(Argument, Operands, Files) || Argument <- Arguments]]]};
        {invalid, _} ->
            {ok, [[Command | Arguments]]};
        {missing, []} ->
            What = maps:get(Command, #{"test" => "suite", "bench" => "benchmark"}),
            {error, [
                ["there is nothing to ", Command, ": no file ", lists:join(" or ", Wildcards)],
                [" is a ", What, "; ", Program, "new ", What, " NAME writes one to start from"]
            ]};
        {missing, [_]} ->
            {ok, [[Command, File | Arguments] || File <- Files]};
        {missing, _} ->
            several(Command, Arguments, Files)
    end.

suite_file(Argument, Operands, Files) ->
    IsName = lists:member(Argument, Operands) andalso not filelib:is_file(Argument),
    Of = [F || F <- Files, IsName, filename:basename(filename:rootname(F)) =:= Argument],
    hd(Of ++ [Argument]).

%% Each would overwrite the previous file.
several(Command, Arguments, Files) ->
    case [A || A <- Arguments, lists:prefix("-o", A) orelse lists:prefix("--output", A)] of
        [] ->
            {ok, [[Command, File | Arguments] || File <- Files]};
        [Output | _] ->
            Format =
                "~ts names one file for the ~b files that were found; name one of them, "
                "such as ~ts",
            One = filename:basename(filename:rootname(hd(Files))),
            {error, io_lib:format(Format, [Output, length(Files), One])}
    end.

%% In default folders a file counts only if it declares itself.
found(Kind, #{extensions := Extensions} = Settings) ->
    Wildcards = maps:get(Kind, Settings, [Base ++ E || Base <- bases(Kind), E <- Extensions]),
    Files = lists:uniq(lists:append([filelib:wildcard(W) || W <- Wildcards])),
    {[F || F <- Files, is_map_key(Kind, Settings) orelse says_so(Kind, F)], Wildcards}.

says_so(Kind, File) ->
    case file:read_file(File) of
        {ok, Text} -> binary:match(Text, marks(Kind)) =/= nomatch;
        {error, _} -> false
    end.

bases(suites) -> ["perf/*", "test/*_perf"];
bases(benchmarks) -> ["perf/*_bench", "test/*_bench"].

marks(suites) -> [~"dyno_suite", ~"performerl_load_generator"];
marks(benchmarks) -> [~"dyno_bench_file"].
