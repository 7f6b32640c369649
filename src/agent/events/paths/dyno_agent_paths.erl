%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_paths).
-moduledoc false.
%% Folds trace messages into a tree of call paths: calls, own time, and time off the schedulers.
%%
%% The time between two events belongs to the current function, and partly is tracing: after the
%% first timestamp, and before the second. So the tree also counts types and nearness of both
%% events; `dyno_agent_path_cost` knows the cost of each pair.
%%
%% Memory: a node for each path (`dyno_agent_path_tree`), and the frames of each living process.

-export([new/1, event/2, begins/3, ends/3, pause/2, resume/3, tree/1, processes/1, forget/2]).
-export_type([t/0, config/0, event/0]).

-doc "`run`: scheduled in or out.".
-type event() :: call | return | run.

-type config() :: #{
    %% Native time from which on two events are far.
    far := non_neg_integer(),
    most := pos_integer(),
    %% The group of a process; dyno's own processes are left out.
    group := fun((pid()) -> own | term()),
    %% Whether only extents count.
    extents := boolean()
}.

%% The current node and its start; `off` a scheduler, or outside of any extent.
-record(process, {
    root :: dyno_agent_path_stack:node_id(),
    stack = [] :: dyno_agent_path_stack:t(),
    at :: dyno_agent_path_stack:node_id(),
    last :: integer(),
    event = run :: event(),
    state :: on | off | outside
}).

%% A record, because each event changes it.
-record(paths, {
    config :: config(),
    tree :: dyno_agent_path_tree:t(),
    %% The last event's process is kept apart.
    pid = none :: pid() | none,
    process = none :: #process{} | none,
    others = #{} :: #{pid() => #process{}},
    %% When the silence began; when the last one ended.
    paused = none :: integer() | none,
    told = none :: integer() | none
}).

-opaque t() :: #paths{}.

-spec new(config()) -> t().
new(#{most := Most} = Config) ->
    #paths{config = Config, tree = dyno_agent_path_tree:new(Most)}.

-doc "Takes a trace message with a monotonic time; ignores others.".
-spec event(tuple(), t()) -> t().
event(Message, #paths{paused = Paused} = State) when
    is_integer(Paused), element(tuple_size(Message), Message) > Paused
->
    while_paused(Message, State);
event(Message, #paths{told = Told} = State) when
    is_integer(Told), element(tuple_size(Message), Message) < Told
->
    while_paused(Message, State);
event({trace_ts, Pid, call, MFA, ReturnsTo, Time}, State) ->
    called(MFA, ReturnsTo, Time, of_process(Pid, Time, State));
event({trace_ts, Pid, return_to, MFA, Time}, State) ->
    returned(MFA, Time, of_process(Pid, Time, State));
event({trace_ts, Pid, In, _MFA, Time}, State) when In =:= in; In =:= in_exiting ->
    scheduled(on, Time, of_process(Pid, Time, State));
event({trace_ts, Pid, Out, _MFA, Time}, State) when Out =:= out; Out =:= out_exiting ->
    scheduled(off, Time, of_process(Pid, Time, State));
event({trace_ts, Pid, out_exited, _MFA, _Time}, State) ->
    forget(Pid, State);
event(_Other, State) ->
    State.

%% Scheduling is traced also in silence.
while_paused({trace_ts, Pid, How, _MFA, Time}, State) when How =:= in; How =:= out ->
    case of_process(Pid, Time, State) of
        #paths{process = #process{state = outside}} = Next ->
            Next;
        #paths{process = Process} = Next ->
            Next#paths{process = (until_pause(Process, Next))#process{state = state(How)}}
    end;
while_paused(_Message, State) ->
    State.

state(in) -> on;
state(out) -> off.

until_pause(
    #process{last = Last, state = How, stack = Stack} = Process, #paths{paused = Paused} = State
) when
    is_integer(Paused), Last < Paused, How =/= outside, Stack =/= []
->
    #process{at = At} = Process,
    #paths{tree = Tree} = State,
    Counter = map_get(How, #{on => own, off => off}),
    ok = dyno_agent_path_tree:add(At, {Counter, Paused - Last}, Tree),
    Process#process{last = Paused};
until_pause(Process, _State) ->
    Process.

of_process(Pid, _Time, #paths{pid = Pid} = State) ->
    State;
of_process(Pid, Time, #paths{pid = none} = State) ->
    found(Pid, Time, State);
of_process(Pid, Time, #paths{pid = Before, process = Process, others = Others} = State) ->
    found(Pid, Time, State#paths{others = Others#{Before => Process}}).

found(Pid, Time, #paths{others = Others} = State) ->
    case Others of
        #{Pid := Process} -> State#paths{pid = Pid, process = Process};
        #{} -> new_process(Pid, Time, State)
    end.

new_process(Pid, Time, #paths{config = #{group := Group, extents := Extents}} = State) ->
    case Group(Pid) of
        own ->
            State#paths{
                pid = Pid, process = #process{root = 1, at = 1, last = Time, state = outside}
            };
        Event ->
            #paths{tree = Tree} = State,
            {Root, Next} = dyno_agent_path_tree:root(Event, Tree),
            At =
                case Extents of
                    true -> outside;
                    false -> on
                end,
            Process = #process{root = Root, at = Root, last = Time, state = At},
            State#paths{pid = Pid, process = Process, tree = Next}
    end.

called(_MFA, _ReturnsTo, _Time, #paths{process = #process{state = outside}} = State) ->
    State;
called(MFA, ReturnsTo, Time, State) ->
    #paths{process = #process{stack = Stack}} = Spent = spent(call, Time, State),
    case dyno_agent_path_stack:call(MFA, ReturnsTo, Stack) of
        {at, Next} -> counted(Next, Spent);
        {push, _, _, _} = Push -> pushed(MFA, Push, Spent);
        {base, Base} -> based(MFA, Base, Spent)
    end.

based(MFA, Base, State) ->
    #paths{process = #process{stack = Stack}} = Next = at_base(Base, State),
    case dyno_agent_path_stack:call(MFA, Base, Stack) of
        {push, _, _, _} = Push -> pushed(MFA, Push, Next);
        {at, Same} -> counted(Same, Next)
    end.

at_base(Base, #paths{tree = Tree, process = #process{root = Root} = Process} = State) ->
    {Node, Next} = dyno_agent_path_tree:child(Root, Base, Tree),
    Stack = dyno_agent_path_stack:base(Base, Node),
    State#paths{tree = Next, process = Process#process{stack = Stack, at = Node}}.

pushed(MFA, {push, ReturnsTo, How, Stack}, #paths{tree = Tree, process = Process} = State) ->
    #process{root = Root} = Process,
    Parent = dyno_agent_path_stack:node(Stack, Root),
    {Node, Next} = dyno_agent_path_tree:child(Parent, MFA, Tree),
    Pushed = dyno_agent_path_stack:push(MFA, ReturnsTo, How, {Node, Stack}),
    counted(Pushed, State#paths{tree = Next}).

counted(Stack, #paths{tree = Tree, process = #process{root = Root} = Process} = State) ->
    Node = dyno_agent_path_stack:node(Stack, Root),
    ok = dyno_agent_path_tree:calls(Node, Tree),
    State#paths{process = Process#process{stack = Stack, at = Node}}.

returned(_MFA, _Time, #paths{process = #process{state = outside}} = State) ->
    State;
returned(MFA, Time, State) ->
    #paths{process = Process} = Spent = spent(return, Time, State),
    #process{stack = Stack, root = Root} = Process,
    case dyno_agent_path_stack:return(MFA, Stack) of
        {base, Base} ->
            at_base(Base, Spent);
        Next ->
            At = dyno_agent_path_stack:node(Next, Root),
            Spent#paths{process = Process#process{stack = Next, at = At}}
    end.

scheduled(_How, _Time, #paths{process = #process{state = outside}} = State) ->
    State;
scheduled(How, Time, State) ->
    #paths{process = Process} = Spent = spent(run, Time, State),
    Spent#paths{process = Process#process{state = How}}.

%% The time since the last event; in no known function it counts for none.
spent(Event, Time, #paths{process = #process{stack = []} = Process} = State) ->
    State#paths{process = Process#process{last = Time, event = Event, state = on}};
spent(Event, Time, #paths{tree = Tree, process = #process{state = off} = Process} = State) ->
    #process{at = At, last = Last} = Process,
    ok = dyno_agent_path_tree:add(At, {off, Time - Last}, Tree),
    %% The message that it runs again was missed.
    State#paths{process = Process#process{last = Time, event = Event, state = on}};
spent(Event, Time, #paths{tree = Tree, process = #process{at = At} = Process} = State) ->
    #process{last = Last, event = Before} = Process,
    Passed = Time - Last,
    ok = dyno_agent_path_tree:add(At, {own, Passed}, Tree),
    ok = dyno_agent_path_tree:add(At, {{distance(Passed, State), pair(Before, Event)}, 1}, Tree),
    State#paths{process = Process#process{last = Time, event = Event}}.

distance(Passed, #paths{config = #{far := Far}}) when Passed < Far -> near;
distance(_Passed, _State) -> far.

%% Being scheduled costs as much as a return.
pair(call, call) -> 0;
pair(call, _) -> 1;
pair(_, call) -> 2;
pair(_, _) -> 3.

-spec begins(pid(), {mfa(), Time :: integer()}, t()) -> t().
begins(Pid, {MFA, Time}, State) ->
    #paths{process = Process, tree = Tree} = Of = of_process(Pid, Time, State),
    #process{root = Root} = Process,
    {Node, Next} = dyno_agent_path_tree:child(Root, MFA, Tree),
    Stack = dyno_agent_path_stack:new(MFA, Node),
    counted(Stack, Of#paths{
        tree = Next, process = Process#process{last = Time, event = call, state = on}
    }).

-spec ends(pid(), Time :: integer(), t()) -> t().
ends(Pid, Time, State) ->
    #paths{process = Process} = Spent = spent(return, Time, of_process(Pid, Time, State)),
    Spent#paths{process = Process#process{stack = [], state = outside}}.

-spec pause(integer(), t()) -> t().
pause(Time, State) -> State#paths{paused = Time}.

-doc "Calls are traced again, in processes with these stacks, innermost first; drops extents.".
-spec resume(integer(), #{pid() => [mfa()]}, t()) -> t().
resume(Time, Stacks, #paths{config = #{extents := Extents}} = State) ->
    Placed = lists:foldl(
        fun(Pid, Acc) ->
            #paths{process = Process} = Of = of_process(Pid, Time, Acc),
            Ended = until_pause(Process, Of),
            case Extents orelse Process#process.state =:= outside of
                true -> Of#paths{process = Ended#process{state = outside, stack = []}};
                false -> placed(Time, maps:get(Pid, Stacks, []), Of#paths{process = Ended})
            end
        end,
        State,
        processes(State)
    ),
    Placed#paths{paused = none, told = Time}.

placed(Time, Functions, #paths{tree = Tree, process = #process{root = Root} = Process} = State) ->
    {Frames, At, Next} = lists:foldr(
        fun(MFA, {Inner, Parent, Of}) ->
            {Node, More} = dyno_agent_path_tree:child(Parent, MFA, Of),
            {[{MFA, Node} | Inner], Node, More}
        end,
        {[], Root, Tree},
        Functions
    ),
    Stack = dyno_agent_path_stack:known(Frames),
    State#paths{
        tree = Next, process = Process#process{stack = Stack, at = At, last = Time, event = run}
    }.

-spec forget(pid(), t()) -> t().
forget(Pid, #paths{pid = Pid, others = Others} = State) ->
    State#paths{pid = none, process = none, others = maps:remove(Pid, Others)};
forget(Pid, #paths{others = Others} = State) ->
    State#paths{others = maps:remove(Pid, Others)}.

-spec processes(t()) -> [pid()].
processes(#paths{pid = none, others = Others}) -> maps:keys(Others);
processes(#paths{pid = Pid, others = Others}) -> [Pid | maps:keys(maps:remove(Pid, Others))].

-spec tree(t()) -> dyno_agent_path_tree:t().
tree(#paths{tree = Tree}) -> Tree.
