%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_program_SUITE).
-moduledoc "Programs that are run to their end.".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

suite() -> [{timetrap, {minutes, 1}}].

all() -> [keeps_what_is_printed, may_end_at_once, ends_with_all_it_has_started].

options(Ms) -> #{folder => "/", timeout_ms => Ms}.

keeps_what_is_printed(_Config) ->
    ?assertEqual({ok, ~"a\nb\n"}, dyno_program:run("printf", ["a\\nb\\n"], options(10_000))),
    ?assertEqual(
        {error, {{status, 3}, [~"no"]}},
        dyno_program:run("/bin/sh", ["-c", "echo no; exit 3"], options(10_000))
    ).

%% Of many, some have ended before their number can be asked for.
may_end_at_once(_Config) ->
    Self = self(),
    Run = fun() -> Self ! {ran, dyno_program:run("true", [], options(50_000))} end,
    Busy = [spawn_link(fun Spin() -> Spin() end) || _ <- lists:seq(1, 8)],
    _ = [spawn_link(Run) || _ <- lists:seq(1, 300)],
    Results = [
        receive
            {ran, Result} -> Result
        end
     || _ <- lists:seq(1, 300)
    ],
    _ = [exit(unlinked(Pid), kill) || Pid <- Busy],
    ?assertEqual([{ok, <<>>}], lists:usort(Results)).

unlinked(Pid) ->
    true = unlink(Pid),
    Pid.

%% Its own child prints to the same port, which is closed only when both have ended.
ends_with_all_it_has_started(_Config) ->
    Ends = ["-c", "echo begun; sleep 1000 & wait"],
    ?assertEqual(
        {error, {{timeout, 300}, [~"begun"]}}, dyno_program:run("/bin/sh", Ends, options(300))
    ),
    ?assertEqual(ok, dyno_program:signal("TERM", undefined)).
