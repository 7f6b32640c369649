%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(rabbitmq_demo).
-moduledoc """
Shows which functions of RabbitMQ take longer the more queues there are.

The broker is a real one, in a node and a temporary folder of its own, and is booted as its own
script does it. Four connections publish 400 persistent messages a second, to one queue after the
other; a fifth consumes all queues and acknowledges. The load is the same at each size: what
grows, grows with the number of queues alone. One operation is a message on its way from the
publisher through the broker to the consumer.

    make rabbitmq

brings Debian's package rabbitmq-server privately (as scripts/otp brings Erlang/OTP) and runs this.
With a RabbitMQ that is installed:

    dyno test examples/rabbitmq_demo.erl -o rabbitmq.html

`DYNO_RABBITMQ` names its folder, the one that holds `plugins`, where that is not
`/usr/lib/rabbitmq/lib/rabbitmq_server-VERSION`. doc/rabbitmq.md has what it showed.
""".

-behaviour(dyno_suite).

-export([suite/0, init_suite/0, init_run/2, load/2, init_worker/2, operation/1, end_worker/1]).
-export([end_run/1, end_suite/1]).
%% Where a broker is to be had, for who wants to know before.
-export([server/0]).
%% Runs in the target node.
-export([boot/2]).

-define(RATE_PER_S, 400).
-define(PUBLISHERS, 4).
-define(UNACKNOWLEDGED, 100).
-define(TIMEOUT_MS, 5000).
-define(PERSISTENT, 2).

%% As in RabbitMQ's own rabbit_framing.hrl and amqp_client.hrl (the protocol AMQP 0-9-1 fixes them),
%% so that this file compiles where there is no RabbitMQ, and can say so.
-record('P_basic', {
    content_type,
    content_encoding,
    headers,
    delivery_mode,
    priority,
    correlation_id,
    reply_to,
    expiration,
    message_id,
    timestamp,
    type,
    user_id,
    app_id,
    cluster_id
}).
-record(amqp_msg, {props = #'P_basic'{}, payload = <<>>}).
-record('basic.qos', {prefetch_size = 0, prefetch_count = 0, global = false}).
-record('basic.publish', {
    ticket = 0, exchange = <<>>, routing_key = <<>>, mandatory = false, immediate = false
}).
-record('basic.consume', {
    ticket = 0,
    queue = <<>>,
    consumer_tag = <<>>,
    no_local = false,
    no_ack = false,
    exclusive = false,
    nowait = false,
    arguments = []
}).
-record('basic.deliver', {
    consumer_tag, delivery_tag, redelivered = false, exchange, routing_key
}).
-record('basic.ack', {delivery_tag = 0, multiple = false}).
-record('queue.declare', {
    ticket = 0,
    queue = <<>>,
    passive = false,
    durable = false,
    exclusive = false,
    auto_delete = false,
    nowait = false,
    arguments = []
}).
-record(amqp_params_network, {
    username = <<"guest">>,
    password = <<"guest">>,
    virtual_host = <<"/">>,
    host = "localhost",
    port,
    channel_max = 2047,
    frame_max = 0,
    heartbeat = 10,
    connection_timeout = 60000,
    ssl_options = none,
    auth_mechanisms = [fun amqp_auth_mechanisms:plain/3],
    client_properties = [],
    socket_options = []
}).

suite() ->
    #{
        name => "rabbitmq-" ++ queue_type(),
        sizes => [1, 10, 100, 1000],
        size_label => "queues",
        duration_ms => 10_000,
        warmup_ms => 2000,
        %% 1,000 durable queues are declared in it.
        timeout_ms => 120_000,
        %% Which functions are called more often: exact counts of all calls.
        level => time,
        patterns => ["app:rabbit", "app:rabbit_common", "app:ra", "app:khepri", "app:osiris"],
        thresholds => ["latency.p99 < 500 ms", "errors.rate == 0 %"]
    }.

%% The same whatever the size.
load(_Queues, _Run) ->
    #{model => open, rate_per_s => ?RATE_PER_S, workers => ?PUBLISHERS}.

init_suite() ->
    {ok, Server} = server(),
    Paths = filelib:wildcard(filename:join([Server, "plugins", "*", "ebin"])),
    %% For the client, which runs here, and for the broker: targets have this node's code paths.
    ok = code:add_pathsz(Paths),
    {ok, _} = application:ensure_all_started(amqp_client),
    Folder = temporary_folder(),
    {ok, #{server => Server, paths => Paths, folder => Folder}}.

end_suite(undefined) ->
    ok;
end_suite(#{folder := Folder, paths := Paths}) ->
    _ = application:stop(amqp_client),
    ok = lists:foreach(fun code:del_path/1, Paths),
    file:del_dir_r(Folder).

%% The folder that holds `plugins`.
server() ->
    Root = os:getenv("DYNO_RABBITMQ", "/"),
    Patterns = [Root, filename:join(Root, "usr/lib/rabbitmq/lib/rabbitmq_server-*")],
    case [S || P <- Patterns, S <- filelib:wildcard(P), filelib:is_dir(S ++ "/plugins")] of
        [] ->
            {error,
                "there is no RabbitMQ in " ++ filename:join(Root, "usr/lib/rabbitmq") ++
                    "; run make rabbitmq, which brings one, or "
                    "set DYNO_RABBITMQ to the folder that holds its plugins"};
        Servers ->
            {ok, lists:last(Servers)}
    end.

%% classic, or quorum.
queue_type() ->
    os:getenv("DYNO_RABBITMQ_QUEUES", "classic").

temporary_folder() ->
    {ok, Folder} = dyno_temporary:make(),
    Folder.

%% A fresh broker for each size: none inherits the queues of another.
init_run(Queues, #{server := Server, folder := Parent}) ->
    Folder = filename:join(Parent, integer_to_list(erlang:unique_integer([positive]))),
    ok = file:make_dir(Folder),
    {ok, Node} = dyno_peer:start(#{
        name => "rabbitmq",
        %% What RabbitMQ's own script gives to erl; without -noinput it sets the terminal's title.
        arguments => [
            "-noinput",
            "-kernel",
            "prevent_overlapping_partitions",
            "false",
            "-kernel",
            "logger",
            log_to(filename:join(Folder, "boot.log")),
            "-syslog",
            "logger",
            "[]",
            "-syslog",
            "syslog_error_logger",
            "false",
            "+W",
            "w"
        ]
    }),
    {ok, Port} = erpc:call(Node, ?MODULE, boot, [Server, Folder]),
    Names = [<<"queue-", (integer_to_binary(N))/binary>> || N <- lists:seq(1, Queues)],
    {Connection, Channel} = connect(Port),
    Type = [{<<"x-queue-type">>, longstr, list_to_binary(queue_type())}],
    lists:foreach(
        fun(Name) ->
            Declaration = #'queue.declare'{queue = Name, durable = true, arguments = Type},
            {'queue.declare_ok', Name, 0, 0} = amqp_channel:call(Channel, Declaration)
        end,
        Names
    ),
    Consumer = spawn_link(fun() -> consume(Channel, Names) end),
    Consumer ! {self(), ready},
    receive
        {Consumer, ready} -> ok
    end,
    {ok, [Node], #{
        node => Node,
        port => Port,
        queues => list_to_tuple(Names),
        consumer => Consumer,
        connection => Connection
    }}.

end_run(undefined) ->
    ok;
end_run(#{node := Node, consumer := Consumer, connection := Connection}) ->
    unlink(Consumer),
    exit(Consumer, kill),
    ok = amqp_connection:close(Connection),
    dyno_peer:stop(Node).

%% dyno's terminal is not for the broker's log.
log_to(File) ->
    Handler = {handler, default, logger_std_h, #{config => #{type => {file, File}}}},
    lists:flatten(io_lib:format("~0tp", [[Handler]])).

%% In the target

%% The process stays, because it owns the file that the broker's messages to an operator go to.
boot(Server, Folder) ->
    Caller = self(),
    {Pid, Monitor} = spawn_monitor(fun() ->
        {ok, Console} = file:open(filename:join(Folder, "console.log"), [write]),
        %% The leader of the applications that are to start.
        true = group_leader(Console, whereis(application_controller)),
        true = group_leader(Console, self()),
        configure(Server, Folder),
        ok = rabbit:boot(),
        [Port] = [Port || {{acceptor, _, _}, #{port := Port}} <- maps:to_list(ranch:info())],
        Caller ! {self(), Port},
        timer:sleep(infinity)
    end),
    receive
        {Pid, Port} ->
            demonitor(Monitor, [flush]),
            {ok, Port};
        {'DOWN', Monitor, process, Pid, Reason} ->
            {error, {does_not_boot, Server, Reason}}
    end.

configure(Server, Folder) ->
    In = fun(Name) -> filename:join(Folder, Name) end,
    ok = file:write_file(In("enabled_plugins"), "[].\n"),
    ok = file:write_file(In("rabbitmq.conf"), "log.console = false\n"),
    lists:foreach(
        fun({Name, Value}) -> true = os:putenv("RABBITMQ_" ++ Name, Value) end,
        [
            {"HOME", Server},
            {"PLUGINS_DIR", filename:join(Server, "plugins")},
            {"NODENAME", atom_to_list(node())},
            {"NODE_IP_ADDRESS", "127.0.0.1"},
            {"NODE_PORT", "0"},
            {"CONF_ENV_FILE", "/dev/null"},
            {"CONFIG_FILE", In("rabbitmq")},
            {"ADVANCED_CONFIG_FILE", In("advanced")},
            {"ENABLED_PLUGINS_FILE", In("enabled_plugins")},
            {"MNESIA_BASE", In("data")},
            {"LOG_BASE", In("log")}
        ]
    ).

%% The client

connect(Port) ->
    Parameters = #amqp_params_network{host = "127.0.0.1", port = Port},
    {ok, Connection} = amqp_connection:start(Parameters),
    {ok, Channel} = amqp_connection:open_channel(Connection),
    {Connection, Channel}.

consume(Channel, Names) ->
    Limit = #'basic.qos'{prefetch_count = ?UNACKNOWLEDGED},
    {'basic.qos_ok'} = amqp_channel:call(Channel, Limit),
    lists:foreach(
        fun(Name) ->
            Request = #'basic.consume'{queue = Name},
            {'basic.consume_ok', _} = amqp_channel:subscribe(Channel, Request, self())
        end,
        Names
    ),
    consume(Channel).

consume(Channel) ->
    receive
        {#'basic.deliver'{delivery_tag = Tag}, #amqp_msg{payload = Payload}} ->
            ok = amqp_channel:cast(Channel, #'basic.ack'{delivery_tag = Tag}),
            {Publisher, Message} = binary_to_term(Payload),
            Publisher ! {delivered, Message},
            consume(Channel);
        {From, ready} ->
            From ! {self(), ready},
            consume(Channel);
        {'basic.consume_ok', _} ->
            consume(Channel)
    end.

init_worker(Id, #{port := Port, queues := Queues}) ->
    {Connection, Channel} = connect(Port),
    {ok, #{connection => Connection, channel => Channel, queues => Queues, next => Id}}.

operation(#{channel := Channel, queues := Queues, next := Next} = Worker) ->
    Message = make_ref(),
    Queue = element(Next rem tuple_size(Queues) + 1, Queues),
    ok = amqp_channel:cast(Channel, #'basic.publish'{routing_key = Queue}, #amqp_msg{
        props = #'P_basic'{delivery_mode = ?PERSISTENT},
        payload = term_to_binary({self(), Message})
    }),
    receive
        {delivered, Message} -> {ok, Worker#{next := Next + ?PUBLISHERS}}
    after ?TIMEOUT_MS -> {error, not_delivered, Worker}
    end.

end_worker(#{connection := Connection}) ->
    amqp_connection:close(Connection).
