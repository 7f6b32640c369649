%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_target_custom).
-moduledoc false.
%% Custom probes in the targets of a run: code that is not dyno's, run by dyno_agent_custom. There
%% are three kinds: invariants and metrics, which are polled functions of the target, and custom
%% agents. This module starts them after the instruments and ends them before, collects what they
%% send, and makes parts of the recording of it.

-export([invariants/2, metrics/2, agent/4]).
-export([none/0, unchecked/1, start/2, joined/3, left/2, restart/1, aligned/3, take/4]).
-export([last_look/1, finish/1]).
-export([processed/2, problem/1, warning/3, parts/2]).
-export([format_error/1, fault/1]).
-export_type([probe/0, t/0, parts/0, reason/0]).

-import(dyno_recording_part, [text/2]).

-doc "What is to run in one target.".
-opaque probe() :: #{
    kind := kind(),
    config := map(),
    described := described(),
    invariants := [dyno_invariant:t()]
}.

-doc "Units and titles of the names that a probe samples.".
-type described() :: #{Name :: binary() => #{atom() => term()}}.

-type kind() :: invariants | metrics | {agent, module(), dyno_agent_custom:form()}.

-type running() :: #{
    node := node(),
    kind := kind(),
    described := described(),
    %% What to add to its times, so that they count from the run's start.
    offset_ms := integer()
}.

-opaque t() :: #{
    running := #{pid() => running()},
    %% In the order of the targets.
    nodes := [node() | undefined],
    samples := dyno_custom_metric:t(),
    histories := #{node() | undefined => [dyno_invariant:history()]},
    %% The last one first.
    results := [result()],
    warnings := [{binary(), binary()}],
    problem := binary() | none
}.

-type result() :: {node(), module(), term()}.

-type part() :: #{atom() => term()}.

-type parts() :: #{
    metrics := [part()],
    series := [part()],
    tables := [part()],
    verdicts := [part()],
    warnings := [{binary(), binary()}]
}.

-type reason() ::
    {not_started, module(), node(), Text :: binary()}
    | {attach, dyno_error:error()}.

-type options() :: #{interval_ms := pos_integer(), timeout_ms := pos_integer(), _ => _}.

%% The longest that one call of their code may take.
-define(LIMIT_MS, 5000).

%% What is to run

-doc "A probe that checks invariants.".
-spec invariants([dyno_invariant:t(), ...], options()) -> probe().
invariants(Invariants, Options) ->
    Polls = config(dyno_agent_polls, sampler, Invariants, Options),
    probe(invariants, Polls#{again => true}, #{}, Invariants).

-doc "A probe that reads metrics that are functions.".
-spec metrics([dyno_custom_metric:metric(), ...], options()) -> probe().
metrics(Metrics, Options) ->
    Calls = [maps:with([name, call], Metric) || Metric <- Metrics],
    Polls = config(dyno_agent_polls, sampler, Calls, Options),
    Described = #{Name => Metric || #{name := Name} = Metric <- Metrics},
    probe(metrics, Polls#{again => true}, Described, []).

-doc "A custom agent, with its argument and a description of what it samples.".
-spec agent({module(), dyno_agent_custom:form()}, term(), described(), options()) -> probe().
agent({Module, Form}, Argument, Described, Options) ->
    probe({agent, Module, Form}, config(Module, Form, Argument, Options), Described, []).

probe(Kind, Config, Described, Invariants) ->
    #{kind => Kind, config => Config, described => Described, invariants => Invariants}.

config(Module, Form, Argument, #{interval_ms := IntervalMs, timeout_ms := TimeoutMs}) ->
    #{
        module => Module,
        form => Form,
        config => Argument,
        interval_ms => IntervalMs,
        limit_ms => min(?LIMIT_MS, TimeoutMs)
    }.

%% Running it

-doc "No probe runs.".
-spec none() -> t().
none() ->
    #{
        running => #{},
        nodes => [undefined],
        samples => dyno_custom_metric:new(),
        histories => #{},
        results => [],
        warnings => [],
        problem => none
    }.

-doc "Invariants of a run without targets: what was never checked has not held.".
-spec unchecked([dyno_invariant:t()]) -> t().
unchecked([]) ->
    none();
unchecked(Invariants) ->
    Why = ~"the run has no target node",
    Histories = [dyno_invariant:stop(Why, dyno_invariant:new(I)) || I <- Invariants],
    (none())#{histories := #{undefined => Histories}}.

-doc "Starts the probes of each target; the calling process gets their samples.".
-spec start([{dyno_targets:target(), [probe()]}], t()) -> {ok, t()} | {error, reason()}.
start(Probes, #{nodes := Before} = All) ->
    Nodes = [Node || {#{node := Node}, _} <- Probes],
    start_each(
        [{Target, Probe} || {Target, Of} <- Probes, Probe <- Of],
        All#{nodes := lists:uniq((Before -- [undefined]) ++ Nodes)}
    ).

start_each([], All) ->
    {ok, All};
start_each([{Target, Probe} | Rest], All) ->
    maybe
        {ok, Next} ?= start_one(Target, Probe, All),
        start_each(Rest, Next)
    end.

start_one(#{node := Node, agent := Agent}, #{kind := Kind, config := Config} = Probe, All) ->
    #{described := Described, invariants := Invariants} = Probe,
    #{module := Module} = Config,
    case dyno_agent:start(Agent, dyno_agent_custom, Config#{sink => self()}) of
        {ok, Pid} ->
            #{running := Running, histories := Histories} = All,
            New = #{node => Node, kind => Kind, described => Described, offset_ms => 0},
            History = #{Node => [dyno_invariant:new(I) || I <- Invariants] || Invariants =/= []},
            case ask(fun() -> dyno_agent_custom:open(Pid) end) of
                ok ->
                    {ok, All#{
                        running := Running#{Pid => New},
                        histories := maps:merge(Histories, History)
                    }};
                ignore ->
                    Text = text("custom agent ~ts is not in ~ts: its ~ts returned ignore", [
                        named(Module), Node, first_function(Kind)
                    ]),
                    {ok, warning(~"agent_ignored", Text, All)};
                {error, Text} ->
                    {error, {not_started, Module, Node, Text}}
            end;
        {error, Error} ->
            {error, {attach, Error}}
    end.

first_function({agent, _, performerl}) -> "start/1";
first_function(_) -> "init/1".

ask(Call) ->
    try
        Call()
    catch
        exit:{{nodedown, _}, _} -> {error, ~"its node went down"};
        exit:{noproc, _} -> {error, ~"the agent had ended"};
        exit:{Reason, _} -> {error, text("~0tP", [Reason, 10])}
    end.

-doc """
Starts probes in targets that came later; the measured part began at `ZeroNs` on this node's
monotonic clock, or has not yet. What does not start there costs a warning.
""".
-spec joined([{dyno_targets:target(), [probe()]}], integer() | undefined, t()) -> t().
joined(Probes, ZeroNs, #{running := Before} = All) ->
    case start(Probes, All) of
        {ok, With} when ZeroNs =:= undefined ->
            With;
        {ok, #{running := Running} = With} ->
            ok = restart(With#{running := maps:without(maps:keys(Before), Running)}),
            aligned([Target || {Target, _} <- Probes], ZeroNs, With);
        {error, Reason} ->
            warning(~"node_joined", text("~ts", [format_error(Reason)]), All)
    end.

-doc "Goes on without a node; what was seen of it remains.".
-spec left(node(), t()) -> t().
left(Node, #{running := Running} = All) ->
    All#{running := #{Pid => Probe || Pid := #{node := Of} = Probe <- Running, Of =/= Node}}.

-doc "Time counts from now on, and samples begin.".
-spec restart(t()) -> ok.
restart(#{running := Running}) ->
    lists:foreach(
        fun(Pid) -> ask(fun() -> dyno_agent_custom:restart(Pid) end) end, maps:keys(Running)
    ).

-doc "After a restart: what is to be added to their times so that these count from `ZeroNs`.".
-spec aligned([dyno_targets:target()], integer(), t()) -> t().
aligned(Targets, ZeroNs, #{running := Running} = All) ->
    Clocks = #{Node => Clock || #{node := Node, clock := Clock} <- Targets},
    All#{running := maps:map(fun(Pid, Probe) -> align(Pid, Probe, Clocks, ZeroNs) end, Running)}.

align(Pid, #{node := Node} = Probe, Clocks, ZeroNs) ->
    case {Clocks, ask(fun() -> dyno_agent_custom:started_ns(Pid) end)} of
        {#{Node := Clock}, StartNs} when is_integer(StartNs) ->
            Probe#{offset_ms := dyno_target_clock:shift_ms(StartNs, ZeroNs, Clock)};
        _ ->
            Probe
    end.

-doc "Adds what a probe has sent (`{dyno_probe, Pid, TimeMs, Event}`).".
-spec take(pid(), number(), term(), t()) -> t().
take(Pid, TimeMs, Event, #{running := Running} = All) ->
    case Running of
        %% The first sample was taken a moment before the run began.
        #{Pid := #{offset_ms := OffsetMs} = Probe} ->
            taken(Probe, max(0, OffsetMs + TimeMs), Event, All);
        #{} ->
            All
    end.

taken(#{kind := invariants, node := Node}, TimeMs, Event, All) ->
    #{histories := #{Node := Histories} = ByNode} = All,
    Results =
        case Event of
            {sample, Polled} -> [Result || {_, Result} <- Polled];
            {_, Why} -> [{failed, Why} || _ <- Histories]
        end,
    Next = lists:zipwith(
        fun(Result, History) -> dyno_invariant:add(TimeMs, Result, History) end, Results, Histories
    ),
    All#{histories := ByNode#{Node := Next}};
taken(#{kind := metrics} = Probe, TimeMs, {sample, Polled}, All) when is_list(Polled) ->
    taken(Probe, TimeMs, {sample, maps:from_list(Polled)}, All);
taken(#{kind := Kind, node := Node, described := Described}, TimeMs, {sample, Values}, All) ->
    #{samples := Samples} = All,
    case dyno_custom_metric:sample(Node, TimeMs, {Described, Values}, Samples) of
        {ok, Next} ->
            All#{samples := Next};
        {error, Reason} ->
            Why = dyno_custom_metric:format_error(Reason),
            problem(text("~ts in ~ts: ~ts", [name(Kind), Node, Why]), All)
    end;
taken(#{kind := {agent, Module, _}, node := Node}, _TimeMs, {ended, Why}, All) ->
    Format = "custom agent ~ts in ~ts ended before the run did: ~ts",
    Text = text(Format, [named(Module), Node, Why]),
    problem(Text, All);
taken(#{kind := Kind, node := Node}, _TimeMs, {_, Why}, All) ->
    warning(~"sample_failed", text("~ts in ~ts: ~ts", [name(Kind), Node, Why]), All).

name({agent, Module, _}) -> ["custom agent ", named(Module)];
name(metrics) -> "the suite's metrics".

named(Module) -> dyno_agent_name:module(Module).

-doc "Adds a warning; the same one again and again is one.".
-spec warning(binary(), binary(), t()) -> t().
warning(Code, Text, #{warnings := Warnings} = All) ->
    case lists:member({Code, Text}, Warnings) of
        true -> All;
        false -> All#{warnings := [{Code, Text} | Warnings]}
    end.

-doc "Has all take their last sample: the load ends in a moment. Invariants hold until the end.".
-spec last_look(t()) -> ok.
last_look(#{running := Running}) ->
    lists:foreach(
        fun dyno_agent_custom:last_look/1,
        [Pid || Pid := #{kind := Kind} <- Running, Kind =/= invariants]
    ).

-doc "Ends all probes, and adds what they have sent by then.".
-spec finish(t()) -> t().
finish(#{running := Running} = All) ->
    take_last(maps:fold(fun finish/3, All, Running)).

finish(Pid, #{kind := Kind, node := Node}, #{results := Results} = All) ->
    case {ask(fun() -> dyno_agent_custom:finish(Pid) end), Kind} of
        {{results, Value}, {agent, Module, _}} ->
            All#{results := [{Node, Module, Value} | Results]};
        {{error, Why}, {agent, Module, _}} ->
            Format = "custom agent ~ts in ~ts gave no results: ~ts",
            problem(text(Format, [named(Module), Node, Why]), All);
        {_, _} ->
            All
    end.

take_last(All) ->
    receive
        {dyno_probe, Pid, TimeMs, Event} -> take_last(take(Pid, TimeMs, Event, All))
    after 0 -> All
    end.

%% Results

-doc """
With what a function makes of each result, in their order. Where it gives an error's text that makes
the run a failure.
""".
-spec processed(fun((result()) -> {ok, term()} | {error, binary()}), t()) -> t().
processed(Process, #{results := Results} = All) ->
    lists:foldr(
        fun({Node, Module, _} = Raw, #{results := Done} = Acc) ->
            case Process(Raw) of
                {ok, Value} -> Acc#{results := [{Node, Module, Value} | Done]};
                {error, Text} -> problem(Text, Acc)
            end
        end,
        All#{results := []},
        Results
    ).

-doc "The text of what makes the run a failure.".
-spec problem(t()) -> binary() | none.
problem(#{problem := Problem}) -> Problem.

%% The first text counts.
problem(Text, #{problem := none} = All) -> All#{problem := Text};
problem(_Text, All) -> All.

-doc "All of it as parts of a run whose load ends at a time.".
-spec parts(t(), #{
    run := binary(), size := non_neg_integer(), ends_ms := integer() | undefined
}) -> parts().
parts(#{samples := Samples, histories := Histories, nodes := Nodes} = All, In) ->
    #{results := Results, warnings := Warnings} = All,
    {EndsMs, Place} = maps:take(ends_ms, In),
    Checked = [{Node, map_get(Node, Histories)} || Node <- Nodes, is_map_key(Node, Histories)],
    Tables = lists:append([
        dyno_custom_metric:table(Node, [{M, V} || {N, M, V} <- lists:reverse(Results), N =:= Node])
     || Node <- Nodes
    ]),
    #{
        tables => [dyno_invariant:table(Node, Of) || {Node, Of} <- Checked] ++ Tables,
        series => dyno_custom_metric:series(EndsMs, Samples),
        metrics => dyno_custom_metric:metrics(Tables),
        verdicts => [
            dyno_invariant:verdict(History, Place#{node => Node})
         || {Node, Of} <- Checked, History <- Of
        ],
        warnings => lists:reverse(Warnings) ++ dyno_custom_metric:warnings(Samples)
    }.

-spec format_error(reason()) -> unicode:chardata().
format_error({not_started, Module, Node, Text}) ->
    io_lib:format("custom agent ~ts did not start in ~ts: ~ts", [named(Module), Node, Text]);
format_error({attach, Error}) ->
    dyno_error:format(Error).

-doc "A probe that does not start is the suite's fault.".
-spec fault(reason()) -> dyno_error:fault().
fault(_Reason) -> code.
