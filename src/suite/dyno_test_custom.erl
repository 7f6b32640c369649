%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_test_custom).
-moduledoc false.
%% What a suite runs in its targets besides dyno's instruments: instruments of its own, custom
%% agents, metrics and invariants. Loads the modules, and makes the probes of each target from the
%% suite's options and callbacks; dyno_target_custom runs them.

-export([load/2, forget/1, modules/1, instruments/1, start/3, joined/5, process/2]).
-export([format_error/1, fault/1]).
-export_type([loaded/0, context/0, reason/0]).

-doc "The modules of custom agents and instruments, loaded in this node.".
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

-type reason() ::
    {source, kind(), dyno_suite_source:source(), dyno_suite_source:reason()}
    | {no_instrument, Name :: atom(), [atom()]}
    | {not_an_instrument, module(), [{atom(), arity()}]}
    | {metrics_of, module(), dyno_custom_metric:reason() | {returned, term()}}.

-type kind() :: agents | instruments.

-doc "Loads the modules; files of a suite's folder may be named without it.".
-spec load(dyno_suite:options(), dyno_suite_source:source()) ->
    {ok, loaded()} | {error, dyno_error:error()}.
load(#{agents := Agents, instruments := Instruments, without := Without}, Suite) ->
    Sources = [{agents, A} || A <- Agents] ++ [{instruments, I} || I <- Instruments],
    maybe
        {ok, Loaded} ?=
            dyno_error:each(
                fun(Source) -> load_one(Source, Suite) end,
                fun({_, _, Loaded}) -> dyno_suite_source:forget(Loaded) end,
                Sources
            ),
        switched_off(Without, #{
            agents => [Agent || {agents, Agent, _} <- Loaded],
            instruments => [Instrument || {instruments, Instrument, _} <- Loaded],
            loaded => [Of || {_, _, Of} <- Loaded]
        })
    end.

%% An instrument that there is not cannot be switched off.
switched_off(Without, #{instruments := Own} = Loaded) ->
    Names = dyno_agent_instrument:names(Own ++ dyno_agent_instrument:all()),
    case Without -- Names of
        [] ->
            {ok, Loaded};
        [Name | _] ->
            ok = forget(Loaded),
            {error, {?MODULE, {no_instrument, Name, Names}}}
    end.

load_one({Kind, Source}, Suite) ->
    case dyno_suite_source:load_module(beside(Source, Suite)) of
        {ok, #{module := Module} = Loaded} ->
            case as(Kind, Module) of
                {ok, Item} ->
                    {ok, {Kind, Item, Loaded}};
                {error, _} = Error ->
                    ok = dyno_suite_source:forget(Loaded),
                    Error
            end;
        {error, Reason} ->
            {error, {?MODULE, {source, Kind, Source, Reason}}}
    end.

as(agents, Module) ->
    case dyno_suite_agent:form(Module) of
        {ok, Form} -> {ok, {Module, Form}};
        {error, Reason} -> {error, {dyno_suite_agent, Reason}}
    end;
as(instruments, Module) ->
    case dyno_agent_instrument:missing(Module) of
        [] -> {ok, Module};
        Missing -> {error, {?MODULE, {not_an_instrument, Module, Missing}}}
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

-doc "Takes back what `load/2` brought.".
-spec forget(loaded()) -> ok.
forget(#{loaded := Loaded}) ->
    lists:foreach(fun dyno_suite_source:forget/1, Loaded).

-doc "The modules of custom agents, to be sent to the targets.".
-spec modules(loaded()) -> [module()].
modules(#{agents := Agents}) ->
    [Module || {Module, _} <- Agents].

-spec instruments(loaded()) -> [module()].
instruments(#{instruments := Instruments}) -> Instruments.

-doc "Starts everything in all targets; nothing runs if one of them does not start.".
-spec start([dyno_targets:target()], non_neg_integer(), context()) ->
    {ok, dyno_target_custom:t()} | {error, dyno_error:error()}.
start([], Size, #{options := #{invariants := Given}, callbacks := Callbacks}) ->
    maybe
        {ok, Invariants} ?= dyno_test_callbacks:invariants(Callbacks, node(), Size, Given),
        {ok, dyno_target_custom:unchecked(Invariants)}
    end;
start(Targets, Size, Context) ->
    maybe
        {ok, Probes} ?= probes(Targets, Size, Context),
        {error, Reason} ?= dyno_target_custom:start(Probes, dyno_target_custom:none()),
        {error, {dyno_target_custom, Reason}}
    end.

-doc "Starts everything in targets that came later; see `dyno_target_custom:joined/3`.".
-spec joined(
    [dyno_targets:target()], non_neg_integer(), context(), integer() | undefined,
    dyno_target_custom:t()
) -> dyno_target_custom:t().
joined(Targets, Size, Context, ZeroNs, Custom) ->
    case probes(Targets, Size, Context) of
        {ok, Probes} ->
            dyno_target_custom:joined(Probes, ZeroNs, Custom);
        {error, Error} ->
            Text = dyno_recording_part:text("~ts", [dyno_error:format(Error)]),
            dyno_target_custom:warning(~"node_joined", Text, Custom)
    end.

probes(Targets, Size, Context) ->
    dyno_error:each(fun(Target) -> probes_of(Target, Size, Context) end, Targets).

probes_of(#{node := Node} = Target, Size, Context) ->
    #{options := Options, callbacks := Callbacks, custom := #{agents := Agents}} = Context,
    #{invariants := Given, metrics := Metrics, invariant_interval_ms := IntervalMs} = Options,
    maybe
        {ok, Invariants} ?= dyno_test_callbacks:invariants(Callbacks, Node, Size, Given),
        {ok, Of} ?= dyno_error:each(fun(Agent) -> agent(Agent, Node, Size, Context) end, Agents),
        All =
            [
                dyno_target_custom:invariants(Invariants, Options#{interval_ms := IntervalMs})
             || Invariants =/= []
            ] ++ [dyno_target_custom:metrics(Metrics, Options) || Metrics =/= []] ++ Of,
        {ok, {Target, All}}
    end.

agent({Module, Form} = Agent, Node, Size, Context) ->
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
        {ok, dyno_target_custom:agent(Agent, Given, Described, Options)}
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

-doc "Has the modules of PerformERL's form process what their agents gave, here.".
-spec process(dyno_target_custom:t(), dyno_test_callbacks:t()) -> dyno_target_custom:t().
process(Custom, Callbacks) ->
    dyno_target_custom:processed(
        fun({Node, Module, Raw}) ->
            maybe
                {error, Error} ?=
                    dyno_test_callbacks:optional_of(
                        Callbacks, Module, process_results, [Node, Raw], Raw
                    ),
                {error, dyno_recording_part:text("~ts", [dyno_error:format(Error)])}
            end
        end,
        Custom
    ).

-spec format_error(reason()) -> unicode:chardata().
format_error({source, Kind, Source, Reason}) ->
    io_lib:format("~ts ~ts: ~ts", [name(Kind), Source, dyno_suite_source:format_error(Reason)]);
format_error({no_instrument, Name, Names}) ->
    io_lib:format("there is no instrument ~ts to be switched off~ts; there are ~ts", [
        Name, dyno_load_spec:suggestion(Name, Names),
        lists:join(", ", [atom_to_list(N) || N <- Names])
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
    [dyno_agent_name:mfa({Module, metrics, 0}), ": ", dyno_custom_metric:format_error(Reason)].

name(agents) -> "custom agent";
name(instruments) -> "instrument".

-doc "Whose fault it is: what is loaded before a test may be wrong; what runs, failed.".
-spec fault(reason()) -> dyno_error:fault().
fault({source, _, _, Reason}) -> dyno_suite_source:fault(Reason);
fault({no_instrument, _, _}) -> caller;
fault({not_an_instrument, _, _}) -> caller;
fault({metrics_of, _, _}) -> code.
