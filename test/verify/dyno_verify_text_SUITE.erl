%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_verify_text_SUITE).
-moduledoc "What is said of a verdict.".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

all() ->
    [a_key_is_named].

%% A property across all processes has none: its report says `all`.
a_key_is_named(_Config) ->
    ?assertNotEqual(nomatch, string:find(said(#{key => {order, 7}}), "key       {order,7}")),
    ?assertEqual(nomatch, string:find(said(#{key => all}), "key")),
    ?assertEqual(nomatch, string:find(said(#{}), "key")).

said(More) ->
    Report = #{
        property => ~"answers",
        monitor => ?MODULE,
        verdict => no,
        process => #{pid => self(), initial_call => {?MODULE, all, 0}},
        node => node(),
        time_ns => 0,
        events => [],
        explanation => #{},
        trace => complete
    },
    unicode:characters_to_binary(dyno_verify_text:report(maps:merge(Report, More))).
