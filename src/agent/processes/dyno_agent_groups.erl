%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_groups).
-moduledoc false.
%% All groups of processes, by their numbers: what dyno_agent_discovery knows of processes when it
%% has found out of what kind they are. Pure.

-export([new/0, id/2, may_have_names/2, update/3, count/2, count/4]).
-export([begin_scan/1, sampled/2, end_scan/1, restart/2, results/2]).
-export_type([t/0]).

-type id() :: dyno_agent_process_table:id().

-opaque t() :: #{
    groups := #{id() => dyno_agent_group:t()},
    ids := #{dyno_agent_processes:group() => id()},
    %% Memory by group in the scan under way.
    memory := #{id() => non_neg_integer()}
}.

%% Processes of more kinds than that are one group.
-define(MAX_GROUPS, 2000).

-spec new() -> t().
new() -> #{groups => #{}, ids => #{}, memory => #{}}.

-doc "The number of a kind, and whether it is a new one.".
-spec id(dyno_agent_processes:group(), t()) -> {known | new, id(), t()}.
id(Kind, #{ids := Ids, groups := Groups} = All) ->
    case Ids of
        #{Kind := Id} ->
            {known, Id, All};
        #{} when map_size(Ids) >= ?MAX_GROUPS, Kind =/= other ->
            id(other, All);
        #{} ->
            Id = map_size(Ids) + 1,
            {new, Id, All#{
                ids := Ids#{Kind => Id}, groups := Groups#{Id => dyno_agent_group:new(Kind)}
            }}
    end.

-doc "Those of some processes whose groups say nothing of a name: one may have come since.".
-spec may_have_names([{pid(), id()}], t()) -> [{pid(), id()}].
may_have_names(Rows, #{groups := Groups}) ->
    [
        Row
     || {_, Id} = Row <- Rows,
        {Kind, _} <- [dyno_agent_group:kind(map_get(Id, Groups))],
        Kind =:= initial_call orelse Kind =:= first_call
    ].

-spec update(id(), fun((dyno_agent_group:t()) -> dyno_agent_group:t()), t()) -> t().
update(Id, Update, #{groups := Groups} = All) ->
    All#{groups := Groups#{Id := Update(map_get(Id, Groups))}}.

-doc "So many more processes of a group, and so many more that were sampled.".
-spec count(id(), integer(), integer(), t()) -> t().
count(Id, More, Sampled, All) ->
    update(Id, fun(Group) -> dyno_agent_group:count(More, Sampled, Group) end, All).

-doc "So many more processes of groups, none of which was sampled.".
-spec count(#{id() => non_neg_integer()}, t()) -> t().
count(More, All) ->
    maps:fold(fun(Id, Count, Acc) -> count(Id, Count, 0, Acc) end, All, More).

-spec begin_scan(t()) -> t().
begin_scan(All) -> All#{memory := #{}}.

-doc "A sample of a process.".
-spec sampled(dyno_agent_process_table:sample(), t()) -> t().
sampled({idle, Id, Bytes}, All) ->
    add_bytes(Id, Bytes, All);
sampled({ran, Id, Bytes, Queue, Collections}, All) ->
    Ran = fun(Group) -> dyno_agent_group:ran(Queue, Collections, Group) end,
    add_bytes(Id, Bytes, update(Id, Ran, All));
sampled({ended, Id, _Pid, Reductions}, All) ->
    update(Id, fun(Group) -> dyno_agent_group:ended(Reductions, Group) end, All).

add_bytes(Id, Bytes, #{memory := Memory} = All) ->
    All#{memory := maps:update_with(Id, fun(Sum) -> Sum + Bytes end, Bytes, Memory)}.

-spec end_scan(t()) -> t().
end_scan(#{groups := Groups, memory := Memory} = All) ->
    Update = fun(Id, Group) -> dyno_agent_group:memory(maps:get(Id, Memory, 0), Group) end,
    All#{groups := maps:map(Update, Groups), memory := #{}}.

-doc "Counts from now on, with so many of each group that are alive.".
-spec restart(#{id() => pos_integer()}, t()) -> t().
restart(Alive, #{groups := Groups} = All) ->
    Restart = fun(Id, Group) -> dyno_agent_group:restart(maps:get(Id, Alive, 0), Group) end,
    All#{groups := maps:map(Restart, Groups)}.

-doc "What is reported, with how many of each group are alive and their reductions.".
-spec results(#{id() => {non_neg_integer(), non_neg_integer()}}, t()) ->
    [dyno_agent_group:results()].
results(Alive, #{groups := Groups}) ->
    [
        dyno_agent_group:results(maps:get(Id, Alive, {0, 0}), Group)
     || Id := Group <- Groups, dyno_agent_group:size(Group) > 0
    ].
