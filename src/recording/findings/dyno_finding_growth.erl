%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_finding_growth).
-moduledoc """
Finds memory and processes of the targets that grow at each look while the load is constant. Of the
runs of a test, the one with the fastest growth is named. Pure.

A cache that fills grows less and less: growth counts only if the later half of the run has most of
the growth of the earlier half. Fewer than four looks tell nothing.
""".

-export([findings/1]).

-import(dyno_recording_part, [text/2]).

-type growth() :: {PerS :: float(), First :: number(), Last :: number(), Looks :: pos_integer()}.

-define(LEAST_LOOKS, 4).
-define(GOES_ON, 0.6).
%% Less may be dyno's own.
-define(REAL_BYTES, 10_000_000).
-define(REAL_COUNT, 50).

-doc "The findings of a test; none if its load is not constant.".
-spec findings(dyno_recording:document()) -> [dyno_finding:t()].
findings(#{~"parameters" := #{~"load" := #{~"model" := Model} = Load} = Parameters} = Document) when
    Model =:= ~"closed"; Model =:= ~"open"
->
    %% A rate that changes is a text.
    Changing = [x || Key <- [~"rate_per_s", ~"arrivals"], #{Key := <<_/binary>>} <- [Load]],
    Sizes = [Sized || Changing =:= [], {Size, _} = Sized <- dyno_sizes:runs(Document), Size > 0],
    Label = maps:get(~"size_label", Parameters, ~"size"),
    [
        finding(Name, Node, Growth, {Label, Run})
     || Node <- dyno_sizes:roles(Sizes),
        Name <- [~"vm.processes", ~"vm.memory.total"],
        [_ | _] = Found <- [
            [{G, Run} || {_, Runs} <- Sizes, Run <- Runs, G <- growth(Name, Node, Run)]
        ],
        {Growth, Run} <- [lists:max(Found)]
    ];
findings(_Document) ->
    [].

-spec growth(binary(), binary(), dyno_recording:run()) -> [growth()].
growth(Name, Node, Run) ->
    [
        {1000 * (Last - First) / (To - From), First, Last, Count}
     || #{~"node" := Of, ~"times_ms" := Times, ~"values" := Values} <-
            dyno_recording:series(Run, Name),
        Of =:= Node,
        %% Before 0 is the warm-up.
        [{From, First} | Later] = Points <- [
            [{Ms, V} || {Ms, V} <- lists:zip(Times, Values), Ms >= 0, is_number(V)]
        ],
        Count <- [length(Points)],
        Count >= ?LEAST_LOOKS,
        {To, Last} <- [lists:last(Points)],
        lists:all(fun({{_, A}, {_, B}}) -> B > A end, lists:zip(lists:droplast(Points), Later)),
        {_, Middle} <- [lists:nth((Count + 1) div 2, Points)],
        Last - Middle >= ?GOES_ON * (Middle - First),
        is_much(Name, Last - First, 1000 * (Last - First) / (To - From))
    ].

is_much(~"vm.processes", More, PerS) ->
    More >= ?REAL_COUNT andalso PerS >= dyno_finding_limits:value(processes_per_s);
is_much(_Memory, More, PerS) ->
    More >= ?REAL_BYTES andalso PerS >= dyno_finding_limits:value(memory_per_s).

finding(~"vm.processes", Node, Growth, {_, Run} = Place) ->
    finding(
        {processes_grow, processes_per_s, ~"count"}, "the processes of ~ts grow", Node, Growth, #{
            severity => warning,
            named => largest(~"processes", {~"group", ~"alive"}, ", the most of ", Run),
            place => Place
        }
    );
finding(_Memory, Node, Growth, {_, Run} = Place) ->
    Kinds = [
        {PerS, Kind}
     || Kind <- [~"processes", ~"binary", ~"ets", ~"code", ~"atom"],
        {PerS, _, _, _} <- growth(<<"vm.memory.", Kind/binary>>, Node, Run)
    ],
    Named =
        case lists:reverse(lists:sort(Kinds)) of
            [{_, ~"ets"} | _] ->
                largest(~"ets", {~"table", ~"memory_growth"}, ", the most in ETS table ", Run);
            [{_, Kind} | _] ->
                [", the most in ", Kind];
            [] ->
                ""
        end,
    finding({memory_grows, memory_per_s, ~"B"}, "the memory of ~ts grows", Node, Growth, #{
        severity => note, named => Named, place => Place
    }).

largest(Table, {Key, Column}, Words, Run) ->
    Rows = [
        {Value, Name}
     || #{Key := Name, Column := Value} <- dyno_recording:rows(Run, Table), is_number(Value)
    ],
    case lists:reverse(lists:sort(Rows)) of
        [{Value, Name} | _] when Value > 0 -> [Words, Name];
        _ -> ""
    end.

finding({Check, Limit, Unit}, Words, Node, {PerS, First, Last, Looks}, Of) ->
    #{severity := Severity, named := Named, place := {Label, #{~"id" := Id}}} = Of,
    Show = fun(Value) -> dyno_unit:format(round(Value), Unit) end,
    dyno_finding:new(Check, Limit, #{
        subject => Node,
        severity => Severity,
        value => PerS,
        text => text(Words ++ " by ~ts a second at a constant load (~ts)~ts", [
            Node, Show(PerS), dyno_recording_run:place(Label, Id), Named
        ]),
        evidence => text("From ~ts to ~ts, more at each of ~b looks.", [
            Show(First), Show(Last), Looks
        ]),
        advice => <<
            "Test longer (--for): a cache that fills ends growing. If it goes on, dyno doctor NODE "
            "during the load names who grows."
        >>
    }).
