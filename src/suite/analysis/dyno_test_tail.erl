%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_test_tail).
-moduledoc """
Where to look if the slowest responses of a run take far longer than the median: processes of the
targets that wait inside a call, and the longest callback of a server. Pure.

A server that waits inside a callback serves nobody. It is told from processes that wait for work by
its other waits: it also waits in its loop, which no function of the application calls. A process
that waits for a reply is named, too. A process that only sleeps waits for no message.
""".

-export([is_far/1, cause/1]).

-import(dyno_recording_part, [text/2]).

%% So many times the median, and so long.
-define(FAR, 20).
-define(LONG_NS, 10_000_000).
%% Of fewer operations the 99th percentile is one of them.
-define(LEAST_OPERATIONS, 100).
%% Processes that wait, in the mean.
-define(LEAST_WAITING, 0.01).
-define(MOST_NAMED, 2).

-doc "By what factor the p99 of the response time is above the median, if that is far.".
-spec is_far(dyno_recording:run()) -> {true, P50 :: number(), P99 :: number()} | false.
is_far(Run) ->
    Value = fun(Name) -> [V || {V, _Unit} <- dyno_test_sizes:metric(Name, Run)] end,
    case {Value(~"latency.p50"), Value(~"latency.p99"), Value(~"operations.count")} of
        {[P50], [P99], [Count]} when
            P50 > 0, P99 >= ?FAR * P50, P99 >= ?LONG_NS, Count >= ?LEAST_OPERATIONS
        ->
            {true, P50, P99};
        _ ->
            false
    end.

-doc "A sentence's second part: what is seen to wait, or that nothing is.".
-spec cause(dyno_recording:run()) -> binary().
cause(Run) ->
    case waits(Run) ++ callback(Run) of
        [] ->
            ~"no process of the targets is seen to wait in a call; measure its servers (--servers)";
        Parts ->
            dyno_recording_check:text(lists:join("; ", Parts))
    end.

waits(Run) ->
    Rows = [R || #{~"waiting" := N} = R <- dyno_recording:rows(Run, ~"waiting"), is_number(N)],
    Idle = #{Group => [] || #{~"processes" := Group, ~"caller" := null} <- Rows},
    Inside = [
        {{is_map_key(Group, Idle), N}, Row}
     || #{~"processes" := Group, ~"caller" := Caller, ~"call" := Call, ~"waiting" := N} = Row <-
            Rows,
        Caller =/= null,
        N >= ?LEAST_WAITING,
        is_map_key(Group, Idle) orelse is_for_reply(Call)
    ],
    [
        text("~ts waits in ~ts, called by ~ts (~ts)", [Group, Call, Caller, mean(N, Group, Run)])
     || {_, #{
            ~"processes" := Group, ~"caller" := Caller, ~"call" := Call, ~"waiting" := N
        }} <- lists:sublist(lists:reverse(lists:keysort(1, Inside)), ?MOST_NAMED)
    ].

is_for_reply(Call) ->
    lists:member(Call, [
        ~"gen:do_call/4", ~"gen_server:call/2", ~"gen_server:call/3", ~"gen_statem:call/2",
        ~"gen_statem:call/3", ~"gen_server:multi_call/4"
    ]).

%% A share of the time if there is one such process; else how many, in the mean.
mean(N, Group, Run) ->
    case [Most || #{~"group" := Of, ~"discovered" := Most} <- processes(Run), Of =:= Group] of
        [1] -> [dyno_unit:format(min(1.0, float(N)), ~"ratio"), " of the time"];
        _ -> [dyno_unit:format(N, ~"count"), " processes in the mean"]
    end.

processes(Run) -> dyno_recording:rows(Run, ~"processes").

callback(Run) ->
    Callbacks = [
        {P99, Server, Name}
     || #{~"server" := Server, ~"callback" := Name, ~"p99" := P99} <-
            dyno_recording:rows(Run, ~"callbacks"),
        is_number(P99)
    ],
    [
        text("the longest callback is ~ts of ~ts: ~ts (p99)", [
            Name, Server, dyno_unit:format(P99, ~"ns")
        ])
     || Callbacks =/= [], {P99, Server, Name} <- [lists:max(Callbacks)]
    ].
