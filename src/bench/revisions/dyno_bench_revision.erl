%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_revision).
-moduledoc false.
%% Builds revisions of the user's project to measure a code with each. Checks them out into a
%% temporary folder (`m:dyno_bench_checkout`) and copies dependencies that the working tree has
%% already fetched, so that a build without a network can succeed.

-export([parse/1, open/2, close/1, format_error/1, fault/1]).
-export_type([revision/0, settings/0, built/0, reason/0]).

-doc "A revision in git's syntax, or the files as they are.".
-type revision() :: {revision, binary()} | working_tree.

-type settings() :: #{
    revisions => [revision(), ...],
    %% A shell command that builds the project.
    build => string() | binary(),
    %% Limit of a build. Default: half an hour.
    timeout_ms => pos_integer(),
    %% Called with a revision's name before its build.
    progress => fun((binary()) -> term())
}.

-doc "The variants for m:dyno_bench_isolated, and their folder.".
-type built() :: #{
    folder := file:filename(), cleaner := pid(), variants := [dyno_bench_isolated:variant(), ...]
}.

-type reason() ::
    {revisions, binary()}
    | no_git
    | {no_repository, file:filename()}
    | {unknown_revision, binary()}
    | {same_revisions, binary(), binary()}
    | {no_build, file:filename()}
    | {no_program, binary(), string()}
    | {build, Label :: binary(), Command :: binary(), Ended :: term(), Lines :: [binary()]}
    | {nothing_built, Label :: binary(), Command :: binary()}.

-define(BUILD_MS, 1_800_000).
-define(WORKING_TREE, ~"working tree").

-doc """
Parses `A..B`, or `A` alone, which is compared with the working tree. As in git, a missing end is
`HEAD`.

```erlang
1> dyno_bench_revision:parse([~"v1..v2"]).
{ok,[{revision,<<"v1">>},{revision,<<"v2">>}]}
2> dyno_bench_revision:parse([~"main"]).
{ok,[{revision,<<"main">>},working_tree]}
```
""".
-spec parse([binary()]) -> dyno_error:result([revision(), ...]).
parse(Texts) ->
    Parsed = [ends(Text) || Text <- Texts],
    case {lists:member(error, Parsed), lists:append([Ends || Ends <- Parsed, is_list(Ends)])} of
        {false, [One]} -> {ok, [One, working_tree]};
        {false, [_, _ | _] = Several} -> {ok, Several};
        _ -> {error, {?MODULE, {revisions, iolist_to_binary(lists:join(" ", Texts))}}}
    end.

ends(Text) ->
    Trimmed = string:trim(Text),
    case {Trimmed, binary:match(Trimmed, ~"..."), binary:split(Trimmed, ~"..")} of
        {<<>>, _, _} -> error;
        {<<"-", _/binary>>, _, _} -> error;
        {_, {_, _}, _} -> error;
        {_, nomatch, [~"", ~""]} -> error;
        {_, nomatch, [From, To]} -> [{revision, or_head(From)}, {revision, or_head(To)}];
        {_, nomatch, [One]} -> [{revision, One}]
    end.

or_head(~"") -> ~"HEAD";
or_head(Revision) -> Revision.

-doc "Builds revisions of the project here; the benchmark's options are the settings' defaults.".
-spec open(settings(), Options :: #{atom() => term()}) -> dyno_error:result(built()).
open(Settings, Others) ->
    Options = maps:merge(Others, Settings),
    Accepted = ~"a list of revisions, a result of dyno_bench_revision:parse/1,",
    IsList = fun(Revisions) -> is_list(Revisions) andalso Revisions =/= [] end,
    maybe
        ok ?= dyno_option:known([revisions, build, timeout_ms, progress], Settings),
        Revisions = maps:get(revisions, Settings, []),
        ok ?= dyno_option:check([{revisions, IsList, Accepted}], #{revisions => Revisions}),
        {ok, Git} ?= git(),
        {ok, {Top, Below}} ?= top(Git),
        {ok, Resolved} ?= dyno_error:each(fun(Of) -> resolve(Git, Of) end, Revisions),
        ok ?= different(Resolved),
        {ok, Folder} ?= dyno_error:tagged(dyno_temporary, dyno_temporary:make()),
        Cleaner = cleaner(Folder),
        Project = #{
            git => Git, top => Top, below => Below, folder => Folder, options => Options
        },
        Build = fun({Number, Of}) -> built(Number, Of, Project) end,
        case dyno_error:each(Build, lists:enumerate(Resolved)) of
            {ok, Variants} ->
                {ok, #{folder => Folder, cleaner => Cleaner, variants => Variants}};
            {error, _} = Error ->
                close(#{folder => Folder, cleaner => Cleaner}),
                Error
        end
    end.

%% Removes the folder even if the caller is killed.
cleaner(Folder) ->
    Caller = self(),
    spawn(fun() ->
        Monitor = monitor(process, Caller),
        receive
            closed -> ok;
            {'DOWN', Monitor, process, _, _} -> dyno_temporary:remove(Folder)
        end
    end).

-spec close(#{folder := file:filename(), cleaner := pid(), _ => _}) -> ok.
close(#{folder := Folder, cleaner := Cleaner}) ->
    ok = dyno_temporary:remove(Folder),
    Cleaner ! closed,
    ok.

git() ->
    case os:find_executable("git") of
        false -> {error, {?MODULE, no_git}};
        Git -> {ok, Git}
    end.

%% The project may be a folder of the repository.
top(Git) ->
    case dyno_bench_checkout:git(Git, ".", ["rev-parse", "--show-toplevel", "--show-prefix"]) of
        {ok, Output} ->
            [Top, Below | _] = string:split(unicode:characters_to_list(Output), "\n", all),
            {ok, {Top, Below}};
        {error, {dyno_error, interrupted}} = Error ->
            Error;
        {error, _} ->
            {ok, Here} = file:get_cwd(),
            {error, {?MODULE, {no_repository, Here}}}
    end.

resolve(_Git, working_tree) ->
    {ok, {?WORKING_TREE, {working_tree, ~"HEAD"}}};
resolve(Git, {revision, Name}) ->
    Unknown = {?MODULE, {unknown_revision, Name}},
    maybe
        {ok, Commit} ?= dyno_bench_checkout:commit(Git, ".", Name, Unknown),
        {ok, {Name, {commit, Commit}}}
    end.

different(Resolved) ->
    Same = [
        {A, B}
     || {N, {A, {commit, Commit}}} <- lists:enumerate(Resolved),
        {M, {B, {commit, Other}}} <- lists:enumerate(Resolved),
        N < M,
        Commit =:= Other
    ],
    case Same of
        [] -> ok;
        [{A, B} | _] -> {error, {?MODULE, {same_revisions, A, B}}}
    end.

built(Number, {Label, Commit}, #{folder := Folder, top := Top, below := Below} = Project) ->
    Tree = filename:join(Folder, integer_to_list(Number)),
    progress(Project, Label),
    maybe
        ok ?= dyno_bench_checkout:revision(Tree, Commit, Project),
        Here = filename:join(Tree, Below),
        ok = dyno_bench_project:fetched(filename:join(Top, Below), Here),
        {ok, Command} ?= command(Label, Here, Project),
        TimeoutMs = maps:get(timeout_ms, map_get(options, Project), ?BUILD_MS),
        {ok, Paths} ?= build(Label, Here, Command, TimeoutMs),
        {ok, #{label => Label, code_paths => Paths, folder => Here}}
    end.

progress(#{options := #{progress := Fun}}, Label) -> Fun(Label);
progress(_Project, _Label) -> ok.

command(_Label, _Folder, #{options := #{build := Text}}) ->
    Shell = unicode:characters_to_binary(Text),
    {ok, {Shell, "/bin/sh", ["-c", Shell]}};
command(Label, Folder, _Project) ->
    case dyno_bench_project:builder(Folder) of
        {ok, {Name, Arguments}} ->
            Local = filename:join(Folder, Name),
            Shown = iolist_to_binary(lists:join(" ", [Name | Arguments])),
            case {filelib:is_regular(Local) andalso Name =/= "make", os:find_executable(Name)} of
                {true, _} -> {ok, {Shown, filename:absname(Local), Arguments}};
                {false, false} -> {error, {?MODULE, {no_program, Label, Name}}};
                {false, Program} -> {ok, {Shown, Program, Arguments}}
            end;
        {error, no_build} ->
            {error, {?MODULE, {no_build, Folder}}}
    end.

build(Label, Folder, {Shown, Program, Arguments}, TimeoutMs) ->
    Since = erlang:system_time(second) - 1,
    case dyno_program:run(Program, Arguments, #{folder => Folder, timeout_ms => TimeoutMs}) of
        {ok, _} ->
            case dyno_bench_project:code_paths(Folder, Since) of
                [] -> {error, {?MODULE, {nothing_built, Label, Shown}}};
                Paths -> {ok, Paths ++ of_elixir(Folder)}
            end;
        {error, interrupted} ->
            {error, {dyno_error, interrupted}};
        {error, {Ended, Lines}} ->
            {error, {?MODULE, {build, Label, Shown, Ended, Lines}}}
    end.

%% Modules that a Mix project calls and Erlang alone lacks.
of_elixir(Folder) ->
    case filelib:is_regular(filename:join(Folder, "mix.exs")) of
        true -> dyno_elixir:folders();
        false -> []
    end.

-spec format_error(reason()) -> unicode:chardata().
format_error({revisions, Text}) ->
    io_lib:format(
        "the revision is \"~ts\"; two revisions as in v1..v2, or one to compare with the working "
        "tree, are accepted",
        [Text]
    );
format_error(no_git) ->
    "there is no git on the PATH; install git to compare revisions";
format_error({no_repository, Folder}) ->
    io_lib:format(
        "~ts is in no git repository; run dyno in the project whose revisions are compared",
        [Folder]
    );
format_error({unknown_revision, Name}) ->
    io_lib:format("git knows no revision ~ts here; git log shows those that there are", [Name]);
format_error({same_revisions, A, B}) ->
    io_lib:format("~ts and ~ts are the same commit; give two that differ", [A, B]);
format_error({no_build, _Folder}) ->
    "the project has neither rebar.config, mix.exs, Makefile nor src/*.erl; say with --build how "
    "it is built";
format_error({no_program, Label, Name}) ->
    io_lib:format("~ts is built with ~ts, which is not on the PATH; install ~ts or give --build", [
        Label, Name, Name
    ]);
format_error({build, Label, Command, Ended, Lines}) ->
    [
        io_lib:format("~ts does not build: ~ts ~ts", [Label, Command, ended(Ended)]),
        dyno_program:last_words(Lines)
    ];
format_error({nothing_built, Label, Command}) ->
    io_lib:format(
        "~ts: ~ts left no beam files in ebin or _build; give the right command (--build)",
        [Label, Command]
    ).

-spec fault(reason()) -> dyno_error:fault().
fault({build, _, _, _, _}) -> code;
fault(_) -> caller.

ended({status, Status}) ->
    io_lib:format("ended with status ~b", [Status]);
ended({timeout, Ms}) ->
    io_lib:format("had not ended after ~ts; --timeout allows more", [
        dyno_unit:format(Ms * 1_000_000, ~"ns")
    ]).
