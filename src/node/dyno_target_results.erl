%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_target_results).
-moduledoc false.
%% Results of instruments as parts of a recording, by their own descriptions. Pure.

-export([parts/4, known/1]).
-export_type([parts/0, sample/0]).

-type part() :: #{atom() => term()}.

-type parts() :: #{
    metrics := [part()],
    histograms := [part()],
    series := [part()],
    tables := [part()],
    profiles := [part()],
    events := #{items := [part()]},
    warnings := [dyno_recording_part:warning()]
}.

-type sample() ::
    {node(), TimeMs :: integer(), dyno_agent_vm:values(), CostUs :: non_neg_integer()}.

%% A hypervisor that takes a larger share of processor time spoils a comparison.
-define(MUCH_STEAL, 0.02).

-doc "A run's parts of these targets, and of those that left; no samples after the load.".
-spec parts([Target], [sample()], [dyno_targets:results()], EndsMs) -> parts() when
    EndsMs :: integer() | undefined,
    Target :: #{
        node := node(),
        instruments := [{module(), pid()}],
        shift_ms := integer(),
        metrics := [dyno_agent_vm:metric()],
        atom() => term()
    }.
parts(Targets, All, Read, EndsMs) ->
    Unfit = #{
        Module => text("this run has no results of ~ts: ~ts", [Names, dyno_targets:why(Reason)])
     || Module <- lists:uniq(lists:append([maps:keys(Of) || #{results := Of} <- Read])),
        not dyno_agent_instrument:is_dynos(Module),
        {unfit, Reason} <- [recordable(Module, Targets, Read, EndsMs)],
        Names <- [dyno_agent_instrument:named([Module])]
    },
    Results = [R#{results := maps:without(maps:keys(Unfit), Of)} || #{results := Of} = R <- Read],
    #{warnings := Warnings} = Parts = made(Targets, All, Results, EndsMs),
    Parts#{warnings := Warnings ++ [{~"instrument", Text} || _ := Text <- Unfit]}.

%% A suite's own instrument may fail here, or describe what no recording can hold.
recordable(Module, Targets, Read, EndsMs) ->
    Results = [R#{results := maps:with([Module], Of)} || #{results := Of} = R <- Read],
    try
        #{warnings := Warnings} = Parts = made(Targets, [], Results, EndsMs),
        Notes = [dyno_recording_part:note(Warning) || Warning <- Warnings],
        dyno_recording:add_run(#{~"runs" => []}, Parts#{status => complete, warnings := Notes})
    catch
        _:Reason -> {unfit, Reason}
    end.

made(Targets, All, Results, EndsMs) ->
    Instruments = lists:uniq([
        Module
     || #{instruments := Of} <- Targets,
        {Module, _} <- lists:reverse(Of),
        lists:any(fun(#{results := Read}) -> is_map_key(Module, Read) end, Results)
    ]),
    Roles = dyno_recording_run:roles([atom_to_binary(Node) || #{node := Node} <- Targets]),
    Role = fun(Node) -> map_get(atom_to_binary(Node), Roles) end,
    Samples = lists:append([
        dyno_recording_part:until(EndsMs, 2, [Sample || {Of, _, _, _} = Sample <- All, Of =:= Node])
     || #{node := Node} <- Targets
    ]),
    Shifts = #{Node => ShiftMs || #{node := Node, shift_ms := ShiftMs} <- Targets},
    #{
        metrics =>
            [
                Part
             || {M, Metric} <- data(metrics, Instruments), Part <- metric(Metric, all(M, Results))
            ] ++ metric(sample_cost(), Samples),
        histograms => [
            histogram(Histogram, Item, Role(Node))
         || {Node, M, Result} <- by_node(Instruments, Results),
            {_, #{items := Items} = Histogram} <- data(histograms, [M]),
            Item <- Items(Result)
        ],
        series => sampled(Targets, Samples) ++
            [
                series(Series, dyno_recording_part:until(EndsMs, 1, Shifted), Node)
             || {Node, M, Result} <- by_node(Instruments, Results),
                {_, #{points := Points} = Series} <- data(series, [M]),
                Shifted <- [[{T + map_get(Node, Shifts), V} || {T, V} <- Points(Result)]]
            ],
        tables => totals(Instruments, Results) ++
            [
                Table
             || {Node, M, Result} <- by_node(Instruments, Results),
                {_, #{items := Items} = Description} <- data(tables, [M]),
                Table <- table(Description, Items(Result), Node)
            ],
        profiles => [
            Profile
         || {Node, M, Result} <- by_node(Instruments, Results),
            {_, #{stacks := Stacks} = Description} <- data(profiles, [M]),
            Profile <- profile(Description, Stacks(Result), Result, Node)
        ],
        events => #{
            items => [
                Event#{node => Role(Node), time_ms := TimeMs + map_get(Node, Shifts)}
             || {Node, M, Result} <- by_node(Instruments, Results),
                Parts <- exporting(M, events, 1),
                #{time_ms := TimeMs} = Event <- Parts:events(Result)
            ]
        },
        warnings => steal(Samples) ++
            [
                case Warning of
                    {Code, Format, Arguments} -> {Code, text(Format, Arguments)};
                    {Code, Format, Arguments, Advice} -> {Code, text(Format, Arguments), Advice}
                end
             || {Node, M, Result} <- by_node(Instruments, Results),
                Parts <- exporting(M, warnings, 2),
                Warning <- Parts:warnings(Role(Node), Result)
            ]
    }.

-spec known([module()]) -> dyno_threshold:known().
known(Instruments) ->
    Described = fun(What) -> [Description || {_, Description} <- data(What, Instruments)] end,
    #{
        metrics => dyno_target_visit:known() ++ [sample_cost() | Described(metrics)],
        series => dyno_agent_vm:describe() ++ dyno_agent_os:all() ++ Described(series),
        tables => Described(tables)
    }.

data(What, Instruments) ->
    [
        {M, Description}
     || M <- Instruments, Parts <- exporting(M, What, 0), Description <- Parts:What()
    ].

exporting(Instrument, Function, Arity) ->
    #{parts := Parts} = dyno_agent_instrument:about(Instrument),
    {module, Parts} = code:ensure_loaded(Parts),
    [Parts || erlang:function_exported(Parts, Function, Arity)].

all(Module, Results) ->
    [Result || #{results := #{Module := Result}} <- Results].

by_node(Instruments, Results) ->
    [
        {Node, M, map_get(M, Of)}
     || #{node := Node, results := Of} <- Results, M <- Instruments, is_map_key(M, Of)
    ].

metric(_Metric, []) ->
    [];
metric(#{name := Name, title := Title, unit := Unit, group := Group, value := Value}, Results) ->
    case Value(Results) of
        none ->
            [];
        {Number, Count} ->
            [dyno_recording_part:metric(Name, Title, Number, Unit, Count, Group)];
        {Number, Count, {at_least, Low}} ->
            Part = dyno_recording_part:metric(Name, Title, Number, Unit, Count, Group),
            [Part#{low => Low, high => null}]
    end.

histogram(Histogram, #{labels := Labels, buckets := Buckets} = Item, Role) ->
    maps:merge(maps:without([items], Histogram), Item#{
        labels := Labels#{node => Role},
        scheme => dyno_histogram:scheme(),
        buckets := [tuple_to_list(Bucket) || Bucket <- Buckets]
    }).

series(#{name := Name, unit := Unit, group := Group, title := Title}, Points, Node) ->
    {Times, Values} = lists:unzip(Points),
    dyno_recording_part:series(Name, Unit, Group, Title, Node, Times, Values).

%% Of several nodes together, as tables without a node.
totals(Instruments, Results) ->
    [
        Table
     || {M, #{total := Total} = Description} <- data(tables, Instruments),
        [_ | _] = Of <- [all(M, Results)],
        Table <- table(Description, Total(Of), undefined)
    ].

table(_Description, none, _Node) ->
    [];
table(Description, Items, Node) ->
    [dyno_recording_table:make(Description, Items, #{node => Node})].

profile(_Description, [], _Result, _Node) ->
    [];
profile(Description, Stacks, Result, Node) ->
    About = maps:without([stacks, observed], Description),
    Observed = maps:get(observed, Description, fun(_) -> #{} end),
    [dyno_recording_part:profile(maps:merge(About#{node => Node}, Observed(Result)), Stacks)].

text(Format, Arguments) ->
    dyno_recording_part:text(Format, [
        case Argument of
            {Value, Unit} -> dyno_unit:format(Value, Unit);
            _ -> Argument
        end
     || Argument <- Arguments
    ]).

%% VM and operating system: sent as sampled.

sampled(Targets, Samples) ->
    lists:append([
        node_series(Node, Metrics, [{T, Values} || {N, T, Values, _} <- Samples, N =:= Node])
     || #{node := Node, metrics := Metrics} <- Targets
    ]).

node_series(_Node, _Metrics, []) ->
    [];
node_series(Node, Metrics, Samples) ->
    [
        series(Metric, [{T, maps:get(Name, Values, undefined)} || {T, Values} <- Samples], Node)
     || #{name := Name} = Metric <- Metrics
    ].

sample_cost() ->
    #{
        name => ~"instrument.sample",
        title => ~"Time for one sample of the VM and the system, with waiting",
        unit => ~"ns",
        group => ~"instrument",
        value => fun(Samples) ->
            {dyno_stats:mean([CostUs || {_, _, _, CostUs} <- Samples]) * 1000, length(Samples)}
        end
    }.

steal(Samples) ->
    Shares = [Steal || {_, _, #{~"os.cpu.steal" := Steal}, _} <- Samples],
    Text = "the hypervisor took ~ts of the processor time: compare with other runs with care",
    [
        {~"steal", text(Text, [{dyno_stats:mean(Shares), ~"ratio"}])}
     || Shares =/= [], dyno_stats:mean(Shares) > ?MUCH_STEAL
    ].
