%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_trace).
-moduledoc """
Shows calls and messages of running nodes as they happen, for `dyno trace`.

```erlang
{ok, Trace} = dyno_trace:start(['shop@host'], [~"shop:order/2 -> return"], #{count => 100}),
ok = dyno_trace:add(Trace, ~"shop:price/1"),
ok = dyno_trace:remove(Trace, ~"shop:order/2 -> return"),
{ok, Ended} = dyno_trace:stop(Trace).
```

Limits always apply: 10 calls, 15 seconds, 10,000 events a second, 2,000 events waiting in the node
and 1,000 on their way, 64 MiB. When a limit is reached, tracing ends in the node by itself, as it
does when its owner ends or the node is lost.

The function `show` gets the items in its own process, in order of time over all nodes. The owner
receives `{dyno_trace, Trace, {ended, Ended}}`.
""".

-behaviour(gen_server).

-export([start/3, add/2, remove/2, stop/1, await/1, replay/3, format_error/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2, terminate/2]).
-export_type([options/0, ended/0, reason/0]).

-type options() :: #{
    %% 15 seconds by default.
    for_ms => pos_integer(),
    %% Calls and messages; 10 by default.
    count => pos_integer(),
    %% Events a second.
    rate => pos_integer(),
    %% Events waiting in the node, and their memory.
    queue => pos_integer(),
    bytes => pos_integer(),
    %% The processes; by default all except those vital for a node.
    processes => [dyno_process_filter:t() | binary()],
    %% `events` by default; times of functions; values of an argument.
    what => events | latency | {argument, pos_integer()},
    %% Longer calls are shown one by one when functions are timed.
    above_ns => pos_integer(),
    %% Whether the end of each call is traced.
    tree => boolean(),
    %% Whether calls include their arguments; default true.
    arguments => boolean(),
    depth => pos_integer(),
    size => pos_integer(),
    %% Called with each item; by default prints lines to the caller's output.
    show => fun((dyno_trace_item:t()) -> term()),
    cookie => atom(),
    name => atom()
}.

-doc "The reason of each node's end: items of the kind `stopped`.".
-type ended() :: [dyno_trace_item:t()].

-type reason() :: {no_pattern, binary()} | ended.

-type state() :: #{
    owner := pid(),
    show := fun((dyno_trace_item:t()) -> term()),
    started_ms := integer(),
    for_ms := pos_integer(),
    count := pos_integer() | infinity,
    shown := non_neg_integer(),
    patterns := [{pos_integer(), dyno_trace_pattern:t()}],
    next := pos_integer(),
    %% The tracing targets, and the other targets' reasons.
    targets := [dyno_trace_target:t()],
    all := [dyno_trace_target:t()],
    ended := ended(),
    %% Items that an earlier item may still precede.
    waiting := [{At :: integer(), pid(), dyno_trace_item:t()}],
    callers := [gen_server:from()]
}.

-define(DEFAULTS, #{
    for_ms => 15_000,
    count => 10,
    rate => 10_000,
    queue => 2000,
    bytes => 67_108_864,
    what => events,
    tree => false,
    arguments => true,
    depth => 8,
    size => 80,
    processes => []
}).
%% With several nodes, items this old are complete.
-define(MERGE_MS, 200).
-define(MERGE_EACH_MS, 50).
%% On a busy machine removing breakpoints takes so long that 145,000 events were waiting.
-define(WINDOW_QUEUE, 400_000).

-doc """
Traces in these nodes.

## Errors
An invalid pattern, a missing or untraceable function, an unreachable node, or a node that another
dyno uses.
""".
-spec start([node(), ...], [unicode:chardata(), ...], options()) -> dyno_error:result(pid()).
start(Nodes, Patterns, Options) ->
    All = maps:merge(?DEFAULTS, Options),
    maybe
        ok ?= dyno_option:known([above_ns, show, cookie, name | maps:keys(?DEFAULTS)], Options),
        {ok, _} ?= gen_server:start(?MODULE, {self(), Nodes, Patterns, All}, [])
    else
        {error, {?MODULE, refused, Error}} -> {error, Error};
        {error, _} = Error -> Error
    end.

-doc "Adds a pattern of calls.".
-spec add(pid(), unicode:chardata()) -> dyno_error:result().
add(Trace, Pattern) -> call(Trace, {add, Pattern}).

-doc "Removes a pattern, written as it was given.".
-spec remove(pid(), unicode:chardata()) -> dyno_error:result().
remove(Trace, Pattern) -> call(Trace, {remove, unicode:characters_to_binary(Pattern)}).

-doc "Stops; returns when all items are shown and the nodes are left.".
-spec stop(pid()) -> dyno_error:result(ended()).
stop(Trace) ->
    Result = call(Trace, stop),
    receive
        {?MODULE, Trace, {ended, Ended}} -> {ok, Ended}
    after 0 -> Result
    end.

-doc "Waits for the end; for the owner only.".
-spec await(pid()) -> dyno_error:result(ended()).
await(Trace) ->
    Ref = monitor(process, Trace),
    receive
        {?MODULE, Trace, {ended, Ended}} ->
            true = demonitor(Ref, [flush]),
            {ok, Ended};
        {'DOWN', Ref, process, Trace, _} ->
            {error, {?MODULE, ended}}
    end.

call(Trace, Request) ->
    try
        gen_server:call(Trace, Request, infinity)
    catch
        exit:_ -> {error, {?MODULE, ended}}
    end.

-doc "Shows a file's items as in tracing.".
-spec replay(file:name_all(), fun((dyno_trace_item:t(), Acc) -> Acc), Acc) ->
    dyno_error:result(Acc).
replay(File, Show, Acc) -> dyno_trace_lines:fold(File, Show, Acc).

-doc false.
-spec init({pid(), [node()], [unicode:chardata()], options()}) ->
    {ok, state()} | {error, {?MODULE, refused, dyno_error:error()}}.
init({Owner, Nodes, Texts, Options}) ->
    process_flag(trap_exit, true),
    _ = monitor(process, Owner),
    maybe
        {ok, Parsed} ?= dyno_error:each(fun dyno_trace_pattern:parse/1, Texts),
        Patterns = lists:enumerate(Parsed),
        ok ?= dyno_target_node:connect(Nodes, maps:with([cookie, name], Options)),
        {ok, Selectors} ?=
            dyno_process_filter:check(map_get(processes, Options), Nodes, processes),
        ForTarget = target_options(Selectors, Options),
        Hold = fun(Node) -> dyno_trace_target:hold(Node, Patterns, ForTarget) end,
        {ok, Targets} ?= dyno_target:all(Nodes, Hold),
        _ = dyno_target_silence:watch(Nodes, map_get(for_ms, Options)),
        _ = length(Nodes) > 1 andalso erlang:send_after(?MERGE_EACH_MS, self(), merge),
        {ok, #{
            owner => Owner,
            show => maps:get(show, Options, printer(Nodes, Options)),
            started_ms => erlang:monotonic_time(millisecond),
            for_ms => map_get(for_ms, Options),
            count => count(Options),
            shown => 0,
            patterns => Patterns,
            next => length(Patterns) + 1,
            targets => Targets,
            all => Targets,
            ended => [],
            waiting => [],
            callers => []
        }}
    else
        {error, Error} -> {error, {?MODULE, refused, Error}}
    end.

count(#{what := events, count := Count}) -> Count;
count(_Options) -> infinity.

target_options(Selectors, #{what := What, tree := Tree, depth := Depth, size := Size} = Options) ->
    Limits = maps:with([for_ms, rate, queue, bytes], Options),
    (maps:with([what, above_ns, arguments, cookie, name], Options))#{
        processes => Selectors,
        count => count(Options),
        terms => #{depth => Depth, size => Size},
        ends =>
            case {What, Tree} of
                {latency, _} -> times;
                {_, true} -> ends;
                {_, false} -> as_asked
            end,
        limits =>
            case What of
                events -> Limits;
                %% Its windows are the limit; until one is closed many calls may come.
                _ -> Limits#{rate := infinity, queue := max(?WINDOW_QUEUE, map_get(queue, Limits))}
            end,
        arguments => arguments(What, Options)
    }.

arguments({argument, _}, _Options) -> true;
arguments(latency, Options) -> is_map_key(above_ns, Options);
arguments(events, #{arguments := Arguments}) -> Arguments.

printer(Nodes, #{tree := Tree}) ->
    dyno_trace_text:printer(#{tree => Tree, nodes => length(Nodes) > 1}, fun io:put_chars/1).

-doc false.
-spec handle_call(term(), gen_server:from(), state()) ->
    {reply, term(), state()} | {noreply, state()}.
handle_call({add, Text}, _From, #{patterns := Patterns, next := Next} = State) ->
    case dyno_trace_pattern:parse(Text) of
        {ok, Pattern} -> changed(Patterns ++ [{Next, Pattern}], State#{next := Next + 1});
        Error -> {reply, Error, State}
    end;
handle_call({remove, Text}, _From, #{patterns := Patterns} = State) ->
    case [Pattern || {_, #{text := Of}} = Pattern <- Patterns, Of =:= Text] of
        [] -> {reply, {error, {?MODULE, {no_pattern, Text}}}, State};
        Gone -> changed(Patterns -- Gone, State)
    end;
handle_call(stop, From, #{targets := Targets, callers := Callers} = State) ->
    lists:foreach(fun dyno_trace_target:stop/1, Targets),
    {noreply, State#{callers := [From | Callers]}}.

changed(Patterns, #{targets := Targets} = State) ->
    Results = [dyno_trace_target:change(Target, Patterns) || Target <- Targets],
    case [Error || {error, _} = Error <- Results] of
        [] -> {reply, ok, State#{patterns := Patterns}};
        [Error | _] -> {reply, Error, State}
    end.

-doc false.
-spec handle_cast(term(), state()) -> {noreply, state()}.
handle_cast(_Message, State) ->
    {noreply, State}.

-doc false.
-spec handle_info(term(), state()) -> {noreply, state()} | {stop, normal, state()}.
handle_info({dyno_trace, Node, Sender, Events}, #{all := All} = State) ->
    case [Target || #{node := Of} = Target <- All, Of =:= Node] of
        [Target] ->
            Items = [dyno_trace_item:of_event(Node, Event, Target) || Event <- Events],
            step(lists:foldl(fun(Item, Acc) -> came(Item, Sender, Acc) end, State, Items));
        [] ->
            {noreply, State}
    end;
handle_info(merge, State) ->
    _ = erlang:send_after(?MERGE_EACH_MS, self(), merge),
    step(merged(erlang:system_time(nanosecond) - ?MERGE_MS * 1_000_000, State));
handle_info({'DOWN', _, process, Owner, _}, #{owner := Owner} = State) ->
    {stop, normal, State};
handle_info(Message, #{targets := Targets} = State) ->
    case dyno_target:event(Message, Targets) of
        none -> {noreply, State};
        {lost, Target, _} -> lost(Target, "the node was lost", State);
        {gave_up, Target, Why} -> lost(Target, io_lib:format("~0tP", [Why, 12]), State);
        {without, Target, _, Why} -> lost(Target, io_lib:format("~0tP", [Why, 12]), State)
    end.

lost(#{node := Node}, Why, State) ->
    Reason = #{limit => failed, text => unicode:characters_to_binary(Why)},
    Item = #{event => stopped, node => atom_to_binary(Node), reason => Reason},
    step(ended(with_count(Item, State), State)).

%% With several nodes a node's number of items is not counted here.
with_count(Item, #{all := [_], shown := Shown}) -> Item#{count => Shown};
with_count(Item, _State) -> Item.

%% Waiting items are shown before their node's end.
came(#{event := stopped} = Item, _Sender, State) ->
    ended(Item, State);
came(#{at := At} = Item, Sender, #{all := [_, _ | _], waiting := Waiting} = State) ->
    State#{waiting := [{At, Sender, Item} | Waiting]};
came(Item, Sender, State) ->
    shown(Sender, Item, State).

ended(#{node := Node} = Item, #{targets := Targets, ended := Ended} = State) ->
    #{started_ms := StartedMs, for_ms := ForMs} = State,
    Left = [Target || #{node := Of} = Target <- Targets, atom_to_binary(Of) =/= Node],
    Observed = Item#{
        observed_ms => erlang:monotonic_time(millisecond) - StartedMs, asked_ms => ForMs
    },
    State#{targets := Left, ended := [Observed | Ended]}.

merged(Until, #{waiting := Waiting} = State) ->
    {Later, Due} = lists:partition(fun({At, _, _}) -> At > Until end, Waiting),
    lists:foldl(
        fun({_, Sender, Item}, Acc) -> shown(Sender, Item, Acc) end,
        State#{waiting := Later},
        lists:sort(Due)
    ).

shown(Sender, Item, #{show := Show, shown := Shown} = State) ->
    _ = Show(Item),
    ok = dyno_agent_trace_sender:ack(Sender, 1),
    New = State#{shown := Shown + counts(Item)},
    case New of
        #{shown := Count, count := Count, all := [_, _ | _], targets := Targets} when
            Count > Shown
        ->
            lists:foreach(fun dyno_trace_target:stop/1, Targets),
            New;
        #{} ->
            New
    end.

counts(#{event := Event}) when Event =:= call; Event =:= send; Event =:= 'receive' -> 1;
counts(_Item) -> 0.

step(#{targets := []} = State) ->
    #{show := Show, ended := Items, all := All} = Last = merged(infinity, State),
    Ended = with_visits(Items, dyno_target:leave(All)),
    lists:foreach(Show, Ended),
    #{owner := Owner, callers := Callers} = Last,
    Owner ! {?MODULE, self(), {ended, Ended}},
    lists:foreach(fun(From) -> gen_server:reply(From, {ok, Ended}) end, Callers),
    {stop, normal, Last#{all := []}};
step(State) ->
    {noreply, State}.

%% A node's last item has the visit's cost and remains.
with_visits(Items, Visits) ->
    ByNode = #{atom_to_binary(Node) => Visit || #{node := Node} = Visit <- Visits},
    [
        case ByNode of
            #{Node := Visit} -> Item#{visit => Visit};
            #{} -> Item
        end
     || #{node := Node} = Item <- Items
    ].

-doc false.
-spec terminate(term(), state()) -> ok.
terminate(_Reason, #{all := All}) ->
    _ = dyno_target:leave(All),
    ok.

-spec format_error(reason()) -> unicode:chardata().
format_error({no_pattern, Text}) ->
    ["\"", Text, "\" is not traced; write the pattern as it was given"];
format_error(ended) ->
    "it has ended already".
