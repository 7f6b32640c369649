%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_call_rows).
-moduledoc false.
%% Reads times and words by function and process, and sums them by function and group.

-export([read/5, discoverers/1]).

-type table() :: dyno_agent_process_table:t() | none.

%% From this number of rows on, garbage is collected at once.
-define(MANY, 1000).

-doc """
Adds the paused rows of the modules' functions; returns the number of rows.

Functions are read one by one: all rows at once would be a large heap. Functions whose callers were
discovered without a message come first, so the groups of these processes are known for the others.
""".
-spec read([module()], Sessions, table(), dyno_agent_call_sums:overhead(), Sums) ->
    {Sums, Rows :: non_neg_integer()}
when
    Sessions :: dyno_agent_call_sessions:t(), Sums :: dyno_agent_call_sums:t().
read(Modules, Sessions, Table, Overhead, Sums) ->
    {Throttled, Groups} = groups(Table),
    All = [F || M <- Modules, F <- dyno_agent_call_sessions:functions(M, Sessions)],
    {First, Others} = lists:partition(fun(F) -> is_map_key(F, Throttled) end, All),
    {Added, _, Rows} = lists:foldl(
        fun(MFA, Acc) -> read_one(MFA, Throttled, Overhead, Sessions, Acc) end,
        {Sums, Groups, 0},
        First ++ Others
    ),
    _ = [garbage_collect() || Rows > ?MANY],
    {Added, Rows}.

read_one(MFA, Throttled, Overhead, Sessions, {Sums, Groups, Rows}) ->
    #{time := Time, memory := Memory} = Reading = dyno_agent_call_sessions:rows(MFA, Sessions),
    Known =
        case {Groups, Throttled} of
            {#{}, #{MFA := Id}} -> maps:merge(maps:from_keys(callers(Time, Memory), Id), Groups);
            _ -> Groups
        end,
    With = Overhead#{group_of => group_of(Known)},
    Next = dyno_agent_call_sums:add(MFA, Reading, With, Sums),
    {Next, Known, Rows + length(Time) + length(Memory)}.

callers([], Memory) -> [P || {P, Calls, _} <- Memory, Calls > 0];
callers(Time, _Memory) -> [P || {P, Calls, _, _} <- Time, Calls > 0].

-spec discoverers(table()) -> [mfa()].
discoverers(none) ->
    [];
discoverers(Table) ->
    [F || {first_call, F} <- there(fun() -> dyno_agent_process_table:kinds(Table) end, [])].

groups(none) ->
    {#{}, none};
groups(Table) ->
    Read = fun() ->
        {dyno_agent_process_table:throttled(Table), dyno_agent_process_table:groups(Table)}
    end,
    there(Read, {#{}, #{}}).

%% All instruments end together: the table may be gone.
there(Read, Gone) ->
    try
        Read()
    catch
        error:badarg -> Gone
    end.

group_of(none) -> none;
group_of(Groups) -> fun(Pid) -> maps:get(Pid, Groups, other) end.
