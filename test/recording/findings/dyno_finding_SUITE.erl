%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_finding_SUITE).
-moduledoc "Findings in recordings: written, read, ranked, decided, and those of recordings of before.".

-include_lib("common_test/include/ct.hrl").
-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

suite() -> [{timetrap, {minutes, 1}}].

all() ->
    [
        reads_what_was_written,
        warnings_are_findings,
        ranks,
        decides,
        reads_recordings_of_before,
        limits_have_reasons,
        runs_alike
    ].

finding(Severity, Fields) ->
    Given = maps:merge(#{severity => Severity, text => ~"it is slow", advice => ~"Wait."}, Fields),
    dyno_finding:new(queue, queue, Given).

document() -> dyno_recording:new(test, ~"findings", #{}, #{}).

reads_what_was_written(_Config) ->
    Findings = [
        finding(critical, #{subject => ~"db", value => 4000, evidence => ~"At the looks 1, 2."}),
        finding(note, #{look_closer => ~"dyno top"})
    ],
    OfAll = dyno_recording:add_tables(document(), [dyno_finding:table(undefined, Findings)]),
    ?assertEqual([{null, F} || F <- Findings], dyno_finding:read(OfAll)),
    Run = #{
        status => complete,
        nodes => [#{name => 'shop@host'}],
        tables => [dyno_finding:table('shop@host', Findings)]
    },
    [Added] = dyno_recording:runs(dyno_recording:add_run(document(), Run)),
    ?assertEqual([{~"shop", F} || F <- Findings], dyno_finding:read(Added)),
    [#{beyond := 4.0, limit := 1000, why := <<_, _/binary>>}, #{beyond := 1}] = Findings.

%% With all that is known of them; a code and a text are a doubt.
warnings_are_findings(_Config) ->
    Doubt = finding(doubt, #{value => 2000, subject => ~"times"}),
    Document = dyno_recording:add_warnings(document(), [
        dyno_finding:note(Doubt), {noisy, ~"the machine was busy"}, {modules_left, ~"left"}
    ]),
    {ok, _} = dyno_recording:validate(Document),
    [{null, First}, {null, Second}, {null, Third}] = dyno_finding:read(Document),
    ?assertEqual(maps:without([beyond], Doubt), maps:without([beyond], First)),
    ?assertMatch(#{severity := doubt, text := ~"the machine was busy", limit := undefined}, Second),
    ?assertMatch(#{severity := note, check := modules_left}, Third).

ranks(_Config) ->
    Ordered = dyno_finding:in_order([finding(warning, #{value => V}) || V <- [1500, 9000, 3000]]),
    Others = [finding(S, #{value => 8000}) || S <- [note, doubt, critical]],
    ?assertEqual(
        [
            {critical, 8000},
            {warning, 1500},
            {warning, 9000},
            {warning, 3000},
            {doubt, 8000},
            {note, 8000}
        ],
        [
            {Severity, Value}
         || #{severity := Severity, value := Value} <- dyno_finding:ranked(Others ++ Ordered)
        ]
    ).

%% Only what is critical fails, whoever asks.
decides(_Config) ->
    Result = fun(Findings) ->
        #{result := Result, text := Text} = dyno_finding:verdict(~"queues", Findings, #{}),
        {Result, Text}
    end,
    ?assertEqual({pass, ~"nothing found"}, Result([])),
    ?assertEqual({pass, ~"it is slow"}, Result([finding(S, #{}) || S <- [note, doubt, warning]])),
    ?assertEqual(
        {fail, ~"it is lost"},
        Result([finding(warning, #{}), finding(critical, #{text => ~"it is lost"})])
    ).

%% Sentences of the tables `saturation` and `server_findings`.
reads_recordings_of_before(_Config) ->
    Read = fun(Name) ->
        {ok, Document} = dyno_recording_file:read(dyno_project:data(?MODULE, Name)),
        {ok, Report} = dyno_report:render(console, Document, #{full => false}),
        Text = re:replace(iolist_to_binary(Report), ~"\\s+", ~" ", [global, {return, binary}]),
        {Document, Text}
    end,
    {Test, TestText} = Read("test_of_before.json"),
    ?assertMatch(
        [
            {null, #{
                severity := warning, text := <<"With 4 clients throughput is 4452 /s", _/binary>>
            }},
            {null, #{text := <<"With 4 clients responses take 3.8 times", _/binary>>}},
            {null, #{text := <<"The machine that runs pool is already", _/binary>>}}
        ],
        dyno_finding:read(Test)
    ),
    ?assertNotEqual(nomatch, string:find(TestText, "Findings WARNING With 4 clients throughput")),
    {Servers, ServersText} = Read("servers_of_before.json"),
    [Run] = dyno_recording:runs(Servers),
    ?assertMatch([_, _], [F || {null, #{severity := note} = F} <- dyno_finding:read(Run)]),
    ?assertNotEqual(nomatch, string:find(ServersText, "NOTE log_events: 53.5 k/s come")).

limits_have_reasons(_Config) ->
    Names = [Name || {Name, _, _, _} <- dyno_finding_limits:all()],
    ?assertEqual(lists:usort(Names), lists:sort(Names)),
    [
        begin
            ?assert(is_number(Limit), Name),
            ?assertMatch({match, _}, re:run(Why, "^[A-Z].+\\.$", [dotall]), Name)
        end
     || {Name, Limit, _Unit, Why} <- dyno_finding_limits:all()
    ].

%% The same doubt of several sizes is one.
runs_alike(_Config) ->
    Document = lists:foldl(
        fun(Size, Acc) ->
            dyno_recording:add_run(Acc, #{
                id => integer_to_binary(Size),
                size => Size,
                status => complete,
                warnings => [
                    #{code => few, text => <<"few at ", (integer_to_binary(Size))/binary>>}
                ]
            })
        end,
        document(),
        [1, 2, 4]
    ),
    ?assertMatch(
        [#{text := ~"at size 4 (and much the same at 1, 2): few at 4", severity := doubt}],
        dyno_report_findings:shown(Document)
    ).
