%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_server_names).
-moduledoc false.
%% The names behind the numbers of the hooks: of series, of other stages, of the process itself; and
%% the processes with a hook. The table outlives the instrument: its heir, which runs none of the
%% agent's code, then removes the hooks, also of processes that receive no message for long.

-export([new/0, kind/1, in_state/2, done/2]).
-export([names/2, name/2, name/3, tell/2, peers/2, hooks/3, hooked/1, forget/2, unhook_all/1]).

-define(UNHOOK, """
Ref = monitor(process, Owner),
receive
    {'ETS-TRANSFER', Table, Owner, none} ->
        [Pid ! {system, {self(), Ref}, {debug, {remove, Id}}}
         || [Pid] <- ets:match(Table, {{'$1', hooked, 1}, '_'})];
    {'DOWN', Ref, process, Owner, _} ->
        ok
end.
""").

-spec new() -> ets:table().
new() ->
    {ok, Tokens, _} = erl_scan:string(?UNHOOK),
    {ok, Expressions} = erl_parse:parse_exprs(Tokens),
    Bindings = #{'Owner' => self(), 'Id' => dyno_agent_server_hook:id()},
    Heir = spawn(erl_eval, exprs, [Expressions, Bindings]),
    ets:new(?MODULE, [ordered_set, public, {heir, Heir, none}]).

-doc "The kind of a message: its first element, so the number of kinds does not grow with load.".
-spec kind(term()) -> atom().
kind(Atom) when is_atom(Atom) -> Atom;
kind(Tuple) when tuple_size(Tuple) > 0, is_atom(element(1, Tuple)) -> element(1, Tuple);
kind(#{'__struct__' := Module}) when is_atom(Module) -> Module;
kind(Tuple) when is_tuple(Tuple) -> '(tuple)';
kind(Map) when is_map(Map) -> '(map)';
kind(List) when is_list(List) -> '(list)';
kind(Binary) when is_binary(Binary) -> '(binary)';
kind(Number) when is_number(Number) -> '(number)';
kind(_Other) -> '(other)'.

-spec in_state(State :: term(), Type :: term()) -> {atom(), atom()}.
in_state(State, {Type, _}) -> {kind(State), Type};
in_state(State, Type) -> {kind(State), Type}.

-doc "A postponed event comes again, and is a message once.".
-spec done(consume | postpone, {atom(), atom()}) -> {atom(), atom()}.
done(postpone, {State, call}) -> {State, 'call (postponed)'};
done(postpone, {State, cast}) -> {State, 'cast (postponed)'};
done(postpone, {State, info}) -> {State, 'info (postponed)'};
done(_Done, Callback) -> Callback.

-spec names(pid(), dyno_agent_server_hook:shared()) ->
    #{dyno_agent_server_counters:series() => dyno_agent_server_hook:name()}.
names(Pid, #{names := Table}) ->
    #{Series => Name || [Series, Name] <- ets:match(Table, {{Pid, series, '$1'}, '$2'})}.

-doc "The name that `global` or a `via` module has of it.".
-spec name(pid(), dyno_agent_server_hook:shared()) -> binary() | undefined.
name(Pid, #{names := Table}) -> ets:lookup_element(Table, {Pid, name, 1}, 2, undefined).

-doc "Only the process itself knows this name: it tells a name that is not its registered one.".
-spec tell(Name :: term(), dyno_agent_server_hook:shared()) -> ok.
tell(Name, _Shared) when is_pid(Name) ->
    ok;
tell(Name, #{names := Table}) ->
    case is_atom(Name) andalso whereis(Name) =:= self() of
        true -> ok;
        false -> name(self(), Name, Table)
    end.

-spec name(pid(), Name :: term(), ets:table()) -> ok.
name(Pid, Name, Table) ->
    true = ets:insert(Table, {{Pid, name, 1}, dyno_agent_process_filter:print_name(Name)}),
    ok.

-spec peers(pid(), dyno_agent_server_hook:shared()) ->
    {#{dyno_agent_server_counters:peer() => pid()}, module() | unknown, Type :: atom()}.
peers(Pid, #{names := Table}) ->
    Peers = #{Peer => Of || [Peer, Of] <- ets:match(Table, {{Pid, peer, '$1'}, '$2'})},
    {Module, Type} = ets:lookup_element(Table, {Pid, stage, 1}, 2, {unknown, unknown}),
    {Peers, Module, Type}.

-spec hooks(pid(), dyno_agent_server_counters:t(), dyno_agent_server_hook:shared()) -> ok.
hooks(Pid, Counters, #{names := Table}) ->
    true = ets:insert(Table, {{Pid, hooked, 1}, Counters}),
    ok.

-spec hooked(dyno_agent_server_hook:shared()) -> [{pid(), dyno_agent_server_counters:t()}].
hooked(#{names := Table}) ->
    ets:select(Table, [{{{'$1', hooked, 1}, '$2'}, [], [{{'$1', '$2'}}]}]).

-spec forget(pid(), dyno_agent_server_hook:shared()) -> ok.
forget(Pid, #{names := Table}) ->
    true = ets:match_delete(Table, {{Pid, '_', '_'}, '_'}),
    ok.

-doc "Removes all hooks: returns when each process was sent the request.".
-spec unhook_all(dyno_agent_server_hook:shared()) -> ok.
unhook_all(#{names := Table}) ->
    Heir = ets:info(Table, heir),
    Ref = monitor(process, Heir),
    true = ets:give_away(Table, Heir, none),
    receive
        {'DOWN', Ref, process, Heir, _} -> ok
    end.
