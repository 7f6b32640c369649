%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_finding_tail).
-moduledoc """
Finds causes of response times far above the median: processes of the targets that wait inside a
call, and the longest callback of a server. Pure.

A server that waits inside a callback serves no other. Its other waits tell it from idle processes:
it also waits in its loop, which no function of the application calls. A process waiting for a reply
is named too. A sleeping process waits for no message.
""".

-export([is_far/1, cause/2, full/1, longest/2]).

-import(dyno_recording_part, [text/2]).

%% Shorter times are not long, with any median.
-define(LONG_NS, 10_000_000).
%% With fewer operations the 99th percentile is one of them.
-define(LEAST_OPERATIONS, 100).
-define(LEAST_WAITING, 0.01).
-define(MOST_NAMED, 2).
%% If other programs take more of the processors, work waits for one.
-define(MOST_OF_ALL, 0.5).
%% A call is long by this share of p99, and if it is so many times the median.
-define(LONG_SHARE, 0.2).
-define(LONGER, 5).
-define(SHORTEN, <<
    "Shorten the wait, or have the work done by a process of its own: all messages behind it wait "
    "as long."
>>).

-doc "The median and p99 of the response time, if far apart.".
-spec is_far(dyno_recording:run()) -> {true, P50 :: number(), P99 :: number()} | false.
is_far(Run) ->
    Far = dyno_finding_limits:value(far_tail),
    Value = fun(Name) -> dyno_sizes:values(Name, Run) end,
    case {Value(~"latency.p50"), Value(~"latency.p99"), Value(~"operations.count")} of
        {[P50], [P99], [Count]} when
            P50 > 0, P99 >= Far * P50, P99 >= ?LONG_NS, Count >= ?LEAST_OPERATIONS
        ->
            {true, P50, P99};
        _ ->
            false
    end.

-doc "For a finding: the process, the time without success, or other programs' share; advice.".
-spec cause(dyno_recording:run(), Others :: number()) ->
    {Cause :: unicode:chardata(), Evidence :: binary(), Advice :: binary()}.
cause(Run, Others) ->
    Callback = [
        text("the longest callback is ~ts of ~ts: ~ts (~ts)", [
            Name, Server, dyno_unit:format(Ns, ~"ns"), Which
        ])
     || {Ns, Which, Server, Name} <- longest(all, Run)
    ],
    Seen = waits(Run) ++ Callback,
    case {Seen ++ [Of || Seen =:= [], Of <- long_calls(Run)], dyno_finding_course:absence(Run)} of
        {[], {ok, LongNs, _}} ->
            {
                [": no operation succeeded for at least ", dyno_unit:format(LongNs, ~"ns")],
                ~"",
                ~"Look why the target was away: stopped, or waiting for something itself?"
            };
        {[], none} when Others > ?MOST_OF_ALL ->
            Share = dyno_unit:format(Others, ~"ratio"),
            {
                [": other programs took at least ", Share, " of the processors"],
                ~"",
                ~"End the other programs, or test on a machine of its own."
            };
        {[], none} ->
            {
                ~"",
                ~"No process of the targets is seen to wait in a call.",
                ~"Measure the servers of the targets (--servers): the longest callbacks are named."
            };
        {Parts, _} ->
            {[": ", lists:join("; ", Parts)], ~"", ?SHORTEN}
    end.

%% The rare call that computes longest, if much longer than the median response.
long_calls(Run) ->
    Long = [
        {TotalNs / Calls, Function}
     || {true, P50, P99} <- [is_far(Run)],
        #{~"function" := Function, ~"calls" := Calls, ~"total_time_low" := TotalNs} <-
            dyno_recording:rows(Run, ~"functions"),
        is_number(Calls),
        Calls > 0,
        is_number(TotalNs),
        TotalNs / Calls >= max(?LONG_SHARE * P99, ?LONGER * P50)
    ],
    case Long of
        [] ->
            [];
        _ ->
            {Ns, Function} = lists:max(Long),
            Format = "a call of ~ts takes ~ts of processor time or more",
            [text(Format, [Function, dyno_unit:format(Ns, ~"ns")])]
    end.

-doc "The process that waits inside a call for most of the time, and advice, if there is one.".
-spec full(dyno_recording:run()) -> [{Text :: binary(), Advice :: binary()}].
full(Run) ->
    [
        {<<": ", Text/binary>>, ?SHORTEN}
     || {Share, Text} <- lists:sublist(waiting(Run), 1), Share >= ?MOST_OF_ALL
    ].

%% In dyno's own node the load's workers wait for the target, or for their time.
waits(Run) -> [Text || {_, Text} <- waiting(Run)].

waiting(Run) ->
    Rows = [
        R
     || #{~"waiting" := N, ~"processes" := Group} = R <- dyno_recording:rows(Run, ~"waiting"),
        is_number(N),
        string:prefix(Group, ~"dyno_load_worker:") =:= nomatch
    ],
    Idle = #{Group => [] || #{~"processes" := Group, ~"caller" := null} <- Rows},
    Inside = [
        {{is_map_key(Group, Idle), N}, Row}
     || #{~"processes" := Group, ~"caller" := Caller, ~"call" := Call, ~"waiting" := N} = Row <-
            Rows,
        Caller =/= null,
        N >= ?LEAST_WAITING,
        is_map_key(Group, Idle) orelse is_for_reply(Call)
    ],
    Format = "~ts waits in ~ts, called by ~ts (~ts)",
    [
        {N, text(Format, [Group, Call, Caller, mean(N, Group, Run)])}
     || {_, #{
            ~"processes" := Group, ~"caller" := Caller, ~"call" := Call, ~"waiting" := N
        }} <- lists:sublist(lists:reverse(lists:keysort(1, Inside)), ?MOST_NAMED)
    ].

is_for_reply(Call) ->
    lists:member(Call, [
        ~"gen:do_call/4",
        ~"gen_server:call/2",
        ~"gen_server:call/3",
        ~"gen_statem:call/2",
        ~"gen_statem:call/3",
        ~"gen_server:multi_call/4"
    ]).

mean(N, Group, Run) ->
    case [Most || #{~"group" := Of, ~"discovered" := Most} <- processes(Run), Of =:= Group] of
        [1] -> [dyno_unit:format(min(1.0, float(N)), ~"ratio"), " of the time"];
        _ -> [dyno_unit:format(N, ~"count"), " processes in the mean"]
    end.

processes(Run) -> dyno_recording:rows(Run, ~"processes").

-doc "The callback with the highest p99, or time if it ran seldom, of these servers or of all.".
-spec longest([binary()] | all, dyno_recording:run()) ->
    [{Ns :: number(), Which :: binary(), Server :: binary(), Callback :: binary()}].
longest(Servers, Run) ->
    Callbacks = [
        {Ns, Which, Server, Name}
     || #{~"server" := Server, ~"callback" := Name} = Row <-
            dyno_recording:rows(Run, ~"callbacks"),
        Servers =:= all orelse lists:member(Server, Servers),
        {Ns, Which} <- time(Row)
    ],
    [lists:max(Callbacks) || Callbacks =/= []].

time(#{~"p99" := P99}) when is_number(P99) -> [{P99, ~"p99"}];
time(#{~"max" := Ns}) when is_number(Ns) -> [{Ns, ~"the longest"}];
time(_Row) -> [].
