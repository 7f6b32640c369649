%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_cli_demo_SUITE).
-moduledoc """
`dyno demo`: the shop is open until a signal, leaves nothing, and holds what the documents say of it.
What is printed is run in dyno_documents_clone_SUITE.
""".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

suite() -> [{timetrap, {minutes, 2}}].

all() ->
    [opens_and_closes, ends_by_itself, is_said_to_have_ended, names].

init_per_suite(Config) ->
    ok = dyno_target_node:ensure_distribution(#{}),
    Config.

end_per_suite(_Config) ->
    ok.

opens_and_closes(_Config) ->
    {Port, Name, Node, Text} = opened([]),
    ok = dyno_target_node:connect(Node, #{}),
    true = monitor_node(Node, true),
    {match, [Http]} = re:run(Text, ":(\\d+)/order/book/3", [{capture, [1], list}]),
    ?assertMatch(<<"HTTP/1.1 200 OK\r\n", _/binary>>, asked(list_to_integer(Http))),
    Registered = erpc:call(Node, erlang, registered, []),
    Servers = [shop_sup, orders, stock, prices, packing, invoices, mail],
    ?assertEqual([], Servers -- Registered),
    ?assertEqual({ok, shop}, erpc:call(Node, application, get_application, [orders])),
    %% A second one of that name is told so.
    {2, Taken} = dyno_command:run(["demo", "--name", Name]),
    ?assertMatch({_, _}, binary:match(Taken, ~" runs already: "), Taken),
    {os_pid, Pid} = erlang:port_info(Port, os_pid),
    _ = os:cmd("kill -TERM " ++ integer_to_list(Pid)),
    {130, _} = dyno_command:output(Port),
    receive
        {nodedown, Node} -> ok
    end,
    [_, Host] = string:split(atom_to_list(Node), "@"),
    ?assertMatch({error, {not_registered, _}}, dyno_target_probe:name(Name, Host)).

ends_by_itself(_Config) ->
    {Port, _, _, _} = opened(["--for", "1ms"]),
    ?assertMatch({0, _}, dyno_command:output(Port)).

is_said_to_have_ended(_Config) ->
    {Port, _, Node, _} = opened([]),
    ok = dyno_target_node:connect(Node, #{}),
    ok = erpc:cast(Node, erlang, halt, [1]),
    {3, Text} = dyno_command:output(Port),
    ?assertMatch({_, _}, binary:match(Text, ~" has ended"), Text).

names(_Config) ->
    [
        begin
            {2, Text} = dyno_command:run(["demo", "--name", Name]),
            ?assertMatch({_, _}, binary:match(Text, ~"without a host"), Text)
        end
     || Name <- ["shop@here", "a b", ""]
    ].

%% With the name of this run only: other shops may be open.
opened(Arguments) ->
    Name = "shop-" ++ os:getpid() ++ integer_to_list(erlang:unique_integer([positive])),
    Cookie = {"DYNO_COOKIE", atom_to_list(erlang:get_cookie())},
    Port = dyno_command:open(["demo", "--name", Name | Arguments], [Cookie]),
    Text = printed(Port, <<>>),
    {match, [Node]} = re:run(Text, Name ++ "@[^,]+", [{capture, first, list}]),
    {Port, Name, list_to_atom(Node), Text}.

printed(Port, Before) ->
    receive
        {Port, {data, More}} ->
            Text = <<Before/binary, More/binary>>,
            case binary:match(Text, ~" --count 3\n") of
                nomatch -> printed(Port, Text);
                _ -> Text
            end;
        {Port, {exit_status, Status}} ->
            ct:fail({Status, Before})
    end.

asked(Port) ->
    {ok, Socket} = gen_tcp:connect({127, 0, 0, 1}, Port, [binary, {active, false}]),
    ok = gen_tcp:send(Socket, "GET /order/book/3 HTTP/1.1\r\n\r\n"),
    {ok, Answer} = gen_tcp:recv(Socket, 0),
    ok = gen_tcp:close(Socket),
    Answer.
