%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_resources).
-moduledoc """
Follows the ETS tables, ports and sockets of a node: by the name of the table, by the kind of port.

What is there is looked at when counting begins, at every interval, and at the end. Between two
looks goes 50 times as long as a look has taken, so that a node with 100,000 tables is not slowed
down by more than 2 % of one scheduler; the first and the last sample are taken in any case.

Bytes are those that went through what was there at a look: a connection that is opened and closed
between two looks is not seen.

## Cost
About 1 us a table and 1 us a port or socket and look. Ports that are busy are asked by a signal,
sockets by `socket:info/1`.
""".

-behaviour(dyno_agent_instrument).
-behaviour(gen_server).

-export([about/0, config/1, start_link/1, restart/1, read/1, tables/0]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).
-export_type([config/0, result/0, tables/0, ports/0]).

-type source() :: ets | ports.

-type config() :: #{
    interval_ms := pos_integer(),
    reads := [source(), ...]
}.

-doc "All tables of a name together. First: at the restart.".
-type tables() :: #{
    name := atom(),
    tables := non_neg_integer(),
    objects := non_neg_integer(),
    objects_max := non_neg_integer(),
    memory_bytes := non_neg_integer(),
    memory_first_bytes := non_neg_integer(),
    memory_max_bytes := non_neg_integer()
}.

-doc "All ports or sockets of a kind together; bytes since the restart.".
-type ports() :: #{
    kind := binary(),
    open := non_neg_integer(),
    open_max := non_neg_integer(),
    input_bytes := non_neg_integer(),
    output_bytes := non_neg_integer(),
    queue_max_bytes := non_neg_integer()
}.

-type result() :: #{ets => [tables()], ports => [ports()]}.

-type state() :: #{
    interval_ms := pos_integer(),
    reads := [source()],
    timer := reference(),
    ets := #{atom() => tables()},
    ports := #{binary() => ports()},
    %% What each port had carried at the last look.
    carried := #{term() => {non_neg_integer(), non_neg_integer()}}
}.

%% The share of a scheduler that looking may take.
-define(PAUSE_FACTOR, 50).
%% More names than that are no names: what comes later is put together.
-define(MAX_NAMES, 1000).
-define(OTHERS, '(others)').

-spec about() -> dyno_agent_instrument:about().
about() -> #{names => [ets, ports]}.

-spec config(dyno_agent_instrument:options()) -> config().
config(#{names := Names, interval_ms := IntervalMs}) ->
    #{interval_ms => IntervalMs, reads => Names}.

-doc "Starts following.".
-spec start_link(config()) -> gen_server:start_ret().
start_link(Config) ->
    gen_server:start_link(?MODULE, Config, []).

-doc "Counts from now on.".
-spec restart(pid()) -> ok.
restart(Pid) ->
    gen_server:call(Pid, restart, infinity).

-doc "Takes a last look and gives the statistics.".
-spec read(pid()) -> result().
read(Pid) ->
    gen_server:call(Pid, read, infinity).

-spec init(config()) -> {ok, state()}.
init(#{interval_ms := IntervalMs, reads := Reads}) ->
    proc_lib:set_label(?MODULE),
    State = #{
        interval_ms => IntervalMs,
        reads => Reads,
        timer => make_ref(),
        ets => #{},
        ports => #{},
        carried => #{}
    },
    {ok, begin_anew(State)}.

begin_anew(#{reads := Reads} = State) ->
    %% What was carried before does not count.
    Carried = #{Id => {In, Out} || {Id, _, In, Out, _} <- open_ports(Reads)},
    look(State#{ets := #{}, ports := #{}, carried := Carried}).

-spec handle_call(restart | read, gen_server:from(), state()) -> {reply, ok | result(), state()}.
handle_call(restart, _From, State) ->
    {reply, ok, begin_anew(State)};
handle_call(read, _From, State) ->
    #{reads := Reads, ets := Tables, ports := Ports} = Last = look(State),
    All = #{ets => maps:values(Tables), ports => maps:values(Ports)},
    {reply, maps:with(Reads, All), Last}.

-spec handle_cast(term(), state()) -> {noreply, state()}.
handle_cast(_Request, State) ->
    {noreply, State}.

-spec handle_info(term(), state()) -> {noreply, state()}.
handle_info({timeout, Timer, look}, #{timer := Timer} = State) ->
    {noreply, look(State)};
handle_info(_Other, State) ->
    {noreply, State}.

look(#{reads := Reads, interval_ms := IntervalMs, timer := Timer} = State) ->
    _ = erlang:cancel_timer(Timer),
    Start = erlang:monotonic_time(millisecond),
    Looked = look_at_ports(Reads, look_at_tables(Reads, State)),
    TookMs = erlang:monotonic_time(millisecond) - Start,
    NextMs = max(IntervalMs, ?PAUSE_FACTOR * TookMs),
    Looked#{timer := erlang:start_timer(NextMs, self(), look)}.

%% Tables

look_at_tables(Reads, #{ets := Before} = State) ->
    case lists:member(ets, Reads) of
        true ->
            Found = lists:foldl(fun add_table/2, #{}, ets:all()),
            State#{ets := merged(fun table/3, Found, Before)};
        false ->
            State
    end.

add_table(Table, Found) ->
    %% It may be gone by now.
    case {ets:info(Table, name), ets:info(Table, size), ets:info(Table, memory)} of
        {Name, Objects, Words} when is_integer(Objects), is_integer(Words) ->
            case is_ours(Name) of
                true -> Found;
                false -> add_to(known(Name, Found), {1, Objects, Words}, Found)
            end;
        _ ->
            Found
    end.

is_ours(Name) ->
    lists:prefix("dyno_agent_", atom_to_list(Name)).

known(Name, Found) when is_map_key(Name, Found) -> Name;
known(_Name, Found) when map_size(Found) >= ?MAX_NAMES -> ?OTHERS;
known(Name, _Found) -> Name.

add_to(Name, {Count, Objects, Words}, Found) ->
    Add = fun({C, O, W}) -> {C + Count, O + Objects, W + Words} end,
    maps:update_with(Name, Add, {Count, Objects, Words}, Found).

table(Name, {Count, Objects, Words}, Before) ->
    Bytes = Words * erlang:system_info(wordsize),
    First = #{
        name => Name, objects_max => 0, memory_max_bytes => 0, memory_first_bytes => Bytes
    },
    Known = #{objects_max := ObjectsMax, memory_max_bytes := BytesMax} =
        case Before of
            none -> First;
            _ -> Before
        end,
    Known#{
        tables => Count,
        objects => Objects,
        objects_max := max(Objects, ObjectsMax),
        memory_bytes => Bytes,
        memory_max_bytes := max(Bytes, BytesMax)
    }.

%% What was there before and is not any more has none now.
merged(Make, Found, Before) ->
    Gone = maps:map(fun(_Name, _) -> zero end, maps:without(maps:keys(Found), Before)),
    maps:map(
        fun
            (Name, zero) -> Make(Name, zero_of(map_get(Name, Before)), map_get(Name, Before));
            (Name, Value) -> Make(Name, Value, maps:get(Name, Before, none))
        end,
        maps:merge(Found, Gone)
    ).

zero_of(#{tables := _}) -> {0, 0, 0};
zero_of(#{open := _}) -> {0, 0, 0, 0}.

%% Ports and sockets

look_at_ports(Reads, #{ports := Before, carried := Carried0} = State) ->
    case lists:member(ports, Reads) of
        true ->
            Open = open_ports(Reads),
            Found = lists:foldl(
                fun({Id, Kind, In, Out, Queue}, Acc) ->
                    {In0, Out0} = maps:get(Id, Carried0, {0, 0}),
                    One = {1, max(0, In - In0), max(0, Out - Out0), Queue},
                    Add = fun({N, I, O, Q}) ->
                        {N + 1, I + element(2, One), O + element(3, One), Q + Queue}
                    end,
                    maps:update_with(Kind, Add, One, Acc)
                end,
                #{},
                Open
            ),
            State#{
                ports := merged(fun port/3, Found, Before),
                carried := #{Id => {In, Out} || {Id, _, In, Out, _} <- Open}
            };
        false ->
            State
    end.

port(Kind, {Open, In, Out, Queue}, Before) ->
    Known = #{open_max := OpenMax, queue_max_bytes := QueueMax} =
        case Before of
            none ->
                #{
                    kind => Kind, open_max => 0, queue_max_bytes => 0, input_bytes => 0,
                    output_bytes => 0
                };
            _ ->
                Before
        end,
    #{input_bytes := In0, output_bytes := Out0} = Known,
    Known#{
        open => Open,
        open_max := max(Open, OpenMax),
        input_bytes := In0 + In,
        output_bytes := Out0 + Out,
        queue_max_bytes := max(Queue, QueueMax)
    }.

%% {Id, Kind, BytesIn, BytesOut, BytesQueued}
open_ports(Reads) ->
    case lists:member(ports, Reads) of
        true ->
            Distribution = [P || {_Node, P} <- erlang:system_info(dist_ctrl), is_port(P)],
            lists:append([port_of(P, Distribution) || P <- erlang:ports()]) ++ sockets();
        false ->
            []
    end.

%% It may be closed by now.
port_of(Port, Distribution) ->
    Items = [name, input, output, queue_size],
    case [erlang:port_info(Port, Item) || Item <- Items] of
        [{name, Name}, {input, In}, {output, Out}, {queue_size, Queue}] ->
            Kind =
                case lists:member(Port, Distribution) of
                    true -> ~"distribution";
                    false -> kind(Name)
                end,
            {Received, Sent} = octets(Name, Port, {In, Out}),
            [{Port, Kind, Received, Sent, Queue}];
        _ ->
            []
    end.

%% What an inet port has received the runtime does not count as input: the driver knows.
octets(Name, Port, Otherwise) when Name =:= "tcp_inet"; Name =:= "udp_inet"; Name =:= "sctp_inet" ->
    case inet:getstat(Port, [recv_oct, send_oct]) of
        {ok, Stats} -> {proplists:get_value(recv_oct, Stats), proplists:get_value(send_oct, Stats)};
        {error, _} -> Otherwise
    end;
octets(_Name, _Port, Otherwise) ->
    Otherwise.

%% The program of a port, without its arguments and its folder.
kind(Name) ->
    [Program | _] = string:split(Name, " "),
    unicode:characters_to_binary(filename:basename(Program)).

%% Of the module socket; those of gen_tcp are ports as a rule.
sockets() ->
    case erlang:module_loaded(socket_registry) of
        true -> lists:append([socket_of(S) || S <- socket:which_sockets()]);
        false -> []
    end.

socket_of(Socket) ->
    try socket:info(Socket) of
        #{type := Type, protocol := Protocol, counters := Counters} ->
            Kind = iolist_to_binary(io_lib:format("socket ~w ~w", [Protocol, Type])),
            In = maps:get(read_byte, Counters, 0),
            [{Socket, Kind, In, maps:get(write_byte, Counters, 0), 0}]
    catch
        error:_ -> []
    end.

-spec tables() -> [dyno_agent_instrument:table()].
tables() ->
    [
        #{
            name => ~"ets",
            title => ~"ETS tables",
            sort => {~"memory_max", descending},
            items => fun(Result) -> some(maps:get(ets, Result, [])) end,
            columns => [
                {~"table", ~"Table", string, fun(#{name := Name}) ->
                    <<_/binary>> = unicode:characters_to_binary(io_lib:format("~tw", [Name]))
                end},
                {~"tables", ~"Tables of the name", count, field(tables)},
                {~"objects", ~"Objects", count, field(objects)},
                {~"objects_max", ~"Objects, max", count, field(objects_max)},
                {~"memory", ~"Memory", bytes, field(memory_bytes)},
                {~"memory_max", ~"Memory, max", bytes, #{better => lower}, field(memory_max_bytes)},
                {~"memory_growth", ~"Memory, since the start", bytes, #{better => lower}, fun
                    (#{memory_bytes := Bytes, memory_first_bytes := First}) -> Bytes - First
                end}
            ]
        },
        #{
            name => ~"ports",
            title => ~"Ports and sockets",
            items => fun(Result) -> some(busiest_first(maps:get(ports, Result, []))) end,
            columns => [
                {~"kind", ~"Kind", string, field(kind)},
                {~"open", ~"Open", count, field(open)},
                {~"open_max", ~"Open, max", count, field(open_max)},
                {~"input", ~"Input", bytes, field(input_bytes)},
                {~"output", ~"Output", bytes, field(output_bytes)},
                {~"queue_max", ~"Waiting to be sent, max", bytes, #{better => lower},
                    field(queue_max_bytes)}
            ]
        }
    ].

field(Key) -> fun(#{Key := Value}) -> Value end.

some([]) -> none;
some(Items) -> Items.

busiest_first(Ports) ->
    Bytes = fun(#{input_bytes := In, output_bytes := Out}) -> In + Out end,
    lists:sort(fun(A, B) -> Bytes(A) >= Bytes(B) end, Ports).
