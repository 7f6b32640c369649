%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_load_verdict).
-moduledoc """
Judges whether a load followed its schedule, and if not, whether the target was saturated, or the
generator was the bottleneck and measured itself. Pure.

An open load was kept if at least 99 % of the due arrivals began. The generator is the bottleneck if
fewer began although its workers spent less than half of their time in operations, or although
operations took no longer than the fastest: none waited for another. It also is if it wakes free
workers noticeably late: one in ten by a quarter of the median response time.
""".

-export([of_part/1, is_kept/1, is_busy/1, warnings/1]).

-import(dyno_recording_part, [text/2]).

%% The share of due arrivals that must begin.
-define(KEPT, 0.99).
%% More lag than this share of the median makes the result unreliable.
-define(LAG_SHARE, 0.1).
-define(LAG_NS, 1_000_000).
%% Workers less busy than this wait for the generator.
-define(BUSY, 0.5).
%% Operations that take no longer than this, by the fastest, have not waited for others.
-define(ALIKE, 0.8).
-define(HIGH_LAG_SHARE, 0.25).
%% A larger share of failed probes has a cause.
-define(DISTURBED, 0.1).
%% With more processes waiting per scheduler, the generator's node is full.
-define(FULL, 4.0).
%% With fewer operations, a 99th percentile is one or two operations.
-define(FEW, 1000).
%% A larger share of failures gets a warning, with this number of reasons.
-define(FAILING, 0.01).
-define(REASONS, 3).

-doc "Whether a part's load was kept, and if not, why.".
-spec of_part(dyno_load_result:part()) -> kept | saturated | generator.
of_part(Part) ->
    case is_kept(Part) of
        false ->
            case busy(Part) < ?BUSY orelse is_short_of_workers(Part) of
                true -> generator;
                false -> saturated
            end;
        true ->
            case is_lagging(0.9, ?HIGH_LAG_SHARE, Part) of
                true -> generator;
                false -> kept
            end
    end.

-doc "Whether the due arrivals began, even if late.".
-spec is_kept(dyno_load_result:part()) -> boolean().
is_kept(#{arrivals := undefined}) -> true;
is_kept(#{arrivals := Arrivals, total := #{started := Started}}) -> Started >= ?KEPT * Arrivals - 1.

busy(#{total := #{service := undefined}}) ->
    1.0;
busy(#{total := Total, duration_ns := Length, workers := Workers}) ->
    #{service := #{sum := SumNs}} = Total,
    %% Who never ended kept its worker.
    EndlessNs = dyno_load_recorder:endless(Total) * Length,
    (SumNs + EndlessNs) / (Length * max(1, Workers)).

%% The first operations of a part meet no queue.
is_short_of_workers(#{total := #{service := #{count := Count, min := Least} = Service}}) when
    Count > 0
->
    Least >= ?ALIKE * dyno_histogram:quantile(Service, 0.5);
is_short_of_workers(_Part) ->
    false.

is_lagging(
    Quantile, Share, #{total := #{schedule_lag := #{count := Count} = Lag, response := Response}}
) when Count > 0 ->
    LagNs = dyno_histogram:quantile(Lag, Quantile),
    P50 = dyno_histogram:quantile(Response, 0.5),
    is_number(P50) andalso LagNs > P50 * Share andalso LagNs > ?LAG_NS;
is_lagging(_Quantile, _Share, _Part) ->
    false.

-doc "Warnings of unreliable results, each with its code.".
-spec warnings(dyno_load_result:t()) -> [{Code :: binary(), Text :: binary()}].
warnings(#{parts := Parts, nodes := Nodes, notes := Notes} = Result) ->
    Several = length(Parts) > 1,
    disturbed(Result) ++
        failing(Result) ++
        not_prepared(Result) ++
        few_operations(Result) ++
        lists:append([of_parts(Part, Several, Result) || Part <- Parts]) ++
        full(Result) ++
        [lost(Node, AtMs) || #{node := Node, lost_at_ms := AtMs} <- Nodes, AtMs =/= undefined] ++
        [of_note(Note) || Note <- Notes] ++
        unfinished(Result) ++
        not_ended(Result).

%% A search makes more probes to compensate, but its result is that of a busy machine.
disturbed(#{search := #{tried := Tried, disturbed := Disturbed}, busy_below := Busy}) ->
    Probes = lists:sum([Held + Failed || #{held := Held, failed := Failed} <- Tried]),
    Slow = "~b of ~b probes did not hold at rates that do: something stood still now and then",
    Full =
        "the machine of the load was ~ts busy at the slowest probes: other programs, or waiting "
        "schedulers, take its processors; the rate may be higher without them",
    [{~"search_disturbed", text(Slow, [Disturbed, Probes])} || Disturbed > ?DISTURBED * Probes] ++
        [
            {~"search_busy", text(Full, [dyno_unit:format(Busy, ~"ratio")])}
         || is_busy(Busy)
        ];
disturbed(_Result) ->
    [].

-doc "Whether a machine is so busy, without the load, that the load's rates say little.".
-spec is_busy(Share :: float() | undefined) -> boolean().
is_busy(Share) -> is_number(Share) andalso Share > ?BUSY.

%% Results exclude the times of failed operations.
failing(#{total := #{successes := Ok, failures := Failed}, errors := Errors}) when
    Failed > ?FAILING * (Ok + Failed)
->
    Text = "~ts of the operations failed (~b of ~b), most often for ~ts",
    Share = dyno_unit:format(Failed / (Ok + Failed), ~"ratio"),
    OfOperations = lists:filter(fun dyno_load_recorder:is_of_operation/1, Errors),
    [{~"failing", text(Text, [Share, Failed, Ok + Failed, reasons(OfOperations)])}];
failing(_Result) ->
    [].

not_prepared(#{total := #{not_prepared := Times}, errors := Errors}) when Times > 0 ->
    Text =
        "after failed operations, workers could not be prepared again ~b times, and began no "
        "operation meanwhile: ~ts",
    {_, Others} = lists:partition(fun dyno_load_recorder:is_of_operation/1, Errors),
    [{~"not_prepared", text(Text, [Times, reasons(Others)])}];
not_prepared(_Result) ->
    [].

reasons(Errors) -> lists:join("; ", [reason(Error) || Error <- lists:sublist(Errors, ?REASONS)]).

reason({Reason, Count, Stack}) ->
    [Reason, " (", dyno_unit:format(Count, ~"count"), ")", raised(Stack)].

raised(undefined) -> "";
raised(Stack) -> [" in ", lists:join(", called from ", string:split(Stack, "\n", all))].

few_operations(#{search := #{stopped := interrupted}}) ->
    [];
few_operations(#{parts := Parts, total := #{successes := Ok}}) ->
    [
        {~"few_operations", text("~b operations: too few for the high percentiles", [Ok])}
     || Parts =/= [], Ok > 0, Ok < ?FEW
    ].

unfinished(#{parts := Parts, under_way := N}) ->
    Text =
        "~b operation~ts did not end until dyno gave up, timeout_ms after the load: no time and no "
        "count of errors includes what never ended",
    [{~"unfinished", text(Text, [N, [$s || N > 1]])} || Parts =/= [], N > 0].

%% Most reasons are alike: show the first.
not_ended(#{not_ended := []}) ->
    [];
not_ended(#{not_ended := [Text]}) ->
    [{~"end_worker", Text}];
not_ended(#{not_ended := [Text | Others]}) ->
    [{~"end_worker", text("~ts (and ~b more workers)", [Text, length(Others)])}].

of_parts(_Part, _Several, #{search := #{stopped := Stopped, rate_per_s := Rate} = Search}) when
    Stopped =:= time; Stopped =:= interrupted
->
    #{low_per_s := Low, high_per_s := High} = Search,
    Why =
        case Stopped of
            time -> "ran out of time (limit_ms)";
            interrupted -> "was interrupted"
        end,
    Known =
        case Rate of
            0 ->
                "no rate was decided to hold by then";
            _ ->
                [
                    "the highest rate that holds is not known better than from ",
                    dyno_unit:format(Low, ~"1/s"),
                    case High of
                        undefined -> " up";
                        _ -> [" to ", dyno_unit:format(High, ~"1/s")]
                    end
                ]
        end,
    [{~"search", text("the search ~ts: ~ts", [Why, Known])}];
of_parts(_Part, _Several, #{search := _}) ->
    %% A search is meant to end at a limit.
    [];
of_parts(
    #{name := Name, arrivals := Arrivals, workers := Workers, total := #{started := Started}} =
        Part,
    Several,
    _Result
) ->
    Where = [["in ", Name, ": "] || Several],
    Busy = busy(Part),
    case {is_kept(Part), of_part(Part)} of
        {false, saturated} ->
            Text =
                "~tssaturated: ~b of the offered operations never started, as all ~b workers were "
                "busy; the response times say how long the load lasted, not how fast the target is",
            [{~"saturated", text(Text, [Where, round(Arrivals) - Started, Workers])}];
        {false, generator} when Busy >= ?BUSY ->
            Text =
                "~tstoo few workers: ~b of the offered operations never started, as all ~b workers "
                "were in operations, which took no longer than the fastest; allow more "
                "(max_workers)",
            [{~"generator_limited", text(Text, [Where, round(Arrivals) - Started, Workers])}];
        {false, generator} ->
            Text =
                "~tsthe generator is the bottleneck: ~b of the offered operations never started, "
                "though its workers spent only ~ts of their time in operations; give it more "
                "processors, or load nodes (--load-nodes)",
            Share = dyno_unit:format(Busy, ~"ratio"),
            [{~"generator_limited", text(Text, [Where, round(Arrivals) - Started, Share])}];
        {true, _} ->
            lag(Part, Where) ++ standstill(Part, Where)
    end.

standstill(Part, Where) ->
    case dyno_load_standstill:of_part(Part) of
        none ->
            [];
        {ok, LongestNs, Times, Seen} ->
            Text =
                "~tsno operation ended for ~ts~ts: all workers waited, so that few operations met "
                "it~ts; measure with an open load (--rate)",
            Often = [[" (the longest of ", integer_to_list(Times), " times)"] || Times > 1],
            P99 = [
                [
                    ", and p99 says little of it: operations that arrive at a rate would have had "
                    "a p99 of about ",
                    dyno_unit:format(Ns, ~"ns")
                ]
             || {ok, Ns} <- [Seen]
            ],
            [
                {~"standstill", text(Text, [Where, dyno_unit:format(LongestNs, ~"ns"), Often, P99])}
            ]
    end.

lag(#{total := #{schedule_lag := Lag}} = Part, Where) ->
    case is_lagging(0.99, ?LAG_SHARE, Part) of
        true ->
            Text =
                "~tsthe generator started operations up to ~ts late (p99): "
                "it had too little processor time to keep the pace",
            LagNs = dyno_histogram:quantile(Lag, 0.99),
            [{~"generator_lag", text(Text, [Where, dyno_unit:format(LagNs, ~"ns")])}];
        false ->
            []
    end.

%% If all workers are in operations, only the run queue shows whether they wait for the target or a
%% processor. A load in this node may itself be the target.
full(#{run_queue := RunQueue, nodes := Nodes}) ->
    Text =
        "the generator's nodes were full: ~.1f processes waited for each scheduler on average, "
        "which is in the response times; use more load nodes",
    [
        {~"generator_full", text(Text, [RunQueue])}
     || RunQueue > ?FULL, [#{node := Node} | _] <- [Nodes], Node =/= node()
    ].

lost(Node, AtMs) ->
    Text =
        "load node ~ts went down ~ts into the run; its share of the load is missing from then on",
    {~"load_node_lost", text(Text, [Node, dyno_unit:format(AtMs * 1_000_000, ~"ns")])}.

of_note({feed_ended, Name}) ->
    {~"feed_ended", text("feed ~ts had no more items; workers that asked for one ended", [Name])};
of_note({not_grown, Reason}) ->
    Text = "more workers were needed and could not be prepared: ~ts",
    {~"workers_not_grown", text(Text, [Reason])}.
