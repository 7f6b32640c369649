%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_trace_target).
-moduledoc false.
%% A traced node: the watchdog there, with one consumer.

-export([hold/3, change/2, stop/1, format_error/1]).
-export_type([t/0, options/0, reason/0]).

-type t() :: #{
    node := node(),
    watchdog := pid(),
    %% The lead of the node's monotonic time over this node's time of day.
    ahead := integer(),
    records := dyno_trace_term:records(),
    ends := ends | times | as_asked,
    atom() => term()
}.

-type options() :: #{
    processes := [dyno_agent_process_filter:selector()],
    what := events | latency | {argument, pos_integer()},
    %% Whether each call's end is traced, for a tree or for times.
    ends := ends | times | as_asked,
    count := pos_integer() | infinity,
    limits := dyno_agent_event_watchdog:limits(),
    terms := dyno_agent_event_term:limits(),
    above_ns => pos_integer(),
    arguments := boolean(),
    cookie => atom(),
    name => atom()
}.

-type reason() ::
    {not_loaded, node(), Module :: binary(), none | {ok, binary()}}
    | {no_function, node(), Function :: binary(), [binary()], none | {ok, binary()}}
    | {untraceable, Function :: binary()}
    | {no_process, node()}
    | {no_argument, Function :: binary(), Number :: pos_integer(), Arity :: arity()}.

-define(TIMEOUT_MS, 30_000).
-define(MOST_NAMED, 5).
%% The limits for reading field names: modules, size, time.
-define(MOST_MODULES, 10).
-define(MOST_BYTES, 2_000_000).
-define(RECORDS_MS, 2_000).

-spec hold(node(), [{pos_integer(), dyno_trace_pattern:t()}], options()) -> dyno_error:result(t()).
hold(Node, Patterns, #{what := What} = Options) ->
    Modules = dyno_code:closure([
        dyno_agent_guard, dyno_agent_event_watchdog, dyno_agent_trace_functions, consumer(What)
    ]),
    dyno_target:hold(Node, (maps:with([cookie, name], Options))#{modules => Modules}, fun(Bare) ->
        traced(Bare, Patterns, Options)
    end).

consumer(events) -> dyno_agent_trace_events;
consumer(_Sums) -> dyno_agent_trace_sums.

%% Within a millisecond between two machines, negligible on one.
ahead(Node) ->
    Read = fun() ->
        {
            erpc:call(Node, erlang, monotonic_time, [nanosecond], ?TIMEOUT_MS),
            erpc:call(Node, erlang, system_time, [nanosecond], ?TIMEOUT_MS)
        }
    end,
    #{monotonic_ns := Ahead} = dyno_target_clock:measure(Read),
    Ahead - erlang:time_offset(nanosecond).

traced(#{node := Node, agent := Agent} = Bare, Patterns, #{ends := Ends} = Options) ->
    maybe
        Ahead = ahead(Node),
        ok ?= check(Node, Patterns),
        ok ?= arguments(Node, Patterns, Options),
        Records = records(Node, Patterns),
        {ok, Watchdog} ?=
            dyno_agent:start(Agent, dyno_agent_event_watchdog, config(Patterns, Options)),
        {ok, Bare#{watchdog => Watchdog, ahead => Ahead, records => Records, ends => Ends}}
    else
        {error, {dyno_agent, {failed, Node, no_process}}} -> {error, {?MODULE, {no_process, Node}}};
        Error -> Error
    end.

config(Patterns, Options) ->
    #{processes := Processes, what := What, ends := Ends, limits := Limits} = Options,
    All = [Pattern || {_, Pattern} <- Patterns],
    Messages =
        #{
            Event => Spec
         || Event <- [send, 'receive'], [_ | _] = Spec <- [dyno_trace_pattern:messages(Event, All)]
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
        {false, false, as_asked} -> none;
        {false, false, _} -> value
    end.

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

arguments(Node, Patterns, #{what := {argument, Number}}) ->
    TooFew = [
        {?MODULE, {no_argument, printed(Function), Number, Arity}}
     || {_, #{function := Function}} <- Patterns,
        Arity <- [most_arguments(Node, Function)],
        Arity < Number
    ],
    case TooFew of
        [] -> ok;
        [Error | _] -> {error, Error}
    end;
arguments(_Node, _Patterns, _Options) ->
    ok.

%% `infinity` is more than any number.
most_arguments(_Node, {_, _, Arity}) when is_integer(Arity) ->
    Arity;
most_arguments(_Node, {'_', _, _}) ->
    infinity;
most_arguments(Node, {Module, Function, '_'}) ->
    try erpc:call(Node, erlang, get_module_info, [Module, functions], ?TIMEOUT_MS) of
        Functions ->
            lists:max([0 | [A || {F, A} <- Functions, Function =:= '_' orelse F =:= Function]])
    catch
        error:_ -> infinity
    end.

%% From the file on this machine if the node has loaded the same, otherwise from the node.
records(Node, Patterns) ->
    Modules = lists:usort([M || {_, #{function := {M, _, _}}} <- Patterns, M =/= '_']),
    lists:foldl(
        fun(Module, Known) -> maps:merge(Known, records_of(Node, Module)) end,
        #{},
        lists:sublist(Modules, ?MOST_MODULES)
    ).

records_of(Node, Module) ->
    try
        Md5 = erpc:call(Node, erlang, get_module_info, [Module, md5], ?RECORDS_MS),
        Path = erpc:call(Node, code, which, [Module], ?RECORDS_MS),
        {ok, Beam} = object(Node, Module, Path, Md5),
        dyno_trace_term:records(Beam)
    catch
        %% Its records are shown as tuples.
        _:_ -> #{}
    end.

object(Node, Module, Path, Md5) ->
    Bytes = filelib:file_size(Path),
    case Bytes > 0 andalso Bytes =< ?MOST_BYTES andalso file:read_file(Path) of
        {ok, Beam} ->
            {ok, {Module, Md5}} = beam_lib:md5(Beam),
            {ok, Beam};
        _ ->
            {Module, Beam, _} = erpc:call(Node, code, get_object_code, [Module], ?RECORDS_MS),
            true = byte_size(Beam) =< ?MOST_BYTES,
            {ok, Beam}
    end.

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

-spec change(t(), [{pos_integer(), dyno_trace_pattern:t()}]) -> dyno_error:result().
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

-spec stop(t()) -> ok.
stop(#{watchdog := Watchdog}) ->
    called(fun() -> dyno_agent_event_watchdog:stop(Watchdog) end).

%% The loss of a node is reported separately.
called(Call) ->
    try
        Call()
    catch
        exit:_ -> ok
    end.

-spec format_error(reason()) -> unicode:chardata().
format_error({not_loaded, Node, Module, Nearest}) ->
    io_lib:format("~ts has no module ~ts, neither loaded nor on its code path~ts", [
        Node, Module, dyno_similar:meant(Nearest)
    ]);
format_error({no_function, Node, Function, [], Nearest}) ->
    io_lib:format("~ts has no function ~ts~ts", [Node, Function, dyno_similar:meant(Nearest)]);
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
format_error({no_argument, Function, Number, 0}) ->
    io_lib:format("~ts has no arguments, so --args ~b shows nothing", [Function, Number]);
format_error({no_argument, Function, Number, Arity}) ->
    io_lib:format("~ts has no argument ~b: --args takes 1 to ~b", [Function, Number, Arity]);
format_error({no_process, Node}) ->
    io_lib:format("no process of ~ts is one that --process names", [Node]).
