%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_stack_unmet).
-moduledoc false.
%% Finds processes that work and are never met while they run, such as one of priority max on a node
%% of one scheduler: dyno has no turn while that one runs. Their reductions tell of them; they are
%% not time, which stays unknown.

-export([watch/3, met/2, unmet/2]).
-export_type([t/0]).

-type t() :: #{
    pid() => met | {Reductions :: non_neg_integer(), All :: non_neg_integer(), Met :: number()}
}.

-define(AT_ONCE, 10).
-define(MOST, 300).
-define(LEAST_SHARE, 0.02).
%% If 6 meetings are expected, none is chance in 1 of 400 cases.
-define(SURELY, 6).

-doc "Begins to watch these processes, the busiest first, after this number of met processes.".
-spec watch([pid()], Met :: number(), t()) -> t().
watch(Busy, Met, Watched) when map_size(Watched) < ?MOST ->
    {All, _} = erlang:statistics(reductions),
    New = maps:from_list([
        {Pid, {Reductions, All, Met}}
     || Pid <- lists:sublist(Busy, ?AT_ONCE),
        {reductions, Reductions} <- [process_info(Pid, reductions)]
    ]),
    maps:merge(New, Watched);
watch(_Busy, _Met, Watched) ->
    Watched.

-doc "A look met the process while it ran.".
-spec met(pid(), t()) -> t().
met(Pid, Watched) when is_map_key(Pid, Watched) -> Watched#{Pid := met};
met(_Pid, Watched) -> Watched.

-doc "The process that was never met and has most of the reductions: their share, and its name.".
-spec unmet(Met :: number(), t()) -> {float(), binary()} | none.
unmet(Met, Watched) ->
    {AllNow, _} = erlang:statistics(reductions),
    Found = [
        {Share, Pid}
     || Pid := {Before, All, From} <- Watched,
        {reductions, Now} <- [process_info(Pid, reductions)],
        Share <- [(Now - Before) / max(1, AllNow - All)],
        Share > ?LEAST_SHARE,
        Share * (Met - From) > ?SURELY
    ],
    case lists:reverse(lists:sort(Found)) of
        [] -> none;
        [{Share, First} | _] -> {min(1.0, Share), name(First)}
    end.

name(Pid) ->
    case process_info(Pid, registered_name) of
        {registered_name, Name} -> atom_to_binary(Name);
        _ -> list_to_binary(pid_to_list(Pid))
    end.
