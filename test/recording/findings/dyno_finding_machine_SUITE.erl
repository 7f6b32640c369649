%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_finding_machine_SUITE).
-moduledoc "Who takes the processors of dyno's machine: the system, its load, or other programs.".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

suite() -> [{timetrap, {minutes, 1}}].

all() -> [other_programs, not_known, comparisons].

document(Host, Metrics) -> document(Host, ~"shop@here", Metrics).

document(Host, Node, Metrics) ->
    document(Host, Node, Metrics, [{1, 0.3, 1000}, {2, 0.89, 2000}]).

document(Host, Node, Metrics, Runs) ->
    Series = fun(Name, Value) ->
        #{
            name => Name,
            unit => ~"ratio",
            node => Node,
            times_ms => [0, 1000],
            values => [Value, Value]
        }
    end,
    Run = fun({Id, {Size, User, Throughput}}) ->
        #{
            id => integer_to_binary(Id),
            repetition => Id,
            size => Size,
            status => complete,
            nodes => [#{name => Node, schedulers_online => 2}],
            metrics => [
                #{name => ~"throughput", value => Throughput, unit => ~"1/s"},
                #{name => ~"workers.max", value => Size, unit => ~"count"}
                | Metrics
            ],
            series => [
                Series(~"os.cpu.user", User),
                Series(~"os.cpu.system", 0.1),
                Series(~"os.vm.cpu", 0.4)
            ]
        }
    end,
    Empty = dyno_recording:new(test, ~"a", #{}, #{~"cores" => 2, ~"hostname" => Host}),
    lists:foldl(fun(R, D) -> dyno_recording:add_run(D, Run(R)) end, Empty, lists:enumerate(Runs)).

%% Of two processors the node takes 0.4 and the load 0.2. The kernel's 0.1 may be for packets.
other_programs(_Config) ->
    Cpu = #{name => ~"generator.cpu", value => 0.2, unit => ~"ratio"},
    Document = document(~"here", ~"shop@localhost", [Cpu]),
    ?assertMatch(
        #{1 := Less, 2 := Most} when
            Less < 0.001 andalso abs(Most - 0.59) < 0.001,
        dyno_finding_machine:others(Document)
    ),
    [#{severity := doubt, text := Text}] = dyno_finding_machine:findings(Document),
    ?assertEqual(~"other programs took at least 59 % of the machine's processors at size 2", Text),
    %% What the machine is full of is not the work of the node.
    [#{text := Busy, advice := Advice}] = [
        F
     || #{check := machine_busy} = F <- dyno_finding_over_sizes:findings(Document)
    ],
    ?assertEqual(
        ~"the machine that runs shop is 99 % busy at size 2; other programs take at least 59 %",
        Busy
    ),
    ?assertMatch({0, _}, binary:match(Advice, ~"End the other programs")).

%% On another machine, or with a load that is not dyno's.
not_known(_Config) ->
    Cpu = #{name => ~"generator.cpu", value => 0.2, unit => ~"ratio"},
    [
        begin
            ?assertEqual(#{}, dyno_finding_machine:others(Document)),
            ?assertEqual([], dyno_finding_machine:findings(Document))
        end
     || Document <- [document(~"there", [Cpu]), document(~"here", [])]
    ].

%% A disturbed machine makes neither side slower; the same share on both sides is in both.
comparisons(_Config) ->
    Of = fun(User, Throughputs) ->
        Cpu = #{name => ~"generator.cpu", value => 0.2, unit => ~"ratio"},
        Document = document(~"here", ~"shop@localhost", [Cpu], [{1, User, T} || T <- Throughputs]),
        dyno_recording:put(Document, status, complete)
    end,
    Calm = Of(0.3, [1000, 1010, 990]),
    Disturbed = Of(0.89, [400, 410, 390]),
    {ok, Condition} = dyno_compare_gate:parse("slower > 10%"),
    Judge = fun(Old, New, Runs) ->
        Changes = dyno_compare:changes({Old, New}, #{runs => Runs}),
        Failing = dyno_compare_gate:failing(Condition, Changes),
        Gate = dyno_compare_gate:verdict(Condition, Changes, Failing),
        {map_get(result, Gate), map_get(text, Gate), dyno_compare:warnings(Changes, [])}
    end,
    {unknown, Text, Warnings} = Judge(Calm, Disturbed, apart),
    ?assertMatch(
        {_, _},
        binary:match(Text, ~"other programs took at least 0 % of the processors before and 59 %")
    ),
    ?assertMatch([_], [W || {~"others", W} <- Warnings]),
    ?assertMatch({unknown, _, _}, Judge(Disturbed, Calm, apart)),
    ?assertMatch({fail, _, _}, Judge(Calm, Of(0.3, [400, 410, 390]), apart)),
    ?assertMatch({fail, _, _}, Judge(Of(0.89, [1000, 1010, 990]), Disturbed, apart)),
    %% One code on a machine of which others took 36 to 39 %; and on a free one.
    Same = {[14732, 12158, 13082], [11681, 8248, 9161]},
    Runs = fun(User, Of3) -> {Of(User, element(1, Of3)), Of(User, element(2, Of3))} end,
    Verdict = fun({Old, New}) -> element(1, Judge(Old, New, apart)) end,
    ?assertEqual(unknown, Verdict(Runs(0.69, Same))),
    Slower = {[1000, 1010, 990], [840, 850, 830]},
    ?assertEqual(fail, Verdict(Runs(0.3, Slower))),
    {unknown, Near, _} = Judge(Of(0.69, [1000, 1010, 990]), Of(0.69, [840, 850, 830]), apart),
    ?assertMatch({_, _}, binary:match(Near, ~"but other programs took at least 39 %"), Near),
    %% Runs that were measured in turn met the same programs, but for chance.
    ?assertMatch({fail, _, _}, Judge(Calm, Disturbed, paired)),
    ?assertEqual([], dyno_compare_history:changes([Calm, Calm, Calm, Calm], Disturbed)),
    ?assertMatch(
        [#{verdict := slower} | _],
        dyno_compare_history:changes([Disturbed, Calm, Calm, Calm], Of(0.3, [400, 410, 390]))
    ).
