%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_finding_growth_SUITE).
-moduledoc "Memory and processes that grow during a run of constant load, also at a single size.".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

suite() -> [{timetrap, {minutes, 1}}].

newest_release_only() -> all.

all() -> [processes, memory, what_does_not_go_on, changing_loads, the_fastest_run].

-define(CLOSED, #{model => closed}).

processes(_Config) ->
    Leak = series(~"vm.processes", [60 + 300 * N || N <- lists:seq(0, 5)]),
    [Finding] = findings(?CLOSED, [run(4, [Leak])]),
    ?assertMatch(
        #{
            check := processes_grow,
            severity := warning,
            subject := ~"shop",
            value := 300.0,
            text :=
                <<
                    "the processes of shop grow by 300 a second at a constant load (size 4), the "
                    "most of orders:init/1"
                >>,
            evidence := ~"From 60 to 1560, more at each of 6 looks."
        },
        Finding
    ).

%% The kind of memory that grows most, and of ETS its table.
memory(_Config) ->
    Total = [100_000_000 + 5_000_000 * N || N <- lists:seq(0, 5)],
    Ets = [1_000_000 + 4_000_000 * N || N <- lists:seq(0, 5)],
    [#{check := memory_grows, severity := note, text := Text}] = findings(?CLOSED, [
        run(4, [series(~"vm.memory.total", Total), series(~"vm.memory.ets", Ets)])
    ]),
    ?assertEqual(
        <<
            "the memory of shop grows by 5 MB a second at a constant load (size 4), the most in "
            "ETS table sessions"
        >>,
        Text
    ).

what_does_not_go_on(_Config) ->
    None = fun(Name, Values) ->
        ?assertEqual([], findings(?CLOSED, [run(4, [series(Name, Values)])]), {Name, Values})
    end,
    %% Too few looks; a step back; a cache that is nearly full; slowly; little in all.
    None(~"vm.processes", [0, 1000, 2000]),
    None(~"vm.processes", [0, 1000, 2000, 1999, 3000]),
    None(~"vm.processes", [0, 1000, 1400, 1500, 1550]),
    None(~"vm.processes", [0, 10, 20, 30, 40]),
    None(~"vm.memory.total", [0, 2_000_000, 4_000_000, 6_000_000]).

%% As with a load that rises, or one whose shape is not known.
changing_loads(_Config) ->
    Runs = [run(4, [series(~"vm.processes", [0, 100, 200, 300, 400])])],
    ?assertMatch([_], findings(#{model => open, rate_per_s => 50}, Runs)),
    [
        ?assertEqual([], findings(Load, Runs), Load)
     || Load <- [
            #{model => none},
            #{model => search},
            #{model => phases},
            #{model => open, rate_per_s => ~"{ramp,1,100}"},
            #{model => open, arrivals => ~"arrivals.csv"}
        ]
    ].

the_fastest_run(_Config) ->
    Leak = fun(PerS) -> [series(~"vm.processes", [PerS * N || N <- lists:seq(0, 4)])] end,
    ?assertMatch(
        [#{value := 900.0}], findings(?CLOSED, [run(1, Leak(100)), run(2, Leak(900)), run(3, [])])
    ).

findings(Load, Runs) ->
    Empty = dyno_recording:new(test, ~"shop_perf", #{load => Load}, #{}),
    dyno_finding_growth:findings(
        lists:foldl(fun(Run, Document) -> dyno_recording:add_run(Document, Run) end, Empty, Runs)
    ).

run(Size, Series) ->
    Table = fun(Name, Key, Value, Row) ->
        #{
            name => Name,
            columns => [
                #{name => Key, type => string, role => key},
                #{name => Value, type => integer, unit => ~"1"}
            ],
            rows => [Row]
        }
    end,
    #{
        id => integer_to_binary(Size),
        size => Size,
        status => complete,
        nodes => [#{name => ~"shop"}],
        series => Series,
        tables => [
            Table(~"processes", ~"group", ~"alive", [~"orders:init/1", 1500]),
            Table(~"ets", ~"table", ~"memory_growth", [~"sessions", 20_000_000])
        ]
    }.

%% The first value is of the warm-up.
series(Name, Values) ->
    #{
        name => Name,
        unit => ~"1",
        node => ~"shop",
        times_ms => [-1000 | [1000 * N || N <- lists:seq(0, length(Values) - 1)]],
        values => [1 bsl 40 | Values]
    }.
