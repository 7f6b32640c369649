%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_health_receives_SUITE).
-moduledoc "Which receives of compiled code search the mailbox, for `dyno doctor --code`.".

-include_lib("common_test/include/ct.hrl").
-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

suite() -> [{timetrap, {minutes, 1}}].

each_release() -> [each_receive].

all() -> [each_receive, a_folder, what_otp_has, no_code].

each_receive(_Config) ->
    [
        ?assertEqual({ok, [], Of}, dyno_health_receives:searching(beam(Source)), Source)
     || {Of, Source} <- [
            %% A value from before: the process.
            {
                [#{function => ~"m:f/1", matches => value}],
                "f(Db) -> receive {Db, Answer} -> Answer end. "
            },
            {
                [#{function => ~"m:f/1", matches => value}],
                "f(Ref) -> receive {_, Ref} -> ok after 1000 -> timeout end. "
            },
            %% A reference made before the request: the search begins there.
            {[], "f(Db) -> Ref = make_ref(), Db ! {self(), Ref}, receive {Ref, A} -> A end. "},
            {[], "f(Db) -> Ref = monitor(process, Db), receive {'DOWN', Ref, _, _, _} -> ok end. "},
            %% Each message is taken.
            {[], "f(S) -> receive M -> f([M | S]) end. "},
            {[], "f(S) -> receive {a, M} -> f([M | S]); _ -> f(S) end. "},
            {
                [#{function => ~"m:f/1", matches => tag}],
                "f(S) -> receive {a, M} -> f([M | S]) end. "
            },
            %% Two parts of one message are compared, nothing from before.
            {[#{function => ~"m:f/1", matches => tag}], "f(S) -> receive {X, X} -> S end. "},
            {[], "f(S) -> timer:sleep(S). "}
        ]
    ].

%% In a folder: with severities, and the words for a server's callback.
a_folder(Config) ->
    Folder = filename:join(?config(priv_dir, Config), "ebin"),
    ok = filelib:ensure_path(Folder),
    ok = dyno_peers:save(
        Folder,
        "-module(shop). -behaviour(gen_server). -export([handle_call/3, ask/1]). "
        "handle_call(_, _, S) -> receive {stock, N} -> {reply, N, S} end. "
        "ask(Db) -> receive {Db, A} -> A end. "
    ),
    ok = file:write_file(filename:join(Folder, "broken.beam"), ~"no beam"),
    {ok, #{~"runs" := [Run], ~"verdicts" := [#{~"result" := ~"pass"}]}} =
        dyno_doctor:of_code([list_to_binary(Folder)]),
    ?assertEqual(
        [{warning, ~"shop:ask/1"}, {warning, ~"shop:handle_call/3"}],
        lists:sort([
            {Severity, Subject}
         || {_, #{severity := Severity, subject := Subject}} <- dyno_finding:read(Run),
            Severity =/= doubt
        ])
    ),
    ?assertMatch([_], [F || {_, #{severity := doubt} = F} <- dyno_finding:read(Run)]).

%% gen:call has its reference; these functions of disk_log have not.
what_otp_has(_Config) ->
    Of = fun(Module) ->
        {Module, Beam, _} = code:get_object_code(Module),
        {ok, _, All} = dyno_health_receives:searching(Beam),
        [F || #{function := F, matches := value} <- All]
    end,
    ?assertEqual([], [F || F <- Of(gen), F =:= ~"gen:do_call/4"]),
    ?assert(lists:member(~"disk_log:monitor_request/2", Of(disk_log)), Of(disk_log)).

no_code(Config) ->
    {error, Error} = dyno_doctor:of_code([list_to_binary(?config(priv_dir, Config))]),
    ?assertMatch([_, _], string:split(dyno_error:format(Error), "no .beam file")),
    ?assertEqual(caller, dyno_error:fault(Error)).

beam(Source) ->
    {ok, m, Beam} = compile:forms(dyno_peers:forms("-module(m). -export([f/1]). " ++ Source), []),
    Beam.
