%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_test_run).
-moduledoc false.
%% Handles the events of a run under load. Pure: an event and the time give a new state and effects,
%% which dyno_test_runner executes in the nodes that are present. An effect may return events, which
%% come before the next effect.
%%
%%   load: warm      -> restart the instruments       -> restarted -> measure
%%   load: started   -> align the clocks              -> aligned
%%   load: interval  -> read, and save, now and then  -> peeked
%%   load: ending    -> have the instruments look a last time
%%   load: finished  -> read the instruments          -> read, close
%%   load: ended     -> stop
%%
%% dyno_observer decides about lost nodes and interrupts. After an early end the instruments and the
%% load's results are read too, if the measured part has begun.

-export([new/1, event/3, judge/1, recorded/2, told/2, visits/2, failure/2]).
-export([process/2, run_info/1]).
-export_type([t/0, event/0, effect/0, outcome/0, recorded/0]).

-type place() :: #{run := binary(), size => non_neg_integer()}.

-opaque t() :: #{
    module := module(),
    place := place(),
    phase := warm_up | measure | finish | ended,
    %% Including lost targets, by their names in the recording.
    all := [dyno_targets:target()],
    %% The last readings of each node, their time, and those of lost nodes.
    peeked := #{node() => dyno_targets:results()},
    peeked_ms := integer(),
    readings := [dyno_targets:results()],
    custom := dyno_test_custom:t(),
    result := dyno_test_result:t(),
    run_info := none | {info, term()},
    started_ms := integer() | undefined,
    %% The load's end: later samples are left out.
    ends_ms := integer() | undefined,
    saved_ms := integer()
}.

-type event() ::
    {load, dyno_load_source:event()}
    | {sample, Sampler :: pid(), TimeMs :: integer(), #{binary() => number()}, CostUs :: integer()}
    | {custom, pid(), AtNs :: integer(), term()}
    %% A node is lost, or not measured any more.
    | {left, node(), ObservedNs :: non_neg_integer(), Why :: unicode:chardata()}
    %% The agent continues without these instruments.
    | {without, node(), [module()], Reason :: term()}
    %% The suite has named another target, or could not.
    | {joined, dyno_suite:target()}
    | {not_joined, Text :: binary()}
    | {not_attached, Text :: unicode:chardata()}
    %% The observation has ended.
    | finish
    %% Returned by effects.
    | {restarted, ok | gone}
    | {aligned, [dyno_targets:target()]}
    | {attached, AtMs :: integer(), [dyno_targets:target()], dyno_test_custom:t()}
    | {peeked, #{node() => dyno_targets:results()}}
    | {read, [dyno_targets:results()]}
    | {load_result, dyno_load_result:t() | none}.

-type effect() ::
    {tell, term()}
    %% To the observer: a sample's time.
    | {seen, node(), InRunMs :: integer()}
    | {save, recorded()}
    | restart
    | begins
    | {align, ZeroNs :: integer()}
    | {attach, dyno_suite:target(), ZeroNs :: integer() | undefined, dyno_test_custom:t()}
    | last_look
    | peek
    | read
    %% To the load.
    | measure
    | close
    | load_result
    | {stop, outcome()}.

-type outcome() :: complete | {partial, Code :: binary(), Text :: binary()} | failure().

-type failure() ::
    interrupted
    | {failed, Code :: binary(), Text :: binary()}
    %% The suite or the caller is wrong, not the target.
    | {misuse, dyno_error:error()}.

-type recorded() :: {Run :: #{atom() => term()}, Verdicts :: [#{atom() => term()}]}.

%% The interval of saving a running run.
-define(SAVE_MS, 5000).
%% A lost node loses at most the readings of this time.
-define(PEEK_MS, 2000).

-spec new(#{
    module := module(),
    place := place(),
    targets := [dyno_targets:target()],
    custom := dyno_test_custom:t(),
    result := dyno_test_result:t(),
    now_ms := integer()
}) -> t().
new(#{targets := Targets, now_ms := NowMs} = About) ->
    (maps:with([module, place, custom, result], About))#{
        phase => warm_up,
        all => Targets,
        peeked => #{},
        peeked_ms => NowMs,
        readings => [],
        run_info => none,
        started_ms => undefined,
        ends_ms => undefined,
        saved_ms => NowMs
    }.

-spec event(event(), NowMs :: integer(), t()) -> {t(), [effect()]}.
event({load, Event}, NowMs, Run) ->
    load_event(Event, NowMs, Run);
event({sample, Sampler, TimeMs, Values, CostUs}, _NowMs, #{phase := Phase} = Run) when
    Phase =/= warm_up
->
    case [Of || #{sampler := Is} = Of <- map_get(all, Run), Is =:= Sampler] of
        [#{node := Node, shift_ms := ShiftMs} | _] ->
            InRunMs = TimeMs + ShiftMs,
            {told({sample, {Node, InRunMs, Values, CostUs}}, Run), [
                {seen, Node, InRunMs}, {tell, {sample, Node, Values}}
            ]};
        [] ->
            {Run, []}
    end;
event({sample, _, _, _, _}, _NowMs, Run) ->
    %% The run's time has not begun.
    {Run, []};
event({custom, Pid, AtNs, Event}, _NowMs, #{all := All, custom := Custom} = Run) ->
    case [Target || #{instruments := Of} = Target <- All, lists:keymember(Pid, 2, Of)] of
        [#{clock := Clock}] ->
            InRunMs = in_run_ms(AtNs, Clock, zero_ns(Run)),
            {Run#{custom := dyno_test_custom:take(Pid, InRunMs, Event, Custom)}, []};
        [] ->
            {Run, []}
    end;
event({restarted, ok}, _NowMs, Run) ->
    {Run, [measure]};
event({restarted, gone}, _NowMs, Run) ->
    %% The next message reports the lost target.
    {Run, []};
event({aligned, Targets}, _NowMs, #{all := All} = Run) ->
    ByNode = #{Node => Target || #{node := Node} = Target <- Targets},
    Aligned = [maps:get(Node, ByNode, Target) || #{node := Node} = Target <- All],
    {Run#{all := Aligned}, []};
event({joined, Target}, _NowMs, #{custom := Custom} = Run) ->
    {Run, [{attach, Target, zero_ns(Run), Custom}]};
event({attached, AtMs, Targets, Custom}, _NowMs, #{all := All} = Run) ->
    New = [fact(joined_ms, in_run_ms(AtMs, Run), Target) || Target <- Targets],
    {Run#{all := All ++ New, custom := Custom}, []};
event({not_attached, Text}, _NowMs, Run) ->
    {warned(~"node_joined", ["a node that joined is not measured: ", Text], Run), []};
event({not_joined, Text}, _NowMs, Run) ->
    {warned(~"targets", Text, Run), []};
event({peeked, Readings}, NowMs, #{peeked := Peeked} = Run) ->
    {Run#{peeked := maps:merge(Peeked, Readings), peeked_ms := NowMs}, []};
event({read, Read}, NowMs, #{readings := Readings} = Run) ->
    {until(NowMs, Run#{readings := Read ++ Readings}), []};
event({load_result, Result}, _NowMs, Run) ->
    {told({load, Result}, Run), []};
event({left, Node, Ns, Why}, _NowMs, Run) ->
    Text = io_lib:format("~ts: it was last seen after ~ts; its results are those until then", [
        Why, dyno_unit:format(Ns, ~"ns")
    ]),
    InRunMs = Ns div 1_000_000,
    Custom = dyno_test_custom:left(Node, InRunMs, text(Why), map_get(custom, Run)),
    {warned(~"node_left", Text, left(Node, InRunMs, Run#{custom := Custom})), []};
event({without, Node, Instruments, Reason}, _NowMs, Run) ->
    {warned(~"instrument", without(Node, Instruments, Reason), Run), []};
event(finish, _NowMs, #{phase := measure} = Run) ->
    {Run, [{tell, {phase, finish}}, read, load_result]};
event(finish, _NowMs, #{phase := finish} = Run) ->
    {Run, [load_result]};
event(finish, _NowMs, Run) ->
    {Run, []}.

load_event(warm, _NowMs, Run) ->
    {Run, [restart]};
load_event(started, NowMs, Run) ->
    Started = told({started, NowMs}, Run#{phase := measure, started_ms := NowMs}),
    {Started, [begins, {tell, {phase, measure}}, {align, zero_ns(Started)}]};
load_event({interval, Interval}, NowMs, Run) ->
    {Saved, Save} = save(NowMs, told({interval, Interval}, Run)),
    {Saved, [{tell, {interval, Interval, in_run_ms(NowMs, Run)}}] ++ peek(NowMs, Run) ++ Save};
load_event({ending, AtNs}, _NowMs, Run) ->
    Ending = Run#{ends_ms := in_run_ms(AtNs div 1_000_000, Run)},
    {Ending, [last_look]};
load_event({finished, DurationNs}, _NowMs, #{ends_ms := EndsMs} = Run) ->
    Ends =
        case EndsMs of
            undefined -> DurationNs div 1_000_000;
            _ -> EndsMs
        end,
    Finished = told({duration_ns, DurationNs}, Run#{ends_ms := Ends, phase := finish}),
    {Finished, [{tell, {phase, finish}}, read, close]};
load_event({waiting, _} = Waiting, _NowMs, Run) ->
    {Run, [{tell, Waiting}]};
load_event({ended, Result}, _NowMs, Run) ->
    {told({load, Result}, Run#{phase := ended}), [{stop, complete}]};
load_event({failed, Error}, _NowMs, Run) ->
    {Run, [{stop, failure(~"load", Error)}]};
load_event({run_info, Info}, _NowMs, Run) ->
    {Run#{run_info := {info, Info}}, []};
load_event({Kind, _} = Told, _NowMs, Run) when Kind =:= metrics; Kind =:= warning ->
    {told(Told, Run), []}.

-doc "The outcome after the load: without a success nothing is measured; agents may be missing.".
-spec judge(t()) -> outcome().
judge(#{module := Module, custom := Custom, readings := Readings} = Run) ->
    #{result := Result} = told({readings, Readings}, Run),
    case {dyno_test_result:failure(Module, Result), dyno_test_custom:problem(Custom)} of
        {none, none} -> complete;
        {none, Text} -> {failed, ~"custom_agent", Text};
        {{Code, Text}, _} -> {failed, Code, Text}
    end.

without(Node, Instruments, Reason) ->
    Names = dyno_agent_instrument:named(Instruments),
    io_lib:format("this run has no results of ~ts in ~ts: ~ts", [Names, Node, why(Reason)]).

why({limit_bytes, Limit, Bytes}) ->
    io_lib:format(
        "to measure them took ~ts, and it may take ~ts; measure fewer functions, or at the level "
        "count",
        [dyno_unit:format(Bytes, ~"bytes"), dyno_unit:format(Limit, ~"bytes")]
    );
why(Reason) ->
    dyno_targets:why(Reason).

left(Node, InRunMs, #{all := All, peeked := Peeked, readings := Readings} = Run) ->
    Marked = [
        case Target of
            #{node := Node} -> fact(left_ms, InRunMs, Target);
            #{} -> Target
        end
     || Target <- All
    ],
    Run#{
        all := Marked,
        readings := [Results || Of := Results <- Peeked, Of =:= Node] ++ Readings
    }.

fact(_Key, undefined, Target) -> Target;
fact(Key, InRunMs, #{facts := Facts} = Target) -> Target#{facts := Facts#{Key => InRunMs}}.

peek(NowMs, #{peeked_ms := PeekedMs}) -> [peek || NowMs - PeekedMs >= ?PEEK_MS].

save(NowMs, #{saved_ms := SavedMs} = Run) when NowMs - SavedMs >= ?SAVE_MS ->
    {Run#{saved_ms := NowMs}, [{save, recorded(partial, until(NowMs, Run))}]};
save(_NowMs, Run) ->
    {Run, []}.

%% An unfinished run lasts until now, unless its end is known.
until(_NowMs, #{phase := measure, ends_ms := EndsMs} = Run) when is_integer(EndsMs) ->
    told({duration_ns, max(0, EndsMs) * 1_000_000}, Run);
until(NowMs, #{phase := measure} = Run) ->
    told({duration_ns, in_run_ms(NowMs, Run) * 1_000_000}, Run);
until(_NowMs, Run) ->
    Run.

%% Undefined before the begin; the second value is on this node's monotonic clock.
in_run_ms(NowMs, #{started_ms := StartedMs}) when is_integer(StartedMs) -> NowMs - StartedMs;
in_run_ms(_NowMs, _Run) -> undefined.

%% The first sample of a target is taken a moment before the run begins.
in_run_ms(_AtNs, _Clock, undefined) -> 0;
in_run_ms(AtNs, Clock, ZeroNs) -> max(0, dyno_target_clock:shift_ms(AtNs, ZeroNs, Clock)).

zero_ns(#{started_ms := StartedMs}) when is_integer(StartedMs) -> StartedMs * 1_000_000;
zero_ns(_Run) -> undefined.

-doc "Adds a measurement.".
-spec told(dyno_test_result:told(), t()) -> t().
told(What, #{result := Result} = Run) ->
    Run#{result := dyno_test_result:add(What, Result)}.

warned(Code, Text, Run) ->
    told({warning, {Code, text(Text)}}, Run).

text(Chars) ->
    dyno_recording_part:text("~ts", [Chars]).

-doc "A run's failure from an error: a wrong suite is not the target's failure.".
-spec failure(Code :: binary(), dyno_error:error()) -> failure().
failure(Code, Error) ->
    case dyno_error:fault(Error) of
        caller -> {misuse, Error};
        interrupted -> interrupted;
        _ -> {failed, Code, text(dyno_error:format(Error))}
    end.

-spec visits([dyno_target_visit:t()], t()) -> t().
visits(Visits, Run) ->
    #{metrics := Metrics, warnings := Warnings} = dyno_target_visit:parts(Visits),
    lists:foldl(
        fun(W, Acc) -> told({warning, W}, Acc) end, told({metrics, Metrics}, Run), Warnings
    ).

-doc "Lets the suite process the results of its custom agents.".
-spec process(t(), dyno_test_callbacks:t()) -> t().
process(#{custom := Custom} = Run, Callbacks) ->
    Run#{custom := dyno_test_custom:process(Custom, Callbacks)}.

-spec run_info(t()) -> none | {info, term()}.
run_info(#{run_info := Info}) -> Info.

-spec recorded(partial | failed | outcome(), t()) -> recorded().
recorded({misuse, _}, Run) ->
    recorded(failed, Run);
recorded(Status, #{all := All, custom := Custom, place := Place, result := Result} = Run) ->
    #{ends_ms := EndsMs, readings := Readings} = Run,
    Parts = dyno_test_custom:parts(Custom, Place#{ends_ms => EndsMs}),
    Told = [{targets, All}, {custom, Parts}, {readings, Readings}],
    Full = lists:foldl(fun dyno_test_result:add/2, Result, Told),
    {Recorded, Verdicts} = dyno_test_result:run(Status, EndsMs, Full),
    {Recorded, dyno_recording_cut_short:verdicts(Status =:= complete, Verdicts)}.
