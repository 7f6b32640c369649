%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_truth_profile_SUITE).
-moduledoc """
Profiles and recordings of nodes of which it is known what they do: processor time is told from
waiting, nobody is said to have ended who lives, and nothing is scaled beyond what there is.
""".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

suite() -> [{timetrap, {minutes, 2}}].

all() -> [{group, side_by_side}].

groups() ->
    [
        {side_by_side, [parallel], [
            what_waits_in_a_system_call_is_no_processor_time,
            dirty_calls_of_others_wait_too,
            one_that_sleeps_takes_no_time_to_sleep,
            names_are_one_each,
            suspended_processes_wait,
            finds_the_one_that_works_among_many,
            who_lives_has_not_ended,
            bursts_count_for_what_they_take,
            who_waits_for_a_scheduler_is_not_blamed,
            says_what_is_silent,
            priority_max_is_not_seen,
            no_share_is_below_zero
        ]}
    ].

%% Both processors are taken by others meanwhile.
init_per_suite(Config) ->
    ok = dyno_target_node:ensure_distribution(#{}),
    Spinning = [
        open_port({spawn_executable, "/bin/sh"}, [
            {args, ["-c", "exec timeout 90 sh -c 'while :; do :; done'"]}
        ])
     || _ <- [1, 2]
    ],
    [{spinning, [element(2, erlang:port_info(P, os_pid)) || P <- Spinning]} | Config].

end_per_suite(Config) ->
    [dyno_escript:kill("TERM", Pid) || Pid <- proplists:get_value(spinning, Config)],
    ok.

%% Six processes open a FIFO that nobody writes, and one computes.
what_waits_in_a_system_call_is_no_processor_time(Config) ->
    Fifo = filename:join(proplists:get_value(priv_dir, Config), "fifo"),
    "" = os:cmd("mkfifo " ++ Fifo),
    on_node([], fun(Node) ->
        [spawn(Node, prim_file, open, [Fifo, [read]]) || _ <- lists:seq(1, 6)],
        ok = run(Node, hog, spin),
        Recording = profile(Node, 2000),
        Functions =
            #{F => Own || #{~"function" := F, ~"own" := Own} <- rows(~"profile", Recording)},
        ?assert(maps:get(~"dyno_truth_profile_SUITE:spin/0", Functions) > 0.9, Functions),
        ?assert(maps:get(~"prim_file:open/2", Functions, 0.0) < 0.08, Functions),
        %% One process computes: not more than one processor's time.
        ?assert(cpu_ns(Recording) < 2.4e9, cpu_ns(Recording)),
        [#{~"waiting" := Waiting}] = waits(~"prim_file:open/2", Recording),
        ?assert(abs(Waiting - 6) < 0.5, Waiting),
        ?assertMatch({_, _}, binary:match(text(Recording), ~"(a system call)"))
    end).

%% It takes six of each ten milliseconds: "spin/0 100 % +/- 7.2" was told without a doubt.
priority_max_is_not_seen(_Config) ->
    on_node(["+S", "1"], fun(Node) ->
        ok = run(Node, hog, spin),
        ok = run(Node, first, first_of_all),
        Text = text(profile(Node, 3000)),
        ct:log("~ts", [Text]),
        Flat = re:replace(Text, "\\s+", " ", [global, {return, binary}]),
        Doubt = "first of [^ ]+ works at priority max, and dyno looks only when it waits",
        ?assertMatch({match, _}, re:run(Flat, Doubt))
    end).

first_of_all() ->
    _ = process_flag(priority, max),
    first_of_all(erlang:monotonic_time(millisecond) + 6).

first_of_all(UntilMs) ->
    case erlang:monotonic_time(millisecond) < UntilMs of
        true ->
            first_of_all(UntilMs);
        false ->
            timer:sleep(4),
            first_of_all(erlang:monotonic_time(millisecond) + 6)
    end.

%% In floats 1 - 0.9 - 0.1 is less.
no_share_is_below_zero(_Config) ->
    Result = #{
        stacks => [{a, [unseen], 9.0}, {a, [burst], 1.0}],
        other => 0.0,
        started => 9,
        cpu => none,
        seen => {none, 100},
        instants => 10,
        late => 0,
        clocks => known
    },
    [{~"bursts", _, [{Share, ~"ratio"} | _], _}] = dyno_agent_stack_parts:warnings(~"n", Result),
    ?assert(Share >= 0, Share).

%% Of a function that dyno does not know.
dirty_calls_of_others_wait_too(_Config) ->
    on_node([], fun(Node) ->
        [run(Node, Name, wait_dirty) || Name <- [a, b, c, d]],
        ok = run(Node, hog, spin),
        dyno_tries:hold(2, fun() -> dirty_calls_wait(Node) end)
    end).

dirty_calls_wait(Node) ->
    Recording = profile(Node, 2000),
    Functions = #{F => Own || #{~"function" := F, ~"own" := Own} <- rows(~"profile", Recording)},
    ?assert(maps:get(~"dyno_truth_profile_SUITE:spin/0", Functions) > 0.8, Functions),
    Waiting = lists:sum([
        W
     || #{~"waiting" := W} <- waits(~"dyno_truth_profile_SUITE:wait_dirty/0", Recording)
    ]),
    ?assert(Waiting > 2 andalso Waiting < 4.5, Waiting).

one_that_sleeps_takes_no_time_to_sleep(_Config) ->
    on_node([], fun(Node) ->
        [spawn(Node, ?MODULE, short, []) || _ <- lists:seq(1, 50)],
        Recording = profile(Node, 1500),
        Functions = [F || #{~"function" := F} <- rows(~"profile", Recording)],
        ?assert(lists:member(~"dyno_truth_profile_SUITE:short/0", Functions), Functions),
        ?assertNot(lists:member(~"timer:sleep/1", Functions), Functions)
    end).

%% Of 2,000 others nothing is known that could say how many wait as `rex`.
names_are_one_each(_Config) ->
    on_node([], fun(Node) ->
        [spawn(Node, timer, sleep, [infinity]) || _ <- lists:seq(1, 2000)],
        [spawn(Node, ?MODULE, asleep, []) || _ <- lists:seq(1, 500)],
        Recording = profile(Node, 2500),
        Named = [
            W
         || #{~"processes" := Name, ~"waiting" := W} <- rows(~"waiting", Recording),
            lists:member(Name, [~"rex", ~"code_server", ~"init", ~"user_drv_writer"])
        ],
        ?assertMatch([_ | _], Named),
        ?assertEqual([], [W || W <- Named, W > 1]),
        [#{~"waiting" := Asleep, ~"waiting_low" := Low, ~"waiting_high" := High}] = [
            R
         || #{~"caller" := ~"dyno_truth_profile_SUITE:asleep/0"} = R <- rows(~"waiting", Recording)
        ],
        ?assert(Low =< Asleep andalso Asleep =< High),
        %% 95 % of the intervals hold 500: by far not further off than once more their width.
        Width = High - Low,
        ?assert(Low - Width < 500 andalso 500 < High + Width, {Low, High})
    end).

suspended_processes_wait(_Config) ->
    on_node([], fun(Node) ->
        ok = run(Node, converter, feed_program),
        #{~"waiting" := Waiting, ~"processes" := Who} = suspended(Node, 1500),
        ?assertEqual(~"converter", Who),
        ?assert(Waiting > 0.5 andalso Waiting =< 1, Waiting)
    end).

%% A busy machine leaves few looks at those that wait.
suspended(Node, Ms) ->
    case waits(~"erlang:port_command/2", profile(Node, Ms)) of
        [Row] -> Row;
        [] -> suspended(Node, 2 * Ms)
    end.

finds_the_one_that_works_among_many(_Config) ->
    on_node(["+P", "500000"], fun(Node) ->
        ok = erpc:call(Node, ?MODULE, crowd, [100_000]),
        ok = run(Node, worker, work_and_sleep),
        Recording = profile(Node, 4000),
        Functions =
            #{
                F => Total
             || #{~"function" := F, ~"total" := Total} <- rows(~"profile", Recording)
            },
        ?assert(
            maps:get(~"dyno_truth_profile_SUITE:work_and_sleep/0", Functions, 0.0) > 0.3, Functions
        ),
        [Run] = dyno_recording:runs(Recording),
        %% How much it sees is not known where others take the processors.
        case dyno_recording:metric(Run, ~"stacks.seen") of
            {ok, #{~"value" := Seen}} -> ?assert(Seen > 0 andalso Seen =< 1, Seen);
            _ -> ok
        end
    end).

%% 200 a second that never end.
who_lives_has_not_ended(_Config) ->
    on_node([], fun(Node) ->
        ok = run(Node, leak, leak),
        {ok, Recording} = dyno_record:run([Node], #{
            duration_ms => 3000, patterns => [atom_to_list(?MODULE)], servers => []
        }),
        [#{~"discovered" := Seen, ~"alive" := Alive}] = [
            R
         || #{~"group" := ~"dyno_truth_profile_SUITE:request/1"} = R <- rows(
                ~"processes", Recording
            )
        ],
        ?assert(Alive >= 0.9 * Seen, {Alive, Seen}),
        Text = text(Recording),
        ?assertEqual(nomatch, binary:match(Text, ~"that ended before"), Text)
    end).

%% 3,000 new processes are ready at once twice a second, and take about a tenth of the time.
bursts_count_for_what_they_take(_Config) ->
    on_node([], fun(Node) ->
        ok = run(Node, hog, hog),
        ok = run(Node, births, births),
        Recording = profile(Node, 3000),
        Functions =
            #{
                F => Total
             || #{~"function" := F, ~"total" := Total} <- rows(~"profile", Recording)
            },
        ?assert(maps:get(~"dyno_truth_profile_SUITE:hog/0", Functions, 0.0) > 0.5, Functions)
    end).

%% Native code kept a scheduler for 120 ms: the looks after that met those that had waited for it.
who_waits_for_a_scheduler_is_not_blamed(_Config) ->
    New = dyno_agent_stack_late:new(#{}),
    {LimitNs, 0, _} = dyno_agent_stack_late:limit(120_000_000, 0, New),
    Waits = {waits, [{timer, sleep, 1, []}], []},
    Late = {ran, late, [{timer, sleep, 1, []}], []},
    Weighed = dyno_agent_stack_late:weigh(
        [{{a, 1, Waits}, 20_000}, {{b, 1, Waits}, 120_000_000}, {{c, 1, Waits}, 20_000}], LimitNs
    ),
    ?assertMatch([{a, _, Waits}, {b, _, Late}, {c, _, Late}], Weighed),
    Result = #{
        stacks => [{other, [late], 2.0}, {other, [{beat, beat, 1}, burst], 1.0}],
        other => 0,
        elsewhere => 0,
        started => 0,
        cpu => none,
        cpu_ns => 1000,
        seen => {none, 30},
        instants => 100,
        late => 70,
        clocks => known
    },
    [#{stacks := Stacks} | _] = dyno_agent_stack_parts:profiles(),
    ?assertEqual(
        [
            {~"(not seen: dyno had no turn meanwhile)", 700},
            {~"(not seen: it answered late)", 200},
            {~"(ready to run, or ran shortly, from here)", 100}
        ],
        lists:sort([{lists:last(Path), Ns} || {Path, [Ns], _} <- Stacks(Result)])
    ),
    [{~"late_stacks", _, [{Share, _} | _], Do}] = dyno_agent_stack_parts:warnings(~"n", Result),
    ?assert(abs(Share - 0.9) < 1.0e-6, Share),
    ?assertMatch({_, _}, binary:match(Do, ~"--kind cpu")).

says_what_is_silent(_Config) ->
    {Peer, Node} = dyno_peers:start(),
    OsPid = list_to_integer(erpc:call(Node, os, getpid, [])),
    ok = dyno_target_node:connect(Node, #{}),
    dyno_escript:kill("STOP", OsPid),
    {error, Error} = dyno_target_node:connect(Node, #{}),
    Text = unicode:characters_to_binary(dyno_error:format(Error)),
    ?assertMatch({_, _}, binary:match(Text, ~"its emulator did not answer"), Text),
    ?assertEqual(nomatch, binary:match(Text, ~"priority"), Text),
    dyno_escript:kill("CONT", OsPid),
    dyno_peers:stop({Peer, Node}).

%% What the nodes run

spin() -> spin().

wait_dirty() ->
    _ = erts_debug:dirty_io(wait, 1000),
    wait_dirty().

short() ->
    _ = lists:sum(lists:seq(1, 2000)),
    ok = timer:sleep(1),
    short().

asleep() ->
    ok = timer:sleep(infinity),
    asleep().

feed_program() -> feed(open_port({spawn, "sleep 60"}, [binary])).

feed(Port) ->
    true = port_command(Port, binary:copy(~"x", 1_000_000)),
    feed(Port).

%% Ends once all of them wait.
crowd(Count) ->
    Self = self(),
    Pids = [spawn(?MODULE, idle, [Self]) || _ <- lists:seq(1, Count)],
    lists:foreach(
        fun(Pid) ->
            receive
                {idle, Pid} -> ok
            end
        end,
        Pids
    ).

idle(Parent) ->
    Parent ! {idle, self()},
    idle().

idle() ->
    receive
        stop -> ok
    end.

work_and_sleep() ->
    _ = lists:sort([erlang:phash2(N) || N <- lists:seq(1, 5000)]),
    receive
    after 10 -> work_and_sleep()
    end.

hog() ->
    _ = lists:sum(lists:seq(1, 100)),
    hog().

births() ->
    [spawn(lists, seq, [1, 100]) || _ <- lists:seq(1, 3000)],
    receive
    after 500 -> births()
    end.

leak() ->
    [spawn(?MODULE, request, [N]) || N <- lists:seq(1, 10)],
    receive
    after 50 -> leak()
    end.

request(N) ->
    Body = lists:seq(N, N + 100),
    receive
        answer -> Body
    end.

%% Steps

run(Node, Name, Function) ->
    true = erpc:call(Node, erlang, register, [Name, spawn(Node, ?MODULE, Function, [])]),
    ok.

profile(Node, Ms) ->
    {ok, Recording} = dyno_profile:run([Node], #{for_ms => Ms}),
    Recording.

rows(Name, Recording) ->
    [Run] = dyno_recording:runs(Recording),
    lists:append([dyno_recording:rows(Table) || Table <- dyno_recording:tables(Run, Name)]).

waits(Call, Recording) -> [R || #{~"call" := Of} = R <- rows(~"waiting", Recording), Of =:= Call].

%% All that is in the flame graph of processor time.
cpu_ns(Recording) ->
    [#{~"profiles" := Profiles}] = dyno_recording:runs(Recording),
    lists:sum([
        Ns
     || #{~"name" := ~"stacks", ~"samples" := Samples} <- Profiles,
        #{~"values" := [Ns | _]} <- Samples
    ]).

text(Recording) ->
    {ok, Text} = dyno_report_console:format(Recording, #{}),
    unicode:characters_to_binary(Text).

%% A node that has nothing of dyno but these functions.
on_node(Arguments, Do) ->
    {_, Node} = Peer = dyno_peers:start(Arguments),
    try
        {?MODULE, Binary, File} = code:get_object_code(?MODULE),
        {module, ?MODULE} = erpc:call(Node, code, load_binary, [?MODULE, File, Binary]),
        Do(Node)
    after
        dyno_peers:stop(Peer)
    end.
