%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_suite_elixir_SUITE).
-moduledoc "Suites in files of Elixir, and their mistakes.".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

suite() -> [{timetrap, {minutes, 5}}].

all() ->
    [brings_all_modules, can_be_used, mistakes_are_sentences, needs_elixir].

init_per_testcase(needs_elixir, Config) ->
    Config;
init_per_testcase(_Case, Config) ->
    case os:find_executable("elixir") of
        false -> {skip, "Elixir is not installed"};
        _ -> Config
    end.

end_per_testcase(_Case, _Config) -> ok.

write(Name, Text, Config) ->
    File = filename:join(proplists:get_value(priv_dir, Config), Name),
    ok = file:write_file(File, Text),
    File.

-define(OTHER, "defmodule Help do\n  def size, do: 1\nend\n").

%% Also what the suite calls, for the nodes that it starts; and nothing is left of it.
brings_all_modules(Config) ->
    File = write(
        "good.exs",
        ?OTHER
        "defmodule Good do\n  @behaviour :dyno_suite\n"
        "  def suite, do: %{sizes: [Help.size()]}\n"
        "  def operation(s), do: {:ok, s}\nend\n",
        Config
    ),
    {ok, #{module := 'Elixir.Good', folder := Folder} = Loaded} = dyno_suite_source:load(File),
    ?assertEqual(
        ["Elixir.Good.beam", "Elixir.Help.beam"],
        lists:sort(filelib:wildcard("*.beam", Folder))
    ),
    ?assertEqual(#{sizes => [1]}, 'Elixir.Good':suite()),
    ok = dyno_suite_source:forget(Loaded),
    ?assertNot(filelib:is_dir(Folder)),
    ?assertEqual([false, false], [code:is_loaded(M) || M <- ['Elixir.Good', 'Elixir.Help']]).

%% With the options that suite/0 is to return, or with one's own suite/0; without warnings, also
%% where callbacks are marked.
can_be_used(Config) ->
    lists:foreach(
        fun({Name, Head, Size}) ->
            File = write(
                Name ++ ".exs",
                "defmodule Used do\n" ++ Head ++
                    "  @impl true\n  def operation(s), do: {:ok, s}\nend\n",
                Config
            ),
            ct:capture_start(),
            {ok, #{module := 'Elixir.Used'} = Loaded} = dyno_suite_source:load(File),
            ct:capture_stop(),
            ?assertEqual([], ct:capture_get()),
            ?assertEqual(#{name => ~"used", sizes => [Size]}, 'Elixir.Used':suite()),
            ?assertMatch(
                [dyno_suite],
                proplists:get_value(behaviour, 'Elixir.Used':module_info(attributes))
            ),
            ok = dyno_suite_source:forget(Loaded)
        end,
        [
            {"options", "  use :dyno_suite, name: \"used\", sizes: [1 + 1]\n", 2},
            {"own",
                "  use :dyno_suite\n  @impl true\n  def suite, do: %{name: \"used\", sizes: [3]}\n",
                3}
        ]
    ).

mistakes_are_sentences(Config) ->
    Cases = [
        {"syntax.exs", "defmodule Bad do\n  def suite, do: %{\nend\n", "syntax.exs:"},
        {"unknown.exs", "defmodule Bad do\n  def suite, do: nowhere\nend\n",
            "unknown.exs:2: undefined"},
        {"raises.exs", "raise \"a reason\"\n", "a reason"},
        {"none.exs", "1 + 1\n", "it has no module"},
        {"lacks.ex", ?OTHER, "is not a suite: it lacks"},
        {"two.exs",
            "defmodule A do\n  def suite, do: %{}\nend\n"
            "defmodule B do\n  def suite, do: %{}\nend\n",
            "holds several suites (Elixir.A, Elixir.B)"}
    ],
    lists:foreach(
        fun({Name, Text, Expected}) ->
            {error, Reason} = dyno_suite_source:load(write(Name, Text, Config)),
            Sentence = unicode:characters_to_list(dyno_suite_source:format_error(Reason)),
            ?assertNotEqual(nomatch, string:find(Sentence, Expected), Sentence),
            ?assertEqual(nomatch, string:find(Sentence, "\n"), Sentence)
        end,
        Cases
    ).

needs_elixir(Config) ->
    File = write("any.exs", "1 + 1\n", Config),
    Path = os:getenv("PATH"),
    true = os:putenv("PATH", "/nowhere"),
    try
        {3, Output} = dyno_command:run(["test", File]),
        ?assertMatch({_, _}, binary:match(Output, ~"any.exs: Elixir is not installed here"), Output)
    after
        os:putenv("PATH", Path)
    end.
