%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(bench_beside_erlperf).
-moduledoc false.
%% dyno's continuous mode and erlperf's, side by side: how many iterations a second of nothing, and
%% how far what each says of a function of some 20 ns is from a loop written by hand. erlperf is not
%% part of dyno: the program takes one that was built before.

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
    ERLPERF, names a built erlperf: its escript, or the folder of its beam files.
    """.

argument(none) ->
    case os:getenv("ERLPERF", "") of
        "" ->
            {skip,
                "skipped: there is no erlperf here; build one (rebar3 as prod escriptize, in a clone "
                "of it) and name its escript or its ebin folder as argument or in the variable ERLPERF"};
        Path ->
            argument(Path)
    end;
argument(Path) ->
    Folders = [Path, filename:join(Path, "ebin")],
    case [F || F <- Folders, filelib:is_regular(filename:join(F, "erlperf.beam"))] of
        [Folder | _] -> {ok, {folder, Folder}};
        [] -> escript(Path)
    end.

escript(Path) ->
    case filelib:is_regular(Path) andalso escript:extract(Path, []) of
        {ok, Sections} ->
            case proplists:get_value(archive, Sections) of
                Archive when is_binary(Archive) -> {ok, {archive, Archive}};
                _ -> {error, ["there are no modules in ", Path, "; give erlperf's escript"]}
            end;
        _ ->
            {error,
                [
                    "there is no erlperf at ",
                    Path,
                    "; give its escript, or the folder of erlperf.beam"
                ]
            }
    end.

measure(Where, Effort) ->
    ok = load(Where),
    {Rounds, Ms} = settings(Effort),
    Ratios = [empty(Workers, Rounds, Ms) || Workers <- [1, 2]],
    short(Rounds, Ms),
    {Value, Interval} = lists:min(Ratios),
    #{name => "beside_erlperf", value => Value, unit => "times", interval => Interval, least => 4}.

settings(full) -> {15, 200};
settings(quick) -> {1, 20}.

load({folder, Folder}) ->
    true = code:add_pathz(Folder),
    loaded();
load({archive, Archive}) ->
    {ok, Files} = zip:extract(Archive, [memory]),
    lists:foreach(
        fun({Name, Beam}) ->
            Module = list_to_atom(filename:basename(Name, ".beam")),
            {module, Module} = code:load_binary(Module, Name, Beam)
        end,
        [F || {Name, _} = F <- Files, filename:extension(Name) =:= ".beam"]
    ),
    loaded().

loaded() ->
    {module, erlperf} = code:ensure_loaded(erlperf),
    ok.

%% By turns, so that what disturbs the machine disturbs both.
empty(Workers, Rounds, Ms) ->
    Pairs = [
        {dyno(["ok."], Workers, Ms), erlperf(#{runner => "ok."}, Workers, Ms)}
     || _ <- lists:seq(1, Rounds)
    ],
    {Ratio, Interval} = bench_program:median([Ours / Theirs || {Ours, Theirs} <- Pairs], 0.95),
    bench_program:say("workers   ~b", [Workers]),
    bench_program:say("  dyno    ~ts 1/s", [number([O || {O, _} <- Pairs])]),
    bench_program:say("  erlperf ~ts 1/s", [number([T || {_, T} <- Pairs])]),
    bench_program:say("  ratio   ~.2f, ~ts", [
        float(Ratio), bench_program:interval_text(Interval, "times")
    ]),
    {Ratio, Interval}.

number(Values) ->
    bench_program:number(dyno_stats:median(Values)).

%% Iterations a second of all workers.
dyno([Code], Workers, Ms) ->
    Run = bench_comparison:run([Code], #{
        concurrency => Workers,
        mode => {continuous, #{sample_ms => Ms, samples => 3}}
    }),
    [#{~"time_per_call" := Ns}] = bench_comparison:rows(~"codes", Run),
    Workers * 1.0e9 / Ns.

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
            1.0e9 / dyno([Code], 1, Ms),
            compared(Code, Ms),
            by_hand(Ms)
        }
     || _ <- lists:seq(1, Rounds)
    ],
    Of = fun(N) -> dyno_stats:median([element(N, V) || V <- Values]) end,
    bench_program:say("a call    by hand ~.2f ns", [Of(4)]),
    [
        begin
            {Ratio, Interval} = bench_program:median(
                [element(N, V) / element(4, V) || V <- Values], 0.95
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

%% dyno's own way, which takes out what other programs took.
compared(Code, Ms) ->
    Run = bench_comparison:run([Code], #{budget_ms => 3 * Ms}),
    [#{~"time_per_call" := Ns}] = bench_comparison:rows(~"codes", Run),
    Ns.

%% The median of loops in a fresh process, for as long as the others' samples together; what other
%% programs took is taken out.
by_hand(Ms) ->
    Self = self(),
    {_, Monitor} = spawn_opt(fun() ->
        EndMs = erlang:monotonic_time(millisecond) + 3 * Ms,
        Self ! {by_hand, dyno_stats:median(loops(EndMs, []))}
    end, [monitor, {scheduler, 1}]),
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
    Time = own_ns(dyno_clock:difference(Before, dyno_clock:thread())) / 100_000,
    case erlang:monotonic_time(millisecond) >= EndMs of
        true -> [Time | Times];
        false -> loops(EndMs, [Time | Times])
    end.

own_ns(#{wall_ns := Wall, wait_ns := undefined}) -> Wall;
own_ns(#{wall_ns := Wall, wait_ns := Wait}) -> Wall - Wait.

repeat(0, Term) -> Term;
repeat(N, Term) ->
    _ = bench_short_function:repeat(1000, Term, 0),
    repeat(N - 1, Term).
