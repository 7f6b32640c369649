%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_cli_nodes).
-moduledoc false.
%% The nodes of a command and the way to connect, the same for every command with NODE.
%%
%% `shop@host` is a node; `shop` alone is the node of that name on this machine, with a short or
%% long name. The cookie is from `--cookie`, `DYNO_COOKIE` or the user's file `.erlang.cookie`, in
%% this order.

-export([options/0, rows/0, cookie/0, connection/1, name/1, names/1, is_node/1, format_error/1]).
%% Processes
-export([processes/3, read/2]).

-spec options() -> {Title :: string(), [dyno_cli_option:row()]}.
options() ->
    {"Nodes", rows()}.

-spec rows() -> [dyno_cli_option:row()].
rows() ->
    [
        {"--name NAME", "the name of dyno's own Erlang node (default: dyno1, or the next free one)",
            atom},
        cookie()
    ].

-spec cookie() -> dyno_cli_option:row().
cookie() ->
    {"--cookie COOKIE",
        "the nodes' cookie; ps shows the option to other users, so prefer DYNO_COOKIE (default: "
        "DYNO_COOKIE, else this user's)", {custom, fun secret/1, ""}}.

%% Errors never repeat the cookie: messages may be logged.
secret(Text) ->
    case unicode:characters_to_binary(Text, utf8, latin1) of
        <<_, _/binary>> = Cookie when byte_size(Cookie) < 256 -> {ok, binary_to_atom(Text)};
        _ -> {error, {?MODULE, cookie}}
    end.

-spec format_error(cookie) -> unicode:chardata().
format_error(cookie) ->
    "a cookie (also that of DYNO_COOKIE) has 1 to 255 characters of Latin-1".

-doc "The connection options for `m:dyno_target_node`.".
-spec connection(dyno_cli_command:values()) -> #{name => atom(), cookie => atom()}.
connection(Values) ->
    maps:with([name, cookie], Values).

-spec name(binary()) -> {ok, node()} | error.
name(Text) ->
    case binary:split(Text, ~"@", [global]) of
        [<<_, _/binary>>, <<_, _/binary>>] when byte_size(Text) < 256 ->
            {ok, binary_to_atom(Text)};
        [<<_, _/binary>>] when byte_size(Text) < 128 ->
            case re:run(Text, ~"^[\\w.-]+$", [unicode, {capture, none}]) of
                match -> {ok, here(unicode:characters_to_list(Text))};
                nomatch -> error
            end;
        _ ->
            error
    end.

%% If there is no such node, connecting reports so.
here(Name) ->
    case dyno_target_probe:name(Name) of
        {ok, Node} ->
            Node;
        {error, _} ->
            {ok, Host} = inet:gethostname(),
            list_to_atom(Name ++ "@" ++ Host)
    end.

-doc "Whether a further argument is a node: NAME@HOST.".
-spec is_node(binary()) -> boolean().
is_node(Text) -> re:run(Text, "^[^\\s:(/]*@[^\\s:(/]*$", [{capture, none}]) =:= match.

-doc "The operand after NODE: processes and more nodes.".
-spec processes(dyno_process_filter:things(), For :: string(), Default :: string()) ->
    argparse:argument().
processes(Things, For, Default) ->
    Text = io_lib:format(
        "~ts: ~ts (default: ~ts); NAME@HOST is one more node",
        [For, dyno_process_filter:forms(Things), Default]
    ),
    dyno_cli_command:operand("[PROCESS...]", lists:flatten(Text), #{
        nargs => list, required => false, default => []
    }).

-doc "The nodes and processes of NODE and `processes/3`.".
-spec read([binary(), ...], dyno_process_filter:things()) ->
    {ok, [node(), ...], [dyno_process_filter:t()]} | {error, dyno_error:error()}.
read([First | Texts], Things) ->
    {Others, Filters} = lists:partition(fun is_node/1, Texts),
    maybe
        {ok, Nodes} ?= names([First | Others]),
        {ok, Read} ?= dyno_error:each(fun(T) -> dyno_process_filter:parse(T, Things) end, Filters),
        {ok, Nodes, Read}
    end.

-doc "The distinct nodes of operands.".
-spec names([binary()]) -> dyno_error:result([node()]).
names(Texts) ->
    Read = [{Text, name(Text)} || Text <- Texts],
    case [Text || {Text, error} <- Read] of
        [] ->
            {ok, lists:uniq([Node || {_, {ok, Node}} <- Read])};
        [Text | _] ->
            Format =
                "\"~ts\" is no name of a node; give one such as shop@host, or shop for one on this "
                "machine",
            dyno_cli_command:contradiction(io_lib:format(Format, [dyno_text:clean(Text)]))
    end.
