%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_test_run).
-moduledoc false.
%% Handles the events of a run under load. Pure: an event and the time give a new state and effects,
%% which dyno_test_runner executes. An effect may return events, which come before the next effect.
%%
%%   load: warm      -> restart the instruments       -> restarted -> measure
%%   load: started   -> align the clocks              -> aligned
%%   load: interval  -> read, and save, now and then  -> peeked
%%   load: ending    -> have the instruments look a last time
%%   load: finished  -> read the instruments          -> read, close
%%   load: ended     -> stop
%%
%% After an early end (an interrupt, a lost target, a failed load) the instruments and the load's
%% results are read too, if the measured part has begun.

-export([
    new/1, event/3, recorded/2, baseline/2, visits/2, run_info/1, targets/1, ended/2, failure/2
]).
-export_type([t/0, event/0, effect/0, outcome/0, recorded/0]).

-type place() :: #{run := binary(), size => non_neg_integer()}.

-opaque t() :: #{
    module := module(),
    place := place(),
    phase := warm_up | measure | finish,
    present := [dyno_targets:target()],
    %% Including lost targets, by their names in the recording.
    all := [dyno_targets:target()],
    %% A lost node's readings are lost with it: the last readings of each, their time, and those of
    %% lost nodes.
    peeked := #{node() => dyno_targets:results()},
    peeked_ms := integer(),
    %% The time of each node's latest sample in the run: a silent node is noticed later.
    seen := #{node() => integer()},
    left := [dyno_targets:results()],
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
    | {load_died, Reason :: term()}
    | {sample, Sampler :: pid(), TimeMs :: integer(), #{binary() => number()}, CostUs :: integer()}
    | {custom, pid(), AtNs :: integer(), term()}
    %% A target's agent gave up, or its guard has ended.
    | {gave_up, reference(), Reason :: term()}
    %% The agent continues without these instruments.
    | {without, reference(), [module()], Reason :: term()}
    | {down, reference(), Reason :: term()}
    %% The suite has named another target, or could not.
    | {joined, dyno_suite:target()}
    | {not_joined, Text :: binary()}
    | {not_attached, Text :: unicode:chardata()}
    | interrupt
    %% Returned by effects.
    | {restarted, ok | gone}
    | {aligned, [dyno_targets:target()]}
    | {attached, AtMs :: integer(), [dyno_targets:target()], dyno_test_custom:t()}
    | {peeked, #{node() => dyno_targets:results()}}
    | {read, [dyno_targets:results()]}
    | {processed, dyno_test_custom:t()}
    | {load_result, dyno_load_result:t() | none}.

-type effect() ::
    {tell, term()}
    | {save, recorded()}
    | {restart, [dyno_targets:target()]}
    | {align, ZeroNs :: integer(), [dyno_targets:target()]}
    | {attach, dyno_suite:target(), ZeroNs :: integer() | undefined, dyno_test_custom:t()}
    | {detach, dyno_targets:target()}
    | {last_look, [dyno_targets:target()]}
    | {peek, [dyno_targets:target()]}
    | {read, [dyno_targets:target()]}
    %% Lets the suite process the results of its agents.
    | {process, dyno_test_custom:t()}
    %% To the load.
    | measure
    | close
    | load_result
    %% The last effect.
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
        present => Targets,
        all => Targets,
        peeked => #{},
        peeked_ms => NowMs,
        seen => #{},
        left => [],
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
    of_target(sampler, Sampler, Run, fun(#{node := Node, shift_ms := ShiftMs}) ->
        #{seen := Seen} = Told = told({sample, {Node, TimeMs + ShiftMs, Values, CostUs}}, Run),
        {Told#{seen := Seen#{Node => TimeMs + ShiftMs}}, [{tell, {sample, Node, Values}}]}
    end);
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
    {Run#{present := Targets, all := Aligned}, []};
event({joined, Target}, _NowMs, #{custom := Custom} = Run) ->
    {Run, [{attach, Target, zero_ns(Run), Custom}]};
event({attached, AtMs, Targets, Custom}, _NowMs, #{present := Present, all := All} = Run) ->
    New = [fact(joined_ms, in_run_ms(AtMs, Run), Target) || Target <- Targets],
    {Run#{present := Present ++ New, all := All ++ New, custom := Custom}, []};
event({not_attached, Text}, _NowMs, Run) ->
    {warned(~"node_joined", ["a node that joined is not measured: ", Text], Run), []};
event({not_joined, Text}, _NowMs, Run) ->
    {warned(~"targets", Text, Run), []};
event({peeked, Readings}, NowMs, #{peeked := Peeked} = Run) ->
    {Run#{peeked := maps:merge(Peeked, Readings), peeked_ms := NowMs}, []};
event({read, Readings}, NowMs, #{left := Left, custom := Custom} = Run) ->
    {until(NowMs, told({readings, Readings ++ Left}, Run)), [{process, Custom}]};
event({processed, Custom}, _NowMs, Run) ->
    {Run#{custom := Custom}, []};
event({load_result, Result}, _NowMs, Run) ->
    {told({load, Result}, Run), []};
event({gave_up, Ref, Reason}, _NowMs, Run) ->
    of_target(ref, Ref, Run, fun(#{node := Node}) ->
        fail(~"agent", "the agent in ~ts gave up: ~0tP", [Node, Reason, 12], Run)
    end);
event({without, Ref, Instruments, Reason}, _NowMs, Run) ->
    of_target(ref, Ref, Run, fun(#{node := Node}) ->
        {warned(~"instrument", without(Node, Instruments, Reason), Run), []}
    end);
event({down, Monitor, Reason}, NowMs, Run) ->
    of_target(monitor, Monitor, Run, fun(Target) -> down(Target, Reason, NowMs, Run) end);
event({load_died, Reason}, _NowMs, Run) ->
    fail(~"load", "the load generator died: ~0tP", [Reason, 12], Run);
event(interrupt, _NowMs, Run) ->
    stop(interrupted, Run).

%% The target of a message, possibly lost.
of_target(Key, Value, Run, Then) ->
    case dyno_targets:find(Key, Value, present(Run)) of
        {ok, Target} -> Then(Target);
        error -> {Run, []}
    end.

load_event(warm, _NowMs, Run) ->
    {Run, [{restart, present(Run)}]};
load_event(started, NowMs, Run) ->
    Started = told({started, NowMs}, Run#{phase := measure, started_ms := NowMs}),
    {Started, [{tell, {phase, measure}}, {align, zero_ns(Started), present(Run)}]};
load_event({interval, Interval}, NowMs, Run) ->
    {Saved, Save} = save(NowMs, told({interval, Interval}, Run)),
    {Saved, [{tell, {interval, Interval, in_run_ms(NowMs, Run)}}] ++ peek(NowMs, Run) ++ Save};
load_event({ending, AtNs}, _NowMs, Run) ->
    Ending = Run#{ends_ms := in_run_ms(AtNs div 1_000_000, Run)},
    {Ending, [{last_look, present(Run)}]};
load_event({finished, DurationNs}, _NowMs, #{ends_ms := EndsMs} = Run) ->
    Ends =
        case EndsMs of
            undefined -> DurationNs div 1_000_000;
            _ -> EndsMs
        end,
    Finished = told({duration_ns, DurationNs}, Run#{ends_ms := Ends, phase := finish}),
    {Finished, [{tell, {phase, finish}}, {read, present(Run)}, close]};
load_event({ended, Result}, _NowMs, Run) ->
    Ended = told({load, Result}, Run),
    {Ended, [{stop, judge(Ended)}]};
load_event({failed, Error}, _NowMs, Run) ->
    stop(failure(~"load", Error), Run);
load_event({run_info, Info}, _NowMs, Run) ->
    {Run#{run_info := {info, Info}}, []};
load_event({Kind, _} = Told, _NowMs, Run) when Kind =:= metrics; Kind =:= warning ->
    {told(Told, Run), []}.

%% A run without success has measured nothing; a custom agent that ended, or gave no results, was
%% missing.
judge(#{module := Module, custom := Custom, result := Result}) ->
    case {dyno_test_result:failure(Module, Result), dyno_test_custom:problem(Custom)} of
        {none, none} -> complete;
        {none, Text} -> {failed, ~"custom_agent", Text};
        {{Code, Text}, _} -> {failed, Code, Text}
    end.

%% With other targets the run continues: only the suite knows the load's needs.
down(#{node := Node} = Target, noconnection, NowMs, #{present := [_, _ | _]} = Run) ->
    InRunMs =
        case {in_run_ms(NowMs, Run), Run} of
            {undefined, _} -> 0;
            {_, #{seen := #{Node := Ms}}} -> max(0, Ms);
            {Ms, _} -> Ms
        end,
    Text = io_lib:format(
        "node ~ts left: it was last seen after ~ts; its results are those until then", [
            Node, dyno_unit:format(InRunMs, ~"ms")
        ]
    ),
    {warned(~"node_left", Text, left(Node, InRunMs, Run)), [{detach, Target}]};
down(#{node := Node}, noconnection, NowMs, Run) ->
    After =
        case in_run_ms(NowMs, Run) of
            undefined -> "";
            Ms -> [" after ", dyno_unit:format(Ms, ~"ms")]
        end,
    Format = "node ~ts went down during the run~ts, or went silent",
    fail(~"target_down", Format, [Node, After], without(Node, Run));
down(#{node := Node}, Reason, _NowMs, Run) ->
    %% A guard that gives up reports first; its message came before this one.
    fail(~"agent", "the agent in ~ts ended: ~0tP", [Node, Reason, 12], without(Node, Run)).

without(Node, Instruments, Reason) ->
    Names = lists:append([map_get(names, dyno_agent_instrument:about(I)) || I <- Instruments]),
    io_lib:format("this run has no results of ~ts in ~ts: ~ts", [
        lists:join(" and ", [atom_to_list(Name) || Name <- lists:sort(Names)]), Node, why(Reason)
    ]).

why({limit_bytes, Limit, Bytes}) ->
    io_lib:format(
        "to measure them took ~ts, and it may take ~ts; measure fewer functions, or at the level "
        "count",
        [dyno_unit:format(Bytes, ~"bytes"), dyno_unit:format(Limit, ~"bytes")]
    );
why(Reason) ->
    io_lib:format("what measures them ended (~0tP)", [Reason, 12]).

left(Node, InRunMs, #{all := All, peeked := Peeked, left := Left} = Run) ->
    Marked = [
        case Target of
            #{node := Node} -> fact(left_ms, InRunMs, Target);
            #{} -> Target
        end
     || Target <- All
    ],
    (without(Node, Run))#{
        all := Marked,
        left := [Results || Of := Results <- Peeked, Of =:= Node] ++ Left
    }.

without(Node, #{present := Present} = Run) ->
    Run#{present := [Target || #{node := Of} = Target <- Present, Of =/= Node]}.

fact(_Key, undefined, Target) -> Target;
fact(Key, InRunMs, #{facts := Facts} = Target) -> Target#{facts := Facts#{Key => InRunMs}}.

fail(Code, Format, Arguments, Run) ->
    stop({failed, Code, text(io_lib:format(Format, Arguments))}, Run).

%% After an early end, reads the available results.
stop(Outcome, #{phase := measure} = Run) ->
    {Run, [{read, present(Run)}, load_result, {stop, Outcome}]};
stop(Outcome, Run) ->
    {Run, [{stop, Outcome}]}.

%% The loss of a single target ends the run.
peek(NowMs, #{present := [_, _ | _] = Present, peeked_ms := PeekedMs}) when
    NowMs - PeekedMs >= ?PEEK_MS
->
    [{peek, Present}];
peek(_NowMs, _Run) ->
    [].

save(NowMs, #{saved_ms := SavedMs} = Run) when NowMs - SavedMs >= ?SAVE_MS ->
    {Run#{saved_ms := NowMs}, [{save, recorded(partial, until(NowMs, Run))}]};
save(_NowMs, Run) ->
    {Run, []}.

%% An unfinished run lasts until now.
until(NowMs, #{phase := measure} = Run) ->
    told({duration_ns, in_run_ms(NowMs, Run) * 1_000_000}, Run);
until(_NowMs, Run) ->
    Run.

present(#{present := Present}) -> Present.

%% Undefined before the begin; the second value is on this node's monotonic clock.
in_run_ms(NowMs, #{started_ms := StartedMs}) when is_integer(StartedMs) -> NowMs - StartedMs;
in_run_ms(_NowMs, _Run) -> undefined.

%% The first sample of a target is taken a moment before the run begins.
in_run_ms(_AtNs, _Clock, undefined) -> 0;
in_run_ms(AtNs, Clock, ZeroNs) -> max(0, dyno_target_clock:shift_ms(AtNs, ZeroNs, Clock)).

zero_ns(#{started_ms := StartedMs}) when is_integer(StartedMs) -> StartedMs * 1_000_000;
zero_ns(_Run) -> undefined.

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

-spec baseline(dyno_test_baseline_run:half(), t()) -> t().
baseline(Half, Run) ->
    told({baseline, Half}, Run).

-spec visits([dyno_target_visit:t()], t()) -> t().
visits(Visits, Run) ->
    #{metrics := Metrics, warnings := Warnings} = dyno_target_visit:parts(Visits),
    lists:foldl(
        fun(W, Acc) -> told({warning, W}, Acc) end, told({metrics, Metrics}, Run), Warnings
    ).

-spec run_info(t()) -> none | {info, term()}.
run_info(#{run_info := Info}) -> Info.

-spec targets(t()) -> [dyno_targets:target()].
targets(#{all := All}) -> All.

-doc "Whether all initial nodes were observed for the requested time.".
-spec ended(AskedMs :: pos_integer(), t()) -> dyno_recording_observed:ending().
ended(AskedMs, #{all := All}) ->
    Lost =
        #{
            Node => {lost, LeftMs * 1_000_000}
         || #{node := Node, facts := #{left_ms := LeftMs}} <- All
        },
    Nodes = [Node || #{node := Node} <- All],
    Seen = dyno_recording_observed:nodes(Nodes, Lost, AskedMs * 1_000_000),
    dyno_recording_observed:ended(complete, AskedMs, Seen).

-spec recorded(partial | failed | outcome(), t()) -> recorded().
recorded({misuse, _}, Run) ->
    recorded(failed, Run);
recorded(Status, #{all := All, custom := Custom, place := Place, result := Result} = Run) ->
    #{ends_ms := EndsMs} = Run,
    Parts = dyno_test_custom:parts(Custom, Place#{ends_ms => EndsMs}),
    Told = [{targets, All}, {custom, Parts}],
    Full = lists:foldl(fun dyno_test_result:add/2, Result, Told),
    {Recorded, Verdicts} = dyno_test_result:run(Status, EndsMs, Full),
    {Recorded, dyno_recording_observed:verdicts(Status =:= complete, Verdicts)}.
