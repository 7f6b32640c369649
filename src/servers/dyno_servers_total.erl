%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_servers_total).
-moduledoc false.
%% Servers over all windows: sums of each process, and for the busiest a point per window. Bounded:
%% many ended processes are summed by name, and points are thinned by half. Pure.

-export([new/0, add/2, servers/1, nodes/1, duration_ns/1, duration_ns/2, points/1, windows/1]).
-export_type([t/0, points/0]).

-type key() ::
    {Node :: binary(), Pid :: binary() | {name, binary()}} | {ended, #{atom() => binary()}}.

-doc "A server's figures over time, oldest first; times in ns since the first window's start.".
-type points() :: {Name :: binary(), [{TimeNs :: integer(), dyno_servers_row:row()}]}.

-opaque t() :: #{
    start_ns := integer() | none,
    duration_ns := non_neg_integer(),
    windows := non_neg_integer(),
    servers := #{key() => dyno_servers_window:sum()},
    ended := [key()],
    nodes := #{node() => dyno_servers_window:of_node()},
    points := #{binary() => [{integer(), dyno_servers_row:row()}]},
    names := dyno_servers_names:t(),
    %% The windows for each point.
    each := pos_integer()
}.

%% Ended processes kept separately: the latest.
-define(MOST_ENDED, 20).
%% With more servers, ended registered names are summed, too, although they may come back.
-define(MOST_NAMED, 1000).
-define(MOST_LINES, 40).
%% The busiest of a window get a line, if there is room.
-define(LINES_A_WINDOW, 10).
-define(MOST_POINTS, 600).
-define(POINT, [rate, busy, queue_now, p99]).

-spec new() -> t().
new() ->
    #{
        start_ns => none,
        duration_ns => 0,
        windows => 0,
        servers => #{},
        ended => [],
        nodes => #{},
        points => #{},
        names => dyno_servers_names:new(),
        each => 1
    }.

-spec add(dyno_servers_window:window(), t()) -> t().
add(#{start_ns := StartNs, duration_ns := DurationNs, servers := Sums, nodes := Nodes}, Total) ->
    #{start_ns := First, duration_ns := Before, windows := Windows} = Total,
    %% An atom is more than any number.
    Zero = min(First, StartNs),
    Summed = lists:foldl(fun server/2, Total#{start_ns := Zero}, Sums),
    #{servers := Servers, ended := Ended} = Summed,
    {Kept, Folded} = fold(Servers, Ended),
    with_points({Sums, Nodes}, StartNs - Zero + DurationNs, DurationNs, Summed#{
        servers := Folded,
        ended := Kept,
        duration_ns := Before + DurationNs,
        windows := Windows + 1,
        nodes := lists:foldl(fun of_node/2, map_get(nodes, Total), Nodes)
    }).

server(#{alive := Alive} = Sum, #{ended := Ended} = Total) ->
    Key = key(Sum),
    Servers = renamed(Key, by_pid(Sum), map_get(servers, Total)),
    Total#{
        servers := maps:update_with(Key, fun(Before) -> of_later(Before, Sum) end, Sum, Servers),
        ended := [Key || Alive =:= 0] ++ Ended
    }.

%% A registered name is one server over restarts of its process.
key(#{kind := Kind, labels := #{node := Node, name := Name}}) when
    Kind =:= registered; Kind =:= named
->
    {Node, {name, Name}};
key(Sum) ->
    by_pid(Sum).

by_pid(#{labels := #{node := Node, pid := Pid}}) -> {Node, Pid}.

%% A process tells its name with its first message, perhaps after the first window.
renamed(Key, ByPid, Servers) ->
    case maps:take(ByPid, Servers) of
        {Before, Others} when Key =/= ByPid, not is_map_key(Key, Servers) -> Others#{Key => Before};
        _ -> Servers
    end.

of_later(Before, #{labels := Labels, pid := Pid, kind := Kind} = Sum) ->
    #{labels := Same} = Later = dyno_servers_window:add(later, Before, Sum),
    Later#{
        pid := Pid, kind := Kind, labels := maps:merge(Same, maps:with([pid, name, module], Labels))
    }.

%% The oldest ended ones, when there are twice as many as kept.
fold(Servers, Ended) when length(Ended) =< 2 * ?MOST_ENDED ->
    {Ended, Servers};
fold(Servers, Ended) ->
    {Kept, Oldest} = lists:split(?MOST_ENDED, Ended),
    Old = [Key || Key <- lists:usort(Oldest) -- Kept, is_ended(Key, Servers)],
    Sums = maps:values(maps:with(Old, Servers)),
    {Kept, lists:foldl(fun with_ended/2, maps:without(Old, Servers), Sums)}.

is_ended({_Node, {name, _}}, Servers) when map_size(Servers) < ?MOST_NAMED ->
    false;
is_ended(Key, Servers) ->
    case Servers of
        #{Key := #{alive := 0}} -> true;
        #{} -> false
    end.

with_ended(#{labels := Labels} = Sum, Servers) ->
    Common = (maps:without([pid | started_by_one(Labels)], Labels))#{
        name := dyno_servers_names:common(Sum, dyno_servers_names:new())
    },
    One = Sum#{labels := Common},
    Add = fun(Before) -> dyno_servers_window:add(process, Before, One) end,
    Key = {ended, maps:with([node, name, module], Common)},
    maps:update_with(Key, Add, One, Servers).

%% The supervisor without a name may have started this process only.
started_by_one(#{supervisor := <<"<", _/binary>>}) -> [supervisor];
started_by_one(_Labels) -> [].

of_node(#{node := Node} = Now, Nodes) ->
    maps:update_with(Node, fun(Before) -> later(Before, Now) end, Now, Nodes).

later(#{duration_ns := BeforeNs} = Before, #{duration_ns := Ns} = Now) ->
    ProbeNs = probe_ns([Before, Now]),
    maps:merge_with(
        fun
            (probe_ns, _, _) ->
                ProbeNs;
            (Key, A, B) when Key =:= cost; Key =:= schedulers_busy ->
                (A * BeforeNs + B * Ns) / (BeforeNs + Ns);
            (Key, A, B) when Key =:= rate; Key =:= unseen ->
                maps:merge_with(fun(_, X, Y) -> X + Y end, A, B);
            (duration_ns, A, B) ->
                A + B;
            (followed, A, B) ->
                A andalso B;
            (unselected, A, B) ->
                max(A, B);
            (start_ns, Earlier, _) ->
                Earlier;
            (stepped_down, Earlier, none) ->
                Earlier;
            (_Key, _, Latest) ->
                Latest
        end,
        Before,
        Now
    ).

%% The time that is added to a callback: few messages get more looks.
probe_ns(Each) ->
    Counted = [{Ns, lists:sum(maps:values(Rate))} || #{probe_ns := Ns, rate := Rate} <- Each],
    case lists:sum([N || {_, N} <- Counted]) of
        0 -> lists:max([Ns || {Ns, _} <- Counted]);
        All -> lists:sum([Ns * N || {Ns, N} <- Counted]) div All
    end.

%% Points

with_points({Sums, Nodes}, TimeNs, DurationNs, #{windows := Windows, each := Each} = Total) when
    Windows rem Each =:= 0
->
    #{points := Points, names := Before} = Total,
    Names = dyno_servers_names:add(Sums, Before),
    ByName = dyno_servers_window:group(name, Sums, Names),
    Ranked = dyno_servers_row:ranked(busy, [
        dyno_servers_row:row(dyno_servers_window:with_unseen(Nodes, Sum), DurationNs)
     || Sum <- ByName
    ]),
    Most = lists:sublist(Ranked, ?LINES_A_WINDOW),
    Busiest = [Name || #{name := Name, count := N} <- Most, is_number(N), N > 0],
    Wanted = lists:sublist(lists:uniq(maps:keys(Points) ++ Busiest), ?MOST_LINES),
    New = #{Name => [{TimeNs, maps:with(?POINT, Row)}] || #{name := Name} = Row <- Ranked},
    thinned(Total#{
        names := Names,
        points := #{Name => maps:get(Name, New, []) ++ maps:get(Name, Points, []) || Name <- Wanted}
    });
with_points(_Sums, _TimeNs, _DurationNs, Total) ->
    Total.

thinned(#{points := Points, each := Each} = Total) ->
    case lists:any(fun(Of) -> length(Of) > ?MOST_POINTS end, maps:values(Points)) of
        true -> Total#{points := #{N => second(Of) || N := Of <- Points}, each := 2 * Each};
        false -> Total
    end.

second([A, _ | Rest]) -> [A | second(Rest)];
second(Rest) -> Rest.

-spec servers(t()) -> [dyno_servers_window:sum()].
servers(#{servers := Servers}) -> maps:values(Servers).

-spec nodes(t()) -> [dyno_servers_window:of_node()].
nodes(#{nodes := Nodes}) -> maps:values(Nodes).

-spec duration_ns(t()) -> non_neg_integer().
duration_ns(#{duration_ns := DurationNs}) -> DurationNs.

-doc "The time in which a sum's node was observed: it may have been lost; of several nodes, all.".
-spec duration_ns(dyno_servers_window:sum(), t()) -> non_neg_integer().
duration_ns(#{labels := Labels}, #{nodes := Nodes, duration_ns := All}) ->
    In = maps:get(node, Labels, none),
    lists:max(
        [0 | [Ns || Node := #{duration_ns := Ns} <- Nodes, atom_to_binary(Node) =:= In]] ++
            [All || In =:= none]
    ).

-spec windows(t()) -> non_neg_integer().
windows(#{windows := Windows}) -> Windows.

-doc "Points of the servers that were among the busiest.".
-spec points(t()) -> [points()].
points(#{points := Points}) ->
    [{Name, lists:reverse(Of)} || Name := Of <- maps:iterator(Points, ordered)].
