%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_target_custom).
-moduledoc false.
%% What a suite runs in its targets besides dyno's instruments: custom agents, its own metrics,
%% invariants. Loads the modules, starts all of it after the instruments and ends it before them,
%% takes in what it sends, and gives it as parts of the recording.

-export([load/2, forget/1, modules/1]).
-export([none/0, start/3, joined/5, left/2, restart/1, take/4, finish/1, process/2]).
-export([aligned/3]).
-export([problem/1, add/3]).
-export([format_error/1, fault/1]).
-export_type([agent/0, t/0, reason/0]).

-doc "A custom agent's module, loaded in this node.".
-type agent() :: #{
    module := module(),
    form := dyno_agent_custom:form(),
    loaded := dyno_suite_source:loaded()
}.

-type what() ::
    {agent, module(), dyno_agent_custom:form()}
    | metrics
    | invariants.

-type guest() :: #{
    node := node(),
    what := what(),
    %% Units and titles of the names it samples.
    known := #{binary() => #{atom() => term()}},
    %% What its times are to be moved by, so that they count from the run's start.
    offset_ms := integer()
}.

-type context() :: #{
    agents := [agent()],
    options := dyno_suite:options(),
    module := module(),
    callbacks := dyno_test_callbacks:t()
}.

-opaque t() :: #{
    guests := #{pid() => guest()},
    %% In the order of the targets.
    nodes := [node() | undefined],
    lines := dyno_custom_metric:t(),
    histories := #{node() | undefined => [dyno_invariant:history()]},
    %% The last one first.
    results := [{node(), module(), term()}],
    warnings := [{binary(), binary()}],
    problem := binary() | none
}.

-type reason() ::
    {agent_source, dyno_suite_source:source(), dyno_suite_source:reason()}
    | {agent_form, dyno_suite_agent:reason()}
    | {metrics_of, module(), dyno_custom_metric:reason() | {returned, term()}}
    | {callback, dyno_error:error()}
    | {not_started, module(), node(), Text :: binary()}
    | {attach, dyno_agent:reason()}.

%% One call of their code may take so long.
-define(LIMIT_MS, 5000).

-doc "Loads the modules of custom agents; those of a suite's folder may go without it.".
-spec load([dyno_suite_source:source()], dyno_suite_source:source()) ->
    {ok, [agent()]} | {error, reason()}.
load(Sources, Suite) ->
    load(Sources, Suite, []).

load([], _Suite, Agents) ->
    {ok, lists:reverse(Agents)};
load([Source | Rest], Suite, Agents) ->
    case dyno_suite_source:load_module(beside(Source, Suite)) of
        {ok, #{module := Module} = Loaded} ->
            case dyno_suite_agent:form(Module) of
                {ok, Form} ->
                    Agent = #{module => Module, form => Form, loaded => Loaded},
                    load(Rest, Suite, [Agent | Agents]);
                {error, Reason} ->
                    ok = dyno_suite_source:forget(Loaded),
                    ok = forget(Agents),
                    {error, {agent_form, Reason}}
            end;
        {error, Reason} ->
            ok = forget(Agents),
            {error, {agent_source, Source, Reason}}
    end.

beside(Source, Suite) when is_atom(Source); is_atom(Suite) ->
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
-spec forget([agent()]) -> ok.
forget(Agents) ->
    lists:foreach(fun(#{loaded := Loaded}) -> dyno_suite_source:forget(Loaded) end, Agents).

-doc "The modules to send to the targets.".
-spec modules([agent()]) -> [module()].
modules(Agents) ->
    [Module || #{module := Module} <- Agents].

-doc "Nothing of it.".
-spec none() -> t().
none() ->
    #{
        guests => #{},
        nodes => [undefined],
        lines => dyno_custom_metric:new(),
        histories => #{},
        results => [],
        warnings => [],
        problem => none
    }.

-doc "Starts everything in all targets; gives none where one of them does not start.".
-spec start([dyno_targets:target()], non_neg_integer(), context()) ->
    {ok, t()} | {error, reason()}.
start([], Size, #{options := #{invariants := Given}, callbacks := Callbacks}) ->
    %% What was never checked has not held.
    case dyno_test_callbacks:invariants(Callbacks, node(), Size, Given) of
        {ok, []} ->
            {ok, none()};
        {ok, Invariants} ->
            Why = ~"the run has no target node",
            Histories = [dyno_invariant:stop(Why, dyno_invariant:new(I)) || I <- Invariants],
            {ok, (none())#{histories := #{undefined => Histories}}};
        {error, Error} ->
            {error, {callback, Error}}
    end;
start(Targets, Size, Context) ->
    Nodes = [Node || #{node := Node} <- Targets],
    in_targets(Targets, Size, Context, (none())#{nodes := Nodes}).

in_targets([], _Size, _Context, Guests) ->
    {ok, Guests};
in_targets([Target | Rest], Size, #{agents := Agents} = Context, Guests) ->
    Steps = [
        fun(G) -> invariants(Target, Size, Context, G) end,
        fun(G) -> metrics(Target, Context, G) end
        | [fun(G) -> agent(Agent, Target, Size, Context, G) end || Agent <- Agents]
    ],
    case in_turn(Steps, Guests) of
        {ok, Next} -> in_targets(Rest, Size, Context, Next);
        {error, _} = Error -> Error
    end.

in_turn([], Guests) ->
    {ok, Guests};
in_turn([Step | Steps], Guests) ->
    case Step(Guests) of
        {ok, Next} -> in_turn(Steps, Next);
        {error, _} = Error -> Error
    end.

invariants(#{node := Node} = Target, Size, #{callbacks := Callbacks} = Context, Guests) ->
    #{options := #{invariants := Given, invariant_interval_ms := IntervalMs}} = Context,
    case dyno_test_callbacks:invariants(Callbacks, Node, Size, Given) of
        {ok, []} ->
            {ok, Guests};
        {ok, Invariants} ->
            #{histories := Histories} = Guests,
            New = [dyno_invariant:new(Invariant) || Invariant <- Invariants],
            With = Guests#{histories := Histories#{Node => New}},
            Config = config(dyno_agent_checks, sampler, Invariants, IntervalMs, Context),
            open(Target, invariants, #{}, Config#{again => true}, With);
        {error, Error} ->
            {error, {callback, Error}}
    end.

metrics(_Target, #{options := #{metrics := []}}, Guests) ->
    {ok, Guests};
metrics(Target, #{options := Options} = Context, Guests) ->
    #{metrics := Metrics, interval_ms := IntervalMs} = Options,
    Known = #{Name => Metric || #{name := Name} = Metric <- Metrics},
    Gauges = [maps:with([name, call], Metric) || Metric <- Metrics],
    Config = config(dyno_agent_gauges, sampler, Gauges, IntervalMs, Context),
    open(Target, metrics, Known, Config#{again => true}, Guests).

agent(#{module := Module, form := Form}, #{node := Node} = Target, Size, Context, Guests) ->
    #{options := #{interval_ms := IntervalMs}, module := Suite, callbacks := Callbacks} = Context,
    {Function, Arguments} =
        case Form of
            sampler -> {config, [Node, Size]};
            performerl -> {get_config, [Node, Suite, Size]}
        end,
    maybe
        {ok, Given} ?=
            dyno_test_callbacks:optional_of(Callbacks, Module, Function, Arguments, #{}),
        {ok, Known} ?= known(Module, Callbacks),
        Config = config(Module, Form, Given, IntervalMs, Context),
        open(Target, {agent, Module, Form}, Known, Config, Guests)
    else
        {error, {Of, _} = Error} when Of =:= dyno_sandbox; Of =:= dyno_test_callbacks ->
            {error, {callback, Error}};
        {error, _} = Error ->
            Error
    end.

known(Module, Callbacks) ->
    case dyno_test_callbacks:optional_of(Callbacks, Module, metrics, [], []) of
        {ok, Metrics} when length(Metrics) >= 0 ->
            Read = [dyno_custom_metric:described(Metric, Metric) || Metric <- Metrics],
            case [Reason || {error, Reason} <- Read] of
                [] -> {ok, #{Name => M || {ok, #{name := Name} = M} <- Read}};
                [Reason | _] -> {error, {metrics_of, Module, Reason}}
            end;
        {ok, Other} ->
            {error, {metrics_of, Module, {returned, Other}}};
        {error, _} = Error ->
            Error
    end.

config(Module, Form, Config, IntervalMs, #{options := #{timeout_ms := TimeoutMs}}) ->
    #{
        sink => self(),
        module => Module,
        form => Form,
        config => Config,
        interval_ms => IntervalMs,
        limit_ms => min(?LIMIT_MS, TimeoutMs)
    }.

open(#{node := Node, agent := Agent}, What, Known, Config, #{guests := Before} = Guests) ->
    case dyno_agent:start(Agent, dyno_agent_custom, Config) of
        {ok, Pid} ->
            Guest = #{node => Node, what => What, known => Known, offset_ms => 0},
            With = Guests#{guests := Before#{Pid => Guest}},
            case ask(fun() -> dyno_agent_custom:open(Pid) end) of
                ok ->
                    {ok, With};
                ignore ->
                    Text = text("custom agent ~ts is not in ~ts: its ~ts returned ignore", [
                        map_get(module, Config), Node, beginning(What)
                    ]),
                    {ok, warning(~"agent_ignored", Text, Guests)};
                {error, Text} ->
                    {error, {not_started, map_get(module, Config), Node, Text}}
            end;
        {error, Reason} ->
            {error, {attach, Reason}}
    end.

beginning({agent, _, performerl}) -> "start/1";
beginning(_) -> "init/1".

ask(Call) ->
    try
        Call()
    catch
        exit:{{nodedown, _}, _} -> {error, ~"its node went down"};
        exit:{noproc, _} -> {error, ~"the agent had ended"};
        exit:{Reason, _} -> {error, text("~0tP", [Reason, 10])}
    end.

-doc """
Starts everything in targets that came later; the measured part began at `ZeroNs` on this node's
monotonic clock, or has not yet. What does not start there costs a warning.
""".
-spec joined(
    [dyno_targets:target()], non_neg_integer(), context(), integer() | undefined, t()
) -> t().
joined(Targets, Size, Context, ZeroNs, All) ->
    #{guests := Before, nodes := Nodes} = All,
    More = [Node || #{node := Node} <- Targets],
    Begun = All#{nodes := lists:uniq(Nodes ++ More)},
    case in_targets(Targets, Size, Context, Begun) of
        {ok, With} when ZeroNs =:= undefined ->
            With;
        {ok, #{guests := Guests} = With} ->
            New = maps:without(maps:keys(Before), Guests),
            Newcomers = With#{guests := New},
            ok = restart(Newcomers),
            #{guests := Aligned} = aligned(Targets, ZeroNs, Newcomers),
            With#{guests := maps:merge(Guests, Aligned)};
        {error, Reason} ->
            warning(~"node_joined", text("~ts", [format_error(Reason)]), All)
    end.

-doc "Goes on without a node; what was seen of it stays.".
-spec left(node(), t()) -> t().
left(Node, #{guests := Guests} = All) ->
    All#{guests := #{Pid => Guest || Pid := #{node := Of} = Guest <- Guests, Of =/= Node}}.

-doc "Time counts from now on, and samples begin.".
-spec restart(t()) -> ok.
restart(#{guests := Guests}) ->
    lists:foreach(
        fun(Pid) -> ask(fun() -> dyno_agent_custom:restart(Pid) end) end, maps:keys(Guests)
    ).

-doc """
Finds what brings their times to those that count from `ZeroNs` on this node's monotonic clock; to
be called after a restart.
""".
-spec aligned([dyno_targets:target()], integer(), t()) -> t().
aligned(Targets, ZeroNs, #{guests := Guests} = All) ->
    Clocks = #{Node => Clock || #{node := Node, clock := Clock} <- Targets},
    All#{guests := maps:map(fun(Pid, Guest) -> align(Pid, Guest, Clocks, ZeroNs) end, Guests)}.

align(Pid, #{node := Node} = Guest, Clocks, ZeroNs) ->
    case {Clocks, ask(fun() -> dyno_agent_custom:started_ns(Pid) end)} of
        {#{Node := Clock}, StartNs} when is_integer(StartNs) ->
            Guest#{offset_ms := dyno_target_clock:shift_ms(StartNs, ZeroNs, Clock)};
        _ ->
            Guest
    end.

-doc "Takes in what a guest sent.".
-spec take(pid(), number(), term(), t()) -> t().
take(Pid, TimeMs, Event, #{guests := Guests} = All) ->
    case Guests of
        %% The first sample was taken a moment before the run began.
        #{Pid := #{offset_ms := OffsetMs} = Guest} ->
            taken(Guest, max(0, OffsetMs + TimeMs), Event, All);
        #{} -> All
    end.

taken(#{what := invariants, node := Node}, TimeMs, {sample, Results}, All) ->
    #{histories := #{Node := Histories} = ByNode} = All,
    Next = lists:zipwith(
        fun(Result, History) -> dyno_invariant:add(TimeMs, Result, History) end, Results, Histories
    ),
    All#{histories := ByNode#{Node := Next}};
taken(#{what := invariants, node := Node}, TimeMs, {_, Why}, All) ->
    #{histories := #{Node := Histories} = ByNode} = All,
    Next = [dyno_invariant:add(TimeMs, {failed, Why}, History) || History <- Histories],
    All#{histories := ByNode#{Node := Next}};
taken(#{what := What, node := Node, known := Known}, TimeMs, {sample, Values}, All) ->
    #{lines := Lines} = All,
    case dyno_custom_metric:sample(Node, TimeMs, {Known, Values}, Lines) of
        {ok, Next} ->
            All#{lines := Next};
        {error, Reason} ->
            Text = text("~ts in ~ts: ~ts", [
                named(What), Node, dyno_custom_metric:format_error(Reason)
            ]),
            problem(Text, All)
    end;
taken(#{what := {agent, Module, _}, node := Node}, _TimeMs, {ended, Why}, All) ->
    Text = text("custom agent ~ts in ~ts ended before the run did: ~ts", [Module, Node, Why]),
    problem(Text, All);
taken(#{what := What, node := Node}, _TimeMs, {_, Why}, All) ->
    warning(~"sample_failed", text("~ts in ~ts: ~ts", [named(What), Node, Why]), All).

named({agent, Module, _}) -> ["custom agent ", atom_to_list(Module)];
named(metrics) -> "the suite's metrics".

%% The same warning again and again is one.
warning(Code, Text, #{warnings := Warnings} = All) ->
    case lists:member({Code, Text}, Warnings) of
        true -> All;
        false -> All#{warnings := [{Code, Text} | Warnings]}
    end.

problem(Text, #{problem := none} = All) -> All#{problem := Text};
problem(_Text, All) -> All.

-doc "Ends everything, the last that began first, and takes in its last words.".
-spec finish(t()) -> t().
finish(#{guests := Guests} = All) ->
    Ended = maps:fold(fun finish/3, All, Guests),
    last_words(Ended).

finish(Pid, #{what := What, node := Node}, #{results := Results} = All) ->
    case {ask(fun() -> dyno_agent_custom:finish(Pid) end), What} of
        {{results, Value}, {agent, Module, _}} ->
            All#{results := [{Node, Module, Value} | Results]};
        {{error, Why}, {agent, Module, _}} ->
            problem(text("custom agent ~ts in ~ts gave no results: ~ts", [Module, Node, Why]), All);
        {_, _} ->
            All
    end.

last_words(All) ->
    receive
        {dyno_guest, Pid, TimeMs, Event} -> last_words(take(Pid, TimeMs, Event, All))
    after 0 -> All
    end.

-doc "Has the modules of PerformERL's form process what their agents gave, here.".
-spec process(t(), dyno_test_callbacks:t()) -> t().
process(#{results := Results} = All, Callbacks) ->
    lists:foldl(
        fun({Node, Module, Raw}, Acc) -> processed(Node, Module, Raw, Acc, Callbacks) end,
        All#{results := []},
        lists:reverse(Results)
    ).

processed(Node, Module, Raw, #{results := Results} = All, Callbacks) ->
    Arguments = [Node, Raw],
    case dyno_test_callbacks:optional_of(Callbacks, Module, process_results, Arguments, Raw) of
        {ok, Value} ->
            All#{results := [{Node, Module, Value} | Results]};
        {error, Error} ->
            problem(text("~ts", [dyno_error:format(Error)]), All)
    end.

-doc "What makes the run a failure of dyno's or of its agents.".
-spec problem(t()) -> binary() | none.
problem(#{problem := Problem}) -> Problem.

-doc "Adds everything to a run's result.".
-spec add(t(), #{run := binary(), size := non_neg_integer()}, dyno_test_result:t()) ->
    dyno_test_result:t().
add(#{lines := Lines, histories := Histories, results := Results} = All, Place, Result0) ->
    #{warnings := Warnings, nodes := Nodes} = All,
    Checked = [{Node, map_get(Node, Histories)} || Node <- Nodes, is_map_key(Node, Histories)],
    Tables = lists:append([
        dyno_custom_metric:table(Node, [{M, V} || {N, M, V} <- lists:reverse(Results), N =:= Node])
     || Node <- Nodes
    ]),
    Result1 = dyno_test_result:tables(checked(Checked) ++ Tables, Result0),
    Result2 = dyno_test_result:series(dyno_custom_metric:series(Lines), Result1),
    Result3 = dyno_test_result:metrics(dyno_custom_metric:metrics(Tables), Result2),
    Result4 = dyno_test_result:verdicts(verdicts(Checked, Place), Result3),
    dyno_test_result:warnings(
        lists:reverse(Warnings) ++ dyno_custom_metric:warnings(Lines), Result4
    ).

checked(Checked) ->
    [
        dyno_recording_part:table(
            ~"invariants", ~"Invariants", Node, dyno_invariant:columns(),
            [dyno_invariant:row(History) || History <- Of]
        )
     || {Node, Of} <- Checked
    ].

verdicts(Checked, Place) ->
    [
        dyno_invariant:verdict(History, Place#{node => Node})
     || {Node, Of} <- Checked, History <- Of
    ].

text(Format, Arguments) ->
    dyno_recording_part:text(Format, Arguments).

-doc "One sentence for a reason.".
-spec format_error(reason()) -> unicode:chardata().
format_error({agent_source, Source, Reason}) ->
    io_lib:format("custom agent ~ts: ~ts", [Source, dyno_suite_source:format_error(Reason)]);
format_error({agent_form, Reason}) ->
    dyno_suite_agent:format_error(Reason);
format_error({metrics_of, Module, {returned, Value}}) ->
    io_lib:format(
        "~ts:metrics/0 returned ~0tP; a list of #{name => Name, unit => Unit} is expected",
        [Module, Value, 12]
    );
format_error({metrics_of, Module, Reason}) ->
    io_lib:format("~ts:metrics/0: ~ts", [Module, dyno_custom_metric:format_error(Reason)]);
format_error({callback, Error}) ->
    dyno_error:format(Error);
format_error({not_started, Module, Node, Text}) ->
    io_lib:format("custom agent ~ts did not start in ~ts: ~ts", [Module, Node, Text]);
format_error({attach, Reason}) ->
    dyno_agent:format_error(Reason).

-doc "Who can do something about it: what is loaded before a test may be wrong; what runs, failed.".
-spec fault(reason()) -> dyno_error:fault().
fault({callback, Error}) -> dyno_error:fault(Error);
fault({agent_source, _, Reason}) -> dyno_suite_source:fault(Reason);
fault({agent_form, _}) -> caller;
fault(_) -> code.
