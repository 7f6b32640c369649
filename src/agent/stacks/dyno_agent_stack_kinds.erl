%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_stack_kinds).
-moduledoc false.
%% The groups of sampled processes, also of those that have ended. An ended process gets the group
%% of living processes with the same first stack function; without any, that function is the group.

-export([new/2, with_own/2, restart/1, who/0, is_known/2, is_own/2, group/3, group/4]).
-export_type([t/0, group/0]).

-doc "`own`: dyno's processes. `elsewhere`: processes that are not selected.".
-type group() :: dyno_agent_stacks:group() | own | elsewhere.

-opaque t() :: #{
    table := dyno_agent_process_table:t() | none,
    choice := dyno_agent_process_filter:t(),
    kinds := #{pid() => group()},
    %% By the first function of the stack; `several` if living processes differ.
    learned := #{mfa() => dyno_agent_kind:kind() | own | several}
}.

-define(MOST_KINDS, 10_000).
-define(MOST_LEARNED, 2000).
-define(WHO, [registered_name, label, initial_call, {dictionary, '$initial_call'}]).
-define(OTP, [proc_lib, gen_server, gen_statem, gen_event, gen, supervisor, erl_eval]).
-define(BEHAVIOURS, [gen_server, gen_statem]).

-spec new(dyno_agent_process_table:t() | none, dyno_agent_process_filter:t()) -> t().
new(Table, Choice) ->
    #{table => Table, choice => Choice, kinds => #{}, learned => #{}}.

-doc "Processes of dyno.".
-spec with_own([pid()], t()) -> t().
with_own(Own, #{kinds := Kinds} = State) ->
    State#{kinds := maps:merge(Kinds, maps:from_keys(Own, own))}.

-doc "Forgets the processes, which may have got names meanwhile.".
-spec restart(t()) -> t().
restart(State) -> State#{kinds := #{}}.

-doc "The items of `process_info/2` that tell a kind.".
-spec who() -> [term()].
who() -> ?WHO.

-spec is_known(pid(), t()) -> boolean().
is_known(Pid, #{kinds := Kinds}) -> is_map_key(Pid, Kinds).

-spec is_own(pid(), t()) -> boolean().
is_own(Pid, #{kinds := Kinds}) -> maps:get(Pid, Kinds, unknown) =:= own.

-doc """
The group of a process that was seen with this stack.

## Cost
A signal to each new process.
""".
-spec group(pid(), dyno_agent_cpu_frames:stack(), t()) -> {group(), t()}.
group(Pid, Stack, State) ->
    Functions = [MFA || {_, _, _} = MFA <- Stack],
    Find = fun() ->
        case process_info(Pid, ?WHO) of
            undefined -> {ended(Functions, State), State};
            Who -> living(Who, Functions, State)
        end
    end,
    known(Pid, Find, State).

-doc "The same of a process that has answered `who/0` with its frames.".
-spec group(pid(), Who :: [{term(), term()}], [tuple()] | unseen, t()) -> {group(), t()}.
group(Pid, [], _Frames, State) ->
    known(Pid, fun() -> {other, State} end, State);
group(Pid, Who, Frames, State) ->
    known(Pid, fun() -> {dyno_agent_kind:by_stack(Who, Frames), State} end, State).

known(Pid, Find, #{kinds := Kinds, table := Table} = State) ->
    case Kinds of
        #{Pid := Group} ->
            {Group, State};
        #{} ->
            {Found, Next} =
                case Table =/= none andalso dyno_agent_process_table:group_of(Pid, Table) of
                    {ok, Id} -> {dyno_agent_process_table:group(Id, Table), State};
                    _ -> Find()
                end,
            Group = chosen(Pid, Found, State),
            Kept =
                case map_size(Kinds) < ?MOST_KINDS of
                    true -> Kinds;
                    false -> maps:filter(fun(_, Of) -> Of =:= own end, Kinds)
                end,
            {Group, Next#{kinds := Kept#{Pid => Group}}}
    end.

chosen(_Pid, own, _State) ->
    own;
chosen(Pid, Group, #{choice := Choice}) ->
    case dyno_agent_process_filter:is_chosen(Pid, Choice) of
        true -> Group;
        false -> elsewhere
    end.

living(Who, Functions, State) ->
    Frames = [{M, F, A, []} || {M, F, A} <- lists:reverse(Functions)],
    Kind = dyno_agent_kind:by_stack(Who, Frames),
    {Kind, learned(first(Functions), Kind, State)}.

%% A name belongs to one process.
learned(none, _Kind, State) ->
    State;
learned(_First, {registered, _}, State) ->
    State;
learned(First, Kind, #{learned := Learned} = State) ->
    case Learned of
        #{First := Kind} -> State;
        #{First := _} -> State#{learned := Learned#{First := several}};
        #{} when map_size(Learned) < ?MOST_LEARNED -> State#{learned := Learned#{First => Kind}};
        #{} -> State
    end.

ended(Functions, #{learned := Learned}) ->
    First = first(Functions),
    case Learned of
        #{First := Kind} when Kind =/= several -> Kind;
        #{} -> by_first(First, Functions)
    end.

by_first(none, _Functions) ->
    other;
by_first({M, F, _} = First, Functions) ->
    Kind =
        case [x || {Of, _, _} <- Functions, lists:member(Of, ?BEHAVIOURS)] of
            [_ | _] -> {initial_call, {M, init, 1}};
            [] -> {initial(atom_to_list(F)), First}
        end,
    case dyno_agent_kind:is_own(Kind) of
        true -> own;
        false -> Kind
    end.

initial([$- | _]) -> first_call;
initial(_Name) -> initial_call.

first(Functions) ->
    hd([MFA || {M, _, _} = MFA <- Functions, not lists:member(M, ?OTP)] ++ [none]).
