%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_test_run_SUITE).
-moduledoc """
What happens in a run, by simulated events: nothing here is attached to, loaded or waited for.
""".

-include_lib("stdlib/include/assert.hrl").
-include("../support/dyno_proper.hrl").

-compile([export_all, nowarn_export_all]).

all() ->
    [{group, run}].

groups() ->
    [
        {run, [parallel], [
            from_the_warm_up_to_the_end,
            is_interrupted_in_each_phase,
            one_of_several_targets_leaves,
            goes_on_without_an_instrument,
            target_joins,
            targets_cannot_be_named,
            target_goes_while_the_instruments_restart,
            load_fails,
            saves_every_five_seconds,
            reads_targets_that_may_leave,
            samples_of_the_warm_up_are_dropped,
            samples_after_the_load_are_dropped,
            nothing_was_measured,
            information_for_the_tear_down,
            whatever_happens
        ]}
    ].

%% A run with its targets, and events with the time. The effects that give events of their own are
%% answered as the runner does when all goes well.

run(Nodes) ->
    dyno_test_run:new(#{
        module => ?MODULE,
        place => #{run => ~"4", size => 4},
        targets => [target(Node) || Node <- Nodes],
        custom => dyno_test_custom:none(),
        result => dyno_test_result:new(
            #{
                id => ~"4", size => 4, repetition => 1, started_at => ~"2026-11-22T10:00:00Z"
            },
            closed
        ),
        now_ms => 0
    }).

%% As much of a target as the core reads.
target(Node) ->
    #{
        node => Node,
        monitor => {monitor, Node},
        ref => {ref, Node},
        sampler => {sampler, Node},
        instruments => [],
        shift_ms => 3,
        facts => #{name => Node},
        metrics => [#{name => ~"vm.processes", unit => ~"count", title => ~"P", group => ~"vm"}]
    }.

operation(State) -> {ok, State}.

%% All effects of some events, and the run then. The observer finishes after a stop.
events(Events, Run) ->
    lists:foldl(
        fun({AtMs, Event}, {Acc, Effects}) ->
            {Next, More} = event(Event, AtMs, Acc),
            {Next, Effects ++ More}
        end,
        {Run, []},
        Events
    ).

event(Event, AtMs, Run) ->
    {Next, Effects} = dyno_test_run:event(Event, AtMs, Run),
    lists:foldl(
        fun(Effect, {Acc, Done}) ->
            case answer(Effect, AtMs) of
                none ->
                    {Acc, Done ++ [Effect]};
                Answer ->
                    {Last, More} = event(Answer, AtMs, Acc),
                    {Last, Done ++ [Effect | More]}
            end
        end,
        {Next, []},
        Effects
    ).

answer(restart, _AtMs) ->
    {restarted, ok};
answer({attach, {Node, _}, _, Custom}, AtMs) ->
    {attached, AtMs, [target(Node)], Custom};
answer(peek, _AtMs) ->
    {peeked, #{Node => readings(Node) || Node <- [a@h, b@h]}};
answer(read, _AtMs) ->
    {read, [readings(a@h)]};
answer({stop, _}, _AtMs) ->
    finish;
answer(load_result, _AtMs) ->
    {load_result, none};
answer(_, _AtMs) ->
    none.

readings(Node) ->
    #{node => Node, results => #{}}.

names(Effects) ->
    [
        case Effect of
            {tell, {phase, Phase}} -> Phase;
            {tell, {interval, _, _}} -> interval;
            {tell, {sample, _, _}} -> sample;
            {stop, _} = Stop -> Stop;
            _ when is_tuple(Effect) -> element(1, Effect);
            _ -> Effect
        end
     || Effect <- Effects
    ].

warm() -> {100, {load, warm}}.
started() -> {200, {load, started}}.
finished() -> {1200, {load, {finished, 1_000_000_000}}}.
ended() -> {1300, {load, {ended, none}}}.

interval(AtMs) ->
    {AtMs,
        {load,
            {interval, #{
                time_ms => AtMs,
                throughput_per_s => 10.0,
                errors_per_s => 0.0,
                offered_per_s => null,
                p50_ns => 1,
                p99_ns => 2,
                max_ns => 3
            }}}}.

recorded(Status, Run) ->
    {Recorded, []} = dyno_test_run:recorded(Status, Run),
    Recorded.

warnings(Run) ->
    [Code || #{code := Code} <- map_get(warnings, recorded(partial, Run))].

%% Cases

from_the_warm_up_to_the_end(_Config) ->
    Sample = {700, {sample, {sampler, a@h}, 500, #{~"vm.processes" => 7}, 12}},
    {Run, Effects} = events(
        [warm(), started(), interval(400), Sample, finished(), ended()], run([a@h])
    ),
    ?assertEqual(
        [
            restart,
            measure,
            begins,
            measure,
            align,
            interval,
            seen,
            sample,
            finish,
            read,
            close,
            {stop, complete}
        ],
        names(Effects)
    ),
    #{status := complete, duration_ns := 1_000_000_000, size := 4, id := ~"4"} =
        Recorded = recorded(complete, Run),
    %% The sample's time is the target's, and is shifted to ours.
    ?assertMatch(
        [_], [
            S
         || #{name := ~"vm.processes", times_ms := [503], values := [7]} = S <-
                map_get(series, Recorded)
        ]
    ),
    ?assertMatch([#{name := a@h}], map_get(nodes, Recorded)).

%% What is measured is read, once there is something: in the end the instruments were read already,
%% and then the load's results were told.
is_interrupted_in_each_phase(_Config) ->
    [
        begin
            {Run, _} = events(Before, run([a@h])),
            {Stopped, Effects} = event(finish, 1250, Run),
            ?assertEqual(Expected, names(Effects)),
            ?assertMatch(
                #{status := interrupted, duration_ns := DurationNs}, recorded(interrupted, Stopped)
            )
        end
     || {Before, Expected, DurationNs} <- [
            {[], [], 0},
            {[warm()], [], 0},
            {[warm(), started()], [finish, read, load_result], 1_050_000_000},
            {[warm(), started(), finished()], [load_result], 1_000_000_000},
            {[warm(), started(), finished(), ended()], [], 1_000_000_000}
        ]
    ].

%% The run goes on without it, with what was read of it last.
one_of_several_targets_leaves(_Config) ->
    {Run, _} = events([warm(), started(), interval(2300)], run([a@h, b@h])),
    {Left, Effects} = event({left, b@h, 1_400_000_000, "node b@h left"}, 9500, Run),
    ?assertEqual([], Effects),
    ?assertEqual([~"node_left"], warnings(Left)),
    ?assertMatch(#{readings := [#{node := b@h}]}, Left),
    {Ended, Last} = events([finished(), ended()], Left),
    ?assertEqual({stop, complete}, lists:last(Last)),
    Recorded = recorded(complete, Ended),
    ?assertMatch([#{name := a@h}, #{name := b@h, left_ms := 1400}], map_get(nodes, Recorded)),
    ?assertMatch(
        [#{text := {text, <<"node b@h left: it was last seen after 1.4 s;", _/binary>>}}],
        map_get(warnings, Recorded)
    ),
    %% A silent node is noticed late: it counts until its last sample.
    {_, [{seen, b@h, 1403} | _]} = event({sample, {sampler, b@h}, 1400, #{}, 1}, 1700, Run).

%% The others go on, and the run says what it has not.
goes_on_without_an_instrument(_Config) ->
    {Run, _} = events([warm(), started()], run([a@h, b@h])),
    Without = {without, b@h, [dyno_agent_calls, dyno_agent_processes], killed},
    {Next, []} = event(Without, 300, Run),
    ?assertEqual([~"instrument"], warnings(Next)),
    {_, Last} = events([finished(), ended()], Next),
    ?assertEqual({stop, complete}, lists:last(Last)).

target_joins(_Config) ->
    Joins = fun(AtMs) ->
        [{AtMs, {joined, T}} || T <- [{b@h, default}, {c@h, [{m, '_', '_'}]}]]
    end,
    {Early, Effects} = events(Joins(50), run([a@h])),
    ?assertMatch(
        [{attach, {b@h, _}, undefined, _}, {attach, {c@h, [_]}, undefined, _}], Effects
    ),
    ?assertMatch(
        [#{name := a@h} = A, #{name := b@h}, #{name := c@h}] when not is_map_key(joined_ms, A),
        map_get(nodes, recorded(partial, Early))
    ),
    {Run, _} = events([warm(), started()], run([a@h])),
    {Late, _} = events(Joins(900), Run),
    ?assertMatch(
        [#{name := a@h}, #{joined_ms := 700}, #{joined_ms := 700}],
        map_get(nodes, recorded(partial, Late))
    ),
    {Refused, []} = dyno_test_run:event({not_attached, "it is gone"}, 900, Run),
    ?assertEqual([~"node_joined"], warnings(Refused)).

targets_cannot_be_named(_Config) ->
    {Run, []} = event({not_joined, ~"m:targets/1 raised error: oops"}, 900, run([a@h])),
    ?assertEqual([~"targets"], warnings(Run)).

%% That it went down is the next message; until then the load waits.
target_goes_while_the_instruments_restart(_Config) ->
    {Run, [restart]} = dyno_test_run:event({load, warm}, 100, run([a@h])),
    ?assertMatch({_, []}, dyno_test_run:event({restarted, gone}, 100, Run)).

load_fails(_Config) ->
    Suite = {dyno_test_callbacks, {bad_return, {m, operation, 1}, oops, "{ok, WorkerState}"}},
    Lost = {dyno_load, {no_node_left, a@h}},
    Died = {dyno_test_baseline_run, {load_died, oops}},
    [
        begin
            {Run, _} = events(Before, run([a@h])),
            {Failed, Effects} = event({load, {failed, Error}}, 500, Run),
            [{stop, Outcome} | Then] = Effects,
            ?assertEqual(Reads, names(Then)),
            case Error of
                Suite -> ?assertEqual({misuse, Suite}, Outcome);
                Lost -> ?assertMatch({failed, ~"load", <<"load node a@h", _/binary>>}, Outcome);
                Died -> ?assertEqual({failed, ~"load", ~"the load generator died: oops"}, Outcome)
            end,
            ?assertMatch(#{status := failed}, recorded(Outcome, Failed))
        end
     || {Before, Reads} <- [{[], []}, {[warm(), started()], [finish, read, load_result]}],
        Error <- [Suite, Lost, Died]
    ].

saves_every_five_seconds(_Config) ->
    Times = lists:seq(1000, 21_000, 1000),
    {_, Effects} = events([warm(), started() | [interval(T) || T <- Times]], run([a@h])),
    Saved = [Recorded || {save, {Recorded, []}} <- Effects],
    ?assertEqual(
        [{partial, T * 1_000_000} || T <- [4800, 9800, 14_800, 19_800]],
        [{Status, Ns} || #{status := Status, duration_ns := Ns} <- Saved]
    ).

reads_targets_that_may_leave(_Config) ->
    Times = [{T, {load, {interval, unknown}}} || T <- lists:seq(500, 4500, 500)],
    Peeks = fun(Nodes) ->
        {_, Effects} = events([warm(), started() | Times], run(Nodes)),
        length([peek || peek <- Effects])
    end,
    ?assertEqual(2, Peeks([a@h, b@h])).

samples_of_the_warm_up_are_dropped(_Config) ->
    Sample = fun(AtMs) -> {AtMs, {sample, {sampler, a@h}, AtMs, #{~"vm.processes" => 1}, 1}} end,
    Other = {800, {sample, {sampler, z@h}, 800, #{~"vm.processes" => 1}, 1}},
    {Run, _} = events([Sample(50), warm(), Sample(150), started(), Sample(700), Other], run([a@h])),
    ?assertMatch(
        [[703]], [
            Times
         || #{name := ~"vm.processes", times_ms := Times} <-
                map_get(series, recorded(partial, Run))
        ]
    ).

%% The run queue of a load that has ended is empty: 66 and 66 are not 44 on average.
samples_after_the_load_are_dropped(_Config) ->
    Sample = fun(AtMs, N) ->
        {AtMs, {sample, {sampler, a@h}, AtMs - 203, #{~"vm.processes" => N}, 1}}
    end,
    Ending = {1150, {load, {ending, 1_200_000_000}}},
    Values = fun(Events) ->
        {Run, Effects} = events([warm(), started() | Events], run([a@h])),
        Recorded = recorded(complete, Run),
        {
            [V || #{name := ~"vm.processes", values := V} <- map_get(series, Recorded)],
            [Name || last_look = Name <- names(Effects)]
        }
    end,
    ?assertEqual(
        {[[66, 67]], [last_look]},
        Values([Sample(700, 66), Ending, Sample(1200, 67), Sample(1201, 0), finished()])
    ),
    %% Of a source that does not tell before.
    ?assertEqual({[[66]], []}, Values([Sample(700, 66), finished(), Sample(1210, 0)])),
    %% Of a load that ended before there was any sample the first one is better than none.
    Early = {230, {load, {ending, 220_000_000}}},
    ?assertEqual(
        {[[5]], [last_look]}, Values([Early, Sample(240, 5), Sample(250, 0), finished()])
    ),
    %% What is interrupted shows all.
    ?assertEqual({[[66, 67]], []}, Values([Sample(700, 66), {800, finish}, Sample(900, 67)])).

nothing_was_measured(_Config) ->
    {Run, _} = events([warm(), started(), finished()], run([])),
    None = dyno_load_recorder:empty(),
    Load = fun(Total, Errors) ->
        #{total => Total, errors => Errors, under_way => 2, duration_ns => 300_000_000}
    end,
    [
        begin
            {Ended, [{stop, complete}]} = dyno_test_run:event({load, {ended, Result}}, 1300, Run),
            {failed, ~"no_operations", Text} = dyno_test_run:judge(Ended),
            ?assertNotEqual(nomatch, binary:match(Text, Part), Text)
        end
     || {Result, Part} <- [
            {Load(None, []), ~"had not returned after 300 ms;"}
        ]
    ].

information_for_the_tear_down(_Config) ->
    ?assertEqual(none, dyno_test_run:run_info(run([]))),
    {Run, []} = event({load, {run_info, 7}}, 300, run([])),
    ?assertEqual({info, 7}, dyno_test_run:run_info(Run)),
    {Warned, []} = event({load, {warning, {~"early_end", ~"it ended"}}}, 300, Run),
    ?assertEqual([~"early_end"], warnings(Warned)),
    Metric = #{
        name => ~"load.start_time",
        title => ~"S",
        value => 1,
        unit => ~"ns",
        count => 1,
        group => ~"load"
    },
    {Measured, []} = event({load, {metrics, [Metric]}}, 300, Warned),
    ?assert(lists:member(Metric, map_get(metrics, recorded(partial, Measured)))).

%% Whatever happens, in whatever order: a run ends at most once; the
%% instruments are read once at most, also after an end within the measured part; the load is only
%% told to measure when the instruments have been restarted; and what is recorded is a recording.
whatever_happens(_Config) ->
    dyno_property:holds(
        ?FORALL(
            {Nodes, Events},
            {proper_types:oneof([[], [a@h], [a@h, b@h]]), proper_types:list(any_event())},
            begin
                {Run, Effects} = until_stop(lists:enumerate(0, 300, Events), run(Nodes), []),
                ?WHENFAIL(ct:pal("~tp", [Effects]), is_sound(Effects, Run))
            end
        ),
        1000
    ).

any_event() ->
    proper_types:frequency([
        {3, {load, warm}},
        {5, {load, started}},
        {5, element(2, interval(1000))},
        {1, {load, {interval, unknown}}},
        {1, {load, {ending, 1_100_000_000}}},
        {1, {load, {finished, 1_000_000_000}}},
        {1, {load, {ended, none}}},
        {1, {load, {failed, {dyno_load, {no_node_left, a@h}}}}},
        {1, {load, {warning, {~"early_end", ~"it ended"}}}},
        {3, {sample, {sampler, a@h}, 500, #{~"vm.processes" => 7}, 12}},
        {1, {left, b@h, 300_000_000, "node b@h left"}},
        {2, joined},
        {1, {not_joined, ~"m:targets/1 raised error: oops"}},
        {1, finish}
    ]).

until_stop([], Run, Effects) ->
    {Run, Effects};
until_stop([{AtMs, Event} | Rest], Run, Effects) ->
    {Next, More} = event(with_a_node(AtMs, Event), AtMs, Run),
    case [stop || {stop, _} <- More] of
        [] when Event =/= finish -> until_stop(Rest, Next, Effects ++ More);
        _ -> {Next, Effects ++ More}
    end.

%% Each node is told of once.
with_a_node(AtMs, joined) ->
    {joined, {list_to_atom(lists:concat(["n", AtMs, "@h"])), default}};
with_a_node(_AtMs, Event) ->
    Event.

is_sound(Effects, Run) ->
    Names = names(Effects),
    Stops = [Outcome || {stop, Outcome} <- Names],
    Status =
        case Stops of
            [] -> partial;
            [Outcome] -> Outcome
        end,
    Empty = dyno_recording:new(test, ~"whatever", #{}, #{}),
    Recorded = dyno_recording:add_run(Empty, recorded(Status, Run)),
    Count = fun(Is) -> length(lists:filter(Is, Effects)) end,
    Reads = Count(fun(Effect) -> Effect =:= read end),
    Restarts = Count(fun(Effect) -> Effect =:= restart end),
    Then = lists:dropwhile(
        fun(Effect) -> not is_tuple(Effect) orelse element(1, Effect) =/= stop end, Effects
    ),
    length(Stops) =< 1 andalso
        names(Then) -- [finish, read, load_result] =:= [{stop, Of} || Of <- Stops] andalso
        Reads =< 1 + Count(fun(Effect) -> Effect =:= close end) andalso
        Restarts =:= Count(fun(Effect) -> Effect =:= measure end) andalso
        element(1, dyno_recording:validate(Recorded)) =:= ok.
