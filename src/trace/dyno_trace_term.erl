%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_trace_term).
-moduledoc false.
%% Traced terms as one line of text. Differs from `~0tp` in forms that readers would mistake:
%% numbers that happen to be letters of other scripts stay numbers, records have field names, and
%% structs look as in Elixir. Texts among the terms and marks of omitted parts
%% (dyno_agent_event_term) stay.

-export([text/2, records/1]).
-export_type([records/0]).

-type records() :: #{{atom(), non_neg_integer()} => [atom()]}.

-spec text(term(), records()) -> unicode:chardata().
text({'$dyno', Text}, _Records) when is_binary(Text) ->
    Text;
text([], _Records) ->
    "[]";
text(List, Records) when is_list(List) ->
    case is_text(List) of
        true -> io_lib:format("~0tp", [List]);
        false -> [$[, elements(List, Records), $]]
    end;
text(Tuple, Records) when is_tuple(Tuple), tuple_size(Tuple) > 0 ->
    [First | Rest] = tuple_to_list(Tuple),
    case Records of
        #{{First, length(Rest)} := Names} -> record(First, Names, Rest, Records);
        #{} -> [${, joined([text(Element, Records) || Element <- [First | Rest]]), $}]
    end;
text(#{'__struct__' := Module} = Struct, Records) when is_atom(Module) ->
    [
        $%,
        dyno_agent_name:module(Module),
        ${,
        fields(maps:remove('__struct__', Struct), Records),
        $}
    ];
text(Map, Records) when is_map(Map) ->
    ["#{", joined([pair(Pair, Records) || Pair <- lists:sort(maps:to_list(Map))]), $}];
text(Other, _Records) ->
    io_lib:format("~0tp", [Other]).

elements([Last], Records) -> text(Last, Records);
elements([First | [_ | _] = Rest], Records) -> [text(First, Records), $,, elements(Rest, Records)];
elements([First | Tail], Records) -> [text(First, Records), $|, text(Tail, Records)].

pair({{'$dyno', Cut}, {'$dyno', Cut}}, _Records) -> Cut;
pair({Key, Value}, Records) -> [text(Key, Records), " => ", text(Value, Records)].

record(Name, Names, Values, Records) ->
    Fields = [
        [io_lib:format("~0tp", [Field]), " = ", text(Value, Records)]
     || {Field, Value} <- lists:zip(Names, Values)
    ],
    [$#, io_lib:format("~0tp", [Name]), ${, joined(Fields), $}].

fields(Map, Records) ->
    lists:join(", ", [
        case Pair of
            {{'$dyno', Cut}, _} -> Cut;
            {Key, Value} -> [field(Key), ": ", text(Value, Records)]
        end
     || Pair <- lists:sort(maps:to_list(Map))
    ]).

field(Key) when is_atom(Key) -> atom_to_binary(Key);
field(Key) -> io_lib:format("~0tp", [Key]).

joined(Parts) -> lists:join($,, Parts).

%% Outside of Latin scripts numbers are as likely as text: most characters must be ASCII here.
is_text(List) ->
    io_lib:printable_unicode_list(List) andalso
        2 * length([C || C <- List, C < 128]) > length(List) andalso
        lists:all(fun(C) -> C >= $\s orelse lists:member(C, "\t\n\r") end, List).

-spec records(Beam :: binary()) -> records().
records(Beam) ->
    maybe
        {ok, {Module, [{debug_info, {debug_info_v1, Backend, Data}}]}} ?=
            beam_lib:chunks(Beam, [debug_info]),
        {ok, Forms} ?= Backend:debug_info(erlang_v1, Module, Data, []),
        #{
            {Name, length(Fields)} => [field_name(Field) || Field <- Fields]
         || {attribute, _, record, {Name, Fields}} <- Forms
        }
    else
        _ -> #{}
    end.

field_name({typed_record_field, Field, _Type}) -> field_name(Field);
field_name(Field) -> element(3, element(3, Field)).
