%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_load).
-moduledoc """
Dyno's own load generator: has the crews prepare their workers, starts them together, reads what
they measured at an interval, and ends them. A crew is the workers of a node: this one, or the load
nodes that a suite names. m:dyno_load_source says which events its caller receives.

## A load node that dies
Before the measured part it fails the load. Then the load goes on with the nodes that are left: what
the lost one had measured until its last interval is kept, the report says when it went, and only
when none is left the load has failed.
""".

-behaviour(dyno_load_source).
-behaviour(gen_server).

-export([start_link/1, format_error/1, fault/1]).
-export([init/1, handle_continue/2, handle_call/3, handle_cast/2, handle_info/2, terminate/2]).
-export_type([options/0, crew/0, reason/0]).

-type options() :: #{
    sink := pid(),
    module := module(),
    run_state := term(),
    load := dyno_load_spec:load(),
    duration_ms := pos_integer(),
    warmup_ms := non_neg_integer(),
    interval_ms := pos_integer(),
    %% How long the workers' preparation, and their last operations, may take.
    timeout_ms := pos_integer(),
    operations => dyno_load_spec:operations(),
    feeds => [dyno_feed:feed()],
    seed => integer(),
    %% Where the load is generated; without any, in this node.
    load_nodes => [dyno_load_nodes:spec()],
    _ => _
}.

-type reason() ::
    {worker_died, module(), term()}
    | {not_ready, module(), Ready :: non_neg_integer(), pos_integer(), TimeoutMs :: pos_integer()}
    | {node_lost | no_node_left, node()}
    | {crew_failed, node(), term()}.

-type phase() ::
    preparing | warming | warm | working | probing | judging | draining | ending | failed.

-type crew() :: #{
    node := node(),
    offset_ns := integer(),
    uncertain_ns := non_neg_integer(),
    monitor := reference(),
    last := dyno_load_pool:snapshot() | undefined
}.

%% Why snapshots were asked for.
-type purpose() ::
    {interval, Now :: integer()} | probe | final | {result, gen_server:from()}.

-type state() :: #{
    options := options(),
    parts := [dyno_load_part:t()],
    phase := phase(),
    crews := #{pid() => crew()},
    lost := [{crew(), AtMs :: integer()}],
    started_nodes := [dyno_load_nodes:started()],
    %% Not ready, not through the round, not ended.
    waiting := #{pid() => []},
    asked := #{reference() => {purpose(), #{pid() => []}}},
    %% The measured part's begin; this round's begin and end.
    begun => integer(),
    from => integer(),
    finish => integer(),
    %% When the measured part was over, where that was not at its planned end.
    over => integer(),
    round => [dyno_load_part:t()],
    last => dyno_load_recorder:snapshot(),
    %% Up to when the last interval went.
    at => integer(),
    search => dyno_load_search:search(),
    probes := [{number(), dyno_load_result:merged()}],
    notes := [{feed_ended, atom()} | {not_grown, unicode:chardata()}],
    not_ended := [binary()]
}.

-define(AHEAD_NS, 5_000_000).
%% A cast to another machine must have come by then.
-define(AHEAD_REMOTE_NS, 100_000_000).
%% How long the last operations of a part may take before the next thing is done.
-define(GRACE_NS, 1_000_000_000).

-doc "Starts a load, linked to the caller.".
-spec start_link(options()) -> {ok, pid()}.
start_link(Options) ->
    {ok, _} = gen_server:start_link(?MODULE, Options, []).

-spec init(options()) -> {ok, state(), {continue, prepare}}.
init(#{load := Load, duration_ms := DurationMs} = Options0) ->
    process_flag(trap_exit, true),
    proc_lib:set_label(?MODULE),
    Options = maps:merge(
        #{operations => undefined, feeds => [], seed => 1, load_nodes => []}, Options0
    ),
    Defaults = (maps:with([seed, operations], Options))#{duration_ms => DurationMs},
    State = #{
        options => Options,
        parts => dyno_load_part:parts(Load, Defaults),
        phase => preparing,
        crews => #{},
        lost => [],
        started_nodes => [],
        waiting => #{},
        asked => #{},
        probes => [],
        notes => [],
        not_ended => []
    },
    {ok, State, {continue, prepare}}.

-spec handle_continue(prepare, state()) -> {noreply, state()}.
handle_continue(prepare, #{options := #{timeout_ms := TimeoutMs} = Options} = State) ->
    _ = erlang:send_after(TimeoutMs, self(), not_ready),
    case Options of
        #{load_nodes := []} ->
            crews([node()], State);
        #{load_nodes := Specs, module := Module} ->
            case dyno_load_nodes:start(Specs, Module) of
                {ok, Started} ->
                    crews([Node || #{node := Node} <- Started], State#{started_nodes := Started});
                {error, Reason} ->
                    fail({dyno_load_nodes, Reason}, State)
            end
    end.

crews(Nodes, #{options := Options} = State) ->
    #{module := Module, load := Load} = Options,
    Callbacks = Module:module_info(exports),
    Base = (maps:with([module, run_state, feeds, seed], Options))#{
        owner => self(),
        callbacks => Callbacks,
        workers => dyno_load_spec:workers(Load),
        nodes => length(Nodes)
    },
    crews(lists:enumerate(0, Nodes), Base, State).

crews([], _Base, #{crews := Crews} = State) ->
    {noreply, State#{waiting := maps:map(fun(_, _) -> [] end, Crews)}};
crews([{Index, Node} | Nodes], Base, #{crews := Crews} = State) ->
    case dyno_load_pool:start_on(Node, Base#{index => Index}) of
        {ok, Pid} ->
            {Offset, Uncertain} = dyno_load_nodes:clock(Node),
            Crew = #{
                node => Node,
                offset_ns => Offset,
                uncertain_ns => Uncertain,
                monitor => monitor(process, Pid),
                last => undefined
            },
            crews(Nodes, Base, State#{crews := Crews#{Pid => Crew}});
        {error, Reason} ->
            fail(Reason, State)
    end.

-spec handle_call(result, gen_server:from(), state()) ->
    {reply, none | dyno_load_result:t(), state()} | {noreply, state()}.
handle_call(result, From, #{phase := Phase} = State) when Phase =:= working; Phase =:= draining ->
    {noreply, ask({result, From}, State)};
handle_call(result, _From, #{probes := [_ | _], search := Search} = State) ->
    {reply, result(dyno_load_search:so_far(Search), State), State};
handle_call(result, _From, State) ->
    {reply, none, State}.

-spec handle_cast(term(), state()) -> {noreply, state()}.
handle_cast(close, #{phase := ending, crews := Crews, options := Options} = State) ->
    maps:foreach(fun(Pid, _) -> dyno_load_pool:close(Pid) end, Crews),
    #{timeout_ms := TimeoutMs} = Options,
    _ = erlang:send_after(TimeoutMs, self(), patience),
    {noreply, State#{waiting := maps:map(fun(_, _) -> [] end, Crews)}};
handle_cast(measure, #{phase := warm} = State) ->
    {noreply, begin_measuring(State)};
handle_cast(_Request, State) ->
    {noreply, State}.

-spec handle_info(term(), state()) -> {noreply, state()} | {stop, term(), state()}.
handle_info({dyno_crew, Pid, Event}, #{crews := Crews} = State) when is_map_key(Pid, Crews) ->
    crew_event(Event, Pid, State);
handle_info(not_ready, #{phase := preparing, crews := Crews} = State) ->
    #{options := #{timeout_ms := TimeoutMs, load := Load}} = State,
    All = dyno_load_spec:workers(Load),
    Ready = lists:sum([dyno_load_pool:ready(Pid) || Pid <- maps:keys(Crews)]),
    fail({?MODULE, {not_ready, module(State), Ready, All, TimeoutMs}}, State);
handle_info(interval, #{phase := working} = State) ->
    %% What came after the end belongs to no interval.
    Now = min(dyno_load_recorder:time_ns(), map_get(finish, State)),
    {noreply, schedule_interval(ask({interval, Now}, State))};
handle_info({grace, Finish}, #{phase := Phase, finish := Finish} = State) when
    Phase =:= warming; Phase =:= probing; Phase =:= draining
->
    quiet_enough(State);
handle_info(finish, #{phase := working} = State) ->
    over(State);
handle_info(patience, #{phase := ending, crews := Crews, options := Options} = State) ->
    #{timeout_ms := TimeoutMs} = Options,
    Next =
        case lists:sum([dyno_load_pool:ready(Pid) || Pid <- maps:keys(Crews)]) of
            %% Operations that never end are counted elsewhere.
            0 -> State;
            N -> not_ended({end_worker_timeout, module(State), N, TimeoutMs}, State)
        end,
    {noreply, ask(final, Next)};
handle_info({'DOWN', _, process, Pid, Reason}, #{crews := Crews} = State) when
    is_map_key(Pid, Crews)
->
    lost(Pid, Reason, State);
handle_info(_Other, State) ->
    {noreply, State}.

crew_event(ready, Pid, #{phase := preparing} = State) ->
    case without(Pid, State) of
        #{waiting := None} = Next when map_size(None) =:= 0 -> begin_warming(Next);
        Next -> {noreply, Next}
    end;
crew_event({failed, _}, _Pid, #{phase := failed} = State) ->
    {noreply, State};
crew_event({failed, {worker_died, Reason}}, _Pid, State) ->
    fail({?MODULE, {worker_died, module(State), Reason}}, State);
crew_event({failed, Reason}, _Pid, State) ->
    fail({dyno_load_worker, Reason}, State);
crew_event({not_ended, Reason}, _Pid, State) ->
    {noreply, not_ended(Reason, State)};
crew_event({feed_ended, Name}, _Pid, State) ->
    {noreply, note({feed_ended, Name}, State)};
crew_event({not_grown, Reason}, _Pid, State) ->
    Text = dyno_load_worker:format_error(Reason),
    {noreply, note({not_grown, unicode:characters_to_binary(Text)}, State)};
crew_event(done, Pid, State) ->
    quiet(without(Pid, State));
crew_event(closed, Pid, #{phase := ending} = State) ->
    case without(Pid, State) of
        #{waiting := None} = Next when map_size(None) =:= 0 -> {noreply, ask(final, Next)};
        Next -> {noreply, Next}
    end;
crew_event({snapshot, Ref, Snapshot}, Pid, #{crews := Crews} = State) ->
    #{Pid := Crew} = Crews,
    answered(Ref, Pid, State#{crews := Crews#{Pid := Crew#{last := Snapshot}}});
crew_event(_Event, _Pid, State) ->
    {noreply, State}.

without(Pid, #{waiting := Waiting} = State) ->
    State#{waiting := maps:remove(Pid, Waiting)}.

note(Note, #{notes := Notes} = State) ->
    State#{notes := lists:uniq([Note | Notes])}.

not_ended(Reason, #{not_ended := NotEnded} = State) ->
    Text = unicode:characters_to_binary(dyno_load_worker:format_error(Reason)),
    State#{not_ended := [Text | NotEnded]}.

module(#{options := #{module := Module}}) -> Module.

notify(Event, #{options := #{sink := Sink}}) ->
    Sink ! {dyno_load, self(), Event},
    ok.

fail(Reason, State) ->
    notify({failed, Reason}, State),
    {noreply, State#{phase := failed}}.

%% Figures are asked for, and come when every crew has answered

ask(Purpose, #{crews := Crews, asked := Asked} = State) ->
    Ref = make_ref(),
    maps:foreach(fun(Pid, _) -> dyno_load_pool:snapshot(Pid, Ref) end, Crews),
    State#{asked := Asked#{Ref => {Purpose, maps:map(fun(_, _) -> [] end, Crews)}}}.

answered(Ref, Pid, #{asked := Asked} = State) ->
    case Asked of
        #{Ref := {Purpose, Missing}} ->
            case maps:remove(Pid, Missing) of
                None when map_size(None) =:= 0 ->
                    together(Purpose, State#{asked := maps:remove(Ref, Asked)});
                Rest ->
                    {noreply, State#{asked := Asked#{Ref := {Purpose, Rest}}}}
            end;
        #{} ->
            {noreply, State}
    end.

together({interval, Now}, State) ->
    {noreply, interval(Now, State)};
together({result, From}, State) ->
    %% Of a part that has not ended nobody can say whether its load came about.
    gen_server:reply(From, (result(none, State))#{parts := []}),
    {noreply, State};
together(probe, State) ->
    probed(State);
together(final, #{phase := ending} = State) ->
    finish(State).

%% A crew has gone, with its node or without.

lost(Pid, Reason, #{crews := Crews, phase := Phase} = State) ->
    {#{node := Node} = Crew, Rest} = maps:take(Pid, Crews),
    case Phase of
        failed ->
            {noreply, State};
        _ when Node =:= node() ->
            fail({?MODULE, {worker_died, module(State), Reason}}, State);
        _ when Reason =/= noconnection, Reason =/= normal ->
            fail({?MODULE, {crew_failed, Node, Reason}}, State);
        _ when Phase =:= preparing; Phase =:= warming; Phase =:= warm ->
            fail({?MODULE, {node_lost, Node}}, State);
        _ when map_size(Rest) =:= 0 ->
            fail({?MODULE, {no_node_left, Node}}, State);
        _ ->
            #{lost := Lost, from := From} = State,
            AtMs = (dyno_load_recorder:time_ns() - From) div 1_000_000,
            Next = without(Pid, State#{crews := Rest, lost := [{Crew, AtMs} | Lost]}),
            unasked(maps:keys(map_get(asked, Next)), Pid, Next)
    end.

unasked([], _Pid, #{phase := ending, waiting := None} = State) when map_size(None) =:= 0 ->
    {noreply, ask(final, State)};
unasked([], _Pid, State) ->
    quiet(State);
unasked([Ref | Refs], Pid, State) ->
    case answered(Ref, Pid, State) of
        {noreply, Next} -> unasked(Refs, Pid, Next);
        Stop -> Stop
    end.

%% Rounds

begin_warming(#{options := #{warmup_ms := 0}} = State) ->
    {noreply, become_warm(State)};
begin_warming(#{options := #{warmup_ms := WarmupMs}, parts := [Part | _]} = State) ->
    #{load := Load} = map_get(options, State),
    Warm =
        case Part of
            %% For as long as it takes, whatever the schedule's own length.
            #{rate_per_s := Rate} -> dyno_load_part:at_rate(Rate, WarmupMs, Part, Load);
            #{} -> (maps:remove(iterations, Part))#{duration_ns => WarmupMs * 1_000_000}
        end,
    {noreply, with_grace(begin_round([Warm], State#{phase := warming}))}.

begin_measuring(#{options := #{load := #{model := search} = Load}} = State) ->
    notify(started, State),
    Limits = maps:with([from_per_s, to_per_s, confidence, precision], Load),
    #{limit_ms := LimitMs} = Load,
    Search = dyno_load_search:new(Limits#{limit_ns => LimitMs * 1_000_000}),
    probe(State#{search => Search, begun => dyno_load_recorder:time_ns()});
begin_measuring(#{parts := Parts} = State) ->
    #{from := From, finish := Finish} = Begun = begin_round(Parts, State),
    _ = at(Finish, finish),
    notify(started, Begun),
    schedule_interval(Begun#{phase := working, begun => From, at => From}).

probe(#{search := Search, options := #{load := Load}, parts := [Part]} = State) ->
    case dyno_load_search:next(Search) of
        {probe, Rate} ->
            #{probe_ms := ProbeMs} = Load,
            Probe = dyno_load_part:at_rate(Rate, ProbeMs, Part, Load),
            Next = begin_round([Probe], State#{phase := probing}),
            with_grace(Next);
        {done, _} ->
            finished(State#{over => dyno_load_recorder:time_ns()})
    end.

probed(#{search := Search, probes := Probes, from := From, begun := Begun} = State) ->
    #{options := #{load := #{objective := Objective}}, round := [#{rate_per_s := Rate}]} = State,
    Now = dyno_load_recorder:time_ns(),
    #{parts := [Part], total := Total} = Merged = merged(State),
    Outcome = dyno_load_figures:outcome(Objective, Part),
    None = dyno_load_recorder:empty(),
    Figures = dyno_load_result:interval(Now - Begun, Now - From, None, Total, float(Rate)),
    notify({interval, Figures}, State),
    {noreply,
        probe(State#{
            search := dyno_load_search:record(Rate, Outcome, Now - From, Search),
            probes := [{Rate, Merged} | Probes]
        })}.

begin_round(Parts, #{crews := Crews} = State) ->
    Remote = [
        Uncertain
     || #{node := Node, uncertain_ns := Uncertain} <- maps:values(Crews), Node =/= node()
    ],
    %% A little ahead, so that all workers have the message by then.
    Ahead =
        case Remote of
            [] -> ?AHEAD_NS;
            _ -> ?AHEAD_REMOTE_NS + 4 * lists:max(Remote)
        end,
    From = dyno_load_recorder:time_ns() + Ahead,
    {Round, Finish} = lists:mapfoldl(
        fun(#{duration_ns := Length} = Part, Start) ->
            {{Part, Start, Start + Length}, Start + Length}
        end,
        From,
        Parts
    ),
    maps:foreach(
        fun(Pid, #{offset_ns := Offset}) ->
            dyno_load_pool:begin_round(Pid, [{P, S + Offset, F + Offset} || {P, S, F} <- Round])
        end,
        Crews
    ),
    State#{
        waiting := maps:map(fun(_, _) -> [] end, Crews),
        from => From,
        finish => Finish,
        round => Parts,
        last => dyno_load_recorder:empty()
    }.

%% The phase ends when all workers are done, or that long after they should be.
with_grace(#{finish := Finish} = State) ->
    _ = at(Finish + ?GRACE_NS, {grace, Finish}),
    State.

quiet(#{waiting := Waiting, phase := Phase} = State) when map_size(Waiting) =:= 0 ->
    case Phase of
        working -> early(State);
        _ when Phase =:= warming; Phase =:= probing; Phase =:= draining -> quiet_enough(State);
        _ -> {noreply, State}
    end;
quiet(State) ->
    {noreply, State}.

%% Nobody has anything left to do: the iterations are made, or the data is used up. An open load's
%% workers, though, know a little before the end that nothing more is due.
early(#{finish := Finish, round := Round} = State) ->
    Now = dyno_load_recorder:time_ns(),
    Open = lists:any(fun(#{model := Model}) -> Model =:= open end, Round),
    case Now < Finish andalso (not Open orelse used_up(State)) of
        true -> over(State#{over => Now});
        false -> {noreply, State}
    end.

used_up(#{notes := Notes}) -> lists:any(fun(Note) -> element(1, Note) =:= feed_ended end, Notes).

over(#{finish := Finish} = State) ->
    Over = maps:get(over, State, Finish),
    Now = dyno_load_recorder:time_ns(),
    Asked = ask({interval, min(Now, Over)}, State#{over => Over}),
    _ = at(Now + ?GRACE_NS, {grace, Finish}),
    quiet(Asked#{phase := draining}).

quiet_enough(#{phase := warming} = State) ->
    {noreply, become_warm(State)};
quiet_enough(#{phase := probing} = State) ->
    {noreply, ask(probe, State#{phase := judging})};
quiet_enough(#{phase := draining} = State) ->
    {noreply, finished(State)}.

finished(#{begun := Begun, over := Over} = State) ->
    notify({finished, max(1, Over - Begun)}, State),
    State#{phase := ending}.

become_warm(State) ->
    notify(warm, State),
    State#{phase := warm}.

at(TimeNs, Message) ->
    TimeMs = erlang:convert_time_unit(TimeNs, nanosecond, millisecond),
    erlang:send_after(TimeMs, self(), Message, [{abs, true}]).

schedule_interval(#{options := #{interval_ms := IntervalMs}, from := From} = State) ->
    Now = dyno_load_recorder:time_ns(),
    Interval = IntervalMs * 1_000_000,
    Passed = max(0, Now - From) div Interval,
    _ = at(From + (Passed + 1) * Interval, interval),
    State.

%% The figures since the last interval. One of less than a tenth is not worth its noise.
interval(Now, #{at := At, from := From, last := Last, options := Options} = State) ->
    #{interval_ms := IntervalMs} = Options,
    case (Now - At) * 10 < IntervalMs * 1_000_000 of
        true ->
            State;
        false ->
            #{total := Total, parts := Parts} = merged(State),
            Offered = dyno_load_result:offered(Parts, At - From, Now - From),
            Figures = dyno_load_result:interval(Now - From, Now - At, Last, Total, Offered),
            notify({interval, Figures}, State),
            State#{last := Total, at := Now}
    end.

%% What all crews measured in this round, with those that are lost.
merged(#{crews := Crews, lost := Lost, round := Round}) ->
    Snapshots = [
        Last
     || #{last := Last} <- maps:values(Crews) ++ [Crew || {Crew, _} <- Lost], Last =/= undefined
    ],
    dyno_load_result:merge(Round, Snapshots).

finish(State) ->
    Found =
        case State of
            #{search := Search} ->
                {done, Result} = dyno_load_search:next(Search),
                Result;
            #{} ->
                none
        end,
    notify({ended, result(Found, State)}, State),
    {stop, normal, State}.

result(Found, #{crews := Crews, lost := Lost, options := Options, begun := Begun} = State) ->
    Merged =
        case Found of
            none -> merged(State);
            _ -> dyno_load_result:of_search(Found, map_get(probes, State), merged(State))
        end,
    Nodes = [{Crew, undefined} || Crew <- maps:values(Crews)] ++ Lost,
    Over = maps:get(over, State, dyno_load_recorder:time_ns()),
    Merged#{
        duration_ns => max(1, Over - Begun),
        seed => map_get(seed, Options),
        notes => map_get(notes, State),
        not_ended => map_get(not_ended, State),
        nodes => [
            dyno_load_result:node_of(Crew, Last, AtMs)
         || {#{last := Last} = Crew, AtMs} <- Nodes
        ]
    }.

-spec terminate(term(), state()) -> ok.
terminate(_Reason, #{crews := Crews, started_nodes := Started}) ->
    %% A remote crew ends with this process; this node's is linked to it.
    maps:foreach(fun(Pid, _) -> exit(Pid, shutdown) end, Crews),
    dyno_load_nodes:stop(Started).

-doc "One sentence for a reason.".
-spec format_error(reason()) -> unicode:chardata().
format_error({worker_died, Module, Reason}) ->
    io_lib:format(
        "a worker of ~ts died: ~0tP; something its callbacks are linked to ended",
        [Module, Reason, 12]
    );
format_error({not_ready, Module, Ready, Count, TimeoutMs}) ->
    io_lib:format(
        "~ts:init_worker/2 had returned in ~b of ~b workers after ~b ms; "
        "raise timeout_ms in suite/0 if it needs longer",
        [Module, Ready, Count, TimeoutMs]
    );
format_error({node_lost, Node}) ->
    io_lib:format("load node ~ts went down before the measured part", [Node]);
format_error({no_node_left, Node}) ->
    io_lib:format("load node ~ts went down, and no other is left to go on with", [Node]);
format_error({crew_failed, Node, Reason}) ->
    io_lib:format("the generator failed in load node ~ts: ~0tP", [Node, Reason, 12]).

-doc "Who can do something about it.".
-spec fault(reason()) -> dyno_error:fault().
fault({Kind, _, _}) when Kind =:= worker_died -> code;
fault({not_ready, _, _, _, _}) -> code;
fault(_Lost) -> dyno.
