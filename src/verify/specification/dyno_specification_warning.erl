%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_specification_warning).
-moduledoc false.
%% Warns of a common misunderstanding: `never A then B` asks for B as the next event that the
%% property names. If another named event can come between, A and a later B are no violation. Pure.

-export([of_property/1]).

-spec of_property(dyno_specification_parser:property()) -> [binary()].
of_property(#{body := {never, Regexp}, name := Name, location := {Line, _}} = Property) ->
    #{strict := Strict, keys := Keys} = Property,
    [
        text(Line, Name)
     || is_adjacent(Regexp),
        Strict orelse not cannot_miss(Regexp, [Key || {Key, _} <- Keys])
    ];
of_property(_Property) ->
    [].

text(Line, Name) ->
    unicode:characters_to_binary(
        io_lib:format(
            "line ~b: \"~ts\": 'never A then B' is broken only if B is the next event after A, of "
            "the events that the property names; a later B does not break it. For any later B "
            "write 'never A then eventually B'.",
            [Line, Name]
        )
    ).

%% A step must directly follow another.
is_adjacent({then, A, B}) -> not is_later(B) orelse is_adjacent(A) orelse is_adjacent(B);
is_adjacent({'or', A, B}) -> is_adjacent(A) orelse is_adjacent(B);
is_adjacent({Repeated, A}) when is_atom(Repeated) -> is_adjacent(A);
is_adjacent(_Step) -> false.

is_later({then, A, _}) -> is_later(A);
is_later({'or', A, B}) -> is_later(A) andalso is_later(B);
is_later({later, _, _, _}) -> true;
is_later(_Other) -> false.

%% If what comes between is an A or a B, the last A and the next B are neighbours, if B is free.
cannot_miss({then, A, B}, Keys) ->
    Own = mentioned(A) -- Keys,
    is_single(A) andalso is_single(B) andalso mentioned(B) -- Own =:= mentioned(B);
cannot_miss(_Regexp, _Keys) ->
    false.

is_single({step, _, _, _}) -> true;
is_single({'or', A, B}) -> is_single(A) andalso is_single(B);
is_single(_Other) -> false.

mentioned({_Step, Event, _, _}) -> dyno_specification_event:mentioned(Event);
mentioned({_, A, B}) -> mentioned(A) ++ mentioned(B);
mentioned({_, A}) -> mentioned(A).
