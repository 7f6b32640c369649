%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_doctor).
-moduledoc """
Diagnoses running nodes, for `dyno doctor`.

```erlang
{ok, Recording} = dyno_doctor:run(['shop@host'], #{for_ms => 10_000}).
```

An agent looks at each node five times (`dyno_agent_look`), and the checks (`m:dyno_health`) find
problems in the looks. The recording holds the looks as events, so `again/1` finds the same, or the
findings of a later dyno. `dyno_interrupt` ends it with the results so far.
""".

-behaviour(dyno_observer).

-export([run/2, again/1, with_findings/1]).
%% Without a node
-export([of_dump/1, of_code/1]).
-export([attach/2, handle/3, made/2]).
-export_type([options/0]).

-type options() :: #{
    %% Ten seconds by default, at least five: shorter looks depend on chance.
    for_ms => pos_integer(),
    %% Called in the measuring process with the elapsed time.
    show => fun((PassedMs :: non_neg_integer()) -> ok),
    %% Looks until an interrupt, and tells the changes of each `for_ms` (`m:dyno_health_changes`).
    watch => fun(([dyno_health_changes:change()]) -> ok),
    cookie => atom(),
    name => atom()
}.

-type state() :: #{
    for_ms := pos_integer(), results := #{node() => dyno_targets:results()}, atom() => term()
}.

-define(FOR_MS, 10_000).
-define(LEAST_MS, 5000).
-define(LOOKS, 4).
-define(TICK_MS, 500).
-define(AGAIN_MS, 2000).
-define(PROCESSES_PER_MS, 33).
-define(LONG_QUEUE, 1000).
-define(MOST_SEARCHED, 5).
-define(OPTIONS, [for_ms, show, watch, cookie, name]).

-doc """
Looks at the nodes and returns the findings.

## Cost
In the target 2 ms and 0.5 us for each process, five times, 4 us for each whose heap may be large,
and the cost of attaching.

## Errors
A node cannot be reached, or another dyno uses it.
""".
-spec run([node(), ...], options()) -> dyno_error:result(dyno_recording:document()).
run(Nodes, Options) ->
    ForMs = max(?LEAST_MS, maps:get(for_ms, Options, ?FOR_MS)),
    maybe
        ok ?= dyno_option:known(?OPTIONS, Options),
        {ok, Document} ?= dyno_observer:run(?MODULE, Nodes, Options#{for_ms => ForMs}),
        case Options of
            %% All is told already.
            #{watch := _} -> {ok, Document};
            #{} -> {ok, again(Document)}
        end
    end.

-doc false.
-spec attach([node(), ...], options()) ->
    {ok, dyno_observer:plan(), state()}
    | {ok, dyno_recording:document()}
    | {error, dyno_error:error()}.
attach(Nodes, #{for_ms := ForMs} = Options) ->
    maybe
        %% Seen from outside it is a recording already.
        {ok, [_ | _] = Targets} ?= attached(Nodes, ForMs, Options),
        LongestMs = max(ForMs, longest_ms(Targets)),
        Plan = #{nodes => Nodes, targets => Targets, tick_ms => ?TICK_MS},
        State = Options#{nodes => Nodes, results => #{}, for_ms := LongestMs},
        case Options of
            #{watch := _} ->
                New = #{known => dyno_health_changes:new(), window => 1, lost => [], again_ms => 0},
                {ok, Plan#{return => true}, maps:merge(State, New)};
            #{} ->
                {ok, Plan#{for_ms => LongestMs}, State}
        end
    end.

%% Two looks at a large node take longer, to use little of the node's time.
longest_ms(Targets) ->
    lists:max([dyno_agent:processes(Agent) || #{agent := Agent} <- Targets]) div ?PROCESSES_PER_MS.

%% A present node that does not answer is examined from outside.
attached(Nodes, ForMs, Options) ->
    case dyno_targets:attach(Nodes, attach_options(ForMs, Options)) of
        {error, {dyno_target_node, {port_closed, Node}} = Error} ->
            outside(Node, Error);
        {error, {dyno_target_node, {no_answer, Node, _, _}} = Error} ->
            outside(Node, Error);
        {error, {dyno_agent, {failed, Node, timeout}} = Error} ->
            outside(Node, Error);
        {error, {dyno_agent, {node_down, Node}} = Error} ->
            outside(Node, Error);
        Other ->
            Other
    end.

outside(Node, Error) ->
    case dyno_health_outside:findings(Node) of
        {ok, [_ | _] = Findings} ->
            Run = #{nodes => [#{name => Node}]},
            {ok, again(recorded(Node, #{nodes => [Node]}, Run, Node, Findings))};
        _NoneOrUnseen ->
            {error, Error}
    end.

recorded(Name, Parameters, Run, Node, Findings) ->
    New = dyno_recording:new(doctor, Name, Parameters, dyno_environment:collect()),
    With = dyno_recording:add_run(New, Run#{
        status => complete, tables => [dyno_finding:table(Node, Findings)]
    }),
    dyno_recording:put(With, status, complete).

-doc "A recording of the findings in a crash dump.".
-spec of_dump(file:filename_all()) -> dyno_error:result(dyno_recording:document()).
of_dump(Path) ->
    maybe
        {ok, Findings} ?= dyno_health_dump:findings(Path),
        {ok, without_node(name(Path), #{dump => name(Path)}, ~"dump", Findings)}
    end.

-doc "A recording of the findings in compiled code: folders of `.beam` files, or files.".
-spec of_code([file:filename_all(), ...]) -> dyno_error:result(dyno_recording:document()).
of_code([First | _] = Paths) ->
    maybe
        {ok, Findings} ?= dyno_health_receives:findings(Paths),
        {ok, without_node(name(First), #{code => [name(P) || P <- Paths]}, ~"code", Findings)}
    end.

without_node(Name, Parameters, Id, Findings) ->
    again(recorded(Name, Parameters, #{id => Id}, undefined, Findings)).

name(Path) -> dyno_recording_part:text("~ts", [dyno_file:shown(Path)]).

attach_options(ForMs, Options) ->
    (maps:with([cookie, name], Options))#{
        level => off,
        on => [],
        instruments => [dyno_agent_look],
        interval_ms => ForMs,
        look_ms => ForMs div ?LOOKS
    }.

-doc false.
-spec handle(term(), [dyno_target:t()], state()) -> {[dyno_observation:event()], state()}.
handle(begun, Targets, State) ->
    _ = dyno_targets:restart(Targets),
    handle({tick, 0}, Targets, State);
handle({tick, PassedMs}, Targets, #{watch := _} = State) ->
    {Again, Next} = returned(PassedMs, State),
    {Seen, Last} = watched(PassedMs, Targets, Next),
    {Again ++ Seen, Last};
handle({leave, #{node := Node}, _How, Why}, _Targets, #{watch := Tell, known := Known} = State) ->
    ok = Tell([{lost, Node, Why}]),
    #{lost := Lost} = State,
    {[], State#{known := dyno_health_changes:without(Node, Known), lost := [Node | Lost]}};
handle({tick, PassedMs}, Targets, #{for_ms := ForMs} = State) ->
    _ = [ok = Show(PassedMs) || #{show := Show} <- [State]],
    LookMs = ForMs div ?LOOKS,
    %% Between two looks: a lost node then loses no look.
    case (PassedMs + LookMs div 2) rem LookMs < ?TICK_MS of
        true -> read(dyno_targets:peek(Targets), PassedMs, State);
        false -> {[], State}
    end;
handle(finish, _Targets, #{watch := _, results := #{} = Read} = State) when map_size(Read) > 0 ->
    {[], State};
handle(finish, Targets, #{results := Before} = State) ->
    {Lost, Read} = dyno_targets:results(Targets),
    Results = maps:merge(Before, #{Node => searching(Of) || #{node := Node} = Of <- Read}),
    {Lost, State#{results := Results}};
handle(_What, _Targets, State) ->
    {[], State}.

%% Lost nodes that run again.
returned(PassedMs, #{lost := [_ | _] = Lost, again_ms := Ms} = State) when PassedMs > Ms ->
    #{watch := Tell, for_ms := ForMs} = State,
    Targets = [
        Target
     || Node <- Lost,
        net_kernel:hidden_connect_node(Node),
        {ok, [Target]} <- [dyno_targets:attach([Node], attach_options(ForMs, State))]
    ],
    _ = dyno_targets:restart(Targets),
    Back = [Node || #{node := Node} <- Targets],
    ok = Tell([{back, Node} || Node <- Back]),
    {
        [{attached, Target} || Target <- Targets],
        State#{lost := Lost -- Back, again_ms := PassedMs + ?AGAIN_MS}
    };
returned(_PassedMs, State) ->
    {[], State}.

%% Each window has its own looks: memory in the target does not grow.
watched(PassedMs, Targets, #{window := N, for_ms := ForMs} = State) when PassedMs >= N * ForMs ->
    #{watch := Tell, known := Known} = State,
    {_, Results} = dyno_targets:results(Targets),
    _ = dyno_targets:restart(Targets),
    {Changes, Next} = dyno_health_changes:changes(PassedMs, found(Results), Known),
    ok = Tell(Changes),
    Read = #{Node => Of || #{node := Node} = Of <- Results},
    {Seen, Last} = read(Read, PassedMs, State),
    {Seen, Last#{known := Next, window := 1 + PassedMs div ForMs}};
watched(_PassedMs, _Targets, State) ->
    {[], State}.

found(Results) ->
    #{
        Node => dyno_finding:ranked(
            lists:append([
                Findings
             || {_, Findings} <- dyno_health:examined(
                    atom_to_binary(Node), [dyno_recording:document(Look) || Look <- Looks]
                ),
                is_list(Findings)
            ])
        )
     || #{node := Node, results := #{dyno_agent_look := #{looks := [_, _ | _] = Looks}}} <- Results
    }.

%% The last look says which functions search the mailbox, in processes with long queues.
searching(#{results := #{dyno_agent_look := #{looks := [_ | _] = Looks} = Of} = All} = Read) ->
    #{node := Node} = Read,
    Tops = lists:uniq([
        Top
     || #{suspects := Suspects} <- Looks,
        #{queue := Queue, stacks := Stacks} <- Suspects,
        Queue > ?LONG_QUEUE,
        #{stack := [Top | _]} <- Stacks,
        not dyno_health_look:is_system(Top)
    ]),
    Found = dyno_health_receives:among(Node, lists:sublist(Tops, ?MOST_SEARCHED)),
    Last = maps:merge(lists:last(Looks), Found),
    Read#{results := All#{dyno_agent_look := Of#{looks := lists:droplast(Looks) ++ [Last]}}};
searching(Read) ->
    Read.

read(Peeked, PassedMs, #{results := Before} = State) ->
    Seen = [{seen, Node, 1_000_000 * PassedMs} || Node := _ <- Peeked],
    {Seen, State#{results := maps:merge(Before, Peeked)}}.

-doc false.
-spec made(dyno_observation:ended(), state()) -> dyno_observed:parts().
made(_Ended, #{nodes := Nodes, for_ms := ForMs, results := ByNode}) ->
    Results = maps:values(ByNode),
    #{
        command => doctor,
        parameters => #{nodes => Nodes, duration_ms => ForMs},
        run => #{
            metrics => [looking(Results)],
            events => #{
                items => [
                    Event#{node => Node}
                 || #{node := Node, results := #{dyno_agent_look := Result}} <- Results,
                    Event <- dyno_agent_look:events(Result)
                ]
            }
        },
        warnings => []
    }.

looking(Results) ->
    Ns = [
        1000 * Us * had_processor(Looks)
     || #{results := #{dyno_agent_look := #{worked_us := Us, looks := Looks}}} <- Results
    ],
    dyno_recording_part:metric(
        ~"instrument.looking",
        ~"Processor time of looking, in the nodes",
        lists:sum(Ns),
        ~"ns",
        length(Ns),
        ~"instrument"
    ).

%% In the working time of the schedulers. A thread that waits to be woken does not work.
had_processor(Looks) ->
    Normal = [Of || #{threads := #{normal := #{cpu_ns := _, ready_ns := _} = Of}} <- Looks],
    Cpu = lists:sum([Ns || #{cpu_ns := Ns} <- Normal]),
    case Cpu + lists:sum([Ns || #{ready_ns := Ns} <- Normal]) of
        0 -> 1;
        All -> Cpu / All
    end.

-doc "The recording with new findings from its looks in place of its own.".
-spec again(dyno_recording:document()) -> dyno_recording:document().
again(#{~"runs" := Runs, ~"verdicts" := Verdicts, ~"status" := Status} = Document) ->
    {Found, Said} = lists:unzip([in_run(Run) || Run <- Runs]),
    Others = [V || #{~"kind" := Kind} = V <- Verdicts, Kind =/= ~"finding"],
    With = Document#{~"runs" := Found, ~"verdicts" := Others},
    AskedMs = dyno_recording_cut_short:asked_ms(Document),
    IsWhole = dyno_recording_cut_short:is_whole(Status, AskedMs),
    dyno_recording:add_verdicts(
        With, dyno_recording_cut_short:verdicts(IsWhole, lists:append(Said))
    );
again(Document) ->
    again(Document#{~"verdicts" => []}).

-doc "Another command's recording with findings from its looks, without verdicts.".
-spec with_findings(dyno_recording:document()) -> dyno_recording:document().
with_findings(#{~"runs" := Runs, ~"command" := Command} = Document) when Command =/= ~"doctor" ->
    dyno_threshold:judge_findings(
        Document#{~"runs" := [without_unknown(element(1, in_run(Run))) || Run <- Runs]}
    );
with_findings(Document) ->
    Document.

without_unknown(#{~"warnings" := Warnings} = Run) ->
    Run#{~"warnings" := [W || #{~"code" := Code} = W <- Warnings, Code =/= ~"not_known"]}.

%% A recording of no looks stays unchanged: from outside, of a dump, of code.
in_run(#{~"events" := #{~"items" := []}, ~"tables" := [_ | _]} = Run) ->
    {Run, [verdict([F || {_, F} <- dyno_finding:read(Run)], Run)]};
in_run(#{~"nodes" := Nodes, ~"tables" := Tables, ~"warnings" := Warnings} = Run) ->
    Looks = [{Role, Name, looks(Role, Run)} || #{~"role" := Role, ~"name" := Name} <- Nodes],
    Across = dyno_health:across([{Name, Of} || {_, Name, Of} <- Looks]),
    Each = [
        {Role,
            dyno_health:examined(Name, Of) ++
                [Outcome || {Node, Outcome} <- Across, Node =:= Name]}
     || {Role, Name, Of} <- Looks
    ],
    Others = [T || #{~"name" := Of} = T <- Tables, Of =/= ~"findings"],
    %% Without a known outcome there is no table: nothing found is not known.
    Made = [
        dyno_recording:document(table(Role, Outcomes))
     || {Role, Outcomes} <- Each, lists:any(fun({_, Of}) -> is_list(Of) end, Outcomes)
    ],
    Known = [W || #{~"code" := Code} = W <- Warnings, Code =/= ~"not_known"],
    {
        Run#{
            ~"tables" := Others ++ Made,
            ~"warnings" := Known ++
                not_known([
                    {Why, Title}
                 || {_, Outcomes} <- Each, {#{title := Title}, {unknown, Why}} <- Outcomes
                ])
        },
        [
            Verdict
         || {Role, Outcomes} <- Each, Outcome <- Outcomes, Verdict <- verdict(Role, Run, Outcome)
        ]
    }.

not_known(Unknown) ->
    [
        #{
            ~"code" => ~"not_known",
            ~"text" => iolist_to_binary([
                lists:join(", ", lists:uniq([Title || {Of, Title} <- Unknown, Of =:= Why])),
                [" (", Why, ")"]
            ])
        }
     || Why <- lists:uniq([Why || {Why, _} <- Unknown])
    ].

table(Role, Outcomes) ->
    dyno_finding:table(Role, [F || {_, Of} <- Outcomes, is_list(Of), F <- Of]).

looks(Role, #{~"events" := #{~"items" := Items}}) ->
    [Data || #{~"kind" := ~"look", ~"node" := Node, ~"data" := Data} <- Items, Node =:= Role].

verdict(Findings, #{~"id" := Id}) ->
    dyno_finding:verdict(source(Id), Findings, #{run => Id}).

source(~"dump") -> ~"the crash dump";
source(~"code") -> ~"receives that search the mailbox";
source(_Id) -> ~"the node from outside".

%% If this release or system has no answer, the run has a warning.
verdict(_Role, _Run, {_Check, {unknown, _Why}}) ->
    [];
verdict(Role, #{~"id" := Id}, {#{title := Title}, Findings}) ->
    [dyno_finding:verdict(Title, Findings, #{subject => Role, run => Id, node => Role})].
