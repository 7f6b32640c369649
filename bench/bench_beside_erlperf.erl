%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(bench_beside_erlperf).

-behaviour(bench_program).

-export([describe/0, argument/1, measure/2]).

-define(TERM, "{a}").
-define(SHORT, "r(X) -> erlang:phash2(X).").

describe() ->
    """
    How many times as many iterations a second of a code that does nothing dyno bench's continuous
    mode counts as that of erlperf, at one worker and at two; the result is the less of the two. By
    turns, in one VM. Then the time that both report for a call of erlang:phash2/1, some 20
    nanoseconds, by that in a loop of 1,000 calls written by hand. The argument, or else the variable
    ERLPERF, names a built erlperf: the folder of its beam files, which is not part of dyno.
    """.

argument(none) ->
    case os:getenv("ERLPERF", "") of
        "" ->
            {skip,
                "skipped: there is no erlperf here; build one (rebar3 as prod compile, in a clone "
                "of it) and name its ebin folder as argument or in the variable ERLPERF"};
        Path ->
            argument(Path)
    end;
argument(Path) ->
    case filelib:is_regular(filename:join(Path, "erlperf.beam")) of
        true -> {ok, Path};
        false -> {error, ["there is no erlperf at ", Path, "; give the folder of erlperf.beam"]}
    end.

measure(Folder, Effort) ->
    true = code:add_pathz(Folder),
    {module, erlperf} = code:ensure_loaded(erlperf),
    {Rounds, Ms} = settings(Effort),
    Ratios = [empty(Workers, Rounds, Ms) || Workers <- [1, 2]],
    short(Rounds, Ms),
    {Value, Interval} = lists:min(Ratios),
    #{name => "beside_erlperf", value => Value, unit => "times", interval => Interval, least => 4}.

settings(full) -> {15, 200};
settings(quick) -> {1, 20}.

%% By turns, so that what disturbs the machine disturbs both.
empty(Workers, Rounds, Ms) ->
    Pairs = [
        {dyno("ok.", Workers, Ms), erlperf(#{runner => "ok."}, Workers, Ms)}
     || _ <- lists:seq(1, Rounds)
    ],
    Ratio = bench_program:median([Ours / Theirs || {Ours, Theirs} <- Pairs]),
    bench_program:say("workers   ~b", [Workers]),
    bench_program:say("  dyno    ~ts 1/s", [number([O || {O, _} <- Pairs])]),
    bench_program:say("  erlperf ~ts 1/s", [number([T || {_, T} <- Pairs])]),
    bench_program:say("  ratio   ~ts", [bench_program:times(Ratio, none)]),
    Ratio.

number(Values) ->
    bench_program:number(dyno_stats:median(Values)).

%% Iterations a second of all workers.
dyno(Code, Workers, Ms) ->
    Mode = {continuous, #{sample_ms => Ms, samples => 3}},
    Workers * 1.0e9 / bench_comparison:time(Code, #{concurrency => Workers, mode => Mode}).

erlperf(Code, Workers, Ms) ->
    Samples = erlperf:run(Code, #{
        concurrency => Workers, sample_duration => Ms, samples => 3, report => extended
    }),
    1000 * dyno_stats:median(Samples) / Ms.

%% Of a call, by each of the three.
short(Rounds, Ms) ->
    Code = #{runner => ?SHORT, init_runner => ?TERM ++ "."},
    Values = [
        {
            1.0e9 / erlperf(Code, 1, Ms),
            1.0e9 / dyno(Code, 1, Ms),
            %% dyno's own way, which takes out what other programs took.
            bench_comparison:time(Code, #{budget_ms => 3 * Ms}),
            by_hand(Ms)
        }
     || _ <- lists:seq(1, Rounds)
    ],
    Of = fun(N) -> dyno_stats:median([element(N, V) || V <- Values]) end,
    bench_program:say("a call    by hand ~.2f ns", [Of(4)]),
    [
        begin
            {Ratio, Interval} = bench_program:median(
                [element(N, V) / element(4, V) || V <- Values]
            ),
            bench_program:say("  ~ts ~.2f ns, ~.3f times by hand, ~ts", [
                string:pad(Who, 18),
                Of(N),
                float(Ratio),
                bench_program:interval_text(Interval, "times")
            ])
        end
     || {N, Who} <- [{1, "erlperf"}, {2, "dyno, continuous"}, {3, "dyno"}]
    ],
    ok.

%% The median of loops in a fresh process, for as long as the others' samples together; what other
%% programs took is taken out.
by_hand(Ms) ->
    Self = self(),
    {_, Monitor} = spawn_opt(
        fun() ->
            EndMs = erlang:monotonic_time(millisecond) + 3 * Ms,
            Self ! {by_hand, dyno_stats:median(loops(EndMs, []))}
        end,
        [monitor, {scheduler, 1}]
    ),
    receive
        {by_hand, Ns} ->
            true = demonitor(Monitor, [flush]),
            Ns;
        {'DOWN', Monitor, process, _, Reason} ->
            error(Reason)
    end.

loops(EndMs, Times) ->
    Before = dyno_clock:thread(),
    _ = repeat(100, {a}),
    Time = bench_calls:own_ns(dyno_clock:difference(Before, dyno_clock:thread())) / 100_000,
    case erlang:monotonic_time(millisecond) >= EndMs of
        true -> [Time | Times];
        false -> loops(EndMs, [Time | Times])
    end.

repeat(0, Term) ->
    Term;
repeat(N, Term) ->
    _ = bench_short_function:repeat(1000, Term, 0),
    repeat(N - 1, Term).
