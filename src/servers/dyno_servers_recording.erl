%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_servers_recording).
-moduledoc false.
%% What was measured of servers, as one run of a recording: tables over the whole time, series over
%% the windows, distributions, and sentences that say what is worth to know. Pure.

-export([run/3, known/0, level/1]).
-export_type([options/0]).

-type options() :: #{
    group := dyno_servers_window:group(),
    %% What the nodes say of themselves.
    facts := [map()],
    lost := dyno_servers:lost(),
    dropped := non_neg_integer(),
    sinks := [{binary(), dyno_servers_sink:failures()}],
    status := complete | interrupted | failed
}.

-define(GROUP, ~"servers").
%% Distributions that are kept, those of the busiest.
-define(MOST_HISTOGRAMS, 40).
%% Servers that a sentence is worth.
-define(MOST_SENTENCES, 5).

-doc "The run.".
-spec run(dyno_servers_total:t(), StartedAt :: binary(), options()) -> map().
run(Total, StartedAt, #{group := Group, facts := Facts, status := Status} = Options) ->
    Servers = dyno_servers_total:servers(Total),
    DurationNs = dyno_servers_total:duration_ns(Total),
    Sums = named(Group, dyno_servers_window:group(Group, Servers)),
    Stages = dyno_servers_pipeline:stages(Servers, max(1, DurationNs)),
    #{
        status => Status,
        started_at => StartedAt,
        duration_ns => DurationNs,
        nodes => Facts,
        metrics => metrics(Total, Servers),
        series => lists:append([series(Of) || Of <- dyno_servers_total:points(Total)]),
        histograms => histograms(Sums, DurationNs),
        tables =>
            [Table || #{rows := [_ | _]} = Table <- tables(Group, Sums, Servers, DurationNs)] ++
            [dyno_recording_table:make(stages_spec(), Stages) || Stages =/= []] ++
            [
                dyno_recording_table:make(Spec, lists:enumerate(Lines))
             || {Spec, [_ | _] = Lines} <- [
                    {pipeline_spec(), [
                        {~"drawing", Line}
                     || Line <- dyno_servers_pipeline:draw(Stages)
                    ]},
                    {findings_spec(),
                        %% What the report has above the numbered sentences.
                        [
                            {~"symptom", node_level(OfNode)}
                         || OfNode <- dyno_servers_total:nodes(Total)
                        ] ++ [{~"finding", Text} || Text <- findings(Servers, DurationNs)]}
                ]
            ],
        warnings => warnings(Total, Options)
    }.

%% Processes of one name are told apart by their identifiers.
named(process, Sums) ->
    Names = maps:groups_from_list(fun name/1, Sums),
    [
        case {map_get(name(Sum), Names), Labels} of
            {[_], _} -> Sum;
            {_, #{pid := Pid}} -> Sum#{labels := Labels#{name := with_pid(name(Sum), Pid)}};
            {_, _} -> Sum#{labels := Labels#{name := <<(name(Sum))/binary, " (ended)">>}}
        end
     || #{labels := Labels} = Sum <- Sums
    ];
named(Group, Sums) ->
    [Sum#{labels := Labels#{name => map_get(Group, Labels)}} || #{labels := Labels} = Sum <- Sums].

name(#{labels := #{name := Name}}) -> Name.

with_pid(Name, Pid) -> <<Name/binary, " ", Pid/binary>>.

tables(Group, Sums, Servers, DurationNs) ->
    Rows = [dyno_servers_row:row(Sum, DurationNs) || Sum <- Sums],
    Many = [Sum || #{processes := N} = Sum <- dyno_servers_window:group(module, Servers), N > 1],
    ByModule = [
        dyno_servers_row:row(Sum#{labels := Labels#{name => Module}}, DurationNs)
     || #{labels := #{module := Module} = Labels} = Sum <- Many, Group =:= process
    ],
    [
        dyno_recording_table:make(servers_spec(), Rows),
        dyno_recording_table:make(
            (servers_spec())#{name := ~"server_modules", title := ~"Servers by module"}, ByModule
        ),
        dyno_recording_table:make(
            callbacks_spec(),
            lists:append([dyno_servers_row:callbacks(Sum, DurationNs) || Sum <- Sums])
        ),
        dyno_recording_table:make(
            messages_spec(), lists:append([dyno_servers_row:tags(Sum, DurationNs) || Sum <- Sums])
        )
    ].

-doc "All that such a recording may have, for thresholds.".
-spec known() -> dyno_threshold:known().
known() ->
    #{
        metrics => [
            #{name => Name, unit => Unit} || {Name, _, Unit} <- metric_list()
        ],
        series => [
            #{name => Name, unit => Unit} || {Name, _, Unit, _} <- series_list()
        ],
        tables => [
            servers_spec(), (servers_spec())#{name := ~"server_modules"}, callbacks_spec(),
            messages_spec(), stages_spec()
        ]
    }.

%% Tables

number(Name, Title, Kind, Help) ->
    number(Name, Title, Kind, #{help => Help}, binary_to_atom(Name)).

number(Name, Title, Kind, Properties, Key) ->
    {Name, Title, Kind, Properties#{optional => true}, fun(Row) ->
        rounded(Kind, maps:get(Key, Row, undefined))
    end}.

%% The column that rows are ordered by is always there.
sorting(Name, Title, Kind, Properties, Key) ->
    {Name, Title, Kind, Properties, fun(Row) -> rounded(Kind, map_get(Key, Row)) end}.

rounded(Kind, Value) when is_float(Value), (Kind =:= ns orelse Kind =:= count) -> round(Value);
%% Less than 0.01 % is nothing.
rounded(ratio, Value) when is_float(Value) -> round(Value * 10_000) / 10_000;
rounded({integer, _}, Value) when is_float(Value) -> round(Value);
rounded(_Kind, Value) -> Value.

text(Name, Title) ->
    {Name, Title, string, #{role => note, optional => true}, fun(Row) ->
        maps:get(binary_to_atom(Name), Row, undefined)
    end}.

key(Name, Title, Key) ->
    {Name, Title, string, #{role => key}, fun(Row) -> map_get(Key, Row) end}.

lower(Help) -> #{help => Help, better => lower}.

times() ->
    [
        number(~"mean", ~"Mean", ns, lower(~"Wall time of a callback."), mean),
        number(~"p50", ~"p50", ns, lower(~"Half of the callbacks took no longer."), p50),
        number(~"p90", ~"p90", ns, lower(~"90 of 100 took no longer."), p90),
        number(~"p99", ~"p99", ns, lower(~"99 of 100 took no longer."), p99),
        number(~"p99_9", ~"p99.9", ns, lower(~"999 of 1,000 took no longer."), p999),
        number(~"max", ~"Longest", ns, lower(~"The longest callback."), max),
        number(~"min", ~"Shortest", ns, ~"The shortest callback."),
        number(~"stdev", ~"Standard deviation", ns, ~"Of the wall times."),
        number(~"range", ~"Range", ns, ~"From the shortest to the longest.")
    ].

used() ->
    [
        number(~"wall", ~"In callbacks", ns, #{help => ~"Wall time, all together."}, wall_ns),
        number(~"cpu_time", ~"On the processor", ns,
            #{help => ~"What callbacks ran of that; the rest they were blocked."}, cpu_ns),
        number(~"words", ~"Words", {integer, ~"words"}, ~"Allocated on the heap.")
    ].

servers_spec() ->
    #{
        name => ~"servers",
        title => ~"Servers by load",
        sort => {~"busy", descending},
        columns =>
            [
                key(~"server", ~"Server", name),
                number(~"rate", ~"Callbacks", {number, ~"1/s"}, ~"Messages handled a second."),
                sorting(~"busy", ~"Busy", ratio,
                    lower(~"The share of the time that a callback ran; at 100 % it is saturated."),
                    busy)
                | times()
            ] ++
            [
                number(~"cpu", ~"CPU", ratio, #{help => ~"The share of the time on a processor."},
                    cpu),
                number(~"blocked", ~"Blocked", ratio, #{
                    help => ~"The share of the time in a callback, but not on a processor."
                }, blocked),
                number(~"queue_max", ~"Longest queue", count, lower(~"Messages that waited."),
                    queue_max),
                number(~"queue_p50", ~"Queue p50", count, ~"When a message was taken."),
                number(~"queue_p99", ~"Queue p99", count, ~"When a message was taken."),
                number(~"delay_p50", ~"Waited p50", ns, ~"A message before its callback."),
                number(~"delay_p99", ~"Waited p99", ns, lower(~"A message before its callback."),
                    delay_p99),
                number(~"exceptions", ~"Exceptions", count, lower(~"Callbacks that failed."),
                    exceptions),
                number(~"crashes", ~"Crashes", count, lower(~"Processes that failed."), crashes),
                number(~"count", ~"Handled", count, ~"Messages handled."),
                number(~"arrival_rate", ~"Arrivals", {number, ~"1/s"}, ~"Messages that came."),
                number(~"service_rate", ~"Service rate", {number, ~"1/s"},
                    ~"What it could handle, busy all of the time."),
                number(~"saturates_at", ~"Saturates at", {number, ~"1"},
                    ~"So many times today's rate keeps it busy all of the time."),
                number(~"processes", ~"Processes", count, ~"Of this name, all together.")
            ] ++ used() ++
            [
                text(~"module", ~"Module"),
                text(~"behaviour", ~"Behaviour"),
                text(~"application", ~"Application"),
                text(~"supervisor", ~"Supervisor"),
                text(~"node", ~"Node"),
                text(~"measured", ~"Measured by"),
                text(~"why", ~"Not by the hook because"),
                text(~"delay_method", ~"Waiting told by"),
                text(~"reasons", ~"Crashed with")
            ]
    }.

callbacks_spec() ->
    #{
        name => ~"callbacks",
        title => ~"Callbacks by time",
        sort => {~"wall", descending},
        columns =>
            [
                key(~"server", ~"Server", name),
                key(~"callback", ~"Callback", callback),
                number(~"rate", ~"Rate", {number, ~"1/s"}, ~"Callbacks a second."),
                sorting(~"wall", ~"In it", ns, #{help => ~"Wall time, all together."}, wall_ns)
                | times()
            ] ++
            [
                number(~"cpu_per_call", ~"CPU a call", ns, #{help => ~"On a processor."}, cpu_mean),
                number(~"words_per_call", ~"Words a call", {number, ~"words"}, #{
                    help => ~"Allocated on the heap."
                }, words_mean),
                number(~"exceptions", ~"Exceptions", count, lower(~"That it ended with."),
                    exceptions),
                number(~"stops", ~"Stops", count, ~"Times it stopped its process."),
                number(~"count", ~"Calls", count, ~"How often it ran.")
            ]
    }.

messages_spec() ->
    #{
        name => ~"messages",
        title => ~"Kinds of messages by time",
        sort => {~"wall", descending},
        columns => [
            key(~"server", ~"Server", name),
            key(~"message", ~"Message", tag),
            text(~"callback", ~"Callback"),
            number(~"rate", ~"Rate", {number, ~"1/s"}, ~"Messages a second."),
            sorting(~"wall", ~"In callbacks", ns, #{help => ~"Wall time, all together."}, wall_ns),
            number(~"mean", ~"Mean", ns, lower(~"Wall time of its callback."), mean),
            number(~"count", ~"Messages", count, ~"How many.")
        ]
    }.

stages_spec() ->
    Of = fun(Key) -> fun(#{sum := Sum}) -> maps:get(Key, Sum, undefined) end end,
    Quantile = fun(Key, Share) ->
        fun
            (#{sum := #{Key := #{} = Histogram}}) -> dyno_histogram:quantile(Histogram, Share);
            (_) -> undefined
        end
    end,
    Optional = #{optional => true},
    #{
        name => ~"stages",
        title => ~"Stages",
        columns => [
            {~"stage", ~"Stage", string, fun(#{name := Name}) -> Name end},
            {~"kind", ~"Kind", string, fun(#{kind := Kind}) -> atom_to_binary(Kind) end},
            {~"events_in", ~"Events in", {number, ~"1/s"}, fun(#{rates := #{in := In}}) -> In end},
            {~"events_out", ~"Events out", {number, ~"1/s"},
                fun(#{rates := #{out := Out}}) -> Out end},
            {~"busy", ~"Busy", ratio, Optional, fun(#{busy := Busy}) -> Busy end},
            {~"batch_p50", ~"Batch p50", count, Optional, Quantile(batches, 0.5)},
            {~"demand_asked", ~"Asked for", count, Optional, Of(demand_asked)},
            {~"demand_received", ~"Asked of it", count, Optional, Of(demand_received)},
            {~"outstanding", ~"Outstanding", count, Optional, Of(outstanding)},
            {~"demand_to_event_p50", ~"Demand to event p50", ns, Optional,
                Quantile(demand_to_event, 0.5)},
            {~"demand_to_event_p99", ~"Demand to event p99", ns, Optional,
                Quantile(demand_to_event, 0.99)},
            {~"buffered", ~"Buffered", count, Optional, Of(buffered)},
            {~"discarded", ~"Discarded", count, Optional#{better => lower}, Of(discarded)},
            {~"processes", ~"Processes", count, fun(#{processes := N}) -> N end},
            {~"gives_to", ~"Gives to", string, fun(#{gives_to := To}) ->
                iolist_to_binary(lists:join(", ", [Name || {Name, _} <- To]))
            end},
            {~"note", ~"Note", string, fun
                (#{bottleneck := true}) -> ~"bottleneck";
                (_) -> ~""
            end}
        ]
    }.

pipeline_spec() -> lines_spec(~"pipeline", ~"Pipeline").

findings_spec() -> lines_spec(~"server_findings", ~"What was seen").

node_level(#{node := Node} = OfNode) ->
    dyno_recording_part:text("~ts: ~ts", [Node, level(OfNode)]).

lines_spec(Name, Title) ->
    #{
        name => Name,
        title => Title,
        derived => true,
        columns => [
            {~"line", ~"Line", integer, #{role => key}, fun({Index, _}) -> Index end},
            {~"kind", ~"Kind", string, fun({_, {Kind, _}}) -> Kind end},
            {~"text", ~"Text", string, fun({_, {_, Text}}) -> Text end}
        ]
    }.

%% What a person would say after reading the table.
findings(Servers, DurationNs) ->
    Rows = [
        dyno_servers_row:row(Sum, DurationNs)
     || Sum <- named(process, dyno_servers_window:group(process, Servers))
    ],
    Sentences = [
        sentence(Row, Forecast)
     || Row <- dyno_servers_row:ranked(busy, Rows),
        Forecast <- [dyno_servers_row:forecast(Row)],
        Forecast =/= none
    ],
    Crashed = [
        dyno_recording_part:text("~ts crashed ~ts: ~ts", [
            Name, times(N), maps:get(reasons, Row, ~"")
        ])
     || #{name := Name, crashes := N} = Row <- dyno_servers_row:ranked(exceptions, Rows), N > 0
    ],
    lists:sublist(Sentences, ?MOST_SENTENCES) ++ lists:sublist(Crashed, ?MOST_SENTENCES).

sentence(#{name := Name} = Row, Forecast) ->
    dyno_recording_part:text("~ts: ~ts~ts", [Name, Forecast, details(Row)]).

details(Row) ->
    Parts = [
        [Before, dyno_unit:format(Value, Unit), After]
     || {Key, Least, Before, Unit, After} <- [
            {busy, 0.0, "busy ", ~"ratio", ""},
            {blocked, 0.2, "blocked ", ~"ratio", ""},
            {queue_max, 2, "longest queue ", ~"count", ""},
            {delay_p99, 1000, "messages wait ", ~"ns", " at the p99"}
        ],
        #{Key := Value} <- [Row],
        is_number(Value),
        Value >= Least
    ],
    case Parts of
        [] -> "";
        _ -> [" (", lists:join(", ", Parts), ")"]
    end.

times(1) -> "once";
times(N) -> [integer_to_binary(N), " times"].

%% Metrics, series, distributions

metric_list() ->
    [
        {~"servers.probe", ~"What measuring adds to a callback", ~"ns"},
        {~"servers.cost", ~"What measuring took of one scheduler", ~"ratio"},
        {~"servers.callbacks", ~"Callbacks of all servers of the nodes", ~"1/s"},
        {~"servers.processes", ~"Processes that were measured", ~"count"}
    ].

metrics(Total, Servers) ->
    Nodes = dyno_servers_total:nodes(Total),
    Windows = dyno_servers_total:windows(Total),
    Values = [
        lists:max([0 | [Ns || #{probe_ns := Ns} <- Nodes]]),
        lists:max([0.0 | [Cost || #{cost := Cost} <- Nodes]]),
        lists:sum([
            lists:sum(maps:values(Rate)) * 1.0e9 / max(1, Ns)
         || #{rate := Rate, duration_ns := Ns} <- Nodes
        ]),
        length(Servers)
    ],
    [
        dyno_recording_part:metric(Name, Title, Value, Unit, Windows, ~"instrument")
     || {{Name, Title, Unit}, Value} <- lists:zip(metric_list(), Values)
    ].

series_list() ->
    [
        {~"servers.rate", ~"Callbacks a second", ~"1/s", rate},
        {~"servers.busy", ~"Busy", ~"ratio", busy},
        {~"servers.queue", ~"Message queue", ~"count", queue_now},
        {~"servers.p99", ~"p99 of a callback", ~"ns", p99}
    ].

series({Name, Points}) ->
    [
        (dyno_recording_part:series(
            Series, Unit, ?GROUP, Title, undefined, [Ns / 1.0e6 || {Ns, _} <- Points],
            [maps:get(Key, Row, undefined) || {_, Row} <- Points]
        ))#{labels := #{server => Name}}
     || {Series, Title, Unit, Key} <- series_list(),
        lists:any(fun({_, Row}) -> is_number(maps:get(Key, Row, undefined)) end, Points)
    ].

histograms(Sums, DurationNs) ->
    Ranked = dyno_servers_row:ranked(busy, [
        (dyno_servers_row:row(Sum, DurationNs))#{sum => Sum} || Sum <- Sums
    ]),
    lists:sublist(
        lists:append([
            of_sum(Sum) || #{sum := Sum, count := Count} <- Ranked, Count > 0
        ]),
        ?MOST_HISTOGRAMS
    ).

of_sum(#{labels := #{name := Name}, callbacks := Callbacks, delay := Delay, queue := Queue}) ->
    [
        histogram(~"servers.callback", <<Name/binary, " ", Callback/binary>>, ~"ns", Wall, #{
            server => Name, callback => Callback
        })
     || #{name := Callback, wall := #{} = Wall} <- Callbacks
    ] ++
        [
            histogram(Of, Title, Unit, Histogram, #{server => Name})
         || {Of, Title, Unit, #{} = Histogram} <- [
                {~"servers.delay", <<"waiting for ", Name/binary>>, ~"ns", Delay},
                {~"servers.queue_length", <<"queue of ", Name/binary>>, ~"count", Queue}
            ]
        ].

histogram(Name, Title, Unit, Snapshot, Labels) ->
    #{count := Count, sum := Sum, min := Min, max := Max} = Snapshot,
    #{
        name => Name,
        title => Title,
        unit => Unit,
        group => ?GROUP,
        labels => Labels,
        count => Count,
        sum => Sum,
        min => Min,
        max => Max,
        scheme => dyno_histogram:scheme(),
        buckets => [tuple_to_list(Bucket) || Bucket <- dyno_histogram:to_recording(Snapshot)]
    }.

%% Warnings

warnings(Total, #{lost := Lost, dropped := Dropped, sinks := Sinks}) ->
    Nodes = dyno_servers_total:nodes(Total),
    lists:append([
        [
            {~"stepped_down", dyno_recording_part:text("~ts: ~ts", [Node, Why])}
         || #{node := Node, stepped_down := <<Why/binary>>} <- Nodes
        ],
        [
            {~"unselected",
                dyno_recording_part:text(
                    "~b more servers of ~ts were selected than are measured (--most)", [N, Node]
                )}
         || #{node := Node, unselected := N} <- Nodes, N > 0
        ],
        [
            {~"node_lost", dyno_recording_part:text("~ts", [dyno_error:format(Error)])}
         || _Node := Error <- Lost
        ],
        [
            {~"windows_dropped",
                dyno_recording_part:text("~b windows came too fast and were left out", [Dropped])}
         || Dropped > 0
        ],
        [
            {~"sink",
                dyno_recording_part:text("~ts: ~b failed, ~b windows dropped~ts", [
                    Address, Failed, Left, last(Last)
                ])}
         || {Address, #{failed := Failed, dropped := Left, last := Last}} <- Sinks,
            Failed + Left > 0
        ]
    ]).

last(none) -> "";
last(Why) -> [" (", Why, ")"].

-doc "How deep a node is measured and what that costs, in words.".
-spec level(dyno_servers_total:of_node() | dyno_servers_window:of_node()) -> binary().
level(#{level := Level, probe_ns := ProbeNs, cost := Cost} = OfNode) ->
    Down =
        case OfNode of
            #{stepped_down := <<Why/binary>>} -> ["; stepped down: ", Why];
            #{} -> ""
        end,
    dyno_recording_part:text("level ~ts: ~ts a callback, ~ts of a scheduler~ts", [
        Level, dyno_unit:format(ProbeNs, ~"ns"), dyno_unit:format(Cost, ~"ratio"), Down
    ]).
