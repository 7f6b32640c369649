%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_health_capacity).
-moduledoc false.
%% The limits of the VM: distance, and time until reached.

-export([checks/0, newest_atoms/1]).

-import(dyno_health_look, [finding/4, text/2, count/1, seconds/1, at/2, of_last/2, growth/2]).
-import(dyno_health_look, [suspects/1, place_of/1, groups/1, last/1]).
-import(dyno_finding_limits, [value/1]).

%% A shorter time is urgent.
-define(SOON_S, 3600).
-define(DAY_S, 86_400).

-spec checks() -> [dyno_health:row()].
checks() ->
    [
        {processes_grow, ~"processes that do not end", 3, fun processes/1},
        {atoms_grow, ~"new atoms", 2, fun atoms/1},
        {counts_grow, ~"ports, tables and descriptors that are not closed", 4, fun counts/1},
        {near_limit, ~"limits of processes, ports, atoms, tables and descriptors", 2, fun near/1}
    ].

processes(Looks) ->
    %% Of those that ended before they were asked the function is not known.
    Names = maps:keys(groups(last(Looks))) -- [~"(ended)"],
    Every = of_last([~"processes", ~"every"], Looks),
    [_, Limit] = of_last([~"counts", ~"processes"], Looks),
    [
        grows(Name, PerS * Every, Last * Every, Limit, Looks)
     || Name <- Names,
        {_, Last, PerS, true} <- [growth(fun(L) -> count(Name, L) end, Looks)],
        PerS * Every > value(processes_per_s),
        few_end(Name, Looks)
    ].

count(Name, Look) ->
    case groups(Look) of
        #{Name := #{~"count" := N}} -> N;
        #{} -> 0
    end.

few_end(Name, Looks) ->
    Of = [G || L <- tl(Looks), #{Name := G} <- [groups(L)]],
    lists:sum([N || #{~"ended" := N} <- Of]) * 4 =< lists:sum([N || #{~"started" := N} <- Of]).

grows(Name, PerS, Count, Limit, Looks) ->
    LeftS = (Limit - Count) / PerS,
    Newest = [
        [
            text(" One of the newest waits in ~ts", [place_of(Asked)]),
            [["; ", By, " started it"] || #{~"parent" := By} <- [Last], By =/= ~""],
            "."
        ]
     || {_, Asked} <- suspects(Looks),
        #{~"group" := Of} = Last <- [lists:last(Asked)],
        Of =:= Name
    ],
    finding(soon(LeftS, ?DAY_S), {processes_grow, processes_per_s, 75}, {Name, PerS}, #{
        text => text(
            "~ts more processes of ~ts each second, and none or few end: at this rate the limit of "
            "~ts is reached in ~ts",
            [count(PerS), Name, count(Limit), seconds(LeftS)]
        ),
        evidence => text("~ts of them now, more at each of ~b looks.~ts", [
            count(Count), length(Looks), lists:sublist(Newest, 1)
        ]),
        advice =>
            "Now: see in which function the newest wait, and whether the load rises (new users): "
            "then growth is normal. Restart the supervisor of these only if the limit is near: all "
            "its children end. Later: give their waits a time limit (receive ... after), or "
            "monitor who is to answer.",
        look_closer => ~"dyno profile NODE --kind schedulers"
    }).

%% Loading code makes atoms.
atoms(Looks) ->
    case growth(count_of(~"atoms"), Looks) of
        {_, Last, PerS, _} ->
            [_, Limit] = of_last([~"counts", ~"atoms"], Looks),
            LeftS = (Limit - Last) / max(0.001, PerS),
            {Function, Makes} = maker(Looks),
            [
                finding(soon(LeftS, ?DAY_S), {atoms_grow, atoms_per_s, 70}, {~"atoms", PerS}, #{
                    text => text(
                        "~ts new atoms a second: at this rate the table of ~ts is full in ~ts, and "
                        "the node ends",
                        [count(PerS), count(Limit), seconds(LeftS)]
                    ),
                    evidence => text("~ts now; no module was loaded meanwhile. ~ts~ts", [
                        count(Last), newest_atoms(Looks), Makes
                    ]),
                    advice =>
                        "Now: see who makes them (the command below). Only a restart frees atoms, "
                        "and it ends all work: choose its time. Later: use "
                        "binary_to_existing_atom/1 and list_to_existing_atom/1, or keep data from "
                        "outside as binaries; xmerl and binary_to_term/1 make atoms, too (option "
                        "safe).",
                    look_closer => text("dyno trace NODE \"~ts -> caller\"", [Function])
                })
             || PerS > value(atoms_per_s), not is_loading(Looks)
            ] ++ generated(Looks);
        unknown ->
            {unknown, ~"atoms were not counted"}
    end.

%% More modules at each look, and atoms that differ in a number only; a start has other names.
generated(Looks) ->
    Names = lists:append([Of || #{~"newest_atoms" := Of} <- tl(Looks)]),
    Prefix = binary:longest_common_prefix(Names ++ [~"" || Names =:= []]),
    Rest = [binary:part(Name, Prefix, byte_size(Name) - Prefix) || Name <- Names],
    [
        finding(warning, {atoms_grow, none, 70}, {~"modules", PerS}, #{
            text => text("new modules are loaded all the time, ~ts now", [count(Last)]),
            evidence => ["More at each look. ", newest_atoms(Looks)],
            why => ~"Each takes atoms, which are never freed, and memory for its code.",
            advice =>
                "Now: see who loads them (the command below). Later: do not make a module for each "
                "request or template: keep data in ETS, or load a module again under one name.",
            look_closer => ~"dyno trace NODE \"code:load_binary/3 -> caller\""
        })
     || length(Looks) >= 4,
        {_, Last, PerS, true} <- [growth(fun(L) -> at([~"counts", ~"modules"], L) end, Looks)],
        Prefix > 0,
        lists:all(fun(Of) -> re:run(Of, "^[0-9a-fA-F_]*$", [{capture, none}]) =:= match end, Rest)
    ].

%% The most frequent calls of some processes; of these not all make a new atom.
maker(Looks) ->
    Makers = [
        {N, Function, Caller}
     || #{~"atom_makers" := Of} <- Looks,
        #{~"function" := Function, ~"caller" := Caller, ~"times" := N} <- Of
    ],
    case lists:reverse(lists:sort(Makers)) of
        [{_, Function, Caller} | _] ->
            {Function, text(" Most likely ~ts makes them, by ~ts.", [Caller, Function])};
        [] ->
            {~"erlang:binary_to_atom/2", ~""}
    end.

soon(LeftS, LimitS) when LeftS < LimitS -> critical;
soon(_LeftS, _LimitS) -> warning.

count_of(Name) ->
    fun(Look) ->
        case at([~"counts", Name], Look) of
            [N, _] -> N;
            unknown -> unknown
        end
    end.

-doc "The newest atoms, in a sentence.".
-spec newest_atoms([dyno_health_look:look()]) -> binary().
newest_atoms(Looks) ->
    case of_last([~"newest_atoms"], Looks) of
        [_ | _] = Atoms -> text("The newest are ~ts.", [lists:join(", ", Atoms)]);
        _ -> ~""
    end.

is_loading(Looks) ->
    Counts = [N || L <- Looks, N <- [at([~"counts", ~"modules"], L)]],
    length(lists:usort(Counts)) > 1.

%% More in each look; the limit within a day.
counts(Looks) ->
    Ports = [
        {~"ports", count_of(~"ports"), Limit}
     || [_, Limit] <- [of_last([~"counts", ~"ports"], Looks)]
    ],
    Fds = fun(L) -> at([~"machine_now", ~"fds"], L) end,
    [
        count_grows(Name, Last, PerS, Limit, (Limit - Last) / PerS, Looks)
     || {Name, Value, Limit} <-
            Ports ++
                [{~"descriptors", Fds, of_last([~"machine_now", ~"fds_limit"], Looks)}],
        is_number(Limit),
        {_, Last, PerS, true} <- [growth(Value, Looks)],
        PerS > value(grows_per_s),
        (Limit - Last) / PerS < ?DAY_S
    ] ++ tables(Looks).

%% The runtime makes more than its limit (+e) says; only memory limits them.
tables(Looks) ->
    case growth(count_of(~"tables"), Looks) of
        {_, Last, PerS, true} ->
            [
                finding(warning, {counts_grow, grows_per_s, 74}, {~"ETS tables", PerS}, #{
                    text => text("~ts more ETS tables each second, ~ts now", [
                        count(PerS), count(Last)
                    ]),
                    evidence => most(~"tables", Last, Looks),
                    why => ~"Each takes memory until it is deleted, or its owner ends.",
                    advice =>
                        "Now: see who makes them (dyno trace of ets:new/2). Later: delete them "
                        "when done (ets:delete/1), or make them in processes that end.",
                    look_closer => ~"dyno trace NODE \"ets:new/2 -> caller\""
                })
             || PerS > value(grows_per_s)
            ];
        _ ->
            []
    end.

count_grows(Name, Last, PerS, Most, LeftS, Looks) ->
    finding(soon(LeftS, ?SOON_S), {counts_grow, grows_per_s, 74}, {Name, PerS}, #{
        text => text(
            "~ts more ~ts each second: more are opened than closed; at this rate the limit of ~ts "
            "is reached in ~ts",
            [count(PerS), Name, count(Most), seconds(max(0, LeftS))]
        ),
        evidence => text("~ts of them now, more at each of ~b looks.", [
            count(Last), length(Looks)
        ]),
        advice =>
            "Now: see who opens connections or files (ss -tp state close-wait lists sockets that "
            "only the other side has closed), and whether the load rises (new users): then growth "
            "is normal. Later: set time limits.",
        look_closer => ~"dyno record NODE"
    }).

near(Looks) ->
    Counts = [
        {Of, N, Limit}
     || Of <- [~"processes", ~"ports", ~"atoms"],
        [N, Limit] <- [of_last([~"counts", Of], Looks)]
    ],
    [Fds, Most] = [of_last([~"machine_now", Key], Looks) || Key <- [~"fds", ~"fds_limit"]],
    [
        near(Of, N, Limit, Looks)
     || {Of, N, Limit} <- [{~"descriptors", Fds, Most} | Counts],
        is_number(N) andalso is_number(Limit),
        N > value(table_full) * Limit
    ].

near(Of, N, Limit, Looks) ->
    finding(critical, {near_limit, table_full, 180}, {Of, N / Limit}, #{
        text => text("~ts of ~ts ~ts are in use", [count(N), count(Limit), Of]),
        evidence => most(Of, N, Looks),
        advice => raise(Of),
        look_closer => ~"dyno record NODE"
    }).

most(~"processes", All, Looks) ->
    Every = of_last([~"processes", ~"every"], Looks),
    Groups = maps:to_list(groups(last(Looks))),
    %% In a large node the groups are estimates.
    Counts = [{min(All, N * Every), Name} || {Name, #{~"count" := N}} <- Groups],
    largest(Counts, "~ts of them run ~ts.");
most(~"tables", _All, Looks) ->
    Tables = of_last([~"tables"], Looks),
    largest(
        [{N, Name} || #{~"name" := Name, ~"tables" := N} <- Tables],
        "~ts of them have the name ~ts."
    );
most(~"atoms", _All, Looks) ->
    newest_atoms(Looks);
most(_Of, _All, _Looks) ->
    ~"".

largest(Counts, Format) ->
    case lists:reverse(lists:sort(Counts)) of
        [{N, Name} | _] -> text(Format, [count(N), Name]);
        [] -> ~""
    end.

raise(~"processes") ->
    ~"Now: stop what starts them (load, clients). Later: +P raises the limit, at the next start.";
raise(~"ports") ->
    "Now: find unused connections (ss -tp), and close these. Later: +Q raises the "
    "limit, at the next start.";
raise(~"atoms") ->
    "Now: only a restart frees atoms, and it ends all work: choose its time. Later: find what "
    "makes them; +t raises the limit, at the next start.";
raise(_) ->
    "Now: find unused files and connections (ls -l /proc/PID/fd, ss -tp), and close these: with no "
    "descriptor left no connection is accepted, and no file is opened. Later: "
    "ulimit -n (LimitNOFILE of systemd) raises the limit, at the next start.".
