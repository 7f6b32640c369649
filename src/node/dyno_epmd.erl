%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_epmd).
-moduledoc false.
%% The node discovery of the program dyno (`-epmd_module`): OTP's or the user's `-epmd_module`,
%% which also sets this node's cookie.
%%
%% With `-nocookie` OTP reads no file and sets a well-known cookie. A node registers its name when
%% it already listens but does not accept yet. Only at this moment can the cookie be replaced
%% without a time in which another user of the machine could connect.

-export([start_link/0, register_node/3, port_please/2, port_please/3, address_please/3]).
-export([listen_port_please/2, names/1]).

-spec start_link() -> term().
start_link() ->
    call(start_link, []).

-spec register_node(string(), inet:port_number(), atom()) -> term().
register_node(Name, Port, Family) ->
    true = erlang:get_cookie() =/= nocookie orelse erlang:set_cookie(dyno_cookie:own()),
    call(register_node, [Name, Port, Family]).

-spec port_please(string(), inet:hostname() | inet:ip_address()) -> term().
port_please(Name, Host) ->
    call(port_please, [Name, Host]).

-spec port_please(string(), inet:hostname() | inet:ip_address(), timeout()) -> term().
port_please(Name, Host, Timeout) ->
    call(port_please, [Name, Host, Timeout]).

-spec address_please(string(), inet:hostname() | inet:ip_address(), inet | inet6) -> term().
address_please(Name, Host, Family) ->
    call(address_please, [Name, Host, Family]).

-spec listen_port_please(atom() | string(), inet:hostname() | inet:ip_address()) -> term().
listen_port_please(Name, Host) ->
    call(listen_port_please, [Name, Host]).

-spec names(inet:hostname() | inet:ip_address()) -> term().
names(Host) ->
    call(names, [Host]).

call(Function, Arguments) ->
    Module = used(),
    {module, Module} = code:ensure_loaded(Module),
    case erlang:function_exported(Module, Function, length(Arguments)) of
        true -> apply(Module, Function, Arguments);
        false -> apply(erl_epmd, Function, Arguments)
    end.

used() ->
    {ok, Named} = init:get_argument(epmd_module),
    case lists:append(Named) -- [?MODULE_STRING] of
        [Other | _] -> list_to_atom(Other);
        [] -> erl_epmd
    end.
