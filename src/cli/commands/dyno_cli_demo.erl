%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_cli_demo).
-moduledoc "`dyno demo`: a small shop to try the other commands.".

-behaviour(dyno_cli_command).

-export([command/0, run/1, format_error/1, fault/1]).

-type reason() :: {name, string()} | {ended, node()}.

-define(DEFAULT, ~"shop").
-define(PROPERTIES, "examples/verify/shop_answers.dyno").

-spec command() -> dyno_cli_command:t().
command() ->
    #{
        operands => [
            dyno_cli_command:operand(
                "[NAME]",
                "the name of the shop's node (default: shop)",
                #{nargs => 'maybe', required => false}
            )
        ],
        options => [
            {"", [
                {"--for TIME", "how long the shop stays (default: until Ctrl-C)", duration, for_ms}
            ]},
            {"Nodes", [dyno_cli_nodes:cookie()]}
        ],
        examples =>
            """
            dyno demo
                starts the shop in a node of its own, and suggests commands
            dyno demo shop2
                starts a second one
            """
    }.

-spec run(dyno_cli_command:values()) -> dyno_cli_command:result().
run(Values) ->
    ok = dyno_cli_interrupt:subscribe(),
    Name = unicode:characters_to_list(maps:get(name, Values, ?DEFAULT)),
    maybe
        ok ?= is_short(Name),
        ok ?= dyno_target_node:ensure_distribution(#{}),
        ok = own_cookie(dyno_cli_nodes:connection(Values)),
        {ok, #{node := Node} = Shop} ?= dyno_shop:start(Name),
        true = monitor_node(Node, true),
        dyno_cli_terminal:print(unicode:characters_to_binary(opened(Name, Shop))),
        Ended = wait(Node, maps:get(for_ms, Values, infinity)),
        ok = dyno_shop:stop(Shop),
        Ended
    end.

own_cookie(#{cookie := Cookie}) ->
    true = erlang:set_cookie(Cookie),
    ok;
own_cookie(#{}) ->
    ok.

is_short(Name) ->
    case re:run(Name, "^[A-Za-z0-9_-]+$", [{capture, none}]) of
        match -> ok;
        nomatch -> {error, {?MODULE, {name, Name}}}
    end.

wait(Node, Ms) ->
    receive
        dyno_interrupt -> 130;
        {nodedown, Node} -> {error, {?MODULE, {ended, Node}}}
    after Ms -> 0
    end.

opened(Name, #{node := Node, port := Port}) ->
    Program = dyno_cli_terminal:called_as(),
    Lines = [
        "servers " ++ Name,
        "record " ++ Name ++ " --for 10s -o shop.html",
        "profile " ++ Name ++ " --for 10s",
        "trace " ++ Name ++ " 'shop:order(_, N) when N > 5 -> return, caller' --count 3"
        | ["verify " ++ ?PROPERTIES ++ " " ++ Name || filelib:is_regular(?PROPERTIES)]
    ],
    [
        ["A shop with 20 customers is open in the node ", atom_to_list(Node), ", and at http://"],
        ["127.0.0.1:", integer_to_list(Port), "/order/book/3. Ctrl-C closes it.\n\n"],
        cookie(dyno_cookie:missing()),
        "In another terminal:\n\n",
        [["    ", Program, Line, $\n] || Line <- Lines]
    ].

cookie(none) ->
    "";
cookie({ok, Why}) ->
    io_lib:format(
        "The shop's cookie is private: ~ts. Close it, and in both terminals type first:\n\n    "
        "export DYNO_COOKIE=any-word\n\n",
        [Why]
    ).

-spec format_error(reason()) -> unicode:chardata().
format_error({name, Name}) ->
    [
        "NAME is a name without a host, of letters, digits, _ and -, not \"",
        dyno_text:clean(unicode:characters_to_binary(Name)),
        $"
    ];
format_error({ended, Node}) ->
    ["the node ", atom_to_list(Node), " has ended; start another: dyno demo"].

-spec fault(reason()) -> dyno_error:fault().
fault({name, _}) -> caller;
fault({ended, _}) -> dyno.
