%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_finding_course).
-moduledoc """
Finds tests whose load did not have the same answers all the time: response times that rise or fall
within a run, and times in which no operation succeeded. Pure.

Neither shows in the figures of the whole run. A closed load begins few operations while its target
is away, so the share of errors is far below that of the time.
""".

-export([findings/1, drift/2]).

-import(dyno_recording_part, [text/2]).

%% Shorter times without a success may be chance, and so are times in which fewer would come.
-define(AWAY_NS, 200_000_000).
-define(SUCCESSES, 20).
%% Response times of a few microseconds depend on the caches.
-define(NOTICEABLE_NS, 10_000).

-doc "Of each size, its last run; a search changes the load itself.".
-spec findings(dyno_recording:document()) -> [dyno_finding:t()].
findings(Document) ->
    Label = dyno_sizes_words:label(Document),
    lists:append([
        away(Run, At) ++ [F || not is_behind(Run), F <- drifts(Run, At)]
     || {Size, Runs} <- dyno_sizes:runs(Document),
        Run <- [lists:last(Runs)],
        dyno_recording:tables(Run, ~"probes") =:= [],
        At <- [dyno_sizes_words:with(Size, Label)]
    ]).

%% A queue that grows, of which another finding tells.
is_behind(Run) ->
    [] =/=
        [
            x
         || Offered <- dyno_sizes:values(~"load.offered", Run),
            Served <- dyno_sizes:values(~"throughput", Run),
            Served < dyno_finding_limits:value(of_offered) * Offered
        ].

%% A load that changes by its plan has other response times.
is_even(Run) ->
    Offered = [Rate || {_, Rate} <- points(~"load.offered", Run)],
    dyno_recording:tables(Run, ~"phases") =:= [] andalso
        (Offered =:= [] orelse lists:max(Offered) =< 1.5 * lists:min(Offered)).

points(Name, Run) ->
    [
        Point
     || #{~"times_ms" := Times, ~"values" := Values} <- dyno_recording:series(Run, Name),
        {_, Value} = Point <- lists:zip(Times, Values),
        is_number(Value)
    ].

-doc "How the metric `latency.p50` or `latency.p99` changed from the first third to the last.".
-spec drift(binary(), dyno_recording:run()) ->
    {up | down, EarlyNs :: number(), LateNs :: number()} | none.
drift(<<"latency.p", _/binary>> = Name, Run) ->
    Values = [Ns || {_, Ns} <- points(<<"load.", Name/binary>>, Run)],
    case dyno_stats_trend:of_values(Values, dyno_finding_limits:value(drift)) of
        {none, _, _} ->
            none;
        {Direction, EarlyNs, LateNs} ->
            IsDrift = abs(LateNs - EarlyNs) > ?NOTICEABLE_NS andalso is_even(Run),
            hd([{Direction, EarlyNs, LateNs} || IsDrift] ++ [none])
    end;
drift(_Name, _Run) ->
    none.

%% The median first: it is the surer.
drifts(Run, At) ->
    Found = [
        drifting(Of, Direction, {EarlyNs, LateNs}, At)
     || Of <- ["p50", "p99"],
        {Direction, EarlyNs, LateNs} <- [drift(list_to_binary(["latency.", Of]), Run)]
    ],
    lists:sublist(Found, 1).

drifting(Of, Direction, {Early, Late}, At) ->
    [FromNs, ToNs] = [dyno_unit:format(Ns, ~"ns") || Ns <- [Early, Late]],
    dyno_finding:new(drift, none, #{
        severity => doubt,
        subject => ~"latency",
        value => max(Early, Late) / max(1, min(Early, Late)),
        text => text(
            "~ts responses took ~ts in the first third of the run and ~ts in the last (~s): all "
            "figures depend on how long it lasted",
            [At, FromNs, ToNs, Of]
        ),
        advice =>
            case Direction of
                up -> <<
                    "Look for what grows in the targets (tables, queues, heaps), or for programs "
                    "that began meanwhile. Compare it only with runs of the same length."
                >>;
                down -> ~"Warm up for longer (warmup_ms)."
            end
    }).

%% In intervals of the run.
away(Run, At) ->
    Points = points(~"load.throughput", Run),
    Rates = [Rate || {_, Rate} <- Points],
    Failed = lists:sum([0 | [Rate || {_, Rate} <- points(~"load.errors", Run)]]),
    Longest = longest(Rates, {0, 0}),
    [
        dyno_finding:new(away, none, #{
            severity => warning,
            subject => ~"throughput",
            value => Share,
            text => text("~ts no operation succeeded for about ~ts, ~ts of the run", [
                At, dyno_unit:format(LongNs, ~"ns"), dyno_unit:format(Share, ~"ratio")
            ]),
            advice => <<
                "Look why the target was away. Workers that wait for it begin few operations, so "
                "the share of errors may be too low; an open load (--rate) shows that of arrivals."
            >>
        })
     || Failed > 0,
        Longest > 1,
        {FirstMs, _} <- [hd(Points)],
        {LastMs, _} <- [lists:last(Points)],
        LongNs <- [1.0e6 * Longest * (LastMs - FirstMs) / (length(Points) - 1)],
        Share <- [Longest / length(Points)],
        LongNs >= ?AWAY_NS,
        %% As many as would come in that time.
        LongNs * lists:sum(Rates) / length(Rates) >= ?SUCCESSES * 1.0e9
    ].

%% The most zeros in a row.
longest([], {Now, Most}) -> max(Now, Most);
longest([Rate | Rates], {Now, Most}) when Rate == 0 -> longest(Rates, {Now + 1, Most});
longest([_ | Rates], {Now, Most}) -> longest(Rates, {0, max(Now, Most)}).
