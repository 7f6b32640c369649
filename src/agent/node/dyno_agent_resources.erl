%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_resources).
-moduledoc """
Follows the ETS tables, ports and sockets of a node. Tables are grouped by name, ports by their
other end: `tcp accepted on 8080`, `tcp to 10.0.0.5:5432`, a program's name.

Scans run at the start, at random intervals, and at the end. A pause lasts at least 50 times its
scan: at most 2 % of one scheduler. After the last look only bytes are counted. A connection that
opens and closes between two scans is not seen.

## Cost
A scan takes about 1 us for each table, port and socket. A busy port is asked by a signal, a socket
by `socket:info/1`.
""".

-behaviour(dyno_agent_instrument).
-behaviour(gen_server).

-export([about/0, config/1, last_look/1, tables/0]).
-export([sums/0, all_ports/0, port/2]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).
-export_type([config/0, result/0, tables/0, ports/0]).

-type source() :: ets | ports.

-type config() :: #{
    interval_ms := pos_integer(),
    reads := [source(), ...]
}.

-doc "All tables of a name. First: at the restart.".
-type tables() :: #{
    name := atom(),
    tables := non_neg_integer(),
    objects := non_neg_integer(),
    objects_max := non_neg_integer(),
    memory_bytes := non_neg_integer(),
    memory_first_bytes := non_neg_integer(),
    memory_max_bytes := non_neg_integer()
}.

-doc "All ports or sockets of a kind; bytes since the restart.".
-type ports() :: #{
    kind := binary(),
    open := non_neg_integer(),
    open_max := non_neg_integer(),
    input_bytes := non_neg_integer(),
    output_bytes := non_neg_integer(),
    %% Unknown for sockets.
    queue_max_bytes := non_neg_integer() | unknown
}.

-type result() :: #{ets => [tables()], ports => [ports()]}.

-type carried() :: {Kind :: binary(), In :: non_neg_integer(), Out :: non_neg_integer()}.

-type state() :: #{
    interval_ms := pos_integer(),
    reads := [source()],
    %% None after the last look.
    timer := reference() | none,
    ets := #{atom() => tables()},
    ports := #{binary() => ports()},
    %% The duration of the last scan.
    took_ms => non_neg_integer(),
    %% The kind and bytes of each port at the last scan.
    carried := #{term() => carried()}
}.

-define(PAUSE_FACTOR, 50).
-define(MAX_NAMES, 1000).
-define(OTHERS, '(others)').
-define(MAX_KINDS, 200).
%% The system chooses port numbers from here on, which change each time: not part of a name.
-define(CHOSEN, 32768).

-spec about() -> dyno_agent_instrument:about().
about() -> #{names => [ets, ports]}.

-spec config(dyno_agent_instrument:options()) -> config().
config(#{names := Names, interval_ms := IntervalMs}) ->
    #{interval_ms => IntervalMs, reads => Names}.

-doc "Scans now, just before the end of the load.".
-spec last_look(pid()) -> ok.
last_look(Pid) ->
    gen_server:cast(Pid, last_look).

-spec init(config()) -> {ok, state()}.
init(Config) ->
    proc_lib:set_label(?MODULE),
    ok = dyno_agent_process:unlimited(),
    Started = restarted(Config#{timer => none}),
    process_flag(priority, normal),
    {ok, Started}.

%% Earlier bytes do not count.
restarted(#{reads := Reads} = State) ->
    Carried = carried(open_ports(Reads, #{})),
    schedule(scan(State#{ets => #{}, ports => #{}, carried => Carried})).

-spec handle_call(restart | read, gen_server:from(), state()) -> {reply, ok | result(), state()}.
handle_call(restart, _From, State) ->
    {reply, ok, restarted(State)};
handle_call(read, _From, State) ->
    #{reads := Reads, ets := Tables, ports := Ports} = Last = last(State),
    All = #{ets => maps:values(Tables), ports => maps:values(Ports)},
    {reply, maps:with(Reads, All), Last}.

-spec handle_cast(last_look, state()) -> {noreply, state()}.
handle_cast(last_look, State) ->
    {noreply, unscheduled(scan(State))};
handle_cast(_Request, State) ->
    {noreply, State}.

-spec handle_info(term(), state()) -> {noreply, state()}.
handle_info({timeout, Timer, scan}, #{timer := Timer} = State) ->
    {noreply, schedule(scan(State))};
handle_info(_Other, State) ->
    {noreply, State}.

scan(#{reads := Reads} = State) ->
    Start = erlang:monotonic_time(millisecond),
    Ports = open_ports(Reads, map_get(carried, State)),
    Scanned = scan_ports(Ports, scan_tables([T || ets <- Reads, T <- ets:all()], State)),
    Scanned#{took_ms => erlang:monotonic_time(millisecond) - Start}.

schedule(#{interval_ms := IntervalMs, took_ms := TookMs} = State) ->
    Ms = max(dyno_agent_instants:next_ms(IntervalMs), ?PAUSE_FACTOR * TookMs),
    (unscheduled(State))#{timer := erlang:start_timer(Ms, self(), scan)}.

unscheduled(#{timer := Timer} = State) -> State#{timer := dyno_agent_instants:cancel(Timer)}.

%% After the load, open and held resources say nothing about the load; the bytes are final only now.
last(#{timer := none, ports := Looked, reads := Reads, carried := Carried} = State) ->
    #{ports := Ports} = Last = scan_ports(open_ports(Reads, Carried), State),
    Kept = maps:map(fun(_, Of) -> maps:without([input_bytes, output_bytes], Of) end, Looked),
    Last#{ports := maps:map(fun(Kind, Of) -> maps:merge(Of, maps:get(Kind, Kept, #{})) end, Ports)};
last(State) ->
    schedule(scan(State)).

%% A name that lost its tables or ports goes on with zeros.
update(Update, Zero, Found, Before) ->
    All = maps:merge(maps:map(fun(_, _) -> Zero end, Before), Found),
    maps:map(fun(Name, Sums) -> Update(Name, Sums, maps:get(Name, Before, #{})) end, All).

%% Tables

scan_tables(Tables, #{ets := Before} = State) ->
    Found = lists:foldl(fun add_table/2, #{}, Tables),
    State#{ets := update(fun table/3, {0, 0, 0}, Found, Before)}.

-doc "Sums of all tables of each name now: count, objects, words.".
-spec sums() -> #{atom() => {pos_integer(), non_neg_integer(), non_neg_integer()}}.
sums() -> lists:foldl(fun add_table/2, #{}, ets:all()).

%% A table may be deleted at any time.
add_table(Table, Found) ->
    case {ets:info(Table, name), ets:info(Table, size), ets:info(Table, memory)} of
        {Name, Objects, Words} when is_integer(Objects), is_integer(Words) ->
            case lists:prefix("dyno_agent_", atom_to_list(Name)) of
                true -> Found;
                false -> add_to(limited(Name, Found, ?MAX_NAMES, ?OTHERS), Objects, Words, Found)
            end;
        _ ->
            Found
    end.

limited(Name, Found, Most, _) when is_map_key(Name, Found); map_size(Found) < Most -> Name;
limited(_Name, _Found, _Most, Others) -> Others.

add_to(Name, Objects, Words, Found) ->
    Add = fun({T, O, W}) -> {T + 1, O + Objects, W + Words} end,
    maps:update_with(Name, Add, {1, Objects, Words}, Found).

table(Name, {Tables, Objects, Words}, Before) ->
    Bytes = Words * erlang:system_info(wordsize),
    #{
        name => Name,
        tables => Tables,
        objects => Objects,
        objects_max => max(Objects, maps:get(objects_max, Before, 0)),
        memory_bytes => Bytes,
        memory_first_bytes => maps:get(memory_first_bytes, Before, Bytes),
        memory_max_bytes => max(Bytes, maps:get(memory_max_bytes, Before, 0))
    }.

%% Ports and sockets

scan_ports(Open, #{ports := Before, carried := Carried} = State) ->
    Found = lists:foldl(fun(Port, Acc) -> add_port(Port, Carried, Acc) end, #{}, Open),
    State#{
        ports := update(fun port/3, {0, 0, 0, 0}, Found, Before),
        carried := carried(Open)
    }.

carried(Open) -> #{Id => {Kind, In, Out} || {Id, Kind, In, Out, _} <- Open}.

add_port({Id, Of, In, Out, Queue}, Carried, Found) ->
    {_, In0, Out0} = maps:get(Id, Carried, {Of, 0, 0}),
    Kind = limited(Of, Found, ?MAX_KINDS, ~"(others)"),
    {N, I, O, Q} = maps:get(Kind, Found, {0, 0, 0, 0}),
    Found#{Kind => {N + 1, I + max(0, In - In0), O + max(0, Out - Out0), plus(Q, Queue)}}.

plus(A, B) when is_integer(A), is_integer(B) -> A + B;
plus(_A, _B) -> unknown.

port(Kind, {Open, In, Out, Queue}, Before) ->
    Get = fun(Key) -> maps:get(Key, Before, 0) end,
    #{
        kind => Kind,
        open => Open,
        open_max => max(Open, Get(open_max)),
        input_bytes => In + Get(input_bytes),
        output_bytes => Out + Get(output_bytes),
        %% An atom is more than any number.
        queue_max_bytes => max(Queue, Get(queue_max_bytes))
    }.

open_ports(Reads, Known) ->
    [Of || ports <- Reads, Id <- all_ports(), Of <- port(Id, Known)].

-doc "All ports, and all sockets of `socket`.".
-spec all_ports() -> [port() | socket:socket()].
all_ports() ->
    %% A socket of gen_tcp is usually a port.
    case erlang:module_loaded(socket_registry) of
        true -> erlang:ports() ++ socket:which_sockets();
        false -> erlang:ports()
    end.

-doc "A port or socket, unless it is closed; the kinds of earlier ones are known.".
-spec port(port() | socket:socket(), #{term() => carried()}) ->
    [{Id :: term(), Kind :: binary(), In :: number(), Out :: number(), Waiting}]
when
    Waiting :: non_neg_integer() | unknown.
port(Port, Known) when is_port(Port) -> port_of(Port, Known);
port(Socket, Known) -> socket_of(Socket, Known).

%% The kinds of earlier ports are known.
kind_of(Id, Known, Find) ->
    case Known of
        #{Id := {Kind, _, _}} -> Kind;
        #{} -> Find()
    end.

%% A port may be closed at any time.
port_of(Port, Known) ->
    case [erlang:port_info(Port, Item) || Item <- [name, input, output, queue_size]] of
        [{name, Name}, {input, In}, {output, Out}, {queue_size, Queue}] ->
            Kind = kind_of(Port, Known, fun() -> kind(Name, Port) end),
            {Received, Sent} = octets(Name, Port, {In, Out}),
            [{Port, Kind, Received, Sent, Queue}];
        _ ->
            []
    end.

%% Received bytes of inet ports are in the driver's statistics, not in the runtime's.
octets(Name, Port, Otherwise) when Name =:= "tcp_inet"; Name =:= "udp_inet"; Name =:= "sctp_inet" ->
    case inet:getstat(Port, [recv_oct, send_oct]) of
        {ok, Stats} -> {proplists:get_value(recv_oct, Stats), proplists:get_value(send_oct, Stats)};
        {error, _} -> Otherwise
    end;
octets(_Name, _Port, Otherwise) ->
    Otherwise.

%% The driver's purpose, or a port's program without arguments and folder.
kind("forker", _Port) ->
    ~"forker, which starts programs";
kind("0/1", _Port) ->
    ~"standard input and output";
kind("2/2", _Port) ->
    ~"standard error";
kind("tcp_inet", Port) ->
    case lists:keymember(Port, 2, erlang:system_info(dist_ctrl)) of
        true -> ~"distribution";
        false -> at_the_end(~"tcp", inet:sockname(Port), inet:peername(Port))
    end;
kind("udp_inet", Port) ->
    at_the_end(~"udp", inet:sockname(Port), inet:peername(Port));
kind("sctp_inet", Port) ->
    at_the_end(~"sctp", inet:sockname(Port), inet:peername(Port));
kind(Name, _Port) ->
    [Program | _] = string:split(Name, " "),
    case re:run(Program, "^[0-9]+/[0-9]+$", [{capture, none}]) of
        match -> unicode:characters_to_binary(["file descriptors ", Program]);
        nomatch -> unicode:characters_to_binary(filename:basename(Program))
    end.

%% The connecting end has a port number chosen by the system. If both ends have one (a server in a
%% test), the direction is unknown, and the number changes with each run.
at_the_end(Protocol, Own, Peer) ->
    Text =
        case {Own, Peer} of
            {{ok, {_, Number}}, {error, _}} when Number > 0, Number < ?CHOSEN ->
                [Protocol, " open at ", integer_to_binary(Number)];
            {_, {error, _}} ->
                [Protocol, ", open"];
            {{ok, {_, Number}}, {ok, {_, Other}}} when Number < ?CHOSEN, Other >= ?CHOSEN ->
                [Protocol, " accepted at ", integer_to_binary(Number)];
            {_, {ok, {Address, Number}}} when is_tuple(Address), Number < ?CHOSEN ->
                [Protocol, " to ", inet:ntoa(Address), $:, integer_to_binary(Number)];
            {_, {ok, {Address, _}}} when is_tuple(Address) ->
                [Protocol, " with ", inet:ntoa(Address)];
            {_, {ok, _}} ->
                [Protocol, ", local"]
        end,
    iolist_to_binary(Text).

socket_of(Socket, Known) ->
    try socket:info(Socket) of
        #{protocol := Protocol, counters := Counters} ->
            Kind = kind_of(Socket, Known, fun() ->
                at_the_end(
                    <<"socket, ", (atom_to_binary(Protocol))/binary>>,
                    address(socket:sockname(Socket)),
                    address(socket:peername(Socket))
                )
            end),
            In = maps:get(read_byte, Counters, 0),
            [{Socket, Kind, In, maps:get(write_byte, Counters, 0), unknown}]
    catch
        error:_ -> []
    end.

address({ok, #{addr := Address, port := Number}}) -> {ok, {Address, Number}};
address({ok, _}) -> {ok, local};
address(Error) -> Error.

-spec tables() -> [dyno_agent_instrument:table()].
tables() ->
    Queue = ~"In the runtime; not known of sockets.",
    [
        #{
            name => ~"ets",
            title => ~"ETS tables",
            sort => {~"memory_max", descending},
            items => fun(Result) -> some(maps:get(ets, Result, [])) end,
            columns => [
                {~"table", ~"Table", string, fun(#{name := Name}) ->
                    dyno_agent_name:module(Name)
                end},
                {~"tables", ~"Tables of the name", count, tables},
                {~"objects", ~"Objects", count, objects},
                {~"objects_max", ~"Objects, max", count, objects_max},
                {~"memory", ~"Memory", bytes, memory_bytes},
                {~"memory_max", ~"Memory, max", bytes, lower, memory_max_bytes},
                {~"memory_growth", ~"Memory, since the start", bytes, lower, fun(
                    #{memory_bytes := Bytes, memory_first_bytes := First}
                ) ->
                    Bytes - First
                end}
            ]
        },
        #{
            name => ~"ports",
            title => ~"Ports and sockets",
            items => fun(Result) -> some(busiest_first(maps:get(ports, Result, []))) end,
            columns => [
                {~"kind", ~"Kind", string, kind},
                {~"open", ~"Open", count, open},
                {~"open_max", ~"Open, max", count, open_max},
                {~"input", ~"Input", bytes, input_bytes},
                {~"output", ~"Output", bytes, output_bytes},
                {~"queue_max", ~"Waiting to be sent, max", bytes, [lower, Queue], queue_max_bytes}
            ]
        }
    ].

some([]) -> none;
some(Items) -> Items.

busiest_first(Ports) ->
    Waits = fun
        (#{queue_max_bytes := unknown}) -> 0;
        (#{queue_max_bytes := Bytes}) -> Bytes
    end,
    Key = fun(#{input_bytes := In, output_bytes := Out} = Of) -> {Waits(Of), In + Out} end,
    lists:sort(fun(A, B) -> Key(A) >= Key(B) end, Ports).
