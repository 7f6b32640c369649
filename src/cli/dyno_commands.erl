%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_commands).
-moduledoc """
The one list of dyno's commands. A line here and a module of the behaviour `m:dyno_cli_command` add
a command to the program (`dyno NAME`), the rebar3 plugin (`rebar3 dyno NAME`) and Mix
(`mix dyno.NAME`: `make format` writes its module in src/plugin/tasks).
""".

-export([all/0, module/1]).

-doc "Each command's name, module and purpose, in the order of the help.".
-spec all() -> [{Name :: string(), module(), Help :: string()}, ...].
all() ->
    [
        {"bench", dyno_cli_bench, "compare codes: which is faster, by how much, and how sure"},
        {"test", dyno_cli_test, "run a performance test of a system at growing sizes"},
        {"doctor", dyno_cli_doctor, "find faults of a running node, with advice"},
        {"record", dyno_cli_record, "record running nodes with every instrument, without a load"},
        {"top", dyno_cli_top, "show running nodes and their processes live, like htop"},
        {"servers", dyno_cli_servers, "show the server processes of a running node live"},
        {"verify", dyno_cli_verify, "check properties of the processes of a running node"},
        {"profile", dyno_cli_profile, "find the functions that take a node's time or memory"},
        {"trace", dyno_cli_trace, "show calls and messages of a running node as they happen"},
        {"leave", dyno_cli_leave, "remove the modules that dyno left in a large or busy node"},
        {"workload", dyno_cli_workload, "run a synthetic system of a master and workers"},
        {"demo", dyno_cli_demo, "start a small shop to try the other commands with"},
        {"new", dyno_cli_new, "write a suite or a benchmark to start from"},
        {"compare", dyno_cli_compare, "compare two recordings: slower or faster"},
        {"report", dyno_cli_report, "show a recording as text, HTML, CSV, Markdown and more"}
    ].

-doc "The module of a command.".
-spec module(string()) -> {ok, module()} | error.
module(Name) ->
    case lists:keyfind(Name, 1, all()) of
        {Name, Module, _} -> {ok, Module};
        false -> error
    end.
