%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_report_content_parts).
-moduledoc """
Sections of the parts of runs other than tables: single metrics, series, distributions, events and
profiles.

What tests and benchmarks measure always has sections of its own (`dyno_report_content_load`,
`dyno_report_content_bench`) and is left out here, by its group.
""".

-export([sections/2, profiles/2, others/3]).

-import(dyno_report_document, [get/2, get/3, measured/2, name/2]).

-type object() :: dyno_report_document:object().
-type section() :: dyno_report_section:section().
-type options() :: dyno_report:options().

%% The groups of what has sections of its own, by the command that writes them.
-define(SHOWN_ELSEWHERE, #{
    ~"test" => [~"load", ~"processes", ~"servers", ~"instrument", ~"vm", ~"os"],
    ~"record" => [~"processes", ~"servers", ~"instrument", ~"vm", ~"os"],
    ~"bench" => [~"bench", ~"vm", ~"os"],
    ~"servers" => [~"servers"],
    ~"profile" => [~"instrument", ~"vm", ~"os"],
    ~"compare" => []
}).
-define(TOP_OF_LARGEST, 5).
-define(LINES_OF_TREE, 30).
-define(QUANTILES, [{~"p50", 0.5}, {~"p90", 0.9}, {~"p99", 0.99}]).

-doc "The sections, of all runs.".
-spec sections(dyno_report:document(), options()) -> [section()].
sections(Document, Options) ->
    Runs = dyno_report_document:runs(Document),
    metrics(Document, Runs, Options) ++
        series(Document, Runs, Options) ++
        histograms(Document, Runs, Options) ++
        lists:append([events(Run, Document, Options) || Run <- Runs]) ++
        profiles(Document, Options).

-doc "Those of the profiles: the functions that take most.".
-spec profiles(dyno_report:document(), options()) -> [section()].
profiles(Document, Options) ->
    profiles(
        %% The table says the same, and more.
        [
            Run
         || Run <- dyno_report_document:runs(Document),
            maps:get(view, Options, top) =/= top orelse
                dyno_report_document:tables(~"profile", Run) =:= []
        ],
        Document,
        Options
    ).

-doc "The metrics, series or histograms of a run that have no section elsewhere.".
-spec others(binary(), object(), object()) -> [object()].
others(Part, Run, Document) ->
    Elsewhere = maps:get(get(~"command", Document), ?SHOWN_ELSEWHERE, []),
    [
        Of
     || #{} = Of <- get(Part, Run, []), not lists:member(get(~"group", Of), Elsewhere)
    ].

title(Part) ->
    dyno_report_document:text(~"title", Part, name(~"name", Part)).

%% A row for each metric, a column for each run.
metrics(Document, Runs, #{top := Top}) ->
    ByRun = [{Run, others(~"metrics", Run, Document)} || Run <- Runs],
    Having = [Of || {_, [_ | _]} = Of <- ByRun],
    Names = lists:uniq([{name(~"name", M), title(M)} || {_, Metrics} <- Having, M <- Metrics]),
    Columns = [
        #{title => ~"metric", align => left, fit => flexible}
        | [
            #{title => name(~"id", Run), align => right, fit => optional}
         || {Run, _} <- Having
        ]
    ],
    Rows = [
        [Title | [value(Name, Metrics) || {_, Metrics} <- Having]]
     || {Name, Title} <- Names
    ],
    dyno_report_section:table(~"Metrics", Columns, lists:sublist(Rows, 3 * Top), length(Rows)).

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
between(_Metric, _Unit) ->
    ~"".

%% A row for each series and run; what is of the same series stands together.
series(Document, Runs, #{top := Top}) ->
    Found = [
        {titled(Series), Run, Series, Values}
     || Run <- Runs,
        Series <- others(~"series", Run, Document),
        [_ | _] = Values <- [[V || V <- get(~"values", Series, []), is_number(V)]]
    ],
    Columns = [
        #{title => ~"series", align => left, fit => flexible},
        #{title => dyno_report_document:run_title(Document), align => right},
        #{title => ~"mean", align => right},
        #{title => ~"lowest", align => right, fit => optional},
        #{title => ~"highest", align => right},
        #{title => ~"last", align => right, fit => optional}
    ],
    Rows = [
        [Title, name(~"id", Run)] ++
            [
                measured(Value, get(~"unit", Series, ~"1"))
             || Value <- [
                    dyno_stats:mean(Values), lists:min(Values), lists:max(Values),
                    lists:last(Values)
                ]
            ]
     || Name <- lists:uniq([Title || {Title, _, _, _} <- Found]),
        {Title, Run, Series, Values} <- Found,
        Title =:= Name
    ],
    dyno_report_section:table(~"Over time", Columns, lists:sublist(Rows, 3 * Top), length(Rows)).

titled(Part) ->
    Labels = [
        [", ", dyno_report_document:text(Label, get(~"labels", Part), ~"")]
     || Label <- lists:sort(maps:keys(get(~"labels", Part, #{})))
    ],
    Node = [[" of ", name(~"node", Part)] || get(~"node", Part) =/= null],
    iolist_to_binary([title(Part), Labels, Node]).

histograms(Document, Runs, #{top := Top}) ->
    Columns = [
        #{title => ~"distribution", align => left, fit => flexible},
        #{title => dyno_report_document:run_title(Document), align => right},
        #{title => ~"count", align => right}
        | [
            #{title => Title, align => right, fit => optional}
         || Title <- [Q || {Q, _} <- ?QUANTILES] ++ [~"highest"]
        ]
    ],
    Rows = [
        [titled(Histogram), name(~"id", Run), measured(get(~"count", Histogram), ~"count")] ++
            [
                measured(Value, get(~"unit", Histogram, ~"1"))
             || Value <-
                    [dyno_recording:quantile(Histogram, Q) || {_, Q} <- ?QUANTILES] ++
                        [get(~"max", Histogram)]
            ]
     || Run <- Runs, Histogram <- others(~"histograms", Run, Document)
    ],
    dyno_report_section:table(
        ~"Distributions", Columns, lists:sublist(Rows, 3 * Top), length(Rows)
    ).

%% Events

events(Run, Document, #{top := Top}) ->
    Events = get(~"events", Run, #{}),
    Items = get(~"items", Events, []),
    Columns = [
        #{title => ~"after", align => right},
        #{title => ~"node", align => left, fit => optional},
        #{title => ~"process", align => left, fit => optional},
        #{title => ~"event", align => left, fit => flexible},
        #{title => ~"", align => left, fit => flexible}
    ],
    Rows = [
        [
            measured(get(~"time_ms", Event), ~"ms"),
            name(~"node", Event),
            name(~"process", Event),
            name(~"kind", Event),
            dyno_report_document:text(~"text", Event, ~"")
        ]
     || Event <- lists:sublist(Items, 2 * Top)
    ],
    dyno_report_section:table(
        <<"Events", (at(Run, Document))/binary>>, Columns, Rows, length(Items)
    ) ++
        dyno_report_section:text(none, [
            <<(measured(Dropped, ~"count"))/binary, " more events were not kept.">>
         || Dropped <- [get(~"dropped", Events, 0)], Dropped > 0
        ]).

at(Run, Document) ->
    case dyno_report_document:runs(Document) of
        [_] -> ~"";
        _ -> <<" at ", (dyno_report_document:place(Run, Document))/binary>>
    end.

%% Profiles: which functions took the first of the values, themselves and with what they called; and
%% what they took themselves of the others.

profiles(Runs, Document, #{top := Top} = Options) ->
    Having = [Run || Run <- Runs, get(~"profiles", Run, []) =/= []],
    {Shown, Most} =
        case lists:keysort(1, [{N, Run} || #{~"size" := N} = Run <- Having, is_number(N)]) of
            [] -> {Having, Top};
            %% The page has the flame graphs of all sizes.
            BySize -> {[element(2, lists:last(BySize))], min(Top, ?TOP_OF_LARGEST)}
        end,
    lists:append([
        shown(Profile, at(Run, Document), Most, Options)
     || Run <- Shown, #{~"values" := [_ | _]} = Profile <- worth_a_tree(Run, Options)
    ]).

%% Trees of the others, such as of what waits, are for the page.
worth_a_tree(Run, #{view := View}) when View =/= top ->
    Profiles = get(~"profiles", Run, []),
    [Of || Of <- Profiles, get(~"name", Of) =:= get(~"name", hd(Profiles))];
worth_a_tree(Run, _Options) ->
    get(~"profiles", Run, []).

shown(#{~"values" := [Value | _]} = Profile, Place, _Top, #{view := View}) when View =/= top ->
    Title = <<(titled(Profile))/binary, Place/binary>>,
    Unit = get(~"unit", Value, ~"1"),
    dyno_report_content_calls:section(Profile, Title, View, ?LINES_OF_TREE, Unit);
shown(Profile, Place, Top, _Options) ->
    profile(Profile, Place, Top).

profile(#{~"values" := [First | Others], ~"samples" := Samples} = Profile, Place, Top) ->
    {Own, All, Whole} = sums(1, Samples),
    Also = [
        {get(~"unit", Value, ~"1"), element(1, sums(Index, Samples))}
     || {Index, Value} <- lists:enumerate(2, Others)
    ],
    Unit = get(~"unit", First, ~"1"),
    Rows = lists:reverse(
        lists:keysort(3, [
            {Index, Frame, map_get(Index, Own), maps:get(Index, All, 0)}
         || {Index, Frame} <- lists:enumerate(0, get(~"frames", Profile, [])),
            is_map_key(Index, Own)
        ])
    ),
    Columns =
        [
            #{title => ~"function", align => left, fit => flexible},
            #{title => name(~"name", First), align => right},
            #{title => ~"share", align => right},
            #{title => ~"with callees", align => right}
        ] ++
            [#{title => name(~"name", V), align => right, fit => optional} || V <- Others] ++
            [#{title => ~"", align => left, fit => optional}],
    Cells = [
        [
            dyno_report_text:clean(Frame),
            measured(OfOwn, Unit),
            share(OfOwn, Whole),
            share(OfAll, Whole)
        ] ++
            [measured(maps:get(Index, Of, 0), U) || {U, Of} <- Also] ++
            [{bar, OfOwn / max(Whole, 1)}]
     || {Index, Frame, OfOwn, OfAll} <- lists:sublist(Rows, Top)
    ],
    Title = <<(titled(Profile))/binary, Place/binary>>,
    dyno_report_section:table(Title, Columns, Cells, length(Rows)).

%% Of the value with this number: of each function itself, with what it called, and of all.
sums(Index, Samples) ->
    lists:foldl(
        fun
            (#{~"stack" := [_ | _] = Stack, ~"values" := Values}, {Own, All, Whole}) ->
                Value = nth(Index, Values),
                Add = fun(Frame, Sums) ->
                    maps:update_with(Frame, fun(Sum) -> Sum + Value end, Value, Sums)
                end,
                %% A function that calls itself counts once.
                {Add(lists:last(Stack), Own), lists:foldl(Add, All, lists:usort(Stack)),
                    Whole + Value};
            (_Sample, Sums) ->
                Sums
        end,
        {#{}, #{}, 0},
        Samples
    ).

nth(Index, Values) ->
    case lists:nthtail(min(Index - 1, length(Values)), Values) of
        [Value | _] when is_number(Value) -> Value;
        _ -> 0
    end.

share(Part, Whole) when Whole > 0 -> measured(Part / Whole, ~"ratio");
share(_Part, _Whole) -> ~"-".
