%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_cli_nodes).
-moduledoc """
Which nodes a command is about, and how dyno gets into them: the same for every command that takes
NODE.

`shop@host` is a node; `shop` alone is the one of that name on this machine, whether its name is a
short or a long one. The cookie is that of `--cookie`, else of the environment's `DYNO_COOKIE`, else
of the user's file `.erlang.cookie`.
""".

-export([options/0, rows/0, cookie/0, connection/1, name/1, names/1, is_node/1, format_error/1]).
%% And which processes there
-export([processes/3, read/2]).

-doc "The options under the heading of nodes.".
-spec options() -> {Title :: string(), [dyno_cli_option:row()]}.
options() ->
    {"Nodes", rows()}.

-doc "The same without a heading.".
-spec rows() -> [dyno_cli_option:row()].
rows() ->
    [
        {"--name NAME", "the name of dyno's own Erlang node (default: dyno1, or the next free one)",
            atom},
        cookie()
    ].

-doc "The one with which nodes let each other in.".
-spec cookie() -> dyno_cli_option:row().
cookie() ->
    {"--cookie COOKIE",
        "the cookie of the Erlang nodes; ps shows the option to other users, so prefer DYNO_COOKIE "
        "(default: DYNO_COOKIE, else this user's)",
        {custom, fun secret/1, ""}}.

%% Nothing repeats the text: what is said may end up in a log.
secret(Text) ->
    case unicode:characters_to_binary(Text, utf8, latin1) of
        <<_, _/binary>> = Cookie when byte_size(Cookie) < 256 -> {ok, binary_to_atom(Text)};
        _ -> {error, {?MODULE, cookie}}
    end.

-spec format_error(cookie) -> unicode:chardata().
format_error(cookie) ->
    "a cookie (also that of DYNO_COOKIE) has 1 to 255 characters of Latin-1".

-doc "What these say, for `m:dyno_target_node`.".
-spec connection(dyno_cli_command:values()) -> #{name => atom(), cookie => atom()}.
connection(Values) ->
    maps:with([name, cookie], Values).

-doc "The node that a text names; for options that take one.".
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

%% Where there is none, the connection says so.
here(Name) ->
    case dyno_target_probe:name(Name) of
        {ok, Node} ->
            Node;
        {error, _} ->
            {ok, Host} = inet:gethostname(),
            list_to_atom(Name ++ "@" ++ Host)
    end.

-doc "Whether an argument after the first is one more node: NAME@HOST.".
-spec is_node(binary()) -> boolean().
is_node(Text) -> re:run(Text, "^[^\\s:(/]*@[^\\s:(/]*$", [{capture, none}]) =:= match.

-doc "The operand after NODE: which processes, and more nodes.".
-spec processes(dyno_process_filter:things(), For :: string(), Default :: string()) ->
    argparse:argument().
processes(Things, For, Default) ->
    Text = [
        For, ": ", dyno_process_filter:forms(Things), " (default: ", Default, "); NAME@HOST is one "
        "more node"
    ],
    dyno_cli_command:operand("[PROCESS...]", lists:flatten(Text), #{
        nargs => list, required => false, default => []
    }).

-doc "The nodes of NODE and `processes/3`, and which processes there.".
-spec read([binary(), ...], dyno_process_filter:things()) ->
    {ok, [node(), ...], [dyno_process_filter:t()]} | {error, dyno_error:error()}.
read([First | Texts], Things) ->
    {Others, Filters} = lists:partition(fun is_node/1, Texts),
    maybe
        {ok, Nodes} ?= names([First | Others]),
        {ok, Read} ?= dyno_error:each(fun(T) -> dyno_process_filter:parse(T, Things) end, Filters),
        {ok, Nodes, Read}
    end.

-doc "The nodes that operands name, each once.".
-spec names([binary()]) -> {ok, [node()]} | {error, dyno_error:error()}.
names(Texts) ->
    Read = [{Text, name(Text)} || Text <- Texts],
    case [Text || {Text, error} <- Read] of
        [] ->
            {ok, lists:uniq([Node || {_, {ok, Node}} <- Read])};
        [Text | _] ->
            dyno_cli_command:contradiction([
                "\"", dyno_text:clean(Text), "\" is no name of a node; give one such as "
                "shop@host, or shop for one on this machine"
            ])
    end.
