%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_stack_waits).
-moduledoc false.
%% Sums of waiting processes by stack, from which the caller's side estimates their number
%% (dyno_agent_stack_result). At an instant three kinds are asked: registered names, each for
%% itself; processes known to have messages waiting; and a random sample of all others, each of
%% which counts for the unasked ones too. Pure except for the random choice.

-export([new/0, choose/2, asked/3, add/5, read/1]).
-export_type([t/0, reading/0, kind/0, how/0]).

-opaque t() :: #{
    tree := dyno_agent_stack_tree:t(),
    instants := non_neg_integer(),
    %% Questions to each name, and to others, with the number they stand for.
    names := #{atom() => pos_integer()},
    asked := non_neg_integer(),
    of_all := number()
}.

-doc "A registered name; one of a kind asked completely; or one that counts for this number.".
-type kind() :: {name, atom()} | {each, number()} | {some, number()}.

-doc "Waits for a message, is suspended (by a busy port), or is in a system call.".
-type how() :: receives | suspended | system_call.

-doc """
Paths begin with `{how(), Of}`: a group, or `{name, Name}`. Their sums: processes, messages, bytes,
and the chosen ones among the others.
""".
-type reading() :: #{
    paths := [{[term(), ...], [number()]}],
    instants := non_neg_integer(),
    names := #{atom() => pos_integer()},
    asked := non_neg_integer(),
    of_all := number()
}.

-define(NODES, 5000).
-define(NAMES, 64).
-define(QUEUED, 8).
-define(OTHERS, 32).

-spec new() -> t().
new() ->
    #{
        tree => dyno_agent_stack_tree:new(?NODES),
        instants => 0,
        names => #{},
        asked => 0,
        of_all => 0
    }.

-doc "Chooses whom to ask: some with names, or messages, and some others, with their number.".
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

-spec add(
    kind(),
    {how(), dyno_agent_stacks:group()},
    [term()],
    {Messages :: number(), Bytes :: number()},
    t()
) ->
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

-spec read(t()) -> reading().
read(#{tree := Tree} = Waits) ->
    (maps:remove(tree, Waits))#{paths => dyno_agent_stack_tree:paths(Tree)}.
