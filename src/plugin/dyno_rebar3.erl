%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_rebar3).
-moduledoc """
dyno as a plugin of rebar3: `rebar3 dyno test`, `rebar3 dyno bench` and the other commands.

```erlang
{plugins, [{dyno, {git, "file:///path/to/dyno", {branch, "main"}}}]}.
```

Commands, options, output and exit statuses are those of the program. The project is compiled first,
with its test profile; its code and dependencies are on the code path. doc/projects.md has the
settings. rebar3 builds dyno, but is not needed to run it: only rebar3 calls this module.
""".

%% rebar3's own modules exist when rebar3 calls.
-import(dyno_plugin_launch, [call/3]).

-export([init/1, do/1, format_error/1]).

-doc "Called by rebar3 when it loads its plugins.".
-spec init(term()) -> {ok, term()}.
init(State) ->
    Provider = call(providers, create, [
        [
            {name, dyno},
            {module, ?MODULE},
            {bare, true},
            {deps, [compile]},
            {profiles, [test]},
            {example, "rebar3 dyno test"},
            {short_desc, "Performance tests and benchmarks with dyno"},
            {desc, description()},
            {opts, options(init:get_plain_arguments())}
        ]
    ]),
    {ok, call(rebar_state, add_provider, [State, Provider])}.

description() ->
    "dyno, a dynamometer for the BEAM.\n\n" ++
        lists:append([line(Name, Help) || {Name, _, Help} <- dyno_commands:all()]) ++
        line("COMMAND --help", "what a command takes, with examples") ++
        "\n"
        "Suites are found as perf/*.erl and test/*_perf.erl, benchmarks as perf/*_bench.erl and\n"
        "test/*_bench.erl. In rebar.config, all optional:\n\n"
        "  {dyno, [\n"
        "      {suites, [\"perf/*.erl\"]},\n"
        "      {benchmarks, [\"bench/*.erl\"]},\n"
        "      {test, [\"--for\", \"10s\"]},          options of each rebar3 dyno test\n"
        "      {bench, [\"--for\", \"5s\"]},          options of each rebar3 dyno bench\n"
        "      {config, \"config/sys.config\"}      for dyno and for the nodes that suites start\n"
        "  ]}.".

line(Command, Help) ->
    lists:flatten(["  rebar3 dyno ", string:pad(Command, 16), Help, $\n]).

%% dyno parses its arguments itself; rebar3 refuses undeclared options, so each one is declared.
options(Arguments) ->
    {_, Ours} = lists:splitwith(fun(Argument) -> Argument =/= "dyno" end, Arguments),
    Before = lists:takewhile(fun(Argument) -> Argument =/= "--" end, Ours),
    lists:uniq(lists:append([option(Argument) || Argument <- Before])).

option("--" ++ Long) ->
    Name = hd(string:split(Long, "=")),
    %% An option with `=` has a value.
    Type =
        case Name of
            Long -> undefined;
            _ -> string
        end,
    [{list_to_atom(Name), undefined, Name, Type, "see dyno's own help"}];
option("-" ++ Letters) ->
    [
        {list_to_atom([Letter]), Letter, undefined, undefined, "see dyno's own help"}
     || Letter <- Letters
    ];
option(_) ->
    [].

-doc "Called by rebar3 for `rebar3 dyno`.".
-spec do(term()) -> {ok, term()} | {error, {module(), term()}}.
do(State) ->
    _ = call(rebar_paths, set_paths, [[deps, plugins], State]),
    Settings = call(rebar_state, get, [State, dyno, []]),
    case is_list(Settings) andalso lists:all(fun is_setting/1, Settings) of
        true -> launch(State, maps:from_list(Settings));
        false -> {error, {?MODULE, {settings, Settings}}}
    end.

is_setting({config, File}) ->
    io_lib:char_list(File);
is_setting({Key, Texts}) ->
    lists:member(Key, [suites, benchmarks, test, bench]) andalso is_list(Texts) andalso
        lists:all(fun io_lib:char_list/1, Texts);
is_setting(_) ->
    false.

launch(State, Settings) ->
    Status = dyno_plugin_launch:run(#{
        arguments => call(rebar_state, command_args, [State]),
        paths => dyno_plugin_launch:paths(extra_paths(State)),
        settings => (maps:remove(config, Settings))#{
            program => "rebar3 dyno ", extensions => [".erl"]
        },
        config => maps:get(config, Settings, undefined)
    }),
    case Status of
        0 -> {ok, State};
        %% rebar3 itself knows only 0 and 1.
        _ -> erlang:halt(Status, [{flush, true}])
    end.

%% The project's test helpers, which rebar3 compiles next to its modules.
extra_paths(State) ->
    [
        filename:join(call(rebar_app_info, out_dir, [App]), Folder)
     || App <- call(rebar_state, project_apps, [State]),
        Folder <- call(rebar_dir, extra_src_dirs, [call(rebar_app_info, opts, [App]), []])
    ].

-doc "A sentence for a mistake in rebar.config.".
-spec format_error(term()) -> iolist().
format_error({settings, Settings}) ->
    io_lib:format(
        "{dyno, ~0tp} in rebar.config: a list of {suites | benchmarks, [Wildcard]}, "
        "{test | bench, [Argument]} and {config, File} is accepted, all of them texts",
        [Settings]
    ).
