%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_finding_course).
-moduledoc """
Finds tests whose load did not have the same answers all the time: response times that rise or fall
within a run, and times in which no operation succeeded. Pure.

Neither shows in the figures of the whole run. A closed load begins few operations while its target
is away, so the share of errors is far below that of the time.
""".

-export([findings/1, drift/2, change/2, points/2, is_even/1, absence/1]).

-import(dyno_recording_part, [text/2]).

%% Shorter times without a success may be chance, and so are times in which fewer would come.
-define(AWAY_NS, 200_000_000).
-define(SUCCESSES, 20).
%% Response times of a few microseconds depend on the caches.
-define(NOTICEABLE_NS, 10_000).
%% The metrics of response times; those of an operation or a phase have no course of their own.
-define(TIMES, "^((?:(?:operation|phase)\\..+\\.)?(?:latency|service)\\..+)$").

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

-doc "Whether the load is constant: a load that changes by its plan has other response times.".
-spec is_even(dyno_recording:run()) -> boolean().
is_even(Run) ->
    Offered = [Rate || {_, Rate} <- points(~"load.offered", Run)],
    dyno_recording:tables(Run, ~"phases") =:= [] andalso
        (Offered =:= [] orelse lists:max(Offered) =< 1.5 * lists:min(Offered)).

-doc "The times and the known values of a series of a run.".
-spec points(binary(), dyno_recording:run()) -> [{TimeMs :: integer(), number()}].
points(Name, Run) ->
    [
        Point
     || #{~"times_ms" := Times, ~"values" := Values} <- dyno_recording:series(Run, Name),
        {_, Value} = Point <- lists:zip(Times, Values),
        is_number(Value)
    ].

-doc """
How response times behind a metric changed from the first third to the last: of `latency.p50` and
`latency.p99` by themselves, of others if one of these does, and of a closed load's throughput.
""".
-spec drift(binary(), dyno_recording:run()) ->
    {up | down, Of :: binary(), EarlyNs :: number(), LateNs :: number()} | none.
drift(Name, Run) ->
    Courses =
        case re:run(Name, ?TIMES, [{capture, all_but_first, binary}]) of
            {match, [Of]} when Of =:= ~"latency.p50"; Of =:= ~"latency.p99" -> [Of];
            {match, _} -> [~"latency.p50", ~"latency.p99"];
            nomatch when Name =:= ~"throughput" -> [~"latency.p50" || is_closed(Run)];
            nomatch -> []
        end,
    hd([Drift || Of <- Courses, Drift <- course(Of, Run)] ++ [none]).

is_closed(Run) -> points(~"load.offered", Run) =:= [].

course(Of, Run) ->
    Values = [Ns || {_, Ns} <- points(<<"load.", Of/binary>>, Run)],
    case dyno_stats_trend:of_values(Values, dyno_finding_limits:value(drift)) of
        {none, _, _} ->
            [];
        {Direction, EarlyNs, LateNs} ->
            IsDrift = abs(LateNs - EarlyNs) > ?NOTICEABLE_NS andalso is_even(Run),
            [{Direction, Of, EarlyNs, LateNs} || IsDrift]
    end.

-doc "The logarithm of the factor by which response times behind a metric changed, or 0.0.".
-spec change(binary(), dyno_recording:run()) -> float().
change(Name, Run) ->
    case drift(Name, Run) of
        {_, _, Early, Late} -> math:log(max(1, Late) / max(1, Early));
        none -> 0.0
    end.

%% The median first: it is the surer.
drifts(Run, At) ->
    [
        drifting(Of, Direction, {EarlyNs, LateNs}, At)
     || {Direction, <<"latency.", Of/binary>>, EarlyNs, LateNs} <- [drift(~"latency.mean", Run)]
    ].

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

away(Run, At) ->
    [
        dyno_finding:new(away, none, #{
            severity => warning,
            subject => ~"throughput",
            value => Share,
            text => text("~ts no operation succeeded for at least ~ts, ~ts of the run", [
                At, dyno_unit:format(LongNs, ~"ns"), dyno_unit:format(Share, ~"ratio")
            ]),
            advice => <<
                "Look why the target was away. Workers that wait for it begin few operations, so "
                "the share of errors may be too low; an open load (--rate) shows that of arrivals."
            >>
        })
        %% Without errors, it shows in the slowest responses (`m:dyno_finding_tail`).
     || lists:any(fun({_, Rate}) -> Rate > 0 end, points(~"load.errors", Run)),
        {ok, LongNs, Share} <- [absence(Run)]
    ].

-doc "The longest time without success while operations were offered, and its share of the run.".
-spec absence(dyno_recording:run()) -> {ok, Ns :: float(), Share :: float()} | none.
absence(Run) ->
    Points = points(~"load.throughput", Run),
    Rates = [Rate || {_, Rate} <- Points],
    Idle = [AtMs || {AtMs, Offered} <- points(~"load.offered", Run), Offered == 0],
    case longest([Rate || {AtMs, Rate} <- Points, not lists:member(AtMs, Idle)], {0, 0}) of
        Longest when Longest > 1 ->
            {FirstMs, _} = hd(Points),
            {LastMs, _} = lists:last(Points),
            LongNs = 1.0e6 * Longest * (LastMs - FirstMs) / (length(Points) - 1),
            %% As many as would come in that time.
            IsMuch = LongNs * lists:sum(Rates) / length(Rates) >= ?SUCCESSES * 1.0e9,
            hd([{ok, LongNs, Longest / length(Points)} || LongNs >= ?AWAY_NS, IsMuch] ++ [none]);
        _ ->
            none
    end.

%% The most zeros in a row.
longest([], {Now, Most}) -> max(Now, Most);
longest([Rate | Rates], {Now, Most}) when Rate == 0 -> longest(Rates, {Now + 1, Most});
longest([_ | Rates], {Now, Most}) -> longest(Rates, {0, max(Now, Most)}).
