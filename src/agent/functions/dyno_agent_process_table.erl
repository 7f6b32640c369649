%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_process_table).
-moduledoc false.
%% The discovered processes with their group numbers. dyno_agent_processes writes the table; any
%% instrument on the node may read it: call statistics are by process, and the table maps processes
%% to groups.
%%
%% A row of a live sampled process is `{Pid, Id, FirstReductions, LastReductions, Bytes}`, 10 words
%% in all. A row of a process not sampled yet, or ended with calls still unread, is `{Pid, Id}`.
%% Larger terms would be copied into each row, so group names have a table of their own, which also
%% holds the throttled functions (dyno_agent_throttle).

%% To read
-export([group_of/2, groups/1, group/2, kinds/1, throttled/1]).
%% To write
-export([new/0, is_known/2, write/2]).
%% To sample
-export([restart/1, scan/1, scan_on/2, end_scan/1, alive/1]).
-export_type([t/0, id/0, row/0, change/0, sample/0, continuation/0]).

-opaque t() :: {Processes :: ets:table(), Groups :: ets:table()}.

-type id() :: pos_integer().

-type row() ::
    {pid(), id()}
    | {
        pid(),
        id(),
        First :: non_neg_integer(),
        Last :: non_neg_integer(),
        Bytes :: non_neg_integer()
    }.

-type change() ::
    {insert, row() | [row()]}
    | {move, pid(), id()}
    | {delete, [pid()]}
    | {name, id(), dyno_agent_processes:group()}
    | {throttled, #{mfa() => id()}}.

-doc "How a process was found that lived at the last scan: not run since, has run, or ended.".
-type sample() ::
    {idle, id(), Bytes :: pos_integer()}
    | {ran, id(), Bytes :: non_neg_integer(), Queue :: non_neg_integer()}
    | {ended, id(), pid(), Reductions :: non_neg_integer()}.

-opaque continuation() :: term().

-define(BATCH, 100).
-define(SAMPLED, {'$1', '$2', '_', '_', '_'}).

-spec new() -> t().
new() ->
    {ets:new(?MODULE, [protected, {read_concurrency, true}]), ets:new(?MODULE, [protected])}.

-doc "The group number; unknown if not discovered, or not yet.".
-spec group_of(pid(), t()) -> {ok, id()} | unknown.
group_of(Pid, {Processes, _}) ->
    case ets:lookup_element(Processes, Pid, 2, unknown) of
        unknown -> unknown;
        Id -> {ok, Id}
    end.

-spec groups(t()) -> #{pid() => id()}.
groups({Processes, _}) ->
    Row = [{{'$1', '$2'}}],
    maps:from_list(ets:select(Processes, [{{'$1', '$2'}, [], Row}, {?SAMPLED, [], Row}])).

-spec group(id() | other, t()) -> dyno_agent_processes:group().
group(other, _Table) -> other;
group(Id, {_, Groups}) -> ets:lookup_element(Groups, Id, 2).

-spec kinds(t()) -> [dyno_agent_processes:group()].
kinds({_, Groups}) -> ets:select(Groups, [{{'$1', '$2'}, [{is_integer, '$1'}], ['$2']}]).

-spec throttled(t()) -> #{mfa() => id()}.
throttled({_, Groups}) -> ets:lookup_element(Groups, throttled, 2, #{}).

-spec is_known(pid(), t()) -> boolean().
is_known(Pid, {Processes, _}) -> ets:member(Processes, Pid).

-spec write(change(), t()) -> ok.
write(Change, {Processes, Groups}) ->
    case Change of
        {insert, Rows} -> true = ets:insert(Processes, Rows);
        {move, Pid, Id} -> true = ets:update_element(Processes, Pid, {2, Id});
        {delete, Pids} -> lists:foreach(fun(Pid) -> ets:delete(Processes, Pid) end, Pids);
        {name, Id, Group} -> true = ets:insert(Groups, {Id, Group});
        {throttled, Functions} -> true = ets:insert(Groups, {throttled, Functions})
    end,
    ok.

-doc "Counts reductions from now on; returns live processes by group, and those that ended since.".
-spec restart(t()) -> {#{id() => pos_integer()}, Ended :: [pid()]}.
restart({Processes, _}) ->
    lists:foldl(
        fun({Pid, Id}, {Alive, Ended}) ->
            case process_info(Pid, reductions) of
                {reductions, Reductions} ->
                    true = ets:insert(Processes, {Pid, Id, Reductions, Reductions, 0}),
                    {maps:update_with(Id, fun(N) -> N + 1 end, 1, Alive), Ended};
                undefined ->
                    true = ets:insert(Processes, {Pid, Id}),
                    {Alive, [Pid | Ended]}
            end
        end,
        {#{}, []},
        ets:select(Processes, [{?SAMPLED, [], [{{'$1', '$2'}}]}])
    ).

-doc "Samples the first processes until `end_scan/1`: 1 us each, 5 us if it has run since.".
-spec scan(t()) -> {[sample()], continuation()} | done.
scan({Processes, _} = Table) ->
    true = ets:safe_fixtable(Processes, true),
    sample(ets:match_object(Processes, {'_', '_', '_', '_', '_'}, ?BATCH), Table).

-spec scan_on(continuation(), t()) -> {[sample()], continuation()} | done.
scan_on(Continuation, Table) ->
    sample(ets:match_object(Continuation), Table).

-spec end_scan(t()) -> ok.
end_scan({Processes, _}) ->
    true = ets:safe_fixtable(Processes, false),
    ok.

sample('$end_of_table', _Table) ->
    done;
sample({Rows, Continuation}, {Processes, _}) ->
    {[sample_one(Row, Processes) || Row <- Rows], Continuation}.

sample_one({Pid, Id, First, Last, Bytes}, Processes) ->
    case process_info(Pid, [reductions, message_queue_len]) of
        undefined ->
            true = ets:insert(Processes, {Pid, Id}),
            {ended, Id, Pid, Last - First};
        [{reductions, Last}, {message_queue_len, 0}] when Bytes > 0 ->
            %% It has not run since: its memory is the same, and asking would wake it.
            {idle, Id, Bytes};
        [{reductions, Reductions}, {message_queue_len, Queue}] ->
            {Seen, Now} = dyno_agent_process:holds(Pid, {Reductions, Queue}, Bytes),
            _ = ets:update_element(Processes, Pid, [{4, Seen}, {5, Now}]),
            {ran, Id, Now, Queue}
    end.

-spec alive(t()) -> #{id() => {Count :: pos_integer(), Reductions :: non_neg_integer()}}.
alive({Processes, _}) ->
    ets:foldl(
        fun
            ({_, Id, First, Last, _}, Acc) ->
                {N, R} = maps:get(Id, Acc, {0, 0}),
                Acc#{Id => {N + 1, R + Last - First}};
            (_, Acc) ->
                Acc
        end,
        #{},
        Processes
    ).
