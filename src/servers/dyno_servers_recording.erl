%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_servers_recording).
-moduledoc false.
%% Servers as one run: tables over the whole time, series over the windows, and findings. Pure.

-export([run/2, known/0, level/1, callback_rate/1]).
-export_type([options/0]).

-type options() :: #{
    group := dyno_servers_window:group(),
    lost := dyno_servers:lost(),
    dropped := non_neg_integer(),
    alarms => [binary()],
    sinks := [{binary(), dyno_servers_sink:failures()}],
    atom() => term()
}.

-define(GROUP, ~"servers").
%% The distributions kept: of the busiest.
-define(MOST_HISTOGRAMS, 40).
%% The share of the time that counts as nearly all.
-define(MOSTLY, 0.9).

-spec run(dyno_servers_total:t(), options()) -> map().
run(Total, #{group := Group} = Options) ->
    Servers = dyno_servers_total:servers(Total),
    DurationNs = dyno_servers_total:duration_ns(Total),
    Sums = named(Group, dyno_servers_window:group(Group, Servers)),
    %% Of hardly busy servers, those with callbacks come first.
    Rows = dyno_servers_row:ranked(busy, [row(Sum, Total) || Sum <- Sums]),
    Stages = dyno_servers_pipeline:stages(Servers, max(1, DurationNs)),
    #{
        metrics => metrics(Total, Servers),
        series => lists:append([series(Of) || Of <- dyno_servers_total:points(Total)]),
        histograms => histograms(Rows),
        tables => lists:append([
            tables(Rows, by_module(Group, Servers, Total), Total),
            made([
                {stages_spec(), [stage_row(Stage) || Stage <- Stages]},
                {flows_spec(), dyno_servers_pipeline:flows(Stages)}
            ]),
            drawing(dyno_servers_pipeline:draw(Stages)),
            dyno_servers_findings:tables(
                Total,
                [row(Sum, Total) || Sum <- named(process, Servers)],
                maps:get(alarms, Options, [])
            )
        ]),
        warnings => warnings(Total, Options)
    }.

row(Seen, Total) ->
    Sum = dyno_servers_window:with_unseen(dyno_servers_total:nodes(Total), Seen),
    (dyno_servers_row:row(Sum, dyno_servers_total:duration_ns(Sum, Total)))#{sum => Sum}.

%% Adds identifiers and nodes to names that several processes have.
named(process, Sums) ->
    Names = maps:groups_from_list(fun(#{labels := #{name := Name}}) -> Name end, Sums),
    [
        Sum#{labels := Labels#{name := iolist_to_binary([Name | distinct(Labels, Same)])}}
     || #{labels := #{name := Name} = Labels} = Sum <- Sums,
        Same <- [[Of || #{labels := Of} <- map_get(Name, Names)]]
    ];
named(Group, Sums) ->
    [Sum#{labels := Labels#{name => map_get(Group, Labels)}} || #{labels := Labels} = Sum <- Sums].

%% A process that has a name alone in its node needs no identifier.
distinct(_Labels, [_]) ->
    "";
distinct(#{node := Node} = Labels, Same) ->
    case {[Of || #{node := In} = Of <- Same, In =:= Node], Labels} of
        {[_], _} -> [" of ", Node];
        {Here, #{pid := Pid}} -> [" ", Pid | [[" of ", Node] || length(Here) < length(Same)]];
        {_, _} -> " (ended)"
    end;
distinct(_Labels, _Same) ->
    " (ended)".

by_module(process, Servers, Total) ->
    Sums = named(module, dyno_servers_window:group(module, Servers)),
    [row(Sum, Total) || #{processes := N} = Sum <- Sums, N > 1];
by_module(_Group, _Servers, _Total) ->
    [].

tables(Rows, ByModule, Total) ->
    Of = fun(Function) ->
        lists:append([
            Function(Sum, dyno_servers_total:duration_ns(Sum, Total))
         || #{sum := Sum} <- Rows
        ])
    end,
    made([
        {servers_spec(), Rows},
        {modules_spec(), ByModule},
        {callbacks_spec(), Of(fun dyno_servers_row:callbacks/2)},
        {messages_spec(), Of(fun dyno_servers_row:tags/2)}
    ]).

made(Tables) ->
    [dyno_recording_table:make(Spec, Items) || {Spec, [_ | _] = Items} <- Tables].

-spec known() -> dyno_threshold:known().
known() ->
    #{
        metrics => [#{name => Name, unit => Unit} || {Name, _, Unit, _} <- metric_list()] ++
            dyno_target_visit:known(),
        series => [#{name => Name, unit => Unit} || {Name, _, Unit, _} <- series_list()],
        tables => [servers_spec(), modules_spec(), callbacks_spec(), messages_spec(), stages_spec()]
    }.

%% Tables: a column without a value is left out, unless it is the key or sorts the rows.

table(Name, Title, Sort, Columns) ->
    #{
        name => Name,
        title => Title,
        sort => {Sort, descending},
        columns => [column(Column, Sort) || Column <- Columns]
    }.

column({kept, Column}, _Sort) ->
    Column;
column({Name, Title, Kind, Properties, Cell}, Sort) when Properties =/= key, Name =/= Sort ->
    {Name, Title, Kind, [optional, Properties], Cell};
column(Column, _Sort) ->
    Column.

bound(Role, Of, Kind, Cell) ->
    Title = map_get(Role, #{low => ~"At least", high => ~"At most"}),
    {<<Of/binary, $_, (atom_to_binary(Role))/binary>>, Title, Kind, {Role, Of}, Cell}.

%% Kept if none is known, since bounds are.
waited(Name, Title, Key, Properties) ->
    [{kept, C} || C <- dyno_agent_server_parts:waited_columns(Name, Title, Key, Properties)].

if_missed(#{missed := N, wall_ns := Ns}) when N > 0 -> Ns;
if_missed(_) -> undefined.

%% One that was not timed may have been the longest.
if_longer(#{missed := N, max := Ns}) when is_integer(N), N > 0 -> Ns;
if_longer(_) -> undefined.

if_unknown(#{ends_unknown := N, crashes := Crashes}) when N > 0 -> Crashes;
if_unknown(_) -> undefined.

%% A crash in a callback that was not timed may be an exception, or not.
if_crashed(#{missed := N, exceptions := Raised, crashes := Crashes}) when N > 0, Crashes > Raised ->
    Raised;
if_crashed(_) ->
    undefined.

%% Less than 0.01 % counts as 0.
share(Key) ->
    fun
        (#{Key := Value}) when is_float(Value) -> round(Value * 10_000) / 10_000;
        (Row) -> maps:get(Key, Row, undefined)
    end.

times() ->
    [
        {~"mean", ~"Mean", ns, [lower, ~"Wall time of a callback."], mean},
        {~"p50", ~"p50", ns, [lower, ~"Half of the callbacks took no longer."], p50},
        {~"p90", ~"p90", ns, [lower, ~"90 of 100 took no longer."], p90},
        {~"p99", ~"p99", ns, [lower, ~"99 of 100 took no longer."], p99},
        {~"p99_9", ~"p99.9", ns, [lower, ~"999 of 1,000 took no longer."], p999},
        {~"max", ~"Longest", ns, [lower, ~"The longest callback."], max},
        bound(low, ~"max", ns, fun if_longer/1),
        {~"min", ~"Shortest", ns, ~"The shortest callback.", min},
        {~"stdev", ~"Standard deviation", ns, ~"Of the wall times.", stdev},
        {~"range", ~"Range", ns, ~"From the shortest to the longest.", range}
    ].

servers_spec() ->
    Rate = {number, ~"1/s"},
    Busy = ~"The share of the time that a callback ran; at 100 % it is saturated.",
    Blocked = ~"The share of the time in a callback, but not on a processor.",
    Taken = ~"When a message was taken.",
    Capacity = ~"Its rate if busy all of the time.",
    Saturates = ~"So many times today's rate keeps it busy all of the time.",
    Missed = ~"Callbacks that ended before they could be timed: busy is at least so much.",
    Running = ~"Callbacks ran for so long of that; the rest they were blocked.",
    Columns = [
        {~"server", ~"Server", string, key, name},
        {~"rate", ~"Callbacks", Rate, ~"Messages handled a second.", rate},
        {~"busy", ~"Busy", ratio, [lower, Busy], share(busy)},
        bound(low, ~"busy", ratio, busy_low),
        times(),
        {~"cpu", ~"CPU", ratio, ~"The share of the time on a processor.", share(cpu)},
        bound(high, ~"cpu", ratio, cpu_high),
        {~"blocked", ~"Blocked", ratio, Blocked, share(blocked)},
        bound(low, ~"blocked", ratio, blocked_low),
        {~"queue_max", ~"Longest queue", count, [lower, ~"Messages that waited."], queue_max},
        {~"queue_p50", ~"Queue p50", count, Taken, queue_p50},
        {~"queue_p99", ~"Queue p99", count, Taken, queue_p99},
        waited(~"delay_p50", ~"Waited p50", waited_p50, []),
        waited(~"delay_p90", ~"Waited p90", waited_p90, []),
        waited(~"delay_p99", ~"Waited p99", waited_p99, lower),
        {~"exceptions", ~"Exceptions", count, [lower, ~"Callbacks that failed."], exceptions},
        bound(low, ~"exceptions", count, fun if_crashed/1),
        {~"crashes", ~"Crashes", count, [lower, ~"Processes that failed."], crashes},
        bound(low, ~"crashes", count, fun if_unknown/1),
        {~"count", ~"Handled", count, ~"Messages handled.", count},
        {~"arrival_rate", ~"Arrivals", Rate, ~"Messages that came.", arrival_rate},
        {~"service_rate", ~"Service rate", Rate, Capacity, service_rate},
        {~"saturates_at", ~"Saturates at", {number, ~"1"}, Saturates, saturates_at},
        {~"processes", ~"Processes", count, ~"Of this name, all together.", processes},
        {~"missed", ~"Not timed", count, Missed, missed},
        {~"wall", ~"In callbacks", ns, ~"Wall time, all together.", wall_ns},
        bound(low, ~"wall", ns, fun if_missed/1),
        {~"cpu_time", ~"On the processor", ns, Running, cpu_ns},
        bound(high, ~"cpu_time", ns, cpu_ns_high),
        {~"words", ~"Words", {integer, ~"words"}, ~"Allocated on the heap.", words},
        {~"module", ~"Module", string, note, module},
        {~"behaviour", ~"Behaviour", string, note, behaviour},
        {~"application", ~"Application", string, note, application},
        {~"supervisor", ~"Supervisor", string, note, supervisor},
        {~"node", ~"Node", string, note, node},
        {~"measured", ~"Measured by", string, note, measured},
        {~"why", ~"Not by the hook because", string, note, why},
        {~"delay_method", ~"Waiting told by", string, note, delay_method},
        {~"reasons", ~"Crashed with", string, note, reasons}
    ],
    table(~"servers", ~"Servers by load", ~"busy", lists:flatten(Columns)).

modules_spec() ->
    (servers_spec())#{name := ~"server_modules", title := ~"Servers by module"}.

callbacks_spec() ->
    Heap = ~"Allocated on the heap.",
    Columns = [
        {~"server", ~"Server", string, key, name},
        {~"callback", ~"Callback", string, key, callback},
        {~"rate", ~"Rate", {number, ~"1/s"}, ~"Callbacks a second.", rate},
        {~"wall", ~"In it", ns, ~"Wall time, all together.", wall_ns},
        bound(low, ~"wall", ns, fun if_missed/1),
        times(),
        {~"cpu_per_call", ~"CPU a call", ns, ~"On a processor.", cpu_mean},
        {~"words_per_call", ~"Words a call", {number, ~"words"}, Heap, words_mean},
        {~"exceptions", ~"Exceptions", count, [lower, ~"Exceptions that ended it."], exceptions},
        {~"stops", ~"Stops", count, ~"Times it stopped its process.", stops},
        {~"count", ~"Calls", count, ~"How often it ran.", count}
    ],
    table(~"callbacks", ~"Callbacks by time", ~"wall", lists:flatten(Columns)).

messages_spec() ->
    table(~"messages", ~"Messages by time", ~"wall", [
        {~"server", ~"Server", string, key, name},
        {~"message", ~"Message", string, key, tag},
        {~"callback", ~"Callback", string, note, callback},
        {~"rate", ~"Rate", {number, ~"1/s"}, ~"Messages a second.", rate},
        {~"wall", ~"In callbacks", ns, ~"Wall time, all together.", wall_ns},
        bound(low, ~"wall", ns, fun if_missed/1),
        {~"mean", ~"Mean", ns, [lower, ~"Wall time of its callback."], mean},
        {~"count", ~"Messages", count, ~"How many.", count}
    ]).

stages_spec() ->
    Rate = {number, ~"1/s"},
    Busy = ~"The share of the time that a callback ran.",
    Outstanding = ~"Events that were asked of it and not sent at the end.",
    ToEvent = ~"From asking for events to getting them.",
    Buffered = ~"Events in its buffer at the end.",
    Discarded = [lower, ~"Events that a full buffer lost."],
    table(~"stages", ~"Stages", ~"events_out", [
        {~"stage", ~"Stage", string, key, name},
        {~"kind", ~"Kind", string, note, kind},
        {~"events_in", ~"Events in", Rate, ~"Events received a second.", in},
        {~"events_out", ~"Events out", Rate, ~"Events sent a second.", out},
        {~"busy", ~"Busy", ratio, Busy, share(busy)},
        {~"batch_p50", ~"Batch p50", count, ~"Events that came at once.", batch_p50},
        {~"demand_asked", ~"Asked for", count, ~"Events.", demand_asked},
        {~"demand_received", ~"Asked of it", count, ~"Events.", demand_received},
        {~"outstanding", ~"Outstanding", count, Outstanding, outstanding},
        {~"demand_to_event_p50", ~"Demand to event p50", ns, ToEvent, to_event_p50},
        {~"demand_to_event_p99", ~"Demand to event p99", ns, ToEvent, to_event_p99},
        {~"buffered", ~"Buffered", count, Buffered, buffered},
        {~"discarded", ~"Discarded", count, Discarded, discarded},
        {~"processes", ~"Processes", count, ~"Of this name, all together.", processes},
        {~"gives_to", ~"Gives to", string, note, gives_to},
        {~"note", ~"Note", string, note, note}
    ]).

flows_spec() ->
    table(~"flows", ~"Events between stages", ~"rate", [
        {~"from", ~"From", string, key, from},
        {~"to", ~"To", string, key, to},
        {~"rate", ~"Events", {number, ~"1/s"}, ~"Events a second.", rate}
    ]).

stage_row(#{kind := Kind, sum := Sum, rates := Rates, gives_to := To, bottleneck := Is} = Stage) ->
    #{batches := Batches, demand_to_event := ToEvent} = Sum,
    maps:merge(maps:merge(Sum, Rates), (maps:with([name, busy, processes], Stage))#{
        kind => Kind,
        batch_p50 => dyno_servers_row:quantile(0.5, Batches),
        to_event_p50 => dyno_servers_row:quantile(0.5, ToEvent),
        to_event_p99 => dyno_servers_row:quantile(0.99, ToEvent),
        gives_to => iolist_to_binary(lists:join(", ", [Name || {Name, _} <- To])),
        note => iolist_to_binary([~"bottleneck" || Is])
    }).

drawing(Lines) ->
    Spec = #{
        name => ~"pipeline",
        title => ~"Pipeline",
        derived => true,
        columns => [
            {~"line", ~"Line", integer, key, 1},
            {~"text", ~"Text", string, 2}
        ]
    },
    made([{Spec, lists:enumerate(Lines)}]).

%% Metrics, series, distributions

metric_list() ->
    [
        {~"servers.probe", ~"Time that measuring adds to a callback", ~"ns", fun(Nodes, _) ->
            lists:max([0 | [Ns || #{probe_ns := Ns} <- Nodes]])
        end},
        {~"servers.cost", ~"Time of one scheduler for measuring", ~"ratio", fun(Nodes, _) ->
            lists:max([0.0 | [Cost || #{cost := Cost} <- Nodes]])
        end},
        {~"servers.callbacks", ~"Callbacks of all gen_servers of nodes", ~"1/s", fun(Nodes, _) ->
            Rates = [callback_rate(OfNode) || OfNode <- Nodes],
            case lists:member(undefined, Rates) of
                true -> undefined;
                false -> lists:sum(Rates)
            end
        end},
        {~"servers.processes", ~"Processes that were measured", ~"count", fun(_, Servers) ->
            lists:sum([N || #{processes := N} <- Servers])
        end}
    ].

%% Without a window nothing was observed.
metrics(Total, Servers) ->
    Nodes = dyno_servers_total:nodes(Total),
    Windows = dyno_servers_total:windows(Total),
    [
        dyno_recording_part:metric(Name, Title, Number, Unit, Windows, ~"instrument")
     || Windows > 0,
        {Name, Title, Unit, Value} <- metric_list(),
        Number <- [Value(Nodes, Servers)],
        Number =/= undefined
    ].

-doc "Not known if breakpoints could not be set in time.".
-spec callback_rate(dyno_servers_window:of_node()) -> float() | undefined.
callback_rate(#{rate := Rate}) when map_size(Rate) =:= 0 ->
    undefined;
callback_rate(#{rate := Rate, duration_ns := Ns}) ->
    lists:sum(maps:values(Rate)) * 1.0e9 / max(1, Ns).

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
            Series,
            Unit,
            ?GROUP,
            Title,
            undefined,
            [Ns / 1.0e6 || {Ns, _} <- Points],
            [maps:get(Key, Row, undefined) || {_, Row} <- Points]
        ))#{labels := #{server => Name}}
     || {Series, Title, Unit, Key} <- series_list(),
        lists:any(fun({_, Row}) -> is_number(maps:get(Key, Row, undefined)) end, Points)
    ].

histograms(Rows) ->
    Histograms = [
        of_sum(Sum)
     || #{count := Count, sum := Sum} <- Rows, is_number(Count), Count > 0
    ],
    lists:sublist(lists:append(Histograms), ?MOST_HISTOGRAMS).

of_sum(#{callbacks := Callbacks, delay := Delay, queue := Queue} = Sum) ->
    #{labels := #{name := Name}} = Sum,
    [
        histogram(~"servers.callback", <<Name/binary, " ", Callback/binary>>, ~"ns", Wall, #{
            server => Name, callback => Callback
        })
     || #{name := Callback, wall := #{} = Wall} <- Callbacks
    ] ++
        [
            histogram(Of, Title, Unit, Histogram, #{server => Name})
         || {Of, Title, Unit, #{} = Histogram} <- [
                {~"servers.delay", waiting(Sum), ~"ns", Delay},
                {~"servers.queue_length", <<"queue of ", Name/binary>>, ~"count", Queue}
            ]
        ].

waiting(#{labels := #{name := Name}, delay_unknown := Unknown}) ->
    dyno_recording_part:text("~tswaiting for ~ts, 0 if it was idle", [
        [~"at least " || Unknown > 0], Name
    ]).

histogram(Name, Title, Unit, Snapshot, Labels) ->
    dyno_recording_part:histogram(Name, Unit, ?GROUP, Title, Labels, Snapshot).

%% Warnings

warnings(Total, #{lost := Lost, dropped := Dropped, sinks := Sinks}) ->
    Nodes = dyno_servers_total:nodes(Total),
    Unselected =
        "up to ~b more servers of ~ts are not measured: they are too many, or have not said what "
        "they are",
    Unseen =
        "~ts: ~b processes with ~b callbacks are in no row: they ended before dyno could ask what "
        "they were, or before there was room for them; percentiles that they may change by more "
        "than 10 % are not known",
    Missed =
        "~ts: ~b of ~b callbacks ended before they could be timed, in processes that had just "
        "begun or answered sys late: their time in callbacks is a lower bound; if processes ended, "
        "percentiles that they may change by more than 10 % are not known, and of more than 10 % "
        "of the callbacks no percentile or rate of message kinds",
    Counted =
        "~ts: callbacks were counted in ~ts of the time of the servers; rates and shares are of "
        "that time, sums are lower bounds",
    Unfollowed =
        "~ts: processes began and ended too fast to follow each: numbers of processes and crashes "
        "are lower bounds",
    Servers = dyno_servers_total:servers(Total),
    None =
        "no selected process was a server that ran in this time: gen_server, gen_statem, "
        "gen_event, supervisor or GenStage; dyno profile measures any process",
    Failures = "~ts: ~b failed, ~b readings dropped~ts",
    [
        {Code, dyno_recording_part:text(Format, Arguments)}
     || {Code, Format, Arguments} <- lists:append([
            [
                {~"stepped_down", "~ts: ~ts", [Node, Why]}
             || #{node := Node, stepped_down := <<Why/binary>>} <- Nodes
            ],
            [
                {~"unselected", Unselected, [N, Node]}
             || #{node := Node, unselected := N} <- Nodes, N > 0
            ],
            [
                {~"unseen", Unseen, [Node, N, Calls]}
             || #{node := Node, unseen := #{processes := N, calls := Calls}} <- Nodes, Calls > 0
            ],
            [{~"unfollowed", Unfollowed, [Node]} || #{node := Node, followed := false} <- Nodes],
            [
                {~"missed", Missed, [Node, N, All]}
             || #{node := Node} <- Nodes, {N, All} <- [missed(Node, Servers)], N > 0
            ],
            [
                {~"counted_in_part", Counted, [Node, dyno_unit:format(Share, ~"ratio")]}
             || #{node := Node} <- Nodes, Share <- [counted(Node, Servers)], Share < ?MOSTLY
            ],
            [{~"node_lost", "~ts", [dyno_error:format(Error)]} || _Node := Error <- Lost],
            [
                {~"no_servers", None, []}
             || Servers =:= [],
                Nodes =/= [],
                lists:sum([dyno_servers_findings:unseen(OfNode) || OfNode <- Nodes]) =:= 0
            ],
            [
                {~"windows_dropped", "~b windows came too fast and were left out", [Dropped]}
             || Dropped > 0
            ],
            [
                {~"sink", Failures, [Address, Failed, Left, last(Why)]}
             || {Address, #{failed := Failed, dropped := Left, last := Why}} <- Sinks,
                Failed + Left > 0
            ]
        ])
    ].

missed(Node, Servers) ->
    Of = [Sum || #{labels := #{node := In}} = Sum <- Servers, In =:= atom_to_binary(Node)],
    %% For an event manager, a message and its handlers' calls are both counted and both missed.
    All = [Count || #{callbacks := Callbacks} <- Of, #{count := Count} <- Callbacks],
    {lists:sum([N || #{missed := N} <- Of]), lists:sum(All)}.

counted(Node, Servers) ->
    Of = [Sum || #{labels := #{node := In}} = Sum <- Servers, In =:= atom_to_binary(Node)],
    CountedNs = lists:sum([min(Ns, All) || #{counted_ns := Ns, process_ns := All} <- Of]),
    case lists:sum([Ns || #{process_ns := Ns} <- Of]) of
        0 -> 1.0;
        All -> CountedNs / All
    end.

last(none) -> "";
last(Why) -> [" (", Why, ")"].

-spec level(dyno_servers_window:of_node()) -> binary().
level(#{level := Level, probe_ns := ProbeNs, cost := Cost} = OfNode) ->
    Down =
        case OfNode of
            #{stepped_down := <<Why/binary>>} -> ["; stepped down: ", Why];
            #{} -> ""
        end,
    %% Rates are counted without a probe in callbacks.
    Probe = [[dyno_unit:format(ProbeNs, ~"ns"), " a callback, "] || ProbeNs > 0],
    dyno_recording_part:text("detail ~ts: ~ts~ts of a scheduler~ts", [
        Level, Probe, dyno_unit:format(Cost, ~"ratio"), Down
    ]).
