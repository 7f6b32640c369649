%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_test_custom).
-moduledoc false.
%% Runs a suite's own code in its targets: loads its instruments, which run like dyno's. Code of
%% other forms runs in the instrument dyno_agent_custom: invariants and metrics, which are polled
%% functions of the target, and custom agents. A target has one such probe for each; their events
%% become parts of the recording.

%% The modules
-export([load/2, forget/1, modules/1, instruments/1]).
%% The probes of a run
-export([none/0, start/3, joined/4, take/4, left/4, process/2, problem/1, parts/2]).
-export([format_error/1, fault/1]).
-export_type([loaded/0, context/0, t/0, parts/0, reason/0]).

-import(dyno_recording_part, [text/2]).

-opaque loaded() :: [{module(), instrument | dyno_agent_custom:form(), dyno_suite_source:loaded()}].

-type context() :: #{
    custom := loaded(),
    options := dyno_suite:options(),
    module := module(),
    callbacks := dyno_test_callbacks:t(),
    atom() => term()
}.

-type probe() :: #{
    reads := {invariants | metrics | dyno_agent_custom:form(), module()},
    config := map(),
    %% Units and titles of its samples.
    described => #{Name :: binary() => #{atom() => term()}},
    histories => [dyno_invariant:history()],
    results => term(),
    %% The number of failed samples, and the last one's reason.
    failed => {pos_integer(), Why :: binary()}
}.

-opaque t() :: #{
    %% In the order of the targets.
    probes := [{pid() | left, node() | undefined, probe()}],
    samples := dyno_custom_metric:t(),
    warnings := [{binary(), binary()}],
    problem := binary() | none
}.

-type part() :: #{atom() => term()}.

-type parts() :: #{
    metrics := [part()],
    series := [part()],
    tables := [part()],
    verdicts := [part()],
    warnings := [{binary(), binary()}]
}.

-type reason() ::
    {source, agents | instruments, dyno_suite_source:source(), dyno_suite_source:reason()}
    | {no_instrument, Name :: atom(), [atom()]}
    | {metrics_of, module(), dyno_custom_metric:reason() | {returned, term()}}
    | {not_started, module(), node(), Text :: binary()}.

%% The limit for one call of foreign code.
-define(LIMIT_MS, 5000).

-doc "Loads the modules; files in a suite's folder need no folder.".
-spec load(dyno_suite:options(), dyno_suite_source:source()) -> dyno_error:result(loaded()).
load(#{agents := Agents, instruments := Instruments, without := Without}, Suite) ->
    maybe
        {ok, Loaded} ?=
            dyno_error:each(
                fun(Source) -> load_one(Source, Suite) end,
                fun(Of) -> forget([Of]) end,
                [{agents, A} || A <- Agents] ++ [{instruments, I} || I <- Instruments]
            ),
        %% Only an existing instrument can be switched off.
        Names = dyno_agent_instrument:names(instruments(Loaded) ++ dyno_agent_instrument:all()),
        case Without -- Names of
            [] ->
                {ok, Loaded};
            [Name | _] ->
                ok = forget(Loaded),
                {error, {?MODULE, {no_instrument, Name, Names}}}
        end
    end.

load_one({Option, Source}, Suite) ->
    case dyno_suite_source:load_module(beside(Source, Suite)) of
        {ok, #{module := Module} = Loaded} ->
            case form(Option, Module) of
                {missing, Behaviour, Missing} ->
                    ok = dyno_suite_source:forget(Loaded),
                    Name = dyno_agent_name:module(Module),
                    Lacks = {missing_callbacks, Option, Name, Behaviour, Missing},
                    {error, {dyno_suite_source, Lacks}};
                Form ->
                    {ok, {Module, Form, Loaded}}
            end;
        {error, Reason} ->
            {error, {?MODULE, {source, Option, Source, Reason}}}
    end.

%% Both options take all forms: a module says by its functions which one it has.
form(Option, Module) ->
    case {dyno_agent_instrument:missing(Module), dyno_suite_agent:form(Module)} of
        {[], _} -> instrument;
        {Missing, {missing, _, _}} when Option =:= instruments ->
            {missing, dyno_agent_instrument, Missing};
        {_, Form} -> Form
    end.

beside(Source, Suite) when is_atom(Source); is_atom(Suite); is_tuple(Suite) ->
    Source;
beside(Source, Suite) ->
    Folder = filename:dirname(unicode:characters_to_list(Suite)),
    dyno_file:near(unicode:characters_to_list(Source), Folder).

-spec forget(loaded()) -> ok.
forget(Loaded) ->
    lists:foreach(fun({_, _, Of}) -> dyno_suite_source:forget(Of) end, Loaded).

-doc "Those of custom agents.".
-spec modules(loaded()) -> [module()].
modules(Loaded) ->
    [Module || {Module, Form, _} <- Loaded, Form =/= instrument].

-spec instruments(loaded()) -> [module()].
instruments(Loaded) ->
    [Module || {Module, instrument, _} <- Loaded].

%% Probes

probes(Node, Size, #{options := Options, callbacks := Callbacks, custom := Loaded} = Context) ->
    #{invariants := Given, metrics := Metrics, invariant_interval_ms := IntervalMs} = Options,
    maybe
        {ok, Invariants} ?= dyno_test_callbacks:invariants(Callbacks, Node, Size, Given),
        {ok, Agents} ?=
            dyno_error:each(
                fun(Agent) -> agent(Agent, Node, Size, Context) end,
                [{Module, Form} || {Module, Form, _} <- Loaded, Form =/= instrument]
            ),
        OfInvariants = polls(invariants, Invariants, Options#{interval_ms := IntervalMs}),
        OfMetrics = polls(metrics, Metrics, Options),
        {ok,
            [
                OfInvariants#{histories => [dyno_invariant:new(I) || I <- Invariants]}
             || Invariants =/= []
            ] ++ [OfMetrics#{described => by_name(Metrics)} || Metrics =/= []] ++ Agents}
    end.

agent({Module, Form}, Node, Size, Context) ->
    #{options := Options, module := Suite, callbacks := Callbacks} = Context,
    {Function, Arguments} =
        case Form of
            sampler -> {config, [Node, Size]};
            performerl -> {get_config, [Node, Suite, Size]}
        end,
    maybe
        {ok, Given} ?=
            dyno_test_callbacks:optional_of(Callbacks, Module, Function, Arguments, #{}),
        {ok, Metrics} ?= dyno_test_callbacks:optional_of(Callbacks, Module, metrics, [], []),
        {ok, Described} ?= described(Metrics, Module),
        {ok, #{
            reads => {Form, Module},
            config => config(Module, Form, Given, Options),
            described => by_name(Described)
        }}
    end.

described(Metrics, Module) when length(Metrics) >= 0 ->
    maybe
        {error, Reason} ?=
            dyno_error:each(fun(M) -> dyno_custom_metric:description(M, M) end, Metrics),
        {error, {?MODULE, {metrics_of, Module, Reason}}}
    end;
described(Other, Module) ->
    {error, {?MODULE, {metrics_of, Module, {returned, Other}}}}.

by_name(Metrics) -> #{Name => Metric || #{name := Name} = Metric <- Metrics}.

polls(Reads, Polls, Options) ->
    Config = config(dyno_agent_polls, sampler, Polls, Options),
    #{reads => {Reads, dyno_agent_polls}, config => Config#{again => true}}.

config(Module, Form, Argument, #{interval_ms := IntervalMs, timeout_ms := TimeoutMs}) ->
    #{
        module => Module,
        form => Form,
        config => Argument,
        interval_ms => IntervalMs,
        limit_ms => min(?LIMIT_MS, TimeoutMs)
    }.

%% Running

-spec none() -> t().
none() ->
    #{probes => [], samples => dyno_custom_metric:new(), warnings => [], problem => none}.

-doc """
Starts all probes in all targets; if one does not start, none runs. The calling process gets the
events. Without targets no invariant is checked, and a never checked invariant has not held.
""".
-spec start([dyno_targets:target()], non_neg_integer(), context()) ->
    dyno_error:result({[dyno_targets:target()], t()}).
start([], Size, Context) ->
    maybe
        {ok, Probes} ?= probes(node(), Size, Context#{custom := []}),
        All = (none())#{probes := [{self(), undefined, P} || #{histories := _} = P <- Probes]},
        {ok, {[], left(undefined, 0, ~"the run has no target node", All)}}
    end;
start(Targets, Size, Context) ->
    start(Targets, Size, Context, none()).

start(Targets, Size, Context, All) ->
    maybe
        {ok, Started} ?=
            dyno_error:each(fun(Target) -> start_in(Target, Size, Context) end, Targets),
        {With, Probes} = lists:unzip(Started),
        {ok, {With, lists:foldl(fun added/2, All, lists:append(Probes))}}
    end.

start_in(#{node := Node, instruments := Instruments} = Target, Size, Context) ->
    maybe
        {ok, Probes} ?= probes(Node, Size, Context),
        {ok, Started} ?= dyno_error:each(fun(Probe) -> start_one(Probe, Target) end, Probes),
        Custom = [{dyno_agent_custom, Pid} || {Pid, _, _} <- Started, is_pid(Pid)],
        {ok, {Target#{instruments := Instruments ++ Custom}, Started}}
    end.

start_one(#{config := #{module := Module} = Config} = Probe, #{node := Node, agent := Agent}) ->
    case dyno_agent:start(Agent, dyno_agent_custom, Config#{sink => self()}) of
        {ok, Pid} ->
            {ok, {Pid, Node, Probe}};
        {error, {dyno_agent, {failed, _, {dyno_agent_custom, {ignored, Text}}}}} ->
            {ok, {{ignored, Text}, Node, Probe}};
        {error, {dyno_agent, {failed, _, {dyno_agent_custom, Text}}}} ->
            {error, {?MODULE, {not_started, Module, Node, Text}}};
        {error, _} = Error ->
            Error
    end.

added({{ignored, Why}, Node, #{reads := {_, Module}}}, All) ->
    warning(~"agent_ignored", [agent(Module), " is not in ", atom_to_binary(Node), ": ", Why], All);
added(Started, #{probes := Probes} = All) ->
    All#{probes := Probes ++ [Started]}.

-doc "Starts all probes in later targets. A failed start gives a warning.".
-spec joined([dyno_targets:target()], non_neg_integer(), context(), t()) ->
    {[dyno_targets:target()], t()}.
joined(Targets, Size, Context, All) ->
    case start(Targets, Size, Context, All) of
        {ok, Started} ->
            Started;
        {error, Error} ->
            {Targets, warning(~"node_joined", dyno_error:format(Error), All)}
    end.

-doc "Adds a probe's event (`{dyno_probe, Pid, AtNs, Event}`) at a time in the run.".
-spec take(pid(), InRunMs :: non_neg_integer(), term(), t()) -> t().
take(Pid, InRunMs, Event, #{probes := Probes} = All) ->
    case lists:keyfind(Pid, 1, Probes) of
        {Pid, Node, Probe} -> taken(Event, InRunMs, {Pid, Node, Probe}, All);
        %% Its node was left.
        false -> All
    end.

taken({sample, Polled}, TimeMs, {_, _, #{histories := _}} = Started, All) ->
    checked(TimeMs, [Result || {_, Result} <- Polled], Started, All);
taken({_, Why}, TimeMs, {_, _, #{histories := Histories}} = Started, All) ->
    checked(TimeMs, [{failed, Why} || _ <- Histories], Started, All);
taken({sample, Polled}, TimeMs, {_, _, #{reads := {metrics, _}}} = Started, All) when
    is_list(Polled)
->
    taken({sample, maps:from_list(Polled)}, TimeMs, Started, All);
taken({sample, Values}, TimeMs, {_, Node, #{described := Described}} = Started, All) ->
    #{samples := Samples} = All,
    case dyno_custom_metric:sample(Node, TimeMs, {Described, Values}, Samples) of
        {ok, Next} ->
            All#{samples := Next};
        {error, Reason} ->
            problem([named(Started), ": ", dyno_custom_metric:format_error(Reason)], All)
    end;
taken({results, Value}, _TimeMs, Started, All) ->
    with(results, Value, Started, All);
taken({failed, Why}, _TimeMs, {_, _, Probe} = Started, All) ->
    {Count, _} = maps:get(failed, Probe, {0, none}),
    with(failed, {Count + 1, Why}, Started, All);
taken({ended, Why}, _TimeMs, Started, All) ->
    problem([named(Started), " ended before the run did: ", Why], All);
taken({no_results, Why}, _TimeMs, Started, All) ->
    problem([named(Started), " gave no results: ", Why], All).

checked(TimeMs, Results, {_, _, #{histories := Before}} = Started, All) ->
    Add = fun(Result, History) -> dyno_invariant:add(TimeMs, Result, History) end,
    with(histories, lists:zipwith(Add, Results, Before), Started, All).

with(Key, Value, {Pid, Node, Probe}, #{probes := Probes} = All) ->
    All#{probes := lists:keyreplace(Pid, 1, Probes, {Pid, Node, Probe#{Key => Value}})}.

named({_, Node, #{reads := {metrics, _}}}) -> ["the suite's metrics in ", atom_to_binary(Node)];
named({_, Node, #{reads := {_, Module}}}) -> [agent(Module), " in ", atom_to_binary(Node)].

agent(Module) -> ["custom agent ", dyno_agent_name:module(Module)].

warning(Code, Chars, #{warnings := Warnings} = All) ->
    All#{warnings := Warnings ++ [{Code, text("~ts", [Chars])}]}.

-doc "A node is not observed any more: whether its invariants hold is not known.".
-spec left(node() | undefined, InRunMs :: non_neg_integer(), Why :: binary(), t()) -> t().
left(Node, InRunMs, Why, #{probes := Probes} = All) ->
    Leave = fun
        ({Pid, Of, #{histories := Histories} = Probe}) when Of =:= Node, is_pid(Pid) ->
            Failed = [dyno_invariant:add(InRunMs, {failed, Why}, H) || H <- Histories],
            {left, Node, Probe#{histories := Failed}};
        (Started) ->
            Started
    end,
    All#{probes := lists:map(Leave, Probes)}.

%% Results

-doc "Lets modules in PerformERL's form process their agents' results; a failure fails the run.".
-spec process(t(), dyno_test_callbacks:t()) -> t().
process(#{probes := Probes} = All, Callbacks) ->
    {Processed, Last} = lists:mapfoldl(
        fun(Started, Acc) -> processed(Started, Callbacks, Acc) end, All, Probes
    ),
    Last#{probes := Processed}.

processed({Pid, Node, #{results := Raw, reads := {_, Module}} = Probe}, Callbacks, All) ->
    Arguments = [Node, Raw],
    case dyno_test_callbacks:optional_of(Callbacks, Module, process_results, Arguments, Raw) of
        {ok, Result} ->
            {{Pid, Node, Probe#{results := Result}}, All};
        {error, Error} ->
            {{Pid, Node, maps:remove(results, Probe)}, problem(dyno_error:format(Error), All)}
    end;
processed(Started, _Callbacks, All) ->
    {Started, All}.

-spec problem(t()) -> binary() | none.
problem(#{problem := Problem}) -> Problem.

%% The first text counts.
problem(Chars, #{problem := none} = All) -> All#{problem := text("~ts", [Chars])};
problem(_Chars, All) -> All.

-spec parts(t(), #{
    run := binary(), size => non_neg_integer(), ends_ms := integer() | undefined
}) -> parts().
parts(#{probes := Probes, samples := Samples, warnings := Warnings}, In) ->
    {EndsMs, Place} = maps:take(ends_ms, In),
    Nodes = lists:uniq([Node || {_, Node, _} <- Probes]),
    Checked = [
        {Node, Of}
     || Node <- Nodes,
        [_ | _] = Of <- [lists:append([H || {_, N, #{histories := H}} <- Probes, N =:= Node])]
    ],
    Tables = [
        dyno_custom_metric:table(Node, Of)
     || Node <- Nodes,
        [_ | _] = Of <- [[{M, R} || {_, N, #{reads := {_, M}, results := R}} <- Probes, N =:= Node]]
    ],
    #{
        tables => [dyno_invariant:table(Node, Of) || {Node, Of} <- Checked] ++ Tables,
        series => dyno_custom_metric:series(EndsMs, Samples),
        metrics => dyno_custom_metric:metrics(Tables),
        verdicts => [
            dyno_invariant:verdict(History, Place#{node => Node})
         || {Node, Of} <- Checked, History <- Of
        ],
        warnings => Warnings ++
            [
                {
                    ~"sample_failed",
                    text("~ts failed in ~b samples, the last time: ~ts", [
                        named(Started), Count, Why
                    ])
                }
             || {_, _, #{failed := {Count, Why}}} = Started <- Probes
            ] ++ dyno_custom_metric:warnings(Samples)
    }.

-spec format_error(reason()) -> unicode:chardata().
format_error({source, Option, Source, Reason}) ->
    io_lib:format("~ts ~ts: ~ts", [
        singular(Option), Source, dyno_suite_source:format_error(Reason)
    ]);
format_error({no_instrument, Name, Known}) ->
    Names = [atom_to_list(N) || N <- Known],
    io_lib:format("there is no instrument ~ts to be switched off; there are ~ts~ts", [
        Name,
        lists:join(", ", Names),
        dyno_similar:meant(dyno_similar:nearest(atom_to_list(Name), Names))
    ]);
format_error({metrics_of, Module, {returned, Value}}) ->
    io_lib:format(
        "~ts returned ~0tP; a list of #{name => Name, unit => Unit} is expected",
        [dyno_agent_name:mfa({Module, metrics, 0}), Value, 12]
    );
format_error({metrics_of, Module, Reason}) ->
    [dyno_agent_name:mfa({Module, metrics, 0}), ": ", dyno_custom_metric:format_error(Reason)];
format_error({not_started, Module, Node, Text}) ->
    io_lib:format("~ts did not start in ~ts: ~ts", [agent(Module), Node, Text]).

singular(agents) -> "custom agent";
singular(instruments) -> "instrument".

-doc "The responsible side: code loaded before a test may be wrong; running code failed.".
-spec fault(reason()) -> dyno_error:fault().
fault({source, _, _, Reason}) -> dyno_suite_source:fault(Reason);
fault({no_instrument, _, _}) -> caller;
fault({metrics_of, _, _}) -> code;
fault({not_started, _, _, _}) -> code.
