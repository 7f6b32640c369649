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
        {PerS, First, Last, Count}
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
        PerS <- [1000 * (Last - First) / (To - From)],
        {_, Limit, _, _, Least, _} <- [about(Name)],
        Last - First >= Least,
        PerS >= dyno_finding_limits:value(Limit)
    ].

about(~"vm.processes") ->
    {processes_grow, processes_per_s, warning, ~"count", 50, "the processes of ~ts grow"};
%% Less may be dyno's own.
about(_Memory) ->
    {memory_grows, memory_per_s, note, ~"B", 10_000_000, "the memory of ~ts grows"}.

finding(Name, Node, {PerS, First, Last, Looks}, {Label, #{~"id" := Id} = Run}) ->
    {Check, Limit, Severity, Unit, _, Words} = about(Name),
    Show = fun(Value) -> dyno_unit:format(round(Value), Unit) end,
    dyno_finding:new(Check, Limit, #{
        subject => Node,
        severity => Severity,
        value => PerS,
        text => text(Words ++ " by ~ts a second at a constant load (~ts)~ts", [
            Node, Show(PerS), dyno_recording_run:place(Label, Id), most(Name, Node, Run)
        ]),
        evidence => text("From ~ts to ~ts, more at each of ~b looks.", [
            Show(First), Show(Last), Looks
        ]),
        advice => <<
            "Test longer (--for): a cache that fills ends growing. If it goes on, dyno doctor NODE "
            "during the load names who grows."
        >>
    }).

most(~"vm.processes", _Node, Run) ->
    largest(~"processes", {~"group", ~"alive"}, ", the most of ", Run);
most(_Memory, Node, Run) ->
    Kinds = [
        {PerS, Kind}
     || Kind <- [~"processes", ~"binary", ~"ets", ~"code", ~"atom"],
        {PerS, _, _, _} <- growth(<<"vm.memory.", Kind/binary>>, Node, Run)
    ],
    case lists:reverse(lists:sort(Kinds)) of
        [{_, ~"ets"} | _] ->
            largest(~"ets", {~"table", ~"memory_growth"}, ", the most in ETS table ", Run);
        [{_, Kind} | _] ->
            [", the most in ", Kind];
        [] ->
            ""
    end.

largest(Table, {Key, Column}, Words, Run) ->
    Rows = [
        {Value, Name}
     || #{Key := Name, Column := Value} <- dyno_recording:rows(Run, Table), is_number(Value)
    ],
    case lists:reverse(lists:sort(Rows)) of
        [{Value, Name} | _] when Value > 0 -> [Words, Name];
        _ -> ""
    end.
