%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_groups).
-moduledoc false.
%% Sums and maxima by group of processes: the small knowledge of dyno_agent_discovery. Pure.

-export([new/0, id/2, may_have_names/2, count/2, count/4, lived/3]).
-export([begin_scan/1, sampled/2, end_scan/1, restart/2, read/1]).
-export_type([t/0, reading/0]).

-type id() :: dyno_agent_process_table:id().

-opaque t() :: #{
    groups := #{id() => group()},
    ids := #{dyno_agent_processes:group() => id()},
    memory := #{id() => non_neg_integer()}
}.

-type group() :: #{
    group := dyno_agent_processes:group(),
    ended_reductions := non_neg_integer(),
    discovered
    | unseen
    | sampled
    | memory_bytes
    | memory_max_bytes
    | message_queue_max :=
        non_neg_integer(),
    lives := dyno_agent_event_histogram:t()
}.

-type reading() :: #{id() => group()}.

%% Further kinds are one group.
-define(MAX_GROUPS, 2000).

-spec new() -> t().
new() -> #{groups => #{}, ids => #{}, memory => #{}}.

-spec id(dyno_agent_processes:group(), t()) -> {known | new, id(), t()}.
id(Kind, #{ids := Ids, groups := Groups} = All) ->
    case Ids of
        #{Kind := Id} ->
            {known, Id, All};
        #{} when map_size(Ids) >= ?MAX_GROUPS, Kind =/= other ->
            id(other, All);
        #{} ->
            Id = map_size(Ids) + 1,
            {new, Id, All#{ids := Ids#{Kind => Id}, groups := Groups#{Id => group(Kind, 0)}}}
    end.

group(Kind, Alive) ->
    #{
        group => Kind,
        discovered => Alive,
        sampled => Alive,
        unseen => 0,
        ended_reductions => 0,
        memory_bytes => 0,
        memory_max_bytes => 0,
        message_queue_max => 0,
        lives => dyno_agent_event_histogram:new()
    }.

-spec may_have_names([{pid(), id()}], t()) -> [{pid(), id()}].
may_have_names(Rows, #{groups := Groups}) ->
    [
        Row
     || {_, Id} = Row <- Rows,
        #{Id := #{group := {Kind, _}}} <- [Groups],
        Kind =:= initial_call orelse Kind =:= first_call
    ].

update(Id, Update, #{groups := Groups} = All) ->
    All#{groups := Groups#{Id := Update(map_get(Id, Groups))}}.

-spec count(id(), integer(), integer(), t()) -> t().
count(Id, More, Sampled, All) ->
    Count = fun(#{discovered := N, sampled := S} = Group) ->
        Group#{discovered := N + More, sampled := S + Sampled}
    end,
    update(Id, Count, All).

-spec count(#{id() => non_neg_integer()}, t()) -> t().
count(More, All) ->
    Unseen = fun(Count) ->
        fun(#{discovered := N, unseen := U} = Group) ->
            Group#{discovered := N + Count, unseen := U + Count}
        end
    end,
    maps:fold(fun(Id, Count, Acc) -> update(Id, Unseen(Count), Acc) end, All, More).

-spec lived(id(), Ns :: non_neg_integer(), t()) -> t().
lived(Id, Ns, All) ->
    Lived = fun(#{lives := Lives} = Group) ->
        Group#{lives := dyno_agent_event_histogram:record(Ns, Lives)}
    end,
    update(Id, Lived, All).

-spec begin_scan(t()) -> t().
begin_scan(All) -> All#{memory := #{}}.

-spec sampled(dyno_agent_process_table:sample(), t()) -> t().
sampled({idle, Id, Bytes}, All) ->
    add_bytes(Id, Bytes, All);
sampled({ran, Id, Bytes, Queue}, All) ->
    Ran = fun(#{message_queue_max := Longest} = Group) ->
        Group#{message_queue_max := max(Longest, Queue)}
    end,
    add_bytes(Id, Bytes, update(Id, Ran, All));
sampled({ended, Id, _Pid, Reductions}, All) ->
    Ended = fun(#{ended_reductions := Sum} = Group) ->
        Group#{ended_reductions := Sum + Reductions}
    end,
    update(Id, Ended, All).

add_bytes(Id, Bytes, #{memory := Memory} = All) ->
    All#{memory := maps:update_with(Id, fun(Sum) -> Sum + Bytes end, Bytes, Memory)}.

-spec end_scan(t()) -> t().
end_scan(#{groups := Groups, memory := Memory} = All) ->
    Update = fun(Id, #{memory_max_bytes := Max} = Group) ->
        Bytes = maps:get(Id, Memory, 0),
        Group#{memory_bytes := Bytes, memory_max_bytes := max(Max, Bytes)}
    end,
    All#{groups := maps:map(Update, Groups), memory := #{}}.

-spec restart(#{id() => pos_integer()}, t()) -> t().
restart(Alive, #{groups := Groups} = All) ->
    Restart = fun(Id, #{group := Kind}) -> group(Kind, maps:get(Id, Alive, 0)) end,
    All#{groups := maps:map(Restart, Groups)}.

-spec read(t()) -> reading().
read(#{groups := Groups}) -> Groups.
