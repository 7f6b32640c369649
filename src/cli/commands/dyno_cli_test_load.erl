%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_cli_test_load).
-moduledoc """
The options of `dyno test` that say what the load is, in the place of the suite's own.
""".

-export([arguments/0, options/1, format_error/1]).
-export_type([reason/0]).

-type reason() ::
    {value, Option :: binary(), Text :: binary(), Accepted :: string()}
    | {contradiction, Option :: binary(), Other :: binary(), Why :: string()}
    | {arrivals, dyno_load_arrivals:reason()}.

-define(MODELS, [closed, open]).

-doc "The arguments.".
-spec arguments() -> [argparse:argument()].
arguments() ->
    [
        argument(
            load, "load", "--load MODEL",
            "closed: each worker begins its next operation when the last has ended; open: "
            "operations begin at a rate (default: the suite's, or closed)"
        ),
        argument(
            rate, "rate", "--rate RATE",
            "operations a second of an open load: 500, 10..1000 for a ramp, 100,200,400 for "
            "steps (default: the suite's, or the size)"
        ),
        argument(
            arrivals, "arrivals", "--arrivals HOW",
            "how those of an open load begin: even, poisson, times:FILE with milliseconds, or "
            "counts:1s:FILE with how many begin in each second (default: even)"
        ),
        argument(
            workers, "workers", "--workers N",
            "how many workers; of an open load, at most (default: the size; open: 10000)"
        ),
        argument(
            think, "think", "--think TIME",
            "how long a worker of a closed load waits after each operation, such as 20ms, or "
            "10ms..30ms at random (default: not at all)"
        ),
        argument(
            iterations, "iterations", "--iterations N",
            "ends a closed load after so many operations in all (default: after --duration)"
        ),
        (argument(
            search, "search", "--search EXPRESSION",
            "an open load: finds the highest rate at which this holds, such as \"latency.p99 < "
            "50 ms\"; may be given more than once"
        ))#{action => append},
        argument(
            load_nodes, "load-nodes", "--load-nodes LIST",
            "nodes that make the load, with commas between: 2 for two on this machine, ssh:HOST, "
            "NAME@HOST for one that runs (default: dyno's own node)"
        )
    ].

-spec argument(atom(), string(), string(), string()) -> argparse:argument().
argument(Name, Long, Usage, Text) ->
    (dyno_cli_command:option(Name, Usage, Text))#{long => "-" ++ Long}.

-doc "What the options mean for a test; nothing where there are none.".
-spec options(argparse:arg_map()) ->
    {ok, #{load => dyno_load_spec:override(), load_nodes => [dyno_load_nodes:spec()]}}
    | {error, {load, reason()}}.
options(Values) ->
    Names = [load, rate, arrivals, workers, think, iterations, search],
    maybe
        ok ?= agree(Values),
        {ok, Load} ?= each([{N, V} || N <- Names, {ok, V} <- [maps:find(N, Values)]], #{}),
        {ok, Nodes} ?= load_nodes(maps:get(load_nodes, Values, none)),
        {ok, maps:merge(case map_size(Load) of 0 -> #{}; _ -> #{load => Load} end, Nodes)}
    else
        {error, Reason} -> {error, {load, Reason}}
    end.

%% Said before anything runs: which of two options is meant nobody can know.
-spec agree(argparse:arg_map()) -> ok | {error, reason()}.
agree(#{search := _, rate := _}) ->
    contradiction(~"--search", ~"--rate", "the rate is what is searched for");
agree(#{load := ~"closed", rate := _}) ->
    contradiction(~"--load closed", ~"--rate", "a closed load has no rate; leave one of them out");
agree(#{load := ~"closed", search := _}) ->
    contradiction(~"--load closed", ~"--search", "a search is made with an open load");
agree(#{load := ~"closed", arrivals := _}) ->
    contradiction(~"--load closed", ~"--arrivals", "a closed load has no arrivals");
agree(#{rate := _, arrivals := <<Kind:6/binary, _/binary>>}) when
    Kind =:= ~"times:"; Kind =:= ~"counts"
->
    contradiction(~"--rate", ~"--arrivals FILE", "a recorded curve has its own rate");
agree(Values) ->
    Open = [Name || Name <- [rate, arrivals, search], is_map_key(Name, Values)],
    Closed = [Name || Name <- [think, iterations], is_map_key(Name, Values)],
    case {Open, Closed, Values} of
        {[First | _], [Other | _], _} ->
            Why = "the one is of open loads, the other of closed ones",
            contradiction(long(First), long(Other), Why);
        {_, [Other | _], #{load := ~"open"}} ->
            contradiction(~"--load open", long(Other), "it is of closed loads");
        _ ->
            ok
    end.

-spec contradiction(binary(), binary(), string()) -> {error, reason()}.
contradiction(Option, Other, Why) -> {error, {contradiction, Option, Other, Why}}.

-spec long(atom()) -> binary().
long(Name) -> <<"--", (atom_to_binary(Name))/binary>>.

-spec each([{atom(), term()}], map()) -> {ok, map()} | {error, reason()}.
each([], Load) ->
    {ok, Load};
each([{Name, Text} | Rest], Load) ->
    case value(Name, Text) of
        {ok, Key, Value} -> each(Rest, Load#{Key => Value});
        {error, _} = Error -> Error;
        error -> {error, {value, long(Name), Text, accepted(Name)}}
    end.

-spec value(atom(), term()) -> {ok, atom(), term()} | {error, reason()} | error.
value(load, Text) ->
    case [Model || Model <- ?MODELS, atom_to_binary(Model) =:= Text] of
        [Model] -> {ok, model, Model};
        [] -> error
    end;
value(rate, Text) ->
    Plain = binary:replace(Text, ~"/s", ~"", [global]),
    case {numbers(Plain, ~".."), numbers(Plain, ~",")} of
        {{ok, [From, To]}, _} when From >= 0, To >= 0, From + To > 0 ->
            {ok, rate_per_s, {ramp, From, To}};
        {_, {ok, [Rate]}} when Rate > 0 ->
            {ok, rate_per_s, Rate};
        {_, {ok, [_, _ | _] = Rates}} ->
            case lists:min(Rates) >= 0 andalso lists:max(Rates) > 0 of
                true -> {ok, rate_per_s, {steps, Rates}};
                false -> error
            end;
        _ ->
            error
    end;
value(arrivals, ~"even") ->
    {ok, arrivals, even};
value(arrivals, ~"poisson") ->
    {ok, arrivals, poisson};
value(arrivals, <<"times:", File/binary>>) when File =/= <<>> ->
    from_file(File, fun(_) -> {ok, arrivals, {times_ms, File}} end);
value(arrivals, <<"counts:", Rest/binary>>) ->
    case binary:split(Rest, ~":") of
        [Interval, File] ->
            case dyno_cli_value:duration_ms(~"--arrivals", Interval) of
                {ok, Ms} ->
                    from_file(File, fun(Counts) ->
                        case lists:all(fun(N) -> is_integer(N) andalso N >= 0 end, Counts) of
                            true -> {ok, arrivals, {counts, Ms, File}};
                            false -> error
                        end
                    end);
                {error, _} ->
                    error
            end;
        _ ->
            error
    end;
value(Name, Text) when Name =:= workers; Name =:= iterations ->
    case string:to_integer(Text) of
        {N, <<>>} when is_integer(N), N > 0 -> {ok, Name, N};
        _ -> error
    end;
value(think, Text) ->
    Parts = [
        dyno_cli_value:duration_ms(~"--think", Part)
     || Part <- binary:split(Text, ~"..")
    ],
    case Parts of
        [{ok, Ms}] -> {ok, think_time_ms, Ms};
        [{ok, Low}, {ok, High}] when Low =< High -> {ok, think_time_ms, {uniform, Low, High}};
        _ -> error
    end;
value(search, Texts) ->
    {ok, objective, Texts};
value(_, _) ->
    error.

-spec from_file(binary(), fun(([number()]) -> Result)) -> Result | {error, reason()}.
from_file(File, Then) ->
    case dyno_load_arrivals:read(File) of
        {ok, Numbers} -> Then(Numbers);
        {error, Reason} -> {error, {arrivals, Reason}}
    end.

-spec numbers(binary(), binary()) -> {ok, [number()]} | error.
numbers(Text, Separator) ->
    Numbers = [number(string:trim(Part)) || Part <- binary:split(Text, Separator, [global])],
    case lists:member(error, Numbers) of
        true -> error;
        false -> {ok, [Number || Number <- Numbers, is_number(Number)]}
    end.

-spec number(binary()) -> number() | error.
number(Text) ->
    case string:to_float(Text) of
        {Float, <<>>} when is_float(Float) ->
            Float;
        _ ->
            case string:to_integer(Text) of
                {Integer, <<>>} when is_integer(Integer) -> Integer;
                _ -> error
            end
    end.

-spec load_nodes(binary() | none) ->
    {ok, #{load_nodes => [dyno_load_nodes:spec()]}} | {error, reason()}.
load_nodes(none) ->
    {ok, #{}};
load_nodes(Text) ->
    Specs = [load_node(string:trim(Part)) || Part <- binary:split(Text, ~",", [global])],
    case lists:member(error, Specs) of
        false -> {ok, #{load_nodes => [Spec || Spec <- Specs, Spec =/= error]}};
        true -> {error, {value, ~"--load-nodes", Text, accepted(load_nodes)}}
    end.

-spec load_node(binary()) -> dyno_load_nodes:spec() | error.
load_node(<<"ssh:", Host/binary>>) when Host =/= <<>> ->
    {ssh, unicode:characters_to_list(Host)};
load_node(Text) ->
    case {string:to_integer(Text), binary:split(Text, ~"@")} of
        {{N, <<>>}, _} when is_integer(N), N > 0, N =< 100 -> {peer, N};
        {_, [Name, Host]} when Name =/= <<>>, Host =/= <<>> -> binary_to_atom(Text);
        _ -> error
    end.

-spec accepted(atom()) -> string().
accepted(load) -> "closed or open (and --search EXPRESSION for the highest rate)";
accepted(rate) -> "operations a second above 0: 500, 10..1000 for a ramp, or 100,200,400 for steps";
accepted(arrivals) ->
    "even, poisson, times:FILE, or counts:INTERVAL:FILE such as counts:1s:day.csv";
accepted(think) -> "a time such as 20ms, or two such as 10ms..30ms";
accepted(load_nodes) -> "a number of nodes to start here (1 to 100), ssh:HOST, or NAME@HOST";
accepted(_) -> "a whole number from 1 up".

-doc "One sentence that says what is accepted.".
-spec format_error(reason()) -> unicode:chardata().
format_error({value, Option, Text, Accepted}) ->
    [Option, " takes ", Accepted, ", not \"", dyno_report_text:clean(Text), "\""];
format_error({contradiction, Option, Other, Why}) ->
    [Option, " and ", Other, " contradict each other: ", Why];
format_error({arrivals, Reason}) ->
    ["--arrivals: ", dyno_load_arrivals:format_error(Reason)].
