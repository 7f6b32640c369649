%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_servers_pipeline).
-moduledoc false.
%% The stages of GenStage: their connections, event counts, and the bottleneck: the busiest stage,
%% if at its limit. Stages before it wait for demand, stages after it for events. Pure.

-export([stages/2, flows/1, draw/1]).
-export_type([stage/0]).

-doc "The processes of one name.".
-type stage() :: #{
    name := binary(),
    kind := atom(),
    processes := pos_integer(),
    busy := number() | undefined,
    rates := #{in := number(), out := number()},
    gives_to := [{Name :: binary(), EventsPerSecond :: float()}],
    bottleneck := boolean(),
    sum := dyno_servers_window:stage()
}.

%% Below this busy share, a stage is no bottleneck.
-define(AT_LIMIT, 0.7).

-spec stages([dyno_servers_window:sum()], DurationNs :: pos_integer()) -> [stage()].
stages(Servers, DurationNs) ->
    Stages = [Sum || #{stage := #{}} = Sum <- Servers],
    Known = dyno_servers_names:add(Stages, dyno_servers_names:new()),
    Names =
        #{
            Pid => dyno_servers_names:common(Stage, Known)
         || #{labels := #{pid := Pid, name := _}} = Stage <- Stages
        },
    %% A consumer knows the senders of its events.
    Edges = [
        {printed(From, Names), printed(To, Names), Events}
     || #{stage := #{subscriptions := Of}} <- Stages,
        #{from := From, to := To, events := Events} <- Of
    ],
    marked([stage(Sum, Edges, DurationNs) || Sum <- dyno_servers_window:group(name, Stages)]).

stage(#{labels := #{name := Name}, stage := Stage} = Sum, Edges, DurationNs) ->
    #{kind := Kind, events_in := In, events_out := Out} = Stage,
    #{processes := Processes, busy_ns := BusyNs, busy_of_ns := BusyOfNs} = Sum,
    Rate = fun
        (N) when is_number(N) -> N * 1.0e9 / DurationNs;
        (_) -> 0.0
    end,
    To = [{ToName, Events} || {FromName, ToName, Events} <- Edges, FromName =:= Name],
    #{
        name => Name,
        kind => Kind,
        processes => Processes,
        busy => dyno_servers_window:share(BusyNs, BusyOfNs),
        rates => #{in => Rate(In), out => Rate(Out)},
        gives_to => [
            {Of, Rate(lists:sum(Events))}
         || Of := Events <- maps:groups_from_list(
                fun({Of, _}) -> Of end, fun({_, Events}) -> Events end, To
            )
        ],
        sum => Stage
    }.

printed(Pid, Names) ->
    Text = dyno_servers_window:pid(Pid),
    maps:get(Text, Names, Text).

marked(Stages) ->
    Loads = [{Busy, Name} || #{busy := Busy, name := Name} <- Stages, is_number(Busy)],
    {Most, Of} = lists:max([{0, none} | Loads]),
    [
        Stage#{bottleneck => Name =:= Of andalso Most >= ?AT_LIMIT}
     || #{name := Name} = Stage <- Stages
    ].

-doc "The events between each two stages.".
-spec flows([stage()]) -> [#{from := binary(), to := binary(), rate := float()}].
flows(Stages) ->
    [
        #{from => Name, to => To, rate => Rate}
     || #{name := Name, gives_to := Of} <- Stages, {To, Rate} <- Of
    ].

-spec draw([stage()]) -> [binary()].
draw([]) ->
    [];
draw(Stages) ->
    ByName = #{Name => Stage || #{name := Name} = Stage <- Stages},
    Given = [To || #{gives_to := Of} <- Stages, {To, _} <- Of],
    Roots = [Name || #{name := Name} <- Stages, not lists:member(Name, Given)],
    {Nodes, _} = lists:mapfoldl(
        fun(Name, Seen) ->
            case lists:member(Name, Seen) of
                true -> {[], Seen};
                false -> lines(Name, none, 0, ByName, Seen)
            end
        end,
        [],
        %% Stages in a circle have no first one.
        Roots ++ (maps:keys(ByName) -- Roots)
    ),
    aligned(lists:append(Nodes)) ++ [conclusion(Stages)].

%% Behind stages that share a consumer, only the first one draws it.
lines(Name, Events, Depth, ByName, Seen) ->
    case {ByName, lists:member(Name, Seen)} of
        {#{Name := Stage}, false} ->
            #{gives_to := To} = Stage,
            {Below, Now} = lists:mapfoldl(
                fun({Of, Rate}, Acc) -> lines(Of, Rate, Depth + 1, ByName, Acc) end,
                [Name | Seen],
                To
            ),
            {[{Depth, Events, Stage} | lists:append(Below)], Now};
        {#{Name := _}, true} ->
            {[{Depth, Events, {again, Name}}], Seen};
        {#{}, _} ->
            {[{Depth, Events, {unknown, Name}}], Seen}
    end.

aligned(Lines) ->
    Heads = [head(Line) || Line <- Lines],
    Width = lists:max([string:length(Head) || Head <- Heads]),
    [
        dyno_recording_part:text("~ts  ~ts", [string:pad(Head, Width), rest(Line)])
     || {Head, Line} <- lists:zip(Heads, Lines)
    ].

head({Depth, _, Stage}) ->
    Arrow = [~"-> " || Depth > 0],
    iolist_to_binary([lists:duplicate(3 * max(0, Depth - 1), $\s), Arrow, named(Stage)]).

named({_, Name}) -> Name;
named(#{name := Name, processes := 1}) -> Name;
named(#{name := Name, processes := N}) -> [Name, " x", integer_to_binary(N)].

rest({_, _, {again, _}}) ->
    ~"(see above)";
rest({_, Events, {unknown, _}}) ->
    [flow(Events, 0), "not selected"];
rest({_, Events, #{busy := Busy, kind := Kind, rates := #{out := Out}} = Stage}) ->
    [
        flow(Events, Out),
        case Busy of
            undefined -> atom_to_binary(Kind);
            _ -> ["busy ", percent(Busy)]
        end,
        [
            [", threw ", dyno_unit:format(N, ~"count"), " away"]
         || #{sum := #{discarded := N}} <- [Stage], is_integer(N), N > 0
        ],
        [~"  <- the bottleneck" || #{bottleneck := true} <- [Stage]]
    ].

percent(Share) -> dyno_unit:format(round(Share * 100) / 100, ~"ratio").

flow(none, Out) -> ["gives ", dyno_unit:format(Out, ~"1/s"), ", "];
flow(Events, _Out) -> ["gets ", dyno_unit:format(Events, ~"1/s"), ", "].

conclusion(Stages) ->
    case [Stage || #{bottleneck := true} = Stage <- Stages] of
        [#{name := Name, busy := Busy} | _] ->
            dyno_recording_part:text("~ts holds the pipeline up: it is busy ~ts of the time", [
                Name, percent(Busy)
            ]);
        [] ->
            ~"No stage is at its limit: the pipeline waits for events."
    end.
