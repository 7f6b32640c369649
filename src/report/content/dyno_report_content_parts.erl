%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_report_content_parts).
-moduledoc false.
%% Sections of a run's parts other than tables: metrics, series, distributions, events and profiles.
%%
%% Groups of tests and benchmarks with their own sections (`dyno_report_content_load`,
%% `dyno_report_content_bench`) are left out.

-export([sections/2, profiles/2, others/3]).

-import(dyno_report_document, [get/2, get/3, measured/2, name/2, title/1]).

-type object() :: dyno_report_document:object().
-type section() :: dyno_report_section:section().
-type options() :: dyno_report:options().

-define(SHOWN_ELSEWHERE, #{
    ~"test" => [~"load", ~"processes", ~"servers", ~"instrument", ~"vm", ~"os"],
    ~"record" => [~"processes", ~"servers", ~"instrument", ~"vm", ~"os"],
    ~"bench" => [~"bench", ~"vm", ~"os"],
    ~"servers" => [~"servers"],
    ~"profile" => [~"instrument", ~"vm", ~"os"],
    ~"compare" => []
}).
-define(WIDE, 0.5).
-define(TOP_OF_LARGEST, 5).
-define(LINES_OF_TREE, 30).
-define(QUANTILES, [{~"p50", 0.5}, {~"p90", 0.9}, {~"p99", 0.99}]).

-spec sections(dyno_report:document(), options()) -> [section()].
sections(Document, Options) ->
    Runs = dyno_recording:runs(Document),
    metrics(Document, Runs, Options) ++
        series(Document, Runs, Options) ++
        histograms(Document, Runs, Options) ++
        lists:append([events(Run, Document, Options) || Run <- Runs]) ++
        profiles(Document, Options).

-doc "The sections of profiles: the functions with most time.".
-spec profiles(dyno_report:document(), options()) -> [section()].
profiles(Document, Options) ->
    profiles(
        %% The table shows the same and more.
        [
            Run
         || Run <- dyno_recording:runs(Document),
            maps:get(view, Options, top) =/= top orelse
                dyno_recording:tables(Run, ~"profile") =:= []
        ],
        Document,
        Options
    ).

-doc "A run's metrics, series or histograms without another section.".
-spec others(binary(), object(), object()) -> [object()].
others(Part, Run, Document) ->
    Elsewhere = maps:get(get(~"command", Document), ?SHOWN_ELSEWHERE, []),
    [
        Of
     || #{} = Of <- get(Part, Run, []), not lists:member(get(~"group", Of), Elsewhere)
    ].

metrics(Document, Runs, #{top := Top}) ->
    ByRun = [{Run, others(~"metrics", Run, Document)} || Run <- Runs],
    Having = [Of || {_, [_ | _]} = Of <- ByRun],
    Names = lists:uniq([{name(~"name", M), title(M)} || {_, Metrics} <- Having, M <- Metrics]),
    Columns = [
        {~"metric", name, fun({_, Title}) -> Title end}
        | [
            {name(~"id", Run), optional, fun({Name, _}) -> value(Name, Metrics) end}
         || {Run, Metrics} <- Having
        ]
    ],
    dyno_report_section:table(~"Metrics", Columns, lists:sublist(Names, 3 * Top), length(Names)).

value(Name, Metrics) ->
    case [Metric || Metric <- Metrics, name(~"name", Metric) =:= Name] of
        [#{~"value" := Value} = Metric | _] ->
            Unit = get(~"unit", Metric, ~"1"),
            <<(measured(Value, Unit))/binary, (between(Metric, Unit))/binary>>;
        _ ->
            ~"-"
    end.

between(#{~"low" := Low, ~"high" := High}, Unit) when is_number(Low), is_number(High) ->
    <<" (", (measured(Low, Unit))/binary, " .. ", (measured(High, Unit))/binary, ")">>;
between(#{~"low" := Low, ~"high" := null}, Unit) when is_number(Low) ->
    <<" (", (measured(Low, Unit))/binary, " or more)">>;
between(_Metric, _Unit) ->
    ~"".

series(Document, Runs, #{top := Top}) ->
    Found = [
        {titled(Series), {Run, Series, Values}}
     || Run <- Runs,
        Series <- others(~"series", Run, Document),
        [_ | _] = Values <- [[V || V <- get(~"values", Series, []), is_number(V)]]
    ],
    Of = fun(Summary) ->
        fun({_, Series, Values}) -> measured(Summary(Values), get(~"unit", Series, ~"1")) end
    end,
    Columns = [
        {~"series", name, fun({_, Series, _}) -> titled(Series) end},
        {dyno_report_document:run_title(Document), number, fun({Run, _, _}) ->
            name(~"id", Run)
        end},
        {~"mean", number, Of(fun dyno_stats:mean/1)},
        {~"lowest", optional, Of(fun lists:min/1)},
        {~"highest", number, Of(fun lists:max/1)},
        {~"last", optional, Of(fun lists:last/1)}
    ],
    Rows = [
        Row
     || Name <- lists:uniq([Title || {Title, _} <- Found]), {Title, Row} <- Found, Title =:= Name
    ],
    dyno_report_section:table(~"Over time", Columns, lists:sublist(Rows, 3 * Top), length(Rows)).

titled(Part) ->
    Labels = [[", ", Label] || Label <- dyno_report_stacks:labels(Part)],
    Node = [[" of ", name(~"node", Part)] || get(~"node", Part) =/= null],
    iolist_to_binary([title(Part), Labels, Node]).

histograms(Document, Runs, #{top := Top}) ->
    Quantiles = [
        {Title, fun(Of) -> dyno_recording:quantile(Of, Share) end}
     || {Title, Share} <- ?QUANTILES
    ],
    Columns = [
        {~"distribution", name, fun({_, Histogram}) -> titled(Histogram) end},
        {dyno_report_document:run_title(Document), number, fun({Run, _}) -> name(~"id", Run) end},
        {~"count", number, fun({_, Of}) -> measured(get(~"count", Of), ~"count") end}
        | [
            {Title, optional, fun({_, Of}) -> measured(Value(Of), get(~"unit", Of, ~"1")) end}
         || {Title, Value} <- Quantiles ++ [{~"highest", fun(Of) -> get(~"max", Of) end}]
        ]
    ],
    Found = [{Run, Of} || Run <- Runs, Of <- others(~"histograms", Run, Document)],
    dyno_report_section:table(
        ~"Distributions", Columns, lists:sublist(Found, 3 * Top), length(Found)
    ).

%% Events

events(Run, Document, #{top := Top}) ->
    Events = get(~"events", Run, #{}),
    %% Looks are for programs: the findings show their content.
    Items = [Item || #{~"kind" := Kind} = Item <- get(~"items", Events, []), Kind =/= ~"look"],
    Columns = [
        {~"after", number, fun(Event) -> measured(get(~"time_ms", Event), ~"ms") end},
        {~"node", note, fun(Event) -> name(~"node", Event) end},
        {~"process", note, fun(Event) -> name(~"process", Event) end},
        {~"event", name, fun(Event) -> name(~"kind", Event) end},
        {~"", sentence, fun(Event) -> dyno_report_document:text(~"text", Event, ~"") end}
    ],
    dyno_report_section:table(
        <<"Events", (at(Run, Document))/binary>>,
        Columns,
        lists:sublist(Items, 2 * Top),
        length(Items)
    ) ++
        dyno_report_section:text(none, [
            <<(measured(Dropped, ~"count"))/binary, " more events were not kept.">>
         || Dropped <- [get(~"dropped", Events, 0)], Dropped > 0
        ]).

at(Run, Document) ->
    iolist_to_binary([[" at ", Place] || Place <- dyno_report_document:places(Run, Document)]).

profiles(Runs, Document, #{top := Top} = Options) ->
    Having = [Run || Run <- Runs, get(~"profiles", Run, []) =/= []],
    {Shown, Most} =
        case lists:keysort(1, [{N, Run} || #{~"size" := N} = Run <- Having, is_number(N)]) of
            [] -> {Having, Top};
            %% The page has the flame graphs of all sizes.
            BySize -> {[element(2, lists:last(BySize))], min(Top, ?TOP_OF_LARGEST)}
        end,
    lists:append([
        shown(Profile, <<(titled(Profile))/binary, (at(Run, Document))/binary>>, Most, Options)
     || Run <- Shown, #{~"values" := [_ | _]} = Profile <- worth_a_tree(Run, Options)
    ]).

%% Trees of other profiles, like waiting, are for the page.
worth_a_tree(Run, #{view := View}) when View =/= top ->
    Profiles = get(~"profiles", Run, []),
    [Of || Of <- Profiles, get(~"name", Of) =:= get(~"name", hd(Profiles))];
worth_a_tree(Run, _Options) ->
    get(~"profiles", Run, []).

shown(#{~"values" := [Value | _]} = Profile, Title, _Top, #{view := View}) when View =/= top ->
    Unit = get(~"unit", Value, ~"1"),
    dyno_report_content_calls:section(Profile, Title, View, ?LINES_OF_TREE, Unit);
shown(#{~"values" := [First | Others]} = Profile, Title, Top, _Options) ->
    Samples = dyno_report_stacks:samples(Profile),
    {Own, All, Whole} = sums(1, Samples),
    {_, Below, _} = sums(1, [
        Of
     || {_, Stack, _} = Of <- Samples,
        dyno_recording_part:is_unknown(dyno_recording_part:innermost(Stack))
    ]),
    Count = get(~"observations", Profile),
    Unit = get(~"unit", First, ~"1"),
    {Unknown, Known} = lists:partition(
        fun({Function, _}) -> dyno_recording_part:is_unknown(Function) end,
        lists:reverse(lists:keysort(2, maps:to_list(Own)))
    ),
    Functions = Known ++ Unknown,
    Columns =
        [
            {~"function", name, fun({Function, _}) -> Function end},
            {name(~"name", First), number, fun({_, Value} = Of) ->
                Show = fun(Share) -> measured(round(Share * Whole), Unit) end,
                told(measured(Value, Unit), Show, bounds(Of, Whole, Count))
            end},
            {~"share", number, fun(Of) -> share(Of, Whole, Count) end},
            {~"", optional, fun(Of) -> off_by(Of, Whole, Count) end},
            {~"with callees", number, fun({Function, _}) ->
                share(
                    {Function, map_get(Function, All), maps:get(Function, Below, 0)}, Whole, Count
                )
            end}
        ] ++
            [
                {name(~"name", Value), optional, fun({Function, _}) ->
                    measured(maps:get(Function, Of, 0), get(~"unit", Value, ~"1"))
                end}
             || {Index, Value} <- lists:enumerate(2, Others), {Of, _, _} <- [sums(Index, Samples)]
            ] ++
            [{~"", note, fun(Of) -> bar(Of, Whole, Count) end}],
    dyno_report_section:table(
        with_count(Title, Profile), Columns, lists:sublist(Functions, Top), length(Functions)
    ).

sums(Index, Samples) ->
    Measured = [
        {Stack, Value}
     || {_, Stack, Values} <- Samples, Value <- [lists:nth(Index, Values)], is_number(Value)
    ],
    lists:foldl(
        fun({Stack, Value}, {Own, All, Whole}) ->
            Add = fun(Function, Sums) -> Sums#{Function => Value + maps:get(Function, Sums, 0)} end,
            %% A recursive function counts once.
            Inmost = dyno_recording_part:innermost(Stack),
            {Add(Inmost, Own), lists:foldl(Add, All, lists:usort(Stack)), Whole + Value}
        end,
        {#{}, #{}, 0},
        Measured
    ).

with_count(Title, Profile) ->
    Of = fun(Key) -> get(Key, Profile) end,
    Observed = dyno_recording_part:observed(Of(~"observations"), Of(~"seen"), Of(~"scheduler")),
    iolist_to_binary([Title, Observed]).

%% The interval of a share of samples, and whether it is narrow; unknown time may be none of it.
bounds({Function, Value}, Whole, Count) ->
    bounds({Function, Value, 0}, Whole, Count);
bounds({Function, Value, Below}, Whole, Count) when is_integer(Count), Count > 0, Whole > 0 ->
    Share = min(1.0, Value / Whole),
    {_, High} = dyno_stats_interval:share(Share, Count),
    {Low, _} = dyno_stats_interval:share(max(0.0, Share - Below / Whole), Count),
    case dyno_recording_part:is_unknown(Function) of
        true -> {false, 0.0, High};
        false -> {High - Low =< ?WIDE * Share, Low, High}
    end;
bounds(_Of, _Whole, _Count) ->
    none.

told(_Known, Show, {false, Low, High}) -> dyno_report_document:imprecise(Low, High, Show);
told(Known, _Show, _Bounds) -> Known.

share(_Of, Whole, _Count) when Whole =< 0 ->
    ~"-";
share(Of, Whole, Count) ->
    Show = fun(Share) -> measured(Share, ~"ratio") end,
    told(Show(element(2, Of) / Whole), Show, bounds(Of, Whole, Count)).

off_by(Of, Whole, Count) ->
    case bounds(Of, Whole, Count) of
        {true, Low, High} ->
            <<"+/- ", (float_to_binary(ceil(500 * (High - Low)) / 10, [{decimals, 1}]))/binary>>;
        _ ->
            ~""
    end.

bar({_, Value} = Of, Whole, Count) ->
    case bounds(Of, Whole, Count) of
        {false, _, _} -> ~"";
        _ -> {bar, Value / max(Whole, 1)}
    end.
