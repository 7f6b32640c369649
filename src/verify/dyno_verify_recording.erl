%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_verify_recording).
-moduledoc false.
%% Monitors' results: verdicts, violations with events, and the traces' completeness. Pure.

-export([parts/2]).

-define(GROUP, ~"verify").

-spec parts(dyno_observation:ended(), dyno_verify:seen()) -> dyno_observed:parts().
parts(#{ending := #{status := Status} = Ended, lost := Lost} = How, Seen) ->
    #{specs := Specs, nodes := Nodes, options := Options} = Seen,
    Ending = Seen#{lost => Lost},
    IsWhole =
        case Ended of
            %% All was observed; the file is incomplete.
            #{error := #{code := ~"not_recorded"}} -> true;
            #{} -> dyno_recording_cut_short:is_whole(Status, maps:get(for_ms, Options, undefined))
        end,
    #{
        command => verify,
        name => iolist_to_binary([filename:basename(hd(Specs)), " in ", dyno_observed:name(Nodes)]),
        parameters => #{
            specifications => Specs,
            %% Texts: a replayed file can be called null.
            nodes => [atom_to_binary(Node) || Node <- Nodes],
            duration_ms => maps:get(for_ms, Options, undefined),
            processes => [dyno_process_filter:format(P) || P <- maps:get(processes, Options, [])],
            instrumentation => maps:get(instrumentation, Options, partition)
        },
        ended => How,
        run => #{
            metrics => metrics(Ending),
            tables => [
                Table
             || #{rows := [_ | _]} = Table <- [
                    dyno_recording_table:make(properties_spec(), properties(Ending)),
                    dyno_recording_table:make(violations_spec(), violations(Ending)),
                    dyno_recording_table:make(partitions_spec(), partitions(Ending)),
                    dyno_recording_table:make(soundness_spec(), [soundness(partitions(Ending))])
                ]
            ]
        },
        warnings => warnings(Ending),
        verdicts => dyno_recording_cut_short:verdicts(IsWhole, verdicts(Ending))
    }.

metrics(Ending) ->
    Partitions = partitions(Ending),
    [
        dyno_recording_part:metric(Name, Title, sum(Key, Partitions), ~"count", 1, ?GROUP)
     || {Name, Title, Key} <- [
            {~"verify.violations", ~"Violations", no},
            {~"verify.processes", ~"Processes that were monitored", opened},
            {~"verify.events", ~"Events", events},
            {~"verify.gaps", ~"Processes whose trace has a gap", gap}
        ]
    ].

sum(Key, Rows) -> lists:sum([map_get(Key, Row) || Row <- Rows]).

%% Counts, by node and monitor

properties(#{summaries := Summaries} = Ending) ->
    [
        Counts#{
            node => Node,
            property => name(Module, Ending),
            %% A process whose partition was reopened may be counted again.
            seen := min(Seen, Processes),
            inconclusive := undecided(Counts, map_size(Monitors), gone(Node, Ending))
        }
     || Node := #{verdicts := #{monitors := Monitors}} <- Summaries,
        Module := #{seen := Seen, processes := Processes} = Counts <- Monitors
    ].

%% Whose processes a lost node's open ones were is known of a single property that was not broken.
undecided(#{inconclusive := Inconclusive}, _Monitors, 0) ->
    Inconclusive;
undecided(#{inconclusive := N, processes := All, broken := 0, crashed := 0}, 1, Gone) ->
    min(All, N + Gone);
undecided(_Counts, _Monitors, _Gone) ->
    undefined.

%% The open processes of a lost node.
gone(Node, #{summaries := Summaries, lost := Lost}) when is_map_key(Node, Lost) ->
    #{Node := #{verdicts := #{open := Open, again := #{open := OpenAgain}}}} = Summaries,
    Open - OpenAgain;
gone(_Node, _Ending) ->
    0.

name(Module, #{summaries := Summaries}) ->
    case [Name || _ := #{properties := #{Module := Name}} <- Summaries] of
        [Name | _] -> dyno_recording_part:text("~ts", [Name]);
        [] -> atom_to_binary(Module)
    end.

%% Processes, each once: a reopened partition has a gap, and so do the open ones of a lost node.
partitions(#{summaries := Summaries} = Ending) ->
    [
        partitions(Node, Summary, gone(Node, Ending))
     || Node := Summary <- maps:iterator(Summaries, ordered)
    ].

partitions(Node, #{verdicts := Verdicts, duration_ns := DurationNs}, Gone) ->
    #{
        opened := Opened,
        gap := Gap,
        cut := Cut,
        open := Open,
        events := Events,
        monitors := Of,
        partial := Partial,
        again := Again
    } = Verdicts,
    #{opened := Reopened, partial := PartialAgain, gap := GapAgain, open := OpenAgain} = Again,
    (maps:with([complete, events, untold], Verdicts))#{
        node => Node,
        partial => Partial - PartialAgain,
        gap => Gap - GapAgain + Cut + Gone,
        open => Open - OpenAgain - Gone,
        opened => Opened - Reopened + Cut,
        rate => Events * 1.0e9 / max(1, DurationNs),
        no => lists:sum([No || _ := #{no := No} <- Of])
    }.

violations(#{reports := Reports}) ->
    lists:reverse([Report#{at_ns => At} || {At, Report} <- Reports]).

soundness(Partitions) ->
    Parts = [
        [integer_to_binary(N), " ", Text]
     || {Key, Text} <- [
            {complete, "complete, from start to end"},
            {partial, "partial, as the process ran before its trace began"},
            {gap, "with a gap"},
            {open, "of processes that still ran"}
        ],
        N <- [sum(Key, Partitions)],
        N > 0
    ],
    case Parts of
        [] -> ~"No process was seen.";
        _ -> dyno_recording_part:text("Traces: ~ts.", [lists:join("; ", Parts)])
    end.

verdicts(#{monitors := Monitors, summaries := Summaries} = Ending) ->
    [verdict(Module, Summaries, Ending) || Module <- Monitors].

%% A property fails if a violation was seen, and passes if nothing is missing.
verdict(Module, Summaries, Ending) ->
    Of = [Counts || _ := #{verdicts := #{monitors := #{Module := Counts}}} <- Summaries],
    Sums =
        #{
            Key => sum(Key, Of)
         || Key <- [processes, seen, no, broken, crashed, cut, past, inconclusive]
        },
    {Result, Text} =
        case {Sums, undecided(Sums, Ending)} of
            {#{no := No}, Unknown} when No > 0 ->
                {fail, lists:join("; ", [broken(Sums) | Unknown])};
            {_, []} ->
                {pass, held(Sums)};
            {_, Unknown} ->
                {unknown, lists:join("; ", Unknown)}
        end,
    #{
        kind => property,
        name => name(Module, Ending),
        result => Result,
        subject => atom_to_binary(Module),
        text => dyno_recording_part:text("~ts", [Text])
    }.

undecided(Sums, Ending) ->
    case unknown(Sums, Ending) of
        [] -> missed(Ending);
        Reasons -> Reasons
    end.

%% None of the processes that were seen may have been cut off then.
missed(#{summaries := Summaries}) ->
    [
        ["monitoring of ", atom_to_binary(Node), " began anew, and processes may have been missed"]
     || Node := #{verdicts := #{missed := Times}} <- Summaries, Times > 0
    ].

unknown(#{processes := 0}, Ending) ->
    ["no process came that it is for" | lost(Ending)];
unknown(#{processes := N, seen := Seen} = Sums, Ending) ->
    #{crashed := Crashed, cut := Cut, inconclusive := Inconclusive, broken := Broken} = Sums,
    #{past := Past} = Sums,
    Whole = Seen =:= 0 andalso Crashed + Inconclusive + Broken =:= 0,
    [
        io_lib:format(lists:flatten(Format), [Of, counted(N)])
     || {Format, Of} <- [
            {"the monitor crashed for ~b of ~ts", Crashed},
            {["~b of ~ts ", was(N), " cut off"], Cut},
            {"for ~b of ~ts it depends on events before the trace began", Past},
            {"for ~b of ~ts it could not be decided", max(0, Inconclusive - Cut - Past)}
        ],
        Of > 0
    ] ++
        [["nothing that it is about was seen of ", counted(N)] || Whole] ++
        lost(Ending).

lost(#{lost := Lost, summaries := Summaries} = Ending) ->
    [
        [
            ["node ", atom_to_binary(Node), " was not observed to the end"]
            | [
                [", and ", counted(Gone), " there ", was(Gone), " cut off"]
             || is_map_key(Node, Summaries), Gone <- [gone(Node, Ending)], Gone > 0
            ]
        ]
     || Node := _ <- Lost
    ].

held(#{processes := N, seen := N}) ->
    ["held by ", counted(N)];
held(#{processes := N, seen := Seen}) ->
    io_lib:format("held by ~b of ~ts; the others did nothing that it is about", [Seen, counted(N)]).

%% Across processes, no single process is at fault.
broken(#{no := No, broken := 0, processes := N}) ->
    ["broken ", times(No), ", among ", counted(N)];
%% Without keys the monitor of a process ends with the first violation.
broken(#{no := No, broken := Broken, processes := N}) ->
    Least = ["at least " || No =:= Broken],
    io_lib:format("broken ~ts~ts, by ~b of ~ts", [Least, times(No), Broken, counted(N)]).

times(1) -> "once";
times(N) -> [integer_to_binary(N), " times"].

was(1) -> "was";
was(_) -> "were".

counted(1) -> "1 process";
counted(N) -> [integer_to_binary(N), " processes"].

warnings(#{faults := Faults, warnings := OfSpecifications, lost := Lost} = Ending) ->
    Partitions = partitions(Ending),
    Gap =
        "~ts: ~b processes were not seen to their end; more events came than may wait (--limit), "
        "or what monitors them failed",
    [
        {Code, dyno_recording_part:text(Format, Arguments)}
     || {Code, Format, All} <- [
            {~"verify_adjacent", "~ts", [[Text] || Text <- OfSpecifications]},
            {~"verify_fault", "~ts: ~ts~ts", [
                [Node, Text, [[" (", times(N), ")"] || N <- [count(Fault, Faults)], N > 1]]
             || {Node, Text} = Fault <- lists:uniq(lists:reverse(Faults))
            ]},
            %% Of a lost node its loss is the cause, and that is told.
            {~"verify_gap", Gap, [
                [Node, N]
             || #{node := Node, gap := N} <- Partitions, N > 0, not is_map_key(Node, Lost)
            ]},
            {~"verify_untold", "~ts: ~b violations were only counted", [
                [Node, N]
             || #{node := Node, untold := N} <- Partitions, N > 0
            ]}
        ],
        Arguments <- All
    ].

count(Fault, Faults) -> length([Fault || Same <- Faults, Same =:= Fault]).

%% Tables

properties_spec() ->
    Seen = ~"With an event of the property, or seen to their end.",
    Unbreakable = ~"Processes for which nothing can break it any more.",
    Undecided = ~"Processes that were cut off, or for which the monitor cannot tell.",
    Violations = ~"How often it did not hold; without keys only the first time of each process.",
    #{
        name => ~"properties",
        title => ~"Properties",
        columns => [
            {~"property", ~"Property", string, key, property},
            {~"node", ~"Node", string, key, node},
            {~"processes", ~"Processes", count, ~"Processes of the property.", processes},
            {~"seen", ~"Seen", count, Seen, seen},
            {~"violations", ~"Broken", count, Violations, no},
            {~"met", ~"Met", count, Unbreakable, yes},
            {~"inconclusive", ~"Undecided", count, Undecided, inconclusive},
            {~"crashed", ~"Crashes", count, ~"Of the monitor.", crashed}
        ]
    }.

partitions_spec() ->
    Partial = ~"Processes that ran already, seen to their end.",
    #{
        name => ~"partitions",
        title => ~"Traces",
        columns => [
            {~"node", ~"Node", string, key, node},
            {~"complete", ~"Complete", count, ~"Processes seen from start to end.", complete},
            {~"partial", ~"Partial", count, Partial, partial},
            {~"gap", ~"With a gap", count, ~"Processes that were cut off.", gap},
            {~"open", ~"Running", count, ~"Processes that had not ended.", open},
            {~"events", ~"Events", count, ~"Received events.", events},
            {~"rate", ~"Events a second", {number, ~"1/s"}, rate}
        ]
    }.

violations_spec() ->
    Bindings = fun(Report) -> short(dyno_verify_text:bindings(Report)) end,
    Last = fun(Report) ->
        Events = [short(string:trim(Event)) || Event <- dyno_verify_text:events(Report)],
        iolist_to_binary(lists:join("\n", Events))
    end,
    #{
        name => ~"violations",
        title => ~"Violations",
        columns => [
            {~"time", ~"Time", ns, [key, ~"Since monitoring began."], at_ns},
            {~"property", ~"Property", string, key, fun dyno_verify_text:property/1},
            {~"process", ~"Process", string, key, fun(#{process := Process}) ->
                dyno_verify_text:process(Process)
            end},
            {~"node", ~"Node", string, note, node},
            {~"step", ~"Step", string, note, fun dyno_verify_text:step/1},
            {~"bindings", ~"Bindings", string, note, Bindings},
            {~"events", ~"Last events", string, note, Last},
            {~"trace", ~"Trace", string, note, trace}
        ]
    }.

%% The last number of a reference identifies it within a node.
short(Text) ->
    re:replace(Text, "#Ref<[0-9.]*\\.([0-9]+)>", "#Ref<..\\1>", [global, {return, binary}]).

soundness_spec() ->
    #{
        name => ~"soundness",
        title => ~"Soundness",
        derived => true,
        columns => [
            {~"kind", ~"Kind", string, fun(_) -> ~"symptom" end},
            {~"text", ~"Text", string, fun(Text) -> Text end}
        ]
    }.
