%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_profile_SUITE).
-moduledoc "Profiles of real nodes: what takes the time is found, of whom it was asked, and nothing is left.".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

suite() -> [{timetrap, {minutes, 2}}].

each_release() ->
    [
        samples_chosen_processes,
        times_chosen_processes,
        sees_what_waits_for_schedulers,
        calls_have_the_true_shares
    ].

slow() -> [calls_have_the_true_shares].

all() ->
    [
        functions_of_stacks,
        samples_chosen_processes,
        says_what_samples_leave_open,
        times_chosen_processes,
        sees_what_waits_for_schedulers,
        follows_calls,
        calls_have_the_true_shares,
        evaluates_an_expression,
        runs_a_command,
        refuses
    ].

init_per_suite(Config) ->
    ok = dyno_target_node:ensure_distribution(#{}),
    Config.

end_per_suite(_Config) -> ok.

functions_of_stacks(_Config) ->
    Profile = dyno_recording_part:profile(
        #{name => ~"stacks", values => [#{name => ~"time", unit => ~"ns"}]},
        [{[~"a", ~"b", ~"a"], [30], #{}}, {[~"a", ~"b"], [60], #{}}, {[~"c"], [10], #{}}]
    ),
    #{rows := Rows} = dyno_profile_functions:table(Profile),
    %% One that is in a stack twice counts once.
    ?assertEqual([[~"b", 0.6, 0.9], [~"a", 0.3, 0.9], [~"c", 0.1, 0.1]], Rows),
    %% One table for each node.
    Other = maps:merge(Profile, #{node => other}),
    ?assertMatch(
        [#{rows := Rows}, #{rows := Rows}],
        dyno_profile_functions:tables([Profile#{node => one}, Other])
    ),
    %% Time whose function is not known may be of any, but is not more of one below which it was.
    Ended = ~"(ended before it could be asked)",
    Unknown = dyno_recording_part:profile(
        #{name => ~"stacks", values => [#{name => ~"time", unit => ~"ns"}]},
        [{[~"a", Ended], [80], #{}}, {[~"b"], [10], #{}}, {[~"a"], [10], #{}}]
    ),
    Of = dyno_profile_functions:table(Unknown#{observations => 1000}),
    %% Itself it has an upper bound only: no rank and no bar.
    #{columns := Columns, rows := [[Ended, Share, Low, High | _] | Others]} = Of,
    ?assertMatch({0.8, +0.0, _}, {Share, Low, High}),
    ?assert(High > 0.8 andalso High < 0.85, High),
    Highs = [
        maps:from_list(lists:zip([Name || #{name := Name} <- Columns], Row))
     || Row <- lists:sort(Others)
    ],
    [#{~"own_high" := A, ~"total_high" := AWith}, #{~"own_high" := B, ~"total_high" := BWith}] =
        Highs,
    ?assert(A > 0.9 andalso AWith < 0.95 andalso B > 0.9 andalso BWith > 0.9, Highs),
    [#{~"total" := 0.9, ~"total_low" := ALow} | _] = Highs,
    ?assert(ALow > 0.05 andalso ALow < 0.1, ALow),
    ?assertEqual([], dyno_profile_functions:warnings([Of])).

samples_chosen_processes(_Config) ->
    on_node([], fun(Node) ->
        ok = busy(Node, one, spin_one),
        ok = busy(Node, other, spin_other),
        {ok, Recording} = profile(Node, #{targets => [{name, ~"one"}]}),
        Functions = [F || #{~"function" := F} <- rows(~"profile", Recording)],
        ?assert(lists:member(~"dyno_profile_SUITE:spin_one/0", Functions), Functions),
        ?assertNot(lists:member(~"dyno_profile_SUITE:spin_other/0", Functions), Functions),
        %% With whom it shares the processors.
        {ok, All} = profile(Node, #{}),
        ?assertMatch([_], [
            x
         || #{~"function" := ~"dyno_profile_SUITE:spin_other/0"} <- rows(~"profile", All)
        ])
    end).

%% A process that works for less than a time slice is seen where it waits next.
says_what_samples_leave_open(_Config) ->
    Codes = fun(Node, Name) ->
        Options = #{targets => [{name, Name}], for_ms => 1500},
        {ok, #{~"warnings" := Warnings}} = profile(Node, Options),
        [Code || #{~"code" := Code} <- Warnings]
    end,
    on_node([], fun(Node) ->
        ok = busy(Node, short, work_shortly),
        ok = busy(Node, long, spin_one),
        ?assert(lists:member(~"bursts", Codes(Node, ~"short"))),
        ?assertNot(lists:member(~"bursts", Codes(Node, ~"long")))
    end).

times_chosen_processes(_Config) ->
    on_node([], fun(Node) ->
        ok = busy(Node, one, reverse_one),
        ok = busy(Node, other, spin_other),
        {ok, Threshold} = dyno_threshold:parse(~"profile lists:reverse/2 own > 10 %"),
        {ok, Recording} = profile(Node, #{
            kind => time,
            targets => [{name, ~"one"}],
            patterns => [{lists, reverse, '_'}, {?MODULE, '_', '_'}],
            thresholds => [Threshold]
        }),
        Rows = rows(~"profile", Recording),
        [#{~"calls" := Calls, ~"bias" := Bias}] =
            [Row || #{~"function" := ~"lists:reverse/2"} = Row <- Rows],
        ?assert(Calls > 100),
        ?assert(Bias >= 0 andalso Bias =< 1),
        ?assertEqual([], [x || #{~"function" := ~"dyno_profile_SUITE:spin_other/0"} <- Rows]),
        %% Where other programs take the processor all the time it may be unknown.
        [#{~"result" := Result}] = map_get(~"verdicts", Recording),
        ?assert(lists:member(Result, [~"pass", ~"unknown"])),
        ?assertMatch(
            {error, {dyno_profile_kind, no_processes_of_counts}},
            profile(Node, #{kind => count, targets => [{name, ~"one"}]})
        )
    end).

sees_what_waits_for_schedulers(_Config) ->
    on_node(["+S", "2:2"], fun(Node) ->
        [ok = busy(Node, Name, spin_other) || Name <- [a, b, c, d]],
        ok = busy(Node, dirty, wait_dirty),
        {ok, Recording} = profile(Node, #{kind => schedulers}),
        [Run] = dyno_recording:runs(Recording),
        Value = fun(Name) ->
            {ok, #{~"value" := V}} = dyno_recording:metric(Run, Name),
            V
        end,
        ?assert(Value(~"schedulers.runnable") > 3),
        ?assert(Value(~"schedulers.queued") > 0.9),
        ?assertMatch(
            [#{~"scheduler" := _, ~"busy" := Busy} | _] when Busy > 0.9,
            [R || #{~"scheduler" := ~"normal 1"} = R <- rows(~"schedulers", Recording)]
        ),
        %% One process is nearly always in a dirty call of I/O.
        Dirty = lists:sum([
            Busy
         || #{~"scheduler" := <<"dirty I/O ", _/binary>>, ~"busy" := Busy} <-
                rows(~"schedulers", Recording)
        ]),
        ?assert(Dirty > 0.5 andalso Dirty < 1.2, Dirty),
        ?assertEqual(false, erpc:call(Node, erlang, system_flag, [microstate_accounting, false]))
    end).

follows_calls(_Config) ->
    on_node([], fun(Node) ->
        ok = busy(Node, one, sort_one),
        ok = busy(Node, other, spin_other),
        Recording = dyno_tries:hold(3, fun() ->
            {ok, Found} = profile(Node, #{
                kind => calls, targets => [{name, ~"one"}], not_traced => [{lists, '_', '_'}]
            }),
            %% What is sorted takes most, and is its own time.
            [#{~"own" := Own}] = [
                R
             || #{~"function" := ~"dyno_profile_SUITE:sorted/1"} = R <- rows(~"profile", Found)
            ],
            ?assert(Own > 0.5, Own),
            Found
        end),
        Functions = [F || #{~"function" := F} <- rows(~"profile", Recording)],
        ?assertEqual([], [F || F <- Functions, binary:match(F, ~"lists:") =/= nomatch]),
        ?assertNot(lists:member(~"dyno_profile_SUITE:spin_other/0", Functions), Functions),
        Within = #{kind => calls, inside => {?MODULE, sorted, 1}, count => 5, for_ms => 30_000},
        {ok, Five} = profile(Node, Within),
        ?assertMatch(#{~"status" := ~"complete"}, Five),
        ?assertMatch(
            [#{~"calls" := 5}],
            [R || #{~"function" := ~"dyno_profile_SUITE:sorted/1"} = R <- rows(~"call_times", Five)]
        ),
        [
            ?assertMatch(
                {error, {dyno_profile_kind, Reason}}, profile(Node, Options#{kind => calls})
            )
         || {Reason, Options} <- [
                {no_processes, #{}},
                {count_without_inside, #{count => 2, targets => [{name, ~"one"}]}},
                {processes_and_inside, #{inside => {lists, sort, 1}, targets => [{name, ~"one"}]}}
            ]
        ],
        {error, Unknown} = profile(Node, Within#{inside => {?MODULE, sortet, 1}}),
        Text = unicode:characters_to_binary(dyno_error:format(Unknown)),
        ?assertMatch({_, _}, binary:match(Text, ~"sorted/1"), Text)
    end).

%% What counts each call gives the tiny ones half of the time, which take 5 %. How near the shares
%% are on a machine that does nothing else, bench/profile_truth says: here others compute as well.
calls_have_the_true_shares(Config) ->
    %% The node that is started loads from the same folders.
    Folder = proplists:get_value(priv_dir, Config),
    true = code:add_patha(Folder),
    [
        {ok, Module} = compile:file(
            filename:join([dyno_project:root(), "bench", Module]), [{outdir, Folder}]
        )
     || Module <- [bench_phases, bench_ring, bench_profile_truth]
    ],
    {Truth, Found, _, _} = bench_profile_truth:truth_and_found(calls, 1, 10_000),
    [
        ?assert(abs(Share - maps:get(Phase, Found, 0.0)) < 20, {Phase, Truth, Found})
     || Phase := Share <- Truth
    ].

evaluates_an_expression(_Config) ->
    {ok, Recording} = dyno_profile:run([], #{
        eval => ~"lists:seq(1, 1000), lists:sort([5, 3, 4]).", for_ms => 1000
    }),
    ?assertMatch(#{~"status" := ~"complete"}, Recording),
    ?assertMatch([_], [x || #{~"function" := ~"eval:run/0"} <- rows(~"profile", Recording)]),
    [
        begin
            {error, Error} = dyno_profile:run([], #{eval => Text}),
            Sentence = unicode:characters_to_binary(dyno_error:format(Error)),
            ?assertMatch({_, _}, binary:match(Sentence, Part), Sentence)
        end
     || {Text, Part} <- [
            {~"lists:sort(", ~"column"}, {~"L + 1", ~"unbound"}, {~"error(no)", ~"raises no"}
        ]
    ].

runs_a_command(_Config) ->
    Command =
        ~"erl -noshell -eval 'T=fun(T)->lists:seq(1,1000),T(T)end,spawn(fun()->T(T)end),timer:sleep(2500),halt().'",
    {ok, Recording} = dyno_profile:run([], #{run => Command}),
    ?assertMatch(#{~"status" := ~"complete"}, Recording),
    ?assertMatch([_ | _], rows(~"profile", Recording)),
    ?assertMatch(
        {error, {dyno_profile_subject, {no_emulator, ~"exit 7", 7}}},
        dyno_profile:run([], #{run => ~"exit 7"})
    ),
    self() ! dyno_interrupt,
    ?assertEqual(
        {error, {dyno_error, interrupted}}, dyno_profile:run([], #{run => ~"sleep 100"})
    ).

refuses(_Config) ->
    on_node([], fun(Node) ->
        ?assertMatch(
            {error, {dyno_process_filter, _}}, profile(Node, #{targets => [{name, ~"nobody"}]})
        )
    end).

%% What the node runs

spin_one() -> spin_one().

spin_other() -> spin_other().

reverse_one() -> reverse_one(lists:seq(1, 5000)).

%% With a pause: on two processors that compute, each change of the code waits for both.
reverse_one(List) ->
    _ = lists:reverse(List),
    receive
    after 1 -> reverse_one(List)
    end.

work_shortly() ->
    _ = lists:sum(lists:seq(1, 5000)),
    receive
    after 1 -> work_shortly()
    end.

wait_dirty() ->
    _ = erts_debug:dirty_io(wait, 50),
    wait_dirty().

sort_one() -> sort_one([erlang:phash2(N) || N <- lists:seq(1, 1000)]).

sort_one(List) ->
    _ = sorted(List),
    receive
    after 1 -> sort_one(List)
    end.

sorted(List) ->
    Sorted = lists:sort(List),
    [hd(Sorted) | Sorted].

busy(Node, Name, Function) ->
    true = erpc:call(Node, erlang, register, [Name, spawn(Node, ?MODULE, Function, [])]),
    ok.

profile(Node, Options) ->
    dyno_profile:run([Node], maps:merge(#{for_ms => 700}, Options)).

rows(Name, Recording) ->
    [Run] = dyno_recording:runs(Recording),
    lists:append([dyno_recording:rows(Table) || Table <- dyno_recording:tables(Run, Name)]).

%% A node that has nothing of dyno but these functions.
on_node(Arguments, Do) ->
    {_, Node} = Peer = dyno_peers:start(Arguments),
    try
        {?MODULE, Binary, File} = code:get_object_code(?MODULE),
        {module, ?MODULE} = erpc:call(Node, code, load_binary, [?MODULE, File, Binary]),
        _ = Do(Node),
        ok = dyno_leftovers:until(fun() -> dyno_leftovers:in(Node) =:= [] end)
    after
        dyno_peers:stop(Peer)
    end.
