%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_cli_bench_source).
-moduledoc """
What `dyno bench -v` prints before it measures, as erlperf does: the loop that is compiled for each
code, as source, and the options.
""".

-export([lines/2]).

-doc "The text; a code that cannot be read is left out, because measuring it says why.".
-spec lines([dyno_bench_code:code()], dyno_bench:options()) -> [unicode:chardata()].
lines(Codes, Options) ->
    [
        [
            ">>>>>>>>>>>>>>> ", dyno_report_text:clean(label(Code)), "\n",
            string:trim(dyno_bench_code:source(Parsed)), "\n",
            "<<<<<<<<<<<<<<<"
        ]
     || Code <- Codes, {ok, Parsed} <- [dyno_bench_code:read(Code)]
    ] ++
        [
            ["dyno: ", lists:join(", ", [option(Option) || Option <- shown(Options)])]
         || shown(Options) =/= []
        ].

label(#{runner := _} = Code) -> dyno_bench_code:label(Code);
label(Code) -> dyno_bench_code:label(#{runner => Code}).

shown(Options) ->
    lists:sort([
        Option
     || {_, Value} = Option <- maps:to_list(maps:without([inputs, cookie], Options)), Value =/= []
    ]).

option({mode, {Mode, Settings}}) ->
    ["mode ", atom_to_list(Mode) | [[", ", option(Setting)] || Setting <- maps:to_list(Settings)]];
option({Name, Value}) ->
    io_lib:format("~ts ~0tP", [Name, Value, 20]).
