%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_report_content_views).
-moduledoc """
The columns shown first for tables that dyno knows. Others are shown by the roles of their columns
(`m:dyno_report_content_tables`): add a view only if that is hard to read.
""".

-export([parts/0, views/1]).

-export_type([part/0, view/0, columns/0]).

-import(dyno_report_document, [get/2, get/3]).

-type part() :: load | concurrency | changes | other.

-type view() :: #{
    %% Default: the table's title.
    title => binary(),
    %% Runs shown: the greatest size, each alone, or all in one table; by default each, or largest.
    runs => largest | each | all,
    %% Default: all, by their roles.
    columns => columns(),
    only => fun((dyno_report_document:row()) -> boolean()),
    %% The number of rows. Default: the user's.
    rows => all,
    %% The column with a section for each of its values.
    each => binary(),
    %% The first of these columns with an interval shows it as an error; `none`; by default all.
    off_by => binary() | [binary()] | none,
    hidden => true
}.

-doc "`NAME; NAME: TITLE; ...`; without a title, the table's own; `###` behind draws a bar, too.".
-type columns() :: string().

%% Less memory is not shown.
-define(REAL_BYTES, 1_000_000).

-doc "The parts that hold tables.".
-spec parts() -> [part()].
parts() -> [load, concurrency, changes, other].

-doc "A part's tables by name, in order.".
-spec views(part()) -> [{binary(), view()}].
views(load) ->
    Results =
        "throughput: throughput; latency_p50: p50; latency_p99: p99; errors: errors; "
        "dropped: dropped; state:; service_p50: service p50; service_p99: service p99",
    [
        {~"operations", #{rows => all, columns => "operation; " ++ Results}},
        {~"phases", #{
            rows => all, columns => "phase; start: from; offered; " ++ Results
        }},
        {~"load_nodes", #{rows => all}},
        {~"errors", #{runs => all, columns => "reason; count"}},
        {~"probes", #{hidden => true}}
    ];
views(concurrency) ->
    [
        {~"concurrencies", #{
            title => ~"Concurrency",
            rows => all,
            columns =>
                "concurrency: workers; throughput; time_per_call; verdict: verdict; "
                "against: compared with"
        }}
    ];
views(changes) ->
    Changes = #{
        columns => "item: of; metric: metric; old; new; ratio; verdict"
    },
    [
        {~"changes", Changes#{rows => all}},
        {~"since_last", Changes}
    ];
views(other) ->
    verify() ++ servers() ++ target() ++ bench() ++ analyses().

%% Details were shown with each violation, and are on the page.
verify() ->
    [{~"violations", #{columns => "time; property; process; step"}}].

servers() ->
    %% `served`, `delay`: in tests.
    Servers =
        "server; rate: rate; served: messages; busy; p50; p99; max: longest; delay: waited, p99; "
        "queue_max: queue at most; delay_p99: waited, p99; cpu; exceptions; crashes; processes; "
        "why:",
    [
        {~"pipeline", #{columns => "text:", rows => all}},
        {~"flows", #{hidden => true}},
        {~"servers", #{columns => Servers, off_by => none}},
        {~"server_modules", #{columns => Servers, off_by => none}},
        {~"callbacks", #{
            columns =>
                "server; callback; rate; calls: calls; wall: in it; time: in it; p50; p99; "
                "max: longest; cpu_per_call: CPU a call; words_per_call: words; exceptions; stops"
        }}
    ].

target() ->
    [
        {~"functions", #{
            title => ~"Functions by own time",
            columns =>
                "function; calls; own_time: own; total_time: total; time_per_call: per call; "
                "share: share ###; note:",
            off_by => ~"own_time"
        }},
        {~"callers", #{hidden => true}},
        {~"processes", #{
            title => ~"Processes by reductions",
            columns =>
                "group; discovered: seen; alive; lifetime_p50: lifetime; memory; "
                "memory_max: at most; reductions; message_queue_max: longest queue; sampled"
        }},
        {~"durations", #{}},
        {~"waiting", #{
            title => ~"Calls in which processes wait",
            columns => "call: call; caller: of; processes; waiting: waiting, mean",
            %% Processes waiting in their own loop are idle.
            only => fun(Row) -> is_binary(maps:get(~"caller", Row, null)) end
        }},
        {~"ets", #{
            columns =>
                "table; tables; objects; memory; memory_growth: since the start; "
                "objects_max: objects at most",
            only => fun(Row) ->
                get(~"memory_max", Row, 0) > ?REAL_BYTES orelse
                    abs(get(~"memory_growth", Row, 0)) > ?REAL_BYTES div 10
            end
        }},
        {~"ports", #{
            columns =>
                "kind: port; open; open_max: at most; input; output; queue_max: waiting at most",
            only => fun(Row) ->
                get(~"queue_max", Row, 0) + get(~"input", Row, 0) + get(~"output", Row, 0) > 0
            end
        }}
    ].

bench() ->
    [
        {~"codes", #{hidden => true}},
        {~"comparisons", #{hidden => true}},
        {~"single_calls", #{hidden => true}},
        {~"heaps", #{
            title => ~"The heap: in a fresh process, and with room",
            rows => all,
            columns =>
                "code; without_collections: uncollected; collection_time: a collection; "
                "default_time: fresh; default_collections: collections; room_time: with room; "
                "room_collections: collections"
        }},
        {~"cluster", #{title => ~"Nodes", rows => all}},
        {~"side_effects", #{
            title => ~"Other processes' work for a call",
            each => ~"code",
            columns =>
                "process; kind; count: number; reductions_per_call: reductions; "
                "messages_per_call: messages; own_time_per_call: runs for, traced; memory: memory"
        }},
        {~"profile", #{
            each => ~"code",
            off_by => [~"own_time", ~"own"],
            columns =>
                "function; own: own ###; total: with callees; own_time: own time; words: words; "
                "calls: calls; time_per_call: per call; words_per_call: words per call; "
                "bias: taken out; calls_per_call: calls; own_time_per_call: own time, traced; "
                "sampled: of the samples"
        }}
    ].

analyses() ->
    [
        {~"repetitions", #{
            title => ~"Over the repetitions, with 95 % intervals",
            rows => all,
            columns => "size; metric; mean; repetitions: runs",
            only => fun(#{~"metric" := Name}) ->
                lists:member(Name, [~"throughput", ~"latency.p50", ~"latency.p99"])
            end
        }},
        {~"findings", #{hidden => true}},
        {~"saturation", #{hidden => true}},
        {~"server_findings", #{hidden => true}},
        {~"growth", #{
            title => ~"Growth with size",
            columns =>
                "name; kind: of; exponent; smallest: at the smallest; largest: at the largest; "
                "share; extrapolated: extrapolated; extrapolated_size: to; text: in words"
        }},
        {~"invariants", #{
            title => ~"Invariants that did not hold",
            runs => all,
            only => fun(Row) -> get(~"result", Row) =/= ~"pass" end
        }}
    ].
