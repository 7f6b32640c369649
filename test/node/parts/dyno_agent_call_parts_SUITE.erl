%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_call_parts_SUITE).
-moduledoc "What the tables of functions say of times and calls that are uncertain; the warnings.".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

suite() -> [{timetrap, {minutes, 1}}].

newest_release_only() -> all.

all() ->
    [
        within_a_budget,
        not_counted,
        at_least,
        called_and_never_counted,
        all_nodes_together,
        each_call_timed,
        mostly_instrument,
        shares_hold_the_others,
        shares_of_few_samples,
        counts_only,
        warns_of_what_cannot_be_told,
        warns_of_a_budget,
        warns_of_waiting,
        warns_of_modules_once
    ].

%% Times with intervals, and calls that may be estimated.
within_a_budget(_Config) ->
    [Slow, Often] = rows([
        sampled({m, often, 1}, {1000, 900, 1200}, #{
            calls => 2000,
            calls_low => 1000,
            calls_high => 4000,
            counted => estimated,
            time_from => calls
        }),
        sampled({m, slow, 1}, {3000, 2000, 4000}, #{
            calls => 10,
            counted => exact,
            time_from => samples,
            total_time_ns => 5000,
            total_time_low_ns => 4000,
            total_time_high_ns => 6000
        })
    ]),
    ?assertMatch(
        #{
            ~"function" := ~"m:slow/1",
            ~"calls" := 10,
            ~"calls_low" := undefined,
            ~"counted" := ~"exact",
            ~"own_time" := 3000,
            ~"own_time_low" := 2000,
            ~"own_time_high" := 4000,
            ~"time_per_call" := 300.0,
            ~"time_per_call_low" := 200.0,
            ~"time_per_call_high" := 400.0,
            ~"share" := 0.75,
            ~"time_from" := ~"samples"
        },
        Slow
    ),
    %% Of the share, the time of all others stays.
    ?assertEqual({2000 / 3000, 4000 / 5000}, bounds(~"share", Slow)),
    ?assertMatch(
        #{
            ~"calls" := 2000,
            ~"counted" := ~"estimated",
            ~"time_per_call" := 0.5,
            ~"time_from" := ~"calls"
        },
        Often
    ),
    ?assertEqual({1000, 4000}, bounds(~"calls", Often)),
    %% The least time with the most calls.
    ?assertEqual({900 / 4000, 1200 / 1000}, bounds(~"time_per_call", Often)),
    ?assertEqual({4000, 6000}, bounds(~"total_time", Slow)),
    ?assertNot(is_map_key(~"note", Slow)),
    ?assertNot(is_map_key(~"raw_time", Slow)).

bounds(Name, Row) ->
    {map_get(<<Name/binary, "_low">>, Row), map_get(<<Name/binary, "_high">>, Row)}.

not_counted(_Config) ->
    [Row] = rows([sampled({m, hot, 1}, {1000, 900, 1200}, #{counted => no, time_from => samples})]),
    ?assertMatch(
        #{
            ~"calls" := undefined,
            ~"counted" := ~"not counted",
            ~"own_time" := 1000,
            ~"time_per_call" := undefined
        },
        maps:merge(#{~"time_per_call" => undefined}, Row)
    ),
    %% Nor is there a time for a call that may not have been.
    Guessed = #{calls => 5, calls_low => 0, calls_high => 9, counted => estimated},
    [Perhaps] = rows([sampled({m, perhaps, 1}, {1000, 900, 1200}, Guessed)]),
    ?assertNot(is_map_key(~"time_per_call", Perhaps)).

%% The module was loaded again.
at_least(_Config) ->
    [Row] = rows([sampled({m, f, 1}, {10, 5, 20}, #{calls => 7, counted => at_least})]),
    ?assertMatch(#{~"calls" := 7, ~"counted" := ~"at least"}, Row).

%% A loop that was entered before the measurement began: it runs, and nobody calls it.
called_and_never_counted(_Config) ->
    [_, Loop] = rows([
        sampled({m, loop, 1}, {1000, 900, 1200}, #{calls => 0, counted => exact}),
        sampled({m, one, 1}, {2000, 900, 1200}, #{calls => 1, counted => exact})
    ]),
    ?assertMatch(#{~"calls" := 0, ~"own_time" := 1000, ~"time_per_call" := undefined}, Loop).

%% Counted exactly in one node, and estimated or not at all in the other.
all_nodes_together(_Config) ->
    Total = fun(A, B) ->
        #{total := Sum} = Table = functions_table(),
        [Row] = made(Table, Sum([result([A]), result([B])])),
        Row
    end,
    F = fun(More) -> sampled({m, f, 1}, {1000, 900, 1200}, More) end,
    Exact = F(#{calls => 10, counted => exact, time_from => samples}),
    Estimated = F(#{
        calls => 20, calls_low => 15, calls_high => 30, counted => estimated, time_from => calls
    }),
    ?assertMatch(
        #{
            ~"calls" := 30,
            ~"counted" := ~"estimated",
            ~"own_time" := 2000,
            ~"own_time_low" := 1800,
            ~"own_time_high" := 2400,
            ~"time_from" := ~"both"
        },
        Total(Exact, Estimated)
    ),
    ?assertEqual({25, 40}, bounds(~"calls", Total(Exact, Estimated))),
    ?assertMatch(#{~"calls" := 20, ~"counted" := ~"exact"}, Total(Exact, Exact)),
    ?assertMatch(
        #{~"calls" := undefined, ~"counted" := ~"not counted"},
        Total(Exact, F(#{counted => no, time_from => samples}))
    ).

each_call_timed(_Config) ->
    [Row] = rows([timed({m, f, 1}, 100, {5000, 1000, 50})]),
    ?assertMatch(
        #{~"own_time" := 4000, ~"raw_time" := 5000, ~"time_per_call" := 40.0, ~"share" := 1.0},
        Row
    ),
    ?assertEqual({3950, 4050}, bounds(~"own_time", Row)),
    ?assertEqual({39.5, 40.5}, bounds(~"time_per_call", Row)),
    [?assertNot(is_map_key(Name, Row)) || Name <- [~"counted", ~"time_from", ~"note"]].

%% More of its time is the instrument's than its own: that may be anything from none to all of it.
mostly_instrument(_Config) ->
    [Long, Tiny] = rows([
        timed({m, tiny, 1}, 100, {5000, 4000, 50}), timed({m, long, 1}, 100, {5000, 2000, 50})
    ]),
    ?assertMatch(#{~"note" := undefined}, Long),
    ?assertMatch(#{~"own_time" := 1000, ~"note" := ~"below what can be told"}, Tiny),
    ?assertEqual({0, 5050}, bounds(~"own_time", Tiny)),
    ?assertEqual({0.0, 50.5}, bounds(~"time_per_call", Tiny)).

%% Four functions are below what can be told: the fifth may have nearly all of the time, or none.
shares_hold_the_others(_Config) ->
    Below = [timed({m, tiny, N}, 100, {20_000, 18_000, 50}) || N <- [1, 2, 3, 4]],
    Rows = rows([timed({m, told, 1}, 100, {1000, 300, 100}) | Below]),
    [Told] = [Row || #{~"function" := ~"m:told/1"} = Row <- Rows],
    ?assertEqual({600, 800}, bounds(~"own_time", Told)),
    ?assertEqual({600 / (600 + 4 * 20_050), 1.0}, bounds(~"share", Told)).

%% Three samples, all of one of two functions: the other may have half of the time.
shares_of_few_samples(_Config) ->
    F = fun(Name, Samples, Times) ->
        sampled({m, Name, 1}, Times, #{
            counted => no, own_samples => Samples, time_from => samples
        })
    end,
    [Hot, Cold] = rows([F(hot, 3, {13, 4, 57}), F(cold, 0, {0, 0, 43})]),
    {Low, High} = bounds(~"share", Hot),
    ?assert(Low > 0.4 andalso Low < 0.5),
    ?assertEqual(1.0, High),
    {+0.0, Most} = bounds(~"share", Cold),
    ?assert(Most > 0.5 andalso Most < 0.6),
    %% One function has all of the functions' time, however few samples there are.
    [Only] = rows([F(hot, 3, {13, 4, 57})]),
    ?assertEqual({1.0, 1.0}, bounds(~"share", Only)).

counts_only(_Config) ->
    ?assertEqual(
        [#{~"function" => ~"m:f/1", ~"calls" => 7}], rows([#{mfa => {m, f, 1}, calls => 7}])
    ).

warns_of_what_cannot_be_told(_Config) ->
    Told = timed({m, long, 1}, 100, {100_000, 20_000, 50}),
    Tiny = timed({m, tiny, 1}, 100, {20_000, 18_000, 50}),
    ?assertEqual([], warnings(#{functions => [Told]})),
    %% What is not timed is in its callers' time, and must not vanish.
    Budget = #{share => 0.05, spent => 0.01, left_out => [{m, hot, 1}, {m, long, 1}]},
    OfCalls = Told#{time_from => calls},
    [{~"left_out", Hidden}] = warnings(#{functions => [OfCalls], budget => Budget}),
    ?assertMatch(<<"the time of m:hot/1 in shop is in that of the callers", _/binary>>, Hidden),
    ?assertEqual(
        [], warnings(#{functions => [OfCalls], budget => Budget#{left_out := [{m, long, 1}]}})
    ),
    %% Samples meet it where it is.
    OfSamples = Told#{time_from => samples},
    ?assertEqual([], warnings(#{functions => [OfSamples], budget => Budget})),
    [{~"nothing_called", Nothing}] = warnings(#{functions => [], measured_functions => 3}),
    ?assertMatch(<<"none of the 3 functions", _/binary>>, Nothing),
    ?assertEqual([], warnings(#{functions => [], measured_functions => 0})),
    %% Of a time that matters to nobody the row says enough.
    Less = timed({m, less, 1}, 100, {5000, 4000, 50}),
    ?assertEqual([], warnings(#{functions => [Told, Less]})),
    [{~"instrument_times", One}] = warnings(#{functions => [Told, Tiny]}),
    ?assertEqual(
        <<
            "the own time of m:tiny/1 in shop is below what can be told: measuring each call added "
            "more to it than is left"
        >>,
        One
    ),
    [{_, Two}] = warnings(#{functions => [Told, Less, Tiny]}),
    ?assertMatch({_, _}, binary:match(Two, ~"of m:tiny/1 and of another function in shop")),
    %% What is left may be off as well.
    [{~"cut_times", Cut}] = warnings(#{functions => [timed({m, f, 1}, 10, {5000, 1000, 1000})]}),
    ?assertMatch({0, _}, binary:match(Cut, ~"own times of shop may be off by 1 us of 4 us: each")),
    [_, {~"cut_times", Other}] = warnings(#{
        functions => [Tiny, timed({m, f, 1}, 10, {5000, 1000, 1000})]
    }),
    ?assertMatch({0, _}, binary:match(Other, ~"other own times of shop may be off by 1 us of")).

warns_of_a_budget(_Config) ->
    Budget = fun(Spent) ->
        warnings(#{
            functions => [],
            budget => budget(Spent)
        })
    end,
    ?assertEqual([], Budget(0.07)),
    ?assertEqual(
        [
            {~"over_budget", <<
                "measuring functions took some 9 % of the processor time of shop; the budget was "
                "5 %"
            >>}
        ],
        Budget(0.09)
    ),
    [Spent] = [V || #{name := ~"instrument.spent", value := V} <- dyno_agent_call_parts:metrics()],
    Of = fun(S) -> #{budget => #{spent => S}} end,
    ?assertEqual({0.04, 2}, Spent([Of(0.02), Of(0.04)])),
    ?assertEqual(none, Spent([result([])])),
    %% Times of a node in which ten thousand processes are born in the time that reading takes.
    ?assertMatch([{~"times_missing", _}], warnings(#{off_by => 0.2})),
    ?assertEqual([], warnings(#{off_by => 0.02})).

%% The clock goes on while another program has the processor.
warns_of_waiting(_Config) ->
    Of = fun(ProcessorNs) ->
        Result = (result([timed({m, f, 1}, 10, {10_000, 1000, 10})]))#{processor_ns => ProcessorNs},
        [element(1, Warning) || Warning <- dyno_agent_call_parts:warnings(~"target", Result)]
    end,
    ?assertEqual([], Of(9000)),
    ?assertEqual([~"waited_times"], Of(5000)).

%% Made-up results

budget(Spent) ->
    #{share => 0.05, spent => Spent, left_out => []}.

sampled(MFA, {Ns, LowNs, HighNs}, More) ->
    More#{mfa => MFA, own_time_ns => Ns, own_time_low_ns => LowNs, own_time_high_ns => HighNs}.

%% A release upgrade loads hundreds.
warns_of_modules_once(_Config) ->
    ?assertEqual([], warnings(#{})),
    [{~"reloaded", One}] = warnings(#{reloaded => ['Elixir.Shop']}),
    ?assertMatch(<<"Shop of shop was loaded again", _/binary>>, One),
    Modules = [list_to_atom("m" ++ integer_to_list(N)) || N <- lists:seq(1, 9)],
    [{~"reloaded", Many}] = warnings(#{reloaded => lists:reverse(Modules)}),
    ?assertMatch(<<"each of m1, m2, m3 and 6 more of shop was loaded again", _/binary>>, Many).

timed(MFA, Calls, {RawNs, InstrumentNs, OffNs}) ->
    #{
        mfa => MFA,
        calls => Calls,
        raw_time_ns => RawNs,
        own_time_ns => RawNs - InstrumentNs,
        uncertain_ns => OffNs,
        overhead_ns => InstrumentNs / Calls
    }.

result(Functions) ->
    #{
        functions => Functions,
        callers => [],
        measured_functions => length(Functions),
        reloaded => [],
        off_by => 0.0,
        timed => 1.0,
        least_overhead_ns => 50.0
    }.

functions_table() ->
    [Table] = [T || #{name := ~"functions"} = T <- dyno_agent_call_parts:tables()],
    Table.

rows(Functions) ->
    #{items := Items} = Table = functions_table(),
    made(Table, Items(result(Functions))).

made(Table, Items) ->
    #{columns := Columns, rows := Rows} = dyno_recording_table:make(Table, Items),
    Names = [Name || #{name := Name} <- Columns],
    [maps:from_list(lists:zip(Names, Row)) || Row <- Rows].

warnings(More) ->
    [
        {Code,
            dyno_recording_part:text(Format, [
                case Argument of
                    {Value, Unit} -> dyno_unit:format(Value, Unit);
                    _ -> Argument
                end
             || Argument <- Arguments
            ])}
     || Warning <- dyno_agent_call_parts:warnings(~"shop", maps:merge(result([]), More)),
        [Code, Format, Arguments | _Advice] <- [tuple_to_list(Warning)]
    ].
