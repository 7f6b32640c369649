%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_path_cost).
-moduledoc false.
%% Measures the cost of tracing between two events: traces a program with known times.
%%
%% The program calls three nested functions, first without and then with 20 us of measured work
%% between events. The rest is tracing, which costs more after work, because caches hold other data.
%%
%% Other traced processes and a busy tracer raise the cost, too: a probe beside them shows it.

-behaviour(dyno_agent_event_tracer).

-export([measure/0, functions/0, probe/1, probed/2, costs/2]).
-export_type([probe/0]).
-export([init/1, event/2, info/2, stopped/2]).
%% Traced
-export([program/1, bursts/1, outer/1, inner/1, leaf/1]).

-type state() :: #{
    parent := pid(),
    paths := dyno_agent_paths:t(),
    events := [{dyno_agent_paths:event(), integer()}]
}.

-type probe() :: {
    pid(),
    Last :: {dyno_agent_paths:event(), integer()},
    %% Since the process began again.
    Events :: non_neg_integer(),
    #{{dyno_agent_paths:event(), dyno_agent_paths:event()} => {Sum :: integer(), pos_integer()}}
}.

-define(NEAR, 1500).
-define(FAR, 150).
-define(WORK_NS, 20_000).
-define(WARM_UP, 200).
%% The middle part is kept: the rest was interrupted or disturbed.
-define(KEPT, 0.8).
-define(LONG_MS, 5000).
-define(BURST_MS, 10).
-define(BURST, 20).
%% Caches are cold in the first rounds.
-define(COLD_EVENTS, 12).
%% Longer than the earlier cost by this factor: an interruption.
-define(INTERRUPTED, 8).
-define(ENOUGH, 500).

-doc """
The native costs, and the distance from which on events are `far`.

## Cost
Some 50 ms of one scheduler.
""".
-spec measure() -> {dyno_agent_path_tree:costs(), Far :: non_neg_integer()}.
measure() ->
    Self = self(),
    {Program, Monitor} = spawn_monitor(?MODULE, program, [Self]),
    Spec = [{'_', [], [{message, {caller}}]}],
    Config = #{
        owner => Self,
        consumer => {?MODULE, Self},
        limits => #{queue => 100_000},
        plan => #{
            processes => [{pid, Program}],
            flags => [call, return_to, arity, running],
            functions => [{MFA, Spec, [local]} || MFA <- functions()]
        }
    },
    {ok, Watchdog} = dyno_agent_event_watchdog:start_link(Config),
    Program ! go,
    Works =
        receive
            {?MODULE, Program, Of} -> Of;
            {'DOWN', Monitor, process, Program, Reason} -> exit({?MODULE, Reason})
        after ?LONG_MS -> exit({?MODULE, timeout})
        end,
    true = demonitor(Monitor, [flush]),
    ok = dyno_agent_event_watchdog:stop(Watchdog),
    Events =
        receive
            {?MODULE, events, Seen} -> Seen
        after ?LONG_MS -> exit({?MODULE, timeout})
        end,
    true = unlink(Watchdog),
    ok = gen_server:stop(Watchdog),
    measured(Events, Works).

-spec program(pid()) -> ok.
program(Parent) ->
    receive
        go -> ok
    end,
    ok = rounds(?WARM_UP + ?NEAR, 0),
    Work = erlang:convert_time_unit(?WORK_NS, nanosecond, native),
    _ = put(?MODULE, []),
    ok = rounds(?FAR, Work),
    Parent ! {?MODULE, self(), lists:reverse(get(?MODULE))},
    ok.

rounds(0, _Work) ->
    ok;
rounds(N, Work) ->
    _ = outer(Work),
    ok = worked(Work),
    rounds(N - 1, Work).

-compile({no_inline, [outer/1, inner/1, leaf/1, worked/1]}).

-spec outer(non_neg_integer()) -> ok.
outer(Work) ->
    ok = worked(Work),
    _ = inner(Work),
    worked(Work).

-spec inner(non_neg_integer()) -> ok.
inner(Work) ->
    ok = worked(Work),
    _ = leaf(Work),
    worked(Work).

-spec leaf(non_neg_integer()) -> ok.
leaf(Work) ->
    worked(Work).

worked(0) ->
    ok;
worked(Work) ->
    Start = erlang:monotonic_time(),
    End = until(Start + Work),
    _ = put(?MODULE, [End - Start | get(?MODULE)]),
    ok.

until(Time) ->
    case erlang:monotonic_time() of
        Now when Now >= Time -> Now;
        _ -> until(Time)
    end.

-spec init(pid()) -> state().
init(Parent) ->
    #{
        parent => Parent,
        events => [],
        paths => dyno_agent_paths:new(#{
            far => 0, most => 100, group => fun(_) -> other end, extents => false
        })
    }.

-spec event(tuple(), state()) -> dyno_agent_event_tracer:answer().
event(Message, #{paths := Paths, events := Events} = State) ->
    Event = event_of(element(3, Message)),
    Time = element(tuple_size(Message), Message),
    {ok, State#{
        paths := dyno_agent_paths:event(Message, Paths), events := [{Event, Time} | Events]
    }}.

event_of(call) -> call;
event_of(return_to) -> return;
event_of(_InOrOut) -> run.

-spec info(term(), state()) -> dyno_agent_event_tracer:answer().
info({traces, Session}, State) ->
    _ = dyno_agent_path_hands:start_link(Session),
    {ok, State};
info({dyno_agent_path_hands, pace, Hands}, State) ->
    ok = dyno_agent_path_hands:paced(Hands),
    {ok, State};
info(_Other, State) ->
    {ok, State}.

-spec stopped(dyno_agent_event_tracer:ended(), state()) -> ok.
stopped(_Ended, #{parent := Parent, events := Events}) ->
    Parent ! {?MODULE, events, lists:reverse(Events)},
    ok.

%% The probe

-spec probe(trace:session()) -> probe().
probe(Session) ->
    Pid = spawn_link(?MODULE, bursts, [self()]),
    _ = trace:process(Session, Pid, true, [call, return_to, arity, running, monotonic_timestamp]),
    {Pid, {run, 0}, 0, #{}}.

-doc "The functions that the probe calls: only these of this module are traced.".
-spec functions() -> [mfa()].
functions() -> [{?MODULE, Name, 1} || Name <- [outer, inner, leaf]].

-spec bursts(pid()) -> no_return().
bursts(Tracer) ->
    proc_lib:set_label(?MODULE),
    Monitor = monitor(process, Tracer),
    bursts(Tracer, Monitor).

bursts(Tracer, Monitor) ->
    receive
        {'DOWN', Monitor, process, Tracer, _} -> exit(normal)
    after ?BURST_MS ->
        ok = rounds(?BURST, 0),
        bursts(Tracer, Monitor)
    end.

-doc "Takes an event of the probe; `other` for other processes.".
-spec probed(tuple(), probe()) -> probe() | other.
probed(Message, {Pid, {Before, From}, Events, Sums}) when element(2, Message) =:= Pid ->
    Event = event_of(element(3, Message)),
    Time = element(tuple_size(Message), Message),
    case {Before, Event} of
        {_, run} ->
            {Pid, {run, Time}, 0, Sums};
        {run, _} ->
            {Pid, {Event, Time}, Events + 1, Sums};
        Pair when Events > ?COLD_EVENTS ->
            {Sum, N} = maps:get(Pair, Sums, {0, 0}),
            Next =
                case Time - From of
                    Long when N > ?ENOUGH, Long > ?INTERRUPTED * Sum div N -> Sums;
                    Passed -> Sums#{Pair => {Sum + Passed, N + 1}}
                end,
            {Pid, {Event, Time}, Events + 1, Next};
        _ ->
            {Pid, {Event, Time}, Events + 1, Sums}
    end;
probed(_Message, _Probe) ->
    other.

-spec costs(probe() | none, dyno_agent_path_tree:costs()) -> dyno_agent_path_tree:costs().
costs({_, _, _, Sums}, Measured) ->
    case lists:sum([N || {_, N} <- maps:values(Sums)]) of
        All when All > ?ENOUGH ->
            Now = [Sum / N || Pair <- pairs(), {Sum, N} <- [maps:get(Pair, Sums, {0, 1})]],
            {Near, Far} = lists:split(length(Now), tuple_to_list(Measured)),
            %% Far events scale by the same factor.
            Scaled = lists:zipwith3(fun(Of, N, F) -> Of * F / max(1, N) end, Now, Near, Far),
            list_to_tuple(Now ++ Scaled);
        _ ->
            Measured
    end;
costs(none, Measured) ->
    Measured.

%% Costs

pairs() -> [{A, B} || A <- [call, return], B <- [call, return]].

%% A round has six events; the first far event follows all near rounds.
measured(Events, Works) ->
    Steps = steps(Events, 0, []),
    FirstFar = 6 * (?WARM_UP + ?NEAR),
    Near = by_pair([
        {Pair, Passed}
     || {At, Pair, Passed} <- Steps, At >= 6 * ?WARM_UP, At < FirstFar - 1
    ]),
    OfWork = list_to_tuple(Works),
    Far = by_pair([
        {Pair, Passed - element(At - FirstFar + 1, OfWork)}
     || {At, Pair, Passed} <- Steps, At >= FirstFar, At < FirstFar + tuple_size(OfWork)
    ]),
    Nears = [map_get(Pair, Near) || Pair <- pairs()],
    Fars = [max(map_get(Pair, Near), maps:get(Pair, Far, 0)) || Pair <- pairs()],
    Work = erlang:convert_time_unit(?WORK_NS, nanosecond, native),
    {list_to_tuple(Nears ++ Fars), Work div 4 + lists:max(Nears)}.

%% Times between calls and returns without a switch between, by the number of the first event.
steps([{A, From}, {B, To} | Events], N, Steps) when A =/= run, B =/= run ->
    steps([{B, To} | Events], N + 1, [{N, {A, B}, To - From} | Steps]);
steps([{run, _} | Events], N, Steps) ->
    steps(Events, N, Steps);
steps([{_, _} | Events], N, Steps) ->
    steps(Events, N + 1, Steps);
steps([], _N, Steps) ->
    lists:reverse(Steps).

by_pair(Steps) ->
    maps:map(
        fun(_Pair, Passed) -> middle(lists:sort(Passed)) end,
        maps:groups_from_list(fun({Pair, _}) -> Pair end, fun({_, Passed}) -> Passed end, Steps)
    ).

middle(Sorted) ->
    Kept = max(1, round(length(Sorted) * ?KEPT)),
    Some = lists:sublist(Sorted, 1 + (length(Sorted) - Kept) div 2, Kept),
    max(0, lists:sum(Some) div Kept).
