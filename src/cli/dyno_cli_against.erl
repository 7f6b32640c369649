%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_cli_against).
-moduledoc false.
%% `dyno test --against REV`: runs a suite with the code of two revisions in turn, and compares them
%% by pairs of runs.
%%
%% Two recordings made minutes apart differ by the machine's drift, too. The two runs of a pair
%% follow each other, in an order that changes from pair to pair. Each run is a test of its own in
%% the revision's folder; afterwards this node forgets the revision's code.

-export([options/0, check/1, run/3]).

-define(PAIRS, 5).
-define(SEEDS, 1_000_000_000).

-spec options() -> [dyno_cli_option:row()].
options() ->
    [
        {"--against REV",
            "builds this git revision and the current files, and runs the suite with each in turn, "
            "--repeat times (default: 5): the code must not be slower now; or REV1..REV2"},
        {"--build COMMAND",
            "with --against: the build command, such as 'make app' (default: by the project's "
            "files)"}
    ].

-spec check(dyno_cli_command:values()) -> dyno_error:result().
check(#{build := _} = Values) when not is_map_key(against, Values) ->
    dyno_cli_command:contradiction(
        "--build says how revisions are built, but there is no --against; give both or none"
    );
check(#{against := _} = Values) ->
    Contradicting = [
        {baseline, "--baseline", "a revision is measured now; leave one of them out"},
        {thresholds, "--threshold", "only --fail-if judges both revisions; leave one of them out"},
        {objective, "--search", "a search finds one rate for each run; leave one of them out"}
    ],
    case [{Option, Why} || {Key, Option, Why} <- Contradicting, is_map_key(Key, Values)] of
        [] ->
            ok;
        [{Option, Why} | _] ->
            dyno_cli_command:contradiction(
                ["--against and ", Option, " contradict each other: ", Why]
            )
    end;
check(_Values) ->
    ok.

-doc "The later revision's recording, compared and judged; the first run that is not complete.".
-spec run(Suite :: string(), dyno_test:options(), dyno_cli_command:values()) ->
    dyno_error:result(dyno_recording:document()).
run(Suite, Options, #{against := Text} = Values) ->
    {ok, Here} = file:get_cwd(),
    maybe
        {ok, Revisions} ?= dyno_bench_revision:parse([Text]),
        Settings = (maps:with([build], Values))#{
            revisions => Revisions, progress => building(Options)
        },
        {ok, #{variants := [Old, New]} = Built} ?= dyno_bench_revision:open(Settings, #{}),
        try
            measured(pairs({Old, New}, given(Suite, Options)), Values)
        after
            ok = file:set_cwd(Here),
            ok = dyno_bench_revision:close(Built)
        end
    end.

building(#{progress := Report}) ->
    fun(Revision) ->
        Report(#{phase => building, text => [~"building ", Revision], run => Revision})
    end.

%% A suite's file is the same for both; its module, if named, is each revision's own.
given(Suite, Options) ->
    Absolute =
        case filelib:is_regular(Suite) of
            true -> filename:absname(Suite);
            false -> Suite
        end,
    #{
        suite => Absolute,
        options => Options#{repeat => 1, thresholds => []},
        pairs => maps:get(repeat, Options, ?PAIRS),
        seed => maps:get(seed, Options, rand:uniform(?SEEDS))
    }.

pairs(Variants, #{pairs := Pairs} = Test) ->
    dyno_error:each(fun(N) -> pair(N, Variants, Test) end, lists:seq(1, Pairs)).

pair(N, {Old, New}, Test) when N rem 2 =:= 1 ->
    maybe
        {ok, First} ?= one(2 * N - 1, Old, Test),
        {ok, Second} ?= one(2 * N, New, Test),
        {ok, {First, Second}}
    end;
pair(N, {Old, New}, Test) ->
    maybe
        {ok, Second} ?= one(2 * N - 1, New, Test),
        {ok, First} ?= one(2 * N, Old, Test),
        {ok, {First, Second}}
    end.

one(Number, #{label := Label, code_paths := Paths, folder := Folder}, Test) ->
    #{suite := Suite, options := Options, pairs := Pairs, seed := Seed} = Test,
    ok = file:set_cwd(Folder),
    Tested = dyno_test:run(Suite, Options#{
        code_paths => Paths ++ maps:get(code_paths, Options, []),
        seed => Seed + (Number - 1) div 2,
        progress => progress(Number, 2 * Pairs, Label, Options)
    }),
    ok = forget(Folder),
    case Tested of
        {ok, #{~"status" := ~"complete"} = Document} -> {ok, Document};
        {ok, Document} -> {error, {ended, Document}};
        {error, _} = Error -> Error
    end.

progress(Number, Of, Label, #{progress := Report}) ->
    fun(#{text := Text} = Event) ->
        Report((maps:without([elapsed_ms, remaining_ms], Event))#{
            text := [Label, ": ", Text], runs_done := Number - 1, runs_total := Of
        })
    end.

%% The next revision's modules must be loaded in their place.
forget(Folder) ->
    Modules = [M || {M, File} <- code:all_loaded(), is_list(File), lists:prefix(Folder, File)],
    Of = [
        Application
     || {Application, _, _} <- application:loaded_applications(),
        {ok, Own} <- [application:get_key(Application, modules)],
        lists:any(fun(M) -> lists:member(M, Own) end, Modules)
    ],
    lists:foreach(
        fun(Application) ->
            _ = application:stop(Application),
            _ = application:unload(Application)
        end,
        Of
    ),
    dyno_code:unload(Modules).

measured({ok, Pairs}, Values) ->
    {Olds, News} = lists:unzip(Pairs),
    Old = dyno_test_recording:repeated(Olds),
    dyno_cli_baseline:against(Old, dyno_test_recording:repeated(News), Values);
measured({error, {ended, Document}}, _Values) ->
    {ok, Document};
measured({error, _} = Error, _Values) ->
    Error.
