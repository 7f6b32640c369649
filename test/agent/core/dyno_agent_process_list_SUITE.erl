%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_process_list_SUITE).

-compile([nowarn_missing_spec_all]).

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

-define(COUNT, 5000).

suite() -> [{timetrap, {minutes, 1}}].

all() -> [meets_each_once, parts_are_of_the_wished_length, some_are_spread].

init_per_testcase(_Case, Config) ->
    [{pids, [spawn(fun idle/0) || _ <- lists:seq(1, ?COUNT)]} | Config].

end_per_testcase(_Case, Config) ->
    [exit(Pid, kill) || Pid <- proplists:get_value(pids, Config)].

idle() ->
    receive
        never -> ok
    end.

meets_each_once(Config) ->
    Met = dyno_agent_process_list:fold(
        fun(Pid, Met) -> maps:update_with(Pid, fun(N) -> N + 1 end, 1, Met) end, #{}
    ),
    ?assertEqual([1], lists:usort(maps:values(Met))),
    ?assertEqual([], [Pid || Pid <- proplists:get_value(pids, Config), not is_map_key(Pid, Met)]).

parts_are_of_the_wished_length(Config) ->
    {Lengths, Pids} = parts(dyno_agent_process_list:first(), [], []),
    [_Last | Others] = Lengths,
    ?assertEqual([700], lists:usort(Others)),
    ?assertEqual([], proplists:get_value(pids, Config) -- Pids).

parts(none, Lengths, Pids) ->
    {Lengths, Pids};
parts(Place, Lengths, Pids) ->
    {Part, Next} = dyno_agent_process_list:next(700, Place),
    parts(Next, [length(Part) | Lengths], Part ++ Pids).

some_are_spread(Config) ->
    ?assertEqual(
        [], proplists:get_value(pids, Config) -- dyno_agent_process_list:some(10 * ?COUNT)
    ),
    Some = dyno_agent_process_list:some(500),
    ?assert(length(Some) > 400 andalso length(Some) =< 510, length(Some)),
    %% As many of the older half as of the younger.
    Older = lists:sublist(proplists:get_value(pids, Config), ?COUNT div 2),
    Share = length([Pid || Pid <- Some, lists:member(Pid, Older)]) / length(Some),
    ?assert(Share > 0.4 andalso Share < 0.6, Share).
