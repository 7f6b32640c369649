%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_SUITE).
-moduledoc "The API for the Erlang shell, with a real suite and its real target.".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

suite() -> [{timetrap, {minutes, 5}}].

each_release() -> [compares, servers_of_a_node, errors, version].

all() ->
    [
        tests_and_prints,
        reports,
        reports_to_a_leader_that_is_silent,
        compares,
        has_each_command,
        servers_of_a_node,
        errors,
        version
    ].

tests_and_prints(Config) ->
    Kept = in(Config, "kept.json"),
    Options = #{sizes => [1, 2], duration_ms => 300, warmup_ms => 50, recording => Kept},
    {{ok, Recording}, Printed} = captured(Config, fun() -> dyno:test(example(), Options) end),
    ?assertMatch(#{~"status" := ~"complete", ~"runs" := [_, _]}, Recording),
    ?assertMatch(<<"cache: complete, 2 runs", _/binary>>, Printed),
    ?assertMatch({_, _}, binary:match(Printed, ~"cache_demo:handle_call/3")),
    ?assertEqual({ok, Recording}, dyno_recording_file:read(Kept)),
    %% The same again from the file, and from the document.
    ?assertEqual({ok, Printed}, captured(Config, fun() -> dyno:report(Kept) end)),
    ?assertEqual({ok, Printed}, captured(Config, fun() -> dyno:report(Recording) end)).

reports(Config) ->
    Recording = dyno_recording:new(test, ~"small", #{}, #{}),
    {ok, Json} = captured(Config, fun() -> dyno:report(Recording, json) end),
    ?assertMatch(#{~"name" := ~"small"}, json:decode(Json)),
    Html = in(Config, "small.html"),
    ok = dyno:report(Recording, Html),
    {ok, <<"<!doctype html>", _/binary>>} = file:read_file(Html),
    {ok, ~""} = captured(Config, fun() -> dyno:report(Recording, in(Config, "small.json")) end),
    {ok, Text} = captured(Config, fun() -> dyno:report(in(Config, "small.json")) end),
    ?assertMatch(<<"small: ", _/binary>>, Text).

%% Whoever prints for the caller may answer nothing else.
reports_to_a_leader_that_is_silent(_Config) ->
    Self = self(),
    Leader = spawn_link(fun Prints() ->
        receive
            {io_request, From, As, {put_chars, unicode, Text}} ->
                Self ! {printed, iolist_to_binary(Text)},
                From ! {io_reply, As, ok},
                Prints();
            {io_request, _, _, _} ->
                Prints()
        end
    end),
    Own = group_leader(),
    true = group_leader(Leader, self()),
    ok = dyno:report(dyno_recording:new(test, ~"small", #{}, #{})),
    true = group_leader(Own, self()),
    receive
        {printed, Text} -> ?assertMatch(<<"small: ", _/binary>>, Text)
    end.

compares(Config) ->
    Bench = fun() -> dyno:bench("lists:seq(1, 9).", #{budget_ms => 50}) end,
    {{ok, Old}, _} = captured(Config, Bench),
    {{ok, Compared}, Printed} = captured(Config, fun() -> dyno:compare(Old, Old) end),
    ?assertMatch(#{~"command" := ~"compare"}, Compared),
    ?assertMatch({_, _}, binary:match(Printed, ~"lists:seq(1, 9).")),
    #{~"environment" := Environment} = Old,
    Other = Old#{~"environment" := Environment#{~"otp" := ~"27.0"}},
    {error, Reason} = dyno:compare(Old, Other),
    ?assertMatch({_, _}, binary:match(dyno:format_error(Reason), ~"and is 27.0")),
    {{ok, _}, _} =
        captured(Config, fun() -> dyno:compare(Old, Other, #{incomparable => warn}) end).

%% What makes or shows a recording at the command line does so in the shell; `new` writes a file,
%% and `demo` keeps a terminal busy.
has_each_command(_Config) ->
    Functions = [Name || {Name, _} <- dyno:module_info(exports)],
    Commands = [list_to_atom(Name) || {Name, _, _} <- dyno_commands:all()],
    ?assertEqual([demo, new], lists:sort(Commands -- Functions)).

errors(Config) ->
    Empty = dyno_recording:new(test, ~"a", #{}, #{}),
    Sentences = [
        begin
            {error, Reason} = Call(),
            Sentence = dyno:format_error(Reason),
            ?assertMatch({_, _}, binary:match(Sentence, Part), Sentence),
            Sentence
        end
     || {Call, Part} <- [
            {fun() -> dyno:test("missing.erl") end, ~"missing.erl"},
            {fun() -> dyno:test(no_such_suite) end, ~"no_such_suite"},
            {fun() -> dyno:test(example(), #{sizes => [0]}) end, ~"positive integers"},
            {fun() -> dyno:test(example(), #{duration => 100}) end, ~"duration_ms"},
            {fun() -> dyno:profile(node(), #{for_s => 1}) end, ~"for_ms"},
            {fun() -> dyno:report("missing.json") end, ~"no such file"},
            {fun() -> dyno:report(#{}) end, ~"no recording of dyno"},
            {fun() -> dyno:report(Empty, pdf) end, ~"console, json, jsonl, html"},
            {fun() -> dyno:report(Empty, "a.pdf") end, ~".html"},
            {fun() -> dyno:report(Empty, in(Config, "no/no/a.txt")) end, ~"there is no folder"}
        ]
    ],
    ?assertEqual([], [S || S <- Sentences, binary:match(S, ~"\n") =/= nomatch]).

version(_Config) ->
    ?assertMatch({match, _}, re:run(dyno:version(), "^[0-9]+\\.[0-9]+\\.[0-9]+")).

example() ->
    filename:join([dyno_project:root(), "examples", "cache_demo.erl"]).

in(Config, Name) ->
    filename:join(proplists:get_value(priv_dir, Config), Name).

%% What a function prints, and what it returns.
captured(Config, Function) ->
    Path = in(Config, "printed.txt"),
    {ok, Device} = file:open(Path, [write, {encoding, utf8}]),
    Shell = group_leader(),
    group_leader(Device, self()),
    Result =
        try
            Function()
        after
            group_leader(Shell, self())
        end,
    ok = file:close(Device),
    {ok, Printed} = file:read_file(Path),
    {Result, Printed}.

%% It prints what the command prints, too.
servers_of_a_node(Config) ->
    {ok, Node} = dyno_peer:start(#{name => "servers"}),
    {{ok, Recording}, Printed} = captured(
        Config, fun() -> dyno:servers(Node, #{for_ms => 1500, servers => [~"kernel_sup"]}) end
    ),
    ok = dyno_peer:stop(Node),
    ?assertMatch(#{~"command" := ~"servers", ~"status" := ~"complete"}, Recording),
    ?assertMatch({_, _}, binary:match(Printed, ~"kernel_sup")).
