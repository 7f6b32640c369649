%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_checkout).
-moduledoc false.
%% Checks out a revision of a git repository into another folder, as a clone that shares its
%% objects: the repository stays unchanged, and no network is used. The working tree as a revision
%% is the last commit with changed and new files. Submodules come from the repository's copies; a
%% submodule that was not fetched stays empty.

-export([revision/3, git/3, commit/4, format_error/1, fault/1]).
-export_type([repository/0, reason/0]).

-type repository() :: #{git := file:filename(), top := file:filename(), _ => _}.

-type reason() ::
    {git, [binary()]}
    %% A commit that the repository needs of a submodule.
    | {no_commit, Submodule :: binary(), Commit :: binary()}.

-type result() :: ok | {error, dyno_error:error()}.

-define(GIT_MS, 300_000).

-spec revision(file:filename(), {working_tree | commit, binary()}, repository()) -> result().
revision(Tree, {Kind, Commit} = Revision, #{git := Git, top := Top} = Repository) ->
    Clone = ["clone", "--quiet", "--shared", "--no-checkout", "--", Top, Tree],
    Checkout = ["-c", "advice.detachedHead=false", "checkout", "--quiet", "--detach", Commit],
    maybe
        {ok, _} ?= git(Git, filename:dirname(Tree), Clone),
        {ok, _} ?= git(Git, Tree, Checkout),
        ok ?=
            case Kind of
                working_tree -> overlaid(Git, Top, Tree);
                commit -> ok
            end,
        submodules(Tree, Revision, Repository)
    end.

-spec git(file:filename(), file:filename(), [string() | binary()]) -> dyno_error:result(binary()).
git(Git, Folder, Arguments) ->
    %% In git's own folder, the settings may name a working tree that is gone.
    Where =
        case [x || Part <- ["HEAD", "objects", "refs"], has_part(Folder, Part)] of
            [_, _, _] -> ["--git-dir", ".", "--work-tree", "."];
            _ -> []
        end,
    case dyno_program:run(Git, Where ++ Arguments, #{folder => Folder, timeout_ms => ?GIT_MS}) of
        {ok, Output} -> {ok, Output};
        {error, interrupted} -> {error, {dyno_error, interrupted}};
        {error, {_Ended, Lines}} -> {error, {?MODULE, {git, Lines}}}
    end.

has_part(Folder, Part) ->
    filelib:is_file(filename:join(Folder, Part)).

overlaid(Git, Top, Tree) ->
    maybe
        {ok, Changed} ?= git(Git, Top, ["diff", "--name-only", "--no-renames", "-z", "HEAD"]),
        {ok, New} ?= git(Git, Top, ["ls-files", "--others", "--exclude-standard", "-z"]),
        Overlay = fun(File) -> overlay(File, Top, Tree) end,
        {ok, _} ?= dyno_error:each(Overlay, parts(Changed) ++ parts(New)),
        ok
    end.

parts(Text) ->
    [Part || Part <- binary:split(Text, <<0>>, [global]), Part =/= <<>>].

overlay(File, Top, Tree) ->
    [From, To] = [filename:join(unicode:characters_to_binary(F), File) || F <- [Top, Tree]],
    %% Not a submodule's folder; in the revision it may be a link that leads out of the tree.
    _ = file:delete(To),
    Copied =
        maybe
            true ?= filelib:is_regular(From),
            ok ?= filelib:ensure_dir(To),
            {ok, _} ?= file:copy(From, To),
            {ok, Info} ?= file:read_file_info(From),
            file:write_file_info(To, Info)
        end,
    case Copied of
        {error, Reason} -> {error, {dyno_file, {write, To, Reason}}};
        _ -> {ok, To}
    end.

submodules(Tree, Revision, #{git := Git, top := Top} = Repository) ->
    case filelib:is_regular(filename:join(Tree, ".gitmodules")) of
        true ->
            Each = fun(Link) -> submodule(Link, Tree, Revision, Repository) end,
            maybe
                {ok, Text} ?= git(Git, Top, listing(Revision)),
                {ok, _} ?= dyno_error:each(Each, links(Text)),
                ok
            end;
        false ->
            ok
    end.

listing({working_tree, _}) -> ["ls-files", "--stage", "-z"];
listing({commit, Commit}) -> ["ls-tree", "-r", "-z", Commit].

links(Text) ->
    [
        {Path, Commit}
     || Part <- parts(Text),
        {match, [Commit, Path]} <- [
            re:run(Part, ~"^160000 (?:commit )?([0-9a-f]+)[^\\t]*\\t(.*)$", [
                dotall, {capture, all_but_first, binary}
            ])
        ]
    ].

submodule({Path, Commit}, Tree, {Kind, _}, Repository) ->
    maybe
        {ok, Source} ?= has(Path, Repository),
        {ok, Resolved} ?= commit_of(Kind, Path, Commit, Source, Repository),
        ok ?= revision(inside(Tree, Path), {Kind, Resolved}, Repository#{top := Source}),
        {ok, Path}
    else
        none -> {ok, Path};
        {error, _} = Error -> Error
    end.

inside(Folder, Path) ->
    Joined = filename:join(Folder, unicode:characters_to_list(Path)),
    true = is_list(Joined),
    Joined.

%% In its place; or in git's folder if the working tree no longer has the submodule.
has(Path, #{git := Git, top := Top}) ->
    InPlace = inside(Top, Path),
    maybe
        false ?= has_part(InPlace, ".git"),
        {ok, Modules} ?=
            git(Git, Top, ["rev-parse", "--path-format=absolute", "--git-path", "modules"]),
        Kept = inside(unicode:characters_to_list(string:trim(Modules)), Path),
        {kept, true} ?= {kept, has_part(Kept, "HEAD")},
        {ok, Kept}
    else
        true -> {ok, InPlace};
        {error, {dyno_error, interrupted}} = Error -> Error;
        _ -> none
    end.

%% The working tree counts as checked out, whatever commit the repository names.
commit_of(Kind, Path, Commit, Source, #{git := Git}) ->
    Name =
        case Kind of
            working_tree -> ~"HEAD";
            commit -> Commit
        end,
    commit(Git, Source, Name, {?MODULE, {no_commit, Path, Commit}}).

-spec commit(file:filename(), file:filename(), binary(), Unknown :: dyno_error:error()) ->
    dyno_error:result(binary()).
commit(Git, Folder, Name, Unknown) ->
    Verify = ["rev-parse", "--verify", "--quiet", "--end-of-options", <<Name/binary, "^{commit}">>],
    case git(Git, Folder, Verify) of
        {ok, Output} -> {ok, string:trim(Output)};
        {error, {dyno_error, interrupted}} = Error -> Error;
        {error, _} -> {error, Unknown}
    end.

-spec format_error(reason()) -> unicode:chardata().
format_error({git, Lines}) ->
    ["git could not check the revision out", dyno_program:last_words(Lines)];
format_error({no_commit, Submodule, Commit}) ->
    io_lib:format(
        "the submodule ~ts has no commit ~ts here; fetch it with git submodule update, or git -C "
        "~ts fetch",
        [Submodule, Commit, Submodule]
    ).

-spec fault(reason()) -> dyno_error:fault().
fault({git, _}) -> dyno;
fault({no_commit, _, _}) -> caller.
