%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_documents_clone_SUITE).
-moduledoc """
A newcomer's first hour: what the first documents (dyno_documents:printed/0) have their reader type
is typed as it is printed, into a shell in a fresh clone, with nothing of Erlang on the PATH.

Each document has a clone, a home folder and a port mapper (epmd) of its own, so that each can open
its shop. Only the time of measurements is limited, by DYNO_AT_MOST.
""".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

suite() -> [{timetrap, {minutes, 8}}].

all() -> [each_line_is_run_or_listed, {group, in_a_clone}].

groups() ->
    [
        {in_a_clone, [], [
            first_documents,
            builds,
            long_documents,
            project_of_rebar3,
            project_of_mix
        ]}
    ].

slow() -> [{group, in_a_clone}].

%% Those with tests of large systems, and those that one reads second.
-define(LONG, ["doc/examples.md", "doc/profile.md", "doc/trace.md", "doc/verify.md"]).
%% Each with its shop, on few processors.
-define(AT_ONCE, 3).

%% Lines that begin so, and why they are not run here.
not_run() ->
    [
        {~"make demo", "loads Cowboy for a minute: examples_SUITE runs that suite"},
        {~"make rabbitmq", "brings a broker: examples_SUITE runs it with one"},
        {~"rebar3 dyno ", "needs a project of rebar3: project_of_rebar3 runs it in one"},
        {~"mix ", "needs a project of Mix: project_of_mix runs it in one"},
        {~"dyno profile pf1@vm", "shows a program of bench/: dyno_profile_SUITE profiles it"},
        {~"dyno verify answers_in_order.dyno", "needs workers: dyno_verify_SUITE has some"},
        {~"go tool pprof", "is another tool's"},
        {~"callgrind_annotate", "is another tool's"}
    ].

%% What else than 0 is right. Whether thresholds and properties hold is the machine's affair.
statuses() ->
    [
        {~"--threshold", [0, 1]},
        {~"--fail-if", [0, 1]},
        {~"dyno verify", [0, 1]},
        {~"dyno test", [0, 1]},
        {~"dyno.test", [0, 1]}
    ].

init_per_group(in_a_clone, Config) ->
    Folder = filename:join(proplists:get_value(priv_dir, Config), "clone"),
    ok = clone(Folder),
    %% As `make` does, of what is compiled for the tests.
    _ = dyno_escript:build(filename:join(Folder, "dyno")),
    [{clone, Folder} | Config].

end_per_group(in_a_clone, _Config) ->
    ok.

%% A line that is new is run, unless somebody says why not.
each_line_is_run_or_listed(_Config) ->
    Lines = [
        {File, Line}
     || File <- dyno_documents:printed(), Line <- dyno_documents:shell_lines(File)
    ],
    ?assert(length(Lines) > 50, length(Lines)),
    ?assertEqual([], [Unknown || {_, {unknown, _}} = Unknown <- Lines]),
    ?assertEqual([], [
        Begin
     || {Begin, _Why} <- not_run(),
        not lists:any(fun({_, {_, Line}}) -> begins(Line, Begin) end, Lines)
    ]).

%% A line that an earlier document has is not run again.
first_documents(Config) ->
    Documents = dyno_documents:printed() -- ?LONG,
    {Each, _} = lists:mapfoldl(
        fun(File, Before) ->
            Lines = lines(File) -- Before,
            {{File, [Line || Line <- Lines, not is_long(Line)]}, Before ++ Lines}
        end,
        [],
        Documents
    ),
    run([{File, lists:uniq(shops(File) ++ Lines)} || {File, Lines} <- Each], Config).

long_documents(Config) ->
    run([{File, lines(File)} || File <- ["doc/record.md" | ?LONG]], Config).

%% Ten runs of dyno record, and what compares them.
is_long(Line) -> binary:match(Line, ~"before.json") =/= nomatch.

shops(File) -> [Line || Line <- lines(File), begins(Line, ~"./dyno demo")].

lines(File) ->
    [
        string:trim(hd(binary:split(Line, ~" #")))
     || {command, Line} <- lists:uniq(dyno_documents:shell_lines(File)),
        not lists:any(fun({Begin, _}) -> begins(Line, Begin) end, not_run())
    ].

%% What all documents begin with.
builds(Config) ->
    Folder = copy("builds", Config),
    ok = file:delete(filename:join(Folder, "dyno")),
    {0, _} = shell(~"make", Folder, environment(Folder)),
    {0, Version} = shell(~"./dyno version", Folder, environment(Folder)),
    ?assertMatch(<<"dyno ", _/binary>>, Version).

%% doc/start.md in a project of a reader who has rebar3 or Elixir: its lines, with the suite that
%% they write and then with the one that it shows.
project_of_rebar3(Config) ->
    Files = [
        {"rebar.config", shown(~"erlang", ~"{plugins,", Config)},
        {"src/shop.app.src",
            "{application, shop, [{vsn, \"1\"}, {applications, [kernel, stdlib]}]}.\n"},
        {"src/shop.erl", "-module(shop).\n-export([price/1]).\nprice(N) -> lists:seq(1, N).\n"}
    ],
    Suite = shown(~"erlang", ~"-module(shop_perf)", Config),
    project("rebar3", Files, {"perf/shop_perf.erl", Suite}, Config).

project_of_mix(Config) ->
    Dependency = shown(~"elixir", ~"defp deps", Config),
    Files = [
        {"mix.exs", [
            "defmodule Shop.MixProject do\n  use Mix.Project\n",
            "  def project, do: [app: :shop, version: \"1.0.0\", deps: deps()]\n",
            "  def application, do: []\n",
            Dependency,
            "end\n"
        ]},
        {"lib/shop.ex", "defmodule Shop do\n  def price(n), do: Enum.to_list(1..n)\nend\n"}
    ],
    Suite = shown(~"elixir", ~"defmodule ShopPerf", Config),
    project("mix", Files, {"perf/shop_perf.exs", Suite}, Config).

project(Program, Files, {Suite, Text}, Config) ->
    case [os:find_executable(Name) || Name <- lists:usort([Program, "rebar3"])] of
        [_ | _] = Found when hd(Found) =/= false, tl(Found) =/= [false] ->
            Folder = filename:join(proplists:get_value(priv_dir, Config), Program),
            [write(Folder, File) || File <- Files],
            Environment = [
                {"MIX_REBAR3", os:find_executable("rebar3")},
                {"PATH", os:getenv("PATH")}
                | lists:keydelete("PATH", 1, environment(Folder))
            ],
            Lines = [
                Line
             || {command, Line} <- dyno_documents:shell_lines("doc/start.md"),
                begins(Line, iolist_to_binary([Program, $\s]))
            ],
            ?assertMatch([_, _, _ | _], Lines),
            Wrong = [line("doc/start.md", Line, Folder, Environment) || Line <- Lines],
            ?assertEqual([], lists:append(Wrong)),
            ok = write(Folder, {Suite, Text}),
            ?assertEqual([], line("doc/start.md", lists:last(Lines), Folder, Environment));
        _ ->
            {skip, "there is no " ++ Program ++ " or no rebar3 on the PATH"}
    end.

%% A block of doc/start.md, with this clone for dyno's URL.
shown(Language, Part, Config) ->
    [Block] = [
        B
     || B <- dyno_documents:blocks("doc/start.md", Language), binary:match(B, Part) =/= nomatch
    ],
    Clone = unicode:characters_to_binary(proplists:get_value(clone, Config)),
    <<(binary:replace(Block, ~"/path/to/dyno", Clone))/binary, $\n>>.

write(Folder, {Name, Text}) ->
    File = filename:join(Folder, Name),
    ok = filelib:ensure_dir(File),
    ok = file:write_file(File, Text).

run(Documents, Config) ->
    Case = self(),
    ok = dyno_parallel:each(
        fun({File, Lines}) -> Case ! {wrong, document(File, Lines, Config)} end, Documents, ?AT_ONCE
    ),
    Wrong = [
        receive
            {wrong, Lines} -> Lines
        end
     || _ <- Documents
    ],
    ?assertEqual([], lists:append(Wrong)).

%% The lines that ended otherwise than they should.
document(File, Lines, Config) ->
    Folder = copy(filename:basename(File, ".md"), Config),
    Epmd = integer_to_list(free_port()),
    Environment = [{"ERL_EPMD_PORT", Epmd} | environment(Folder)],
    {Shops, Others} = lists:partition(fun(Line) -> begins(Line, ~"./dyno demo") end, Lines),
    Open = [open_shop(Line, Folder, Environment) || Line <- Shops],
    try
        lists:append([line(File, Line, Folder, Environment) || Line <- Others])
    after
        lists:foreach(fun close_shop/1, Open),
        os:cmd(epmd() ++ " -port " ++ Epmd ++ " -kill")
    end.

line(File, Line, Folder, Environment) ->
    Begin = erlang:monotonic_time(millisecond),
    {Status, Output} = shell(Line, Folder, [{"DYNO_AT_MOST", "400ms"} | Environment]),
    Ms = erlang:monotonic_time(millisecond) - Begin,
    ct:log("~b ms, status ~b: ~ts: ~ts~n~ts", [Ms, Status, File, Line, Output]),
    Right = [S || {Part, S} <- statuses(), binary:match(Line, Part) =/= nomatch],
    case lists:member(Status, hd(Right ++ [[0]])) of
        true -> [];
        false -> [{File, Line, Status, Output}]
    end.

begins(Line, Begin) ->
    string:prefix(Line, Begin) =/= nomatch.

copy(Name, Config) ->
    Clone = proplists:get_value(clone, Config),
    Folder = Clone ++ "-" ++ Name,
    "" = os:cmd("cp -al '" ++ Clone ++ "' '" ++ Folder ++ "'"),
    Folder.

%% The shop

open_shop(Line, Folder, Environment) ->
    Port = typed(<<"exec ", Line/binary>>, Folder, Environment),
    opened(Port, <<>>).

opened(Port, Before) ->
    receive
        {Port, {data, More}} ->
            Text = <<Before/binary, More/binary>>,
            case binary:match(Text, ~"In another terminal") of
                nomatch -> opened(Port, Text);
                _ -> Port
            end;
        {Port, {exit_status, Status}} ->
            error({shop, Status, Before})
    end.

close_shop(Port) ->
    {os_pid, Pid} = erlang:port_info(Port, os_pid),
    ok = dyno_escript:kill("TERM", Pid),
    {130, _} = dyno_command:output(Port).

%% The shell

shell(Line, Folder, Environment) ->
    dyno_command:output(typed(Line, Folder, Environment)).

typed(Line, Folder, Environment) ->
    Variables = [Name ++ "=" ++ Value || {Name, Value} <- Environment],
    open_port({spawn_executable, os:find_executable("env")}, [
        {args, ["-i" | Variables] ++ ["sh", "-c", Line]},
        {cd, Folder},
        exit_status,
        stderr_to_stdout,
        binary
    ]).

%% As in a new account. The OTP that `make` has brought for these tests is brought already.
environment(Folder) ->
    Home = Folder ++ "-home",
    ok = filelib:ensure_path(Home),
    Store = os:getenv("DYNO_OTP_DIR", filename:join(dyno_project:root(), ".otp")),
    Path =
        case filelib:wildcard(filename:join(Store, "*/.complete")) of
            [_ | _] -> "/usr/bin:/bin";
            [] -> os:getenv("PATH")
        end,
    [
        {"PATH", Path},
        {"HOME", Home},
        {"TMPDIR", os:getenv("TMPDIR", "/tmp")},
        {"LC_ALL", "C.UTF-8"},
        {"DYNO_OTP_DIR", Store}
    ].

%% What git has of this checkout or would add to it, as a repository of its own.
clone(Folder) ->
    ok = filelib:ensure_path(Folder),
    Root = dyno_project:root(),
    Git = "git -c safe.directory='*' -c user.name=a -c user.email=a@b",
    Line =
        [
            Git,
            " ls-files -z --cached --others --exclude-standard | ",
            "xargs -0 sh -c 'for f do [ ! -e \"$f\" ] || echo \"$f\"; done' sh | ",
            "tar cf - -T - | tar xf - -C '",
            Folder,
            "' && cd '",
            Folder,
            "' && ",
            Git,
            " init -q -b main && ",
            Git,
            " add -A && ",
            Git,
            " commit -qm Clone"
        ],
    Environment = [{"PATH", os:getenv("PATH")}, {"HOME", Folder}],
    {0, _} = shell(unicode:characters_to_binary(Line), Root, Environment),
    ok.

free_port() ->
    {ok, Socket} = gen_tcp:listen(0, [{ip, {127, 0, 0, 1}}]),
    {ok, Port} = inet:port(Socket),
    ok = gen_tcp:close(Socket),
    Port.

epmd() ->
    Version = erlang:system_info(version),
    filename:join([code:root_dir(), "erts-" ++ Version, "bin", "epmd"]).
