%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_recording_part).
-moduledoc false.
%% Builds parts of a run: metrics, series, profiles, text. dyno_recording_table builds tables.

-export([metric/6, series/7, histogram/6, profile/2, innermost/1, is_unknown/1, observed/3]).
-export([until/3, text/2, note/1, word/1]).
-export_type([warning/0]).

-doc "A doubt about the measurement, and advice; m:dyno_finding reads warnings as findings.".
-type warning() ::
    {Code :: atom() | binary(), Text :: binary()}
    | {Code :: atom() | binary(), Text :: binary(), Advice :: binary()}.

-type part() :: #{atom() => term()}.

-spec metric(binary(), binary(), number(), binary(), non_neg_integer(), binary()) -> part().
metric(Name, Title, Value, Unit, Count, Group) ->
    #{name => Name, title => Title, value => Value, unit => Unit, count => Count, group => Group}.

-spec series(binary(), binary(), binary(), binary(), node() | undefined, [number()], [term()]) ->
    part().
series(Name, Unit, Group, Title, Node, Times, Values) ->
    #{
        name => Name,
        unit => Unit,
        group => Group,
        title => Title,
        node => Node,
        labels => #{},
        times_ms => Times,
        values => Values
    }.

-spec histogram(
    binary(), binary(), binary(), binary(), #{atom() => term()}, dyno_histogram:snapshot()
) -> part().
histogram(Name, Unit, Group, Title, Labels, Snapshot) ->
    (maps:with([count, sum, min, max], Snapshot))#{
        name => Name,
        title => Title,
        unit => Unit,
        group => Group,
        labels => Labels,
        scheme => dyno_histogram:scheme(),
        buckets => [tuple_to_list(Bucket) || Bucket <- dyno_histogram:to_recording(Snapshot)]
    }.

-doc "A profile of these stacks; each function is written once.".
-spec profile(part(), [{[binary()], [number()], #{atom() => binary()}}]) -> part().
profile(Description, Stacks) ->
    Frames = lists:uniq(lists:append([Stack || {Stack, _, _} <- Stacks])),
    Numbers = #{Frame => Number || {Number, Frame} <- lists:enumerate(0, Frames)},
    Description#{
        frames => Frames,
        samples => [
            #{
                stack => [map_get(Frame, Numbers) || Frame <- Stack],
                values => Values,
                labels => Labels
            }
         || {Stack, Values, Labels} <- Stacks
        ]
    }.

-doc "The function that a stack counts for: C code counts for its caller.".
-spec innermost([binary(), ...]) -> binary().
innermost(Stack) ->
    hd(lists:dropwhile(fun is_native/1, lists:reverse(Stack)) ++ [lists:last(Stack)]).

is_native(<<$[, _/binary>>) -> true;
is_native(_Frame) -> false.

-doc "Whether a frame stands for time whose function is not known: functions have no brackets.".
-spec is_unknown(Frame :: binary()) -> boolean().
is_unknown(<<$(, _/binary>>) -> true;
is_unknown(_Frame) -> false.

-spec observed(Samples, Seen, Scheduler) -> unicode:charlist() when
    Samples :: non_neg_integer() | undefined | null,
    Seen :: number() | undefined | null,
    Scheduler :: number() | undefined | null.
observed(Count, Seen, Scheduler) when is_integer(Count) ->
    [
        [", ", dyno_unit:format(Count, ~"count"), " sample", [$s || Count =/= 1]],
        [[", ", dyno_unit:format(Seen, ~"ratio"), " of it seen"] || is_number(Seen)],
        [
            [", (scheduler) ", dyno_unit:format(Scheduler, ~"ratio")]
         || is_number(Scheduler), Scheduler > 0
        ]
    ];
observed(_Count, _Seen, _Scheduler) ->
    "".

-doc "The points up to the end of a load; if all are later, the first one.".
-spec until(EndsMs :: number() | undefined, pos_integer(), [Point]) -> [Point] when
    Point :: tuple().
until(undefined, _Element, Points) ->
    Points;
until(EndsMs, Element, Points) ->
    case [Point || Point <- Points, element(Element, Point) =< EndsMs] of
        [] -> lists:sublist(Points, 1);
        Within -> Within
    end.

-spec note(warning() | part()) -> part().
note({Code, Text}) -> #{code => Code, text => {text, Text}};
note({Code, Text, Advice}) -> #{code => Code, text => {text, Text}, advice => {text, Advice}};
note(Note) -> Note.

-spec text(io:format(), [term()]) -> binary().
text(Format, Arguments) ->
    Text = unicode:characters_to_binary(io_lib:format(Format, Arguments)),
    true = is_binary(Text),
    dyno_text:counted(Text).

-doc "A name as a part of a metric's name: words of thresholds have no spaces.".
-spec word(binary()) -> binary().
word(Name) ->
    iolist_to_binary(re:replace(Name, ~"[^[:alnum:]_-]+", ~"_", [global, unicode, ucp])).
