%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_stack_waits).
-moduledoc false.
%% Estimates the number of processes waiting in each stack. At an instant three kinds are asked:
%% registered names, each for itself; processes known to have messages waiting; and a random sample
%% of all others, each of which counts for the unasked ones too. Pure except for the random choice.

-export([new/0, choose/2, asked/3, add/5, waiting/1]).
-export_type([t/0, kind/0, waiting/0]).

-opaque t() :: #{
    tree := dyno_agent_stack_tree:t(),
    instants := non_neg_integer(),
    %% Questions to each name, and to others, with the number they stand for.
    names := #{atom() => pos_integer()},
    asked := non_neg_integer(),
    of_all := number()
}.

-type group() :: dyno_agent_stacks:group().

-doc """
A registered name; one of a kind that was asked completely; or one that counts for this number.
""".
-type kind() :: {name, atom()} | {each, number()} | {some, number()}.

-doc "Waits for a message, is suspended (by a busy port), or is in a system call.".
-type how() :: receives | suspended | system_call.

-doc """
Averages of a stack: waiting processes, messages and bytes; and the bounds of the number of
processes. The bounds are unknown if only time was sampled.
""".
-type waiting() :: {how(), group(), dyno_agent_stacks:stack(), {
    number(), Messages :: number(), Bytes :: number(), {Low :: number(), High :: number()} | none
}}.

-define(NODES, 5000).
-define(NAMES, 64).
-define(QUEUED, 8).
-define(OTHERS, 32).
%% Of a normal distribution, for 95 %.
-define(Z, 1.96).

-spec new() -> t().
new() ->
    #{
        tree => dyno_agent_stack_tree:new(?NODES),
        instants => 0,
        names => #{},
        asked => 0,
        of_all => 0
    }.

-doc """
Chooses processes to ask: some with names, some with waiting messages, some others; and the number
of others.
""".
-spec choose(Queued :: [pid()], dyno_agent_stack_census:t()) ->
    {[{pid(), kind()}], Others :: non_neg_integer()}.
choose(Queued, Census) ->
    Named = #{Pid => Name || Name <- registered(), Pid <- [whereis(Name)], is_pid(Pid)},
    WithMessages = [Pid || Pid <- Queued, not is_map_key(Pid, Named)],
    Known = maps:merge(Named, maps:from_keys(WithMessages, [])),
    Chosen = dyno_agent_stack_census:some(?OTHERS, Census),
    Others = [Pid || Pid <- Chosen, not is_map_key(Pid, Known)],
    Count = max(length(Others), dyno_agent_stack_census:count(Census) - map_size(Known)),
    Each = some(?QUEUED, WithMessages),
    {
        [{Pid, {name, map_get(Pid, Named)}} || Pid <- some(?NAMES, maps:keys(Named))] ++
            [{Pid, {each, length(WithMessages) / length(Each)}} || Pid <- Each] ++
            [{Pid, {some, Count / length(Others)}} || Pid <- Others],
        Count
    }.

some(Most, Pids) when length(Pids) =< Most -> Pids;
some(Most, Pids) ->
    [Pid || {_, Pid} <- lists:sublist(lists:sort([{rand:uniform(), Pid} || Pid <- Pids]), Most)].

-spec asked([{pid(), kind()}], Others :: non_neg_integer(), t()) -> t().
asked(Chosen, Count, Waits) ->
    #{instants := Instants, names := Before, asked := Asked, of_all := OfAll} = Waits,
    Once = maps:from_keys([Name || {_, {name, Name}} <- Chosen], 1),
    Waits#{
        instants := Instants + 1,
        names := maps:merge_with(fun(_, A, B) -> A + B end, Before, Once),
        asked := Asked + length([x || {_, {some, _}} <- Chosen]),
        of_all := OfAll + Count
    }.

-spec add(kind(), {how(), group()}, [term()], {Messages :: number(), Bytes :: number()}, t()) ->
    t().
add(Kind, {How, Group}, Path, {Messages, Bytes}, #{tree := Tree} = Waits) ->
    {Of, Weight, Chosen} =
        case Kind of
            {name, Name} -> {{name, Name}, 1, 0};
            {each, Each} -> {Group, Each, 0};
            {some, Each} when Each > 1 -> {Group, Each, 1};
            {some, Each} -> {Group, Each, 0}
        end,
    Weights = [Weight, Weight * Messages, Weight * Bytes, Chosen],
    Waits#{tree := dyno_agent_stack_tree:add([{How, Of} | Path], Weights, Tree)}.

-spec waiting(t()) -> [waiting()].
waiting(#{tree := Tree} = Waits) ->
    Sums = lists:foldl(
        fun({[Root | Path], Weights}, Acc) ->
            Key = {Root, dyno_agent_stack_samples:without_line(Path)},
            Acc#{Key => dyno_agent_stack_tree:plus(maps:get(Key, Acc, 0), Weights)}
        end,
        #{},
        dyno_agent_stack_tree:paths(Tree)
    ),
    [
        {How, group(Of), Stack, mean(Of, Weights, Waits)}
     || {{How, Of}, Stack} := Weights <- Sums
    ].

group({name, Name}) -> {registered, Name};
group(Group) -> Group.

mean({name, Name}, [Sum, Messages, Bytes, _], #{names := Names}) ->
    #{Name := Asked} = Names,
    {Sum / Asked, Messages / Asked, Bytes / Asked, bounds(Sum, Asked)};
mean(_Group, [Sum, Messages, Bytes, Chosen], Waits) ->
    #{instants := Instants, asked := Asked, of_all := OfAll} = Waits,
    Bounds =
        case Chosen of
            0 ->
                none;
            _ ->
                {Low, High} = bounds(Chosen, Asked),
                {Low * OfAll / Instants, High * OfAll / Instants}
        end,
    {Sum / Instants, Messages / Instants, Bytes / Instants, Bounds}.

%% E. B. Wilson's score interval.
bounds(Found, Asked) ->
    Share = Found / Asked,
    Square = ?Z * ?Z / Asked,
    Middle = (Share + Square / 2) / (1 + Square),
    Half = ?Z * math:sqrt(Share * (1 - Share) / Asked + Square / (4 * Asked)) / (1 + Square),
    {max(0.0, Middle - Half), min(1.0, Middle + Half)}.
