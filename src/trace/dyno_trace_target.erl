%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_trace_target).
-moduledoc """
A node in which something is traced: the agent there, with the watchdog and one consumer. It ends
with the process that attaches it.
""".

-export([attach/3, change/2, stop/1, detach/1, format_error/1]).
-export_type([t/0, options/0, reason/0]).

-type t() :: #{
    node := node(),
    agent := dyno_agent:agent(),
    monitor := reference(),
    ref := reference(),
    watchdog := pid(),
    %% What the node's monotonic time is ahead of our time of day.
    ahead := integer(),
    ends := ends | as_asked
}.

-type options() :: #{
    %% Checked.
    processes := [dyno_agent_process_choice:selector()],
    what := events | latency | {argument, pos_integer()},
    %% Whether each call's end is traced, for a tree.
    ends := ends | as_asked,
    count := pos_integer() | infinity,
    limits := dyno_agent_event_watchdog:limits(),
    terms := dyno_agent_event_term:limits(),
    above_ns => pos_integer(),
    %% Whether calls are told with their arguments.
    arguments := boolean(),
    cookie => atom(),
    name => atom()
}.

-type reason() ::
    {not_loaded, node(), Module :: binary(), none | {ok, binary()}}
    | {no_function, node(), Function :: binary(), [binary()], none | {ok, binary()}}
    | {untraceable, Function :: binary()}
    | {no_process, node()}.

-define(TIMEOUT_MS, 30_000).
-define(MOST_NAMED, 5).

-doc "Attaches to a node, and traces there.".
-spec attach(node(), [{pos_integer(), dyno_trace_pattern:t()}], options()) ->
    {ok, t()} | {error, dyno_error:error()}.
attach(Node, Patterns, #{what := What, ends := Ends} = Options) ->
    Modules = dyno_code:closure([
        dyno_agent_guard, dyno_agent_event_watchdog, dyno_agent_trace_functions, consumer(What)
    ]),
    maybe
        {ok, Agent} ?=
            dyno_agent:attach(Node, (maps:with([cookie, name], Options))#{modules => Modules}),
        Target = #{
            node => Node,
            agent => Agent,
            monitor => monitor(process, dyno_agent:guard(Agent)),
            ref => dyno_agent:ref(Agent),
            ahead => ahead(Node),
            ends => Ends
        },
        started(Target, Patterns, Options)
    end.

consumer(events) -> dyno_agent_trace_events;
consumer(_Sums) -> dyno_agent_trace_sums.

%% Less than a millisecond off between two machines, nothing to speak of on one.
ahead(Node) ->
    Read = fun() ->
        {
            erpc:call(Node, erlang, monotonic_time, [nanosecond], ?TIMEOUT_MS),
            erpc:call(Node, erlang, system_time, [nanosecond], ?TIMEOUT_MS)
        }
    end,
    #{monotonic_ns := Ahead} = dyno_target_clock:measure(Read),
    Ahead - erlang:time_offset(nanosecond).

started(#{node := Node, agent := Agent} = Target, Patterns, Options) ->
    maybe
        ok ?= check(Node, Patterns),
        {ok, Watchdog} ?=
            dyno_agent:start(Agent, dyno_agent_event_watchdog, config(Patterns, Options)),
        {ok, Target#{watchdog => Watchdog}}
    else
        {error, {dyno_agent, {failed, Node, no_process}}} ->
            _ = detach([Target]),
            {error, {?MODULE, {no_process, Node}}};
        Error ->
            _ = detach([Target]),
            Error
    end.

config(Patterns, Options) ->
    #{processes := Processes, what := What, ends := Ends, limits := Limits} = Options,
    All = [Pattern || {_, Pattern} <- Patterns],
    Messages = #{
        Kind => Spec
     || Kind <- [send, 'receive'], [_ | _] = Spec <- [dyno_trace_pattern:messages(Kind, All)]
    },
    Functions = dyno_trace_pattern:functions(Patterns, Ends),
    Arity = [arity || not map_get(arguments, Options)],
    #{
        owner => self(),
        limits => Limits,
        plan => Messages#{
            processes => Processes,
            flags => maps:keys(Messages) ++ [call || Functions =/= []] ++ Arity,
            functions => Functions
        },
        consumer => {consumer(What), consumer_config(What, Patterns, Options)}
    }.

consumer_config(events, Patterns, #{count := Count, terms := Terms, ends := Ends}) ->
    #{sink => self(), count => Count, terms => Terms, patterns => wanted(Patterns, Ends)};
consumer_config(What, _Patterns, #{terms := Terms} = Options) ->
    (maps:with([above_ns], Options))#{sink => self(), what => What, terms => Terms}.

wanted(Patterns, Ends) ->
    #{Id => wanted_of(Pattern, Ends) || {Id, Pattern} <- Patterns}.

wanted_of(#{actions := Actions}, Ends) ->
    case {lists:member(return, Actions), lists:member(time, Actions), Ends} of
        {true, _, _} -> value;
        {false, true, _} -> time;
        {false, false, ends} -> value;
        {false, false, as_asked} -> none
    end.

%% Whether the node has the functions that are named.
check(_Node, []) ->
    ok;
check(Node, [{_, #{function := Function}} | Patterns]) ->
    try erpc:call(Node, dyno_agent_trace_functions, check, [Function], ?TIMEOUT_MS) of
        ok -> check(Node, Patterns);
        Wrong -> {error, {?MODULE, reason(Wrong, Function, Node)}}
    catch
        error:{erpc, _} -> {error, {dyno_agent, {node_down, Node}}}
    end;
check(Node, [_Messages | Patterns]) ->
    check(Node, Patterns).

reason({not_loaded, Loaded}, {Module, _, _}, Node) ->
    Name = dyno_agent_name:module(Module),
    Names = [dyno_agent_name:module(Of) || Of <- Loaded],
    {not_loaded, Node, Name, dyno_similar:nearest(Name, Names)};
reason({no_function, Functions}, {Module, Function, _} = Meant, Node) ->
    Arities = [printed({Module, F, A}) || {F, A} <- lists:sort(Functions), F =:= Function],
    Names = lists:usort([printed({Module, F, '_'}) || {F, _} <- Functions]),
    Nearest = dyno_similar:nearest(printed({Module, Function, '_'}), Names),
    {no_function, Node, printed(Meant), Arities, Nearest};
reason(untraceable, Function, _Node) ->
    {untraceable, printed(Function)}.

printed({M, F, '_'}) -> dyno_trace_item:name(M, F);
printed(MFA) -> dyno_agent_name:mfa(MFA).

-doc "Traces other functions from now on.".
-spec change(t(), [{pos_integer(), dyno_trace_pattern:t()}]) ->
    ok | {error, dyno_error:error()}.
change(#{node := Node, watchdog := Watchdog, ends := Ends}, Patterns) ->
    maybe
        ok ?= check(Node, Patterns),
        called(fun() ->
            dyno_agent_event_watchdog:change(
                Watchdog,
                dyno_trace_pattern:functions(Patterns, Ends),
                {patterns, wanted(Patterns, Ends)}
            )
        end)
    end.

-doc "Traces no more; the last event is `stopped`.".
-spec stop(t()) -> ok.
stop(#{watchdog := Watchdog}) ->
    called(fun() -> dyno_agent_event_watchdog:stop(Watchdog) end).

%% A node that is lost says so by itself.
called(Call) ->
    try
        Call()
    catch
        exit:_ -> ok
    end.

-doc "Leaves the nodes.".
-spec detach([map()]) -> [dyno_target_visit:t()].
detach(Targets) ->
    lists:foreach(fun(#{monitor := Monitor}) -> demonitor(Monitor, [flush]) end, Targets),
    dyno_agent:detach_all([Agent || #{agent := Agent} <- Targets]).

-spec format_error(reason()) -> unicode:chardata().
format_error({not_loaded, Node, Module, Nearest}) ->
    io_lib:format("~ts has no module ~ts, neither loaded nor on its code path~ts", [
        Node, Module, meant(Nearest)
    ]);
format_error({no_function, Node, Function, [], Nearest}) ->
    io_lib:format("~ts has no function ~ts~ts", [Node, Function, meant(Nearest)]);
format_error({no_function, Node, Function, Arities, _Nearest}) ->
    io_lib:format("~ts has no ~ts; it has ~ts", [
        Node, Function, lists:join(", ", lists:sublist(Arities, ?MOST_NAMED))
    ]);
format_error({untraceable, Function}) ->
    io_lib:format(
        "~ts can't be traced: the compiler makes an instruction of it, so nothing calls it; trace "
        "the function that uses it",
        [Function]
    );
format_error({no_process, Node}) ->
    io_lib:format("no process of ~ts is what --process says", [Node]).

meant({ok, Name}) -> ["; did you mean ", Name, "?"];
meant(none) -> "".
