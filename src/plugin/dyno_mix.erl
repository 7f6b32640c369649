%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_mix).
-moduledoc """
dyno in a Mix project: `mix dyno.test`, `mix dyno.bench` and the other tasks.

```elixir
defp deps, do: [{:dyno, path: "../dyno", only: [:dev, :test], runtime: false}]
```

Mix finds a task by its module's name. The tasks are written in Erlang, so that building dyno needs
no Elixir. Tasks first compile and configure the project; doc/projects.md has the settings.
""".

%% Mix's own modules exist when Mix calls.
-import(dyno_plugin_launch, [call/3]).

-export([run/2, info/2, settings/1, environment/1]).

-doc "Runs a command of dyno with a task's arguments; ends Mix with its exit status.".
-spec run(string(), [binary()]) -> ok.
run(Command, Arguments) ->
    _ = call('Elixir.Mix.Task', run, [~"app.config"]),
    Given = proplists:get_value(dyno, call('Elixir.Mix.Project', config, []), []),
    case settings(Given) of
        {ok, Settings} ->
            Status = dyno_plugin_launch:run(#{
                arguments => [Command | [unicode:characters_to_list(A) || A <- Arguments]],
                paths => dyno_plugin_launch:paths([]),
                settings => Settings,
                config => config_file()
            }),
            [exit({shutdown, Status}) || Status =/= 0],
            ok;
        {error, Sentence} ->
            call('Elixir.Mix', raise, [unicode:characters_to_binary(Sentence)])
    end.

-doc "A task module's answer to Elixir's questions about the module.".
-spec info(module(), atom()) -> term().
info(Module, module) -> Module;
info(_Module, macros) -> [];
info(Module, functions) -> Module:module_info(exports);
info(Module, Kind) -> Module:module_info(Kind).

-doc "The settings under `dyno:` in mix.exs, for `m:dyno_cli_project`.".
-spec settings(term()) -> {ok, #{atom() => term()}} | {error, unicode:chardata()}.
settings(Given) ->
    try
        Read = #{Key => setting(Key, Value) || {Key, Value} <- Given},
        {ok, Read#{program => "mix dyno.", extensions => [".exs", ".ex", ".erl"]}}
    catch
        error:_ ->
            {error,
                io_lib:format(
                    "dyno: ~0tp in mix.exs: a keyword list of suites:, benchmarks:, test: and "
                    "bench: is accepted, each a list of strings",
                    [Given]
                )}
    end.

setting(Key, Texts) ->
    true = lists:member(Key, [suites, benchmarks, test, bench]),
    [unicode:characters_to_list(<<_/binary>> = Text) || Text <- Texts].

%% The project's configuration exists only in Mix's emulator; dyno and the targets read a file.
config_file() ->
    File = unicode:characters_to_list([
        call('Elixir.Mix.Project', build_path, []), "/dyno.config"
    ]),
    Root = code:root_dir(),
    Applications = [
        {Name, application:get_all_env(Name)}
     || {Name, _, _} <- application:loaded_applications(),
        Folder <- [code:lib_dir(Name)],
        is_list(Folder),
        not lists:prefix(Root, Folder),
        not lists:member(Name, [mix, elixir, eex, logger, hex, iex, ex_unit])
    ],
    Text = io_lib:format("%% coding: utf-8~n~tp.~n", [environment(Applications)]),
    ok = filelib:ensure_dir(File),
    %% The file may hold passwords.
    ok = dyno_file:write(File, private, unicode:characters_to_binary(Text)),
    File.

-doc "The environment of applications that a file can hold: no local funs, processes, references.".
-spec environment([{atom(), [{atom(), term()}]}]) -> [{atom(), [{atom(), term()}]}].
environment(Applications) ->
    [
        {Name, Kept}
     || {Name, Values} <- Applications,
        Kept <- [[{Key, Value} || {Key, Value} <- Values, is_text(Value)]],
        Kept =/= []
    ].

is_text([Head | Tail]) -> is_text(Head) andalso is_text(Tail);
is_text(Tuple) when is_tuple(Tuple) -> is_text(tuple_to_list(Tuple));
is_text(Map) when is_map(Map) -> is_text(maps:to_list(Map));
is_text(Fun) when is_function(Fun) -> erlang:fun_info(Fun, type) =:= {type, external};
is_text(Term) -> not (is_pid(Term) orelse is_port(Term) orelse is_reference(Term)).
