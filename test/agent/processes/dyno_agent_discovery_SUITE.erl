%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_discovery_SUITE).
-moduledoc """
The discovery of processes without processes: its core is given the events of a simulated node, and
its effects are carried out there.
""".

-include_lib("stdlib/include/assert.hrl").
-include("../../support/dyno_proper.hrl").

-compile([export_all, nowarn_export_all, {no_auto_import, [node/0]}]).

suite() ->
    [{timetrap, {minutes, 2}}].

newest_release_only() -> all.

slow() -> [estimates_a_storm].

all() ->
    [{group, all}].

groups() ->
    [
        {all, [parallel], [
            counts_each_process_once,
            estimates_a_storm,
            leaves_functions_out,
            forgets_who_has_ended,
            gives_up_when_it_is_far_behind,
            groups_by_a_name_that_comes_late,
            leaves_its_own_out,
            puts_too_many_kinds_together,
            counts_from_the_restart
        ]}
    ].

%% Whatever comes and goes, in whatever order: each process counts once, in one group, and as many
%% are alive as were discovered and have not ended.
counts_each_process_once(_Config) ->
    Property = ?FORALL(
        Commands,
        proper_types:list(command()),
        begin
            #{processes := Processes, core := Core} = Node = until_idle(run(Commands, node())),
            #{discovered := Discovered, groups := Groups} = results(Node),
            Ours = maps:filter(fun(_, #{kind := Kind}) -> Kind =/= own end, Processes),
            Living = maps:filter(fun(_, #{alive := Alive}) -> Alive end, Ours),
            ?WHENFAIL(
                ct:pal("~b processes, ~b alive: ~p", [map_size(Ours), map_size(Living), Groups]),
                Discovered =:= map_size(Ours) andalso
                    sum(discovered, Groups) =:= Discovered andalso
                    sum(alive, Groups) =:= map_size(Living) andalso
                    %% What is kept is of those that live, and of 20,000 that have ended.
                    map_size(map_get(table, Node)) < map_size(Living) + 22_000 andalso
                    erts_debug:flat_size(Core) < 60_000
            )
        end
    ),
    dyno_property:holds(Property, 100).

command() ->
    Function = proper_types:elements([f, g, h]),
    Kind = proper_types:elements([plain, other, named, late, own]),
    proper_types:frequency([
        {10, {start, Function, Kind, proper_types:range(1, 60)}},
        {6, {finish, proper_types:range(1, 2000)}},
        {4, deliver},
        {4, {wait, proper_types:range(1, 900)}},
        {2, scan}
    ]).

%% 2,500 a second for six seconds: in a short window twice a second they send messages, and at any
%% other time as many of the calls are taken to be first ones: here all.
estimates_a_storm(_Config) ->
    Node = event({limit, 200}, node()),
    Moments = lists:append(
        lists:duplicate(3000, [{start, f, plain, 5}, deliver, {finish, 5}, {wait, 1}])
    ),
    #{sent := Sent} = Stormed = run([settle, scan], run(Moments, Node)),
    ?assert(Sent < 3000, Sent),
    #{discovered := Discovered, groups := [#{discovered := OfGroup}]} = results(Stormed),
    ?assertEqual(Discovered, OfGroup),
    ?assert(abs(Discovered - 15_000) =< 10, Discovered),
    %% Each process calls three times.
    Thrice = lists:append(
        lists:duplicate(1500, [
            {start, f, plain, 5}, {call_again, f, 10}, deliver, {finish, 5}, {wait, 2}
        ])
    ),
    #{discovered := More} = results(
        run([settle, scan], run(Thrice, event({limit, 200}, node())))
    ),
    ?assert(abs(More - 7500) < 300, More),
    %% Rare ones are counted each.
    #{sent := Then} = Quiet = run([{wait, 1000}, {wait, 1000}], Stormed),
    #{discovered := Before} = results(Quiet),
    #{sent := Now} = Rare = run(
        lists:append(lists:duplicate(50, [{start, f, plain, 1}, deliver, {wait, 20}])) ++ [scan], Quiet
    ),
    ?assertEqual(50, Now - Then),
    ?assertMatch(#{discovered := D} when D =:= Before + 50, results(Rare)).

leaves_functions_out(_Config) ->
    Storm = [{start, f, plain, 3000}, deliver, {finish, 3000}],
    #{throttled := Throttled} = Node = run(Storm, node()),
    ?assertEqual([{target, f, 0}], maps:keys(Throttled)),
    Left = event({leave_out, [{target, f, 0}]}, Node),
    ?assertMatch(#{throttled := None} when map_size(None) =:= 0, Left),
    %% It is not set again when messages are to come.
    #{sent := Sent} = Before = run([{wait, 3000}, {wait, 3000}], Left),
    ?assertMatch(#{sent := Sent}, run([{start, f, plain, 100}, deliver], Before)).

forgets_who_has_ended(_Config) ->
    Storm = lists:append(
        lists:duplicate(80, [{start, f, named, 500}, deliver, {finish, 500}, scan])
    ),
    #{table := Table, core := Core} = run(Storm, node()),
    ?assert(map_size(Table) < 25_000, map_size(Table)),
    ?assert(erts_debug:flat_size(Core) < 200_000, erts_debug:flat_size(Core)).

%% No process sends a message any more.
gives_up_when_it_is_far_behind(_Config) ->
    Before = run([{start, f, named, 1000}, deliver], node()),
    #{silent := all} = Given = event({behind, 100_000}, Before),
    Later = run(lists:append(lists:duplicate(5, [{start, f, named, 9000}, {wait, 2100}])), Given),
    ?assertMatch(#{discovers := gave_up, discovered := 1000}, results(Later)),
    Throttled = run([{start, f, plain, 3000}, deliver], node()),
    ?assertMatch(#{silent := all}, run([{wait, 9000}], event({behind, 100_000}, Throttled))).

groups_by_a_name_that_comes_late(_Config) ->
    Node = run([{start, f, late, 3}, deliver, scan], node()),
    ?assertMatch(
        #{discovered := 3, groups := [#{group := {label, late}, discovered := 3, alive := 3}]},
        results(Node)
    ).

leaves_its_own_out(_Config) ->
    ?assertMatch(
        #{discovered := 0, groups := []}, results(run([{start, f, own, 3}, deliver, scan], node()))
    ).

puts_too_many_kinds_together(_Config) ->
    Many = [{start, f, {label, N}, 1} || N <- lists:seq(1, 3000)] ++ [deliver, scan],
    #{discovered := 3000, groups := Groups} = results(run(Many, node())),
    ?assertMatch([1000], [N || #{group := other, discovered := N} <- Groups]).

counts_from_the_restart(_Config) ->
    Node = run(
        [{start, f, plain, 30}, {start, g, other, 10}, deliver, {finish, 25}, restart], node()
    ),
    #{discovered := 15, groups := Groups} = results(Node),
    ?assertEqual({15, 15, 15}, {sum(discovered, Groups), sum(sampled, Groups), sum(alive, Groups)}),
    #{discovered := 17} = results(run([{start, f, plain, 2}, deliver, scan], Node)).

sum(Key, Groups) -> lists:sum([map_get(Key, Group) || Group <- Groups]).

%% A node. Processes and functions are known by their names here.

node() ->
    {Core, []} = dyno_agent_discovery:event({limit, 1000}, dyno_agent_discovery:new()),
    #{
        core => Core,
        processes => #{},
        table => #{},
        %% First calls that have sent a message, and the functions that send none.
        messages => [],
        silent => [],
        calls => #{},
        throttled => #{},
        sent => 0,
        timers => #{},
        now_us => 0
    }.

run(Commands, Node) -> lists:foldl(fun command/2, Node, Commands).

%% All that is under way comes to its end.
until_idle(Node) -> run([deliver, {wait, 3000}, {wait, 3000}, scan], Node).

command({start, _, _, 0}, Node) ->
    Node;
command({start, Function, Kind, Count}, #{processes := Processes, now_us := NowUs} = Node) ->
    Pid = map_size(Processes) + 1,
    Process = #{kind => Kind, alive => true, label => undefined},
    Started = Node#{processes := Processes#{Pid => Process}, now_us := NowUs + 200},
    command({start, Function, Kind, Count - 1}, call(Pid, Function, due(Started)));
command({finish, Count}, #{processes := Processes} = Node) ->
    %% dyno's own live on.
    Living = lists:sort([Pid || Pid := #{alive := true, kind := K} <- Processes, K =/= own]),
    Ended = #{
        Pid => (map_get(Pid, Processes))#{alive := false}
     || Pid <- lists:sublist(Living, Count)
    },
    Node#{processes := maps:merge(Processes, Ended)};
command(deliver, #{messages := Messages} = Node) ->
    lists:foldr(fun first_call/2, Node#{messages := []}, Messages);
command({wait, Ms}, #{now_us := NowUs} = Node) ->
    due(Node#{now_us := NowUs + Ms * 1000});
command(settle, Node) ->
    event(settle, Node);
%% By processes that have called before.
command({call_again, Function, Count}, #{calls := Calls} = Node) ->
    Node#{calls := maps:update_with({target, Function, 0}, fun(N) -> N + Count end, Calls)};
command(scan, Node) ->
    #{table := Table} = Begun = event(begin_scan, Node),
    {Samples, Sampled} = lists:mapfoldl(
        fun sample/2, Begun, [{Pid, Id} || Pid := {Id, sampled} <- Table]
    ),
    event(end_scan, event({samples, Samples}, Sampled));
command(restart, Node) ->
    #{table := Table} = Sampled = event(begin_scan, Node),
    Rows = [{Pid, Id, is_alive(Pid, Node)} || Pid := {Id, sampled} <- Table],
    Count = fun({_, Id, _}, Acc) -> maps:update_with(Id, fun(N) -> N + 1 end, 1, Acc) end,
    {Living, Ended} = lists:partition(fun({_, _, IsAlive}) -> IsAlive end, Rows),
    Alive = lists:foldl(Count, #{}, Living),
    Marked = maps:merge(Table, #{Pid => {Id, unsampled} || {Pid, Id, _} <- Ended}),
    event({restart, Alive, [Pid || {Pid, _, _} <- Ended]}, Sampled#{table := Marked}).

call(Pid, Function, #{silent := Silent} = Node) ->
    MFA = {target, Function, 0},
    #{calls := Calls} = Node,
    Called = Node#{calls := maps:update_with(MFA, fun(N) -> N + 1 end, 1, Calls)},
    #{messages := Messages, sent := Sent, now_us := NowUs} = Called,
    Time = erlang:convert_time_unit(NowUs, microsecond, native),
    case Silent =:= all orelse lists:member(MFA, Silent) of
        true -> Called;
        false -> Called#{messages := [{Pid, MFA, Time} | Messages], sent := Sent + 1}
    end.

first_call({Pid, MFA, Time}, #{table := Table, processes := Processes} = Node) ->
    case is_map_key(Pid, Table) of
        true -> Node;
        false -> label_late(Pid, event({first_call, Pid, MFA, Time}, Node#{processes := Processes}))
    end.

%% It gets its label when it has been asked.
label_late(Pid, #{processes := Processes} = Node) ->
    case Processes of
        #{Pid := #{kind := late} = Process} ->
            Node#{processes := Processes#{Pid := Process#{label := late}}};
        #{} ->
            Node
    end.

due(#{timers := Timers} = Node) ->
    NowMs = now_ms(Node),
    maps:fold(
        fun
            (What, AtMs, #{timers := Left} = Acc) when AtMs =< NowMs ->
                Due = Acc#{timers := maps:remove(What, Left)},
                %% It is in the mailbox behind the messages that were sent before.
                event({What, NowMs}, command(deliver, Due));
            (_, _, Acc) ->
                Acc
        end,
        Node,
        Timers
    ).

now_ms(#{now_us := NowUs}) -> NowUs div 1000.

is_alive(Pid, #{processes := Processes}) ->
    #{Pid := #{alive := Alive}} = Processes,
    Alive.

sample({Pid, Id}, #{table := Table} = Node) ->
    case is_alive(Pid, Node) of
        true -> {{ran, Id, 100, 0, 1}, Node};
        false -> {{ended, Id, Pid, 10}, Node#{table := Table#{Pid := {Id, unsampled}}}}
    end.

results(#{core := Core, table := Table}) ->
    Alive = maps:fold(
        fun
            (_Pid, {Id, sampled}, Acc) ->
                maps:update_with(Id, fun({N, R}) -> {N + 1, R + 10} end, {1, 10}, Acc);
            (_Pid, _, Acc) ->
                Acc
        end,
        #{},
        Table
    ),
    dyno_agent_discovery:results(Alive, Core).

event(Event, #{core := Core} = Node) ->
    {Next, Effects} = dyno_agent_discovery:event(Event, Core),
    lists:foldl(fun effect/2, Node#{core := Next}, Effects).

effect({table, {insert, Rows}}, Node) when is_list(Rows) ->
    lists:foldl(fun(Row, Acc) -> effect({table, {insert, Row}}, Acc) end, Node, Rows);
effect({table, {insert, {Pid, Id}}}, #{table := Table} = Node) ->
    Node#{table := Table#{Pid => {Id, unsampled}}};
effect({table, {insert, {Pid, Id, _, _, _, _}}}, #{table := Table} = Node) ->
    Node#{table := Table#{Pid => {Id, sampled}}};
effect({table, {move, Pid, Id}}, #{table := Table} = Node) ->
    #{Pid := {_, How}} = Table,
    Node#{table := Table#{Pid := {Id, How}}};
effect({table, {delete, Pids}}, #{table := Table} = Node) ->
    Node#{table := maps:without(Pids, Table)};
effect({table, {throttled, Throttled}}, Node) ->
    Node#{throttled := Throttled};
effect({ask, Pid, MFA, Time}, Node) ->
    Answer =
        case is_alive(Pid, Node) of
            true -> {info(Pid, Node), 10, 0};
            false -> gone
        end,
    event({answer, Pid, MFA, Time, Answer}, Node);
effect({sample_first, Rows}, Node) ->
    {Living, Ended} = lists:partition(fun({Pid, _}) -> is_alive(Pid, Node) end, Rows),
    Count = fun(Id, List) -> length([x || {_, I} <- List, I =:= Id]) end,
    Ids = lists:usort([Id || {_, Id} <- Rows]),
    Counts = #{Id => {Count(Id, Rows), Count(Id, Living)} || Id <- Ids},
    event(
        {sampled_first, Counts, [Pid || {Pid, _} <- Ended], [{Pid, Id, 10} || {Pid, Id} <- Living]},
        Node
    );
effect({find_names, Rows}, Node) ->
    Named = [
        {Pid, Id, Kind}
     || {Pid, Id} <- Rows,
        is_alive(Pid, Node),
        {ok, Kind} <- [dyno_agent_kind:named(info(Pid, Node))]
    ],
    event({named, Named}, Node);
effect({monitor, _Pid, _Id, _Since}, Node) ->
    Node;
effect({demonitor, _Refs}, Node) ->
    Node;
effect({table, {name, _Id, _Kind}}, Node) ->
    Node;
effect({count_calls, Functions, What}, #{calls := Calls, now_us := NowUs} = Node) ->
    Time = erlang:convert_time_unit(NowUs, microsecond, native),
    event({What, maps:with(Functions, Calls), Time}, Node);
effect({later, Ms, What}, #{timers := Timers} = Node) ->
    Node#{timers := Timers#{What => now_ms(Node) + Ms}};
effect({first_calls, stop}, Node) ->
    Node#{silent := all};
effect({first_calls, {_, []}}, Node) ->
    Node;
effect({first_calls, {count, _Functions}}, Node) ->
    Node;
effect({first_calls, {subscribe, Functions}}, #{silent := Silent} = Node) ->
    Node#{silent := Silent -- Functions};
effect({first_calls, {leave_out, Functions}}, Node) ->
    effect({first_calls, {throttle, Functions}}, Node);
effect({first_calls, {throttle, Functions}}, #{silent := Silent} = Node) ->
    Node#{silent := lists:usort(Functions ++ Silent)}.

info(Pid, #{processes := Processes}) ->
    #{Pid := #{kind := Kind, label := Label}} = Processes,
    Own = fun(Name) -> [{registered_name, []}, {label, Name}] end,
    case Kind of
        plain -> Own(undefined) ++ [{initial_call, {target, init, 1}}];
        other -> Own(undefined) ++ [{initial_call, {target, other, 1}}];
        late -> Own(Label) ++ [{initial_call, {target, init, 1}}];
        named -> Own(named);
        own -> Own(dyno_agent_sampler);
        {label, N} -> Own({list_to_atom("kind" ++ integer_to_list(N))})
    end.
