%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_report_speedscope).
-moduledoc "Stacks for speedscope (<https://www.speedscope.app>): a profile for each value.".

-behaviour(dyno_report).

-export([format/2]).

-define(SCHEMA, ~"https://www.speedscope.app/file-format-schema.json").

-spec format(dyno_report:document(), dyno_report:options()) -> dyno_error:result(iodata()).
format(Document, _Options) ->
    maybe
        {ok, Profiles} ?= dyno_report_stacks:profiles(Document),
        Names = lists:uniq([
            Name
         || #{samples := Samples} <- Profiles,
            {Labels, Stack, _} <- Samples,
            Name <- Labels ++ Stack
        ]),
        Numbers = #{Name => Number || {Number, Name} <- lists:enumerate(0, Names)},
        {ok,
            json:encode(#{
                ~"$schema" => ?SCHEMA,
                name => dyno_report_document:name(~"name", Document),
                exporter => ~"dyno",
                activeProfileIndex => 0,
                shared => #{frames => [#{name => Name} || Name <- Names]},
                profiles => [
                    Of
                 || #{values := Values} = Profile <- Profiles,
                    {Index, Value} <- lists:enumerate(Values),
                    #{samples := [_ | _]} = Of <- [profile(Profile, Index, Value, Numbers)]
                ]
            })}
    end.

profile(#{title := Title, values := Values, samples := Samples}, Index, {Name, Unit}, Numbers) ->
    Of = [
        {[map_get(Frame, Numbers) || Frame <- Labels ++ Stack], lists:nth(Index, Weights)}
     || {Labels, Stack, Weights} <- Samples, lists:nth(Index, Weights) > 0
    ],
    {Stacks, Weights} = lists:unzip(Of),
    #{
        type => sampled,
        name =>
            case Values of
                [_] -> Title;
                _ -> <<Title/binary, ": ", Name/binary>>
            end,
        unit => unit(Unit),
        startValue => 0,
        endValue => lists:sum(Weights),
        samples => Stacks,
        weights => Weights
    }.

%% speedscope knows these units, and shows others as plain numbers.
unit(~"ns") -> nanoseconds;
unit(~"B") -> bytes;
unit(_Other) -> none.
