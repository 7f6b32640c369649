%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_load_core).
-moduledoc false.
%% Decides the order of a load's phases, the begin of rounds, the end of intervals and probes, and
%% the handling of lost load nodes. Pure: events with times in, effects out. m:dyno_load executes
%% them.
%%
%%   preparing -> warming -> warm -> measuring -> draining -> finished -> closing -> ended
%%                            |                                  ^
%%                            +--> probing <-> judging ----------+        a search
%%
%% `warm` ends when the caller says `measure`, `finished` when the caller says `close`. Other phases
%% end when all pools have completed them, or at a timer. Any phase may change to `failed`, which is
%% final.
%%
%% A load node lost before the measured part fails the load; later its results stay.

-export([new/1, event/3, phase/1]).
-export_type([t/0, event/0, effect/0, phase/0, pool/0]).

-type pool() :: #{
    node := node(),
    place := local | remote,
    offset_ns := integer(),
    uncertain_ns := non_neg_integer()
}.

-type id() :: term().

-type event() ::
    {started, [{id(), pool()}]}
    | {failed, dyno_error:error()}
    | {pool, id(), dyno_load_pool:event()}
    | {down, id(), Reason :: term()}
    | {timeout, timer()}
    | measure
    | close
    | {result, From :: term()}.

-type effect() ::
    {tell, dyno_load_source:event()}
    | {reply, From :: term(), dyno_load_result:t() | none}
    | {round, id(), Number :: pos_integer(), dyno_load_pool:round()}
    | {snapshot, id(), Ref :: term()}
    | {close, id()}
    %% Replaces a timer of the same name.
    | {timer, timer(), AtNs :: integer()}
    | stop.

-type timer() :: prepare | interval | ending | finish | grace | close.

-type phase() ::
    preparing
    | warming
    | warm
    | measuring
    | draining
    | probing
    | judging
    | finished
    | closing
    | ended
    | failed.

-type purpose() :: {interval, AtNs :: integer()} | probe | not_ready | final | {result, term()}.

-opaque t() :: #{
    options := dyno_load:options(),
    parts := [dyno_load_part:t()],
    phase := phase(),
    pools := #{id() => pool()},
    snapshots := #{id() => {FromNs :: integer(), dyno_load_pool:snapshot()}},
    lost := [{id(), pool(), AtMs :: integer()}],
    %% Pools that have not completed the phase.
    waiting := #{id() => []},
    %% Requests for snapshots, and the pools that have not answered.
    requests := #{pos_integer() => {purpose(), #{id() => []}}},
    next_request := pos_integer(),
    %% The workers' current round, its number, begin and end.
    round := [dyno_load_part:t()],
    number := non_neg_integer(),
    from := integer(),
    finish := integer(),
    %% The measured part's begin; its end, set when the caller was told, and when it is over.
    begun => integer(),
    ends => integer(),
    over => integer(),
    %% The end of the last interval, and the results until then.
    interval_at := integer(),
    interval_total := dyno_load_recorder:snapshot(),
    search => dyno_load_search:search(),
    probes := [{number(), dyno_load_result:merged()}],
    notes := [dyno_load_result:note()],
    not_ended := [binary()]
}.

%% Time for the message that a round begins to reach all workers.
-define(AHEAD_NS, 5_000_000).
-define(AHEAD_REMOTE_NS, 100_000_000).
%% Limit for the last operations of a round.
-define(GRACE_NS, 1_000_000_000).
%% The time from `ending` to the end, if the load is long enough.
-define(ENDING_NS, 50_000_000).
-define(ENDING_SHARE, 10).

-spec new(dyno_load:options()) -> t().
new(#{load := Load} = Options) ->
    #{
        options => Options,
        parts => dyno_load_part:parts(Load, maps:with([seed, operations, duration_ms], Options)),
        phase => preparing,
        pools => #{},
        snapshots => #{},
        lost => [],
        waiting => #{},
        requests => #{},
        next_request => 1,
        round => [],
        number => 0,
        from => 0,
        finish => 0,
        interval_at => 0,
        interval_total => dyno_load_recorder:empty(),
        probes => [],
        notes => [],
        not_ended => []
    }.

-spec phase(t()) -> phase().
phase(#{phase := Phase}) -> Phase.

-spec event(event(), NowNs :: integer(), t()) -> {t(), [effect()]}.
event(Event, _Now, #{phase := Phase} = State) when Phase =:= failed; Phase =:= ended ->
    case Event of
        {result, From} -> {State, [{reply, From, none}]};
        _ -> {State, []}
    end;
event({started, Pools}, Now, #{phase := preparing, options := Options} = State) ->
    #{timeout_ms := TimeoutMs} = Options,
    {
        wait_for_all(State#{pools := maps:from_list(Pools)}),
        [{timer, prepare, Now + TimeoutMs * 1_000_000}]
    };
event({failed, Error}, _Now, State) ->
    fail(Error, State);
event({pool, Id, Event}, Now, #{pools := Pools} = State) when is_map_key(Id, Pools) ->
    pool_event(Event, Id, Now, State);
event({down, Id, Reason}, Now, #{pools := Pools} = State) when is_map_key(Id, Pools) ->
    lost(Id, Reason, Now, State);
event({timeout, Timer}, Now, State) ->
    timeout(Timer, Now, State);
event(measure, Now, #{phase := warm} = State) ->
    begin_measuring(Now, State);
event(close, Now, #{phase := finished, pools := Pools, options := Options} = State) ->
    #{timeout_ms := TimeoutMs} = Options,
    {
        wait_for_all(State#{phase := closing}),
        [{close, Id} || Id <- maps:keys(Pools)] ++
            [{timer, late, Now + ?GRACE_NS}, {timer, close, Now + TimeoutMs * 1_000_000}]
    };
event({result, From}, Now, #{search := Search, probes := [_ | _]} = State) ->
    {State, [{reply, From, result(dyno_load_search:so_far(Search), Now, State)}]};
event({result, From}, _Now, #{phase := Phase} = State) when
    Phase =:= measuring; Phase =:= draining
->
    request({result, From}, State);
event({result, From}, Now, #{phase := Phase} = State) when
    Phase =:= finished; Phase =:= closing
->
    {State, [{reply, From, result(none, Now, State)}]};
event({result, From}, _Now, State) ->
    {State, [{reply, From, none}]};
event(_TooLate, _Now, State) ->
    {State, []}.

pool_event(ready, Id, Now, #{phase := preparing} = State) ->
    through(Id, Now, State);
pool_event({done, Number}, Id, Now, #{phase := Phase, number := Number} = State) when
    Phase =:= warming; Phase =:= measuring; Phase =:= draining; Phase =:= probing
->
    through(Id, Now, State);
pool_event(closed, Id, Now, #{phase := closing} = State) ->
    through(Id, Now, State);
pool_event({snapshot, Ref, Snapshot}, Id, Now, #{snapshots := Snapshots, from := From} = State) ->
    answered(Ref, Id, Now, State#{snapshots := Snapshots#{Id => {From, Snapshot}}});
pool_event({failed, {worker_died, Reason}}, _Id, _Now, State) ->
    fail({dyno_load, {worker_died, module(State), Reason}}, State);
pool_event({failed, Reason}, _Id, _Now, State) ->
    fail({dyno_load_worker, Reason}, State);
pool_event({not_ended, Reason}, _Id, _Now, State) ->
    {not_ended(Reason, State), []};
pool_event({feed_ended, Name}, _Id, _Now, State) ->
    {note({feed_ended, Name}, State), []};
pool_event({not_grown, Reason}, _Id, _Now, State) ->
    Text = unicode:characters_to_binary(dyno_load_worker:format_error(Reason)),
    {note({not_grown, Text}, State), []};
pool_event(_TooLate, _Id, _Now, State) ->
    {State, []}.

timeout(prepare, _Now, #{phase := preparing} = State) ->
    request(not_ready, State);
timeout(interval, Now, #{phase := measuring, finish := Finish} = State) ->
    %% Results after the end belong to no interval.
    {Next, Effects} = request({interval, min(Now, Finish)}, State),
    {Next, Effects ++ next_interval(Now, Next)};
timeout(ending, _Now, #{phase := measuring, finish := Finish} = State) ->
    ending(Finish, State);
timeout(finish, Now, #{phase := measuring, finish := Finish} = State) ->
    over(Finish, Now, State);
timeout(grace, Now, #{phase := Phase} = State) when
    Phase =:= warming; Phase =:= draining; Phase =:= probing
->
    next_phase(Now, State);
timeout(late, _Now, #{phase := closing} = State) ->
    request(late, State);
timeout(close, _Now, #{phase := closing} = State) ->
    request(final, State);
timeout(_Other, _Now, State) ->
    {State, []}.

%% Phases

wait_for_all(#{pools := Pools} = State) ->
    State#{waiting := maps:map(fun(_, _) -> [] end, Pools)}.

through(Id, Now, #{waiting := Waiting} = State) ->
    check(Now, State#{waiting := maps:remove(Id, Waiting)}).

%% If all pools have completed the phase, begins the next.
check(Now, #{waiting := Waiting} = State) when map_size(Waiting) =:= 0 ->
    next_phase_of_all(Now, State);
check(_Now, State) ->
    {State, []}.

%% An open load's workers know early that no more arrivals are due; it ends if nothing is left.
next_phase_of_all(Now, #{phase := measuring, finish := Finish} = State) ->
    case Now < Finish andalso has_no_more(State) of
        true -> over(Now, Now, State);
        false -> {State, []}
    end;
next_phase_of_all(_Now, #{phase := draining, requests := Requests} = State) when
    map_size(Requests) > 0
->
    {State, []};
next_phase_of_all(Now, State) ->
    next_phase(Now, State).

has_no_more(#{round := Round, notes := Notes}) ->
    lists:keymember(feed_ended, 1, Notes) orelse
        not lists:any(fun(#{model := Model}) -> Model =:= open end, Round).

next_phase(Now, #{phase := preparing, options := #{warmup_ms := WarmupMs}} = State) ->
    case WarmupMs of
        0 -> warm(State);
        _ -> begin_warming(WarmupMs, Now, State)
    end;
next_phase(_Now, #{phase := warming} = State) ->
    warm(State);
next_phase(_Now, #{phase := probing} = State) ->
    request(probe, State#{phase := judging});
next_phase(_Now, #{phase := draining} = State) ->
    finished(State);
next_phase(_Now, #{phase := closing} = State) ->
    request(final, State);
next_phase(_Now, State) ->
    {State, []}.

begin_warming(WarmupMs, Now, #{parts := [Part | _], options := #{load := Load}} = State) ->
    Warmup =
        case Part of
            #{rate_per_s := Rate} -> dyno_load_part:at_rate(Rate, WarmupMs, Part, Load);
            #{} -> (maps:remove(iterations, Part))#{duration_ns => WarmupMs * 1_000_000}
        end,
    {Begun, Effects} = begin_round([Warmup], Now, State#{phase := warming}),
    {Begun, Effects ++ grace_after_round(Begun)}.

warm(State) ->
    {State#{phase := warm}, [{tell, warm}]}.

begin_measuring(Now, #{options := #{load := #{model := search} = Load}} = State) ->
    #{limit_ms := LimitMs} = Load,
    Limits = maps:with([from_per_s, to_per_s, confidence, precision], Load),
    Search = dyno_load_search:new(Limits#{limit_ns => LimitMs * 1_000_000}),
    {Probing, Effects} = probe(Now, State#{search => Search, begun => Now}),
    {Probing, [{tell, started} | Effects]};
begin_measuring(Now, #{parts := Parts} = State) ->
    {#{from := From, finish := Finish} = Begun, Effects} = begin_round(Parts, Now, State),
    Measuring = Begun#{phase := measuring, begun => From, interval_at := From},
    Ending = Finish - min(?ENDING_NS, (Finish - From) div ?ENDING_SHARE),
    Timers = [{timer, ending, Ending}, {timer, finish, Finish}],
    {Measuring, Effects ++ Timers ++ [{tell, started} | next_interval(Now, Measuring)]}.

begin_round(Parts, Now, #{pools := Pools, number := Before} = State) ->
    Uncertain = [U || #{place := remote, uncertain_ns := U} <- maps:values(Pools)],
    Ahead =
        case Uncertain of
            [] -> ?AHEAD_NS;
            _ -> ?AHEAD_REMOTE_NS + 4 * lists:max(Uncertain)
        end,
    From = Now + Ahead,
    {Round, Finish} = lists:mapfoldl(
        fun(#{duration_ns := Length} = Part, Start) ->
            {{Part, Start, Start + Length}, Start + Length}
        end,
        From,
        Parts
    ),
    Begun = State#{
        from := From,
        finish := Finish,
        round := Parts,
        number := Before + 1,
        interval_total := dyno_load_recorder:empty()
    },
    {wait_for_all(Begun), [
        {round, Id, Before + 1, [{P, S + Offset, F + Offset} || {P, S, F} <- Round]}
     || {Id, #{offset_ns := Offset}} <- maps:to_list(Pools)
    ]}.

grace_after_round(#{finish := Finish}) ->
    [{timer, grace, Finish + ?GRACE_NS}].

ending(_At, #{ends := _} = State) -> {State, []};
ending(At, State) -> {State#{ends => At}, [{tell, {ending, At}}]}.

over(Over, Now, State) ->
    {Told, Tell} = ending(Over, State#{phase := draining, over => Over}),
    {Next, Effects} = request({interval, min(Now, Over)}, Told),
    {Next, Tell ++ Effects ++ [{timer, grace, Now + ?GRACE_NS}]}.

finished(#{begun := Begun, over := Over} = State) ->
    {State#{phase := finished}, [{tell, {finished, max(1, Over - Begun)}}]}.

%% Probes of a search

probe(Now, #{search := Search, options := #{load := Load}, parts := [Part]} = State) ->
    case dyno_load_search:next(Search) of
        {probe, Rate} ->
            #{probe_ms := ProbeMs} = Load,
            Probe = dyno_load_part:at_rate(Rate, ProbeMs, Part, Load),
            {Begun, Effects} = begin_round([Probe#{'of' => search}], Now, State#{phase := probing}),
            {Begun, Effects ++ grace_after_round(Begun)};
        {done, _} ->
            finished(State#{over => Now})
    end.

judge(Now, #{search := Search, probes := Probes, from := From, begun := Begun} = State) ->
    #{options := #{load := #{objective := Objective}}, round := [#{rate_per_s := Rate}]} = State,
    #{parts := [Part], total := Total} = Merged = merged(State),
    Outcome = dyno_load_metrics:outcome(Objective, Part),
    Interval = dyno_load_result:interval(
        Now - Begun, Now - From, dyno_load_recorder:empty(), Total, float(Rate)
    ),
    {Next, Effects} = probe(Now, State#{
        search := dyno_load_search:record(Rate, Outcome, Now - From, Search),
        probes := [{Rate, Merged} | Probes]
    }),
    {Next, [{tell, {interval, Interval}} | Effects]}.

%% Intervals

next_interval(Now, #{options := #{interval_ms := IntervalMs}, from := From}) ->
    LengthNs = IntervalMs * 1_000_000,
    Passed = max(0, Now - From) div LengthNs,
    [{timer, interval, From + (Passed + 1) * LengthNs}].

%% An interval shorter than a tenth of its length is too noisy.
interval(At, #{interval_at := Last, options := #{interval_ms := IntervalMs}} = State) when
    (At - Last) * 10 < IntervalMs * 1_000_000
->
    {State, []};
interval(At, #{interval_at := Last, from := From, interval_total := Before} = State) ->
    #{total := Total, parts := Parts} = merged(State),
    Offered = dyno_load_result:offered(Parts, Last - From, At - From),
    Interval = dyno_load_result:interval(At - From, At - Last, Before, Total, Offered),
    {State#{interval_total := Total, interval_at := At}, [{tell, {interval, Interval}}]}.

%% A request for snapshots is used when every pool has answered

request(Purpose, #{pools := Pools, requests := Requests, next_request := Ref} = State) ->
    Unanswered = maps:map(fun(_, _) -> [] end, Pools),
    {
        State#{requests := Requests#{Ref => {Purpose, Unanswered}}, next_request := Ref + 1},
        [{snapshot, Id, Ref} || Id <- maps:keys(Pools)]
    }.

answered(Ref, Id, Now, #{requests := Requests} = State) ->
    case Requests of
        #{Ref := {Purpose, #{Id := []} = Unanswered}} when map_size(Unanswered) =:= 1 ->
            {Used, Effects} = use(Purpose, Now, State#{requests := maps:remove(Ref, Requests)}),
            and_then(fun(S) -> draining(Now, S) end, Used, Effects);
        #{Ref := {Purpose, Unanswered}} ->
            {State#{requests := Requests#{Ref := {Purpose, maps:remove(Id, Unanswered)}}}, []};
        #{} ->
            {State, []}
    end.

draining(Now, #{phase := draining} = State) -> check(Now, State);
draining(_Now, State) -> {State, []}.

and_then(Fun, State, Effects) ->
    {Next, More} = Fun(State),
    {Next, Effects ++ More}.

use({interval, At}, _Now, State) ->
    interval(At, State);
use({result, From}, Now, State) ->
    %% The result of an unfinished part is unknown.
    {State, [{reply, From, (result(none, Now, State))#{parts := []}}]};
use(probe, Now, #{phase := judging} = State) ->
    judge(Now, State);
use(not_ready, _Now, #{phase := preparing, options := Options} = State) ->
    #{timeout_ms := TimeoutMs, load := Load} = Options,
    Ready = lists:sum([Ready || #{ready := Ready} <- of_round(State)]),
    All = dyno_load_spec:workers(Load),
    fail({dyno_load, {not_ready, module(State), Ready, All, TimeoutMs}}, State);
use(late, _Now, #{phase := closing, options := #{timeout_ms := TimeoutMs}} = State) ->
    #{under_way := N} = merged(State),
    {State, [{tell, {waiting, {N, TimeoutMs}}} || N > 0]};
use(final, Now, #{phase := closing, options := Options} = State) ->
    %% Operations that never end are counted elsewhere.
    Final =
        case lists:sum([Ending || #{ending := Ending} <- of_round(State)]) of
            0 ->
                State;
            N ->
                #{timeout_ms := TimeoutMs} = Options,
                not_ended({end_worker_timeout, module(State), N, TimeoutMs}, State)
        end,
    {Final#{phase := ended}, [{tell, {ended, result(found(Final), Now, Final)}}, stop]};
use(_TooLate, _Now, State) ->
    {State, []}.

%% Loss of a pool, with or without its node

lost(Id, Reason, Now, #{pools := Pools, phase := Phase} = State) ->
    {#{node := Node, place := Place} = Pool, Rest} = maps:take(Id, Pools),
    case Reason =:= noconnection orelse Reason =:= normal of
        _ when Place =:= local ->
            fail({dyno_load, {worker_died, module(State), Reason}}, State);
        false ->
            fail({dyno_load, {pool_failed, Node, Reason}}, State);
        true when Phase =:= preparing; Phase =:= warming; Phase =:= warm ->
            fail({dyno_load, {node_lost, Node}}, State);
        true when map_size(Rest) =:= 0 ->
            fail({dyno_load, {no_node_left, Node}}, State);
        true ->
            #{from := From, lost := Lost, waiting := Waiting, requests := Requests} = State,
            AtMs = (Now - From) div 1_000_000,
            Without = State#{
                pools := Rest,
                waiting := maps:remove(Id, Waiting),
                lost := [{Id, Pool, AtMs} | Lost]
            },
            {Next, Effects} = lists:foldl(
                fun(Ref, {S, Effects}) ->
                    and_then(fun(T) -> answered(Ref, Id, Now, T) end, S, Effects)
                end,
                {Without, []},
                lists:sort(maps:keys(Requests))
            ),
            case Next of
                #{phase := Phase} when is_map_key(Id, Waiting) ->
                    and_then(fun(S) -> check(Now, S) end, Next, Effects);
                #{} ->
                    {Next, Effects}
            end
    end.

fail(Error, State) ->
    {State#{phase := failed}, [{tell, {failed, Error}}]}.

note(Note, #{notes := Notes} = State) ->
    State#{notes := lists:uniq([Note | Notes])}.

not_ended(Reason, #{not_ended := NotEnded} = State) ->
    Text = unicode:characters_to_binary(dyno_load_worker:format_error(Reason)),
    State#{not_ended := [Text | NotEnded]}.

module(#{options := #{module := Module}}) -> Module.

%% Result

found(#{search := Search}) ->
    {done, Found} = dyno_load_search:next(Search),
    Found;
found(_State) ->
    none.

merged(#{round := Round} = State) ->
    dyno_load_result:merge(Round, of_round(State)).

of_round(#{snapshots := Snapshots, from := From}) ->
    [Snapshot || {At, Snapshot} <- maps:values(Snapshots), At =:= From].

result(Found, Now, #{pools := Pools, lost := Lost, options := Options, begun := Begun} = State) ->
    Merged =
        case Found of
            none -> merged(State);
            _ -> dyno_load_result:of_search(Found, map_get(probes, State), merged(State))
        end,
    All = [{Id, Pool, undefined} || {Id, Pool} <- maps:to_list(Pools)] ++ Lost,
    #{snapshots := Snapshots} = State,
    Last = fun(Id) -> element(2, maps:get(Id, Snapshots, {none, undefined})) end,
    Merged#{
        duration_ns => max(1, maps:get(over, State, Now) - Begun),
        seed => map_get(seed, Options),
        notes => map_get(notes, State),
        not_ended => map_get(not_ended, State),
        nodes => [
            dyno_load_result:node_of(Pool, Last(Id), LostAtMs)
         || {Id, Pool, LostAtMs} <- All
        ]
    }.
