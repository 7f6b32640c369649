%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_shop).
-moduledoc false.
%% Starts a small shop in its own node, to try dyno: an application `shop` with servers, a pipeline,
%% an HTTP port on 127.0.0.1 and customers. Its source in `priv/shop/` is compiled here, so the node
%% needs no file of dyno's.

-export([start/1, stop/1, format_error/1, fault/1]).
-export_type([shop/0, reason/0]).

-type shop() :: #{node := node(), port := inet:port_number()}.

-type reason() ::
    {taken, Name :: string(), node()} | {not_compiled, file:filename()} | {not_started, term()}.

-doc "Starts the shop under a name without a host, linked to the caller.".
-spec start(Name :: string()) -> dyno_error:result(shop()).
start(Name) ->
    maybe
        ok ?= dyno_target_node:ensure_distribution(#{}),
        ok ?= is_free(Name),
        {ok, Objects} ?= dyno_error:each(fun object/1, dyno_priv:names("shop")),
        Arguments = ["-kernel", "logger_level", "none", "+Bi"],
        {ok, Node} ?= dyno_peer:start(#{full_name => Name, arguments => Arguments}),
        ok ?= opened(Node, Objects),
        {ok, #{node => Node, port => erpc:call(Node, shop_http, port, [])}}
    end.

is_free(Name) ->
    case dyno_target_probe:name(Name) of
        {ok, Node} -> {error, {?MODULE, {taken, Name, Node}}};
        {error, _} -> ok
    end.

%% Stacks show the name as if compiled there.
object(Name) ->
    File = filename:join("shop", Name),
    maybe
        {ok, Text} ?= dyno_priv:read(File),
        {ok, Tokens, _} ?= erl_scan:string(unicode:characters_to_list(Text)),
        Forms = [{attribute, 1, file, {File, 1}} | forms(Tokens)],
        {ok, Module, Binary} ?= compile:forms(Forms, [debug_info, {source, File}]),
        {ok, {Module, Binary, File}}
    else
        {error, {dyno_priv, _}} = Missing -> Missing;
        _ -> {error, {?MODULE, {not_compiled, File}}}
    end.

forms([]) ->
    [];
forms(Tokens) ->
    {Form, [Dot | Rest]} = lists:splitwith(fun(Token) -> element(1, Token) =/= dot end, Tokens),
    {ok, Parsed} = erl_parse:parse_form(Form ++ [Dot]),
    [Parsed | forms(Rest)].

opened(Node, Objects) ->
    Modules = [Module || {Module, _, _} <- Objects],
    Application =
        {application, shop, [
            {description, "A shop to try dyno with"},
            {vsn, "1"},
            {modules, Modules},
            {registered, [shop_sup]},
            {applications, [kernel, stdlib]},
            {mod, {shop, []}}
        ]},
    maybe
        ok ?= dyno_code:send(Node, Objects),
        ok ?= erpc:call(Node, application, load, [Application]),
        ok ?= erpc:call(Node, application, start, [shop])
    else
        {error, Reason} ->
            ok = dyno_peer:stop(Node),
            {error, {?MODULE, {not_started, Reason}}}
    end.

-spec stop(shop()) -> ok.
stop(#{node := Node}) ->
    dyno_peer:stop(Node).

-spec format_error(reason()) -> unicode:chardata().
format_error({taken, Name, Node}) ->
    io_lib:format(
        "a node ~ts runs already: ~ts; give the shop another name: dyno demo ~ts2",
        [Name, Node, Name]
    );
format_error({not_compiled, File}) ->
    [File, " cannot be compiled: install Erlang's compiler, or dyno again"];
format_error({not_started, Reason}) ->
    io_lib:format("the shop did not start: ~0tP; please report it", [Reason, 12]).

-spec fault(reason()) -> dyno_error:fault().
fault({taken, _, _}) -> caller;
fault(_Reason) -> dyno.
