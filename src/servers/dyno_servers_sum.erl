%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_servers_sum).
-moduledoc false.
%% What one server process did in one window, in a form that adds up: with other processes of the
%% same time, and with later times of the same processes. Histograms are merged, so that percentiles
%% of a sum are those of all of its callbacks. Pure.

-export([of_server/2, add_process/2, add_time/2, all_callbacks/1, snapshot/1]).
-export_type([sum/0, callback/0, tag/0, stage/0, histogram/0]).

-type histogram() :: dyno_histogram:snapshot() | none.

-type sum() :: #{
    labels := #{atom() => binary()},
    start_ns := integer(),
    duration_ns := non_neg_integer(),
    %% The time of the windows, once for each process: 10 s for ten processes in a window of 1 s.
    process_ns := non_neg_integer(),
    %% At once; in a sum over a time the most at once.
    processes := non_neg_integer(),
    ended := non_neg_integer(),
    crashes := non_neg_integer(),
    reasons := [binary()],
    callbacks := [callback()],
    queue_now := non_neg_integer(),
    queue_max := non_neg_integer(),
    queue := histogram(),
    delay := histogram(),
    delay_method := binary() | undefined,
    wall_ns := non_neg_integer() | undefined,
    %% The same, with what ran at the end and without what ran before the beginning.
    busy_ns := integer() | undefined,
    %% The callback that has run for longest at the end.
    running := none | #{callback := binary(), ns := non_neg_integer()},
    cpu_ns := non_neg_integer() | undefined,
    words := integer() | undefined,
    arrived := integer() | undefined,
    served := non_neg_integer(),
    measured := [hook | call_time | none],
    why := binary() | undefined,
    tags := [tag()],
    stage := none | stage()
}.

-type callback() :: #{
    name := binary(),
    count := non_neg_integer(),
    exceptions := non_neg_integer(),
    stops := non_neg_integer(),
    wall := histogram(),
    sum_ns := number(),
    sum_squares_us := number(),
    min_ns := number() | undefined,
    max_ns := number() | undefined,
    cpu_ns := number() | undefined,
    words := number() | undefined
}.

-type tag() :: #{
    tag := binary(), callback := atom(), count := non_neg_integer(), wall_ns := non_neg_integer()
}.

-type stage() :: #{atom() => term()}.

%% Kinds of messages that are kept of a sum, those that took the most time.
-define(MOST_TAGS, 20).
-define(MOST_REASONS, 3).
%% An error that bothers nobody.
-define(FINE_NS, 50_000).
%% A server's own beginning and end are no messages that it was sent.
-define(NO_MESSAGE, [~"init", ~"terminate"]).

-doc "What a process did in a window; both as the agent sends them.".
-spec of_server(Server :: map(), Window :: map()) -> sum().
of_server(#{pid := Pid, module := Module} = Server, #{node := Node} = Window) ->
    #{start_ns := StartNs, duration_ns := DurationNs} = Window,
    #{state := State, queue := Queue, delay := Delay, stage := Stage} = Server,
    #{
        labels => labels(Server, #{
            node => atom_to_binary(Node),
            pid => dyno_server_name:pid(Pid),
            module => dyno_server_name:module(Module)
        }),
        start_ns => StartNs,
        duration_ns => DurationNs,
        process_ns => DurationNs,
        processes => 1,
        ended => count(State =/= alive),
        crashes => count(State =:= crashed),
        reasons => [Reason || State =:= crashed, #{reason := <<Reason/binary>>} <- [Server]],
        callbacks => [callback(Callback) || Callback <- lists:sort(map_get(callbacks, Server))],
        queue_now => map_get(now, Queue),
        queue_max => map_get(max, Queue),
        queue => snapshot(map_get(at_dispatch, Queue)),
        delay => known_delay(Delay),
        delay_method => maps:get(method, Delay, undefined),
        wall_ns => map_get(wall_ns, Server),
        busy_ns => plus(map_get(wall_ns, Server), maps:get(running_ns, Server, undefined)),
        running => maps:get(under_way, Server, none),
        cpu_ns => map_get(cpu_ns, Server),
        words => map_get(words, Server),
        arrived => map_get(arrived, Server),
        served => map_get(served, Server),
        measured => [map_get(measured, Server)],
        why => map_get(why_not_hook, Server),
        tags => map_get(tags, Server),
        stage => stage(Stage)
    }.

labels(Server, Labels) ->
    #{name := Name, behaviour := Behaviour, application := App, supervisor := Supervisor} = Server,
    Given = Labels#{
        name => dyno_server_name:text(Name),
        behaviour => atom_to_binary(Behaviour),
        application => App,
        supervisor => Supervisor
    },
    #{Key => label(Value) || Key := Value <- Given, Value =/= undefined}.

label(Value) when is_atom(Value) -> dyno_server_name:module(Value);
label(Value) when is_binary(Value) -> dyno_server_name:text(Value).

count(true) -> 1;
count(false) -> 0.

callback(#{wall := Wall} = Callback) ->
    Callback#{wall := snapshot(Wall)}.

stage(none) ->
    none;
stage(Stage) ->
    maps:map(
        fun
            (Key, Histogram) when Key =:= batches; Key =:= demand_to_event -> snapshot(Histogram);
            (_Key, Value) -> Value
        end,
        Stage
    ).

%% Where messages come seldom and many at once, the queue's samples do not tell when they came.
known_delay(#{histogram := Sent} = Delay) ->
    case {snapshot(Sent), maps:get(error_ns, Delay, undefined)} of
        {#{count := Count, sum := SumNs}, ErrorNs} when
            is_number(ErrorNs),
            ErrorNs > ?FINE_NS,
            ErrorNs > SumNs / Count / 2
        ->
            none;
        {Snapshot, _} ->
            Snapshot
    end.

-doc "A histogram as an agent sends it, as a snapshot of `m:dyno_histogram`.".
-spec snapshot(none | map()) -> histogram().
snapshot(none) -> none;
snapshot(#{buckets := []}) -> none;
snapshot(#{count := _} = Snapshot) -> Snapshot;
snapshot(#{buckets := Buckets} = Sent) -> Sent#{count => lists:sum([N || {_, N} <- Buckets])}.

-doc "Of other processes in the same time.".
-spec add_process(sum(), sum()) -> sum().
add_process(A, B) ->
    Sum = added(A, B),
    Sum#{
        start_ns := min(map_get(start_ns, A), map_get(start_ns, B)),
        duration_ns := max(map_get(duration_ns, A), map_get(duration_ns, B)),
        processes := map_get(processes, A) + map_get(processes, B),
        queue_now := map_get(queue_now, A) + map_get(queue_now, B),
        running := longest(map_get(running, A), map_get(running, B)),
        stage := stages(fun(Now, Other) -> Now + Other end, A, B)
    }.

-doc "Of a later time.".
-spec add_time(sum(), Later :: sum()) -> sum().
add_time(A, B) ->
    Sum = added(A, B),
    Sum#{
        duration_ns := map_get(duration_ns, A) + map_get(duration_ns, B),
        processes := max(map_get(processes, A), map_get(processes, B)),
        queue_now := map_get(queue_now, B),
        running := map_get(running, B),
        stage := stages(fun(_Earlier, Later) -> Later end, A, B)
    }.

%% What is added in the same way, whether another process or a later time comes.
added(A, B) ->
    Of = fun(Merge, Key) -> Merge(map_get(Key, A), map_get(Key, B)) end,
    Plus = fun(Key) -> Of(fun plus/2, Key) end,
    A#{
        %% What is the same in both.
        labels := maps:filter(
            fun(Key, Value) -> maps:find(Key, map_get(labels, B)) =:= {ok, Value} end,
            map_get(labels, A)
        ),
        process_ns := Plus(process_ns),
        ended := Plus(ended),
        crashes := Plus(crashes),
        reasons := lists:sublist(lists:uniq(Of(fun erlang:'++'/2, reasons)), ?MOST_REASONS),
        callbacks := Of(fun callbacks/2, callbacks),
        queue_max := Of(fun erlang:max/2, queue_max),
        queue := Of(fun merge/2, queue),
        delay := Of(fun merge/2, delay),
        delay_method := Of(fun either/2, delay_method),
        wall_ns := Plus(wall_ns),
        busy_ns := Plus(busy_ns),
        cpu_ns := Plus(cpu_ns),
        words := Plus(words),
        arrived := Plus(arrived),
        served := Plus(served),
        measured := lists:usort(Of(fun erlang:'++'/2, measured)),
        why := Of(fun either/2, why),
        tags := Of(fun tags/2, tags)
    }.

longest(none, B) -> B;
longest(#{ns := A} = Running, #{ns := B}) when A >= B -> Running;
longest(Running, none) -> Running;
longest(_, Running) -> Running.

%% What is not known of one is known of the other at least.
plus(undefined, B) -> B;
plus(A, undefined) -> A;
plus(A, B) -> A + B.

either(undefined, B) -> B;
either(A, _) -> A.

merge(none, B) -> B;
merge(A, none) -> A;
merge(A, B) -> dyno_histogram:merge(A, B).

%% Both are sorted by name.
callbacks([#{name := Name} = A | As], [#{name := Name} = B | Bs]) ->
    [both(A, B) | callbacks(As, Bs)];
callbacks([#{name := NameA} = A | As], [#{name := NameB} | _] = Bs) when NameA < NameB ->
    [A | callbacks(As, Bs)];
callbacks([_ | _] = As, [B | Bs]) ->
    [B | callbacks(As, Bs)];
callbacks([], Bs) ->
    Bs;
callbacks(As, []) ->
    As.

both(A, B) ->
    Plus = fun(Key) -> plus(map_get(Key, A), map_get(Key, B)) end,
    #{
        name => map_get(name, A),
        count => Plus(count),
        exceptions => Plus(exceptions),
        stops => Plus(stops),
        wall => merge(map_get(wall, A), map_get(wall, B)),
        sum_ns => Plus(sum_ns),
        sum_squares_us => Plus(sum_squares_us),
        min_ns => least(map_get(min_ns, A), map_get(min_ns, B)),
        max_ns => greatest(map_get(max_ns, A), map_get(max_ns, B)),
        cpu_ns => Plus(cpu_ns),
        words => Plus(words)
    }.

%% An atom is greater than any number.
least(A, B) -> min(A, B).

greatest(undefined, B) -> B;
greatest(A, undefined) -> A;
greatest(A, B) -> max(A, B).

-doc "All callbacks for messages together, as one; `none` where there were none.".
-spec all_callbacks(sum()) -> callback() | none.
all_callbacks(#{callbacks := Callbacks}) ->
    case [C || #{name := Name} = C <- Callbacks, not lists:member(Name, ?NO_MESSAGE)] of
        [] -> none;
        [First | Rest] -> lists:foldl(fun both/2, First#{name := ~"all"}, Rest)
    end.

tags(As, []) ->
    As;
tags([], Bs) ->
    Bs;
tags(As, Bs) ->
    Key = fun(#{tag := Tag, callback := Callback}) -> {Tag, Callback} end,
    Add = fun(#{count := N, wall_ns := Ns} = Of, All) ->
        maps:update_with(
            Key(Of),
            fun(#{count := M, wall_ns := Ms} = Is) -> Is#{count := M + N, wall_ns := Ms + Ns} end,
            Of,
            All
        )
    end,
    All = maps:values(lists:foldl(Add, #{}, As ++ Bs)),
    ByTime = lists:sort(
        fun(A, B) -> {map_get(wall_ns, A), A} >= {map_get(wall_ns, B), B} end, All
    ),
    lists:sublist(ByTime, ?MOST_TAGS).

%% What is outstanding or buffered is so at a moment.
stages(Moment, #{stage := #{} = A}, #{stage := #{} = B}) ->
    maps:merge_with(
        fun
            (kind, Kind, _) -> Kind;
            (Key, X, Y) when Key =:= batches; Key =:= demand_to_event -> merge(X, Y);
            (Key, X, Y) when Key =:= outstanding; Key =:= buffered -> moment(Moment, X, Y);
            (subscriptions, X, Y) -> subscriptions(X ++ Y);
            (_, X, Y) -> plus(X, Y)
        end,
        A,
        B
    );
stages(_Moment, #{stage := none}, #{stage := Stage}) ->
    Stage;
stages(_Moment, #{stage := Stage}, _) ->
    Stage.

moment(_Moment, X, undefined) -> X;
moment(_Moment, undefined, Y) -> Y;
moment(Moment, X, Y) -> Moment(X, Y).

subscriptions(Edges) ->
    Sums = lists:foldl(
        fun(#{from := From, to := To, events := N}, Acc) ->
            maps:update_with({From, To}, fun(M) -> M + N end, N, Acc)
        end,
        #{},
        Edges
    ),
    [#{from => From, to => To, events => N} || {From, To} := N <- maps:iterator(Sums, ordered)].
