%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_discovery_SUITE).
-moduledoc "Processes that come and go, discovered by the process of the test.".

-include_lib("stdlib/include/assert.hrl").
-include("../../support/dyno_proper.hrl").

-compile([export_all, nowarn_export_all]).

suite() ->
    [{timetrap, {minutes, 2}}].

slow() -> [estimates_a_storm, counts_each_process_once].

all() ->
    [
        counts_each_process_once,
        estimates_a_storm,
        leaves_functions_out,
        forgets_who_has_ended,
        gives_up_when_it_is_far_behind,
        groups_by_a_name_that_comes_late,
        leaves_its_own_out,
        puts_too_many_kinds_together,
        counts_from_the_restart
    ].

%% Whatever comes and goes, in whatever order: each process counts once, in one group, and as many
%% are alive as were discovered and have not ended.
counts_each_process_once(_Config) ->
    Property = ?FORALL(
        Commands,
        proper_types:list(command()),
        begin
            #{living := Living, started := Started} =
                Node = run(
                    Commands ++ [deliver, scan], begun()
                ),
            #{discovered := Discovered, groups := Groups} = results(Node),
            ok = ended(Node),
            ?WHENFAIL(
                ct:pal("~b processes, ~b alive: ~p", [Started, length(Living), Groups]),
                Discovered =:= Started andalso
                    sum(discovered, Groups) =:= Discovered andalso
                    sum(alive, Groups) =:= length(Living)
            )
        end
    ),
    dyno_property:holds(Property, 30).

command() ->
    Function = proper_types:elements([f, g]),
    Kind = proper_types:elements([plain, other, {label, named}, late, own]),
    proper_types:frequency([
        {10, {start, Function, Kind, proper_types:range(1, 60)}},
        {6, {finish, proper_types:range(1, 200)}},
        {4, deliver},
        {2, scan}
    ]).

%% Few send messages, and it is known how many there are.
estimates_a_storm(_Config) ->
    Moments = lists:append(
        lists:duplicate(600, [{start, f, plain, 20}, deliver, {finish, 20}, {wait, 3}])
    ),
    Begun = run([{start, f, plain, 3000}, deliver, {finish, 3000}], begun()),
    #{discovered := Before} = results(Begun),
    #{sent := Sent} = Stormed = run(Moments ++ [deliver, settle, scan], Begun),
    #{discovered := Discovered, groups := [#{discovered := OfGroup}]} = results(Stormed),
    ct:log("~b messages, ~b of 12,000", [Sent - 3000, Discovered - Before]),
    ?assertEqual(Discovered, OfGroup),
    ?assert(Sent - 3000 < 6000, Sent),
    ?assert(abs(Discovered - Before - 12_000) < 1200, Discovered - Before),
    %% There were no more than that.
    #{core := Core} = Stormed,
    ?assertMatch(
        #{discovered := 10_000, groups := [#{discovered := 10_000}]},
        results(10_000, Core)
    ),
    %% Rare ones are counted each.
    Quiet = run(moments(1200), Stormed),
    #{discovered := Then} = results(Quiet),
    Rare = lists:append(lists:duplicate(50, [{start, f, plain, 1}, deliver, {wait, 5}])),
    ?assertMatch(#{discovered := D} when D =:= Then + 50, results(run(Rare ++ [scan], Quiet))),
    ok = ended(Quiet).

leaves_functions_out(_Config) ->
    Node = run([{start, f, plain, 3000}, deliver, {finish, 3000}], begun()),
    ?assertEqual([{dyno_comers, f, 0}], throttled(Node)),
    Left = core({leave_out, [[{dyno_comers, f, 0}]]}, Node),
    ?assertEqual([], throttled(Left)),
    %% It is not set again when messages are to come.
    #{sent := Sent} = Waited = run(moments(1200), Left),
    ?assertMatch(#{sent := Sent}, run([{start, f, plain, 100}, deliver], Waited)),
    ?assertMatch(#{discovers := in_part}, results(Left)),
    ok = ended(Left).

forgets_who_has_ended(_Config) ->
    Storm = lists:append(
        lists:duplicate(80, [{start, f, {label, named}, 500}, deliver, {finish, 500}, scan])
    ),
    #{core := Core} = Node = run(Storm, begun()),
    Size = map_size(dyno_agent_process_table:groups(dyno_agent_discovery:table(Core))),
    ?assert(Size < 25_000, Size),
    ?assert(erts_debug:flat_size(Core) < 200_000, erts_debug:flat_size(Core)),
    ok = ended(Node).

%% No process sends a message any more.
gives_up_when_it_is_far_behind(_Config) ->
    Before = run([{start, f, {label, named}, 1000}, deliver], begun()),
    Given = core({behind, [100_000]}, Before),
    Later = run([{start, f, {label, named}, 2000}, {wait, 600}, deliver], Given),
    ?assertMatch(#{discovers := gave_up, discovered := 1000}, results(Later)),
    ?assertMatch(#{sent := 1000}, Later),
    ok = ended(Later).

groups_by_a_name_that_comes_late(_Config) ->
    #{living := Living} = Before = run([{start, f, late, 3}, deliver], begun()),
    [Pid ! {name, self()} || Pid <- Living],
    [
        receive
            {Pid, named} -> ok
        end
     || Pid <- Living
    ],
    Node = run([scan], Before),
    ?assertMatch(
        #{discovered := 3, groups := [#{group := {label, late}, discovered := 3, alive := 3}]},
        results(Node)
    ),
    ok = ended(Node).

leaves_its_own_out(_Config) ->
    Node = run([{start, f, own, 3}, deliver, scan], begun()),
    ?assertMatch(#{discovered := 0, groups := []}, results(Node)),
    ok = ended(Node).

puts_too_many_kinds_together(_Config) ->
    Many =
        [
            {start, f, {label, list_to_atom("kind" ++ integer_to_list(N))}, 1}
         || N <- lists:seq(1, 3000)
        ] ++ [deliver, scan],
    Node = run(Many, begun()),
    #{discovered := 3000, groups := Groups} = results(Node),
    ?assertMatch([1000], [N || #{group := other, discovered := N} <- Groups]),
    ok = ended(Node).

counts_from_the_restart(_Config) ->
    Node = run(
        [{start, f, plain, 30}, {start, g, other, 10}, deliver, {finish, 25}, restart], begun()
    ),
    #{discovered := 15, groups := Groups} = results(Node),
    ?assertEqual({15, 15, 15}, {sum(discovered, Groups), sum(sampled, Groups), sum(alive, Groups)}),
    Last = run([{start, f, plain, 2}, deliver, scan], Node),
    ?assertMatch(#{discovered := 17}, results(Last)),
    %% The unseen ones are new.
    ?assertMatch(#{there := 15}, dyno_agent_discovery:read(map_get(core, Last))),
    ?assertMatch(
        #{there := 22},
        dyno_agent_discovery:read(
            map_get(core, run([{start, g, other, 5}, restart, deliver], Last))
        )
    ),
    ok = ended(Last).

moments(Ms) -> lists:append(lists:duplicate(Ms div 10, [{wait, 10}, deliver])).

sum(Key, Groups) -> lists:sum([map_get(Key, Group) || Group <- Groups]).

%% The discovery of this process, of processes that it starts.

begun() ->
    {module, dyno_comers} = code:ensure_loaded(dyno_comers),
    {FirstCalls, []} = dyno_agent_first_calls:open([{dyno_comers, f, 0}, {dyno_comers, g, 0}]),
    Core = dyno_agent_discovery:limit(1000, dyno_agent_discovery:new(FirstCalls, [])),
    #{core => Core, calls => FirstCalls, living => [], own => [], started => 0, sent => 0}.

ended(#{calls := FirstCalls, living := Living, own := Own}) ->
    [exit(Pid, kill) || Pid <- Living ++ Own],
    ok = dyno_agent_first_calls:close(FirstCalls),
    flushed().

flushed() ->
    receive
        _ -> flushed()
    after 0 -> ok
    end.

run(Commands, Node) -> lists:foldl(fun command/2, Node, Commands).

command({start, Function, Kind, Count}, #{living := Living, own := Own, started := N} = Node) ->
    Owner = self(),
    Pids = [start(Owner, Function, Kind) || _ <- lists:seq(1, Count)],
    [
        receive
            {Pid, called} -> ok
        end
     || Pid <- Pids
    ],
    case Kind of
        own -> Node#{own := Pids ++ Own};
        _ -> Node#{living := Living ++ Pids, started := N + Count}
    end;
command({finish, Count}, #{living := Living} = Node) ->
    {Ends, Left} = lists:split(min(Count, length(Living)), Living),
    Refs = [monitor(process, Pid) || Pid <- Ends],
    [Pid ! stop || Pid <- Ends],
    [
        receive
            {'DOWN', Ref, process, _, _} -> ok
        end
     || Ref <- Refs
    ],
    Node#{living := Left};
command({wait, Ms}, Node) ->
    timer:sleep(Ms),
    Node;
command(deliver, #{calls := {Session, _}} = Node) ->
    Ref = trace:delivered(Session, all),
    receive
        {trace_delivered, all, Ref} -> delivered(Node)
    end;
command(scan, Node) ->
    #{core := Core} = Begun = core({begin_scan, []}, Node),
    scanned(dyno_agent_process_table:scan(dyno_agent_discovery:table(Core)), Begun);
command(Settles, Node) when Settles =:= settle; Settles =:= restart ->
    core({Settles, []}, Node).

scanned(done, #{core := Core} = Node) ->
    ok = dyno_agent_process_table:end_scan(dyno_agent_discovery:table(Core)),
    core({end_scan, []}, Node);
scanned({Samples, Continuation}, Before) ->
    #{core := Core} = Node = core({samples, [Samples]}, Before),
    Table = dyno_agent_discovery:table(Core),
    scanned(dyno_agent_process_table:scan_on(Continuation, Table), Node).

delivered(#{sent := Sent} = Node) ->
    receive
        {trace_ts, Pid, call, MFA, Time} ->
            delivered(core({first_call, [Pid, MFA, Time]}, Node#{sent := Sent + 1}));
        {'DOWN', Ref, process, Pid, Reason} ->
            delivered(core({ended, [Ref, Pid, Reason]}, Node));
        Due when Due =:= open_window; Due =:= close_window; Due =:= closed ->
            delivered(core({due, [Due]}, Node))
    after 0 -> Node
    end.

core({Function, Arguments}, #{core := Core} = Node) ->
    Node#{core := apply(dyno_agent_discovery, Function, Arguments ++ [Core])}.

results(#{core := Core}) -> results(1_000_000, Core).

results(Most, Core) ->
    dyno_agent_process_parts:result((dyno_agent_discovery:read(Core))#{
        there => Most, started => 0, read => to_the_end
    }).

throttled(#{core := Core}) ->
    maps:keys(dyno_agent_process_table:throttled(dyno_agent_discovery:table(Core))).

start(Owner, Function, own) -> dyno_comers:start(Owner, Function, {label, dyno_agent_sampler});
start(Owner, Function, Kind) -> dyno_comers:start(Owner, Function, Kind).
