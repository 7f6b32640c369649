%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_health_waits).
-moduledoc false.
%% Waiting processes: cycles of calls, servers that all wait for, global's locks, the logger.

-export([checks/0, across/1, edges/1, names/1, cycle/1, short/2, is_registrar/1]).

-import(dyno_health_look, [finding/4, text/2, count/1, seconds/1, is_one_of/2, growth/2]).
-import(dyno_health_look, [suspects/1, span/1, progresses/1, place_of/1, place/1, waiting_in/2]).
-import(dyno_health_look, [last/1]).
-import(dyno_finding_limits, [value/1]).

-define(SOME_LOCKS, 3).
-define(LOCKING, [
    ~"gen:register_name/1",
    ~"global:random_sleep/1",
    ~"global:trans/4",
    ~"global:set_lock/3",
    ~"global:register_name/3",
    ~"global:re_register_name/3",
    ~"global:set_lock1/3"
]).

-spec checks() -> [dyno_health:row()].
checks() ->
    [
        {call_cycle, ~"calls that wait for each other", 2, fun cycles/1},
        {waited_for, ~"one server that all wait for", 2, fun waited_for/1},
        {ends, ~"supervisors that wait for the end of a child", 3, fun ends/1},
        {global_lock, ~"global's locks", 2, fun locks/1},
        {failures, ~"calls that fail", 2, fun failures/1},
        {logger, ~"processes that wait to log", 2, fun logger_callers/1}
    ].

-spec short(binary(), binary()) -> binary().
short(Pid, Name) ->
    case binary:match(Name, ~" ") of
        nomatch -> Name;
        _ -> Pid
    end.

-doc "Whether it is the process of global that takes its lock for others.".
-spec is_registrar([binary()]) -> boolean().
is_registrar(Stack) -> lists:member(~"global:loop_the_registrar/0", Stack).

%% Calls

-spec edges(dyno_health_look:look()) -> [{binary(), binary()}].
edges(#{~"calls" := Calls}) ->
    lists:uniq([{From, To} || #{~"from" := From, ~"to" := To} <- Calls, From =/= To]);
edges(_) ->
    [].

-spec names([dyno_health_look:look()]) -> #{binary() => binary()}.
names(Looks) ->
    maps:from_list([
        Pair
     || #{~"calls" := Calls} <- Looks,
        #{~"from" := F, ~"from_name" := FN, ~"to" := T, ~"to_name" := TN} <- Calls,
        Pair <- [{F, FN}, {T, TN}]
    ]).

%% The same cycle in two successive looks.
cycles(Looks) ->
    Each = [cycle(edges(Look)) || Look <- Looks],
    case lists:reverse([C || {C, C} <- lists:zip(lists:droplast(Each), tl(Each)), C =/= []]) of
        [] ->
            [];
        [Cycle | _] ->
            Names = names(Looks),
            Waiting = length([
                F
             || {F, T} <- edges(last(Looks)),
                lists:member(T, Cycle),
                not lists:member(F, Cycle)
            ]),
            Seen = length([C || C <- Each, C =:= Cycle]),
            [cycle(Cycle, [maps:get(Pid, Names, Pid) || Pid <- Cycle], Seen, length(Each), Waiting)]
    end.

cycle(Cycle, Named, Seen, All, Waiting) ->
    Chain = lists:join(", ", [
        text("~ts waits for ~ts", [A, B])
     || {A, B} <- lists:zip(Named, tl(Named) ++ [hd(Named)])
    ]),
    finding(critical, {call_cycle, cycle, 200}, {hd(Named), length(Cycle)}, #{
        text => text("calls wait for each other: ~ts", [Chain]),
        evidence => text("Seen in ~b of ~b looks; ~b more processes wait for these.", [
            Seen, All, Waiting
        ]),
        advice =>
            "Now: end the one whose state may be lost (exit(Pid, kill)), which frees the others; "
            "never a process of kernel: the node would end. Later: make one of the calls a cast, "
            "or ask from a third process; give calls a time limit.",
        look_closer => text("dyno profile NODE \"~ts\" --kind schedulers", [
            short(hd(Cycle), hd(Named))
        ])
    }).

-doc "A cycle of calls over several of these nodes, in their last two looks, at its first node.".
-spec across([{Node :: binary(), [dyno_health_look:look()]}]) -> [{binary(), dyno_finding:t()}].
across(Nodes) ->
    Looks = [{Node, lists:reverse(Of)} || {Node, [_, _ | _] = Of} <- Nodes],
    Last = everywhere([{Node, Look} || {Node, [Look | _]} <- Looks]),
    Before = everywhere([{Node, Look} || {Node, [_, Look | _]} <- Looks]),
    case cycle([E || E <- Last, lists:member(E, Before)]) of
        [] ->
            [];
        [First | _] = Cycle ->
            [_, Node] = at_node(First),
            Waiting = [F || {F, T} <- Last, lists:member(T, Cycle), not lists:member(F, Cycle)],
            Closer = #{look_closer => text("dyno servers NODE \"~ts\"", [hd(at_node(First))])},
            [
                {Node, maps:merge(cycle(Cycle, Cycle, 2, 2, length(Waiting)), Closer)}
             || length(lists:usort([Of || Key <- Cycle, [_, Of] <- [at_node(Key)]])) > 1
            ]
    end.

%% The calls of all nodes; a process is its name and its node, or the pid of its own node.
everywhere(Looks) ->
    Calls = [{Node, Call} || {Node, #{~"calls" := Of}} <- Looks, Call <- Of],
    Of = fun(Node, Pid, Name) -> {key(Node, Pid, Pid), key(Node, Pid, Name)} end,
    %% The caller's own node knows its name.
    Known = maps:from_list(
        [Of(N, T, Name) || {N, #{~"to" := T, ~"to_name" := Name}} <- Calls] ++
            [Of(N, F, Name) || {N, #{~"from" := F, ~"from_name" := Name}} <- Calls]
    ),
    [
        {maps:get(From, Known), maps:get(To, Known)}
     || {Node, #{~"from" := F, ~"to" := T}} <- Calls,
        {From, To} <- [{key(Node, F, F), key(Node, T, T)}]
    ].

key(Node, Pid, Name) ->
    case {at_node(Pid), short(Pid, Name)} of
        {[_, _], _} -> re:replace(Pid, "^<[0-9]+[.]", "<0.", [{return, binary}]);
        {[_], Short} -> <<Short/binary, " at ", Node/binary>>
    end.

at_node(Key) -> string:split(Key, ~" at ", trailing).

-doc "A cycle, if any; each caller waits for only one process.".
-spec cycle([{binary(), binary()}]) -> [binary()].
cycle(Edges) ->
    Next = maps:from_list(Edges),
    Found = [C || {From, _} <- Edges, [_ | _] = C <- [follow(From, From, Next, [])]],
    hd(lists:sort(Found) ++ [[]]).

follow(First, Pid, Next, Path) ->
    case Next of
        #{Pid := First} ->
            lists:reverse(Path, [Pid]);
        #{Pid := To} ->
            case lists:member(To, Path) of
                true -> [];
                false -> follow(First, To, Next, [Pid | Path])
            end;
        #{} ->
            []
    end.

%% The same callers wait for one process in two looks; or few in all looks, if it takes no message.
waited_for(Looks) ->
    case lists:reverse(Looks) of
        [Last, Before | _] ->
            Same = [E || E <- edges(Last), lists:member(E, edges(Before))],
            Groups = maps:groups_from_list(
                fun({_, To}) -> To end, fun({From, _}) -> From end, Same
            ),
            InCycle = lists:append([cycle(edges(L)) || L <- [Last, Before]]),
            Limit = value(waiting_callers),
            Names = names(Looks),
            Always = [E || E <- Same, lists:all(fun(L) -> lists:member(E, edges(L)) end, Looks)],
            Few = value(stuck_callers),
            [
                waited(maps:get(To, Names, To), To, Judged, length(From), Queue, Looks)
             || To := From <- Groups,
                Queue <- [queue(To, Last)],
                Stay <- [length([To || {_, Of} <- Always, Of =:= To])],
                Judged <- lists:sublist(
                    [waiting_callers || length(From) >= Limit] ++
                        [stuck_callers || Queue > 0, Stay >= Few],
                    1
                ),
                not lists:member(To, InCycle),
                has_worked_little(To, Looks)
            ];
        _ ->
            []
    end.

%% A server that answers has other callers in each look, or the same ones again.
has_worked_little(Pid, Looks) ->
    Asked = lists:append([A || {Of, A} <- suspects(Looks), Of =:= Pid]),
    not lists:any(fun(A) -> progresses(A) =:= true end, Asked).

%% Of few long queues all are suspects.
queue(Pid, #{~"suspects" := Suspects}) ->
    lists:max([0 | [Queue || #{~"pid" := Of, ~"queue" := Queue} <- Suspects, Of =:= Pid]]).

%% Without a queue the server has taken all requests, and answers later: so do long polls.
waited(Name, Pid, Limit, Count, Queue, Looks) ->
    Last = last(Looks),
    IsElsewhere = binary:match(Pid, ~" at ") =/= nomatch,
    {Severity, Took} =
        case {Queue, waiting_in([~"application_master:start_it"], Last)} of
            {0, {N, Start}} when Name =:= ~"application_controller", N > 0 ->
                {warning, [
                    [
                        "The start of an application has not ended",
                        [[", in ", Start] || Start =/= ~""],
                        "."
                    ]
                ]};
            {0, _} when IsElsewhere ->
                {note, ["It is in another node: look there (dyno doctor)."]};
            {0, _} ->
                {note, ["It has taken the requests, and may answer later on purpose."]};
            _ ->
                {warning, []}
        end,
    Names = names(Looks),
    Itself = [
        text("It waits itself for ~ts.", [maps:get(To, Names, To)])
     || {From, To} <- edges(Last), From =:= Pid
    ],
    Where = [
        text("It stands in ~ts.", [place_of(Asked)])
     || {Of, Asked} <- suspects(Looks), Of =:= Pid
    ],
    finding(Severity, {waited_for, Limit, 90}, {Name, Count}, #{
        text => text("~b processes wait in a call to ~ts, the same as one look before", [
            Count, Name
        ]),
        evidence => lists:join(" ", Where ++ Took ++ lists:sublist(Itself, 1)),
        advice =>
            case Severity of
                note ->
                    ~"Nothing, if it answers later on purpose. Else give calls a time limit.";
                warning ->
                    "Now: find the cause of its wait. End it only if it is your own process and "
                    "its state may be lost; never one of kernel: the node would end. Later: give "
                    "calls a time limit; let a process of its own do long work, and answer with "
                    "gen_server:reply/2."
            end,
        look_closer =>
            case at_node(Name) of
                [There, Node] -> text("dyno servers ~ts \"~ts\"", [Node, There]);
                [_] -> text("dyno servers NODE \"~ts\"", [short(Pid, Name)])
            end
    }).

%% In all looks. A child that has a time limit has some seconds.
ends(Looks) ->
    Functions = [~"supervisor:shutdown/", ~"supervisor:wait_dynamic_children/"],
    Each = [
        [C || #{~"in" := In} = C <- maps:get(~"calls", L, []), is_one_of(In, Functions)]
     || L <- Looks
    ],
    Pair = fun(#{~"from" := From, ~"to" := To}) -> {From, To} end,
    Stopping = waiting_in([~"init:shutdown"], last(Looks)),
    [
        finding(warning, {ends, none, 103}, {Name, none}, #{
            text => text("~ts waits for the end of ~ts, and does nothing else", [
                Name, ended(Call)
            ]),
            evidence => text("So in all ~b looks.~ts~ts", [
                length(Looks),
                [[" ", Child, " stands in ", Place, "."] || Place =/= ~""],
                [~" The node is being stopped." || {N, _} <- [Stopping], N > 0]
            ]),
            why =>
                "It starts and restarts no child; the stop of its application, or of the node, "
                "waits.",
            advice =>
                "Now: see why that child does not end; exit(Pid, kill) ends it, if its state may "
                "be lost. Later: give the child a time limit in its specification (shutdown), and "
                "let a process that traps exits end at the exit of its supervisor.",
            look_closer => ~"dyno profile NODE --kind schedulers"
        })
     || #{~"from_name" := Name, ~"to_name" := Child, ~"to_in" := Place} = Call <- lists:last(Each),
        lists:all(fun(Of) -> lists:member(Pair(Call), [Pair(C) || C <- Of]) end, Each)
    ].

ended(#{~"in" := <<"supervisor:wait_dynamic", _/binary>>}) -> ~"its children";
ended(#{~"to_name" := Child}) -> [~"its child ", Child].

locks(Looks) ->
    Waiting = [element(1, waits_for_global(Look)) || Look <- Looks],
    Holders = holders(last(Looks)),
    case [Held || Held <- Holders, lists:member(Held, holders(hd(Looks)))] of
        [] ->
            contended(lists:min(Waiting), Looks);
        Long ->
            [
                lock(Resource, Holder, lists:max(Waiting), last(Looks), Looks)
             || {Resource, Holder, _} <- lists:sublist(Long, ?SOME_LOCKS)
            ]
    end.

%% Without global's own, which takes the lock anew for each name.
holders(Look) ->
    [
        {Resource, Holder, maps:get(~"hold", H, ~"")}
     || #{~"resource" := Resource, ~"holders" := Of} <- at(~"locks", Look),
        #{~"pid" := Holder, ~"stack" := Stack} = H <- Of,
        not is_registrar(Stack)
    ].

%% The holders change, and others wait at each look, or global's own processes work all the time.
contended(Waiting, Looks) ->
    Who = [Place || L <- lists:reverse(Looks), {_, Place} <- [waits_for_global(L)], Place =/= ~""],
    Such = [[", such as in ", Place] || Place <- lists:sublist(Who, 1)],
    Work = [
        R
     || {_, Asked} <- suspects(Looks),
        #{~"group" := <<"global:", _/binary>>, ~"reductions" := R} <- Asked,
        is_number(R)
    ],
    PerS = lists:sum(Work) / span(Looks),
    {Limit, Value, Text, Evidence, Function} =
        case Waiting >= value(contended_lock) of
            true ->
                {contended_lock, Waiting,
                    text("~b processes or more wait for a lock of global at each look", [Waiting]),
                    ~"No process held it from the first look to the last.", ~"set_lock"};
            false ->
                {global_work, PerS,
                    ~"names are registered with global, or its locks taken, all the time",
                    text("Its own processes do ~ts reductions a second.", [count(PerS)]),
                    ~"register_name"}
        end,
    [
        finding(warning, {global_lock, Limit, 88}, {~"global", Value}, #{
            text => [Text, Such],
            evidence => Evidence,
            advice =>
                "Now: nothing. Later: let one process do the work that the lock protects (a "
                "gen_server, or one for each part of the keys), or lock smaller things; who waits "
                "tries again after growing random times. For names use pg or a registry of one "
                "node.",
            look_closer => text("dyno trace NODE \"global:~ts/3 -> caller\"", [Function])
        })
     || Value >= value(Limit)
    ].

at(Key, Look) -> maps:get(Key, Look, []).

%% Without the process that holds a lock, and global's own, which waits for others.
waits_for_global(Look) ->
    Places = [P || #{~"stack" := Stack} = P <- at(~"places", Look), not is_registrar(Stack)],
    Calls = at(~"calls", Look),
    {Count, Place} = waiting_in(?LOCKING, Look#{~"places" => Places}),
    Holders = [
        Stack
     || #{~"holders" := Of} <- at(~"locks", Look),
        #{~"stack" := Stack} <- Of,
        lists:any(fun(Frame) -> is_one_of(Frame, ?LOCKING) end, Stack)
    ],
    %% Who registers a name has no other function of global in its stack.
    Registers = [From || #{~"to_name" := ~"global_name_server", ~"from_name" := From} <- Calls],
    {
        max(length(Registers), Count - length(Holders)),
        hd([Of || Of <- [Place | Registers], Of =/= ~""] ++ [~""])
    }.

lock(Resource, Holder, Waiting, Last, Looks) ->
    [#{~"name" := Name, ~"stack" := Stack} | _] = [
        H
     || #{~"holders" := Of} <- at(~"locks", Last), #{~"pid" := Pid} = H <- Of, Pid =:= Holder
    ],
    {Limit, Severity, Weight} =
        case Waiting of
            0 -> {none, note, 39};
            _ -> {lock_waiters, critical, 160}
        end,
    finding(Severity, {global_lock, Limit, Weight}, {Resource, Waiting}, #{
        text => text("global's lock ~ts is held by ~ts~ts; ~ts for locks of global", [
            Resource,
            Name,
            [[", which stands in ", place(Stack)] || Stack =/= []],
            case Waiting of
                0 -> ~"no process was seen waiting";
                _ -> text("~b processes wait", [Waiting])
            end
        ]),
        evidence => text("The same holder for at least ~ts.", [seconds(span(Looks))]),
        advice => text(
            "Now: look at ~ts on its node; end it only if its state may be lost. Later: hold such "
            "locks for a moment only; for many names use pg or a registry of one node.",
            [Name]
        ),
        look_closer => ~"dyno profile NODE --kind schedulers"
    }).

failures(Looks) ->
    Found = maps:groups_from_list(
        fun({Server, _, _}) -> Server end,
        [
            {Server, N, Why}
         || #{~"failures" := Of} <- Looks,
            #{~"server" := Server, ~"why" := Why, ~"times" := N} <- Of
        ]
    ),
    Most = lists:reverse(lists:sort([{times(Of), Server, Of} || Server := Of <- Found])),
    case {Most, growth(fun(L) -> maps:get(~"exits", L, unknown) end, Looks)} of
        {[{Seen, Server, Of} | _], {_, _, PerS, _}} ->
            All = lists:sum([N || {N, _, _} <- Most]),
            [
                failing(Server, Of, Seen / All, PerS)
             || PerS > value(failures_per_s)
            ];
        {[], {_, _, _, _}} ->
            [];
        _ ->
            dyno_health_look:uncounted()
    end.

times(Of) -> lists:sum([N || {_, N, _} <- Of]).

failing(Server, Of, Share, PerS) ->
    {_, _, Why} = lists:max([{N, Server, Why} || {_, N, Why} <- Of]),
    {Does, Advice} = failed(Why),
    finding(warning, {failures, failures_per_s, 99}, {Server, PerS}, #{
        text => text("calls to ~ts fail: ~ts", [Server, Does]),
        evidence => text(
            "erlang:exit/1 was called ~ts times a second; a failed call calls it twice. Of the "
            "failed calls that were seen, ~b % were to ~ts (~ts).",
            [count(PerS), round(100 * Share), Server, Why]
        ),
        advice => Advice,
        look_closer => ~"dyno trace NODE \"gen_server:call -> caller\""
    }).

failed(~"noproc") ->
    {
        ~"it is not there",
        "Now: read in the log why it ended or was not started, and start it "
        "(supervisor:restart_child/2, application:ensure_all_started/1). Later: let a supervisor "
        "start it before its callers, and let these wait before they try again."
    };
failed(~"timeout") ->
    {
        ~"it does not answer in time",
        "Now: see what it does (dyno servers), and lower the load on it. Later: let callers try "
        "again after growing pauses only; a late request is work that no caller wants any more."
    };
failed(~"nodedown") ->
    {
        ~"its node is not connected",
        "Now: see whether that node runs, and the network between. Later: let callers try again "
        "after growing pauses only."
    };
failed(Why) ->
    {
        text("it ends meanwhile (~ts)", [Why]),
        "Now: read in the log why it ends. Later: let callers try again after growing pauses only."
    }.

logger_callers(Looks) ->
    Waits = fun(Functions) ->
        Counts = [waiting_in(Functions, L) || L <- tl(Looks)],
        {lists:min([N || {N, _} <- Counts]), element(2, lists:last(Counts))}
    end,
    Limit = value(log_callers),
    case
        {
            Waits([~"logger_olp:call/2", ~"logger_olp:do_load/3"]),
            Waits([~"logger_backend:call_handlers/"])
        }
    of
        {{N, Who}, _} when N >= Limit ->
            [
                wait_to_log(
                    N,
                    Who,
                    critical,
                    "The handler makes its callers wait (mode sync): it writes more slowly than "
                    "the node logs."
                )
            ];
        {_, {N, Who}} when N >= Limit ->
            [wait_to_log(N, Who, warning, ~"Each waits in the code of a handler, which is slow.")];
        _ ->
            busy_logging(Looks)
    end.

%% The busiest processes stand in handlers, which run in the process that logs.
busy_logging(Looks) ->
    Stacks = [
        {N, Stack, lists:any(fun(F) -> is_one_of(F, [~"logger_backend:call_handlers/"]) end, Stack)}
     || {_, Asked} <- suspects(Looks),
        #{~"stacks" := Of} <- Asked,
        #{~"stack" := Stack, ~"count" := N} <- Of
    ],
    All = lists:sum([N || {N, _, _} <- Stacks]),
    Share = lists:sum([N || {N, _, true} <- Stacks]) / max(1, All),
    [
        logger(warning, none, none, #{
            text => text("the busiest processes stand in a log handler in ~b % of their samples", [
                round(100 * Share)
            ]),
            evidence => text("Most often in ~ts.", [place(Stack)])
        })
     || Share > 0.5, {_, Stack} <- [lists:max([{N, Stack} || {N, Stack, true} <- Stacks])]
    ].

wait_to_log(Count, Who, Severity, Evidence) ->
    logger(Severity, log_callers, Count, #{
        text => text("~b processes wait to log, such as in ~ts", [Count, Who]),
        evidence => Evidence
    }).

logger(Severity, Limit, Value, Fields) ->
    finding(Severity, {logger, Limit, 120}, {~"logger", Value}, Fields#{
        advice =>
            "Now: log less (logger:set_primary_config(level, error)); remove the slow handler "
            "(logger:remove_handler/1) only if another one writes. Later: let it drop "
            "(drop_mode_qlen, burst_limit_enable), and write to a file, not to a pipe; a handler "
            "of your own gives its work to a process.",
        look_closer => ~"dyno trace NODE \"logger_backend:log_allowed/3 -> caller\""
    }).
