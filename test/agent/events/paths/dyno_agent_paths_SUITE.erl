%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_paths_SUITE).
-moduledoc "Calls as a tree: of events whose answer is known, and of programs that are run.".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

%% Each of them waits.
-define(ROUNDS, 60).

suite() -> [{timetrap, {minutes, 2}}].

newest_release_only() ->
    [leaves_out_what_is_not_wanted, leaves_nothing_when_killed, costs_are_measured].

all() -> [{group, pure}, {group, in_a_node}].

groups() ->
    [
        {pure, [parallel], [
            loops_take_no_memory,
            an_exception_lands_at_its_catcher,
            an_error_is_called_by_who_raises_it,
            what_is_not_traced_is_its_callers,
            the_first_calls_show_the_caller,
            nothing_is_counted_in_a_pause,
            the_tree_is_bounded,
            random_programs
        ]},
        {in_a_node, [], [
            counts_each_call,
            only_within_a_function,
            leaves_out_what_is_not_wanted,
            goes_on_after_a_flood,
            leaves_nothing_when_killed,
            costs_are_measured
        ]}
    ].

init_per_suite(Config) -> Config.

end_per_suite(_Config) -> ok.

%% Pure. A program is a list of events of one process, with the time that passes before each.

-define(A, {m, a, 0}).
-define(B, {m, b, 0}).
-define(C, {m, c, 0}).
-define(D, {m, d, 0}).

%% A loop that calls itself last, and two functions that call one another.
loops_take_no_memory(_Config) ->
    Loops = lists:append([
        [{1, call, ?B, ?A}, {1, call, ?B, ?A}, {1, call, ?C, ?A}]
     || _ <- lists:seq(1, 1000)
    ]),
    State = fold([{0, call, ?A, undefined} | Loops]),
    ?assertEqual(
        #{[?A] => {1, 1, 0}, [?A, ?B] => {2000, 2000, 0}, [?A, ?B, ?C] => {1000, 999, 0}},
        shown(State)
    ),
    ?assert(erts_debug:flat_size(State) < 500).

%% d raises, b and c do not catch, a does and goes on.
an_exception_lands_at_its_catcher(_Config) ->
    ?assertEqual(
        #{
            [?A] => {1, 1 + 8, 0},
            [?A, ?B] => {1, 2, 0},
            [?A, ?B, ?C] => {1, 3, 0},
            [?A, ?B, ?C, ?D] => {1, 4, 0}
        },
        folded([
            {0, call, ?A, undefined},
            {1, call, ?B, ?A},
            {2, call, ?C, ?B},
            {3, call, ?D, ?C},
            {4, return_to, ?A},
            {8, return_to, undefined}
        ])
    ).

%% Where erlang:error/1 would return to is whatever comes next in the file.
an_error_is_called_by_who_raises_it(_Config) ->
    Error = {erlang, error, 1},
    ?assertEqual(
        #{[?A] => {1, 1 + 3, 0}, [?A, ?B] => {1, 2, 0}, [?A, ?B, Error] => {1, 1, 0}},
        folded([
            {0, call, ?A, undefined},
            {1, call, ?B, ?A},
            {2, call, Error, ?D},
            {1, return_to, ?A},
            {3, return_to, undefined}
        ])
    ).

%% b is not traced: a calls it, and it calls c, which calls d last.
what_is_not_traced_is_its_callers(_Config) ->
    Round = [{1, call, ?C, ?B}, {2, call, ?D, ?B}, {3, return_to, ?B}],
    ?assertEqual(
        #{[?A] => {1, 1 + 1 + 9, 0}, [?A, ?C] => {2, 4, 0}, [?A, ?C, ?D] => {2, 6, 0}},
        folded([{0, call, ?A, undefined}] ++ Round ++ Round ++ [{9, return_to, undefined}])
    ).

%% The process was in a when it was first seen, and returns from it to b.
the_first_calls_show_the_caller(_Config) ->
    ?assertEqual(
        #{[?A] => {0, 5, 0}, [?A, ?C] => {1, 2, 0}, [?B] => {0, 0, 0}, [?B, ?C] => {1, 1, 0}},
        folded([
            {0, call, ?C, ?A}, {2, return_to, ?A}, {5, call, ?C, ?B}, {1, return_to, ?B}
        ])
    ).

nothing_is_counted_in_a_pause(_Config) ->
    Before = fold([{0, call, ?A, undefined}, {1, call, ?B, ?A}]),
    Paused = dyno_agent_paths:pause(11, Before),
    %% It runs on, returns unseen, and waits.
    Waits = dyno_agent_paths:event({trace_ts, self(), out, ?A, 50}, Paused),
    Runs = dyno_agent_paths:event({trace_ts, self(), in, ?A, 60}, Waits),
    Resumed = dyno_agent_paths:resume(100, #{self() => [?D, ?A]}, Runs),
    %% Told before it was resumed, heard after it.
    Late = dyno_agent_paths:event({trace_ts, self(), in, ?A, 90}, Resumed),
    After = more([{3, call, ?C, ?D}, {5, return_to, ?D}, {7, call, ?C, ?A}], 100, Late),
    ?assertEqual(
        #{
            [?A] => {1, 1, 0},
            [?A, ?B] => {1, 10, 0},
            [?A, ?D] => {0, 3 + 7, 0},
            [?A, ?D, ?C] => {1, 5, 0},
            [?A, ?C] => {1, 0, 0}
        },
        shown(After)
    ).

the_tree_is_bounded(_Config) ->
    Many = [
        Event
     || N <- lists:seq(1, 50), Event <- [{1, call, {m, f, N}, ?A}, {1, return_to, ?A}]
    ],
    State = lists:foldl(
        fun dyno_agent_paths:event/2, new(10), timed([{0, call, ?A, undefined} | Many], 0)
    ),
    Sums = maps:values(shown(State)),
    %% Nothing is lost: it is in the caller.
    ?assertEqual(51, lists:sum([Calls || {Calls, _, _} <- Sums])),
    ?assertEqual(100, lists:sum([Own || {_, Own, _} <- Sums])),
    ?assert(length(Sums) =< 10),
    ?assert(dyno_agent_path_tree:full(dyno_agent_paths:tree(State)) > 0).

%% Programs that call, call last, return, and raise what one of their callers catches: each function
%% has the time and the calls that it had.
random_programs(_Config) ->
    lists:foreach(
        fun(Seed) ->
            _ = rand:seed(exsss, Seed),
            {Events, Own, Calls} = program(300),
            Functions = dyno_agent_path_tree:functions(
                costs(), dyno_agent_paths:tree(fold(Events))
            ),
            Found = #{F => {C, O} || F := {#{calls := C, own := O}, _} <- Functions},
            Truth = #{F => {C, maps:get(F, Own, 0)} || F := C <- Calls},
            ?assertEqual(Truth, Found, {seed, Seed})
        end,
        lists:seq(1, 300)
    ).

program(Steps) ->
    program(Steps, [{?A, undefined}], [{0, call, ?A, undefined}], {#{}, #{?A => 1}}).

program(0, _Stack, Events, {Own, Calls}) ->
    {lists:reverse(Events), Own, Calls};
program(Steps, [{Function, ReturnsTo} | Outer] = Stack, Events, {Own, Calls}) ->
    Passed = rand:uniform(9),
    Next = {m, f, rand:uniform(5)},
    Spent = Own#{Function => Passed + maps:get(Function, Own, 0)},
    Called = Calls#{Next => 1 + maps:get(Next, Calls, 0)},
    case rand:uniform(10) of
        N when N =< 4 ->
            program(
                Steps - 1,
                [{Next, Function} | Stack],
                [{Passed, call, Next, Function} | Events],
                {Spent, Called}
            );
        N when N =< 6 ->
            program(
                Steps - 1,
                [{Next, ReturnsTo} | Outer],
                [{Passed, call, Next, ReturnsTo} | Events],
                {Spent, Called}
            );
        N when N =< 9, Outer =/= [] ->
            program(Steps - 1, Outer, [{Passed, return_to, ReturnsTo} | Events], {Spent, Calls});
        _ when Outer =/= [] ->
            Left = lists:nthtail(rand:uniform(length(Outer)) - 1, Outer),
            {Catcher, _} = hd(Left),
            program(Steps - 1, Left, [{Passed, return_to, Catcher} | Events], {Spent, Calls});
        _ ->
            program(Steps, Stack, Events, {Own, Calls})
    end.

new(Most) ->
    dyno_agent_paths:new(#{
        far => 1000, most => Most, group => fun(_) -> group end, extents => false
    }).

fold(Events) -> more(Events, 0, new(1000)).

more(Events, Since, State) ->
    lists:foldl(fun dyno_agent_paths:event/2, State, timed(Events, Since)).

timed(Events, Since) ->
    {Timed, _} = lists:mapfoldl(
        fun(Event, Now) ->
            [Passed, Kind | What] = tuple_to_list(Event),
            Time = Now + Passed,
            {list_to_tuple([trace_ts, self(), Kind | What] ++ [Time]), Time}
        end,
        Since,
        Events
    ),
    Timed.

folded(Events) -> shown(fold(Events)).

%% Calls, own time, time off.
shown(State) ->
    Ns = fun(Of) -> erlang:convert_time_unit(Of, nanosecond, native) end,
    #{
        Path => {Calls, Ns(Own), Ns(Off)}
     || {group, [_ | _] = Path, #{calls := Calls, own := Own, off := Off}} <-
            dyno_agent_path_tree:paths(
                dyno_agent_path_tree:nodes(costs(), dyno_agent_paths:tree(State))
            )
    }.

costs() -> {0, 0, 0, 0, 0, 0, 0, 0}.

%% Programs that are run

counts_each_call(_Config) ->
    Program = spawn_link(?MODULE, start, [program]),
    Followed = #{processes => [{pid, Program}], short_calls => true},
    Result = profiled(Followed, fun() -> run(Program) end),
    Functions = functions(Result),
    Calls = fun(F, A) ->
        #{{?MODULE, F, A} := #{calls := N}} = Functions,
        N
    end,
    ?assertEqual(
        [?ROUNDS, ?ROUNDS * 11, ?ROUNDS * 10, ?ROUNDS, ?ROUNDS, ?ROUNDS, ?ROUNDS],
        [
            Calls(round_, 0),
            Calls(even, 1),
            Calls(odd, 1),
            Calls(catches, 0),
            Calls(raises, 1),
            Calls(waits, 0),
            Calls(last, 1)
        ]
    ),
    %% It waits for a millisecond each at least, nowhere else.
    #{{?MODULE, waits, 0} := #{off := OffNs, own := OwnNs}} = Functions,
    ?assert(OffNs >= ?ROUNDS * 1_000_000),
    ?assert(OwnNs < OffNs),
    All = dyno_agent_path_tree:paths(map_get(nodes, Result)),
    Paths = [Path || {_, Path, #{calls := ?ROUNDS}} <- All],
    Names = [[F || {?MODULE, F, _} <- Path] || Path <- Paths],
    ?assert(lists:member([program, rounds, round_, catches, far, raises], Names), Names),
    ?assert(lists:member([program, rounds, round_, before_last, last], Names), Names),
    ?assertEqual([], map_get(hidden, Result)).

only_within_a_function(_Config) ->
    Program = spawn_link(?MODULE, start, [program]),
    Result = profiled(
        #{processes => [], inside => {?MODULE, catches, 0}, count => 20, short_calls => true},
        fun() -> run(Program) end
    ),
    ?assertMatch(#{extents := 20, reason := {extents, 20}}, Result),
    Paths = [Path || {_, [_ | _] = Path, _} <- dyno_agent_path_tree:paths(map_get(nodes, Result))],
    ?assertEqual([{?MODULE, catches, 0}], lists:usort([hd(Path) || Path <- Paths])),
    #{{?MODULE, raises, 1} := #{calls := 20}} = functions(Result).

leaves_out_what_is_not_wanted(_Config) ->
    Program = spawn_link(?MODULE, start, [program]),
    Result = profiled(
        #{
            processes => [{pid, Program}],
            short_calls => true,
            without => [{?MODULE, far, 1}, {?MODULE, odd, '_'}]
        },
        fun() -> run(Program) end
    ),
    Functions = functions(Result),
    ?assertNot(is_map_key({?MODULE, far, 1}, Functions)),
    ?assertNot(is_map_key({?MODULE, odd, 1}, Functions)),
    %% odd/1 is not seen to call it last.
    ?assertMatch(#{{?MODULE, even, 1} := #{calls := N}} when N =:= ?ROUNDS * 11, Functions),
    ?assertMatch(#{{?MODULE, raises, 1} := #{calls := ?ROUNDS}}, Functions).

%% Calls that take nothing, as fast as they can be made: tracing goes on, without them. All of them
%% may wait: on a busy machine the tracer may not run for seconds.
goes_on_after_a_flood(_Config) ->
    Pids = [spawn_link(?MODULE, start, [flood]) || _ <- [1, 2]],
    Limits = #{queue => 2_000_000, bytes => 1 bsl 30},
    Result = profiled(
        #{processes => [{pid, Pid} || Pid <- Pids], limits => Limits},
        fun() ->
            [Pid ! {run, self()} || Pid <- Pids],
            [
                receive
                    {ran, Pid} -> ok
                end
             || Pid <- Pids
            ]
        end
    ),
    [exit(Pid, kill) || Pid <- Pids, unlink(Pid)],
    ?assertMatch(#{reason := stopped}, Result),
    Hidden = [MFA || {MFA, _} <- map_get(hidden, Result)],
    ?assert(lists:member({?MODULE, nothing, 1}, Hidden), Hidden).

leaves_nothing_when_killed(_Config) ->
    Program = spawn_link(?MODULE, start, [program]),
    {Owner, Monitor} = spawn_monitor(fun() ->
        {ok, Pid} = dyno_agent_path_profile:start_link(config(#{processes => [{pid, Program}]})),
        ok = dyno_agent_instrument:restart(Pid),
        receive
            never -> ok
        end
    end),
    ok = dyno_leftovers:until(fun() -> is_traced(Program) end),
    true = exit(Owner, kill),
    receive
        {'DOWN', Monitor, _, _, _} -> ok
    end,
    ok = dyno_leftovers:until(fun() -> dyno_leftovers:in(node()) =:= [] end),
    ?assertNot(is_traced(Program)),
    run(Program).

is_traced(Pid) ->
    trace:session_info(Pid) =/= [].

costs_are_measured(_Config) ->
    {Costs, Far} = dyno_agent_path_cost:measure(),
    ?assert(lists:all(fun(Cost) -> Cost > 0 end, tuple_to_list(Costs)), Costs),
    ?assert(Far > element(2, Costs)).

config(Options) ->
    maps:merge(#{sink => self(), without => []}, Options).

profiled(Options, Run) ->
    {ok, Pid} = dyno_agent_path_profile:start_link(config(Options)),
    ok = dyno_agent_instrument:restart(Pid),
    _ = Run(),
    Result = dyno_agent_instrument:read(Pid),
    true = unlink(Pid),
    ok = gen_server:stop(Pid),
    Result.

functions(#{nodes := Nodes}) ->
    lists:foldl(
        fun
            ({_, [_ | _] = Path, Sums}, Acc) ->
                maps:update_with(
                    lists:last(Path),
                    fun(Of) -> maps:merge_with(fun(_, A, B) -> A + B end, Of, Sums) end,
                    Sums,
                    Acc
                );
            (_Root, Acc) ->
                Acc
        end,
        #{},
        dyno_agent_path_tree:paths(Nodes)
    ).

%% The program

run(Program) ->
    Program ! {run, self()},
    receive
        {ran, Program} -> ok
    end.

%% What begins like dyno's own modules would be taken for one of these.
start(Program) ->
    ok = proc_lib:set_label(Program),
    ?MODULE:Program().

program() ->
    receive
        {run, From} ->
            ok = rounds(?ROUNDS),
            From ! {ran, self()},
            program()
    end.

rounds(0) ->
    ok;
rounds(N) ->
    ok = round_(),
    rounds(N - 1).

round_() ->
    true = even(20),
    ok = catches(),
    ok = waits(),
    done = before_last(),
    ok.

even(0) -> true;
even(N) -> odd(N - 1).

odd(0) -> false;
odd(N) -> even(N - 1).

catches() ->
    try far(1) of
        _ -> error
    catch
        throw:1 -> ok
    end.

far(N) -> [raises(N) | N].

raises(N) -> throw(N).

waits() ->
    receive
        never -> ok
    after 1 -> ok
    end.

before_last() -> last(done).

last(Done) -> Done.

flood() ->
    receive
        {run, From} ->
            ok = floods(400_000),
            From ! {ran, self()},
            flood()
    end.

floods(0) ->
    ok;
floods(N) ->
    _ = nothing(1),
    floods(N - 1).

-compile({no_inline, [nothing/1]}).
nothing(N) -> N.
