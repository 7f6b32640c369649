%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_text_SUITE).
-moduledoc "No text from elsewhere steers a terminal or misleads who reads it.".

-include_lib("stdlib/include/assert.hrl").
-include("../support/dyno_proper.hrl").

-compile([export_all, nowarn_export_all]).

newest_release_only() -> all.

all() -> [escapes, joiners, counts, nothing_misleads, json_means_the_same].

escapes(_Config) ->
    Steers = <<"a\e[2J\r\n\tb", 16#FF, "\x{202E}\x{9B}c\x{2028}\x{7F}\x{E0041}"/utf8>>,
    ?assertEqual(
        ~B"a\x{1B}[2J\x{D}  b?\x{202E}\x{9B}c\x{2028}\x{7F}\x{E0041}", dyno_text:clean(Steers)
    ),
    ?assertEqual(
        ~"a\\x{1B}[2J\\x{D}\n\tb?\\x{202E}\\x{9B}c\\x{2028}\\x{7F}\\x{E0041}",
        dyno_text:lines(Steers)
    ),
    ?assertEqual(~B"a\x{1B}?", dyno_text:lines(["a", 27 | <<16#FF>>])),
    Json = iolist_to_binary(dyno_text:json(#{~"\x{202E}" => [~"\e\x{E0041}", 1, null]})),
    ?assertEqual(~B({"\u202E":["\u001B\uDB40\uDC41",1,null]}), Json),
    [
        ?assertEqual(Plain, dyno_text:clean(Plain))
     || Plain <- [~"shop@host", ~"\"<0.1.0>\"", ~"größer 日本 é"]
    ].

joiners(_Config) ->
    Family = <<"\x{1F468}\x{200D}\x{1F469}"/utf8>>,
    ?assertEqual(Family, dyno_text:clean(Family)),
    ?assertEqual(~B"shop\x{200D}", dyno_text:clean(<<"shop\x{200D}"/utf8>>)).

counts(_Config) ->
    [
        ?assertEqual(Is, dyno_text:counted(Text))
     || {Text, Is} <- [
            {~"1 samples", ~"1 sample"},
            {~"1 processes wait for db", ~"1 process waits for db"},
            {~"1 servers of shop were counted", ~"1 server of shop was counted"},
            {~"in 1 of 1 processes", ~"in 1 of 1 process"},
            {~"the last 1 rounds are without it", ~"the last 1 round is without it"},
            {~"21 samples, 1.1 calls, 0 nodes", ~"21 samples, 1.1 calls, 0 nodes"},
            {~"m:f/1 calls m:g/1 events", ~"m:f/1 calls m:g/1 events"},
            {~"at size 1 messages wait", ~"at size 1 messages wait"}
        ]
    ].

nothing_misleads(_Config) ->
    dyno_property:holds(
        ?FORALL(Text, text(), begin
            misleading(dyno_text:clean(Text)) =:= nomatch andalso
                misleading(re:replace(dyno_text:lines(Text), "[\n\t]", "", [global])) =:= nomatch
        end),
        200
    ).

json_means_the_same(_Config) ->
    dyno_property:holds(
        ?FORALL(Text, dyno_recording_gen:text(), begin
            Json = iolist_to_binary(dyno_text:json([Text, #{Text => 1}])),
            misleading(Json) =:= nomatch andalso
                json:decode(Json) =:= [Text, #{Text => 1}]
        end),
        200
    ).

-doc "The first character of a text that misleads, by a list of its own.".
misleading(Text) ->
    re:run(
        unicode:characters_to_binary([Text]),
        "[\\x{0}-\\x{1f}\\x{7f}-\\x{9f}\\x{ad}\\x{61c}\\x{200b}\\x{200e}\\x{200f}"
        "\\x{2028}-\\x{202e}\\x{2060}-\\x{2069}\\x{feff}]",
        [unicode, {capture, first, binary}]
    ).

%% Also what is no text.
text() ->
    proper_types:oneof([
        dyno_recording_gen:text(),
        proper_types:binary(),
        ?LET({A, B}, {dyno_recording_gen:text(), proper_types:binary()}, <<A/binary, B/binary>>)
    ]).
