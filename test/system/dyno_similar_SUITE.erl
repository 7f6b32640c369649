%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_similar_SUITE).

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

newest_release_only() -> all.

all() ->
    [nearest, closest, slips].

nearest(_Config) ->
    ?assertEqual({ok, "--sizes"}, dyno_similar:nearest("--sises", ["--level", "--sizes"])),
    ?assertEqual({ok, ~"cowboy"}, dyno_similar:nearest("cowbyo", [~"ranch", ~"cowboy"])),
    ?assertEqual(none, dyno_similar:nearest("--sizes", ["-v"])),
    ?assertEqual(none, dyno_similar:nearest("load", ["level"])),
    ?assertEqual(none, dyno_similar:nearest("x", [])).

closest(_Config) ->
    ?assertEqual(["same", "some", "x"], dyno_similar:closest("same", ["x", "some", "same", "x"])),
    ?assertEqual(
        ["same", "some", "sum"], dyno_similar:closest("same", ["x", "sum", "some", "same"])
    ),
    %% A name's end, before names that are as short.
    ?assertEqual(
        [~"latency.p99", ~"load.latency.p99", ~"ports"],
        dyno_similar:closest(~"p99", [~"ports", ~"load.latency.p99", ~"latency.p99"])
    ),
    ?assertEqual("", dyno_similar:closest_are([])).

%% What warns about a name that works is surer than what explains one that does not.
slips(_Config) ->
    ?assert(dyno_similar:is_slip("init_workers", "init_worker")),
    ?assertNot(dyno_similar:is_slip("end_run", "init_run")),
    ?assertNot(dyno_similar:is_slip("load_data", "load")),
    ?assertMatch({ok, _}, dyno_similar:nearest("load_data", ["load"])).
