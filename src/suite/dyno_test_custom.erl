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
-export([none/0, start/3, joined/4, take/4, process/2, problem/1, parts/2]).
-export([format_error/1, fault/1]).
-export_type([loaded/0, context/0, t/0, parts/0, reason/0]).

-import(dyno_recording_part, [text/2]).

-opaque loaded() :: #{
    agents := [{module(), dyno_agent_custom:form()}],
    instruments := [module()],
    loaded := [dyno_suite_source:loaded()]
}.

-type context() :: #{
    custom := loaded(),
    options := dyno_suite:options(),
    module := module(),
    callbacks := dyno_test_callbacks:t(),
    atom() => term()
}.

-type reads() :: invariants | metrics | {agent, module(), dyno_agent_custom:form()}.

-type running() :: #{
    node := node(),
    reads := reads(),
    %% Units and titles of its samples.
    described := #{Name :: binary() => #{atom() => term()}}
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
    {source, agents | instruments, dyno_suite_source:source(), dyno_suite_source:reason()}
    | {no_instrument, Name :: atom(), [atom()]}
    | {not_an_instrument, module(), [{atom(), arity()}]}
    | {metrics_of, module(), dyno_custom_metric:reason() | {returned, term()}}
    | {not_started, module(), node(), Text :: binary()}.

%% The limit for one call of foreign code.
-define(LIMIT_MS, 5000).

-doc "Loads the modules; files in a suite's folder need no folder.".
-spec load(dyno_suite:options(), dyno_suite_source:source()) ->
    {ok, loaded()} | {error, dyno_error:error()}.
load(#{agents := Agents, instruments := Instruments, without := Without}, Suite) ->
    Sources = [{agents, A} || A <- Agents] ++ [{instruments, I} || I <- Instruments],
    maybe
        {ok, Loaded} ?=
            dyno_error:each(
                fun(Source) -> load_one(Source, Suite) end,
                fun({_, Loaded}) -> dyno_suite_source:forget(Loaded) end,
                Sources
            ),
        switched_off(Without, #{
            agents => [Agent || {{_, _} = Agent, _} <- Loaded],
            instruments => [Instrument || {Instrument, _} <- Loaded, is_atom(Instrument)],
            loaded => [Of || {_, Of} <- Loaded]
        })
    end.

%% Only an existing instrument can be switched off.
switched_off([], Loaded) ->
    {ok, Loaded};
switched_off(Without, #{instruments := Own} = Loaded) ->
    Names = dyno_agent_instrument:names(Own ++ dyno_agent_instrument:all()),
    case Without -- Names of
        [] ->
            {ok, Loaded};
        [Name | _] ->
            ok = forget(Loaded),
            {error, {?MODULE, {no_instrument, Name, Names}}}
    end.

load_one({Option, Source}, Suite) ->
    case dyno_suite_source:load_module(beside(Source, Suite)) of
        {ok, #{module := Module} = Loaded} ->
            case as(Option, Module) of
                {ok, Item} ->
                    {ok, {Item, Loaded}};
                {error, _} = Error ->
                    ok = dyno_suite_source:forget(Loaded),
                    Error
            end;
        {error, Reason} ->
            {error, {?MODULE, {source, Option, Source, Reason}}}
    end.

%% Both options take all forms: a module says by its functions which one it has.
as(Option, Module) ->
    case {dyno_agent_instrument:missing(Module), dyno_suite_agent:form(Module), Option} of
        {[], _, _} -> {ok, Module};
        {_, {ok, Form}, _} -> {ok, {Module, Form}};
        {_, {error, Reason}, agents} -> {error, {dyno_suite_agent, Reason}};
        {Missing, _, instruments} -> {error, {?MODULE, {not_an_instrument, Module, Missing}}}
    end.

beside(Source, Suite) when is_atom(Source); is_atom(Suite); is_tuple(Suite) ->
    Source;
beside(Source0, Suite0) ->
    Source = unicode:characters_to_list(Source0),
    Suite = unicode:characters_to_list(Suite0),
    Beside = filename:join(filename:dirname(Suite), Source),
    case filelib:is_regular(Source) orelse not filelib:is_regular(Beside) of
        true -> Source;
        false -> Beside
    end.

-spec forget(loaded()) -> ok.
forget(#{loaded := Loaded}) ->
    lists:foreach(fun dyno_suite_source:forget/1, Loaded).

-spec modules(loaded()) -> [module()].
modules(#{agents := Agents}) ->
    [Module || {Module, _} <- Agents].

-spec instruments(loaded()) -> [module()].
instruments(#{instruments := Instruments}) -> Instruments.

%% Probes

%% Each as #{reads, config, described}; for invariants with these too.
probes(Node, Size, Context) ->
    #{options := Options, callbacks := Callbacks, custom := #{agents := Agents}} = Context,
    #{invariants := Given, metrics := Metrics, invariant_interval_ms := IntervalMs} = Options,
    maybe
        {ok, Invariants} ?= dyno_test_callbacks:invariants(Callbacks, Node, Size, Given),
        {ok, Of} ?= dyno_error:each(fun(Agent) -> agent(Agent, Node, Size, Context) end, Agents),
        OfInvariants = #{
            reads => invariants,
            config => polls(Invariants, Options#{interval_ms := IntervalMs}),
            described => #{},
            invariants => Invariants
        },
        OfMetrics = #{
            reads => metrics,
            config => polls([maps:with([name, call], Metric) || Metric <- Metrics], Options),
            described => #{Name => Metric || #{name := Name} = Metric <- Metrics}
        },
        {ok, [OfInvariants || Invariants =/= []] ++ [OfMetrics || Metrics =/= []] ++ Of}
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
        {ok, Described} ?= described(Module, Callbacks),
        {ok, #{
            reads => {agent, Module, Form},
            config => config(Module, Form, Given, Options),
            described => Described
        }}
    end.

described(Module, Callbacks) ->
    case dyno_test_callbacks:optional_of(Callbacks, Module, metrics, [], []) of
        {ok, Metrics} when length(Metrics) >= 0 ->
            Read = fun(Metric) -> dyno_custom_metric:description(Metric, Metric) end,
            case dyno_error:each(Read, Metrics) of
                {ok, Descriptions} -> {ok, #{Name => M || #{name := Name} = M <- Descriptions}};
                {error, Reason} -> {error, {?MODULE, {metrics_of, Module, Reason}}}
            end;
        {ok, Other} ->
            {error, {?MODULE, {metrics_of, Module, {returned, Other}}}};
        {error, _} = Error ->
            Error
    end.

polls(Polled, Options) ->
    (config(dyno_agent_polls, sampler, Polled, Options))#{again => true}.

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
    #{
        running => #{},
        nodes => [undefined],
        samples => dyno_custom_metric:new(),
        histories => #{},
        results => [],
        warnings => [],
        problem => none
    }.

-doc """
Starts all probes in all targets; if one does not start, none runs. The calling process gets the
events. Without targets no invariant is checked, and a never checked invariant has not held.
""".
-spec start([dyno_targets:target()], non_neg_integer(), context()) ->
    {ok, {[dyno_targets:target()], t()}} | {error, dyno_error:error()}.
start([], Size, #{options := #{invariants := Given}, callbacks := Callbacks}) ->
    maybe
        {ok, Invariants} ?= dyno_test_callbacks:invariants(Callbacks, node(), Size, Given),
        Why = ~"the run has no target node",
        Histories = [dyno_invariant:stop(Why, dyno_invariant:new(I)) || I <- Invariants],
        {ok, {[], (none())#{histories := #{undefined => Histories || Invariants =/= []}}}}
    end;
start(Targets, Size, Context) ->
    start(Targets, Size, Context, none()).

start(Targets, Size, Context, #{nodes := Before} = All) ->
    maybe
        Nodes = [Node || #{node := Node} <- Targets],
        {ok, Probes} ?= dyno_error:each(fun(Node) -> probes(Node, Size, Context) end, Nodes),
        start_each(
            lists:zip(Targets, Probes),
            [],
            All#{nodes := lists:uniq((Before -- [undefined]) ++ Nodes)}
        )
    end.

start_each([], Started, All) ->
    {ok, {lists:reverse(Started), All}};
start_each([{Target, []} | Rest], Started, All) ->
    start_each(Rest, [Target | Started], All);
start_each([{Target, [Probe | Probes]} | Rest], Started, All) ->
    maybe
        {ok, {With, Next}} ?= start_one(Target, Probe, All),
        start_each([{With, Probes} | Rest], Started, Next)
    end.

start_one(#{node := Node} = Target, #{reads := Reads, config := Config} = Probe, All) ->
    #{module := Module} = Config,
    #{running := Running, histories := Histories} = All,
    case dyno_targets:add(dyno_agent_custom, Config, Target) of
        {ok, #{instruments := Instruments} = With} ->
            {_, Pid} = lists:last(Instruments),
            History =
                #{
                    Node => [dyno_invariant:new(I) || I <- Invariants]
                 || #{invariants := Invariants} <- [Probe]
                },
            {ok,
                {With, All#{
                    running := Running#{
                        Pid => (maps:with([reads, described], Probe))#{node => Node}
                    },
                    histories := maps:merge(Histories, History)
                }}};
        {error, {dyno_agent, {failed, _, {dyno_agent_custom, ignore}}}} ->
            Text = text("custom agent ~ts is not in ~ts: its ~ts returned ignore", [
                named(Module), Node, first_function(Reads)
            ]),
            {ok, {Target, warning(~"agent_ignored", Text, All)}};
        {error, {dyno_agent, {failed, _, {dyno_agent_custom, Text}}}} ->
            {error, {?MODULE, {not_started, Module, Node, Text}}};
        {error, _} = Error ->
            Error
    end.

first_function({agent, _, performerl}) -> "start/1";
first_function(_) -> "init/1".

-doc "Starts all probes in later targets. A failed start gives a warning.".
-spec joined([dyno_targets:target()], non_neg_integer(), context(), t()) ->
    {[dyno_targets:target()], t()}.
joined(Targets, Size, Context, All) ->
    case start(Targets, Size, Context, All) of
        {ok, Started} ->
            Started;
        {error, Error} ->
            {Targets, warning(~"node_joined", text("~ts", [dyno_error:format(Error)]), All)}
    end.

-doc "Adds a probe's event (`{dyno_probe, Pid, AtNs, Event}`) at a time in the run.".
-spec take(pid(), InRunMs :: non_neg_integer(), term(), t()) -> t().
take(Pid, InRunMs, Event, #{running := Running} = All) ->
    taken(map_get(Pid, Running), InRunMs, Event, All).

taken(#{reads := invariants, node := Node}, TimeMs, Event, All) ->
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
taken(#{reads := metrics} = Probe, TimeMs, {sample, Polled}, All) when is_list(Polled) ->
    taken(Probe, TimeMs, {sample, maps:from_list(Polled)}, All);
taken(#{reads := Reads, node := Node, described := Described}, TimeMs, {sample, Values}, All) ->
    #{samples := Samples} = All,
    case dyno_custom_metric:sample(Node, TimeMs, {Described, Values}, Samples) of
        {ok, Next} ->
            All#{samples := Next};
        {error, Reason} ->
            Why = dyno_custom_metric:format_error(Reason),
            problem(text("~ts in ~ts: ~ts", [name(Reads), Node, Why]), All)
    end;
taken(#{reads := {agent, Module, _}, node := Node}, _TimeMs, {results, Value}, All) ->
    #{results := Results} = All,
    All#{results := [{Node, Module, Value} | Results]};
taken(#{reads := {agent, Module, _}, node := Node}, _TimeMs, {Ending, Why}, All) when
    Ending =/= failed
->
    Format =
        case Ending of
            ended -> "custom agent ~ts in ~ts ended before the run did: ~ts";
            no_results -> "custom agent ~ts in ~ts gave no results: ~ts"
        end,
    problem(text(Format, [named(Module), Node, Why]), All);
taken(#{reads := Reads, node := Node}, _TimeMs, {_, Why}, All) ->
    warning(~"sample_failed", text("~ts in ~ts: ~ts", [name(Reads), Node, Why]), All).

name({agent, Module, _}) -> ["custom agent ", named(Module)];
name(metrics) -> "the suite's metrics".

named(Module) -> dyno_agent_name:module(Module).

%% Repeated warnings are merged.
warning(Code, Text, #{warnings := Warnings} = All) ->
    case lists:member({Code, Text}, Warnings) of
        true -> All;
        false -> All#{warnings := [{Code, Text} | Warnings]}
    end.

%% Results

-doc """
Lets modules in PerformERL's form process their agents' results, here. A failure fails the run.
""".
-spec process(t(), dyno_test_callbacks:t()) -> t().
process(#{results := Results} = All, Callbacks) ->
    lists:foldr(
        fun({Node, Module, Raw}, #{results := Processed} = Acc) ->
            Processing = dyno_test_callbacks:optional_of(
                Callbacks, Module, process_results, [Node, Raw], Raw
            ),
            case Processing of
                {ok, Result} -> Acc#{results := [{Node, Module, Result} | Processed]};
                {error, Error} -> problem(text("~ts", [dyno_error:format(Error)]), Acc)
            end
        end,
        All#{results := []},
        Results
    ).

-spec problem(t()) -> binary() | none.
problem(#{problem := Problem}) -> Problem.

%% The first text counts.
problem(Text, #{problem := none} = All) -> All#{problem := Text};
problem(_Text, All) -> All.

-spec parts(t(), #{
    run := binary(), size => non_neg_integer(), ends_ms := integer() | undefined
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
format_error({not_an_instrument, Module, Missing}) ->
    Names = lists:join(", ", [io_lib:format("~ts/~b", [F, A]) || {F, A} <- Missing]),
    io_lib:format(
        "~ts is not an instrument: it lacks ~ts, which dyno_agent_instrument asks for",
        [dyno_agent_name:module(Module), Names]
    );
format_error({metrics_of, Module, {returned, Value}}) ->
    io_lib:format(
        "~ts returned ~0tP; a list of #{name => Name, unit => Unit} is expected",
        [dyno_agent_name:mfa({Module, metrics, 0}), Value, 12]
    );
format_error({metrics_of, Module, Reason}) ->
    [dyno_agent_name:mfa({Module, metrics, 0}), ": ", dyno_custom_metric:format_error(Reason)];
format_error({not_started, Module, Node, Text}) ->
    io_lib:format("custom agent ~ts did not start in ~ts: ~ts", [named(Module), Node, Text]).

singular(agents) -> "custom agent";
singular(instruments) -> "instrument".

-doc "The responsible side: code loaded before a test may be wrong; running code failed.".
-spec fault(reason()) -> dyno_error:fault().
fault({source, _, _, Reason}) -> dyno_suite_source:fault(Reason);
fault({no_instrument, _, _}) -> caller;
fault({not_an_instrument, _, _}) -> caller;
fault({metrics_of, _, _}) -> code;
fault({not_started, _, _, _}) -> code.
