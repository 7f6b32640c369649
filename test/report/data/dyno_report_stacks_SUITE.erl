%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_report_stacks_SUITE).
-moduledoc "Stacks as speedscope, pprof and callgrind read them, read back here; and as trees of calls.".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

suite() -> [{timetrap, {minutes, 1}}].

all() -> [speedscope, pprof, callgrind, down, up, endings].

speedscope(_Config) ->
    #{~"shared" := #{~"frames" := Frames}, ~"profiles" := [Time, Size]} =
        json:decode(rendered(speedscope)),
    ?assertMatch(#{~"unit" := ~"nanoseconds", ~"endValue" := 1300}, Time),
    ?assertMatch(#{~"unit" := ~"bytes"}, Size),
    Names = [Name || #{~"name" := Name} <- Frames],
    #{~"samples" := Samples, ~"weights" := Weights} = Time,
    ?assertEqual(
        [
            {[~"shop", ~"a:f/1", ~"b:g/2"], 1000},
            {[~"shop", ~"a:f/1"], 200},
            {[~"other", ~"a:f/1", ~"b:g/2", ~"a:f/1"], 100}
        ],
        lists:zip([[lists:nth(N + 1, Names) || N <- Stack] || Stack <- Samples], Weights)
    ).

%% The innermost function comes first, and all is numbers of strings.
pprof(_Config) ->
    Fields = fields(zlib:gunzip(rendered(pprof))),
    Strings = [Text || {6, Text} <- Fields],
    ?assertEqual(~"", hd(Strings)),
    Text = fun(N) -> lists:nth(N + 1, Strings) end,
    Names =
        #{
            Id => Text(Name)
         || {5, Function} <- Fields, #{1 := Id, 2 := Name} <- [maps:from_list(fields(Function))]
        },
    Types = [
        {Text(Type), Text(Unit)}
     || {1, Of} <- Fields, #{1 := Type, 2 := Unit} <- [maps:from_list(fields(Of))]
    ],
    ?assertEqual([{~"time", ~"nanoseconds"}, {~"size", ~"bytes"}], Types),
    Functions =
        #{
            Id => map_get(Function, Names)
         || {4, Location} <- Fields,
            #{1 := Id, 4 := Line} <- [maps:from_list(fields(Location))],
            {1, Function} <- fields(Line)
        },
    Samples = [
        {[map_get(Id, Functions) || Id <- varints(Ids)], varints(Values)}
     || {2, Sample} <- Fields, #{1 := Ids, 2 := Values} <- [maps:from_list(fields(Sample))]
    ],
    ?assertEqual(
        [
            {[~"b:g/2", ~"a:f/1"], [1000, 0]},
            {[~"a:f/1"], [200, 70_000]},
            {[~"a:f/1", ~"b:g/2", ~"a:f/1"], [100, 3]}
        ],
        Samples
    ).

fields(<<>>) ->
    [];
fields(Bytes) ->
    {Key, Rest} = varint(Bytes),
    {Value, Next} =
        case Key band 7 of
            0 ->
                varint(Rest);
            2 ->
                {Size, Tail} = varint(Rest),
                <<Field:Size/binary, After/binary>> = Tail,
                {Field, After}
        end,
    [{Key bsr 3, Value} | fields(Next)].

varints(<<>>) ->
    [];
varints(Bytes) ->
    {Value, Rest} = varint(Bytes),
    [Value | varints(Rest)].

varint(<<0:1, N:7, Rest/binary>>) ->
    {N, Rest};
varint(<<1:1, N:7, More/binary>>) ->
    {High, Rest} = varint(More),
    {High bsl 7 bor N, Rest}.

callgrind(_Config) ->
    Lines = binary:split(rendered(callgrind), ~"\n", [global]),
    ?assert(lists:member(~"events: time size", Lines)),
    %% What a function costs itself is the line below its name.
    Own = own(Lines),
    ?assertEqual(#{~"f/1" => ~"0 300 70003", ~"g/2" => ~"0 1000 0"}, Own),
    %% The module stands once, in the place of the file.
    ?assertMatch([_], [L || L <- Lines, L =:= ~"cfn=g/2"]),
    ?assertMatch([_ | _], [L || L <- Lines, L =:= ~"cfi=b"]).

own([<<"fn=", Name/binary>>, Costs | Rest]) -> (own(Rest))#{Name => Costs};
own([_ | Rest]) -> own(Rest);
own([]) -> #{}.

down(_Config) ->
    ?assertMatch(
        [
            [~"shop", _, _],
            [~" a:f/1", ~"92.3 %", _],
            [~"  b:g/2", ~"76.9 %", _],
            [~"other" | _],
            [~" a:f/1" | _],
            [~"  b:g/2" | _],
            [~"   a:f/1" | _]
        ],
        rows(down, 30)
    ).

%% The heaviest have the lines.
up(_Config) ->
    ?assertMatch(
        [[~"b:g/2", ~"76.9 %", _], [~" a:f/1" | _], [~"  shop" | _]],
        rows(up, 3)
    ).

rows(View, Most) ->
    [#{~"profiles" := [Profile]}] = dyno_recording:runs(document()),
    [#{rows := Rows}] = dyno_report_content_calls:section(Profile, ~"", View, Most, ~"ns"),
    Rows.

endings(_Config) ->
    [
        ?assertEqual({ok, Format}, dyno_report:format_of_file(File))
     || {File, Format} <- [
            {"a/x.speedscope.json", speedscope},
            {"x.json", json},
            {"x.pb.gz", pprof},
            {~"X.PPROF", pprof},
            {"x.callgrind", callgrind}
        ]
    ],
    ?assertMatch({error, _}, dyno_report:format_of_file("x.gz")),
    ?assertMatch({error, _}, dyno_report:format_of_file(".json")).

rendered(Format) ->
    {ok, Report} = dyno_report:render(Format, document(), #{}),
    iolist_to_binary(Report).

document() ->
    New = dyno_recording:new(profile, ~"shop@host", #{}, #{}),
    Profile = dyno_recording_part:profile(
        #{
            name => ~"stacks",
            title => ~"Processor time",
            values => [
                #{name => ~"time", unit => ~"ns"}, #{name => ~"size", unit => ~"B"}
            ]
        },
        [
            {[~"a:f/1", ~"b:g/2"], [1000, 0], #{processes => ~"shop"}},
            {[~"a:f/1"], [200, 70_000], #{processes => ~"shop"}},
            {[~"a:f/1", ~"b:g/2", ~"a:f/1"], [100, 3], #{processes => ~"other"}}
        ]
    ),
    dyno_recording:add_run(New, #{
        status => complete,
        started_at => map_get(~"started_at", New),
        profiles => [Profile]
    }).
