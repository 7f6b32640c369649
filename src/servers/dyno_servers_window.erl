%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_servers_window).
-moduledoc """
One window of the servers of some nodes, and sums by process, name, module, supervisor, application,
node, or of all. Pure.

Sums add up over processes and over time. Histograms are merged, so percentiles of a sum are those
of all its callbacks.

Windows begin and end at whole multiples of the interval, so those of several nodes match;
`start_ns` and `duration_ns` are the actual times.
""".

-export([new/1, sums/2, for_sinks/2, groups/0, group/2, group/3, add/3, all_callbacks/1]).
-export([share/2, pid/1, known_cpu/1, is_dirty/1]).
-export([with_unseen/2, unseen/1, missing/2, is_biased/2, untimed/1, is_timed/1]).
-export_type([window/0, of_node/0, group/0, sum/0, callback/0, stage/0, histogram/0]).

-type window() :: #{
    start_ns := integer(),
    duration_ns := non_neg_integer(),
    nodes := [of_node()],
    servers := [sum()]
}.

-doc "The settings and cost of a node's window: `t:dyno_agent_servers:window/0` without servers.".
-type of_node() :: #{node := node(), level := atom(), atom() => term()}.

-type group() :: process | name | module | supervisor | application | behaviour | node | cluster.

-type histogram() :: dyno_histogram:snapshot() | none.

-type sum() :: #{
    labels := #{atom() => binary()},
    start_ns := integer(),
    duration_ns := non_neg_integer(),
    %% All processes' life in the windows; `counted_ns`: with callbacks counted.
    process_ns := non_neg_integer(),
    counted_ns := non_neg_integer(),
    %% The part in which the runtime did not time them, as they came often.
    untimed_ns := non_neg_integer(),
    %% At the same time; in a sum over time the maximum. `alive`: at its end.
    processes := non_neg_integer(),
    alive := non_neg_integer(),
    ended := non_neg_integer(),
    crashes := non_neg_integer(),
    %% Those that may have crashed.
    ends_unknown := non_neg_integer(),
    reasons := [binary()],
    measured := [hook | call_time | none],
    %% The shortest queue in each window, or in a few.
    queue_lows := [non_neg_integer(), ...],
    callbacks := [callback()],
    stage := none | stage(),
    atom() => term()
}.

-type callback() :: dyno_agent_servers:callback().

-type stage() :: dyno_agent_servers:stage().

%% Kinds of messages kept in a sum: those with the most time.
-define(MOST_TAGS, 20).
-define(MOST_REASONS, 3).
-define(MOST_LOWS, 60).
%% A server's begin and end are no messages; nor a supervisor's child, or a stage's last one.
-define(NO_MESSAGE, [~"init", ~"terminate", ~"start child", ~"(no callback)"]).

-doc "All groups.".
-spec groups() -> [group(), ...].
groups() -> [process, name, module, supervisor, application, behaviour, node, cluster].

-doc "The window from the agents' windows.".
-spec new([map(), ...]) -> window().
new(Sent) ->
    #{
        start_ns => lists:min([StartNs || #{start_ns := StartNs} <- Sent]),
        duration_ns => lists:max([DurationNs || #{duration_ns := DurationNs} <- Sent]),
        nodes => [maps:remove(servers, OfNode) || OfNode <- Sent],
        servers => lists:append([
            one_of_each_name([of_server(Server, OfNode) || Server <- Servers])
         || #{servers := Servers} = OfNode <- Sent
        ])
    }.

%% A registered name is one server over restarts: the live process stands for it.
one_of_each_name(Servers) ->
    Of = maps:groups_from_list(fun one/1, Servers),
    [one_of_name(map_get(One, Of)) || One <- lists:uniq([one(Server) || Server <- Servers])].

one(#{kind := Kind, labels := #{name := Name}}) when Kind =:= registered; Kind =:= named -> Name;
one(#{pid := Pid}) -> Pid.

one_of_name([One]) ->
    One;
one_of_name(Servers) ->
    [Last | Earlier] = lists:sort(
        fun(#{alive := A, pid := P}, #{alive := B, pid := Q}) -> {A, P} >= {B, Q} end, Servers
    ),
    #{pid := Pid, labels := #{pid := Printed}, kind := Kind} = Last,
    #{labels := Labels} = Sum = lists:foldl(fun(S, All) -> add(process, All, S) end, Last, Earlier),
    Sum#{pid := Pid, kind := Kind, labels := Labels#{pid => Printed}, processes := 1}.

-doc "The sums of a window.".
-spec sums(group(), window()) -> [sum()].
sums(Group, #{servers := Servers, nodes := Nodes}) ->
    [with_unseen(Nodes, Sum) || Sum <- group(Group, Servers)].

-doc "With the callbacks of the nodes' processes that are in no sum.".
-spec with_unseen([of_node()], sum()) -> sum().
with_unseen(Nodes, #{labels := Labels} = Sum) ->
    In = maps:get(node, Labels, all),
    Sum#{
        unseen => lists:sum([
            Calls
         || #{node := Node, unseen := #{calls := Calls}} <- Nodes,
            In =:= all orelse In =:= atom_to_binary(Node)
        ])
    }.

-doc "The callbacks that may be missing in a sum: none if it is of one process that lives on.".
-spec unseen(sum()) -> non_neg_integer().
unseen(#{ended := 0, processes := 1}) -> 0;
unseen(Sum) -> maps:get(unseen, Sum, 0).

-doc "Whether timed callbacks do not stand for all, as of processes that began and ended.".
-spec is_biased(callback(), sum()) -> boolean().
is_biased(#{count := All} = Callback, Sum) ->
    dyno_agent_server_parts:is_biased(All + unseen(Sum), missing(Callback, Sum)).

-doc "The callbacks without a time, of which some may be unlike the others.".
-spec missing(callback(), sum()) -> non_neg_integer().
missing(Callback, #{ended := Ended} = Sum) ->
    Unseen = unseen(Sum),
    case Ended + Unseen of
        0 -> 0;
        _ -> Unseen + untimed(Callback)
    end.

-doc "The callbacks whose times were not measured.".
-spec untimed(callback()) -> non_neg_integer().
untimed(#{wall := none, missed := Missed}) -> Missed;
untimed(#{wall := #{count := Timed}, count := All, missed := Missed}) -> max(Missed, All - Timed).

-doc "Sums processes by a common property.".
-spec group(group() | sink, [sum()]) -> [sum()].
group(Group, Servers) ->
    group(Group, Servers, dyno_servers_names:add(Servers, dyno_servers_names:new())).

-doc "The same, with names known before.".
-spec group(group() | sink, [sum()], dyno_servers_names:t()) -> [sum()].
group(process, Servers, _Names) ->
    Servers;
group(Group, Servers, Names) ->
    Add = fun(Server, Sum) -> add(process, Sum, Server) end,
    Keyed = maps:groups_from_list(fun(Server) -> key(Group, Server, Names) end, Servers),
    [
        with_key(Group, Key, lists:foldl(Add, First, Rest))
     || Key := [First | Rest] <- maps:iterator(Keyed, ordered)
    ].

key(cluster, _Server, _Names) ->
    ~"all";
key(name, Server, Names) ->
    dyno_servers_names:common(Server, Names);
key(sink, #{labels := Labels} = Server, Names) ->
    (maps:with([node, application, module, behaviour], Labels))#{
        name => dyno_servers_names:common(Server, Names)
    };
key(Group, #{labels := Labels}, _Names) ->
    maps:get(Group, Labels, ~"none").

with_key(sink, Labels, Sum) -> Sum#{labels := Labels};
with_key(Group, Key, #{labels := Labels} = Sum) -> Sum#{labels := Labels#{Group => Key}}.

-doc "The sums for sinks, by name and module on a node, not by process; and the known names.".
-spec for_sinks(window(), dyno_servers_names:t()) -> {[map()], dyno_servers_names:t()}.
for_sinks(#{servers := Servers, nodes := Nodes}, Before) ->
    Names = dyno_servers_names:add(Servers, Before),
    Sums = [
        Sum#{
            busy => share(BusyNs, OfNs),
            delay := told_delay(Sum),
            callbacks := [told_wall(Of, Sum) || Of <- known_cpu(Sum)]
        }
     || Grouped <- group(sink, Servers, Names),
        #{busy_ns := BusyNs, busy_of_ns := OfNs} = Sum <- [with_unseen(Nodes, Grouped)]
    ],
    {Sums, Names}.

%% A sink cannot show that a value is a lower bound, or that the quickest are missing.
told_delay(#{delay := Delay, delay_unknown := 0} = Sum) ->
    case is_biased(all_callbacks(Sum), Sum) of
        true -> none;
        false -> Delay
    end;
told_delay(_InPart) ->
    none.

told_wall(Callback, Sum) ->
    case is_biased(Callback, Sum) of
        true -> Callback#{wall := none};
        false -> Callback
    end.

-doc """
The callbacks, without the processor time if this is an upper bound only: calls in dirty schedulers
may wait for the system. If most of the calls were not timed by the runtime, nothing of it is known.
""".
-spec known_cpu(sum()) -> [callback()].
known_cpu(#{callbacks := Callbacks} = Sum) ->
    case {is_timed(Sum), is_dirty(Sum)} of
        {false, _} -> [Of#{cpu_ns := undefined, words := undefined} || Of <- Callbacks];
        {true, true} -> [Of#{cpu_ns := undefined} || Of <- Callbacks];
        {true, false} -> Callbacks
    end.

-doc "Whether the runtime timed it, except for a tenth of the time in which it was called often.".
-spec is_timed(sum()) -> boolean().
is_timed(#{untimed_ns := UntimedNs, counted_ns := CountedNs}) -> 10 * UntimedNs =< CountedNs.

-doc "Whether its callbacks run in dirty schedulers. Seen once, that may be chance.".
-spec is_dirty(#{dirty := non_neg_integer(), _ => _}) -> boolean().
is_dirty(#{dirty := Seen}) -> Seen > 1.

%% Sums

of_server(#{pid := Pid, module := Module} = Server, #{node := Node} = Window) ->
    #{start_ns := StartNs, duration_ns := DurationNs} = Window,
    #{state := State, measured := Measured, life_ns := LifeNs} = Server,
    #{busy_of_ns := BusyOfNs, cpu_of_ns := CpuOfNs} = Server,
    Labels = [name, module, behaviour, application, supervisor],
    (maps:without([state, reason, life_ns, queue_low | Labels], Server))#{
        labels => labels(Server, #{
            node => atom_to_binary(Node),
            pid => pid(Pid),
            module => dyno_agent_name:module(Module)
        }),
        start_ns => StartNs,
        duration_ns => DurationNs,
        process_ns => LifeNs,
        counted_ns => max(BusyOfNs, CpuOfNs),
        untimed_ns => dyno_agent_server_parts:untimed_ns(Server),
        processes => 1,
        alive => length([State || State =:= alive]),
        ended => length([State || State =/= alive]),
        crashes => length([State || State =:= crashed]),
        ends_unknown => length([State || State =:= unknown]),
        reasons => [Reason || State =:= crashed, #{reason := <<Reason/binary>>} <- [Server]],
        queue_lows => [map_get(queue_low, Server)],
        measured => [Measured]
    }.

labels(Server, Labels) ->
    Given = maps:merge(
        maps:with([name, behaviour, application, supervisor], Server), Labels
    ),
    #{Key => label(Value) || Key := Value <- Given, Value =/= undefined}.

label(Value) when is_atom(Value) -> dyno_agent_name:module(Value);
label(Value) when is_binary(Value) -> Value.

-doc "Adds the sum of another process in the same time, or of a later time.".
-spec add(process | later, sum(), sum()) -> sum().
add(How, A, B) ->
    maps:map(fun(Key, Value) -> add(Key, How, Value, map_get(Key, B)) end, A).

%% States at a moment, or of simultaneous processes.
add(start_ns, process, A, B) ->
    min(A, B);
add(start_ns, later, A, _B) ->
    A;
add(duration_ns, process, A, B) ->
    max(A, B);
add(processes, later, A, B) ->
    max(A, B);
add(Key, later, _A, B) when Key =:= alive; Key =:= asked_ns; Key =:= queue_now; Key =:= running ->
    B;
add(asked_ns, process, A, B) when is_number(A), is_number(B) -> max(A, B);
add(running, process, A, B) ->
    longest(A, B);
add(stage, _How, A, none) ->
    A;
add(stage, _How, none, B) ->
    B;
add(stage, How, A, B) ->
    maps:map(fun(Key, X) -> add(Key, How, X, map_get(Key, B)) end, A);
add(Key, later, A, undefined) when Key =:= outstanding; Key =:= buffered -> A;
add(Key, later, _A, B) when Key =:= outstanding; Key =:= buffered -> B;
%% Properties: the same for another process and for a later time.
add(labels, _How, A, B) ->
    maps:filter(fun(Key, Value) -> maps:find(Key, B) =:= {ok, Value} end, A);
add(pid, _How, A, _B) ->
    A;
add(queue_max, _How, A, B) ->
    max(A, B);
add(reasons, _How, A, B) ->
    lists:sublist(lists:uniq(A ++ B), ?MOST_REASONS);
add(measured, _How, A, B) ->
    lists:usort(A ++ B);
add(queue_lows, process, A, B) ->
    [lists:min(A ++ B)];
add(queue_lows, later, A, B) ->
    fewer(A ++ B);
add(callbacks, _How, A, B) ->
    callbacks(A, B);
add(tags, _How, A, B) ->
    tags(A, B);
add(subscriptions, _How, A, B) ->
    together([from, to], A ++ B);
%% A stage tells its kind with its first callback.
add(kind, _How, unknown, B) ->
    B;
add(kind, _How, A, _B) ->
    A;
add(_Key, _How, none, B) ->
    B;
add(_Key, _How, A, none) ->
    A;
add(_Key, _How, #{count := _} = A, B) ->
    dyno_histogram:merge(A, B);
%% A method, or a reason.
add(_Key, _How, A, _B) when is_binary(A) -> A;
add(_Key, _How, A, B) ->
    plus(A, B).

fewer(Lows) when length(Lows) =< ?MOST_LOWS -> Lows;
fewer(Lows) -> by_twos(Lows).

by_twos([A, B | Lows]) -> [min(A, B) | by_twos(Lows)];
by_twos(Last) -> Last.

longest(#{ns := A} = Running, #{ns := B}) when A >= B -> Running;
longest(Running, none) -> Running;
longest(_, Running) -> Running.

%% If one value is unknown, the other is a lower bound.
plus(undefined, B) -> B;
plus(A, undefined) -> A;
plus(A, B) -> A + B.

callbacks(As, Bs) ->
    ByName = fun(Of) -> #{Name => Callback || #{name := Name} = Callback <- Of} end,
    maps:values(maps:merge_with(fun(_, A, B) -> both(A, B) end, ByName(As), ByName(Bs))).

both(A, B) ->
    maps:merge_with(fun(Key, X, Y) -> add(Key, process, X, Y) end, A, B).

-doc "All callbacks for messages as one.".
-spec all_callbacks(sum()) -> callback().
all_callbacks(#{callbacks := Callbacks}) ->
    None = #{
        name => ~"all",
        count => 0,
        missed => 0,
        exceptions => 0,
        stops => 0,
        wall => none,
        cpu_ns => undefined,
        words => undefined
    },
    OfManager = lists:any(fun(#{name := Name}) -> Name =:= ~"(message)" end, Callbacks),
    Messages = [
        message(C, OfManager)
     || #{name := Name} = C <- Callbacks, not lists:member(Name, ?NO_MESSAGE)
    ],
    lists:foldl(fun(Callback, Sum) -> both(Sum, Callback) end, None, Messages).

%% Each message counts once: not again for a continuation or for each handler of an event manager.
message(#{name := Name} = Callback, true) ->
    case binary:match(Name, ~": ") of
        nomatch -> Callback;
        _ -> Callback#{count := 0}
    end;
message(#{name := Name} = Callback, false) ->
    case dyno_agent_server_process:is_message(Name) of
        true -> Callback;
        false -> Callback#{count := 0, missed := 0}
    end.

tags(As, []) ->
    As;
tags(As, Bs) ->
    ByTime = fun(A, B) -> {map_get(wall_ns, A), A} >= {map_get(wall_ns, B), B} end,
    lists:sublist(lists:sort(ByTime, together([tag, callback], As ++ Bs)), ?MOST_TAGS).

%% Joins maps with equal values of these keys; their numbers add up.
together(Keys, Maps) ->
    Add = fun
        (_, X, Y) when is_integer(X) -> X + Y;
        (_, X, _) -> X
    end,
    [
        lists:foldl(fun(A, B) -> maps:merge_with(Add, A, B) end, First, Rest)
     || _ := [First | Rest] <- maps:iterator(
            maps:groups_from_list(fun(Map) -> maps:with(Keys, Map) end, Maps), ordered
        )
    ].

-doc "A process as printed on its own node.".
-spec pid(pid()) -> binary().
pid(Pid) ->
    iolist_to_binary(re:replace(pid_to_list(Pid), "^<[0-9]+", "<0")).

-doc "The share of a whole; the whole may be 0, and the part is capped at the whole.".
-spec share(Part :: integer() | undefined, Whole :: integer()) -> float() | undefined.
share(undefined, _Whole) -> undefined;
share(Part, Whole) -> min(1.0, max(0, Part) / max(1, Whole)).
