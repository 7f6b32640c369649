%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_cli_test_load).
-moduledoc false.
%% The options of `dyno test` that override the suite's load.

-export([options/0, load/1]).

%% The keys are those of a load, with these exceptions.
-define(LOAD, [model, rate_per_s, arrivals, workers, think_time_ms, iterations, objective]).

-spec options() -> [dyno_cli_option:row()].
options() ->
    [
        {"--load MODEL",
            "closed: each worker starts an operation when its last one has ended; open: operations "
            "start at a rate (default: closed)",
            {custom, fun model/1, "closed or open (and --search EXPRESSION for the highest rate)"},
            model},
        {"--rate RATE",
            "operations a second of an open load: 500, 10..1000 for a ramp, 100,200,400 for "
            "steps (default: the size)",
            {custom, fun rate/1,
                "operations a second above 0: 500, 10..1000 for a ramp, or 100,200,400 for steps"},
            rate_per_s},
        {"--arrivals HOW",
            "the arrivals of an open load: even, poisson, times:FILE with milliseconds, or "
            "counts:1s:FILE with a number for each second (default: even)",
            {custom, fun arrivals/1,
                "even, poisson, times:FILE, or counts:INTERVAL:FILE such as counts:1s:day.csv"}},
        {"--workers N",
            "the number of workers; of an open load the most (default: the size; open: 10000)",
            {whole, 1, infinity}},
        {"--think TIME",
            "the pause after each operation of a closed load: 20ms, or 10ms..30ms at random "
            "(default: none)",
            {custom, fun think/1, "a time such as 20ms, or two such as 10ms..30ms"}, think_time_ms},
        {"--iterations N", "ends a closed load after N operations in all (default: after --for)",
            {whole, 1, infinity}},
        {"--search EXPRESSION",
            "finds the highest rate of an open load at which a limit holds, such as \"latency.p99 "
            "< 50 ms\"; repeatable", {many, text}, objective},
        {"--load-nodes LIST",
            "nodes that generate the load, with commas: 2 for two on this machine, ssh:HOST, "
            "NAME@HOST for a running one (default: dyno's own node)",
            {list,
                {custom, fun load_node/1,
                    "a number of nodes to start here (1 to 100), ssh:HOST, or NAME@HOST"}}}
    ].

-doc "The options of a test, with those of the load under one key.".
-spec load(dyno_cli_command:values()) -> dyno_error:result(dyno_cli_command:values()).
load(Values) ->
    case {contradiction(Values), maps:with(?LOAD, Values)} of
        {none, Load} when map_size(Load) =:= 0 ->
            {ok, Values};
        {none, Load} ->
            {ok, (maps:without(?LOAD, Values))#{load => Load}};
        {{Option, Other, Why}, _} ->
            dyno_cli_command:contradiction(
                [Option, " and ", Other, " contradict each other: ", Why]
            )
    end.

%% Refused before the run: the intended option is unknown.
contradiction(#{objective := _, rate_per_s := _}) ->
    {"--search", "--rate", "a search finds the rate"};
contradiction(#{model := closed, rate_per_s := _}) ->
    {"--load closed", "--rate", "a closed load has no rate; leave one of them out"};
contradiction(#{model := closed, objective := _}) ->
    {"--load closed", "--search", "a search is made with an open load"};
contradiction(#{model := closed, arrivals := _}) ->
    {"--load closed", "--arrivals", "a closed load has no arrivals"};
contradiction(#{rate_per_s := _, arrivals := Recorded}) when is_tuple(Recorded) ->
    {"--rate", "--arrivals FILE", "a recorded curve has its own rate"};
contradiction(Values) ->
    Given = fun(Options) -> [Option || {Key, Option} <- Options, is_map_key(Key, Values)] end,
    Open = Given([{rate_per_s, "--rate"}, {arrivals, "--arrivals"}, {objective, "--search"}]),
    Closed = Given([{think_time_ms, "--think"}, {iterations, "--iterations"}]),
    case {Open, Closed, Values} of
        {[First | _], [Other | _], _} ->
            {First, Other, "the one is of open loads, the other of closed ones"};
        {_, [Other | _], #{model := open}} ->
            {"--load open", Other, "it is of closed loads"};
        _ ->
            none
    end.

model(Text) ->
    dyno_cli_option:value({one_of, [closed, open]}, Text).

rate(Text) ->
    case {numbers(Text, ~".."), numbers(Text, ~",")} of
        {[From, To], _} when From >= 0, To >= 0, From + To > 0 -> {ok, {ramp, From, To}};
        {_, [Rate]} when Rate > 0 -> {ok, Rate};
        {_, [_, _ | _] = Rates} -> steps(Rates, lists:min(Rates), lists:max(Rates));
        _ -> error
    end.

steps(Rates, Least, Most) when Least >= 0, Most > 0 -> {ok, {steps, Rates}};
steps(_Rates, _Least, _Most) -> error.

arrivals(~"even") ->
    {ok, even};
arrivals(~"poisson") ->
    {ok, poisson};
arrivals(<<"times:", File/binary>>) when File =/= <<>> ->
    recorded({times_ms, File});
arrivals(<<"counts:", Rest/binary>>) ->
    maybe
        [Interval, File] ?= binary:split(Rest, ~":"),
        {ok, Ms} ?= dyno_cli_option:value(duration, Interval),
        recorded({counts, Ms, File})
    else
        _ -> error
    end;
arrivals(_) ->
    error.

recorded(Arrivals) ->
    case dyno_load_spec:read(#{model => open, arrivals => Arrivals}, 1) of
        {ok, _} -> {ok, Arrivals};
        {error, {arrivals_file, Reason}} -> {error, {dyno_load_arrivals_file, Reason}};
        {error, _} -> error
    end.

think(Text) ->
    Parts = [
        dyno_cli_option:value(duration, Part)
     || Part <- binary:split(Text, ~"..")
    ],
    case Parts of
        [{ok, Ms}] -> {ok, Ms};
        [{ok, Low}, {ok, High}] when Low =< High -> {ok, {uniform, Low, High}};
        _ -> error
    end.

numbers(Text, Separator) ->
    Read = [dyno_unit:parse(Part) || Part <- binary:split(Text, Separator, [global])],
    Numbers = [N || {ok, {N, Unit}} <- Read, Unit =:= ~"1" orelse Unit =:= ~"1/s"],
    case length(Numbers) =:= length(Read) of
        true -> Numbers;
        false -> error
    end.

load_node(<<"ssh:", Host/binary>>) when Host =/= <<>> ->
    {ok, {ssh, unicode:characters_to_list(Host)}};
load_node(Text) ->
    case {dyno_cli_option:value({whole, 1, 100}, Text), binary:split(Text, ~"@")} of
        {{ok, N}, _} -> {ok, {peer, N}};
        {_, [Name, Host]} when Name =/= <<>>, Host =/= <<>> -> {ok, binary_to_atom(Text)};
        _ -> error
    end.
