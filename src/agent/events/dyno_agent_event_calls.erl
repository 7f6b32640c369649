%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_event_calls).
-moduledoc false.
%% Open calls of each process: finds the call that a return belongs to. Pure.
%%
%% With `return_trace` a call returns after the calls that it made, also after a tail call. If an
%% exception leaves a call, its unreturned inner calls are dropped.

-export([new/0, call/5, unseen/4, return/3, size/1, depth/2, same/3, last/3, open/1]).
-export_type([t/0]).

-opaque t() :: #{
    calls := #{pid() => [{mfa(), Start :: integer(), Tag :: term()}]},
    size := non_neg_integer()
}.

-spec new() -> t().
new() -> #{calls => #{}, size => 0}.

-spec call(pid(), mfa(), Start :: integer(), Tag :: term(), t()) -> t().
call(Pid, MFA, Start, Tag, #{calls := Calls, size := Size} = Open) ->
    Open#{calls := Calls#{Pid => [{MFA, Start, Tag} | maps:get(Pid, Calls, [])]}, size := Size + 1}.

-doc "Opens a call that is not shown: its return has the tag `unseen`, and is not its caller's.".
-spec unseen(pid(), mfa(), Start :: integer(), t()) -> t().
unseen(Pid, MFA, Start, #{calls := Calls} = Open) when is_map_key(Pid, Calls) ->
    call(Pid, MFA, Start, unseen, Open);
unseen(_Pid, _MFA, _Start, Open) ->
    Open.

-spec return(pid(), mfa(), t()) -> {{Start :: integer(), Tag :: term()}, t()} | none.
return(Pid, MFA, #{calls := Calls, size := Size} = Open) ->
    Stack = maps:get(Pid, Calls, []),
    case lists:dropwhile(fun({Of, _, _}) -> Of =/= MFA end, Stack) of
        [] ->
            none;
        [{MFA, Start, Tag} | Rest] ->
            Left =
                case Rest of
                    [] -> maps:remove(Pid, Calls);
                    _ -> Calls#{Pid := Rest}
                end,
            Gone = length(Stack) - length(Rest),
            {{Start, Tag}, Open#{calls := Left, size := Size - Gone}}
    end.

-spec size(t()) -> non_neg_integer().
size(#{size := Size}) -> Size.

-spec depth(pid(), t()) -> non_neg_integer().
depth(Pid, #{calls := Calls}) -> length(maps:get(Pid, Calls, [])).

-doc "The number of calls of this function among the last `Most` calls of a process.".
-spec same({pid(), mfa()}, Most :: pos_integer(), t()) -> non_neg_integer().
same({Pid, MFA}, Most, #{calls := Calls}) ->
    length([x || {Of, _, _} <- lists:sublist(maps:get(Pid, Calls, []), Most), Of =:= MFA]).

-doc "The last calls of a process, the latest first.".
-spec last(pid(), Most :: pos_integer(), t()) -> [{mfa(), Tag :: term()}].
last(Pid, Most, #{calls := Calls}) ->
    [{MFA, Tag} || {MFA, _, Tag} <- lists:sublist(maps:get(Pid, Calls, []), Most)].

-spec open(t()) -> [{pid(), mfa(), Start :: integer(), Tag :: term()}].
open(#{calls := Calls}) ->
    [{Pid, MFA, Start, Tag} || Pid := Of <- Calls, {MFA, Start, Tag} <- Of].
