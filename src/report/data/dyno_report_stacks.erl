%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_report_stacks).
-moduledoc false.
%% The profiles of a recording for reports and other formats: functions by name, and a title.

-export([profiles/1, samples/1, labels/1, format_error/1]).
-export_type([profile/0, sample/1]).

-import(dyno_report_document, [get/3, name/2]).

-type profile() :: #{
    title := binary(),
    values := [{Name :: binary(), Unit :: binary()}],
    samples := [sample(number())]
}.

-doc "The labels, such as processes; the functions, outermost first; the values.".
-type sample(Value) :: {Labels :: [binary()], Stack :: [binary(), ...], [Value, ...]}.

-spec profiles(dyno_report:document()) ->
    {ok, [profile(), ...]} | {error, {?MODULE, no_stacks}}.
profiles(Document) ->
    Profiles = [
        #{
            title => titled(Profile, Run, Document),
            values => [
                {name(~"name", V), get(~"unit", V, ~"1")}
             || V <- get(~"values", Profile, [])
            ],
            samples => [
                {Labels, Stack, [number(Value) || Value <- Values]}
             || {Labels, Stack, Values} <- Samples
            ]
        }
     || Run <- dyno_recording:runs(Document),
        Profile <- get(~"profiles", Run, []),
        [_ | _] = Samples <- [samples(Profile)]
    ],
    case Profiles of
        [] -> {error, {?MODULE, no_stacks}};
        _ -> {ok, Profiles}
    end.

number(Value) when is_number(Value) -> Value;
number(_Null) -> 0.

-spec samples(dyno_report_document:object()) -> [sample(json:decode_value())].
samples(Profile) ->
    Frames = list_to_tuple([dyno_text:clean(Frame) || Frame <- get(~"frames", Profile, [])]),
    [
        {labels(Sample), [element(Number + 1, Frames) || Number <- Stack], Values}
     || #{~"stack" := [_ | _] = Stack, ~"values" := [_ | _] = Values} = Sample <-
            get(~"samples", Profile, [])
    ].

-spec labels(dyno_report_document:object()) -> [binary()].
labels(Of) ->
    Labels = get(~"labels", Of, #{}),
    [name(Key, Labels) || Key <- lists:sort(maps:keys(Labels))].

titled(Profile, Run, Document) ->
    Titles = [dyno_report_document:title(Profile) | labels(Profile)],
    Node = [name(~"node", Profile) || get(~"node", Profile, none) =/= none],
    Parts = dyno_report_document:places(Run, Document) ++ Titles ++ Node,
    iolist_to_binary(lists:join(~", ", Parts)).

-spec format_error(no_stacks) -> unicode:chardata().
format_error(no_stacks) ->
    "there are no stacks in the recording; dyno profile and dyno test sample them, and dyno bench "
    "--profile".
