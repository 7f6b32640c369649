%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_cli_demo_SUITE).
-moduledoc """
`dyno demo`: the shop is open until a signal and leaves nothing. dyno_documents_clone_SUITE looks
into it as the documents say.
""".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

suite() -> [{timetrap, {minutes, 2}}].

all() ->
    [opens_and_closes, ends_by_itself, is_said_to_have_ended, names, cookie_is_given, no_cookie].

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
    {2, Taken} = dyno_command:run(["demo", Name]),
    ?assertMatch({_, _}, binary:match(Taken, ~" runs already: "), Taken),
    closed(Port),
    receive
        {nodedown, Node} -> ok
    end,
    ?assertMatch({error, {not_registered, _}}, dyno_target_probe:name(Name)).

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
            {2, Text} = dyno_command:run(["demo", Name]),
            ?assertMatch({_, _}, binary:match(Text, ~"without a host"), Text)
        end
     || Name <- ["shop@here", "a b", ""]
    ].

cookie_is_given(_Config) ->
    Other = {"DYNO_COOKIE", "of_the_shop"},
    {Port, Name, _, _} = opened([], Other),
    Look = ["trace", Name, "shop:order/2", "--count", "1"],
    {3, Refused} = dyno_command:run(Look, [{"DYNO_COOKIE", "another"}]),
    ?assertMatch({_, _}, binary:match(Refused, ~"its cookie is another one"), Refused),
    {0, _} = dyno_command:run(Look, [Other]),
    closed(Port).

%% Whoever has no home folder is told how to look in all the same.
no_cookie(Config) ->
    File = filename:join(proplists:get_value(priv_dir, Config), "no_folder"),
    ok = file:write_file(File, ""),
    {Port, _, _, Text} = opened([], {"HOME", File}),
    ?assertMatch({_, _}, binary:match(Text, ~"export DYNO_COOKIE="), Text),
    closed(Port).

closed(Port) ->
    {os_pid, Pid} = erlang:port_info(Port, os_pid),
    ok = dyno_escript:kill("TERM", Pid),
    {130, _} = dyno_command:output(Port).

%% With the name of this run only: other shops may be open.
opened(Arguments) ->
    opened(Arguments, {"DYNO_COOKIE", atom_to_list(erlang:get_cookie())}).

opened(Arguments, Variable) ->
    Name = "shop-" ++ os:getpid() ++ integer_to_list(erlang:unique_integer([positive])),
    Port = dyno_command:open(["demo", Name | Arguments], [Variable]),
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
