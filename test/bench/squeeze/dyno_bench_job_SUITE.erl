%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_job_SUITE).
-moduledoc "Jobs that really run: what they count, how they change, how they end.".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

suite() ->
    [{timetrap, {minutes, 5}}].

each_release() -> [counts_exactly, leaves_nothing_behind].

all() ->
    [
        counts_exactly,
        changes_live,
        passes_values_on,
        state_goes_on_between_batches,
        fails,
        wrong_options,
        ends_with_its_owner,
        leaves_nothing_behind,
        only_so_many,
        measures_on_demand,
        tells_its_source,
        is_linked_or_told_to_end
    ].

start(Options) ->
    dyno_bench_job:start(Options).

measures_on_demand(_Config) ->
    {ok, Job} = start(#{code => "timer:sleep(2).", concurrency => 1}),
    {ok, Ns} = dyno_bench_job:measure(Job, 5),
    ?assert(Ns >= 10_000_000, Ns),
    %% One after the other.
    Self = self(),
    _ = [spawn_link(fun() -> Self ! {answer, dyno_bench_job:measure(Job, 10)} end) || _ <- [1, 2]],
    [?assertMatch({ok, Of} when Of >= 20_000_000, receive {answer, A} -> A end) || _ <- [1, 2]],
    {ok, _} = dyno_bench_job:measure(Job, 1),
    ok = dyno_bench_job:stop(Job),
    {error, {_, ended}} = dyno_bench_job:measure(Job, 1),
    {ok, Failing} = start(#{code => "error(measured).", concurrency => 0}),
    {error, {_, {failed, _, run, {raised, error, measured, _}}}} =
        dyno_bench_job:measure(Failing, 1),
    {ok, 0} = dyno_bench_job:concurrency(Failing),
    ok = dyno_bench_job:stop(Failing).

tells_its_source(_Config) ->
    {ok, Job} = start(#{code => "rand:uniform()."}),
    {ok, OfJob} = dyno_bench_job:source(Job),
    {ok, OfCode} = dyno_bench_job:source("rand:uniform()."),
    ?assertEqual(unicode:characters_to_list(OfJob), unicode:characters_to_list(OfCode)),
    ?assertMatch({match, _}, re:run(OfJob, "rand:uniform\\(\\)")),
    {ok, normal} = dyno_bench_job:set_priority(Job, high),
    {ok, high} = dyno_bench_job:set_priority(Job, normal),
    ok = dyno_bench_job:stop(Job).

is_linked_or_told_to_end(_Config) ->
    {ok, Job} = start(#{code => "rand:uniform()."}),
    Ref = dyno_bench_job:monitor(Job),
    ok = dyno_bench_job:request_stop(Job),
    receive
        {'DOWN', Ref, process, _, normal} -> ok
    end,
    Trapping = process_flag(trap_exit, true),
    {error, _} = dyno_bench_job:start_link(#{code => #{runner => "ok.", init => "error(a)."}}),
    {ok, Linked} = dyno_bench_job:start_link(#{code => "receive after 20 -> error(b) end."}),
    Monitor = dyno_bench_job:monitor(Linked),
    receive
        {'DOWN', Monitor, process, Pid, {shutdown, _}} ->
            receive
                {'EXIT', Pid, {shutdown, {_, {failed, _, run, _}}}} -> ok
            end
    end,
    process_flag(trap_exit, Trapping).

%% What was counted is what the code itself counted, but for the batches that were under way.
counts_exactly(_Config) ->
    Own = counters:new(1, []),
    {ok, Job} = start(#{
        code => #{
            runner => fun(C) -> counters:add(C, 1, 1), timer:sleep(1) end,
            init_runner => fun() -> Own end
        },
        concurrency => 2
    }),
    dyno_leftovers:until(fun() -> dyno_bench_job:sample(Job) > 100 end),
    ok = dyno_bench_job:set_concurrency(Job, 0),
    Count = dyno_bench_job:sample(Job),
    Under = counters:get(Own, 1) - Count,
    ?assert(Under >= 0 andalso Under =< 2, Under),
    ok = dyno_bench_job:set_concurrency(Job, 1),
    dyno_leftovers:until(fun() -> dyno_bench_job:sample(Job) > Count end),
    ok = dyno_bench_job:stop(Job),
    ?assert(dyno_bench_job:sample(Job) > Count).

changes_live(_Config) ->
    Self = self(),
    {ok, Job} = start(#{
        code => #{runner => fun(X) -> X end, init_runner => fun() -> Self ! {worker, self()} end}
    }),
    ?assertEqual({ok, 1}, dyno_bench_job:concurrency(Job)),
    ok = dyno_bench_job:set_concurrency(Job, 3),
    ?assertEqual({ok, 3}, dyno_bench_job:concurrency(Job)),
    [First, Second, Third] = [receive {worker, Pid} -> Pid end || _ <- lists:seq(1, 3)],
    dyno_leftovers:until(fun() -> dyno_bench_job:sample(Job) > 0 end),
    Before = dyno_bench_job:sample(Job),
    ok = dyno_bench_job:set_concurrency(Job, 1),
    ?assertEqual({ok, 1}, dyno_bench_job:concurrency(Job)),
    ?assert(is_process_alive(First)),
    ?assertNot(is_process_alive(Second) orelse is_process_alive(Third)),
    %% What the others had done stays counted.
    ?assert(dyno_bench_job:sample(Job) >= Before),
    ok = dyno_bench_job:set_concurrency(Job, 0),
    Rest = dyno_bench_job:sample(Job),
    ok = dyno_bench_job:set_concurrency(Job, 2),
    dyno_leftovers:until(fun() -> dyno_bench_job:sample(Job) > Rest end),
    ?assertMatch({error, {_, {concurrency, -1, _}}}, dyno_bench_job:set_concurrency(Job, -1)),
    ?assertMatch({error, {_, {concurrency, 10_001, _}}},
        dyno_bench_job:set_concurrency(Job, 10_001)),
    ok = dyno_bench_job:stop(Job),
    ?assertEqual({error, {dyno_bench_job, ended}}, dyno_bench_job:concurrency(Job)),
    ?assertEqual({error, {dyno_bench_job, ended}}, dyno_bench_job:set_concurrency(Job, 1)),
    ok = dyno_bench_job:stop(Job).

passes_values_on(_Config) ->
    Self = self(),
    {ok, Job} = start(#{
        code => #{
            init => fun() -> made end,
            init_runner => fun(made) -> Self ! {given, self()}, prepared end,
            runner => fun(prepared) -> ok end,
            done => fun(made) -> Self ! {done, self()} end
        }
    }),
    Worker = receive {given, Pid} -> Pid end,
    ok = dyno_bench_job:stop(Job),
    receive {done, Server} -> ?assertNotEqual(Worker, Server) end.

state_goes_on_between_batches(_Config) ->
    Self = self(),
    {ok, Job} = start(#{
        code => #{
            runner => fun
                (To, To) -> 1;
                (To, 1_000_000) -> To ! reached, 1_000_001;
                (_, N) -> N + 1
            end,
            init_runner => fun() -> Self end
        }
    }),
    receive reached -> ok end,
    ok = dyno_bench_job:stop(Job).

fails(_Config) ->
    Late = #{
        runner => "r(_, N) when N < 1000000 -> N + 1; r(_, _) -> error(late).",
        init_runner => "0."
    },
    lists:foreach(
        fun({Code, Stage, Expected}) ->
            Reason =
                case start(#{code => Code, concurrency => 0}) of
                    {ok, Job} ->
                        Ref = dyno_bench_job:monitor(Job),
                        _ = dyno_bench_job:set_concurrency(Job, 1),
                        receive
                            {'DOWN', Ref, process, _, {shutdown, Why}} -> Why
                        end;
                    {error, Why} ->
                        Why
                end,
            ?assertMatch({_, {failed, _, Stage, _}}, Reason),
            Text = unicode:characters_to_list(
                io_lib:format("~tp ~ts", [Reason, dyno_error:format(Reason)])
            ),
            ?assertMatch({match, _}, re:run(Text, Expected), Text)
        end,
        [
            {"error(boom).", run, "boom"},
            {"exit(shutdown).", run, "shutdown"},
            {"exit(self(), kill), receive after infinity -> ok end.", run, "killed"},
            {Late, run, "late"},
            {#{runner => "ok.", init => "error(early)."}, init, "early"},
            {#{runner => "ok.", init_runner => "error(early)."}, init_runner, "early"}
        ]
    ),
    ?assertMatch({error, {_, {syntax, _, _, _, _, _}}}, start(#{code => "foo(."})),
    %% Long enough to be compiled on a busy machine.
    ?assertMatch({error, {_, {failed, _, init_runner, {timeout, 500}}}},
        start(#{code => #{runner => "ok.", init_runner => "receive never -> ok end."},
            timeout_ms => 500})).

wrong_options(_Config) ->
    [
        begin
            {error, {_, {Key, _, _}} = Reason} = start(Options#{code => "ok."}),
            ?assertEqual([Key], maps:keys(Options)),
            ?assert(string:length(dyno_error:format(Reason)) > 10)
        end
     || Options <- [
            #{concurrency => -1},
            #{concurrency => 10_001},
            #{concurrency => two},
            #{timeout_ms => 0}
        ]
    ].

ends_with_its_owner(_Config) ->
    Self = self(),
    Owner = spawn(fun() ->
        {ok, Job} = start(#{code => "ok.", concurrency => 2}),
        Self ! {job, Job},
        receive never -> ok end
    end),
    Job = receive {job, J} -> J end,
    Ref = dyno_bench_job:monitor(Job),
    exit(Owner, kill),
    receive {'DOWN', Ref, process, _, _} -> ok end.

%% Not an atom, a module or a process more after many jobs, however they ended.
leaves_nothing_behind(_Config) ->
    Run = fun() ->
        {ok, Stopped} = start(#{code => "X = 1, X + 1.", concurrency => 2}),
        ok = dyno_bench_job:stop(Stopped),
        {ok, #{pid := Pid} = Killed} = start(#{code => "ok."}),
        Ref = dyno_bench_job:monitor(Killed),
        exit(Pid, kill),
        receive {'DOWN', Ref, process, _, _} -> ok end,
        {error, _} = start(#{code => #{runner => "ok.", init => "error(boom)."}}),
        dyno_leftovers:until(fun() -> allocators() =:= [] end)
    end,
    %% A name is taken again only when its last allocator has gone: all of the pool may be needed.
    _ = [
        list_to_atom("dyno_bench_" ++ Kind ++ integer_to_list(N) ++ End)
     || {Kind, End} <- [{"run_", ""}, {"loop_", "_1"}, {"loop_", "_empty"}], N <- lists:seq(1, 64)
    ],
    dyno_leftovers:nothing_after(Run, 30),
    ?assertEqual([], [M || M <- dyno_agent_patterns:loaded(), is_loop(M)]).

allocators() ->
    [Name || Name <- registered(), is_job(Name)].

is_job(Name) ->
    lists:prefix("dyno_bench_run_", atom_to_list(Name)).

is_loop(Name) ->
    lists:prefix("dyno_bench_loop_", atom_to_list(Name)).

only_so_many(_Config) ->
    Jobs = [
        begin
            {ok, Job} = start(#{code => "ok.", concurrency => 0}),
            Job
        end
     || _ <- lists:seq(1, 64)
    ],
    {error, {_, {too_many_runs, 64}} = Reason} = start(#{code => "ok.", concurrency => 0}),
    ?assert(string:length(dyno_error:format(Reason)) > 10),
    lists:foreach(fun dyno_bench_job:stop/1, Jobs).
