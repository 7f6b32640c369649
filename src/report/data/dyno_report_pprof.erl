%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_report_pprof).
-moduledoc """
The stacks of a recording in pprof's form, for `go tool pprof`, Pyroscope, Parca and others: a
compressed message of Protocol Buffers.

The file has a sample type for each value of the profiles. The label `profile` tells profiles apart;
the label `of` has a sample's labels, such as processes.
""".

-behaviour(dyno_report).

-export([format/2]).

%% Numbers of fields in pprof's profile.proto.
-define(SAMPLE_TYPE, 1).
-define(SAMPLE, 2).
-define(LOCATION, 4).
-define(FUNCTION, 5).
-define(STRING, 6).
-define(DURATION_NS, 10).
-define(DEFAULT_TYPE, 14).

-spec format(dyno_report:document(), dyno_report:options()) -> dyno_error:result(iodata()).
format(Document, _Options) ->
    maybe
        {ok, Profiles} ?= dyno_report_stacks:profiles(Document),
        {ok, zlib:gzip(message(Profiles, Document))}
    end.

message(Profiles, Document) ->
    Types = lists:uniq([{Name, unit(U)} || #{values := Of} <- Profiles, {Name, U} <- Of]),
    All = [
        {Title, Labels, Stack, values(Types, Of, Values)}
     || #{title := Title, values := Of, samples := Samples} <- Profiles,
        {Labels, Stack, Values} <- Samples
    ],
    Functions = numbered(1, [Frame || {_, _, Stack, _} <- All, Frame <- Stack]),
    %% The first string must be empty.
    Strings = numbered(0, [
        ~"",
        ~"profile",
        ~"of"
        | [Text || {Name, Unit} <- Types, Text <- [Name, Unit]] ++
            [Text || {Title, Labels, _, _} <- All, Text <- [Title | Labels]] ++
            maps:keys(Functions)
    ]),
    String = fun(Text) -> map_get(Text, Strings) end,
    [
        [field(?SAMPLE_TYPE, value_type(Type, String)) || Type <- Types],
        [
            field(?SAMPLE, [
                %% The innermost first.
                packed(1, [map_get(Frame, Functions) || Frame <- lists:reverse(Stack)]),
                packed(2, Values),
                field(3, label(~"profile", Title, String)),
                [field(3, label(~"of", Label, String)) || Label <- Labels]
            ])
         || {Title, Labels, Stack, Values} <- All
        ],
        [field(?LOCATION, [number(1, Id), field(4, number(1, Id))]) || _ := Id <- Functions],
        [field(?FUNCTION, [number(1, Id), number(2, String(Name))]) || Name := Id <- Functions],
        [field(?STRING, Text) || {_, Text} <- lists:sort([{N, T} || T := N <- Strings])],
        duration(dyno_report_document:get(~"duration_ns", Document)),
        number(?DEFAULT_TYPE, String(element(1, hd(Types))))
    ].

duration(Ns) when is_integer(Ns) -> number(?DURATION_NS, Ns);
duration(_Null) -> [].

values(Types, Of, Values) ->
    ByType = #{{Name, unit(Unit)} => Value || {{Name, Unit}, Value} <- lists:zip(Of, Values)},
    [round(maps:get(Type, ByType, 0)) || Type <- Types].

unit(~"ns") -> ~"nanoseconds";
unit(~"B") -> ~"bytes";
unit(Other) -> Other.

numbered(First, Items) ->
    #{Item => Number || {Number, Item} <- lists:enumerate(First, lists:uniq(Items))}.

value_type({Name, Unit}, String) -> [number(1, String(Name)), number(2, String(Unit))].

label(Key, Text, String) -> [number(1, String(Key)), number(2, String(Text))].

%% Protocol Buffers: a field is its number and type, then a number, or bytes with their length.

number(Field, Value) -> [varint(Field bsl 3), varint(Value)].

field(Field, Bytes) -> [varint(Field bsl 3 bor 2), varint(iolist_size(Bytes)), Bytes].

packed(Field, Numbers) -> field(Field, [varint(Number) || Number <- Numbers]).

%% Seven bits in each byte, the lowest first; the eighth says that more follow.
varint(N) when N < 0 -> varint(N band 16#ffffffffffffffff);
varint(N) when N < 128 -> <<N>>;
varint(N) -> [<<1:1, N:7>>, varint(N bsr 7)].
