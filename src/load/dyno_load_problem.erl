%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_load_problem).
-moduledoc false.
%% Why a load could not be given, and the sentence for it.

-export([format_error/1, format_spec_error/1, suggestion/2]).
-export_type([reason/0]).

-type reason() ::
    {worker, module(), {bad_return, atom() | {operation, atom()}, term()}}
    | {worker, module(), {raised, atom(), atom(), term(), erlang:stacktrace()}}
    | {worker_died, module(), term()}
    | {stays, module(), Workers :: pos_integer(), TimeoutMs :: pos_integer()}
    | {not_ready, module(), Ready :: non_neg_integer(), pos_integer(), TimeoutMs :: pos_integer()}
    | {load_nodes, dyno_load_nodes:reason()}
    | {feeds, dyno_feed:reason()}
    | {node_lost, node()}
    | {crew_failed, node(), term()}
    | {no_node_left, node()}.

-doc "One sentence for a reason.".
-spec format_error(reason()) -> unicode:chardata().
format_error({worker, Module, {bad_return, init_worker, Value}}) ->
    io_lib:format(
        "~ts:init_worker/2 returned ~0tP; {ok, WorkerState} is expected", [Module, Value, 12]
    );
format_error({worker, Module, {bad_return, Operation, Value}}) ->
    Call =
        case Operation of
            operation -> "operation/1";
            {operation, Kind} -> io_lib:format("operation/2 of ~ts", [Kind])
        end,
    io_lib:format(
        "~ts:~ts returned ~0tP; {ok, WorkerState} or {error, Reason, WorkerState} is expected",
        [Module, Call, Value, 12]
    );
format_error({worker, Module, {raised, Function, Class, Reason, Stack}}) ->
    Arity = map_get(Function, #{init_worker => 2, end_worker => 1}),
    dyno_suite_caller:format_error({raised, {Module, Function, Arity}, Class, Reason, Stack});
format_error({worker_died, Module, Reason}) ->
    io_lib:format(
        "a worker of ~ts died: ~0tP; something its callbacks are linked to ended",
        [Module, Reason, 12]
    );
format_error({stays, Module, Workers, TimeoutMs}) ->
    io_lib:format(
        "~ts:end_worker/1 had not returned in ~b workers after ~b ms; they were killed",
        [Module, Workers, TimeoutMs]
    );
format_error({not_ready, Module, Ready, Count, TimeoutMs}) ->
    io_lib:format(
        "~ts:init_worker/2 had returned in ~b of ~b workers after ~b ms; "
        "raise timeout_ms in suite/0 if it needs longer",
        [Module, Ready, Count, TimeoutMs]
    );
format_error({load_nodes, Reason}) ->
    dyno_load_nodes:format_error(Reason);
format_error({feeds, Reason}) ->
    dyno_feed:format_error(Reason);
format_error({node_lost, Node}) ->
    io_lib:format("load node ~ts went down before the measured part", [Node]);
format_error({crew_failed, Node, Reason}) ->
    io_lib:format("the generator failed in load node ~ts: ~0tP", [Node, Reason, 12]);
format_error({no_node_left, Node}) ->
    io_lib:format("load node ~ts went down, and no other is left to go on with", [Node]).

-doc "One sentence for what is wrong with a load as a suite gives it.".
-spec format_spec_error(dyno_load_spec:reason()) -> unicode:chardata().
format_spec_error({bad_load, Load}) ->
    io_lib:format(
        "~0tP is not a load; accepted are closed, open, #{model => closed, workers => N}, "
        "#{model => open, rate_per_s => R}, #{model => phases, phases => [Load, ...]} and "
        "#{model => search, objective => \"latency.p99 < 50 ms\"}",
        [Load, 12]
    );
format_spec_error({bad_load_key, Model, Key, Value, Accepted}) ->
    io_lib:format(
        "~ts of the ~ts load is ~0tP; ~ts is accepted", [Key, Model, Value, 12, Accepted]
    );
format_spec_error({unknown_load_key, Model, Key, Known}) ->
    Names = lists:join(", ", [atom_to_list(K) || K <- Known]),
    io_lib:format("~0tp is not a key of ~ts load~ts; accepted are ~ts", [
        Key, article(Model), suggestion(Key, Known), Names
    ]);
format_spec_error({missing_load_key, Model, Key, Accepted}) ->
    io_lib:format("~ts load must give ~ts: ~ts", [article(Model), Key, Accepted]);
format_spec_error({both_load_keys, Key, Other}) ->
    io_lib:format(
        "a load gives ~ts, or a recorded curve as ~ts, not both", [Key, Other]
    );
format_spec_error({in_phase, Nth, Reason}) ->
    io_lib:format("phase ~b: ~ts", [Nth, format_spec_error(Reason)]);
format_spec_error({search_objective, Reason}) ->
    ["the search's objective: ", dyno_threshold:format_error(Reason)];
format_spec_error(gives_itself) ->
    "a suite of PerformERL gives its load itself; leave --load, --rate and the like out";
format_spec_error({search_metric, Text}) ->
    io_lib:format(
        "the search's objective \"~ts\" is not about the load; accepted are latency.*, service.*, "
        "throughput, errors.*, load.* and operation.KIND.*, as in \"latency.p99 < 50 ms\"",
        [Text]
    );
format_spec_error({arrivals_file, Reason}) ->
    dyno_load_arrivals:format_error(Reason).

-spec article(atom()) -> string().
article(open) -> "an open";
article(Model) -> "a " ++ atom_to_list(Model).

-doc "What was probably meant by a key that is not known.".
-spec suggestion(term(), [atom()]) -> unicode:chardata().
suggestion(Key, Known) when is_atom(Key) ->
    Text = atom_to_list(Key),
    Names = [atom_to_list(K) || K <- Known],
    case {[N || N <- Names, lists:prefix(Text, N)], dyno_agent_patterns:nearest(Text, Names)} of
        {[Name], _} -> [" (did you mean ", Name, "?)"];
        {_, {ok, Name}} -> [" (did you mean ", Name, "?)"];
        {_, none} -> ""
    end;
suggestion(_Key, _Known) ->
    "".
