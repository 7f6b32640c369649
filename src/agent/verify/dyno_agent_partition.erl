%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_partition).
-moduledoc false.
%% Runs monitors on events, in a partition for each process, which its `spawned` event opens. Pure:
%% for a running system, a recording, and every order of events in tests.
%%
%% spawned(P) -> open: the monitors that the choice gives P     nobody's -> {ignore, P}
%% event of P -> each monitor of P that wants such events       decided  -> {verdict, Report}
%% exit of P  -> ended/1 of the rest; closed                    all decided -> closed, {ignore, P}
%%
%% Only the order of each process's own events matters. Events without a partition are ignored. A
%% cut-off partition (`gap/3`) ends inconclusive as a whole; no single event is ever left out.
%%
%% Monitors with a key are in dyno_agent_partition_keyed.

-export([new/2, event/4, attach/2, gap/3, gap_all/2, timeouts/2, next/1, settle/1]).
-export([is_open/2, pids/1]).
-export_type([t/0, options/0, effect/0]).

-type options() :: #{
    %% Events shown in a report; default: 10.
    events => non_neg_integer(),
    %% Selects processes in place of the monitors' own selectors.
    choice => dyno_agent_process_filter:table(module()),
    %% How long an event waits for earlier ones, for monitors with a key; default: 20 ms.
    reorder_ns => non_neg_integer()
}.

-doc "`ignore`: no event but new names and labels is needed; `follow`: all are, from now on.".
-type effect() ::
    {opened, dyno_agent_event:process(), [module()]}
    %% A process with a partition also belongs to this monitor.
    | {wanted, module()}
    | {closed, dyno_agent_monitor:trace_state(), pid()}
    %% The process's partition will not be opened again.
    | {ended, pid()}
    %% The monitor got this process's first named event, or the process ended, complete.
    | {seen, module()}
    %% The monitor has decided for this process, or is finished; once for each.
    | {decided, module(), pid(), broken | held | unknown | cut | crashed}
    %% A monitor with a key is unsure: an event came too late, there are too many keys, or a process
    %% was cut off; or the instrumentation does not run the monitor for all its processes. Once for
    %% each.
    | {unsure, module(), late | full | cut | unsupported}
    | {verdict, dyno_agent_monitor:report()}
    | {crashed, module(), dyno_agent_event:process(), {atom(), term(), list()}}
    | {ignore, pid()}
    | {follow, pid()}.

-record(running, {
    module :: module(),
    state :: term(),
    entry = infinity :: infinity | integer(),
    seen = false :: boolean(),
    broken = false :: boolean()
}).

-record(partition, {
    process :: dyno_agent_event:process(),
    trace :: dyno_agent_monitor:trace_state(),
    running :: [#running{}],
    %% Monitors with a key that get its events, and those that have got one.
    keyed :: [module()],
    keyed_seen = [] :: [module()],
    %% The last events, newest first, at most twice the number that a report shows.
    keep :: non_neg_integer(),
    count = 0 :: non_neg_integer(),
    events = [] :: [{integer(), dyno_agent_event:event()}]
}).

-record(core, {
    choice :: dyno_agent_process_filter:table(module()),
    late :: boolean(),
    monitors :: #{module() => monitor()},
    keep :: non_neg_integer(),
    open = #{} :: #{pid() => #partition{}},
    %% Elixir tasks that do not know their function yet.
    tasks = #{} :: #{pid() => Parent :: pid()},
    timeouts = gb_sets:new() :: gb_sets:set({integer(), pid(), module()}),
    keyed :: dyno_agent_partition_keyed:t()
}).

%% `own`: the types that it asked for, without those that every monitor gets.
-type monitor() :: #{
    types := #{atom() => []},
    own := #{atom() => []},
    names := boolean(),
    key := boolean(),
    deadline := boolean()
}.

-opaque t() :: #core{}.

-define(EVENTS, 10).
-define(REORDER_NS, 20_000_000).
-define(NEVER, -(1 bsl 62)).

-spec new([module()], options()) -> t().
new(Modules, Options) ->
    Choice =
        case Options of
            #{choice := Given} -> Given;
            #{} -> dyno_agent_monitor:table(Modules, #{})
        end,
    Keep = maps:get(events, Options, ?EVENTS),
    ReorderNs = maps:get(reorder_ns, Options, ?REORDER_NS),
    #core{
        choice = Choice,
        late = dyno_agent_process_filter:has([registered, label], Choice),
        monitors = #{Module => about(Module) || Module <- Modules},
        keep = Keep,
        keyed = dyno_agent_partition_keyed:new(ReorderNs, Keep)
    }.

about(Module) ->
    #{events := Events, key := Key} = dyno_agent_monitor:needs(Module),
    Types = lists:append([types(Event) || Event <- Events]),
    #{
        types => #{Type => [] || Type <- [spawned, exit | Types]},
        own => #{Type => [] || Type <- Types},
        names => erlang:function_exported(Module, names, 1),
        key => Key,
        deadline => erlang:function_exported(Module, deadline, 1)
    }.

types(return) -> [call, return, exception];
types(Type) when is_atom(Type) -> [Type];
types(Filter) -> types(element(1, Filter)).

-spec event(pid(), dyno_agent_event:event(), TimeNs :: integer(), t()) -> {t(), [effect()]}.
event(Pid, {spawned, _, _} = Event, TimeNs, Core0) ->
    {Core, Before} =
        case is_open(Pid, Core0) of
            true -> gap(Pid, TimeNs, Core0);
            false -> {Core0, []}
        end,
    Process = dyno_agent_event:description(Pid, Event),
    #core{choice = Choice, tasks = Tasks} = Core,
    case dyno_agent_process_filter:of_process(Process, Choice) of
        [] ->
            case dyno_agent_event:is_waiting_task(Event) of
                true -> {Core#core{tasks = Tasks#{Pid => element(2, Event)}}, Before};
                false -> {Core, Before ++ [{ignore, Pid}]}
            end;
        Modules ->
            {Opened, Effects} = open(Process, Modules, Core),
            #core{open = #{Pid := Partition}} = Opened,
            {Stepped, More} = event_of(Pid, Event, TimeNs, Partition, Opened),
            {Stepped, Before ++ Effects ++ More}
    end;
%% The task's function is known now: its trace begins here.
event(Pid, {call, {'Elixir.Task.Supervised', _, Arguments}}, TimeNs, #core{tasks = Tasks} = Core) ->
    case maps:take(Pid, Tasks) of
        {Parent, Rest} ->
            Started = {spawned, Parent, {'Elixir.Task.Supervised', noreply, Arguments}},
            event(Pid, Started, TimeNs, Core#core{tasks = Rest});
        error ->
            {Core, []}
    end;
event(Pid, {exit, _}, _TimeNs, #core{tasks = Tasks} = Core) when is_map_key(Pid, Tasks) ->
    {Core#core{tasks = maps:remove(Pid, Tasks)}, []};
event(Pid, Event, TimeNs, #core{open = Open, late = Late} = Core) ->
    case Open of
        #{Pid := Partition} when Late -> renamed(Pid, Event, TimeNs, Partition, Core);
        #{Pid := Partition} -> event_of(Pid, Event, TimeNs, Partition, Core);
        #{} when Late -> chosen_late(Pid, Event, Core);
        #{} -> {Core, []}
    end.

-doc "Adds a running process; no partition if no monitor needs it.".
-spec attach(dyno_agent_event:process(), t()) -> {t(), [effect()]}.
attach(#{pid := Pid}, #core{open = Open} = Core) when is_map_key(Pid, Open) ->
    {Core, []};
attach(Process, #core{choice = Choice} = Core) ->
    case dyno_agent_process_filter:of_process(Process, Choice) of
        [] -> {Core, []};
        Modules -> open(Process, Modules, Core)
    end.

open(#{pid := Pid} = Process, Modules, #core{open = Open, keep = Keep} = Core) ->
    {Running, Keyed, Crashes} = running(Process, Modules, Core),
    Trace =
        case Process of
            #{partial := true} -> partial;
            #{} -> complete
        end,
    {Entered, Timeouts, More} = entered(Process, Running, ?NEVER, Core),
    Partition = #partition{
        process = Process, trace = Trace, running = Entered, keyed = Keyed, keep = Keep
    },
    New = Core#core{open = Open#{Pid => Partition}, timeouts = Timeouts},
    {also_keyed(Trace, Keyed, New), [{opened, Process, Modules} | Crashes ++ More]}.

also_keyed(partial, [_ | _], #core{keyed = Keyed} = Core) ->
    Core#core{keyed = dyno_agent_partition_keyed:partial(Keyed)};
also_keyed(_Trace, _Keyed, Core) ->
    Core.

running(Process, Modules, #core{monitors = All}) ->
    {Keyed, Own} = lists:partition(
        fun(Module) -> map_get(key, map_get(Module, All)) end,
        [Module || Module <- Modules, is_map_key(Module, All)]
    ),
    {Running, Crashes} = lists:foldr(
        fun(Module, {Good, Bad}) ->
            case dyno_agent_monitor:init(Module, Process) of
                {next, State} -> {[#running{module = Module, state = State} | Good], Bad};
                {crashed, Why} -> {Good, crashed(Module, Process, Why) ++ Bad}
            end
        end,
        {[], []},
        Own
    ),
    {Running, Keyed, Crashes}.

crashed(Module, #{pid := Pid} = Process, Why) ->
    [{crashed, Module, Process, Why}, {decided, Module, Pid, crashed}].

%% A process that takes a name or label is selected by it, and keeps it.

renamed(Pid, Event, TimeNs, #partition{process = Process} = Partition, Core) ->
    case named(Event) of
        {Key, Value, Selector} ->
            Named = Partition#partition{process = Process#{Key => Value}},
            {More, Effects} = also(Selector, Named, Core),
            {Stepped, Others} = event_of(Pid, Event, TimeNs, More, Core),
            {Stepped, Effects ++ Others};
        none ->
            event_of(Pid, Event, TimeNs, Partition, Core)
    end.

named({register, Name}) -> {name, Name, {registered, Name}};
named({call, {proc_lib, set_label, [Label]}}) -> {label, Label, {label, Label}};
named(_Event) -> none.

also(Selector, #partition{process = Process, running = Running} = Partition, Core) ->
    Has = [Module || #running{module = Module} <- Running] ++ Partition#partition.keyed,
    case dyno_agent_process_filter:of_selector(Selector, Core#core.choice) -- Has of
        [] ->
            {Partition, []};
        More ->
            Partial = Process#{partial := true},
            {New, Keyed, Crashes} = running(Partial, More, Core),
            {
                Partition#partition{
                    process = Partial,
                    trace = partial,
                    running = Running ++ New,
                    keyed = lists:uniq(Partition#partition.keyed ++ Keyed)
                },
                [{wanted, Module} || Module <- More] ++ Crashes
            }
    end.

chosen_late(Pid, Event, #core{choice = Choice} = Core) ->
    maybe
        {Key, Value, Selector} ?= named(Event),
        [_ | _] = Modules ?= dyno_agent_process_filter:of_selector(Selector, Choice),
        Process = #{pid => Pid, initial_call => {erlang, apply, 2}, partial => true, Key => Value},
        {Opened, Effects} = open(Process, Modules, Core),
        {Opened, [{follow, Pid} | Effects]}
    else
        _ -> {Core, []}
    end.

%% An event of an open partition

event_of(Pid, Started, TimeNs, #partition{running = Running} = Partition0, Core) ->
    Event = dyno_agent_event:normal(Started),
    Type = element(1, Event),
    Remembered = remembered(TimeNs, Event, Partition0),
    {Partition, Seen} = keyed_seen(Type, Event, Remembered, Core#core.monitors),
    {Left, Effects0} = step_all(Running, Type, Event, TimeNs, Partition, Core#core.monitors),
    {Keyed, Effects} = to_keyed(Type, Event, TimeNs, Partition, Core, Seen ++ Effects0),
    New = Core#core{keyed = Keyed},
    case Type of
        exit ->
            Last = lists:append([ended(One, TimeNs, Partition) || One <- Left]),
            Kept = [{decided, Module, Pid, held} || Module <- Partition#partition.keyed],
            All = Effects ++ Last ++ keyed_whole(Partition) ++ Kept,
            {Closed, Told} = without(Pid, Partition, All, New),
            {Closed, Told ++ [{ended, Pid}]};
        _ ->
            with(Pid, Left, ?NEVER, Partition, New, Effects)
    end.

ended(#running{module = Module, state = State, seen = Seen} = One, TimeNs, Partition) ->
    #partition{trace = Trace, process = #{pid := Pid}} = Partition,
    Outcome = dyno_agent_monitor:ended(Module, State),
    {Goes, Told} = decided(Outcome, Module, TimeNs, Partition),
    How =
        case {Goes, how(Outcome, One)} of
            {{on, _}, none} when not One#running.broken -> [{decided, Module, Pid, held}];
            {_, none} -> [];
            {_, Is} -> [{decided, Module, Pid, Is}]
        end,
    [{seen, Module} || not Seen, Trace =:= complete] ++ Told ++ How.

how(_Outcome, #running{broken = true}) -> none;
how({next, _}, _One) -> none;
how({crashed, _}, _One) -> crashed;
how({report, no, _, _}, _One) -> broken;
how({report, _, _, _}, _One) -> none;
how({no, _, _}, _One) -> broken;
how({yes, _, _}, _One) -> held;
how({inconclusive, _, _}, _One) -> unknown.

with(Pid, Left, After, Partition, #core{open = Open} = Core, Effects) ->
    #partition{process = Process, keyed = Keyed} = Partition,
    case entered(Process, Left, After, Core) of
        {[], Timeouts, Crashes} when Keyed =:= [] ->
            All = Effects ++ Crashes,
            {Closed, Told} = without(Pid, Partition, All, Core#core{timeouts = Timeouts}),
            {Closed, Told ++ [{ignore, Pid}]};
        {Entered, Timeouts, Crashes} ->
            Now = Open#{Pid := Partition#partition{running = Entered}},
            {Core#core{open = Now, timeouts = Timeouts}, Effects ++ Crashes}
    end.

remembered(_TimeNs, _Event, #partition{keep = 0} = Partition) ->
    Partition;
remembered(TimeNs, Event, #partition{count = Count, events = Events, keep = Keep} = Partition) when
    Count >= 2 * Keep
->
    Kept = lists:sublist(Events, Keep - 1),
    Partition#partition{count = Keep, events = [{TimeNs, Event} | Kept]};
remembered(TimeNs, Event, #partition{count = Count, events = Events} = Partition) ->
    Partition#partition{count = Count + 1, events = [{TimeNs, Event} | Events]}.

step_all([], _Kind, _Event, _TimeNs, _Partition, _Monitors) ->
    {[], []};
step_all([Running | Rest], Type, Event, TimeNs, Partition, Monitors) ->
    {Left, Effects} = step_all(Rest, Type, Event, TimeNs, Partition, Monitors),
    #running{module = Module, state = State, seen = Seen} = Running,
    case Monitors of
        #{Module := #{types := #{Type := _}} = About} ->
            case Seen orelse is_about(Module, Type, Event, About) of
                {crashed, _} = Crashed ->
                    outcome(Crashed, Running, TimeNs, Partition, Left, Effects);
                Is ->
                    Outcome = dyno_agent_monitor:step(Module, Event, TimeNs, State),
                    First = [{seen, Module} || Is, not Seen],
                    Next = Running#running{seen = Is},
                    outcome(Outcome, Next, TimeNs, Partition, Left, First ++ Effects)
            end;
        #{} ->
            {[Running | Left], Effects}
    end.

is_about(Module, _Kind, Event, #{names := true}) -> dyno_agent_monitor:names(Module, Event);
is_about(_Module, Type, _Event, #{own := Own}) -> is_map_key(Type, Own).

outcome({next, State}, Running, _TimeNs, _Partition, Left, Effects) ->
    {[Running#running{state = State} | Left], Effects};
outcome(Outcome, #running{module = Module} = Running, TimeNs, Partition, Left, Effects) ->
    #partition{process = #{pid := Pid}} = Partition,
    {Goes, Told} = decided(Outcome, Module, TimeNs, Partition),
    How = how(Outcome, Running),
    Next = Running#running{broken = How =:= broken orelse Running#running.broken},
    {
        [Next#running{state = State} || {on, State} <- [Goes]] ++ Left,
        Told ++ [{decided, Module, Pid, How} || How =/= none] ++ Effects
    }.

decided(Outcome, Module, TimeNs, Partition) ->
    #partition{process = Process, events = Events, keep = Keep, trace = Trace} = Partition,
    Last = lists:sublist(Events, Keep),
    dyno_agent_monitor:decided(Outcome, Module, Process, TimeNs, Last, Trace).

without(Pid, #partition{running = Running, trace = Trace}, Effects, #core{open = Open} = Core) ->
    Left = lists:foldl(fun(One, Set) -> unset(Pid, One, Set) end, Core#core.timeouts, Running),
    {Core#core{open = maps:remove(Pid, Open), timeouts = Left}, Effects ++ [{closed, Trace, Pid}]}.

%% Monitors with a key

keyed_seen(_Kind, _Event, #partition{keyed = []} = Partition, _Monitors) ->
    {Partition, []};
keyed_seen(Type, Event, #partition{keyed = Modules, keyed_seen = Before} = Partition, Monitors) ->
    case
        [
            {Module, Is}
         || Module <- Modules -- Before,
            #{types := #{Type := _}} = About <- [map_get(Module, Monitors)],
            Is <- [is_about(Module, Type, Event, About)],
            Is =/= false
        ]
    of
        [] ->
            {Partition, []};
        New ->
            {Partition#partition{keyed_seen = [Module || {Module, _} <- New] ++ Before}, [
                case Is of
                    true -> {seen, Module};
                    {crashed, Why} -> {crashed, Module, Partition#partition.process, Why}
                end
             || {Module, Is} <- New
            ]}
    end.

keyed_whole(#partition{trace = complete, keyed = Modules, keyed_seen = Seen}) ->
    [{seen, Module} || Module <- Modules -- Seen];
keyed_whole(_Partition) ->
    [].

to_keyed(_Kind, _Event, _TimeNs, #partition{keyed = []}, #core{keyed = Keyed}, Effects) ->
    {Keyed, Effects};
to_keyed(Type, Event, TimeNs, Partition, #core{keyed = Keyed, monitors = Monitors}, Effects) ->
    #partition{process = Process, keyed = Modules} = Partition,
    Wanting = [M || M <- Modules, #{types := #{Type := _}} <- [map_get(M, Monitors)]],
    {New, More} = dyno_agent_partition_keyed:event(Wanting, Process, Event, TimeNs, Keyed),
    {New, Effects ++ More}.

-doc "Events stop waiting for earlier ones: none came for a while.".
-spec settle(t()) -> {t(), [effect()]}.
settle(#core{keyed = Keyed} = Core) ->
    {New, Effects} = dyno_agent_partition_keyed:settle(Keyed),
    {Core#core{keyed = New}, Effects}.

%% Timeouts: each running monitor has at most one entry, at or before its deadline.

entered(#{pid := Pid} = Process, Running, After, Core) ->
    #core{monitors = Monitors, timeouts = Timeouts} = Core,
    lists:foldr(
        fun(#running{module = Module} = One, {Left, Set, Effects}) ->
            #{Module := #{deadline := HasTime}} = Monitors,
            case HasTime andalso entry(Pid, One, After, Set) of
                false ->
                    {[One | Left], Set, Effects};
                {#running{} = Entered, Next} ->
                    {[Entered | Left], Next, Effects};
                {crashed, Why} ->
                    {Left, unset(Pid, One, Set), crashed(Module, Process, Why) ++ Effects}
            end
        end,
        {[], Timeouts, []},
        Running
    ).

entry(Pid, #running{module = Module, state = State, entry = Entry} = Running, After, Set) ->
    case dyno_agent_monitor:deadline(Module, State) of
        {crashed, _} = Crashed ->
            Crashed;
        Deadline when Deadline >= Entry; Deadline =:= infinity; Deadline =< After ->
            {Running, Set};
        Deadline ->
            Left = unset(Pid, Running, Set),
            {Running#running{entry = Deadline}, gb_sets:add({Deadline, Pid, Module}, Left)}
    end.

unset(_Pid, #running{entry = infinity}, Set) -> Set;
unset(Pid, #running{entry = Entry, module = M}, Set) -> gb_sets:delete_any({Entry, Pid, M}, Set).

-spec timeouts(TimeNs :: integer(), t()) -> {t(), [effect()]}.
timeouts(TimeNs, #core{keyed = Keyed} = Core) ->
    {New, Effects} = dyno_agent_partition_keyed:timeouts(TimeNs, Keyed),
    due(TimeNs, Core#core{keyed = New}, Effects).

-spec next(t()) -> infinity | integer().
next(#core{timeouts = Timeouts}) ->
    case gb_sets:is_empty(Timeouts) of
        true -> infinity;
        false -> element(1, gb_sets:smallest(Timeouts))
    end.

due(TimeNs, #core{timeouts = Timeouts} = Core, Effects) ->
    case gb_sets:is_empty(Timeouts) orelse gb_sets:smallest(Timeouts) of
        {Entry, Pid, Module} when Entry =< TimeNs ->
            Rest = Core#core{timeouts = gb_sets:del_element({Entry, Pid, Module}, Timeouts)},
            {New, More} = due_one(Pid, Module, TimeNs, Rest),
            due(TimeNs, New, Effects ++ More);
        _ ->
            {Core, Effects}
    end.

due_one(Pid, Module, TimeNs, #core{open = Open} = Core) ->
    maybe
        #{Pid := #partition{running = Running} = Partition} ?= Open,
        {value, One, Others} ?= lists:keytake(Module, #running.module, Running),
        #running{state = State} = Due = One#running{entry = infinity},
        {Left, Effects} =
            case dyno_agent_monitor:deadline(Module, State) of
                Deadline when is_integer(Deadline), Deadline =< TimeNs ->
                    Outcome = dyno_agent_monitor:timeout(Module, TimeNs, State),
                    outcome(Outcome, Due, TimeNs, Partition, Others, []);
                {crashed, _} = Crashed ->
                    outcome(Crashed, Due, TimeNs, Partition, Others, []);
                _ ->
                    {[Due | Others], []}
            end,
        %% A monitor that keeps its deadline is not asked again.
        with(Pid, Left, TimeNs, Partition, Core, Effects)
    else
        %% The monitor has decided since.
        _ -> {Core, []}
    end.

%% Gaps

-doc "Ends the events of a process, which may go on: its partition ends inconclusive.".
-spec gap(pid(), TimeNs :: integer(), t()) -> {t(), [effect()]}.
gap(Pid, TimeNs, #core{open = Open} = Core) ->
    case Open of
        #{Pid := #partition{running = Running} = Partition} ->
            Outcome = {inconclusive, #{step => ~"the trace was cut off"}, cut_off},
            Cut = Partition#partition{trace = gap},
            Verdicts = [
                element(2, decided(Outcome, Module, TimeNs, Cut)) ++
                    [{decided, Module, Pid, cut}]
             || #running{module = Module, broken = false} <- Running
            ],
            Keyed = [{decided, Module, Pid, cut} || Module <- Partition#partition.keyed],
            {Broken, Unsure} = broken(Partition, Core),
            without(Pid, Cut, lists:append(Verdicts) ++ Keyed ++ Unsure, Broken);
        #{} ->
            keyed_gap(Core)
    end.

broken(#partition{keyed = []}, Core) -> {Core, []};
broken(_Partition, Core) -> keyed_gap(Core).

keyed_gap(#core{keyed = Keyed} = Core) ->
    {New, Effects} = dyno_agent_partition_keyed:gap(Keyed),
    {Core#core{keyed = New}, Effects}.

-spec gap_all(TimeNs :: integer(), t()) -> {t(), [effect()]}.
gap_all(TimeNs, #core{open = Open} = Core0) ->
    lists:foldl(
        fun(Pid, {Core, Effects}) ->
            {New, More} = gap(Pid, TimeNs, Core),
            {New, More ++ Effects}
        end,
        {Core0, []},
        maps:keys(Open)
    ).

-spec is_open(pid(), t()) -> boolean().
is_open(Pid, #core{open = Open}) -> is_map_key(Pid, Open).

-spec pids(t()) -> [pid()].
pids(#core{open = Open}) -> maps:keys(Open).
