%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_report_weather).
-moduledoc """
A recording of a command that no report has code for: each kind of part once, all with names of
their own.
""".

-export([document/0]).

document() ->
    Start = dyno_recording:new(weather, ~"Lisbon", #{station => ~"Airport"}, #{
        otp => ~"29.1", hostname => ~"barometer"
    }),
    Document = lists:foldl(fun(Day, Acc) -> dyno_recording:add_run(Acc, run(Day)) end, Start, [
        monday, tuesday
    ]),
    Judged = dyno_recording:add_verdicts(Document, [
        #{
            kind => ~"forecast",
            name => ~"it stays dry",
            result => fail,
            run => ~"tuesday",
            subject => ~"rain",
            text => ~"it rained at noon"
        },
        #{
            kind => ~"threshold",
            name => ~"wind.max < 20",
            result => pass,
            run => ~"monday",
            text => ~"the strongest gust was 12.5 m/s",
            threshold => #{
                metric => ~"wind.max", operator => ~"<", limit => 20, unit => ~"m/s", value => 12.5
            }
        }
    ]),
    dyno_recording:put(Judged, status, complete).

run(Day) ->
    #{
        id => Day,
        labels => #{day => Day},
        status => complete,
        nodes => [#{name => ~"tower@lisbon", role => ~"tower"}],
        metrics => [
            #{
                name => ~"wind.max",
                title => ~"Strongest gust",
                group => sky,
                unit => ~"m/s",
                value => 12.5,
                low => 12.0,
                high => 13.0
            }
        ],
        histograms => [
            #{
                name => ~"drops",
                title => ~"Sizes of drops",
                group => sky,
                unit => ~"mm",
                count => 10,
                min => 1,
                max => 4,
                buckets => [[1, 2, 7], [2, 4, 3]]
            }
        ],
        series => [
            #{
                name => ~"pressure",
                title => ~"Air pressure",
                group => sky,
                unit => ~"hPa",
                node => ~"tower",
                times_ms => [0, 1000, 2000, 3000],
                values => [1013, null, 1011, 1009]
            }
        ],
        tables => [clouds()],
        events => #{
            dropped => 2,
            items => [
                #{
                    time_ms => 1500,
                    node => ~"tower",
                    process => ~"<0.99.0>",
                    kind => ~"lightning",
                    text => ~"a flash over the river"
                }
            ]
        },
        profiles => [
            #{
                name => ~"heat",
                title => ~"Where the heat goes",
                labels => #{street => ~"Rua Augusta"},
                values => [#{name => ~"warmth", unit => ~"J"}, #{name => ~"dust", unit => ~"mg"}],
                frames => [~"sun:shine/1", ~"roof:glow/2", ~"air:rise/0"],
                samples => [
                    #{stack => [0, 1], values => [30, 7]},
                    #{stack => [0, 2], values => [10, 0]},
                    #{stack => [0], values => [60, 5]}
                ]
            }
        ]
    }.

clouds() ->
    dyno_recording_table:make(
        #{
            name => ~"clouds",
            title => ~"Clouds",
            sort => {~"height", descending},
            columns => [
                {~"height", ~"Height", {integer, ~"m"}, #{better => higher}, fun({_, H, _, _}) ->
                    H
                end},
                {~"lowest", ~"Lowest", {integer, ~"m"}, #{role => low, 'of' => ~"height"}, fun(
                    {_, H, _, _}
                ) ->
                    H - 50
                end},
                {~"highest", ~"Highest", {integer, ~"m"}, #{role => high, 'of' => ~"height"}, fun(
                    {_, H, _, _}
                ) ->
                    H + 50
                end},
                {~"name", ~"Kind of cloud", string, #{role => key}, fun({Name, _, _, _}) -> Name end},
                {~"mood", ~"Mood", string, #{role => note}, fun({_, _, Mood, _}) -> Mood end},
                {~"amount", ~"Amount", number, fun({_, _, _, {Amount, _}}) -> Amount end},
                {~"unit", ~"Unit", string, #{role => note}, fun({_, _, _, {_, Unit}}) -> Unit end}
            ]
        },
        [
            {~"cumulus", 900, ~"cheerful", {4, ~"count"}},
            {~"cirrus", 8000, ~"aloof", {0.25, ~"ratio"}}
        ],
        #{node => ~"tower"}
    ).
