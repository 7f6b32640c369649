%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_cli_new).
-moduledoc "`dyno new`: lists templates, or writes a working suite or benchmark to start from.".

-behaviour(dyno_cli_command).

-export([command/0, run/1, format_error/1, fault/1]).

-define(SUGGESTED, 3).
%% Names of functions that no client calls.
-define(NO_WORK, "^([a-z].*link|module_info|[_$].*|child_spec|behaviour_info)$").

-type mistake() ::
    {unknown_template, binary()}
    | {no_name, binary()}
    | {bad_name, string()}
    | {taken_name, module(), file:filename()}
    | {exists, file:filename()}
    | {dyno_file, dyno_file:reason()}
    | {dyno_priv, dyno_priv:reason()}.

-spec command() -> dyno_cli_command:t().
command() ->
    Optional = #{nargs => 'maybe', required => false},
    #{
        operands => [
            dyno_cli_command:operand(
                "[TEMPLATE]", "suite or benchmark; without TEMPLATE: lists both", Optional
            ),
            dyno_cli_command:operand(
                "[NAME]",
                "the file to write, without its ending: perf/shop_perf",
                Optional
            )
        ],
        options => [
            {"", [
                {"--elixir",
                    "writes Elixir, NAME.exs (default: Erlang, NAME.erl; under Mix: Elixir)",
                    {flag, elixir}, language}
            ]}
        ],
        examples =>
            """
            dyno new
                lists the templates
            dyno new suite perf/shop_perf
                writes perf/shop_perf.erl
            dyno new suite shop_perf --elixir
                writes shop_perf.exs
            dyno new benchmark reverse_bench
                writes reverse_bench.erl, for dyno bench
            """
    }.

-spec run(dyno_cli_command:values()) -> dyno_cli_command:result().
run(#{template := Template, name := Name} = Values) when is_binary(Template), is_binary(Name) ->
    case write(Template, unicode:characters_to_list(Name), maps:get(language, Values, erlang)) of
        {ok, Command, File} ->
            Line = [
                File,
                " is written; run it: ",
                dyno_cli_terminal:called_as(),
                Command,
                " ",
                File,
                $\n
            ],
            dyno_cli_terminal:print(Line);
        {error, Mistake} ->
            wrong(Mistake)
    end;
run(#{template := Template}) when is_binary(Template) ->
    case lists:keymember(Template, 1, dyno_cli_new_text:templates()) of
        true -> wrong({no_name, Template});
        false -> wrong({unknown_template, Template})
    end;
run(_Values) ->
    dyno_cli_terminal:print(overview()).

wrong(Mistake) ->
    {error, {?MODULE, Mistake}}.

overview() ->
    Templates = dyno_cli_new_text:templates(),
    Width = lists:max([byte_size(Template) || {Template, _, _} <- Templates]),
    [
        [
            ["dyno new ", string:pad(Template, Width), " NAME   ", Text, $\n]
         || {Template, Text, _} <- Templates
        ],
        "\n--elixir writes Elixir.\n"
    ].

write(Template, Given, Language) ->
    Extension = maps:get(Language, #{erlang => ".erl", elixir => ".exs"}),
    Root =
        case filename:extension(Given) of
            Extension -> filename:rootname(Given);
            _ -> Given
        end,
    Name = filename:basename(Root),
    File = Root ++ Extension,
    maybe
        {Template, _, Command} ?= lists:keyfind(Template, 1, dyno_cli_new_text:templates()),
        match ?= re:run(Name, "^[a-z][a-z0-9_]*$", [{capture, none}]),
        ok ?= name_is_free(Name, Language),
        {ok, Text} ?= dyno_cli_new_text:text(Template, Language, Name, project()),
        ok ?= create(File, Text),
        {ok, Command, File}
    else
        false -> {error, {unknown_template, Template}};
        nomatch -> {error, {bad_name, Name}};
        {error, _} = Error -> Error
    end.

project() ->
    Mix = [
        Name
     || {ok, Text} <- [file:read_file("mix.exs")],
        {match, [Name]} <- [re:run(Text, "\\bapp: :([a-z]\\w*)", [{capture, [1], list}])]
    ],
    Sources = filelib:wildcard("src/*.app.src") ++ filelib:wildcard("apps/*/src/*.app.src"),
    case Mix ++ [filename:basename(Source, ".app.src") || Source <- Sources] of
        [Name | _] -> if_it_can_start(Name);
        [] -> none
    end.

%% A suite's node has the folders of this code path but no archive. dyno's own application is in the
%% archive `dyno`, so a clone of dyno is no project to test.
if_it_can_start(Name) ->
    case [Path || Path <- dyno_code:own_paths(), is_in(Path, Name)] of
        [_ | _] -> with_functions(list_to_atom(Name));
        [] -> none
    end.

is_in(Folder, Name) ->
    filelib:is_regular(filename:join(Folder, Name ++ ".app")).

with_functions(App) ->
    _ = application:load(App),
    case application:get_key(App, modules) of
        {ok, Modules} -> {dyno_agent_name:module(App), functions(lists:sort(Modules))};
        undefined -> none
    end.

%% The most useful functions: with arguments, no starters or callbacks.
functions(Modules) ->
    All = [
        dyno_agent_name:mfa({M, F, A})
     || M <- Modules,
        {module, _} <- [code:ensure_loaded(M)],
        {F, A} <- lists:sort(M:module_info(exports)) -- callbacks(M),
        A > 0,
        re:run(atom_to_list(F), ?NO_WORK) =:= nomatch
    ],
    lists:sublist(All, ?SUGGESTED).

callbacks(Module) ->
    Attributes = Module:module_info(attributes),
    Behaviours = lists:append([B || {K, B} <- Attributes, K =:= behaviour orelse K =:= behavior]),
    lists:append([
        B:behaviour_info(callbacks)
     || B <- Behaviours,
        {module, _} <- [code:ensure_loaded(B)],
        erlang:function_exported(B, behaviour_info, 1)
    ]).

%% A suite of that name would replace the module.
name_is_free(Name, Language) ->
    Module = list_to_atom(dyno_cli_new_text:module_name(Language, Name)),
    case code:which(Module) of
        non_existing -> ok;
        Where -> {error, {taken_name, Module, lists:concat([Where])}}
    end.

%% `exclusive` never overwrites, even with two writers.
create(File, Text) ->
    _ = filelib:ensure_dir(File),
    case dyno_file:create(File, Text) of
        ok -> ok;
        {error, {write, File, eexist}} -> {error, {exists, File}};
        {error, Reason} -> {error, {dyno_file, Reason}}
    end.

-spec format_error(mistake()) -> unicode:chardata().
format_error({unknown_template, Template}) ->
    Templates = [K || {K, _, _} <- dyno_cli_new_text:templates()],
    [
        "dyno new writes a ",
        lists:join(" or ", Templates),
        ", not a ",
        Template,
        dyno_similar:meant(dyno_similar:nearest(Template, Templates))
    ];
format_error({no_name, Template}) ->
    ["give a name: dyno new ", Template, " NAME"];
format_error({bad_name, Name}) ->
    io_lib:format(
        "\"~ts\" is no module's name; lower-case letters, digits and _ are accepted, and a "
        "letter first",
        [Name]
    );
format_error({taken_name, Module, Where}) ->
    io_lib:format(
        "there is a module ~ts (~ts), whose place it would take; give another name, such as "
        "~ts_perf",
        [Module, Where, filename:basename(filename:rootname(Where))]
    );
format_error({exists, File}) ->
    [File, " is there already and stays unchanged; give another name"];
format_error({Module, _} = Error) when Module =:= dyno_file; Module =:= dyno_priv ->
    dyno_error:format(Error).

-spec fault(mistake()) -> dyno_error:fault().
fault({Module, _} = Error) when Module =:= dyno_file; Module =:= dyno_priv ->
    dyno_error:fault(Error);
fault(_Mistake) ->
    caller.
