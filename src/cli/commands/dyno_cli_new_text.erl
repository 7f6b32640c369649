%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_cli_new_text).
-moduledoc "The files that `dyno new` writes, from the templates in `priv/new/`.".

-export([templates/0, text/4, module_name/2]).
-export_type([language/0, project/0]).

-type language() :: erlang | elixir.

-type project() :: none | {App :: binary(), Functions :: [binary()]}.

-doc "Each template, its description, and the command that runs it.".
-spec templates() -> [{Template :: binary(), Text :: binary(), Command :: binary()}, ...].
templates() ->
    [
        {~"suite", ~"a performance test at growing sizes, for dyno test", ~"test"},
        {~"benchmark", ~"a comparison of codes that is kept, for dyno bench", ~"bench"}
    ].

-doc "The module in a file of that name.".
-spec module_name(language(), string()) -> string().
module_name(erlang, Name) -> Name;
module_name(elixir, Name) -> "Elixir." ++ camel(Name).

camel(Name) ->
    lists:append([string:titlecase(Word) || Word <- string:lexemes(Name, "_")]).

-doc "The file; a suite in a project starts the application.".
-spec text(Template :: binary(), language(), Name :: string(), project()) ->
    {ok, binary()} | {error, {dyno_priv, dyno_priv:reason()}}.
text(Template, Language, Name, Project) ->
    {Module, Extension} =
        case Language of
            erlang -> {Name, ".erl"};
            elixir -> {camel(Name), ".exs"}
        end,
    Marks =
        [{~"@NAME@", list_to_binary(Name)}, {~"@MODULE@", list_to_binary(Module)}] ++
            of_project(Project),
    maybe
        {ok, Text} ?= dyno_priv:read(filename:join("new", file(Template, Project, Extension))),
        {ok, lists:foldl(fun marked/2, Text, Marks)}
    end.

marked({Mark, By}, Text) -> binary:replace(Text, Mark, By, [global]).

of_project(none) ->
    [];
of_project({App, []}) ->
    [{~"@APP@", App}, {~"@SUCH_AS@", ~""}];
of_project({App, Functions}) ->
    SuchAs = iolist_to_binary([", such as ", lists:join(" or ", Functions)]),
    [{~"@APP@", App}, {~"@SUCH_AS@", SuchAs}].

file(~"suite", {_App, _Functions}, Extension) -> "suite_of_project" ++ Extension;
file(Template, _Project, Extension) -> binary_to_list(Template) ++ Extension.
