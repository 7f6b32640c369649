%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_recording_schema).
-moduledoc false.
%% The format of a recording: reads the objects, fields and types of priv/recording/schema.json, a
%% JSON Schema (doc/recording.schema.json links to it). dyno_recording_check checks against it.
%%
%% Versions: 1; 2 with labels, events, profiles, roles and kinds of verdicts.

-export([version/0, objects/0, fields/1, checks/1]).

-export_type([object_name/0, type/0, field/0, check/0]).

-type object_name() :: atom().

-doc """
An object's name, or a type without fields: `string`, `boolean`, `integer`, `natural` (from 0),
`positive`, `number`, `json`, `any_object`. `labels`: an object of strings and numbers. `bucket`:
`[low, high, count]`. `row`: a cell for each column. `unit`: a unit of `m:dyno_unit`. `open`:
strings with known values; readers accept others unchanged.
""".
-type type() ::
    atom()
    | {list, type()}
    | {nullable, type()}
    | {one_of, [binary() | integer(), ...]}
    | {open, [binary(), ...]}
    | {either, type(), type()}.

-type field() :: {
    Name :: binary(),
    type(),
    %% An optional field may be absent; others get their default.
    required | optional | {default, null | boolean() | number() | [] | map()},
    Meaning :: binary()
}.

-type check() ::
    unique_ids | unique_roles | same_length | ascending_buckets | rows_fit_columns | samples_fit.

-define(SCHEMA, "recording/schema.json").

-spec version() -> pos_integer().
version() ->
    {_, {one_of, [Version]}, _, _} = lists:keyfind(~"version", 1, fields(document)),
    true = is_integer(Version),
    Version.

-doc "All objects, containers first.".
-spec objects() -> [object_name()].
objects() ->
    #{objects := Objects} = schema(),
    Objects.

-doc "The fields of an object; empty for other types.".
-spec fields(type()) -> [field()].
fields(Type) ->
    case schema() of
        #{fields := #{Type := Fields}} -> Fields;
        #{} -> []
    end.

-spec checks(object_name()) -> [check()].
checks(document) -> [unique_ids];
checks(run) -> [unique_roles];
checks(histogram) -> [ascending_buckets];
checks(series) -> [same_length];
checks(table) -> [rows_fit_columns];
checks(profile) -> [samples_fit];
checks(_) -> [].

schema() ->
    case persistent_term:get(?MODULE, none) of
        none ->
            Schema = read(),
            ok = persistent_term:put(?MODULE, Schema),
            Schema;
        Schema ->
            Schema
    end.

%% Objects as lists of pairs, which keep the order of fields.
read() ->
    {ok, Text} = dyno_priv:read(?SCHEMA),
    {Schema, ok, _} = json:decode(Text, ok, #{
        object_push => fun(Key, Value, Pairs) -> [{Key, Value} | Pairs] end,
        object_finish => fun(Pairs, Outer) -> {{lists:reverse(Pairs)}, Outer} end
    }),
    {Definitions} = of_key(~"$defs", Schema),
    Objects = [
        {binary_to_atom(Name), Definition}
     || {Name, {Keys} = Definition} <- Definitions, lists:keymember(~"properties", 1, Keys)
    ],
    #{
        objects => [Name || {Name, _} <- Objects],
        fields => #{Name => properties(Definition) || {Name, Definition} <- Objects}
    }.

properties(Definition) ->
    {Properties} = of_key(~"properties", Definition),
    Required = of_key(~"required", Definition),
    [
        {Name, type(maps:from_list(Keys)), presence(Name, Required, Keys),
            of_key(~"description", {Keys})}
     || {Name, {Keys}} <- Properties
    ].

presence(Name, Required, Keys) ->
    case {lists:member(Name, Required), lists:keyfind(~"default", 1, Keys)} of
        {true, _} -> required;
        {false, false} -> optional;
        {false, {_, {[]}}} -> {default, #{}};
        {false, {_, Default}} -> {default, Default}
    end.

of_key(Key, {Pairs}) ->
    {Key, Value} = lists:keyfind(Key, 1, Pairs),
    Value.

type({Keys}) ->
    type(maps:from_list(Keys));
type(#{~"$ref" := <<"#/$defs/", Name/binary>>}) ->
    binary_to_atom(Name);
type(#{~"anyOf" := [One, Other]}) ->
    case type(Other) of
        null -> {nullable, type(One)};
        Type -> {either, type(One), Type}
    end;
type(#{~"enum" := Values}) ->
    case lists:delete(null, Values) of
        Values -> {one_of, Values};
        Others -> {nullable, {one_of, Others}}
    end;
type(#{~"type" := [Name, ~"null"]} = Keys) ->
    {nullable, type(Keys#{~"type" := Name})};
type(#{~"type" := ~"array", ~"items" := Items}) ->
    {list, type(Items)};
type(#{~"type" := ~"string", ~"examples" := Known}) ->
    {open, Known};
type(#{~"type" := ~"integer", ~"minimum" := 0}) ->
    natural;
type(#{~"type" := ~"integer", ~"minimum" := 1}) ->
    positive;
type(#{~"type" := ~"object"}) ->
    any_object;
type(#{~"type" := Name}) ->
    binary_to_atom(Name);
type(#{}) ->
    json.
