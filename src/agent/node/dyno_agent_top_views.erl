%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_top_views).
-moduledoc """
Reads what `dyno top` shows besides processes: ETS and Mnesia tables, ports and sockets,
allocators, connected nodes with their tracers.

Only the view that is shown is read. Of more than 5,000 items each reading covers another part and
the previous rows. Owners and addresses are asked for the shown rows only, by a helper process with
a time limit. Mnesia is read from its own tables; no process gets a message.

## Cost
1 us for each table, 5 us for each port or socket, 5,000 at most; 60 us for all allocators.
""".

-export([new/0, read/3, ranked/3]).
-export_type([view/0, seen/0, content/0, row/0]).

-type view() :: ets | mnesia | ports | memory | nodes.

-doc "Texts and numbers by column. Rates are unknown in the first reading of an item.".
-type row() :: #{
    name := binary(), group := binary(), pid => pid(), atom() => number() | binary() | unknown
}.

-type content() :: #{
    rows := [row()],
    groups := [row()],
    count := non_neg_integer(),
    share := float(),
    notes := [binary()]
}.

-doc "The counters of the last reading, with their time.".
-type seen() :: #{
    place := non_neg_integer(),
    fresh := [term()],
    kept := [term()],
    before := #{term() => {AtNs :: integer(), Group :: binary(), Counters :: #{atom() => number()}}}
}.

-define(PART, 5000).
-define(MOST_KEPT, 200).
-define(MOST_GROUPS, 100).
%% Less than any number of a row.
-define(LAST, -(1 bsl 59)).

-doc "Nothing was read.".
-spec new() -> seen().
new() -> #{place => 0, fresh => [], kept => [], before => #{}}.

-doc "Reads a view's items; the first by the sort key are in the rows.".
-spec read(view(), dyno_agent_top:ask(), seen()) -> {content(), seen()}.
read(View, #{sort := Sort, most := Most, filter := Filter}, Seen) ->
    #{kept := Kept, before := Before} = Seen,
    Ids = ids(View),
    Count = length(Ids),
    {Part, Fresh, Place} = part(Ids, Count, Seen),
    At = erlang:monotonic_time(nanosecond),
    Items = [
        Item#{id => Id}
     || Id <- lists:uniq(Kept ++ Part), #{} = Item <- [item(View, Id, Before)]
    ],
    Rated = [rated(Item, At, Before) || Item <- Items],
    Like = [
        Row
     || #{group := Group, name := Name} = Row <- Rated,
        string:find([Group, Name], Filter) =/= nomatch
    ],
    Top = ranked(Sort, ?MOST_KEPT, Like),
    Share = min(1.0, length(Part) / max(1, Count)),
    {Notes, Totals} = notes(View, At, Before),
    {
        #{
            rows => detailed(View, lists:sublist(Top, Most)),
            groups => groups(Sort, Share, Like),
            count => Count,
            share => Share,
            notes => Notes
        },
        #{
            place => Place,
            fresh => Fresh,
            kept => [Id || Fresh =/= [], #{id := Id} <- Top],
            before => maps:merge(
                Totals,
                #{
                    Id => {At, Group, Counters}
                 || #{id := Id, group := Group, counters := Counters} <- Items
                }
            )
        }
    }.

part(Ids, Count, _Seen) when Count =< ?PART ->
    {Ids, [], 0};
part(Ids, Count, #{place := Place, fresh := Fresh}) ->
    At =
        if
            Place >= Count -> 0;
            true -> Place
        end,
    New = lists:sublist(lists:nthtail(At, Ids), ?PART div 2),
    {lists:uniq(Fresh ++ New), New, At + ?PART div 2}.

%% Counters become rates per second.
rated(#{id := Id, counters := Counters} = Item, At, Before) ->
    maps:merge(maps:remove(counters, Item), rates(Counters, At, maps:get(Id, Before, none))).

rates(Counters, At, {At0, _, Counters0}) when At > At0 ->
    maps:map(
        fun(Key, Now) ->
            case Counters0 of
                #{Key := Then} when is_number(Then), is_number(Now) ->
                    (Now - Then) * 1.0e9 / (At - At0);
                #{} ->
                    unknown
            end
        end,
        Counters
    );
rates(Counters, _At, _Before) ->
    maps:map(fun(_, _) -> unknown end, Counters).

-doc "The first rows by a number, without it last.".
-spec ranked(atom(), non_neg_integer(), [Row]) -> [Row] when Row :: #{atom() => term()}.
ranked(Key, Most, Rows) ->
    Value = fun
        (#{Key := N}) when is_number(N) -> N;
        (_) -> ?LAST
    end,
    Ordered = lists:reverse(lists:keysort(1, [{Value(Row), Row} || Row <- Rows])),
    [Row || {_, Row} <- lists:sublist(Ordered, Most)].

groups(Sort, Share, Rows) ->
    Scale = fun
        (N) when is_number(N) -> round(N / max(1.0e-9, Share));
        (unknown) -> unknown
    end,
    ranked(Sort, ?MOST_GROUPS, [
        Sums#{name => Name, group => Name, count => Scale(length(Of))}
     || Name := [First | _] = Of <- maps:groups_from_list(fun(#{group := G}) -> G end, Rows),
        Sums <- [
            #{
                Key => Scale(sum(Key, Of))
             || Key := Value <- maps:without([id, name], First),
                is_number(Value) orelse Value =:= unknown
            }
        ]
    ]).

%% A sum that lacks a term is unknown.
sum(Key, Rows) ->
    Values = [Value || #{Key := Value} <- Rows],
    case lists:all(fun is_number/1, Values) of
        true -> lists:sum(Values);
        false -> unknown
    end.

%% Items

ids(ets) -> ets:all();
ids(mnesia) -> mnesia({schema, tables}, []);
ids(ports) -> dyno_agent_resources:all_ports();
ids(memory) -> erlang:system_info(alloc_util_allocators);
ids(nodes) -> nodes(connected).

item(ets, Table, _Before) ->
    case {ets:info(Table, name), ets:info(Table, size), ets:info(Table, memory)} of
        {Name, Objects, Words} when is_integer(Objects), is_integer(Words) ->
            table(dyno_agent_name:module(Name), Objects, Words);
        _ ->
            none
    end;
item(mnesia, Name, _Before) ->
    Storage = mnesia({Name, storage_type}, unknown),
    Copies = mnesia({Name, where_to_write}, []),
    Known =
        case {ets:info(Name, size), ets:info(Name, memory)} of
            {Objects, Words} when is_integer(Objects), is_integer(Words) ->
                table(dyno_agent_name:module(Name), Objects, Words);
            _ ->
                #{
                    name => dyno_agent_name:module(Name),
                    group => dyno_agent_name:module(Name),
                    objects => unknown,
                    bytes => unknown,
                    counters => #{growth => unknown}
                }
        end,
    Known#{storage => storage(Storage), copies => length(Copies)};
item(ports, Id, Before) ->
    Known = #{I => {Kind, 0, 0} || {I, {_, Kind, _}} <- found(Id, Before)},
    case dyno_agent_resources:port(Id, Known) of
        [{_, Kind, In, Out, Queue}] ->
            #{
                name => Kind,
                group => Kind,
                waiting => Queue,
                counters => #{input => In, output => Out}
            };
        [] ->
            none
    end;
item(memory, Name, _Before) ->
    case dyno_agent_condition:allocator(Name) of
        [#{held_bytes := Held, used_bytes := Used}] ->
            #{
                name => atom_to_binary(Name),
                group => purpose(Name),
                held => Held,
                used => Used,
                unused => Held - Used,
                utilisation => Used / Held,
                counters => #{growth => Held}
            };
        [] ->
            none
    end;
item(nodes, Node, _Before) ->
    Controller = proplists:get_value(Node, erlang:system_info(dist_ctrl)),
    {In, Out, Queue} = carried(Controller),
    #{
        name => atom_to_binary(Node),
        group =>
            case lists:member(Node, nodes(hidden)) of
                true -> ~"hidden";
                false -> ~"visible"
            end,
        waiting => Queue,
        counters => #{input => In, output => Out}
    }.

found(Id, Before) -> [{Id, Of} || #{Id := Of} <- [Before]].

table(Name, Objects, Words) ->
    #{
        name => Name,
        group => Name,
        objects => Objects,
        bytes => Words * erlang:system_info(wordsize),
        counters => #{growth => Objects}
    }.

mnesia(Key, Otherwise) ->
    try
        ets:lookup_element(mnesia_gvar, Key, 2)
    catch
        error:badarg -> Otherwise
    end.

storage(ram_copies) -> ~"memory";
storage(disc_copies) -> ~"memory and disk";
storage(disc_only_copies) -> ~"disk";
storage(unknown) -> ~"other nodes";
storage(Other) -> dyno_agent_census:text("~0tP", [Other, 6]).

purpose(eheap_alloc) -> ~"process heaps";
purpose(binary_alloc) -> ~"binaries";
purpose(ets_alloc) -> ~"ETS tables";
purpose(driver_alloc) -> ~"ports and drivers";
purpose(ll_alloc) -> ~"code, atoms, long-lived";
purpose(sl_alloc) -> ~"short-lived";
purpose(std_alloc) -> ~"process records, others";
purpose(fix_alloc) -> ~"structures of fixed size";
purpose(literal_alloc) -> ~"literals";
purpose(temp_alloc) -> ~"temporary";
purpose(Other) -> atom_to_binary(Other).

%% The connection of another protocol than TCP, such as TLS, is a process without counters.
carried(Port) when is_port(Port) ->
    case dyno_agent_resources:port(Port, #{Port => {~"distribution", 0, 0}}) of
        [{_, _, In, Out, Queue}] -> {In, Out, Queue};
        [] -> {unknown, unknown, unknown}
    end;
carried(_Controller) ->
    {unknown, unknown, unknown}.

%% Details of the shown rows

detailed(View, Rows) ->
    Bare = fun(Row) -> maps:remove(id, Row) end,
    Ask = fun() -> [Bare(detail(View, Row)) || Row <- Rows] end,
    dyno_agent_suspect:within(Ask, lists:map(Bare, Rows)).

detail(ets, #{id := Table} = Row) ->
    case {ets:info(Table, owner), ets:info(Table, type), ets:info(Table, protection)} of
        {Owner, Type, Protection} when is_pid(Owner) ->
            Row#{
                pid => Owner,
                owner => dyno_agent_census:name(Owner),
                kind => <<(atom_to_binary(Type))/binary, ", ", (atom_to_binary(Protection))/binary>>
            };
        _ ->
            Row
    end;
detail(ports, #{id := Port} = Row) when is_port(Port) ->
    Owner = [Pid || {connected, Pid} <- [erlang:port_info(Port, connected)]],
    owned(Owner, Row#{at => address(Port)});
detail(ports, #{id := Socket} = Row) ->
    try socket:info(Socket) of
        #{owner := Owner} -> owned([Owner], Row#{at => address(Socket)})
    catch
        error:_ -> Row
    end;
detail(_View, Row) ->
    Row.

owned([Owner], Row) when is_pid(Owner) ->
    Row#{pid => Owner, owner => dyno_agent_census:name(Owner)};
owned(_, Row) ->
    Row.

address(Port) when is_port(Port) ->
    case inet:peername(Port) of
        {ok, {Address, Number}} when is_tuple(Address) -> address(Address, Number);
        _ -> dyno_agent_census:pid(Port)
    end;
address(Socket) ->
    case socket:peername(Socket) of
        {ok, #{addr := Address, port := Number}} -> address(Address, Number);
        _ -> ~""
    end.

address(Address, Number) ->
    iolist_to_binary([inet:ntoa(Address), $:, integer_to_binary(Number)]).

%% Notes

notes(mnesia, At, Before) ->
    Counters = maps:from_list(dyno_agent_services:table(mnesia_stats)),
    Rates = rates(Counters, At, maps:get(mnesia_stats, Before, none)),
    Texts = [
        dyno_agent_census:text("~b ~ts", [round(Rate), Title])
     || {Key, Title} <- [
            {trans_commits, "committed"},
            {trans_restarts, "restarted"},
            {trans_failures, "failed"},
            {trans_log_writes, "written to disk"}
        ],
        #{Key := Rate} <- [Rates],
        is_number(Rate)
    ],
    {
        [iolist_to_binary(["transactions a second: ", lists:join(", ", Texts)]) || Texts =/= []],
        #{mnesia_stats => {At, ~"", Counters}}
    };
notes(nodes, _At, _Before) ->
    {tracers(), #{}};
notes(_View, _At, _Before) ->
    {[], #{}}.

%% Other programs that trace this node. dyno's own sessions are left out.
tracers() ->
    Legacy = [
        Name
     || {tracer, Pid} <- [erlang:trace_info(new, tracer)],
        is_pid(Pid),
        Name <- [dyno_agent_census:name(Pid)]
    ],
    Monitors = [
        [dyno_agent_census:name(Pid), " (", lists:join(", ", [event(E) || E <- Events]), ")"]
     || {Pid, Events} <- [erlang:system_monitor()]
    ],
    [
        unicode:characters_to_binary([Title, lists:join(", ", Names)])
     || {Title, Names} <- [
            {"trace sessions of others: ", dyno_agent_services:sessions()},
            {"new processes are traced by ", Legacy},
            {"system_monitor: ", Monitors}
        ],
        Names =/= []
    ].

event({Event, Value}) -> io_lib:format("~ts ~0tP", [Event, Value, 4]);
event(Event) -> atom_to_list(Event).
